"""The conventions of span attributes, one row each: the names of their fields, and what is special about their spans."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from ragstone.reading._fields import (
    MLFLOW_NAMES,
    StepNames,
    exploded,
    fill_inputs_and_outputs,
    indexed,
    mapping,
    step_kind,
)
from ragstone.reading._json import inner_json
from ragstone.reading._values import fill_identity, json_in, messages_in, passages_in, text_or_none, values_in
from ragstone.reading.otlp._fills import (
    KIND,
    fill_genai,
    fill_haystack,
    fill_openinference,
    fill_traceloop,
    shows_messages,
)
from ragstone.reading.otlp._span import OtelSpan
from ragstone.requests import Step, Value

_INFRASTRUCTURE: Final = ("http.", "rpc.", "db.", "messaging.", "faas.")
_NO_NAMES: Final = StepNames()
_LANGFUSE: Final = "langfuse.observation"
_LANGFUSE_METADATA: Final = frozenset({"tags", "is_langchain_root", "resourceAttributes", "scope"})
"""Metadata that Langfuse's SDK adds."""
_SMOLAGENTS_STEP: Final = '{"memory_step":'
_FINAL_ANSWER: Final = "final_answer"
_QUARKUS_SERVICE: Final = "langchain4j.aiservices."
_PYDANTIC_MESSAGES: Final = ("pydantic_ai.all_messages", "all_messages_events")


@dataclass(frozen=True, slots=True, kw_only=True)
class Convention:
    """One way to write a RAG request into span attributes."""

    name: str
    """`source` of the traces that it reads."""
    title: str
    """Name for people."""
    markers: tuple[str, ...]
    """Attribute names, or their beginnings, in a file with such spans."""
    claims: Callable[[OtelSpan], bool]
    """Whether a span follows this convention. A trace with such a span is read by it."""
    names: StepNames = _NO_NAMES
    fill: Callable[[Step, OtelSpan], None] | None = None
    """Sets what names alone do not say, before the fields with names are read."""
    follows: Convention | None = None
    """The convention that spans of this one follow too. It is applied first."""
    covers: bool = True
    """Whether all spans of the followed convention are read in a trace with a claimed span."""
    fills_covered: bool = False
    """Whether `fill` is for these spans too."""

    def reads(self, span: OtelSpan) -> bool:
        """Whether it reads a span of a trace with a claimed span."""
        return self.claims(span) or (self.follows is not None and self.covers and self.follows.claims(span))

    def read(self, span: OtelSpan) -> Step:
        """Return the step of a span that it reads."""
        step = step_of(span) if self.follows is None else self.follows.read(span)
        if self.follows is None or self.fills_covered or self.claims(span):
            self.names.set_kind(step, span.attributes)
            if self.fill is not None:
                self.fill(step, span)
            self.names.fill(step, span.attributes)
        return step


def begin_with(*prefixes: str) -> Callable[[OtelSpan], bool]:
    """Return whether a span has an attribute whose name begins with one of these, as a function of the span."""
    return lambda span: any(name.startswith(prefixes) for name in span.attributes)


def step_of(span: OtelSpan) -> Step:
    """Return a step with what every span has, whatever its convention: infrastructure, if its attributes say so."""
    return Step(
        id=span.span_id,
        parent=span.parent_id,
        kind="infrastructure" if any(name.startswith(_INFRASTRUCTURE) for name in span.attributes) else "other",
        name=span.name or None,
        started_at=span.started_at,
        ended_at=span.ended_at,
        error=span.error,
        otel_trace_id=span.trace_id,
        otel_span_id=span.span_id,
        app=span.resource.get("app"),
        release=span.resource.get("release"),
        environment=span.resource.get("environment"),
    )


def _fill_langfuse(step: Step, span: OtelSpan) -> None:
    attributes = span.attributes
    if f"{_LANGFUSE}.type" not in attributes:
        step.kind = "chain"
    given, got = (attributes.get(f"{_LANGFUSE}.{side}") for side in ("input", "output"))
    if span.parent_id is None or attributes.get("langfuse.internal.is_app_root"):
        # What the application states about the whole request wins over its outermost step.
        given, got = attributes.get("langfuse.trace.input", given), attributes.get("langfuse.trace.output", got)
    fill_inputs_and_outputs(step, inner_json(given), inner_json(got))
    if step.error is None and attributes.get(f"{_LANGFUSE}.level") == "ERROR":
        step.error = text_or_none(attributes.get(f"{_LANGFUSE}.status_message")) or "error"
    metadata = exploded(attributes, "langfuse.trace.metadata") | exploded(attributes, f"{_LANGFUSE}.metadata")
    fill_identity(step, {key: inner_json(value) for key, value in metadata.items() if key not in _LANGFUSE_METADATA})


