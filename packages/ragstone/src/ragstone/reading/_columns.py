"""Columns of a dataset: which of them is which field of a sample."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Final

from ragstone.errors import DataError
from ragstone.schema import ROW_GUESSES, ROW_NAMES, ROW_SYNONYMS, SETTING_NAMES, field_names

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
Langfuse, RAGChecker, autoevals, AutoRAG). The first is ours, and the only one printed. Case, blanks, dots, `-` and `_`
do not matter."""

_LISTS: Final = ("contexts", "reference")
"""Fields that numbered columns (`context_1`, `context_2`) make a list of."""
ALL_REQUIRED: Final = re.compile(
    r"(?:expected|required|key|gold|must|reference)\w*(?:facts|claims|points|nuggets|keywords|concepts|phrases)"
)
"""Names of parts of a correct answer. All are required, and several references are alternatives."""
_WORDS: Final = tuple(
    (name, frozenset(words.split()))
    for name, words in (
        ("contexts", "context contexts passage passages chunk chunks paragraphs document documents evidence snippet"),
        ("contexts", "kontext contexto contextos contexte textstelle"),
        ("reference", "gold golden truth expected correct ideal gt"),
        ("query", "question query message prompt frage pregunta pergunta domanda"),
        ("response", "answer answers response output generated prediction reply completion"),
        ("response", "antwort r\u00e9ponse respuesta resposta risposta"),
    )
)
"""Words in a longer name that suggest a field."""
_GOLD: Final = frozenset({
    "gold", "golden", "truth", "gt", "positive", "positives", "expected", "correct", "ideal", "reference", "references", "ref", "target", "targets",
    "attendue", "attendu", "esperada", "erwartete", "correcta", "human", "annotation", "annotations", "annotator", "annotated", "expert", "official", "corrected", "correction", "aliases", "solution",
})  # fmt: skip
"""Words in a name, or in that of an object around it, of what is correct."""
_GOLD_ANSWER: Final = frozenset(
    {"answers", "long", "short", "exact", "best", "canonical", "normalized", "formed", "free", "accepted"}
)
"""Words in the name of a correct answer, if no model is named."""
_MODELS: Final = frozenset({
    "model", "llm", "generated", "predicted", "prediction", "bot", "rag", "gpt", "system", "ai", "assistant", "output",
})  # fmt: skip
WRONG: Final = frozenset(
    {"incorrect", "wrong", "negative", "negatives", "distractor", "distractors", "worst", "rejected"}
)
_CARRIERS: Final = frozenset({"text", "value", "content"})
"""Names of a value that is what the object around it is (`reply.text`)."""
_OTHER_WORDS: Final = frozenset({
    "id", "ids", "score", "scores", "label", "labels", "count", "n", "num", "type", "date",
    "time", "url", "urls", "tokens", "length", "len", "rate", "latency", "cost", "embedding", "source", "name", "names", "title", "titles", "file", "files", "path",
    "error", "template", "feedback", "comment", "tokenized", "fns",
})  # fmt: skip
"""Words in the name of a column that describes another one (`answer_score`, `query_id`)."""
_PASSAGES: Final = frozenset({
    "sources", "chunks", "documents", "docs", "passages", "contexts", "results", "citations", "references",
    "annotations",
})  # fmt: skip
"""Names of lists of passages next to an answer."""
_MAX_ITEMS: Final = 5
_MAX_DEPTH: Final = 6
"""Depth of objects in which a text is searched."""
_NUMBERED: Final = re.compile(r"(.*?\D)(\d{1,4})$", re.DOTALL)
_PARTS: Final = re.compile(r"[A-Z]?[a-z]++|[A-Z]++|\d++")
_SIGNS: Final = re.compile(r"[\W\d_]+")
_SEPARATORS: Final = re.compile(r"[\s_.\-]+")
_SHOWN_CHARS: Final = 60
"""Characters of the names of columns in a message."""
_USED_TOO: Final = frozenset({
    "metadata", "inputs", "outputs", "retrieved_context_ids", "reference_context_ids",
    "inclusion_probability", "session_id", "user_id", "document_id",
})  # fmt: skip
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


