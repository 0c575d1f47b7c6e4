"""Reports: every statement is recomputed from the outcomes, sampled traffic is weighted, and any source is read."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from completions import complete
from ragstone.errors import ConfigurationError, DataError, RagstoneError
from ragstone.experiments import (
    Experiment,
    TimeRange,
    _outcome_file,
    build_report,
    evaluate,
    explain_answer,
    find_worst,
)
from ragstone.experiments._clusters import SampleFields
from ragstone.experiments._outcome_file import OutcomeLines
from ragstone.judges import JudgeIdentity
from ragstone.metrics import resolve_metrics
from ragstone.schema import Captured, Failure, Ledger, LedgerRow, NotApplicable, Passage, Sample, Score, Trace, Usage
from ragstone.scoring import CAUSES
from ragstone.stats import hajek_mean, mean_interval
from ragstone.store import PlannedMetric, SqliteStore
from ragstone.views import ReportText, format_interval, format_mean
from ragstone.views._live import live_parts
from ragstone.views._markdown import markdown_report
from ragstone.views._sections import sections
from ragstone.views._svg import axis_chart

METRICS = ("ccrs.ac", "ccrs.cc")
AnyOutcome = Score | NotApplicable | Failure


def outcome(sample_id: str, metric: str, value: float | None, *, judge: str = "a judge") -> AnyOutcome:
    """A score, or a failure for None."""
    about = {"sample_id": sample_id, "metric": metric, "metric_version": "1", "judge": judge, "judge_hash": "h"}
    if value is None:
        return Failure(**about, kind="timeout", reason="too slow")
    return Score(**about, value=value, method="json_reply", details={"em": 0.0, "judge": value})


def experiment(values: Sequence[tuple[float | None, float | None]], *, n_passages: int = 1) -> Experiment:
    """An experiment with a row for each pair of values of the two metrics."""
    samples = tuple(
        Sample(
            id=f"s{n}",
            query=f"Question {n}?",
            contexts=tuple(Passage(text="A text.", relevance=float(n % 2)) for _ in range(n_passages)),
            response="An answer." if n % 5 else "I don't know.",
            reference=("Another answer.",),
            metadata={"topic": "fares" if n % 3 else "dogs", "release": 2},
        )
        for n in range(len(values))
    )
    outcomes = tuple(
        outcome(sample.id, metric, value)
        for sample, pair in zip(samples, values, strict=True)
        for metric, value in zip(METRICS, pair, strict=True)
    )
    return Experiment(
        samples=samples,
        outcomes=outcomes,
        cards=tuple(metric.card for metric in resolve_metrics(METRICS)),
        judge=JudgeIdentity(name="a judge", hash="h"),
        usage=Usage(),
        wall_s=1.0,
    )


number = st.floats(0, 1, allow_nan=False)
maybe = st.one_of(st.none(), number)


@given(st.lists(st.tuples(maybe, maybe), min_size=1, max_size=40))
def test_every_statement_is_recomputed_from_the_outcomes(values: list[tuple[float | None, float | None]]) -> None:
    """Counts, shares and intervals of the sentences are those of the outcomes, and stand in their texts."""
    result = experiment(values)
    view = build_report(result, targets={"ccrs.ac": 0.5})
    # Where correctness failed, it is not known whether an answer is wrong.
    judged = [pair for pair in values if pair[0] is not None]
    first, *others = view.verdict
    if judged:
        causes = {id_: row for row in view.causes for id_ in row.sample_ids}
        numbers = first.numbers
        assert numbers["n_answers"] == len(judged)
        if view.causes:
            assert numbers["n_wrong"] == sum(row.is_wrong for row in causes.values())
        share = mean_interval([float(n < numbers["n_wrong"]) for n in range(len(judged))])
        assert (share.value, share.low, share.high) == (numbers["share"], numbers["low"], numbers["high"])
        assert f"{100 * share.value:.0f} %" in first.text
    target = others[0]
    correct = [pair[0] for pair in values if pair[0] is not None]
    if correct:
        mean = mean_interval(correct)
        assert (mean.value, mean.low, mean.high) == tuple(target.numbers[name] for name in ("mean", "low", "high"))
        assert (target.kind == "significant") == (mean.low > 0.5 or mean.high < 0.5)
        assert f"{format_mean(mean)} {format_interval(mean)}" in target.text
    for row, k in zip(view.metrics, (0, 1), strict=True):
        n_failed = sum(pair[k] is None for pair in values)
        assert (row.n_scored, row.n_failed) == (len(values) - n_failed, n_failed)
        notice = next((each for each in view.notices if f"scores of {row.title} failed" in each.text), None)
        assert (notice is not None) == bool(n_failed)
        if notice is not None:
            known = math.fsum(pair[k] or 0.0 for pair in values)
            assert notice.numbers["n_failed"] == notice.numbers["timeout"] == n_failed
            assert f"{n_failed:,} of " in notice.text
            assert "failed (timeout)." in notice.text
            assert notice.numbers["low"] == pytest.approx(known / len(values))
            assert notice.numbers["high"] == pytest.approx((known + n_failed) / len(values))
        assert sum(row.histogram) == (row.n_scored if row.n_scored >= 10 else 0)
    if view.next is not None and judged:
        wrong = [row for row in view.causes if row.is_wrong]
        assert (view.next.numbers["n"], view.next.numbers["n_wrong"]) == (
            max(r.n for r in wrong),
            sum(r.n for r in wrong),
        )
    json.dumps(view.to_dict(), allow_nan=False)


@given(st.lists(st.tuples(maybe, maybe), min_size=1, max_size=30), st.integers(40, 130), st.booleans())
def test_the_terminal_shows_the_numbers_of_the_view_within_its_width(
    values: list[tuple[float | None, float | None]], width: int, ascii_only: bool
) -> None:
    """No line is wider than the terminal, and every mean, interval and count is on it."""
    view = build_report(experiment(values))
    lines = [line.plain for line in ReportText(view, width=width, ascii_only=ascii_only).lines()]
    text = " ".join(" ".join(lines).split())
    assert max(map(len, lines)) <= max(width, 60)
    assert not ascii_only or text.isascii()
    for row in view.metrics:
        if row.estimate is not None:
            assert f"{format_mean(row.estimate)} {format_interval(row.estimate)}" in text
    for cause in view.causes:
        assert cause.title in text
    for answer in view.worst:
        assert answer.id in text


def test_the_worst_answers_are_one_of_each_cause_in_turn() -> None:
    """The most frequent cause comes first, its lowest answer before the others."""
    values = [(0.1 + n / 100, 0.9) for n in range(20)] + [(0.9, 0.9)] * 5
    view = build_report(experiment(values))
    frequent = [row.cause for row in view.causes]
    assert frequent == [answer.cause for answer in view.worst[: len(frequent)]]
    assert all(view.causes[k].sample_ids[0] == view.worst[k].id for k in range(len(frequent)))
    assert all(answer.query and answer.why and answer.scores for answer in view.worst)


def test_few_samples_have_no_causes_and_no_histogram() -> None:
    """Three samples are shown by themselves."""
    view = build_report(experiment([(0.1, 0.2), (0.9, 0.9), (0.5, None)]))
    assert ((), 3) == (view.causes, len(view.worst))
    assert all(not row.histogram for row in view.metrics)
    assert "s0" == view.worst[0].id
    assert any("Only 3 samples" in notice.text for notice in view.notices)


def stored(path: Path, probabilities: Sequence[float]) -> Path:
    """A store of scored requests, wrong if they were sampled rarely."""
    with SqliteStore.open(path, mode="own") as store:
        store.plan.set([PlannedMetric(name="ccrs.ac", version="1", judge_hash="h")], [])
        for n, probability in enumerate(probabilities):
            trace = Trace(
                trace_id=f"t{n}",
                started_at=1_000_000.0 + n * 3600,
                query=f"Question {n}?",
                response="An answer.",
                contexts=(Passage(text="A text."),),
                name="chat",
                tags=("beta",) if n % 2 else (),
                metadata={"release": "2.4" if n % 3 else "2.3"},
                inclusion_probability=probability,
            )
            store.traces.ingest("s", n + 1, [Captured(trace=trace)])
            store.leases.claim("w", 1, lease_s=60)
            complete(store, f"t{n}", [outcome(f"t{n}", "ccrs.ac", 0.1 if probability < 1 else 0.9)], owner="w")
    return path


def test_sampled_traffic_is_weighted(tmp_path: Path) -> None:
    """Shares and means count a request that was sampled with probability 0.1 ten times."""
    probabilities = [1.0] * 10 + [0.1] * 10
    view = build_report(stored(tmp_path / "r.db", probabilities))
    share = hajek_mean([0.0] * 10 + [1.0] * 10, probabilities)
    numbers = view.verdict[0].numbers
    assert (10, 20, share.value) == (numbers["n_wrong"], numbers["n_answers"], numbers["share"])
    mean = hajek_mean([0.9] * 10 + [0.1] * 10, probabilities)
    assert mean == view.metrics[0].estimate
    assert view.provenance.is_weighted


def test_requests_of_one_session_count_less() -> None:
    """Means and shares have the interval of clusters, and a notice gives the design effect."""
    result = experiment([(0.2 + 0.6 * (n // 4 % 2), 0.5 + n / 100) for n in range(40)])
    for n, sample in enumerate(result.samples):
        object.__setattr__(sample, "metadata", {"session_id": f"session {n // 4}"})
    view = build_report(result)
    sessions = [f"session {n // 4}" for n in range(40)]
    correct = [0.2 + 0.6 * (n // 4 % 2) for n in range(40)]
    assert hajek_mean(correct, clusters=sessions) == view.metrics[0].estimate
    numbers = view.verdict[0].numbers
    share = hajek_mean([float(value < 0.5) for value in correct], clusters=sessions)
    assert (share.value, share.low, share.high) == (numbers["share"], numbers["low"], numbers["high"])
    assert any("40 rows in 10 sessions" in notice.text for notice in view.notices)


def test_a_period_of_a_store(tmp_path: Path) -> None:
    """Only its requests are counted, and the heading names the period."""
    path = stored(tmp_path / "r.db", [1.0] * 10)
    view = build_report(TimeRange(path, since=1_000_000.0 + 5 * 3600))
    assert (5, 5) == (view.n_samples, view.metrics[0].n_scored)
    assert 1_000_000.0 + 5 * 3600 == view.provenance.since


def test_pending_requests_are_a_notice(tmp_path: Path) -> None:
    """With the command that scores them."""
    path = stored(tmp_path / "r.db", [1.0] * 3)
    with SqliteStore.open(path, mode="own") as store:
        store.traces.ingest("s", 99, [Captured(trace=Trace(trace_id="new", started_at=1.0, query="?", response="!"))])
    assert any(
        "1 request is pending." in n.text and f"ragstone worker {path} --until-idle" in n.text
        for n in build_report(path).notices
    )


def test_outcomes_of_an_older_plan_are_not_mixed_in(tmp_path: Path) -> None:
    """A metric whose version changed counts only with the planned version."""
    path = stored(tmp_path / "r.db", [1.0] * 3)
    with SqliteStore.open(path, mode="own") as store:
        store.plan.set([PlannedMetric(name="ccrs.ac", version="2", judge_hash="h")], [])
        store.traces.ingest("s", 99, [Captured(trace=Trace(trace_id="new", started_at=1.0, query="?", response="!"))])
        store.leases.claim("w", 1, lease_s=60)
        score = outcome("new", "ccrs.ac", 0.5).model_copy(update={"metric_version": "2"})
        complete(store, "new", [score], owner="w")
    view = build_report(path)
    assert (1, 0.5) == (view.metrics[0].n_scored, view.metrics[0].estimate.value if view.metrics[0].estimate else None)


def test_a_file_of_outcomes_with_and_without_texts(tmp_path: Path) -> None:
    """Without the evaluated file there are ids only."""
    result = experiment([(0.1, 0.9)] * 6)
    result.to_jsonl(tmp_path / "o.jsonl")
    bare = build_report(tmp_path / "o.jsonl")
    assert {None} == {answer.query for answer in bare.worst}
    full = build_report(tmp_path / "o.jsonl", samples=result.samples)
    assert {answer.query for answer in full.worst} <= {sample.query for sample in result.samples}
    assert [row.estimate for row in bare.metrics] == [row.estimate for row in full.metrics]
    answer = explain_answer(tmp_path / "o.jsonl", "s3", samples=result.samples)
    assert answer is not None
    assert "Question 3?" == answer.query
    assert explain_answer(tmp_path / "o.jsonl", "absent") is None


def test_a_file_is_parsed_once_for_its_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the lines of the shown answers are parsed again, and evidence of each comes from its own lines."""
    result = experiment([(n / 20, 1 - n / 20) for n in range(20)])
    path = tmp_path / "o.jsonl"
    result.to_jsonl(path)
    path.write_text("\n".join(["", *path.read_text().splitlines(), "", ""]), newline="\r\n")
    n_parsed = 0
    parse = _outcome_file._parse

    def counted(line: bytes) -> Any:
        nonlocal n_parsed
        n_parsed += 1
        return parse(line)

    monkeypatch.setattr(_outcome_file, "_parse", counted)
    view = build_report(path, samples=result.samples, n_worst=3)
    assert len(result.outcomes) + 3 * 2 == n_parsed
    whole = build_report(result, n_worst=3)
    assert [(a.id, a.scores, a.why) for a in whole.worst] == [(a.id, a.scores, a.why) for a in view.worst]


