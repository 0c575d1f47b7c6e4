"""The experiments of the UDCG paper on a user's own data, with a journal of model replies."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from ragstone.errors import ConfigurationError
from ragstone.extension import write_output
from ragstone.judges import Judge, Reader, describe_missing, judge_from
from ragstone.metrics import save_gamma
from ragstone.reading import SampleSource
from ragstone.scoring import run_async
from ragstone_lab._journal import JOURNAL, Journal
from ragstone_lab._run import RESULT, Run, RunResult, folder_of, gathered, json_lines
from ragstone_lab._udcg.ask import Models, is_model_configured, open_readers
from ragstone_lab._udcg.experiment.answers import Runner, run_distractors, run_judges, run_orders, run_position
from ragstone_lab._udcg.experiment.correlations import (
    ablation_tables,
    answer_prob_table,
    collect_contexts,
    correlation_table,
    k_tables,
    read_answer_probs,
)
from ragstone_lab._udcg.experiment.plan import ExperimentPlan, check_parts, plan_calls
from ragstone_lab._udcg.experiment.questions import Question, Questions, Retriever, check_relevance, choose_questions
from ragstone_lab._udcg.experiment.settings import CORRELATED, ExperimentSettings, parts_from
from ragstone_lab._udcg.experiment.tables import ReaderRun, ResultTable, merge_tables, wrap_lines

_CONTEXTS: Final = "contexts.jsonl"
_GAMMA: Final = "gamma.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class UdcgExperiment(RunResult):
    """Tables of an experiment."""

    tables: tuple[ResultTable, ...]
    settings: ExperimentSettings
    n_questions: int
    reader: str
    judge: str
    grades: Mapping[str, Mapping[str, int]]
    """Number of different answers by who graded them, and by grade."""
    runs: tuple[ReaderRun, ...] = ()
    """The experiment of each reader on each data set, if there are several. `tables` are then the merged ones."""

    def __str__(self) -> str:
        lines = [
            f"reader: {self.reader}, judge: {self.judge}",
            f"{self.n_questions} questions, seed {self.settings.seed}",
            *self.run_lines(),
        ]
        return "\n\n".join([*map(str, self.tables), "\n".join(wrap_lines(lines))])


def plan_udcg_experiment(
    data: SampleSource | Mapping[str, SampleSource],
    output_dir: str | Path | None = None,
    *,
    parts: str | Sequence[str] | None = None,
    retriever: Retriever | None = None,
    n_judges: int = 1,
    n_readers: int = 1,
    calls_per_reading: int = 1,
    **settings: Any,
) -> ExperimentPlan:
    """Plan an experiment: the questions that can take part, and the maximum number of calls. No model is called.

    Args:
        data: As for `run_udcg_experiment`.
        output_dir: Directory of an earlier run, whose recorded replies are counted.
        parts: As for `run_udcg_experiment`.
        retriever: As for `run_udcg_experiment`. It is called.
        n_judges: Number of judges for the part "judges".
        n_readers: Number of readers.
        calls_per_reading: Requests for one p(abstain): 1 if the endpoint returns probabilities, else the number of
            draws.
        **settings: Settings of `run_udcg_experiment`.

    Raises:
        ConfigurationError: If a setting is invalid.
        DataError: If a row is invalid, or a part does not have a question.

    Examples:
        ```python
        print(plan_udcg_experiment("questions.jsonl", k=5))
        ```
    """
    wanted = ExperimentSettings(parts=parts_from(parts), **settings)
    path = None if output_dir is None else Path(output_dir) / JOURNAL
    with Journal(path if path is not None and path.is_file() else None) as journal:
        chosen = run_async(_choose(data, wanted, retriever, journal))
        counts = {"n_judges": n_judges, "calls_per_reading": calls_per_reading, "n_readers": n_readers}
        return plan_calls(chosen.values(), wanted, journal, **counts)


def run_udcg_experiment(
    data: SampleSource | Mapping[str, SampleSource],
    output_dir: str | Path,
    *,
    parts: str | Sequence[str] | None = None,
    retriever: Retriever | None = None,
    reader: str | Reader | Mapping[str, str | Reader] | None = None,
    judge: str | Judge | None = None,
    second_judge: str | Judge | None = None,
    k: int = 5,
    top_n: int = 25,
    max_questions: int = 100,
    n_contexts: int = 10,
    k_values: Sequence[int] = (1, 2, 3, 5),
    n_distractors: int | None = None,
    weak_below: float = 0.2,
    hard_above: float = 0.8,
    gamma: float = 1 / 3,
    erag: bool = True,
    threshold: float | None = None,
    seed: int = 0,
    concurrency: int = 16,
    stop_early: bool = True,
    on_plan: Callable[[ExperimentPlan], None] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> UdcgExperiment:
    """Run the experiments of the UDCG paper on your own questions, passages and models.

    Every reply is written to a journal in `output_dir` before it is used. After an interruption the same call continues
    without repeating calls. `output_dir` also receives `result.json`, and `contexts.jsonl` with the sampled contexts,
    which `fit_udcg` and `correlate_udcg` read. `gamma.json` has the weight of distraction that the part "ablation"
    finds, for `udcg@gamma=FILE`. With several readers or data sets, each has a directory of its own for these two files.

    Args:
        data: Rows with `query`, `reference` and `contexts`: the ranked list of candidates, with `relevance` if known.
            Several data sets: a mapping of names to them.
        output_dir: Directory of the journal and the results.
        parts: Names of parts, also as one text with commas: "position", "k", "distractors", "orders", "correlation",
            "ablation", "answer-prob", "judges". None runs all except the last two, which need exact probabilities and
            (without labels in the data) two judges.
        retriever: Function of the query that returns the ranked list of passages. Then rows do not need `contexts`.
        reader: The application's generator, as for `fit_udcg`. Several: a mapping of names to them, with a judge.
        judge: Judge of answers, and of passages without a label.
        second_judge: Another judge for the part "judges".
        k: Number of passages in a context.
        top_n: Number of candidates of a question, from the start of the ranked list.
        max_questions: Maximum number of questions, chosen at random.
        n_contexts: Number of sampled contexts per question. Half of them have a relevant passage.
        k_values: Numbers of passages of the part "k".
        n_distractors: Number of distractors of the part "distractors". None means k - 1.
        weak_below: Distracting effect below which a distractor is weak.
        hard_above: Distracting effect above which a distractor is hard.
        gamma: Weight of distraction in UDCG.
        erag: Also let the reader answer from each candidate alone.
        threshold: Smallest grade that means relevant. None requires labels 0 and 1.
        seed: Seed of samples and folds.
        concurrency: Number of concurrent model calls.
        stop_early: Stop if a model fails systematically.
        on_plan: Called with the plan before the first model call.
        progress: Called with (answered calls, planned calls).

    Raises:
        ConfigurationError: If a setting is invalid, no model is named, or the journal is in use.
        DataError: If a row is invalid, no candidate is relevant, or no question can take part in a part.
        JudgeError: If a model is unavailable or fails systematically, or all calls fail.

    Source:
        UDCG, sections 3 and 7, appendices B, C and E. Unlike the paper, weights are fitted and tested by
        cross-validation over the questions.

    Examples:
        ```python
        print(run_udcg_experiment("questions.jsonl", "experiment", reader="http://localhost:8000/v1"))
        ```
    """
    settings = ExperimentSettings(
        parts=parts_from(parts), k=k, top_n=top_n, max_questions=max_questions, n_contexts=n_contexts,
        k_values=tuple(sorted(set(k_values))), n_distractors=n_distractors, weak_below=weak_below, hard_above=hard_above,
        gamma=gamma, erag=erag, threshold=threshold, seed=seed,
    )  # fmt: skip
    readers = reader if isinstance(reader, Mapping) else {"": reader}
    if not is_model_configured(next(iter(readers.values()), None), judge):
        raise ConfigurationError(describe_missing("reader", ["the experiment"]))
    folder = folder_of(output_dir)

    async def work() -> UdcgExperiment:
        with Journal(folder / JOURNAL) as journal:
            chosen = await _choose(data, settings, retriever, journal)
            questions = [question for each in chosen.values() for question in each.chosen]
            judges = _check_judges(questions, settings, second_judge)
            counts = {"n_judges": 1 + len(judges), "n_readers": len(readers), "calls_per_reading": 1}
            plan = plan_calls(chosen.values(), settings, journal, **counts)
            if on_plan is not None:
                on_plan(plan)

            def show(n_done: int, *, is_end: bool = False) -> None:
                # The plan counts the maximum, so the end sets the total.
                if progress is not None and n_done:
                    progress(n_done, n_done if is_end else max(plan.usage.calls, n_done + 1))

            async with Run(journal, concurrency=concurrency, stop_early=stop_early, on_answer=show) as run:
                opened, asked_judge = await open_readers(run, [*readers.values()], judge)
                others = [await run.add_judge(other, second_judge) for other in judges]
                runs = []
                try:
                    for (name, asked_reader), data_name in itertools.product(zip(readers, opened, strict=True), chosen):
                        asker = Models(run, asked_reader, asked_judge, labels="data", threshold=settings.relevant_grade)
                        names, is_only = (name, data_name), len(readers) == len(chosen) == 1
                        # Names may be URLs and paths.
                        path = folder / "--".join(quote(part, safe="") for part in names if part and not is_only)
                        runs.append(await _run(chosen[data_name], settings, asker, others, folder_of(path), names))
                finally:
                    show(run.n_answered, is_end=True)
                return _result(run, settings, runs, folder, asked_judge.identity.name)

    return run_async(work())


def _check_judges(
    questions: Sequence[Question], settings: ExperimentSettings, second_judge: str | Judge | None
) -> list[Judge]:
    if second_judge is None:
        if "judges" in settings.parts and not all(question.is_labeled for question in questions):
            raise ConfigurationError(
                "part judges compares two sources of labels, and the data does not have labels. Set second_judge= "
                "(research.second_judge), or omit the part"
            )
        return []
    if "judges" not in settings.parts:
        raise ConfigurationError("second_judge is only used by the part judges. Add it to parts, or omit second_judge")
    return [judge_from(second_judge)]


async def _choose(
    data: SampleSource | Mapping[str, SampleSource],
    settings: ExperimentSettings,
    retriever: Retriever | None,
    journal: Journal,
) -> dict[str, Questions]:
    """Choose the questions of each data set."""
    sets = data if isinstance(data, Mapping) else {"": data}
    return {name: await choose_questions(source, settings, retriever, journal) for name, source in sets.items()}


async def _run(
    chosen: Questions,
    settings: ExperimentSettings,
    asker: Models,
    judges: Sequence[Judge],
    folder: Path,
    names: tuple[str, str],
) -> ReaderRun:
    """Run all parts for one reader and one data set, with these names."""
    runner = Runner(settings, asker)
    parts = settings.parts
    questions = await _labeled(runner, chosen.chosen)
    tables: list[ResultTable] = []
    if "answer-prob" in parts:
        # One call shows whether the reader supports this part, before others are made.
        await read_answer_probs(runner, [(question, (0,)) for question in questions[:1]])
    if "position" in parts:
        tables.append(await run_position(runner, questions))
    by_k = {}
    if "k" in parts:
        for k in settings.k_values:
            by_k[k] = await collect_contexts(runner, questions, k=k, part="k")
        tables += k_tables(runner, list(by_k.values()))
    if "distractors" in parts:
        tables.append(await run_distractors(runner, questions))
    if "orders" in parts:
        tables += await run_orders(runner, questions)
    if correlated := [part for part in CORRELATED if part in parts]:
        collected = by_k.get(settings.k) or await collect_contexts(runner, questions, k=settings.k, part=correlated[0])
        write_output(folder / _CONTEXTS, json_lines(collected.rows))
        if collected.contexts and "correlation" in parts:
            tables.append(correlation_table(runner, collected))
        if collected.contexts and "ablation" in parts:
            tables += ablation_tables(runner, collected)
            if "gamma" in (found := tables[-1].facts):
                save_gamma(folder / _GAMMA, found["gamma"], reader=asker.reader.identity.name, data=names[1])
        if collected.contexts and "answer-prob" in parts:
            probs = await read_answer_probs(runner, collected.places)
            tables.append(answer_prob_table(runner, collected, probs))
    if "judges" in parts:
        has_labels = all(question.is_labeled for question in chosen.chosen)
        tables.append(await run_judges(runner, questions, [asker.judge, *judges], has_labels=has_labels))
    return ReaderRun(
        reader=names[0] or asker.reader.identity.name,
        data=names[1] or "data",
        tables=tuple(tables),
        n_questions=len(questions),
        grades=asker.grades(),
        notes=(
            *asker.notes(),
            *asker.grade_notes(),
            *(f"questions without labels: {note}" for note in runner.excluded("labels")),
        ),
    )


def _result(
    run: Run, settings: ExperimentSettings, runs: Sequence[ReaderRun], folder: Path, judge: str
) -> UdcgExperiment:
    """Merge the runs, and save the result."""
    if run.errors and not run.n_answered:
        raise run.errors[0]
    first, is_only = runs[0], len(runs) == 1
    grades: dict[str, Counter[str]] = {}
    for one in runs:
        for by, counts in one.grades.items():
            grades.setdefault(by, Counter()).update(counts)
    result = UdcgExperiment(
        tables=first.tables if is_only else merge_tables(runs),
        settings=settings,
        n_questions=sum({one.data: one.n_questions for one in runs}.values()),
        reader=", ".join(dict.fromkeys(one.reader for one in runs)),
        judge=judge,
        grades=grades,
        notes=tuple(note if is_only else f"{one.reader}, {one.data}: {note}" for one in runs for note in one.notes),
        runs=() if is_only else tuple(runs),
        **run.values(),
    )
    write_output(folder / RESULT, json.dumps(result.to_dict(), ensure_ascii=False, indent=1))
    return result


async def _labeled(runner: Runner, questions: Sequence[Question]) -> list[Question]:
    """Let the judge label candidates without a label, and check that the parts are still possible."""

    async def work(question: Question) -> Question:
        async def label(place: int) -> bool:
            known = question.labels[place]
            if known is not None:
                return known
            return await runner.asker.is_relevant(question.sample, question.candidates[place])

        labels = await gathered(label(place) for place in range(len(question.candidates)))
        return question.with_labels(labels, relevant_grade=runner.settings.relevant_grade)

    if all(question.is_labeled for question in questions):
        return list(questions)
    labeled = [question for _, question in await runner.each("labels", questions, work)]
    if labeled:
        check_relevance(labeled)
        check_parts(labeled, runner.settings)
    return labeled
