"""Our metrics as LlamaIndex's evaluators: every metric by name, in its own batch runner, never raising."""

from __future__ import annotations

import asyncio
import importlib.util
import re
from typing import Any

import pytest
from llama_index.core.agent.workflow import AgentOutput
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.base.response.schema import PydanticResponse, Response, StreamingResponse
from llama_index.core.chat_engine.types import AgentChatResponse
from llama_index.core.evaluation import BatchEvalRunner
from llama_index.core.prompts import PromptTemplate
from llama_index.core.query_engine import MultiStepQueryEngine, SubQuestionQueryEngine
from llama_index.core.question_gen import LLMQuestionGenerator
from llama_index.core.response_synthesizers import get_response_synthesizer
from llama_index.core.schema import NodeWithScore, TextNode
from pydantic import BaseModel

from fake_models import FakeEmbedder, FakeReader
from llama_index.evaluation.ragstone import LlamaIndexJudge, RagstoneEvaluator
from ragstone.errors import ConfigurationError, JudgeUnavailableError, MissingExtraError
from ragstone.judges import embedder_from
from ragstone.metrics import all_metrics
from ragstone.testing import FakeJudge

Q, A, CONTEXTS = "How tall is it?", "31 metres.", ["It is 31 metres tall.", "Ferries leave at noon."]
NODES = [NodeWithScore(node=TextNode(text=text, id_=id_), score=0.5) for text, id_ in zip(CONTEXTS, "ab", strict=True)]
METRICS = [metric.card for metric in all_metrics()]


def dead() -> FakeJudge:
    """A judge that cannot be reached."""
    return FakeJudge(fail=lambda _: JudgeUnavailableError("the line is dead"))


def evaluated(metric: Any = "ccrs.qr", *, judge: Any = None, threshold: float | None = None, **given: Any) -> Any:
    """Score one response with a fake judge."""
    evaluator = RagstoneEvaluator(metric, judge=judge or FakeJudge(80), reader=FakeReader(), threshold=threshold)
    return asyncio.run(evaluator.aevaluate(**{"query": Q, "response": A, "contexts": CONTEXTS, **given}))


def test_score_and_what_was_given():
    """The result has the score and gives back what was scored; the outcome behind it says how it came about."""
    found = evaluated()
    assert (0.8, Q, A, CONTEXTS) == (found.score, found.query, found.response, found.contexts)
    assert (False, None, None) == (found.invalid_result, found.invalid_reason, found.passing)
    assert ("single_reply", "fake judge") == (found.outcome.method, found.outcome.judge)


@pytest.mark.parametrize(("threshold", "passing"), [(0.8, True), (0.81, False), (None, None)])
def test_passing_is_the_user_s_threshold(threshold, passing):
    """A score passes from the threshold on; without one, nothing is said."""
    assert passing is evaluated(threshold=threshold).passing


def test_lower_passes_where_lower_is_better():
    """A metric of faults passes up to the threshold."""
    (name,) = [card.name for card in METRICS if card.name == "ragchecker.hallucination"]
    shared = {"judge": FakeJudge(json=marks), "reference": A}
    (low, high) = (evaluated(name, threshold=threshold, **shared) for threshold in (0.0, 1.0))
    assert low.score == high.score > 0
    assert (False, True) == (low.passing, high.passing)


def marks(prompt: Any) -> Any:
    """Two claims; the second is in no passage and not in the reference."""
    if "items" in str(prompt) or prompt.construct.endswith("claims"):
        return {"items": ["It is tall.", "It is red."]}
    return {"1": 1, "2": 0}


def test_explanation_is_the_feedback():
    """What took the value where it is stands in `feedback`."""
    found = evaluated("ragchecker.hallucination", judge=FakeJudge(json=marks), reference=A)
    assert found.outcome.explanation == found.feedback is not None


