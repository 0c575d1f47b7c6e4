"""The owner of a store at work: what comes in, is scored, and goes out; and what anybody sees of its books."""

from ragstone.worker._intake import Intake, Troubles
from ragstone.worker._spool import spool_directory
from ragstone.worker._status import read_ledger
from ragstone.worker._why_not import why_not
from ragstone.worker._worker import Worker

__all__ = ["Intake", "Troubles", "Worker", "read_ledger", "spool_directory", "why_not"]
