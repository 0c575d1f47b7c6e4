"""What retriever and generator can still gain: answers without retrieval, with the real one, and from the best context."""

from __future__ import annotations

import functools
import inspect
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from ragstone.errors import ConfigurationError, DataError
from ragstone.experiments import AUTO_CLUSTER, Comparison, Experiment, compare, evaluate
from ragstone.extension import count
from ragstone.judges import Judge, Reader
from ragstone.metrics import Metric
from ragstone.reading import SampleSource, read_samples
from ragstone.schema import Passage, Sample
from ragstone_lab._report import result_table, shown
from ragstone_lab._run import RunResult, folder_of, values_of_outcomes

CONDITIONS: Final = ("direct", "retrieved", "oracle")
"""No retrieval, the retrieval of the application, and the required passages."""
_REFERENCE: Final = "reference"
_GAINS: Final = {
    "of retrieval now": ("retrieved", "direct"),
    "left to the retriever": ("oracle", "retrieved"),
    "left to the generator": (_REFERENCE, "oracle"),
}
_OF_PAIR: Final = ("low", "high", "p_value", "n", "n_failed", "bounds")


@dataclass(frozen=True, slots=True, kw_only=True)
class Gain:
    """What one metric can gain, in its own units. More is better, also if lower values of the metric are."""

    metric: str
    gain: str
    """What gains, in words."""
    difference: str
    """The two means whose difference it is."""
    value: float | None
    """Mean of the paired differences. None without a question that has both scores."""
    low: float | None = None
    """Lower end of the interval, simultaneous over all pairs and metrics."""
    high: float | None = None
    p_value: float | None = None
    """P-value, adjusted for all pairs and metrics. None if untestable."""
    n: int = 0
    """Number of questions with both scores."""
    n_failed: int = 0
    """Number of questions of which at least one score failed. The other numbers exclude them."""
    bounds: tuple[float, float] | None = None
    """Lowest and highest possible gain for any scores of the failed questions."""

    def cell(self) -> str:
        """Return the gain with its interval as text."""
        if self.value is None:
            return "unknown"
        ends = "too few questions differ" if self.low is None else f"{self.low:+.3f}, {self.high:+.3f}"
        return f"{self.value:+.3f} [{ends}]"


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrievalBounds(RunResult):
    """The gains that are left, and the comparison that they come from."""

    counted = "outcomes"

    gains: tuple[Gain, ...]
    comparison: Comparison
    """All conditions, compared as systems."""
    n_questions: int
    left_out: Mapping[str, int]
    """Number of excluded questions, by reason."""

    def __str__(self) -> str:
        gains = result_table(
            self.gains,
            {
                "metric": lambda gain: gain.metric,
                "gain": lambda gain: gain.gain,
                "CI": Gain.cell,
                "n": lambda gain: str(gain.n),
                "failed": lambda gain: str(gain.n_failed),
            },
            ci=f"of the score [{self.comparison.confidence_level:.0%} CI]",
            n_keys=2,
        )
        meanings = {gain.gain: f"{gain.gain}: {gain.difference}" for gain in self.gains}
        means = [
            f"mean {metric.metric}: " + ", ".join(f"{each.system} {shown(each.estimate)}" for each in metric.systems)
            for metric in self.comparison.metrics
        ]
        excluded = [f"excluded, {reason}: {n}" for reason, n in sorted(self.left_out.items())]
        lines = [f"{count(self.n_questions, 'question')}, {self.usage}", *excluded, self.comparison.method, *self.notes]
        return "\n".join([gains, "", *meanings.values(), *means, "", *lines])


def retrieval_bounds(
    data: SampleSource,
    output_dir: str | Path,
    *,
    app: Any = None,
    answers: Mapping[str, SampleSource] | None = None,
    metrics: Sequence[str | Metric] | str = ("crux.response_coverage",),
    judge: str | Judge | None = None,
    reader: str | Reader | None = None,
    cluster: str | None = AUTO_CLUSTER,
    confidence_level: float = 0.95,
    n_permutations: int = 10_000,
    seed: int = 0,
    **options: Any,
) -> RetrievalBounds:
    """Measure how much the quality of the answers can still gain by a better retriever, and by a better generator.

    Each question is answered without retrieval (`direct`), with the real retrieval (`retrieved`) and from the passages
    that suffice (`oracle`). Its reference is a fourth answer, if it has one. The paired differences of these answers
    are the gains: of retrieval today (retrieved - direct), of a perfect retriever (oracle - retrieved), and of a
    generator that answers like the reference (reference - oracle). Questions without passages that suffice, or without
    an answer of each condition, are excluded and counted.

    Args:
        data: Questions with `required` (the passages that suffice, as {id: text}) and what the metrics need: the
            `dataset.jsonl` of `build_dataset`.
        output_dir: Directory of the outcomes and of the calls of the application. An interrupted run resumes there.
        app: The application: a function whose first parameter is named `row`. If `row.contexts` is None, it retrieves.
            Otherwise it answers from these passages alone, of which there are none without retrieval.
        answers: Instead of an application, rows with `id` and `response` for "direct", "retrieved" and "oracle".
        metrics: Names, groups or metric objects that rate an answer.
        judge: As for `ragstone.evaluate`.
        reader: As for `ragstone.evaluate`.
        cluster: As for `ragstone.compare`.
        confidence_level: As for `ragstone.compare`.
        n_permutations: As for `ragstone.compare`.
        seed: As for `ragstone.compare`.
        **options: Other options of `ragstone.evaluate`, such as `concurrency`, `app_timeout_s` and `progress`.

    Raises:
        ConfigurationError: If neither or both of `app` and `answers` are given, a condition is missing, or the
            application does not take a row.
        DataError: If no question can take part, or a row answers another question.
        ApplicationError: If the application fails on each of the first 10 answers.
        JudgeError: If the judge is unavailable, or fails systematically.

    Source:
        CRUX, section 4.2 and table 1.

    Examples:
        ```python
        print(retrieval_bounds("handbook-set/dataset.jsonl", "bounds", app=answer, judge="http://localhost:8000/v1"))
        ```
    """
    if (app is None) == (answers is None):
        raise ConfigurationError(
            "give either the application (app=, --app) or files of its answers (answers=, NAME=FILE)"
        )
    asked = None if app is None else _asked(app)
    given = None if answers is None else _read_answers(answers)
    samples, _ = read_samples(data)
    left_out: Counter[str] = Counter()
    rows = list(_cells(samples, given, left_out))
    if not rows:
        reasons = ", ".join(f"{reason}: {n}" for reason, n in left_out.items())
        raise DataError(f"none of {count(len(samples), 'question')} can take part ({reasons})")
    folder = folder_of(output_dir)
    output, traces = folder / "outcomes.jsonl", None if app is None else folder / "traces.jsonl"
    options |= {"app": asked, "judge": judge, "reader": reader, "output": output, "traces": traces, "cluster": cluster}
    scored = evaluate(rows, metrics, **options)
    parts = _by_condition(scored)
    comparison = compare(
        parts, cluster=cluster, confidence_level=confidence_level, n_permutations=n_permutations, seed=seed
    )
    return RetrievalBounds(
        gains=tuple(_gains(comparison)),
        comparison=comparison,
        n_questions=len({row.id.partition("/")[2] for row in rows}),
        left_out=left_out,
        notes=comparison.notes,
        n_asked=scored.usage.calls,
        n_known=scored.usage.cached,
        usage=scored.usage,
        **values_of_outcomes({scored.judge.name: scored.outcomes}),
    )


