"""File formats of retrieval research: TREC runs, TREC qrels and BEIR datasets, and their conversion to samples."""

from __future__ import annotations

import json
import os
import re
import sys
from array import array
from collections.abc import Container, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from ragstone._util.row_limits import bounded_lines, check_json_row
from ragstone.errors import ConfigurationError, DataError
from ragstone.metrics.ranking import Qrels, Run
from ragstone.reading._files import corruption_errors, describe_bytes, open_plain
from ragstone.reading._row_values import finite
from ragstone.schema import Passage, Sample

_QRELS_LINE: Final = "query iteration passage grade (TREC), or query-id, corpus-id and score separated by tabs (BEIR)"
_TOPICS: Final = (
    "(Qrels with a sub-topic in the second column are not supported. Give ratings by sub-question instead.)"
)
_INTEGER: Final = re.compile(r"[+-]?\d{1,4000}")


def numbered(path: Path, what: str) -> Iterator[tuple[int, str]]:
    """Yield each line that is not blank, with its 1-based number.

    Raise ConfigurationError if the file does not exist. Raise DataError if the file is not valid UTF-8, or a line is
    too long or contains too many values.
    """
    if not path.is_file():
        raise ConfigurationError(f"file not found: {str(path)!r} (expected {what})")
    try:
        with path.open("rb") as file:
            for number, line in enumerate(bounded_lines(open_plain(file)[0]), start=1):
                if not line.strip():
                    continue
                try:
                    check_json_row(line)
                except DataError as error:
                    raise DataError(f"line {number} of {str(path)!r}: {error}") from None
                yield number, line.decode().replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise DataError(f"line {number} of {str(path)!r} is {describe_bytes(error)}") from error
    except corruption_errors() as error:
        raise DataError(f"{str(path)!r} cannot be read: {error}") from error


def refuse(path: Path, errors: Sequence[DataError]) -> None:
    """Raise one error that lists the first invalid lines, if there are any.

    Raise DataError if `errors` is not empty.
    """
    if errors:
        shown = "\n  ".join(map(str, errors[:5]))
        more = f"\n  and {len(errors) - 5} more" if len(errors) > 5 else ""
        raise DataError(f"{len(errors)} lines of {str(path)!r} cannot be read:\n  {shown}{more}")


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
    lines: dict[tuple[str, str], int] = {}
    errors: list[DataError] = []
    for number, line in numbered(path, "qrels"):
        # Ids of BEIR may contain spaces, so tabs are tried first.
        columns = [column.strip() for column in line.split("\t")] if line.count("\t") == 2 else line.split() or [line]
        query, doc, text, grade, problem = columns[0], columns[-2:][0], columns[-1], finite(columns[-1]), ""
        if len(columns) not in (3, 4) or not all(columns):
            problem = f"has {len(columns)} columns. Expected: {_QRELS_LINE}"
        elif grade is None:
            # A header is allowed in the first line only.
            is_header = number == 1 and text.casefold() in ("score", "relevance", "grade", "label")
            problem = "" if is_header else f"has the grade {text!r}, which is not a finite number"
        elif (query, doc) in lines:
            problem = f"grades {doc!r} for query {query!r} again, after line {lines[query, doc]}. {_TOPICS}"
        else:
            doc = sys.intern(doc)
            lines[query, doc] = number
            qrels.setdefault(query, {})[doc] = grade
        if problem:
            errors.append(DataError(f"line {number} {problem}"))
    refuse(path, errors)
    return qrels


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
        run, qrels = read_trec_run("bm25.run"), read_qrels("qrels.txt")
        ndcg(sorted(run["q1"], key=run["q1"].get, reverse=True), qrels["q1"], k=10)
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
        lines, scores, ranks = found.get(query) or ({}, array("d"), array("q"))
        if (score := finite(text)) is None:
            problem = f"has the score {text!r}, which is not a finite number"
        elif not _INTEGER.fullmatch(rank):
            problem = f"has the rank {rank!r}, which is not an integer"
        elif doc in lines:
            problem = f"has {doc!r} for query {query!r} again, after line {lines[doc]}. Remove one of them"
        else:
            # Many queries retrieve the same passages, so equal ids share one string.
            lines[sys.intern(doc)] = number
            scores.append(score)
            ranks.append(max(-(2**63), min(int(rank), 2**63 - 1)))
            found[query] = (lines, scores, ranks)
            continue
        errors.append(DataError(f"line {number} {problem}"))
    return {query: _best_first(list(docs), scores, ranks) for query, (docs, scores, ranks) in found.items()}, errors


def _best_first(docs: Sequence[str], scores: Sequence[float], ranks: Sequence[int]) -> dict[str, float]:
    return {docs[i]: scores[i] for i in sorted(range(len(docs)), key=lambda i: (-scores[i], ranks[i]))}


