"""What `compare` takes: experiments, files, stores; matched by id, on one scale."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import numpy as np
import pytest

import ragstone
from completions import complete
from ragstone.errors import ConfigurationError, DataError
from ragstone.schema import Captured, Failure, NotApplicable, Outcome, Score, Trace
from ragstone.sinks import Delivery, JsonlSink
from ragstone.store import PlannedMetric, SqliteStore


def outcomes(
    values: list[float],
    *,
    metric: str = "ccrs.qr",
    prefix: str = "q",
    judge: str = "j",
    judge_hash: str = "h",
    **rest: str,
) -> list[Outcome]:
    """Scores of samples q0, q1, ..."""
    common = {"metric": metric, "metric_version": "1", "judge": judge, "judge_hash": judge_hash, "method": "x"} | rest
    return [Score(sample_id=f"{prefix}{i}", value=value, **common) for i, value in enumerate(values)]


def write(path: Path, found: list[Outcome]) -> Path:
    """Write outcomes as `evaluate --output` does."""
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(outcome.model_dump_json() + "\n" for outcome in found), encoding="utf-8")
    return path


def test_files_are_named_by_what_tells_them_apart(tmp_path: Path) -> None:
    """The stem, or as many folders before it as it takes; the same file twice by its place."""
    paths = [tmp_path / p for p in ("one/scores.jsonl", "two/scores.jsonl", "two/größe.jsonl")]
    for path in paths:
        write(path, outcomes([0.5] * 6))

    assert ("one/scores", "two/scores", "größe") == ragstone.compare(paths).systems
    assert (f"{paths[0]} (1)", f"{paths[0]} (2)") == ragstone.compare([paths[0], paths[0]]).systems
    assert ("B", "A") == ragstone.compare({"B": paths[0], "A": paths[1]}).systems


def test_experiments_are_named_by_letters(tmp_path: Path) -> None:
    """A letter that a file already has is skipped."""
    rows = [{"id": f"q{i}", "query": "Why?", "contexts": ["Rain."], "response": "Rain."} for i in range(6)]
    result = ragstone.evaluate(rows, ["ccrs.qr"], judge="lexical")
    file = tmp_path / "A.jsonl"
    result.to_jsonl(file)
    assert ("B", "A", "C") == ragstone.compare([result, file, result]).systems


def test_a_file_that_an_editor_marked_as_utf_8_is_read(tmp_path: Path) -> None:
    """Some editors put a byte order mark in front."""
    plain = write(tmp_path / "plain.jsonl", outcomes([0.5, 0.6]))
    (tmp_path / "marked.jsonl").write_text(plain.read_text(encoding="utf-8"), encoding="utf-8-sig")
    assert 2 == ragstone.compare([plain, tmp_path / "marked.jsonl"]).n_common


def test_lines_nested_too_deep_are_no_outcomes(tmp_path: Path) -> None:
    """Python's own reader gives up on them in a way of its own."""
    plain = write(tmp_path / "plain.jsonl", outcomes([0.5, 0.6]))
    deep = tmp_path / "deep.jsonl"
    deep.write_text("[" * 100_000 + "\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"line 1 of .*deep\.jsonl' is not an outcome"):
        ragstone.compare([plain, deep])


@pytest.mark.parametrize("value", [5.0, -1e99, 1.001])
def test_values_that_a_metric_cannot_have_are_refused(tmp_path: Path, value: float) -> None:
    """They are of another metric, or of another scale: taken to the end of the range they would be made up."""
    plain = write(tmp_path / "plain.jsonl", outcomes([0.5, 0.6]))
    odd = write(tmp_path / "odd.jsonl", outcomes([0.5, value]))
    with pytest.raises(
        DataError, match=r"'odd' has the value .* of 'ccrs\.qr' for 'q1', outside of the range from 0 to 1"
    ):
        ragstone.compare([plain, odd])


@pytest.mark.parametrize("value", [1.7e308, -2e100])
def test_values_that_nothing_can_be_computed_with_are_refused(tmp_path: Path, value: float) -> None:
    """Even of a metric without bounds: sums and squares of them are infinite."""
    files = [write(tmp_path / f"{name}.jsonl", outcomes([0.5, value], metric="mine")) for name in "ab"]
    with pytest.raises(DataError, match=r"of 'mine' for 'q1'. Values must not exceed 1e\+100"):
        ragstone.compare(files)


def test_values_beyond_the_range_by_rounding_are_taken_to_its_end(tmp_path: Path) -> None:
    """Scorers let them pass."""
    plain = write(tmp_path / "plain.jsonl", outcomes([1.0, 0.0]))
    rounded = write(tmp_path / "rounded.jsonl", outcomes([1 + 1e-12, -1e-12]))
    assert (1.0, 0.0) == tuple(ragstone.compare([plain, rounded]).scores.metrics["ccrs.qr"].values[:, 1])


@pytest.mark.parametrize("bounds", [[5, 7], [-2, -1], [0.9, 0.1], [float("-inf"), float("inf")], ["0", "1"], 3])
def test_bounds_that_cannot_be_are_none(tmp_path: Path, bounds: object) -> None:
    """What a failed sample may have had lies in the metric's range, whatever the file says."""
    plain = write(tmp_path / "plain.jsonl", outcomes([0.5, 0.6]))
    line = {"outcome": "failure", "sample_id": "q1", "metric": "ccrs.qr", "metric_version": "1", "kind": "timeout"}
    odd = write(tmp_path / "odd.jsonl", outcomes([0.5]))
    with odd.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line | {"reason": "late", "details": {"bounds": bounds}}) + "\n")
    assert {(0.0, 1.0)} >= set(ragstone.compare([plain, odd]).scores.metrics["ccrs.qr"].ends.values())


