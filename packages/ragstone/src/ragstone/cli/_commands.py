"""The commands by path: the purpose of each, an example, and the settings that it uses. No command is imported here.

`load_function` imports the function `NAME_command` of the module of a command's name, or of its group. Another
distribution adds the commands of a group of `EXTENSIONS` (see `ragstone.cli.extension`).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final, NamedTuple

from ragstone.errors import ConfigurationError


class Command(NamedTuple):
    """One command."""

    purpose: str
    """The first line of the function's docstring."""
    example: str
    """A command line that works, without `ragstone` and the path."""
    settings: str = ""
    """The tables of settings and the single keys that it uses. `*` and what follows `--set` have no option of their
    own."""


_MODELS: Final = "judge reader budget"
_MORE: Final = "--set embedder cache limits.concurrency limits.deadline_s limits.max_outage_s"
_RUN: Final = f"{_MODELS} scoring.metrics scoring.sinks {_MORE} answers prompts scoring.reasons"
_LONG: Final = "limits.processes limits.stop_early limits.max_failed_share limits.call_latency_s"
_WORKER: Final = "watch retention daily_budget"
_MEANS: Final = "analysis.cluster analysis.confidence_level"
_GATED: Final = f"{_MEANS} analysis.undecided"
_TESTS: Final = f"{_MEANS} analysis.n_permutations analysis.seed"

PANELS: Final = {
    "Measure": ("evaluate", "compare", "report", "repair", "metrics"),
    "Production": ("worker", "ingest", "view", "watch", "status", "traces"),
    "Reuse": ("replay", "labels"),
    "Trust": ("doctor", "lab"),
    "Keep": ("store", "demo"),
}
"""The commands of `ragstone --help`, those that are used most first."""

GROUPS: Final = {
    "labels": "Draw requests to label, add labels, and write test cases.",
    "lab": "Validate judges and metrics, build datasets, and fit UDCG.",
    "store": "Maintain a store: verify, back up, export, remove, backfill.",
}
"""The purposes of the groups of commands."""

EXTENSIONS: Final = {"lab": "ragstone-lab"}
"""Groups whose commands are in another distribution."""

COMMANDS: Final = {
    "evaluate": Command(
        "Score a file of samples, or the answers of an application.",
        "answers.jsonl --judge http://localhost:8000/v1",
        f"embedder scoring.reasons {_RUN} {_LONG} {_GATED} limits.app_concurrency limits.app_timeout_s",
    ),
    "compare": Command(
        "Find significant differences between systems or periods.",
        "old.jsonl new.jsonl",
        f"{_TESTS} analysis.across_metrics analysis.min_effect analysis.allow_different_judges",
    ),
    "report": Command(
        "Print a verdict, the causes of wrong answers, and the worst.",
        "ragstone.db -o report.html",
        f"judge scoring.reasons --set cache budget limits.max_page_mb {_GATED} analysis.allow_different_judges",
    ),
    "repair": Command(
        "Find out which change of retrieval corrects wrong answers.",
        "cases.jsonl --app rag.chain:ask",
        "scoring.metrics judge.url budget.usd --set judge reader embedder cache budget answers prompts "
        "limits.concurrency limits.max_outage_s limits.app_concurrency limits.app_timeout_s "
        "limits.stop_early analysis.confidence_level analysis.seed",
    ),
    "metrics": Command("List all metrics, or explain one with a worked example.", "ccrs.qr", "prompts"),
    "worker": Command(
        "Score the captured requests of a store, and deliver scores.",
        "ragstone.db --judge http://localhost:8000/v1",
        f"{_RUN} {_WORKER} limits.processes limits.max_failed_share",
    ),
    "ingest": Command(
        "Receive OTLP from applications, and score their requests.",
        "ragstone.db --judge http://localhost:8000/v1",
        f"{_RUN} {_WORKER} redaction receiver",
    ),
    "view": Command("Serve the report of a store as a page that updates itself.", "ragstone.db"),
    "watch": Command("Show the watched metrics, what each can find, and alarms.", "ragstone.db", "watch"),
    "status": Command("Count the captured requests by state, and print each mean.", "ragstone.db", f"{_MEANS} watch"),
    "traces": Command("List the worst answers, or show one with its evidence.", "ragstone.db --worst 5"),
    "replay": Command(
        "Score traces that other tools have exported.",
        "spans.jsonl --judge http://localhost:8000/v1",
        f"{_RUN} {_LONG} {_GATED} redaction",
    ),
    "labels draw": Command(
        "Draw scored requests at random, to be labeled.", "ragstone.db --limit 100 -o to-label.csv", "analysis.seed"
    ),
    "labels cases": Command(
        "Write scored requests as cases of a test set.", "ragstone.db --limit 50 -o cases.jsonl", "analysis.seed"
    ),
    "labels add": Command(
        "Add labels from a file.", "ragstone.db labeled.csv", "research.label_range research.label_values"
    ),
    "doctor": Command(
        "Measure what the endpoints of judge, reader and embedder can do.",
        "--judge http://localhost:8000/v1",
        "judge reader --set embedder *",
    ),
    "store verify": Command("Read all rows of a store, and find damage.", "ragstone.db"),
    "store backup": Command("Copy a store file while its worker runs.", "ragstone.db copy.db"),
    "store restore": Command("Verify a backup, and make it a store.", "backup.db restored.db"),
    "store export": Command("Write the outcomes of a store to one file.", "ragstone.db outcomes.jsonl"),
    "store prune": Command("Remove old texts or old requests. All counts stay.", "ragstone.db --bodies-older-than 30d"),
    "store erase": Command("Remove all that is stored about a user or a request.", "ragstone.db --user user-1"),
    "store backfill": Command(
        "Score stored requests with metrics that were added later.",
        "ragstone.db --metrics ndcg@5 --since -30d",
        f"{_MODELS} {_MORE} limits.max_failed_share limits.call_latency_s daily_budget",
    ),
    "store deliveries": Command("List deliveries to sinks by state, or retry them.", "ragstone.db --state failed"),
    "demo": Command(
        "Capture, score and report a small corpus, or print a sample file.", "--samples answers > answers.jsonl"
    ),
}
"""The commands of this distribution."""


