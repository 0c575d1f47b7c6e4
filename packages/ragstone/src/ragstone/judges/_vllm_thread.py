"""vLLM engine in this process: one thread owns it, and concurrent calls of many tasks form batches."""

from __future__ import annotations

import atexit
import json
import os
import queue
import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Final

from ragstone._util.fork import after_fork_in_child
from ragstone.errors import ConfigurationError, JudgeRejectedError, JudgeUnavailableError

_GATHER_S: Final = 0.002
"""Seconds to wait for more jobs after the first one. Much less than one forward pass of any model."""
_MAX_SEQUENCES: Final = 512
"""Maximum number of sequences in one batch.

It is enough to use an engine fully (by default vLLM runs 256 concurrently), and small enough to stop in time.
"""
_JOIN_S: Final = 10.0


@dataclass(slots=True, eq=False, kw_only=True)
class Job:
    """Token-id prompts with their sampling parameters. The job fails if one of them does."""

    prompts: Sequence[Sequence[int]]
    params: Sequence[Any]
    """`vllm.SamplingParams`, one for each prompt."""
    reads: bool
    """Whether the parameters request tokens by id (`logprob_token_ids`)."""
    future: Future[list[Any]] = field(default_factory=Future)
    """`vllm.RequestOutput`s, one for each prompt. Canceling it before the batch starts drops the job."""

    @property
    def n_sequences(self) -> int:
        """Number of replies that the job generates."""
        return sum(params.n for params in self.params)


class EngineThread:
    """Owns one `vllm.LLM`: this thread loads and calls it, and no other thread uses it.

    Jobs that arrive while a batch runs form the next batch, so more concurrent tasks make larger batches. A batch takes
    as long as its longest reply.
    """

    def __init__(self, load: Callable[[], Any], described: str) -> None:
        self._load = load
        self._described = described
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self.loaded: Future[Any] = Future()
        """The engine when it is loaded, or the exception of loading it. Do not cancel it."""
        self._broken: str | None = None
        self._thread = threading.Thread(target=self._run, name=f"ragstone-vllm-{described}", daemon=True)
        self._thread.start()

    def ask(self, job: Job) -> None:
        """Queue a job. Its future gets the result."""
        self._jobs.put(job)
        # The thread may have emptied the queue for the last time after the caller's check.
        if self._broken is not None:
            self._refuse_queued()

    def stop(self) -> None:
        """Reject waiting jobs, let the running batch finish, and release the engine."""
        self._broken = self._broken or "it was unloaded"
        self._jobs.put(None)
        if self._thread is not threading.current_thread():
            self._thread.join(_JOIN_S)

    def _run(self) -> None:
        try:
            engine = self._load()
        except BaseException as error:  # noqa: BLE001  waiting callers need every error, also a SystemExit of vLLM
            self._broken = f"it could not be loaded ({_error_text(error)})"
            self.loaded.set_exception(ConfigurationError(f"{self._described}: {self._broken}"))
            self._refuse_queued()
            return
        self.loaded.set_result(engine)
        while self._broken is None:
            first = self._jobs.get()
            if first is None:
                break
            gathered = self._gathered(first)
            # vLLM 0.32 returns no top log-probabilities for requests that share a step with one for tokens by id.
            for reads in (True, False):
                batch = [job for job in gathered if job.reads == reads]
                if batch:
                    self._generate(engine, batch)
        self._broken = self._broken or "it was unloaded"
        self._refuse_queued()
        # The models read this future, which is the last reference to the engine.
        self.loaded = Future()
        self.loaded.set_exception(ConfigurationError(f"{self._described}: {self._broken}"))

    def _gathered(self, first: Job) -> list[Job]:
        jobs, n_sequences = [first], first.n_sequences
        time.sleep(_GATHER_S)
        while n_sequences < _MAX_SEQUENCES:
            try:
                job = self._jobs.get_nowait()
            except queue.Empty:
                break
            if job is None:
                self._jobs.put(None)
                break
            jobs.append(job)
            n_sequences += job.n_sequences
        return jobs

    def _generate(self, engine: Any, jobs: Sequence[Job]) -> None:
        active = [job for job in jobs if job.future.set_running_or_notify_cancel()]
        if self._broken is not None:
            for job in active:
                job.future.set_exception(self._unavailable())
        elif active:
            self._answer(engine, active)

    def _answer(self, engine: Any, jobs: Sequence[Job]) -> None:
        prompts = [{"prompt_token_ids": list(prompt)} for job in jobs for prompt in job.prompts]
        params = [each for job in jobs for each in job.params]
        try:
            outputs = engine.generate(prompts, params, use_tqdm=False)
        except BaseException as error:  # noqa: BLE001  the waiting tasks need the error
            if is_refusal(error):
                # The engine validates all requests before it runs any, and only one of them is invalid.
                self._answer_each(engine, jobs, error)
                return
            self._broken = f"the engine failed ({_error_text(error)}) and cannot recover. Restart the program"
        else:
            if len(outputs) == len(prompts):
                at = 0
                for job in jobs:
                    job.future.set_result(outputs[at : at + len(job.prompts)])
                    at += len(job.prompts)
                return
            self._broken = f"the engine returned {len(outputs)} outputs for {len(prompts)} prompts. Restart the program"
        for job in jobs:
            job.future.set_exception(self._unavailable())

    def _answer_each(self, engine: Any, jobs: Sequence[Job], error: BaseException) -> None:
        if len(jobs) == 1:
            jobs[0].future.set_exception(JudgeRejectedError(f"{self._described}: {_error_text(error)}"))
            return
        for job in jobs:
            if self._broken is None:
                self._answer(engine, [job])
            else:
                job.future.set_exception(self._unavailable())

    def _refuse_queued(self) -> None:
        while True:
            try:
                job = self._jobs.get_nowait()
            except queue.Empty:
                return
            if job is not None and job.future.set_running_or_notify_cancel():
                job.future.set_exception(self._unavailable())

    def _unavailable(self) -> JudgeUnavailableError:
        return JudgeUnavailableError(f"{self._described}: {self._broken}")


