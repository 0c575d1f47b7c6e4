"""Metrics that load a model, as far as they can be tested without one: loading, names, cutting, and arithmetic."""

from __future__ import annotations

import asyncio
import importlib.machinery
import importlib.util
import math
import os
import threading

import pytest

from builders import make_sample
from ragstone._util.local_model import LocalModel
from ragstone.errors import ConfigurationError, MissingExtraError
from ragstone.metrics import AnswerCorrectness, VeraComposite, resolve_metrics
from ragstone.metrics.semantic import SEMANTIC, BertScore, EmbeddingSimilarity
from ragstone.metrics.semantic._bertscore import f1_of
from ragstone.metrics.vera.composite import enriched
from ragstone.scoring import Scorer
from ragstone.testing import FakeJudge


def installed(monkeypatch, there):
    """Whether sentence-transformers seems to be installed."""
    real = importlib.util.find_spec
    spec = importlib.machinery.ModuleSpec("sentence_transformers", None) if there else None
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *rest: spec if name == "sentence_transformers" else real(name, *rest)
    )


@pytest.fixture
def made(monkeypatch):
    """A local model whose load is counted, and can be told to fail."""
    installed(monkeypatch, there=True)

    class Made:
        def __init__(self):
            self.loads, self.error, self.threads = 0, None, set()

        def load(self):
            self.loads += 1
            self.threads.add(threading.current_thread())
            if self.error is not None:
                raise self.error
            return f"model {self.loads}"

    made = Made()
    made.model = LocalModel(made.load, name="tiny", feature="The metric 'm'")
    return made


def test_a_model_is_loaded_once_in_a_thread_of_its_own(made):
    """However many ask at once, and from whichever loop; the loop's thread does nothing of it."""

    async def ask():
        return await asyncio.gather(*(made.model.run(lambda m: (m, threading.current_thread())) for _ in range(5)))

    answers = [*asyncio.run(ask()), *asyncio.run(ask())]
    assert {"model 1"} == {model for model, _ in answers}
    assert made.threads == {thread for _, thread in answers}
    assert threading.main_thread() not in made.threads
    assert 1 == made.loads


def test_the_loop_goes_on_while_a_model_loads(made):
    """Another task runs, and is what lets the load finish."""
    may_finish = threading.Event()
    load = made.load
    made.model._load = lambda: may_finish.wait(60) and load()

    async def ask():
        loading = asyncio.create_task(made.model.prepare())
        await asyncio.sleep(0)
        may_finish.set()
        await loading

    asyncio.run(ask())
    assert 1 == made.loads


def test_a_failed_load_is_remembered_until_prepared_again(made):
    """A thousand samples do not ask a hub a thousand times; who prepares again gets a new try."""
    made.error = OSError("\nno route to the hub\nsee the manual")
    for _ in range(3):
        with pytest.raises(ConfigurationError) as caught:
            asyncio.run(made.model.run(len))
    assert 1 == made.loads
    assert str(caught.value).startswith("The metric 'm' cannot load its model 'tiny' (OSError: no route to the hub). ")
    made.error = None
    asyncio.run(made.model.prepare())
    assert (5 + 2, 2) == (asyncio.run(made.model.run(len)), made.loads)


def test_what_goes_wrong_in_use_is_raised_and_not_remembered(made):
    """It is the text's fault, not the model's."""
    with pytest.raises(ZeroDivisionError):
        asyncio.run(made.model.run(lambda _: 1 / 0))
    assert "model 1" == asyncio.run(made.model.run(str))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes cannot fork here")
def test_a_forked_child_loads_its_own(made):
    """The parent's thread does not exist in the child."""
    asyncio.run(made.model.prepare())
    made.model._start()  # what happens in the child
    assert "model 2" == asyncio.run(made.model.run(str))


def test_without_the_extra(monkeypatch):
    """The install line comes before anything is scored, or when an object is used."""
    installed(monkeypatch, there=False)
    for spec in ("semantic", "bertscore", "embedding_similarity", "vera.composite", "bertscore@x", "vera.composite@x"):
        with pytest.raises(MissingExtraError, match=r"pip install 'ragstone\[models\]'"):
            resolve_metrics(spec)
    with pytest.raises(MissingExtraError, match="The metric 'bertscore' needs"):
        asyncio.run(BertScore().score(make_sample(), FakeJudge()))
    assert "vera.faithfulness" in [metric.card.name for metric in resolve_metrics("vera")]