def test_a_file_of_the_jsonl_sink_is_read(tmp_path: Path) -> None:
    """Its lines have all keys, and call the sample a trace."""
    found = outcomes([0.1, 0.2, 0.3])
    about = {"metric": "ccrs.qr", "metric_version": "1", "judge": "j", "judge_hash": "h"}
    found.append(Failure(sample_id="failed", kind="timeout", reason="late", **about))
    found.append(NotApplicable(sample_id="none", reason="no passages", **about))

    async def deliver() -> None:
        sink = JsonlSink(tmp_path / "sink.jsonl")
        await sink.write([Delivery(outcome=o, trace_id=o.sample_id) for o in found])

    asyncio.run(deliver())
    plain = write(tmp_path / "plain.jsonl", found)
    result = ragstone.compare([tmp_path / "sink.jsonl", plain])
    assert (5, 3, 0.0) == (result.n_common, result.metrics[0].pairs[0].n_equal, result.metrics[0].pairs[0].difference)
    assert [(3, 1, 1)] * 2 == [
        (each.n_scored, each.n_failed, each.n_not_applicable) for each in result.metrics[0].systems
    ]


def test_a_store_is_read_and_its_samples_are_its_traces(tmp_path: Path) -> None:
    """Traces have ids of their own: two stores without common ones are compared as different traffic."""
    for name, shared in (("one", "one"), ("two", "two"), ("again", "one")):
        with SqliteStore.open(tmp_path / f"{name}.db", mode="own") as store:
            store.plan.set([PlannedMetric(name="ccrs.qr", version="1", judge_hash="h")], [])
            ids = [f"{shared}{i}" for i in range(3)]
            store.traces.ingest("a", 3, [Captured(trace=Trace(trace_id=id_, started_at=0.0)) for id_ in ids])
            for outcome in outcomes([0.5] * 3, prefix=shared):
                complete(store, outcome.sample_id, [outcome])
    assert 3 == ragstone.compare([tmp_path / "one.db", tmp_path / "again.db"]).metrics[0].pairs[0].n_equal
    with pytest.raises(DataError, match="'one' does not share samples with the others \\(its ids: 'one0', 'one1'"):
        ragstone.compare([tmp_path / "one.db", tmp_path / "two.db"], paired=True)
    assert not ragstone.compare([tmp_path / "one.db", tmp_path / "two.db"]).paired


