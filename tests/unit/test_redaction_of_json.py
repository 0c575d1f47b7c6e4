"""Texts that are JSON, or contain JSON: their strings are redacted, and all else stays as it is written."""

from __future__ import annotations

import json
import re
import tracemalloc
from pathlib import Path

import pytest

from builders import make_trace
from ragstone import Monitor
from ragstone.capture import redact_secrets, redact_trace
from ragstone.requests import PassageDraft, TraceDraft
from ragstone.store import open_store

KEY = "sk-0123456789abcdefghij"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # All else of a JSON text stays as it is written.
        (
            rf'{{ "a" : "\n{KEY}",\n "n": [1.50, 1e400, NaN, -0] }}',
            '{ "a" : "\\n[key]",\\n "n": [1.50, 1e400, NaN, -0] }',
        ),
        (rf'["\ud800", "\u00e9\/", "\t{KEY}"]', r'["\ud800", "\u00e9\/", "\t[key]"]'),
        (rf'["é\ud800 {KEY}"]', '["é\ufffd [key]"]'),
        (rf'["é \n{KEY}"]', r'["é \n[key]"]'),
        (rf'{{"a": 1, "a": "\n{KEY}"}}', r'{"a": 1, "a": "\n[key]"}'),
        (f"[{'9' * 5000}, " + rf'"\n{KEY}"]', f"[{'9' * 5000}, " + r'"\n[key]"]'),
        # A number that is a card becomes a string.
        ('{"card": 4111111111111111}', '{"card": "[card]"}'),
        ("[8.469875801805135e-114, 4111111111111112]", "[8.469875801805135e-114, 4111111111111112]"),
        # Escapes within a secret.
        (r'["ada\u0040example.org", "4111\u00a01111\u00a01111\u00a01111"]', '["[email]", "[card]"]'),
        (r'["Bearer abcdef\/0123456789ABCDEF"]', '["Bearer [token]"]'),
        # Keys.
        (r'{"\nada@example.org": 1}', r'{"\n[email]": 1}'),
        ('{"a@b.org": 1, "c@d.org": 2}', '{"[email]": 1, "[email] #2": 2}'),
        ('{"a": {"Authorization": "Basic YWRhOnNlY3JldA=="}}', '{"a": {"Authorization": "Basic [token]"}}'),
        ('{"authorization": [{"a": 1}, "Basic YWRhOnNlY3JldA=="]}', '{"authorization": [{"a": 1}, "Basic [token]"]}'),
        ('{"ada@example.org authorization": "Basic YWRhOnNlY3JldA=="}', '{"[email] authorization": "Basic [token]"}'),
        (r'{"authorization": "\"Basic YWRhOnNlY3JldA==\""}', r'{"authorization": "\"Basic [token]\""}'),
        (r'{"authorization": "{\"n\": 4111111111111111}"}', r'{"authorization": "{\"n\": \"[card]\"}"}'),
        # An unfinished key ends with its string.
        (r'{"a": "-----BEGIN PRIVATE KEY-----\nMIIE", "b": 1}', '{"a": "[key]", "b": 1}'),
        # Not JSON: cut, with text around it, Python, several documents.
        (rf'{{"a": "\n{KEY}", "b": "\u00a0ada@example.org, \u00', r'{"a": "\n[key]", "b": "\u00a0[email], '),
        (rf'Found: ["é \n{KEY}"].', r'Found: ["é \n[key]"].'),
        (rf'Found: {{"a": "\u00a0{KEY}"}}.', r'Found: {"a": "\u00a0[key]"}.'),
        (rf"{{'a': 'x\n{KEY}', 'b': '\xa0ada@example.org'}}", r"{'a': 'x\n[key]', 'b': '\xa0[email]'}"),
        # The same with escapes within the secret: a quote before it, another escape that is invalid or cut, single quotes.
        (r'5" {"a": "\u0022ada\u0040example.org"}', r'5" {"a": "\u0022[email]"}'),
        (r'["ada\u0040example.org C:\\u0', r'["[email] C:\\u0'),
        (r'["4111\u00a01111\u00a01111\u00a01111 \x"', r'["[card] \x"'),
        (r"{'a': '4111\xa01111\xa01111\xa01111'}", "{'a': '[card]'}"),
        (r"""{'a': '{"b": "Bearer abcdef\\/0123456789\\u002BABCDEF"}'}""", """{'a': '{"b": "Bearer [token]"}'}"""),
        (r"'\U0001f511sk-0123456789abcdefghij \vAKIAIOSFODNN7EXAMPLE'", r"'\U0001f511[key] \v[key]'"),
        (r"'\u0041 ada@example.org'", r"'\u0041 [email]'"),
        ('{"a": 1}\n{"b": "\\nada@example.org"}', '{"a": 1}\n{"b": "\\n[email]"}'),
        ("[1] 4111 1111 1111 1111", "[1] [card]"),
        ("[" * 100_000 + r'"\nada@example.org"', "[" * 100_000 + r'"\n[email]"'),
        (rf'"\n{KEY}\x"', r'"\n[key]\x"'),
        (r"\nvapi-0123456789abcdefghijk", r"\[key]"),
    ],
)
def test_strings_of_json_are_redacted(text, expected):
    """Each secret goes, and a second time changes nothing."""
    assert expected == redact_secrets(text)
    assert expected == redact_secrets(expected)


