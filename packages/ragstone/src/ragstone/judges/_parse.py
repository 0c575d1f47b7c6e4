"""Parser of a judge's reply: one number or one JSON value, or an error. Values are not clipped, and must be unique."""

from __future__ import annotations

import json
import math
import re
import unicodedata
from bisect import bisect_left
from contextlib import suppress
from typing import Any, Final, TypeVar

from pydantic import TypeAdapter, ValidationError

from ragstone.errors import JudgeReplyError
from ragstone.judges._model import after_reasoning
from ragstone.judges._render import Message

T = TypeVar("T")

_FENCE: Final = re.compile(r"```[a-z]*+\s*+", re.IGNORECASE)
_DECORATION: Final = re.compile(r"[*`_$#]+|\\boxed|</?[A-Za-z]+>")

_NUMBER: Final = r"-?(?:\d+(?:\.\d+)?|\.\d+)"
_ANSWER: Final = re.compile(
    rf"\b(?:(?:answer|number|result|verdict)(?: is)?[:=]?|i (?:would )?(?:give|rate) (?:it|this)(?: an?)?) ?{_NUMBER}"
    r"[^\w\n]{0,8}$",
    re.IGNORECASE | re.MULTILINE,
)
"""A line that ends with the number and says that it is the reply."""
_LABEL: Final = r"(?:score|rating|grade|评分|分数|得分|スコア|点数|점수)"
_LABELED: Final = re.compile(
    # As in: Score: 85 | rating of 85 | the score for this response is 85
    rf"\b{_LABEL}\b[\"']?(?:\s*[:=\uff1a]|\s+of|(?:\s+(?:for|of)(?:\s+[^\W\d]+){{1,6}})?\s+is)?\s*(?P<number>{_NUMBER})",
    re.IGNORECASE,
)
_TOKEN: Final = re.compile(_NUMBER, re.ASCII)
_WRAPPING: Final = " \t()[]{}\"'“”。.!"
_PLAIN: Final = {0x2212: "-", 0xFF0D: "-", 0xFF0E: ".", 0xFF0F: "/", 0xFF05: "%", 0x066A: "%", 0x066B: "."} | {
    zero + digit: str(digit) for zero in (0xFF10, 0x0660, 0x06F0, 0x0966) for digit in range(10)
}
"""The minus sign, full-width, Arabic, Persian and Devanagari digits, and the marks that belong to them."""
_UNITS: Final = ("points", "分", "点", "점")
# Marks next to a number that make it a part of something else (a name, a bound, a fraction, a range, 1,000).
_NOT_BEFORE: Final = re.compile(r"(?:[A-Za-z0-9,.+/\u2013\u2014]|[<>≤≥~≈±]\s*)\Z")
_NOT_AFTER: Final = re.compile(r"\A(?:[A-Za-z<>~+/]|[.,]\d|\s*[-\u2013\u2014]\s*\d|\s*[±%])")
# A different scale than the requested one, shown by two numbers that may be equal: 5 out of 5, 10 (max. 10).
_OTHER_SCALE: Final = re.compile(
    r"\d[\s(\[,\"']*(?:(?:points?|stars?)[\s(\[,]*)?"
    r"(?:[/\u2044]|\b(?:out\s+of|of|max(?:imum|score|\.)?|on\s+an?(?:\s+scale\s+of)?)\b)[\s:.\"']*\d",
    re.IGNORECASE,
)
_STARS: Final = re.compile(
    r"\d\s*(?:(?:stars?|Sterne?|étoiles?|estrel+as?|stelle)\b|[★⭐]|(?:[つ颗個个]\s*)?星)", re.IGNORECASE
)
_SCALE_KEY: Final = re.compile(r"max|(?:(?:score|rating)_)?(?:scale|range)$|out[_ ]?of|total$|highest|best_?rating")
_LEAST_SCALE: Final = 10
"""Smallest end of a scale on which a fraction is not expected."""
_MAX_AROUND: Final = 8
"""Characters examined on either side of a number."""
_WINDOW: Final = 4096
"""Characters of a text that stay in front of a bracket."""