def test_overlaps_are_reported(tmp_path: Path) -> None:
    """Each pair is over what it shares, and what only one system has is counted, with examples."""
    a = write(tmp_path / "a.jsonl", outcomes([0.2] * 20))
    b = write(tmp_path / "b.jsonl", outcomes([0.4] * 15) + outcomes([0.9] * 4, prefix="z"))
    result = ragstone.compare([a, b])

    assert ({"a": 20, "b": 19}, 15, 15) == (dict(result.n_samples), result.n_common, result.metrics[0].pairs[0].n)
    assert result.notes[0].startswith(
        "15 of 24 samples are in every system (5 only in a ('q15', 'q16', 'q17', ...), 4 only in b ('z0', 'z1', 'z2', ...))"
    )
    assert result.metrics[0].pairs[0].difference == pytest.approx(0.2)
    c = write(tmp_path / "c.jsonl", outcomes([0.4] * 10))
    assert 10 == ragstone.compare([a, b, c]).n_common


def test_systems_without_a_common_sample_are_refused(tmp_path: Path) -> None:
    """Also where two of three share theirs: the message shows ids of both sides."""
    a, b = (write(tmp_path / f"{name}.jsonl", outcomes([0.2] * 5)) for name in "ab")
    c = write(tmp_path / "c.jsonl", outcomes([0.2] * 2, prefix="other-"))
    with pytest.raises(
        DataError,
        match=r"'c' does not share samples.*its ids: 'other-0', 'other-1', other ids: 'q0', 'q1', 'q2', \.\.\.\)",
    ):
        ragstone.compare([a, b, c])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"judge": "other"}, r"different judges are not on the same scale \(a: 'j'; b: 'other'\)"),
        ({"judge_hash": "g"}, r"a judge with different settings are not on the same scale \(a: 'h'; b: 'g'\)"),
        (
            {"judge": "other", "judge_hash": "g"},
            r"scores of different judges are not on the same scale \(a: 'j'; b: 'other'\)",
        ),
        ({"metric_version": "2"}, r"different versions of a metric are not on the same scale \(a: '1'; b: '2'\)"),
    ],
)
def test_scores_that_are_not_one_scale_are_refused(tmp_path: Path, change: dict[str, str], message: str) -> None:
    """Unless the caller insists; then the warning stands under the table."""
    a = write(tmp_path / "a.jsonl", outcomes([0.2] * 6))
    b = write(tmp_path / "b.jsonl", outcomes([0.4] * 6, **change))
    with pytest.raises(ConfigurationError, match=message + r".*`--set analysis.allow_different_judges=true`"):
        ragstone.compare([a, b])
    allowed = ragstone.compare([a, b], allow_different_judges=True)
    assert any(note.startswith("WARNING ccrs.qr: scores of") for note in allowed.notes)
    assert "B" not in allowed.verdict[0][:1]


def test_one_system_of_two_judges_is_no_scale_either(tmp_path: Path) -> None:
    """A file that was appended to by another judge is not compared, even with itself."""
    mixed = write(tmp_path / "m.jsonl", outcomes([0.2] * 3) + outcomes([0.4] * 3, prefix="z", judge="other"))
    with pytest.raises(ConfigurationError, match="m1: 'j', 'other'"):
        ragstone.compare({"m1": mixed, "m2": mixed})


