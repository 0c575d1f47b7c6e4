"""Finding out what an endpoint can do, from effects: many servers pass over in silence what they do not know."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeVar

from ragstone.errors import JudgeReplyError, JudgeUnavailableError
from ragstone.judges._http.endpoint import RequestRefusedError
from ragstone.judges._http.exact import LogprobReader
from ragstone.judges._model import Capabilities, ChatRequest, TokenLogprobs
from ragstone.judges._render import Message

__all__ = ["RouteProbe", "Routes", "are_raw", "probe"]

_T = TypeVar("_T")

_YES: Final[list[Message]] = [{"role": "user", "content": "Reply with the word yes."}]
_DIGITS: Final[list[Message]] = [{"role": "user", "content": "Write twelve random digits."}]
_OUTLOUD: Final = re.compile(r"</?(?:think|thinking|thought|reasoning)>", re.IGNORECASE)
_NO_ROOM: Final = re.compile(r"could not finish|higher (?:`|')?max_", re.IGNORECASE)
_REASONING_TOKENS: Final = 2048
_ATTEMPTS: Final = 3
"""Replies without a message come from servers that are in trouble, and may pass."""
_SPREAD: Final = 1.5
"""Between temperatures 0.5 and 2 the log-probabilities of two tokens come four times closer together; rounding does
not reach this."""
_VERSIONS: Final = {
    "vllm": "//version",
    "sglang": "//get_server_info",
    "llamacpp": "//props",
    "library": "//api/version",
}
"""Where servers tell their version, by what they give as owner of their models. For people only."""

_MARKER: Final = "NO-RESPONSE"
_MOST_IDS: Final = 128
"""What vLLM takes, and the readers ask for at most in one request."""
_TOLERANCE: Final = 2e-2
"""Nats between two readings of one token: models in half precision compute a little differently in another batch."""
_FULL_PRECISION: Final = 1e-3
_FLOOR: Final = -50.0
"""What stands below is a server's way to say never."""

Route = Literal["chain", "prefill", "echo"]

Tried = Callable[..., Awaitable[Any]]


async def probe(model: LogprobReader, *, full: bool) -> Capabilities:
    """Measure what the endpoint behind `model` can do, with about a dozen short requests; `full`: with about twenty.

    What only a person wants to know (seeds, structured output, the prefix cache) is measured when asked for in full:
    it costs long prompts, and a seed can bring down a vLLM server on CPUs that is busy.
    What cannot be measured is left unknown, and `seen` says why.

    Raises:
        JudgeError: The endpoint cannot be asked at all: no connection, wrong key, no such model.
    """
    return await _Probe(model, full=full).run()


