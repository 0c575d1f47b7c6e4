"""Lone surrogates, which JSON escapes can contain and UTF-8 cannot encode, and Unicode normal forms in linear time."""

from __future__ import annotations

import itertools
import re
import unicodedata
from functools import cache
from typing import Any, Final, Literal

_LONG: Final = b"\x01" * 4
"""Marks among every 64th character of a text, one after the other, in a run that `unicodedata` takes long to sort."""
_BECOME_MARKS: Final = frozenset("\u0f73\u0f75\u0f81\uff9e\uff9f")
"""Characters without an order of their own that are decomposed into marks."""


def normalize(form: Literal["NFC", "NFKC"], text: str) -> str:
    """Return the normal form of a text, as `unicodedata.normalize` does.

    `unicodedata` sorts the marks that follow a letter in quadratic time. Long runs of marks, which are not part of any
    language, are sorted here first.
    """
    if not text.isascii():
        sample = text[::64]
        if _LONG in bytes(map(bool, map(unicodedata.combining, sample))) or not _BECOME_MARKS.isdisjoint(sample):
            decomposed: Literal["NFD", "NFKD"] = "NFD" if form == "NFC" else "NFKD"
            text = _marks().sub(lambda run: _sorted(run[0], decomposed), text)
    return unicodedata.normalize(form, text)


def _sorted(run: str, form: Literal["NFD", "NFKD"]) -> str:
    marks = itertools.chain.from_iterable(unicodedata.normalize(form, mark) for mark in run)
    groups = itertools.groupby(marks, key=lambda mark: unicodedata.combining(mark) > 0)
    return "".join(mark for _, group in groups for mark in sorted(group, key=unicodedata.combining))


@cache
def _marks() -> re.Pattern[str]:
    """Compile the pattern of a long run of marks, on first use, because that takes about 40 ms."""
    marks = filter(unicodedata.combining, map(chr, range(0x300, 0x20000)))
    return re.compile(f"[{''.join(marks)}{''.join(_BECOME_MARKS)}]{{32,}}+")


def replace_surrogates(text: str) -> str:
    """Return a text that UTF-8 can encode: pairs of surrogates become one character, and lone ones U+FFFD."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        # Encoding as UTF-16 joins surrogate pairs into characters.
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def replace_surrogates_in(value: Any) -> Any:
    """Return a parsed value with all of its texts as `replace_surrogates` returns them. Tuples become lists."""
    if isinstance(value, str):
        return replace_surrogates(value)
    if isinstance(value, list | tuple):
        return [replace_surrogates_in(item) for item in value]
    if isinstance(value, dict):
        return {replace_surrogates_in(key): replace_surrogates_in(item) for key, item in value.items()}
    return value
