"""What every data set holds to: embedded ones always, others where their files are."""

from dataclasses import fields, replace
from functools import cache
from pathlib import Path

import pytest
import torch
from PIL import Image

from invariance.core.batch import Batch
from invariance.core.environment import Benchmark
from invariance.core.errors import BadValue
from invariance.core.inputs import Pixels
from invariance.data import DATA
from invariance.data.base import DataSet
from invariance.data.formats.downloads import locate

ROWS = 8

every_data_set = pytest.mark.parametrize("name", DATA.classes)


@pytest.fixture(scope="module")
def own_images(tmp_path_factory) -> Path:
    """A user's own images, in folders domain/class/."""
    root = tmp_path_factory.mktemp("own")
    for number, place in enumerate(("day/cat", "day/dog", "night/cat", "night/dog")):
        (root / place).mkdir(parents=True)
        for i in range(8):
            Image.effect_noise((16, 16), 20 + 10 * i + number).save(root / place / f"{i}.png")
    return root


@pytest.fixture
def data(name, own_images) -> DataSet:
    """The data set, as small as it can make itself; the test is skipped where its files are missing."""
    smallest = {"images": 4096, "path": str(own_images)}
    changes = {field.name: smallest[field.name] for field in fields(DATA[name]) if field.name in smallest}
    changes |= DATA[name].smaller.get("tiny", {}).get("data", {})
    made = DATA.create(name, changes)
    if missing := [file.name for file in made.files if not locate(file)]:
        pytest.skip(f"needs {', '.join(missing)}: 'invariance data fetch {name}', or set INVARIANCE_DATA")
    state = made.availability()
    if state and state.here == "missing":
        pytest.skip(f"needs {name}: {state.about}")
    return made


@cache
def loaded(data: DataSet) -> Benchmark:
    """By seed 0, once for all tests."""
    return data.load(0)


def first_rows(benchmark: Benchmark) -> Batch:
    """Of every training environment, as numbers."""
    batch = Batch.of([e.take(slice(ROWS)) for e in benchmark.train], benchmark.family)
    return replace(batch, x=batch.x.tensor()) if isinstance(batch.x, Pixels) else batch


@every_data_set
def test_every_data_set_loads_environments_that_its_own_model_can_be_trained_on(data):
    benchmark = loaded(data)
    names = [e.name for e in benchmark.train]
    assert len(set(names)) == len(names) >= 2
    assert bool(benchmark.test) != bool(benchmark.mechanism)
    assert all(e.x.shape[1:] == benchmark.input_shape for e in (*benchmark.validation, *benchmark.test))
    batch = first_rows(benchmark)
    model = data.architecture.build(benchmark.input_shape, benchmark.family.outputs)
    assert batch.risks(model(batch.x)).isfinite().all()


@every_data_set
def test_a_seed_decides_the_data(data):
    first, second = loaded(data), data.load(0)
    assert [(e.name, len(e)) for e in first.train] == [(e.name, len(e)) for e in second.train]
    one, two = first_rows(first), first_rows(second)
    assert torch.equal(one.y, two.y)
    assert torch.equal(one.x, two.x)
    assert data.size().shape == first.input_shape
    assert data.fingerprint() == data.fingerprint()


@every_data_set
def test_an_oracle_gets_the_same_environments_or_a_reason(data):
    try:
        benchmark = data.load(0, oracle=True)
    except BadValue as error:
        assert "oracle" in str(error)  # noqa: PT017 - it need not be raised
    else:
        assert [e.name for e in benchmark.train] == [e.name for e in loaded(data).train]
