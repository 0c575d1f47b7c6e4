"""Scores as feedback on the runs of LangSmith, over its HTTP API."""

from __future__ import annotations

import os
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ragstone.errors import (
    ConfigurationError,
    SinkError,
    SinkNoTargetError,
    SinkTargetMissingError,
    SinkUnavailableError,
)
from ragstone.schema import Delivery, Failure, NotApplicable, Score
from ragstone.sinks._http import HttpClient, base_url, host_and_port, parse_error_response, printable
from ragstone.sinks._row import build_comment, build_score_metadata, iso_time, write_each

__all__ = ["LangsmithSink"]

_CLOUD: Final = "https://api.smith.langchain.com"
_WRONG_ADDRESS: Final = frozenset({404, 405})
_SCORE_DECIMALS: Final = 4
"""The API refuses a score with more."""


class LangsmithSink:
    """Puts each score, and each failure, as feedback on the run that LangSmith has of the request.

    The run is known by its id, which LangChain gives: a request captured elsewhere has none and is skipped. A failure is
    feedback with `error` and without a score; a metric that does not apply is no feedback and is skipped. LangSmith takes
    scores of four decimals; the value itself is in `extra`.

    Feedback keeps its id, so a repeat finds itself there. It does not extend how long LangSmith keeps the trace, as
    feedback otherwise does at a price. A run that has not arrived yet is waited for.

    Args:
        url: Base URL of the API; by default `LANGSMITH_ENDPOINT` decides, else LangSmith's cloud.
        api_key: By default `LANGSMITH_API_KEY`.
        project: Name of the project the runs are in, which LangSmith wants to know to find them; by default
            `LANGSMITH_PROJECT`. Without it feedback is sent as older servers take it.
        workspace_id: For a key that is valid in several workspaces; by default `LANGSMITH_WORKSPACE_ID`.
        timeout_s: Seconds for one request.
        include_text: Also send explanations and reasons, which may quote captured text.

    Where a variable is not set, its older name (`LANGCHAIN_API_KEY`, ...) is read.

    Raises:
        ConfigurationError: The URL is none, or there is no key.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        api_key: str | None = None,
        project: str | None = None,
        workspace_id: str | None = None,
        timeout_s: float = 10.0,
        include_text: bool = False,
    ) -> None:
        address = url or _setting("ENDPOINT") or _CLOUD
        self._url = base_url(address, sink="langsmith", example=f"langsmith:{_CLOUD}")
        api_key = api_key or _setting("API_KEY")
        if not api_key:
            raise ConfigurationError("the sink 'langsmith' needs a key of the LangSmith API; set LANGSMITH_API_KEY")
        headers = {"x-api-key": api_key}
        workspace_id = workspace_id or _setting("WORKSPACE_ID")
        if workspace_id:
            headers["X-Tenant-Id"] = workspace_id
        self._project = project or _setting("PROJECT")
        self._project_id: str | None = None
        self._include_text = include_text
        self._http = HttpClient(headers=headers, timeout_s=timeout_s)
        self._closed = False

    @classmethod
    def from_spec(cls, argument: str, *, include_text: bool = False) -> LangsmithSink:
        """Make the sink of `"langsmith"` or `"langsmith:https://host"` from its part after the colon.

        Raises:
            ConfigurationError: The URL is none, or there is no key.
        """
        return cls(argument or None, include_text=include_text)

    @property
    def name(self) -> str:
        """`langsmith:` with host and port of the server."""
        return f"langsmith:{host_and_port(self._url)}"

    async def write(self, batch: Sequence[Delivery]) -> Mapping[str, SinkError]:
        """Send the scores and failures of `batch`, one a request; returns when the server has answered for each.

        Returns:
            The rows that it refuses, that did not reach it, whose run it does not have yet, and that have no place there.

        Raises:
            SinkUnavailableError: The sink is closed, or the project cannot be asked for.
            SinkTargetMissingError: There is no project of that name yet.
            SinkDeniedError: The key is refused.
        """
        if self._closed:
            raise SinkUnavailableError(f"the sink {self.name!r} is closed")
        skipped = {d.outcome.id: reason for d in batch if (reason := _no_target(d)) is not None}
        rows = [delivery for delivery in batch if delivery.outcome.id not in skipped]
        if rows and self._project is not None and self._project_id is None:
            self._project_id = await self._ask_project_id(self._project)
        return skipped | await write_each(rows, self._write_one)

    async def aclose(self) -> None:
        """Close the connections."""
        self._closed = True
        await self._http.aclose()

    async def _write_one(self, delivery: Delivery) -> SinkError | None:
        body = _feedback(delivery, session_id=self._project_id, include_text=self._include_text)
        response = await self._http.request("POST", f"{self._url.geturl()}/feedback", json=body)
        # A conflict is with ourselves: nobody else makes this id.
        return None if response.status_code == 409 else parse_error_response(response, missing=frozenset({404}))

    async def _ask_project_id(self, project: str) -> str:
        response = await self._http.request(
            "GET",
            f"{self._url.geturl()}/sessions",
            params={"name": project, "limit": "1", "include_stats": "false"},
        )
        error = parse_error_response(response, wrong_address=_WRONG_ADDRESS)
        if error is not None:
            raise error
        try:
            found = response.json()
            project_id = str(uuid.UUID(found[0]["id"])) if found else None
        except (ValueError, TypeError, LookupError, AttributeError):
            raise SinkUnavailableError(
                f"{host_and_port(self._url)} does not answer as LangSmith does: {printable(response.text)}"
            ) from None
        if project_id is None:
            raise SinkTargetMissingError(
                f"{host_and_port(self._url)} has no project called {printable(project)!r}, or no run in it yet"
            )
        return project_id


def _no_target(delivery: Delivery) -> SinkNoTargetError | None:
    if isinstance(delivery.outcome, NotApplicable):
        return SinkNoTargetError("a metric that does not apply is no feedback")
    try:
        uuid.UUID(delivery.run_id or "")
    except ValueError:
        return SinkNoTargetError("the request has no run id, by which LangSmith would know it")
    return None


def _feedback(delivery: Delivery, *, session_id: str | None, include_text: bool) -> dict[str, Any]:
    """Return an outcome as LangSmith takes it.

    There is no `trace_id`: it is the id of the outermost run, and what was captured may have run inside another.
    """
    outcome = delivery.outcome
    who = {"judge": outcome.judge, "judge_hash": outcome.judge_hash or None, "prompt_hash": outcome.prompt_hash}
    scored_at = iso_time(outcome.created_at)
    body = {
        "id": outcome.id,
        "run_id": delivery.run_id,
        "session_id": session_id,
        "start_time": iso_time(delivery.requested_at),
        "key": outcome.metric,
        "score": round(outcome.value, _SCORE_DECIMALS) if isinstance(outcome, Score) else None,
        "error": True if isinstance(outcome, Failure) else None,
        "comment": build_comment(delivery) if include_text else None,
        "feedback_source": {
            "type": "model" if outcome.judge else "api",
            "metadata": {name: value for name, value in who.items() if value is not None},
        },
        "extra": build_score_metadata(delivery),
        "created_at": scored_at,
        "modified_at": scored_at,
        "extend_trace_retention": False,
    }
    return {name: value for name, value in body.items() if value is not None}


def _setting(name: str) -> str | None:
    environ = os.environ
    return (environ.get(f"LANGSMITH_{name}") or environ.get(f"LANGCHAIN_{name}") or "").strip() or None
