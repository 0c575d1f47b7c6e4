"""Every reader of rows has the same limits: a row that is too long, or has too many values, is refused with its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragstone.errors import ConfigurationError, DataError
from ragstone.experiments import read_outcomes
from ragstone.reading import read_qrels, read_samples
from ragstone.settings import read_file
from ragstone_lab._dataset.documents import read_documents
from ragstone_lab._validation.labels import read_labels

READERS = {
    "outcomes.jsonl": lambda path: read_outcomes(path, name="a"),
    "qrels.txt": read_qrels,
    "answers.run": read_samples,
    "documents.jsonl": lambda path: read_documents([path]),
    "labels.jsonl": lambda path: read_labels(path, metrics=["m"]),
}


@pytest.mark.parametrize("name", READERS)
def test_too_many_values_are_refused(tmp_path: Path, name: str):
    """A megabyte of brackets would take a hundred times as much memory."""
    path = tmp_path / name
    path.write_bytes(b"[" + b"[]," * 600_000 + b"[]]\n")
    with pytest.raises(DataError, match=r"(line|row) 1\b.*more than 500000 lists and objects"):
        READERS[name](path)


@pytest.mark.parametrize("name", [name for name in READERS if name != "documents.jsonl"])
def test_a_long_row_is_refused(tmp_path: Path, name: str):
    """Files of documents have a smaller limit of their own."""
    path = tmp_path / name
    path.write_bytes(b'{"a": "' + b"x" * 17 * 2**20 + b'"}\n')
    with pytest.raises(DataError, match=r"(longer|more) than 16777216 bytes"):
        READERS[name](path)


def test_a_configuration_without_end_is_refused():
    """A device, or the wrong file."""
    with pytest.raises(ConfigurationError, match="more than 1,048,576 bytes"):
        read_file("/dev/zero")
