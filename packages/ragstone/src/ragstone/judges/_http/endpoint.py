"""One OpenAI-compatible endpoint: requests with retries, pauses and limits, and a transport for each event loop."""

from __future__ import annotations

import asyncio
import json
import math
import random
import re
import threading
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final
from urllib.parse import urlsplit, urlunsplit

from ragstone import settings
from ragstone._util.fork import after_fork_in_child
from ragstone._util.waiting import MovingTimeout, retry_after_s
from ragstone.errors import ConfigurationError, JudgeError, JudgeUnavailableError
from ragstone.judges._http.bodies import EMBEDDINGS, estimated_tokens, log_probabilities, reply_length, reply_limit
from ragstone.judges._http.errors import ErrorBody, RequestRefusedError, find_secrets
from ragstone.judges._http.replies import read_stream
from ragstone.judges._http.transport import (
    AiohttpTransport,
    ApiKey,
    ConnectionFailedError,
    Method,
    NoConnectionError,
    NotConnectedError,
    Reply,
    SignInError,
    Transport,
)
from ragstone.judges._http.whole_prompts import WholePrompts
from ragstone.judges._limits.flow_control import FailedAttempt
from ragstone.judges._limits.gate import ClientLimits, Permit, capacity_of
from ragstone.judges._limits.spend import Budget, usage_of
from ragstone.judges._model import PerLoop, model_call, note_progress, record_usage
from ragstone.judges._option_names import OptionNames
from ragstone.schema import Usage

Controls = Mapping[str, Mapping[str, Any]]
"""Chat requests that omit parts of another request, by the part that they omit."""

_MAX_BACKOFF_S: Final = 30.0
_MAX_PAUSE_S: Final = 120.0
"""Longest pause that a server can request. After it one request is sent, which shows if the server still refuses."""
_LEAST_PAUSE_S: Final = 0.01
"""Shortest pause before the first retry that a server requests. It doubles with each refusal in a row."""
_OVERLOADED: Final = (503, 504, 529)

_NAMED_BY_ENVIRONMENT: Final = (
    ", or use openai:MODEL with OPENAI_BASE_URL set to the URL (and OPENAI_API_KEY, if it needs a key)"
)
"""Hint for callers who pass a URL as text: how to name its model and key."""

_CHAT: Final = "/chat/completions"
_LIST: Final = re.compile(r"^[^:]*://(?:[^/?#]*@)?+[^?#]*,|,\s*https?://")
"""A comma outside of the credentials and the query, or a comma and another URL."""
_TARGET_CHARACTERS: Final = 200
_QUOTED_CHARACTERS: Final = 500
_MAX_NAMES: Final = 20


def normalize_url(base_url: str) -> str:
    """Normalize a base URL: no slash at the end, and `/v1` if the path is empty.

    Raise ConfigurationError if it is not one http(s) URL with a host.
    """
    if _LIST.search(base_url):
        raise ConfigurationError(
            f"a base_url is the URL of one server, without a comma, got {settings.public_name(base_url)!r}. For "
            "several servers with the same model, start a load balancer (LiteLLM, nginx) and name its URL"
        )
    try:
        parts = urlsplit(base_url.strip())
        _ = parts.port  # raises if it is out of range
    except ValueError as error:
        raise ConfigurationError(
            f"a judge's base_url looks like 'http://host:8000/v1', and the given text is not a URL: {error}"
        ) from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        shown = settings.public_name(base_url)
        raise ConfigurationError(f"a judge's base_url looks like 'http://host:8000/v1', got {shown!r}")
    path = parts.path.rstrip("/").removesuffix("/chat/completions") or "/v1"
    return urlunsplit((parts.scheme, parts.netloc, path, parts.query, ""))


_Connection = tuple[Transport, AsyncGenerator[None, None]]
"""The transport of one event loop, and what closes it with the loop."""
_Outcome = dict[str, Any] | FailedAttempt | RequestRefusedError


@dataclass(slots=True, kw_only=True)
class _RequestState:
    """State of one request through all its attempts."""

    method: Method
    path: str
    body: Mapping[str, Any] | None
    counted: bool
    order: int = 0
    """Its place in the queue, for all attempts."""
    kind: int = 0
    n_tokens: float = 0.0
    n_failures: int = 0
    is_probe: bool = False
    """Whether the latest attempt was a probe during an outage."""
    give_up_at: float = math.inf
    """When it is too late for a retry, which is known as soon as the limiter has admitted the first attempt."""


