"""`read_hits` with results of the real databases: every call of their clients that returns hits."""

from __future__ import annotations

import uuid

import chromadb
import faiss
import numpy as np
import pytest
import sqlalchemy
from qdrant_client import QdrantClient, models
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from ragstone.requests import read_hits

VECTORS = [[1.0, 0.0], [0.0, 1.0]]
TEXTS = ["Blue light is scattered.", "The sea is blue."]


def read(hits, **reading):
    """Return text and id of each passage, by list."""
    found = read_hits(hits, **reading)
    assert found.without_text is None
    return [[(passage.text, passage.id) for passage in passages] for passages in found.lists]


BOTH = [(TEXTS[0], "0"), (TEXTS[1], "1")]


@pytest.fixture(scope="module")
def qdrant():
    """Return a Qdrant database in memory."""
    client = QdrantClient(":memory:")
    client.create_collection("docs", vectors_config=models.VectorParams(size=2, distance=models.Distance.COSINE))
    points = [models.PointStruct(id=n, vector=VECTORS[n], payload={"text": TEXTS[n], "page": n}) for n in range(2)]
    client.upsert("docs", points)
    yield client
    client.close()


def test_qdrant(qdrant):
    """Points of a query, of a batch and of a page; a score is a similarity."""
    result = qdrant.query_points("docs", query=VECTORS[0], limit=2)
    assert [BOTH] == read(result) == read(result.points)
    assert [1.0, 0.0] == [pytest.approx(passage.score) for passage in read_hits(result).lists[0]]
    assert [{"page": 0}, {"page": 1}] == [passage.metadata for passage in read_hits(result).lists[0]]
    batch = [models.QueryRequest(query=vector, limit=1, with_payload=True) for vector in VECTORS]
    assert [BOTH[:1], BOTH[1:]] == read(qdrant.query_batch_points("docs", batch))
    assert [BOTH] == read(qdrant.scroll("docs"))


def test_chroma():
    """Columns of a query with one or several vectors, and of `get`; a distance is metadata."""
    client = chromadb.EphemeralClient(settings=chromadb.Settings(anonymized_telemetry=False))
    collection = client.create_collection(f"docs-{uuid.uuid4().hex}", embedding_function=None)
    collection.add(ids=["0", "1"], documents=TEXTS, embeddings=VECTORS, metadatas=[{"page": 0}, {"page": 1}])
    result = collection.query(query_embeddings=[VECTORS[0]], n_results=2)
    assert [BOTH] == read(result)
    assert [(None, {"page": 0, "distance": 0.0}), (None, {"page": 1, "distance": 2.0})] == [
        (passage.score, passage.metadata) for passage in read_hits(result).lists[0]
    ]
    assert [BOTH[:1], BOTH[1:]] == read(collection.query(query_embeddings=VECTORS, n_results=1))
    assert [BOTH] == read(collection.get(ids=["0", "1"]))
    without = collection.query(query_embeddings=[VECTORS[0]], n_results=1, include=["metadatas"])
    assert read_hits(without).without_text is not None


def test_faiss():
    """Arrays of scores and positions, filled with -1 if there are too few."""
    index = faiss.IndexFlatIP(2)
    index.add(np.array(VECTORS, dtype="float32"))
    scores, positions = index.search(np.array(VECTORS[:1], dtype="float32"), 3)
    texts = [TEXTS[position] if position >= 0 else "" for position in positions[0]]
    assert [BOTH] == read(positions, texts=texts, scores=scores)


class Base(DeclarativeBase):
    pass


class Chunk(Base):
    __tablename__ = "chunk"
    id: Mapped[int] = mapped_column(primary_key=True)
    content: Mapped[str]


def test_sqlalchemy():
    """Rows with columns, mapped objects, and both with a distance, as pgvector's queries return them."""
    engine = sqlalchemy.create_engine("sqlite://")
    Base.metadata.create_all(engine)
    distance = sqlalchemy.literal(0.2).label("distance")
    with Session(engine) as session:
        session.add_all([Chunk(id=n, content=text) for n, text in enumerate(TEXTS)])
        session.commit()
        assert [BOTH] == read(session.execute(sqlalchemy.select(Chunk.id, Chunk.content, distance)).all())
        assert [BOTH] == read(session.execute(sqlalchemy.select(Chunk.id, Chunk.content)).mappings().all())
        assert [BOTH] == read(session.scalars(sqlalchemy.select(Chunk)).all())
        assert [BOTH] == read(session.execute(sqlalchemy.select(Chunk, distance)).all())
    engine.dispose()
