"""Scores what an application retrieved and answered, while it runs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, NamedTuple

from ragstone._util.quantities import count
from ragstone.errors import JudgeError
from ragstone.experiments._app.repeats import merge_repeats
from ragstone.experiments._kept import KeptOutcomes
from ragstone.judges import repeat_replies
from ragstone.schema import Outcome, Sample, Trace
from ragstone.scoring import JudgedCounts, Scorer

if TYPE_CHECKING:
    from ragstone.experiments._app.run import AppRun, AppRunner


class ScoredApp(NamedTuple):
    """The outcomes of an application on a dataset."""

    samples: Sequence[Sample]
    """The rows, with the contexts and the response of the first repeat that answered."""
    outcomes: Sequence[Outcome]
    """One for each sample and metric: the mean of the repeats."""
    traces: tuple[Trace, ...]
    """The calls, in the order of the samples, then of the repeats."""


class Progress:
    """Counts finished samples (`total` with repeats), and calls the user's functions.

    With `stop_early` it stops if the judge fails systematically.
    """

    def __init__(
        self,
        total: int,
        progress: Callable[[int, int], None] | None,
        on_outcomes: Callable[[Sequence[Outcome]], None] | None,
        *,
        stop_early: bool,
    ) -> None:
        self.n_resumed = 0
        """Number of samples whose outcomes are from an interrupted run."""
        self._n_done = 0
        self._total = total
        self._progress = progress
        self._on_outcomes = on_outcomes
        self._stop_early = stop_early
        self._counts = JudgedCounts()

    def resume(self) -> None:
        """Count a sample whose outcomes are from an interrupted run."""
        self.n_resumed += 1
        self._count()

    def add(self, outcomes: Sequence[Outcome]) -> None:
        """Add the outcomes of one sample. Raise JudgeError if the judge fails systematically."""
        if self._on_outcomes is not None:
            self._on_outcomes(outcomes)
        self._count()
        self._counts.add(outcomes)
        if self._stop_early and (failure := self._counts.systematic):
            raise JudgeError(
                f"the run was stopped after {self._n_done} of {count(self._total, 'sample')}. "
                f"{self._counts.describe_systematic()}. Fix the cause, or run all samples with stop_early=False "
                "(--set limits.stop_early=false)",
                kind=failure.kind,
            )

    def _count(self) -> None:
        self._n_done += 1
        self.show()

    def show(self) -> None:
        """Call the user's function."""
        if self._progress is not None:
            self._progress(self._n_done, self._total)


async def score_app(
    runner: AppRunner, scorer: Scorer, samples: Sequence[Sample], kept: KeptOutcomes, report: Progress
) -> ScoredApp:
    """Run an application over samples, and score each answer as soon as it is there."""
    runs: dict[str, AppRun] = {}
    outcomes: dict[str, Sequence[Outcome]] = {}

    async def answered() -> AsyncIterator[Sample]:
        async for run in runner:
            runs[run.trace.trace_id] = run
            if run.failure is not None:
                outcomes[run.trace.trace_id] = scorer.failures(run.sample, "application", run.failure)
                report.add(outcomes[run.trace.trace_id])
            elif (known := kept.find(run.sample)) is not None:
                outcomes[run.trace.trace_id] = known
                report.resume()
            else:
                yield run.sample

    # Closed here, so that no call is sent after `report` has stopped the run.
    scored_many = scorer.score_many(answered(), lambda sample: repeat_replies(runs[sample.id].repeat))
    async with aclosing(scored_many) as scoring:
        async for sample, scored in scoring:
            kept.add(sample, scored)
            outcomes[sample.id] = scored
            report.add(scored)
    groups = [[runs[name] for name in runner.run_ids(row)] for row in samples]
    return ScoredApp(
        samples=tuple(_shown(row, group) for row, group in zip(samples, groups, strict=True)),
        outcomes=tuple(
            merge_repeats(row.id, repeats) if len(repeats) > 1 else repeats[0]
            for row, group in zip(samples, groups, strict=True)
            for repeats in zip(*(outcomes[run.trace.trace_id] for run in group), strict=True)
        ),
        traces=tuple(run.trace for group in groups for run in group),
    )


def _shown(row: Sample, runs: Sequence[AppRun]) -> Sample:
    """Return a row as the application answered it."""
    answered = next((run.sample for run in runs if run.failure is None), None)
    if answered is None:
        return row.model_copy(update={"contexts": None, "response": None})
    return answered.model_copy(update={"id": row.id})
