"""Results of searches, read by their shape: of vector databases, SQL rows, arrays and documents of frameworks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from enum import Enum
from itertools import islice
from numbers import Integral, Real
from typing import Any, Final, NamedTuple

from ragstone._util.quantities import text_of
from ragstone.errors import ConfigurationError
from ragstone.requests._draft import PassageDraft
from ragstone.requests._shape import finite_number, get, is_list, shown_text
from ragstone.schema import field_names

_TEXT: Final = field_names("text", "hit")
_ID: Final = (*field_names("id", "hit"), "file_id", "x-amz-bedrock-kb-chunk-id")
_SCORE: Final = (*field_names("score", "hit"), "@search.score")
_DISTANCE: Final = ("distance", "$dist")
_LISTS: Final = (
    "points",  # Qdrant
    "objects",  # Weaviate
    "matches",  # Pinecone
    "source_nodes",  # LlamaIndex
    *field_names("contexts", "hit"),
    "hits",
    "results",
    "retrievalResults",  # Bedrock
    "rows",  # Turbopuffer
    "data",  # OpenAI
    "result",
)
"""Names under which a result holds its list of hits."""
_BODIES: Final = ("payload", "_source", "properties", "entity", "node", "document", "fields", "content")
"""Names under which a hit holds the stored object."""
_METADATA: Final = ("metadata", "meta")
_VECTORS: Final = frozenset({"vector", "vectors", "embedding", "embeddings", "$vector"})
_SCALARS: Final = (str, bytes, Real, type(None))
_MAX_HITS: Final = 1_000
_MAX_NAMES: Final = 20
_MAX_VALUES: Final = 100_000
"""Values that are read of what may never end."""


class Hits(NamedTuple):
    """The lists of passages of a result, one for each query, and what is wrong with it."""

    lists: list[list[PassageDraft]]
    without_text: str | None = None
    """What to do about hits without a text, or None if all have one."""
    n_cut: int = 0
    """Hits left out because a list is longer than 1,000."""
    is_complete: bool = True
    """Whether each hit has at least an id. Hits with neither an id nor a text are left out."""


def read_hits(
    hits: Any,
    *,
    text: str | None = None,
    columns: Sequence[str] | None = None,
    texts: Sequence[str] | None = None,
    ids: Sequence[Any] | None = None,
    scores: Sequence[Any] | None = None,
) -> Hits:
    """Read the result of a search without importing the library that made it.

    A text is what stands under a known name or under `text`, never a guess. A hit without one is kept if it has an id.
    Distances are metadata: a passage's score is higher if it fits better.

    Args:
        hits: The result, see `RequestBlock.found`.
        text: Name of the field with the text.
        columns: Names of the columns of hits that are tuples.
        texts: Texts of the hits, in their order.
        ids: Ids of the hits, in their order.
        scores: Scores of the hits, in their order.

    Returns:
        One list for each query of a batch, in the order of the result, at most 1,000 passages each.
    """
    if texts is not None:
        return Hits([_zipped(hits, texts, ids, scores)])
    reader = _Reader(text, columns)
    whole = _lists(hits)
    n_cut = sum(max(0, len(found) - _MAX_HITS) for found in whole)
    lists = [[passage for hit in found[:_MAX_HITS] if (passage := reader.passage(hit))] for found in whole]
    for passages in lists:
        _set(passages, "ids", ids)
        _set(passages, "scores", scores)
    return Hits(lists, reader.without_text, n_cut=n_cut, is_complete=not reader.left_out)


# -- lists of hits


def _lists(value: Any) -> list[Sequence[Any]]:
    """Return the lists of hits in a result."""
    value = _unwrapped(value)
    if isinstance(value, Mapping) and is_list(value.get("ids")) and "documents" in value:
        return _chroma(value)
    if isinstance(value, tuple) and len(value) == 2 and is_list(value[0]) and not is_list(value[1]):
        value = value[0]  # a page of hits and the offset of the next one
    if is_list(value):
        if value and all(is_list(get(item, "points")) for item in value):  # a batch of Qdrant
            return [get(item, "points") for item in value]
        # Milvus and clients of several queries: a list of lists of hits.
        return list(value) if value and all(map(_is_batch, value)) else [value]
    content, structured = get(value, "content"), get(value, "structuredContent")
    if isinstance(get(value, "isError"), bool) and is_list(content):  # the result of a tool of MCP
        if get(value, "isError"):
            return [[]]
        return _lists(structured) if any(is_list(get(structured, name)) for name in _LISTS) else [content]
    if is_list(citations := get(value, "citations")):  # an answer of Bedrock
        return [[hit for one in citations for hit in get(one, "retrievedReferences") or ()]]
    for name in _LISTS:
        inner = get(value, name)
        if is_list(inner):
            return [inner]
        if isinstance(inner, Mapping):  # Elasticsearch: `hits.hits`
            return _lists(inner)
    records = get(value, "to_dict")
    if callable(records) and hasattr(value, "columns"):  # a data frame
        return [records("records")]
    if isinstance(value, Iterator):
        raise ConfigurationError("hits must be a list: reading an iterator would use it up; pass list(hits)")
    if isinstance(value, Mapping | str | bytes | bytearray) or not (
        isinstance(value, Iterable) and hasattr(value, "__len__")
    ):
        raise ConfigurationError(
            f"hits must be a list or the result of a known client, got {type(value).__name__}{_fields(value)}; "
            "pass its list of hits"
        )
    return [list(value)]


def _unwrapped(value: Any) -> Any:
    """Return the body of a response of Elasticsearch's client, which is a mapping by its methods alone."""
    body = get(value, "body")
    return body if isinstance(body, Mapping) and not isinstance(value, Mapping) else value


