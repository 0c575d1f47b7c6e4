"""Objects of LangChain and LlamaIndex, as their own serialisers write them to JSON: results, states, responses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from ragstone.errors import DataError
from ragstone.replay._fields import mapping, parse_names, text_or_none
from ragstone.replay._formats import RejectedRecord
from ragstone.replay._payloads import answer_in, contexts_in, passages_in, question_in
from ragstone.replay._records import Record, records
from ragstone.replay._rows import trace_of_row
from ragstone.replay._source import InputFile
from ragstone.schema import Trace

__all__ = ["ObjectsFormat"]

_LANGCHAIN: Final = frozenset({"lc", "kwargs"})
_LLAMA_INDEX: Final = ({"source_nodes"}, {"node", "class_name"})
_QUESTIONS: Final = ("question", "query", "input", "user_input", "query_str", "messages")
_USED: Final = frozenset(
    {
        *_QUESTIONS, "answer", "output", "result", "response", "output_text", "generation", "context", "contexts",
        "source_documents", "documents", "source_nodes", "lc", "type", "kwargs",
    }
)  # fmt: skip


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
            return "LangChain's serialised objects, with `lc` and `kwargs`"
        return "LlamaIndex's responses, with `source_nodes`" if any(found >= names for names in _LLAMA_INDEX) else None

    def read(self, source: InputFile) -> Iterator[Trace | RejectedRecord]:
        """Read one request an object. No class is imported or made: what is not text in the JSON is not there."""
        started_at = source.modified_at()
        for record in records(source, within=()):
            if isinstance(record, RejectedRecord):
                yield record
                continue
            try:
                row = _row(record.value)
            except DataError as error:
                yield RejectedRecord(place=record.place, reason=str(error))
                continue
            yield trace_of_row(Record(record.place, row), self.name, started_at)


def _row(value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise DataError("a request must be an object with a question, an answer or documents in it")
    whole = mapping(value.get("kwargs")) if value.get("lc") else value
    query = question_in({name: whole[name] for name in _QUESTIONS if name in whole})
    # `generation` is what LangGraph's examples call the answer.
    answer = answer_in({name: whole[name] for name in whole if name != "content"} | _generation(whole))
    contexts = contexts_in(whole) or passages_in(whole.get("source_nodes"))
    if query is None and (answer is None or contexts is None):
        raise DataError("no request: it has neither a question nor an answer with documents")
    row: dict[str, Any] = {name: item for name, item in whole.items() if name not in _USED}
    if contexts is not None:
        row["contexts"] = [passage.model_dump(exclude_none=True) for passage in contexts]
    return row | {"query": query, "response": answer, "id": text_or_none(whole.get("id"))}


def _generation(whole: Mapping[str, Any]) -> dict[str, Any]:
    return {"answer": whole["generation"]} if "generation" in whole and "answer" not in whole else {}
