"""The part that all fake servers share: a thread, HTTP on a loopback port, faults on demand, and a record of it all."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import math
import re
import threading
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Final, Self, TypedDict, Unpack

__all__ = ["Faults", "LoopbackServer", "Plan", "Reply", "Request", "ServerStats", "error_reply", "parsed_head"]

_REASONS: Final = {200: "OK", 400: "Bad Request", 401: "Unauthorized", 404: "Not Found", 429: "Too Many Requests"}


@dataclass(slots=True)
class ServerStats:
    """What a fake server has seen; requests that make the model work only."""

    calls: int = 0
    """Requests that arrived, whatever became of them."""
    in_flight: int = 0
    peak_in_flight: int = 0
    replies: Counter[str] = field(default_factory=Counter)
    """By kind: "ok", "constrained", "malformed", "truncated", "hang", and HTTP statuses other than 200 ("429")."""
    requests: list[dict[str, Any]] = field(default_factory=list)
    """The bodies, in the order of arrival."""


class Faults(TypedDict, total=False):
    """What can go wrong on demand; the same on every fake server.

    latency_s: Seconds each reply takes. serves: Requests that are worked on at a time, the others wait. error_rate: Share of requests answered with HTTP 500. hang_rate: Share of
    requests never answered. malformed_rate: Share of replies that are no use. truncated_rate: Share of replies cut
    short. rate_limit_rpm: Requests a minute; those beyond get HTTP 429 with `Retry-After`. retry_after_s: The
    `Retry-After` to send; None computes it, in whole seconds. seed: Draws the faults.
    """

    latency_s: float
    serves: int
    error_rate: float
    hang_rate: float
    malformed_rate: float
    truncated_rate: float
    rate_limit_rpm: float | None
    retry_after_s: float | None
    seed: int


@dataclass(frozen=True, slots=True)
class Request:
    """A request as it came."""

    method: str
    path: str
    """Without the query."""
    query: str
    headers: Mapping[str, str]
    """By name in small letters."""
    content: bytes


@dataclass(slots=True)
class Reply:
    """A reply to be written as JSON, or as it stands when it is text."""

    status: int
    """0 closes the connection without a reply."""
    body: dict[str, Any] | list[Any] | str
    headers: dict[str, str] = field(default_factory=dict)


Plan = Callable[[str | None], tuple[str, Reply]]
"""Makes the reply of a request, given the fault it met ("malformed", "truncated" or None); also says of what kind it is."""


class LoopbackServer(ABC):
    """Serves from a thread, inside a `with` block.

    Which attempts meet a fault depends on `seed`, the question and how often it came: not on the order in which
    concurrent requests arrive.
    """

    def __init__(self, *, api_key: str | None, **faults: Unpack[Faults]) -> None:
        self._api_key = api_key
        self._latency_s = faults.get("latency_s", 0.0)
        self._slots = asyncio.Semaphore(faults.get("serves", 1_000_000))
        self._rates = (
            ("error", faults.get("error_rate", 0.0)),
            ("hang", faults.get("hang_rate", 0.0)),
            ("malformed", faults.get("malformed_rate", 0.0)),
            ("truncated", faults.get("truncated_rate", 0.0)),
        )
        self._rate_limit_rpm = faults.get("rate_limit_rpm")
        self._retry_after_s = faults.get("retry_after_s")
        self._seed = faults.get("seed", 7)
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
        """The base URL, for `judge=` and `reader=`."""
        return f"http://127.0.0.1:{self._port}/v1"

    @property
    def calls(self) -> int:
        """Requests for the model that have arrived."""
        return self.stats.calls

    def recover(self) -> None:
        """Answer from now on without faults."""
        self._rates = ()

    @abstractmethod
    async def _answer(self, request: Request) -> Reply:
        """Reply to an authorized request."""

    def _authorised(self, headers: Mapping[str, str]) -> bool:
        return self._api_key is None or headers.get("authorization") == f"Bearer {self._api_key}"

    async def _inference(self, question: str, body: dict[str, Any], plan: Callable[[], Reply | Plan]) -> Reply:
        """Count a request for the model, let it meet its fault, and reply.

        Args:
            question: What the fault depends on.
            body: The request.
            plan: Refuses the request (a `Reply`), or says how to answer it.
        """
        stats = self.stats
        stats.calls += 1
        stats.requests.append(body)
        stats.in_flight += 1
        stats.peak_in_flight = max(stats.peak_in_flight, stats.in_flight)
        try:
            kind, reply = await self._faulted(question, plan)
        finally:
            stats.in_flight -= 1
        stats.replies[kind if reply.status == 200 else str(reply.status)] += 1
        return reply

    async def _faulted(self, question: str, plan: Callable[[], Reply | Plan]) -> tuple[str, Reply]:
        wait_s = self._wait_s()
        if wait_s > 0:
            seconds = math.ceil(wait_s) if self._retry_after_s is None else self._retry_after_s
            return "", error_reply(429, "too many requests", headers={"Retry-After": f"{seconds:g}"})
        planned = plan()
        if isinstance(planned, Reply):
            return "", planned
        fault = self._fault(question)
        if fault == "hang":
            self.stats.replies["hang"] += 1
            await asyncio.Event().wait()
        async with self._slots:
            await asyncio.sleep(self._latency_s)
        if fault == "error":
            return "", error_reply(500, "an injected fault")
        return planned(fault)

    def _fault(self, question: str) -> str | None:
        """The fault this attempt meets; each attempt at one question draws again."""
        self._seen[question] += 1
        draw = self._share("fault", question, self._seen[question])
        for kind, rate in self._rates:
            if draw < rate:
                return kind
            draw -= rate
        return None

    def _share(self, *key: object) -> float:
        """A number in [0, 1) that depends on the seed and the key alone."""
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

    def __enter__(self) -> Self:
        started = threading.Event()
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._serve(started)), name="ragstone-fake-server", daemon=True
        )
        self._thread.start()
        if not started.wait(timeout=30):
            raise RuntimeError("the fake server did not start within 30 s")
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

        def connected(reader: _ClientReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.ensure_future(self._connection(reader, writer))
            connections.add(task)
            # Not left to the coroutine: canceled before its first step, it never comes to its `finally`.
            task.add_done_callback(lambda _: writer.transport.abort())
            task.add_done_callback(connections.discard)

        def protocol() -> asyncio.Protocol:
            return asyncio.StreamReaderProtocol(_ClientReader(), connected)

        # The second start of a server has the port of the first one.
        server = await self._loop.create_server(protocol, "127.0.0.1", self._port, backlog=1024)
        self._port = server.sockets[0].getsockname()[1]
        started.set()
        await self._stop.wait()
        # No more come in. The server itself closes last: asyncio leaks the connections it is just accepting when it does.
        self._loop.remove_reader(server.sockets[0].fileno())
        while tasks := asyncio.all_tasks() - {asyncio.current_task()}:
            for task in connections:
                task.cancel()
            await asyncio.wait(tasks)
            await asyncio.sleep(0)
        server.close()
        await server.wait_closed()

    async def _connection(self, reader: _ClientReader, writer: asyncio.StreamWriter) -> None:
        """Serve one kept-alive connection; a client that leaves ends what it asked for, as real servers do."""
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                method, target, headers = parsed_head(head)
                content = await reader.readexactly(int(headers.get("content-length", "0")))
                path, _, query = target.partition("?")
                request = Request(method, path, query, headers, content)
                reply = await self._unless_gone(reader, self._checked(request))
                if reply is None or reply.status == 0:
                    return
                writer.write(_wire(reply))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError, asyncio.CancelledError):
                await writer.wait_closed()

    async def _checked(self, request: Request) -> Reply:
        if not self._authorised(request.headers):
            return error_reply(401, f"wrong key: {request.headers.get('authorization', 'none')}")
        return await self._answer(request)

    async def _unless_gone(self, reader: _ClientReader, answering: Coroutine[None, None, Reply]) -> Reply | None:
        answer, gone = asyncio.ensure_future(answering), asyncio.ensure_future(reader.gone.wait())
        try:
            await asyncio.wait({answer, gone}, return_when=asyncio.FIRST_COMPLETED)
            return answer.result() if answer.done() else None
        finally:
            answer.cancel()
            gone.cancel()


class _ClientReader(asyncio.StreamReader):
    """Reads what a client sends, and notes when it has left."""

    def __init__(self) -> None:
        super().__init__()
        self.gone = asyncio.Event()

    def feed_eof(self) -> None:
        self.gone.set()
        super().feed_eof()

    def set_exception(self, error: BaseException) -> None:
        self.gone.set()
        super().set_exception(error)


def parsed_head(head: bytes) -> tuple[str, str, dict[str, str]]:
    """Return method, target and headers (names in small letters) of a request."""
    request, *lines = head.decode("latin-1").split("\r\n")
    method, target, _ = request.split(" ", 2)
    pairs = (re.split(r":\s*", line, maxsplit=1) for line in lines if line)
    return method, target, {name.lower(): value for name, value in pairs}


def _wire(reply: Reply) -> bytes:
    text = isinstance(reply.body, str)
    payload = (reply.body if isinstance(reply.body, str) else json.dumps(reply.body)).encode()
    headers = {
        "Content-Type": "text/plain" if text else "application/json",
        "Content-Length": str(len(payload)),
        **reply.headers,
    }
    lines = [f"HTTP/1.1 {reply.status} {_REASONS.get(reply.status, 'Error')}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + payload


def error_reply(
    status: int,
    message: str,
    *,
    param: str | None = None,
    code: str | None = None,
    headers: dict[str, str] | None = None,
) -> Reply:
    """An error in OpenAI's form."""
    error = {"message": message, "type": "fake_error", "param": param, "code": code}
    return Reply(status, {"error": error}, headers or {})