def test_a_run_refuses_before_its_first_sample(monkeypatch):
    """A scorer prepares metrics that have something to load."""
    installed(monkeypatch, there=False)
    with pytest.raises(MissingExtraError):
        asyncio.run(Scorer(SEMANTIC, FakeJudge()).prepare())


def test_names_and_versions(monkeypatch):
    """Outcomes of two models or two layers are never taken for one metric."""
    installed(monkeypatch, there=True)
    specs = ["bertscore", "bertscore@org/Other", "bertscore@org/roberta-large", "bertscore@org/roberta-large,layer=3"]
    metrics = resolve_metrics([*specs, "embedding_similarity@B", "vera.composite@C"])
    assert [*specs, "embedding_similarity@B", "vera.composite@C"] == [metric.card.name for metric in metrics]
    assert len(metrics) == len({metric.card.version for metric in metrics})
    assert [9, None, 17, 3] == [metric.layer for metric in metrics[:4]]
    assert BertScore(layer=9).card == BertScore().card
    assert resolve_metrics("bertscore@roberta-large,layer=17")[0].card == BertScore("roberta-large").card
    assert EmbeddingSimilarity().card.name == "embedding_similarity"


@pytest.mark.parametrize("layer", ["", "-1", "two", "²", "1.0", "1_0"])
def test_a_layer_is_a_number(layer):
    """A layer that is not an integer of at least 0 raises an error that says so."""
    with pytest.raises(ConfigurationError, match="layer of bertscore must be an integer of at least 0, or none"):
        resolve_metrics(f"bertscore@x,layer={layer}")


def test_a_negative_layer():
    """A negative layer, which would count from the end, raises an error."""
    with pytest.raises(
        ConfigurationError, match="layer of BertScore must be an integer of at least 0, or none, got -1"
    ):
        BertScore(layer=-1)


@pytest.mark.parametrize(
    ("p", "r", "expected"),
    [(0.5, 1.0, 2 / 3), (1, 1, 1), (-0.5, -1.0, -2 / 3), (0.5, -0.4, 0), (0.4, -0.4, 0), (0, 0, 0), (0, 1, 0)],
)
def test_f1_of_cosines(p, r, expected):
    """Between the two where they have one sign, and 0 where they do not: the formula would leave [-1, 1]."""
    assert pytest.approx(expected) == f1_of(p, r) == f1_of(r, p)


def words(text, most):
    """Cuts to words, for a tokeniser."""
    parts = text.split()
    return (text, len(parts)) if len(parts) <= most else (" ".join(parts[:most]), most)


@pytest.mark.parametrize(
    ("room", "expected", "cuts"),
    [
        (math.inf, "a b c\n\ns s\n\np p p", []),
        (8 + 2 + 6, "a b c\n\ns s\n\np p p", []),
        (8 + 2 + 5, "a b c\n\ns s\n\np p", ["passages"]),
        (8 + 2 + 3, "a b c\n\ns s", ["passages"]),
        (8 + 2 + 1, "a\n\ns s", ["response", "passages"]),
    ],
)
def test_what_is_cut(room, expected, cuts):
    """Passages first, then the response; eight tokens are kept free."""
    assert (expected, cuts) == enriched("a b c", "s s", "p p p", limit=room, cut=words)


@pytest.mark.parametrize("room", [-5, 0, 1, 8 + 2])
def test_statements_are_never_cut(room):
    """Without room for them there is no composite."""
    assert enriched("a b c", "s s", "p", limit=room, cut=words) is None


def test_the_baseline_of_the_composite_is_response_and_passages():
    """Without statements it needs no judge and neither parts nor what they need."""
    baseline = VeraComposite(statements=False)
    assert ((), 0, ("query", "response")) == (baseline.parts, baseline.card.judge_calls, baseline.card.needs)
    assert baseline.card.version != VeraComposite().card.version
    assert ("a b c\n\np p p", []) == enriched("a b c", "", "p p p", limit=20, cut=words)


def test_the_composite_needs_what_its_parts_need():
    """And changes its version with their wording and with the model."""
    composite = VeraComposite(resolve_metrics(["ccrs.cc", "ccrs.ac"]))
    assert ("query", "response", "contexts", "reference") == composite.card.needs
    assert 2 == composite.card.judge_calls
    versions = {VeraComposite(resolve_metrics(name)).card.version for name in ("ccrs.cc", "ccrs.ac")}
    versions.add(VeraComposite([AnswerCorrectness(em_weight=0)]).card.version)
    assert 4 == len(versions | {composite.card.version})
    assert (-math.inf, math.inf) == (composite.card.low, composite.card.high)
    with pytest.raises(ConfigurationError, match="at least one metric"):
        VeraComposite([])
