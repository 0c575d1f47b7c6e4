"""Protection of the application from errors of ours."""

from __future__ import annotations

import logging
import os
import threading

import pytest

from ragstone._util.tally import AtomicCounter
from ragstone.capture import Guard, after_fork_in_child, guarded

_in_child: list[str] = []


class Hooks:
    """An object that an application calls."""

    def __init__(self, logger="ragstone"):
        self._guard = Guard(logger)

    @guarded
    def add(self, a, b):
        return a + b

    @guarded
    def fail(self, kind=RuntimeError):
        raise kind("ours")


def test_error_is_swallowed_counted_and_logged_once(caplog):
    """Each object counts its own errors, by place; only the first one of a place is logged, with its traceback."""
    hooks, other = Hooks("ragstone.test"), Hooks()
    with caplog.at_level(logging.WARNING):
        assert [None, None, None] == [hooks.fail(), hooks.fail(), hooks._guard.attempt(int, "x")]

    assert ({"fail": 2, "int": 1}, 3) == (hooks._guard.counts(), hooks._guard.total)
    assert ({}, 0) == (other._guard.counts(), other._guard.total)
    assert [("ragstone.test", "fail"), ("ragstone.test", "int")] == [(r.name, r.args[0]) for r in caplog.records]
    assert RuntimeError is caplog.records[0].exc_info[0]


def test_result_passes():
    """Methods and functions that work are not changed."""
    hooks = Hooks()
    assert (3, "add", 7) == (hooks.add(1, b=2), hooks.add.__name__, hooks._guard.attempt(int, "7"))
    assert {} == hooks._guard.counts()


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_what_belongs_to_the_application_passes(kind):
    """Interrupts and exits are not errors of ours."""
    hooks = Hooks()
    with pytest.raises(kind):
        hooks.fail(kind)
    assert {} == hooks._guard.counts()


def _in_this_module():
    _in_child.append("function")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_functions_and_methods_are_called_in_a_forked_child():
    """Both kinds are called in the child, and not in the parent; an error of one does not keep the others from it."""

    class Owner:
        def __init__(self, name):
            self.name = name

        def reset(self):
            _in_child.append(self.name)
            if self.name == "broken":
                raise RuntimeError

    owners = [Owner("broken"), Owner("owner")]
    for owner in owners:
        after_fork_in_child(owner.reset)
    after_fork_in_child(_in_this_module)
    logging.getLogger("ragstone").disabled = True
    try:
        pid = os.fork()
    finally:
        logging.getLogger("ragstone").disabled = False
    if pid == 0:
        os._exit(0 if set(_in_child) == {"broken", "owner", "function"} else 1)
    assert ([], 0) == (_in_child, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))


def test_what_would_be_gone_is_refused():
    """A lambda or an inner function is not kept alive, so it cannot be registered."""
    with pytest.raises(TypeError, match="function of a module"):
        after_fork_in_child(lambda: None)


def test_tally_counts_every_thread():
    """Adding needs no lock and loses nothing; looking changes nothing."""
    tally = AtomicCounter()

    def add():
        for _ in range(2_000):
            tally.add()
            tally.value()

    threads = [threading.Thread(target=add) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [16_000, 16_000] == [tally.value(), tally.value()]
