"""LlamaIndex in real processes: served by preloaded workers, and at the end of the interpreter."""

from __future__ import annotations

import os
import re
from concurrent.futures import ThreadPoolExecutor

import pytest

APPLICATION = """
import multiprocessing
from llama_index.core.llms import MockLLM
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, TextNode
from llama_index.observability.ragstone import RagstoneInstrumentor
from ragstone import Monitor

class Retriever(BaseRetriever):
    def _retrieve(self, query_bundle):
        return [NodeWithScore(node=TextNode(text=f"about {query_bundle.query_str}"))]

whole = RetrieverQueryEngine.from_args(Retriever(), llm=MockLLM(max_tokens=1))
streaming = RetrieverQueryEngine.from_args(Retriever(), llm=MockLLM(max_tokens=2), streaming=True)
monitor = Monitor(judge="lexical", metrics="ccrs.qr", store="r.db")
instrumentor = RagstoneInstrumentor(monitor)
instrumentor.start_registering()
"""
WSGI = """
# Both workers are at work before either answers: a request that comes to one of them waits for one at the other.
both = multiprocessing.get_context("fork").Barrier(2)

def application(environ, start_response):
    path = environ["PATH_INFO"].lstrip("/")
    if path == "meet":
        both.wait(60)
    body = whole.query(path).response.encode()
    start_response("200 OK", [("Content-Length", str(len(body)))])
    return [body]
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="gunicorn needs fork")
@pytest.mark.parametrize("warm", ["unused before the fork", "used before the fork"])
def test_preloaded_workers(serve, books, warm):
    """Each request is captured once, whichever worker serves it, and nothing is lost when they are stopped."""
    used = "\nwhole.query('master')\nopen = streaming.query('open').response_gen\nnext(open)\n"
    get = serve(APPLICATION + (used if warm == "used before the fork" else "") + WSGI)
    with ThreadPoolExecutor(4) as pool:
        assert ["text"] * 2 == list(pool.map(get, ["meet", "meet"]))
        assert ["text"] * 40 == list(pool.map(get, [f"q{i}" for i in range(40)]))
    serve.stop()

    expected = {("meet", "text", "ok"): 2, **{(f"q{i}", "text", "ok"): 1 for i in range(40)}}
    if warm == "used before the fork":
        expected |= {("master", "text", "ok"): 1, ("open", None, "abandoned"): 1}
    ledger, traces = books()
    assert expected == traces
    assert (sum(expected.values()), 0, True) == (ledger.total.captured, ledger.total.pending, ledger.total.balanced)


def test_the_interpreter_exits_with_requests_in_flight(run_python, books):
    """What was captured is kept, what is still open is recorded as abandoned, and nothing is printed but what is pending."""
    done = run_python(
        APPLICATION
        + """
whole.query("whole")
begun = streaming.query("begun").response_gen
next(begun)
unread = streaming.query("unread")
print(instrumentor.in_flight, instrumentor.errors)
"""
    )
    assert "2 0\n" == done.stdout
    assert re.fullmatch(r"(ragstone: \d requests? (is|are) pending\. Score with: .*\n)?", done.stderr)
    ledger, traces = books()
    assert {("whole", "text", "ok"): 1, ("begun", None, "abandoned"): 1, ("unread", None, "abandoned"): 1} == traces
    assert (3, True) == (ledger.total.captured, ledger.total.balanced)
