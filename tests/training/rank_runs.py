"""Trains the same cases on 1, 2 and 4 ranks, real processes that talk by gloo, and writes the weights to a folder.

torch is imported once: the ranks are forks of this process. Everything that a run may have is trained for a few
updates, in float64, where nothing hides behind rounding; with ``single``, methods for 20, and in float32 too.
"""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.distributed import TCPStore
from torch.multiprocessing.spawn import start_processes

from invariance.cli import main
from invariance.core.catalogue import defaults
from invariance.core.environment import Environment
from invariance.core.families import Bernoulli, Categorical, Family, Gaussian
from invariance.core.ranks import joined, leads
from invariance.core.seeding import generator
from invariance.data.two_bit import TwoBit
from invariance.experiments import resume
from invariance.experiments.run import ResumeState, execute, resume_state
from invariance.experiments.spec import Spec, parse_changes
from invariance.methods import METHODS
from invariance.methods.base import Method
from invariance.methods.bloc_irm import BLOCIRM
from invariance.methods.env_poe import EnvPoE
from invariance.methods.erm import ERM
from invariance.methods.fishr import Fishr
from invariance.methods.irm_game import IRMGame
from invariance.methods.irmv0 import IRMv0
from invariance.methods.irmv1 import IRMv1
from invariance.methods.sparse_irm import SparseIRM
from invariance.models.base import Model, linear
from invariance.models.linear import Linear
from invariance.recipes.presets import recipe
from invariance.training.train import train


def smooth(*, deep: bool = False, outputs: int = 1) -> Model:
    random = generator(0, "weights")
    head: nn.Module = linear(4, outputs, random)
    if deep:
        head = nn.Sequential(linear(4, 3, random), nn.Tanh(), linear(3, outputs, random))
    return Model(nn.Sequential(linear(3, 4, random), nn.Tanh()), head)


def unequal(family: Family = Bernoulli(), *, weighted: bool = False) -> list[Environment]:  # noqa: B008
    """The smallest environment has fewer rows than there are ranks; no size is a multiple of 4."""
    made = []
    for name, rows in (("a", 9), ("b", 3), ("c", 14)):
        random = generator(0, "data", name)
        x = torch.randn(rows, 3, generator=random)
        y = torch.randint(max(2, family.labels), (rows,), generator=random).to(x.dtype)
        made.append(Environment(name, x, y, torch.arange(1.0, rows + 1) if weighted else None))
    return made


def normalised() -> Model:
    random = generator(0, "weights")
    first = linear(3, 4, random)
    first.register_parameter("bias", None)  # its gradient would be rounding alone, which Adam scales to full steps
    return Model(nn.Sequential(first, nn.BatchNorm1d(4), nn.Tanh()), linear(4, 1, random))


def pixels() -> Model:
    random = generator(0, "weights")
    return Model(nn.Sequential(nn.Flatten(), linear(48, 4, random), nn.Tanh()), linear(4, 1, random))


def images() -> list[Environment]:
    made = []
    for name, shift in (("a", 0), ("b", 60)):
        random = generator(0, "images", name)
        x = torch.randint(0, 190, (11, 3, 4, 4), generator=random) + shift
        made.append(Environment(name, x.to(torch.uint8), torch.randint(2, (11,), generator=random)))
    return made


def cues() -> list[Environment]:
    return list(TwoBit(samples=500).load(0).train)


@dataclass(frozen=True)
class Case:
    """A training, by default of five updates on full batches of unequal environments, three of them with a penalty."""

    method: Method
    recipe: dict[str, Any] = field(default_factory=dict)
    data: Callable[[], list[Environment]] = unequal
    model: Callable[[], Model] = smooth
    family: Family = Bernoulli()  # noqa: RUF009 - frozen

    def states(self, resume: dict[str, Tensor] | None = None, snapshots: int = 1) -> Iterator[dict[str, Tensor]]:
        """The last state, or that after every update."""
        how = recipe("full-batch", changes={"epochs": 5, "lr": 0.01, "warmup": 0.4} | self.recipe)
        made = train(
            self.model(), self.method, self.data(), how, family=self.family, seed=1, snapshots=snapshots, state=resume
        )
        return (snapshot.state() for snapshot in made)


