"""A judge made of a chat model: prompts rendered, replies read strictly."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final, Literal, TypeVar

from pydantic import TypeAdapter

from ragstone.errors import ConfigurationError, JudgeReplyError
from ragstone.judges._expected import NumberDistributionReader
from ragstone.judges._model import (
    TEMPERATURE_ONE,
    ChatModel,
    ChatRequest,
    Completion,
    ConstrainedModel,
    UsageMeter,
    metered,
)
from ragstone.judges._parse import json_request, json_schema_of, parse_json, parse_number
from ragstone.judges._protocol import JsonReply, JudgeIdentity, NumberReply, Prompt, TextReply
from ragstone.judges._render import RENDER_VERSION, Message, build_retry_messages, number_request, render
from ragstone.schema import Interval, Usage
from ragstone.stats import mean_interval

__all__ = ["ModelJudge"]

T = TypeVar("T")

_LEAST_MASS: Final = 0.5
"""An expectation over less than this says little about what the model replies as a rule."""
_INSISTENCE: Final = (
    "An earlier reply did not follow the schema. Start with the opening bracket, and stop at the closing one."
)


class ModelJudge:
    """Asks a chat model, and reads its replies strictly (see `parse_number`).

    When a reply cannot be read, the judge asks once more with the reply constrained to a number, where the model can do
    that, else with a reminder; then it raises.

    Args:
        model: The model to ask.
        temperature: Sampling temperature; left out once the server refuses it.
        seed: Sampling seed, for servers that take one.
        max_tokens: Length limit of replies with a number. Models that reason before they answer need
            thousands.
        score_mode: What a number is. "single": the one in the model's reply. "expected": the expectation over all
            whole numbers of the scale, from their exact probabilities, where the model can tell them and replies with
            such a number more often than not; else as "single". "sampled": the mean of `draws` replies at temperature
            1, with an interval. The `method` of each reply says which it was.
        draws: Replies for "sampled".

    Raises:
        ConfigurationError: A value that cannot work.
    """

    def __init__(
        self,
        model: ChatModel,
        *,
        temperature: float | None = 0.0,
        seed: int | None = None,
        max_tokens: int = 64,
        score_mode: Literal["single", "expected", "sampled"] = "single",
        draws: int = 5,
    ) -> None:
        if max_tokens < 1:
            raise ConfigurationError(f"max_tokens must be at least 1, got {max_tokens!r}")
        if score_mode not in ("single", "expected", "sampled"):
            raise ConfigurationError(f"score_mode must be 'single', 'expected' or 'sampled', got {score_mode!r}")
        if draws < 2:
            raise ConfigurationError(f"draws must be at least 2, got {draws!r}")
        self.model = model
        self._constrained = model if isinstance(model, ConstrainedModel) else None
        self._sampling = {
            name: value for name, value in (("temperature", temperature), ("seed", seed)) if value is not None
        }
        self._number_max_tokens = max_tokens
        self._score_mode = score_mode
        self._draws = draws
        self._reads = NumberDistributionReader(model)
        self._spent = UsageMeter()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.model!r})"

    @property
    def usage(self) -> Usage:
        """Everything spent through this judge so far, failed calls and retries included."""
        return self._spent.total

    @property
    def identity(self) -> JudgeIdentity:
        """The model in words, and a hash of all that shapes replies. Final once `prepare()` ran."""
        shape: dict[str, Any] = {
            **self.model.settings,
            "sampling": self._sampling,
            "max_tokens": self._number_max_tokens,
            "render": RENDER_VERSION,
        }
        if self._score_mode != "single":
            shape["score_mode"] = self._score_mode
        if self._score_mode == "sampled":
            shape["draws"] = self._draws
        digest = hashlib.sha256(json.dumps(shape, sort_keys=True, default=repr).encode()).hexdigest()[:16]
        return JudgeIdentity(name=self.model.name, hash=digest)

    async def prepare(self) -> None:
        """Let the model find out what it needs. Called by the first question otherwise.

        Raises:
            ConfigurationError: It cannot work as configured.
            JudgeError: It cannot be asked.
        """
        await self.model.prepare()

    async def ask_text(self, prompt: Prompt, *, max_tokens: int = 512) -> TextReply:
        """Ask for free text of at most `max_tokens` tokens.

        Raises:
            JudgeError: No usable answer. Kinds: "truncated", "refused", "timeout", "unavailable", "rejected".
        """
        with metered() as meter:
            try:
                text = await self._text(render(prompt), max_tokens=max_tokens)
            finally:
                self._spent.total += meter.total
        return TextReply(text=text, usage=meter.total)

    async def ask_number(self, prompt: Prompt, *, low: float = 0, high: float = 100) -> NumberReply:
        """Ask for one number in [low, high]. `method` of the reply says how it came about.

        Raises:
            JudgeError: No usable answer. Kinds: "unparseable" and "truncated" (with `raw`), "refused", "timeout",
                "unavailable", "rejected".
        """
        messages = render(prompt, request=number_request(low, high))
        with metered() as meter:
            try:
                if self._score_mode == "expected":
                    reply = await self._expected(messages, low, high)
                elif self._score_mode == "sampled":
                    reply = await self._sampled(messages, low, high)
                else:
                    reply = await self._single(messages, low, high)
            finally:
                self._spent.total += meter.total
        return replace(reply, usage=meter.total)

    async def ask_json(self, prompt: Prompt, schema: TypeAdapter[T], *, max_tokens: int = 1024) -> JsonReply[T]:
        """Ask for a value of a shape: held to its JSON Schema where the model can be, else in words.

        Args:
            prompt: The question.
            schema: What pydantic checks the reply against; best an object at the root, which all servers take.
            max_tokens: Length limit of the value itself; reasoning has the room of `max_tokens` besides.

        Raises:
            JudgeError: No usable answer. Kinds: "unparseable" and "truncated" (with `raw`), "refused", "timeout",
                "unavailable", "rejected".
        """
        json_schema = json_schema_of(schema)
        messages = render(prompt, request=json_request(json_schema))
        room = max_tokens + self._number_max_tokens
        with metered() as meter:
            try:
                value, raw, method = await self._json(messages, json_schema, schema, room)
            finally:
                self._spent.total += meter.total
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
                raw, method = usable_text(held, max_tokens), "constrained_reply"
            return parse_json(raw, schema), raw, method
        except JudgeReplyError as error:
            # Cut short without a constraint, the reply is too long for its limit, and would be so again.
            if error.kind == "refused" or (error.kind == "truncated" and held is None):
                raise
        # Without the reply: a long broken one makes the next one like it.
        insisting: Message = {"role": "user", "content": f"{messages[-1]['content']}\n\n{_INSISTENCE}"}
        raw = await self._text([*messages[:-1], insisting], max_tokens=max_tokens)
        return parse_json(raw, schema), raw, "second_reply"

    async def _expected(self, messages: list[Message], low: float, high: float) -> NumberReply:
        read = await self._reads.read(messages, low, high)
        if read is None:
            return await self._single(messages, low, high)
        if read.mass < _LEAST_MASS:
            return replace(await self._single(messages, low, high), mass=read.mass)
        return NumberReply(value=read.value, raw=str(read), method="expected", interval=read.interval, mass=read.mass)

    async def _sampled(self, messages: list[Message], low: float, high: float) -> NumberReply:
        max_tokens = self._number_max_tokens
        sampling = dict(TEMPERATURE_ONE)
        if "seed" in self._sampling:
            sampling["seed"] = self._sampling["seed"]
        replies = await self.model.complete(
            ChatRequest(messages=messages, max_tokens=max_tokens, sampling=sampling, n=self._draws)
        )
        values: list[float] = []
        troubles: list[JudgeReplyError] = []
        for reply in replies:
            try:
                values.append(parse_number(usable_text(reply, max_tokens), low, high))
            except JudgeReplyError as error:
                troubles.append(error)
        if len(values) < len(troubles):
            kinds = {trouble.kind for trouble in troubles}
            first = troubles[0]
            raise JudgeReplyError(
                f"{len(values)} of {len(replies)} replies have a usable number, which is fewer than half; {first}",
                kind="unparseable" if values or len(kinds) > 1 else first.kind,
                raw=first.raw,
            )
        mean = mean_interval(values, low=low, high=high)
        return NumberReply(
            value=mean.value,
            raw=", ".join(f"{value:g}" for value in values),
            method="sampled",
            n=mean.n,
            n_missing=len(troubles),
            interval=Interval(low=mean.low, high=mean.high, confidence_level=mean.confidence_level, method=mean.method),
        )

    async def _single(self, messages: list[Message], low: float, high: float) -> NumberReply:
        max_tokens = self._number_max_tokens
        try:
            raw = await self._text(messages, max_tokens=max_tokens)
            return NumberReply(value=parse_number(raw, low, high), raw=raw, method="single_reply")
        except JudgeReplyError as error:
            # Cut short before the first word: it reasons out of sight, and would do so again.
            if error.kind == "refused" or (error.kind == "truncated" and not error.raw):
                raise
            unread = error.raw or ""

        if self._constrained is not None and float(low).is_integer() and float(high).is_integer():
            held = await self._constrained.complete_number(
                messages, int(low), int(high), max_tokens=max_tokens, sampling=self._sampling
            )
            if held is not None:
                try:
                    raw = usable_text(held, max_tokens)
                except JudgeReplyError as error:
                    if error.kind == "refused":
                        raise
                    # Cut short: a model that reasons first, or one that fills the reply with white space.
                    unread = error.raw or unread
                else:
                    return NumberReply(value=parse_number(raw, low, high), raw=raw, method="constrained_reply")

        raw = await self._text([*messages, *build_retry_messages(unread, low, high)], max_tokens=max_tokens)
        return NumberReply(value=parse_number(raw, low, high), raw=raw, method="second_reply")

    async def _text(self, messages: Sequence[Message], *, max_tokens: int) -> str:
        request = ChatRequest(messages=messages, max_tokens=max_tokens, sampling=self._sampling)
        (completion,) = await self.model.complete(request)
        return usable_text(completion, max_tokens)

    async def aclose(self) -> None:
        """Close the model's connections of the running event loop. Safe to call twice; a later question opens new ones."""
        await self.model.aclose()


def usable_text(completion: Completion, max_tokens: int) -> str:
    """The text of a finished reply.

    Raises:
        JudgeReplyError: The model declined, or did not finish.
    """
    if completion.finish == "refused":
        raise JudgeReplyError(
            f"the judge declined to answer: {completion.text or 'content filter'}", kind="refused", raw=completion.text
        )
    if completion.finish == "length":
        raise JudgeReplyError(
            (
                f"the reply was cut at {max_tokens} tokens; a model that reasons before it answers needs more "
                "(max_tokens=4096, --judge-max-tokens 4096)"
            ),
            kind="truncated",
            raw=completion.text,
        )
    return completion.text
