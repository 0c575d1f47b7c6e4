"""What commands print."""

from __future__ import annotations

import itertools
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ragstone._util.table import text_table
from ragstone.judges import BASELINE_NOTE, is_baseline
from ragstone.schema import DeliveryCounts, Failure, Ledger, LedgerRow, NotApplicable, Score
from ragstone.store import TraceReport

__all__ = [
    "TraceLines",
    "failure_lines",
    "ledger_lines",
    "print_json",
    "print_text",
    "progress_bar",
    "sanitize_for_terminal",
    "trace_lines",
]

_COLUMNS = ("captured", "scored", "sampled_out", "not_applicable", "failed", "dropped", "pending")
_LOGGED_EVERY = 100
# Delete and the second set of control characters, marks that turn the direction of text, and lone surrogates.
_UNSHOWN = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_RULE = re.compile("( *-{2,})+")
"""The line under the header of a table."""
_STYLES = (
    ("bold red", "THE COUNTS DO NOT ADD UP|NOT READ TO ITS END|STOPPED|FAILED|no score|cannot be asked"),
    ("yellow", ".*it is not a judge|last error: .*|^(advice|  advice): "),
    ("green", "no regression found|^ragstone [a-z].*|(?<=  )yes(?=  |$)"),
    ("red", "(?<=  )no(?=  |$)"),
)
"""What stands out on a terminal, and how."""
_RELEVANT = {"1": "relevant", "-1": "not relevant"}


def sanitize_for_terminal(text: str | None, *, width: int = 200) -> str:
    """Make captured text safe for a terminal: one line, no control characters, at most `width` characters."""
    if text is None:
        return "(none)"
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return line if len(line) <= width else line[: width - 1] + "…"


def print_text(value: object, *, err: bool = False) -> None:
    """Print a result as text, with bold and color on a terminal that has them.

    Names and reasons come from files and judges: line breaks stay, control characters become spaces. On a terminal long
    lines are wrapped between words; a pipe gets them whole.
    """
    lines = ["".join(c if c.isprintable() else " " for c in line) for line in str(value).split("\n")]
    from rich.console import Console

    console = Console(stderr=err, highlight=False, markup=False, emoji=False)
    if not console.is_terminal or console.is_dumb_terminal or console.no_color:
        print("\n".join(lines), file=sys.stderr if err else None)
        return
    from rich.text import Text

    for line, following in itertools.zip_longest(lines, lines[1:], fillvalue=""):
        text = Text(line)
        if _RULE.fullmatch(line):
            text.stylize("dim")
        elif _RULE.fullmatch(following):
            text.stylize("bold")
        for style, words in _STYLES:
            text.highlight_regex(words, style)
        console.print(text)


def print_json(value: Any) -> None:
    """Print a result as JSON on stdout; what a terminal would obey, or could not show, as escapes of JSON."""
    text = json.dumps(value, ensure_ascii=False, indent=2, default=str)
    print(_UNSHOWN.sub(lambda found: f"\\u{ord(found[0]):04x}", text))


@contextmanager
def progress_bar(what: str) -> Iterator[Callable[[int, int], None]]:
    """Show progress on stderr: a bar on a terminal, a line now and then elsewhere."""
    if not sys.stderr.isatty():

        def log(done: int, total: int) -> None:
            if done == total or done % _LOGGED_EVERY == 0:
                print(f"{what}: {done} of {total}", file=sys.stderr)

        yield log
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def ledger_lines(ledger: Ledger) -> list[str]:
    """The ledger as a table, and what deserves attention under it."""
    rows: list[tuple[str, LedgerRow]] = [("traces", ledger.total), *ledger.metrics.items()]
    names = [column.replace("_", " ") for column in _COLUMNS]
    table = [
        ("", *names),
        *((sanitize_for_terminal(name), *(str(getattr(row, c)) for c in _COLUMNS)) for name, row in rows),
    ]
    lines = [text_table(table, align="l" + "r" * len(_COLUMNS)), ""]
    unbalanced = [name for name, row in rows if not row.balanced]
    if unbalanced:
        lines.append(
            f"THE COUNTS DO NOT ADD UP for {', '.join(map(sanitize_for_terminal, unbalanced))}: please report this as a bug"
        )
    else:
        lines.append(" = ".join([names[0], " + ".join(names[1:])]))
    if ledger.oldest_pending_s is not None:
        lines.append(f"oldest pending trace: {ledger.oldest_pending_s:.0f} s")
    for reason, n in ledger.dropped_by_reason.items():
        lines.append(f"dropped, {sanitize_for_terminal(reason)}: {n}")
    lines += [_sink_line(sink, books) for sink, books in ledger.outbox.items()]
    return lines


