"""Rows of datasets with any common field names, read as samples."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, Final

from pydantic import ValidationError

from ragstone._util.quantities import text_of
from ragstone.errors import DataError
from ragstone.reading._cells import MISSING_TEXTS, begins_like_list, parse_cell
from ragstone.reading._columns import (
    ALL_REQUIRED,
    FIELD_ALIASES,
    ColumnPlan,
    guess_field,
    is_gold,
    name_key,
    path_of_text,
    plan_columns,
    shorten_names,
    words_of,
)
from ragstone.reading._evidence import (
    ALIASES,
    JSON,
    PASSAGES,
    PROMPTS,
    FirstRows,
    first_of,
    paths_in,
    propose,
    text_key,
)
from ragstone.reading._messages import Conversation, are_messages, read_content, read_conversation
from ragstone.reading._report import ReadingReport, field_option
from ragstone.reading._row_values import (
    finite,
    is_missing,
    json_value,
    new_file,
    read_passages,
    shorten,
    to_plain,
    walk,
)
from ragstone.requests import finite_number, message_body
from ragstone.schema import Sample, derive_id, message_role

_NO_MESSAGES: Final = Conversation(query=None, history=(), response=None, contexts=None)
_EXPECTED_KEYS: Final = (*FIELD_ALIASES["reference"], "answer", "output", "response", "text")
_TEXT_FIELDS: Final = frozenset({"id", "query", "response", "reference", "contexts"})
_TALKS: Final = ("messages", "history")
_SHOWN: Final = ("query", "response", "contexts", "reference")
_SPLIT_FIELDS: Final = ("contexts", "reference", "sub_questions")
"""Fields that a separator makes several of one text."""
_GIVEN_SEPARATORS: Final = re.compile(rf"(?:\A|,)({'|'.join(_SPLIT_FIELDS)})=")
_ID_TEXT: Final = re.compile(r"(?=\S*\d)[A-Za-z0-9]++(?:[-_:#/][A-Za-z0-9]++)++")
_SIGNS: Final = re.compile(r'[\n"|/#<\[;,]')
"""What a text of several references contains, as `_sign` and `_quoted_parts` have it."""
_RULE: Final = re.compile(r"\n([-=*#~_]{3,20})\n")
"""A line of signs between passages."""
_ENDED: Final = re.compile(r"[.!?]; ?\S")
"""A semicolon after a sentence, which does not belong to one."""
_ASSERTION: Final = re.compile(
    r"\s*+(?:not-)?(?:i?contains(?:-\w++)*|equals|regex|starts-with|is-json|llm-rubric|model-graded-\w++|similar"
    r"|javascript|python)(?:\([\d.]*+\))?:"
)
_ERROR: Final = re.compile(
    r"(?:error(?: code)?|exception|traceback|http (?:error )?[45]\d\d|\w{1,40}(?:error|exception)) ?[:(]", re.IGNORECASE
)
_REASONING: Final = re.compile(r"\s*+(?:<think|(?:thought|reasoning) ?:)", re.IGNORECASE)
_FIRST_PART: Final = re.compile(r"\s*+(?:<(\w{2,12})[ >]|(\[?(?:[^\W\d]{1,12})?[ _#:-]*+)1([\]).:]))")
"""Beginning of a text with several passages: a tag, or the number 1, with the text around it."""
_SPEAKERS: Final = ("speaker", "role", "from", "sender", "author")
_ONE_MESSAGE: Final = (
    'If a row is a message, write each conversation as a row: {"messages": [{"role": "user", "content": "..."}, ...]}.'
)
_OTHER_ROWS: Final = (
    (
        {"queryid", "corpusid", "score"},
        "They are relevance labels: give them with --qrels FILE, next to a run or samples.",
    ),
    (
        {"contextspanid", "spankind"},
        "They are spans of Phoenix. Write the data frame as Parquet, which is read as traces: frame.to_parquet('spans.parquet')",
    ),
    (
        {"id", "title", "text"},
        "If it is the corpus of BEIR, its questions are in queries.jsonl: evaluate the folder with it, qrels/ and a run.",
    ),
    *(
        ({speaker, text}, _ONE_MESSAGE)
        for speaker in _SPEAKERS
        for text in ("text", "content", "message", "value", "utterance")
    ),
)
"""Names in rows that are not samples, and what these rows are for."""
_USED: Final = frozenset(
    {"used", "is_used", "in_prompt", "included", "selected", "kept", "in_context", "used_in_prompt"}
)
"""Keys of a passage that say whether the model got it."""
_BRACKETS: Final = ("[", "(", "{")
_JSON_STARTS: Final = ('"', "{", "[")
_MAX_PLANS: Final = 256
_MISSING_CHARS: Final = 32
"""Longest text, with blanks, that can be a placeholder for a missing one."""


def sample_from_row(row: object, *, position: int, fields: Mapping[str, str] | None = None) -> Sample:
    """Read one row of a data set as a sample.

    Args:
        row: A mapping of field names to values; nested `inputs` and `outputs` objects are looked into.
        position: 1-based place in the data set, for messages. A row without an id has the one of `derive_id`.
        fields: Our field name to the row's, where the aliases do not fit (`{"query": "Frage"}`). The id may be made of
            several fields (`{"id": "dataset+query_id"}`).

    Raises:
        DataError: The row is not a mapping, none of its fields is known, two aliases of one field disagree, or a value
            has a type that cannot be read.

    Examples:
        >>> sample_from_row({"user_input": "Why?", "retrieved_contexts": ["Because."]}, position=1).query
        'Why?'
    """
    reader = RowReader(fields)
    (sample,) = (reader.read(each, number) for number, each in reader.look(iter([(position, row)])))
    reader.finish()
    return sample


class RowReader:
    """Reads the rows of one dataset, and reports which columns and values it read.

    `fields` maps our field names to the data's, if the aliases do not fit. `with_app` says that an application answers
    the queries, so that a column `answer` is the reference. `separator` is that of the parts of a cell with several
    passages or references, or one for each field ("contexts=|,reference=;").
    """

    def __init__(
        self,
        fields: Mapping[str, str] | None = None,
        *,
        report: ReadingReport | None = None,
        with_app: bool = False,
        separator: str | None = None,
    ) -> None:
        self._fields = fields or {}
        self._report = ReadingReport() if report is None else report
        self._with_app = with_app
        self._separators = _separators(separator)
        self._plans: dict[tuple[str, ...], ColumnPlan] = {}
        self._first: frozenset[str] | None = None
        self._meanings: dict[str, tuple[str, str, str]] = {}
        self._absent = dict(self._fields)
        """Columns that the user named and no row has, by field."""
        self._first_rows = FirstRows()
        self._unpacked: frozenset[str] = frozenset()
        """Columns of JSON texts that are read as the values they contain."""

    def look(self, rows: Iterator[tuple[int, Any]]) -> Iterator[tuple[int, Any]]:
        """Yield rows with their positions, after looking at the values of the first ones."""
        first = first_of(rows)
        self._first_rows = FirstRows([flatten(row) for _, row in first if isinstance(row, Mapping)])
        column = self._first_rows.split_requests()
        if column and "id" not in self._fields:
            raise DataError(self._parts_of_requests(column))
        if column is not None:
            self._report.warn("no row has both a question and an answer. Write a row for each request, with both")
        yield from chain(first, rows)

    def read(self, row: object, position: int) -> Sample:
        """Read a row."""
        if type(row) is not dict and not isinstance(row, Mapping):
            new = new_file(self._report.source)
            remedies = {
                "list": "list. Name its items: jq -c '{query: .[0], response: .[1]}' FILE > " + new,
                "str": "str. If it is JSON: jq -c fromjson FILE > " + new,
            }
            remedy = remedies.get(type(row).__name__, shorten(row))
            raise DataError(f"row {position} must be an object with named fields, got {remedy}")
        flat = flatten(row)
        for path in self._fields.values():
            if "." in path and path not in flat:
                for part in path.split("+"):
                    if (value := walk(flat, part)) is not None:
                        flat = {**flat, part: value}
        plan = self._plan(row, flat, position)
        found, used, sources = self._find_fields(flat, plan, position)
        is_known = "query" in plan.names or self._fields or plan.numbered or plan.names.keys() - {"id", "history"}
        if flat and not is_known:
            raise DataError(self._unknown(flat, position))
        try:
            talk = _read_messages(found, used, position, sources.get("query", ""))
        except DataError as error:
            perhaps = "".join(f". Perhaps {option}" for option in self._report.remedies(("messages",)))
            raise DataError(f"{error}{perhaps}") from None
        contexts: Any = talk.contexts
        if found.get("contexts") is not None:
            contexts = self._contexts(found["contexts"], position, sources.get("contexts", "contexts"))
            if contexts and not is_missing(ids := row.get("retrieved_context_ids")):
                contexts = self._identified(contexts, ids)
        id_ = _id(found.get("id"))
        # A field without a value has its default, which is not validated.
        values: dict[str, Any] = {"id": id_ or "-", "metadata": _metadata(row, used, talk.citations)}
        if contexts is not None:
            values["contexts"] = contexts
        if talk.history:
            values["history"] = talk.history
        for name in ("query", "response"):
            if name in found and (type(found[name]) is str or not self._is_apart(found[name], name, sources)):
                values[name] = _text(found[name], name, position, FIELD_ALIASES[name], sources.get(name, ""))
        for name in ("reference", "sub_questions"):
            if name in found:
                values[name] = self._texts(found[name], name, position, sources)
        if "qrels" in found:
            values["qrels"] = _grades(found["qrels"], "qrels", position)
        elif (ids := row.get("reference_context_ids")) is not None:
            values["qrels"] = dict.fromkeys(_names(ids), 1.0) or None
        if "ratings" in found:
            ratings = _object(found["ratings"], "ratings", position)
            values["ratings"] = ratings and {str(k): _grades(v, "ratings", position) or {} for k, v in ratings.items()}
        try:
            sample = Sample(**values)
        except ValidationError as error:
            first = error.errors()[0]
            raise DataError(f"row {position}: field {'.'.join(map(str, first['loc']))}: {first['msg']}") from error
        self._count(sample, found, used, sources)
        return sample if id_ else sample.model_copy(update={"id": derive_id(sample)})

    def identity(self, row: object, position: int) -> tuple[str | None, str]:
        """Return the id ("" without one) and the question of a row, or None and "" if only `read` knows them."""
        if type(row) is not dict or self._unpacked:
            return None, ""
        flat = flatten(row)
        plan = self._plan(row, flat, position)
        id_, query = (flat[plan.single[name]] if name in plan.single else None for name in ("id", "query"))
        if type(query) is not str or query.lstrip()[:1] == "[" or not plan.names.keys().isdisjoint(_TALKS):
            return None, ""
        known = type(id_) is str or type(id_) is int
        return ("" if "id" not in plan.names else str(id_) if known else None), query

    def _is_apart(self, value: Any, field: str, sources: Mapping[str, str]) -> bool:
        """Return whether the user named a value in objects that are not a text."""
        is_text = isinstance(value, Mapping) and text_key(value, FIELD_ALIASES[field]) is not None
        begin = tuple(f"{sources.get(field, field)}{sign}" for sign in (".", "[]"))
        is_object = isinstance(value, Mapping | list) and not is_text
        return is_object and any(path.startswith(begin) for path in self._fields.values())

    def _parts_of_requests(self, column: str) -> str:
        """Return the error for rows that are parts of a request, with the command that joins them."""
        file, key = shlex.quote(self._report.source or "FILE"), json.dumps(column)
        slurp = " -s" if self._report.format == "JSON lines" else ""
        command = (
            f"jq{slurp} -c 'group_by(.[{key}])[] | map(with_entries(select(.value | IN(null, \"\") | not))) | add' {file} "
            f"> {new_file(self._report.source)}"
        )
        if self._report.has_text_cells:
            command = (
                f'python -c "import pandas, sys; pandas.read_csv(sys.argv[1], dtype=str).groupby({column!r}, sort=False)'
                f'.first().reset_index().to_csv({new_file(self._report.source, "csv")!r}, index=False)" {file}'
            )
        return f"several rows have the same {column!r}, and each has other fields of one request. Join them: {command}"

    def _unknown(self, flat: Mapping[str, Any], position: int) -> str:
        """Return what is wrong with a row without a known name, and the ways out."""
        report, first, names = self._report, self._first_rows, {name_key(name) for name in flat}
        n_like = sum(_is_like(name, value) for name, value in flat.items())
        if report.has_text_cells and len(flat) > 1 and 2 * n_like >= len(flat):
            asked = next((name for name in flat if "?" in name), None) or max(flat, key=lambda name: len(name.split()))
            header = ["query" if name == asked else f"column_{n}" for n, name in enumerate(flat, start=1)]
            joined = report.separator.join(header).replace("\t", "\\t")
            return (
                f"row {position} does not have a known name, and the first line of the file is not a header: it has "
                f"{shorten_names(flat)}. Write a header with the names query, response, contexts, reference above it: "
                f"(printf '{joined}\\n'; cat {shlex.quote(report.source or 'FILE')}) > {new_file(report.source, 'csv')}"
            )
        problem = f"row {position} does not have a field with a known name; it has {shorten_names(flat)}."
        if other := next((text for keys, text in _OTHER_ROWS if keys <= names), ""):
            return f"{problem} {other}"
        if "query" not in report.guesses and (column := next(filter(first.has_questions, flat), None)):
            key = f".[{json.dumps(column)}]"
            rows = "" if report.format == "JSON lines" else f".{report.where}[] | "
            are_rows = all(isinstance(item, Mapping) for item in flat[column])
            command = f": jq -c '{rows}{key}[] + del({key})' FILE > {new_file(report.source)}" if are_rows else ""
            return f"{problem} {column!r} is a list of questions. Write a row for each{command}"
        prompts = "".join(
            f" {column!r} has passages in it. Write its question as query; to read all of it: {field_option('query', column)}."
            for column in flat
            if first.kind(column) == PROMPTS
        )
        texts = [n for n in flat if first.has_questions_in(n) and not first.problem(n, "query", is_guess=True)]
        remedies = report.remedies(report.guesses, flat) or [field_option("query", *texts[:1] or ["COLUMN"])]
        others = [name for name in _SHOWN if name not in (report.guesses or ("query",))]
        rest = "".join(f" --field {name}=COLUMN" for name in others)
        rest = rest and f"\n    The others, if it has them:{rest}"
        return f"{problem}{prompts} Name its fields, for example {' '.join(remedies)}{rest}"

    def _name_missing(self, plan: ColumnPlan) -> None:
        """Report columns of texts that may be missing fields under names of another language."""
        report, first = self._report, self._first_rows
        missing = [name for name in _SHOWN if name not in {*plan.names, *plan.numbered}]
        if "messages" in plan.names or not report.guesses.keys().isdisjoint(missing) or len(missing) < 2:
            return
        texts = [column for column in plan.unused if first.has_texts(column) and guess_field(column) is None]
        if texts := [column for column in texts if not first.problem(column, "query", is_guess=True)]:
            options = " ".join(f"--field {name}=COLUMN" for name in missing)
            report.note(f"not read: {shorten_names(texts)}. If they are among the missing fields: {options}")

    def finish(self) -> None:
        """Check what only all rows show. Raise DataError if no row has a column that the user named."""
        if self._first is not None:
            for name, column in self._absent.items():
                raise DataError(
                    f"no row has the field {column!r}, which was named for {name!r}; the rows have "
                    f"{shorten_names(sorted(self._first))}"
                )

    def _plan(self, row: Mapping[str, Any], flat: Mapping[str, Any], position: int) -> ColumnPlan:
        columns = tuple(flat)
        if (plan := self._plans.get(columns)) is None:
            if (
                "spans" in columns
                and not {"trace_metadata", "request_metadata"}.isdisjoint(columns)
                and not self._fields
            ):
                raise DataError(
                    f"row {position} is a trace of MLflow. Write the data frame as JSON, which is read as traces: "
                    "frame.to_json('traces.json', orient='records')"
                )
            plan = plan_columns(
                columns,
                self._fields,
                position,
                with_app=self._with_app,
                meanings=self._meanings,
                problem=self._first_rows.problem,
            )
            for key, (column, field, deciding) in plan.meanings.items():
                _, earlier, _ = self._meanings.setdefault(key, (column, field, deciding))
                if earlier != field:
                    shown = {"response": "the response", "contexts": "contexts"}.get(earlier, "neither")
                    other, named = ("contexts", deciding) if key == "context" else ("reference", column)
                    raise DataError(
                        f"row {position} has {deciding!r} next to {column!r}, and {column!r} of earlier rows was read "
                        f"as {shown}. Say what it is: --field {other}={named}, or --field {earlier}={column}"
                    )
            for name in plan.names:
                self._absent.pop(name, None)
            if len(self._plans) < _MAX_PLANS:
                self._plans[columns] = plan
                self._choose_json(plan)
                self._describe(row, flat, plan)
        if self._first is None:
            self._first = plan.columns
        elif plan.columns is not self._first and plan.columns != self._first:
            self._report.n_other_columns += 1
        return plan

    def _choose_json(self, plan: ColumnPlan) -> None:
        """Read JSON texts as their values, if questions and answers are JSON texts, or questions are objects."""
        first = self._first_rows
        asked, answered = (next(iter(plan.names.get(name, ())), "") for name in ("query", "response"))
        if first.kind(asked) == JSON and (
            first.kind(answered) == JSON or not isinstance(_unpack(first.values(asked)[0]), str)
        ):
            for column in (asked, answered):
                if first.kind(column) == JSON:
                    self._unpacked |= {column}
                    self._report.note(f"{column}: JSON texts, read as the values that they contain")

    def _describe(self, row: Mapping[str, Any], flat: Mapping[str, Any], plan: ColumnPlan) -> None:
        """Report columns that are not read, and why columns whose names have several meanings are read as they are."""
        report, first = self._report, self._first_rows
        proposed, parts, notes = propose(flat, plan, first)
        report.leave((*plan.unused, *parts))
        for field, column, *what in (*plan.others, *proposed):
            # An application gives the response, so that an answer in the data is the correct one.
            if not (is_answer := self._with_app and field == "response") or "reference" not in plan.names:
                report.guess("reference" if is_answer else field, column, *what)
        for note in notes:
            report.note(note)
        for key, (column, field, _) in plan.meanings.items():
            if key == "context" and field == "":
                report.decide("contexts", f"not {column}, the ideal passages; otherwise: --field contexts={column}")
            elif field == "reference":
                why = "the application answers" if self._with_app else "the rows have another response"
                report.decide("reference", f"{why}; otherwise: --field response={column}")
                if others := [other for other in plan.unused if words_of(other) & ALIASES]:
                    option = field_option("reference", column, *others)
                    report.note(f"{', '.join(others)}: other correct answers, not read. To read them: {option}")
            elif key == "answer" and field == "":
                report.decide("response", f"a model's; otherwise: --field response={column}")
            elif key == "answer" and "reference" not in plan.names and (column in row or "contexts" not in plan.names):
                joined = "+".join((column, *(c for c in plan.unused if words_of(c) & ALIASES)))
                report.guess("reference", joined, "if it is the correct answer")
        for column, field_, why in plan.problems:
            is_read = column in plan.names.get(field_, ())
            path = path_of_text(first.values(column)[0], column, field_, "[]") if why == PASSAGES else column
            option = "" if is_read else f"; otherwise: {field_option(field_, path)}"
            report.note(f"{column}: {why}, {'' if is_read else 'not '}read as {field_}{option}")
        for column in plan.unused:
            if column.startswith("__expected"):
                report.note(f"{column}: assertions of promptfoo, not read as reference")
            elif ALL_REQUIRED.fullmatch(name_key(column)):
                self._note_parts(column)
        self._name_missing(plan)

    def _find_fields(
        self, flat: Mapping[str, Any], plan: ColumnPlan, position: int
    ) -> tuple[dict[str, Any], set[str], dict[str, str]]:
        """Return the values of a row by our field name, the names in the row that were used, and the names to report."""
        found: dict[str, Any] = {}
        sources: dict[str, str] = {}
        for field, column in plan.single.items():
            value = flat[column]
            if type(value) is not str or len(value) < _MISSING_CHARS or column in self._unpacked:
                value = self._value(value, field, column)
                if is_missing(value):
                    continue
            sources[field], found[field] = column, value
        used = set(sources.values())
        if plan.given:
            used.update(plan.single[field] for field in plan.given if field in plan.single)
        for field, columns in plan.several.items():
            if field == "id" and field in plan.given:
                parts = {column: _id(self._value(flat[column], "id", column)) for column in columns}
                if blank := [column for column, part in parts.items() if not part]:
                    raise DataError(
                        f"row {position} does not have a value of {blank[0]!r}, which is a part of its id "
                        f"{'+'.join(columns)!r}"
                    )
                # The columns stay metadata, which views group by.
                found[field] = "+".join(parts.values())
                sources[field] = "+".join(columns)
                continue
            values = {
                column: value for column in columns if not is_missing(value := self._value(flat[column], field, column))
            }
            names = list(values)
            if field == "id" and len(names) > 1 and name_key(names[0]) in ("id", "sampleid"):
                # Several contexts of one question: each row has its own id and that of the question.
                names = [name for name in names if name_key(name) != "questionid"]
            if not names:
                continue
            for name in names[1:]:
                if to_plain(values[name]) != to_plain(values[names[0]]):
                    options = ", or ".join(field_option(field, each) for each in names)
                    raise DataError(
                        f"row {position} has both {names[0]!r} and {name!r}, which mean {field!r} and differ; "
                        f"say which one counts: {options} (fields={{{field!r}: ...}})"
                    )
            used.update(names)
            sources[field] = names[0]
            found[field] = values[names[0]]
        for field, columns in plan.numbered.items():
            found[field] = self._joined(flat, field, columns, position)
            used.update(columns)
            shown = columns if field in plan.given or len(columns) == 1 else (columns[0], "…", columns[-1])
            sources[field] = ("+" if field in plan.given else " ").join(shown)
        return found, used, sources

    def _joined(self, flat: Mapping[str, Any], field: str, columns: Sequence[str], position: int) -> list[Any] | None:
        """Return the values of several columns, in this order, as one list. Missing and empty ones are left out."""
        given = (value for column in columns if (value := flat.get(column)) != "")
        cells = [self._value(value, field, columns[0]) for value in given]
        filled = [cell for cell in cells if not is_missing(cell) and cell != ""]
        return [item for cell in filled for item in _row_items(cell, field, position)] if filled else None

    def _value(self, value: Any, field: str, column: str) -> Any:
        """Return a value, or None if it is a placeholder for a missing one."""
        if column in self._unpacked:
            value = _unpack(value)
        if field not in _TEXT_FIELDS:
            return value
        text = value.strip() if type(value) is str and len(value) < _MISSING_CHARS else "-" * _MISSING_CHARS
        is_cell = self._report.has_text_cells
        if not text and is_cell:
            self._report.count_value("blank", field)
        elif text in MISSING_TEXTS:
            self._report.count_value("placeholder" if is_cell else "placeholder_text", field)
        return None if is_cell and (not text or text in MISSING_TEXTS) else value

    def _parts(self, text: str, field: str) -> list[str]:
        """Return the parts of a text of a field with several, and report a text that may have several."""
        separator = self._separators.get(field)
        if separator is not None:
            if "\n" in separator and "\n" not in text:  # the two characters, as JSON has them
                text = text.replace("\\n", "\n")
            return [part for each in text.split(separator) if (part := each.strip())]
        if (field != "contexts" and _SIGNS.search(text) is None) or not text.strip():
            return [text]
        if (quoted := _quoted_parts(text)) is not None:
            self._report.note(f"{field}: quoted texts without brackets, read as a list")
            return quoted
        what = "passages" if field == "contexts" else "references"
        if field == "contexts" and _has_marked_parts(text):
            self._report.note(
                "contexts: tags or numbers in one text, perhaps of several passages. Write them as a JSON list"
            )
        elif (sign := _sign(text, field, is_cell=self._report.has_text_cells)) is not None:
            shown = "line breaks" if "n" in sign else sign
            option = shlex.quote(f"{field}={sign}")
            self._report.note(f"{field}: {shown} in one text. If they separate {what}: --separator {option}")
        return [text]

    def _contexts(self, value: Any, position: int, column: str) -> list[dict[str, Any]] | None:
        value = to_plain(value)
        if value is None:
            return None
        if isinstance(value, str):
            if not value.strip():
                self._report.count_value("empty", "contexts")
                return None
            items = _row_items(value, "contexts", position)
            if items and items[0] is value:
                items = self._parts(value, "contexts")
        elif isinstance(value, (list, tuple, Mapping)):  # an abstract class is the slowest
            items = _cell_items(value)
            if len(items) == 1 and isinstance(items[0], str) and (inner := _plain_list(items[0])) is not items[0]:
                self._report.note("contexts: a list in the text of a list, read as a list")
                items = inner
        else:
            raise DataError(f"row {position}: contexts must be a list of passages, got {shorten(value)}")
        # Passages that say whether the model got them have the same keys.
        key = _use_key(items[0]) if items and type(items[0]) is dict else ""
        if n := sum(walk(item, key) is False for item in items) if key else 0:
            self._report.count_value("unused", "contexts", n)
            change = f".[{json.dumps(column)}] |= map(select(.{key} != false))"
            command = f"jq -c '(arrays[], objects) | {change}' FILE > {new_file(self._report.source)}"
            self._report.note(f"{key}: false. To read the other passages alone: {command}", 0)
        try:
            return read_passages(items, position)
        except DataError as error:
            inner = json_value(value) if isinstance(value, str) else value
            path = path_of_text(inner, column, "contexts", "[]")
            remedy = f". If the texts are in {path}: {field_option('contexts', path)}" if "." in path else ""
            if any(
                item is None or (isinstance(item, list) and all(isinstance(i, str) for i in item)) for item in items
            ):
                change = f".[{json.dumps(column)}] |= {'map(values)' if None in items else 'add'}"
                command = f"jq -c '(arrays[], objects) | {change}' FILE > {new_file(self._report.source)}"
                remedy = f". To {'leave out what is null' if None in items else 'join the lists'}: {command}"
            raise DataError(f"{error}{remedy}") from None

    def _texts(self, value: Any, field: str, position: int, sources: dict[str, str]) -> tuple[str, ...]:
        value = to_plain(value)
        if value is None:
            return ()
        is_text = type(value) is str and not begins_like_list(value)
        if not is_text and isinstance(value, Mapping):  # SQuAD's answers are an object of lists
            value = next((value[key] for key in _EXPECTED_KEYS if isinstance(value.get(key), list)), value)
            is_open = isinstance(value, Mapping) and text_key(value, _EXPECTED_KEYS) is None
            if is_open and (parts := [key for key in value if ALL_REQUIRED.fullmatch(name_key(key))]):
                self._note_parts(f"{sources.pop(field, field)}.{parts[0]}")
                return ()
        items = self._parts(value, field) if is_text else _row_items(value, field, position)
        texts = tuple(_text(item, field, position, _EXPECTED_KEYS, sources.get(field, field)) for item in items)
        kept = tuple(text for text in texts if text is not None and text.strip())
        for _ in range(max(len(texts) - len(kept), not texts)):
            self._report.count_value("empty", field)
        return kept

    def _note_parts(self, path: str) -> None:
        """Report facts that are all required, and the command that joins them."""
        report, keys = self._report, [f'["{key}"]' for key in path.split(".")]
        joined = f"jq -c '.reference = (.{''.join(keys)} | join(\"\\n\")) | del(.{keys[0]})'"
        command = f"{joined} {shlex.quote(report.source or 'FILE')} > {new_file(report.source)}"
        report.note(
            f"{path}: parts that are all required, not read as reference, whose texts are alternatives. To read them, "
            f"join them to one text{f': {command}' if report.format == 'JSON lines' else ''}"
        )

    def _identified(self, passages: list[dict[str, Any]], ids: Any) -> list[dict[str, Any]]:
        """Give passages the ids that ragas keeps in another field."""
        names = _names(ids)
        if any(passage.get("id") is not None for passage in passages):
            return passages
        if len(names) != len(passages):
            self._report.note("retrieved_context_ids: not used, because their number is not that of the passages")
            return passages
        return [{**passage, "id": name} for passage, name in zip(passages, names, strict=True)]

    def _count(self, sample: Sample, found: Mapping[str, Any], used: set[str], sources: dict[str, str]) -> None:
        """Count empty texts, texts in brackets, and items of lists."""
        report = self._report
        for field in ("history", "messages"):
            if field in sources and sources[field] not in used:
                report.note(f"{sources.pop(field)}: not a list of messages, not read as {field}")
        report.use(sources)
        for field, text in (("query", sample.query), ("response", sample.response)):
            if text is not None and (not text[:1].isalnum() or field == "response"):
                self._count_text(field, text, sources.get(field, field))
        if sample.contexts is not None:
            report.count_items("contexts", len(sample.contexts))
            for passage in sample.contexts:
                text = passage.text
                if len(text) < _MISSING_CHARS or not text[:1].isalnum() or "://" in text[:8]:
                    self._count_item("contexts", text, len(sample.contexts), found.get("contexts"))
        if "reference" in found:
            report.count_items("reference", len(sample.reference))
            for text in sample.reference:
                self._count_item("reference", text, len(sample.reference), found["reference"])

    def _count_text(self, field: str, text: str, column: str) -> None:
        """Count a text that is empty, JSON or in brackets, or a response that is an error or has a model's reasoning."""
        start = text.lstrip()[:1]
        if not start:
            self._report.count_value("empty", field)
        elif field == "response" and _REASONING.match(text) is not None:
            self._report.count_value("reasoning", field)
        elif start in _JSON_STARTS and (inner := json_value(text)) is not None:
            self._report.count_value("json", field)
            if path := path_of_text(inner, column, field).removeprefix(column):
                option = field_option(field, column + path)
                self._report.note(f"{column}: JSON texts. To read the text in them: {option}")
        elif start in _BRACKETS:
            self._report.count_value("bracket", field)
        elif field == "response" and _ERROR.match(text) is not None:
            self._report.count_value("error", field)

    def _count_item(self, field: str, text: str, n: int, value: Any) -> None:
        """Count an item of a list that is empty, in brackets, an id, an assertion or a placeholder."""
        start, is_short = text.lstrip()[:1], len(text) < _MISSING_CHARS
        if not start:
            if field == "contexts":  # empty references were counted when they were left out
                self._report.count_value("empty", field)
        elif start in _BRACKETS and (n == 1 or begins_like_list(text)):
            self._report.count_value("bracket", field)
        elif field == "contexts" and ((is_short and _ID_TEXT.fullmatch(text)) or "://" in text[:8]):
            self._report.count_value("id", field)
        elif field == "reference" and ":" in text[:_MISSING_CHARS] and _ASSERTION.match(text):
            self._report.count_value("assertion", field)
        elif is_short and text in MISSING_TEXTS and text != value:
            self._report.count_value("placeholder_text", field)


