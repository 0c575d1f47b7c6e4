"""MLflow: spans with `mlflow.spanType`, whose attributes are JSON each."""

from __future__ import annotations

from typing import Final

from ragstone.reading._fields import fill_inputs_and_outputs, step_kind, tokens_in
from ragstone.reading._json import inner_json
from ragstone.reading._values import text_or_none
from ragstone.reading.otlp._convention import Convention, step_of
from ragstone.reading.otlp._span import OtelSpan
from ragstone.requests import Step


def _matches(span: OtelSpan) -> bool:
    return any(name.startswith("mlflow.") for name in span.attributes)


def _read(span: OtelSpan) -> Step:
    attributes = span.attributes
    values = {name: inner_json(value) for name, value in attributes.items() if name.startswith("mlflow.")}
    kind = step_kind(values.get("mlflow.spanType"), "chain" if values else "other")
    step = step_of(span, kind=kind)
    fill_inputs_and_outputs(step, values.get("mlflow.spanInputs"), values.get("mlflow.spanOutputs"))
    if step.kind == "model":
        step.input_tokens, step.output_tokens = tokens_in(values.get("mlflow.chat.tokenUsage"))
        step.model = text_or_none(values.get("mlflow.llm.model"), values.get("mlflow.chat.model"))
    step.session_id = text_or_none(values.get("mlflow.trace.session"), attributes.get("session.id"))
    step.user_id = text_or_none(values.get("mlflow.trace.user"), attributes.get("user.id"))
    return step


MLFLOW: Final = Convention(
    name="mlflow", title="MLflow", markers=("mlflow.spanType", "mlflow.spanInputs"), claims=_matches, read=_read
)
