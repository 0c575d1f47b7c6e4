"""Passages in the order of what they are worth: an oracle re-ranker, which shows what retrieval could have delivered."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ragstone._util.run_async import run_async
from ragstone.data import SampleSource
from ragstone.errors import ConfigurationError, DataError, JudgeError
from ragstone.judges import Judge, JudgeIdentity, Reader
from ragstone.metrics import LabelMode
from ragstone.research._udcg.ask import CachedModels, open_models
from ragstone.research._udcg.rows import annotation_of, read_contexts, row_of
from ragstone.schema import Passage, Sample, Usage

__all__ = ["UdcgRanking", "best_passages", "rank_udcg"]

RankBy = Literal["utility", "erag"]


@dataclass(frozen=True, slots=True, kw_only=True)
class UdcgRanking:
    """Samples with their passages ranked and annotated."""

    rows: tuple[Mapping[str, Any], ...]
    """Rows that `evaluate`, `fit_udcg` and `correlate_udcg` read; annotations are in the passages' `metadata`."""
    rank_by: str
    n_passages: int
    n_failed: int
    """Passages without a value; they come last, in the order they had."""
    n_unranked: int
    """Samples left as they were: no question, no passages, or (for eRAG) no reference."""
    errors: tuple[str, ...]
    notes: tuple[str, ...]
    reader: JudgeIdentity
    judge: JudgeIdentity
    usage: Usage

    def to_jsonl(self, path: str | Path) -> None:
        """Write one sample a line."""
        with Path(path).open("w", encoding="utf-8") as file:
            file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in self.rows)

    def to_dict(self) -> dict[str, Any]:
        """The counts as plain values, for JSON."""
        return {
            "rank_by": self.rank_by,
            "n_samples": len(self.rows),
            "n_unranked": self.n_unranked,
            "n_passages": self.n_passages,
            "n_failed": self.n_failed,
            "errors": list(self.errors),
            "notes": list(self.notes),
            "reader": self.reader.name,
            "judge": self.judge.name,
            "usage": self.usage.model_dump(exclude={"schema_version"}),
        }

    def __str__(self) -> str:
        lines = [f"{len(self.rows)} samples, {self.n_passages} passages ranked by {self.rank_by}"]
        if self.n_failed:
            lines.append(f"{self.n_failed} passages have no value and come last; the first: {self.errors[0]}")
        if self.n_unranked:
            lines.append(
                f"{self.n_unranked} samples are as they were: no question, no passages, or no reference for eRAG"
            )
        return "\n".join([*lines, *self.notes])


