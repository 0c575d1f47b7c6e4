"""The judge card: planted agreement, bias and effects of conditions are found, and invalid input costs nothing."""

from __future__ import annotations

import json
import random
import zlib

import numpy as np
import pytest
import scipy.stats

from fake_servers import FakeJudgeServer
from ragstone.errors import ConfigurationError, DataError
from ragstone.judges import Budget, ModelJudge, OpenAICompatibleJudge
from ragstone.testing import FakeJudge
from ragstone_lab import judge_card, plan_judge_card
from scripted_model import ScriptedModel

BIAS, WORDING, REVERSED, ERROR = 10, (6, -3), -4, 0.1
"""Planted effects in points, and the share of verdicts that people do not share."""
KEYS = ("coherence", "relevance", "density", "correctness", "recall")


class Planted:
    """Samples, labels, and a judge with planted errors.

    The true scores are 20 or 70 of 100. The judge adds the bias, an error that depends on the question, and the effects of
    wording and order. With probability `ERROR` it takes one level for the other.
    """

    def __init__(self, seed=0, n=120, n_labeled=80, *, noise=3.0, name="fake judge"):
        rng = random.Random(seed)
        self.true = [rng.choice([20, 70]) for _ in range(n)]
        self.rows = [
            {
                "id": f"s{i}",
                "query": f"question {i}",
                "contexts": [f"first {i}", f"second {i}", f"last {i}"],
                "response": f"answer {i}",
                "reference": f"reference {i}",
            }
            for i in range(n)
        ]
        labeled = rng.sample(range(n), n_labeled)
        self.yes_no = [{"id": f"s{i}", "ccrs.cc": "yes" if self.true[i] > 50 else "no"} for i in labeled]
        # Twelve distinct values and more are a continuous scale.
        self.graded = [{"id": f"s{i}", "ccrs.cc": (self.true[i] + rng.randint(-9, 9)) / 100} for i in labeled]
        self._draws = random.Random(f"{seed}/{name}")
        self._seed, self._noise = f"{seed}/{name}", noise
        self.judge = FakeJudge(self.number, json=self.ratings, name=name)

    def ratings(self, prompt):
        """In one call, every rating but coherence is 0."""
        return dict.fromkeys(KEYS, 0) | {"coherence": round(self.number(prompt))}

    def number(self, prompt):
        i = int(prompt.fields["query"].split()[1])
        own = random.Random(f"{self._seed}/{i}")
        true = self.true[i]
        value = (90 - true if own.random() < ERROR else true) + BIAS + own.gauss(0, 2)
        if prompt.task.startswith("Task:"):
            value += WORDING[0]
        elif prompt.task.startswith("How much"):
            value += WORDING[1]
        if prompt.fields["contexts"][0].startswith("last"):
            value += REVERSED
        return min(100, max(0, value + self._draws.gauss(0, self._noise)))


def effect(report, condition):
    return next(effect for effect in report.effects if effect.condition == condition)


@pytest.fixture(scope="module")
def planted():
    world = Planted()
    return world, judge_card(world.yes_no, world.rows, judge=world.judge, metrics="ccrs.cc", n_resamples=300)


def test_planted_values_are_in_the_intervals(planted):
    """Kappa 0.8, the shifts of both wordings and of the reversed order, the repeats' noise."""
    world, card = planted
    (report,) = card.judges[0].metrics
    name, kappa = report.agreement.coefficient
    assert "kappa" == name
    assert kappa.low < 1 - 2 * ERROR < kappa.high
    assert kappa.high - kappa.low < 0.4
    for condition, true in (("wording 1", WORDING[0]), ("wording 2", WORDING[1]), ("order reversed", REVERSED)):
        found = effect(report, condition).difference
        assert found.low < true < found.high, condition
        assert found.high - found.low < 4, condition
        assert not found.low <= 0 <= found.high
    # A normal difference with mean 6 and SD 3 * sqrt(2) is above 10 points in 17% of cases.
    assert 0.04 < effect(report, "wording 1").changed.value < 0.36
    shuffled = effect(report, "order shuffled").difference
    # A shuffle begins with the last passage in two of five cases.
    assert shuffled.low < REVERSED * 2 / 5 < shuffled.high
    # The SD of one reply is the planted noise, and the mean over people is not that of the judge alone.
    assert 3.0 == pytest.approx(report.repeats.spread, rel=0.25)
    # Two replies differ by more than 10 points, 2.4 standard deviations, in 2% of cases.
    assert (10, True) == (report.repeats.threshold, report.repeats.pairs.value < 0.15)
    true = np.mean([value > 50 for value in world.true])
    assert abs(report.agreement.human_mean.judge_mean - true) > 0.03
    mean = report.agreement.human_mean
    assert mean.estimate.low < true < mean.estimate.high


