"""The `retriever_tools` option: tools whose text results are passages, and tools that do not retrieve."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

from ragstone.errors import ConfigurationError

RetrieverTools: TypeAlias = Mapping[str, str | bool | None]
"""By tool name: the separator between the passages in its text result, None or True if the whole text is one passage, or
False for a tool that does not retrieve, whose results are never passages."""


def read_retriever_tools(tools: Iterable[str] | RetrieverTools) -> dict[str, str | bool | None]:
    r"""Read the `retriever_tools` option: tool names, or a mapping from tool names to separators.

    Args:
        tools: Names of tools whose whole text result is one passage, or a mapping from each name to the separator between
            the passages in its result (None or True: the whole text is one passage), or to False for a tool that does not
            retrieve. A single string is one name.

    Returns:
        The separator, None or False for each tool name.

    Raises:
        ConfigurationError: If a name is not a non-empty string, or a value is not a non-empty string, True, False or None.

    Examples:
        >>> read_retriever_tools({"search_policy"})
        {'search_policy': None}
        >>> read_retriever_tools({"search_policy": "\n\n"})
        {'search_policy': '\n\n'}
        >>> read_retriever_tools({"search_policy": True, "calculator": False})
        {'search_policy': None, 'calculator': False}
    """
    if isinstance(tools, str):
        tools = (tools,)
    named = dict(tools) if isinstance(tools, Mapping) else dict.fromkeys(tools)
    separators = {name: None if separator is True else separator for name, separator in named.items()}
    for name, separator in separators.items():
        if not isinstance(name, str) or not name:
            raise ConfigurationError(f"retriever_tools: expected tool names, got {name!r}")
        if separator is not None and separator is not False and (not isinstance(separator, str) or not separator):
            raise ConfigurationError(
                f"retriever_tools: the separator of {name!r} must be a non-empty string, None or True (the whole text is one "
                f"passage) or False (the tool does not retrieve), got {separator!r}"
            )
    return separators
