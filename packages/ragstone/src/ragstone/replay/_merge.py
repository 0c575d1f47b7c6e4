"""`merge_outcomes`: outcomes and requests from files of a batch job into a store, each once."""

from __future__ import annotations

import json
import os
import zlib
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import groupby, islice
from pathlib import Path
from typing import Any, Final, NamedTuple

from pydantic import ValidationError

from ragstone._util.id_table import IdTable
from ragstone.errors import DataError
from ragstone.reading import InputFile, RejectedRecord, Sources, open_inputs, records
from ragstone.schema import Failure, NotApplicable, Score, Trace, check_record, outcome_adapter
from ragstone.store import MergeCounts, MergedRequest, PlannedMetric, Store, StoredAnswer, is_database_url, open_store

_BATCH: Final = 500
"""Rows in memory."""
_SHOWN: Final = 10
_NEEDED: Final = ("outcome_json", "trace_json")


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeReport:
    """What a merge has added."""

    n_rows: int
    """Rows of the files."""
    n_traces: int
    """Requests added to the store."""
    n_outcomes: int
    """Outcomes added to the store."""
    n_known: int
    """Outcomes that the store had, or that occur several times in the files."""
    n_conflicts: int
    """Requests and outcomes that differ from those of the same id in the store. They stay as they are stored."""
    n_erased: int
    """Requests of the files that were erased from the store. They were skipped with their outcomes."""
    n_pending: int
    """Requests of the store that wait to be scored, for example because they lack planned metrics."""


class _Row(NamedTuple):
    place: str
    trace_id: str
    trace: Trace | None
    outcome: Score | NotApplicable | Failure


def merge_outcomes(
    store: str | os.PathLike[str], sources: Sources, *, keep_stored: bool = False, restore_erased: bool = False
) -> MergeReport:
    """Add outcomes with their requests to a store, from files that `ragstone.ray.score` wrote.

    Everything is checked before anything is stored. A repeated or interrupted merge adds each outcome once. Requests that
    `store erase` removed from the store are skipped. Memory is about 100 bytes for each outcome of the files.

    Args:
        store: Path of the store, which is created if it does not exist, or URL of a database. A new store plans the metrics
            of the files.
        sources: Files or directories, JSON lines or Parquet.
        keep_stored: If the store and the files, or two files, have different requests or outcomes with one id, keep the one
            that is stored or comes first. By default, nothing is merged then.
        restore_erased: Also add requests that were erased from the store.

    Raises:
        ConfigurationError: If a source does not exist.
        DataError: If a row is damaged, the request of an outcome is missing, or there is a conflict.
        StoreVersionError: If another version of Ragstone wrote the store or a row.
        StoreError: If the store cannot be used, or another process owns it.
    """
    with open_inputs(sources) as files:
        if is_database_url(os.fspath(store)) or Path(store).exists():
            with open_store(store, mode="own") as opened:
                checked = _check(files, opened, keep_stored=keep_stored, restore_erased=restore_erased)
                return _merge(files, opened, checked)
        checked = _check(files, None, keep_stored=keep_stored, restore_erased=restore_erased)
        with open_store(store, mode="own") as opened:
            return _merge(files, opened, checked)


@dataclass(slots=True)
class _Checked:
    """What the files contain."""

    n_rows: int = 0
    n_conflicts: int = 0
    is_late: bool = False
    """Whether an outcome comes before its request."""
    requests: IdTable = field(default_factory=IdTable)
    erased: set[str] = field(default_factory=set)
    """Ids of requests that were erased from the store."""
    is_restored: bool = False
    """Whether they are added nevertheless."""
    n_left: array[int] = field(default_factory=lambda: array("I"))
    """Rows of each request that are not merged yet. A request is finished with its last one, so that its state is right."""
    metrics: dict[str, tuple[float, PlannedMetric]] = field(default_factory=dict)
    """The newest version and judge of each metric, with the time of its last outcome."""

    def skips(self, trace_id: str) -> bool:
        """Return whether a request is skipped, because it was erased."""
        return trace_id in self.erased and not self.is_restored

    def count(self, trace_id: str) -> None:
        """Count a row of a request."""
        index = self.requests.find(trace_id)
        if index is None:
            index = len(self.requests)
            self.requests.add(trace_id)
            self.n_left.append(0)
        self.n_left[index] += 1

    def merge(self, trace_id: str, n: int) -> bool:
        """Subtract merged rows of a request, and return whether they were its last ones."""
        index = self.requests.find(trace_id)
        if index is None:
            raise DataError("the files changed while they were read. Merge them again.")
        self.n_left[index] -= n
        return self.n_left[index] == 0


