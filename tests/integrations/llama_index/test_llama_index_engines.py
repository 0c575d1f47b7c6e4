"""Query engines, retrievers and synthesizers: what one call of each kind leaves behind; rows as in the docs' matrix."""

from __future__ import annotations

import asyncio
import contextlib
import threading

import pytest
from llama_index.core import get_response_synthesizer
from llama_index.core.base.response.schema import Response, StreamingResponse
from llama_index.core.evaluation import BaseEvaluator, EvaluationResult
from llama_index.core.indices.query.query_transform import HyDEQueryTransform
from llama_index.core.instrumentation import get_dispatcher
from llama_index.core.instrumentation.dispatcher import instrument_tags
from llama_index.core.postprocessor import LongContextReorder, SimilarityPostprocessor
from llama_index.core.query_engine import (
    CitationQueryEngine,
    CustomQueryEngine,
    MultiStepQueryEngine,
    RetryQueryEngine,
    RouterQueryEngine,
    SubQuestionQueryEngine,
    TransformQueryEngine,
)
from llama_index.core.question_gen import LLMQuestionGenerator
from llama_index.core.retrievers import QueryFusionRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
from llama_index.core.selectors import LLMSingleSelector
from pydantic import BaseModel

from llama_index.observability.ragstone import ContextsEvent

Q = "who?"
FOUND = ["alpha", "beta"]
OK = (Q, FOUND, "answer", "ok")
PART = "a part of the answer in more than a few words"
OTHER_PART = "another part of the answer in as many words as that"

dispatcher = get_dispatcher(__name__)


def query(app):
    app.engine().query(Q)


def query_bundle(app):
    app.engine().query(QueryBundle(Q, custom_embedding_strs=["other"]))


def aquery(app):
    asyncio.run(app.engine().aquery(Q))


def retriever_only(app):
    app.retriever().retrieve(Q)


def aretriever_only(app):
    asyncio.run(app.retriever().aretrieve(Q))


def manual_retrieve_and_synthesize(app):
    nodes = app.retriever().retrieve(Q)
    get_response_synthesizer(app.model()).synthesize(Q, nodes)


def enclosing_span_groups_manual_calls(app):
    @dispatcher.span
    def answer(question):
        nodes = app.retriever().retrieve(question)
        return get_response_synthesizer(app.model()).synthesize(question, nodes[:1])

    answer(Q)


def enclosing_span_returns_text(app):
    @dispatcher.span
    def answer(question):
        nodes = app.retriever().retrieve(question)
        return str(get_response_synthesizer(app.model()).synthesize(question, nodes[1:]))

    answer(Q)


def postprocessor(app):
    app.engine(node_postprocessors=[app.keep_last()]).query(Q)


def cutoff(app):
    app.engine(node_postprocessors=[SimilarityPostprocessor(similarity_cutoff=0.9)]).query(Q)


def reorder(app):
    app.engine(app.retriever("a", "b", "c"), node_postprocessors=[LongContextReorder()]).query(Q)


def filter_removes_everything(app):
    app.engine(node_postprocessors=[SimilarityPostprocessor(similarity_cutoff=2.0)]).query(Q)


def vector_index(app):
    app.index("alpha").as_query_engine(app.model()).query(Q)


def refine(app):
    app.engine(model=app.model(PART, "answer"), response_mode="refine").query(Q)


def tree_summarize(app):
    app.engine(response_mode="tree_summarize").query(Q)


def simple_summarize(app):
    app.engine(response_mode="simple_summarize").query(Q)


def accumulate(app):
    app.engine(app.retriever("alpha"), response_mode="accumulate").query(Q)


def no_text(app):
    app.engine(response_mode="no_text").query(Q)


def context_only(app):
    app.index("alpha").as_query_engine(app.model(), response_mode="context_only").query(Q)


def empty_retrieval(app):
    app.engine(app.nothing()).query(Q)


def retriever_error(app):
    with pytest.raises(ConnectionError):
        app.engine(app.retriever(failures=[ConnectionError("index down")])).query(Q)


def llm_error(app):
    with pytest.raises(ConnectionError):
        app.engine(model=app.model(ConnectionError("model down"))).query(Q)


def llm_error_that_refine_swallows(app):
    try:
        app.engine(model=app.model(ValueError("no JSON"))).query(Q)
    except ValueError:
        pytest.skip("LlamaIndex swallows it since a later 0.14")


