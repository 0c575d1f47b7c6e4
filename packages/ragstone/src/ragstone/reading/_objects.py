"""Objects of LangChain and LlamaIndex, as their own serialisers write them to JSON: results, states, responses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from ragstone.errors import DataError
from ragstone.reading._fields import mapping, parse_names
from ragstone.reading._formats import RejectedRecord
from ragstone.reading._records import Record, records
from ragstone.reading._row_traces import trace_of_row
from ragstone.reading._source import InputFile
from ragstone.reading._values import text_or_none, values_in
from ragstone.requests import Request, Step, TraceDraft, assemble
from ragstone.schema import Trace, field_names

_LANGCHAIN: Final = frozenset({"lc", "kwargs"})
_LLAMA_INDEX: Final = ({"source_nodes"}, {"node", "class_name"})
_USED: Final = frozenset(
    {
        *field_names("query", "input"),
        *field_names("response", "output"),
        *field_names("contexts", "output"),
        "lc",
        "type",
    }
)


class ObjectsFormat:
    """What a chain, graph or query engine gave back, in the JSON of `langchain_core.load` or of LlamaIndex's objects."""

    name = "objects"

    def detect(self, head: bytes) -> str | None:
        """LangChain marks its objects with `lc`; LlamaIndex's responses have `source_nodes`."""
        if head.startswith(b"PAR1"):
            return None
        found = parse_names(head)
        if "run_type" in found or "trace_id" in found:
            return None
        if found >= _LANGCHAIN:
            return "LangChain's serialized objects, with `lc` and `kwargs`"
        return "LlamaIndex's responses, with `source_nodes`" if any(found >= names for names in _LLAMA_INDEX) else None

    def read(self, source: InputFile) -> Iterator[Trace | RejectedRecord]:
        """Read one request an object. No class is imported or made: what is not text in the JSON is not there."""
        started_at = source.modified_at()
        for record in records(source, within=()):
            if isinstance(record, Record):
                yield trace_of_row(Record(record.place, _row(record.value)), self.name, started_at)
            else:
                yield record


def _row(value: Any) -> dict[str, Any] | DataError:
    """Return the query, the response and the contexts in an object, and the rest of its fields, as a row."""
    if not isinstance(value, Mapping):
        return DataError("a request must be an object with a question, an answer or documents in it")
    whole = mapping(value.get("kwargs")) if value.get("lc") else value
    found = assemble(Request(draft=TraceDraft(), steps=[_step(whole)]))
    if found.query is None and (found.response is None or found.contexts is None):
        return DataError("not a request: it has neither a question nor an answer with documents")
    row: dict[str, Any] = {name: item for name, item in whole.items() if name not in _USED}
    if found.contexts is not None:
        row["contexts"] = [
            {"text": passage.text, "id": passage.id, "score": passage.score, "metadata": passage.metadata}
            for passage in found.contexts
        ]
    return row | {"query": found.query, "response": found.response, "id": text_or_none(whole.get("id"))}


def _step(whole: Mapping[str, Any]) -> Step:
    """Return the step that has an object as its inputs and as its outputs."""
    said = values_in({name: item for name, item in whole.items() if name != "content"})
    asked = frozenset(field_names("query", "input"))
    return Step(
        id="object",
        kind="chain",
        inputs=[value for value in said if value.path and value.path[0] in asked],
        outputs=said,
    )
