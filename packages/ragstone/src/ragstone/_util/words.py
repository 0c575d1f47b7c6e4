"""Words, tokens and sentences of a text, in any script."""

from __future__ import annotations

import itertools
import re
import unicodedata
from functools import cache
from typing import Final

__all__ = ["find_sentences", "normalize_case", "split_sentences", "split_tokens", "split_words"]

# Chinese, Japanese, Korean, Thai, Lao, Burmese and Khmer do not separate words (or clitics) with spaces. Each character
# is one token.
_UNSPACED: Final = (
    "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\U00020000-\U0003ffff\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"
)
_LAST_MARK: Final = 0x20000
"""First code point after the last mark. Only variation selectors follow."""

# End of a line or of a sentence: a mark followed by whitespace, or a full-width mark.
_SENTENCE_END: Final = re.compile("(?<=[.!?\u2026])[\"'\u201d\u2019)\\]]*\\s+|(?<=[\u3002\uff01\uff1f])|\n+")


def split_words(text: str) -> list[str]:
    """Return the words of `text` in order, without case, width variants and punctuation."""
    return _patterns()[0].findall(normalize_case(text))


def split_tokens(text: str) -> list[str]:
    """Split `text` at whitespace, without case and width variants. Scripts without spaces are split into characters."""
    return _patterns()[1].findall(normalize_case(text))


def split_sentences(text: str) -> list[str]:
    """Return the sentences of `text` in order, if they contain a word. An abbreviation with a period ends one as well."""
    return [text[start:end] for start, end in find_sentences(text)]


def find_sentences(text: str) -> list[tuple[int, int]]:
    """Return where each sentence of `split_sentences` starts and ends in `text`."""
    breaks = [(0, 0), *(match.span() for match in _SENTENCE_END.finditer(text)), (len(text), len(text))]
    parts = ((start, end) for (_, start), (end, _) in itertools.pairwise(breaks))
    return [
        (end - len(part.lstrip()), start + len(part.rstrip()))
        for start, end in parts
        if split_words(part := text[start:end])
    ]


def normalize_case(text: str) -> str:
    """Return `text` without case and width variants."""
    return unicodedata.normalize("NFKC", text).casefold()


@cache
def _patterns() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Compile the patterns of a word and of a token, on first use, because that takes about 20 ms.

    `re` treats marks (vowels of Indic scripts, points of Hebrew and Arabic, tones) as punctuation. They belong to
    words.
    """
    marks = "".join(chr(code) for code in range(0x300, _LAST_MARK) if unicodedata.category(chr(code))[0] == "M")
    alone = rf"[{_UNSPACED}][{marks}]*"
    return (
        re.compile(rf"{alone}|[^\W_{_UNSPACED}]+(?:[{marks}]+[^\W_{_UNSPACED}]*)*"),
        re.compile(rf"{alone}|[^\s{_UNSPACED}]+"),
    )
