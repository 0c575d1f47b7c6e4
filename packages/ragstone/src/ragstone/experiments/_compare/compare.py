"""`compare`: differences between systems, and a verdict."""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, field, replace
from typing import Any

from ragstone._util.files import check_output, write_output
from ragstone.errors import ConfigurationError
from ragstone.experiments._clusters import AUTO_CLUSTER, NO_CLUSTER
from ragstone.experiments._compare.align import Sources, align, listed, split_runs
from ragstone.experiments._compare.cheapest import Margin, describe_cheapest
from ragstone.experiments._compare.differences import ChangedSample, find_changed, view_comparison
from ragstone.experiments._compare.hypotheses import Hypotheses, Hypothesis, judge_hypotheses
from ragstone.experiments._compare.pairs import Family, MetricComparison, compare_metrics
from ragstone.experiments._compare.regression import RegressionCheck, check_regression
from ragstone.experiments._compare.text import format_p_value, format_verdicts, means_table, overview, pairs_table
from ragstone.experiments._compare.view import MAX_CHANGES, view_systems
from ragstone.experiments._outcomes import OutcomeSource, open_source
from ragstone.experiments._summary import check_level
from ragstone.experiments._table import SCORED, ScoreTable
from ragstone.experiments._views.changes import Compared
from ragstone.experiments._views.source import Evaluated, Source
from ragstone.experiments._views.spent import estimate_spent
from ragstone.judges import BASELINE_NOTE
from ragstone.metrics import full_name
from ragstone.schema import Sample
from ragstone.settings import Analysis, read_table
from ragstone.views import (
    COMPARISON_WRITERS,
    Chart,
    ComparisonView,
    SpentRow,
    compared_chart,
    describe_spent,
    notebook_comparison,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The result of `compare`: means, differences and verdicts of several systems."""

    systems: tuple[str, ...]
    metrics: tuple[MetricComparison, ...]
    hypotheses: tuple[Hypothesis, ...]
    baseline: str | None
    """The system that all others were compared with, or None if all pairs were compared."""
    n_samples: Mapping[str, int]
    """Number of samples by system."""
    n_common: int
    """Number of samples that every system has."""
    paired: bool
    """Whether the comparison was paired by sample. Otherwise the systems have different requests."""
    confidence_level: float
    """Probability of no false significant difference: for each metric, or for all metrics if `across_metrics`."""
    across_metrics: bool
    primary: str | None
    """The metric that is tested alone. The others are exploratory. None without one."""
    n_permutations: int
    seed: int
    margin: Margin
    """The largest loss that does not matter, in the metric's own units, or one for each metric. None if none is
    named."""
    notes: tuple[str, ...]
    spent: Mapping[str, tuple[SpentRow, ...]]
    """Latency, tokens and cost of the application by system: medians per answer, with the number of answers of which
    each is known. No rows for a system without any known number."""
    scores: ScoreTable = field(repr=False, compare=False)
    """The compared scores, aligned by sample."""
    other_ids: Mapping[tuple[str, str], str] = field(repr=False, compare=False)
    """Id of a sample in a system that has another one, because its rows have none. By system and id of the row."""
    sources: Mapping[str, OutcomeSource] = field(repr=False, compare=False)
    """Where the outcomes come from, by system."""

    @property
    def method(self) -> str:
        """The test, its family and its settings, in one sentence."""
        family = "all metrics and pairs" if self.across_metrics else "all pairs of a metric"
        level = f"{100 * self.confidence_level:.4g}% confidence intervals for {family} (seed {self.seed}"
        if self.paired:
            against = "" if self.baseline is None else f" with {self.baseline!r}"
            return (
                f"method: paired permutation test of the differences{against}, step-down p-values and simultaneous {level}, "
                f"up to {self.n_permutations:,} permutations), effect size: Hedges' g of the differences"
            )
        return (
            "method: unpaired permutation test of the largest standardized difference (its normal limit from 5,000 samples "
            f"per system), simultaneous p-values and {level}), effect size: Hedges' g of two groups. The test assumes "
            f"independent {'requests' if self.scores.clusters is None else 'clusters'}."
        )

    @property
    def verdict(self) -> tuple[str, ...]:
        """The verdicts: first significant differences, then the other pairs, one sentence each."""
        return format_verdicts(self.metrics)

    def check_regression(
        self,
        gate_metrics: Sequence[str] | str | None = None,
        *,
        baseline: str | None = None,
        margin: float | Mapping[str, float] | None = None,
    ) -> RegressionCheck:
        """Check if any other system is worse than the baseline, one-sided. See `assert_no_regression`.

        Args:
            gate_metrics: Names or groups that the gate checks. Default: all.
            baseline: A system. Default: the comparison's baseline, or the first system.
            margin: A loss that must be excluded, in the metric's own units. None fails significantly worse metrics.

        Raises:
            ConfigurationError: If a system, metric or margin is invalid.
        """
        return self._check("a gate needs", baseline, metrics=gate_metrics, margin=margin)

    def _check(self, what_needs: str, baseline: str | None, **options: Any) -> RegressionCheck:
        _require_paired(what_needs, paired=self.paired)
        against = baseline or self.baseline or self.systems[0]
        return check_regression(self.scores, self._test, baseline=against, notes=self.notes, **options)

    def check_equivalence(
        self,
        margin: float | Mapping[str, float],
        gate_metrics: Sequence[str] | str | None = None,
        *,
        baseline: str | None = None,
    ) -> RegressionCheck:
        """Check if every other system is equivalent to the baseline: neither a loss nor a gain of the margin or more.

        Two one-sided tests for each metric, which count failed samples with their worst and best scores. `ok` means
        equivalence on all metrics. If a difference is as large as the margin on any metric, this has a probability of
        at most 1 - `confidence_level`.

        Args:
            margin: The smallest difference that matters, in the metric's own units, or one for each metric.
            gate_metrics: Names or groups to check. Default: all.
            baseline: A system. Default: the comparison's baseline, or the first system.

        Raises:
            ConfigurationError: If a system, metric or margin is invalid, or the systems do not share samples.

        Source:
            Schuirmann 1987 (two one-sided tests). Berger 1982 (all metrics).
        """
        needs = "a test of equivalence needs"
        return self._check(needs, baseline, metrics=gate_metrics, margin=margin, equivalence=True)

    @property
    def cheapest(self) -> tuple[str, ...]:
        """The cheapest and the fastest of the systems that are shown to be not worse than the best, with the tests.

        A system is not worse if the simultaneous intervals of this comparison exclude a loss of the margin or more
        against the best system, on each metric that is not exploratory, for any scores of failed samples. Without a
        margin, the sentence says so. No sentences without any known latency, tokens or cost of an application.
        """
        return tuple(describe_cheapest(self.metrics, self.scores, self.spent, self._test, self.margin))

    @property
    def _test(self) -> Analysis:
        return Analysis(confidence_level=self.confidence_level, n_permutations=self.n_permutations, seed=self.seed)

    def changed(
        self,
        metric: str,
        *,
        system: str | None = None,
        baseline: str | None = None,
        min_change: float = 0.0,
        n: int | None = None,
    ) -> tuple[ChangedSample, ...]:
        """Return the samples whose scores differ between two systems, the largest change first, losses before gains.

        A sample without a score of both systems is not included.

        Args:
            metric: Name of the metric.
            system: The later system. Default: the only one other than the baseline.
            baseline: The earlier system. Default: the comparison's baseline, or the first system.
            min_change: Smallest absolute change, in the metric's own units. 0: every change.
            n: Maximum number of samples. None: all.

        Raises:
            ConfigurationError: If the systems do not share samples, or a system or the metric is unknown. If `system`
                is missing although there are several. If `min_change` is negative or not finite, or `n` is below 1.
        """
        _require_paired("changed samples need", paired=self.paired)
        return find_changed(
            self.scores, metric, system=system, baseline=baseline or self.baseline, min_change=min_change, n=n
        )

    @property
    def analysis(self) -> Analysis:
        """The analysis of single systems."""
        return Analysis(confidence_level=self.confidence_level)

    def compared(self, system: str, baseline: str, before: Source) -> Compared:
        """Return what a report of `system` shows of this comparison.

        `before` has the outcomes and samples of the baseline. Raise ConfigurationError if a name is unknown, or the
        comparison does not contain this pair.
        """
        for name in (system, baseline):
            self.scores.column_of(name)
        if system == baseline or self.baseline not in (None, baseline):
            raise ConfigurationError(
                f"this comparison does not have differences of {system!r} from {baseline!r}: its baseline is {(self.baseline or baseline)!r}"
            )
        return view_comparison(self, system, baseline, before)

    def _repr_html_(self) -> str:
        return notebook_comparison(self.view(questions=False))

    def plot(self, metric: str) -> Chart:
        """Return the scores of all systems on a metric and their differences as a chart, with its numbers in `.data`.

        Raises:
            ConfigurationError: If the metric was not compared.
        """
        view = self.view(questions=False)
        rows = {row.name: row for row in view.metrics}
        if metric not in rows:
            raise ConfigurationError(f"{metric!r} was not compared. Compared metrics: {', '.join(sorted(rows))}")
        return compared_chart(view, rows[metric])

    def view(
        self,
        data: Mapping[str, Iterable[Sample]] | None = None,
        *,
        gate: RegressionCheck | None = None,
        questions: bool = True,
    ) -> ComparisonView:
        """Return what the page of this comparison shows. See `write`. `questions`: whether changed questions are included."""
        lines = [] if gate is None else [(gate.head(),), *(astuple(case) for case in gate.cases())]
        return view_systems(
            self, data or {}, verdict=self._overview(), gate=tuple(lines), n_changes=MAX_CHANGES if questions else 0
        )

    def write(
        self,
        path: str | os.PathLike[str],
        data: Mapping[str, Iterable[Sample]] | None = None,
        *,
        gate: RegressionCheck | None = None,
    ) -> ComparisonView:
        """Write the comparison of all systems, and return what was written.

        Args:
            path: File to write, by its ending: a page that needs no network (`.html`), a summary for pull requests
                (`.md`), tables for LaTeX (`.tex`, needs the package booktabs), or all differences (`.csv`).
            data: The evaluated samples by system, for files of outcomes, which do not contain texts.
            gate: A gate whose result is part of the page and the summary.

        Raises:
            ConfigurationError: If the path is invalid.
            StoreError: If a store cannot be read.
        """
        file = check_output(path, COMPARISON_WRITERS)
        view = self.view(data, gate=gate)
        text = COMPARISON_WRITERS[file.suffix.lower()](view)
        if gate is not None and file.suffix.lower() == ".md":
            text = f"{gate.to_markdown()}\n{text}"
        write_output(file, text, errors="replace", newline="")
        return view

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        names = ("n_common", "paired", "confidence_level", "across_metrics", "primary", "seed")
        return {
            "systems": list(self.systems),
            "baseline": self.baseline,
            "n_samples": dict(self.n_samples),
            **{name: getattr(self, name) for name in names},
            "verdict": list(self.verdict),
            "metrics": [_finite(asdict(m)) for m in self.metrics],
            "hypotheses": [asdict(h) for h in self.hypotheses],
            "application": {system: [_finite(asdict(row)) for row in rows] for system, rows in self.spent.items()},
            "cheapest": list(self.cheapest),
            "judge_is_baseline": BASELINE_NOTE in self.notes,
            "notes": list(self.notes),
        }

    def _overview(self) -> tuple[str, ...]:
        lines = [
            f"hypothesis {h.name}: {'supported' if h.supported else 'not supported'} (p {format_p_value(h.adjusted)} "
            "after Holm's correction)"
            for h in self.hypotheses
        ]
        level = self.confidence_level
        verdicts = overview(self.metrics, confidence_level=level, across_metrics=self.across_metrics)
        return (*lines, *([""] if lines else []), *verdicts)

    def details(self) -> str:
        """Return the tables of all means and differences."""
        lines = [means_table(self.metrics), "", pairs_table(self.metrics, paired=self.paired), ""]
        lines += [
            f"{m.metric}: {d.n_significant} of {d.n_pairs} pairs of systems differ significantly (discriminative power {d.value:.3f})"
            for m in self.metrics
            if (d := m.discriminative_power) is not None and d.n_pairs > 1 and d.value is not None
        ]
        return "\n".join(lines)

    def __str__(self) -> str:
        spent = [f"{system}: {', '.join(map(describe_spent, rows))}" for system, rows in self.spent.items() if rows]
        lines = [*self._overview(), "", *([*spent, *self.cheapest, ""] if spent else [])]
        return "\n".join([*lines, self.method, *self.notes])


def compare(
    systems: Sources,
    *,
    metrics: Sequence[str] | str | None = None,
    baseline: str | None = None,
    hypotheses: Hypotheses = (),
    across_metrics: bool = True,
    primary: str | None = None,
    cluster: str | None = AUTO_CLUSTER,
    min_effect: float | None = None,
    margin: Margin = None,
    confidence_level: float = 0.95,
    n_permutations: int = 10_000,
    seed: int = 0,
    allow_different_judges: bool = False,
    paired: bool | None = None,
    data: Mapping[str, Iterable[Sample]] | None = None,
) -> Comparison:
    """Compare systems that were evaluated on the same samples, or traffic of different periods.

    Samples are matched by their ids, and by question and history if their rows have no id, never by position. The same
    id with another question is an error. All pairs of systems are compared on all metrics with random signs of their
    differences and step-down p-values: for any number of systems and metrics, the probability of any false significant
    difference is at most 1 - `confidence_level`, and the confidence intervals cover all differences simultaneously. A
    sample that failed or was not applicable in one system is excluded from that system's pairs and counted. Bounds show
    how much failed samples could change a difference.

    Stores without a common request, or `TimeRange`s of stores, are compared as independent groups: by the largest
    standardized difference under permutation, with means weighted by 1 / sampling probability. This needs more requests
    for the same power and assumes that requests are independent.

    Args:
        systems: Systems by name, or a sequence: experiments, files of outcomes (`ragstone evaluate --output`), stores,
            or `TimeRange`s of stores. A store of runs alone: each run is a system.
        metrics: Names or groups ("ccrs"). Default: all.
        baseline: Name of a system that all others are compared with, instead of all pairs: fewer pairs, more power.
        hypotheses: Hypotheses stated before looking at the data, by name: {"H1": ["e5 > bm25 on ccrs.qr, ccrs.ir"]}. A
            hypothesis is supported if all its terms are, which `and` joins. "e5 > bm25 on some metric" and "... on some
            of ccrs.qr, ccrs.ir" state at least one of the metrics, and "e5 > bm25 or dpr > bm25" at least one of the
            pairs (a global test). P-values are corrected for the number of hypotheses (Holm).
        across_metrics: Correct for all metrics together. False corrects for the pairs of each metric separately:
            without any real difference, each metric then has a false one with a probability of up to 1 - `confidence_level`.
        primary: The metric that decides, named before looking at the data. It is tested alone, with more power, and all
            others are exploratory. Without one, a metric whose scores follow from those of other compared metrics (F1
            next to precision and recall, a composite next to its parts) is exploratory.
        cluster: Key whose equal values make a cluster of samples, such as "session_id": the scores of whole clusters
            are permuted. "auto" uses `session_id` if at least 5% of the samples share one. None or "none" treats
            samples as independent.
        min_effect: Smallest difference of interest, in the metric's own units. The verdict estimates how many more
            samples would detect it. Default: 1% of the metric's range.
        margin: The largest loss that does not matter, in the metric's own units, or one for each metric: names the
            cheapest system that is not worse (see `Comparison.cheapest`). Default: `min_effect`, if it is given.
        confidence_level: Confidence level, in (0, 1).
        n_permutations: Number of permutations.
        seed: Seed of the random numbers. The same seed gives the same result on any machine.
        allow_different_judges: Compare scores of different judges or metric versions, with a warning.
        paired: Whether samples are compared in pairs. Default: paired, unless all systems are stores without a common
            request.
        data: The evaluated samples of files of outcomes, by system, for labels of `cluster` that the files do not have.

    Raises:
        ConfigurationError: If there are fewer than two systems, or a system, metric, hypothesis or cluster is
            unknown. If scores are from different judges.
        DataError: If all samples are in one cluster, systems do not share samples, or one id belongs to different questions.
        ValueError: If an option is out of range.

    Source:
        Romano and Wolf 2005 (step-down test). Holm 1979. CCRS, section 4.2.

    Examples:
        >>> import ragstone
        >>> rows = [{"id": f"{i}", "query": "Why?", "contexts": ["Rain."], "response": "Rain."} for i in range(9)]
        >>> dry = [row | {"response": "The sun."} for row in rows]
        >>> old, new = (ragstone.evaluate(r, ["ccrs.cc"], judge="lexical") for r in (dry, rows))
        >>> ragstone.compare({"old": old, "new": new}).verdict
        ('new beats old on ccrs.cc by 100.0 points [72.2, 100.0]',)
    """
    if min_effect is not None and not (math.isfinite(min_effect) and min_effect > 0):
        raise ConfigurationError(
            f"min_effect must be a finite number above 0, in the metric's own units, got {min_effect!r}"
        )
    check_level(confidence_level)
    primary = None if primary is None else full_name(primary)
    stated = {
        "cluster": NO_CLUSTER if cluster is None else cluster,
        "confidence_level": confidence_level,
        "n_permutations": n_permutations,
        "seed": seed,
        "min_effect": min_effect,
        "across_metrics": across_metrics,
        "allow_different_judges": allow_different_judges,
    }
    analysis = read_table(Analysis, stated, source="compare()")
    systems = split_runs(systems)
    scores = align(systems, analysis, metrics=metrics, paired=paired, data=data)
    table = scores.table
    if hypotheses:
        _require_paired("a hypothesis needs", paired=scores.paired)
    columns = range(len(table.systems))
    pairs = tuple((j, i) for i, j in itertools.combinations(columns, 2))
    if baseline is not None:
        first = table.column_of(baseline, "baseline")
        pairs = tuple((j, first) for j in columns if j != first)
    family = Family(pairs=pairs, complete=baseline is None, paired=scores.paired, analysis=analysis)
    if primary is not None and primary not in table.metrics:
        raise ConfigurationError(f"unknown primary metric {primary!r}. Compared: {', '.join(table.metrics)}.")
    scored = [m for m in table.metrics.values() if m.name == primary or (m.states == SCORED).any()]
    chosen = {m.name: m for m in scored or table.metrics.values()}
    absent = [name for name in table.metrics if name not in chosen]
    follows: dict[str, tuple[str, ...]] = {}
    if across_metrics and primary is None:
        parts = {name: m.card.follows_from for name, m in chosen.items()}
        follows = {name: of for name, of in parts.items() if of and chosen.keys() >= set(of)}
    together = [m for name, m in chosen.items() if name not in follows]
    families = [together] if across_metrics and primary is None else [[metric] for metric in together]
    by_name = {
        one.metric: replace(
            one,
            exploratory=one.metric in follows or primary not in (None, one.metric),
            follows_from=follows.get(one.metric, ()),
        )
        for metrics_of_one in [*families, *([chosen[name]] for name in follows)]
        for one in compare_metrics(metrics_of_one, table, family)
    }
    order = sorted(chosen, key=lambda name: name != primary)
    return Comparison(
        systems=table.systems,
        metrics=tuple(by_name[name] for name in order),
        hypotheses=judge_hypotheses(table, hypotheses, analysis),
        baseline=baseline,
        n_samples=scores.n_samples,
        n_common=scores.n_common,
        paired=scores.paired,
        confidence_level=confidence_level,
        across_metrics=across_metrics and primary is None,
        primary=primary,
        n_permutations=n_permutations,
        seed=seed,
        margin=min_effect if margin is None else margin,
        spent={
            name: estimate_spent(table, at, scores.n_samples[name], confidence_level)
            for at, name in enumerate(table.systems)
        },
        notes=(
            *scores.notes,
            *([f"not compared, because no system has a score: {', '.join(absent)}"] if absent else []),
        ),
        scores=table,
        other_ids=scores.other_ids,
        sources=dict(zip(table.systems, listed(systems), strict=True)),
    )


def compare_last(
    systems: Mapping[str, OutcomeSource],
    baseline: str,
    analysis: Analysis,
    data: Mapping[str, Iterable[Sample]] | None = None,
) -> Compared:
    """Return what a report of the last system shows of its comparison with the others, and above all with the baseline.

    If the last system is an experiment, it has its own analysis. `data` are the samples of files of outcomes, by system.
    """
    samples, (*_, name) = data or {}, systems
    source = systems[name]
    chosen = source.analysis if isinstance(source, Evaluated) else analysis
    level = chosen.confidence_level
    own = chosen.model_dump(include={"cluster", "confidence_level", "allow_different_judges"})
    comparison = compare(systems, baseline=baseline, data=samples, **own)
    before = open_source(
        systems[baseline],
        name=baseline,
        samples=samples.get(baseline, ()),
        analysis=analysis.model_copy(update={"confidence_level": level}),
    )
    return comparison.compared(name, baseline, before)


def _require_paired(what_needs: str, *, paired: bool) -> None:
    if not paired:
        raise ConfigurationError(
            f"{what_needs} systems that were evaluated on the same samples, but these do not share samples"
        )


def _finite(value: Any) -> Any:
    """Replace infinite numbers by None (unbounded), because JSON does not have infinity."""
    if isinstance(value, dict):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(inner) for inner in value]
    return None if isinstance(value, float) and math.isinf(value) else value
