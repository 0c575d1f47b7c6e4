"""Draw the charts of the documentation's first page: `python .ci/charts.py`, after a change of a number that they show.

The numbers are those of the pages that the first page links. The stream of the chart of an alarm is simulated here.
Each chart has a file for the light and one for the dark scheme, with the colors of `docs/stylesheets/extra.css`.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from xml.sax.saxutils import escape

from ragstone.stats import AlarmBudget, CalendarDetector

PICTURES = Path(__file__).parents[1] / "docs" / "pictures"
SCHEMES = {
    "light": {"text": "#26282b", "muted": "#63645f", "ours": "#1d5a99", "other": "#a4400f", "line": "#d5d2c7"},
    "dark": {"text": "#e8e6e1", "muted": "#a5a9ae", "ours": "#7ea6f0", "other": "#ff9d76", "line": "#3a4047"},
}
WIDTH = 600
DAY = 86_400.0
SESSIONS = 60
"""Sessions of a day in the chart of an alarm."""

COVERAGE = [
    ("smooth scores, n = 10", 99.5, 93.3, 89.4),
    ("yes or no, n = 30", 96.1, 94.9, 94.6),
    ("mostly 1, n = 10", 98.0, 90.8, 89.0),
    ("mostly 1, n = 30", 97.6, 88.0, 87.9),
    ("mostly 1, n = 100", 96.2, 93.1, 93.6),
]
"""Kind of scores; coverage of Ragstone, Student's t and the bootstrap: docs/explanation/intervals.md."""
KILLS = [
    ("PostgreSQL, workers", 100), ("PostgreSQL, process", 100), ("PostgreSQL, Redis", 100),
    ("file, thread", 100), ("file, worker", 100), ("file, processes", 100),
    ("file, process", 100), ("file, Redis", 100), ("file, Redis, processes", 100),
]  # fmt: skip
"""Setups with their kills: docs/explanation/trust.md."""
TRACERS = [
    ("a handler that does nothing", 1.08),
    ("Ragstone", 1.20),
    ("Langfuse", 2.26),
    ("OpenInference", 2.53),
    ("LangSmith", 2.71),
]
"""CPU of the request's thread with each tracer: docs/reference/benchmarks.md."""


def text(x: float, y: float, words: str, *, color: str = "text", anchor: str = "start", size: int = 18) -> str:
    """Return one line of text."""
    return (
        f'<text x="{x:g}" y="{y:g}" fill="{{{color}}}" text-anchor="{anchor}" font-size="{size}">{escape(words)}</text>'
    )


def line(x1: float, y1: float, x2: float, y2: float, *, color: str = "line", width: float = 2, dash: str = "") -> str:
    """Return a straight line."""
    dashes = f' stroke-dasharray="{dash}"' if dash else ""
    return f'<path d="M{x1:g} {y1:g}L{x2:g} {y2:g}" stroke="{{{color}}}" stroke-width="{width:g}"{dashes}/>'


def dot(x: float, y: float, *, color: str, radius: float = 7, hollow: bool = False) -> str:
    """Return a dot, or a ring."""
    paint = f'fill="none" stroke="{{{color}}}" stroke-width="2.5"' if hollow else f'fill="{{{color}}}"'
    return f'<circle cx="{x:.4g}" cy="{y:.4g}" r="{radius:g}" {paint}/>'


def bars(title: str, rows: list[tuple[str, float, str, bool]], *, largest: float) -> list[str]:
    """Return a title, and a horizontal bar for each row: its name, value, written value, and whether it is Ragstone's."""
    parts = [text(0, 20, title, color="muted")]
    for number, (name, value, written, ours) in enumerate(rows):
        top = 48 + 58 * number
        color = "ours" if ours else "muted"
        length = 500 * value / largest
        parts += [
            text(0, top + 12, name),
            f'<rect x="0" y="{top + 20}" width="{max(2.0, length):g}" height="18" rx="3" fill="{{{color}}}"/>',
            text(length + 10, top + 35, written, color=color),
        ]
    return parts


def coverage() -> tuple[int, list[str]]:
    """Share of 95% intervals that contain the true mean, from the table of docs/explanation/intervals.md."""

    def place(value: float) -> float:
        return 215 + (value - 86) * 26

    bottom = 50 + 48 * len(COVERAGE)
    parts = [line(place(95), 34, place(95), bottom, color="text", dash="5 5")]
    parts += [
        text(0, 20, "95% intervals that hold the truth", color="muted"),
        text(place(95), 20, "promised", anchor="middle", size=17),
    ]
    for number, (name, ours, student, bootstrap) in enumerate(COVERAGE):
        y = 68 + 48 * number
        parts += [text(0, y + 6, name, size=17), line(place(86), y, place(100), y)]
        parts += [dot(place(bootstrap), y, color="other", hollow=True), dot(place(student), y, color="other")]
        parts.append(dot(place(ours), y, color="ours", radius=8))
    parts += [
        text(place(value), bottom + 22, f"{value}%", color="muted", anchor="middle", size=17) for value in (90, 95, 100)
    ]
    legend = bottom + 56
    parts += [dot(8, legend - 6, color="ours", radius=8), text(24, legend, "Ragstone")]
    parts += [dot(158, legend - 6, color="other"), text(174, legend, "Student's t")]
    parts += [dot(308, legend - 6, color="other", hollow=True), text(324, legend, "bootstrap")]
    return legend + 14, parts


