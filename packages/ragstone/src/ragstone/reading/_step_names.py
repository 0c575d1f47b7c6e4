"""The names under which a convention or an export keeps the fields of a step, and the reading of a record by them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ragstone.reading._fields import fill_inputs_and_outputs, fill_tool, mapping, step_kind, tokens_in, unix_time
from ragstone.reading._json import inner_json
from ragstone.reading._values import fill_identity, json_in, passages_in, tags_in, text_or_none
from ragstone.requests import Step, StepKind

_SPENDERS: Final = ("model", "agent")
"""Kinds of steps whose model and tokens are read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepNames:
    """Names of fields in one kind of record: attributes of a span, or a row of an export. Of several the first with a value counts."""

    kind: str = ""
    default_kind: StepKind = "other"
    """Kind of a step of an unknown type."""
    labels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By field of `Step`: names of texts, such as ids, the environment, and the model."""
    times: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By field of `Step`: names of times."""
    usage: tuple[str, ...] = ()
    """Counts of tokens: objects, JSON, or beginnings of the names of counts."""
    sides: tuple[str, str] | None = None
    """Inputs and outputs of any step, as JSON."""
    search: tuple[str, str] | None = None
    """Query and passages of a retrieval or a reranker."""
    tool: tuple[str, str, str] | None = None
    """Name, arguments and result of a tool."""
    tags: str = ""
    metadata: str = ""
    """An object, JSON, or the beginning of the names of its fields."""

    def set_kind(self, step: Step, record: Mapping[str, Any]) -> None:
        """Set the kind of a step, if the record or the convention states one."""
        if self.kind:
            step.kind = step_kind(inner_json(record.get(self.kind)), self.default_kind)

    def fill(self, step: Step, record: Mapping[str, Any]) -> None:
        """Set the fields that a record has on a step whose kind is known."""
        get = record.get
        if self.sides is not None:
            fill_inputs_and_outputs(step, *(inner_json(get(side)) for side in self.sides))
        if self.search is not None and step.kind in ("retrieval", "transform"):
            query, passages = map(get, self.search)
            step.query, step.passages = text_or_none(query), passages_in(json_in(passages))
        elif self.tool is not None and step.kind == "tool":
            name, arguments, result = map(get, self.tool)
            step.name = text_or_none(name) or step.name
            fill_tool(step, arguments, result)
        for field_name, names in self.labels.items():
            label = text_or_none(*map(inner_json, map(get, names)))
            if label is not None and (field_name != "model" or step.kind in _SPENDERS):
                setattr(step, field_name, label)
        for field_name, names in self.times.items():
            setattr(
                step, field_name, unix_time(next((inner_json(record[name]) for name in names if name in record), None))
            )
        if step.kind in _SPENDERS:
            self._fill_tokens(step, record)
        if self.tags:
            step.tags = tags_in(get(self.tags))
        if self.metadata:
            fill_identity(step, get(self.metadata) or exploded(record, self.metadata))

    def _fill_tokens(self, step: Step, record: Mapping[str, Any]) -> None:
        for name in self.usage:
            counts = tokens_in(mapping(json_in(record.get(name))) or exploded(record, name))
            if counts != (None, None):
                step.input_tokens, step.output_tokens = counts
                return


MLFLOW_NAMES: Final = StepNames(
    kind="mlflow.spanType",
    default_kind="chain",
    labels={
        "session_id": ("mlflow.trace.session", "session.id"),
        "user_id": ("mlflow.trace.user", "user.id"),
        "model": ("mlflow.llm.model", "mlflow.chat.model"),
    },
    usage=("mlflow.chat.tokenUsage",),
    sides=("mlflow.spanInputs", "mlflow.spanOutputs"),
)
"""Attributes of MLflow's spans, in its own exports too."""


def indexed(attributes: Mapping[str, Any], prefix: str) -> list[dict[str, Any]]:
    """Return attributes `prefix.0.name`, `prefix.1.name` as one mapping an index, in the order of the indices."""
    found: dict[int, dict[str, Any]] = {}
    start = f"{prefix}."
    for key, value in attributes.items():
        if key.startswith(start):
            index, _, name = key[len(start) :].partition(".")
            if len(index) < 7 and index.isascii() and index.isdigit():
                found.setdefault(int(index), {})[name] = value
    return [found[index] for index in sorted(found)]


def exploded(attributes: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """Return the object that was written as attributes `prefix.key`."""
    start = f"{prefix}."
    return {key[len(start) :]: value for key, value in attributes.items() if key.startswith(start)}
