"""Fixtures for our users, found by pytest wherever Ragstone is installed.

This file is loaded in every pytest run of every such environment, so it imports nothing of ours until a fixture is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from ragstone.testing import FakeJudge, MemoryRecorder, MemorySink

__all__ = ["ragstone_fake_judge", "ragstone_memory_sink", "ragstone_recorder"]


@pytest.fixture
def ragstone_fake_judge() -> FakeJudge:
    """A `ragstone.testing.FakeJudge` with numbers made from the prompt."""
    from ragstone.testing import FakeJudge

    return FakeJudge()


@pytest.fixture
def ragstone_memory_sink() -> MemorySink:
    """A `ragstone.testing.MemorySink`."""
    from ragstone.testing import MemorySink

    return MemorySink()


@pytest.fixture
def ragstone_recorder() -> MemoryRecorder:
    """A `ragstone.testing.MemoryRecorder`, for capture hooks."""
    from ragstone.testing import MemoryRecorder

    return MemoryRecorder()
