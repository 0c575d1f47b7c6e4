"""`--batch FOLDER`: judge calls in files for a batch API, and what a command prints of them."""

from __future__ import annotations

from collections.abc import Iterator

from ragstone._util.plural import count
from ragstone.cli._output import sanitize_for_terminal
from ragstone.judges import BatchReport


def batch_lines(batch: BatchReport | None) -> Iterator[str]:
    """Yield a line for each file that was written, and lines about results that were not used."""
    if batch is None:
        return
    for file in batch.files:
        about = f"{file.model} at {file.url}"
        yield f"{sanitize_for_terminal(str(file.path))}: {count(file.n_requests, 'request')} for {sanitize_for_terminal(about)}"
    if batch.n_failed:
        yield (
            f"batch: {count(batch.n_failed, 'result')} failed for a temporary reason "
            f"({sanitize_for_terminal(str(batch.failure))}). Their requests are written again when they are needed"
        )
    if batch.n_ignored:
        yield f"batch: {count(batch.n_ignored, 'line')} of the files of results ignored, because they are not results"
