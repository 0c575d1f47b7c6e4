"""`replay_traces`: reads trace files of other tools, scores the traces and delivers the scores. It can be interrupted and resumed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from ragstone._util.abstains import own_refusals
from ragstone._util.id_table import IdTable
from ragstone._util.run_async import run_async, synchronous
from ragstone.capture import IdHasher, Ids, RedactionError, Redactor, hash_trace_ids, redact_secrets, redact_trace
from ragstone.errors import DataError
from ragstone.judges import EmbedderSpec, JudgeSpec, ReaderSpec
from ragstone.metrics import Metric, own_prompts, resolve_metrics
from ragstone.reading import (
    DetectedFormat,
    InputFile,
    RejectedRecord,
    Sources,
    check_repeats,
    find_formats,
    open_inputs,
)
from ragstone.replay._intake import FileReport, ReplayTraceSource, report_of
from ragstone.requests import RetrieverTools, read_retriever_tools
from ragstone.schema import Trace, get_skip_reason, sample_from_trace
from ragstone.scoring import RunEstimate, StrideSampler, estimate_run
from ragstone.settings import RUN_KEYS, Limits, takes_settings
from ragstone.sinks import Sink
from ragstone.worker import Worker, id_hasher, open_setup

_SETTINGS: Final = {**RUN_KEYS, "redact": "redaction.redact", "ids": "redaction.ids"}
"""Keys of arguments that are settings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayReport:
    """The traces that a replay imported. `ragstone status` reports their scores from the store."""

    files: tuple[FileReport, ...]
    skipped: tuple[RejectedRecord, ...] = ()
    """Files of a folder that could not be read, and why."""
    budget_exhausted: bool = False
    """Whether the budget was exhausted. The next run continues with the rest."""
    stopped_early: str | None = None
    """Why the run was stopped with traces pending (the judge is unavailable or fails systematically), or None."""

    @property
    def n_new(self) -> int:
        """Traces added to the store in this run."""
        return sum(file.n_new for file in self.files)

    @property
    def n_rejected(self) -> int:
        """Records that could not be read as traces."""
        return sum(file.n_rejected for file in self.files)

    @property
    def is_empty(self) -> bool:
        """Whether there were records, but none of them was a trace."""
        n_traces = sum(file.n_new + file.n_known + file.n_clashing for file in self.files)
        return self.n_rejected > 0 and n_traces == 0

    @property
    def is_whole(self) -> bool:
        """Whether all files could be read to their ends."""
        return all(file.damaged is None for file in self.files)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayPlan:
    """The traces that a replay would import and score, the missing fields and the estimated cost."""

    files: tuple[FileReport, ...]
    n_traces: int
    n_scorable: int
    """Traces that would be scored. The others ended in an error, or have neither query nor response."""
    estimate: RunEstimate
    """Of a sample of the scorable traces, evenly spread."""
    skipped: tuple[RejectedRecord, ...] = ()
    """Files of a folder that could not be read, and why."""

    @property
    def scale(self) -> float:
        """Factor from the rehearsed sample to all traces."""
        return self.n_scorable / self.estimate.n_samples if self.estimate.n_samples else 0.0


