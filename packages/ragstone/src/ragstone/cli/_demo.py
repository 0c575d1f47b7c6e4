"""`ragstone demo`: a LangChain chain whose requests are captured live and scored in the background."""

from __future__ import annotations

import sys
import time
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from ragstone.cli._output import ledger_lines, print_json, print_text, progress_bar, sanitize_for_terminal
from ragstone.demo import load_questions
from ragstone.errors import ConfigurationError, MissingExtraError, StoreError
from ragstone.experiments import format_table, summarize
from ragstone.judges import is_baseline, judge_from
from ragstone.metrics import resolve_metrics
from ragstone.monitor import Monitor
from ragstone.schema import Score, Trace
from ragstone.store import SqliteStore

__all__ = ["run_demo"]

_METRICS = ("ccrs", "udcg")
_DEADLINE_S = 600.0
_WORST = 3
_DISTRACTING = 2


def run_demo(output_dir: Path, *, json_output: bool) -> None:
    """Ask every demo question, score the captured requests, and print means, ledger and worst answers."""
    demos = {e.name: e for e in entry_points(group="ragstone.demos")}
    if "langchain" not in demos:
        raise MissingExtraError(feature="The demo", package="langchain-ragstone", extra="langchain-ragstone")
    store, scores = _reset_directory(output_dir)
    judge = judge_from(None)
    questions = load_questions()
    started = time.monotonic()
    with Monitor(judge=judge, metrics=_METRICS, store=store, sinks=[f"jsonl:{scores}"]) as monitor:
        ask = demos["langchain"].load()(monitor)
        with progress_bar("asking") as progress:
            for done, question in enumerate(questions, start=1):
                ask(question)
                progress(done, len(questions))
        print("scoring ...", file=sys.stderr)
        if not monitor.drain(_DEADLINE_S):
            print(
                f"scoring did not finish within {_DEADLINE_S:.0f} s. The ledger shows pending requests.",
                file=sys.stderr,
            )
        ledger = monitor.ledger()
    with SqliteStore.open(store, mode="read") as opened:
        outcomes = list(opened.outcomes())
        traces = {t.trace_id: t for t in opened.traces()}
    if not outcomes:
        raise StoreError(
            f"the store {str(store)!r} does not contain outcomes. See the log with: ragstone --verbose demo"
        )
    cards = [m.card for m in resolve_metrics(_METRICS)]
    summary = summarize(outcomes, cards)
    all_scores = [o for o in outcomes if isinstance(o, Score)]
    # UDCG is left out of the means: it has another range and rates passages, not answers.
    worst = _worst([o for o in all_scores if o.metric.startswith("ccrs.")], traces)
    distracting = _distracting([o for o in all_scores if o.metric == "udcg"], traces)
    if json_output:
        print_json(
            {
                "metrics": {
                    s.metric: None if s.estimate is None else [s.estimate.value, s.estimate.low, s.estimate.high]
                    for s in summary
                },
                "judge_is_baseline": is_baseline(*(judge for s in summary for judge in s.judges)),
                "ledger": ledger.model_dump(mode="json"),
                "worst": worst,
                "distracting": distracting,
                "store": str(store),
                "jsonl": str(scores),
            }
        )
        return
    lines = [
        f"{len(questions)} questions asked, captured and scored in {time.monotonic() - started:.1f} s, judge "
        + sanitize_for_terminal(judge.identity.name),
        "",
        format_table(summary, titles={card.name: card.title for card in cards}),
        "\nledger",
        *ledger_lines(ledger),
        f"\nthe worst {len(worst)} answers, by the mean of their ccrs scores",
    ]
    for answer in worst:
        lines += [
            f"  {answer['mean']:.2f}  {answer['query']}",
            f"        answer:    {answer['response']}",
            f"        reference: {answer['reference']}",
        ]
    lines.append(f"\nthe {len(distracting)} most distracting passages (relevant-looking, without the answer)")
    for passage in distracting:
        lines += [
            f"  {passage['distracting_effect']:.2f}  {passage['query']}",
            f"        passage: {passage['text']}",
        ]
    print_text("\n".join(lines))
    # Not wrapped, so that the commands can be copied.
    print(f"\nnext\n  ragstone report {store}                      what is wrong, where, and why")
    if worst:
        print(f"  ragstone traces {store} {worst[0]['trace_id']}   one answer with its evidence")
    print(f"  {scores}: all outcomes, one per line")
    if judge.identity.is_baseline:
        print("  RAGSTONE_JUDGE=http://localhost:8000/v1 ragstone demo       the demo with a real judge")
    print("  your own chain: config={'callbacks': [RagstoneCallbackHandler(Monitor(judge=...))]}")


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


def _worst(scores: list[Score], traces: dict[str, Trace]) -> list[dict[str, Any]]:
    values: dict[str, list[float]] = {}
    for score in scores:
        values.setdefault(score.sample_id, []).append(score.value)
    means = sorted((sum(v) / len(v), trace_id) for trace_id, v in values.items())
    return [
        {
            "trace_id": trace_id,
            "mean": mean,
            "query": sanitize_for_terminal(traces[trace_id].query),
            "response": sanitize_for_terminal(traces[trace_id].response),
            "reference": sanitize_for_terminal(" / ".join(traces[trace_id].reference)),
        }
        for mean, trace_id in means[:_WORST]
        if trace_id in traces
    ]


def _distracting(scores: list[Score], traces: dict[str, Trace]) -> list[dict[str, Any]]:
    effects = [
        (passage["distracting_effect"], score.sample_id, passage["position"])
        for score in scores
        for passage in score.details["passages"]
        if passage["distracting_effect"] is not None
    ]
    effects.sort(key=lambda item: (-item[0], *item[1:]))
    return [
        {
            "distracting_effect": effect,
            "trace_id": trace_id,
            "query": sanitize_for_terminal(traces[trace_id].query),
            "text": sanitize_for_terminal((traces[trace_id].prompt_contexts or ())[position - 1].text, width=100),
        }
        for effect, trace_id, position in effects[:_DISTRACTING]
        if trace_id in traces
    ]
