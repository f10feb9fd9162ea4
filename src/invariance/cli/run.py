"""``invariance run``: specs from a file."""

import json
from pathlib import Path
from typing import Annotated

import typer

from invariance.cli.follow import (
    STORE,
    Address,
    Checkpoints,
    EngineName,
    StorePath,
    Workers,
    carry_out,
    ended,
    last_line,
)
from invariance.cli.options import Device


def run(
    file: Annotated[Path, typer.Argument(help="Specs as JSON, one per line; 'runs show KEY --json' shows one.")],
    workers: Workers = None,
    engine: EngineName = "local",
    address: Address = None,
    checkpoints: Checkpoints = None,
    device: Device = "cpu",
    store: StorePath = STORE,
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
    carry_out(specs, store, chosen(engine, workers=workers, address=address, device=device, checkpoints=checkpoints))
    last_line(f"{len(specs)} runs: see 'invariance runs list --store {store}'", ended(specs, store))
