"""The one path of a store file, after which the files next to it are named."""

from __future__ import annotations

import os
from pathlib import Path

from ragstone.errors import StoreError


def real_path(store: str | os.PathLike[str]) -> Path:
    """Return the path of a store file without symbolic links, so that all its names lead to one lock and one spool.

    A path without links is returned as it is.
    """
    given, real = Path(store), Path(os.path.realpath(store))
    return given if given.absolute() == real else real


def has_spool(store: str | os.PathLike[str]) -> bool:
    """Whether applications captured requests for a store file, which does not have to exist."""
    return Path(f"{real_path(store)}.spool").is_dir()


def check_single_name(path: Path) -> None:
    """Check that a store file does not have hard links.

    Raises:
        StoreError: If it has. SQLite would keep a write-ahead log for each name, and damage the file.
    """
    if path.is_file() and (n_names := path.stat().st_nlink) > 1:
        raise StoreError(
            f"the store {str(path)!r} has {n_names} names (hard links), and writing under two of them damages it. Remove the "
            "other names, or use copies or symbolic links."
        )
