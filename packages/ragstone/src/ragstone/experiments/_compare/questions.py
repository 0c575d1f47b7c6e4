"""Whether rows of several systems with one id are the same question, and rows without an id that are."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ragstone._util.plural import count
from ragstone.errors import DataError
from ragstone.experiments._questions import NAME_IDS, SHOWN, question_number, shorten_question

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Texts = Sequence[Callable[[str], str | None]]
"""By system: returns the question of the sample with an id, if it is known."""


def note_question(questions: array[int], row: int, number: int) -> None:
    """Set the question of a row."""
    if (gap := row + 1 - len(questions)) > 0:
        questions.extend([0] * gap)
    questions[row] = number or questions[row]


@dataclass(frozen=True, slots=True)
class MatchedRows:
    """Which rows are one sample."""

    merged: Mapping[int, int]
    """The row of an id, by the row of the same question without an id in another system."""
    left_out: frozenset[int]
    """Rows that cannot be matched, because several have one question and no id."""
    notes: tuple[str, ...]


def match_questions(
    names: Sequence[str], ids: Sequence[str], questions: Sequence[array[int]], has: NDArray[np.bool_], texts: Texts
) -> MatchedRows:
    """Match rows without an id by their question, and check that rows with one id have one question.

    Args:
        names: The systems.
        ids: Ids of the rows.
        questions: Number of the question of each row (see `question_number`), by system.
        has: Whether a system has the row, of shape (rows, systems).
        texts: Questions for messages.

    Raises:
        DataError: If an id has different questions, or no row of a system can be matched.
    """
    import numpy as np

    asked = np.zeros(has.shape, dtype=np.int64)
    for system, numbers in enumerate(questions):
        asked[: len(numbers), system] = np.frombuffer(numbers, dtype=np.int64)
    known = asked.max(axis=1)
    lowest = np.where(asked == 0, known[:, None], asked).min(axis=1)
    if (different := np.flatnonzero(lowest != known)).size:
        raise _other_questions(names, ids, asked, different, texts)
    derived = {row for row, id_ in enumerate(ids) if _is_derived(id_, int(known[row]))}
    by_question: dict[int, list[int]] = {}
    if derived:
        wanted = {int(known[row]) for row in derived}
        for row, number in enumerate(known.tolist()):
            if number in wanted:
                by_question.setdefault(number, []).append(row)
    merged: dict[int, int] = {}
    left_out: set[int] = set()
    for rows in by_question.values():
        without_id = [row for row in rows if row in derived]
        named = [row for row in rows if row not in derived]
        if len(without_id) > 1 or len(named) > 1 or (named and (has[named[0]] & has[without_id[0]]).any()):
            left_out.update(without_id)
        elif named:
            merged[without_id[0]] = named[0]
    notes = []
    if left_out:
        rows = sorted(left_out)
        note = (
            f"{count(len(rows), 'sample')} without an id {'has' if len(rows) == 1 else 'have'} a question that several samples of "
            f"one system have, so they cannot be matched and are left out: {_listed(ids, rows, has, texts)}. Give each row "
            f"an id when you evaluate it ({NAME_IDS})"
        )
        kept = np.ones(len(ids), dtype=bool)
        kept[rows] = False
        if not has[kept].any(axis=0).all():
            raise DataError(note)
        notes.append(f"WARNING {note}")
    common = has.sum(axis=1) > 1
    n_unknown = int((common & ((asked == 0) & has).any(axis=1) & (known > 0)).sum())
    if n_unknown:
        notes.append(
            f"{n_unknown:,} of {count(int(common.sum()), 'common sample')} were matched by id alone: a system does not have their "
            "questions"
        )
    return MatchedRows(merged, frozenset(left_out), tuple(notes))


def _is_derived(id_: str, question: int) -> bool:
    """Return whether `derive_id` made an id, from this question."""
    digest = id_.removeprefix("q-").partition("-")[0]
    try:
        return id_.startswith("q-") and len(digest) == 24 and question_number(digest) == question
    except ValueError:
        return False


def _listed(ids: Sequence[str], rows: Sequence[int], has: NDArray[np.bool_], texts: Texts) -> str:
    shown = []
    for row in rows[:SHOWN]:
        text = texts[int(has[row].argmax())](ids[row])
        shown.append(repr(ids[row]) if text is None else shorten_question(text))
    return ", ".join(shown) + (", ..." if len(rows) > SHOWN else "")


def _other_questions(
    names: Sequence[str], ids: Sequence[str], asked: NDArray[np.int64], rows: NDArray[np.intp], texts: Texts
) -> DataError:
    shown = []
    for row in rows[:SHOWN].tolist():
        first = int((asked[row] > 0).argmax())
        second = int(((asked[row] > 0) & (asked[row] != asked[row, first])).argmax())
        found = [(names[i], texts[i](ids[row])) for i in (first, second)]
        parts = [f"{shorten_question(text)} in {name}" for name, text in found if text is not None]
        shown.append(f"{ids[row]!r}{' is ' if parts else ''}{' and '.join(parts)}")
    n_common = int(((asked > 0).sum(axis=1) > 1).sum())
    return DataError(
        f"{rows.size:,} of {n_common:,} common ids belong to different questions: {'; '.join(shown)}"
        f"{'; ...' if rows.size > SHOWN else ''}. Samples are matched by id, so nothing was compared. Evaluate the same "
        "rows with every system, with ids that name the same question in every file: --field id=COLUMN. To match by the "
        "question, name its column (--field id=question). To compare different traffic, use paired=False (--unpaired)"
    )