_FIELD_OF: Final = {
    name_key(alias): (name, tier, n)
    for tier, known in reversed(list(enumerate((_MAIN, ROW_SYNONYMS))))
    for name, names in known.items()
    for n, alias in reversed(list(enumerate(names)))
}
"""Field, 1 for a synonym (which counts without a main name), and place of each name."""
_GUESSED: Final = ("query", "contexts", "response", "reference")
_GUESSES_OF: Final = {
    key: tuple(name for name in _GUESSED if key in map(name_key, ROW_GUESSES[name]))
    for names in ROW_GUESSES.values()
    for key in map(name_key, names)
}
"""Fields that a name may mean. The first without a column counts."""
_WEAK: Final = frozenset(
    {"prompt", "input", "inputs", "hits", "retrieved", "searchresults", "context", "documents", "passages"}
)
"""Names that also have another meaning. They are not read if their values cannot be the field."""
_JOINED: Final = ("id", "contexts", "reference")
"""Fields that may have several columns, joined by "+"."""
_IDEAL: Final = ("context", "documents", "passages")
"""Names of passages that may be the ideal ones, if the name of another column says that it was retrieved."""
_LIST_KEYS: Final = {
    key: name
    for name, more in (("contexts", ("contexts", "passage", "document", "doc")), ("reference", ("ground_truth",)))
    for alias in (*FIELD_ALIASES[name], *more)
    for key in (name_key(alias), name_key(alias).removesuffix("s"))
}


_Meanings = dict[str, tuple[str, str, str]]


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
    others: Sequence[tuple[str, str]] = ()
    """Fields that are read from another column than one with their name, and this column."""
    problems: Sequence[tuple[str, str, str]] = ()
    """Columns with the name of a field whose values cannot be it: the column, the field, and what the values are."""
    meanings: Mapping[str, tuple[str, str, str]] = field(default_factory=dict)
    """What `answer` and `context` are, whose meaning depends on the other columns.

    By this name: the column, the field or "", and the column that decides.
    """
    single: Mapping[str, str]
    """The column of each field that has one."""
    several: Mapping[str, tuple[str, ...]]
    """The columns of each field that has several."""


def plan_columns(
    columns: Sequence[str],
    fields: Mapping[str, str],
    position: int,
    *,
    with_app: bool = False,
    meanings: Mapping[str, tuple[str, str, str]] | None = None,
    problem: Callable[..., str] = lambda *_, **__: "",
) -> ColumnPlan:
    """Decide which column is which field."""
    named = {name: _named(name, column, columns, position) for name, column in fields.items()}
    # A column in an id is still the field that its name says.
    taken = {column for name, names in named.items() for column in names if name != "id"}
    known: dict[str, list[tuple[int, int, str]]] = {}
    numbers: dict[str, list[tuple[int, str]]] = {}
    for column in columns:
        if column in taken:
            continue
        if (place := _FIELD_OF.get(name_key(column))) is not None:
            known.setdefault(place[0], []).append((*place[1:], column))
        elif (match := _NUMBERED.fullmatch(column)) and (name := _LIST_KEYS.get(name_key(match[1]))) is not None:
            numbers.setdefault(name, []).append((int(match[2]), column))
    fit = {
        name: [place for place in sorted(places) if _is_fit(problem, name, place[2])] for name, places in known.items()
    }
    found: dict[str, list[str]] = {}
    for name in _ORDER:
        if name in named:
            continue
        has_other = any(guess_field(column) == name for column in columns if name_key(column) not in _FIELD_OF)
        places = fit.get(name) or [
            place
            for place in sorted(known.get(name, ()))
            if not _is_dropped(place[2], problem(place[2], name), has_other=has_other)
        ]
        found[name] = [column for tier, _, column in places if tier == places[0][0]]
    synonyms = {name: [column for tier, _, column in places if tier] for name, places in fit.items()}
    decided: _Meanings = {}
    earlier = dict(meanings or {})
    _split_contexts(found, synonyms.get("contexts", []), decided, earlier)
    has_reference = bool(found.get("reference")) or "reference" in named
    generated = synonyms.get("response", []) if "response" in found else list(named["response"])
    _split_answers(found, generated, decided, earlier, is_correct=False if has_reference else with_app or None)
    numbered = {
        name: tuple(column for _, column in sorted(pairs))
        for name, pairs in numbers.items()
        if name not in named and not found.get(name)
    }
    numbered |= {name: named[name] for name in _LISTS if len(named.get(name, ())) > 1}
    read = {**found, **named}
    names = {name: tuple(read[name]) for name in _ORDER if read.get(name)}
    used = {column for group in (*names.values(), *numbered.values()) for column in group}
    unused = tuple(column for column in columns if column not in used and column not in _USED_TOO)
    named_so = [(name, column) for name in _ORDER for _, _, column in sorted(known.get(name, ()))]
    decided_columns = {column for column, _, _ in decided.values()}
    return ColumnPlan(
        columns=frozenset(columns),
        names=names,
        single={name: columns_[0] for name, columns_ in names.items() if len(columns_) == 1},
        several={name: columns_ for name, columns_ in names.items() if len(columns_) > 1 and name not in numbered},
        numbered=numbered,
        given=frozenset(named),
        unused=unused,
        others=[
            (name, column)
            for name, column in named_so
            if name in _GUESSED and name in names and column in unused and column not in decided_columns
            if not problem(column, name)
        ],
        problems=[
            (column, name, why)
            for name, column in named_so
            if (column in unused or column in found.get(name, ()))
            and (why := problem(column, name, is_guess=name_key(column) in _LABELED))
        ],
        meanings=decided,
    )


