"""The owner of a store at work: what comes in, is scored, and goes out; and what anybody sees of its books."""

from ragstone.worker._status import read_ledger
from ragstone.worker._worker import Worker, spool_directory

__all__ = ["Worker", "read_ledger", "spool_directory"]
