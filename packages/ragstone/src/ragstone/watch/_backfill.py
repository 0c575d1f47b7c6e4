"""Baselines from backfilled outcomes: a metric that was added today is watched tomorrow, and not in a week."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial

from ragstone.settings import Watch
from ragstone.store import StreamKind, StreamRow, WatchTables
from ragstone.watch._options import Scale
from ragstone.watch._stream import Stream

_KINDS: tuple[StreamKind, ...] = ("score", "failures")


def learn_from_backfills(
    tables: WatchTables, ended: Collection[str], *, now: float, options: Watch, scales: Mapping[str, Scale]
) -> None:
    """Let the streams of backfills that have ended learn their baselines.

    `ended` are ids, `now` is in Unix seconds, and `tables` is in the transaction that has stored the units.
    """
    streams = {(row.key, row.kind): Stream.from_state(row.key, row.kind, row.state) for row in tables.streams()}
    for backfill in [each for each in tables.ended_backfills() if each.id in ended]:
        for key in backfill.keys:
            if key.metric in scales:
                for kind in _KINDS:
                    stream = streams.setdefault((key, kind), Stream(key, kind, scales[key.metric], start=now))
                    stream.learn_from(backfill.since, now, options, partial(tables.unit_amounts, key))
                    tables.save_stream(StreamRow(key=key, kind=kind, state=stream.state()))
        tables.mark_learned(backfill.id)
