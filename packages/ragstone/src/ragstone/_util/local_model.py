"""Local models. Each model is loaded once and runs in its own thread, so it does not block the event loop."""

from __future__ import annotations

import asyncio
import importlib.util
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from ragstone._util.fork import after_fork_in_child
from ragstone.errors import ConfigurationError, MissingExtraError

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionalDependency:
    """A package that a metric uses and that is not always installed."""

    module: str
    """Name of the module to import ("sacrebleu")."""
    package: str
    """Name of the package to install ("sacrebleu")."""
    extra: str
    """Extra of Ragstone that installs it ("ragstone[text]")."""


MODELS: Final = OptionalDependency(
    module="sentence_transformers", package="sentence-transformers", extra="ragstone[models]"
)


def check_installed(needed: OptionalDependency, feature: str) -> None:
    """Check that a package is installed. Raise MissingExtraError if it is not installed."""
    if importlib.util.find_spec(needed.module) is None:
        raise MissingExtraError(feature=feature, package=needed.package, extra=needed.extra)


class LocalModel(Generic[T]):
    """A model in this process that only one thread uses, because tokenizers and models are not thread-safe.

    If loading fails, the reason is kept and later calls fail immediately, because each attempt may take minutes (for
    example over a network). `prepare` retries. `load` runs in the model's thread. `name` is that of the model in
    messages, `feature` what needs it.
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
        """Load the model if it is not loaded yet.

        Raise ConfigurationError if the model cannot be loaded or its package is not installed.
        """
        self._refusal = None
        await self.run(lambda _: None)

    async def run(self, work: Callable[[T], R]) -> R:
        """Call `work` with the model in the model's thread, after all earlier calls.

        Raise ConfigurationError if the model cannot be loaded or its package is not installed.
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
            self._model = (self._load_once(),)
        return work(self._model[0])

    def _load_once(self) -> T:
        check_installed(MODELS, self._feature)
        if self._refusal is None:
            try:
                return self._load()
            except ConfigurationError as error:
                self._refusal = f"{self._feature}: {error}"
            except Exception as error:  # noqa: BLE001  hubs, files and models raise many exception types
                message = next((line for line in str(error).splitlines() if line.strip()), "no reason given")
                self._refusal = (
                    f"{self._feature} cannot load its model {self._name!r} ({type(error).__name__}: {message}). Check "
                    "the name. Without a network, pass the directory of a downloaded model"
                )
        raise ConfigurationError(self._refusal)
