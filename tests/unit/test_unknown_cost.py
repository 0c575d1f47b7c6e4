"""Calls whose cost is unknown: they are counted, and never count as free."""

from __future__ import annotations

import asyncio
import json
import time

import pytest

import ragstone
from command_line import run_command
from fake_servers import FakeJudgeServer
from ragstone.experiments._app.repeats import merge_repeats, summarize_app
from ragstone.judges import (
    Budget,
    ChatRequest,
    ClientSettings,
    Completion,
    FunctionModel,
    OpenAICompatibleJudge,
    metered,
)
from ragstone.schema import Failure, Ledger, LedgerRow, Score, Trace, Usage
from ragstone.store import SqliteStore
from ragstone.worker._daily_budget import DailyBudget

KNOWN = {"metric": "ccrs.qr", "metric_version": "1", "judge": "j", "judge_hash": "h"}
PRICED, UNPRICED = Usage(calls=3, input_tokens=9, cost_usd=0.25), Usage(calls=2, input_tokens=7)
REQUEST = ChatRequest(messages=[{"role": "user", "content": "Rate."}], max_tokens=4)
AT_LEAST = "at least 0.2500 USD (the cost of 2 of 5 calls is unknown)"
ROWS = [{"id": f"q{i}", "query": f"Where is {i}?", "response": f"In {i}."} for i in range(4)]


def score(i=0, **changes):
    return Score(**{"sample_id": f"q{i}", "value": 0.5, "method": "x"} | KNOWN | changes)


class Silent(FakeJudgeServer):
    """A server that does not report the tokens of every second reply."""

    n = 0

    def _completed(self, body, text, finish):
        self.n += 1
        reply = super()._completed(body, text, finish)
        return reply if self.n % 2 else {name: value for name, value in reply.items() if name != "usage"}


@pytest.mark.parametrize("parts", [(PRICED, UNPRICED), (UNPRICED, PRICED), (UNPRICED, Usage(), PRICED)])
def test_a_sum_counts_the_calls_without_a_known_cost(parts):
    """In any order. The known part is a lower bound."""
    total = sum(parts, Usage())
    assert (5, 0.25, 3) == (total.calls, total.cost_usd, total.priced_calls)
    assert f"5 calls, 16 + 0 tokens, {AT_LEAST}" == str(total)
    assert total == Usage.model_validate_json(total.model_dump_json())


@pytest.mark.parametrize(
    ("usage", "text"),
    [
        (Usage(), "0 calls, 0 + 0 tokens"),
        (UNPRICED, "2 calls, 7 + 0 tokens"),
        (UNPRICED + Usage(calls=3), "5 calls, at least 7 + 0 tokens (those of 3 calls are unknown)"),
        (
            Usage(calls=1, input_tokens=7, counted_calls=0),
            "1 call, at least 7 + 0 tokens (those of 1 call are unknown)",
        ),
        (Usage(calls=2), "2 calls, tokens unknown"),
        (PRICED, "3 calls, 9 + 0 tokens, 0.2500 USD"),
        (PRICED + PRICED + Usage(cost_usd=1000.0), "6 calls, 18 + 0 tokens, 1,000.50 USD"),
        (Usage(cached=3) + PRICED, "3 calls, 9 + 0 tokens, 3 replies from the cache, 0.2500 USD"),
        (Usage(calls=1, input_tokens=5, cost_usd=0.0), "1 call, 5 + 0 tokens, 0.0000 USD"),
    ],
)
def test_usage_in_words(usage, text):
    """An unknown cost is absent, and a cost of 0 is stated only if it is known."""
    assert text == str(usage)


def test_replies_without_tokens_have_an_unknown_cost():
    """A part of the replies does not report its tokens."""
    with Silent() as server:
        judge = OpenAICompatibleJudge(server.url, model="m", usd_per_million_tokens=(1000.0, 1000.0))
        result = ragstone.evaluate(ROWS, ["ccrs.qr"], judge=judge)
    usage = result.usage
    n_unknown = usage.calls - usage.priced_calls
    assert 0 < n_unknown < usage.calls
    assert pytest.approx((usage.input_tokens + usage.output_tokens) / 1000) == usage.cost_usd
    said = f"at least {usage.cost_usd:,.4f} USD (the cost of {n_unknown} of {usage.calls} calls is unknown)"
    assert said == usage.cost_text


@pytest.mark.parametrize("limit", ["usd", "tokens"])
def test_a_budget_that_cannot_be_counted_stops(limit):
    """After a reply without tokens, a limit on them would allow everything. The scores so far are kept."""
    with Silent() as server:
        judge = OpenAICompatibleJudge(
            server.url, model="m", usd_per_million_tokens=(1.0, 1.0), max_concurrent_requests=1, budget=Budget(**{limit: 10**6})
        )  # fmt: skip
        result = ragstone.evaluate(ROWS, ["ccrs.qr"], judge=judge, concurrency=1)
    scores = [outcome for outcome in result.outcomes if isinstance(outcome, Score)]
    kinds = {outcome.kind for outcome in result.outcomes if isinstance(outcome, Failure)}
    reason = next(outcome.reason for outcome in result.outcomes if isinstance(outcome, Failure))
    assert 0 < len(scores) < 4
    assert kinds == {"budget"}
    assert f"the budget in {limit} cannot be counted: a model does not report its tokens. Limit calls" in reason