def test_planted_bias_of_graded_labels():
    """On a continuous scale the coefficient is Spearman's, and the bias is that of the judge."""
    world = Planted(seed=2)
    card = judge_card(world.graded, world.rows, judge=world.judge, conditions=(), n_resamples=300)
    (report,) = card.judges[0].metrics
    assert "ccrs.cc" == report.metric
    assert "Spearman" == report.agreement.coefficient[0]
    bias = report.agreement.bias
    assert bias.low < BIAS / 100 < bias.high
    assert report.effects == ()
    assert report.repeats is report.variance is None
    assert ["base"] == [cost.condition for cost in card.judges[0].costs]
    assert len(world.rows) == len(world.judge.prompts)
    assert any("points higher than people" in sentence for sentence in card.findings())
    pearson = report.agreement.pearson
    assert pearson.low < pearson.value < pearson.high < 1


@pytest.mark.parametrize(
    "n_worlds", [pytest.param(30, marks=pytest.mark.slow), pytest.param(120, marks=pytest.mark.long)]
)
def test_coverage(n_worlds: int) -> None:
    """In many worlds, 95% intervals contain the planted values about as often as they promise."""
    names = ("kappa", "bias", "wording 1", "wording 2", "order reversed")
    hits = dict.fromkeys(names, 0)
    for seed in range(n_worlds):
        world = Planted(seed, n=60, n_labeled=60)
        options = {"metrics": "ccrs.cc", "n_resamples": 300, "judge": world.judge}
        (report,) = (
            judge_card(world.yes_no, world.rows, repeats=1, conditions=("wording", "order"), **options)
            .judges[0]
            .metrics
        )
        (graded,) = judge_card(world.graded, world.rows, conditions=(), **options).judges[0].metrics
        found = [
            (report.agreement.coefficient[1], 1 - 2 * ERROR),
            (graded.agreement.bias, BIAS / 100),
            *((effect(report, f"wording {n}").difference, WORDING[n - 1]) for n in (1, 2)),
            (effect(report, "order reversed").difference, REVERSED),
        ]
        for name, (interval, true) in zip(names, found, strict=True):
            hits[name] += interval.low <= true <= interval.high
    # Intervals of 94% would contain fewer in one of a thousand runs.
    fewest = scipy.stats.binom.ppf(0.001, n_worlds, 0.94)
    assert all(count >= fewest for count in hits.values()), hits


def test_variance_is_split_by_its_sources(planted):
    """Question, wording, their interaction, and the repeats, whose planted SDs are 25 and more, about 4.6, 0 and 3."""
    split = planted[1].judges[0].metrics[0].variance
    assert ["question", "wording", "question x wording", "repeat"] == [c.name for c in split.components]
    sd = {c.name: c.sd for c in split.components}
    assert sd["repeat"].low < 3 < sd["repeat"].high
    # The three wordings' effects 0, 6 and -3 have the standard deviation 4.6.
    assert np.std([0, *WORDING], ddof=1) == pytest.approx(sd["wording"].value, abs=0.8)
    assert sd["question x wording"].value < 1.5
    assert sd["question"].low > 15


