"""Rows of datasets with any common field names, read as samples."""

from __future__ import annotations

import ast
import json
import math
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Final

from pydantic import ValidationError

from ragstone.errors import DataError
from ragstone.schema._names import field_names
from ragstone.schema._sample import Sample
from ragstone.schema._trace import Passage

__all__ = ["FIELD_ALIASES", "sample_from_row"]

_LABEL_WORDS: Final = {"true": 1.0, "yes": 1.0, "false": 0.0, "no": 0.0}

FIELD_ALIASES: Final[Mapping[str, tuple[str, ...]]] = {
    "id": ("id", "sample_id", "query_id", "question_id", "_id"),
    "query": field_names("query", "row"),
    "contexts": field_names("contexts", "row"),
    "response": field_names("response", "row"),
    "reference": (
        "reference",
        "references",
        "ground_truth",
        "ground_truths",
        "expected_output",
        "reference_outputs",
        "expected",
        "expectations",
        "gt_answer",
        "reference_answer",
    ),
    "sub_questions": ("sub_questions", "subquestions"),
    "qrels": ("qrels",),
    "ratings": ("ratings",),
}
"""Accepted names per field, in the order they are looked for (ragas, deepeval, openevals, Phoenix, LlamaIndex, MLflow,
Langfuse, RAGChecker, autoevals). The first is ours, and the only one printed."""

_KNOWN: Final = frozenset(name for field, names in FIELD_ALIASES.items() if field != "id" for name in names)
_TEXT_KEYS: Final = field_names("text", "row")
_ID_KEYS: Final = field_names("id", "row")
_EXPECTED_KEYS: Final = (*FIELD_ALIASES["reference"], "expected_response", "answer", "output", "response")


def sample_from_row(row: object, *, position: int, fields: Mapping[str, str] | None = None) -> Sample:
    """Read one row of a data set as a sample.

    Args:
        row: A mapping of field names to values; nested `inputs` and `outputs` objects are looked into.
        position: 1-based place in the data set; the id of a row that has none.
        fields: Our field name to the row's, where the aliases do not fit (`{"query": "Frage"}`).

    Raises:
        DataError: The row is not a mapping, none of its fields is known, two aliases of one field disagree, or a value has
            a type that cannot be read.

    Example:
        >>> sample_from_row({"user_input": "Why?", "retrieved_contexts": ["Because."]}, position=1).query
        'Why?'
    """
    if not isinstance(row, Mapping):
        raise DataError(f"row {position} must be an object with named fields, got {_short(row)}")
    flat = _flatten(row)
    used: set[str] = set()
    found: dict[str, Any] = {}
    for field, aliases in FIELD_ALIASES.items():
        wanted = (fields or {}).get(field)
        if wanted is not None and wanted not in flat:
            raise DataError(
                f"row {position} does not have the field {wanted!r}, which was named for {field!r}; it has {sorted(flat)}"
            )
        # deepeval keeps the retrieved passages under `retrieval_context`, and the ideal ones as `context`.
        others = {"context"} if "retrieval_context" in flat else set()
        # Several contexts of one question: each row has its own id and that of the question.
        if not all(_missing(flat.get(a)) for a in ("id", "sample_id", "_id")):
            others.add("question_id")
        known = (a for a in aliases if a not in others and not _missing(flat.get(a)))
        names = (wanted,) if wanted is not None else tuple(known)
        values = [(name, flat[name]) for name in names]
        if not values:
            continue
        for name, value in values[1:]:
            if _plain(value) != _plain(values[0][1]):
                raise DataError(
                    f"row {position} has both {values[0][0]!r} and {name!r}, which mean {field!r} and differ; "
                    f"say which one counts: fields={{{field!r}: {name!r}}} (--field {field}={name})"
                )
        used.update(name for name, _ in values)
        found[field] = values[0][1]
    if flat and not fields and _KNOWN.isdisjoint(flat):
        raise DataError(
            f"row {position} does not have a field with a known name; it has {sorted(map(str, flat))}. Name its fields, "
            "for example fields={'query': 'Frage'} (--field query=Frage)"
        )
    try:
        return Sample(
            id=_id(found.get("id"), position),
            query=_text(found.get("query"), "query", position, FIELD_ALIASES["query"]),
            contexts=_identified(_contexts(found.get("contexts"), position), row.get("retrieved_context_ids")),
            response=_text(found.get("response"), "response", position, FIELD_ALIASES["response"]),
            reference=_texts(found.get("reference"), "reference", position),
            sub_questions=_texts(found.get("sub_questions"), "sub_questions", position),
            qrels=_grades(
                found.get("qrels", _qrels_from_reference_ids(row.get("reference_context_ids"))), "qrels", position
            ),
            ratings=_ratings(found.get("ratings"), position),
            metadata=_metadata(row, used),
        )
    except ValidationError as error:
        first = error.errors()[0]
        raise DataError(f"row {position}: field {'.'.join(map(str, first['loc']))}: {first['msg']}") from error


