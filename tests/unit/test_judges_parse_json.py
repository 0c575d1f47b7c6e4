"""`parse_json`, case by case: one value of the shape that was asked for, or an error."""

from __future__ import annotations

import json
from typing import Annotated

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import Field, TypeAdapter
from typing_extensions import TypedDict

from ragstone.errors import JudgeReplyError
from ragstone.judges import _parse
from ragstone.judges._parse import json_request, json_schema_of, parse_json


class Items(TypedDict):
    """A list of texts."""

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012  as pydantic wants it
    items: list[str]


class Mark(TypedDict):
    """A number from 0 to 5."""

    n: Annotated[int, Field(ge=0, le=5)]


ITEMS: TypeAdapter[Items] = TypeAdapter(Items)
MARK: TypeAdapter[Mark] = TypeAdapter(Mark)


@pytest.mark.parametrize(
    "text",
    [
        '{"n": 3}',
        ' \n{"n":3}\n ',
        '```json\n{"n": 3}\n```',
        '```\n{"n": 3}\n```',
        '```JSON {"n": 3}```',
        'Here it is:\n```json\n{"n": 3}\n```\nI hope that it helps.',
        'Sure! {"n": 3} That is all.',
        'Passage [1] says so [see above]: {"n": 3}',
        'As {braces} go: \n```json\n{"n": 3}\n```',
        '<think>{"n": 5}? No, {"n": 4}.</think>{"n": 3}',
        'reasoning that began out of sight </think>\n{"n": 3}',
        '{"n": 3}\n{"n": 3}',
        'The schema {"type": "object"} asks for {"n": 3}',
        '{"n": 9} is too much, so {"n": 3}',
        '[{"m": 1}] and {"n": 3}',
    ],
)
def test_reads(text):
    """One value of the shape, stated once or several times alike."""
    assert {"n": 3} == parse_json(text, MARK)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "   ",
        "three",
        "3",
        "null",
        '{"n": 3',
        '{"n": 3,}',
        "{'n': 3}",
        '{"n": "3"}',
        '{"n": true}',
        '{"n": 3.0}',
        '{"n": 3.5}',
        '{"n": null}',
        '{"n": 6}',
        '{"n": -1}',
        '{"n": NaN}',
        '{"n": Infinity}',
        '{"n": -Infinity}',
        '{"n": 1e999}',
        '{"n": 3, "n": 4}',
        '{"n": 3, "n": 3}',
        '{"m": 3}',
        '[{"n": 3}]',
        '{"outer": {"n": 3}}',
        '{"n": 3} or {"n": 4}',
        '{broken {"n": 3}',
        '<think>{"n": 3}',
        '{"n": 3}<think>or',
        '{"n": ' + "9" * 5000 + "}",
        "[" * 100_000,
        '{"n":' * 100_000,
        '{"n":' * 800 + "3" + "}" * 800,
        "[" * 800 + "]" * 800,
    ],
    ids=lambda text: text[:30],
)
def test_refuses(text):
    """No value, several, or one of another shape: an error that keeps the reply. Nothing is repaired."""
    with pytest.raises(JudgeReplyError) as caught:
        parse_json(text, MARK)
    assert ("unparseable", text) == (caught.value.kind, caught.value.raw)
    assert len(str(caught.value)) < 600


@pytest.mark.parametrize(
    "item",
    [
        "Use ```x``` to run it",
        "```",
        'He said "{x}"',
        "[1] and {2}",
        "</think>",
        "<think>",
        "a\nb",
        "\u2028",
        "\U0001f600",
    ],
)
def test_what_a_text_in_the_value_looks_like_does_not_matter(item):
    """Fences, brackets and quotes inside a string are its letters."""
    value = {"items": [item]}
    plain = json.dumps(value)
    assert value == parse_json(plain, ITEMS)
    if "think" not in item:
        assert value == parse_json(f"```json\n{json.dumps(value, indent=1)}\n```", ITEMS)
        assert value == parse_json(f"Here:\n{plain}", ITEMS)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "-1e999"])
def test_what_is_no_number_of_json_is_refused(number):
    """Also where the shape would take any float."""
    with pytest.raises(JudgeReplyError, match="not contain valid JSON"):
        parse_json(f'{{"x": {number}}}', TypeAdapter(dict[str, float]))
    assert {"x": 1.5} == parse_json('{"x": 1.5}', TypeAdapter(dict[str, float]))


def test_a_lone_surrogate_is_refused():
    """No file and no database takes it."""
    with pytest.raises(JudgeReplyError):
        parse_json('{"items": ["\\ud800"]}', ITEMS)


