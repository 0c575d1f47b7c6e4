"""Tests of hypotheses stated before looking at the data, corrected for their number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from ragstone.errors import ConfigurationError
from ragstone.experiments._compare.pairs import permute_pairs
from ragstone.experiments._table import MetricScores, ScoreTable
from ragstone.metrics import full_name, split_metrics
from ragstone.settings import Analysis
from ragstone.stats import holm

Hypotheses = Mapping[str, str | Sequence[str]] | Sequence[str]
"""Terms by the hypothesis's name, or a sequence of terms, each a separate hypothesis. A term is "B > A" (B is better
than A) or "B != A", on all metrics, or on those that are named: "B > A on ccrs.qr, ccrs.ir". "on some metric" and "on
some of ccrs.qr, ccrs.ir" state at least one of them. `or` joins pairs of which at least one is stated ("C > A or D > B
on some metric"), and `and` joins terms that are all stated."""

_OPERATORS: Final = ("!=", ">")
_AND: Final = " and "
_OR: Final = " or "
_SOME: Final = "some metric"
_SOME_OF: Final = "some of"


@dataclass(frozen=True, slots=True, kw_only=True)
class HypothesisTerm:
    """One term of a hypothesis: two systems on one metric. Of several pairs or metrics, at least one is stated."""

    system: str
    """The system. Of several pairs, those before the operator, joined by " or "."""
    other: str
    metric: str
    """The metric, or "some of" several."""
    directed: bool
    """Whether `system` is stated to be better. Otherwise the term states only a difference."""
    p_value: float | None
    """P-value of this term alone, or None if untestable. Of several pairs or metrics, that of the largest difference in
    standard deviations."""
    n: int
    """Number of samples with a score of both systems, for the pair and metric with the smallest p-value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hypothesis:
    """A hypothesis, which is supported only if all its terms are."""

    name: str
    claims: tuple[HypothesisTerm, ...]
    p_value: float
    """The largest p-value of the terms. An untestable term counts as 1."""
    adjusted: float
    """P-value after Holm's correction for the number of hypotheses."""
    supported: bool


def judge_hypotheses(table: ScoreTable, hypotheses: Hypotheses, analysis: Analysis) -> tuple[Hypothesis, ...]:
    """Test hypotheses, so that the probability of supporting any false one is at most 1 - the confidence level.

    A hypothesis is supported only if all its terms are, so its p-value is the largest of its terms, and the terms do
    not need a correction (intersection-union test). Hypotheses are corrected with Holm's procedure.

    Source:
        Berger 1982 (largest p-value). Holm 1979. CCRS, section 4.2, uses the largest of p-values adjusted for all
        pairs, which is more conservative than needed.
    """
    if isinstance(hypotheses, str):
        hypotheses = [hypotheses]
    if not isinstance(hypotheses, Mapping):
        hypotheses = {text: text for text in hypotheses}
    tested = []
    for name, texts in hypotheses.items():
        parts = [part for text in ([texts] if isinstance(texts, str) else texts) for part in _read(text, table)]
        if not parts:
            raise ConfigurationError(f"the hypothesis {name!r} is empty. Give it terms such as {_example(table)!r}.")
        claims = tuple(_test(part, table, analysis) for part in parts)
        tested.append((name, claims, max(1.0 if c.p_value is None else c.p_value for c in claims)))
    corrected = holm([p for _, _, p in tested], confidence_level=analysis.confidence_level)
    return tuple(
        Hypothesis(name=name, claims=claims, p_value=p, adjusted=adjusted, supported=supported)
        for (name, claims, p), adjusted, supported in zip(tested, corrected.adjusted, corrected.rejected, strict=True)
    )


class _Term(NamedTuple):
    """What a term states: at least one pair differs on at least one metric."""

    pairs: list[tuple[int, int]]
    directed: bool
    metrics: list[MetricScores]