def test_a_file_that_changes_while_it_is_read_is_refused(tmp_path: Path) -> None:
    """Instead of evidence of another answer."""
    path = tmp_path / "o.jsonl"
    experiment([(0.1, 0.9)] * 6).to_jsonl(path)
    lines = OutcomeLines(path, SampleFields(()))
    assert 12 == sum(1 for _ in lines)
    assert ["s3", "s3"] == [outcome.sample_id for outcome in lines.find(["s3"])]
    path.write_text("".join(reversed(path.read_text().splitlines(keepends=True))))
    with pytest.raises(DataError, match="was changed while it was read"):
        list(lines.find(["s3"]))
    path.write_text("")
    with pytest.raises(DataError, match=r"byte \d+ of .* is not an outcome"):
        list(lines.find(["s3"]))


def test_worst_answers_by_cause_metric_and_label() -> None:
    """Each filter applies, and the order is the worst first."""
    result = experiment([(n / 20, 1 - n / 20) for n in range(20)])
    by_mean = result.worst(20)
    assert [answer.cause is None for answer in by_mean] == sorted(answer.cause is None for answer in by_mean)
    assert [f"s{n}" for n in range(19, 14, -1)] == [a.id for a in result.worst(5, metric="ccrs.cc")]
    causes = {answer.cause for answer in by_mean} - {None}
    for cause in causes:
        assert {cause} == {answer.cause for answer in result.worst(20, cause=cause)}
    dogs = result.worst(20, where="topic=dogs and ccrs.ac<0.5")
    assert {f"s{n}" for n in range(0, 10, 3)} == {answer.id for answer in dogs}
    assert "unsupported" in str(result.worst(20)) or "Judged" in str(result.worst(20))
    assert "5 answers" in repr(result.worst(5))


