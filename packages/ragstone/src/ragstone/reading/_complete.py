"""Steps of a recorded trace, completed by what other steps of the trace report."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import replace

from ragstone.requests import PassageDraft, Step

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
    rerankers = [inner for inner in found if inner.kind == "transform"]
    yield from rerankers or found


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
