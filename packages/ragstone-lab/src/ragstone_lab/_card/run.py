"""`judge_card`: scores the samples of a plan under all conditions, with each judge."""

from __future__ import annotations

import json
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from ragstone.errors import ConfigurationError, JudgeError
from ragstone.experiments import Experiment, aevaluate, check_level
from ragstone.extension import write_output
from ragstone.judges import Judge, MissingModel, describe_missing, judge_from, repeat_replies
from ragstone.metrics import Metric
from ragstone.reading import SampleSource
from ragstone.schema import Failure, Outcome
from ragstone.scoring import run_async
from ragstone.settings import check
from ragstone_lab._card.build import build_card
from ragstone_lab._card.conditions import DEFAULT_CONDITIONS, Run, judge_of
from ragstone_lab._card.plan import CardPlan, plan_judge_card
from ragstone_lab._card.report import JudgeCard
from ragstone_lab._journal import JOURNAL, Journal
from ragstone_lab._run import RESULT, JournaledJudge, folder_of
from ragstone_lab._run import Run as JournaledRun
from ragstone_lab._validation.agreement import LabelOptions


def judge_card(
    labels: SampleSource,
    data: SampleSource | None = None,
    *,
    judge: str | Judge | Sequence[str | Judge],
    metrics: str | Metric | Sequence[str | Metric] | None = None,
    conditions: Sequence[str] = DEFAULT_CONDITIONS,
    repeats: int = 2,
    max_crossed: int = 50,
    label_columns: Sequence[str] = (),
    label_range: tuple[float, float] | None = None,
    label_values: Sequence[str] = (),
    threshold: float | None = None,
    flip_threshold: float = 0.1,
    fields: Mapping[str, str] | None = None,
    n_resamples: int = 2000,
    confidence_level: float = 0.95,
    seed: int = 0,
    concurrency: int = 16,
    deadline_s: float | None = None,
    max_outage_s: float = 300.0,
    stop_early: bool = True,
    progress: Callable[[int, int], None] | None = None,
    on_outcomes: Callable[[Sequence[Outcome]], None] | None = None,
    output_dir: str | Path | None = None,
) -> JudgeCard:
    """Measure from human labels how far the scores of judges can be trusted.

    Each judge scores all samples once. On at most `max_crossed` labeled samples, it also scores under each condition:
    with two paraphrases of every task, with the passages in two other orders, again, and with its reasons first. The
    wordings are crossed with samples, judges and repeats, so that the variance can be split.

    Args:
        labels: Human labels, as for `validate_metrics`: 50 to 200 are recommended.
        data: Samples to score, of which the labeled ones should be a random sample. Samples without a label are used
            for the estimated human mean only. None: the rows of `labels` are the samples.
        judge: One or several judges, each in a form of `evaluate`.
        metrics: Names, groups or metric objects that call the judge. None: those that the labels name, otherwise "ccrs".
        conditions: Names out of "wording", "order", "repeats" and "reasoned".
        repeats: Number of times that the usual wording and each paraphrase are scored.
        max_crossed: Maximum number of labeled samples that are scored under the conditions, drawn with `seed`.
        label_columns: Columns of labels, as for `validate_metrics`.
        label_range: Lowest and highest possible label, as for `validate_metrics`.
        label_values: Labels that are texts, as for `validate_metrics`.
        threshold: Score from which a sample is positive, for yes/no labels.
        flip_threshold: Two scores of a sample differ if their difference is above this share of the metric's range.
        fields: The data's column names by Ragstone's field names, for unknown column names.
        n_resamples: Number of bootstrap resamples.
        confidence_level: Confidence level of all intervals.
        seed: Seed of all random numbers.
        concurrency: Number of samples scored concurrently.
        deadline_s: Seconds after which a sample's unfinished metrics fail. Default: 120 after the last call.
        max_outage_s: Seconds to wait for a judge that is unavailable.
        stop_early: Stop if a judge fails systematically.
        progress: Called with (finished samples, all samples). A sample counts once in each run of each judge.
        on_outcomes: Called with the outcomes of each sample.
        output_dir: Directory of the journal of all replies and of `result.json`. After an interruption the same call
            resumes in it without repeating answered calls. None: nothing is kept.

    Raises:
        ConfigurationError: If no judge is named, a judge, metric or condition is unknown, a judge is given twice, or an option is out of range.
        DataError: If rows or labels are invalid, labels do not match any sample, or a metric has fewer than 10 labels.
        JudgeError: If a judge is unavailable, or fails systematically.

    Source:
        Agreement: see `validate_metrics`. Variance: `ragstone.stats.split_variance`.

    Examples:
        ```python
        card = judge_card("labels.csv", "samples.jsonl", judge=["http://localhost:8000/v1", "openai:gpt-4o-mini"])
        print(card)
        ```
    """
    check_level(confidence_level)
    check("analysis", "judge_card", n_resamples=n_resamples)
    check("research", "judge_card", flip_threshold=flip_threshold)
    given = [judge] if isinstance(judge, str | Judge) else list(judge)
    judges = _read_judges(given)
    plan = plan_judge_card(
        labels, data, metrics=metrics, conditions=conditions, repeats=repeats, max_crossed=max_crossed,
        label_columns=label_columns, label_range=label_range, label_values=label_values, fields=fields, seed=seed,
        n_judges=len(judges),
    )  # fmt: skip
    options = LabelOptions(
        label_range=label_range, threshold=threshold, n_resamples=n_resamples, confidence_level=confidence_level,
        seed=seed,
    )  # fmt: skip
    for each in judges:
        for run in plan.runs:
            judge_of(each, run)
    folder = None if output_dir is None else folder_of(output_dir)
    score = partial(
        aevaluate, concurrency=concurrency, deadline_s=deadline_s, max_outage_s=max_outage_s, stop_early=stop_early,
        cluster=None, on_outcomes=on_outcomes,
    )  # fmt: skip

    async def work() -> JudgeCard:
        with Journal(None if folder is None else folder / JOURNAL) as journal:
            # `aevaluate` limits the samples at once, waits for models and stops early.
            async with JournaledRun(journal, concurrency=sys.maxsize, stop_early=False, waits=True) as called:
                for each, spec in zip(judges, given, strict=True):
                    await called.add_judge(each, spec)
                scored = await _score_all(plan, judges, called, score, progress, max_outage_s)
            card = build_card(plan, scored, options, flip_threshold=flip_threshold, called=called.values())
            if folder is not None:
                write_output(folder / RESULT, json.dumps(card.to_dict(), ensure_ascii=False, indent=1))
            return card

    return run_async(work())


