"""Judge based on a chat model: renders prompts, and reads replies strictly."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Literal, TypeVar

from pydantic import TypeAdapter

from ragstone import settings
from ragstone.errors import JudgeReplyError
from ragstone.judges._expected import NumberDistributionReader
from ragstone.judges._model import (
    TEMPERATURE_ONE,
    AdaptiveModel,
    ChatModel,
    ChatRequest,
    Completion,
    ConstrainedModel,
    UsageMeter,
    after_reasoning,
    check_finished,
    metered,
)
from ragstone.judges._parse import (
    REASONED_MAX_TOKENS,
    REASONED_VERSION,
    build_reasoned_retry,
    json_request,
    json_schema_of,
    parse_json,
    parse_number,
    parse_rating,
    parse_reasoned,
    read_number,
    reasoned_request,
)
from ragstone.judges._protocol import JsonReply, JudgeIdentity, NumberReply, Prompt, TextReply
from ragstone.judges._render import RENDER_VERSION, Message, insist, number_request, render
from ragstone.schema import Interval, Usage
from ragstone.stats import mean_interval

T = TypeVar("T")

ScoreMode = Literal["single", "expected", "sampled", "reasoned"]
"""How a judge obtains a number."""

_LEAST_MASS: Final = 0.5
"""Minimum probability of numbers. Below it, the expectation does not describe the model's usual reply."""
_INSISTENCE: Final = (
    "An earlier reply did not follow the schema. Start with the opening bracket, and stop at the closing one."
)
_MOST_FORCED: Final = 5
"""Number of forced replies, without a free one that could be read, after which numbers are forced at once."""


