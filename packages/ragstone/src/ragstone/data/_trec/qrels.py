"""Qrels: which passages graders found relevant, as TREC and BEIR write them."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from ragstone.data._trec.lines import finite, numbered, refuse, token
from ragstone.errors import DataError
from ragstone.metrics.ranking import Qrels
from ragstone.schema import Sample

__all__ = ["beir_lines", "qrels_of", "read_qrels", "write_trec_qrels"]

_BEIR_HEADER = "query-id\tcorpus-id\tscore\n"


def read_qrels(path: str | os.PathLike[str]) -> dict[str, dict[str, float]]:
    """Read qrels: TREC's (`query iteration passage grade`), or BEIR's (tab-separated `query-id corpus-id score`).

    Which it is follows from each line's columns: four, or three between tabs. A first line of names is passed over.

    Returns:
        Query id to passage id to grade.

    Raises:
        ConfigurationError: There is no such file.
        DataError: Lines with other columns, a grade that is no finite number, or a passage twice for one query.
    """
    path = Path(path)
    qrels: dict[str, dict[str, float]] = {}
    seen: dict[tuple[str, str], int] = {}
    errors: list[DataError] = []
    for number, line in numbered(path, "qrels"):
        # Ids of BEIR may hold spaces, so tabs come first.
        columns = [column.strip() for column in line.split("\t")] if line.count("\t") == 2 else line.split()
        if len(columns) not in (3, 4) or not all(columns):
            errors.append(
                DataError(
                    f"line {number} has {len(columns)} columns; a line is: query iteration passage grade (TREC), or "
                    "query-id, corpus-id and score between tabs (BEIR)"
                )
            )
            continue
        query, doc, text = columns[0], columns[-2], columns[-1]
        grade = finite(text)
        if grade is None:
            # Names of columns, which only the first line can hold.
            if not (number == 1 and text.casefold() in ("score", "relevance", "grade", "label")):
                errors.append(DataError(f"line {number} has the grade {text!r}; a grade is a finite number"))
            continue
        if (query, doc) in seen:
            errors.append(
                DataError(
                    f"line {number} grades {doc!r} for query {query!r} again, after line {seen[query, doc]} (qrels with a "
                    "sub-topic in the second column are not read: give ratings by sub-question)"
                )
            )
            continue
        doc = sys.intern(doc)
        seen[query, doc] = number
        qrels.setdefault(query, {})[doc] = grade
    refuse(path, errors)
    return qrels


def write_trec_qrels(path: str | os.PathLike[str], qrels: Qrels | Iterable[Sample]) -> None:
    """Write TREC qrels.

    Args:
        path: Written anew.
        qrels: Query id to passage id to grade; or samples with qrels.

    Raises:
        DataError: A grade that is no whole number (tools read no others), or an id that is empty or holds white space.
    """
    lines = []
    for query, grades in _mapping(qrels).items():
        token(query, "the query id")
        for doc, grade in grades.items():
            lines.append(f"{query} 0 {token(doc, 'the passage id')} {_whole(query, doc, grade)}\n")
    Path(path).write_text("".join(lines), encoding="utf-8")


def beir_lines(qrels: Qrels | Iterable[Sample]) -> Iterable[str]:
    """The lines of BEIR's qrels, the header first.

    Raises:
        DataError: A grade that is no whole number, or an id with a tab or a line break.
    """
    yield _BEIR_HEADER
    for query, grades in _mapping(qrels).items():
        for doc, grade in grades.items():
            for name in (query, doc):
                if not name.strip() or any(c in name for c in "\t\r\n"):
                    raise DataError(
                        f"the id {name!r} cannot stand in a table: it is empty, or holds a tab or a line break"
                    )
            yield f"{query}\t{doc}\t{_whole(query, doc, grade)}\n"


def qrels_of(samples: Iterable[Sample]) -> dict[str, Mapping[str, float]]:
    """The qrels of the samples that have some, by sample id."""
    return {sample.id: sample.qrels for sample in samples if sample.qrels is not None}


def _mapping(qrels: Qrels | Iterable[Sample]) -> Qrels:
    return qrels if isinstance(qrels, Mapping) else qrels_of(qrels)


def _whole(query: str, doc: str, grade: float) -> int:
    if finite(str(grade)) is None or float(grade) != int(grade):
        raise DataError(
            f"{doc!r} has the grade {grade!r} for query {query!r}; these files hold whole numbers, so scale or round first"
        )
    return int(grade)
