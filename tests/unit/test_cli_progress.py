"""Progress on stderr, with a clock that the test moves."""

from __future__ import annotations

import io
import re
import sys
import threading

import pytest
from rich.console import Console

from ragstone.cli._progress import Progress, format_duration, show_progress
from ragstone.schema import Failure, NotApplicable, Score, Usage

KEY = {"sample_id": "a", "metric": "ccrs.qr", "metric_version": "1"}
SCORE = Score(
    **KEY, value=1.0, method="single", usage=Usage(calls=2, input_tokens=900, output_tokens=100, cost_usd=1.1)
)
FAILURE = Failure(**KEY, kind="timeout", reason="too slow", usage=Usage(calls=1, input_tokens=100, cost_usd=0.1))
NOT_APPLICABLE = NotApplicable(**KEY, reason="no reference")


class Clock:
    """Seconds that grow when the test says so."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Terminal(io.StringIO):
    """A stream that calls itself a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_the_line_has_count_rate_failures_cost_and_time_left(clock: Clock) -> None:
    """What matters most comes first."""
    progress = Progress("scoring", clock=clock)
    clock.now += 20
    progress.count([SCORE, FAILURE, NOT_APPLICABLE])
    progress.update(40, 100)
    assert "scoring: 40 of 100, 2.0/s, 30 s left, 1 outcome failed, 1.20 USD, 3 calls, 1100 tokens" == progress.line()


def test_what_is_not_known_is_left_out(clock: Clock) -> None:
    """No rate before anything is done, no time left without a total, no cost without prices or calls."""
    progress = Progress("scoring", clock=clock)
    assert "scoring: 0" == progress.line()
    clock.now += 60
    progress.n_done = 3
    assert "scoring: 3, 3.0/min" == progress.line()
    progress.update(3, 3)
    assert "scoring: 3 of 3, 3.0/min" == progress.line()


def test_a_log_gets_a_line_now_and_then_and_at_the_end(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    """Every ten seconds, and once at the end."""
    progress = Progress("scoring", clock=clock)
    progress.start_log()
    for n in range(1, 26):
        clock.now += 1
        progress.update(n, 26)
    progress.end_log()
    progress.end_log()
    lines = capsys.readouterr().err.splitlines()
    assert ["10 of 26", "20 of 26", "25 of 26"] == [line.split(": ")[1].split(",")[0] for line in lines]


def test_an_outage_is_shown(clock: Clock) -> None:
    """How long the run has waited, and how long it will. A remaining time is unknown then."""
    outage: list[tuple[float, float] | None] = [(40.2, 300.0)]
    progress = Progress("scoring", find_outage=lambda: outage[0], clock=clock)
    clock.now += 20
    progress.update(40, 100)
    assert "scoring: 40 of 100, judge does not answer, waiting, 40 s of 300 s, 2.0/s" == progress.line()
    outage[0] = None
    assert "scoring: 40 of 100, 2.0/s, 30 s left" == progress.line()


def test_a_log_shows_an_outage(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """No sample finishes then, so a thread prints the lines."""
    monkeypatch.setattr("ragstone.cli._progress._LOGGED_EVERY_S", 0.01)
    n_asked = 0
    was_printed = threading.Event()

    def find_outage() -> tuple[float, float]:
        nonlocal n_asked
        n_asked += 1
        if n_asked > 4:
            was_printed.set()
        return (40.0, 300.0)

    progress = Progress("scoring", find_outage=find_outage)
    progress.start_log()
    assert was_printed.wait(60)
    progress.end_log()
    assert "scoring: 0, judge does not answer, waiting, 40 s of 300 s" in capsys.readouterr().err


@pytest.mark.parametrize("width", [40, 60, 80, 120, 200])
def test_the_live_line_is_one_line_at_any_width(clock: Clock, width: int) -> None:
    """Its end is cut where it is too long."""
    progress = Progress("scoring", clock=clock)
    clock.now += 1000
    progress.count([SCORE, FAILURE])
    progress.update(400, 1000)
    shown = Console(file=Terminal(), width=width, force_terminal=True)
    shown.print(progress)
    text = re.sub(r"\x1b\[[0-9;]*m", "", shown.file.getvalue())
    assert 1 == text.count("\n")
    assert len(text.rstrip()) <= width
    assert ("tokens" in text) == (width >= 120)
    assert "400 of 1000" in text


@pytest.mark.parametrize(
    ("environment", "escapes", "colors"),
    [({}, True, True), ({"NO_COLOR": "1"}, True, False), ({"TERM": "dumb"}, False, False)],
)
def test_a_terminal_gets_the_line_it_can_show(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], escapes: bool, colors: bool
) -> None:
    """A live line; without color if `NO_COLOR` is set; a line now and then where nothing can be overwritten."""
    for name, value in ({"TERM": "xterm-256color", "COLUMNS": "120"} | environment).items():
        monkeypatch.setenv(name, value)
    if not environment:
        monkeypatch.delenv("NO_COLOR", raising=False)
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    with show_progress("scoring") as progress:
        progress.update(2, 4)
    text = stream.getvalue()
    assert "scoring: 2 of 4" in text
    assert escapes == ("\x1b[" in text)
    assert colors == bool(re.search(r"\x1b\[[39]\d", text))


@pytest.mark.parametrize(("seconds", "text"), [(0.2, "0 s"), (59, "59 s"), (90, "1 min 30 s"), (7260, "2 h 1 min")])
def test_durations(seconds: float, text: str) -> None:
    """In the two largest units."""
    assert text == format_duration(seconds)
