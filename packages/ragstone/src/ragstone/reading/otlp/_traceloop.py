"""Traceloop (OpenLLMetry): spans with `traceloop.entity.input` and `.output`, in addition to `gen_ai.*` for what models report."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ragstone.reading._fields import fill_tool, mapping, tokens_in
from ragstone.reading._values import (
    json_in,
    messages_in,
    passages_in,
    query_in,
    reply_message,
    text_or_none,
    values_in,
)
from ragstone.reading.otlp._span import OtelSpan
from ragstone.requests import PassageDraft, Step


def fill_traceloop(step: Step, span: OtelSpan) -> None:
    """Set what a span's inputs and outputs say beyond OpenTelemetry's convention."""
    attributes = span.attributes
    given = json_in(attributes.get("traceloop.entity.input"))
    got = json_in(attributes.get("traceloop.entity.output"))
    nodes = _nodes(given, got)
    if step.kind in ("other", "chain", "agent"):
        span_kind = attributes.get("traceloop.span.kind")
        if nodes is not None:
            # Only their outputs show what LlamaIndex's steps are: nodes in and nodes out is a reranker.
            step.kind = "transform" if "nodes" in mapping(given) else "retrieval"
        elif _is_model(attributes, got):
            step.kind = "model"
        elif step.kind == "other":
            step.kind = span_kind if span_kind in ("agent", "tool") else "chain"
    if step.kind in ("retrieval", "transform"):
        step.passages = nodes if nodes is not None else passages_in(got) if isinstance(got, Mapping) else step.passages
        step.query = step.query or query_in(given)
    elif step.kind == "model":
        _fill_model(step, given, got)
    else:
        _fill_chain(step, given, got)
    if step.model in (None, "unknown"):
        step.model = text_or_none(attributes.get("traceloop.association.properties.ls_model_name"))


def _fill_chain(step: Step, given: Any, got: Any) -> None:
    # Next to the inputs are the tags, the metadata and the arguments of the run, such as its name.
    step.inputs = values_in(mapping(given).get("inputs", given)) or step.inputs
    step.outputs = values_in(mapping(got).get("outputs", got)) or step.outputs
    if step.kind == "tool":
        fill_tool(step, given, mapping(got).get("output", got))


def _nodes(given: Any, output: Any) -> tuple[PassageDraft, ...] | None:
    """Return LlamaIndex's nodes with their scores, each of which is a text of JSON; None if it is something else."""
    if not isinstance(output, list):
        return None
    if not output:
        # An empty list for a query is a retriever that found nothing.
        return () if any("query_str" in mapping(value) for value in mapping(given).values()) else None
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
    raw = mapping(got.get("raw"))
    for usage in (got.get("additional_kwargs"), raw.get("usage")):
        if step.input_tokens is None and step.output_tokens is None:
            step.input_tokens, step.output_tokens = tokens_in(usage)
    step.model = step.model or text_or_none(raw.get("model"))
