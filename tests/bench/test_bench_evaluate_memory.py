"""Memory of `evaluate`: it does not grow with the rows. Peaks of child processes, as ratios within one run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.bench,
    pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads its peak memory from /proc"),
]

SIZES = [int(size) for size in os.environ.get("RAGSTONE_EVALUATE_SIZES", "12000,120000").split(",")]
"""Rows; `RAGSTONE_EVALUATE_SIZES=10000,1000000` for the figures of the documentation (several minutes)."""
MAX_GROWTH = 1.35
MAX_MIB_WITH_PASSAGES = 300

EVALUATE = """
import re, resource, sys
from pathlib import Path
import ragstone

n, n_passages = int(sys.argv[1]), int(sys.argv[2])
def rows():
    for i in range(n):
        passages = [f"Station {i} is {i % 97} km away, by the table of {j}. " * 4 for j in range(n_passages)]
        yield {"id": f"row-{i}", "query": f"How far is station {i}?", "contexts": passages,
               "response": f"It is {i % 97} km away.", "reference": f"{i % 97} km"}
result = ragstone.evaluate(rows(), ["token_f1"])
def peak_mib():
    # What `getrusage` says of memory includes the process that this one was forked from.
    return int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) / 1024
at_the_end = peak_mib()
used = resource.getrusage(resource.RUSAGE_SELF)
assert result.summary()[0].n_scored == n
print(at_the_end, 1e6 * (used.ru_utime + used.ru_stime) / n)
"""


def measure(n: int, n_passages: int) -> tuple[float, float]:
    """Return the peak memory of a process that evaluates rows, in MiB, and its CPU time a row, in microseconds."""
    done = subprocess.run(
        [sys.executable, "-c", EVALUATE, str(n), str(n_passages)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    peak, cpu = map(float, done.stdout.split())
    return peak, cpu


def test_memory_does_not_grow_with_the_rows() -> None:
    """Ten times the rows need about the same memory."""
    measured = [measure(n, 3) for n in SIZES]
    for n, (peak, cpu) in zip(SIZES, measured, strict=True):
        print(f"\nevaluate, {n:,} rows: peak {peak:.0f} MiB, {cpu:.0f} us CPU a row")
    assert measured[-1][0] <= MAX_GROWTH * measured[0][0]


def test_many_passages_fit_into_memory() -> None:
    """10,000 rows of 100 passages are a gigabyte of objects."""
    peak, cpu = measure(10_000, 100)
    print(f"\nevaluate, 10,000 rows of 100 passages: peak {peak:.0f} MiB, {cpu:.0f} us CPU a row")
    assert peak <= MAX_MIB_WITH_PASSAGES
