"""The owner of a store at work: what comes in, is scored, and goes out; and what anybody sees of its books."""

from ragstone.worker._intake import Intake, Troubles, spool_directory, why_not
from ragstone.worker._setup import ScoringSetup
from ragstone.worker._status import read_ledger
from ragstone.worker._worker import Worker

__all__ = ["Intake", "ScoringSetup", "Troubles", "Worker", "read_ledger", "spool_directory", "why_not"]
