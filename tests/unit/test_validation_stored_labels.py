"""`validate_metrics` on a store with labels: agreement and means are weighted as the requests were drawn."""

from __future__ import annotations

from pathlib import Path

import pytest

from completions import complete
from live_store import add_requests, make_store
from ragstone.experiments import TimeRange, add_labels, draw_to_label
from ragstone.schema import Score
from ragstone.stats import drawn_kappa, drawn_prediction_powered_mean, hajek_mean
from ragstone.store import SqliteStore, open_store
from ragstone_lab import validate_metrics


def labeled_store(path: Path, *, others: bool = False) -> Path:
    """A store with 60 scored requests, of which the drawn ones (and others, if asked for) are labeled."""
    return label_drawn(make_store(path, 60), others=others)


def label_drawn(path: Path, *, others: bool = False) -> Path:
    """Draw requests of a store of 60, and label them (and others, if asked for)."""
    draw_to_label(path, 24, seed=1)
    with open_store(path, mode="read") as store:
        drawn = [each.trace_id for each in store.labels.drawn() if each.position is not None]
    chosen = [f"t{k}" for k in range(60)] if others else drawn
    add_labels(path, [{"trace_id": id_, "label": int(id_[1:]) % 4 != 0} for id_ in chosen], author="ann")
    return path


def test_labels_of_a_store_are_read(tmp_path: Path) -> None:
    """Kappa and mean are those of the statistics for drawn requests, over the metrics that rate answers."""
    path = labeled_store(tmp_path / "s.db")
    with open_store(path, mode="read") as store:
        draws = {each.trace_id: each.probability for each in store.labels.drawn() if each.position is not None}
        scores = {o.sample_id: o.value for o in store.outcomes.read(metric="ccrs.ac") if o.outcome == "score"}
    ids = [id_ for id_ in draws if id_ in scores]
    human = {id_: float(int(id_[1:]) % 4 != 0) for id_ in ids}
    report = validate_metrics(path)
    (found,) = [each for each in report.labels if each.metric == "ccrs.ac"]
    assert found.n == len(ids)
    kappa = drawn_kappa(
        [scores[id_] < 0.5 for id_ in ids], [human[id_] < 0.5 for id_ in ids], [draws[id_] for id_ in ids]
    )
    assert found.cohen is not None
    assert found.cohen.coefficient == pytest.approx(kappa.coefficient)
    assert found.exact is not None
    assert found.exact.value == pytest.approx(kappa.observed)
    mean = drawn_prediction_powered_mean(
        [human.get(id_) for id_ in scores], list(scores.values()), [draws.get(id_, 1.0) for id_ in scores]
    )
    assert found.human_mean is not None
    assert found.human_mean.estimate == pytest.approx(mean.estimate)
    differences = [scores[id_] - human[id_] for id_ in ids]
    assert found.bias == pytest.approx(hajek_mean(differences, [draws[id_] for id_ in ids], low=-1.0))
    assert found.coefficient[0] == "kappa"
    assert "weighted as they were drawn" in str(report)
    assert "a random sample" not in str(report)


def test_labels_of_a_metric_with_negative_scores(tmp_path: Path) -> None:
    """The label of a wrong answer is the lowest one, whatever the range of the metric."""
    name = "vera.answer_relevance_cosine"
    path = make_store(tmp_path / "s.db", 60, scored=False)
    with SqliteStore.open(path, mode="own") as store:
        for k in range(60):
            value = 0.1 if k % 4 == 0 else 0.9
            complete(
                store,
                f"t{k}",
                [Score(sample_id=f"t{k}", metric=name, metric_version="1", value=value, method="cosine")],
            )
    label_drawn(path)
    (found,) = validate_metrics(path).labels
    assert ((0.0, 1.0), (-1.0, 1.0)) == (found.label_range, found.categories)


def test_requests_after_the_draw_are_not_in_the_weighted_numbers(tmp_path: Path) -> None:
    """They could not be drawn, so labels say nothing about them."""
    path = labeled_store(tmp_path / "s.db")
    before = {each.metric: each for each in validate_metrics(path).labels}["ccrs.ac"]
    with SqliteStore.open(path, mode="own") as store:
        add_requests(store, 60, 180)
    report = validate_metrics(path)
    after = {each.metric: each for each in report.labels}["ccrs.ac"]
    assert (before.human_mean, before.cohen, before.exact) == (after.human_mean, after.cohen, after.exact)
    assert "180 requests could not be drawn" in str(report)


def test_labels_of_other_requests_do_not_enter_the_weighted_numbers(tmp_path: Path) -> None:
    """Labels of requests that were not drawn count in the numbers without weights only."""
    drawn = {each.metric: each for each in validate_metrics(labeled_store(tmp_path / "a.db")).labels}
    both = {each.metric: each for each in validate_metrics(labeled_store(tmp_path / "b.db", others=True)).labels}
    assert drawn["ccrs.ac"].cohen == both["ccrs.ac"].cohen
    assert drawn["ccrs.ac"].human_mean == both["ccrs.ac"].human_mean
    assert drawn["ccrs.ac"].bias == both["ccrs.ac"].bias
    assert both["ccrs.ac"].n == 60 > drawn["ccrs.ac"].n
    assert any("were not drawn" in note for note in both["ccrs.ac"].notes)


def test_a_period_uses_its_own_labels(tmp_path: Path) -> None:
    """Labels of requests outside of the period are not counted as unknown."""
    path = labeled_store(tmp_path / "s.db")
    with open_store(path, mode="read") as store:
        times = sorted(trace.started_at for trace in store.traces.read())
    report = validate_metrics(TimeRange(path, since=times[30]))
    whole = validate_metrics(path)
    assert 0 < report.labels[0].n < whole.labels[0].n
    assert report.labels[0].n_unknown == 0


def test_given_labels_replace_those_of_the_store(tmp_path: Path) -> None:
    """A file of labels is compared as before."""
    path = labeled_store(tmp_path / "s.db")
    rows = [{"id": f"t{k}", "label": k % 2} for k in range(20)]
    found = validate_metrics(path, labels=rows).labels
    assert {each.n for each in found if each.metric == "ccrs.ac"} == {20}


def test_a_store_without_labels(tmp_path: Path) -> None:
    """Nothing is said about people."""
    make_store(tmp_path / "s.db", 10)
    assert validate_metrics(tmp_path / "s.db").labels == ()
