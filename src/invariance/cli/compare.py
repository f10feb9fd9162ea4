"""``invariance compare``: the main job."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from invariance.cli import completion
from invariance.cli.ending import INCOMPLETE, ended, last_line
from invariance.cli.follow import STORE, Address, EngineName, Fresh, StorePath, Workers, carry_out
from invariance.cli.options import (
    MAX_SEEDS,
    Changes,
    Checkpoints,
    Device,
    Json,
    RecipeName,
    draw,
    errors,
    out,
    print_json,
    say,
    writable,
)
from invariance.cli.tracking import Track
from invariance.core.text import clean

if TYPE_CHECKING:
    from invariance.experiments.spec import Spec
    from invariance.studies.support.comparison import Comparison

PICTURE = Path("invariance-compare.png")


def compare(
    data: Annotated[
        str, typer.Option("--data", help="The data set (see: list data).", autocompletion=completion.data)
    ] = "colored-digits",
    methods: Annotated[
        str, typer.Option("--methods", help="Names joined by commas, or 'all'.", autocompletion=completion.methods)
    ] = "all",
    recipe: RecipeName = "default",
    seeds: Annotated[
        int, typer.Option("--seeds", min=1, max=MAX_SEEDS, help="How many seeds; every method is trained with each.")
    ] = 3,
    first_seed: Annotated[int, typer.Option("--first-seed", min=0, help="The first of these seeds.")] = 0,
    workers: Workers = None,
    engine: EngineName = "local",
    address: Address = None,
    checkpoints: Checkpoints = None,
    device: Device = "cpu",
    fresh: Fresh = False,
    track: Track = None,
    selection: Annotated[
        str,
        typer.Option(
            "--selection",
            help="Which checkpoint counts: invariant, last, training-domain, leave-one-environment-out, oracle.",
        ),
    ] = "invariant",
    changes: Changes = None,
    store: StorePath = STORE,
    picture: Annotated[
        Path | None, typer.Option("--picture", help="Where the curves go (default: invariance-compare.png).")
    ] = None,
    as_json: Json = False,
) -> None:
    """Train several methods with several seeds and show which of them rely on the spurious cue."""
    if errors().is_terminal and not as_json:  # before the imports, which take a while
        say(f"comparing methods on {clean(data)} …")
    from invariance.experiments.engines import chosen
    from invariance.experiments.store import Store
    from invariance.experiments.stored_runs import StoredRuns
    from invariance.studies.support.results import held_out, results, specs
    from invariance.training.selection import rule

    rule(selection)
    if picture or not as_json:
        writable(picture or PICTURE, ".png", ".jpg", ".pdf", ".svg")
    plan = _comparison(data, methods, recipe, changes or []).plan("full")
    needed = specs(plan, seeds, first_seed=first_seed)
    needed += held_out(needed, selection)
    made_by = chosen(engine, workers=workers, address=address, device=device, fresh=fresh, checkpoints=checkpoints)
    reuse = carry_out(needed, store, made_by, track)
    with Store(store) as runs:
        compared = results(plan, StoredRuns(runs), selection, seeds=range(first_seed, first_seed + seeds))
    table, curves = plan.study.show(compared)
    rows = [row for arm in plan.arms if (row := compared.row(arm))]
    if as_json:
        print_json([row.to_json() for row in rows])
    else:
        from invariance.report.render.terminal import show

        out().print(show(table))
    if picture or not as_json:
        draw(curves, picture or PICTURE, "curves", quiet=as_json)
    if not as_json:
        reuse.say()
    last_line("", ended(needed, store), quiet=as_json)
    if not any(row.chosen for row in rows):
        raise typer.Exit(INCOMPLETE)


def _comparison(data: str, methods: str, recipe: str, changes: list[str]) -> "Comparison":
    """The study of these methods: ERM first, the oracle last."""
    from invariance.experiments.spec import Spec, parse_changes
    from invariance.methods import METHODS
    from invariance.studies.support.comparison import Comparison

    names = list(METHODS.classes) if methods == "all" else methods.split(",")
    names = list({METHODS[name.strip()]: name.strip() for name in names}.values())
    names.sort(key=lambda name: (METHODS[name].oracle, METHODS[name].needs_environments, METHODS[name].title))
    fields = _by_method(names, parse_changes(changes))
    specs = [Spec.of(data, name, recipe, 0, fields[name]) for name in names]
    return Comparison(_different(specs) if methods == "all" else specs)


def _different(specs: "list[Spec]") -> "list[Spec]":
    """Without methods that, as they stand, are another one: Subset ERM that leaves no input out is ERM."""
    from invariance.recipes.schedules import Clock

    last = Clock(1, 2, 0)
    same = {
        (s.method.decided_by(last, sliced=False) or s.method_name, s.method.oracle, s.recipe): s for s in specs[::-1]
    }
    return [spec for spec in specs if spec in same.values()]


def _by_method(names: list[str], changes: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Changes of the method go to every method that has the field; one of them must."""
    from invariance.core.catalogue import defaults
    from invariance.core.errors import UnknownName
    from invariance.methods import METHODS

    known = {name: defaults(METHODS[name]).keys() for name in names}
    everywhere = {field for fields in known.values() for field in fields}
    wanted = changes.get("method", {})
    if unknown := wanted.keys() - everywhere:
        raise UnknownName.of("field of these methods", min(unknown), everywhere)
    return {
        name: changes | {"method": {field: value for field, value in wanted.items() if field in known[name]}}
        for name in names
    }
