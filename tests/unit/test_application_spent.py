"""Latency, tokens and cost of the application beside its quality, and the cheapest system that is not worse."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import ragstone
from command_line import run_command
from completions import complete
from ragstone.errors import ConfigurationError, DataError
from ragstone.experiments import build_report
from ragstone.experiments._runs import save_run
from ragstone.experiments._spent import spent_of
from ragstone.schema import Captured, Failure, Score, Trace, Usage
from ragstone.store import PlannedMetric, SqliteStore

T0 = 1_700_000_000.0
KNOWN = {"metric": "ccrs.qr", "metric_version": "1", "judge": "j", "judge_hash": "h"}


@pytest.fixture
def write(tmp_path: Path):
    """Write the scores of a system (None is a failure) and what its application needed for each answer."""

    def file(name, values, *, metric="ccrs.qr", **application):
        path = tmp_path / f"{name}.jsonl"
        lines = []
        for i, value in enumerate(values):
            about = KNOWN | {"sample_id": f"q{i}", "metric": metric}
            outcome = (
                Failure(kind="timeout", reason="late", **about)
                if value is None
                else Score(value=value, method="x", **about)
            )
            known = {field: by[i] for field, by in application.items() if by[i] is not None}
            lines.append(json.dumps(outcome.model_dump(mode="json") | ({"application": known} if known else {})))
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return path

    return file


def scores(shift=0.0, n=300):
    """Scores around those of the samples, which all systems share."""
    base = np.random.default_rng(1).uniform(0.4, 0.6, n)
    noise = np.random.default_rng(round(1000 * (shift + 1))).normal(0, 0.02, n)
    return (base + shift + noise).tolist()


def spread(middle, n=300):
    """Numbers around a middle, of which every fourth is unknown."""
    around = np.random.default_rng(round(middle)).uniform(0.8, 1.2, n) * middle
    return [None if i % 4 == 3 else round(float(value), 3) for i, value in enumerate(around)]


def traces(n=12):
    """Calls of an application: the first failed, the second has no usage, the third reported one of both numbers."""
    usages = [Usage(input_tokens=100 * i, output_tokens=10, calls=1, cost_usd=0.5 * i) for i in range(n)]
    usages[2] = Usage(output_tokens=10, calls=1)
    return tuple(
        Trace(
            trace_id=f"q{i}",
            started_at=T0,
            ended_at=T0 + 1 + i,
            query=f"Why {i}?",
            response="Rain.",
            contexts=[{"text": "Rain."}],
            status="error" if i == 0 else "ok",
            usage=None if i == 1 else usages[i],
        )
        for i in range(n)
    )


def numbers(rows):
    """Medians, numbers of answers of which they are known, totals and numbers of samples."""
    return {r.name: (r.estimate and (r.estimate.value, r.estimate.n), r.total, r.n) for r in rows}


def test_an_experiment_its_file_and_a_store_say_the_same(tmp_path: Path) -> None:
    """What is unknown is counted, and is neither 0 in a median nor in a sum: failed calls, no usage, half of a usage."""
    calls = traces()
    rows = [{"id": t.trace_id, "query": t.query, "contexts": ["Rain."], "response": "Rain."} for t in calls]
    experiment = replace(ragstone.evaluate(rows, ["ccrs.qr"], judge="lexical"), traces=calls)
    experiment.to_jsonl(tmp_path / "file.jsonl")
    with SqliteStore.open(tmp_path / "store.db", mode="own") as store:
        first = experiment.outcomes[0]
        planned = PlannedMetric(name=first.metric, version=first.metric_version, judge_hash=first.judge_hash)
        store.plan.set([planned], [])
        for number, (call, outcome) in enumerate(zip(calls, experiment.outcomes, strict=True)):
            store.traces.ingest("test", number + 1, [Captured(trace=call)])
            complete(store, call.trace_id, [outcome])

    expected = {
        "latency_s": ((7.0, 11), None, 12),
        "tokens": ((710.0, 9), 9 * 10 + 100 * sum(range(3, 12)), 12),
        "cost_usd": ((3.25, 10), 0.5 * sum(range(3, 12)), 12),
    }
    views = [build_report(each) for each in (experiment, tmp_path / "file.jsonl", tmp_path / "store.db")]
    assert [expected] * 3 == [numbers(view.spent) for view in views]
    compared = ragstone.compare({"memory": experiment, "file": tmp_path / "file.jsonl"})
    assert [expected] * 2 == [numbers(rows) for rows in compared.spent.values()]
    assert () == build_report(replace(experiment, traces=())).spent


def test_repeats_count_once_per_sample() -> None:
    """Its latency is the mean of the calls that answered. Tokens and cost are unknown if those of a call are."""
    calls = traces(4)
    rows = [{"id": f"q{i}", "query": "Why?", "contexts": ["Rain."], "response": "Rain."} for i in range(2)]
    experiment = replace(ragstone.evaluate(rows, ["ccrs.qr"], judge="lexical"), traces=calls, n_repeats=2)
    (seconds, tokens, cost) = experiment.report().spent
    # Of the first sample the call of 2 s answered, of the second those of 3 and 4 s.
    assert (2.75, 2) == (seconds.estimate.value, seconds.estimate.n)
    assert (None, None, 2) == (tokens.estimate, tokens.total, tokens.n)  # the calls q0 to q2 do not say them
    assert (None, None) == (cost.estimate, cost.total)


def test_tokens_in_all_are_those_of_all_calls(tmp_path: Path) -> None:
    """Of three repeats, in memory and from a file. A store keeps the first call of each sample, so they are unknown."""
    rows = [{"id": f"q{i}", "query": f"Why {i}?", "contexts": ["Rain."]} for i in range(2)]
    result = ragstone.evaluate(rows, ["ccrs.qr"], judge="lexical", app=lambda _: "Rain.", repeats=3)
    usage = Usage(input_tokens=90, output_tokens=10, calls=1, cost_usd=0.5)
    calls = tuple(call.model_copy(update={"usage": usage}) for call in result.traces)
    result = replace(result, traces=calls)
    result.to_jsonl(tmp_path / "file.jsonl")
    save_run(tmp_path / "runs.db", "one", result, result.traces)
    for source, total in ((result, 600), (tmp_path / "file.jsonl", 600), (tmp_path / "runs.db", None)):
        _, tokens, cost = build_report(source).spent
        assert (100.0, 2, total) == (tokens.estimate.value, tokens.estimate.n, tokens.total)
        assert (0.5, 2, total and 3.0) == (cost.estimate.value, cost.estimate.n, cost.total)
    unknown = replace(result, traces=(*calls[:5], calls[5].model_copy(update={"usage": None})))
    _, tokens, _ = build_report(unknown).spent
    assert (100.0, 1, 300, 2) == (tokens.estimate.value, tokens.estimate.n, tokens.total, tokens.n)


@pytest.mark.parametrize(
    ("stated", "words"),
    [
        ({"latency_s": -1}, r"application\.latency_s is -1"),
        ({"tokens": "many"}, r"application\.tokens is 'many'"),
        ({"cost_usd": True}, r"application\.cost_usd is True"),
        ("fast", "application is 'fast'. It must be a finite number of at least 0"),
    ],
)
def test_invalid_numbers_in_a_file_are_named(tmp_path: Path, stated, words) -> None:
    """With the line and the rule."""
    line = Score(sample_id="q", value=0.5, method="x", **KNOWN).model_dump(mode="json") | {"application": stated}
    path = tmp_path / "o.jsonl"
    path.write_text(json.dumps(line) + "\n", encoding="utf-8")
    with pytest.raises(DataError, match=f"line 1 of .*{words}"):
        build_report(path)


def test_few_answers_do_not_limit_a_median(write) -> None:
    """What an answer needs is never negative. Three answers do not say how much it may be."""
    latency, *_ = build_report(write("a", [0.4, 0.5, 0.6], latency_s=[1.0, 2.0, 3.0])).spent
    assert (2.0, 0.0, math.inf) == (latency.estimate.value, latency.estimate.low, latency.estimate.high)


def test_the_cheapest_that_is_not_worse(write) -> None:
    """The cheap system loses less than the margin, the cheapest one more."""
    systems = [
        write("large", scores(), cost_usd=spread(9), latency_s=spread(3)),
        write("small", scores(-0.01), cost_usd=spread(2), latency_s=spread(4)),
        write("tiny", scores(-0.2), cost_usd=spread(1), latency_s=spread(1)),
    ]
    cheapest, fastest = ragstone.compare(systems, margin=0.05).cheapest
    assert cheapest.startswith("cheapest that is not worse: small, cost ")
    assert "(225 of 300 known, at least 4" in cheapest
    assert (
        "a loss of 5 points on ccrs.qr against the best system is excluded (non-inferiority test, one-sided 95% bo"
        in cheapest
    )
    assert cheapest.endswith("; it needs less than large (on 225 of 225 samples, sign test, p < 0.0001)")
    assert fastest.startswith("fastest that is not worse: large, latency ")
    assert "tiny" not in cheapest + fastest

    # With the margin of the smallest difference of interest, too, and only with it.
    assert (cheapest, fastest) == ragstone.compare(systems, min_effect=0.05).cheapest
    # A loss that the gate does not exclude is not excluded here.
    (best, _) = ragstone.compare(systems, margin={"ccrs.qr": 0.001}).cheapest
    assert best.startswith("cheapest that is not worse: large")
    assert "needs less" not in best


def test_no_margin_is_assumed(write) -> None:
    """The sentence says so, and how to name one. Without any known number, there is no sentence."""
    systems = [write("a", scores(), tokens=spread(9)), write("b", scores(-0.01), tokens=spread(2))]
    found = ragstone.compare(systems)
    (text,) = found.cheapest
    assert text.startswith("cheapest that is not worse: not stated, because no margin is named for ccrs.qr. Name the")
    assert text in str(found)
    assert [text] == found.to_dict()["cheapest"]
    assert () == ragstone.compare([write("c", scores()), write("d", scores(-0.01))], margin=0.05).cheapest
    with pytest.raises(ConfigurationError, match="margin must be below the range of ccrs"):
        _ = ragstone.compare(systems, margin=1.0).cheapest


def test_unknown_costs_are_not_the_lowest(write) -> None:
    """A system of which nothing is known is named, and never the cheapest."""
    systems = [write("a", scores(), tokens=spread(9)), write("b", scores(-0.01)), write("c", scores(-0.3))]
    (text,) = ragstone.compare(systems, margin=0.05).cheapest
    assert text.startswith("cheapest that is not worse: a, tokens ")
    assert text.endswith("; not considered, because it is unknown: b")


def test_failed_samples_can_hide_a_loss(write) -> None:
    """A third of the scores of the cheap system failed: it is not shown to be not worse."""
    values = [None if i % 3 == 0 else value for i, value in enumerate(scores(-0.03))]
    systems = [write("a", scores(), tokens=spread(9)), write("b", values, tokens=spread(2))]
    found = ragstone.compare(systems, margin=0.05)
    assert all(mean.estimate for mean in found.metrics[0].systems)
    assert found.metrics[0].pairs[0].low > -0.05
    assert found.cheapest[0].startswith("cheapest that is not worse: a, ")


def test_a_lower_median_beside_more_on_most_samples_is_not_shown_to_be_less(write) -> None:
    """Most answers cost a little more, and a few of the expensive ones nothing."""
    old = [float(i) for i in range(41)]
    new = [cost + 0.01 if cost < 36 else 0.0 for cost in old]
    systems = [write("old", scores(n=41), cost_usd=old), write("new", scores(n=41), cost_usd=new)]
    (text,) = ragstone.compare(systems, margin=0.1).cheapest
    assert text.startswith("cheapest that is not worse: new, ")
    assert text.endswith("; it is not shown to need less than old (on 5 of 41 samples, sign test, p < 0.0001)")


def test_needing_less_is_tested(write) -> None:
    """Costs that are often equal, and those that are lower on slightly more than half of the samples."""
    n = 300
    one = [float(1 + i % 3) for i in range(n)]
    less = [cost - (i % 3 == 1) * 0.5 for i, cost in enumerate(one)]
    even = [cost + (0.5 if i % 100 < 47 else -0.5) for i, cost in enumerate(one)]
    large, small, other = (write(f"s{i}", scores(), tokens=costs) for i, costs in enumerate((one, less, even)))
    (text,) = ragstone.compare([large, small], margin=0.05).cheapest
    assert text.endswith("; it needs less than s0 (on 100 of 300 samples, sign test, p < 0.0001)")
    (text,) = ragstone.compare([large, other], margin=0.05).cheapest
    first, second = ("s2", "s0") if "worse: s2," in text else ("s0", "s2")
    n_less = 159 if first == "s2" else 141
    assert text.startswith(f"cheapest that is not worse: {first}, ")
    assert f"; it is not shown to need less than {second} (on {n_less} of 300 samples, sign test, p = 0." in text


def test_a_latency_is_not_a_cost(write) -> None:
    """A system of which the latency alone is known is not the cheapest."""
    systems = [
        write("a", scores(), cost_usd=spread(9), latency_s=spread(3)),
        write("b", scores(-0.01), latency_s=[0.001] * 300),
    ]
    cheapest, fastest = ragstone.compare(systems, margin=0.05).cheapest
    assert cheapest.startswith("cheapest that is not worse: a, ")
    assert cheapest.endswith("; not considered, because it is unknown: b")
    assert fastest.startswith("fastest that is not worse: b, ")


def test_nothing_shown_is_said(write, tmp_path: Path) -> None:
    """Each system is far below the best of one of two metrics."""
    systems = []
    for name, shift in (("a", 0.0), ("b", -0.3)):
        one = write(f"{name}1", scores(shift), tokens=spread(9 + shift))
        two = write(f"{name}2", scores(-0.3 - shift), metric="ccrs.cc", tokens=spread(9 + shift))
        path = tmp_path / f"{name}.jsonl"
        path.write_text(one.read_text() + two.read_text())
        systems.append(path)
    (text,) = ragstone.compare(systems, margin=0.05).cheapest
    assert text.startswith("cheapest that is not worse: none is shown. For no system, a loss of 5 points on ccrs.")


def test_lower_can_be_better(write) -> None:
    """A loss on a metric of errors is a higher score."""
    metric = "ragchecker.hallucination"
    systems = [
        write("a", scores(), metric=metric, tokens=spread(9)),
        write("b", scores(-0.01), metric=metric, tokens=spread(20)),
        write("c", scores(0.2), metric=metric, tokens=spread(1)),
    ]
    (text,) = ragstone.compare(systems, margin=0.05).cheapest
    assert text.startswith("cheapest that is not worse: a, ")
    assert "needs less than b" in text


@pytest.mark.parametrize("ending", ["html", "md", "tex"])
def test_files_and_commands_show_both(write, tmp_path: Path, ending) -> None:
    """The page, the summary, the tables for LaTeX, the text and the JSON of the command have the numbers and the sentence."""
    systems = [
        str(write("large", scores(), cost_usd=spread(9))),
        str(write("small", scores(-0.01), cost_usd=spread(2), latency_s=[math.pi] * 300)),
    ]
    path = tmp_path / f"c.{ending}"
    done = run_command("compare", *systems, "--set", "analysis.min_effect=0.05", "-o", path)
    assert 0 == done.returncode
    written = path.read_text(encoding="utf-8").replace("\\", "")
    for text in (done.stdout, written):
        assert "heapest that is not worse: small, cost " in text
        assert "225 of 300 known" in text
        assert "3.14 s" in text
    report = tmp_path / f"r.{ending}"
    if ending != "tex":
        build_report(systems[1], report)
        assert "3.14 s [3.14, 3.14]" in report.read_text(encoding="utf-8").replace("\\", "")


def test_the_gate_does_not_contradict_the_sentence(write) -> None:
    """Both bounds are of the same kind, and that of the sentence is not above that of the gate."""
    systems = [write("large", scores(), tokens=spread(9)), write("small", scores(-0.01), tokens=spread(2))]
    for margin in (0.015, 0.02, 0.025, 0.03, 0.035, 0.04, 0.05, 0.1):
        found = ragstone.compare(systems, margin=margin)
        assert found.check_regression(margin=margin).ok or "worse: large" in found.cheapest[0]
    assert "worse: small" in found.cheapest[0]


def test_equal_scores_are_not_worse(write) -> None:
    """No sample differs: the bound follows from the number of samples."""
    same = scores(n=300)
    systems = [write("large", same, tokens=spread(9)), write("small", same, tokens=spread(2))]
    assert "worse: small" in ragstone.compare(systems, margin=0.03).cheapest[0]
    assert "worse: large" in ragstone.compare(systems, margin=0.005).cheapest[0]
    # 1 - 0.05^(1/300) = 0.0099 for one pair, and 1 - 0.025^(1/300) = 0.0122 for the two directions.
    assert "worse: large" in ragstone.compare(systems, margin=0.0115).cheapest[0]
    assert "worse: small" in ragstone.compare(systems, margin=0.0125).cheapest[0]


def test_only_the_primary_metric_decides(write, tmp_path: Path) -> None:
    """The others are exploratory, and need no margin."""
    systems = []
    for name, shift in (("a", 0.0), ("b", -0.3)):
        one = write(f"{name}1", scores(), tokens=spread(9 + 10 * shift))
        two = write(f"{name}2", scores(shift), metric="ccrs.cc")
        path = tmp_path / f"{name}.jsonl"
        path.write_text(one.read_text() + two.read_text())
        systems.append(path)
    assert "worse: a, " in ragstone.compare(systems, margin=0.05).cheapest[0]
    (text,) = ragstone.compare(systems, margin={"ccrs.qr": 0.05}, primary="ccrs.qr").cheapest
    assert "worse: b, " in text
    assert "ccrs.cc" not in text


def test_medians_have_the_level_of_the_comparison(write) -> None:
    """80% intervals are shorter than 95% intervals."""
    systems = [write(name, scores(n=60), tokens=spread(9, n=60)) for name in "ab"]
    usual, short = (ragstone.compare(systems, confidence_level=level).spent["a"][1].estimate for level in (0.95, 0.8))
    assert (0.95, 0.8) == (usual.confidence_level, short.confidence_level)
    assert short.high - short.low < usual.high - usual.low


@pytest.mark.parametrize(
    ("ended_at", "status", "latency"),
    [(T0 + 2, "ok", 2.0), (T0, "ok", 0.0), (T0 - 1, "ok", None), (T0 + 2, "error", None), (None, "ok", None)],
)
def test_a_latency_is_known_if_the_answer_came_and_the_clock_went_on(ended_at, status, latency) -> None:
    """A clock that was put back during a call gives no time."""
    trace = traces()[3].model_copy(update={"ended_at": ended_at, "status": status})
    assert latency == spent_of([trace]).latency_s


def test_costs_decide_before_tokens(write) -> None:
    """Tokens decide only if no cost is known."""
    cheap = write("cheap", scores(), cost_usd=spread(2), tokens=spread(9))
    short = write("short", scores(0.001), cost_usd=spread(9), tokens=spread(2))
    (text,) = ragstone.compare([cheap, short], margin=0.05).cheapest
    assert text.startswith("cheapest that is not worse: cheap, cost ")


def test_medians_are_weighted(write) -> None:
    """A third of the answers stands for most requests."""
    path = write("a", scores(n=90), tokens=[float(100 * (i % 3 + 1)) for i in range(90)])
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    lines = [line | {"inclusion_probability": 0.1 if i % 3 == 0 else 1.0} for i, line in enumerate(lines)]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    (tokens,) = [row for row in build_report(path).spent if row.name == "tokens"]
    assert 100 == tokens.estimate.value
