"""`ragstone demo`: an application whose requests are captured live and scored in the background."""

from __future__ import annotations

import os
import shlex
import time
from pathlib import Path

import typer

from ragstone.cli._output import ledger_lines, print_json, print_lines, print_text, terminal_options
from ragstone.cli._progress import show_progress
from ragstone.demo import (
    APP,
    RELEASES,
    SAMPLE_FILES,
    TARGETS,
    build_application,
    load_questions,
    plant_traffic,
    sample_file,
)
from ragstone.errors import ConfigurationError, DataError, StoreError
from ragstone.experiments import build_report
from ragstone.monitor import Monitor
from ragstone.store import quote_store
from ragstone.views import ReportText

_METRICS = ("ccrs", "udcg")
_DEADLINE_S = 600.0
_HOUR_S = 3600.0
"""Age of the last planted request, whose session has then closed."""


def demo_command(
    *, output_dir: Path = Path("ragstone-demo"), samples: str | None = None, json_output: bool = False
) -> None:
    """Capture, score and report a small corpus, or print a sample file.

    Without API key, GPU or network. The store also has planted traffic of the 14 days before, with a fault and its
    repair, unless RAGSTONE_JUDGE names a judge.

    Options:
        output_dir: Directory for the store and the scores.
        samples (NAME): Only print a sample file: answers, old-answers, questions, labels, spans, langfuse, handbook.
    """
    if samples is not None:
        if samples not in SAMPLE_FILES:
            raise ConfigurationError(f"unknown sample file {samples!r}. Available: {', '.join(SAMPLE_FILES)}.")
        typer.echo(sample_file(samples), nl=False)
        return
    store, scores = _reset_directory(output_dir)
    judge = os.environ.get("RAGSTONE_JUDGE") or "lexical"
    questions = load_questions()
    watch = {}
    if judge == "lexical":  # the calls of a real judge cost time and money
        plant_traffic(store, _METRICS, now=time.time() - _HOUR_S)
        watch = {"targets": TARGETS}
    started = time.monotonic()
    with Monitor(
        judge=judge,
        metrics=_METRICS,
        store=store,
        sinks=[f"jsonl:{scores}"],
        app=APP,
        release=RELEASES[-1][0],
        watch=watch,
    ) as monitor:
        ask = build_application(monitor)
        with show_progress("asking") as progress:
            for done, question in enumerate(questions, start=1):
                ask(question)
                progress.update(done, len(questions))
        typer.echo("scoring ...", err=True)
        if not monitor.drain(_DEADLINE_S):
            typer.echo(
                f"scoring did not finish within {_DEADLINE_S:.0f} s. The ledger shows pending requests.", err=True
            )
        ledger = monitor.ledger()
    try:
        view = build_report(store)
    except DataError:
        raise StoreError(
            f"the store {str(store)!r} does not contain outcomes. See the log with: ragstone --verbose demo"
        ) from None
    page = output_dir / "report.html"
    build_report(store, page, command=f"ragstone report {quote_store(store)} -o {shlex.quote(str(page))}")
    if json_output:
        print_json(
            {
                "report": view.to_dict(),
                "judge_is_baseline": view.provenance.is_baseline,
                "ledger": ledger.model_dump(mode="json"),
                "store": str(store),
                "jsonl": str(scores),
                "page": str(page),
            }
        )
        return
    after = ", after 14 days of planted traffic" if watch else ""
    print_text(f"{len(questions)} questions asked, captured and scored in {time.monotonic() - started:.1f} s{after}\n")
    print_lines(ReportText(view, **terminal_options()).lines())
    print_text("\n".join(["\nledger", *ledger_lines(ledger)]))
    # Not wrapped, so that the commands can be copied.
    print(f"\nnext\n  {page}: all of this as a page, with every answer")
    print(f"  ragstone traces {quote_store(store)} {view.worst[0].id}   one answer with its evidence")
    print(f"  ragstone status {quote_store(store)}   the state of every request")
    print(f"  ragstone view {quote_store(store)}   the live page: trends, releases, an alarm and its repair")
    print(f"  {scores}: the outcomes of the {len(questions)} questions, one per line")
    if judge == "lexical":
        print("  RAGSTONE_JUDGE=http://localhost:8000/v1 ragstone demo       the demo with a real judge")
    print(
        "  your own application: with Monitor(judge=...).request(question), RagstoneCallbackHandler or RagstoneInstrumentor"
    )


def _reset_directory(directory: Path) -> tuple[Path, Path]:
    """Create the directory and remove the files of an earlier demo, so that the demo shows one run."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(
            f"cannot create the directory {str(directory)!r}: {error.strerror}. Give another with --output-dir."
        ) from error
    store, scores = directory / "demo.db", directory / "demo.jsonl"
    for old in (store, scores, *(store.with_name(store.name + end) for end in ("-wal", "-shm", ".lock"))):
        old.unlink(missing_ok=True)
    spool = store.with_name(store.name + ".spool")
    if spool.is_dir():
        for segment in spool.glob("*.seg"):
            segment.unlink()
    return store, scores
