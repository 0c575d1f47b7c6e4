"""`ragstone view`: the report of a store as a live page."""

from __future__ import annotations

import typer

from ragstone.cli._gate import parse_metric_values
from ragstone.cli._options import parse_address, parse_time_range
from ragstone.errors import ConfigurationError
from ragstone.experiments import TimeRange, store_of
from ragstone.live import serve


def view_command(
    store: str,
    *,
    listen: str = "127.0.0.1:8484",
    token: str | None = None,
    allow_host: list[str] | None = None,
    target: list[str] | None = None,
    by: list[str] | None = None,
    mcp: bool = False,
    texts: bool = False,
) -> None:
    """Serve the report of a store as a page that updates itself.

    SIGTERM or Ctrl-C stops it.

    Options:
        store: The store, or a period (STORE@-7d..) or run (STORE@RUN) of it.
        token ($RAGSTONE_VIEW_TOKEN): Text that browsers must present, at least 16 characters. auto makes one.
        mcp: Answer a coding agent on standard input and output (MCP), without texts.
        texts (--texts hidden): With --mcp, include texts.
        allow_host (NAME): Name of this server, for example behind a proxy. Repeatable.
    """
    host, port = parse_address(listen)
    opened = parse_time_range(store)
    period = opened if isinstance(opened, TimeRange) else TimeRange(opened)
    if not isinstance(opened, TimeRange) and store_of(opened) is None:
        raise ConfigurationError(
            f"{store!r} is not a store. `ragstone report FILE -o report.html` writes the page of a file of outcomes."
        )
    if mcp:
        if isinstance(opened, TimeRange):
            raise ConfigurationError("--mcp takes a store without a period, because its tools take one")
        from ragstone.cli._mcp import serve_tools

        serve_tools(store, texts=texts)
        return
    serve(
        period,
        host=host,
        port=port,
        token=token,
        hosts=allow_host or (),
        targets=parse_metric_values("--target", target or []),
        by=by or (),
        on_ready=lambda address: typer.echo(f"live report: {address}  (Ctrl-C stops it)"),
    )