def fusion_retriever(app):
    fusion = QueryFusionRetriever(
        [app.retriever("alpha", "gamma"), app.retriever("alpha", "beta")],
        llm=app.model(), num_queries=1, mode="reciprocal_rerank", similarity_top_k=2, use_async=False,
    )  # fmt: skip
    app.engine(fusion).query(Q)


def several_retrievers(app):
    @dispatcher.span
    def answer(question):
        nodes = app.retriever("alpha").retrieve(question) + app.retriever("beta").retrieve(question)
        return get_response_synthesizer(app.model()).synthesize(question, nodes)

    answer(Q)


def synthesizer_fails_and_another_answers(app):
    @dispatcher.span
    def answer(question):
        nodes = app.retriever().retrieve(question)
        with contextlib.suppress(ConnectionError):
            get_response_synthesizer(app.model(ConnectionError("model down"))).synthesize(question, nodes)
        return str(get_response_synthesizer(app.model()).synthesize(question, nodes[:1]))

    answer(Q)


def engine_as_retriever(app):
    @dispatcher.span
    def answer(question):
        nodes = app.engine(response_mode="no_text").query(question).source_nodes
        return str(get_response_synthesizer(app.model()).synthesize(question, nodes[1:]))

    answer(Q)


def copied_sources(app):
    @dispatcher.span
    def answer(question):
        first, second = app.retriever().retrieve(question)
        shortened = TextNode(text="alp", id_=first.node.node_id)
        copied, invented = TextNode(text=second.node.text), TextNode(text="a summary")
        return Response("answer", [NodeWithScore(node=node) for node in (shortened, copied, invented)])

    answer(Q)


def failed_step_had_an_answer(app):
    @dispatcher.span
    def fail(question):
        app.engine(model=app.model("discarded")).query(question)
        raise ConnectionError("later")

    @dispatcher.span
    def answer(question):
        with contextlib.suppress(ConnectionError):
            fail(question)
        return 42

    answer(Q)


SUB_QUESTIONS = """```json
{"items": [{"sub_question": "s1", "tool_name": "one"}, {"sub_question": "s2", "tool_name": "two"}]}
```"""


def sub_question_engine(app, *, use_async=False):
    one = app.engine(app.retriever("alpha"), app.model(PART))
    two = app.engine(app.retriever("beta"), app.model(OTHER_PART))
    return SubQuestionQueryEngine.from_defaults(
        [app.tool(one, "one"), app.tool(two, "two")],
        llm=app.model(),
        question_gen=LLMQuestionGenerator.from_defaults(app.model(SUB_QUESTIONS)),
        use_async=use_async,
        verbose=False,
    )


def sub_question(app):
    sub_question_engine(app).query(Q)


def sub_question_async(app):
    asyncio.run(sub_question_engine(app, use_async=True).aquery(Q))


def sub_questions_to_a_citing_engine(app):
    citing = CitationQueryEngine.from_args(app.index("alpha"), llm=app.model(PART), retriever=app.retriever("alpha"))
    SubQuestionQueryEngine.from_defaults(
        [app.tool(citing, "one"), app.tool(app.engine(app.retriever("beta"), app.model(OTHER_PART)), "two")],
        llm=app.model(), question_gen=LLMQuestionGenerator.from_defaults(app.model(SUB_QUESTIONS)),
        use_async=False, verbose=False,
    ).query(Q)  # fmt: skip


def multi_step(app):
    engine = MultiStepQueryEngine(
        app.engine(model=app.model(PART)),
        lambda bundle, metadata: QueryBundle("step"),
        response_synthesizer=get_response_synthesizer(app.model()),
        num_steps=1,
        early_stopping=False,
    )
    engine.query(Q)


def router(app):
    selector = LLMSingleSelector.from_defaults(app.model('[{"choice": 1, "reason": "first"}]'))
    tools = [app.tool(name="one"), app.tool(app.engine(app.retriever("gamma")), name="two")]
    RouterQueryEngine(selector, tools, llm=app.model()).query(Q)


def transform_hyde(app):
    TransformQueryEngine(app.engine(), HyDEQueryTransform(app.model("imagined"))).query(Q)