class ModelJudge:
    """Calls a chat model, and reads its replies strictly (see `parse_number`).

    If a reply cannot be read, the judge asks once more: with constrained decoding if the model supports it (`method` is
    then "forced_reply"), else with a reminder. Then it raises an exception. A fraction on a scale up to 100 ("0.85")
    or "1.0" can mean two numbers, so the judge names the ends of the scale in a second request. Another is an error.

    Args:
        model: The chat model.
        temperature: Sampling temperature. It is omitted after the server has refused it.
        seed: Sampling seed, for servers that support one.
        max_tokens: Length limit of replies with a number. A model that reasons before it answers gets 4,096 tokens in
            addition, if the model detects that (see `OpenAICompatibleModel`).
        score_mode: How a number is computed. "single": the number in the model's reply. "expected": the expectation
            over all integers of the scale, from their exact probabilities, if the model provides them and such a
            number is more likely than any other reply. Otherwise as "single". "sampled": the mean of `draws` replies
            at temperature 1, with an interval. "reasoned": the model writes its reasons first, and then the number. The
            `method` of each reply states which of them was used.
        draws: Number of replies for "sampled".

    Raises:
        ConfigurationError: If a value is invalid.
    """

    def __init__(
        self,
        model: ChatModel,
        *,
        temperature: float | None = 0.0,
        seed: int | None = None,
        max_tokens: int = 64,
        score_mode: ScoreMode = "single",
        draws: int = 5,
    ) -> None:
        settings.check("judge", "ModelJudge", max_tokens=max_tokens, score_mode=score_mode, draws=draws)
        self.model = model
        self._constrained = model if isinstance(model, ConstrainedModel) else None
        self._adaptive = model if isinstance(model, AdaptiveModel) else None
        stated = {"temperature": temperature, "seed": seed}
        self._sampling = {name: value for name, value in stated.items() if value is not None}
        self._number_max_tokens = max_tokens
        self._score_mode = score_mode
        self._draws = draws
        self._reads = NumberDistributionReader(model)
        self._spent = UsageMeter()
        self._n_forced: float = 0
        """Forced replies so far. Minus infinity after a free reply that could be read."""
        self._identity: tuple[Mapping[str, object], object, JudgeIdentity] | None = None
        """Settings of the model and what it refuses, with the identity that follows from them."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.model!r})"

    @property
    def score_mode(self) -> ScoreMode:
        """How a number is computed."""
        return self._score_mode

    def with_score_mode(self, score_mode: ScoreMode) -> ModelJudge:
        """Return a judge with the same model and settings and another score mode. Both share the model's connections.

        Raises:
            ConfigurationError: If `score_mode` is not a score mode.
        """
        judge = ModelJudge(self.model, max_tokens=self._number_max_tokens, score_mode=score_mode, draws=self._draws)
        judge._sampling = dict(self._sampling)
        return judge

    @property
    def usage(self) -> Usage:
        """Usage of this judge so far, including failed calls and retries."""
        return self._spent.total

    @property
    def identity(self) -> JudgeIdentity:
        """Name of the model, and a hash of all settings that affect replies. Final after `prepare()`."""
        settings = self.model.settings
        # Each outcome asks for it, and a model returns the same settings until they change.
        state = (self.model.name, self._refused(self._sampling), self._refused(self._drawn))
        if self._identity is None or self._identity[0] is not settings or self._identity[1] != state:
            self._identity = (settings, state, self._identify(settings))
        return self._identity[2]

    def _identify(self, settings: Mapping[str, object]) -> JudgeIdentity:
        shape: dict[str, Any] = {
            **settings,
            "sampling": self._effective(self._sampling),
            "max_tokens": self._number_max_tokens,
            "render": RENDER_VERSION,
        }
        if self._score_mode != "single":
            shape["score_mode"] = self._score_mode
        if self._score_mode == "sampled":
            shape["draws"] = self._draws
            if (drawn := self._effective(self._drawn)) != self._drawn:
                shape["drawn"] = drawn
        if self._score_mode == "reasoned":
            shape["reasoned"] = REASONED_VERSION
        digest = hashlib.sha256(json.dumps(shape, sort_keys=True, default=repr).encode()).hexdigest()[:16]
        # Tables and comparisons show names. Scores that follow reasons are those of another judge.
        name = f"{self.model.name} (reasoned)" if self._score_mode == "reasoned" else self.model.name
        return JudgeIdentity(name=name, hash=digest, refused_parameters=self._refused(self._sampling))

    async def prepare(self) -> None:
        """Prepare the model, and learn with a short request what its endpoint refuses. Otherwise the first call does this.

        Raises:
            ConfigurationError: If the model cannot work as configured.
            JudgeError: If the model is unavailable.
        """
        await self.model.prepare()
        if self._adaptive is not None:
            with metered(self._spent):
                await self._adaptive.settle(self._sampling)
                if self._score_mode == "sampled":
                    await self._adaptive.settle(self._drawn)

    @property
    def _drawn(self) -> dict[str, Any]:
        """Sampling settings of drawn replies."""
        seed = {"seed": self._sampling["seed"]} if "seed" in self._sampling else {}
        return {**TEMPERATURE_ONE, **seed}

    def _effective(self, sampling: Mapping[str, Any]) -> dict[str, Any]:
        """Return the settings without those that the endpoint refuses."""
        refused = self._refused(sampling)
        return {name: value for name, value in sampling.items() if name not in refused}

    def _refused(self, sampling: Mapping[str, Any]) -> tuple[str, ...]:
        return () if self._adaptive is None else self._adaptive.omitted(sampling)

    async def ask_text(self, prompt: Prompt, *, max_tokens: int = 512) -> TextReply:
        """Request free text of at most `max_tokens` tokens.

        Raises:
            JudgeError: If no usable reply is received. Kinds: "truncated", "refused", "timeout", "unavailable",
                "rejected".
        """
        with metered(self._spent) as meter:
            text = await self._text(render(prompt), max_tokens=max_tokens)
        return TextReply(text=after_reasoning(text) or "", usage=meter.total)

    async def ask_number(self, prompt: Prompt, *, low: float = 0, high: float = 100) -> NumberReply:
        """Request one number in [low, high]. The `method` of the reply states how it was computed.

        Raises:
            JudgeError: If no usable reply is received. Kinds: "unparseable" and "truncated" (with `raw`), "refused",
                "timeout", "unavailable", "rejected".
        """
        request = reasoned_request if self._score_mode == "reasoned" else number_request
        messages = render(prompt, request=request(low, high))
        modes = {"expected": self._expected, "sampled": self._sampled, "reasoned": self._reasoned}
        with metered(self._spent) as meter:
            reply = await modes.get(self._score_mode, self._single)(messages, low, high)
        return replace(reply, usage=meter.total)

    async def ask_json(self, prompt: Prompt, schema: TypeAdapter[T], *, max_tokens: int = 1024) -> JsonReply[T]:
        """Request a value of a shape, by constrained decoding if the model supports it, else by a JSON Schema as text.

        Args:
            prompt: The prompt.
            schema: Validates the reply. All servers accept a schema with an object at the root.
            max_tokens: Length limit of the value. Reasoning may use the judge's own `max_tokens` in addition.

        Raises:
            JudgeError: If no usable reply is received. Kinds: "unparseable", "truncated" and "repeated" (with `raw`),
                "refused", "timeout", "unavailable", "rejected".
        """
        json_schema = json_schema_of(schema)
        messages = render(prompt, request=json_request(json_schema))
        room = max_tokens + self._number_max_tokens
        with metered(self._spent) as meter:
            value, raw, method = await self._json(messages, json_schema, schema, room)
        return JsonReply(value=value, raw=raw, method=method, usage=meter.total)

    async def _json(
        self, messages: list[Message], json_schema: dict[str, Any], schema: TypeAdapter[T], max_tokens: int
    ) -> tuple[T, str, str]:
        held = None
        if self._constrained is not None:
            held = await self._constrained.complete_json(
                messages, json_schema, max_tokens=max_tokens, sampling=self._sampling
            )
        try:
            if held is None:
                raw, method = await self._text(messages, max_tokens=max_tokens), "json_reply"
            else:
                raw, method = self._usable(held, max_tokens), "constrained_reply"
            return parse_json(raw, schema), raw, method
        except JudgeReplyError as error:
            # Without a constraint a reply that was cut is too long for its limit, and would be again.
            if error.kind in ("refused", "repeated") or (error.kind == "truncated" and held is None):
                raise
        raw = await self._text(insist(messages, _INSISTENCE), max_tokens=max_tokens)
        return parse_json(raw, schema), raw, "second_reply"

    async def _expected(self, messages: list[Message], low: float, high: float) -> NumberReply:
        if (read := await self._reads.read(messages, low, high)) is None:
            reply = await self._single(messages, low, high)
            return replace(reply, method=f"{reply.method}_no_probabilities")
        if read.mass < _LEAST_MASS:
            return replace(await self._single(messages, low, high), mass=read.mass)
        return NumberReply(value=read.value, raw=str(read), method="expected", interval=read.interval, mass=read.mass)

    async def _sampled(self, messages: list[Message], low: float, high: float) -> NumberReply:
        max_tokens = self._number_max_tokens
        request = ChatRequest(messages=messages, max_tokens=max_tokens, sampling=self._drawn, n=self._draws)
        replies = await self.model.complete(request)
        values: list[float] = []
        errors: list[JudgeReplyError] = []
        for reply in replies:
            try:
                values.append(parse_rating(self._usable(reply, max_tokens), low, high))
            except JudgeReplyError as error:
                errors.append(error)
        if len(values) < len(errors):
            kinds = {error.kind for error in errors}
            first = errors[0]
            raise JudgeReplyError(
                f"{len(values)} of {len(replies)} replies have a usable number, fewer than half. First error: {first}",
                kind="unparseable" if values or len(kinds) > 1 else first.kind,
                raw=first.raw,
            )
        mean = mean_interval(values, low=low, high=high)
        return NumberReply(
            value=mean.value,
            raw=", ".join(f"{value:g}" for value in values),
            method="sampled",
            n=mean.n,
            n_missing=len(errors),
            interval=Interval(low=mean.low, high=mean.high, confidence_level=mean.confidence_level, method=mean.method),
        )

    async def _single(self, messages: list[Message], low: float, high: float) -> NumberReply:
        max_tokens = self._number_max_tokens
        is_part = False
        if self._n_forced < _MOST_FORCED:
            try:
                raw = await self._text(messages, max_tokens=max_tokens)
                # A server that forces an integer would cut 0.85 to 0.
                value, is_part = read_number(raw, low, high)
                if not is_part:
                    self._n_forced = -math.inf
                    return NumberReply(value=value, raw=raw, method="single_reply")
            except JudgeReplyError as error:
                # If the reply was cut before its first word, the model reasons invisibly, and would do so again.
                if error.kind == "refused" or (error.kind == "truncated" and not error.raw):
                    raise
        if not is_part and (forced := await self._forced(messages, low, high)) is not None:
            return forced
        scale = (
            f"An earlier reply could not be used. The lowest number is {low:g}, the highest is {high:g}. Digits only."
        )
        raw = await self._text(insist(messages, scale), max_tokens=max_tokens)
        return NumberReply(value=parse_rating(raw, low, high), raw=raw, method="second_reply")

    async def _forced(self, messages: list[Message], low: float, high: float) -> NumberReply | None:
        """Return a number by constrained decoding, or None if it is not supported or the reply was cut."""
        if self._constrained is None or not (float(low).is_integer() and float(high).is_integer()):
            return None
        held = await self._constrained.complete_number(
            messages, int(low), int(high), max_tokens=self._number_max_tokens, sampling=self._sampling
        )
        if held is None:
            return None
        try:
            raw = self._usable(held, self._number_max_tokens)
        except JudgeReplyError as error:
            if error.kind == "refused":
                raise
            # Cut: the model reasons first, or fills the reply with whitespace.
            return None
        self._n_forced += 1
        return NumberReply(value=parse_number(raw, low, high), raw=raw, method="forced_reply")

    async def _reasoned(self, messages: list[Message], low: float, high: float) -> NumberReply:
        max_tokens = max(self._number_max_tokens, REASONED_MAX_TOKENS)
        raw = await self._text(messages, max_tokens=max_tokens)
        try:
            value, reasons = parse_reasoned(raw, low, high)
        except JudgeReplyError:
            reasons = after_reasoning(raw) or ""
            line = await self._text([*messages, *build_reasoned_retry(reasons, low, high)], max_tokens=max_tokens)
            value, _ = parse_reasoned(line, low, high)
            raw = f"{raw}\n{line}"
        return NumberReply(value=value, raw=raw, method="reasoned", reasons=reasons or None)

    async def _text(self, messages: Sequence[Message], *, max_tokens: int) -> str:
        request = ChatRequest(messages=messages, max_tokens=max_tokens, sampling=self._sampling)
        (completion,) = await self.model.complete(request)
        return self._usable(completion, max_tokens)

    def _usable(self, completion: Completion, max_tokens: int) -> str:
        limit = max_tokens + (0 if self._adaptive is None else self._adaptive.reasoning_tokens)
        is_open = completion.text.lstrip().startswith("<") and after_reasoning(completion.text) is None
        check_finished(completion, "judge", limit, is_open=is_open)
        return completion.text

    async def aclose(self) -> None:
        """Close the model's connections of the running event loop. Further calls have no effect."""
        await self.model.aclose()
