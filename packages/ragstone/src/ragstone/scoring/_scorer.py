"""Scorer: computes exactly one outcome for each pair of sample and metric, with a deadline and under one limit."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import math
import time
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Mapping,
    Sequence,
)
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from functools import partial
from typing import Any, Final

from ragstone._util.abstains import OWN_REFUSALS
from ragstone._util.variables import suppress_capture
from ragstone._util.waiting import MovingTimeout
from ragstone.errors import ConfigurationError, JudgeError
from ragstone.judges import (
    Embedder,
    Judge,
    JudgeIdentity,
    OutageTimer,
    Preparable,
    Reader,
    UsageMeter,
    metered,
    note_progress,
    progress_at,
    record_usage,
)
from ragstone.metrics import (
    Composite,
    EmbedderMetric,
    Metric,
    MetricBase,
    ReaderMetric,
    check_sample,
    is_from_file,
    make_failure,
    score_once,
    share_work,
)
from ragstone.schema import (
    Failure,
    FailureKind,
    MetricScale,
    NotApplicable,
    Outcome,
    Sample,
    Score,
    Trace,
    Usage,
    fingerprint,
)
from ragstone.scoring._causes import answer_marks

logger = logging.getLogger("ragstone")

_FIELDS: Final = tuple(name for name in Sample.model_fields if name not in ("schema_version", "id", "evidence"))
"""Fields that a metric can need."""
_COMPUTING: Final = ("ragstone.metrics.", "ragstone.judges.lexical")
"""Modules of metrics and models that only compute, unless they are `Preparable`. Tasks and deadlines cost more."""
_RANGE_TOLERANCE = 1e-9
"""Tolerance for rounding when a value is compared with the range of its metric."""
_SILENCE_S: Final = 120.0
"""Seconds without a call of a model, and without an outcome, after which a sample without a deadline fails."""


class _SampleDeadline:
    """Deadline of all metrics of a sample, in seconds from now. An outage of an endpoint does not use it up.

    None ends the sample if nothing that could score it is under way in this process: a call of a model ends by its own
    timeout.
    """

    def __init__(self, seconds: float | None) -> None:
        self._seconds = seconds
        self._started_at = asyncio.get_running_loop().time()
        self._outage = OutageTimer()

    def remaining_s(self) -> float:
        """Return the seconds until the deadline, for a `MovingTimeout`."""
        if self._seconds is None:
            at = max(self._started_at, progress_at()) + _SILENCE_S
        else:
            at = self._started_at + self._seconds
        return at + self._outage.seconds() - asyncio.get_running_loop().time()


class Scorer:
    """Scores samples with several metrics and one judge.

    Metrics of one sample that wait for a model run concurrently, while its text is in the server's prefix cache. An
    error in one metric of one sample becomes the `Failure` of that pair only. A metric receives only samples that have
    the fields its card requires, and its value must be finite and within its card's range. The scorer starts no thread.
    A cancellation is passed on, and no task runs after it. The calls made here are not captured as user traffic.

    Args:
        metrics: The metrics, each with a different name.
        judge: The judge. It is prepared and called only for metrics that need one.
        concurrency: Samples scored concurrently in `score_many`. The judge limits the number of concurrent judge calls.
        deadline_s: Seconds after which the unfinished metrics of a sample fail as "timeout". Time in which an endpoint
            is unavailable does not count. None (default): they fail only if no model is called, and no outcome arrives,
            for 120 seconds. Each call ends by the timeouts of its model, so a slow model loses no outcome.
        clock: Returns Unix time in seconds, for `created_at`.

    Raises:
        ConfigurationError: If two metrics have the same name, a metric needs a field that samples do not have, or an
            option is invalid.

    Examples:
        ```python
        scorer = Scorer(resolve_metrics("ccrs"), judge_from("http://localhost:8000/v1"))
        async for sample, outcomes in scorer.score_many(samples):
            ...
        ```
    """

    def __init__(
        self,
        metrics: Sequence[Metric],
        judge: Judge,
        *,
        concurrency: int = 16,
        deadline_s: float | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        names = [metric.card.name for metric in metrics]
        if repeated := {name for name in names if names.count(name) > 1}:
            raise ConfigurationError(f"metric names must be unique, but {sorted(repeated)!r} were given more than once")
        for metric in metrics:
            if unknown := [need for need in metric.card.needs if need not in _FIELDS]:
                raise ConfigurationError(
                    f"the metric {metric.card.name!r} needs {unknown[0]!r}, which is not a field of a sample. Fields: "
                    f"{', '.join(_FIELDS)}"
                )
        if concurrency < 1 or (deadline_s is not None and deadline_s <= 0):
            raise ConfigurationError(
                "concurrency must be at least 1 and deadline_s above 0, got "
                f"concurrency={concurrency!r}, deadline_s={deadline_s!r}"
            )
        self.metrics = tuple(metrics)
        self.judge = judge
        self._concurrency = concurrency
        self._deadline_s = deadline_s
        self._clock = clock
        self.refusals = OWN_REFUSALS.get()
        """The user's own phrases of refusal."""
        self._spent = UsageMeter()
        # Looked up once: `isinstance` with a Protocol for each outcome costs more than most metrics.
        self._others = {metric.card.name: _models_other_than_judge(metric) for metric in metrics}
        self._scales = {metric.card.name: _scale_of(metric) for metric in metrics}
        shared = {name for metric in metrics if isinstance(metric, Composite) for name in metric.weights}
        self._computed_by = {
            name: partial(score_once, metric) if name in shared else _computation(metric)
            for name, metric in zip(names, metrics, strict=True)
        }
        models: list[object] = [judge] if any(metric.card.asks_judge for metric in metrics) else []
        models += [model for used in self._others.values() for _, model in used]
        self._models = [model for model in models if isinstance(model, Preparable)]
        self._only_computes = all(
            type(used).__module__.startswith(_COMPUTING) and not isinstance(used, Preparable)
            for used in (*metrics, *models)
        )
        self._buggy: set[str] = set()
        """Metrics that have failed with an unexpected exception, whose traceback has been logged."""

    def judged_by(self, metric: Metric) -> JudgeIdentity | None:
        """Return the identity of the models that a metric uses, or None if it uses none. Final after `prepare`."""
        used = [("", self.judge.identity)] if metric.card.asks_judge else []
        used += [(verb, model.identity) for verb, model in self._others[metric.card.name]]
        if len(used) < 2:
            return used[0][1] if used else None
        (_, first), *others = used
        return JudgeIdentity(
            name=first.name
            + "".join(f", {verb} by {other.name}" for verb, other in others if other.name != first.name),
            hash=hashlib.sha256("/".join(identity.hash for _, identity in used).encode()).hexdigest()[:16],
            is_baseline=any(identity.is_baseline for _, identity in used),
        )

    @property
    def usage(self) -> Usage:
        """Usage of everything scored so far, including failed and canceled work."""
        return self._spent.total

    async def prepare(self) -> None:
        """Prepare the judge, the readers, the embedders and the metrics, so that a wrong address is found before the first sample.

        Metrics with their own model load it. If the budget is reached during preparation, no exception is raised, and
        each outcome fails with kind "budget".

        Raises:
            ConfigurationError: If the judge cannot work as configured, or the model of a metric cannot be loaded.
            JudgeError: If the judge is unavailable.
        """
        with metered() as meter:
            try:
                await self._prepare()
            finally:
                # The calls that prepare a model count as well.
                self._spent.total += meter.total
        for metric in self.metrics:
            if isinstance(metric, Preparable):
                await metric.prepare()

    async def _prepare(self) -> None:
        for model in self._models:
            try:
                with suppress_capture():
                    await model.prepare()
            except JudgeError as error:
                if error.kind != "budget":
                    raise

    async def score(self, sample: Sample) -> tuple[Outcome, ...]:
        """Score one sample with all metrics.

        Returns:
            One outcome for each metric, in the order of `metrics`.
        """
        with suppress_capture(), metered() as meter:
            deadline = None if self._only_computes else MovingTimeout(_SampleDeadline(self._deadline_s).remaining_s)
            token = OWN_REFUSALS.set(self.refusals)
            shared = {"fingerprint": fingerprint(sample.query, sample.history), "answer": answer_marks(sample)}
            try:
                with share_work():
                    if len(self.metrics) == 1 or self._only_computes:
                        return tuple([await self._outcome(metric, sample, deadline, shared) for metric in self.metrics])
                    async with asyncio.TaskGroup() as group:
                        work = [self._outcome(metric, sample, deadline, shared) for metric in self.metrics]
                        tasks = [group.create_task(each) for each in work]
            finally:
                OWN_REFUSALS.reset(token)
                # Also after a cancellation: sent requests count, and shared work may end after the metrics that use it.
                self._spent.total += meter.total
            return tuple(task.result() for task in tasks)

    async def score_many(
        self,
        samples: AsyncIterable[Sample] | Iterable[Sample],
        around: Callable[[Sample], AbstractContextManager[object]] = nullcontext,
    ) -> AsyncGenerator[tuple[Sample, tuple[Outcome, ...]], None]:
        """Score up to `concurrency` samples concurrently, and yield them in the order in which they finish.

        A sample is read from the source only when it can be scored. An exception of the source ends the iteration.
        Closing the iterator cancels unfinished work. Each sample is scored within the block that `around` makes for it.
        """
        source = aiter(samples if isinstance(samples, AsyncIterable) else _asynchronous(samples))
        scoring: dict[asyncio.Task[tuple[Outcome, ...]], Sample] = {}
        reading: asyncio.Task[Sample | None] | None = None
        exhausted = False
        try:
            while True:
                if reading is None and not exhausted and len(scoring) < self._concurrency:
                    reading = asyncio.create_task(_next(source))
                waited: set[asyncio.Task[Any]] = set(scoring)
                if reading is not None:
                    waited.add(reading)
                if not waited:
                    return
                done, _ = await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
                if reading is not None and reading in done:
                    sample = reading.result()
                    reading = None
                    if sample is None:
                        exhausted = True
                    else:
                        with around(sample):
                            scoring[asyncio.create_task(self.score(sample))] = sample
                for task in done & scoring.keys():
                    yield scoring.pop(task), task.result()
        finally:
            rest: list[asyncio.Task[Any]] = [*scoring, *([reading] if reading is not None else ())]
            for unfinished in rest:
                unfinished.cancel()
            await asyncio.gather(*rest, return_exceptions=True)

    @asynccontextmanager
    async def limited(self) -> AsyncIterator[UsageMeter]:
        """Run further calls to the judge as a part of scoring: their usage counts, and the deadline of a sample applies.

        Raises:
            TimeoutError: If the block does not end before the deadline.
        """
        with suppress_capture(), metered() as meter:
            try:
                with MovingTimeout(_SampleDeadline(self._deadline_s).remaining_s):
                    yield meter
            finally:
                self._spent.total += meter.total

    def not_applicable(self, trace: Trace, reason: str) -> tuple[NotApplicable, ...]:
        """Return one outcome for each metric for a trace that cannot be scored (for example after an error)."""
        return tuple(
            NotApplicable(
                sample_id=trace.trace_id,
                fingerprint=fingerprint(trace.query, trace.history),
                metric=metric.card.name,
                metric_version=metric.card.version,
                reason=reason,
                created_at=self._clock(),
                **self._judged_by(metric),
            )
            for metric in self.metrics
        )

    def failures(self, sample: Sample, kind: FailureKind, reason: str) -> tuple[Failure, ...]:
        """Return one failure for each metric for a sample that could not be produced."""
        return tuple(
            make_failure(
                metric.card,
                sample,
                kind=kind,
                reason=reason,
                fingerprint=fingerprint(sample.query, sample.history),
                created_at=self._clock(),
                **self._judged_by(metric),
            )
            for metric in self.metrics
        )

    async def _outcome(
        self, metric: Metric, sample: Sample, deadline: MovingTimeout | None, shared: Mapping[str, Any]
    ) -> Outcome:
        started = time.perf_counter()
        with metered() as meter:
            outcome = await self._guarded(metric, sample, deadline, meter)
        note_progress()
        # A judge that does not report to the meter may set the usage on the outcome instead.
        usage = meter.total
        if not (usage.calls or usage.cached) and outcome.usage is not None:
            usage = outcome.usage
            record_usage(usage)
        judged_by = self._judged_by(metric)
        return outcome.model_copy(
            update={
                "scale": self._scales[metric.card.name],
                "sample_id": sample.id,
                **shared,
                "metric": metric.card.name,
                "metric_version": metric.card.version,
                "usage": usage if judged_by else None,
                "created_at": self._clock(),
                "duration_s": time.perf_counter() - started,
                **judged_by,
            }
        )

    def _judged_by(self, metric: Metric) -> dict[str, Any]:
        identity = self.judged_by(metric)
        return {} if identity is None else {"judge": identity.name, "judge_hash": identity.hash}

    async def _guarded(self, metric: Metric, sample: Sample, limit: MovingTimeout | None, meter: UsageMeter) -> Outcome:
        """Run one metric, and turn everything except an external cancellation into an outcome."""
        try:
            if unmet := check_sample(metric, sample):
                return unmet
            with limit or nullcontext():
                if metric.card.asks_judge or self._others[metric.card.name]:
                    await self._prepare()
                outcome = await self._computed_by[metric.card.name](sample, self.judge)
            return _checked(metric, outcome)
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():  # codespell:ignore
                raise
            # This task was not canceled: a future inside the metric was, and that must not end the run.
            self._log_bug(metric, sample, error)
            return make_failure(metric.card, sample, kind="bug", reason="a future inside the metric was canceled")
        except JudgeError as error:
            return make_failure(metric.card, sample, kind=error.kind, reason=str(error), raw=error.raw)
        except ConfigurationError as error:
            return make_failure(metric.card, sample, kind="rejected", reason=str(error))
        except Exception as error:  # noqa: BLE001  the run continues, and the failure records the exception
            if isinstance(error, TimeoutError) and limit is not None and limit.expired:
                reason = f"no outcome within {self._deadline_s or _SILENCE_S:g} s"
                if self._deadline_s is None:
                    reason += " after the last reply of a model"
                elif spent := meter.total.calls:
                    # The endpoint is slow, or the metrics need more calls than it can process before the deadline.
                    reason += (
                        f" ({spent} call{'s' if spent > 1 else ''} sent). Set a longer deadline (limits.deadline_s, "
                        "deadline_s) or a lower concurrency (--set limits.concurrency)"
                    )
                return make_failure(metric.card, sample, kind="timeout", reason=reason)
            self._log_bug(metric, sample, error)
            return make_failure(metric.card, sample, kind="bug", reason=f"{type(error).__name__}: {error}")

    def _log_bug(self, metric: Metric, sample: Sample, error: BaseException) -> None:
        """Log a bug, with its traceback only the first time, so that a bug in every sample does not flood the log."""
        name = metric.card.name
        about = {"trace_id": sample.id, "metric": name, "error_kind": "bug"}
        again = " with another unexpected exception" if name in self._buggy else ""
        traceback = None if again else error
        logger.error("metric %s failed on sample %r%s", name, sample.id, again, exc_info=traceback, extra=about)
        self._buggy.add(name)


