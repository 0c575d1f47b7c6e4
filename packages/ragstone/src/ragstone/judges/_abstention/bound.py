"""Bounds on the probability of an abstention, from one greedy reply and the likeliest tokens beside it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, Literal

from ragstone.errors import JudgeReplyError
from ragstone.judges._abstention.exact import CERTAIN, ExactReading
from ragstone.judges._abstention.recognise import continues, extends_last_word, strip_final_punctuation
from ragstone.judges._model import ChatModel, ChatRequest, TokenLogprobs
from ragstone.judges._render import Message
from ragstone.schema import Interval

__all__ = ["bound", "read_bound"]

_MIN_TOKENS: Final = 8
"""Tokens of the greedy reply to look at; more for a long phrase."""
_TOKEN_CHARS: Final = 3
"""Tokens have more characters than this on average, so that the phrase's end comes into sight."""
_LEADS: Final = ("", " ", "\n", "\n\n")
_OVERRUNS: Final = 4
"""Tokens that hold the last piece of a phrase and what follows it ("SPONSE.", "SPONSE\\n")."""
_MOST_MASS: Final = 1.02
"""What the probabilities of one token may add up to, rounding included."""
_HALF: Final = "\ufffd"
"""What stands for tokens that hold some of a character's bytes."""
_LAST_SINGLE: Final = "\x7f"
"""The last character of one byte."""
_ROUNDING: Final = 1e-5
"""Log-probabilities arrive rounded; what certainly is there may be this much less or more."""


async def read_bound(
    model: ChatModel, messages: Sequence[Message], phrases: Sequence[str], *, top_logprobs: int
) -> ExactReading:
    """Bound the probability that the reply starts with a phrase, from one request.

    Raises:
        JudgeReplyError: The model declined, or no log-probabilities came.
        JudgeError: No reply.
    """
    longest = max(map(len, phrases))
    request = ChatRequest(
        messages=messages,
        max_tokens=max(_MIN_TOKENS, longest // _TOKEN_CHARS + 2),
        sampling={"temperature": 0.0},
        top_logprobs=top_logprobs,
    )
    (completion,) = await model.complete(request)
    if completion.finish == "refused":
        raise JudgeReplyError(
            f"the reader declined to answer: {completion.text or 'content filter'}", kind="refused", raw=completion.text
        )
    tokens = completion.tokens or ()
    # A reply that ends at once has no token to tell of.
    if (completion.text and not tokens) or not all(token.top for token in tokens):
        raise JudgeReplyError(
            f"{model.name} was asked for log-probabilities and sent none with {completion.text[:80]!r}",
            raw=completion.text,
        )
    if any(math.fsum(math.exp(min(0.0, logprob)) for _, logprob in token.top) > _MOST_MASS for token in tokens):
        raise JudgeReplyError(
            f"{model.name} sent log-probabilities of one token that add up to more than 1 as probabilities",
            raw=completion.text,
        )
    low, seen, high = bound(tokens, phrases)
    return ExactReading(
        value=seen, interval=Interval(low=low, high=high, confidence_level=CERTAIN, method="bound"), complete=None
    )


def bound(tokens: Sequence[TokenLogprobs], phrases: Sequence[str]) -> tuple[float, float, float]:
    """What the tokens of one reply, and the likeliest alternatives to each, say of starting with a phrase.

    At each place the probability of having come there splits: the listed tokens that complete a phrase (certain), those
    that lead on towards one (possible), and the rest of the vocabulary, of which only the sum is known, and that none of
    it is likelier than the least likely one listed. The reply's own token, while it leads on, is followed.

    Args:
        tokens: The reply's tokens, from its first one. Which reply it is does not matter; the greedy one tells most.
        phrases: The phrases, as they are written; a full stop at the end is not waited for.

    Returns:
        What is certain, what was seen (certain or possible), and the most that there can be. Assumes that hardly any
        two tokens are spelled alike.

    Source:
        The tail: nothing unlisted is likelier than the least likely listed token, and all of it has what is left of 1.
    """
    phrases = [strip_final_punctuation(phrase) for phrase in phrases]
    certain = possible = tail = 0.0
    said, reached = "", 1.0
    for token in tokens:
        listed = list(token.top)
        # Some servers list the most likely tokens only, the reply's own not among them.
        if all(text != token.text for text, _ in listed):
            listed.append((token.text, token.logprob))
        own_seen = False
        following: float | None = None
        for text, logprob in listed:
            p = reached * math.exp(min(0.0, logprob))
            stage = _stage(said + text, phrases)
            if stage == "phrase":
                certain += p
            elif stage == "way" and text == token.text and not own_seen:
                own_seen, following = True, p
            elif stage in ("way", "open"):
                possible += p
        tail += reached * _unlisted(listed, token.text, said, phrases)
        if following is None:
            reached = 0.0
            break
        said, reached = said + token.text, following
    # The reply ended, or was not looked at any further, on the way to a phrase. How likely it was to go on is not told.
    tail += reached
    low = min(1.0, certain)
    seen = min(1.0, certain + possible)
    high = min(1.0, certain + possible + tail)
    return max(0.0, low - _ROUNDING), seen, min(1.0, high + _ROUNDING)


def _stage(said: str, phrases: Sequence[str]) -> Literal["phrase", "way", "open", "elsewhere"]:
    said = said.lstrip()
    opened = [phrase for phrase in phrases if said.startswith(phrase)]
    # Its last token may hold more than the phrase: "NO." is the phrase "NO", "NOTE" is not, and where no blanks part the
    # words it cannot be seen.
    if any(not continues(said[len(phrase) :]) for phrase in opened):
        return "phrase"
    if any(phrase.startswith(said) for phrase in phrases):
        return "way"
    if any(not extends_last_word(phrase, said[len(phrase) :]) for phrase in opened):
        return "open"
    known, half, _ = said.partition(_HALF)
    spelled = [phrase[len(known) :] for phrase in phrases if half and phrase.startswith(known)]
    return "open" if any(rest[:1] > _LAST_SINGLE for rest in spelled) else "elsewhere"


def _unlisted(listed: Sequence[tuple[str, float]], own: str, said: str, phrases: Sequence[str]) -> float:
    """The most that tokens which are not listed can have of the way to a phrase."""
    left = max(0.0, 1.0 - math.fsum(math.exp(min(0.0, logprob)) for _, logprob in listed))
    # The reply's own token may have been added to the list, however unlikely it is.
    ranked = [logprob for text, logprob in listed if text != own] or [logprob for _, logprob in listed]
    least = math.exp(min(0.0, *ranked))
    return min(left, least * _missing({text for text, _ in listed}, said, phrases))


def _missing(listed: set[str], said: str, phrases: Sequence[str]) -> int:
    """How many tokens there may be that lead on, as spellings that are not listed."""
    opened = said.lstrip()
    ways: set[str] = set()
    for phrase in phrases:
        if not phrase.startswith(opened):
            continue
        rest = phrase[len(opened) :]
        for lead in ("",) if opened else _LEADS:
            ways |= {lead + rest[:size] for size in range(len(rest) + 1)}
    return len(ways - listed - {""}) + _OVERRUNS
