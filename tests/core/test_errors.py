import pickle

import pytest

from invariance.core import errors


@pytest.mark.parametrize(
    "error",
    [
        errors.BadValue("no"),
        errors.DataError("no"),
        errors.StoreError("no"),
        errors.Diverged("no"),
        errors.UnknownName.of("method", "irm", ["irmv1"]),
    ],
    ids=lambda error: type(error).__name__,
)
def test_errors_cross_processes_whole(error):
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert str(again) == str(error)