def _use_key(passage: dict[str, Any]) -> str:
    """Return the path of the value in a passage that says whether the model got it, or ""."""
    for part, outer in ((passage, ""), (passage.get("metadata"), "metadata.")):
        if type(part) is dict and not _USED.isdisjoint(part):
            return outer + min(_USED & part.keys())
    return ""


def _is_like(name: str, value: Any) -> bool:
    """Return whether a name looks like the value below it: both are questions or numbers."""
    return isinstance(value, str) and (
        ("?" in name and "?" in value) or (finite(name) is not None and finite(value) is not None)
    )


def _separators(given: str | None) -> dict[str, str]:
    """Return the separator of each field. A shell cannot write line breaks and tabs."""
    if not given:
        return {}
    first, *named = _GIVEN_SEPARATORS.split(given.replace("\\n", "\n").replace("\\t", "\t"))
    return dict.fromkeys(_SPLIT_FIELDS, first) if first else dict(zip(named[::2], named[1::2], strict=True))


def _sign(text: str, field: str, *, is_cell: bool) -> str | None:
    """Return the sign that may separate parts of a text, as an option has it, or None.

    A semicolon or a comma is one only between few words, because sentences have them.
    """
    text = text.strip()
    if (rule := _RULE.search(text)) is not None:
        return rf"\n{rule[1]}\n"
    if "\n" not in text:
        text = text.replace("\\n", "\n") if field == "contexts" else text
    if "\n" in text and (is_cell or field == "contexts" or "\n\n" in text):
        return r"\n\n" if field == "contexts" and "\n\n" in text and not is_cell else r"\n"
    signs = ("|", " // ", "###", "<br>", "[SEP]", "<sep>") if field == "contexts" else ("|",)
    if sign := next((sign for sign in signs if sign in text), None):
        return sign
    if field == "contexts" and _ENDED.search(text):
        return ";"
    if field == "contexts" or len(text) > 200:
        return None
    if " / " in text and all(len(part.split()) <= 4 for part in text.split(" / ")):
        return "/"
    if ";" in text and all(len(part.split()) <= 4 for part in text.split(";")):
        return ";"
    parts = [part.strip() for part in text.split(",")] if "," in text else []
    return "," if parts and all(part[:1].isupper() and len(part.split()) <= 3 for part in parts) else None