def _sink_line(sink: str, books: DeliveryCounts) -> str:
    counts = ((name, getattr(books, name)) for name in ("pending", "sent", "skipped", "failed"))
    line = f"sink {sanitize_for_terminal(sink)}: " + ", ".join(
        f"{n} {name}" for name, n in counts if n or name in ("pending", "sent")
    )
    if books.oldest_pending_s is not None:
        line += f"; the oldest waits for {books.oldest_pending_s:.0f} s"
    if books.stopped is not None:
        return f"{line}; STOPPED: {sanitize_for_terminal(books.stopped)}"
    return f"{line}; last error: {sanitize_for_terminal(books.last_error)}" if books.last_error else line


def failure_lines(outcomes: Iterable[object]) -> Iterator[str]:
    """The first failure of each kind, in its own words: they say what to do about it."""
    seen: set[str] = set()
    for outcome in outcomes:
        if isinstance(outcome, Failure) and outcome.kind not in seen:
            seen.add(outcome.kind)
            what = f"{sanitize_for_terminal(outcome.metric)} of sample {sanitize_for_terminal(outcome.sample_id)}"
            yield f"{outcome.kind}, for example {what}: {sanitize_for_terminal(outcome.reason, width=400)}"


def _passage_lines(details: Mapping[str, Any]) -> Iterator[str]:
    """What was found about each passage, where an outcome's details tell as UDCG's do."""
    passages = details.get("passages")
    for found in passages if isinstance(passages, list) else ():
        # A metric from elsewhere may keep something else under this name.
        if not (isinstance(found, dict) and {"position", "utility", "p_abstain"} <= found.keys()):
            continue
        source = f" ({sanitize_for_terminal(found['label_source'])})" if found.get("label_source") else ""
        relevant = _RELEVANT.get(str(found.get("relevance")), "not labelled")
        line = (
            f"  passage {found.get('position')}: {relevant}{source}, utility {_or_dash(found.get('utility'), sign='+')}"
        )
        if found.get("distracting_effect") is not None:
            line += f", distracting effect {_or_dash(found['distracting_effect'])}"
        line += f", p(abstain) {_or_dash(found.get('p_abstain'))}"
        if found.get("interval") is not None:
            low, high = found["interval"]
            line += f" [{low:.3f}, {high:.3f}] {sanitize_for_terminal(found.get('interval_method'))}"
        if found.get("method") is not None:
            line += f" ({sanitize_for_terminal(found['method'])}, n={found.get('n')})"
        yield line


def _or_dash(value: float | None, *, sign: str = "") -> str:
    return "unknown" if value is None else f"{value:{sign}.3f}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceLines:
    """A trace's story, for people and for programs."""

    report: TraceReport

    def as_text(self) -> list[str]:
        """Lines for a terminal."""
        report = self.report
        lines = [f"trace {sanitize_for_terminal(report.trace_id)}: {report.state}"]
        lines += [f"  {sanitize_for_terminal(reason)}" for reason in report.reasons]
        if report.trace is not None:
            lines += [
                f"question: {sanitize_for_terminal(report.trace.query)}",
                f"answer:   {sanitize_for_terminal(report.trace.response)}",
            ]
        for outcome in report.outcomes:
            if isinstance(outcome, Score):
                span = outcome.interval
                within = "" if span is None else f" [{span.low:.3f}, {span.high:.3f}] {span.method}"
                what = f"{outcome.value:.3f}{within} ({outcome.method})"
            else:
                what = f"{outcome.outcome}: {sanitize_for_terminal(outcome.reason)}"
            lines.append(f"{outcome.metric}: {what}")
            lines += _passage_lines({} if isinstance(outcome, NotApplicable) else outcome.details)
        if is_baseline(*(outcome.judge for outcome in report.outcomes)):
            lines.append(BASELINE_NOTE)
        return lines

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        report = self.report
        return {
            "trace_id": report.trace_id,
            "state": report.state,
            "reasons": list(report.reasons),
            "attempts": report.attempts,
            "trace": None if report.trace is None else report.trace.model_dump(mode="json"),
            "judge_is_baseline": is_baseline(*(o.judge for o in report.outcomes)),
            "outcomes": [o.model_dump(mode="json") for o in report.outcomes],
        }


def trace_lines(report: TraceReport) -> TraceLines:
    """Tell a trace's story."""
    return TraceLines(report=report)
