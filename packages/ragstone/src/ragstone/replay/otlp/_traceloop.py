"""Traceloop (OpenLLMetry): spans with `traceloop.entity.input` and `.output` beside `gen_ai.*` for what models say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ragstone.replay._payloads import (
    answer_in,
    contexts_in,
    count_in,
    fill_identity,
    json_in,
    passages_in,
    question_in,
)
from ragstone.replay._tree import Step
from ragstone.replay.otlp._convention import Convention, exploded, text_or_none
from ragstone.replay.otlp._genai import genai_node
from ragstone.replay.otlp._span import OtelSpan
from ragstone.schema import Passage

__all__ = ["TRACELOOP"]

_PREFIX: Final = "traceloop."
_PROPERTIES: Final = "traceloop.association.properties"


def _matches(span: OtelSpan) -> bool:
    return any(name.startswith(_PREFIX) for name in span.attributes)


def _read(span: OtelSpan) -> Step:
    attributes = span.attributes
    node = genai_node(span)
    given = json_in(attributes.get("traceloop.entity.input"))
    got = json_in(attributes.get("traceloop.entity.output"))
    nodes = _nodes(given, got)
    if node.kind in ("other", "chain", "agent"):
        span_kind = attributes.get("traceloop.span.kind")
        if nodes is not None:
            # Of LlamaIndex's steps only their outputs tell what they are: nodes in and nodes out is a re-ranker.
            node.kind = "reranker" if isinstance(given, Mapping) and "nodes" in given else "retriever"
        elif _is_model(attributes, got):
            node.kind = "llm"
        elif node.kind == "other":
            node.kind = "agent" if span_kind == "agent" else "tool" if span_kind == "tool" else "chain"
    if node.kind in ("retriever", "reranker"):
        node.passages = nodes if nodes is not None else passages_in(got) if isinstance(got, Mapping) else node.passages
        node.query = node.query or question_in(given)
    elif node.kind == "llm":
        _fill_model(node, given, got)
    else:
        node.query = question_in(given) or node.query
        answer = answer_in(got)
        node.answer = answer if answer is not None else node.answer
        outputs = got.get("outputs", got) if isinstance(got, Mapping) else None
        node.passages = contexts_in(outputs)
    properties = exploded(attributes, _PROPERTIES)
    if node.model in (None, "unknown"):
        node.model = text_or_none(properties.get("ls_model_name"))
    fill_identity(node, properties)
    node.run_id = text_or_none(attributes.get("gen_ai.agent.id")) or node.run_id
    node.name = text_or_none(attributes.get("traceloop.entity.name")) or node.name
    return node


def _nodes(given: Any, output: Any) -> tuple[Passage, ...] | None:
    """LlamaIndex's nodes with their scores, each of which is a text of JSON; None if it is something else."""
    if not isinstance(output, list):
        return None
    if not output:
        # Nothing, given for a query, was found by a retriever.
        asked = given.values() if isinstance(given, Mapping) else ()
        return () if any(isinstance(value, Mapping) and "query_str" in value for value in asked) else None
    items = [json_in(item) for item in output]
    return passages_in(items) if all(isinstance(item, Mapping) and "node" in item for item in items) else None


def _is_model(attributes: Mapping[str, Any], output: Any) -> bool:
    if "gen_ai.output.messages" in attributes:
        return True
    return isinstance(output, Mapping) and "additional_kwargs" in output and ("text" in output or "message" in output)


def _fill_model(node: Step, given: Any, got: Any) -> None:
    """What a model's step of LlamaIndex says in its output alone."""
    node.query = node.query or question_in(given)
    if not isinstance(got, Mapping):
        return
    if node.answer is None:
        node.answer = answer_in(got)
    raw = got.get("raw")
    usages = (got.get("additional_kwargs"), raw.get("usage") if isinstance(raw, Mapping) else None)
    for usage in usages:
        if isinstance(usage, Mapping) and node.input_tokens is None and node.output_tokens is None:
            node.input_tokens = count_in(usage.get("prompt_tokens", usage.get("input_tokens")))
            node.output_tokens = count_in(usage.get("completion_tokens", usage.get("output_tokens")))
    if isinstance(raw, Mapping):
        node.model = node.model or text_or_none(raw.get("model"))


TRACELOOP: Final = Convention(
    name="traceloop",
    title="Traceloop",
    markers=("traceloop.entity.", "traceloop.span.kind", "traceloop.workflow.name"),
    claims=_matches,
    read=_read,
)
