"""Helpers for users' tests: fakes, builders of records and contracts. `pytest_plugin` contains the fixtures."""

from ragstone.testing._builders import make_sample, make_trace
from ragstone.testing._contracts import JudgeContract
from ragstone.testing._fakes import FakeJudge, MemoryRecorder, MemorySink
from ragstone.testing._sink_contract import SinkContract, SinkOutageContract

__all__ = [
    "FakeJudge",
    "JudgeContract",
    "MemoryRecorder",
    "MemorySink",
    "SinkContract",
    "SinkOutageContract",
    "make_sample",
    "make_trace",
]
