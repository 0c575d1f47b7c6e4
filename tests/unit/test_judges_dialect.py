"""What refusals teach, and how long a server wants to be left alone."""

from __future__ import annotations

import pytest

from ragstone.judges._http.dialect import CONSTRAINTS, Dialect
from ragstone.judges._http.endpoint import RequestRefusedError, retry_after_s

SAMPLING = {"temperature": 0.0, "seed": 1}


def refused(message, *, status=400, param=None):
    return RequestRefusedError(message, status=status, param=param)


@pytest.mark.parametrize(
    ("refusal", "expected"),
    [
        (
            refused("Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.", param="max_tokens"),
            Dialect(max_tokens_name="max_completion_tokens"),
        ),
        (refused("max_tokens is not supported with this model"), Dialect(max_tokens_name="max_completion_tokens")),
        (refused("temperature must be 1", param="temperature"), Dialect(omitted=frozenset({"temperature"}))),
        (refused("extra fields: seed", status=422), Dialect(omitted=frozenset({"seed"}))),
        (refused("System role not supported"), Dialect(fold_system=True)),
        (refused("This model's maximum context length is 2048 tokens; max_tokens is too large"), None),
        (refused("max_tokens=9999 cannot be greater than max_model_len=2048", param="max_tokens"), None),
        (refused("max_tokens: must be at most 8, maximum 8", param="max_tokens"), None),
        (refused("no such model", param="model"), None),
        (refused("temperature", status=401), None),
    ],
)
def test_adaptation(refusal, expected):
    """A parameter that is refused is renamed or left out; anything else is the request's own fault."""
    assert expected == Dialect().adapted(refusal, SAMPLING)


def test_adaptation_ends():
    """Nothing is tried twice."""
    dialect = Dialect(max_tokens_name="max_completion_tokens", omitted=frozenset(SAMPLING), fold_system=True)
    for message in ("max_tokens", "temperature", "seed", "system role not supported"):
        assert dialect.adapted(refused(message), SAMPLING) is None


def test_folded_system_message():
    """For chat templates without a system turn."""
    body = Dialect(fold_system=True, omitted=frozenset({"seed"})).body(
        model="m",
        messages=[{"role": "system", "content": "S"}, {"role": "user", "content": "U"}],
        max_tokens=5,
        sampling=SAMPLING,
    )
    assert [{"role": "user", "content": "S\n\nU"}] == body["messages"]
    assert {"model", "messages", "max_tokens", "temperature"} == set(body)


@pytest.mark.parametrize(("constraint", "obeying"), [(CONSTRAINTS[0], "85"), (CONSTRAINTS[1], ' {"score":\n85}')])
def test_constraint_is_believed_when_obeyed(constraint, obeying):
    """A reply of another form means that the server ignored what it was told."""
    assert constraint.obeyed(obeying, 0, 100)
    for other in ("Score: 85", "101", '{"score": 101}', '{"score": 85, "why": 1}', "", "8" * 5000):
        assert not constraint.obeyed(other, 0, 100)


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, None),
        ({"retry-after": "3"}, 3.0),
        ({"retry-after": " 0.5 "}, 0.5),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after": "Tue, 14 Nov 2023 22:13:30 GMT"}, 10.0),
        ({"retry-after": "Tue, 14 Nov 2023 22:13:00 GMT"}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "nan"}, None),
    ],
)
def test_retry_after(headers, expected):
    """Seconds, milliseconds or a date; what cannot be read is as if absent."""
    assert expected == retry_after_s(headers, clock=lambda: 1_700_000_000.0)
