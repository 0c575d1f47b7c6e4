"""The tree that the steps of a request form, whatever their source reports about their parents."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence

from ragstone.requests._step import Step


class Tree:
    """Steps with their parents, built in time that grows with the number of steps.

    A parent that is not among the steps makes a step a root. Of several steps with one id the earliest counts. In a
    circle of parents the earliest step is a root. Muted steps and the steps in them are left out.

    Args:
        steps: The steps of one trace, in any order. Steps that began at the same time keep their order.
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