def best_passages(scores: Sequence[float | None], top_k: int | None = None) -> list[int]:
    """Indices of the `top_k` best scores, best first; of equals the earlier one, and what has no score at the end.

    Raises:
        ConfigurationError: `top_k` is below 1.

    Example:
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
    progress: Callable[[int, int], None] | None = None,
) -> UdcgRanking:
    """Put each sample's passages in the order of their utility for the reader, and write beside each what was found.

    A row whose passages change loses its `response` and `grade`, which belong to other contexts: they are kept as
    `response_before` and `grade_before`.

    Args:
        data: What `evaluate` takes, or rows as for `fit_udcg`.
        top_k: Keep that many; None keeps all.
        rank_by: "utility", or "erag" (ROUGE-L of the reader's answer from each passage alone; needs references).
        keep_order: Annotate and move nothing.
        reader: The forms of `judge`, or a `Reader`; None reads `RAGSTONE_READER`, else takes the judge's model.
        judge: As for `evaluate`.
        labels: As for `Udcg`.
        threshold: As for `Udcg`.
        concurrency: Samples in work at once.
        progress: Called with (samples done, samples in all).

    Raises:
        ConfigurationError: An option that cannot work.
        DataError: A row that cannot be read, or no rows.
        JudgeError: A model cannot be reached, or answered nothing at all.

    Source:
        UDCG, section 7.1; eRAG: Salemi and Zamani 2024.

    Example:
        ```python
        rank_udcg("samples.jsonl", k=5, judge="http://localhost:8000/v1").to_jsonl("ranked.jsonl")
        ```
    """
    best_passages([], top_k)
    if rank_by not in ("utility", "erag"):
        raise ConfigurationError(f"rank_by must be 'utility' or 'erag', got {rank_by!r}")
    if keep_order and top_k is not None:
        raise ConfigurationError(
            f"keep_order moves nothing, so there are no best top_k={top_k} to keep; give one of them"
        )
    samples = [row.sample for row in read_contexts(data)]
    if not samples:
        raise DataError("there is nothing to rank: 0 samples could be read")

    async def work() -> UdcgRanking:
        async with open_models(reader, judge, labels=labels, threshold=threshold, concurrency=concurrency) as asker:

            async def one(sample: Sample) -> _Ranked:
                return await _ranked(sample, asker, top_k=top_k, rank_by=rank_by, keep_order=keep_order)

            ranked = await asker.each(one, samples, progress)
            errors = [error for one in ranked for error in one.errors]
            asked = sum(one.n_passages for one in ranked)
            if asked and len(errors) == asked:
                raise JudgeError(
                    f"none of {asked} passages could be ranked; the first says: {errors[0]}",
                    kind=errors[0].kind,
                    raw=errors[0].raw,
                )
            return UdcgRanking(
                rows=tuple(one.row for one in ranked),
                rank_by=rank_by,
                n_passages=asked,
                n_failed=len(errors),
                n_unranked=sum(not one.n_passages for one in ranked),
                errors=tuple(map(str, errors[:5])),
                notes=asker.notes(),
                reader=asker.reader.identity,
                judge=asker.judge.identity,
                usage=asker.spent.total,
            )

    return run_async(work())


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ranked:
    row: Mapping[str, Any]
    n_passages: int = 0
    errors: tuple[JudgeError, ...] = ()


async def _ranked(
    sample: Sample, asker: CachedModels, *, top_k: int | None, rank_by: RankBy, keep_order: bool
) -> _Ranked:
    referenced = any(reference.strip() for reference in sample.reference)
    if not sample.contexts or not (sample.query and sample.query.strip()) or (rank_by == "erag" and not referenced):
        return _Ranked(row=row_of(sample, {}))
    found = await asker.gathered([_annotated(sample, passage, asker, rank_by) for passage in sample.contexts])
    annotations = {passage.text: note for passage, (note, _) in zip(sample.contexts, found, strict=True)}
    errors = tuple(error for _, error in found if error is not None)
    order = list(range(len(found)))
    if not keep_order:
        order = best_passages([None if error else note[rank_by] for note, error in found], top_k)
    if order != list(range(len(sample.contexts))):
        sample = _moved(sample, order)
    return _Ranked(row=row_of(sample, annotations), n_passages=len(found), errors=errors)


async def _annotated(
    sample: Sample, passage: Passage, asker: CachedModels, rank_by: RankBy
) -> tuple[Mapping[str, Any], JudgeError | None]:
    try:
        rating = await asker.rate(sample, passage)
        # Not what stood there: of another reader it would be another reader's.
        note = {**rating.annotation, "relevance": 1 if rating.relevant else -1, "utility": rating.utility}
        if rank_by == "erag":
            note["erag"] = rating.erag if rating.erag is not None else await asker.erag(sample, passage)
    except JudgeError as error:
        reason = str(error).encode(errors="replace").decode()
        return {**annotation_of(passage), "error": {"kind": error.kind, "reason": reason}}, error
    note.pop("error", None)
    return note, None


def _moved(sample: Sample, order: Sequence[int]) -> Sample:
    """The sample with other passages or another order; what was made from the old ones is set aside."""
    assert sample.contexts is not None  # noqa: S101  there is an order
    passages = tuple(sample.contexts[i].model_copy(update={"rank": rank}) for rank, i in enumerate(order))
    metadata = {name: value for name, value in sample.metadata.items() if name != "grade"}
    if "grade" in sample.metadata:
        metadata["grade_before"] = sample.metadata["grade"]
    if sample.response is not None:
        metadata["response_before"] = sample.response
    return sample.model_copy(update={"contexts": passages, "response": None, "metadata": metadata})
