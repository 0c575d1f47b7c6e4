"""The newest trial of repairs in a report, or why it says nothing about the scores of the report."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ragstone.experiments._repair.shares import RepairTrial, leading, share_table
from ragstone.experiments._repair.stored import TRIALS
from ragstone.experiments._table import ScoreTable
from ragstone.experiments._views.verdict import WrongRule
from ragstone.experiments._views.where import CAUSE
from ragstone.views import Statement, TrialView, format_day

_IDENTITY: Final = ("app", "judge", "metrics", "finished_at", "where", "n_wrong", "n_asked", "n_calls")
"""What is known of a trial that says nothing about the scores of a report."""


def build_trial(bodies: Sequence[str], table: ScoreTable, rule: WrongRule) -> TrialView:
    """Build the view of the newest trial that has the judges and metric versions of the table, or else of the newest."""
    trials = [(_doubt(trial, table, rule), trial) for trial in map(TRIALS.validate_json, bodies)]
    doubt, trial = max(trials, key=lambda each: (not each[0], each[1].finished_at))
    day, chosen = format_day(trial.finished_at), f", chosen by {trial.where}" if trial.where else ""
    about = (
        f"{trial.n_asked:,} of {trial.n_wrong:,} wrong answers{chosen}, asked again in {trial.n_calls:,} calls of "
        f"{trial.app} on {day}. Judge: {trial.judge}."
    )
    if doubt:
        text = f"A trial on {day} says nothing about these scores: {doubt}. Run `ragstone repair` again."
        identity = {name: getattr(trial, name) for name in _IDENTITY}
        return TrialView(statement=Statement(text=text, kind="warning"), about=about, table=(), result=identity)
    kind: Final = "significant" if trial.best else "not_significant" if leading(trial.shares) else "warning"
    return TrialView(
        statement=Statement(text=trial.verdict, kind=kind),
        about=about,
        table=tuple(share_table(trial)),
        result=trial.to_dict(),
    )


def is_about(trial: TrialView, cause: str) -> bool:
    """Return whether a trial shows something of answers with a cause."""
    where = trial.result["where"] or ""
    return trial.statement.kind != "warning" and (CAUSE not in where or f"{CAUSE}={cause}" in where)


def _doubt(trial: RepairTrial, table: ScoreTable, rule: WrongRule) -> str:
    """Say why the answers of a trial are not judged as those of a report are. Empty if they are."""
    judged = {
        name: {(origin.version, origin.judge_hash) for origin, n in table.metrics[name].origins[0].items() if n}
        for name in trial.metrics.keys() & table.metrics.keys()
    }
    if others := sorted(name for name, origins in judged.items() if origins != {trial.metrics[name]}):
        return f"it has another judge, or another version or prompt, of {', '.join(others)}"
    if not judged or ("correctness" in trial.basis) != (rule in ("correctness", "mixed")):
        return f"its answers are wrong by {' and '.join(trial.basis)}, and those of this report by other metrics"
    return ""
