"""From the steps of a recorded trace to traces: `ragstone.requests` decides, this converts and explains."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from typing import Final

from pydantic import ValidationError

from ragstone.reading._formats import RejectedRecord
from ragstone.requests import (
    TRACE_ID_KEY,
    PassageDraft,
    Request,
    RetrievalDraft,
    RetrieverTools,
    Step,
    TraceDraft,
    assemble,
    find_requests,
)
from ragstone.schema import Passage, Retrieval, Trace, Usage

_REASONS: Final[Mapping[str, str]] = {
    "bare_model": "model calls without a retrieval or a chain around them",
    "tool": "tool calls without an agent around them",
    "embedding": "embeddings",
    "part": "prompt builders or parsers",
    "infrastructure": "server, HTTP or database spans",
    "nothing_retrieved_or_generated": "steps that neither retrieve nor generate",
}


_SAME: Final = tuple(
    field.name
    for field in fields(TraceDraft)
    if field.name not in ("retrievals", "contexts", "input_tokens", "output_tokens")
)
"""Fields that a trace takes from its draft as they are."""


def requests_in(
    steps: Sequence[Step], *, source: str, trace_id: str, retriever_tools: RetrieverTools | None = None
) -> list[Trace | RejectedRecord]:
    """Make traces of the requests in the steps of one recorded trace.

    This is usually one trace. If the steps hold no request, it is one `RejectedRecord` that says what they are.
    """
    if not steps:
        return []
    complete_steps(steps)
    ignored: dict[str, int] = {}
    requests = find_requests(steps, source=source, trace_id=trace_id, retriever_tools=retriever_tools, ignored=ignored)
    if not requests:
        found = ", ".join(_REASONS.get(reason, reason) for reason in sorted(ignored))
        return [RejectedRecord(place=f"trace {trace_id}", reason=f"not a request: only {found}", is_ignored=True)]
    _use_ids_of_captured(requests, steps)
    return [_trace(assemble(request)) for request in requests]


def _use_ids_of_captured(requests: Sequence[Request], steps: Sequence[Step]) -> None:
    """Give each request the id under which it was captured as well, if a span or a run states it."""
    taken: set[str] = set()
    for request in requests:
        # With one request, the span of the server around it states it too.
        own = steps if len(requests) == 1 else request.steps
        stated = (step.metadata.get(TRACE_ID_KEY) for step in (own if request.root is None else [request.root, *own]))
        known = next((name for name in stated if isinstance(name, str) and name and name not in taken), None)
        request.draft.metadata.pop(TRACE_ID_KEY, None)
        if known is not None:
            taken.add(known)
            request.draft.trace_id = known


def _trace(draft: TraceDraft) -> Trace | RejectedRecord:
    read, written = draft.input_tokens, draft.output_tokens
    try:
        return Trace(
            **{name: getattr(draft, name) for name in _SAME},
            retrievals=tuple(_retrieval(found) for found in draft.retrievals),
            contexts=None if (stored := draft.stored_contexts) is None else _passages(stored),
            usage=None if read is None or written is None else Usage(input_tokens=read, output_tokens=written),
        )
    except ValidationError as error:
        fields = "; ".join(
            f"{'.'.join(map(str, one['loc']))}: {one['type']}" for one in error.errors(include_input=False)[:5]
        )
        return RejectedRecord(place=f"trace {draft.trace_id}", reason=f"its steps make an invalid trace: {fields}")


def _retrieval(draft: RetrievalDraft) -> Retrieval:
    stages = tuple(_retrieval(stage) for stage in draft.stages)
    return Retrieval(query=draft.query, passages=_passages(draft.passages), name=draft.name, stages=stages)


def _passages(drafts: Sequence[PassageDraft]) -> tuple[Passage, ...]:
    return tuple(
        Passage(text=draft.text, id=draft.id, score=draft.score, rank=rank, metadata=draft.metadata)
        for rank, draft in enumerate(drafts)
    )


_Children = Mapping[Hashable, Sequence[Step]]


def complete_steps(steps: Sequence[Step]) -> None:
    """Set in place what recorded steps lack and other steps of the same trace report.

    - A retriever that reports no passages has those of the retrievers in it, each once.
    - A reranker that names its passages by their ids only has the texts of the retrieval that found them.
    - A reranker that does not report its input was given the passages found before it: of the retrievals that share a
      passage with its output, or of all if none does.
    - A chain or agent that reports nothing of its own has failed if the last step in it has.
    """
    ordered = sorted(steps, key=lambda step: step.started_at or 0.0)
    children: dict[Hashable, list[Step]] = {}
    for step in ordered:
        if step.parent != step.id:
            children.setdefault(step.parent, []).append(step)
    for step in ordered:
        if step.kind == "retrieval" and step.passages is None and step.error is None:
            step.passages = _found_inside(step, children)
    found = [step for step in ordered if step.kind == "retrieval" and step.passages]
    for step in ordered:
        if step.kind == "transform" and step.passages is not None:
            _complete_reranker(step, found)
    for step in reversed(ordered):
        last = children.get(step.id, [None])[-1]
        is_silent = not (step.inputs or step.outputs or step.query or step.reply or step.error)
        if step.kind in ("chain", "agent") and is_silent and last is not None:
            step.error = last.error


def _found_inside(step: Step, children: _Children) -> list[PassageDraft] | None:
    said = [inner.passages for inner in _outermost_retrievals(step, children) if inner.passages is not None]
    if not said:
        return None
    union = {(passage.id, passage.text): passage for passages in reversed(said) for passage in reversed(passages)}
    return list(reversed(union.values()))


def _outermost_retrievals(step: Step, children: _Children) -> Iterator[Step]:
    """Yield the outermost retrievals and rerankers in a step that report passages; the rerankers only, if any."""
    waiting, seen, found = list(children.get(step.id, ())), {step.id}, []
    while waiting:
        inner = waiting.pop(0)
        if inner.id in seen:
            continue
        seen.add(inner.id)
        if inner.kind in ("retrieval", "transform") and inner.passages is not None:
            found.append(inner)
        else:
            waiting += children.get(inner.id, ())
    yield from [inner for inner in found if inner.kind == "transform"] or found


def _complete_reranker(step: Step, found: Sequence[Step]) -> None:
    before = [one for one in found if (one.started_at or 0.0) <= (step.ended_at or step.started_at or 0.0)]
    known = {passage.id: passage for one in before for passage in one.passages or () if passage.id is not None}
    step.passages = [_with_text(passage, known) for passage in step.passages or ()]
    if step.input_texts is not None:
        return
    texts = {passage.text for passage in step.passages}
    groups = [[passage.text for passage in one.passages or ()] for one in before]
    shared = [group for group in groups if texts.intersection(group)]
    step.input_texts = [text for group in shared or groups for text in group]


def _with_text(passage: PassageDraft, known: Mapping[str, PassageDraft]) -> PassageDraft:
    found = known.get(passage.id or "")
    if passage.text or found is None:
        return passage
    return replace(passage, text=found.text, metadata=passage.metadata or found.metadata)