def test_sentences_are_computed_from_the_numbers(planted):
    """Each number in a sentence is one of the tables."""
    card = planted[1]
    report = card.judges[0].metrics[0]
    means = [0, effect(report, "wording 1").difference.value, effect(report, "wording 2").difference.value]
    limit = next(limit for limit in range(1, 100) if limit >= max(means) - min(means) - 0.05)
    findings = " ".join(card.findings())
    assert f"a difference below {limit} points between systems is within what this judge's wording moves" in findings
    assert "agreement with people is substantial (kappa 0.7" in findings
    assert "passages in reversed order change the mean by -" in findings
    parts = [report.variance.component(*names).variance.value for names in (("question", "wording"), ("repeat",))]
    noise = 1.96 * (2 * sum(parts) / 100) ** 0.5
    assert f"same wording for both systems, the judge's own variation adds up to {noise:.1f} points" in findings
    assert f"{report.repeats.pairs.value:.0%} [" in findings
    assert card.findings() == tuple(card.to_dict()["findings"])


def test_wordings_without_a_significant_effect_are_not_called_equal():
    """A random judge on 20 samples excludes only large shifts, and the sentence says which."""
    draws = random.Random(3)
    world = Planted(n=20, n_labeled=20)
    judge = FakeJudge(lambda _: draws.choice([20, 70]), name="dice")
    card = judge_card(
        world.yes_no, world.rows, judge=judge, metrics="ccrs.cc", conditions=["wording"], repeats=1, n_resamples=50
    )
    effects = card.judges[0].metrics[0].effects_of("wording")
    widest = max(max(-each.difference.low, each.difference.high) for each in effects)
    (sentence,) = (sentence for sentence in card.findings() if "wordings" in sentence)
    shift = int(sentence.split("a shift above ")[1].split()[0])
    assert sentence.startswith("ccrs.cc: no effect of 3 wordings on the mean found (a shift above")
    assert 10 < widest <= shift + 0.05 < widest + 1.1


def test_text_fits_a_terminal(planted, monkeypatch):
    """No line of a table is longer than 80 columns, and JSON does not have NaN."""
    monkeypatch.setenv("COLUMNS", "80")
    tables = [line for line in str(planted[1]).split("\n") if "  " in line]
    assert len(tables) > 20
    assert max(map(len, tables)) <= 80
    assert "ccrs.cc  order reversed  50" in str(planted[1])
    assert "not measured: reasoned (research.conditions)" in str(planted[1])
    json.dumps(planted[1].to_dict(), allow_nan=False)


def test_reasoned_scores_are_compared_with_the_judges_own():
    """The judge with its reasons first has the same model, and its scores are kept apart."""
    world = Planted(n=20, n_labeled=20)

    def reply(messages):
        asked = messages[-1]["content"]
        high = world.true[int(asked.split("question ")[1].split("\n")[0])] > 50
        return {f"Because.\nScore: {90 if high else 5}" if "Score: N" in asked else f"{60 if high else 40}": 1.0}

    judge = ModelJudge(ScriptedModel(reply))
    card = judge_card(
        world.yes_no, world.rows, judge=judge, metrics="ccrs.cc", conditions=["reasoned"], n_resamples=200
    )
    found = effect(card.judges[0].metrics[0], "reasoned")
    high = sum(value > 50 for value in world.true)
    assert (30 * high - 35 * (20 - high)) / 20 == pytest.approx(found.difference.value)
    assert {"scripted model", "scripted model (reasoned)"} == {o.judge for o in card.outcomes} or 2 == len(
        {o.judge_hash for o in card.outcomes}
    )
    with pytest.raises(
        ConfigurationError, match="the condition 'reasoned' needs a judge with a model, and 'fake judge' does"
    ):
        judge_card(world.yes_no, world.rows, judge=world.judge, conditions=["reasoned"])
    with pytest.raises(ConfigurationError, match="uses it already"):
        judge_card(world.yes_no, world.rows, judge=judge.with_score_mode("reasoned"), conditions=["reasoned"])


