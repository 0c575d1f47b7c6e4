"""Layouts of the files of known tools, as data: how their rows are recognized, and where our fields are in them.

A value of `Layout.fields` says where a field is:

| value | result |
|---|---|
| `"a.b"` | the value at these keys; a number is a position in a list (`"predictions.0.text"`) |
| `"a[].b"` | the values of all items of a list, which is flat after `[][]`; a value that is not a list is one item |
| `"="` and a text, or a number | a constant |
| a tuple | the first of several places that has a value |
| `{"$all": (...)}` | the values of several places in one list |
| `{"$each": "a[]", "key": ...}` | an object for each item, whose keys are places in the item (`""` is the item itself) |
| `{"$zip": {"key": "a", ...}}` | an object for each position of several lists of equal length |
| `{"$join": "a[]"}` | texts, joined |
| `{"$parts": "a"}` | alternatives, from a text, a list of parts that belong together, or a list of alternatives for each part |
| `{"$grades": "a[]"}` | grade 1 for each of these ids |
| `{"$cells": "a"}` | the passages that deepeval joins to one text |
| `{"$id": ("a", "b")}` | values joined to an id |

An object of `$each` with `$needs` must have this key, otherwise it does not have a value. `$between` is put between objects.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice, product
from typing import Any, Final

from ragstone._util.quantities import text_of
from ragstone.reading._columns import FIELD_ALIASES, name_key
from ragstone.reading._row_values import path_steps, walk

_ROW_KEYS: Final = frozenset(
    name_key(name) for known in ("query", "messages", "response") for name in FIELD_ALIASES[known]
)
_MAX_PARTS: Final = 100
_JOINED: Final = re.compile(r";(?=\S)")


@dataclass(frozen=True, slots=True)
class Layout:
    """A layout of rows."""

    name: str
    keys: frozenset[str]
    """Keys that each row has."""
    fields: Mapping[str, Any] = field(default_factory=dict)
    """Places by our field name."""
    note: str = ""
    """What is to know about it, for the report."""
    answers: tuple[str, ...] = ()
    """Keys of the answers of which a row has several. Each is a sample, with the other keys of the row."""
    parts: tuple[str, ...] = ()
    """Keys of nested lists, outermost first. Each item of the last one is a sample, with the keys of the outer
    objects."""
    ideal: str = ""
    """Key of the ideal passages, which are contexts only if the user says so."""

    def describe(self, row: Mapping[str, Any]) -> str:
        """Return what is read from where, in one line. Of alternatives, those that the row has are named."""
        roots = {name: dict.fromkeys(_roots(place)) for name, place in self.fields.items()}
        shown = {name: [root for root in found if root in row] or found for name, found in roots.items()}
        read = ", ".join(f"{name} ← {' + '.join(found)}" for name, found in shown.items())
        ideal = self.ideal and f". The ideal passages are not read; otherwise: --field contexts={self.ideal}"
        return f"rows of {self.name}: {read}{self.note and f'. {self.note}'}{ideal}"


def _layout(
    name: str, keys: str, note: str = "", answers: str = "", parts: str = "", ideal: str = "", **fields: Any
) -> Layout:
    return Layout(name, frozenset(keys.split()), fields, note, tuple(answers.split()), tuple(parts.split()), ideal)


_DEEPEVAL: Final[Mapping[str, Any]] = {
    "query": "input", "response": ("actualOutput", "actual_output"), "reference": ("expectedOutput", "expected_output"),
}  # fmt: skip
_SQUAD: Final[Mapping[str, Any]] = {"id": "id", "query": "question", "reference": ("answers.text[]", "answers[].text")}
_TURN: Final = "conversationTurns.0."

LAYOUTS: Final[tuple[Layout, ...]] = (
    _layout(
        "RGB", "query answer positive negative",
        "`answer` is the correct answer. The passages are not contexts, because each experiment takes some of them",
        id="id", query="query", reference={"$parts": "answer"},
    ),
    _layout(
        "CRAG", "interaction_id query answer search_results",
        "`answer` is the correct answer. Passages are the snippets of the search results, without their pages",
        id="interaction_id", query="query", reference={"$all": ("answer", "alt_ans[]")},
        contexts={
            "$each": "search_results[]", "text": "page_snippet",
            "metadata": {"$object": {"title": "page_name", "url": "page_url"}},
        },
    ),
    _layout(
        "MultiHop-RAG", "query answer evidence_list",
        "`answer` is the correct answer. The evidence is not contexts, because no retrieval returned it",
        query="query", reference="answer",
    ),
    _layout(
        "HotpotQA", "question answer context supporting_facts",
        "`answer` is the correct answer. Ids of passages are their titles, and supporting titles have grade 1",
        id=("_id", "id"), query="question", reference="answer",
        contexts=(
            {"$zip": {"id": "context.title", "text": {"$join": "context.sentences"}}},
            {"$each": "context[]", "id": "0", "text": {"$join": "1[]"}},
        ),
        qrels=({"$grades": "supporting_facts.title[]"}, {"$grades": {"$each": "supporting_facts[]", "$value": "0"}}),
    ),
    _layout(
        "BioASQ", "body snippets", "Passages are the snippets. `documents` contains addresses, no texts",
        id="id", query="body", reference="ideal_answer[]",
        contexts={"$each": "snippets[]", "text": "text", "metadata": {"$object": {"url": "document"}}},
    ),
    _layout(
        "AutoRAG", "qid query",
        id="qid", query="query", response="generated_texts", reference="generation_gt[]",
        contexts={"$zip": {"text": "retrieved_contents", "id": "retrieved_ids", "score": "retrieve_scores"}},
        qrels={"$grades": "retrieval_gt[][]"},
    ),
    _layout(
        "TREC RAG", "topic_id topic references answer", "The passages have ids, but no texts",
        id="topic_id", query="topic",
        response={
            "$each": "answer[]", "type": "=text", "text": "text",
            "citations": {"$each": "citations[]", "document_index": ""}, "$between": {"type": "text", "text": " "},
        },
        contexts={"$each": "references[]", "id": "", "text": "="},
    ),
    _layout(
        "MTRAG", "task_id input contexts",
        id="task_id", messages={"$each": "input[]", "role": "speaker", "content": "text"},
        response="predictions.0.text", reference="targets[].text",
        contexts={"$each": "contexts[]", "$needs": "text", "text": "text", "id": "document_id", "score": "score"},
    ),
    _layout(
        "RAGChecker pairs", "instance_id query_id model1 model2", "Each answer is a sample", answers="model1 model2",
        id={"$id": ("dataset", "query_id", "model_name")},
        query="query", response="response", contexts="retrieved_context", reference="gt_answer",
    ),
    _layout(
        "MTRAG evaluations", "task_id model_id model_response", "The questions are in the list `tasks`",
        id={"$id": ("task_id", "model_id")}, response="model_response",
    ),
    _layout(
        "ragas annotations", "metric_input metric_output",
        query=("metric_input.user_input", "metric_input.question"),
        response=("metric_input.response", "metric_input.answer"),
        contexts=("metric_input.retrieved_contexts", "metric_input.contexts"),
        reference=("metric_input.reference", "metric_input.ground_truth"),
    ),
    _layout(
        "promptfoo", "vars response prompt",
        id="id", response="response.output",
        query=("vars.query", "vars.question", "vars.input", "vars.user_input", "vars.prompt"),
        contexts=("vars.contexts", "vars.context", "vars.documents", "vars.retrieved_contexts"),
        reference=("vars.reference", "vars.expected", "vars.expected_answer", "vars.ground_truth", "vars.answer"),
    ),
    _layout("deepeval", "input actualOutput", **_DEEPEVAL, contexts="retrievalContext", ideal="context"),
    _layout(
        "deepeval", "input actual_output expected_output context retrieval_context",
        "Cells of passages are separated at | or at ; without a blank",
        **_DEEPEVAL, contexts={"$cells": "retrieval_context"}, ideal="context",
    ),
    _layout(
        "Phoenix questions and answers", "context.span_id input output reference",
        "`reference` has the passages, joined to one text",
        query="input", response="output", contexts="reference",
    ),
    _layout(
        "Amazon Bedrock evaluations", "conversationTurns", "Only the first turn of a conversation is read",
        query=(f"{_TURN}inputRecord.prompt.content.0.text", f"{_TURN}prompt.content.0.text"),
        reference=(
            f"{_TURN}inputRecord.referenceResponses[].content[].text", f"{_TURN}referenceResponses[].content[].text",
        ),
        response=f"{_TURN}output.text",
        contexts={"$each": f"{_TURN}output.retrievedPassages.retrievalResults[]", "text": "content.text"},
    ),
    _layout(
        "Amazon Bedrock evaluations of models", "prompt modelResponses",
        query="prompt", reference="referenceResponse", response="modelResponses.0.response",
    ),
    _layout(
        "OpenAI batches", "custom_id response", "The questions are in the input file of the batch",
        id="custom_id",
        response=("response.body.choices.0.message.content", "response.body.output[].content[].text"),
    ),
    _layout(
        "Chroma", "ids documents distances",
        contexts=({"$zip": {"text": "documents.0", "id": "ids.0"}}, {"$zip": {"text": "documents", "id": "ids"}}),
    ),
    _layout(
        "TriviaQA", "question answer entity_pages search_results",
        "`answer` is the correct answer. The pages and search results are not contexts",
        id="question_id", query="question", reference=("answer.aliases[]", "answer.value"),
    ),
    _layout("SQuAD", "paragraphs", parts="paragraphs qas", ideal="context", **_SQUAD),
    _layout("SQuAD", "context question answers", ideal="context", **_SQUAD),
    _layout(
        "ShareGPT", "conversations",
        messages={"$each": "conversations[]", "role": ("from", "role"), "content": ("value", "content")},
    ),
)  # fmt: skip
"""The first layout whose keys a row has counts."""


def looks_like_row(keys: Collection[Any]) -> bool:
    """Return whether an object with these keys is a row: it has the name of a question or an answer, or a known layout."""
    return not _ROW_KEYS.isdisjoint(map(name_key, keys)) or find_layout(keys) is not None


def find_layout(keys: Iterable[Any]) -> Layout | None:
    """Return the layout of rows with these keys, or None. A row that has a question itself is not a list of such parts."""
    names = frozenset(map(str, keys))
    is_one = not _ROW_KEYS.isdisjoint(map(name_key, names))
    return next((layout for layout in LAYOUTS if layout.keys <= names and not (layout.parts and is_one)), None)


def rows_of(row: Mapping[str, Any], layout: Layout, fields: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return a row of a layout under our field names, or the rows of its parts."""
    found = [row]
    for key in layout.parts:
        found = [{**each, **part} for each in found for part in each.get(key) or () if isinstance(part, Mapping)]
    if layout.parts:
        # Without such parts the row is counted as one that cannot be read.
        return [renamed(each, layout, fields) for each in found] or [dict(row)]
    rest = {key: value for key, value in row.items() if key not in layout.answers}
    answers = [row[key] for key in layout.answers if isinstance(row[key], Mapping)]
    whole: list[Mapping[str, Any]] = [{**rest, **answer} for answer in answers]
    return [renamed(each, layout, fields) for each in whole or [row]]


