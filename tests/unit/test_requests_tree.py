"""`Tree`: the steps of a request, whatever their source reports about their parents."""

from __future__ import annotations

from ragstone.requests import Step
from ragstone.requests._tree import Tree


def _ids(steps: list[Step]) -> list[object]:
    return [step.id for step in steps]


def test_steps_inside_one_another_in_the_order_in_which_they_began() -> None:
    """The order of arrival does not matter."""
    steps = [
        Step(id="d", parent="b", started_at=4),
        Step(id="c", parent="a", started_at=3),
        Step(id="b", parent="a", started_at=2),
        Step(id="a", parent="not exported", started_at=1),
    ]
    tree = Tree(steps)
    assert _ids(tree.steps) == ["a", "b", "c", "d"]
    assert _ids(tree.roots) == ["a"]
    assert _ids(tree.below(steps[2])) == ["b", "d"]
    assert _ids(list(tree.ancestors(steps[0]))) == ["b", "a"]
    assert _ids(tree.outermost([steps[0], steps[1], steps[2]])) == ["b", "c"]
    assert _ids(tree.innermost(steps)) == ["c", "d"]


def test_muted_steps_and_the_steps_in_them_are_left_out() -> None:
    """What ran while capture was suppressed contributes nothing."""
    tree = Tree([Step(id=1), Step(id=2, parent=1, muted=True), Step(id=3, parent=2), Step(id=4, parent=1)])
    assert _ids(tree.steps) == [1, 4]


def test_circle_of_parents_and_steps_that_come_twice() -> None:
    """The earliest step of a circle is a root, and the earliest of two steps with one id counts."""
    tree = Tree(
        [
            Step(id="a", parent="b", started_at=2),
            Step(id="b", parent="a", started_at=1),
            Step(id="b", parent="a", started_at=5, name="again"),
        ]
    )
    assert (_ids(tree.roots), _ids(tree.steps), tree.steps[0].name) == (["b"], ["b", "a"], None)
