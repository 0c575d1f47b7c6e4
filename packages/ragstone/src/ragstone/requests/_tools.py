"""The `retriever_tools` option: tools whose text results are passages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ragstone.errors import ConfigurationError

__all__ = ["read_retriever_tools"]


def read_retriever_tools(tools: Iterable[str] | Mapping[str, str | None]) -> dict[str, str | None]:
    r"""Read the `retriever_tools` option: tool names, or a mapping from tool names to separators.

    Args:
        tools: Names of tools whose whole text result is one passage, or a mapping from each name to the separator between
            the passages in its result (None: the whole text is one passage). A single string is one name.

    Returns:
        The separator for each tool name.

    Raises:
        ConfigurationError: If a name or a separator is not a non-empty string.

    Example:
        >>> read_retriever_tools({"search_policy"})
        {'search_policy': None}
        >>> read_retriever_tools({"search_policy": "\n\n"})
        {'search_policy': '\n\n'}
    """
    if isinstance(tools, str):
        tools = (tools,)
    separators = dict(tools) if isinstance(tools, Mapping) else dict.fromkeys(tools)
    for name, separator in separators.items():
        if not isinstance(name, str) or not name:
            raise ConfigurationError(f"retriever_tools: expected tool names, got {name!r}")
        if separator is not None and (not isinstance(separator, str) or not separator):
            raise ConfigurationError(
                f"retriever_tools: the separator of {name!r} must be a non-empty string or None, got {separator!r}"
            )
    return separators
