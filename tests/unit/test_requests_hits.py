"""`read_hits`: results of searches by their shape, without the libraries that make them."""

from __future__ import annotations

import sqlite3
from collections import namedtuple
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from ragstone.errors import ConfigurationError
from ragstone.requests import PassageDraft, read_hits

QDRANT = SimpleNamespace(
    points=[SimpleNamespace(id=7, version=1, score=0.9, payload={"text": "alpha", "page": 3}, vector=None)]
)
CHROMA = {
    "ids": [["a", "b"]],
    "embeddings": None,
    "documents": [["alpha", "beta"]],
    "uris": None,
    "metadatas": [[{"page": 3}, None]],
    "distances": [[0.1, 0.2]],
    "included": ["metadatas", "documents", "distances"],
}
ELASTIC = {
    "took": 3,
    "hits": {"total": {"value": 1}, "hits": [{"_id": "x", "_score": 1.5, "_source": {"body": "alpha", "page": 3}}]},
}
WEAVIATE = SimpleNamespace(
    objects=[
        SimpleNamespace(
            uuid="u-1",
            metadata=SimpleNamespace(distance=0.3, score=0.7, creation_time=None),
            properties={"content": "alpha", "page": 3},
            vector={},
            collection="Docs",
        )
    ]
)
MILVUS = [[{"id": 1, "distance": 0.8, "entity": {"text": "alpha", "page": 3}}]]
Row = namedtuple("Row", "id content distance")  # noqa: PYI024 - as drivers make them

ALPHA = {"text": "alpha", "metadata": {"page": 3}}


def passages(hits, **reading):
    """Return the one list of passages in a result."""
    (found,) = read_hits(hits, **reading).lists
    return found


@pytest.mark.parametrize(
    ("hits", "expected"),
    [
        (QDRANT, PassageDraft(**ALPHA, id="7", score=0.9)),
        ((QDRANT.points, "next-offset"), PassageDraft(**ALPHA, id="7", score=0.9)),
        (QDRANT.points, PassageDraft(**ALPHA, id="7", score=0.9)),
        (SimpleNamespace(body=ELASTIC), PassageDraft(**ALPHA, id="x", score=1.5)),
        (ELASTIC, PassageDraft(**ALPHA, id="x", score=1.5)),
        (ELASTIC["hits"]["hits"], PassageDraft(**ALPHA, id="x", score=1.5)),
        (WEAVIATE, PassageDraft(text="alpha", id="u-1", score=0.7, metadata={"page": 3, "distance": 0.3})),
        (MILVUS, PassageDraft(text="alpha", id="1", metadata={"page": 3, "distance": 0.8})),
        (
            {"matches": [{"id": "p", "score": 0.5, "metadata": {"text": "alpha", "page": 3}}]},
            PassageDraft(text="alpha", id="p", score=0.5, metadata={"text": "alpha", "page": 3}),
        ),
        (
            [{"id": 7, "content": "alpha", "distance": 0.2}],
            PassageDraft(text="alpha", id="7", metadata={"distance": 0.2}),
        ),
        ([Row(7, "alpha", 0.2)], PassageDraft(text="alpha", id="7", metadata={"distance": 0.2})),
        (
            [SimpleNamespace(_mapping={"id": 7, "content": "alpha", "score": 0.2})],
            PassageDraft(text="alpha", id="7", score=0.2),
        ),
        (["alpha"], PassageDraft(text="alpha")),
        ([PassageDraft(text="alpha", id="1")], PassageDraft(text="alpha", id="1")),
        (
            [SimpleNamespace(page_content="alpha", id=None, metadata={"page": 3, "doc_id": 9})],
            PassageDraft(text="alpha", id="9", metadata={"page": 3, "doc_id": 9}),
        ),
        (
            [(SimpleNamespace(page_content="alpha", metadata={"page": 3}), 0.25)],
            PassageDraft(text="alpha", metadata={"page": 3, "score": 0.25}),
        ),
        (
            SimpleNamespace(
                source_nodes=[
                    SimpleNamespace(score=0.4, node=SimpleNamespace(text="alpha", node_id="n", metadata={"page": 3}))
                ]
            ),
            PassageDraft(**ALPHA, id="n", score=0.4),
        ),
        (
            pd.DataFrame({"id": [1], "text": ["alpha"], "_distance": [0.5]}),
            PassageDraft(text="alpha", id="1", metadata={"_distance": 0.5}),
        ),
    ],
    ids=str,
)
def test_shapes(hits, expected):
    """A hit has its text, its id, the score if higher is better, and everything else as metadata."""
    assert [expected] == passages(hits)


