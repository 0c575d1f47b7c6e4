"""What MLflow's autologging kept of a request, replayed, is what our own capture saw of the same request."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from ragstone.reading._formats import all_formats
from ragstone.schema import Trace, sample_from_trace

PROCESS = Path(__file__).parent / "replay_apps" / "mlflow_beside.py"


def seen(trace: Trace):
    """What metrics see of a request, and who asked.

    MLflow's spans show inputs of more steps than the handler sees: for a request that failed, the same passages by
    another rule.
    """
    sample = sample_from_trace(trace)
    tokens = trace.usage and (trace.usage.input_tokens, trace.usage.output_tokens)
    return (
        trace.name,
        trace.status,
        sample.model_dump(exclude={"id", "evidence"}),
        trace.evidence.doubts,
        tokens,
        trace.model,
        trace.session_id,
        trace.user_id,
    )


@pytest.mark.timeout(400)
@pytest.mark.skipif(importlib.util.find_spec("mlflow") is None, reason="MLflow is installed by `nox -s replay`")
def test_mlflow_replays_to_what_was_captured(read, tmp_path):
    """Six kinds of requests, in a process of its own: the same samples, the same status, the same tokens."""
    subprocess.run([sys.executable, str(PROCESS), str(tmp_path)], check=True, timeout=380)
    captured = [Trace.model_validate_json(line) for line in (tmp_path / "captured").read_text("utf-8").splitlines()]
    replayed, rejected = read(all_formats()["mlflow"], tmp_path / "export")

    assert [] == rejected
    assert 6 == len(captured)
    assert [seen(t) for t in captured] == [seen(t) for t in sorted(replayed, key=lambda trace: trace.started_at)]
