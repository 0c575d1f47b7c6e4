"""`read_traces`: lazy, each trace once, and damage is reported as replay does."""

from __future__ import annotations

import gzip
import json
import logging
import subprocess
import sys
from itertools import islice
from pathlib import Path

import pytest

import ragstone
from ragstone.errors import ConfigurationError, DataError
from ragstone.reading import InputFile
from ragstone.reading._json import line_values
from ragstone.replay import replay_traces


def write(path: Path, n: int, *, first: int = 0) -> Path:
    """Rows of n requests."""
    rows = [
        {"id": f"t{i}", "query": f"question {i}", "response": "r", "contexts": ["c"]} for i in range(first, first + n)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_it_reads_no_more_than_is_asked_for(tmp_path, monkeypatch):
    """The first traces come after the rows that decide about the format of each file and the columns of the first."""
    n_read = 0

    def counted(source: InputFile, **options: bool):
        nonlocal n_read
        for value in line_values(source, **options):
            n_read += 1
            yield value

    monkeypatch.setattr("ragstone.reading._tables.line_values", counted)
    files = [str(write(tmp_path / "a.jsonl", 500)), str(write(tmp_path / "b.jsonl", 500, first=500))]
    traces = ragstone.read_traces(files)

    assert n_read == 0
    assert [t.trace_id for t in islice(traces, 3)] == ["t0", "t1", "t2"]
    assert n_read == 2 * 50 + 50
    assert [t.trace_id for t in traces] == [f"t{i}" for i in range(3, 1000)]


def test_memory_does_not_grow_with_the_file(tmp_path):
    """20,000 traces of 4 kB need less than 40 MB more than 500."""
    code = """
import re, sys
from pathlib import Path
import ragstone
n = sum(1 for _ in ragstone.read_traces(sys.argv[1:]))
print(n, int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) // 1024)
"""
    peaks = []
    row = {"query": "q", "response": "r" * 100, "contexts": ["c" * 4000]}
    with gzip.open(tmp_path / "a.jsonl.gz", "wt", compresslevel=1) as file:
        file.writelines(json.dumps({**row, "id": f"t{i}"}) + "\n" for i in range(500))
    for n in (1, 40):
        names = [str(tmp_path / "a.jsonl.gz")] * n
        done = subprocess.run([sys.executable, "-c", code, *names], capture_output=True, text=True, check=True)
        n_traces, peak_mb = map(int, done.stdout.split())
        assert n_traces == 500 * n
        peaks.append(peak_mb)

    assert peaks[1] - peaks[0] < 40


def test_what_is_rejected_is_reported(tmp_path, caplog):
    """To a function, or as one warning."""
    path = write(tmp_path / "a.jsonl", 2)
    path.write_text(path.read_text() + "no JSON\n[1]\n" + json.dumps({"id": "x", "query": "q", "response": "r"}) + "\n")
    rejected = []

    assert ["t0", "t1", "x"] == [t.trace_id for t in ragstone.read_traces(str(path), on_rejected=rejected.append)]
    assert ["row 3", "row 4"] == [record.place for record in rejected]
    with caplog.at_level(logging.WARNING, "ragstone"):
        assert 3 == len(list(ragstone.read_traces(str(path))))
    assert "2 skipped, first row 3: line 3" in caplog.text


def test_a_damaged_file_is_reported_after_all_others(tmp_path):
    """The traces before the damage and those of the other files come first, as in a replay."""
    damaged = tmp_path / "a.jsonl.gz"
    damaged.write_bytes(gzip.compress(write(tmp_path / "plain.jsonl", 1000).read_bytes())[:-1000])
    good = write(tmp_path / "b.jsonl", 3, first=10_000)
    found: list[str] = []
    with pytest.raises(DataError, match=r"a\.jsonl\.gz.*The traces before this place were read"):
        found.extend(trace.trace_id for trace in ragstone.read_traces([str(damaged), str(good)]))

    report = replay_traces([str(damaged), str(good)], "ccrs.qr", store=tmp_path / "s.db", judge="lexical")
    assert not report.is_whole
    assert report.n_new == len(found)
    assert found[-3:] == ["t10000", "t10001", "t10002"]
    assert found[:2] == ["t0", "t1"]


@pytest.mark.parametrize(
    ("sources", "format", "error"),
    [
        ([], "auto", ConfigurationError),
        (["nowhere.jsonl"], "auto", ConfigurationError),
        (["a.jsonl"], "no-format", ConfigurationError),
        (["unknown.txt"], "auto", DataError),
    ],
)
def test_what_cannot_be_read_is_refused(tmp_path, monkeypatch, sources, format, error):  # noqa: A002
    """Before the first trace."""
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "a.jsonl", 1)
    (tmp_path / "unknown.txt").write_text("hello")
    with pytest.raises(error):
        next(ragstone.read_traces(sources, format))


def test_one_or_several_paths_and_texts(tmp_path):
    """Of each type, wherever files are named."""
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps({"id": "a", "query": "q", "contexts": ["c"], "response": "r"}) + "\n", encoding="utf-8")
    for sources in (path, str(path), [path], [str(path)]):
        assert ["a"] == [trace.trace_id for trace in ragstone.read_traces(sources)]
        assert 1 == replay_traces(sources, ["ccrs.cc"], store=tmp_path / "s.db", judge="lexical").files[0].n_read


def test_several_damaged_files_are_one_error(tmp_path):
    """It names the first one, and the number of the others."""
    files = [write(tmp_path / f"{name}.jsonl", 1000, first=1000 * n) for n, name in enumerate("abc")]
    for file in files:
        file.write_bytes(gzip.compress(file.read_bytes())[:-500])

    with pytest.raises(DataError, match=r"a\.jsonl' cannot be read.* So are 2 other files\.$"):
        list(ragstone.read_traces(files))
