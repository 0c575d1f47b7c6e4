"""Calls that are not requests of the application, although they look like some: evaluators, and the building of indexes."""

from __future__ import annotations

import sys
from typing import Any, Final

from llama_index.core.evaluation import BaseEvaluator

__all__ = ["runs_outside_requests"]

_MAX_FRAMES: Final = 200
_EVALUATION: Final = ("llama_index.core.evaluation.", "llama_index.core.llama_dataset.generator")
_CALLERS: Final = frozenset({"llama_index.core.evaluation.batch_runner", "llama_index.core.evaluation.eval_utils"})
"""Modules among these that ask the application's engine for the responses to evaluate."""
_INDEXING: Final = frozenset({"build_index_from_nodes", "insert_nodes", "ainsert_nodes"})
_EVALUATE: Final = frozenset({"aevaluate", "evaluate"})


def runs_outside_requests() -> bool:
    """Whether an evaluator, a generator of test questions or the constructor of an index is a caller: one look up the stack."""
    frame: Any = sys._getframe(1)  # noqa: SLF001
    for _ in range(_MAX_FRAMES):
        if frame is None:
            break
        module, function = frame.f_globals.get("__name__"), frame.f_code.co_name
        if type(module) is str and module.startswith("llama_index."):
            if module.startswith(_EVALUATION) and module not in _CALLERS:
                return True
            if function in _INDEXING and module.startswith("llama_index.core.indices"):
                return True
        if function in _EVALUATE and isinstance(frame.f_locals.get("self"), BaseEvaluator):
            return True
        frame = frame.f_back
    return False