def plan_replay(
    sources: Sources,
    metrics: Sequence[str | Metric] | str = ("ccrs",),
    *,
    format: str = "auto",  # noqa: A002 - the word that users know
    retriever_tools: Iterable[str] | RetrieverTools = (),
    calls_per_reading: int = 1,
    max_rehearsed: int = 1000,
) -> ReplayPlan:
    """Read all files without calling a model, and return what a replay would do.

    Args:
        sources: One or several files or directories.
        metrics: Names, groups or metric objects.
        format: Name of the format, or "auto".
        retriever_tools: As for `areplay_traces`.
        calls_per_reading: Calls for one p(abstain): 1 if the endpoint returns probabilities, otherwise the draws.
        max_rehearsed: Traces that metrics are tried on; the numbers are scaled up from there.

    Raises:
        ConfigurationError: A source, a format or a metric that does not exist.
        DataError: A file whose format is not known, or an address that does not answer.
    """
    chosen = resolve_metrics(metrics)
    tools = read_retriever_tools(retriever_tools)
    with open_inputs(sources) as found:
        files, skipped = _find_formats(found, tools, format)
        counts = [report_of(*file) for file in files]
        spread = StrideSampler(max_rehearsed)
        ids = IdTable()
        for trace, count in _read(files, counts):
            if ids.add(trace.trace_id, 1) is not None:
                count.n_known += 1
            elif get_skip_reason(trace) is None:
                spread.add(sample_from_trace(trace))
        rehearsal = run_async(estimate_run(spread.samples, chosen, calls_per_reading=calls_per_reading))
    return ReplayPlan(
        files=tuple(counts), n_traces=len(ids), n_scorable=spread.n_seen, estimate=rehearsal, skipped=tuple(skipped)
    )


@takes_settings(**_SETTINGS)
async def areplay_traces(
    sources: Sources,
    metrics: Sequence[str | Metric] | str = ("ccrs",),
    *,
    store: str | os.PathLike[str],
    judge: JudgeSpec = None,
    reader: ReaderSpec = None,
    embedder: EmbedderSpec = None,
    sinks: Sequence[str | Sink] = (),
    format: str = "auto",  # noqa: A002
    retriever_tools: Iterable[str] | RetrieverTools = (),
    concurrency: int = 16,
    deadline_s: float | None = None,
    max_outage_s: float = 3600.0,
    stop_early: bool = True,
    reasons: int = 0,
    processes: int = 1,
    refusals: Sequence[str] = (),
    prompts: Mapping[str, str] | None = None,
    redact: Redactor | bool | None = redact_secrets,
    ids: Ids = "keep",
    started: Callable[[ReplayTraceSource, Worker], None] | None = None,
) -> ReplayReport:
    """Import traces of other tools into a store, score them and deliver the outcomes.

    If it is stopped at any time, even killed, the same call resumes: it does not import or score a trace twice. With a
    reply cache (`RAGSTONE_CACHE`), it does not repeat a judge call either.

    Args:
        sources: One or several files or directories.
        metrics: Names, groups or metric objects.
        store: Path of the store, which may be the one that an application captures into, or URL of a database.
        judge: "http://host:port/v1", "openai:MODEL", "lexical" or a `Judge`; None reads `RAGSTONE_JUDGE`.
        reader: The application's generator, for metrics that need it: the forms of `judge`, or a `Reader`.
        embedder: The embedding model, for metrics that need it: "http://host:port/v1", "openai:MODEL", "local:MODEL" or
            an `Embedder`; None reads `RAGSTONE_EMBEDDER`.
        sinks: Where outcomes go besides the store.
        format: Name of the format, or "auto" to detect it from the file.
        retriever_tools: Names of tools that retrieve and return text, or a mapping from such names to the separator
            between the passages in their results. Without it, such a result is not read as contexts.
        concurrency: Traces scored at once.
        deadline_s: Seconds until a trace's open metrics fail as "timeout". Default: 120 after the last call.
        max_outage_s: Seconds for which traces stay pending while the judge is unavailable. Then the run stops, and the
            next one resumes.
        stop_early: Stop if the judge fails systematically: no score, and 20 failures over 10 traces with kind
            "rejected" or "truncated". The traces stay pending for the next run.
        reasons: Number of the worst answers for which the judge explains its lowest score. An answer is explained when
            it is scored, if it is among the worst so far, so that at the end at least the worst answers of the run are.
        refusals: The application's own phrases of refusal. An answer that begins with one of them declines.
        prompts: Your own prompts in place of built-in ones, as in the table `[prompts]`.
        processes: Number of processes that score. With more than 1, judge, reader and embedder are names or tables, and
            metrics can be pickled. The processes share the limits and the budget.
        redact: Function from text to text, applied to every text before it is stored. None stores texts unchanged.
        ids: What is stored of the ids of users and sessions: "keep" or "hash", as in `Monitor`.
        started: Function that is called before work begins, with the source (for progress) and the worker (to stop it).

    Raises:
        ConfigurationError: A source, format, metric, judge or sink that does not exist, a metric that needs a model
            that is not named.
        DataError: A file whose format is not known, or an address that does not answer.
        JudgeError: The judge cannot be reached at all.
        StoreError: The store cannot be used, or another process owns it.
    """
    with own_refusals(refusals), own_prompts(prompts or {}):
        setup = open_setup(
            metrics,
            judge=judge,
            reader=reader,
            embedder=embedder,
            sinks=sinks,
            limits=Limits(concurrency=concurrency, deadline_s=deadline_s, processes=processes),
            reasons=reasons,
        )
    tools = read_retriever_tools(retriever_tools)
    with open_inputs(sources) as found:
        files, skipped = _find_formats(found, tools, format)
        hash_id = id_hasher(store, ids)
        if hash_id is not None:
            hash_id("user", "")  # an unreadable key ends the command before it reads any file
        redactor = redact_secrets if redact is True else redact or None
        intake = ReplayTraceSource(files, clean=lambda records: redacted(records, redactor, hash_id))
        worker = Worker(
            store, setup, intakes=[intake], max_outage_s=max_outage_s, ends_at_cap=True, stop_early=stop_early
        )
        if started is not None:
            started(intake, worker)
        async with setup:
            await worker.run(until_idle=True)
    return ReplayReport(
        files=tuple(intake.counts),
        skipped=tuple(skipped),
        budget_exhausted=worker.budget_exhausted,
        stopped_early=worker.stopped_early,
    )


