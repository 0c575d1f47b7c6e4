"""An oracle reranker: sorts passages by their utility, to show how good retrieval could have been."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

from ragstone.errors import ConfigurationError, DataError, JudgeError
from ragstone.extension import count, write_output
from ragstone.judges import Judge, JudgeIdentity, Reader
from ragstone.metrics import LabelMode
from ragstone.reading import SampleSource
from ragstone.schema import Passage, Sample
from ragstone.scoring import run_async
from ragstone_lab._run import Run, RunResult, all_failed, gathered, json_lines
from ragstone_lab._udcg.ask import Models, open_models
from ragstone_lab._udcg.rows import annotation_of, read_contexts, row_of

RankBy = Literal["utility", "erag"]


@dataclass(frozen=True, slots=True, kw_only=True)
class UdcgRanking(RunResult):
    """Samples with their passages ranked and annotated."""

    rows: tuple[Mapping[str, Any], ...]
    """Rows for `evaluate`, `fit_udcg` and `correlate_udcg`, with annotations in the passages' `metadata`."""
    rank_by: str
    n_passages: int
    n_failed: int
    """Number of passages without a value. They are last, in their original order."""
    n_unranked: int
    """Number of unchanged samples: without query or passages, or (for eRAG) without reference."""
    reader: JudgeIdentity
    judge: JudgeIdentity

    def to_jsonl(self, path: str | Path) -> None:
        """Write the samples to a file, one JSON object per line."""
        write_output(path, json_lines(self.rows))

    def to_dict(self) -> dict[str, Any]:
        """Return the counts as plain values for JSON."""
        plain = RunResult.to_dict(self)
        return plain | {"n_samples": plain.pop("n_rows")}

    def __str__(self) -> str:
        lines = [f"{count(len(self.rows), 'sample')}, {count(self.n_passages, 'passage')} ranked by {self.rank_by}"]
        if self.n_failed:
            lines.append(f"{self.n_failed} passages do not have a value and are last. First error: {self.errors[0]}")
        if self.n_unranked:
            lines.append(
                f"{count(self.n_unranked, 'sample is', 'samples are')} unchanged: without query or passages, or without reference for eRAG"
            )
        return "\n".join([*lines, *self.notes])


def best_passages(scores: Sequence[float | None], top_k: int | None = None) -> list[int]:
    """Return the indices of the `top_k` best scores, best first. Ties keep their order, and None is last.

    Raises:
        ConfigurationError: If `top_k` is below 1.

    Examples:
        >>> best_passages([0.1, None, 0.9, 0.1], 3)
        [2, 0, 3]
    """
    if top_k is not None and top_k < 1:
        raise ConfigurationError(f"top_k must be at least 1, got {top_k!r}")
    known = [(score is None, -(score or 0.0), i) for i, score in enumerate(scores)]
    return [i for *_, i in sorted(known)][:top_k]


