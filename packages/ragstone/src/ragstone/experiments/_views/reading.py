"""Reads a source, and builds the report of what it noted."""

from __future__ import annotations

import heapq
import itertools
import math
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from importlib.metadata import version
from typing import TYPE_CHECKING, Final

from ragstone._util.quantities import count
from ragstone.errors import ConfigurationError, DataError
from ragstone.experiments._checks import find_unusable, join_checks
from ragstone.experiments._clusters import choose_clusters, cluster_notes
from ragstone.experiments._summary import MetricSummary, summarize_table
from ragstone.experiments._table import ScoreTable, TableReader, describe_unjudged
from ragstone.experiments._views.answers import build_answer
from ragstone.experiments._views.changes import WRONG, Compared, build_changes
from ragstone.experiments._views.labeled import build_labels
from ragstone.experiments._views.reasons import AskReasons
from ragstone.experiments._views.slices import SliceLabels
from ragstone.experiments._views.source import AnswerRecord, Source
from ragstone.experiments._views.spent import estimate_spent
from ragstone.experiments._views.trend import Timeline
from ragstone.experiments._views.verdict import Population, WrongRule, describe_next, describe_notices, describe_verdict
from ragstone.experiments._views.where import Condition, are_fulfilled, check_keys
from ragstone.judges import is_baseline
from ragstone.metrics import MetricCard
from ragstone.schema import Outcome, Sample, Usage
from ragstone.scoring import (
    CAUSES,
    Cause,
    Signals,
    describe_signals,
    find_cause,
    note_outcome,
    note_outline,
    note_sample,
)
from ragstone.stats import Estimate
from ragstone.views import (
    AnswerView,
    CauseRow,
    ChangesView,
    MetricRow,
    Provenance,
    QuestionRow,
    ReportView,
    SliceTable,
    Statement,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_BINS: Final = 20
_HISTOGRAM_FROM: Final = 10
"""Smallest number of scores for a histogram."""
_CAUSES_FROM: Final = 5
"""Smallest number of answers for causes."""
_LISTED_IDS: Final = 200
"""Number of questions whose texts are compared with those of a baseline."""
_QUERY_CHARS: Final = 300
_LABEL_CHARS: Final = 300
"""Characters of a value of a label that are kept."""
_LISTED_VALUES: Final = 12
"""Most values of a label that are listed."""
_WORST_DETAILS: Final = 100
"""Number of answers of each cause that come before the others."""
_DETAILS_PAGE: Final = 200
_STAGES: Final = {"answer": 0, "support": 1, "passages": 2}


class Reading:
    """Reads a source. Keeps numbers and signals of each sample, not its texts and outcomes."""

    def __init__(
        self,
        source: Source,
        *,
        metric: str | None = None,
        where: Sequence[Condition] = (),
        slices: SliceLabels | None = None,
        keeps_questions: bool = False,
        keeps_labels: bool = False,
    ) -> None:
        self.source = self._source = source
        self.row_ids: Mapping[str, str] = {}
        """Ids of rows without an id in a comparison, by their id here."""
        self._metric = metric
        self._where = where
        self._slices = slices
        self._keeps_questions = keeps_questions
        self._keeps_labels = keeps_labels
        self._pairs: dict[tuple[str, tuple[str, ...]], tuple[str, tuple[str, ...]]] = {}
        """Different labels with their values, so that each is kept once."""
        self._facts: dict[str, tuple[tuple[str, tuple[str, ...]], ...]] = {}
        """All labels of each sample, if they are kept."""
        self._queries: dict[str, str] = {}
        """Questions, cut, if they are kept."""
        self._labels: dict[str, Mapping[str, tuple[str, ...]]] = {}
        """Labels of each sample that conditions are about."""
        self._reader = TableReader(cards=source.cards)
        self._signals: dict[str, Signals] = {}
        """What is known about each sample, in the order of the rows of the table."""
        self.table: ScoreTable = self._reader.table()
        """All scores."""
        self._cluster_notes: list[str] = []
        self.causes: dict[str, str | None] = {}
        """Causes of all samples, None for answers that are not wrong."""
        self._scored: dict[str, Signals] = {}
        self._judged: list[str] = []
        """Samples of which it is known whether they are wrong."""
        self._rule: WrongRule = "abstention"
        self.n_earlier = 0
        """Number of outcomes that do not count, because a later one is of the same sample and metric."""
        self._spent: Counter[str] = Counter()
        """Sums of the known numbers of `Usage`."""
        self._timeline = Timeline()

    def read(self) -> None:
        """Read samples and outcomes. Called again, it adds those that the source yields then.

        If a sample has several outcomes of a metric, the last one counts. Raise DataError without any outcome.
        """
        is_first = not self._signals
        keys = self._read_samples()
        earlier = self._read_outcomes()
        if earlier and is_first:
            self._signals.clear()
            self._reader = TableReader(cards=self._source.cards)
            self._spent.clear()
            self.n_earlier = earlier.total()
            self._read_samples()
            self._read_outcomes(earlier)
        if not self.has_outcomes:
            n = len(self._signals)
            there = f"{n:,} samples without scores" if n else "no samples either"
            rest = " ".join(["", *self._source.notes()])
            raise DataError(f"{self._source.name!r} does not contain outcomes ({there}).{rest}")
        scored = self._reader.columns
        if self._metric is not None and self._metric not in scored:
            raise ConfigurationError(f"{self._metric!r} was not scored. Scored metrics: {', '.join(sorted(scored))}")
        check_keys(self._where, keys | scored.keys())
        dependence, cluster = self._source.dependence(), self._source.analysis.cluster
        clusters = choose_clusters(cluster, dependence.labels, self._signals)
        table = self._reader.table(dependence.inclusion_probabilities, clusters)
        self.table = table = replace(table, by_system=(self._source.spent(),))
        # Clusters are described by labels only.
        scores = {metric: table.by_sample(metric) for metric in scored} if any(dependence.labels.values()) else {}
        self._cluster_notes = cluster_notes(cluster, clusters, dependence.labels, self._signals, scores)
        self.causes = {id_: find_cause(signals) for id_, signals in self._signals.items()}
        self._scored = {id_: signals for id_, signals in self._signals.items() if signals.n_scores}
        self._judged, self._rule = _judged(self._scored)

    def _read_samples(self) -> set[str]:
        """Read the samples, and return the keys of their labels if conditions need them."""
        keys: set[str] = set()
        for id_, content, time, labels in self._source.samples():
            signals = self._signals_of(id_)
            if isinstance(content, Sample):
                note_sample(signals, content)
            elif content is not None:
                note_outline(signals, content)
            if self._keeps_questions and content is not None and content.query is not None:
                self._queries[id_] = content.query[:_QUERY_CHARS]
            if self._slices is not None:
                self._slices.add(id_, labels)
            self._timeline.add(id_, time, labels)
            if self._keeps_labels:
                pairs = ((key, tuple(value[:_LABEL_CHARS] for value in values)) for key, values in labels.items())
                self._facts[id_] = tuple(self._pairs.setdefault(pair, pair) for pair in pairs)
            if self._where:
                keys |= labels.keys()
                self._labels[id_] = {c.key: labels[c.key] for c in self._where if c.key in labels}
        return keys

    def _read_outcomes(self, earlier: Counter[tuple[str, str]] | None = None) -> Counter[tuple[str, str]]:
        """Read the outcomes, and return how many of each metric and sample came before the last one.

        `earlier` is the number of outcomes to skip, by metric and sample.
        """
        left, repeated = Counter(earlier), Counter[tuple[str, str]]()
        for outcome in self._source.read():
            key = (outcome.metric, outcome.sample_id)
            if left[key] > 0:
                left[key] -= 1
            elif not self._add(outcome):
                repeated[key] += 1
        return repeated

    @property
    def has_outcomes(self) -> bool:
        """Whether an outcome was read."""
        return bool(self._reader.columns)

    def _signals_of(self, sample_id: str) -> Signals:
        self._reader.row(sample_id)
        return self._signals.setdefault(sample_id, Signals())

    def _add(self, outcome: Outcome) -> bool:
        """Add an outcome, and return False if it replaces one."""
        if outcome.usage is not None:
            # Adding two `Usage` for each of many outcomes would take much longer.
            for name, number in vars(outcome.usage).items():
                if number is not None:
                    self._spent[name] += number
        column, id_ = self._reader.column(outcome), outcome.sample_id
        note_outcome(self._signals.get(id_) or self._signals_of(id_), outcome, column.card)
        return column.put(self._reader.rows[id_], outcome)

    @property
    def usage(self) -> Usage:
        """Calls, tokens and cost of the judge."""
        return Usage.model_validate(self._spent)

    def report(
        self,
        targets: Mapping[str, float],
        n_worst: int,
        compared: Compared | None = None,
        reasons: AskReasons | None = None,
    ) -> ReportView:
        """Build the report."""
        before = None if compared is None else Reading(compared.before)
        if before is not None:
            before.read()
        population = self._population(before)
        wrong = self.wrong
        level = self._source.analysis.confidence_level
        summaries = summarize_table(self.table, level)
        rows = self._rows(summaries, targets, compared)
        notes = self._notes(compared, before, summaries)
        worst_ids = self._in_turn(population, n_worst if reasons is None else max(n_worst, reasons.n))
        records = self._source.records(worst_ids)
        if reasons is not None:
            notes += reasons.explain([records[id_] for id_ in worst_ids if id_ in records])
        trial, action = None, describe_next(population)
        if bodies := self._source.trials():
            from ragstone.experiments._views.trial import build_trial, is_about

            trial = build_trial(bodies, self.table, self._rule)
            if is_about(trial, next((row.cause for row in population.causes if row.is_wrong), "")):
                action = trial.statement
        labels = build_labels(self._source.human_labels(), wrong, self.table, rows, level)
        verdict = describe_verdict(population, rows, compared)
        if unusable := find_unusable(self.table):
            verdict = (Statement(text=f"No verdict: {unusable} Use another judge.", kind="warning"),)
        slices = () if self._slices is None else self._slices.tables(wrong, self.share)
        return ReportView(
            title=self._source.name,
            verdict=(*verdict, *(labels.statements if labels else ())),
            next=None if unusable else action,
            notices=describe_notices(population, rows, notes, self._n_doubts(summaries)),
            n_samples=len(self._signals),
            n_unscored=len(self._signals) - len(self._scored),
            metrics=rows,
            causes=population.causes,
            signals=self.signals(),
            slices=slices,
            wrong="abstentions" if self._rule == "abstention" else "wrong answers",
            worst=self._build_answers(worst_ids, records),
            provenance=self._provenance(summaries),
            changes=None if compared is None or before is None else self.changes(compared, before),
            trend=self._timeline.view(rows, self.table, level),
            labels=labels,
            spent=estimate_spent(self.table, 0, len(self._signals), level),
            runs=self._source.runs(),
            trial=trial,
            questions=self._questions(rows, slices) if self._keeps_questions else (),
        )

    def changes(self, compared: Compared, before: Reading) -> ChangesView:
        """Return what changed against the baseline, whose outcomes are in `before`."""
        # Without a judgment of other answers, an answer that abstains no longer is not known to be gained.
        is_known = "abstention" not in (before._rule, self._rule)
        return build_changes(
            compared,
            {before.row_ids.get(id_, id_): before.causes[id_] for id_ in before._judged if is_known},
            {self.row_ids.get(id_, id_): self.causes[id_] for id_ in self._judged if is_known},
            self.answers,
        )

    def signals(self) -> tuple[str, ...]:
        """Name the signals that causes are computed from, in words."""
        return describe_signals([*self._scored.values()])

    def _notes(
        self, compared: Compared | None, before: Reading | None, summaries: Sequence[MetricSummary]
    ) -> list[str]:
        """Return what limits the numbers of this source and of a comparison, each once."""
        checks = join_checks({summary.metric: summary.checks for summary in summaries})
        shared = (describe_unjudged(self.table) or "",) if compared is None else compared.notes
        notes = [*self._source.notes(), *shared, *checks, *self._cluster_notes]
        if n_earlier := self.n_earlier + (0 if before is None else before.n_earlier):
            replaced = count(n_earlier, "outcome does", "outcomes do")
            notes.append(f"{replaced} not count: a later one is of the same sample and metric.")
        if compared is not None and before is not None and before.signals() != self.signals():
            known = "; ".join(before.signals()) or "none"
            notes.append(
                f"Causes of {compared.baseline} come from other signals than those of {compared.system} ({known}), so "
                "counts of causes can differ for that reason."
            )
        return list(dict.fromkeys(f"{note[0].upper()}{note[1:]}" for note in notes if note))

    def _questions(self, rows: Sequence[MetricRow], slices: Sequence[SliceTable]) -> tuple[QuestionRow, ...]:
        labels = {} if self._slices is None else self._slices.names(slices)
        metrics = [self.table.metrics[row.name] for row in rows]
        values = zip(*(metric.values[:, 0].tolist() for metric in metrics), strict=True)
        low = zip(*((metric.good() == 0).tolist() for metric in metrics), strict=True)
        return tuple(
            QuestionRow(
                id=id_,
                query=self._queries.get(id_),
                cause=self.causes[id_],
                rating=signals.rating,
                values=tuple(None if math.isnan(value) else value for value in numbers),
                low=tuple(itertools.compress(itertools.count(), is_low)),
                labels=labels.get(id_, ()),
                time=self._timeline.time_of(id_),
                facts=self._facts.get(id_, ()),
            )
            for (id_, signals), numbers, is_low in zip(self._signals.items(), values, low, strict=True)
        )

    def label_values(self) -> dict[str, tuple[str, ...]]:
        """Return the values of each label, if labels are kept. Empty for a label with more than 12 values."""
        found: dict[str, set[str]] = {}
        for key, values in self._pairs:
            known = found.setdefault(key, set())
            if len(known) <= _LISTED_VALUES:
                known.update(values)
        return {
            key: tuple(sorted(values)) if len(values) <= _LISTED_VALUES else () for key, values in sorted(found.items())
        }

    def answers_by_importance(self, view: ReportView) -> Iterator[AnswerView]:
        """Yield answers: the worst ones of each cause, and then the others in a random order with a fixed seed."""
        listed = [id_ for row in view.causes for id_ in row.sample_ids[:_WORST_DETAILS]]
        others = sorted(self._signals.keys() - set(listed))
        random.Random(0).shuffle(others)  # noqa: S311  not secret
        shown = {answer.id for answer in view.worst}
        ids = [id_ for id_ in dict.fromkeys([*listed, *others]) if id_ not in shown]
        for start in range(0, len(ids), _DETAILS_PAGE):
            yield from self.answers(ids[start : start + _DETAILS_PAGE])

    def _population(self, before: Reading | None) -> Population:
        rows: list[CauseRow] = []
        if len(self._judged) >= _CAUSES_FROM:
            rows = [row for cause in CAUSES if (row := self._cause_row(cause, before)).n or row.n_before]
            rows.sort(key=lambda row: (not row.is_wrong, -row.n))
        flags = [self.causes[id_] in WRONG for id_ in self._judged]
        return Population(
            n_samples=len(self._signals),
            n_scored=len(self._scored),
            n_judged=len(self._judged),
            undecided=Counter(why for signals in self._scored.values() if (why := signals.undecided)),
            n_wrong=sum(flags),
            share_wrong=self.share(self._judged, flags),
            rule=self._rule,
            causes=tuple(rows),
        )

    def _cause_row(self, cause: Cause, before: Reading | None) -> CauseRow:
        ids, share = self.find_cause(cause)
        ids_before, share_before = (None, None) if before is None else before.find_cause(cause)
        return CauseRow(
            cause=cause.name,
            title=cause.title,
            next=cause.next,
            is_wrong=cause.is_wrong,
            n=len(ids),
            share=share,
            n_before=None if ids_before is None else len(ids_before),
            share_before=share_before,
            sample_ids=tuple(heapq.nsmallest(_LISTED_IDS, ids, key=self._badness_key)),
        )

    def find_cause(self, cause: Cause) -> tuple[list[str], Estimate | None]:
        """Return the answers with a cause, and estimate their share of the judged answers."""
        ids = [id_ for id_, found in self.causes.items() if found == cause.name]
        flags = [self.causes[id_] == cause.name for id_ in self._judged]
        return ids, None if cause.name == "not_scored" else self.share(self._judged, flags)

    def _badness_key(self, sample_id: str) -> tuple[float, str]:
        rating = self._signals[sample_id].rating
        return (math.inf if rating is None else rating, sample_id)

    def share(self, ids: Sequence[str], flags: Sequence[bool], n_simultaneous: int = 1) -> Estimate | None:
        """Estimate a share of all requests. The intervals of `n_simultaneous` shares hold together (Bonferroni)."""
        return self.table.estimate(
            [float(flag) for flag in flags],
            [self._reader.rows[id_] for id_ in ids],
            confidence_level=1 - (1 - self._source.analysis.confidence_level) / n_simultaneous,
        )

    def _rows(
        self, summaries: Sequence[MetricSummary], targets: Mapping[str, float], compared: Compared | None
    ) -> tuple[MetricRow, ...]:
        unknown = sorted(targets.keys() - self.table.metrics.keys())
        if unknown:
            raise ConfigurationError(
                f"no scores of the metric {unknown[0]!r} of a target. Scored metrics: {', '.join(sorted(self.table.metrics))}"
            )
        for metric, target in targets.items():
            card = self.table.metrics[metric].card
            if not (math.isfinite(target) and card.low <= target <= card.high):
                raise ConfigurationError(
                    f"the target of {metric} must be a value from {card.low:g} to {card.high:g}, got {target!r}"
                )
        rows = [self._row(summary, targets.get(summary.metric), compared) for summary in summaries]
        # Metrics that do not apply to any sample have no column, so the others come first.
        return tuple(sorted(rows, key=lambda row: (not (row.n_scored or row.n_failed), _STAGES[row.stage])))

    def _row(self, summary: MetricSummary, target: float | None, compared: Compared | None) -> MetricRow:
        import numpy as np

        scores = self.table.metrics[summary.metric]
        card, rows = scores.card, scores.scored()
        values, good = scores.values[rows, 0], scores.good()[rows]
        axis = axis_of(card, values)
        is_known = np.isfinite(scores.decisions[rows, 0])
        has_histogram = values.size >= _HISTOGRAM_FROM
        return MetricRow(
            name=card.name,
            title=card.title,
            question=_question(card.description),
            stage=card.stage,
            low=card.low,
            high=card.high,
            neutral=card.neutral,
            lower_is_better=card.direction == "lower",
            estimate=summary.estimate,
            axis=axis,
            histogram=_histogram(values, axis) if has_histogram else (),
            histogram_low=_histogram(values[good == 0], axis) if has_histogram else (),
            histogram_unknown=_histogram(values[~is_known], axis) if has_histogram else (),
            rule=card.rule if card.decided_by else "",
            n_undecided=values.size - int(is_known.sum()),
            n_scored=summary.n_scored,
            n_failed=summary.n_failed,
            failure_kinds=summary.failure_kinds,
            n_not_applicable=summary.n_not_applicable,
            bounds=summary.bounds if summary.n_failed else None,
            target=target,
            advice=card.advice,
            judges=summary.judges,
            change=None if compared is None else compared.change_of(card.name),
            others=() if compared is None else compared.means.get(card.name, ())[1:],
        )

    def _n_doubts(self, summaries: Sequence[MetricSummary]) -> Mapping[str, int]:
        """Count the samples that a metric does not apply to because a captured part is in doubt, by reason."""
        doubts: Counter[str] = Counter()
        for summary in summaries:
            doubts |= Counter({reason: n for reason, n in summary.reasons.items() if " in doubt: " in reason})
        return doubts

    def _in_turn(self, population: Population, n: int) -> list[str]:
        """Choose the worst answer of each cause in turn, the most frequent cause first.

        If few answers have a cause because no metric judges them, those with the lowest scores follow.
        """
        queues = [row.sample_ids for row in population.causes if row.cause != "not_scored"]
        turns = itertools.zip_longest(*queues)
        chosen = list(itertools.islice((id_ for turn in turns for id_ in turn if id_ is not None), max(n, 0)))
        if not chosen or population.rule == "abstention":
            rest = self._scored.keys() - set(chosen)
            chosen += heapq.nsmallest(n - len(chosen), rest, key=self._wrong_first)
        return chosen

    def _wrong_first(self, sample_id: str) -> tuple[bool, float, str]:
        return (self.causes[sample_id] not in WRONG, *self._badness_key(sample_id))

    def worst(self, n: int) -> tuple[AnswerView, ...]:
        """Return the worst answers, worst first. Those without scores follow if conditions select them."""
        ids = self.selected(also_unscored=bool(self._where) and self._metric is None)
        if self._metric is None:
            return self.answers(self.worst_of(ids, n))
        scores, card = self.table.by_sample(self._metric), self.table.metrics[self._metric].card
        sign = -1 if card.direction == "lower" else 1
        return self.answers(heapq.nsmallest(n, (i for i in ids if i in scores), key=lambda i: (sign * scores[i], i)))

    def selected(self, *, also_unscored: bool = False) -> list[str]:
        """Return the answers that the conditions select."""
        return [id_ for id_ in (self._signals if also_unscored else self._scored) if self._is_selected(id_)]

    def worst_of(self, ids: Iterable[str], n: int) -> list[str]:
        """Return the worst of some answers, worst first."""
        return heapq.nsmallest(n, ids, key=self._wrong_first)

    @property
    def wrong(self) -> dict[str, bool]:
        """Whether an answer is wrong, for those of which it is known."""
        return {id_: self.causes[id_] in WRONG for id_ in self._judged}

    def latest_wrong(self, n: int) -> tuple[AnswerView, ...]:
        """Return the wrong answers that arrived last, the newest first."""
        found = (id_ for id_ in reversed(self._scored) if self.causes[id_] in WRONG)
        return self.answers(list(itertools.islice(found, n)))

    def _is_selected(self, sample_id: str) -> bool:
        row = self._reader.rows[sample_id]
        scores = {c.key: self.table.metrics[c.key].values[row, 0] for c in self._where if c.key in self.table.metrics}
        return are_fulfilled(self._where, self._labels.get(sample_id, {}), self.causes[sample_id], scores)

    def answers(self, ids: Sequence[str]) -> tuple[AnswerView, ...]:
        own = {row: id_ for id_, row in self.row_ids.items()}
        found = [own.get(id_, id_) for id_ in ids]
        answers = self._build_answers(found, self._source.records(found))
        return tuple(replace(answer, id=id_) for answer, id_ in zip(answers, ids, strict=True)) if own else answers

    def _build_answers(self, ids: Sequence[str], records: Mapping[str, AnswerRecord]) -> tuple[AnswerView, ...]:
        cards = {metric: scores.card for metric, scores in self.table.metrics.items()}
        return tuple(
            build_answer(id_, record.sample, self._last_outcomes(record), self._signals[id_], cards, time=record.time)
            for id_ in ids
            for record in [records.get(id_, AnswerRecord())]
        )

    def _last_outcomes(self, record: AnswerRecord) -> list[Outcome]:
        """Return the outcomes of a sample, of each metric the last one."""
        return list({outcome.metric: outcome for outcome in self._source.complete(record.outcomes)}.values())

    def _provenance(self, summaries: Sequence[MetricSummary]) -> Provenance:
        judges = sorted({judge for summary in summaries for judge in summary.judges})
        return Provenance(
            source=self._source.name,
            store=self._source.argument,
            judges=tuple(judges),
            is_baseline=is_baseline(*judges),
            metric_versions={
                metric: tuple(sorted({origin.version for origin, n in scores.origins[0].items() if n}))
                for metric, scores in self.table.metrics.items()
            },
            confidence_level=self._source.analysis.confidence_level,
            usage=self.usage,
            since=self._timeline.since,
            until=self._timeline.until,
            is_weighted=len(set(self.table.inclusion.tolist())) > 1,
            version=version("ragstone"),
        )


def _judged(scored: Mapping[str, Signals]) -> tuple[list[str], WrongRule]:
    """Return the samples of which it is known whether they are wrong, and what wrong means for them."""
    basis = {id_: signals.decided_by for id_, signals in scored.items()}
    known = set(basis.values()) - {None}
    if known <= {"abstention"}:
        # If only answers that abstain counted as judged, all of them would be wrong.
        return [id_ for id_ in scored if basis[id_] is not None], "abstention"
    judged = [id_ for id_, by in basis.items() if by in ("correctness", "support") or (by and scored[id_].abstains)]
    if "correctness" not in known:
        return judged, "support"
    return judged, "correctness" if all(basis[id_] == "correctness" for id_ in judged) else "mixed"


def _question(description: str) -> str:
    """Return the question of a description, without the sentences that follow it."""
    question, mark, _ = description.partition("? ")
    return f"{question}?" if mark else description


def axis_of(card: MetricCard, values: NDArray[np.float64]) -> tuple[float, float]:
    """Return the ends of a metric's axis: its range, or percentiles of the values where that is infinite."""
    if math.isfinite(card.low) and math.isfinite(card.high):
        return card.low, card.high
    if not values.size:
        return 0.0, 1.0
    import numpy as np

    first, last = (float(end) for end in np.percentile(values, [1, 99]))
    low = card.low if math.isfinite(card.low) else first
    high = card.high if math.isfinite(card.high) else last
    return (low, high) if low < high else (low - 0.5, low + 0.5)


def _histogram(values: NDArray[np.float64], axis: tuple[float, float]) -> tuple[int, ...]:
    import numpy as np

    counts, _ = np.histogram(np.clip(values, *axis), bins=_BINS, range=axis)
    return tuple(int(n) for n in counts)
