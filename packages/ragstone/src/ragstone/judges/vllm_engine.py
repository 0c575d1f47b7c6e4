"""Chat model that vLLM runs in this process, without a server."""

from __future__ import annotations

import asyncio
import copy
import importlib.util
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Literal

from ragstone.errors import ConfigurationError, JudgeRejectedError, MissingExtraError
from ragstone.judges._http.constraints import MAX_VALUES, number_pattern
from ragstone.judges._http.dialect import fold_system_message
from ragstone.judges._model import (
    TEMPERATURE_ONE,
    AsyncOnce,
    Capabilities,
    ChatRequest,
    Completion,
    ReplyLogprobs,
    TokenLogprobs,
    model_call,
    read_chain,
    record_usage,
)
from ragstone.judges._render import Message
from ragstone.judges._vllm_thread import EngineThread, Job, engine_for, is_refusal, unload
from ragstone.schema import Usage

_ASKED_TOKENS: Final = 128
"""Maximum number of token ids in one `logprob_token_ids` of vLLM."""
_PROBE: Final[list[Message]] = [
    {"role": "user", "content": "Reply with the word yes. " + "This line is here to be long enough for a cache. " * 12}
]
_PROBE_REPLY: Final = "yes"
_AGREE: Final = 0.05
"""Maximum difference of two log-probabilities of the same token in bfloat16."""


@dataclass(frozen=True, slots=True)
class _Loaded:
    """Data of an engine that tasks need outside of the thread that owns it."""

    tokenizer: Any
    lock: threading.Lock
    context_length: int
    max_logprobs: int
    version: str