REASONED_VERSION: Final = "1"
"""Part of the identity of judges with this mode, because changed wording makes a different judge."""
REASONED_MAX_TOKENS: Final = 1024
"""Smallest length limit of a reply. Five sentences need fewer than 300 tokens in most languages."""
_MAX_QUOTED: Final = 4000

_FENCE_LINE: Final = re.compile("[ \\t]*```[a-zA-Z]*")
_OPENING: Final = re.compile(r"[\[{]")
_STRUCTURE: Final = re.compile(r'"(?:[^"\\]|\\.)*(?:"|\\?\Z)|[\[\]{}]', re.DOTALL)
"""A string, possibly without its end, or a bracket."""


def parse_number(text: str, low: float = 0, high: float = 100) -> float:
    """Parse the one number in [low, high] that a judge's reply states.

    The reply may contain reasoning, a JSON object with a score, a label ("Score: 85"), the scale ("85/100", "85%" on a
    scale of 0-100) and Markdown. The number must be alone on its line, have a label or the scale ("/100"), end a line
    that states it ("The answer is 85."), or be the score of the JSON object. A percentage inside a sentence does not
    count, because it may be a fact of the answer. The reply must not contain another number.

    Args:
        text: The reply.
        low: Smallest valid number.
        high: Largest valid number.

    Examples:
        ```python
        parse_number('<think>80? No, lower.</think>{"score": 75}')  # 75.0
        ```
    """
    return read_number(text, low, high)[0]


def read_number(text: str, low: float, high: float) -> tuple[float, bool]:
    """Parse a number as `parse_number` does, and return whether it may be on a scale from 0 to 1 (0.85, 1.0)."""
    try:
        value = _read(text, low, high)
    except _AmbiguousReplyError as unclear:
        raise JudgeReplyError(
            f"expected one number from {low:g} to {high:g}, got {_shortened(text)!r}: {unclear}", raw=text
        ) from None
    if not low <= value <= high:
        raise JudgeReplyError(
            f"expected a number from {low:g} to {high:g}, got {value:g} in {_shortened(text)!r}", raw=text
        )
    is_fraction = 0 < value < 1 or (value == 1 and isinstance(value, float))
    return float(value), is_fraction and low == 0 and high >= _LEAST_SCALE


def parse_rating(text: str, low: float, high: float) -> float:
    """Parse a number as `parse_number` does, without fractions, which may be on a scale from 0 to 1."""
    value, is_fraction = read_number(text, low, high)
    if is_fraction:
        raise JudgeReplyError(
            f"expected a number from {low:g} to {high:g}, got the fraction {value}, which may be on a scale from 0 "
            "to 1. Use a judge that keeps to the scale",
            raw=text,
        )
    return value


class _AmbiguousReplyError(Exception):
    """The reply does not state one number. The message contains the reason."""


def _shortened(text: str, max_chars: int = 120) -> str:
    return text if len(text) <= max_chars else f"{text[: max_chars - 1]}…"


def _read(reply: str, low: float, high: float) -> float:
    if (text := after_reasoning(reply)) is None:
        raise _AmbiguousReplyError("the reasoning does not end")
    if (fence := _FENCE.match(text)) and text.endswith("```", fence.end()):
        text = text[fence.end() : -3].rstrip()
    if text.startswith("{"):
        # It may not be JSON: "{85}", or an object followed by text.
        with suppress(ValueError, RecursionError):
            return _read_object(json.loads(text, object_pairs_hook=_unique, parse_constant=_refuse_constant), low, high)
    return _read_prose(text, low, high)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    keys = [key.casefold() for key, _ in pairs]
    if len(set(keys)) < len(keys):
        raise _AmbiguousReplyError("a key appears twice")
    return dict(zip(keys, (value for _, value in pairs), strict=True))


def _refuse_constant(name: str) -> float:
    raise _AmbiguousReplyError(f"{name} is not a number")


