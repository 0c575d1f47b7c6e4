"""What spans say in the words of each convention, beyond what the recordings show."""

from __future__ import annotations

import json

import pytest

from ragstone.reading import BufferedTrace
from ragstone.reading.otlp import OtelSpan, traces_of
from ragstone.reading.otlp._conventions import CONVENTIONS
from ragstone.reading.otlp._span import SpanEvent, seconds
from ragstone.requests import Request, Step, TraceDraft, assemble

GENAI, LANGFUSE, MLFLOW, OPENINFERENCE, TRACELOOP, VERCEL = (
    {convention.name: convention for convention in CONVENTIONS}[name]
    for name in ("genai", "langfuse", "mlflow", "openinference", "traceloop", "vercel_ai")
)
T = "0af7651916cd43dd8448eb211c80319c"
PASSAGE = "The north tower of the lighthouse is 41 metres high."


def span(attributes, *, name="s", number=1, parent=0, events=(), **more) -> OtelSpan:
    """A span with a number for an id."""
    return OtelSpan(
        trace_id=T,
        span_id=f"{number:016x}",
        parent_id=f"{parent:016x}" if parent else None,
        name=name,
        started_at=float(number),
        ended_at=number + 0.5,
        attributes=attributes,
        events=tuple(events),
        **more,
    )


def said(step: Step):
    """Kind, the last words of a person, and the reply."""
    messages = step.prompt or [message for value in step.inputs for message in value.messages or ()]
    asked = [message.text for message in messages if message.role == "user" and message.text]
    texts = [value.text for value in step.inputs if value.text]
    answers = [message.text for value in step.outputs for message in value.messages or () if not message.calls_tool]
    answers += [value.text for value in step.outputs if value.text]
    query = step.query or next(iter([*reversed(asked), *texts]), None)
    return step.kind, query, step.reply if step.reply is not None else next(iter(answers), None)


def staged(*spans: OtelSpan) -> BufferedTrace:
    """Spans as the stage gives them back."""
    return BufferedTrace(seq=0, trace_id=T, spans=tuple(s.staged().body for s in spans), is_cut=False)


def test_openinference_rerankers_give_what_they_put_out():
    """The output list is what went on, the input list what came."""
    node = OPENINFERENCE.read(
        span(
            {
                "openinference.span.kind": "RERANKER",
                "reranker.query": "q",
                "reranker.input_documents.0.document.content": "a",
                "reranker.output_documents.1.document.content": "c",
                "reranker.output_documents.0.document.content": "b",
                "reranker.output_documents.0.document.id": 7,
                "reranker.output_documents.0.document.score": "0.5",
            }
        )
    )

    assert ("transform", "q") == (node.kind, node.query)
    assert [("b", "7", 0.5), ("c", None, None)] == [(p.text, p.id, p.score) for p in node.passages]


def test_openinference_models_say_texts_not_tool_calls():
    """Blocks of content are put together; a call of a tool is no answer; the last word of a person is the question."""
    base = {"openinference.span.kind": "LLM", "llm.input_messages.0.message.role": "user"}
    blocks = {
        "llm.input_messages.0.message.contents.0.message_content.text": "one ",
        "llm.input_messages.0.message.contents.1.message_content.text": "two",
        "llm.output_messages.0.message.content": "a",
    }
    call = {"llm.output_messages.0.message.content": "", "llm.output_messages.0.message.tool_calls.0.tool_call.id": "1"}
    event = SpanEvent("First Token Stream Event", 1.25, {})

    assert ("model", "one two", "a") == said(OPENINFERENCE.read(span(base | blocks)))
    assert ("model", None, None) == said(OPENINFERENCE.read(span(base | call)))
    assert 1.25 == OPENINFERENCE.read(span(base, events=[event])).first_token_at


def test_openinference_embeddings_ask_nothing():
    """A trace of nothing but an embedding is no request."""
    node = OPENINFERENCE.read(span({"openinference.span.kind": "EMBEDDING", "input.value": "text"}))

    assert ("embedding", None, None) == said(node)


