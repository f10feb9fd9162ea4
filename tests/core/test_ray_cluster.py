"""What is said about Ray before it is used: tests with a real cluster are those of the engine."""

import sys

import pytest

from invariance.core.errors import BadValue
from invariance.core.ray_cluster import connect, is_loopback


@pytest.fixture(autouse=True)
def own_state(tmp_path, monkeypatch):
    """No cluster is kept for these tests."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.delenv("RAY_ADDRESS", raising=False)


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("127.0.0.1", True),
        ("127.0.0.1:6379", True),
        ("::1", True),
        ("[::1]:6379", True),
        ("localhost:6379", True),
        ("10.0.0.7:6379", False),
        ("node.example:6379", False),
    ],
)
def test_which_addresses_are_of_this_machine_alone(address, expected):
    assert is_loopback(address) == expected


def test_without_ray_one_line_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(BadValue, match=r"^the Ray engine needs Ray: pip install 'invariance\[ray\]'$"):
        connect()


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("ray://head:10001", r"^'ray://head:10001' is not the address of a Ray cluster; give HOST:PORT$"),
        ("head", "^'head' is not the address of a Ray cluster; give HOST:PORT$"),
        ("127.0.0.1:1", r"^no Ray cluster answers at 127.0.0.1:1 \(.*refused\); 'ray start --head' says its address$"),
    ],
)
def test_an_address_where_no_cluster_is_is_refused_in_one_line(address, message):
    before = sys.modules.get("ray")
    with pytest.raises(BadValue, match=message):
        connect(address)
    assert sys.modules.get("ray") is before  # Ray keeps how it is imported: another address may still be tried