def test_labels_of_requests(tmp_path: Path) -> None:
    """Name, tags and metadata of captured requests are keys."""
    path = stored(tmp_path / "r.db", [1.0] * 6)
    assert {"t1", "t3", "t5"} == {a.id for a in find_worst(path, where="tag=beta")}
    assert {"t0", "t3"} == {a.id for a in find_worst(path, where="release=2.3 and name=chat")}
    assert {"t0", "t3"} == {a.id for a in find_worst(path, where="release<2.4")}
    assert set() == {a.id for a in find_worst(path, where="release=2.3 and tag!=beta and ccrs.ac>0.95")}


def test_requests_without_scores_follow_if_conditions_select_them(tmp_path: Path) -> None:
    """Requests that ended with an error do not have scores: only a condition lists them, after those with scores."""
    path = stored(tmp_path / "r.db", [1.0] * 2)
    best = Trace(trace_id="the best", started_at=1_100_000.0, query="How?", response="So.", name="chat")
    failed = Trace(
        trace_id="bad", started_at=1_100_000.0, query="Why?", status="error", error="ValueError: x", name="chat"
    )
    score = outcome("the best", "ccrs.ac", 1.0)
    not_scored = NotApplicable(
        sample_id="bad", metric="ccrs.ac", metric_version="1", judge=score.judge, reason="the request ended as 'error'"
    )
    with SqliteStore.open(path, mode="own") as store:
        for n, (trace, done) in enumerate([(best, score), (failed, not_scored)]):
            store.traces.ingest("s", n + 3, [Captured(trace=trace)])
            store.leases.claim("w", 1, lease_s=60)
            complete(store, trace.trace_id, [done], owner="w")
    scored = ["t0", "t1", "the best"]
    for where, ids in {
        "status=error": ["bad"],
        "status!=ok": ["bad"],
        "name=chat": [*scored, "bad"],
        "name=chat and ccrs.ac>0": scored,
        "status=ok": scored,
    }.items():
        assert ids == [answer.id for answer in find_worst(path, where=where)], where
    assert scored == [answer.id for answer in find_worst(path)]
    assert [] == list(find_worst(path, where="status=error", metric="ccrs.ac"))


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("", "must be KEY OPERATOR VALUE"),
        ("topic", "must be KEY OPERATOR VALUE"),
        ("topic=dogs or topic=fares", "are joined by and, got 'or topic=fares'"),
        ("topic=dogs and", "are joined by and"),
        ("topic<dogs", "needs a number, got 'dogs'"),
        ("colour=red", "no sample has 'colour'. Keys: ccrs.ac, ccrs.cc, release, topic"),
    ],
)
def test_wrong_conditions(where: str, message: str) -> None:
    """Value, rule and an example, or the known keys."""
    with pytest.raises(ConfigurationError) as error:
        experiment([(0.1, 0.2)] * 3).worst(where=where)
    assert message in str(error.value)


