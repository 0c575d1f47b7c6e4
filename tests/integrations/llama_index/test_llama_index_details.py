"""What a record says beside question, contexts, answer and status; extractors; other observers in the same process."""

from __future__ import annotations

import asyncio
import types

import pytest
from llama_index.core.base.llms import types as llm_types
from llama_index.core.base.llms.types import ChatMessage, ChatResponse, CompletionResponse
from llama_index.core.base.response.schema import Response
from llama_index.core.instrumentation import get_dispatcher
from llama_index.core.instrumentation.dispatcher import instrument_tags
from llama_index.core.query_engine import CustomQueryEngine
from llama_index.core.retrievers import BaseRetriever, QueryFusionRetriever
from llama_index.core.schema import NodeWithScore, TextNode
from pydantic import BaseModel

from llama_index.observability.ragstone._messages import fill_reply
from ragstone.requests import Step

Q = "who?"
FOUND = ["alpha", "beta"]
OK = (Q, FOUND, "answer", "ok")


def test_passages_keep_what_the_retriever_said(app):
    """Text, id, score and scalar metadata of each node, and the name and query of the search."""
    app.engine().query(Q)
    (search,) = app.draft.retrievals
    assert (Q, "FixedRetriever") == (search.query, search.name)
    assert [("alpha", "id-alpha", 1.0, {"rank": 0}), ("beta", "id-beta", 0.5, {"rank": 1})] == [
        (passage.text, passage.id, passage.score, passage.metadata) for passage in search.passages
    ]
    assert app.draft.stored_contexts is None


def test_contexts_have_the_score_of_the_reranker(app):
    """The search keeps the retriever's."""
    app.engine(node_postprocessors=[app.keep_last()]).query(Q)
    assert ([0.9], [1.0, 0.5]) == (
        [passage.score for passage in app.draft.contexts],
        [passage.score for passage in app.draft.retrievals[0].passages],
    )


def test_ids_and_times(make_app):
    """The trace is named after the root span, and timed by the instrumentor's clock."""
    ticks = iter(range(100, 200))
    app = make_app(options={"clock": lambda: float(next(ticks))})
    app.engine().query(Q)
    draft = app.draft
    name, _, trace_id = draft.run_id.partition("-")
    assert ("RetrieverQueryEngine.query", trace_id, "llamaindex", name) == (
        name, draft.trace_id, draft.source, draft.name,
    )  # fmt: skip
    assert 36 == len(trace_id)
    assert 100.0 == draft.started_at < draft.ended_at


class Usage(types.SimpleNamespace):
    """A provider's answer that is an object, as its client's own types are."""


PROVIDERS = {
    "chat completions": {"usage": {"prompt_tokens": 10, "completion_tokens": 3}, "model": "tiny-2"},
    "an object": Usage(usage=Usage(prompt_tokens=10, completion_tokens=3), model="tiny-2"),
    "messages": {"usage": {"input_tokens": 10, "output_tokens": 3}, "model": "tiny-2"},
    "generate content": {
        "usage_metadata": {"prompt_token_count": 10, "candidates_token_count": 3}, "model_version": "tiny-2",
    },
    "generate content, over HTTP": {
        "usageMetadata": {"promptTokenCount": 10, "candidatesTokenCount": 3}, "modelVersion": "tiny-2",
    },
    "converse": {"usage": {"inputTokens": 10, "outputTokens": 3}, "model": "tiny-2"},
    "a local server": {"prompt_eval_count": 10, "eval_count": 3, "model": "tiny-2"},
    "nested": {"usage": {"tokens": {"input_tokens": 10, "output_tokens": 3}}, "model": "tiny-2"},
    "billed": {"meta": {"billed_units": {"input_tokens": 10, "output_tokens": 3}}, "model": "tiny-2"},
}  # fmt: skip


@pytest.mark.parametrize("raw", PROVIDERS.values(), ids=PROVIDERS)
def test_usage_as_providers_name_it(app, raw):
    """Wherever the answer of a provider has its tokens and the name of its model."""
    app.engine(model=app.model("answer", raw=raw)).query(Q)
    assert (10, 3, "tiny-2") == (app.draft.input_tokens, app.draft.output_tokens, app.draft.model)


