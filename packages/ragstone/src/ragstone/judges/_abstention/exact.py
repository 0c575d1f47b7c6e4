"""The exact probability of an abstention: the phrase's own tokens, read one after the other."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from ragstone.judges._abstention.recognise import strip_final_punctuation
from ragstone.judges._model import AsyncOnce, ExactModel, ReplyLogprobs
from ragstone.judges._render import Message
from ragstone.schema import Interval

__all__ = ["CERTAIN", "ExactReading", "ExactSequence"]

CERTAIN: Final = 0.999999
"""Level of an interval that holds its value for sure; 1 is no level."""

_NEGLIGIBLE: Final = 1e-5
"""Spellings that together have less probability than this are not followed; it widens the interval instead."""
_SAME: Final = 0.02
"""Probabilities of one token differ by less than this between two requests."""
_MAX_FIRST_TOKEN: Final = 16
"""Characters of a phrase that a first token may hold."""
_LEADS: Final = ("", " ", "\n", "\n\n")
"""White space with which a reply may open."""

Ids = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExactReading:
    """What was read."""

    value: float
    """Probability that the reply starts with a phrase."""
    interval: Interval
    complete: float | None
    """Probability that the reply is a phrase and nothing else; None where the route does not tell."""


@dataclass(frozen=True, slots=True)
class _Plan:
    """What to read, in tokens; the same for each conversation."""

    complete: frozenset[Ids]
    """Each phrase as the tokeniser spells it."""
    starts: frozenset[Ids]
    """Those of them, and of the phrases without their last mark, that no other begins: their probabilities add up to
    that of starting with any."""
    variants: Mapping[int, Mapping[Ids, bool]]
    """Other first tokens with which a reply may start a phrase, and the ways on from there; none where they are unknown.
    True is a way to a phrase as it is written."""
    end: int | None


class ExactSequence:
    """Reads the probability that a reply starts with one of several phrases.

    Args:
        model: A model with an exact route.
        phrases: The phrases as the model is asked to write them. A reply starts with one also where it leaves out the
            full stop at its end, or puts another mark there.
    """

    def __init__(self, model: ExactModel, phrases: Sequence[str]) -> None:
        self._model = model
        self._phrases = tuple(phrases)
        self._written = {**dict.fromkeys(map(strip_final_punctuation, phrases), False), **dict.fromkeys(phrases, True)}
        """What a reply can start with, and whether it is a phrase as it is written."""
        self._plan = AsyncOnce(self._planned)

    async def read(
        self, messages: Sequence[Message], *, route: Literal["chain", "prefill", "echo"] = "chain"
    ) -> ExactReading:
        """Read it.

        Args:
            messages: The conversation that the reply follows.
            route: How. On "chain" the phrases' other spellings count as well: with white space before them, and with
                a shorter first token ("N", "O-RESPONSE"). The others read the tokeniser's own spelling alone.

        Raises:
            JudgeError: No answer, or one that does not hold what was asked.
        """
        if route == "chain":
            return await self._chain(messages)
        return await self._forced(messages)

    async def _forced(self, messages: Sequence[Message]) -> ExactReading:
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
        told = [end for end in ends if end is not None]
        complete = (
            math.fsum(p * math.exp(end) for p, end in zip(whole, told, strict=True)) if len(told) == len(ends) else None
        )
        return _reading(start, 0.0, complete)

    async def _chain(self, messages: Sequence[Message]) -> ExactReading:
        plan = await self._plan.get()
        prompt = tuple(await self._model.chat_ids(messages))
        tree = _Tree(prompt, plan.end)
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
        ids_of = _Tokeniser(self._model)
        spelled = {phrase: await ids_of(phrase) for phrase in self._written}
        # Some tokenisers put a blank before each text. What they say of the rest of a phrase is another text's.
        adds_blank = await ids_of("x") == await ids_of(" x")
        first_tokens = {ids[0] for ids in spelled.values()}
        variants: dict[int, dict[Ids, bool]] = {}

        def lead_on(first: int, *ways: Ids, written: bool) -> None:
            known = variants.setdefault(first, {})
            for way in ways:
                known[way] = written or known.get(way, False)

        for phrase, written in self._written.items():
            for lead in _LEADS:
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


class _Tokeniser:
    def __init__(self, model: ExactModel) -> None:
        self._model = model

    async def __call__(self, text: str) -> Ids:
        return tuple(await self._model.text_ids(text))


class _Tree:
    """Next-token probabilities along several sequences that share their beginnings; each place is read once."""

    def __init__(self, prompt: Ids, end: int | None) -> None:
        self._prompt = prompt
        self._end = end
        self._wanted: dict[Ids, set[int]] = {}
        self._read: dict[Ids, dict[int, float]] = {}

    def want(self, ids: Ids) -> None:
        """Ask for a sequence, and for the end of the turn after it."""
        for place, token in enumerate(ids):
            self._wanted.setdefault(ids[:place], set()).add(token)
        if self._end is not None:
            self._wanted.setdefault(ids, set()).add(self._end)

    def also(self, place: Ids, tokens: Mapping[int, object]) -> None:
        """Ask for more tokens at a place."""
        self._wanted.setdefault(place, set()).update(tokens)

    async def read(self, model: ExactModel) -> None:
        """Read what was asked for since the last time, in one batch."""
        places = sorted(place for place in self._wanted if self._wanted[place] - self._read.get(place, {}).keys())
        wanted = [sorted(self._wanted[place] - self._read.get(place, {}).keys()) for place in places]
        rows = await model.next_logprobs([[*self._prompt, *place] for place in places], wanted)
        for place, row in zip(places, rows, strict=True):
            self._read.setdefault(place, {}).update(row)

    def p(self, ids: Ids) -> float:
        """Probability of a sequence that was read."""
        return math.exp(math.fsum(self._read[ids[:place]][token] for place, token in enumerate(ids)))


def _minimal(sequences: Iterable[Ids]) -> set[Ids]:
    """Those that extend no other, so that no reply is counted twice."""
    known = set(sequences)
    return {ids for ids in known if not any(ids[:size] in known for size in range(1, len(ids)))}


def _probability(reading: ReplyLogprobs) -> float:
    return math.exp(math.fsum(reading.logprobs))


def _holds(reply: str, reading: ReplyLogprobs, other: str, shorter: ReplyLogprobs) -> bool:
    """Whether `reply` begins with the tokens of `other`; they are not told, but equal tokens are equally likely."""
    if not reply.startswith(other) or len(shorter.logprobs) >= len(reading.logprobs):
        return False
    # A word that has ended there is no beginning of another token.
    if not reply[len(other)].isalnum():
        return True
    # Servers calculate the same probability a little differently from one request to the next.
    pairs = zip(shorter.logprobs, reading.logprobs, strict=False)
    return all(abs(math.exp(a) - math.exp(b)) <= _SAME for a, b in pairs)


def _reading(start: float, unfollowed: float, complete: float | None) -> ExactReading:
    # Sums of rounded numbers may end a hair above 1.
    start = min(1.0, start)
    interval = Interval(low=start, high=min(1.0, start + unfollowed), confidence_level=CERTAIN, method="exact")
    return ExactReading(value=start, interval=interval, complete=None if complete is None else min(start, complete))
