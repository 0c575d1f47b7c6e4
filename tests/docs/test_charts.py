"""The charts of the first page are those that `.ci/charts.py` draws, with the numbers of the pages that they summarize."""

from __future__ import annotations

import importlib.util
import re

import pytest

from docs_pages import ROOT

SPEC = importlib.util.spec_from_file_location("charts", ROOT / ".ci" / "charts.py")
charts = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(charts)


@pytest.mark.parametrize("chart", charts.CHARTS, ids=lambda chart: chart.__name__)
def test_the_files_are_those_that_the_script_draws(chart, tmp_path, monkeypatch):
    """After a change of the script or of the detector of alarms, `python .ci/charts.py` writes them again."""
    monkeypatch.setattr(charts, "PICTURES", tmp_path)

    charts.write(chart)

    drawn = {path.name: path.read_text(encoding="utf-8") for path in tmp_path.iterdir()}
    assert len(drawn) == len(charts.SCHEMES)
    assert drawn == {name: (ROOT / "docs" / "pictures" / name).read_text(encoding="utf-8") for name in drawn}


def test_the_bars_of_tracers_are_those_of_the_benchmark():
    """The table of docs/reference/benchmarks.md has each name with the value of its bar."""
    page = (ROOT / "docs" / "reference" / "benchmarks.md").read_text(encoding="utf-8").lower()
    assert [] == [row for row in charts.TRACERS if f"| {row[0].lower()} | {row[1]:.2f} |" not in page]


def test_the_dots_of_intervals_are_those_of_the_measured_coverage():
    """The table of docs/explanation/intervals.md has the coverage of each method for each kind of scores."""
    page = (ROOT / "docs" / "explanation" / "intervals.md").read_text(encoding="utf-8")
    means = page[page.index("## Means") :].partition("\n## ")[0]
    table = {
        tuple(map(float, found))
        for found in re.findall(
            r"^\| \w+ \| \d+ \| ([\d.]+) \S+ \| ([\d.]+) \S+ \| ([\d.]+) \S+ \|$", means, re.MULTILINE
        )
    }
    assert table == {row[1:] for row in charts.COVERAGE}
