"""Files of outcomes, one on each line: read as a whole, and then the outcomes of single samples."""

from __future__ import annotations

import json
import logging
from array import array
from codecs import BOM_UTF8
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from ragstone._util.quantities import count
from ragstone._util.row_limits import MAX_ROW_BYTES, bounded_lines, check_json_row
from ragstone.errors import DataError, StoreVersionError
from ragstone.experiments._clusters import SampleFields
from ragstone.experiments._spent import Spent, read_spent
from ragstone.schema import Outcome, Sample, check_record, fingerprint, outcome_adapter

_logger = logging.getLogger("ragstone")
SHOWN: Final = 3
"""Number of examples in messages."""
_CHARS: Final = 60
NAME_IDS: Final = "--field id=COLUMN, or several columns: --field id=COLUMN+COLUMN"
"""How a caller names the ids of rows."""


class OutcomeLines:
    """The outcomes of a file. Iterating over them notes where the outcomes of each sample are.

    `about` collects sampling probabilities and labels while the file is read.
    """

    def __init__(self, path: Path, about: SampleFields) -> None:
        self._path = path
        self._about = about
        self._starts: dict[str, array[int]] = {}
        """By sample id: the number of its question (0 if it is unknown), then the first byte of each outcome."""
        self.spent: dict[str, Spent] = {}
        """What the application needed, by sample id."""

    def __iter__(self) -> Iterator[Outcome]:
        self._starts.clear()
        start, place = 0, repr(str(self._path))
        several: dict[str, None] = {}
        with self._path.open("rb") as file:
            for number, line in enumerate(bounded_lines(file), start=1):
                if line.strip():
                    try:
                        check_json_row(line)
                        outcome = _parse(line)
                    except DataError as error:
                        raise DataError(f"line {number} of {place}: {error}") from None
                    except ValidationError as error:
                        if number > 1 and _is_cut(line, error):
                            _logger.warning(
                                "line %d of %s, the last one, is incomplete and is skipped. Its writer was "
                                "interrupted, or is still writing.",
                                number,
                                place,
                            )
                            break
                        raise self._refusal(f"line {number}", line, error) from None
                    fields = outcome.model_extra or {}
                    self._about.add(outcome.sample_id, fields, f"line {number} of {place}")
                    if (stated := fields.get("application")) is not None:
                        self.spent[outcome.sample_id] = read_spent(stated, f"line {number} of {place}")
                    starts = self._starts.get(outcome.sample_id)
                    if starts is None:
                        starts = self._starts[outcome.sample_id] = array("q", [0])
                    question = question_number(outcome.fingerprint)
                    if starts[0] and question not in (0, starts[0]):
                        several[outcome.sample_id] = None
                    starts[0] = question or starts[0]
                    starts.append(start)
                    yield outcome
                start += len(line)
        if several:
            shown = ", ".join(map(repr, list(several)[:SHOWN])) + (", ..." if len(several) > SHOWN else "")
            raise DataError(
                f"{len(several):,} of {len(self._starts):,} ids of {place} have outcomes of different questions: {shown}. "
                f"Evaluate with ids that name one question ({NAME_IDS}), and write each evaluation to its own file"
            )

    def question_of(self, sample_id: str) -> int:
        """Return the number of the question of a sample, or 0 if it is unknown, after the file was read."""
        return self._starts.get(sample_id, (0,))[0]

    def find(self, sample_ids: Collection[str]) -> Iterator[Outcome]:
        """Yield the outcomes of some samples, in the order of the file. The file must have been read before.

        Raise DataError if it was changed in the meantime.
        """
        with self._path.open("rb") as file:
            for start in sorted(start for id_ in sample_ids for start in self._starts.get(id_, ())[1:]):
                file.seek(start)
                line = file.readline(MAX_ROW_BYTES + 1)
                try:
                    outcome = _parse(line)
                except ValidationError as error:
                    raise self._refusal(f"byte {start}", line, error) from None
                if outcome.sample_id not in sample_ids:
                    raise DataError(f"{str(self._path)!r} was changed while it was read. Read it again")
                yield outcome

    def _refusal(self, place: str, line: bytes, error: ValidationError) -> DataError:
        try:
            check_record(f"{place} of {str(self._path)!r}", json.loads(line))
        except StoreVersionError as other:
            return DataError(str(other))
        except (ValueError, RecursionError):
            pass
        # This is most often a file of samples, for which pydantic's message is not helpful.
        first = error.errors(include_url=False, include_input=False)[0]
        location = ".".join(map(str, first["loc"]))
        problem = (
            "the field 'outcome' is missing"
            if first["type"] == "union_tag_not_found"
            else f"{location}: {first['msg']}".removeprefix(": ")
        )
        return DataError(
            f"{place} of {str(self._path)!r} is not an outcome ({problem}). `ragstone evaluate FILE --output OUTCOMES` "
            "writes files of outcomes."
        )


