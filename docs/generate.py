"""Write the pages and pictures that come from the code and from the published runs."""

import shutil
from pathlib import Path

from generators import catalogue, commands, methods, pictures, reference

from invariance.experiments.published import published_store
from invariance.experiments.stored_runs import StoredRuns
from invariance.studies import STUDIES
from invariance.studies.support.completeness import plans_with_runs
from invariance.studies.support.results import results

FOLDER = Path(__file__).parent / "generated"
GALLERY = "gallery"
"""What sphinx-gallery writes stays, so that examples that did not change are not run again."""


def write(folder: Path) -> list[Path]:
    """All pages into a folder; what was generated before and is not any more is removed."""
    folder.mkdir(exist_ok=True)
    for old in folder.iterdir():
        if old.name != GALLERY:
            shutil.rmtree(old) if old.is_dir() else old.unlink()
    with published_store() as store:
        stored = StoredRuns(store)
        plans = plans_with_runs([cls() for cls in STUDIES.classes.values()], stored)
        made = {name: {plan.scale: results(plan, stored, "invariant") for plan in own} for name, own in plans.items()}
        pictures.draw(folder, made)
        audit = next(iter(made["audit"].values()))
        texts = dict([*methods.pages(made), *reference.pages(), *commands.pages(), *catalogue.pages(audit)])
    for path, text in texts.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
    return [folder / path for path in texts]


if __name__ == "__main__":
    print(f"{len(write(FOLDER))} pages written to {FOLDER}")
