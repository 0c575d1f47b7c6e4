"""The judge card of a real model: planted agreement and bias, and the effects of all conditions on its scores."""

from __future__ import annotations

import random

import pytest

import ragstone
from ragstone.stats import cohen_kappa
from ragstone_lab import judge_card

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(1800)]

METRICS = ("ccrs.id", "ccrs.ir")
"""The tiny judge gives nearly all samples a 0 for the other constructs."""
N, N_LABELED = 61, 60
ERROR = 0.15
"""Share of labels that contradict the judge."""
LOWER = 0.8
"""People's graded labels are this share of the judge's scores."""


@pytest.fixture(scope="module")
def scored(trainer, judge_url):
    """Samples, and the judge's scores by metric and sample."""
    # Those of the demo have several passages, and the random ones more kinds of answers.
    samples = [*trainer.random_samples(N, seed=23), *trainer.demo_samples()]
    scores = {metric: {} for metric in METRICS}
    for outcome in ragstone.evaluate(samples, METRICS, judge=judge_url).outcomes:
        if isinstance(outcome, ragstone.Score):
            scores[outcome.metric][outcome.sample_id] = outcome.value
    assert all(len(by_sample) >= 0.8 * len(samples) for by_sample in scores.values())
    return samples, scores


@pytest.fixture(scope="module")
def labels(scored):
    """Planted labels for a random part: graded labels below the scores, and yes/no with errors. And those of all samples."""
    _, scores = scored
    rng = random.Random(5)
    graded = {id_: LOWER * value for id_, value in scores["ccrs.id"].items()}
    yes_no = {id_: (value >= 0.5) != (rng.random() < ERROR) for id_, value in scores["ccrs.ir"].items()}
    ids = rng.sample(sorted(graded.keys() & yes_no.keys()), N_LABELED)
    rows = [
        {"id": id_, "metric": "ccrs.id", "label": graded[id_] + rng.uniform(-0.02, 0.02) * graded[id_]} for id_ in ids
    ]
    return rows, [{"id": id_, "metric": "ccrs.ir", "label": yes_no[id_]} for id_ in ids], graded, yes_no


def test_card_of_a_tiny_judge(judge_url, scored, labels, tmp_path, monkeypatch, record_property):
    """Kappa and bias of all samples are in the intervals from the labeled ones; a second card is free."""
    monkeypatch.setenv("RAGSTONE_CACHE", str(tmp_path))
    samples, scores = scored
    graded_rows, yes_no_rows, graded, yes_no = labels
    rows = [*graded_rows, *({**row, "label": int(row["label"])} for row in yes_no_rows)]
    options = {"judge": judge_url, "metrics": METRICS, "max_crossed": 30, "n_resamples": 500}
    conditions = ["wording", "order", "repeats", "reasoned"]
    card = judge_card(rows, samples, conditions=conditions, **options)
    print(card)
    (judge,) = card.judges
    by_name = {report.metric: report for report in judge.metrics}

    bias = by_name["ccrs.id"].agreement.bias
    true_bias = sum(scores["ccrs.id"][id_] - label for id_, label in graded.items()) / len(graded)
    assert bias.low < true_bias < bias.high
    name, coefficient = by_name["ccrs.id"].agreement.coefficient
    assert ("Spearman", True) == (name, coefficient.value > 0.6)

    both = sorted(yes_no)
    true_kappa = cohen_kappa([int(yes_no[id_]) for id_ in both], [int(scores["ccrs.ir"][id_] >= 0.5) for id_ in both])
    kappa = by_name["ccrs.ir"].agreement.coefficient[1]
    assert kappa.low < true_kappa.coefficient.value < kappa.high

    mean = by_name["ccrs.id"].agreement.human_mean
    true_mean = sum(graded.values()) / len(graded)
    assert mean.estimate.low < true_mean < mean.estimate.high

    # vLLM repeats itself at temperature 0, up to batches of different sizes.
    assert by_name["ccrs.id"].repeats.spread < 5
    names = {cost.condition: cost for cost in judge.costs}
    assert {
        "base",
        "repeats",
        "wording 1",
        "wording 2",
        "order reversed",
        "order shuffled",
        "reasoned",
    } == names.keys()
    assert all(cost.usage.calls >= 1 for cost in names.values())
    for report in judge.metrics:
        for effect in report.effects:
            record_property(f"{report.metric} {effect.condition}", f"{effect.difference.value:+.1f} (n {effect.n})")
    assert card.findings()

    again = judge_card(rows, samples, conditions=["wording", "repeats"], **options)
    cached = [cost.usage for cost in again.judges[0].costs]
    assert 0 == sum(usage.calls for usage in cached)
    assert {r.metric: r.agreement for r in again.judges[0].metrics} == {r.metric: r.agreement for r in judge.metrics}
