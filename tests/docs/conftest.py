"""What the documentation takes for granted: a judge at localhost:8000, a file of samples, a chain and a question."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest


class _Judge(BaseHTTPRequestHandler):
    """The least an OpenAI-compatible server can be: one model, which says 75 to everything."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self._reply({"object": "list", "data": [{"id": "documented", "object": "model"}]})

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        message = {"role": "assistant", "content": "75"}
        self._reply(
            {
                "id": "1",
                "object": "chat.completion",
                "created": 0,
                "model": "documented",
                "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
                "usage": {"prompt_tokens": 10, "completion_tokens": 1, "total_tokens": 11},
            }
        )

    def _reply(self, body):
        data = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *args):
        pass


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    # Connections that a client keeps open must not keep the tests waiting.
    block_on_close = False


@pytest.fixture(scope="session")
def judge_url():
    """The address of a judge for the documentation."""
    with _Server(("127.0.0.1", 0), _Judge) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/v1"
        server.shutdown()
        thread.join()


@pytest.fixture
def reader_s_desk(tmp_path, monkeypatch, judge_url):
    """An empty folder with `samples.jsonl`, and the environment of somebody who follows the documentation."""
    monkeypatch.chdir(tmp_path)
    rows = [
        {
            "query": "Which rock shows gold by its streak?",
            "contexts": ["A touchstone is a dark stone on which gold leaves a visible streak."],
            "response": "A touchstone.",
            "reference": "A touchstone",
        },
        {
            "query": "What does the streak tell?",
            "contexts": ["The colour of the streak tells the purity of the gold."],
            "response": "Its age.",
            "reference": "The purity of the gold",
        },
    ]
    (tmp_path / "samples.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return tmp_path
