"""Requests to accept or mute an alarm, for the worker that owns a store file, which no other process may write."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from ragstone._util.files import write_json
from ragstone.store import WatchTables
from ragstone.watch._alarm import Alarm
from ragstone.watch._fold import accept_alarm, mute_alarm


@dataclass(frozen=True, slots=True, kw_only=True)
class AlarmRequest:
    """A request to change an alarm. It can be applied twice."""

    action: Literal["accept", "mute"]
    number: int
    until: float | None = None
    """End of muting, Unix seconds."""

    def apply(self, tables: WatchTables, *, now: float) -> Alarm | None:
        """Change the alarm, and return it, or None if it is not found or not open."""
        if self.action == "accept":
            return accept_alarm(tables, self.number, now=now)
        return mute_alarm(tables, self.number, until=self.until or now)


def write_request(folder: Path, request: AlarmRequest) -> None:
    """Leave a request for the running worker."""
    write_json(folder / f"{uuid.uuid4().hex}.json", asdict(request))


def read_requests(folder: Path) -> Iterator[tuple[Path, AlarmRequest]]:
    """Yield the requests in a folder, oldest first. Unreadable files are removed."""
    if not folder.is_dir():
        return
    for path in sorted(folder.glob("*.json"), key=lambda p: p.stat().st_mtime):
        try:
            yield path, AlarmRequest(**json.loads(path.read_text(encoding="utf-8")))
        except (ValueError, TypeError):
            path.unlink(missing_ok=True)
