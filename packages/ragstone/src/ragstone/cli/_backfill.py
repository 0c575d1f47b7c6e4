"""`ragstone store backfill`: score what is already captured with a metric that was added later."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from datetime import UTC, datetime
from typing import Any

import typer

from ragstone._util.clock import parse_time
from ragstone._util.signals import stopped_by_signals
from ragstone.cli._estimate import print_estimate
from ragstone.cli._exit_codes import ExitCode
from ragstone.cli._models import Models, max_outage_of, models_for_store
from ragstone.cli._output import describe_excess, leave, print_result, sanitize_for_terminal
from ragstone.cli._progress import show_progress
from ragstone.cli._store import open_owned
from ragstone.errors import ConfigurationError
from ragstone.metrics import split_metrics
from ragstone.schema import Usage, get_skip_reason, sample_from_trace
from ragstone.scoring import estimate_run
from ragstone.store import BackfillCounts, PlannedMetric, Store, open_store
from ragstone.worker import Backfill, ScoringSetup, StorePlan

_REHEARSED = 50
"""Requests from which the cost is estimated."""
_ALIVE_S = 60.0
"""A backfill that has not recorded its progress for this long was killed."""


def backfill_command(
    store: str,
    *,
    metrics: str | None = None,
    since: str | None = None,
    until: str | None = None,
    sample: float = 1.0,
    dry_run: bool = False,
    json_output: bool = False,
    context: typer.Context,
) -> None:
    """Score stored requests with metrics that were added later.

    The scores are for reports and baselines, not for alarms.

    Options:
        metrics: Metrics or groups, comma-separated.
        since (TIME): Requests from this time on: 2026-11-01, 2026-11-01T12:00 or -7d.
        until (TIME): Requests before this time. Default: now.
        sample: Share of the sessions to score.
    """
    if since is None:
        raise ConfigurationError("set the time to score: --since -28d, or --since 2026-11-01")
    start, end = parse_time(since), time.time() if until is None else parse_time(until)
    if metrics is None:
        raise ConfigurationError("name the metrics to score with: --metrics ndcg@5")
    if not 0 < sample <= 1:
        raise ConfigurationError(f"sample must be above 0 and at most 1, got {sample!r}")
    if not start < end:
        raise ConfigurationError("the start of a backfill must be before its end")
    names = split_metrics(metrics)
    _, models = models_for_store(context, StorePlan.read(store), metrics=names, keeps_plan=True, dry_run=dry_run)
    limits = models.settings.limits
    setup = ScoringSetup(names, **models.specs(), limits=limits, closes_models=True, may_lack_models=dry_run)
    with (
        open_store(store, mode="read") if dry_run else open_owned(store, " Stop the worker while this command runs.")
    ) as opened:
        run = _dry_run if dry_run else _score
        asyncio.run(run(opened, setup, models, (start, end), sample, json_output=json_output))


async def _dry_run(
    store: Store, setup: ScoringSetup, models: Models, period: tuple[float, float], sample: float, *, json_output: bool
) -> None:
    """Print how many requests would be scored, and what this costs."""
    since, until = period
    async with setup:
        # The hash of a judge is final after `prepare`, which may call it.
        last = {tuple(metric[:2]): metric for each in store.outcomes.backfills() for metric in each["metrics"]}
        stored = last | {metric[:2]: metric for metric in store.plan.metrics()}
        metrics = setup.planned_metrics()
        keys = [PlannedMetric(*stored.get(metric[:2], metric)) for metric in metrics]
        is_bound = any(metric.judge_hash and metric[:2] not in stored for metric in metrics)
        counts = store.outcomes.count_backfill(keys, since=since, until=until)
        n = round(counts.unscored * sample)
        before = (math.nextafter(until, 0.0), 2**62)
        page = store.outcomes.unscored(keys, since=since, before=before, limit=_REHEARSED)
        samples = [sample_from_trace(item.trace) for item in page.traces if get_skip_reason(item.trace) is None]
        about = ("at most " if is_bound else "") + ("about " if sample < 1 else "")
        heading = f"{about}{n:,} requests would be scored"
        if any(key != metric for key, metric in zip(keys, metrics, strict=True)):
            heading += ", if the judge is that of the plan or of the last backfill"
        print_estimate(
            await estimate_run(samples, setup.metrics, calls_per_reading=models.calls_per_reading),
            n,
            models,
            json_output=json_output,
            heading="\n".join([heading, *_why_not(counts, counts.unscored - n)]),
            facts={"n_requests": n, "is_upper_bound": is_bound, **counts._asdict()},
        )


async def _score(
    store: Store, setup: ScoringSetup, models: Models, period: tuple[float, float], sample: float, *, json_output: bool
) -> None:
    """Score, print the result, and exit with its code."""
    since, until = period
    async with setup:
        await setup.scorer.prepare()
        counts = store.outcomes.count_backfill(setup.planned_metrics(), since=since, until=until)
        _check_alone(store, {metric.card.name for metric in setup.metrics})
        n = round(counts.unscored * sample)
        interrupted = asyncio.Event()
        with stopped_by_signals(asyncio.get_running_loop(), interrupted.set), show_progress("scoring") as progress:
            backfill = Backfill(
                store,
                setup,
                since=since,
                until=until,
                sample=sample,
                patience_s=max_outage_of(models.settings),
                on_progress=lambda now: progress.update(now["n_done"], n),
                should_stop=interrupted.is_set,
                daily_budget=models.settings.daily_budget.stated,
            )
            done = await backfill.run()
    text = "\n".join([_line(done), *_why_not(counts, done["n_left"] if done["state"] == "done" else 0, are="are")])
    print_result(done | counts._asdict(), text, json_output=json_output)
    if interrupted.is_set():
        raise typer.Exit(ExitCode.INTERRUPTED)
    if done["state"] == "stopped":
        raise typer.Exit(ExitCode.BUDGET if "budget" in str(done["reason"]) else ExitCode.INFRASTRUCTURE)
    reason = describe_excess(backfill.judged, models.settings.limits.max_failed_share)
    if reason is None and done["n_failed"] and not backfill.has_score:
        reason = "all outcomes failed."
    if reason is not None:
        leave(reason)


def backfill_lines(found: Sequence[dict[str, Any]]) -> list[str]:
    """Return one line for each backfill that is running, and otherwise for the last one."""
    running = [each for each in found if each["state"] == "running"]
    return [_line(each) for each in running or found[-1:]]


def _line(progress: dict[str, Any]) -> str:
    """Describe the progress of a backfill."""
    metrics = sanitize_for_terminal(", ".join(name for name, _, _ in progress["metrics"]))
    spent = Usage(**progress["usage"])
    text = f"backfill of {metrics}: {progress['n_done']:,} requests scored, {progress['n_failed']:,} failures, {spent}"
    if progress["state"] == "running":
        if time.time() - progress["updated_at"] > _ALIVE_S:
            at = datetime.fromtimestamp(progress["updated_at"], UTC)
            return f"{text}, interrupted at {at:%Y-%m-%d %H:%M} UTC. The same command resumes it."
        return f"{text}, running"
    if progress["state"] == "stopped":
        left = progress["n_left"]
        return f"{text}. Stopped: {sanitize_for_terminal(progress['reason'])}. {left:,} requests are left: the same command resumes it."
    return text


def _why_not(counts: BackfillCounts, n_outside: int, are: str = "are, by estimate,") -> list[str]:
    """Say why other requests of the time are not scored."""
    reasons = {
        "not possible: retention has removed their text": counts.removed,
        "not possible: not captured, because of sampling": counts.sampled_out,
        "have outcomes of these metrics already (failures are not repeated)": counts.scored,
        "pending: the worker scores them with the metrics of its plan": counts.pending,
        f"{are} of sessions outside of the share": n_outside,
    }
    return [f"  {n:,} {reason}" for reason, n in reasons.items() if n]


def _check_alone(store: Store, metrics: AbstractSet[str]) -> None:
    """Refuse to pay twice for the same requests, if another process scores them now."""
    for each in store.outcomes.backfills():
        names = {name for name, _, _ in each["metrics"]} & metrics
        if each["state"] == "running" and names and time.time() - each["updated_at"] < _ALIVE_S:
            raise ConfigurationError(
                f"another process backfills {', '.join(sorted(names))} in this store now. Wait for its end "
                f"(ragstone status), or, if it was killed, for {_ALIVE_S:.0f} s."
            )
