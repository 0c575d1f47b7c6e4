"""The board: the parts of the live page, rebuilt when the store has changed, and the revision of each part."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import Final
from urllib.parse import urlencode

from ragstone.errors import RagstoneError
from ragstone.experiments import FollowedReport, card_of
from ragstone.views import AlarmView, LiveDocument, live_parts, problem_part
from ragstone.watch import Alarm, alarm_lines

_MIN_INTERVAL_S: Final = 2.0
"""Shortest time between two updates."""
_CPU_SHARE: Final = 0.015
"""Largest share of a core for updates: after one that took 0.15 s, the next one follows 10 s later."""
_ROWS: Final = "rows"
"""Name of the rows of the table of all questions, which the browser fetches with its own search and order."""


class Board:
    """The parts of the live page by name.

    Parts are rebuilt at most once in 2 s, more rarely if that is much work, only if the store has changed, and only
    while a browser shows the page. `command` serves the page. Tests replace `wait` (for a number of seconds) and
    `clock` (seconds that never decrease).
    """

    def __init__(
        self,
        report: FollowedReport,
        *,
        title: str,
        command: str,
        wait: Callable[[float], Awaitable[None]] = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.report = report
        self._title = title
        self._command = command
        self._wait = wait
        self._clock = clock
        self.parts: dict[str, str] = {}
        """HTML of the parts with content, by name."""
        self._changed_at: dict[str, int] = {}
        """Number of the update in which a part changed last."""
        self._n_updates = 0
        self._epoch = secrets.token_hex(4)
        """Part of each revision, so that a browser recognizes that the server was started again."""
        self._next_update = float("-inf")
        self._updating = asyncio.Lock()
        self._n_viewers = 0
        self._viewed = asyncio.Event()
        self._updated = asyncio.Event()

    @property
    def revision(self) -> str:
        """Name of the current state of all parts."""
        return f"{self._epoch}-{self._n_updates}"

    def document(self) -> LiveDocument:
        """Return the page."""
        return LiveDocument.of_report(self._title, self.parts, revision=self.revision)

    def changed_since(self, revision: str) -> list[str]:
        """Return the names of the parts that changed after a revision."""
        epoch, _, number = revision.rpartition("-")
        seen = int(number) if epoch == self._epoch and number.isdecimal() and len(number) < 19 else -1
        return [name for name, changed in self._changed_at.items() if changed > seen]

    async def update(self) -> None:
        """Read the store and rebuild the parts, unless the last update was too short ago."""
        async with self._updating:
            if self._clock() < self._next_update:
                return
            started = time.process_time()
            parts = await asyncio.to_thread(self._build)
            cpu_s = time.process_time() - started
            self._next_update = self._clock() + max(_MIN_INTERVAL_S, cpu_s / _CPU_SHARE)
            if parts is None:
                return
            changed = [name for name in {**self.parts, **parts} if self.parts.get(name, "") != parts.get(name, "")]
            if changed:
                self._n_updates += 1
                self._changed_at |= dict.fromkeys(changed, self._n_updates)
                self.parts = dict(parts)
                self._updated.set()
                self._updated = asyncio.Event()

    def _build(self) -> dict[str, str] | None:
        """Return the parts, or None if nothing changed. A problem is a part of the page, above the last good state."""
        try:
            if not self.report.refresh() and self.parts:
                return {**self.parts, "problem": ""} if self.parts.get("problem") else None
        except RagstoneError as error:
            kept = self.parts or live_parts(None, self.report.ledger, latest=(), command=self._command)
            return {**kept, "problem": problem_part(str(error))}
        report = self.report
        store = self._command.removeprefix("ragstone view ")
        view = report.view
        columns = () if view is None else [*(row.name for row in view.metrics), *(row.cause for row in view.causes)]
        alarms = [_alarm_view(alarm, store, columns, report.labels) for alarm in report.alarms]
        parts: Mapping[str, str] = live_parts(
            report.view,
            report.ledger,
            alarms=alarms,
            latest=report.latest,
            command=self._command,
            labels=report.labels,
            notes=report.notes,
        )
        # Rows change with the scores that are listed with them.
        return {**parts, _ROWS: str(self._n_updates + 1)}

    async def run(self) -> None:
        """Update while a browser shows the page, until canceled."""
        while True:
            await self._viewed.wait()
            await self.update()
            await self._wait(max(self._next_update - self._clock(), 0.0))

    @contextmanager
    def viewing(self) -> Iterator[None]:
        """Keep the parts up to date while the block runs."""
        self._n_viewers += 1
        self._viewed.set()
        try:
            yield
        finally:
            self._n_viewers -= 1
            if not self._n_viewers:
                self._viewed.clear()

    async def next_change(self, revision: str, *, timeout_s: float) -> list[str]:
        """Return the names of the parts that changed after a revision. Wait for one, up to a number of seconds."""
        if not self.changed_since(revision):
            # Not a condition of asyncio: it raises RuntimeError if a task that waits is canceled twice, as when the server stops.
            with suppress(TimeoutError):
                async with asyncio.timeout(timeout_s):
                    await self._updated.wait()
        return self.changed_since(revision)


def _alarm_view(alarm: Alarm, store: str, columns: Collection[str], labels: Collection[str]) -> AlarmView:
    """Return an alarm as the page shows it, with the address of the requests since its change.

    `columns` are the metrics and causes by which the page finds requests, and `labels` the keys of their labels.
    """
    card = card_of(alarm.key.metric)
    heading, lines = alarm_lines(
        alarm, title="" if card is None else card.title, store=store, event=alarm.state, zone=UTC
    )
    times = {"since": alarm.since, "until": alarm.closed_at}
    query = {key: f"{datetime.fromtimestamp(t, UTC):%Y-%m-%dT%H:%M}" for key, t in times.items() if t is not None}
    if alarm.key.app and "app" in labels:
        quote = "'" if '"' in alarm.key.app else '"'
        query["where"] = f"app={quote}{alarm.key.app}{quote}"
    query["sort"] = "time"
    if alarm.kind == "failures":
        query |= {"cause": "not_scored"} if "not_scored" in columns else {}
    elif alarm.key.metric in columns:
        query["sort"] = f"{'' if alarm.scale[2] else '-'}{alarm.key.metric}"
    number = alarm.number if alarm.state == "open" else None
    return AlarmView(heading, tuple(lines), f"./?{urlencode(query)}#all", number)
