"""Rows of datasets with any common field names, read as samples."""

from __future__ import annotations

import ast
import json
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from pydantic import ValidationError

from ragstone._util.surrogates import replace_surrogates_in
from ragstone.errors import DataError
from ragstone.reading._messages import Conversation, are_messages, read_content, read_conversation
from ragstone.reading._row_values import is_missing, read_passage, shorten, to_number, to_plain
from ragstone.schema import Passage, Sample, derive_id, field_names

FIELD_ALIASES: Final[Mapping[str, tuple[str, ...]]] = {
    "id": ("id", "sample_id", "query_id", "question_id", "_id"),
    "query": field_names("query", "row"),
    "history": ("history", "chat_history"),
    "messages": ("messages",),
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

_KNOWN: Final = frozenset(
    name for field, names in FIELD_ALIASES.items() if field not in ("id", "history") for name in names
)
_FIELD_OF: Final = {alias: field for field, names in FIELD_ALIASES.items() for alias in names}
_NO_MESSAGES: Final = Conversation(query=None, history=(), response=None, contexts=None)
_STRING: Final = r"""(?:'(?:[^'\\\n]|\\.)*+'|"(?:[^"\\\n]|\\.)*+")"""
_ITEM: Final = rf"""(?:{_STRING}|\{{(?:[^'"{{}}]|{_STRING})*+\}}|\.\.\.)"""
_ITEMS: Final = re.compile(_ITEM)
_ARRAY: Final = re.compile(rf"\[{_ITEM}(?:\s+{_ITEM})++\]")
"""Texts or objects in a cell as NumPy writes an array: without commas, over several lines, and "..." for the middle of
more than 1000 items."""
_EXPECTED_KEYS: Final = (*FIELD_ALIASES["reference"], "expected_response", "answer", "output", "response")


def sample_from_row(row: object, *, position: int, fields: Mapping[str, str] | None = None) -> Sample:
    """Read one row of a data set as a sample.

    Args:
        row: A mapping of field names to values; nested `inputs` and `outputs` objects are looked into.
        position: 1-based place in the data set, for messages. A row without an id has the one of `derive_id`.
        fields: Our field name to the row's, where the aliases do not fit (`{"query": "Frage"}`). The id may be made of
            several fields (`{"id": "dataset+query_id"}`).

    Raises:
        DataError: The row is not a mapping, none of its fields is known, two aliases of one field disagree, or a value has
            a type that cannot be read.

    Examples:
        >>> sample_from_row({"user_input": "Why?", "retrieved_contexts": ["Because."]}, position=1).query
        'Why?'
    """
    if not isinstance(row, Mapping):
        raise DataError(f"row {position} must be an object with named fields, got {shorten(row)}")
    flat = flatten(row)
    found, used = _find_fields(flat, fields or {}, position)
    if flat and not fields and _KNOWN.isdisjoint(flat):
        raise DataError(
            f"row {position} does not have a field with a known name; it has {sorted(map(str, flat))}. Name its fields, "
            "for example fields={'query': 'Frage'} (--field query=Frage)"
        )
    talk = _read_messages(found, used, position)
    try:
        sample = Sample(
            id=_id(found.get("id")) or "-",
            query=_text(found.get("query"), "query", position, FIELD_ALIASES["query"]),
            history=talk.history,
            contexts=_identified(_contexts(found.get("contexts"), position), row.get("retrieved_context_ids"))
            if found.get("contexts") is not None
            else talk.contexts,
            response=_text(found.get("response"), "response", position, FIELD_ALIASES["response"]),
            reference=_texts(found.get("reference"), "reference", position),
            sub_questions=_texts(found.get("sub_questions"), "sub_questions", position),
            qrels=_grades(
                found.get("qrels", _qrels_from_reference_ids(row.get("reference_context_ids"))), "qrels", position
            ),
            ratings=_ratings(found.get("ratings"), position),
            metadata=_metadata(row, used, talk.citations),
        )
        return sample if _id(found.get("id")) else sample.model_copy(update={"id": derive_id(sample)})
    except ValidationError as error:
        first = error.errors()[0]
        raise DataError(f"row {position}: field {'.'.join(map(str, first['loc']))}: {first['msg']}") from error


def _find_fields(flat: Mapping[str, Any], fields: Mapping[str, str], position: int) -> tuple[dict[str, Any], set[str]]:
    """Return the values of a row by our field name, and the names in the row that were used."""
    present: dict[str, list[str]] = {}
    for name, value in flat.items():
        if (known := _FIELD_OF.get(name)) is not None and not is_missing(value):
            present.setdefault(known, []).append(name)
    others: set[str] = set()
    # deepeval keeps the retrieved passages under `retrieval_context`, and the ideal ones as `context`.
    if "retrieval_context" in flat:
        others.add("context")
    # Several contexts of one question: each row has its own id and that of the question.
    if not {"id", "sample_id", "_id"}.isdisjoint(present.get("id", ())):
        others.add("question_id")
    used: set[str] = set()
    found: dict[str, Any] = {}
    for field, aliases in FIELD_ALIASES.items():
        if field not in present and field not in fields:
            continue
        wanted = fields.get(field)
        if (
            field == "id"
            and wanted is not None
            and wanted not in flat
            and not {*(parts := wanted.split("+"))} - {*flat}
        ):
            if blank := [part for part in parts if not _id(flat[part])]:
                raise DataError(
                    f"row {position} does not have a value of {blank[0]!r}, which is a part of its id {wanted!r}"
                )
            # The columns stay metadata, which views group by.
            found["id"] = "+".join(_id(flat[part]) for part in parts)
            continue
        if wanted is not None and wanted not in flat:
            raise DataError(
                f"row {position} does not have the field {wanted!r}, which was named for {field!r}; it has {sorted(flat)}"
            )
        names = [wanted] if wanted is not None else [name for name in present.get(field, ()) if name not in others]
        if not names:
            continue
        if len(names) > 1:
            names.sort(key=aliases.index)
        for name in names[1:]:
            if to_plain(flat[name]) != to_plain(flat[names[0]]):
                raise DataError(
                    f"row {position} has both {names[0]!r} and {name!r}, which mean {field!r} and differ; "
                    f"say which one counts: fields={{{field!r}: {name!r}}} (--field {field}={name})"
                )
        used.update(names)
        found[field] = flat[names[0]]
    return found, used


def _read_messages(found: dict[str, Any], used: set[str], position: int) -> Conversation:
    """Take messages and content blocks out of the found fields, and set query and response from them."""
    if all(field not in found for field in ("messages", "history")) and all(
        isinstance(value, str) and not value.lstrip().startswith("[")
        for value in (found.get("query", ""), found.get("response", ""))
    ):
        return _NO_MESSAGES
    if (
        found.keys() <= {"id", "messages"}
        and "messages" in found
        and not are_messages(found_list := _plain_list(found["messages"]))
    ):
        raise DataError(
            f"row {position}: messages must be a list of messages, each an object with a role and a content, got "
            f"{shorten(found_list)}"
        )
    answered, citations = _take_answer(found)
    earlier = _take_messages(found, "history", used)
    asked = _take_messages(found, "messages", used) or _take_messages(found, "query", used)
    # An output often repeats the input.
    messages = answered if answered[: len(asked)] == asked else [*asked, *answered]
    if not messages and not earlier:
        return Conversation(query=None, history=(), response=None, contexts=None, citations=citations)
    query = _text(found.get("query"), "query", position, FIELD_ALIASES["query"])
    if messages:
        talk = read_conversation(messages, name="messages", position=position, query=query)
    else:
        talk = Conversation(query=query, history=(), response=None, contexts=None)
    if earlier:
        before = read_conversation(earlier, name="history", position=position, query=query or talk.query or "")
        talk = replace(talk, history=(*before.history, *talk.history))
    found["query"] = talk.query
    if found.get("response") is None:
        found["response"] = talk.response
        citations = citations or talk.citations
    return replace(talk, citations=citations)


def _take_messages(found: dict[str, Any], field: str, used: set[str]) -> list[Any]:
    """Remove a list of messages from the found fields and return it. `history` of another type stays metadata."""
    value = _plain_list(found.get(field))
    if are_messages(value):
        del found[field]
        return list(value)
    if field in ("history", "messages") and found.pop(field, None) is not None:
        used -= set(FIELD_ALIASES[field])
    return []


def _plain_list(value: Any) -> Any:
    value = to_plain(value)
    return _list_in(value) if isinstance(value, str) and value.lstrip().startswith("[") else value


def _take_answer(found: dict[str, Any]) -> tuple[list[Any], tuple[Mapping[str, Any], ...]]:
    """Remove messages from the response and return them. Content blocks become their text and its citations."""
    value = to_plain(found.get("response"))
    one_message = [value] if isinstance(value, Mapping) else value
    if are_messages(one_message):
        del found["response"]
        return list(one_message), ()
    if isinstance(value, list) and value and all(isinstance(part, Mapping) and "type" in part for part in value):
        found["response"], citations = read_content(value)
        return [], citations
    return [], ()


def _metadata(row: Mapping[str, Any], used: set[str], citations: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the row's own metadata together with its other fields, and citations of the answer's content blocks."""
    others = {k: to_plain(v) for k, v in row.items() if k not in used and k not in ("inputs", "outputs")}
    if citations:
        others = {"citations": [dict(citation) for citation in citations], **others}
    stated = others.get("metadata")
    if not isinstance(stated, Mapping):
        return others
    del others["metadata"]
    return {**others, **{str(k): v for k, v in stated.items()}}


def flatten(row: Mapping[str, Any]) -> dict[str, Any]:
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
                if name == "messages" and outer == "outputs" and name in flat:
                    # The answer of an agent: with the question, or all messages again.
                    flat.setdefault("response", value)
                    continue
                flat.setdefault(name, value)
    return flat


def _id(value: Any) -> str:
    value = to_plain(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # pandas makes floats of integers if a cell is empty
    return "" if value is None else str(value)


def _text(value: Any, field: str, position: int, keys: Sequence[str]) -> str | None:
    value = to_plain(value)
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return str(value)
    if isinstance(value, Mapping):
        for key in keys:
            if isinstance(value.get(key), str):
                return str(value[key])
    raise DataError(f"row {position}: {field} must be text, got {shorten(value)}")


def _texts(value: Any, field: str, position: int) -> tuple[str, ...]:
    value = to_plain(value)
    if value is None:
        return ()
    if isinstance(value, str) and value.lstrip().startswith("["):
        value = _list_in(value)
    items = value if isinstance(value, list | tuple) else [value]
    texts = (_text(item, field, position, _EXPECTED_KEYS) for item in items)
    return tuple(t for t in texts if t is not None and t.strip())


def _contexts(value: Any, position: int) -> tuple[Passage, ...] | None:
    value = to_plain(value)
    if value is None:
        return None
    if isinstance(value, str):
        value = _list_in(value) if value.lstrip().startswith("[") else ([value] if value.strip() else [])
    if isinstance(value, Mapping):
        value = [value]
    if not isinstance(value, list | tuple):
        raise DataError(f"row {position}: contexts must be a list of passages, got {shorten(value)}")
    return tuple(read_passage(item, rank, position) for rank, item in enumerate(value))


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
    ids = to_plain(ids)
    ids = _list_in(ids) if isinstance(ids, str) and ids.lstrip().startswith("[") else ids
    return [str(name) for name in ids if not is_missing(name)] if isinstance(ids, list | tuple) else []


def _list_in(text: str) -> Any:
    """Return the list in a CSV cell, as JSON, Python, pandas or NumPy writes it. Other text in brackets stays text."""
    try:
        value = replace_surrogates_in(json.loads(text))
    except (ValueError, RecursionError):
        value = replace_surrogates_in(_python_list(text))
    return value if isinstance(value, list) else [text]


def _python_list(text: str) -> Any:
    text = text.strip()
    if is_array := _ARRAY.fullmatch(text) is not None:
        # Python would join the adjacent texts 'a' 'b' to "ab".
        text = f"[{', '.join(_ITEMS.findall(text))}]"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)  # a text's backslashes are its own
            value = ast.literal_eval(text)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return None
    # Only what Python wrote. Items that NumPy omitted are an error of the row.
    return value if repr(value) == text or (is_array and ... in value) else None


def _grades(value: Any, field: str, position: int) -> dict[str, float] | None:
    """Return grades by passage id, from an object or its JSON in a table cell."""
    value = _object(value, field, position)
    if value is None:
        return None
    grades: dict[str, float] = {}
    for passage, grade in value.items():
        number = float(grade) if isinstance(grade, bool) else to_number(to_plain(grade))
        if number is None:
            raise DataError(
                f"row {position}: {field} gives {str(passage)!r} the grade {shorten(grade)}; a grade is a finite number"
            )
        grades[str(passage)] = number
    return grades


def _ratings(value: Any, position: int) -> dict[str, dict[str, float]] | None:
    value = _object(value, "ratings", position)
    if value is None:
        return None
    return {str(question): _grades(grades, "ratings", position) or {} for question, grades in value.items()}


def _object(value: Any, field: str, position: int) -> Mapping[Any, Any] | None:
    value = to_plain(value)
    if isinstance(value, str) and not value.strip():
        return None
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            value = shorten(value)
    if value is None or isinstance(value, Mapping):
        return value
    raise DataError(f"row {position}: {field} must be an object of grades by passage id, got {shorten(value)}")
