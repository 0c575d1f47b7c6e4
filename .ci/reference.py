"""Compare the generated parts of the reference pages with the code: commands, options, settings, metrics, layouts.

Run it with the Python of an environment that has all distributions: `.nox/tests/bin/python .ci/reference.py` names the
pages that are stale, and `--write` writes them. A generated part stands between `<!-- begin: NAME -->` and `<!-- end -->`,
and that of a command between its title and `<!-- end -->`. All other texts are written by hand, and stay where they are.
"""

from __future__ import annotations

import itertools
import json
import math
import re
import sys
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

ROOT = Path(__file__).parent.parent
FILES = ROOT / "tests/reading/files/expected.toml"
BLIND = ROOT / "tests/reading/layouts"
"""Files of somebody who had not read the reader, with what they say and what Ragstone does with them."""
ITEMS = ROOT / "tests/docs/items.toml"
"""What the sources of the metrics describe."""
REFERENCE = ROOT / "docs/reference"
WRITE = ".nox/tests/bin/python .ci/reference.py --write"
COMMON = 2
"""If at least this many commands have the same option, one table lists it for all of them."""

STORE = "The store: a file or postgresql://..."
"""The help of an argument that the page explains once."""

GUIDES = {
    "--app": "../how-to/evaluate-an-application.md",
    "--budget-usd": "../how-to/capacity.md#set-a-budget",
    "--by": "../how-to/see-results.md",
    "--cache": "../how-to/cache.md",
    "--embedder": "../how-to/judge-endpoints.md#name-an-embedder",
    "--fail-under": "../how-to/gate.md",
    "--fit-weights": "metrics.md#a-composite",
    "--format": "../how-to/replay.md#what-is-read",
    "--from": "../how-to/production.md#requests-from-other-hosts-redis",
    "--judge": "../how-to/judge-endpoints.md",
    "--metrics": "metrics.md",
    "--qrels": "../how-to/ranking.md",
    "--reasons": "../how-to/reasons.md",
    "--set": "settings.md",
    "--sink": "../how-to/sinks.md",
}
"""The page that explains an option."""

GUIDES_OF_TABLES = {
    "prompts": "../how-to/judge-endpoints.md#replace-a-built-in-prompt",
    "judge": "../how-to/judge-endpoints.md",
    "reader": "../how-to/udcg.md",
    "embedder": "../how-to/judge-endpoints.md#name-an-embedder",
    "answers": "../how-to/see-results.md#if-your-application-refuses-in-its-own-words",
    "cache": "../how-to/cache.md",
    "limits": "../how-to/capacity.md",
    "budget": "../how-to/capacity.md#set-a-budget",
    "daily_budget": "../how-to/capacity.md#a-daily-budget",
    "scoring": "../how-to/sinks.md",
    "watch": "../how-to/watch.md",
    "retention": "../how-to/retention.md",
    "sampling": "../how-to/traffic.md#score-a-part-of-the-requests",
    "redaction": "../how-to/redaction.md",
    "app": "../how-to/traffic.md",
    "capture": "../explanation/captured-requests.md",
    "lengths": "../how-to/redaction.md#capture-less",
    "analysis": "../explanation/intervals.md#dependent-and-sampled-data",
    "receiver": "../how-to/ingest.md",
    "research": "../how-to/validate-metrics.md",
}
"""The page that explains a table of settings."""

CODE = re.compile(
    r"(?<![\w`/-])("
    r"--[a-z][a-z-]*|\$?[A-Z]+(?:_[A-Z]+)+|\$[A-Z]+|[a-z]+(?:_[a-z]+)+|\\?\[{1,2}[^\[\]]+\]{1,2}(?!\()|\{[^{}]+\}|\\[nt]|\w+://[^\s,;)]*"
    r"|[A-Z]+(?:(?:=|@|:|\.\.)[A-Z]+)+|[a-z]+:(?:MODEL|PATH)|\*?[\w.]*\.(?:jsonl|json|csv|xml|md|toml|html|parquet)"
    r")(?![\w`])"
)
"""Options, variables, keys, placeholders, files and URLs in a text of the code, which a page shows as code."""


