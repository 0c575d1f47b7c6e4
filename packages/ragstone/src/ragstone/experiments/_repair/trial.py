"""`repair`: asks wrong answers of an application again while what it retrieves is changed."""

from __future__ import annotations

import itertools
import json
import os
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from typing import Any, Final

from ragstone._util.abstains import own_refusals
from ragstone._util.files import write_output
from ragstone._util.quantities import count
from ragstone._util.run_async import synchronous
from ragstone.errors import ConfigurationError, DataError
from ragstone.experiments._app.call import AppCall, app_call
from ragstone.experiments._app.capture import AppRecorder, framework_capture
from ragstone.experiments._app.run import AppRunner
from ragstone.experiments._app.saved import SavedRuns
from ragstone.experiments._app.score import Progress, ScoredApp, score_app
from ragstone.experiments._evaluate import run_identity, score_rows
from ragstone.experiments._kept import KeptOutcomes
from ragstone.experiments._repair.hook import changed_function
from ragstone.experiments._repair.interventions import BY_NAME, CONTROL, FIELD, Case, assign, make_case, state_of
from ragstone.experiments._repair.shares import (
    Answer,
    RepairShare,
    RepairTrial,
    answer_share,
    is_order_clear,
    repair_shares,
)
from ragstone.experiments._repair.stored import keep_trial
from ragstone.experiments._summary import CONFIDENCE_LEVEL, check_level
from ragstone.experiments._views.changes import WRONG
from ragstone.judges import EmbedderSpec, JudgeSpec, ReaderSpec, wait_for_outages
from ragstone.metrics import Metric, own_prompts
from ragstone.reading import SampleSource, case_of, iter_samples
from ragstone.requests import RequestBlock, RetrievalChange, RetrieverTools, changed_retrieval
from ragstone.schema import Failure, Outcome, Sample, Trace
from ragstone.scoring import Scorer, Signals, find_cause, note_outcome, note_sample
from ragstone.settings import RUN_KEYS, Limits, takes_settings
from ragstone.worker import open_setup

_PROBE: Final = 15
"""Wrong answers that are asked for first, to see whether the application retrieves in a way that can be changed."""
_EARLY: Final = 40
"""Wrong answers from which the trial may end after half of them."""
_KEYS: Final = {name: RUN_KEYS[name] for name in ("metrics", "concurrency", "max_outage_s", "refusals", "prompts")}
_REASONS_SHOWN: Final = 3


class _Recorder(AppRecorder):
    """Also notes in each call what was changed."""

    changes_retrieval = True
    """Integrations change what their retrievers return (`ragstone.requests.changed_results`)."""

    def __init__(self, retriever_tools: Any) -> None:
        super().__init__(retriever_tools)
        self.changes: dict[str, RetrievalChange] = {}

    def take(self, block: RequestBlock) -> Trace:
        change = self.changes.pop(block.trace_id or "", None)
        trace = super().take(block)
        if change is None:
            return trace
        names = ("n_retrievals", "is_possible", "widens", "before", "given")
        return trace.model_copy(update={"metadata": {FIELD: {name: getattr(change, name) for name in names}}})


class _ChangedCall(AppCall):
    """Calls the application under the intervention that the id of the row names."""

    def __init__(self, app: AppCall, recorder: _Recorder) -> None:
        self.name, self.is_stateful = app.name, app.is_stateful
        self._app, self.recorder = app, recorder
        self.cases: dict[str, Case] = {}

    def argument(self, sample: Sample) -> Any:
        return self._app.argument(sample)

    async def __call__(self, sample: Sample, block: RequestBlock) -> str:
        case_id, _, name = sample.id.rpartition("#")
        intervention = BY_NAME.get(name, CONTROL)
        case = self.cases.get(case_id, Case(sample=sample))
        change = RetrievalChange(
            lambda texts, dropped: intervention.plan(case, texts, dropped),
            widens=intervention.widens,
            note=lambda texts: block.found(texts, name="repair"),
        )
        self.recorder.changes[block.trace_id or ""] = change
        with changed_retrieval(change):
            return await self._app(sample, block)


