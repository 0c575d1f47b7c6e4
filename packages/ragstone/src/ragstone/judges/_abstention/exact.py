"""Exact probability of an abstention, from the token probabilities of its phrases."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ragstone.judges._abstention.recognize import strip_final_punctuation
from ragstone.judges._model import AsyncOnce, ExactModel, ReplyLogprobs, Route, read_chain
from ragstone.judges._protocol import AbstentionEstimate
from ragstone.judges._render import Message
from ragstone.schema import Interval

CERTAIN: Final = 0.999999
"""Confidence level of an interval that certainly contains its value, because 1 is not a valid level."""

_NEGLIGIBLE: Final = 1e-5
"""Tokenizations with less total probability than this are not followed. They widen the interval instead."""
_SAME: Final = 0.02
"""Maximum difference of the probability of one token between two requests."""
_MAX_FIRST_TOKEN: Final = 16
"""Maximum number of characters of a phrase in a first token."""
LEADS: Final = ("", " ", "\n", "\n\n")
"""Whitespace with which a reply may begin."""

Ids = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Plan:
    """Token sequences to read. They are the same for each conversation."""

    complete: frozenset[Ids]
    """The tokenizer's own tokens of each phrase."""
    starts: frozenset[Ids]
    """Token sequences of the phrases, with and without final punctuation, that do not extend another one. The sum of
    their probabilities is the probability that the reply starts with a phrase."""
    variants: Mapping[int, Mapping[Ids, bool]]
    """Other first tokens with which a reply may start a phrase, and the possible continuations (empty if unknown). The
    value is True if the continuation completes a phrase including its punctuation."""
    end: int | None


class ExactSequence:
    """Reads the probability that a reply starts with one of several phrases, from a model with an exact route.

    A reply may omit the final punctuation of the phrases in the prompt, or use another mark.
    """

    def __init__(self, model: ExactModel, phrases: Sequence[str]) -> None:
        self._model = model
        self._phrases = tuple(phrases)
        self._written = {**dict.fromkeys(map(strip_final_punctuation, phrases), False), **dict.fromkeys(phrases, True)}
        """Possible starts of a reply, and whether each is a phrase including its punctuation."""
        self._plan = AsyncOnce(self._planned)

    async def read(self, messages: Sequence[Message], *, route: Route = "chain") -> AbstentionEstimate:
        """Read the probability of the phrases after `messages`.

        With the route "chain" other tokenizations of the phrases count as well: with whitespace before them, and with a
        shorter first token ("N", "O-RESPONSE"). The route "echo" reads only the tokenizer's own tokens.
        """
        return await (self._chain if route == "chain" else self._forced)(messages)

    async def _forced(self, messages: Sequence[Message]) -> AbstentionEstimate:
        replies = list(self._written)
        read = await asyncio.gather(*(self._model.reply_logprobs(messages, reply) for reply in replies))
        readings = dict(zip(replies, read, strict=True))
        ends = [readings[phrase].end_logprob for phrase in self._phrases]
        whole = [_probability(readings[phrase]) for phrase in self._phrases]
        start = math.fsum(
            _probability(reading)
            for reply, reading in readings.items()
            if not any(other != reply and _holds(reply, reading, other, readings[other]) for other in replies)
        )
        known = [end for end in ends if end is not None]
        if len(known) < len(ends):
            return _reading(start, 0.0, None)
        return _reading(start, 0.0, math.fsum(p * math.exp(end) for p, end in zip(whole, known, strict=True)))

    async def _chain(self, messages: Sequence[Message]) -> AbstentionEstimate:
        plan = await self._plan.get()
        tree = _Tree(tuple(await self._model.chat_ids(messages)), plan.end)
        for ids in plan.complete | plan.starts:
            tree.want(ids)
        tree.also((), plan.variants)
        await tree.read(self._model)

        followed: dict[Ids, bool] = {}
        unfollowed = 0.0
        for first in sorted(plan.variants, key=lambda token: tree.p((token,))):
            p, ways = tree.p((first,)), plan.variants[first]
            if not ways or unfollowed + p <= _NEGLIGIBLE:
                unfollowed += p
            else:
                followed |= {(first, *way): written for way, written in ways.items()}
        if followed:
            for ids in followed:
                tree.want(ids)
            await tree.read(self._model)
        start = math.fsum(tree.p(ids) for ids in plan.starts | _minimal(followed.keys()))
        whole = plan.complete | {ids for ids, written in followed.items() if written}
        complete = None if plan.end is None else math.fsum(tree.p((*ids, plan.end)) for ids in whole)
        return _reading(start, unfollowed, complete)

    async def _planned(self) -> _Plan:
        async def ids_of(text: str) -> Ids:
            return tuple(await self._model.text_ids(text))

        spelled = {phrase: await ids_of(phrase) for phrase in self._written}
        # Some tokenizers add a space before each text. Their tokens for the rest of a phrase do not follow its start.
        adds_blank = await ids_of("x") == await ids_of(" x")
        first_tokens = {ids[0] for ids in spelled.values()}
        variants: dict[int, dict[Ids, bool]] = {}

        def lead_on(first: int, *ways: Ids, written: bool) -> None:
            known = variants.setdefault(first, {})
            for way in ways:
                known[way] = written or known.get(way, False)

        for phrase, written in self._written.items():
            for lead in LEADS:
                whole = await ids_of(lead + phrase) if lead else spelled[phrase]
                if lead and whole[0] not in first_tokens:
                    lead_on(whole[0], whole[1:], written=written)
                openings = range(0 if lead else 1, min(_MAX_FIRST_TOKEN, len(phrase)) + 1)
                pieces = await asyncio.gather(*(ids_of(lead + phrase[:size]) for size in openings))
                for size, piece in zip(openings, pieces, strict=True):
                    if len(piece) != 1 or piece[0] in first_tokens:
                        continue
                    lead_on(piece[0], written=written)
                    if not adds_blank and whole[0] != piece[0]:
                        lead_on(piece[0], await ids_of(phrase[size:]) if size < len(phrase) else (), written=written)
        return _Plan(
            complete=frozenset(spelled[phrase] for phrase in self._phrases),
            starts=frozenset(_minimal(spelled.values())),
            variants=variants,
            end=await self._model.end_id(),
        )


