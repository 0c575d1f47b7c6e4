"""Runs as samples, and qrels joined to samples."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from ragstone.data._trec.qrels import read_qrels
from ragstone.data._trec.run import parse_run
from ragstone.errors import DataError
from ragstone.metrics.ranking import Qrels
from ragstone.schema import Passage, Sample

__all__ = ["RUN_SUFFIXES", "QrelsSource", "qrels_from", "run_rows", "with_qrels"]

QrelsSource = str | os.PathLike[str] | Qrels
"""A path of TREC or BEIR qrels, or query id to passage id to grade."""

RUN_SUFFIXES = (".run", ".trec")


def run_rows(path: Path) -> Iterator[Sample | DataError]:
    """A sample for each query of a TREC run, whose passages have ids and no text; and its bad lines."""
    run, errors = parse_run(path)
    yield from errors
    for query in list(run):
        # Let go of the run as its passages are made: both together would be twice the memory.
        docs = run.pop(query)
        contexts = tuple(
            Passage(text="", id=doc, score=score, rank=rank) for rank, (doc, score) in enumerate(docs.items())
        )
        yield Sample(id=query, contexts=contexts)


def qrels_from(source: QrelsSource) -> Qrels:
    """The qrels, read if they are a file.

    Raises:
        ConfigurationError: There is no such file.
        DataError: It cannot be read, or holds nothing.
    """
    qrels = source if isinstance(source, Mapping) else read_qrels(source)
    if not qrels:
        raise DataError("the qrels hold no query; leave them out, or give those of these samples")
    return qrels


def with_qrels(samples: Sequence[Sample], qrels: Qrels, *, whole_run: bool) -> list[Sample]:
    """Give each sample without qrels those of its id.

    Args:
        samples: In any order.
        qrels: By sample id.
        whole_run: The samples are all that a system retrieved: a query with qrels that is not among them was asked, and
            nothing was found. It becomes a sample with no passages.

    Raises:
        DataError: No sample has an id of the qrels.
    """
    known = {sample.id for sample in samples}
    if samples and known.isdisjoint(qrels):
        raise DataError(
            f"no sample has the id of a query of the qrels: samples have {samples[0].id!r}, ..., qrels "
            f"{next(iter(qrels))!r}, ...; both need ids that match"
        )
    joined = [
        sample.model_copy(update={"qrels": dict(qrels[sample.id])})
        if sample.qrels is None and sample.id in qrels
        else sample
        for sample in samples
    ]
    if whole_run:
        joined += [
            Sample(id=query, contexts=(), qrels=dict(grades)) for query, grades in qrels.items() if query not in known
        ]
    return joined
