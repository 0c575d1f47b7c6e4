"""Replay as a whole, from a file to scores in a store: time in proportion to the traces, memory that does not grow with them."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tarfile
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = [
    pytest.mark.bench,
    pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads its peak memory from /proc"),
]

SIZES = [int(size) for size in os.environ.get("RAGSTONE_REPLAY_SIZES", "1000,10000").split(",")]
"""Traces; `RAGSTONE_REPLAY_SIZES=1000,10000,100000` for the figures of the documentation (half an hour)."""
METRICS = "ccrs.cc,ccrs.qr,ccrs.id"
MAX_GROWTH = 1.5
MAX_SLOWDOWN = 1.7

REPLAY = """
import re, resource, sqlite3, sys
from pathlib import Path
import ragstone.cli
export, store, metrics = sys.argv[1:]
# The baseline judge answers at once: what is measured is everything else.
sys.argv = ["ragstone", "replay", export, "--store", store, "--metrics", metrics, "--judge", "lexical"]
try:
    (getattr(ragstone.cli, "program", None) or ragstone.cli.main)()
except SystemExit as end:
    if end.code:
        raise
used = resource.getrusage(resource.RUSAGE_SELF)
# What `getrusage` says of memory includes the process that this one was forked from.
peak_mib = int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) / 1024
(n,) = sqlite3.connect(store).execute("SELECT count(*) FROM traces").fetchone()
print()
print(n, peak_mib, used.ru_utime + used.ru_stime)
"""


def passages(number: int) -> list[str]:
    """Five passages of a request, about 3 KiB."""
    text = f"Passage {number}. " + "It has a sentence or two more than it needs. " * 12
    return [f"{rank}: {text}" for rank in range(5)]


def row(number: int) -> str:
    """A request as a line of a data set."""
    about = {"id": f"t{number}", "query": f"What is {number} about?", "response": f"It is about {number}."}
    return json.dumps({**about, "contexts": passages(number)})


def span(number: int, place: int, kind: str, **attributes: str) -> dict[str, Any]:
    """A step of a request in OTLP's JSON."""
    told = {"openinference.span.kind": kind, "input.value": f"What is {number} about?", **attributes}
    start = 1_795_219_315_000_000_000 + number * 1_000_000 + place * 1000
    return {
        "traceId": f"{number + 1:032x}",
        "spanId": f"{number * 16 + place + 1:016x}",
        "parentSpanId": "" if place == 0 else f"{number * 16 + 1:016x}",
        "name": f"step {place}",
        "startTimeUnixNano": str(start),
        "endTimeUnixNano": str(start + 100_000),
        "attributes": [{"key": key, "value": {"stringValue": value}} for key, value in told.items()],
    }


def message(number: int) -> str:
    """A request as a line of an OTLP export: a chain, its search, its model."""
    found = {f"retrieval.documents.{rank}.document.content": text for rank, text in enumerate(passages(number))}
    spans = [
        span(number, 0, "CHAIN", **{"output.value": f"It is about {number}."}),
        span(number, 1, "RETRIEVER", **found),
        span(number, 2, "LLM", **{"output.value": f"It is about {number}."}),
    ]
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]})


