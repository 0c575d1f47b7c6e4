"""The arguments of an evaluator (inputs, outputs, a reference), read as one sample."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from langchain_core.documents import Document
from langchain_core.messages import BaseMessage

from langchain_ragstone._documents import Passages
from langchain_ragstone._messages import text_of
from langchain_ragstone._steps import tool_query_from, values_in
from ragstone.errors import DataError
from ragstone.reading import FIELD_ALIASES, sample_from_row
from ragstone.requests import Message, PassageDraft, Request, Step, TraceDraft, Value, assemble
from ragstone.schema import Sample

_PLACES: Final[Mapping[str, tuple[str, ...]]] = {
    "id": ("inputs",),
    "query": ("inputs", "outputs"),
    "history": ("inputs",),
    "contexts": ("outputs", "inputs"),
    "response": ("outputs",),
    # Never the outputs: a system must not supply its own reference.
    "reference": ("reference_outputs", "inputs"),
    "sub_questions": ("reference_outputs", "inputs"),
    "qrels": ("reference_outputs", "inputs"),
    "ratings": ("reference_outputs", "inputs"),
}
"""The arguments in which each field is searched, after the caller's own keyword arguments."""
_ANSWERS: Final = ("answer", "output", "response", "expected_response", "reference_answers", "answers")
"""Names of the answer in a reference."""
_MORE_NAMES: Final = {
    "query": ("messages",),
    "contexts": ("source_documents",),
    "response": ("result", "output_text", "messages"),
    "reference": _ANSWERS,
}
"""Names that LangChain's applications use in addition to those of datasets."""


def sample_from_run(
    *, inputs: object, outputs: object, reference_outputs: object, given: Mapping[str, Any], fields: Mapping[str, str]
) -> Sample:
    """Read a sample from the arguments that LangSmith or openevals passes to an evaluator.

    Inputs and outputs are a text, messages or a mapping, outputs with the contexts in addition. `given` are further
    arguments of the evaluator, which take precedence. `fields` map sample fields to the application's names, if these
    are not known names. Raise DataError if a field named in `fields` is missing, two names of one field disagree, or a
    value cannot be read.
    """
    places = {
        "inputs": inputs if isinstance(inputs, Mapping) else {"query": inputs},
        "outputs": outputs if isinstance(outputs, Mapping) else {"response": outputs},
        "reference_outputs": (
            reference_outputs if isinstance(reference_outputs, Mapping) else {"reference": reference_outputs}
        ),
    }
    row: dict[str, Any] = {}
    for field, where in _PLACES.items():
        row |= _found(field, [given, *(places[place] for place in where)], fields.get(field), where)
    if not row.keys() & {"contexts", *FIELD_ALIASES["contexts"]} and (found := _found_by_tools(outputs)) is not None:
        row["contexts"] = found
    if not row.keys() & {"history", *FIELD_ALIASES["history"]}:
        row["history"] = _turns({key: _unpacked(value) for key, value in places["inputs"].items()})
    return sample_from_row(row, position=1)


def _found(field: str, places: list[Mapping[str, Any]], wanted: str | None, where: tuple[str, ...]) -> dict[str, Any]:
    """Return the field's name and plain value from the first mapping that has it."""
    for place in places:
        if wanted is not None:
            if wanted in place:
                return {field: _plain(field, place[wanted])}
            continue
        names = {name: _plain(field, place[name]) for name in FIELD_ALIASES[field] if place.get(name) is not None}
        more = next((name for name in _MORE_NAMES.get(field, ()) if place.get(name) is not None), None)
        if not names and more is not None:
            names = {field: _plain(field, place[more])}
        # `sample_from_row` rejects two names that disagree.
        names = {name: value for name, value in names.items() if value is not None}
        if names:
            return names
    if wanted is None:
        return {}
    there = "; ".join(
        f"{name}: {sorted(map(str, place))}" for name, place in zip(("given", *where), places, strict=True)
    )
    raise DataError(
        f"field {wanted!r} not found, which fields={{{field!r}: {wanted!r}}} names for {field!r}; available: {there}"
    )


