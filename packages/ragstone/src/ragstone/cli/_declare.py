"""The options of a command: the parameters of its function, which the docstring describes.

A keyword-only parameter is an option, and another one is an argument. A section of the docstring has a line for each:

    Options:
        name (WORDS): The help.

Sections with other titles are groups in the help. The words are names of the option (default: `--name`), a smallest
value (`>=1`), an environment variable (`$NAME`), `hidden` (only `--help-all` shows it) or what is written for the
value. Parameters that a docstring omits are in `_SHARED_TEXT`.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from functools import wraps
from typing import Annotated, Any, Final, NamedTuple, get_type_hints

import typer

_NO_GROUP: Final = "Options"
_SHARED_TEXT: Final = r"""
Options:
    by: Label whose values are compared. Repeatable. Default: all with few values.
    dry_run: Print the expected cost, and exit.
    field (FIELD=COLUMN): A column with an unknown name: query=Frage.
    file: Rows with query and contexts, several per query.
    from_url (--from URL): Message broker (redis://HOST/NAME) of the applications.
    label (COLUMN[=METRIC]): Column of labels, or LIST.NAME. Repeatable. Default: detected.
    listen (HOST:PORT): Address of the server. Port 0 takes a free one.
    metrics: Metrics or groups, comma-separated. Default: all.
    no_retriever_tool (NAME hidden): A tool that does not retrieve, such as a calculator. Repeatable.
    replan: Replace the store's plan by these settings, also for pending requests.
    retriever_tool (NAME[=SEPARATOR] hidden): A tool whose text results are passages, split at SEPARATOR (\n, \t).
        Repeatable.
    rows (PATH hidden): The list or the sheet with the rows: results.results.
    store: The store: a file or postgresql://...
    systems: Outcomes or stores (STORE@FROM..TO, STORE@RUN). NAME=FILE names one, - is standard input.
    target: METRIC=MEAN that you want to reach, such as ccrs.ac=0.8. Repeatable.

Output:
    fail_under (METRIC=MEAN): Exit with 1 unless the mean is shown to reach this.
    full: With --json: print everything, not at most 8 kB.
    json_output (--json): Print JSON.
    junit: Write the gate as JUnit XML, for CI.
"""
"""The options that several commands have."""


class _Described(NamedTuple):
    """What a docstring says about a parameter."""

    group: str
    words: str
    help: str


def command_of(function: Callable[..., None]) -> Callable[..., None]:
    """Return a function for Typer, whose annotations have the options of another function."""
    text, described = _read(function.__doc__ or "")
    described = _SHARED | described
    hints = get_type_hints(function)
    parameters = [
        parameter.replace(
            annotation=kind
            if (kind := hints[name]) is typer.Context
            else Annotated[kind, _option(parameter, described[name])]
        )
        for name, parameter in inspect.signature(function).parameters.items()
    ]

    @wraps(function)
    def command(**values: Any) -> None:
        function(**values)

    command.__doc__ = text
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return command


def _read(docstring: str) -> tuple[str, dict[str, _Described]]:
    """Return the text before the sections, and what they say about each parameter."""
    text: list[str] = []
    described: dict[str, _Described] = {}
    group = name = ""
    for line in inspect.cleandoc(docstring).splitlines():
        if heading := re.fullmatch(r"(\w[\w ]*):", line):
            group = heading[1]
        elif not group:
            text.append(line)
        elif entry := re.fullmatch(r" {4}(\w+)(?: \((.*?)\))?: (.*)", line):
            name = entry[1]
            described[name] = _Described(group, entry[2] or "", entry[3])
        elif line:
            described[name] = described[name]._replace(help=f"{described[name].help} {line.strip()}")
    return "\n".join(text).strip(), described


_SHARED: Final = _read(_SHARED_TEXT)[1]


def _option(parameter: inspect.Parameter, described: _Described) -> Any:
    group = None if described.group == _NO_GROUP else described.group
    settings: dict[str, Any] = {"help": described.help, "rich_help_panel": group}
    names: list[str] = []
    for word in described.words.split():
        if word.startswith("-"):
            names.append(word)
        elif word.startswith(">="):
            settings["min"] = int(word[2:])
        elif word.startswith("$"):
            settings["envvar"] = word[1:]
        elif word == "hidden":
            settings["hidden"] = True
        else:
            settings["metavar"] = word
    if parameter.kind is not parameter.KEYWORD_ONLY:
        return typer.Argument(**settings)
    if not any(name.startswith("--") for name in names):
        names.insert(0, f"--{parameter.name.replace('_', '-')}")
    return typer.Option(*names, **settings)
