"""The frame of the commands of `ragstone lab`: settings, plan and cost, result, and exit code."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import typer

from ragstone.cli.extension import (
    OF_COMMAND,
    ExitCode,
    Models,
    arguments_of,
    cost_of,
    describe_excess,
    leave,
    print_result,
    sanitize_for_terminal,
    settings_of,
    show_progress,
)
from ragstone.schema import Usage

if TYPE_CHECKING:
    from ragstone_lab._run import RunResult

_SHOWN = 10
_T = TypeVar("_T")


class Lab:
    """The settings and models of a command that calls models, and what all of them print."""

    def __init__(self, context: typer.Context, *, json_output: bool) -> None:
        self.settings = settings_of(context)
        self.models = Models(self.settings)
        self._context = context
        self._json_output = json_output

    def run(self, activity: str, function: Callable[..., _T], *arguments: object, **options: object) -> _T:
        """Call a function with judge, reader and progress. `activity` names what is counted, in one word."""
        judge, reader = self.models.judge_and_reader()
        with show_progress(activity) as progress:
            return function(*arguments, **{"judge": judge, "reader": reader} | options, progress=progress.update)

    def arguments(self, *tables: str, omit: Collection[str] = ()) -> dict[str, Any]:
        """Return the settings that the command uses, as keyword arguments of a function."""
        return arguments_of(self._context, self.settings, *tables, omit={*omit, *OF_COMMAND})

    def print_plan(self, plan: Any, usage: Usage | None = None, *, dry_run: bool) -> None:
        """Print a plan with the cost of its calls and tokens: on stdout for a dry run, otherwise on stderr."""
        values, text = ({}, "") if usage is None else cost_of(usage, self.models)
        shown = f"{plan}\n{text}" if text else plan
        print_result(plan.to_dict() | values, shown, json_output=dry_run and self._json_output, err=not dry_run)

    def finish(
        self,
        result: RunResult,
        *,
        saved: Sequence[str] = (),
        is_empty: bool = False,
        resumes: bool = True,
        err: bool = False,
        **facts: object,
    ) -> None:
        """Print a result, the first error of each kind and how to continue. Exit with the rules of `evaluate`.

        `saved` are lines on stderr: what was written, and the next command. `resumes` says if the same command
        continues without repeating calls. `err` prints the text on stderr. `facts` are further values of the JSON
        output.
        """
        print_result(result.to_dict() | facts, result, json_output=self._json_output, err=err)
        _say(f"failed: {sanitize_for_terminal(error, width=400)}" for error in result.errors)
        if result.unfinished and resumes:
            _say(["unfinished: run the same command to resume. Answered calls are not repeated."])
        _say(saved)
        if "budget" in result.failures:
            leave("the budget is exhausted.", ExitCode.BUDGET)
        for model, counts in result.counts.items():
            if reason := describe_excess(
                counts, self.settings.limits.max_failed_share, f"{result.counted} of {sanitize_for_terminal(model)}"
            ):
                leave(reason)
        if result.unfinished:
            leave("a model did not answer.")
        if is_empty:
            leave("nothing was produced.")


def print_skipped(reasons: Sequence[str]) -> None:
    """Print the first reasons why something was skipped."""
    _say(f"skipped: {sanitize_for_terminal(reason, width=400)}" for reason in reasons[:_SHOWN])
    if len(reasons) > _SHOWN:
        _say([f"skipped: {len(reasons) - _SHOWN} more (--json lists all)"])


def _say(lines: Iterable[str]) -> None:
    for line in lines:
        typer.echo(line, err=True)
