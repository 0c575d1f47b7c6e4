"""What a user names, as files that can be read: files, folders, addresses; and everything that is none of these."""

from __future__ import annotations

import gzip
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from ragstone.errors import ConfigurationError, DataError
from ragstone.reading import _source
from ragstone.reading._source import open_inputs

BODY = b'{"id": "t1", "query": "q", "response": "a"}\n'


REFUSED = "which is not followed. Give the URL that it redirects to, or download the file and replay it"


class Handler(BaseHTTPRequestHandler):
    """Answers in the ways in which servers of files go wrong."""

    def do_GET(self) -> None:
        """One way a path."""
        match self.path.partition("?")[0]:
            case "/moved":
                self._answer(302, {"Location": "/there/export.jsonl"})
            case "/elsewhere":
                self._answer(307, {"Location": "http://user:hunter2@127.0.0.2:9/x?token=hunter2"})
            case "/local":
                self._answer(302, {"Location": "file:///etc/hostname"})
            case "/cut":
                self._answer(200, {"Content-Length": str(2 * len(BODY))}, BODY)
            case "/packed":
                self._answer(200, {"Content-Encoding": "gzip"}, gzip.compress(BODY))
            case "/damaged":
                self._answer(200, {"Content-Encoding": "gzip"}, b"this is no gzip")
            case "/missing":
                self._answer(404, {}, BODY)
            case _:
                self._answer(200, {}, BODY)

    def _answer(self, status: int, headers: dict[str, str], body: bytes = b"") -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: object) -> None:
        """Be quiet."""


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The address of a server of files."""
    made = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"127.0.0.1:{made.server_port}"
    made.shutdown()
    thread.join()
    made.server_close()


@contextmanager
def opened(name: str) -> Iterator[bytes]:
    """What one source begins with."""
    with open_inputs([name]) as (source,):
        yield source.head()


@pytest.mark.parametrize("path", ["/export.jsonl", "/packed", "/", "/" + 300 * "x" + ".jsonl", "/%2e%2e%2f%2e%2e%2fx"])
def test_a_file_at_an_address_is_read(server, path):
    """Also one that is sent packed, and one whose name no file system takes."""
    with opened(f"http://{server}{path}") as head:
        assert BODY == head


def test_an_address_is_shown_without_its_secrets(server):
    """The host with its port, and the path: no user, no password, no token."""
    with open_inputs([f"http://user:hunter2@{server}/a/export.jsonl?token=hunter2#hunter2"]) as (source,):
        assert f"http://{server}/a/export.jsonl" == source.name


def test_what_was_fetched_goes_when_it_was_read(server):
    """Nothing is left in the folder for what is only for now."""
    with open_inputs([f"http://{server}/one", f"http://{server}/one"]) as found:
        paths = [source.path for source in found]
        assert [True, True] == [path.is_file() for path in paths]

    assert [False, False] == [path.exists() for path in paths]


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("/missing", "answered 404"),
        ("/elsewhere", f"redirects to http://127.0.0.2:9, {REFUSED}"),
        ("/local", f"redirects to file://, {REFUSED}"),
        ("/cut", "cannot be fetched: RemoteProtocolError"),
        ("/damaged", "cannot be fetched: DecodingError"),
    ],
)
def test_an_address_that_does_not_give_its_file_says_why(server, path, why):
    """Half a file is no file; a server cannot make us read what is here."""
    with pytest.raises(DataError) as raised, opened(f"http://user:hunter2@{server}{path}?token=hunter2"):
        pass

    assert f"'http://{server}{path}' {why}" == str(raised.value)


def test_a_file_that_has_moved_is_not_followed(server):
    """Also within one server: the error names it, and the user decides."""
    with (
        pytest.raises(DataError, match=rf"redirects to http://{server}, which is not followed"),
        opened(f"http://{server}/moved"),
    ):
        pass


def test_a_file_that_is_too_large_to_fetch_is_given_up(server, monkeypatch):
    """A server that never ends does not fill the disk."""
    monkeypatch.setattr(_source, "_MAX_DOWNLOAD_BYTES", len(BODY) - 1)
    with pytest.raises(DataError, match="is larger than 43 bytes; download it"), opened(f"http://{server}/endless"):
        pass


def test_a_file_as_large_as_may_be_is_fetched(server, monkeypatch):
    """The limit belongs to what is taken."""
    monkeypatch.setattr(_source, "_MAX_DOWNLOAD_BYTES", len(BODY))
    with opened(f"http://{server}/all") as head:
        assert BODY == head


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device of Linux")
def test_a_full_disk_ends_a_fetch_with_a_message(server, monkeypatch):
    """A device that is always full stands in for it."""
    opens = Path.open
    monkeypatch.setattr(_source.Path, "open", lambda *_: opens(Path("/dev/full"), "wb"))
    with (
        pytest.raises(DataError, match=r"cannot be kept in .* while it is read: .*No space left"),
        opened(f"http://{server}/export.jsonl"),
    ):
        pass


@pytest.mark.parametrize("address", ["http://[::1/x?token=hunter2", "http://user:hunter2\u2100@host/x"])
def test_an_address_that_is_none_is_told_without_being_shown(address):
    """It may hold a password as well as any."""
    with pytest.raises(ConfigurationError, match=r"is not valid\. Write it as") as raised, opened(address):
        pass

    assert "hunter2" not in str(raised.value)


def test_nobody_answers_at_an_address(server):
    """The message has the address, without its token."""
    with (
        pytest.raises(DataError, match=r"'http://127.0.0.1:1/x' cannot be fetched: ConnectError"),
        opened("http://127.0.0.1:1/x?token=hunter2"),
    ):
        pass


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
