"""What refusals teach, and how long a server wants to be left alone."""

from __future__ import annotations

import pytest

from ragstone._util.waiting import retry_after_s
from ragstone.judges._http.constraints import is_obeyed
from ragstone.judges._http.dialect import Dialect, kind_of
from ragstone.judges._http.errors import RequestRefusedError

SAMPLING = {"temperature": 0.0, "seed": 1}
KIND = kind_of(SAMPLING)


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
        (refused("temperature must be 1", param="temperature"), Dialect(omitted=frozenset({(KIND, "temperature")}))),
        (refused("extra fields: seed", status=422), Dialect(omitted=frozenset({(KIND, "seed")}))),
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


DRAWS = {"temperature": 1.0, "top_p": 1.0, "top_k": -1, "min_p": 0.0, "seed": 3}


@pytest.mark.parametrize(
    ("refusal", "sampling", "dropped"),
    [
        (refused("`temperature` and `top_p` cannot both be specified for this model."), DRAWS, {"top_p"}),
        (refused("property 'top_k' is unsupported, did you mean 'top_p'?"), DRAWS, {"top_k", "top_p"}),
        (refused("body.top_k: Extra inputs. body.seed: Extra inputs.", status=422), DRAWS, {"top_k"}),
        (refused("no seed with this temperature"), DRAWS, {"seed"}),
        (refused("`temperature` and `top_p` cannot both be specified"), DRAWS | {"top_p": 0.9}, {"top_p"}),
        (refused("does not support the parameter `temperature`"), DRAWS, {"temperature"}),
        (refused("body.min_p: property unsupported", param="validation_error"), DRAWS, {"min_p"}),
    ],
)
def test_parameters_without_an_effect_are_dropped_first(refusal, sampling, dropped):
    """The temperature stays as long as another parameter can be the reason."""
    adapted = Dialect().adapted(refusal, sampling)
    assert dropped == adapted.omits(sampling)
    assert set() == adapted.omits({"temperature": 0.0})


def test_dialects_are_read_from_json():
    """Everything that was learned; nothing that another version wrote."""
    adapted = Dialect().adapted(refused("temperature"), DRAWS).with_reasoning("tags")
    assert adapted == Dialect.from_json(adapted.to_json())
    for other in ("{}", "[]", adapted.to_json().replace("reasons", "ponders")):
        with pytest.raises(ValueError, match="not a dialect"):
            Dialect.from_json(other)


@pytest.mark.parametrize(
    ("refusal", "fields", "expected"),
    [
        (refused("Could not finish the message. Try again with higher max_tokens"), {}, {"reasoning_tokens": 4096}),
        (refused("parameter.enable_thinking must be set to false"), {}, {"disables_thinking": True}),
        (refused("parameter.enable_thinking must be set to false"), {"enable_thinking": True}, None),
        (refused("'n' : number must be at most 1"), {"n": 5}, {"single_replies": True}),
        (refused("'n' : number must be at most 1"), {}, None),
    ],
)
def test_other_adaptations(refusal, fields, expected):
    """Room for reasoning, no thinking, single replies; a field of the user stays as it is."""
    adapted = Dialect().adapted(refusal, SAMPLING, fields)
    if expected is None:
        assert adapted is None
    else:
        assert expected == {name: getattr(adapted, name) for name in expected}


def test_room_for_reasoning_is_halved_if_the_context_is_short():
    """And not below 512 tokens."""
    dialect, sizes = Dialect().with_reasoning("tags"), []
    while dialect is not None:
        sizes.append(dialect.reasoning_tokens)
        dialect = dialect.adapted(refused("This model's maximum context length is 2048 tokens"), SAMPLING)
    assert [4096, 2048, 1024, 512] == sizes


def test_adaptation_ends():
    """Nothing is tried twice."""
    dialect = Dialect(
        max_tokens_name="max_completion_tokens", omitted=frozenset((KIND, name) for name in SAMPLING), fold_system=True
    )
    for message in ("max_tokens", "temperature", "seed", "system role not supported"):
        assert dialect.adapted(refused(message), SAMPLING) is None


def test_folded_system_message():
    """For chat templates without a system turn."""
    body = Dialect(fold_system=True, omitted=frozenset({(KIND, "seed")})).body(
        model="m",
        messages=[{"role": "system", "content": "S"}, {"role": "user", "content": "U"}],
        max_tokens=5,
        sampling=SAMPLING,
    )
    assert [{"role": "user", "content": "S\n\nU"}] == body["messages"]
    assert {"model", "messages", "max_tokens", "temperature"} == set(body)


@pytest.mark.parametrize(("constraint", "obeying"), [("regex", "85"), ("json_schema", ' {"score":\n85}')])
def test_constraint_is_believed_when_obeyed(constraint, obeying):
    """A reply of another form means that the server ignored what it was told."""
    assert is_obeyed(constraint, obeying, 0, 100)
    for other in ("Score: 85", "101", '{"score": 101}', '{"score": 85, "why": 1}', "", "8" * 5000):
        assert not is_obeyed(constraint, other, 0, 100)


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
