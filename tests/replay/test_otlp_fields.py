"""Which attribute of each convention is which field of a step: one row for each rule."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ragstone.reading.otlp import OtelSpan, OtlpFormat
from ragstone.reading.otlp._conventions import CONVENTIONS
from ragstone.reading.otlp._span import SpanEvent
from ragstone.requests import Step

BY_NAME = {convention.name: convention for convention in CONVENTIONS}
JSON = "application/json"


def shown(role: str, *contents: str) -> str:
    """A message as Haystack's instrumentation shows it."""
    name = {"user": "USER", "assistant": "ASSISTANT", "tool": "TOOL"}[role]
    return f"ChatMessage(_role=<ChatRole.{name}: '{role}'>, _content=[{', '.join(contents)}], _name=None, _meta={{}})"


def text(content: str) -> str:
    """A text in such a message."""
    return f"TextContent(text={content!r})"


TOOL_CALL = "ToolCall(tool_name='search', arguments={'q': 'why'}, id='1', extra=None)"
TOOL_RESULT = f"ToolCallResult(result='Because.', origin={TOOL_CALL}, error=False)"


def sides(given: object = None, got: object = None) -> dict[str, Any]:
    """Inputs and outputs of OpenInference, as JSON."""
    named = {"input": given, "output": got}
    return {
        f"{side}.{key}": content
        for side, value in named.items()
        if value is not None
        for key, content in (("value", json.dumps(value)), ("mime_type", JSON))
    }


def openinference(kind: str, **attributes: object) -> dict[str, Any]:
    """Attributes of a span of OpenInference; two underscores are a dot."""
    return {"openinference.span.kind": kind} | {name.replace("__", "."): value for name, value in attributes.items()}


def facts(step: Step, names: object) -> dict[str, Any]:
    """Return fields of a step as plain values."""
    found: dict[str, Any] = {
        "passages": None if step.passages is None else [(p.text, p.id, p.score) for p in step.passages],
        "passage_metadata": [dict(p.metadata) for p in step.passages or ()],
        "input_texts": None if step.input_texts is None else list(step.input_texts),
        "prompt": None if step.prompt is None else [(m.role, m.text) for m in step.prompt],
        "prompt_calls": [m.calls_tool for m in step.prompt or ()],
        "prompt_tools": [m.tool for m in step.prompt or ()],
        "tokens": (step.input_tokens, step.output_tokens),
        "tags": list(step.tags),
        "metadata": dict(step.metadata),
    }
    for side, values in (("inputs", step.inputs), ("outputs", step.outputs)):
        found[side] = [v.text if v.text is not None else [m.text for m in v.messages or ()] for v in values]
        found[f"{side}_roles"] = [m.role for v in values for m in v.messages or ()]
    return {name: found[name] if name in found else getattr(step, name) for name in names}  # type: ignore[attr-defined]


def numbered(name: str, *messages: dict[str, object]) -> dict[str, object]:
    """Numbered attributes, as `gen_ai.prompt.0.role`."""
    return {f"{name}.{n}.{key}": value for n, message in enumerate(messages) for key, value in message.items()}


PARTS = '[{"role": "%s", "parts": [{"type": "text", "content": "%s"}]}]'
NODE = json.dumps({"node": {"id_": "n1", "text": "p"}, "score": 0.5})
FINAL = openinference(
    "LLM",
    smolagents__x=1,
    llm__output_messages__0__message__content="Let me answer.",
    llm__output_messages__0__message__tool_calls__0__tool_call__function__name="final_answer",
    llm__output_messages__0__message__tool_calls__0__tool_call__function__arguments='{"answer": "So."}',
)
SEARCH_CALL = {name: "search" if value == "final_answer" else value for name, value in FINAL.items()}

