"""Cases: requests of a store as rows of a test set, and what became of them when they are asked again."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from hashlib import blake2b
from pathlib import Path
from statistics import fmean
from typing import Any, Final

from ragstone._util.files import open_output
from ragstone._util.quantities import count
from ragstone.errors import ConfigurationError, DataError
from ragstone.experiments._clusters import NO_CLUSTER
from ragstone.experiments._labels import disagreements, draw_probabilities
from ragstone.experiments._outcomes import OutcomeSource, Period, StoredRequests, store_of
from ragstone.experiments._runs import describe_changes, origins_of
from ragstone.experiments._views.reading import Reading
from ragstone.experiments._views.source import Evaluated
from ragstone.experiments._views.where import CAUSE, parse_where
from ragstone.reading import CASE, CHOSEN_BY_SCORES, case_of
from ragstone.schema import Outcome, Score, Trace, fingerprint, outcome_adapter
from ragstone.settings import Analysis
from ragstone.stats import Estimate
from ragstone.store import StoredCase, StoredLabel, describe_store, open_for_labels, open_store, settle_labels
from ragstone.views import format_share

_PAGE: Final = 200
_LUCK: Final = "Some answers that were wrong are right at a second try by luck: what a plain repeat corrects is not the effect of a change."


@dataclass(frozen=True, slots=True, kw_only=True)
class Cases:
    """Requests of a store that were chosen as cases."""

    store: str | os.PathLike[str]
    weights: Mapping[str, float | None]
    """Inverse of the probability to be a case, by id of each case. None if it is not known."""
    n_selected: int
    """Scored requests that fulfill the conditions and have a text."""
    n_removed: int
    """Scored requests that fulfill the conditions, and whose texts were removed. They are not cases."""
    estimates: str | None
    """What the weighted mean of the cases estimates. None if they were chosen because they failed."""
    where: str | None
    _reading: Reading = field(repr=False)
    _source: StoredRequests = field(repr=False)

    def lines(self) -> Iterator[str]:
        """Yield one row of JSON for each case, with a line end."""
        with open_store(self.store, mode="read") as store:
            ids, labels = list(self.weights), dict[str, list[StoredLabel]]()
            for label in sorted(store.labels.read(), key=lambda label: label.labeled_at):
                labels.setdefault(label.trace_id, []).append(label)
            for start in range(0, len(ids), _PAGE):
                page = ids[start : start + _PAGE]
                answers = store.traces.answers(page)
                for id_ in page:
                    # A worker may have removed a text in the meantime.
                    if (answer := answers.get(id_)) is not None and answer.trace is not None:
                        outcomes = [each for each in answer.outcomes if self._source.is_planned(each)]
                        row = self._row(answer.trace, outcomes, labels.get(id_, []))
                        yield json.dumps(row, ensure_ascii=False) + "\n"

    def write(self, path: Path) -> None:
        """Write the rows to a file. The store notes which requests the file contains, for erasures."""
        place = str(path.absolute())
        with open_for_labels(self.store) as store:
            store.labels.save([StoredCase(place, id_) for id_ in self.weights])
        settle_labels(self.store)
        with open_output(path, errors="replace") as file:
            file.writelines(self.lines())

    def _row(self, trace: Trace, outcomes: Sequence[Outcome], labels: Sequence[StoredLabel]) -> dict[str, Any]:
        id_, weight = trace.trace_id, self.weights[trace.trace_id]
        last = {outcome.metric: outcome for outcome in outcomes}.values()
        case = {
            "estimates": self.estimates,
            "store": describe_store(self.store),
            "where": self.where,
            "weight": weight,
            "fingerprint": fingerprint(trace.query, trace.history),
            "cause": self._reading.causes.get(id_),
            "is_wrong": self._reading.wrong.get(id_),
            "label": fmean(values) if (values := [each.value for each in labels if each.value is not None]) else None,
            "scores": {each.metric: each.value for each in last if isinstance(each, Score)},
            "outcomes": [each.model_dump(mode="json", exclude={"raw"}, exclude_none=True) for each in last],
        }
        trace = _corrected(trace, labels)
        shown = trace.model_copy(
            update={
                "contexts": trace.prompt_contexts,
                "inclusion_probability": trace.inclusion_probability if weight is None else 1 / weight,
            }
        )
        about = {"schema_version": trace.schema_version, "trace_id": id_, CASE: case}
        return about | shown.model_dump(mode="json", exclude_defaults=True)


def _corrected(trace: Trace, labels: Sequence[StoredLabel]) -> Trace:
    """Return a trace with the last correction of people as its reference, and their marks of passages as its labels."""
    changes: dict[str, Any] = {}
    if corrections := [label.correction for label in labels if label.correction is not None]:
        changes["reference"] = (corrections[-1],)
    marks = [label.relevant for label in labels if label.relevant is not None]
    if marks and (passages := trace.prompt_contexts):
        relevant = set(json.loads(marks[-1]))
        grades = [float(position in relevant) for position in range(1, len(passages) + 1)]
        changes["contexts"] = tuple(
            passage.model_copy(update={"relevance": grade}) for passage, grade in zip(passages, grades, strict=True)
        )
        # An application that is asked again may retrieve other passages, which are matched by their ids.
        if all(passage.id is not None for passage in passages):
            ids = [str(passage.id) for passage in passages]
            changes["qrels"] = (trace.qrels or {}) | dict(zip(ids, grades, strict=True))
    return trace.model_copy(update=changes)


def choose_cases(
    source: OutcomeSource,
    *,
    where: str | None = None,
    worst: int | None = None,
    limit: int = 100,
    seed: int | None = None,
) -> Cases:
    """Choose scored requests of a store as cases: the worst wrong ones, or requests that are drawn at random.

    A request is drawn if a number from 0 to 1, which follows from its id and the seed, is below its probability. So the
    same store gives the same cases again. Probabilities are those of `draw_to_label`. `where` has conditions, as for
    `find_worst`, `worst` is the number of the worst wrong answers (None draws), and `limit` the expected number of
    drawn cases.
    """
    store, conditions = store_of(source), parse_where(where) if where is not None else ()
    if store is None:
        raise ConfigurationError("cases are requests of a store, which has their texts. Give a store instead of a file")
    period = source if isinstance(source, Period) else Period(store)
    opened = StoredRequests(period, None, Analysis(cluster=NO_CLUSTER))
    reading = Reading(opened, where=conditions)
    reading.read()
    with open_store(store, mode="read") as stored:
        removed = {each.trace_id for each in stored.upkeep.removed_texts(since=period.since, until=period.until)}
    selected, wrong = reading.selected(), reading.wrong
    has_cause = any(condition.key == CAUSE for condition in conditions)
    if worst is not None and not has_cause:
        selected = [id_ for id_ in selected if wrong.get(id_)]
    ids = [id_ for id_ in selected if id_ not in removed]
    n_removed = len(selected) - len(ids)
    if not ids:
        what = "wrong answer" if worst is not None else "scored request"
        rest = f" ({count(n_removed, 'request')} without texts, which retention removed)" if n_removed else ""
        raise DataError(f"no {what} of {opened.name!r} is selected{rest}. Change --where, or score more requests")
    weights: dict[str, float | None]
    if worst is not None:
        weights = dict.fromkeys(reading.worst_of(ids, worst))
    else:
        sizes, captured = disagreements(reading.table)[0], opened.dependence().inclusion_probabilities
        drawn = draw_probabilities({id_: sizes.get(id_, 0.0) for id_ in ids}, limit)
        chosen = {id_: share for id_, share in drawn.items() if _number_of(id_, seed or 0) < share}
        weights = {id_: 1 / (share * captured.get(id_, 1.0)) for id_, share in chosen.items()}
    is_failing = worst is not None or has_cause or any(each.key in reading.table.metrics for each in conditions)
    about = f"{count(len(ids), 'scored request')} of {Path(opened.name).name}{f' with {where}' if where else ''}"
    return Cases(
        store=store,
        n_selected=len(ids),
        n_removed=n_removed,
        estimates=None if is_failing else f"that of {about}",
        where=where,
        weights=weights,
        _reading=reading,
        _source=opened,
    )


def kind_of_set(estimates: str | None) -> str:
    """Say what the mean of cases estimates."""
    if estimates is None:
        return f"{CHOSEN_BY_SCORES[0].upper()}{CHOSEN_BY_SCORES[1:]}."
    return f"The weighted mean of the cases estimates {estimates}."


def _number_of(trace_id: str, seed: int) -> float:
    """Return a number from 0 to 1 that follows from an id and a seed."""
    digest = blake2b(f"{seed} {trace_id}".encode("utf-8", "surrogatepass"), digest_size=7).digest()
    return int.from_bytes(digest) / 2**56


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseComparison:
    """What became of cases: whether answers that were judged wrong or right then are right or wrong now."""

    n: int
    """Cases in the evaluation."""
    n_wrong: int
    """Cases that were judged wrong then, and are judged now."""
    n_corrected: int
    """Those of them that are right now."""
    corrected: Estimate | None
    """The share of these, with its interval."""
    n_right: int
    """Cases that were judged right then, and are judged now."""
    n_broken: int
    """Those of them that are wrong now."""
    n_unknown: int
    """Cases of which it is not known then or now whether they are wrong."""
    n_other_question: int
    """Cases whose question differs from the one that was asked then. They are not compared."""
    is_asked: bool
    """Whether an application answered the cases again."""
    estimates: str | None
    """What the weighted mean of the cases estimates. None if they were chosen because they failed."""
    unscored: tuple[str, ...]
    """Metrics that were scored then, and are not scored now."""
    change: str
    """What changed of judges and metrics, so that scores then and now are not comparable. Empty if nothing did."""

    def __str__(self) -> str:
        lines = []
        if self.corrected is not None:
            numbers = f"{self.n_corrected:,} of {self.n_wrong:,} answers that were judged wrong are right now"
            lines.append(f"{numbers} ({format_share(self.corrected)}).")
        if self.n_right:
            lines.append(f"{self.n_broken:,} of {self.n_right:,} answers that were judged right are wrong now.")
        if self.n_unknown:
            lines.append(f"{count(self.n_unknown, 'case')} not compared: not judged wrong or right then, or not now.")
        if self.n_other_question:
            lines.append(f"{count(self.n_other_question, 'case')} not compared: another question than then.")
        if lines:
            lines.append(_LUCK if self.is_asked else "The same answers were scored again. Nothing was asked.")
        if self.unscored:
            lines.append(f"Scored then, and not now: {', '.join(self.unscored)}.")
        if self.change:
            lines.append(f"Since then: {self.change}.")
        return "\n".join([*lines, kind_of_set(self.estimates)])

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return asdict(self) | {"text": str(self)}


def compare_cases(experiment: Evaluated, *, is_asked: bool) -> CaseComparison:
    """Compare an evaluation of cases with what happened then.

    Cases are paired by id, and their questions must be equal.
    """
    cases = {sample.id: (sample, case) for sample in experiment.samples if (case := case_of(sample)) is not None}
    reading = Reading(experiment.source())
    reading.read()
    now = reading.wrong
    same = {
        id_: case["is_wrong"]
        for id_, (sample, case) in cases.items()
        if fingerprint(sample.query, sample.history) == case["fingerprint"]
    }
    was_wrong = {id_: was for id_, was in same.items() if was is not None and id_ in now}
    stated = [outcome_adapter.validate_python(each) for _, case in cases.values() for each in case["outcomes"]]
    then, now_by = origins_of(stated), origins_of(experiment.outcomes)
    failed, passed = ([id_ for id_, was in was_wrong.items() if was is value] for value in (True, False))
    return CaseComparison(
        n=len(cases),
        n_wrong=len(failed),
        n_corrected=sum(not now[id_] for id_ in failed),
        corrected=reading.share(failed, [not now[id_] for id_ in failed]),
        n_right=len(passed),
        n_broken=sum(now[id_] for id_ in passed),
        n_unknown=len(same) - len(was_wrong),
        n_other_question=len(cases) - len(same),
        is_asked=is_asked,
        estimates=next((case["estimates"] for _, case in cases.values()), None),
        unscored=tuple(sorted(then.keys() - now_by.keys())),
        change=describe_changes(then, now_by),
    )
