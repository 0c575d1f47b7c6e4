"""`TimeRange`, the requests of a store in a period."""

from __future__ import annotations

from dataclasses import dataclass

from ragstone.experiments._experiment import Reported
from ragstone.experiments._outcomes import Period


@dataclass(frozen=True, slots=True)
class TimeRange(Reported, Period):
    """The requests of a store in a period, or one of its runs.

    Args:
        store: Path of a store, or URL of a database.
        since: Earliest start of a request, in Unix seconds. None is unbounded.
        until: Requests start before this time, in Unix seconds. None is unbounded.
        run: Name of a run of `evaluate --store`. Without one, the last run in the period is meant.

    Examples:
        ```python
        TimeRange("ragstone.db").report("report.html")
        ```
    """
