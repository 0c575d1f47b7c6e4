"""What tests of readers share: a file of bytes, read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ragstone.reading import InputFile, RejectedRecord, TraceFormat
from ragstone.schema import Trace

Read = Callable[..., tuple[list[Trace], list[RejectedRecord]]]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    """Read bytes, or a file, with a format: the traces, and what could not be read."""

    def run(trace_format: TraceFormat, content: bytes | Path) -> tuple[list[Trace], list[RejectedRecord]]:
        path = content if isinstance(content, Path) else tmp_path / "export"
        if isinstance(content, bytes):
            path.write_bytes(content)
        items = list(trace_format.read(InputFile(path, path.name)))
        return (
            [item for item in items if isinstance(item, Trace)],
            [item for item in items if isinstance(item, RejectedRecord)],
        )

    return run
