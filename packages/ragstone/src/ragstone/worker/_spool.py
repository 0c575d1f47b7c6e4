"""Where the processes of an application leave captures for the worker of a store."""

from __future__ import annotations

import os
import re
from pathlib import Path
from urllib.parse import urlsplit

from ragstone.store import is_database_url

__all__ = ["spool_directory"]


def spool_directory(store: str | os.PathLike[str]) -> Path:
    """The spool of a store: beside the file; for a database `RAGSTONE_SPOOL`, else a folder of this user on this host.

    Args:
        store: Path of a store file, or URL of a database.
    """
    if not is_database_url(store):
        path = Path(store).absolute()
        return path.with_name(path.name + ".spool")
    if named := os.environ.get("RAGSTONE_SPOOL"):
        return Path(named).absolute()
    url = urlsplit(os.fspath(store))
    # Application and worker must find the same folder, whatever their working directories.
    place = re.sub(r"[^A-Za-z0-9.-]+", "_", f"{url.hostname or 'local'}_{url.port or 5432}{url.path}")
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "ragstone" / f"{place}.spool"
