"""Scores on the traces of Langfuse, over its public HTTP API."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Literal

from ragstone.errors import (
    ConfigurationError,
    SinkError,
    SinkNoTargetError,
    SinkRejectedError,
    SinkUnavailableError,
)
from ragstone.schema import Delivery, Score
from ragstone.sinks._http import HttpClient, base_url, host_and_port, json_bytes, parse_error_response, printable
from ragstone.sinks._row import build_comment, build_score_metadata, iso_time, span_ref_of, write_each

__all__ = ["LangfuseSink"]

_CLOUD: Final = "https://cloud.langfuse.com"
_PATH: Final = "/api/public/scores"
# What Langfuse's own client sends at most: its endpoint refuses bodies of 1 MiB.
_REQUEST_MAX_ROWS: Final = 15
_REQUEST_MAX_BYTES: Final = 1_000_000
_WRONG_ADDRESS: Final = frozenset({404, 405})


class LangfuseSink:
    """Puts each score on the trace that Langfuse already has of the request.

    Langfuse knows a trace by its OpenTelemetry id, so the score goes to the trace and the observation whose span was
    current when the request was captured. A request without one, or whose span was sampled out, has no place there. Nor
    has an outcome that is no score: it would have to be a number. Both are skipped, and counted as skipped.

    A score keeps its id and its time, by which Langfuse finds it again: a repeat replaces it. Servers from 4.59 on take
    many scores in a request, older ones take one; which it is shows in what they accept.

    Args:
        url: Base URL of the server; by default `LANGFUSE_BASE_URL` or `LANGFUSE_HOST` decide, else Langfuse's cloud.
        public_key: By default `LANGFUSE_PUBLIC_KEY`.
        secret_key: By default `LANGFUSE_SECRET_KEY`.
        environment: The environment the traces are in, when they name one; by default `LANGFUSE_TRACING_ENVIRONMENT`.
        timeout_s: Seconds for one request.
        include_text: Also send explanations, which may quote captured text.

    Raises:
        ConfigurationError: The URL is none, or a key is missing.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        public_key: str | None = None,
        secret_key: str | None = None,
        environment: str | None = None,
        timeout_s: float = 10.0,
        include_text: bool = False,
    ) -> None:
        environ = os.environ
        address = url or environ.get("LANGFUSE_BASE_URL") or environ.get("LANGFUSE_HOST") or _CLOUD
        self._url = base_url(address, sink="langfuse", example=f"langfuse:{_CLOUD}")
        public_key = public_key or environ.get("LANGFUSE_PUBLIC_KEY")
        secret_key = secret_key or environ.get("LANGFUSE_SECRET_KEY")
        if not public_key or not secret_key:
            raise ConfigurationError(
                "the sink 'langfuse' needs the keys of the Langfuse project; "
                "set LANGFUSE_PUBLIC_KEY and LANGFUSE_SECRET_KEY"
            )
        self._environment = environment or environ.get("LANGFUSE_TRACING_ENVIRONMENT")
        self._include_text = include_text
        self._http = HttpClient(auth=(public_key, secret_key), timeout_s=timeout_s)
        self._form: Literal["array", "object"] | None = None
        """What the server takes; None as long as nothing has shown it."""
        self._closed = False

    @classmethod
    def from_spec(cls, argument: str, *, include_text: bool = False) -> LangfuseSink:
        """Make the sink of `"langfuse"` or `"langfuse:https://host"` from its part after the colon.

        Raises:
            ConfigurationError: The URL is none, or a key is missing.
        """
        return cls(argument or None, include_text=include_text)

    @property
    def name(self) -> str:
        """`langfuse:` with host and port of the server."""
        return f"langfuse:{host_and_port(self._url)}"

    async def write(self, batch: Sequence[Delivery]) -> Mapping[str, SinkError]:
        """Send the scores of `batch`; returns when the server has answered for each.

        Returns:
            The rows that it refuses, that did not reach it, and that have no place there.

        Raises:
            SinkUnavailableError: The sink is closed.
            SinkDeniedError: The keys are refused.
        """
        if self._closed:
            raise SinkUnavailableError(f"the sink {self.name!r} is closed")
        errors: dict[str, SinkError] = {}
        rows: list[tuple[Delivery, dict[str, Any]]] = []
        for delivery in batch:
            body = _body(delivery, environment=self._environment, include_text=self._include_text)
            if isinstance(body, SinkNoTargetError):
                errors[delivery.outcome.id] = body
            else:
                rows.append((delivery, body))
        outage: SinkUnavailableError | None = None
        for chunk in _chunks(rows):
            if outage is None:
                try:
                    errors |= await self._write_chunk(chunk)
                    continue
                except SinkUnavailableError as raised:
                    # The chunks before have arrived, and those behind would wait for the same time-out.
                    outage = raised
            errors |= {delivery.outcome.id: outage for delivery, _ in chunk}
        return errors

    async def aclose(self) -> None:
        """Close the connections."""
        self._closed = True
        await self._http.aclose()

    async def _write_chunk(self, chunk: Sequence[tuple[Delivery, dict[str, Any]]]) -> dict[str, SinkError]:
        if len(chunk) > 1 and self._form != "object":
            error = await self._post([body for _, body in chunk])
            if error is None:
                self._form = "array"
                return {}
        # Either a row is at fault, and the answer does not say which, or this server takes no arrays. Each alone tells:
        # a score that has arrived already is replaced by itself.
        bodies = {delivery.outcome.id: body for delivery, body in chunk}
        return await write_each([d for d, _ in chunk], lambda d: self._write_one(bodies[d.outcome.id]))

    async def _write_one(self, body: dict[str, Any]) -> SinkError | None:
        error = await self._post([body]) if self._form != "object" else None
        if self._form == "object" or (error is not None and self._form is None):
            error = await self._post(body)
            if error is None:
                self._form = "object"
        elif error is None:
            self._form = "array"
        return error

    async def _post(self, body: dict[str, Any] | list[dict[str, Any]]) -> SinkRejectedError | None:
        """Send one body; return the refusal of it or of a part of it.

        Raises:
            SinkUnavailableError: It can come again.
            SinkDeniedError: The keys are refused.
        """
        response = await self._http.request("POST", self._url.geturl() + _PATH, json=body)
        error = parse_error_response(response, wrong_address=_WRONG_ADDRESS)
        if isinstance(error, SinkRejectedError):
            return error
        if error is not None:
            raise error
        if response.status_code == 207:
            self._form = "array"
            return SinkRejectedError(f"{host_and_port(self._url)} refused the score: {_refusal(response.text)}")
        return None


