"""``invariance cluster``: what Ray sees, and a cluster on this machine for trying."""

from typing import Annotated

import typer

from invariance.cli.follow import Address
from invariance.cli.options import Json, conclude, out, print_json

app = typer.Typer(help="The Ray cluster that `--engine ray` would use, and one on this machine for trying.")


@app.callback(invoke_without_command=True)
def show(context: typer.Context, address: Address = None, as_json: Json = False) -> None:
    """The nodes of a cluster with their cores, GPUs and memory."""
    if context.invoked_subcommand:
        return
    from invariance.core.errors import BadValue
    from invariance.core.ray_cluster import connect, find, nodes

    if not (found := find(address)):
        raise BadValue("no Ray cluster is known here; give --address HOST:PORT, or start one: invariance cluster start")
    machines = nodes(connect(found))
    if as_json:
        print_json({"address": found, "nodes": [node._asdict() for node in machines]})
        return
    from invariance.core.artefacts import Column, Line, Table
    from invariance.report.render.terminal import show as drawn

    lines = [
        Line(node.address, (str(node.cores), str(node.gpus), _gigabytes(node.memory), _gigabytes(node.object_store)))
        for node in machines
    ]
    columns = tuple(map(Column, ("cores", "GPUs", "memory", "object store")))
    out().print(drawn(Table("nodes", f"Ray at {found}", "", "node", columns, tuple(lines))))


def _gigabytes(size: int) -> str:
    return f"{size / 1e9:.1f} GB"


@app.command()
def start(
    cores: Annotated[int | None, typer.Option("--cores", min=1, help="Of this machine (default: all).")] = None,
    as_json: Json = False,
) -> None:
    """Start a cluster on this machine, reachable from this machine alone; `--engine ray` then uses it."""
    from invariance.core.ray_keeper import start as started

    cluster = started(cores)
    line = f"a Ray cluster runs at {cluster.address}; 'invariance cluster stop' stops it"
    conclude(line, {"address": cluster.address}, as_json=as_json)


@app.command()
def stop(as_json: Json = False) -> None:
    """Stop the cluster that `start` started, and no other."""
    from invariance.core.ray_keeper import stop as stopped

    address = stopped().address
    conclude(f"the Ray cluster at {address} is stopped", {"address": address}, as_json=as_json)
