"""The end of a program: a `with` block waits for scores if that can help, and says what stays pending."""

from __future__ import annotations

import asyncio
import itertools
import signal
import threading

import pytest

from memory_sink import MemorySink
from ragstone.errors import JudgeUnavailableError
from ragstone.monitor import Monitor
from ragstone.monitor._background import ScoringThread
from ragstone.monitor._finish import is_script, pauses
from ragstone.requests import TraceDraft
from ragstone.schema import Ledger, LedgerRow, ScoringPlan
from ragstone.testing import FakeJudge
from ragstone.worker import ScoringSetup, advise

N = 5


class Clock:
    """A clock that each look moves on by `step_s`."""

    def __init__(self, step_s=1.0):
        self.now_s = 0.0
        self.step_s = step_s

    def __call__(self):
        return self.now_s

    def states(self, *states):
        """Give one state a look, the last one again and again."""
        rest = itertools.chain(states, itertools.repeat(states[-1]))

        def look():
            self.now_s += self.step_s
            return next(rest)

        return look


class UnansweringJudge(FakeJudge):
    """A judge that gives no answer; `asked` says that it is waited for."""

    def __init__(self):
        super().__init__()
        self.asked = threading.Event()

    async def ask_number(self, prompt, *, low=0, high=100):
        self.asked.set()
        await asyncio.Event().wait()


@pytest.fixture
def monitor(tmp_path, request):
    """Make monitors on one store."""

    def make(judge=None, **options):
        made = Monitor(judge=judge or FakeJudge(), metrics="ccrs.qr", store=tmp_path / "r.db", **options)
        request.addfinalizer(made.close)
        return made

    return make


def record(monitor, n=N):
    for i in range(n):
        assert monitor.record(TraceDraft(query="How tall is it?", response=f"{i} m."))


def pending(caplog):
    return [r.getMessage() for r in caplog.records if "pending." in r.getMessage()]


# How long to wait ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", ["done", "not_owner"])
def test_waiting_ends_when_it_cannot_help(state):
    """Everything is scored, or another process scores it."""
    clock = Clock()
    look = clock.states("scoring", "scoring", state)
    assert 2 == len(list(pauses(look, timeout_s=60, clock=clock)))


def test_waiting_ends_at_the_timeout():
    """A judge that is slower than that leaves requests pending."""
    clock = Clock()
    list(pauses(clock.states("scoring"), timeout_s=60, clock=clock))
    assert 60 == clock.now_s


def test_waiting_ends_soon_while_the_judge_is_unavailable():
    """Two seconds are enough; a judge that comes back in time counts as available."""
    clock = Clock()
    list(pauses(clock.states("unavailable"), timeout_s=60, clock=clock))
    assert 3 == clock.now_s

    clock = Clock()
    list(pauses(clock.states("unavailable", "scoring", "unavailable", "scoring"), timeout_s=60, clock=clock))
    assert 60 == clock.now_s


def test_a_server_is_not_a_script(monkeypatch):
    """Another thread than the main one, or a program that handles SIGTERM."""
    assert is_script()
    found = []
    thread = threading.Thread(target=lambda: found.append(is_script()))
    thread.start()
    thread.join()
    assert [False] == found
    monkeypatch.setattr(signal, "getsignal", lambda number: print)
    assert not is_script()


def test_close_closes_judge_and_sinks(monitor):
    """The connections of a judge that was given as an object, too."""

    class Judge(FakeJudge):
        closed = False

        async def aclose(self):
            self.closed = True

    judge, sink = Judge(), MemorySink()
    made = monitor(judge, sinks=[sink])
    record(made)
    assert made.drain()
    made.close(timeout_s=60)
    assert judge.closed
    assert sink.closed


# The block ----------------------------------------------------------------------------------------------------------


def test_a_block_ends_with_everything_scored_and_delivered(monitor, caplog):
    """And nothing is said."""
    sink = MemorySink()
    with monitor(sinks=[sink]) as made:
        record(made)
    assert (N, N) == (made.ledger().total.scored, len(sink.deliveries))
    assert [] == pending(caplog)


def test_an_async_block_does_not_block_the_loop(monitor):
    """Other tasks run while it waits."""
    ticks = []

    async def tick():
        while True:
            ticks.append(1)
            await asyncio.sleep(0)

    async def main():
        ticking = asyncio.create_task(tick())
        async with monitor(FakeJudge(latency_s=0.01)) as made:
            record(made)
            n_before = len(ticks)
        ticking.cancel()
        return made, n_before

    made, n_before = asyncio.run(main())
    assert N == made.ledger().total.scored
    assert len(ticks) > n_before + 1


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_an_exception_is_not_delayed(monitor, monkeypatch, caplog, error):
    """The block closes as `close` does, and says what stays pending."""
    monkeypatch.setattr(ScoringThread, "finish", lambda self, flush: pytest.fail("it waits"))
    judge = UnansweringJudge()
    with pytest.raises(error), monitor(judge) as made:
        record(made)
        assert judge.asked.wait(60)
        raise error
    (message,) = pending(caplog)
    assert message.startswith(f"ragstone: {N} requests are pending. Replace JUDGE ")
    assert message.endswith("r.db --until-idle --judge=JUDGE --replan")