def _chroma(value: Mapping[str, Any]) -> list[Sequence[Any]]:
    """Turn Chroma's columns into hits: of `query` one list for each query, of `get` one list."""
    ids = value["ids"]
    is_batch = all(is_list(item) for item in ids)
    found: list[Sequence[Any]] = []
    for place, names in enumerate(ids if is_batch else [ids]):
        columns = {"id": names}
        for column, field in (("documents", "text"), ("metadatas", "metadata"), ("distances", "distance")):
            if (values := value.get(column)) is not None:
                columns[field] = values[place] if is_batch else values
        found.append([dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)])
    return found


def _is_batch(item: Any) -> bool:
    """Whether an item of the result is a list of hits, as of several queries, and not a row."""
    is_row = isinstance(item, tuple) or hasattr(item, "_fields") or hasattr(item, "_mapping")
    return is_list(item) and not is_row and not any(isinstance(hit, _SCALARS) for hit in item)


def _is_wrapped(hit: Any) -> bool:
    """Whether a hit is an object in a row of its own, maybe with a number: of LangChain or of an SQL mapper."""
    if not is_list(hit) or not 1 <= len(hit) <= 2 or isinstance(hit[0], _SCALARS):
        return False
    return len(hit) == 1 or isinstance(hit[1], Real)


# -- one hit


