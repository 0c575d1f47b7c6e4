"""Reading traces of other tools: time in proportion to their number, memory that does not grow with it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.bench,
    pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads its peak memory from /proc"),
]

SIZES = [int(size) for size in os.environ.get("RAGSTONE_REPLAY_SIZES", "1000,10000").split(",")]
"""Traces; `RAGSTONE_REPLAY_SIZES=1000,10000,100000` for the figures of the documentation (five minutes)."""
MAX_GROWTH_MIB = 40
MAX_SLOWDOWN = 2.0

READER = """
import re, resource, sys
from pathlib import Path
from ragstone.reading import InputFile
from ragstone.reading.otlp import OtlpFormat
def peak_mib():
    # What `getrusage` says includes the process that this one was forked from.
    return int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) / 1024
before = peak_mib()
n = sum(1 for _ in OtlpFormat().read(InputFile(Path(sys.argv[1]), "export")))
used = resource.getrusage(resource.RUSAGE_SELF)
print(n, peak_mib(), before, used.ru_utime + used.ru_stime)
"""


def attribute(key, value):
    """One attribute."""
    return {"key": key, "value": {"stringValue": value}}


def spans(number: int) -> list[dict]:
    """The nine spans of a request as an instrumented chain makes them, about 8 KiB."""
    trace_id, question = f"{number + 1:032x}", f"What is passage {number} about?"
    text = f"Passage {number}. " + "It has a sentence or two more than it needs. " * 12
    kinds = ["CHAIN", "CHAIN", "CHAIN", "RETRIEVER", "CHAIN", "CHAIN", "CHAIN", "LLM", "CHAIN"]
    made = []
    for place, kind in enumerate(kinds):
        attributes = [
            attribute("openinference.span.kind", kind),
            attribute("input.value", question),
            attribute("output.value", f"It is about {number}."),
            attribute("session.id", f"session-{number % 50}"),
        ]
        if kind == "RETRIEVER":
            for rank in range(5):
                attributes.append(attribute(f"retrieval.documents.{rank}.document.content", f"{rank}: {text}"))
                attributes.append(attribute(f"retrieval.documents.{rank}.document.id", f"{number}-{rank}"))
        if kind == "LLM":
            attributes.append({"key": "llm.token_count.prompt", "value": {"intValue": "700"}})
        start = 1_795_219_315_000_000_000 + number * 1_000_000 + place * 1000
        made.append(
            {
                "traceId": trace_id,
                "spanId": f"{number * 16 + place + 1:016x}",
                "parentSpanId": "" if place == 0 else f"{number * 16 + 1:016x}",
                "name": f"step {place}",
                "startTimeUnixNano": str(start),
                "endTimeUnixNano": str(start + 100_000),
                "status": {"code": 1},
                "attributes": attributes,
            }
        )
    return made


def write(path: Path, n_traces: int, *, as_lines: bool) -> None:
    """An export whose batches hold the spans of several requests, as a collector's do; or one document."""
    with path.open("w", encoding="utf-8") as file:
        if not as_lines:
            file.write('{"resourceSpans": [{"resource": {}, "scopeSpans": [{"scope": {}, "spans": [\n')
        for start in range(0, n_traces, 20):
            batch = [span for number in range(start, min(start + 20, n_traces)) for span in spans(number)]
            if as_lines:
                file.write(json.dumps({"resourceSpans": [{"resource": {}, "scopeSpans": [{"spans": batch}]}]}) + "\n")
            else:
                file.write((",\n" if start else "") + ",\n".join(map(json.dumps, batch)))
        if not as_lines:
            file.write("\n]}]}]}\n")


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("as_lines", [True, False], ids=["JSON lines", "one JSON document"])
def test_memory_is_flat_and_time_is_linear(tmp_path, as_lines, record_property):
    """In a process of its own: peak memory beyond what it started with, processor time, and wall time a trace."""
    if not as_lines:
        pytest.importorskip("ijson")
    memory, per_trace = {}, {}
    for size in SIZES:
        path = tmp_path / "export"
        write(path, size, as_lines=as_lines)
        started = time.perf_counter()
        output = subprocess.run(
            [sys.executable, "-c", READER, str(path)], check=True, capture_output=True, text=True
        ).stdout
        wall_s = time.perf_counter() - started
        n, peak, before, cpu_s = map(float, output.split())
        memory[size], per_trace[size] = peak - before, cpu_s / size
        figures = (
            f"{size} traces, {path.stat().st_size / 2**20:.0f} MiB: {wall_s:.1f} s, {cpu_s:.1f} s of processor, "
            f"{size / wall_s:.0f} traces/s, {peak - before:.0f} MiB more than before (peak {peak:.0f} MiB)"
        )
        print(figures)
        record_property(f"{size}", figures)
        assert size == n

    assert memory[SIZES[-1]] < memory[SIZES[0]] + MAX_GROWTH_MIB
    assert per_trace[SIZES[-1]] < per_trace[SIZES[0]] * MAX_SLOWDOWN