class VllmModel:
    """Calls a chat model that vLLM runs in this process. Needs the extra `vllm`.

    The first call (or `prepare`) loads the engine. All `VllmModel`s of this process with the same model and arguments
    share it. Concurrent calls form one batch, so call it from many tasks: a hundred tasks have several times the
    throughput of one.

    Unlike a server, the engine uses no sampling defaults of the model's `generation_config.json`. Fields that a request
    does not set are neutral.

    Args:
        model: Name on Hugging Face, or a directory.
        chat_template_kwargs: Passed to the model's chat template (`{"enable_thinking": False}`).
        **engine_args: Arguments of `vllm.LLM` (`max_model_len=8192`, `gpu_memory_utilization=0.5`, `dtype="float32"`).

    Raises:
        MissingExtraError: If vLLM is not installed.

    Examples:
        ```python
        model = VllmModel("Qwen/Qwen3-8B", max_model_len=8192)
        judge = ModelJudge(model)
        reader = ChatReader(model)
        ```
    """

    def __init__(
        self, model: str, *, chat_template_kwargs: Mapping[str, Any] | None = None, **engine_args: Any
    ) -> None:
        if importlib.util.find_spec("vllm") is None:
            raise MissingExtraError(feature=f"judge='vllm:{model}'", package="vllm", extra="ragstone[vllm]")
        self._model = model
        self._engine_args = engine_args
        self._template_kwargs = dict(chat_template_kwargs or {})
        self._of: EngineThread | None = None
        self._loaded: _Loaded | None = None
        self._loading = threading.Lock()
        self._capabilities: Capabilities | None = None
        self._end = AsyncOnce(self._found_end)

    def __repr__(self) -> str:
        options = "".join(f", {name}={value!r}" for name, value in self._engine_args.items())
        return f"VllmModel({self._model!r}{options})"

    @property
    def name(self) -> str:
        """Name of the model, and that it runs in this process."""
        return f"{self._model} in this process"

    @property
    def settings(self) -> Mapping[str, object]:
        """Model, arguments of the engine, and arguments of the chat template."""
        return {
            "endpoint": "vllm in this process",
            "model": self._model,
            "engine_args": self._engine_args,
            "chat_template_kwargs": self._template_kwargs,
        }

    async def prepare(self) -> None:
        """Load the engine if it is not loaded. Otherwise the first call does this.

        Raises:
            ConfigurationError: If the engine cannot be loaded, because of the model's name or a lack of memory.
        """
        await self._ready()

    async def _ready(self) -> tuple[EngineThread, _Loaded]:
        engine = engine_for(self._model, self._engine_args)
        llm = await asyncio.shield(asyncio.wrap_future(engine.loaded))
        with self._loading:
            if self._of is not engine or self._loaded is None:
                self._of, self._loaded = engine, _look_at(llm)
            return engine, self._loaded

    async def capabilities(self, *, fresh: bool = False) -> Capabilities:
        """Return the engine's capabilities, which are known from its configuration and verified once with a few tokens.

        Raises:
            JudgeError: If the engine is unavailable.
        """
        if self._capabilities is None or fresh:
            self._capabilities = await self._measured()
        return self._capabilities

    async def complete(self, request: ChatRequest) -> tuple[Completion, ...]:
        """Return `request.n` replies.

        Raises:
            JudgeError: With kind "rejected", if the prompt is too long, or vLLM refuses the value of a sampling field.
                With kind "unavailable", if the engine has failed.
        """
        fields = {"n": request.n, "max_tokens": request.max_tokens, **request.sampling}
        if request.top_logprobs:
            _, loaded = await self._ready()
            fields["logprobs"] = min(request.top_logprobs, loaded.max_logprobs)
        (output,) = await self._asked([await self.chat_ids(request.messages)], [fields])
        return tuple(completion_of(choice) for choice in output.outputs)

    async def complete_number(
        self, messages: Sequence[Message], low: int, high: int, *, max_tokens: int, sampling: Mapping[str, Any]
    ) -> Completion | None:
        """Reply with an integer in [low, high], by a regular expression that the engine enforces.

        Raises:
            JudgeError: If no reply is received.
        """
        if high - low >= MAX_VALUES:
            return None
        pattern = number_pattern(low, high)
        return await self._constrained(messages, max_tokens=max_tokens, sampling=sampling, regex=pattern)

    async def complete_json(
        self, messages: Sequence[Message], schema: Mapping[str, Any], *, max_tokens: int, sampling: Mapping[str, Any]
    ) -> Completion | None:
        """Reply with JSON of a schema, which the engine enforces.

        Raises:
            JudgeError: If no reply is received.
        """
        return await self._constrained(messages, max_tokens=max_tokens, sampling=sampling, json=dict(schema))

    async def _constrained(
        self, messages: Sequence[Message], *, max_tokens: int, sampling: Mapping[str, Any], **form: Any
    ) -> Completion:
        from vllm.sampling_params import StructuredOutputsParams

        fields = {"max_tokens": max_tokens, **sampling, "structured_outputs": StructuredOutputsParams(**form)}
        (output,) = await self._asked([await self.chat_ids(messages)], [fields])
        return completion_of(output.outputs[0])

    async def chat_ids(self, messages: Sequence[Message]) -> list[int]:
        """Return the token ids of a conversation, up to the start of the reply.

        Raises:
            JudgeRejectedError: If the model's chat template rejects the conversation.
        """
        return await self._templated(messages, add_generation_prompt=True)

    async def _templated(self, messages: Sequence[Message], **how: bool) -> list[int]:
        _, loaded = await self._ready()
        apply = partial(
            loaded.tokenizer.apply_chat_template, tokenize=True, return_dict=False, **how, **self._template_kwargs
        )
        try:
            return await asyncio.to_thread(_locked, loaded.lock, apply, list(messages))
        except Exception as error:
            # Templates are programs of the model's authors, and may raise any exception.
            if [message["role"] for message in messages[:2]] == ["system", "user"]:
                return await self._templated(fold_system_message(messages), **how)
            raise JudgeRejectedError(f"{self.name}: its chat template rejects the conversation ({error})") from error

    async def text_ids(self, text: str) -> list[int]:
        """Return the token ids of a text, without special tokens."""
        _, loaded = await self._ready()
        encode = partial(loaded.tokenizer.encode, add_special_tokens=False)
        return list(await asyncio.to_thread(_locked, loaded.lock, encode, text))

    async def end_id(self) -> int | None:
        """Return the token that ends a reply, which is the one that the chat template writes after it."""
        return await self._end.get()

    async def _found_end(self) -> int | None:
        _, loaded = await self._ready()
        opened = await self.chat_ids(_PROBE)
        closed = await self._templated([*_PROBE, {"role": "assistant", "content": _PROBE_REPLY}])
        spoken = [*opened, *await self.text_ids(_PROBE_REPLY)]
        if closed[: len(spoken)] == spoken and len(closed) > len(spoken):
            return int(closed[len(spoken)])
        # The template writes finished turns in another way than it starts them.
        end = loaded.tokenizer.eos_token_id
        return None if end is None else int(end)

    async def next_logprobs(
        self, prefixes: Sequence[Sequence[int]], wanted: Sequence[Sequence[int]]
    ) -> list[dict[int, float]]:
        """Return the log-probabilities of tokens after each prefix, in one batch.

        Raises:
            JudgeError: With kind "rejected", if a prefix is too long, or an id is not a token of the model.
        """
        read: list[dict[int, float]] = [{} for _ in prefixes]
        rows = [
            (row, list(tokens[start : start + _ASKED_TOKENS]))
            for row, tokens in enumerate([list(dict.fromkeys(tokens)) for tokens in wanted])
            for start in range(0, len(tokens), _ASKED_TOKENS)
        ]
        if not rows:
            return read
        outputs = await self._asked(
            [prefixes[row] for row, _ in rows],
            [{"max_tokens": 1, "temperature": 0.0, "logprob_token_ids": tokens} for _, tokens in rows],
        )
        for (row, tokens), output in zip(rows, outputs, strict=True):
            first = output.outputs[0].logprobs[0]
            read[row] |= {token: float(first[token].logprob) for token in tokens}
        return read

    async def reply_logprobs(self, messages: Sequence[Message], reply: str) -> ReplyLogprobs:
        """Return the log-probabilities of `reply`, read token by token in one batch.

        Raises:
            JudgeError: If the reply is too long.
        """
        return await read_chain(self, messages, reply)

    async def _asked(self, prompts: Sequence[Sequence[int]], fields: Sequence[Mapping[str, Any]]) -> list[Any]:
        """Run prompts as one job, and record the usage."""
        from vllm import SamplingParams

        engine, loaded = await self._ready()
        longest = max(map(len, prompts))
        if longest >= loaded.context_length:
            raise JudgeRejectedError(
                f"{self.name}: a prompt of {longest} tokens leaves no space for a reply (limit: {loaded.context_length})"
            )
        try:
            params = [SamplingParams(**{**TEMPERATURE_ONE, **each}) for each in fields]
        except TypeError as error:
            raise ConfigurationError(
                f"{self.name}: vLLM does not have this sampling field ({error}). Omit it"
            ) from error
        except Exception as error:
            if not is_refusal(error):
                raise
            raise JudgeRejectedError(f"{self.name}: vLLM rejects the sampling fields ({error})") from error
        job = Job(prompts=prompts, params=params, reads="logprob_token_ids" in fields[0])
        engine.ask(job)
        record_usage(Usage(calls=1, input_tokens=sum(map(len, prompts))))
        with model_call():
            outputs = await asyncio.wrap_future(job.future)
        record_usage(Usage(output_tokens=sum(len(choice.token_ids) for each in outputs for choice in each.outputs)))
        return outputs

    async def _measured(self) -> Capabilities:
        """Measure the same probability in two ways, and check that the results agree."""
        _, loaded = await self._ready()
        prompt, reply = await self.chat_ids(_PROBE), await self.text_ids(_PROBE_REPLY)
        greedy, held, counted = await asyncio.gather(
            self.complete(ChatRequest(messages=_PROBE, max_tokens=1, sampling={"temperature": 0.0}, top_logprobs=1)),
            self._constrained(_PROBE, max_tokens=4, sampling={}, regex="[7]"),
            self._asked([prompt], [{"max_tokens": 1, "temperature": 2.0, "logprobs": 1}]),
        )
        # After the first requests, so that the prompt is in the cache.
        (again,) = await self._asked([prompt], [{"max_tokens": 1, "temperature": 0.0, "logprobs": 1}])
        first = greedy[0].tokens[0] if greedy[0].tokens else None
        token = again.outputs[0].token_ids[0]
        (row,) = await self.next_logprobs([prompt], [[token]])
        agree = first is not None and abs(row[token] - first.logprob) < _AGREE
        hot = max(choice.logprob for choice in counted[0].outputs[0].logprobs[0].values())
        closed = await self._templated([*_PROBE, {"role": "assistant", "content": _PROBE_REPLY}])
        clean = closed[: len(prompt) + len(reply)] == [*prompt, *reply]
        raw = first is not None and abs(hot - first.logprob) < _AGREE
        return Capabilities(
            model=self._model,
            server=f"vllm {loaded.version}, in this process",
            context_length=loaded.context_length,
            reasons=await self._opens_reasoning(),
            top_logprobs=loaded.max_logprobs if first is not None else 0,
            logprobs_raw=raw,
            exact_route="chain" if agree else None,
            exact_routes=("chain",) if agree else (),
            asked_tokens=_ASKED_TOKENS if agree else 0,
            boundary_clean=clean,
            structured=("regex",) if held.text == "7" else (),
            several_replies=True,
            seen={
                "chain": f"a token read by its id is {'as' if agree else 'not as'} likely as in a reply",
                "logprobs": f"{loaded.max_logprobs} alternatives, by the engine's configuration",
                "logprobs_raw": f"{'the same' if raw else 'different'} at temperature 2",
                "boundary_clean": "a reply's tokens follow the conversation's"
                if clean
                else "a reply changes the tokens",
                "regex": f"{'obeyed' if held.text == '7' else 'ignored'}: {held.text!r:.60}",
                "several_replies": "supported by the engine",
            },
        )

    async def _opens_reasoning(self) -> bool:
        """Return whether a reply begins with an open reasoning block, by the template or by the model's first words."""
        _, loaded = await self._ready()
        (spoken,) = await self.complete(ChatRequest(messages=_PROBE, max_tokens=4, sampling={"temperature": 0.0}))
        opening = loaded.tokenizer.decode((await self.chat_ids(_PROBE))[-8:])
        return "<think>" in f"{opening}{spoken.text}" and "</think>" not in opening

    async def aclose(self) -> None:
        """Do nothing. The engine is shared, and runs until `unload` or the end of the process."""

    def unload(self) -> None:
        """Free the engine's memory, for all users in this process with the same model and arguments.

        Waiting calls fail, and a later call loads the engine again. This method blocks until the running batch is
        finished. Engines of other models in this process are unloaded as well, because vLLM cannot stop one of them
        alone.
        """
        self._of = self._loaded = None
        unload(self._model, self._engine_args)


