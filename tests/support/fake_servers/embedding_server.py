"""A fake embedding model on a loopback port: deterministic vectors, and faults on demand."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Sequence
from typing import Any, Unpack

from fake_servers.loopback import Faults, LoopbackServer, Plan, Reply, Request, error_reply

__all__ = ["FakeEmbeddingServer", "fake_vector"]


def fake_vector(text: str, dimension: int) -> list[float]:
    """Counts of the text's letters, so that texts with the same letters point in the same direction."""
    vector = [0.0] * dimension
    for letter in re.findall(r"\w", text.lower()):
        vector[ord(letter) % dimension] += 1.0
    return vector


class FakeEmbeddingServer(LoopbackServer):
    """Serves `/v1/models` and `/v1/embeddings` from a thread, inside a `with` block.

    Args:
        dimension: Length of the vectors. A request may ask for another one (`dimensions`).
        models: Names of the models it serves.
        reply: Changes the list of vectors, or replaces the whole reply.
        redirect: Address to which every POST is redirected.
        api_key: The key it demands; None demands none.
        faults: As for `FakeJudgeServer`.

    Example:
        ```python
        with FakeEmbeddingServer() as server:
            embedder = embedder_from(server.url)
        ```
    """

    def __init__(
        self,
        *,
        dimension: int = 32,
        models: Sequence[str] = ("fake-embedder",),
        reply: Callable[[list[dict[str, Any]]], Any] | None = None,
        redirect: str | None = None,
        api_key: str | None = None,
        **faults: Unpack[Faults],
    ) -> None:
        super().__init__(api_key=api_key, **faults)
        self._dimension = dimension
        self._models = tuple(models)
        self._reply = reply
        self._redirect = redirect

    async def _answer(self, request: Request) -> Reply:
        match request.method, request.path:
            case "GET", "/v1/models":
                return Reply(200, {"object": "list", "data": [{"id": name} for name in self._models]})
            case "POST", _ if self._redirect is not None:
                self.stats.calls += 1
                return Reply(307, {}, {"Location": self._redirect})
            case "POST", "/v1/embeddings":
                body = json.loads(request.content)
                return await self._inference(json.dumps(body["input"]), body, lambda: self._plan(body))
        return error_reply(404, f"there is no {request.method} {request.path}")

    def _plan(self, body: dict[str, Any]) -> Plan:
        def answer(_: str | None) -> tuple[str, Reply]:
            dimension = body.get("dimensions", self._dimension)
            data: Any = [
                {"object": "embedding", "index": index, "embedding": fake_vector(text, dimension)}
                for index, text in enumerate(body["input"])
            ]
            if self._reply is not None:
                data = self._reply(data)
            n_tokens = sum(math.ceil(len(text) / 4) for text in body["input"])
            usage = {"prompt_tokens": n_tokens, "total_tokens": n_tokens}
            return "ok", Reply(200, data if isinstance(data, dict) else {"data": data, "usage": usage})

        return answer
