"""Worker: moves traces into the store, scores them and delivers outcomes. Reads ledgers without owning the store."""

from typing import TYPE_CHECKING

from ragstone._util.lazy import lazy_names

if TYPE_CHECKING:
    from ragstone.worker._backfill import Backfill
    from ragstone.worker._daily_budget import describe_reached
    from ragstone.worker._erase import Erasure, erase_requests
    from ragstone.worker._health import WorkerState, add_health_routes
    from ragstone.worker._hints import advise, worker_command
    from ragstone.worker._id_key import id_hasher
    from ragstone.worker._intake import StepErrors, broker_spool_directory, claim_spool, spool_directory
    from ragstone.worker._plan import StorePlan
    from ragstone.worker._setup import ScoringSetup
    from ragstone.worker._spec import ScorerSpec, open_setup
    from ragstone.worker._status import read_ledger
    from ragstone.worker._watching import change_alarm
    from ragstone.worker._worker import Worker
    from ragstone.worker._worker_process import WorkerProcess, WorkerWork

__all__ = ["ScorerSpec", "ScoringSetup"]

if not TYPE_CHECKING:  # a type checker would accept any name
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "_backfill": "Backfill",
            "_daily_budget": "describe_reached",
            "_erase": "Erasure erase_requests",
            "_health": "WorkerState add_health_routes",
            "_hints": "advise worker_command",
            "_id_key": "id_hasher",
            "_intake": "StepErrors broker_spool_directory claim_spool spool_directory",
            "_plan": "StorePlan",
            "_setup": "ScoringSetup",
            "_spec": "ScorerSpec open_setup",
            "_status": "read_ledger",
            "_watching": "change_alarm",
            "_worker": "Worker",
            "_worker_process": "WorkerProcess WorkerWork",
        },
    )
