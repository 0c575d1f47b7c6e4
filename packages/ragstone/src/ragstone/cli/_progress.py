"""Progress on stderr: a live line on a terminal, otherwise a line every ten seconds."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from ragstone._util.quantities import count
from ragstone.cli._output import sanitize_for_terminal
from ragstone.judges import find_outage_reason
from ragstone.schema import Failure, NotApplicable, Outcome, Usage

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult

_LOGGED_EVERY_S: Final = 10.0
_MIN_WIDTH_WITH_BAR: Final = 100
_BAR_WIDTH: Final = 20
_REASON_WIDTH: Final = 160
FindOutage = Callable[[], tuple[float, float] | None]


class Progress:
    """Progress of a command: count, rate, failures, calls, tokens, cost and remaining time.

    `what` is the command's activity, in one word. `find_outage` returns the duration of the current outage of a model
    and its limit in seconds, or None.
    """

    def __init__(
        self, what: str, *, find_outage: FindOutage = lambda: None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.total: int | None = None
        """Total number of items, or None if not yet known."""
        self.n_done = 0
        self.find_outage = find_outage
        self._what = what
        self._clock = clock
        self._started = self._logged_at = clock()
        self._logged = 0
        self._n_failed = 0
        self._usage = Usage()
        self._log = False
        self._log_ends = threading.Event()

    def update(self, n_done: int, total: int) -> None:
        """Set the counts."""
        self.n_done, self.total = n_done, total
        self._log_sometimes()

    def count(self, outcomes: Sequence[Outcome]) -> None:
        """Add the failures and the usage of outcomes."""
        self._n_failed += sum(isinstance(outcome, Failure) for outcome in outcomes)
        for outcome in outcomes:
            if not isinstance(outcome, NotApplicable) and outcome.usage is not None:
                self._usage += outcome.usage

    def line(self) -> str:
        """Format the state as one line. Important values come first, because a narrow terminal cuts the end."""
        parts = [str(self.n_done) if self.total is None else f"{self.n_done} of {self.total}"]
        if (outage := self.find_outage()) is not None:
            reason = sanitize_for_terminal(find_outage_reason(), width=_REASON_WIDTH)
            error = f" (last error: {reason})" if reason else ""
            parts.append(f"judge does not answer, waiting, {outage[0]:.0f} s of {outage[1]:.0f} s{error}")
        elapsed_s = self._clock() - self._started
        rate = self.n_done / elapsed_s if elapsed_s > 0 else 0.0
        if rate:
            parts.append(f"{rate:.1f}/s" if rate >= 1 else f"{60 * rate:.1f}/min")
        if rate and outage is None and self.total is not None and self.total > self.n_done:
            parts.append(f"{format_duration((self.total - self.n_done) / rate)} left")
        if self._n_failed:
            parts.append(f"{count(self._n_failed, 'outcome')} failed")
        n_tokens = self._usage.input_tokens + self._usage.output_tokens
        if cost := self._usage.cost_text:
            parts.append(cost)
        if self._usage.calls:
            parts += [count(self._usage.calls, "call"), f"{n_tokens} tokens"]
        return f"{self._what}: {', '.join(parts)}"

    def start_log(self) -> None:
        """Start to print a line to stderr every ten seconds while samples finish or a model is unavailable."""
        self._log = True
        self._log_ends.clear()
        threading.Thread(target=self._log_outages, name="ragstone-progress", daemon=True).start()

    def end_log(self) -> None:
        """Print the last line, unless it was already printed."""
        self._log_ends.set()
        if self._log and self.n_done > self._logged:
            self._print()

    def _log_outages(self) -> None:
        while not self._log_ends.wait(_LOGGED_EVERY_S):
            if self.find_outage() is not None:
                self._log_sometimes()

    def _log_sometimes(self) -> None:
        if self._log and self._clock() - self._logged_at >= _LOGGED_EVERY_S:
            self._print()

    def _print(self) -> None:
        self._logged, self._logged_at = self.n_done, self._clock()
        print(self.line(), file=sys.stderr)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Render the line for a terminal, with a bar if the terminal is wide enough."""
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        line = Text(self.line(), no_wrap=True, overflow="ellipsis")
        if options.max_width < _MIN_WIDTH_WITH_BAR or not self.total:
            yield line
            return
        grid = Table.grid(padding=(0, 1))
        grid.add_row(ProgressBar(total=self.total, completed=self.n_done, width=_BAR_WIDTH), line)
        yield grid


@contextmanager
def show_progress(what: str, *, find_outage: FindOutage = lambda: None) -> Iterator[Progress]:
    """Show progress on stderr while the block runs."""
    from rich.console import Console

    progress = Progress(what, find_outage=find_outage)
    console = Console(stderr=True)
    if not sys.stderr.isatty() or console.is_dumb_terminal:
        progress.start_log()
        try:
            yield progress
        finally:
            progress.end_log()
        return
    from rich.live import Live

    with Live(progress, console=console, transient=True, refresh_per_second=4, redirect_stdout=False):
        yield progress


def format_duration(seconds: float) -> str:
    """Format a duration."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s" if minutes else f"{rest} s"