@pytest.mark.parametrize(
    ("attributes", "events", "expected"),
    [
        (
            {
                "gen_ai.prompt.0.role": "system", "gen_ai.prompt.0.content": "s", "gen_ai.prompt.1.role": "user",
                "gen_ai.prompt.1.content": "q", "gen_ai.completion.0.content": "a", "llm.request.type": "chat",
            },
            (),
            ("model", "q", "a"),
        ),
        (
            {"gen_ai.operation.name": "chat"},
            (
                SpanEvent("gen_ai.user.message", 1.0, {"content": "q"}),
                SpanEvent("gen_ai.choice", 2.0, {"message": json.dumps({"role": "assistant", "content": "a"})}),
            ),
            ("model", "q", "a"),
        ),
        (
            {"gen_ai.operation.name": "chat"},
            (
                SpanEvent("gen_ai.content.prompt", 1.0, {"gen_ai.prompt": '[{"role": "user", "content": "q"}]'}),
                SpanEvent("gen_ai.content.completion", 2.0, {"gen_ai.completion": '[{"role": "assistant", "content": "a"}]'}),
            ),
            ("model", "q", "a"),
        ),
        (
            {
                "gen_ai.operation.name": "invoke_agent",
                "gen_ai.input.messages": [{"role": "user", "parts": [{"type": "text", "content": "q"}]}],
                "gen_ai.output.messages": [{"role": "assistant", "parts": [{"type": "tool_call", "name": "t"}]}],
            },
            (),
            ("agent", "q", None),
        ),
        ({"gen_ai.operation.name": "embeddings", "gen_ai.usage.input_tokens": 4}, (), ("embedding", None, None)),
    ],
    ids=["numbered attributes", "events", "older events", "structured attributes", "embeddings"],
)  # fmt: skip
def test_genai_of_all_ages_is_read(attributes, events, expected):
    """The convention has put messages into numbered attributes, into two kinds of events, and into JSON."""
    assert expected == said(GENAI.read(span(attributes, events=events)))


def test_genai_documents_need_no_text():
    """Its schema asks for ids and scores alone: the texts stay empty, the ids are known."""
    documents = json.dumps([{"id": "d1", "score": 0.5}, {"id": "d2", "text": "two"}])
    node = GENAI.read(span({"gen_ai.operation.name": "retrieval", "gen_ai.retrieval.documents": documents}))

    assert [("d1", "", 0.5), ("d2", "two", None)] == [(p.id, p.text, p.score) for p in node.passages]
    assert GENAI.read(span({"gen_ai.operation.name": "retrieval"})).passages is None


def test_genai_tokens_have_older_names():
    """`prompt_tokens` and `completion_tokens` until 2024."""
    node = GENAI.read(span({"gen_ai.usage.prompt_tokens": "4", "gen_ai.usage.completion_tokens": 2}))

    assert ("model", 4, 2) == (node.kind, node.input_tokens, node.output_tokens)


def test_langfuse_reads_what_is_stated_of_the_trace():
    """Input and output that an application sets for the whole request win over those of its outermost step."""
    node = LANGFUSE.read(
        span(
            {
                "langfuse.observation.type": "span",
                "langfuse.observation.input": '{"args": ["x"], "kwargs": {}}',
                "langfuse.trace.input": '{"question": "q"}',
                "langfuse.trace.output": "a",
                "langfuse.observation.level": "ERROR",
                "langfuse.observation.status_message": "late",
            }
        )
    )

    assert ("chain", "q", "a", "late") == (*said(node), node.error)


def test_langfuse_decorated_functions_are_read():
    """`@observe` writes the arguments of a call; texts are texts even where they look like JSON."""
    asked = LANGFUSE.read(span({"langfuse.observation.input": '{"args": ["q"], "kwargs": {}}'}, parent=9))
    found = LANGFUSE.read(
        span({"langfuse.observation.type": "retriever", "langfuse.observation.output": '["one", "two"]'}, parent=9)
    )
    model = LANGFUSE.read(
        span(
            {
                "langfuse.observation.type": "generation",
                "langfuse.observation.completion_start_time": '"2026-01-01T00:00:00Z"',
            },
            parent=9,
        )
    )

    assert ("chain", "q", None) == said(asked)
    assert ["one", "two"] == [p.text for p in found.passages]
    assert 1767225600.0 == model.first_token_at


