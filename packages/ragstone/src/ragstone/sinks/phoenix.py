"""Outcomes as annotations of spans in Arize Phoenix, over its HTTP API."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from ragstone.errors import SinkError, SinkNoTargetError, SinkTargetMissingError, SinkUnavailableError
from ragstone.schema import Delivery, Failure, Score
from ragstone.sinks._http import HttpClient, base_url, host_and_port, parse_error_response
from ragstone.sinks._row import build_comment, build_score_metadata, span_ref_of

if TYPE_CHECKING:
    import httpx

__all__ = ["PhoenixSink"]

_LOCAL: Final = "http://localhost:6006"
_PATH: Final = "/v1/span_annotations"
_REQUEST_MAX_ROWS: Final = 1000
_WRONG_ADDRESS: Final = frozenset({404, 405})
_SPAN_ID: Final = re.compile(r"\b[0-9a-f]{16}\b")


class PhoenixSink:
    """Annotates the span that was current when the request was captured, in the Phoenix server that has it.

    Phoenix knows an annotation by span, name and identifier, and ours is the id of the outcome: a repeat replaces
    itself, and another version of a metric, or another judge, stands beside it. A `Failure` has the label "failure" and
    no score, which leaves the averages alone. A `NotApplicable` is no annotation.

    A request without a span, or whose trace was sampled out, has no place there. One whose span is not there yet waits
    for it; the rest of its batch arrives.

    Args:
        url: Base URL of the server; by default `PHOENIX_COLLECTOR_ENDPOINT` decides, else "http://localhost:6006".
        api_key: Sent as a bearer token; by default `PHOENIX_API_KEY`.
        headers: Sent with each request, on top of those of `PHOENIX_CLIENT_HEADERS` ("name=value,name=value").
        timeout_s: Seconds for one request, of at most 1,000 annotations.
        include_text: Also send explanations and reasons, which may quote captured text.

    Raises:
        ConfigurationError: The URL is none.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        api_key: str | None = None,
        headers: Mapping[str, str] | None = None,
        timeout_s: float = 30.0,
        include_text: bool = False,
    ) -> None:
        environ = os.environ
        # The endpoint is often that of the spans, as exporters want it.
        address = url or environ.get("PHOENIX_COLLECTOR_ENDPOINT", "").removesuffix("/v1/traces") or _LOCAL
        self._url = base_url(address, sink="phoenix", example=f"phoenix:{_LOCAL}")
        sent = _headers_in(environ.get("PHOENIX_CLIENT_HEADERS", ""))
        if key := api_key or environ.get("PHOENIX_API_KEY"):
            sent["authorization"] = f"Bearer {key}"
        self._http = HttpClient(headers=sent | dict(headers or {}), timeout_s=timeout_s)
        self._include_text = include_text
        self._closed = False

    @classmethod
    def from_spec(cls, argument: str, *, include_text: bool = False) -> PhoenixSink:
        """Make the sink of `"phoenix"` or `"phoenix:http://host:6006"` from its part after the colon.

        Raises:
            ConfigurationError: The URL is none.
        """
        return cls(argument or None, include_text=include_text)

    @property
    def name(self) -> str:
        """`phoenix:` with host and port of the server."""
        return f"phoenix:{host_and_port(self._url)}"

    async def write(self, batch: Sequence[Delivery]) -> Mapping[str, SinkError]:
        """Send `batch`; returns when Phoenix has stored what it can.

        Returns:
            The outcomes whose span is not there (yet), and those that have no place there.

        Raises:
            SinkUnavailableError: No connection, time-out, 429, 5xx, this is no Phoenix, or the sink is closed.
            SinkRejectedError: Phoenix refuses a row, and does not say which.
            SinkDeniedError: The key is refused.
        """
        if self._closed:
            raise SinkUnavailableError(f"the sink {self.name!r} is closed")
        errors: dict[str, SinkError] = {}
        rows: dict[str, dict[str, Any]] = {}
        for delivery in batch:
            row = _annotation(delivery, include_text=self._include_text)
            if isinstance(row, SinkNoTargetError):
                errors[delivery.outcome.id] = row
            else:
                rows[delivery.outcome.id] = row
        ids = list(rows)
        for start in range(0, len(ids), _REQUEST_MAX_ROWS):
            errors |= await self._send({i: rows[i] for i in ids[start : start + _REQUEST_MAX_ROWS]})
        return errors

    async def aclose(self) -> None:
        """Close the connections."""
        self._closed = True
        await self._http.aclose()

    async def _send(self, rows: dict[str, dict[str, Any]]) -> dict[str, SinkError]:
        """Send rows by the id of their outcome; return those whose span Phoenix does not have."""
        errors: dict[str, SinkError] = {}
        while rows:
            # Without `sync` Phoenix takes everything, and keeps what has no span in its memory for ten minutes.
            response = await self._http.request(
                "POST", self._url.geturl() + _PATH, params={"sync": "true"}, json={"data": list(rows.values())}
            )
            missing = _missing_spans(response)
            gone = {i for i, row in rows.items() if row["span_id"] in missing}
            if not gone:
                if error := parse_error_response(response, wrong_address=_WRONG_ADDRESS):
                    raise error
                break
            # It has stored nothing: what is left goes again.
            errors |= dict.fromkeys(gone, SinkTargetMissingError(f"{host_and_port(self._url)} does not have the span"))
            rows = {i: row for i, row in rows.items() if i not in gone}
        return errors


def _annotation(delivery: Delivery, *, include_text: bool) -> dict[str, Any] | SinkNoTargetError:
    """Return an outcome as Phoenix takes it, or why it has no place there."""
    place = span_ref_of(delivery)
    if isinstance(place, SinkNoTargetError):
        return place
    if place.span_id is None:
        return SinkNoTargetError("the request has no OpenTelemetry span, by which Phoenix would know it")
    outcome = delivery.outcome
    return {
        "span_id": place.span_id,
        "name": outcome.metric,
        "identifier": outcome.id,
        "annotator_kind": "CODE" if outcome.judge is None else "LLM",
        "result": {
            "score": outcome.value if isinstance(outcome, Score) else None,
            "label": "failure" if isinstance(outcome, Failure) else None,
            "explanation": build_comment(delivery) if include_text else None,
        },
        "metadata": build_score_metadata(delivery),
    }


def _missing_spans(response: httpx.Response) -> set[str]:
    """The ids of the spans that Phoenix, in a 404, says it does not have."""
    return set(_SPAN_ID.findall(response.text)) if response.status_code == 404 else set()


def _headers_in(text: str) -> dict[str, str]:
    """The headers of `name=value,name=value`, as Phoenix's own client reads them: names and values are URL-encoded."""
    pairs = (pair.split("=", 1) for pair in text.split(",") if "=" in pair)
    return {unquote(name).strip().lower(): unquote(value).strip() for name, value in pairs}
