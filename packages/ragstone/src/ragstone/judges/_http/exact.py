"""Exact probabilities of given replies, over HTTP: token-id prompts, echoed completions."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from ragstone.errors import JudgeReplyError
from ragstone.judges._http.client import ChatClient
from ragstone.judges._http.endpoint import Endpoint
from ragstone.judges._http.errors import RequestRefusedError
from ragstone.judges._http.replies import logprob_or_none, token_ids
from ragstone.judges._model import AsyncOnce, ReplyLogprobs
from ragstone.judges._render import Message

_MAX_ASKED: Final = 128
"""Maximum number of tokens in `logprob_token_ids` of vLLM. They apply to all prompts of a request."""
_MAX_ROWS: Final = 256
"""Maximum number of prompts in one request."""
_MAX_REMEMBERED: Final = 4096
"""Maximum number of short texts whose token ids are cached."""
_MOST_MASS: Final = 1.02
"""Maximum sum of the probabilities of one token, including rounding."""
_SAMPLE_TURN: Final = ({"role": "user", "content": "Hello"}, {"role": "assistant", "content": "yes"})
"""A finished exchange, to detect the token that ends a reply."""


class LogprobReader(ChatClient):
    """A client that reads exact probabilities. A missing value is an error, and is never guessed."""

    def __init__(self, endpoint: Endpoint, **client: Any) -> None:
        super().__init__(endpoint, **client)
        self._texts: dict[str, list[int]] = {}
        self._end = AsyncOnce(self._found_end)
        self._echoes_alone = True
        """Whether the server accepts a completion with 0 tokens. Some servers need at least one."""

    async def chat_ids(self, messages: Sequence[Message]) -> list[int]:
        """Return the token ids of a conversation, up to the start of the reply."""
        return await self.tokenized(messages, add_generation_prompt=True)

    async def text_ids(self, text: str) -> list[int]:
        """Return the token ids of a text, without special tokens."""
        if text in self._texts:
            return list(self._texts[text])
        ids = token_ids(await self.post("//tokenize", {"prompt": text, "add_special_tokens": False}, inference=False))
        if len(text) <= 200 and len(self._texts) < _MAX_REMEMBERED:
            self._texts[text] = list(ids)
        return ids

    async def end_id(self) -> int | None:
        """Return the token that ends a reply, or None if the chat template changes the tokens of a finished reply."""
        return await self._end.get()

    async def _found_end(self) -> int | None:
        question, answer = _SAMPLE_TURN
        opened, reply, closed = await asyncio.gather(
            self.chat_ids([question]),
            self.text_ids(answer["content"]),
            self.tokenized([question, answer], add_generation_prompt=False),
        )
        start = [*opened, *reply]
        return closed[len(start)] if closed[: len(start)] == start and len(closed) > len(start) else None

    async def next_logprobs(
        self, prefixes: Sequence[Sequence[int]], wanted: Sequence[Sequence[int]]
    ) -> list[dict[int, float]]:
        """Return the log-probabilities of tokens after each prefix, with as few requests as possible."""
        read: list[dict[int, float]] = [{} for _ in prefixes]
        batches = list(_batches(wanted))
        replies = await asyncio.gather(
            *(
                self._rows([prefixes[row] for row, _ in batch], sorted({token for _, ids in batch for token in ids}))
                for batch in batches
            )
        )
        for batch, rows in zip(batches, replies, strict=True):
            for (row, ids), values in zip(batch, rows, strict=True):
                for token in ids:
                    if token not in values:
                        raise JudgeReplyError(
                            f"{self.name} did not send the requested log-probability of token {token}"
                        )
                    read[row][token] = values[token]
        return read

    async def _rows(self, prefixes: Sequence[Sequence[int]], ids: Sequence[int]) -> list[dict[int, float]]:
        reply = await self.post(
            "/completions",
            {
                "prompt": [list(prefix) for prefix in prefixes],
                "max_tokens": 1,
                "temperature": 0,
                "logprobs": 1,
                "logprob_token_ids": list(ids),
                "return_tokens_as_token_ids": True,
            },
        )
        rows = [_asked(choice) for choice in self._choices(reply, len(prefixes))]
        for row in rows:
            # The row has different tokens at one position.
            if (mass := math.fsum(map(math.exp, row.values()))) > _MOST_MASS:
                raise JudgeReplyError(
                    f"{self.name} sent log-probabilities of one token whose probabilities add up to {mass:.3g}"
                )
        return rows

    async def echoed(self, messages: Sequence[Message], reply: str) -> ReplyLogprobs:
        """Return the log-probabilities of a reply, from a completion that repeats its prompt."""
        prompt, ids, end = await asyncio.gather(self.chat_ids(messages), self.text_ids(reply), self.end_id())
        whole = [*prompt, *ids, *([] if end is None else [end])]
        try:
            answer = await self._echo(whole)
        except RequestRefusedError:
            if not self._echoes_alone:
                raise
            self._echoes_alone = False
            answer = await self._echo(whole)
        (choice,) = self._choices(answer, 1)
        logprobs = choice.get("logprobs")
        listing = logprobs.get("token_logprobs") if isinstance(logprobs, Mapping) else None
        if not isinstance(listing, list) or not len(whole) <= len(listing) <= len(whole) + 1:
            raise JudgeReplyError(
                f"{self.name} did not repeat the {len(whole)} tokens of the prompt with their log-probabilities"
            )
        values = [logprob_or_none(value) for value in listing[len(prompt) : len(whole)]]
        read = [value for value in values if value is not None]
        if not read or len(read) < len(values):
            raise JudgeReplyError(f"a log-probability of {reply!r} is missing")
        return ReplyLogprobs(logprobs=tuple(read[: len(ids)]), end_logprob=None if end is None else read[-1])

    async def _echo(self, ids: Sequence[int]) -> dict[str, Any]:
        n = 0 if self._echoes_alone else 1
        body = {"prompt": [list(ids)], "echo": True, "max_tokens": n, "temperature": 0, "logprobs": 1}
        return await self.post("/completions", body)

    def _choices(self, reply: Mapping[str, Any], n: int) -> list[Mapping[str, Any]]:
        choices = reply.get("choices")
        fine = isinstance(choices, list) and all(
            isinstance(choice, Mapping) and type(choice.get("index", 0)) is int for choice in choices
        )
        if not fine or sorted(choice.get("index", 0) for choice in choices or ()) != list(range(n)):
            raise JudgeReplyError(f"{self.name} did not return exactly one completion for each of {n} prompts")
        assert isinstance(choices, list)  # noqa: S101  checked above
        return sorted(choices, key=lambda choice: int(choice.get("index", 0)))


def _batches(wanted: Sequence[Sequence[int]]) -> Iterator[list[tuple[int, tuple[int, ...]]]]:
    """Yield batches of rows with their tokens that fit into one request. A row with too many tokens is split."""
    batch: list[tuple[int, tuple[int, ...]]] = []
    asked: set[int] = set()
    for row, tokens in enumerate(wanted):
        ids = sorted(set(tokens))
        for start in range(0, len(ids), _MAX_ASKED):
            part = tuple(ids[start : start + _MAX_ASKED])
            if batch and (len(asked | set(part)) > _MAX_ASKED or len(batch) >= _MAX_ROWS):
                yield batch
                batch, asked = [], set()
            batch.append((row, part))
            asked |= set(part)
    if batch:
        yield batch


def _asked(choice: Mapping[str, Any]) -> dict[int, float]:
    """Return the log-probabilities of a choice's first token, by token id."""
    logprobs = choice.get("logprobs")
    listing = logprobs.get("top_logprobs") if isinstance(logprobs, Mapping) else None
    first = listing[0] if isinstance(listing, list) and listing else None
    values: dict[int, float] = {}
    for name, value in first.items() if isinstance(first, Mapping) else ():
        # By id, because different tokens may have the same text.
        _, mark, token = str(name).rpartition("token_id:")
        number = logprob_or_none(value)
        if mark and token.isascii() and token.isdecimal() and number is not None:
            values[int(token)] = number
    return values