def _metadata(row: Mapping[str, Any], used: set[str]) -> dict[str, Any]:
    """Return the row's own metadata together with its other fields."""
    others = {k: _plain(v) for k, v in row.items() if k not in used and k not in ("inputs", "outputs")}
    stated = others.get("metadata")
    if not isinstance(stated, Mapping):
        return others
    del others["metadata"]
    return {**others, **{str(k): v for k, v in stated.items()}}


def _flatten(row: Mapping[str, Any]) -> dict[str, Any]:
    """Lift what openevals and MLflow nest under `inputs` and `outputs`; outer names win."""
    flat = dict(row)
    for outer in ("inputs", "outputs"):
        inner = row.get(outer)
        if isinstance(inner, Mapping):
            flat.pop(outer)
            for name, value in inner.items():
                # `outputs.reference` would be the system judging itself, `inputs.answer` is not a response.
                if outer == "inputs" and name in FIELD_ALIASES["response"]:
                    continue
                flat.setdefault(name, value)
    return flat


def _missing(value: object) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


def _plain(value: Any) -> Any:
    """Make arrays and scalars of numpy plain, without importing it."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    return None if _missing(value) else value


def _id(value: Any, position: int) -> str:
    value = _plain(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # pandas makes floats of integers if a cell is empty
    return str(position) if value is None or value == "" else str(value)


def _text(value: Any, field: str, position: int, keys: Sequence[str]) -> str | None:
    value = _plain(value)
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return str(value)
    if isinstance(value, Mapping):
        for key in keys:
            if isinstance(value.get(key), str):
                return str(value[key])
    raise DataError(f"row {position}: {field} must be text, got {_short(value)}")


def _texts(value: Any, field: str, position: int) -> tuple[str, ...]:
    value = _plain(value)
    if value is None:
        return ()
    if isinstance(value, str) and value.lstrip().startswith("["):
        value = _list_in(value)
    items = value if isinstance(value, list | tuple) else [value]
    texts = (_text(item, field, position, _EXPECTED_KEYS) for item in items)
    return tuple(t for t in texts if t is not None and t.strip())


def _contexts(value: Any, position: int) -> tuple[Passage, ...] | None:
    value = _plain(value)
    if value is None:
        return None
    if isinstance(value, str):
        value = _list_in(value) if value.lstrip().startswith("[") else ([value] if value.strip() else [])
    if isinstance(value, Mapping):
        value = [value]
    if not isinstance(value, list | tuple):
        raise DataError(f"row {position}: contexts must be a list of passages, got {_short(value)}")
    return tuple(_passage(item, rank, position) for rank, item in enumerate(value))


def _identified(passages: tuple[Passage, ...] | None, ids: Any) -> tuple[Passage, ...] | None:
    """Give passages the ids that ragas keeps in another field."""
    names = _names(ids)
    if not passages or len(names) != len(passages) or any(passage.id is not None for passage in passages):
        return passages
    return tuple(passage.model_copy(update={"id": name}) for passage, name in zip(passages, names, strict=True))


def _qrels_from_reference_ids(ids: Any) -> dict[str, float] | None:
    """Return ragas's reference passages as qrels: only these are relevant."""
    return dict.fromkeys(names, 1.0) if (names := _names(ids)) else None


