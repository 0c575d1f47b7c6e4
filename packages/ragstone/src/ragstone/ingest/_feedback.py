"""`POST /v1/feedback`: feedback of users from applications that do not run a monitor."""

from __future__ import annotations

import asyncio
import json
from typing import Any, Final

from aiohttp import web

from ragstone.capture import Capture
from ragstone.errors import DataError

_MAX_BYTES: Final = 64 * 1024
"""Largest body."""
_BODY_S: Final = 10.0
"""Time in which the body must arrive in seconds."""
_KEYS: Final = ("trace_id", "value", "comment")


class FeedbackRoute:
    """Stores feedback on the disk before it replies 200.

    The body is a JSON object with `trace_id` (ours or the OpenTelemetry id), `value` from 0 to 1, and optionally `comment`.
    The guard of the receiver decides who may send.

    Args:
        capture: Writes to the spool of the store, with `durability="sync"`.
    """

    def __init__(self, capture: Capture) -> None:
        self._capture = capture

    def add_to(self, app: web.Application) -> None:
        """Add the route to an application."""
        app.router.add_post("/v1/feedback", self._receive)

    async def _receive(self, request: web.Request) -> web.Response:
        if request.content_type != "application/json":
            return _reply(415, f"the content type must be application/json, got {request.content_type[:100]}")
        try:
            async with asyncio.timeout(_BODY_S):
                body = await _read(request)
        except TimeoutError:
            return _reply(408, "the body did not arrive in time", last=True)
        if body is None:
            return _reply(413, f"the body must have at most {_MAX_BYTES} bytes", last=True)
        try:
            values = _parse(body)
            stored = await asyncio.to_thread(
                self._capture.feedback, values["trace_id"], values["value"], comment=values.get("comment")
            )
        except DataError as error:
            return _reply(400, str(error))
        if not stored:
            return _reply(503, "the disk is unavailable. Send it again.", headers={"Retry-After": "5"})
        return web.json_response({})


async def _read(request: web.Request) -> bytes | None:
    """Return the body, or None if it is too large."""
    body = b""
    async for part in request.content.iter_any():
        body += part
        if len(body) > _MAX_BYTES:
            return None
    return body


def _parse(body: bytes) -> dict[str, Any]:
    try:
        values = json.loads(body)
    except (ValueError, RecursionError):
        raise DataError("the body is not valid JSON") from None
    if not isinstance(values, dict) or not {"trace_id", "value"} <= values.keys() <= set(_KEYS):
        raise DataError(f"the body must be an object with {', '.join(_KEYS)} (comment is optional)")
    return values


def _reply(status: int, message: str, *, last: bool = False, headers: dict[str, str] | None = None) -> web.Response:
    response = web.json_response({"message": message}, status=status, headers=headers)
    if last:  # the rest of the request was not read
        response.force_close()
    return response
