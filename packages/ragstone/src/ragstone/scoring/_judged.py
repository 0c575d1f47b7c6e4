"""Counts of judged outcomes: the share that failed, and whether all fail for one cause in the configuration."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

from ragstone._util.quantities import count
from ragstone.judges import LEAST_RATINGS, OUTCOME_CHECKS, RatingRange, check_outcome
from ragstone.schema import Failure, FailureKind, NotApplicable, Outcome, Score

_OF_CONFIGURATION: Final[frozenset[FailureKind]] = frozenset({"rejected", "truncated", "repeated", "prompt_truncated"})
"""Failures that the next sample may have as well: credentials, unknown model, refused parameter, cut reply
or prompt."""
_NOT_OF_JUDGE: Final[frozenset[FailureKind]] = frozenset({"application", "budget"})
_MIN_FAILURES: Final = 20
_MIN_SAMPLES: Final = 10
_FEW: Final = 0.1
"""Largest share of doubtful outcomes without a notice."""


def is_judged(outcome: Outcome) -> bool:
    """Return whether an outcome shows if the judge or the reader works.

    The zero of an empty response does not, because no model was called. Neither do failures of the application and
    those of an exhausted budget.
    """
    if not outcome.judge_hash or isinstance(outcome, NotApplicable):
        return False
    if isinstance(outcome, Score):
        return outcome.method != "empty_response"
    return outcome.kind not in _NOT_OF_JUDGE


class JudgedCounts:
    """Counts of judged outcomes.

    Examples:
        ```python
        counts = JudgedCounts()
        counts.add(outcomes)
        counts.failed_share, counts.systematic
        ```
    """

    def __init__(self) -> None:
        self.n_scored = 0
        self.kinds: Counter[FailureKind] = Counter()
        """Number of failures by kind."""
        self._samples: dict[FailureKind, set[str]] = {}
        self._first: dict[FailureKind, Failure] = {}
        self._checked: Counter[str] = Counter()
        """Number of outcomes that are doubtful, by the name of the check. "" counts all that were checked."""
        self._ratings = RatingRange()
        self._named: set[str] = set()

    def add(self, outcomes: Iterable[Outcome]) -> None:
        """Count outcomes, of which only the judged ones matter."""
        outcomes = list(outcomes)
        for outcome in outcomes:
            if outcome.judge_hash and not isinstance(outcome, Failure):
                for name in ("", *check_outcome(outcome)):
                    self._checked[name] += 1
            if isinstance(outcome, Score) and RatingRange.is_rating(outcome.method, outcome.judge):
                self._ratings.add(outcome.value)
        for outcome in filter(is_judged, outcomes):
            if isinstance(outcome, Failure):
                self.kinds[outcome.kind] += 1
                self._first.setdefault(outcome.kind, outcome)
                samples = self._samples.setdefault(outcome.kind, set())
                if len(samples) < _MIN_SAMPLES:
                    samples.add(outcome.sample_id)
            else:
                self.n_scored += 1

    def take_notices(self) -> list[str]:
        """Return what makes more than a tenth of at least 20 outcomes doubtful, each check once."""
        n = self._checked[""]
        if check := self._ratings.check():
            self._checked[check] = self._ratings.n
        new = [
            name
            for name in OUTCOME_CHECKS
            if n >= LEAST_RATINGS and self._checked[name] > _FEW * n and name not in self._named
        ]
        self._named.update(new)
        return [f"{self._checked[name]:,} of {count(n, 'judged outcome')} {OUTCOME_CHECKS[name]}" for name in new]

    @property
    def n(self) -> int:
        """Number of judged outcomes."""
        return self.n_scored + self.n_failed

    @property
    def n_failed(self) -> int:
        """Number of judged outcomes that failed."""
        return sum(self.kinds.values())

    @property
    def failed_share(self) -> float:
        """Share of judged outcomes that failed, 0 without judged outcomes."""
        return self.n_failed / self.n if self.n else 0.0

    @property
    def systematic(self) -> Failure | None:
        """The first failure, if all fail for one cause in the configuration. Otherwise None.

        That is: no success so far, and at least 20 failures over at least 10 samples of one kind (rejected,
        truncated, repeated, prompt_truncated). Rate limits and outages do not count.
        """
        if self.n_scored:
            return None
        for kind in _OF_CONFIGURATION & self.kinds.keys():
            if self.kinds[kind] >= _MIN_FAILURES and len(self._samples[kind]) >= _MIN_SAMPLES:
                return self._first[kind]
        return None

    def describe_systematic(self) -> str | None:
        """Return what fails systematically and why, or None."""
        failure = self.systematic
        if failure is None:
            return None
        return (
            f"{failure.judge} failed on all of the first {self.n_failed} outcomes, {self.kinds[failure.kind]} of them "
            f"with kind {failure.kind!r}. First failure: {failure.reason}"
        )

    @staticmethod
    def may_be_systematic(outcomes: Iterable[Outcome]) -> bool:
        """Return whether all judged outcomes of a sample failed for causes that the configuration may have."""
        judged = list(filter(is_judged, outcomes))
        return bool(judged) and all(isinstance(o, Failure) and o.kind in _OF_CONFIGURATION for o in judged)
