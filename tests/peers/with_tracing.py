"""CPU that each tracer adds to a LangChain request: on the request's thread, and in the whole process."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

os.environ |= {"LANGSMITH_TRACING": "false", "OTEL_SDK_DISABLED": "false"}

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnablePassthrough

ROUNDS, CALLS = int(os.environ.get("RAGSTONE_PEERS_ROUNDS", "3")) * 3, 60
HERE = Path(__file__).parent
Run = Callable[[], AbstractContextManager[list[Any]]]
"""Makes the context of a round, which returns the callbacks."""


class Found(BaseRetriever):
    """A retriever that finds four documents of 1.5 kB."""

    documents: list[Document]

    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        return self.documents


class NoOp(BaseCallbackHandler):
    """A handler that takes every event in line, and does nothing."""

    run_inline = True

    def on_chat_model_start(self, serialized: Any, messages: Any, **kwargs: Any) -> None:
        """Take the event."""


def chain() -> Any:
    """Return a chain that retrieves, fills a prompt and answers."""
    documents = [Document(f"{i} " + "word " * 300, metadata={"source": "guide.md", "page": i}) for i in range(4)]
    context = Found(documents=documents) | (lambda found: "\n".join(one.page_content for one in found))
    prompt = ChatPromptTemplate.from_template("{context}\n{question}")
    model = FakeListChatModel(responses=["answer"])
    return {"context": context, "question": RunnablePassthrough()} | prompt | model | StrOutputParser()


def with_ragstone() -> tuple[Run, Callable[[], None]]:
    """Capture into a spool; a worker process would score. Its file is in this empty directory."""
    from langchain_ragstone import RagstoneCallbackHandler
    from ragstone import Monitor

    monitor = Monitor(judge="lexical", metrics=["ccrs"], store="requests.db", scoring="none")
    handler = RagstoneCallbackHandler(monitor)
    return lambda: nullcontext([handler]), monitor.close


def with_langfuse(url: str) -> tuple[Run, Callable[[], None]]:
    """Export spans to a server that accepts everything."""
    from langfuse import Langfuse
    from langfuse.langchain import CallbackHandler
    from opentelemetry.sdk.trace import TracerProvider

    client = Langfuse(public_key="pk", secret_key="sk", base_url=url, tracer_provider=TracerProvider())
    handler = CallbackHandler()
    return lambda: nullcontext([handler]), client.shutdown


def with_langsmith(url: str) -> tuple[Run, Callable[[], None]]:
    """Export runs to a server that accepts everything."""
    from langchain_core.tracers import LangChainTracer
    from langsmith import Client

    batches = {
        "scale_up_qsize_trigger": 1000,
        "scale_up_nthreads_limit": 16,
        "scale_down_nempty_trigger": 4,
        "size_limit": 100,
        "size_limit_bytes": 20_971_520,
        "use_multipart_endpoint": True,
    }
    client = Client(api_url=url, api_key="none", info={"version": "0", "batch_ingest_config": batches})
    tracer = LangChainTracer(client=client)
    return lambda: nullcontext([tracer]), client.flush


def with_openinference(url: str) -> tuple[Run, Callable[[], None]]:
    """Export spans to a server that accepts everything."""
    from openinference.instrumentation.langchain import LangChainInstrumentor
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(f"{url}/v1/traces")))
    instrumentor = LangChainInstrumentor()

    @contextmanager
    def instrumented() -> Iterator[list[Any]]:
        instrumentor.instrument(tracer_provider=provider)
        try:
            yield []
        finally:
            instrumentor.uninstrument()

    return instrumented, provider.shutdown


def main(url: str) -> dict[str, Any]:
    """Measure interleaved rounds."""
    rag = chain()
    tools: dict[str, tuple[Run, Callable[[], None]]] = {
        "none": (lambda: nullcontext([]), lambda: None),
        "a handler that does nothing": (lambda: nullcontext([NoOp()]), lambda: None),
        "ragstone": with_ragstone(),
        "langsmith": with_langsmith(url),
        "langfuse": with_langfuse(url),
        "openinference": with_openinference(url),
    }
    rounds: dict[str, list[tuple[float, float]]] = {name: [] for name in tools}
    for i in range(ROUNDS + 1):
        for name, (around, _) in tools.items():
            with around() as callbacks:
                thread, process = time.thread_time(), time.process_time()
                for _ in range(CALLS):
                    rag.invoke("question", {"callbacks": list(callbacks)})
                thread = time.thread_time() - thread
                time.sleep(1.5)  # exporters send once a second or less
                if i:
                    rounds[name].append((thread, time.process_time() - process))
    for _, close in tools.values():
        close()
    base = rounds["none"]
    rows = []
    for name, found in rounds.items():
        ratios = [statistics.median(one[k] / none[k] for one, none in zip(found, base, strict=True)) for k in (0, 1)]
        rows.append([name, *(f"{ratio:.2f}" for ratio in ratios)])
    return {
        "title": "CPU of a LangChain request, x the same without a tracer",
        "head": ["tracer", "request's thread", "whole process"],
        "rows": rows,
    }


if __name__ == "__main__":
    with subprocess.Popen(
        [sys.executable, str(HERE / "judge.py"), "0"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        print("\n" + json.dumps(main(f"http://127.0.0.1:{int(server.stdout.readline())}")))
        server.stdin.close()
