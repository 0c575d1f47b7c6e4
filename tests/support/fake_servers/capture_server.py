"""A server on loopback that keeps what it is sent, and answers as it is told."""

from __future__ import annotations

from collections.abc import Callable

from fake_servers.loopback import LoopbackServer, Reply, Request

__all__ = ["RecordingServer"]


class RecordingServer(LoopbackServer):
    """Serves from a thread, inside a `with` block.

    Args:
        answer: Makes the reply to a request; an empty 200 by default.

    Attributes:
        requests: All that have arrived, in order.
        down: Answers 503 as long as it is true.
    """

    def __init__(self, answer: Callable[[Request], Reply] | None = None) -> None:
        super().__init__(api_key=None)
        self._reply = answer or (lambda _: Reply(200, {}))
        self.requests: list[Request] = []
        self.down = False

    @property
    def address(self) -> str:
        """The base URL, without a path."""
        return f"http://127.0.0.1:{self._port}"

    async def _answer(self, request: Request) -> Reply:
        self.requests.append(request)
        return Reply(503, "down for repairs") if self.down else self._reply(request)