def _read_object(reply: dict[str, Any], low: float, high: float) -> float:
    for key, value in reply.items():
        if _SCALE_KEY.match(key) and high not in map(float, re.findall(r"\d+(?:\.\d+)?", str(value))):
            raise _AmbiguousReplyError(f"{key!r} names another scale")
    for key in ("score", "rating"):
        if key in reply:
            return _read_value(reply[key], low, high)
    numbers = [value for value in reply.values() if _is_number(value)]
    if len(numbers) != 1:
        raise _AmbiguousReplyError(f"the object contains {len(numbers)} numbers and no score")
    return _read_value(numbers[0], low, high)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _read_value(value: object, low: float, high: float) -> float:
    if isinstance(value, str):
        return _read_prose(value, low, high)
    if not _is_number(value):
        raise _AmbiguousReplyError(f"the score is {value!r}")
    return _finite(value)


def _finite(value: object) -> float:
    """Return the number, as an integer if it is written without a decimal part."""
    try:
        number = float(str(value))
    except (OverflowError, ValueError):
        number = math.inf
    if not math.isfinite(number):
        raise _AmbiguousReplyError("the number is not finite")
    return number + 0.0 if "." in str(value) else int(number)  # no negative zero


def _read_prose(text: str, low: float, high: float) -> float:
    stated = _DECORATION.sub("", text.translate(_PLAIN))
    text, on_scale = _without_scale(stated, low, high)
    if _OTHER_SCALE.search(text) or (high != 5 and _STARS.search(text)):
        raise _AmbiguousReplyError("the number is on another scale")
    values = {_finite(token) for token in _tokens(text)}
    if len(values) != 1:
        raise _AmbiguousReplyError("no number" if not values else "several numbers")
    if not (
        on_scale or _LABELED.search(text) or _ANSWER.search(text) or any(_is_bare(line) for line in text.splitlines())
    ):
        raise _AmbiguousReplyError("the number is part of a sentence")
    value = values.pop()
    # As in: 10 von 10 | 10 (highest: 10)
    is_repeated = any(len(_TOKEN.findall(sentence)) > 1 for sentence in re.split(r"\.\s|\n", text))
    if is_repeated and value < high and not on_scale and "%" not in stated:
        raise _AmbiguousReplyError("a sentence names the number twice, as if it were the end of another scale")
    return value


def _without_scale(text: str, low: float, high: float) -> tuple[str, bool]:
    """Remove the mention of the requested scale, and return whether a number was stated on it."""
    floor, ceiling = re.escape(f"{low:g}"), re.escape(f"{high:g}")
    span = rf"{floor}\s*(?:-|\u2013|to|and|through)\s*{ceiling}(?![\d.]*\d)"
    text = re.sub(rf"\(\s*{span}\s*\)", " ", text)
    text = re.sub(rf"\bon (?:a|the) scale (?:of|from|between)\s+{span}[,:]?", " ", text, flags=re.IGNORECASE)
    if low != 0:
        return text, False
    text, n_of = re.subn(
        rf"(?<=\d)\s*(?:/|\bout of\b)\s*{ceiling}(?:\.0+)?(?![\d/%]|\.\d)", "", text, flags=re.IGNORECASE
    )
    if high == 100:
        text = re.sub(r"(?<=\d)\s*(?:%|\bpercent\b)", "", text, flags=re.IGNORECASE)
    return text, n_of > 0


def _tokens(text: str) -> list[str]:
    """Return all numbers of the text. Raise an error if a digit is part of something else (a name, a range, a date)."""
    for match in _TOKEN.finditer(text):
        before = text[max(0, match.start() - _MAX_AROUND) : match.start()]
        after = text[match.end() : match.end() + _MAX_AROUND]
        if _NOT_BEFORE.search(before) or _NOT_AFTER.match(after):
            raise _AmbiguousReplyError(f"{(before + match[0] + after).strip()!r} is not a plain number")
    if any(unicodedata.category(char) in ("Nd", "No") for char in _TOKEN.sub("", text)):
        raise _AmbiguousReplyError("a digit is written in another script")
    return _TOKEN.findall(text)


def _is_bare(line: str) -> bool:
    line = line.strip(_WRAPPING)
    for unit in _UNITS:
        line = line.removesuffix(unit)
    return re.fullmatch(_NUMBER, line.strip(_WRAPPING)) is not None


def reasoned_request(low: float, high: float) -> str:
    """Return the request for reasons and one number on the scale."""
    return (
        "First write your reasons, in one to five sentences that name the words of the material which decide. Then "
        f"write one last line, with one number from {low:g} to {high:g} in place of N:\nScore: N"
    )


