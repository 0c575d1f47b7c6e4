"""The steps of a recorded request (`Step`), and the tree that they form, whatever a file says about their parents."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from ragstone.schema import Passage

__all__ = ["NodeKind", "Step", "Tree"]

NodeKind = Literal["chain", "retriever", "reranker", "llm", "tool", "agent", "embedding", "other"]


@dataclass(slots=True, kw_only=True)
class Step:
    """One step (span, run, observation) of a recorded request, in the words of no tool in particular.

    A convention fills in what its format says and leaves the rest as it is: what a format cannot give is None, never
    a guess.
    """

    id: str
    parent_id: str | None = None
    trace_id: str
    kind: NodeKind = "other"
    name: str | None = None
    started_at: float | None = None
    """Unix seconds."""
    ended_at: float | None = None
    first_token_at: float | None = None
    """When the first piece of a streamed answer came, in Unix seconds."""
    error: str | None = None

    query: str | None = None
    """What was asked of it: the user's question of a chain, the search query of a retriever or re-ranker."""
    passages: tuple[Passage, ...] | None = None
    """What a retriever or re-ranker gave back, or what a chain says it used; None where the step does not say."""
    answer: str | None = None
    """The text it gave back, where that is one."""
    reference: tuple[str, ...] = ()

    model: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    session_id: str | None = None
    user_id: str | None = None
    run_id: str | None = None
    """The id that the tool itself uses for the request, where that is not `trace_id`."""
    is_otel: bool = False
    """Whether `trace_id` and `id` are OpenTelemetry ids, in hex digits."""
    tags: tuple[str, ...] = ()
    metadata: dict[str, Any] = field(default_factory=dict)
    """What else the request carries; unknown attributes are kept."""


class Tree:
    """Steps with their parents, in time that grows with their number, not with its square.

    A parent that is not there makes a step a top; of steps with one id the earliest counts; in a circle of parents the
    earliest step is the top.

    Args:
        nodes: The steps of one trace, in any order.
    """

    def __init__(self, nodes: Sequence[Step]) -> None:
        by_id: dict[str, Step] = {}
        for node in sorted(nodes, key=_began):
            by_id.setdefault(node.id, node)
        children: dict[str | None, list[Step]] = {}
        for node in by_id.values():
            children.setdefault(node.parent_id, []).append(node)
        self._order: list[Step] = []
        """A step before those inside it, neighbours as they began."""
        self._enter: dict[str, int] = {}
        self._leave: dict[str, int] = {}
        for top in (*(node for node in by_id.values() if node.parent_id not in by_id), *by_id.values()):
            self._visit(top, children)

    def _visit(self, top: Step, children: dict[str | None, list[Step]]) -> None:
        if top.id in self._enter:
            return
        waiting: list[tuple[Step, bool]] = [(top, False)]
        while waiting:
            node, is_left = waiting.pop()
            if is_left:
                self._leave[node.id] = len(self._order)
            elif node.id not in self._enter:
                self._enter[node.id] = len(self._order)
                self._order.append(node)
                waiting.append((node, True))
                waiting.extend((child, False) for child in reversed(children.get(node.id, ())))

    @property
    def nodes(self) -> list[Step]:
        """All steps, in the order in which they began, a step before those inside it that began with it."""
        return sorted(self._order, key=_began)

    def below(self, node: Step) -> list[Step]:
        """A step and all steps in it, in the order of `nodes`."""
        return sorted(self._order[self._enter[node.id] : self._leave[node.id]], key=_began)

    def outermost(self, nodes: Iterable[Step]) -> list[Step]:
        """Those that are in no other one of them, in the order of `nodes`."""
        kept: list[Step] = []
        end = 0
        for node in sorted(nodes, key=lambda node: self._enter[node.id]):
            if self._enter[node.id] >= end:
                kept.append(node)
                end = self._leave[node.id]
        return sorted(kept, key=_began)

    def innermost(self, nodes: Iterable[Step]) -> list[Step]:
        """Those that have no other one of them inside."""
        ordered = sorted(nodes, key=lambda node: self._enter[node.id])
        entered = [self._enter[node.id] for node in ordered]
        return [
            node
            for node, after in zip(ordered, [*entered[1:], len(self._order)], strict=False)
            if after >= self._leave[node.id]
        ]


def _began(node: Step) -> float:
    return node.started_at or 0.0
