"""BEIR datasets: `queries.jsonl`, `corpus.jsonl` and `qrels/SPLIT.tsv` in one directory."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from ragstone._util.files import open_output, write_output
from ragstone.errors import DataError
from ragstone.metrics.ranking import Run
from ragstone.reading._trec.lines import numbered
from ragstone.reading._trec.qrels import beir_lines, read_qrels
from ragstone.schema import Passage, Sample


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
    queries = {name: _text(line, row, "text") for name, line, row in _rows(folder / "queries.jsonl") if name in qrels}
    if missing := [name for name in qrels if name not in queries]:
        raise DataError(
            f"{str(folder / 'queries.jsonl')!r} does not contain {len(missing)} of the {len(qrels)} queries of the "
            f"qrels, the first is {missing[0]!r}"
        )
    texts = {} if run is None else _texts(folder / "corpus.jsonl", {doc for name in qrels for doc in run.get(name, ())})
    return [
        Sample(
            id=name,
            query=queries[name],
            qrels=dict(grades),
            contexts=None if run is None else tuple(_passages(run.get(name, ()), texts)),
        )
        for name, grades in qrels.items()
    ]


def _passages(docs: Any, texts: dict[str, str]) -> Iterator[Passage]:
    scores = docs if hasattr(docs, "keys") else {}
    ordered = sorted(docs, key=lambda doc: -scores[doc]) if scores else docs
    for rank, doc in enumerate(ordered):
        yield Passage(text=texts[doc], id=doc, score=scores.get(doc), rank=rank)


def _texts(path: Path, ids: set[str]) -> dict[str, str]:
    """Read title and text of the passages with these ids only, because a corpus may be large."""
    texts = {}
    for name, line, row in _rows(path):
        if name in ids:
            title, text = row.get("title"), _text(line, row, "text")
            texts[name] = f"{title}\n{text}" if isinstance(title, str) and title.strip() else text
    if missing := sorted(ids - texts.keys()):
        raise DataError(
            f"{str(path)!r} does not contain {len(missing)} of the {len(ids)} passages of the run, the first is "
            f"{missing[0]!r}"
        )
    return texts


def _rows(path: Path) -> Iterator[tuple[str, int, dict[str, Any]]]:
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


def _text(number: int, row: dict[str, Any], field: str) -> str:
    text = row.get(field)
    if not isinstance(text, str):
        raise DataError(f"line {number}: {field!r} must be text, got {type(text).__name__}")
    return text


def write_beir(folder: str | os.PathLike[str], samples: Iterable[Sample], *, split: str = "test") -> None:
    """Write samples as a BEIR dataset: their queries, their passages as the corpus, and their qrels.

    The corpus contains the passages of the samples. Passages that occur only in the qrels have no text, so the corpus
    does not contain them.

    Args:
        folder: Output directory. It is created if it does not exist, and files with these names are overwritten.
        samples: Samples with queries. Their passages need ids.
        split: Name of the qrels.

    Raises:
        DataError: If a sample does not have a query, a passage does not have an id, two texts have the same id, or a
            grade is not an integer. Then no file is written.
    """
    listed = list(samples)
    queries: list[dict[str, str]] = []
    corpus: dict[str, str] = {}
    for sample in listed:
        if sample.query is None:
            raise DataError(f"sample {sample.id!r} does not have a query, which a BEIR dataset needs")
        queries.append({"_id": sample.id, "text": sample.query})
        for place, passage in enumerate(sample.contexts or (), start=1):
            if passage.id is None:
                raise DataError(f"passage {place} of sample {sample.id!r} does not have an id, which a corpus needs")
            if corpus.setdefault(passage.id, passage.text) != passage.text:
                raise DataError(
                    f"passage {place} of sample {sample.id!r} has the id {passage.id!r}, which another text has as well"
                )
    graded = list(beir_lines(listed))
    folder = Path(folder)
    (folder / "qrels").mkdir(parents=True, exist_ok=True)
    _write(folder / "queries.jsonl", queries)
    _write(folder / "corpus.jsonl", ({"_id": name, "title": "", "text": text} for name, text in corpus.items()))
    write_output(folder / "qrels" / f"{split}.tsv", "".join(graded))


def _write(path: Path, rows: Iterable[dict[str, str]]) -> None:
    with open_output(path) as file:
        file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
