"""Outcomes as assessments of traces in MLflow, over its REST API."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from ragstone.errors import (
    ConfigurationError,
    SinkDeniedError,
    SinkError,
    SinkNoTargetError,
    SinkTargetMissingError,
    SinkUnavailableError,
)
from ragstone.schema import Delivery, Failure, Score
from ragstone.sinks._http import HttpClient, base_url, host_and_port, parse_error_response
from ragstone.sinks._row import build_comment, build_score_metadata, span_ref_of, write_each

if TYPE_CHECKING:
    import httpx

__all__ = ["MlflowSink"]

_EXAMPLE: Final = "mlflow:http://localhost:5000"
# Measured: a server with one process takes 97 a second one by one, 134 by two, and no more by four, eight or sixteen.
# Four leave room for the way to a server that is not on this machine.
_AT_ONCE: Final = 4
_WRONG_ADDRESS: Final = frozenset({404, 405})
_NAME_MAX_CHARS: Final = 250
"""Names of assessments and sources, in MLflow's tables."""


class MlflowSink:
    """Adds an assessment to the trace of the captured request, in the MLflow server that has it.

    MLflow knows a trace that came by OTLP as `tr-` and its OpenTelemetry id. It takes one assessment a request, and
    takes one with the same id no second time: ours is made from the ids of outcome and trace, so a repeat changes
    nothing. A `Failure` is an assessment with an error and without a value. A `NotApplicable` is none.

    A request without a trace, or whose trace was sampled out, has no place there. One whose trace is not there yet
    waits for it.

    Args:
        url: Base URL of the tracking server; by default `MLFLOW_TRACKING_URI` decides.
        timeout_s: Seconds for one request.
        include_text: Also send explanations and reasons, which may quote captured text.

    Raises:
        ConfigurationError: There is no URL.
    """

    def __init__(self, url: str | None = None, *, timeout_s: float = 30.0, include_text: bool = False) -> None:
        environ = os.environ
        address = url or environ.get("MLFLOW_TRACKING_URI")
        if not address:
            raise ConfigurationError(
                f"the sink 'mlflow' needs the address of its server: write {_EXAMPLE!r}, or set MLFLOW_TRACKING_URI"
            )
        self._url = base_url(address, sink="mlflow", example=_EXAMPLE)
        user, password = environ.get("MLFLOW_TRACKING_USERNAME"), environ.get("MLFLOW_TRACKING_PASSWORD")
        token = environ.get("MLFLOW_TRACKING_TOKEN")
        # In the order of MLflow's own client.
        auth = (user, password) if user and password else None
        headers = {"authorization": f"Bearer {token}"} if token and auth is None else {}
        self._http = HttpClient(headers=headers, auth=auth, timeout_s=timeout_s)
        self._include_text = include_text
        self._closed = False

    @classmethod
    def from_spec(cls, argument: str, *, include_text: bool = False) -> MlflowSink:
        """Make the sink of `"mlflow"` or `"mlflow:http://host:5000"` from its part after the colon.

        Raises:
            ConfigurationError: There is no URL.
        """
        return cls(argument or None, include_text=include_text)

    @property
    def name(self) -> str:
        """`mlflow:` with host and port of the server."""
        return f"mlflow:{host_and_port(self._url)}"

    async def write(self, batch: Sequence[Delivery]) -> Mapping[str, SinkError]:
        """Send `batch`, four at a time; returns when MLflow has answered for each.

        Returns:
            The outcomes that it refuses, that did not reach it, whose trace is not there (yet), or that have no place
            there.

        Raises:
            SinkUnavailableError: The sink is closed.
            SinkDeniedError: The credentials are refused, or the server keeps ids of its own.
        """
        if self._closed:
            raise SinkUnavailableError(f"the sink {self.name!r} is closed")
        return await write_each(batch, self._send, at_once=_AT_ONCE)

    async def aclose(self) -> None:
        """Close the connections."""
        self._closed = True
        await self._http.aclose()

    async def _send(self, delivery: Delivery) -> SinkError | None:
        assessment = _assessment(delivery, include_text=self._include_text)
        if isinstance(assessment, SinkNoTargetError):
            return assessment
        url = f"{self._url.geturl()}/api/3.0/mlflow/traces/{assessment['trace_id']}/assessments"
        response = await self._http.request("POST", url, json={"assessment": assessment})
        if response.is_success:
            return self._kept(response, assessment["assessment_id"])
        if response.status_code == 500:
            # Also what it answers to an id that it has.
            known = await self._http.request("GET", f"{url}/{assessment['assessment_id']}")
            if self._kept(known, assessment["assessment_id"]) is None:
                return None
        if _fields(response).get("error_code") == "RESOURCE_DOES_NOT_EXIST":
            return SinkTargetMissingError(f"{host_and_port(self._url)} does not have the trace")
        return parse_error_response(response, wrong_address=_WRONG_ADDRESS)

    def _kept(self, response: httpx.Response, assessment_id: str) -> SinkError | None:
        """What it means when the server has answered with an assessment: nothing, if it is ours."""
        assessment = _fields(response).get("assessment")
        if not isinstance(assessment, dict):
            return SinkUnavailableError(f"{host_and_port(self._url)} does not answer as MLflow does; check the address")
        if assessment.get("assessment_id") != assessment_id:
            # It would store each repeat as a new one.
            return SinkDeniedError(f"{host_and_port(self._url)} gives assessments ids of its own; it must keep ours")
        return None


def _assessment(delivery: Delivery, *, include_text: bool) -> dict[str, Any] | SinkNoTargetError:
    """Return an outcome as MLflow takes it, or why it has no place there."""
    place = span_ref_of(delivery)
    if isinstance(place, SinkNoTargetError):
        return place
    outcome = delivery.outcome
    words = build_comment(delivery) if include_text else None
    feedback: dict[str, Any]
    if isinstance(outcome, Failure):
        feedback = {"error": {"error_code": outcome.kind} | ({"error_message": words} if words else {})}
    else:
        feedback = {"value": outcome.value if isinstance(outcome, Score) else None}
    assessment = {
        # Unique in the whole server, where another application may have named a request as this one did.
        "assessment_id": str(uuid.uuid5(uuid.UUID(outcome.id), place.trace_id)),
        "trace_id": f"tr-{place.trace_id}",
        "span_id": place.span_id,
        "assessment_name": outcome.metric[:_NAME_MAX_CHARS],
        "source": {
            "source_type": "CODE" if outcome.judge is None else "LLM_JUDGE",
            "source_id": (outcome.judge or "ragstone")[:_NAME_MAX_CHARS],
        },
        "feedback": feedback,
        "rationale": words if isinstance(outcome, Score) else None,
        # It takes text only.
        "metadata": {"id": outcome.id}
        | {
            name: value if isinstance(value, str) else json.dumps(value)
            for name, value in build_score_metadata(delivery).items()
        },
    }
    return {name: value for name, value in assessment.items() if value is not None}


def _fields(response: httpx.Response) -> dict[str, Any]:
    """The object that an answer holds; empty if it holds none."""
    try:
        body = response.json()
    except ValueError:
        return {}
    return body if isinstance(body, dict) else {}
