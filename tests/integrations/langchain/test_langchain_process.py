"""LangChain in real processes: served by preloaded workers, and at the end of the interpreter."""

from __future__ import annotations

import os
import re
from concurrent.futures import ThreadPoolExecutor

import pytest

APPLICATION = """
import multiprocessing
from langchain_core.language_models import FakeListChatModel
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnablePassthrough
from langchain_ragstone import RagstoneCallbackHandler
from ragstone import Monitor

class Retriever(BaseRetriever):
    def _get_relevant_documents(self, query, *, run_manager):
        return [Document(page_content=f"about {query}")]

prompt = ChatPromptTemplate.from_template("{context} {question}")
rag = (
    {"context": Retriever(), "question": RunnablePassthrough()}
    | prompt | FakeListChatModel(responses=["answer"]) | StrOutputParser()
)
monitor = Monitor(judge="lexical", metrics="ccrs.qr", store="r.db")
config = {"callbacks": [RagstoneCallbackHandler(monitor)]}
"""
WSGI = """
# Both workers are at work before either answers: a request that comes to one of them waits for one at the other.
both = multiprocessing.get_context("fork").Barrier(2)

def application(environ, start_response):
    path = environ["PATH_INFO"].lstrip("/")
    if path == "meet":
        both.wait(60)
    body = rag.invoke(path, config).encode()
    start_response("200 OK", [("Content-Length", str(len(body)))])
    return [body]
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="gunicorn needs fork")
@pytest.mark.parametrize("warm", ["unused before the fork", "used before the fork"])
def test_preloaded_workers(serve, books, warm):
    """Each request is captured once, whichever worker serves it, and nothing is lost when they are stopped."""
    used = "\nrag.invoke('master', config)\nopen = rag.stream('open', config)\nnext(open)\n"
    get = serve(APPLICATION + (used if warm == "used before the fork" else "") + WSGI)
    with ThreadPoolExecutor(4) as pool:
        assert ["answer"] * 2 == list(pool.map(get, ["meet", "meet"]))
        assert ["answer"] * 40 == list(pool.map(get, [f"q{i}" for i in range(40)]))
    serve.stop()

    expected = {("meet", "answer", "ok"): 2, **{(f"q{i}", "answer", "ok"): 1 for i in range(40)}}
    if warm == "used before the fork":
        expected |= {("master", "answer", "ok"): 1, ("open", None, "abandoned"): 1}
    ledger, traces = books()
    assert expected == traces
    assert (sum(expected.values()), 0, True) == (ledger.total.captured, ledger.total.pending, ledger.total.balanced)


def test_the_interpreter_exits_with_requests_in_flight(run_python, books):
    """What was captured is kept, what is still open is recorded as abandoned, and nothing is printed but what is pending."""
    done = run_python(
        APPLICATION
        + """
rag.invoke("whole", config)
begun = rag.stream("begun", config)
next(begun)
late = RagstoneCallbackHandler(monitor)  # one that has not recorded anything yet
again = rag.stream("late", {"callbacks": [late]})
next(again)
"""
    )
    assert "" == done.stdout
    assert re.fullmatch(r"(ragstone: \d requests? (is|are) pending\. Score with: .*\n)?", done.stderr)
    ledger, traces = books()
    assert {("whole", "answer", "ok"): 1, ("begun", None, "abandoned"): 1, ("late", None, "abandoned"): 1} == traces
    assert (3, True) == (ledger.total.captured, ledger.total.balanced)
