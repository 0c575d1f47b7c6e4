"""Helpers for users' tests: fakes and contracts. `pytest_plugin` contains the fixtures."""

from ragstone.testing._contracts import JudgeContract
from ragstone.testing._fakes import FakeJudge, MemoryRecorder
from ragstone.testing._sink_contract import SinkContract, SinkOutageContract

__all__ = [
    "FakeJudge", "JudgeContract", "MemoryRecorder", "SinkContract", "SinkOutageContract",
]  # fmt: skip
