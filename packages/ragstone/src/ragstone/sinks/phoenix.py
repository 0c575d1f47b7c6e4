"""Outcomes as annotations of spans in Arize Phoenix, over its HTTP API."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import unquote

from ragstone.errors import SinkError, SinkNoTargetError, SinkTargetMissingError
from ragstone.schema import Delivery, Failure
from ragstone.sinks._http import WRONG_ADDRESS, HttpSink, host_and_port, parse_error_response
from ragstone.sinks._row import CAUSE, notes_of, span_ref_of

_LOCAL: Final = "http://localhost:6006"
_PATH: Final = "/v1/span_annotations"
_REQUEST_MAX_ROWS: Final = 1000
_CAUSE: Final = f"_{CAUSE}"
"""Phoenix sorts annotations by name, and shows only the first one to three of a span. This name sorts before those of
metrics."""
_SPAN_ID: Final = re.compile(r"\b[0-9a-f]{16}\b")


class PhoenixSink(HttpSink):
    """Annotates the request's span in Phoenix: the span that was current when the request was captured.

    Phoenix identifies an annotation by span, name and identifier. The sink uses the outcome's id as identifier: a
    repeated delivery replaces the annotation, and another metric version or judge adds one. A `Failure` has the label
    "failure", a `NotApplicable` the label "not applicable". Neither has a score, so that averages do not change. The
    explanation contains interval, judge and method. If the answer is wrong, the annotation "_ragstone.cause", which
    Phoenix shows first, says why: its label is the cause, and its explanation the evidence.

    Requests without a span, or whose trace was not sampled, are skipped. If a span has not arrived yet, its delivery is
    retried, and the rest of the batch is stored.

    Args:
        url: Base URL of the server. Default: `PHOENIX_COLLECTOR_ENDPOINT` or "http://localhost:6006".
        api_key: Bearer token. Default: `PHOENIX_API_KEY`.
        headers: Headers of each request, in addition to those of `PHOENIX_CLIENT_HEADERS` ("name=value,name=value").
        timeout_s: Timeout of one request with at most 1,000 annotations, in seconds.
        include_text: Also send explanations and reasons, which may quote captured text.

    Raises:
        ConfigurationError: If the URL is invalid.
    """

    _KIND = "phoenix"
    _EXAMPLE = f"phoenix:{_LOCAL}"

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
        # The variable often contains the endpoint of the spans, for exporters.
        url = url or environ.get("PHOENIX_COLLECTOR_ENDPOINT", "").removesuffix("/v1/traces") or _LOCAL
        environment_headers = _parse_headers(environ.get("PHOENIX_CLIENT_HEADERS", ""))
        if key := api_key or environ.get("PHOENIX_API_KEY"):
            environment_headers["authorization"] = f"Bearer {key}"
        all_headers = environment_headers | dict(headers or {})
        super().__init__(url, headers=all_headers, timeout_s=timeout_s, include_text=include_text)

    async def write(self, batch: Sequence[Delivery]) -> Mapping[str, SinkError]:
        """Send `batch`, and return when Phoenix has stored all rows that it accepts.

        Returns:
            Errors of the outcomes that were skipped or whose span does not exist yet, by `outcome.id`.

        Raises:
            SinkUnavailableError: On connection failure, timeout, 429 or 5xx, if the server is not Phoenix, or if the
                sink is closed.
            SinkRejectedError: If Phoenix rejects a row without saying which.
            SinkDeniedError: If the key is rejected.
        """
        self._check_open()
        errors: dict[str, SinkError] = {}
        rows: dict[str, dict[str, Any]] = {}
        outcome_ids: dict[str, str] = {}
        for delivery in batch:
            annotations = _annotations(delivery, include_text=self._include_text)
            if isinstance(annotations, SinkNoTargetError):
                errors[delivery.outcome.id] = annotations
                continue
            for row in annotations:
                rows[row["identifier"]] = row
                outcome_ids[row["identifier"]] = delivery.outcome.id
        ids = list(rows)
        for start in range(0, len(ids), _REQUEST_MAX_ROWS):
            missing = await self._send({i: rows[i] for i in ids[start : start + _REQUEST_MAX_ROWS]})
            errors |= {outcome_ids[i]: error for i, error in missing.items()}
        return errors

    async def _send(self, rows: dict[str, dict[str, Any]]) -> dict[str, SinkError]:
        """Send rows, and return errors for those whose span Phoenix does not have, by their identifier."""
        errors: dict[str, SinkError] = {}
        while rows:
            # Without `sync`, Phoenix accepts everything and keeps annotations of unknown spans in memory for ten
            # minutes.
            response = await self._http.request(
                "POST", self._url.geturl() + _PATH, params={"sync": "true"}, json={"data": list(rows.values())}
            )
            missing = {*_SPAN_ID.findall(response.text)} if response.status_code == 404 else set()
            unknown = {i for i, row in rows.items() if row["span_id"] in missing}
            if not unknown:
                if error := parse_error_response(response, wrong_address=WRONG_ADDRESS):
                    raise error
                break
            # Phoenix has stored nothing, so the remaining rows are sent again.
            errors |= dict.fromkeys(
                unknown, SinkTargetMissingError(f"{host_and_port(self._url)} does not have the span")
            )
            rows = {i: row for i, row in rows.items() if i not in unknown}
        return errors


def _annotations(delivery: Delivery, *, include_text: bool) -> list[dict[str, Any]] | SinkNoTargetError:
    """Return an outcome, and the cause if it has one, in Phoenix's format, or why it is skipped."""
    span = span_ref_of(delivery)
    if isinstance(span, SinkNoTargetError):
        return span
    if span.span_id is None:
        return SinkNoTargetError("the request does not have an OpenTelemetry span")
    return [
        {
            "span_id": span.span_id,
            "name": _CAUSE if note.outcome is None else note.name,
            "identifier": note.id,
            "annotator_kind": "CODE" if note.judge is None else "LLM",
            "result": {
                "score": note.value,
                "label": "failure" if isinstance(note.outcome, Failure) else note.label,
                "explanation": note.comment,
            },
            "metadata": note.metadata,
        }
        for note in notes_of(delivery, include_text=include_text)
    ]


def _parse_headers(text: str) -> dict[str, str]:
    """Parse `name=value,name=value` with URL-encoded names and values, as Phoenix's own client does."""
    pairs = (pair.split("=", 1) for pair in text.split(",") if "=" in pair)
    return {unquote(name).strip().lower(): unquote(value).strip() for name, value in pairs}