def test_plain_metrics_need_no_judge(tmp_path: Path) -> None:
    """Scores of a metric without a judge are one scale whatever judge stood by."""
    plain = {"judge_hash": "", "metric": "exact_match"}
    found = [o.model_copy(update={"judge": None}) for o in outcomes([0.0, 1.0] * 4, **plain)]
    a, b = (write(tmp_path / f"{name}.jsonl", found) for name in "ab")
    assert 8 == ragstone.compare([a, b]).metrics[0].pairs[0].n_equal


def test_what_came_twice_counts_once_and_is_noted(tmp_path: Path) -> None:
    """The last outcome of a sample and metric is its outcome."""
    a = write(tmp_path / "a.jsonl", outcomes([0.9] * 8) + outcomes([0.2] * 6))
    b = write(tmp_path / "b.jsonl", outcomes([0.2] * 6))
    result = ragstone.compare([a, b])
    assert (6, 0.0) == (result.metrics[0].pairs[0].n, result.metrics[0].pairs[0].difference)
    assert any(note.startswith("a: 6 outcomes repeat a sample and metric") for note in result.notes)


def drawn(path: Path, found: list[Outcome], probabilities: list[float]) -> Path:
    """Write outcomes of requests that were sampled."""
    lines = [
        json.dumps(outcome.model_dump(mode="json") | {"inclusion_probability": share})
        for outcome, share in zip(found, probabilities, strict=True)
    ]
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


@pytest.mark.parametrize("paired", [True, False])
def test_each_system_has_its_own_sampling_probabilities(tmp_path: Path, paired: bool) -> None:
    """Cases that were drawn from all requests do not change the mean of all requests."""
    shares = [0.1, 0.5, 0.1, 0.2, 0.1, 0.5]
    values, changed = [i / 40 for i in range(40)], [0.9, 0.1, 0.8, 0.3, 0.7, 0.2]
    everything = write(tmp_path / "all.jsonl", outcomes(values))
    cases = drawn(tmp_path / "cases.jsonl", outcomes(changed), shares)
    for sources in ([everything, cases], [cases, everything]):
        result = ragstone.compare(sources, paired=paired)
        means = {each.system: each.estimate for each in result.metrics[0].systems}
        assert np.mean(values) == pytest.approx(means["all"].value)
        assert np.average(changed, weights=1 / np.array(shares)) == pytest.approx(means["cases"].value)
        of_all = values[:6] if paired else values
        weights = 1 / np.array(shares) if paired else None
        expected = np.average(changed, weights=1 / np.array(shares)) - np.average(of_all, weights=weights)
        sign = 1 if sources[1] == cases else -1
        assert sign * expected == pytest.approx(result.metrics[0].pairs[0].difference)
        # A standardized difference of unweighted scores could have another sign than the difference.
        assert result.metrics[0].pairs[0].effect_size is None
        assert any("weighted by 1 / sampling probability. Effect sizes" in note for note in result.notes)
        assert all(not row.quantiles for row in result.view(questions=False).metrics[0].systems)


def test_samples_without_one_weight_for_all_differences_are_refused(tmp_path: Path) -> None:
    """Two systems of all requests and one of a draw: the weights of the draw are wrong for the first difference."""
    first, second = (write(tmp_path / f"{name}.jsonl", outcomes([0.5] * 9)) for name in "ab")
    cases, again = (drawn(tmp_path / f"{name}.jsonl", outcomes([0.4] * 5), [0.5] * 5) for name in "cd")
    with pytest.raises(ConfigurationError, match="Compare two systems at a time"):
        ragstone.compare([first, second, cases])
    assert [0.5] == pytest.approx(
        [e.estimate.value for e in ragstone.compare([first, cases, again]).metrics[0].systems][:1]
    )


