"""Printing of results for terminals, pipes and programs."""

from __future__ import annotations

import itertools
import json
import re
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NoReturn

import typer

from ragstone._util.ascii import without_controls
from ragstone._util.quantities import count
from ragstone._util.short_json import shorten
from ragstone._util.table import text_table
from ragstone.cli._exit_codes import ExitCode
from ragstone.judges import BASELINE_NOTE, amounts_of, is_baseline
from ragstone.schema import (
    BrokerStatus,
    DeliveryCounts,
    Failure,
    Ledger,
    LedgerRow,
    Outcome,
    Score,
    Usage,
    describe_doubt,
)
from ragstone.store import TraceReport
from ragstone.worker import describe_reached

if TYPE_CHECKING:
    from rich.text import Text

    from ragstone.scoring import JudgedCounts

_ENDS = {
    "error": "An exception ended the request.",
    "truncated": "Its answer was not read to the end: a stream was closed, or a generator was dropped.",
    "abandoned": "Its stream was never read, or it did not end.",
    "interrupted": "It waits for a person.",
}
"""Why requests that did not end normally usually do not have an answer to score, by `Trace.status`."""
_COLUMNS = ("captured", "scored", "sampled_out", "not_applicable", "failed", "dropped", "pending")
_MAX_REASON = 400
"""Maximum length of a reason on the terminal. Files and sinks contain all of it."""
# DEL and the C1 control characters, marks that change the text direction, and lone surrogates.
_UNSHOWN = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_RULE = re.compile("(?: *-{2,}+)++")
"""Pattern of the line under a table's header."""
_STYLES = (
    ("bold red", "THE COUNTS DO NOT ADD UP|NOT READ TO ITS END|STOPPED|FAILED|no score|probe failed"),
    ("yellow", "^.*which is not a judge.*|last error: .*|^(advice|  advice): "),
    ("green", "no regression found|^ragstone [a-z].*|(?<=  )yes(?=  |$)"),
    ("red", "(?<=  )no(?=  |$)"),
)
"""Styles on a terminal, by pattern."""


def sanitize_for_terminal(text: str | None, *, width: int = 200) -> str:
    """Make captured text safe for a terminal: one line, no control characters, at most `width` characters."""
    if text is None:
        return "(none)"
    line = " ".join(without_controls(text).split())
    return line if len(line) <= width else line[: width - 1] + "…"