def _quoted_parts(text: str) -> list[str] | None:
    """Return the texts of a list without its brackets (`"one", "two"`), or None."""
    text = text.strip()
    if not text.startswith('"') or not text.endswith('"') or '",' not in text:
        return None
    try:
        parts = parse_cell(f"[{text}]")
    except DataError:
        return None
    return parts if len(parts) > 1 and all(isinstance(part, str) for part in parts) else None


def _has_marked_parts(text: str) -> bool:
    """Return whether a text begins like the first of several passages, and another one follows."""
    first = _FIRST_PART.match(text)
    if first is None:
        return False
    return text.find("<" if first[1] else f"{first[2]}2{first[3]}", first.end()) > 0


def _cell_items(cell: Any) -> Sequence[Any]:
    """Return the items of a value: of a list, of a cell that is one, or the value itself."""
    if type(cell) is list:
        return cell
    cell = to_plain(cell)
    if isinstance(cell, str):
        return parse_cell(cell) if begins_like_list(cell) else [cell]
    return cell if isinstance(cell, list | tuple) else [cell]


def _read_messages(found: dict[str, Any], used: set[str], position: int, column: str) -> Conversation:
    """Take messages and content blocks out of the found fields, and set query and response from them."""
    if "messages" not in found and "history" not in found:
        query, answer = found.get("query", ""), found.get("response", "")
        if type(query) is str and type(answer) is str and "[" not in (query.lstrip()[:1], answer.lstrip()[:1]):
            return _NO_MESSAGES
    if (
        found.keys() <= {"id", "messages"}
        and "messages" in found
        and not are_messages(found_list := _plain_list(found["messages"]))
    ):
        raise DataError(
            f"row {position}: messages must be a list of messages, each an object with a role and a content, got "
            f"{shorten(found_list)}"
        )
    answered, citations = _take_answer(found)
    earlier = _take_messages(found, "history", used)
    asked = _take_messages(found, "messages", used) or _take_messages(found, "query", used)
    has_question = asked or any(message_role(message_body(message)[0]) == "user" for message in answered)
    if answered and not has_question and isinstance(said := found.get("query"), str):
        asked = [{"role": "user", "content": said}]
    # An output often repeats the input.
    messages = answered if answered[: len(asked)] == asked else [*asked, *answered]
    if not messages and not earlier:
        return Conversation(query=None, history=(), response=None, contexts=None, citations=citations)
    query = _text(found.get("query"), "query", position, FIELD_ALIASES["query"], column)
    if messages:
        talk = read_conversation(messages, name="messages", position=position, query=query)
    else:
        talk = Conversation(query=query, history=(), response=None, contexts=None)
    if earlier:
        before = read_conversation(earlier, name="history", position=position, query=query or talk.query or "")
        talk = replace(talk, history=(*before.history, *talk.history))
    found["query"] = talk.query
    if found.get("response") is None:
        found["response"] = talk.response
        citations = citations or talk.citations
    return replace(talk, citations=citations)


