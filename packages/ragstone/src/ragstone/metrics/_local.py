"""Base class of metrics with their own local model."""

from __future__ import annotations

from abc import abstractmethod
from functools import cached_property
from typing import Generic, TypeVar

from ragstone._util.local_model import MODELS, LocalModel
from ragstone.metrics._base import MetricBase

T = TypeVar("T")


class LocalModelMetric(MetricBase, Generic[T]):
    """A metric with its own local model, loaded at first use or by `prepare`.

    `model` is a name on the hub, or a directory. `device` is "cpu" or "cuda", or None if the library chooses.
    """

    extra = MODELS
    unstated = ("device",)

    def __init__(self, model: str, *, device: str | None) -> None:
        self.model = model
        self.device = device

    async def prepare(self) -> None:
        """Load the model before the first sample.

        Raises:
            ConfigurationError: If the model cannot be loaded or its package is not installed.
        """
        await self._local.prepare()

    @cached_property
    def _local(self) -> LocalModel[T]:
        return LocalModel(self._load, name=self.model, feature=f"The metric {self.name!r}")

    @abstractmethod
    def _load(self) -> T:
        """Load the model. Runs in the model's thread."""
