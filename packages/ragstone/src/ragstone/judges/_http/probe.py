"""Measurement of an endpoint's capabilities by their effects, because many servers silently ignore unknown fields."""

from __future__ import annotations

import json
import math
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeVar

from ragstone.errors import JudgeRejectedError, JudgeReplyError, JudgeUnavailableError
from ragstone.judges._http.constraints import STYLES, schema_format
from ragstone.judges._http.errors import RequestRefusedError
from ragstone.judges._http.exact import LogprobReader
from ragstone.judges._http.reasoning import is_cut, measure_reasoning
from ragstone.judges._http.whole_prompts import least_tokens
from ragstone.judges._model import Capabilities, ChatRequest, Route, TokenLogprobs
from ragstone.judges._render import Message

_T = TypeVar("_T")

_YES: Final[list[Message]] = [{"role": "user", "content": "Reply with the word yes."}]
_SHORT: Final = 16
"""Maximum number of tokens with which a short reply is complete."""
_ATTEMPTS: Final = 3
"""Attempts for a reply with a message. Servers with temporary problems send replies without one."""
_SPREAD: Final = 1.5
"""Maximum ratio of the differences of log-probabilities between temperatures 0.5 and 2 if they are independent of it.

Log-probabilities that depend on the temperature have ratio 4. Rounding alone stays below this limit.
"""
_VERSIONS: Final = {
    "vllm": "//version",
    "sglang": "//get_server_info",
    "llamacpp": "//props",
    "library": "//api/version",
}
"""Paths at which servers report their version, by the owner of their models. For display only."""

_NOT_SUPPORTED: Final = "not supported"
_LONG_LINES: Final = (1000, 100)
"""Lengths of a long prompt in lines of 6 words: about 8,000 tokens, which exceeds the default limits of Ollama (2,048
and 4,096), and 800 tokens if the server refuses the first length."""
_CODE: Final = "marlin"
_ZZ9: Final = {"quux": "zz9"}
_MARKER: Final = "NO-RESPONSE"
_MOST_IDS: Final = 128
"""Maximum number of token ids in one request, which is vLLM's limit."""
_TOLERANCE: Final = 2e-2
"""Maximum difference in nats of two values of one token. Models in half precision differ slightly between batches."""
_FULL_PRECISION: Final = 1e-3
_FLOOR: Final = -50.0
"""Lower values are a server's representation of probability 0."""


