"""TREC runs: the retrieved passages of a system, with one line per query and passage."""

from __future__ import annotations

import os
import sys
from array import array
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

from ragstone._util.files import write_output
from ragstone.errors import DataError
from ragstone.metrics.ranking import Run
from ragstone.reading._row_values import finite
from ragstone.reading._trec.lines import numbered, refuse, token
from ragstone.schema import Sample


def read_trec_run(path: str | os.PathLike[str]) -> dict[str, dict[str, float]]:
    """Read a TREC run, with lines of `query Q0 passage rank score tag`.

    Passages are sorted by descending score, equal scores by rank, and equal ranks by their order in the file.
    (trec_eval ignores ranks, and sorts equal scores by id.)

    Returns:
        Scores by query id and passage id, best first.

    Raises:
        ConfigurationError: If the file does not exist.
        DataError: If a line has other columns, a score is not a finite number, a rank is not an integer, or a passage
            occurs twice for one query. The message lists the first of these lines.

    Examples:
        ```python
        ranking_measures(read_trec_run("bm25.run"), read_qrels("qrels.txt"))
        ```
    """
    path = Path(path)
    run, errors = parse_run(path)
    refuse(path, errors)
    return run


def parse_run(path: Path) -> tuple[dict[str, dict[str, float]], list[DataError]]:
    """Parse the run from the valid lines, and return an error for each other line."""
    found: dict[str, tuple[dict[str, int], array[float], array[int]]] = {}
    errors: list[DataError] = []
    for number, line in numbered(path, "a TREC run"):
        columns = line.split()
        if len(columns) not in (5, 6):
            errors.append(
                DataError(f"line {number} has {len(columns)} columns. Expected: query Q0 passage rank score tag")
            )
            continue
        query, _, doc, rank, text = columns[:5]
        score = finite(text)
        if score is None:
            errors.append(DataError(f"line {number} has the score {text!r}, which is not a finite number"))
            continue
        try:
            place = int(rank)
        except ValueError:
            errors.append(DataError(f"line {number} has the rank {rank!r}, which is not an integer"))
            continue
        if query not in found:
            found[query] = ({}, array("d"), array("q"))
        lines, scores, ranks = found[query]
        if doc in lines:
            errors.append(
                DataError(
                    f"line {number} has {doc!r} for query {query!r} again, after line {lines[doc]}. Remove one of them"
                )
            )
            continue
        # Many queries retrieve the same passages, so equal ids share one string.
        lines[sys.intern(doc)] = number
        scores.append(score)
        ranks.append(max(-(2**63), min(place, 2**63 - 1)))
    return {query: _ordered(list(docs), scores, ranks) for query, (docs, scores, ranks) in found.items()}, errors


def _ordered(docs: Sequence[str], scores: Sequence[float], ranks: Sequence[int]) -> dict[str, float]:
    order = sorted(range(len(docs)), key=lambda i: (-scores[i], ranks[i]))
    return {docs[i]: scores[i] for i in order}


def write_trec_run(path: str | os.PathLike[str], run: Run | Iterable[Sample], *, tag: str = "ragstone") -> None:
    """Write a TREC run that every tool ranks in the same order as Ragstone.

    Tools sort equal scores by id, and some store scores in single precision. Therefore, if the scores of a query are
    not strictly descending in single precision, integers (n, ..., 2, 1) are written instead. A passage that occurs
    again is ignored.

    Args:
        path: Output file. An existing file is overwritten.
        run: Scores by query id and passage id, or sorted passage ids by query id, or samples whose passages have ids.
        tag: Name of the system, written in the last column.

    Raises:
        DataError: If an id is empty or contains whitespace, a score is not finite, or a passage does not have an id.
    """
    token(tag, "the tag")
    listed = run if isinstance(run, Mapping) else run_of(run)
    lines = []
    for query, docs in listed.items():
        token(query, "the query id")
        for rank, (doc, score) in enumerate(_falling(query, docs), start=1):
            lines.append(f"{query} Q0 {token(doc, 'the passage id')} {rank} {score!r} {tag}\n")
    write_output(path, "".join(lines))


def run_of(samples: Iterable[Sample]) -> dict[str, list[str]]:
    """Return the ids of the retrieved passages by sample id. Samples with unknown contexts are ignored.

    Raises:
        DataError: If a passage does not have an id.
    """
    run: dict[str, list[str]] = {}
    for sample in samples:
        if sample.contexts is None:
            continue
        run[sample.id] = []
        for place, passage in enumerate(sample.contexts, start=1):
            if passage.id is None:
                raise DataError(f"passage {place} of sample {sample.id!r} does not have an id, which a run needs")
            run[sample.id].append(passage.id)
    return run


def _falling(query: str, docs: Mapping[str, float] | Sequence[str]) -> list[tuple[str, float | int]]:
    if not isinstance(docs, Mapping):
        once = list(dict.fromkeys(docs))
        return [(doc, len(once) - place) for place, doc in enumerate(once)]
    for doc, score in docs.items():
        if finite(str(score)) is None:
            raise DataError(f"{doc!r} has the score {score!r} for query {query!r}, which is not a finite number")
    ordered = sorted(docs.items(), key=lambda item: -item[1])
    # Single precision, as tools in C store scores. A score that is too large becomes infinite.
    single = array("f", [score for _, score in ordered])
    if all(above > below for above, below in pairwise(single)):
        return [(doc, float(score)) for doc, score in ordered]
    return [(doc, len(ordered) - place) for place, (doc, _) in enumerate(ordered)]