def test_mlflow_values_are_json_each():
    """Types and texts have quotes; messages are messages."""
    asked = json.dumps({"messages": [{"role": "user", "content": "q"}]})
    node = MLFLOW.read(
        span(
            {
                "mlflow.spanType": '"CHAT_MODEL"',
                "mlflow.spanInputs": asked,
                "mlflow.spanOutputs": json.dumps({"choices": [{"message": {"role": "assistant", "content": "a"}}]}),
                "mlflow.chat.tokenUsage": '{"input_tokens": 4, "output_tokens": 2, "total_tokens": 6}',
                "mlflow.trace.session": '"s-1"',
                "mlflow.llm.model": '"keeper"',
                "mlflow.trace.user": '["not", "an id"]',
            }
        )
    )
    found = MLFLOW.read(
        span({"mlflow.spanType": '"RETRIEVER"', "mlflow.spanOutputs": '[{"page_content": "p", "id": "1"}]'})
    )

    assert ("model", "q", "a", 4, 2) == (*said(node), node.input_tokens, node.output_tokens)
    assert [("p", "1")] == [(p.text, p.id) for p in found.passages]
    assert ("s-1", "keeper", None) == (node.session_id, node.model, node.user_id)
    stage = MLFLOW.read(span({"mlflow.spanType": '"STAGE"', "mlflow.spanInputs": '{"question": "q"}'}))
    assert ("chain", "q", None) == said(stage)


def test_parts_with_any_type_are_read_without_an_error():
    """The type of a part can be any value of JSON, and a refusal is what the model said."""
    parts = [{"type": {"a": 1}, "text": "x"}, {"type": ["tool_use"]}, {"type": "refusal", "refusal": "No."}]
    written = json.dumps([{"role": "assistant", "content": parts}])

    node = GENAI.read(span({"gen_ai.operation.name": "chat", "gen_ai.output.messages": written}))

    assert ("model", None, "No.") == said(node)


def test_traceloop_tells_nodes_that_came_from_nodes_that_were_sorted():
    """Of LlamaIndex's steps only inputs and outputs say what they are."""
    nodes = [json.dumps({"node": {"id_": "n1", "text": "p"}, "score": 0.5})]
    asked = {"query_bundle": {"query_str": "q"}}

    def read(given, got):
        node = TRACELOOP.read(
            span({"traceloop.entity.input": json.dumps(given), "traceloop.entity.output": json.dumps(got)})
        )
        return node.kind, node.query, node.passages and [p.text for p in node.passages]

    assert ("retrieval", "q", ["p"]) == read(asked, nodes)
    assert ("transform", "q", ["p"]) == read(asked | {"nodes": nodes}, nodes)
    assert ("retrieval", "q", ()) == read(asked, [])
    assert ("chain", None, None) == read({"text": "long"}, ["short", "pieces"])


def test_traceloop_tools_and_models():
    """A tool has a query and a result. A step of an unknown kind with messages of a model is a model."""
    tool = {"traceloop.span.kind": "tool", "traceloop.entity.input": json.dumps({"input_str": "when?"})}
    step = TRACELOOP.read(span(tool | {"traceloop.entity.output": json.dumps({"output": "At nine."})}))
    assert ("tool", "when?", "At nine.") == (step.kind, step.query, step.reply)
    messages = [{"role": "assistant", "parts": [{"type": "text", "content": "At nine."}]}]
    model = {"traceloop.entity.input": json.dumps({"x": "when?"}), "gen_ai.output.messages": json.dumps(messages)}
    assert "model" == TRACELOOP.read(span(model)).kind


@pytest.mark.parametrize("inputs", ["", {}, None])
def test_the_name_and_tags_of_a_streamed_chain_are_not_its_question(inputs):
    """Traceloop records an empty input for a streamed chain, next to the name, tags and metadata of the run."""
    settings = {"name": "plain", "voice": "night shift"}
    given = {"inputs": inputs, "tags": ["lighthouse"], "metadata": {"release": "2.0"}, "kwargs": settings}
    asked = {"query": "How high is it?", "tags": ["seq:step:1"], "metadata": {}, "kwargs": {"name": "Shelf"}}
    chain_span = span(
        {
            "traceloop.span.kind": "workflow",
            "traceloop.entity.input": json.dumps(given),
            "traceloop.entity.output": "{}",
        }
    )
    search = span(
        {
            "traceloop.span.kind": "task",
            "gen_ai.operation.name": "vector_db_retrieve",
            "traceloop.entity.input": json.dumps(asked),
            "traceloop.entity.output": json.dumps({"documents": [{"page_content": PASSAGE}]}),
        },
        number=2,
        parent=1,
    )
    (found,) = traces_of(staged(chain_span, search))

    assert ("How high is it?", "retrieval") == (found.query, found.evidence.query)


