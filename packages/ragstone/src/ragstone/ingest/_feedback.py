"""`POST /v1/feedback`: feedback of users from applications that do not run a monitor."""

from __future__ import annotations

import asyncio
import json
from typing import Any, Final

from aiohttp import web

from ragstone.capture import Capture
from ragstone.errors import DataError
from ragstone.ingest._body import BodyReader, BusyError
from ragstone.ingest._receiver import RETRY_AFTER_S, error_response, last_response, unread_response
from ragstone.reading.otlp import OversizedMessageError

_MAX_BYTES: Final = 64 * 1024
"""Largest body."""
_BODY_S: Final = 10.0
"""Time in which the body must arrive in seconds."""
_KEYS: Final = ("trace_id", "value", "comment")


class FeedbackRoute:
    """Stores feedback on the disk before it replies 200.

    The body is a JSON object with `trace_id` (ours or the OpenTelemetry id), `value` from 0 to 1, and optionally
    `comment`. The guard of the receiver decides who may send. `capture` writes to the spool of the store, with
    `durability="sync"`.
    """

    def __init__(self, capture: Capture) -> None:
        self._capture = capture
        self._bodies = BodyReader(_MAX_BYTES, deadline_s=_BODY_S)

    def add_to(self, app: web.Application) -> None:
        """Add the route to an application."""
        app.router.add_post("/v1/feedback", self._receive)

    async def _receive(self, request: web.Request) -> web.Response:
        if request.content_type != "application/json":
            return error_response(415, f"the content type must be application/json, got {request.content_type[:100]}")
        try:
            with await self._bodies.read(request) as body:
                values = _parse(body.content)
            stored = await asyncio.to_thread(
                self._capture.feedback, values["trace_id"], values["value"], comment=values.get("comment")
            )
        except OversizedMessageError:
            return last_response(413, f"the body must have at most {_MAX_BYTES} bytes")
        except (BusyError, TimeoutError) as error:
            return unread_response(error)
        except DataError as error:
            return error_response(400, str(error))
        if not stored:
            return error_response(503, "the disk is unavailable. Send it again.", {"Retry-After": RETRY_AFTER_S})
        return web.json_response({})


def _parse(body: bytes | bytearray) -> dict[str, Any]:
    try:
        values = json.loads(body)
    except (ValueError, RecursionError):
        raise DataError("the body is not valid JSON") from None
    if not isinstance(values, dict) or not {"trace_id", "value"} <= values.keys() <= set(_KEYS):
        raise DataError(f"the body must be an object with {', '.join(_KEYS)} (comment is optional)")
    return values
