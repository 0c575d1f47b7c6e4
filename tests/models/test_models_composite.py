"""VERA's composite with a real tiny cross-encoder: the logit, what is stated, and what is cut."""

from __future__ import annotations

import asyncio
import math

import pytest

from builders import make_sample
from ragstone.errors import ConfigurationError, JudgeError
from ragstone.metrics import VeraComposite, resolve_metrics
from ragstone.metrics.ccrs import QuestionRelevance
from ragstone.schema import Failure, NotApplicable
from ragstone.scoring import Scorer
from ragstone.testing import FakeJudge

pytestmark = [pytest.mark.models, pytest.mark.filterwarnings("default")]

SAMPLE = {"query": "how tall is it", "response": "it is tall", "contexts": ("the tower is 31 meters tall",)}


def score(metric, judge=None, **fields):
    sample = make_sample(**{**SAMPLE, **fields})
    (outcome,) = asyncio.run(Scorer([metric], judge or FakeJudge(80)).score(sample))
    return outcome


@pytest.fixture(scope="session")
def metric(cross_encoder):
    return VeraComposite([QuestionRelevance()], model=cross_encoder, device="cpu")


def test_the_value_is_the_models_logit(metric, cross_encoder):
    """Of the question and the response, followed by what was measured and by the passages."""
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    tokeniser = AutoTokenizer.from_pretrained(cross_encoder)
    model = AutoModelForSequenceClassification.from_pretrained(cross_encoder).eval()
    stated = (
        "Question relevance asks: Does the response answer the query, directly and completely? "
        "From 0 to 1, more is better; here it is 0.80."
    )
    text = f"it is tall\n\n{stated}\n\nthe tower is 31 meters tall"
    with torch.no_grad():
        expected = model(**tokeniser(SAMPLE["query"], text, return_tensors="pt")).logits.item()
    outcome = score(metric)
    assert expected == pytest.approx(outcome.value, abs=1e-4)
    assert 1 / (1 + math.exp(-expected)) == pytest.approx(outcome.details["logistic"], abs=1e-4)
    assert ({"ccrs.qr": 0.8}, []) == (outcome.details["parts"], outcome.details["cut"])
    assert "cross_encoder" == outcome.method


def test_the_baseline_reads_no_metric_values_and_needs_no_judge(cross_encoder):
    """Only the statements are missing: the logit of the question with response and passages, under a name of its own."""
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    tokeniser = AutoTokenizer.from_pretrained(cross_encoder)
    model = AutoModelForSequenceClassification.from_pretrained(cross_encoder).eval()
    text = "it is tall\n\nthe tower is 31 meters tall"
    with torch.no_grad():
        expected = model(**tokeniser(SAMPLE["query"], text, return_tensors="pt")).logits.item()
    judge = FakeJudge()
    outcome = score(VeraComposite(model=cross_encoder, device="cpu", statements=False), judge)
    assert expected == pytest.approx(outcome.value, abs=1e-4)
    assert ([], {}) == (judge.prompts, outcome.details["parts"])


def test_other_scores_give_another_value(metric):
    """What was measured is read by the model."""
    assert score(metric, FakeJudge(80)).value != score(metric, FakeJudge(10)).value


def test_what_is_too_long_is_cut_from_the_end_of_what_matters_least(metric):
    """First the passages, then the response; the statements are always read."""
    many = score(metric, contexts=("the tower is tall " * 400,))
    assert ["passages"] == many.details["cut"]
    long = score(metric, response="the tower is tall " * 400)
    assert ["response", "passages"] == long.details["cut"]
    assert long.value != score(metric, FakeJudge(10), response="the tower is tall " * 400).value
    outcome = score(metric, query="how tall " * 500)
    assert isinstance(outcome, NotApplicable)
    assert "exceed the model's limit of 1024 tokens" in outcome.reason


def test_parts_that_have_no_value(metric, cross_encoder):
    """A part that is not applicable or failed makes the whole so, and is named."""
    vera = VeraComposite(model=cross_encoder)
    outcome = score(vera, contexts=())
    assert isinstance(outcome, NotApplicable)
    assert "is not applicable: " in outcome.reason
    failed = score(metric, FakeJudge(fail=lambda prompt: JudgeError("down", kind="refused")))
    assert isinstance(failed, Failure)
    assert ("refused", metric.card.name) == (failed.kind, failed.metric)


def test_the_four_metrics_of_the_source(cross_encoder):
    """By name with a model of one's own: all four values are stated, and no reference is needed."""
    (vera,) = resolve_metrics(f"vera.composite@{cross_encoder}")
    assert {"query", "response", "contexts"} == set(vera.needs)
    example = vera.card.example
    judge = FakeJudge(json=lambda prompt: example.replies[prompt.construct])
    outcome = score(vera, judge, **example.row, reference=())
    stated = {
        "vera.faithfulness": 1.0,
        "vera.groundedness": 1.0,
        "vera.retrieval_precision": 0.5,
        "vera.answer_relevance": 0.9,
    }
    assert (stated, []) == (outcome.details["parts"], outcome.details["cut"])


def test_models_that_are_none(tmp_path, tokeniser, configuration):
    """One number is a composite; three are not, and no parts are nothing to state."""
    import copy

    from transformers import BertForSequenceClassification

    three = copy.deepcopy(configuration)
    three.num_labels = 3
    BertForSequenceClassification(three).save_pretrained(tmp_path)
    tokeniser.save_pretrained(tmp_path)
    with pytest.raises(ConfigurationError, match="has 3 outputs"):
        asyncio.run(VeraComposite(model=str(tmp_path)).prepare())
    with pytest.raises(ConfigurationError, match="at least one metric"):
        VeraComposite([])