def test_chroma():
    """Chroma returns columns: of a query for each query, of `get` for all."""
    alpha = PassageDraft(text="alpha", id="a", metadata={"page": 3, "distance": 0.1})
    beta = PassageDraft(text="beta", id="b", metadata={"distance": 0.2})
    assert [alpha, beta] == passages(CHROMA)
    several = {"ids": [["a"], []], "documents": [["alpha"], []], "metadatas": None, "distances": None}
    assert [[PassageDraft(text="alpha", id="a")], []] == read_hits(several).lists
    got = {"ids": ["a"], "documents": ["alpha"], "metadatas": [{"page": 3}]}
    assert [PassageDraft(**ALPHA, id="a")] == passages(got)


def test_several_queries_are_several_lists():
    """Milvus returns a list of hits for each query, Qdrant a result."""
    assert 2 == len(read_hits([MILVUS[0], []]).lists)
    assert 2 == len(read_hits([QDRANT, QDRANT]).lists)


def test_rows_of_a_database_have_the_names_of_their_columns():
    """Drivers name columns in rows; plain tuples need them named."""
    connection = sqlite3.connect(":memory:")
    query = "SELECT 7 AS id, 'alpha' AS content, 0.2 AS distance"
    expected = [PassageDraft(text="alpha", id="7", metadata={"distance": 0.2})]
    rows = connection.execute(query).fetchall()
    assert expected == passages(rows, columns=("id", "content", "distance"))
    with pytest.raises(ConfigurationError, match=r"rows without names \(tuple of 3\); name their columns"):
        read_hits(rows)
    with pytest.raises(ConfigurationError, match="columns names 2 columns, but a row has 3"):
        read_hits(rows, columns=("id", "content"))
    connection.row_factory = sqlite3.Row
    assert expected == passages(connection.execute(query).fetchall())
    connection.close()


def test_arrays_of_positions_have_texts_of_their_own():
    """FAISS returns scores and positions as arrays with a row for each query, and -1 where it found too few."""
    scores = np.array([[0.9, 0.5, -3.4e38]], dtype="float32")
    positions = np.array([[4, 2, -1]])
    found = passages(positions, texts=["alpha", "beta", ""], scores=scores)
    assert [("alpha", "4"), ("beta", "2")] == [(passage.text, passage.id) for passage in found]
    assert [pytest.approx(0.9), pytest.approx(0.5)] == [passage.score for passage in found]
    assert ["x", "y"] == [p.id for p in passages(positions[0][:2], texts=["alpha", "beta"], ids=["x", "y"])]
    with pytest.raises(ConfigurationError, match="texts has 1 texts for 3 hits"):
        read_hits(positions, texts=["alpha"])


def test_ids_and_scores_may_be_arguments():
    """They count for hits that do not hold any."""
    assert [PassageDraft(text="alpha", id="1", score=2.0)] == passages(["alpha"], ids=[1], scores=[2])
    with pytest.raises(ConfigurationError, match="ids has 2 values for 1 hits; pass one for each hit"):
        read_hits(["alpha"], ids=[1, 2])


def test_a_text_under_another_name_is_never_guessed():
    """The longest string is not a text; the message names the fields and the argument, and no text."""
    hits = [{"id": 1, "Inhalt": "a long alpha"}, {"Inhalt": "beta"}]
    read = read_hits(hits)
    assert [[PassageDraft(text="", id="1", metadata={"Inhalt": "a long alpha"})]] == read.lists
    assert "its fields are ['Inhalt', 'id']" in read.without_text
    assert 'text="FIELD"' in read.without_text
    assert "alpha" not in read.without_text
    assert ["a long alpha", "beta"] == [passage.text for passage in passages(hits, text="Inhalt")]
    assert "not have a text in the field 'title'" in read_hits(hits, text="title").without_text


def test_vectors_are_left_out():
    """A hit's embedding is not metadata."""
    hit = {"text": "alpha", "embedding": [0.1], "other": [0.1] * 100, "array": np.zeros(3), "page": 3}
    assert [PassageDraft(**ALPHA)] == passages([hit])


def test_an_empty_result_is_a_list():
    """Finding nothing is a result."""
    for hits in ([], (), SimpleNamespace(points=[]), {"hits": {"hits": []}}):
        assert [[]] == [list(found) for found in read_hits(hits).lists]


@pytest.mark.parametrize(
    ("hits", "message"),
    [
        ("alpha", "hits must be a list or the result of a known client, got str; pass its list of hits"),
        ({"text": "alpha"}, r"got dict with \['text'\]"),
        (None, "got NoneType"),
        (3, "got int"),
        (iter(["alpha"]), "reading an iterator would use it up"),
    ],
)
def test_what_is_not_a_result_is_refused(hits, message):
    """The message names the type and its fields, and no text."""
    with pytest.raises(ConfigurationError, match=message) as error:
        read_hits(hits)
    assert "alpha" not in str(error.value)


def test_a_result_is_cut():
    """At most 1,000 hits are copied."""
    assert 1_000 == len(passages(["alpha"] * 1_500))
