"""`ragstone watch`: the streams of a store and their alarms."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import typer

from ragstone._util.quantities import count
from ragstone._util.table import text_table
from ragstone.cli._exit_codes import ExitCode
from ragstone.cli._output import print_result, print_text, sanitize_for_terminal
from ragstone.cli._settings import settings_of
from ragstone.errors import ConfigurationError
from ragstone.experiments import titles_of
from ragstone.schema import AlarmDelivery, Usage
from ragstone.settings import Watch
from ragstone.sinks import alarm_sink_from
from ragstone.store import WatchTables, open_store, quote_store
from ragstone.watch import (
    LEARNING_DAYS,
    Alarm,
    AlarmRequest,
    Stream,
    describe_delay,
    open_alarms,
    read_alarm,
    read_streams,
    render_alarm,
    stream_name,
)
from ragstone.worker import change_alarm

_DAY_S = 86_400.0
_RECENT_S = 7 * _DAY_S
_BASIS_S = 28 * _DAY_S
_EXAMINED = 20_000
"""Units of a stream that are read to find out how many more it needs, if these are enough."""


def watch_command(
    store: str,
    *,
    alarm: int | None = None,
    accept: int | None = None,
    mute: int | None = None,
    until: str | None = None,
    fail_on_alarm: bool = False,
    test_notify: bool = False,
    json_output: bool = False,
    context: typer.Context,
) -> None:
    r"""Show the watched metrics, what each can find, and alarms.

    Alarms can be accepted or muted.

    Options:
        store: The store: a file or postgresql://...
        alarm (N): Show this alarm, open or not.
        accept (N): Accept the change behind this alarm as the new baseline.
        mute (N): Send nothing about the stream of this alarm until --until.
        until: End of --mute: a time (2026-11-24T08:00) or a duration (12h, 3d).
        fail_on_alarm: Exit code 1 if an alarm is open and not muted.
        test_notify: Send a test message to the destinations of \[watch] in --config.
    """
    options = settings_of(context).watch
    if test_notify:
        asyncio.run(_test_notify(options.notify))
        return
    if accept is not None:
        print_text(change_alarm(store, AlarmRequest(action="accept", number=accept)))
        return
    if mute is not None:
        print_text(change_alarm(store, AlarmRequest(action="mute", number=mute, until=_parse_until(until))))
        return
    if until is not None:
        raise ConfigurationError("--until is the end of --mute N.")
    now = time.time()
    with open_store(store, mode="read") as opened, opened.watch.read() as tables:
        if alarm is not None:
            found = read_alarm(tables, alarm)
            print_result(found.to_dict(), _alarm_lines([found], store)[0], json_output=json_output)
            return
        shown = _Shown.read(tables, options, now)
    print_result(shown.to_dict(now), "\n".join(_lines(shown, store, now)), json_output=json_output)
    if fail_on_alarm and any(not a.is_muted(now) for a in shown.alarms):
        raise typer.Exit(ExitCode.GATE)


def _alarm_lines(alarms: Sequence[Alarm], store: str) -> list[str]:
    """Return the texts of alarms."""
    titles = titles_of(alarm.key.metric for alarm in alarms)
    return [render_alarm(alarm, title=titles.get(alarm.key.metric, ""), store=quote_store(store)) for alarm in alarms]


def watch_lines(tables: WatchTables, store: str, options: Watch) -> list[str]:
    """Return the number of watched streams and the open alarms, one line each."""
    streams, alarms = read_streams(tables), open_alarms(tables)
    needed = max((_units_needed(tables, stream, options) or 0 for stream in streams), default=0)
    now = time.time()
    phases = Counter(_quiet(stream, now) or stream.phase for stream in streams)
    more = {"learning": f" (up to {needed:,} more sessions)"} if needed else {}
    counts = ", ".join(f"{n} {phase}{more.get(phase, '')}" for phase, n in phases.items())
    return [f"watched streams: {counts}   ragstone watch {quote_store(store)}"] + [
        text.partition("\n")[0] for text in _alarm_lines(alarms, store)
    ]


def _quiet(stream: Stream, now: float) -> str:
    """Say that a stream had no unit for more than seven days, so that its numbers are not current. Empty if it had."""
    days = (now - stream.last_at) / _DAY_S
    return f"no session for {days:.0f} days" if days > _RECENT_S / _DAY_S else ""


def _units_needed(tables: WatchTables, stream: Stream, options: Watch) -> int | None:
    """Return how many more units a stream needs before its baseline is known, or None if it does not learn."""
    if stream.phase != "learning":
        return None
    span = (stream.key, stream.learns_from, stream.last_at)
    # A part of many units is nearly always enough, and then more of them are.
    first = tables.unit_amounts(*span, limit=_EXAMINED)
    needed = stream.units_needed(first, options)
    if needed and len(first) == _EXAMINED:
        needed = stream.units_needed(tables.unit_amounts(*span), options)
    return needed


@dataclass(frozen=True, slots=True, kw_only=True)
class _ShownStream:
    stream: Stream
    mean: float | None
    """Mean of the last seven days, in [0, 1]."""
    delays: dict[float, float]
    """Days that it needs to find drops."""
    units_needed: int | None
    """Units that it needs before its baseline is known, or None if it does not learn."""
    quiet: str

    @classmethod
    def read(
        cls, tables: WatchTables, stream: Stream, options: Watch, now: float, *, per_quarter: float, n_active: int
    ) -> _ShownStream:
        if quiet := _quiet(stream, now):
            return cls(stream=stream, mean=None, delays={}, units_needed=None, quiet=quiet)
        units = tables.units(stream.key, since=stream.last_at - _BASIS_S, until=stream.last_at)
        units = [unit for unit in units if stream.watches(unit)]
        return cls(
            stream=stream,
            mean=stream.mean_of([u for u in units if u.closed_at > stream.last_at - _RECENT_S]),
            delays=describe_delay(stream, units, per_quarter=per_quarter, n_active=n_active),
            units_needed=_units_needed(tables, stream, options),
            quiet="",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shown:
    """What the command shows."""

    streams: list[_ShownStream]
    alarms: list[Alarm]
    per_quarter: float
    canaries: Mapping[str, Any] | None
    """Last round of canaries."""
    n_earlier: int
    """Streams of earlier versions and judges, without units in the last seven days."""

    @classmethod
    def read(cls, tables: WatchTables, options: Watch, now: float) -> _Shown:
        streams = read_streams(tables)
        end = max((s.last_at for s in streams), default=0.0)
        newest = {_names(s): s.last_at for s in sorted(streams, key=lambda s: s.last_at)}
        current = [s for s in streams if end - s.last_at <= _RECENT_S or s.last_at == newest[_names(s)]]
        budget = tables.budget()
        per_quarter = 1.0 if budget is None else float(budget["per_quarter"])
        n_active = max(sum(s.is_active(end) for s in streams), 1)
        return cls(
            streams=[
                _ShownStream.read(tables, s, options, now, per_quarter=per_quarter, n_active=n_active) for s in current
            ],
            alarms=open_alarms(tables),
            per_quarter=per_quarter,
            canaries=tables.canaries.status() if tables.canaries.read() else None,
            n_earlier=len(streams) - len(current),
        )

    def to_dict(self, now: float) -> dict[str, Any]:
        return {
            "false_alarms_per_quarter": self.per_quarter,
            "streams": [_stream_dict(shown) for shown in self.streams],
            "n_earlier_streams": self.n_earlier,
            "canaries": self.canaries,
            "alarms": [a.to_dict() | {"muted": a.is_muted(now)} for a in self.alarms],
        }


def _stream_dict(shown: _ShownStream) -> dict[str, Any]:
    stream, mean = shown.stream, shown.mean
    return {
        **stream.key._asdict(),
        "kind": stream.kind,
        "phase": stream.phase,
        "mean_7_days": None if mean is None else stream.scale.to_value(mean),
        "reference": None if stream.reference is None else stream.scale.to_value(stream.reference),
        "target": stream.target is not None,
        "evidence": 0.0 if stream.detector is None else stream.detector.evidence,
        "n_units": stream.n_units,
        "sessions_needed": shown.units_needed,
        "n_repeated": stream.n_repeated,
        "covered": stream.is_covered,
        "last_at": stream.last_at,
        "days_to_find": {f"{drop:g}": days if days < float("inf") else None for drop, days in shown.delays.items()},
    }


def _lines(shown: _Shown, store: str, now: float) -> list[str]:
    """Return the table of streams, the notes about them, and the alarms."""
    if not shown.streams:
        return ["no closed sessions so far. A session is closed 30 minutes after its last request."]
    table: list[tuple[str, ...]] = [("stream", "state", "mean 7 d", "reference", "finds points: days")]
    n_rows = Counter(_names(row.stream) for row in shown.streams)
    table += [_row(row, is_one=n_rows[_names(row.stream)] == 1) for row in shown.streams]
    notes = [f"expected false alarms per quarter, over all streams together: at most {shown.per_quarter:g}"]
    if n_quiet := sum(bool(row.quiet) for row in shown.streams):
        notes.append(
            f"not watched now: {count(n_quiet, 'stream')} without scored sessions. ragstone status {quote_store(store)}"
        )
    if shown.n_earlier:
        notes.append(f"{shown.n_earlier} streams of earlier versions and judges are not shown")
    if shown.canaries is not None:
        notes.append(_canaries(shown.canaries))
    late = [row.stream for row in shown.streams if not row.stream.is_covered]
    if late:
        names = ", ".join(stream_name(s.key.app, "", s.key.metric, s.kind) for s in late)
        notes.append(
            f"not covered by this: {sanitize_for_terminal(names)}, because more than 10% of the units are of sessions "
            "seen before"
        )
    lines = [text_table(table, align="llrrl"), "", *notes]
    lines += [f"\n{text}" for text in _alarm_lines([a for a in shown.alarms if not a.is_muted(now)], store)]
    if muted := [a.number for a in shown.alarms if a.is_muted(now)]:
        lines.append(f"\nmuted alarms: {', '.join(map(str, muted))}")
    return lines if shown.alarms else [*lines, "no open alarm"]


def _canaries(status: Mapping[str, Any]) -> str:
    """Describe the last round of canaries and its cost."""
    if "at" not in status:
        return "canaries: first round in progress"
    usage = Usage(**status["usage"])
    at = datetime.fromtimestamp(status["at"]).astimezone()
    return f"canaries: {status['n']} scored at {at:%a %d %b %H:%M} with {usage}"


def _names(stream: Stream) -> tuple[str, str, str]:
    return stream.key.app, stream.key.metric, stream.kind


def _row(shown: _ShownStream, *, is_one: bool) -> tuple[str, ...]:
    """Return the row of a stream, with version and judge unless it is the only one of its metric."""
    stream = shown.stream
    name = stream_name(stream.key.app, "", stream.key.metric, "score") if stream.kind == "score" else "  its failures"
    if not is_one:
        name += f" (version {stream.key.version}, judge {stream.key.judge_hash[:8]})"
    state: str = shown.quiet or stream.phase
    if state == "learning":
        days = min(max((stream.last_at - stream.learns_from) / _DAY_S, 0.0), stream.learn_days)
        state = f"day {days:.0f} of {stream.learn_days}"
        if shown.units_needed:
            state += f", {shown.units_needed:,} more sessions"
        elif stream.learn_days > LEARNING_DAYS:
            state += f", too imprecise on day {stream.learn_days - LEARNING_DAYS}"
    elif stream.target is not None and not shown.quiet:
        state = f"{state}, target"
    return (
        sanitize_for_terminal(name) if stream.kind == "score" else name,
        state,
        _show(stream, shown.mean),
        _show(stream, stream.reference),
        ", ".join(f"{100 * drop:.0f}: {_days(days)}" for drop, days in shown.delays.items()),
    )


def _days(days: float) -> str:
    if days > 90:
        return ">90"
    return f"{days:.0f}" if days >= 9.5 else f"{days:.1f}" if days >= 0.095 else "<.1"


def _show(stream: Stream, unit: float | None) -> str:
    if unit is None:
        return ""
    return f"{unit:.1%}" if stream.kind == "failures" else f"{stream.scale.to_value(unit):.3g}"


def _parse_until(text: str | None) -> float:
    """Return the end of muting in Unix seconds."""
    if text is None:
        raise ConfigurationError("--mute N needs --until: a time (2026-11-24T08:00) or a duration (12h, 3d).")
    units = {"h": "hours", "d": "days"}
    try:
        if text[-1:] in units:
            end = datetime.now().astimezone() + timedelta(**{units[text[-1]]: float(text[:-1])})
        else:
            end = datetime.fromisoformat(text).astimezone()
        at = end.timestamp()
    except (ValueError, OverflowError):
        raise ConfigurationError(
            f"--until must be a time such as 2026-11-24T08:00 or a duration such as 12h or 3d, got {text!r}"
        ) from None
    if at <= time.time():
        raise ConfigurationError(f"--until must be in the future, got {text!r}")
    return at


async def _test_notify(places: Sequence[str]) -> None:
    if not places:
        raise ConfigurationError(
            "--test-notify needs [watch] notify in the file of --config: notify = ['slack:https://...']"
        )
    for place in places:
        sink = alarm_sink_from(place)
        text = f"TEST of `ragstone watch`: alarms of this configuration arrive here\nsent       {datetime.now().astimezone():%a %d %b %H:%M}"
        try:
            await sink.write_alarms([AlarmDelivery(id=f"test:{time.time():.0f}", event="test", alarm={}, text=text)])
        finally:
            await sink.aclose()
        print_text(f"sent to {sink.name}")