def _named(name: str, column: str, columns: Sequence[str], position: int) -> tuple[str, ...]:
    """Return the columns that the user named for a field. Rows of JSON may lack one that is not a part of an id."""
    wanted = [column] if column in columns or "+" not in column else column.split("+")
    found: list[str] = []
    if len(wanted) > 1 and name not in _JOINED:
        raise DataError(f"{column!r} was named for {name!r}, which has one column. Several can be {', '.join(_JOINED)}")
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
    n = max(1, sum(width <= _SHOWN_CHARS for width in accumulate(len(name) + 2 for name in quoted)))
    return ", ".join(quoted[:n]) + (f" and {len(quoted) - n} more" if len(quoted) > n else "")


def _is_fit(problem: Callable[..., str], name: str, column: str) -> bool:
    why = problem(column, name)
    return not why or (why.startswith("the same") and name_key(column) not in _WEAK)


def _is_dropped(column: str, problem: str, *, has_other: bool) -> bool:
    """Return whether a column is not read although no other one has the name of its field. `has_other`: one may be it."""
    key = name_key(column)
    if problem.startswith("codes"):
        return has_other
    if problem.startswith(("places", "passages", "turns", "one number", "ids of passages")):
        return True
    if problem.startswith(("a few words", "nearly", "the same")) and _FIELD_OF[key][0] == "contexts":
        return False
    if problem.startswith("URLs"):
        return key == "references" or _FIELD_OF[key][0] == "contexts"
    return key in _WEAK or (key in _LABELED and problem.startswith("labels"))


def _split_contexts(found: dict[str, list[str]], synonyms: list[str], decided: _Meanings, meanings: _Meanings) -> None:
    """Leave `context` out, which may be the ideal passages, if another column has the retrieved ones."""
    columns = found.get("contexts", [])
    by_key = {name_key(column): column for column in columns}
    if (ideal := next((by_key[key] for key in _IDEAL if key in by_key), None)) is None:
        return
    others = synonyms
    if not synonyms or not by_key.keys() <= {*_IDEAL}:
        others = [column for column in columns if column != ideal and "context" in by_key]
    if others or meanings.get("context", ("", "contexts", ""))[1] == "":
        found["contexts"] = others
        decided["context"] = (ideal, "", others[0] if others else "")
    else:
        decided["context"] = (ideal, "contexts", "")


