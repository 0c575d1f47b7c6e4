"""`import ragstone` loads nothing big; how many milliseconds it takes is measured by `nox -s build`."""

from __future__ import annotations

import subprocess
import sys

import pytest

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


@pytest.mark.parametrize(
    "statement",
    [
        pytest.param("import ragstone", marks=pytest.mark.slow),
        pytest.param("from ragstone.schema import Trace", marks=pytest.mark.slow),
        "from ragstone import Monitor",
        "from ragstone.metrics import all_metrics; all_metrics()",
    ],
)
def test_import_loads_nothing_heavy(statement):
    """Clients, numeric libraries and frameworks load when they are first used."""
    code = f"{statement}\nimport sys\nprint(*sorted(name.partition('.')[0] for name in sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert sorted(set(HEAVY) & set(loaded)) == []


@pytest.mark.parametrize(
    ("package", "statement"),
    [
        ("langchain_core", "from langchain_ragstone import RagstoneCallbackHandler, collect_traces, ragstone_enable"),
        ("llama_index.core", "from llama_index.observability.ragstone import RagstoneInstrumentor"),
    ],
)
def test_capture_loads_nothing_that_scores(package, statement):
    """An application that only captures pays for no metrics, judges or store."""
    pytest.importorskip(package)
    code = f"{statement}\nimport sys\nprint(*sorted(sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    rooms = {f"ragstone.{room}" for room in ("judges", "metrics", "scoring", "stats", "store", "sinks", "monitor")}
    assert set() == rooms & set(loaded)


@pytest.mark.parametrize(
    "statement",
    [
        pytest.param("import ragstone.experiments", marks=pytest.mark.slow),
        "from ragstone import Monitor, compare, evaluate",
        "from ragstone.cli import main; main(['--help'])",
    ],
)
def test_research_is_imported_only_when_it_is_asked_for(statement):
    """A user who monitors, evaluates or compares does not import `ragstone.research`."""
    code = f"import sys\ntry:\n    {statement}\nexcept SystemExit:\n    pass\nprint('ragstone.research' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.endswith("False\n")


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["metrics", "bertscore"],
        *(pytest.param(a, marks=pytest.mark.slow) for a in (["metrics"], ["metrics", "bleu"])),
    ],
)
def test_commands_that_compute_nothing_load_nothing_to_compute_with(arguments):
    """Help, and what metrics there are, come at once; a metric's package loads when it scores."""
    code = (
        f"import sys\nfrom ragstone.cli import main\ntry:\n    main({arguments!r})\nexcept SystemExit:\n    pass\n"
        "print()\nprint(*sorted(name.partition('.')[0] for name in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    used = {"typer", "rich", "pytest"}
    assert set() == (set(HEAVY) - used) & set(done.stdout.splitlines()[-1].split())