def test_a_reply_without_output_tokens_is_not_counted_as_free():
    """Its input tokens are known, and its cost and its tokens are not."""
    for limit in ("tokens", "usd"):
        budget, whole = Budget(**{limit: 100}), Usage(input_tokens=5, counted_calls=1, cost_usd=0.1, priced_calls=1)
        budget.record(whole)
        assert not budget.reached
        budget.record(Usage(input_tokens=5, counted_calls=0))
        assert budget.reached
        budget.record(whole)
        assert budget.reached


def test_free_calls_are_counted_without_tokens():
    """With prices of 0, the cost of each call is known."""
    budget = Budget(usd=5)
    with Silent() as server:
        judge = OpenAICompatibleJudge(server.url, model="m", usd_per_million_tokens=(0.0, 0.0), budget=budget)
        result = ragstone.evaluate(ROWS, ["ccrs.qr"], judge=judge)
    assert {"score"} == {outcome.outcome for outcome in result.outcomes}
    assert (0.0, result.usage.calls) == (budget.spent.cost_usd, budget.spent.priced_calls)


def test_replies_without_tokens_have_unknown_tokens():
    """Calls whose reply does not state its tokens are counted, and the others are a lower bound."""
    with Silent() as server:
        usage = ragstone.evaluate(ROWS, ["ccrs.qr"], judge=OpenAICompatibleJudge(server.url, model="m")).usage
    n_unknown = usage.calls - usage.counted_calls
    assert 0 < n_unknown < usage.calls
    tokens = f"{usage.input_tokens} + {usage.output_tokens} tokens"
    assert f"{usage.calls} calls, at least {tokens} (those of {n_unknown} calls are unknown)" == str(usage)


@pytest.mark.parametrize(
    ("places", "expected"),
    [
        ([{"usage": {"prompt_tokens": 5, "completion_tokens": 2}}], (5, 2, 1)),
        ([{"usage": {"prompt_tokens": 5, "completion_tokens": 0}}], (5, 0, 1)),
        ([{"usage": {"prompt_tokens": 5}}], (5, 0, 0)),
        ([{"usage": {"completion_tokens": 2}}], (0, 2, 0)),
        ([{"usage": {"prompt_tokens": 0, "completion_tokens": 2}}], (0, 2, 0)),
        ([{"usage": {"prompt_tokens": None, "completion_tokens": "2"}}], (0, 0, 0)),
        ([], (0, 0, 0)),
    ],
)
def test_counts_of_a_framework(places, expected):
    """A client that does not state both numbers of tokens has a call with unknown ones, through the whole way."""
    reply, usage = ClientSettings.read_reply("80", *places)
    assert expected == (usage.input_tokens, usage.output_tokens, usage.counted_calls)

    async def ask():
        with metered() as meter:
            await FunctionModel(lambda _: (reply, usage), name="m", settings={}).complete(REQUEST)
        return meter.total

    total = asyncio.run(ask())
    assert (1, *expected) == (total.calls, total.input_tokens, total.output_tokens, total.counted_calls)


@pytest.mark.parametrize(("usage", "n"), [(Usage(input_tokens=5, output_tokens=2), 1), (Usage(), 0)])
def test_counts_of_a_function(usage, n):
    """A function that returns tokens knows them, and one that returns none does not."""

    async def ask():
        with metered() as meter:
            await FunctionModel(lambda _: (Completion(text="80"), usage), name="m", settings={}).complete(REQUEST)
        return meter.total

    assert n == asyncio.run(ask()).counted_calls


@pytest.mark.parametrize(
    ("added", "shown"),
    [
        ([UNPRICED], "2 calls, 7 tokens, the cost of 2 calls is unknown"),
        ([PRICED], "3 calls, 9 tokens, 0.25 usd"),
        ([UNPRICED, PRICED], "5 calls, 16 tokens, 0.25 usd, the cost of 2 calls is unknown"),
        ([PRICED, UNPRICED], "5 calls, 16 tokens, 0.25 usd, the cost of 2 calls is unknown"),
        ([Usage(calls=1, cost_usd=0.0)], "1 call, 0 tokens, 0 usd, the tokens of 1 call are unknown"),
        (
            [UNPRICED, Usage(calls=3)],
            "5 calls, 7 tokens, the tokens of 3 calls are unknown, the cost of 5 calls is unknown",
        ),
    ],
)
def test_the_spend_of_a_day(tmp_path, added, shown):
    """The store keeps what is unknown apart from 0."""
    path = tmp_path / "a.db"
    with SqliteStore.open(path, mode="own") as store:
        for usage in added:
            store.plan.add_spend(usage)
        assert sum(added, Usage()) == store.plan.spent_today()
    assert f"spent today (UTC): {shown}\n" in run_command("status", path).stdout


