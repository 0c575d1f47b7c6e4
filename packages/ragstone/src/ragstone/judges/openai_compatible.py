"""The judge behind any OpenAI-compatible chat endpoint: vLLM, SGLang, llama.cpp, Ollama, OpenAI, gateways."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

from ragstone.errors import ConfigurationError, JudgeReplyError
from ragstone.judges._dialect import CONSTRAINTS, Constraint, Dialect
from ragstone.judges._endpoint import Endpoint, RequestRefusedError
from ragstone.judges._parse import parse_number
from ragstone.judges._protocol import JudgeIdentity, NumberReply, Prompt, TextReply
from ragstone.judges._render import RENDER_VERSION, Message, number_request, reminder, render
from ragstone.judges._usage import UsageMeter, metered, record_usage
from ragstone.schema import Usage

__all__ = ["OpenAICompatibleJudge"]

_MAX_CONSTRAINED_VALUES: Final = 1001
"""A regular expression that lists every value gets unwieldy beyond this."""


class OpenAICompatibleJudge:
    """Asks a chat model over HTTP.

    Replies are read strictly (see `parse_number`). When one cannot be read, the judge asks once more with the reply
    constrained to a number, where the server can do that (tried out, not guessed: a server that ignores the constraint
    is remembered), else with a reminder; then it raises.

    One judge may be used from several event loops, one after another or at once; it keeps a client for each.

    Args:
        base_url: "http://host:8000/v1"; without a path, `/v1` is taken.
        model: The model to ask; None takes the one that the server serves.
        api_key: Sent as bearer token. None sends none, whatever the environment holds.
        concurrency: Requests in flight at once, on each event loop.
        timeout_s: Seconds for one attempt.
        max_retries: Repetitions after time-outs, lost connections and 5xx.
        max_wait_s: Seconds for which a request is repeated when the server says 429. The caller's deadline ends the
            waiting earlier.
        backoff_s: Seconds before the first repetition; doubles each time, up to 30.
        temperature: Sampling temperature; left out once the server refuses it.
        seed: Sampling seed, for servers that take one.
        number_max_tokens: Length limit of replies with a number. Models that reason before they answer need
            thousands.
        extra_body: Fields to add to every request (`{"chat_template_kwargs": {"enable_thinking": False}}`).
        usd_per_million_tokens: Prices of input and output in US dollars, for the cost totals.

    Raises:
        ConfigurationError: A value that cannot work.

    Example:
        ```python
        judge = OpenAICompatibleJudge("http://localhost:8000/v1")
        reply = await judge.ask_number(prompt)
        ```
    """

    def __init__(
        self,
        base_url: str,
        *,
        model: str | None = None,
        api_key: str | None = None,
        concurrency: int = 16,
        timeout_s: float = 60.0,
        max_retries: int = 4,
        max_wait_s: float = 600.0,
        backoff_s: float = 0.5,
        temperature: float | None = 0.0,
        seed: int | None = None,
        number_max_tokens: int = 64,
        extra_body: Mapping[str, Any] | None = None,
        usd_per_million_tokens: tuple[float, float] | None = None,
    ) -> None:
        for name, value, least in (
            ("concurrency", concurrency, 1),
            ("max_retries", max_retries, 0),
            ("number_max_tokens", number_max_tokens, 1),
        ):
            if value < least:
                msg = f"{name} must be at least {least}, got {value!r}"
                raise ConfigurationError(msg)
        if timeout_s <= 0 or max_wait_s < 0 or backoff_s < 0:
            msg = (
                "timeout_s must be above 0, max_wait_s and backoff_s not below 0, got "
                f"timeout_s={timeout_s!r}, max_wait_s={max_wait_s!r}, backoff_s={backoff_s!r}"
            )
            raise ConfigurationError(msg)
        self._endpoint = Endpoint(
            base_url,
            api_key=api_key,
            concurrency=concurrency,
            timeout_s=timeout_s,
            max_retries=max_retries,
            max_wait_s=max_wait_s,
            backoff_s=backoff_s,
        )
        self._model = model
        self._number_max_tokens = number_max_tokens
        self._sampling = {
            name: value for name, value in (("temperature", temperature), ("seed", seed)) if value is not None
        }
        self._extra_body = dict(extra_body or {})
        self._prices = usd_per_million_tokens
        self._dialect = Dialect()
        self._constraints = CONSTRAINTS
        """Those that the server has not yet refused or ignored."""
        self._spent = UsageMeter()

    def __repr__(self) -> str:
        return f"OpenAICompatibleJudge({self._endpoint.shown_url!r}, model={self._model!r})"

    @property
    def usage(self) -> Usage:
        """Everything spent through this judge so far, failed calls and retries included."""
        return self._spent.total

    @property
    def identity(self) -> JudgeIdentity:
        """Endpoint and model in words, and a hash of all that shapes replies.

        Final once the model is known: given, or found by `prepare()`.
        """
        shape = {
            "endpoint": self._endpoint.shown_url,
            "model": self._model,
            "sampling": self._sampling,
            "number_max_tokens": self._number_max_tokens,
            "extra_body": self._extra_body,
            "render": RENDER_VERSION,
        }
        digest = hashlib.sha256(json.dumps(shape, sort_keys=True, default=repr).encode()).hexdigest()[:16]
        host = urlsplit(self._endpoint.shown_url).netloc
        return JudgeIdentity(name=f"{self._model or 'the served model'} at {host}", hash=digest)

    async def prepare(self) -> None:
        """Find out the served model, unless one was given. Called by the first question otherwise.

        Raises:
            ConfigurationError: The server serves no model, or several; the message lists them.
            JudgeError: The server cannot be asked.
        """
        if self._model is not None:
            return
        async with await self._endpoint.setup_lock():
            if self._model is None:
                self._model = await self._served_model()

    async def _served_model(self) -> str:
        url = self._endpoint.shown_url
        try:
            listing = await self._endpoint.request("GET", "/models")
        except RequestRefusedError as refused:
            if refused.status != 404:
                raise
            msg = f"{url} lists no models (HTTP 404); check the URL (it usually ends in /v1) or pass model=..."
            raise ConfigurationError(msg) from None
        entries = listing.get("data")
        names = [str(entry["id"]) for entry in entries or () if isinstance(entry, dict) and "id" in entry]
        if len(names) != 1:
            served = ", ".join(sorted(names)[:20]) or "none"
            msg = f"{url} serves {len(names)} models ({served}); pass model=... to choose one"
            raise ConfigurationError(msg)
        return names[0]

    async def ask_text(self, prompt: Prompt, *, max_tokens: int = 512) -> TextReply:
        """Ask for free text of at most `max_tokens` tokens.

        Raises:
            JudgeError: No usable answer. Kinds: "truncated", "refused", "timeout", "unavailable", "rejected".
        """
        await self.prepare()
        with metered() as meter:
            try:
                text = await self._chat(render(prompt), max_tokens=max_tokens)
            finally:
                self._spent.total += meter.total
        return TextReply(text=text, usage=meter.total)

    async def ask_number(self, prompt: Prompt, *, low: float = 0, high: float = 100) -> NumberReply:
        """Ask for one number in [low, high]. `method` of the reply says which attempt gave it.

        Raises:
            JudgeError: No usable answer. Kinds: "unparseable" and "truncated" (with `raw`), "refused", "timeout",
                "unavailable", "rejected".
        """
        await self.prepare()
        with metered() as meter:
            try:
                value, raw, method = await self._number(render(prompt, request=number_request(low, high)), low, high)
            finally:
                self._spent.total += meter.total
        return NumberReply(value=value, raw=raw, method=method, usage=meter.total)

    async def _number(self, messages: list[Message], low: float, high: float) -> tuple[float, str, str]:
        max_tokens = self._number_max_tokens
        try:
            raw = await self._chat(messages, max_tokens=max_tokens)
            return parse_number(raw, low, high), raw, "single_reply"
        except JudgeReplyError as error:
            # Cut short before the first word: it reasons out of sight, and would do so again.
            if error.kind == "refused" or (error.kind == "truncated" and not error.raw):
                raise
            unread = error.raw or ""

        for constraint in self._usable_constraints(low, high):
            bounds = int(low), int(high)
            try:
                raw = await self._chat(messages, max_tokens=max_tokens, fields=constraint.fields(*bounds))
            except RequestRefusedError as refused:
                if refused.status not in (400, 422):
                    raise
                self._forget(constraint)
                continue
            except JudgeReplyError as error:
                if error.kind == "refused":
                    raise
                # Cut short: a model that reasons first, or one that fills the reply with white space.
                unread = error.raw or unread
                break
            if constraint.obeyed(raw, *bounds):
                return parse_number(raw, low, high), raw, "constrained_reply"
            self._forget(constraint)

        raw = await self._chat([*messages, *reminder(unread, low, high)], max_tokens=max_tokens)
        return parse_number(raw, low, high), raw, "second_reply"

    def _usable_constraints(self, low: float, high: float) -> tuple[Constraint, ...]:
        whole = float(low).is_integer() and float(high).is_integer()
        return self._constraints if whole and high - low < _MAX_CONSTRAINED_VALUES else ()

    def _forget(self, constraint: Constraint) -> None:
        self._constraints = tuple(usable for usable in self._constraints if usable is not constraint)

    async def _chat(
        self, messages: Sequence[Message], *, max_tokens: int, fields: Mapping[str, Any] | None = None
    ) -> str:
        """One chat completion, in the dialect that the endpoint turns out to speak."""
        assert self._model is not None  # noqa: S101  `prepare` ran
        dialect = self._dialect
        while True:
            body = dialect.body(model=self._model, messages=messages, max_tokens=max_tokens, sampling=self._sampling)
            try:
                completion = await self._endpoint.request(
                    "POST", "/chat/completions", {**body, **self._extra_body, **(fields or {})}
                )
            except RequestRefusedError as refused:
                adapted = dialect.adapted(refused, self._sampling)
                if adapted is None:
                    raise
                dialect = adapted
                continue
            if dialect is not self._dialect:
                self._dialect = dialect
            record_usage(_usage(completion, self._prices))
            return _text(completion, max_tokens)

    async def aclose(self) -> None:
        """Close the connections of the running event loop. Safe to call twice; a later question opens new ones."""
        await self._endpoint.aclose()


def _usage(completion: Mapping[str, Any], prices: tuple[float, float] | None) -> Usage:
    tokens = completion.get("usage")
    tokens = tokens if isinstance(tokens, dict) else {}
    n_in, n_out = (
        count if isinstance(count := tokens.get(name), int) and count > 0 else 0
        for name in ("prompt_tokens", "completion_tokens")
    )
    cost_usd = None if prices is None else (n_in * prices[0] + n_out * prices[1]) / 1e6
    return Usage(input_tokens=n_in, output_tokens=n_out, cost_usd=cost_usd)


def _text(completion: Mapping[str, Any], max_tokens: int) -> str:
    """The reply's text; an error when the model did not finish it or would not give one."""
    try:
        choice = completion["choices"][0]
        message = choice["message"]
        text, refusal = message.get("content"), message.get("refusal")
    except (KeyError, IndexError, TypeError, AttributeError):
        msg = f"the completion has no message, only {sorted(completion)}"
        raise JudgeReplyError(msg) from None
    # A lone surrogate is legal in JSON and nowhere else.
    text = text.encode(errors="replace").decode() if isinstance(text, str) else ""
    finish = choice.get("finish_reason")
    if refusal or finish == "content_filter":
        msg = f"the judge declined to answer: {refusal or finish}"
        raise JudgeReplyError(msg, kind="refused", raw=str(refusal or text))
    if finish == "length":
        msg = (
            f"the reply was cut at {max_tokens} tokens; a model that reasons before it answers needs more "
            "(number_max_tokens=4096)"
        )
        raise JudgeReplyError(msg, kind="truncated", raw=text)
    return text
