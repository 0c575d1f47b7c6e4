"""Probability of an abstention from sampled replies, with as few replies as necessary."""

from __future__ import annotations

import asyncio
import functools
import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ragstone._util.abstains import answer_abstains
from ragstone.errors import JudgeReplyError
from ragstone.judges._abstention.recognize import AbstentionMatcher
from ragstone.judges._model import TEMPERATURE_ONE, ChatModel, ChatRequest, Completion, after_reasoning
from ragstone.judges._protocol import AbstentionEstimate, Judge, Prompt, ask_number
from ragstone.judges._render import Message
from ragstone.schema import Interval
from ragstone.stats import Estimate, beta_mixture_interval, stopped_proportion, stopping_paths, wilson_interval

_BATCH: Final = 5
"""Number of replies per batch after the first one. The interval is checked after each batch."""

REFUSAL_TASK: Final = (
    "The reply was given by an assistant that had to answer the question from documents, or else say that they do not "
    "hold the answer. Judge which of the two it did. 1 means that it gives no answer: it says that the answer is "
    "unknown or not in the documents, asks something back, or declines. 0 means that it gives an answer, right or "
    "wrong, in full or in part."
)


class MonteCarloSampler:
    """Draws replies at temperature 1 and counts abstentions."""

    def __init__(
        self,
        model: ChatModel,
        matcher: AbstentionMatcher,
        *,
        max_draws: int,
        target_width: float | None,
        confidence_level: float,
        sampling: Mapping[str, Any],
        seed: int | None,
        refusal_judge: Judge | None,
    ) -> None:
        self._model = model
        self._matcher = matcher
        self._max_draws = max_draws
        self._target_width = target_width
        self._level = confidence_level
        self._sampling = {**TEMPERATURE_ONE, **sampling}
        self._seed = seed
        self._refusal_judge = refusal_judge
        self._first_batch = (
            max_draws if target_width is None else _least_draws(max_draws, target_width, confidence_level)
        )

    @property
    def settings(self) -> dict[str, Any]:
        """Sampling settings of the draws, with any seed."""
        return {**self._sampling, **({} if self._seed is None else {"seed": self._seed})}

    async def read(
        self, messages: Sequence[Message], query: str, *, max_tokens: int, several_replies: bool
    ) -> AbstentionEstimate:
        """Sample replies until the interval is narrow enough.

        The value is estimated without bias from the usable draws. If drawing may stop early, it differs from the share
        of abstentions.

        Raises:
            JudgeReplyError: If fewer than half of the draws are usable. The kind is "refused" if the model declined
                most of the others, else "truncated".
            JudgeError: If no reply is received.
        """
        verdicts: Counter[str] = Counter()
        n_drawn, batch = 0, self._first_batch
        judged: dict[str, bool] = {}
        looks: list[int] = []
        while n_drawn < self._max_draws:
            wanted = min(batch, self._max_draws - n_drawn)
            replies = await self._drawn(messages, wanted, n_drawn, max_tokens, several=several_replies)
            n_drawn += len(replies)
            verdicts.update(await self._verdicts(replies, query, judged))
            if self._target_width is not None:
                successes, n = _counts(verdicts)
                looks += [n] if n > max(looks, default=0) else []
                if not _continues(successes, n, self._target_width, self._level):
                    break
                batch = _BATCH
        successes, n = _counts(verdicts)
        n_missing = n_drawn - n
        if 2 * n < n_drawn or n == 0:
            declined = verdicts["refused"]
            raise JudgeReplyError(
                f"{n_missing} of {n_drawn} sampled replies cannot be used: {declined} declined, "
                f"{n_missing - declined} cut at {max_tokens} tokens before the answer began. A model that reasons "
                "first needs more tokens (draw_max_tokens=8192)",
                kind="refused" if 2 * declined > n_missing else "truncated",
            )
        if self._target_width is None:
            found = wilson_interval(successes, n, confidence_level=self._level)
        else:
            planned = range(n_drawn + _BATCH, self._max_draws + _BATCH, _BATCH)
            looks += [min(drawn, self._max_draws) - n_missing for drawn in planned]
            found = _stopped(successes, n, tuple(looks), self._target_width, self._level)
        low, high = min(found.low, found.value), max(found.high, found.value)
        interval = Interval(low=low, high=high, confidence_level=self._level, method=found.method)
        return AbstentionEstimate(
            value=found.value,
            interval=interval,
            method="monte_carlo",
            n=n,
            n_missing=n_missing,
            n_drawn=n,
            n_declined=verdicts["declines"],
        )

    async def _drawn(
        self, messages: Sequence[Message], wanted: int, n_drawn: int, max_tokens: int, *, several: bool
    ) -> list[Completion]:
        def request(n: int, place: int) -> ChatRequest:
            sampling = {**self._sampling, **self._seeded(messages, place)}
            return ChatRequest(messages=messages, max_tokens=max_tokens, n=n, sampling=sampling)

        if several:
            return list(await self._model.complete(request(wanted, n_drawn)))
        # One request per reply, each with its own seed, because requests with equal seeds return the same draw.
        singles = await asyncio.gather(*(self._model.complete(request(1, n_drawn + i)) for i in range(wanted)))
        return [completion for single in singles for completion in single]

    def _seeded(self, messages: Sequence[Message], place: int) -> dict[str, int]:
        if self._seed is None:
            return {}
        # The seed also depends on the conversation, so that the draws for different passages are independent.
        origin = json.dumps([self._seed, list(messages), place], sort_keys=True)
        return {"seed": int.from_bytes(hashlib.sha256(origin.encode()).digest()[:4]) >> 1}

    async def _verdicts(self, replies: Sequence[Completion], query: str, judged: dict[str, bool]) -> list[str]:
        verdicts = []
        for reply in replies:
            if reply.finish == "refused":
                verdicts.append("refused")
                continue
            verdict: str = self._matcher.verdict(reply.text, cut=reply.finish == "length")
            if verdict == "answers" and self._refusal_judge is not None:
                if reply.text not in judged:
                    fields = {"query": query, "response": reply.text}
                    prompt = Prompt(construct="abstention", task=REFUSAL_TASK, fields=fields)
                    judged[reply.text] = (await ask_number(self._refusal_judge, prompt, low=0, high=1)).value > 0.5
                verdict = "abstains" if judged[reply.text] else "answers"
            elif verdict == "answers" and answer_abstains(after_reasoning(reply.text) or ""):
                verdict = "declines"
            verdicts.append(verdict)
        return verdicts


def _least_draws(max_draws: int, target_width: float, confidence_level: float) -> int:
    """Return the smallest number of draws with which the interval can be narrow enough."""
    for n in range(1, max_draws):
        low, high = beta_mixture_interval(0, n, confidence_level=confidence_level)
        if high - low <= target_width:
            return n
    return max_draws


@functools.lru_cache(maxsize=256)
def _stopped(successes: int, n: int, looks: tuple[int, ...], target_width: float, confidence_level: float) -> Estimate:
    """Estimate the proportion from the number of usable draws at each look that was taken or planned."""
    paths = stopping_paths(looks, lambda s, drawn: _continues(s, drawn, target_width, confidence_level))
    return stopped_proportion(successes, n, paths, confidence_level=confidence_level)


@functools.lru_cache(maxsize=4096)
def _continues(successes: int, n: int, target_width: float, confidence_level: float) -> bool:
    """Return whether the interval is still too wide."""
    # The width is the same for as many failures as successes.
    low, high = beta_mixture_interval(min(successes, n - successes), n, confidence_level=confidence_level)
    return high - low > target_width


def _counts(verdicts: Counter[str]) -> tuple[int, int]:
    return verdicts["abstains"], verdicts["abstains"] + verdicts["declines"] + verdicts["answers"]