def _computation(metric: Metric) -> Callable[[Sample, Judge], Awaitable[object]]:
    """Return what scores a sample that was checked: `MetricBase.score` would check it again."""
    if isinstance(metric, MetricBase) and type(metric).score is MetricBase.score and not metric.own_prompts:
        return metric.compute if "score" not in vars(metric) else metric.score
    return metric.score


def _scale_of(metric: Metric) -> MetricScale | None:
    """Return the scale of a metric that a reader of its outcomes cannot look up by name, or None."""
    if type(metric).__module__.startswith("ragstone.metrics.") and not is_from_file(metric.card):
        return None
    low, high = (end if math.isfinite(end) else None for end in (metric.card.low, metric.card.high))
    return MetricScale(low=low, high=high, direction=metric.card.direction)


def _models_other_than_judge(metric: Metric) -> tuple[tuple[str, Reader | Embedder], ...]:
    """Return the reader and the embedder of a metric, each with what it does."""
    reader = metric.reader if isinstance(metric, ReaderMetric) else None
    embedder = metric.embedder if isinstance(metric, EmbedderMetric) else None
    return tuple((verb, used) for verb, used in (("read", reader), ("embedded", embedder)) if used is not None)


def _checked(metric: Metric, outcome: object) -> Outcome:
    """Check that an outcome is valid for its metric. `Scorer` records a violation as a bug."""
    if not isinstance(outcome, (Score, NotApplicable, Failure)):
        raise TypeError(f"a metric must return a Score, a NotApplicable or a Failure, got {outcome!r}")
    # Raises here, so that this metric fails, not later in a store or a sink.
    outcome.model_dump_json()
    if isinstance(outcome, Score):
        low, high = metric.card.low - _RANGE_TOLERANCE, metric.card.high + _RANGE_TOLERANCE
        allowed = f"{metric.card.low:g} to {metric.card.high:g}"
        if not math.isfinite(outcome.value) or not low <= outcome.value <= high:
            raise ValueError(
                f"the value {outcome.value!r} is outside {allowed}: `low` and `high` of the metric give its range"
            )
        interval = outcome.interval
        if interval is not None and not low <= interval.low <= interval.high <= high:
            raise ValueError(
                f"the interval {interval.low!r} to {interval.high!r} is outside {allowed}. Scale the bounds of the "
                "judge's reply like its value"
            )
    return outcome


async def _asynchronous(samples: Iterable[Sample]) -> AsyncIterator[Sample]:
    for sample in samples:
        yield sample


async def _next(source: AsyncIterator[Sample]) -> Sample | None:
    """Return the next sample, or None at the end. A task needs a coroutine, not an awaitable."""
    return await anext(source, None)
