"""Runs of `evaluate` in a store, and the history that a report shows of them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

import ragstone
from command_line import run_command
from live_store import make_store
from ragstone.errors import ConfigurationError
from ragstone.experiments import (
    Experiment,
    FollowedReport,
    TimeRange,
    build_report,
    check_run,
    choose_cases,
    compare_last,
    save_run,
)
from ragstone.schema import Usage
from ragstone.settings import Analysis
from ragstone.store import PlannedMetric, SqliteStore
from ragstone.views import ReportText, markdown_report


def evaluated(n: int = 30, *, right: int = 30) -> Experiment:
    """Answers of which some repeat their passage."""
    rows = [
        {
            "id": f"q{k}",
            "query": f"Why {k}?",
            "contexts": ["Rain fell."],
            "response": "Rain fell." if k < right else "No.",
        }
        for k in range(n)
    ]
    return ragstone.evaluate(rows, ["ccrs.cc"], judge="lexical")


def stored(path: Path, name: str, experiment: Experiment) -> None:
    """Store a run."""
    check_run(path, name)
    save_run(path, name, experiment, experiment.traces)


def changed(experiment: Experiment, **fields: str) -> Experiment:
    """The experiment with other fields of all outcomes."""
    return replace(experiment, outcomes=tuple(each.model_copy(update=fields) for each in experiment.outcomes))


def test_the_last_run_is_reported_beside_all_runs(tmp_path: Path):
    """The numbers of the report are those of the last run alone; the history has each run by itself."""
    path = tmp_path / "runs.db"
    stored(path, "first", evaluated(right=30))
    assert () == build_report(path).runs
    stored(path, "second", evaluated(right=15))
    view = build_report(path)
    assert (30, f"{path}, run second") == (view.n_samples, view.title)
    assert [("first", 1.0), ("second", 0.5)] == [(run.name, run.means["ccrs.cc"].value) for run in view.runs]
    assert view.metrics[0].estimate == view.runs[-1].means["ccrs.cc"]
    assert ["", ""] == [run.change for run in view.runs]
    assert not any("do not score the store now" in notice.text for notice in view.notices)


@pytest.mark.parametrize(
    ("fields", "what"),
    [
        ({"judge_hash": "other"}, "judge of ccrs.cc changed"),
        ({"judge": "m", "judge_hash": "other"}, "judge of ccrs.cc changed (lexical baseline before, m now)"),
        ({"metric_version": "2"}, "definition or prompt of ccrs.cc changed"),
    ],
)
def test_a_changed_judge_or_wording_is_a_break(tmp_path: Path, fields: dict[str, str], what: str):
    """It is named before the run with which it came, in all formats, and only there."""
    path = tmp_path / "runs.db"
    for name, each in (("a", {}), ("b", {}), ("c", fields), ("d", fields)):
        stored(path, name, changed(evaluated(), **each))
    view = build_report(path)
    text = f"{what}: scores before and after are not comparable"
    assert ["", "", text, ""] == [run.change for run in view.runs]
    shown = "\n".join(line.plain for line in ReportText(view, width=200).lines())
    assert shown.index("  b  ") < shown.index(text) < shown.index("  c  ")
    assert text in markdown_report(view)
    build_report(path, tmp_path / "r.html")
    assert text in (tmp_path / "r.html").read_text()


def test_what_the_application_needed_is_beside_the_scores(tmp_path: Path):
    """Latency, tokens and cost of the calls, as medians."""
    path = tmp_path / "runs.db"

    def ask(question: str) -> str:
        return "Rain fell."

    rows = [{"id": f"q{k}", "query": f"Why {k}?", "contexts": ["Rain fell."]} for k in range(25)]
    result = ragstone.evaluate(rows, ["ccrs.cc"], app=ask, judge="lexical", repeats=2)
    usage = Usage(input_tokens=70, output_tokens=30, calls=1, cost_usd=0.5)
    timed = [
        trace.model_copy(update={"usage": usage, "started_at": 10.0, "ended_at": 12.0, "model": "m"})
        for trace in result.traces
    ]
    for name in ("a", "b"):
        save_run(path, name, result, timed)
    (_, run) = build_report(path).runs
    medians = {row.name: row.estimate and row.estimate.value for row in run.spent}
    assert {"latency_s": pytest.approx(2.0), "tokens": 100.0, "cost_usd": 0.5} == medians


def test_a_name_is_used_once_and_captured_requests_are_left_alone(tmp_path: Path):
    """Both are refused before anything is computed."""
    path = tmp_path / "runs.db"
    stored(path, "a", evaluated(5))
    with pytest.raises(ConfigurationError, match="Give this one another name: --run NAME"):
        check_run(path, "a")
    with pytest.raises(ConfigurationError, match="runs need a store of their own"):
        check_run(make_store(tmp_path / "s.db", 3), "a")


def test_secrets_of_samples_are_redacted(tmp_path: Path):
    """As in captured requests."""
    path = tmp_path / "runs.db"
    key = "sk-proj-" + "a1B2" * 12
    rows = [{"id": "q", "query": f"Is {key} a key?", "contexts": ["Rain."], "response": "Rain."}]
    result = ragstone.evaluate(rows, ["ccrs.cc"], judge="lexical")
    stored(path, "a", result)
    with SqliteStore.open(path, mode="read") as store:
        (trace,) = store.traces.read()
        assert ("a/q", "a", True) == (trace.trace_id, trace.metadata["run"], key not in (trace.query or ""))
        assert (1, 0) == (store.ledger().total.scored, store.ledger().total.pending)


def test_the_command_stores_runs(tmp_path: Path):
    """With a name, or the time; and a name needs a store."""
    file, path = tmp_path / "rows.jsonl", tmp_path / "runs.db"
    rows = [{"id": f"q{k}", "query": "Why?", "contexts": ["Rain."], "response": "Rain."} for k in range(3)]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    scored = ("evaluate", file, "--metrics", "ccrs.cc", "--judge", "lexical")
    done = run_command(*scored, "--store", path, "--run", "base")
    assert (0, True) == (done.returncode, "stored as run 'base'. All runs: ragstone report" in done.stderr)
    assert 0 == run_command(*scored, "--store", path).returncode
    first, second = build_report(path).runs
    assert ("base", "T") == (first.name, second.name[10])
    refused = run_command(*scored, "--run", "base")
    assert (True, False) == ("Add --store runs.db" in refused.stderr, refused.returncode == 0)


def test_runs_are_separate_systems_of_a_comparison(tmp_path: Path):
    """A store of runs alone is compared run by run, paired by the ids of the rows, and two named runs as well."""
    path = tmp_path / "runs.db"
    for name, right in (("a", 30), ("b", 15), ("c", 30)):
        stored(path, name, evaluated(right=right))
    both = ragstone.compare([path], n_permutations=200)
    assert (("a", "b", "c"), True, 30) == (both.systems, both.paired, both.n_common)
    assert [1.0, 0.5, 1.0] == [system.estimate.value for system in both.metrics[0].systems]
    done = run_command("compare", f"{path}@a", f"{path}@b", "--json")
    assert 0 == done.returncode, done.stderr
    assert ["runs@a", "runs@b"] == json.loads(done.stdout)["systems"]
    written = run_command("compare", f"new={path}@b", f"old={path}@a", "-o", str(tmp_path / "c.html"))
    assert 0 == written.returncode, written.stderr
    changed_ids = build_report(
        TimeRange(path, run="b"),
        compared=compare_last({"old": TimeRange(path, run="a"), "new": TimeRange(path, run="b")}, "old", Analysis()),
        name="new",
    ).changes
    assert changed_ids is not None
    assert {f"q{k}" for k in range(15, 30)} == set(changed_ids.lost_ids)


def test_a_run_is_chosen_by_name_and_runs_are_never_pooled(tmp_path: Path):
    """Report, live page, traces, cases and an export show one run: the last, the named one, or the last of a period."""
    path = tmp_path / "runs.db"
    for name, right in (("a", 30), ("b", 15), ("c", 0)):
        stored(path, name, evaluated(right=right))
    view = build_report(TimeRange(path, run="b"))
    assert (30, f"{path}, run b", 0.5) == (view.n_samples, view.title, view.metrics[0].estimate.value)
    assert ["a", "b"] == [run.name for run in view.runs]
    assert 30 == build_report(TimeRange(path, since=0.0)).n_samples
    report = FollowedReport(TimeRange(path), targets={})
    assert (True, 30, f"{path}, run c") == (report.refresh(), report.view.n_samples, report.view.title)
    stored(path, "d", evaluated(10))
    assert (True, 10, f"{path}, run d") == (report.refresh(), report.view.n_samples, report.view.title)
    assert report.answer("q3").id == "q3"
    shown = run_command("traces", f"{path}@b", "q20", "--json", "--full")
    assert "No." == json.loads(shown.stdout)["answer"]["response"][0]["text"], shown.stderr
    assert {f"b/q{k}" for k in range(30)} == set(choose_cases(TimeRange(path, run="b"), limit=1000).weights)
    assert 0 == run_command("store", "export", f"{path}@a", tmp_path / "a.jsonl").returncode
    assert 30 == len((tmp_path / "a.jsonl").read_text().splitlines())
    refused = run_command("report", f"{path}@e")
    assert (2, True) == (refused.returncode, "Its runs: 'a', 'b', 'c', 'd'. Write STORE@RUN" in refused.stderr)
    assert "These means are of all 4 runs together." in run_command("status", path).stdout
    captured = make_store(tmp_path / "s.db", 3)
    with pytest.raises(ConfigurationError, match="Its runs: none"):
        TimeRange(captured, run="a")


def test_a_second_judge_of_some_answers_is_a_change(tmp_path: Path):
    """Also if the other answers have the judge that they had before."""
    path = tmp_path / "runs.db"
    first = evaluated()
    outcomes = (*first.outcomes[:15], *changed(first, judge="m", judge_hash="other").outcomes[15:])
    for name, each in (("a", first), ("b", replace(first, outcomes=outcomes))):
        stored(path, name, each)
    change = build_report(path).runs[-1].change
    assert change.startswith("judge of ccrs.cc changed (lexical baseline before, lexical baseline, m now)")


def test_sampled_rows_are_weighted_in_a_run_too(tmp_path: Path):
    """The mean of the run is that of the evaluation."""
    rows = [
        {"id": f"q{k}", "query": f"Why {k}?", "contexts": ["Rain fell."], "response": "Rain fell." if k % 4 else "No."}
        | {"inclusion_probability": 0.2 if k % 4 else 1.0}
        for k in range(24)
    ]
    result = ragstone.evaluate(rows, ["ccrs.cc"], judge="lexical")
    stored(tmp_path / "runs.db", "a", result)
    (row,) = build_report(tmp_path / "runs.db").metrics
    assert row.estimate == result.summary()[0].estimate
    assert row.estimate.value == pytest.approx(18 * 5 / (18 * 5 + 6))


def test_a_metric_is_compared_with_the_last_run_that_has_it(tmp_path: Path):
    """A run without the metric in between does not hide its new judge."""
    path = tmp_path / "runs.db"
    first = evaluated()
    other = changed(first, metric="ccrs.qr")
    for name, each in (("a", first), ("b", other), ("c", changed(first, judge="m", judge_hash="other"))):
        stored(path, name, each)
    assert ["", "", True] == [
        run.change and "judge of ccrs.cc changed" in run.change for run in build_report(path).runs
    ]


def test_scores_of_an_earlier_judge_are_not_those_of_the_plan(tmp_path: Path):
    """A store whose judge was changed is scored again, and its old scores are not mixed in."""
    path = make_store(tmp_path / "s.db", 8)
    assert 8 == build_report(path).n_samples
    with SqliteStore.open(path, mode="own") as store:
        store.plan.set([PlannedMetric(name="ccrs.ac", version="1", judge_hash="other")], [])
    assert ["ragas.faithfulness", "ccrs.qr"] == [row.name for row in build_report(path).metrics][-2:]
    assert "ccrs.ac" not in [row.name for row in build_report(path).metrics]


def test_a_report_of_an_evaluation_says_when_its_application_was_called():
    """From the first call to the last one."""
    rows = [{"id": f"q{k}", "query": f"Why {k}?", "contexts": ["Rain."]} for k in range(3)]
    result = ragstone.evaluate(rows, ["ccrs.cc"], app=lambda question: "Rain.", judge="lexical")
    shown = result.report().provenance
    times = [trace.started_at for trace in result.traces]
    assert (min(times), max(times)) == (shown.since, shown.until)
