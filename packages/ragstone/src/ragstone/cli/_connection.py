"""The options that say how much may be asked of an endpoint, and spent, for each command that scores."""

from __future__ import annotations

from typing import Annotated

import typer

from ragstone.cli._panels import LIMITS
from ragstone.errors import ConfigurationError
from ragstone.judges import ConnectionOptions, SpendCap

__all__ = [
    "EXIT_BUDGET",
    "AffinityHeaderOption",
    "InFlightOption",
    "MaxCallsOption",
    "MaxTokensOption",
    "MaxUsdOption",
    "OutageOption",
    "PricesOption",
    "RequestsOption",
    "TokensOption",
    "connection_of",
]

EXIT_BUDGET = 4
"""The spend cap was reached before all was scored."""

InFlightOption = Annotated[
    int | None,
    typer.Option(
        "--max-in-flight", min=1, rich_help_panel=LIMITS, help="Requests at one endpoint at once, at most. Default: 16."
    ),
]
RequestsOption = Annotated[
    float | None,
    typer.Option(
        "--requests-per-minute", rich_help_panel=LIMITS, help="Requests sent to one endpoint a minute, at most."
    ),
]
TokensOption = Annotated[
    float | None,
    typer.Option("--tokens-per-minute", rich_help_panel=LIMITS, help="Tokens of input and output a minute, at most."),
]
MaxCallsOption = Annotated[
    int | None, typer.Option("--max-calls", min=1, rich_help_panel=LIMITS, help="Stop asking after so many calls.")
]
MaxTokensOption = Annotated[
    int | None,
    typer.Option(
        "--max-tokens", min=1, rich_help_panel=LIMITS, help="Stop asking after so many tokens of input and output."
    ),
]
MaxUsdOption = Annotated[
    float | None,
    typer.Option(
        "--max-usd", rich_help_panel=LIMITS, help="Stop asking when so much is spent; needs --usd-per-million-tokens."
    ),
]
PricesOption = Annotated[
    str | None,
    typer.Option("--usd-per-million-tokens", rich_help_panel=LIMITS, help="Prices of input and output: 0.15,0.60."),
]
OutageOption = Annotated[
    float | None,
    typer.Option(
        "--outage",
        min=0,
        rich_help_panel=LIMITS,
        help="Seconds of an endpoint that answers nobody, then fail at once. Default: 30.",
    ),
]
AffinityHeaderOption = Annotated[
    str | None,
    typer.Option(
        "--affinity-header",
        rich_help_panel=LIMITS,
        help="A header that is the same for requests that begin alike (x-session-id).",
    ),
]


def connection_of(
    *,
    in_flight: int | None,
    requests_per_minute: float | None,
    tokens_per_minute: float | None,
    max_calls: int | None,
    max_tokens: int | None,
    max_usd: float | None,
    prices: str | None,
    outage_s: float | None,
    affinity_header: str | None,
) -> ConnectionOptions:
    """The connection that the options describe; judge and reader share its spend cap.

    Raises:
        ConfigurationError: A value that cannot work.
    """
    options = ConnectionOptions()
    if in_flight is not None:
        options["concurrency"] = in_flight
    if requests_per_minute is not None:
        options["requests_per_minute"] = requests_per_minute
    if tokens_per_minute is not None:
        options["tokens_per_minute"] = tokens_per_minute
    if outage_s is not None:
        options["outage_s"] = outage_s
    if affinity_header is not None:
        options["affinity_header"] = affinity_header
    if prices is not None:
        options["usd_per_million_tokens"] = _prices(prices)
    if max_calls is not None or max_tokens is not None or max_usd is not None:
        if max_usd is not None and prices is None:
            raise ConfigurationError(
                f"--max-usd {max_usd:g} needs prices; give them too, for example --usd-per-million-tokens 0.15,0.60"
            )
        options["spend_cap"] = SpendCap(max_calls=max_calls, max_tokens=max_tokens, max_usd=max_usd)
    return options


def _prices(text: str) -> tuple[float, float]:
    try:
        price_in, price_out = (float(part) for part in text.split(","))
    except ValueError:
        price_in = price_out = -1.0
    if not (price_in >= 0 and price_out >= 0):
        raise ConfigurationError(f"--usd-per-million-tokens must be IN,OUT (0.15,0.60), got {text!r}")
    return price_in, price_out
