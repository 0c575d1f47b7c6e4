"""Options that name the endpoints of judge, reader and embedder, and their tables in the file of `--config`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, cast

import typer

from ragstone.cli._panels import EMBEDDER, JUDGE, READER
from ragstone.judges import ROLES, ConnectionOptions, EndpointOptions, OptionNames, Role
from ragstone.settings import TABLES, Endpoint, read_table

Tables = Mapping[str, EndpointOptions]
"""The tables of a configuration file, by role."""

JudgeOption = Annotated[
    str | None,
    typer.Option(
        "--judge",
        rich_help_panel=JUDGE,
        help="http://host:port/v1 (several with the same model: comma-separated), openai:MODEL, vllm:MODEL or lexical. "
        "Default: $RAGSTONE_JUDGE, then that of the store's plan. Without a judge, judged metrics are an error.",
    ),
]
JudgeModelOption = Annotated[
    str | None,
    typer.Option(
        "--judge-model",
        rich_help_panel=JUDGE,
        help="Name of the model at the URL of --judge. Default: the only model that the server serves.",
    ),
]
JudgeKeyOption = Annotated[
    str | None,
    typer.Option(
        "--judge-api-key-env",
        metavar="VARIABLE",
        rich_help_panel=JUDGE,
        help="Environment variable with the judge's API key. Default: OPENAI_API_KEY for openai:MODEL, otherwise no key.",
    ),
]
ReaderOption = Annotated[
    str | None,
    typer.Option(
        "--reader",
        rich_help_panel=READER,
        help="The application's generator, for udcg. Same values as --judge. Default: $RAGSTONE_READER, then the "
        "one of the store's plan, otherwise the judge's model.",
    ),
]
ReaderModelOption = Annotated[
    str | None,
    typer.Option(
        "--reader-model",
        rich_help_panel=READER,
        help="Name of the model at the URL of --reader. Without --reader: another model at the judge's endpoint.",
    ),
]
ReaderKeyOption = Annotated[
    str | None,
    typer.Option(
        "--reader-api-key-env",
        metavar="VARIABLE",
        rich_help_panel=READER,
        help="Environment variable with the reader's API key. Default: as for the judge.",
    ),
]
EmbedderOption = Annotated[
    str | None,
    typer.Option(
        "--embedder",
        rich_help_panel=EMBEDDER,
        help="The embedding model, for cosine: http://host:port/v1, openai:MODEL, local:MODEL or lexical. Default: "
        "$RAGSTONE_EMBEDDER, then that of the store's plan.",
    ),
]
EmbedderModelOption = Annotated[
    str | None,
    typer.Option(
        "--embedder-model",
        rich_help_panel=EMBEDDER,
        help="Name of the model at the URL of --embedder. Default: the only model that the server serves.",
    ),
]
EmbedderKeyOption = Annotated[
    str | None,
    typer.Option(
        "--embedder-api-key-env",
        metavar="VARIABLE",
        rich_help_panel=EMBEDDER,
        help="Environment variable with the embedder's API key. Default: as for the judge.",
    ),
]


def read_tables(values: Mapping[str, Any], source: str) -> Tables:
    """Read the tables `[judge]`, `[reader]` and `[embedder]` of a configuration.

    Raises:
        ConfigurationError: If a table has an unknown key or an invalid value.
    """
    return {
        role: EndpointOptions.from_settings(
            read_table(cast("type[Endpoint]", TABLES[role]), table, source=source), OptionNames(role, "command line")
        )
        for role in ROLES
        if isinstance(table := values.get(role), Mapping)
    }


def complete_table(role: Role, tables: Tables, planned: Mapping[str, Any]) -> EndpointOptions:
    """Return the table of a role with the values of a plan for the keys that the table does not have."""
    table = read_tables({role: planned}, "the plan of the store")[role]
    if role not in tables:
        return table
    connection = ConnectionOptions(**tables[role].connection)
    model = connection.pop("model", None)
    api_key_env = tables[role].api_key_env
    return table.override(url=None, model=model, api_key_env=api_key_env, limits=connection, **tables[role].own)


def merge_endpoint(
    role: Role,
    tables: Tables,
    *,
    url: str | None,
    model: str | None,
    api_key_env: str | None,
    limits: ConnectionOptions | None = None,
    **own: Any,
) -> EndpointOptions:
    """Return the options of a role: those of the command line before those of its table."""
    table = tables.get(role) or EndpointOptions(names=OptionNames(role, "command line"))
    return table.override(url=url, model=model, api_key_env=api_key_env, limits=limits or ConnectionOptions(), **own)
