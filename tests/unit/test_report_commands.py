"""The commands that a report names: the one that made its page, and the next ones."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ragstone.cli._report import _command, _next_steps


def test_the_command_of_a_page_has_its_options() -> None:
    """Those that differ from the defaults, so that the command gives the same numbers."""
    assert _command(["a.jsonl"], None, "", [], 5) == "ragstone report a.jsonl --worst 5"
    command = _command(["new=a.jsonl"], "b.jsonl", " --data rows.csv --set analysis.seed=1", ["ccrs.ac=0.5"], 9)
    assert command == (
        "ragstone report new=a.jsonl --baseline b.jsonl --data rows.csv --set analysis.seed=1 --target ccrs.ac=0.5 "
        "--worst 9"
    )


@pytest.mark.parametrize(("n", "what"), [(1, "one cause"), (2, "all 2 of a cause"), (1200, "all 1,200 of a cause")])
def test_the_number_of_answers_of_a_cause(n: int, what: str) -> None:
    """A single answer is not "all"."""
    cause = SimpleNamespace(is_wrong=True, n=n, cause="abstained")
    view: Any = SimpleNamespace(
        worst=(SimpleNamespace(id="s1"),),
        causes=(cause,),
        metrics=(SimpleNamespace(name="ccrs.ac"),),
        provenance=SimpleNamespace(store=""),
    )
    systems: Any = SimpleNamespace(order=("a",), name="a")
    steps = dict(_next_steps(["a.jsonl"], None, "", view, systems, ""))
    assert steps[what] == "ragstone traces a.jsonl --cause abstained"
