"""Asking through the reply cache: which replies may be kept, under which key, and what happens when the file fails."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import os
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit, urlunsplit
from weakref import WeakKeyDictionary, WeakValueDictionary

from pydantic import ValidationError

from ragstone.errors import StoreError
from ragstone.judges._cache.file import ReplyCache
from ragstone.judges._model import Capabilities, record_usage
from ragstone.schema import Usage

__all__ = ["CachedReplies", "cache_bypassed", "cached_replies", "is_repeatable"]

_logger = logging.getLogger("ragstone")

_VERSION: Final = 1
"""Part of every key: a reply kept under other rules is not found."""
_CAPABILITIES_MAX_AGE_S: Final = 86_400.0
_SHOWS_PROMPT: Final = ("echo", "prompt_logprobs", "return_token_ids", "return_prompt_text")
"""Fields that make a reply repeat what was asked."""

_bypassed: ContextVar[bool] = ContextVar("ragstone_cache_bypassed", default=False)


@contextmanager
def cache_bypassed() -> Iterator[None]:
    """Inside the block every request is sent: measuring an endpoint is no use with replies of yesterday."""
    token = _bypassed.set(True)
    try:
        yield
    finally:
        _bypassed.reset(token)


def is_repeatable(body: Mapping[str, Any]) -> bool:
    """Whether a request has one reply, as far as a client can tell, and one that does not repeat the prompt.

    Temperature 0 or a seed; a request that leaves its temperature to the server draws.
    """
    # Zero asks for something: `prompt_logprobs` of the prompt's own tokens.
    if any(body.get(name) is not None and body[name] is not False for name in _SHOWS_PROMPT):
        return False
    temperature = body.get("temperature")
    return body.get("seed") is not None or (isinstance(temperature, int | float) and temperature == 0)


def _is_worth_keeping(reply: Mapping[str, Any]) -> bool:
    """Whether a reply would come again; a reply cut short would, what a content filter held back might not."""
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
    """The cache in `folder` for an endpoint; None takes `RAGSTONE_CACHE` from the environment, and where that is empty too, none.

    Args:
        folder: As the user gave it; "" is no cache whatever the environment says.
        base_url: Of the endpoint. Credentials are left out; the query is not, since it can choose what answers.
    """
    folder = os.environ.get("RAGSTONE_CACHE", "") if folder is None else folder
    parts = urlsplit(base_url)
    return CachedReplies(folder or None, endpoint=urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2])))


@dataclass(slots=True)
class _LoopState:
    """What belongs to one event loop."""

    writing: asyncio.Lock = field(default_factory=asyncio.Lock)
    unwritten: list[tuple[str, str, Mapping[str, Any]]] = field(default_factory=list)
    turns: WeakValueDictionary[str, asyncio.Lock] = field(default_factory=WeakValueDictionary)


class CachedReplies:
    """The replies of one endpoint, through a cache on disk. A file that fails is warned of once and not used again.

    Args:
        folder: The cache's folder; None for one that keeps nothing and finds nothing.
        endpoint: The URL without credentials; part of every key.
    """

    def __init__(self, folder: str | Path | None, *, endpoint: str) -> None:
        self._file = ReplyCache(folder or "")
        self._endpoint = endpoint
        self._reads = self._writes = folder is not None
        self._loops: WeakKeyDictionary[asyncio.AbstractEventLoop, _LoopState] = WeakKeyDictionary()

    def __repr__(self) -> str:
        return f"CachedReplies({self._file!r})"

    async def reply(
        self, path: str, body: Mapping[str, Any], ask: Callable[[], Awaitable[dict[str, Any]]]
    ) -> dict[str, Any]:
        """The kept reply to a request, else what `ask` gives; requests alike that come meanwhile wait for it.

        A kept reply counts as `Usage.cached`. What `ask` raises goes to its caller, and those that wait ask themselves.

        Args:
            path: Of the request.
            body: Of the request, all of it.
            ask: Sends it.
        """
        if not self._reads or _bypassed.get() or not is_repeatable(body):
            return await ask()
        key = self._key("reply", path, body)
        found = await self._read(key)
        if found is None:
            if not self._writes:
                return await ask()
            turns = self._state().turns
            turn = turns.get(key)
            if turn is None:
                turn = turns[key] = asyncio.Lock()
            waits = turn.locked()
            async with turn:
                found = await self._read(key) if waits else None
                if found is None:
                    reply = await ask()
                    if _is_worth_keeping(reply):
                        await self._write(key, str(body.get("model")), reply)
                    return reply
        record_usage(Usage(cached=1))
        return found

    async def capabilities(
        self, about: Mapping[str, Any], measure: Callable[[], Awaitable[Capabilities]], *, fresh: bool
    ) -> Capabilities:
        """What was measured within a day, else what `measure` finds, which is remembered if it is complete.

        Args:
            about: The model, and all that is added to its requests.
            measure: Asks the endpoint; none of its requests is answered from the cache.
            fresh: Whether to measure in any case.
        """
        # Another Ragstone may measure other things.
        key = self._key("capabilities", "", {**about, "measured": sorted(Capabilities.model_fields)})
        if not fresh and (known := await self._recalled(key)) is not None:
            return known
        with cache_bypassed():
            found = await measure()
        # What trouble has hidden is no verdict for a day.
        if self._writes and not found.unmeasured:
            try:
                await asyncio.to_thread(self._file.put_fact, key, found.model_dump_json())
            except StoreError as error:
                self._disable(error, reading=False)
        return found

    async def _recalled(self, key: str) -> Capabilities | None:
        if not self._reads:
            return None
        try:
            noted = await asyncio.to_thread(self._file.get_fact, key, max_age_s=_CAPABILITIES_MAX_AGE_S)
        except StoreError as error:
            self._disable(error, reading=True)
            return None
        try:
            return None if noted is None else Capabilities.model_validate_json(noted)
        except ValidationError:
            return None

    def _key(self, kind: str, path: str, body: Mapping[str, Any]) -> str:
        asked = json.dumps([_VERSION, kind, self._endpoint, path, body], sort_keys=True, default=repr)
        return hashlib.sha256(asked.encode()).hexdigest()

    def _state(self) -> _LoopState:
        return self._loops.setdefault(asyncio.get_running_loop(), _LoopState())

    async def _read(self, key: str) -> dict[str, Any] | None:
        if not self._reads:
            return None
        try:
            return await asyncio.to_thread(self._file.read, key)
        except StoreError as error:
            self._disable(error, reading=True)
            return None

    async def _write(self, key: str, model: str, reply: Mapping[str, Any]) -> None:
        """Write a reply, together with those that came while another was written."""
        state = self._state()
        state.unwritten.append((key, model, reply))
        async with state.writing:
            batch, state.unwritten = state.unwritten, []
            if not batch or not self._writes:
                return
            try:
                await asyncio.to_thread(self._file.write, batch)
            except StoreError as error:
                self._disable(error, reading=False)

    def _disable(self, error: StoreError, *, reading: bool) -> None:
        """What cannot be read is not worth writing; what cannot be written may still be read."""
        if self._writes:
            rest = "nothing more is read from it or written to it" if reading else "nothing more is written to it"
            _logger.warning("%s; the work goes on, and %s", error, rest)
        self._writes = False
        self._reads = self._reads and not reading
