"""Record the applications of `replay_apps` with the real instrumentations, into `data/`.

    python tests/replay/record.py openinference_langchain openinference_llama_index traceloop_langchain \
        traceloop_llama_index langfuse genai
    python tests/replay/record.py phoenix http://127.0.0.1:6006

The second needs a running server of Arize Phoenix, and its client. A recording in a process of its own: what one
instrumentation patches, the next one would find.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

HERE = Path(__file__).parent
DATA = HERE / "data"
sys.path.insert(0, str(HERE))


def openinference_langchain() -> None:
    """JSON, one message a line."""
    from openinference.instrumentation.langchain import LangChainInstrumentor
    from replay_apps import exported, langchain_app

    with exported.recorded(LangChainInstrumentor()) as (_, exporter):
        langchain_app.run_all()
    lines = exported.as_lines(exporter.get_finished_spans())
    (DATA / "openinference_langchain.otlp.jsonl").write_text(lines, encoding="utf-8")


def openinference_llama_index() -> None:
    """One JSON document."""
    from openinference.instrumentation.llama_index import LlamaIndexInstrumentor
    from replay_apps import exported, llama_index_app

    with exported.recorded(LlamaIndexInstrumentor()) as (_, exporter):
        llama_index_app.run_all()
    document = json.dumps(exported.as_json(exporter.get_finished_spans()), indent=1)
    (DATA / "openinference_llama_index.otlp.json").write_text(document, encoding="utf-8")


def traceloop_langchain() -> None:
    """JSON, one message a line."""
    from opentelemetry.instrumentation.langchain import LangchainInstrumentor
    from replay_apps import exported, langchain_app

    with exported.recorded(LangchainInstrumentor()) as (_, exporter):
        langchain_app.run_all()
    lines = exported.as_lines(exporter.get_finished_spans())
    (DATA / "traceloop_langchain.otlp.jsonl").write_text(lines, encoding="utf-8")


def traceloop_llama_index() -> None:
    """JSON, one message a line."""
    from opentelemetry.instrumentation.llamaindex import LlamaIndexInstrumentor
    from replay_apps import exported, llama_index_app

    with exported.recorded(LlamaIndexInstrumentor()) as (_, exporter):
        llama_index_app.run_all()
    lines = exported.as_lines(exporter.get_finished_spans())
    (DATA / "traceloop_llama_index.otlp.jsonl").write_text(lines, encoding="utf-8")


def langfuse() -> None:
    """What Langfuse's SDK sends: protobuf, each body with its length before it."""
    import gzip

    bodies: list[bytes] = []

    class Server(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            if self.path.endswith("/traces"):
                bodies.append(body)
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *args: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Server)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    from langfuse import Langfuse, propagate_attributes
    from langfuse.langchain import CallbackHandler
    from replay_apps import langchain_app

    client = Langfuse(
        public_key="pk-lf-none", secret_key="sk-lf-none", base_url=f"http://127.0.0.1:{server.server_port}"
    )
    with propagate_attributes(session_id="s-1", user_id="u-1", tags=["lighthouse"], metadata={"release": "2.0"}):
        for _, chain, question in langchain_app.requests():
            try:
                chain.invoke(question, {"callbacks": [CallbackHandler()]})
            except RuntimeError:
                continue
    client.flush()
    client.shutdown()
    server.shutdown()
    (DATA / "langfuse.otlp.pb").write_bytes(b"".join(_varint(len(body)) + body for body in bodies))


def _varint(number: int) -> bytes:
    data = bytearray()
    while number > 0x7F:
        data.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*data, number])


def genai() -> None:
    """OpenTelemetry's own convention, set by hand: a server span, a retrieval and a chat, one after the other."""
    from replay_apps import exported

    with exported.recorded() as (provider, exporter):
        tracer = provider.get_tracer("lighthouse")
        with tracer.start_as_current_span("POST /ask", attributes={"http.request.method": "POST"}):
            with tracer.start_as_current_span("retrieval shelf") as span:
                documents = [
                    {"id": "doc-3", "score": 0.875, "content": "The north tower of the lighthouse is 41 metres high."},
                    {
                        "id": "doc-9",
                        "score": 0.5,
                        "content": "Its stairs have 196 steps, the lift stops at the gallery.",
                    },
                ]
                span.set_attributes(
                    {
                        "gen_ai.operation.name": "retrieval",
                        "gen_ai.retrieval.query.text": "How high is the north tower?",
                        "gen_ai.retrieval.documents": json.dumps(documents),
                    }
                )
            with tracer.start_as_current_span("chat keeper-1") as span:
                shown = "\n".join(document["content"] for document in documents)
                text = f"Context:\n{shown}\nHow high is it?"
                given = [{"role": "user", "parts": [{"type": "text", "content": text}]}]
                got = [
                    {"role": "assistant", "parts": [{"type": "text", "content": "The north tower is 41 metres high."}]}
                ]
                span.set_attributes(
                    {
                        "gen_ai.operation.name": "chat",
                        "gen_ai.request.model": "keeper-1",
                        "gen_ai.conversation.id": "s-1",
                        "gen_ai.usage.input_tokens": 40,
                        "gen_ai.usage.output_tokens": 9,
                        "gen_ai.input.messages": json.dumps(given),
                        "gen_ai.output.messages": json.dumps(got),
                    }
                )
        with tracer.start_as_current_span("GET /health", attributes={"http.request.method": "GET"}):
            pass
    lines = exported.as_lines(exporter.get_finished_spans())
    logs = json.dumps({"resourceLogs": [{"scopeLogs": [{"logRecords": [{"eventName": "gen_ai.evaluation.result"}]}]}]})
    (DATA / "genai.otlp.jsonl").write_text(lines + logs + "\n", encoding="utf-8")


def phoenix(url: str) -> None:
    """Send what OpenInference recorded to a server of Phoenix, and export it as JSON and as Parquet."""
    import urllib.request

    from openinference.instrumentation.langchain import LangChainInstrumentor
    from phoenix.client import Client
    from replay_apps import exported, langchain_app

    with exported.recorded(LangChainInstrumentor()) as (_, exporter):
        langchain_app.run_all()
    request = urllib.request.Request(  # noqa: S310 - the address of whoever records
        f"{url}/v1/traces",
        exported.as_protobuf(exporter.get_finished_spans()),
        {"Content-Type": "application/x-protobuf"},
    )
    urllib.request.urlopen(request).close()  # noqa: S310
    n_spans = len(exporter.get_finished_spans())
    for _ in range(100):
        with urllib.request.urlopen(f"{url}/v1/projects/default/spans?limit=1000") as reply:  # noqa: S310
            page = json.load(reply)
        if len(page["data"]) >= n_spans:
            break
        time.sleep(0.2)
    (DATA / "phoenix_spans.json").write_text(json.dumps(page, indent=1), encoding="utf-8")
    frame = Client(base_url=url).spans.get_spans_dataframe(project_identifier="default", limit=1000)
    frame.to_parquet(DATA / "phoenix_spans.parquet")


if __name__ == "__main__":
    DATA.mkdir(exist_ok=True)
    names = sys.argv[1:]
    if names[0] == "phoenix":
        phoenix(names[1])
    elif len(names) == 1:
        globals()[names[0]]()
    else:
        for name in names:
            subprocess.run([sys.executable, __file__, name], check=True, env=os.environ)
