"""What judged metrics ask beyond a number: a list of short texts, and a mark for each part of a numbered field."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any, Final

from pydantic import Field, StringConstraints, TypeAdapter
from typing_extensions import TypedDict

from ragstone.judges import Judge, Prompt

__all__ = ["RatingsReply", "TextListReply", "ask_ratings", "ask_text_list"]

_MAX_CHARS: Final = 1000
"""Of one text: what is longer is no claim and no question, but the whole material copied."""
_TOKENS_A_TEXT: Final = 64
_TOKENS_A_MARK: Final = 12
_TOKENS_AROUND: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class TextListReply:
    """Short texts from a judge."""

    texts: tuple[str, ...]
    """Stripped, without blanks and repetitions, in the judge's order."""
    raw: str
    method: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RatingsReply:
    """Marks from a judge, one for each part."""

    marks: tuple[int, ...]
    raw: str
    method: str


async def ask_text_list(judge: Judge, prompt: Prompt, *, most: int, max_tokens: int | None = None) -> TextListReply:
    """Ask for a list of at most `most` short texts: claims, sub-questions. The list may be empty.

    The task says what an item is; what form the reply has, the judge adds.

    Args:
        judge: Who is asked.
        prompt: The question.
        most: Longest list. A server that holds replies to their shape ends one there, complete or not.
        max_tokens: Length limit of the reply; by default room for `most` texts of a sentence each.

    Raises:
        JudgeError: No usable answer; a list that is too long is none.
    """
    room = _TOKENS_AROUND + _TOKENS_A_TEXT * most if max_tokens is None else max_tokens
    reply = await judge.ask_json(prompt, _texts_shape(most), max_tokens=room)
    texts = dict.fromkeys(text for item in reply.value["items"] if (text := item.strip()))
    return TextListReply(texts=tuple(texts), raw=reply.raw, method=reply.method)


async def ask_ratings(judge: Judge, prompt: Prompt, count: int, *, low: int = 0, high: int = 1) -> RatingsReply:
    """Ask for a whole number in [low, high] for each of `count` numbered parts of a field.

    The reply names each part by its number, so that a part left out is seen, and shifts no other mark.

    Raises:
        JudgeError: No usable answer; a part without a mark makes it none.
        ValueError: `count` is below 1.
    """
    if count < 1:
        raise ValueError(f"marks need at least one part, got count={count!r}")
    reply = await judge.ask_json(
        prompt, _marks_shape(count, low, high), max_tokens=_TOKENS_AROUND + _TOKENS_A_MARK * count
    )
    marks = tuple(reply.value[str(number)] for number in range(1, count + 1))
    return RatingsReply(marks=marks, raw=reply.raw, method=reply.method)


@lru_cache(maxsize=64)
def _texts_shape(most: int) -> TypeAdapter[dict[str, list[str]]]:
    text = Annotated[str, StringConstraints(max_length=_MAX_CHARS)]
    return _object("Texts", {"items": Annotated[list[text], Field(max_length=most)]})


@lru_cache(maxsize=256)
def _marks_shape(count: int, low: int, high: int) -> TypeAdapter[dict[str, int]]:
    mark = Annotated[int, Field(ge=low, le=high)]
    return _object("Marks", {str(number): mark for number in range(1, count + 1)})


def _object(name: str, fields: dict[str, Any]) -> TypeAdapter[Any]:
    """An object with exactly these fields: at the root, and closed, because some servers take no other schema."""
    # The functional form, with names that are no identifiers, is nothing a type checker follows.
    make: Any = TypedDict
    shape = make(name, fields)
    shape.__pydantic_config__ = {"extra": "forbid"}
    return TypeAdapter(shape)
