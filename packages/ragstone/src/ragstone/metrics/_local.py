"""Models that metrics run themselves: loaded once, by a thread of their own, so that no event loop waits for them."""

from __future__ import annotations

import asyncio
import importlib.util
import threading
from abc import abstractmethod
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import Final, Generic, TypeVar

from ragstone._util.fork import after_fork_in_child
from ragstone.errors import ConfigurationError, MissingExtraError
from ragstone.metrics._base import MetricBase
from ragstone.metrics._card import OptionalDependency

__all__ = ["MODELS", "LocalModel", "LocalModelMetric", "check_installed"]

T = TypeVar("T")
R = TypeVar("R")

MODELS: Final = OptionalDependency(
    module="sentence_transformers", package="sentence-transformers", extra="ragstone[models]"
)


def check_installed(needed: OptionalDependency, feature: str) -> None:
    """Refuse what needs a package that is missing.

    Raises:
        MissingExtraError: It is.
    """
    if importlib.util.find_spec(needed.module) is None:
        raise MissingExtraError(feature=feature, package=needed.package, extra=needed.extra)


class LocalModel(Generic[T]):
    """A model in this process, used by one thread: tokenisers and models are not made for several.

    What stopped it from loading is remembered, because trying again (over a network, say) may take minutes each time;
    `prepare` tries again.

    Args:
        load: Makes the model; runs in the thread.
        name: Of the model, in messages.
        feature: What needs it, in messages.
    """

    _executor: ThreadPoolExecutor | None
    _model: tuple[T] | None
    _refusal: str | None
    """Why the model could not be loaded."""

    def __init__(self, load: Callable[[], T], *, name: str, feature: str) -> None:
        self._load = load
        self._name = name
        self._feature = feature
        self._start()
        after_fork_in_child(self._start)

    async def prepare(self) -> None:
        """Load the model, if it is not there.

        Raises:
            ConfigurationError: It cannot be loaded, or its package is not installed.
        """
        self._refusal = None
        await self.run(lambda _: None)

    async def run(self, work: Callable[[T], R]) -> R:
        """What `work` makes of the model; it runs in the model's thread, after what was asked before.

        Raises:
            ConfigurationError: The model cannot be loaded, or its package is not installed.
        """
        return await asyncio.wrap_future(self._thread().submit(self._run, work))

    def _start(self) -> None:
        self._lock = threading.Lock()
        self._executor = self._model = self._refusal = None

    def _thread(self) -> ThreadPoolExecutor:
        with self._lock:
            if self._executor is None:
                self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="ragstone-model")
            return self._executor

    def _run(self, work: Callable[[T], R]) -> R:
        if self._model is None:
            self._model = (self._loaded(),)
        return work(self._model[0])

    def _loaded(self) -> T:
        check_installed(MODELS, self._feature)
        if self._refusal is None:
            try:
                return self._load()
            except ConfigurationError as error:
                self._refusal = f"{self._feature}: {error}"
            except Exception as error:  # noqa: BLE001  hubs, files and models fail in all ways
                said = next((line for line in str(error).splitlines() if line.strip()), "no reason given")
                self._refusal = (
                    f"{self._feature} cannot load its model {self._name!r} ({type(error).__name__}: {said}). Is the name "
                    "right? Without a network give the folder of a model that was downloaded before"
                )
        raise ConfigurationError(self._refusal)


class LocalModelMetric(MetricBase, Generic[T]):
    """A metric with a model of its own, which it loads when it is first used or prepared.

    Args:
        model: A name on the hub, or a folder.
        device: Where it runs ("cpu", "cuda"); None: where its library thinks best.
        argument: What tells the metric's name from that with the default model; "" for the default.
    """

    extra = MODELS

    def __init__(self, model: str, *, device: str | None, argument: str) -> None:
        self.model = model
        self.device = device
        if argument:
            self.name = f"{self.name}@{argument}"

    async def prepare(self) -> None:
        """Load the model before the first sample.

        Raises:
            ConfigurationError: It cannot be loaded, or its package is not installed.
        """
        await self._local.prepare()

    @cached_property
    def _local(self) -> LocalModel[T]:
        return LocalModel(self._load, name=self.model, feature=f"The metric {self.name!r}")

    @abstractmethod
    def _load(self) -> T:
        """The model; runs in its thread."""
