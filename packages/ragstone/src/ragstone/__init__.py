"""Ragstone: know how good a RAG application's retrieval and answers are, with honest uncertainty."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ragstone.errors import RagstoneError
    from ragstone.experiments import (
        Comparison,
        Experiment,
        aevaluate,
        assert_no_regression,
        assert_score,
        compare,
        evaluate,
        repair,
    )
    from ragstone.metrics import Criterion
    from ragstone.monitor import Monitor
    from ragstone.reading import read_traces
    from ragstone.schema import Failure, NotApplicable, Outcome, Passage, Retrieval, Sample, Score, Trace

__version__: str
"""The version of the installed distribution."""

__all__ = [
    "Comparison", "Criterion", "Experiment", "Failure", "Monitor", "NotApplicable", "Outcome", "Passage",
    "RagstoneError", "Retrieval", "Sample", "Score", "Trace", "aevaluate", "assert_no_regression", "assert_score",
    "compare", "evaluate", "read_traces", "repair",
]  # fmt: skip

# An application that imports one package, and every test run that loads our pytest plugin, does not pay for the others
# (PEP 562). Reasons: docs/decisions/0002-packages-import-their-names-lazily.md.
_PACKAGES = {
    "errors": "RagstoneError",
    "experiments": "Comparison Experiment aevaluate assert_no_regression assert_score compare evaluate repair",
    "metrics": "Criterion",
    "monitor": "Monitor",
    "reading": "read_traces",
    "schema": "Failure NotApplicable Outcome Passage Retrieval Sample Score Trace",
}
_PACKAGE_OF = {name: package for package, names in _PACKAGES.items() for name in names.split()}

if not TYPE_CHECKING:  # a type checker would accept any name

    def __getattr__(name: str) -> object:
        if name == "__version__":
            from importlib.metadata import version

            return version("ragstone")
        package = _PACKAGE_OF.get(name)
        if package is None:
            raise AttributeError(f"module 'ragstone' has no attribute {name!r}")  # codespell:ignore
        value = getattr(import_module(f"ragstone.{package}"), name)
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