ROWS: dict[str, list[tuple[dict[str, Any], dict[str, Any]]]] = {
    "smolagents": [
        (FINAL, {"kind": "model", "reply": "So.", "calls_tool": False}),
        (SEARCH_CALL, {"reply": "Let me answer.", "calls_tool": True}),
        (openinference("TOOL", smolagents__x=1, tool__name="final_answer"), {"kind": "part"}),
        (openinference("TOOL", smolagents__x=1, tool__name="search"), {"kind": "tool", "name": "search"}),
        (
            openinference("AGENT", smolagents__x=1, input__value='{"task": "Why?"}'),
            {"kind": "agent", "inputs": ["Why?"]},
        ),
    ],
    "haystack": [
        (
            openinference("LLM")
            | sides(
                {"messages": [shown("user", text("Why?")), shown("assistant", TOOL_CALL), shown("tool", TOOL_RESULT)]},
                {"replies": [shown("assistant", text("Draft.")), shown("assistant", text("So, "), text("it's so."))]},
            ),
            {
                "kind": "model", "prompt": [("user", "Why?"), ("assistant", ""), ("tool", "Because.")],
                "prompt_calls": [False, True, False], "prompt_tools": [None, None, "search"], "reply": "So, it's so.",
            },
        ),
        (
            openinference("LLM", llm__input_messages__0__message__role="tool") | sides({"messages": [shown("tool", TOOL_RESULT)]}),
            {"prompt": [("tool", "Because.")]},
        ),
        (
            openinference("LLM") | sides(None, {"replies": [shown("assistant", TOOL_CALL)]}),
            {"reply": None, "calls_tool": True},
        ),
        (
            openinference("CHAIN")
            | sides({"data": {"messages": [shown("user", text("Why?"))]}}, {"llm": {"replies": [shown("assistant", text("So."))]}}),
            {"kind": "chain", "inputs": [["Why?"]], "outputs": [["So."]], "outputs_roles": ["assistant"]},
        ),
        (
            # A list in which something else is shown is a list of texts.
            openinference("LLM") | sides({"messages": [shown("user", text("Why?")), "Image(...)"]}),
            {"prompt": [("user", shown("user", text("Why?"))), ("user", "Image(...)")]},
        ),
        (
            openinference("LLM") | sides({"messages": ["ChatMessage(_role=<ChatRole.USER: 'user'>, _content=[TextContent(text='a\\xzz')])"]}),
            {"prompt": [("user", "a\\xzz")]},
        ),
    ],
    "openinference": [
        (openinference("LLM", llm__model_name="m", llm__token_count__prompt=3, llm__token_count__completion=2),
         {"kind": "model", "model": "m", "tokens": (3, 2)}),
        (openinference("CHAIN", llm__model_name="m", llm__token_count__prompt=3), {"model": None, "tokens": (None, None)}),
        (
            openinference("CHAIN", session__id="s", user__id="u", tag__tags=["a", "b"], metadata='{"team": "x", "reference": "So."}'),
            {"session_id": "s", "user_id": "u", "tags": ["a", "b"], "metadata": {"team": "x"}, "reference": ("So.",)},
        ),
        (
            openinference("LLM", session__id="s", llm__token_count__prompt=0, metadata='{"session_id": "m", "userId": "u"}'),
            {"session_id": "s", "user_id": "u", "tokens": (0, None)},
        ),
        (openinference("RERANKER", reranker__query="q", input__value="other"), {"query": "q"}),
        (openinference("RERANKER", input__value="other", reranker__input_documents__0__document__content="a"),
         {"query": "other", "input_texts": ["a"]}),
        (openinference("RETRIEVER", reranker__input_documents__0__document__content="a", input__value="q"),
         {"kind": "retrieval", "query": "q", "passages": None}),
        (openinference("TOOL", tool__name="search", output__value="So.") | sides({"query": "why"}),
         {"name": "search", "query": "why", "reply": "So."}),
        (openinference("TOOL", output__value="So."), {"name": "s"}),
        (
            openinference("CHAIN") | sides({"nodes": ["x"]}, ["<NodeWithScore(node=TextNode(id_=n7), score=0.25)>"]),
            {"kind": "transform", "outputs": [], "passages": [("", "n7", 0.25)]},
        ),
        (
            openinference("CHAIN") | sides({"nodes": ["x"]}, ["<NodeWithScore(node=TextNode(id_=n7), score=0.25)>", "So."]),
            {"kind": "chain"},
        ),
        (openinference("LLM", input__value='["q"]', output__value='{"text": "a"}'), {"prompt": [("user", '["q"]')], "reply": '{"text": "a"}'}),
        (
            openinference("LLM", input__value="other", llm__prompts__0__prompt__text="q", llm__output_messages__0__message__content="first",
                          llm__output_messages__0__message__role="assistant", llm__output_messages__1__message__content="last"),
            {"prompt": [("user", "q")], "reply": "last"},
        ),
        (
            openinference("LLM", llm__input_messages__0__message__role="tool-call", llm__input_messages__0__message__content="f(1)",
                          llm__input_messages__1__message__role="tool", llm__input_messages__1__message__content="x",
                          llm__input_messages__1__message__name="search"),
            {"prompt_calls": [True, False], "prompt_tools": [None, "search"]},
        ),
        (
            openinference("RETRIEVER", retrieval__documents__0__document__content="a")
            | sides(None, {"documents": [{"page_content": "a", "id": "d", "score": 0.5, "metadata": {"page": 3}}]}),
            {"passages": [("a", "d", 0.5)], "passage_metadata": [{"page": 3}]},
        ),
        (
            openinference("RETRIEVER", retrieval__documents__0__document__content="a", retrieval__documents__0__document__id="own")
            | sides(None, {"documents": [{"page_content": "a", "id": "d"}]}),
            {"passages": [("a", "own", None)]},
        ),
        (
            openinference("RETRIEVER", retrieval__documents__0__document__content="a")
            | sides(None, {"documents": [{"page_content": "b", "id": "d"}]}),
            {"passages": [("a", None, None)]},
        ),
        (
            openinference("RETRIEVER", retrieval__documents__0__document__content="a", retrieval__documents__0__document__metadata__page=3),
            {"passage_metadata": [{"page": 3}]},
        ),
    ],
    "langfuse": [
        ({"langfuse.observation.level": "ERROR", "langfuse.observation.type": "span"}, {"kind": "chain", "error": "error"}),
        ({"langfuse.observation.level": "ERROR", "langfuse.observation.status_message": "late"}, {"error": "late"}),
        ({"langfuse.observation.level": "WARNING", "langfuse.observation.status_message": "slow"}, {"error": None}),
        (
            {
                "langfuse.trace.metadata.team": "x", "langfuse.trace.metadata.tags": "t", "langfuse.trace.metadata.scope": "{}",
                "langfuse.trace.metadata.resourceAttributes": "{}", "langfuse.trace.metadata.is_langchain_root": "true",
                "langfuse.observation.metadata.pages": '["1", "2"]', "langfuse.trace.tags": ["a"],
            },
            {"metadata": {"team": "x", "pages": ["1", "2"]}, "tags": ["a"]},
        ),
        (
            {
                "langfuse.session.id": "s", "langfuse.user.id": "u", "langfuse.release": "2", "langfuse.version": "1",
                "langfuse.environment": "eu",
            },
            {"session_id": "s", "user_id": "u", "release": "2", "environment": "eu"},
        ),
        ({"langfuse.version": "1"}, {"release": "1"}),
        (
            {"langfuse.observation.type": "generation", "langfuse.observation.model.name": "m",
             "langfuse.observation.usage_details": '{"input": 3, "output": 2}'},
            {"kind": "model", "model": "m", "tokens": (3, 2)},
        ),
        ({"langfuse.observation.output": "own", "langfuse.trace.output": "whole"}, {"outputs": ["whole"]}),
    ],
    "mlflow": [
        ({"mlflow.spanInputs": '"q"', "session.id": "s", "user.id": "u"}, {"kind": "chain", "session_id": "s", "user_id": "u", "inputs": ["q"]}),
        ({"mlflow.trace.user": '"first"', "user.id": "u"}, {"user_id": "first"}),
        # Of several texts without the name of a query, none is one.
        ({"mlflow.spanType": '"RETRIEVER"', "mlflow.spanInputs": '{"note": "x", "other": "y"}'}, {"query": None}),
        ({"mlflow.spanType": '"RETRIEVER"', "mlflow.spanInputs": '{"note": "x"}'}, {"query": "x"}),
        (
            # The class of messages with any role.
            {"mlflow.spanType": '"LLM"', "mlflow.spanOutputs": '[{"role": "user", "content": "q"}, {"type": "ChatMessage", "content": "a"}]'},
            {"kind": "model", "reply": "a"},
        ),
        (
            {
                "mlflow.spanType": '"RERANKER"', "mlflow.spanOutputs": '[{"page_content": "b"}]',
                "mlflow.spanInputs": '{"query": "q", "documents": [{"page_content": "a"}, {"page_content": "b"}]}',
            },
            {"kind": "transform", "query": "q", "input_texts": ["a", "b"], "passages": [("b", None, None)]},
        ),
        (
            {"mlflow.spanType": '"RETRIEVER"', "mlflow.spanOutputs": '[{"node": {"id_": "n", "text_resource": {"text": "p"}}, "score": 0.5}]'},
            {"passages": [("p", "n", 0.5)]},
        ),
        (
            {"mlflow.spanType": '"RETRIEVER"', "mlflow.spanInputs": '{"note": "x", "state": {"query": "why"}}'},
            {"kind": "retrieval", "query": "why"},
        ),
        (
            {"mlflow.spanType": '"LLM"', "mlflow.chat.model": '"m"', "mlflow.chat.tokenUsage": '{"input_tokens": 3, "output_tokens": 2}'},
            {"kind": "model", "model": "m", "tokens": (3, 2)},
        ),
    ],
    "traceloop": [
        (
            {
                "traceloop.span.kind": "workflow", "traceloop.entity.name": "shelf", "gen_ai.agent.id": "run-1",
                "traceloop.association.properties.team": "x", "traceloop.association.properties.session_id": "s",
                "traceloop.entity.input": '{"inputs": {"question": "q"}, "kwargs": {"name": "n"}}',
                "traceloop.entity.output": '{"outputs": "a", "kwargs": {"tag": "t"}}',
            },
            {"kind": "chain", "name": "shelf", "run_id": "run-1", "metadata": {"team": "x"}, "session_id": "s",
             "inputs": ["q"], "outputs": ["a"]},
        ),
        ({"traceloop.span.kind": "agent"}, {"kind": "agent"}),
        ({"traceloop.span.kind": "tool", "traceloop.entity.output": '{"output": "a", "kwargs": {"text": "b"}}'},
         {"kind": "tool", "reply": "a"}),
        (
            # Not each item is a node.
            {"traceloop.entity.input": '{"query_bundle": {"query_str": "q"}}', "traceloop.entity.output": json.dumps([NODE, '{"text": "b"}'])},
            {"kind": "chain", "passages": None},
        ),
        (
            {"gen_ai.operation.name": "retrieval", "gen_ai.retrieval.query.text": "q", "traceloop.entity.input": '{"query": "other"}',
             "gen_ai.retrieval.documents": '[{"id": "d", "content": "p"}]', "traceloop.entity.output": '"p"'},
            {"kind": "retrieval", "query": "q", "passages": [("p", "d", None)]},
        ),
        (
            {
                "traceloop.entity.input": '{"messages": [{"role": "user", "content": "q"}]}',
                "traceloop.entity.output": json.dumps(
                    {
                        "message": {"role": "assistant", "content": "a"}, "additional_kwargs": {},
                        "raw": {"model": "m", "usage": {"prompt_tokens": 3, "completion_tokens": 2}},
                    }
                ),
            },
            {"kind": "model", "prompt": [("user", "q")], "reply": "a", "model": "m", "tokens": (3, 2)},
        ),
        (
            {
                "gen_ai.operation.name": "chat", "gen_ai.request.model": "stated", "gen_ai.usage.input_tokens": 9, "gen_ai.usage.output_tokens": 8,
                "gen_ai.output.messages": '[{"role": "assistant", "parts": [{"type": "tool_call", "name": "t"}]}]',
                "traceloop.entity.name": "m",
                "traceloop.entity.output": json.dumps(
                    {"text": "b", "additional_kwargs": {"prompt_tokens": 1, "completion_tokens": 1}, "raw": {"model": "m"}}
                ),
            },
            {"model": "stated", "tokens": (9, 8), "reply": None, "calls_tool": True},
        ),
        (
            {
                "traceloop.entity.output": json.dumps(
                    {"text": "b", "additional_kwargs": {"prompt_tokens": 1, "completion_tokens": 1},
                     "raw": {"usage": {"prompt_tokens": 7, "completion_tokens": 7}}}
                ),
            },
            {"kind": "model", "reply": "b", "tokens": (1, 1)},
        ),
    ],
    "vercel_ai": [
        ({"ai.operationId": "ai.embed.doEmbed"}, {"kind": "chain"}),
        ({"ai.operationId": "ai.embed"}, {"kind": "embedding"}),
        (
            {"ai.operationId": "ai.generateObject.doGenerate", "ai.response.object": '{"a": 1}', "ai.model.id": "asked",
             "ai.prompt.messages": '[{"role": "user", "content": [{"type": "text", "text": "q"}]}]',
             "ai.usage.promptTokens": 3, "ai.usage.completionTokens": 2},
            {"kind": "model", "reply": '{"a": 1}', "model": "asked", "prompt": [("user", "q")], "tokens": (3, 2)},
        ),
        ({"ai.operationId": "ai.generateText.doGenerate", "ai.model.id": "asked", "ai.response.model": "used"}, {"model": "used"}),
        (
            {"ai.operationId": "ai.generateText", "ai.prompt": '{"prompt": "q"}', "ai.response.text": "a",
             "ai.telemetry.functionId": "shelf", "ai.telemetry.metadata.team": "x", "ai.telemetry.metadata.userId": "u"},
            {"kind": "chain", "name": "shelf", "inputs": ["q"], "outputs": ["a"], "metadata": {"team": "x"}, "user_id": "u"},
        ),
        ({"ai.operationId": "ai.generateText"}, {"name": "s", "outputs": []}),
        (
            {"ai.operationId": "ai.toolCall", "ai.toolCall.name": "search", "ai.toolCall.args": '{"query": "why"}', "ai.toolCall.result": '"So."'},
            {"kind": "tool", "name": "search", "query": "why", "reply": "So."},
        ),
        (
            {"ai.operationId": "ai.rerank", "ai.ranking": '[{"id": "d", "text": "p", "score": 0.5}]'},
            {"kind": "transform", "passages": [("p", "d", 0.5)]},
        ),
    ],
    "spring_ai": [
        (
            {"spring.ai.kind": "vector_store", "db.operation.name": "query", "db.vector.query.content": "q",
             "db.vector.query.response.documents": '[{"id": "d", "text": "p", "score": 0.5}]'},
            {"kind": "retrieval", "query": "q", "passages": [("p", "d", 0.5)]},
        ),
        ({"spring.ai.kind": "vector_store", "db.operation.name": "add"}, {"kind": "infrastructure"}),
        (
            {"spring.ai.kind": "chat_client", "spring.ai.chat.client.user.text": "q", "spring.ai.chat.client.conversation.id": "s"},
            {"kind": "chain", "inputs": ["q"], "session_id": "s"},
        ),
        (
            {"spring.ai.kind": "tool_call", "spring.ai.tool.definition.name": "search",
             "spring.ai.tool.call.arguments": '{"query": "why"}', "spring.ai.tool.call.result": "So."},
            {"kind": "tool", "name": "search", "query": "why", "reply": "So."},
        ),
    ],
    "pydantic_ai": [
        (
            {"pydantic_ai.all_messages": "[]", "all_messages_events": '[{"role": "user", "content": "q"}, {"role": "assistant", "content": "b"}]',
             "final_result": "a", "gen_ai.usage.input_tokens": 3, "gen_ai.usage.output_tokens": 2},
            {"kind": "agent", "inputs": [["q", "b"]], "outputs": ["a"], "tokens": (3, 2)},
        ),
        ({"pydantic_ai.all_messages": PARTS % ("user", "q"), "all_messages_events": '[{"role": "user", "content": "x"}]'}, {"inputs": [["q"]], "outputs": []}),
    ],
    "genai": [
        ({"gen_ai.operation.name": "create_agent", "gen_ai.request.model": "m"}, {"kind": "other"}),
        ({"gen_ai.request.model": "m"}, {"kind": "model", "model": "m"}),
        (
            {
                "gen_ai.operation.name": "chat", "gen_ai.system_instructions": '[{"type": "text", "content": "Be kind."}]',
                "gen_ai.input.messages": PARTS % ("user", "q"), "gen_ai.output.messages": f"[{(PARTS % ('model', 'b'))[1:-1]}, {(PARTS % ('model', 'a'))[1:-1]}]",
                "gen_ai.conversation.id": "s", "gen_ai.response.id": "r", "enduser.id": "u", "gen_ai.request.model": "asked",
                "gen_ai.response.model": "used",
            },
            {"prompt": [("system", "Be kind."), ("user", "q")], "reply": "a", "session_id": "s", "response_id": "r", "user_id": "u",
             "model": "used"},
        ),
        ({"gen_ai.operation.name": "chat", "session.id": "s", "user.id": "u", "enduser.id": "other"}, {"session_id": "s", "user_id": "u"}),
        (
            {"gen_ai.operation.name": "chat"}
            | numbered("gen_ai.prompt", {"content": "q"}, {"role": "assistant", "content": "", "tool_calls.0.name": "t"}),
            {"prompt": [("user", "q"), ("assistant", "")], "prompt_calls": [False, True]},
        ),
        ({"gen_ai.operation.name": "chat"} | numbered("gen_ai.completion", {"tool_calls.0.name": "t"}), {"reply": None, "calls_tool": True}),
        (
            {"gen_ai.operation.name": "chat"} | numbered("gen_ai.prompt", {"role": "user", "content": '[{"type": "text", "text": "q"}]'}, {"role": "user", "content": "[1] is it?"}),
            {"prompt": [("user", "q"), ("user", "[1] is it?")]},
        ),
        (
            {"gen_ai.operation.name": "invoke_agent", "gen_ai.output.messages": PARTS % ("tool", "a")},
            {"kind": "agent", "outputs": [["a"]], "outputs_roles": ["assistant"]},
        ),
        (
            {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "search", "gen_ai.tool.call.arguments": '{"query": "why"}',
             "gen_ai.tool.call.result": "So."},
            {"kind": "tool", "name": "search", "query": "why", "reply": "So."},
        ),
    ],
}  # fmt: skip


