"""Units: closed sessions with the mean of their scores, the items of a stream."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ragstone.store import Unit, WatchedOutcome
from ragstone.watch._options import SESSION_MAX_S


class Segment(NamedTuple):
    """Outcomes of one stream and session between two pauses."""

    closes_at: float
    outcomes: list[WatchedOutcome]


def segments(outcomes: Iterable[WatchedOutcome], *, gap_s: float) -> list[Segment]:
    """Divide the outcomes of one application's session, in all its streams, where it pauses or has lasted four hours.

    Each segment closes `gap_s` after its last request, at the latest four hours after its first.
    """
    found: list[Segment] = []
    first = last = 0.0
    for outcome in sorted(outcomes, key=lambda o: (o.requested_at, o.trace_id, o.key)):
        at = outcome.requested_at
        if not found or at - last >= gap_s or at - first >= SESSION_MAX_S:
            found.append(Segment(0.0, []))
            first = at
        last = at
        found[-1].outcomes.append(outcome)
        found[-1] = Segment(min(last + gap_s, first + SESSION_MAX_S), found[-1].outcomes)
    return found


def to_unit(
    outcomes: Sequence[WatchedOutcome],
    *,
    closed_at: float,
    gap_s: float | None = None,
    higher_is_better: bool = True,
    slices: Sequence[str] = (),
) -> Unit:
    """Combine the outcomes (at least one) of one stream in one session.

    The session ended at `closed_at` (Unix seconds). `gap_s` is the time since its last unit, or None.
    `higher_is_better` decides on the worst score. `slices` are fields by which alarms are divided, with the values of
    the first request.
    """
    scored = [(o, o.value) for o in outcomes if o.value is not None]
    weight = sum(1 / o.probability for o, _ in scored)
    sign = 1 if higher_is_better else -1
    worst, worst_value = min(scored, key=lambda s: (sign * s[1], s[0].trace_id), default=(outcomes[0], None))
    return Unit(
        session=outcomes[0].session,
        closed_at=closed_at,
        value=sum(v / o.probability for o, v in scored) / weight if scored else None,
        weight=weight,
        failed_weight=sum(1 / o.probability for o in outcomes if o.value is None),
        p_min=min(o.probability for o in outcomes),
        gap_s=gap_s,
        worst_trace=worst.trace_id,
        worst_value=worst_value,
        labels={name: value for name, value in outcomes[0].labels.items() if name in slices},
    )
