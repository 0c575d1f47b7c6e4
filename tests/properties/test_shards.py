"""Shards are disjoint, together complete, and the same in every process."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstone.errors import ConfigurationError
from ragstone.replay._intake import parse_shard


@given(ids=st.lists(st.text(max_size=40), max_size=50), total=st.integers(min_value=2, max_value=40))
def test_each_trace_belongs_to_exactly_one_shard(ids, total):
    """Whatever the ids are, also with lone surrogates."""
    shards = [parse_shard(f"{number}/{total}") for number in range(1, total + 1)]

    assert all(sum(id_ in shard for shard in shards) == 1 for id_ in ids)


def test_shards_are_about_equally_large():
    """16 shards of 16,000 numbered ids have 1,000 each, within six standard deviations."""
    shards = [parse_shard(f"{number}/16") for number in range(1, 17)]
    n = Counter(number for number, shard in enumerate(shards) for i in range(16_000) if f"trace-{i}" in shard)

    assert all(abs(n[number] - 1000) < 6 * 31 for number in range(16))


def test_a_shard_does_not_change_between_versions():
    """Machines with different versions must agree, so the assignment is fixed here."""
    assigned = [next(k for k in range(1, 17) if f"trace-{i}" in parse_shard(f"{k}/16")) for i in range(8)]

    assert assigned == PINNED


PINNED = [3, 2, 6, 12, 13, 5, 10, 11]


@pytest.mark.parametrize(
    "shard",
    ["", "3", "3/", "/16", "0/16", "17/16", "1/0", "0/0", "-1/4", "1/-4", "3/16/2", " 1/4", "1.5/4", "a/b", "²/4"],
)
def test_an_invalid_shard_is_refused(shard):
    """With its value, the rule and an example."""
    with pytest.raises(ConfigurationError, match="shard") as refused:
        parse_shard(shard)

    assert repr(shard) in str(refused.value)
    assert "Write" in str(refused.value)


def test_the_only_shard_is_everything():
    """`1/1` is no restriction, and uses the position of a replay without shards."""
    assert parse_shard("1/1") is None
    assert parse_shard(None) is None
