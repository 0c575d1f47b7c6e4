"""The result of a trial: how many wrong answers each intervention corrects, without those that luck corrects."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final, NamedTuple

from ragstone._util.quantities import count
from ragstone._util.table import text_table
from ragstone.experiments._repair.interventions import INTERVENTIONS
from ragstone.stats import Estimate, estimate_mean
from ragstone.views import format_share

REASONS: Final = {
    "not_in_prompt": "the intervention did not reach the prompt",
    "unseen": "the prompt was not seen: return `contexts` with the answer, or capture the model's call",
    "not_retrieved": "the application called no retriever that can be changed",
    "unchanged": "there was nothing to change",
    "impossible": "not possible for what was retrieved",
    "failed": "the application gave no answer",
    "undecided": "it is not known whether the answer is wrong",
    "no_control": "it is not known whether the repeat without a change is wrong",
}
"""Why an answer is not part of a share."""
_TRIED: Final = 8
"""Answers after which an intervention that changed no prompt is given up."""
_LEAST: Final = 10
"""Pairs from which an intervention is compared with others before the trial ends."""


class Answer(NamedTuple):
    """The answer to one case under an intervention."""

    is_right: bool | None
    """None if it is not known."""
    state: str
    """A state of an intervention, or "failed"."""
    probability: float = 1.0
    """Probability that the case got the intervention."""
    reason: str | None = None
    """What the application raised."""


Asked = Mapping[str, Answer]
"""The answers of one case by intervention, the control among them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairShare:
    """What one intervention corrects."""

    name: str
    title: str
    is_repair: bool
    """False for what only shows what retrieval can change."""
    estimate: Estimate | None
    """Share of wrong answers that it corrects, less the share that a repeat corrects, in [-1, 1]. None without
    pairs."""
    n_assigned: int
    n_unchanged: int
    """Pairs in which there was nothing to change, such as a single passage. They are part of the estimate."""
    left_out: Mapping[str, int]
    """Numbers of answers that are not part of it, by a key of `REASONS`."""

    @property
    def is_hopeless(self) -> bool:
        """Whether it changed no prompt of the first answers, so that no more calls are spent on it."""
        known = self.left_out.keys() & {"failed", "undecided", "no_control"}
        return self.estimate is None and self.n_assigned >= _TRIED and not known


def repair_shares(cases: Sequence[Asked], weights: Sequence[float], confidence_level: float) -> list[RepairShare]:
    """Estimate what each intervention corrects, from the differences to the control of the same case."""
    shares = []
    for intervention in INTERVENTIONS:
        differences, pair_weights, n_unchanged = [], [], 0
        left_out: Counter[str] = Counter()
        for asked, weight in zip(cases, weights, strict=True):
            answer, control = asked.get(intervention.name), asked.get("control")
            if answer is None:
                continue
            if answer.state not in ("changed", "unchanged"):
                left_out[answer.state] += 1
            elif answer.is_right is None:
                left_out["undecided"] += 1
            elif control is None or control.is_right is None:
                left_out["no_control"] += 1
            elif control.state != "unchanged":
                left_out[control.state] += 1
            else:
                differences.append(float(answer.is_right) - float(control.is_right))
                pair_weights.append(weight / answer.probability)
                n_unchanged += answer.state == "unchanged"
        n_assigned = len(differences) + left_out.total()
        if differences and n_unchanged == len(differences):
            left_out["unchanged"], differences, pair_weights = n_unchanged, [], []
        if n_assigned:
            shares.append(
                RepairShare(
                    name=intervention.name,
                    title=intervention.title,
                    is_repair=intervention.is_repair,
                    estimate=_weighted(differences, pair_weights, -1.0, confidence_level),
                    n_assigned=n_assigned,
                    n_unchanged=n_unchanged,
                    left_out=dict(left_out),
                )
            )
    return sorted(shares, key=lambda s: (not s.is_repair, math.inf if s.estimate is None else -s.estimate.value))


def answer_share(
    cases: Sequence[Asked], weights: Sequence[float], name: str, level: float, *, is_right: bool
) -> Estimate | None:
    """Estimate the share of answers under one intervention that are right or wrong, with what luck corrects."""
    known = [
        (float(answer.is_right is is_right), weight / answer.probability)
        for asked, weight in zip(cases, weights, strict=True)
        if (answer := asked.get(name)) and answer.is_right is not None
        if name == "control" or answer.state in ("changed", "unchanged")
    ]
    return _weighted([value for value, _ in known], [weight for _, weight in known], 0.0, level)


def leading(shares: Sequence[RepairShare]) -> RepairShare | None:
    """Return the repair that corrects most. None if no repair has a result."""
    return next((share for share in shares if share.is_repair and share.estimate is not None), None)


def is_order_clear(shares: Sequence[RepairShare]) -> bool:
    """Return whether the leading repair is above 0 and above each other repair.

    The limits of a difference are those of Zou and Donner 2008 for independent estimates. Estimates with the same
    control agree more, so these limits are conservative.
    """
    best = leading(shares)
    if best is None or best.estimate is None or best.estimate.n < _LEAST or best.estimate.low <= 0:
        return False
    value, low = best.estimate.value, best.estimate.low
    others = [share.estimate for share in shares if share.is_repair and share is not best and not share.is_hopeless]
    return all(
        other and other.n >= _LEAST and value - other.value > math.hypot(value - low, other.high - other.value)
        for other in others
    )


