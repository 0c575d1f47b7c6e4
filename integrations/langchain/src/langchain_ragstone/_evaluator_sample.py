"""What an evaluator is given (inputs, outputs, a reference), read as one sample."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from langchain_core.documents import Document
from langchain_core.messages import BaseMessage

from langchain_ragstone._documents import Passages
from langchain_ragstone._messages import text_of
from langchain_ragstone._steps import values_in
from ragstone.errors import DataError
from ragstone.requests import Request, Step, TraceDraft, assemble
from ragstone.schema import FIELD_ALIASES, Sample, sample_from_row

__all__ = ["sample_from_run"]

_PLACES: Final[Mapping[str, tuple[str, ...]]] = {
    "id": ("inputs",),
    "query": ("inputs", "outputs"),
    "contexts": ("outputs", "inputs"),
    "response": ("outputs",),
    # Never the outputs: a system does not bring its own reference.
    "reference": ("reference_outputs", "inputs"),
    "sub_questions": ("reference_outputs", "inputs"),
    "qrels": ("reference_outputs", "inputs"),
    "ratings": ("reference_outputs", "inputs"),
}
"""Where each field is looked for, first of all among what the caller names himself."""
_ANSWERS: Final = ("answer", "output", "response", "expected_response", "reference_answers", "answers")
"""What a reference calls its answer."""
_MORE_NAMES: Final = {
    "query": ("messages",),
    "contexts": ("source_documents",),
    "response": ("result", "output_text", "messages"),
    "reference": _ANSWERS,
}
"""Names that LangChain's applications use beside those of data sets."""


def sample_from_run(
    *, inputs: object, outputs: object, reference_outputs: object, given: Mapping[str, Any], fields: Mapping[str, str]
) -> Sample:
    """Read a sample from what LangSmith or openevals hands to an evaluator.

    Args:
        inputs: Of the example: a text, a message or messages, or a mapping.
        outputs: Of the run: the same, with the contexts beside the answer.
        reference_outputs: Of the example: a text, or a mapping with an answer, `qrels`, `sub_questions`, `ratings`.
        given: Further keyword arguments of the evaluator; they go before all else.
        fields: Our field name to the application's, where the known names do not fit.

    Raises:
        DataError: A field named in `fields` is nowhere, two names of one field disagree, or a value cannot be read.
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
    return sample_from_row(row, position=1)


def _found(field: str, places: list[Mapping[str, Any]], wanted: str | None, where: tuple[str, ...]) -> dict[str, Any]:
    """What the first place that knows the field calls it, and its value, in plain values."""
    for place in places:
        if wanted is not None:
            if wanted in place:
                return {field: _plain(field, place[wanted])}
            continue
        names = {name: _plain(field, place[name]) for name in FIELD_ALIASES[field] if place.get(name) is not None}
        more = next((name for name in _MORE_NAMES.get(field, ()) if place.get(name) is not None), None)
        if not names and more is not None:
            names = {field: _plain(field, place[more])}
        # Two names that disagree are for `sample_from_row` to refuse.
        names = {name: value for name, value in names.items() if value is not None}
        if names:
            return names
    if wanted is None:
        return {}
    there = "; ".join(
        f"{name}: {sorted(map(str, place))}" for name, place in zip(("given", *where), places, strict=True)
    )
    raise DataError(
        f"there is no {wanted!r}, which fields={{{field!r}: {wanted!r}}} names for {field!r}; there are {there}"
    )


def _plain(field: str, value: Any) -> Any:
    """LangChain's objects as the plain values that data sets have; other values as they are."""
    value = _unpacked(value)
    if field == "query" and not isinstance(value, str):
        found = _read(inputs=value).query
        return value if found is None else found
    if field == "response" and not isinstance(value, str):
        found = _read(outputs=value).response
        return value if found is None else found
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


def _read(*, inputs: Any = None, outputs: Any = None) -> TraceDraft:
    """Read values by the rules of captured requests: as the inputs and outputs of a request of one step."""
    passages = Passages()
    root = Step(id=0, kind="chain", inputs=values_in(inputs, passages), outputs=values_in(outputs, passages))
    return assemble(Request(draft=TraceDraft(), steps=[root], root=root))


def _unpacked(value: Any) -> Any:
    """What LangChain writes when it saves an object, as the object's fields; of a list, its items."""
    if isinstance(value, list | tuple):
        return [_fields_of(item) for item in value]
    return _fields_of(value)


def _fields_of(value: Any) -> Any:
    saved = isinstance(value, Mapping) and value.get("lc") and isinstance(value.get("kwargs"), Mapping)
    return value["kwargs"] if saved else value


def _passage(document: Any) -> Any:
    if not isinstance(document, Document):
        return document
    passage = Passages().of(document)
    return {"text": passage.text, "id": passage.id, "score": passage.score, "metadata": passage.metadata}