def _is_smolagents(span: OtelSpan) -> bool:
    # The span of a run that fails is not exported, those of its steps are.
    is_step = str(span.attributes.get("input.value", "")).startswith(_SMOLAGENTS_STEP)
    return OPENINFERENCE.claims(span) and (is_step or any(name.startswith("smolagents.") for name in span.attributes))


def _fill_smolagents(step: Step, span: OtelSpan) -> None:
    if step.kind == "model":
        if (answer := _final_answer(span)) is not None:
            # The call of this tool is how a model replies to the user.
            step.reply, step.calls_tool = answer, False
    elif step.kind == "tool" and step.name == _FINAL_ANSWER:
        step.kind = "part"
    elif step.kind in ("agent", "chain"):
        # The inputs are JSON, without a type that says so.
        step.inputs = values_in(inner_json(span.attributes.get("input.value")))


def _final_answer(span: OtelSpan) -> str | None:
    for message in indexed(span.attributes, "llm.output_messages"):
        for call in indexed(message, "message.tool_calls"):
            if call.get("tool_call.function.name") == _FINAL_ANSWER:
                answer = mapping(json_in(call.get("tool_call.function.arguments"))).get("answer")
                return answer if isinstance(answer, str) else None
    return None


def _fill_vercel(step: Step, span: OtelSpan) -> None:
    attributes = span.attributes
    operation = str(attributes["ai.operationId"])
    text = next((v for n in ("text", "object") if isinstance(v := attributes.get(f"ai.response.{n}"), str)), None)
    # `ai.generateText.doGenerate` is one call of the model in `ai.generateText`, which is the loop around all of them.
    step.kind = step_kind(operation, "model" if ".do" in operation and "embed" not in operation else "chain")
    if step.kind == "transform":
        step.passages = passages_in(json_in(attributes.get("ai.ranking")))
    elif step.kind == "model":
        messages = json_in(attributes.get("ai.prompt.messages"))
        step.prompt = messages_in(messages) or None if isinstance(messages, list) else None
        step.calls_tool = bool(attributes.get("ai.response.toolCalls")) and not text
        step.reply = None if step.calls_tool else text
        step.first_token_at = next((event.at for event in span.events if event.name == "ai.stream.firstChunk"), None)
    elif step.kind == "chain":
        step.name = text_or_none(attributes.get("ai.telemetry.functionId")) or step.name
        step.inputs = values_in(json_in(attributes.get("ai.prompt")))
        step.outputs = values_in({"output": text}) if text is not None else ()


def _fill_spring(step: Step, span: OtelSpan) -> None:
    attributes = span.attributes
    if step.kind == "retrieval" and attributes.get("db.operation.name") != "query":
        step.kind = "infrastructure"
    elif step.kind == "chain" and (text := text_or_none(attributes.get("spring.ai.chat.client.user.text"))):
        step.inputs = (Value(("query",), text=text),)


def _fill_pydantic_run(step: Step, span: OtelSpan) -> None:
    step.kind = "agent"
    found = (messages_in(json_in(span.attributes.get(name))) for name in _PYDANTIC_MESSAGES)
    messages = next((messages for messages in found if messages), ())
    step.inputs = (Value(("messages",), messages=messages),) if messages else ()
    result = span.attributes.get("final_result")
    step.outputs = (Value(("output",), text=result),) if isinstance(result, str) else ()


def _fill_quarkus_service(step: Step, span: OtelSpan) -> None:  # noqa: ARG001 - its name says what it is
    step.kind = "chain"