def is_refusal(error: BaseException) -> bool:
    """Return whether vLLM rejects a request, in contrast to a failure. Its exception for that is not a `ValueError`."""
    return isinstance(error, ValueError) or any(kind.__name__ == "VLLMClientError" for kind in type(error).__mro__)


def _error_text(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:500]}"


_engines: dict[str, EngineThread] = {}
_engines_lock = threading.Lock()


def engine_for(model: str, engine_args: Mapping[str, Any]) -> EngineThread:
    """Return the engine of a model with these arguments. There is one per process, which the first call loads."""
    key = _key(model, engine_args)
    with _engines_lock:
        if (known := _engines.get(key)) is not None:
            return known
        engine = _engines[key] = EngineThread(lambda: _load(model, engine_args), f"vLLM with {model}")
    # A model that could not be loaded (no memory, a wrong name) may be tried again. Without the lock: if loading has failed
    # already, the function is called here and takes it.
    engine.loaded.add_done_callback(lambda loaded: _forget(key, engine) if loaded.exception() else None)
    return engine


def unload(model: str, engine_args: Mapping[str, Any]) -> None:
    """Unload an engine for all its users. A later call loads it again.

    Engines in the same process share state that vLLM deletes with the first of them, so all of them are unloaded.
    """
    with _engines_lock:
        key = _key(model, engine_args)
        alone = os.environ.get("VLLM_ENABLE_V1_MULTIPROCESSING", "0") != "0"
        keys = [each for each in _engines if each == key or not alone] if key in _engines else []
        gone = [_engines.pop(each) for each in keys]
    for engine in gone:
        engine.stop()


def _forget(key: str, engine: EngineThread) -> None:
    with _engines_lock:
        if _engines.get(key) is engine:
            del _engines[key]


def _key(model: str, engine_args: Mapping[str, Any]) -> str:
    return json.dumps([model, dict(engine_args)], sort_keys=True, default=repr)


def _load(model: str, engine_args: Mapping[str, Any]) -> Any:
    # In a separate process the engine starts six times slower, needs a gigabyte more and is not faster. A script
    # without `if __name__ == "__main__"` would also start itself again.
    os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
    # vLLM logs to standard output, which is for reports of the caller.
    os.environ.setdefault("VLLM_LOGGING_STREAM", "ext://sys.stderr")
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "WARNING")
    import numpy as np

    # In this process vLLM seeds the global random generators, and its import draws from them.
    plain, arrays = random.getstate(), np.random.get_state()  # noqa: NPY002  the global state
    from vllm import LLM
    from vllm.platforms import current_platform

    # If whitespace between the parts of a JSON value is allowed, weak models generate only whitespace up to the limit.
    # vLLM supports this setting only with a named backend. This is the one it would try first.
    compact = {"backend": "xgrammar", "disable_any_whitespace": True}
    defaults: dict[str, Any] = {"enable_prefix_caching": True, "structured_outputs_config": compact}
    if current_platform.is_cpu():
        # On CPUs, a seeded request whose prompt is processed in chunks crashes vLLM 0.32.
        defaults["enable_chunked_prefill"] = False
    try:
        return LLM(model=model, **{**defaults, **engine_args})
    finally:
        random.setstate(plain)
        np.random.set_state(arrays)  # noqa: NPY002


def _stop_all() -> None:
    with _engines_lock:
        engines = list(_engines.values())
        _engines.clear()
    for engine in engines:
        engine.stop()


def _reset_after_fork() -> None:
    """Reset the state in a forked child, which has none of the threads, and a lock in an unknown state."""
    global _engines_lock  # noqa: PLW0603
    _engines_lock = threading.Lock()
    _engines.clear()


atexit.register(_stop_all)
after_fork_in_child(_reset_after_fork)
