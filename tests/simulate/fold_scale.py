"""Folds a queue of outcomes of 30 days, as a worker that was stopped does, and prints time and memory.

    python tests/simulate/fold_scale.py 1000000 /tmp/folder

The outcomes are those of one metric, in sessions of five. Times are seconds of CPU, so other programs on the machine disturb them less.
"""

from __future__ import annotations

import random
import re
import sqlite3
import sys
import time
from contextlib import closing
from pathlib import Path

from ragstone.settings import Watch
from ragstone.store import open_store
from ragstone.watch import Scale, fold, read_streams

DAYS = 30
SESSION = 5
PART = 10_000
"""What a worker folds in one transaction."""


def queue(path: Path, n: int) -> None:
    """Store `n` scored requests whose outcomes are queued."""
    open_store(path, mode="own").close()
    rng = random.Random(1)
    step = DAYS * 86_400.0 / n
    with closing(sqlite3.connect(path)) as db, db:
        db.executemany(
            "INSERT INTO traces (seq, trace_id, state, status, started_at, received_at, inclusion_probability, session_id, app) "
            "VALUES (?, ?, 'scored', 'ok', ?, ?, 1, ?, 'app')",
            ((i, f"t{i}", i * step, i * step, f"s{i // SESSION}") for i in range(n)),
        )
        db.executemany(
            "INSERT INTO watch_queue (trace_id, app, session, requested_at, probability, metric, metric_version, judge_hash, value) "
            "VALUES (?, 'app', ?, ?, 1, 'm', '1', 'j', ?)",
            ((f"t{i}", f"s{i // SESSION}", i * step, min(rng.gauss(0.85, 0.2), 1.0)) for i in range(n)),
        )


def main(n: int, folder: Path) -> None:
    """Queue, fold and print."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "fold.db"
    path.unlink(missing_ok=True)
    queue(path, n)
    store = open_store(path, mode="own")
    parts: list[float] = []
    after, is_over = None, False
    while not is_over:
        started = time.process_time()
        with store.watch.change() as tables:
            assert tables is not None
            result = fold(
                tables, now=(DAYS + 1) * 86_400.0, options=Watch(), scales={"m": Scale(low=0.0, high=1.0)},
                limit=PART, after=after,
            )  # fmt: skip
        parts.append(time.process_time() - started)
        after = result.more_after
        is_over = after is None
    peak = int(re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())[1]) / 1024
    with store.watch.read() as tables:
        streams = {stream.kind: stream.phase for stream in read_streams(tables)}
    print(
        f"{n:,} outcomes in {len(parts)} parts: {sum(parts):.1f} s of CPU, {sum(parts) / n * 1e6:.0f} µs each, peak {peak:.0f} MiB"
    )
    print(f"a part: median {sorted(parts)[len(parts) // 2]:.2f} s, longest {max(parts):.2f} s; streams: {streams}")


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
