"""Monitor: the only room that wires capture, spool, store, scoring and sinks together, live."""

from ragstone.monitor._monitor import Monitor
from ragstone.monitor._status import read_ledger
from ragstone.monitor._worker import Worker, spool_directory

__all__ = ["Monitor", "Worker", "read_ledger", "spool_directory"]