class Probe:
    """Measures the capabilities of an endpoint, with about 12 short requests (`full`: about 20).

    Structured output and whole prompts are for display only, and measured only with `full`: they need long prompts.
    Capabilities that cannot be measured stay unknown, and `seen` contains the reason.
    """

    def __init__(self, model: LogprobReader, *, full: bool) -> None:
        self._model = model
        self._full = full
        self._seen: dict[str, str] = {}
        self._notes: list[str] = []
        self._unmeasured: list[str] = []
        self._speaks = False
        """Whether replies without a constraint have text."""
        self._n_listed = 0
        """Number of alternatives that a chat returns."""
        self._texts: dict[str, float] = {}
        """Log-probabilities of the reply's first token from the chat, by text."""
        self._ids: dict[int, float] = {}
        """The same by token id, if the server returns ids."""
        self._prompt: list[int] = []
        self._context_length: int | None = None
        """The context length that the server reports with token ids."""

    async def run(self) -> Capabilities:
        """Run all steps."""
        reasons = await self._check_reasoning()
        card = await self._try_step("context_length", self._card) or {}
        server, details = await self._server(card)
        context_length = _context_length(card, details)
        reading = await self._logprobs()
        raw = await self._try_step("logprobs_raw", self._raw, reading)
        routes: tuple[Route, ...] = ()
        asked_tokens, boundary_clean = 0, None
        if reading is not None:
            self._n_listed = len(reading.top)
            routes, asked_tokens, boundary_clean = await self._routes()
        else:
            self._seen |= dict.fromkeys(("chain", "echo"), "chats return no log-probabilities to compare with")
        context_length = context_length or self._context_length
        if context_length is None:
            self._seen["context_length"] = "not reported by the server"
        several = await self._try_step("several_replies", self._check_multiple_choices) or False
        if not self._full:
            unmeasured = ("regex", *STYLES, "whole_prompts")
            self._seen |= dict.fromkeys(unmeasured, "not measured (use `ragstone doctor`)")
        dialect = self._model.dialect
        refused = {name for _, name in dialect.omitted}
        if self._seen.get("logprobs", "").startswith(_NOT_SUPPORTED):
            refused.add("logprobs")
        return Capabilities(
            model=str(self._model.settings["model"]),
            server=server,
            context_length=context_length,
            reasons=reasons,
            top_logprobs=self._n_listed,
            logprobs_raw=raw,
            exact_route=routes[0] if routes else None,
            exact_routes=routes,
            asked_tokens=asked_tokens,
            boundary_clean=boundary_clean,
            several_replies=several,
            structured=await self._structured() if self._full else (),
            whole_prompts=await self._try_step("whole_prompts", self._whole_prompts) if self._full else None,
            max_tokens_name=dialect.max_tokens_name,
            refused_parameters=tuple(sorted(refused)),
            seen=self._seen,
            unmeasured=tuple(dict.fromkeys(self._unmeasured)),
            notes=tuple(self._notes),
        )

    async def _try_step(self, name: str, step: Callable[..., Awaitable[_T]], *given: Any) -> _T | None:
        """Run a step. Return None if the endpoint refuses it, or it cannot be measured."""
        try:
            return await step(*given)
        except RequestRefusedError as refused:
            status, _, text = _reason(refused).partition(": ")
            self._seen[name] = f"{_NOT_SUPPORTED} ({status})" + (f": {text}" if text else "")
            if refused.isolated:
                self._unmeasured.append(name)
        except JudgeUnavailableError as error:
            # Raises if the endpoint is unavailable, and not overloaded by this step.
            await self._chat(_YES, _SHORT, temperature=0.0)
            self._seen[name] = f"could not be measured: {_reason(error)}"
            self._unmeasured.append(name)
            self._notes.append(f"{name} could not be measured ({_reason(error)}). Probe again later")
        except JudgeReplyError as error:
            self._seen[name] = str(error)
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            self._seen[name] = f"the reply has an unexpected form ({error!r:.100})"
        return None

    async def _chat(
        self,
        messages: list[Message],
        max_tokens: int,
        *,
        temperature: float,
        fields: Mapping[str, Any] | None = None,
        room: bool = True,
        grow: bool = True,
        **sampling: Any,
    ) -> dict[str, Any]:
        settings = {"temperature": temperature, **sampling}
        for _ in range(_ATTEMPTS):
            reply = await self._model.chat(
                messages, max_tokens=max_tokens, sampling=settings, fields=fields, room=room, grow=grow
            )
            choices = reply.get("choices")
            if isinstance(choices, list) and choices and all(_is_choice(choice) for choice in choices):
                return reply
        raise JudgeReplyError(f"no message in {_ATTEMPTS} replies, only {sorted(reply)}")

    async def _check_reasoning(self) -> bool:
        """Return whether replies begin with reasoning. This is the first request, so its exception ends the probe."""

        async def ask(size: int) -> dict[str, Any]:
            reply = await self._chat(_YES, size, temperature=0.0, grow=False)
            self._speaks = self._speaks or bool(str(reply["choices"][0]["message"].get("content") or "").strip())
            return reply

        sign = await measure_reasoning(ask)
        if sign is not None:
            self._model.learn_reasoning(sign)
        sign = self._model.dialect.reasons
        self._seen["reasons"] = sign or "replies begin with the answer"
        self._seen["temperature"] = "refused, therefore omitted" if self._omits("temperature", 0.0) else "accepted"
        return bool(sign)

    def _omits(self, name: str, temperature: float, **sampling: Any) -> bool:
        return name in self._model.dialect.omits({"temperature": temperature, **sampling})

    async def _card(self) -> dict[str, Any]:
        listing = await self._model.get("/models")
        cards = [card for card in listing.get("data") or () if isinstance(card, dict)]
        return next((card for card in cards if card.get("id") == self._model.settings["model"]), {})

    async def _server(self, card: Mapping[str, Any]) -> tuple[str | None, dict[str, Any]]:
        """Return the name and version of the server, and everything it reports with its version."""
        owner = card.get("owned_by")
        if owner not in _VERSIONS:
            return (owner if isinstance(owner, str) else None), {}
        try:
            details = await self._model.get(_VERSIONS[owner])
        except (RequestRefusedError, JudgeUnavailableError):
            details = {}
        version = details.get("version") or details.get("build_info") or ""
        return f"{'ollama' if owner == 'library' else owner} {version}".strip(), details

    async def _logprobs(self) -> TokenLogprobs | None:
        """Return the first token of a reply, with as many alternatives as the endpoint returns."""
        for k in (20, 5):
            reading = await self._try_step("logprobs", self._read, k, 1.0)
            if reading is not None:
                if not reading.top:
                    self._seen["logprobs"] = "returned without alternatives"
                    return None
                if (mass := sum(math.exp(value) for _, value in reading.top)) > 1.02:
                    self._seen["logprobs"] = f"invalid: probabilities of one token add up to {mass:.3g}"
                    return None
                self._seen["logprobs"] = f"{len(reading.top)} of {k} requested alternatives returned"
                return reading
            if not self._seen.get("logprobs", "").startswith(_NOT_SUPPORTED):
                break
        self._seen.setdefault("logprobs", "accepted, but not returned")
        return None

    async def _read(self, k: int, temperature: float) -> TokenLogprobs | None:
        request = ChatRequest(messages=_YES, max_tokens=1, sampling={"temperature": temperature}, top_logprobs=k)
        (completion,) = await self._model.complete(request)
        tokens = completion.tokens
        return tokens[0] if tokens else None

    async def _raw(self, reading: TokenLogprobs | None) -> bool | None:
        if reading is None:
            return None
        cold, hot = [await self._read(len(reading.top), temperature) for temperature in (0.5, 2.0)]
        if self._omits("temperature", 0.5) or self._omits("temperature", 2.0):
            self._seen["logprobs_raw"] = "the temperature cannot be changed"
            return None
        if cold is None or hot is None:
            self._seen["logprobs_raw"] = "log-probabilities are not always returned"
            return None
        raw, self._seen["logprobs_raw"] = are_raw(cold, hot)
        return raw

    async def _check_multiple_choices(self) -> bool:
        reply = await self._chat(_YES, 1, temperature=1.0, fields={"n": 2})
        n = len(reply["choices"])
        self._seen["several_replies"] = f"{n} of 2 replies returned by one request"
        return n >= 2

    async def _structured(self) -> tuple[str, ...]:
        schema = {
            "type": "object",
            "properties": {"quux": {"type": "string", "enum": ["zz9"]}},
            "required": ["quux"],
            "additionalProperties": False,
        }
        # An unconstrained reply would not look like these.
        tests: tuple[tuple[str, dict[str, Any], Callable[[str], bool]], ...] = (
            ("regex", {"structured_outputs": {"regex": "[7]{3}"}, "regex": "[7]{3}"}, lambda text: text == "777"),
            *(
                (style, {"response_format": schema_format(style, schema)}, lambda text: bool(json.loads(text) == _ZZ9))
                for style in STYLES
            ),
        )
        obeyed: list[str] = []
        for name, fields, holds in tests:
            if "json_schema" in obeyed:
                break
            if await self._try_step(name, self._check_constraint, name, fields, holds):
                obeyed.append(name)
        return tuple(obeyed)

    async def _check_constraint(self, name: str, fields: Mapping[str, Any], holds: Callable[[str], bool]) -> bool:
        reply = await self._chat(_YES, 64, temperature=0.0, fields=fields)
        text = str(reply["choices"][0]["message"].get("content") or "")
        try:
            obeyed = holds(text)
        except ValueError:
            # A schema allows whitespace, and some models repeat it until the limit.
            begun = "".join(text.split())
            obeyed = is_cut(reply) and '{"quux":"zz9"}'.startswith(begun) and (bool(begun) or self._speaks)
            if obeyed:
                self._notes.append("replies under a JSON Schema are padded with whitespace and may be truncated")
        self._seen[name] = f"{'obeyed' if obeyed else 'ignored'}: {' '.join(text.split())!r:.60}"
        return obeyed

    async def _whole_prompts(self) -> bool | None:
        """Return whether a long prompt is read from its beginning, with one request of about 8,000 tokens.

        The beginning contains a code word, and the end asks for it. The number of tokens that the reply counts decides
        if the model does not repeat the code word, because small models fail at this too.
        """
        whole: bool | None = True
        seen = "longer prompts are refused with an error"
        size = _SHORT + self._model.reasoning_tokens
        for n_lines in _LONG_LINES:
            lines = "\n".join(["nothing to remember in this line"] * n_lines)
            question = "Which code word is in the first line? Reply with this word only."
            content = f"The code word is {_CODE}.\n{lines}\n{question}"
            try:
                reply = await self._chat([{"role": "user", "content": content}], size, temperature=0.0, room=False)
            except RequestRefusedError:
                continue
            except JudgeRejectedError as error:
                if error.kind != "prompt_truncated":
                    raise
                whole, seen = False, str(error)
                break
            text = str(reply["choices"][0]["message"].get("content") or "")
            n = (reply.get("usage") or {}).get("prompt_tokens")
            counted = f"{n} tokens counted" if isinstance(n, int) and n > 0 else "tokens are not counted"
            seen = f"the model repeated a word from the beginning of a long prompt ({counted})"
            if _CODE not in text.lower():
                seen = f"{counted}, and the model did not repeat a word from the beginning ({text!r:.40})"
                whole = True if isinstance(n, int) and n >= least_tokens(content) else None
            break
        self._seen["whole_prompts"] = seen
        return whole

    # Exact routes ---------------------------------------------------------------------------------------------------

    async def _routes(self) -> tuple[tuple[Route, ...], int, bool | None]:
        """Try each exact route with one prompt, and compare the reply's first token with the chat's log-probability.

        Return the routes that work, best first, the number of tokens that can be requested by id, and `boundary_clean`.
        """
        self._texts = await self._try_step("chain", self._first, {}) or {}
        self._prompt = await self._try_step("chain", self._prompt_ids) or []
        if not self._prompt:
            self._seen.setdefault("chain", "/tokenize does not accept conversations")
            self._seen["echo"] = self._seen["chain"]
            return (), 0, None
        boundary = await self._try_step("boundary_clean", self._boundary)
        self._ids = await self._try_step("chain", self._chat_ids) or {}
        asked = await self._try_step("chain", self._chain) or 0
        routes: list[Route] = ["chain"] if asked else []
        if await self._try_step("echo", self._echo):
            routes.append("echo")
        return tuple(routes), asked, boundary

    async def _first(self, fields: Mapping[str, Any]) -> dict[str, float]:
        fields = {"logprobs": True, "top_logprobs": self._n_listed, **fields}
        reply = await self._model.chat(_YES, max_tokens=1, sampling={"temperature": 1.0}, fields=fields, room=False)
        entry = reply["choices"][0]["logprobs"]["content"][0]
        listed = {str(other["token"]): float(other["logprob"]) for other in entry["top_logprobs"]}
        return {token: value for token, value in listed.items() if value > _FLOOR}

    async def _chat_ids(self) -> dict[int, float]:
        listed = await self._first({"return_tokens_as_token_ids": True})
        return {
            int(token.removeprefix("token_id:")): value
            for token, value in listed.items()
            if token.startswith("token_id:")
        }

    async def _prompt_ids(self) -> list[int]:
        body = {"messages": _YES, "add_generation_prompt": True}
        reply = await self._model.post("//tokenize", body, inference=False)
        length = reply.get("max_model_len")
        if isinstance(length, int) and length > 0:
            self._context_length = length
        return [int(token) for token in reply["tokens"]]

    async def _boundary(self) -> bool:
        marker = await self._model.text_ids(_MARKER)
        whole = await self._model.tokenized(
            [*_YES, {"role": "assistant", "content": _MARKER}], add_generation_prompt=False, continue_final_message=True
        )
        clean = whole == [*self._prompt, *marker]
        self._seen["boundary_clean"] = (
            f"conversation and reply are {len(self._prompt)} + {len(marker)} tokens, together {len(whole)}"
            f"{'' if clean else ', and not identical'}"
        )
        return clean

    async def _chain(self) -> int:
        """Return the number of tokens that can be requested by id."""
        if not self._ids:
            self._seen["chain"] = "chats do not return token ids"
            return 0
        (first, *_) = await self._model.text_ids(_MARKER)
        # No reply begins with the conversation's first token, so it is returned only if tokens can be requested by id.
        likeliest = list(self._ids)[:3]
        wanted = list(dict.fromkeys([*likeliest, first, self._prompt[0], *range(_MOST_IDS)]))[:_MOST_IDS]
        rows = await self._model.next_logprobs([self._prompt, [*self._prompt, first]], [wanted, wanted])
        agree = self._agree("chain", [(rows[0][token], self._ids[token]) for token in likeliest])
        return len(wanted) if agree else 0

    async def _echo(self) -> bool:
        best = sorted(self._texts, key=lambda text: -self._texts[text])
        if (word := next((text for text in best if text.isalnum()), None)) is None:
            self._seen["echo"] = "none of the chat's most likely tokens is a word to try it with"
            return False
        reading = await self._model.echoed(_YES, word)
        if len(reading.logprobs) != 1:
            self._seen["echo"] = f"{word!r} is one token in a reply and {len(reading.logprobs)} as a separate text"
            return False
        return self._agree("echo", [(reading.logprobs[0], self._texts[word])])

    def _agree(self, name: Route, pairs: list[tuple[float, float]]) -> bool:
        """Return whether the route's values (first of each pair) equal the chat's."""
        worst = max(abs(here - there) for here, there in pairs)
        agree = worst <= _TOLERANCE
        self._seen[name] = (
            f"{'agrees with' if agree else 'contradicts'} the chat's own value (difference {worst:.1e})"
            + (", as expected with half precision" if agree and worst > _FULL_PRECISION else "")
        )
        return agree


