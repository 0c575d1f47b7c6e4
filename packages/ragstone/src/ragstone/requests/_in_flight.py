"""The requests in flight through one handler of a framework's events.

- Events of a request that has ended must not start a new one. The ids of recent steps are remembered.
- A stream that is held open and never read does not have an end event. Requests older than `ttl_s`, and the oldest
  beyond `max_live`, are given up.
- The garbage collector may close an abandoned stream, and thereby call this module, while the same thread is inside it.
  The lock is re-entrant, and each section that holds it is a few operations on plain containers.
- A forked child inherits requests that its parent will finish. It forgets them and starts with a new lock.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable
from typing import Any, Final, Generic, TypeVar

from ragstone._util.fork import after_fork_in_child
from ragstone._util.guard import Guard

_REMEMBERED: Final = 20_000
"""Hashes of the ids of ended steps kept (about 3 MB)."""
_SWEPT_PER_START: Final = 2
"""More than one, so that the number of requests in flight shrinks; few, so that no request pays for many others."""


LiveT = TypeVar("LiveT", bound=Any)
"""A request in flight: it has a `draft`, the step `root`, the ids of all its steps (`keys`) and `closed`."""
BegunT = TypeVar("BegunT")


class InFlight(Generic[LiveT, BegunT]):
    """All requests in flight through one handler, and the steps that have begun. Any thread may call the methods.

    Attributes:
        late: Events ignored because they came twice, or after their request had ended.
        ignored_models: Bare model calls that were not recorded.
    """

    class Counts:
        """What a handler reports about its requests in flight (`_live`), as a base class."""

        _guard: Guard
        _live: InFlight[Any, Any]
        _record: Callable[[Any, Any], None]

        @property
        def errors(self) -> int:
            """Number of events that failed inside this package: 0 unless it has a bug, or an extractor raised."""
            return self._guard.total

        @property
        def late_events(self) -> int:
            """Number of events ignored because they came twice, or after their request had ended."""
            return self._live.late

        @property
        def ignored_models(self) -> int:
            """Number of bare model calls that were not recorded, because nothing of a RAG request was around them."""
            return self._live.ignored_models

        @property
        def in_flight(self) -> int:
            """Number of requests in flight."""
            return len(self._live)

        def record_abandoned(self, *, older_than_s: float | None = None) -> int:
            """Record requests that have not ended for too long as `abandoned`.

            Each new request gives up two old ones, and the end of the process gives up all. Call this if no new requests
            come, or before you close the monitor yourself.

            Args:
                older_than_s: Age in seconds from which a request counts as abandoned: `ttl_s` by default, 0 for all.

            Returns:
                The number of requests recorded.
            """
            given_up = self._live.give_up(older_than_s=older_than_s, at_most=None)
            for live in given_up:
                self._record(live, "abandoned")
            return len(given_up)

    def __init__(self, *, ttl_s: float, max_live: int, clock: Callable[[], float]) -> None:
        self._ttl_s = ttl_s
        self._max_live = max_live
        self._clock = clock
        self.late = 0
        self.ignored_models = 0
        self._start_empty()
        after_fork_in_child(self.forget_all)

    def _start_empty(self) -> None:
        self._lock = threading.RLock()
        self._begun: dict[Any, BegunT] = {}
        self._live: OrderedDict[Hashable, LiveT] = OrderedDict()
        self._closed: OrderedDict[int, None] = OrderedDict()

    def __len__(self) -> int:
        """Return the number of requests in flight."""
        return len(self._live)

    def ignore_models(self, number: int = 1) -> None:
        """Count bare model calls that are not recorded."""
        with self._lock:
            self.ignored_models += number

    def give_up(
        self,
        *,
        older_than_s: float | None = None,
        at_most: int | None = _SWEPT_PER_START,
        only: Callable[[LiveT], bool] | None = None,
    ) -> list[LiveT]:
        """Take out requests that are too old or, oldest first, too many.

        Args:
            older_than_s: Age from which a request is too old; `ttl_s` by default.
            at_most: Number of requests to take out; None for no limit.
            only: Take only these, of any age.
        """
        given_up: list[LiveT] = []
        oldest_start = self._clock() - (self._ttl_s if older_than_s is None else older_than_s)
        with self._lock:
            if only is not None:
                given_up = [live for live in self._live.values() if only(live)]
                for live in given_up:
                    self._forget(live)
                return given_up
            while self._live and (at_most is None or len(given_up) < at_most):
                live = next(iter(self._live.values()))
                if live.draft.started_at > oldest_start and len(self._live) <= self._max_live:
                    break
                self._forget(live)
                given_up.append(live)
        return given_up

    def _forget(self, live: LiveT) -> None:
        live.closed = True
        self._live.pop(live.root.id, None)
        keys = live.keys
        for key in keys:
            self._begun.pop(key, None)
        self._remember(keys)

    def _has_ended(self, *keys: Hashable) -> bool:
        """Whether one of the steps was a part of a request that has ended. If so, the first one is remembered too."""
        if not any(hash(key) in self._closed for key in keys):
            return False
        self._remember(keys[:1])
        return True

    def _remember(self, keys: Iterable[Hashable]) -> None:
        """Note the ids of steps that have ended, and forget the oldest."""
        self._closed.update(dict.fromkeys(map(hash, keys)))
        while len(self._closed) > _REMEMBERED:
            self._closed.popitem(last=False)

    def forget_all(self) -> None:
        """Start empty in a forked child: the parent finishes what is in flight, and another thread may hold the lock."""
        requests = list(self._live.values())
        self._start_empty()
        for live in requests:
            live.closed = True
            self._remember(live.keys)
