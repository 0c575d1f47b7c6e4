"""The application's generator as a reader: its own prompt, its own model, and how likely it is to abstain."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Literal, TypedDict, get_args

from ragstone.errors import ConfigurationError, JudgeReplyError
from ragstone.judges._abstention.bound import read_bound
from ragstone.judges._abstention.draws import REFUSAL_TASK, MonteCarloSampler
from ragstone.judges._abstention.exact import ExactSequence
from ragstone.judges._abstention.prompt import PromptSource, ReaderPrompt
from ragstone.judges._abstention.recognise import AbstentionMatcher, phrases_from
from ragstone.judges._model import (
    TEMPERATURE_ONE,
    Capabilities,
    ChatModel,
    ChatRequest,
    UsageMeter,
    after_reasoning,
    find_exact_route,
    metered,
)
from ragstone.judges._protocol import AbstentionEstimate, Judge, JudgeIdentity, TextReply
from ragstone.judges._render import Message
from ragstone.schema import Usage

__all__ = ["ChatReader", "ReaderOptions"]

Estimator = Literal["auto", "exact_sequence", "first_token", "monte_carlo"]

_VERSION: Final = "1"
_WIDE: Final = 0.1
"""A bound wider than this says less than draws do."""
_REASONING_TOKENS: Final = 4096
"""Length limit of draws from a model that reasons before it answers."""
_SHORT: Final = {"exact": "exact_sequence"}


class ReaderOptions(TypedDict, total=False):
    """Options of `ChatReader`, for those that pass them on."""

    prompt: PromptSource
    abstention: str | Sequence[str]
    estimator: Estimator | Literal["exact"]
    max_draws: int
    target_width: float | None
    confidence_level: float
    max_tokens: int
    draw_max_tokens: int | None
    refusal_judge: Judge | None
    separator: str
    sampling: Mapping[str, Any] | None
    seed: int | None


class ChatReader:
    """A reader made of a chat model: asks as the application asks, and finds how likely the reply is an abstention.

    There are three ways to find it, and the `method` of each `AbstentionEstimate` says which it was:

    - "exact_sequence": the probability of the phrase's tokens, read one after the other. Exact, no draws.
    - "first_token": bounds from one greedy reply and the likeliest tokens beside it. They always hold the exact value;
      the value given is what was seen.
    - "monte_carlo": the share of abstentions among replies drawn at temperature 1, with an interval.

    Args:
        model: The chat model.
        prompt: The application's own prompt: a text with `{context}` and `{question}` in it (also `{contexts}`,
            `{documents}`, `{passages}`; `{query}`), a list of chat messages with them, or a function of question and
            passages that returns the messages. None takes ours.
        abstention: What the model replies when the passages do not hold the answer; one phrase or several.
        estimator: How to find the probability. "auto" takes the best that the endpoint can do, and draws where the
            bounds are wider than 0.1. "exact" is short for "exact_sequence".
        max_draws: Most replies drawn for one probability.
        target_width: Stop drawing when the interval is this narrow. None draws `max_draws` in any case, and gives
            Wilson's interval.
        confidence_level: Level of the intervals of drawn replies.
        max_tokens: Length limit of answers.
        draw_max_tokens: Length limit of drawn replies. None takes what it needs to tell an abstention: a little more
            than the phrase, `max_tokens` with a `refusal_judge`, 4,096 for a model that reasons first.
        refusal_judge: Asked about drawn replies without a phrase: is this a refusal in other words? With it the
            probability is always found by drawing.
        separator: What stands between passages in the application's own template.
        sampling: Fields to add to requests for replies.
        seed: Repeats the draws on servers that take seeds.

    Raises:
        ConfigurationError: A value that cannot work.

    Example:
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
        kind = _SHORT.get(estimator, estimator)
        _check(kind, max_draws, target_width, confidence_level, max_tokens, draw_max_tokens)
        if refusal_judge is not None and kind in ("exact_sequence", "first_token"):
            raise ConfigurationError(
                f"refusal_judge looks at drawn replies, and estimator={kind!r} draws none; "
                "use estimator='monte_carlo', or leave the refusal judge out and list the refusals as abstention phrases"
            )
        given: object = model
        # A class has all the attributes its objects have.
        if not isinstance(given, ChatModel) or isinstance(given, type):
            raise ConfigurationError(
                f"{model!r} is not a chat model; a reader takes a ChatModel, such as "
                "OpenAICompatibleModel('http://host:8000/v1')"
            )
        self.model = model
        self.phrases = phrases_from(abstention)
        self._prompt = ReaderPrompt(prompt, phrase=self.phrases[0], separator=separator)
        self._estimator = kind
        self._max_tokens = max_tokens
        self._draw_max_tokens = draw_max_tokens
        self._refusal_judge = refusal_judge
        self._sampling = dict(sampling or {})
        if fixed := sorted(self._sampling.keys() & TEMPERATURE_ONE.keys()):
            raise ConfigurationError(
                f"sampling holds {', '.join(map(repr, fixed))}: the probability to abstain is the model's own, at "
                "temperature 1 with nothing else in its way, and answers are greedy; leave that out"
            )
        self._recogniser = AbstentionMatcher(self.phrases)
        self._exact: ExactSequence | None = None
        self._draws = MonteCarloSampler(
            self.model,
            self._recogniser,
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
        """Everything spent through this reader so far, failed calls and retries included."""
        return self._spent.total

    @property
    def identity(self) -> JudgeIdentity:
        """The model in words, and a hash of model, prompt, phrases and estimator. Final once `prepare()` ran."""
        shape: dict[str, object] = {**self.model.settings, **self._shape}
        if self._refusal_judge is not None:
            shape["refusal_judge"] = [self._refusal_judge.identity.hash, REFUSAL_TASK]
        digest = hashlib.sha256(json.dumps(shape, sort_keys=True, default=repr).encode()).hexdigest()[:16]
        return JudgeIdentity(name=self.model.name, hash=digest)

    async def prepare(self) -> None:
        """Let the model find out what it needs and can do, and see that it can do what `estimator` says.

        Raises:
            ConfigurationError: It cannot work as configured.
            JudgeError: It cannot be asked.
        """
        # Now, and not inside the deadline of the first sample.
        can = await self.model.capabilities()
        _require(self._estimator, can, self.model)

    async def estimate_abstention(self, query: str, passages: Sequence[str]) -> AbstentionEstimate:
        """How likely the reader abstains when it is given `passages`.

        Raises:
            ConfigurationError: The endpoint cannot do what `estimator` says.
            JudgeError: No usable answer. Kinds: "refused", "truncated", "unparseable", "timeout", "unavailable",
                "rejected".
        """
        messages = self._prompt.messages(query, passages)
        with metered() as meter:
            try:
                can = await self.model.capabilities()
                found = await self._found(can, messages, query)
            finally:
                self._spent.total += meter.total
        return replace(found, usage=meter.total)

    async def _found(self, can: Capabilities, messages: Sequence[Message], query: str) -> AbstentionEstimate:
        chosen = self._estimator
        if chosen == "auto":
            chosen = "monte_carlo" if self._refusal_judge is not None else can.estimator
        _require(chosen, can, self.model)
        if chosen == "exact_sequence" and (exact := find_exact_route(self.model, can)) is not None:
            model, route = exact
            self._exact = self._exact or ExactSequence(model, self.phrases)
            read = await self._exact.read(messages, route=route)
            return AbstentionEstimate(
                value=read.value, interval=read.interval, complete=read.complete, method="exact_sequence"
            )
        if chosen == "first_token":
            bound = await read_bound(self.model, messages, self.phrases, top_logprobs=can.top_logprobs)
            if self._estimator == "first_token" or bound.interval.high - bound.interval.low <= _WIDE:
                return AbstentionEstimate(value=bound.value, interval=bound.interval, method="first_token")
        drawn = await self._draws.read(
            messages, query, max_tokens=self._draw_length(can), several_replies=can.several_replies
        )
        return AbstentionEstimate(
            value=drawn.value, interval=drawn.interval, method="monte_carlo", n=drawn.n, n_missing=drawn.n_missing
        )

    def _draw_length(self, can: Capabilities) -> int:
        if self._draw_max_tokens is not None:
            return self._draw_max_tokens
        if can.reasons:
            return max(self._max_tokens, _REASONING_TOKENS)
        if self._refusal_judge is not None:
            return self._max_tokens
        # No token is shorter than a character, and the reply may be dressed up before it begins.
        return max(map(len, self.phrases)) + 16

    async def answer(self, query: str, passages: Sequence[str]) -> TextReply:
        """The reader's own answer from `passages`: greedy where the model allows it, without its reasoning.

        Raises:
            JudgeReplyError: The model declined ("refused"), or did not finish ("truncated").
            JudgeError: No reply.
        """
        request = ChatRequest(
            messages=self._prompt.messages(query, passages),
            max_tokens=self._max_tokens,
            sampling={"temperature": 0.0, **self._sampling},
        )
        with metered() as meter:
            try:
                (completion,) = await self.model.complete(request)
            finally:
                self._spent.total += meter.total
        if completion.finish == "refused":
            raise JudgeReplyError(
                f"the reader declined to answer: {completion.text or 'content filter'}",
                kind="refused",
                raw=completion.text,
            )
        text = after_reasoning(completion.text)
        if completion.finish == "length" or text is None:
            raise JudgeReplyError(
                f"the reader's answer was cut at {self._max_tokens} tokens; give it more (max_tokens=4096)",
                kind="truncated",
                raw=completion.text,
            )
        return TextReply(text=text, usage=meter.total)

    def is_abstention(self, reply: str) -> bool:
        """Whether a reply is an abstention: it starts with a phrase, however that is dressed up.

        Upper and lower case, quotes, Markdown, white space and a reasoning block before it make no difference.
        """
        return self._recogniser.verdict(reply) == "abstains"

    async def aclose(self) -> None:
        """Close the connections of the running event loop, the refusal judge's as well. Safe to call twice."""
        await self.model.aclose()
        if self._refusal_judge is not None:
            await self._refusal_judge.aclose()


def _check(
    estimator: str,
    max_draws: int,
    target_width: float | None,
    confidence_level: float,
    max_tokens: int,
    draw_max_tokens: int | None,
) -> None:
    if estimator not in get_args(Estimator):
        raise ConfigurationError(
            f"estimator must be one of {', '.join(map(repr, get_args(Estimator)))}, got {estimator!r}"
        )
    for name, value in (("max_draws", max_draws), ("max_tokens", max_tokens), ("draw_max_tokens", draw_max_tokens)):
        if value is not None and value < 1:
            raise ConfigurationError(f"{name} must be at least 1, got {value!r}")
    if target_width is not None and not 0 < target_width < 1:
        raise ConfigurationError(
            f"target_width must lie in (0, 1), or be None for a fixed number of draws, got {target_width!r}"
        )
    if not 0 < confidence_level < 1:
        raise ConfigurationError(f"confidence_level must lie in (0, 1), got {confidence_level!r}")


def _require(estimator: str, can: Capabilities, model: ChatModel) -> None:
    """See that the endpoint can do it.

    Raises:
        ConfigurationError: Why it cannot, and what it can do.
    """
    reason = None
    if estimator in ("exact_sequence", "first_token") and can.reasons:
        reason = "its replies begin with reasoning, so that the first tokens say nothing of the answer"
    elif estimator == "exact_sequence" and find_exact_route(model, can) is None:
        reason = "it has no way to read the probability of a given reply"
    elif estimator == "first_token" and not can.top_logprobs:
        reason = "it sends no log-probabilities"
    elif estimator == "first_token" and not can.logprobs_raw:
        reason = "its log-probabilities change with the temperature, or it could not be seen whether they do"
    if reason is not None:
        raise ConfigurationError(
            f"{model.name} cannot do estimator={estimator!r}: {reason}; use {can.estimator!r}, or 'auto'"
        )