def test_wrong_arguments() -> None:
    """Value, rule and way out."""
    result = experiment([(0.1, 0.2)] * 3)
    with pytest.raises(ConfigurationError, match=r"unknown cause 'bad'. Causes: no_relevant_passage"):
        result.worst(cause="bad")
    with pytest.raises(ConfigurationError, match=r"'udcg' was not scored. Scored metrics: ccrs.ac, ccrs.cc"):
        result.worst(metric="udcg")
    with pytest.raises(ConfigurationError, match="no scores of the metric 'udcg' of a target"):
        build_report(result, targets={"udcg": 0.5})
    with pytest.raises(ConfigurationError, match=r"must be a value from 0 to 1, got 1.5"):
        build_report(result, targets={"ccrs.ac": 1.5})


def test_sources_without_outcomes(tmp_path: Path) -> None:
    """An empty file, an empty store and a file that is neither give a message."""
    empty, neither = tmp_path / "o.jsonl", tmp_path / "x.txt"
    empty.write_text("")
    neither.write_text("hello\n")
    with pytest.raises(DataError, match="does not contain outcomes"):
        build_report(empty)
    with pytest.raises(DataError, match="is not an outcome"):
        build_report(neither)
    with pytest.raises(RagstoneError, match="was not found"):
        build_report(tmp_path / "absent")
    with SqliteStore.open(tmp_path / "r.db", mode="own"):
        pass
    with pytest.raises(DataError, match="does not contain outcomes"):
        build_report(tmp_path / "r.db")


