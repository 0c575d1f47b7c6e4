"""Traffic of different times: what a store has of one week against what it has of another."""

from __future__ import annotations

import json
import time
from pathlib import Path

import numpy as np
import pytest

import ragstone
from completions import complete
from ragstone.cli import main
from ragstone.cli._options import parse_time_range
from ragstone.errors import ConfigurationError, DataError
from ragstone.experiments import TimeRange
from ragstone.experiments._outcomes import open_source
from ragstone.schema import Captured, Failure, Score, Trace
from ragstone.settings import Analysis
from ragstone.stats import hajek_mean
from ragstone.store import PlannedMetric, SqliteStore

DAY = 86_400.0
MONDAY = 1_793_577_600.0
"""2026-11-02, midnight UTC."""


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Two weeks of requests, forty a week: the second week scores higher by 0.2, has two failures, and keeps a half."""
    path = tmp_path / "app.db"
    rng = np.random.default_rng(3)
    with SqliteStore.open(path, mode="own") as opened:
        opened.plan.set([PlannedMetric(name="ccrs.qr", version="1", judge_hash="h")], [])
        for week in (0, 1):
            for i in range(40):
                id_ = f"w{week}-{i}"
                trace = Trace(
                    trace_id=id_,
                    query="q",
                    started_at=MONDAY + 7 * DAY * week + i * 3600,
                    inclusion_probability=0.5 if week and i % 2 else 1.0,
                )
                opened.traces.ingest("a", 100 * week + i + 1, [Captured(trace=trace)])
                common = {"sample_id": id_, "metric": "ccrs.qr", "metric_version": "1", "judge": "j", "judge_hash": "h"}
                if week and i < 2:
                    complete(opened, id_, [Failure(**common, kind="timeout", reason="slow")])
                else:
                    value = float(np.clip(0.5 + 0.2 * week + 0.1 * rng.standard_normal(), 0, 1))
                    complete(opened, id_, [Score(**common, value=value, method="single_reply")])
    return path


def test_two_weeks_of_one_store(store):
    """Weighted means, an interval around their difference, a verdict; nothing is said of common samples."""
    before, after = TimeRange(store, MONDAY, MONDAY + 7 * DAY), TimeRange(store, MONDAY + 7 * DAY)
    result = ragstone.compare({"before": before, "after": after})
    (metric,) = result.metrics
    (pair,) = metric.pairs

    with SqliteStore.open(store, mode="read") as opened:
        inclusion = opened.traces.inclusion_probabilities()
        scores = {o.sample_id: o.value for o in opened.outcomes.read() if isinstance(o, Score)}
    week = {k: v for k, v in scores.items() if k.startswith("w1")}
    weighted = hajek_mean(list(week.values()), [inclusion.get(k, 1.0) for k in week])
    assert not result.paired
    assert weighted.value == pytest.approx(metric.systems[1].estimate.value)
    assert weighted.value - np.mean([v for k, v in scores.items() if k.startswith("w0")]) == pytest.approx(
        pair.difference
    )
    assert ("after", 78, 2) == (pair.better, pair.n, pair.n_failed)
    assert pair.low < 0.2 < pair.high
    # Two failures of weights 1 and 2 among 40 requests, of which 20 stand for two each.
    assert 3 / 60 == pytest.approx(pair.bounds[1] - pair.bounds[0])
    assert pair.bounds[0] < pair.difference < pair.bounds[1]
    assert result.verdict[0].startswith("after beats before on ccrs.qr by ")
    text = str(result)
    assert "method: unpaired permutation test" in text
    assert "higher / equal / lower" not in text


def test_the_page_reads_the_outcomes_that_were_compared(store, tmp_path):
    """Also those of an earlier judge, if different judges are allowed."""
    with SqliteStore.open(store, mode="own") as opened:
        opened.plan.set([PlannedMetric(name="ccrs.qr", version="1", judge_hash="new")], [])
        trace = Trace(trace_id="new", query="q", started_at=MONDAY + 15 * DAY)
        opened.traces.ingest("a", 200, [Captured(trace=trace)])
        about = {"metric": "ccrs.qr", "metric_version": "1", "judge": "k", "judge_hash": "new", "method": "x"}
        complete(opened, "new", [Score(sample_id="new", value=0.5, **about)])
    periods = [TimeRange(store, MONDAY, MONDAY + 14 * DAY), TimeRange(store, MONDAY + 14 * DAY)]
    result = ragstone.compare(periods, allow_different_judges=True)
    assert [78, 1] == [each.n_scored for each in result.metrics[0].systems]
    result.write(tmp_path / "page.html")
    assert "not on the same scale" in (tmp_path / "page.html").read_text()


def test_periods_have_names(store):
    """Where none is given: the store and the days."""
    result = ragstone.compare([TimeRange(store, MONDAY, MONDAY + 7 * DAY), TimeRange(store, MONDAY + 7 * DAY)])
    assert ("app@2026-11-02..2026-11-09", "app@2026-11-09..") == result.systems


def test_what_needs_the_same_samples_says_so(store):
    """Hypotheses and gates are of paired comparisons."""
    weeks = [TimeRange(store, None, MONDAY + 7 * DAY), TimeRange(store, MONDAY + 7 * DAY)]
    with pytest.raises(ConfigurationError, match="a hypothesis needs systems that were evaluated on the same samples"):
        ragstone.compare(weeks, hypotheses=["app@..2026-11-09 > app@2026-11-09.."])
    with pytest.raises(ConfigurationError, match="a gate needs systems"):
        ragstone.compare(weeks).check_regression()


def test_files_of_different_rows_are_refused_unless_asked_for(store, tmp_path):
    """Rows that should be the same and are not are a mistake, as before."""
    files = []
    for name in ("a", "b"):
        path = tmp_path / f"{name}.jsonl"
        rows = [
            Score(
                sample_id=f"{name}{i}", metric="m", metric_version="1", value=0.5 + i / 100, method="x"
            ).model_dump_json()
            for i in range(9)
        ]
        path.write_text("\n".join(rows))
        files.append(path)
    with pytest.raises(
        DataError, match=r"or compare different traffic with paired=False \(`ragstone compare --unpaired`\)"
    ):
        ragstone.compare(files)
    assert not ragstone.compare(files, paired=False).paired


def test_times_that_overlap_are_refused(store):
    """A request that is compared with itself, by mistake, differs in nothing; asked for, both ways are possible."""
    weeks = {"a": TimeRange(store, None, MONDAY + 8 * DAY), "b": TimeRange(store, MONDAY + 7 * DAY)}
    with pytest.raises(DataError, match="the periods overlap"):
        ragstone.compare(weeks)
    apart = ragstone.compare(weeks, paired=False)
    assert "some samples are in several systems" in apart.notes[0]
    assert not any("in every system" in note for note in apart.notes)
    assert ragstone.compare(weeks, paired=True).metrics[0].pairs[0].n_equal > 0


def test_an_empty_week_is_told(store):
    """A time without requests holds no outcome."""
    with pytest.raises(DataError, match=r"'app@..2026-11-01' does not contain outcomes"):
        ragstone.compare([TimeRange(store, None, MONDAY - DAY), TimeRange(store)])


@pytest.mark.parametrize(
    ("text", "since", "until"),
    [
        ("app.db@2026-11-02..2026-11-09", MONDAY, MONDAY + 7 * DAY),
        ("app.db@2026-11-02T01:00..", MONDAY + 3600, None),
        ("app.db@..2026-11-02T01:00+01:00", None, MONDAY),
        ("postgresql://me:secret@host/db@2026-11-02..", MONDAY, None),
    ],
)
def test_a_time_behind_a_store(text, since, until):
    """ISO dates, in UTC where they do not say otherwise; either end may be left out."""
    period = parse_time_range(text)
    assert (text.rpartition("@")[0], since, until) == (period.store, period.since, period.until)
    assert "secret" not in period.name


def test_a_time_from_now():
    """Days, hours and minutes back."""
    period = parse_time_range("app.db@-7d..-12h")
    assert time.time() - 7 * DAY == pytest.approx(period.since, abs=60)
    assert time.time() - DAY / 2 == pytest.approx(period.until, abs=60)


@pytest.mark.parametrize("text", ["app.db", "me@home.jsonl", "postgresql://me:secret@host/db", "@..", "a@b"])
def test_what_has_no_time_is_a_file_as_before(text):
    """An at sign alone makes no period."""
    assert text == parse_time_range(text)


@pytest.mark.parametrize(
    ("text", "words"), [("a.db@soon..", "invalid time 'soon'"), ("a.db@2026-11-09..2026-11-02", "TO is not after FROM")]
)
def test_a_time_that_cannot_be_is_told(text, words):
    """With what could be written instead."""
    with pytest.raises(ConfigurationError, match=words):
        parse_time_range(text)


def test_on_the_command_line(store, capsys):
    """`STORE@FROM..TO` twice, with names."""
    with pytest.raises(SystemExit) as end:
        main(["compare", f"before={store}@..2026-11-09", f"after={store}@2026-11-09..", "--json", "--full"])
    assert 0 == (end.value.code or 0)
    told = json.loads(capsys.readouterr().out)
    assert (["before", "after"], False) == (told["systems"], told["paired"])
    assert "after" == told["metrics"][0]["pairs"][0]["better"]


def test_failed_requests_bound_the_difference_of_two_groups(tmp_path: Path) -> None:
    """The worst of one against the best of the other."""
    paths = []
    for name, values in (("a", [0.2] * 8 + [None] * 2), ("b", [0.6] * 5 + [None] * 5)):
        lines = []
        for i, value in enumerate(values):
            about = {"sample_id": f"{name}{i}", "metric": "ccrs.qr", "metric_version": "1", "judge_hash": "h"}
            outcome = (
                Failure(kind="timeout", reason="late", **about)
                if value is None
                else Score(value=value, method="x", **about)
            )
            lines.append(outcome.model_dump_json() + "\n")
        paths.append(tmp_path / f"{name}.jsonl")
        paths[-1].write_text("".join(lines))
    (pair,) = ragstone.compare(paths, paired=False).metrics[0].pairs
    # a is from 0.16 to 0.36, and b from 0.3 to 0.8.
    assert (7, (-0.06, 0.64)) == (pair.n_failed, pytest.approx(pair.bounds))


def test_the_seed_of_independent_groups_is_used(store: Path) -> None:
    """Another seed gives other permutations, and the same one the same numbers."""
    weeks = {"a": TimeRange(store, MONDAY, MONDAY + 7 * DAY), "b": TimeRange(store, MONDAY + 7 * DAY)}
    first, again, other = (ragstone.compare(weeks, n_permutations=200, seed=seed).metrics for seed in (0, 0, 1))
    assert first == again
    assert first != other


def test_a_period_has_its_own_probabilities_and_the_labels_that_are_named(store: Path) -> None:
    """The first week was captured whole, so its mean is not weighted, and a failed request has bounds."""
    early, late = (TimeRange(store, MONDAY + 7 * DAY * week, MONDAY + 7 * DAY * (week + 1)) for week in (0, 1))
    assert open_source(early).table()[0].probabilities is None
    assert {0.5, 1.0} == set(open_source(late).table()[0].inclusion.tolist())
    with SqliteStore.open(store, mode="own") as opened:
        for i in range(4):
            trace = Trace(trace_id=f"x{i}", query="q", started_at=MONDAY + i, metadata={"tenant": f"t{i % 2}"})
            opened.traces.ingest("a", 1000 + i, [Captured(trace=trace)])
    labels = open_source(early, analysis=Analysis(cluster="tenant")).dependence().labels
    assert {f"x{i}": f"t{i % 2}" for i in range(4)} == labels["tenant"]
