"""LlamaIndex's spans, handed to the requests they belong to."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from llama_index.core.instrumentation.span import BaseSpan
from llama_index.core.instrumentation.span_handlers import BaseSpanHandler

from llama_index.observability.ragstone._requests import RequestTracker

__all__ = ["RagstoneSpanHandler"]


class RagstoneSpanHandler(BaseSpanHandler[BaseSpan]):
    """Hears where each span begins and ends; keeps none itself."""

    if TYPE_CHECKING:
        requests: RequestTracker

    def __init__(self, requests: RequestTracker) -> None:
        super().__init__()
        # Past pydantic, whose private attributes cost microseconds at every look.
        self.__dict__["requests"] = requests

    @classmethod
    def class_name(cls) -> str:
        """The name LlamaIndex knows it by."""
        return "RagstoneSpanHandler"

    def span_enter(
        self,
        id_: str,
        bound_args: inspect.BoundArguments,
        instance: Any | None = None,
        parent_id: str | None = None,
        tags: dict[str, Any] | None = None,
        **kwargs: Any,  # noqa: ARG002 - LlamaIndex's signature
    ) -> None:
        """A span begins."""
        self.requests.enter(id_, bound_args.arguments, instance, parent_id, tags)

    def span_exit(
        self,
        id_: str,
        bound_args: inspect.BoundArguments,  # noqa: ARG002
        instance: Any | None = None,
        result: Any | None = None,
        **kwargs: Any,  # noqa: ARG002
    ) -> None:
        """A span has returned."""
        self.requests.exit(id_, instance, result)

    def span_drop(
        self,
        id_: str,
        bound_args: inspect.BoundArguments,  # noqa: ARG002
        instance: Any | None = None,  # noqa: ARG002
        err: BaseException | None = None,
        **kwargs: Any,  # noqa: ARG002
    ) -> None:
        """A span has raised."""
        self.requests.drop(id_, err)

    def close(self) -> None:
        """The application shuts its dispatcher down: nothing that is in flight will end."""
        self.requests.leave()

    # What the base class would call to keep spans of its own.

    def new_span(self, *args: Any, **kwargs: Any) -> None:
        """Keep nothing."""

    def prepare_to_exit_span(self, *args: Any, **kwargs: Any) -> None:
        """Keep nothing."""

    def prepare_to_drop_span(self, *args: Any, **kwargs: Any) -> None:
        """Keep nothing."""
