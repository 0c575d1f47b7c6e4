"""Bounds of the probability of an abstention, from one greedy reply and the most likely tokens at each position."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, Literal

from ragstone.errors import JudgeReplyError
from ragstone.judges._abstention.exact import CERTAIN, LEADS
from ragstone.judges._abstention.recognize import continues, extends_last_word, strip_final_punctuation
from ragstone.judges._model import ChatModel, ChatRequest, TokenLogprobs, check_declined
from ragstone.judges._protocol import AbstentionEstimate
from ragstone.judges._render import Message
from ragstone.schema import Interval

_MIN_TOKENS: Final = 8
"""Minimum number of tokens of the greedy reply. Long phrases need more."""
_TOKEN_CHARS: Final = 3
"""Lower estimate of the average characters per token, so that the reply includes the end of the phrase."""
_OVERRUNS: Final = 4
"""Tokens that contain the end of a phrase and text after it ("SPONSE.", "SPONSE\\n")."""
_MOST_MASS: Final = 1.02
"""Maximum sum of the probabilities of one token, including rounding."""
_HALF: Final = "\ufffd"
"""Replacement for tokens that contain only some bytes of a character."""
_LAST_SINGLE: Final = "\x7f"
"""Last character with one byte."""
_ROUNDING: Final = 1e-5
"""Tolerance for rounded log-probabilities."""


async def read_bound(
    model: ChatModel, messages: Sequence[Message], phrases: Sequence[str], *, top_logprobs: int
) -> AbstentionEstimate:
    """Bound the probability that the reply starts with a phrase, from one request."""
    size, greedy = max(_MIN_TOKENS, max(map(len, phrases)) // _TOKEN_CHARS + 2), {"temperature": 0.0}
    request = ChatRequest(messages=messages, max_tokens=size, sampling=greedy, top_logprobs=top_logprobs)
    (completion,) = await model.complete(request)
    check_declined(completion, "reader")
    tokens = completion.tokens or ()
    # An empty reply comes without tokens.
    if (completion.text and not tokens) or not all(token.top for token in tokens):
        raise JudgeReplyError(
            f"{model.name} sent no log-probabilities, although they were requested, with {completion.text[:80]!r}",
            raw=completion.text,
        )
    if any(math.fsum(math.exp(min(0.0, logprob)) for _, logprob in token.top) > _MOST_MASS for token in tokens):
        raise JudgeReplyError(
            f"{model.name} sent log-probabilities of one token whose probabilities add up to more than 1",
            raw=completion.text,
        )
    low, seen, high = bound(tokens, phrases)
    interval = Interval(low=low, high=high, confidence_level=CERTAIN, method="bound")
    return AbstentionEstimate(value=seen, interval=interval, method="first_token")


def bound(tokens: Sequence[TokenLogprobs], phrases: Sequence[str]) -> tuple[float, float, float]:
    """Bound the probability that a reply starts with a phrase, from tokens of one reply and their alternatives.

    At each position the probability of reaching it has three parts: listed tokens that complete a phrase (certain),
    listed tokens that may lead to one (possible), and the rest of the vocabulary. Of the rest only the sum is known,
    and that no token of it is more likely than the least likely listed token, which gives the upper bound. The reply's
    own token is followed as long as it leads to a phrase.

    Return the certain probability, the observed one (certain and possible), and the upper bound. They are valid for any
    reply if hardly any two tokens have the same text, and closest for the greedy one. Final punctuation is optional.
    """
    phrases = [strip_final_punctuation(phrase) for phrase in phrases]
    certain = possible = tail = 0.0
    prefix, reached = "", 1.0
    for token in tokens:
        listed = list(token.top)
        # Some servers list only the most likely tokens, without the token of the reply.
        if all(text != token.text for text, _ in listed):
            listed.append((token.text, token.logprob))
        following: float | None = None
        for text, logprob in listed:
            p = reached * math.exp(min(0.0, logprob))
            stage = _stage(prefix + text, phrases)
            if stage == "phrase":
                certain += p
            elif stage == "way" and text == token.text and following is None:
                following = p
            elif stage in ("way", "open"):
                possible += p
        tail += reached * _unlisted(listed, token.text, prefix, phrases)
        if following is None:
            reached = 0.0
            break
        prefix, reached = prefix + token.text, following
    # The reply ended, or its read part did, before a phrase was complete. The probability of what follows is unknown.
    tail += reached
    seen = certain + possible
    return max(0.0, min(1.0, certain) - _ROUNDING), min(1.0, seen), min(1.0, seen + tail + _ROUNDING)


def _stage(prefix: str, phrases: Sequence[str]) -> Literal["phrase", "way", "open", "elsewhere"]:
    prefix = prefix.lstrip()
    opened = [phrase for phrase in phrases if prefix.startswith(phrase)]
    # The last token may contain more than the phrase: "NO." is the phrase "NO", "NOTE" is not. In scripts without
    # spaces this cannot be decided.
    if any(not continues(prefix[len(phrase) :]) for phrase in opened):
        return "phrase"
    if any(phrase.startswith(prefix) for phrase in phrases):
        return "way"
    if any(not extends_last_word(phrase, prefix[len(phrase) :]) for phrase in opened):
        return "open"
    known, half, _ = prefix.partition(_HALF)
    spelled = [phrase[len(known) :] for phrase in phrases if half and phrase.startswith(known)]
    return "open" if any(rest[:1] > _LAST_SINGLE for rest in spelled) else "elsewhere"


def _unlisted(listed: Sequence[tuple[str, float]], own: str, prefix: str, phrases: Sequence[str]) -> float:
    """Return the maximum probability of unlisted tokens that lead to a phrase."""
    left = max(0.0, 1.0 - math.fsum(math.exp(min(0.0, logprob)) for _, logprob in listed))
    # The list may contain the reply's own token in addition, however unlikely it is.
    ranked = [logprob for text, logprob in listed if text != own] or [logprob for _, logprob in listed]
    return min(left, math.exp(min(0.0, *ranked)) * _missing({text for text, _ in listed}, prefix, phrases))


def _missing(listed: set[str], prefix: str, phrases: Sequence[str]) -> int:
    """Return the maximum number of tokens that lead to a phrase and are not listed."""
    opened = prefix.lstrip()
    ways: set[str] = set()
    for phrase in phrases:
        if not phrase.startswith(opened):
            continue
        rest = phrase[len(opened) :]
        for lead in ("",) if opened else LEADS:
            ways |= {lead + rest[:size] for size in range(len(rest) + 1)}
    return len(ways - listed - {""}) + _OVERRUNS
