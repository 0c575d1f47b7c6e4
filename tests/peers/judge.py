"""A judge server that answers any tool: it fills the JSON Schema that a request carries, and counts requests.

`python judge.py LATENCY_S` prints its port. `GET /count` returns the counts since the last call of it.
`GET /mode/NAME` selects how it answers (`MODES`).
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import Iterator
from typing import Any, Final

from aiohttp import web

MODES: Final = ("good", "empty", "prose", "down")
"""Valid replies, valid replies with empty lists, replies that are not in the requested format, and HTTP status 500."""
ITEMS: Final = 3
"""Elements of a list whose schema does not state a length."""
STATEMENTS: Final = ("The tower is 300 m tall.", "It stands in the old town.", "It was built in 1889.")


def schemas_in(text: str) -> Iterator[dict[str, Any]]:
    """Yield the JSON Schemas of objects that a prompt contains."""
    decoder = json.JSONDecoder()
    for match in re.finditer(r'\{\s*"', text):
        try:
            found, _ = decoder.raw_decode(text, match.start())
        except ValueError:
            continue
        if isinstance(found, dict) and isinstance(found.get("properties"), dict):
            yield found


def fill(schema: dict[str, Any], root: dict[str, Any], name: str = "", index: int = 0, items: int = ITEMS) -> Any:
    """Return a value that a schema allows: each statement is supported, each passage is relevant.

    Args:
        schema: A JSON Schema.
        root: The schema that its references point into.
        name: Name of the field.
        index: Place in a list.
        items: Length of a list whose schema does not state one.
    """
    if "$ref" in schema:
        target: Any = root
        for part in schema["$ref"].removeprefix("#/").split("/"):
            target = target[part]
        return fill(target, root, name, index, items)
    for key in ("anyOf", "oneOf", "allOf"):
        if key in schema:
            options = [option for option in schema[key] if option.get("type") != "null"]
            return fill(options[0], root, name, index, items)
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return "yes" if "yes" in schema["enum"] else schema["enum"][0]
    kind = schema.get("type", "object" if "properties" in schema else "string")
    if isinstance(kind, list):
        kind = next(one for one in kind if one != "null")
    match kind:
        case "object":
            return {key: fill(value, root, key, index, items) for key, value in schema.get("properties", {}).items()}
        case "array":
            length = min(schema.get("minItems", items), schema.get("maxItems", items))
            return [fill(schema.get("items", {}), root, name, i, items) for i in range(length)]
        case "boolean":
            return "noncommittal" not in name
        case "integer" | "number":
            # A verdict is 1, a flag of a noncommittal answer 0, a rating in the range that the schema states.
            low, high = schema.get("minimum", 0), schema.get("maximum", 1)
            return low if "noncommittal" in name else high
        case _:
            return "yes" if "verdict" in name else STATEMENTS[index % len(STATEMENTS)]


class Judge:
    """Replies, latency and counts."""

    def __init__(self, latency_s: float) -> None:
        self.latency_s = latency_s
        self.mode = "good"
        self.reset()

    def reset(self) -> dict[str, int]:
        """Return the counts, and start again at zero."""
        counts = getattr(self, "counts", {})
        self.counts = {"requests": 0, "embeddings": 0, "prompt": 0, "reply": 0, "peak": 0}
        self.in_flight = 0
        return counts

    def reply(self, body: dict[str, Any], prompt: str) -> tuple[str, list[dict[str, Any]] | None]:
        """Return the text of the reply, and its tool calls if the request asks for one."""
        if self.mode == "prose":
            return "I would rather not rate this text.", None
        items = 0 if self.mode == "empty" else ITEMS
        if tools := body.get("tools"):
            function = tools[0]["function"]
            arguments = json.dumps(fill(function["parameters"], function["parameters"], items=items))
            call = {"id": "c", "type": "function", "function": {"name": function["name"], "arguments": arguments}}
            return "", [call]
        wanted = (body.get("response_format") or {}).get("json_schema", {}).get("schema")
        schema = wanted or next(schemas_in(prompt), None)
        if schema:
            return json.dumps(fill(schema, schema, items=items)), None
        scale = re.search(r"from \d+ to (\d+)", prompt)
        return (scale[1] if scale else "yes"), None

    async def chat(self, request: web.Request) -> web.Response:
        """`POST /v1/chat/completions`."""
        body = await request.json()
        prompt = "\n".join(
            part if isinstance(part := message.get("content") or "", str) else json.dumps(part)
            for message in body["messages"]
        )
        self.in_flight += 1
        self.counts["requests"] += 1
        self.counts["prompt"] += len(prompt)
        self.counts["peak"] = max(self.counts["peak"], self.in_flight)
        try:
            await asyncio.sleep(self.latency_s)
        finally:
            self.in_flight -= 1
        if self.mode == "down":
            return web.json_response({"error": {"message": "the model crashed"}}, status=500)
        text, calls = self.reply(body, prompt)
        self.counts["reply"] += len(text) + (len(calls[0]["function"]["arguments"]) if calls else 0)
        message = {"role": "assistant", "content": None if calls else text, **({"tool_calls": calls} if calls else {})}
        choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}
        usage = {"prompt_tokens": len(prompt) // 4, "completion_tokens": len(text) // 4 + 1}
        usage["total_tokens"] = sum(usage.values())
        choices = [{**choice, "index": i} for i in range(body.get("n") or 1)]
        return web.json_response(
            {
                "id": "x",
                "object": "chat.completion",
                "created": 0,
                "model": body["model"],
                "choices": choices,
                "usage": usage,
            }
        )

    async def embed(self, request: web.Request) -> web.Response:
        """`POST /v1/embeddings`: equal vectors."""
        texts = (await request.json())["input"]
        self.counts["embeddings"] += 1
        if self.mode == "down":
            return web.json_response({"error": {"message": "the model crashed"}}, status=500)
        await asyncio.sleep(self.latency_s)
        rows = [{"object": "embedding", "index": i, "embedding": [1.0, 0.5, 0.25]} for i in range(len(texts))]
        usage = {"prompt_tokens": 1, "total_tokens": 1}
        return web.json_response({"object": "list", "data": rows, "model": "embedder", "usage": usage})

    async def models(self, _: web.Request) -> web.Response:
        """`GET /v1/models`."""
        return web.json_response({"object": "list", "data": [{"id": "gpt-4o-mini", "object": "model"}]})

    async def count(self, _: web.Request) -> web.Response:
        """`GET /count`."""
        return web.json_response(self.reset())

    async def select(self, request: web.Request) -> web.Response:
        """`GET /mode/NAME`."""
        self.mode = request.match_info["name"]
        return web.json_response(MODES.index(self.mode))


async def main(latency_s: float) -> None:
    """Serve on a free port of the loopback interface until standard input ends."""
    judge = Judge(latency_s)
    app = web.Application(client_max_size=2**26)
    app.router.add_post("/v1/chat/completions", judge.chat)
    app.router.add_post("/v1/embeddings", judge.embed)
    app.router.add_get("/v1/models", judge.models)
    app.router.add_get("/count", judge.count)
    app.router.add_get("/mode/{name}", judge.select)
    # What tracing clients send: accepted, and discarded.
    app.router.add_route("*", "/{path:.*}", lambda _: _accept())
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    print(site._server.sockets[0].getsockname()[1], flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    await runner.cleanup()


async def _accept() -> web.Response:
    return web.json_response({"successes": [], "errors": []}, status=200)


if __name__ == "__main__":
    asyncio.run(main(float(sys.argv[1])))
