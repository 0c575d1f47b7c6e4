"""The commands by path: the purpose of each, an example, and the settings that it uses. No command is imported here.

`load_function` imports the function `NAME_command` of the module of a command's name, or of its group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.util import find_spec
from typing import Final, NamedTuple


class Command(NamedTuple):
    """One command."""

    purpose: str
    """The first line of the function's docstring."""
    example: str
    """A command line that works, without `ragstone` and the path."""
    settings: str = ""
    """The tables of settings and the single keys that it uses. `*` and what follows `--set` have no option of their own."""


_MODELS: Final = "judge reader embedder cache budget limits.concurrency limits.deadline_s limits.max_outage_s"
_RUN: Final = f"{_MODELS} answers scoring.metrics scoring.sinks scoring.reasons"
_LONG: Final = "limits.processes limits.stop_early limits.max_failed_share limits.call_latency_s"
_WORKER: Final = "watch retention daily_budget"
_MEANS: Final = "analysis.cluster analysis.confidence_level"
_GATED: Final = f"{_MEANS} analysis.undecided"
_TESTS: Final = f"{_MEANS} analysis.n_permutations analysis.seed"
_LAB: Final = "judge cache budget --set limits.concurrency limits.stop_early limits.max_failed_share"
_UDCG: Final = f"reader answers {_LAB}"

PANELS: Final = {
    "Measure": ("evaluate", "compare", "report", "metrics"),
    "Production": ("worker", "ingest", "view", "watch", "status", "traces"),
    "Reuse": ("replay", "labels"),
    "Trust": ("doctor", "lab"),
    "Keep": ("store", "demo"),
}
"""The commands of `ragstone --help`, those that are used most first."""

GROUPS: Final = {
    "labels": "Draw requests for people to label, and add their labels.",
    "lab": "Validate judges and metrics, build datasets, and fit UDCG.",
    "lab dataset": "Build a dataset from documents, and apply your review.",
    "lab udcg": "Fit UDCG, correlate it with answers, and rank passages.",
    "store": "Maintain a store: verify, back up, export, remove, backfill.",
}
"""The purposes of the groups of commands."""

COMMANDS: Final = {
    "evaluate": Command(
        "Score a file of samples, or the answers of an application.",
        "answers.jsonl --judge http://localhost:8000/v1",
        f"{_RUN} {_LONG} {_GATED} limits.app_concurrency limits.app_timeout_s",
    ),
    "compare": Command(
        "Find significant differences between systems or periods.",
        "old.jsonl new.jsonl",
        f"{_TESTS} analysis.across_metrics analysis.min_effect analysis.allow_different_judges",
    ),
    "report": Command(
        "Print a verdict, the causes of wrong answers, and the worst.",
        "ragstone.db -o report.html",
        f"judge cache budget scoring.reasons limits.max_page_mb {_GATED}",
    ),
    "metrics": Command("List all metrics, or explain one with a worked example.", "ccrs.qr"),
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
    "labels add": Command(
        "Add labels from a file.", "ragstone.db labeled.csv", "research.label_range research.label_values"
    ),
    "doctor": Command(
        "Measure what the endpoints of judge, reader and embedder can do.",
        "--judge http://localhost:8000/v1",
        "judge reader embedder *",
    ),
    "lab judge-card": Command(
        "Measure how far judges can be trusted.",
        "--labels labels.csv --judge openai:gpt-4o",
        f"{_LAB} limits.deadline_s limits.max_outage_s limits.call_latency_s "
        "analysis.confidence_level analysis.n_resamples analysis.seed research.conditions research.max_crossed "
        "research.repeats research.flip_threshold research.label_values research.label_range research.threshold",
    ),
    "lab validate-metrics": Command(
        "Evaluate the metrics themselves.",
        "outcomes.jsonl --labels labels.csv",
        f"{_TESTS} analysis.n_resamples research.label_values research.label_range research.threshold "
        "research.flip_threshold research.target research.pass_at",
    ),
    "lab dataset build": Command(
        "Generate queries, sub-questions and ratings.",
        "handbook/ --judge http://localhost:8000/v1",
        f"{_LAB} research.max_items research.max_passages research.questions research.rating_threshold",
    ),
    "lab dataset apply-review": Command("Write the dataset of your edited review.csv.", "dataset", _LAB),
    "lab dataset negatives": Command(
        "Write queries that your documents do not answer.",
        "handbook/ --judge openai:gpt-4o",
        f"{_LAB} research.queries research.max_passages research.rating_threshold",
    ),
    "lab udcg fit": Command(
        "Fit the weights of UDCG to graded contexts.",
        "graded.jsonl --reader http://localhost:8000/v1",
        f"{_UDCG} analysis.seed research.svm_c",
    ),
    "lab udcg correlate": Command(
        "Correlate UDCG and other ranking metrics with graded answers.",
        "graded.jsonl --reader openai:gpt-4o",
        f"{_UDCG} analysis.seed",
    ),
    "lab udcg rank": Command(
        "Sort the passages of each sample by their utility.", "samples.jsonl --reader openai:gpt-4o", _UDCG
    ),
    "lab udcg experiment": Command(
        "Repeat the experiments of the UDCG paper on your data.",
        "questions.jsonl --reader openai:gpt-4o",
        f"{_UDCG} limits.call_latency_s analysis.seed analysis.n_resamples research.k research.top_n "
        "research.max_questions research.n_contexts research.k_values research.n_distractors research.weak_below research.hard_above "
        "research.threshold research.second_judge research.second_judge_model",
    ),
    "lab topicality": Command(
        "Check if a repository is about a domain.",
        "in-domain.jsonl out-of-domain.jsonl",
        f"{_MEANS} analysis.n_resamples analysis.seed",
    ),
    "store verify": Command("Read all rows of a store, and find damage.", "ragstone.db"),
    "store backup": Command("Copy a store file while its worker runs.", "ragstone.db copy.db"),
    "store restore": Command("Verify a backup, and make it a store.", "backup.db restored.db"),
    "store export": Command("Write the outcomes of a store to one file.", "ragstone.db outcomes.parquet"),
    "store prune": Command("Remove old texts or old requests. All counts stay.", "ragstone.db --bodies-older-than 30d"),
    "store erase": Command("Remove all that is stored about a user or a request.", "ragstone.db --user user-1"),
    "store backfill": Command(
        "Score stored requests with metrics that were added later.",
        "ragstone.db --metrics ndcg@5 --since -30d",
        f"{_MODELS} limits.max_failed_share limits.call_latency_s daily_budget",
    ),
    "store deliveries": Command("List deliveries to sinks by state, or retry them.", "ragstone.db --state failed"),
    "demo": Command(
        "Capture, score and report a small corpus, or print a sample file.",
        "--samples answers > answers.jsonl",
    ),
}
"""All commands."""


