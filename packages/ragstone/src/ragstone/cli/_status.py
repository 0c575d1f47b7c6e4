"""`ragstone status`: the means and the ledger of a store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from ragstone.brokers import is_broker_url
from ragstone.cli._output import broker_line, ledger_lines, print_json, print_result, print_text
from ragstone.cli._settings import settings_of
from ragstone.errors import StoreCorruptError, StoreError, StoreNotReadyError
from ragstone.experiments import MetricSummary, card_of, format_table, summarize_store
from ragstone.judges import is_baseline
from ragstone.metrics import MetricCard
from ragstone.settings import Analysis, Configuration
from ragstone.store import describe_store, is_database_url, open_store, quote_store, way_out
from ragstone.worker import advise, read_ledger


def status_command(
    store: str, *, from_url: str | None = None, json_output: bool = False, context: typer.Context
) -> None:
    """Count the captured requests by state, and print each mean.

    Options:
        store: The store: a file, postgresql://... or redis://...
    """
    if is_broker_url(store):
        _print_broker(store, as_json=json_output)
        return
    settings = settings_of(context)
    ledger = read_ledger(store)
    if from_url is not None:
        from ragstone.brokers import read_broker_status

        ledger = ledger.model_copy(update={"brokers": dict([read_broker_status(from_url)])})
    cards = {name: card for name in ledger.metrics if (card := card_of(name)) is not None}
    not_ready: StoreNotReadyError | None = None
    try:
        scores, notes = _scores(store, cards, settings.analysis)
    except StoreNotReadyError as error:
        if not ledger.total.captured:
            raise
        scores, notes = (), ()  # what is known is in the spool
        not_ready = None if is_database_url(store) else error
    if json_output:
        print_json(
            ledger.model_dump(mode="json")
            | {
                "balanced": ledger.total.balanced,
                "judge_is_baseline": is_baseline(*(judge for s in scores for judge in s.judges)),
                "scores": [_score_dict(s, cards.get(s.metric)) for s in scores],
                "notes": notes,
            }
        )
    else:
        if any(s.n_scored + s.n_failed + s.n_not_applicable for s in scores):
            print_text(format_table(scores, titles={name: card.title for name, card in cards.items()}))
            print_text("\n".join([*notes, ""]))
        print_text("\n".join([*ledger_lines(ledger), *_work_lines(store, settings), *advise(store, ledger)]))
        if any(s.n_scored for s in scores):
            report = f"where it fails: ragstone report {quote_store(store)}"
            print_text("\n".join([*_labels(store, settings.analysis), report]))
    if not_ready is not None:
        raise not_ready
    unbalanced = [name for name, row in (("traces", ledger.total), *ledger.metrics.items()) if not row.balanced]
    if unbalanced:
        name = describe_store(store)
        raise StoreCorruptError(
            f"the store {name!r} is damaged: its counts of {', '.join(unbalanced)} do not add up. See what is damaged "
            f"with `ragstone store verify {quote_store(store)}`. {way_out(name)}"
        )


def _print_broker(url: str, *, as_json: bool) -> None:
    """Print the state of a message broker, and what applications of this host have not published."""
    from ragstone.brokers import make_relay, read_broker_status

    name, broker = read_broker_status(url)
    n_unsent = make_relay(url).count_unsent()
    lines = [
        broker_line(name, broker),
        f"in the spool of this host, not published: {n_unsent}",
        "scores: ragstone status STORE",
        f"STORE is that of its worker: ragstone worker STORE --judge JUDGE --from {name}",
    ]
    values = {"brokers": {name: broker.model_dump(mode="json")}, "unpublished": n_unsent}
    print_result(values, "\n".join(lines), json_output=as_json)


def _work_lines(store: str, settings: Configuration) -> list[str]:
    """Describe watched streams, open alarms and backfills.

    Most stores have none of them, so the commands that describe them are imported only if there is something to
    describe.
    """
    lines: list[str] = []
    try:
        with open_store(store, mode="read") as opened:
            with opened.watch.read() as tables:
                if tables.streams():
                    from ragstone.cli._watch import watch_lines

                    lines += watch_lines(tables, store, settings.watch)
            if backfills := opened.outcomes.backfills():
                from ragstone.cli._backfill import backfill_lines

                lines += backfill_lines(backfills)
    except StoreError:
        return []  # only a spool exists
    return lines


def _labels(store: str, analysis: Analysis) -> list[str]:
    """Say what labels of people say. The scores are read only if there are labels."""
    with open_store(store, mode="read") as opened:
        if not opened.labels.read():
            return []
    from ragstone.experiments import build_report

    labels = build_report(store, n_worst=0, analysis=analysis).labels
    return [] if labels is None else [statement.text for statement in labels.statements]


def _score_dict(summary: MetricSummary, card: MetricCard | None) -> dict[str, Any]:
    """Return the summary without fields that are not read from the store: failure kinds and reasons."""
    unknown = ("failure_kinds", "missing", "reasons")
    values = {key: value for key, value in summary.to_dict().items() if key not in unknown}
    return {"title": card.title if card else None} | values


def _scores(
    store: str, cards: dict[str, MetricCard], analysis: Analysis
) -> tuple[tuple[MetricSummary, ...], tuple[str, ...]]:
    """Summarize the planned metrics, with notes. Returns empty tuples if no file exists."""
    if not is_database_url(store) and not Path(store).exists():
        return (), ()
    with open_store(store, mode="read") as opened:
        scores, notes = summarize_store(opened, cards, analysis)
        runs = opened.traces.run_times()
    pooled = f"These means are of all {len(runs)} runs together. Each run: ragstone report {quote_store(store)}"
    return scores, (*notes, pooled) if len(runs) > 1 else notes
