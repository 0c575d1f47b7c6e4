"""Detection of abstentions: replies that start with one of the application's phrases, in any formatting."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, Literal

from ragstone._util.words import normalize_case
from ragstone.errors import ConfigurationError
from ragstone.judges._model import after_reasoning

Verdict = Literal["abstains", "answers", "open"]

# Whitespace, invisible marks, quotes, Markdown, brackets.
_FORMATTING: Final = (
    "\\s\ufeff\u200b-\u200f\u2060-\u2064\u202a-\u202e\u2066-\u2069"
    "\"'`*_#>~|()\\[\\]{}<\u00ab\u00bb\u2018-\u201f\u2039\u203a\u300c-\u300f"
)
_LEADING: Final = re.compile(f"^[{_FORMATTING}]+")
_TRAILING: Final = re.compile(f"(?<![{_FORMATTING}.!?,;:\u3001\u3002])[{_FORMATTING}.!?,;:\u3001\u3002]++$")
_HYPHENS: Final = re.compile("[\u2010-\u2013\u2212]")
_SEPARATORS: Final = re.compile("[ _-]")
_APOSTROPHES: Final = re.compile("[\u2018\u2019\u02bc]")
# Scripts without spaces between words, and those whose words take suffixes: the end of a phrase cannot be detected
# there.
_UNSPACED: Final = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]$")
_CONTINUES: Final = re.compile(r"[-']?\w")


class AbstentionMatcher:
    """Matches phrases at the start of replies.

    Case, whitespace, quotes, Markdown, brackets and reasoning before the reply are ignored. Words may be separated by
    spaces, hyphens or underscores ("no response"). "NO-RESPONSE: they say
    nothing of it" is an abstention, "NO-RESPONSES were given" is not.
    """

    def __init__(self, phrases: Sequence[str]) -> None:
        self._phrases = tuple(_TRAILING.sub("", _plain(phrase)) for phrase in phrases)
        self._patterns = tuple(
            re.compile("[ _-]".join(map(re.escape, _SEPARATORS.split(phrase)))) for phrase in self._phrases
        )

    def verdict(self, reply: str, *, cut: bool = False) -> Verdict:
        """Classify a reply.

        A reply that was `cut` before its first word, within a possible phrase or within its reasoning is "open".
        """
        if (answer := after_reasoning(reply)) is None:
            return "open"
        answer = _plain(answer)
        if any(_starts(answer, pattern) for pattern in self._patterns):
            return "abstains"
        if cut and any(phrase.startswith(answer) for phrase in self._phrases):
            return "open"
        return "answers"


def phrases_from(abstention: str | Sequence[str]) -> tuple[str, ...]:
    """Return the abstention phrases as a tuple, without duplicates, in their order.

    Raise ConfigurationError if the list is empty, or a phrase is without a letter or digit.
    """
    phrases = (abstention,) if isinstance(abstention, str) else tuple(abstention)
    if not phrases:
        raise ConfigurationError("a reader needs at least one abstention phrase (abstention='NO-RESPONSE')")
    candidates: tuple[object, ...] = phrases
    for phrase in candidates:
        if not isinstance(phrase, str) or not re.search(r"\w", phrase):
            raise ConfigurationError(f"an abstention phrase must be text with a letter or digit, got {phrase!r}")
    return tuple(dict.fromkeys(phrase.strip() for phrase in phrases))


def strip_final_punctuation(phrase: str) -> str:
    """Return a phrase without final punctuation, because replies without it are abstentions as well."""
    return _TRAILING.sub("", phrase)


def continues(rest: str) -> bool:
    """Return whether `rest` belongs to the preceding word."""
    return _CONTINUES.match(rest) is not None


def extends_last_word(phrase: str, rest: str) -> bool:
    """Return whether `rest` extends the last word of a phrase. In scripts without spaces it never does."""
    return _UNSPACED.search(phrase) is None and continues(rest)


def _plain(text: str) -> str:
    text = _APOSTROPHES.sub("'", _HYPHENS.sub("-", normalize_case(text)))
    return _LEADING.sub("", re.sub(r"\s+", " ", text))


def _starts(answer: str, pattern: re.Pattern[str]) -> bool:
    phrase = pattern.match(answer)
    return phrase is not None and not extends_last_word(phrase[0], answer[phrase.end() :])
