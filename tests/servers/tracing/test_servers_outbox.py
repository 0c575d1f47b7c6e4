"""The worker is killed and its destinations go down, at the worst moments: each score is there exactly once."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

import pytest

from ragstone.monitor import Monitor
from ragstone.requests import PassageDraft, RetrievalDraft, TraceDraft
from ragstone.store import SqliteStore
from ragstone.worker import read_ledger

pytestmark = pytest.mark.servers

SCORES = int(os.environ.get("RAGSTONE_OUTBOX_SCORES", "1000"))
FAULTS = int(os.environ.get("RAGSTONE_OUTBOX_FAULTS", "4"))
"""Kills of the worker, and outages of each destination. With 5,000 scores and 20 of each it takes ten minutes."""

METRICS_A_TRACE = 5
PATIENCE_S = 240 + SCORES / 5


class Proxy:
    """Stands before a server, and swallows its answers by plan: the server has stored what the worker does not know of.

    Args:
        url: The server.
        plan: What happens at each answer: None, "kill" (the worker dies before it reads it), or "outage" (all
            connections are cut, and for a moment there are no new ones).
        kill: Kills the worker.
        rng: How long an outage lasts.
    """

    def __init__(self, url: str, plan: Iterator[str | None], kill: Callable[[], None], rng: random.Random) -> None:
        self._upstream = (urlsplit(url).hostname, urlsplit(url).port)
        self._plan = plan
        self._kill = kill
        self._rng = rng
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._down_until = 0.0
        self.happened: Counter[str] = Counter()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Take no more connections, and cut what is open."""
        self._listener.close()
        self._cut()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client = self._listener.accept()[0]
                if time.monotonic() < self._down_until:
                    reset(client)
                    continue
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        server = socket.create_connection(self._upstream)
        self._open |= {client, server}
        asked = threading.Event()

        def ask() -> None:
            with contextlib.suppress(OSError):
                while data := client.recv(65536):
                    asked.set()
                    server.sendall(data)
                server.shutdown(socket.SHUT_WR)

        threading.Thread(target=ask, daemon=True).start()
        with contextlib.suppress(OSError):
            while data := server.recv(65536):
                if asked.is_set():
                    asked.clear()
                    if self._answer():
                        break
                client.sendall(data)
        for each in (client, server):
            self._open.discard(each)
            reset(each)

    def _answer(self) -> bool:
        """Whether the answer that has come is swallowed."""
        with self._lock:
            fault = next(self._plan, None)
            if fault is None:
                return False
            self.happened[fault] += 1
            if fault == "kill":
                self._kill()
            else:
                self._down_until = time.monotonic() + self._rng.uniform(0.1, 1.0)
                self._cut()
            return True

    def _cut(self) -> None:
        for each in list(self._open):
            with contextlib.suppress(OSError):
                # Wakes the thread that reads it, which then resets it.
                each.shutdown(socket.SHUT_RDWR)


def reset(connection: socket.socket) -> None:
    """Close a connection as a host does that has crashed."""
    with contextlib.suppress(OSError):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def plan(faults: list[str], *, spare: Callable[[], int]) -> Iterator[str | None]:
    """Faults with `spare()` undisturbed answers before each."""
    for fault in faults:
        yield from [None] * spare()
        yield fault


def test_each_score_arrives_exactly_once(both, tmp_path):
    """Kills between a server's answer and its acknowledgment, and outages that swallow answers, lose and double nothing."""
    rng = random.Random(7)
    n_traces = SCORES // METRICS_A_TRACE
    spans = both["phoenix"].make_spans(n_traces)
    for server in both.values():
        server.send(spans)
    store = tmp_path / "s.db"
    capture(store, spans)

    workers: list[subprocess.Popen[bytes]] = []
    faults = {kind: ["outage"] * FAULTS + ["kill"] * (FAULTS // 2 + (kind == "mlflow") * (FAULTS % 2)) for kind in both}
    for each in faults.values():
        rng.shuffle(each)
    between = n_traces * METRICS_A_TRACE // (len(faults["mlflow"]) + 1)
    # An answer of Phoenix is for two hundred scores, one of MLflow for one.
    spare = {"phoenix": iter([0, 1] * SCORES).__next__, "mlflow": lambda: rng.randrange(between)}
    proxies = {
        kind: Proxy(server.url, plan(faults[kind], spare=spare[kind]), lambda: workers[-1].kill(), rng)  # noqa: PLW0108
        for kind, server in both.items()
    }
    sinks = [argument for kind, proxy in proxies.items() for argument in ("--sink", f"{kind}:{proxy.url}")]
    command = ["worker", str(store), "--judge", "lexical", "--metrics", "ccrs", *sinks]
    log = (tmp_path / "worker.log").open("wb")
    started = time.monotonic()
    try:
        while not workers or not delivered(store) or workers[-1].poll() is not None:
            assert time.monotonic() - started < PATIENCE_S, read_ledger(store).outbox
            if not workers or workers[-1].poll() is not None:
                code = "import sys; from ragstone.cli import main; main(sys.argv[1:])"
                workers.append(subprocess.Popen([sys.executable, "-c", code, *command], stderr=log))
            time.sleep(0.1)
        workers[-1].terminate()
        assert 0 == workers[-1].wait(60)
    finally:
        for each in workers:
            each.kill()
            each.wait()
        for each in proxies.values():
            each.close()
        log.close()
    print(f"\n{SCORES} scores in {time.monotonic() - started:.0f} s")

    assert {kind: Counter(each) for kind, each in faults.items()} == {k: p.happened for k, p in proxies.items()}
    assert [-signal.SIGKILL] * FAULTS == [each.returncode for each in workers[:-1]]
    with SqliteStore.open(store, mode="read") as opened:
        stored = {outcome.id: outcome.value for outcome in opened.outcomes.read()}
    assert n_traces * METRICS_A_TRACE == len(stored)
    for server in both.values():
        seen = server.seen(spans)
        assert dict.fromkeys(stored, 1) == Counter(s.id for s in seen)
        assert stored == {s.id: s.value for s in seen}
    assert {(len(stored), 0, 0, 0)} == {
        (books.sent, books.pending, books.skipped, books.failed) for books in read_ledger(store).outbox.values()
    }


def capture(store, spans) -> None:
    """Requests in the spool of a store, one for each span."""
    with contextlib.closing(Monitor(judge="lexical", store=store, scoring="none", queue_size=100_000)) as monitor:
        for i, span in enumerate(spans):
            text = f"Stone {i} is grey and lies at the river."
            draft = TraceDraft(
                trace_id=f"t{i}", query=f"What colour is stone {i}?", response=f"Stone {i} is grey.",
                retrievals=[RetrievalDraft(passages=[PassageDraft(text=text)])], reference=[f"Stone {i} is grey."],
                otel_trace_id=f"{span.context.trace_id:032x}", otel_span_id=f"{span.context.span_id:016x}",
                otel_sampled=True,
            )  # fmt: skip
            assert monitor.record(draft)


def delivered(store) -> bool:
    """Whether nothing is left to score or to deliver."""
    ledger = read_ledger(store)
    return 2 == len(ledger.outbox) and not ledger.total.pending and not any(b.pending for b in ledger.outbox.values())
