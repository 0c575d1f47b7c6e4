"""Embedders: models that map texts to vectors, on an endpoint with `/v1/embeddings` or in this process."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Unpack

from ragstone import settings
from ragstone._util.local_model import LocalModel
from ragstone.errors import JudgeRejectedError, JudgeReplyError
from ragstone.judges._model import AsyncOnce
from ragstone.judges._protocol import Embedder, JudgeIdentity
from ragstone.judges.openai_model import ConnectionOptions, OpenAICompatibleModel

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray
    from sentence_transformers import SentenceTransformer

_LEAST_DISTINCT: Final = 3
"""Smallest number of different texts that cannot all have the same vector by chance."""
_PROBE: Final = "text"
"""Text whose vector shows the dimension. Each model reads it completely."""


class EndpointEmbedder:
    """Embeds with the model of an OpenAI-compatible endpoint (`/v1/embeddings`): vLLM, TEI, Ollama, OpenAI, gateways.

    Requests have the same limits, retries and budget as those of an `OpenAICompatibleModel`. With a reply cache, an
    equal request is sent only once.

    Args:
        base_url: "http://host:8000/v1". Omit it with `client=AsyncOpenAI(...)`.
        batch_size: Maximum number of texts in one request, at least 1.
        connection: `client`, `model`, `api_key`, `extra_body` (such as `{"dimensions": 256}`) and all other options of
            `OpenAICompatibleModel`.

    Raises:
        ConfigurationError: If a value is invalid.

    Examples:
        ```python
        embedder = EndpointEmbedder("http://localhost:8000/v1", model="bge-m3")
        vectors = await embedder.embed(["How tall is it?", "What is its height?"])
        ```
    """

    def __init__(
        self, base_url: str | None = None, *, batch_size: int = 64, **connection: Unpack[ConnectionOptions]
    ) -> None:
        settings.check("embedder", "EndpointEmbedder", batch_size=batch_size)
        self._model = OpenAICompatibleModel(base_url, **connection)
        self._extra: Mapping[str, Any] = connection.get("extra_body") or {}
        self._batch_size = batch_size
        self._dimension: int | None = None
        self._measured = AsyncOnce(self._measure)

    def __repr__(self) -> str:
        return f"EndpointEmbedder({self._model!r})"

    @property
    def identity(self) -> JudgeIdentity:
        """Model, endpoint and dimension. Final after `prepare`."""
        return _identity(self._model.name, {**self._model.settings, "dimension": self._dimension})

    async def prepare(self) -> None:
        """Detect the served model, unless one was given, and the dimension of its vectors, with one short request.

        Raises:
            ConfigurationError: If the server serves no model, or several.
            JudgeError: If the server is unavailable, or does not embed texts.
        """
        await self._measured.get()

    async def _measure(self) -> int:
        await self._model.prepare()
        self._dimension = (await self._request([_PROBE])).shape[1]
        return self._dimension

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float64]:
        """Return one vector of length 1 per text.

        Args:
            texts: At least one text, none of them blank.

        Returns:
            Array of shape (number of texts, dimension), with rows in the order of the texts.

        Raises:
            ValueError: If `texts` is empty or contains a blank text.
            JudgeError: If no usable reply is received, or the dimension has changed.
        """
        import numpy as np

        distinct = _distinct(texts)
        await self.prepare()
        batches = [distinct[start : start + self._batch_size] for start in range(0, len(distinct), self._batch_size)]
        rows = np.concatenate([await self._request(batch) for batch in batches])
        if rows.shape[1] != self._dimension:
            raise JudgeReplyError(
                f"{self._model.name} replied with vectors of dimension {rows.shape[1]}, and earlier with {self._dimension}. "
                "Check that the endpoint still serves the same model"
            )
        return _in_order(rows, distinct, texts)

    async def _request(self, texts: Sequence[str]) -> NDArray[np.float64]:
        reply = await self._model.post("/embeddings", {**self._extra, "input": list(texts)})
        try:
            entries = {entry["index"]: entry["embedding"] for entry in reply["data"]}
            # An index that is missing is a KeyError.
            return _unit_rows([entries[index] for index in range(len(texts))])
        except (KeyError, TypeError, ValueError) as error:
            raise JudgeReplyError(
                f"{self._model.name} did not return one vector per text: {type(error).__name__}: {error}",
                raw=json.dumps(reply, default=repr)[:500],
            ) from None

    async def aclose(self) -> None:
        """Close the connections of the running event loop. A later request opens new ones."""
        await self._model.aclose()


class LocalEmbedder:
    """Embeds with a sentence-transformers model in this process, which is loaded at first use. Needs `ragstone[models]`.

    A text that is longer than the model reads is an error: a vector of its beginning would not be a vector of the text.

    Args:
        model: Name on the hub, or a directory.
        device: Device of the model ("cpu", "cuda"). None: sentence-transformers chooses.
        batch_size: Maximum number of texts that the model encodes at once, at least 1.

    Raises:
        ConfigurationError: If `batch_size` is below 1.

    Examples:
        ```python
        vectors = await LocalEmbedder("/models/all-MiniLM-L6-v2").embed(["How tall is it?", "What is its height?"])
        ```
    """

    def __init__(self, model: str, *, device: str | None = None, batch_size: int = 64) -> None:
        settings.check("embedder", "LocalEmbedder", batch_size=batch_size)
        self._name = model
        self._device = device
        self._batch_size = batch_size
        self._dimension: int | None = None
        self._local = LocalModel(self._load, name=model, feature=f"The embedder 'local:{model}'")

    def __repr__(self) -> str:
        return f"LocalEmbedder({self._name!r})"

    @property
    def identity(self) -> JudgeIdentity:
        """Model and dimension. Final after `prepare`."""
        return _identity(f"{self._name} in this process", {"model": self._name, "dimension": self._dimension})

    async def prepare(self) -> None:
        """Load the model.

        Raises:
            ConfigurationError: If the model cannot be loaded or its package is not installed.
        """
        if self._dimension is None:
            await self._local.prepare()
            self._dimension = (await self._local.run(lambda model: self._encode(model, [_PROBE]))).shape[1]

    def _load(self) -> SentenceTransformer:
        from sentence_transformers import SentenceTransformer

        return SentenceTransformer(self._name, device=self._device)

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float64]:
        """Return one vector of length 1 per text (see `EndpointEmbedder.embed`).

        Raises:
            ValueError: If `texts` is empty or contains a blank text.
            ConfigurationError: If the model cannot be loaded or its package is not installed.
            JudgeError: If a text is longer than the model reads.
        """
        distinct = _distinct(texts)
        await self.prepare()
        return _in_order(await self._local.run(lambda model: self._encode(model, distinct)), distinct, texts)

    def _encode(self, model: SentenceTransformer, texts: Sequence[str]) -> NDArray[np.float64]:
        limit = model.max_seq_length
        for text in texts if limit is not None else ():
            if (n := len(model.tokenizer(text, verbose=False)["input_ids"])) > limit:
                raise JudgeRejectedError(
                    f"a text has {n} tokens, and the embedder {self._name!r} reads {limit}. Use a model with a longer input",
                    kind="prompt_truncated",
                )
        vectors = model.encode(list(texts), batch_size=self._batch_size, convert_to_numpy=True, show_progress_bar=False)
        try:
            return _unit_rows(vectors)
        except ValueError as error:
            raise JudgeReplyError(f"the embedder {self._name!r}: {error}") from None

    async def aclose(self) -> None:
        """Do nothing. The model stays loaded."""


async def embed_texts(embedder: Embedder, texts: Sequence[str]) -> NDArray[np.float64]:
    """Return one vector of length 1 per text from any embedder, of which only the directions count."""
    try:
        rows = _unit_rows(await embedder.embed(texts))
    except (TypeError, ValueError) as error:
        raise JudgeReplyError(f"the embedder {embedder.identity.name}: {error}") from None
    if len(rows) != len(texts):
        raise JudgeReplyError(f"the embedder {embedder.identity.name}: {len(rows)} vectors for {len(texts)} texts")
    n_distinct = len({frozenset(text.casefold().split()) for text in texts})
    if n_distinct >= _LEAST_DISTINCT and not (rows != rows[0]).any():
        raise JudgeReplyError(
            f"the embedder {embedder.identity.name} has one vector for {n_distinct} different texts, so similarities "
            "measure nothing. Use another model"
        )
    return rows


def _identity(name: str, settings: Mapping[str, object]) -> JudgeIdentity:
    shape = json.dumps({"embedder": settings}, sort_keys=True, default=repr)
    return JudgeIdentity(name=name, hash=hashlib.sha256(shape.encode()).hexdigest()[:16])


def _distinct(texts: Sequence[str]) -> list[str]:
    if not texts or not all(text.strip() for text in texts):
        raise ValueError(f"texts must contain at least one text and no blank text, got {list(texts)!r}")
    return list(dict.fromkeys(texts))


def _in_order(rows: NDArray[np.float64], distinct: Sequence[str], texts: Sequence[str]) -> NDArray[np.float64]:
    """Return the rows of `texts` from those of the distinct texts."""
    place = {text: row for row, text in enumerate(distinct)}
    return rows[[place[text] for text in texts]]


def _unit_rows(vectors: ArrayLike) -> NDArray[np.float64]:
    """Scale vectors to length 1. Raise ValueError if their lengths differ, or one is not finite or has the length 0."""
    import numpy as np

    rows = np.asarray(vectors, dtype=np.float64)
    if rows.ndim != 2 or not rows.size or not np.isfinite(rows).all():
        raise ValueError(f"vectors must be finite and have one dimension, got an array of shape {rows.shape}")
    # Scaled by the largest entry first, because squares of large entries overflow.
    largest = np.abs(rows).max(axis=1, keepdims=True)
    if not largest.all():
        raise ValueError("a vector of zeros does not have a direction")
    rows = rows / largest
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True), dtype=np.float64)
