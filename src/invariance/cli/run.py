"""``invariance run``: specs from a file."""

import json
from pathlib import Path
from typing import Annotated

import typer

from invariance.cli.ending import ended, last_line
from invariance.cli.follow import STORE, Address, EngineName, Fresh, StorePath, Workers, carry_out
from invariance.cli.options import Checkpoints, Device, Json, print_json
from invariance.cli.tracking import Track


def run(
    file: Annotated[Path, typer.Argument(help="Specs as JSON, one per line; 'runs show KEY --json' shows one.")],
    workers: Workers = None,
    engine: EngineName = "local",
    address: Address = None,
    checkpoints: Checkpoints = None,
    device: Device = "cpu",
    fresh: Fresh = False,
    track: Track = None,
    store: StorePath = STORE,
    as_json: Json = False,
) -> None:
    """Run specs from a file: a sweep of your own. Runs that are in the store are not repeated."""
    from invariance.core.errors import BadValue, InvarianceError
    from invariance.experiments.engines import chosen
    from invariance.experiments.spec import Spec

    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError:
        raise BadValue(f"{file} is not UTF-8 text; give specs as JSON, one per line") from None
    specs = []
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                plain = json.loads(line)
                specs.append(Spec.from_json(plain.get("spec", plain)))
            except InvarianceError as error:
                raise BadValue(f"{file}, line {number}: {error}") from None
            except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
                reason = " ".join(f"{type(error).__name__}: {error}".split())
                raise BadValue(f"{file}, line {number} holds no spec as JSON ({reason})") from None
    if not specs:
        raise BadValue(f"{file} holds no spec; give specs as JSON, one per line")
    made_by = chosen(engine, workers=workers, address=address, device=device, fresh=fresh, checkpoints=checkpoints)
    reuse = carry_out(specs, store, made_by, track)
    reuse.say()
    how = ended(specs, store)
    if as_json:
        print_json({"store": str(store), "runs": how.runs, "status": dict(how.counts)})
    last_line(f"{len(specs)} runs: see 'invariance runs list --store {store}'", how, quiet=as_json)
