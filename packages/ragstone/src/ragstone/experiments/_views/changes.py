"""What changed against a baseline: gained and lost questions, what was wrong before, and the sentences about it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ragstone._util.quantities import count
from ragstone.experiments._views.source import Source
from ragstone.scoring import CAUSES
from ragstone.views import AnswerView, CauseFlow, ChangedAnswer, ChangesView, Difference, Statement, SystemEstimate

_SHOWN: Final = 6
"""Most gained and most lost questions that are shown."""
_FLOWS: Final = 12
_NAMED: Final = 3
"""Most causes that a sentence names."""
WRONG: Final = frozenset(cause.name for cause in CAUSES if cause.is_wrong)
_TITLES: Final = {cause.name: cause.title for cause in CAUSES}
_NOT_WRONG: Final = "Not wrong"


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """What a report shows of a comparison of its system with others."""

    system: str
    baseline: str
    systems: tuple[str, ...]
    """The reported system first, the baseline last."""
    paired: bool
    differences: tuple[Difference, ...]
    """Of each system from the baseline."""
    means: Mapping[str, tuple[SystemEstimate, ...]]
    """Means of all systems by metric, in the order of `systems`."""
    metric: str
    """The metric whose scores are listed with changed answers."""
    n_common: int
    values: Mapping[str, tuple[float | None, float | None]]
    """Scores of that metric in the baseline and in the reported system, by sample id."""
    higher_is_better: bool
    changed: Mapping[str, bool]
    """Whether a score of that metric is better, for samples whose score changed by at least half of its range."""
    notes: tuple[str, ...]
    method: str
    before: Source
    """Outcomes and samples of the baseline."""

    def change_of(self, metric: str) -> Difference | None:
        """Return the difference of the reported system on a metric."""
        return next((d for d in self.differences if d.metric == metric and d.system == self.system), None)


def build_changes(
    compared: Compared,
    before: Mapping[str, str | None],
    after: Mapping[str, str | None],
    answers: Callable[[Sequence[str]], tuple[AnswerView, ...]],
) -> ChangesView:
    """Build the view of what changed, from the causes of judged answers: None if an answer is not wrong.

    `answers` returns the views of the answers with some ids.
    """
    common = [id_ for id_ in after if id_ in before] if compared.paired else []
    changed_ids = compared.changed
    if common:
        is_wrong = {id_: (before[id_] in WRONG, after[id_] in WRONG) for id_ in common}
        changed_ids = {id_: was for id_, (was, is_now) in is_wrong.items() if was != is_now}
    gained = [id_ for id_, is_better in changed_ids.items() if is_better]
    lost = [id_ for id_, is_better in changed_ids.items() if not is_better]
    sign = 1 if compared.higher_is_better else -1

    def gain(id_: str) -> tuple[float, str]:
        first, second = compared.values.get(id_, (None, None))
        return (0.0 if first is None or second is None else sign * (second - first), id_)

    gained.sort(key=lambda id_: (-gain(id_)[0], id_))
    lost.sort(key=gain)
    own = compared.change_of(compared.metric)
    title = compared.metric if own is None else own.title
    flow = _flow(common, before, after)
    views = {view.id: view for view in answers([*lost[:_SHOWN], *gained[:_SHOWN]])}

    def changed(id_: str) -> ChangedAnswer:
        first, second = compared.values.get(id_, (None, None))
        return ChangedAnswer(
            id=id_,
            query=views[id_].query,
            before=first,
            after=second,
            cause_before=before.get(id_),
            cause_after=after.get(id_),
            title_before=_TITLES.get(before.get(id_) or ""),
            title_after=_TITLES.get(after.get(id_) or ""),
            why=views[id_].why,
        )

    return ChangesView(
        system=compared.system,
        baseline=compared.baseline,
        systems=compared.systems,
        paired=compared.paired,
        differences=compared.differences,
        metric=compared.metric,
        metric_title=title,
        means=compared.means[compared.metric],
        n_common=compared.n_common,
        gained=tuple(map(changed, gained[:_SHOWN])),
        lost=tuple(map(changed, lost[:_SHOWN])),
        gained_ids=tuple(gained),
        lost_ids=tuple(lost),
        flow=flow[:_FLOWS],
        statements=tuple(_describe_lists(compared, title, gained, lost, before, n_judged=len(common))),
        method=compared.method,
    )


def _flow(
    ids: Sequence[str], before: Mapping[str, str | None], after: Mapping[str, str | None]
) -> tuple[CauseFlow, ...]:
    counts = Counter((before[id_], after[id_]) for id_ in ids)
    del counts[None, None]
    return tuple(
        CauseFlow(
            before=first,
            after=second,
            title_before=_TITLES.get(first or "", _NOT_WRONG),
            title_after=_TITLES.get(second or "", _NOT_WRONG),
            n=n,
        )
        for (first, second), n in sorted(counts.items(), key=lambda item: (-item[1], str(item[0])))
    )


def _describe_lists(
    compared: Compared,
    title: str,
    gained: Sequence[str],
    lost: Sequence[str],
    before: Mapping[str, str | None],
    *,
    n_judged: int,
) -> list[Statement]:
    """Say how many questions were gained and lost, and what was wrong before."""
    if not compared.paired:
        text = f"{compared.system} and {compared.baseline} have different questions, so only means and shares are compared."
        return [Statement(text=text, kind="warning")]
    numbers: dict[str, float] = {"n_gained": len(gained), "n_lost": len(lost)}
    if not n_judged:
        gain, loss = ("rose", "fell") if compared.higher_is_better else ("fell", "rose")
        half = f"{gain} by at least half of its range for {count(len(gained), 'question')}"
        text = f"{title} {half} and {loss} as much for {len(lost):,}."
        return [Statement(text=text, kind="count", numbers=numbers)]
    was, is_ = ("was", "is") if len(gained) <= 1 else ("were", "are")
    fixed = f"{_number(gained)} {was} wrong in {compared.baseline} and {is_} not in {compared.system}"
    was, is_ = ("was", "is") if len(lost) <= 1 else ("were", "are")
    text = f"Of {count(n_judged, 'question')} judged in both, {fixed}. {_number(lost).capitalize()} {is_} wrong now and {was} not before."
    statements = [Statement(text=text, kind="count", numbers=numbers | {"n_judged": n_judged})]
    causes = Counter(cause for id_ in gained if (cause := before[id_]) is not None)
    if causes:
        named = sorted(causes.items(), key=lambda item: (-item[1], item[0]))[:_NAMED]
        parts = ", ".join(f"{_TITLES[cause][0].lower()}{_TITLES[cause][1:]} ({n:,})" for cause, n in named)
        rest = causes.total() - sum(n for _, n in named)
        others = f", another cause ({rest:,})" if rest else ""
        statements.append(
            Statement(
                text=f"What was wrong before with the {count(len(gained), 'gained question')}: {parts}{others}.",
                kind="count",
                numbers={f"n_{cause}": n for cause, n in named} | ({"n_other": rest} if rest else {}),
            )
        )
    return statements


def _number(ids: Sequence[str]) -> str:
    return f"{len(ids):,}" if ids else "none"


def describe_change(compared: Compared) -> Statement:
    """Write the verdict about the reported system and the baseline: on how many metrics it is better and worse."""
    own = [d for d in compared.differences if d.system == compared.system]
    tested = [d for d in own if d.n and not d.is_exploratory]
    better, worse = ([d for d in tested if d.finding == finding] for finding in ("better", "worse"))
    numbers: dict[str, float] = {"n_metrics": len(tested), "n_better": len(better), "n_worse": len(worse)}
    system, baseline = compared.system, compared.baseline
    if not tested:
        text = f"{system} and {baseline} cannot be compared: no question has a score of both."
        return Statement(text=text, kind="warning", numbers=numbers)
    of = f"of {count(len(tested), 'metric')}"
    if better and worse:
        text = f"{system} is significantly better than {baseline} on {len(better)} {of} and worse on {len(worse)}."
    elif better or worse:
        which = better or worse
        where = which[0].title if len(tested) == 1 else f"{len(which)} {of}"
        text = f"{system} is significantly {'better' if better else 'worse'} than {baseline} on {where}."
    else:
        where = tested[0].title if len(tested) == 1 else f"any {of}"
        text = f"{system} and {baseline} do not differ significantly on {where}."
    key = compared.change_of(compared.metric)
    if key is not None and key.difference is not None:
        text += f" {key.title} changed by {key.size}."
        numbers["difference"] = key.difference
        if key.low is not None and key.high is not None:
            numbers |= {"low": key.low, "high": key.high}
    return Statement(text=text, kind="significant" if better or worse else "not_significant", numbers=numbers)
