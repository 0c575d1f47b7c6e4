"""The sentences of a report. Each is made from numbers that it carries, and only from what intervals allow to say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from ragstone._util.quantities import count
from ragstone.experiments._views.changes import Compared, describe_change
from ragstone.judges import BASELINE_NOTE, is_baseline
from ragstone.scoring import CAUSES, DECIDING_FAILED
from ragstone.stats import Estimate
from ragstone.views import CauseRow, MetricRow, Statement, format_interval, format_mean, format_share

_FEW: Final = 30
_MAX_STATEMENTS: Final = 3
_MAX_FAILURE_NOTICES: Final = 3

WrongRule = Literal["correctness", "mixed", "support", "abstention"]
"""What wrong means: judged wrong; else abstains or makes unsupported claims; else only abstains. Mixed: not the same
for all."""

_NOT_SCORED: Final = next(cause for cause in CAUSES if cause.name == "not_scored")
_ARE_WRONG: Final[Mapping[WrongRule, tuple[str, str]]] = {
    "correctness": ("is judged wrong", "are judged wrong"),
    "mixed": ("is judged wrong, abstains, or is not supported", "are judged wrong, abstain, or are not supported"),
    "support": ("abstains or is not supported", "abstain or are not supported"),
    "abstention": ("abstains", "abstain"),
}
_IS_NOT_WRONG: Final[Mapping[WrongRule, str]] = {
    "correctness": "is not judged wrong",
    "mixed": "is not judged wrong",  # A single answer is not mixed.
    "support": "does not abstain, and is supported",
    "abstention": "does not abstain",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Population:
    """The answers of a report, counted."""

    n_samples: int
    n_scored: int
    """Samples with at least one score."""
    n_judged: int
    """Samples of which it is known whether they are wrong."""
    undecided: Counter[str]
    """Samples with a score of which that is not known, by reason."""
    n_wrong: int
    share_wrong: Estimate | None
    rule: WrongRule
    causes: tuple[CauseRow, ...]


def describe_verdict(
    population: Population, rows: Sequence[MetricRow], compared: Compared | None = None
) -> tuple[Statement, ...]:
    """Write the verdict: at most three statements, after that about the baseline if there is one."""
    change = [] if compared is None else [describe_change(compared)]
    statements = [_describe_wrong(population), *filter(None, map(_describe_target, rows))]
    return (*change, *statements[:_MAX_STATEMENTS])


def _describe_wrong(population: Population) -> Statement:
    share = population.share_wrong
    if share is None:
        return Statement(
            text=f"{count(population.n_scored, 'sample')} scored. No metric says which answers are wrong.",
            kind="count",
            numbers={"n_scored": population.n_scored},
        )
    n, total = population.n_wrong, population.n_judged
    numbers = {"n_wrong": n, "n_answers": total, "share": share.value, "low": share.low, "high": share.high}
    what, subject = _ARE_WRONG[population.rule][n > 1], f"{n:,}" if n else "None"
    if n == 0:
        what = what.replace("is not supported", "lacks support")  # "None ... is not" would be read twice
    text = f"{subject} of {count(total, 'answer')} {what} ({format_share(share)})."
    if total == 1:
        text = f"The only answer {what if n else _IS_NOT_WRONG[population.rule]} ({format_share(share)})."
    parts = _wrong_causes(population)[:2]
    if parts:
        numbers |= {f"n_{row.cause}": row.n for row in parts}
        clauses = [
            f"{row.n:,}{' of them' if k == 0 else ''} {row.title[0].lower()}{row.title[1:]}"
            for k, row in enumerate(parts)
        ]
        text += f" In {', in '.join(clauses)}."
    if population.rule == "abstention":
        text += " No metric says whether the answers are correct or supported."
    return Statement(text=text, kind="count", numbers=numbers)


def _wrong_causes(population: Population) -> list[CauseRow]:
    """Return the causes of wrong answers, without those that only the baseline has."""
    return [row for row in population.causes if row.is_wrong and row.n]


def _describe_target(row: MetricRow) -> Statement | None:
    target, estimate = row.target, row.estimate
    if target is None:
        return None
    name = f"The mean value of {row.title}" if row.rule else row.title
    if estimate is None:
        return Statement(
            text=f"{row.title} was not scored, so it cannot be compared with its target {target:g}.",
            kind="warning",
            numbers={"target": target},
        )
    numbers = {"target": target, "mean": estimate.value, "low": estimate.low, "high": estimate.high}
    mean = f"{format_mean(estimate)} {format_interval(estimate)}"
    if estimate.low > target or estimate.high < target:
        side = "above" if estimate.low > target else "below"
        missed = "reached" if (side == "above") != row.lower_is_better else "missed"
        text = f"{name} is significantly {side} its target {target:g}: {mean}. The target is {missed}."
        return Statement(text=text, kind="significant", numbers=numbers)
    text = f"{name} does not differ significantly from its target {target:g}: {mean}."
    return Statement(text=text, kind="not_significant", numbers=numbers)


def describe_next(population: Population) -> Statement | None:
    """Name what to work on first, and how many answers that can correct at most."""
    if population.rule == "abstention":
        if not population.n_scored:
            return None
        if n := population.undecided[DECIDING_FAILED]:
            return Statement(text=_NOT_SCORED.next, kind="action", numbers={"n_undecided": n})
        text = "Add a metric that says which answers are wrong: ccrs.ac with references, ragas.faithfulness without."
        return Statement(text=text, kind="action")
    wrong = _wrong_causes(population)
    if not wrong:
        return None
    first, n_wrong = wrong[0], population.n_wrong
    rest = n_wrong - first.n
    limit = (
        f"This concerns all {count(n_wrong, 'wrong answer')}."
        if rest == 0
        else f"This can correct at most {first.n:,} of the {count(n_wrong, 'wrong answer')}."
    )
    return Statement(text=f"{first.next} {limit}", kind="action", numbers={"n": first.n, "n_wrong": n_wrong})


def describe_notices(
    population: Population, rows: Sequence[MetricRow], notes: Sequence[str], doubts: Mapping[str, int]
) -> tuple[Statement, ...]:
    """Write what limits the other statements."""
    notices = []
    if is_baseline(*(judge for row in rows for judge in row.judges)):
        notices.append(Statement(text=f"{BASELINE_NOTE[0].upper()}{BASELINE_NOTE[1:]}.", kind="warning"))
    failed = [row for row in rows if row.n_failed]
    notices += map(_describe_failures, sorted(failed, key=lambda row: -row.n_failed)[:_MAX_FAILURE_NOTICES])
    for why, n in population.undecided.items():
        text = f"{count(n, 'answer is', 'answers are')} not counted, right or wrong: {why}."
        notices.append(Statement(text=text, kind="warning", numbers={"n_undecided": n}))
    if len(failed) > _MAX_FAILURE_NOTICES:
        others = failed[_MAX_FAILURE_NOTICES:]
        text = f"{count(len(others), 'more metric has', 'more metrics have')} failures, see the table."
        notices.append(Statement(text=text, kind="warning", numbers={"n_metrics": len(others)}))
    if 0 < population.n_scored < _FEW:
        text = f"Only {count(population.n_scored, 'sample')}: intervals are wide, and shares are rough."
        notices.append(Statement(text=text, kind="warning", numbers={"n_scored": population.n_scored}))
    mixed = [row for row in rows if len(row.judges) > 1]
    if mixed:
        what = mixed[0].title if len(mixed) == 1 else f"{len(mixed)} metrics"
        n_judges = len({judge for row in mixed for judge in row.judges})
        text = f"Scores of {what} come from {n_judges} judges, whose scales may differ."
        notices.append(Statement(text=text, kind="warning", numbers={"n_metrics": len(mixed), "n_judges": n_judges}))
    for reason, n in doubts.items():
        text = f"Not applicable to {count(n, 'sample')}: {reason}."
        notices.append(Statement(text=text, kind="warning", numbers={"n": n}))
    notices += [Statement(text=note, kind="warning") for note in notes]
    return tuple(notices)


def _describe_failures(row: MetricRow) -> Statement:
    n = row.n_scored + row.n_failed
    kinds = ", ".join(kind if k == row.n_failed else f"{k:,} {kind}" for kind, k in row.failure_kinds.items())
    text = f"{row.n_failed:,} of {n:,} scores of {row.title} failed ({kinds})."
    numbers: dict[str, float] = {"n_failed": row.n_failed, "n": n, **row.failure_kinds}
    if row.bounds is not None and all(abs(end) != float("inf") for end in row.bounds):
        low, high = row.bounds
        text += f" Whatever their values, the mean is between {low:.3f} and {high:.3f}."
        numbers |= {"low": low, "high": high}
    return Statement(text=text, kind="warning", numbers=numbers)