class _Probe:
    def __init__(self, model: LogprobReader, *, full: bool) -> None:
        self._model = model
        self._full = full
        self._seen: dict[str, str] = {}
        self._notes: list[str] = []
        self._unmeasured: list[str] = []
        self._budget = 16
        """Tokens within which a short reply comes to its end."""
        self._brief = 1
        """Tokens for replies that need not be finished."""

    async def run(self) -> Capabilities:
        """All steps."""
        reasons = await self._check_reasoning()
        card = await self._try_step("context_length", self._card) or {}
        server, said = await self._server(card)
        context_length = _context_length(card, said)
        reading = await self._logprobs()
        raw = await self._try_step("logprobs_raw", self._raw, reading)
        routes = Routes()
        if reading is not None:
            routes = await RouteProbe(self._model, _YES, len(reading.top), self._seen, self._try_step).run()
        else:
            why = "log-probabilities of chats, to compare with, do not come"
            self._seen |= dict.fromkeys(("chain", "prefill", "echo"), why)
        context_length = context_length or routes.context_length
        if context_length is None:
            self._seen["context_length"] = "the server does not say"
        several = await self._try_step("several_replies", self._check_multiple_choices) or False
        if not self._full:
            why = "not measured; `ragstone doctor` does"
            self._seen |= dict.fromkeys(("seeds", "regex", "choice", "json_schema", "prefix_cache"), why)
        dialect = self._model.dialect
        return Capabilities(
            model=str(self._model.settings["model"]),
            server=server,
            context_length=context_length,
            reasons=reasons,
            top_logprobs=0 if reading is None else len(reading.top),
            logprobs_raw=raw,
            exact_route=routes.found[0] if routes.found else None,
            exact_routes=routes.found,
            asked_tokens=routes.asked_tokens,
            boundary_clean=routes.boundary_clean,
            several_replies=several,
            seeds=await self._try_step("seeds", self._seeds, several) if self._full else None,
            structured=await self._structured() if self._full else (),
            prefix_cache=await self._try_step("prefix_cache", self._prefix_cache) if self._full else None,
            max_tokens_name=dialect.max_tokens_name,
            refused_parameters=tuple(sorted({*dialect.omitted, *self._refused()})),
            seen=self._seen,
            unmeasured=tuple(self._unmeasured),
            notes=tuple(self._notes),
        )

    def _refused(self) -> set[str]:
        return {"logprobs"} if self._seen.get("logprobs", "").startswith("refused") else set()

    async def _try_step(self, name: str, step: Callable[..., Awaitable[_T]], *given: Any) -> _T | None:
        """The outcome of a step; None when the endpoint refuses it, or it cannot be measured."""
        try:
            try:
                return await step(*given)
            except JudgeUnavailableError:
                # Gone, or only this too much for it? And if neither, it was passing trouble.
                await self._chat(_YES, self._budget, temperature=0.0)
                return await step(*given)
        except RequestRefusedError as refused:
            self._seen[name] = f"refused: {_reason(refused)}"
        except JudgeUnavailableError as error:
            await self._chat(_YES, self._budget, temperature=0.0)
            self._seen[name] = f"could not be measured: {_reason(error)}"
            self._unmeasured.append(name)
            self._notes.append(f"{name} could not be measured ({_reason(error)}); probe again later")
        except JudgeReplyError as error:
            self._seen[name] = str(error)
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            self._seen[name] = f"the reply has another form than expected ({error!r:.100})"
        return None

    async def _chat(
        self,
        messages: list[Message],
        max_tokens: int,
        *,
        temperature: float,
        fields: Mapping[str, Any] | None = None,
        **sampling: Any,
    ) -> dict[str, Any]:
        wanted = {"temperature": temperature, **sampling}
        for _ in range(_ATTEMPTS):
            reply = await self._model.chat(messages, max_tokens=max_tokens, sampling=wanted, fields=fields)
            choices = reply.get("choices")
            if isinstance(choices, list) and choices and all(_is_choice(choice) for choice in choices):
                return reply
        raise JudgeReplyError(f"no message in {_ATTEMPTS} replies, only {sorted(reply)}")

    async def _check_reasoning(self) -> bool:
        """Whether replies begin with reasoning; the first request, so that what it raises ends the probe."""
        try:
            reply = await self._chat(_YES, self._budget, temperature=0.0)
        except RequestRefusedError as refused:
            # Reasoning models that find no room for their reasoning.
            if refused.status != 400 or not _NO_ROOM.search(str(refused)):
                raise
            reply = await self._chat(_YES, _REASONING_TOKENS, temperature=0.0)
            reply["choices"][0]["message"]["reasoning"] = True
        sign = _sign_of_reasoning(reply)
        if sign is None and _cut(reply):
            # Too long for one word. Templates may open the reasoning themselves, so that only its end can be seen.
            sign = _sign_of_reasoning(await self._chat(_YES, 512, temperature=0.0))
        if sign is not None:
            self._budget = self._brief = _REASONING_TOKENS
        self._seen["reasons"] = sign or "replies begin with the answer"
        omitted = self._model.dialect.omitted
        self._seen["temperature"] = "refused, so left out" if "temperature" in omitted else "accepted"
        return sign is not None

    async def _card(self) -> dict[str, Any]:
        listing = await self._model.get("/models")
        cards = [card for card in listing.get("data") or () if isinstance(card, dict)]
        return next((card for card in cards if card.get("id") == self._model.settings["model"]), {})

    async def _server(self, card: Mapping[str, Any]) -> tuple[str | None, dict[str, Any]]:
        """What the server calls itself, and all that it says where it says that."""
        owner = card.get("owned_by")
        if owner not in _VERSIONS:
            return (owner if isinstance(owner, str) else None), {}
        try:
            said = await self._model.get(_VERSIONS[owner])
        except (RequestRefusedError, JudgeUnavailableError):
            said = {}
        version = said.get("version") or said.get("build_info") or ""
        return f"{'ollama' if owner == 'library' else owner} {version}".strip(), said

    async def _logprobs(self) -> TokenLogprobs | None:
        """The first token of a reply, with as many alternatives as there are to have."""
        for k in (20, 5):
            reading = await self._try_step("logprobs", self._read, k, 1.0)
            if reading is not None:
                if not reading.top:
                    self._seen["logprobs"] = "come without alternatives"
                    return None
                if (mass := sum(2.718281828**value for _, value in reading.top)) > 1.02:
                    self._seen["logprobs"] = f"are none: probabilities of one token add up to {mass:.3g}"
                    return None
                self._seen["logprobs"] = f"{len(reading.top)} alternatives came of {k} asked for"
                return reading
            if not self._seen.get("logprobs", "").startswith("refused"):
                break
        self._seen.setdefault("logprobs", "accepted, and none came")
        return None

    async def _read(self, k: int, temperature: float) -> TokenLogprobs | None:
        request = ChatRequest(
            messages=_YES, max_tokens=self._brief, sampling={"temperature": temperature}, top_logprobs=k
        )
        (completion,) = await self._model.complete(request)
        tokens = completion.tokens
        return tokens[0] if tokens else None

    async def _raw(self, reading: TokenLogprobs | None) -> bool | None:
        if reading is None:
            return None
        if "temperature" in self._model.dialect.omitted:
            self._seen["logprobs_raw"] = "the temperature cannot be changed"
            return None
        cold, hot = [await self._read(len(reading.top), temperature) for temperature in (0.5, 2.0)]
        if cold is None or hot is None:
            self._seen["logprobs_raw"] = "log-probabilities do not come every time"
            return None
        raw, self._seen["logprobs_raw"] = are_raw(cold, hot)
        return raw

    async def _check_multiple_choices(self) -> bool:
        reply = await self._chat(_YES, self._brief, temperature=1.0, fields={"n": 2})
        n = len(reply["choices"])
        self._seen["several_replies"] = f"{n} of 2 replies came in one request"
        return n >= 2

    async def _seeds(self, several: bool) -> bool | None:  # noqa: FBT001
        async def drawn(seed: int) -> list[object]:
            fields = {"n": 8} if several else {}
            budget = max(self._budget, 16)
            reply = await self._chat(_DIGITS, budget, temperature=1.0, fields=fields, top_p=1.0, seed=seed)
            return [choice["message"].get("content") for choice in reply["choices"]]

        first, again = await drawn(11), await drawn(11)
        if "seed" in self._model.dialect.omitted:
            self._seen["seeds"] = "refused, so left out"
            return False
        if first != again:
            self._seen["seeds"] = "the same seed gave two replies"
            return False
        for other in (12,) if several else (12, 13, 14, 15, 16, 17):
            if await drawn(other) != first:
                self._seen["seeds"] = "the same seed gave the same replies, another seed others"
                return True
        self._seen["seeds"] = "all seeds gave the same replies"
        return None

    async def _structured(self) -> tuple[str, ...]:
        schema = {
            "type": "object",
            "properties": {"quux": {"type": "string", "enum": ["zz9"]}},
            "required": ["quux"],
            "additionalProperties": False,
        }
        form = {"type": "json_schema", "json_schema": {"name": "probe", "strict": True, "schema": schema}}
        # No free reply to the question would look like these.
        tests: tuple[tuple[str, dict[str, Any], Callable[[str], bool]], ...] = (
            (
                "regex",
                {"structured_outputs": {"regex": "[7]{3}"}, "regex": "[7]{3}"},
                lambda text: text == "777",
            ),
            ("choice", {"structured_outputs": {"choice": ["qx7", "zz9"]}}, lambda text: text in ("qx7", "zz9")),
            ("json_schema", {"response_format": form}, lambda text: bool(json.loads(text) == {"quux": "zz9"})),
        )
        obeyed: list[str] = []
        for name, fields, holds in tests:
            if await self._try_step(name, self._check_constraint, name, fields, holds):
                obeyed.append(name)
        return tuple(obeyed)

    async def _check_constraint(self, name: str, fields: Mapping[str, Any], holds: Callable[[str], bool]) -> bool:
        reply = await self._chat(_YES, max(self._budget, 64), temperature=0.0, fields=fields)
        text = str(reply["choices"][0]["message"].get("content") or "")
        try:
            obeyed = holds(text)
        except ValueError:
            # A schema leaves white space free, and some models do not find the way out of it.
            begun = "".join(text.split())
            obeyed = _cut(reply) and len(begun) > 1 and '{"quux":"zz9"}'.startswith(begun)
            if obeyed:
                self._notes.append("replies under a JSON Schema are padded with whitespace and may be truncated")
        self._seen[name] = f"{'obeyed' if obeyed else 'passed over'}: {' '.join(text.split())!r:.60}"
        return obeyed

    async def _prefix_cache(self) -> float | None:
        for n_words in (1200, 300):
            text = f"Reply with the word yes; pass over the list.\n{' a' * n_words}"
            try:
                await self._chat([{"role": "user", "content": text}], self._brief, temperature=1.0)
            except RequestRefusedError:
                # Too long for the context, as a rule.
                continue
            before = await self._counters()
            reply = await self._chat([{"role": "user", "content": text}], self._brief, temperature=1.0)
            usage = reply["usage"]
            cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens")
            if isinstance(cached, int):
                self._seen["prefix_cache"] = (
                    f"{cached} of {usage['prompt_tokens']} repeated tokens, by the reply's usage"
                )
                return min(1.0, cached / float(usage["prompt_tokens"]))
            after = await self._counters()
            hits, queries = (now - then for now, then in zip(after, before, strict=True))
            if queries > 0:
                self._seen["prefix_cache"] = f"{hits:.0f} of {queries:.0f} tokens, by the server's counters"
                return min(1.0, hits / queries)
            break
        self._seen["prefix_cache"] = "the server does not say"
        return None

    async def _counters(self) -> tuple[float, float]:
        """Tokens that came from the prefix cache, and those that were looked for there; zeros where nothing is told."""
        try:
            text = str((await self._model.get("//metrics")).get("text", ""))
        except (RequestRefusedError, JudgeUnavailableError):
            text = ""
        hits, queries = (
            sum(map(float, re.findall(rf"^vllm:prefix_cache_{what}_total(?:\{{.*\}})? (\S+)$", text, re.MULTILINE)))
            for what in ("hits", "queries")
        )
        return hits, queries