def simulated_stream() -> tuple[list[float], list[float], float]:
    """Return the mean of each day, the evidence at the end of each session, and the days until the alarm.

    60 sessions a day of five scores, most of them 1. Their mean falls from 0.85 to 0.80 after 14 days. The budget is
    one false alarm per quarter for 30 streams.
    """
    rng = random.Random(2)  # noqa: S311 - a simulation
    budget, detector = AlarmBudget(1.0, start=0.0), CalendarDetector(0.835)
    days: list[list[float]] = []
    evidence: list[float] = []
    last = 0.0
    for number in range(SESSIONS * 28):
        at = (number + 1) * DAY / SESSIONS
        share = 0.62 if at < 14 * DAY else 0.494
        score = sum(1.0 if rng.random() < share else rng.uniform(0.21, 1.0) for _ in range(5)) / 5
        if number % SESSIONS == 0:
            days.append([])
        days[-1].append(score)
        alarm = detector.update(score, spend=budget.take(last, at, n_streams=30))
        last = at
        evidence.append(1.0 if alarm else sum(detector.state()["m"]) / 6)
        if alarm:
            return [sum(day) / len(day) for day in days], evidence, at / DAY - 14
    raise SystemExit("the simulated stream raises no alarm")


def alarm() -> tuple[int, list[str]]:
    """Draw the days of a simulated stream, and the evidence that becomes an alarm."""
    means, evidence, delay = simulated_stream()

    def across(day: float) -> float:
        return 50 + day * 20

    def up(mean: float) -> float:
        return 130 - (mean - 0.78) * 1000

    end = across(len(means))
    parts = [text(0, 20, "mean of each day")]
    for level in (0.85, 0.80):
        parts += [
            text(0, up(level) + 6, f"{level:.2f}", color="muted", size=17),
            line(across(0), up(level), end, up(level)),
        ]
    parts += [line(across(14), 34, across(14), 282, color="other", dash="5 5")]
    parts += [text(across(14) - 8, 20, "release 2.4.1", color="other", anchor="end")]
    for day, mean in enumerate(means):
        parts.append(dot(across(day + 0.5), up(mean), color="ours" if day < 14 else "other"))
    parts += [text(0, 178, "evidence of a drop"), line(across(0), 282, end, 282)]
    steps = [(across((n + 1) / SESSIONS), 282 - 84 * value) for n, value in enumerate(evidence)]
    path = "L".join(f"{x:.1f} {y:.1f}" for n, (x, y) in enumerate(steps) if n % 5 == 0 or n > 14 * SESSIONS)
    parts.append(f'<path d="M{path}" fill="none" stroke="{{ours}}" stroke-width="3"/>')
    x, y = steps[-1]
    parts += [line(across(0), 198, end, 198, dash="3 5"), dot(x, y, color="other", radius=9)]
    parts += [
        text(x + 14, y + 34, "alarm", color="other"),
        text(x + 14, y + 56, f"after {delay:.1f} days", color="other"),
    ]
    parts += [text(across(day), 306, f"day {day}", color="muted", anchor="middle", size=17) for day in (1, 7, 14)]
    return 314, parts


def kills() -> tuple[int, list[str]]:
    """One dot for each kill in the table of docs/explanation/trust.md: none lost, doubled or changed a request."""
    parts = []
    for number, (name, n_kills) in enumerate(KILLS):
        left, top = 204 * (number % 3), 92 * (number // 3)
        parts += [
            dot(left + 5 + 9 * (kill % 20), top + 6 + 9 * (kill // 20), color="ours", radius=3)
            for kill in range(n_kills)
        ]
        parts.append(text(left, top + 66, name, color="muted", size=16))
    return 258, parts


def overhead() -> tuple[int, list[str]]:
    """CPU of the request's thread with each tracer, from the table of docs/reference/benchmarks.md."""
    rows = [(name, value, f"{value:.2f}", name == "Ragstone") for name, value in TRACERS]
    return 48 + 58 * len(rows), bars("CPU of a request, times that without a callback", rows, largest=2.71)


def first_token() -> tuple[int, list[str]]:
    """Two probabilities of the same prompt, from docs/explanation/abstention.md."""
    rows = [
        ("its first token", 1.0, "1.00", False),
        ("the whole phrase, as Ragstone reads it", 0.006, "0.006", True),
    ]
    return 48 + 58 * len(rows), bars("probability of the reply NO-RESPONSE", rows, largest=1.0)


CHARTS = (coverage, alarm, kills, overhead, first_token)


def write(chart: Callable[[], tuple[int, list[str]]]) -> None:
    """Write the files of a chart."""
    height, parts = chart()
    name = f"chart-{chart.__name__.replace('_', '-')}"
    for scheme, colors in SCHEMES.items():
        body = "\n".join(part.format_map(colors) for part in parts)
        (PICTURES / f"{name}-{scheme}.svg").write_text(
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="-2 0 {WIDTH + 4} {height}" '
            f'font-family="system-ui, sans-serif">\n{body}\n</svg>\n',
            encoding="utf-8",
        )


if __name__ == "__main__":
    for chart in CHARTS:
        write(chart)
