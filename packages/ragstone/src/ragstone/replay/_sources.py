"""From what a user names (files, folders, addresses) to the files that are read."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from ragstone.errors import ConfigurationError, DataError
from ragstone.replay._source import Source
from ragstone.store import is_database_url, shown

__all__ = ["open_sources"]

_TIMEOUT_S: Final = 60.0
_MAX_DOWNLOAD_BYTES: Final = 20 * 2**30
_NAME_LENGTH: Final = 40
"""Characters kept of a name at an address: file systems take 255 bytes."""


@contextmanager
def open_sources(named: Sequence[str]) -> Iterator[list[Source]]:
    """The files that are meant, those at addresses fetched into a folder that is gone afterwards.

    Args:
        named: Paths of files and of folders; http(s) addresses.

    Raises:
        ConfigurationError: Nothing is named, or something that does not exist.
        DataError: An address does not give its file.
    """
    if not named:
        raise ConfigurationError("nothing to replay was named; give a file, a folder or an address")
    with tempfile.TemporaryDirectory(prefix="ragstone-") as folder:
        found: list[Source] = []
        for n, name in enumerate(named):
            if is_database_url(name):
                raise ConfigurationError(
                    f"{shown(name)!r} is a Ragstone store, which holds traces already, and is not a file to replay. See its "
                    "scores with `ragstone status`, score its pending traces with `ragstone worker`"
                )
            if name.startswith(("http://", "https://")):
                found.append(_fetched(name, Path(folder) / str(n)))
            else:
                found.append(_source(name))
        yield found


def _source(name: str) -> Source:
    source = Source(path=Path(name), name=name)
    if not source.path.exists():
        raise ConfigurationError(f"there is no file or folder {name!r}")
    for part in source.parts():
        # Reading begins anew for each look and in each run; a pipe gives its bytes once, a device for ever.
        if part.path.exists() and not part.path.is_file():
            raise ConfigurationError(
                f"{part.name!r} is no file (a pipe, a device?) and cannot be read twice; write it to a file first"
            )
    return source


def _fetched(address: str, folder: Path) -> Source:
    try:
        url = urlsplit(address)
        # Neither credentials nor tokens in the query are for messages.
        host = url.netloc.rpartition("@")[2]
        name = url._replace(netloc=host, query="", fragment="").geturl()
    except ValueError:
        # What is wrong with it would quote it, credentials and all.
        raise ConfigurationError(
            "an address to replay from is no address; write it as https://host:port/path"
        ) from None
    target = folder / (Path(url.path).name[-_NAME_LENGTH:] or "export")
    import httpx

    try:
        folder.mkdir()
        with httpx.stream("GET", address, timeout=_TIMEOUT_S, follow_redirects=True) as response:
            if not response.is_success:
                raise DataError(f"{name!r} answered {response.status_code}")
            with target.open("wb") as file:
                for chunk in response.iter_bytes():
                    file.write(chunk)
                    if file.tell() > _MAX_DOWNLOAD_BYTES:
                        raise DataError(
                            f"{name!r} is larger than {_MAX_DOWNLOAD_BYTES} bytes; download it and replay the file"
                        )
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise DataError(f"{name!r} cannot be fetched: {type(error).__name__}") from None
    except OSError as error:
        raise DataError(f"{name!r} cannot be kept in {tempfile.gettempdir()!r} while it is read: {error}") from None
    return Source(path=target, name=name, identity=address)
