"""Means over time: parts of at least 20 scores, weights, releases, and the same numbers in all renderers."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from completions import complete
from ragstone.experiments import build_report
from ragstone.schema import Captured, Passage, Score, Trace
from ragstone.stats import hajek_mean, mean_interval
from ragstone.store import PlannedMetric, SqliteStore
from ragstone.views import ReportText, format_interval, format_mean, notebook_report

DAY = 86400.0
Request = tuple[float, float, float, str | None]
"""Day, score, sampling probability and release."""


def stored(path: Path, requests: Sequence[Request]) -> Path:
    """A store of scored requests."""
    with SqliteStore.open(path, mode="own") as store:
        store.plan.set([PlannedMetric(name="ccrs.cc", version="1", judge_hash="h")], [])
        for n, (day, value, probability, release) in enumerate(requests):
            trace = Trace(
                trace_id=f"t{n}",
                started_at=20_000 * DAY + day * DAY,
                query="?",
                response="An answer.",
                contexts=(Passage(text="A text."),),
                metadata={} if release is None else {"release": release},
                inclusion_probability=probability,
            )
            store.traces.ingest("s", n + 1, [Captured(trace=trace)])
            store.leases.claim("w", 1, lease_s=60)
            score = Score(
                sample_id=f"t{n}",
                metric="ccrs.cc",
                metric_version="1",
                value=value,
                method="exact",
                judge="j",
                judge_hash="h",
            )
            complete(store, f"t{n}", [score], owner="w")
    return path


def traffic(n: int, days: float, *, seed: int = 0) -> list[Request]:
    """Requests in random order, of which every second was sampled with probability 0.5, and a release on day 5."""
    rng = random.Random(seed)
    times = sorted(rng.random() * days for _ in range(n))
    return [(t, rng.random(), 0.5 if k % 2 else 1.0, "2.3" if t < 5 else "2.4") for k, t in enumerate(times)]


def test_each_point_is_recomputed(tmp_path: Path) -> None:
    """Weighted means of the scores of consecutive days, and every score is in one part."""
    requests = traffic(160, 10)
    view = build_report(stored(tmp_path / "r.db", requests))
    assert view.trend is not None
    assert DAY / 2 == view.trend.part_s
    (row,) = view.trend.rows
    total = 0
    for point in row.points:
        own = [r for r in requests if point.since <= 20_000 * DAY + r[0] * DAY <= point.until]
        assert len(own) >= 20
        total += len(own)
        expected = hajek_mean([r[1] for r in own], [r[2] for r in own], low=0.0, high=1.0)
        assert expected == point.estimate
        starts = {math.floor((20_000 + r[0]) * 2) for r in own}
        assert len(starts) <= 1 or len([r for r in own if math.floor((20_000 + r[0]) * 2) == min(starts)]) < 20
    assert len(requests) == total
    (mark,) = view.trend.releases
    assert ("2.4", 20_000 * DAY + min(r[0] for r in requests if r[3] == "2.4") * DAY) == (mark.name, mark.time)


def test_equal_probabilities_have_the_interval_of_a_mean(tmp_path: Path) -> None:
    """Two days of 25 scores are two points."""
    requests = [(k // 25 * 1.5 + k / 1000, k % 25 / 24, 1.0, None) for k in range(50)]
    view = build_report(stored(tmp_path / "r.db", requests))
    assert view.trend is not None
    estimates = [point.estimate for point in view.trend.rows[0].points]
    assert [mean_interval([k / 24 for k in range(25)])] * 2 == estimates
    assert () == view.trend.releases


@pytest.mark.parametrize(
    "requests",
    [
        [(k / 10, 0.5, 1.0, None) for k in range(39)],
        [(k / 1000, 0.5, 1.0, None) for k in range(80)],
        [(0.0, 0.5, 1.0, None)] * 60,
    ],
)
def test_too_few_scores_or_too_little_time(tmp_path: Path, requests: Sequence[Request]) -> None:
    """No trend, and the report is complete without it."""
    view = build_report(stored(tmp_path / "r.db", requests))
    assert view.trend is None
    assert "Over time" not in "\n".join(line.plain for line in ReportText(view).lines())


def test_many_releases_are_not_marked(tmp_path: Path) -> None:
    """Lines at every request would hide the means."""
    requests = [(k / 10, 0.5, 1.0, f"build {k // 5}") for k in range(100)]
    view = build_report(stored(tmp_path / "r.db", requests))
    assert view.trend is not None
    assert () == view.trend.releases


@pytest.mark.parametrize(("width", "ascii_only"), [(60, False), (80, True), (120, False)])
def test_all_renderers_show_the_same_points(tmp_path: Path, width: int, ascii_only: bool) -> None:
    """First and last mean with their intervals, and the releases."""
    path = stored(tmp_path / "r.db", traffic(160, 10))
    view = build_report(path)
    assert view.trend is not None
    points = view.trend.rows[0].points
    lines = [line.plain for line in ReportText(view, width=width, ascii_only=ascii_only).lines()]
    assert max(map(len, lines)) <= width
    build_report(path, tmp_path / "r.html")
    build_report(path, tmp_path / "r.md")
    page, summary = ((tmp_path / name).read_text(encoding="utf-8") for name in ("r.html", "r.md"))
    terminal = " ".join(" ".join(lines).split())
    for point in (points[0], points[-1]):
        assert f"{format_mean(point.estimate)} {format_interval(point.estimate)}" in terminal
        assert f"{format_mean(point.estimate)} {format_interval(point.estimate)}" in summary.replace("\\", "")
    assert "Releases: 2.4 (" in terminal
    for document in (page, notebook_report(view)):
        last = points[-1].estimate
        assert f"{format_interval(last)} last" in document
        assert "<title>release 2.4</title>" in document
        line = re.search(r'd="M([^"Z]*)" class="trend"', document)
        assert line is not None
        assert len(points) == len(line[1].split("L"))
