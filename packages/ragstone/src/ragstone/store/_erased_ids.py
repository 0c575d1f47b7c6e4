"""Hashes of the ids of erased requests, so that a replay or the spool of another host does not bring them back."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Collection, Sequence
from typing import Final

from ragstone.store._sql import Sql, marks, pages, read_meta, starting_with

_IDENTITY: Final = "store_id"
_ERASED: Final = "erased:"
"""Beginning of keys of the table `meta`. The hash of an id follows. The value is the time of the erasure, in Unix seconds."""
_ANY_ERASED: Final = starting_with(_ERASED)


def store_id(db: Sql) -> str:
    """Return the id of the store, which its first use creates. It is the salt of the hashes."""
    db.execute("INSERT INTO meta VALUES (?, ?) ON CONFLICT (key) DO NOTHING", (_IDENTITY, uuid.uuid4().hex))
    return str(read_meta(db, _IDENTITY))


def remember_erased(db: Sql, trace_ids: Sequence[str], *, now: float) -> None:
    """Store the hashes of erased requests. `db` is the transaction that erases them."""
    salt = store_id(db)
    db.executemany(
        "INSERT INTO meta VALUES (?, ?) ON CONFLICT (key) DO NOTHING",
        [(_key(salt, trace_id), f"{now:.0f}") for trace_id in sorted(trace_ids)],
    )


def find_erased(db: Sql, trace_ids: Collection[str]) -> set[str]:
    """Return those of some ids whose requests were erased."""
    # Most stores have none, and this is asked for each batch of new requests.
    any_key = "SELECT 1 FROM meta WHERE key >= ? AND key < ? LIMIT 1"
    if not trace_ids or db.execute(any_key, _ANY_ERASED).fetchone() is None:
        return set()
    salt = store_id(db)
    by_key = {_key(salt, trace_id): trace_id for trace_id in trace_ids}
    found = set()
    for page in pages(list(by_key)):
        found |= {
            by_key[key]
            for (key,) in db.execute(f"SELECT key FROM meta WHERE key IN ({marks(page)})", page)  # noqa: S608 - placeholders
        }
    return found


def _key(salt: str, trace_id: str) -> str:
    digest = hashlib.sha256(f"{salt} {trace_id}".encode("utf-8", "surrogatepass")).hexdigest()
    return f"{_ERASED}{digest[:32]}"
