"""Reports and single answers of any source of outcomes."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence

from ragstone.errors import ConfigurationError
from ragstone.experiments._clusters import AUTO_CLUSTER, NO_CLUSTER
from ragstone.experiments._compare.compare import compare
from ragstone.experiments._compare.names import names_of
from ragstone.experiments._evaluated import Evaluated
from ragstone.experiments._levels import CONFIDENCE_LEVEL
from ragstone.experiments._outcomes import OutcomeSource
from ragstone.experiments._score_gate import ScoreCheck, Undecided, check_scores
from ragstone.experiments._views import build, write
from ragstone.experiments._views.changes import Compared
from ragstone.experiments._views.open import open_source
from ragstone.experiments._views.reasons import AskReasons
from ragstone.judges import Judge
from ragstone.metrics import MetricCard
from ragstone.schema import Sample
from ragstone.views import AnswerView, ReportView


def build_report(
    source: OutcomeSource,
    *,
    name: str | None = None,
    samples: Iterable[Sample] = (),
    targets: Mapping[str, float] | None = None,
    n_worst: int = 5,
    by: Sequence[str] = (),
    others: Mapping[str, OutcomeSource] | None = None,
    baseline: str | None = None,
    baseline_samples: Iterable[Sample] = (),
    reasons: int = 0,
    judge: Judge | None = None,
    cluster: str = AUTO_CLUSTER,
    confidence_level: float = CONFIDENCE_LEVEL,
) -> ReportView:
    """Build the report of one system: a verdict, each metric with its interval, causes, and the worst answers.

    Raises:
        ConfigurationError: If the file does not exist, no sample has a label of `by` or `cluster`, or a target is not a value of a scored metric.
        DataError: If the source does not contain outcomes.
        StoreError: If a store cannot be read.
    """
    rows = tuple(samples)
    return build.build_report(
        open_source(source, name=name, samples=rows, cluster=cluster, confidence_level=confidence_level),
        targets=dict(targets or {}),
        n_worst=n_worst,
        by=by,
        compared=_compared(
            source,
            name,
            others,
            baseline=baseline,
            samples=rows,
            baseline_samples=tuple(baseline_samples),
            cluster=cluster,
            confidence_level=confidence_level,
        ),
        reasons=None if judge is None or not reasons else AskReasons(reasons, judge),
    )


def write_report(
    source: OutcomeSource,
    path: str | os.PathLike[str],
    *,
    samples: Iterable[Sample] = (),
    targets: Mapping[str, float] | None = None,
    n_worst: int = 5,
    by: Sequence[str] = (),
    max_mb: float = 1.5,
    texts: bool = True,
    command: str | None = None,
    name: str | None = None,
    others: Mapping[str, OutcomeSource] | None = None,
    baseline: str | None = None,
    baseline_samples: Iterable[Sample] = (),
    reasons: int = 0,
    judge: Judge | None = None,
    cluster: str = AUTO_CLUSTER,
    confidence_level: float = CONFIDENCE_LEVEL,
) -> ReportView:
    """Write the report of any source to a file: a page (`.html`) or a summary (`.md`). See `Experiment.report`.

    Args:
        source: An `Experiment`, a file of outcomes, a store, or a `TimeRange` of one.
        path: Path of the file.
        samples: The samples of a file of outcomes, for texts and labels of clusters that it does not contain.
        targets: The mean that each metric should reach, by metric.
        n_worst: Maximum number of answers that are shown.
        by: Labels whose values are compared. Empty: those with 2 to 12 values of at least 20 answers each.
        max_mb: Size limit of a page, in MB.
        texts: Whether the file contains texts of questions, answers and passages.
        command: The command that made the report.
        name: Name of the system. Default: the name of the source.
        others: Other systems by name, to compare with. The system itself then needs a name.
        baseline: Name of the system whose differences are shown. Default: the first of `others`.
        baseline_samples: The samples of the baseline, if that is a file of outcomes.
        reasons: Number of the shown answers for which the judge explains its lowest score. At least as many are shown.
        judge: The judge that made the scores, for reasons. It is closed afterwards.
        cluster: Key whose equal values make a cluster of samples, such as "session_id": intervals and tests treat whole
            clusters as independent. "auto" uses `session_id` if at least 5% of the samples share one, "none" no clusters.
            An experiment has its own.
        confidence_level: Confidence level of all intervals and tests, in (0, 1). An experiment has its own.

    Raises:
        ConfigurationError: If the path, a target, `cluster` or the size limit is invalid.
        DataError: If the source does not contain outcomes.
        StoreError: If a store cannot be read.
    """
    write.check_output(path)
    rows = tuple(samples)
    return write.write_report(
        open_source(source, name=name, samples=rows, cluster=cluster, confidence_level=confidence_level),
        path,
        targets=dict(targets or {}),
        n_worst=n_worst,
        by=by,
        max_mb=max_mb,
        texts=texts,
        command=command,
        compared=_compared(
            source,
            name,
            others,
            baseline=baseline,
            samples=rows,
            baseline_samples=tuple(baseline_samples),
            cluster=cluster,
            confidence_level=confidence_level,
        ),
        reasons=None if judge is None or not reasons else AskReasons(reasons, judge),
    )


def _compared(
    source: OutcomeSource,
    name: str | None,
    others: Mapping[str, OutcomeSource] | None,
    *,
    baseline: str | None = None,
    samples: Sequence[Sample] = (),
    baseline_samples: Sequence[Sample] = (),
    cluster: str = AUTO_CLUSTER,
    confidence_level: float = CONFIDENCE_LEVEL,
) -> Compared | None:
    """Compare a system with others, if there are any."""
    if not others:
        return None
    if name is None or name in others:
        raise ConfigurationError(f"the reported system needs a name other than {', '.join(map(repr, others))}")
    before = baseline or next(iter(others))
    own, level = cluster, confidence_level
    if isinstance(source, Evaluated):
        own, level = source.cluster or NO_CLUSTER, source.confidence_level
    comparison = compare(
        {**others, name: source},
        baseline=before,
        cluster=own,
        confidence_level=level,
        data={before: baseline_samples, name: samples},
    )
    return comparison.compared(
        name,
        before,
        open_source(others[before], name=before, samples=baseline_samples, cluster=cluster, confidence_level=level),
    )


def compare_with_baseline(result: Evaluated, name: str, baseline: OutcomeSource) -> Compared:
    """Compare an experiment with another source of outcomes, for its report.

    Args:
        result: The experiment.
        name: Its name.
        baseline: What it is compared with. A file is named by its path.

    Raises:
        ConfigurationError: If the file does not exist, or scores are from different judges.
        DataError: If the systems do not share samples.
        StoreError: If a store cannot be read.
    """
    before = "baseline" if isinstance(baseline, Evaluated) else names_of([baseline])[0]
    compared = _compared(result, name, {"baseline" if before == name else before: baseline})
    assert compared is not None  # noqa: S101  there is another system
    return compared


def find_worst(
    source: OutcomeSource,
    *,
    n: int = 20,
    cause: str | None = None,
    metric: str | None = None,
    where: str | None = None,
    samples: Iterable[Sample] = (),
) -> tuple[AnswerView, ...]:
    """Return the worst answers of a source, worst first. See `Experiment.worst`.

    Args:
        source: An `Experiment`, a file of outcomes, a store, or a `TimeRange` of one.
        n: Maximum number of answers.
        cause: If given, only answers with this cause.
        metric: If given, the answers with the worst scores of this metric.
        where: If given, only answers with these labels and scores: "release=2.4 and ccrs.ac<0.5". Without a metric, answers
            without scores, such as requests that ended with an error, follow those with scores.
        samples: The samples of a file of outcomes.

    Raises:
        ConfigurationError: If the cause does not exist, the metric was not scored, or `where` is invalid.
        DataError: If the source does not contain outcomes.
        StoreError: If a store cannot be read.
    """
    return build.find_worst(open_source(source, samples=samples), n=n, cause=cause, metric=metric, where=where)


def explain_answer(source: OutcomeSource, sample_id: str, *, samples: Iterable[Sample] = ()) -> AnswerView | None:
    """Return one answer with its evidence, or None if the source does not contain it.

    Raises:
        StoreError: If a store cannot be read.
    """
    return build.explain_answer(open_source(source, samples=samples), sample_id)


def check_source(
    source: OutcomeSource,
    thresholds: Mapping[str, float],
    *,
    undecided: Undecided = "fail",
    confidence_level: float = 0.95,
    cards: Iterable[MetricCard] = (),
    cluster: str = AUTO_CLUSTER,
    samples: Iterable[Sample] = (),
) -> ScoreCheck:
    """Check if the mean of each metric of a source reaches a threshold. See `Experiment.check`.

    Args:
        source: An `Experiment`, a file of outcomes, a store, or a `TimeRange` of one.
        thresholds: Thresholds by metric or group.
        undecided: Whether a metric fails or passes if the data show neither.
        confidence_level: One minus the probability of a wrong decision on one metric.
        cards: Cards of metrics that were to be scored, also if the source does not have an outcome of them.
        cluster: Key whose equal values make a cluster of samples, such as "session_id": intervals and tests treat whole
            clusters as independent. "auto" uses `session_id` if at least 5% of the samples share one, "none" no clusters.
            An experiment has its own.
        samples: The samples of a file of outcomes, for labels of clusters that it does not contain.

    Raises:
        ConfigurationError: If the file does not exist, a threshold or an option is invalid, or a metric is not scored.
        DataError: If the source does not contain outcomes.
        StoreError: If a store cannot be read.
    """
    return check_scores(
        open_source(source, cluster=cluster, samples=samples),
        thresholds,
        undecided=undecided,
        confidence_level=confidence_level,
        cards=cards,
    )