def measured(folder: Path, lines: Iterator[str]) -> tuple[int, float, float, float]:
    """Replay an export in a process of its own: traces, peak memory in MiB, seconds of processor, seconds."""
    folder.mkdir()
    file = folder / "export.jsonl"
    with file.open("w", encoding="utf-8") as out:
        out.writelines(line + "\n" for line in lines)
    started = time.perf_counter()
    output = subprocess.run(
        [sys.executable, "-c", REPLAY, str(file), str(folder / "r.db"), METRICS],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    n, peak_mib, cpu_s = output.splitlines()[-1].split()
    return int(n), float(peak_mib), float(cpu_s), time.perf_counter() - started


@pytest.mark.timeout(7200)
@pytest.mark.parametrize("line", [row, message], ids=["rows", "OTLP"])
def test_a_larger_replay_takes_as_much_memory_and_as_long_a_trace(tmp_path, line, record_property):
    """Ten times the traces: peak memory and processor time a trace hardly differ."""
    # What a process takes before its first trace is no part of what a trace takes.
    _, _, start_s, _ = measured(tmp_path / "none", iter([line(0)]))
    memory, per_trace = {}, {}
    for size in SIZES:
        n, peak_mib, cpu_s, wall_s = measured(tmp_path / str(size), map(line, range(size)))
        memory[size], per_trace[size] = peak_mib, (cpu_s - start_s) / size
        figures = (
            f"{size} traces: {wall_s:.1f} s, {size / wall_s:.0f} traces/s; {cpu_s:.1f} s of processor, "
            f"{1 / per_trace[size]:.0f} traces a second of it; peak {peak_mib:.0f} MiB"
        )
        print(figures)
        record_property(f"{size}", figures)
        assert size == n

    assert memory[SIZES[-1]] < memory[SIZES[0]] * MAX_GROWTH
    assert per_trace[SIZES[-1]] < per_trace[SIZES[0]] * MAX_SLOWDOWN


BEFORE = os.environ.get("RAGSTONE_BENCH_BEFORE", "ffec998")
"""Commit that replay is compared with."""
MIN_SPEEDUP = {METRICS: 2.0, "ccrs.cc": 2.2, "crux.coverage": 1.5}
"""By metrics. Without sub-questions, `crux.coverage` is not applicable: what is measured is everything except scoring."""


def declare(package: Path) -> Path:
    """Make the metadata of an older package, so that its entry points win over those of the installed one."""
    project = tomllib.loads((package / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    info = package / "src" / "ragstone-0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: ragstone\nVersion: 0\n", encoding="utf-8")
    groups = [
        "\n".join([f"[{group}]", *(f"{name} = {value}" for name, value in entries.items())])
        for group, entries in project["entry-points"].items()
    ]
    (info / "entry_points.txt").write_text("\n".join(groups), encoding="utf-8")
    return info.parent


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("metrics", list(MIN_SPEEDUP))
def test_a_trace_costs_less_than_before(tmp_path, record_property, metrics):
    """Processor time a trace of this version and of an older one, in interleaved rounds on the same export."""
    archive = tmp_path / "before.tar"
    found = subprocess.run(
        ["git", "archive", "-o", str(archive), BEFORE, "packages/ragstone"],
        cwd=Path(__file__).parents[2], check=False, capture_output=True,
    )  # fmt: skip
    if found.returncode:
        pytest.skip(f"the commit {BEFORE} is not in this clone")
    with tarfile.open(archive) as files:
        files.extractall(tmp_path / "before", filter="data")
    older = str(declare(tmp_path / "before" / "packages" / "ragstone"))
    export, n_traces = tmp_path / "export.jsonl", 2000
    export.write_text("".join(row(number) + "\n" for number in range(n_traces)), encoding="utf-8")
    one = tmp_path / "one.jsonl"
    one.write_text(row(0) + "\n", encoding="utf-8")

    def per_trace(round_: int, name: str, path: str | None) -> float:
        seconds = []
        for file in (one, export):
            store = tmp_path / f"{name}-{round_}-{file.stem}.db"
            command = [sys.executable, "-c", REPLAY, str(file), str(store), metrics]
            environment = os.environ | ({"PYTHONPATH": path} if path else {})
            output = subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout
            seconds.append(float(output.split()[-1]))
        return (seconds[1] - seconds[0]) / (n_traces - 1)

    rounds = [(per_trace(i, "now", None), per_trace(i, "before", older)) for i in range(9)]
    speedup = statistics.median(before / now for now, before in rounds)
    now_ms, before_ms = (statistics.median(column) * 1e3 for column in zip(*rounds, strict=True))
    figures = (
        f"{metrics}: {BEFORE} {before_ms:.2f} ms of processor a trace; now {now_ms:.2f} ms: {speedup:.1f} x a core"
    )
    print(f"\n  {figures}")
    record_property("speedup", figures)
    assert speedup >= MIN_SPEEDUP[metrics]
