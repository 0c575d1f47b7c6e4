"""What a provider retrieves: results of its own search, hits of its clients, and documents in prompts."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from ragstone.requests import harvest, read_hits
from ragstone.testing import MemoryRecorder

Q = "How tall is the lighthouse of Sollund?"
TOWER = "The lighthouse of Sollund was rebuilt in 1894 after a storm and is 31 metres tall, measured from its base."
LAMP = "Its lamp was electrified in 1922. Before that, the keepers carried eleven litres of oil a night up the stairs."
ANSWER = "The lighthouse of Sollund is 31 metres tall."


def objects(value):
    """Turn mappings into objects with attributes, as clients return them."""
    if isinstance(value, dict):
        return SimpleNamespace(**{key: objects(item) for key, item in value.items()})
    return [objects(item) for item in value] if isinstance(value, list) else value


FILE_SEARCH = {
    "id": "fs_1",
    "type": "file_search_call",
    "status": "completed",
    "queries": ["height of the lighthouse"],
    "results": [
        {"file_id": "file-1", "filename": "sollund.pdf", "score": 0.93, "text": TOWER, "attributes": {}},
        {"file_id": "file-2", "filename": "lamp.pdf", "score": 0.41, "text": LAMP, "attributes": {}},
    ],
}
RESPONSE = {
    "id": "resp_1",
    "object": "response",
    "model": "gpt-5",
    "output": [
        FILE_SEARCH,
        {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": ANSWER, "annotations": []}],
        },
    ],
    "usage": {"input_tokens": 900, "output_tokens": 12},
}


@pytest.mark.parametrize("form", [dict, objects], ids=["mapping", "object"])
@pytest.mark.parametrize("prompted", [True, False])
def test_answer_reads_the_search_of_the_responses_api(form, prompted):
    """The provider gave the passages to the model, so that they are the contexts."""
    recorder = MemoryRecorder()
    with recorder.request(Q) as request:
        if prompted:
            request.prompt([{"role": "user", "content": Q}])
        request.answer(form(RESPONSE))
    (draft,) = recorder.drafts
    assert (ANSWER, "gpt-5", 900) == (draft.response, draft.model, draft.input_tokens)
    passages = draft.contexts or [passage for search in draft.retrievals for passage in search.passages]
    assert [("file-1", TOWER, 0.93), ("file-2", LAMP, 0.41)] == [(p.id, p.text, p.score) for p in passages]
    assert ((), {}) == (draft.evidence.doubts, recorder.errors)


HITS = {
    "vector store of OpenAI": (
        SimpleNamespace(
            object="vector_store.search_results.page",
            data=[
                SimpleNamespace(
                    file_id="file-1",
                    filename="a.pdf",
                    score=0.9,
                    attributes={},
                    content=[SimpleNamespace(type="text", text=TOWER)],
                )
            ],
        ),
        ("file-1", TOWER, 0.9),
    ),
    "MCP": (
        SimpleNamespace(content=[SimpleNamespace(type="text", text=TOWER)], isError=False, structuredContent=None),
        (None, TOWER, None),
    ),
    "MCP, structured": (
        SimpleNamespace(
            content=[SimpleNamespace(type="text", text=json.dumps([{"id": "t", "text": TOWER}]))],
            isError=False,
            structuredContent={"result": [{"id": "t", "text": TOWER}]},
        ),
        ("t", TOWER, None),
    ),
    "Bedrock": (
        {
            "retrievalResults": [
                {
                    "content": {"text": TOWER, "type": "TEXT"},
                    "location": {"type": "S3", "s3Location": {"uri": "s3://docs/a.txt"}},
                    "score": 0.7,
                    "metadata": {"x-amz-bedrock-kb-chunk-id": "c1"},
                }
            ]
        },
        ("c1", TOWER, 0.7),
    ),
    "Bedrock, with the answer": (
        {
            "output": {"text": ANSWER},
            "citations": [
                {
                    "generatedResponsePart": {"textResponsePart": {"text": ANSWER}},
                    "retrievedReferences": [{"content": {"text": TOWER}, "location": {}, "metadata": {}}],
                }
            ],
        },
        (None, TOWER, None),
    ),
    "Turbopuffer": (
        SimpleNamespace(rows=[SimpleNamespace(id=7, **{"$dist": 0.2}, text=TOWER)], performance=None),
        ("7", TOWER, None),
    ),
    "Azure": ([{"@search.score": 3.1, "id": "t", "content": TOWER}], ("t", TOWER, 3.1)),
    "search results of Anthropic": (
        [
            {
                "type": "search_result",
                "source": "https://sollund.example",
                "title": "Sollund",
                "content": [{"type": "text", "text": TOWER}],
            }
        ],
        ("https://sollund.example", TOWER, None),
    ),
}


@pytest.mark.parametrize("name", HITS)
def test_hits_of_providers_are_read(name):
    """Each is a result as its client returns it."""
    hits, expected = HITS[name]
    read = read_hits(hits)
    assert [[expected]] == [[(p.id, p.text, p.score) for p in passages] for passages in read.lists]
    assert (None, True) == (read.without_text, read.is_complete)


BLOCKS = {
    "document": {
        "type": "document",
        "source": {"type": "text", "media_type": "text/plain", "data": TOWER},
        "title": "S",
    },
    "document of parts": {
        "type": "document",
        "source": {"type": "content", "content": [{"type": "text", "text": TOWER}]},
    },
    "search result": {
        "type": "search_result",
        "source": "https://s.example",
        "title": "S",
        "content": [{"type": "text", "text": TOWER}],
    },
}


@pytest.mark.parametrize("form", [dict, objects], ids=["mapping", "object"])
@pytest.mark.parametrize("place", ["user", "tool"])
@pytest.mark.parametrize("name", BLOCKS)
def test_documents_in_a_prompt_are_contexts(name, place, form):
    """Anthropic's blocks with documents hold what was found, also without a call of `found`."""
    block = form(BLOCKS[name])
    content = [block, {"type": "text", "text": Q}]
    if place == "tool":
        content = [{"type": "tool_result", "tool_use_id": "1", "content": [block]}]
    recorder = MemoryRecorder()
    with recorder.request(Q) as request:
        request.prompt(
            {"system": "Answer.", "messages": [{"role": "user", "content": Q}, {"role": "user", "content": content}]}
        )
        request.answer(ANSWER)
    (draft,) = recorder.drafts
    assert ([TOWER], ()) == ([passage.text for passage in draft.contexts or ()], draft.evidence.doubts)


