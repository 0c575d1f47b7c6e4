"""Verification of all rows of a store: checksums, bodies, references and counters."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from math import inf, isfinite
from typing import Any, Final, NamedTuple, get_args

from ragstone.errors import StoreCorruptError
from ragstone.store._bodies import to_outcome, to_trace
from ragstone.store._checksums import DamagedRowError, check_row, damaged, last_key
from ragstone.store._counters import SAMPLED_OUT_FORGOTTEN, OutcomeTotals, read_states
from ragstone.store._database import Part
from ragstone.store._deliveries import count_sent
from ragstone.store._sql import PAGE, Sql
from ragstone.store._tables import CHECKED_COLUMNS
from ragstone.store._types import DamagedRow, DeliveryState, StoreVerification

_LISTED: Final = 1_000
"""Damaged rows that a verification lists. All are counted."""
_STATES: Final = ("pending", "scored", "not_applicable", "failed", "sampled_out")
_DELIVERY_STATES: Final = get_args(DeliveryState)
_VALUES: Final = ", sum of the checksums of its values"


class _Table(NamedTuple):
    """How the rows of a table are read and verified."""

    name: str
    rows: str
    """Query for the rows in the order of their key, which is the first column, with two parameters: the last key and
    the number of rows."""
    check: Callable[[Sequence[Any]], None]
    key: int | str = -1
    """A key before all others."""


class Verification(Part):
    """Methods of `Upkeep` that verify rows and counters."""

    def verify(self) -> StoreVerification:
        """Read all rows, and compare them with their checksums, with each other and with the counters.

        A worker may run. The rows are read in pages, so memory does not grow with the store.
        """
        checked: Counter[str] = Counter()
        n_damaged: Counter[str] = Counter()
        found: list[DamagedRow] = []
        for table in _TABLES:
            for problem in self._verify_rows(table, checked):
                n_damaged[table.name] += 1
                if len(found) < _LISTED:
                    found.append(DamagedRow(table.name, problem))
        try:
            counters = [f"{name}: {n_stored:,} stored, {n:,} counted" for name, n_stored, n in self.recount()]
        except StoreCorruptError as error:
            counters = [f"the counters cannot be compared: {error}"]
        return StoreVerification(
            checked=dict(checked),
            damaged=dict(n_damaged),
            rows=found,
            counters=counters,
            file=self._database.file_problems(),
        )

    def recount(self) -> list[tuple[str, int, int]]:
        """Return the counters of the ledger that differ from the rows that they count: name, value, number of rows."""
        with self._database.read() as db:
            rows = db.execute(
                "SELECT metric, metric_version, judge_hash, kind, n, checksum FROM outcome_counts"
            ).fetchall()
            stored, counted = _named(rows, read_states(db)), _named(_totals(db).rows(), _count_states(db))
            for queue, n in count_sent(db):
                name = f"sent to {queue.sink!r} after outcome {queue.start}"
                # A damaged row may lack the number, which is counted here anyway.
                sent: object = queue.sent
                stored[name], counted[name] = sent if isinstance(sent, int) else 0, n
        differ = {name for name in stored.keys() | counted.keys() if stored[name] != counted[name]}
        return [
            (name, stored[name], counted[name])
            for name in sorted(differ)
            if name.removesuffix(_VALUES) not in differ - {name}
        ]

    def _verify_rows(self, table: _Table, checked: Counter[str]) -> Iterator[str]:
        """Yield the problem of each damaged row. Reads pages, so that a worker can write in between."""
        last = table.key
        while True:
            try:
                with self._database.read() as db:
                    page = db.execute(table.rows, (last, PAGE)).fetchall()
                    last = last_key(table.name, page, last)
            except StoreCorruptError as error:
                yield f"rows after {last!r} cannot be read: {error.__cause__ or error}"
                return
            for row in page:
                checked[table.name] += 1
                if problem := _problem(table, row):
                    yield problem
            if len(page) < PAGE:
                return


def _totals(db: Sql) -> OutcomeTotals:
    totals = OutcomeTotals()
    for metric, version, judge, kind, value, n in db.execute(
        """
        SELECT metric, metric_version, judge_hash, kind, value, count(*) FROM outcomes
        GROUP BY metric, metric_version, judge_hash, kind, value
        """
    ):
        totals.add((metric, version, judge, kind), None if value is None else [value], [n])
    return totals


def _count_states(db: Sql) -> Counter[str]:
    states = Counter[str](dict(db.execute("SELECT state, count(*) FROM traces GROUP BY state").fetchall()))
    for (n,) in db.execute("SELECT n FROM counters WHERE name = ?", (SAMPLED_OUT_FORGOTTEN,)):
        states["sampled_out"] += int(n)
    return states


def _named(outcomes: list[Any], states: Mapping[str, int]) -> Counter[str]:
    counts = Counter({f"traces {state}": int(n) for state, n in states.items()})
    for metric, version, judge, kind, n, checksum in outcomes:
        name = f"{metric} {kind} (version {version!r}, judge {judge!r})"
        counts[name] = int(n)
        counts[f"{name}{_VALUES}"] = int(checksum)
    return counts


def _problem(table: _Table, row: Sequence[Any]) -> str | None:
    try:
        table.check(row)
    except DamagedRowError as error:
        return str(error)
    except (TypeError, ValueError, LookupError) as error:
        return f"the row {row[0]!r} has a value of an unexpected type or form ({type(error).__name__})"
    return None


def _check_trace(row: Sequence[Any]) -> None:
    _, state, removed_at, body, checksum, *columns = row
    check_row("traces", checksum, columns)
    trace_id = columns[0]
    if state not in _STATES:
        raise damaged("traces", trace_id, "its state is unknown")
    if body is not None:
        to_trace(body, trace_id)
    elif state != "sampled_out" and removed_at is None:
        raise damaged("trace_bodies", trace_id, "it is missing")


def _check_outcome(row: Sequence[Any]) -> None:
    _, outcome_id, value, body, kind, trace_seq, *key = row
    if body is None:
        raise damaged("outcome_bodies", outcome_id, "it is missing")
    outcome = to_outcome(body, outcome_id, value)
    if (outcome.outcome, *outcome.key) != (kind, *key):
        raise damaged("outcomes", outcome_id, "its columns differ from its body")
    if trace_seq is None:
        raise damaged("outcomes", outcome_id, "its request is missing")


def _check_delivery(row: Sequence[Any]) -> None:
    _, item_id, there, state, attempts, since, next_try = row
    if there is None:
        raise damaged("outbox", item_id, "the row that it belongs to is missing")
    if state not in _DELIVERY_STATES:
        raise damaged("outbox", item_id, "its state is unknown")
    if not (attempts >= 0 and isfinite(since) and isfinite(next_try)):
        raise damaged("outbox", item_id, "its attempts or times are impossible")


def _check_unit(row: Sequence[Any]) -> None:
    seq, stream, closed_at, value, weight, failed_weight, p_min, labels = row
    if stream is None:
        raise damaged("watch_units", seq, "its stream is missing")
    weights = weight >= 0 and failed_weight >= 0 and isfinite(weight) and 0 < weight + failed_weight < inf
    if not (weights and 0 < p_min <= 1 and isfinite(closed_at) and isfinite(value or 0)):
        raise damaged("watch_units", seq, "its value, weights or time are impossible")
    if labels is not None and not isinstance(json.loads(labels), dict):
        raise damaged("watch_units", seq, "its labels cannot be read")


def _check_json(table: str, states: Sequence[str], row: Sequence[Any]) -> None:
    number, state, body = row
    if state not in states:
        raise damaged(table, number, "its state is unknown")
    if body is not None and not isinstance(json.loads(body), dict):
        raise damaged(table, number, "its body cannot be read")


def _check_columns(table: str, row: Sequence[Any]) -> None:
    _, checksum, *columns = row
    check_row(table, checksum, columns)


def _check_reference(table: str, row: Sequence[Any]) -> None:
    _, name, there = row
    if there is None:
        raise damaged(table, name, "the row that it belongs to is missing")


def _columns(table: str, alias: str) -> str:
    return ", ".join(f"{alias}.{column}" for column in ("checksum", *CHECKED_COLUMNS[table]))


_TABLES: Final = (
    _Table(
        "traces",
        f"""
        SELECT t.seq, t.state, t.text_removed_at, b.body, {_columns("traces", "t")}
        FROM traces AS t LEFT JOIN trace_bodies AS b ON b.seq = t.seq WHERE t.seq > ? ORDER BY t.seq LIMIT ?
        """,  # noqa: S608 - constant columns
        _check_trace,
    ),
    _Table(
        "outcomes",
        """
        SELECT o.seq, o.outcome_id, o.value, b.body, o.kind, t.seq, o.sample_id, o.metric, o.metric_version, o.judge_hash
        FROM outcomes AS o LEFT JOIN outcome_bodies AS b ON b.seq = o.seq LEFT JOIN traces AS t ON t.trace_id = o.sample_id
        WHERE o.seq > ? ORDER BY o.seq LIMIT ?
        """,
        _check_outcome,
    ),
    *(
        _Table(
            f"{table}_bodies",
            f"""
            SELECT b.seq, b.seq, t.seq FROM {table}_bodies AS b LEFT JOIN {table}s AS t ON t.seq = b.seq
            WHERE b.seq > ? ORDER BY b.seq LIMIT ?
            """,  # noqa: S608 - one of two tables
            partial(_check_reference, f"{table}_bodies"),
        )
        for table in ("trace", "outcome")
    ),
    *(
        _Table(
            table,
            f"SELECT x.{key}, {_columns(table, 'x')} FROM {table} AS x WHERE x.{key} > ? ORDER BY x.{key} LIMIT ?",  # noqa: S608
            partial(_check_columns, table),
            -1 if key == "seq" else "",
        )
        for table, key in (("labels", "seq"), ("label_frame", "trace_id"), ("trials", "trial_id"), ("feedback", "seq"))
    ),
    _Table(
        "outbox",
        """
        SELECT x.seq, x.item_id, CASE WHEN x.kind = 'alarm' THEN x.seq ELSE o.seq END, x.state, x.attempts, x.since, x.next_try
        FROM outbox AS x LEFT JOIN outcomes AS o ON o.outcome_id = x.item_id WHERE x.seq > ? ORDER BY x.seq LIMIT ?
        """,
        _check_delivery,
    ),
    _Table(
        "watch_units",
        """
        SELECT u.seq, s.id, u.closed_at, u.value, u.weight, u.failed_weight, u.p_min, u.labels
        FROM watch_units AS u LEFT JOIN streams AS s ON s.id = u.stream WHERE u.seq > ? ORDER BY u.seq LIMIT ?
        """,
        _check_unit,
    ),
    _Table(
        "streams",
        "SELECT id, kind, state FROM streams WHERE id > ? ORDER BY id LIMIT ?",
        partial(_check_json, "streams", ("score", "failures")),
    ),
    _Table(
        "alarms",
        "SELECT number, state, body FROM alarms WHERE number > ? ORDER BY number LIMIT ?",
        partial(_check_json, "alarms", ("open", "recovered", "accepted")),
    ),
)
