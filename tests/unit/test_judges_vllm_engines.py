"""The engines of a process: one for each model, and none that could not be loaded."""

from __future__ import annotations

from concurrent.futures import Future

import pytest

from ragstone.judges import _vllm_thread as engines


class Failing:
    """An engine whose loading has failed before anybody could ask."""

    def __init__(self, *_: object) -> None:
        self.loaded: Future[None] = Future()
        self.loaded.set_exception(ValueError("no such model"))


class Loading:
    """An engine that is being loaded."""

    def __init__(self, *_: object) -> None:
        self.loaded: Future[None] = Future()


@pytest.fixture(autouse=True)
def _no_engines(monkeypatch):
    monkeypatch.setattr(engines, "_engines", {})


def test_a_model_that_failed_at_once_is_forgotten(monkeypatch):
    """The next call tries again, and none of them waits for itself."""
    monkeypatch.setattr(engines, "EngineThread", Failing)

    first, second = engines.engine_for("m", {}), engines.engine_for("m", {})

    assert first is not second
    assert {} == engines._engines


def test_a_model_that_fails_later_is_forgotten(monkeypatch):
    """While it is loaded, all callers share it."""
    monkeypatch.setattr(engines, "EngineThread", Loading)

    first, second = engines.engine_for("m", {}), engines.engine_for("m", {})
    assert first is second
    first.loaded.set_exception(ValueError("no memory"))

    assert {} == engines._engines