def _weighted(values: Sequence[float], weights: Sequence[float], low: float, level: float) -> Estimate | None:
    least = min(weights, default=1.0)
    probabilities = [least / weight for weight in weights]
    return estimate_mean(values, low=low, high=1.0, probabilities=probabilities, confidence_level=level)


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairTrial:
    """What corrects the wrong answers of an application, by trial. `str` is the report."""

    app: str
    judge: str
    n_rows: int
    n_without_question: int
    """Rows whose question is missing, such as cases whose texts were removed. They cannot be asked."""
    n_right: int
    """Rows whose answer is right by this judge."""
    n_undecided: int
    """Rows of which it is not known whether the answer is wrong."""
    n_wrong: int
    n_asked: int
    """Wrong answers that were asked for again."""
    n_calls: int
    """Calls of the application for them."""
    n_judged_before: int = 0
    """Rows that the file calls wrong and this judge calls right: the judge, or its settings, may have changed since."""
    basis: Mapping[str, int] = field(default_factory=dict)
    """What decides that answers are wrong: numbers of answers by "correctness", "support" and "abstention"."""
    luck: Estimate | None = None
    """Share of wrong answers that are right when the application is asked again without a change."""
    wrong_with_references: Estimate | None = None
    """Share of wrong answers that stay wrong with the reference passages alone."""
    shares: tuple[RepairShare, ...] = ()
    """The repairs, the one that corrects most first, then the other interventions."""
    stopped: str = ""
    """Why not all wrong answers were asked for: "clear" (the order of the repairs is clear) or "budget". Or empty."""
    failures: Mapping[str, int] = field(default_factory=dict)
    """Numbers of calls without an answer, by reason."""
    confidence_level: float = 0.95
    where: str | None = None
    """Conditions with which the cases were chosen from a store."""
    metrics: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Version of each metric, which includes its prompt, and hash of its judge."""
    finished_at: float = 0.0
    """Unix seconds."""
    kept: str = ""
    """Which store keeps the result, or why none does, in a sentence. Empty if the rows are not cases of a store."""

    @property
    def best(self) -> RepairShare | None:
        """The repair that corrects most, if it is shown to correct more than a repeat. None otherwise."""
        share = leading(self.shares)
        return share if share is not None and share.estimate is not None and share.estimate.low > 0 else None

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        best = self.best and self.best.name
        return {"kind": "ragstone.repair", **asdict(self), "best": best, "verdict": self.verdict}

    @property
    def verdict(self) -> str:
        """The result in one or two sentences."""
        if not self.n_wrong:
            end = "nothing is claimed" if self.n_undecided else "there is nothing to repair"
            return f"No answer is wrong by this judge ({self.n_right} right, {self.n_undecided} not decided), so {end}."
        if (best := leading(self.shares)) is None or best.estimate is None:
            text = "No repair has a result, so nothing is claimed."
        elif best.estimate.low > 0:
            text = f"{best.title}: corrects {format_share(best.estimate)} of the wrong answers beyond luck."
        else:
            text = "No repair is shown to correct more answers than asking again does."
        if self.wrong_with_references is not None:
            text += f" With the reference passages alone, {format_share(self.wrong_with_references)} stay wrong: better passages do not correct them."
        return text

    def __str__(self) -> str:
        lines = [self.verdict, "", self._counts()]
        if self.luck is not None:
            lines.append(
                f"Asked again without a change, {format_share(self.luck)} are right: luck, which is subtracted."
            )
        if self.shares:
            lines += ["", text_table(share_table(self), align="llrr"), ""]
        for share in self.shares:
            lines += [f"{share.title}: {n} left out, {REASONS[reason]}" for reason, n in share.left_out.items()]
        lines += [f"{count(n, 'call')} without an answer: {reason}" for reason, n in self.failures.items()]
        if self.stopped == "clear":
            lines.append(
                "The trial ended early, because the order of the repairs is clear. The intervals allow for that."
            )
        elif self.stopped:
            lines.append("The budget is exhausted. The same command with a larger budget resumes.")
        lines.append(self.kept)
        return "\n".join(lines).rstrip()

    def _counts(self) -> str:
        numbers = (self.n_right, self.n_undecided, self.n_without_question)
        words = ("right", "not decided", "without a question (texts removed?)")
        rest = "".join(f", {n} {word}" for n, word in zip(numbers, words, strict=True) if n)
        basis = ", ".join(f"{n} by {name}" for name, n in self.basis.items())
        text = (
            f"{self.n_wrong} of {count(self.n_rows, 'answer')} are wrong by judge {self.judge}{basis and f' ({basis})'}{rest}. "
            f"{count(self.n_asked, 'question')} asked again in {self.n_calls} calls of {self.app}."
        )
        if self.n_judged_before:
            text += f" {count(self.n_judged_before, 'answer')} that the file calls wrong passed: the judge may have changed since."
        return text


def share_table(trial: RepairTrial) -> list[tuple[str, ...]]:
    """Return the rows of a table of interventions, headings first."""
    rows: list[tuple[str, ...]] = [("intervention", f"corrects [{trial.confidence_level:.0%} CI]", "pairs", "left out")]
    for share in trial.shares:
        text, n = (format_share(share.estimate), share.estimate.n) if share.estimate else ("not known", 0)
        rows.append((share.title, text, str(n), str(sum(share.left_out.values()))))
    return rows