def test_not_applicable_is_invalid_and_says_why():
    """A metric without what it needs scores nothing, rather than 0."""
    found = evaluated("ccrs.ac")
    assert (None, True) == (found.score, found.invalid_result)
    assert "not applicable: the sample has no reference" == found.invalid_reason


def test_failure_is_invalid_and_says_why():
    """A judge that cannot be reached is no 0 either, and raises nothing."""
    found = evaluated(judge=dead(), threshold=0.5)
    assert (None, None, True) == (found.score, found.passing, found.invalid_result)
    assert "failed (unavailable): the line is dead" == found.invalid_reason


@pytest.mark.parametrize(
    "given",
    [
        {"query": 7.5, "contexts": 7},
        {"response": object()},
        {"contexts": [object()]},
        {"qrels": "?"},
    ],
    ids=["numbers", "an object as response", "an object as context", "text as qrels"],
)
def test_what_cannot_be_read_raises_nothing(given):
    """One bad row is an invalid result, with the reason."""
    found = evaluated(**given)
    assert (None, True) == (found.score, found.invalid_result)
    assert found.invalid_reason


def test_text_that_no_file_takes_is_scored_all_the_same():
    """A lone surrogate, as it comes from broken data, costs no result."""
    found = evaluated(query="How \ud800?", contexts=["\udfff"])
    assert (0.8, "How ??", ["?"]) == (found.score, found.query, found.contexts)


def test_reference_is_one_or_several():
    """A text or a list of texts."""
    assert [1.0, 1.0, 0.0] == [
        evaluated("exact_match", response="Oslo", reference=given).score for given in ("Oslo", ["no", "Oslo"], ["no"])
    ]


def test_nodes_keep_their_ids():
    """Ranking metrics meet the ids of nodes; texts alone have none, and that is said."""
    assert 0.5 == evaluated("reciprocal_rank", contexts=NODES, qrels={"b": 1}).score
    assert "does not have an id" in evaluated("reciprocal_rank", qrels={"b": 1}).invalid_reason


@pytest.mark.parametrize("card", METRICS, ids=lambda card: card.name)
def test_every_metric_is_available_by_name(card):
    """Each registered metric makes an evaluator by its name alone, which says what it found in its worked example."""
    if card.extra is not None and importlib.util.find_spec(card.extra.module) is None:
        with pytest.raises(MissingExtraError, match=re.escape(card.extra.extra)):
            RagstoneEvaluator(card.name)
        return
    row = dict(card.example.row)
    nodes = row.get("contexts")
    if nodes and all(isinstance(node, dict) and "relevance" not in node for node in nodes):
        row["contexts"] = [TextNode(text=node["text"], id_=node["id"]) for node in nodes if "id" in node] or nodes
    evaluator = RagstoneEvaluator(card.name, judge=FakeJudge(), reader=FakeReader(), embedder=FakeEmbedder())
    found = evaluator.evaluate(**row)
    assert (card.name, {}) == (evaluator.card.name, evaluator.get_prompts())
    assert (found.score is None) is found.invalid_result is (found.invalid_reason is not None)
    if card.asks_judge or card.reader_calls_per_passage or card.extra:
        return
    assert card.example.value == pytest.approx(found.score)


def test_wording_is_not_for_changing():
    """A metric's prompt is its identity; another one is refused, and not skipped in silence."""
    evaluator = RagstoneEvaluator("ccrs.qr", judge=FakeJudge())
    with pytest.raises(ConfigurationError, match="part of the metric's version"):
        evaluator.update_prompts({"eval_template": PromptTemplate("{query}")})
    evaluator.update_prompts({})


