"""`Stream`: learns a baseline, then watches for a drop (or a rise of failures), and for the recovery after an alarm."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal, Self

from ragstone.settings import Watch
from ragstone.stats import AlarmBudget, CalendarDetector, hajek_mean
from ragstone.store import StreamKey, StreamKind, Unit, UnitAmounts
from ragstone.watch._baseline import DAY_S, LEARNING_DAYS, MAX_DAYS, Baseline, LearningUnits
from ragstone.watch._options import LATE_SHARE, Scale

StreamPhase = Literal["learning", "watching", "alarm", "blind"]
"""`blind`: the mean is so close to the end of its range that it cannot get worse by more than the tolerance."""

Event = Literal["alarm", "follow_up", "recovered"]

AmountsBetween = Callable[[float, float], Sequence[UnitAmounts]]
"""Returns the numbers of the units that closed from one time up to and including another, in order of closing."""

ACTIVE_S: Final = 7 * DAY_S
"""A stream without a unit for this long does not share the budget."""

FOLLOW_UP_UNITS: Final = 150
"""Units after an alarm from which its size is estimated again, because they did not decide about the alarm."""

_EDGE: Final = 1e-6
"""Smallest distance of a reference from the ends of the range."""

_SCALES: Final[dict[StreamKind, Scale]] = {"failures": Scale(low=0.0, high=1.0, higher_is_better=False)}

_STORED: Final = (
    "learn_days", "target", "n_since_alarm", "started_at", "last_at", "n_units", "n_repeated", "p_floor",
)  # fmt: skip
"""Attributes of a stream that its state has as they are."""


def _inside(reference: float) -> float:
    return min(max(reference, _EDGE), 1 - _EDGE)


class Stream:
    """One stream of units, from the first one on, which closed at `start` (Unix seconds)."""

    def __init__(self, key: StreamKey, kind: StreamKind, scale: Scale, *, start: float) -> None:
        self.key, self.kind = key, kind
        self.scale = _SCALES.get(kind, scale)
        self.learns_from = start
        self.learn_days = LEARNING_DAYS
        self.baseline: Baseline | None = None
        self.target: float | None = None
        """Required mean, mapped to [0, 1]. It replaces the learned reference."""
        self.detector: CalendarDetector | None = None
        self.recovery: CalendarDetector | None = None
        """Detector of the return to the reference, while an alarm is open."""
        self.n_since_alarm = 0
        self.started_at = start
        """Closing time of the first unit."""
        self.last_at = start
        self.n_units = 0
        self.n_repeated = 0
        """Units of sessions that had a unit within the last 28 days."""
        self.p_floor = 1.0
        """Smallest sampling probability so far."""

    @property
    def direction(self) -> Literal["drop", "rise"]:
        """Direction of a change for the worse."""
        return "drop" if self.scale.higher_is_better else "rise"

    @property
    def sign(self) -> Literal[1, -1]:
        """1 if lower means are worse, -1 if higher means are."""
        return 1 if self.scale.higher_is_better else -1

    @property
    def reference(self) -> float | None:
        """Acceptable mean in [0, 1], or None while it is learned or if the mean cannot get worse."""
        if self.target is not None:
            return self.target
        return None if self.baseline is None else self.baseline.reference(self.direction)

    @property
    def phase(self) -> StreamPhase:
        """What the stream does now."""
        if self.recovery is not None:
            return "alarm"
        if self.detector is not None:
            return "watching"
        return "learning" if self.baseline is None else "blind"

    @property
    def is_covered(self) -> bool:
        """Whether so few units belong to sessions seen before that the promise covers this stream."""
        return self.n_repeated <= LATE_SHARE * max(self.n_units, 1)

    def is_active(self, now: float) -> bool:
        """Return whether the stream shares the budget at a time."""
        return self.phase in ("watching", "alarm") and now - self.last_at <= ACTIVE_S

    def update(
        self, unit: Unit, *, budget: AlarmBudget, n_active: int, options: Watch, amounts: AmountsBetween
    ) -> Event | None:
        """Add the next unit, and return "alarm", "recovered", or "follow_up" if enough units have followed an alarm.

        In a stream of failures, `unit` may lack a score. `n_active` includes this stream, and `amounts` this unit.
        """
        x, total = self.value_of(unit)
        self.n_units += 1
        self.n_repeated += unit.gap_s is not None
        self.p_floor = min(self.p_floor, unit.p_min)
        self._aim(options)
        event: Event | None = None
        if self.detector is not None:
            spend = budget.take(self.last_at, unit.closed_at, n_streams=max(n_active, 1))
            # Units of a session within a day resemble earlier units, which the promise excludes.
            weight = 0.0 if unit.is_repeated else self.weight(total)
            event = self._bet(x, weight, spend, options)
        if self.baseline is None:
            self._learn(unit.closed_at, options, amounts)
        self.last_at = max(self.last_at, unit.closed_at)
        return event

    def put_back(self, now: float) -> None:
        """Continue from a time if the last unit is later, because the clock was ahead for a while."""
        self.last_at, self.learns_from = min(self.last_at, now), min(self.learns_from, now)

    def open_alarm(self, *, before: float, after: float, worst: float, options: Watch) -> None:
        """Watch for the end of an alarm, and for a further change for the worse.

        The alarm recovers if the mean is better than the target, or without one, than the middle of the means before
        and after the change (never better than the reference). Another alarm needs a mean that is worse than the worst
        plausible one by `min_drop`. Means are in [0, 1].
        """
        reference = self.reference
        assert reference is not None  # noqa: S101 - an alarm implies a reference
        worse = min if self.sign == 1 else max
        recovered = reference if self.target is not None else worse(reference, (before + after) / 2)
        self.recovery = CalendarDetector(_inside(recovered), direction="rise" if self.sign == 1 else "drop")
        further = worse(reference, worst) - self.sign * options.min_drop
        self.detector = CalendarDetector(_inside(further), direction=self.direction)

    def relearn(self, since: float) -> None:
        """Discard the baseline, and learn a new one from the units since a time."""
        self.baseline = None
        self.learns_from, self.learn_days = since, LEARNING_DAYS
        self._arm(self.target)

    def learn_from(self, since: float, now: float, options: Watch, amounts: AmountsBetween) -> None:
        """Learn the baseline at once from units that a backfill has added, at most those of the last 28 days.

        Without enough units, the stream continues to learn. A baseline that is known stays.
        """
        since = max(since, now - MAX_DAYS * DAY_S)
        if self.baseline is not None or not amounts(since, now):
            return
        self.learns_from = since
        self.learn_days = max(math.ceil((now - since) / DAY_S), LEARNING_DAYS)
        self._learn(since + self.learn_days * DAY_S, options, amounts)

    def units_needed(self, units: Sequence[UnitAmounts], options: Watch) -> int | None:
        """Return how many units the baseline needs after those since `learns_from`, or None if it is not learned."""
        return self._learning(units, options).n_missing() if self.phase == "learning" else None

    def watches(self, unit: Unit) -> bool:
        """Return whether a unit belongs to this stream: one without scores belongs to the stream of failures only."""
        return unit.value is not None or self.kind == "failures"

    def value_of(self, unit: Unit) -> tuple[float, float]:
        """Return the value of a unit in [0, 1] and its sum of 1 / probability."""
        if self.kind == "failures":
            return unit.failed_share, unit.weight + unit.failed_weight
        assert unit.value is not None  # noqa: S101 - a unit without scores is not in this stream
        return self.scale.to_unit(unit.value), unit.weight

    def mean_of(self, units: Sequence[Unit]) -> float | None:
        """Return the weighted mean of units, in [0, 1]. None without units."""
        pairs = [self.value_of(u) for u in units if self.watches(u)]
        total = sum(self.weight(weight) for _, weight in pairs)
        return sum(x * self.weight(weight) for x, weight in pairs) / total if total else None

    def interval_of(self, units: Sequence[Unit]) -> tuple[float, float] | None:
        """Return the 95% confidence interval of the mean of units, over sessions, in [0, 1]. None with fewer than two."""
        pairs = [(unit.session, *self.value_of(unit)) for unit in units if self.watches(unit)]
        if len({session for session, *_ in pairs}) < 2:
            return None
        weights = [self.weight(total) for *_, total in pairs]
        smallest = min(weights)
        found = hajek_mean(
            [x for _, x, _ in pairs], [smallest / w for w in weights], clusters=[session for session, *_ in pairs]
        )
        return found.low, found.high

    def weight(self, total: float) -> float:
        """Return the weight of a unit, in (0, 1], from its sum of 1 / probability."""
        return min(total * self.p_floor, 1.0) if self.baseline is None else self.baseline.weight(total)

    def _aim(self, options: Watch) -> None:
        """Use the target of the configuration, if it has one, instead of the learned reference."""
        target = options.targets.get(self.key.metric) if self.kind == "score" else None
        aim = None if target is None else self.scale.to_unit(target)
        if aim == self.target:
            return
        old, self.target = self.target, aim
        reference = self.reference
        if self.recovery is None or self.detector is None:
            self._arm(reference)
        elif reference is None:
            self.target = old  # of the open alarm, until another reference is learned
        else:
            worst = self.detector.reference + self.sign * options.min_drop
            self.open_alarm(before=reference, after=worst, worst=worst, options=options)

    def _arm(self, reference: float | None) -> None:
        self.recovery = None
        self.detector = None if reference is None else CalendarDetector(reference, direction=self.direction)

    def _bet(self, x: float, weight: float, spend: float, options: Watch) -> Event | None:
        assert self.detector is not None  # noqa: S101 - the caller checks
        reference = self.reference
        assert reference is not None  # noqa: S101 - a detector implies one
        if self.recovery is not None and self.recovery.update(x, spend=spend, weight=weight):
            self._arm(reference)
            return "recovered"
        if not self.detector.update(x, spend=spend, weight=weight):
            self.n_since_alarm += self.recovery is not None
            return "follow_up" if self.recovery is not None and self.n_since_alarm == FOLLOW_UP_UNITS else None
        self.n_since_alarm = 0
        self.open_alarm(before=reference, after=x, worst=x, options=options)
        return "alarm"

    def _learn(self, now: float, options: Watch, amounts: AmountsBetween) -> None:
        if now < self.learns_from + self.learn_days * DAY_S:
            return
        end = self.learns_from + self.learn_days * DAY_S
        units = self._learning([unit for unit in amounts(self.learns_from, end) if unit.closed_at < end], options)
        if len(units.values) == 0:
            # The first units are so old that they were deleted.
            self.learns_from, self.learn_days = now, LEARNING_DAYS
            return
        self.baseline = units.learn()
        if self.baseline is None:
            self.learn_days += LEARNING_DAYS
        elif self.detector is None:
            self._arm(self.reference)

    def _learning(self, units: Sequence[UnitAmounts], options: Watch) -> LearningUnits:
        """Return the units of this stream, with the values that `value_of` returns."""
        import numpy as np

        # A unit without scores has NaN.
        closed_at, value, weight, failed_weight, p_min = np.array(units, float).reshape(-1, 5).T
        if self.kind == "failures":
            weight = weight + failed_weight
            value, mine = failed_weight / weight, np.full(len(units), fill_value=True)
        else:
            value = np.clip((value - self.scale.low) / (self.scale.high - self.scale.low), 0.0, 1.0)
            mine = ~np.isnan(value)
        return LearningUnits(
            values=value[mine],
            totals=weight[mine],
            days=((closed_at[mine] - self.learns_from) // DAY_S).astype(int),
            p_floor=float(p_min[mine].min(initial=1.0)),
            min_drop=options.min_drop,
            is_last=self.learn_days >= MAX_DAYS,
        )

    def state(self) -> dict[str, Any]:
        """Return the state as plain data for a store, less than 1 kB of JSON."""
        return {
            "scale": [self.scale.low, self.scale.high, self.scale.higher_is_better],
            "learns_from": self.learns_from,
            "baseline": None if self.baseline is None else self.baseline.state(),
            "detector": None if self.detector is None else self.detector.state(),
            "recovery": None if self.recovery is None else self.recovery.state(),
            **{name: getattr(self, name) for name in _STORED},
        }

    @classmethod
    def from_state(cls, key: StreamKey, kind: StreamKind, state: Mapping[str, Any]) -> Self:
        """Resume from a state returned by `state()`."""
        low, high, higher_is_better = state["scale"]
        new = cls(key, kind, Scale(low=low, high=high, higher_is_better=higher_is_better), start=state["learns_from"])
        for name in _STORED:
            setattr(new, name, state[name])
        new.baseline = None if state["baseline"] is None else Baseline(**state["baseline"])
        new.detector = None if state["detector"] is None else CalendarDetector.from_state(state["detector"])
        new.recovery = None if state["recovery"] is None else CalendarDetector.from_state(state["recovery"])
        return new
