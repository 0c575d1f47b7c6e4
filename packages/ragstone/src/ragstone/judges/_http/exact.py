"""Exact probabilities of given replies, over HTTP: token-id prompts, prefilled chats, echoed completions."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from ragstone.errors import JudgeReplyError
from ragstone.judges._cache.replies import CachedReplies
from ragstone.judges._http.client import ChatClient
from ragstone.judges._http.endpoint import Endpoint, RequestRefusedError
from ragstone.judges._http.replies import logprob_or_none, token_ids
from ragstone.judges._model import AsyncOnce, ReplyLogprobs
from ragstone.judges._render import Message

__all__ = ["LogprobReader"]

_MAX_ASKED: Final = 128
"""Tokens that vLLM takes in `logprob_token_ids`; they hold for all prompts of a request."""
_MAX_ROWS: Final = 256
"""Prompts in one request."""
_MAX_REMEMBERED: Final = 4096
"""Short texts whose token ids are kept."""
_MOST_MASS: Final = 1.02
"""What the probabilities of one token may add up to, rounding included."""
_SAMPLE_TURN: Final = ({"role": "user", "content": "Hello"}, {"role": "assistant", "content": "yes"})
"""A finished exchange, to see what ends a reply."""


class LogprobReader(ChatClient):
    """A client that reads exact probabilities. What a reply lacks is an error, never a guess."""

    def __init__(
        self, endpoint: Endpoint, *, model: str | None, extra_body: Mapping[str, Any] | None, cached: CachedReplies
    ) -> None:
        super().__init__(endpoint, model=model, extra_body=extra_body, cached=cached)
        self._texts: dict[str, list[int]] = {}
        self._end = AsyncOnce(self._found_end)
        self._tail = AsyncOnce(self._found_tail)
        self._echoes_alone = True
        """Whether a completion of no tokens is taken; some servers want at least one."""

    async def chat_ids(self, messages: Sequence[Message]) -> list[int]:
        """Token ids of a conversation, up to where the reply begins.

        Raises:
            JudgeError: The endpoint does not tokenise, or cannot be asked.
        """
        return await self.tokenized(messages, add_generation_prompt=True)

    async def text_ids(self, text: str) -> list[int]:
        """Token ids of a text by itself, without special tokens.

        Raises:
            JudgeError: The endpoint does not tokenise, or cannot be asked.
        """
        if text in self._texts:
            return list(self._texts[text])
        reply = await self.post("//tokenize", {"prompt": text, "add_special_tokens": False}, inference=False)
        ids = token_ids(reply)
        if len(text) <= 200 and len(self._texts) < _MAX_REMEMBERED:
            self._texts[text] = list(ids)
        return ids

    async def end_id(self) -> int | None:
        """The token that ends a reply; None where the chat template writes replies in another way than it opens them.

        Raises:
            JudgeError: The endpoint does not tokenise, or cannot be asked.
        """
        return await self._end.get()

    async def _found_end(self) -> int | None:
        question, answer = _SAMPLE_TURN
        opened, said, closed = await asyncio.gather(
            self.chat_ids([question]),
            self.text_ids(answer["content"]),
            self.tokenized([question, answer], add_generation_prompt=False),
        )
        start = [*opened, *said]
        return closed[len(start)] if closed[: len(start)] == start and len(closed) > len(start) else None

    async def next_logprobs(
        self, prefixes: Sequence[Sequence[int]], wanted: Sequence[Sequence[int]]
    ) -> list[dict[int, float]]:
        """Log-probabilities of the wanted tokens after each prefix: one request, or as few as the endpoint's limits allow.

        Raises:
            JudgeReplyError: The reply lacks a prefix or a token that was asked for.
            JudgeError: No reply.
        """
        read: list[dict[int, float]] = [{} for _ in prefixes]
        batches = list(_batches(wanted))
        replies = await asyncio.gather(
            *(
                self._rows([prefixes[row] for row, _ in batch], sorted({token for _, ids in batch for token in ids}))
                for batch in batches
            )
        )
        for batch, rows in zip(batches, replies, strict=True):
            for (row, ids), found in zip(batch, rows, strict=True):
                for token in ids:
                    if token not in found:
                        raise JudgeReplyError(
                            f"{self.name} was asked for the log-probability of token {token} and did not tell it"
                        )
                    read[row][token] = found[token]
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
            # Different tokens at one place.
            if (mass := math.fsum(map(math.exp, row.values()))) > _MOST_MASS:
                raise JudgeReplyError(
                    f"{self.name} sent log-probabilities of one token that add up to {mass:.3g} as probabilities"
                )
        return rows

    async def chained(self, messages: Sequence[Message], reply: str) -> ReplyLogprobs:
        """Log-probabilities of a reply, each token asked for by its id.

        Raises:
            JudgeReplyError: The endpoint's answer does not hold them.
            JudgeError: No answer.
        """
        prompt, said, end = await asyncio.gather(self.chat_ids(messages), self.text_ids(reply), self.end_id())
        path = said if end is None else [*said, end]
        rows = await self.next_logprobs(
            [[*prompt, *path[:place]] for place in range(len(path))], [[token] for token in path]
        )
        read = [row[token] for row, token in zip(rows, path, strict=True)]
        return ReplyLogprobs(logprobs=tuple(read[: len(said)]), end_logprob=None if end is None else read[-1])

    async def prefilled(self, messages: Sequence[Message], reply: str) -> ReplyLogprobs:
        """Log-probabilities of a reply, from a chat in which it has been given already.

        Raises:
            JudgeReplyError: The endpoint's answer does not hold them, or its template changes the reply.
            JudgeError: No answer.
        """
        tail, (texts, logprobs) = await asyncio.gather(self._tail.get(), self._prompt_read(messages, reply))
        end = len(texts) - tail
        start = _start_of(texts[:end], reply)
        if start is None:
            raise JudgeReplyError(f"{self.name} did not write {reply!r} into the conversation as it was given")
        return ReplyLogprobs(
            logprobs=tuple(_given(logprobs[start:end], reply)),
            end_logprob=_given(logprobs[end : end + 1], reply)[0] if tail else None,
        )

    async def _found_tail(self) -> int:
        """How many tokens the chat template writes after a finished reply."""
        question, answer = _SAMPLE_TURN
        (opened, _), (closed, _) = await asyncio.gather(
            self._prompt_read([question], answer["content"], continued=True),
            self._prompt_read([question], answer["content"]),
        )
        return len(closed) - len(opened) if closed[: len(opened)] == opened else 0

    async def _prompt_read(
        self, messages: Sequence[Message], reply: str, *, continued: bool = False
    ) -> tuple[list[str], list[float | None]]:
        """The tokens of a conversation with its reply, and their log-probabilities."""
        fields: dict[str, Any] = {"add_generation_prompt": False, "prompt_logprobs": 0}
        if continued:
            fields["continue_final_message"] = True
        whole = await self.chat(
            [*messages, {"role": "assistant", "content": reply}],
            max_tokens=1,
            sampling={"temperature": 0},
            fields=fields,
        )
        listing = whole.get("prompt_logprobs")
        if not isinstance(listing, list) or not listing:
            raise JudgeReplyError(f"{self.name} was asked for the log-probabilities of its prompt and sent none")
        texts: list[str] = []
        logprobs: list[float | None] = []
        for entry in listing:
            # The prompt's own token is there whatever its rank, and the only one when none beside it was asked for.
            token = next(iter(entry.values()), None) if isinstance(entry, Mapping) else None
            told = token if isinstance(token, Mapping) else {}
            texts.append(str(told.get("decoded_token", "")))
            logprobs.append(logprob_or_none(told.get("logprob")))
        return texts, logprobs

    async def echoed(self, messages: Sequence[Message], reply: str) -> ReplyLogprobs:
        """Log-probabilities of a reply, from a completion that repeats its prompt.

        Raises:
            JudgeReplyError: The endpoint's answer does not hold them.
            JudgeError: No answer.
        """
        prompt, said, end = await asyncio.gather(self.chat_ids(messages), self.text_ids(reply), self.end_id())
        whole = [*prompt, *said, *([] if end is None else [end])]
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
                f"{self.name} was asked to repeat {len(whole)} tokens with their log-probabilities and did not"
            )
        read = _given([logprob_or_none(value) for value in listing[len(prompt) : len(whole)]], reply)
        return ReplyLogprobs(logprobs=tuple(read[: len(said)]), end_logprob=None if end is None else read[-1])

    async def _echo(self, ids: Sequence[int]) -> dict[str, Any]:
        body = {
            "prompt": [list(ids)],
            "echo": True,
            "max_tokens": 0 if self._echoes_alone else 1,
            "temperature": 0,
            "logprobs": 1,
        }
        return await self.post("/completions", body)

    def _choices(self, reply: Mapping[str, Any], n: int) -> list[Mapping[str, Any]]:
        choices = reply.get("choices")
        fine = isinstance(choices, list) and all(
            isinstance(choice, Mapping) and type(choice.get("index", 0)) is int for choice in choices
        )
        if not fine or sorted(choice.get("index", 0) for choice in choices or ()) != list(range(n)):
            raise JudgeReplyError(f"{self.name} was sent {n} prompts and did not answer each of them once")
        assert isinstance(choices, list)  # noqa: S101  seen above
        return sorted(choices, key=lambda choice: int(choice.get("index", 0)))


def _batches(wanted: Sequence[Sequence[int]]) -> Iterator[list[tuple[int, tuple[int, ...]]]]:
    """Rows with the tokens to ask for, as many as one request can hold; a row that wants too many comes several times."""
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
    """The log-probabilities of a choice's first token, by token id."""
    logprobs = choice.get("logprobs")
    listing = logprobs.get("top_logprobs") if isinstance(logprobs, Mapping) else None
    first = listing[0] if isinstance(listing, list) and listing else None
    found: dict[int, float] = {}
    for name, value in first.items() if isinstance(first, Mapping) else ():
        # By id: different tokens may share a text.
        _, mark, token = str(name).rpartition("token_id:")
        number = logprob_or_none(value)
        if mark and token.isascii() and token.isdecimal() and number is not None:
            found[int(token)] = number
    return found


def _start_of(texts: Sequence[str], reply: str) -> int | None:
    """Where the tokens begin that spell the reply at the end of a text; None when none do."""
    spelled = ""
    for place in range(len(texts) - 1, -1, -1):
        spelled = texts[place] + spelled
        # Some tokenisers write a blank before the first word.
        if spelled in (reply, f" {reply}"):
            return place
        if len(spelled) > len(reply):
            break
    return None


def _given(values: Sequence[float | None], reply: str) -> list[float]:
    found = [value for value in values if value is not None]
    if not found or len(found) < len(values):
        raise JudgeReplyError(f"a log-probability is missing among those of {reply!r}")
    return found
