"""Hashes instead of the ids of users and sessions, in each way into a store."""

from __future__ import annotations

import json
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from builders import make_trace
from command_line import run_command
from ragstone import Monitor
from ragstone.capture import IdHasher, redact_secrets, redact_trace
from ragstone.errors import ConfigurationError, StoreError
from ragstone.ingest import OtlpTraceSource, SharedSpanBuffer
from ragstone.reading.otlp import spans_of_request
from ragstone.requests import TraceDraft
from ragstone.schema import Trace
from ragstone.store import SqliteStore, open_store
from ragstone.worker import StepErrors, id_hasher


def stored(store: Path) -> list[Trace]:
    """All requests of a store."""
    with open_store(store, mode="read") as opened:
        return list(opened.traces.read())


def capture(store: Path, *users: str, **options: object) -> list[Trace]:
    """Record one request of each user, and return what is stored."""
    with Monitor(judge="lexical", metrics=["ccrs"], store=store, **options) as monitor:
        for user in users:
            monitor.record(TraceDraft(query="Why?", response="So.", user_id=user, session_id=f"chat of {user}"))
        assert monitor.drain(60)
    return stored(store)


def test_a_monitor_stores_hashes(tmp_path: Path):
    """The same user has the same hash, also in a later process; no file has the id, except that of another store."""
    store = tmp_path / "ragstone.db"
    first = capture(store, "ada@example.org", "bob", "ada@example.org", ids="hash")
    ids = [trace.user_id for trace in first]
    assert ids[0] == ids[2] != ids[1]
    assert first[0].session_id == first[2].session_id != ids[0]
    assert all(id_ is not None and id_.startswith("h-") and len(id_) == 34 for id_ in ids)
    again = capture(store, "bob", ids="hash")
    assert ids[1] == again[-1].user_id

    for file in tmp_path.rglob("*"):
        assert not file.is_file() or b"chat of" not in file.read_bytes()
    key = tmp_path / "ragstone.db.key"
    assert 0o600 == stat.S_IMODE(key.stat().st_mode)
    (other,) = capture(tmp_path / "other.db", "bob", ids="hash")
    assert other.user_id != ids[1]
    (kept,) = capture(tmp_path / "kept.db", "bob")
    assert ("bob", "chat of bob") == (kept.user_id, kept.session_id)
    assert not (tmp_path / "kept.db.key").exists()


def test_a_damaged_key_is_not_replaced(tmp_path: Path):
    """A new key would make new users of the old ones. The request is lost, counted, and nothing unhashed is written."""
    (tmp_path / "ragstone.db.key").write_bytes(b"short")
    with Monitor(judge="lexical", store=tmp_path / "ragstone.db", ids="hash") as monitor:
        monitor.record(TraceDraft(query="Why?", response="So.", user_id="bob"))
        monitor.record(TraceDraft(query="Why?", response="So."))
        assert not monitor.flush(60)
        assert {"redaction_failed": 1} == monitor.counters.dropped
    assert b"short" == (tmp_path / "ragstone.db.key").read_bytes()
    with pytest.raises(StoreError, match="has 5 bytes instead of 32"):
        IdHasher(tmp_path / "ragstone.db.key")("user", "bob")


def test_processes_that_start_together_agree_on_a_key(tmp_path: Path):
    """The first one counts, and nothing else stays in the folder."""
    hashers = [IdHasher(tmp_path / "key") for _ in range(16)]
    with ThreadPoolExecutor(16) as pool:
        assert 1 == len(set(pool.map(lambda hasher: hasher("user", "ada"), hashers)))
    assert [tmp_path / "key"] == list(tmp_path.iterdir())


def test_a_database_needs_the_key_of_all_hosts(monkeypatch: pytest.MonkeyPatch):
    """Each host would otherwise make its own."""
    monkeypatch.delenv("RAGSTONE_ID_KEY", raising=False)
    with pytest.raises(ConfigurationError, match="RAGSTONE_ID_KEY"):
        id_hasher("postgresql://h/d", "hash")
    monkeypatch.setenv("RAGSTONE_ID_KEY", "short")
    with pytest.raises(ConfigurationError, match="at least 16"):
        id_hasher("postgresql://h/d", "hash")
    monkeypatch.setenv("RAGSTONE_ID_KEY", "a key of sixteen")
    hasher = id_hasher("postgresql://h/d", "hash")
    assert hasher is not None
    # HMAC-SHA-256 of "user", NUL, "ada", as `openssl dgst -sha256 -hmac` computes it.
    assert "h-" + EXPECTED == hasher("user", "ada")
    assert id_hasher("postgresql://h/d", "keep") is None
    with pytest.raises(ConfigurationError, match="'keep' or 'hash'"):
        id_hasher("postgresql://h/d", "none")  # type: ignore[arg-type]


EXPECTED = "509e01df98f351b96238dd62cb5dcc01"


def test_replay_stores_hashes(tmp_path: Path):
    """By the command, with the key of the store."""
    trace = make_trace(trace_id="t", user_id="ada", session_id="s")
    (tmp_path / "traces.jsonl").write_text(trace.model_dump_json() + "\n")
    store = tmp_path / "ragstone.db"
    done = run_command(
        "replay", tmp_path / "traces.jsonl", "--store", store, "--judge", "lexical", "--set", "redaction.ids=hash"
    )
    assert 0 == done.returncode, done.stderr
    hasher = id_hasher(store, "hash")
    assert hasher is not None
    (found,) = stored(store)
    assert (hasher("user", "ada"), hasher("session", "s")) == (found.user_id, found.session_id)


def test_ingest_stores_hashes(tmp_path: Path):
    """When spans become requests."""
    texts = {
        "openinference.span.kind": "CHAIN",
        "input.value": "Why?",
        "output.value": "So.",
        "user.id": "ada",
        "session.id": "s",
    }
    span = {
        "traceId": "a" * 32,
        "spanId": "b" * 16,
        "name": "ask",
        "startTimeUnixNano": "1767225600000000000",
        "endTimeUnixNano": "1767225601000000000",
        "attributes": [{"key": key, "value": {"stringValue": text}} for key, text in texts.items()],
    }
    message = json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}).encode()
    buffer = SharedSpanBuffer(tmp_path / "spans")
    buffer.add(spans_of_request(message, "application/json", redact=None))  # type: ignore[arg-type]
    hasher = IdHasher(tmp_path / "key")
    source = OtlpTraceSource(buffer, idle_timeout_s=-1, hash_id=hasher)
    with SqliteStore.open(tmp_path / "s.db", mode="own") as store:
        assert 1 == source.transfer_batch(store, StepErrors())
        (found,) = store.traces.read()
    buffer.close()
    assert (hasher("user", "ada"), hasher("session", "s")) == (found.user_id, found.session_id)


def test_names_do_not_contain_secrets(tmp_path: Path):
    """The default rules apply to them, and a function of the user does not, because conditions contain names."""
    with Monitor(judge="lexical", store=tmp_path / "a.db", redact=lambda _: "gone") as monitor:
        monitor.record(
            TraceDraft(query="Why?", response="So.", name="mail of ada@example.org", model="gpt of a@b.example")
        )
        monitor.record(TraceDraft(query="Why?", response="So.", name="plain", model="gpt-4"))
        assert monitor.drain(60)
    first, second = stored(tmp_path / "a.db")
    assert "ada" not in f"{first.name} {first.model}"
    assert ("plain", "gpt-4", "gone") == (second.name, second.model, second.query)
    trace = redact_trace(make_trace(name="to a@b.example", model="m of a@b.example"), redact_secrets)
    assert "@b" not in f"{trace.name} {trace.model}"