def are_raw(cold: TokenLogprobs, hot: TokenLogprobs) -> tuple[bool | None, str]:
    """Whether log-probabilities stay the same at another temperature, and what was seen.

    Args:
        cold: One token at temperature 0.5, with alternatives.
        hot: The same at temperature 2.

    Returns:
        None when it cannot be told.
    """
    # Far down in the list some servers have a floor.
    low, high = (dict(pair for pair in read.top if pair[1] > -50) for read in (cold, hot))
    common = sorted(low.keys() & high.keys(), key=lambda token: low[token])
    spreads = [values[common[-1]] - values[common[0]] if common else 0.0 for values in (low, high)]
    if min(spreads) < 0.1:
        return None, "the alternatives are too alike to tell"
    ratio = spreads[0] / spreads[1]
    seen = f"between temperatures 0.5 and 2 the distance of two tokens changes {ratio:.3g} times (raw 1, processed 4)"
    return 1 / _SPREAD < ratio < _SPREAD, seen


def _is_choice(choice: object) -> bool:
    return isinstance(choice, dict) and isinstance(choice.get("message"), dict)


def _sign_of_reasoning(reply: Mapping[str, Any]) -> str | None:
    """By what a reply shows that the model reasons first; None where nothing shows it."""
    message = reply["choices"][0]["message"]
    text = message.get("content") or ""
    for name in ("reasoning_content", "reasoning"):
        if message.get(name):
            return f"replies have {name!r} beside the answer"
    if _OUTLOUD.search(text):
        return "replies hold reasoning tags"
    details = (reply.get("usage") or {}).get("completion_tokens_details") or {}
    if details.get("reasoning_tokens"):
        return f"{details['reasoning_tokens']} tokens of reasoning are counted"
    if not text and _cut(reply):
        return "the reply was cut before its first word"
    return None


