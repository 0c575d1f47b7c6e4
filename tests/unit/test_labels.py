"""Labels of people: draws with the promised probabilities, files of labels, and what a report says about them."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path

import pytest

from completions import complete
from live_store import add_requests, make_store
from ragstone.errors import ConfigurationError, DataError
from ragstone.experiments import FollowedReport, TimeRange, add_labels, build_report, draw_to_label, evaluate
from ragstone.experiments._labels import _systematic_sample, disagreements, draw_probabilities
from ragstone.experiments._outcomes import open_source
from ragstone.experiments._runs import save_run
from ragstone.schema import Captured, Score, Trace
from ragstone.stats import drawn_kappa, drawn_prediction_powered_mean
from ragstone.store import DrawnRequest, SqliteStore, StoredLabel
from ragstone.views._sections import labels_section


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store of 80 requests, of which those with a number divisible by 4 are judged wrong."""
    return make_store(tmp_path / "s.db", 80)


def drawn(path: Path) -> list[DrawnRequest]:
    """The frame."""
    with SqliteStore.open(path, mode="read") as store:
        return store.labels.drawn()


def test_probabilities_sum_to_the_number_and_are_never_small():
    """At least half of a uniform draw; large sizes are drawn for certain, and their excess goes to the others."""
    sizes = {f"t{k}": float(k) for k in range(100)} | {"huge": 1e6}
    found = draw_probabilities(sizes, 20)
    assert sum(found.values()) == pytest.approx(20)
    assert 1.0 == found["huge"]
    assert min(found.values()) > 19 / 202
    assert found["t99"] > 0.1
    assert {1.0} == set(draw_probabilities({"a": 0.0, "b": 3.0}, 5).values())
    assert {0.25} == set(draw_probabilities(dict.fromkeys("abcd", 0.0), 1).values())
    assert {"a": 1 / 6, "b": 1 / 6 + 1 / 8, "c": 1 / 6 + 3 / 8} == pytest.approx(
        draw_probabilities({"a": 0.0, "b": 1.0, "c": 3.0}, 1)
    )


def test_a_draw_has_its_probabilities():
    """Over many draws, each request is chosen as often as promised, and the number is the promised one."""
    probabilities = draw_probabilities({f"t{k}": float(k % 5) for k in range(40)}, 8)
    rng, n, counts = random.Random(0), 4000, Counter[str]()
    for _ in range(n):
        chosen = _systematic_sample(probabilities, rng)
        assert len(chosen) in (7, 8, 9)
        assert len(set(chosen)) == len(chosen)
        counts.update(chosen)
    for each, probability in probabilities.items():
        assert counts[each] / n == pytest.approx(probability, abs=4 * (probability * (1 - probability) / n) ** 0.5)


def test_a_second_draw_raises_probabilities_and_keeps_the_order(path: Path):
    """A request was drawn if either draw chose it; new requests have only the second one."""
    first = draw_to_label(path, 10, seed=1)
    before = {each.trace_id: each for each in drawn(path)}
    with SqliteStore.open(path, mode="own") as store:
        add_requests(store, 80, 20)
        add_requests(store, 100, 5, scored=False)
    second = draw_to_label(path, 10, seed=2)
    after = {each.trace_id: each for each in drawn(path)}
    assert (10, 10, 80, 3) == (first.n_new, first.n_drawn, first.n_scored, first.n_metrics)
    assert second.n_drawn == 10 + second.n_new
    assert 100 == second.n_scored == len(after)
    places = [each.position for each in after.values() if each.position is not None]
    assert list(range(second.n_drawn)) == sorted(places)
    once = draw_probabilities(_disagreements(100), 10)
    for trace_id, request in after.items():
        old = before.get(trace_id)
        assert request.probability == pytest.approx(1 - (1 - (old.probability if old else 0)) * (1 - once[trace_id]))
        if old is not None and old.position is not None:
            assert old.position == request.position


def _disagreements(n: int) -> dict[str, float]:
    """The largest difference between the scores of each request (all three metrics are from 0 to 1)."""
    found = {}
    for k in range(n):
        values = (0.1 if k % 4 == 0 else 0.9, float(bool(k % 3)), k % 7 / 7)
        found[f"t{k}"] = max(values) - min(values)
    return found


def test_a_draw_needs_scores(tmp_path: Path, path: Path):
    """And a positive number."""
    with pytest.raises(DataError, match="does not contain scores of a metric with a range"):
        draw_to_label(make_store(tmp_path / "empty.db", 3, scored=False), 5)
    with pytest.raises(ConfigurationError, match="at least 1, got 0"):
        draw_to_label(path, 0)


