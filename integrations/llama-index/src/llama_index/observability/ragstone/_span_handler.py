"""LlamaIndex's spans, handed to the requests they belong to."""

from __future__ import annotations

import inspect
from typing import Any

from llama_index.core.instrumentation.span import BaseSpan
from llama_index.core.instrumentation.span_handlers import BaseSpanHandler

from llama_index.observability.ragstone._requests import Handler


class RagstoneSpanHandler(Handler, BaseSpanHandler[BaseSpan]):
    """Hands the beginning and the end of each span to its request, and keeps none. Its methods never raise."""

    def span_enter(
        self,
        id_: str,
        bound_args: inspect.BoundArguments,
        instance: Any | None = None,
        parent_id: str | None = None,
        tags: dict[str, Any] | None = None,
        **kwargs: Any,  # noqa: ARG002 - LlamaIndex's signature
    ) -> None:
        """Begin a span."""
        try:
            self.requests.enter(id_, bound_args.arguments, instance, parent_id, tags)
        except Exception as error:  # noqa: BLE001 - the application must continue after any error
            self.requests.count_error("enter", error)

    def span_exit(
        self,
        id_: str,
        bound_args: inspect.BoundArguments,  # noqa: ARG002
        instance: Any | None = None,
        result: Any | None = None,
        **kwargs: Any,  # noqa: ARG002
    ) -> None:
        """End a span that has returned."""
        try:
            self.requests.exit(id_, instance, result)
        except Exception as error:  # noqa: BLE001
            self.requests.count_error("exit", error)

    def span_drop(
        self,
        id_: str,
        bound_args: inspect.BoundArguments,  # noqa: ARG002
        instance: Any | None = None,  # noqa: ARG002
        err: BaseException | None = None,
        **kwargs: Any,  # noqa: ARG002
    ) -> None:
        """End a span that has raised."""
        self.requests.drop(id_, err)

    def close(self) -> None:
        """Give up what is in flight, because the application shuts its dispatcher down."""
        self.requests.leave()

    # The base class would call these to keep spans of its own.

    def new_span(self, *args: Any, **kwargs: Any) -> None:
        """Keep nothing."""

    def prepare_to_exit_span(self, *args: Any, **kwargs: Any) -> None:
        """Keep nothing."""

    def prepare_to_drop_span(self, *args: Any, **kwargs: Any) -> None:
        """Keep nothing."""