def test_wording_changes_only_the_task():
    """Same fields, metric and version; the judge of these outcomes has another name and hash."""
    world = Planted(n=12, n_labeled=12, noise=0)
    card = judge_card(world.yes_no, world.rows, judge=world.judge, metrics="ccrs.cc", repeats=1, conditions=["wording"])
    by_task = {}
    for prompt in world.judge.prompts:
        by_task.setdefault(prompt.task, []).append(sorted(prompt.fields.items()))
    usual, first, second = by_task.values()
    assert sorted(usual) == sorted(first) == sorted(second)
    judges = {o.judge: o.judge_hash for o in card.outcomes}
    assert ["fake judge", "fake judge (wording 1)", "fake judge (wording 2)"] == sorted(judges)
    assert 3 == len(set(judges.values()))
    assert 1 == len({(o.metric, o.metric_version) for o in card.outcomes})
    assert card.judges[0].metrics[0].repeats is None
    assert card.judges[0].metrics[0].variance.is_confounded


def test_order_needs_two_different_passages():
    """Samples with one passage, or one passage twice, are not counted."""
    world = Planted(n=30, n_labeled=30)
    for row in world.rows[:10]:
        row["contexts"] = row["contexts"][:1] * (1 + (row["id"] > "s5"))
    card = judge_card(world.yes_no, world.rows, judge=world.judge, metrics="ccrs.cc", conditions=["order"])
    found = effect(card.judges[0].metrics[0], "order reversed")
    assert 20 == found.n
    orders = {prompt.fields["contexts"][0].split()[0] for prompt in world.judge.prompts}
    assert {"first", "second", "last"} == orders


def test_two_judges(monkeypatch):
    """Both are described, in one table of agreement with people, and the variance is split between them too."""
    monkeypatch.setenv("COLUMNS", "400")
    worlds = [Planted(name=name) for name in ("one", "other")]
    card = judge_card(
        worlds[0].yes_no, worlds[0].rows, judge=[world.judge for world in worlds], metrics="ccrs.cc", n_resamples=200
    )
    assert ["one", "other"] == [judge.judge for judge in card.judges]
    split = card.joint["ccrs.cc"]
    assert split.component("judge") is not None
    # Each judge takes other samples for the other level, in 10% of cases.
    assert split.component("question", "judge").sd.value > 10
    assert "one, ccrs.cc: agreement with people" in " ".join(card.findings())
    assert any("of the variance, and" in sentence for sentence in card.findings())
    assert "all judges" in str(card)
    head, _, *rows = str(card)[str(card).index("agreement with people  ") :].split("\n")[:4]
    assert "judge - people [95% CI]" == head.split("  ")[-1].strip()
    assert ["one", "other"] == [row.split("  ")[1].strip() for row in rows]


def test_rows_of_labels_are_the_samples_without_data():
    """All are labeled then, so that the corrected mean is not available."""
    world = Planted(n=30, n_labeled=30)
    labels = {row["id"]: row["ccrs.cc"] for row in world.yes_no}
    rows = [{**row, "ccrs.cc": labels[row["id"]]} for row in world.rows]
    card = judge_card(rows, judge=world.judge, conditions=())
    (report,) = card.judges[0].metrics
    assert (30, None) == (report.agreement.n, report.agreement.human_mean)
    assert "no prediction-powered mean: it needs at least two scored samples without a label" in str(card)


def test_several_raters():
    """The agreement among people is the measure for that of the judge."""
    world = Planted(n=40, n_labeled=40)
    rng = random.Random(1)
    labels = [
        {**row, "rater": rater, "ccrs.cc": row["ccrs.cc"] if rng.random() < 0.9 else "no"}
        for row in world.yes_no
        for rater in ("ann", "bob")
    ]
    card = judge_card(
        [*labels, {"id": "x1", "ccrs.cc": 1}], world.rows, judge=world.judge, conditions=(), n_resamples=200
    )
    report = card.judges[0].metrics[0].agreement
    assert 40 == report.n
    sentence = next(sentence for sentence in card.findings() if "people agree with each other" in sentence)
    assert f"alpha {report.people.coefficient.value:.2f} [" in sentence
    assert f"the judge with people with alpha {report.krippendorff.coefficient.value:.2f} [" in sentence
    assert "ignored: labels of 1 ids that no sample has" in str(card)