@pytest.mark.parametrize("name", ["name", "tags", "metadata", "config", "model", "run_name", "user_id", "thread_id"])
@pytest.mark.parametrize("convention", [OPENINFERENCE, LANGFUSE, MLFLOW], ids=lambda one: one.name)
def test_a_lone_setting_of_a_run_is_not_the_question(name, convention):
    """Where an input holds nothing but a name, a tag or an id, the question is unknown."""
    given = json.dumps({name: {"tags": ["night shift"]} if name == "metadata" else "night shift"})
    attributes = {
        "openinference": {
            "openinference.span.kind": "CHAIN",
            "input.value": given,
            "input.mime_type": "application/json",
        },
        "langfuse": {"langfuse.observation.type": "chain", "langfuse.observation.input": given},
        "mlflow": {"mlflow.spanType": '"CHAIN"', "mlflow.spanInputs": given},
    }[convention.name]
    attributes |= {"output.value": "a", "langfuse.observation.output": "a", "mlflow.spanOutputs": '"a"'}
    step = convention.read(span(attributes))
    found = assemble(Request(draft=TraceDraft(), steps=[step]))

    assert (None, "unknown", "a") == (found.query, found.evidence.query, found.response)


def test_the_span_of_an_application_below_a_server_states_the_request():
    """Langfuse's SDK marks it. An observation without a type is a step of the application."""
    attributes = {
        "langfuse.internal.is_app_root": True, "langfuse.trace.input": "q", "langfuse.trace.output": "a",
        "langfuse.observation.input": "other", "langfuse.observation.output": "other",
    }  # fmt: skip

    assert ("chain", "q", "a") == said(LANGFUSE.read(span(attributes, parent=9)))


def test_the_state_of_a_workflow_is_not_a_question():
    """The first span of a workflow of LlamaIndex is given its configuration."""
    given = {"input.value": json.dumps({"init_state": {"prompt": "Be kind."}}), "input.mime_type": "application/json"}
    step = OPENINFERENCE.read(span({"openinference.span.kind": "CHAIN", "output.value": "a"} | given))

    assert ("chain", None, "a") == said(step)


def test_models_of_the_vercel_sdk():
    """A text next to calls of tools is an answer. An embedding is not a model that answers."""
    model = {"ai.operationId": "ai.generateText.doGenerate", "ai.response.toolCalls": "[{}]"}
    replied, called = (VERCEL.read(span(model | more)) for more in ({"ai.response.text": "a"}, {}))

    assert [("model", "a", False), ("model", None, True)] == [
        (s.kind, s.reply, s.calls_tool) for s in (replied, called)
    ]
    assert "model" != VERCEL.read(span({"ai.operationId": "ai.embed.doEmbed"})).kind


def test_a_model_that_traceloop_calls_unknown_has_the_name_of_its_settings():
    """Its instrumentation writes the word if the library does not name the model."""
    attributes = {
        "traceloop.entity.name": "m", "gen_ai.operation.name": "chat", "gen_ai.request.model": "unknown",
        "traceloop.association.properties.ls_model_name": "small",
    }  # fmt: skip

    assert "small" == TRACELOOP.read(span(attributes)).model


def test_words_before_a_call_of_a_tool_are_not_an_answer():
    """As numbered attributes write a completion."""
    called = {"gen_ai.completion.0.content": "Let me look.", "gen_ai.completion.0.tool_calls.0.name": "search"}
    step = GENAI.read(span({"gen_ai.operation.name": "chat"} | called))

    assert (None, True) == (step.reply, step.calls_tool)


def test_ids_of_documents_may_be_in_the_output_alone():
    """LangChain's instrumentation writes texts as attributes, and documents with ids as JSON."""
    attributes = {
        "openinference.span.kind": "RETRIEVER", "retrieval.documents.0.document.content": PASSAGE,
        "output.value": json.dumps({"documents": [{"page_content": PASSAGE, "id": "d1"}]}),
        "output.mime_type": "application/json",
    }  # fmt: skip
    (passage,) = OPENINFERENCE.read(span(attributes)).passages

    assert (PASSAGE, "d1") == (passage.text, passage.id)


def test_tags_of_a_retrieval_are_neither_its_query_nor_its_passages():
    """A retriever that reports its tags next to what it found."""
    given = json.dumps({"tags": "seq:step:1", "text": "How high is it?"})
    got = json.dumps({"tags": ["seq:step:1", "lighthouse"], "documents": [{"page_content": PASSAGE}]})
    step = MLFLOW.read(span({"mlflow.spanType": '"RETRIEVER"', "mlflow.spanInputs": given, "mlflow.spanOutputs": got}))

    assert ("How high is it?", [PASSAGE]) == (step.query, [passage.text for passage in step.passages])