def parse_reasoned(raw: str, low: float, high: float) -> tuple[float, str]:
    """Parse the number on the last line of a reply, and return it with the reasons before it.

    Hidden reasoning of the model (`<think>`) is neither. Numbers in the reasons do not matter.

    Examples:
        ```python
        value, reasons = parse_reasoned(reply, 0, 100)
        ```
    """
    text = after_reasoning(raw)
    if not text:
        raise JudgeReplyError("the reply does not contain a score after the model's reasoning", raw=raw)
    reasons, _, last = text.rpartition("\n")
    try:
        return parse_rating(last, low, high), reasons.strip()
    except JudgeReplyError as error:
        raise JudgeReplyError(f"the last line of the reply is not a score: {error}", raw=raw) from None


def build_reasoned_retry(text: str, low: float, high: float) -> list[Message]:
    """Return two turns that follow a reply without a score: the reply, and the request for its last line."""
    return [
        {"role": "assistant", "content": text[-_MAX_QUOTED:] or "(no reply)"},
        {
            "role": "user",
            "content": f"The last line with the score is missing. Write only this line, with a number from {low:g} to "
            f"{high:g} in place of N:\nScore: N",
        },
    ]


def json_schema_of(schema: TypeAdapter[Any]) -> dict[str, Any]:
    """Return the JSON Schema of the shape, without the titles that pydantic adds."""
    json_schema: dict[str, Any] = _untitled(schema.json_schema())
    return json_schema


def _untitled(value: Any) -> Any:
    if isinstance(value, dict):
        # A property may have the name "title". Its value is a schema, that of other titles is a string.
        return {k: _untitled(v) for k, v in value.items() if not (k == "title" and isinstance(v, str))}
    return [_untitled(item) for item in value] if isinstance(value, list) else value


def json_request(schema: dict[str, Any]) -> str:
    """Return the request for JSON of a schema: the schema, or for an object of integers "1", "2", ... an example."""
    if (span := _marks_span(schema)) is not None:
        count, low, high = span
        example = json.dumps({"1": low, "2": high} if count > 1 else {"1": high}, separators=(",", ":"))
        return (
            f'Reply with one JSON object and nothing else, with the keys "1" to "{count}" and an integer from {low} to '
            f"{high} for each, as in {example}."
        )
    form = json.dumps(schema, ensure_ascii=False, separators=(",", ":"))
    return f"Reply with one JSON value and nothing else. It must follow this JSON Schema:\n{form}"


def _marks_span(schema: dict[str, Any]) -> tuple[int, int, int] | None:
    """Return the number of keys and the range if the schema is an object of integers in one range, else None."""
    properties = schema.get("properties") or {}
    names = [str(number) for number in range(1, len(properties) + 1)]
    first = properties.get("1")
    if not isinstance(first, dict) or first.keys() != {"type", "minimum", "maximum"} or first["type"] != "integer":
        return None
    if list(properties) != names or schema.get("required") != names or any(p != first for p in properties.values()):
        return None
    return len(names), first["minimum"], first["maximum"]


def parse_json(text: str, schema: TypeAdapter[T]) -> T:
    """Parse the one JSON value that a reply states, inside or outside a code fence, after any reasoning.

    The parser is strict: a number in quotes is not a number, true is not 1, and repeated names, NaN and Infinity are
    not JSON. If the reply contains several values, the one with the shape counts. Two different ones are an error.

    Examples:
        >>> parse_json('Here it is: {"n": 3}', TypeAdapter(dict[str, int]))
        {'n': 3}
    """
    try:
        return _parsed(text, schema)
    except RecursionError:
        raise JudgeReplyError(f"the reply is nested too deeply: {_shortened(text.strip(), 200)!r}", raw=text) from None


