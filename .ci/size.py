"""Count the code, the commands, the public names and the pages, and compare them with `[tool.ragstone.size]` of `pyproject.toml`.

Run it with the Python of an environment that has all distributions: `.nox/tests/bin/python .ci/size.py` prints what differs.
`--write` writes the numbers into `pyproject.toml`, and refuses if a total rises.
"""

from __future__ import annotations

import ast
import importlib
import json
import os
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from pkgutil import walk_packages

ROOT = Path(__file__).parent.parent
PROJECT = ROOT / "pyproject.toml"
CORE = ROOT / "packages/ragstone/src/ragstone"
DISTRIBUTIONS = {
    "lab": ROOT / "packages/ragstone-lab/src",
    "langchain": ROOT / "integrations/langchain/src",
    "llama-index": ROOT / "integrations/llama-index/src",
}
DATA = {".json", ".jsonl", ".toml", ".yml", ".yaml", ".sql", ".txt", ".csv", ".js", ".css", ".html"}
"""Suffixes of files whose lines count as data lines: code that moves into such a file still counts."""
GENERATED = CORE / "schema/v1.json"
"""Written from the models of `schema`, whose lines count."""
MAX_METHODS = 12
"""Methods that a Protocol may have. A larger one is listed by name."""
LONG = 120
GOALS = {"commands": 17, "subcommands": 38, "different_options": 100, "evaluate_options": 25, "docs_pages": 130}
"""Totals below these goals may rise up to them: the goals include what the planned features add."""

Size = dict[str, int | dict[str, int]]
"""Totals by name, and tables (lines of each package, methods of each large Protocol)."""


def modules() -> Iterator[tuple[str, list[str], ast.Module]]:
    """Yield the package, the lines and the syntax tree of each module of the distributions."""
    for source in (CORE, *DISTRIBUTIONS.values()):
        for path in source.rglob("*.py"):
            text = path.read_text(encoding="utf-8")
            # Not `splitlines`, which also breaks at form feeds and other separators within strings.
            yield package_of(path), text.removesuffix("\n").split("\n") if text else [], ast.parse(text)


def code_lines(lines: list[str], tree: ast.Module) -> int:
    """Return how many lines are neither blank, nor a comment, nor part of an import or of a string that stands alone."""
    without: set[int] = set()
    for node in ast.walk(tree):
        alone = (
            isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        )
        if alone or isinstance(node, ast.Import | ast.ImportFrom):
            without |= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return sum(
        number not in without and bool(line.strip()) and not line.lstrip().startswith("#")
        for number, line in enumerate(lines, start=1)
    )


def package_of(path: Path) -> str:
    """Return the package of the core that a file belongs to, or the distribution beside the core."""
    for name, source in DISTRIBUTIONS.items():
        if path.is_relative_to(source):
            return name
    parts = path.relative_to(CORE).parts
    return parts[0] if len(parts) > 1 else "top level"


def count_code() -> Size:
    """Count the lines of all modules, their code lines and long lines, and the methods of each large Protocol."""
    packages: Counter[str] = Counter()
    totals: Counter[str] = Counter()
    classes: dict[str, tuple[list[str], set[str]]] = {}
    for package, lines, tree in modules():
        packages[package] += len(lines)
        totals["lines"] += len(lines)
        totals["code_lines"] += code_lines(lines, tree)
        totals["long_lines"] += sum(len(line) > LONG for line in lines)
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                bases = [ast.unparse(base).partition("[")[0].rpartition(".")[2] for base in node.bases]
                functions = {
                    part.name for part in node.body if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef)
                }
                classes[node.name] = (bases, functions)

    def methods_of(name: str) -> set[str]:
        bases, functions = classes.get(name, ([], set()))
        return functions.union(*map(methods_of, bases))

    methods = {name: len(methods_of(name)) for name, (bases, _) in classes.items() if "Protocol" in bases}
    return {
        **totals,
        "packages": dict(sorted(packages.items())),
        "protocols": {name: number for name, number in sorted(methods.items()) if number > MAX_METHODS},
    }


def count_files() -> Size:
    """Count the lines of data files in the distributions, and the pages of the documentation."""
    data = [
        len(path.read_text(encoding="utf-8").splitlines())
        for source in (CORE, *DISTRIBUTIONS.values())
        for path in source.rglob("*")
        if path.suffix in DATA and path != GENERATED and ".egg-info" not in str(path)
    ]
    return {"data_lines": sum(data), "docs_pages": sum(1 for _ in (ROOT / "docs").rglob("*.md"))}


def all_commands(command: object, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], object]]:
    """Yield each command that does something with its path: `("store", "verify")`."""
    if (commands := getattr(command, "commands", None)) is None:
        yield path, command
    else:
        for name in commands:
            yield from all_commands(commands[name], (*path, name))


