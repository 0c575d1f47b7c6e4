"""What the values of the first rows show: which fields a column cannot be."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from itertools import chain, islice, pairwise
from typing import Any, Final

from ragstone.errors import DataError
from ragstone.reading._cells import MISSING_TEXTS, begins_like_list, parse_cell
from ragstone.reading._columns import (
    FIELD_ALIASES,
    WRONG,
    ColumnPlan,
    guess_field,
    is_gold,
    known_field,
    name_key,
    path_of_text,
    words_of,
)
from ragstone.reading._messages import are_messages
from ragstone.reading._report import field_option
from ragstone.reading._row_lists import KNOWN_NAMES
from ragstone.reading._row_values import finite, is_missing, json_value, read_passages, to_plain, walk

FIRST_ROWS: Final = 50
_FIRST_CHARS: Final = 2**22
"""Characters of the first rows, after which no more of them are kept."""
_MAX_TEXT: Final = 2000
_FEW: Final = 3
"""Rows with the same text that are not a coincidence."""
_LABELS: Final = "labels"
_WEAK_LABELS: Final = "labels (yes, no, letters)"
_NUMBERS: Final = "numbers"
_SAME: Final = "the same text in all rows"
_ADDRESSES: Final = "URLs or file names"
PLACES: Final = "places in files"
_PASSAGE_IDS: Final = "places of passages (ids)"
_IDS_OF_PASSAGES: Final = "ids of passages, without their texts"
_ID_TEXT: Final = re.compile(r"(?=\S*\d)[A-Za-z0-9]++(?:[-_:#/][A-Za-z0-9]++)++")
_CODES: Final = "codes with one beginning"
_CODE: Final = re.compile(r"([A-Za-z]{1,9})[-_:#/]?\d{1,9}")
_CHOICES: Final = frozenset({"choices", "options"})
_PLACES_OF_CHOICES: Final = "places in a list of choices"
_ONE_NUMBER: Final = "one number in all rows"
PROMPTS: Final = "prompts with passages in them"
_PROMPT: Final = re.compile(
    r"</?(?:context|document|passage|source)s?\b|^[\W_]{0,9}(?:\w{1,12} ){0,2}(?:context|document|passage|source|kontext|contexto)"
    r"s?(?: \w{1,12}){0,3}\W{0,3}:"
    r"|\b(?:following|these|given|provided|retrieved) (?:\w{1,12} ){0,2}(?:context|document|passage|source|excerpt)s?:?[ \t]{0,3}$"
    r"|^\[1\] .{1,1500}\n\s{0,9}\[2\] ",
    re.IGNORECASE | re.MULTILINE,
)
"""A tag, a heading, or the end of an instruction before passages in a prompt, or two passages with numbers."""
_TITLES: Final = "a few words each, perhaps titles"
_TEMPLATE: Final = "nearly the same text in all rows"
PROMPTFOO: Final = "outputs of promptfoo"
PASSAGES: Final = "passages with their sources"
_TURNS: Final = "turns of a conversation"
_SPEAKER: Final = re.compile(r"(user|human|customer|assistant|ai|bot|agent) ?:", re.IGNORECASE)
"""Beginning of a turn in a text."""
JSON: Final = "JSON texts"
MESSAGES: Final = "messages"
_NEVER: Final = frozenset({_PLACES_OF_CHOICES, _LABELS, PROMPTFOO, _ADDRESSES, PLACES, _ONE_NUMBER, "times", "ids"})
_WRONG_KINDS: Final[Mapping[str, frozenset[str]]] = {
    "query": _NEVER | {PROMPTS, _NUMBERS, _CODES},
    "response": _NEVER,
    "reference": _NEVER | {_PASSAGE_IDS, _CODES},
    "contexts": _NEVER | {_TITLES, _TEMPLATE, _TURNS, _NUMBERS},
}
"""What the values of a field cannot be. The same text in all rows depends on the field."""
_SPEAKERS: Final = frozenset({"speaker", "role", "from", "sender", "user"})
_QUERIES: Final = frozenset(map(name_key, FIELD_ALIASES["query"]))
ALIASES: Final = frozenset({"alias", "aliases"})
"""Words in the name of other correct answers than the one in another column."""
_NESTED_DEPTH: Final = 5
_NESTED_PARTS: Final = 50
"""Keys of an object of a row that a report names."""
_NESTED_ITEMS: Final = 3
_WORDS_OF_TITLE: Final = 5
_FEW_WORDS_OF_CONTEXT: Final = 25
"""Words of a text in all rows that is about the user or the session."""
_RETRIEVAL: Final = frozenset({"retrieval", "retrieved", "retriever", "reranked", "hits"})
_ID_WORDS: Final = frozenset({"id", "uuid", "request", "trace", "correlation", "session", "run", "thread", "turn"})
_SYSTEMS: Final = frozenset({"model", "modelid", "modelname", "system", "provider", "bot", "llm"})
"""Keys of an answer that name the system which wrote it."""
_SOURCES: Final = frozenset(
    {"title", "url", "source", "id", "docid", "documentid", "chunkid", "score", "similarity", "documentname"}
)
"""Keys of a passage that say where it was found."""
_CONVERSATIONS: Final = frozenset({"query", "messages", "history"})
_LAST_NUMBER: Final = re.compile(r"\d{1,4}(?=\D*\Z)")
_VERSIONS: Final = frozenset({"v", "ver", "version", "run", "iter", "round", "attempt", "model", "system", "variant"})
"""Words before the number of an alternative."""
_REWORDED: Final = frozenset(
    {"original", "rewritten", "rewrite", "standalone", "condensed", "reformulated", "expanded"}
)
_PROMPTFOO_REMEDY: Final = "Write them as JSON, which is read: promptfoo eval -o results.json"
_LAST: Final = frozenset(
    {"reranked", "after", "final", "used", "selected", "filtered", "kept", "original", "user", "revised", "new"}
)
_FIRST: Final = frozenset({"before", "initial", "raw", "candidate", "candidates", "rewritten", "draft", "old"})
"""Words in the names of passages and questions that the model got, and of those that it did not get."""
_SUFFIXES: Final = r"\.(?:pdf|md|txt|html?|docx?|pptx?|xlsx?|csv|jsonl?|rst)"
_PLACE: Final = (
    rf"(?:\S+ ){{0,2}}\S*{_SUFFIXES}(?:#\S+|[\s,;:(\[#]{{1,4}}(?:(?:pp?|pages?|seiten?|s|lines?|sec|section|slide)\b[.:=]?\s?)?+"
    "[\\d.,\\s\N{EN DASH}-]{1,12}[)\\]]?)"
)
_KINDS: Final = (
    (_LABELS, r"true|false|pass(?:ed)?|fail(?:ed)?|(?:in)?correct|wrong|good|bad|(?:ir)?relevant|(?:un)?supported"),
    (_WEAK_LABELS, r"yes|no|[yna-f]"),
    (_NUMBERS, r"[+-]?+(?:\d++\.?+\d*+|\.\d++)(?:e[+-]?+\d++)?+"),
    ("times", r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d[\d:.+Z-]*+"),
    ("ids", r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}|(?=\S*\d)[0-9a-f]{32,64}"),
    (_ADDRESSES, r"(?:https?|s3|gs|file)://\S++"),
    (_ADDRESSES, rf"(?:\S+ ){{0,2}}\S*{_SUFFIXES}"),
    (PLACES, _PLACE),
    (PLACES, r"[^.?!\n]{1,60}[,(] ?(?:pp?|pages?|seiten?)\.? ?\d{1,4}(?:-\d{1,4})?\)?"),
    (_PASSAGE_IDS, r"(?:docs?|document|chunk|passage|node|page)[-_:#/]\d{1,8}"),
)
_PATTERNS: Final = tuple((kind, re.compile(pattern, re.IGNORECASE)) for kind, pattern in _KINDS)


class FirstRows:
    """The first rows of a dataset, with what is nested under `inputs` and `outputs` lifted."""

    def __init__(self, rows: Sequence[Mapping[str, Any]] = ()) -> None:
        self._rows = rows
        self._kinds: dict[str, str] = {}

    def values(self, column: str) -> list[Any]:
        """Return the values of a column, or at a path, without the missing ones."""
        return [value for value in (_value(row, column) for row in self._rows) if not _is_empty(value)]

    def kind(self, column: str) -> str:
        """Return what all values of a column are, such as "labels" or "messages", or "" for texts and mixed values."""
        if (kind := self._kinds.get(column)) is None:
            kind = self._kinds[column] = self._kind(self.values(column))
        return kind

    def problem(self, column: str, field: str, *, is_guess: bool = False) -> str:
        """Return why the values of a column, or at a path, cannot be a field, or "".

        If the name has several meanings, numbers and few different words are not a text either.
        """
        kind = self.kind(column)
        if field == "query" and name_key(column) == "input" and self._rows:
            task = next((name for name in self._rows[0] if name_key(name) == "instruction"), "")
            if task and not self.problem(task, "query", is_guess=True):
                return f"next to {task}, and may be passages ({field_option('contexts', column)})"
        if field not in _WRONG_KINDS:
            return ""
        is_wrong = kind in _WRONG_KINDS[field] or (is_guess and kind in (_NUMBERS, _WEAK_LABELS))
        if kind == _SAME:
            is_about_user = field == "contexts" and len(str(self.values(column)[0]).split()) <= _FEW_WORDS_OF_CONTEXT
            is_wrong = is_about_user or field in ("query", "response") or (field == "reference" and is_guess)
        texts = [text for value in self.values(column) for text in _strings(value)] if field == "contexts" else []
        if texts and all(map(_ID_TEXT.fullmatch, texts)):
            return _IDS_OF_PASSAGES
        if is_wrong:
            return kind + (f" in the first {FIRST_ROWS} rows" if len(self._rows) == FIRST_ROWS else "")
        if is_guess and self._has_few(column):
            return "few different words"
        if kind != "objects" or field not in ("contexts", "reference"):
            return ""
        is_passages = any(map(_texts_of, self.values(column)))
        if field == "contexts":
            return "" if is_passages else "objects without a text"
        return PASSAGES if is_passages and self.have_key(column, _SOURCES) else ""

    def have_key(self, column: str, keys: frozenset[str]) -> bool:
        """Return whether all objects in the lists of a column have one of some keys."""
        items = [item for value in self.values(column) for item in _objects_in(value)]
        return bool(items) and all(not keys.isdisjoint(map(name_key, item)) for item in items)

    def has_passages(self, column: str) -> bool:
        """Return whether the values of a column are lists of objects with texts, except questions."""
        values = self.values(column)
        items = [item for value in values if isinstance(value, list) for item in value]
        are_hits = all(isinstance(i, Mapping) and not is_question(i) and _SPEAKERS.isdisjoint(i) for i in items)
        return bool(values) and are_hits and all(isinstance(value, list) and _texts_of(value) for value in values)

    def has_questions(self, column: str) -> bool:
        """Return whether the values of a column are lists of questions."""
        items = [item for value in self.values(column) if isinstance(value, list) for item in value]
        are_objects = all(isinstance(item, Mapping) and is_question(item) for item in items)
        return bool(items) and (are_objects or "questions" in words_of(column))

    def has_answers(self, column: str) -> bool:
        """Return whether JSON texts contain an answer, so that they are not only a question."""
        inner = json_value(self.values(column)[0])
        return isinstance(inner, Mapping) and any(guess_field(str(key), is_nested=True) == "response" for key in inner)

    def split_requests(self) -> str | None:
        """Return the column with the id of a request, if no row has both its question and its answer: "" without such a column."""
        rows = [{known_field(name): value for name, value in row.items() if not _is_empty(value)} for row in self._rows]
        has_both = any("query" in row and "response" in row for row in rows)
        if has_both or not all(any(name in row for row in rows) for name in ("query", "response")):
            return None
        for column in self._rows[0]:
            if not words_of(column).isdisjoint(_ID_WORDS):
                ids = [str(row.get(column)) for row in self._rows]
                asked = {(id_, str(row["query"])) for id_, row in zip(ids, rows, strict=True) if "query" in row}
                answered = {id_ for id_, row in zip(ids, rows, strict=True) if "response" in row}
                if len({id_ for id_, _ in asked}) == len(asked) and any(id_ in answered for id_, _ in asked):
                    return column
        return ""

    def has_text_lists(self, column: str) -> bool:
        """Return whether the values of a column are lists of texts of several words."""
        values = self.values(column)
        return any(values) and all(
            isinstance(v, list) and all(" " in text for text in _strings(v) or ("",)) for v in values
        )

    def has_gaps(self, column: str) -> bool:
        """Return whether some of the rows do not have a value in a column."""
        return len(self.values(column)) < len(self._rows)

    def overlap(self, columns: Sequence[str]) -> bool:
        """Return whether a column has a part of the text of the next one in a row."""
        rows = [[str(row.get(column) or "") for column in columns] for row in self._rows]
        return any(one and (one in two or two in one) for cells in rows for one, two in pairwise(cells) if two)

    def versions(self, column: str, field: str, others: Iterable[str]) -> Iterator[tuple[str, str]]:
        """Yield columns with passages of another one, fewer or in another order, or with its question in other words."""
        parts, smaller = (_words, max) if field == "query" else (_texts_of, min)
        own = [parts(_value(row, column)) for row in self._rows]
        for other in others:
            pairs = [
                pair for pair in zip(own, [parts(_value(row, other)) for row in self._rows], strict=True) if all(pair)
            ]
            is_same = all(2 * len({*one} & {*two}) >= smaller(len({*one}), len({*two})) for one, two in pairs)
            is_named = field == "query" and not words_of(other).isdisjoint(_REWORDED)
            if pairs and (is_same or is_named) and any(one != two for one, two in pairs) and not is_gold(other):
                what = "another wording of" if field == "query" else "passages of"
                which = "If the user asked it" if field == "query" else "If the model got these"
                yield other, f"{other}: {what} {column}, not read. {which}: {field_option(field, other)}"

    def most_texts(self, column: str) -> int:
        """Return the length of the longest list in a column of lists of texts, or 0."""
        lists = [value for value in self.values(column) if isinstance(value, list) and _strings(value)]
        return max(map(len, lists), default=0)

    def has_questions_in(self, column: str) -> bool:
        """Return whether at least half of the values of a column are texts with a question mark."""
        values = self.values(column)
        return 2 * sum("?" in text for value in values for text in _strings(value)) >= max(len(values), 1)

    def has_texts(self, column: str) -> bool:
        """Return whether the values of a column are texts of several words."""
        values = self.values(column)
        return all(isinstance(value, str) for value in values) and any(" " in value for value in values)

    def _kind(self, values: list[Any]) -> str:
        kinds = {_kind(value) for value in values}
        if kinds == {_WEAK_LABELS} and len(values) == 1:  # one letter can be an answer
            return ""
        if len(kinds) != 1:
            return _LABELS if _LABELS in kinds and kinds <= {_LABELS, _WEAK_LABELS, _NUMBERS} else ""
        (kind,) = kinds
        if kind in (_NUMBERS, _WEAK_LABELS) and self._has_choices():
            return _PLACES_OF_CHOICES
        if kind == _NUMBERS and len(values) > 1 and {finite(str(value)) for value in values} <= {0.0, 1.0}:
            return _LABELS
        if kind == _NUMBERS and len(values) >= _FEW and len({str(value).strip() for value in values}) == 1:
            # Rows of one question can share their answer.
            questions = {str(row[name]) for row in self._rows for name in row if known_field(name) == "query"}
            return "" if len(questions) == 1 else _ONE_NUMBER
        if kind == "" and isinstance(values[0], str):
            if len({str(value).strip() for value in values}) == 1 and len(values) >= _FEW:
                return _SAME
            ids = [name for name in self._rows[0] if name_key(name) in map(name_key, FIELD_ALIASES["id"])]
            if len(values) > 1 and any(values == self.values(name) for name in ids):
                return "ids"
            codes = [match[1] if (match := _CODE.fullmatch(str(value).strip())) else str(value) for value in values]
            if len(values) >= _FEW and len({*codes}) == 1:
                return _CODES
        if kind == "" and self._are_turns([_strings(value) for value in values]):
            return _TURNS
        return _unlike_passages(values) if kind == "" else kind

    def _has_choices(self) -> bool:
        """Return whether the rows have a list of answers to choose from."""
        return any(
            name_key(n) in _CHOICES and isinstance(to_plain(v), list) for row in self._rows for n, v in row.items()
        )

    def _are_turns(self, talks: list[list[str]]) -> bool:
        """Return whether texts are the messages before a question: questions and answers, or lines of two speakers."""
        asked = {text for row in self._rows for name in row if is_question({name: 0}) for text in _strings(row[name])}
        questions = [text for texts in talks for text in texts[::2] if len(texts) > 1]
        if questions and 2 * sum(text in asked for text in questions) >= len(questions):
            return True
        if all(texts and len(texts) % 2 == 0 for texts in talks):
            ends = [[text.rstrip()[-1:] == "?" for text in texts[n::2]] for texts in talks for n in (0, 1)]
            return all(map(all, ends[::2])) and not any(map(any, ends[1::2]))
        lines = [line for texts in talks for text in texts for line in text.splitlines()]
        names = [match[1].casefold() if (match := _SPEAKER.match(line)) else "" for line in lines]
        return all(names) and len({*names}) > 1

    def _has_few(self, column: str) -> bool:
        texts = [text for value in self.values(column) for text in _strings(value)]
        return len(texts) > _FEW and 2 * len({*texts}) <= len(texts) and all(len(text.split()) <= 2 for text in texts)


def text_key(value: Mapping[str, Any], keys: Sequence[str]) -> str | None:
    """Return the key of the text in an object: one of some names, or the only text."""
    texts = [str(key) for key in (*keys, *value) if isinstance(value.get(key), str)]
    if texts and texts[0] not in keys and any(isinstance(inner, Mapping | list) and inner for inner in value.values()):
        return None  # what describes an answer that is deeper
    return texts[0] if texts and (texts[0] in keys or len(texts) == 1) else None


def propose(
    flat: Mapping[str, Any], plan: ColumnPlan, first: FirstRows
) -> tuple[list[tuple[str, str, str]], list[str], list[str]]:
    """Return columns and paths that may be fields, with what their values are; parts of fields; and notes.

    A column is proposed for one field. A correct answer is not proposed as a response, nor ideal passages as contexts.
    """
    paths = dict(chain(((column, False) for column in plan.unused), _paths(flat, plan)))
    read = {*plan.names, *plan.numbered}
    columns = plan.names.get("contexts", ())
    if columns and all(first.problem(column, "contexts") for column in columns):
        read.remove("contexts")
    found, notes = _numbered(plan.unused, read, first)
    seen = {part for _, joined, _ in found for part in joined.split("+")} | {*notes}
    for path in paths:
        kind = first.kind(path)
        if kind == PROMPTFOO:
            notes[path] = f"cells that begin with [PASS] or [FAIL]: outputs of promptfoo. {_PROMPTFOO_REMEDY}"
        if isinstance(value := flat.get(path), Mapping | list) and guess_field(path, read) == "response":
            inner = path_of_text(value, path, "response") if "response" not in read else ""
            if ".0." in inner and kind != MESSAGES and not first.has_passages(path):
                is_one = all(len(item) < 2 for item in first.values(path) if isinstance(item, list))
                found.append(("response", inner, "" if is_one else "the first of several"))
        if (
            isinstance(flat.get(path), Mapping)
            or not any(paths_in(flat.get(path, path), path))
            or not seen.isdisjoint((path, path.rpartition("[]")[0], path.rpartition(".")[0]))
        ):
            continue
        field = None if words_of(path) & ALIASES else guess_field(path, read | {name for name, _, _ in found})
        what = kind if kind in (MESSAGES, JSON) else ""
        outer = [guess_field(step, is_nested=True) for step in path.split(".")[:-1]]
        if field == "query" and name_key(path) == "title" and not first.has_questions_in(path):
            continue
        if field == "response" and outer and name_key(path.rpartition(".")[2]) == "answer" and field not in outer:
            # Next to its question, as sets of questions have it, and records of applications as well.
            field, what = "reference", "or response, if a model wrote it"
        if kind == JSON and (field != "query" or first.has_answers(path)):
            continue  # the options name values in it
        if kind == MESSAGES and field != "response":
            field = "messages" if read.isdisjoint(_CONVERSATIONS) else None
        elif (field is None or (field == "response" and path in flat)) and first.has_passages(path):
            field = None if path.endswith("parts[]") or words_of(path) & WRONG else "contexts"
        elif field is None and words_of(path) & _RETRIEVAL and first.has_text_lists(path):
            field = "contexts"
        if field == "reference" and first.have_key(outer_list := path.partition("[]")[0], _SYSTEMS):
            key = f".[{json.dumps(outer_list)}]"
            command = f"jq -c '(arrays[], objects) | {key}[] + del({key})' FILE > NEW.jsonl"
            notes[outer_list] = f"{outer_list}: answers of several systems, not read. Write a row for each: {command}"
            continue
        if field == "response" and "[]" not in path and (n := first.most_texts(path)):
            path, what = f"{path}.0", "the first of several" if n > 1 else ""  # noqa: PLW2901
        is_list = "[]" in path and field in ("query", "response")
        if field is None or field in read or is_list or (kind == "objects" and field != "contexts"):
            continue
        if field == "contexts" and is_gold(path) and path.partition(".")[0] not in {c for c, _, _ in plan.problems}:
            notes[path] = f"{path}: ideal passages, not read as contexts; otherwise: {field_option('contexts', path)}"
            continue
        if field == "contexts" and kind == "objects" and not first.has_passages(path):
            path = path_of_text(first.values(path)[0], path, "contexts", "[]")  # noqa: PLW2901
        # Numbers may be answers, under the name of one.
        is_guess = "." not in path or name_key(path.rpartition(".")[2]) not in KNOWN_NAMES
        if path and path not in seen and not first.problem(path, field, is_guess=is_guess):
            seen.add(path)
            found.append((field, path, what))
    for name in ("query", "contexts"):
        for column in plan.names.get(name, ()):
            notes |= {path: note for path, note in first.versions(column, name, paths) if path not in notes}
    found.sort(key=lambda item: (not words_of(item[1]) & _LAST) + bool(words_of(item[1]) & _FIRST))
    return found, [path for path, is_part in paths.items() if is_part], [*dict.fromkeys(notes.values())]


def _numbered(
    unused: Sequence[str], read: set[str], first: FirstRows
) -> tuple[list[tuple[str, str, str]], dict[str, str]]:
    """Return numbered columns that may be one list, and a note for each that is an alternative of another."""
    groups: dict[tuple[str | None, str], list[str]] = {}
    for column in unused:
        if (number := _LAST_NUMBER.search(column)) is not None:
            stem = column[: number.start()] + column[number.end() :]
            field = guess_field(stem, read) or guess_field(f"{stem.strip()}s", read)
            groups.setdefault((field, stem), []).append(column)
    found: list[tuple[str, str, str]] = []
    notes: dict[str, str] = {}
    for (field, stem), columns in groups.items():
        if len(columns) < 2 or field not in ("contexts", "reference", "response"):
            continue
        if field == "response" and field in read and "reference" not in read:
            found.append(("reference", "+".join(columns), "if they are correct answers"))
            continue
        if field in read or any(first.problem(column, field) for column in columns):
            continue
        if field == "response":
            if not any(first.has_gaps(column) for column in columns):
                remedies = [field_option("reference", *columns), field_option(field, columns[0])]
                note = f"{', '.join(columns)}: several answers, not read. If all are correct: {remedies[0]}; if each is"
                notes |= dict.fromkeys(columns, f"{note} of another system: {remedies[1]}")
                continue
            field = "reference"  # noqa: PLW2901 - each row has another number of correct answers
        if words_of(stem) & _VERSIONS or (field == "contexts" and first.overlap(columns)):
            remedy = f"To read one: {field_option(field, columns[0])}"
            notes |= dict.fromkeys(columns, f"{', '.join(columns)}: alternatives, not read as {field}. {remedy}")
        else:
            found.append((field, "+".join(columns), ""))
    return found, notes


def _paths(flat: Mapping[str, Any], plan: ColumnPlan) -> Iterator[tuple[str, bool]]:
    """Yield the path of each key of an object in a row, and whether the object is a field."""
    columns = {column: field for field in ("query", "response", "reference") for column in plan.names.get(field, ())}
    for outer in dict.fromkeys((*columns, "metadata", *plan.unused)):
        inner, field = flat.get(outer), columns.get(outer)
        inner = json_value(inner) if isinstance(inner, str) and inner[:1] == "{" else inner
        read = text_key(inner, FIELD_ALIASES[field]) if field and isinstance(inner, Mapping) else None
        for path in islice(paths_in(inner, outer, has_lists=True), _NESTED_PARTS):
            if path not in (outer, f"{outer}.{read}"):
                yield path, field is not None


def paths_in(value: Any, path: str, depth: int = 0, *, has_lists: bool = False) -> Iterator[str]:
    """Yield the path of each value in nested objects, and in lists of objects, except lists of questions."""
    if isinstance(value, Mapping) and depth <= _NESTED_DEPTH:
        for key, inner in value.items():
            yield from paths_in(inner, f"{path}.{key}", depth + 1, has_lists=has_lists)
        return
    is_list = has_lists and isinstance(value, list)
    # An array of a Parquet file or a frame can be empty too.
    if value is not None and not (isinstance(value, Sized) and len(value) == 0):
        yield f"{path}[]" if is_list and "[]" in path else path
    for item in islice(value, _NESTED_ITEMS) if is_list and depth <= _NESTED_DEPTH else ():
        if isinstance(item, Mapping) and not is_question(item):
            yield from paths_in(item, f"{path}[]", depth + 1, has_lists=True)


def is_question(item: Mapping[str, Any]) -> bool:
    """Return whether an object in a list is a question of its own."""
    return not _QUERIES.isdisjoint(map(name_key, item))


def first_of(rows: Iterable[tuple[int, Any]]) -> list[tuple[int, Any]]:
    """Return the first rows of an iterator, with their positions."""
    first: list[tuple[int, Any]] = []
    n_chars = 0
    for item in rows:
        first.append(item)
        n_chars += len(repr(item))
        if len(first) >= FIRST_ROWS or n_chars > _FIRST_CHARS:
            break
    return first


def _is_empty(value: Any) -> bool:
    if isinstance(value, str):
        return not value.strip() or value.strip() in MISSING_TEXTS
    return is_missing(value) or (isinstance(value, list | tuple | Mapping) and not value)


def _texts_of(value: Any) -> list[str]:
    """Return the texts of passages, or nothing if the value cannot be read as passages."""
    try:
        items = parse_cell(value) if isinstance(value, str) and begins_like_list(value) else value
        return [passage["text"] for passage in read_passages(items if isinstance(items, list | tuple) else [items], 1)]
    except DataError:
        return []


def _words(value: Any) -> list[str]:
    """Return the words of a text of several."""
    words = value.casefold().split() if isinstance(value, str) else []
    return words if len(words) >= _FEW else []


def _value(row: Mapping[str, Any], path: str) -> Any:
    return to_plain(row[path] if path in row else walk(row, path))


def _strings(value: Any) -> list[str]:
    """Return the text of a value, or the texts of a list of texts."""
    items = value if isinstance(value, list | tuple) else [value]
    return [*items] if all(isinstance(item, str) for item in items) else []


def _objects_in(value: Any) -> list[Mapping[str, Any]]:
    """Return the objects in a list, or in a list of an object."""
    if isinstance(value, Mapping):
        return next(
            (found for inner in value.values() if isinstance(inner, list) and (found := _objects_in(inner))), []
        )
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


def _unlike_passages(values: list[Any]) -> str:
    """Return why texts are not passages: they are titles, or about the user and not about the question."""
    groups = [_strings(value) for value in values]
    words = [text.split() for group in groups for text in group]
    if len(groups) < _FEW or not all(groups) or not all(words):
        return ""
    common = set.intersection(*map(set, words))
    is_short = all(isinstance(value, str) for value in values) and len(max(words, key=len)) <= _FEW_WORDS_OF_CONTEXT
    if is_short and all(2 * len(common) >= len(text) for text in words):
        return _TEMPLATE
    is_title = all(len(text) <= _WORDS_OF_TITLE and text[0][0].isupper() and text[-1][-1].isalnum() for text in words)
    return _TITLES if is_title else ""


def _kind(value: Any) -> str:
    """Return what one value is, or "" for a text."""
    if isinstance(value, str):
        text = value.strip()
        if text.startswith(("[PASS]", "[FAIL]", "[ERROR]")):
            return PROMPTFOO
        if "\n" in text and _PROMPT.search(text[:_MAX_TEXT]) is not None:
            return PROMPTS
        if len(text) > _MAX_TEXT:
            return ""
        if text.startswith("[") and begins_like_list(text):
            try:
                return _kind(parse_cell(text))
            except DataError:
                return ""
        if text[:1] in ("{", '"') and json_value(text) is not None:
            return JSON
        return next((kind for kind, pattern in _PATTERNS if pattern.fullmatch(text)), "")
    if isinstance(value, bool | int | float):
        return _LABELS if isinstance(value, bool) else _NUMBERS
    if isinstance(value, list | tuple):
        kinds = {MESSAGES} if are_messages(value) else {_kind(item) for item in value}
        return kinds.pop() if len(kinds) == 1 else ""
    return "objects" if isinstance(value, Mapping) else ""
