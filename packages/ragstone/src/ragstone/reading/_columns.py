"""Columns of a dataset: which of them is which field of a sample."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Final

from ragstone.errors import DataError
from ragstone.schema import ROW_GUESSES, ROW_NAMES, ROW_SYNONYMS, field_names

_ORDER: Final = (
    "id", "query", "history", "messages", "contexts", "response", "reference", "sub_questions", "qrels", "ratings",
)  # fmt: skip
_MAIN: Final[Mapping[str, tuple[str, ...]]] = {
    **ROW_NAMES,
    "query": field_names("query", "row"),
    "contexts": field_names("contexts", "row"),
    "response": field_names("response", "row"),
}
FIELD_ALIASES: Final[Mapping[str, tuple[str, ...]]] = {
    name: (*_MAIN[name], *ROW_SYNONYMS.get(name, ())) for name in _ORDER
}
"""Accepted names per field, in the order they are looked for (ragas, deepeval, openevals, Phoenix, LlamaIndex, MLflow,
Langfuse, RAGChecker, autoevals, AutoRAG). The first is ours, and the only one printed. Case, blanks, dots, `-` and `_` do not
matter."""

_LISTS: Final = ("contexts", "reference")
"""Fields that numbered columns (`context_1`, `context_2`) make a list of."""
_WORDS: Final = (
    ("reference", frozenset({"gold", "golden", "truth", "expected", "correct", "ideal", "gt"})),
    ("contexts", frozenset({"context", "contexts", "passage", "passages", "chunk", "chunks", "documents", "evidence"})),
    ("query", frozenset({"question", "query"})),
    ("response", frozenset({"answer", "response", "output", "generated", "prediction"})),
)
"""Words in a longer name that suggest a field."""
_OTHER_WORDS: Final = frozenset({
    "id", "ids", "score", "scores", "label", "labels", "count", "n", "num", "type", "date",
    "time", "url", "urls", "tokens", "length", "len", "rate", "latency", "cost", "embedding", "source",
})  # fmt: skip
"""Words in the name of a column that describes another one (`answer_score`, `query_id`)."""
_NUMBERED: Final = re.compile(r"(.*?\D)(\d{1,4})$", re.DOTALL)
_PARTS: Final = re.compile(r"[A-Z]?[a-z]++|[A-Z]++|\d++")
_SEPARATORS: Final = re.compile(r"[\s_.\-]+")
_SHOWN_CHARS: Final = 60
"""Characters of the names of columns in a message."""
_USED_TOO: Final = frozenset({"metadata", "inputs", "outputs", "retrieved_context_ids", "reference_context_ids"})
"""Columns that are read with others and are not unused."""
_WEAK_RESPONSES: Final = frozenset({"answer", "result"})
"""Names of a response next to which `answer` is not the correct answer."""
_LABELED: Final = frozenset(
    {"expected", "expectations", "groundtruth", "groundtruths", "result", "output", "outputs", "prediction"}
)
"""Names of a text that are also those of a label: whether a test passed, whether an answer is correct."""


def name_key(name: object) -> str:
    """Return what two spellings of one name have in common.

    Examples:
        >>> name_key(" Retrieved-Contexts"), name_key("retrieved_contexts"), name_key("retrievedContexts")
        ('retrievedcontexts', 'retrievedcontexts', 'retrievedcontexts')
    """
    text = str(name)
    # promptfoo's `__expected` contains assertions.
    return text if text.startswith("__") else _SEPARATORS.sub("", text).casefold()


_MAIN_OF: Final = {name_key(alias): (name, n) for name in _ORDER for n, alias in reversed(list(enumerate(_MAIN[name])))}
_SYNONYM_OF: Final = {
    name_key(alias): (name, n) for name, names in ROW_SYNONYMS.items() for n, alias in enumerate(names)
}
_GUESSED: Final = ("response", "query", "contexts", "reference")
_GUESS_OF: Final = {name_key(alias): name for name in _GUESSED for alias in ROW_GUESSES[name]}
_LIST_KEYS: Final = {
    key: name
    for name in _LISTS
    for alias in (
        *FIELD_ALIASES[name],
        "contexts" if name == "contexts" else "ground_truth",
        "passage",
        "document",
        "doc",
    )
    if name == "contexts" or alias not in ("passage", "document", "doc")
    for key in (name_key(alias), name_key(alias).removesuffix("s"))
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnPlan:
    """The columns of rows with the same names."""

    columns: frozenset[str]
    """All columns."""
    names: Mapping[str, tuple[str, ...]]
    """Columns that mean a field, by field, the first of them first. A row with several that differ is an error."""
    numbered: Mapping[str, tuple[str, ...]]
    """Columns whose values make one list, by field."""
    given: frozenset[str]
    """Fields whose column the user named."""
    unused: tuple[str, ...]
    """Columns that are metadata."""
    guesses: Mapping[str, str] = field(default_factory=dict)
    """A column that may be meant, by field without a column."""
    meanings: Mapping[str, tuple[str, str, str]] = field(default_factory=dict)
    """What `answer` and `context` are, whose meaning depends on the other columns.

    By this name: the column, the field or "", and the column that decides.
    """
    labeled: Mapping[str, str] = field(default_factory=dict)
    """Columns whose values may be labels, by field."""
    single: dict[str, str] = field(init=False)
    """The column of each field that has one."""
    several: dict[str, tuple[str, ...]] = field(init=False)
    """The columns of each field that has several."""

    def __post_init__(self) -> None:
        one = {name: columns[0] for name, columns in self.names.items() if len(columns) == 1}
        object.__setattr__(self, "single", one)
        object.__setattr__(self, "several", {name: columns for name, columns in self.names.items() if name not in one})


def plan_columns(
    columns: Sequence[str],
    fields: Mapping[str, str],
    position: int,
    *,
    with_app: bool = False,
    meanings: Mapping[str, tuple[str, str, str]] | None = None,
) -> ColumnPlan:
    """Decide which column is which field.

    Args:
        columns: Names of the columns.
        fields: Columns that the user named, by field. An id may have several, joined by "+".
        position: 1-based position of the row, for errors.
        with_app: Whether an application answers, so that `answer` is the correct answer.
        meanings: What `answer` and `context` are in earlier rows.

    Raises:
        DataError: If a column of a named id does not exist, or a named column has several spellings.
    """
    named = {name: _named(name, column, columns, position) for name, column in fields.items()}
    # A column in an id is still the field that its name says.
    taken = {column for name, names in named.items() for column in names if name != "id"}
    main: dict[str, list[tuple[int, str]]] = {}
    synonyms: dict[str, list[tuple[int, str]]] = {}
    numbers: dict[str, list[tuple[int, str]]] = {}
    for column in columns:
        if column in taken:
            continue
        key = name_key(column)
        if (known := _MAIN_OF.get(key)) is not None:
            main.setdefault(known[0], []).append((known[1], column))
        elif (known := _SYNONYM_OF.get(key)) is not None:
            synonyms.setdefault(known[0], []).append((known[1], column))
        elif (match := _NUMBERED.fullmatch(column)) and (name := _LIST_KEYS.get(name_key(match[1]))) is not None:
            numbers.setdefault(name, []).append((int(match[2]), column))
    found = {name: _ordered(main.get(name) or synonyms.get(name) or ()) for name in _ORDER if name not in named}
    decided: dict[str, tuple[str, str, str]] = {}
    _split_contexts(found, _ordered(synonyms.get("contexts", ())), decided, meanings or {})
    has_reference = bool(found.get("reference")) or "reference" in named
    generated = _ordered(synonyms.get("response", ())) if "response" in found else list(named["response"])
    _split_answers(found, generated, decided, meanings or {}, has_reference=has_reference, with_app=with_app)
    numbered = {
        name: tuple(_ordered(pairs)) for name, pairs in numbers.items() if name not in named and not found.get(name)
    }
    names = {name: tuple(columns_) for name, columns_ in {**found, **named}.items() if columns_}
    used = {column for group in (*names.values(), *numbered.values()) for column in group}
    unused = tuple(column for column in columns if column not in used and column not in _USED_TOO)
    return ColumnPlan(
        columns=frozenset(columns),
        names={name: names[name] for name in _ORDER if name in names},
        numbered=numbered,
        given=frozenset(named),
        unused=unused,
        guesses=_guesses(unused, {*names, *numbered, *named}, columns),
        meanings=decided,
        labeled={
            name: found[name][0]
            for name in ("reference", "response")
            if len(found.get(name, ())) == 1 and name_key(found[name][0]) in _LABELED
        },
    )


def _named(name: str, column: str, columns: Sequence[str], position: int) -> tuple[str, ...]:
    """Return the columns that the user named for a field. Rows of JSON may lack one that is not a part of an id."""
    wanted = [column] if column in columns or name != "id" else column.split("+")
    found: list[str] = []
    for part in wanted:
        same = [part] if part in columns else [other for other in columns if name_key(other) == name_key(part)]
        if len(same) > 1 or (not same and name == "id"):
            raise DataError(
                f"row {position} does not have the field {part!r}, which was named for {name!r}; it has "
                f"{shorten_names(columns)}"
            )
        found += same
    return tuple(found)


def shorten_names(names: Iterable[object]) -> str:
    """Return the first names for a message, and the number of the others."""
    quoted = [repr(str(name)) for name in names]
    widths = accumulate(len(name) + 2 for name in quoted)
    n = max(1, sum(width <= _SHOWN_CHARS for width in widths))
    return ", ".join(quoted[:n]) + (f" and {len(quoted) - n} more" if len(quoted) > n else "")


def _ordered(pairs: Iterable[tuple[int, str]]) -> list[str]:
    return [column for _, column in sorted(pairs, key=lambda pair: pair[0])]


def _split_contexts(
    found: dict[str, list[str]],
    synonyms: list[str],
    decided: dict[str, tuple[str, str, str]],
    meanings: Mapping[str, tuple[str, str, str]],
) -> None:
    """Leave `context` out, which may be the ideal passages, if another column has the retrieved ones."""
    columns = found.get("contexts", [])
    if (ideal := next((column for column in columns if name_key(column) == "context"), None)) is None:
        return
    others = [column for column in columns if column != ideal] or synonyms
    if others or meanings.get("context", ("", "contexts", ""))[1] == "":
        found["contexts"] = others
        decided["context"] = (ideal, "", others[0] if others else "")
    else:
        decided["context"] = (ideal, "contexts", "")


def _split_answers(
    found: dict[str, list[str]],
    generated: list[str],
    decided: dict[str, tuple[str, str, str]],
    meanings: Mapping[str, tuple[str, str, str]],
    *,
    has_reference: bool,
    with_app: bool,
) -> None:
    """Decide whether `answer` is the response, the correct answer, or neither, next to other columns.

    Args:
        found: Columns by field, which are changed.
        generated: Columns whose name says that a model wrote the text, or that the user named as the response.
        decided: Receives the meaning.
        meanings: What `answer` is in earlier rows.
        has_reference: Whether another column is the correct answer.
        with_app: Whether an application answers.
    """
    columns = found.get("response", [])
    is_weak = all(name_key(column) in _WEAK_RESPONSES for column in columns)
    if is_weak and generated and "response" in found:
        found["response"] = [*generated]
    if (answer := next((column for column in columns if name_key(column) == "answer"), None)) is None:
        return
    others = [column for column in columns if name_key(column) not in _WEAK_RESPONSES] + generated
    if not has_reference and (with_app or others or meanings.get("answer", ("", "", ""))[1] == "reference"):
        found["reference"] = [answer]
        found["response"] = [column for column in found["response"] if column != answer]
        decided["answer"] = (answer, "reference", others[0] if others else "")
    elif has_reference and generated:
        decided["answer"] = (answer, "", generated[0])
    else:
        decided["answer"] = (answer, "response", "")


def _guesses(unused: Sequence[str], read: set[str], columns: Collection[str]) -> dict[str, str]:
    guesses: dict[str, str] = {}
    if (
        "contexts" not in read
        and "reference" in columns
        and any(name_key(column).startswith("contextspanid") for column in unused)
    ):
        guesses["contexts"] = "reference"  # Phoenix keeps the passages there
    for column in unused:
        name = guess_field(column)
        if name is not None and name not in read:
            guesses.setdefault(name, column)
    return guesses


def guess_field(column: str, *, is_nested: bool = False) -> str | None:
    """Return the field that a column may mean, by its name, or None.

    Args:
        column: The name.
        is_nested: Whether it is a key of an object, where names of fields are guesses too.
    """
    key = name_key(column)
    if is_nested and (known := _MAIN_OF.get(key) or _SYNONYM_OF.get(key)) is not None:
        return known[0] if known[0] in _GUESSED else None
    if key.startswith("__"):
        return None
    if (name := _GUESS_OF.get(key)) is not None:
        return name
    parts = {part.casefold() for part in _PARTS.findall(column)}
    if parts & _OTHER_WORDS:
        return None
    return next((name for name, words in _WORDS if parts & words), None)
