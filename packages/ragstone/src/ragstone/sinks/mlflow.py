"""Outcomes as assessments of traces in MLflow, over its REST API."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from ragstone.errors import (
    ConfigurationError,
    SinkDeniedError,
    SinkError,
    SinkNoTargetError,
    SinkTargetMissingError,
    SinkUnavailableError,
)
from ragstone.schema import Delivery, Failure
from ragstone.sinks._http import WRONG_ADDRESS, HttpSink, host_and_port, parse_error_response
from ragstone.sinks._row import SpanRef, notes_of, shorten_name, span_ref_of, write_each

if TYPE_CHECKING:
    import httpx

# Measured: a server with one process accepts 97 requests a second sequentially, 134 with two concurrent requests, and
# not more with four, eight or sixteen. Four allow for network latency.
_NAME_MAX_CHARS: Final = 250
"""Maximum length of assessment and source names in MLflow's tables."""


class MlflowSink(HttpSink):
    """Adds an assessment to the request's trace in MLflow.

    MLflow identifies a trace from OTLP by `tr-` and its OpenTelemetry id. It accepts one assessment per request and
    rejects a second one with the same id. The sink derives the id from the ids of outcome and trace, so a repeated
    delivery changes nothing. A `Failure` becomes an assessment with an error and without a value, a `NotApplicable` one
    with the value "not applicable". The rationale contains interval, judge and method. If the answer is wrong, the
    assessment "ragstone.cause" says why.

    Requests without a trace, or whose trace was not sampled, are skipped. If a trace has not arrived yet, the delivery
    is retried.

    Args:
        url: Base URL of the tracking server. Default: `MLFLOW_TRACKING_URI`.
        timeout_s: Timeout of one request, in seconds.
        include_text: Also send explanations and reasons, which may quote captured text.

    Raises:
        ConfigurationError: If the URL is missing or invalid.
    """

    _KIND = "mlflow"
    _EXAMPLE = "mlflow:http://localhost:5000"

    def __init__(self, url: str | None = None, *, timeout_s: float = 30.0, include_text: bool = False) -> None:
        environ = os.environ
        url = url or environ.get("MLFLOW_TRACKING_URI")
        if not url:
            raise ConfigurationError(
                f"the sink 'mlflow' needs the URL of its server. Write {self._EXAMPLE!r}, or set MLFLOW_TRACKING_URI."
            )
        user, password = environ.get("MLFLOW_TRACKING_USERNAME"), environ.get("MLFLOW_TRACKING_PASSWORD")
        token = environ.get("MLFLOW_TRACKING_TOKEN")
        # The same precedence as in MLflow's own client.
        auth = (user, password) if user and password else None
        headers = {"authorization": f"Bearer {token}"} if token and auth is None else {}
        super().__init__(url, headers=headers, auth=auth, timeout_s=timeout_s, include_text=include_text)

    async def write(self, batch: Sequence[Delivery]) -> Mapping[str, SinkError]:
        """Send `batch` with four concurrent requests, and return when MLflow has answered for each row.

        Returns:
            Errors of the outcomes that were rejected, not received or skipped, or whose trace does not exist yet, by
            `outcome.id`.

        Raises:
            SinkUnavailableError: If the sink is closed.
            SinkDeniedError: If the credentials are rejected, or the server replaces assessment ids.
        """
        self._check_open()
        return await write_each(batch, self._send, concurrency=4)

    async def _send(self, delivery: Delivery) -> SinkError | None:
        span = span_ref_of(delivery)
        if isinstance(span, SinkNoTargetError):
            return span
        for assessment in _assessments(delivery, span, include_text=self._include_text):
            if (error := await self._send_one(assessment)) is not None:
                return error
        return None

    async def _send_one(self, assessment: dict[str, Any]) -> SinkError | None:
        url = f"{self._url.geturl()}/api/3.0/mlflow/traces/{assessment['trace_id']}/assessments"
        response = await self._http.request("POST", url, json={"assessment": assessment})
        if response.is_success:
            return self._check_stored(response, assessment["assessment_id"])
        if response.status_code == 500:
            # MLflow also answers 500 if the id already exists.
            existing = await self._http.request("GET", f"{url}/{assessment['assessment_id']}")
            if self._check_stored(existing, assessment["assessment_id"]) is None:
                return None
        if _fields(response).get("error_code") == "RESOURCE_DOES_NOT_EXIST":
            return SinkTargetMissingError(f"{host_and_port(self._url)} does not have the trace")
        return parse_error_response(response, wrong_address=WRONG_ADDRESS)

    def _check_stored(self, response: httpx.Response, assessment_id: str) -> SinkError | None:
        """Return None if the response contains the assessment with this id, otherwise an error."""
        assessment = _fields(response).get("assessment")
        if not isinstance(assessment, dict):
            return SinkUnavailableError(f"{host_and_port(self._url)} does not answer as MLflow does. Check the URL.")
        if assessment.get("assessment_id") != assessment_id:
            # The server would store each retry as a new assessment.
            return SinkDeniedError(
                f"{host_and_port(self._url)} replaces assessment ids. It must keep the ids it receives."
            )
        return None


def _assessments(delivery: Delivery, span: SpanRef, *, include_text: bool) -> Iterator[dict[str, Any]]:
    """Yield an outcome, and the cause if it has one, in MLflow's format."""
    for note in notes_of(delivery, include_text=include_text):
        feedback: dict[str, Any]
        if isinstance(note.outcome, Failure):
            feedback = {"error": {"error_code": note.outcome.kind, "error_message": note.comment}}
        else:
            # MLflow averages numbers only, and would show an error in red.
            feedback = {"value": note.label if note.value is None else note.value}
        assessment = {
            "trace_id": f"tr-{span.trace_id}",
            "span_id": span.span_id,
            # Includes the trace's id, because request ids of different applications on one server may be equal.
            "assessment_id": str(uuid.uuid5(uuid.UUID(note.id), span.trace_id)),
            "assessment_name": shorten_name(note.name, _NAME_MAX_CHARS),
            "source": {
                "source_type": "CODE" if note.judge is None else "LLM_JUDGE",
                "source_id": (note.judge or "ragstone")[:_NAME_MAX_CHARS],
            },
            "feedback": feedback,
            "rationale": note.comment,
            "metadata": ({} if note.outcome is None else {"id": note.id}) | _texts(note.metadata),
        }
        yield {name: value for name, value in assessment.items() if value is not None}


def _texts(metadata: Mapping[str, Any]) -> dict[str, str]:
    """Return metadata as MLflow accepts it: strings only."""
    return {name: value if isinstance(value, str) else json.dumps(value) for name, value in metadata.items()}


def _fields(response: httpx.Response) -> dict[str, Any]:
    """Return the JSON object in a response, or an empty dict."""
    try:
        body = response.json()
    except ValueError:
        return {}
    return body if isinstance(body, dict) else {}
