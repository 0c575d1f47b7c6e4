"""Whether a reply is an abstention: the phrases that the application agreed on with its model, however they are dressed up."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import Final, Literal

from ragstone.errors import ConfigurationError
from ragstone.judges._model import after_reasoning

__all__ = ["AbstentionMatcher", "continues", "extends_last_word", "phrases_from", "strip_final_punctuation"]

Verdict = Literal["abstains", "answers", "open"]

# White space, invisible marks, quotes, Markdown, brackets.
_FORMATTING: Final = (
    "\\s\ufeff\u200b-\u200f\u2060-\u2064\u202a-\u202e\u2066-\u2069"
    "\"'`*_#>~|()\\[\\]{}<\u00ab\u00bb\u2018-\u201f\u2039\u203a\u300c-\u300f"
)
_LEADING: Final = re.compile(f"^[{_FORMATTING}]+")
_TRAILING: Final = re.compile(f"[{_FORMATTING}.!?,;:\u3001\u3002]+$")
_HYPHENS: Final = re.compile("[\u2010-\u2013\u2212]")
_APOSTROPHES: Final = re.compile("[\u2018\u2019\u02bc]")
# Scripts without blanks between words, and those whose words take endings: there a phrase has no end to look for.
_UNSPACED: Final = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]$")
_GOES_ON: Final = re.compile(r"[-']?\w")


class AbstentionMatcher:
    """Looks for phrases at the start of replies.

    Upper and lower case, white space, quotes, Markdown, brackets and the reasoning before the reply make no
    difference. "NO-RESPONSE: they say nothing of it" is an abstention, "NO-RESPONSES were given" is none.
    """

    def __init__(self, phrases: Sequence[str]) -> None:
        self._phrases = tuple(_TRAILING.sub("", _plain(phrase)) for phrase in phrases)

    def verdict(self, reply: str, *, cut: bool = False) -> Verdict:
        """What a reply is.

        Args:
            reply: The reply.
            cut: Whether it was cut short. One that was cut before its first word, or while it might still have become a
                phrase, is "open", and so is each that never came out of its reasoning.
        """
        said = after_reasoning(reply)
        if said is None:
            return "open"
        said = _plain(said)
        if any(_starts(said, phrase) for phrase in self._phrases):
            return "abstains"
        if cut and any(phrase.startswith(said) for phrase in self._phrases):
            return "open"
        return "answers"


def phrases_from(abstention: str | Sequence[str]) -> tuple[str, ...]:
    """The abstention phrases as a tuple, without repetitions, in their order.

    Raises:
        ConfigurationError: None, or one without a letter or digit.
    """
    phrases = (abstention,) if isinstance(abstention, str) else tuple(abstention)
    if not phrases:
        raise ConfigurationError("a reader needs at least one abstention phrase (abstention='NO-RESPONSE')")
    given: tuple[object, ...] = phrases
    for phrase in given:
        if not isinstance(phrase, str) or not re.search(r"\w", phrase):
            raise ConfigurationError(f"an abstention phrase is a text with a letter or digit in it, got {phrase!r}")
    return tuple(dict.fromkeys(phrase.strip() for phrase in phrases))


def strip_final_punctuation(phrase: str) -> str:
    """A phrase without the full stop, or whatever closes it: replies that leave that out abstain as well."""
    return _TRAILING.sub("", phrase)


def continues(rest: str) -> bool:
    """Whether `rest` belongs to the word before it."""
    return _GOES_ON.match(rest) is not None


def extends_last_word(phrase: str, rest: str) -> bool:
    """Whether `rest`, which follows a phrase, makes its last word another one; it cannot in a script without blanks."""
    return _UNSPACED.search(phrase) is None and continues(rest)


def _plain(text: str) -> str:
    text = unicodedata.normalize("NFKC", text).casefold()
    text = _APOSTROPHES.sub("'", _HYPHENS.sub("-", text))
    return _LEADING.sub("", re.sub(r"\s+", " ", text))


def _starts(said: str, phrase: str) -> bool:
    if not said.startswith(phrase):
        return False
    return not extends_last_word(phrase, said[len(phrase) :])
