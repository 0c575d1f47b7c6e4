"""Fixtures for users, which pytest finds in every environment with Ragstone installed.

pytest loads this file in every run in such an environment, so it imports Ragstone only when a fixture is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from ragstone.testing import FakeJudge, MemoryRecorder


@pytest.fixture
def ragstone_fake_judge() -> FakeJudge:
    """Return a `ragstone.testing.FakeJudge` that derives its numbers from the prompt."""
    from ragstone.testing import FakeJudge

    return FakeJudge()


@pytest.fixture
def ragstone_recorder() -> MemoryRecorder:
    """Return a `ragstone.testing.MemoryRecorder`, for capture hooks."""
    from ragstone.testing import MemoryRecorder

    return MemoryRecorder()
