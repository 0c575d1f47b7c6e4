"""Conversion of runs to samples, and addition of qrels to samples."""

from __future__ import annotations

import os
from collections.abc import Container, Iterator, Mapping
from pathlib import Path

from ragstone.errors import DataError
from ragstone.metrics.ranking import Qrels
from ragstone.reading._trec.qrels import read_qrels
from ragstone.reading._trec.run import parse_run
from ragstone.schema import Passage, Sample

QrelsSource = str | os.PathLike[str] | Qrels
"""Path of TREC or BEIR qrels, or grades by query id and passage id."""

RUN_SUFFIXES = (".run", ".trec")


def is_run(head: bytes) -> bool:
    """Return whether the first line of a file is a line of a TREC run."""
    columns = head.partition(b"\n")[0].split()
    if len(columns) != 6 or columns[1].upper() != b"Q0":
        return False
    try:
        int(columns[3]), float(columns[4])
    except ValueError:
        return False
    return True


def run_rows(path: Path) -> Iterator[Sample | DataError]:
    """Yield an error per invalid line of a TREC run, then a sample per query. Passages have ids, but no text."""
    run, errors = parse_run(path)
    yield from errors
    for query in list(run):
        # Each query is removed from the run when its sample is made, because both together need twice the memory.
        docs = run.pop(query)
        contexts = tuple(
            Passage(text="", id=doc, score=score, rank=rank) for rank, (doc, score) in enumerate(docs.items())
        )
        yield Sample(id=query, contexts=contexts)


def qrels_from(source: QrelsSource) -> Qrels:
    """Return the qrels, reading them if the source is a path.

    Raises:
        ConfigurationError: If the file does not exist.
        DataError: If the file is invalid, or the qrels are empty.
    """
    qrels = source if isinstance(source, Mapping) else read_qrels(source)
    if not qrels:
        raise DataError("the qrels are empty. Omit them, or give the qrels of these samples")
    return qrels


def with_qrels(sample: Sample, qrels: Qrels) -> Sample:
    """Return a sample with the qrels of its id, if it does not have any."""
    return sample if sample.qrels is not None else sample.model_copy(update={"qrels": dict(qrels[sample.id])})


def without_passages(qrels: Qrels, known: Container[str]) -> Iterator[Sample]:
    """Yield a sample for each query of the qrels that a run does not contain: it returned no passages.

    Args:
        qrels: Qrels by query id.
        known: The queries of the run.
    """
    for query, grades in qrels.items():
        if query not in known:
            yield Sample(id=query, contexts=(), qrels=dict(grades))
