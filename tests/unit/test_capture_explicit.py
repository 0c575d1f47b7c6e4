"""`make_draft`: what an application states itself."""

from __future__ import annotations

import pytest

from ragstone.capture import make_draft
from ragstone.errors import ConfigurationError
from ragstone.requests import PassageDraft

Q = "Why?"


def test_a_request_is_described_in_one_call():
    """Each argument becomes the field of its name; the request ends now."""
    draft = make_draft(
        query=Q,
        contexts=["Because."],
        response="Because.",
        reference="It is so.",
        name="help desk",
        session_id="s",
        user_id="u",
        model="tiny-1",
        started_at=100.0,
        tags=["canary"],
        metadata={"release": "r1"},
    )
    assert (Q, [PassageDraft(text="Because.")], "Because.") == (draft.query, draft.contexts, draft.response)
    assert (["It is so."], "help desk", "s", "u") == (draft.reference, draft.name, draft.session_id, draft.user_id)
    assert ("tiny-1", ["canary"], {"release": "r1"}) == (draft.model, draft.tags, draft.metadata)
    assert ("ok", "record", 100.0) == (draft.status, draft.source, draft.started_at)
    assert draft.ended_at > 100.0


@pytest.mark.parametrize(
    ("context", "passage"),
    [
        ("alpha", PassageDraft(text="alpha")),
        (PassageDraft(text="alpha", id="7"), PassageDraft(text="alpha", id="7")),
        ({"text": "alpha", "id": 7, "score": 1}, PassageDraft(text="alpha", id="7", score=1.0)),
        ({"page_content": "alpha", "metadata": {"page": 3}}, PassageDraft(text="alpha", metadata={"page": 3})),
        ({"content": "alpha", "page": 3}, PassageDraft(text="alpha", metadata={"page": 3})),
        ({"text": "alpha", "page": 1, "metadata": {"page": 3}}, PassageDraft(text="alpha", metadata={"page": 3})),
        ({"text": "alpha", "score": float("nan"), "metadata": None}, PassageDraft(text="alpha")),
    ],
)
def test_a_context_may_be_a_text_a_mapping_or_a_passage(context, passage):
    """Whatever a search of the application's own returns, within reason."""
    assert [passage] == make_draft(contexts=iter([context])).contexts


def test_contexts_may_be_hits_of_a_vector_database():
    """They are read as a block reads them: by shape, with the field or the columns named if need be."""
    chroma = {"ids": [["7"]], "documents": [["alpha"]], "metadatas": None, "distances": [[0.1]]}
    assert [PassageDraft(text="alpha", id="7", metadata={"distance": 0.1})] == make_draft(contexts=chroma).contexts
    assert [PassageDraft(text="alpha", id="7")] == make_draft(
        contexts=[(7, "alpha")], columns=("id", "Inhalt"), text="Inhalt"
    ).contexts


@pytest.mark.parametrize(("contexts", "kept"), [(None, None), ([], []), ((), [])])
def test_no_contexts_are_not_unknown_contexts(contexts, kept):
    """An empty list says that nothing reached the prompt."""
    assert kept == make_draft(contexts=contexts).contexts


def test_several_references():
    """A list is as good as a text."""
    assert ["yes", "indeed"] == make_draft(reference=["yes", "indeed"]).reference


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"query": 3}, "query must be text or None, got int"),
        ({"response": b"secret"}, "response must be text or None, got bytes"),
        ({"reference": 3}, "reference must be a text or a list of texts, got int"),
        ({"reference": ["yes", 3]}, "reference must be a text or a list of texts, got list"),
        ({"contexts": "alpha"}, "hits must be a list or the result of a known client, got str; pass its list of hits"),
        ({"contexts": {"text": "alpha"}}, r"got dict with \['text'\]; pass its list of hits"),
        ({"contexts": 3}, "got int; pass its list of hits"),
        ({"contexts": ["alpha", 3]}, r"contexts: a hit \(int\) does not have a text under a known name"),
        ({"contexts": [{"Inhalt": "alpha"}]}, r"its fields are \['Inhalt'\]. Name it: text=\"FIELD\""),
        ({"contexts": [(1, "alpha")]}, r"rows without names \(tuple of 2\)"),
    ],
)
def test_what_cannot_be_a_request_is_refused_in_words(arguments, message):
    """The message names the argument, the rule and what came, and shows none of the captured text."""
    with pytest.raises(ConfigurationError, match=message) as error:
        make_draft(**arguments)
    assert "alpha" not in str(error.value)
    assert "secret" not in str(error.value)