def print_text(value: object, *, err: bool = False) -> None:
    """Print a result as text, with bold and color on a terminal that has them.

    Names and reasons come from files and judges, so control characters become spaces. Line breaks stay. On a terminal,
    long lines are wrapped between words. A pipe gets them unwrapped.
    """
    lines = [without_controls(line) for line in str(value).split("\n")]
    from rich.console import Console

    console = Console(stderr=err, highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        print("\n".join(lines), file=sys.stderr if err else None)
        return
    from rich.text import Text

    is_plain = console.is_dumb_terminal or console.no_color
    for line, following in itertools.zip_longest(lines, lines[1:], fillvalue=""):
        text = Text(line)
        if is_plain:
            console.print(text)
            continue
        if _RULE.fullmatch(line):
            text.stylize("dim")
        elif _RULE.fullmatch(following):
            text.stylize("bold")
        for style, pattern in _STYLES:
            text.highlight_regex(pattern, style)
        console.print(text)


def print_lines(lines: Sequence[Text]) -> None:
    """Print styled lines on stdout, with styles on a terminal that has them. Lines are not wrapped again."""
    from rich.console import Console

    console = Console(highlight=False, markup=False, emoji=False)
    if not console.is_terminal or console.is_dumb_terminal or console.no_color:
        print("\n".join(line.plain for line in lines))
        return
    for line in lines:
        console.print(line, soft_wrap=True)


def terminal_options() -> dict[str, Any]:
    """Return the width of the terminal, and whether it shows ASCII only, as the arguments of terminal views."""
    encoding = (getattr(sys.stdout, "encoding", None) or "ascii").lower().replace("-", "")
    width = shutil.get_terminal_size(fallback=(80, 24)).columns
    return {"width": max(width, 40), "ascii_only": not encoding.startswith("utf")}


def print_json(value: Any, *, full: bool = True, everything: str = "run the command again with --full") -> None:
    """Print a result as JSON on stdout, with control characters and lone surrogates as JSON escapes.

    Unless it is `full`, it has at most 8 kB on one line, and says what is left out.
    """
    if not full:
        value = shorten(value, everything)
    text = json.dumps(value, ensure_ascii=terminal_options()["ascii_only"], indent=2 if full else None, default=str)
    print(_UNSHOWN.sub(lambda match: f"\\u{ord(match[0]):04x}", text))


def print_result(values: Any, text: object, *, json_output: bool, err: bool = False) -> None:
    """Print the values of a result as JSON, or its text. `err`: the text goes to stderr."""
    if json_output:
        print_json(values)
    else:
        print_text(text, err=err)


def leave(reason: str, code: ExitCode = ExitCode.INFRASTRUCTURE) -> NoReturn:
    """Exit with another code than that of success, which the last line explains."""
    print_text(f"exit code {code}: {reason}", err=True)
    raise typer.Exit(code)


def describe_excess(counts: JudgedCounts, limit: float, what: str = "judged outcomes") -> str | None:
    """Return why a run with these counts exits with code 3, or None if it does not."""
    if counts.failed_share <= limit:
        return None
    kinds = ", ".join(f"{n} {kind}" for kind, n in counts.kinds.most_common())
    return (
        f"{counts.n_failed} of {counts.n} {what} failed ({counts.failed_share:.0%}), more than the limit "
        f"of {limit:.0%} (limits.max_failed_share). By kind: {kinds}."
    )


def ledger_lines(ledger: Ledger) -> list[str]:
    """Format the ledger as a table, followed by drops, sinks and inconsistencies."""
    rows: list[tuple[str, LedgerRow]] = [("traces", ledger.total), *ledger.metrics.items()]
    captured = ledger.total.captured
    names = [column.replace("_", " ") for column in _COLUMNS]
    body = [[name, captured, *(getattr(row, column) for column in _COLUMNS[1:])] for name, row in rows]
    # Requests that were finished without a metric, or with another judge, before this metric was planned.
    others = [captured - row.captured for _, row in rows]
    if any(others):
        names.append("other plan")
        body = [[*line, other] for line, other in zip(body, others, strict=True)]
    table = [("", *names), *((sanitize_for_terminal(str(line[0])), *map(str, line[1:])) for line in body)]
    lines = [text_table(table, align="l" + "r" * len(names)), ""]
    unbalanced = [name for name, row in rows if not row.balanced]
    if unbalanced:
        lines.append(
            f"THE COUNTS DO NOT ADD UP for {', '.join(map(sanitize_for_terminal, unbalanced))}. See `ragstone store verify`."
        )
    else:
        lines.append(" = ".join([names[0], " + ".join(names[1:])]))
    if ledger.oldest_pending_s is not None:
        lines.append(f"oldest pending trace: {ledger.oldest_pending_s:.0f} s")
    for reason, n in ledger.dropped_by_reason.items():
        lines.append(f"dropped, {sanitize_for_terminal(reason)}: {n}")
    if ledger.feedback.received:
        said = ledger.feedback
        waiting = f", {said.waiting:,} waiting for their request" if said.waiting else ""
        unknown = f", {said.unknown:,} about unknown requests" if said.unknown else ""
        lines.append(f"feedback of users: {said.received:,}{waiting}{unknown}")
    if ledger.spent_today != Usage():
        lines.append(_spend_line(ledger))
    lines += [broker_line(name, broker) for name, broker in ledger.brokers.items()]
    lines += [_sink_line(sink, counts) for sink, counts in ledger.outbox.items()]
    if rules := ledger.rules.get("contexts"):
        counted = sorted(rules.items(), key=lambda item: -item[1])
        lines.append("contexts, by rule: " + ", ".join(f"{n} {sanitize_for_terminal(rule)}" for rule, n in counted))
    lines += [
        f"ended, {status}: {n_ended}. {why}" for status, why in _ENDS.items() if (n_ended := ledger.ended.get(status))
    ]
    for reason, found in sorted(ledger.ignored.items(), key=lambda item: -item[1].n):
        example = f" (for example {sanitize_for_terminal(found.example)})" if found.example else ""
        lines.append(f"ignored, {sanitize_for_terminal(reason)}: {found.n}{example}")
    for doubt, n in ledger.doubts.items():
        lines.append(f"in doubt, {sanitize_for_terminal(doubt)}: {n}. {describe_doubt(doubt)}")
    lines += (
        f"declared tool {sanitize_for_terminal(name)}: not called by any of {count(tool.captured, 'request')} that "
        "declared it. If no request needed it, nothing is wrong. If not, correct its name in retriever_tools "
        "(--retriever-tool for replay and ingest): names must equal the tool's own."
        for name, tool in ledger.declared_tools.items()
        if not tool.called
    )
    return lines


def broker_line(name: str, broker: BrokerStatus) -> str:
    """Describe the entries of a message broker in one line."""
    oldest = "" if broker.oldest_s is None else f", oldest {broker.oldest_s:.0f} s"
    aside = f", {broker.set_aside:,} set aside" if broker.set_aside else ""
    error = f". {broker.error}" if broker.error else ""
    text = f"{name}: {broker.waiting:,} waiting, {broker.in_progress:,} in progress{oldest}{aside}{error}"
    return sanitize_for_terminal(text)


def _spend_line(ledger: Ledger) -> str:
    """Return what model calls have cost today, with the daily limits."""
    spent, limits = ledger.spent_today, ledger.daily_budget
    parts = []
    for name, n in amounts_of(spent).items():
        limit = f" of {limits[name]:,.6g}" if name in limits else ""
        parts.append(f"{n:,.6g}{limit} {name.removesuffix('s') if n == 1 and not limit else name}")
    if uncounted := spent.calls - spent.counted_calls:
        parts.append(f"the tokens of {count(uncounted, 'call')} are unknown")
    if unpriced := spent.calls - spent.priced_calls:
        parts.append(f"the cost of {count(unpriced, 'call')} is unknown")
    return f"spent today (UTC): {', '.join(parts)}" + (
        ". The daily budget is reached, scoring continues at 00:00 UTC" if describe_reached(limits, spent) else ""
    )


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


def trace_lines(report: TraceReport) -> list[str]:
    """Describe the state of a trace, and how its parts were found. Its scores are not included."""
    lines = [f"state: {report.state}"]
    metrics = tuple(f"{outcome.metric}:" for outcome in report.outcomes)
    lines += [sanitize_for_terminal(reason) for reason in report.reasons if not reason.startswith(metrics)]
    for said in report.feedback:
        comment = f": {sanitize_for_terminal(said.comment)}" if said.comment else ""
        at = datetime.fromtimestamp(said.given_at, UTC)
        lines.append(f"feedback on {at:%Y-%m-%d %H:%M} UTC: {said.value:g}{comment}")
    if report.trace is not None and (found := report.trace.evidence) is not None:
        lines.append(f"evidence: query {found.query}, contexts {found.contexts}, response {found.response}")
        lines += (f"in doubt: {sanitize_for_terminal(doubt)}. {describe_doubt(doubt)}" for doubt in found.doubts)
    if is_baseline(*(outcome.judge for outcome in report.outcomes)):
        lines.append(BASELINE_NOTE)
    return lines


def trace_dict(report: TraceReport) -> dict[str, Any]:
    """Return the stored data about a trace as plain values for JSON."""
    return {
        "trace_id": report.trace_id,
        "state": report.state,
        "reasons": list(report.reasons),
        "attempts": report.attempts,
        "trace": None if report.trace is None else report.trace.model_dump(mode="json"),
        "feedback": [said._asdict() for said in report.feedback],
        "judge_is_baseline": is_baseline(*(o.judge for o in report.outcomes)),
        "outcomes": [o.model_dump(mode="json") for o in report.outcomes],
    }


def reason_lines(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """Yield a heading, and a line for each reason that the judge was asked for, and for each that it did not give."""
    heading = "\nreasons of the judge:"
    for outcome in outcomes:
        if not isinstance(outcome, Score):
            continue
        if outcome.details.get("explanation_source") == "afterwards":
            reason = outcome.explanation or ""
        elif "no_reason" in outcome.details:
            reason = f"no reason ({outcome.details['no_reason']})"
        else:
            continue
        if heading:
            yield heading
            heading = ""
        sample_id = sanitize_for_terminal(outcome.sample_id)
        yield f"  {sample_id}  {outcome.metric} {outcome.value:.2f}: {sanitize_for_terminal(reason, width=_MAX_REASON)}"
