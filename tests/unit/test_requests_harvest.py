"""`harvest`: every text, message list and document list of a step's inputs and outputs, and none of them chosen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from ragstone.requests import Message, PassageDraft, Value, harvest


class _Document:
    def __init__(self, text: str) -> None:
        self.text = text


def _read(value: Any) -> Any:
    return PassageDraft(text=value.text) if isinstance(value, _Document) else NotImplemented


def test_text_messages_and_documents_are_found_by_key_path() -> None:
    """A mapping's values come out in its order, each with the path to it."""
    found = harvest(
        {
            "question": "Why?",
            "messages": [{"role": "user", "content": "Why?"}, {"type": "ai", "content": "Wait.", "tool_calls": [{}]}],
            "state": {"documents": [{"page_content": "Because.", "metadata": {"doc_id": 7}}]},
        }
    )
    assert found == (
        Value(("question",), text="Why?"),
        Value(("messages",), messages=(Message("user", "Why?"), Message("assistant", "Wait.", calls_tool=True))),
        Value(
            ("state", "documents"),
            passages=(PassageDraft(text="Because.", id="7", metadata={"doc_id": 7}),),
        ),
    )


def test_bare_text_is_a_value_without_a_path() -> None:
    """A step whose output is a text has one value."""
    assert harvest("Because.") == (Value((), text="Because."),)


def test_empty_list_is_a_list_without_documents() -> None:
    """A retrieval that found nothing differs from a step that says nothing."""
    assert harvest({"documents": []}) == (Value(("documents",), passages=()),)
    assert harvest({"documents": None}) == ()


def test_list_of_texts_is_a_document_list_only_under_a_name_of_contexts() -> None:
    """Texts in a list are passages under `contexts`, and texts of their own under any other name."""
    assert harvest({"contexts": ["a", "b"]})[0].passages == (PassageDraft(text="a"), PassageDraft(text="b"))
    assert [value.path for value in harvest({"steps": ["a", "b"], "docs": ["c"]})] == [
        ("steps", "0"),
        ("steps", "1"),
        ("docs", "0"),
    ]


def test_lone_object_with_a_text_is_not_a_document() -> None:
    """`{"text": …}` is what an old LLM chain returns."""
    assert harvest({"text": "Because."}) == (Value(("text",), text="Because."),)
    assert harvest([{"text": "Because."}])[0].passages == (PassageDraft(text="Because."),)


def test_content_blocks_are_one_text() -> None:
    """Reasoning and images in a message are not part of its text."""
    content = [
        {"type": "thinking", "thinking": "Hm."},
        {"type": "text", "text": "Be"},
        {"type": "text", "text": "cause."},
    ]
    assert harvest([{"role": "assistant", "content": content}])[0].messages == (Message("assistant", "Because."),)


def test_framework_objects_are_read_by_the_callers_reader() -> None:
    """A reader's passages are kept, and a score next to a document becomes its score."""
    assert harvest({"x": [_Document("a"), _Document("b")]}, _read)[0].passages == (
        PassageDraft(text="a"),
        PassageDraft(text="b"),
    )
    assert harvest([(_Document("a"), 0.5)], _read)[0].passages == (PassageDraft(text="a", score=0.5),)


def test_number_of_documents_that_are_copied_is_limited() -> None:
    """The request thread does not copy a list of ten thousand documents."""
    read: list[_Document] = []

    def counting(value: Any) -> Any:
        if isinstance(value, _Document):
            read.append(value)
        return _read(value)

    (found,) = harvest([_Document("a")] * 10_000, counting)
    assert found.passages is not None
    assert (len(found.passages), len(read)) == (1_000, 1_001)


def test_depth_and_number_of_values_are_limited() -> None:
    """Three levels of keys and 32 values."""
    assert harvest({"a": {"b": {"c": "three", "d": {"e": "four"}}}}) == (Value(("a", "b", "c"), text="three"),)
    assert len(harvest({str(n): "x" for n in range(100)})) == 32


def test_objects_of_the_application_are_read_by_their_fields() -> None:
    """A model without a field of a known name is one text as JSON as well."""

    class Answer(BaseModel):
        verdict: str

    class State(BaseModel):
        answer: str

    @dataclass
    class Plain:
        verdict: str

    assert harvest(State(answer="Because.")) == (Value(("answer",), text="Because."),)
    assert harvest(Answer(verdict="Yes"))[-1] == Value(("<json>",), text='{"verdict":"Yes"}')
    assert harvest({"answer": Plain("Yes")})[-1] == Value(("answer", "<json>"), text='{"verdict": "Yes"}')


def test_reader_that_returns_a_new_object_each_time_ends() -> None:
    """Unwrapping stops after a few objects."""
    assert harvest(_Document("a"), lambda value: _Document(value.text)) == ()
