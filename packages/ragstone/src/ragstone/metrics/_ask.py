"""Judge calls beyond a single number: a list of short texts, or one rating per part of a numbered field."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any, Final, TypeVar

from pydantic import Field, StringConstraints, TypeAdapter, ValidationError
from typing_extensions import TypedDict

from ragstone.errors import JudgeReplyError
from ragstone.judges import JsonReply, Judge, Prompt

T = TypeVar("T")

_MAX_CHARS: Final = 1000
"""Maximum length of one text. A longer text is not a claim or a question but a copy of the material."""
_TOKENS_A_TEXT: Final = 64
_TOKENS_A_MARK: Final = 12
_TOKENS_AROUND: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class TextListReply:
    """Short texts from a judge."""

    texts: tuple[str, ...]
    """Stripped texts in the judge's order, without blank texts and duplicates."""
    n_items: int
    """Number of texts with blank ones and duplicates."""
    raw: str
    method: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RatingsReply:
    """Ratings from a judge, one per part."""

    marks: tuple[int, ...]
    raw: str
    method: str


async def ask_text_list(judge: Judge, prompt: Prompt, *, most: int, max_tokens: int | None = None) -> TextListReply:
    """Ask for a list of at most `most` short texts, such as claims or sub-questions. The list may be empty.

    The task describes the items. The judge adds the instructions about the reply format. A server that enforces the
    reply's schema ends the list at `most`, even if it is incomplete. By default, `max_tokens` suffices for texts of one
    sentence each. Raise JudgeError if the judge does not return a usable reply, for example a list that is too long.
    """
    limit = _TOKENS_AROUND + _TOKENS_A_TEXT * most if max_tokens is None else max_tokens
    reply = await judge.ask_json(prompt, shape := _texts_shape(most), max_tokens=limit)
    items = _checked(reply, shape)["items"]
    texts = dict.fromkeys(text for item in items if (text := item.strip()))
    return TextListReply(texts=tuple(texts), n_items=len(items), raw=reply.raw, method=reply.method)


async def ask_ratings(judge: Judge, prompt: Prompt, count: int, *, low: int = 0, high: int = 1) -> RatingsReply:
    """Ask for an integer in [low, high] for each of `count` numbered parts of a field.

    The reply names each part by its number. A missing part is therefore detected and does not shift other ratings.
    Raise JudgeError if the judge does not return a usable reply. A reply without a rating for every part is unusable.
    Raise ValueError if `count` is below 1.
    """
    if count < 1:
        raise ValueError(f"count must be at least 1, got {count!r}")
    shape = _marks_shape(count, low, high)
    reply = await judge.ask_json(prompt, shape, max_tokens=_TOKENS_AROUND + _TOKENS_A_MARK * count)
    by_number = _checked(reply, shape)
    marks = tuple(by_number[str(number)] for number in range(1, count + 1))
    return RatingsReply(marks=marks, raw=reply.raw, method=reply.method)


def _checked(reply: JsonReply[T], shape: TypeAdapter[T]) -> T:
    """Return the value of a reply. A judge of another package may return one of another shape."""
    try:
        return shape.validate_python(reply.value, strict=True)
    except ValidationError as error:
        raise JudgeReplyError(f"the reply does not have the requested shape: {error}", raw=reply.raw) from None


@lru_cache(maxsize=64)
def _texts_shape(most: int) -> TypeAdapter[dict[str, list[str]]]:
    text = Annotated[str, StringConstraints(max_length=_MAX_CHARS)]
    return closed_object("Texts", {"items": Annotated[list[text], Field(max_length=most)]})


@lru_cache(maxsize=256)
def _marks_shape(count: int, low: int, high: int) -> TypeAdapter[dict[str, int]]:
    mark = Annotated[int, Field(ge=low, le=high)]
    return closed_object("Marks", {str(number): mark for number in range(1, count + 1)})


def closed_object(name: str, fields: dict[str, Any]) -> TypeAdapter[Any]:
    """Make the schema of an object with exactly these fields. Some servers accept only closed objects at the root."""
    # Type checkers do not support the functional form with keys that are not identifiers.
    make: Any = TypedDict
    shape = make(name, fields)
    shape.__pydantic_config__ = {"extra": "forbid"}
    return TypeAdapter(shape)
