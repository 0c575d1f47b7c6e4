"""The conditions of `--where`: comparisons of labels and scores, joined by `and`."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ragstone.errors import ConfigurationError
from ragstone.metrics import full_name
from ragstone.scoring import CAUSES
from ragstone.views import ReportView

_PART: Final = re.compile(
    r"""\s*(?:"(?P<quoted>[^"]*)"|(?P<key>[\w.@-]+))\s*(?P<operator><=|>=|!=|=|<|>|~)\s*(?:"(?P<double>[^"]*)"|'(?P<single>[^']*)'|(?P<bare>[^\s"']+))\s*"""
)
_AND: Final = re.compile(r"and\s", re.IGNORECASE)
_COMPARISONS: Final[Mapping[str, Callable[[float, float], bool]]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
CAUSE: Final = "cause"
"""The key of the cause of an answer (`NO_CAUSE` if it is not wrong)."""
NO_CAUSE: Final = "none"
_CAUSE_NAMES: Final = (*(cause.name for cause in CAUSES), NO_CAUSE)
_EXAMPLE: Final = "Example: release=2.4 and ccrs.ac<0.5"


@dataclass(frozen=True, slots=True)
class Condition:
    """One comparison."""

    key: str
    operator: str
    value: str

    @property
    def number(self) -> float | None:
        """The value as a number, or None."""
        return _number(self.value)

    def holds(self, labels: Mapping[str, Collection[str]], scores: Mapping[str, float]) -> bool:
        """Return whether the comparison holds for a sample. A sample without the key fulfills only `!=`."""
        if self.key in scores:
            return self._compares(scores[self.key])
        found = labels.get(self.key, ())
        match self.operator:
            case "=":
                return self.value in found
            case "!=":
                return self.value not in found
            case "~":
                return any(self.value.casefold() in text.casefold() for text in found)
        return any(self._compares(number) for text in found if (number := _number(text)) is not None)

    def _compares(self, value: float) -> bool:
        number, compare = self.number, _COMPARISONS.get(self.operator)
        return number is not None and compare is not None and compare(value, number)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def parse_where(text: str) -> tuple[Condition, ...]:
    """Parse `KEY OPERATOR VALUE [and KEY OPERATOR VALUE ...]`.

    Operators are =, !=, <, <=, >, >= and ~ (contains, without case). A value with spaces is quoted, and so is a metric
    with arguments: `"ccrs.ac@em_weight=0"<0.5`.
    """
    conditions, position = [], 0
    while True:
        match = _PART.match(text, position)
        if match is None:
            rest = text[position:].strip()
            raise ConfigurationError(
                f"--where must be KEY OPERATOR VALUE, joined by and, got {rest!r}"
                f"{f' after {text[:position].strip()!r}' if position else ''}. {_EXAMPLE}"
            )
        value = next(part for part in match.group("double", "single", "bare") if part is not None)
        condition = Condition(full_name(match["quoted"] or match["key"] or ""), match["operator"], value)
        if condition.operator in ("<", "<=", ">", ">=") and condition.number is None:
            raise ConfigurationError(
                f"--where {condition.key}{condition.operator} needs a number, got {value!r}. {_EXAMPLE}"
            )
        conditions.append(condition)
        position = match.end()
        if position >= len(text):
            return tuple(conditions)
        joined = _AND.match(text, position)
        if joined is None:
            raise ConfigurationError(f"--where conditions are joined by and, got {text[position:]!r}. {_EXAMPLE}")
        position = joined.end()


def are_fulfilled(
    conditions: Sequence[Condition],
    labels: Mapping[str, Collection[str]],
    cause: str | None,
    scores: Mapping[str, float | None],
) -> bool:
    """Return whether all conditions hold for a sample with these labels, cause and scores (None or NaN: no score)."""
    known = {key: value for key, value in scores.items() if value is not None and not math.isnan(value)}
    return all(condition.holds({**labels, CAUSE: (cause or NO_CAUSE,)}, known) for condition in conditions)


def select_questions(
    view: ReportView, where: str, *, since: float | None = None, until: float | None = None
) -> list[int]:
    """Return the numbers of the questions that conditions select, of those with a time from `since` to before `until`.

    Without a time, a question is selected only if neither is given. Raise ConfigurationError if the text is not a list
    of conditions, or no question has a key.
    """
    conditions = parse_where(where) if where.strip() else ()
    columns = {row.name: n for n, row in enumerate(view.metrics)}
    if conditions:
        check_keys(conditions, {key for row in view.questions for key, _ in row.facts} | columns.keys())
    first, last = -math.inf if since is None else since, math.inf if until is None else until
    compared = {key: columns[key] for condition in conditions if (key := condition.key) in columns}
    return [
        n
        for n, row in enumerate(view.questions)
        if (since is until is None or (row.time is not None and first <= row.time < last))
        and are_fulfilled(
            conditions, dict(row.facts), row.cause, {key: row.values[column] for key, column in compared.items()}
        )
    ]


def check_keys(conditions: Sequence[Condition], known: Collection[str]) -> None:
    """Check that every key occurs."""
    for condition in conditions:
        if condition.key == CAUSE and condition.value not in _CAUSE_NAMES:
            raise ConfigurationError(f"unknown cause {condition.value!r}. Causes: {', '.join(_CAUSE_NAMES)}")
        if condition.key not in {*known, CAUSE}:
            raise ConfigurationError(
                f"--where: no sample has {condition.key!r}. Keys: {', '.join(sorted(known)) or 'none'}"
            )
