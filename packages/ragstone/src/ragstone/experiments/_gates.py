"""Gates: their results as tables and files, and whether the mean of a metric reaches a threshold."""

from __future__ import annotations

import math
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Final, Literal
from xml.etree import ElementTree as ET

from typing_extensions import override

from ragstone._util.files import write_output
from ragstone._util.quantities import count
from ragstone._util.table import text_table
from ragstone.errors import ConfigurationError
from ragstone.experiments._cards import titles_of
from ragstone.experiments._checks import check_scales
from ragstone.experiments._outcomes import OutcomeSource, open_source
from ragstone.experiments._summary import check_level
from ragstone.experiments._table import FAILED, SCORED, ScoreTable, Side
from ragstone.metrics import MetricCard, full_name, selects
from ragstone.requests import finite_number
from ragstone.schema import Sample
from ragstone.settings import Analysis

Undecided = Literal["fail", "pass"]
State = Literal["reached", "missed", "undecided", "no score"]

_UNITS: Final = 2
"""Digits of an estimated number of samples."""
_NOT_XML: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 does not allow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GateCase:
    """One metric of a gate."""

    metric: str
    system: str
    """Name of the system, or an empty string if there is only one."""
    state: Literal["passed", "failed", "error"]
    """ "error": it cannot be tested."""
    value: str
    """What was measured."""
    verdict: str


class GateCheck(ABC):
    """The result of a gate: whether all metrics pass, as a table, and as files."""

    __slots__ = ()
    suite: ClassVar[str]
    """Name of the gate in JUnit XML."""

    @abstractmethod
    def cases(self) -> list[GateCase]:
        """Return the metrics of the gate."""

    @abstractmethod
    def head(self) -> str:
        """Return the first line of the table."""

    @property
    def ok(self) -> bool:
        """Whether all metrics pass."""
        return all(case.state == "passed" for case in self.cases())

    def write_junit(self, path: str | os.PathLike[str]) -> None:
        """Write the result as JUnit XML, one test case for each metric and system.

        Raises:
            ConfigurationError: If the file cannot be written.
        """
        cases, details = self.cases(), _xml(str(self))
        states = [case.state for case in cases]
        numbers = {"tests": len(cases), "failures": states.count("failed"), "errors": states.count("error")}
        counts = {key: str(n) for key, n in numbers.items()}
        root = ET.Element("testsuites", counts)
        suite = ET.SubElement(root, "testsuite", {"name": _xml(self.suite)} | counts)
        for case in cases:
            group = f"{self.suite}.{case.system}" if case.system else self.suite
            item = ET.SubElement(suite, "testcase", {"classname": _xml(group), "name": _xml(case.metric)})
            text = _xml(f"{case.value}: {case.verdict}")
            if case.state == "passed":
                ET.SubElement(item, "system-out").text = text
            else:
                kind = "failure" if case.state == "failed" else "error"
                ET.SubElement(item, kind, {"message": text}).text = details
        try:
            write_output(path, f"<?xml version='1.0' encoding='utf-8'?>\n{ET.tostring(root, encoding='unicode')}")
        except OSError as error:
            raise ConfigurationError(f"cannot write {os.fspath(path)!r}: {error.strerror}") from error

    def to_markdown(self) -> str:
        """Return the result as a Markdown table, for summaries of CI jobs."""
        from ragstone.views import Escaped, code_in_markdown, escape_markdown, table_in_markdown

        cases = sorted(self.cases(), key=lambda case: case.state == "passed")  # failed metrics first
        several = any(case.system for case in cases)
        rows = [
            (
                Escaped("passed" if case.state == "passed" else "**FAILED**"),
                Escaped(code_in_markdown(case.metric)),
                *([case.system] if several else []),
                case.value,
                case.verdict,
            )
            for case in cases
        ]
        head = ["result", "metric", *(["system"] if several else []), "measured", "verdict"]
        return "\n".join([f"### {escape_markdown(self.head())}", "", *table_in_markdown(head, rows), ""])


