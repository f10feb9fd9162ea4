from hypothesis import given
from hypothesis import strategies as st

from invariance.core.shard import Shard

counts = st.lists(st.integers(0, 9), min_size=1, max_size=6)
ranks = st.integers(1, 5)


@given(counts, ranks)
def test_every_row_is_on_one_rank(counts, ranks):
    shards = [Shard.of(counts, rank, ranks) for rank in range(ranks)]
    assert sorted(row for shard in shards for row in shard.rows.tolist()) == list(range(sum(counts)))
    assert all(len(shard.rows) == sum(shard.own) for shard in shards)


@given(counts, ranks)
def test_ranks_have_equal_parts_of_an_environment_up_to_one_row(counts, ranks):
    for each in zip(*(Shard.of(counts, rank, ranks).own for rank in range(ranks)), strict=True):
        assert max(each) - min(each) <= 1


def test_many_small_environments_are_spread_over_ranks():
    own = [sum(Shard.of([1] * 1000, rank, 4).own) for rank in range(4)]
    assert own == [250] * 4


@given(st.lists(st.integers(2, 9), min_size=1, max_size=5), ranks)
def test_halves_are_those_of_the_whole_batch(counts, ranks):
    first = 0
    halves = {}  # of every row of the whole batch
    for e, n in enumerate(counts):
        halves |= {first + i: 2 * e + (i >= n - n // 2) for i in range(n)}
        first += n
    for rank in range(ranks):
        shard = Shard.of(counts, rank, ranks)
        half = shard.halved()
        assert half.counts == tuple(part for n in counts for part in (n - n // 2, n // 2))
        assert half.rows.tolist() == shard.rows.tolist()
        owners = [e for e, n in enumerate(half.own) for _ in range(n)]
        assert owners == [halves[row] for row in shard.rows.tolist()]


def test_a_shard_of_one_environment_keeps_its_place():
    shard = Shard.of([5, 7, 6], 1, 2)
    assert shard.only(1) == Shard((7,), shard.starts[1:2], shard.ends[1:2])
