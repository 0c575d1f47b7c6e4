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
        "import ragstone",
        "from ragstone.schema import Trace",
        "from ragstone import Monitor",
        "from ragstone.metrics import all_metrics; all_metrics()",
    ],
)
def test_import_loads_nothing_heavy(statement):
    """Clients, numeric libraries and frameworks load when they are first used."""
    code = f"{statement}\nimport sys\nprint(*sorted(name.partition('.')[0] for name in sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert sorted(set(HEAVY) & set(loaded)) == []
