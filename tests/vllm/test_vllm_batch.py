"""`replay --batch` with the results of vLLM's `run-batch`, against scores of calls to the server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ragstone.replay import replay_traces
from ragstone.store import SqliteStore

pytestmark = [pytest.mark.vllm, pytest.mark.long, pytest.mark.timeout(900)]

N_SAMPLES = 6
METRICS = ["ccrs.qr", "ccrs.id"]


def values(store):
    """Each score, without its time."""
    with SqliteStore.open(store, mode="read") as opened:
        return {(o.sample_id, o.metric): getattr(o, "value", o) for o in opened.outcomes.read()}


def test_results_of_run_batch_give_the_scores_of_the_server(judge_url, model_folder, trainer, tmp_path):
    """The same numbers, with a second round for replies without a number."""
    rows, folder = tmp_path / "rows.jsonl", tmp_path / "batch"
    samples = trainer.demo_samples()[:N_SAMPLES]
    fields = {"id", "query", "response", "contexts"}
    rows.write_text("".join(f"{json.dumps(s.model_dump(mode='json', include=fields))}\n" for s in samples))
    replay_traces([str(rows)], METRICS, store=tmp_path / "sent.db", judge=judge_url)
    sent = values(tmp_path / "sent.db")
    assert N_SAMPLES * len(METRICS) == len(sent)

    report = replay_traces([str(rows)], METRICS, store=tmp_path / "batched.db", judge=judge_url, batch=folder)
    assert report.batch is not None
    [file] = report.batch.files
    command = [
        str(Path(sys.executable).with_name("vllm")),
        *("run-batch", "-i", str(file.path), "-o", str(folder / "results.jsonl")),
        *("--model", str(model_folder), "--served-model-name", "tiny-judge"),
        *("--max-model-len", "2048", "--dtype", "float32", "--enforce-eager"),
        *("--structured-outputs-config", '{"backend": "xgrammar", "disable_any_whitespace": true}'),
    ]
    environment = {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "VLLM_CPU_KVCACHE_SPACE": "1"}
    for _ in range(3):
        # A reply without a number is asked for again, with a constraint.
        done = subprocess.run(
            command, env={**os.environ, **environment}, capture_output=True, text=True, timeout=600, check=False
        )
        assert 0 == done.returncode, done.stdout[-3000:] + done.stderr[-3000:]
        report = replay_traces([str(rows)], METRICS, store=tmp_path / "batched.db", judge=judge_url, batch=folder)
        assert report.batch is not None
        assert 0 == report.batch.n_failed
        if not report.batch.files:
            break
        [file] = report.batch.files
        command[command.index("-i") + 1] = str(file.path)
        command[command.index("-o") + 1] = str(folder / f"results-of-{file.path.name}")
    assert 0 == report.batch.n_waiting + report.batch.n_written
    assert sent == values(tmp_path / "batched.db")
