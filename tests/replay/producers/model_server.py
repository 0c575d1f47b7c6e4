"""A chat model on the loopback interface whose replies follow from the conversation, for the recorded applications.

Only the standard library is used, so that it runs in the environment of any producer.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

ANSWERS = {
    "How high is the north tower?": "The north tower is 41 metres high.",
    "How many steps lead to the gallery?": "There are 196 steps to the gallery.",
    "When was the lamp replaced?": "The lamp was replaced in the spring of 1987.",
}
FAILING = "When does the model fail?"
SEARCH = "search_shelf"
_FIELD = re.compile(r"\[\[ ## (\w+) ## \]\]")


@contextmanager
def serving() -> Iterator[str]:
    """Serve at a free port and yield the base URL."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        messages = body.get("messages") or _of_responses(body)
        if any(FAILING in _text(message) for message in messages):
            self._send(400, {"error": {"message": "the lamp is out", "type": "invalid_request_error", "code": None}})
            return
        message = _reply(messages, body.get("tools") or [])
        if self.path.endswith("/responses"):
            self._send(200, _as_response(message, body))
        elif body.get("stream"):
            self._stream(message, body)
        else:
            self._send(200, _as_completion(message, body))

    def _send(self, status: int, value: dict[str, Any]) -> None:
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _stream(self, message: dict[str, Any], body: dict[str, Any]) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        for chunk in _chunks(message, body):
            self.wfile.write(f"data: {json.dumps(chunk)}\n\n".encode())
        self.wfile.write(b"data: [DONE]\n\n")
        self.close_connection = True

    def log_message(self, *args: object) -> None:
        """Write nothing."""


def _of_responses(body: dict[str, Any]) -> list[dict[str, Any]]:
    given = body.get("input")
    if isinstance(given, str):
        return [{"role": "user", "content": given}]
    return [
        {"role": "tool", "content": item.get("output")} if item.get("type") == "function_call_output" else item
        for item in given or []
    ]


def _text(message: dict[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, list):
        return "".join(str(part.get("text", "")) for part in content)
    return str(content or "")


def _reply(messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> dict[str, Any]:
    said = "\n".join(_text(message) for message in messages)
    question = max(ANSWERS, key=said.rfind)
    answer = ANSWERS[question] if question in said else "I do not know."
    named = {(tool.get("function") or tool).get("name"): tool.get("function") or tool for tool in tools}
    last = _text(messages[-1])
    searched = "Observation:" in last or any(message.get("role") == "tool" for message in messages)
    if SEARCH in named and not searched:
        return _call(SEARCH, named[SEARCH], question)
    if "final_answer" in named:
        return _call("final_answer", named["final_answer"], answer)
    if "<code>" in said:
        code = f'final_answer("{answer}")' if "Observation:" in last else f'print({SEARCH}("{question}"))'
        return {"role": "assistant", "content": f"Thought: the shelf knows it.\n<code>\n{code}\n</code>"}
    fields = _FIELD.findall(last.rpartition("Respond with")[2])
    if fields:
        values = {"reasoning": "The passages say it.", "next_thought": "The shelf knows it."}
        tool = "finish" if f"tool_name_0 ## ]]\n{SEARCH}" in said else SEARCH
        values |= {"next_tool_name": tool, "next_tool_args": json.dumps({"query": question} if tool == SEARCH else {})}
        body = "\n\n".join(f"[[ ## {name} ## ]]\n{values.get(name, answer)}" for name in fields if name != "completed")
        return {"role": "assistant", "content": f"{body}\n\n[[ ## completed ## ]]"}
    return {"role": "assistant", "content": answer}


def _call(name: str, function: dict[str, Any], value: str) -> dict[str, Any]:
    schema = function.get("parameters") or {}
    argument = next(iter(schema.get("required") or schema.get("properties") or ["query"]))
    call = {"name": name, "arguments": json.dumps({argument: value})}
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": f"call_{name}", "type": "function", "function": call}],
    }


_USAGE = {"prompt_tokens": 40, "completion_tokens": 9, "total_tokens": 49}


def _as_completion(message: dict[str, Any], body: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1760000000,
        "model": body.get("model"),
        "choices": [
            {"index": 0, "message": message, "finish_reason": "tool_calls" if message.get("tool_calls") else "stop"}
        ],
        "usage": _USAGE,
    }


def _chunks(message: dict[str, Any], body: dict[str, Any]) -> Iterator[dict[str, Any]]:
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1760000000, "model": body.get("model")}
    calls = [dict(call, index=0) for call in message.get("tool_calls") or []]
    words = re.findall(r"\S+\s*", message.get("content") or "")
    deltas = [{"role": "assistant", "tool_calls": calls}] if calls else [{"role": "assistant", "content": ""}]
    deltas += [{"content": word} for word in words]
    for delta in deltas:
        yield {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    yield {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls" if calls else "stop"}]}
    yield {**head, "choices": [], "usage": _USAGE}


def _as_response(message: dict[str, Any], body: dict[str, Any]) -> dict[str, Any]:
    output: list[dict[str, Any]] = [
        {"type": "function_call", "id": "fc_1", "call_id": call["id"], "status": "completed", **call["function"]}
        for call in message.get("tool_calls") or []
    ]
    if message.get("content"):
        text = {"type": "output_text", "text": message["content"], "annotations": []}
        output.append({"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [text]})
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1760000000,
        "status": "completed",
        "model": body.get("model"),
        "output": output,
        "parallel_tool_calls": False,
        "tool_choice": "auto",
        "tools": [],
        "usage": {
            "input_tokens": 40,
            "output_tokens": 9,
            "total_tokens": 49,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens_details": {"reasoning_tokens": 0},
        },
    }