def _look_at(llm: Any) -> _Loaded:
    import vllm

    config = llm.llm_engine.model_config
    return _Loaded(
        # A copy, because the thread uses the engine's own, and two threads must not use one tokenizer concurrently.
        tokenizer=copy.deepcopy(llm.get_tokenizer()),
        lock=threading.Lock(),
        context_length=int(config.max_model_len),
        max_logprobs=int(config.max_logprobs),
        version=str(vllm.__version__),
    )


def _locked(lock: threading.Lock, work: Any, *args: Any) -> list[int]:
    with lock:
        return list(work(*args))


def completion_of(choice: Any) -> Completion:
    """Convert a choice of the engine (`vllm.CompletionOutput`) to a reply."""
    finish: Literal["stop", "length"] = "length" if choice.finish_reason == "length" else "stop"
    tokens = None
    if choice.logprobs is not None:
        tokens = tuple(
            _reading(token, alternatives) for token, alternatives in zip(choice.token_ids, choice.logprobs, strict=True)
        )
    # A lone surrogate cannot be written to a file.
    return Completion(text=choice.text.encode(errors="replace").decode(), finish=finish, tokens=tokens)


def _reading(token: int, alternatives: Mapping[int, Any]) -> TokenLogprobs:
    chosen = alternatives[token]
    ranked = sorted(alternatives.values(), key=lambda other: -other.logprob)
    return TokenLogprobs(
        text=chosen.decoded_token or "",
        logprob=float(chosen.logprob),
        top=tuple((other.decoded_token or "", float(other.logprob)) for other in ranked),
    )
