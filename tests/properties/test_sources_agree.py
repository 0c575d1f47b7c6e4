"""The same outcomes give the same numbers, causes and comparisons, wherever they are read from."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import ragstone
from completions import complete
from ragstone.experiments import TimeRange, build_report
from ragstone.metrics import MetricBase
from ragstone.schema import Captured, Trace
from ragstone.store import PlannedMetric, SqliteStore

T0 = 1_700_000_000.0
METRICS = ("ccrs.ac", "ccrs.cc", "ragas.faithfulness")
ANSWERS = (
    "It leaves at nine.",
    "I don't know.",
    "Birds fly south in winter.",
    "",
    "It leaves at nine. It costs two crowns.",
)


class Length(MetricBase):
    """Share of the longest allowed answer. Less is better, and this installation does not know the metric by name."""

    name, needs, direction, high = "acme.length", ("response",), "lower", 50.0

    async def compute(self, sample, judge):
        """Count the characters."""
        return self.make_score(sample, min(50.0, float(len(sample.response))), method="exact")


def rows_of(answers, topics):
    """Rows of a dataset with these answers."""
    return [
        {
            "id": f"q{i}",
            "query": f"When does ferry {i} leave?",
            "contexts": ["The ferry leaves at nine."] if topic else ["Rivers are wet."],
            "response": answer,
            "reference": ["It leaves at nine."],
            "session_id": f"s{i // 2}",
        }
        for i, (answer, topic) in enumerate(zip(answers, topics, strict=True))
    ]


def make_store(path: Path, experiment, rows) -> Path:
    """Make a store of the same requests and outcomes."""
    with SqliteStore.open(path, mode="own") as store:
        planned = {
            o.metric: PlannedMetric(name=o.metric, version=o.metric_version, judge_hash=o.judge_hash)
            for o in experiment.outcomes
        }
        store.plan.set([*planned.values()], [])
        for number, row in enumerate(rows):
            known = {key: row[key] for key in ("query", "response", "session_id")}
            trace = Trace(
                trace_id=row["id"],
                started_at=T0 + number,
                contexts=[{"text": text} for text in row["contexts"]],
                reference=tuple(row["reference"]),
                **known,
            )
            store.traces.ingest("test", number + 1, [Captured(trace=trace)])
            complete(store, row["id"], [o for o in experiment.outcomes if o.sample_id == row["id"]])
    return path


def numbers_of(view):
    """Means, intervals, counts and directions of a report, by metric."""
    return {
        row.name: (
            row.estimate,
            row.n_scored,
            row.n_failed,
            row.n_not_applicable,
            row.lower_is_better,
            row.low,
            row.high,
        )
        for row in view.metrics
    }


def causes_of(view):
    """The causes of a report, with their answers."""
    return {row.cause: sorted(row.sample_ids) for row in view.causes}


answers = st.lists(
    st.tuples(st.sampled_from(ANSWERS), st.booleans(), st.sampled_from(ANSWERS)), min_size=6, max_size=12
)


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(answers)
def test_all_sources_agree(tmp_path_factory, drawn):
    """An experiment, its file with and without the rows, a store and a period of it, and the store without its texts."""
    folder = tmp_path_factory.mktemp("sources")
    old, topics, new = zip(*drawn, strict=True)
    systems = {}
    for name, texts in (("old", old), ("new", new)):
        rows = rows_of(texts, topics)
        experiment = ragstone.evaluate(rows, [*METRICS, Length()], judge="lexical")
        file = folder / f"{name}.jsonl"
        experiment.to_jsonl(file)
        store = make_store(folder / f"{name}.db", experiment, rows)
        without = make_store(folder / f"{name}-without.db", experiment, rows)
        with SqliteStore.open(without, mode="own") as opened:
            assert len(rows) == opened.upkeep.remove_texts(before=T0 + 1000)
        systems[name] = {
            "experiment": experiment,
            "file": file,
            "store": store,
            "period": TimeRange(store, since=T0, until=T0 + 1000),
            "without texts": without,
        }
        first = experiment.report()
        for kind, source in systems[name].items():
            view = build_report(source)
            assert numbers_of(first) == numbers_of(view), kind
            found = causes_of(view)
            # Without texts, a cause is the same one or unexplained.
            same, unexplained = causes_of(first), set(found.get("unexplained", []))
            for cause, ids in found.items():
                assert cause == "unexplained" or set(ids) <= set(same.get(cause, ())), (kind, cause)
            for cause, ids in same.items():
                assert set(ids) <= set(found.get(cause, ())) | unexplained, (kind, cause)
        assert causes_of(first) == causes_of(build_report(file, samples=experiment.samples))
        assert causes_of(first) == causes_of(build_report(store))
    results = [
        ragstone.compare({name: systems[name][kind] for name in ("old", "new")}, n_permutations=200, paired=True)
        for kind in ("experiment", "file", "store", "period", "without texts")
    ]
    assert all(results[0].metrics == other.metrics for other in results[1:])
    assert {False} == {metric.higher_is_better for metric in results[0].metrics if metric.metric == Length.name}


@pytest.mark.parametrize("kind", ["experiment", "file", "store"])
def test_less_is_better_in_every_source(tmp_path, kind):
    """The system with the shorter answers is better on the caller's own metric, also where only its outcomes are known."""
    systems = {}
    for name, answer in (("short", "Nine."), ("long", "The ferry leaves at nine in the morning.")):
        rows = rows_of([answer] * 12, [True] * 12)
        experiment = ragstone.evaluate([row | {"session_id": None} for row in rows], [Length()], judge="lexical")
        file = tmp_path / f"{name}.jsonl"
        experiment.to_jsonl(file)
        systems[name] = {
            "experiment": experiment,
            "file": file,
            "store": make_store(tmp_path / f"{name}.db", experiment, rows),
        }[kind]
    result = ragstone.compare(systems, cluster="none")
    (metric,) = result.metrics
    assert "short" == metric.pairs[0].better
    assert "lower is better" in result.verdict[0]
    assert (0.0, 50.0) == (metric.low, metric.high)
    gate = result.check_regression(baseline="short")
    assert not gate.ok