def _cut(reply: Mapping[str, Any]) -> bool:
    return bool(reply["choices"][0].get("finish_reason") == "length")


def _context_length(card: Mapping[str, Any], said: Mapping[str, Any]) -> int | None:
    # llama.cpp serves less than the model was made for, and its list of models tells the latter.
    places = (card, said.get("default_generation_settings"), card.get("meta"))
    found = (
        place.get(name)
        for place in places
        if isinstance(place, dict)
        for name in ("max_model_len", "context_length", "n_ctx")
    )
    return next((length for length in found if isinstance(length, int) and length > 0), None)


def _reason(error: Exception) -> str:
    return str(error).split(": ", 1)[-1][:200]


@dataclass(frozen=True, slots=True, kw_only=True)
class Routes:
    """What was found."""

    found: tuple[Route, ...] = ()
    """Best first."""
    asked_tokens: int = 0
    boundary_clean: bool | None = None
    context_length: int | None = None


class RouteProbe:
    """Tries each route on one question, and compares the reply's first token with the chat's own log-probability.

    Args:
        model: The endpoint.
        messages: A question.
        k: Alternatives that a chat reports.
        seen: Where to write what was seen.
        tried: Runs a step, and gives None when it fails.
    """

    def __init__(
        self,
        model: LogprobReader,
        messages: list[Message],
        k: int,
        seen: MutableMapping[str, str],
        tried: Tried,
    ) -> None:
        self._model = model
        self._messages = messages
        self._k = k
        self._seen = seen
        self._tried = tried
        self._texts: dict[str, float] = {}
        """The chat's own log-probabilities of the reply's first token, by text."""
        self._ids: dict[int, float] = {}
        """The same, by token id, where the server tells ids."""
        self._prompt: list[int] = []
        self._context_length: int | None = None

    async def run(self) -> Routes:
        """Try all routes."""
        self._texts = await self._tried("chain", self._chat_texts) or {}
        self._prompt = await self._tried("chain", self._prompt_ids) or []
        boundary = None
        asked = 0
        found: list[Route] = []
        if self._prompt:
            boundary = await self._tried("boundary_clean", self._boundary)
            self._ids = await self._tried("chain", self._chat_ids) or {}
            asked = await self._tried("chain", self._chain) or 0
            if asked:
                found.append("chain")
        else:
            self._seen.setdefault("chain", "/tokenize takes no conversations")
            self._seen["echo"] = self._seen["chain"]
        if await self._tried("prefill", self._prefill):
            found.append("prefill")
        if self._prompt and await self._tried("echo", self._echo):
            found.append("echo")
        return Routes(
            found=tuple(found), asked_tokens=asked, boundary_clean=boundary, context_length=self._context_length
        )

    async def _first(self, fields: Mapping[str, Any]) -> dict[str, float]:
        reply = await self._model.chat(
            self._messages,
            max_tokens=1,
            sampling={"temperature": 1.0},
            fields={"logprobs": True, "top_logprobs": self._k, **fields},
        )
        entry = reply["choices"][0]["logprobs"]["content"][0]
        listed = {str(other["token"]): float(other["logprob"]) for other in entry["top_logprobs"]}
        return {token: value for token, value in listed.items() if value > _FLOOR}

    async def _chat_texts(self) -> dict[str, float]:
        return await self._first({})

    async def _chat_ids(self) -> dict[int, float]:
        listed = await self._first({"return_tokens_as_token_ids": True})
        return {
            int(token.removeprefix("token_id:")): value
            for token, value in listed.items()
            if token.startswith("token_id:")
        }

    async def _prompt_ids(self) -> list[int]:
        body = {"messages": self._messages, "add_generation_prompt": True}
        reply = await self._model.post("//tokenize", body, inference=False)
        length = reply.get("max_model_len")
        if isinstance(length, int) and length > 0:
            self._context_length = length
        return [int(token) for token in reply["tokens"]]

    async def _boundary(self) -> bool:
        marker = await self._model.text_ids(_MARKER)
        whole = await self._model.tokenized(
            [*self._messages, {"role": "assistant", "content": _MARKER}],
            add_generation_prompt=False,
            continue_final_message=True,
        )
        clean = whole == [*self._prompt, *marker]
        self._seen["boundary_clean"] = (
            f"conversation and reply are {len(self._prompt)} + {len(marker)} tokens, together {len(whole)}"
            f"{'' if clean else ', and not the same ones'}"
        )
        return clean

    async def _chain(self) -> int:
        """How many tokens can be asked for by id."""
        if not self._ids:
            self._seen["chain"] = "chats do not tell token ids"
            return 0
        (first, *_) = await self._model.text_ids(_MARKER)
        # The conversation's first token is one that no reply begins with: it is reported only where asking helps.
        likeliest = list(self._ids)[:3]
        wanted = list(dict.fromkeys([*likeliest, first, self._prompt[0], *range(_MOST_IDS)]))[:_MOST_IDS]
        rows = await self._model.next_logprobs([self._prompt, [*self._prompt, first]], [wanted, wanted])
        agree = self._agree("chain", [(rows[0][token], self._ids[token]) for token in likeliest])
        return len(wanted) if agree else 0

    async def _prefill(self) -> bool:
        word = self._word()
        if word is None:
            self._seen["prefill"] = "no word among the chat's likeliest tokens to try it with"
            return False
        reply = await self._model.chat(
            [*self._messages, {"role": "assistant", "content": word}],
            max_tokens=1,
            sampling={"temperature": 1.0},
            fields={
                "add_generation_prompt": False,
                "continue_final_message": True,
                "prompt_logprobs": 0,
                "return_token_ids": True,
            },
        )
        entries = reply.get("prompt_logprobs") or reply["choices"][0].get("prompt_logprobs")
        if not entries:
            self._seen["prefill"] = "prompt_logprobs was ignored"
            return False
        if len(entries) != reply["usage"]["prompt_tokens"] or entries[0] is not None:
            self._seen["prefill"] = f"{len(entries)} values came for {reply['usage']['prompt_tokens']} tokens"
            return False
        (last,) = entries[-1].values()
        if last["decoded_token"] != word:
            self._seen["prefill"] = f"the prompt ends with {last['decoded_token']!r}, not with the reply {word!r}"
            return False
        return self._agree("prefill", [(float(last["logprob"]), self._texts[word])])

    async def _echo(self) -> bool:
        word = self._word()
        if word is None:
            self._seen["echo"] = "no word among the chat's likeliest tokens to try it with"
            return False
        reading = await self._model.echoed(self._messages, word)
        if len(reading.logprobs) != 1:
            self._seen["echo"] = f"{word!r} is one token in a reply and {len(reading.logprobs)} by itself"
            return False
        return self._agree("echo", [(reading.logprobs[0], self._texts[word])])

    def _word(self) -> str | None:
        """The likeliest token that is a word by itself."""
        best = sorted(self._texts, key=lambda text: -self._texts[text])
        return next((text for text in best if text.isalnum()), None)

    def _agree(self, name: Route, pairs: list[tuple[float, float]]) -> bool:
        """Whether the route's values (first of each pair) are the chat's."""
        worst = max(abs(here - there) for here, there in pairs)
        agree = worst <= _TOLERANCE
        self._seen[name] = (
            f"{'agrees with' if agree else 'contradicts'} the chat's own value (difference {worst:.1e})"
            + (", as expected of half precision" if agree and worst > _FULL_PRECISION else "")
        )
        return agree
