"""`confidence_level` and `analysis.confidence_level`: every interval, table and gate of a command has the level that was asked for."""

from __future__ import annotations

import json

import pytest

import ragstone
from command_line import Done, run_command
from ragstone.errors import ConfigurationError
from ragstone.experiments._summary import check_level, ci_heading
from ragstone.stats import mean_interval

ROWS = [
    {
        "id": f"q{i}",
        "query": "Why is it wet?",
        "contexts": ["Rain."],
        "response": "Rain." if i % 4 else "The sun.",
        "topic": "a" if i % 2 else "b",
    }
    for i in range(80)
]


def run(*arguments: str, code: int = 0) -> Done:
    """Run a command that ends with this code."""
    done = run_command(*arguments)
    assert done.returncode == code, done.stderr
    return done


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A file of rows, its outcomes, and a store of the same requests."""
    tmp_path = tmp_path_factory.mktemp("levels")
    rows, outcomes, store = tmp_path / "rows.jsonl", tmp_path / "outcomes.jsonl", tmp_path / "store.db"
    rows.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    run("evaluate", str(rows), "--metrics", "ccrs.cc", "--judge", "lexical", "-o", str(outcomes))
    run("replay", str(rows), "--store", str(store), "--metrics", "ccrs.cc", "--judge", "lexical")
    return {"rows": str(rows), "outcomes": str(outcomes), "store": str(store)}


def interval_of(estimate: dict) -> tuple[float, float, float]:
    return estimate["low"], estimate["high"], estimate["confidence_level"]


def summary_of(row: dict) -> tuple[float, float, float]:
    return *row["ci"], row["confidence_level"]


COMMANDS = {
    "evaluate": (
        ["evaluate", "{rows}", "--metrics", "ccrs.cc", "--judge", "lexical"],
        lambda found: summary_of(found["metrics"][0]),
    ),
    "replay": (
        ["replay", "{rows}", "--store", "{store}", "--metrics", "ccrs.cc", "--judge", "lexical"],
        lambda found: interval_of(found["metrics"][0]["estimate"]),
    ),
    "status": (["status", "{store}"], lambda found: summary_of(found["scores"][0])),
    "report of outcomes": (
        ["report", "{outcomes}"],
        lambda found: interval_of(found["metrics"][0]["estimate"]),
    ),
    "report of a store": (["report", "{store}"], lambda found: interval_of(found["metrics"][0]["estimate"])),
    "compare": (
        ["compare", "a={outcomes}", "b={outcomes}"],
        lambda found: interval_of(found["metrics"][0]["systems"][0]["estimate"]),
    ),
}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("level", [0.8, 0.99])
def test_each_command_prints_the_interval_of_the_level(files, command, level):
    """The same as `mean_interval` of the 80 values at this level, and the JSON names the level."""
    arguments, read = COMMANDS[command]
    wanted = mean_interval([float(i % 4 > 0) for i in range(80)], confidence_level=level)
    done = run(*(a.format(**files) for a in arguments), "--set", f"analysis.confidence_level={level!s}", "--json")
    assert read(json.loads(done.stdout)) == pytest.approx((wanted.low, wanted.high, level))


@pytest.mark.parametrize("command", ["evaluate", "replay", "status", "compare"])
def test_tables_name_the_level(files, command):
    """The heading of the means has the level of the numbers below it."""
    arguments = [a.format(**files) for a in COMMANDS[command][0]] + ["--full"] * (command == "compare")
    assert "mean [80% CI]" in run(*arguments, "--set", "analysis.confidence_level=0.8").stdout
    assert "mean [95% CI]" in run(*arguments).stdout


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("level", ["0", "1", "95"])
def test_an_impossible_level_is_a_usage_error(files, command, level):
    """With the value, the rule and how 95% is written."""
    arguments = [a.format(**files) for a in COMMANDS[command][0]]
    done = run(*arguments, "--set", f"analysis.confidence_level={level}", code=2)
    wanted = f"--set: analysis.confidence_level must be a number above 0 and below 1, such as 0.95, got {float(level)}."
    assert wanted in " ".join(done.stderr.split())


@pytest.mark.parametrize("command", ["evaluate", "replay", "report of outcomes"])
def test_a_gate_has_the_level_and_refuses_one_that_does_not_decide(files, command):
    """A mean of 0.75 reaches 0.68 with 80%, and is undecided with 99%. At 0.5 the limit would be the mean itself."""
    arguments = [*(a.format(**files) for a in COMMANDS[command][0]), "--fail-under", "ccrs.cc=0.68"]
    assert "reached" in run(*arguments, "--set", "analysis.confidence_level=0.8").stdout
    undecided = run(*arguments, "--set", "analysis.confidence_level=0.99", "--json", code=1)
    gate = json.loads(undecided.stdout)["gate"]
    assert (gate["confidence_level"], gate["gates"][0]["state"]) == (0.99, "undecided")
    refused = run(*arguments, "--set", "analysis.confidence_level=0.5", code=2)
    assert "must be above 0.5 and below 1, got 0.5" in " ".join(refused.stderr.split())


def test_all_intervals_of_a_report_have_its_level(files, tmp_path):
    """Means, shares, causes and differences; slices hold together, so each has a higher level; the page names the command."""
    page = tmp_path / "page.html"
    arguments = ["report", "a={outcomes}", "b={outcomes}", "--data", "{rows}", "--by", "topic", "-o", str(page)]
    found = json.loads(
        run(
            *(a.format(**files) for a in arguments), "--set", "analysis.confidence_level=0.8", "--json", "--full"
        ).stdout
    )
    assert found["provenance"]["confidence_level"] == 0.8
    (metric,) = found["metrics"]
    assert metric["estimate"]["confidence_level"] == 0.8
    shares = [row["share"]["confidence_level"] for row in found["causes"] if row["share"]]
    assert shares
    assert shares == pytest.approx([0.8] * len(shares))
    levels = [row["share"]["confidence_level"] for table in found["slices"] for row in table["rows"]]
    assert levels == pytest.approx([0.9, 0.9])
    assert "80%" in page.read_text()
    assert "--set analysis.confidence_level=0.8" in page.read_text()


def test_an_experiment_keeps_its_level():
    """In summary, table, report and gate, also if it is compared in its report."""
    result = ragstone.evaluate(ROWS, ["ccrs.cc"], judge="lexical", confidence_level=0.9)
    assert result.summary()[0].estimate.confidence_level == 0.9
    assert "mean [90% CI]" in str(result)
    assert result.report().provenance.confidence_level == 0.9
    assert result.check({"ccrs.cc": 0.5}).confidence_level == 0.9
    assert result.check({"ccrs.cc": 0.5}, confidence_level=0.99).confidence_level == 0.99
    with pytest.raises(ConfigurationError, match="confidence_level must be between 0 and 1, got 90"):
        ragstone.evaluate(ROWS, ["ccrs.cc"], judge="lexical", confidence_level=90)


@pytest.mark.parametrize(
    ("level", "decides"), [(0.5, True), (0.3, True), (1.0, False), (0.0, False), (float("nan"), False)]
)
def test_levels_that_are_refused(level, decides):
    """NaN too."""
    with pytest.raises(ConfigurationError, match="confidence_level"):
        check_level(level, decides_gate=decides)


def test_a_heading_without_a_score_has_the_default_level():
    """A table without any score still has a heading."""
    assert ci_heading([None]) == "mean [95% CI]"
    assert ci_heading([None, mean_interval([0.5], confidence_level=0.999)]) == "mean [99.9% CI]"
