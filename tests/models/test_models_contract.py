"""What every metric promises, kept by those that load a model: the tests of `tests/contract`, with tiny models."""

from __future__ import annotations

import importlib.util
import inspect
from pathlib import Path

import pytest

from ragstone.metrics import VeraComposite
from ragstone.metrics.semantic import BertScore, EmbeddingSimilarity

pytestmark = [pytest.mark.models, pytest.mark.filterwarnings("default")]


def _contract():
    path = Path(__file__).parents[1] / "contract" / "test_metric_contract.py"
    spec = importlib.util.spec_from_file_location("metric_contract", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


CONTRACT = _contract()
PROMISES = [
    name
    for name, promise in vars(CONTRACT).items()
    if name.startswith("test_") and ["metric"] == list(inspect.signature(promise).parameters)
]


@pytest.fixture(scope="session")
def metrics(encoder, embedder, cross_encoder):
    """One of each, loaded once for all promises."""
    made = (BertScore(encoder), EmbeddingSimilarity(embedder), VeraComposite(model=cross_encoder))
    return dict(zip(("bertscore", "embedding_similarity", "vera.composite"), made, strict=True))


def test_there_are_promises():
    """The contract was found."""
    assert len(PROMISES) >= 8


@pytest.mark.parametrize("promise", PROMISES)
@pytest.mark.parametrize("name", ["bertscore", "embedding_similarity", "vera.composite"])
def test_promise(promise, name, metrics):
    """Kept by a metric with a tiny model."""
    getattr(CONTRACT, promise)(metrics[name])