@takes_settings(**_KEYS)
async def arepair(
    data: SampleSource,
    metrics: Sequence[str | Metric] | str = ("ccrs",),
    *,
    app: object,
    hook: str | None = None,
    judge: JudgeSpec = None,
    reader: ReaderSpec = None,
    embedder: EmbedderSpec = None,
    repeats: int = 5,
    retriever_tools: RetrieverTools | Sequence[str] = (),
    concurrency: int = 16,
    max_outage_s: float = 300.0,
    app_concurrency: int = 8,
    app_timeout_s: float = 120.0,
    stop_early: bool = True,
    seed: int = 0,
    refusals: Sequence[str] = (),
    prompts: Mapping[str, str] | None = None,
    confidence_level: float = CONFIDENCE_LEVEL,
    output: str | os.PathLike[str] | None = None,
    on_plan: Callable[[int, int], None] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> RepairTrial:
    """Ask wrong answers again while retrieval is changed, and estimate what each change corrects.

    A row is wrong if the metrics say so of its response, or of a first answer if it has none. Each wrong answer is
    asked for again once without a change (the control) and under at most `repeats` - 1 interventions, drawn at random.

    Args:
        data: As for `evaluate`. Known texts in a column `reference_contexts` are reference passages, labels of passages
            say which are relevant, and a column `weight` is the number of requests that a row stands for.
        metrics: Names, groups or metric objects that decide whether an answer is wrong. With "udcg", its utilities say
            which passage is best.
        app: As for `evaluate`. What retrievers of LangChain and LlamaIndex return is changed while the application runs.
        hook: "MODULE:NAME" of the function that retrieves, for applications without these retrievers: it returns a list
            of texts, mappings or objects with a text. It is replaced in MODULE, so name the module that calls it.
        judge: As for `evaluate`.
        reader: As for `evaluate`.
        embedder: As for `evaluate`.
        repeats: Calls of the application for each wrong answer, at least 2.
        retriever_tools: As for `evaluate`.
        concurrency: Number of answers scored concurrently.
        max_outage_s: As for `evaluate`.
        app_concurrency: Number of concurrent calls of the application.
        app_timeout_s: Seconds after which a call of the application fails.
        stop_early: Stop if the application fails on each of the first 10 calls, the judge fails systematically, or the
            order of the repairs is clear after half of the calls.
        seed: Seed of the order and of the assigned interventions.
        refusals: As for `evaluate`.
        prompts: As for `evaluate`.
        confidence_level: Confidence level of the intervals, in (0, 1). It holds whether or not the trial ends early.
        output: JSON file for the result. An interrupted trial resumes with the same file.
        on_plan: Called with the numbers of wrong answers and of calls before they are made.
        progress: As for `evaluate`.
    """
    check_level(confidence_level)
    if repeats < 2:
        raise ConfigurationError(f"repeats must be at least 2 (a control and an intervention), got {repeats}")
    rows = list(iter_samples(data, []))
    inner, recorder = app_call(app), _Recorder(retriever_tools)
    asked = [row for row in rows if inner.argument(row) is not None]
    if not asked:
        raise DataError(
            f"none of {count(len(rows), 'row')} has a question, so nothing can be asked. If texts were removed from "
            "the store, draw cases from newer requests"
        )
    with own_refusals(refusals), own_prompts(prompts or {}):
        setup = open_setup(
            metrics, judge=judge, reader=reader, embedder=embedder, limits=Limits(concurrency=concurrency)
        )
    trial = _Trial(
        setup.scorer,
        _ChangedCall(inner, recorder),
        KeptOutcomes(output),
        SavedRuns(None if output is None else f"{os.fspath(output)}.answers"),
        progress,
        {"concurrency": app_concurrency, "timeout_s": app_timeout_s, "stop_early": stop_early},
    )
    async with setup:
        with wait_for_outages(max_outage_s), own_refusals(refusals), ExitStack() as stack:
            await setup.scorer.prepare()
            stack.enter_context(closing(trial.kept))
            identity = run_identity(setup.scorer, asked, f"repair {inner.name}", repeats)
            trial.kept.open(identity)
            if hook is not None:
                stack.enter_context(changed_function(hook))
            stack.enter_context(framework_capture(recorder, app))
            await trial.find_wrong(asked)
            cases = list(trial.wrong)
            rng = random.Random(seed)  # noqa: S311 - no secret
            rng.shuffle(cases)
            if on_plan is not None:
                on_plan(len(cases), len(cases) * repeats)
            middle = (len(cases) + 1) // 2
            looks_early = stop_early and len(cases) >= _EARLY
            level = 1 - (1 - confidence_level) / 2  # for two looks, and for the choice of the best repair
            places = [0, _PROBE, *([middle] if looks_early else []), len(cases)]
            for start, end in itertools.pairwise(places):
                if trial.n_over_budget:
                    break
                hopeless = {share.name for share in trial.shares(level) if share.is_hopeless}
                await trial.ask(cases[start:end], assign(cases[start:end], repeats - 1, rng, hopeless), rng)
                trial.check_retrieval(hook)
                if looks_early and end == middle and is_order_clear(trial.shares(level)):
                    trial.stopped = "clear"
                    break
        result = trial.result(
            level,
            app=inner.name,
            judge=setup.judge.identity.name,
            n_rows=len(rows),
            n_without_question=len(rows) - len(asked),
            confidence_level=confidence_level,
            where=", or ".join({where: None for row in asked if (where := (case_of(row) or {}).get("where"))}) or None,
            metrics={name: (version, judged_by) for name, version, judged_by in identity.metrics},
            finished_at=time.time(),
        )
        result = replace(result, kept=keep_trial(result, asked))
        if output is not None:
            write_output(output, json.dumps(result.to_dict(), indent=2, ensure_ascii=False) + "\n")
        if not trial.n_over_budget:
            trial.kept.finish()
            trial.saved.finish()
        return result


repair = takes_settings(**_KEYS)(synchronous(arepair, name="repair"))
"""Ask wrong answers again while retrieval is changed. The synchronous form of `arepair`."""


@dataclass(slots=True)
class _Trial:
    """What a trial has asked so far."""

    scorer: Scorer
    call: _ChangedCall
    kept: KeptOutcomes
    saved: SavedRuns
    progress: Callable[[int, int], None] | None
    options: Mapping[str, Any]
    wrong: list[Case] = field(default_factory=list)
    asked: list[dict[str, Answer]] = field(default_factory=list)
    weights: list[float] = field(default_factory=list)
    basis: Counter[str] = field(default_factory=Counter)
    n_right: int = 0
    n_undecided: int = 0
    n_passed: int = 0
    n_over_budget: int = 0
    stopped: str = ""

    async def find_wrong(self, rows: Sequence[Sample]) -> None:
        """Judge the answers of the rows, and ask for those that are missing."""
        rows = sorted(rows, key=lambda row: row.response is None)
        answered = [row for row in rows if row.response is not None]
        scored = await score_rows(self.scorer, answered, self.kept, self._reports(len(answered)))
        self.note_budget(scored)
        first = await self._score([_row(row, "first") for row in rows[len(answered) :]])
        for row, (sample, outcomes) in zip(rows, [*_groups(scored), *_groups(first)], strict=True):
            is_right, basis = _judged(sample, outcomes)
            self.n_right += is_right is True
            self.n_undecided += is_right is None
            self.n_passed += is_right is True and (case_of(row) or {}).get("is_wrong") is True
            if is_right is False:
                self.basis[basis or ""] += 1
                self.wrong.append(make_case(sample.model_copy(update={"id": row.id}), outcomes))

    def note_budget(self, scored: ScoredApp) -> None:
        """Count what was not judged because the budget is exhausted."""
        self.n_over_budget += sum(isinstance(o, Failure) and o.kind == "budget" for o in scored.outcomes)

    async def ask(self, cases: Sequence[Case], assigned: Sequence[Mapping[str, float]], rng: random.Random) -> None:
        """Ask for some wrong answers again, in random order, each under its interventions and without a change."""
        self.call.cases |= {case.sample.id: case for case in cases}
        calls = [(case, name) for case, names in zip(cases, assigned, strict=True) for name in (CONTROL.name, *names)]
        rng.shuffle(calls)
        scored = await self._score([_row(case.sample, name) for case, name in calls])
        answers: dict[str, dict[str, Answer]] = {case.sample.id: {} for case in cases}
        probabilities = {case.sample.id: names for case, names in zip(cases, assigned, strict=True)}
        for (case, name), trace, (sample, outcomes) in zip(calls, scored.traces, _groups(scored), strict=True):
            id_ = case.sample.id
            answers[id_][name] = (
                Answer(None, "failed", reason=trace.error)
                if trace.status == "error"
                else Answer(_judged(sample, outcomes)[0], state_of(trace), probabilities[id_].get(name, 1.0))
            )
        self.asked += answers.values()
        self.weights += [case.weight for case in cases]

    def check_retrieval(self, hook: str | None) -> None:
        """Raise ConfigurationError if no call of the application retrieved in a way that can be changed."""
        states = {answer.state for asked in self.asked for answer in asked.values()}
        if states and states <= {"not_retrieved", "failed"} and "not_retrieved" in states:
            raise ConfigurationError(
                f"the application does not call {hook!r}. Name the function in the module that calls it, as in "
                "rag.chain:retrieve for `from rag.search import retrieve` in rag/chain.py"
                if hook
                else "the application calls no retriever of LangChain or LlamaIndex, so nothing can be changed. Name its "
                "function that retrieves: hook='rag.chain:retrieve' (--hook rag.chain:retrieve)"
            )

    def shares(self, level: float) -> list[RepairShare]:
        """Estimate what each intervention corrects."""
        return repair_shares(self.asked, self.weights, level)

    def result(self, level: float, **facts: Any) -> RepairTrial:
        """Return the result of all that was asked."""
        reasons = Counter(answer.reason for case in self.asked for answer in case.values() if answer.reason)
        asked = self.asked, self.weights
        return RepairTrial(
            **facts,
            n_right=self.n_right,
            n_undecided=self.n_undecided,
            n_wrong=len(self.wrong),
            n_asked=len(self.asked),
            n_calls=sum(map(len, self.asked)),
            n_judged_before=self.n_passed,
            basis=dict(self.basis),
            luck=answer_share(*asked, CONTROL.name, level, is_right=True),
            wrong_with_references=answer_share(*asked, "reference_passages", level, is_right=False),
            shares=tuple(self.shares(level)),
            stopped="budget" if self.n_over_budget else self.stopped,
            failures=dict(reasons.most_common(_REASONS_SHOWN)),
        )

    async def _score(self, rows: Sequence[Sample]) -> ScoredApp:
        if not rows:
            return ScoredApp((), (), ())
        runner = AppRunner(self.call, rows, recorder=self.call.recorder, saved=self.saved, repeats=1, **self.options)
        async with runner:
            scored = await score_app(runner, self.scorer, rows, self.kept, self._reports(len(rows)))
        self.note_budget(scored)
        return scored

    def _reports(self, total: int) -> Progress:
        report = Progress(total, self.progress, None, stop_early=bool(self.options["stop_early"]))
        report.show()
        return report


def _row(sample: Sample, name: str) -> Sample:
    return sample.model_copy(update={"id": f"{sample.id}#{name}"})


def _groups(scored: ScoredApp) -> Iterator[tuple[Sample, Sequence[Outcome]]]:
    n = len(scored.outcomes) // max(1, len(scored.samples))
    for place, sample in enumerate(scored.samples):
        yield sample, scored.outcomes[place * n : (place + 1) * n]


def _judged(sample: Sample, outcomes: Sequence[Outcome]) -> tuple[bool | None, str | None]:
    """Return whether an answer is right, as the report decides it, and what decides. None if it is not known."""
    signals = Signals()
    note_sample(signals, sample)
    for outcome in outcomes:
        note_outcome(signals, outcome, None)
    basis = signals.decided_by if signals.n_scores else None
    return None if basis is None else find_cause(signals) not in WRONG, basis
