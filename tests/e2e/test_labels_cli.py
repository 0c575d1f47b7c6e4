"""`ragstone labels`, and what report and status say afterwards."""

from __future__ import annotations

import json
from pathlib import Path

from command_line import run_command
from live_store import make_store


def test_draw_label_and_report(tmp_path: Path):
    """From a store to a corrected share of wrong answers, with the printed commands."""
    path = make_store(tmp_path / "s.db", 60)
    sheet = tmp_path / "labels.csv"
    done = run_command("labels", "draw", path, "--limit", 20, "--set", "analysis.seed=1", "--output", sheet)
    assert 0 == done.returncode, done.stderr
    assert "20 of 60 scored requests drawn, 20 in all draws." in done.stdout
    assert f"ragstone labels add {path} {sheet}" in done.stdout
    lines = sheet.read_text().splitlines()
    assert (21, "trace_id,question,answer,reference,label") == (len(lines), lines[0])
    sheet.write_text("\n".join([lines[0], *(f"{line}partly" for line in lines[1:3]), *lines[3:]]) + "\n")
    assert "2 labels added." in run_command("labels", "add", path, sheet, "--author", "bob").stdout
    rows = tmp_path / "labels.jsonl"
    rows.write_text("".join(json.dumps({"trace_id": f"t{k}", "label": int(k % 4 != 0)}) + "\n" for k in range(60)))
    assert "a label must be" in run_command("labels", "add", path, rows, "--set", "research.label_range=3,4").stderr
    done = run_command("labels", "add", path, rows, "--author", "ann")
    assert "60 labels added." in done.stdout
    rows.write_text("".join(json.dumps({"trace_id": "t1", "label": k}) + "\n" for k in (0, 1, 1)))
    done = run_command("labels", "add", path, rows, "--author", "ann")
    assert "0 labels added, 1 replaced. 2 rows are about the same request and author as a later row" in done.stdout
    done = run_command("labels", "add", path, rows, "--author", "eve", "--json")
    assert {"n": 1, "n_new": 1, "n_replaced": 0, "n_repeated": 2, "notes": []} == json.loads(done.stdout)
    report = run_command("report", path).stdout
    status = run_command("status", path).stdout
    for text in (report, status):
        assert "Metrics and people agree on" in " ".join(text.split())
        assert "According to people" in text
    page = tmp_path / "r.html"
    assert 0 == run_command("report", path, "-o", page).returncode
    html = page.read_text()
    assert "What people say" in html
    assert "60 requests labeled by 3 people" in html


def test_labels_that_people_wrote_are_not_overwritten(tmp_path: Path):
    """A second draw needs another file. The printed command has a quoted path."""
    path, sheet = make_store(tmp_path / "s.db", 20), tmp_path / "my labels.csv"
    command = ("labels", "draw", path, "--limit", 5, "--output")
    assert f"ragstone labels add {path} '{sheet}'" in run_command(*command, sheet).stdout
    sheet.write_text(sheet.read_text().replace(",\n", ",correct\n"))
    written = sheet.read_text()
    refused = run_command(*command, sheet)
    assert (2, written) == (refused.returncode, sheet.read_text())
    assert "exists and may contain labels" in refused.stderr
    assert "in all draws" not in refused.stdout
    assert 0 == run_command(*command, tmp_path / "more.csv").returncode


def test_wrong_input(tmp_path: Path):
    """One message each."""
    assert 2 == run_command("labels", "add", make_store(tmp_path / "s.db", 1), tmp_path / "none.csv").returncode
    assert "not found" in run_command("labels", "draw", tmp_path / "none.db").stderr
