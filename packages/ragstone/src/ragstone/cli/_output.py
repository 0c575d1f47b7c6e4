"""Printing of results for terminals, pipes and programs."""

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
from ragstone.schema import DeliveryCounts, Evidence, Failure, Ledger, LedgerRow, NotApplicable, Score, describe_doubt
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
# DEL and the C1 control characters, marks that change the text direction, and lone surrogates.
_UNSHOWN = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_RULE = re.compile("( *-{2,})+")
"""Pattern of the line under a table's header."""
_STYLES = (
    ("bold red", "THE COUNTS DO NOT ADD UP|NOT READ TO ITS END|STOPPED|FAILED|no score|probe failed"),
    ("yellow", ".*which is not a judge.*|last error: .*|^(advice|  advice): "),
    ("green", "no regression found|^ragstone [a-z].*|(?<=  )yes(?=  |$)"),
    ("red", "(?<=  )no(?=  |$)"),
)
"""Styles on a terminal, by pattern."""
_RELEVANT = {"1": "relevant", "-1": "not relevant"}


def sanitize_for_terminal(text: str | None, *, width: int = 200) -> str:
    """Make captured text safe for a terminal: one line, no control characters, at most `width` characters."""
    if text is None:
        return "(none)"
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return line if len(line) <= width else line[: width - 1] + "…"


def print_text(value: object, *, err: bool = False) -> None:
    """Print a result as text, with bold and color on a terminal that has them.

    Names and reasons come from files and judges, so control characters become spaces. Line breaks stay. On a terminal,
    long lines are wrapped between words. A pipe gets them unwrapped.
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
        for style, pattern in _STYLES:
            text.highlight_regex(pattern, style)
        console.print(text)


def print_json(value: Any) -> None:
    """Print a result as JSON on stdout, with control characters and lone surrogates as JSON escapes."""
    text = json.dumps(value, ensure_ascii=False, indent=2, default=str)
    print(_UNSHOWN.sub(lambda match: f"\\u{ord(match[0]):04x}", text))


@contextmanager
def progress_bar(what: str) -> Iterator[Callable[[int, int], None]]:
    """Show progress on stderr: a bar on a terminal, otherwise a line every 100 items."""
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
    """Format the ledger as a table, followed by drops, sinks and inconsistencies."""
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
            f"THE COUNTS DO NOT ADD UP for {', '.join(map(sanitize_for_terminal, unbalanced))}. Please report this bug."
        )
    else:
        lines.append(" = ".join([names[0], " + ".join(names[1:])]))
    if ledger.oldest_pending_s is not None:
        lines.append(f"oldest pending trace: {ledger.oldest_pending_s:.0f} s")
    for reason, n in ledger.dropped_by_reason.items():
        lines.append(f"dropped, {sanitize_for_terminal(reason)}: {n}")
    lines += [_sink_line(sink, counts) for sink, counts in ledger.outbox.items()]
    if rules := ledger.rules.get("contexts"):
        counted = sorted(rules.items(), key=lambda item: -item[1])
        lines.append("contexts, by rule: " + ", ".join(f"{n} {sanitize_for_terminal(rule)}" for rule, n in counted))
    for reason, found in sorted(ledger.ignored.items(), key=lambda item: -item[1].n):
        example = f" (for example {sanitize_for_terminal(found.example)})" if found.example else ""
        lines.append(f"ignored, {sanitize_for_terminal(reason)}: {found.n}{example}")
    for doubt, n in ledger.doubts.items():
        lines.append(f"in doubt, {sanitize_for_terminal(doubt)}: {n}. {describe_doubt(doubt)}")
    return lines


def _evidence_lines(evidence: Evidence | None) -> list[str]:
    if evidence is None:
        return []
    rules = f"evidence: query {evidence.query}, contexts {evidence.contexts}, response {evidence.response}"
    return [rules, *(f"in doubt: {sanitize_for_terminal(doubt)}. {describe_doubt(doubt)}" for doubt in evidence.doubts)]


def _sink_line(sink: str, counts: DeliveryCounts) -> str:
    by_state = ((name, getattr(counts, name)) for name in ("pending", "sent", "skipped", "failed"))
    line = f"sink {sanitize_for_terminal(sink)}: " + ", ".join(
        f"{n} {name}" for name, n in by_state if n or name in ("pending", "sent")
    )
    if counts.oldest_pending_s is not None:
        line += f", oldest pending: {counts.oldest_pending_s:.0f} s"
    if counts.stopped is not None:
        return f"{line}, STOPPED: {sanitize_for_terminal(counts.stopped)}"
    return f"{line}, last error: {sanitize_for_terminal(counts.last_error)}" if counts.last_error else line


def failure_lines(outcomes: Iterable[object]) -> Iterator[str]:
    """Yield the first failure of each kind with its reason, which says how to fix it."""
    seen: set[str] = set()
    for outcome in outcomes:
        if isinstance(outcome, Failure) and outcome.kind not in seen:
            seen.add(outcome.kind)
            subject = f"{sanitize_for_terminal(outcome.metric)} of sample {sanitize_for_terminal(outcome.sample_id)}"
            yield f"{outcome.kind}, for example {subject}: {sanitize_for_terminal(outcome.reason, width=400)}"


def _passage_lines(details: Mapping[str, Any]) -> Iterator[str]:
    """Yield a line for each passage if the details have the structure of UDCG's."""
    passages = details.get("passages")
    for passage in passages if isinstance(passages, list) else ():
        # A third-party metric may store something else under this key.
        if not (isinstance(passage, dict) and {"position", "utility", "p_abstain"} <= passage.keys()):
            continue
        source = f" ({sanitize_for_terminal(passage['label_source'])})" if passage.get("label_source") else ""
        relevant = _RELEVANT.get(str(passage.get("relevance")), "not labeled")
        line = f"  passage {passage.get('position')}: {relevant}{source}, utility {_or_dash(passage.get('utility'), sign='+')}"
        if passage.get("distracting_effect") is not None:
            line += f", distracting effect {_or_dash(passage['distracting_effect'])}"
        line += f", p(abstain) {_or_dash(passage.get('p_abstain'))}"
        if passage.get("interval") is not None:
            low, high = passage["interval"]
            line += f" [{low:.3f}, {high:.3f}] {sanitize_for_terminal(passage.get('interval_method'))}"
        if passage.get("method") is not None:
            line += f" ({sanitize_for_terminal(passage['method'])}, n={passage.get('n')})"
        yield line