def chain(convention: str, number: int, parent: int = 0) -> OtelSpan:
    """A request's span in the words of OpenInference or of OpenTelemetry's convention."""
    if convention == "openinference":
        attributes = {"openinference.span.kind": "CHAIN", "input.value": "q", "output.value": "a"}
    else:
        messages = '[{"role": "%s", "parts": [{"type": "text", "content": "%s"}]}]'
        attributes = {
            "gen_ai.operation.name": "chat",
            "gen_ai.input.messages": messages % ("user", f"Answer from this: {PASSAGE}"),
            "gen_ai.output.messages": messages % ("assistant", "a"),
            "gen_ai.usage.input_tokens": 3,
            "gen_ai.usage.output_tokens": 2,
        }
    return span(attributes, number=number, parent=parent)


def retrieval(convention: str, number: int, parent: int) -> OtelSpan:
    """A search's span in the words of one of the two."""
    if convention == "openinference":
        attributes = {"openinference.span.kind": "RETRIEVER", "retrieval.documents.0.document.content": PASSAGE}
    else:
        attributes = {
            "gen_ai.operation.name": "retrieval", "gen_ai.retrieval.documents": json.dumps([{"id": "d", "content": PASSAGE}])
        }  # fmt: skip
    return span(attributes, number=number, parent=parent)


def test_a_search_of_memory_is_a_retrieval():
    """Its records are passages, as OpenTelemetry's convention has them since 2026."""
    records = [{"id": "m1", "content": PASSAGE, "score": 0.5}, {"id": "m2", "content": "Cars cost 28.", "score": 0.25}]
    memory = span(
        {
            "gen_ai.operation.name": "search_memory",
            "gen_ai.memory.query.text": "q",
            "gen_ai.memory.records": json.dumps(records),
        },
        number=2,
        parent=1,
    )
    step = GENAI.read(memory)
    assert ("retrieval", "q") == (step.kind, step.query)
    assert [("m1", PASSAGE, 0.5), ("m2", "Cars cost 28.", 0.25)] == [(p.id, p.text, p.score) for p in step.passages]


def test_of_two_conventions_the_one_that_says_most_is_read():
    """An instrumented client below an instrumented framework adds spans, not a second reading."""
    (found,) = traces_of(staged(chain("openinference", 1), retrieval("openinference", 2, 1), chain("genai", 3, 1)))

    assert ("openinference", "q", [PASSAGE], "a") == (
        found.source, found.query, [p.text for p in found.prompt_contexts], found.response
    )  # fmt: skip


def test_conventions_that_know_half_each_are_read_together():
    """A chain in one convention, its retrieval in another: together they are a request."""
    (found,) = traces_of(staged(chain("openinference", 1), retrieval("genai", 2, 1), chain("genai", 3, 1)))

    assert ("q", [PASSAGE], "a") == (found.query, [p.text for p in found.prompt_contexts], found.response)
    assert 3 == found.usage.input_tokens


def test_the_question_of_an_application_counts_more_than_that_of_a_prompt():
    """One convention knows a question, passages and an answer; its question is the one that the model was sent."""
    messages = [
        {"role": "system", "parts": [{"type": "text", "content": f"Answer from this: {PASSAGE}"}]},
        {"role": "user", "parts": [{"type": "text", "content": "How high is the tower in metres?"}]},
    ]
    model = chain("genai", 3, 1)
    model.attributes["gen_ai.input.messages"] = json.dumps(messages)
    search = retrieval("genai", 2, 1)
    search.attributes["gen_ai.retrieval.query.text"] = "height of the tower"
    (alone,) = traces_of(staged(span({}), search, model))
    (both,) = traces_of(staged(chain("openinference", 1), search, model))

    assert ("How high is the tower in metres?", [PASSAGE], "a") == (
        alone.query, [p.text for p in alone.prompt_contexts], alone.response
    )  # fmt: skip
    assert ("q", [PASSAGE], "a") == (both.query, [p.text for p in both.prompt_contexts], both.response)


def test_spans_of_no_convention_are_no_request():
    """Counted, with the reason."""
    (found,) = traces_of(staged(span({"http.method": "GET"}), span({}, number=2)))

    assert "not a request: no span follows a convention that is known" == found.reason