def _plain(field: str, value: Any) -> Any:
    """Return LangChain's objects as the plain values of datasets, and other values unchanged."""
    value = _unpacked(value)
    if field == "query" and not isinstance(value, str):
        found = _read(inputs=value).query
        return value if found is None else found
    if field == "response" and not isinstance(value, str):
        found = _read(outputs=value).response
        return value if found is None else found
    if field == "history" and isinstance(value, list | tuple):
        return _turns({"chat_history": value, "question": "?"})
    if field == "contexts":
        return [_passage(document) for document in value] if isinstance(value, list) else _passage(value)
    if field == "reference":
        if isinstance(value, Mapping):
            value = next(
                (value[name] for name in (*FIELD_ALIASES[field], *_ANSWERS) if value.get(name) is not None), value
            )
        if isinstance(value, BaseMessage):
            return text_of(value)
        if isinstance(value, list | tuple):
            return [text_of(item) if isinstance(item, BaseMessage) else item for item in value]
    return value


def _turns(inputs: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return the conversation before the question as messages of a row."""
    return [{"role": turn.role, "content": turn.text} for turn in _read(inputs=inputs).history]


def _read(*, inputs: Any = None, outputs: Any = None) -> TraceDraft:
    """Read values by the rules of captured requests: as the inputs and outputs of a request of one step."""
    passages = Passages()
    root = Step(id=0, kind="chain", inputs=values_in(inputs, passages), outputs=values_in(outputs, passages))
    return assemble(Request(draft=TraceDraft(), steps=[root], root=root))


def _found_by_tools(outputs: Any) -> list[dict[str, Any]] | None:
    """Return what tools found in the last turn of an agent's messages, by the rules of captured requests.

    None if it is unknown or in doubt, as if a tool returned a text that is not known to be a passage.
    """
    messages = outputs.get("messages") if isinstance(outputs, Mapping) else outputs
    if not isinstance(messages, list | tuple):
        return None
    passages, turn, steps = Passages(), [Message("user", "")], [root := Step(id=0, kind="chain")]
    arguments: dict[Any, Any] = {}
    for item in _unpacked(messages):
        fields = item if isinstance(item, Mapping) else vars(item) if isinstance(item, BaseMessage) else {}
        arguments |= {
            one.get("id"): one.get("args") for one in fields.get("tool_calls") or () if isinstance(one, Mapping)
        }
        for message in (one for value in values_in([item], passages) for one in value.messages or ()):
            if message.role == "user":
                turn, steps = [], [root]
            elif message.role == "tool":
                given = arguments.get(fields.get("tool_call_id"))
                step = Step(id=len(steps), parent=0, kind="tool", name=message.tool)
                step.query, step.inputs = tool_query_from(given, str(given)), values_in(given, passages)
                step.outputs = (Value((), text=message.text),)
                step.passages = message.passages or passages.in_list(_unpacked(fields.get("artifact")))
                steps.append(step)
            turn.append(message)
    steps.append(Step(id=len(steps), parent=0, kind="model", prompt=turn[:-1], reply=turn[-1].text))
    draft = assemble(Request(draft=TraceDraft(), steps=steps, root=root))
    is_known = draft.evidence is not None and not draft.evidence.doubts
    return [_row(passage) for passage in draft.contexts] if is_known and draft.contexts is not None else None


def _unpacked(value: Any) -> Any:
    """Return the fields of an object that LangChain serialized, or of each object in a list."""
    if isinstance(value, list | tuple):
        return [_fields_of(item) for item in value]
    return _fields_of(value)


def _fields_of(value: Any) -> Any:
    saved = isinstance(value, Mapping) and value.get("lc") and isinstance(value.get("kwargs"), Mapping)
    return value["kwargs"] if saved else value


def _passage(document: Any) -> Any:
    return _row(Passages().of(document)) if isinstance(document, Document) else document


def _row(passage: PassageDraft) -> dict[str, Any]:
    return {"text": passage.text, "id": passage.id, "score": passage.score, "metadata": passage.metadata}