def _split_answers(
    found: dict[str, list[str]],
    generated: list[str],
    decided: _Meanings,
    meanings: _Meanings,
    *,
    is_correct: bool | None,
) -> None:
    """Decide whether `answer` is the response, the correct answer, or neither, next to other columns.

    The name of a column in `generated` says that a model wrote the text, or the user named it as the response.
    `is_correct` is False if another column is the correct answer, and True if the application answers.
    """
    columns = found.get("response", [])
    others = [column for column in columns if name_key(column) not in _WEAK_RESPONSES]
    if not others and generated and "response" in found:
        found["response"] = [*generated]
    if (answer := next((column for column in columns if name_key(column) == "answer"), None)) is None:
        return
    others += generated
    if is_correct is not False and (is_correct or others or meanings.get("answer", ("", "", ""))[1] == "reference"):
        found["reference"] = [answer]
        found["response"] = [column for column in found["response"] if column != answer]
        decided["answer"] = (answer, "reference", others[0] if others else "")
    elif is_correct is False and generated:
        decided["answer"] = (answer, "", generated[0])
    else:
        decided["answer"] = (answer, "response", "")


def path_of_text(value: object, path: str, field: str, item: str = ".0") -> str:
    """Return the path of the text in nested objects that is most likely a field, or "" without a text.

    `path` is the column of the value, and `field` "response", "query", "reference" or "contexts". `item` is how a path
    goes into a list: ".0" takes the first item, and "[]" takes all.
    """
    answers = FIELD_ALIASES["response"] if field == "reference" else ("message", "output_text")
    names = {*map(name_key, (*FIELD_ALIASES[field], *field_names("text", "row"), *answers))}

    def rank(found: tuple[str, str]) -> tuple[bool, bool, bool, int]:
        *outer, name = found[0].removeprefix(path).split(".")
        is_other = field != "contexts" and (
            _LIST_KEYS.get(name_key(name)) == "contexts"
            or any(name_key(step) in _PASSAGES or known_field(step) == "contexts" for step in outer)
        )
        return (
            not is_other,
            name_key(name) in names,
            not words_of(name) & {*_OTHER_WORDS, *SETTING_NAMES, "status", "role", "object"},
            len(found[1]),
        )

    return max(_texts_in(value, path, item), key=rank, default=("", ""))[0]


def _texts_in(value: object, path: str, item: str, depth: int = 0) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, Mapping) and depth < _MAX_DEPTH:
        for key, inner in value.items():
            yield from _texts_in(inner, f"{path}.{key}", item, depth + 1)
    elif isinstance(value, list | tuple) and value and depth < _MAX_DEPTH:
        for n, inner in enumerate(value[: 1 if item == "[]" else _MAX_ITEMS]):
            yield from _texts_in(inner, f"{path}{item if item == '[]' else f'.{n}'}", item, depth + 1)


def guess_field(column: str, read: Collection[str] = (), *, is_nested: bool = False) -> str | None:
    """Return the field that a column, or a value at a path, may be by its name, or None. A correct answer is not a response."""
    steps = [step for step in column.replace("[]", "").split(".") if step and not step.isdecimal()] or [column]
    while len(steps) > 1 and name_key(steps[-1]) in _CARRIERS:
        steps.pop()
    key, words = name_key(steps[-1]), words_of(steps[-1])
    if key.startswith("__") or ALL_REQUIRED.fullmatch(key) or words & WRONG:
        return None
    if (is_nested or "." in column) and (known := _FIELD_OF.get(key)) is not None:
        name = known[0] if known[0] in _GUESSED else None
    elif names := _GUESSES_OF.get(key):
        name = next((name for name in names if name not in read), names[0])
    else:
        name = None if words & _OTHER_WORDS else next((name for name, known in _WORDS if words & known), None)
    is_expected = any(_FIELD_OF.get(name_key(step), ("",))[0] == "reference" for step in steps)
    is_correct = is_expected or is_gold(column) or (words & _GOLD_ANSWER and not words & _MODELS)
    return "reference" if name == "response" and is_correct else name


def known_field(name: str) -> str | None:
    """Return the field that a column is by its name, or None."""
    return _FIELD_OF.get(name_key(name), (None,))[0]


def is_gold(column: str) -> bool:
    """Return whether a name, or one of the objects around a value, says that it is correct."""
    return not _GOLD.isdisjoint(words_of(column))


def words_of(name: str) -> set[str]:
    """Return the words in a name, in lower case."""
    return {part.casefold() for part in (_PARTS.findall(name) if name.isascii() else _SIGNS.split(name))}
