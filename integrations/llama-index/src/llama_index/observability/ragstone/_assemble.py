"""From what the spans of a request contributed to its finished draft."""

from __future__ import annotations

from collections.abc import Iterable

from llama_index.observability.ragstone._tree import Entry, LiveTrace, Span
from ragstone.requests import PassageDraft, RetrievalDraft
from ragstone.schema import TraceStatus

__all__ = ["finish"]


def finish(trace: LiveTrace, *, status: TraceStatus, ended_at: float) -> None:
    """Complete a trace's draft from its spans.

    Args:
        trace: The request; its answer is complete, or it is given up.
        status: How it ended.
        ended_at: When, in Unix seconds.
    """
    draft = trace.draft
    draft.status = status
    draft.ended_at = ended_at
    log = [entry for entry in list(trace.log) if not _span_of(entry).discarded]
    draft.retrievals = [entry.search for entry in log if isinstance(entry, Span) and entry.search is not None]
    draft.contexts = _contexts(trace, log, draft.retrievals)
    if status in ("ok", "truncated"):
        draft.response = trace.answer if trace.answer is not None else _last_answer(trace, status)
    if not draft.query:
        draft.query = next((entry.query for entry in trace.log if isinstance(entry, Span) and entry.query), None)
    if draft.error is not None:
        # Reported by every span it passed through; only what the application survived stays.
        draft.inner_errors = [error for error in draft.inner_errors if error != draft.error]


def _span_of(entry: Span | Entry) -> Span:
    return entry.span if isinstance(entry, Entry) else entry


def _last_answer(trace: LiveTrace, status: TraceStatus) -> str | None:
    if status != "ok" or trace.last_answer is None:
        return None
    span, text = trace.last_answer
    return None if span.discarded else text


def _contexts(trace: LiveTrace, log: list[Span | Entry], searches: list[RetrievalDraft]) -> list[PassageDraft] | None:
    """What reached the prompt, or None where that is simply what the searches found."""
    found = [passage for search in searches for passage in search.passages]
    if (stated := trace.contexts) is not None:
        return None if searches and _same(stated, found) else stated
    scopes = _Scopes(log)
    used = scopes.contexts()
    known = used if trace.sources is None else _real(trace.sources, scopes.seen, otherwise=used)
    return None if _same(known, found) else known


def _same(some: list[PassageDraft], others: list[PassageDraft]) -> bool:
    return len(some) == len(others) and all(
        one is other or one == other for one, other in zip(some, others, strict=True)
    )


class _Seen:
    """Which passages came out of a search or a re-ranker: others were made up on the way, as from sub-answers."""

    __slots__ = ("_ids", "_texts", "any")

    def __init__(self) -> None:
        self.any = False
        """Whether there was a search at all, though it may have found nothing."""
        self._ids: set[str | None] = set()
        self._texts: set[str] = set()

    def add(self, passages: Iterable[PassageDraft]) -> None:
        self.any = True
        for passage in passages:
            self._ids.add(passage.id)
            self._texts.add(passage.text)

    def __contains__(self, passage: PassageDraft) -> bool:
        return passage.id in self._ids or passage.text in self._texts


def _real(passages: list[PassageDraft], seen: _Seen, *, otherwise: list[PassageDraft]) -> list[PassageDraft]:
    """The passages that were found; all of them where nothing was searched; else what the spans say."""
    if not seen.any:
        return passages
    return [passage for passage in passages if passage in seen] or otherwise


class _Scopes:
    """The passages of each engine, tool or workflow, in the order in which they came up."""

    def __init__(self, log: list[Span | Entry]) -> None:
        self.seen = _Seen()
        self._open: dict[Span, list[PassageDraft]] = {}
        """Found, and not put into a prompt yet."""
        self._used: dict[Span, list[PassageDraft]] = {}
        for entry in log:
            scope = _span_of(entry).scope
            if scope not in self._open:
                self._open[scope], self._used[scope] = [], []
            if isinstance(entry, Span):
                self._search(scope, entry)
            elif entry.texts_in is not None:
                self._open[scope] = _replace(self._open[scope], entry.texts_in, entry.passages)
                self.seen.add(entry.passages)
            else:
                self._prompt(scope, entry.passages)

    def _search(self, scope: Span, span: Span) -> None:
        if span.search is not None:
            self._open[scope] = [*self._open[scope], *span.search.passages]
            self.seen.add(span.search.passages)

    def _prompt(self, scope: Span, passages: list[PassageDraft]) -> None:
        """Nodes were given to a synthesizer: of what its engine found, these reached the prompt."""
        below = [other for other in self._open if other is not scope and scope in other.ancestors()]
        if self._open[scope] or not (below and self.seen.any):
            pass
        elif real := [passage for passage in passages if passage in self.seen]:
            # Passed up by the engines below, perhaps fewer than they found.
            for other in below:
                self._open[other], self._used[other] = [], []
            passages = real
        else:
            return  # made from the answers of the engines below, whose passages are the contexts
        self._used[scope] += passages
        self._open[scope] = []
        self.seen.add(passages)

    def contexts(self) -> list[PassageDraft]:
        """What reached a prompt, and where no synthesizer says so, what was found."""
        return [passage for scope in self._open for passage in (*self._used[scope], *self._open[scope])]


def _replace(
    contexts: list[PassageDraft], texts_in: frozenset[str], passages: list[PassageDraft]
) -> list[PassageDraft]:
    """Put a step's output in the place of its input, and leave what did not pass through it."""
    touched = texts_in.union(passage.text for passage in passages)
    place = next((i for i, passage in enumerate(contexts) if passage.text in touched), len(contexts))
    before, after = contexts[:place], contexts[place:]
    return [*before, *passages, *(passage for passage in after if passage.text not in touched)]