def are_raw(cold: TokenLogprobs, hot: TokenLogprobs) -> tuple[bool | None, str]:
    """Return whether log-probabilities are independent of the temperature (None: unknown), and what was observed."""
    # Some servers limit very low log-probabilities.
    low, high = (dict(pair for pair in read.top if pair[1] > -50) for read in (cold, hot))
    common = sorted(low.keys() & high.keys(), key=lambda token: low[token])
    spreads = [values[common[-1]] - values[common[0]] if common else 0.0 for values in (low, high)]
    if min(spreads) < 0.1:
        return None, "the alternatives are too similar to decide"
    ratio = spreads[0] / spreads[1]
    seen = f"between temperatures 0.5 and 2 the difference of two tokens changes {ratio:.3g} times (raw 1, processed 4)"
    return 1 / _SPREAD < ratio < _SPREAD, seen


def _is_choice(choice: object) -> bool:
    return isinstance(choice, dict) and isinstance(choice.get("message"), dict)


def _context_length(card: Mapping[str, Any], details: Mapping[str, Any]) -> int | None:
    # llama.cpp may serve a shorter context than the model's own, and its list of models reports the latter.
    places = (card, details.get("default_generation_settings"), card.get("meta"))
    names = ("max_model_len", "context_length", "n_ctx")
    lengths = (place.get(name) for place in places if isinstance(place, dict) for name in names)
    return next((length for length in lengths if isinstance(length, int) and length > 0), None)


def _reason(error: Exception) -> str:
    return str(error).split(": ", 1)[-1][:200]
