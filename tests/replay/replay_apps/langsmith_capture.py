"""A stand-in for LangSmith's API on loopback that keeps the runs its SDK sends."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from langchain_core.tracers.langchain import LangChainTracer
from langsmith import Client

# Plain JSON instead of compressed multipart: the runs are the same. Few runs in a message, so that most runs end in another
# message than they started in.
_INFO = {
    "version": "0.12.0",
    "batch_ingest_config": {
        "use_multipart_endpoint": False,
        "size_limit": 7,
        "size_limit_bytes": 20_000_000,
        "scale_up_nthreads_limit": 4,
        "scale_up_qsize_trigger": 1000,
        "scale_down_nempty_trigger": 4,
    },
}


def _said(part: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in part.items() if value is not None}


@contextmanager
def captured(project: str) -> Iterator[tuple[LangChainTracer, dict[str, dict[str, Any]]]]:
    """LangSmith's tracer, and the runs by id that have been sent when the block is left."""
    runs: dict[str, dict[str, Any]] = {}
    patches: dict[str, dict[str, Any]] = {}
    lock = threading.Lock()

    class Server(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer(_INFO)

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with lock:
                # The SDK's queue sends the end of a run before its start if both wait in it: the end wins in any order.
                for part in body.get("post", ()):
                    runs.setdefault(part["id"], {}).update(_said(part) | patches.get(part["id"], {}))
                for part in body.get("patch", ()):
                    patches.setdefault(part["id"], {}).update(_said(part))
                    runs.setdefault(part["id"], {}).update(_said(part))
            self._answer({})

        def _answer(self, value: Any) -> None:
            body = json.dumps(value).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    client = Client(api_url=f"http://127.0.0.1:{server.server_port}", api_key="none")
    try:
        yield LangChainTracer(client=client, project_name=project), runs
        client.flush()
    finally:
        client.cleanup()
        server.shutdown()
        server.server_close()
