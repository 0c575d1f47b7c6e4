"""Requests through the reply cache: which replies may be cached, by which key, and errors of the cache file."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import os
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit, urlunsplit
from weakref import WeakValueDictionary

from pydantic import ValidationError

from ragstone._util.variables import assigned
from ragstone.errors import StoreError
from ragstone.judges._cache.file import ReplyCache
from ragstone.judges._model import Capabilities, PerLoop, record_usage
from ragstone.schema import Usage

T = TypeVar("T")

_logger = logging.getLogger("ragstone")

_CAPABILITIES_MAX_AGE_S: Final = 86_400.0
_SHOWS_PROMPT: Final = ("echo", "prompt_logprobs", "return_token_ids", "return_prompt_text")
"""Fields that make a reply repeat the prompt."""

bypassed: Final[ContextVar[bool]] = ContextVar("ragstone_cache_bypassed", default=False)
repeat_number: Final[ContextVar[int]] = ContextVar("ragstone_cache_repeat", default=0)


def cache_bypassed() -> AbstractContextManager[bool]:
    """Send every request inside the block, because an endpoint cannot be measured with cached replies."""
    return assigned(bypassed, value=True)


def repeat_replies(number: int) -> AbstractContextManager[int]:
    """Use separate cached replies for a repeat inside the block.

    Every request of repeat 1 is sent although the cache has the reply of repeat 0 (the usual one). Its reply is cached
    too, so that an interrupted run resumes.
    """
    return assigned(repeat_number, number)


def is_repeatable(body: Mapping[str, Any]) -> bool:
    """Return whether a request always has the same reply, as far as a client can know, and one without the prompt.

    This is the case at temperature 0 or with a seed, and for embeddings. Without a temperature the server may sample.
    """
    if "input" in body:
        return True
    # Zero is not "off": `prompt_logprobs=0` requests the log-probabilities of the prompt's own tokens.
    if any(body.get(name) is not None and body[name] is not False for name in _SHOWS_PROMPT):
        return False
    temperature = body.get("temperature")
    return body.get("seed") is not None or (isinstance(temperature, int | float) and temperature == 0)


def _is_worth_keeping(body: Mapping[str, Any], reply: Mapping[str, Any]) -> bool:
    """Return whether a reply would be the same again: also one that was cut, but not one that was filtered."""
    if "input" in body:
        vectors = reply.get("data")
        return isinstance(vectors, list) and len(vectors) == len(body["input"])
    choices = reply.get("choices")
    if not isinstance(choices, list) or not choices:
        return False
    for choice in choices:
        if not isinstance(choice, dict) or choice.get("finish_reason") not in ("stop", "length"):
            return False
        message = choice.get("message")
        if message is None and "text" not in choice:
            return False
        if message is not None and (not isinstance(message, dict) or message.get("refusal")):
            return False
    return True


def cached_replies(folder: str | Path | None, *, base_url: str) -> CachedReplies:
    """Return the cache in `folder` for an endpoint. None uses `RAGSTONE_CACHE` from the environment, "" no cache.

    Credentials of the URL are omitted. Its query is not, because it may select the model.
    """
    folder = os.environ.get("RAGSTONE_CACHE", "") if folder is None else folder
    parts = urlsplit(base_url)
    return CachedReplies(folder or None, endpoint=urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2])))


@dataclass(slots=True)
class _LoopState:
    """State of one event loop."""

    writing: asyncio.Lock = field(default_factory=asyncio.Lock)
    unwritten: list[tuple[str, str, Mapping[str, Any]]] = field(default_factory=list)
    turns: WeakValueDictionary[str, asyncio.Lock] = field(default_factory=WeakValueDictionary)


class CachedReplies:
    """Replies of one endpoint, with a cache on disk. A file that fails causes one warning and is not used again."""

    def __init__(self, folder: str | Path | None, *, endpoint: str) -> None:
        self._file = ReplyCache(folder or "")
        self._endpoint = endpoint
        self._reads = self._writes = folder is not None
        self._state = PerLoop(_LoopState)

    async def reply(
        self, path: str, body: Mapping[str, Any], ask: Callable[[], Awaitable[dict[str, Any]]]
    ) -> dict[str, Any]:
        """Return the cached reply to a request, else the result of `ask`. Equal concurrent requests wait for it.

        A cached reply counts as `Usage.cached`. An exception of `ask` goes to its caller, and the waiting callers send
        the request themselves.
        """
        if not self._reads or bypassed.get() or not is_repeatable(body):
            return await ask()
        repeat = repeat_number.get()
        key = self._key(f"repeat {repeat}" if repeat else "reply", path, body)
        read = partial(self._file.read, key)
        cached = await self._read(read)
        if cached is None:
            if not self._writes:
                return await ask()
            turn = self._state.get().turns.setdefault(key, asyncio.Lock())
            waits = turn.locked()
            async with turn:
                cached = await self._read(read) if waits else None
                if cached is None:
                    reply = await ask()
                    if _is_worth_keeping(body, reply):
                        await self._keep(key, str(body.get("model")), reply)
                    return reply
        record_usage(Usage(cached=1))
        return cached

    async def capabilities(
        self, about: Mapping[str, Any], measure: Callable[[], Awaitable[Capabilities]], *, fresh: bool
    ) -> Capabilities:
        """Return capabilities measured within a day, else the result of `measure`, which is cached if it is complete."""
        # Another version of Ragstone may measure other capabilities.
        key = self._key("capabilities", "", {**about, "measured": sorted(Capabilities.model_fields)})
        if not fresh and (noted := await self._fact(key)) is not None:
            with suppress(ValidationError):
                return Capabilities.model_validate_json(noted)
        with cache_bypassed():
            measured = await measure()
        # An incomplete result must not be used for a day.
        if not measured.unmeasured:
            await self._write(partial(self._file.put_fact, key, measured.model_dump_json()))
        return measured

    async def note(self, about: Mapping[str, Any]) -> str | None:
        """Return the note about a model that was written within a day."""
        return await self._fact(self._key("note", "", about))

    async def put_note(self, about: Mapping[str, Any], text: str) -> None:
        """Write a note about a model, in place of an earlier one."""
        await self._write(partial(self._file.put_fact, self._key("note", "", about), text))

    async def _fact(self, key: str) -> str | None:
        return await self._read(partial(self._file.get_fact, key, max_age_s=_CAPABILITIES_MAX_AGE_S))

    async def _read(self, read: Callable[[], T | None]) -> T | None:
        """Return what the file contains, or None without a file that can be read."""
        if self._reads:
            try:
                return await asyncio.to_thread(read)
            except StoreError as error:
                self._disable(error, reading=True)
        return None

    async def _write(self, write: Callable[[], None]) -> None:
        if self._writes:
            try:
                await asyncio.to_thread(write)
            except StoreError as error:
                self._disable(error, reading=False)

    def _key(self, kind: str, path: str, body: Mapping[str, Any]) -> str:
        identity = json.dumps([kind, self._endpoint, path, body], sort_keys=True, default=repr)
        return hashlib.sha256(identity.encode()).hexdigest()

    async def _keep(self, key: str, model: str, reply: Mapping[str, Any]) -> None:
        """Write a reply, together with those that arrived while another one was written."""
        state = self._state.get()
        state.unwritten.append((key, model, reply))
        async with state.writing:
            batch, state.unwritten = state.unwritten, []
            if batch:
                await self._write(partial(self._file.write, batch))

    def _disable(self, error: StoreError, *, reading: bool) -> None:
        """Stop writing, and also reading if that failed, with one warning."""
        if self._writes:
            rest = "is not used any more" if reading else "is not written any more"
            _logger.warning("%s. Scoring continues, and the reply cache %s", error, rest)
        self._writes = False
        self._reads = self._reads and not reading
