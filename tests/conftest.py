"""One thread, one hypothesis profile, what may be skipped, and the small problems the tests share."""

import os
import sys

os.environ["OMP_NUM_THREADS"] = "1"  # of this process and of those it starts; before torch is imported

from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent

import pytest
import torch
from hypothesis import HealthCheck, settings
from torch import nn

from invariance.core.environment import Environment
from invariance.core.families import Bernoulli, Categorical, Family
from invariance.core.seeding import generator
from invariance.data import DATA
from invariance.methods import METHODS
from invariance.models import MODELS
from invariance.models.base import Model, linear

settings.register_profile(
    "house",
    max_examples=20,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
settings.load_profile("house")


LONGEST = (
    *("experiments/test_ray_engine.py", "experiments/test_engine.py", "e2e/test_report.py", "test_contributing.py"),
    *("e2e/test_cli.py", "estimators/test_auto.py", "reliability/test_short_pass.py", "test_examples.py"),
)
"""Begun first, so that no process is left alone with one of them in the end."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the longest files first, and leave the rest as it is."""
    places = {Path(__file__).parent / name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(item.path, len(places)))


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Where ``INVARIANCE_MAY_SKIP`` is set, a skip whose reason holds none of its words is a failure."""
    allowed = os.environ.get("INVARIANCE_MAY_SKIP")
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if allowed is None or reporter is None:
        return
    reasons = [report.longrepr[2] for report in reporter.stats.get("skipped", []) if isinstance(report.longrepr, tuple)]
    wrong = [r for r in reasons if not any(word in r for word in allowed.split(",") if word)]
    reporter.write_line(f"\n{len(reasons)} skipped, {len(wrong)} of them without leave")
    for reason in sorted(set(wrong)):
        reporter.write_line(f"skipped without leave: {reason}", red=True)
    if wrong:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Prepared images go to a folder of the tests' own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("INVARIANCE_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture
def double() -> Iterator[None]:
    """New tensors are float64."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.fixture(scope="session")
def environments() -> Callable[..., tuple[Environment, ...]]:
    """Random environments of the given sizes, called a, b, c, …"""

    coin = Bernoulli()

    def make(*sizes: int, inputs: int = 3, family: Family = coin, seed: int = 0) -> tuple[Environment, ...]:
        made = []
        for name, n in zip("abcdefgh", sizes, strict=False):
            random = generator(seed, "data", name)
            x = torch.randn(n, inputs, generator=random)
            match family:
                case Bernoulli():
                    y = torch.randint(2, (n,), generator=random)
                case Categorical(classes):
                    y = torch.randint(classes, (n,), generator=random)
                case _:
                    y = torch.randn(n, generator=random)
            made.append(Environment(name, x, y))
        return tuple(made)

    return make


@pytest.fixture(scope="session")
def smooth() -> Callable[..., Model]:
    """A model without kinks, whose parameters, biases too, are all random."""

    def make(inputs: int = 3, width: int = 4, outputs: int = 1, *, seed: int = 0, deep: bool = False) -> Model:
        random = generator(seed, "weights")
        features = nn.Sequential(linear(inputs, width, random), nn.Tanh())
        head: nn.Module = linear(width, outputs, random)
        if deep:
            head = nn.Sequential(linear(width, 3, random), nn.Tanh(), linear(3, outputs, random))
        model = Model(features, head)
        with torch.no_grad():
            for p in model.parameters():
                p.normal_(0, 0.7, generator=random)
        return model

    return make


@pytest.fixture(scope="session")
def assert_share() -> Callable[[torch.Tensor, float], None]:
    """As many are true as expected, within four standard errors."""

    def check(flags: torch.Tensor, expected: float) -> None:
        error = (expected * (1 - expected) / len(flags)) ** 0.5
        assert flags.double().mean().item() == pytest.approx(expected, abs=4 * error)

    return check


@pytest.fixture(scope="session")
def given_folder() -> Callable[..., Path]:
    """A folder of real data in ``INVARIANCE_DATA``, given the name of a file or folder in it."""

    def find(name: str) -> Path:
        path = Path(os.environ.get("INVARIANCE_DATA") or "/nowhere") / name
        if not path.exists():
            pytest.skip(
                f"needs the data {name}: 'invariance data check' says where to get them; then set INVARIANCE_DATA to "
                "the folder that holds them"
            )
        return path

    return find


@pytest.fixture(scope="session")
def published(given_folder) -> Path:
    """The folder with the published MNIST and Fashion-MNIST files."""
    for name in ("mnist", "fashion-mnist"):
        last = given_folder(f"{name}/t10k-labels-idx1-ubyte.gz")
    return last.parents[1]


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Path]]:
    """Put another package on the path: its source, and its entry points as lines by group of the catalogue.

    Gives the folder it lies in.
    """
    folder = tmp_path / "site-packages"

    def forget() -> None:
        for catalogue in (METHODS, DATA, MODELS):
            vars(catalogue).pop("classes", None)
        sys.modules.pop("another_package", None)

    def install(source: str, **groups: list[str]) -> Path:
        (about := folder / "another_package-1.0.dist-info").mkdir(parents=True)
        (folder / "another_package.py").write_text(dedent(source))
        (about / "METADATA").write_text("Metadata-Version: 2.1\nName: another-package\nVersion: 1.0\n")
        lines = [line for group, entries in groups.items() for line in (f"[invariance.{group}]", *entries)]
        (about / "entry_points.txt").write_text("\n".join(lines) + "\n")
        monkeypatch.syspath_prepend(folder)
        forget()
        return folder

    yield install
    forget()
