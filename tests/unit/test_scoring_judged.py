"""When failures are systematic, and which share of the judged outcomes failed."""

from __future__ import annotations

import pytest

from ragstone.schema import Failure, NotApplicable, Score
from ragstone.scoring import JudgedCounts

KEY = {"metric": "m", "metric_version": "1", "judge": "j", "judge_hash": "h"}


def failure(sample: int, kind: str = "rejected", **key: str) -> Failure:
    """A failure of the judge on a sample."""
    return Failure(sample_id=f"q{sample}", kind=kind, reason="HTTP 401: wrong key", **KEY | key)


def score(method: str = "single_reply", **key: str) -> Score:
    """A score."""
    return Score(sample_id="s", value=0.0, method=method, **KEY | key)


@pytest.mark.parametrize(
    ("outcomes", "is_systematic"),
    [
        ([failure(i % 10) for i in range(20)], True),
        ([failure(i % 10, "truncated") for i in range(20)], True),
        ([failure(i % 10, "repeated") for i in range(20)], True),
        ([failure(i % 10) for i in range(19)], False),
        ([failure(i % 9) for i in range(100)], False),
        ([*(failure(i) for i in range(20)), score()], False),
        ([*(failure(i) for i in range(20)), score("empty_response")], True),
        ([*(failure(i) for i in range(20)), score(judge_hash="")], True),
        ([*(failure(i) for i in range(20)), failure(21, "unavailable")], True),
        ([failure(i, "rejected" if i % 2 else "truncated") for i in range(38)], False),
        ([failure(i, "unavailable") for i in range(100)], False),
        ([failure(i, "timeout") for i in range(100)], False),
        ([failure(i, "unparseable") for i in range(100)], False),
        ([failure(i, judge_hash="") for i in range(100)], False),
    ],
)
def test_systematic_failures(outcomes, is_systematic):
    """No success so far, 20 failures over 10 samples, one kind that the configuration may cause."""
    counts = JudgedCounts()
    counts.add(outcomes)
    assert is_systematic == (counts.systematic is not None) == (counts.describe_systematic() is not None)


def test_the_cause_is_the_first_failure():
    """The message has the judge, the kind and the reason."""
    counts = JudgedCounts()
    counts.add(failure(i) for i in range(25))
    assert (
        "j failed on all of the first 25 outcomes, 25 of them with kind 'rejected'. First failure: HTTP 401: wrong key"
        == counts.describe_systematic()
    )


def test_the_share_is_of_judged_outcomes():
    """Outcomes for which no model was called do not count, nor those of the application or of a budget."""
    counts = JudgedCounts()
    counts.add(
        [
            *(score(), failure(1), failure(2), failure(3)),
            *(score("empty_response"), score(judge_hash=""), failure(4, "budget"), failure(5, "application")),
            NotApplicable(sample_id="q", reason="no reference", **KEY),
        ]
    )
    assert (4, 3, 0.75) == (counts.n, counts.n_failed, counts.failed_share)
    assert 0 == JudgedCounts().failed_share


def test_a_doubtful_share_is_a_notice_once():
    """A tenth of at least 20 judged outcomes is allowed."""
    counts = JudgedCounts()
    for n_more, forced, notices in [(18, 2, 0), (0, 1, 1), (0, 5, 0)]:
        counts.add([score()] * n_more + [score("forced_number")] * forced)
        found = counts.take_notices()
        assert notices == len(found)
        assert all(notice.startswith("3 of 21 judged outcomes are numbers that the server forced") for notice in found)
