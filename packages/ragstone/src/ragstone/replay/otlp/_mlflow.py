"""MLflow: spans with `mlflow.spanType`, whose attributes are JSON each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ragstone.replay._payloads import (
    answer_in,
    contexts_in,
    count_in,
    json_in,
    passages_in,
    question_in,
)
from ragstone.replay._tree import NodeKind, Step
from ragstone.replay.otlp._convention import Convention, node_of, text_or_none
from ragstone.replay.otlp._span import OtelSpan

__all__ = ["MLFLOW"]

_KINDS: Final[dict[str, NodeKind]] = {
    "RETRIEVER": "retriever",
    "RERANKER": "reranker",
    "LLM": "llm",
    "CHAT_MODEL": "llm",
    "AGENT": "agent",
    "TOOL": "tool",
    "EMBEDDING": "embedding",
    "CHAIN": "chain",
    "WORKFLOW": "chain",
    "UNKNOWN": "chain",
    "TASK": "chain",
}


def _matches(span: OtelSpan) -> bool:
    return any(name.startswith("mlflow.") for name in span.attributes)


def _read(span: OtelSpan) -> Step:
    node, attributes = node_of(span), span.attributes
    values = {name: _value(value) for name, value in attributes.items() if name.startswith("mlflow.")}
    node.kind = _KINDS.get(str(values.get("mlflow.spanType")).upper(), "chain" if values else "other")
    given, got = values.get("mlflow.spanInputs"), values.get("mlflow.spanOutputs")
    if node.kind != "embedding":
        node.query = question_in(given)
    if node.kind in ("retriever", "reranker"):
        node.passages = passages_in(got)
    elif node.kind != "embedding":
        node.answer = answer_in(got)
    if node.kind in ("chain", "agent"):
        node.passages = contexts_in(got)
    if node.kind == "llm":
        usage = values.get("mlflow.chat.tokenUsage")
        if isinstance(usage, Mapping):
            node.input_tokens = count_in(usage.get("input_tokens"))
            node.output_tokens = count_in(usage.get("output_tokens"))
        node.model = text_or_none(values.get("mlflow.llm.model"), values.get("mlflow.chat.model"))
    node.session_id = text_or_none(values.get("mlflow.trace.session"), attributes.get("session.id"))
    node.user_id = text_or_none(values.get("mlflow.trace.user"), attributes.get("user.id"))
    return node


def _value(value: Any) -> Any:
    inner = json_in(value)
    return value if inner is None else inner


MLFLOW: Final = Convention(
    name="mlflow",
    title="MLflow",
    markers=("mlflow.spanType", "mlflow.spanInputs"),
    claims=_matches,
    read=_read,
)
