"""From what a user names (files, folders, addresses) to the files that are read."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import httpx

from ragstone.errors import ConfigurationError, DataError
from ragstone.replay._source import Source

__all__ = ["open_sources"]

_TIMEOUT_S: Final = 60.0
_MAX_DOWNLOAD_BYTES: Final = 20 * 2**30


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
        msg = "nothing to replay was named; give a file, a folder or an address"
        raise ConfigurationError(msg)
    with tempfile.TemporaryDirectory(prefix="ragstone-") as folder:
        found: list[Source] = []
        for n, name in enumerate(named):
            if name.startswith(("http://", "https://")):
                found.append(_fetched(name, Path(folder) / f"{n}-{Path(urlsplit(name).path).name or 'export'}"))
            else:
                found.append(_source(name))
        yield found


def _source(name: str) -> Source:
    path = Path(name)
    if not path.exists():
        msg = f"there is no file or folder {name!r}"
        raise ConfigurationError(msg)
    return Source(path=path, name=name)


def _fetched(address: str, target: Path) -> Source:
    url = urlsplit(address)
    # Neither credentials nor tokens in the query are for messages.
    name = url._replace(netloc=url.hostname or "", query="", fragment="").geturl()
    try:
        with httpx.stream("GET", address, timeout=_TIMEOUT_S, follow_redirects=True) as response:
            if not response.is_success:
                msg = f"{name!r} answered {response.status_code}"
                raise DataError(msg)
            with target.open("wb") as file:
                for chunk in response.iter_bytes():
                    file.write(chunk)
                    if file.tell() > _MAX_DOWNLOAD_BYTES:
                        msg = f"{name!r} is larger than {_MAX_DOWNLOAD_BYTES} bytes; download it and replay the file"
                        raise DataError(msg)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        msg = f"{name!r} cannot be fetched: {type(error).__name__}"
        raise DataError(msg) from None
    return Source(path=target, name=name, identity=address)