def test_ctrl_c_ends_the_wait(monitor, monkeypatch, caplog):
    """What is scored until then is kept, the rest is said."""
    judge = UnansweringJudge()

    def interrupted(look, *, timeout_s):
        yield 0.0
        assert judge.asked.wait(60)
        raise KeyboardInterrupt

    monkeypatch.setattr("ragstone.monitor._background.pauses", interrupted)
    with pytest.raises(KeyboardInterrupt), monitor(judge) as made:
        record(made)
    assert 1 == len(pending(caplog))


def test_a_judge_that_is_down_is_not_waited_for(monitor, monkeypatch, caplog):
    """Its failure is seen by the worker, whose requests stay pending."""
    monkeypatch.setattr("ragstone.monitor._finish._UNAVAILABLE_S", 0.0)
    judge = FakeJudge(fail=lambda prompt: JudgeUnavailableError("down"))
    with monitor(judge) as made:
        record(made)
    assert N == made.ledger().total.pending
    assert 1 == len(pending(caplog))


def test_a_judge_that_cannot_be_prepared_is_not_waited_for(monitor, monkeypatch, caplog):
    """Its requests are stored, and stay pending."""
    monkeypatch.setattr("ragstone.monitor._finish._UNAVAILABLE_S", 0.0)

    class Unreachable(FakeJudge):
        async def prepare(self):
            raise JudgeUnavailableError("cannot connect")

    with monitor(Unreachable()) as made:
        record(made)
    assert 1 == len(pending(caplog))


def test_a_process_that_does_not_own_the_store_does_not_wait(monitor, caplog):
    """The owner scores; nothing is said here."""
    judge = UnansweringJudge()
    owner = monitor(judge)
    record(owner, 1)
    assert judge.asked.wait(60)
    with monitor() as second:
        record(second)
    assert [] == pending(caplog)
    owner.close()
    assert 1 == len(pending(caplog))


def test_a_process_that_only_captures_does_not_wait(monitor, caplog):
    """Nor does one that captured nothing."""
    with monitor(scoring="none") as made:
        record(made)
    with monitor():
        pass
    assert N == made.ledger().total.pending
    assert [] == pending(caplog)


def test_close_says_what_stays_pending(monitor, caplog):
    """Also without a block; a second call says nothing."""
    judge = UnansweringJudge()
    made = monitor(judge)
    record(made, 1)
    assert judge.asked.wait(60)
    made.close()
    made.close()
    (message,) = pending(caplog)
    assert message.startswith("ragstone: 1 request is pending.")


# What is said -------------------------------------------------------------------------------------------------------


def test_the_command_makes_the_same_setup(tmp_path, monkeypatch):
    """Values that a shell must not break or a log must not show are quoted, or left open. Paths are absolute."""
    monkeypatch.chdir(tmp_path)
    setup = ScoringSetup(
        ["ccrs", "exact_match"],
        judge="lexical",
        sinks=["jsonl:my scores.jsonl", "jsonl+text:a.jsonl", "webhook:https://h/secret", MemorySink()],
    )
    plan = ScoringPlan(id="a", settings=setup.plan, since=1.0, pending=2)
    ledger = Ledger(total=LedgerRow(captured=2, pending=2), plans=(plan,))
    assert "\n".join(advise("r.db", ledger, delivery=setup.delivery)) == (
        "2 requests are pending. Replace webhook:URL, which is not stored. Replace SINK, which is not stored. "
        f"Score with: ragstone worker r.db --until-idle '--sink=jsonl:{tmp_path}/my scores.jsonl' "
        f"--sink=jsonl+text:{tmp_path}/a.jsonl --sink=webhook:URL --sink=SINK"
    )


def test_the_status_knows_the_metrics_of_the_store():
    """A placeholder stands for the judge, unless the store has one on record."""
    ledger = Ledger(total=LedgerRow(captured=1, pending=1), metrics={"ccrs.qr": LedgerRow(captured=1, pending=1)})
    assert "\n".join(advise("postgresql://u:secret@h/d", ledger)) == (
        "1 request is pending. Replace JUDGE (http://HOST:PORT/v1, openai:MODEL, or lexical to try the setup). "
        "Score with: ragstone worker postgresql://h/d --until-idle --metrics=ccrs.qr --judge=JUDGE"
    )
    plan = ScoringPlan(id="a", settings={"scoring.metrics": ["ccrs.qr"], "judge.url": "lexical"}, since=1.0, pending=1)
    known = ledger.model_copy(update={"plans": (plan,)})
    assert advise("r.db", known) == ["1 request is pending. Score with: ragstone worker r.db --until-idle"]
    assert advise("r.db", Ledger(total=LedgerRow())) == []
