"""What becomes a request, a step and a context: bare models, indexing, evaluators, stages, text tools, blocks, large results."""

from __future__ import annotations

import asyncio

import pytest
from llama_index.core import Document, DocumentSummaryIndex, get_response_synthesizer
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.response.schema import Response
from llama_index.core.evaluation import BatchEvalRunner, FaithfulnessEvaluator, RelevancyEvaluator, RetrieverEvaluator
from llama_index.core.extractors import TitleExtractor
from llama_index.core.ingestion import IngestionPipeline
from llama_index.core.instrumentation import get_dispatcher
from llama_index.core.retrievers import QueryFusionRetriever
from llama_index.core.schema import NodeWithScore, TextNode
from llama_index.core.tools import FunctionTool

from llama_index.observability.ragstone._nodes import MAX_PASSAGES, Passages
from ragstone.errors import ConfigurationError
from ragstone.testing import MemoryRecorder

Q = "who?"
FOUND = ["alpha", "beta"]
OK = (Q, FOUND, "answer", "ok")
POLICY = "Returned goods must reach the warehouse within thirty days."
OTHER = "The warehouse in Lyon accepts returns on weekdays until noon."


def test_bare_model_calls_are_counted(app):
    """A title, a moderation call: neither is a request. Methods of one model that call each other are one call."""
    model = app.model("a title")
    model.complete("Make a title.")
    asyncio.run(model.achat([]))
    list(model.stream_complete("Make a title."))
    app.engine().query(Q)
    assert ([OK], 3) == (app.seen(), app.instrumentor.ignored_models)


@pytest.mark.filterwarnings("ignore:.*get_doc_id:DeprecationWarning")  # LlamaIndex's own call in old versions
def test_a_document_summary_index_is_not_a_request(app):
    """Its constructor asks a synthesizer for a summary of each document."""
    documents = [Document(text="alpha", id_="one"), Document(text="beta", id_="two")]
    synthesizer = get_response_synthesizer(app.model("a summary"), response_mode="tree_summarize")
    index = DocumentSummaryIndex.from_documents(documents, response_synthesizer=synthesizer)
    index.insert(Document(text="gamma", id_="three"))
    assert ([], 0) == (app.seen(), app.instrumentor.in_flight)
    index.as_query_engine(llm=app.model()).query(Q)
    assert 1 == len(app.drafts)


def test_an_ingestion_pipeline_is_not_a_request(app):
    """Its extractors call models, which are counted."""
    pipeline = IngestionPipeline(transformations=[TitleExtractor(llm=app.model("a title"), nodes=1)])
    pipeline.run(documents=[Document(text="alpha")])
    assert [] == app.seen()
    assert app.instrumentor.ignored_models > 0


@pytest.mark.filterwarnings("ignore:asyncio_module:DeprecationWarning")
def test_evaluators_are_not_requests(app):
    """Evaluators build indexes and ask engines; the responses that a batch asks for are requests."""
    evaluators = {"faithful": FaithfulnessEvaluator(app.model("YES")), "relevant": RelevancyEvaluator(app.model("YES"))}
    runner = BatchEvalRunner(evaluators, workers=2)
    results = asyncio.run(runner.aevaluate_queries(app.engine(), [Q]))
    assert [1.0, 1.0] == [results[name][0].score for name in evaluators]
    evaluators["faithful"].evaluate(query=Q, response="answer", contexts=["alpha"])
    assert [OK] == app.seen()


def test_a_retriever_evaluator_is_not_a_request(app):
    """It calls the application's retriever with questions of a dataset."""
    evaluator = RetrieverEvaluator.from_metric_names(["mrr"], retriever=app.retriever())
    asyncio.run(evaluator.aevaluate(Q, ["id-alpha"]))
    assert [] == app.seen()


def test_an_evaluator_of_the_application_is_not_a_request(app):
    """Also if it is called from a module of the application, and asks an engine."""

    class Agreement(FaithfulnessEvaluator):
        async def aevaluate(self, query=None, response=None, contexts=None, **kwargs):
            return await app.engine().aquery(query)

    asyncio.run(Agreement(app.model()).aevaluate(Q))
    assert [] == app.seen()


def test_lists_of_composite_retrievers_are_stages(app):
    """They never are contexts, but ranking metrics can measure them."""
    fusion = QueryFusionRetriever(
        [app.retriever("alpha", "gamma"), app.retriever("beta")],
        llm=app.model(), num_queries=1, similarity_top_k=2, use_async=False, mode="reciprocal_rerank",
    )  # fmt: skip
    app.engine(fusion).query(Q)
    (search,) = app.draft.retrievals
    assert [["alpha", "gamma"], ["beta"]] == [[passage.text for passage in stage.passages] for stage in search.stages]
    assert "QueryFusionRetriever" == search.name


