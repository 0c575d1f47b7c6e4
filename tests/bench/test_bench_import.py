"""CPU time of importing Ragstone in an application, and of the first commands of its terminal program."""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys

import pytest

pytestmark = pytest.mark.bench

ROUNDS = 11
FLOOR = "import asyncio, pydantic; type('Row', (pydantic.BaseModel,), {'__annotations__': {'name': str, 'n': int}})"
"""What a program with a client of a model has loaded: asyncio, and pydantic with one model."""
MAX_RATIO = 2.0
MAX_HELP_S = 0.5


def cpu_s(*arguments: str) -> float:
    """Seconds of CPU that a process takes."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *arguments], check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def test_import_of_a_monitor():
    """Capture, spool and store are imported. Judges, metrics, sinks and the worker are not."""
    statements = ("pass", FLOOR, "from ragstone import Monitor")
    rounds = [[cpu_s("-c", statement) for statement in statements] for _ in range(ROUNDS)]
    empty, floor, monitor = (statistics.median(column) for column in zip(*rounds, strict=True))
    ratio = statistics.median(each[2] / each[1] for each in rounds)
    print(f"\n  Python {empty:.3f} s, floor {floor:.3f} s, Monitor {monitor:.3f} s: x{ratio:.2f} of the floor")
    assert ratio <= MAX_RATIO


def test_import_of_scipy():
    """Only statistics that need scipy import it: tables of means and their intervals do not."""
    scored = """
import sys, ragstone
rows = [{"response": text, "reference": "a b"} for text in ("a", "b", "a b") * 8]
assert "token_f1" in str(ragstone.evaluate(rows, "token_f1"))
assert "scipy" not in sys.modules
"""
    ranked = "from ragstone.stats import kendall; kendall([1, 2, 3], [1, 3, 2])"
    statements = ("import numpy", scored, "import scipy.special", "import scipy.stats", ranked)
    rounds = [[cpu_s("-c", statement) for statement in statements] for _ in range(ROUNDS)]
    numpy, table, special, stats, tau = (statistics.median(column) for column in zip(*rounds, strict=True))
    print(f"\n  numpy {numpy:.2f} s, a table {table:.2f} s, scipy.special {special:.2f} s, scipy.stats {stats:.2f} s")
    print(f"  Kendall's tau {tau:.2f} s")
    assert statistics.median(each[4] / each[3] for each in rounds) <= MAX_RATIO


def test_help():
    """Commands import what they use when they run."""
    command = "import sys; from ragstone.cli import main; sys.argv = ['ragstone', '--help']; main()"
    taken = statistics.median(cpu_s("-c", command) for _ in range(ROUNDS))
    print(f"\n  ragstone --help {taken:.3f} s")
    assert taken <= MAX_HELP_S