UPDATES = 20 if "single" in sys.argv else 8
EVERY_METHOD = {
    name: Case(
        METHODS.create(name, {"gamma": 10} if "gamma" in defaults(cls) else {}), {"epochs": UPDATES, "warmup": 0.25}
    )
    for name, cls in METHODS.classes.items()
}
VARIANTS = {
    "irmv1, growing batches": Case(IRMv1(gamma=10), {"epochs": 2, "batch_size": 9, "penalty_batch_size": 14}),
    "irmv1, split": Case(IRMv1(gamma=10, estimator="split")),
    "irmv0, deep head": Case(IRMv0(gamma=10, estimator="split"), model=lambda: smooth(deep=True)),
    "irmv0, head first": Case(IRMv0(gamma=10, head_steps=2)),
    "irmv0, head first, deep head": Case(IRMv0(gamma=10, head_steps=2), model=lambda: smooth(deep=True)),
    "fishr, deep head": Case(Fishr(gamma=10), model=lambda: smooth(deep=True)),
    "fishr, moving average": Case(Fishr(gamma=10, ema=0.9)),
    "bloc-irm, adam": Case(BLOCIRM(gamma=10, inner_optimiser="adam", inner_steps=2, limit_inner_lr=True)),
    "bloc-irm, deep head": Case(BLOCIRM(gamma=10, inner_steps=2), model=lambda: smooth(deep=True)),
    "sparse-irm, half of the weights": Case(SparseIRM(gamma=10, keep=0.5)),
    "irm-game, stops early": Case(IRMGame(stop_below=0.95)),
    "irm-game, relaxed": Case(IRMGame(order="turns", warm_up="erm", feature_rate=0.0, relaxation=3.0, stop_at=1.0)),
    "irmv1, weighted rows": Case(IRMv1(gamma=10), data=lambda: unequal(weighted=True)),
    "irmv1, sam": Case(IRMv1(gamma=10), {"gradient": "sam"}),
    "irmv1, lalr": Case(IRMv1(gamma=10), {"step": "lalr"}),
    "irmv1, averaged weights and input dropout": Case(IRMv1(gamma=10), {"average": 0.5, "dropout": 0.3, "step": "sgd"}),
    "irmv1, three classes": Case(
        IRMv1(gamma=10),
        data=lambda: unequal(Categorical(3)),
        model=lambda: smooth(outputs=3),
        family=Categorical(3),
    ),
    "irmv0, regression": Case(IRMv0(gamma=10), data=lambda: unequal(Gaussian()), family=Gaussian()),
    "irmv1, batch normalisation": Case(IRMv1(gamma=10), {"average": 0.4}, model=normalised),
    "erm, augmentation of images": Case(ERM(), {"augment": {"shift": 1}, "batch_size": 6, "epochs": 1}, images, pixels),
    "env-poe, a cue is found": Case(
        EnvPoE(), {"batch_size": 301, "epochs": 2, "debias": 2, "dropout": 0.2}, cues, lambda: Linear().build((2,), 1)
    ),
}
CASES = EVERY_METHOD | VARIANTS
COMMANDS = {
    "train": [
        *("train", "two-bit", "erm", "--recipe", "full-batch", "--json", "-o", "run"),
        *("--set", "data.samples=51", "--set", "recipe.epochs=30", "--set", "recipe.lr=0.01"),
    ],
    "compare": ["compare", "--methods", "erm"],
}
FEWER = EVERY_METHOD | {name: VARIANTS[name] for name in [*list(VARIANTS)[-3:], "irm-game, stops early"]}
"""Enough for four ranks beside two: every method, and what depends on the number of ranks in a way of its own."""
RESUMED = {"fishr, moving average": 3, "bloc-irm, adam": 2, "env-poe, a cue is found": 4}
"""After how many updates; the last one is then still learning to tell environments apart."""