def _check(files: Sequence[InputFile], store: Store | None, *, keep_stored: bool, restore_erased: bool) -> _Checked:
    """Read all rows, and find everything that prevents a merge.

    Raises:
        DataError: If something does.
    """
    found = _Checked(is_restored=restore_erased)
    conflicts: list[str] = []
    traces, outcomes = IdTable(), IdTable()
    missing: dict[str, str] = {}
    for batch in _batches(_rows(files)):
        ids = {row.trace_id for row in batch}
        stored = {} if store is None else store.answers(list(ids))
        if store is not None:
            found.erased |= store.find_erased(ids)
        for row in batch:
            found.n_rows += 1
            if found.skips(row.trace_id):
                continue
            found.count(row.trace_id)
            _plan(found, row.outcome)
            answer = stored.get(row.trace_id)
            if row.trace is not None:
                missing.pop(row.trace_id, None)
                problem = _trace_conflict(row.trace, answer, traces)
            else:
                problem = None
                if answer is None and row.trace_id not in traces:
                    found.is_late = True
                    missing.setdefault(row.trace_id, row.place)
            for conflict in (problem, _outcome_conflict(row.outcome, answer, outcomes)):
                if conflict is not None:
                    found.n_conflicts += 1
                    if len(conflicts) < _SHOWN:
                        conflicts.append(f"{row.place}: {conflict}")
    if not found.n_rows:
        raise DataError("the files do not contain an outcome, so there is nothing to merge.")
    if missing:
        trace_id, place = next(iter(missing.items()))
        raise DataError(
            f"{place}: neither the files nor the store have the request {trace_id!r} of this outcome, and {len(missing) - 1} "
            "others are missing too. Merge the file that has their trace_json as well. Nothing was merged."
        )
    if conflicts and not keep_stored:
        shown = "\n  ".join(conflicts)
        raise DataError(
            f"{found.n_conflicts} conflicts, so nothing was merged:\n  {shown}\nMerge into another store, or keep what is stored "
            "with keep_stored=True."
        )
    return found


def _plan(found: _Checked, outcome: Score | NotApplicable | Failure) -> None:
    created_at = outcome.created_at or 0.0
    before = found.metrics.get(outcome.metric)
    if before is None or created_at >= before[0]:
        _, version, judge_hash = outcome.key[1:]
        found.metrics[outcome.metric] = (
            created_at,
            PlannedMetric(name=outcome.metric, version=version, judge_hash=judge_hash),
        )


def _trace_conflict(trace: Trace, answer: StoredAnswer | None, seen: IdTable) -> str | None:
    """Return how a request differs from the one of its id. A request without texts differs from none."""
    if trace.query is None and trace.response is None:
        if trace.trace_id not in seen:
            seen.add(trace.trace_id)
        return None
    digest = zlib.crc32(repr((trace.query, trace.response)).encode("utf-8", "surrogatepass")) or 1
    before = seen.number(trace.trace_id)
    if before is None:
        seen.add(trace.trace_id, digest)
    elif before not in (0, digest):
        return f"the request {trace.trace_id[:80]!r} occurs with another query or response in these files"
    stored = None if answer is None else answer.trace
    if answer is not None and answer.state == "sampled_out":
        return f"the store did not sample the request {trace.trace_id[:80]!r}"
    if stored is not None and (stored.query, stored.response) != (trace.query, trace.response):
        return f"the store has the request {trace.trace_id[:80]!r} with another query or response"
    return None


def _outcome_conflict(
    outcome: Score | NotApplicable | Failure, answer: StoredAnswer | None, seen: IdTable
) -> str | None:
    """Return how an outcome differs from the one of its id: in kind or value."""
    result = _result(outcome)
    digest = zlib.crc32(repr(result).encode())
    before = seen.number(outcome.id)
    if before is None:
        seen.add(outcome.id, digest)
    elif before != digest:
        return f"{_named(outcome)} occurs with another result in these files"
    for stored in () if answer is None else answer.outcomes:
        if stored.id == outcome.id and _result(stored) != result:
            return f"{_named(outcome)} is {_shown(outcome)}, and {_shown(stored)} in the store"
    return None


def _result(outcome: Score | NotApplicable | Failure) -> tuple[str, float | None]:
    return outcome.outcome, outcome.value if isinstance(outcome, Score) else None


def _named(outcome: Score | NotApplicable | Failure) -> str:
    return f"the outcome of {outcome.metric} for {outcome.sample_id[:80]!r}"