def test_metrics_that_this_installation_does_not_know() -> None:
    """They are listed with their own range, and without causes from them."""
    result = experiment([(0.1, 0.2)] * 6)
    strange = [outcome(f"s{n}", "acme.length", float(n * 100)) for n in range(6)]
    view = build_report(
        Experiment(
            samples=result.samples, outcomes=(*result.outcomes, *strange), cards=result.cards, judge=result.judge,
            usage=result.usage, wall_s=1.0,
        )
    )  # fmt: skip
    row = next(row for row in view.metrics if row.name == "acme.length")
    assert ("acme.length", (5.0, 495.0)) == (row.title, row.axis)
    json.dumps(view.to_dict(), allow_nan=False)


def test_hostile_texts_do_not_reach_the_terminal(tmp_path: Path) -> None:
    """Control characters, markup and lone surrogates in any field are harmless."""
    hostile = "\x1b[31mred\x1b[0m [bold]x[/bold] \u202e\ud800 </script>\r\n\tend"
    sample = Sample(
        id="s\x1b1",
        query=hostile,
        contexts=(Passage(text=hostile, id=hostile),),
        response=hostile,
        reference=(hostile,),
        metadata={hostile: hostile},
    )
    score = outcome(sample.id, "ccrs.ac", 0.1).model_copy(update={"explanation": hostile})
    base = experiment([(0.1, 0.2)])
    result = Experiment(
        samples=(sample,), outcomes=(score,), cards=base.cards, judge=base.judge, usage=base.usage, wall_s=1.0
    )
    texts = [str(result.worst())]
    view = build_report(result)
    for ascii_only in (True, False):
        texts += [line.plain for line in ReportText(view, ascii_only=ascii_only).lines()]
    for text in texts:
        assert all(c.isprintable() or c == "\n" for c in text)
    assert "[bold]x[/bold]" in texts[0]


