"""Laws of the redaction of JSON: an encoded value is redacted as the value itself."""

from __future__ import annotations

import json
import re
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from builders import make_trace
from ragstone.capture import redact_json, redact_secrets, redact_trace

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