def test_group_is_for_metrics():
    """One result has one score; a group makes a dictionary of evaluators with one judge."""
    with pytest.raises(ConfigurationError, match=r"5 metrics .*use for_metrics\('ccrs'\)"):
        RagstoneEvaluator("ccrs")
    found = RagstoneEvaluator.for_metrics(["ccrs", "exact_match"], judge=FakeJudge(), thresholds={"ccrs.qr": 0.5})
    assert ["ccrs.cc", "ccrs.qr", "ccrs.id", "ccrs.ac", "ccrs.ir", "exact_match"] == list(found)
    assert list(found) == [evaluator.card.name for evaluator in found.values()]
    with pytest.raises(ConfigurationError, match=r"'ccrs\.qrr'; the metrics are"):
        RagstoneEvaluator.for_metrics("ccrs", thresholds={"ccrs.qrr": 0.5})


def test_metric_that_reads_says_that_it_needs_a_reader(app):
    """A judge without a model cannot lend one; a model of LlamaIndex's is taken as it is."""
    with pytest.raises(ConfigurationError, match="reader="):
        RagstoneEvaluator("udcg", judge=FakeJudge())
    evaluator = RagstoneEvaluator("udcg", judge=FakeJudge(), reader=app.model("NO-RESPONSE"))
    assert evaluator.evaluate(query=Q, response=A, contexts=CONTEXTS).score is not None


def test_model_judges_and_is_no_traffic(app):
    """A model of LlamaIndex's is taken as judge, and nothing of it is captured."""
    found = [evaluated(judge=judge).score for judge in (app.model("80"), LlamaIndexJudge(app.model("80")))]
    assert ([0.8, 0.8], []) == (found, app.drafts)


class Reply(BaseModel):
    """A structured answer."""

    height: int


@pytest.mark.parametrize(
    ("response", "text"),
    [
        (Response("31 metres.", source_nodes=NODES), "31 metres."),
        (PydanticResponse(Reply(height=31), source_nodes=NODES), '{"height":31}'),
        (StreamingResponse(iter(["31"]), source_nodes=NODES, response_txt="31"), "31"),
    ],
    ids=["response", "pydantic", "read stream"],
)
def test_response_objects_are_taken_with_their_nodes(response, text):
    """Text and source nodes come from the response, with ids; and synchronously inside a running loop."""
    evaluator = RagstoneEvaluator("reciprocal_rank")

    async def inside() -> Any:
        return evaluator.evaluate_response(Q, response, qrels={"b": 1})

    found = asyncio.run(inside())
    assert (0.5, text, CONTEXTS) == (found.score, found.response, found.contexts)
    assert (None, True) == tuple(
        getattr(RagstoneEvaluator("exact_match").evaluate_response(Q), name) for name in ("score", "invalid_result")
    )


def test_the_answer_of_an_agent_is_the_text_of_its_message():
    """The output of an agent has a message as its response."""
    output = AgentOutput(response=ChatMessage(A, role="assistant"), tool_calls=[], raw=None, current_agent_name="A")
    found = RagstoneEvaluator("exact_match").evaluate_response(Q, output, reference=A)
    assert (A, 1.0) == (found.response, found.score)


def test_a_response_without_source_nodes_has_unknown_contexts():
    """An engine or a chat that names no sources returns an empty list. An empty list of the user is an empty retrieval."""
    evaluator = RagstoneEvaluator("vera.groundedness", judge="lexical")
    found = [evaluator.evaluate_response(Q, kind(A)) for kind in (Response, AgentChatResponse)]
    assert ["not applicable: the sample has no contexts"] * 2 == [each.invalid_reason for each in found]
    assert 0.0 == evaluator.evaluate(Q, A, contexts=[]).score


