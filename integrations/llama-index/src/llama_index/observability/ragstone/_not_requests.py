"""Calls that are not requests of the application, although they look like some: evaluators, and the building of indexes."""

from __future__ import annotations

import sys
from functools import lru_cache
from typing import Any, Final

from llama_index.core.evaluation import BaseEvaluator

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
        code = frame.f_code
        function = code.co_name
        if _is_evaluation(code.co_filename) and _module(frame).startswith(_EVALUATION):
            if _module(frame) not in _CALLERS:
                return True
        elif function in _INDEXING:
            if _module(frame).startswith("llama_index.core.indices"):
                return True
        elif function in _EVALUATE and isinstance(frame.f_locals.get("self"), BaseEvaluator):
            return True
        frame = frame.f_back
    return False


def _module(frame: Any) -> str:
    return str(frame.f_globals.get("__name__"))


@lru_cache(maxsize=4096)
def _is_evaluation(path: str) -> bool:
    """Whether a file can be one of LlamaIndex's evaluators: one look at each file, because all frames are looked at."""
    return "llama_index" in path and ("evaluation" in path or "llama_dataset" in path)
