"""Data as other packages hold them become environments."""

import numpy as np
import pytest
import torch

from invariance import (
    BadValue,
    InvariantClassifier,
    UnknownName,
    environments_from_arrays,
    environments_from_dataset,
)

X = np.arange(12, dtype=np.float64).reshape(6, 2)
Y = np.array([0, 1, 0, 1, 1, 0])
METADATA = np.array([[2, 0, 7], [0, 1, 7], [2, 1, 8], [0, 0, 8], [2, 0, 9], [0, 1, 9]])
FIELDS = ("hospital", "slide", "y")


def test_metadata_arrays_are_grouped_by_a_field():
    low, high = environments_from_arrays(X, Y, METADATA, fields=FIELDS, by="hospital")
    assert (low.name, high.name) == ("hospital=0", "hospital=2")
    assert high.x.tolist() == X[[0, 2, 4]].tolist()
    assert high.y.tolist() == [0, 0, 1]


def test_several_fields_make_an_environment_and_get_their_names():
    made = environments_from_arrays(
        torch.from_numpy(X),
        torch.from_numpy(Y),
        torch.from_numpy(METADATA),
        fields=FIELDS,
        by=["hospital", "slide"],
        names={"hospital": ["Bern", "Lyon", "Oslo"]},
    )
    assert [e.name for e in made] == ["Bern, slide=0", "Bern, slide=1", "Oslo, slide=0", "Oslo, slide=1"]


def test_bytes_stay_bytes():
    (only,) = environments_from_arrays(X.astype(np.uint8), Y, np.zeros(6, int))
    assert only.x.dtype == torch.uint8


def test_arrays_that_do_not_fit_are_refused():
    with pytest.raises(BadValue, match=r"expected \[n, 2\]"):
        environments_from_arrays(X, Y, METADATA, fields=("a", "b"))
    with pytest.raises(UnknownName, match="hospital"):
        environments_from_arrays(X, Y, METADATA, fields=FIELDS, by="hospitl")
    with pytest.raises(BadValue, match="as many"):
        environments_from_arrays(X[:3], Y, METADATA, fields=FIELDS)


@pytest.fixture(scope="module")
def dataset():
    """A dataset of Hugging Face, in memory."""
    datasets = pytest.importorskip("datasets", reason="needs datasets: pip install datasets")
    rng = np.random.default_rng(0)
    return datasets.Dataset.from_dict(
        {
            "age": rng.normal(size=60).tolist(),
            "embedding": rng.normal(size=(60, 3)).tolist(),
            "ward": rng.choice(["a", "b"], 60).tolist(),
            "hospital": ["Bern", "Lyon", "Oslo"] * 20,
            "sick": (rng.random(60) < 0.5).astype(int).tolist(),
        }
    )


def test_columns_of_a_dataset_become_environments(dataset):
    made = environments_from_dataset(dataset, inputs="embedding", label="sick", environment="hospital")
    assert [(e.name, tuple(e.x.shape)) for e in made] == [(n, (20, 3)) for n in ("Bern", "Lyon", "Oslo")]
    assert made[1].y.tolist() == dataset["sick"][1::3]
    single = environments_from_dataset(dataset, inputs=["age"], label="sick", environment="hospital")
    assert single[0].x.shape == (20, 1)
    with pytest.raises(BadValue, match="expected numbers"):
        environments_from_dataset(dataset, inputs=["ward"], label="sick", environment="hospital")
    with pytest.raises(UnknownName, match="'age'"):
        environments_from_dataset(dataset, inputs=["agee"], label="sick", environment="hospital")


def test_an_estimator_takes_a_dataset_as_it_takes_a_frame(dataset):
    inputs = dataset.select_columns(["age", "ward", "embedding"])
    model = InvariantClassifier("rex").fit(inputs, dataset["sick"][:], environments=dataset["hospital"][:])
    expected = InvariantClassifier("rex").fit(
        inputs.with_format("arrow")[:], dataset["sick"][:], environments=dataset["hospital"][:]
    )
    assert np.array_equal(model.predict_proba(inputs), expected.predict_proba(inputs.with_format("arrow")[:]))
    assert [column.kind for column in model.encoder_.columns] == ["numeric", "categorical", "vector"]
