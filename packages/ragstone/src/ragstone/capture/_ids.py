"""Hashes that replace the ids of users and sessions."""

from __future__ import annotations

import hmac
import os
import secrets
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Literal

from ragstone.errors import ConfigurationError, StoreError
from ragstone.schema import Trace

Ids = Literal["keep", "hash"]
"""What is stored of the ids of users and sessions: the ids, or hashes of them."""

_KEY_BYTES: Final = 32
_MIN_TEXT: Final = 16


class IdHasher:
    """Replaces an id by a hash that only the holder of the key can compute: HMAC-SHA-256, shortened to 128 bits.

    The same id has the same hash as long as the key is the same, so that sessions stay groups. A user and a session
    with the same id have different hashes. `key` is a text of at least 16 characters, or the path of a file that
    contains the key. A missing file is created, readable by this user only. It is not read before the first id. Raise
    ConfigurationError if the text is too short.
    """

    def __init__(self, key: str | Path) -> None:
        if isinstance(key, str) and len(key) < _MIN_TEXT:
            raise ConfigurationError(f"the key of hashed ids must have at least {_MIN_TEXT} characters, got {len(key)}")
        self._source = key
        self._key: bytes | None = None

    def __call__(self, kind: Literal["user", "session"], value: str) -> str:
        """Return the hash of an id. Raise StoreError if the key cannot be read or created."""
        if self._key is None:
            source = self._source
            self._key = source.encode() if isinstance(source, str) else _read_key(source)
        text = f"{kind}\0{value}".encode("utf-8", "surrogatepass")
        return f"h-{hmac.digest(self._key, text, 'sha256')[:16].hex()}"


def hash_trace_ids(trace: Trace, hasher: IdHasher) -> Trace:
    """Return the trace with hashes of its user and session. Raise StoreError if the key cannot be read."""
    changed: dict[str, Any] = {}
    if trace.user_id is not None:
        changed["user_id"] = hasher("user", trace.user_id)
    if trace.session_id is not None:
        changed["session_id"] = hasher("session", trace.session_id)
    return trace.model_copy(update=changed) if changed else trace


def _read_key(path: Path) -> bytes:
    try:
        if not path.exists():
            _create_key(path)
        key = path.read_bytes()
    except OSError as error:
        raise StoreError(
            f"the key of hashed ids cannot be read or created: {error.strerror} for {str(path)!r}"
        ) from None
    if len(key) != _KEY_BYTES:
        raise StoreError(
            f"the key of hashed ids in {str(path)!r} has {len(key)} bytes instead of {_KEY_BYTES}. Restore it from a "
            "backup: with another key, the users and sessions of later requests differ from the earlier ones."
        )
    return key


def _create_key(path: Path) -> None:
    """Create the file with all its bytes at once. If several processes do this, the first one counts."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    whole = path.with_name(f"{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    handle = os.open(whole, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(secrets.token_bytes(_KEY_BYTES))
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileExistsError):
            os.link(whole, path)
    finally:
        whole.unlink()