def test_many_keys_become_different_names_in_linear_time():
    """100,000 addresses as keys keep their values."""
    text = "{" + ",".join(f'"u{n}@b.org": {n}' for n in range(100_000)) + "}"
    assert list(range(100_000)) == list(json.loads(redact_secrets(text)).values())


def test_json_in_json_is_redacted_in_each_level():
    """However often a text is encoded, it decodes to the redacted text."""
    text = '\n"ada@example.org'
    for _ in range(12):
        text = json.dumps([text])
    redacted = redact_secrets(text)
    for _ in range(12):
        (redacted,) = json.loads(redacted)
    assert '\n"[email]' == redacted


def redact_bookings(text: str) -> str:
    """Replace numbers of bookings, as a function of a user does."""
    return re.sub(r"\bBK-\d{6}\b", "[booking]", text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (r'{"note": "\nBK-123456"}', r'{"note": "\n[booking]"}'),
        (r'{"note": "\nBK-123456", "rest": "\tBK-123456 \u0', r'{"note": "\n[booking]", "rest": "\t[booking] '),
        (r'Found: ["\u00a0BK-123456"], BK-123456', r'Found: ["\u00a0[booking]"], [booking]'),
    ],
)
def test_functions_of_users_get_decoded_strings(text, expected):
    """Also of JSON within another text, and of JSON that was cut."""
    assert expected == redact_trace(make_trace("t", response=text), redact_bookings).response


def test_functions_of_users_get_the_json_too():
    """A function may know a secret by its key."""
    trace = make_trace("t", response=r'{"password": "\nopen", "n": 1}')
    found = redact_trace(trace, lambda text: re.sub(r'("password": )"[^"]*"', r'\1"[password]"', text))
    assert '{"password": "[password]", "n": 1}' == found.response


def test_large_json_is_redacted_without_parsing_it():
    """JSON of many values takes much memory when it is parsed. Its strings are redacted nevertheless."""
    text = "[" + "[]," * 2_000_000 + r'"\nada@example.org"]'
    tracemalloc.start()
    try:
        assert redact_secrets(text).endswith(r'[],"\n[email]"]')
        assert tracemalloc.get_traced_memory()[1] < 10 * len(text)
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "redact", [redact_secrets, lambda text: re.sub(r"\bsk-\w+", "[key]", text)], ids=["default", "user"]
)
def test_a_monitor_stores_no_secret_of_json(tmp_path: Path, redact):
    """In all fields of a request and in feedback, and the JSON is valid."""
    note = json.dumps({"note": json.dumps([f"\n{KEY}"])})
    draft = TraceDraft(
        trace_id="t",
        query=note,
        response=note,
        contexts=[PassageDraft(text=note, metadata={"source": note})],
        error=f"ValueError: {note}",
        tags=[note],
        metadata={"arguments": note, note: {"nested": [note]}},
    )
    with Monitor(judge="lexical", store=tmp_path / "ragstone.db", redact=redact) as monitor:
        monitor.record(draft)
        assert monitor.flush(60)
        assert monitor.feedback("t", 0, comment=note)
        assert monitor.drain(60)
    with open_store(tmp_path / "ragstone.db", mode="read") as store:
        (trace,) = store.traces.read()
        (feedback,) = store.traces.explain("t").feedback
    for text in (trace.query, trace.response, trace.contexts[0].text, trace.metadata["arguments"], feedback.comment):
        assert ["\n[key]"] == json.loads(json.loads(text)["note"])
    assert KEY not in trace.model_dump_json()
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and KEY.encode() in path.read_bytes()]
