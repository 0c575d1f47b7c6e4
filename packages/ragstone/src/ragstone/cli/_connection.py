"""Options that limit requests to an endpoint and their cost, for each command that scores."""

from __future__ import annotations

from typing import Annotated

import typer

from ragstone.cli._panels import LIMITS
from ragstone.errors import ConfigurationError
from ragstone.judges import Budget, ConnectionOptions

InFlightOption = Annotated[
    int | None,
    typer.Option(
        "--max-concurrent-requests",
        min=1,
        rich_help_panel=LIMITS,
        help="Maximum concurrent requests per endpoint. Default: 16.",
    ),
]
RequestsOption = Annotated[
    float | None,
    typer.Option("--requests-per-minute", rich_help_panel=LIMITS, help="Maximum requests per minute and endpoint."),
]
TokensOption = Annotated[
    float | None,
    typer.Option("--tokens-per-minute", rich_help_panel=LIMITS, help="Maximum input and output tokens per minute."),
]
MaxCallsOption = Annotated[
    int | None, typer.Option("--budget-calls", min=1, rich_help_panel=LIMITS, help="Maximum number of model calls.")
]
MaxTokensOption = Annotated[
    int | None,
    typer.Option("--budget-tokens", min=1, rich_help_panel=LIMITS, help="Maximum number of input and output tokens."),
]
MaxUsdOption = Annotated[
    float | None,
    typer.Option(
        "--budget-usd",
        rich_help_panel=LIMITS,
        help="Maximum cost in USD. Requires --usd-per-million-tokens.",
    ),
]
PricesOption = Annotated[
    str | None,
    typer.Option(
        "--usd-per-million-tokens", rich_help_panel=LIMITS, help="Prices of input and output tokens: 0.15,0.60."
    ),
]
AffinityHeaderOption = Annotated[
    str | None,
    typer.Option(
        "--affinity-header",
        rich_help_panel=LIMITS,
        help="Header with the same value for prompts with the same beginning (x-session-id), for prefix caching.",
    ),
]


def build_connection(
    *,
    max_concurrent_requests: int | None,
    requests_per_minute: float | None,
    tokens_per_minute: float | None,
    budget_calls: int | None,
    budget_tokens: int | None,
    budget_usd: float | None,
    prices: str | None,
    affinity_header: str | None,
) -> ConnectionOptions:
    """Build the connection options. Judge and reader share their budget.

    Raises:
        ConfigurationError: If a value is invalid.
    """
    options = ConnectionOptions()
    if max_concurrent_requests is not None:
        options["max_concurrent_requests"] = max_concurrent_requests
    if requests_per_minute is not None:
        options["requests_per_minute"] = requests_per_minute
    if tokens_per_minute is not None:
        options["tokens_per_minute"] = tokens_per_minute
    if affinity_header is not None:
        options["affinity_header"] = affinity_header
    if prices is not None:
        options["usd_per_million_tokens"] = _prices(prices)
    if budget_calls is not None or budget_tokens is not None or budget_usd is not None:
        options["budget"] = Budget(calls=budget_calls, tokens=budget_tokens, usd=budget_usd)
    return options


def _prices(text: str) -> tuple[float, float]:
    try:
        price_in, price_out = (float(part) for part in text.split(","))
    except ValueError:
        price_in = price_out = -1.0
    if not (price_in >= 0 and price_out >= 0):
        raise ConfigurationError(f"--usd-per-million-tokens must be IN,OUT (0.15,0.60), got {text!r}")
    return price_in, price_out