def test_a_judge_whose_scores_were_replaced_does_not_count(tmp_path: Path) -> None:
    """After everything is scored again by the new judge, the scores are on one scale."""
    a = write(tmp_path / "a.jsonl", outcomes([0.9] * 6, judge="lexical baseline") + outcomes([0.2] * 6, judge="new"))
    b = write(tmp_path / "b.jsonl", outcomes([0.2] * 6, judge="new"))
    result = ragstone.compare([a, b])
    assert 6 == result.metrics[0].pairs[0].n_equal
    assert not any("scale" in note or "baseline" in note for note in result.notes)
    c = write(tmp_path / "c.jsonl", outcomes([0.9] * 6, judge="old") + outcomes([0.2] * 5, judge="new"))
    with pytest.raises(ConfigurationError, match="c: 'new', 'old'"):
        ragstone.compare([c, b])


def test_metrics_are_chosen_by_name_and_group(tmp_path: Path) -> None:
    """A group means its metrics; what no system has is an error that says what there is."""
    paths = [
        write(
            tmp_path / f"{name}.jsonl",
            [*outcomes([0.5] * 6), *outcomes([0.5] * 6, metric="ccrs.cc"), *outcomes([0.5] * 6, metric="own")],
        )
        for name in "ab"
    ]

    def compared(metrics: list[str] | str) -> list[str]:
        return [m.metric for m in ragstone.compare(paths, metrics=metrics).metrics]

    assert (["ccrs.qr", "ccrs.cc"], ["own"], ["ccrs.cc", "own"]) == (
        compared("ccrs"), compared(["own"]), compared(["own", "ccrs.cc"])
    )  # fmt: skip
    with pytest.raises(
        ConfigurationError, match=r"no system has outcomes of 'bleu'\. Available: ccrs\.cc, ccrs\.qr, own"
    ):
        ragstone.compare(paths, metrics=["ccrs", "bleu"])


def test_a_metric_of_one_system_is_not_compared(tmp_path: Path) -> None:
    """It stands in the tables, and the verdict says that there is nothing to compare."""
    a = write(tmp_path / "a.jsonl", [*outcomes([0.5] * 6), *outcomes([0.5] * 6, metric="ccrs.cc")])
    b = write(tmp_path / "b.jsonl", outcomes([0.5] * 6))
    assert "b and a cannot be compared on ccrs.cc: no sample has a score of both" == ragstone.compare([a, b]).verdict[1]


def test_an_unknown_metric_is_taken_without_bounds_and_noted(tmp_path: Path) -> None:
    """Its range and direction are not known here, and that is said."""
    a = write(tmp_path / "a.jsonl", outcomes([5.0] * 8, metric="own"))
    b = write(tmp_path / "b.jsonl", outcomes([9.0] * 8, metric="own"))
    result = ragstone.compare([a, b])
    assert result.verdict[0].startswith("b beats a on own by 4.0 [")
    assert any("unknown metric, treated as unbounded" in note for note in result.notes)


@pytest.mark.parametrize("n", [0, 1])
def test_fewer_than_two_systems_are_refused(tmp_path: Path, n: int) -> None:
    """In a row, by name, or alone."""
    path = write(tmp_path / "a.jsonl", outcomes([0.5]))
    for sources in ([path] * n, dict([("a", path)] * n), *([str(path)] if n else [])):
        with pytest.raises(ConfigurationError, match=f"at least two systems, got {n}"):
            ragstone.compare(sources)


def test_files_that_hold_no_outcome_are_refused(tmp_path: Path) -> None:
    """By name, with the line that is wrong."""
    good = write(tmp_path / "a.jsonl", outcomes([0.5]))
    (tmp_path / "empty.jsonl").touch()
    (tmp_path / "rows.jsonl").write_text(json.dumps({"query": "Why?"}) + "\n")
    with pytest.raises(DataError, match="'empty' does not contain outcomes"):
        ragstone.compare([good, tmp_path / "empty.jsonl"])
    with pytest.raises(
        DataError, match=r"line 1 of .*rows\.jsonl' is not an outcome \(the field 'outcome' is missing\)"
    ):
        ragstone.compare([good, tmp_path / "rows.jsonl"])