def test_no_dashboard_shows_0_for_an_unknown_cost():
    """`usd` is the known part of all stores, and absent without one. A limit that one store lacks is not shown."""
    from prometheus_client import CollectorRegistry

    from ragstone.sinks._prometheus_families import LedgerCollector

    def values(*ledgers):
        registry, collector = CollectorRegistry(), LedgerCollector()
        registry.register(collector)
        for i, ledger in enumerate(ledgers):
            collector.put(i, (ledger, time.monotonic()))
        units = ("calls", "usd", "unpriced_calls")
        spent = [registry.get_sample_value("ragstone_spent_today", {"unit": unit}) for unit in units]
        return spent, registry.get_sample_value("ragstone_daily_budget", {"unit": "usd"})

    priced = Ledger(total=LedgerRow(), spent_today=PRICED, daily_budget={"usd": 2.0})
    assert ([2, None, 2], None) == values(Ledger(total=LedgerRow(), spent_today=UNPRICED))
    assert ([5, 0.25, 2], None) == values(Ledger(total=LedgerRow(), spent_today=UNPRICED), priced)
    assert ([6, 0.5, 0], 4.0) == values(priced, priced)
    assert ([0, 0, 0], None) == values(Ledger(total=LedgerRow()))


@pytest.mark.parametrize(
    ("limits", "outcome", "reason"),
    [
        ({"usd": 5.0}, score(usage=UNPRICED), "set usd_per_million_tokens"),
        ({"usd": 5.0}, score(usage=Usage(calls=1)), "in usd cannot be counted: a model does not report its tokens"),
        (
            {"tokens": 50},
            score(usage=Usage(calls=1)),
            "in tokens cannot be counted: a model does not report its tokens",
        ),
        ({"calls": 50}, score(usage=Usage(calls=1)), None),
        ({"tokens": 50}, score(usage=UNPRICED), None),
        ({"usd": 5.0, "tokens": 50}, score(usage=Usage(cached=1)), None),
        # A request that timed out has neither tokens nor a cost, with any model.
        ({"usd": 5.0}, Failure(sample_id="q0", kind="timeout", reason="late", usage=Usage(calls=3), **KNOWN), None),
        ({"usd": 5.0}, Failure(sample_id="q0", kind="unparseable", reason="?", usage=UNPRICED, **KNOWN), "set usd_per"),
    ],
)
def test_a_daily_budget_that_cannot_be_counted(limits, outcome, reason):
    """It scores nothing more, and says what is missing."""
    budget = DailyBudget(limits, errors=None)
    for scored in (score(usage=PRICED), outcome, score(usage=PRICED)):
        budget.spend(scored.usage)
        budget.check([scored])
    assert (reason is None) == (budget.reached is None)
    assert reason is None or reason in budget.reached


def test_the_report_and_the_comparison_say_at_least(tmp_path):
    """In the terminal, on the page, and in JSON."""
    files = []
    for name, shift in (("a", 0.0), ("b", 0.1)):
        rows = [score(i, value=0.3 + shift + i / 50, usage=(PRICED, UNPRICED, None)[min(i, 2)]) for i in range(12)]
        files.append(tmp_path / f"{name}.jsonl")
        files[-1].write_text("".join(row.model_dump_json() + "\n" for row in rows))
    page, compared = tmp_path / "report.html", tmp_path / "compare.html"
    assert f"5 calls, 16 + 0 tokens, {AT_LEAST}" in " ".join(run_command("report", files[0]).stdout.split())
    run_command("report", files[0], "-o", page)
    run_command("compare", *files, "-o", compared)
    assert AT_LEAST in page.read_text()
    stated = json.loads(run_command("report", files[0], "--json", "--full").stdout)["provenance"]["usage"]
    assert (PRICED + UNPRICED).model_dump() == stated
    assert 2 == compared.read_text().count(AT_LEAST)


def test_repeats_with_an_unknown_duration():
    """A sum that lacks a part is not a duration."""
    first, second = score(duration_s=2.0, usage=PRICED), score(duration_s=None, usage=UNPRICED)
    merged = merge_repeats("q0", [first, second])
    assert (None, AT_LEAST) == (merged.duration_s, merged.usage.cost_text)
    assert 4.0 == merge_repeats("q0", [first, first]).duration_s


def test_tokens_of_an_application_name_their_calls():
    """A trace with the tokens of one direction only is not counted."""
    usages = [Usage(input_tokens=10, output_tokens=5), Usage(output_tokens=7), None]
    found = summarize_app([Trace(trace_id=str(i), started_at=0, usage=usage) for i, usage in enumerate(usages)])
    assert "10 + 5 tokens in 1 of 3 calls" in str(found)
    assert (1, 10, 5) == tuple(found.to_dict()[name] for name in ("n_with_tokens", "input_tokens", "output_tokens"))
