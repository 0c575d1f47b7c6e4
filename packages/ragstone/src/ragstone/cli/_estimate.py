"""What `--dry-run` prints: what would be scored, what is missing, and what it would cost."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from ragstone.cli._models import ModelOptions
from ragstone.cli._output import print_json, print_text, sanitize_for_terminal
from ragstone.cli._panels import LIMITS
from ragstone.cli._progress import format_duration
from ragstone.scoring import RunEstimate

__all__ = ["CallLatencyOption", "DryRunOption", "print_estimate"]

DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Say what would be scored, what is missing and what it would cost.")
]
CallLatencyOption = Annotated[
    float,
    typer.Option(
        "--call-latency", min=0.0, rich_help_panel=LIMITS, help="For --dry-run: how long one call to a model takes."
    ),
]


def print_estimate(
    estimate: RunEstimate,
    n_samples: int,
    models: ModelOptions,
    *,
    call_latency_s: float,
    json_output: bool,
    heading: str,
    facts: dict[str, Any],
) -> None:
    """Print an estimate, scaled up from the samples that it was made from.

    Args:
        estimate: What the metrics would do with a part of the samples.
        n_samples: How many there are in all.
        models: For prices and concurrency.
        call_latency_s: Seconds that one call takes.
        json_output: Print JSON.
        heading: What stands above the text.
        facts: What stands before the estimate in JSON.
    """
    scale = n_samples / estimate.n_samples if estimate.n_samples else 0.0
    at_once = models.max_concurrent_requests or 16
    prices = models.connection.get("usd_per_million_tokens")
    calls = round(estimate.usage.calls * scale)
    tokens = round(estimate.usage.input_tokens * scale), round(estimate.usage.output_tokens * scale)
    usd = None if prices is None else estimate.usd(prices) * scale
    seconds = estimate.estimate_seconds(max_concurrent_requests=at_once, call_latency_s=call_latency_s) * scale
    metrics: list[dict[str, Any]] = [
        {
            "metric": metric.metric,
            "n_applicable": round(metric.n_applicable * scale),
            "n_not_applicable": round(metric.n_not_applicable * scale),
            "reasons": {reason: round(n * scale) for reason, n in metric.reasons.most_common()},
            "calls": round(metric.usage.calls * scale),
        }
        for metric in estimate.metrics
    ]
    if json_output:
        costs = {"calls": calls, "input_tokens": tokens[0], "output_tokens": tokens[1], "usd": usd, "seconds": seconds}
        print_json(facts | {"n_rehearsed": estimate.n_samples, "metrics": metrics} | costs)
        return
    lines = [heading]
    for found in metrics:
        line = f"  {found['metric']}: {found['n_applicable']} applicable"
        if found["n_not_applicable"]:
            often, n = next(iter(found["reasons"].items()))
            line += f", {found['n_not_applicable']} not, most often ({n}): {sanitize_for_terminal(often)}"
        lines.append(line)
    lines.append(
        f"about {calls} calls, {tokens[0]} + {tokens[1]} tokens"
        + (f", {usd:.2f} USD" if usd is not None else " (name prices with --usd-per-million-tokens)")
        + f", {format_duration(seconds)} at {call_latency_s:g} s a call and {at_once} at once"
    )
    if estimate.n_samples < n_samples:
        lines.append(f"estimated from {estimate.n_samples} of {n_samples}; tokens from characters")
    print_text("\n".join(lines))
