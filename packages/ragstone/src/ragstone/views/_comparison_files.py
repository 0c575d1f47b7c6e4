"""A comparison of systems as Markdown, LaTeX and CSV."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from ragstone._util.ascii import without_controls
from ragstone._util.csv_table import csv_table
from ragstone.views._comparison import comparison_page
from ragstone.views._markdown import answer_line, escape_markdown, fold_in_markdown, table_in_markdown
from ragstone.views._model import ChangesView, ComparisonView, SystemScores
from ragstone.views._words import (
    FINDING_MARKS,
    SPENT_TITLES,
    cause_rows,
    describe_spent,
    format_interval,
    format_mean,
    format_score,
    letter,
)

_MAX_METRICS: Final = 30
_MAX_DIFFERENCES: Final = 60
_CHANGED: Final = 3
_TEX: Final = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "_": r"\_", "%": r"\%",
    "^": r"\textasciicircum{}", "~": r"\textasciitilde{}", "<": r"\textless{}", ">": r"\textgreater{}",
}  # fmt: skip


def comparison_markdown(view: ComparisonView) -> str:
    """Return verdict and tables as Markdown, for summaries of CI jobs. Captured text is escaped or in code blocks."""
    first, *others = view.verdict
    lines = [f"### {escape_markdown(first)}", ""]
    lines += [f"{'  ' * line.startswith('  ')}- {escape_markdown(' '.join(line.split()))}" for line in others if line]
    head = ("metric", *(f"{letter(n)} {system}" for n, system in enumerate(view.systems)))
    rows = [(metric.title, *map(_cell, metric.systems)) for metric in view.metrics[:_MAX_METRICS]]
    lines += ["", *table_in_markdown(head, rows), ""]
    lines += ["A letter after a mean names a system that it is significantly better than.", ""]
    if len(view.metrics) > len(rows):
        lines += [f"{len(view.metrics) - len(rows)} more metrics are not listed.", ""]
    differences = [
        (f"{row.system} - {row.other}", row.title, f"{FINDING_MARKS[row.finding]} {row.size}", row.p, f"{row.n:,}")
        for row in view.differences[:_MAX_DIFFERENCES]
    ]
    lines += [*table_in_markdown(("systems", "metric", "difference", "p", "n"), differences), ""]
    if len(view.differences) > len(differences):
        lines += [f"{len(view.differences) - len(differences)} more differences are not listed.", ""]
    if causes := cause_rows(view.causes):
        lines += [*table_in_markdown(("where it fails", *view.causes), causes), ""]
    if any(view.spent.values()):
        spent = [(system, *map(describe_spent, rows)) for system, rows in view.spent.items() if rows]
        lines += [*table_in_markdown(("system", *SPENT_TITLES.values()), spent), ""]
        lines += [f"{escape_markdown(sentence)}\n" for sentence in view.cheapest]
    for changes in view.changes:
        lines += _changes(view, changes)
    lines += [f"> {escape_markdown(note)}\n>" for note in (view.method, *view.notes)]
    return "\n".join(lines) + "\n"


def _cell(scores: SystemScores) -> str:
    if scores.estimate is None:
        return "no score"
    marks = f" ({''.join(map(letter, scores.beats))})" if scores.beats else ""
    failed = f", {scores.n_failed:,} failed" if scores.n_failed else ""
    return f"{format_mean(scores.estimate)}{marks} {format_interval(scores.estimate)}{failed}"


def _changes(view: ComparisonView, changes: ChangesView) -> list[str]:
    lines = [f"{escape_markdown(statement.text)}\n" for statement in changes.statements]
    for name, rows, total in changes.lists:
        texts = []
        for row in rows[:_CHANGED]:
            texts.append(f"{format_score(row.before)} -> {format_score(row.after)}  {row.id}  {answer_line(row.query)}")
            for system in (changes.baseline, changes.system):
                answer = view.answers.get(system, {}).get(row.id)
                texts.append(f"  {system}: {'(no answer)' if answer is None else answer_line(answer)}")
        if texts:
            lines += fold_in_markdown(f"{name} in {changes.system}: {total:,}", texts)
    return lines


def comparison_tex(view: ComparisonView) -> str:
    """Return the means and the differences as two tables for LaTeX, which need the package booktabs."""
    spent = (f"{system}: {describe_spent(row)}" for system, rows in view.spent.items() for row in rows)
    texts = (*view.verdict, *spent, *view.cheapest, view.method, *view.notes)
    lines = [f"% {without_controls(text)}" for text in texts if text]
    names = [_tex(system) for system in view.systems]
    lines += [rf"\begin{{tabular}}{{l{'c' * len(names)}}}", r"\toprule"]
    lines += [_row(["metric", *(f"{name} ({letter(n)})" for n, name in enumerate(names))]), r"\midrule"]
    for metric in view.metrics:
        lines.append(_row([_tex(metric.title), *(_tex_mean(scores, len(names)) for scores in metric.systems)]))
    lines += [r"\bottomrule", r"\end{tabular}", "", r"\begin{tabular}{lllll}", r"\toprule"]
    lines += [_row(["systems", "metric", "difference", "$p$", "$n$"]), r"\midrule"]
    for row in view.differences:
        p = _tex(row.p.removeprefix("p ").removeprefix("= "))
        lines.append(_row([_tex(f"{row.system} - {row.other}"), _tex(row.title), _tex(row.size), p, f"{row.n}"]))
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""])


def _row(cells: Sequence[str]) -> str:
    return " & ".join(cells) + r" \\"


def _tex_mean(scores: SystemScores, n_systems: int) -> str:
    if scores.estimate is None:
        return "--"
    mean = format_mean(scores.estimate)
    mean = rf"\textbf{{{mean}}}" if len(scores.beats) == n_systems - 1 else mean
    marks = f"$^{{{''.join(map(letter, scores.beats))}}}$" if scores.beats else ""
    return f"{mean}{marks}"


def _tex(text: str) -> str:
    return "".join(_TEX.get(c, c) for c in without_controls(text))


def comparison_csv(view: ComparisonView) -> str:
    """Return all differences with the means of both systems, one row each."""
    found = {(metric.name, scores.system): scores for metric in view.metrics for scores in metric.systems}
    scores = ("mean", "mean_low", "mean_high", "n_scored", "n_failed", "n_not_applicable")
    head = ["metric", "lower_is_better", "exploratory", "system", "other"]
    head += [f"{side}_{name}" for side in ("system", "other") for name in scores]
    head += ["difference", "low", "high", "p_value", "better", "n", "n_higher", "n_lower"]
    rows: list[list[object]] = [[*head]]
    for row in view.differences:
        cells: list[object] = [row.metric, row.lower_is_better, row.is_exploratory, row.system, row.other]
        for system in (row.system, row.other):
            one = found[row.metric, system]
            mean = one.estimate
            cells += ["", "", ""] if mean is None else [mean.value, mean.low, mean.high]
            cells += [one.n_scored, one.n_failed, one.n_not_applicable]
        cells += [row.difference, row.low, row.high, row.p_value, row.better, row.n, row.n_up, row.n_down]
        rows.append(cells)
    return csv_table(rows)


COMPARISON_WRITERS: Final[Mapping[str, Callable[[ComparisonView], str]]] = {
    ".html": comparison_page,
    ".md": comparison_markdown,
    ".tex": comparison_tex,
    ".csv": comparison_csv,
}
"""Writers of a comparison by the ending of a file."""