def children(path: str) -> list[str]:
    """Return the names of the commands and groups of a group, in the order of its help. The empty path is `ragstone`."""
    if not path:
        return [name for names in PANELS.values() for name in names]
    start = f"{path} "
    names = (known.removeprefix(start).partition(" ")[0] for known in COMMANDS if known.startswith(start))
    return list(dict.fromkeys(names))


def panel_of(path: str) -> str | None:
    """Return the part of the help of `ragstone` that lists a command. A command of a group has none."""
    return next((panel for panel, names in PANELS.items() if path in names), None)


def purpose_of(path: str) -> str:
    """Return the purpose of a command or a group."""
    return GROUPS[path] if path in GROUPS else COMMANDS[path].purpose


def example_of(path: str) -> str:
    """Return the example of a command, or of the first command of a group."""
    first = next(known for known in COMMANDS if f"{known} ".startswith(f"{path} "))
    return f"ragstone {first} {COMMANDS[first].example}"


def load_function(path: str) -> Callable[..., None]:
    """Import the function of a command: from the module of its name, or of its group if there is none."""
    group, _, name = f" {path}".replace("-", "_").rpartition(" ")
    modules = [f"ragstone.cli._{word}" for word in (name, group.rpartition(" ")[2])]
    module = import_module(modules[0] if find_spec(modules[0]) else modules[1])
    function: Callable[..., None] = getattr(module, f"{name}_command")
    return function


def commands_that_use(key: str) -> list[str]:
    """Return the commands that use a dotted key of the settings, except `doctor`, which shows all."""
    used = {path: command.settings.split() for path, command in COMMANDS.items()}
    return [path for path, words in used.items() if {key, key.partition(".")[0]} & {*words} and path != "doctor"]


def nearest(name: str) -> str | None:
    """Return the command, group or option of an example whose name is most similar to a name that does not exist."""
    from difflib import SequenceMatcher

    def candidates() -> Iterator[tuple[str, str]]:
        for path in (*GROUPS, *COMMANDS):
            yield path.rpartition(" ")[2], path
            yield path.replace(" ", "-"), path
        for path, command in COMMANDS.items():
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
