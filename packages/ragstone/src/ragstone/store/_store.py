"""`Store`, a database of traces, outcomes and deliveries."""

from __future__ import annotations

from types import TracebackType
from typing import Final, Self

from ragstone.errors import ConfigurationError
from ragstone.schema import Ledger
from ragstone.store._database import Database
from ragstone.store._deliveries import Deliveries
from ragstone.store._erasure import Erasure, store_id
from ragstone.store._labels import Labels
from ragstone.store._leases import Leases
from ragstone.store._ledger import read_ledger
from ragstone.store._outcomes import Outcomes
from ragstone.store._plan import Plan
from ragstone.store._retention import Retention
from ragstone.store._traces import Traces
from ragstone.store._types import StorePosition
from ragstone.store._verify import Verification
from ragstone.store._watch import Watch


class Upkeep(Verification, Retention, Erasure):
    """Verifies a store, and removes what must not or need not be kept."""

    def shrink(self) -> None:
        """Give the space of removed texts back to the disk. A server does this on its own.

        A file is written again, which needs as much free disk space. Without it, later requests use the space.
        """
        self._database.shrink()


class Store:
    """Stores traces, leases them to workers, stores their outcomes and deliveries, and accounts for every trace.

    Each attribute has the methods about one subject. Each method is one transaction, and its result survives the end of
    the process. All methods block. All raise `StoreError` if the store cannot be used. Then nothing of that call is
    stored, and the next call may succeed.
    """

    def __init__(self, database: Database, *, max_attempts: int) -> None:
        self._database = database
        database.max_attempts = max_attempts
        self.traces = Traces(database)
        self.leases = Leases(database)
        self.is_shared: Final = database.is_shared
        """Whether several workers, also on several hosts, may score traces of this store concurrently."""
        self.outcomes = Outcomes(database)
        self.deliveries = Deliveries(database)
        self.labels = Labels(database)
        self.plan = Plan(database)
        self.watch = Watch(database)
        self.upkeep = Upkeep(database)

    def identity(self) -> str:
        """Return the random id of this store. The first call creates it. A copy of a store has the same id."""
        with self._database.write() as db:
            return store_id(db)

    def position(self) -> StorePosition:
        """Return how much the store contains."""
        with self._database.read() as db:
            found = [db.execute(f"SELECT max(seq) FROM {table}").fetchone()[0] for table in ("traces", "outcomes")]  # noqa: S608
        return StorePosition(*(seq or 0 for seq in found))

    def ledger(self) -> Ledger:
        """Return the numbers of traces, in total and of each planned metric, in one consistent snapshot.

        It reads counters, so its cost does not depend on the number of traces.
        """
        # One transaction, so that all columns belong to one moment.
        with self._database.read() as db:
            return read_ledger(db, now=self._database.now())

    def check_not_replaced(self) -> None:
        """Check that writes still reach this store.

        Raise StoreError if the file was removed or replaced while in use, or other workers have replaced the plan.
        """
        self._database.check_not_replaced()

    def checkpoint(self) -> bool:
        """Make everything stored so far survive a power loss. Return False if a reader prevented it this time."""
        return self._database.checkpoint()

    def close(self) -> None:
        """Close the store. Further calls have no effect."""
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def check_options(mode: str, max_attempts: int) -> None:
    """Check the options with which a store is opened."""
    if max_attempts < 1:
        raise ConfigurationError(f"max_attempts must be at least 1, got {max_attempts!r}.")
    if mode not in ("own", "read"):
        raise ConfigurationError(f"mode must be 'own' or 'read', got {mode!r}.")