class Endpoint:
    """Sends requests to one base URL, as many concurrently as the shared `EndpointLimiter` allows.

    Attempts that fail for a temporary reason are retried: timeouts, lost connections, 408, 409 and 5xx up to
    `max_retries` times with exponential backoff, and 429 for up to `max_wait_s`, in which no other request is sent.
    `Retry-After` is respected, with a minimum that doubles with each refusal in a row. During an outage one probe at a
    time is sent, and other requests wait. A deadline of the caller is a cancellation, which needs no support here.
    """

    def __init__(
        self,
        base_url: str,
        *,
        api_key: ApiKey | None,
        share: ClientLimits,
        connect: Callable[[], Transport] | None = None,
        prices: tuple[float, float] | None = None,
        budget: Budget | None = None,
        headers: Mapping[str, str] | None = None,
        option_names: OptionNames | None = None,
    ) -> None:
        self.base_url = normalize_url(base_url)
        self._api_key = api_key
        self._headers = dict(headers or {})
        parts = urlsplit(self.base_url)
        self.host = parts.netloc.rpartition("@")[2]
        """Host and port."""
        self.public_url = urlunsplit((parts.scheme, self.host, parts.path, "", ""))
        """Base URL without credentials and query."""
        self._root = urlunsplit((parts.scheme, self.host, parts.path.removesuffix("/v1"), "", ""))
        """URL of the server without credentials and query, and without a `/v1` at the end of the path."""
        self._option_names = option_names or OptionNames()
        known_key = api_key if isinstance(api_key, str) else None
        self._secrets = find_secrets(self.base_url, known_key, self._headers)
        self._connect = connect or partial(
            AiohttpTransport, self.base_url, api_key=api_key, headers=self._headers, timeout_s=share.timeout_s
        )
        self._share = share
        self.capacity = capacity_of(self.base_url, f"function {id(api_key)}" if callable(api_key) else api_key)
        self.capacity.join(share)
        self._prices = prices
        self._budget = budget
        self._prompts = WholePrompts(
            lambda body: self._send(_RequestState(method="POST", path=_CHAT, body=body, counted=True), None),
            name=self.public_url,
        )
        self.setup = PerLoop(asyncio.Lock)
        """A lock of each event loop, for capabilities that are detected once."""
        self._connections: dict[asyncio.AbstractEventLoop, _Connection] = {}
        self._after_fork()
        after_fork_in_child(self._after_fork)
        self._random = random.Random()  # noqa: S311  jitter

    def _after_fork(self) -> None:
        # Another thread of the parent may have held the lock.
        self._connections_lock = threading.Lock()

    def how_to_set(self, key: str) -> str:
        """Return how the user sets an option of this endpoint ("model", "api_key"), for messages."""
        option = self._option_names.option(key)
        return option + _NAMED_BY_ENVIRONMENT if self._option_names.interface == "python" else option

    async def request(
        self,
        method: Method,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        counted: bool = True,
        controls: Controls | None = None,
    ) -> dict[str, Any]:
        """Send one request, with retries, and return the JSON object of the reply.

        The path is below the base URL ("/models"), or with two slashes ("//tokenize") below the server's root.
        `counted` says whether a POST counts as a call in the usage. `controls` are chat requests to compare with if the
        request fails, by the part that they omit. Each omits the parts of those before it as well. Without them, a
        server error is always temporary.

        Raises:
            RequestRefusedError: If the status is 4xx, or one of `controls` succeeds each time and the request fails.
            JudgeRejectedError: If the server cut the prompt, with kind "prompt_truncated".
            JudgeUnavailableError: If no usable reply is received after all retries. The kind is "timeout",
                "unavailable", or "unparseable" if the reply is not a JSON object (for example a proxy's error page).
        """
        with model_call():
            url = f"{self._root}{path[1:]}" if path.startswith("//") else path
            sending = _RequestState(method=method, path=url, body=body, counted=counted and method == "POST")
            reply = await self._send(sending, controls)
            if path == _CHAT and body is not None:
                await self._prompts.check(body, reply)
        return reply

    async def _send(self, sending: _RequestState, controls: Controls | None) -> dict[str, Any]:
        capacity, body = self.capacity, sending.body
        sending.order = capacity.enqueue()
        if sending.counted and body is not None:
            sending.kind = reply_length(body)
            if capacity.counts_tokens:
                sending.n_tokens = estimated_tokens(body)
        loop = asyncio.get_running_loop()
        n_in_outage = n_refusals = 0
        is_compared = False
        while True:
            outcome = await self._attempt(sending)
            n_tried = 1
            n_left = self._share.max_retries + n_in_outage - sending.n_failures
            is_doubted = sending.n_failures if n_left > 0 else not is_compared
            if controls and is_doubted and isinstance(outcome, FailedAttempt) and outcome.may_refuse:
                failure, outcome, is_compared = outcome, await self._compare(sending, outcome, controls), True
                # A control that failed is one of the retries.
                n_tried += outcome is failure and n_left > 0
            if isinstance(outcome, RequestRefusedError):
                raise outcome
            if not isinstance(outcome, FailedAttempt):
                return outcome
            give_up_at = sending.give_up_at + capacity.outage_s()
            if outcome.rate_limited:
                n_refusals += 1
                # The pause is limited. A request whose own time ends before the one that the server named need not wait.
                pause_s = max(capacity.pause_s(), outcome.retry_after_s or 0.0)
                if loop.time() + pause_s > give_up_at:
                    raise self._given_up(outcome, sending.n_failures + n_refusals)
                continue
            sending.n_failures += n_tried
            # A failure during an outage is not the request's own. The limiter decides when the next probe is sent.
            is_outage = sending.is_probe or (outcome.unreachable and capacity.breaker.open)
            n_in_outage += n_tried * is_outage
            n_own = sending.n_failures - n_in_outage
            wait_s = 0.0 if is_outage else self._wait_s(outcome, n_own)
            is_too_late = loop.time() + max(wait_s, outcome.retry_after_s or 0.0) > give_up_at
            if n_own > self._share.max_retries or is_too_late or capacity.is_down(self._share):
                raise self._given_up(outcome, sending.n_failures + n_refusals)
            await asyncio.sleep(wait_s)

    async def _compare(self, sending: _RequestState, failure: FailedAttempt, controls: Controls) -> _Outcome:
        """Return the outcome of a failed request. It is a refusal if its controls succeed, and then it fails again.

        A refusal needs three failures, and two controls in between that succeed: one of several replicas may be down, a
        server may restart, and failures may be random.
        """

        async def succeeds(part: str) -> bool:
            control = replace(sending, method="POST", path=_CHAT, body=controls[part], counted=True, n_failures=0)
            return isinstance(await self._attempt(control), dict)

        n_more = 1 if sending.n_failures and not sending.is_probe else 2
        *others, part = controls
        if not await succeeds(part):
            return failure
        for other in others:
            if await succeeds(other):
                part = other
                break
        if not await succeeds(part):
            return failure
        for _ in range(n_more):
            outcome = await self._attempt(sending)
            if not isinstance(outcome, FailedAttempt) or not outcome.may_refuse:
                return outcome
            failure = outcome
        message = f"{self.public_url}: {failure.reason}"
        return RequestRefusedError(message, status=failure.status, param=part, text=failure.text, isolated=True)

    def _wait_s(self, failure: FailedAttempt, n: int) -> float:
        if failure.retry_after_s is None:
            # The exponent is limited, so that the thousandth refusal does not overflow.
            return min(_MAX_BACKOFF_S, self._share.backoff_s * 2.0 ** min(n - 1, 16)) * self._random.uniform(0.5, 1.0)
        # Slightly longer than requested, because clocks differ, and with jitter for several processes. The jitter is
        # small, because it reduces the use of a limit on requests per minute.
        # A server that names too short a pause again and again ("Retry-After: 0") gets fewer requests each time.
        least_s = min(_MAX_BACKOFF_S, _LEAST_PAUSE_S * 2.0 ** min(n - 1, 16))
        wait_s = max(min(failure.retry_after_s, _MAX_PAUSE_S), least_s)
        return wait_s + 0.005 + self._random.uniform(0, min(0.02 * wait_s, 0.25))

    def _given_up(self, failure: FailedAttempt, n_attempts: int) -> JudgeUnavailableError:
        msg = f"{self.public_url}: {failure.reason} (gave up after {n_attempts} attempt{'s' if n_attempts > 1 else ''})"
        return JudgeUnavailableError(msg, kind=failure.kind, retry_after_s=failure.retry_after_s)

    async def _attempt(self, sending: _RequestState) -> _Outcome:
        """Send the request once, as soon as the limiter permits it, and report the result to the limiter."""
        if sending.counted and self._budget is not None:
            # Checked before the wait as well, so that requests beyond the budget do not queue.
            self._budget.check()
        capacity = self.capacity
        try:
            permit = await capacity.acquire(
                self._share,
                kind=sending.kind,
                n_requests=int(sending.counted),
                n_tokens=sending.n_tokens,
                n_failures=sending.n_failures,
                order=sending.order,
                reads=log_probabilities(sending.body),
            )
        except JudgeUnavailableError as down:
            raise JudgeUnavailableError(f"{self.public_url}: {down}", kind=down.kind) from None
        sending.is_probe = permit.probe
        if sending.give_up_at == math.inf:
            # Waiting for other requests, or for an unavailable endpoint, does not use up the time for retries.
            sending.give_up_at = asyncio.get_running_loop().time() + self._share.max_wait_s - capacity.outage_s()
        try:
            if sending.counted and self._budget is not None:
                try:
                    await self._budget.acquire()
                except (JudgeError, asyncio.CancelledError):
                    capacity.cancel(permit)
                    raise
            outcome = await self._exchange(sending, permit)
        except RequestRefusedError as refused:
            capacity.answered(permit, n_tokens=0.0, learn=False)
            return refused
        except GeneratorExit:
            capacity.discard(permit)
            raise
        except BaseException:
            capacity.cancel(permit, sent=True)
            raise
        if not (isinstance(outcome, FailedAttempt) and outcome.silent):
            note_progress()
        if not isinstance(outcome, FailedAttempt):
            usage = usage_of(outcome, self._prices)
            n_tokens = usage.input_tokens + usage.output_tokens
            capacity.answered(permit, n_tokens=n_tokens or None, learn=sending.counted)
            if sending.counted:
                record_usage(usage)
                if self._budget is not None:
                    self._budget.record(usage)
        elif outcome.rate_limited:
            wait_s = self._wait_s(outcome, 1 + permit.n_rounds_refused)
            capacity.refused(permit, wait_s=wait_s, wait_requested=outcome.retry_after_s is not None)
        else:
            capacity.failed(permit, outcome)
        return outcome

    async def _exchange(self, sending: _RequestState, permit: Permit) -> dict[str, Any] | FailedAttempt:
        transport = await self._transport()
        is_sent = True
        try:
            with MovingTimeout(partial(self.capacity.remaining_s, permit)):
                reply = await transport.send(
                    sending.method, sending.path, sending.body, max_bytes=reply_limit(sending.path, sending.body)
                )
        except TimeoutError:
            return FailedAttempt(f"no reply within {self._share.timeout_s:g} s", kind="timeout", silent=True)
        except ConnectionFailedError as error:
            is_sent = not isinstance(error, NotConnectedError)
            return FailedAttempt(
                f"cannot connect, or the connection broke ({self._quote(str(error), transport)})",
                unreachable=True,
                silent=isinstance(error, NoConnectionError),
            )
        except SignInError as error:
            is_sent = False
            return FailedAttempt(self._quote(str(error), transport))
        finally:
            # Also after a cancellation, which cannot say whether the request was on its way.
            if sending.counted and is_sent:
                record_usage(Usage(calls=1))
            elif sending.counted and self._budget is not None:
                self._budget.take_back()
        return self._read(reply, sending.path, transport, counted=sending.counted)

    def _read(self, reply: Reply, path: str, transport: Transport, *, counted: bool) -> dict[str, Any] | FailedAttempt:
        """Return the JSON object of a reply."""
        if not 200 <= reply.status < 300:
            return self._failure_from_status(reply, transport)
        if reply.problem is not None:
            return FailedAttempt(f"the reply cannot be used: {reply.problem}", kind="unparseable")
        read = read_stream(reply.body)
        try:
            read = json.loads(reply.body) if read is None else read
        except (ValueError, RecursionError):
            text = reply.body[:_QUOTED_CHARACTERS].decode(errors="replace")
            return FailedAttempt(f"the reply is not JSON: {self._quote(text, transport)!r}", kind="unparseable")
        if not isinstance(read, dict):
            return FailedAttempt("the reply is not a JSON object", kind="unparseable")
        if (read.get("error") or read.get("detail")) and not (read.get("choices") or read.get("data")):
            # Gateways may send status 200 before the model behind them fails.
            error = ErrorBody.read(reply.body)
            reason = f"HTTP 200 with an error: {self._quote(error.text, transport)}"
            if (status := error.permanent_status) is not None:
                message = f"{self.public_url}: {reason}"
                raise RequestRefusedError(message, status=status, param=error.param, text=error.text)
            return FailedAttempt(reason, status=200, text=error.text)
        if path == EMBEDDINGS and not read.get("data"):
            return FailedAttempt(f"the reply does not contain embeddings, only {_names(read)}", kind="unparseable")
        if counted and path != EMBEDDINGS and not read.get("choices"):
            return FailedAttempt(f"the completion does not contain a message, only {_names(read)}", kind="unparseable")
        return read

    def _failure_from_status(self, reply: Reply, transport: Transport) -> FailedAttempt:
        status = reply.status
        error = ErrorBody.read(reply.body)
        reason = f"HTTP {status}: {self._quote(error.text, transport)}" if error.text else f"HTTP {status}"
        wait_s = retry_after_s(reply.headers)
        # A quota that is used up is a 429 that is not temporary.
        if status == 429 and error.code != "insufficient_quota":
            return FailedAttempt(reason, rate_limited=True, retry_after_s=wait_s)
        if status in (408, 409, 425) or status >= 500:
            failure = FailedAttempt(reason, retry_after_s=wait_s, status=status, text=error.text)
            return replace(failure, overload=status in _OVERLOADED, unreachable=status in (502, 503, 504))
        msg = f"{self.public_url}: {reason}"
        if 300 <= status < 400:
            # A redirect would send the key and the texts to a server that the user did not name.
            target = self._quote(settings.public_name(reply.headers.get("location", "").partition("?")[0]), transport)[
                :_TARGET_CHARACTERS
            ]
            msg = (
                f"{self.public_url}: HTTP {status}, a redirect to {target or 'an unnamed address'}, which is not "
                f"followed. Name the final URL with {self.how_to_set('url')}"
            )
        if status == 401 and not (self._api_key or "@" in urlsplit(self.base_url).netloc):
            msg += f". No key was given. Set {self.how_to_set('api_key')}"
        raise RequestRefusedError(msg, status=status, param=error.param, text=error.text) from None

    def _quote(self, text: str, transport: Transport) -> str:
        """Return the beginning of a text on one line and without secrets, because servers and proxies may repeat the key."""
        text = " ".join(text.split())
        for secret in (*self._secrets, *transport.secrets):
            text = text.replace(secret, "[api key]")
        return text[:_QUOTED_CHARACTERS]

    async def _transport(self) -> Transport:
        loop = asyncio.get_running_loop()
        if (known := self._connections.get(loop)) is not None:
            return known[0]
        transport = self._connect()
        keeper = _keep_for_loop(transport)
        # Run it up to its `yield`. The event loop then closes it, and with it the client, before it closes itself.
        await anext(keeper)
        with self._connections_lock:
            for closed in [other for other in self._connections if other.is_closed()]:
                del self._connections[closed]
            self._connections[loop] = transport, keeper
        return transport

    async def aclose(self) -> None:
        """Close the client of the running event loop. Clients of other event loops close with their loops."""
        with self._connections_lock:
            connection = self._connections.pop(asyncio.get_running_loop(), None)
        if connection is not None:
            await connection[1].aclose()


async def _keep_for_loop(transport: Transport) -> AsyncGenerator[None, None]:
    """Keep a transport open as long as its event loop exists.

    Its sockets belong to the event loop in which they were opened. `asyncio.run` closes unfinished
    asynchronous generators while its loop still runs, which is the only way for a library to close them in time.
    """
    try:
        yield
    finally:
        await transport.aclose()


def _names(reply: Mapping[str, Any]) -> list[str]:
    """Return the names of the fields of a reply, for messages."""
    return [name[:_TARGET_CHARACTERS] for name in sorted(reply)[:_MAX_NAMES]]
