"""A disk that is really full: the application continues, what is lost is counted, what was acknowledged is there."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from command_line import run_command
from kills import METRICS, check_books
from ragstone.spool import SpoolReader
from ragstone.store import open_store

# A limit on the size of files stands in for the end of the disk: the kernel cuts a write short in the middle.
APP = """
import json, resource, sys
from functools import partial
from ragstone.capture import Capture
from ragstone.requests import TraceDraft
from ragstone.spool import SpoolWriter

resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
capture = Capture(partial(SpoolWriter, sys.argv[1]), flush_interval_s=0.001)
acknowledged = []
for n in range(60):
    batch = [f"{n}/{k}" for k in range(3)]
    for trace_id in batch:
        assert capture.record(TraceDraft(trace_id=trace_id, response="x" * 900))
    if capture.flush(20):
        acknowledged += batch
capture.close()
counts = capture.counters
print(json.dumps([acknowledged, counts.recorded, counts.written, dict(counts.dropped)]))
"""


def test_file_size_limit_loses_only_what_is_counted(tmp_path):
    """All or nothing of each group, at whichever byte the disk ended; the losses are in the spool as well."""
    # Not its bytecode, which the limit would cut, for all later commands.
    app = subprocess.run(
        [sys.executable, "-B", "-c", APP, str(tmp_path)], check=True, capture_output=True, text=True, timeout=240
    )
    acknowledged, recorded, written, dropped = json.loads(app.stdout)
    reader = SpoolReader(tmp_path)
    batches = [reader.read(segment.name) for segment in reader.segments()]
    entries = [entry for batch in batches for entry in batch.entries]
    found = [entry.trace.trace_id for entry in entries if entry.entry == "captured"]
    lost = sum(entry.n for entry in entries if entry.entry == "dropped")
    assert set(acknowledged) <= set(found)
    assert (180, len(found), {"disk_full": 180 - len(found)}, 180 - len(found)) == (recorded, written, dropped, lost)
    assert len(found) == len(set(found))
    assert 1 < len(batches)
    assert 0 < lost < 180
    assert 1 == app.stderr.count("the spool rejected traces")


MONITOR = """
import json, os, sys
from pathlib import Path
from ragstone.monitor import Monitor
from ragstone.requests import TraceDraft

folder, durability, metrics = Path(sys.argv[1]), sys.argv[2], sys.argv[3].split(",")
monitor = Monitor(store=folder / "s.db", judge="lexical", metrics=metrics, scoring="none", durability=durability)

def record(start, stop):
    return [f"r{n}" for n in range(start, stop) if monitor.record(TraceDraft(
        trace_id=f"r{n}", query="Which stone?", response=f"Stone {n}. " * 90))]

filler = folder / "filler"
with filler.open("wb") as file:
    room = os.statvfs(folder)
    file.write(bytes(room.f_bavail * room.f_frsize - 2**20))
taken = record(0, 2000)
before = monitor.flush(60)
filler.unlink()
rest = record(2000, 2200)
assert monitor.flush(60)
print(json.dumps([taken, rest, before]))
monitor.close()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="mounts a file system")
@pytest.mark.parametrize("durability", ["sync", "batched"])
def test_what_a_full_disk_has_refused_is_in_the_ledger(tmp_path: Path, durability: str) -> None:
    """A file system in memory has room for about half of the requests. The ledger has each of them: scored, or dropped by reason."""
    from faults import small_disk  # it needs the module `resource`

    with ExitStack() as stack:
        try:
            folder = stack.enter_context(small_disk(tmp_path / "disk", 24))
        except PermissionError as error:
            pytest.skip(str(error))
        command = [sys.executable, "-c", MONITOR, str(folder), durability, ",".join(METRICS)]
        app = subprocess.run(command, check=True, capture_output=True, text=True, timeout=240)
        taken, rest, was_on_disk = json.loads(app.stdout)
        scored = run_command(
            "worker", folder / "s.db", "--judge", "lexical", "--metrics", ",".join(METRICS), "--until-idle"
        )
        assert scored.returncode == 0, scored.stderr
        with open_store(folder / "s.db", mode="read") as store:
            ledger = store.ledger().total
            stored = {trace.trace_id for trace in store.traces.read()}
        # Without waiting for the disk, `record` cannot say that it is full, but `flush` says it.
        acknowledged = {*taken, *rest} if durability == "sync" else set(rest)
        assert not was_on_disk
        assert len(rest) == 200
        check_books(str(folder / "s.db"), acknowledged, METRICS, [])
    assert ledger.captured == 2200
    assert 500 < ledger.dropped == 2200 - len(stored) < 2000
    if durability == "sync":
        assert len(acknowledged) == len(stored)
    assert app.stderr.count("the spool rejected traces") == 1
    print(
        f"{durability}: 2200 requests, {len(stored)} stored and scored, {ledger.dropped} counted as dropped, 0 others"
    )