@cache
def _tables_of(path: str) -> Any:
    """Return the module with the tables for a command or a group. Raise ConfigurationError if it is not installed."""
    group = path.partition(" ")[0]
    if group not in EXTENSIONS:
        return sys.modules[__name__]
    # Imported for these commands only, because it needs as long as the help itself.
    from importlib.metadata import entry_points

    for point in entry_points(group="ragstone.commands", name=group):
        return point.load()
    raise ConfigurationError(
        f"the commands of `ragstone {group}` are not installed. Install them: pip install {EXTENSIONS[group]}"
    )


def all_tables() -> tuple[dict[str, str], dict[str, Command]]:
    """Return the purposes of the groups and the commands of all installed distributions."""
    groups, commands = {**GROUPS}, {**COMMANDS}
    for group in EXTENSIONS:
        with suppress(ConfigurationError):
            groups |= _tables_of(group).GROUPS
            commands |= _tables_of(group).COMMANDS
    return groups, commands


def children(path: str) -> list[str]:
    """Return the names of the commands and groups of a group, in the order of its help. The empty path is `ragstone`."""
    if not path:
        return [name for names in PANELS.values() for name in names]
    start = f"{path} "
    names = (
        known.removeprefix(start).partition(" ")[0] for known in _tables_of(path).COMMANDS if known.startswith(start)
    )
    return list(dict.fromkeys(names))


def is_group(path: str) -> bool:
    """Return whether a path is a group of commands."""
    return path in GROUPS or path in _tables_of(path).GROUPS


def command_at(path: str) -> Command:
    """Return the command at a path."""
    command: Command = _tables_of(path).COMMANDS[path]
    return command


def panel_of(path: str) -> str | None:
    """Return the part of the help of `ragstone` that lists a command. A command of a group has none."""
    return next((panel for panel, names in PANELS.items() if path in names), None)


def purpose_of(path: str) -> str:
    """Return the purpose of a command or a group."""
    purpose: str | None = GROUPS.get(path) or _tables_of(path).GROUPS.get(path)
    return command_at(path).purpose if purpose is None else purpose


def example_of(path: str) -> str:
    """Return the example of a command, or of the first command of a group."""
    first = next(known for known in _tables_of(path).COMMANDS if f"{known} ".startswith(f"{path} "))
    return f"ragstone {first} {command_at(first).example}"


def load_function(path: str) -> Callable[..., None]:
    """Import the function of a command: from the module of its name, or of its group if there is none."""
    package = _tables_of(path).__package__
    group, _, name = f" {path}".replace("-", "_").rpartition(" ")
    modules = [f"{package}._{word}" for word in (name, group.rpartition(" ")[2])]
    module = import_module(modules[0] if find_spec(modules[0]) else modules[1])
    function: Callable[..., None] = getattr(module, f"{name}_command")
    return function


def commands_that_use(key: str) -> list[str]:
    """Return the commands that use a dotted key of the settings, except `doctor`, which shows all."""
    used = {path: command.settings.split() for path, command in all_tables()[1].items()}
    return [path for path, words in used.items() if {key, key.partition(".")[0]} & {*words} and path != "doctor"]


def nearest(name: str) -> str | None:
    """Return the command, group or option of an example whose name is most similar to a name that does not exist."""
    from difflib import SequenceMatcher

    groups, commands = all_tables()

    def candidates() -> Iterator[tuple[str, str]]:
        for path in (*groups, *commands):
            yield path.rpartition(" ")[2], path
            yield path.replace(" ", "-"), path
        for path, command in commands.items():
            options = (word for word in command.example.split() if word.startswith("--"))
            yield from ((option.removeprefix("--"), f"{path} {option}") for option in options)

    def similarity(known: str) -> float:
        share = SequenceMatcher(None, name, known).ratio()
        is_part = len(name) >= _MIN_PART and any(word.startswith(name) for word in known.split("-"))
        return max(share, _SIMILAR) if is_part else share

    share, path = max(((similarity(known), path) for known, path in candidates()), key=lambda pair: pair[0])
    return path if share >= _SIMILAR else None


_MIN_PART: Final = 3
"""Length from which the beginning of a word of a name, such as `eval` and `card`, suggests the name."""
_SIMILAR: Final = 0.7
"""Share of equal characters from which a name is suggested. `merge` and `erase` have 0.6 in common."""