def _body(delivery: Delivery, *, environment: str | None, include_text: bool) -> dict[str, Any] | SinkNoTargetError:
    """Return a score as Langfuse takes it, or why it has no place there."""
    outcome = delivery.outcome
    if not isinstance(outcome, Score):
        return SinkNoTargetError("Langfuse has a place for scores only")
    place = span_ref_of(delivery)
    if isinstance(place, SinkNoTargetError):
        return place
    # The same at each repeat: Langfuse takes a score of another time for another score.
    timestamp = iso_time(delivery.requested_at if outcome.created_at is None else outcome.created_at)
    body = {
        "id": outcome.id,
        "traceId": place.trace_id,
        "observationId": place.span_id,
        "name": outcome.metric,
        "value": outcome.value,
        "dataType": "NUMERIC",
        "comment": build_comment(delivery) if include_text else None,
        "environment": environment,
        "timestamp": timestamp,
        "metadata": build_score_metadata(delivery),
    }
    return {name: value for name, value in body.items() if value is not None}


def _chunks(
    rows: Sequence[tuple[Delivery, dict[str, Any]]],
) -> Iterator[list[tuple[Delivery, dict[str, Any]]]]:
    """Yield requests of rows, each within Langfuse's limits unless one row alone is beyond them."""
    chunk: list[tuple[Delivery, dict[str, Any]]] = []
    size = 2
    for row in rows:
        n = len(json_bytes(row[1])) + 1
        if chunk and (len(chunk) == _REQUEST_MAX_ROWS or size + n > _REQUEST_MAX_BYTES):
            yield chunk
            chunk, size = [], 2
        chunk.append(row)
        size += n
    if chunk:
        yield chunk


def _refusal(text: str) -> str:
    """Return what a 207 says of the rows that it did not take."""
    try:
        messages = [str(error["message"]) for error in json.loads(text)["errors"]]
    except (ValueError, TypeError, KeyError):
        messages = []
    words = "; ".join(messages) or "it does not say why"
    return printable(words)
