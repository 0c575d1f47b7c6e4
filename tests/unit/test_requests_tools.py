"""The `retriever_tools` option."""

from __future__ import annotations

import pytest

from ragstone.errors import ConfigurationError
from ragstone.requests import Message, assemble, read_retriever_tools
from request_steps import ANSWER, QUESTION, A, Steps, prompt


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


@pytest.mark.parametrize("names", [("search",), ("search", "calculator")])
def test_evidence_says_which_declared_tools_were_called(names: tuple[str, ...]) -> None:
    """A call counts if it failed, and if only a prompt shows its result. Without declared tools there is nothing to say."""
    steps = Steps()
    root = steps.chain(inputs={"question": QUESTION}, outputs={"answer": ANSWER})
    steps.add("tool", within=root, name="search", error="TimeoutError")
    shown = (Message("user", QUESTION), Message("tool", A, tool="calculator"))
    steps.model(root, shown if "calculator" in names else prompt(A), ANSWER)

    undeclared = assemble(steps.request()).evidence
    evidence = assemble(steps.request(retriever_tools={"search": None, "calculator": False, "serach": "\n"})).evidence

    assert undeclared is not None
    assert {} == undeclared.declared_tools
    assert evidence is not None
    assert {"search": True, "calculator": "calculator" in names, "serach": False} == evidence.declared_tools