def test_samples_of_the_conditions_are_drawn():
    """At most `max_crossed` labeled ones; the same for the same seed."""
    world = Planted()
    plans = [
        plan_judge_card(world.yes_no, world.rows, metrics="ccrs.cc", max_crossed=20, seed=seed) for seed in (1, 1, 2)
    ]
    ids = [[sample.id for sample in plan.crossed] for plan in plans]
    assert ids[0] == ids[1] != ids[2]
    labeled = {row["id"] for row in world.yes_no}
    assert all(len(set(some)) == 20 and set(some) <= labeled for some in ids)


def test_estimated_calls_are_those_of_the_run():
    """CCRS needs the same number of calls for every sample."""
    world = Planted()
    plan = plan_judge_card(world.yes_no, world.rows, metrics="ccrs")
    judge_card(world.yes_no, world.rows, judge=world.judge, metrics="ccrs", n_resamples=50)
    assert plan.usage.calls == len(world.judge.prompts) == 120 * 5 + 50 * 5 * (1 + 2 * 2 + 2)
    assert plan.n_scored == 120 + 50 * 7
    assert "80 labeled of 120 samples, 5 metrics, 1 judge, 8 runs each" in str(plan)
    assert "with 80 labels, the 95% interval of a kappa of 0.6 is about 0.42 to 0.78" in str(plan)


def test_repeats_are_new_replies_and_a_second_run_is_free(tmp_path):
    """Cached replies of one repeat do not serve another one, and all serve the next run."""
    world = Planted(n=12, n_labeled=12)
    counts = []
    with FakeJudgeServer() as server:
        for _ in range(2):
            judge = OpenAICompatibleJudge(server.url, cache=str(tmp_path), max_concurrent_requests=4)
            card = judge_card(
                world.yes_no,
                world.rows,
                judge=judge,
                metrics="ccrs.cc",
                repeats=3,
                conditions=["repeats"],
            )
            usage = [cost.usage for cost in card.judges[0].costs]
            counts.append((sum(u.calls for u in usage), sum(u.cached for u in usage)))
    (calls, cached), (calls_again, cached_again) = counts
    assert calls >= 36
    assert cached == 0
    assert (0, 36) == (calls_again, cached_again)


def test_exhausted_budget_leaves_an_incomplete_card():
    """The sentences say so."""
    world = Planted(n=12, n_labeled=12)
    with FakeJudgeServer() as server:
        judge = OpenAICompatibleJudge(server.url, budget=Budget(calls=20), max_concurrent_requests=1)
        card = judge_card(
            world.yes_no,
            world.rows,
            judge=judge,
            metrics="ccrs.cc",
            conditions=["wording"],
            repeats=1,
        )
    assert not card.judges[0].is_complete
    assert "the budget was exhausted" in " ".join(card.findings())
    assert card.judges[0].n_failed > 0


def test_default_metrics_are_those_of_the_labels():
    """Columns, or the values of a column `metric`; otherwise ccrs."""
    world = Planted(n=12, n_labeled=12)
    by_row = [{"id": row["id"], "metric": "ragas.faithfulness", "label": row["ccrs.cc"]} for row in world.yes_no]
    plain = [{"id": row["id"], "label": row["ccrs.cc"]} for row in world.yes_no]
    names = [
        [metric.card.name for metric in plan_judge_card(labels, world.rows).metrics]
        for labels in (world.yes_no, by_row, plain)
    ]
    assert [["ccrs.cc"], ["ragas.faithfulness"], ["ccrs.cc", "ccrs.qr", "ccrs.id", "ccrs.ac", "ccrs.ir"]] == names


