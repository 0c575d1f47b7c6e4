"""A disk that is really full: the application continues, what is lost is counted, what was acknowledged is there."""

from __future__ import annotations

import json
import subprocess
import sys

from ragstone.spool import SpoolReader

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
    app = subprocess.run(
        [sys.executable, "-c", APP, str(tmp_path)], check=True, capture_output=True, text=True, timeout=240
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
