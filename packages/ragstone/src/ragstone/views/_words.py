"""Numbers and names as all renderers write them."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

from ragstone._util.quantities import count
from ragstone.stats import Estimate
from ragstone.views._model import (
    CauseRow,
    Difference,
    MetricRow,
    PassageView,
    ReportView,
    RunRow,
    ScoreView,
    SliceTable,
    Span,
    SpentRow,
    TrendView,
)

ANSWERS_FIRST_BELOW: Final = 5
"""With fewer samples, a report starts with the answers."""
_NARROW: Final = 0.015
"""Intervals narrower than this are written with one more decimal."""
_JUDGE_CHARS: Final = 100
_SENTENCE_END: Final = re.compile(r"(?<=[^.]\.) (?=[A-Z0-9])")
_BLOCKS: Final = "▁▂▃▄▅▆▇█"
_ASCII_BLOCKS: Final = ".:-=+*#@"


def _decimals(estimate: Estimate) -> int:
    return 3 if estimate.high - estimate.low < _NARROW else 2


def format_mean(estimate: Estimate) -> str:
    """Write a mean with two decimals, or three if its interval is narrow.

    Examples:
        >>> format_mean(Estimate(value=0.8, low=0.75, high=0.84, confidence_level=0.95, method="betting", n=300))
        '0.80'
    """
    return f"{estimate.value:.{_decimals(estimate)}f}"


def format_interval(estimate: Estimate) -> str:
    """Write an interval with the decimals of its mean. An open end is written as an infinity sign."""
    decimals = _decimals(estimate)
    return "[" + ", ".join(_end(end, decimals) for end in (estimate.low, estimate.high)) + "]"


def _end(value: float, decimals: int) -> str:
    if math.isinf(value):
        return "-∞" if value < 0 else "∞"
    return f"{value:.{decimals}f}"


FINDING_MARKS: Final = {"better": "▲", "worse": "▼", "not significant": "●"}
"""Marks of findings, which always stand next to the word or its number."""


def difference_span(rows: Sequence[Difference]) -> float:
    """Return the largest end of an interval, as a share of the metric's range, for a common axis. At least 0.02.

    Unbounded metrics do not have a share. They have an axis of their own.
    """
    ends = [
        abs(end) / row.width
        for row in rows
        if not math.isinf(row.width)
        for end in (row.difference, row.low, row.high)
        if end is not None
    ]
    return max([0.02, *ends])


def own_span(row: Difference) -> float:
    """Return the largest end of an interval in the metric's own units, for an unbounded metric."""
    ends = [abs(end) for end in (row.difference, row.low, row.high) if end is not None and not math.isinf(end)]
    return max(ends, default=0.0) or 1.0


def format_day(time: float) -> str:
    """Write the day of a time (Unix seconds) in UTC: "3 Nov 2026"."""
    day = datetime.fromtimestamp(time, tz=UTC)
    return f"{day.day} {day:%b %Y}"


def format_length(seconds: float) -> str:
    """Write the length of a part of the time: "1 hour", "3 days"."""
    hours = round(seconds / 3600)
    return count(hours, "hour") if hours < 24 else count(round(hours / 24), "day")


def trend_note(trend: TrendView) -> str:
    """Describe the parts of means over time, and the releases."""
    text = f"Parts of {format_length(trend.part_s)}, joined if they have fewer than 20 scores. Intervals are for each part by itself."
    if trend.releases:
        text += f" Releases: {', '.join(f'{mark.name} ({format_day(mark.time)})' for mark in trend.releases)}."
    return text


def levels(values: Sequence[float], axis: tuple[float, float], *, ascii_only: bool = False) -> str:
    """Draw values in one line of characters, on an axis."""
    low, high = axis
    blocks = _ASCII_BLOCKS if ascii_only else _BLOCKS
    shares = ((min(max(value, low), high) - low) / (high - low) for value in values)
    return "".join(blocks[min(int(share * len(blocks)), len(blocks) - 1)] for share in shares)


def format_score(value: float | None) -> str:
    """Write a single score, or "n.a." without one."""
    return "n.a." if value is None else f"{value:.2f}"


def score_text(score: ScoreView) -> str:
    """Write the score of an answer, or why there is none."""
    return "failed" if score.outcome == "failure" else format_score(score.value)