@pytest.mark.parametrize("raw", [{"id": "chatcmpl-7"}, Usage(id="chatcmpl-7"), {"responseId": "chatcmpl-7"}, {"id": 7}])
def test_id_of_the_response(app, raw):
    """The id that the provider gave to the response with the answer, so that its logs can be found. It is a text."""
    app.engine(model=app.model("answer", raw=raw)).query(Q)
    assert (None if raw == {"id": 7} else "chatcmpl-7") == app.draft.response_id


def step_of(reply):
    """Read the reply of a model."""
    step = Step(id=1, kind="model")
    fill_reply(step, reply)
    return step


def test_usage_beside_the_reply():
    """Some of LlamaIndex's models count into the extras of the response, or of its message."""
    usage, message = {"prompt_tokens": 10, "completion_tokens": 3}, ChatMessage(role="assistant", content="answer")
    replies = [
        ChatResponse(message=message, additional_kwargs=usage),
        ChatResponse(message=ChatMessage(role="assistant", content="answer", additional_kwargs=usage)),
        CompletionResponse(text="answer", additional_kwargs=usage),
    ]
    assert [(10, 3)] * 3 == [(step.input_tokens, step.output_tokens) for step in map(step_of, replies)]


@pytest.mark.parametrize("raw", [None, 7, {"usage": None}, {"usage": {"prompt_tokens": "many"}}, {"usage": [1]}])
def test_usage_that_is_none(app, raw):
    """What is no number of tokens is not taken for one, and costs nothing else."""
    app.engine(model=app.model("answer", raw=raw)).query(Q)
    assert [OK] == app.seen()
    assert (None, None, "tiny-1") == (app.draft.input_tokens, app.draft.output_tokens, app.draft.model)


@pytest.mark.parametrize("way", ["query", "aquery", "stream"])
def test_usage_and_model(app, way):
    """Tokens of each call are counted once, whichever of a model's methods calls which."""
    engine = app.engine(model=app.model("answer", raw=PROVIDERS["messages"]), streaming=way == "stream")
    asyncio.run(engine.aquery(Q)) if way == "aquery" else str(engine.query(Q))
    assert (10, 3, "tiny-2") == (app.draft.input_tokens, app.draft.output_tokens, app.draft.model)


def test_usage_adds_up_over_the_calls_of_a_request(app):
    """Refining twice costs twice."""
    raw = {"usage": {"prompt_tokens": 10, "completion_tokens": 3}}
    app.engine(model=app.model("draft", "answer", raw=raw), response_mode="refine").query(Q)
    assert (20, 6, "tiny-1") == (app.draft.input_tokens, app.draft.output_tokens, app.draft.model)


def test_instrument_tags(app):
    """Row 37: who asked, in which session, what a right answer is, and the application's own."""
    tags = {
        "user_id": 7, "session_id": "s", "reference": ["yes", "indeed"], "tags": ["canary"],
        "release": "r1", "secret": object(), "llamaindex.step": "x",
    }  # fmt: skip
    with instrument_tags(tags):
        app.engine().query(Q)
    draft = app.draft
    assert ("7", "s", ["yes", "indeed"]) == (draft.user_id, draft.session_id, draft.reference)
    assert (["canary"], {"release": "r1"}) == (draft.tags, draft.metadata)


def test_errors_say_their_type(app):
    """Row 21: the root's error is the trace's; it is not repeated among the errors that were survived."""
    with pytest.raises(ConnectionError):
        app.engine(app.retriever(failures=[ConnectionError("index down")])).query(Q)
    assert ("ConnectionError: index down", []) == (app.draft.error, app.draft.inner_errors)


def test_errors_that_refine_swallows_are_kept(app):
    """Row 22: "Empty Response" looks like success; the record says what happened."""
    try:
        app.engine(model=app.model(ValueError("no JSON"))).query(Q)
    except ValueError:
        pytest.skip("LlamaIndex swallows it since a later 0.14")
    assert ("ok", None, ["ValueError: no JSON"]) == (app.draft.status, app.draft.error, app.draft.inner_errors)


