"""`Monitor`: capture → spool → store → scoring → sinks in an application."""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final, Literal, Self

from ragstone import judges, metrics, sinks
from ragstone import worker as workers
from ragstone._util.abstains import own_refusals
from ragstone._util.clock import steady_time
from ragstone._util.exit import run_exit_hooks
from ragstone._util.fork import after_fork_in_child
from ragstone.brokers import describe_broker, is_broker_url, make_relay
from ragstone.capture import Application, Capture, CaptureCounters, Guard, redact_secrets
from ragstone.errors import ConfigurationError, StoreError
from ragstone.metrics import own_prompts
from ragstone.monitor._background import RelayThread, ScoringThread
from ragstone.requests import Request, RequestBlocks, TraceDraft
from ragstone.schema import Ledger
from ragstone.settings import (
    DailyBudget,
    Lengths,
    Limits,
    Retention,
    Sampling,
    Watch,
    complete,
    read_table,
    takes_settings,
)
from ragstone.spool import SpoolWriter
from ragstone.store import is_database_url, resolve_store
from ragstone.worker import claim_spool, id_hasher, read_ledger

_KEYS: Final = {
    "metrics": "scoring.metrics",
    "store": "capture.store",
    "sinks": "scoring.sinks",
    "app": "app.name",
    "release": "app.release",
    "environment": "app.environment",
    "tags": "app.tags",
    "sample_rate": "sampling.sample_rate",
    "sampling": "sampling",
    "redact": "redaction.redact",
    "ids": "redaction.ids",
    "lengths": "lengths",
    "durability": "capture.durability",
    "flush_interval_s": "capture.flush_interval_s",
    "queue_size": "capture.queue_size",
    "concurrency": "limits.concurrency",
    "deadline_s": "limits.deadline_s",
    "max_outage_s": "limits.max_outage_s",
    "watch": "watch",
    "retention": "retention",
    "daily_budget": "daily_budget",
    "reasons": "scoring.reasons",
    "scoring": "scoring.mode",
    "cache": "cache.directory",
    "refusals": "answers.refusals",
    "prompts": "prompts.texts",
}
"""Keys and tables of the settings, by argument of `Monitor`. Those of models are read with the models."""
_METRICS: Final = ("ccrs",)
_live: weakref.WeakSet[Monitor] = weakref.WeakSet()