def _asked(app: Any) -> Callable[[Sample], Any]:
    """Return the application for all rows: a reference is its own answer."""
    first = next(iter(inspect.signature(app).parameters), None) if callable(app) else None
    if first != "row":
        raise ConfigurationError(
            "the application must be a function whose first parameter is named `row`, because it must answer from "
            f"`row.contexts` if they are not None. Its first parameter is {first!r}. Give files of answers otherwise"
        )

    def ask(row: Sample) -> Any:
        return row.response if row.id.startswith(f"{_REFERENCE}/") else app(row)

    return functools.update_wrapper(ask, app)


def _read_answers(answers: Mapping[str, SampleSource]) -> dict[str, dict[str, Sample]]:
    """Return the answers by condition and id."""
    if {*answers} != {*CONDITIONS}:
        raise ConfigurationError(
            f"answers are needed for {', '.join(CONDITIONS)}, got {', '.join(answers) or 'none'}. Write NAME=FILE for each"
        )
    return {name: {sample.id: sample for sample in read_samples(answers[name])[0]} for name in CONDITIONS}


def _cells(
    samples: Sequence[Sample], given: Mapping[str, Mapping[str, Sample]] | None, left_out: Counter[str]
) -> Iterator[Sample]:
    """Yield each question in each condition, with the id CONDITION/ID."""
    for sample in samples:
        required = sample.metadata.get("required")
        texts = required if isinstance(required, Mapping) else {}
        passages = tuple(Passage(id=str(i), text=t) for i, t in texts.items() if isinstance(t, str) and t.strip())
        known = {name: rows.get(sample.id) for name, rows in (given or {}).items()}
        missing = [name for name, answer in known.items() if answer is None or answer.response is None]
        if not passages or missing:
            left_out["no passages that suffice (`required`)" if not passages else f"no answer: {missing[0]}"] += 1
            continue
        for name, contexts in zip(CONDITIONS, ((), None, passages), strict=True):
            update: dict[str, Any] = {"id": f"{name}/{sample.id}", "contexts": contexts, "response": None}
            if (answer := known.get(name)) is not None:
                if answer.query is not None and answer.query != sample.query:
                    raise DataError(f"{name}: the row {sample.id!r} answers another question than that of the data")
                update["response"] = answer.response
                update["contexts"] = answer.contexts if contexts is None else contexts
            yield sample.model_copy(update=update)
        if reference := next((text for text in sample.reference if text.strip()), None):
            update = {"id": f"{_REFERENCE}/{sample.id}", "contexts": passages, "response": reference}
            yield sample.model_copy(update=update)


def _by_condition(scored: Experiment) -> dict[str, Experiment]:
    """Return the experiment of each condition, whose samples have the ids of the data."""
    parts: dict[str, tuple[list[Any], list[Any]]] = {}
    for sample in scored.samples:
        name, _, id_ = sample.id.partition("/")
        parts.setdefault(name, ([], []))[0].append(sample.model_copy(update={"id": id_}))
    for outcome in scored.outcomes:
        name, _, id_ = outcome.sample_id.partition("/")
        parts[name][1].append(outcome.model_copy(update={"sample_id": id_}))
    return {
        name: replace(scored, samples=tuple(samples), outcomes=tuple(outcomes), traces=())
        for name, (samples, outcomes) in parts.items()
    }


def _gains(comparison: Comparison) -> Iterator[Gain]:
    for metric in comparison.metrics:
        pairs = {(each.system, each.other): each for pair in metric.pairs for each in (pair, pair.turned())}
        for gain, (better, worse) in _GAINS.items():
            values: dict[str, Any] = {"value": None}
            if (pair := pairs.get((better, worse) if metric.higher_is_better else (worse, better))) is not None:
                values = {name: getattr(pair, name) for name in _OF_PAIR} | {"value": pair.difference}
            yield Gain(metric=metric.metric, gain=gain, difference=f"{better} - {worse}", **values)
