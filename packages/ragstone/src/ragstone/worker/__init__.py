"""Worker: moves traces into the store, scores them and delivers outcomes. Reads ledgers without owning the store."""

from typing import TYPE_CHECKING

from ragstone._util.lazy import lazy_names

if TYPE_CHECKING:
    from ragstone.worker._backfill import BackfillRequest as BackfillRequest
    from ragstone.worker._backfill import request_backfill as request_backfill
    from ragstone.worker._backfill import run_backfill as run_backfill
    from ragstone.worker._daily_budget import describe_reached as describe_reached
    from ragstone.worker._erase import Erasure as Erasure
    from ragstone.worker._erase import erase_requests as erase_requests
    from ragstone.worker._health import HealthRoutes as HealthRoutes
    from ragstone.worker._health import WorkerState as WorkerState
    from ragstone.worker._hints import advise as advise
    from ragstone.worker._hints import worker_command as worker_command
    from ragstone.worker._id_key import id_hasher as id_hasher
    from ragstone.worker._intake import StepErrors as StepErrors
    from ragstone.worker._intake import broker_spool_directory as broker_spool_directory
    from ragstone.worker._intake import claim_spool as claim_spool
    from ragstone.worker._intake import get_skip_reason as get_skip_reason
    from ragstone.worker._intake import spool_directory as spool_directory
    from ragstone.worker._plan import StorePlan as StorePlan
    from ragstone.worker._setup import ScoringSetup
    from ragstone.worker._spec import ScorerSpec
    from ragstone.worker._spec import open_setup as open_setup
    from ragstone.worker._status import read_ledger as read_ledger
    from ragstone.worker._watching import requests_folder as requests_folder
    from ragstone.worker._worker import Worker as Worker
    from ragstone.worker._worker_process import WorkerProcess as WorkerProcess
    from ragstone.worker._worker_process import WorkerWork as WorkerWork

__all__ = ["ScorerSpec", "ScoringSetup"]

if not TYPE_CHECKING:  # a type checker would accept any name
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "_backfill": "BackfillRequest request_backfill run_backfill",
            "_daily_budget": "describe_reached",
            "_erase": "Erasure erase_requests",
            "_health": "HealthRoutes WorkerState",
            "_hints": "advise worker_command",
            "_id_key": "id_hasher",
            "_intake": "StepErrors broker_spool_directory claim_spool get_skip_reason spool_directory",
            "_plan": "StorePlan",
            "_setup": "ScoringSetup",
            "_spec": "ScorerSpec open_setup",
            "_status": "read_ledger",
            "_watching": "requests_folder",
            "_worker": "Worker",
            "_worker_process": "WorkerProcess WorkerWork",
        },
    )
