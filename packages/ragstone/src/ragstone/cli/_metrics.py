"""`ragstone metrics`: what can be measured, what each metric needs and costs, and one worked out."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
from typing import Annotated, Any

import typer

from ragstone.cli._options import JsonOption
from ragstone.cli._output import clean, print_json
from ragstone.errors import MissingExtraError
from ragstone.metrics import MetricCard, WorkedExample, all_metrics, resolve_metrics

__all__ = ["metrics_command"]


def metrics_command(
    name: Annotated[
        str | None, typer.Argument(help="A metric (ccrs.qr, ndcg@5) or a group (ccrs); without it all are listed.")
    ] = None,
    json_output: JsonOption = False,
) -> None:
    """List the metrics with what they need and cost, or explain one with a worked example."""
    cards = [metric.card for metric in all_metrics()] if name is None else _named(name)
    if json_output:
        print_json([_as_dict(card) for card in cards])
    elif name is None or len(cards) > 1:
        typer.echo("\n".join(_table(cards)))
        typer.echo(
            "\nexplain one: ragstone metrics NAME; measure: ragstone evaluate FILE --metrics GROUP,NAME", err=True
        )
    else:
        typer.echo("\n".join(_explained(cards[0])))


def _named(name: str) -> list[MetricCard]:
    try:
        return [metric.card for metric in resolve_metrics([name])]
    except MissingExtraError:
        # What a metric is can be read without the package that runs it.
        wanted = name.strip().casefold()
        cards = [metric.card for metric in all_metrics()]
        if found := [card for card in cards if wanted in (card.name, card.group)]:
            return found
        raise


def _table(cards: list[MetricCard]) -> list[str]:
    """A line for each metric, under the name of its group."""
    head = ("metric", "range", "better", "needs", "calls", "source")
    rows = [(c.name, _range(c), c.direction, ", ".join(c.needs), _cost(c), c.source) for c in cards]
    widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head))]

    def line(row: tuple[str, ...]) -> str:
        return "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()

    lines = [line(head)]
    for group, members in itertools.groupby(zip(cards, rows, strict=True), key=lambda member: member[0].group):
        lines += ["", f"{group} (group)", *(line(row) for _, row in members)]
    return lines


def _range(card: MetricCard) -> str:
    if math.isinf(card.low):
        return "no bounds"
    return f"{card.low:.3g} to {'no bound' if math.isinf(card.high) else f'{card.high:.3g}'}"


def _cost(card: MetricCard) -> str:
    """Calls to models, in words."""
    judge = [
        f"{n} a {per}" for n, per in ((card.judge_calls, "sample"), (card.judge_calls_per_passage, "passage")) if n
    ]
    cost = [f"judge {' + '.join(judge)}"] if judge else []
    if card.reader_calls_per_passage:
        cost.append(f"reader {card.reader_calls_per_passage} a passage")
    if card.extra is not None:
        cost.append(f"needs {card.extra.extra}")
    return ", ".join(cost) or "none"


def _explained(card: MetricCard) -> list[str]:
    lines = [
        f"{card.name}: {card.title}",
        card.description,
        "",
        f"definition  {card.formula or 'see the source'}",
        f"range       {_range(card)}, {card.direction} is better",
        f"advice      {card.advice}",
        f"needs       {', '.join(card.needs)}",
        f"calls       {_cost(card)}",
        f"source      {card.source}",
        f"version     {card.version}",
        f"group       {card.group}",
    ]
    return lines if card.example is None else [*lines, "", *_worked(card.example)]


def _worked(example: WorkedExample) -> list[str]:
    lines = ["example"]
    for field, value in example.row.items():
        parts = value if isinstance(value, list | tuple) and field == "contexts" else [value]
        lines += [f"  {field if n == 0 else '':<14}{_plain(part)}" for n, part in enumerate(parts)]
    for construct, reply in example.replies.items():
        lines.append(f"  the judge, asked for {construct}, replies {_plain(reply)}")
    if example.abstentions:
        lines.append(
            f"  the reader abstains from each passage with p = {', '.join(f'{p:g}' for p in example.abstentions)}"
        )
    value = "up to the model" if example.value is None else f"{example.value:.4g}"
    return [*lines, f"  {clean(example.steps, width=2000)}", f"  value         {value}"]


def _plain(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return clean(text, width=2000)


def _as_dict(card: MetricCard) -> dict[str, Any]:
    held = {field.name: getattr(card, field.name) for field in dataclasses.fields(card)}
    return held | {
        "low": card.low if math.isfinite(card.low) else None,
        "high": card.high if math.isfinite(card.high) else None,
        "example": None if card.example is None else dataclasses.asdict(card.example),
        "extra": None if card.extra is None else card.extra.extra,
    }
