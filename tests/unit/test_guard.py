"""The fence between our bugs and the application."""

from __future__ import annotations

import logging
import threading
import uuid

import pytest

from ragstone._util.guard import guard, guard_counts, guard_reraise
from ragstone._util.tally import Tally


@pytest.fixture(autouse=True)
def fences_hold():
    """As in production, whatever the test session has switched on."""
    was = guard_reraise(False)
    yield
    guard_reraise(was)


@pytest.fixture
def name():
    """A place of this test's own: the log has one line for each place and process."""
    return f"test.{uuid.uuid4()}"


def test_error_is_swallowed_counted_and_logged_once(name, caplog):
    """The second error of a place is counted and not logged."""

    @guard(name)
    def broken():
        raise RuntimeError("ours")

    with caplog.at_level(logging.ERROR, logger="ragstone"):
        assert [None, None] == [broken(), broken()]

    assert 2 == guard_counts()[name]
    assert [name] == [record.args[0] for record in caplog.records]


def test_result_passes(name):
    """A fence changes nothing about what works."""
    assert 3 == guard(name)(lambda a, b: a + b)(1, b=2)
    assert name not in guard_counts()


def test_block_ends_where_it_raised(name):
    """After a fenced block the code goes on."""
    steps = []
    with guard(name):
        steps.append("before")
        raise ValueError
    steps.append("after")
    assert ["before", "after"] == steps


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_what_belongs_to_the_application_passes(name, kind):
    """Interrupts and exits are no errors of ours."""
    with pytest.raises(kind), guard(name):
        raise kind
    assert name not in guard_counts()


def test_reraise_shows_our_bugs(name):
    """Switched on for tests, errors pass, and are counted all the same."""
    guard_reraise(True)
    with pytest.raises(RuntimeError), guard(name):
        raise RuntimeError
    assert 1 == guard_counts()[name]


def test_reraise_returns_what_it_was():
    """A fixture can put it back."""
    assert [False, True, True] == [guard_reraise(True), guard_reraise(True), guard_reraise(False)]


def test_tally_counts_every_thread():
    """Adding needs no lock and loses nothing; looking changes nothing."""
    tally = Tally()

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
