"""`run_async`: one way to run a coroutine from synchronous code, in a script and in a notebook."""

from __future__ import annotations

import asyncio
import signal
import threading
from contextlib import suppress
from contextvars import ContextVar

import pytest

from ragstone.scoring import run_async

_who: ContextVar[str] = ContextVar("who", default="nobody")


def interrupt():
    """Send Ctrl-C to the main thread."""
    signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)


def in_a_loop(function):
    """Call a synchronous function while an event loop runs in this thread, as a notebook does.

    `asyncio.run` would replace the handler of SIGINT, which a notebook does not.
    """

    async def cell():
        return function()

    loop = asyncio.new_event_loop()
    try:
        return loop.run_until_complete(cell())
    finally:
        loop.close()


def directly(function):
    """Call a synchronous function without a running loop."""
    return function()


@pytest.fixture(params=[directly, in_a_loop])
def call(request):
    """Both situations from which synchronous code can start a coroutine."""
    return request.param


def test_result_is_returned(call):
    """The coroutine's result is the function's result."""

    async def work():
        await asyncio.sleep(0)
        return 42

    assert 42 == call(lambda: run_async(work()))


def test_error_is_raised_with_its_traceback(call):
    """The coroutine's error itself is raised, and its traceback leads to the line that raised it."""
    error = LookupError("ours")

    async def work():
        raise error

    with pytest.raises(LookupError) as caught:
        call(lambda: run_async(work()))
    assert error is caught.value
    assert "work" == caught.traceback[-1].name


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_exit_from_the_coroutine_is_raised(call, kind):
    """Interrupts and exits that the coroutine raises reach the caller."""

    async def work():
        raise kind

    with pytest.raises(kind):
        call(lambda: run_async(work()))


def test_context_variables_are_seen(call):
    """The coroutine sees the caller's context variables, and changes none of the caller's."""

    async def work():
        seen = _who.get()
        _who.set("coroutine")
        return seen

    token = _who.set("caller")
    try:
        assert ("caller", "caller") == call(lambda: (run_async(work()), _who.get()))
    finally:
        _who.reset(token)


def test_loop_of_the_caller_stays_usable():
    """The running loop is neither replaced nor closed, and the coroutine runs on a different one."""

    async def work():
        return asyncio.get_running_loop()

    async def cell():
        here = asyncio.get_running_loop()
        other = run_async(work())
        await asyncio.sleep(0)
        return here is not other and other.is_closed() and here is asyncio.get_running_loop()

    assert asyncio.run(cell())


def test_interrupt_cancels_the_coroutine(call):
    """Ctrl-C cancels the coroutine, lets its cleanup finish, and is raised in the caller."""
    steps = []

    async def work():
        interrupt()
        try:
            await asyncio.sleep(60)
            steps.append("not interrupted")
        finally:
            await asyncio.sleep(0)
            steps.append("cleaned up")

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            call(lambda: run_async(work()))
    finally:
        signal.signal(signal.SIGINT, before)
    assert ["cleaned up"] == steps


def test_thread_that_cannot_start_is_an_error(monkeypatch):
    """Inside a loop, a process without threads left raises what Python says, and leaves no coroutine behind."""

    async def work():
        raise AssertionError

    def refuse(self):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(RuntimeError, match="start new thread"):
        in_a_loop(lambda: run_async(work()))


def test_second_interrupt_does_not_wait():
    """Inside a loop, a coroutine that refuses to be canceled cannot hold the caller for ever."""
    release = threading.Event()
    ended = threading.Event()

    async def work():
        interrupt()
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(60)
        interrupt()
        await asyncio.to_thread(release.wait)
        ended.set()

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            in_a_loop(lambda: run_async(work()))
        assert not ended.is_set()
    finally:
        release.set()
        signal.signal(signal.SIGINT, before)
    assert ended.wait(60)