def renamed(row: Mapping[str, Any], layout: Layout, fields: Mapping[str, str]) -> dict[str, Any]:
    """Return a row of a layout under our field names, with its other keys."""
    given = frozenset(part for column in fields.values() for part in (column, *column.split("+")))
    places = {
        name: place
        for name, place in layout.fields.items()
        if (name not in fields or name in given) and given.isdisjoint(_roots(place))
    }
    used = {root for place in places.values() for root in _roots(place)} | (layout.keys - given) | {*layout.parts}
    used -= {layout.ideal}
    values = {name: _value(place, row) for name, place in places.items()}
    # Empty contexts are a retrieval without passages. Any other empty value is a missing one.
    values = {
        name: value for name, value in values.items() if value not in (None, {}) and (value != [] or name == "contexts")
    }
    names = {name for known in values for name in FIELD_ALIASES[known]} | ({layout.ideal} - given)
    rest = {key: value for key, value in row.items() if key not in used}
    unread = {key: value for key, value in rest.items() if key in names}
    if unread:
        # Another name of a field that was read would be a second value of this field.
        values["metadata"] = {**unread, **(row.get("metadata") or {})}
    return {**{key: value for key, value in rest.items() if key not in unread}, **values}


def _roots(place: Any) -> list[str]:
    """Return the keys of the row that a place begins with."""
    if isinstance(place, str):
        return [] if place.startswith("=") else [path_steps(place)[0]]
    if isinstance(place, Mapping):
        # The other keys of an object for each item are places in the item.
        operation, inner = next(iter(place.items()))
        place = tuple(inner.values()) if operation == "$zip" else (inner,)
    return [root for each in place for root in _roots(each)] if isinstance(place, tuple) else []


