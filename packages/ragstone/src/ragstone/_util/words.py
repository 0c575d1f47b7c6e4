"""Words of a text, in any script."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

__all__ = ["sentences_of", "words_of"]

# Chinese, Japanese and Korean are written without spaces between words (or with clitics): one character, one token.
_CJK: Final = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af"
_WORD: Final = re.compile(rf"[{_CJK}]|[^\W_{_CJK}]+")

# The end of a line, or of a sentence: a mark with white space behind it, and full-width marks as they stand.
_SENTENCE_END: Final = re.compile("(?<=[.!?\u2026])[\"'\u201d\u2019)\\]]*\\s+|(?<=[\u3002\uff01\uff1f])|\n+")


def words_of(text: str) -> list[str]:
    """The words of `text` in order, without case, width variants and punctuation."""
    return _WORD.findall(unicodedata.normalize("NFKC", text).casefold())


def sentences_of(text: str) -> list[str]:
    """The sentences of `text` in order, each with a word in it. An abbreviation with a point ends one as well."""
    return [sentence for part in _SENTENCE_END.split(text) if words_of(sentence := part.strip())]