@pytest.mark.parametrize(
    ("convention", "number"), [(name, number) for name, rows in ROWS.items() for number in range(len(rows))]
)
def test_attributes_are_fields_of_a_step(convention, number):
    """Each rule of a convention that a recording need not show, with an attribute that would win if the order were another."""
    attributes, expected = ROWS[convention][number]
    span = OtelSpan(
        trace_id="0" * 31 + "1", span_id="0" * 15 + "1", parent_id=None, name="s", started_at=1.0, ended_at=2.0,
        attributes=attributes,
    )  # fmt: skip

    assert BY_NAME[convention].claims(span)
    assert expected == facts(BY_NAME[convention].read(span), expected)


def test_events_are_fields_of_a_step():
    """The first part of a stream, and messages that are events."""
    events = (
        SpanEvent("ai.stream.start", 1.125, {}),
        SpanEvent("ai.stream.firstChunk", 1.25, {}),
        SpanEvent("gen_ai.system.message", 1.5, {"content": "Be kind."}),
        SpanEvent("gen_ai.other", 1.5, {"content": "x"}),
        SpanEvent("gen_ai.user.message", 1.5, {"gen_ai.event.content": '[{"type": "text", "text": "q"}]'}),
        SpanEvent("gen_ai.choice", 1.5, {"message": '{"content": null, "tool_calls": [{"id": "1"}]}'}),
    )
    attributes = {"ai.operationId": "ai.streamText.doStream", "gen_ai.operation.name": "chat"}
    span = OtelSpan(
        trace_id="0" * 31 + "1", span_id="0" * 15 + "1", parent_id=None, name="s", started_at=1.0, ended_at=2.0,
        attributes=attributes, events=events,
    )  # fmt: skip

    assert 1.25 == BY_NAME["vercel_ai"].read(span).first_token_at
    assert {"prompt": [("system", "Be kind."), ("user", "q")], "reply": None, "calls_tool": True} == facts(
        BY_NAME["genai"].read(span), ("prompt", "reply", "calls_tool")
    )