def train_all(cases: dict[str, Case], dtype: torch.dtype, folder: Path, ranks: int) -> None:
    """Write the final weights of every case; two ranks also leave the states to resume from."""
    torch.set_default_dtype(dtype)
    ends: dict[str, Tensor] = {}
    for name, case in cases.items():
        states = list(case.states(snapshots=10**6 if name in RESUMED else 1))
        ends |= {f"{name}|{k}": v for k, v in states[-1].items()}
        if ranks == 2 and name in RESUMED and leads():
            save_file(states[RESUMED[name] - 1], folder / f"{name}.safetensors")
    if leads():
        save_file(ends, folder / f"{dtype} on {ranks}.safetensors")


def resume_all(folder: Path, ranks: int) -> None:
    """Go on where two ranks were."""
    ends: dict[str, Tensor] = {}
    for name in RESUMED:
        *_, last = CASES[name].states(load_file(folder / f"{name}.safetensors"))
        ends |= {f"{name}|{k}": v for k, v in last.items()}
    if leads():
        save_file(ends, folder / f"resumed on {ranks}.safetensors")


def work(folder: Path, ranks: int, *, single: bool) -> None:
    torch.set_num_threads(1)
    if single:
        train_all(EVERY_METHOD, torch.float32, folder, ranks)
    train_all(FEWER if ranks == 4 and not single else CASES, torch.float64, folder, ranks)
    if ranks != 2:
        resume_all(folder, ranks)


def work_on_rank(rank: int, folder: Path, ranks: int, port: int, single: bool) -> None:
    set_rank(rank, ranks, port)
    with joined():
        work(folder, ranks, single=single)


def command_on_rank(rank: int, folder: Path, ranks: int, port: int, command: str) -> None:
    """The command line; each rank has a folder of its own, as on a cluster, and prints to a file in it."""
    set_rank(rank, ranks, port)
    torch.set_default_dtype(torch.float32)
    (own := folder / f"{command} {rank}").mkdir(exist_ok=True)
    os.chdir(own)
    sys.argv = ["invariance", *COMMANDS[command]]
    with Path("printed").open("w") as file, redirect_stdout(file), redirect_stderr(file):
        try:
            main()
        except SystemExit as end:
            Path("code").write_text(str(end.code))


def half_a_run(folder: Path) -> None:
    """Leave the leader a checkpoint, with a loss by which it is recognised."""
    torch.set_default_dtype(torch.float32)
    spec = Spec.of("two-bit", "erm", "full-batch", 0, parse_changes(COMMANDS["train"][-5::2]))
    states: list[ResumeState | None] = []
    execute(spec, lambda *progress: states.append(resume_state(*progress)))
    half = [state for state in states if state][4]
    marked = half._replace(history=(replace(half.history[0], loss=123.0), *half.history[1:]))
    resume.save(marked, folder / "train 0" / "run" / f"{spec.key}.safetensors")


def set_rank(rank: int, ranks: int, port: int) -> None:
    """The environment that torchrun gives a process."""
    os.environ |= {"RANK": str(rank), "WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    os.environ |= {"TORCHELASTIC_USE_AGENT_STORE": "True", "TORCHELASTIC_RESTART_COUNT": "0"}


def launch(on_rank: Callable[..., None], folder: Path, ranks: int, *arguments: object) -> None:
    """Run a function on ranks. As with torchrun, this process holds the store by which they meet."""
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    start_processes(on_rank, (folder, ranks, store.port, *arguments), ranks, start_method="fork")


if __name__ == "__main__":
    into = Path(sys.argv[1])
    launch(work_on_rank, into, 2, "single" in sys.argv)
    launch(work_on_rank, into, 4, "single" in sys.argv)
    half_a_run(into)
    for each in COMMANDS:
        launch(command_on_rank, into, 2, each)
    work(into, 1, single="single" in sys.argv)
