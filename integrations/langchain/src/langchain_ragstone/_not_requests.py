"""Calls under capture without callbacks that are not requests of the application: evaluators, and bare model calls."""

from __future__ import annotations

import inspect
import sys
from typing import Any, Final

from ragstone.requests import Step

_EVALUATOR_PACKAGES: Final = ("langchain_classic.evaluation", "langchain.evaluation", "openevals", "agentevals")
_MAX_FRAMES: Final = 100
_WRAPPERS: Final = frozenset({"RunnableSequence", "RunnableRetry", "RunnableWithFallbacks"})
"""Default names of runs around a model that add nothing to it. A run with a name of its own is meant to be a
request."""


def runs_in_evaluator() -> bool:
    """Whether an evaluator of LangChain, openevals or LangSmith is the caller: one look up the stack."""
    langsmith = sys.modules.get("langsmith.run_helpers")
    if langsmith is not None and langsmith.get_tracing_context().get("project_name") == "evaluators":
        return True
    if not any(package in sys.modules for package in _EVALUATOR_PACKAGES):
        return False
    frame: Any = inspect.currentframe()
    for _ in range(_MAX_FRAMES):
        if frame is None:
            break
        if str(frame.f_globals.get("__name__")).startswith(_EVALUATOR_PACKAGES):
            return True
        frame = frame.f_back
    return False


def is_bare_model_call(root: Step, steps: list[Step]) -> bool:
    """Whether a request is nothing but a model, possibly with an output parser, retries or fallbacks around it."""
    if root.kind == "model":
        return True
    # Retries have the name of the model inside.
    wrappers = _WRAPPERS.union(step.name for step in steps if step.kind == "model" and step.name)
    if root.name not in wrappers:
        return False
    inside = [step for step in steps if step is not root and not (step.kind == "chain" and step.name in wrappers)]
    # A sequence that begins with a prompt template asks a question of its own: its first part precedes the model.
    return bool(inside) and inside[0].kind == "model" and all(step.kind in ("model", "part") for step in inside)
