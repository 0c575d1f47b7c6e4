"""The embedder in this process with a real tiny model: vectors, texts that are too long, and metrics that use it."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from builders import make_sample
from ragstone.errors import ConfigurationError, JudgeRejectedError
from ragstone.judges import embedder_from
from ragstone.judges.embedder import LocalEmbedder
from ragstone.metrics.cosine import VeraAnswerRelevanceCosine
from ragstone.schema import Score
from ragstone.scoring import Scorer
from ragstone.testing import FakeJudge

pytestmark = [pytest.mark.models, pytest.mark.filterwarnings("default")]

TEXTS = ("the tower is tall", "the tower is high", "ferries leave", "the tower is tall")


def test_vectors_are_those_of_the_library(embedder):
    """With length 1, in the order of the texts, also in batches of one."""
    from sentence_transformers import SentenceTransformer

    expected = SentenceTransformer(embedder, device="cpu").encode(list(TEXTS), normalize_embeddings=True)
    for batch_size in (1, 64):
        made = embedder_from(f"local:{embedder}", device="cpu", batch_size=batch_size)
        assert isinstance(made, LocalEmbedder)
        rows = asyncio.run(made.embed(TEXTS))
        assert np.allclose(rows, expected, atol=1e-5)
        assert np.allclose(np.linalg.norm(rows, axis=1), 1)


def test_a_text_that_is_too_long_is_refused(embedder):
    """The tiny model reads 16 tokens; a vector of the beginning would not be one of the text."""
    with pytest.raises(JudgeRejectedError, match=r"reads 16\. Use a model with a longer input") as caught:
        asyncio.run(LocalEmbedder(embedder, device="cpu").embed(["tall " * 20]))
    assert "prompt_truncated" == caught.value.kind


def test_the_identity_has_the_dimension(embedder):
    """It is final after the model was loaded, and the same for every object."""
    one, two = (LocalEmbedder(embedder, device="cpu") for _ in range(2))
    before = one.identity.hash
    for made in (one, two):
        asyncio.run(made.prepare())
    assert before != one.identity.hash == two.identity.hash


def test_a_directory_without_a_model(tmp_path):
    """Without a network, the message says what to pass."""
    with pytest.raises(ConfigurationError, match=r"cannot load its model .*pass the directory of a downloaded model"):
        asyncio.run(LocalEmbedder(str(tmp_path / "nothing")).prepare())


def test_a_metric_with_a_local_embedder(embedder):
    """The same question has a cosine of 1, another one less."""
    values = []
    for question in ("how tall is it", "ferries leave at noon"):
        judge = FakeJudge(json={"answer_questions": {"items": [question]}})
        metric = VeraAnswerRelevanceCosine(LocalEmbedder(embedder, device="cpu"))
        scorer = Scorer([metric], judge)
        asyncio.run(scorer.prepare())
        (outcome,) = asyncio.run(scorer.score(make_sample(query="how tall is it", response="it is tall")))
        assert isinstance(outcome, Score)
        assert f"fake judge, embedded by {embedder} in this process" == outcome.judge
        values.append(outcome.value)
    assert pytest.approx(1.0) == values[0]
    assert values[1] < 0.999
