"""Every outcome reaches an OTLP receiver at least once, with its id, over kills of the worker and outages of the receiver."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from ragstone.store import SqliteStore
from ragstone.worker import read_ledger

MANY_SCORES = int(os.environ.get("RAGSTONE_OUTBOX_SCORES", "600"))
MANY_KILLS = int(os.environ.get("RAGSTONE_OUTBOX_KILLS", "4"))
METRICS = ("ccrs.cc", "ccrs.qr")


def rows(path: Path, n_scores: int) -> Path:
    """A data set that makes as many scores."""
    with path.open("w", encoding="utf-8") as file:
        for i in range(n_scores // len(METRICS)):
            row = {"id": f"t{i}", "query": f"What is item {i}?", "contexts": [f"Item {i}."], "response": f"Item {i}."}
            file.write(json.dumps(row) + "\n")
    return path


def start(file: Path, store: Path, endpoint: str) -> subprocess.Popen[bytes]:
    """Replay in a process of its own."""
    code = "import sys; from ragstone.cli import main; main(sys.argv[1:])"
    command = ["replay", file, "--store", store, "--judge", "lexical", "--metrics", ",".join(METRICS)]
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, command), "--sink", f"otlp:{endpoint}"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def ids_at(receiver) -> Counter[str]:
    """How often each outcome has arrived."""
    return Counter(
        attribute.value.string_value
        for record in receiver.records
        for attribute in record.attributes
        if attribute.key == "ragstone.evaluation.id"
    )


@pytest.mark.parametrize(
    ("n_scores", "n_kills"), [(60, 1), pytest.param(MANY_SCORES, MANY_KILLS, marks=pytest.mark.slow)]
)
def test_each_outcome_arrives_at_least_once(otlp_receiver, answer, tmp_path, n_scores, n_kills):
    """The worker dies between sending and noting it, the receiver refuses in between; then the ledger says that all was sent."""
    file, store, moments = rows(tmp_path / "rows.jsonl", n_scores), tmp_path / "r.db", random.Random(7)
    for _ in range(n_kills):
        process = start(file, store, otlp_receiver.endpoint)
        seen, end = len(otlp_receiver.paths), time.monotonic() + 60
        wanted = seen + moments.randint(1, 2)
        while len(otlp_receiver.paths) < wanted and process.poll() is None and time.monotonic() < end:
            time.sleep(0.002)
        process.kill()
        process.wait()
        # An outage that outlasts the exporter's own tries.
        otlp_receiver.answers += [answer(status=503)] * moments.randint(1, 3)
    end = time.monotonic() + 100
    # A run ends when nothing is due; what waits for its next try is for the next one.
    while time.monotonic() < end:
        start(file, store, otlp_receiver.endpoint).wait()
        (books,) = read_ledger(store).outbox.values()
        if not books.pending:
            break
        time.sleep(0.5)

    with SqliteStore.open(store, mode="read") as opened:
        expected = {outcome.id for outcome in opened.outcomes.read()}
    arrived = ids_at(otlp_receiver)
    assert (n_scores, n_scores, 0, 0) == (len(expected), books.sent, books.pending, books.failed)
    assert expected == set(arrived)
    # Twice is what a kill costs: a batch that arrived and was not noted.
    assert arrived.total() - n_scores <= (n_kills + 1) * 200
