"""BERTScore and embedding similarity with real tiny models, against other implementations and by hand."""

from __future__ import annotations

import asyncio
import random

import pytest

from builders import make_sample
from ragstone.errors import ConfigurationError
from ragstone.metrics import resolve_metrics
from ragstone.metrics.semantic import BertScore, EmbeddingSimilarity
from ragstone.testing import FakeJudge

pytestmark = [
    pytest.mark.models,
    pytest.mark.filterwarnings("default"),  # torch's and those of the models' libraries: not ours to repair
]

WORDS = ["the", "tower", "is", "31", "meters", "tall", "high", "ferries", "leave", "at", "noon", "x,y", "über", "塔"]


def score(metric, response, *references):
    return asyncio.run(metric.score(make_sample(response=response, reference=references), FakeJudge()))


def texts(seed, n):
    rng = random.Random(seed)
    return [" ".join(rng.choices(WORDS, k=rng.randint(1, 12))) for _ in range(n)]


@pytest.mark.parametrize("layer", [1, 2, 3])
def test_bertscore_is_that_of_its_authors(encoder, layer):
    """P, R and F1 as bert-score has them, for pairs one at a time (it lets padding be matched)."""
    from bert_score import BERTScorer

    theirs = BERTScorer(model_type=encoder, num_layers=layer, idf=False, device="cpu")
    ours = BertScore(encoder, layer=layer, device="cpu")
    for response, reference in zip(texts(1, 12), texts(2, 12), strict=True):
        p, r, f1 = (float(each[0]) for each in theirs.score([response], [reference]))
        outcome = score(ours, response, reference)
        assert (p, r, f1) == pytest.approx(
            (outcome.details["precision"], outcome.details["recall"], outcome.value), abs=1e-5
        )
        assert layer == outcome.details["layer"]


def test_bertscore_by_hand(encoder):
    """The greedy match of vectors of one layer; tokens around the text can be matched and have no weight."""
    import torch
    from transformers import AutoModel, AutoTokenizer

    model, tokeniser = AutoModel.from_pretrained(encoder).eval(), AutoTokenizer.from_pretrained(encoder)

    def vectors(text):
        with torch.no_grad():
            hidden = model(**tokeniser(text, return_tensors="pt"), output_hidden_states=True).hidden_states[2][0]
        return hidden / hidden.norm(dim=-1, keepdim=True)

    a, b = vectors("the tower is tall"), vectors("ferries leave")
    cosines = a @ b.T
    precision = cosines[1:-1].max(dim=1).values.mean().item()
    recall = cosines[:, 1:-1].max(dim=0).values.mean().item()
    outcome = score(BertScore(encoder, layer=2), "the tower is tall", "ferries leave")
    assert (precision, recall) == pytest.approx((outcome.details["precision"], outcome.details["recall"]), abs=1e-5)


def test_embedding_similarity_is_the_cosine(embedder):
    """Of the vectors that sentence-transformers gives, and the best of several references."""
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(embedder, device="cpu")
    response, *references = texts(3, 4)
    vectors = model.encode([response, *references])
    cosines = [float(model.similarity(vectors[0], vector)) for vector in vectors[1:]]
    outcome = score(EmbeddingSimilarity(embedder, device="cpu"), response, *references)
    assert max(cosines) == pytest.approx(outcome.value, abs=1e-5)
    assert cosines.index(max(cosines)) + 1 == outcome.details["reference"]
    assert embedder == outcome.details["model"]


@pytest.fixture
def metrics(encoder, embedder):
    return [BertScore(encoder), EmbeddingSimilarity(embedder)]


def test_the_same_text_is_the_same(metrics):
    """By any model; a blank reference is skipped and shifts no position."""
    for metric in metrics:
        outcome = score(metric, "the tower is tall", "", "ferries leave", "the tower is tall")
        assert pytest.approx(1, abs=1e-5) == outcome.value
        assert outcome.value <= 1
        assert 3 == outcome.details["reference"]


@pytest.mark.parametrize("response", ["", " \n"])
def test_an_empty_response_scores_zero(metrics, response):
    """It has no direction, and is worth no more than one that is unrelated."""
    for metric in metrics:
        outcome = score(metric, response, "the tower")
        assert (0, "empty_response") == (outcome.value, outcome.method)


def test_a_text_that_is_cut_says_so(metrics):
    """The models read 1024 and 16 tokens; longer texts are scored by their beginning."""
    for metric in metrics:
        assert not score(metric, "the tower", "tall").details["truncated"]
        cut = score(metric, "the tower " * 600, "tall")
        assert cut.details["truncated"]
        assert cut.value == pytest.approx(score(metric, "the tower " * 600 + "ferries", "tall").value, abs=1e-6)


def test_a_text_without_a_token(encoder):
    """Control characters are dropped by the tokenizer, so there is nothing to compare."""
    outcome = score(BertScore(encoder), "\x00\x01", "tall")
    assert "not_applicable" == outcome.outcome
    assert "returns no tokens" in outcome.reason


def test_names_with_a_model(encoder, embedder):
    """`NAME@MODEL` loads that model, `bertscore@MODEL,layer=LAYER` that layer, and the case of a folder's name is kept."""
    bert, layer, embedding = resolve_metrics(
        [f"bertscore@{encoder}", f"bertscore@{encoder},layer=1", f"embedding_similarity@{embedder}"]
    )
    assert [f"bertscore@{encoder}", f"bertscore@{encoder},layer=1"] == [bert.card.name, layer.card.name]
    assert 3 == len({metric.card.version for metric in (bert, layer, embedding)})
    assert score(bert, "tall", "high").value != score(layer, "tall", "high").value
    assert -1 < score(embedding, "tall", "high").value < 1


@pytest.mark.parametrize("make", [BertScore, EmbeddingSimilarity])
def test_a_model_that_cannot_be_loaded(make, tmp_path):
    """Its name, the reason and the way out; remembered, because asking a hub again may take minutes."""
    metric = make(str(tmp_path / "no-model"))
    for ask in (metric.prepare, lambda: metric.score(make_sample(), FakeJudge())):
        with pytest.raises(ConfigurationError, match=r"cannot load its model '.*no-model' \(.*Check the name"):
            asyncio.run(ask())


def test_a_layer_that_the_model_does_not_have(encoder):
    """Three there are, and the embeddings below."""
    with pytest.raises(ConfigurationError, match=r"The metric 'bertscore@.*,layer=4': layer must be at most 3"):
        asyncio.run(BertScore(encoder, layer=4).prepare())
    asyncio.run(BertScore(encoder, layer=0).prepare())


def test_many_samples_at_once(metrics):
    """One thread takes them in turn: the values are those of one after the other."""

    async def together(metric, pairs):
        samples = [make_sample(response=a, reference=(b,)) for a, b in pairs]
        return [each.value for each in await asyncio.gather(*(metric.score(s, FakeJudge()) for s in samples))]

    pairs = list(zip(texts(4, 20), texts(5, 20), strict=True))
    for metric in metrics:
        assert [score(metric, *pair).value for pair in pairs] == pytest.approx(
            asyncio.run(together(metric, pairs)), abs=1e-6
        )
