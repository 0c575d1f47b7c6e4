"""The weighted mean of any metrics: stated and learned weights, unknown parts, intervals, files, and stored outcomes."""

from __future__ import annotations

import asyncio
import json
import math

import numpy as np
import pytest
from typer.testing import CliRunner

import ragstone
from builders import make_sample
from command_line import app
from ragstone.errors import ConfigurationError, DataError, JudgeError
from ragstone.experiments import TimeRange, build_report, check_source, find_worst
from ragstone.judges import NumberReply
from ragstone.metrics import Composite, MetricBase, VeraComposite, resolve_metrics
from ragstone.metrics.ccrs import CCRS
from ragstone.schema import Captured, Failure, Interval, NotApplicable, Score, Trace
from ragstone.scoring import Scorer
from ragstone.settings import Analysis
from ragstone.store import Completion, PlannedMetric, SqliteStore
from ragstone.testing import FakeJudge
from ragstone_lab import validate_metrics

RATINGS = {"contextual_coherence": 80, "question_relevance": 40, "information_density": 60, "information_recall": 50}
FAST = {"n_resamples": 100, "n_permutations": 50}


def composite(weights, **options):
    """Make a composite of weights by name, which CCRS ratings need not begin with "ccrs."."""
    names = [name if "." in name or "_" in name else f"ccrs.{name}" for name in weights]
    return Composite([metric for name in names for metric in resolve_metrics(name)], [*weights.values()], **options)


def score(metrics, judge=None, **fields):
    scorer = Scorer(list(metrics), judge or FakeJudge(RATINGS))
    return {o.metric: o for o in asyncio.run(scorer.score(make_sample(**fields)))}


def test_the_weighted_mean():
    """Of the ratings with a weight, whose sum does not matter; short and full names are the same."""
    for weights in ({"cc": 3, "qr": 1}, {"ccrs.cc": 0.75, "ccrs.qr": 0.25, "ccrs.id": 0}):
        metric = composite(weights)
        outcome = score([metric])["composite"]
        assert pytest.approx(0.75 * 0.8 + 0.25 * 0.4) == outcome.value
        assert {"ccrs.cc": 0.8, "ccrs.qr": 0.4} == outcome.details["parts"]
        assert (2, {"query", "contexts", "response"}) == (metric.judge_calls, set(metric.needs))
        assert outcome.interval is None


def test_weights_are_part_of_the_version():
    """Composites with other weights are not compared by accident."""
    versions = [composite(w).card.version for w in ({"cc": 1, "qr": 1}, {"cc": 2, "qr": 2}, {"cc": 2, "qr": 1})]
    assert versions[0] == versions[1] != versions[2]


def test_ratings_are_shared_with_the_metrics():
    """Five metrics and the composite cost five calls."""
    judge = FakeJudge(50)
    score([*CCRS, composite(dict.fromkeys(("cc", "qr", "id", "ac", "ir"), 1))], judge, reference=("a",))
    assert 5 == len(judge.prompts)


class SpreadJudge(FakeJudge):
    """A judge whose ratings have an interval of 20 on both sides."""

    async def ask_number(self, prompt, *, low=0, high=100):
        value = RATINGS[prompt.construct]
        interval = Interval(low=value - 20, high=value + 20, method="student_t")
        return NumberReply(value=value, raw=str(value), method="sampled", interval=interval)


def test_intervals_of_ratings_and_weights():
    """Independent errors: the squares of the weighted distances are added, and those of learned weights to them."""
    weights = {"cc": 1, "qr": 1}
    outcome = score([composite(weights)], SpreadJudge())["composite"]
    half = math.hypot(0.5 * 0.2, 0.5 * 0.2)
    assert pytest.approx((0.6 - half, 0.6 + half)) == (outcome.interval.low, outcome.interval.high)
    covariance = [[0.04, -0.04], [-0.04, 0.04]]
    learned = score([composite({"cc": 0.5, "qr": 0.5}, covariance=covariance)])["composite"]
    # The weights differ in opposite directions: the error is 0.2 * (0.8 - 0.4).
    assert pytest.approx(0.6 - 1.959964 * 0.08) == learned.interval.low
    both = score([composite({"cc": 0.5, "qr": 0.5}, covariance=covariance)], SpreadJudge())["composite"]
    assert pytest.approx(0.6 + math.hypot(half, 1.959964 * 0.08)) == both.interval.high


