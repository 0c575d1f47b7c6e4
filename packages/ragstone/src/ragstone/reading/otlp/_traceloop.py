"""Traceloop (OpenLLMetry): spans with `traceloop.entity.input` and `.output`, in addition to `gen_ai.*` for what models report."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ragstone.reading._fields import fill_tool, tokens_in
from ragstone.reading._values import (
    fill_identity,
    json_in,
    messages_in,
    passages_in,
    query_in,
    reply_message,
    text_or_none,
    values_in,
)
from ragstone.reading.otlp._convention import Convention, exploded
from ragstone.reading.otlp._genai import read_genai
from ragstone.reading.otlp._span import OtelSpan
from ragstone.requests import PassageDraft, Step

_PREFIX: Final = "traceloop."
_PROPERTIES: Final = "traceloop.association.properties"


def _matches(span: OtelSpan) -> bool:
    return any(name.startswith(_PREFIX) for name in span.attributes)


def _read(span: OtelSpan) -> Step:
    attributes = span.attributes
    step = read_genai(span)
    given = json_in(attributes.get("traceloop.entity.input"))
    got = json_in(attributes.get("traceloop.entity.output"))
    nodes = _nodes(given, got)
    if step.kind in ("other", "chain", "agent"):
        span_kind = attributes.get("traceloop.span.kind")
        if nodes is not None:
            # Only their outputs show what LlamaIndex's steps are: nodes in and nodes out is a reranker.
            step.kind = "transform" if isinstance(given, Mapping) and "nodes" in given else "retrieval"
        elif _is_model(attributes, got):
            step.kind = "model"
        elif step.kind == "other":
            step.kind = "agent" if span_kind == "agent" else "tool" if span_kind == "tool" else "chain"
    if step.kind in ("retrieval", "transform"):
        step.passages = nodes if nodes is not None else passages_in(got) if isinstance(got, Mapping) else step.passages
        step.query = step.query or query_in(given)
    elif step.kind == "model":
        _fill_model(step, given, got)
    else:
        _fill_chain(step, given, got)
    properties = exploded(attributes, _PROPERTIES)
    if step.model in (None, "unknown"):
        step.model = text_or_none(properties.get("ls_model_name"))
    fill_identity(step, properties)
    step.run_id = text_or_none(attributes.get("gen_ai.agent.id")) or step.run_id
    step.name = text_or_none(attributes.get("traceloop.entity.name")) or step.name
    return step


def _fill_chain(step: Step, given: Any, got: Any) -> None:
    # Next to the inputs are the tags, the metadata and the arguments of the run, such as its name.
    step.inputs = values_in(given.get("inputs", given) if isinstance(given, Mapping) else given) or step.inputs
    step.outputs = values_in(got.get("outputs", got) if isinstance(got, Mapping) else got) or step.outputs
    if step.kind == "tool":
        fill_tool(step, given, got.get("output", got) if isinstance(got, Mapping) else got)


def _nodes(given: Any, output: Any) -> tuple[PassageDraft, ...] | None:
    """Return LlamaIndex's nodes with their scores, each of which is a text of JSON; None if it is something else."""
    if not isinstance(output, list):
        return None
    if not output:
        # An empty list for a query is a retriever that found nothing.
        asked = given.values() if isinstance(given, Mapping) else ()
        return () if any(isinstance(value, Mapping) and "query_str" in value for value in asked) else None
    items = [json_in(item) for item in output]
    return passages_in(items) if all(isinstance(item, Mapping) and "node" in item for item in items) else None


def _is_model(attributes: Mapping[str, Any], output: Any) -> bool:
    if "gen_ai.output.messages" in attributes:
        return True
    return isinstance(output, Mapping) and "additional_kwargs" in output and ("text" in output or "message" in output)


def _fill_model(step: Step, given: Any, got: Any) -> None:
    """Set what a model's step of LlamaIndex has in its input and output only."""
    step.prompt = step.prompt or messages_in(given) or None
    if not isinstance(got, Mapping):
        return
    if step.reply is None and not step.calls_tool and (reply := reply_message(got)) is not None:
        step.reply, step.calls_tool = None if reply.calls_tool else reply.text, reply.calls_tool
    raw = got.get("raw")
    usages = (got.get("additional_kwargs"), raw.get("usage") if isinstance(raw, Mapping) else None)
    for usage in usages:
        if isinstance(usage, Mapping) and step.input_tokens is None and step.output_tokens is None:
            step.input_tokens, step.output_tokens = tokens_in(usage)
    if isinstance(raw, Mapping):
        step.model = step.model or text_or_none(raw.get("model"))


TRACELOOP: Final = Convention(
    name="traceloop",
    title="Traceloop",
    markers=("traceloop.entity.", "traceloop.span.kind", "traceloop.workflow.name"),
    claims=_matches,
    read=_read,
)
