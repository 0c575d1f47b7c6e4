"""Lines on the terminal for the explanations of `--reasons N`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ragstone.cli._output import sanitize_for_terminal
from ragstone.schema import Failure, NotApplicable, Score

_MAX_CHARS = 400
"""Maximum length of a reason on the terminal. Files and sinks contain all of it."""


def reason_lines(outcomes: Sequence[Score | NotApplicable | Failure]) -> Iterator[str]:
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
        yield f"  {sample_id}  {outcome.metric} {outcome.value:.2f}: {sanitize_for_terminal(reason, width=_MAX_CHARS)}"
