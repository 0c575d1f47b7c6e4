"""The recorder: accepts at once, writes behind the application's back, loses nothing uncounted."""

from __future__ import annotations

import errno
import gc
import logging
import signal
import threading
import time
import weakref
from collections import deque

import pytest

from ragstone.capture import Capture, suppress_capture
from ragstone.errors import ConfigurationError
from ragstone.requests import Request, Step, TraceDraft, harvest
from ragstone.schema import spool_entry_adapter
from ragstone.settings import Lengths

WAIT_S = 100.0  # for things that happen; how long they take is not what is tested


class MemorySpool:
    """A spool that can be held up and can fail; what it was given is kept."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.appends: list[int] = []
        self.synced = 0
        self.closed = 0
        self.error: BaseException | None = None
        self.sync_error: Exception | None = None
        self.open = threading.Event()
        self.open.set()
        self.entered = threading.Event()

    def __call__(self) -> MemorySpool:
        return self

    def append(self, lines):
        self.entered.set()
        assert self.open.wait(WAIT_S)
        if self.error is not None:
            raise self.error
        self.lines += lines
        self.appends.append(len(lines))

    def sync(self):
        if self.sync_error is not None:
            raise self.sync_error
        self.synced = len(self.lines)

    def close(self):
        self.closed += 1

    def entries(self):
        return [spool_entry_adapter.validate_json(line) for line in self.lines]

    def queries(self) -> list[str]:
        return [entry.trace.query for entry in self.entries() if entry.entry == "captured"]

    def losses(self) -> list[tuple[str, int]]:
        return [(entry.reason, entry.n) for entry in self.entries() if entry.entry == "dropped"]


@pytest.fixture
def spool():
    """A fresh one, let go at the end so that no thread stays."""
    spool = MemorySpool()
    yield spool
    spool.open.set()


@pytest.fixture
def make(spool):
    """Recorders over the spool, closed at the end."""
    made = []

    def make(**options):
        made.append(Capture(spool, **{"flush_interval_s": 0.01, **options}))
        return made[-1]

    yield make
    spool.open.set()
    for capture in made:
        capture.close(WAIT_S)


def balanced(capture: Capture) -> bool:
    """Whether the counts add up."""
    counts = capture.counters
    return counts.recorded == counts.written + counts.sampled_out + sum(counts.dropped.values()) + counts.queued


def draft(text: str) -> TraceDraft:
    """One that can be told from others."""
    return TraceDraft(query=text)


def stuck(capture: Capture, spool: MemorySpool) -> None:
    """Bring the thread to a spool that does not answer; one draft is in its hands."""
    spool.open.clear()
    spool.entered.clear()
    assert capture.record(draft("stuck"))
    assert spool.entered.wait(WAIT_S)


def test_recorded_traces_are_written_in_order(make, spool):
    """Flush returns when they are on disk."""
    capture = make()
    assert all(capture.record(draft(str(n))) for n in range(120))
    assert capture.flush(WAIT_S)
    assert [str(n) for n in range(120)] == spool.queries()
    assert (len(spool.lines), 0) == (spool.synced, capture.pending)
    assert (120, 120, 0, {}, 0) == (
        (counts := capture.counters).recorded,
        counts.written,
        counts.sampled_out,
        counts.dropped,
        counts.queued,
    )


def request(trace_id: str, text: str) -> Request:
    """A request whose draft is still to be assembled."""
    root = Step(id=1, kind="chain", inputs=harvest({"question": text}), outputs=harvest({"answer": "Because."}))
    return Request(draft=TraceDraft(trace_id=trace_id, started_at=7.0), steps=[root], root=root)


def test_request_is_assembled_by_the_writer(make, spool):
    """`record` takes the steps; the draft is completed on the thread that writes."""
    capture = make()
    item = request("t", "Why?")
    stuck(capture, spool)
    assert capture.record(item)
    assert item.draft.query is None
    spool.open.set()
    assert capture.flush(WAIT_S)
    trace = spool.entries()[-1].trace
    assert ("t", "Why?", "Because.", "input") == (trace.trace_id, trace.query, trace.response, trace.evidence.query)


class Text(str):
    """A text that can be watched."""

    __slots__ = ("__weakref__",)


def test_request_that_is_sampled_out_holds_no_text(make, spool):
    """Sampling is decided when it is recorded: its steps are released, and its id and time are written."""
    capture = make(sample_rate=0.0)
    stuck(capture, spool)
    text = Text("Why?")
    held = weakref.ref(text)
    item = request("t", text)
    assert capture.record(item)
    del item, text
    gc.collect()
    assert held() is None
    spool.open.set()
    assert capture.flush(WAIT_S)
    entry = spool.entries()[-1]
    assert ("sampled_out", "t", 7.0) == (entry.entry, entry.trace_id, entry.started_at)


def test_queue_is_bounded_by_characters_as_well(make, spool):
    """Large requests are dropped before their number fills the queue, and accepted again later."""
    capture = make()
    stuck(capture, spool)
    for _ in range(8):
        assert capture.record(request("small", "Why?"))
    accepted = [capture.record(request("large", "x" * 4_000_000)) for _ in range(10)]
    assert [True] * 7 + [False] * 3 == accepted
    assert {"queue_full": 3} == capture.counters.dropped
    spool.open.set()
    assert capture.flush(WAIT_S)
    spool.open.clear()
    assert capture.record(request("again", "x" * 4_000_000))
    spool.open.set()
    assert capture.flush(WAIT_S)
    assert balanced(capture)


def test_groups_are_bounded(make, spool):
    """What piled up is written in groups of the batch size, each with one append."""
    capture = make(batch_size=7)
    stuck(capture, spool)
    for n in range(20):
        capture.record(draft(str(n)))
    spool.open.set()
    assert capture.flush(WAIT_S)
    assert [1, 7, 7, 6] == spool.appends


def test_lone_draft_is_written_without_flush(make, spool):
    """At the latest after the flush interval."""
    make().record(draft("alone"))
    deadline = time.monotonic() + WAIT_S
    while not spool.synced and time.monotonic() < deadline:
        time.sleep(0.005)
    assert ["alone"] == spool.queries()


def test_no_thread_before_the_first_draft(make, spool):
    """A recorder that records nothing costs nothing, and can be flushed and closed."""
    before = set(threading.enumerate())
    capture = make()
    assert capture.flush(0)
    assert capture.close(0)
    assert before == set(threading.enumerate())
    assert 0 == spool.closed


def test_full_queue_drops_counts_and_logs_once(make, spool, caplog):
    """Never blocks; the loss is told to the spool as soon as it takes lines again."""
    capture = make(queue_size=3)
    stuck(capture, spool)
    with caplog.at_level(logging.WARNING, logger="ragstone"):
        assert [True] * 3 + [False] * 5 == [capture.record(draft(str(n))) for n in range(8)]
    assert 1 == len([record for record in caplog.records if "requests arrive faster" in record.getMessage()])
    assert ({"queue_full": 5}, 4) == (capture.counters.dropped, capture.pending)
    assert balanced(capture)
    spool.open.set()
    assert capture.flush(WAIT_S), "what was refused was never accepted"
    assert (["stuck", "0", "1", "2"], [("queue_full", 5)]) == (spool.queries(), spool.losses())
    assert balanced(capture)


def test_closed_recorder_drops(make, spool):
    """Closing twice is closing once; what comes later is counted."""
    capture = make()
    capture.record(draft("in time"))
    assert capture.close(WAIT_S)
    assert capture.close(WAIT_S)
    assert not capture.record(draft("late"))
    assert capture.flush(0)
    assert (["in time"], 1, {"closed": 1}) == (spool.queries(), spool.closed, capture.counters.dropped)
    assert balanced(capture)


def test_close_honours_its_deadline(make, spool):
    """A disk that hangs does not hang the application; what was queued is counted, what is written later is not lost."""
    capture = make()
    stuck(capture, spool)
    for n in range(4):
        capture.record(draft(str(n)))
    assert not capture.flush(0.01)
    assert not capture.close(0.01)
    assert {"deadline": 4} == capture.counters.dropped
    spool.open.set()
    assert capture.close(WAIT_S)
    assert (["stuck"], [("deadline", 4)]) == (spool.queries(), spool.losses())
    assert balanced(capture)
    assert 0 == capture.pending


def test_suppressed_requests_are_not_recorded(make, spool):
    """Our own calls leave no trace and no count."""
    capture = make()
    with suppress_capture():
        assert not capture.record(draft("ours"))
    assert capture.record(draft("a user's"))
    assert capture.flush(WAIT_S)
    assert (["a user's"], 1) == (spool.queries(), capture.counters.recorded)


def test_record_never_raises(make):
    """A bug of ours is counted, and the application continues."""
    capture = make()
    writer, capture._writer = capture._writer, None
    try:
        assert not capture.record(draft("x"))
        assert {"record": 1} == capture._guard.counts()
    finally:
        capture._writer = writer


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_full_disk_is_counted_and_survived(make, spool, caplog, code):
    """Later traces are written, and the spool is told what it missed, once it can be."""
    capture = make()
    spool.error = OSError(code, "full")
    with caplog.at_level(logging.WARNING, logger="ragstone"):
        for text in ("a", "b"):
            assert capture.record(draft(text))
            assert not capture.flush(WAIT_S)
    assert 1 == len(caplog.records)
    assert {"disk_full": 2} == capture.counters.dropped
    spool.error = None
    assert capture.record(draft("c"))
    assert capture.flush(WAIT_S), "the loss was told to the flush before"
    assert (["c"], [("disk_full", 2)]) == (spool.queries(), spool.losses())
    assert balanced(capture)


def test_losses_are_told_without_new_traces(make, spool, monkeypatch):
    """A quiet application does not keep them to itself."""
    monkeypatch.setattr("ragstone.capture._writer._RETRY_S", 0.01)
    capture = make()
    spool.error = RuntimeError("broken")
    capture.record(draft("a"))
    assert not capture.flush(WAIT_S)
    spool.error = None
    deadline = time.monotonic() + WAIT_S
    while not spool.losses() and time.monotonic() < deadline:
        time.sleep(0.005)
    assert [("spool_error", 1)] == spool.losses()


def test_spool_that_cannot_be_made_is_tried_again(make, spool):
    """A read-only directory at the start is no reason to lose everything that follows."""
    attempts = []

    def factory():
        attempts.append(1)
        if len(attempts) == 1:
            raise PermissionError(errno.EACCES, "read-only")
        return spool

    capture = Capture(factory, flush_interval_s=0.01)
    capture.record(draft("a"))
    assert not capture.flush(WAIT_S)
    capture.record(draft("b"))
    assert capture.close(WAIT_S)
    assert (["b"], [("spool_error", 1)]) == (spool.queries(), spool.losses())


def test_unsynced_is_not_lost_and_not_promised(make, spool):
    """What the disk did not confirm is in the spool, but neither flush nor close say that it is safe."""
    capture = make()
    spool.sync_error = OSError(errno.EIO, "no")
    capture.record(draft("a"))
    assert not capture.flush(WAIT_S)
    assert (1, {}, ["a"]) == (capture.counters.written, capture.counters.dropped, spool.queries())
    assert balanced(capture)


@pytest.mark.parametrize(
    ("options", "wrong", "reason"),
    [
        ({}, TraceDraft(query="secret", status="fine"), "invalid"),
        ({}, "not even a draft", "invalid"),
        ({"redact": lambda text: 1 / 0}, TraceDraft(query="secret"), "redaction_failed"),
    ],
)
def test_unusable_draft_is_dropped_and_its_text_is_nowhere(make, spool, caplog, options, wrong, reason):
    """Neither in the spool nor in the log, and its neighbors are written."""
    capture = make(**options)
    with caplog.at_level(logging.DEBUG, logger="ragstone"):
        capture.record(wrong)
        capture.record(TraceDraft())
        assert not capture.flush(WAIT_S)
    assert ([None], [(reason, 1)]) == (spool.queries(), spool.losses())
    assert "secret" not in caplog.text + repr(spool.lines)
    assert balanced(capture)


def test_bug_costs_a_group_and_not_the_thread(make, spool):
    """Whatever happens inside, every draft is counted and the next group is written."""
    capture = make()
    spool.error = SystemExit()
    capture.record(draft("a"))
    assert not capture.flush(WAIT_S)
    spool.error = None
    capture.record(draft("b"))
    assert capture.flush(WAIT_S)
    assert (["b"], [("bug", 1)]) == (spool.queries(), spool.losses())
    assert balanced(capture)


def test_sampled_out_traces_are_accounted_for(make, spool):
    """Each leaves its id."""
    capture = make(sample_rate=0.5)
    for n in range(100):
        capture.record(TraceDraft(trace_id=str(n)))
    assert capture.flush(WAIT_S)
    kinds = [entry.entry for entry in spool.entries()]
    assert (100, kinds.count("captured"), kinds.count("sampled_out")) == (
        len(kinds),
        capture.counters.written,
        capture.counters.sampled_out,
    )
    assert min(capture.counters.written, capture.counters.sampled_out) > 20
    assert balanced(capture)


def test_sync_returns_what_is_on_disk(make, spool):
    """True only after the sync that covers the trace."""
    capture = make(durability="sync")
    synced = []
    for n in range(3):
        assert capture.record(draft(str(n)))
        synced.append(spool.synced)
    assert [1, 2, 3] == synced


def test_sync_says_what_is_not_on_disk(make, spool):
    """Lost, invalid, or not confirmed in time."""
    capture = make(durability="sync", sync_timeout_s=0.01)
    spool.open.clear()
    assert not capture.record(draft("slow"))
    spool.open.set()
    assert capture.flush(WAIT_S)
    capture = make(durability="sync")
    spool.error = OSError(errno.ENOSPC, "full")
    assert not capture.record(draft("lost"))
    spool.error, spool.sync_error = None, OSError(errno.EIO, "no")
    assert not capture.record(draft("unconfirmed"))
    spool.sync_error = None
    assert not capture.record(TraceDraft(status="fine"))
    assert capture.record(draft("good"))


def test_many_threads_lose_nothing(make, spool):
    """Every draft of every thread exactly once, each thread's in order, while others flush."""
    capture = make(batch_size=10)

    def run(thread: int) -> None:
        for n in range(300):
            assert capture.record(draft(f"{thread}/{n}"))
            if n % 50 == 0:
                assert capture.flush(WAIT_S)

    threads = [threading.Thread(target=run, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert capture.flush(WAIT_S)
    found = spool.queries()
    for thread in range(6):
        assert [f"{thread}/{n}" for n in range(300)] == [text for text in found if text.startswith(f"{thread}/")]
    assert 1_800 == len(found)


def test_close_while_others_record_loses_nothing_uncounted(spool):
    """Each draft is written or counted as dropped, wherever the close falls."""
    for _ in range(20):
        spool.lines.clear()
        capture = Capture(spool, flush_interval_s=0, batch_size=3)
        start = threading.Barrier(5)

        def run(capture=capture, start=start) -> None:
            start.wait()
            for n in range(40):
                capture.record(draft(str(n)))

        threads = [threading.Thread(target=run) for _ in range(4)]
        for thread in threads:
            thread.start()
        start.wait()
        capture.close(WAIT_S)
        for thread in threads:
            thread.join()
        capture.close(WAIT_S)
        counts = capture.counters
        assert (160, len(spool.queries()), 160 - len(spool.queries()), 0) == (
            counts.recorded,
            counts.written,
            sum(counts.dropped.values()),
            counts.queued,
        )


def test_draft_that_meets_the_end_of_the_thread_is_counted(make, spool):
    """Closed between the look and the append: the draft is not left behind in a queue that no one empties."""
    capture = make()
    assert capture.record(draft("in time"))

    class ClosingQueue(deque):
        def append(self, item):
            assert capture.close(WAIT_S)
            super().append(item)

    assert capture.flush(WAIT_S)
    capture._writer._queue = ClosingQueue()
    assert not capture.record(draft("late"))
    assert (["in time"], {"closed": 1}, 0) == (spool.queries(), capture.counters.dropped, capture.pending)
    assert balanced(capture)


def test_loss_is_told_to_a_flush_that_hears_it(make, spool):
    """One that has given up meanwhile does not swallow it."""
    capture = make()
    stuck(capture, spool)
    assert not capture.flush(0.01)
    spool.error = OSError(errno.ENOSPC, "full")
    spool.open.set()
    assert not capture.flush(WAIT_S)
    assert capture.flush(WAIT_S)


def test_record_from_signal_handlers(make, spool):
    """A handler that interrupts `record` anywhere, itself recording, neither blocks nor loses."""
    capture = make()
    handled = []

    def handler(number, frame):
        handled.append(capture.record(draft("signal")))

    before = signal.signal(signal.SIGALRM, handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
        n = 0
        while len(handled) < 50:
            n += capture.record(draft("main"))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert capture.flush(WAIT_S)
    counts = capture.counters
    assert n + len(handled) == counts.recorded
    assert len(spool.queries()) == counts.written
    assert balanced(capture)


@pytest.mark.parametrize("durability", ["batched", "sync"])
def test_record_from_finalisers_on_our_own_thread(make, spool, durability):
    """Garbage that records when it is collected may be collected by the thread that writes."""
    capture = make(durability=durability)

    class Stream:
        pass

    append = spool.append

    def append_and_collect(lines):
        if any(b"origin" in line for line in lines):
            weakref.finalize(Stream(), capture.record, draft("finaliser"))
        append(lines)

    spool.append = append_and_collect
    assert capture.record(draft("origin"))
    assert capture.flush(WAIT_S)
    assert capture.close(WAIT_S)
    assert ["origin", "finaliser"] == spool.queries()


def test_drafts_and_recorder_are_let_go(spool):
    """Nothing of the application stays alive after it was written; a closed recorder can be collected."""
    capture = Capture(spool, flush_interval_s=0.01)

    class Held:
        pass

    held = Held()
    gone = weakref.ref(held)
    capture.record(TraceDraft(metadata={"object": held}))
    del held
    assert capture.flush(WAIT_S)
    capture.close(WAIT_S)
    gc.collect()
    assert gone() is None
    recorder = weakref.ref(capture)
    del capture
    gc.collect()
    assert recorder() is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sample_rate": 1.5}, "sample_rate must be a number from 0 to 1"),
        ({"sample_rate": float("nan")}, "sample_rate must be a number from 0 to 1"),
        ({"durability": "eventual"}, "durability must be"),
        ({"queue_size": 0}, "queue_size must be an integer of at least 1"),
        ({"batch_size": 0}, "batch_size must be at least 1"),
        ({"flush_interval_s": -1.0}, "flush_interval_s must be a number of at least 0"),
        ({"sync_timeout_s": float("nan")}, "sync_timeout_s 0 or more, got"),
    ],
)
def test_options_are_checked(spool, options, message):
    """At once, not at the first request."""
    with pytest.raises(ConfigurationError, match=message):
        Capture(spool, **options)


def test_limits_apply(make, spool):
    """Given to the recorder, they reach the trace."""
    capture = make(lengths=Lengths(max_chars=3))
    capture.record(draft("abcdef"))
    assert capture.flush(WAIT_S)
    assert ["abc"] == spool.queries()


def test_context_manager_closes(spool):
    """Leaving the block writes everything."""
    with Capture(spool, flush_interval_s=60.0) as capture:
        capture.record(draft("a"))
    assert (["a"], 1) == (spool.queries(), spool.closed)