class Monitor(RequestBlocks):
    """Captures requests, stores them durably, scores them in the background, and sends outcomes to sinks.

    Pass it to an integration (`RagstoneCallbackHandler(monitor)`), or call `record` yourself. Before the first request,
    `Monitor` does not create files or threads. Then it starts two daemon threads: one writes captures to this process's
    spool segment, the other owns the store (drains, scores, delivers) unless another process does.

    A `with` (or `async with`) block that ends without an exception in a script's main thread waits up to 60 s until all
    requests are scored, while the judge answers. `close` and interpreter exit take up to 5 s. Requests that are still
    pending stay in the store, and a warning shows the command that scores them.

    Args:
        judge: "http://host:port/v1", "openai:MODEL", "lexical" or a `Judge`. Default: `RAGSTONE_JUDGE`. Without
            a judge, requests that need one stay pending until a worker with a judge scores them, and the log says so
            once.
        reader: The application's generator, for metrics that need it ("udcg"): the forms of `judge`, or a `Reader`.
            Default: `RAGSTONE_READER`, otherwise the judge's model.
        embedder: The embedding model, for metrics that need it ("cosine"): "http://host:port/v1", "openai:MODEL",
            "local:MODEL" or an `Embedder`. Default: `RAGSTONE_EMBEDDER`. Without one, as for the judge.
        metrics: Names, groups or metric objects.
        store: Path of the SQLite store, with its spool in `<store>.spool`. Or the URL of a PostgreSQL database, which
            monitors and workers of several hosts can share. Its spool is in `RAGSTONE_SPOOL`. Or the URL of a message
            broker ("redis://host/app"), which a `ragstone worker --from` reads: then this process
            does not score.
        sinks: Destinations of outcomes in addition to the store ("jsonl:PATH", "otlp", a `Sink`).
        app: Name of the application, the label that separates services in reports and in Prometheus. Default:
            `RAGSTONE_APP`, otherwise OpenTelemetry's `service.name` (of the current span or of `OTEL_SERVICE_NAME`).
        release: Version of the application. Default: `RAGSTONE_APP_RELEASE`, otherwise `service.version`.
        environment: Where it runs, such as "production". Default: `RAGSTONE_APP_ENVIRONMENT`, otherwise
            `deployment.environment.name`.
        tags: Tags that all requests get, in addition to their own. Default: `RAGSTONE_APP_TAGS`, separated by commas.
        sampling: Keys of the table `[sampling]`: `{"rules": [{"status": "error", "rate": 1.0}]}`. The first rule whose
            application (`app`), `tag` and `status` match gives the probability, and otherwise `sample_rate`.
        sample_rate: Probability in [0, 1] that a request is captured. A hash of the trace id decides, so that every
            process and every retry makes the same decision. The probability is stored with the trace.
        redact: Function from text to text, applied to all captured text before it is written. None and False keep text
            unchanged.
        ids: What is stored of the ids of users and sessions: "keep" or "hash". The key of the hashes is in the file
            `<store>.key`, or in the environment variable `RAGSTONE_ID_KEY`, which a database needs.
        lengths: Keys of the table `[lengths]`: maximum lengths of texts and lists, such as `{"max_chars": 10_000}`.
        durability: "batched" acknowledges immediately and writes every `flush_interval_s`: `kill -9` loses at most the
            requests of that time plus one write. "sync" returns from `record` after the capture is on disk.
        flush_interval_s: Seconds between writes of "batched".
        queue_size: Maximum requests in memory for the writer. Further requests are dropped and counted.
        concurrency: Number of traces scored concurrently.
        deadline_s: Seconds until a trace's open metrics fail as "timeout". Default: 120 after the last call.
        max_outage_s: Seconds of an outage of the judge after which an error is logged. Requests stay pending until the
            judge answers, however long that takes.
        watch: Keys of the table `[watch]` of a configuration: how scores are watched, and where alarms are sent.
        daily_budget: Keys of the table `[daily_budget]`: `{"calls": 10_000}` keeps requests pending until the next day
            of UTC when their model calls (`calls`), tokens (`tokens`) or dollars (`usd`) are used up.
        retention: Keys of the table `[retention]` of a configuration: `{"bodies_older_than": "30d"}` removes the texts
            of requests of that age and keeps their scores, and `{"requests_older_than": "400d"}` removes the requests
            with their scores and labels. Default: all are kept.
        reasons: Number of requests for which the judge explains its lowest score: those that are among the worst of 24
            hours when they are scored. At most five times as many judge calls are made in 24 hours. 0 asks for none.
        scoring: Where requests are scored, if no other process owns the store. "thread": in a thread of this process.
            "process": in a process that the first request starts, with a lower priority, and that ends with this one.
            Then judge, reader, embedder and sinks are names or tables, and metrics can be pickled. "none": not by this
            monitor, but by a `ragstone worker`.
        cache: Directory of the cache of model replies. An empty text uses none. Default: `RAGSTONE_CACHE`, otherwise
            none.
        refusals: The application's own phrases of refusal. An answer that begins with one of them declines.
        prompts: Your own prompts in place of built-in ones, as in the table `[prompts]`.
        clock: Returns the current time in Unix seconds, for tests.

    Raises:
        ConfigurationError: If an argument is invalid. The message names it.
    """

    @takes_settings(**_KEYS)
    def __init__(
        self,
        *,
        judge: judges.JudgeSpec = None,
        reader: judges.ReaderSpec = None,
        embedder: judges.EmbedderSpec = None,
        metrics: Sequence[str | metrics.Metric] | str = _METRICS,
        store: str | os.PathLike[str] = "ragstone.db",
        sinks: Sequence[str | sinks.Sink] = (),
        app: str | None = None,
        release: str | None = None,
        environment: str | None = None,
        tags: Sequence[str] | None = None,
        sample_rate: float = 1.0,
        sampling: Mapping[str, Any] | None = None,
        redact: Callable[[str], str] | bool | None = redact_secrets,
        ids: Literal["keep", "hash"] = "keep",
        lengths: Mapping[str, int] | None = None,
        durability: Literal["batched", "sync"] = "batched",
        flush_interval_s: float = 0.1,
        queue_size: int = 10_000,
        concurrency: int = 16,
        deadline_s: float | None = None,
        max_outage_s: float = 3600.0,
        watch: Mapping[str, Any] | None = None,
        retention: Mapping[str, Any] | None = None,
        daily_budget: Mapping[str, float] | None = None,
        reasons: int = 0,
        scoring: Literal["thread", "process", "none"] = "thread",
        cache: str | os.PathLike[str] | None = None,
        refusals: Sequence[str] = (),
        prompts: Mapping[str, str] | None = None,
        clock: Callable[[], float] = steady_time,
    ) -> None:
        cache = None if cache is None else os.fspath(cache)
        judge, reader, embedder = (
            judges.with_cache(role, spec, cache)
            for role, spec in zip(judges.ROLES, (judge, reader, embedder), strict=True)
        )
        relay = make_relay(os.fspath(store)) if is_broker_url(store) else None
        self._store = resolve_store(store) if relay is None else os.fspath(store)
        if relay is None and not is_database_url(store) and not Path(self._store).parent.is_dir():
            raise ConfigurationError(
                f"the directory of store={str(store)!r} does not exist. Create it, or give another path."
            )
        scores = relay is None and scoring != "none"
        with own_refusals(refusals), own_prompts(prompts or {}):
            self._setup = workers.ScoringSetup(
                metrics,
                judge=judge,
                reader=reader,
                embedder=embedder,
                sinks=sinks,
                limits=Limits(concurrency=concurrency, deadline_s=deadline_s),
                reasons=reasons,
                closes_models=True,
                may_lack_models=True,
            )
        self._worker_options = {
            "max_outage_s": max_outage_s,
            "watch": read_table(Watch, watch, source="Monitor(watch=...)"),
            "retention": read_table(Retention, retention, source="Monitor(retention=...)"),
            "daily_budget": read_table(DailyBudget, daily_budget, source="Monitor(daily_budget=...)").stated,
            "clock": clock,
        }
        if scoring == "thread":
            workers.Worker  # noqa: B018 - imported here, because imports on a thread change the exit code of Ctrl-C
        process: workers.WorkerWork | None = None
        if scoring == "process" and self._setup.missing is None:
            spec = workers.ScorerSpec(
                metrics,
                judge=judge,
                reader=reader,
                embedder=embedder,
                concurrency=concurrency,
                deadline_s=deadline_s,
                reasons=reasons,
                refusals=self._setup.refusals,
                prompts=self._setup.prompts,
            )
            process = workers.WorkerWork(self._store, spec, self._setup.plan, tuple(sinks), self._worker_options)
        self._background = (
            ScoringThread(self._store, self._setup, self._worker_options, process=process, is_on=scores)
            if relay is None
            else RelayThread(relay)
        )
        spool = claim_spool(self._store) if relay is None else relay.directory
        self._guard = Guard()
        self._capture = Capture(
            lambda: SpoolWriter(spool),
            sample_rate=sample_rate,
            sampling=read_table(Sampling, sampling, source="Monitor(sampling=...)").rules,
            redact=redact_secrets if redact is True else redact or None,
            lengths=read_table(Lengths, lengths, source="Monitor(lengths=...)"),
            queue_size=queue_size,
            durability=durability,
            flush_interval_s=flush_interval_s,
            clock=clock,
            guard=self._guard,
            hash_id=id_hasher(self._store, ids),
            plan=self._setup.plan | ({} if metrics is not _METRICS or scores else {"scoring.metrics": None}),
            application=Application.from_settings(app=app, release=release, environment=environment, tags=tags or ()),
        )
        self._lock = threading.Lock()
        self._closed = False
        _live.add(self)
        after_fork_in_child(self._after_fork)

    @classmethod
    def from_config(cls, path: str | os.PathLike[str], **arguments: Any) -> Self:
        """Create a monitor from a TOML file, which `ragstone --config` also accepts.

        Args:
            path: The file. Tables that are not settings are those of commands, and are ignored.
            arguments: Arguments of `Monitor` that override the file's.

        Raises:
            ConfigurationError: If the file cannot be read, or has an unknown key or an invalid value.

        Examples:
            ```toml
            judge = "http://localhost:8000/v1"

            [scoring]
            metrics = ["ccrs", "udcg"]
            sinks = ["otlp", "jsonl:scores.jsonl"]

            [sampling]
            sample_rate = 0.1

            [reader]
            url = "http://localhost:11434/v1"
            model = "qwen3:8b"
            ```
        """
        keys = _KEYS | {str(role): str(role) for role in judges.ROLES if not _is_model(arguments.get(role))}
        return cls(**{**arguments, **complete(keys, arguments, call="Monitor", file=path)})

    def _after_fork(self) -> None:
        self._lock = threading.Lock()
        if not self._closed:
            self._background.reset()

    # -- called by the application ---------------------------------------------------------------------------

    def record(self, draft: TraceDraft | Request) -> bool:
        """Record a finished request. Never raises, and with "batched" never waits for the disk.

        Returns:
            False if the request was dropped. The ledger counts it with the reason.
        """
        accepted = self._capture.record(draft)
        if not self._background.has_started:
            self.start()
        return accepted

    def feedback(self, trace_id: str | int, value: float, *, comment: str | None = None) -> bool:
        """Record what a user said about an answer, with "batched" without waiting for the disk.

        It is stored with the request, and watched as a stream of its own. It is not a label, because users decide when
        to give it.

        Args:
            trace_id: Id of the request: of its trace, or the OpenTelemetry trace id. The request may be recorded later.
            value: A number from 0 (bad) to 1 (good). True and False are 1 and 0.
            comment: Text of the user, which is redacted like a request. At most 4,000 characters are stored.

        Returns:
            False if it was lost, for example because the monitor is closed.

        Raises:
            DataError: If a value has another type or is out of range.
        """
        accepted = self._capture.feedback(trace_id, value, comment=comment)
        if not self._background.has_started:
            self.start()
        return accepted

    def start(self) -> None:
        """Start scoring before the first request, to score requests that an earlier process left pending."""
        self._background.start()

    # -- state and waiting -----------------------------------------------------------------------------------

    @property
    def counters(self) -> CaptureCounters:
        """Counts of requests that this process has recorded, written and dropped."""
        return self._capture.counters

    def ledger(self) -> Ledger:
        """Read the ledger: the state of every request in this store, of all processes.

        Raises:
            StoreError: If the store cannot be read or nothing was captured yet, or is a message broker.
        """
        if isinstance(self._background, RelayThread):
            raise StoreError(
                f"{describe_broker(self._store)} does not have a ledger. Read that of the workers' store with: ragstone status STORE"
            )
        return read_ledger(self._store)

    def flush(self, timeout_s: float = 5.0) -> bool:
        """Wait until all recorded requests are on disk, and return False after `timeout_s`."""
        return self._capture.flush(timeout_s)

    def drain(self, timeout_s: float = 60.0) -> bool:
        """Wait until all recorded requests are scored and delivered, and return False after `timeout_s`.

        Deliveries to an unavailable sink stay pending and do not count. A process that does not own the store does not
        know the state of sinks, so there this waits until the ledger does not show pending traces. With a message
        broker it waits until the broker has all requests.
        """
        end = time.monotonic() + timeout_s
        if not self.flush(timeout_s):
            return False
        self.start()
        return self._background.wait(end)

    def close(self, timeout_s: float = 5.0) -> None:
        """Write all captures, stop scoring and release the store. Can be called twice, and is called at exit.

        Unscored requests stay pending in the store. A warning shows their number and the command that scores them.
        """
        end = time.monotonic() + timeout_s
        with self._lock:
            if self._closed:
                return
            self._closed = True
        self._capture.close(max(0.0, end - time.monotonic()))
        self._background.stop(max(0.0, end - time.monotonic()))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None and not _in_event_loop():
                with closing(self._background.finish(self.flush)) as waits:
                    for pause_s in waits:
                        time.sleep(pause_s)
        finally:
            self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                with closing(self._background.finish(self.flush)) as waits:
                    for pause_s in waits:
                        await asyncio.sleep(pause_s)
        finally:
            await asyncio.to_thread(self.close)


def _is_model(spec: object) -> bool:
    """Return whether a model is given as an object, which a file does not describe."""
    return spec is not None and not isinstance(spec, str | Mapping)


def _in_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _close_all() -> None:
    run_exit_hooks()
    for monitor in list(_live):
        monitor.close()


atexit.register(_close_all)