def _take_messages(found: dict[str, Any], field: str, used: set[str]) -> list[Any]:
    """Remove a list of messages from the found fields and return it. `history` of another type stays metadata."""
    value = _plain_list(found.get(field))
    if are_messages(value):
        del found[field]
        return list(value)
    if field in ("history", "messages") and found.pop(field, None) is not None:
        used -= set(FIELD_ALIASES[field])
    return []


def _unpack(value: Any) -> Any:
    """Return the value of a JSON text, or its messages. Any other value stays as it is."""
    inner = json_value(value) if isinstance(value, str) else value
    if not isinstance(inner, Mapping):
        return value if inner is None else inner
    reply = walk(inner, "choices.0.message")
    return [reply] if isinstance(reply, Mapping) else inner.get("messages", inner)


def _plain_list(value: Any) -> Any:
    """Return a list in a cell as a list, and any other value as it is. A text of an answer may be in brackets."""
    value = to_plain(value)
    if isinstance(value, str) and value.lstrip().startswith("[") and begins_like_list(value):
        try:
            return parse_cell(value)
        except DataError:
            return value
    return value


def _take_answer(found: dict[str, Any]) -> tuple[list[Any], tuple[Mapping[str, Any], ...]]:
    """Remove messages from the response and return them. Content blocks become their text and its citations."""
    value = to_plain(found.get("response"))
    one_message = _unpack(value) if isinstance(value, Mapping) and "choices" in value else value
    one_message = [one_message] if isinstance(one_message, Mapping) else one_message
    if are_messages(one_message):
        del found["response"]
        return list(one_message), ()
    if isinstance(value, list) and value and all(isinstance(part, Mapping) and "type" in part for part in value):
        if replies := [part for part in value if are_messages([part])]:  # of OpenAI's responses, after calls of tools
            del found["response"]
            return replies, ()
        found["response"], citations = read_content(value)
        return [], citations
    return [], ()


