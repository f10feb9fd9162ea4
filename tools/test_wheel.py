"""Build sdist and wheel, install the wheel into an empty environment, and use it there as a stranger would.

The package that is tested is the installed one: commands run in an empty folder, without extras, and what needs one
must name it in one line. ``--versions lowest`` installs the lowest version of every dependency that pyproject.toml
allows, ``newest`` the newest; otherwise constraints.txt decides, as for ``make test``.
"""

import argparse
import csv
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
SMALL = [
    "--data",
    "two-bit",
    "--set",
    "data.samples=300",
    "--set",
    "recipe.epochs=40",
    "--seeds",
    "1",
    "--workers",
    "1",
]


class Installed:
    """An environment with the wheel in it, and a folder to work in."""

    def __init__(self, folder: Path, python: str) -> None:
        self.work = folder / "work"
        self.work.mkdir()
        self.bin = folder / "venv/bin"
        run([python, "-m", "venv", str(folder / "venv")], folder)

    def install(self, wheel: Path, constraints: str) -> None:
        """Install the wheel, without extras."""
        (file := self.work.parent / "constraints.txt").write_text(constraints, encoding="utf-8")
        run(
            [str(self.bin / "pip"), "install", "--quiet", "--no-compile", "--constraint", str(file), str(wheel)],
            self.work,
        )

    def invariance(self, *arguments: str, code: int = 0) -> str:
        """Run the command; returns what it printed, errors included."""
        return run([str(self.bin / "invariance"), *arguments], self.work, code)

    def versions(self) -> str:
        """What is installed, of what computes."""
        found = run([str(self.bin / "pip"), "list", "--format=freeze"], self.work).split()
        return ", ".join(
            line for line in found if re.match(r"(torch|numpy|scipy|scikit-learn|pyarrow|pydantic)==", line)
        )


def run(command: list[str], folder: Path, code: int = 0) -> str:
    """Run a command in a folder; ends the test if it does not end as expected."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != code:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}, expected {code}:\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def expect(condition: bool, claim: str, shown: str) -> None:
    """End the test where a claim does not hold."""
    if not condition:
        sys.exit(f"does not hold: {claim}\n{shown}")
    print(f"  {claim}", flush=True)


def build(folder: Path) -> Path:
    """The wheel, made from the sdist as an index would get it."""
    run([sys.executable, "-m", "build", "--outdir", str(folder / "dist"), str(ROOT)], folder)
    (wheel,) = (folder / "dist").glob("*.whl")
    (sdist,) = (folder / "dist").glob("*.tar.gz")
    print(f"{sdist.name} {sdist.stat().st_size / 1e6:.1f} MB, {wheel.name} {wheel.stat().st_size / 1e6:.1f} MB")
    return wheel


def constraints(which: str) -> str:
    """Versions of dependencies: ours, the lowest that are allowed, or any."""
    if which == "ours":
        return (ROOT / "constraints.txt").read_text(encoding="utf-8")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lowest = [re.sub(r">=([\d.]+)", r"==\1.*", line) for line in project["dependencies"]]
    return "\n".join(lowest if which == "lowest" else [])


def table(path: Path) -> None:
    """A small table from three sites."""
    with path.open("w", newline="", encoding="utf-8") as file:
        out = csv.writer(file)
        out.writerow(["age", "ward", "site", "sick"])
        out.writerows([20 + i % 47, "ab"[i % 2], "xyz"[i % 3], "yes" if i % 47 > 20 else "no"] for i in range(180))


def use(installed: Installed) -> None:
    """What a stranger does first."""
    where = run([str(installed.bin / "python"), "-c", "import invariance; print(invariance.__file__)"], installed.work)
    expect("site-packages" in where, "the installed package is used", where)
    shown = installed.invariance("compare", "--methods", "erm,irmv1", *SMALL)
    expect("IRMv1" in shown, "compare shows its table", shown)
    expect("invariance[report]" in shown, "compare names the extra that a picture needs", shown)
    table(installed.work / "patients.csv")
    given = ("patients.csv", "--label", "sick", "--environment", "site", "--method", "erm")
    shown = installed.invariance("fit", *given, "--no-report")
    expect((installed.work / "model/manifest.json").is_file(), "fit saves a model", shown)
    shown = installed.invariance("predict", "model", "patients.csv")
    rows = len((installed.work / "predictions.csv").read_text(encoding="utf-8").splitlines())
    expect(rows == 181, "predict writes a row for each", shown)
    shown = installed.invariance("fit", *given, "-o", "other")
    expect((installed.work / "other/report.html").is_file(), "fit writes its report without an extra", shown)
    for command in (["report", "--format", "svg"], ["export", "model"]):
        shown = installed.invariance(*command, code=1)
        named = shown.startswith("error: ") and shown.count("\n") == 1 and "pip install 'invariance[" in shown
        expect(named, f"{command[0]} names its extra in one line", shown)
    shown = installed.invariance("doctor")
    missing = all(f"extra {extra}: without " in shown for extra in ("report", "tune", "ray", "onnx", "wandb"))
    expect(missing, "doctor says which extras are not there", shown)


def runs(python: str) -> bool:
    """Whether an interpreter is here; pyenv has a command for every version, and not all of them run."""
    found = shutil.which(python)
    return found is not None and subprocess.run([found, "--version"], capture_output=True, check=False).returncode == 0


def main() -> None:
    """Build, install and use."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", default=sys.executable, help="the interpreter to install into")
    parser.add_argument("--versions", choices=["ours", "lowest", "newest"], default="ours")
    given = parser.parse_args()
    if not runs(given.python):
        print(f"{given.python}: not here, not tested")
        return
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        wheel = build(folder)
        installed = Installed(folder, given.python)
        installed.install(wheel, constraints(given.versions))
        print(f"{given.python}, {given.versions} versions: {installed.versions()}")
        use(installed)
    print(f"passed in {time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