OPENINFERENCE: Final = Convention(
    name="openinference", title="OpenInference", markers=(KIND,),
    claims=lambda span: KIND in span.attributes, fill=fill_openinference,
    names=StepNames(
        kind=KIND,
        labels={"session_id": ("session.id",), "user_id": ("user.id",), "model": ("llm.model_name",)},
        usage=("llm.token_count",), tags="tag.tags", metadata="metadata",
    ),
)  # fmt: skip
GENAI: Final = Convention(
    name="genai", title="OpenTelemetry GenAI",
    markers=("gen_ai.operation.name", "gen_ai.retrieval.", "gen_ai.usage.", "gen_ai.prompt."),
    claims=begin_with("gen_ai.", "llm.request.type"), fill=fill_genai,
    names=StepNames(
        kind="gen_ai.operation.name",
        labels={
            "session_id": ("gen_ai.conversation.id", "session.id"), "user_id": ("user.id", "enduser.id"),
            "response_id": ("gen_ai.response.id",), "model": ("gen_ai.response.model", "gen_ai.request.model"),
        },
        usage=("gen_ai.usage",),
        search=(
            ("gen_ai.retrieval.query.text", "gen_ai.memory.query.text"),
            ("gen_ai.retrieval.documents", "gen_ai.memory.records"),
        ),
        tool=("gen_ai.tool.name", "gen_ai.tool.call.arguments", "gen_ai.tool.call.result"),
    ),
)  # fmt: skip
CONVENTIONS: Final = (
    Convention(
        name="smolagents", title="smolagents", markers=("smolagents.",),
        claims=_is_smolagents, follows=OPENINFERENCE, fill=_fill_smolagents, fills_covered=True,
    ),
    Convention(
        name="haystack", title="Haystack", markers=("ChatMessage(_role=<ChatRole.",),
        claims=lambda span: OPENINFERENCE.claims(span) and shows_messages(span),
        follows=OPENINFERENCE, fill=fill_haystack,
    ),
    OPENINFERENCE,
    Convention(
        name="langfuse", title="Langfuse's SDK", markers=("langfuse.observation.", "langfuse.trace."),
        claims=begin_with("langfuse."), fill=_fill_langfuse,
        names=StepNames(
            kind=f"{_LANGFUSE}.type",
            labels={
                "session_id": ("session.id", "langfuse.session.id"), "user_id": ("user.id", "langfuse.user.id"),
                "release": ("langfuse.release", "langfuse.version"), "environment": ("langfuse.environment",),
                "model": (f"{_LANGFUSE}.model.name",),
            },
            times={"first_token_at": (f"{_LANGFUSE}.completion_start_time",)},
            usage=(f"{_LANGFUSE}.usage_details",), tags="langfuse.trace.tags",
        ),
    ),
    Convention(
        name="mlflow", title="MLflow", markers=("mlflow.spanType", "mlflow.spanInputs"),
        claims=begin_with("mlflow."), names=MLFLOW_NAMES,
    ),
    Convention(
        name="traceloop", title="Traceloop",
        markers=("traceloop.entity.", "traceloop.span.kind", "traceloop.workflow.name"),
        claims=begin_with("traceloop."), follows=GENAI, covers=False, fill=fill_traceloop,
        names=StepNames(
            labels={"name": ("traceloop.entity.name",), "run_id": ("gen_ai.agent.id",)},
            metadata="traceloop.association.properties",
        ),
    ),
    Convention(
        name="vercel_ai", title="Vercel AI SDK", markers=("ai.operationId", "ai.telemetry.functionId"),
        claims=lambda span: "ai.operationId" in span.attributes, fill=_fill_vercel,
        names=StepNames(
            labels={"model": ("ai.response.model", "ai.model.id")}, usage=("ai.usage",),
            tool=("ai.toolCall.name", "ai.toolCall.args", "ai.toolCall.result"), metadata="ai.telemetry.metadata",
        ),
    ),
    Convention(
        name="spring_ai", title="Spring AI", markers=("spring.ai.kind",),
        claims=lambda span: "spring.ai.kind" in span.attributes, follows=GENAI, fill=_fill_spring,
        names=StepNames(
            kind="spring.ai.kind",
            labels={"session_id": ("spring.ai.chat.client.conversation.id",)},
            search=(("db.vector.query.content",), ("db.vector.query.response.documents",)),
            tool=("spring.ai.tool.definition.name", "spring.ai.tool.call.arguments", "spring.ai.tool.call.result"),
        ),
    ),
    Convention(
        name="pydantic_ai", title="Pydantic AI", markers=_PYDANTIC_MESSAGES,
        claims=lambda span: any(name in span.attributes for name in _PYDANTIC_MESSAGES),
        follows=GENAI, fill=_fill_pydantic_run,
    ),
    # Its services in Quarkus follow OpenTelemetry's convention, and only their names identify them.
    Convention(
        name="langchain4j", title="LangChain4j", markers=(_QUARKUS_SERVICE,),
        claims=lambda span: span.name.startswith(_QUARKUS_SERVICE), follows=GENAI, fill=_fill_quarkus_service,
    ),
    GENAI,
)  # fmt: skip
"""Richer ones first: of two that read the same, the first wins. A producer comes before the convention that it
follows."""