def _or_dash(value: float | None, *, sign: str = "") -> str:
    return "unknown" if value is None else f"{value:{sign}.3f}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceLines:
    """The report of one trace, as text and as JSON."""

    report: TraceReport

    def as_text(self) -> list[str]:
        """Return lines for a terminal."""
        report = self.report
        lines = [f"trace {sanitize_for_terminal(report.trace_id)}: {report.state}"]
        lines += [f"  {sanitize_for_terminal(reason)}" for reason in report.reasons]
        if report.trace is not None:
            lines += [
                f"query:    {sanitize_for_terminal(report.trace.query)}",
                f"response: {sanitize_for_terminal(report.trace.response)}",
            ]
            lines += _evidence_lines(report.trace.evidence)
        for outcome in report.outcomes:
            if isinstance(outcome, Score):
                interval = outcome.interval
                bounds = "" if interval is None else f" [{interval.low:.3f}, {interval.high:.3f}] {interval.method}"
                text = f"{outcome.value:.3f}{bounds} ({outcome.method})"
            else:
                text = f"{outcome.outcome}: {sanitize_for_terminal(outcome.reason)}"
            lines.append(f"{outcome.metric}: {text}")
            lines += _passage_lines({} if isinstance(outcome, NotApplicable) else outcome.details)
        if is_baseline(*(outcome.judge for outcome in report.outcomes)):
            lines.append(BASELINE_NOTE)
        return lines

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
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
    """Format the report of a trace."""
    return TraceLines(report=report)
