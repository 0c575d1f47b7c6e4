"""Changes against a baseline: every statement is recomputed, all renderers show the same, and each source is read."""

from __future__ import annotations

import base64
import gzip
import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from completions import complete
from ragstone import compare
from ragstone.errors import ConfigurationError
from ragstone.experiments import Comparison, Experiment, TimeRange, build_report
from ragstone.experiments._outcomes import open_source
from ragstone.experiments._views.changes import build_changes
from ragstone.judges import JudgeIdentity
from ragstone.metrics import resolve_metrics
from ragstone.schema import Captured, Failure, Passage, Sample, Score, Trace, Usage
from ragstone.scoring import CAUSES
from ragstone.store import PlannedMetric, SqliteStore
from ragstone.views import ReportText, ReportView
from ragstone.views._changes_html import changes_section
from ragstone.views._sections import verdict_section

METRICS = ("ccrs.ac", "ccrs.cc")
Pair = tuple[float | None, float | None]


def outcome(sample_id: str, metric: str, value: float | None, judge: str = "a judge") -> Score | Failure:
    """A score, or a failure for None."""
    about = {"sample_id": sample_id, "metric": metric, "metric_version": "1", "judge": judge, "judge_hash": "h"}
    if value is None:
        return Failure(**about, kind="timeout", reason="too slow")
    return Score(**about, value=value, method="json_reply", details={"em": 0.0, "judge": value})


def experiment(values: Sequence[Pair], *, judge: str = "a judge", sessions: int = 0) -> Experiment:
    """An experiment with a row for each pair of values of the two metrics."""
    samples = tuple(
        Sample(
            id=f"s{n}",
            query=f"Question {n}?",
            contexts=(Passage(text="A text.", relevance=float(n % 2)),),
            response="An answer.",
            reference=("Another answer.",),
            metadata={"session_id": f"session {n // sessions}"} if sessions else {},
        )
        for n in range(len(values))
    )
    return Experiment(
        samples=samples,
        outcomes=tuple(
            outcome(sample.id, metric, value, judge)
            for sample, pair in zip(samples, values, strict=True)
            for metric, value in zip(METRICS, pair, strict=True)
        ),
        cards=tuple(metric.card for metric in resolve_metrics(METRICS)),
        judge=JudgeIdentity(name=judge, hash="h"),
        usage=Usage(),
        wall_s=1.0,
    )


number = st.floats(0, 1, allow_nan=False)
pairs = st.lists(st.tuples(number, number, number, st.one_of(st.none(), number)), min_size=1, max_size=30)


def report_of(comparison: Comparison, data: dict[str, Sequence[Sample]] | None = None) -> ReportView:
    """The report of the last system, with what changed against the first one."""
    baseline, system = comparison.systems[0], comparison.systems[-1]
    before, after = ((data or {}).get(name, ()) for name in (baseline, system))
    source = open_source(comparison.sources[baseline], name=baseline, samples=before)
    compared = comparison.compared(system, baseline, source)
    return build_report(comparison.sources[system], name=system, samples=after, compared=compared)