def test_files_of_labels(path: Path, tmp_path: Path):
    """By trace id or question, as words or numbers of any range; a second label replaces the first."""
    rows = tmp_path / "l.csv"
    rows.write_text("trace_id,question,label,author\nt1,,correct,ann\n,When does ferry 2 leave?,Partly,\nt3,,0,bob\n")
    assert 3 == add_labels(path, str(rows), author="me").n
    assert 1 == add_labels(path, [{"id": "t1", "rating": 4}], author="ann", label_range=(1, 5)).n
    with SqliteStore.open(path, mode="read") as store:
        found = {(each.trace_id, each.author): each.value for each in store.labels.read()}
    assert 1 == add_labels(path, [{"trace_id": "t5", "label": ""}, {"trace_id": "t6", "label": 1}], author="x").n
    assert {("t1", "ann"): 0.75, ("t2", "me"): 0.5, ("t3", "bob"): 0.0} == found


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"trace_id": "nope", "label": "wrong"}, "does not contain a request with the id 'nope'"),
        ({"label": "wrong"}, "needs trace_id or question"),
        ({"trace_id": "t1", "label": "maybe"}, "correct, partly, wrong or a number from 0 to 1, got 'maybe'"),
        ({"trace_id": "t1", "label": 2}, "got 2"),
        ({"question": "Which?", "label": 1}, "no request has the question 'Which[?]'"),
        ("t1", "must be an object"),
    ],
)
def test_an_invalid_row_saves_nothing(path: Path, row: object, message: str):
    """The message names the row, the rule and the value."""
    with pytest.raises(DataError, match=f"row 2: .*{message}"):
        add_labels(path, [{"trace_id": "t1", "label": "wrong"}, row], author="me")
    with SqliteStore.open(path, mode="read") as store:
        assert [] == store.labels.read()


def test_a_file_without_any_label(path: Path):
    """The file of a draw, before it is filled in."""
    with pytest.raises(DataError, match=r"does not contain labels\. Fill in the column label of at least one row"):
        add_labels(path, [{"trace_id": "t1", "label": ""}], author="me")


def test_a_question_that_two_requests_have(path: Path):
    """It names neither."""
    with SqliteStore.open(path, mode="own") as store:
        store.traces.ingest("again", 1, [])
        add_requests(store, 200, 1, bad=[""])
    rows = [{"question": "When does ferry 200 leave?", "label": 1}]
    assert 1 == add_labels(path, rows, author="me").n
    with pytest.raises(ConfigurationError, match="low < high"):
        add_labels(path, rows, author="me", label_range=(1, 1))


def label(path: Path, n: int) -> dict[str, float]:
    """Draw and label requests: people find every answer wrong that the metrics do, and every ninth other one."""
    draw_to_label(path, n, seed=3)
    requests = [each for each in drawn(path) if each.position is not None]
    values = {
        each.trace_id: float(int(each.trace_id[1:]) % 4 != 0 and int(each.trace_id[1:]) % 9 != 0) for each in requests
    }
    add_labels(path, [{"trace_id": k, "label": v} for k, v in values.items()], author="ann")
    return values


def test_the_statements_of_a_report_are_recomputed(path: Path):
    """Agreement, kappa, and the share that people find wrong, from labels, flags and probabilities."""
    values = label(path, 40)
    view = build_report(str(path))
    labels = view.labels
    assert labels is not None
    assert (40, 40, 40, ("ann",)) == (labels.n_labeled, labels.n_drawn, labels.n_drawn_labeled, labels.authors)
    probability = {each.trace_id: each.probability for each in drawn(path)}
    judged = {f"t{k}": k % 4 == 0 for k in range(80)}
    agreement, share = labels.statements
    ids = list(values)
    kappa = drawn_kappa([judged[i] for i in ids], [values[i] < 0.5 for i in ids], [probability[i] for i in ids])
    same = sum(judged[i] == (values[i] < 0.5) for i in ids)
    assert kappa.coefficient is not None
    assert (same, 40) == (agreement.numbers["n_same"], agreement.numbers["n"])
    assert f"agree on {same} of 40 labeled answers" in agreement.text
    assert kappa.coefficient.value == pytest.approx(agreement.numbers["kappa"])
    assert kappa.coefficient.low == pytest.approx(agreement.numbers["low"])
    corrected = drawn_prediction_powered_mean(
        [float(values[i] < 0.5) if i in values else None for i in judged],
        [float(flag) for flag in judged.values()],
        [probability[i] for i in judged],
    )
    assert corrected.estimate.value == pytest.approx(share.numbers["share"])
    assert corrected.estimate.high == pytest.approx(share.numbers["high"])
    assert 0.25 == share.numbers["metrics"]
    assert {"ccrs.ac", "ragas.faithfulness", "ccrs.qr"} == {row.metric for row in labels.metrics}
    assert {s.text for s in labels.statements} <= {s.text for s in view.verdict}


def test_labels_of_chosen_requests_do_not_correct_means(path: Path):
    """Only drawn requests represent all. Labels of others count in the plain agreement."""
    rows = [{"trace_id": f"t{k}", "label": "wrong"} for k in range(0, 40, 4)]
    add_labels(path, rows, author="ann")
    labels = build_report(str(path)).labels
    assert labels is not None
    assert ["Metrics and people agree on 10 of 10 labeled answers."] == [s.text for s in labels.statements]
    assert () == labels.metrics


