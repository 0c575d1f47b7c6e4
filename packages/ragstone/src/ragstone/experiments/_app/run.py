"""Runs an application over samples: concurrently, repeatedly, with errors as results."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self

from ragstone._util.variables import capture_suppressed
from ragstone.errors import ApplicationError, ConfigurationError, DataError
from ragstone.experiments._app.call import AppCall, app_call
from ragstone.experiments._app.capture import AppRecorder
from ragstone.experiments._app.saved import SavedRuns
from ragstone.requests import RequestBlock
from ragstone.schema import Sample, Trace, sample_from_trace

_OF_ROW: Final = ("query", "history", "reference", "sub_questions", "qrels", "ratings")
_STOPS_AFTER: Final = 10
"""Samples without any answer, as the first ones of a run, after which it stops."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AppRun:
    """One call of the application for one sample."""

    row: Sample
    repeat: int
    """0-based."""
    trace: Trace
    failure: str | None = None
    """Why the call did not give an answer to score. None if it did."""

    @property
    def sample(self) -> Sample:
        """What the application retrieved and answered, with the references and labels of the row."""
        kept = {name: getattr(self.row, name) for name in (*_OF_ROW, "metadata")}
        return sample_from_trace(self.trace).model_copy(update=kept)


class AppRunner:
    """Runs an application over samples, as an asynchronous context manager that is iterated.

    The options are those of `evaluate`. Contexts and responses of the samples are not used. Chat engines, which have
    one state, are called one after the other. Answers of an interrupted run are read from `saved`, and new ones are
    added. Raise ConfigurationError if the application cannot be called, an option is out of range, or `saved` is in
    use, and DataError if a sample does not have a query that the application takes.
    """

    def __init__(
        self,
        app: object,
        samples: Sequence[Sample],
        *,
        recorder: AppRecorder,
        saved: SavedRuns,
        repeats: int,
        concurrency: int,
        timeout_s: float,
        stop_early: bool,
    ) -> None:
        if repeats < 1 or concurrency < 1 or timeout_s <= 0:
            raise ConfigurationError(
                "repeats and app_concurrency must be at least 1 and app_timeout_s above 0, got "
                f"repeats={repeats!r}, app_concurrency={concurrency!r}, app_timeout_s={timeout_s!r}"
            )
        if capture_suppressed():
            raise ConfigurationError(
                "evaluate(app=...) captures what the application does. Call it outside of suppress_capture()"
            )
        self._call: AppCall = app_call(app)
        without = [sample.id for sample in samples if self._call.argument(sample) is None]
        if without:
            raise DataError(
                f"{len(without)} of {len(samples)} samples do not have a query to ask the application, first {without[0]!r}. "
                "Add it to these rows, or name the parameter of the application `row`, so that it gets the whole sample"
            )
        self.n_runs = len(samples) * repeats
        self._samples = samples
        self._recorder = recorder
        self._saved = saved
        self._repeats = repeats
        self._concurrency = 1 if self._call.is_stateful else concurrency
        self._timeout_s = timeout_s
        self._stop_early = stop_early
        self._ended: asyncio.Queue[AppRun | BaseException] = asyncio.Queue()
        self._workers: list[asyncio.Task[None]] = []
        self._closing = False

    @property
    def app_name(self) -> str:
        """Name of the application."""
        return self._call.name

    def run_ids(self, row: Sample) -> list[str]:
        """Return the ids of the calls for a sample: the sample's, with the number of the repeat if there are several."""
        return [self._run_id(row, repeat) for repeat in range(self._repeats)]

    def _run_id(self, row: Sample, repeat: int) -> str:
        return row.id if self._repeats == 1 else f"{row.id}#{repeat + 1}"

    async def __aenter__(self) -> Self:
        self._saved.open(self._call)
        jobs = ((row, repeat) for row in self._samples for repeat in range(self._repeats))
        self._workers = [asyncio.create_task(self._work(jobs)) for _ in range(self._concurrency)]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._closing = True
        for worker in self._workers:
            worker.cancel()
        await asyncio.gather(*self._workers, return_exceptions=True)
        self._saved.close()

    async def __aiter__(self) -> AsyncIterator[AppRun]:
        failed: dict[str, str] = {}
        watches = self._stop_early
        for _ in range(self.n_runs):
            run = await self._ended.get()
            if isinstance(run, BaseException):
                raise run
            if run.failure is None:
                watches = False
            elif watches:
                failed.setdefault(run.row.id, run.failure)
                if len(failed) >= _STOPS_AFTER:
                    raise ApplicationError(
                        f"the application failed on each of the first {_STOPS_AFTER} of {len(self._samples)} samples, so "
                        f"the run was stopped. First failure: {next(iter(failed.values()))}. Fix the application, or "
                        "run all samples with stop_early=False (--set limits.stop_early=false)"
                    )
            yield run

    async def _work(self, jobs: Iterator[tuple[Sample, int]]) -> None:
        try:
            for row, repeat in jobs:
                run = self._known(row, repeat)
                if run is None:
                    # A task of its own, so that nothing that the application sets in its context is seen by the next call.
                    run = await asyncio.create_task(self._ask(row, repeat))
                    if run.failure is None:
                        self._saved.add(run.trace, row, repeat)
                self._ended.put_nowait(run)
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # noqa: BLE001 - a full disk, or a bug: raised where the runs are read
            self._ended.put_nowait(error)

    def _known(self, row: Sample, repeat: int) -> AppRun | None:
        trace = self._saved.find(row, repeat)
        if trace is None:
            return None
        trace = trace.model_copy(update={"trace_id": self._run_id(row, repeat)})
        return AppRun(row=row, repeat=repeat, trace=trace)

    async def _ask(self, row: Sample, repeat: int) -> AppRun:
        block = self._recorder.request(row.query, name=self._call.name, reference=row.reference)
        failure: str | None = None
        returned = "None"
        try:
            with block:
                async with asyncio.timeout(self._timeout_s) as limit:
                    returned = await self._call(row, block)
        except asyncio.CancelledError:
            if self._closing:
                raise
            failure = "the application canceled its own call"
        except (Exception, SystemExit) as error:  # noqa: BLE001 - an error of the application is a result
            if isinstance(error, TimeoutError) and limit.expired():
                failure = (
                    f"the application did not answer within {self._timeout_s:g} s. Allow more time with app_timeout_s "
                    "(limits.app_timeout_s)"
                )
            else:
                failure = f"the application raised {type(error).__name__}: {error}"
        trace = self._trace(block, row, repeat)
        if failure is None and trace.response is None and trace.prompt_contexts is None:
            failure = (
                f"the application returned {returned}, which does not contain an answer. Return a text, a mapping with "
                "`response` and `contexts`, or the response of a model client"
            )
        if failure is not None:
            trace = trace.model_copy(update={"status": "error", "error": failure})
        return AppRun(row=row, repeat=repeat, trace=trace, failure=failure)

    def _trace(self, block: RequestBlock, row: Sample, repeat: int) -> Trace:
        kept = {name: getattr(row, name) for name in _OF_ROW}
        return self._recorder.take(block).model_copy(update=kept | {"trace_id": self._run_id(row, repeat)})
