"""Scores as feedback on the runs of LangSmith, over its HTTP API."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from ragstone.errors import (
    ConfigurationError,
    SinkError,
    SinkNoTargetError,
    SinkTargetMissingError,
    SinkUnavailableError,
)
from ragstone.schema import Delivery, Failure
from ragstone.sinks._http import WRONG_ADDRESS, HttpSink, host_and_port, parse_error_response, printable
from ragstone.sinks._row import iso_time, notes_of, write_each

_CLOUD: Final = "https://api.smith.langchain.com"
_SCORE_DECIMALS: Final = 4
"""The API rejects a score with more decimals."""


class LangsmithSink(HttpSink):
    """Adds each score and each failure as feedback to the request's run in LangSmith.

    LangSmith identifies runs by the run id of LangChain. Requests without a run id are skipped. A failure becomes
    feedback with `error` and without a score, and a metric that does not apply has the value "not applicable". The
    comment contains interval, judge and method. LangSmith accepts four decimals, so `extra` contains the exact value.
    If the answer is wrong, the feedback "ragstone.cause" says why.

    Feedback keeps its id, so a repeated delivery does not duplicate it. The sink sets `extend_trace_retention` to
    false, because LangSmith charges for longer retention. If a run has not arrived yet, its feedback is retried.

    Args:
        url: Base URL of the API. Default: `LANGSMITH_ENDPOINT` or LangSmith's cloud.
        api_key: API key. Default: `LANGSMITH_API_KEY`.
        project: Name of the runs' project, by which LangSmith finds them. Default: `LANGSMITH_PROJECT`. Without a
            project, feedback is sent in the format of older servers.
        workspace_id: Workspace of a key that is valid in several. Default: `LANGSMITH_WORKSPACE_ID`.
        timeout_s: Timeout of one request, in seconds.
        include_text: Also send explanations and reasons, which may quote captured text.

    If a variable is not set, its older name (`LANGCHAIN_API_KEY`, ...) is read.

    Raises:
        ConfigurationError: If the URL is invalid or the key is missing.
    """

    _KIND = "langsmith"
    _EXAMPLE = f"langsmith:{_CLOUD}"

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
        api_key = api_key or _setting("API_KEY")
        headers = {"x-api-key": api_key or ""}
        if workspace_id := workspace_id or _setting("WORKSPACE_ID"):
            headers["X-Tenant-Id"] = workspace_id
        url = url or _setting("ENDPOINT") or _CLOUD
        super().__init__(url, headers=headers, timeout_s=timeout_s, include_text=include_text)
        if not api_key:
            raise ConfigurationError("the sink 'langsmith' needs a key of the LangSmith API. Set LANGSMITH_API_KEY.")
        self._project = project or _setting("PROJECT")
        self._project_id: str | None = None

    async def write(self, batch: Sequence[Delivery]) -> Mapping[str, SinkError]:
        """Send each score and failure of `batch` in one request, and return when the server has answered for each.

        Returns:
            Errors of the rows that were rejected, not received or skipped, or whose run does not exist yet, by
            `outcome.id`.

        Raises:
            SinkUnavailableError: If the sink is closed or the project's id cannot be read.
            SinkTargetMissingError: If the project does not exist yet.
            SinkDeniedError: If the key is rejected.
        """
        self._check_open()
        skipped = {d.outcome.id: reason for d in batch if (reason := _no_target(d)) is not None}
        rows = [delivery for delivery in batch if delivery.outcome.id not in skipped]
        if rows and self._project is not None and self._project_id is None:
            self._project_id = await self._read_project_id(self._project)
        return skipped | await write_each(rows, self._write_one)

    async def _write_one(self, delivery: Delivery) -> SinkError | None:
        for body in _feedback(delivery, session_id=self._project_id, include_text=self._include_text):
            response = await self._http.request("POST", f"{self._url.geturl()}/feedback", json=body)
            # 409: the feedback already exists from an earlier attempt, because only Ragstone creates this id.
            error = None if response.status_code == 409 else parse_error_response(response, missing=frozenset({404}))
            if error is not None:
                return error
        return None

    async def _read_project_id(self, project: str) -> str:
        response = await self._http.request(
            "GET", f"{self._url.geturl()}/sessions", params={"name": project, "limit": "1", "include_stats": "false"}
        )
        error = parse_error_response(response, wrong_address=WRONG_ADDRESS)
        if error is not None:
            raise error
        try:
            projects = response.json()
            project_id = str(uuid.UUID(projects[0]["id"])) if projects else None
        except (ValueError, TypeError, LookupError, AttributeError):
            raise SinkUnavailableError(
                f"{host_and_port(self._url)} does not answer as LangSmith does: {printable(response.text)}"
            ) from None
        if project_id is None:
            raise SinkTargetMissingError(
                f"{host_and_port(self._url)} does not have a project {printable(project)!r} with runs yet"
            )
        return project_id


def _no_target(delivery: Delivery) -> SinkNoTargetError | None:
    try:
        uuid.UUID(delivery.run_id or "")
    except ValueError:
        return SinkNoTargetError("the request does not have a LangChain run id")
    return None


def _feedback(delivery: Delivery, *, session_id: str | None, include_text: bool) -> Iterator[dict[str, Any]]:
    """Yield an outcome, and the cause if it has one, in LangSmith's format.

    `trace_id` is not set: it is the id of the outermost run, and the captured run may be nested in another.
    """
    outcome, scored_at = delivery.outcome, iso_time(delivery.outcome.created_at)
    source = {"judge": outcome.judge, "judge_hash": outcome.judge_hash or None, "prompt_hash": outcome.prompt_hash}
    for note in notes_of(delivery, include_text=include_text):
        about = source if note.outcome is not None else {}
        body = {
            "id": note.id,
            "key": note.name,
            "score": None if note.value is None else round(note.value, _SCORE_DECIMALS),
            "value": note.label,
            "error": True if isinstance(note.outcome, Failure) else None,
            "comment": note.comment,
            "feedback_source": {
                "type": "model" if note.judge else "api",
                "metadata": {name: value for name, value in about.items() if value is not None},
            },
            "extra": note.metadata,
            "run_id": delivery.run_id,
            "session_id": session_id,
            "start_time": iso_time(delivery.requested_at),
            "created_at": scored_at,
            "modified_at": scored_at,
            "extend_trace_retention": False,
        }
        yield {name: value for name, value in body.items() if value is not None}


def _setting(name: str) -> str | None:
    environ = os.environ
    return (environ.get(f"LANGSMITH_{name}") or environ.get(f"LANGCHAIN_{name}") or "").strip() or None