def plain_response(response: Sequence[Span]) -> str:
    """Return an answer as text, with its unsupported parts marked."""
    return " ".join(f"{span.text.strip()}{' [unsupported]' if span.unsupported else ''}" for span in response)


def passages_title(passages: Sequence[PassageView] | None) -> str:
    """Return the heading of the passages of an answer."""
    if passages is None:
        return "The passages are not known"
    return "The passages, in the order of the prompt" if passages else "No passages were retrieved"


def letter(number: int) -> str:
    """Return the mark of a system by its number: a to z, then aa.

    Examples:
        >>> [letter(number) for number in (0, 25, 26)]
        ['a', 'z', 'aa']
    """
    return (letter(number // 26 - 1) if number >= 26 else "") + chr(ord("a") + number % 26)


def describe_subject(view: ReportView) -> str:
    """Write what a report is about in one line: the number of samples, the days, and the judges."""
    made = view.provenance
    about = [count(view.n_samples, "sample")]
    if made.since is not None and made.until is not None:
        about.append(" to ".join(dict.fromkeys(map(format_day, (made.since, made.until)))))
    if made.judges:
        about.append(f"judge {list_judges(made.judges)}")
    return ", ".join(about)


def list_judges(judges: Sequence[str]) -> str:
    """Write the names of judges in one line, each of at most 100 characters."""
    return ", ".join(name if len(name) <= _JUDGE_CHARS else f"{name[: _JUDGE_CHARS - 1]}…" for name in judges)


def divide_rows(rows: Sequence[MetricRow]) -> tuple[tuple[MetricRow, ...], tuple[MetricRow, ...]]:
    """Divide metrics into those with a score or a failure, and those that do not apply to any sample.

    If none of them applies, all are in the first part.
    """
    shown = tuple(row for row in rows if row.n_scored or row.n_failed)
    return (shown, tuple(row for row in rows if row not in shown)) if shown else (tuple(rows), ())


def describe_rules(rows: Sequence[MetricRow]) -> list[str]:
    """Say which value decides about the scores of a metric, if that is not the score, and how many do not have it."""
    lines = []
    for row in rows:
        unknown = (
            f"{count(row.n_undecided, 'score does', 'scores do')} not have it, and no color" if row.n_undecided else ""
        )
        if text := "; ".join(filter(None, (row.rule, unknown))):
            lines.append(f"{row.name}: {text}.")
    return lines


def describe_table_without_wrong(table: SliceTable, wrong: str) -> str | None:
    """Say in one sentence that no answer of a table is wrong. None if one is. `wrong` is that of the report."""
    if any(row.n_wrong for row in table.rows):
        return None
    return f"By {table.key}: of {count(len(table.rows), 'value')}, none has {wrong}."


def describe_low(scores: Sequence[ScoreView]) -> str:
    """Name the low scores of an answer: what is known about an answer without a cause."""
    low, unknown = (
        ", ".join(f"{score.title} {format_score(score.value)}" for score in scores if score.is_low is state)
        for state in (True, None)
    )
    texts = [f"Low: {low}."] if low else []
    if unknown:
        texts.append(f"Not known whether low: {unknown}.")
    return " ".join(texts) or ("No score is low." if any(score.value is not None for score in scores) else "")


def format_share(share: Estimate) -> str:
    """Write a share and its interval in percent: "16 % [13, 21]", or "0.0 % [0.0, 0.3]" if the interval is narrow."""
    decimals = 1 if share.high - share.low < _NARROW else 0
    ends = (round(100 * end, decimals) + 0.0 for end in (share.value, share.low, share.high))  # no "-0"
    value, low, high = (f"{end:.{decimals}f}" for end in ends)
    return f"{value} % [{low}, {high}]"


def cause_rows(causes: Mapping[str, Sequence[CauseRow]]) -> list[tuple[str, ...]]:
    """Return the title of each cause, and its number of answers in each system."""
    titles = {row.cause: row.title for rows in causes.values() for row in rows}
    numbers = [
        {row.cause: f"{row.n:,} ({format_share(row.share)})" if row.share else f"{row.n:,}" for row in rows}
        for rows in causes.values()
    ]
    return [(title, *(by.get(cause, "0") for by in numbers)) for cause, title in titles.items()]


SPENT_TITLES: Final = {"latency_s": "latency", "tokens": "tokens", "cost_usd": "cost"}
_SPENT_UNITS: Final = {"latency_s": "{:.2f} s", "tokens": "{:,.0f}", "cost_usd": "{:.3g} USD"}


def spent_cells(row: SpentRow) -> tuple[str, str, str]:
    """Write what the application needed for an answer: the median, its interval, and of how many answers it is known."""
    value, interval, n = "unknown", "", 0
    if (found := row.estimate) is not None:
        value, *ends = (_SPENT_UNITS[row.name].format(number) for number in (found.value, found.low, found.high))
        interval, n = f"[{', '.join(end.partition(' ')[0] for end in ends)}]", found.n
    reason = ""
    if interval and found is not None and found.method == "range":
        interval, reason = "", ", too few independent answers for an interval"
    least = "at least " if n < row.n else ""
    total = "" if row.total is None else f", {least}{_SPENT_UNITS[row.name].format(row.total)} in all"
    return value, interval, f"{n:,} of {row.n:,} known{total}{reason}"


def describe_spent(row: SpentRow) -> str:
    """Write what the application needed for an answer in one line: "latency 1.20 s [1.10, 1.30] (98 of 100 known)"."""
    value, interval, known = spent_cells(row)
    return f"{SPENT_TITLES[row.name]} {value}{interval and ' '}{interval} ({known})"


def short_titles(titles: Mapping[str, str]) -> dict[str, str]:
    """Shorten display names for narrow tables: without the part in parentheses, if that is unique.

    Examples:
        >>> short_titles({"udcg": "Passage utility (UDCG)", "ccrs.cc": "Contextual coherence"})
        {'udcg': 'Passage utility', 'ccrs.cc': 'Contextual coherence'}
    """
    short = {name: re.sub(r" \([^()]*\)$", "", title) for name, title in titles.items()}
    occurrences = Counter(short.values())
    return {name: text if occurrences[text] == 1 else titles[name] for name, text in short.items()}


def split_sentence(text: str) -> tuple[str, str]:
    """Split a text after its first sentence. A name in it may end with points, as that of a period does.

    Examples:
        >>> split_sentence("now.db@-7d.. is better than old.db. 4 of 9 answers abstain.")
        ('now.db@-7d.. is better than old.db.', '4 of 9 answers abstain.')
    """
    parts = _SENTENCE_END.split(text, maxsplit=1)
    return parts[0], parts[1] if len(parts) > 1 else ""


def sparkline(counts: tuple[int, ...], width: int, *, ascii_only: bool = False) -> str:
    """Draw a histogram in `width` characters, a divisor of the number of parts. Empty parts are spaces."""
    if not counts:
        return ""
    size = len(counts) // width
    merged = [sum(counts[start : start + size]) for start in range(0, len(counts), size)]
    most = max(merged) or 1
    blocks = _ASCII_BLOCKS if ascii_only else _BLOCKS
    return "".join(" " if n == 0 else blocks[math.ceil(n / most * len(blocks)) - 1] for n in merged)


def bar(n: int, most: int, width: int, *, ascii_only: bool = False) -> str:
    """Draw a bar whose length is proportional to `n`. A number above 0 is visible."""
    return ("#" if ascii_only else "█") * (0 if n == 0 else max(1, round(width * n / max(most, 1))))


def run_table(runs: Sequence[RunRow]) -> list[tuple[str, ...]]:
    """Return the rows of a table of runs, headings first. A row of one cell is a break: what changed before the next run."""
    metrics = list(dict.fromkeys(metric for run in runs for metric, mean in run.means.items() if mean is not None))
    spent = list(dict.fromkeys(row.name for run in runs for row in run.spent if row.estimate is not None))
    rows: list[tuple[str, ...]] = [("run", "date", *metrics, *(f"{SPENT_TITLES[name]} (median)" for name in spent))]
    for run in runs:
        rows += [(f"{run.change}:",)] if run.change else []
        means = [run.means.get(metric) for metric in metrics]
        medians = {row.name: " ".join(spent_cells(row)[:2]) for row in run.spent if row.estimate is not None}
        cells = ("" if mean is None else f"{format_mean(mean)} {format_interval(mean)}" for mean in means)
        rows.append((run.name, format_day(run.time), *cells, *(medians.get(name, "") for name in spent)))
    return rows