def test_a_covariance_fits_weights_that_do_not_add_up_to_one():
    """It is scaled with them, and rows of unused weights are left out."""
    table = [[4.0, 0.0, 0.0], [0.0, 9.0, 0.0], [0.0, 0.0, 4.0]]
    found = score([composite({"cc": 5, "id": 0, "qr": 5}, covariance=table)])["composite"]
    assert pytest.approx(min(1, 0.6 + 1.959964 * 0.2 * math.hypot(0.8, 0.4))) == found.interval.high


def test_missing_and_failed_parts():
    """A mean of other metrics would not be comparable. A failure says between which values the composite is."""
    metric = composite({"cc": 1, "ir": 1})
    assert isinstance(score([metric], reference=())["composite"], NotApplicable)
    empty = score([metric], contexts=(), reference=("a",))["composite"]
    assert empty.reason.startswith("ccrs.cc is not applicable")
    down = FakeJudge(50, fail=lambda prompt: JudgeError("down", kind="refused"))
    assert isinstance(score([metric], down, reference=("a",))["composite"], Failure)
    half = FakeJudge(
        RATINGS, fail=lambda prompt: JudgeError("down", kind="refused") if "recall" in prompt.construct else None
    )
    failed = score([metric], half, reference=("a",))["composite"]
    assert ("refused", "ccrs.ir: down", [0.4, 0.9]) == (failed.kind, failed.reason, failed.details["bounds"])
    assert {"ccrs.cc": 0.8} == failed.details["parts"]
    assert 0.0 == score([metric], response=" ", reference=("a",))["composite"].value


@pytest.mark.parametrize(
    ("weights", "covariance", "words"),
    [
        ({}, None, "at least one weight must be above 0"),
        ({"cc": 0}, None, "at least one weight must be above 0"),
        ({"cc": -1, "qr": 2}, None, "weight of ccrs.cc must be a number of 0 or more, got -1"),
        ({"cc": float("inf")}, None, "got inf"),
        ({"cc": "much"}, None, "got 'much'"),
        ({"cc": 1, "qr": 1}, [[1.0]], "2 by 2 finite numbers"),
        ({"cc": 1}, [[float("nan")]], "1 by 1 finite numbers"),
        ({"cc": 1}, 3, "1 by 1 finite numbers"),
    ],
)
def test_impossible_weights(weights, covariance, words):
    """The message names the metric and the rule."""
    with pytest.raises(ConfigurationError, match=words):
        composite(weights, covariance=covariance)


@pytest.mark.parametrize(
    ("metrics", "weights", "words"),
    [
        (["ccrs.cc", "ccrs.cc"], [1, 1], "different metrics, each with a weight"),
        (["ccrs.cc"], [1, 1], "got ccrs.cc and 2 weights"),
        ([VeraComposite()], [1], "the range of vera.composite is not bounded"),
    ],
)
def test_impossible_parts(metrics, weights, words):
    """A metric without a bounded range cannot be weighted."""
    with pytest.raises(ConfigurationError, match=words):
        Composite([m for m in metrics for m in (resolve_metrics(m) if isinstance(m, str) else [m])], weights)


