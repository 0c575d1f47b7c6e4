"""Numbers that a user's judge, reader, embedder or metric returns: NaN, infinite and out-of-range ones become failures."""

from __future__ import annotations

import asyncio
import math
from typing import Any

import numpy as np
import pytest

from builders import make_sample
from fake_models import FakeEmbedder, FakeReader
from ragstone._util import local_model
from ragstone.errors import JudgeReplyError
from ragstone.judges import AbstentionEstimate, ChatReader, JsonReply, JudgeIdentity, NumberReply, bounded_number
from ragstone.metrics import EmbedderMetric, MetricBase, ReaderMetric, all_metrics
from ragstone.metrics.semantic._base import SemanticMetric
from ragstone.reading import sample_from_row
from ragstone.schema import Failure, Interval, NotApplicable, Passage, Sample, Score
from ragstone.scoring import Scorer
from ragstone.stats import describe
from ragstone.testing import FakeJudge
from scripted_model import ScriptedModel

BAD = (math.nan, math.inf, -math.inf, -1e3, 1e3)
CARDS = [metric for metric in all_metrics() if metric.card.example is not None]


class BadJudge(FakeJudge):
    """Returns one bad number wherever a number was requested, without the checks of the library's own judges."""

    def __init__(self, bad: float) -> None:
        super().__init__()
        self.bad = bad
        self.n_numbers = 0

    async def ask_number(self, prompt, *, low=0, high=100):
        self.n_numbers += 1
        return NumberReply(value=self.bad, raw="", method="single_reply")

    async def ask_json(self, prompt, schema, *, max_tokens=1024):
        reply = await super().ask_json(prompt, schema, max_tokens=max_tokens)
        return JsonReply(value=self._replaced(reply.value), raw="", method="json_reply")

    def _replaced(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {key: self._replaced(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self._replaced(item) for item in value]
        if isinstance(value, int | float):
            self.n_numbers += 1
            return self.bad
        return value


class BadReader(FakeReader):
    def __init__(self, bad: float, *, end: str) -> None:
        super().__init__()
        self.bad, self.end = bad, end

    async def estimate_abstention(self, query, passages):
        finite = self.bad if math.isfinite(self.bad) else 2.0
        ends = sorted((finite, 0.5)) if self.end == "interval" else (0.0, 1.0)
        return AbstentionEstimate(
            value=0.5 if self.end == "interval" else self.bad,
            interval=Interval(low=ends[0], high=ends[1], method="wilson"),
            method="monte_carlo",
        )


class BadEmbedder:
    """Returns what it is given for every text."""

    def __init__(self, rows) -> None:
        self.rows = rows
        self.identity = JudgeIdentity(name="mine", hash="0" * 16)

    async def embed(self, texts):
        return self.rows(len(texts))

    async def aclose(self) -> None:
        pass


class Own(MetricBase):
    """A metric of a user."""

    name, needs = "mine.number", ("response",)

    def __init__(self, made) -> None:
        self.made = made

    async def compute(self, sample, judge):
        return self.made(self, sample)


def sample_of(metric):
    return sample_from_row(metric.card.example.row, position=1)


def outcome_of(metric, judge, sample=None):
    if isinstance(metric, ReaderMetric) and metric.reader is None:
        metric = metric.with_reader(FakeReader())
    if isinstance(metric, EmbedderMetric) and metric.embedder is None:
        metric = metric.with_embedder(FakeEmbedder())
    return asyncio.run(Scorer([metric], judge).score(sample or sample_of(metric)))[0]


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("metric", [m for m in CARDS if m.card.asks_judge], ids=lambda m: m.card.name)
def test_a_judge_that_returns_a_bad_number_scores_nothing(metric, bad):
    """No metric turns it into a value."""
    judge = BadJudge(bad)
    sample = sample_of(metric)
    if metric.card.judge_calls_per_passage:
        # Without labels of the data, the judge is asked.
        passages = [passage.model_copy(update={"relevance": None}) for passage in sample.contexts or ()]
        sample = sample.model_copy(update={"contexts": tuple(passages), "ratings": None})
    outcome = outcome_of(metric, judge, sample)
    if judge.n_numbers:
        assert isinstance(outcome, Failure | NotApplicable), outcome
    if isinstance(outcome, NotApplicable):
        # A composite names its failed part.
        assert "is not applicable: " in outcome.reason or not judge.n_numbers


def test_an_interval_beyond_the_scale_scores_nothing():
    """It was cut to the range of the metric."""

    class Wide(FakeJudge):
        async def ask_number(self, prompt, *, low=0, high=100):
            return NumberReply(value=50, raw="", method="x", interval=Interval(low=-1e3, high=1e3, method="x"))

    (metric,) = (m for m in CARDS if m.card.name == "ccrs.qr")
    assert "unparseable" == outcome_of(metric, Wide()).kind


def test_most_judged_metrics_ask_for_a_number():
    """The test above is about them."""
    counted = [BadJudge(math.nan) for _ in CARDS]
    for judge, metric in zip(counted, CARDS, strict=True):
        outcome_of(metric, judge)
    assert sum(judge.n_numbers > 0 for judge in counted) >= 20


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("end", ["value", "interval"])
@pytest.mark.parametrize("metric", [m for m in CARDS if isinstance(m, ReaderMetric)], ids=lambda m: m.card.name)
def test_a_reader_that_returns_a_bad_probability_scores_nothing(metric, end, bad):
    """Neither as the value nor as an end of the interval."""
    outcome = outcome_of(metric.with_reader(BadReader(bad, end=end)), FakeJudge(1))
    assert isinstance(outcome, Failure), outcome
    assert "must be from 0 to 1" in outcome.reason


@pytest.mark.parametrize(
    "rows",
    [
        lambda n: np.full((n, 2), math.nan),
        lambda n: np.full((n, 2), math.inf),
        lambda n: np.zeros((n, 2)),
        lambda n: np.ones((n + 1, 2)),
        np.ones,
        lambda n: [["a"]] * n,
        lambda n: [[1.0, 0.0]] * (n - 1) + [[1.0]],
    ],
    ids=["nan", "inf", "zero", "too many", "flat", "text", "ragged"],
)
@pytest.mark.parametrize("metric", [m for m in CARDS if isinstance(m, EmbedderMetric)], ids=lambda m: m.card.name)
def test_an_embedder_that_returns_no_directions_scores_nothing(metric, rows):
    """A cosine of NaN was -1.0."""
    judge = FakeJudge(json={"answer_questions": {"items": ["How tall?"]}})
    outcome = outcome_of(metric.with_embedder(BadEmbedder(rows)), judge)
    assert isinstance(outcome, Failure), outcome
    assert "unparseable" == outcome.kind
    assert "the embedder mine" in outcome.reason


def test_the_length_of_a_vector_does_not_matter():
    """A cosine is about directions: vectors of the length 3 have the cosine of those of length 1."""
    (metric,) = (m for m in CARDS if m.card.name == "vera.answer_relevance_cosine")
    judge = FakeJudge(json={"answer_questions": {"items": ["How tall?"]}})
    embedder = BadEmbedder(lambda n: [[3.0, 0.0]] + [[3.0, 3.0]] * (n - 1))
    assert outcome_of(metric.with_embedder(embedder), judge).value == pytest.approx(0.5**0.5)


@pytest.mark.parametrize("bad", [*BAD, 1.1, -1.1])
def test_a_local_model_that_returns_a_bad_cosine_scores_nothing(bad, monkeypatch):
    """The value was cut to the range of a cosine."""
    monkeypatch.setattr(local_model, "check_installed", lambda *_: None)

    class Local(SemanticMetric):
        name = "mine.similarity"

        def __init__(self) -> None:
            super().__init__("model", device=None)

        def _load(self):
            return object()

        def _compared(self, model, response, references):
            return bad, 0, {}

    outcome = outcome_of(Local(), FakeJudge(), make_sample(response="a", reference=("b",)))
    assert isinstance(outcome, Failure), outcome
    assert "must be from -1 to 1" in outcome.reason


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("part", ["value", "interval"])
def test_a_metric_that_returns_a_bad_value_fails(part, bad):
    """A user's metric is checked like a built-in one."""

    def made(metric, sample):
        if part == "value":
            return metric.make_score(sample, bad, method="exact")
        interval = Interval.model_construct(low=min(bad, 0.5), high=max(bad, 0.5), confidence_level=0.95, method="x")
        return metric.make_score(sample, 0.5, method="exact").model_copy(update={"interval": interval})

    assert "bug" == outcome_of(Own(made), FakeJudge(), make_sample()).kind


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_labels_and_ratings_must_be_finite(bad):
    """Of a reranker or a person: a passage and a sample refuse them."""
    with pytest.raises(ValueError, match="finite"):
        Passage(text="a", relevance=bad)
    with pytest.raises(ValueError, match="finite"):
        Sample(id="a", ratings={"q": {"p": bad}})
    with pytest.raises(ValueError, match="finite"):
        Score(sample_id="a", metric="m", metric_version="1", value=bad, method="exact")


def test_the_judge_of_refusals_must_answer_on_its_scale():
    """80 of 1 was a refusal."""
    reader = ChatReader(ScriptedModel({"Oslo": 1.0}), estimator="monte_carlo", refusal_judge=BadJudge(80.0))
    with pytest.raises(JudgeReplyError, match="from 0 to 1, got 80"):
        asyncio.run(reader.estimate_abstention("Where?", ["In Oslo."]))


def test_rounding_errors_are_no_failures():
    """A sum of probabilities may be 1 + 2e-16, a cosine in single precision 1 + 1e-7."""
    assert 1.0 == bounded_number(1 + 1e-7, -1, 1, what="the cosine")
    assert 0.0 == bounded_number(-1e-12, 0, 1, what="the share")
    with pytest.raises(JudgeReplyError, match="the share must be from 0 to 1, got"):
        bounded_number(1.001, 0, 1, what="the share")


@pytest.mark.parametrize(
    ("values", "sd"),
    [
        ([1e300, -1e300, 1e300], 2e300 / math.sqrt(3)),
        ([1e-200, 3e-200], math.sqrt(2) * 1e-200),
        ([5e307, 5e307, 5e307], 0.0),
    ],
)
def test_spread_of_very_large_and_small_numbers(values, sd):
    """Squares of them overflow or underflow: the standard deviation was inf, or 0."""
    found = describe(values)
    assert found.sd == pytest.approx(sd, rel=1e-12)
    assert found.mean == pytest.approx(math.fsum(value / len(values) for value in values))
