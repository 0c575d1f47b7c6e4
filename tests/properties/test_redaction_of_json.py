"""Laws of the redaction of JSON: an encoded value is redacted as the value itself."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from google.protobuf.json_format import MessageToDict
from hypothesis import example, given
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from builders import make_trace
from ragstone.capture import redact_json, redact_secrets, redact_trace
from ragstone.reading import BufferedSpan
from ragstone.reading.otlp import spans_of_request

SECRETS = (
    "ada@example.org", "bob@example.org", "sk-0123456789abcdefghij", "AKIAIOSFODNN7EXAMPLE", "4111 1111 1111 1111",
    "4111111111111111", "4111\u00a01111\u00a01111\u00a01111", "Bearer abcdef/0123456789ABCDEF",
    "npm_0123456789abcdefghijABCDEFGHIJ012345", "Basic YWRhOnNlY3JldA==", "BK-123456", "-----BEGIN PRIVATE KEY-----\nMIIE",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0",
)  # fmt: skip
SEPARATORS = ("", "\n", "\t", "\r", "\b", "\f", "\u00a0", '"', "\\", "/", "{", "[", '"}', "\\n", "\\u00a0", "\\\\")
TEXTS = st.lists(st.sampled_from(SECRETS + SEPARATORS) | st.text(max_size=3), max_size=5).map("".join)
KEYS = TEXTS | st.sampled_from(("Authorization", "http.request.header.authorization", "[email]", "[email] #2"))
NUMBERS = (
    st.integers()
    | st.floats(allow_nan=False)
    | st.sampled_from((4111111111111111, 4111111111111111.0, -5555555555554444))
)
LEAVES = st.none() | st.booleans() | NUMBERS | TEXTS


def nested(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Lists and objects of values, and the JSON texts of both."""
    containers = st.lists(values, max_size=4) | st.dictionaries(KEYS, values, max_size=4)
    return containers | st.builds(encode, containers, st.booleans())


def encode(value: Any, is_ascii: bool) -> str:
    """JSON, with and without escapes of characters beyond ASCII."""
    return json.dumps(value, ensure_ascii=is_ascii)


VALUES = st.recursive(LEAVES, nested, max_leaves=12).filter(lambda value: not isinstance(value, int | float | None))


@given(VALUES, st.booleans())
@example({"a": "\nada@example.org", "\u00a0bob@example.org": ["\t4111111111111111", 4111111111111111]}, True)
@example({"ada@example.org": 1, "bob@example.org": 2, "[email]": 3}, True)
@example({"Authorization": "Basic YWRhOnNlY3JldA=="}, True)
def test_encoded_values_are_redacted_as_values(value: Any, is_ascii: bool) -> None:
    """The redacted JSON text of a value is the JSON text of the redacted value."""
    assert redact_json(value, redact_secrets) == json.loads(redact_secrets(encode(value, is_ascii)))


@given(VALUES, st.booleans())
@example(["\nBK-123456", "\u00a0BK-123456"], True)
def test_functions_of_users_receive_decoded_values(value: Any, is_ascii: bool) -> None:
    """A function of the user changes the JSON text of a value as it changes the value."""
    trace = make_trace("t", response=encode(value, is_ascii), metadata={"value": value})
    found = redact_trace(trace, lambda text: re.sub(r"\bBK-\d{6}", "[booking]", text))
    assert found.metadata["value"] == json.loads(found.response or "")


@given(
    st.lists(st.tuples(st.sampled_from("\n\t\r\b\f\u00a0/"), st.sampled_from(SECRETS[:4])), min_size=1, max_size=4),
    st.integers(min_value=1, max_value=200),
)
@example([("\n", "ada@example.org"), ("\u00a0", "sk-0123456789abcdefghij")], 60)
def test_cut_json_is_redacted(values: list[tuple[str, str]], n: int) -> None:
    """A secret that is whole in the beginning of a JSON text is not in the redacted beginning."""
    text = json.dumps([before + secret + before for before, secret in values])[:n]
    assert not [secret for secret in SECRETS[:4] if secret in redact_secrets(text)]


ENCODINGS = {
    "as it is": lambda text: text,
    "JSON": lambda text: json.dumps([text]),
    "JSON beyond ASCII": lambda text: json.dumps({"note": text}, ensure_ascii=False),
    "JSON in JSON": lambda text: json.dumps({"arguments": json.dumps({"q": text})}),
    "JSON in JSON in JSON": lambda text: json.dumps([json.dumps([json.dumps([text])])]),
}


@pytest.mark.parametrize("name", ENCODINGS)
@given(text=TEXTS)
@example(text="\n4111\u202f1111\u202f1111\u202f1111")
@example(text="4111\t1111\t1111\t1111")
@example(text="\tBearer\nabcdef0123456789ABCDEF")
@example(text="\uff14\uff11\uff11\uff11" + "\u2013\uff11\uff11\uff11\uff11" * 3)
def test_spans_are_redacted_before_and_after_each_encoding(name: str, text: str) -> None:
    """A value is redacted in OTLP/JSON and OTLP/protobuf as before it was encoded, also if it is JSON in JSON."""
    encode_value = ENCODINGS[name]
    span = {
        "trace_id": b"1" * 16,
        "span_id": b"2" * 8,
        "name": "ask",
        "start_time_unix_nano": 1,
        "end_time_unix_nano": 2,
    }
    attribute = {"key": "input.value", "value": {"string_value": encode_value(text)}}
    message = ExportTraceServiceRequest(
        resource_spans=[{"scope_spans": [{"spans": [span | {"attributes": [attribute]}]}]}]
    )
    as_json = MessageToDict(message)
    as_json["resourceSpans"][0]["scopeSpans"][0]["spans"][0] |= {"traceId": "31" * 16, "spanId": "32" * 8}
    redacted = redact_secrets(text)
    for body, kind in (
        (message.SerializeToString(), "application/x-protobuf"),
        (json.dumps(as_json).encode(), "application/json"),
        (json.dumps(as_json, ensure_ascii=False).encode(), "application/json"),
    ):
        (found,) = spans_of_request(body, kind, redact=redact_secrets)
        assert isinstance(found, BufferedSpan)
        assert any(given in strings_in(json.loads(found.body)) for given in (encode_value(redacted), redacted))


def strings_in(value: Any) -> set[str]:
    """All texts in a value of JSON."""
    if isinstance(value, dict | list):
        parts = value.values() if isinstance(value, dict) else value
        return {text for part in parts for text in strings_in(part)}
    return {value} if isinstance(value, str) else set()
