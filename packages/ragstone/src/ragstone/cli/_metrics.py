"""`ragstone metrics`: list the metrics, or explain one with a worked example."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
from collections.abc import Sequence
from typing import Any

import typer

from ragstone._util.table import text_table
from ragstone.cli._output import print_result, sanitize_for_terminal
from ragstone.cli._settings import settings_of
from ragstone.errors import MissingExtraError
from ragstone.metrics import (
    Argument,
    Metric,
    MetricBase,
    MetricCard,
    WorkedExample,
    all_metrics,
    find_family,
    resolve_metrics,
)


def metrics_command(name: str | None = None, *, json_output: bool = False, context: typer.Context) -> None:
    """List all metrics, or explain one with a worked example.

    Options:
        name: A metric (ccrs.qr, ndcg@5) or a group (ccrs). Default: all.
    """
    settings_of(context)
    metrics = all_metrics() if name is None else _named(name)
    is_list = name is None or len(metrics) > 1
    text = _table([metric.card for metric in metrics]) if is_list else "\n".join(_explain(metrics[0]))
    print_result([_as_dict(metric) for metric in metrics], text, json_output=json_output)
    if is_list and not json_output:
        typer.echo(
            "\nexplain one: ragstone metrics NAME\nmeasure:     ragstone evaluate FILE --metrics GROUP,NAME", err=True
        )


def _named(name: str) -> Sequence[Metric]:
    try:
        return resolve_metrics([name])
    except MissingExtraError:
        # A card can be shown without the package that computes the metric.
        key = name.strip().casefold()
        if matches := [metric for metric in all_metrics() if key in (metric.card.name, metric.card.group)]:
            return matches
        raise


def _table(cards: list[MetricCard]) -> str:
    """Format the cards as a table, one row per metric, grouped."""
    rows: list[tuple[str, ...]] = [("metric", "needs", "calls", "range", "source")]
    for group, members in itertools.groupby(cards, key=lambda card: card.group):
        rows.append((f"{group} (group)",))
        rows += ((c.name, ", ".join(c.needs), _cost(c), _range(c), c.source) for c in members)
    return text_table(rows, n_optional=2)


def _range(card: MetricCard) -> str:
    better = "" if card.direction == "higher" else f", {card.direction} is better"
    if math.isinf(card.low):
        return f"no bounds{better}"
    return f"{card.low:.3g} to {'no bound' if math.isinf(card.high) else f'{card.high:.3g}'}{better}"


def _cost(card: MetricCard) -> str:
    """Describe the number of model calls."""
    judge = [
        f"{n} per {unit}" for n, unit in ((card.judge_calls, "sample"), (card.judge_calls_per_passage, "passage")) if n
    ]
    cost = [f"judge {' + '.join(judge)}"] if judge else []
    if card.reader_calls_per_passage:
        cost.append(f"reader {card.reader_calls_per_passage} per passage")
    if card.embedder_calls:
        cost.append(f"embedder {card.embedder_calls} per sample")
    if card.extra is not None:
        cost.append(f"needs {card.extra.extra}")
    return ", ".join(cost) or "none"


def _explain(metric: Metric) -> list[str]:
    card = metric.card
    facts = [
        ("definition", card.formula or "see the source"),
        ("range", _range(card) + (", higher is better" if card.direction == "higher" else "")),
        *([("reachable", card.reachable)] if card.reachable else []),
        *([("good", card.rule.removeprefix("good "))] if card.rule else []),
        ("advice", card.advice),
        ("needs", ", ".join(card.needs)),
        *(("argument", str(argument)) for argument in _arguments(card)),
        ("calls", _cost(card)),
        ("source", card.source),
        ("version", card.version),
        ("group", card.group),
    ]
    lines = [f"{card.title} ({card.name})", card.description, "", text_table(facts, header=False)]
    lines += [] if card.example is None else ["", *_worked(card.example)]
    for prompt in _prompts(metric):
        names = ", ".join(
            f"{{{name}}}" + " (optional)" * (not needed) for name, needed in prompt["placeholders"].items()
        )
        origin = "yours" if prompt["is_replaced"] else f"built-in. Replace it: [prompts] '{prompt['key']}' = '''...'''"
        text = (f"  {sanitize_for_terminal(line, width=2000)}" for line in prompt["text"].splitlines())
        lines += ["", f"prompt {prompt['key']} ({origin}; placeholders: {names})", *text]
    return lines


def _prompts(metric: Metric) -> list[dict[str, Any]]:
    """Return the prompts of a metric that can be replaced, as they are used."""
    if not isinstance(metric, MetricBase):
        return []
    return [
        {
            "key": key,
            "is_replaced": task.name in metric.own_prompts,
            "placeholders": {name: name in task.needs for name in (*task.needs, *task.allows)},
            "text": metric.own_prompts.get(task.name, task.template),
        }
        for key, task in metric.prompt_keys().items()
    ]


def _arguments(card: MetricCard) -> Sequence[Argument]:
    """Return the arguments that a name can state after an @."""
    family = find_family(card.name)
    return () if family is None else family.arguments


def _worked(example: WorkedExample) -> list[str]:
    fields: list[tuple[str, str]] = []
    for field, value in example.row.items():
        parts = value if isinstance(value, list | tuple) and field == "contexts" else [value]
        fields += [(field if n == 0 else "", _plain(part)) for n, part in enumerate(parts)]
    lines = ["example", text_table(fields, header=False, indent=2)]
    for construct, reply in example.replies.items():
        lines.append(f"  judge reply for {construct}: {_plain(reply)}")
    if example.cosines:
        lines.append(f"  cosines of the query's embedding: {', '.join(f'{c:g}' for c in example.cosines)}")
    if example.abstentions:
        lines.append(f"  reader's p(abstain) for each passage: {', '.join(f'{p:g}' for p in example.abstentions)}")
    value = "depends on the model" if example.value is None else f"{example.value:.4g}"
    return [*lines, f"  {sanitize_for_terminal(example.steps, width=2000)}", f"  value         {value}"]


def _plain(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return sanitize_for_terminal(text, width=2000)


def _as_dict(metric: Metric) -> dict[str, Any]:
    card = metric.card
    return {field.name: getattr(card, field.name) for field in dataclasses.fields(card)} | {
        "low": card.low if math.isfinite(card.low) else None,
        "high": card.high if math.isfinite(card.high) else None,
        "example": None if card.example is None else dataclasses.asdict(card.example),
        "arguments": [
            {"name": a.name, "rule": a.rule, "default": None if a.is_required else a.default} for a in _arguments(card)
        ],
        "extra": None if card.extra is None else card.extra.extra,
        "prompts": _prompts(metric),
    }