@settings(max_examples=25)
@given(pairs)
def test_every_statement_is_recomputed(rows: list[tuple[float, float, float, float | None]]) -> None:
    """Findings and sizes are those of `compare`, gained and lost questions those of the causes."""
    before, after = experiment([row[:2] for row in rows]), experiment([row[2:] for row in rows])
    view = after.report(baseline=before)
    changes = view.changes
    assert changes is not None
    result = compare({"baseline": before, "experiment": after}, baseline="baseline")
    tested = [metric for metric in result.metrics if metric.pairs[0].n]
    wins = [metric.pairs[0].better for metric in tested]
    first = view.verdict[0]
    assert first.numbers["n_metrics"] == len(tested)
    assert first.numbers["n_better"] == wins.count("experiment")
    assert first.numbers["n_worse"] == wins.count("baseline")
    assert (first.kind == "significant") == any(wins)
    key = result.metrics[0].pairs[0]
    if key.difference is not None:
        assert (key.difference, key.low, key.high) == tuple(first.numbers.get(k) for k in ("difference", "low", "high"))
    for metric, shown in zip(result.metrics, changes.differences, strict=True):
        pair = metric.pairs[0]
        assert (pair.difference, pair.low, pair.high, pair.n) == (shown.difference, shown.low, shown.high, shown.n)
        assert (pair.n_higher, pair.n_lower, pair.better) == (shown.n_up, shown.n_down, shown.better)
    was, now = (
        {o.sample_id: o.value < 0.5 for o in each.outcomes if isinstance(o, Score) and o.metric == "ccrs.ac"}
        for each in (before, after)
    )
    gained = {id_ for id_ in was if was[id_] and not now[id_]}
    lost = {id_ for id_ in was if now[id_] and not was[id_]}
    assert (gained, lost) == (set(changes.gained_ids), set(changes.lost_ids))
    counted = changes.statements[0].numbers
    assert (len(gained), len(lost), len(rows)) == tuple(counted[k] for k in ("n_gained", "n_lost", "n_judged"))
    texts = re.findall(r"\d+", changes.statements[0].text)
    assert {str(n) for n in (len(gained), len(lost), len(rows)) if n} <= set(texts)
    assert bool(gained) != ("judged in both, none was wrong" in changes.statements[0].text)
    assert bool(lost) != ("None is wrong now" in changes.statements[0].text)
    causes = {a.id: a.cause for a in before.worst(100)}
    named = {k[2:]: n for each in changes.statements[1:] for k, n in each.numbers.items()}
    assert sum(named.values()) == len(gained)
    for cause, n in named.items():
        assert cause == "other" or n == sum(causes[id_] == cause for id_ in gained)
    flows = {(row.before, row.after): row.n for row in changes.flow}
    now_causes = {a.id: a.cause for a in after.worst(100)}
    assert (None, None) not in flows
    for (first_cause, second), n in flows.items():
        assert n == sum(causes[id_] == first_cause and now_causes[id_] == second for id_ in was)
    json.dumps(view.to_dict(), allow_nan=False)


def changed_view(*, n: int = 40) -> tuple[Experiment, ReportView]:
    """An experiment that is better on correctness and worse on coherence, and its report against the earlier one."""
    before = experiment([(0.1 + 0.02 * (k % 4) if k % 2 else 0.9, 0.9 - k / 100) for k in range(n)])
    after = experiment([(0.8 if k % 8 else 0.1, 0.5 - k / 100) for k in range(n)])
    return after, after.report(baseline=before)


def plain(lines: Sequence[str]) -> str:
    """One line of text."""
    return " ".join(" ".join(lines).split())


@pytest.mark.parametrize(("width", "ascii_only"), [(60, False), (80, False), (80, True), (120, False)])
def test_the_terminal_shows_the_changes_within_its_width(width: int, ascii_only: bool) -> None:
    """Every difference, count and shown question."""
    _, view = changed_view()
    assert view.changes is not None
    lines = [line.plain for line in ReportText(view, width=width, ascii_only=ascii_only).lines()]
    assert max(map(len, lines)) <= width
    text = plain(lines)
    assert not ascii_only or text.isascii()
    for row in view.changes.differences:
        assert row.size in text
    for statement in (*view.verdict, *view.changes.statements):
        assert statement.text in text
    for answer in (*view.changes.lost[:3], *view.changes.gained[:3]):
        assert answer.id in text


def test_page_summary_and_terminal_show_the_same_changes(tmp_path: Path) -> None:
    """Differences with their findings, sentences, gained and lost questions with both scores and causes."""
    before = experiment([(0.1 + 0.02 * (k % 4) if k % 2 else 0.9, 0.9 - k / 100) for k in range(40)])
    after, view = changed_view()
    changes = view.changes
    assert changes is not None
    assert {"better", "worse"} == {row.finding for row in changes.differences}
    for name in ("r.html", "r.md"):
        after.report(tmp_path / name, baseline=before)
    page, summary = ((tmp_path / name).read_text(encoding="utf-8") for name in ("r.html", "r.md"))
    terminal = plain([line.plain for line in ReportText(view, width=100).lines()])
    for document in (re.sub(r"<[^>]*>", " ", page), summary.replace("\\", ""), terminal):
        text = plain([document])
        for row in changes.differences:
            size, _, interval = row.size.partition(" [")
            assert size in text
            assert interval.rstrip("]") in text
        for statement in changes.statements:
            assert statement.text in text
        assert f"{len(changes.lost_ids)}" in text
        for answer in (*changes.lost[:3], *changes.gained[:3]):
            assert answer.query is not None
            assert answer.query in text
            assert f"{answer.before:.2f}" in text
            assert f"{answer.after:.2f}" in text
            assert (answer.title_before or answer.why) in text
    lost, gained = (part for part in re.findall('<table class="changed">.*?</table>', page, re.DOTALL))
    assert (len(changes.lost), 0) == (lost.count('"number bad"'), gained.count('"number bad"'))
    assert len(summary.splitlines()) <= 60
    packed = re.search(r'id="data"[^>]*>([^<]*)<', page)
    assert packed is not None
    data = json.loads(gzip.decompress(base64.b64decode(packed[1])))
    assert [
        ["lost against baseline", list(changes.lost_ids)],
        ["gained against baseline", list(changes.gained_ids)],
    ] == (data["changed"])