@pytest.mark.parametrize(
    ("changes", "kind", "message"),
    [
        ({"labels": [{"id": f"x{i}", "label": 1} for i in range(20)]}, DataError, "no label has the id of a sample .labels: 'x0'"),
        ({"label_columns": ["grade"]}, DataError, "does not have a column 'grade'. Columns: id, ccrs.cc"),
        ({"labels": [{"id": "s0"}]}, DataError, "does not have a label"),
        ({"n": 7}, DataError, "ccrs.cc has 7 labeled samples, .* at least 10, better 50 to 200: with 7 labels, the 95% interval of a kappa"),
        ({"conditions": ["wordings"]}, ConfigurationError, "unknown condition 'wordings'. Conditions: wording, order, repeats"),
        ({"conditions": ["repeats"], "repeats": 1}, ConfigurationError, "'repeats' needs at least 2 repeats, got 1"),
        ({"repeats": 0}, ConfigurationError, "research.repeats must be an integer of at least 1, got 0"),
        ({"judge": []}, ConfigurationError, "needs at least one judge"),
        ({"judge": ["lexical", "lexical"]}, ConfigurationError, "the judge 'lexical' is given twice"),
        ({"metrics": "ccrs.qr", "labels": [{"id": f"s{i}", "metric": "ccrs.cc", "label": 1} for i in range(20)]}, DataError, "the labels belong to other metrics than the chosen ones .ccrs.qr."),
        ({"metrics": "ndcg@10"}, ConfigurationError, "'ndcg@10' needs no judge"),  # codespell:ignore
        ({"metrics": "udcg"}, ConfigurationError, "'udcg' needs a reader"),
        ({"metrics": "cosine"}, ConfigurationError, "'vera.answer_relevance_cosine' needs an embedder"),
        ({"metrics": "crux.density"}, ConfigurationError, "'crux.density' does not have two finite bounds"),
        ({"confidence_level": 95}, ConfigurationError, "confidence_level must be between 0 and 1, got 95. For 95% write 0.95"),
        ({"rows": [{"id": f"s{i}", "query": "?"} for i in range(20)]}, DataError, "ccrs.cc does not apply to any labeled sample"),
        ({"system": True}, DataError, "the labels belong to 2 systems .a, b."),
    ],
)  # fmt: skip
def test_invalid_input_costs_nothing(changes, kind, message):
    """The message has the value, the rule and the way out, and the judge is not called."""
    world = Planted(n=20, n_labeled=20)
    labels = changes.pop("labels", world.yes_no)[: changes.pop("n", None)]
    if changes.pop("system", False):
        labels = [{**row, "system": "ab"[n % 2]} for n, row in enumerate(labels)]
    rows = changes.pop("rows", world.rows)
    with pytest.raises(kind, match=message):
        judge_card(labels, rows, **{"judge": world.judge, "metrics": "ccrs.cc", **changes})
    assert [] == world.judge.prompts


def test_same_judge_object_twice():
    """The name in the message is that of the judge."""
    world = Planted(n=12, n_labeled=12)
    with pytest.raises(ConfigurationError, match="the judge 'fake judge' is given twice"):
        judge_card(world.yes_no, world.rows, judge=[world.judge, world.judge])
    assert [] == world.judge.prompts


def test_a_systematic_failure_stops_the_card():
    """After the first run's failures, not after those of all conditions."""
    from ragstone.errors import JudgeError

    world = Planted(n=60, n_labeled=60)
    judge = FakeJudge(50, fail=lambda prompt: JudgeError("the model does not exist", kind="rejected"))
    with pytest.raises(JudgeError, match="the run was stopped after"):
        judge_card(world.yes_no, world.rows, judge=judge, metrics="ccrs.cc")
    assert len(judge.prompts) < 60


def test_failures_are_excluded_and_counted():
    """A sample that fails in one condition is in no effect of this condition, and the variance uses the others."""
    world = Planted(n=30, n_labeled=30)
    from ragstone.errors import JudgeReplyError

    def fail(prompt):
        refuses = prompt.task.startswith("Task:") and zlib.crc32(prompt.fields["query"].encode()) % 5 == 0
        return JudgeReplyError("no number", raw="?") if refuses else None

    judge = FakeJudge(world.number, fail=fail)
    card = judge_card(world.yes_no, world.rows, judge=judge, metrics="ccrs.cc", conditions=["wording"], repeats=1)
    failed = sum(zlib.crc32(row["query"].encode()) % 5 == 0 for row in world.rows)
    report = card.judges[0].metrics[0]
    assert 0 < failed == effect(report, "wording 1").n_unscored == card.judges[0].n_failed
    assert 30 - failed == report.variance.n_levels["question"]