@pytest.mark.parametrize(
    ("options", "contexts", "doubts"),
    [
        ({}, None, ["text_tool:search_policy"]),
        ({"retriever_tools": {"search_policy"}}, [f"{POLICY}\n\n{OTHER}"], []),
        ({"retriever_tools": {"search_policy": "\n\n"}}, [POLICY, OTHER], []),
    ],
    ids=["undeclared", "declared", "with a separator"],
)
def test_tools_of_text(make_app, options, contexts, doubts):
    """Plain text is never guessed to be passages; a declaration makes it some."""
    app = make_app(options=options)

    def search_policy(topic: str) -> str:
        """Search."""
        return f"{POLICY}\n\n{OTHER}"

    async def run():
        model = app.agent_model(("search_policy", {"topic": "returns"}))
        await FunctionAgent(tools=[FunctionTool.from_defaults(search_policy)], llm=model).run(user_msg=Q)

    asyncio.run(run())
    assert [(Q, contexts, "answer", "ok")] == app.seen()
    assert doubts == list(app.draft.evidence.doubts)
    assert ["returns"] * bool(contexts) == [search.query for search in app.draft.retrievals]


def test_retriever_tools_are_checked(make_app):
    """A list of separators is not a declaration."""
    with pytest.raises(ConfigurationError, match="retriever_tools"):
        make_app(options={"retriever_tools": [3]})


def test_requests_join_a_block(make_app):
    """Engine, stream and bare model inside `monitor.request` are steps of one request."""
    app = make_app(recorder=MemoryRecorder())
    with app.recorder.request(Q) as block:
        nodes = app.retriever().retrieve("sub")
        app.model("a title").complete("Make a title.")
        list(app.engine(app.retriever("gamma"), app.model("hm"), streaming=True).query("other").response_gen)
        block.answer(app.model().complete(f"{nodes[1].text}? {Q}").text)
    assert [(Q, ["beta"], "answer", "ok")] == app.seen()
    assert (["sub", "other"], 0) == ([it.query for it in app.draft.retrievals], app.instrumentor.ignored_models)


def test_a_block_of_another_recorder_is_not_joined(app, make_app):
    """A request belongs to the recorder of its instrumentor."""
    other = make_app(recorder=MemoryRecorder())
    with MemoryRecorder().request("outer") as block:
        app.engine().query(Q)
        block.answer("all")
    assert [OK] == app.seen() == other.seen()


def test_a_node_is_copied_once(app):
    """A node that appears in several steps is one passage, unless its text, score or metadata changed."""
    passages = Passages()
    node = TextNode(text="alpha", id_="a", metadata={"page": 1, "opaque": object()})
    first = passages.of(NodeWithScore(node=node, score=0.5))
    assert first is passages.of(node) is passages.of(NodeWithScore(node=node, score=0.5))
    assert {"page": 1} == first.metadata
    assert 0.9 == passages.of(NodeWithScore(node=node, score=0.9)).score
    node.metadata["page"] = 2
    assert {"page": 2} == passages.of(node).metadata
    app.engine().query(Q)
    (search,) = app.draft.retrievals
    assert 2 == len(search.passages)


def test_large_results_are_cut_before_they_are_copied(app):
    """100,000 nodes cost as much as 1,000."""
    nodes = [NodeWithScore(node=TextNode(text=f"text {i}", id_=str(i))) for i in range(MAX_PASSAGES + 7)]
    read = []

    class Counted(list):
        def __iter__(self):
            return (read.append(1) or node for node in super().__iter__())

    assert MAX_PASSAGES == len(Passages().found(Counted(nodes)))
    assert MAX_PASSAGES == len(read)


def test_nodes_made_of_replies_are_not_contexts(app):
    """What an engine makes of the answers to sub-questions is not a passage, although the prompt has it."""
    reply = "a part of the answer in more than a few words"

    @get_dispatcher(__name__).span
    def answer(question):
        part = app.engine(app.retriever("alpha"), app.model(reply)).query("sub")
        node = NodeWithScore(node=TextNode(text=f"Sub question: sub\nResponse: {part}"))
        return get_response_synthesizer(app.model()).synthesize(question, [node])

    answer(Q)
    assert [(Q, ["alpha"], "answer", "ok")] == app.seen()
    assert "in_prompt" == app.draft.evidence.contexts


def test_a_model_without_the_framework_decorators(app):
    """A model whose methods send no events has its prompt and its reply in its spans."""
    from llama_index.core.base.llms.types import CompletionResponse, LLMMetadata
    from llama_index.core.llms import CustomLLM

    class Bare(CustomLLM):
        @property
        def metadata(self):
            return LLMMetadata(model_name="bare")

        def complete(self, prompt, formatted=False, **kwargs):
            return CompletionResponse(text="answer", raw={"usage": {"prompt_tokens": 10, "completion_tokens": 3}})

        def stream_complete(self, prompt, formatted=False, **kwargs):
            yield CompletionResponse(text="answer", delta="answer")

    app.engine(model=Bare(), node_postprocessors=[app.keep_last()]).query(Q)
    assert [(Q, ["beta"], "answer", "ok")] == app.seen()
    assert ("in_prompt", 10, 3) == (app.draft.evidence.contexts, app.draft.input_tokens, app.draft.output_tokens)


@pytest.mark.parametrize("sources", [[], None], ids=["an empty list", "no list"])
def test_no_sources_in_a_response_say_nothing(app, sources):
    """Responses have an empty list of sources by default."""

    @get_dispatcher(__name__).span
    def answer(question):
        app.retriever().retrieve(question)
        return Response("answer", source_nodes=sources)

    answer(Q)
    assert [OK] == app.seen()
