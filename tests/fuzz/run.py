"""Fuzz: mutated inputs to everything that reads bytes of unknown origin, for a fixed CPU time for each target.

    python tests/fuzz/run.py [--seconds 40] [--seed N] [--target NAME]...    mutate, and print a table
    python tests/fuzz/run.py --seed N --target NAME --only K                 repeat one input of a run
    python tests/fuzz/run.py --target NAME --input FILE                      run one file

Each input depends only on the seed, the target and its number. An input that raises an error which Ragstone does not document,
that needs more than 5 s of CPU, 10 minutes or 3 GiB is written to .nox/reports/fuzz, and the exit code is 1. A file that was
corrected belongs in tests/fuzz/found/TARGET, which the tests repeat.
"""

from __future__ import annotations

import argparse
import logging
import resource
import secrets
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "tests" / "support"), str(ROOT / "tests" / "fuzz")]

from targets import TARGETS, check_message, make_input, run_input  # noqa: E402 - the path is set above

MOST_CPU_S = 5
LONGEST_S = 600
MOST_MEMORY = 3 * 2**30
FOLDERS = Path("/dev/shm")  # noqa: S108 - directories with random names, made by `tempfile`
"""Inputs become files in memory where that is possible: disks would take most of the time."""
MOST_FINDINGS = 5
"""Findings of a target after which it ends. They are often the same."""


def fuzz(target: str, *, seconds: float, seed: int, findings: Path) -> tuple[int, Counter[str], list[Path]]:
    """Run a target for some seconds of CPU time. Return the number of inputs, how they ended, and files of the findings."""
    ends: Counter[str] = Counter()
    found: list[Path] = []
    n, end = 0, time.process_time() + seconds
    with tempfile.TemporaryDirectory(prefix="ragstone-fuzz-", dir=FOLDERS if FOLDERS.is_dir() else None) as temporary:
        while time.process_time() < end and len(found) < MOST_FINDINGS:
            content = make_input(target, seed, n)
            try:
                ends[run_one(target, content, Path(temporary) / "input")] += 1
            except Exception:  # noqa: BLE001 - that is what is looked for
                findings.mkdir(parents=True, exist_ok=True)
                path = findings / f"{target}-{seed}-{n}"
                path.write_bytes(content)
                found.append(path)
                traceback.print_exc()
                print(f"repeat it: python tests/fuzz/run.py --seed {seed} --target {target} --only {n}", flush=True)
            n += 1
    return n, ends, found


def run_one(target: str, content: bytes, folder: Path) -> str:
    """Run one input in an empty directory, with limits of CPU and of time."""
    folder.mkdir()
    signal.setitimer(signal.ITIMER_PROF, MOST_CPU_S)
    signal.setitimer(signal.ITIMER_REAL, LONGEST_S)
    try:
        return run_input(target, content, folder)
    except TooSlowError:
        raise TimeoutError(f"it took more than {MOST_CPU_S} s of CPU, or {LONGEST_S} s") from None
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
        shutil.rmtree(folder)


class CheckedLog(logging.Handler):
    """Checks what is logged about hostile inputs, and prints nothing."""

    def emit(self, record: logging.LogRecord) -> None:
        """Check one message."""
        check_message(record.getMessage())


class TooSlowError(BaseException):
    """An input takes too long. No `except Exception` of the code that reads it catches this."""


def stop(*_: object) -> None:
    """End an input that takes too long."""
    raise TooSlowError


def main() -> int:
    """Read the command line, and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=40.0, help="CPU time for each target")
    parser.add_argument("--seed", type=int, default=None, help="a random one, which is printed, if it is not given")
    parser.add_argument("--target", action="append", choices=sorted(TARGETS), help="repeatable (default: all)")
    parser.add_argument("--only", type=int, help="number of one input")
    parser.add_argument("--input", type=Path, help="a file")
    options = parser.parse_args()
    seed = secrets.randbelow(10**9) if options.seed is None else options.seed
    signal.signal(signal.SIGALRM, stop)
    signal.signal(signal.SIGPROF, stop)
    logging.getLogger("ragstone").addHandler(CheckedLog())
    logging.getLogger("ragstone").propagate = False
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    targets = options.target or list(TARGETS)
    if options.input is not None or options.only is not None:
        content = make_input(targets[0], seed, options.only) if options.input is None else options.input.read_bytes()
        with tempfile.TemporaryDirectory() as temporary:
            print(run_one(targets[0], content, Path(temporary) / "input"))
        return 0
    print(f"seed {seed}", flush=True)
    total, failed = 0, 0
    for target in targets:
        n, ends, found = fuzz(target, seconds=options.seconds, seed=seed, findings=ROOT / ".nox" / "reports" / "fuzz")
        total, failed = total + n, failed + len(found)
        shown = ", ".join(f"{name} {count:,}" for name, count in ends.most_common(5))
        print(f"{target:<20} {n:>9,} inputs {len(found):>3} findings   {shown}", flush=True)
    print(f"{'all':<20} {total:>9,} inputs {failed:>3} findings   seed {seed}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