def _xml(text: str) -> str:
    return _NOT_XML.sub(" ", text)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreGate:
    """The result of one metric."""

    metric: str
    threshold: float
    """The mean that is demanded: at least this value, or at most if lower values are better."""
    higher_is_better: bool
    state: State
    """ "reached" and "missed" are shown by a confidence limit. "undecided": the data show neither. "no score": no
    sample has a score."""
    ok: bool
    mean: float | None
    """Mean of the scored samples."""
    low: float | None
    """Lower confidence limit of the mean, for the lowest scores of failed samples. None if unknown."""
    high: float | None
    """Upper confidence limit of the mean, for the highest scores of failed samples."""
    n_scored: int
    n_failed: int
    n_not_applicable: int
    n_more: int | None
    """Estimated number of additional samples that decide an undecided metric, if the mean stays the same. None if
    unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreCheck(GateCheck):
    """The result of a gate on means. `ok` says if all metrics pass, and `str()` is a table."""

    gates: tuple[ScoreGate, ...]
    undecided: Undecided
    confidence_level: float
    notes: tuple[str, ...] = ()

    suite: ClassVar[str] = "ragstone thresholds"

    @property
    def is_testable(self) -> bool:
        """Whether each failed metric failed because of its scores. False if some have no score, and all others pass."""
        return self.ok or any(not gate.ok and gate.state != "no score" for gate in self.gates)

    @override
    def cases(self) -> list[GateCase]:
        return [
            GateCase(
                metric=gate.metric,
                system="",
                state="passed" if gate.ok else "error" if gate.state == "no score" else "failed",
                value="no score" if gate.mean is None else f"{gate.mean:.3f} (n = {gate.n_scored:,})",
                verdict=describe(gate),
            )
            for gate in self.gates
        ]

    @override
    def head(self) -> str:
        n_bad = sum(not gate.ok for gate in self.gates)
        if n_bad:
            return f"FAILED on {n_bad} of {len(self.gates)} thresholds"
        is_open = any(gate.state == "undecided" for gate in self.gates)
        return "no threshold missed" if is_open else "all thresholds reached"

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {"ok": self.ok, **asdict(self)}

    def __str__(self) -> str:
        rows: list[tuple[str, ...]] = [("metric", "mean", "at least", "at most", "threshold", "n", "verdict")]
        # Failed metrics come first.
        rows += [_row(gate) for gate in sorted(self.gates, key=lambda gate: gate.ok)]
        table = text_table(rows, titles=titles_of(gate.metric for gate in self.gates))
        level = f"{100 * self.confidence_level:.4g}%"
        rule = (
            f'"at least" and "at most" are one-sided {level} confidence limits. A metric passes if its limit excludes all worse '
            f"means, fails if it excludes all better ones, and otherwise {'passes' if self.undecided == 'pass' else 'fails'} as "
            f"undecided (--set analysis.undecided={self.undecided})."
        )
        notes = [
            f"{gate.metric}: the limits contain any scores of {gate.n_failed:,} failed samples."
            for gate in self.gates
            if gate.n_failed and gate.n_scored
        ]
        notes += [
            f"{gate.metric}: not applicable to {gate.n_not_applicable:,} of "
            f"{count(gate.n_scored + gate.n_failed + gate.n_not_applicable, 'sample')}, which do not count."
            for gate in self.gates
            if gate.n_not_applicable and gate.n_scored
        ]
        return "\n".join([self.head(), "", table, "", rule, *notes, *self.notes])


def describe(gate: ScoreGate) -> str:
    """Describe the result of one metric in one sentence."""
    demanded = f"{'at least' if gate.higher_is_better else 'at most'} {gate.threshold:g}"
    match gate.state:
        case "reached":
            return f"{demanded} is shown"
        case "missed":
            return f"MISSED: the mean is {'below' if gate.higher_is_better else 'above'} {gate.threshold:g}"
        case "no score":
            why = f"all {gate.n_failed:,} samples failed" if gate.n_failed else "not applicable to any sample"
            return f"NO SCORE: {why}"
    more = f", about {gate.n_more:,} more samples would decide" if gate.n_more is not None else ""
    return f"{'UNDECIDED' if not gate.ok else 'undecided'}: neither shown nor excluded{more}"


def check_thresholds(thresholds: Mapping[str, float], cards: Iterable[MetricCard]) -> dict[str, float]:
    """Return the thresholds by metric, after checking them. A group's threshold applies to each of its metrics.

    Raise ConfigurationError if `thresholds` is empty, no metric has the name, or a threshold is not inside the range of
    its metric.
    """
    known = {card.name: card for card in cards}
    if not thresholds:
        raise ConfigurationError("a gate needs a threshold for at least one metric, such as ccrs.cc=0.8")
    found: dict[str, float] = {}
    for name, threshold in thresholds.items():
        own = [card for card in known.values() if selects(name, card.name, card)]
        if not own:
            raise ConfigurationError(
                f"a threshold for {name!r}, which is not scored. Scored metrics: {', '.join(sorted(known)) or 'none'}"
            )
        for card in own:
            if (number := finite_number(threshold)) is None or not card.low < number < card.high:
                raise ConfigurationError(
                    f"the threshold of {card.name} must be a number above {card.low:g} and below {card.high:g}, got "
                    f"{threshold!r}, because no sample can show that a mean is exactly at an end of its range. Give a "
                    f"value inside, such as {card.name}={_inside(card):g}"
                )
            if card.name not in found or full_name(name) == card.name:
                found[card.name] = number
    return found


def _inside(card: MetricCard) -> float:
    if math.isfinite(card.low) and math.isfinite(card.high):
        share = 0.8 if card.direction == "higher" else 0.2
        return card.low + share * (card.high - card.low)
    return card.low + 1 if math.isfinite(card.low) else 0.0


def check_source(
    source: OutcomeSource,
    thresholds: Mapping[str, float],
    analysis: Analysis,
    *,
    cards: Iterable[MetricCard] = (),
    samples: Iterable[Sample] = (),
) -> ScoreCheck:
    """Decide for each metric of a source if its mean reaches a threshold. See `Experiment.check`.

    `cards` are those of metrics that were to be scored, also if the source does not have an outcome of them, and
    `samples` those of a file of outcomes, for labels of clusters that it does not contain.
    """
    confidence_level, undecided = analysis.confidence_level, analysis.undecided
    check_level(confidence_level, decides_gate=True)
    opened = open_source(source, samples=samples, analysis=analysis, metrics=thresholds)
    table, clusters = opened.table(cards)
    checked = check_thresholds(thresholds, [metric.card for metric in table.metrics.values()])
    if not opened.argument:
        check_scales(table, checked, allowed=analysis.allow_different_judges)
    notes = [] if clusters is None else [f"limits treat whole clusters ({clusters.key}) as independent"]
    if table.probabilities is not None:
        notes.append("means and limits are weighted by 1 / sampling probability")
    cards = (table.metrics[name].card for name in checked)
    notes += [
        f"{card.name}: the threshold is for the mean of its value ({card.reachable}). One answer is {card.rule}."
        for card in cards
        if card.decided_by
    ]
    return ScoreCheck(
        gates=tuple(_decide(table, metric, threshold, analysis) for metric, threshold in checked.items()),
        undecided=undecided,
        confidence_level=confidence_level,
        notes=tuple(notes),
    )


def _decide(table: ScoreTable, name: str, threshold: float, analysis: Analysis) -> ScoreGate:
    """Decide if the mean of a metric reaches the threshold."""
    import numpy as np

    metric = table.metrics[name]
    sides: dict[Side, float] = {"lower": math.nan, "upper": math.nan}
    scored, mean = table.mean(metric, analysis.confidence_level), math.nan
    if scored is not None:
        mean = scored.value
        for side, ends in zip([*sides], metric.possible(), strict=True):
            rows = np.flatnonzero(~np.isnan(ends))
            if np.isfinite(ends[rows]).all():
                limit = table.estimate(
                    ends[rows],
                    rows,
                    low=metric.low,
                    high=metric.high,
                    confidence_level=analysis.confidence_level,
                    side=side,
                )
                sides[side] = math.nan if limit is None else limit.low if side == "lower" else limit.high
    low, high, is_higher = sides["lower"], sides["upper"], metric.higher_is_better
    state = _state(low, high, threshold, is_higher=is_higher) if scored is not None else "no score"
    needed = None
    if state == "undecided":
        n = metric.count(SCORED) + metric.count(FAILED)
        needed = _n_more(mean, low if mean > threshold else high, threshold, n)
    return ScoreGate(
        metric=name,
        threshold=threshold,
        higher_is_better=is_higher,
        state=state,
        ok=state == "reached" or (state == "undecided" and analysis.undecided == "pass"),
        mean=_known(mean),
        low=_known(low),
        high=_known(high),
        **metric.counts(),
        n_more=needed,
    )


def _state(low: float, high: float, threshold: float, *, is_higher: bool) -> State:
    """Compare both limits with the threshold. A limit that is NaN decides nothing."""
    is_above, is_below = (low >= threshold, high < threshold) if is_higher else (low > threshold, high <= threshold)
    if is_above or is_below:
        return "reached" if is_above == is_higher else "missed"
    return "undecided"


def _n_more(mean: float, limit: float, threshold: float, n: int) -> int | None:
    """Estimate how many more samples bring the limit of an unchanged mean to the threshold, with two digits."""
    if not (math.isfinite(limit) and math.isfinite(mean)) or mean == threshold:
        return None
    needed = n * ((mean - limit) / (mean - threshold)) ** 2 - n
    if not 0 < needed < 1e7:
        return None
    unit: int = 10 ** max(0, len(str(int(needed))) - _UNITS)
    return math.ceil(needed / unit) * unit


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _row(gate: ScoreGate) -> tuple[str, ...]:
    numbers = ["unknown" if value is None else f"{value:.3f}" for value in (gate.low, gate.high)]
    sign = ">=" if gate.higher_is_better else "<="
    mean = "no score" if gate.mean is None else f"{gate.mean:.3f}"
    return (gate.metric, mean, *numbers, f"{sign} {gate.threshold:g}", f"{gate.n_scored:,}", describe(gate))