def _read(text: str, table: ScoreTable) -> list[_Term]:
    """Parse a hypothesis. Names of systems may contain "and", so the longest text that is a term counts."""
    terms: list[_Term] = []
    parts = text.split(_AND)
    while parts:
        refused: ConfigurationError | None = None
        for end in range(len(parts), 0, -1):
            try:
                found = _read_term(_AND.join(parts[:end]), table)
            except ConfigurationError as error:
                found, refused = None, error  # a shorter text may be a term: "B > A on ccrs.qr and C > A"
            if found is not None:
                terms += found
                parts = parts[end:]
                break
        else:
            raise refused or ConfigurationError(
                f"{_AND.join(parts)!r} is not a hypothesis about these systems ({', '.join(map(repr, table.systems))}). Write "
                f"{_example(table)!r} for better, '!=' for different, and append 'on METRIC, METRIC' or 'on {_SOME}' "
                "to select metrics. 'or' joins pairs, 'and' joins terms."
            )
    return terms


def _read_term(text: str, table: ScoreTable) -> list[_Term] | None:
    """Parse pairs that "or" joins, and their metrics. None if this is not a term."""
    body, on, names = text.rpartition(" on ")
    for written, metrics in ((text, None), (body, names.strip())) if on else ((text, None),):
        pairs: list[tuple[int, int]] = []
        operators: set[str] = set()
        waiting = ""
        for part in written.split(_OR):
            # The name of a system may contain "or".
            waiting = f"{waiting}{_OR}{part}" if waiting else part
            if (found := _read_pair(waiting, table)) is not None:
                pairs.append(found[0])
                operators.add(found[1])
                waiting = ""
        if pairs and not waiting:
            if len(operators) > 1:
                raise ConfigurationError(f"{text!r} joins '>' and '!=' by 'or'. Use one of them in a term")
            return [_Term(pairs, operators == {">"}, chosen) for chosen in _chosen(metrics, text, table)]
    return None


def _read_pair(text: str, table: ScoreTable) -> tuple[tuple[int, int], str] | None:
    """Parse two systems and the operator between them, which the names of systems may contain too."""
    columns = {name: i for i, name in enumerate(table.systems)}
    for operator in _OPERATORS:
        pieces = text.split(operator)
        for cut in range(1, len(pieces)):
            left, right = operator.join(pieces[:cut]).strip(), operator.join(pieces[cut:]).strip()
            if left in columns and right in columns and left != right:
                return (columns[left], columns[right]), operator
    return None


def _chosen(names: str | None, text: str, table: ScoreTable) -> list[list[MetricScores]]:
    """Return lists of metrics: of each list, at least one metric must differ."""
    if names is None:
        return [[metric] for metric in table.metrics.values()]
    if names == _SOME:
        return [list(table.metrics.values())]
    named = [full_name(name) for name in split_metrics(names.removeprefix(_SOME_OF))]
    if not named:
        raise ConfigurationError(f"the hypothesis {text!r} names no metric. Write 'on METRIC, METRIC' or 'on {_SOME}'")
    if unknown := [name for name in named if name not in table.metrics]:
        raise ConfigurationError(
            f"unknown metric {unknown[0]!r} in the hypothesis {text!r}. Compared: {', '.join(table.metrics)}."
        )
    found = [table.metrics[name] for name in named]
    return [found] if names.startswith(_SOME_OF) else [[metric] for metric in found]


def _example(table: ScoreTable) -> str:
    return f"{table.systems[1]} > {table.systems[0]}"


def _test(term: _Term, table: ScoreTable, analysis: Analysis) -> HypothesisTerm:
    columns = sorted({column for pair in term.pairs for column in pair})
    tables = permute_pairs(
        # The sign makes higher values better for every metric.
        [(1 if metric.higher_is_better else -1) * metric.values[:, columns] for metric in term.metrics],
        table,
        [(columns.index(first), columns.index(second)) for first, second in term.pairs],
        analysis,
        "greater" if term.directed else "two-sided",
    )
    # P-values are adjusted for all these pairs and metrics, so the smallest one is that of the global test.
    result = min(
        (pair for tested in tables for pair in tested.pairs),
        key=lambda each: 1.0 if each.p_value is None else each.p_value,
    )
    names = ", ".join(metric.name for metric in term.metrics)
    return HypothesisTerm(
        system=_OR.join(dict.fromkeys(table.systems[first] for first, _ in term.pairs)),
        other=_OR.join(dict.fromkeys(table.systems[second] for _, second in term.pairs)),
        metric=names if len(term.metrics) == 1 else f"{_SOME_OF} {names}",
        directed=term.directed,
        p_value=result.p_value,
        n=result.n,
    )
