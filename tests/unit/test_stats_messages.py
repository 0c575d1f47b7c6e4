"""Messages of errors show plain numbers, also for numbers of numpy."""

from __future__ import annotations

import numpy as np
import pytest

from ragstone import stats
from ragstone.metrics import ranking

three = np.float64(3.0)

CALLS = {
    "mean_interval": lambda: stats.mean_interval(np.array([3.0]), low=np.float64(0), high=np.float64(1)),
    "confidence_level": lambda: stats.mean_interval([0.5], confidence_level=three),
    "hajek_mean": lambda: stats.hajek_mean(np.array([0.5, 3.0]), [1, 1]),
    "cohen_kappa": lambda: stats.cohen_kappa([np.float64(1)], [three], categories=[np.float64(1)]),
    "holm": lambda: stats.holm(np.array([3.0, 0.5])),
    "weighted_sum": lambda: stats.weighted_sum_interval(
        [stats.WeightedTerm(weight=three, value=np.float64(np.nan), low=0.0, high=1.0, certain=True)]
    ),
    "failure_bounds": lambda: stats.failure_bounds(three, 3, 1, low=np.float64(0), high=np.float64(1)),
    "ranking": lambda: ranking.alpha_ndcg(["a"], {"q": ["a"]}, alpha=three),
    "grades": lambda: ranking.ndcg(["a"], {"a": 3 * np.float64(np.inf)}),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_messages_show_plain_numbers(call):
    """A message contains 3.0 (or the infinite grade), and not np.float64(3.0)."""
    with pytest.raises(ValueError, match=r"3\.0|inf") as error:
        call()
    assert "np." not in str(error.value)
