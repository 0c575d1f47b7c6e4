"""A scripted model behind HTTP, in the manner of one kind of server or another."""

from __future__ import annotations

import hashlib
import json
import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, Unpack

from fake_servers.dialects import DIALECTS, DialectName, ServerDialect
from fake_servers.generation import Mask, SampledReply, draw
from fake_servers.grammar import allowed_texts
from fake_servers.loopback import Faults, LoopbackServer, Plan, Reply, Request, error_reply
from fake_servers.wire import ChoiceWriter, asks_logprobs
from scripted_model import ScriptedModel

__all__ = ["FakeModelServer"]

_BLOCK: Final = 16
_SAMPLING: Final = ("temperature", "top_p", "top_k", "min_p")
# fmt: off
_KNOWN: Final = frozenset({
    "model", "messages", "prompt", "n", "max_tokens", "max_completion_tokens",
    "temperature", "top_p", "presence_penalty", "frequency_penalty", "logit_bias", "seed",
    "stop", "logprobs", "top_logprobs", "response_format", "user", "stream",
    "stream_options", "tools", "tool_choice", "reasoning_effort", "echo", "suffix",
    "best_of", "store", "metadata", "service_tier",
})
# fmt: on
"""The fields of OpenAI's own requests."""


class _RefusedError(Exception):
    """The request is refused, with this reply."""

    def __init__(self, status: int, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.reply = error_reply(status, message, param=param)


class FakeModelServer(LoopbackServer):
    """Serves a `ScriptedModel` over HTTP, inside a `with` block, as servers of one dialect do.

    Replies have the script's probabilities, on every route. Without `seed` in a request, a draw depends on the server's
    seed, the question and how often it came; not on the order in which concurrent requests arrive.

    Args:
        model: What replies.
        dialect: A kind of server, or a `ServerDialect` of your own.
        changes: Fields of `ServerDialect` to have another value (`{"cached_tokens": False}`).
        name: Of the served model, and of the deployment.
        api_key: The key it demands; None demands none.
        faults: As for `FakeJudgeServer`. A malformed reply has no choices; a truncated one ends in the middle.

    Example:
        ```python
        with FakeModelServer(ScriptedModel({"NO-RESPONSE": 0.25, "Oslo": 0.75}), "sglang") as server:
            reader = reader_from(server.url, judge=judge)
        ```
    """

    def __init__(
        self,
        model: ScriptedModel,
        dialect: DialectName | ServerDialect = "vllm",
        *,
        changes: Mapping[str, Any] | None = None,
        name: str = "scripted-model",
        api_key: str | None = None,
        **faults: Unpack[Faults],
    ) -> None:
        super().__init__(api_key=api_key, **faults)
        self.model = model
        self.dialect = replace(dialect if isinstance(dialect, ServerDialect) else DIALECTS[dialect], **(changes or {}))
        self._name = name
        self._writer = ChoiceWriter(model, self.dialect)
        self._base = self.dialect.base_path.format(name=name)
        self._drawn: Counter[str] = Counter()
        self._blocks: set[bytes] = set()
        self._hits = self._queries = 0
        self._down = False

    @property
    def url(self) -> str:
        """The base URL, for `judge=` and `reader=`."""
        query = f"?{self.dialect.base_query}" if self.dialect.base_query else ""
        return f"http://127.0.0.1:{self._port}{self._base}{query}"

    def _authorised(self, headers: Mapping[str, str]) -> bool:
        if self._api_key is None or self.dialect.key_header == "authorization":
            return super()._authorised(headers)
        return headers.get(self.dialect.key_header) == self._api_key

    async def _answer(self, request: Request) -> Reply:
        spoken = self.dialect
        if request.query != spoken.base_query and request.path.startswith(self._base):
            return error_reply(404, "Resource not found", code="404")
        if request.method == "GET":
            return self._told(request.path)
        body = json.loads(request.content or b"{}")
        if request.path == "/tokenize" and spoken.tokenize is not None:
            return self._tokenized(body)
        if request.path == f"{self._base}/chat/completions":
            return await self._inference(_key(body, "messages"), body, lambda: self._plan(body, chat=True))
        if request.path == f"{self._base}/completions" and spoken.completions is not None:
            return await self._inference(_key(body, "prompt"), body, lambda: self._plan(body, chat=False))
        return error_reply(404, "Not Found")

    def _told(self, path: str) -> Reply:
        spoken = self.dialect
        if path == f"{self._base}/models" and spoken.lists_models:
            card: dict[str, Any] = {"id": self._name, "object": "model", "owned_by": spoken.owner}
            if spoken.tells_context_length:
                card["max_model_len"] = spoken.context_length
            return Reply(200, {"object": "list", "data": [card]})
        if path in spoken.facts:
            return Reply(200, dict(spoken.facts[path]))
        if path == "/metrics" and spoken.metrics:
            counts = (("hits", self._hits), ("queries", self._queries))
            return Reply(
                200,
                "".join(
                    f'vllm:prefix_cache_{what}_total{{model_name="{self._name}"}} {count:.1f}\n'
                    for what, count in counts
                ),
            )
        return error_reply(404, "Not Found")

    def _tokenized(self, body: dict[str, Any]) -> Reply:
        spoken = self.dialect
        if spoken.tokenize == "content":
            return Reply(200, {"tokens": self.model.tokens_of(str(body.get("content", "")))})
        try:
            if "prompt" in body:
                ids = self.model.tokens_of(str(body["prompt"]))
            elif "messages" in body and spoken.tokenize == "chat":
                ids = self._chat_ids(body)
            else:
                return error_reply(400, "'prompt': field required")
        except _RefusedError as refused:
            return refused.reply
        return Reply(200, {"count": len(ids), "max_model_len": spoken.context_length, "tokens": ids})

    def _chat_ids(self, body: Mapping[str, Any]) -> list[int]:
        messages = body["messages"]
        continued = bool(body.get("continue_final_message")) and self.dialect.prefill
        opened = bool(body.get("add_generation_prompt", True))
        if continued and opened:
            raise _RefusedError(400, "Cannot set both `continue_final_message` and `add_generation_prompt` to True.")
        if not self.dialect.prefill:
            opened = True
        ids = self.model.turns(messages, reply=opened, open_end=continued)
        if continued and not self.dialect.boundary_clean:
            # Templates that trim or wrap what the assistant has said so far.
            start = self.model.reply_start(ids) or 0
            ids[start:start] = self.model.tokens_of("\n")
        return ids

    def _plan(self, body: dict[str, Any], *, chat: bool) -> Reply | Plan:
        spoken = self.dialect
        try:
            self._refuse_fields(body)
            prompts = [self._chat_ids(body)] if chat else self._prompts(body)
            # Of a whole prompt, the last tokens remain.
            prompts = [ids if spoken.cuts_at is None else ids[-spoken.cuts_at :] for ids in prompts]
            max_tokens = self._max_tokens(body, prompts, chat=chat)
            mask = self._mask(body)
        except _RefusedError as refused:
            return refused.reply

        def answer(fault: str | None) -> tuple[str, Reply]:
            choices: list[dict[str, Any]] = []
            written, cached = 0, sum(self._cached(ids) for ids in prompts) if "prompt_logprobs" not in body else 0
            for ids in prompts:
                for drawn in self._draws(body, ids, max_tokens, mask):
                    cut = fault == "truncated" and len(drawn.steps) > 1
                    reply = SampledReply(drawn.steps[: len(drawn.steps) // 2], finished=False) if cut else drawn
                    written += len(reply.steps)
                    write = self._writer.chat if chat else self._writer.text
                    choices.append({"index": len(choices), **write(body, ids, reply)})
            kind = fault or ("ok" if mask is None else "constrained")
            whole = self._whole(body, prompts, [] if fault == "malformed" else choices, written, cached, chat=chat)
            return kind, Reply(200, whole)

        return answer

    def _refuse_fields(self, body: Mapping[str, Any]) -> None:
        spoken = self.dialect
        self._down = self._down and spoken.stays_down
        if self._down or spoken.crashes_on & body.keys():
            self._down = True
            raise _RefusedError(500, "EngineCore encountered an issue.")
        if body.get("model", self._name) != self._name:
            raise _RefusedError(404, f"The model `{body['model']}` does not exist.", "model")
        if spoken.unknown == "refused" and (unknown := next((name for name in body if name not in _KNOWN), None)):
            raise _RefusedError(400, f"Unrecognized request argument supplied: {unknown}")
        if spoken.max_tokens_name not in ("both", "max_tokens") and "max_tokens" in body:
            raise _RefusedError(
                400,
                (
                    "Unsupported parameter: 'max_tokens' is not supported with this model. "
                    f"Use '{spoken.max_tokens_name}' instead."
                ),
                "max_tokens",
            )
        if spoken.fixed_temperature and body.get("temperature", 1) != 1:
            raise _RefusedError(
                400,
                (
                    f"Unsupported value: 'temperature' does not support {body['temperature']} with this model. "
                    "Only the default (1) value is supported."
                ),
                "temperature",
            )
        asked = asks_logprobs(body)
        if asked and spoken.logprobs == "refused":
            raise _RefusedError(*spoken.logprobs_refusal)
        k = int(body.get("top_logprobs") or (body.get("logprobs") if asked else 0) or 0)
        if k > spoken.max_top_logprobs and spoken.logprobs == "served":
            raise _RefusedError(
                400,
                (
                    f"Requested sample logprobs of {k}, which is greater than max allowed: {spoken.max_top_logprobs}"
                    if spoken.tokenize
                    else f"Invalid value for 'top_logprobs': must be less than or equal to {spoken.max_top_logprobs}."
                ),
                "logprobs" if spoken.tokenize else "top_logprobs",
            )
        if "top_logprobs" in body and not asked and spoken.unknown == "ignored" and spoken.reports_end:
            raise _RefusedError(400, "when using `top_logprobs`, `logprobs` must be set to true.", "top_logprobs")
        n_ids = len(body.get("logprob_token_ids") or ())
        if spoken.asked_tokens and n_ids > spoken.asked_tokens:
            raise _RefusedError(
                400,
                (
                    f"Requested logprob_token_ids of length {n_ids}, which is greater than max allowed: "
                    f"{spoken.asked_tokens} (parameter=logprob_token_ids, value={n_ids})"
                ),
                "logprob_token_ids",
            )
        n = body.get("n", 1)
        if n > 1 and spoken.several == "refused":
            raise _RefusedError(400, "Only one completion choice is allowed", "n")
        if n > 1 and body.get("temperature") == 0 and spoken.several == "served" and spoken.reports_end:
            raise _RefusedError(400, f"n must be 1 when using greedy sampling, got {n}.")

    def _prompts(self, body: Mapping[str, Any]) -> list[list[int]]:
        prompt = body["prompt"]
        if isinstance(prompt, str):
            return [self.model.tokens_of(prompt)]
        if self.dialect.completions != "ids":
            raise _RefusedError(400, "json: cannot unmarshal array into Go struct field CompletionRequest.prompt")
        if prompt and isinstance(prompt[0], int):
            return [list(prompt)]
        return [self.model.tokens_of(one) if isinstance(one, str) else list(one) for one in prompt]

    def _max_tokens(self, body: Mapping[str, Any], prompts: list[list[int]], *, chat: bool) -> int:
        given = body.get("max_completion_tokens", body.get("max_tokens", 16 if not chat else 512))
        if given < 1 and not (body.get("echo") and not chat):
            raise _RefusedError(400, f"max_tokens must be at least 1, got {given}.", "max_tokens")
        longest = max(map(len, prompts)) + given
        limit = self.dialect.context_length
        if limit is not None and longest > limit:
            raise _RefusedError(
                400,
                f"This model's maximum context length is {limit} tokens. However, you requested {longest} tokens.",
                "max_tokens",
            )
        return int(given)

    def _mask(self, body: Mapping[str, Any]) -> Mask | None:
        served = self.dialect.constraints
        fields: Mapping[str, Any] = {}
        if "structured_outputs" in body and "structured_outputs" in served:
            fields = body["structured_outputs"]
            if len(fields) > 1:
                raise _RefusedError(
                    400,
                    "You can only use one kind of constraints for structured outputs ('json', 'regex' or 'choice').",
                )
        elif "regex" in body and "regex" in served:
            fields = {"regex": body["regex"]}
        elif "response_format" in body and "response_format" in served:
            form = body["response_format"]
            fields = {"json": form["json_schema"]["schema"]} if form.get("type") == "json_schema" else {}
        if not fields:
            return None
        try:
            return Mask(self.model, allowed_texts(fields))
        except ValueError as error:
            raise _RefusedError(400, str(error)) from None

    def _draws(self, body: Mapping[str, Any], ids: list[int], max_tokens: int, mask: Mask | None) -> list[SampledReply]:
        spoken = self.dialect
        sampling = {name: body.get(name, spoken.generation_config.get(name)) for name in _SAMPLING}
        sampling = {name: value for name, value in sampling.items() if value is not None}
        question = _key({"ids": ids}, "ids")
        self._drawn[question] += 1
        seed = body.get("seed") if spoken.seeds else None
        # A seed starts the same stream whatever the prompt is.
        rng = random.Random(self._share("draw", question, self._drawn[question]) if seed is None else seed)
        hidden = spoken.reasoning_tokens if spoken.reasoning else 0
        left = max(0, max_tokens - hidden)
        n = body.get("n", 1) if spoken.several == "served" else 1
        processed = spoken.processed_logprobs
        return [
            draw(self.model, ids, max_tokens=left, sampling=sampling, rng=rng, mask=mask, processed=processed)
            for _ in range(n)
        ]

    def _cached(self, ids: list[int]) -> int:
        """Tokens of a prompt whose blocks were seen before; remembers the rest of them."""
        hits = known = 0
        digest = hashlib.sha256()
        for end in range(_BLOCK, len(ids), _BLOCK):
            digest.update(repr(ids[end - _BLOCK : end]).encode())
            if digest.digest() in self._blocks and known == hits:
                hits = end
            known = end
            self._blocks.add(digest.digest())
        self._hits += hits
        self._queries += len(ids)
        return hits

    def _whole(
        self,
        body: dict[str, Any],
        prompts: list[list[int]],
        choices: list[Any],
        written: int,
        cached: int,
        *,
        chat: bool,
    ) -> dict[str, Any]:
        spoken = self.dialect
        n_in = sum(map(len, prompts))
        hidden = spoken.reasoning_tokens if spoken.reasoning else 0
        usage: dict[str, Any] = {"prompt_tokens": n_in, "completion_tokens": written + hidden}
        usage["total_tokens"] = n_in + written + hidden
        if spoken.reasoning:
            usage["completion_tokens_details"] = {"reasoning_tokens": hidden}
        if spoken.cached_tokens:
            usage["prompt_tokens_details"] = {"cached_tokens": cached}
        whole: dict[str, Any] = {
            "id": f"{'chatcmpl' if chat else 'cmpl'}-{self.stats.calls}",
            "object": "chat.completion" if chat else "text_completion",
            "model": body.get("model", self._name),
            "choices": choices,
            "usage": usage,
        }
        if chat and spoken.prompt_logprobs:
            asked = body.get("prompt_logprobs")
            whole["prompt_logprobs"] = None if asked is None else self._writer.prompt(prompts[0], asked)
            if body.get("return_token_ids"):
                whole["prompt_token_ids"] = prompts[0]
        return whole


def _key(body: Mapping[str, Any], name: str) -> str:
    return hashlib.sha256(json.dumps(body.get(name)).encode()).hexdigest()
