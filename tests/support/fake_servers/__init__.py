"""Servers on loopback that tests use in place of model servers and of the servers that sinks deliver to."""

from fake_servers.capture_server import RecordingServer
from fake_servers.dialect_server import FakeDialectServer
from fake_servers.dialects import DIALECTS
from fake_servers.embedding_server import FakeEmbeddingServer
from fake_servers.fault_server import FAULTS, FaultServer
from fake_servers.judge_dialects import JUDGE_DIALECTS, ODD_REFUSALS
from fake_servers.judge_server import FakeJudgeServer
from fake_servers.loopback import Reply, Request
from fake_servers.model_server import FakeModelServer

__all__ = [
    "DIALECTS",
    "FAULTS",
    "JUDGE_DIALECTS",
    "ODD_REFUSALS",
    "FakeDialectServer",
    "FakeEmbeddingServer",
    "FakeJudgeServer",
    "FakeModelServer",
    "FaultServer",
    "RecordingServer",
    "Reply",
    "Request",
]
