"""One owner at a time."""

from __future__ import annotations

import errno
import fcntl
import os
import subprocess
import sys
import textwrap

import pytest

from ragstone._util.filelock import FileLock
from ragstone.errors import ConfigurationError


def test_second_lock_is_refused_until_the_first_is_released(tmp_path):
    """Two owners of one path exclude each other, also in one process."""
    first, second = FileLock(tmp_path / "lock"), FileLock(tmp_path / "lock")
    assert [True, True, False] == [first.acquire(), first.acquire(), second.acquire()]
    assert [True, False] == [first.held, second.held]
    first.release()
    first.release()
    assert [False, True] == [first.held, second.acquire()]
    second.release()


def test_owner_is_named(tmp_path):
    """Messages can say who holds it; before anybody did, no one."""
    lock = FileLock(tmp_path / "lock")
    assert lock.owner() is None
    lock.acquire()
    assert os.getpid() == lock.owner()
    lock.release()


def test_lock_ends_with_its_process(tmp_path):
    """A process killed with the lock in its hands leaves nothing locked."""
    code = textwrap.dedent(
        """
        import os, signal, sys
        from ragstone._util.filelock import FileLock
        lock = FileLock(sys.argv[1])
        assert lock.acquire()
        os.kill(os.getpid(), signal.SIGKILL)
        """
    )
    lock = FileLock(tmp_path / "lock")
    child = subprocess.run([sys.executable, "-c", code, str(lock.path)], check=False)
    assert -9 == child.returncode
    assert lock.owner() not in (None, os.getpid())
    assert lock.acquire()
    lock.release()


def test_forked_child_neither_has_nor_breaks_the_lock(tmp_path):
    """The child's copy is closed; the parent still holds the lock, and loses it only by its own release."""
    code = textwrap.dedent(
        """
        import os, sys
        from ragstone._util.filelock import FileLock
        lock, other = FileLock(sys.argv[1]), FileLock(sys.argv[1])
        assert lock.acquire()
        child = os.fork()
        if child == 0:
            results = [lock.held, lock.acquire()]
            lock.release()
            os._exit(0 if results == [False, False] else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert not other.acquire()
        lock.release()
        assert other.acquire()
        """
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "lock")], check=True)


def test_platform_without_flock_is_told_so(tmp_path, monkeypatch):
    """Not an ImportError out of nowhere."""
    monkeypatch.setitem(sys.modules, "fcntl", None)
    with pytest.raises(ConfigurationError, match=r"flock\(2\).*WSL"):
        FileLock(tmp_path / "lock").acquire()


def test_a_file_system_without_locks_is_named(tmp_path, monkeypatch):
    """The error has the path, so that a command can print it."""

    def refuse(*_):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refuse)
    lock = FileLock(tmp_path / "store.lock")
    with pytest.raises(OSError, match="No locks available") as caught:
        lock.acquire()
    assert str(tmp_path / "store.lock") == caught.value.filename
    assert not lock.held