def _names(ids: Any) -> list[str]:
    ids = _plain(ids)
    ids = _list_in(ids) if isinstance(ids, str) and ids.lstrip().startswith("[") else ids
    return [str(name) for name in ids if not _missing(name)] if isinstance(ids, list | tuple) else []


def _list_in(text: str) -> Any:
    """Return the list in a CSV cell, as JSON or Python (and pandas) writes it. Other text in brackets stays text."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = _python_list(text)
    return value if isinstance(value, list) else [text]


def _python_list(text: str) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)  # a text's backslashes are its own
            value = ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return None
    # Only what Python wrote: NumPy's "['a' 'b']" would become the one text "ab".
    return value if repr(value) == text.strip() else None


def _passage(item: Any, rank: int, position: int) -> Passage:
    if isinstance(item, str):
        return Passage(text=item, rank=rank)
    if isinstance(item, Mapping):
        node = item.get("node")
        body: Mapping[str, Any] = node if isinstance(node, Mapping) else item
        text_key = next((k for k in _TEXT_KEYS if isinstance(body.get(k), str)), None)
        if text_key is not None:
            identity = next((body[k] for k in _ID_KEYS if not _missing(body.get(k))), None)
            metadata = body.get("metadata")
            return Passage(
                text=body[text_key],
                id=None if identity is None else str(identity),
                score=_number(item.get("score")),
                rank=rank,
                relevance=_label(body.get("relevance"), rank, position),
                metadata=dict(metadata) if isinstance(metadata, Mapping) else {},
            )
    raise DataError(
        f"row {position}: passage {rank + 1} must be text or an object with one of {_TEXT_KEYS}, got {_short(item)}"
    )


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)


def _label(value: Any, rank: int, position: int) -> float | None:
    """Return a label. An unreadable label is an error, because a missing label changes what is scored."""
    if getattr(value, "shape", None) == ():  # NumPy's numbers and truth values
        value = value.item()
    if isinstance(value, bool):
        return float(value)
    if (
        value is None
        or (isinstance(value, str) and not value.strip())
        or (isinstance(value, float) and math.isnan(value))
    ):
        return None
    number = _number(value)
    if number is None and isinstance(value, str):
        number = _LABEL_WORDS.get(value.strip().lower(), _number_in(value))
    if number is None:
        raise DataError(
            f"row {position}: passage {rank + 1} has the relevance {_short(value)}; a label is a number (0, 1, or a grade), "
            "true or false, yes or no; leave it out if the passage does not have a label"
        )
    return number


def _grades(value: Any, field: str, position: int) -> dict[str, float] | None:
    """Return grades by passage id, from an object or its JSON in a table cell."""
    value = _object(value, field, position)
    if value is None:
        return None
    grades: dict[str, float] = {}
    for passage, grade in value.items():
        number = float(grade) if isinstance(grade, bool) else _number(_plain(grade))
        if number is None:
            raise DataError(
                f"row {position}: {field} gives {str(passage)!r} the grade {_short(grade)}; a grade is a finite number"
            )
        grades[str(passage)] = number
    return grades


def _ratings(value: Any, position: int) -> dict[str, dict[str, float]] | None:
    value = _object(value, "ratings", position)
    if value is None:
        return None
    return {str(question): _grades(grades, "ratings", position) or {} for question, grades in value.items()}


def _object(value: Any, field: str, position: int) -> Mapping[Any, Any] | None:
    value = _plain(value)
    if isinstance(value, str) and not value.strip():
        return None
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            value = _short(value)
    if value is None or isinstance(value, Mapping):
        return value
    raise DataError(f"row {position}: {field} must be an object of grades by passage id, got {_short(value)}")


def _number_in(text: str) -> float | None:
    try:
        return _number(float(text))
    except ValueError:
        return None


def _short(value: object) -> str:
    text = repr(value)
    return f"{type(value).__name__} {text[:80]}{'…' if len(text) > 80 else ''}"