async def read_logprob(model: ExactModel, messages: Sequence[Message], reply: str, *, route: Route) -> float:
    """Read the log-probability that a reply starts with the tokenizer's own tokens of a text."""
    read = read_chain(model, messages, reply) if route == "chain" else model.reply_logprobs(messages, reply)
    return math.fsum((await read).logprobs)


class _Tree:
    """Next-token probabilities along several sequences with common prefixes. Each position is read once."""

    def __init__(self, prompt: Ids, end: int | None) -> None:
        self._prompt = prompt
        self._end = end
        self._wanted: dict[Ids, set[int]] = {}
        self._read: dict[Ids, dict[int, float]] = {}

    def want(self, ids: Ids) -> None:
        """Add a sequence, and the end of the turn after it."""
        for place, token in enumerate(ids):
            self._wanted.setdefault(ids[:place], set()).add(token)
        if self._end is not None:
            self._wanted.setdefault(ids, set()).add(self._end)

    def also(self, place: Ids, tokens: Mapping[int, object]) -> None:
        """Add more tokens at a position."""
        self._wanted.setdefault(place, set()).update(tokens)

    async def read(self, model: ExactModel) -> None:
        """Read everything added since the last call, in one batch."""
        places = sorted(place for place in self._wanted if self._wanted[place] - self._read.get(place, {}).keys())
        wanted = [sorted(self._wanted[place] - self._read.get(place, {}).keys()) for place in places]
        rows = await model.next_logprobs([[*self._prompt, *place] for place in places], wanted)
        for place, row in zip(places, rows, strict=True):
            self._read.setdefault(place, {}).update(row)

    def p(self, ids: Ids) -> float:
        """Return the probability of a sequence that was read."""
        return math.exp(math.fsum(self._read[ids[:place]][token] for place, token in enumerate(ids)))


def _minimal(sequences: Iterable[Ids]) -> set[Ids]:
    """Return the sequences that do not extend another one, so that no reply counts twice."""
    known = set(sequences)
    return {ids for ids in known if not any(ids[:size] in known for size in range(1, len(ids)))}


def _probability(reading: ReplyLogprobs) -> float:
    return math.exp(math.fsum(reading.logprobs))


def _holds(reply: str, reading: ReplyLogprobs, other: str, shorter: ReplyLogprobs) -> bool:
    """Return whether the tokens of `reply` begin with those of `other`, which equal probabilities indicate."""
    if not reply.startswith(other) or len(shorter.logprobs) >= len(reading.logprobs):
        return False
    # If a word ends there, its last character cannot be the beginning of another token.
    if not reply[len(other)].isalnum():
        return True
    # Servers compute slightly different probabilities in different requests.
    pairs = zip(shorter.logprobs, reading.logprobs, strict=False)
    return all(abs(math.exp(a) - math.exp(b)) <= _SAME for a, b in pairs)


def _reading(start: float, unfollowed: float, complete: float | None) -> AbstentionEstimate:
    # A sum of rounded numbers may be slightly above 1.
    start = min(1.0, start)
    interval = Interval(low=start, high=min(1.0, start + unfollowed), confidence_level=CERTAIN, method="exact")
    complete = None if complete is None else min(start, complete)
    return AbstentionEstimate(value=start, interval=interval, method="exact_sequence", complete=complete)
