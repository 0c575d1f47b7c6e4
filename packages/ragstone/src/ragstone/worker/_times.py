"""How long the worker and its processes wait, and how often they try again. What a user decides is in the settings.

All are seconds, but for the numbers of attempts at the end. Pauses that grow do so from MIN to MAX, twofold.
"""

from typing import Final

# The loop of the worker.
POLL_MIN_S: Final = 0.02
POLL_MAX_S: Final = 0.5
"""A request is claimed within this time, and an idle worker looks twice a second."""
LEDGER_S: Final = 5.0
STREAMS_S: Final = 60.0
PLANS_S: Final = 10.0
"""Looks for requests of other plans, for the log."""
TURN_S: Final = 1.0
"""Longest turn of a worker without models, and shortest time between two turns."""
TURNS_PATIENCE_S: Final = 10.0
"""Time in which a command gets the store from a worker that takes turns: several of its turns."""
STOP_S: Final = 20.0
"""Time in which a stopped worker stores its results. Service managers kill after 30 s."""
ALIVE_S: Final = 30.0
"""Without a poll for so long, a worker does not count as alive: many polls, but not a minute without scores."""
SPEND_S: Final = 1.0
"""Between two records of what was spent. A kill loses at most this."""

# The store.
FILE_LEASE_S: Final = 3600.0
"""Lease in a store file. The next owner releases the leases of a killed owner at its start."""
SHARED_LEASE_S: Final = 90.0
"""Lease in a shared store: short, so that other workers resume after a kill, and renewed regularly."""
STORE_RETRY_S: Final = 1.0
SILENT_S: Final = 5.0
"""Duration of a call to the store after which the worker does not count as ready."""
BACKFILL_SAVE_S: Final = 5.0
"""Between two records of the progress. A kill repeats at most this."""
FOLD_S: Final = 10.0
STREAM_RECENT_S: Final = 7 * 86_400.0
CANARIES_KEPT_S: Final = 100 * 86_400.0
"""As units are."""
RETENTION_S: Final = 600.0
"""Between two searches for old texts: ages are days."""
RETENTION_AWAITS_S: Final = 600.0
"""Time in which a worker that has started may receive requests again that another one has stored."""

# Judges and sinks that do not answer.
PREPARE_MIN_S: Final = 1.0
PREPARE_MAX_S: Final = 30.0
"""Between two attempts to reach the judge before the first trace is scored: no request is in work that could show
it."""
OUTAGE_MIN_S: Final = 1.0
OUTAGE_USUAL_S: Final = 300.0
OUTAGE_PAID_MIN_S: Final = 10.0
OUTAGE_PAID_MAX_S: Final = 600.0
"""After a partly answered attempt, whose answered part is paid for again."""
HOLD_S: Final = 60.0
"""Longest time for which a failure waits for the outcomes of other traces."""
HOLD_PAUSE_MIN_S: Final = 30.0
HOLD_PAUSE_MAX_S: Final = 600.0
"""Between two attempts of a group whose models fail systematically: each attempt is paid."""
DELIVERY_MIN_S: Final = 1.0
DELIVERY_MAX_S: Final = 600.0
RETRY_AFTER_MAX_S: Final = 3600.0
"""Longest accepted Retry-After."""
MISSING_MIN_S: Final = 2.0
MISSING_PATIENCE_S: Final = 24 * 3600.0
"""For an outcome whose trace is missing in a sink: exporters may be slow, and sampled-out traces never arrive."""

# Processes.
START_S: Final = 60.0
"""Longest time until a new process can score: it imports packages, and may load models."""
ASK_S: Final = 0.05
"""Shortest time between two questions for the state of a worker process."""
STATE_S: Final = 1.0
"""Interval in which a process sends the state of endpoints during an outage."""
OWNER_S: Final = 1.0
"""Interval in which a process looks whether its owner still exists."""
LAST_FRAMES_S: Final = 1.0
"""To read what a process that has ended has sent: a program that it started may keep the pipe open."""
LAST_S: Final = 25.0
"""After the end of its owner, a process ends in any case: more than STOP_S."""
WORKER_END_S: Final = 30.0
"""A worker process that was stopped is killed after this: more than LAST_S."""
SCORING_END_S: Final = 5.0
"""A scoring process that was stopped is killed after this. It has nothing to store."""

# Attempts.
MAX_STARTS: Final = 4
MAX_DEATHS: Final = 3
"""Processes that may end while they score a sample, before the sample fails."""
