"""Settings of the block that a call is made in, so that another process can make it in the same way."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

from ragstone.judges._cache.replies import bypassed, cache_bypassed, repeat_number, repeat_replies
from ragstone.judges._limits.gate import current_patience_s, wait_for_outages


class CallContext(NamedTuple):
    """Settings of `wait_for_outages`, `cache_bypassed` and `repeat_replies`, which are blocks around calls."""

    max_outage_s: float | None = None
    bypasses_cache: bool = False
    repeat: int = 0

    @classmethod
    def current(cls) -> CallContext:
        """Return the settings of the running task."""
        return cls(current_patience_s(), bypassed.get(), repeat_number.get())

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Apply the settings to all calls in the block."""
        with ExitStack() as blocks:
            if self.max_outage_s is not None:
                blocks.enter_context(wait_for_outages(self.max_outage_s))
            if self.bypasses_cache:
                blocks.enter_context(cache_bypassed())
            if self.repeat:
                blocks.enter_context(repeat_replies(self.repeat))
            yield
