"""Words of a text, in any script."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

__all__ = ["words_of"]

# Chinese, Japanese and Korean are written without spaces between words (or with clitics): one character, one token.
_CJK: Final = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af"
_WORD: Final = re.compile(rf"[{_CJK}]|[^\W_{_CJK}]+")


def words_of(text: str) -> list[str]:
    """The words of `text` in order, without case, width variants and punctuation."""
    return _WORD.findall(unicodedata.normalize("NFKC", text).casefold())
