"""Outputs of commands: complete or unchanged, and private."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest

from ragstone._util import files
from ragstone._util.files import open_output, write_output


@pytest.fixture(autouse=True)
def open_umask():
    """A mask that hides nothing."""
    before = os.umask(0)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    """The permissions of a file."""
    return stat.S_IMODE(path.stat().st_mode)


def test_a_new_file_is_private(tmp_path):
    """From the first byte on, whatever the umask."""
    with open_output(tmp_path / "out") as file:
        (partial,) = tmp_path.iterdir()
        assert 0o600 == mode(partial)
        file.write("text")
    assert [tmp_path / "out"] == list(tmp_path.iterdir())
    assert (0o600, "text") == (mode(tmp_path / "out"), (tmp_path / "out").read_text())


def test_an_existing_file_keeps_its_mode(tmp_path):
    """Its owner has chosen it."""
    (tmp_path / "out").write_text("old")
    (tmp_path / "out").chmod(0o640)
    write_output(tmp_path / "out", "new")
    assert (0o640, "new") == (mode(tmp_path / "out"), (tmp_path / "out").read_text())


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_after_an_error_nothing_has_changed(tmp_path, error):
    """The old content is there, and no part of the new one."""

    def fail() -> None:
        with open_output(tmp_path / "out") as file:
            file.write("half")
            raise error

    for expected in ([], ["out"]):
        with pytest.raises(error):
            fail()
        assert expected == [file.name for file in tmp_path.iterdir()]
        (tmp_path / "out").write_text("old")
    assert "old" == (tmp_path / "out").read_text()


def test_a_link_stays(tmp_path):
    """The file that it leads to is written, also if it does not exist yet."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "folder" / "out")
    for text in ("first", "second"):
        write_output(tmp_path / "link", text)
        assert (tmp_path / "link").is_symlink()
        assert text == (tmp_path / "folder" / "out").read_text()


def test_a_pipe_is_written_directly(tmp_path):
    """It has a reader, and no name to replace."""
    os.mkfifo(tmp_path / "pipe")
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append((tmp_path / "pipe").read_text()))
    reader.start()
    write_output(tmp_path / "pipe", "text")
    reader.join(20)
    assert ["text"] == read
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)


def test_standard_output_is_written_directly(capfd):
    """Also if a shell redirects it to a file."""
    write_output("/dev/stdout", "text\n")
    assert "text\n" == capfd.readouterr().out


def test_a_file_that_cannot_be_replaced_gets_the_content(tmp_path, monkeypatch):
    """As a file that a container mounts."""
    (tmp_path / "out").write_text("a longer old text")

    def busy(self: Path, target: Path) -> None:
        raise OSError(16, "Device or resource busy")

    monkeypatch.setattr(files.Path, "replace", busy)
    write_output(tmp_path / "out", "new")
    assert "new" == (tmp_path / "out").read_text()
    assert 1 == len(list(tmp_path.iterdir()))
    with pytest.raises(OSError, match="busy"):
        write_output(tmp_path / "other", "new")
    assert 1 == len(list(tmp_path.iterdir()))


def test_a_name_may_be_as_long_as_the_system_allows(tmp_path):
    """The temporary name is not longer."""
    write_output(tmp_path / ("x" * 255), "text")
    assert "text" == (tmp_path / ("x" * 255)).read_text()
