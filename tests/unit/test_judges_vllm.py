"""What surrounds the vLLM engine of this process: batches, cancellation, trouble. The engine itself: `nox -s vllm`."""

from __future__ import annotations

import asyncio
import importlib.util
import subprocess
import sys
import threading
from concurrent.futures import wait
from types import SimpleNamespace

import pytest

from ragstone.errors import ConfigurationError, JudgeRejectedError, JudgeUnavailableError, MissingExtraError
from ragstone.judges import VllmModel, judge_from
from ragstone.judges._vllm_thread import EngineThread, Job


class VLLMClientError(Exception):
    """Named as vLLM names what it refuses."""


class Engine:
    """Answers a prompt with its sum. 13 is refused, 66 kills; it can be held at its first batch."""

    def __init__(self):
        self.batches = []
        self.threads = set()
        self.entered, self.released = threading.Event(), threading.Event()
        self.released.set()

    def generate(self, prompts, params, *, use_tqdm):
        self.entered.set()
        assert self.released.wait(10)
        self.threads.add(threading.current_thread().name)
        ids = [prompt["prompt_token_ids"] for prompt in prompts]
        self.batches.append(ids)
        if [13] in ids:
            raise VLLMClientError("13 is no token")
        if [66] in ids:
            raise RuntimeError("out of memory")
        return [sum(each) for each in ids]


def job(*prompts, reads=False):
    """A job of prompts of one reply each."""
    return Job(prompts=prompts, params=[SimpleNamespace(n=1)] * len(prompts), reads=reads)


def started(engine):
    """A thread on `engine`."""
    return EngineThread(lambda: engine, "vLLM with fake")


def held(thread, engine):
    """Keep the engine busy with a first job, until `engine.released` is set."""
    engine.released.clear()
    first = job([0])
    thread.ask(first)
    assert engine.entered.wait(10)
    return first


def test_what_waits_becomes_one_batch():
    """Fifty jobs that arrive while the engine is busy are asked in one go, each getting its own answers, in one thread."""
    engine = Engine()
    thread = started(engine)
    first = held(thread, engine)
    jobs = [job([n], [n, 1]) for n in range(1, 51) if n != 13]
    for each in jobs:
        thread.ask(each)
    engine.released.set()
    assert [[n, n + 1] for n in range(1, 51) if n != 13] == [each.future.result(10) for each in jobs]
    assert [0] == first.future.result(10)
    assert [1, 98] == [len(batch) for batch in engine.batches]
    assert {"ragstone-vllm-vLLM with fake"} == engine.threads
    thread.stop()


def test_reads_and_replies_do_not_mix():
    """Requests for tokens by id run apart from the others: in one step with them vLLM withholds top log-probabilities."""
    engine = Engine()
    thread = started(engine)
    held(thread, engine)
    jobs = [job([n], reads=bool(n % 2)) for n in range(1, 7)]
    for each in jobs:
        thread.ask(each)
    engine.released.set()
    wait([each.future for each in jobs], 10)
    assert [[[0]], [[1], [3], [5]], [[2], [4], [6]]] == engine.batches
    thread.stop()


def test_a_refused_request_fails_alone():
    """Its batch mates get their answers."""
    engine = Engine()
    thread = started(engine)
    held(thread, engine)
    good, bad, other = job([1]), job([13]), job([2])
    for each in (good, bad, other):
        thread.ask(each)
    engine.released.set()
    assert ([1], [2]) == (good.future.result(10), other.future.result(10))
    with pytest.raises(JudgeRejectedError, match="13 is no token"):
        bad.future.result(10)
    thread.stop()


def test_a_cancelled_job_is_dropped():
    """What was canceled before its batch began is never asked."""
    engine = Engine()
    thread = started(engine)
    held(thread, engine)
    gone, kept = job([5]), job([6])
    thread.ask(gone)
    thread.ask(kept)
    assert gone.future.cancel()
    engine.released.set()
    assert [6] == kept.future.result(10)
    assert [[[0]], [[6]]] == engine.batches
    thread.stop()


def test_a_cancelled_task_leaves_the_others():
    """A task that gives up while its batch runs takes no one with it."""
    engine = Engine()
    thread = started(engine)

    async def session():
        engine.released.clear()
        gone, kept = job([1]), job([2])
        thread.ask(gone)
        task = asyncio.ensure_future(asyncio.wrap_future(gone.future))
        await asyncio.to_thread(engine.entered.wait, 10)
        thread.ask(kept)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        engine.released.set()
        return await asyncio.wrap_future(kept.future)

    assert [2] == asyncio.run(session())
    thread.stop()


def test_a_dead_engine_says_so():
    """All of its batch fail, and so does every later job, with the reason and the way out."""
    engine = Engine()
    thread = started(engine)
    held(thread, engine)
    jobs = [job([1]), job([66])]
    for each in jobs:
        thread.ask(each)
    engine.released.set()
    wait([each.future for each in jobs], 10)
    later = job([3])
    thread.ask(later)
    for each in (*jobs, later):
        with pytest.raises(JudgeUnavailableError, match=r"out of memory.*Restart the program"):
            each.future.result(10)


def test_stopping_refuses_what_waits():
    """The running batch ends well; those behind it are told; stopping twice is stopping."""
    engine = Engine()
    thread = started(engine)
    first = held(thread, engine)
    behind = job([4])
    thread.ask(behind)
    threading.Timer(0.05, engine.released.set).start()
    thread.stop()
    thread.stop()
    assert [0] == first.future.result(10)
    with pytest.raises(JudgeUnavailableError, match="unloaded"):
        behind.future.result(10)


def test_an_engine_that_does_not_load():
    """Whoever waits hears why, as the mistake of configuration that it is."""

    def load():
        raise OSError("no such model")

    thread = EngineThread(load, "vLLM with nothing")
    with pytest.raises(ConfigurationError, match="no such model"):
        thread.loaded.result(10)
    late = job([1])
    thread.ask(late)
    with pytest.raises(JudgeUnavailableError, match="no such model"):
        late.future.result(10)


@pytest.mark.skipif(importlib.util.find_spec("vllm") is not None, reason="vLLM is installed here")
def test_without_vllm():
    """The message carries the install line."""
    with pytest.raises(MissingExtraError, match=r"pip install 'ragstone\[vllm\]'"):
        judge_from("vllm:Qwen/Qwen3-8B")


def test_arguments_in_the_name(monkeypatch):
    """Arguments of the engine may follow the model, typed as they look."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: SimpleNamespace())
    judge = judge_from("vllm:org/model?max_model_len=2048&dtype=float32&enforce_eager=true")
    made = VllmModel("org/model", max_model_len=2048, dtype="float32", enforce_eager=True)
    assert (repr(made), made.settings) == (repr(judge.model), judge.model.settings)


def test_a_process_with_an_engine_ends():
    """A thread that still waits for questions does not hold up the end of the process."""
    code = (
        "from ragstone.judges import _vllm_thread as t\n"
        "t._load = lambda model, engine_args: object()\n"
        "print(t.engine_for('m', {}) is t.engine_for('m', {}), t.engine_for('m', {'a': 1}) is t.engine_for('m', {}))"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert "True False\n" == ended.stdout