def prose(text: str) -> str:
    """Return a text of the code as one line of Markdown."""
    parts = re.split(r"(`[^`]+`)", " ".join(text.split()))
    for number in range(0, len(parts), 2):
        pieces = CODE.split(parts[number])
        pieces[::2] = [re.sub(r"([*<|\[\]\\~])", r"\\\1", piece) for piece in pieces[::2]]
        pieces[1::2] = [f"`{piece.replace(chr(92) + '[', '[')}`" for piece in pieces[1::2]]
        parts[number] = "".join(pieces)
    return "".join(parts)


def table(header: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """Return a table in Markdown."""
    lines = [f"| {' | '.join(row)} |" for row in (header, *rows)]
    return "\n".join([lines[0], "|---" * len(header) + "|", *lines[1:]])


def block(name: str, text: str) -> str:
    """Return a generated part of a page."""
    return f"<!-- begin: {name} -->\n{text}\n<!-- end -->"


def fill(page: str, name: str, text: str) -> str:
    """Replace the content of one generated part.

    Raises:
        ValueError: If the page does not have exactly one part with this name.
    """
    parts = re.split(rf"<!-- begin: {re.escape(name)} -->\n.*?<!-- end -->", page, flags=re.DOTALL)
    if len(parts) != 2:
        raise ValueError(f"the page has {len(parts) - 1} parts `<!-- begin: {name} -->` ... `<!-- end -->`, not one")
    return parts[0] + block(name, text) + parts[1]


# Commands


def panel_of(part: Any) -> str:
    """Return the panel of a command or an option in the help, or nothing."""
    return part.rich_help_panel if isinstance(part.rich_help_panel, str) else ""


def walk(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield each command and each group of commands with its path, in the order of `--help`."""
    for name, inner in getattr(command, "commands", {}).items():
        yield (*path, name), inner
        yield from walk(inner, (*path, name))


def placeholder(parameter: Any) -> str:
    """Return the word for a value: `N`, `PATH`, `keep|hash`, or nothing for a flag."""
    if parameter.metavar:
        return str(parameter.metavar)
    kind = parameter.type_descriptor.annotation
    if get_origin(kind) in (list, tuple):
        kind = get_args(kind)[0]
    if get_origin(kind) is Literal:
        return "|".join(map(str, get_args(kind)))
    return {bool: "", int: "N", float: "X", Path: "PATH"}.get(kind, "TEXT")


def names(option: Any, *, short: bool = False) -> str:
    """Return the names of an option as code, such as `--output FILE`, with a link to the page that explains it."""
    long, *others = sorted((*option.opts, *option.secondary_opts), key=lambda name: not name.startswith("--"))
    value = placeholder(option)
    first = f"`{long}`" if short or not value else f"`{long} {value}`"
    if not short and long in GUIDES:
        first = f"[{first}]({GUIDES[long]})"
    return ", ".join([first, *(f"`{name}`" for name in (() if short else others))])


def meaning(parameter: Any) -> str:
    """Return the help of a parameter, its range and its default."""
    text, default, low = prose(parameter.help or ""), parameter.default, parameter.min
    if parameter.secondary_opts and default is not None:
        default = (parameter.opts if default else parameter.secondary_opts)[0]
    no_default = default is None or default is False or default == () or "efault" in text
    facts = [f"≥ {low:g}"] if low is not None else []
    if not no_default and not parameter.required:
        facts.append(f"default: `{default:g}`" if isinstance(default, float) else f"default: `{default}`")
    if parameter.param_type_name == "option" and parameter.required:
        facts.append("required")
    return f"{text} ({', '.join(facts)})" if facts else text


def identity(option: Any) -> tuple[str, ...]:
    """Return what makes two options of different commands the same one."""
    return (names(option), meaning(option))


def options_of(command: Any) -> list[Any]:
    """Return the options of a command, those that only `--help-all` shows last."""
    found = [
        part for part in command.params if part.param_type_name == "option" and part.name not in ("help", "help_all")
    ]
    return sorted(found, key=lambda option: option.hidden)


def usage(path: tuple[str, ...], command: Any) -> str:
    """Return a line with the command and its arguments."""
    words = [
        (word if part.required else f"[{word}]") + ("..." if part.nargs == -1 and "..." not in word else "")
        for part in command.params
        if part.param_type_name == "argument"
        for word in [(part.metavar or part.name.upper()).strip("[]")]
    ]
    return " ".join(["ragstone", *path, *words])


def purpose(command: Any, texts: str) -> str:
    """Return the help of a command: its sentences, then its examples if its text on the page does not have any."""
    text: list[str] = []
    for paragraph in re.split(r"\n\s*\n", "\n\n".join(filter(None, (command.help, command.epilog)))):
        lines = [line.strip() for line in paragraph.replace("\b", "").strip().splitlines()]
        examples = [line.removeprefix("$ ") for line in lines if re.match(r"(\$ )?ragstone [a-z]", line)]
        if sentences := prose(" ".join(line for line in lines if line.removeprefix("$ ") not in examples)):
            text.append(sentences.removesuffix("Example:").rstrip())
        if "```bash" not in texts and not hasattr(command, "commands"):
            # Not a block: `nox -s pages` would run it, and a test of the commands runs or parses it.
            text += [f"Example: `{example}`" for example in examples]
    return "\n\n".join(filter(None, text))


def bullets(rows: Sequence[tuple[str, str]]) -> str:
    """Return names with their meanings as a list in Markdown."""
    return "\n".join(f"- {name}: {text}" for name, text in rows)


def parameters(path: tuple[str, ...], command: Any, shared: dict[tuple[str, ...], str]) -> str:
    """Return the arguments and options of a command. Options that other commands share are only named."""
    options = options_of(command)
    rows = [
        (f"`{(part.metavar or part.name.upper()).strip('[]')}`", meaning(part))
        for part in command.params
        if part.param_type_name == "argument" and part.help != STORE
    ]
    rows += [(names(option), meaning(option)) for option in options if identity(option) not in shared]
    text = f"`{usage(path, command)}`"
    if common := [names(option, short=True) for option in options if identity(option) in shared]:
        text += f" with {', '.join(common)}"
    return f"{text}\n\n{bullets(rows)}".strip()


def common_options(commands: list[Any]) -> dict[tuple[str, ...], str]:
    """Return the options that at least `COMMON` commands share, with their panels."""
    options = [option for command in commands for option in options_of(command)]
    counts = Counter(map(identity, options))
    shared = {identity(option): panel_of(option) for option in options if counts[identity(option)] >= COMMON}
    return dict(sorted(shared.items(), key=lambda row: row[1]))


SECTION = re.compile(r"^#+ ([a-z][a-z -]*)\n(?:(?!#).*\n)*?<!-- end -->$", re.MULTILINE)
"""The title of a command, and the generated text below it."""
PANEL = re.compile(r"(?:^|\n)## [^\n]+\s*\Z")


def sections(page: str) -> dict[tuple[str, ...], str]:
    """Return the text of each command that is written by hand, after its options, and of () for the page."""
    start, *rest = SECTION.split(page)
    texts = {(): start} | {tuple(name.split()): text for name, text in zip(rest[::2], rest[1::2], strict=True)}
    # The title of a panel is the last line of the section before it.
    return {path: PANEL.sub("", text).strip() for path, text in texts.items()}


def commands_page(page: str) -> str:
    """Return the page of the commands, with the texts of each command that are written by hand.

    Raises:
        ValueError: If the page has a text for a command that does not exist.
    """
    from typer.main import get_command

    from ragstone.cli._app import app

    tree = list(walk(get_command(app)))
    written = sections(page)
    panels = {panel_of(command) for path, command in tree if len(path) == 1} - {""}
    shared = common_options([command for _, command in tree if not hasattr(command, "commands")])
    parts = [fill(written.pop(()), "common options", bullets([(row[0], row[1]) for row in shared]))]
    panel = ""
    for path, command in tree:
        if len(path) == 1 and panel_of(command) != panel:
            panel = panel_of(command)
            parts.append(f"## {panel}")
        name, text = " ".join(path), written.pop(path, "")
        facts = [purpose(command, text), "" if hasattr(command, "commands") else parameters(path, command, shared)]
        heading = "#" * (len(path) + 1 + bool(panels))
        parts += [f"{heading} {name}", "\n\n".join(filter(None, facts)) + "\n<!-- end -->", text]
    if lost := [" ".join(path) for path, text in written.items() if text]:
        raise ValueError(
            f"docs/reference/cli.md has texts for {', '.join(lost)}, which are not commands: move or delete them"
        )
    return "\n\n".join(filter(None, parts)) + "\n"


# Settings


SIGNS = (("at least ", "≥ "), ("at most ", "≤ "), ("above ", "> "), ("below ", "< "), ("from ", ""))


def values_of(field: Any) -> str:
    """Return which values a key has, as far as its meaning does not say it: `≥ 1`, or an example."""
    from ragstone.settings._base import kind_of, rule_of

    rule, _, example = rule_of(field).partition(", because")[0].partition(" such as ")
    if kind_of(field.annotation) is not str:
        limits = re.sub(r"^an? (integer|number|probability)( of)? ?", "", rule)
        if limits != rule or any(character.isdigit() for character in limits):
            for words, sign in SIGNS:
                limits = limits.replace(words, sign)
            return limits.rstrip(",")
    return f"such as `{example}`" if example else ""


def setting(name: str, field: Any) -> tuple[str, str]:
    """Return the row of a key: with its default and its values, and its meaning."""
    from ragstone.settings._base import kind_of, show

    default = "" if field.is_required() else show(field, field.default).replace("none", "")
    facts = ["required" if field.is_required() else f"`{default}`" if default else "", values_of(field)]
    if get_origin(kind := kind_of(field.annotation)) is Literal:
        others = ", ".join(f"`{value}`" for value in get_args(kind) if value != default)
        facts[1:] = [f"or {others}" if default else others]
    return f"`{name}` ({', '.join(filter(None, facts))})".removesuffix(" ()"), prose(field.description)


def keys_of(kind: Any, *, inherited: Any = None) -> str:
    """Return the keys of a table of settings, without those that are the same in another."""
    same = inherited.model_fields if inherited else {}
    fields = {
        name: field
        for name, field in kind.model_fields.items()
        if name not in same or field.description != same[name].description
    }
    return bullets([setting(name, field) for name, field in fields.items()])


def settings_of(name: str, kind: Any) -> str:
    """Return the section of a table of settings, with the keys of tables within it."""
    from ragstone.settings import TABLES, variable_of
    from ragstone.settings._base import Settings, kind_of

    base = kind.__mro__[1]
    shared = base if base is not Settings else None
    variables = f"`RAGSTONE_{name.upper()}_*`" + (f", `{variable_of(f'{name}.{kind.main}')}`" if kind.main else "")
    first = f"[{prose(kind.__doc__).rstrip('.')}]({GUIDES_OF_TABLES[name]}). Variables: {variables}"
    if shared:
        other = next((other for other, each in TABLES.items() if each is shared), "endpoints")
        first += f". Also [these keys](#{other})"
    text = [f"### {name}", first, keys_of(kind, inherited=shared)]
    for key, field in kind.model_fields.items():
        inner = next(iter(get_args(kind_of(field.annotation))), None)
        if isinstance(inner, type) and issubclass(inner, Settings):
            text += [f"Keys of one of `{name}.{key}`:", keys_of(inner)]
    return "\n\n".join(filter(None, text))


def settings_page(page: str) -> str:
    """Return the page of the settings."""
    from ragstone.settings import TABLES
    from ragstone.settings._tables import Endpoint

    page = fill(page, "keys of endpoints", keys_of(Endpoint))
    return fill(page, "all settings", "\n\n".join(settings_of(name, kind) for name, kind in TABLES.items()))


# Metrics


def span(card: Any) -> str:
    """Return the range of a metric, or nothing for 0 to 1."""
    low, high = (
        "no bound" if math.isinf(bound) else f"{bound:.3f}".rstrip("0").rstrip(".") for bound in (card.low, card.high)
    )
    return "" if (low, high) == ("0", "1") else "without bounds" if low == high else f"{low} to {high}"


def calls(card: Any) -> str:
    """Return the number of model calls for one sample with k passages."""
    texts = []
    for model, each, passages in (
        ("judge", card.judge_calls, card.judge_calls_per_passage),
        ("reader", 0, card.reader_calls_per_passage),
        ("embedder", card.embedder_calls, 0),
    ):
        number = " + ".join(
            [*([str(each)] if each else []), *([f"{passages}k" if passages > 1 else "k"] if passages else [])]
        )
        if number:
            texts.append(f"{model} {number}")
    return ", ".join(texts)


def facts_of(card: Any) -> list[str]:
    """Return what a metric needs, its calls, and its range and direction if they are not the usual ones."""
    needs = f"needs {', '.join(card.needs)}".replace("_", "\\_")
    return [
        needs,
        f"range {span(card)}" if span(card) else "",
        "lower is better" if card.direction == "lower" else "",
        f"calls: {calls(card)}" if calls(card) else "",
    ]


def usual_facts(cards: list[Any]) -> list[str]:
    """Return the most common facts of a group: of at least two of five metrics, if each metric has such a fact."""
    columns = [Counter(column) for column in zip(*map(facts_of, cards), strict=True)]
    return [
        fact if len(cards) > 1 and n * 5 > len(cards) * 2 and "" not in column else ""
        for column in columns
        for fact, n in column.most_common(1)
    ]


def metrics_list(cards: list[Any], definitions: dict[str, str]) -> str:
    """Return the metrics of a group, and before them the usual facts.

    `definitions` are metrics by formula. A metric with the formula of another one refers to it.
    """
    usual = usual_facts(cards)
    lines = [f"Usually {', '.join(filter(None, usual))}:\n"] if any(usual) else []
    for card in cards:
        formula = card.formula.removesuffix(", of the retrieved passages")
        # A formula in words says what its question says, except for a rating of the judge.
        text = f"{prose(card.description)} `{card.formula}`" if "judge(" in formula else f"`{card.formula}`"
        if (name := definitions.setdefault(formula, card.name)) != card.name:
            text = f"as `{name}`"
        own = [fact for fact, common in zip(facts_of(card), usual, strict=True) if fact != common]
        facts = f" ({', '.join(own)})" if own else ""
        lines.append(f"- **`{card.name}`** {prose(card.title)}: {text}{facts}")
    return "\n".join(lines)


def place_of(item: dict[str, str]) -> str:
    """Return the table, figure, equation or appendix of an item, in parentheses. Numbers of sections are left out."""
    last = item["place"].rpartition(", ")[2]
    return f" ({last})" if re.match("table|figure|equation|appendix|exercise", last) else ""


def items_of_sources() -> str:
    """Return the items of each source by what a user types. The metrics of the groups are in their own lists."""
    sources: dict[str, dict[str, list[str]]] = {}
    for item in tomllib.loads(ITEMS.read_text(encoding="utf-8"))["item"]:
        if not re.fullmatch(r"(`--metrics [^`]+`(, )?)+", item["how"]):
            by_command = sources.setdefault(item["source"], {})
            by_command.setdefault(item["how"].replace("`ragstone ", "`"), []).append(f"{item['item']}{place_of(item)}")
    text = []
    for source, by_command in sources.items():
        # A sentence stands after its items, and a command before them.
        rows = [
            (how, ", ".join(items))
            if how.startswith(("`", "["))
            else (", ".join(items), how.replace("no: ", "no, ", 1))
            for how, items in by_command.items()
        ]
        text.append(f"**{source}**\n\n{bullets(rows)}")
    return "\n\n".join(text)


def metrics_page(page: str) -> str:
    """Return the page of the metrics, with one list for each group."""
    from ragstone.metrics import all_metrics

    cards = [metric.card for metric in all_metrics() if type(metric).__module__.startswith("ragstone.")]
    definitions: dict[str, str] = {}
    for group, members in itertools.groupby(cards, key=lambda card: card.group):
        page = fill(page, f"metrics of {group}", metrics_list(list(members), definitions))
    return fill(page, "items of the sources", items_of_sources())


# Layouts of files

OUTCOMES_OF_FILES = {
    "read": "Read without options",
    "option": "Read with the option or the command that the message names",
    "refused": "Refused, with the reason",
    "open": "Not read, and the message does not name all that is needed",
}
"""What happens with a file at the first command, as the page says it."""


GENERAL = ("CSV: ", "JSON lines: ", "pandas: ", "labels ")
"""How the layouts begin that no tool writes. The page describes how such values are read."""


def outcome_of(cases: list[dict[str, Any]]) -> str:
    """Return what happens with a file whose correct readings are known."""
    asks = [case for case in cases if "remedy" in case]
    are_read = all(case.keys() & {"samples", "traces", "labels"} for case in asks if case["command"].startswith("eval"))
    return "read" if not asks else "option" if are_read else "refused"


def grouped(layouts: list[str]) -> str:
    """Return layouts as a list in which those of one tool ("ragas: results") stand together."""
    tools: dict[str, list[str]] = {}
    for layout in sorted(layouts, key=str.lower):
        tool, _, kind = layout.partition(": ")
        tools.setdefault(tool, []).extend([kind] if kind else [])
    return prose(", ".join(f"{tool} ({', '.join(kinds)})" if kinds else tool for tool, kinds in tools.items()))


def layouts_page(page: str) -> str:
    """Return the page of the records, with the files that the tests read."""
    layouts: dict[str, list[str]] = {outcome: [] for outcome in OUTCOMES_OF_FILES}
    for file in tomllib.loads(FILES.read_text(encoding="utf-8"))["file"]:
        if cases := [case for case in file["case"] if "fails" not in case]:
            layouts[outcome_of(cases)] += [] if file["layout"].startswith(GENERAL) else [file["layout"]]
    same = {"told": "read", "command": "option"}
    blind = json.loads((BLIND / "states.json").read_text(encoding="utf-8"))
    for state in blind:
        layouts[same.get(state["state"], state["state"])] += [state["name"]] if "name" in state else []
    counts = Counter(same.get(state["state"], state["state"]) for state in blind)
    text = [f"- **{words}**: {grouped(layouts[outcome])}" for outcome, words in OUTCOMES_OF_FILES.items()]
    page = fill(page, "layouts of files", "\n".join(text))
    *first, last = (str(counts[outcome]) for outcome in OUTCOMES_OF_FILES)
    return fill(
        page, "counts of files", f"Now they are {', '.join(first)} and {last} of {counts.total()} in the order above."
    )


def redaction_page(page: str) -> str:
    """Return the page about redaction, with the keys that the default rules know."""
    from ragstone.capture._redaction import KEYS

    owners = [f"{owner} ({', '.join(f'`{begin}`' for begin in begins)})" for owner, (begins, _) in KEYS.items()]
    return fill(page, "keys", f"Keys of {', '.join(owners)}.")


PAGES: dict[str, Callable[[str], str]] = {
    "cli.md": commands_page,
    "settings.md": settings_page,
    "metrics.md": metrics_page,
    "schema.md": layouts_page,
    "../how-to/redaction.md": redaction_page,
}


def stale() -> dict[Path, str]:
    """Return the new text of each page that differs from the code."""
    pages = {}
    for name, write in PAGES.items():
        path = REFERENCE / name
        text = path.read_text(encoding="utf-8")
        if (new := write(text)) != text:
            pages[path] = new
    return pages


def main(arguments: list[str]) -> int:
    """Name the stale pages, or write them."""
    pages = stale()
    for path, text in pages.items():
        print(f"{path.resolve().relative_to(ROOT)}: stale")
        if "--write" in arguments:
            path.write_text(text, encoding="utf-8")
    return int(bool(pages) and "--write" not in arguments)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except ValueError as error:
        sys.exit(str(error))