def _read_judges(given: Sequence[str | Judge]) -> list[Judge]:
    """Create the judges."""
    if not given:
        raise ConfigurationError("a judge card needs at least one judge. Name it with judge= (--judge)")
    judges = [judge_from(spec) for spec in given]
    if any(isinstance(each, MissingModel) for each in judges):
        raise ConfigurationError(describe_missing("judge", ["a judge card"]))
    seen: set[tuple[str, str]] = set()
    for spec, each in zip(given, judges, strict=True):
        name = each.identity.name
        if (name, each.identity.hash) in seen:
            raise ConfigurationError(
                f"the judge {spec if isinstance(spec, str) else name!r} is given twice. Name each judge once; "
                "--repeats N scores several times with one judge"
            )
        seen.add((name, each.identity.hash))
    return judges


async def _score_all(
    plan: CardPlan,
    judges: Sequence[Judge],
    called: JournaledRun,
    score: Callable[..., Awaitable[Experiment]],
    progress: Callable[[int, int], None] | None,
    max_outage_s: float,
) -> list[tuple[Judge, dict[Run, Experiment]]]:
    """Score all runs of all judges. After a budget is exhausted, the rest is not scored."""
    n_done = 0

    def show(n: int, _: int) -> None:
        if progress is not None:
            progress(n_done + n, plan.n_scored)

    scored: list[tuple[Judge, dict[Run, Experiment]]] = [(judge, {}) for judge in judges]
    for judge, runs in scored:
        for run in plan.runs:
            if not (samples := plan.samples_of(run)):
                continue
            asked = JournaledJudge(judge_of(judge, run), called, run.name, run.repeat)
            with repeat_replies(run.repeat):
                done = await score(samples, plan.metrics, judge=asked, progress=show)
            if done.judge_unavailable:
                raise JudgeError(
                    f"the judge {done.judge.name} did not answer for longer than max_outage_s={max_outage_s:g} "
                    "(limits.max_outage_s). When it is available, run the same command again. With an output directory "
                    "it does not repeat answered calls",
                    kind="unavailable",
                )
            runs[run] = done
            n_done += len(samples)
            if any(isinstance(o, Failure) and o.kind == "budget" for o in done.outcomes):
                return scored
    return scored
