"""A real vLLM server is killed in the middle of a run and started again: nothing is lost, and nothing fails."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections import Counter

import pytest

import ragstone

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(900)]

N = 24
METRICS = ("ccrs.cc", "ccrs.qr", "ccrs.id")


def test_a_server_that_is_killed_and_started_again_costs_nothing(
    serving, awaiting, port, model_folder, trainer, tmp_path, record_property
):
    """While it is away for as long as vLLM takes to start, `evaluate` waits; then it scores all samples."""
    samples = list(trainer.random_samples(N, seed=41))
    number = port()
    restarted = threading.Event()
    with contextlib.ExitStack() as servers:
        url, process = servers.enter_context(serving(model_folder, tmp_path / "first.log", port=number))
        awaiting(url, process, tmp_path / "first.log")

        def restart(done: int, total: int) -> None:
            if done * 3 < total or restarted.is_set():
                return
            restarted.set()
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            servers.enter_context(serving(model_folder, tmp_path / "second.log", port=number))

        started = time.monotonic()
        result = ragstone.evaluate(samples, METRICS, judge=url, concurrency=8, progress=restart, max_outage_s=600)

    record_property("seconds", round(time.monotonic() - started))
    assert restarted.is_set()
    kinds = Counter((outcome.metric, outcome.outcome) for outcome in result.outcomes)
    assert {(metric, "score"): N for metric in METRICS} == kinds
