"""LangSmith: runs, as its SDK lists them, as its bulk export writes them, and as LangChain's tracers keep them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from ragstone.errors import DataError
from ragstone.replay._fields import has_fields, mapping, parse_names, reply_in, text_or_none, unix_time
from ragstone.replay._formats import RejectedRecord
from ragstone.replay._json import inner_json
from ragstone.replay._payloads import answer_in, contexts_in, count_in, passages_in, question_in, request_metadata
from ragstone.replay._records import records
from ragstone.replay._source import InputFile
from ragstone.replay._stage import BufferedSpan, staged, traces_of
from ragstone.replay._tree import NodeKind, Step
from ragstone.schema import Trace

__all__ = ["LangsmithFormat"]

_KINDS: Final[Mapping[str, NodeKind]] = {
    "chain": "chain",
    "llm": "llm",
    "retriever": "retriever",
    "tool": "tool",
    "embedding": "embedding",
}
_LEAKED: Final = ("revision_id", "usage_metadata", "model_name", "_type", "stop", "thread_id", "conversation_id")
"""Metadata that the SDK and LangChain add, and ids that have a place of their own."""
_PLACES: Final = ("dotted_order", "parent_run_id", "child_runs", "parent_run_ids")


class LangsmithFormat:
    """Runs of LangSmith: JSON lines, JSON or Parquet; the runs of a trace in any order, also inside one another."""

    name = "langsmith"

    def detect(self, head: bytes) -> str | None:
        """Runs say their `run_type` and their place in a trace."""
        if head.startswith(b"PAR1"):
            return "columns `run_type` and `dotted_order`" if has_fields(head, "run_type", "dotted_order") else None
        found = parse_names(head)
        place = next((name for name in _PLACES if name in found), None)
        return f"runs with `run_type` and `{place}`" if "run_type" in found and place is not None else None

    def read(self, source: InputFile) -> Iterator[Trace | RejectedRecord]:
        """Read traces; feedback is passed over, and so are the settings and names of hosts that the SDK records."""
        yield from traces_of(records(source, within=("data", "runs")), spans=_spans, nodes=_nodes, source=self.name)


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
    """The root's id: "20261121T001741083219Z" and the id, for each run from the root down, with dots between."""
    first = dotted_order.partition(".")[0] if isinstance(dotted_order, str) else ""
    return first.partition("Z")[2] or None


def _nodes(trace_id: str, runs: list[Any]) -> list[Step]:
    return [_node(trace_id, run) for run in sorted(runs, key=lambda run: str(run.get("dotted_order") or ""))]


def _node(trace_id: str, run: Mapping[str, Any]) -> Step:
    inputs, outputs = inner_json(run.get("inputs")), inner_json(run.get("outputs"))
    extra = mapping(inner_json(run.get("extra")))
    said = mapping(inner_json(extra.get("metadata")))
    kind = _KINDS.get(run["run_type"], "other")
    node = Step(
        id=run["id"],
        parent_id=run["parent_run_id"],
        trace_id=trace_id,
        run_id=run["id"],
        kind=kind,
        name=text_or_none(run.get("name")),
        started_at=unix_time(run.get("start_time")),
        ended_at=unix_time(run.get("end_time")),
        first_token_at=unix_time(run.get("first_token_time")),
        error=_error(run),
        session_id=_first_text(said, "session_id", "thread_id", "conversation_id"),
        user_id=_first_text(said, "user_id"),
        tags=tuple(tag for tag in run.get("tags") or () if isinstance(tag, str))
        if isinstance(run.get("tags"), list)
        else (),
        metadata=_metadata(run, said),
    )
    if isinstance(reference := said.get("reference"), str):
        node.reference = (reference,)
    if kind == "llm":
        _fill_llm(node, run, inputs, outputs, extra)
    elif kind == "retriever":
        node.query, node.passages = question_in(inputs), passages_in(outputs)
    elif kind == "tool":
        node.query, node.answer = question_in(inputs), answer_in(outputs)
        _fill_tool(node, outputs)
    elif kind == "chain":
        node.query, node.answer, node.passages = question_in(inputs), answer_in(outputs), contexts_in(outputs)
    return node


def _fill_llm(node: Step, run: Mapping[str, Any], inputs: Any, outputs: Any, extra: Mapping[str, Any]) -> None:
    reply = reply_in(outputs)
    said = mapping(extra.get("metadata"))
    node.query, node.answer = question_in(inputs), reply.text
    node.model = reply.model or _first_text(said, "ls_model_name")
    # The server counts for itself, and knows more models than report what they used.
    # The server counts by itself, and writes 0 where it could not.
    node.input_tokens = count_in(run.get("prompt_tokens")) or reply.input_tokens
    node.output_tokens = count_in(run.get("completion_tokens")) or reply.output_tokens


def _fill_tool(node: Step, outputs: Any) -> None:
    """A tool that gave back documents, itself or beside its message, has retrieved."""
    output = mapping(outputs).get("output", outputs)
    output = mapping(output).get("kwargs", output) if mapping(output).get("lc") else output
    documents = mapping(output).get("artifact", output)
    if isinstance(documents, list) and documents and all(_is_document(item) for item in documents):
        node.kind, node.passages = "retriever", passages_in(documents)


def _is_document(item: Any) -> bool:
    body = mapping(item)
    return "page_content" in mapping(body.get("kwargs") if body.get("lc") else body)


def _error(run: Mapping[str, Any]) -> str | None:
    error = run.get("error")
    if not isinstance(error, str) or not error:
        return "error" if run.get("status") == "error" else None
    # The stack below it names the files of whoever ran it.
    return error.partition("Traceback (most recent call last)")[0].strip() or error.strip().splitlines()[-1]


def _metadata(run: Mapping[str, Any], said: Mapping[str, Any]) -> dict[str, Any]:
    kept = request_metadata(
        {k: v for k, v in said.items() if k not in (*_LEAKED, "session_id", "user_id", "reference")}
    )
    # LangSmith's word for a project is session; a session of a user is `session_id` in the metadata.
    for name, field in (("langsmith_project", "session_name"), ("langsmith_project_id", "session_id")):
        if (value := text_or_none(run.get(field))) is not None:
            kept.setdefault(name, value)
    return kept


def _first_text(values: Mapping[str, Any], *names: str) -> str | None:
    return next((text for name in names if (text := text_or_none(values.get(name))) is not None), None)
