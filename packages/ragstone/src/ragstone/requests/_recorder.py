"""What takes finished requests from integrations."""

from __future__ import annotations

from typing import Protocol

from ragstone.requests._draft import TraceDraft
from ragstone.requests._step import Request


class Recorder(Protocol):
    """Takes finished requests, such as `ragstone.Monitor` and `ragstone.testing.MemoryRecorder`."""

    def record(self, draft: TraceDraft | Request) -> bool:
        """Take over a finished request. Never raises, never blocks.

        Args:
            draft: A draft, or a request whose draft is still to be assembled. The recorder may do that later, on another
                thread, so neither it nor its steps may be changed afterwards.

        Returns:
            False if the request was dropped, which is counted.
        """
        ...
