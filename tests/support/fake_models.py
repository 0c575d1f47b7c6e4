"""A reader and an embedder whose results a test defines."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from ragstone.judges import AbstentionEstimate, JudgeIdentity, TextReply, record_usage
from ragstone.schema import Interval, Usage


class _Fake:
    """A model with a name, and without connections."""

    def __init__(self, name: str) -> None:
        self._name = name

    @property
    def identity(self) -> JudgeIdentity:
        """The name, and its hash."""
        return JudgeIdentity(name=self._name, hash=hashlib.sha256(self._name.encode()).hexdigest()[:16])

    async def aclose(self) -> None:
        """Do nothing."""


class FakeReader(_Fake):
    """A reader with abstention probabilities that the test defines.

    Args:
        p: Probability of abstention: a constant, or a function of the query and the texts of the passages. An exception
            that the function returns is raised.
        answer: Answer: a constant, or a function with the same arguments.
        half_width: Half the width of the intervals, which are cut to [0, 1]. Above 0 the method is Monte Carlo.
        name: Name in the identity.

    Attributes:
        asked: Query and passages of each call, in order.

    Examples:
        ```python
        reader = FakeReader(lambda query, passages: 0.1 if "Oslo" in passages[0] else 0.9)
        ```
    """

    def __init__(
        self,
        p: float | Callable[[str, Sequence[str]], float | Exception] = 0.5,
        *,
        answer: str | Callable[[str, Sequence[str]], str] = "a fake answer",
        half_width: float = 0.0,
        name: str = "fake reader",
    ) -> None:
        super().__init__(name)
        self._p = p
        self._answer = answer
        self._half_width = half_width
        self.asked: list[tuple[str, tuple[str, ...]]] = []

    async def estimate_abstention(self, query: str, passages: Sequence[str]) -> AbstentionEstimate:
        """Return the probability that the test defined."""
        self.asked.append((query, tuple(passages)))
        usage = Usage(calls=1, input_tokens=len("".join(passages)) // 4, output_tokens=1)
        record_usage(usage)
        p = self._p(query, passages) if callable(self._p) else self._p
        if isinstance(p, Exception):
            raise p
        low, high = max(0.0, p - self._half_width), min(1.0, p + self._half_width)
        drawn = self._half_width > 0
        return AbstentionEstimate(
            value=p,
            interval=Interval(low=low, high=high, method="wilson" if drawn else "exact"),
            method="monte_carlo" if drawn else "exact_sequence",
            complete=p,
            n=20 if drawn else 1,
            usage=usage,
        )

    async def answer(self, query: str, passages: Sequence[str]) -> TextReply:
        """Return the answer that the test defined."""
        self.asked.append((query, tuple(passages)))
        return TextReply(text=self._answer(query, passages) if callable(self._answer) else self._answer)

    def is_abstention(self, reply: str) -> bool:
        """Return whether a reply equals "NO-RESPONSE"."""
        return reply.strip() == "NO-RESPONSE"


class FakeEmbedder(_Fake):
    """An embedder whose cosines a test defines.

    Args:
        cosines: Cosine of the first text of a call with each other one, in order, or a function of the first and another
            text that returns it or an exception.
        name: Name of the embedder.

    Attributes:
        asked: Texts of all calls, in order.

    Examples:
        ```python
        (metric,) = resolve_metrics("vera.answer_relevance_cosine")
        metric = metric.with_embedder(FakeEmbedder([0.8]))
        ```
    """

    def __init__(
        self, cosines: Sequence[float] | Callable[[str, str], float | Exception] = (), *, name: str = "fake embedder"
    ) -> None:
        super().__init__(name)
        self._cosines = cosines
        self.asked: list[tuple[str, ...]] = []

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float64]:
        """Return vectors with these cosines. Without enough of them, the cosine is 0.5."""
        self.asked.append(tuple(texts))
        record_usage(Usage(calls=1, input_tokens=len("".join(texts)) // 4))
        rows = np.zeros((len(texts), len(texts)))
        rows[0, 0] = 1.0
        for place, text in enumerate(texts[1:], start=1):
            cosine = self._cosine(place - 1, texts[0], text)
            if isinstance(cosine, Exception):
                raise cosine
            rows[place, 0], rows[place, place] = cosine, math.sqrt(1 - cosine**2)
        return rows

    def _cosine(self, place: int, first: str, other: str) -> float | Exception:
        if callable(self._cosines):
            return self._cosines(first, other)
        return self._cosines[place] if place < len(self._cosines) else 0.5