def test_a_trace_that_was_cut_is_told():
    """Half a request would be scored as if it were all of it."""
    cut = BufferedTrace(seq=0, trace_id=T, spans=staged(chain("openinference", 1)).spans, is_cut=True)
    (found,) = traces_of(cut)

    assert "it has more spans, or more bytes, than are kept" == found.reason


def test_what_an_application_adds_to_its_spans_is_kept():
    """Attributes with no meaning of their own become metadata."""
    asked = span({"openinference.span.kind": "CHAIN", "input.value": "q", "shop.branch": "north", "http.method": "GET"})
    (found,) = traces_of(staged(asked))

    assert {"shop.branch": "north"} == found.metadata


def test_a_span_survives_the_stage():
    """What is written to disk is what is read back."""
    one = span({"a": [1, "ü", None]}, events=[SpanEvent("e", 1.5, {"b": 2})], is_error=True, status_message="m")

    assert one == OtelSpan.from_staged(one.staged().body)
    assert "m" == one.error
    exception = SpanEvent("exception", None, {"exception.type": "ValueError", "exception.message": "no"})
    assert "ValueError: no" == span({}, events=[exception], is_error=True).error
    assert "error" == span({}, is_error=True).error
    assert "TimeoutError" == span({"error.type": "TimeoutError"}, is_error=True).error
    assert "late" == span({"error.type": "TimeoutError"}, is_error=True, status_message="late").error


def test_ids_are_not_redacted():
    """Those of users, sessions and passages, in the names of each convention. What is in them is hashed elsewhere."""
    ids = {
        "user.id": "u", "session.id": "s", "enduser.id": 7, "langfuse.user.id": "u", "langfuse.session.id": "s",
        "gen_ai.conversation.id": "s", "spring.ai.chat.client.conversation.id": "s", "ai.telemetry.metadata.userId": "u",
        "retrieval.documents.0.document.id": "d", "traceloop.association.properties.thread_id": "s",
        "mlflow.trace.user": "u", "mlflow.trace.session": "s",
    }  # fmt: skip
    texts = {
        "user.name": "Ada",
        "input.value": "Why?",
        "retrieval.documents.0.document.content": "So.",
        "document.id": ["d"],
    }
    one = span(ids | texts, status_message="late", events=[SpanEvent("exception", 1.0, {"exception.message": "no"})])

    redacted = one.redacted(lambda text: "*" if text in ("u", "s", "d", "Ada", "Why?", "So.", "late", "no") else text)

    assert ids | dict.fromkeys(texts, "*") | {"document.id": ["*"]} == redacted.attributes
    assert ("*", {"exception.message": "*"}) == (redacted.status_message, redacted.events[0].attributes)


@pytest.mark.parametrize(
    ("nanoseconds", "expected"),
    [
        (1_500_000_000, 1.5), ("1500000000", 1.5), (1.5e9, 1.5), (0, None), ("0", None), (-1, None), (2**64, None), (True, None),
        ("1.5e9", None), ("\N{ARABIC-INDIC DIGIT THREE}", None), (None, None),
    ],
)  # fmt: skip
def test_times_are_nanoseconds_since_1970(nanoseconds, expected):
    """Also as a text, as protobuf's JSON has them. 0 is no time."""
    assert expected == seconds(nanoseconds)


def test_the_span_of_a_server_states_the_id_of_the_request():
    """It follows no convention, and is the outermost span of the trace."""
    server = span({"http.method": "POST", "ragstone.trace_id": "request-7"})
    (found,) = traces_of(staged(server, chain("openinference", 2, 1)))

    assert ("request-7", "q") == (found.trace_id, found.query)


def test_of_two_conventions_that_know_all_the_one_with_ids_is_read():
    """Both are on the same spans."""
    messages = '[{"role": "%s", "parts": [{"type": "text", "content": "%s"}]}]'
    asked, search = chain("openinference", 1), retrieval("openinference", 2, 1)
    asked.attributes.update(
        {
            "gen_ai.operation.name": "invoke_agent", "gen_ai.input.messages": messages % ("user", "q"),
            "gen_ai.output.messages": messages % ("assistant", "a"),
        }
    )  # fmt: skip
    search.attributes.update(retrieval("genai", 2, 1).attributes)
    (found,) = traces_of(staged(asked, search))

    assert ("genai", "q", ["d"], "a") == (
        found.source, found.query, [p.id for p in found.prompt_contexts], found.response
    )  # fmt: skip
