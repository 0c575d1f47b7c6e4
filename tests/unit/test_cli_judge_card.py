"""`ragstone lab judge-card`: what it costs, what it prints, and what it refuses before it costs anything."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from command_line import run_command
from fake_servers import FakeJudgeServer

pytestmark = pytest.mark.usefixtures("virtual_time")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A working directory with 16 samples, and labels of 12 of them."""
    monkeypatch.chdir(tmp_path)
    rows = [
        {"id": f"q{n}", "query": f"Why {n}?", "contexts": [f"Because {n}.", "Or not."], "response": f"Because {n}."}
        for n in range(16)
    ]
    Path("samples.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with Path("labels.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerows([("id", "ccrs.cc"), *((f"q{n}", "yes" if n % 2 else "no") for n in range(12))])
    return tmp_path


def card(*arguments, **environment):
    return run_command(
        "lab", "judge-card", "--labels", "labels.csv", "--data", "samples.jsonl", *arguments, **environment
    )


@pytest.mark.usefixtures("folder")
def test_dry_run_calls_nothing():
    """It prints design, calls, tokens and cost."""
    with FakeJudgeServer() as server:
        done = card(
            "--judge", server.url, "--judge", "lexical", "--dry-run", "--set", "judge.usd_per_million_tokens=1,2"
        )
        assert 0 == done.returncode, done.stderr
        assert [] == server.stats.requests
    # Two judges; all samples once, 12 labeled ones with 2 wordings x 2 repeats, a repeat and 2 orders.
    assert f"about {2 * (16 + 12 * 7)} calls" in done.stdout
    assert "12 labeled of 16 samples, 1 metric, 2 judges, 8 runs each" in done.stdout
    assert "with 12 labels, the 95% interval of a kappa of 0.6" in done.stdout
    assert "USD)" in done.stdout
    plain = json.loads(card("--dry-run", "--json", "--set", "research.conditions=none").stdout)
    assert (16, 1, []) == (plain["calls"], plain["n_judges"], plain["conditions"])


@pytest.mark.usefixtures("folder")
def test_card_of_two_models_of_one_server():
    """A second judge at the same URL is another model."""
    with FakeJudgeServer(models=("small", "large")) as server:
        at = ("--judge", server.url, "--judge", server.url, "--judge-model", "small", "--judge-model", "large")
        done = card(
            *at,
            "--set=research.conditions=wording",
            "--set=research.repeats=1",
            "--json",
            "--set=analysis.n_resamples=100",
        )
    assert 0 == done.returncode, done.stderr
    plain = json.loads(done.stdout)
    assert [f"{model} at {server.url[7:-3]}" for model in ("small", "large")] == [
        judge["judge"] for judge in plain["judges"]
    ]
    (metric,) = plain["judges"][0]["metrics"]
    assert 12 == metric["agreement"]["n"]
    assert ["wording 1", "wording 2"] == [effect["condition"] for effect in metric["effects"]]
    assert {"question", "judge", "wording"} <= {
        name for c in plain["joint"]["ccrs.cc"]["components"] for name in c["factors"]
    }
    assert [16, 12, 12] == [cost["n_samples"] for cost in plain["judges"][0]["costs"]]
    # The cost comes first, on stderr.
    assert done.stderr.startswith(
        "12 labeled of 16 samples, 1 metric, 2 judges, 3 runs each: base, wording 1, wording 2"
    )


@pytest.mark.usefixtures("folder")
def test_text_names_the_baseline():
    """The lexical baseline is not a judge, and tables fit 80 columns."""
    done = card(
        "--judge",
        "lexical",
        "--set",
        "research.conditions=order",
        "--set=research.repeats=1",
        "--set",
        "analysis.n_resamples=100",
        COLUMNS="80",
    )
    assert 0 == done.returncode, done.stderr
    assert "lexical baseline: scored by a baseline" in done.stdout
    assert "ccrs.cc  order reversed  12" in done.stdout
    assert max(len(line) for line in done.stdout.split("\n") if line.startswith("ccrs.cc  ")) <= 80


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--judge=http://x/v1", "--judge=http://x/v1"], "is given twice. Name each judge once"),
        (
            ["--judge=http://x/v1", "--judge=lexical", "--judge-model=m"],
            "--judge-model is given 1 times for 2 judges. Give it once for each --judge",
        ),
        (
            ["--set=research.conditions=wording,length"],
            "unknown condition 'length'. Conditions: wording, order, repeats, reasoned",
        ),
        (
            ["--judge=lexical", "--set=research.conditions=reasoned"],
            "the condition 'reasoned' needs a judge with a model",
        ),
        (["--label=grade"], "row 1 does not have a column 'grade'"),
        (["--set=research.label_range=1"], "research.label_range must be two numbers LOW,HIGH"),
        (["--metrics=rouge_l"], "a judge card describes only the judge"),
    ],
)
def test_usage_errors(arguments, message):
    """Exit code 2, and the message has the value and the way out."""
    done = card(*arguments)
    assert 2 == done.returncode
    assert message in done.stderr


@pytest.mark.usefixtures("folder")
def test_exit_codes():
    """4 if the budget is exhausted, 3 if the judge fails."""
    with FakeJudgeServer() as server:
        done = card("--judge", server.url, "--set", "budget.calls=20", "--set", "judge.max_concurrent_requests=1")
        assert 4 == done.returncode, done.stderr
        assert "unfinished: run the same command to resume" in done.stderr
        more = card("--judge", server.url)
        assert 0 == more.returncode, more.stderr
        assert "81 model calls, 19 replies from the journal" in more.stdout
        assert "the budget was exhausted, so that some conditions were not measured" in done.stdout
    with FakeJudgeServer(malformed_rate=1.0, structured="refused") as server:
        done = card("--judge", server.url, "--set", "research.conditions=none")
        assert 3 == done.returncode
        assert "16 of 16 judged outcomes of fake-judge at" in done.stderr
    assert 3 == card("--judge", "http://127.0.0.1:9/v1").returncode


@pytest.mark.usefixtures("folder")
def test_second_run_reads_the_journal():
    """Also the repeats, which have replies of their own. Another directory has another journal."""
    with FakeJudgeServer() as server:
        first = card("--judge", server.url, "--json")
        n = server.stats.calls
        second = card("--judge", server.url, "--json")
        # Each run makes one call that learns what the server supports.
        assert (100 + 1, n + 1) == (n, server.stats.calls)
        assert 0 == card("--judge", server.url, "-o", "other").returncode
        assert n + 1 + 100 < server.stats.calls
    plain = [json.loads(done.stdout) for done in (first, second)]
    costs = [sum(cost["cached"] for cost in each["judges"][0]["costs"]) for each in plain]
    assert [0, 16 + 12 * 7] == costs
    assert [(100, 0), (0, 100)] == [(each["n_asked"], each["n_known"]) for each in plain]
    assert plain[1] == json.loads(Path("judge-card/result.json").read_text(encoding="utf-8"))
    assert plain[0]["judges"][0]["metrics"] == plain[1]["judges"][0]["metrics"]


def test_configuration_file_names_a_judge(folder):
    """A text is one judge, not one for each letter."""
    (folder / "ragstone.toml").write_text('judge = "lexical"\n[research]\nrepeats = 3\n')
    done = run_command(
        "--config",
        "ragstone.toml",
        "lab",
        "judge-card",
        "--labels",
        "labels.csv",
        "--data",
        "samples.jsonl",
        "--dry-run",
        "--json",
    )
    assert 0 == done.returncode, done.stderr
    plain = json.loads(done.stdout)
    assert (1, 3) == (plain["n_judges"], plain["repeats"])
