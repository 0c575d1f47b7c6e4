"""A fake judge on a loopback port: deterministic verdicts, and faults on demand."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Sequence
from typing import Any, Final, Literal, Unpack

from fake_servers.grammar import allowed_texts
from fake_servers.loopback import Faults, LoopbackServer, Plan, Reply, Request, ServerStats, error_reply
from ragstone.testing._json_values import schema_value

__all__ = ["FakeJudgeServer", "ServerStats"]

_MALFORMED: Final = (
    "Somewhere between 60 and 80, I would say.",
    "The response is mostly fine.",
    '{"score": NaN}',
    "4/5",
    "",
)

_SCHEMA: Final = re.compile(r"JSON Schema:\n(\{.*)")
"""Where a question says which shape the reply must have."""
_MARKS: Final = re.compile(r'with the keys "1" to "(\d+)" and an integer from (-?\d+) to (-?\d+) for each')
"""Where it asks for one integer for each key."""
_TRIAL: Final = "Reply with the word yes."
"""What a judge asks before the first sample, to learn what the server refuses."""
_SCALE: Final = re.compile(r"one number from (-?\d+) to (-?\d+) and nothing else")
"""Where it says on which scale."""


class FakeJudgeServer(LoopbackServer):
    """Serves `/v1/models` and `/v1/chat/completions` from a thread, inside a `with` block.

    A verdict depends on the first user message alone (on a value of a shape, up to the shape): the same question gets the
    same reply after a fault, a retry or a reminder, so that a run with faults can be compared with one without. Which attempts meet a fault depends on
    `seed`, the message and how often it came: not on the order in which concurrent requests arrive.

    Args:
        structured: What happens to a constrained request: "obeyed", "ignored", or "refused" with HTTP 400.
        refused: Parameters that are refused with HTTP 400, as reasoning models do ("max_tokens", "temperature").
        models: Names of the models it serves.
        api_key: The key it demands; None demands none.
        reply: Makes the text of a reply from the request's body, instead of a verdict.
        count_tokens: Counts the tokens of a text. By default one for each four characters.
        cuts_at: Tokens to which a prompt is cut without an error, as Ollama does (`num_ctx`). The verdict is then that of
            its last characters.
        faults: `latency_s`: seconds each reply takes. `error_rate`: share of requests answered with HTTP 500.
            `hang_rate`: share of requests never answered. `malformed_rate`: share of replies that hold no single
            number; none of those that are constrained. `truncated_rate`: share of replies cut short (`finish_reason`
            "length"). `rate_limit_rpm`: requests a minute; those beyond get HTTP 429 with `Retry-After`.
            `retry_after_s`: the `Retry-After` to send; None computes it, in whole seconds. `seed`: draws the faults.

    Example:
        ```python
        with FakeJudgeServer(error_rate=0.05) as server:
            ragstone.evaluate("samples.jsonl", judge=server.url)
        ```
    """

    def __init__(
        self,
        *,
        structured: Literal["obeyed", "ignored", "refused"] = "obeyed",
        refused: Collection[str] = (),
        models: Sequence[str] = ("fake-judge",),
        api_key: str | None = None,
        reply: Callable[[dict[str, Any]], str] | None = None,
        count_tokens: Callable[[str], int] = lambda text: len(text) // 4,
        cuts_at: int | None = None,
        **faults: Unpack[Faults],
    ) -> None:
        super().__init__(api_key=api_key, **faults)
        self._structured = structured
        self._refused = tuple(refused)
        self._models = tuple(models)
        self._reply = reply
        self._count_tokens = count_tokens
        self._cuts_at = cuts_at

    async def _answer(self, request: Request) -> Reply:
        match request.method, request.path:
            case "GET", "/v1/models":
                listing = [{"id": name, "object": "model"} for name in self._models]
                return Reply(200, {"object": "list", "data": listing})
            case "POST", "/v1/chat/completions":
                body = json.loads(request.content)
                if self._cuts_at is not None:
                    self._cut(body)
                question = next(message["content"] for message in body["messages"] if message["role"] == "user")
                return await self._inference(question, body, lambda: self._plan(question, body))
        return error_reply(404, f"there is no {request.method} {request.path}")

    def _cut(self, body: dict[str, Any]) -> None:
        messages = body["messages"]
        n_over = sum(self._count_tokens(message["content"]) for message in messages) - (self._cuts_at or 0)
        if n_over > 0:
            text = messages[-1]["content"]
            messages[-1]["content"] = text[len(text) * n_over // max(1, self._count_tokens(text)) :]
            body["prompt_tokens"] = self._cuts_at

    def _plan(self, question: str, body: dict[str, Any]) -> Reply | Plan:
        for name in self._refused:
            if name in body:
                return error_reply(400, f"Unsupported parameter: {name!r} is not supported.", param=name)
        constraint = "structured_outputs" if "structured_outputs" in body else "response_format"
        constrained = constraint in body and self._structured == "obeyed"
        if constraint in body and self._structured == "refused":
            return error_reply(400, f"Unrecognized request argument supplied: {constraint}", param=constraint)

        def answer(fault: str | None) -> tuple[str, Reply]:
            kind, finish = "ok", "stop"
            if constrained:
                kind, text = "constrained", self._constrained(body, question)
            elif fault == "malformed":
                kind, text = "malformed", _MALFORMED[int(self._share("malformed", question) * len(_MALFORMED))]
            elif question.endswith(_TRIAL):
                text = "yes"
            elif self._reply is not None:
                text = self._reply(body)
            elif (asked := _asked_shape(question)) is not None:
                # Up to the schema: a reminder follows it, in the same message.
                schema, end = asked
                text = self._value(schema, question[:end])
            else:
                # Up to the scale: a reminder follows it.
                scale = _SCALE.search(question)
                low, high, end = (int(scale[1]), int(scale[2]), scale.end() + 1) if scale else (0, 100, None)
                text = str(self._verdict(question[:end], low, high))
            if fault == "truncated":
                kind, finish, text = "truncated", "length", text[: len(text) // 2]
            return kind, Reply(200, self._completed(body, text, finish))

        return answer

    def _verdict(self, question: str, low: int, high: int) -> int:
        return low + round((high - low) * self._share("verdict", question))

    def _constrained(self, body: dict[str, Any], question: str) -> str:
        if "structured_outputs" in body:
            texts = allowed_texts(body["structured_outputs"])
            numbers = [int(text) for text in texts if re.fullmatch(r"-?\d+", text)]
            return str(self._verdict(question, min(numbers), max(numbers))) if numbers else texts[0]
        form = body["response_format"]
        schema = form.get("json_schema", form)["schema"]
        bounds = schema["properties"].get("score")
        if bounds is None:
            asked = _asked_shape(question)
            return self._value(schema, question if asked is None else question[: asked[1]])
        scale = _SCALE.search(question)
        low, high = (int(scale[1]), int(scale[2])) if scale else (0, 100)
        return json.dumps({"score": self._verdict(question, bounds.get("minimum", low), bounds.get("maximum", high))})

    def _value(self, schema: dict[str, Any], question: str) -> str:
        return json.dumps(schema_value(schema, lambda path: self._share("value", question, path)))

    def _completed(self, body: dict[str, Any], text: str, finish: str) -> dict[str, Any]:
        n_in = sum(self._count_tokens(message["content"]) for message in body["messages"])
        n_in = body.get("prompt_tokens", n_in)
        n_out = 1 + len(text) // 4
        return {
            "id": f"chatcmpl-{self.stats.calls}",
            "object": "chat.completion",
            "model": body.get("model"),
            "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": finish}],
            "usage": {"prompt_tokens": n_in, "completion_tokens": n_out, "total_tokens": n_in + n_out},
        }


def _asked_shape(question: str) -> tuple[dict[str, Any], int] | None:
    """The schema that a question asks for and where it ends, or None if it asks for none."""
    if found := _SCHEMA.search(question):
        return json.loads(found[1]), found.end()
    if found := _MARKS.search(question):
        count, low, high = map(int, found.groups())
        names = [str(number) for number in range(1, count + 1)]
        mark = {"maximum": high, "minimum": low, "type": "integer"}
        return {"type": "object", "properties": dict.fromkeys(names, mark), "required": names}, found.end()
    return None
