"""Chat model in which every probability is known."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Literal

from ragstone.judges import Capabilities, ChatRequest, Completion, Message, ReplyLogprobs, TokenLogprobs, record_usage
from ragstone.schema import Usage

_SPECIAL: Final = re.compile("(<(?:system|user|assistant|end)>)")
# Words are split into pieces of four letters. Punctuation and, by default, each digit is a separate token.
_PIECE: Final = r" ?[^\W\d_]{{1,4}}|[0-9]{{1,{digits}}}|."
IMPOSSIBLE: Final = -100.0
"""Log-probability of tokens that cannot follow."""

END: Final = "<end>"
"""Token that ends a turn."""

Replies = Mapping[str, float]


class ScriptedModel:
    """A small language model: replies with given probabilities, a tokenizer, and exact log-probabilities.

    Its results are consistent: sampled replies have the given probabilities as frequencies, and so has the product of
    the next-token probabilities of each reply.

    Args:
        replies: Probability of each reply, or a function of the messages that returns them. They must add up to 1.
        split: Share of each reply's probability for another tokenization of its first token: "NO" as "N" and "O".
        exact_route: Exact route in its capabilities.
        top_logprobs: Number of alternatives per token, or 0 for a model without log-probabilities.
        several_replies: Whether one request can return several replies.
        token_digits: Maximum number of digits in a token. Most tokenizers have 1, some have 3.
        seed: Seed for sampling.

    Attributes:
        requests: All `ChatRequest`s, in order.
        rows: Number of next-token distributions that were read.

    Examples:
        ```python
        model = ScriptedModel({"NO-RESPONSE": 0.25, "Oslo": 0.75})
        reading = await ChatReader(model).estimate_abstention("Where?", ["In Oslo."])
        ```
    """

    def __init__(
        self,
        replies: Replies | Callable[[Sequence[Message]], Replies],
        *,
        split: float = 0.0,
        exact_route: Literal["chain", "echo"] | None = "chain",
        top_logprobs: int = 20,
        several_replies: bool = True,
        token_digits: int = 1,
        name: str = "scripted model",
        seed: int = 7,
    ) -> None:
        self._replies = replies
        self._split = split
        self._piece = re.compile(_PIECE.format(digits=token_digits), re.DOTALL)
        self._name = name
        self._random = random.Random(seed)
        self._capabilities = Capabilities(
            model=name,
            exact_route=exact_route,
            top_logprobs=top_logprobs,
            logprobs_raw=True if top_logprobs else None,
            asked_tokens=128 if exact_route == "chain" else 0,
            boundary_clean=True,
            structured=("regex",),
            several_replies=several_replies,
        )
        self._ids: dict[str, int] = {}
        self._pieces: list[str] = []
        self.requests: list[ChatRequest] = []
        self.rows = 0

    @property
    def name(self) -> str:
        """The name."""
        return self._name

    @property
    def settings(self) -> Mapping[str, object]:
        """The name as a setting."""
        return {"model": self._name}

    def script(self, messages: Sequence[Message]) -> Replies:
        """Return the probability of each reply to `messages`."""
        replies = self._replies(messages) if callable(self._replies) else self._replies
        if not math.isclose(sum(replies.values()), 1.0, abs_tol=1e-9):
            raise ValueError(f"the probabilities of replies must add up to 1, got {sum(replies.values())!r}")
        return replies

    async def prepare(self) -> None:
        """Do nothing."""

    async def capabilities(self, *, fresh: bool = False) -> Capabilities:
        """Return the capabilities that the test defined."""
        return self._capabilities

    async def complete(self, request: ChatRequest) -> tuple[Completion, ...]:
        """Return replies of the script: the most likely tokens at temperature 0, else sampled ones."""
        self.requests.append(request)
        n = request.n if self._capabilities.several_replies else 1
        greedy = request.sampling.get("temperature", 1.0) == 0
        completions = []
        for _ in range(n):
            record_usage(Usage(calls=0, output_tokens=1))
            completions.append(self._spoken(request, greedy=greedy))
        record_usage(Usage(calls=1, input_tokens=len(self._chat(request.messages))))
        rest = request.n - n
        if rest:
            return (*completions, *[c for _ in range(rest) for c in await self.complete(replace(request, n=1))])
        return tuple(completions)

    def _spoken(self, request: ChatRequest, *, greedy: bool) -> Completion:
        reply: list[int] = []
        readings: list[TokenLogprobs] = []
        paths = self._paths(request.messages)
        while len(reply) < request.max_tokens:
            nexts = self._next(paths, tuple(reply))
            ranked = sorted(nexts.items(), key=lambda item: (-item[1], item[0]))
            if greedy:
                token, p = ranked[0]
            else:
                ((token, p),) = self._random.choices(ranked, [p for _, p in ranked])
            top = tuple((self._pieces[other], math.log(q)) for other, q in ranked[: request.top_logprobs] if q > 0)
            readings.append(TokenLogprobs(text=self._pieces[token], logprob=math.log(p), top=top))
            if self._pieces[token] == END:
                break
            reply.append(token)
        cut = not readings or readings[-1].text != END
        return Completion(
            text="".join(self._pieces[token] for token in reply),
            finish="length" if cut else "stop",
            tokens=tuple(r for r in readings if r.text != END) if request.top_logprobs else None,
        )

    async def complete_number(
        self, messages: Sequence[Message], low: int, high: int, *, max_tokens: int, sampling: Mapping[str, Any]
    ) -> Completion | None:
        """Return the most likely reply of the script that is a number in the range, or `low` without one."""
        self.requests.append(ChatRequest(messages=messages, max_tokens=max_tokens, sampling=sampling))
        record_usage(Usage(calls=1, input_tokens=len(self._chat(messages)), output_tokens=1))
        numbers = {text: p for text, p in self.script(messages).items() if text.isdigit() and low <= int(text) <= high}
        return Completion(text=max(numbers, key=lambda text: numbers[text]) if numbers else str(low))

    async def complete_json(
        self, messages: Sequence[Message], schema: Mapping[str, Any], *, max_tokens: int, sampling: Mapping[str, Any]
    ) -> Completion | None:
        """Return the most likely reply of the script that is JSON, or None without one."""
        del schema
        values = {text: p for text, p in self.script(messages).items() if text.startswith(("{", "["))}
        if not values:
            return None
        self.requests.append(ChatRequest(messages=messages, max_tokens=max_tokens, sampling=sampling))
        record_usage(Usage(calls=1, input_tokens=len(self._chat(messages)), output_tokens=1))
        return Completion(text=max(values, key=lambda text: values[text]))

    async def chat_ids(self, messages: Sequence[Message]) -> list[int]:
        """Return the token ids of the conversation and of the start of the reply."""
        return list(self._chat(messages))

    async def text_ids(self, text: str) -> list[int]:
        """Return the token ids of a text."""
        return self._encode(text)

    async def end_id(self) -> int | None:
        """Return the token that ends a reply."""
        return self._id(END)

    async def next_logprobs(
        self, prefixes: Sequence[Sequence[int]], wanted: Sequence[Sequence[int]]
    ) -> list[dict[int, float]]:
        """Return the log-probabilities of the script, or -100 for tokens that cannot follow."""
        self.rows += len(prefixes)
        record_usage(Usage(calls=1, input_tokens=sum(map(len, prefixes)), output_tokens=len(prefixes)))
        read = []
        for prefix, tokens in zip(prefixes, wanted, strict=True):
            nexts = self.next_tokens(prefix)
            read.append({t: math.log(nexts[t]) if nexts.get(t, 0) > 0 else IMPOSSIBLE for t in tokens})
        return read

    async def reply_logprobs(self, messages: Sequence[Message], reply: str) -> ReplyLogprobs:
        """Return the log-probabilities of the canonical tokens of `reply`."""
        ids = [*self._encode(reply), self._id(END)]
        prompt = self._chat(messages)
        rows = await self.next_logprobs([[*prompt, *ids[:i]] for i in range(len(ids))], [[token] for token in ids])
        logprobs = [row[token] for row, token in zip(rows, ids, strict=True)]
        return ReplyLogprobs(logprobs=tuple(logprobs[:-1]), end_logprob=logprobs[-1])

    async def aclose(self) -> None:
        """Do nothing."""

    def tokens_of(self, text: str) -> list[int]:
        """Return the token ids of a text, in which "<user>", "<assistant>" and "<end>" are special tokens."""
        ids: list[int] = []
        for part in _SPECIAL.split(text):
            ids += [self._id(part)] if _SPECIAL.fullmatch(part) else self._encode(part)
        return ids

    def turns(self, messages: Sequence[Message], *, reply: bool = True, open_end: bool = False) -> list[int]:
        """Return the token ids of a conversation.

        Args:
            messages: The conversation.
            reply: Whether the start of a reply follows.
            open_end: Whether the end token of the last message is omitted, so that it can be continued.
        """
        ids = list(self._chat(messages))
        if open_end:
            return ids[:-2]
        return ids if reply else ids[:-1]

    def text_of(self, token: int) -> str:
        """Return the text of a token."""
        return self._pieces[token] if 0 <= token < len(self._pieces) else f"<unused{token}>"

    def reply_start(self, ids: Sequence[int]) -> int | None:
        """Return the index at which the reply starts, if the last turn is an unfinished reply. Otherwise return None."""
        opening, end = self._id("<assistant>"), self._id(END)
        for place in range(len(ids) - 1, -1, -1):
            if ids[place] == end:
                return None
            if ids[place] == opening:
                return place + 1
        return None

    def next_tokens(self, ids: Sequence[int]) -> dict[int, float]:
        """Return the probability of each next token. Without a matching reply, the end of the turn has probability 1."""
        start = self.reply_start(ids)
        nexts = {} if start is None else self._next(self._paths(self._read(ids[:start])), tuple(ids[start:]))
        return nexts or {self._id(END): 1.0}

    def _read(self, ids: Sequence[int]) -> list[Message]:
        """Decode token ids to a conversation, the inverse of `_chat`."""
        messages: list[Message] = []
        for token in ids:
            piece = self.text_of(token)
            if _SPECIAL.fullmatch(piece):
                if piece != END:
                    messages.append({"role": piece[1:-1], "content": ""})
            elif messages:
                messages[-1]["content"] += piece
        return messages[:-1]

    def _id(self, piece: str) -> int:
        if piece not in self._ids:
            self._ids[piece] = len(self._pieces)
            self._pieces.append(piece)
        return self._ids[piece]

    def _encode(self, text: str) -> list[int]:
        return [self._id(piece) for piece in self._piece.findall(text)]

    def _chat(self, messages: Sequence[Message]) -> tuple[int, ...]:
        ids: list[int] = []
        for message in messages:
            ids += [self._id(f"<{message['role']}>"), *self._encode(message["content"]), self._id(END)]
        return (*ids, self._id("<assistant>"))

    def _paths(self, messages: Sequence[Message]) -> list[tuple[tuple[int, ...], float]]:
        """Return each tokenization of each reply, including the end token, with its probability."""
        return [path for text, p in self.script(messages).items() for path in self._spellings(text, p)]

    def _spellings(self, text: str, p: float) -> Iterator[tuple[tuple[int, ...], float]]:
        canonical = self._encode(text)
        end = self._id(END)
        first = self._pieces[canonical[0]] if canonical else ""
        if self._split and len(first) > 1:
            other = [self._id(first[:1]), self._id(first[1:]), *canonical[1:]]
            yield (*other, end), p * self._split
            p *= 1 - self._split
        yield (*canonical, end), p

    def _next(self, paths: Sequence[tuple[tuple[int, ...], float]], start: tuple[int, ...]) -> dict[int, float]:
        """Return the probability of each token after `start`. The result is empty if no reply starts with it."""
        nexts: dict[int, float] = {}
        total = 0.0
        for path, p in paths:
            if len(path) > len(start) and path[: len(start)] == start:
                nexts[path[len(start)]] = nexts.get(path[len(start)], 0.0) + p
                total += p
        return {token: p / total for token, p in nexts.items()} if total > 0 else {}