def test_an_error_of_a_tool_in_a_prompt_is_not_in_doubt():
    """Anthropic marks the result of a tool that failed."""
    failed = {"type": "tool_result", "tool_use_id": "1", "is_error": True, "content": "The archive is closed. " * 6}
    recorder = MemoryRecorder()
    with recorder.request(Q) as request:
        request.found([TOWER])
        request.prompt([{"role": "user", "content": f"{TOWER} {Q}"}, {"role": "user", "content": [failed]}])
        request.answer(ANSWER)
    assert () == recorder.drafts[0].evidence.doubts


class Liar:
    """An object that has every attribute, and that is none of what it says."""

    def __getattr__(self, name):
        return self

    def __iter__(self):
        return iter(())

    def __len__(self):
        return 10**9

    def __getitem__(self, place):
        return self


class Raises:
    """An object whose attributes raise."""

    def __getattribute__(self, name):
        if name in ("__class__", "__dict__"):
            return object.__getattribute__(self, name)
        raise RuntimeError(name)


def cyclic():
    """A list and a mapping that contain themselves."""
    value = {"documents": []}
    value["documents"].append(value)
    value["self"] = value
    return value


HOSTILE = [
    Liar(),
    Raises(),
    cyclic(),
    {"output": [Liar()]},
    {"content": [cyclic()]},
    {"state": "x" * 3_000_000},
    [Raises()] * 40,
]


@pytest.mark.parametrize("number", range(len(HOSTILE)))
def test_hostile_objects_raise_nothing(number):
    """Whatever a state or a response holds, the application continues, and what was not read is counted."""
    value = HOSTILE[number]
    recorder = MemoryRecorder()
    with recorder.request(Q) as request:
        assert request.found(value) is value
        request.prompt(value)
        request.used(value)
        request.answer(value)
        request.returned(value)
    assert 1 == len(recorder.drafts)


def test_a_cycle_in_a_state_ends():
    """A value that contains itself is read to a depth."""
    assert len(harvest(cyclic())) < 40