def read_beir(folder: str | os.PathLike[str], *, split: str = "test", run: Run | None = None) -> list[Sample]:
    """Read a BEIR dataset: one sample for each query of the split, with its text and its qrels.

    Args:
        folder: Directory with `queries.jsonl`, `qrels/SPLIT.tsv` and, if `run` is given, `corpus.jsonl`.
        split: Name of the qrels: "train", "dev" or "test".
        run: The retrieved passages (`read_trec_run`). They become the contexts, with their texts from the corpus. A
            query that is not in the run has empty contexts. Without a run the contexts are unknown (None).

    Raises:
        ConfigurationError: If a file is missing.
        DataError: If a line is invalid, an id occurs twice, or a passage of the run is not in the corpus.

    Examples:
        ```python
        samples = read_beir("scifact", run=read_trec_run("bm25.run"))
        ragstone.evaluate(samples, ["ranking", "judged"], judge="http://localhost:8000/v1")
        ```
    """
    folder = Path(folder)
    qrels = read_qrels(folder / "qrels" / f"{split}.tsv")
    queries = {name: _beir_text(line, row) for name, line, row in _beir_rows(folder / "queries.jsonl") if name in qrels}
    if missing := [name for name in qrels if name not in queries]:
        raise DataError(
            f"{str(folder / 'queries.jsonl')!r} does not contain {len(missing)} of the {len(qrels)} queries of the "
            f"qrels, the first is {missing[0]!r}"
        )
    docs = {doc for name in qrels for doc in (run or {}).get(name, ())}
    texts = {} if run is None else _corpus_texts(folder / "corpus.jsonl", docs)
    return [
        Sample(
            id=name,
            query=queries[name],
            qrels=dict(grades),
            contexts=None if run is None else tuple(_run_passages(run.get(name, ()), texts)),
        )
        for name, grades in qrels.items()
    ]


def _run_passages(docs: Any, texts: dict[str, str]) -> Iterator[Passage]:
    scores = docs if hasattr(docs, "keys") else {}
    for rank, doc in enumerate(sorted(docs, key=lambda doc: -scores[doc]) if scores else docs):
        yield Passage(text=texts[doc], id=doc, score=scores.get(doc), rank=rank)


def _corpus_texts(path: Path, ids: set[str]) -> dict[str, str]:
    """Read title and text of the passages with these ids only, because a corpus may be large."""
    texts = {}
    for name, line, row in _beir_rows(path):
        if name in ids:
            title, text = row.get("title"), _beir_text(line, row)
            texts[name] = f"{title}\n{text}" if isinstance(title, str) and title.strip() else text
    if missing := sorted(ids - texts.keys()):
        raise DataError(
            f"{str(path)!r} does not contain {len(missing)} of the {len(ids)} passages of the run, the first is "
            f"{missing[0]!r}"
        )
    return texts


def _beir_rows(path: Path) -> Iterator[tuple[str, int, dict[str, Any]]]:
    seen: set[str] = set()
    for number, line in numbered(path, "a BEIR dataset"):
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise DataError(f"line {number} of {str(path)!r} is not valid JSON: {error}") from error
        if not isinstance(row, dict) or not isinstance(row.get("_id"), str | int):
            raise DataError(f"line {number} of {str(path)!r} must be an object with an '_id'")
        name = str(row["_id"])
        if name in seen:
            raise DataError(f"line {number} of {str(path)!r} repeats the id {name!r}. Ids must be unique")
        seen.add(name)
        yield name, number, row


def _beir_text(number: int, row: dict[str, Any]) -> str:
    text = row.get("text")
    if not isinstance(text, str):
        raise DataError(f"line {number}: 'text' must be text, got {type(text).__name__}")
    return text


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
        docs = run.pop(query).items()
        contexts = tuple(Passage(text="", id=doc, score=score, rank=rank) for rank, (doc, score) in enumerate(docs))
        yield Sample(id=query, contexts=contexts)


def qrels_from(source: QrelsSource) -> Qrels:
    """Return the qrels, reading them if the source is a path.

    Raise ConfigurationError if the file does not exist. Raise DataError if the file is invalid, or the qrels are empty.
    """
    qrels = source if isinstance(source, Mapping) else read_qrels(source)
    if not qrels:
        raise DataError("the qrels are empty. Omit them, or give the qrels of these samples")
    return qrels


def with_qrels(sample: Sample, qrels: Qrels) -> Sample:
    """Return a sample with the qrels of its id, if it does not have any."""
    return sample if sample.qrels is not None else sample.model_copy(update={"qrels": dict(qrels[sample.id])})


def without_passages(qrels: Qrels, known: Container[str]) -> Iterator[Sample]:
    """Yield a sample for each query of the qrels that a run does not contain (`known`): it returned no passages."""
    for query, grades in qrels.items():
        if query not in known:
            yield Sample(id=query, contexts=(), qrels=dict(grades))
