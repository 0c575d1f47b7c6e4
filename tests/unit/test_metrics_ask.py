"""What judged metrics ask beyond a number: short texts, and marks that no missing one shifts."""

from __future__ import annotations

import asyncio

import pytest

from ragstone.errors import JudgeReplyError
from ragstone.judges import Prompt
from ragstone.judges._parse import json_schema_of
from ragstone.metrics._ask import _marks_shape, _texts_shape, ask_ratings, ask_text_list
from ragstone.testing import FakeJudge

PROMPT = Prompt(construct="x", task="Your assignment: x.", fields={"text": "t"})


def texts(reply, *, most=3):
    return asyncio.run(ask_text_list(FakeJudge(json={"x": reply}), PROMPT, most=most)).texts


def marks(reply, count=2, **scale):
    return asyncio.run(ask_ratings(FakeJudge(json={"x": reply}), PROMPT, count, **scale)).marks


def test_texts_are_stripped_and_come_once():
    """In the judge's order; there may be none."""
    assert ("b", "a") == texts({"items": [" b ", "a", "b"]})
    assert () == texts({"items": [" ", ""]}) == texts({"items": []})


@pytest.mark.parametrize(
    "reply",
    [{"items": ["a"] * 4}, {"items": [1]}, {"items": "a"}, {}, [], {"items": [], "more": 1}, {"items": ["x" * 1001]}],
)
def test_texts_of_another_shape(reply):
    """Too many, too long, or none at all: an error, and nothing is cut."""
    with pytest.raises(JudgeReplyError):
        texts(reply)


def test_marks_are_read_by_their_number():
    """Not by their place in the reply."""
    assert (1, 0) == marks({"2": 0, "1": 1})
    assert (5, 0, 3) == marks({"1": 5, "2": 0, "3": 3}, 3, high=5)
    assert tuple(range(10, 22)) == marks({str(n): n + 9 for n in range(1, 13)}, 12, low=10, high=21)


@pytest.mark.parametrize(
    "reply",
    [
        {"1": 1},
        {"1": 1, "2": 0, "3": 1},
        {"0": 1, "1": 1},
        {"1": 1, "2": 2},
        {"1": 1, "2": -1},
        {"1": 1, "2": 0.5},
        {"1": True, "2": 0},
        {"1": "1", "2": 0},
        [1, 0],
    ],
)
def test_marks_of_another_shape(reply):
    """A part without a mark, a mark without a part, or one off the scale: none of them counts."""
    with pytest.raises(JudgeReplyError):
        marks(reply)


def test_marks_of_nothing():
    """No one is asked about no parts; that is the caller's mistake."""
    with pytest.raises(ValueError, match="count must be at least 1, got 0"):
        asyncio.run(ask_ratings(FakeJudge(), PROMPT, 0))


def test_shapes_are_what_servers_take():
    """Closed objects at the root, all names required: some servers take no other schema."""
    for shape, names in ((_texts_shape(3), ["items"]), (_marks_shape(2, 0, 5), ["1", "2"])):
        schema = json_schema_of(shape)
        assert ("object", False, names) == (schema["type"], schema["additionalProperties"], schema["required"])
        assert "title" not in schema
        assert "$defs" not in schema
    assert {"minimum": 0, "maximum": 5, "type": "integer"} == json_schema_of(_marks_shape(1, 0, 5))["properties"]["1"]


class Counting(FakeJudge):
    """Notes the room it was given."""

    room = 0

    async def ask_json(self, prompt, schema, *, max_tokens=1024):
        self.room = max_tokens
        return await super().ask_json(prompt, schema, max_tokens=max_tokens)


def test_room_grows_with_what_is_asked():
    """Twenty marks need more than one; a caller who knows better says so."""
    judge = Counting()
    rooms = []
    for count in (1, 20):
        asyncio.run(ask_ratings(judge, PROMPT, count))
        rooms.append(judge.room)
    # Of each mark at least quotes, number, colon, mark and comma.
    assert rooms[0] >= 6
    assert rooms[1] >= 20 * 6
    asyncio.run(ask_text_list(judge, PROMPT, most=10))
    assert judge.room >= 10 * 30
    asyncio.run(ask_text_list(judge, PROMPT, most=10, max_tokens=77))
    assert 77 == judge.room
