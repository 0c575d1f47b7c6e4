"""From what the runs of a request contributed to its finished draft."""

from __future__ import annotations

from langchain_ragstone._otel import link_root_span
from langchain_ragstone._tree import LiveTrace, Step
from ragstone.requests import PassageDraft, RetrievalDraft
from ragstone.schema import TraceStatus

__all__ = ["finish"]


def finish(
    trace: LiveTrace,
    *,
    status: TraceStatus,
    ended_at: float,
    stated_contexts: list[PassageDraft] | None = None,
    stated_answer: str | None = None,
) -> None:
    """Complete a trace's draft from its runs.

    Args:
        trace: The request; its root has ended, or it is given up.
        status: How it ended.
        ended_at: When, in Unix seconds.
        stated_contexts: Contexts found in the root's outputs.
        stated_answer: The answer found in the root's outputs.
    """
    draft = trace.draft
    draft.status = status
    draft.ended_at = ended_at
    if status != "abandoned":  # given up by whatever request came next, in a span of its own
        link_root_span(draft)
    draft.retrievals = _searches(trace)
    draft.contexts = _contexts(trace, draft.retrievals, stated_contexts)
    if status in ("ok", "truncated"):
        # An interrupted graph's state may still hold the answer of an earlier turn.
        draft.response = stated_answer if stated_answer is not None else _last_answer(trace, status)
    if not draft.query:
        draft.query = next((run.query for run in list(trace.searching) if run.query), None)
    if draft.error is not None:
        # Reported by every run it passed through; only what the application survived stays.
        draft.inner_errors = [error for error in draft.inner_errors if error != draft.error]


def _searches(trace: LiveTrace) -> list[RetrievalDraft]:
    return [run.search for run in list(trace.searching) if run.search is not None and not run.discarded]


def _last_answer(trace: LiveTrace, status: TraceStatus) -> str | None:
    if status != "ok" or trace.last_answer is None:
        return None
    run, text = trace.last_answer
    return None if run.discarded else text


def _contexts(
    trace: LiveTrace, searches: list[RetrievalDraft], stated: list[PassageDraft] | None
) -> list[PassageDraft] | None:
    """What reached the prompt, or None where that is simply what the searches found."""
    found = [passage for search in searches for passage in search.passages]
    known = trace.contexts if trace.contexts is not None else stated
    if known is not None:
        return None if known == found and searches else known
    contexts = found
    for step in list(trace.steps):
        if not step.run.discarded:
            contexts = _replace(contexts, step)
    return None if contexts == found else contexts


def _replace(contexts: list[PassageDraft], step: Step) -> list[PassageDraft]:
    """Put a step's output in the place of its input, and leave what did not pass through it."""
    touched = step.documents_in.union(passage.text for passage in step.passages)
    place = next((i for i, passage in enumerate(contexts) if passage.text in touched), len(contexts))
    before, after = contexts[:place], contexts[place:]
    return [*before, *step.passages, *(passage for passage in after if passage.text not in touched)]
