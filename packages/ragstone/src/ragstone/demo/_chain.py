"""The seam to frameworks: an integration builds the demo's chain."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias

from ragstone.capture import Recorder
from ragstone.demo._handbook import DemoQuestion

__all__ = ["DemoChain", "DemoChainBuilder"]

DemoChain: TypeAlias = Callable[[DemoQuestion], str]
"""Runs one question through a captured RAG chain and returns the answer."""


class DemoChainBuilder(Protocol):
    """What an entry point of the group `ragstone.demos` names."""

    def __call__(self, recorder: Recorder) -> DemoChain:
        """Build the framework's chain over the handbook, with every request captured by `recorder`."""
        ...