def test_causes_before_and_means_of_other_systems() -> None:
    """Counts of the baseline stand next to those of the system, and the other systems are in each row."""
    systems = {
        name: experiment([(0.9 if k % every else 0.1, 0.9) for k in range(24)])
        for name, every in (("a", 2), ("b", 3), ("c", 4))
    }
    comparison = compare(systems)
    compared = comparison.compared("c", "a", systems["a"].source("a"))
    view = build_report(systems["c"], name="c", compared=compared)
    assert view.changes is not None
    assert ("c", "b", "a") == view.changes.systems
    assert {"c", "b"} == {row.system for row in view.changes.differences}
    assert 2 == view.verdict[0].numbers["n_metrics"], "those of the reported system"
    for row in view.metrics:
        assert ["b", "a"] == [mean.system for mean in row.others]
        assert [systems[mean.system].summary()[0].estimate for mean in row.others if row.name == "ccrs.ac"] == [
            mean.estimate for mean in row.others if row.name == "ccrs.ac"
        ]
    counts = {row.cause: (row.n, row.n_before) for row in view.causes}
    earlier = {row.cause: row.n for row in systems["a"].report().causes}
    assert {cause: n for cause, (_, n) in counts.items() if n} == earlier
    before_view = systems["c"].report(baseline=systems["a"])
    terminal = plain([line.plain for line in ReportText(before_view, width=100).lines()])
    assert all(f", {row.n_before} before" in terminal for row in before_view.causes)
    forest = str(changes_section(view.changes, has_texts=True))
    assert all(f">{system} - a</th>" in forest for system in ("c", "b"))
    with pytest.raises(ConfigurationError, match="unknown system 'd'"):
        comparison.compared("d", "a", systems["a"].source("a"))
    with pytest.raises(ConfigurationError, match="does not have differences of 'a' from 'a'"):
        comparison.compared("a", "a", systems["a"].source("a"))


def test_causes_of_a_comparison() -> None:
    """Those of the reports of its systems, also from the command's files."""
    systems = {
        name: experiment([(0.9 if k % every else 0.1, 0.9) for k in range(24)]) for name, every in (("a", 2), ("b", 3))
    }
    causes = compare(systems).view(questions=False).causes
    assert {name: result.report().causes for name, result in systems.items()} == causes
    assert {"no_relevant_passage": 12} == {row.cause: row.n for row in causes["a"]}


