"""Endpoints that limit, fail and come back, under a whole evaluation: all that can be had is had, and it ends."""

from __future__ import annotations

import json

import pytest

import ragstone
from builders import make_sample
from fake_servers import FakeJudgeServer, FakeModelServer
from ragstone.cli import main
from ragstone.judges import Budget, OpenAICompatibleJudge
from ragstone.schema import Failure, Score
from scripted_model import ScriptedModel

pytestmark = pytest.mark.usefixtures("virtual_time")

METRIC = "ccrs.qr"


def samples(n):
    """So many samples."""
    return [
        make_sample(f"s{i}", query=f"What is in box {i}?", response=f"Number {i}.", reference=f"{i}") for i in range(n)
    ]


def evaluate(url, n, max_outage_s=300, **options):
    """Score n samples by one metric; returns the experiment and its judge."""
    judge = OpenAICompatibleJudge(url, model="m", **({"backoff_s": 0.05} | options))
    return ragstone.evaluate(samples(n), METRIC, judge=judge, max_outage_s=max_outage_s)


def test_rate_limit_costs_no_score_and_is_not_hammered():
    """Every sample is scored, and fewer requests are refused than are let in."""
    with FakeJudgeServer(rate_limit_rpm=600) as server:
        result = evaluate(server.url, 60)
    assert all(isinstance(outcome, Score) for outcome in result.outcomes)
    assert 0 < server.stats.replies["429"] < len(result.outcomes)


def test_budget_is_kept():
    """With the limit given as `requests_per_minute`, nothing is refused."""
    with FakeJudgeServer(rate_limit_rpm=1500) as server:
        result = evaluate(server.url, 60, requests_per_minute=1200)
    # One call before the samples learns what the server refuses.
    assert {"ok": 61} == dict(server.stats.replies)
    assert all(isinstance(outcome, Score) for outcome in result.outcomes)


def test_tokens_a_minute_are_kept(virtual_time):
    """A budget of tokens holds requests back although none a minute is set; unused estimates come back."""
    with FakeJudgeServer() as server:
        before = virtual_time.time()
        result = evaluate(server.url, 30, tokens_per_minute=30_000)
        took_s = virtual_time.time() - before
    assert all(isinstance(outcome, Score) for outcome in result.outcomes)
    tokens = result.usage.input_tokens + result.usage.output_tokens
    # What was there at the start, and what came while it ran.
    assert tokens <= 30_000 / 6 + took_s * 30_000 / 60 + 1


def test_dead_endpoint_is_left_alone():
    """A thousand samples and no one there: each is a failure that says so, and few requests are sent."""
    with FakeJudgeServer(error_rate=1.0) as server:
        result = evaluate(server.url, 1000, max_outage_s=0.5)
    assert {("failure", "unavailable")} == {(o.outcome, o.kind) for o in result.outcomes}
    assert server.calls < 200
    assert any("no reply since" in o.reason for o in result.outcomes)


class ServerWithOutage(FakeJudgeServer):
    """Fails 16 times in a row, from the 20th request on."""

    def _fault(self, question):
        return "error" if self.calls >= 20 and self.stats.replies["500"] < 16 else None


def test_short_outage_costs_no_score():
    """The endpoint fails for a while in the middle: all is scored in the end."""
    with ServerWithOutage(latency_s=0.01) as server:
        result = evaluate(server.url, 100, backoff_s=0.5)
    assert server.stats.replies["500"] >= 16
    assert server.calls < 100 + 60
    assert all(isinstance(outcome, Score) for outcome in result.outcomes)


def test_spend_cap_ends_an_evaluation_cleanly():
    """What was paid for is scored; the rest fails as "budget", is counted, and bounds the mean."""
    cap = Budget(calls=25)
    with FakeJudgeServer() as server:
        result = evaluate(server.url, 60, budget=cap)
        assert 25 == server.calls
    (summary,) = result.summary()
    assert (24, 36, {"budget": 36}) == (summary.n_scored, summary.n_failed, summary.failure_kinds)
    assert "budget" in str(result)
    assert all("25 calls" in o.reason for o in result.outcomes if isinstance(o, Failure))


def test_spend_cap_on_the_command_line(tmp_path, capsys):
    """Exit code 4; the scores that were paid for are printed and written."""
    file, output = tmp_path / "samples.jsonl", tmp_path / "outcomes.jsonl"
    file.write_text("".join(sample.model_dump_json() + "\n" for sample in samples(20)))
    with FakeJudgeServer() as server, pytest.raises(SystemExit) as ended:
        main(
            [
                "evaluate",
                str(file),
                "--metrics",
                METRIC,
                "--judge",
                server.url,
                "--set",
                "budget.calls=8",
                "-o",
                str(output),
            ]
        )
    assert (4, 8) == (ended.value.code, server.calls)
    written = capsys.readouterr()
    assert "7 / 13 / 0" in written.out
    assert "The budget is exhausted. 13 of 20" in written.err
    kinds = [json.loads(line).get("kind") for line in output.read_text().splitlines()]
    assert (7, 13) == (kinds.count(None), kinds.count("budget"))


def test_spend_cap_that_the_probe_reaches(tmp_path, capsys):
    """Exit code 4 as at any other time; what was not asked for is counted and written."""
    file, output = tmp_path / "samples.jsonl", tmp_path / "outcomes.jsonl"
    file.write_text("".join(sample.model_dump_json() + "\n" for sample in samples(3)))
    with FakeModelServer(ScriptedModel({"NO-RESPONSE": 1.0})) as server, pytest.raises(SystemExit) as ended:
        main(
            [
                "evaluate",
                str(file),
                "--metrics",
                "udcg",
                "--judge",
                server.url,
                "--set",
                "budget.calls=5",
                "-o",
                str(output),
            ]
        )
    assert (4, 5) == (ended.value.code, server.calls)
    written = capsys.readouterr()
    assert "0 / 3 / 0" in written.out
    assert "The budget is exhausted. 3 of 3" in written.err
    assert ["budget"] * 3 == [json.loads(line)["kind"] for line in output.read_text().splitlines()]


@pytest.mark.parametrize(
    "options", [["--budget-usd", "1"], ["--budget-usd", "1", "--set", "judge.usd_per_million_tokens=cheap"]]
)
def test_dollars_need_prices_on_the_command_line(tmp_path, capsys, options):
    """Exit code 2 and the way out."""
    file = tmp_path / "samples.jsonl"
    file.write_text(samples(1)[0].model_dump_json())
    with pytest.raises(SystemExit) as ended:
        main(["evaluate", str(file), "--judge", "http://127.0.0.1:9", *options])
    assert 2 == ended.value.code
    assert "judge.usd_per_million_tokens" in capsys.readouterr().err
