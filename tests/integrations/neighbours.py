"""Other tools in the same process: OpenInference, LangSmith and Langfuse, all reporting to loopback; for child processes.

The environment of the process says where they report to (`Collector.settings`), and an audit hook, which nothing in the process
can take back, sees each attempt to reach another machine.
"""

from __future__ import annotations

import ipaddress
import json
import sys
from typing import Any

__all__ = ["Neighbours", "loopback_only", "report"]


def loopback_only() -> list[str]:
    """Refuse connections and look-ups beyond this machine; the list has those that were refused."""
    refused: list[str] = []

    def allowed(host: object) -> bool:
        if host in (None, "", "localhost"):
            return True
        try:
            return ipaddress.ip_address(host.decode() if isinstance(host, bytes) else str(host)).is_loopback
        except ValueError:
            return False

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "socket.getaddrinfo":
            host = arguments[0]
        elif event in ("socket.connect", "socket.sendto") and isinstance(arguments[1], tuple):
            host = arguments[1][0]
        else:
            return
        if not allowed(host):
            refused.append(str(host))
            raise OSError(f"this process reaches nothing but loopback, and tried {host!r}")

    sys.addaudithook(hook)
    return refused


class Neighbours:
    """OpenInference's instrumentations and Langfuse's client, over one provider of tracers."""

    def __init__(self, *, sample: bool = True) -> None:
        from langfuse import Langfuse
        from opentelemetry import trace
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import SimpleSpanProcessor
        from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
        from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON

        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider(sampler=ALWAYS_ON if sample else ALWAYS_OFF)
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        trace.set_tracer_provider(self.provider)
        self.langfuse = Langfuse(tracer_provider=self.provider)
        self.tracer = self.provider.get_tracer("application")

    def instrument(self, framework: str) -> None:
        """Let OpenInference instrument "langchain" or "llama_index"."""
        if framework == "langchain":
            from openinference.instrumentation.langchain import LangChainInstrumentor as Instrumentor
        else:
            from openinference.instrumentation.llama_index import LlamaIndexInstrumentor as Instrumentor
        Instrumentor().instrument(tracer_provider=self.provider)

    def spans(self) -> list[dict[str, Any]]:
        """What was exported."""
        return [
            {
                "name": span.name,
                "scope": span.instrumentation_scope.name,
                "trace_id": f"{span.context.trace_id:032x}",
                "span_id": f"{span.context.span_id:016x}",
                "parent_id": span.parent and f"{span.parent.span_id:016x}",
            }
            for span in self.exporter.get_finished_spans()
        ]


def report(drafts: list[Any], **more: Any) -> None:
    """Print what was recorded, and whatever else, as JSON."""
    rows = [
        {
            "seen": [draft.query, _contexts(draft), draft.response, draft.status],
            "run_id": draft.run_id,
            "name": draft.name,
            "session_id": draft.session_id,
            "otel": [draft.otel_trace_id, draft.otel_span_id, draft.otel_sampled],
            "errors": draft.inner_errors,
        }
        for draft in drafts
    ]
    print(json.dumps({"drafts": rows, **more}))


def _contexts(draft: Any) -> list[str]:
    found = [passage for search in draft.retrievals for passage in search.passages]
    return [passage.text for passage in (found if draft.contexts is None else draft.contexts)]