def test_files(tmp_path):
    """TOML for stated weights, JSON for learned ones. TOML reads names with dots as tables."""
    stated = tmp_path / "weights.toml"
    for names in ("ccrs.cc = 3\nrouge_l = 1", '"ccrs.cc" = 3\nrouge_l = 1'):
        stated.write_text(f'label = "answer_1"\n[weights]\n{names}\n')
        (metric,) = resolve_metrics(f"composite@{stated}")
        assert ("composite.answer_1", {"ccrs.cc": 0.75, "rouge_l": 0.25}) == (metric.name, metric.weights)
    for text, words in (
        ("[weights]\n", "does not contain a table"),
        ("weights = 3", "does not contain"),
        ("[", "cannot be read"),
        ('label = "a b"\n[weights]\nrouge_l = 1\n', "label in"),
        ("label = 3\n[weights]\nrouge_l = 1\n", "label in"),
    ):
        stated.write_text(text)
        with pytest.raises(DataError, match=words):
            resolve_metrics(f"composite@{stated}")
    for text, words in (
        ("[weights]\nccrs = 1\n", "a group of metrics"),
        ("[weights]\nxx = 1\n", "unknown metric or group 'xx'"),
        (f'[weights]\n"composite@{stated}" = 1\n', "is a composite"),
    ):
        stated.write_text(text)
        with pytest.raises(ConfigurationError, match=words):
            resolve_metrics(f"composite@{stated}")
    with pytest.raises(ConfigurationError, match="file with weights not found"):
        resolve_metrics("composite@nowhere.toml")


class Errors(MetricBase):
    """Number of errors, from 0 to 4. Fewer are better."""

    name, needs, high, direction = "acme.errors", ("response",), 4.0, "lower"
    value = 1.0

    async def compute(self, sample, judge):
        return self.make_score(sample, self.value, method="exact", interval=Interval(low=0.0, high=2.0, method="x"))


def test_metrics_of_other_ranges_and_directions():
    """Each counts by its place between its worst and its best value."""
    metric = Composite([*resolve_metrics("rouge_l"), Errors()], [1, 1])
    found = score([metric], response="a b", reference=("a b",))["composite"]
    assert (1 + 0.75) / 2 == pytest.approx(found.value)
    assert (0.75, 1.0) == pytest.approx((found.interval.low, found.interval.high))
    assert {"rouge_l": 1.0, "acme.errors": 1.0} == found.details["parts"]
    assert (0.0, 1.0, "higher") == (found.scale.low, found.scale.high, found.scale.direction)


@pytest.mark.parametrize("value", [4.5, -1.0])
def test_a_part_outside_of_its_range_is_a_failure(value):
    """A user's metric may return any number. The composite is not a number then either."""
    errors = Errors()
    errors.value = value
    found = score([Composite([errors], [1])], response="a")["composite"]
    assert ("bug", True) == (found.kind, "Error" in found.reason)


def test_the_decision_value_is_that_of_the_parts():
    """Half of a paraphrase that a judge calls correct: its score is at most 0.3, but its answer is good."""
    judge = FakeJudge({**RATINGS, "answer_correctness": 90})
    metric = composite({"ccrs.ac": 1, "ccrs.cc": 1})
    found = score([metric], judge, reference=("a",))["composite"]
    assert (0.3 * 0.9 + 0.8) / 2 == pytest.approx(found.value)
    assert (0.9 + 0.8) / 2 == pytest.approx(metric.card.decision(found))
    assert "good if decision in its details is at least 0.5" == metric.card.rule
    assert metric.card.reachable.startswith("ccrs.ac: ")


def test_a_part_is_scored_once():
    """Also a metric that does not share its work itself, and next to the composite."""
    calls = []

    class Counted(Errors):
        async def compute(self, sample, judge):
            calls.append(sample.id)
            return await super().compute(sample, judge)

    errors = Counted()
    found = score([errors, Composite([errors], [1]), Composite([errors], [1], label="other")], response="a")
    assert (1, 1.0, 0.75, 0.75) == (len(calls), *(outcome.value for outcome in found.values()))


def test_a_part_with_a_reader():
    """The reader of a run is bound to the parts that need one."""
    from fake_models import FakeReader

    udcg = resolve_metrics("udcg")
    bare = Composite([*udcg, *resolve_metrics("ccrs.cc")], [1, 1])
    assert bare.reader is None
    rows = [{"id": "q", "query": "Q?", "contexts": [{"text": "a", "relevance": 1}], "response": "a"}]
    result = ragstone.evaluate(rows, [bare, *udcg], judge=FakeJudge(80), reader=FakeReader())
    whole, alone = result.outcomes
    low, high = udcg[0].card.low, udcg[0].card.high
    assert ((alone.value - low) / (high - low) + 0.8) / 2 == pytest.approx(whole.value)
    assert not hasattr(composite({"cc": 1}), "reader")