def read_questions(path: Path) -> dict[str, int]:
    """Return the number of the question of each sample in a file of outcomes, 0 if it is unknown.

    Invalid lines are skipped, because their error comes when the outcomes are read.
    """
    questions: dict[str, int] = {}
    with path.open("rb") as file:
        for line in bounded_lines(file):
            try:
                row = json.loads(line.removeprefix(BOM_UTF8))
                number = question_number(row.get("fingerprint"))
                id_ = row.get("sample_id", row.get("trace_id"))
            except (ValueError, TypeError, AttributeError, RecursionError):
                continue
            if isinstance(id_, str):
                questions[id_] = number or questions.get(id_, 0)
    return questions


def _is_cut(line: bytes, error: ValidationError) -> bool:
    """Return whether a line is the beginning of one that its writer has not finished."""
    return not line.endswith(b"\n") and error.errors(include_url=False)[0]["type"] == "json_invalid"


def _parse(line: bytes) -> Outcome:
    """Parse one line in the format of `evaluate --output`, or of the JSONL sink, which writes all keys on every line."""
    line = line.removeprefix(BOM_UTF8)
    try:
        return outcome_adapter.validate_json(line)
    except ValidationError:
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            row = None
        if not isinstance(row, dict) or "sample_id" in row or "trace_id" not in row:
            raise
        values = {key: value for key, value in row.items() if value is not None}
        return outcome_adapter.validate_python(values | {"sample_id": row["trace_id"]})


def question_number(mark: str | None) -> int:
    """Return a fingerprint as a positive number of 63 bits, or 0 if the question is unknown."""
    return 0 if mark is None else int(mark[:16], 16) >> 1 or 1


def shorten_question(text: str | None) -> str:
    """Return the beginning of a question in quotes, or an empty text if it is unknown."""
    line = " ".join((text or "").split())
    return repr(line if len(line) <= _CHARS else f"{line[:_CHARS]}…") if line else ""


def check_samples(place: str, samples: Iterable[Sample], question_of: Callable[[str], int]) -> None:
    """Raise DataError if an id belongs to another question in the samples than in the outcomes.

    `place` is the file of outcomes, for the error.
    """
    n_known, other = 0, []
    for sample in samples:
        numbers = question_of(sample.id), question_number(fingerprint(sample.query, sample.history))
        n_known += all(numbers)
        if all(numbers) and numbers[0] != numbers[1]:
            other.append(sample)
    if other:
        examples = ", ".join(f"{sample.id!r} is {shorten_question(sample.query)}" for sample in other[:SHOWN])
        raise DataError(
            f"{len(other):,} of {count(n_known, 'common id')} of {place} and its samples (--data) belong to different questions: "
            f"in the samples, {examples}{', ...' if len(other) > SHOWN else ''}. Give the file that was evaluated, "
            f"with the same ids ({NAME_IDS})"
        )


def match_samples(place: str, scored: Mapping[str, int], samples: Sequence[Sample]) -> tuple[list[Sample], list[str]]:
    """Return the samples that have outcomes, with the ids of these, and notes about the others.

    A sample whose id no outcome has gets the id of the outcomes with its question, if the data was read with other ids
    at one of both times, and only one id has this question. `place` is the file of outcomes, for messages, and `scored`
    has numbers of questions by id, as of `read_questions`. Raise DataError if no sample has outcomes.
    """
    known = {sample.id: question_number(fingerprint(sample.query, sample.history)) for sample in samples}
    free = _by_question((known[id_], id_) for id_ in known.keys() - scored.keys())
    wanted = _by_question((scored[id_], id_) for id_ in scored.keys() - known.keys())
    new = {free[number]: id_ for number, id_ in wanted.items() if number in free}
    matched = [
        sample.model_copy(update={"id": new[sample.id]}) if sample.id in new else sample
        for sample in samples
        if sample.id in scored or sample.id in new
    ]
    if scored and not matched:
        raise DataError(
            f"no row of --data has an id or a question of {place} ({count(len(samples), 'row')} such as {samples[0].id!r}, and "
            f"{count(len(scored), 'sample')} with outcomes such as {next(iter(scored))!r}). Give the file that was evaluated"
        )
    notes = []
    if n_more := len(samples) - len(matched):
        notes.append(f"{n_more:,} of {count(len(samples), 'row')} of --data do not have outcomes, and do not count.")
    if n_unknown := len(scored) - len(matched):
        notes.append(
            f"{n_unknown:,} of {count(len(scored), 'sample')} are not in --data, so their texts are not known."
        )
    return matched, notes


def _by_question(numbered: Iterable[tuple[int, str]]) -> dict[int, str]:
    """Return ids by the number of their question, for questions that one id has."""
    found: dict[int, str | None] = {}
    for number, id_ in numbered:
        if number:
            found[number] = None if number in found else id_
    return {number: id_ for number, id_ in found.items() if id_ is not None}
