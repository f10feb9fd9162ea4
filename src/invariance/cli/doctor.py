"""``invariance doctor``: what is installed, what is found, what to do."""

import os
import shutil
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import typer

from invariance.cli.options import Json, out, print_json
from invariance.core.text import clean

EXTRAS = {
    "report": ("jinja2", "matplotlib"),
    "tune": ("optuna", "matplotlib"),
    "ray": ("ray",),
    "onnx": ("onnx", "onnxruntime"),
    "tensorboard": ("tensorboard",),
    "mlflow": ("mlflow",),
    "wandb": ("wandb",),
}
"""The modules of each extra; a test compares the names with those of the package."""
PACKAGES = ("invariance", "torch", "numpy", "scikit-learn", "pyarrow", "typer")
LOW_SPACE = 1 << 30


class Finding(NamedTuple):
    """Something that was looked at: whether it is as it should be, what it is, and what to do if not."""

    name: str
    ok: bool
    state: str
    advice: str = ""


def doctor(as_json: Json = False) -> None:
    """Say which versions, devices, data and folders this installation has, and what to do about what is missing.

    Lines begin with ok, optional (not there, and needed only for some things) or FAILED; then the exit code is 1.
    """
    findings = [*_versions(), *_devices(), *_extras(), *_data(), *_folders()]
    if as_json:
        print_json([finding._asdict() for finding in findings])
    else:
        for finding in findings:
            mark = "FAILED" if not finding.ok else "optional" if finding.advice else "ok"
            line = f"{mark:8} {finding.name}: {finding.state}"
            advice = f" → {finding.advice}" if finding.advice else ""
            out().print(clean(line + advice), highlight=False, markup=False, soft_wrap=True)
    if any(not finding.ok for finding in findings):
        raise typer.Exit(1)


def _versions() -> list[Finding]:
    import platform

    return [Finding("python", True, platform.python_version())] + [_package(name) for name in PACKAGES]


def _package(name: str) -> Finding:
    try:
        return Finding(name, True, version(name))
    except PackageNotFoundError:
        return Finding(name, False, "not installed", f"pip install {name}")


def _devices() -> list[Finding]:
    import torch

    from invariance.core.provenance import cores

    gpus = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    gpus += ["mps"] if torch.backends.mps.is_available() else []
    threads = os.environ.get("OMP_NUM_THREADS", "not set")
    return [
        Finding("devices", True, ", ".join(["cpu", *gpus])),
        Finding(
            "threads", True, f"{cores()} cores, {torch.get_num_threads()} torch threads, OMP_NUM_THREADS {threads}"
        ),
    ]


def _extras() -> list[Finding]:
    findings = []
    for extra, modules in EXTRAS.items():
        missing = [name for name in modules if find_spec(name) is None]
        state = f"without {', '.join(missing)}" if missing else "installed"
        advice = f"if you need it: pip install 'invariance[{extra}]'" if missing else ""
        findings.append(Finding(f"extra {extra}", True, state, advice))
    return findings


def _data() -> list[Finding]:
    """Every data set with files: all found, some, none or damaged."""
    from invariance.core.errors import DataError
    from invariance.data import DATA
    from invariance.data.formats.downloads import locate

    findings = []
    for name, cls in DATA.classes.items():
        if not cls.files:
            if state := DATA.create(name).availability():
                advice = "" if state.here == "complete" else f"see: invariance data check {name}"
                findings.append(Finding(f"data {name}", True, f"{state.here}, {state.about}", advice))
            continue
        try:
            places = [locate(file) for file in cls.files]
        except DataError as error:
            findings.append(Finding(f"data {name}", False, str(error), "remove the file and fetch it again"))
            continue
        here = sum(place is not None for place in places)
        advice = "" if here == len(places) else f"invariance data fetch {name}, or set INVARIANCE_DATA"
        findings.append(Finding(f"data {name}", True, f"{here} of {len(places)} files", advice))
    return findings


def _folders() -> list[Finding]:
    from invariance.data.formats.downloads import cache_folder

    given = os.environ.get("INVARIANCE_DATA")
    findings = [_writable("cache", cache_folder()), _writable("working folder", Path.cwd())]
    if given and not Path(given).is_dir():
        findings.append(Finding("INVARIANCE_DATA", False, f"{given} is no folder", "set it to the folder of the data"))
    return findings


def _writable(name: str, folder: Path) -> Finding:
    """Whether a folder, or the one that it would be made in, can be written to, and how much space is left."""
    place = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not place.is_dir() or not os.access(place, os.W_OK):
        return Finding(name, False, f"{folder} cannot be written to", "choose another, or change its permissions")
    free: Any = shutil.disk_usage(place).free
    advice = "little space is left" if free < LOW_SPACE else ""
    return Finding(name, True, f"{folder}, {free / 1e9:.1f} GB free", advice)