def test_an_experiment_is_short_in_a_shell() -> None:
    """`repr` names size, metrics and judge, and where to look."""
    text = repr(experiment([(0.1, 0.2)] * 300))
    assert len(text) < 300
    assert "300 samples, ccrs.ac, ccrs.cc, judge a judge" in text
    assert "worst" in text


def test_causes_are_documented() -> None:
    """The how-to page names every cause."""
    page = Path(__file__).parents[2] / "docs" / "how-to" / "see-results.md"
    text = page.read_text(encoding="utf-8")
    assert [] == [cause.name for cause in CAUSES if f"`{cause.name}`" not in text]


def test_the_baseline_is_named() -> None:
    """Scores of the lexical baseline are not a judge's."""
    rows = [{"query": "a b", "contexts": ["a b"], "response": "a b", "reference": "a b"}]
    view = build_report(evaluate(rows, ["ccrs.qr"], judge="lexical"))
    assert view.provenance.is_baseline
    assert any("not a judge" in notice.text for notice in view.notices)


def topics(n: int) -> Experiment:
    """An experiment with three topics, of which one has most of the wrong answers."""
    result = experiment([(0.1 if k % 3 == 0 and k % 2 else 0.9, 0.9) for k in range(n)])
    for k, sample in enumerate(result.samples):
        metadata = {"topic": ("fares", "dogs", "fog")[k % 3], "id": k, "weather": "rain" if k < 5 else "sun"}
        object.__setattr__(sample, "metadata", metadata)
        object.__setattr__(sample, "response", "An answer.")
    return result


def test_slices_are_counted_with_intervals_that_hold_together() -> None:
    """Labels with few values of enough answers are shown, the worst value first."""
    view = build_report(topics(90))
    assert ["topic"] == [table.key for table in view.slices]  # `id` has 90 values, and only 5 answers are of "rain"
    rows = view.slices[0].rows
    assert [("fares", 30, 15), ("dogs", 30, 0), ("fog", 30, 0)] == [(row.value, row.n, row.n_wrong) for row in rows]
    for row in rows:
        own = mean_interval([1.0] * row.n_wrong + [0.0] * (row.n - row.n_wrong), confidence_level=1 - 0.05 / 3)
        assert own == row.share
    assert sum(row.n_wrong for row in rows) == view.verdict[0].numbers["n_wrong"]


def test_a_label_that_is_asked_for_is_shown_with_any_number_of_answers() -> None:
    """Also with rare values, of which the most frequent are listed and the others counted."""
    view = build_report(topics(90), by=["weather", "id"])
    weather, ids = view.slices
    assert {("rain", 5), ("sun", 85)} == {(row.value, row.n) for row in weather.rows}
    assert (50, 40) == (len(ids.rows), ids.n_without)
    result = topics(90)
    for sample in result.samples[85:]:
        sample.metadata["id"] = "z"
    (ids,) = build_report(result, by=["id"]).slices
    assert (50, 36) == (len(ids.rows), ids.n_without)
    assert ("z", 5) in {(row.value, row.n) for row in ids.rows}
    text = "\n".join(line.plain for line in ReportText(view).lines())
    assert "By weather" in text
    with pytest.raises(ConfigurationError, match="--by color: no sample has a text or a number"):
        build_report(topics(9), by=["color"])


def test_a_label_without_wrong_answers_is_one_sentence() -> None:
    """In each form of the report: a table of zeros says no more. A label with a wrong answer keeps its table."""
    result = topics(90)
    object.__setattr__(result, "outcomes", [outcome(each.sample_id, each.metric, 0.9) for each in result.outcomes])
    view = build_report(result)
    assert [0, 0, 0] == [row.n_wrong for table in view.slices for row in table.rows]
    sentence = "By topic: of 3 values, none has wrong answers."
    forms = (
        "\n".join(line.plain for line in ReportText(view).lines()),
        markdown_report(view),
        str(sections(view)["slices"]),
    )
    for form in forms:
        assert sentence in form
        assert "0 of 30" not in form
    live = live_parts(view, Ledger(total=LedgerRow()), latest=(), command="")
    assert "No wrong answers are known." in live["latest"]
    assert "<table" not in live["latest"]
    with_wrong = build_report(topics(90))
    assert "0 of 30" in str(sections(with_wrong)["slices"])
    assert "none has wrong answers" not in str(sections(with_wrong)["slices"])


