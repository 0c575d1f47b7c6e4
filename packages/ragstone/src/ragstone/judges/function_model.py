"""Chat model based on a function, for any client library that an application uses."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import replace
from typing import Any, Final, TypeAlias

from ragstone._util.fork import after_fork_in_child
from ragstone._util.variables import suppress_capture
from ragstone._util.waiting import MovingTimeout, retry_after_s
from ragstone.errors import ConfigurationError, JudgeError, JudgeRejectedError, JudgeReplyError, JudgeUnavailableError
from ragstone.judges._http.dialect import drop_order
from ragstone.judges._http.errors import causes_of, extract_error_message
from ragstone.judges._http.probe import are_raw
from ragstone.judges._limits.flow_control import Replies
from ragstone.judges._model import (
    AsyncOnce,
    Capabilities,
    ChatRequest,
    Completion,
    TokenLogprobs,
    after_reasoning,
    model_call,
    record_usage,
)
from ragstone.judges._render import Message
from ragstone.schema import Usage

Answer: TypeAlias = tuple[Completion, Usage]

_PROBE: Final[list[Message]] = [{"role": "user", "content": "Reply with the word yes."}]
_PROBE_TOKENS: Final = 64
_TOP: Final = 20
_LOGPROBS: Final = "logprobs"
_MAX_CHARS: Final = 500
_PASSING: Final = (408, 409, 425, 429)
"""Client errors (HTTP status) that may be temporary."""
_QUOTA: Final = "insufficient_quota"
"""Code of a 429 error that is not temporary."""
# Every client library has its own exception classes. Their names contain these words.
_REFUSALS: Final = ("ContentFilter", "ContentPolicy", "Refusal", "BlockedPrompt", "SafetyError")
_TIMEOUTS: Final = ("Timeout", "TimedOut", "DeadlineExceeded")
_UNAVAILABLE: Final = (
    *("Connect", "Network", "Transport", "Protocol", "Unavailable", "Overloaded", "RateLimit", "Throttl"),
    *("TooManyRequests", "ResourceExhausted", "InternalServer", "RemoteDisconnected"),
)


class FunctionModel:
    """A chat model based on a function that calls one.

    The function is called in threads, with the context variables of the caller. It should use the synchronous call of
    a client library. An asynchronous client belongs to the event loop in which it was first used, and a judge is used
    in several event loops, one after the other. Nothing inside it is captured as user traffic.

    Args:
        ask: Takes a `ChatRequest` whose `n` is 1, and returns the reply and its usage. It may ignore fields of
            `sampling`. Its exceptions become a `JudgeError`: timeouts "timeout", rate limits, lost connections and 5xx
            "unavailable", content filters "refused", all others "rejected".
        name: Display name of the model.
        settings: All settings that affect replies, without secrets (see `ChatModel`).
        max_concurrent_requests: Maximum number of concurrent requests.
        timeout_s: Seconds for one reply. They start again while other requests are answered, as the model may have a
            queue. A request that takes longer fails. Its thread ends when the client returns.
        secrets: Texts that must not be in messages, such as keys.

    Raises:
        ConfigurationError: If a value is invalid.

    Examples:
        ```python
        def ask(request: ChatRequest) -> tuple[Completion, Usage]:
            reply = my_client.chat(request.messages, max_tokens=request.max_tokens)
            return Completion(text=reply.text), Usage(input_tokens=reply.n_in, output_tokens=reply.n_out)


        judge = ModelJudge(FunctionModel(ask, name="my model", settings={"model": "my-model-3"}))
        ```
    """

    def __init__(
        self,
        ask: Callable[[ChatRequest], Answer],
        *,
        name: str,
        settings: Mapping[str, object],
        max_concurrent_requests: int = 16,
        timeout_s: float = 120.0,
        secrets: Sequence[str] = (),
    ) -> None:
        if max_concurrent_requests < 1 or not timeout_s > 0:
            raise ConfigurationError(
                "max_concurrent_requests must be at least 1 and timeout_s above 0, got "
                f"max_concurrent_requests={max_concurrent_requests!r}, timeout_s={timeout_s!r}"
            )
        self._ask = ask
        self._name = name
        self._shape = dict(settings)
        self._max_concurrent_requests = max_concurrent_requests
        self._timeout_s = timeout_s
        self._secrets = tuple(secrets)
        self._refused: frozenset[str] = frozenset()
        """Options that the model has refused. They are omitted from then on."""
        self._measured = AsyncOnce(self._measure)
        self._after_fork()
        after_fork_in_child(self._after_fork)

    def _after_fork(self) -> None:
        self._pool: ThreadPoolExecutor | None = None
        self._pool_lock = threading.Lock()
        self._replies = Replies()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._name!r})"

    @property
    def name(self) -> str:
        """Display name of the model."""
        return self._name

    @property
    def settings(self) -> Mapping[str, object]:
        """Settings that affect replies."""
        return self._shape

    async def prepare(self) -> None:
        """Do nothing."""

    async def capabilities(self, *, fresh: bool = False) -> Capabilities:
        """Measure with a few short requests if log-probabilities are returned and if replies begin with reasoning.

        Raises:
            JudgeError: If the model is unavailable.
        """
        if fresh:
            self._measured = AsyncOnce(self._measure)
        return await self._measured.get()

    async def complete(self, request: ChatRequest) -> tuple[Completion, ...]:
        """Return `request.n` replies, each from a separate request.

        Raises:
            JudgeError: If no reply is received: "timeout", "unavailable", "rejected", "refused".
        """
        requests = [replace(request, n=1, sampling=_seeded(request.sampling, i)) for i in range(request.n)]
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self._completed(each)) for each in requests]
        except BaseExceptionGroup as errors:
            # Callers handle single errors, not groups.
            raise errors.exceptions[0] from None
        return tuple(task.result() for task in tasks)

    async def _completed(self, request: ChatRequest) -> Completion:
        while True:
            accepted = _without(request, self._refused)
            try:
                return await self._call(accepted)
            except JudgeRejectedError as error:
                options = {*accepted.sampling, *([_LOGPROBS] if accepted.top_logprobs else [])}
                named = {option for option in options if option in str(error)}
                if not named:
                    raise
                # The temperature last: an error may state that it cannot be combined with another option.
                self._refused |= drop_order(named & accepted.sampling.keys(), accepted.sampling) or named

    async def _call(self, request: ChatRequest) -> Completion:
        """Call the function once in a thread, and record the usage."""
        loop = asyncio.get_running_loop()
        begun = asyncio.Event()

        def work() -> Answer:
            # The event loop may be closed if the caller was canceled.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(begun.set)
            try:
                return self._ask(request)
            except JudgeError:
                raise
            except Exception as error:
                # Converted here, because a future does not accept StopIteration.
                raise judge_error_from(error, model=self._name, secrets=self._secrets) from error

        with suppress_capture():
            context = copy_context()
        reply = asyncio.wrap_future(self._threads().submit(context.run, work))
        try:
            # The timeout starts when the thread does.
            await begun.wait()
            record_usage(Usage(calls=1))
            completion, usage = await self._answer_of(reply)
        finally:
            reply.cancel()
        n_counted = usage.counted_calls if usage.calls else usage.input_tokens > 0
        n_priced = int(usage.cost_usd is not None)
        record_usage(usage.model_copy(update={"calls": 0, "priced_calls": n_priced, "counted_calls": int(n_counted)}))
        # A lone surrogate is valid in JSON, but cannot be encoded.
        return replace(completion, text=completion.text.encode(errors="replace").decode())

    async def _answer_of(self, reply: asyncio.Future[Answer]) -> Answer:
        loop = asyncio.get_running_loop()
        sent_at, n_before = loop.time(), self._replies.n

        def remaining_s() -> float:
            since = self._replies.waits_since(sent_at, n_before=n_before, in_flight=self._max_concurrent_requests)
            return since + self._timeout_s - loop.time()

        try:
            with model_call(), MovingTimeout(remaining_s) as limit:
                return await reply
        except TimeoutError:
            if not limit.expired:
                raise
            raise JudgeUnavailableError(
                f"{self._name}: no reply within {self._timeout_s:g} s", kind="timeout"
            ) from None
        finally:
            if not reply.cancelled():  # codespell:ignore
                self._replies.add(loop.time())

    def _threads(self) -> ThreadPoolExecutor:
        with self._pool_lock:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(self._max_concurrent_requests, thread_name_prefix="ragstone-model")
            return self._pool

    async def _measure(self) -> Capabilities:
        plain = await self._probed(0.0, top_logprobs=0)
        # If the reply was cut before its first word, the model reasons invisibly.
        reasons = plain.text.strip() != (after_reasoning(plain.text) or "") or (
            plain.finish == "length" and not plain.text
        )
        cold, hot = [await self._reading(temperature) for temperature in (0.5, 2.0)]
        raw, seen = None, "log-probabilities are not returned"
        if cold is not None and hot is not None:
            is_fixed = "temperature" in self._refused
            raw, seen = (None, "the temperature cannot be changed") if is_fixed else are_raw(cold, hot)
        return Capabilities(
            model=self._name,
            reasons=reasons,
            top_logprobs=0 if cold is None or hot is None else len(cold.top),
            logprobs_raw=raw,
            refused_parameters=tuple(sorted(self._refused)),
            seen={"logprobs_raw": seen, "chain": "a function does not provide the probability of a given reply"},
        )

    async def _probed(self, temperature: float, *, top_logprobs: int) -> Completion:
        sampling = {"temperature": temperature}
        request = ChatRequest(messages=_PROBE, max_tokens=_PROBE_TOKENS, sampling=sampling, top_logprobs=top_logprobs)
        (completion,) = await self.complete(request)
        return completion

    async def _reading(self, temperature: float) -> TokenLogprobs | None:
        try:
            tokens = (await self._probed(temperature, top_logprobs=_TOP)).tokens
        except JudgeRejectedError:
            return None
        return tokens[0] if tokens and tokens[0].top else None

    async def aclose(self) -> None:
        """Do nothing: threads may run for other event loops, and end with this object."""


def _seeded(sampling: Mapping[str, Any], nth: int) -> Mapping[str, Any]:
    # With the same seed the next request would return the same draw.
    return {**sampling, "seed": sampling["seed"] + nth} if nth and "seed" in sampling else sampling


def _without(request: ChatRequest, refused: frozenset[str]) -> ChatRequest:
    sampling = {name: value for name, value in request.sampling.items() if name not in refused}
    return replace(request, sampling=sampling, top_logprobs=0 if _LOGPROBS in refused else request.top_logprobs)


def judge_error_from(error: Exception, *, model: str, secrets: Sequence[str] = ()) -> JudgeError:
    """Convert an exception of a client library to a `JudgeError` without any of the `secrets` in its message.

    It is a `JudgeReplyError` ("refused") for a content filter, and a `JudgeUnavailableError` ("timeout", "unavailable")
    for temporary errors: timeouts, lost connections, rate limits, 5xx. It is a `JudgeRejectedError` for all other
    errors, including other 4xx and bugs.
    """
    causes = causes_of(error)
    text = _hidden(f"{type(error).__name__}: {extract_error_message(_text(error))}"[:_MAX_CHARS], secrets)
    message = f"{model}: {text}"
    names = [kind.__name__ for cause in causes for kind in type(cause).__mro__]
    if _any_of(_REFUSALS, names):
        return JudgeReplyError(message, kind="refused")
    if (status := _status(error)) is not None:
        if status == 429 and _QUOTA in _text(error):
            return JudgeRejectedError(message)
        if status in _PASSING or status >= 500:
            kind = "timeout" if status in (408, 504) else "unavailable"
            return JudgeUnavailableError(message, kind=kind, retry_after_s=_retry_after_s(error))
        if status >= 400:
            return JudgeRejectedError(message)
    if any(isinstance(cause, TimeoutError) for cause in causes) or _any_of(_TIMEOUTS, names):
        return JudgeUnavailableError(message, kind="timeout")
    if any(isinstance(cause, OSError) for cause in causes) or _any_of(_UNAVAILABLE, names):
        return JudgeUnavailableError(message, retry_after_s=_retry_after_s(error))
    return JudgeRejectedError(message)


def _any_of(parts: Sequence[str], names: Sequence[str]) -> bool:
    return any(part.lower() in name.lower() for name in names for part in parts)


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001  the error of a broken object may be broken as well
        return ""


def _hidden(text: str, secrets: Sequence[str]) -> str:
    for secret in sorted(filter(None, secrets), key=len, reverse=True):
        text = text.replace(secret, "[api key]")
    # Lone surrogates cannot be encoded.
    return text.encode(errors="replace").decode()


def _status(error: BaseException) -> int | None:
    """Return the HTTP status of an exception, from the attributes that client libraries use."""
    response = getattr(error, "response", None)
    places: list[Any] = [getattr(error, name, None) for name in ("status_code", "http_status", "status", "code")]
    places.append(getattr(response, "status_code", None))
    if isinstance(response, Mapping):
        about = response.get("ResponseMetadata")
        places.append(about.get("HTTPStatusCode") if isinstance(about, Mapping) else None)
    return next((int(place) for place in places if isinstance(place, int) and 100 <= place < 600), None)


def _retry_after_s(error: BaseException) -> float | None:
    headers = getattr(getattr(error, "response", None), "headers", None)
    return retry_after_s(headers) if isinstance(headers, Mapping) else None
