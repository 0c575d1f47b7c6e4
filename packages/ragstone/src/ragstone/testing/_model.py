"""A chat model whose every probability is known, because the test wrote it down."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal

from ragstone.judges import Capabilities, ChatRequest, Completion, ForcedReading, Message, TokenReading, record_usage
from ragstone.schema import Usage

__all__ = ["ScriptedModel"]

# Words are cut into pieces of four letters; punctuation, and as a rule each digit, is a token of its own.
_PIECE: Final = r" ?[^\W\d_]{{1,4}}|[0-9]{{1,{digits}}}|."
_IMPOSSIBLE: Final = -100.0

Replies = Mapping[str, float]


class ScriptedModel:
    """A language model in miniature: replies with given probabilities, a tokeniser, and exact log-probabilities.

    Everything it says of itself agrees: sampled replies have the frequencies of the script, and the chain of its
    next-token probabilities gives each reply the probability that the script gives it.

    Args:
        replies: Probability of each reply, or a function of the messages that says so. They must add up to 1.
        split: Share of each reply's probability that goes to another spelling of its first token: "NO" as "N" and "O".
        exact_route: What its capabilities say.
        top_logprobs: Alternatives that it reports for each token; 0 for a model without log-probabilities.
        several_replies: Whether one request gives several replies.
        token_digits: How many digits a token can hold; most tokenisers have 1, some have 3.
        seed: Draws the samples.

    Attributes:
        requests: All `ChatRequest`s, in order.
        rows: How many next-token distributions were read.

    Example:
        ```python
        model = ScriptedModel({"NO-RESPONSE": 0.25, "Oslo": 0.75})
        reading = await ChatReader(model).abstention("Where?", ["In Oslo."])
        ```
    """

    def __init__(
        self,
        replies: Replies | Callable[[Sequence[Message]], Replies],
        *,
        split: float = 0.0,
        exact_route: Literal["chain", "prefill", "echo"] | None = "chain",
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
        self._random = random.Random(seed)  # noqa: S311  replies of a fake
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
        self._conversations: dict[tuple[int, ...], tuple[Message, ...]] = {}
        self.requests: list[ChatRequest] = []
        self.rows = 0

    @property
    def name(self) -> str:
        """The name given."""
        return self._name

    @property
    def shape(self) -> Mapping[str, object]:
        """Its name."""
        return {"model": self._name}

    def script(self, messages: Sequence[Message]) -> Replies:
        """The probability of each reply to `messages`."""
        replies = self._replies(messages) if callable(self._replies) else self._replies
        if not math.isclose(sum(replies.values()), 1.0, abs_tol=1e-9):
            msg = f"the probabilities of replies must add up to 1, got {sum(replies.values())!r}"
            raise ValueError(msg)
        return replies

    async def prepare(self) -> None:
        """Nothing to find out."""

    async def capabilities(self, *, fresh: bool = False) -> Capabilities:  # noqa: ARG002
        """What the test said it can do."""
        return self._capabilities

    async def complete(self, request: ChatRequest) -> tuple[Completion, ...]:
        """Reply from the script: the likeliest tokens at temperature 0, else drawn."""
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
            return (*completions, *[c for _ in range(rest) for c in await self._one_more(request)])
        return tuple(completions)

    async def _one_more(self, request: ChatRequest) -> tuple[Completion, ...]:
        return await self.complete(
            ChatRequest(
                messages=request.messages,
                max_tokens=request.max_tokens,
                sampling=request.sampling,
                top_logprobs=request.top_logprobs,
            )
        )

    def _spoken(self, request: ChatRequest, *, greedy: bool) -> Completion:
        said: list[int] = []
        readings: list[TokenReading] = []
        paths = self._paths(request.messages)
        while len(said) < request.max_tokens:
            nexts = self._next(paths, tuple(said))
            ranked = sorted(nexts.items(), key=lambda item: (-item[1], item[0]))
            if greedy:
                token, p = ranked[0]
            else:
                ((token, p),) = self._random.choices(ranked, [p for _, p in ranked])
            top = tuple((self._pieces[other], math.log(q)) for other, q in ranked[: request.top_logprobs] if q > 0)
            readings.append(TokenReading(text=self._pieces[token], logprob=math.log(p), top=top))
            if self._pieces[token] == "<end>":
                break
            said.append(token)
        cut = not readings or readings[-1].text != "<end>"
        return Completion(
            text="".join(self._pieces[token] for token in said),
            finish="length" if cut else "stop",
            tokens=tuple(r for r in readings if r.text != "<end>") if request.top_logprobs else None,
        )

    async def complete_number(
        self, messages: Sequence[Message], low: int, high: int, *, max_tokens: int, sampling: Mapping[str, Any]
    ) -> Completion | None:
        """The likeliest reply of the script that is a number of the range, `low` when none is."""
        self.requests.append(ChatRequest(messages=messages, max_tokens=max_tokens, sampling=sampling))
        record_usage(Usage(calls=1, input_tokens=len(self._chat(messages)), output_tokens=1))
        numbers = {text: p for text, p in self.script(messages).items() if text.isdigit() and low <= int(text) <= high}
        return Completion(text=max(numbers, key=lambda text: numbers[text]) if numbers else str(low))

    async def chat_ids(self, messages: Sequence[Message]) -> list[int]:
        """Token ids of the conversation with the reply's opening."""
        return list(self._chat(messages))

    async def text_ids(self, text: str) -> list[int]:
        """Token ids of a text by itself."""
        return self._encode(text)

    async def end_id(self) -> int | None:
        """The token that ends a reply."""
        return self._id("<end>")

    async def next_logprobs(
        self, prefixes: Sequence[Sequence[int]], wanted: Sequence[Sequence[int]]
    ) -> list[dict[int, float]]:
        """The script's log-probabilities; -100 for what it never says."""
        self.rows += len(prefixes)
        record_usage(Usage(calls=1, input_tokens=sum(map(len, prefixes)), output_tokens=len(prefixes)))
        opening = self._id("<assistant>")
        read = []
        for prefix, tokens in zip(prefixes, wanted, strict=True):
            start = max(i for i, token in enumerate(prefix) if token == opening) + 1
            messages = self._conversations[tuple(prefix[:start])]
            nexts = self._next(self._paths(messages), tuple(prefix[start:]))
            read.append({t: math.log(nexts[t]) if nexts.get(t, 0) > 0 else _IMPOSSIBLE for t in tokens})
        return read

    async def forced(self, messages: Sequence[Message], reply: str) -> ForcedReading:
        """The script's log-probabilities of the canonical tokens of `reply`."""
        ids = [*self._encode(reply), self._id("<end>")]
        prompt = self._chat(messages)
        rows = await self.next_logprobs([[*prompt, *ids[:i]] for i in range(len(ids))], [[token] for token in ids])
        logprobs = [row[token] for row, token in zip(rows, ids, strict=True)]
        return ForcedReading(logprobs=tuple(logprobs[:-1]), end_logprob=logprobs[-1])

    async def aclose(self) -> None:
        """Nothing to let go of."""

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
            ids += [self._id(f"<{message['role']}>"), *self._encode(message["content"]), self._id("<end>")]
        key = (*ids, self._id("<assistant>"))
        self._conversations[key] = tuple(messages)
        return key

    def _paths(self, messages: Sequence[Message]) -> list[tuple[tuple[int, ...], float]]:
        """Each spelling of each reply, as tokens with the end, and its probability."""
        return [path for text, p in self.script(messages).items() for path in self._spellings(text, p)]

    def _spellings(self, text: str, p: float) -> Iterator[tuple[tuple[int, ...], float]]:
        canonical = self._encode(text)
        end = self._id("<end>")
        first = self._pieces[canonical[0]] if canonical else ""
        if self._split and len(first) > 1:
            other = [self._id(first[:1]), self._id(first[1:]), *canonical[1:]]
            yield (*other, end), p * self._split
            p *= 1 - self._split
        yield (*canonical, end), p

    def _next(self, paths: Sequence[tuple[tuple[int, ...], float]], said: tuple[int, ...]) -> dict[int, float]:
        """Probability of each next token after `said`; empty when the script never says that."""
        nexts: dict[int, float] = {}
        total = 0.0
        for path, p in paths:
            if len(path) > len(said) and path[: len(said)] == said:
                nexts[path[len(said)]] = nexts.get(path[len(said)], 0.0) + p
                total += p
        return {token: p / total for token, p in nexts.items()} if total > 0 else {}
