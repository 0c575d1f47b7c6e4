"""Scores on the traces of Langfuse, over its public HTTP API."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Literal

from ragstone.errors import ConfigurationError, SinkError, SinkNoTargetError, SinkRejectedError, SinkUnavailableError
from ragstone.schema import Delivery
from ragstone.sinks._http import WRONG_ADDRESS, HttpSink, host_and_port, json_bytes, parse_error_response, printable
from ragstone.sinks._row import SpanRef, iso_time, notes_of, span_ref_of, write_each

_CLOUD: Final = "https://cloud.langfuse.com"
_PATH: Final = "/api/public/scores"
# The limits of Langfuse's own client. The endpoint rejects bodies of 1 MiB.
_REQUEST_MAX_ROWS: Final = 15
_REQUEST_MAX_BYTES: Final = 1_000_000


class LangfuseSink(HttpSink):
    """Adds each score to the request's trace in Langfuse.

    Langfuse identifies traces by their OpenTelemetry ids. The sink adds the score to the trace and the observation
    whose span was current when the request was captured. It skips requests without a span and requests whose span was
    not sampled. An outcome without a score is a categorical score, "failed" or "not applicable". The comment contains
    interval, judge and method. If the answer is wrong, the categorical score "ragstone.cause" says why.

    A score keeps its id and time, so that a repeated delivery replaces it. Servers from version 4.59 accept several
    scores per request, older ones one. The sink detects this from the responses.

    Args:
        url: Base URL of the server. Default: `LANGFUSE_BASE_URL`, `LANGFUSE_HOST` or Langfuse's cloud.
        public_key: Public key. Default: `LANGFUSE_PUBLIC_KEY`.
        secret_key: Secret key. Default: `LANGFUSE_SECRET_KEY`.
        environment: The traces' environment, if they have one. Default: `LANGFUSE_TRACING_ENVIRONMENT`.
        timeout_s: Timeout of one request, in seconds.
        include_text: Also send explanations, which may quote captured text.

    Raises:
        ConfigurationError: If the URL is invalid or a key is missing.
    """

    _KIND = "langfuse"
    _EXAMPLE = f"langfuse:{_CLOUD}"

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
        if not url:
            url = environ.get("LANGFUSE_BASE_URL") or environ.get("LANGFUSE_HOST") or _CLOUD
        public_key = public_key or environ.get("LANGFUSE_PUBLIC_KEY")
        secret_key = secret_key or environ.get("LANGFUSE_SECRET_KEY")
        auth = (public_key, secret_key) if public_key and secret_key else None
        super().__init__(url, auth=auth, timeout_s=timeout_s, include_text=include_text)
        if auth is None:
            raise ConfigurationError(
                "the sink 'langfuse' needs the keys of the Langfuse project. "
                "Set LANGFUSE_PUBLIC_KEY and LANGFUSE_SECRET_KEY."
            )
        self._environment = environment or environ.get("LANGFUSE_TRACING_ENVIRONMENT")
        self._form: Literal["array", "object"] | None = None
        """The body format that the server accepts, or None if not yet known."""

    async def write(self, batch: Sequence[Delivery]) -> Mapping[str, SinkError]:
        """Send the scores of `batch`, and return when the server has answered for each.

        Returns:
            Errors of the rows that were rejected, not received or skipped, by `outcome.id`.

        Raises:
            SinkUnavailableError: If the sink is closed.
            SinkDeniedError: If the keys are rejected.
        """
        self._check_open()
        errors: dict[str, SinkError] = {}
        rows: list[tuple[Delivery, dict[str, Any]]] = []
        for delivery in batch:
            span = span_ref_of(delivery)
            if isinstance(span, SinkNoTargetError):
                errors[delivery.outcome.id] = span
                continue
            bodies = _bodies(delivery, span, environment=self._environment, include_text=self._include_text)
            rows += [(delivery, body) for body in bodies]
        outage: SinkUnavailableError | None = None
        for chunk in _chunks(rows):
            if outage is None:
                try:
                    errors |= await self._write_chunk(chunk)
                    continue
                except SinkUnavailableError as raised:
                    # Earlier chunks have arrived. Later ones are not sent, because they would wait for the same
                    # timeout.
                    outage = raised
            errors |= {delivery.outcome.id: outage for delivery, _ in chunk}
        return errors

    async def _write_chunk(self, chunk: Sequence[tuple[Delivery, dict[str, Any]]]) -> dict[str, SinkError]:
        if len(chunk) > 1 and self._form != "object" and await self._post([body for _, body in chunk]) is None:
            self._form = "array"
            return {}
        # Either the server rejects a row without saying which, or it does not accept arrays. Sending each row
        # separately shows which. A score that already arrived is replaced by itself.
        bodies: dict[str, list[dict[str, Any]]] = {}
        for delivery, body in chunk:
            bodies.setdefault(delivery.outcome.id, []).append(body)
        deliveries = {delivery.outcome.id: delivery for delivery, _ in chunk}
        return await write_each(list(deliveries.values()), lambda d: self._write_bodies(bodies[d.outcome.id]))

    async def _write_bodies(self, bodies: Sequence[dict[str, Any]]) -> SinkError | None:
        for body in bodies:
            if (error := await self._write_one(body)) is not None:
                return error
        return None

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
        """Send one body, and return an error if the server rejects it or a part of it.

        Raise SinkUnavailableError if the request can be retried. Raise SinkDeniedError if the keys are rejected.
        """
        response = await self._http.request("POST", self._url.geturl() + _PATH, json=body)
        error = parse_error_response(response, wrong_address=WRONG_ADDRESS)
        if isinstance(error, SinkRejectedError):
            return error
        if error is not None:
            raise error
        if response.status_code == 207:
            self._form = "array"
            return SinkRejectedError(f"{host_and_port(self._url)} rejected the score: {_rejection(response.text)}")
        return None


def _bodies(
    delivery: Delivery, span: SpanRef, *, environment: str | None, include_text: bool
) -> Iterator[dict[str, Any]]:
    """Yield a score, and the cause if it has one, in Langfuse's format."""
    # The same time in each retry: for Langfuse, a score with another time is another score.
    scored_at = delivery.outcome.created_at
    timestamp = iso_time(delivery.requested_at if scored_at is None else scored_at)
    for note in notes_of(delivery, include_text=include_text):
        body = {
            "id": note.id,
            # Langfuse keeps numbers and categories of one name apart, so that a state does not change averages.
            "name": note.name,
            "value": note.label if note.value is None else note.value,
            "dataType": "CATEGORICAL" if note.value is None else "NUMERIC",
            "comment": note.comment,
            "metadata": note.metadata,
            "traceId": span.trace_id,
            "observationId": span.span_id,
            "environment": environment,
            "timestamp": timestamp,
        }
        yield {name: value for name, value in body.items() if value is not None}


def _chunks(rows: Sequence[tuple[Delivery, dict[str, Any]]]) -> Iterator[list[tuple[Delivery, dict[str, Any]]]]:
    """Yield chunks of rows within Langfuse's limits. A single row may exceed them."""
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


def _rejection(text: str) -> str:
    """Return the reasons in a 207 response for rejected rows."""
    try:
        messages = [str(error["message"]) for error in json.loads(text)["errors"]]
    except (ValueError, TypeError, KeyError):
        messages = []
    return printable("; ".join(messages) or "no reason given")