def test_sub_questions_are_searches(app):
    """Row 24: each with its own query and passages."""
    from llama_index.core.query_engine import SubQuestionQueryEngine
    from llama_index.core.question_gen import LLMQuestionGenerator

    questions = '```json\n{"items": [{"sub_question": "s1", "tool_name": "search"}]}\n```'
    SubQuestionQueryEngine.from_defaults(
        [app.tool()], llm=app.model(), question_gen=LLMQuestionGenerator.from_defaults(app.model(questions)),
        use_async=False, verbose=False,
    ).query(Q)  # fmt: skip
    assert (Q, ["s1"]) == (app.draft.query, [search.query for search in app.draft.retrievals])


class Deep(BaseRetriever):
    """Asks a whole engine, and a model, before it finds something itself."""

    def __init__(self, engine, model):
        super().__init__()
        self._engine, self._model = engine, model

    def _retrieve(self, query_bundle):
        self._engine.query("inner")
        self._model.complete("rewrite")
        return [NodeWithScore(node=TextNode(text="gamma"), score=1.0)]


def test_what_happens_inside_a_search_is_its_own_business(app):
    """Inner engines, retrievers, re-rankers and models are neither searches, contexts nor the answer."""
    inner = app.engine(node_postprocessors=[app.keep_last()], model=app.model("inner"))

    @get_dispatcher(__name__).span
    def answer(question):
        Deep(inner, app.model("rewritten")).retrieve(question)
        return 42

    answer(Q)
    assert [(Q, ["gamma"], None, "ok")] == app.seen()
    assert ["Deep"] == [search.name for search in app.draft.retrievals]
    assert app.draft.first_token_s is None


def test_fused_searches_are_one(app):
    """Row 23: the outermost search counts, with the fused list."""
    fusion = QueryFusionRetriever(
        [app.retriever("alpha"), app.retriever("beta")], llm=app.model(), num_queries=1, use_async=False
    )
    app.engine(fusion).query(Q)
    assert [(Q, "QueryFusionRetriever")] == [(search.query, search.name) for search in app.draft.retrievals]


class OddEngine(CustomQueryEngine):
    """An application with shapes of its own."""

    def custom_query(self, query_str: str) -> object:
        """Answer."""
        return {"haiku": "short", "evidence": ["long"]}


def test_extractors_come_before_the_rules(make_app):
    """An application with its own shapes says where things are."""
    app = make_app(
        options={
            "question": lambda arguments: arguments["str_or_query_bundle"].upper(),
            "contexts": lambda result: result["evidence"],
            "answer": lambda result: result["haiku"],
        }
    )
    OddEngine().query(Q)
    assert [("WHO?", ["long"], "short", "ok")] == app.seen()


def test_no_contexts_is_not_unknown_contexts(make_app):
    """An application that says that nothing reached the prompt is believed."""
    app = make_app(options={"contexts": lambda result: []})
    OddEngine().query(Q)
    assert [] == app.draft.contexts


def test_a_question_is_not_guessed_among_several_texts(app):
    """One text is the question; of two that are called nothing familiar, neither is, and the search says."""

    @get_dispatcher(__name__).span
    def answer(style, topic):
        return str(app.engine().query(topic))

    answer("rude", Q)
    assert [OK] == app.seen()


def test_raising_extractor_costs_only_its_piece(make_app):
    """The rest of the trace is there, and the error is counted."""
    app = make_app(options={"question": lambda arguments: arguments["no such key"], "answer": lambda result: None})
    app.engine().query(Q)
    assert ([OK], 1) == (app.seen(), app.instrumentor.errors)


def test_extractors_are_not_asked_for_the_answer_of_a_stream(make_app):
    """They would read it."""
    app = make_app(options={"answer": str, "contexts": lambda result: result.source_nodes[:1]})
    assert ["ans", "wer"] == list(app.engine(streaming=True).query(Q).response_gen)
    assert [(Q, ["alpha"], "answer", "ok")] == app.seen()


