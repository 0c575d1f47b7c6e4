"""LangSmith: runs, as its SDK lists them, as its bulk export writes them, and as LangChain's tracers keep them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from ragstone.errors import DataError
from ragstone.reading._fields import StepNames, has_fields, mapping, parse_names
from ragstone.reading._formats import RejectedRecord
from ragstone.reading._json import inner_json
from ragstone.reading._records import records
from ragstone.reading._source import InputFile
from ragstone.reading._stage import BufferedSpan, staged, traces_of
from ragstone.reading._values import count_in, fill_identity, text_or_none
from ragstone.requests import Step
from ragstone.schema import Trace

_LEAKED: Final = ("revision_id", "usage_metadata", "model_name", "_type", "stop")
"""Metadata that the SDK and LangChain add."""
_PROJECT: Final = {"langsmith_project": "session_name", "langsmith_project_id": "session_id"}
_NAMES: Final = StepNames(
    kind="run_type",
    labels={"name": ("name",)},
    times={"started_at": ("start_time",), "ended_at": ("end_time",), "first_token_at": ("first_token_time",)},
    sides=("inputs", "outputs"),
    tags="tags",
)
_PLACES: Final = ("dotted_order", "parent_run_id", "child_runs", "parent_run_ids")


class LangsmithFormat:
    """Runs of LangSmith: JSON lines, JSON or Parquet; the runs of a trace in any order, also inside one another."""

    name = "langsmith"

    def detect(self, head: bytes) -> str | None:
        """Detect runs by `run_type` and their position in a trace."""
        if head.startswith(b"PAR1"):
            return "columns `run_type` and `dotted_order`" if has_fields(head, "run_type", "dotted_order") else None
        found = parse_names(head)
        place = next((name for name in _PLACES if name in found), None)
        return f"runs with `run_type` and `{place}`" if "run_type" in found and place is not None else None

    def read(self, source: InputFile) -> Iterator[Trace | RejectedRecord]:
        """Read traces. Feedback is ignored, and so are the settings and host names that the SDK records."""
        runs, tools = records(source, within=("data", "runs")), source.retriever_tools
        yield from traces_of(runs, spans=_spans, steps=_steps, source=self.name, retriever_tools=tools)


def _spans(value: Any) -> Iterator[BufferedSpan]:
    if not isinstance(value, Mapping):
        raise DataError("a run must be an object")
    if "run_type" not in value and "key" in value and "run_id" in value:
        return  # feedback
    yield from _with_children(value, None, None)


def _with_children(run: Mapping[str, Any], trace_id: str | None, parent_id: str | None) -> Iterator[BufferedSpan]:
    run_id = text_or_none(run.get("id"))
    if run_id is None or not isinstance(run.get("run_type"), str):
        raise DataError("a run must have an `id` and a `run_type`")
    parent_id = text_or_none(run.get("parent_run_id")) or parent_id
    trace_id = text_or_none(run.get("trace_id")) or _first_in(run.get("dotted_order")) or trace_id
    if trace_id is None:
        if parent_id is not None:
            raise DataError(
                f"the run {run_id[:80]!r} has a parent, and neither `trace_id` nor `dotted_order` to find it by"
            )
        trace_id = run_id
    children = run.get("child_runs")
    kept = {name: value for name, value in run.items() if name not in ("child_runs", "serialized", "events")}
    kept |= {"id": run_id, "parent_run_id": parent_id}
    yield staged(trace_id=trace_id, span_id=run_id, is_root=parent_id is None, value=kept)
    for child in children if isinstance(children, list) else ():
        if isinstance(child, Mapping):
            yield from _with_children(child, trace_id, run_id)


def _first_in(dotted_order: Any) -> str | None:
    """Return the root's id from a dotted order: for each run from the root down, "20261121T001741083219Z" and its id."""
    first = dotted_order.partition(".")[0] if isinstance(dotted_order, str) else ""
    return first.partition("Z")[2] or None


def _steps(trace_id: str, runs: list[Any]) -> list[Step]:  # noqa: ARG001 - the ids of runs are not those of spans
    return [_step(run) for run in sorted(runs, key=lambda run: str(run.get("dotted_order") or ""))]


def _step(run: Mapping[str, Any]) -> Step:
    said = mapping(inner_json(mapping(inner_json(run.get("extra"))).get("metadata")))
    step = Step(id=run["id"], parent=run["parent_run_id"], run_id=run["id"], error=_error(run))
    _NAMES.set_kind(step, run)
    _NAMES.fill(step, run)
    fill_identity(step, {name: value for name, value in said.items() if name not in _LEAKED})
    # LangSmith's word for a project is session; a session of a user is `session_id` in the metadata.
    projects = {name: text_or_none(run.get(field)) for name, field in _PROJECT.items()}
    step.metadata = {name: value for name, value in projects.items() if value is not None} | dict(step.metadata)
    if step.kind == "model":
        step.model = text_or_none(step.model, said.get("ls_model_name"))
        # The server counts tokens by itself, and writes 0 if it could not.
        step.input_tokens = count_in(run.get("prompt_tokens")) or step.input_tokens
        step.output_tokens = count_in(run.get("completion_tokens")) or step.output_tokens
    return step


def _error(run: Mapping[str, Any]) -> str | None:
    error = run.get("error")
    if not isinstance(error, str) or not error:
        return "error" if run.get("status") == "error" else None
    # The stack below it names files of the machine that ran it.
    return error.partition("Traceback (most recent call last)")[0].strip() or error.strip().splitlines()[-1]
