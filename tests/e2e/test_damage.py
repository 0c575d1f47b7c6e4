"""A quick version of tests/simulate/damage.py: damaged files lose nothing unseen, double nothing, and change nothing."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from damage import DAMAGES, KINDS, run

N = {"database": 25, "write-ahead log": 10, "spool": 40, "reply cache": 15}


@pytest.mark.parametrize("kind", KINDS)
def test_damage_is_seen(kind, tmp_path):
    """Each file is read as it was, refused with a message, or the ledger or `store verify` counts what is missing."""
    counts = run(kind, N[kind], 7, tmp_path)
    assert N[kind] == counts.tried
    assert (0, 0, 0, 0) == (counts.lost, counts.doubled, counts.wrong, counts.crashed), counts.examples
    assert counts.unchanged < counts.tried or kind == "write-ahead log"


def test_each_damage_changes_the_file():
    """A trial of an unchanged file would show nothing."""
    changes = Counter()
    for damage in DAMAGES:
        for seed in range(20):
            content = bytearray(random.Random(seed).randbytes(20_000))
            before = bytes(content)
            damage(content, random.Random(seed))
            changes[damage.__name__] += before != content
    assert all(changes[damage.__name__] > 15 for damage in DAMAGES), changes