replay_traces = takes_settings(**_SETTINGS)(synchronous(areplay_traces, name="replay_traces"))
"""Import traces of other tools into a store and score them: the synchronous form of `areplay_traces`, with the same arguments.

Examples:
    ```python
    replay_traces(["spans.jsonl"], ["ccrs"], store="replay.db", judge="http://localhost:8000/v1")
    ```
"""


def _find_formats(
    sources: Iterable[InputFile], tools: RetrieverTools, format_name: str
) -> tuple[list[tuple[InputFile, DetectedFormat]], list[RejectedRecord]]:
    """Return the format of each file and the unreadable files, after a check of what rows repeat."""
    files, skipped = find_formats([replace(source, retriever_tools=tools) for source in sources], format_name)
    for source, found in files:
        if found.format.name == "rows":
            check_repeats(source)
    return files, skipped


def redacted(
    records: Iterable[Trace | RejectedRecord], redact: Redactor | None, hash_id: IdHasher | None
) -> Iterator[Trace | RejectedRecord]:
    """Redact traces as live capture does. A trace that cannot be redacted is rejected.

    Raise StoreError if the key of hashed ids cannot be read.
    """
    for record in records:
        if isinstance(record, RejectedRecord):
            yield record
            continue
        try:
            trace = record if redact is None else redact_trace(record, redact)
        except Exception as error:  # noqa: BLE001 - what cannot be redacted must not be stored, whatever is the matter
            why = error if isinstance(error, RedactionError) else type(error).__name__
            yield RejectedRecord(place=f"trace {record.trace_id[:80]}", reason=f"it cannot be redacted: {why}")
        else:
            yield trace if hash_id is None else hash_trace_ids(trace, hash_id)


def _read(
    files: Sequence[tuple[InputFile, DetectedFormat]], counts: Sequence[FileReport]
) -> Iterator[tuple[Trace, FileReport]]:
    for (source, found), count in zip(files, counts, strict=True):
        try:
            for record in found.format.read(source):
                count.n_read += 1
                if isinstance(record, RejectedRecord):
                    count.reject(record)
                else:
                    yield record, count
        except DataError as error:
            count.damaged = str(error)
