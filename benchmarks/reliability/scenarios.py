"""What is interrupted: each scenario is what was there before, what is done, and what can be seen afterwards."""

import hashlib
import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pandas as pd
from PIL import Image

import invariance
from invariance.cli import main
from invariance.data.formats.downloads import File, fetch, locate
from invariance.data.images.image_files import listed, pictures
from invariance.experiments.engines.base import Driver
from invariance.experiments.run import digest, execute
from invariance.experiments.spec import Spec
from invariance.experiments.stage_cache import stage_folder
from invariance.experiments.store import Store
from invariance.experiments.worker import Worker
from invariance.tuning.tune import tune as search

Act = Callable[[Path], object]
State = tuple[str, ...]
"""What is there, as names and hashes."""
SMALL = {"data": {"samples": 60}, "recipe": {"epochs": 2, "batch_size": 60}, "evaluation": {"checkpoints": 2}}
COLLAPSED = 3
"""How ``train`` ends where a model, here of a few updates, is no better than a constant."""
DOWNLOAD = bytes(range(256)) * 4000
SETTINGS = ["--set", "data.samples=60", "--set", "recipe.epochs=2", "--set", "evaluation.checkpoints=2"]


@dataclass(frozen=True)
class Scenario:
    """``before`` makes a folder, ``act`` is interrupted in it, ``state`` is what a reader finds there.

    After a fault the state is that of before or that of after; where it is ``growing``, anything in between, each part
    of it whole. ``kills`` says at how many calls it is killed at most, ``others`` how often each other fault is
    injected; one that ``starts_workers`` gets fewer. A scenario with ``words`` is this command in a process of its own.
    """

    name: str
    before: Act
    act: Act
    state: Callable[[Path], State]
    growing: bool = False
    kills: int = 150
    others: int = 6
    starts_workers: bool = False
    words: tuple[str, ...] = ()


def command(*arguments: str) -> None:
    """Run a command of the package in this process."""
    sys.argv = ["invariance", *arguments]
    try:
        main()
    except SystemExit as end:
        if end.code not in (0, COLLAPSED):
            raise


def sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:12]


def table(folder: Path) -> None:
    """A table of three sites."""
    random = np.random.default_rng(0)
    sick = random.integers(0, 2, 90)
    lines = [f"{y + random.normal():.3f},{random.normal():.3f},s{i % 3},{y}" for i, y in enumerate(sick)]
    (folder / "table.csv").write_text("\n".join(["x,z,site,sick", *lines]) + "\n")


def images(folder: Path) -> None:
    """Twelve images in two folders, written once beside ``folder``: a cache is named after when its images changed."""
    random = np.random.default_rng(0)
    for name in () if (folder.parent / "images").exists() else ("a", "b"):
        (place := folder.parent / "images" / name).mkdir(parents=True)
        for i in range(6):
            Image.fromarray(random.integers(0, 255, (20, 20, 3), dtype=np.uint8)).save(place / f"{i}.png")


def specs() -> list[Spec]:
    return [Spec.of("two-bit", "irmv1", "short", seed, SMALL) for seed in range(2)]


def train(seed: int, folder: Path) -> None:
    command("train", "two-bit", "irmv1", *SETTINGS, "--seed", str(seed), "-o", "model", "--overwrite", "--json")


def trained(folder: Path) -> State:
    run, model, _ = invariance.load(folder / "model")
    return (digest(model), str(run.spec.seed))


FIT = ("fit", "table.csv", "--label", "sick", "--method", "erm", "--no-report", "-o", "model", "--overwrite", "--json")


def first_fit(folder: Path) -> None:
    table(folder)
    command(*FIT)


def fitted(folder: Path) -> State:
    """What the model predicts."""
    rows = pd.DataFrame({"x": np.linspace(-2, 2, 10), "z": np.linspace(3, -3, 10)})
    return (sha(invariance.load(folder / "model").predict_proba(rows).tobytes()),)


def predict(folder: Path) -> None:
    command("predict", "model", "table.csv", "-o", "out.csv", "--json")