def test_says_which_place_is_wrong():
    """Whoever reads the failure sees where the shape was missed."""
    with pytest.raises(JudgeReplyError, match=r"items\.1: .*string"):
        parse_json('{"items": ["a", 1]}', ITEMS)
    with pytest.raises(JudgeReplyError, match="more: "):
        parse_json('{"items": [], "more": 1}', ITEMS)


def test_lists_may_become_tuples():
    """A shape is pydantic's: what JSON can spell of it."""
    assert (1, 2) == parse_json("[1, 2]", TypeAdapter(tuple[int, int]))


@pytest.mark.parametrize("unit", ['{"a":', "[", "[1,", '["', "```json\n", "{", "a [b ", "</think>", '{"n": 3} '])
def test_long_replies_take_no_time(unit):
    """A server gone wild costs no more than its length (the suite's time limit decides)."""
    try:
        value = parse_json(unit * 10_000, MARK)
    except JudgeReplyError:
        return
    assert {"n": 3} == value


def each_bracket(text):
    """The values in a text, by decoding from each bracket on: the rule, in quadratic time."""
    values, at = [], 0
    while opening := _parse._OPENING.search(text, at):
        try:
            value, at = _parse._DECODER.raw_decode(text, opening.start())
        except ValueError:
            if opening.group() == "{":
                return []
            at = opening.end()
        else:
            values.append(value)
    return values


PARTS = [
    "[", "[", "]", "{", "}", '{"a":', '{"a":1,"a":2}', '"', "\\", "\\u00", ",", ":", "1", "1e999", "9" * 4301, "NaN", " ", "x", "\x01",
]  # fmt: skip


@settings(max_examples=500)
@given(st.lists(st.sampled_from(PARTS), max_size=14).map("".join))
def test_broken_brackets_are_known_without_decoding_them(text):
    """What is skipped would not have been a value."""
    assert each_bracket(text) == _parse._values(text)


@pytest.mark.parametrize("error", ["x", "", "NaN", "1e999", '{"a":1,"a":2}', '"', '"\\x"', "]"])
def test_open_brackets_are_decoded_once(error, monkeypatch):
    """The work is that of a few brackets, not of all that are open."""
    decoded = []

    class Counting(json.JSONDecoder):
        def raw_decode(self, s, idx=0):
            decoded.append(len(s) - idx)
            return decode(s, idx)

    decode = _parse._DECODER.raw_decode
    monkeypatch.setattr(_parse, "_DECODER", Counting())
    text = "[" * 400 + "1," * 10_000 + error
    assert _parse._values(text) == []
    assert sum(decoded) <= 25 * len(text)


def test_schema_has_no_titles_but_a_property_of_that_name():
    """Titles cost tokens and say nothing; a property called so is part of the shape."""
    shape = TypeAdapter(TypedDict("Book", {"title": str, "year": int}))
    schema = json_schema_of(shape)
    assert {"title", "year"} == set(schema["properties"])
    assert "title" not in schema
    assert "title" not in schema["properties"]["year"]
    assert json_request(schema).count('"title"') == 2


def marks(count, low=0, high=1):
    """The schema of integers "1", "2", ... in one range."""
    names = [str(number) for number in range(1, count + 1)]
    mark = {"maximum": high, "minimum": low, "type": "integer"}
    return {"type": "object", "properties": dict.fromkeys(names, mark), "required": names}


def test_marks_are_requested_with_an_example():
    """As short for twenty keys as for two."""
    assert json_request(marks(20)).endswith('"1" to "20" and an integer from 0 to 1 for each, as in {"1":0,"2":1}.')
    assert json_request(marks(1, high=5)).endswith('"1" to "1" and an integer from 0 to 5 for each, as in {"1":5}.')
    assert abs(len(json_request(marks(20))) - len(json_request(marks(2)))) <= 1


@pytest.mark.parametrize(
    "change",
    [
        {"required": ["1"]},
        {"properties": {"1": {"type": "integer"}, "2": {"type": "integer"}}},
        {"properties": {"a": {"minimum": 0, "maximum": 1, "type": "integer"}}, "required": ["a"]},
        {"properties": {"1": {"minimum": 0, "maximum": 1, "type": "number"}}, "required": ["1"]},
        {"properties": {}, "required": []},
    ],
)
def test_other_shapes_are_requested_by_their_schema(change):
    """An example would not describe them."""
    assert "JSON Schema" in json_request(marks(2) | change)


def test_a_fence_may_end_on_the_line_of_the_value():
    """What stands before the fence is not part of the reply."""
    assert {"n": 3} == parse_json('Not {"n": 1}, but\n```json\n{"n": 3}```', TypeAdapter(dict[str, int]))


def test_a_value_after_a_long_text():
    """The text before it may have any length."""
    assert {"n": 3} == parse_json("reasons " * 1000 + '{"n": 3}', TypeAdapter(dict[str, int]))