def _parsed(text: str, schema: TypeAdapter[T]) -> T:
    stated = _whole(text)
    if not stated and (rest := after_reasoning(text)) is not None:
        stated = _values(rest)
    if not stated:
        raise JudgeReplyError(f"the reply does not contain valid JSON: {_shortened(text.strip(), 200)!r}", raw=text)
    fit: list[T] = []
    problems: list[str] = []
    for value in stated:
        try:
            # Validated as JSON, so that a list may become a tuple, and a lone surrogate is an error.
            fit.append(schema.validate_json(json.dumps(value), strict=True))
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            problems.append(f"{'.'.join(map(str, first['loc'])) or 'the whole'}: {first['msg']}")
    if not fit:
        raise JudgeReplyError(
            f"the reply does not have the requested shape ({problems[0]}): {_shortened(text.strip(), 200)!r}", raw=text
        )
    if any(value != fit[0] for value in fit[1:]):
        raise JudgeReplyError(
            f"the reply contains {len(fit)} different values of the requested shape: {_shortened(text.strip(), 200)!r}",
            raw=text,
        )
    return fit[0]


def _whole(text: str) -> list[Any]:
    """Return the value if the reply contains nothing else. A tag inside it is then not the end of reasoning."""
    text = text.strip()
    try:
        value, end = _DECODER.raw_decode(text)
    except ValueError:
        return []
    return [value] if end == len(text) and isinstance(value, dict | list) else []


def _values(text: str) -> list[Any]:
    """Return the objects and lists in a text, without nested ones, in time that grows with its length."""
    text = _fenced(text) or text
    values: list[Any] = []
    broken: set[int] = set()
    """Positions of brackets that are known not to begin a value."""
    base = at = 0
    while opening := _OPENING.search(text, at):
        start = opening.start()
        if start > _WINDOW:  # an error counts the lines of the text before it
            base, text, at = base + start, text[start:], 0
            continue
        if base + start not in broken:
            try:
                value, at = _DECODER.raw_decode(text, start)
            except ValueError as error:
                # The brackets that are open at the error, of which this is the first, all end with it.
                broken.update(base + place for place in _open_brackets(text, start, _place_of(error, text, start)))
            else:
                values.append(value)
                continue
        # A broken object may contain valid ones, which are not the reply. A bracket may be part of a sentence.
        if opening.group() == "{":
            return []
        at = opening.end()
    return values


def _place_of(error: ValueError, text: str, start: int) -> int:
    """Return the position at which decoding failed: that of the error, or the end of the value that was rejected."""
    if isinstance(error, json.JSONDecodeError):
        return error.pos
    size = _MAX_AROUND
    while not _is_rejected(text[start : start + size]):
        size *= 2
    return bisect_left(range(start + size), 1, lo=start, key=lambda end: _is_rejected(text[start:end]))


def _is_rejected(text: str) -> bool:
    """Whether a text contains a value that is JSON for Python only."""
    try:
        _DECODER.raw_decode(text)
    except ValueError as error:
        return not isinstance(error, json.JSONDecodeError)
    return False


def _open_brackets(text: str, start: int, end: int) -> list[int]:
    """Return the positions of the brackets that begin in a part of a text and do not end in it."""
    brackets = [start]
    for match in _STRUCTURE.finditer(text, start + 1, end):
        if match.group() in ("[", "{"):
            brackets.append(match.start())
        elif match.group() in ("]", "}"):
            brackets.pop()
    return brackets


def _fenced(text: str) -> str:
    """Return the text between code fences. A fence starts a line and ends at the end of the same or a later line.

    A string in JSON contains no line break, so marks at these positions are not part of one.
    """
    inside: list[str] = []
    kept: list[str] = []
    is_open = False
    for line in text.split("\n"):
        rest = line
        if not is_open:
            fence = _FENCE_LINE.match(line)
            if fence is None:
                continue
            is_open, rest = True, line[fence.end() :]
        inside.append(rest.rstrip().removesuffix("```"))
        if rest.rstrip().endswith("```"):
            kept += inside
            inside, is_open = [], False
    return "\n".join(kept)


def _named_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    named = dict(pairs)
    if len(named) < len(pairs):
        raise ValueError("a name occurs twice")
    return named


def _finite_constant(text: str) -> float:
    """Convert a number, and reject Python's extensions of JSON and numbers beyond the range of floats."""
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is not a valid JSON number")
    return value


_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_named_once, parse_constant=_finite_constant, parse_float=_finite_constant
)