def _value(place: Any, row: Any) -> Any:
    """Return the value at a place, or None."""
    if isinstance(place, str):
        return place[1:] if place.startswith("=") else walk(row, place)
    if isinstance(place, tuple):
        values = [value for each in place if (value := _value(each, row)) is not None]
        return next((value for value in values if value not in ("", [], {}, [[]])), values[0] if values else None)
    return _operation(place, row) if isinstance(place, Mapping) else place


def _operation(place: Mapping[str, Any], row: Any) -> Any:
    if "$all" in place:
        found = [_value(each, row) for each in place["$all"]]
        return [item for each in found if each is not None for item in (each if isinstance(each, list) else [each])]
    if "$object" in place:
        return _object(place["$object"], row)
    if "$zip" in place:
        columns = {key: _value(inner, row) for key, inner in place["$zip"].items()}
        columns = {key: column for key, column in columns.items() if isinstance(column, list)}
        if len({len(column) for column in columns.values()}) != 1:
            return None
        return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    if "$each" in place:
        items = _value(place["$each"], row)
        if not isinstance(items, list):
            return None
        if "$value" in place:
            return [_value(place["$value"], item) for item in items]
        inner = {key: value for key, value in place.items() if not key.startswith("$")}
        made = [_object(inner, item) for item in items]
        if any(place.get("$needs", key) not in one for one in made for key in one):
            return None
        between = place.get("$between")
        return made if between is None else [part for one in made for part in (between, one)][1:]
    if "$join" in place:
        return _joined(_value(place["$join"], row))
    if "$parts" in place:
        return _alternatives(_value(place["$parts"], row))
    if "$cells" in place:
        return _passages_in(_value(place["$cells"], row))
    if "$id" in place:
        return "+".join(text_of(value) for each in place["$id"] if (value := _value(each, row)) is not None)
    ids = _value(place["$grades"], row)
    return {text_of(name): 1 for name in ids} if isinstance(ids, list) else None


def _object(places: Mapping[str, Any], item: Any) -> dict[str, Any]:
    values = ((key, _value(place, item)) for key, place in places.items())
    return {key: value for key, value in values if value is not None and value != []}


def _joined(texts: Any) -> Any:
    """Join sentences, or the sentences of each of several texts."""
    if not isinstance(texts, list):
        return texts
    if texts and all(isinstance(part, list) for part in texts):
        return [_joined(part) for part in texts]
    parts = [text for text in texts if isinstance(text, str)]
    return ("" if any(part[:1].isspace() for part in parts[1:]) else " ").join(parts)


def _alternatives(answer: Any) -> Any:
    """Return correct answers. Parts that belong together are joined, with each of their alternatives."""
    if not isinstance(answer, list) or not all(isinstance(part, list) for part in answer):
        return answer
    if len(answer) == 1:
        return answer[0]
    combined = product(*(part for part in answer[:_MAX_PARTS] if part))
    return ["; ".join(map(str, parts)) for parts in islice(combined, _MAX_PARTS)]


def _passages_in(cell: Any) -> Any:
    if not isinstance(cell, str) or cell.lstrip().startswith("["):
        return cell
    return cell.split("|") if "|" in cell else _JOINED.split(cell)
