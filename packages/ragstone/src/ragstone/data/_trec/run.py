"""TREC runs: what a system retrieved, one line a query and passage."""

from __future__ import annotations

import os
import sys
from array import array
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

from ragstone.data._trec.lines import finite, numbered, refuse, token
from ragstone.errors import DataError
from ragstone.metrics.ranking import Run
from ragstone.schema import Sample

__all__ = ["parse_run", "read_trec_run", "run_of", "write_trec_run"]


def read_trec_run(path: str | os.PathLike[str]) -> dict[str, dict[str, float]]:
    """Read a TREC run: lines of `query Q0 passage rank score tag`.

    Passages are ordered by falling score; equal scores by rank, and equal ranks as they stand in the file. (trec_eval
    does not look at the ranks, and orders equal scores by id.)

    Returns:
        Query id to passage id to score, best first.

    Raises:
        ConfigurationError: There is no such file.
        DataError: Lines with other columns, a score that is no finite number, a rank that is no whole number, or a
            passage twice for one query; the message has the first lines.

    Example:
        ```python
        ranking_measures(read_trec_run("bm25.run"), read_qrels("qrels.txt"))
        ```
    """
    path = Path(path)
    run, errors = parse_run(path)
    refuse(path, errors)
    return run


def parse_run(path: Path) -> tuple[dict[str, dict[str, float]], list[DataError]]:
    """The run in the lines that can be read, and what is wrong with the others."""
    found: dict[str, tuple[dict[str, int], array[float], array[int]]] = {}
    errors: list[DataError] = []
    for number, line in numbered(path, "a TREC run"):
        columns = line.split()
        if len(columns) not in (5, 6):
            errors.append(
                DataError(
                    f"line {number} has {len(columns)} columns; a line of a TREC run is: query Q0 passage rank score tag"
                )
            )
            continue
        query, _, doc, rank, text = columns[:5]
        score = finite(text)
        if score is None:
            errors.append(DataError(f"line {number} has the score {text!r}; a score is a finite number"))
            continue
        try:
            place = int(rank)
        except ValueError:
            errors.append(DataError(f"line {number} has the rank {rank!r}; a rank is a whole number"))
            continue
        if query not in found:
            found[query] = ({}, array("d"), array("q"))
        lines, scores, ranks = found[query]
        if doc in lines:
            errors.append(
                DataError(
                    f"line {number} has {doc!r} for query {query!r} again, after line {lines[doc]}: which one counts?"
                )
            )
            continue
        # Many queries retrieve the same passages: one string for all.
        lines[sys.intern(doc)] = number
        scores.append(score)
        ranks.append(max(-(2**63), min(place, 2**63 - 1)))
    return {query: _ordered(list(docs), scores, ranks) for query, (docs, scores, ranks) in found.items()}, errors


def _ordered(docs: Sequence[str], scores: Sequence[float], ranks: Sequence[int]) -> dict[str, float]:
    order = sorted(range(len(docs)), key=lambda i: (-scores[i], ranks[i]))
    return {docs[i]: scores[i] for i in order}


def write_trec_run(path: str | os.PathLike[str], run: Run | Iterable[Sample], *, tag: str = "ragstone") -> None:
    """Write a TREC run that every tool ranks as it is ranked here.

    Tools order equal scores by id, and some hold scores in single precision. So where the scores of a query do not fall
    strictly, as single-precision numbers, whole numbers (n, ..., 2, 1) are written in their place. A passage that comes
    again is left out: a run has each once.

    Args:
        path: Written anew.
        run: Query id to passage id to score, or to passage ids in their order; or samples, whose passages have ids.
        tag: The name of the system, the last column.

    Raises:
        DataError: An id that is empty or holds white space, a score that is not finite, or a passage without an id.
    """
    token(tag, "the tag")
    listed = run if isinstance(run, Mapping) else run_of(run)
    lines = []
    for query, docs in listed.items():
        token(query, "the query id")
        for rank, (doc, score) in enumerate(_falling(query, docs), start=1):
            lines.append(f"{query} Q0 {token(doc, 'the passage id')} {rank} {score!r} {tag}\n")
    Path(path).write_text("".join(lines), encoding="utf-8")


def run_of(samples: Iterable[Sample]) -> dict[str, list[str]]:
    """What the samples' systems retrieved, by sample id; samples with unknown contexts are left out.

    Raises:
        DataError: A passage without an id.
    """
    run: dict[str, list[str]] = {}
    for sample in samples:
        if sample.contexts is None:
            continue
        run[sample.id] = []
        for place, passage in enumerate(sample.contexts, start=1):
            if passage.id is None:
                raise DataError(
                    f"passage {place} of sample {sample.id!r} has no id, and a run names passages by their ids"
                )
            run[sample.id].append(passage.id)
    return run


def _falling(query: str, docs: Mapping[str, float] | Sequence[str]) -> list[tuple[str, float | int]]:
    if not isinstance(docs, Mapping):
        once = list(dict.fromkeys(docs))
        return [(doc, len(once) - place) for place, doc in enumerate(once)]
    for doc, score in docs.items():
        if finite(str(score)) is None:
            raise DataError(f"{doc!r} has the score {score!r} for query {query!r}; a score is a finite number")
    ordered = sorted(docs.items(), key=lambda item: -item[1])
    # As a tool in C holds them; infinite where they are too large for that.
    single = array("f", [score for _, score in ordered])
    if all(above > below for above, below in pairwise(single)):
        return [(doc, float(score)) for doc, score in ordered]
    return [(doc, len(ordered) - place) for place, (doc, _) in enumerate(ordered)]
