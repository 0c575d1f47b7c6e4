"""Laws of sums of usages, of which some have an unknown cost."""

from __future__ import annotations

import functools
import math
import operator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstone.schema import Usage
from ragstone.store import SqliteStore

COUNTS = st.integers(0, 5)


@st.composite
def usages(draw):
    """Usage of some calls, of which some have a known cost, also one of 0, and known tokens."""
    calls, cost = draw(COUNTS), draw(st.none() | st.sampled_from([0.0, 0.25, 1.0]))
    priced = {} if cost is None else {"cost_usd": cost, "priced_calls": draw(st.integers(0, calls))}
    tokens = {"input_tokens": draw(COUNTS), "output_tokens": draw(COUNTS), "counted_calls": draw(st.integers(0, calls))}
    return Usage(calls=calls, cached=draw(COUNTS), **tokens, **priced)


@given(st.lists(usages(), max_size=8), st.randoms(use_true_random=False))
def test_a_sum_does_not_depend_on_order_and_groups(parts, random):
    """And it is what the parts are together: known costs, and the number of calls without one."""
    total = sum(parts, Usage())
    shuffled = random.sample(parts, len(parts))
    cut = random.randint(0, len(parts))
    assert total == sum(shuffled[:cut], Usage()) + sum(shuffled[cut:], Usage())
    assert total == functools.reduce(operator.add, [Usage(), *shuffled, Usage()])
    costs = [part.cost_usd for part in parts if part.cost_usd is not None]
    assert (math.fsum(costs) if costs else None) == total.cost_usd
    assert sum(part.calls - part.priced_calls for part in parts) == total.calls - total.priced_calls
    assert ("at least" in total.cost_text) == bool(costs and total.calls > total.priced_calls)
    n_unknown = sum(part.calls - part.counted_calls for part in parts)
    assert n_unknown == total.calls - total.counted_calls
    assert ("unknown" in total.tokens_text) == bool(n_unknown)
    assert total == Usage.model_validate_json(total.model_dump_json())


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    now = [0.0]
    path = tmp_path_factory.mktemp("spend") / "a.db"
    with SqliteStore.open(path, mode="own", clock=lambda: now[0]) as opened:
        yield opened, now


@given(st.lists(usages(), max_size=8))
def test_the_store_adds_as_usages_do(store, parts):
    """The usage of a day is the sum, but for cached replies."""
    opened, now = store
    now[0] += 86_400.0
    for part in parts:
        opened.plan.add_spend(part)
    assert sum(parts, Usage()).model_copy(update={"cached": 0}) == opened.plan.spent_today()