def _shown(outcome: Score | NotApplicable | Failure) -> str:
    return f"{outcome.value!r}" if isinstance(outcome, Score) else outcome.outcome.replace("_", " ")


def _merge(files: Sequence[InputFile], store: Store, checked: _Checked) -> MergeReport:
    if not store.planned_metrics():
        store.set_plan([metric for _, metric in checked.metrics.values()], [])
    counts = MergeCounts()
    if checked.is_restored and checked.erased:
        store.forget_erased(checked.erased)
    if checked.is_late:
        for batch in _batches(_kept(files, checked)):
            counts = _add(counts, store.merge([MergedRequest(trace_id=t.trace_id, trace=t, outcomes=(), is_finished=False)
                                               for t in _traces(batch)]))  # fmt: skip
    for batch in _batches(_kept(files, checked)):
        traces = {trace.trace_id: trace for trace in _traces(batch)}
        requests = [
            MergedRequest(
                trace_id=trace_id,
                trace=traces.get(trace_id),
                outcomes=[row.outcome for row in rows],
                is_finished=checked.merge(trace_id, len(rows)),
            )
            for trace_id, rows in ((key, list(group)) for key, group in groupby(batch, key=lambda row: row.trace_id))
        ]
        counts = _add(counts, store.merge(requests))
    return MergeReport(
        n_rows=checked.n_rows,
        n_traces=counts.traces,
        n_outcomes=counts.outcomes,
        n_known=counts.known_outcomes,
        n_conflicts=checked.n_conflicts,
        n_erased=0 if checked.is_restored else len(checked.erased),
        n_pending=store.ledger().total.pending,
    )


def _add(one: MergeCounts, other: MergeCounts) -> MergeCounts:
    return MergeCounts(*map(sum, zip(one, other, strict=True)))


def _traces(batch: Iterable[_Row]) -> list[Trace]:
    """Return the requests of a batch, each once, those with texts first."""
    found: dict[str, Trace] = {}
    for row in batch:
        if row.trace is not None:
            known = found.get(row.trace_id)
            if known is None or known.query is None:
                found[row.trace_id] = row.trace
    return list(found.values())


def _batches(rows: Iterable[_Row]) -> Iterator[list[_Row]]:
    rows = iter(rows)
    while batch := list(islice(rows, _BATCH)):
        yield batch


def _kept(files: Sequence[InputFile], checked: _Checked) -> Iterator[_Row]:
    """Yield the rows of requests that are merged."""
    return (row for row in _rows(files) if not checked.skips(row.trace_id))


def _rows(files: Sequence[InputFile]) -> Iterator[_Row]:
    """Yield the rows of all files.

    Raises:
        DataError: If a row is damaged, or a file contains something else.
    """
    for source in files:
        for part in source.parts():
            name = part.name if part is source else f"{source.name}/{part.name}"
            for record in records(part):
                place = f"{name}, {record.place}"
                if isinstance(record, RejectedRecord):
                    raise DataError(f"{place}: {record.reason}. Nothing was merged.")
                yield _row(record.value, place)


def _row(value: Any, place: str) -> _Row:
    if not isinstance(value, Mapping) or any(name not in value for name in _NEEDED):
        raise DataError(
            f"{place} does not have the columns {' and '.join(_NEEDED)}. Write the file with `ragstone.ray.score`."
        )
    try:
        outcome = outcome_adapter.validate_json(value["outcome_json"])
        trace = None if value["trace_json"] is None else Trace.model_validate_json(value["trace_json"])
    except ValidationError as error:
        with suppress(ValueError, TypeError, RecursionError):
            for record in (value["outcome_json"], value["trace_json"] or "null"):
                check_record(f"the record in {place}", json.loads(record))
        # Neither the values nor pydantic's message, because both may contain text of a user.
        where = ", ".join(".".join(map(str, each["loc"])) or each["type"] for each in error.errors(include_input=False))
        raise DataError(f"{place} is damaged: its record is wrong at {where[:300]}. Nothing was merged.") from None
    except TypeError:
        raise DataError(f"{place} is damaged: its record is not text. Nothing was merged.") from None
    if trace is not None and trace.trace_id != outcome.sample_id:
        raise DataError(
            f"{place} is damaged: the outcome belongs to {outcome.sample_id[:80]!r} and the trace is {trace.trace_id[:80]!r}. "
            "Nothing was merged."
        )
    if value.get("outcome_id") not in (None, outcome.id):
        raise DataError(f"{place} is damaged: outcome_id is not the id of its outcome. Nothing was merged.")
    return _Row(place, outcome.sample_id, trace, outcome)
