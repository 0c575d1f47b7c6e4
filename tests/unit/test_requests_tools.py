"""The `retriever_tools` option."""

from __future__ import annotations

import pytest

from ragstone.errors import ConfigurationError
from ragstone.requests import read_retriever_tools


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ((), {}),
        ("search", {"search": None}),
        (["a", "b"], {"a": None, "b": None}),
        ({"a"}, {"a": None}),
        ({"a": "\n\n", "b": None}, {"a": "\n\n", "b": None}),
        ({"a": True, "b": False}, {"a": None, "b": False}),
    ],
)
def test_names_or_a_mapping_are_read(given, read):
    """For a name alone the separator is None: the whole text is one passage."""
    assert read == read_retriever_tools(given)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([3], "expected tool names, got 3"),
        ({""}, "expected tool names, got ''"),
        ({"a": ""}, "separator of 'a' must"),
        ({"a": 0}, "got 0"),
    ],
)
def test_anything_else_is_an_error(given, message):
    """The message shows the value."""
    with pytest.raises(ConfigurationError, match=message):
        read_retriever_tools(given)
