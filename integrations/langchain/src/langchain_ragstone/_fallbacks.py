"""The parent that LangChain forgets to name: attempts of an outermost `with_fallbacks` come as requests of their own."""

from __future__ import annotations

from typing import TypeVar
from uuid import UUID

from langchain_core.runnables.config import var_child_runnable_config

from langchain_ragstone._tree import Run, RunTree

__all__ = ["start_run"]

_DEFAULT_NAME = "RunnableWithFallbacks"

_R = TypeVar("_R", bound=Run)


def start_run(tree: RunTree, run_id: UUID, parent_id: UUID | None, kind: type[_R], *, name: str | None) -> _R | None:
    """Start a run in its place; an attempt without a parent belongs to the fallbacks around it.

    Args:
        tree: The requests in flight.
        run_id: The run.
        parent_id: Its parent, as LangChain says.
        kind: What it is.
        name: What it is called.

    Returns:
        The run, or None when the event is to be ignored.
    """
    return tree.start(run_id, _fallbacks_around(tree, name) if parent_id is None else parent_id, kind)


def _fallbacks_around(tree: RunTree, name: str | None) -> UUID | None:
    # `RunnableWithFallbacks.invoke` puts itself into the context of its attempts, but calls them with its own
    # configuration, so they know no parent, and have its name if it was given one. Other runs without a parent are
    # requests that the application starts by itself inside another, and stay that.
    config = var_child_runnable_config.get()
    around: UUID | None = getattr(config.get("callbacks"), "parent_run_id", None) if config else None
    run = None if around is None else tree.find(around)
    if run is None or run.parent is not None:
        return None
    return around if run.trace.draft.name in (_DEFAULT_NAME, name or _DEFAULT_NAME) else None
