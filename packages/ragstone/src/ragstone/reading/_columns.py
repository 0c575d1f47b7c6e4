"""Columns of a dataset: which of them is which field of a sample."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
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
_USED_TOO: Final = frozenset({"metadata", "inputs", "outputs", "retrieved_context_ids", "reference_context_ids"})
"""Columns that are read with others and are not unused."""
_WEAK_RESPONSES: Final = frozenset({"answer", "result"})
"""Names of a response next to which `answer` is not the correct answer."""


def name_key(name: object) -> str:
    """Return what two spellings of one name have in common.

    Examples:
        >>> name_key(" Retrieved-Contexts"), name_key("retrieved_contexts"), name_key("retrievedContexts")
        ('retrievedcontexts', 'retrievedcontexts', 'retrievedcontexts')
    """
    return _SEPARATORS.sub("", str(name)).casefold()


_MAIN_OF: Final = {name_key(alias): (name, n) for name in _ORDER for n, alias in reversed(list(enumerate(_MAIN[name])))}
_SYNONYM_OF: Final = {
    name_key(alias): (name, n) for name, names in ROW_SYNONYMS.items() for n, alias in enumerate(names)
}
_GUESS_OF: Final = {
    name_key(alias): name for name in ("response", "query", "contexts", "reference") for alias in ROW_GUESSES[name]
}
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
    is_answer_reference: bool = False
    """Whether `answer` is the correct answer."""
    is_answer_undecided: bool = False
    """Whether `answer` is the response for want of another sign."""


def plan_columns(
    columns: Sequence[str], fields: Mapping[str, str], position: int, *, with_app: bool, is_answer_gold: bool
) -> ColumnPlan:
    """Decide which column is which field.

    Args:
        columns: Names of the columns.
        fields: Columns that the user named, by field. An id may have several, joined by "+".
        position: 1-based position of the row, for errors.
        with_app: Whether an application answers, so that `answer` is the correct answer.
        is_answer_gold: Whether `answer` is the correct answer in an earlier row.

    Raises:
        DataError: If a column that the user named does not exist.
    """
    named = {name: _named(name, column, columns, position) for name, column in fields.items()}
    taken = {column for names in named.values() for column in names}
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
    _split_context(found, columns, taken)
    answers = [column for column in found.get("response", ()) if name_key(column) == "answer"]
    others = [column for column in found.get("response", ()) if name_key(column) not in _WEAK_RESPONSES]
    others += [column for _, column in synonyms.get("response", ())] + list(named.get("response", ()))
    has_reference = bool(found.get("reference")) or "reference" in named
    is_gold = bool(answers) and not has_reference and (with_app or is_answer_gold or bool(others))
    if is_gold:
        found["reference"] = answers
        rest = [column for column in found["response"] if column not in answers]
        found["response"] = rest or _ordered(synonyms.get("response", ()))
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
        guesses=_guesses(unused, {*names, *numbered}),
        is_answer_reference=is_gold,
        is_answer_undecided=bool(answers) and not is_gold and not has_reference,
    )


def _named(name: str, column: str, columns: Sequence[str], position: int) -> tuple[str, ...]:
    wanted = [column] if column in columns or name != "id" else column.split("+")
    found: list[str] = []
    for part in wanted:
        same = [part] if part in columns else [other for other in columns if name_key(other) == name_key(part)]
        if len(same) != 1:
            raise DataError(
                f"row {position} does not have the field {part!r}, which was named for {name!r}; it has "
                f"{sorted(map(str, columns))}"
            )
        found += same
    return tuple(found)


def _ordered(pairs: Iterable[tuple[int, str]]) -> list[str]:
    return [column for _, column in sorted(pairs, key=lambda pair: pair[0])]


def _split_context(found: dict[str, list[str]], columns: Sequence[str], taken: set[str]) -> None:
    """Leave deepeval's `context`, the ideal passages, out if `retrieval_context` has the retrieved ones."""
    if any(name_key(column) == "retrievalcontext" for column in columns if column not in taken):
        found["contexts"] = [column for column in found.get("contexts", ()) if name_key(column) != "context"]


def _guesses(unused: Sequence[str], read: set[str]) -> dict[str, str]:
    guesses: dict[str, str] = {}
    if "contexts" not in read and any(name_key(column).startswith("contextspanid") for column in unused):
        guesses["contexts"] = "reference"  # Phoenix keeps the passages there
    for column in unused:
        name = _GUESS_OF.get(name_key(column)) or _guess(column)
        if name is not None and name not in read:
            guesses.setdefault(name, column)
    return guesses


def _guess(column: str) -> str | None:
    parts = {part.casefold() for part in _PARTS.findall(column)}
    if parts & _OTHER_WORDS:
        return None
    return next((name for name, words in _WORDS if parts & words), None)
