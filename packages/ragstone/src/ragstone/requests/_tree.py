"""The tree that the steps of a trace form, and which of the steps are requests."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, MutableMapping, Sequence
from typing import Any, Final

from ragstone.requests._draft import TraceDraft
from ragstone.requests._harvest import last_answer, last_question, look_up
from ragstone.requests._step import Request, RetrieverTools, Step
from ragstone.schema import field_names


class Tree:
    """Steps of one trace, in any order, with their parents, built in time that grows with the number of steps.

    A parent that is not among the steps makes a step a root. Of several steps with one id the earliest counts. In a
    circle of parents the earliest step is a root. Muted steps and the steps in them are left out. Steps that began at
    the same time keep their order.
    """

    def __init__(self, steps: Sequence[Step]) -> None:
        by_id: dict[Hashable, Step] = {}
        for step in sorted(steps, key=_began):
            by_id.setdefault(step.id, step)
        self._by_id = by_id
        children: dict[Hashable, list[Step]] = {}
        for step in by_id.values():
            children.setdefault(step.parent, []).append(step)
        self._order: list[Step] = []
        """Each step before the steps inside it, siblings in the order in which they began."""
        self.finished: list[Step] = []
        """Each step after the steps inside it, siblings in the order in which they began."""
        self._enter: dict[Hashable, int] = {}
        self._leave: dict[Hashable, int] = {}
        self._parent: dict[Hashable, Step] = {}
        seen: set[Hashable] = set()
        self.roots: list[Step] = []
        """Steps without a parent, in the order in which they began."""
        for step in (*(step for step in by_id.values() if step.parent not in by_id), *by_id.values()):
            if step.id not in seen:
                self._visit(step, children, seen)
        self.steps: list[Step] = sorted(self._order, key=_began)
        """All steps, in the order in which they began, each before the steps inside it that began with it."""
        self.place: dict[Hashable, int] = {step.id: place for place, step in enumerate(self.steps)}
        """By id, the position in `steps`."""

    def _visit(self, root: Step, children: dict[Hashable, list[Step]], seen: set[Hashable]) -> None:
        if not root.muted:
            self.roots.append(root)
        waiting: list[tuple[Step, Step | None, bool, bool]] = [(root, None, root.muted, False)]
        while waiting:
            step, parent, muted, is_left = waiting.pop()
            if is_left:
                self._leave[step.id] = len(self._order)
                self.finished.append(step)
                continue
            if step.id in seen:
                continue
            seen.add(step.id)
            muted = muted or step.muted
            if not muted:
                self._enter[step.id] = len(self._order)
                self._order.append(step)
                if parent is not None:
                    self._parent[step.id] = parent
                waiting.append((step, None, False, True))
            waiting.extend((child, step, muted, False) for child in reversed(children.get(step.id, ())))

    def __contains__(self, step: Step) -> bool:
        return step.id in self._enter

    def parent(self, step: Step) -> Step | None:
        """Return the step around a step, None for a root."""
        return self._parent.get(step.id)

    def ancestors(self, step: Step) -> Iterator[Step]:
        """Yield the steps around a step, nearest first."""
        around = self._parent.get(step.id)
        while around is not None:
            yield around
            around = self._parent.get(around.id)

    def below(self, step: Step) -> list[Step]:
        """Return a step and all steps in it, in the order of `steps`."""
        return sorted(self._order[self._enter[step.id] : self._leave[step.id]], key=self._place_of)

    def is_within(self, step: Step, around: Step) -> bool:
        """Whether a step is `around` or in it."""
        return self._enter[around.id] <= self._enter[step.id] < self._leave[around.id]

    def outermost(self, steps: Iterable[Step]) -> list[Step]:
        """Return those that are in no other one of them, in the order of `steps`."""
        kept: list[Step] = []
        end = 0
        for step in sorted(steps, key=self._enter_of):
            if self._enter[step.id] >= end:
                kept.append(step)
                end = self._leave[step.id]
        return sorted(kept, key=self._place_of)

    def innermost(self, steps: Iterable[Step]) -> list[Step]:
        """Return those that have no other one of them inside, in the order of `steps`."""
        ordered = sorted(steps, key=self._enter_of)
        entered = [self._enter[step.id] for step in ordered]
        kept = [
            step
            for step, after in zip(ordered, [*entered[1:], len(self._order)], strict=False)
            if after >= self._leave[step.id]
        ]
        return sorted(kept, key=self._place_of)

    def _place_of(self, step: Step) -> int:
        return self.place[step.id]

    def _enter_of(self, step: Step) -> int:
        return self._enter[step.id]


def _began(step: Step) -> float:
    return step.started_at or 0.0


_AROUND: Final = frozenset({"chain", "agent", "other"})
"""Kinds of steps that can be a request around retrievals, models and tools."""
_IGNORED: Final = {"model": "bare_model", "tool": "tool", "embedding": "embedding", "part": "part"}
"""Why a step is not a request, by its kind."""
_WORK: Final = frozenset({"retrieval", "transform", "model", "tool"})


def find_requests(
    steps: Sequence[Step],
    *,
    source: str = "record",
    trace_id: str | None = None,
    retriever_tools: RetrieverTools | None = None,
    ignored: MutableMapping[str, int] | None = None,
) -> list[Request]:
    """Find the requests in the steps of one recorded trace.

    A request is the outermost chain, agent, graph or workflow around all retrievals, models and tools. Server, HTTP and
    database spans around it do not count. If several steps each retrieve and answer, and no model call is outside them,
    each of them is a request. A bare retrieval is a request. A tool, an embedding and a part (a prompt builder, a
    parser) never are.

    Args:
        steps: All steps of the trace, in any order.
        source: Name of the format, for the drafts.
        trace_id: Id of the trace. The first request gets it. Each later one gets it with its step's id appended, so
            that a trace with more requests than before does not change the ids of its first ones. Default: the id of the
            step that is the request.
        retriever_tools: Names of tools whose text results are passages, see `Request`.
        ignored: Counts, by reason, of what is not a request: "bare_model", "tool", "embedding", "part",
            "infrastructure", "nothing_retrieved_or_generated". Increased in place.

    Returns:
        The requests in the order in which they began, with drafts that have identity, times, status and metadata.
        `assemble` completes them.
    """
    tree = Tree(steps)
    tops = _tops(tree)
    whole = _whole_requests(tree, tops)
    groups: list[tuple[Step | None, list[Step]]]
    if whole:
        groups = [(step, tree.below(step)) for step in sorted(whole, key=_began)]
        left_out = [top for top in tops if not any(tree.is_within(step, top) for step in whole)]
    else:
        kept, left_out = _kept(tree, tops, bare_models=False)
        if len(kept) > 1 and all(step.kind in ("retrieval", "model") for step in kept) and not _answers(tree, kept):
            groups = [(step, tree.below(step)) for step in sorted(kept, key=_began)]
        elif len(kept) == 1:
            groups = [(kept[0], tree.below(kept[0]))]
        else:
            groups = [(None, [inner for step in kept for inner in tree.below(step)])] if kept else []
    if ignored is not None:
        for step in left_out or ([] if groups else tree.roots):
            reason = _IGNORED.get(step.kind, "nothing_retrieved_or_generated")
            ignored[reason] = ignored.get(reason, 0) + 1
    name = trace_id if trace_id is not None or not steps else str(steps[0].id)
    return [
        Request(
            draft=_draft(root, inner, source=source, trace_id=_trace_id(name, trace_id, root, place)),
            steps=inner,
            root=root,
            retriever_tools=dict(retriever_tools or {}),
        )
        for place, (root, inner) in enumerate(groups)
    ]


def find_root(tree: Tree) -> Step | None:
    """Return the step that is the request, or None if none is around all retrievals, models and tools."""
    tops = _tops(tree)
    whole = _whole_requests(tree, tops)
    if len(whole) == 1:
        return whole[0]
    kept = _kept(tree, tops, bare_models=True)[0]
    return kept[0] if len(kept) == 1 else None


def _tops(tree: Tree) -> list[Step]:
    """Return the outermost steps, without the server and database spans around them."""
    waiting = list(reversed(tree.roots))
    children: dict[Any, list[Step]] = {}
    for step in tree.steps:
        around = tree.parent(step)
        if around is not None:
            children.setdefault(around.id, []).append(step)
    tops = []
    while waiting:
        step = waiting.pop()
        if step.kind == "infrastructure":
            waiting.extend(reversed(children.get(step.id, ())))
        else:
            tops.append(step)
    return tops


def _whole_requests(tree: Tree, tops: Sequence[Step]) -> list[Step]:
    """Return the outermost steps that each retrieve and answer, or the steps in a batch of them, if it says nothing itself."""
    whole: list[Step] = []
    for top in tops:
        if top.kind not in _AROUND or not _answers(tree, [top]):
            continue
        inner = [] if _has_texts(top) else _parts(tree, top)
        whole += inner if len(inner) > 1 else [top]
    return whole


def _parts(tree: Tree, top: Step) -> list[Step]:
    """Return the steps in a step that each retrieve and answer, if no model call is outside them."""
    inner = [
        step
        for step in tree.below(top)
        if step is not top and step.kind in _AROUND and _has_texts(step) and _answers(tree, [step])
    ]
    inner = tree.outermost(inner)
    models = [step for step in tree.below(top) if step.kind == "model"]
    return inner if all(any(tree.is_within(model, step) for step in inner) for model in models) else []


def _answers(tree: Tree, steps: Sequence[Step]) -> bool:
    """Whether steps retrieve and answer."""
    inner = [one for step in steps for one in tree.below(step)]
    retrieves = any(step.kind in ("retrieval", "transform") or step.passages is not None for step in inner)
    answers = any((step.kind == "model" and step.reply is not None) or _answer(step) is not None for step in inner)
    return retrieves and answers


def _kept(tree: Tree, tops: Iterable[Step], *, bare_models: bool) -> tuple[list[Step], list[Step]]:
    """Divide the outermost steps into those that can be a request or its parts, and others."""
    kept: list[Step] = []
    others: list[Step] = []
    tops = list(tops)
    only_models = not any(step.kind in ("retrieval", "transform") or step.kind in _AROUND for step in tops)
    for step in tops:
        if step.kind in _AROUND:
            is_request = any(inner.kind in _WORK for inner in tree.below(step)) or _has_texts(step)
        elif step.kind == "model":
            # OpenTelemetry's convention puts a retrieval into the chat that uses it.
            retrieves = any(inner.kind in ("retrieval", "transform") for inner in tree.below(step))
            is_request = bare_models or not only_models or retrieves
        else:
            is_request = step.kind in ("retrieval", "transform")
        (kept if is_request else others).append(step)
    return kept, others


def _has_texts(step: Step) -> bool:
    return step.query is not None or _question(step) is not None or _answer(step) is not None


def _question(step: Step) -> str | None:
    return look_up(step.inputs, field_names("query", "input"), last_question)


def _answer(step: Step) -> str | None:
    if step.kind not in _AROUND:
        return None
    return step.reply or look_up(step.outputs, field_names("response", "output"), last_answer)


def _trace_id(name: str | None, trace_id: str | None, root: Step | None, place: int) -> str:
    if root is None:
        return str(name)
    if trace_id is None:
        return str(root.id)
    return f"{trace_id}-{root.id}" if place else trace_id


def _draft(root: Step | None, steps: Sequence[Step], *, source: str, trace_id: str) -> TraceDraft:
    """Return a draft with what the steps say about a request apart from its texts."""
    about = [root, *steps] if root is not None else [*steps]
    place = root or max(steps, key=lambda step: step.ended_at or step.started_at or 0.0)
    started = [step.started_at for step in about if step.started_at is not None]
    ended = [step.ended_at for step in about if step.ended_at is not None]
    first_token_at = next((step.first_token_at for step in about if step.first_token_at is not None), None)
    started_at = root.started_at if root is not None and root.started_at is not None else min(started, default=0.0)
    return TraceDraft(
        trace_id=trace_id,
        name=place.name,
        source=source,
        run_id=_first(step.run_id for step in about),
        otel_trace_id=place.otel_trace_id,
        otel_span_id=place.otel_span_id,
        otel_sampled=True if place.otel_trace_id else None,
        session_id=_first(step.session_id for step in about),
        user_id=_first(step.user_id for step in about),
        app=_first(step.app for step in about),
        release=_first(step.release for step in about),
        environment=_first(step.environment for step in about),
        reference=list(_first(step.reference or None for step in about) or ()),
        status="ok" if place.error is None else "error",
        error=place.error,
        started_at=started_at,
        ended_at=root.ended_at if root is not None else max(ended, default=None),
        first_token_s=None if first_token_at is None else max(0.0, first_token_at - started_at),
        tags=list(_first(step.tags or None for step in about) or ()),
        metadata=dict(_first(step.metadata or None for step in about[:1]) or {}),
    )


def _first(values: Iterable[Any]) -> Any:
    return next((value for value in values if value is not None), None)
