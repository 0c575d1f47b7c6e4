"""Several outcomes of one sample, of as many calls of the application, as one."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from functools import reduce
from operator import add

from ragstone.metrics import MEAN_OF_REPEATS, is_number
from ragstone.schema import Failure, NotApplicable, Score

AnyOutcome = Score | NotApplicable | Failure


def merge_repeats(sample_id: str, outcomes: Sequence[AnyOutcome]) -> AnyOutcome:
    """Merge the outcomes of one metric for the repeats of one sample.

    Returns:
        A score with the mean of the scored repeats. Its details hold the value of each repeat (None if it was not scored),
        the numbers in the details of the scored ones, their standard deviation, and the number of failed repeats. Without
        any score the first failure, or else the first outcome.
    """
    scores = [outcome for outcome in outcomes if isinstance(outcome, Score)]
    failures = [outcome for outcome in outcomes if isinstance(outcome, Failure)]
    usages = [outcome.usage for outcome in outcomes if outcome.usage is not None]
    shared = {
        "sample_id": sample_id,
        "usage": reduce(add, usages) if usages else None,
        "duration_s": math.fsum(outcome.duration_s or 0.0 for outcome in outcomes),
    }
    if not scores:
        return next(iter([*failures, *outcomes])).model_copy(update=shared)
    values = [score.value for score in scores]
    details = {
        "repeats": [outcome.value if isinstance(outcome, Score) else None for outcome in outcomes],
        "standard_deviation": statistics.stdev(values) if len(values) > 1 else None,
        "n_failed": len(failures),
        "repeat_parts": {
            name: [score.details[name] for score in scores]
            for name in scores[0].details
            if all(is_number(score.details.get(name)) for score in scores)
        },
    }
    merged = {
        "value": statistics.fmean(values),
        "interval": None,
        "method": MEAN_OF_REPEATS,
        "n": sum(score.n for score in scores),
        "explanation": None,
        "raw": None,
        "details": details,
    }
    return scores[0].model_copy(update=shared | merged)


def repeat_deviations(outcomes: Iterable[AnyOutcome]) -> dict[str, float]:
    """Return the standard deviation between repeats of the same sample, by metric: the root of the mean variance."""
    variances: dict[str, list[float]] = {}
    for outcome in outcomes:
        if isinstance(outcome, Score) and outcome.method == MEAN_OF_REPEATS:
            deviation = outcome.details["standard_deviation"]
            if deviation is not None:
                variances.setdefault(outcome.metric, []).append(deviation**2)
    return {metric: math.sqrt(statistics.fmean(squares)) for metric, squares in variances.items()}
