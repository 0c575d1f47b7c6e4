"""`ragstone worker`: own a store, score its captured requests, deliver the outcomes."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from functools import partial

import typer

from ragstone._util.signals import stopped_by_signals
from ragstone.brokers import make_trace_source
from ragstone.cli._exit_codes import ExitCode
from ragstone.cli._health import HealthPage, announce_ready, watchdog
from ragstone.cli._logs import announce
from ragstone.cli._models import models_for_store, setup_options, worker_options
from ragstone.cli._options import parse_address, resolve_new_store
from ragstone.cli._output import describe_excess, leave, print_text
from ragstone.cli._settings import settings_of
from ragstone.errors import ConfigurationError
from ragstone.schema import Outcome, Trace
from ragstone.scoring import JudgedCounts
from ragstone.store import describe_store, open_store
from ragstone.worker import ScoringSetup, StepErrors, StorePlan, Worker, open_setup


def worker_command(
    store: str,
    *,
    from_url: str | None = None,
    plan_id: str | None = None,
    replan: bool = False,
    until_idle: bool = False,
    listen: str | None = None,
    context: typer.Context,
) -> None:
    """Score the captured requests of a store, and deliver scores.

    The worker owns the store until it is stopped. SIGTERM or Ctrl-C stops it cleanly.
    With `--listen`, it serves /healthz, /readyz and /metrics.

    Options:
        store: The store: a file or postgresql://...
        plan_id (--plan ID): Score requests of this plan (see status). Default: the last.
        until_idle: Stop when no trace or delivery is pending.
    """
    resolved = resolve_new_store(store)
    health = None if listen is None else HealthPage(*parse_address(listen))
    source = None if from_url is None else make_trace_source(from_url)
    plan = StorePlan.read(store, plan_id=plan_id, replan=replan)
    if source is not None and plan.plan is None and "scoring.metrics" not in settings_of(context).sources:
        # The requests that wait in the broker may have a plan.
        errors = StepErrors()
        with open_store(resolved, mode="own") as opened:
            n_moved = source.transfer_batch(opened, errors)
        errors.raise_first()
        if not (n_moved or until_idle):
            raise ConfigurationError(
                f"no metrics are named, and no request with a plan waits in {source.name}. Name them with --metrics, "
                "or start the worker when the application has captured a request."
            )
        plan = StorePlan.read(store, plan_id=plan_id, replan=replan)
    names, models = models_for_store(context, plan)
    settings = models.settings
    setup = open_setup(names, **setup_options(models))
    plan.check(setup)
    intakes = () if source is None else [source]
    worker = Worker(resolved, setup, intakes=intakes, **worker_options(settings), replan=replan)
    counts = JudgedCounts()

    def on_outcomes(trace: Trace, outcomes: Sequence[Outcome], _last: bool) -> None:  # noqa: FBT001
        counts.add(outcomes)
        for notice in counts.take_notices():
            announce(notice)
        if health is not None:
            health.count(trace, outcomes)

    if health is not None:
        health.follow(worker)
    worker.on_outcomes = on_outcomes
    asyncio.run(_work(store, worker, setup, health, until_idle=until_idle, patience_s=plan.patience_s))
    if worker.budget_exhausted:
        typer.echo("The budget is exhausted. Metrics that were not computed failed with kind `budget`.", err=True)
        raise typer.Exit(ExitCode.BUDGET)
    if until_idle and worker.over_daily_budget is not None:
        print_text(f"{worker.over_daily_budget}. The other traces stay pending until 00:00 UTC.", err=True)
        raise typer.Exit(ExitCode.BUDGET)
    reason = worker.stopped_early
    if reason is not None:
        reason += ". The other traces stay pending. Fix the cause, and run the same command to resume."
    elif until_idle:
        reason = describe_excess(counts, settings.limits.max_failed_share)
    if reason is not None:
        leave(reason)


async def _work(
    store: str, worker: Worker, setup: ScoringSetup, health: HealthPage | None, *, until_idle: bool, patience_s: float
) -> None:
    """Run the worker until it is stopped or idle."""
    owned = partial(announce_ready, f"owning {describe_store(store)}", setup)
    with stopped_by_signals(asyncio.get_running_loop(), worker.stop):
        async with setup, AsyncExitStack() as closing:
            if health is not None:
                url = await closing.enter_async_context(health.serve(lambda: worker.state))
                announce(f"health and metrics at {url}")
            await closing.enter_async_context(watchdog(lambda: worker.state))
            await worker.run(until_idle=until_idle, on_owned=owned, patience_s=patience_s)
