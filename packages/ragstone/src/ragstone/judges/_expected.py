"""Exact probability distribution over the integers that a judge may reply with, read token by token."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Final

from ragstone.judges._abstention.exact import CERTAIN
from ragstone.judges._model import AsyncOnce, ChatModel, ExactModel, find_exact_route
from ragstone.judges._render import Message
from ragstone.schema import Interval

_FLOOR: Final = 1e-5
"""Beginnings of replies that are less likely than this are not followed. They widen the interval instead."""
_MAX_NUMBERS: Final = 1001

Tokens = tuple[int, ...]


@dataclass(frozen=True)
class NumberDistribution:
    """Probabilities of replies that consist of one integer only."""

    probabilities: Mapping[int, float]
    """Probabilities that were read, by number. Their sum may be below 1, because other replies are possible."""
    unread: tuple[tuple[float, int, int], ...]
    """Beginnings that were not followed: their probability, and the smallest and largest number they can lead to."""

    @cached_property
    def mass(self) -> float:
        """Probability that the reply is a number in the range, without the beginnings that were not followed."""
        return math.fsum(self.probabilities.values())

    @cached_property
    def value(self) -> float:
        """Expectation, given that the reply is a number in the range. ValueError if none has a probability above 0."""
        if self.mass <= 0:
            raise ValueError("the expectation is undefined: no number in the range has a probability above 0")
        mean = math.fsum(number * p for number, p in self.probabilities.items()) / self.mass
        # Rounding must not move the mean out of the range.
        return min(max(mean, min(self.probabilities)), max(self.probabilities))

    @cached_property
    def interval(self) -> Interval:
        """Range of the expectation for all possible continuations of the beginnings that were not followed."""
        return Interval(
            low=self._extreme(((low, p) for p, low, _ in self.unread), sign=1),
            high=self._extreme(((high, p) for p, _, high in self.unread), sign=-1),
            confidence_level=CERTAIN,
            method="exact",
        )

    def _extreme(self, additions: Iterable[tuple[int, float]], *, sign: int) -> float:
        # The mean moves the farthest if it includes all additions on one side, the farthest first.
        mean, mass = self.value, self.mass
        for number, p in sorted(additions, key=lambda addition: sign * addition[0]):
            if sign * number >= sign * mean:
                break
            mean += (number - mean) * p / (mass + p)
            mass += p
        return mean

    def __str__(self) -> str:
        ranked = sorted(self.probabilities.items(), key=lambda item: (-item[1], item[0]))
        return ", ".join(f"{number}: {p:.2f}" for number, p in ranked[:3])


@dataclass(frozen=True, slots=True)
class Spellings:
    """Token sequences of the integers in a range, as a trie."""

    numbers: Mapping[Tokens, int]
    """Number of each complete sequence."""
    nexts: Mapping[Tokens, tuple[int, ...]]
    """Possible next tokens of each beginning."""
    reach: Mapping[Tokens, tuple[int, int]]
    """Smallest and largest number that each beginning can lead to."""

    @classmethod
    def of(cls, numbers: Mapping[Tokens, int]) -> Spellings:
        """Build the trie."""
        nexts: dict[Tokens, dict[int, None]] = {}
        reach: dict[Tokens, tuple[int, int]] = {}
        for tokens, number in numbers.items():
            for length in range(len(tokens) + 1):
                beginning = tokens[:length]
                low, high = reach.get(beginning, (number, number))
                reach[beginning] = (min(low, number), max(high, number))
                following = nexts.setdefault(beginning, {})
                if length < len(tokens):
                    following[tokens[length]] = None
        return cls(numbers, {beginning: tuple(following) for beginning, following in nexts.items()}, reach)


class NumberDistributionReader:
    """Reads distributions over numbers from one model, and caches how its tokenizer spells them."""

    def __init__(self, model: ChatModel) -> None:
        self._model = model
        self._spellings: dict[tuple[float, float], AsyncOnce[Spellings | None]] = {}

    async def read(self, messages: Sequence[Message], low: float, high: float) -> NumberDistribution | None:
        """Read the distribution over the integers from low to high, or return None if the model does not support it."""
        if not (float(low).is_integer() and float(high).is_integer() and high - low < _MAX_NUMBERS):
            return None
        model, route = find_exact_route(self._model, await self._model.capabilities()) or (None, None)
        if model is None or route != "chain":
            return None
        if (low, high) not in self._spellings:
            self._spellings[low, high] = AsyncOnce(partial(build_spellings, model, int(low), int(high)))
        spellings = await self._spellings[low, high].get()
        end = await model.end_id()
        if spellings is None or end is None:
            return None
        return await _walk(model, messages, spellings, end)


async def _walk(model: ExactModel, messages: Sequence[Message], spellings: Spellings, end: int) -> NumberDistribution:
    prompt = await model.chat_ids(messages)
    found: dict[int, float] = dict.fromkeys(spellings.numbers.values(), 0.0)
    unread: list[tuple[float, int, int]] = []
    level: dict[Tokens, float] = {(): 1.0}
    while level:
        wanted = [(*spellings.nexts[start], *((end,) if start in spellings.numbers else ())) for start in level]
        read = await model.next_logprobs([[*prompt, *start] for start in level], wanted)
        following: dict[Tokens, float] = {}
        for beginning, tokens, logprobs in zip(level, wanted, read, strict=True):
            for token in tokens:
                p = level[beginning] * min(1.0, math.exp(logprobs[token]))
                longer = (*beginning, token)
                # A token may end the turn and nothing else, so no spelling continues with it.
                if token == end:
                    found[spellings.numbers[beginning]] += p
                elif p >= _FLOOR:
                    following[longer] = p
                elif p > 0:
                    unread.append((p, *spellings.reach[longer]))
        level = following
    return NumberDistribution(found, tuple(unread))


async def build_spellings(model: ExactModel, low: int, high: int) -> Spellings | None:
    """Find all token sequences of each integer, with or without one space before it and one newline after it.

    Return None if two integers have the same tokens.
    """
    numerals = {str(number): number for number in range(low, high + 1)}
    written = [lead + numeral for lead in ("", " ") for numeral in numerals]
    parts = {text[i:j] for text in written for i in range(len(text)) for j in range(i + 1, len(text) + 1)}
    texts = sorted({*written, *parts, "\n"})
    ids = dict(zip(texts, map(tuple, await asyncio.gather(*map(model.text_ids, texts))), strict=True))
    pieces = {text: tokens[0] for text, tokens in ids.items() if len(tokens) == 1}
    ways = {text: set(_segmented(text, pieces)) for text in written}
    # Tokenizers that add a mark before each text do not have tokens that can be combined like this. For those only the
    # tokenizer's own sequence of each number is known.
    if len(set(pieces.values())) < len(pieces) or any(ids[text] not in ways[text] for text in written):
        ways = {text: {ids[text]} for text in written}
    numbers: dict[Tokens, int] = {}
    for text in written:
        number = numerals[text.strip()]
        for tokens in [longer for way in sorted(ways[text]) for longer in (way, (*way, *ids["\n"]))]:
            if not tokens or numbers.setdefault(tokens, number) != number:
                return None
    return Spellings.of(numbers)


def _segmented(text: str, pieces: Mapping[str, int]) -> Iterator[Tokens]:
    """Yield all token sequences that spell `text`."""
    if not text:
        yield ()
    for length in range(1, len(text) + 1):
        if (token := pieces.get(text[:length])) is not None:
            for rest in _segmented(text[length:], pieces):
                yield (token, *rest)