class _Reader:
    """Reads one hit after the other."""

    def __init__(self, text: str | None, columns: Sequence[str] | None) -> None:
        self._text = text
        self._columns = None if columns is None else _listed(columns, "columns")
        self.without_text: str | None = None
        self.left_out = False

    def passage(self, hit: Any) -> PassageDraft | None:
        if isinstance(hit, PassageDraft):
            return hit
        if isinstance(hit, str):
            return PassageDraft(text=str(hit))
        if _is_wrapped(hit):
            passage = self.passage(hit[0])
            if passage is not None and len(hit) == 2:
                # Whether more or less is better, only the application knows.
                passage = replace(passage, metadata={**passage.metadata, "score": hit[1]})
            return passage
        return self._of_object(self._named(hit))

    def _named(self, hit: Any) -> Any:
        """Return a row with the names of its columns."""
        for name in ("_mapping", "_asdict"):  # SQLAlchemy's rows, named tuples
            named = getattr(hit, name, None) if not isinstance(hit, Mapping) else None
            named = named() if callable(named) else named
            if isinstance(named, Mapping):
                return dict(named)
        keys = None if isinstance(hit, Mapping) else getattr(hit, "keys", None)
        if callable(keys) and hasattr(hit, "__getitem__"):  # rows of sqlite3 and asyncpg, Milvus' hits
            return {str(key): hit[key] for key in keys()}
        if not is_list(hit):
            return hit
        if self._columns is None:
            raise ConfigurationError(
                f"the hits are rows without names ({type(hit).__name__} of {len(hit)}); name their columns, for example "
                'columns=("id", "content", "distance")'
            )
        if len(self._columns) != len(hit):
            raise ConfigurationError(f"columns names {len(self._columns)} columns, but a row has {len(hit)}")
        return dict(zip(self._columns, hit, strict=True))

    def _of_object(self, hit: Any) -> PassageDraft | None:
        stored = next(
            (body for name in _BODIES if (body := get(hit, name)) is not None and not isinstance(body, str)), None
        )
        holders = [hit] if stored is None else [stored, hit]
        metadata = next(
            (
                dict(found)
                for holder in holders
                for name in _METADATA
                if isinstance(found := get(holder, name), Mapping)
            ),
            {},
        )
        text, text_name = self._text_in([*holders, metadata])
        sources = (hit, stored, metadata)
        identity = next((found for source in sources if (found := _first(source, _ID)) is not None), None)
        if identity is None and get(hit, "type") == "search_result":  # Anthropic
            identity = _first(hit, ("source",))
        if text is None:
            self.without_text = self.without_text or self._explained(hit, holders, metadata)
            if identity is None:
                self.left_out = True
                return None
        score, score_name = _score_of(hit, stored)
        return PassageDraft(
            text=text or "",
            id=None if identity is None else text_of(identity),
            score=score,
            metadata=_others(hit, stored, {text_name, score_name, *_METADATA}) | metadata,
        )

    def _text_in(self, holders: Sequence[Any]) -> tuple[str | None, str | None]:
        for name in _TEXT if self._text is None else (self._text,):
            for holder in holders:
                found = get(holder, name)
                if isinstance(found, str):
                    return str(found), name
                if name == "content" and is_list(found) and (shown := shown_text(found)):
                    return shown, name
        return None, None

    def _explained(self, hit: Any, holders: Sequence[Any], metadata: Mapping[str, Any]) -> str:
        names = sorted({str(name) for holder in (*holders, metadata) for name in _names(holder)})[:_MAX_NAMES]
        kind = type(hit).__name__
        if self._text is not None:
            return f"a hit ({kind}) does not have a text in the field {self._text!r}; its fields are {names}"
        return f'a hit ({kind}) does not have a text under a known name; its fields are {names}. Name it: text="FIELD"'


def _score_of(hit: Any, stored: Any) -> tuple[float | None, str | None]:
    # Weaviate keeps scores in an object of their own.
    for holder in (hit, get(hit, "metadata"), stored):
        for name in _SCORE:
            number = finite_number(get(holder, name))
            if number is not None:
                return number, name
    return None, None


def _others(hit: Any, stored: Any, read: set[str | None]) -> dict[str, Any]:
    """Return what a mapping holds in addition to what was read, and the distance of an object."""
    others: dict[str, Any] = {}
    skipped = {*read, *_ID, *_SCORE, *_BODIES, *_VECTORS}
    for holder in (stored, hit):
        if isinstance(holder, Mapping):
            others |= {str(key): item for key, item in holder.items() if key not in skipped and not _is_vector(item)}
    for holder in (hit, get(hit, "metadata")):
        for name in _DISTANCE:
            distance = finite_number(get(holder, name))
            if distance is not None:
                others["distance"] = distance
    return others


def _is_vector(value: Any) -> bool:
    return hasattr(value, "tolist") or (is_list(value) and len(value) > 64 and isinstance(value[0], Real))


def _first(holder: Any, names: Iterable[str]) -> Any:
    for name in names:
        found = get(holder, name)
        if found is not None and found != "" and not callable(found):
            return found
    return None


def _names(holder: Any) -> Iterable[Any]:
    if isinstance(holder, Mapping):
        return holder.keys()
    return (name for name in getattr(holder, "__dict__", ()) if not name.startswith("_"))


def _fields(value: Any) -> str:
    names = sorted(map(str, _names(value)))[:_MAX_NAMES]
    return f" with {names}" if names else ""


# -- arrays