@pytest.mark.parametrize("steps", [False, True], ids=["sub-questions", "steps"])
def test_answers_to_sub_questions_are_no_contexts(app, steps):
    """The nodes that an engine makes from the model's own answers do not support the answer."""
    inner = app.engine(app.retriever("alpha"), app.model("It is red."))
    shared = {"response_synthesizer": get_response_synthesizer(app.model("It is red."))}
    if steps:
        engine = MultiStepQueryEngine(inner, lambda bundle, metadata: bundle, num_steps=1, **shared)
    else:
        question = LLMQuestionGenerator.from_defaults(
            app.model('```json\n{"items": [{"sub_question": "Which?", "tool_name": "search"}]}\n```')
        )
        engine = SubQuestionQueryEngine(
            question, query_engine_tools=[app.tool(inner)], use_async=False, verbose=False, **shared
        )
    response = engine.query(Q)
    evaluator = RagstoneEvaluator("vera.groundedness", judge="lexical")
    found = evaluator.evaluate_response(Q, response)
    assert (2, ["alpha"], 0.0) == (len(response.source_nodes), found.contexts, found.score)
    found = evaluator.evaluate_response(Q, Response("It is red.", source_nodes=response.source_nodes[:1]))
    assert (None, None) == (found.contexts, found.score)


def test_stream_is_not_read():
    """A response that the application has not read yet has no text, and stays whole."""
    response = StreamingResponse(iter(["31", " metres"]), source_nodes=NODES)
    found = RagstoneEvaluator("ccrs.qr", judge=FakeJudge(80)).evaluate_response(Q, response)
    assert "not applicable: the sample has no response" == found.invalid_reason
    assert ["31", " metres"] == list(response.response_gen)


BATCH = pytest.mark.filterwarnings("ignore:asyncio_module:DeprecationWarning")


@BATCH
def test_batch_runner_goes_on_when_a_judge_fails():
    """One evaluator whose judge is dead costs its own scores, at once and without retries; the others score."""
    broken = dead()
    evaluators = {
        "good": RagstoneEvaluator("ccrs.qr", judge=FakeJudge(80)),
        "failed": RagstoneEvaluator("ccrs.qr", judge=broken),
        "plain": RagstoneEvaluator("exact_match"),
    }
    runner = BatchEvalRunner(evaluators, workers=3)
    found = asyncio.run(
        runner.aevaluate_response_strs(
            queries=[Q, Q], response_strs=[A, "Oslo"], contexts_list=[CONTEXTS, CONTEXTS], reference=[A, A]
        )
    )
    assert {"good": [0.8, 0.8], "failed": [None, None], "plain": [1.0, 0.0]} == {
        name: [each.score for each in results] for name, results in found.items()
    }
    assert [True, True] == [each.invalid_result for each in found["failed"]]
    assert 2 == len(broken.prompts)


@BATCH
def test_batch_runner_asks_an_engine(app):
    """`evaluate_queries` runs the engine and scores its responses with their nodes; the judge is no traffic, the engine is."""
    judge = app.model("80")
    runner = BatchEvalRunner(RagstoneEvaluator.for_metrics(["ccrs.qr", "recall@5"], judge=judge), workers=2)
    engine = app.engine(app.retriever("alpha", "beta"), app.model("answer"))

    async def inside() -> Any:
        return await runner.aevaluate_queries(
            engine, queries=["one?", "two?"], **{"recall@5": {"qrels": [{"id-alpha": 1, "id-x": 1}, {"id-x": 1}]}}
        )

    found = asyncio.run(inside())
    assert [0.8, 0.8] == [each.score for each in found["ccrs.qr"]]
    assert [0.5, 0.0] == [each.score for each in found["recall@5"]]
    assert {"one?", "two?"} == {draft.query for draft in app.drafts}


def test_an_embedder_is_used():
    """The one that is named, and a wrong name is refused."""
    name = "vera.answer_relevance_cosine"
    embedder = embedder_from("lexical")
    assert RagstoneEvaluator(name, judge="lexical", embedder=embedder)._setup.embedder is embedder
    with pytest.raises(ConfigurationError, match="is unknown"):
        RagstoneEvaluator(name, judge="lexical", embedder="no-embedder")
    with pytest.raises(ConfigurationError, match="is unknown"):
        RagstoneEvaluator.for_metrics(name, judge="lexical", embedder="no-embedder")