@pytest.fixture
def weights(tmp_path):
    """A file with weights."""
    file = tmp_path / "w.toml"
    file.write_text("[weights]\nrouge_l = 3\ntoken_f1 = 1\n")
    return file


ROWS = [
    {"id": f"q{i}", "query": "Q?", "response": " ".join("abcdefgh"[: 1 + i % 8]), "reference": "a b c d"}
    for i in range(24)
]


def sources(tmp_path, metrics, rows=ROWS):
    """Return the same outcomes as an experiment, a file, a store and a period of it."""
    tmp_path.mkdir(exist_ok=True)
    result = ragstone.evaluate(rows, metrics, judge=None)
    path = tmp_path / "run.jsonl"
    path.write_text("".join(outcome.model_dump_json() + "\n" for outcome in result.outcomes))
    store = tmp_path / "a.db"
    with SqliteStore.open(store, mode="own") as owned:
        owned.plan.set(
            [
                PlannedMetric(name=o.metric, version=o.metric_version, judge_hash="")
                for o in result.outcomes[: len(result.cards)]
            ],
            [],
        )
        owned.traces.ingest(
            "test",
            0,
            [
                Captured(
                    trace=Trace(trace_id=row["id"], started_at=1e9 + i, query=row["query"], response=row["response"])
                )
                for i, row in enumerate(rows)
            ],
        )
        by_id = {row["id"]: [o for o in result.outcomes if o.sample_id == row["id"]] for row in rows}
        owned.outcomes.complete_many([Completion(trace_id=id_, outcomes=found) for id_, found in by_id.items()])
    return [result, path, store, TimeRange(store, since=1e9)]


def test_every_source_of_stored_outcomes_has_the_composite(tmp_path, weights):
    """A gate, a comparison, a report and the worst answers of outcomes that were scored before the weights existed."""
    name = f"composite@{weights}"
    scored = ragstone.evaluate(ROWS, [name], judge=None)
    (truth,) = scored.summary()
    found = sources(tmp_path / "x", ["rouge_l", "token_f1"])
    for source in found:
        (gate,) = check_source(source, {name: 0.5}, Analysis()).gates
        assert ("composite", truth.estimate.value, 24) == (gate.metric, pytest.approx(gate.mean), gate.n_scored)
        rows = {row.name: row for row in build_report(source, targets={name: 0.9}).metrics}
        assert (truth.estimate, 0.9) == (rows["composite"].estimate, rows["composite"].target)
        worst = find_worst(source, n=1, metric=name)
        assert scored.worst(1, metric="composite")[0].id == worst[0].id
    for pair in ([found[0], found[1]], [found[1], scored]):
        (metric,) = ragstone.compare(pair, metrics=name).metrics
        assert [0.0] == [p.difference for p in metric.pairs]


def test_unknown_parts_of_stored_outcomes_stay_unknown(tmp_path, weights):
    """A failed part gives bounds, one that is not applicable gives neither, and a missing one leaves the sample out."""
    lines = [
        Score(sample_id="q0", metric="rouge_l", metric_version="1", value=0.8, method="x"),
        Score(sample_id="q0", metric="token_f1", metric_version="1", value=0.4, method="x"),
        Score(sample_id="q1", metric="rouge_l", metric_version="1", value=0.8, method="x"),
        Failure(sample_id="q1", metric="token_f1", metric_version="1", kind="bug", reason="?"),
        Score(sample_id="q2", metric="rouge_l", metric_version="1", value=0.8, method="x"),
        NotApplicable(sample_id="q2", metric="token_f1", metric_version="1", reason="no"),
        Score(sample_id="q3", metric="rouge_l", metric_version="1", value=0.8, method="x"),
        Score(sample_id="q0", metric="composite", metric_version="other", value=0.0, method="x"),
    ]
    path = tmp_path / "run.jsonl"
    path.write_text("".join(line.model_dump_json() + "\n" for line in lines))
    (row,) = (r for r in build_report(path, targets={f"composite@{weights}": 0.5}).metrics if r.name == "composite")
    assert (1, 1, 1) == (row.n_scored, row.n_failed, row.n_not_applicable)
    assert (0.7, {"bug": 1}) == (pytest.approx(row.estimate.value), row.failure_kinds)
    assert (pytest.approx((0.7 + 0.6) / 2), pytest.approx((0.7 + 0.85) / 2)) == row.bounds
    versions = [part for part in resolve_metrics(f"composite@{weights}")[0].follow(lines) if part.metric == "composite"]
    assert 1 == len({outcome.metric_version for outcome in versions})


