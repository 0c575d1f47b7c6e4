"""A fake OpenAI-compatible server on a loopback port: deterministic verdicts, and faults on demand."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import math
import re
import threading
from collections import Counter
from collections.abc import Callable, Collection, Coroutine, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Final, Literal, Self

__all__ = ["FakeJudgeServer", "ServerStats"]

_MALFORMED: Final = (
    "Somewhere between 60 and 80, I would say.",
    "The response is mostly fine.",
    '{"score": NaN}',
    "4/5",
    "",
)
_REASONS: Final = {200: "OK", 400: "Bad Request", 401: "Unauthorized", 404: "Not Found", 429: "Too Many Requests"}


@dataclass(slots=True)
class ServerStats:
    """What a `FakeJudgeServer` has seen; chat requests only."""

    calls: int = 0
    """Requests that arrived, whatever became of them."""
    in_flight: int = 0
    peak_in_flight: int = 0
    replies: Counter[str] = field(default_factory=Counter)
    """By kind: "ok", "constrained", "malformed", "truncated", "hang", and HTTP statuses other than 200 ("429")."""
    requests: list[dict[str, Any]] = field(default_factory=list)
    """The bodies, in the order of arrival."""


@dataclass(slots=True)
class _Reply:
    status: int
    body: dict[str, Any]
    headers: dict[str, str] = field(default_factory=dict)


class FakeJudgeServer:
    """Serves `/v1/models` and `/v1/chat/completions` from a thread, inside a `with` block.

    A verdict depends on the first user message alone: the same question gets the same number after a fault, a retry or
    a reminder, so that a run with faults can be compared with one without. Which attempts meet a fault depends on
    `seed`, the message and how often it came: not on the order in which concurrent requests arrive.

    Args:
        latency_s: Seconds each reply takes.
        error_rate: Share of requests answered with HTTP 500.
        hang_rate: Share of requests never answered.
        malformed_rate: Share of replies that hold no single number; none of those that are constrained.
        truncated_rate: Share of replies cut short (`finish_reason` "length").
        rate_limit_rpm: Requests a minute; those beyond get HTTP 429 with `Retry-After`.
        retry_after_s: The `Retry-After` to send; None computes it, in whole seconds.
        structured: What happens to a constrained request: "obeyed", "ignored", or "refused" with HTTP 400.
        refused: Parameters that are refused with HTTP 400, as reasoning models do ("max_tokens", "temperature").
        models: Names of the models it serves.
        api_key: The key it demands; None demands none.
        reply: Makes the text of a reply from the request's body, instead of a verdict.
        seed: Draws the faults.

    Example:
        ```python
        with FakeJudgeServer(error_rate=0.05) as server:
            ragstone.evaluate("samples.jsonl", judge=server.url)
        ```
    """

    def __init__(
        self,
        *,
        latency_s: float = 0.0,
        error_rate: float = 0.0,
        hang_rate: float = 0.0,
        malformed_rate: float = 0.0,
        truncated_rate: float = 0.0,
        rate_limit_rpm: float | None = None,
        retry_after_s: float | None = None,
        structured: Literal["obeyed", "ignored", "refused"] = "obeyed",
        refused: Collection[str] = (),
        models: Sequence[str] = ("fake-judge",),
        api_key: str | None = None,
        reply: Callable[[dict[str, Any]], str] | None = None,
        seed: int = 7,
    ) -> None:
        self._latency_s = latency_s
        self._rates = (
            ("error", error_rate),
            ("hang", hang_rate),
            ("malformed", malformed_rate),
            ("truncated", truncated_rate),
        )
        self._rate_limit_rpm = rate_limit_rpm
        self._retry_after_s = retry_after_s
        self._structured = structured
        self._refused = tuple(refused)
        self._models = tuple(models)
        self._api_key = api_key
        self._reply = reply
        self._seed = seed
        self._seen: Counter[str] = Counter()
        self._tokens: tuple[float, float] | None = None
        """Requests that may pass at once, and the loop time of that count."""
        self._port = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._thread: threading.Thread | None = None
        self.stats = ServerStats()

    @property
    def url(self) -> str:
        """The base URL, for `judge=`."""
        return f"http://127.0.0.1:{self._port}/v1"

    @property
    def calls(self) -> int:
        """Chat requests that have arrived."""
        return self.stats.calls

    def __enter__(self) -> Self:
        started = threading.Event()
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._serve(started)), name="ragstone-fake-judge", daemon=True
        )
        self._thread.start()
        if not started.wait(timeout=30):
            msg = "the fake judge did not start within 30 s"
            raise RuntimeError(msg)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._loop is not None and self._stop is not None and self._thread is not None:
            self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join()

    async def _serve(self, started: threading.Event) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        connections: set[asyncio.Task[None]] = set()

        def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.ensure_future(self._connection(reader, writer))
            connections.add(task)
            task.add_done_callback(connections.discard)

        server = await asyncio.start_server(connected, "127.0.0.1", 0, backlog=1024)
        self._port = server.sockets[0].getsockname()[1]
        started.set()
        await self._stop.wait()
        server.close()
        for task in connections:
            task.cancel()
        await asyncio.gather(*connections, return_exceptions=True)
        await server.wait_closed()

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one kept-alive connection; a client that leaves ends what it asked for, as real servers do."""
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                method, path, headers = _parsed(head)
                body = await reader.readexactly(int(headers.get("content-length", "0")))
                reply = await self._unless_gone(reader, self._answer(method, path, headers, body))
                if reply is None:
                    return
                writer.write(_wire(reply))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError, asyncio.CancelledError):
                await writer.wait_closed()

    async def _unless_gone(
        self, reader: asyncio.StreamReader, answering: Coroutine[None, None, _Reply]
    ) -> _Reply | None:
        answer = asyncio.ensure_future(answering)
        try:
            while not answer.done():
                await asyncio.wait({answer}, timeout=0.05)
                if reader.at_eof():
                    return None
            return answer.result()
        finally:
            answer.cancel()

    async def _answer(self, method: str, path: str, headers: dict[str, str], body: bytes) -> _Reply:
        if self._api_key is not None and headers.get("authorization") != f"Bearer {self._api_key}":
            return _error(401, f"wrong key: {headers.get('authorization', 'none')}")
        if (method, path) == ("GET", "/v1/models"):
            return _Reply(200, {"object": "list", "data": [{"id": name, "object": "model"} for name in self._models]})
        if (method, path) == ("POST", "/v1/chat/completions"):
            return await self._chat(json.loads(body))
        return _error(404, f"there is no {method} {path}")

    async def _chat(self, body: dict[str, Any]) -> _Reply:
        stats = self.stats
        stats.calls += 1
        stats.requests.append(body)
        stats.in_flight += 1
        stats.peak_in_flight = max(stats.peak_in_flight, stats.in_flight)
        try:
            kind, reply = await self._completion(body)
        finally:
            stats.in_flight -= 1
        stats.replies[kind if reply.status == 200 else str(reply.status)] += 1
        return reply

    async def _completion(self, body: dict[str, Any]) -> tuple[str, _Reply]:
        wait_s = self._wait_s()
        if wait_s > 0:
            seconds = math.ceil(wait_s) if self._retry_after_s is None else self._retry_after_s
            return "", _error(429, "too many requests", headers={"Retry-After": f"{seconds:g}"})
        for name in self._refused:
            if name in body:
                return "", _error(400, f"Unsupported parameter: {name!r} is not supported.", param=name)
        question = next(message["content"] for message in body["messages"] if message["role"] == "user")
        constraint = "structured_outputs" if "structured_outputs" in body else "response_format"
        constrained = constraint in body and self._structured == "obeyed"
        if constraint in body and self._structured == "refused":
            return "", _error(400, f"Unrecognized request argument supplied: {constraint}", param=constraint)
        fault = self._fault(question)
        if fault == "hang":
            self.stats.replies["hang"] += 1
            await asyncio.Event().wait()
        await asyncio.sleep(self._latency_s)
        if fault == "error":
            return "", _error(500, "an injected fault")
        kind, finish = "ok", "stop"
        if constrained:
            kind, text = "constrained", self._constrained(body, question)
        elif fault == "malformed":
            kind, text = "malformed", _MALFORMED[int(self._share("malformed", question) * len(_MALFORMED))]
        elif self._reply is not None:
            text = self._reply(body)
        else:
            text = str(self._verdict(question, 0, 100))
        if fault == "truncated":
            kind, finish, text = "truncated", "length", text[: len(text) // 2]
        return kind, _Reply(200, self._completed(body, text, finish))

    def _verdict(self, question: str, low: int, high: int) -> int:
        return low + round((high - low) * self._share("verdict", question))

    def _constrained(self, body: dict[str, Any], question: str) -> str:
        if "structured_outputs" in body:
            numbers = [int(number) for number in re.findall(r"-?\d+", body["structured_outputs"]["regex"])]
            return str(self._verdict(question, min(numbers), max(numbers)))
        bounds = body["response_format"]["json_schema"]["schema"]["properties"]["score"]
        return json.dumps({"score": self._verdict(question, bounds["minimum"], bounds["maximum"])})

    def _completed(self, body: dict[str, Any], text: str, finish: str) -> dict[str, Any]:
        n_in = sum(len(message["content"]) for message in body["messages"]) // 4
        n_out = 1 + len(text) // 4
        return {
            "id": f"chatcmpl-{self.stats.calls}",
            "object": "chat.completion",
            "model": body.get("model"),
            "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": finish}],
            "usage": {"prompt_tokens": n_in, "completion_tokens": n_out, "total_tokens": n_in + n_out},
        }

    def _fault(self, question: str) -> str | None:
        """The fault this attempt meets; each attempt at one question draws anew."""
        self._seen[question] += 1
        draw = self._share("fault", question, self._seen[question])
        for kind, rate in self._rates:
            if draw < rate:
                return kind
            draw -= rate
        return None

    def _share(self, *key: object) -> float:
        digest = hashlib.sha256(repr((self._seed, *key)).encode(errors="replace")).digest()
        return int.from_bytes(digest[:8]) / 2**64

    def _wait_s(self) -> float:
        """Seconds until a request may pass; 0 when this one may, and then it has."""
        if self._rate_limit_rpm is None:
            return 0.0
        rate = self._rate_limit_rpm / 60
        burst = max(1.0, rate)
        now = asyncio.get_running_loop().time()
        tokens, then = self._tokens or (burst, now)
        tokens = min(burst, tokens + (now - then) * rate)
        passes = tokens >= 1
        self._tokens = (tokens - 1 if passes else tokens, now)
        return 0.0 if passes else (1 - tokens) / rate


def _parsed(head: bytes) -> tuple[str, str, dict[str, str]]:
    request, *lines = head.decode("latin-1").split("\r\n")
    method, path, _ = request.split(" ", 2)
    pairs = (re.split(r":\s*", line, maxsplit=1) for line in lines if line)
    return method, path, {name.lower(): value for name, value in pairs}


def _wire(reply: _Reply) -> bytes:
    payload = json.dumps(reply.body).encode()
    headers = {"Content-Type": "application/json", "Content-Length": str(len(payload)), **reply.headers}
    lines = [f"HTTP/1.1 {reply.status} {_REASONS.get(reply.status, 'Error')}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + payload


def _error(status: int, message: str, *, param: str | None = None, headers: dict[str, str] | None = None) -> _Reply:
    error = {"message": message, "type": "fake_error", "param": param, "code": None}
    return _Reply(status, {"error": error}, headers or {})
