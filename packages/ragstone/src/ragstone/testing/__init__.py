"""What our users test with: fakes, builders of records, contracts; fixtures are in `pytest_plugin`."""

from ragstone.testing._builders import make_sample, make_trace
from ragstone.testing._contracts import JudgeContract
from ragstone.testing._fakes import FakeJudge, FakeReader, MemoryRecorder, MemorySink
from ragstone.testing._model import ScriptedModel
from ragstone.testing._sink_contract import SinkContract, SinkOutageContract

__all__ = [
    "FakeJudge",
    "FakeReader",
    "JudgeContract",
    "MemoryRecorder",
    "MemorySink",
    "ScriptedModel",
    "SinkContract",
    "SinkOutageContract",
    "make_sample",
    "make_trace",
]
