"""Opening of a store by a command that writes to it."""

from __future__ import annotations

from pathlib import Path

from ragstone.errors import StoreOwnedError
from ragstone.store import Store, is_database_url, open_store


def open_owned(store: str, hint: str = "") -> Store:
    """Open a store that exists for writing.

    Args:
        store: Path or URL.
        hint: What else a user can do if another process owns it.

    Raises:
        StoreError: If it does not exist, is in use or cannot be opened.
    """
    if not is_database_url(store) and not Path(store).exists():
        return open_store(store, mode="read")  # says that it does not exist, and does not create it
    try:
        return open_store(store, mode="own")
    except StoreOwnedError as error:
        raise StoreOwnedError(f"{error}{hint}") from None