def _metadata(row: Mapping[str, Any], used: set[str], citations: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the row's own metadata together with its other fields, and citations of the answer's content blocks."""
    others = {k: to_plain(v) for k, v in row.items() if k not in used and k not in ("inputs", "outputs")}
    if citations:
        others = {"citations": [dict(citation) for citation in citations], **others}
    stated = others.get("metadata")
    if not isinstance(stated, Mapping):
        return others
    del others["metadata"]
    return {**others, **{str(k): v for k, v in stated.items()}}


def flatten(row: Mapping[str, Any]) -> dict[str, Any]:
    """Lift what openevals and MLflow nest under `inputs` and `outputs`; outer names win."""
    if "inputs" not in row and "outputs" not in row and type(row) is dict:  # as almost always
        return row
    flat = dict(row)
    for outer in ("inputs", "outputs"):
        inner = row.get(outer)
        if inner is not None and isinstance(inner, Mapping):
            flat.pop(outer)
            for name, value in inner.items():
                # `outputs.reference` would be the system judging itself, `inputs.answer` is not a response.
                if outer == "inputs" and name in FIELD_ALIASES["response"]:
                    continue
                if name == "messages" and outer == "outputs" and name in flat:
                    # The answer of an agent: with the question, or all messages again.
                    flat.setdefault("response", value)
                    continue
                flat.setdefault(name, value)
    return flat


def _id(value: Any) -> str:
    if type(value) is str:
        return value
    value = to_plain(value)
    return "" if value is None else text_of(value)


def _text(value: Any, field: str, position: int, keys: Sequence[str], column: str = "") -> str | None:
    if type(value) is str:
        return value
    value = to_plain(value)
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return text_of(value)
    if isinstance(value, Mapping) and (key := text_key(value, keys)) is not None:
        return str(value[key])
    raise DataError(f"row {position}: {field} must be text, got {_way_to_text(value, field, column or field)}")


def _way_to_text(value: Any, field: str, column: str) -> str:
    """Return what a value is that is not a text, and how to read the text in it."""
    if isinstance(value, Mapping) and value:
        item = "[]" if field == "reference" else ".0"
        path = f"{column}.value" if "value" in value else path_of_text(value, column, field, item)
        if field == "reference" and (several := [key for key in value if words_of(str(key)) & ALIASES]):
            path = f"{column}.{several[0]}"
        named = field_option(field, path or f"{column}.{next(iter(value))}")
        if field == "response" and (correct := next(filter(is_gold, paths_in(value, column, has_lists=True)), "")):
            many = "[]" if isinstance(walk({column: value}, correct), list) else ""
            named = field_option("reference", correct + many)
        elif column == "answer":
            named += f", or {field_option('reference', path)} if it is the correct answer"
        return f"an object with {shorten_names(value)}. Name a key of it: {named}"
    if isinstance(value, bool):
        command = (
            f'jq -c \'(arrays[], objects) | .[{json.dumps(column)}] |= if . then "yes" else "no" end\' FILE > NEW.jsonl'
        )
        return f"true or false. Write it as the text of an answer: yes or no in a sheet, and in a file of JSON with {command}"
    if isinstance(value, list) and value and isinstance(value[0], Mapping):
        name, item = ("reference", "[]") if field == "response" else (field, ".0")
        return f"a list of objects. Name a key of them: {field_option(name, path_of_text(value, column, name, item))}"
    if not isinstance(value, list | tuple):
        return shorten(value)
    if field == "response" and all(isinstance(part, str) for part in value):
        return (
            f"{shorten(value)}. Join parts of one answer, or read correct answers: {field_option('reference', column)}"
        )
    return f"{shorten(value)}. Write alternatives as one list of texts, and join parts of one answer"


def _row_items(value: Any, field: str, position: int) -> Sequence[Any]:
    try:
        return _cell_items(value)
    except DataError as error:
        raise DataError(f"row {position}: {field}: {error}") from None


def _names(ids: Any) -> list[str]:
    ids = _plain_list(ids)
    return [text_of(name) for name in ids if not is_missing(name)] if isinstance(ids, list | tuple) else []


def _grades(value: Any, field: str, position: int) -> dict[str, float] | None:
    """Return grades by passage id, from an object or its JSON in a table cell."""
    value = _object(value, field, position)
    if value is None:
        return None
    grades: dict[str, float] = {}
    for passage, grade in value.items():
        number = float(grade) if isinstance(grade, bool) else finite_number(to_plain(grade))
        if number is None:
            raise DataError(
                f"row {position}: {field} gives {str(passage)!r} the grade {shorten(grade)}; a grade is a finite number"
            )
        grades[text_of(passage)] = number
    return grades


def _object(value: Any, field: str, position: int) -> Mapping[Any, Any] | None:
    value = to_plain(value)
    if isinstance(value, str):
        value = (json_value(value) or shorten(value)) if value.strip() else None
    if value is None or isinstance(value, Mapping):
        return value
    raise DataError(f"row {position}: {field} must be an object of grades by passage id, got {shorten(value)}")