def test_abstentions_are_not_called_wrong_answers() -> None:
    """If no metric says which answers are wrong, only abstentions are known."""
    result = topics(90)
    object.__setattr__(result, "outcomes", [outcome(sample.id, "ccrs.qr", 0.9) for sample in result.samples])
    for response in ("I don't know.", "An answer."):
        object.__setattr__(result.samples[0], "response", response)
        view = build_report(result)
        live = live_parts(view, Ledger(total=LedgerRow()), latest=(), command="")
        forms = ("\n".join(line.plain for line in ReportText(view).lines()), markdown_report(view), str(live["slices"]))
        assert "No abstentions are known." in live["latest"]
        for form in forms:
            assert "abstentions" in form
            assert "wrong answers" not in form
            assert ("none has abstentions" in form) == (response == "An answer.")


def test_a_single_answer_is_named_so() -> None:
    """Not "None of 1 answer"."""
    for value, text in (
        (0.9, "The only answer is not judged wrong (0 %"),
        (0.1, "The only answer is judged wrong (100 %"),
    ):
        assert build_report(experiment([(value, 0.5)])).verdict[0].text.startswith(text)


def test_the_label_of_a_mark_does_not_cover_the_ends_of_its_axis() -> None:
    """The mark of UDCG is near the lower end."""
    row = replace(
        build_report(experiment([(0.5, 0.5)])).metrics[0], axis=(0.42, 0.73), low=0.42, high=0.73, neutral=0.5
    )
    svg = str(axis_chart(row))
    (x,) = map(float, re.findall(r'<text[^>]*x="([0-9.]+)"[^>]*>0.5 without effect', svg))
    assert x - 6.5 * len("0.5 without effect") / 2 > 6 + 6.5 * len("0.42")


def test_a_mean_above_its_target_misses_it_if_lower_is_better() -> None:
    """The side is that of the value, and the verdict that of the metric."""
    result = experiment([(0.9, 0.1)] * 40)
    cards = tuple(replace(card, direction="lower") for card in result.cards)
    view = build_report(replace(result, cards=cards), targets=dict.fromkeys(METRICS, 0.5))
    above, below = (each.text for each in view.verdict[1:])
    assert "is significantly above its target 0.5: 0.90 [" in above
    assert above.endswith("The target is missed.")
    assert "is significantly below its target 0.5: 0.10 [" in below
    assert below.endswith("The target is reached.")


@pytest.mark.parametrize(
    ("n", "said"), [(29, ["Only 29 samples: intervals are wide, and shares are rough."]), (30, [])]
)
def test_fewer_than_30_samples_are_few(n: int, said: list[str]) -> None:
    """A notice says so, once."""
    notices = build_report(experiment([(0.9, 0.9)] * n)).notices
    assert said == [notice.text for notice in notices if notice.text.startswith("Only ")]


def test_a_cause_is_a_condition_beside_the_others() -> None:
    """Both hold for the answers that are shown."""
    result = experiment([(0.1, 0.9)] * 12)
    causes = {answer.id: answer.cause for answer in result.worst(20)}
    cause = causes["s0"]
    dogs = {answer.id for answer in result.worst(20, where="topic=dogs")}
    assert {id_ for id_, each in causes.items() if each == cause} & dogs == {
        answer.id for answer in result.worst(20, where="topic=dogs", cause=cause)
    }
    assert dogs - {id_ for id_, each in causes.items() if each == cause}


def test_a_summary_without_texts_has_no_answers(tmp_path: Path) -> None:
    """Its ending may be in capitals."""
    result = experiment([(0.1, 0.9)] * 12)
    view = build_report(result, tmp_path / "R.MD", texts=False)
    assert () == view.worst
    assert (tmp_path / "R.MD").read_text().startswith("### ")
    assert 5 == len(build_report(result, tmp_path / "r.md").worst)