def test_stored_composites_keep_their_range(tmp_path, weights):
    """Their name does not say what they are, so their outcomes do."""
    result = ragstone.evaluate(ROWS, [f"composite@{weights}"], judge=None)
    path = tmp_path / "run.jsonl"
    path.write_text("".join(outcome.model_dump_json() + "\n" for outcome in result.outcomes))
    (row,) = build_report(path).metrics
    assert (0.0, 1.0) == (row.low, row.high)
    assert result.summary()[0].estimate == row.estimate


@pytest.fixture
def labeled(tmp_path):
    """Outcomes of two systems, and labels that are 3 * cc + qr with some noise."""

    def write(n=60, **options):
        rng = np.random.default_rng(1)
        labels, paths = [], []
        for system in ("a", "b"):
            lines = []
            for i in range(n):
                cc, qr, ir = rng.uniform(0, 1, 3)
                for name, value in (("cc", cc), ("qr", qr), ("ir", ir)):
                    lines.append(
                        Score(sample_id=f"q{i}", metric=f"ccrs.{name}", metric_version="1", value=value, method="x")
                    )
                labels.append({"id": f"q{i}", "system": system, "label": 1 + 3 * cc + qr + rng.normal(0, 0.1)})
            paths.append(tmp_path / f"{system}.jsonl")
            paths[-1].write_text("".join(line.model_dump_json() + "\n" for line in lines))
        return paths, labels

    return write


def test_learned_weights(labeled, tmp_path):
    """They are those of the labels, within their intervals, and the file makes the same composite."""
    paths, labels = labeled()
    file = tmp_path / "weights.json"
    report = validate_metrics(*paths, labels=labels, fit_weights=file, **FAST)
    fit = report.weights
    assert ("ccrs.cc", "ccrs.qr", "ccrs.ir") == fit.metrics
    for weight, truth in zip(fit.weights, (0.75, 0.25, 0.0), strict=True):
        assert weight.low - 0.02 <= truth <= weight.high + 0.02
        assert 0 <= weight.low <= weight.value <= weight.high <= 0.9
    assert (60, 120) == (fit.n_samples, fit.n_labels)
    assert fit.equal_weights < 0.9 < fit.rank_correlation.value
    (metric,) = resolve_metrics(f"composite@{file}")
    assert {
        n: pytest.approx(w.value) for n, w in zip(fit.metrics, fit.weights, strict=True) if w.value
    } == metric.weights
    assert "weight in the composite" in str(report)
    assert () == tuple(note for note in fit.notes if "significantly" in note)


