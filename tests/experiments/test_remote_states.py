"""Resume states at a URI."""

import pytest
import torch

from invariance.core.errors import BadValue
from invariance.experiments.engines import chosen
from invariance.experiments.remote_states import RemoteStates
from invariance.experiments.run import ResumeState

STATE = ResumeState({"model.w": torch.arange(3.0), "step": torch.tensor(4)}, (), 1.5)


@pytest.fixture(params=["file", "memory"])
def states(request, tmp_path) -> RemoteStates:
    return RemoteStates((tmp_path / "deep" / "states").as_uri() if request.param == "file" else "memory://states/")


def test_a_state_is_read_as_it_was_saved_until_it_is_removed(states):
    assert states.load("key") is None
    states.save(STATE._replace(seconds=0.5), "key")
    states.save(STATE, "key")
    found = states.load("key")
    assert found.seconds == 1.5
    assert found.state.keys() == STATE.state.keys()
    assert all(torch.equal(found.state[name], tensor) for name, tensor in STATE.state.items())
    assert states.load("other") is None
    states.remove("key")
    states.remove("key")
    assert states.load("key") is None
    assert not states.files.find(states.folder)


def test_half_a_state_does_not_count(states):
    states.save(STATE, "key")
    (place,) = states.files.find(states.folder)
    content = states.files.cat_file(place)
    states.files.pipe_file(place, content[:-1] + bytes([content[-1] ^ 1]))
    assert states.load("key") is None


@pytest.mark.parametrize("uri", ["carrier-pigeon://loft", "s4://bucket"])
def test_a_uri_that_nothing_opens_is_refused_in_one_line(uri):
    with pytest.raises(BadValue, match=f"cannot keep resume states at {uri}: Protocol not known"):
        RemoteStates(uri)


def test_only_the_ray_engine_keeps_states_at_a_uri():
    with pytest.raises(Exception, match="checkpoints"):
        chosen("local", checkpoints="memory://states")
    assert chosen("ray", checkpoints="memory://states").checkpoints == "memory://states"