def test_services_of_quarkus_are_told_by_their_names():
    """A span of such a service is a chain, and the calls in it are those of OpenTelemetry's convention."""
    convention = BY_NAME["langchain4j"]
    span = OtelSpan(
        trace_id="0" * 31 + "1", span_id="0" * 15 + "1", parent_id=None, name="langchain4j.aiservices.Shelf.ask",
        started_at=1.0, ended_at=2.0, attributes={"gen_ai.conversation.id": "s"},
    )  # fmt: skip

    assert convention.claims(span)
    assert {"kind": "chain", "name": "langchain4j.aiservices.Shelf.ask", "session_id": "s"} == facts(
        convention.read(span), ("kind", "name", "session_id")
    )


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("smolagents.task", "smolagents"),
        ("ChatMessage(_role=<ChatRole.USER", "Haystack"),
        ("openinference.span.kind", "OpenInference"),
        ("langfuse.observation.type", "Langfuse's SDK"),
        ("langfuse.trace.name", "Langfuse's SDK"),
        ("mlflow.spanType", "MLflow"),
        ("mlflow.spanInputs", "MLflow"),
        ("traceloop.entity.name", "Traceloop"),
        ("traceloop.span.kind", "Traceloop"),
        ("traceloop.workflow.name", "Traceloop"),
        ("ai.operationId", "Vercel AI SDK"),
        ("ai.telemetry.functionId", "Vercel AI SDK"),
        ("spring.ai.kind", "Spring AI"),
        ("pydantic_ai.all_messages", "Pydantic AI"),
        ("all_messages_events", "Pydantic AI"),
        ("langchain4j.aiservices.Shelf.ask", "LangChain4j"),
        ("gen_ai.operation.name", "OpenTelemetry GenAI"),
        ("gen_ai.retrieval.documents", "OpenTelemetry GenAI"),
        ("gen_ai.usage.input_tokens", "OpenTelemetry GenAI"),
        ("gen_ai.prompt.0.content", "OpenTelemetry GenAI"),
    ],
)
def test_the_evidence_of_a_file_names_its_convention(name, title):
    """By the beginning of a name in the first bytes."""
    head = json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [{"attributes": [{"key": name}]}]}]}]}).encode()

    assert f"OTLP messages in JSON, with spans of {title}" == OtlpFormat().detect(head)


