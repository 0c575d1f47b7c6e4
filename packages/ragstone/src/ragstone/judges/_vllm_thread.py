"""A vLLM engine in this process: one thread that owns it, and batches made of what many tasks ask at the same time."""

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

__all__ = ["EngineThread", "Job", "engine_for", "is_refusal", "unload"]

_GATHER_S: Final = 0.002
"""Seconds to wait for company after the first question; much less than one pass through any model."""
_MAX_SEQUENCES: Final = 512
"""Sequences in one batch: enough to fill an engine (vLLM runs 256 at once by default), few enough to stop in time."""
_JOIN_S: Final = 10.0


@dataclass(slots=True, eq=False, kw_only=True)
class Job:
    """Token-id prompts with their sampling parameters; all of them succeed, or the job fails."""

    prompts: Sequence[Sequence[int]]
    params: Sequence[Any]
    """`vllm.SamplingParams`, one for each prompt."""
    reads: bool
    """Whether the parameters ask for tokens by id (`logprob_token_ids`)."""
    future: Future[list[Any]] = field(default_factory=Future)
    """`vllm.RequestOutput`s, one for each prompt. Cancelling it before the batch starts drops the job."""

    @property
    def n_sequences(self) -> int:
        """Replies that the job makes the engine write."""
        return sum(params.n for params in self.params)


class EngineThread:
    """Owns one `vllm.LLM`: loads it, asks it, and is the only thread that touches it.

    What arrives while a batch runs makes the next batch, so the more tasks ask at once the larger the batches. A batch
    lasts as long as its longest reply.

    Args:
        load: Makes the engine; runs in the thread. What it returns has `generate(prompts, params, use_tqdm=...)`.
        described: Its name in messages.
    """

    def __init__(self, load: Callable[[], Any], described: str) -> None:
        self._load = load
        self._described = described
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._loaded: Future[Any] = Future()
        self._broken: str | None = None
        self._thread = threading.Thread(target=self._run, name=f"ragstone-vllm-{described}", daemon=True)
        self._thread.start()

    @property
    def loaded(self) -> Future[Any]:
        """The engine, once it is there; whatever stopped it from loading otherwise. Not to be cancelled."""
        return self._loaded

    @property
    def usable(self) -> bool:
        """Whether a question has a chance: not stopped, not broken, not failed to load."""
        return self._broken is None

    def ask(self, job: Job) -> None:
        """Queue a job; its future tells the outcome."""
        self._jobs.put(job)
        # The thread may have drained the queue for the last time between the caller's look and now.
        if self._broken is not None:
            self._refuse_queued()

    def stop(self) -> None:
        """Refuse what waits, let the running batch finish, and let go of the engine."""
        self._broken = self._broken or "it was unloaded"
        self._jobs.put(None)
        if self._thread is not threading.current_thread():
            self._thread.join(_JOIN_S)

    def _run(self) -> None:
        try:
            engine = self._load()
        except BaseException as error:  # noqa: BLE001  whoever waits must be told, also of a SystemExit in vLLM
            self._broken = f"it could not be loaded ({_error_text(error)})"
            self._loaded.set_exception(ConfigurationError(f"{self._described}: {self._broken}"))
            self._refuse_queued()
            return
        self._loaded.set_result(engine)
        while self._broken is None:
            first = self._jobs.get()
            if first is None:
                break
            gathered = self._gathered(first)
            # vLLM 0.32 gives no top log-probabilities to requests that share a step with one that asks by token id.
            for reads in (True, False):
                batch = [job for job in gathered if job.reads == reads]
                if batch:
                    self._generate(engine, batch)
        self._broken = self._broken or "it was unloaded"
        self._refuse_queued()
        # What still holds the engine: the future that the models look at.
        self._loaded = Future()
        self._loaded.set_exception(ConfigurationError(f"{self._described}: {self._broken}"))

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
        wanted = [job for job in jobs if job.future.set_running_or_notify_cancel()]
        if self._broken is not None:
            for job in wanted:
                job.future.set_exception(self._unavailable())
        elif wanted:
            self._answer(engine, wanted)

    def _answer(self, engine: Any, jobs: Sequence[Job]) -> None:
        prompts = [{"prompt_token_ids": list(prompt)} for job in jobs for prompt in job.prompts]
        params = [each for job in jobs for each in job.params]
        try:
            outputs = engine.generate(prompts, params, use_tqdm=False)
        except BaseException as error:  # noqa: BLE001  the tasks that wait must be told
            if is_refusal(error):
                # The engine looks at all requests before it runs any, and only one of them is at fault.
                self._answer_each(engine, jobs, error)
                return
            self._broken = f"the engine failed ({_error_text(error)}) and does not recover; start the program again"
        else:
            if len(outputs) == len(prompts):
                at = 0
                for job in jobs:
                    job.future.set_result(outputs[at : at + len(job.prompts)])
                    at += len(job.prompts)
                return
            self._broken = f"the engine gave {len(outputs)} outputs for {len(prompts)} prompts; start the program again"
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
    """Whether vLLM refuses a request, as against failing at it. Its own error for that is no `ValueError`."""
    return isinstance(error, ValueError) or any(kind.__name__ == "VLLMClientError" for kind in type(error).__mro__)


def _error_text(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:500]}"


_engines: dict[str, EngineThread] = {}
_engines_lock = threading.Lock()


def engine_for(model: str, engine_args: Mapping[str, Any]) -> EngineThread:
    """The engine of a model with these arguments: one a process, loaded by the first to ask for it."""
    key = _key(model, engine_args)
    with _engines_lock:
        engine = _engines.get(key)
        if engine is None:
            engine = EngineThread(lambda: _load(model, engine_args), f"vLLM with {model}")
            _engines[key] = engine
            # A model that could not be loaded (no memory, a typing error since mended) may be tried again.
            engine.loaded.add_done_callback(lambda loaded: _forget(key, engine) if loaded.exception() else None)
    return engine


def unload(model: str, engine_args: Mapping[str, Any]) -> None:
    """Let go of an engine, for everybody who uses it. A later question loads it anew.

    Engines that live in this very process share state that vLLM tears down with the first of them, so all go together.
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
    # In a process of its own the engine starts six times slower, needs a gigabyte more, and answers no faster; and
    # a script without `if __name__ == "__main__"` would start itself again.
    os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
    # vLLM logs to standard output, which belongs to our caller's reports.
    os.environ.setdefault("VLLM_LOGGING_STREAM", "ext://sys.stderr")
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "WARNING")
    import numpy as np

    # In this process vLLM seeds everybody's random numbers with its own seed, and its import draws some.
    plain, arrays = random.getstate(), np.random.get_state()  # noqa: NPY002  the state that others share
    from vllm import LLM
    from vllm.platforms import current_platform

    # Where white space between the parts of a JSON value is allowed, weak models write nothing else up to the limit. vLLM
    # takes this setting for a named backend alone, and this is the one it would try first.
    compact = {"backend": "xgrammar", "disable_any_whitespace": True}
    defaults: dict[str, Any] = {"enable_prefix_caching": True, "structured_outputs_config": compact}
    if current_platform.is_cpu():
        # A seeded request whose prompt is read in pieces kills vLLM 0.32 on CPUs.
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
    """A forked child has none of the threads, and the lock as it happened to be."""
    global _engines_lock  # noqa: PLW0603
    _engines_lock = threading.Lock()
    _engines.clear()


atexit.register(_stop_all)
after_fork_in_child(_reset_after_fork)
