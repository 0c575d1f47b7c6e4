"""`kill -9` at any moment loses nothing that was acknowledged."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections import Counter

import pytest

from ragstone.spool import SpoolReader

MANY = int(os.environ.get("RAGSTONE_KILLS", "10"))

# Records from three threads for ever; writes the number of each trace to stdout once it is acknowledged.
APP = """
import os, sys, threading
from functools import partial
from ragstone.capture import Capture
from ragstone.requests import PassageDraft, RetrievalDraft, TraceDraft
from ragstone.spool import SpoolWriter

directory, life, durability = sys.argv[1:]
capture = Capture(partial(SpoolWriter, directory, max_segment_bytes=50_000), durability=durability)
passages = [PassageDraft(text="A passage of some length. " * 20, score=0.5)] * 3

def run(thread):
    waiting = []
    n = 0
    while True:
        n += 1
        trace_id = f"{life}/{thread}/{n}"
        if not capture.record(TraceDraft(trace_id=trace_id, query="Why?", retrievals=[RetrievalDraft(passages=passages)])):
            continue
        waiting.append(trace_id)
        if durability == "sync" or (n % 20 == 0 and capture.flush(10)):
            # One write each, so that a line is never torn.
            os.write(1, "".join(f"{trace_id}\\n" for trace_id in waiting).encode())
            waiting.clear()

for thread in range(3):
    threading.Thread(target=run, args=(thread,)).start()
"""


@pytest.mark.parametrize("kills", [2, pytest.param(MANY, marks=pytest.mark.slow)])
@pytest.mark.timeout(300 + 10 * MANY)
def test_killed_at_random_moments_everything_acknowledged_is_in_the_spool(tmp_path, kills):
    """Each life of the application is killed in full flight; each acknowledged trace is there, and each trace once."""
    seed = random.randrange(2**32)
    print(f"seed {seed}")  # shown when the test fails
    rng = random.Random(seed)
    acknowledged: list[str] = []
    for life in range(kills):
        durability = ("batched", "sync")[life % 2]
        app = subprocess.Popen([sys.executable, "-c", APP, tmp_path, str(life), durability], stdout=subprocess.PIPE)
        try:
            first = app.stdout.readline()
            time.sleep(rng.uniform(0, 0.2))
        finally:
            app.kill()
        rest = app.stdout.read()
        app.stdout.close()
        assert -9 == app.wait()
        acknowledged += (first + rest).decode().split()

    reader = SpoolReader(tmp_path)
    found: Counter[str] = Counter()
    for segment in reader.segments():
        assert not segment.live
        offset, at_end = 0, False
        while not at_end:
            batch = reader.read(segment.name, offset)
            assert 0 == batch.corrupt
            found.update(entry.trace.trace_id for entry in batch.entries)
            offset, at_end = batch.next_offset, batch.at_end
        reader.remove(segment.name)
    assert kills <= len(acknowledged)
    assert [] == [trace_id for trace_id in acknowledged if trace_id not in found]
    assert [] == [trace_id for trace_id, times in found.items() if times > 1]
