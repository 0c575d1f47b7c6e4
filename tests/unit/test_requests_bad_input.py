"""What an application does wrong in a block ends in one counted state that `ragstone status` explains."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from command_line import app
from ragstone.capture import Converter, redact_secrets
from ragstone.schema import spool_entry_adapter
from ragstone.settings import Lengths
from ragstone.store import SqliteStore
from ragstone.testing import MemoryRecorder

HITS = [{"id": 7, "vector": [1.0, 2.0]}]


def _never_answered(recorder: MemoryRecorder) -> None:
    with recorder.request("Why?") as r:
        r.found([{"text": "The passage."}])


def _answered_twice(recorder: MemoryRecorder) -> None:
    with recorder.request("Why?") as r:
        r.answer("One.")
        r.answer("Two.")


def _left_by_an_exception(recorder: MemoryRecorder) -> None:
    with pytest.raises(ValueError, match="boom"), recorder.request("Why?"):
        raise ValueError("boom")


def _dropped_generator(recorder: MemoryRecorder) -> None:
    def tokens() -> Iterator[str]:
        with recorder.request("Why?"):
            yield "a"
            yield "b"

    generator = tokens()
    next(generator)
    del generator
    gc.collect()


def _stream(recorder: MemoryRecorder) -> Any:
    with recorder.request("Why?") as r:
        return r.answer(iter(["a", "b"]))


def _dropped_stream(recorder: MemoryRecorder) -> None:
    stream = _stream(recorder)
    next(stream)
    del stream
    gc.collect()


def _stream_never_read(recorder: MemoryRecorder) -> None:
    stream = _stream(recorder)
    del stream
    gc.collect()


def _hits_without_text(recorder: MemoryRecorder) -> None:
    with recorder.request("Why?") as r:
        r.found(HITS)
        r.answer("Because.")


def _unreadable_hits(recorder: MemoryRecorder) -> None:
    with recorder.request("Why?") as r:
        r.found(object())  # type: ignore[type-var]
        r.answer("Because.")


def _explained(recorder: MemoryRecorder, folder: Path) -> list[str]:
    """Return what `ragstone status` explains about the requests of a recorder."""
    path = folder / "ragstone.db"
    converter = Converter(sample_rate=1.0, redact=redact_secrets, lengths=Lengths())
    entries = [spool_entry_adapter.validate_json(converter.line(draft)[1]) for draft in recorder.drafts]
    with SqliteStore.open(path, mode="own") as store:
        store.traces.ingest("a", 1, entries)
    result = CliRunner().invoke(app, ["status", str(path)])
    assert 0 == result.exit_code
    return [line for line in result.output.splitlines() if line.startswith(("in doubt", "ended"))]


@pytest.mark.parametrize(
    ("misuse", "line"),
    [
        (_never_answered, "in doubt, no_answer: 1. The application ended the request without an answer"),
        (_answered_twice, "in doubt, answered_twice: 1. The application called answer() twice"),
        (_left_by_an_exception, "ended, error: 1. An exception ended the request."),
        (_dropped_generator, "ended, truncated: 1. Its answer was not read to the end"),
        (_dropped_stream, "ended, truncated: 1. Its answer was not read to the end"),
        (_stream_never_read, "ended, abandoned: 1. Its stream was never read"),
        (_hits_without_text, "in doubt, without_text:found: 1. Hits that the application passed do not have a text"),
        (_unreadable_hits, "in doubt, unreadable:found: 1. Hits or a prompt that the application passed"),
    ],
)
def test_status_counts_and_explains_it(misuse: Callable[[MemoryRecorder], None], line: str, tmp_path: Path) -> None:
    """One line, and no other about the same request."""
    recorder = MemoryRecorder()
    misuse(recorder)

    (found,) = _explained(recorder, tmp_path)

    assert found.startswith(line)


def test_status_of_an_answered_request_explains_nothing(tmp_path: Path) -> None:
    """Requests that end normally have no line."""
    recorder = MemoryRecorder()
    with recorder.request("Why?") as r:
        r.answer("Because.")

    assert [] == _explained(recorder, tmp_path)
