"""Qrels: relevance labels of passages, in the formats of TREC and BEIR."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from ragstone._util.files import write_output
from ragstone.errors import DataError
from ragstone.metrics.ranking import Qrels
from ragstone.reading._row_values import finite
from ragstone.reading._trec.lines import numbered, refuse, token
from ragstone.schema import Sample

_BEIR_HEADER = "query-id\tcorpus-id\tscore\n"


def read_qrels(path: str | os.PathLike[str]) -> dict[str, dict[str, float]]:
    """Read qrels in TREC format (`query iteration passage grade`) or BEIR format (`query-id corpus-id score`, tabs).

    Each line's number of columns determines its format: four columns, or three separated by tabs. A header is ignored.

    Returns:
        Grades by query id and passage id.

    Raises:
        ConfigurationError: If the file does not exist.
        DataError: If a line has other columns, a grade is not a finite number, or a passage occurs twice for one query.
    """
    path = Path(path)
    qrels: dict[str, dict[str, float]] = {}
    seen: dict[tuple[str, str], int] = {}
    errors: list[DataError] = []
    for number, line in numbered(path, "qrels"):
        # Ids of BEIR may contain spaces, so tabs are tried first.
        columns = [column.strip() for column in line.split("\t")] if line.count("\t") == 2 else line.split()
        if len(columns) not in (3, 4) or not all(columns):
            errors.append(
                DataError(
                    f"line {number} has {len(columns)} columns. Expected: query iteration passage grade (TREC), or "
                    "query-id, corpus-id and score separated by tabs (BEIR)"
                )
            )
            continue
        query, doc, text = columns[0], columns[-2], columns[-1]
        grade = finite(text)
        if grade is None:
            # A header is allowed in the first line only.
            if not (number == 1 and text.casefold() in ("score", "relevance", "grade", "label")):
                errors.append(DataError(f"line {number} has the grade {text!r}, which is not a finite number"))
            continue
        if (query, doc) in seen:
            errors.append(
                DataError(
                    f"line {number} grades {doc!r} for query {query!r} again, after line {seen[query, doc]}. (Qrels with a "
                    "sub-topic in the second column are not supported. Give ratings by sub-question instead.)"
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
        path: Output file. An existing file is overwritten.
        qrels: Grades by query id and passage id, or samples with qrels.

    Raises:
        DataError: If a grade is not an integer (other tools read only integers), or an id is empty or contains
            whitespace.
    """
    lines = []
    for query, grades in _mapping(qrels).items():
        token(query, "the query id")
        for doc, grade in grades.items():
            lines.append(f"{query} 0 {token(doc, 'the passage id')} {_whole(query, doc, grade)}\n")
    write_output(path, "".join(lines))


def beir_lines(qrels: Qrels | Iterable[Sample]) -> Iterable[str]:
    """Yield the lines of qrels in BEIR format, starting with the header.

    Raises:
        DataError: If a grade is not an integer, or an id is empty or contains a tab or a line break.
    """
    yield _BEIR_HEADER
    for query, grades in _mapping(qrels).items():
        for doc, grade in grades.items():
            for name in (query, doc):
                if not name.strip() or any(c in name for c in "\t\r\n"):
                    raise DataError(
                        f"the id {name!r} cannot be written to a table: it is empty, or contains a tab or a line break"
                    )
            yield f"{query}\t{doc}\t{_whole(query, doc, grade)}\n"


def qrels_of(samples: Iterable[Sample]) -> dict[str, Mapping[str, float]]:
    """Return the qrels by sample id, of the samples that have qrels."""
    return {sample.id: sample.qrels for sample in samples if sample.qrels is not None}


def _mapping(qrels: Qrels | Iterable[Sample]) -> Qrels:
    return qrels if isinstance(qrels, Mapping) else qrels_of(qrels)


def _whole(query: str, doc: str, grade: float) -> int:
    if finite(str(grade)) is None or float(grade) != int(grade):
        raise DataError(
            f"{doc!r} has the grade {grade!r} for query {query!r}. Qrels files contain integers, so scale or round it"
        )
    return int(grade)
