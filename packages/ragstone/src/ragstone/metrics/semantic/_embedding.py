"""Embedding similarity: the cosine of the embeddings of response and reference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from ragstone.metrics._card import WorkedExample
from ragstone.metrics.semantic._base import SemanticMetric

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

_MODEL: Final = "sentence-transformers/paraphrase-multilingual-MiniLM-L12-v2"
"""A small model (470 MB) for paraphrase detection in 50 languages. It is symmetric and reads 128 tokens."""


class EmbeddingSimilarity(SemanticMetric["SentenceTransformer"]):
    """Cosine similarity of the embeddings of response and reference.

    The value that means "same content" depends on the model, so values of different models are not comparable.
    `truncated` in `details` is true if the model did not read the whole text.

    Args:
        model: A sentence-transformers model: a name on the hub, or a directory. Other models than the default are part
            of the metric's name (`embedding_similarity@MODEL`).
        device: Device of the model ("cpu", "cuda"). None: sentence-transformers chooses.
    """

    name = "embedding_similarity"
    title = "Embedding similarity"
    _meaning = "the embedding model sees different topics"
    _next_step = "Compare systems; check truncated."
    description = "How similar is the meaning of response and reference, according to an embedding model?"
    formula = "cosine of the embeddings of response and reference, best reference"
    example = WorkedExample(
        row={"response": "It is 31 meters tall.", "reference": ["Ferries leave at noon.", "It is 31 meters tall."]},
        value=1.0,
        steps="The second reference equals the response. With any model they have the same embedding: the cosine is 1.",
    )
    source = "Reimers and Gurevych 2019 (Sentence-BERT), section 3"

    def __init__(self, model: str = _MODEL, *, device: str | None = None) -> None:
        super().__init__(model, device=device)
        self.version = f"1({model})"

    def _load(self) -> SentenceTransformer:
        from sentence_transformers import SentenceTransformer

        return SentenceTransformer(self.model, device=self.device)

    def _compared(
        self, model: SentenceTransformer, response: str, references: Sequence[str]
    ) -> tuple[float, int, Mapping[str, Any]]:
        texts = [response, *references]
        vectors = model.encode(texts, normalize_embeddings=True, convert_to_numpy=True, show_progress_bar=False)
        cosines = [float(vectors[0] @ vector) for vector in vectors[1:]]
        best = max(range(len(cosines)), key=cosines.__getitem__)
        return cosines[best], best, {"truncated": any(_is_cut(model, text) for text in (response, references[best]))}


def _is_cut(model: SentenceTransformer, text: str) -> bool:
    limit = model.max_seq_length
    return limit is not None and len(model.tokenizer(text, verbose=False)["input_ids"]) > limit