def work(folder: Path, todo: Sequence[Spec] = (), stages: str = "") -> None:
    """A worker's part, without its driver; Ctrl-C is for the driver."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with Path(os.devnull).open("w") as nobody:
        worker = Worker(folder / "runs.db", 0.0, nobody, stages=stages)
        for spec in todo or specs():
            worker.work(spec)
        worker.store.close()


def work_with_stages(folder: Path) -> None:
    """Two runs that share what comes before the penalty."""
    changes = SMALL | {"recipe": {"epochs": 4, "warmup": 0.5, "batch_size": 20, "penalty_batch_size": 60}}
    shared = [Spec.of("two-bit", method, "two-phase", 0, changes) for method in ("irmv1", "rex")]
    work(folder, shared, str(stage_folder(folder / "runs.db")))


def stored(folder: Path) -> State:
    """Every run, without times."""
    if not (folder / "runs.db").exists() or not (folder / "runs.db").stat().st_size:
        return ()
    with Store(folder / "runs.db") as store:
        records = [store.get(summary.key) for summary in store.summaries()]
    plain = [run.to_json() | {"seconds": 0} for run in records if run and run.status != "failed"]
    return tuple(sorted(sha(json.dumps(record, sort_keys=True).encode()) for record in plain))


def sweep(folder: Path) -> None:
    (folder / "specs.jsonl").write_text("".join(json.dumps(spec.to_json()) + "\n" for spec in specs()))


def tune(folder: Path) -> None:
    """Two trials, their runs made in this process."""

    def run(missing: list[Spec], _: Driver) -> None:
        with Store(folder / "runs.db") as store:
            for spec in missing:
                if not store.has(spec.key):
                    store.add(execute(spec).run)

    search("two-bit", "irmv1", trials=2, changes=SMALL, study=folder / "tune.db", store=folder / "runs.db", run=run)


def build_cache(folder: Path) -> None:
    os.environ["INVARIANCE_CACHE"] = str(folder / "cache")
    pictures(listed(folder.parent / "images", ["a", "b"]), 16, title="images")


def cached(folder: Path) -> State:
    made = sorted((folder / "cache" / "images").glob("images-*/images.npy"))
    return tuple(sha(path.read_bytes()) for path in made if not path.parent.name.endswith(".part"))


@contextmanager
def server(folder: Path) -> Iterator[int]:
    """A server of one file; gives its port."""
    folder.mkdir()
    (folder / "file.bin").write_bytes(DOWNLOAD)
    handler = type("Quiet", (SimpleHTTPRequestHandler,), {"log_message": lambda *_: None})
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(handler, directory=str(folder))) as serving:
        threading.Thread(target=serving.serve_forever, daemon=True).start()
        yield int(serving.server_address[1])
        serving.shutdown()


def download(port: int) -> Scenario:
    """Fetch a file over HTTP into a cache."""
    file = File("file.bin", hashlib.sha256(DOWNLOAD).hexdigest(), (f"http://127.0.0.1:{port}/file.bin",))

    def act(folder: Path) -> None:
        os.environ |= {"INVARIANCE_CACHE": str(folder / "cache"), "INVARIANCE_DATA": ""}
        fetch(file)

    def state(folder: Path) -> State:
        os.environ |= {"INVARIANCE_CACHE": str(folder / "cache"), "INVARIANCE_DATA": ""}
        found = locate(file)  # refuses other bytes
        return (sha(found.read_bytes()),) if found else ()

    return Scenario("download", lambda folder: None, act, state, kills=40)


def reported(folder: Path) -> State:
    """Whether there is a page, and that it is whole."""
    page = folder / "report.html"
    if not page.exists():
        return ()
    return ("whole",) if page.read_text(encoding="utf-8").rstrip().endswith("</html>") else ("half",)


def only(name: str, folder: Path) -> State:
    """One file, byte for byte."""
    return (sha((folder / name).read_bytes()),) if (folder / name).exists() else ()


def scenarios(port: int) -> list[Scenario]:
    """Everything that writes."""
    write_report = partial(command, "report", "-o", "report.html")
    export = partial(command, "runs", "export", "runs.csv")
    run = ("run", "specs.jsonl", "--workers", "1")
    drives = partial(Scenario, before=sweep, state=stored, growing=True, starts_workers=True)
    return [
        Scenario("train --overwrite", partial(train, 0), partial(train, 1), trained),
        Scenario("fit --overwrite", first_fit, lambda folder: command(*FIT, "--seed", "1"), fitted),
        Scenario("predict", first_fit, predict, partial(only, "out.csv")),
        Scenario("worker", lambda folder: None, work, stored, growing=True),
        Scenario("stage cache", lambda folder: None, work_with_stages, stored, growing=True, kills=40, others=3),
        drives("driver", act=lambda folder: command(*run), kills=40, others=4),
        drives("Ray driver", act=lambda folder: None, words=(*run, "--engine", "ray"), kills=8, others=2),
        Scenario("tune", lambda folder: None, tune, stored, growing=True, kills=70, others=4),
        Scenario("image cache", images, build_cache, cached),
        download(port),
        Scenario("report", work, lambda folder: write_report(), reported),
        Scenario("runs export", work, lambda folder: export(), partial(only, "runs.csv")),
    ]
