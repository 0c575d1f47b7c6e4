"""What a user names, as files that can be read: files and folders, and everything that is neither."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ragstone.errors import ConfigurationError, DataError
from ragstone.reading._source import open_inputs

BODY = b'{"id": "t1", "query": "q", "response": "a"}\n'


@contextmanager
def opened(name: str) -> Iterator[bytes]:
    """What one source begins with."""
    with open_inputs([name]) as (source,):
        yield source.head()


@pytest.mark.parametrize("address", ["http://user:hunter2@[::1/x", "https://host/export.jsonl?token=hunter2"])
def test_a_url_is_refused_without_being_shown(address):
    """The message has the way out, and neither a password nor a token."""
    with pytest.raises(ConfigurationError, match=r"curl -fL URL \| ragstone replay -") as raised, opened(address):
        pass

    assert "hunter2" not in str(raised.value)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes with names are of Unix")
@pytest.mark.parametrize("in_folder", [False, True])
def test_a_pipe_is_told_before_anybody_waits_for_it(tmp_path, in_folder):
    """It gives its bytes once, and reading begins more than once; in a folder it would hold up all others."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with (
        pytest.raises(ConfigurationError, match=r"pipe' is not a regular file .*Write it to a file first"),
        opened(str(tmp_path if in_folder else pipe)),
    ):
        pass


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="devices with names are of Unix")
def test_a_device_is_no_file():
    """It would be read for ever."""
    with pytest.raises(ConfigurationError, match="'/dev/zero' is not a regular file"), opened("/dev/zero"):
        pass


@pytest.mark.skipif(os.name != "posix", reason="elsewhere names of files are text")
def test_names_that_are_no_text_are_names(tmp_path):
    """A file system knows bytes only."""
    folder = tmp_path / os.fsdecode(b"d\xff")
    folder.mkdir()
    (folder / os.fsdecode(b"x\xfe.jsonl")).write_bytes(BODY)
    with opened(str(folder)) as head:
        assert BODY == head


def test_a_link_that_leads_nowhere_says_so(tmp_path):
    """A part of a folder that cannot be opened is named."""
    (tmp_path / "gone.jsonl").symlink_to(tmp_path / "nowhere")
    with pytest.raises(DataError, match=r"'gone.jsonl' cannot be read"), opened(str(tmp_path)):
        pass