def _zipped(hits: Any, texts: Sequence[str], ids: Any, scores: Any) -> list[PassageDraft]:
    """Make passages of the texts that belong to an array of positions, as FAISS returns it."""
    positions = _flat(hits if ids is None else ids, "hits" if ids is None else "ids")
    texts = _listed(texts, "texts")
    if len(texts) != len(positions):
        raise ConfigurationError(
            f"texts has {len(texts)} texts for {len(positions)} hits; pass the positions as hits "
            "(of FAISS the second array) and the text of each"
        )
    # A text that is missing is empty, as for a hit without one.
    passages = [
        PassageDraft(text=text if isinstance(text, str) else "", id=text_of(name))
        for text, name in zip(texts, positions, strict=True)
    ]
    _set(passages, "scores", scores)
    # FAISS fills a short list with -1.
    return [p for p, name in zip(passages, positions, strict=True) if not (isinstance(name, Integral) and name == -1)]


def _listed(values: Any, argument: str) -> list[Any]:
    """Return the values of an argument. An endless iterator, such as a counter of ids, has too many values for any hits."""
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise ConfigurationError(f"{argument} must be a list, got {type(values).__name__}")
    return list(islice(values, _MAX_VALUES))


def _flat(values: Any, argument: str) -> list[Any]:
    """Return an array of one row, or a list, as a list of plain values."""
    plain = values.tolist() if hasattr(values, "tolist") else _listed(values, argument)
    if not isinstance(plain, list):  # an array without dimensions
        plain = [plain]
    if len(plain) == 1 and isinstance(plain[0], list):
        return plain[0]
    return plain


def _set(passages: list[PassageDraft], argument: str, values: Any) -> None:
    if values is None:
        return
    plain = _flat(values, argument)
    if len(plain) != len(passages):
        raise ConfigurationError(f"{argument} has {len(plain)} values for {len(passages)} hits; pass one for each hit")
    for passage, value in zip(passages, plain, strict=True):
        if argument == "ids":
            passage.id = text_of(value)
        else:
            passage.score = finite_number(value)


def documents_in(content: Any) -> tuple[PassageDraft, ...]:
    """Return the documents and search results among the blocks of a message: of Anthropic, and of LlamaIndex."""
    blocks = content if is_list(content) else ()
    shown = [block for block in islice(blocks, _MAX_HITS) if _kind(block) in ("document", "search_result", "citable")]
    passages = []
    for block in shown:
        title, source = get(block, "title"), get(block, "source")
        text = shown_text([get(block, "content"), source if not isinstance(source, str) else None])
        metadata = {"title": title} if isinstance(title, str) else {}
        if text:
            passages.append(PassageDraft(text=text, id=source if isinstance(source, str) else None, metadata=metadata))
    return tuple(passages)


def _kind(block: Any) -> str:
    return str(get(block, "type") or get(block, "block_type"))


def found_by_provider(*places: Any) -> list[PassageDraft]:
    """Return the passages that a provider's own search gave to the model, from the items of a response or message."""
    passages = []
    for place in places:
        for name in ("output", "content", "tool_outputs", "built_in_tool_calls"):
            items = get(place, name)
            for item in islice(items, _MAX_HITS) if is_list(items) else ():
                key = {"file_search_call": "results", "server_tool_result": "output"}.get(_kind(item))
                results = None if key is None else get(item, key)
                if is_list(results) and results and not isinstance(results[0], str):
                    passages += [one for one in read_hits(results).lists[0] if one.text]
    return passages


def read_object(value: Any) -> Any:
    """Read a message or a document of LangChain or LlamaIndex, or return `NotImplemented` for any other value (see `harvest`)."""
    if isinstance(value, Mapping | list | tuple | type):
        return NotImplemented
    if isinstance(get(value, "page_content"), str) or get(get(value, "node"), "node_id") is not None:
        return next(iter(read_hits([value]).lists[0]), NotImplemented)
    role = get(value, "role") or get(value, "type")
    role = role.value if isinstance(role, Enum) else role
    if isinstance(role, str) and isinstance(get(value, "content"), str | list):
        return {name: get(value, name) for name in ("content", "name", "tool_calls")} | {"role": role}
    return NotImplemented