@pytest.mark.parametrize("wrong", [7, object(), [1, 2], {"answer": 3}, b"bytes", Response(None)])
def test_odd_results_are_no_errors(app, wrong):
    """Whatever an application returns, its record comes out."""

    @get_dispatcher(__name__).span
    def answer(thing):
        app.retriever().retrieve(Q)
        return wrong

    assert wrong is answer(None)
    assert [(Q, FOUND, None, "ok")] == app.seen()


def test_the_current_span_is_linked(app):
    """An application that traces with OpenTelemetry gets its scores on its own spans."""
    from opentelemetry.sdk.trace import TracerProvider

    with TracerProvider().get_tracer("test").start_as_current_span("request") as span:
        app.engine().query(Q)
    app.engine().query(Q)
    context = span.get_span_context()
    assert (f"{context.trace_id:032x}", f"{context.span_id:016x}") == (
        app.drafts[0].otel_trace_id,
        app.drafts[0].otel_span_id,
    )
    assert (None, None) == (app.drafts[1].otel_trace_id, app.drafts[1].otel_span_id)
    # A reader of the exported trace takes the request for the same one.
    assert app.drafts[0].trace_id == span.attributes["ragstone.trace_id"]


@pytest.mark.parametrize("ours_first", [True, False], ids=["ours first", "theirs first"])
def test_beside_openinference(make_app, ours_first):
    """In either order: tokens intact, both complete, and our records carry the trace that theirs are in."""
    openinference = pytest.importorskip("openinference.instrumentation.llama_index")
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    theirs = openinference.LlamaIndexInstrumentor()
    app = make_app() if ours_first else None
    theirs.instrument(tracer_provider=provider)
    if not theirs.is_instrumented_by_opentelemetry:
        app.instrumentor.stop_registering() if app else None
        pytest.skip("OpenInference refuses this version of LlamaIndex")
    app = app or make_app()

    async def read(engine):
        response = await engine.aquery(Q)
        return [token async for token in response.async_response_gen()]

    try:
        whole, streaming = app.engine(), app.engine(streaming=True)
        assert "answer" == whole.query(Q).response
        assert ["ans", "wer"] == list(streaming.query(Q).response_gen)
        assert ["ans", "wer"] == asyncio.run(read(streaming))
        early = streaming.query(Q).response_gen
        next(early)
        early.close()
    finally:
        theirs.uninstrument()
        app.instrumentor.stop_registering()
    assert [OK, OK, OK, (Q, FOUND, "ans", "truncated")] == app.seen()
    assert (0, 0) == (app.instrumentor.errors, app.instrumentor.in_flight)
    their_traces = {f"{span.context.trace_id:032x}" for span in exporter.get_finished_spans()}
    assert {draft.otel_trace_id for draft in app.drafts} <= their_traces


def test_a_call_of_a_tool_is_no_answer():
    """Whether the call is a block of the message, as in newer versions, or beside it; what is said with it is no answer."""
    beside = ChatMessage(role="assistant", content="I search.", additional_kwargs={"tool_calls": [object()]})
    plain = ChatMessage(role="assistant", content="answer")
    assert [True, False] == [step_of(ChatResponse(message=message)).calls_tool for message in (beside, plain)]
    if hasattr(llm_types, "ToolCallBlock"):
        blocks = [llm_types.TextBlock(text="I search."), llm_types.ToolCallBlock(tool_name="search", tool_kwargs={})]
        assert step_of(ChatResponse(message=ChatMessage(role="assistant", blocks=blocks))).calls_tool


class Reply(BaseModel):
    """What a workflow of the application's may return."""

    answer: str | None = None
    pages: list[int] = []


class Verse(BaseModel):
    """The same, with a name that no rule knows."""

    line: str = "a rhyme"


@pytest.mark.parametrize(
    ("result", "answer"),
    [
        (Reply(answer="me"), "me"),
        (Reply(answer=""), ""),
        (Reply(), None),
        (Verse(), '{"line":"a rhyme"}'),
        ({"answer": Reply(answer="me")}, "me"),
    ],
)
def test_answer_in_an_object_of_the_application(app, result, answer):
    """Under a usual name, else the object as JSON. An object with an empty field for the answer does not have one."""

    @get_dispatcher(__name__).span
    def respond(question):
        app.retriever().retrieve(question)
        return result

    respond(Q)
    assert answer == app.draft.response
