"""The parent that LangChain does not report: attempts of an outermost `with_fallbacks` arrive as separate requests."""

from __future__ import annotations

from uuid import UUID

from langchain_core.runnables.config import var_child_runnable_config

from langchain_ragstone._live import LiveRequests

_DEFAULT_NAME = "RunnableWithFallbacks"


def fallbacks_around(live: LiveRequests, name: str | None) -> UUID | None:
    """Return the run of the fallbacks around an attempt without a parent, or None.

    Args:
        live: The requests in flight.
        name: The name of the run without a parent.
    """
    # `RunnableWithFallbacks.invoke` puts itself into the context of its attempts, but calls them with its own
    # configuration, so they have no parent, and have its name if it was given one. Other runs without a parent are
    # requests that the application starts itself inside another one, and stay requests.
    config = var_child_runnable_config.get()
    around: UUID | None = getattr(config.get("callbacks"), "parent_run_id", None) if config else None
    begun = None if around is None else live.find(around)
    if begun is None or begun[0] is not begun[1].root:
        return None
    return around if begun[1].draft.name in (_DEFAULT_NAME, name or _DEFAULT_NAME) else None
