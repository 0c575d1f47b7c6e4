"""What an alarm says about the value that it watches."""

from __future__ import annotations

import pytest

from ragstone.store import StreamKey
from ragstone.watch import Alarm, render_alarm


def alarm(metric, kind="score"):
    """An alarm about a loss of ten points."""
    return Alarm(
        number=1, key=StreamKey("", metric, "1", "h"), kind=kind, scale=(0.0, 1.0, True), raised_at=2e5, since=1e5,
        since_first=9e4, since_last=1.1e5, before=0.8, before_se=0.01, after=0.7, drop=0.1, low=0.05, high=0.15, n=50,
    )  # fmt: skip


def test_the_value_that_decides_is_named():
    """The mean of the score is watched, and another number says whether one answer is good."""
    (line,) = (text for text in render_alarm(alarm("ccrs.ac")).splitlines() if text.startswith("value "))
    assert line.split(maxsplit=1)[1] == (
        "the mean of the scores is watched, but one answer is good if the best of em and judge in its details is at least 0.5"
    )


@pytest.mark.parametrize(("metric", "kind"), [("ccrs.cc", "score"), ("acme.unknown", "score"), ("ccrs.ac", "failures")])
def test_nothing_is_said_where_the_score_decides(metric, kind):
    """Also not about a metric that this installation does not know, and about failures."""
    assert not [text for text in render_alarm(alarm(metric, kind)).splitlines() if text.startswith("value ")]
