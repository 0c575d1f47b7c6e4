"""`import ragstone` loads nothing big; how many milliseconds it takes is measured by `nox -s build`."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

from live_store import make_store

HEAVY = (
    "numpy",
    "scipy",
    "nltk",
    "sacrebleu",
    "torch",
    "transformers",
    "sentence_transformers",
    "openai",
    "aiohttp",
    "httpx",
    "pandas",
    "pyarrow",
    "langchain",
    "langchain_core",
    "langgraph",
    "langsmith",
    "llama_index",
    "opentelemetry",
    "typer",
    "rich",
    "pytest",
)


def loaded_after(*steps: str) -> list[set[str]]:
    """The modules that are loaded after each statement, in one new interpreter; a command may exit."""
    code = "import sys\n" + "".join(
        f"try:\n    {step}\nexcept SystemExit:\n    pass\nprint('loaded:', *sys.modules)\n" for step in steps
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    found = [set(line.split()[1:]) for line in done.stdout.splitlines() if line.startswith("loaded:")]
    assert len(steps) == len(found)
    return found


def heavy(loaded: set[str]) -> set[str]:
    """The expensive packages among these modules."""
    return set(HEAVY) & {name.partition(".")[0] for name in loaded}


@pytest.mark.parametrize(
    "statements",
    [
        pytest.param(["import ragstone"], marks=pytest.mark.slow),
        pytest.param(["from ragstone.schema import Trace"], marks=pytest.mark.slow),
        pytest.param(["import ragstone.experiments"], marks=pytest.mark.slow),
        [
            "from ragstone import Monitor",
            "from ragstone import compare, evaluate",
            "from ragstone.metrics import all_metrics; all_metrics()",
        ],
    ],
    ids=", ".join,
)
def test_import_loads_nothing_heavy(statements):
    """Clients, numeric libraries, frameworks and `ragstone_lab` load when they are first used."""
    for statement, loaded in zip(statements, loaded_after(*statements), strict=True):
        assert set() == heavy(loaded), statement
        assert "ragstone_lab" not in loaded, statement


@pytest.mark.parametrize(
    ("package", "statement"),
    [
        ("langchain_core", "from langchain_ragstone import RagstoneCallbackHandler, ragstone_enable"),
        ("llama_index.core", "from llama_index.observability.ragstone import RagstoneInstrumentor"),
    ],
)
def test_capture_loads_nothing_that_scores(package, statement):
    """An application that only captures pays for no metrics, judges or store."""
    pytest.importorskip(package)
    (loaded,) = loaded_after(statement)
    rooms = {f"ragstone.{room}" for room in ("judges", "metrics", "scoring", "stats", "store", "sinks", "monitor")}
    assert set() == rooms & loaded


@pytest.mark.parametrize(
    "commands",
    [
        [["--help"], ["metrics", "bertscore"]],
        *(pytest.param([a], marks=pytest.mark.slow) for a in (["metrics"], ["metrics", "bleu"])),
    ],
    ids=str,
)
def test_commands_that_compute_nothing_load_nothing_to_compute_with(commands):
    """Help, and what metrics there are, come at once; a metric's package loads when it scores."""
    for command, loaded in zip(
        commands,
        loaded_after(*(f"from ragstone.cli import main; main({command!r})" for command in commands)),
        strict=True,
    ):
        assert set() == heavy(loaded) - {"typer", "rich", "pytest"}, command
        assert "ragstone_lab" not in loaded, command


def test_help_loads_no_command():
    """The list of commands shows one sentence of each, which is the first of the command's own help."""
    (loaded,) = loaded_after("from ragstone.cli import main; main(['--help'])")
    assert {"pydantic", "importlib.metadata", "ragstone_lab"}.isdisjoint(loaded)
    assert {"ragstone.judges", "ragstone.experiments", "ragstone.cli._evaluate"}.isdisjoint(loaded)


@pytest.mark.parametrize("group", ["lab", "store"])
def test_help_of_a_group_loads_no_command(group):
    """The list of the commands of a group needs none of their modules."""
    (loaded,) = loaded_after(f"from ragstone.cli import main; main([{group!r}, '--help'])")
    assert {"ragstone.judges", "ragstone.store", "ragstone.cli._backfill", "ragstone_lab.cli._udcg"}.isdisjoint(loaded)


LAZY = ("brokers", "experiments", "judges", "metrics", "stats", "worker")


@pytest.mark.parametrize("room", LAZY)
def test_lazy_names_are_those_for_type_checkers(room):
    """A package that imports its names at first use has each of them, from the module that type checkers read."""
    package = importlib.import_module(f"ragstone.{room}")
    tree = ast.parse(Path(package.__file__).read_text(encoding="utf-8"))
    declared = {
        alias.name: node.module
        for block in tree.body
        if isinstance(block, ast.If)
        for node in ast.walk(block)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    (call,) = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    table = ast.literal_eval(call.args[1])
    assert declared == {name: f"ragstone.{room}.{module}" for module, names in table.items() for name in names.split()}
    assert set(package.__all__) <= set(declared) <= set(dir(package))
    for name, module in declared.items():
        assert getattr(package, name) is getattr(importlib.import_module(module), name)
    with pytest.raises(AttributeError, match="has no attribute 'unknown'"):
        _ = package.unknown


def test_the_command_line_handles_signals_before_it_imports_anything():
    """A signal within an import ends it with a traceback, so what `main` needs is imported when it can be interrupted."""
    [loaded] = loaded_after("from ragstone.cli import program")
    names = {name for name in loaded if name.partition(".")[0] == "ragstone" and not name.startswith("ragstone._")}
    assert {"ragstone", "ragstone.cli", "ragstone.cli._signals"} == names


def test_the_means_of_a_store_do_not_load_scipy(tmp_path: Path) -> None:
    """`status` computes intervals. The import of `scipy.special` takes longer than the rest of the command."""
    path = tmp_path / "a.db"
    make_store(path, 40)
    _, loaded = loaded_after(
        "import sys; sys.argv = ['ragstone', 'status', %r]" % str(path),  # noqa: UP031
        "from ragstone.cli import program; program()",
    )
    assert "ragstone.stats._mean" in loaded
    assert "scipy" not in loaded
