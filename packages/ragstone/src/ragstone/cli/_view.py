"""`ragstone view`: the report of a store as a live page."""

from __future__ import annotations

from typing import Annotated

import typer

from ragstone.cli._options import ListenOption, parse_address, parse_time_range
from ragstone.cli._report import ByOption, TargetOption, parse_targets
from ragstone.errors import ConfigurationError
from ragstone.experiments import TimeRange, store_of
from ragstone.live import serve


def view_command(
    store: Annotated[
        str, typer.Argument(help="The store (a file or postgresql://...), or a period of it, such as STORE@-7d..")
    ],
    listen: ListenOption = "127.0.0.1:8484",
    token: Annotated[
        str | None,
        typer.Option(
            "--token",
            envvar="RAGSTONE_VIEW_TOKEN",
            help="Text that a browser must present once, at least 16 characters. auto makes one. Needed for a --listen that other machines can reach.",
        ),
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(
            "--allow-host", metavar="NAME", help="Name of this server, for example behind a proxy. Repeatable."
        ),
    ] = None,
    target: TargetOption = None,
    by: ByOption = None,
) -> None:
    """Serve the report of a store as a page that updates itself.

    SIGTERM or Ctrl-C stops it.
    """
    host, port = parse_address(listen)
    opened = parse_time_range(store)
    period = opened if isinstance(opened, TimeRange) else TimeRange(opened)
    if not isinstance(opened, TimeRange) and store_of(opened) is None:
        raise ConfigurationError(
            f"{store!r} is not a store. `ragstone report FILE -o report.html` writes the page of a file of outcomes."
        )
    serve(
        period,
        host=host,
        port=port,
        token=token,
        hosts=allow_host or (),
        targets=parse_targets(target or []),
        by=by or (),
        on_ready=lambda address: typer.echo(f"live report: {address}  (Ctrl-C stops it)"),
    )