@pytest.mark.parametrize("left", [1, 40, -30])
def test_an_incomplete_last_line_is_skipped_with_a_warning(
    tmp_path: Path, left: int, caplog: pytest.LogCaptureFixture
) -> None:
    """A crash of its writer leaves one. In another place, or as the only line, it is an error."""
    plain = write(tmp_path / "plain.jsonl", outcomes([0.5, 0.6, 0.7]))
    lines = plain.read_bytes().splitlines(keepends=True)
    cut = tmp_path / "cut.jsonl"
    cut.write_bytes(b"".join(lines[:-1]) + lines[-1][:left])
    assert 2 == ragstone.compare([plain, cut]).n_common
    assert ["line 3 of", "incomplete"] == [word for word in ("line 3 of", "incomplete") if word in caplog.text]
    cut.write_bytes(lines[0] + lines[1][:left] + b"\n" + lines[2])
    with pytest.raises(DataError, match=r"line 2 of .*cut\.jsonl' is not an outcome"):
        ragstone.compare([plain, cut])
    cut.write_bytes(lines[0][:left])
    with pytest.raises(DataError, match=r"line 1 of .*cut\.jsonl' is not an outcome"):
        ragstone.compare([plain, cut])


def test_outcomes_of_a_later_version_are_refused(tmp_path: Path) -> None:
    """With their line, and what to do: what a later version means by a value is not known."""
    plain = write(tmp_path / "plain.jsonl", outcomes([0.5, 0.6]))
    later = tmp_path / "later.jsonl"
    first, second = plain.read_text(encoding="utf-8").splitlines()
    later.write_text(f"{first}\n{json.dumps(json.loads(second) | {'schema_version': 99, 'new': 1})}\n")
    with pytest.raises(
        DataError,
        match=r"line 2 of .*later\.jsonl' has format version 99, .*reads version 1: use the version of Ragstone that wrote it",
    ):
        ragstone.compare([plain, later])


def test_the_baseline_judge_is_noted(tmp_path: Path) -> None:
    """Word overlap is no judge, and the table says so."""
    a, b = (write(tmp_path / f"{name}.jsonl", outcomes([0.5] * 6, judge="lexical baseline")) for name in "ab")
    assert "which is not a judge" in str(ragstone.compare([a, b]))


def test_values_and_bounds_stay_in_the_range_of_their_metric(tmp_path: Path) -> None:
    """A rounding error beyond it is none of the system's, and no difference is larger than the range."""
    low = write(tmp_path / "low.jsonl", outcomes([-1e-12] * 6))
    high = write(tmp_path / "high.jsonl", outcomes([1 + 1e-12] * 6))
    (pair,) = ragstone.compare([low, high]).metrics[0].pairs
    assert (1.0, 1.0) == (pair.difference, pair.high)


def test_the_bounds_that_count_are_those_of_the_last_failure(tmp_path: Path) -> None:
    """What an earlier one said of the sample is gone; bounds beyond the range count as none."""
    (score,) = outcomes([0.5])
    common = score.model_dump(include={"sample_id", "metric", "metric_version", "judge", "judge_hash"})
    failed = Failure(kind="timeout", reason="late", **common)
    narrow, wide = (failed.model_copy(update={"details": {"bounds": ends}}) for ends in ([0.4, 0.6], [-3.0, 0.75]))
    good = write(tmp_path / "good.jsonl", [score])
    bounds = {
        name: ragstone.compare([good, write(tmp_path / f"{name}.jsonl", found)]).metrics[0].pairs[0].bounds
        for name, found in {"last": [failed, narrow], "gone": [narrow, failed], "wide": [wide]}.items()
    }
    assert {"last": (-0.1, 0.1), "gone": (-0.5, 0.5), "wide": (-0.5, 0.5)} == {
        name: pytest.approx(ends) for name, ends in bounds.items()
    }