def self_preference(extra, *, own="m", n_own=30, **models):
    """The card of a judge that rates answers of `own` higher by `extra` points than people and others do."""
    rng = random.Random(3)
    rows = [
        {"id": f"s{i}", "query": f"question {i}", "contexts": ["c"], "response": f"answer {i}",
         **({} if model is None else {"model": model})}
        for i, model in enumerate(models.get("names") or [own] * n_own + ["other"] * 30)
    ]  # fmt: skip
    labels = [{"id": row["id"], "ccrs.cc": (30 + rng.randint(0, 40)) / 100} for row in rows]
    people = {row["query"]: 100 * label["ccrs.cc"] for row, label in zip(rows, labels, strict=True)}
    is_own = {row["query"]: row.get("model") == own for row in rows}

    def number(prompt):
        query = prompt.fields["query"]
        return people[query] + rng.gauss(5, 3) + extra * is_own[query]

    judge = FakeJudge(number, name=f"{own.upper()} at host:8000")
    card = judge_card(labels, rows, judge=judge, metrics="ccrs.cc", conditions=(), n_resamples=50, label_range=(0, 1))
    return card, card.judges[0].metrics[0].self_preference


def test_a_planted_self_preference_is_found():
    """The difference of judge - people between the judge's model and others, without the bias for all answers."""
    card, found = self_preference(12)
    assert 12 == pytest.approx(found.difference.value, abs=2.5)
    assert 0 < found.difference.low < 12 < found.difference.high
    assert (30, 30, 0) == (found.n_own, found.n_other, found.n_unknown)
    assert "the judge rates answers of its own model better, compared with people and other models: +1" in str(card)
    assert found.difference.value == card.to_dict()["judges"][0]["metrics"][0]["self_preference"]["difference"]["value"]


def test_no_self_preference():
    """An interval with 0 is no finding; answers of an unknown model are left out and counted."""
    card, found = self_preference(0, names=["m"] * 25 + ["org/M"] * 5 + ["other"] * 30 + [None] * 7)
    assert found.difference.low < 0 < found.difference.high
    assert "no self-preference found" in str(card)
    assert "30 labeled answers of its own model, 30 of other models, 7 of an unknown model left out" in str(card)


@pytest.mark.parametrize("names", [[None] * 30, ["other"] * 30, ["m"] * 30])
def test_self_preference_that_is_not_known(names):
    """Without the model of an answer, or without answers of both kinds."""
    card, found = self_preference(9, names=names)
    assert found.difference is None
    assert "self-preference is not known" in str(card)


def test_labels_of_another_mix_than_the_traffic():
    """Rogan-Gladen stands beside the prediction-powered mean, which needs a random sample."""
    rng = random.Random(1)
    truth = [rng.random() < 0.8 for _ in range(400)]
    rows = [{"id": f"s{i}", "query": f"{i}", "contexts": ["c"], "response": "r"} for i in range(400)]
    chosen = [i for i in range(400) if not truth[i]][:40] + [i for i in range(400) if truth[i]][:40]
    labels = [{"id": f"s{i}", "ccrs.cc": int(truth[i])} for i in chosen]
    judge = FakeJudge(lambda prompt: 80 if (rng.random() < 0.9) == truth[int(prompt.fields["query"])] else 20)
    card = judge_card(labels, rows, judge=judge, metrics="ccrs.cc", conditions=(), n_resamples=50)
    found = card.judges[0].metrics[0].agreement
    share = sum(truth[i] for i in range(400) if i not in chosen) / 320
    assert found.rogan_gladen.low < share < found.rogan_gladen.high
    assert "correct of the 320 without a label by Rogan-Gladen" in str(card)
    assert "the labeled samples are probably not a random sample" in str(card)