def rank_udcg(
    data: SampleSource,
    *,
    top_k: int | None = None,
    rank_by: RankBy = "utility",
    keep_order: bool = False,
    reader: str | Reader | None = None,
    judge: str | Judge | None = None,
    labels: LabelMode = "auto",
    threshold: float = 0.5,
    concurrency: int = 16,
    stop_early: bool = True,
    progress: Callable[[int, int], None] | None = None,
) -> UdcgRanking:
    """Sort each sample's passages by their utility for the reader, and annotate each passage with its values.

    If the passages of a row change, its `response` and `grade` belong to another context. They are renamed to
    `response_before` and `grade_before`.

    Args:
        data: Samples as for `evaluate`, or rows as for `fit_udcg`.
        top_k: Number of passages to keep. Default: all.
        rank_by: "utility", or "erag" (ROUGE-L of the reader's answer from each passage alone, which needs references).
        keep_order: Annotate without reordering.
        reader: The forms of `judge`, or a `Reader`. Default: `RAGSTONE_READER`, otherwise the judge's model.
        judge: As for `evaluate`.
        labels: As for `Udcg`.
        threshold: As for `Udcg`.
        concurrency: Number of samples processed concurrently.
        stop_early: Stop if a model fails systematically.
        progress: Called with (finished samples, all samples).

    Raises:
        ConfigurationError: If an option is invalid.
        DataError: If a row is invalid, or the data is empty.
        JudgeError: If a model is unavailable or fails systematically, or all calls fail.

    Source:
        UDCG, section 7.1. eRAG: Salemi and Zamani 2024.

    Examples:
        ```python
        rank_udcg("samples.jsonl", top_k=5, judge="http://localhost:8000/v1").to_jsonl("ranked.jsonl")
        ```
    """
    best_passages([], top_k)
    if rank_by not in ("utility", "erag"):
        raise ConfigurationError(f"rank_by must be 'utility' or 'erag', got {rank_by!r}")
    if keep_order and top_k is not None:
        raise ConfigurationError(
            f"keep_order does not rank passages, so it cannot be combined with top_k={top_k}. Set only one of them."
        )
    samples = [row.sample for row in read_contexts(data)]
    if not samples:
        raise DataError("the data does not contain samples to rank")

    async def work() -> UdcgRanking:
        async with Run(concurrency=concurrency, stop_early=stop_early) as run:
            asker = await open_models(run, reader, judge, labels=labels, threshold=threshold)
            rank = partial(_rank_sample, asker=asker, top_k=top_k, rank_by=rank_by, keep_order=keep_order)
            ranked = [one for one in await run.each(samples, rank, progress=progress) if isinstance(one, _Ranked)]
            run.errors += (errors := [error for one in ranked for error in one.errors])
            n_passages = sum(one.n_passages for one in ranked)
            if n_passages and len(errors) == n_passages:
                raise all_failed(errors, f"none of {n_passages} passages could be ranked")
            return UdcgRanking(
                rows=tuple(one.row for one in ranked),
                rank_by=rank_by,
                n_passages=n_passages,
                n_failed=len(errors),
                n_unranked=sum(not one.n_passages for one in ranked),
                notes=asker.notes(),
                reader=asker.reader.identity,
                judge=asker.judge.identity,
                **run.values(),
            )

    return run_async(work())


class _Ranked(NamedTuple):
    row: Mapping[str, Any]
    n_passages: int = 0
    errors: tuple[JudgeError, ...] = ()


async def _rank_sample(
    sample: Sample, *, asker: Models, top_k: int | None, rank_by: RankBy, keep_order: bool
) -> _Ranked:
    has_reference = any(reference.strip() for reference in sample.reference)
    if not sample.contexts or not (sample.query and sample.query.strip()) or (rank_by == "erag" and not has_reference):
        return _Ranked(row_of(sample, {}))
    results = await gathered(_annotate(sample, passage, asker, rank_by) for passage in sample.contexts)
    annotations = {passage.text: note for passage, (note, _) in zip(sample.contexts, results, strict=True)}
    order = list(range(len(results)))
    if not keep_order:
        order = best_passages([None if error else note[rank_by] for note, error in results], top_k)
    if order != list(range(len(sample.contexts))):
        sample = _reorder(sample, order)
    errors = tuple(error for _, error in results if error is not None)
    return _Ranked(row_of(sample, annotations), len(results), errors)


async def _annotate(
    sample: Sample, passage: Passage, asker: Models, rank_by: RankBy
) -> tuple[Mapping[str, Any], JudgeError | None]:
    try:
        rating = await asker.rate(sample, passage)
        # Relevance and utility come from this rating, because an existing annotation may be from another reader.
        note = {**rating.annotation, "relevance": 1 if rating.relevant else -1, "utility": rating.utility}
        if rank_by == "erag":
            note["erag"] = rating.erag if rating.erag is not None else await asker.erag(sample, passage)
    except JudgeError as error:
        reason = str(error).encode(errors="replace").decode()
        return {**annotation_of(passage), "error": {"kind": error.kind, "reason": reason}}, error
    note.pop("error", None)
    return note, None


def _reorder(sample: Sample, order: Sequence[int]) -> Sample:
    """Return the sample with reordered passages. Response and grade are moved to metadata."""
    assert sample.contexts is not None  # noqa: S101  the caller checks
    passages = tuple(sample.contexts[i].model_copy(update={"rank": rank}) for rank, i in enumerate(order))
    metadata = {name: value for name, value in sample.metadata.items() if name != "grade"}
    if "grade" in sample.metadata:
        metadata["grade_before"] = sample.metadata["grade"]
    if sample.response is not None:
        metadata["response_before"] = sample.response
    return sample.model_copy(update={"contexts": passages, "response": None, "metadata": metadata})
