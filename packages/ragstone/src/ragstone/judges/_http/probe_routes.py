"""Finding the routes to the exact probability of a given reply, and believing none that disagrees with the chat."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from ragstone.judges._http.exact import ExactReads
from ragstone.judges._render import Message

if TYPE_CHECKING:
    from ragstone.judges.openai_model import OpenAICompatibleModel

__all__ = ["RouteProbe", "Routes"]

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
        model: OpenAICompatibleModel,
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
        reading = await ExactReads(self._model).echoed(self._messages, word)
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