def test_clusters_are_respected() -> None:
    """Intervals are those of `compare` over sessions, and a notice describes them."""
    before = experiment([(0.2 + 0.6 * (k // 4 % 2), 0.5 + k / 100) for k in range(40)], sessions=4)
    after = experiment([(0.3 + 0.6 * (k // 4 % 3 == 0), 0.5) for k in range(40)], sessions=4)
    view = after.report(baseline=before)
    assert view.changes is not None
    expected = (
        compare({"baseline": before, "experiment": after}, baseline="baseline", cluster="session_id")
        .metrics[0]
        .pairs[0]
    )
    assert (expected.low, expected.high) == (view.changes.differences[0].low, view.changes.differences[0].high)
    assert any("40 rows in 10 sessions" in notice.text for notice in view.notices)


def test_without_a_judgment_the_score_decides() -> None:
    """Gained and lost are changes of at least half of the range, and the sentence says so."""
    before, after = (
        replace(
            result,
            samples=tuple(s.model_copy(update={"response": None}) for s in result.samples),
            outcomes=tuple(
                Score(sample_id=o.sample_id, metric="rouge_l", metric_version="1", value=o.value, method="exact")
                for o in result.outcomes
                if isinstance(o, Score) and o.metric == "ccrs.ac"
            ),
            cards=tuple(metric.card for metric in resolve_metrics(["rouge_l"])),
        )
        for result in (
            experiment([(v, 0.5) for v in (0.1, 0.2, 0.9, 0.5)]),
            experiment([(v, 0.5) for v in (0.6, 0.6, 0.3, 0.5)]),
        )
    )
    changes = after.report(baseline=before).changes
    assert changes is not None
    assert (("s0",), ("s2",)) == (changes.gained_ids, changes.lost_ids)
    assert "rose by at least half of its range for 1 question and fell as much for 1" in changes.statements[0].text


def stored(path: Path, values: Sequence[tuple[float, float]]) -> Path:
    """A store of requests with a time and a score."""
    with SqliteStore.open(path, mode="own") as store:
        store.plan.set([PlannedMetric(name="ccrs.ac", version="1", judge_hash="h")], [])
        for n, (day, value) in enumerate(values):
            trace = Trace(
                trace_id=f"t{n}", started_at=day * 86400, query="?", response="!", contexts=(Passage(text="A text."),)
            )
            store.traces.ingest("s", n + 1, [Captured(trace=trace)])
            store.leases.claim("w", 1, lease_s=60)
            complete(store, f"t{n}", [outcome(f"t{n}", "ccrs.ac", value)], owner="w")
    return path


def test_two_periods_have_no_common_questions(tmp_path: Path) -> None:
    """Means, intervals and shares are compared, and the report says that questions are not."""
    path = stored(tmp_path / "r.db", [(n % 4, 0.9 if n % 4 > 1 else 0.1) for n in range(60)])
    early, late = TimeRange(path, until=2 * 86400.0), TimeRange(path, since=2 * 86400.0)
    view = report_of(compare({"early": early, "late": late}, baseline="early"))
    changes = view.changes
    assert changes is not None
    assert (False, (), (), ()) == (changes.paired, changes.gained_ids, changes.lost_ids, changes.flow)
    expected = compare({"early": early, "late": late}, baseline="early").metrics[0].pairs[0]
    assert (expected.difference, expected.low) == (changes.differences[0].difference, changes.differences[0].low)
    assert "different questions" in changes.statements[0].text
    assert "significantly better" in view.verdict[0].text
    assert "0 scores" not in plain([line.plain for line in ReportText(view).lines()])
    assert {row.cause: (row.n, row.n_before) for row in view.causes} == {"unexplained": (0, 30)}


def test_other_judges_and_other_questions_are_refused() -> None:
    """As in `compare`, with the way out."""
    with pytest.raises(ConfigurationError, match="different judges"):
        experiment([(0.1, 0.2)] * 3, judge="b").report(baseline=experiment([(0.1, 0.2)] * 3))


def test_a_file_without_texts_has_other_signals(tmp_path: Path) -> None:
    """A notice says that counts of causes can differ for that reason."""
    before, after = experiment([(0.1, 0.9)] * 12), experiment([(0.1, 0.9)] * 12)
    before.to_jsonl(tmp_path / "before.jsonl")
    view = after.report(baseline=tmp_path / "before.jsonl")
    assert any("Causes of before come from other signals" in notice.text for notice in view.notices)
    both = compare({"before": tmp_path / "before.jsonl", "after": after})
    full = report_of(both, data={"before": before.samples})
    assert not any("other signals" in notice.text for notice in full.notices)
    assert "No significant" not in full.verdict[0].text
    assert "do not differ significantly on any of 2 metrics" in full.verdict[0].text


def test_the_page_of_two_periods_has_a_whole_headline_and_shows_a_metric_with_scores() -> None:
    """The name of a period ends with points, and answers of traffic may lack the scores that need a reference."""
    before, after = experiment([(None, 0.9)] * 20), experiment([(None, 0.1)] * 20)
    view = report_of(compare({"then@..-7d": before, "now@-7d..": after}))
    first = "now@-7d.. is significantly worse than then@..-7d on Contextual coherence."
    assert view.verdict[0].text.startswith(f"{first} Contextual coherence changed by -80.0 points")
    assert f"<h1>{first}</h1>" in verdict_section(view)
    assert view.changes is not None
    assert "ccrs.cc" == view.changes.metric
    assert all(mean.estimate is not None for mean in view.changes.means)
    assert (0.9, 0.1) == (view.changes.lost[0].before, view.changes.lost[0].after)
    judged = report_of(compare({"then": before, "now": experiment([(0.5, 0.1)] * 20)}))
    assert judged.changes is not None
    assert "ccrs.cc" == judged.changes.metric, "a metric that only one of both has scores of has no changes"


def test_a_fall_is_a_gain_if_lower_is_better() -> None:
    """The largest gain comes first, and the sentence says which way is better."""
    cards = tuple(replace(metric.card, direction="lower") for metric in resolve_metrics(["rouge_l"]))
    before, after = (
        replace(
            experiment([(0.5, 0.5)] * 4),
            samples=tuple(Sample(id=f"s{n}", query=f"Question {n}?") for n in range(4)),
            outcomes=tuple(
                Score(sample_id=f"s{n}", metric="rouge_l", metric_version="1", value=value, method="exact")
                for n, value in enumerate(values)
            ),
            cards=cards,
        )
        for values in ((0.9, 1.0, 0.1, 0.2), (0.3, 0.1, 0.8, 1.0))
    )
    changes = after.report(baseline=before).changes
    assert changes is not None
    assert (("s1", "s0"), ("s3", "s2")) == (changes.gained_ids, changes.lost_ids)
    assert "fell by at least half of its range for 2 questions and rose as much for 2" in changes.statements[0].text


def test_causes_beyond_the_three_most_frequent_are_counted_together() -> None:
    """Of 15 gained questions the sentence names three causes, and the other three questions."""
    before, after = experiment([(0.1, 0.5)] * 15), experiment([(0.9, 0.5)] * 15)
    compared = compare({"old": before, "new": after}).compared("new", "old", before.source("old"))
    causes = [cause for cause in CAUSES if cause.is_wrong][:5]
    was = dict(
        zip((f"s{n}" for n in range(15)), (c.name for k, c in enumerate(causes) for _ in range(5 - k)), strict=True)
    )
    views = {answer.id: answer for answer in after.worst(100)}
    changes = build_changes(compared, was, dict.fromkeys(was), lambda ids: tuple(views[id_] for id_ in ids))
    text, numbers = changes.statements[1].text, changes.statements[1].numbers
    assert text.startswith("What was wrong before with the 15 gained questions: ")
    assert text.endswith(" (3), another cause (3).")
    assert {f"n_{cause.name}": 5 - k for k, cause in enumerate(causes[:3])} | {"n_other": 3} == numbers


def test_the_primary_metric_is_shown_and_tested() -> None:
    """The others are exploratory, and are not counted in the verdict."""
    systems = {"old": experiment([(0.1, 0.2)] * 12), "new": experiment([(0.9, 0.3)] * 12)}
    view = report_of(compare(systems, primary="ccrs.cc"))
    assert view.changes is not None
    assert ("ccrs.cc", 1) == (view.changes.metric, view.verdict[0].numbers["n_metrics"])
    assert "on Contextual coherence." in view.verdict[0].text


def test_an_earlier_system_is_compared_with_a_later_one() -> None:
    """The difference is that of the reported system, and failed samples are named beside it."""
    old = experiment([(0.4, 0.5)] * 24)
    new = experiment([(0.6, 0.5)] * 8 + [(None, 0.5)] * 16)
    compared = compare({"old": old, "new": new}).compared("old", "new", new.source("new"))
    row = next(each for each in compared.differences if each.metric == "ccrs.ac")
    assert ("old", "new", 0, 8) == (row.system, row.other, row.n_up, row.n_down)
    assert -0.2 == pytest.approx(row.difference)
    assert (True, "new") == (row.low < row.high < 0, row.better)
    back = compare({"old": old, "new": new}).compared("new", "old", old.source("old"))
    doubts = [next(each for each in one.differences if each.metric == "ccrs.ac").doubt for one in (compared, back)]
    assert [True, True] == [doubt.startswith("(but 16 samples failed: ") for doubt in doubts]


def test_unpaired_systems_have_no_changed_questions() -> None:
    """Also if their requests happen to have the same ids."""
    systems = {"old": experiment([(0.1, 0.5)] * 12), "new": experiment([(0.9, 0.5)] * 12)}
    changes = report_of(compare(systems, paired=False)).changes
    assert changes is not None
    assert (False, (), (), ()) == (changes.paired, changes.gained_ids, changes.lost_ids, changes.flow)