def citation(app):
    CitationQueryEngine.from_args(
        app.index("alpha"), llm=app.model(), retriever=app.retriever(), citation_chunk_size=64
    ).query(Q)


class FailsOnce(BaseEvaluator):
    """Sends the first answer back."""

    verdicts = (False, True)

    def _get_prompts(self):
        return {}

    def _update_prompts(self, prompts):
        pass

    async def aevaluate(self, query=None, response=None, contexts=None, **kwargs):
        """Judge."""
        passing, *self.verdicts = self.verdicts
        return EvaluationResult(query=query, response=response, passing=passing, feedback="no")


def retried_query(app):
    RetryQueryEngine(app.engine(app.counting(), app.model("bad", "answer")), FailsOnce()).query(Q)


class Person(BaseModel):
    """A structured answer."""

    name: str


def structured_output(app):
    app.engine(model=app.model('{"name": "Ada"}'), output_cls=Person).query(Q)


class OwnEngine(CustomQueryEngine):
    """Searches and answers by itself."""

    named: bool = True

    def custom_query(self, query_str: str) -> object:
        """Answer."""
        node = NodeWithScore(node=TextNode(text="gamma"), score=1.0)
        return Response("answer", source_nodes=[node]) if self.named else "answer"


def own_engine_with_sources(app):
    OwnEngine().query(Q)


def own_engine_with_own_sources(app):
    class Engine(CustomQueryEngine):
        def custom_query(self, query_str):
            app.retriever().retrieve(query_str)
            return OwnEngine().custom_query(query_str)

    Engine().query(Q)


def own_engine_without_sources(app):
    OwnEngine(named=False).query(Q)


def contexts_reported_by_an_event(app):
    @dispatcher.span
    def answer(question):
        get_dispatcher().event(ContextsEvent(contexts=["gamma", TextNode(text="delta")]))
        return app.engine(app.nothing(), response_mode="no_text").query(question) and "answer"

    answer(Q)


def indexing_is_not_a_request(app):
    app.index(*FOUND)


def model_call_is_not_a_request(app):
    app.model("hello").complete("a prompt")


def tags(app):
    with instrument_tags({"user_id": 7, "session_id": "s"}):
        app.engine().query(Q)
    assert ("7", "s") == (app.draft.user_id, app.draft.session_id)


def plain_thread_inside(app):
    @dispatcher.span
    def answer(question):
        thread = threading.Thread(target=app.retriever().retrieve, args=("inside",))
        thread.start()
        thread.join()
        return app.engine(app.nothing()).query(question)

    answer(Q)


def plain_generator(app):
    @dispatcher.span
    def answer(question):
        nodes = app.retriever().retrieve(question)
        tokens = app.model().stream_complete(f"{question} {len(nodes)}")
        return (token.delta for token in tokens)

    assert ["ans", "wer"] == list(answer(Q))


def response_of_a_custom_class(app):
    class Reply(StreamingResponse):
        pass

    class Engine(CustomQueryEngine):
        def custom_query(self, query_str):
            tokens = (token.delta for token in app.model().stream_complete(query_str))
            return Reply(response_gen=tokens, source_nodes=app.retriever().retrieve(query_str))

    assert ["ans", "wer"] == list(Engine().query(Q).response_gen)