def test_labels_say_nothing_about_requests_that_came_after_the_draw(path: Path):
    """The share and the means are those of the requests that could be drawn, and the others are counted."""
    label(path, 40)
    before = build_report(str(path)).labels
    with SqliteStore.open(path, mode="own") as store:
        add_requests(store, 80, 240)
    view = build_report(str(path))
    labels = view.labels
    assert before is not None
    assert labels is not None
    assert [each.numbers for each in before.statements] == [each.numbers for each in labels.statements]
    assert before.metrics == labels.metrics
    assert (0, 240) == (before.n_not_in_draw, labels.n_not_in_draw)
    for first, then in zip(before.statements, labels.statements, strict=True):
        named = "of the 80 answers that could be drawn (240 others could not)"
        assert first.text.replace("of all answers", named) == then.text != first.text
    assert "about those that could be drawn, without 240 others." in str(labels_section(labels))
    assert "about all requests." in str(labels_section(before))


def test_labels_count_in_their_period_and_not_in_others(path: Path):
    """The later period has other requests, and the earlier one what the store says of them."""
    label(path, 40)
    with SqliteStore.open(path, mode="own") as store:
        add_requests(store, 80, 40)
    start = 1_700_000_000.0
    assert build_report(TimeRange(path, since=start + 60 * 80)).labels is None
    first = build_report(TimeRange(path, until=start + 60 * 40)).labels
    assert first is not None
    places = [each.trace_id for each in drawn(path) if each.position is not None and int(each.trace_id[1:]) < 40]
    assert (len(places), len(places), len(places)) == (first.n_labeled, first.n_drawn, first.n_drawn_labeled)


def test_labels_of_a_run_are_in_its_report_only(tmp_path: Path):
    """A row has the same id in each run."""
    path = tmp_path / "r.db"
    rows = [
        {"id": f"t{n}", "query": f"Which color has tower {n}?", "contexts": ["It is red."], "response": "It is red."}
        for n in range(30)
    ]
    for name in ("one", "two"):
        save_run(path, name, evaluate(rows, ["ccrs.cc"], judge="lexical"), ())
        draw_to_label(path, 10, seed=1)
        drawn_now = [each for each in drawn(path) if each.position is not None and each.trace_id.startswith(name)]
        add_labels(path, [{"trace_id": each.trace_id, "label": 1} for each in drawn_now], author=name)
        labels = build_report(str(path)).labels
        assert labels is not None
        assert (len(drawn_now), len(drawn_now), (name,)) == (labels.n_labeled, labels.n_drawn_labeled, labels.authors)
        assert (2, 0) == (len(labels.statements), labels.n_not_in_draw)


def test_two_authors_count_once(path: Path):
    """The label of a request is their mean."""
    add_labels(path, [{"trace_id": "t0", "label": 1}, {"trace_id": "t1", "label": 1}], author="ann")
    add_labels(path, [{"trace_id": "t0", "label": 0}, {"trace_id": "t1", "label": 0.5}], author="bob")
    labels = build_report(str(path)).labels
    assert labels is not None
    assert (2, ("ann", "bob")) == (labels.n_labeled, labels.authors)
    assert 1 == labels.statements[0].numbers["n_same"]  # both are not wrong; t0 is judged wrong


def test_a_label_changes_the_live_page(path: Path):
    """Without a new score."""
    report = FollowedReport(TimeRange(path), targets={})
    report.refresh()
    with SqliteStore.open(path, mode="read") as store:
        store.labels.save([StoredLabel("t0", "ann", 0.0, 1.0)])
    assert report.refresh()
    assert report.view is not None
    assert report.view.labels is not None
    assert not report.refresh()


def test_reports_without_labels_say_nothing(path: Path):
    """Also if requests are drawn."""
    draw_to_label(path, 10)
    assert build_report(str(path)).labels is None
    assert "people" not in json.dumps(build_report(str(path)).to_dict()["verdict"])


def test_scores_of_one_metric_disagree_most_in_the_middle_of_its_range(tmp_path: Path):
    """Where it is least certain whether an answer is good."""
    with SqliteStore.open(tmp_path / "s.db", mode="own") as store:
        for n, value in enumerate((0.0, 0.4, 0.5, 1.0)):
            store.traces.ingest("s", n + 1, [Captured(trace=Trace(trace_id=f"t{n}", started_at=0.0, query="?"))])
            score = Score(sample_id=f"t{n}", metric="ccrs.qr", metric_version="1", value=value, method="x")
            complete(store, f"t{n}", [score])
    found = disagreements(open_source(tmp_path / "s.db").table()[0])
    assert ({"t0": 0.0, "t1": 0.8, "t2": 1.0, "t3": 0.0}, 1) == found


def test_a_question_of_several_requests_names_none(path: Path):
    """The row needs an id."""
    with SqliteStore.open(path, mode="own") as store:
        (trace,) = store.traces.get_many(["t1"]).values()
        store.traces.ingest("test", 200, [Captured(trace=trace.model_copy(update={"trace_id": "again"}))])
    with pytest.raises(DataError, match="2 requests have the question 'When does ferry 1 leave"):
        add_labels(path, [{"question": trace.query, "label": 1}], author="ann")
