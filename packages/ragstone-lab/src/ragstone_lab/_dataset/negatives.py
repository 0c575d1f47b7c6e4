"""`build_negatives`: writes queries that the documents do not answer, for `topicality`."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ragstone.errors import ConfigurationError, JudgeError
from ragstone.extension import count
from ragstone.judges import Judge
from ragstone.metrics.crux import ETA, rate_answerability
from ragstone.scoring import run_async
from ragstone.settings import check
from ragstone_lab._dataset.documents import Span, SpanIndex, read_documents, spans_of
from ragstone_lab._dataset.plan import Paths, paths_of
from ragstone_lab._dataset.prompts import distinct_questions, negatives_prompt, questions_shape
from ragstone_lab._dataset.review import edited, write_watched
from ragstone_lab._journal import JOURNAL, Journal
from ragstone_lab._run import PASSING, JournaledJudge, Run, RunResult, folder_of, gathered, json_lines, need_model

QUERIES: Final = "queries.jsonl"
_BATCH: Final = 10
"""Queries per call that writes."""
_SPARE: Final = 2
"""Factor by which more queries may be written than are kept, because repeated and answered ones are dropped."""
_EXCERPTS: Final = 8
_EXCERPT_CHARS: Final = 300
_SHOWN: Final = 60
"""Number of earlier queries in the prompt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NegativesPlan:
    """The plan of negative queries."""

    n_documents: int
    spans: tuple[Span, ...]
    """Passages of the documents."""
    n_queries: int
    max_passages: int
    left_out: tuple[str, ...] = ()
    """Skipped files, with reasons."""

    @property
    def rounds(self) -> int:
        """Maximum number of calls that write queries."""
        return math.ceil(_SPARE * self.n_queries / _BATCH)

    @property
    def calls(self) -> int:
        """Maximum number of judge calls: those that write, and one for each passage that is checked for a round's queries."""
        return self.rounds * (1 + min(_BATCH * self.max_passages, len(self.spans)))

    def __str__(self) -> str:
        return (
            f"{self.n_queries} queries that {self.n_documents} documents ({len(self.spans)} passages) do not answer: "
            f"at most {count(self.calls, 'judge call')}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "n_documents": self.n_documents,
            "n_passages": len(self.spans),
            "n_queries": self.n_queries,
            "calls": self.calls,
            "left_out": list(self.left_out),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class NegativeQueries(RunResult):
    """Written queries."""

    path: Path
    """The file of the queries."""
    plan: NegativesPlan
    rows: tuple[dict[str, Any], ...]
    n_repeated: int
    """Number of queries that were dropped because they repeat another."""
    n_answered: int
    """Number of queries that were dropped because a passage answers them."""

    def __str__(self) -> str:
        lines = [
            f"{len(self.rows)} of {self.plan.n_queries} queries in {self.path}",
            f"dropped queries: {self.n_answered} that a passage answers, {self.n_repeated} repeated",
            *self.run_lines(),
        ]
        return "\n".join(lines)


def plan_negatives(documents: Paths, *, queries: int = 100, max_passages: int = 3) -> NegativesPlan:
    """Read the documents and plan negative queries, without calling the judge.

    Args:
        documents: Files and directories of the corpus: text, Markdown, or JSONL with `id` and `text`.
        queries: Number of queries.
        max_passages: Number of passages that are checked for an answer to each query.

    Raises:
        ConfigurationError: If a path does not exist or a number is below 1.
        DataError: If a file cannot be read.

    Examples:
        ```python
        print(plan_negatives("handbook/", queries=50))
        ```
    """
    check("research", "plan_negatives", queries=queries, max_passages=max_passages)
    read, left_out = read_documents(paths_of(documents))
    spans = tuple(span for document in read for span in spans_of(document))
    return NegativesPlan(
        n_documents=len(read), spans=spans, n_queries=queries, max_passages=max_passages, left_out=left_out
    )


def build_negatives(
    documents: Paths,
    output_dir: str | Path,
    *,
    judge: str | Judge | None = None,
    queries: int = 100,
    max_passages: int = 3,
    rating_threshold: float = ETA,
    concurrency: int = 8,
    stop_early: bool = True,
    progress: Callable[[int, int], None] | None = None,
) -> NegativeQueries:
    """Let the judge write queries on other subjects that the documents do not answer.

    These are the negative queries of `topicality`: your application answers them like those of your domain. The judge
    writes ten at a time after reading excerpts of the documents and the earlier queries. It then rates the passages
    with the largest word overlap for each query. Queries that a passage answers, and those that repeat another, are dropped.

    `queries.jsonl` in `output_dir` has a row with `id` and `query` for each, for a person to check: remove rows, or
    edit queries. A file that was edited is never overwritten. After a kill the same call resumes without repeating
    answered judge calls.

    Args:
        documents: Files and directories of the corpus: text, Markdown, or JSONL with `id` and `text`.
        output_dir: Output directory. It is created if missing.
        judge: The model that writes and rates, as for `evaluate`.
        queries: Number of queries.
        max_passages: Number of passages that are checked for an answer to each query.
        rating_threshold: Rating from 0 to 5 from which a passage answers a query.
        concurrency: Number of concurrent judge calls.
        stop_early: Stop if the judge fails systematically.
        progress: Called with (written queries, all queries).

    Raises:
        ConfigurationError: If documents are missing, a number is out of range, the directory is in use, or
            `queries.jsonl` was edited.
        DataError: If a document or an earlier state is invalid.
        JudgeError: If the judge is unavailable at the start, or fails systematically.

    Source:
        VERA, section 3.4 (query generation). VERA does not check whether the documents answer a query.

    Examples:
        ```python
        built = build_negatives("handbook/", "negatives", judge="http://localhost:8000/v1", queries=50)
        ragstone.evaluate(built.path, ["vera"], app=answer)
        ```
    """
    check("limits", "build_negatives", concurrency=concurrency)
    check("research", "build_negatives", rating_threshold=rating_threshold)
    plan = plan_negatives(documents, queries=queries, max_passages=max_passages)
    path = folder_of(output_dir) / QUERIES
    if edited(path):
        raise ConfigurationError(
            f"{str(path)!r} was edited and is not overwritten. Evaluate it as it is, or give another directory (--output-dir)."
        )
    resolved_judge = need_model(judge, "writing queries")

    async def work() -> NegativeQueries:
        with Journal(path.with_name(JOURNAL)) as journal:
            async with Run(journal, concurrency=concurrency, stop_early=stop_early) as run:
                writer = _Writer(plan, run, await run.add_judge(resolved_judge, judge), rating_threshold)
                await writer.write(progress)
            write_watched(path, json_lines(writer.rows).encode(errors="replace"))
            return NegativeQueries(
                path=path,
                plan=plan,
                rows=tuple(writer.rows),
                n_repeated=writer.n_repeated,
                n_answered=writer.n_answered,
                **run.values(),
            )

    return run_async(work())


class _Writer:
    """Writes and checks queries in rounds, until there are enough."""

    def __init__(self, plan: NegativesPlan, run: Run, asker: JournaledJudge, rating_threshold: float) -> None:
        self._plan = plan
        self._run = run
        self._asker = asker
        self._eta = rating_threshold
        self._index = SpanIndex(plan.spans)
        self._written: tuple[str, ...] = ()
        """Distinct queries so far, also those that were dropped, so that they are not written again."""
        self.rows: list[dict[str, Any]] = []
        self.n_repeated = self.n_answered = 0

    async def write(self, progress: Callable[[int, int], None] | None) -> None:
        """Write and check rounds of queries. A temporary failure ends them, and the same round is repeated later."""
        for number in range(self._plan.rounds):
            try:
                await self._round(number)
            except JudgeError as error:
                self._run.errors.append(error)
                if error.kind in PASSING:
                    return
            if progress is not None:
                progress(len(self.rows), self._plan.n_queries)
            if len(self.rows) == self._plan.n_queries:
                return

    async def _round(self, number: int) -> None:
        prompt = negatives_prompt(self._excerpts(number), self._written[-_SHOWN:], _BATCH)
        reply = await self._asker.ask_json(prompt, questions_shape(_BATCH), max_tokens=64 + 64 * _BATCH)
        known, written = len(self._written), reply.value["items"]
        distinct = distinct_questions([*self._written, *written])
        checked = await self._best_passages(distinct[known:])
        self.n_repeated += known + len(written) - len(distinct)
        self._written = distinct
        for query, best in checked.items():
            if best is not None and best[0] >= self._eta:
                self.n_answered += 1
            elif len(self.rows) < self._plan.n_queries:
                self.rows.append(_row(query, best))

    def _excerpts(self, number: int) -> list[str]:
        """Return beginnings of passages from all over the documents, others in each round."""
        spans = self._plan.spans
        n = min(_EXCERPTS, len(spans))
        return [spans[(i * len(spans) // n + number) % len(spans)].text[:_EXCERPT_CHARS] for i in range(n)]

    async def _best_passages(self, queries: Sequence[str]) -> dict[str, tuple[int, str] | None]:
        """Return for each query the highest rating of a passage, and its id, or None if no passage shares a word with it.

        A query is omitted if one of its passages could not be rated.
        """
        asked: dict[Span, list[str]] = {}
        for query in queries:
            for span in self._index.most_similar(query, self._plan.max_passages):
                asked.setdefault(span, []).append(query)
        best: dict[str, tuple[int, str] | None] = dict.fromkeys(queries)
        unchecked: set[str] = set()

        async def rate(span: Span, of_span: Sequence[str]) -> tuple[int, ...]:
            try:
                return (await rate_answerability(self._asker, span.text, of_span)).marks
            except JudgeError as error:
                if error.kind in PASSING:
                    raise
                self._run.errors.append(error)
                unchecked.update(of_span)
                return (0,) * len(of_span)

        results = await gathered(rate(span, of_span) for span, of_span in asked.items())
        for (span, of_span), marks in zip(asked.items(), results, strict=True):
            for query, mark in zip(of_span, marks, strict=True):
                before = best[query]
                if before is None or mark > before[0]:
                    best[query] = mark, span.id
        return {query: found for query, found in best.items() if query not in unchecked}


def _row(query: str, best: tuple[int, str] | None) -> dict[str, Any]:
    digest = hashlib.sha256(query.encode(errors="replace")).hexdigest()[:12]
    rating, passage = best if best is not None else (None, None)
    return {"id": f"negative-{digest}", "query": query, "metadata": {"best_rating": rating, "closest_passage": passage}}
