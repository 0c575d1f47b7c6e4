"""Reader based on a chat model: the application's prompt and model, and the probability that it abstains."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Literal

from ragstone import settings
from ragstone._util.abstains import answer_abstains
from ragstone.errors import ConfigurationError, JudgeError
from ragstone.judges._abstention.bound import read_bound
from ragstone.judges._abstention.draws import REFUSAL_TASK, MonteCarloSampler
from ragstone.judges._abstention.exact import ExactSequence, read_logprob
from ragstone.judges._abstention.prompt import PromptSource, ReaderPrompt
from ragstone.judges._abstention.recognize import AbstentionMatcher, phrases_from, strip_final_punctuation
from ragstone.judges._http.reasoning import REASONING_TOKENS
from ragstone.judges._model import (
    TEMPERATURE_ONE,
    AdaptiveModel,
    Capabilities,
    ChatModel,
    ChatRequest,
    UsageMeter,
    after_reasoning,
    check_finished,
    find_exact_route,
    metered,
)
from ragstone.judges._protocol import AbstentionEstimate, Judge, JudgeIdentity, TextReply
from ragstone.judges._render import Message
from ragstone.schema import Usage

Estimator = Literal["auto", "exact_sequence", "first_token", "monte_carlo"]

_VERSION: Final = "1"
_PASSAGES_PER_DRAW: Final = 20
_WIDE: Final = 0.1
"""Maximum width of a bound. Sampled replies are more informative than a wider one."""


class ChatReader:
    """A reader based on a chat model: uses the application's prompt, and estimates the probability of an abstention.

    There are three estimators, and the `method` of each `AbstentionEstimate` states which one was used:

    - "exact_sequence": the probability of the phrase's tokens, read one after the other. Exact, without sampling. For
      every 20th passage a greedy reply is requested as well: `n_declined` is 1 if it declines in another form.
    - "first_token": bounds from one greedy reply and the most likely tokens at each position. They contain the exact
      value. The returned value is the observed probability.
    - "monte_carlo": the proportion of abstentions among replies sampled at temperature 1, with an interval.

    Args:
        model: The chat model.
        prompt: The application's own prompt: a string with `{context}` and `{question}` (also `{contexts}`,
            `{documents}`, `{passages}` and `{query}`), a list of chat messages with them, or a function of query and
            passages that returns the messages. None uses the built-in prompt.
        abstention: Reply of the model if the passages do not contain the answer: one phrase or several.
        estimator: Estimator of the probability. "auto" uses the best one that the endpoint supports, and samples if the
            bounds are wider than 0.1. "exact" means "exact_sequence".
        max_draws: Maximum number of sampled replies per probability.
        target_width: Width of the interval at which sampling stops. None always samples `max_draws` replies, and uses
            Wilson's interval.
        confidence_level: Confidence level of the intervals of sampled replies.
        max_tokens: Length limit of answers.
        draw_max_tokens: Length limit of sampled replies. None uses what is needed to detect an abstention: a little
            more than the phrase, or `max_tokens` with a `refusal_judge`. A model that reasons first gets 4,096 tokens
            in addition.
        refusal_judge: Judge that rates sampled replies without a phrase: is the reply a refusal in other words? With it
            the estimator is always "monte_carlo".
        separator: Separator of passages in the application's own template.
        sampling: Fields to add to requests for replies.
        seed: Makes the draws reproducible on servers that support seeds.

    Raises:
        ConfigurationError: If a value is invalid.

    Examples:
        ```python
        reader = ChatReader(
            OpenAICompatibleModel("http://localhost:8000/v1"),
            prompt="Answer from the documents or reply NO-RESPONSE. Documents: {documents} Question: {question}",
        )
        reading = await reader.estimate_abstention("Where does Mara live?", ["Mara lives in Oslo."])
        reading.value, reading.interval, reading.method
        ```
    """

    def __init__(
        self,
        model: ChatModel,
        *,
        prompt: PromptSource = None,
        abstention: str | Sequence[str] = "NO-RESPONSE",
        estimator: Estimator | Literal["exact"] = "auto",
        max_draws: int = 20,
        target_width: float | None = 0.4,
        confidence_level: float = 0.95,
        max_tokens: int = 512,
        draw_max_tokens: int | None = None,
        refusal_judge: Judge | None = None,
        separator: str = "\n\n",
        sampling: Mapping[str, Any] | None = None,
        seed: int | None = None,
    ) -> None:
        kind = "exact_sequence" if estimator == "exact" else estimator
        short = estimator.removesuffix("_sequence")
        settings.check("reader", "ChatReader", estimator=short, max_draws=max_draws, max_tokens=max_tokens)
        settings.check("analysis", "ChatReader", confidence_level=confidence_level)
        if draw_max_tokens is not None and draw_max_tokens < 1:
            raise ConfigurationError(f"draw_max_tokens must be at least 1, got {draw_max_tokens!r}")
        if target_width is not None and not 0 < target_width < 1:
            raise ConfigurationError(
                f"target_width must be in (0, 1), or None for a fixed number of draws, got {target_width!r}"
            )
        if refusal_judge is not None and kind in ("exact_sequence", "first_token"):
            raise ConfigurationError(
                f"refusal_judge needs sampled replies, and estimator={kind!r} does not sample. "
                "Use estimator='monte_carlo', or omit the refusal judge and list the refusals as abstention phrases"
            )
        candidate: object = model
        # A class has all attributes of its objects, so it would pass the first check.
        if not isinstance(candidate, ChatModel) or isinstance(candidate, type):
            raise ConfigurationError(
                f"{model!r} is not a chat model. A reader needs a ChatModel, such as "
                "OpenAICompatibleModel('http://host:8000/v1')"
            )
        self.model = model
        self._adaptive = model if isinstance(model, AdaptiveModel) else None
        self.phrases = phrases_from(abstention)
        self._prompt = ReaderPrompt(prompt, phrase=self.phrases[0], separator=separator)
        self._estimator = kind
        self._max_tokens = max_tokens
        self._draw_max_tokens = draw_max_tokens
        self._refusal_judge = refusal_judge
        self._sampling = dict(sampling or {})
        if fixed := sorted(self._sampling.keys() & TEMPERATURE_ONE.keys()):
            raise ConfigurationError(
                f"sampling must not contain {', '.join(map(repr, fixed))}: the probability of abstention is "
                "defined at temperature 1 without other sampling settings, and answers are greedy"
            )
        self._matcher = AbstentionMatcher(self.phrases)
        self._exact: ExactSequence | None = None
        self._n_exact = 0
        self._draws = MonteCarloSampler(
            self.model,
            self._matcher,
            max_draws=max_draws,
            target_width=target_width,
            confidence_level=confidence_level,
            sampling=self._sampling,
            seed=seed,
            refusal_judge=refusal_judge,
        )
        self._shape = {
            "reader": _VERSION,
            "prompt": self._prompt.settings,
            "phrases": self.phrases,
            "estimator": [kind, max_draws, target_width, confidence_level, draw_max_tokens],
            "max_tokens": max_tokens,
            "sampling": self._sampling,
            "seed": seed,
        }
        self._spent = UsageMeter()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.model!r})"

    @property
    def usage(self) -> Usage:
        """Usage of this reader so far, including failed calls and retries."""
        return self._spent.total

    @property
    def identity(self) -> JudgeIdentity:
        """Name of the model, and a hash of model, prompt, phrases and estimator. Final after `prepare()`."""
        shape: dict[str, object] = {**self.model.settings, **self._shape}
        if self._refusal_judge is not None:
            shape["refusal_judge"] = [self._refusal_judge.identity.hash, REFUSAL_TASK]
        # The sampling parameters that the endpoint refuses in requests for draws.
        if self._adaptive is not None and (omitted := self._adaptive.omitted(self._draws.settings)):
            shape["omitted"] = omitted
        digest = hashlib.sha256(json.dumps(shape, sort_keys=True, default=repr).encode()).hexdigest()[:16]
        return JudgeIdentity(name=self.model.name, hash=digest)

    async def prepare(self) -> None:
        """Prepare the model and measure its capabilities, and check that it supports the estimator.

        Raises:
            ConfigurationError: If the model cannot work as configured.
            JudgeError: If the model is unavailable.
        """
        # Measured here, so that it does not use up the deadline of the first sample.
        can = await self.model.capabilities()
        _require(self._estimator, can, self.model)
        if self._adaptive is not None and self._chosen(can) != "exact_sequence":
            await self._adaptive.settle(self._draws.settings)

    def _chosen(self, can: Capabilities) -> str:
        if self._estimator != "auto":
            return self._estimator
        return "monte_carlo" if self._refusal_judge is not None else can.estimator

    async def estimate_abstention(self, query: str, passages: Sequence[str]) -> AbstentionEstimate:
        """Estimate the probability that the reader abstains with these passages.

        Raises:
            ConfigurationError: If the endpoint does not support the estimator.
            JudgeError: If no usable reply is received. Kinds: "refused", "truncated", "unparseable", "timeout",
                "unavailable", "rejected".
        """
        messages = self._prompt.messages(query, passages)
        with metered(self._spent) as meter:
            estimate = await self._estimate(await self.model.capabilities(), messages, query)
        return replace(estimate, usage=meter.total)

    async def _estimate(self, can: Capabilities, messages: Sequence[Message], query: str) -> AbstentionEstimate:
        chosen = self._chosen(can)
        _require(chosen, can, self.model)
        if chosen == "exact_sequence" and (exact := find_exact_route(self.model, can)) is not None:
            model, route = exact
            self._exact = self._exact or ExactSequence(model, self.phrases)
            read, declined = await asyncio.gather(
                self._exact.read(messages, route=route), self._draw_check(messages, can)
            )
            return replace(read, n_drawn=int(declined is not None), n_declined=int(bool(declined)))
        if chosen == "first_token":
            bound = await read_bound(self.model, messages, self.phrases, top_logprobs=can.top_logprobs)
            if self._estimator == "first_token" or bound.interval.high - bound.interval.low <= _WIDE:
                return bound
        return await self._draws.read(
            messages, query, max_tokens=self._draw_length(can), several_replies=can.several_replies
        )

    async def _draw_check(self, messages: Sequence[Message], can: Capabilities) -> bool | None:
        """For every 20th passage, return whether a greedy reply declines in a form that the exact reading misses."""
        self._n_exact += 1
        if self._n_exact % _PASSAGES_PER_DRAW != 1:
            return None
        request = ChatRequest(messages=messages, max_tokens=self._draw_length(can), sampling={"temperature": 0.0})
        try:
            (completion,) = await self.model.complete(request)
        except JudgeError:
            return None
        text = completion.text.strip()
        is_read = any(text.startswith(strip_final_punctuation(phrase)) for phrase in self.phrases)
        return not is_read and (self.is_abstention(text) or answer_abstains(text))

    def _draw_length(self, can: Capabilities) -> int:
        if self._draw_max_tokens is not None:
            return self._draw_max_tokens
        if can.reasons and self._adaptive is None:
            return max(self._max_tokens, REASONING_TOKENS)
        if self._refusal_judge is not None:
            return self._max_tokens
        # A token has at least one character, and the reply may begin with formatting.
        return max(map(len, self.phrases)) + 16

    async def answer(self, query: str, passages: Sequence[str]) -> TextReply:
        """Return the reader's answer from these passages: greedy if the model allows it, without its reasoning.

        Raises:
            JudgeReplyError: If the model declined ("refused"), or did not finish ("truncated", "repeated").
            JudgeError: If no reply is received.
        """
        messages, sampling = self._prompt.messages(query, passages), {"temperature": 0.0, **self._sampling}
        request = ChatRequest(messages=messages, max_tokens=self._max_tokens, sampling=sampling)
        with metered(self._spent) as meter:
            (completion,) = await self.model.complete(request)
        text = after_reasoning(completion.text)
        limit = self._max_tokens + (0 if self._adaptive is None else self._adaptive.reasoning_tokens)
        check_finished(completion, "reader", limit, is_open=text is None)
        return TextReply(text=text or "", usage=meter.total)

    async def answer_logprob(self, query: str, passages: Sequence[str], answer: str) -> float:
        """Return the log-probability (at most 0) that the reader's answer starts with a text, in its usual tokens.

        Raises:
            ConfigurationError: If the endpoint does not provide exact probabilities.
            JudgeError: If no usable reply is received.
        """
        with metered(self._spent):
            if (exact := find_exact_route(self.model, await self.model.capabilities())) is None:
                raise ConfigurationError(
                    f"{self.model.name} does not provide the probability of a given answer. Use a vLLM server or "
                    "vllm:MODEL as reader. `ragstone doctor` shows what an endpoint provides"
                )
            model, route = exact
            return await read_logprob(model, self._prompt.messages(query, passages), answer, route=route)

    def is_abstention(self, reply: str) -> bool:
        """Return whether a reply is an abstention: whether it starts with a phrase, in any formatting.

        Case, quotes, Markdown, whitespace and reasoning before the reply are ignored.
        """
        return self._matcher.verdict(reply) == "abstains"

    async def aclose(self) -> None:
        """Close the connections of the running event loop, also of the refusal judge. Further calls have no effect."""
        await self.model.aclose()
        if self._refusal_judge is not None:
            await self._refusal_judge.aclose()


def _require(estimator: str, can: Capabilities, model: ChatModel) -> None:
    """Raise ConfigurationError with the reason and a supported estimator if the endpoint does not support this one."""
    reason = None
    if estimator in ("exact_sequence", "first_token") and can.reasons:
        reason = "its replies begin with reasoning, so the first tokens give no information about the answer"
    elif estimator == "exact_sequence" and find_exact_route(model, can) is None:
        reason = "it does not provide the probability of a given reply"
    elif estimator == "first_token" and not can.top_logprobs:
        reason = "it sends no log-probabilities"
    elif estimator == "first_token" and not can.logprobs_raw:
        reason = "its log-probabilities depend on the temperature, or this could not be measured"
    if reason is not None:
        raise ConfigurationError(
            f"{model.name} does not support estimator={estimator!r}: {reason}. Use {can.estimator!r}, or 'auto'"
        )