def count_surface() -> Size:
    """Count commands, options as `--help` shows them, and the names in the `__all__` of all packages."""
    from typer.main import get_command

    from ragstone.cli._app import app

    shown = {
        path: [
            next(iter(option.opts))
            for option in command.params
            if option.param_type_name == "option" and not option.hidden
        ]
        for path, command in all_commands(get_command(app))
    }
    return {
        "commands": len({path[0] for path in shown}),
        "subcommands": len(shown),
        "options": sum(map(len, shown.values())),
        "different_options": len({name for names in shown.values() for name in names}),
        # With `--help` itself, as the screen shows them.
        "evaluate_options": len(shown["evaluate",]) + 1,
        "replay_options": len(shown["replay",]) + 1,
        "public_names": sum(len(names) for names in public_names().values()),
    }


def public_names() -> dict[str, list[str]]:
    """Return the names in `__all__` of each package without a private part in its name."""
    import langchain_ragstone
    import llama_index.evaluation.ragstone
    import llama_index.observability.ragstone
    import ragstone
    import ragstone_lab

    names = {}
    for top in (
        ragstone,
        ragstone_lab,
        langchain_ragstone,
        llama_index.evaluation.ragstone,
        llama_index.observability.ragstone,
    ):
        inner = [module.name for module in walk_packages(top.__path__, f"{top.__name__}.") if module.ispkg]
        for name in (top.__name__, *(name for name in inner if "._" not in name)):
            if public := list(getattr(importlib.import_module(name), "__all__", ())):
                names[name] = public
    return names


ONE_ROW = """
import sys, ragstone
ragstone.evaluate([{"query": "a b", "contexts": ["a b c"], "response": "b"}], metrics=["ccrs.cc"], judge="lexical")
print(sum(name.partition(".")[0] == "ragstone" for name in sys.modules))
"""


def count_modules() -> Size:
    """Count the modules of the core that `evaluate` imports for one row."""
    result = subprocess.run([sys.executable, "-c", ONE_ROW], check=True, capture_output=True, text=True)
    return {"evaluate_modules": int(result.stdout.split()[-1])}


def count_request() -> Size:
    """Count what runs for one captured request with five outcomes: functions, files, transactions and JSON parses."""
    script = Path(__file__).with_name("one_request.py")
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    result = subprocess.run(
        [sys.executable, script], check=True, capture_output=True, text=True, env=environment, timeout=120
    )
    return {f"request_{name}": number for name, number in json.loads(result.stdout.splitlines()[-1]).items()}


COUNTS = (count_code, count_files, count_surface, count_modules, count_request)


def measure() -> Size:
    """Count everything that is pinned."""
    size: Size = {}
    for count in COUNTS:
        size |= count()
    return size


def flat(size: Size) -> dict[str, int]:
    """Return the numbers by dotted name: `packages.judges`."""
    numbers = {}
    for name, value in size.items():
        numbers |= (
            {f"{name}.{inner}": number for inner, number in value.items()} if isinstance(value, dict) else {name: value}
        )
    return numbers


def pinned(text: str) -> Size:
    """Return the table of a `pyproject.toml`, or an empty one."""
    return tomllib.loads(text)["tool"]["ragstone"].get("size", {})


def raised(before: Size, after: Size) -> list[str]:
    """Return what rose. A package may rise if `lines` does not: other packages have given what it takes.

    Data lines may rise by the lines that leave the code. A total that is pinned for the first time does not rise, nor
    does one up to its goal. A Protocol that becomes too large does.
    """
    old, new = flat(before), flat(after)
    left = {"data_lines": max(old.get("lines", 0) - new.get("lines", 0), 0)}
    return [
        f"{name} rises from {old.get(name, 0):,} to {number:,}"
        for name, number in new.items()
        if (name in old or name.startswith("protocols.")) and not name.startswith("packages.")
        if old and number > max(old.get(name, 0), GOALS.get(name, 0)) + left.get(name, 0)
    ]


def differences(allowed: Size, actual: Size) -> list[str]:
    """Return each number that is not the pinned one."""
    old, new = flat(allowed), flat(actual)
    return [
        f"{name}: {new.get(name, 0):,} now, {old.get(name, 0):,} in pyproject.toml ({new.get(name, 0) - old.get(name, 0):+,})"
        for name in sorted(old.keys() | new.keys())
        if old.get(name, 0) != new.get(name, 0)
    ]


def table(size: Size) -> str:
    """Return the numbers as lines of TOML."""
    totals = [f"{name} = {value}" for name, value in size.items() if not isinstance(value, dict)]
    tables = [
        "\n".join([f"\n[tool.ragstone.size.{name}]", *(f'"{key}" = {number}' for key, number in value.items())])
        for name, value in size.items()
        if isinstance(value, dict)
    ]
    return "\n".join([*totals, *tables]) + "\n"


MARK = "# Begin of the numbers that .ci/size.py --write writes.\n"
END = "# End of these numbers.\n"


def main(arguments: list[str]) -> int:
    """Print the differences, or write the numbers if no total rises."""
    text = PROJECT.read_text(encoding="utf-8")
    allowed, actual = pinned(text), measure()
    changes, rises = differences(allowed, actual), raised(allowed, actual)
    print(*changes, sep="\n")
    if "--write" in arguments and not rises:
        start, rest = text.split(MARK)
        PROJECT.write_text(start + MARK + table(actual) + END + rest.split(END)[1], encoding="utf-8")
        return 0
    print(*rises, sep="\n")
    return int(bool(changes))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
