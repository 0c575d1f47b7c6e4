"""Output of `--dry-run`: applicable metrics, missing fields and expected cost."""

from __future__ import annotations

from typing import Any

from ragstone._util.quantities import count
from ragstone.cli._models import Models
from ragstone.cli._output import print_json, print_text, sanitize_for_terminal
from ragstone.cli._progress import format_duration
from ragstone.schema import Usage
from ragstone.scoring import RunEstimate


def cost_of(usage: Usage, models: Models) -> tuple[dict[str, Any], str]:
    """Return what calls and tokens cost, as values for JSON and in words."""
    prices, n_concurrent = models.prices, models.of_judge.connection.get("max_concurrent_requests") or 16
    call_latency_s, tokens = models.settings.limits.call_latency_s, (usage.input_tokens, usage.output_tokens)
    usd = None if prices is None else (tokens[0] * prices[0] + tokens[1] * prices[1]) / 1e6
    seconds = usage.calls * call_latency_s / n_concurrent
    price = "for USD, set judge.usd_per_million_tokens" if usd is None else f"{usd:.2f} USD"
    text = (
        f"about {count(usage.calls, 'call')}, {tokens[0]} + {tokens[1]} tokens ({price}), "
        f"{format_duration(seconds)} at {call_latency_s:g} s per call and {n_concurrent} concurrent requests"
    )
    counts = {"calls": usage.calls, "input_tokens": tokens[0], "output_tokens": tokens[1]}
    return counts | {"usd": usd, "seconds": seconds}, text


def print_estimate(
    estimate: RunEstimate,
    n_samples: int,
    models: Models,
    *,
    json_output: bool,
    heading: str,
    facts: dict[str, Any],
    reason_calls: int = 0,
) -> None:
    """Print an estimate, extrapolated from a part of the samples to all.

    The text begins with the heading, and the JSON with the facts. The estimate does not include the calls for reasons.
    """
    scale = n_samples / estimate.n_samples if estimate.n_samples else 0.0
    names = ("calls", "input_tokens", "output_tokens")
    costs, cost = cost_of(Usage(**{name: round(getattr(estimate.usage, name) * scale) for name in names}), models)
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
        facts = facts | {"reason_calls": reason_calls}
        print_json(facts | {"n_rehearsed": estimate.n_samples, "metrics": metrics} | costs)
        return
    lines = [heading]
    for metric in metrics:
        line = f"  {metric['metric']}: {metric['n_applicable']} applicable"
        if metric["n_not_applicable"]:
            reason, n = next(iter(metric["reasons"].items()))
            line += f", {metric['n_not_applicable']} not applicable, most often ({n}): {sanitize_for_terminal(reason)}"
        lines.append(line)
    lines.append(cost)
    if reason_calls:
        lines.append(f"and up to {count(reason_calls, 'call')} for reasons")
    if estimate.n_samples < n_samples:
        lines.append(
            f"Estimated from {estimate.n_samples} of {count(n_samples, 'sample')}. Token counts are derived from characters."
        )
    print_text("\n".join(lines))
