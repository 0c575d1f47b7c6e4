"""Damages files of Ragstone, and prints what becomes of their content: the table of docs/explanation/trust.md.

    python tests/simulate/damage.py [--trials 1000] [--seed 1] [--kind spool]...

A file is damaged by changed bits, a missing end, a page of zeros, or blocks of 512 bytes that are swapped or repeated.
"""

from __future__ import annotations

import argparse
import logging
import re
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from damage import KINDS, run

COLUMNS = ("tried", "unchanged", "refused", "counted", "lost", "doubled", "wrong", "crashed")


def main() -> int:
    """Read the command line, and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=1000, help="damaged files of each kind")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--kind", action="append", choices=list(KINDS), help="repeatable (default: all, each in a process)"
    )
    options = parser.parse_args()
    if options.kind is None or len(options.kind) > 1:
        print(f"| file | {' | '.join(COLUMNS)} | peak MiB | s |\n|{'---|' * (len(COLUMNS) + 3)}", flush=True)
        rest = ["--trials", str(options.trials), "--seed", str(options.seed)]
        # A process for each, so that the peak is its own.
        codes = [
            subprocess.run([sys.executable, __file__, *rest, "--kind", kind], check=False).returncode
            for kind in options.kind or KINDS
        ]
        return max(codes)
    logging.getLogger("ragstone").setLevel(logging.CRITICAL)
    with tempfile.TemporaryDirectory(prefix="ragstone-damage-") as folder:
        counts = run(options.kind[0], options.trials, options.seed, Path(folder))
    peak = int(re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())[1]) // 1024
    cells = " | ".join(f"{getattr(counts, column):,}" for column in COLUMNS)
    print(f"| {options.kind[0]} | {cells} | {peak} | {counts.seconds:.0f} |", flush=True)
    for example in counts.examples:
        print(f"  {example}", file=sys.stderr)
    return 1 if counts.lost or counts.doubled or counts.wrong or counts.crashed else 0


if __name__ == "__main__":
    sys.exit(main())