def plain(name: str = "s", **attributes: object) -> OtelSpan:
    """A span with a name; two underscores are a dot."""
    return OtelSpan(
        trace_id="0" * 31 + "1", span_id="0" * 15 + "1", parent_id=None, name=name, started_at=1.0, ended_at=2.0,
        attributes={key.replace("__", "."): value for key, value in attributes.items()},
    )  # fmt: skip


@pytest.mark.parametrize("kind", ["CHAIN", "LLM"])
@pytest.mark.parametrize(
    "name", ["PromptBuilder.run", "RecursiveCharacterTextSplitter.split", "StrOutputParser", "ChatAdapter.__call__"]
)
def test_prompt_builders_and_parsers_are_parts(kind, name):
    """Frameworks give them the kind of a chain or of a model."""
    step = BY_NAME["openinference"].read(plain(name, openinference__span__kind=kind, input__value="q"))

    assert ("part", None, ()) == (step.kind, step.prompt, step.inputs)


def test_spans_of_a_followed_convention():
    """Most producers write all spans by it. In a trace of Traceloop, they are of another library."""
    search = plain(gen_ai__operation__name="retrieval")

    assert {"traceloop": False, "spring_ai": True, "pydantic_ai": True, "langchain4j": True} == {
        name: BY_NAME[name].reads(search) for name in ("traceloop", "spring_ai", "pydantic_ai", "langchain4j")
    }
    assert not BY_NAME["haystack"].claims(plain(gen_ai__operation__name="chat", input__value=shown("user", text("q"))))