def test_weights_of_any_metrics(tmp_path):
    """Also of one of which lower values are better, and of one with another range. Unbounded metrics have no weight."""
    rng = np.random.default_rng(2)
    lines, labels = [], []
    card = resolve_metrics("udcg")[0].card
    for i in range(60):
        bad, utility, logit = rng.uniform(0, 1), rng.uniform(0, 1), rng.normal()
        udcg = card.low + utility * (card.high - card.low)
        for name, value in (("ragchecker.hallucination", bad), ("udcg", udcg), ("vera.composite", logit)):
            lines.append(Score(sample_id=f"q{i}", metric=name, metric_version="1", value=value, method="x"))
        labels.append({"id": f"q{i}", "label": 3 * (1 - bad) + utility + rng.normal(0, 0.05)})
    path, file = tmp_path / "a.jsonl", tmp_path / "weights.json"
    path.write_text("".join(line.model_dump_json() + "\n" for line in lines))
    fit = validate_metrics(path, labels=labels, fit_weights=file, **FAST).weights
    assert ("ragchecker.hallucination", "udcg") == fit.metrics
    assert (0.75, 0.25) == pytest.approx([weight.value for weight in fit.weights], abs=0.02)
    (metric,) = resolve_metrics(f"composite@{file}")
    found = list(metric.follow(lines))[-1]
    assert fit.rank_correlation.value > 0.95
    assert "composite" == found.metric
    with pytest.raises(DataError, match="at least two metrics with a bounded range in all systems, got udcg"):
        validate_metrics(path, metrics=["udcg"], labels=labels, fit_weights=file, **FAST)


def test_equal_metrics_share_a_weight_in_an_unknown_way(labeled, tmp_path):
    """Least squares gives one of them all of it, in each resample. That is no evidence for this division."""
    paths, labels = labeled()
    for path in paths:
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        kept = [line for line in lines if line["metric"] == "ccrs.cc"]
        path.write_text(
            "".join(json.dumps(row) + "\n" for line in kept for row in (line, line | {"metric": "ccrs.qr"}))
        )
    first, second = validate_metrics(*paths, labels=labels, fit_weights=tmp_path / "w.json", **FAST).weights.weights
    assert (1.0, 0.0) == (first.value, second.value)
    assert (0.0, 1.0, 0.0, 1.0) == (first.low, first.high, second.low, second.high)


def test_weights_that_follow_no_label_are_said_to(labeled, tmp_path):
    """Labels by chance: the weights are those of noise, and the report says so."""
    paths, labels = labeled(n=30)
    rng = np.random.default_rng(1)
    noise = [row | {"label": float(rng.random())} for row in labels]
    fit = validate_metrics(*paths, labels=noise, fit_weights=tmp_path / "w.json", **FAST).weights
    assert "does not significantly follow the labels of other samples" in fit.notes[-1]
    zero = [name for name, weight in zip(fit.metrics, fit.weights, strict=True) if weight.value == 0]
    assert (f"no weight for {', '.join(zero)}:" in fit.notes[0]) == bool(zero)


def test_few_samples_are_refused(labeled, tmp_path):
    """Weights of a handful of labels would be noise."""
    paths, labels = labeled(n=19)
    with pytest.raises(DataError, match="at least 20 samples with labels and all scores, got 19"):
        validate_metrics(*paths, labels=labels, fit_weights=tmp_path / "w.json", **FAST)
    with pytest.raises(DataError, match=r"Pass them with labels= \(--labels\)"):
        validate_metrics(*paths, fit_weights=tmp_path / "w.json", **FAST)
    opposite = [row | {"label": -row["label"]} for row in labeled(n=60)[1]]
    with pytest.raises(DataError, match="increases with the labels"):
        validate_metrics(
            *labeled(n=60)[0], metrics=["ccrs.cc", "ccrs.qr"], labels=[*opposite], fit_weights="w.json", **FAST
        )


def test_the_command(labeled, tmp_path):
    """`--fit-weights` writes the file that the metric reads."""
    paths, labels = labeled()
    rows = tmp_path / "labels.jsonl"
    rows.write_text("\n".join(map(json.dumps, labels)))
    line = [
        "lab",
        "validate-metrics",
        *map(str, paths),
        "--labels",
        str(rows),
        "--fit-weights",
        str(tmp_path / "w.json"),
    ]
    done = CliRunner().invoke(app, [*line, "--set", "analysis.n_resamples=50", "--set", "analysis.n_permutations=20"])
    assert 0 == done.exit_code, done.output
    assert f"--metrics composite@{tmp_path / 'w.json'}" in done.stderr.replace("\n", "")
    assert resolve_metrics(f"composite@{tmp_path / 'w.json'}")[0].weights["ccrs.cc"] > 0.6
