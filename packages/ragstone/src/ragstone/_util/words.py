"""Words of a text, in any script."""

from __future__ import annotations

import re
import unicodedata
from functools import cache
from typing import Final

__all__ = ["normalize_case", "split_sentences", "split_tokens", "split_words"]

# Chinese, Japanese, Korean, Thai, Lao, Burmese and Khmer are written without spaces between words (or with clitics): one
# character, one token.
_UNSPACED: Final = (
    "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\U00020000-\U0003ffff\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"
)
_LAST_MARK: Final = 0x20000
"""Beyond it are only variation selectors."""

# The end of a line, or of a sentence: a mark with white space behind it, and full-width marks as they stand.
_SENTENCE_END: Final = re.compile("(?<=[.!?\u2026])[\"'\u201d\u2019)\\]]*\\s+|(?<=[\u3002\uff01\uff1f])|\n+")


def split_words(text: str) -> list[str]:
    """The words of `text` in order, without case, width variants and punctuation."""
    return _patterns()[0].findall(normalize_case(text))


def split_tokens(text: str) -> list[str]:
    """What white space separates in `text`, without case and width variants; scripts without spaces, by character."""
    return _patterns()[1].findall(normalize_case(text))


def split_sentences(text: str) -> list[str]:
    """The sentences of `text` in order, each with a word in it. An abbreviation with a point ends one as well."""
    return [sentence for part in _SENTENCE_END.split(text) if split_words(sentence := part.strip())]


def normalize_case(text: str) -> str:
    """`text` without case and width variants."""
    return unicodedata.normalize("NFKC", text).casefold()


@cache
def _patterns() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """A word and a token; made when first used, which takes some 20 ms.

    `re` takes marks for punctuation: vowels of Indic scripts, points of Hebrew and Arabic, tones. They belong to words.
    """
    marks = "".join(chr(code) for code in range(0x300, _LAST_MARK) if unicodedata.category(chr(code))[0] == "M")
    alone = rf"[{_UNSPACED}][{marks}]*"
    return (
        re.compile(rf"{alone}|[^\W_{_UNSPACED}]+(?:[{marks}]+[^\W_{_UNSPACED}]*)*"),
        re.compile(rf"{alone}|[^\s{_UNSPACED}]+"),
    )
