"""The share of judged outcomes that may fail before a command exits with code 3."""

from __future__ import annotations

from ragstone.scoring import JudgedCounts


def describe_excess(counts: JudgedCounts, limit: float, what: str = "judged outcomes") -> str | None:
    """Return why a run with these counts exits with code 3, or None if it does not."""
    if counts.failed_share <= limit:
        return None
    kinds = ", ".join(f"{n} {kind}" for kind, n in counts.kinds.most_common())
    return (
        f"{counts.n_failed} of {counts.n} {what} failed ({counts.failed_share:.0%}), more than the limit "
        f"of {limit:.0%} (limits.max_failed_share). By kind: {kinds}."
    )