# fmt: off
MATRIX = [
    # row  scenario                                question  contexts              answer            status
    (1,    query,                                [(Q,        FOUND,                "answer",         "ok")]),
    (1,    query_bundle,                         [(Q,        FOUND,                "answer",         "ok")]),
    (2,    aquery,                               [(Q,        FOUND,                "answer",         "ok")]),
    (13,   retriever_only,                       [(Q,        FOUND,                None,             "ok")]),
    (13,   aretriever_only,                      [(Q,        FOUND,                None,             "ok")]),
    (14,   manual_retrieve_and_synthesize,       [(Q,        FOUND,                None,             "ok"),
                                                  (Q,        FOUND,                "answer",         "ok")]),
    (15,   enclosing_span_groups_manual_calls,   [(Q,        ["alpha"],            "answer",         "ok")]),
    (15,   enclosing_span_returns_text,          [(Q,        ["beta"],             "answer",         "ok")]),
    (16,   postprocessor,                        [(Q,        ["beta"],             "answer",         "ok")]),
    (16,   cutoff,                               [(Q,        ["alpha"],            "answer",         "ok")]),
    (16,   reorder,                              [(Q,        ["a", "c", "b"],      "answer",         "ok")]),
    (16,   filter_removes_everything,            [(Q,        [],                   "Empty Response", "ok")]),
    (17,   vector_index,                         [(Q,        ["alpha"],            "answer",         "ok")]),
    (18,   refine,                               [(Q,        FOUND,                "answer",         "ok")]),
    (18,   tree_summarize,                       [(Q,        FOUND,                "answer",         "ok")]),
    (18,   simple_summarize,                     [(Q,        FOUND,                "answer",         "ok")]),
    (18,   accumulate,                           [(Q,        ["alpha"],            "Response 1: answer", "ok")]),
    (19,   no_text,                              [(Q,        FOUND,                "",               "ok")]),
    (19,   context_only,                         [(Q,        ["alpha"],            "alpha",          "ok")]),
    (20,   empty_retrieval,                      [(Q,        [],                   "Empty Response", "ok")]),
    (21,   retriever_error,                      [(Q,        None,                 None,             "error")]),
    (22,   llm_error,                            [(Q,        FOUND,                None,             "error")]),
    (22,   llm_error_that_refine_swallows,       [(Q,        FOUND,                "Empty Response", "ok")]),
    (23,   fusion_retriever,                     [(Q,        ["alpha", "gamma"],   "answer",         "ok")]),
    ("23b", several_retrievers,                  [(Q,        FOUND,                "answer",         "ok")]),
    ("23c", synthesizer_fails_and_another_answers, [(Q,      ["alpha"],            "answer",         "ok")]),
    ("23d", engine_as_retriever,                 [(Q,        ["beta"],             "answer",         "ok")]),
    ("23e", copied_sources,                      [(Q,        ["alp", "beta"],      "answer",         "ok")]),
    ("23f", failed_step_had_an_answer,           [(Q,        None,                 None,             "ok")]),
    (24,   sub_question,                         [(Q,        FOUND,                "answer",         "ok")]),
    (24,   sub_question_async,                   [(Q,        FOUND,                "answer",         "ok")]),
    (24,   sub_questions_to_a_citing_engine,     [(Q,        ["Source 1:\nalpha\n", "beta"],
                                                                                   "answer",         "ok")]),
    ("24b", multi_step,                          [(Q,        FOUND,                "answer",         "ok")]),
    (25,   router,                               [(Q,        FOUND,                "answer",         "ok")]),
    (25,   transform_hyde,                       [(Q,        FOUND,                "answer",         "ok")]),
    ("25b", retried_query,                       [(Q,        ["search 2"],         "answer",         "ok")]),
    (26,   citation,                             [(Q,        ["Source 1:\nalpha\n", "Source 2:\nbeta\n"],
                                                                                   "answer",         "ok")]),
    (36,   structured_output,                    [(Q,        FOUND,                '{"name":"Ada"}', "ok")]),
    (37,   tags,                                 [(Q,        FOUND,                "answer",         "ok")]),
    (38,   plain_thread_inside,                  [("inside", FOUND,                None,             "ok"),  # a limit of LlamaIndex
                                                  (Q,        [],                   "Empty Response", "ok")]),
    ("39", own_engine_with_sources,              [(Q,        ["gamma"],            "answer",         "ok")]),
    ("39", own_engine_with_own_sources,          [(Q,        FOUND,                "answer",         "ok")]),
    ("39", own_engine_without_sources,           [(Q,        None,                 "answer",         "ok")]),
    ("39", response_of_a_custom_class,            [(Q,        FOUND,                "answer",         "ok")]),
    ("39b", plain_generator,                     [(Q,        FOUND,                None,             "ok")]),  # no one can stand in for it
    ("40", contexts_reported_by_an_event,        [(Q,        ["gamma", "delta"],   "answer",         "ok")]),
    ("41", indexing_is_not_a_request,            []),
    ("41", model_call_is_not_a_request,          []),
]
# fmt: on


@pytest.mark.parametrize(("row", "scenario", "expected"), MATRIX, ids=[f"{row[0]}-{row[1].__name__}" for row in MATRIX])
def test_engine_matrix(app, row, scenario, expected):
    """Each scenario leaves exactly these records: question, contexts, answer, status."""
    scenario(app)
    assert expected == app.seen()
