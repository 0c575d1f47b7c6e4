"""The exact probability of an abstention: the phrase's own tokens, read one after the other."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from ragstone.judges._model import ChatModel
from ragstone.judges._once import Once
from ragstone.judges._render import Message
from ragstone.schema import Interval

__all__ = ["CERTAIN", "ExactReading", "ExactSequence"]

CERTAIN: Final = 0.999999
"""Level of an interval that holds its value for sure; 1 is no level."""

_NEGLIGIBLE: Final = 1e-5
"""Spellings that together have less probability than this are not followed; it widens the interval instead."""
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
    """Those of them that no other begins: their probabilities add up to that of starting with any."""
    variants: Mapping[int, tuple[Ids, ...]]
    """Other first tokens with which a reply may start a phrase, and the ways on from there; none where they are unknown."""
    end: int | None


class ExactSequence:
    """Reads the probability that a reply starts with one of several phrases.

    Args:
        model: A model with an exact route.
        phrases: The phrases as the model is asked to write them.
    """

    def __init__(self, model: ChatModel, phrases: Sequence[str]) -> None:
        self._model = model
        self._phrases = tuple(phrases)
        self._plan = Once(self._planned)

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
        readings = await asyncio.gather(*(self._model.forced(messages, phrase) for phrase in self._phrases))
        start, complete = 0.0, 0.0
        told = True
        for phrase, reading in zip(self._phrases, readings, strict=True):
            p = math.exp(math.fsum(reading.logprobs))
            start += p if _opens_with_no_other(phrase, self._phrases) else 0.0
            told = told and reading.end_logprob is not None
            complete += p * math.exp(reading.end_logprob or 0.0)
        return _reading(start, 0.0, complete if told else None)

    async def _chain(self, messages: Sequence[Message]) -> ExactReading:
        plan = await self._plan.get()
        prompt = tuple(await self._model.chat_ids(messages))
        tree = _Tree(prompt, plan.end)
        for ids in plan.complete:
            tree.want(ids)
        tree.also((), plan.variants)
        await tree.read(self._model)

        followed: set[Ids] = set()
        unfollowed = 0.0
        for first in sorted(plan.variants, key=lambda token: tree.p((token,))):
            p, ways = tree.p((first,)), plan.variants[first]
            if not ways or unfollowed + p <= _NEGLIGIBLE:
                unfollowed += p
            else:
                followed |= {(first, *way) for way in ways}
        if followed:
            for ids in followed:
                tree.want(ids)
            await tree.read(self._model)
        start = math.fsum(tree.p(ids) for ids in plan.starts | _minimal(followed))
        complete = None if plan.end is None else math.fsum(tree.p((*ids, plan.end)) for ids in plan.complete | followed)
        return _reading(start, unfollowed, complete)

    async def _planned(self) -> _Plan:
        ids_of = _Tokeniser(self._model)
        complete = {phrase: await ids_of(phrase) for phrase in self._phrases}
        # Some tokenisers put a blank before each text. What they say of the rest of a phrase is another text's.
        adds_blank = await ids_of("x") == await ids_of(" x")
        first_tokens = {ids[0] for ids in complete.values()}
        variants: dict[int, list[Ids]] = {}
        for phrase in self._phrases:
            for lead in _LEADS:
                whole = await ids_of(lead + phrase) if lead else complete[phrase]
                if lead and whole[0] not in first_tokens:
                    variants.setdefault(whole[0], []).append(whole[1:])
                openings = range(0 if lead else 1, min(_MAX_FIRST_TOKEN, len(phrase)) + 1)
                pieces = await asyncio.gather(*(ids_of(lead + phrase[:size]) for size in openings))
                for size, piece in zip(openings, pieces, strict=True):
                    if len(piece) != 1 or piece[0] in first_tokens:
                        continue
                    ways = variants.setdefault(piece[0], [])
                    if not adds_blank and whole[0] != piece[0]:
                        ways.append(await ids_of(phrase[size:]) if size < len(phrase) else ())
        spelled = frozenset(complete.values())
        return _Plan(
            complete=spelled,
            starts=frozenset(_minimal(spelled)),
            variants={first: tuple(dict.fromkeys(ways)) for first, ways in variants.items()},
            end=await self._model.end_id(),
        )


class _Tokeniser:
    def __init__(self, model: ChatModel) -> None:
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

    async def read(self, model: ChatModel) -> None:
        """Read what was asked for since the last time, in one batch."""
        places = sorted(place for place in self._wanted if self._wanted[place] - self._read.get(place, {}).keys())
        wanted = [sorted(self._wanted[place] - self._read.get(place, {}).keys()) for place in places]
        rows = await model.next_logprobs([[*self._prompt, *place] for place in places], wanted)
        for place, row in zip(places, rows, strict=True):
            self._read.setdefault(place, {}).update(row)

    def p(self, ids: Ids) -> float:
        """Probability of a sequence that was read."""
        return math.exp(math.fsum(self._read[ids[:place]][token] for place, token in enumerate(ids)))


def _minimal(sequences: set[Ids] | frozenset[Ids]) -> set[Ids]:
    """Those that extend no other, so that no reply is counted twice."""
    return {ids for ids in sequences if not any(ids[:size] in sequences for size in range(1, len(ids)))}


def _opens_with_no_other(phrase: str, phrases: Sequence[str]) -> bool:
    return not any(phrase.startswith(other) for other in phrases if other != phrase)


def _reading(start: float, unfollowed: float, complete: float | None) -> ExactReading:
    # Sums of rounded numbers may end a hair above 1.
    start = min(1.0, start)
    interval = Interval(low=start, high=min(1.0, start + unfollowed), level=CERTAIN, method="exact")
    return ExactReading(value=start, interval=interval, complete=None if complete is None else min(start, complete))
