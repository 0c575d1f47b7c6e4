"""Capture without callbacks in the calls: for the process, for a block, and said by the application itself."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
import threading

import pytest
from langchain_core.documents import Document
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableLambda
from langchain_core.tracers import context as langchain_hooks
from langchain_scenarios import agents
from langchain_scenarios.attaching import collect_traces

from langchain_ragstone import (
    RagstoneCallbackHandler,
    _activation,
    ragstone_disable,
    ragstone_enable,
)
from ragstone import Monitor
from ragstone.capture import make_draft, suppress_capture
from ragstone.errors import ConfigurationError
from ragstone.requests import PassageDraft
from ragstone.testing import FakeJudge, MemoryRecorder

Q = "who?"
FOUND = ["alpha", "beta"]
OK = (Q, FOUND, "answer", "ok")


@pytest.fixture
def enabled(app):
    """An application that is captured process-wide; it is not when the test is over."""
    ragstone_enable(app.handler)
    yield app
    ragstone_disable()


def in_bare_threads(call, count=1):
    """Run it in threads that know nothing of this one's context."""
    threads = [threading.Thread(target=call) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


class TestProcess:
    """`ragstone_enable` and `ragstone_disable`."""

    def test_calls_without_callbacks_are_captured(self, enabled):
        """Row 42: in every way of calling, one record each."""
        chain = enabled.rag()
        chain.invoke(Q)
        asyncio.run(chain.ainvoke(Q))
        list(chain.stream(Q))
        chain.batch([Q, Q])
        assert [OK] * 5 == enabled.seen()

    def test_all_threads_are_captured(self, enabled):
        """Row 42: threads that started without this one's context, and those that were there before."""
        in_bare_threads(lambda: enabled.rag().invoke(Q), 4)
        assert [OK] * 4 == enabled.seen()

    def test_a_call_with_the_same_handler_is_captured_once(self, enabled):
        """Row 42: LangChain compares handlers by identity, and so nothing comes twice."""
        enabled.rag().invoke(Q, enabled.config)
        assert ([OK], 0) == (enabled.seen(), enabled.handler.late_events)

    def test_nothing_is_captured_after_disabling(self, enabled):
        """But what is in flight comes to its end; disabling twice is nothing new."""
        stream = enabled.rag().stream(Q)
        next(stream)
        ragstone_disable()
        ragstone_disable()
        enabled.rag().invoke("later")
        assert "nswer" == "".join(stream)
        assert [OK] == enabled.seen()

    def test_a_second_recorder_takes_the_place_of_the_first(self, enabled):
        """As when a cell of a notebook is run again."""
        second = MemoryRecorder()
        handler = ragstone_enable(second)
        enabled.rag().invoke(Q)
        assert ([], [Q]) == (enabled.seen(), [draft.query for draft in second.drafts])
        assert second is handler.recorder

    def test_one_hook_is_registered_however_often_it_is_enabled(self, enabled):
        """LangChain keeps hooks for ever, so there must not be one for each call."""
        before = list(langchain_hooks._configure_hooks)
        for _ in range(3):
            ragstone_enable(enabled.handler)
            with collect_traces():
                pass
        assert before == langchain_hooks._configure_hooks
        ours = [hook for hook in before if hook[0] in (_activation._process, _activation._block)]
        assert [(True, None, None)] * 2 == [hook[1:] for hook in ours]

    def test_a_retriever_in_a_bare_thread_is_a_request_of_its_own(self, enabled):
        """Row 44: the thread has lost its place in the request, but not the handler."""

        def search(question: str) -> str:
            in_bare_threads(lambda: enabled.retriever(*FOUND).invoke(question))
            return question

        (RunnableLambda(search) | enabled.model("answer")).invoke(Q)
        assert [(Q, FOUND, None, "ok"), (Q, None, "answer", "ok")] == enabled.seen()

    def test_a_group_of_chains_is_one_request(self, enabled):
        """Row 45: `trace_as_chain_group` drops callbacks that it is given, and not this."""
        from langchain_core.callbacks.manager import trace_as_chain_group

        with trace_as_chain_group("group", inputs={"input": Q}) as group:
            documents = enabled.retriever(*FOUND).invoke(Q, {"callbacks": group})
            reply = enabled.model("answer").invoke(str(documents), {"callbacks": group})
            group.on_chain_end({"output": reply.content})
        assert [OK] == enabled.seen()

    def test_bare_model_calls_are_counted_and_left_out(self, enabled):
        """A title, a moderation with structured output, retries: only the chain is a request."""
        model = enabled.model("a title", "safe", "safe")
        enabled.model("a title").invoke("Title of: who?")
        asyncio.run(enabled.model("safe").ainvoke("Is this safe? who?"))
        list(enabled.model("safe").stream("Is this safe? who?"))
        (model | StrOutputParser()).invoke("Is this safe? who?")
        model.with_retry().invoke("Is this safe? who?")
        enabled.rag().invoke(Q)
        assert ([OK], 5, 0) == (enabled.seen(), enabled.handler.ignored_models, enabled.handler.in_flight)

    def test_chains_of_a_model_are_requests_if_they_ask_or_are_named(self, enabled):
        """A prompt template, or a name, says that a chain is more than a call of a model."""
        prompt = ChatPromptTemplate.from_template("Be brief. {question}")
        (prompt | enabled.model("answer") | StrOutputParser()).invoke({"question": Q})
        (enabled.model("answer") | StrOutputParser()).with_config(run_name="chat").invoke(Q)
        assert [(Q, None, "answer", "ok")] * 2 == enabled.seen()
        assert 0 == enabled.handler.ignored_models

    def test_a_bare_model_call_that_was_given_the_handler_is_a_request(self, enabled):
        """It is captured once, and so are bare calls in a block."""
        enabled.model("answer").invoke(Q, enabled.config)
        with collect_traces() as traces:
            enabled.model("answer").invoke(Q)
        assert [(Q, None, "answer", "ok")] == enabled.seen()
        assert (1, 1, 0) == (len(traces), enabled.handler.ignored_models, enabled.handler.late_events)

    def test_evaluators_are_no_requests(self, enabled):
        """Neither LangChain's, nor chains that LangSmith runs as an evaluator."""
        from langchain_classic.evaluation.criteria import CriteriaEvalChain
        from langsmith.run_helpers import tracing_context

        evaluator = CriteriaEvalChain.from_llm(enabled.model("Because.\nY"), criteria="conciseness")
        assert 1 == evaluator.evaluate_strings(prediction="me", input=Q)["score"]
        with tracing_context(project_name="evaluators", enabled=False):
            enabled.rag().invoke("judge this")
        enabled.rag().invoke(Q)
        assert ([OK], 0) == (enabled.seen(), enabled.handler.late_events)

    def test_retriever_tools_are_those_of_the_handler(self, app):
        """An option here, but not beside a handler that was made with options."""
        try:
            recorder = MemoryRecorder()
            ragstone_enable(recorder, retriever_tools={"search"})
            agents.agent_text_tool_no_artifact(app)
        finally:
            ragstone_disable()
        (draft,) = recorder.drafts
        assert ["alpha and beta"] == [passage.text for passage in draft.retrievals[0].passages]
        with pytest.raises(ConfigurationError, match="pass it to the RagstoneCallbackHandler"):
            ragstone_enable(app.handler, retriever_tools={"search"})

    def test_what_cannot_record_is_refused(self):
        """At once, rather than by a warning at each request."""
        with pytest.raises(ConfigurationError, match=r"needs a recorder, such as a ragstone\.Monitor, got str"):
            ragstone_enable("ragstone.db")
        with pytest.raises(ConfigurationError, match=r"needs a recorder, .*, got RagstoneCallbackHandler"):
            RagstoneCallbackHandler(RagstoneCallbackHandler(MemoryRecorder()))
        assert _activation._process.get() is None

    @pytest.mark.parametrize("name", ["question", "contexts", "answer"])
    def test_extractor_that_is_not_a_function_is_refused(self, name):
        """At once, rather than by a warning at each request: the name of a field is an obvious mistake."""
        with pytest.raises(ConfigurationError, match=rf"{name} must be a function, .*, got str"):
            RagstoneCallbackHandler(MemoryRecorder(), **{name: "field"})


class TestBlock:
    """The capture of an application that `ragstone.evaluate` runs."""

    def test_a_block_collects_what_runs_inside_it(self, app):
        """And nothing before or after."""
        app.rag().invoke("before")
        with collect_traces() as traces:
            app.rag().invoke(Q)
            assert [Q] == [trace.query for trace in traces]
            list(app.rag().stream(Q))
        app.rag().invoke("after")
        assert [(Q, "answer", "ok")] * 2 == [(trace.query, trace.response, trace.status) for trace in traces]
        assert [FOUND] * 2 == [[passage.text for passage in trace.retrievals[0].passages] for trace in traces]

    def test_threads_and_tasks_that_carry_the_context_belong_to_it(self, app):
        """A bare thread does not."""
        chain = app.rag()

        async def tasks() -> None:
            await asyncio.gather(asyncio.create_task(chain.ainvoke("task")), asyncio.to_thread(chain.invoke, "thread"))

        with collect_traces() as traces:
            asyncio.run(tasks())
            with concurrent.futures.ThreadPoolExecutor(1) as pool:
                pool.submit(contextvars.copy_context().run, chain.invoke, "copied").result()
            chain.batch(["batch"])
            in_bare_threads(lambda: chain.invoke("bare"))
        assert ["batch", "copied", "task", "thread"] == sorted(trace.query for trace in traces)

    def test_neighbouring_tasks_are_not_mixed(self, app):
        """Each task has its own block."""

        async def work(number: int) -> list[str]:
            with collect_traces() as traces:
                await app.rag().ainvoke(f"{number} a")
                await app.rag().ainvoke(f"{number} b")
            return [trace.query for trace in traces]

        async def main() -> list[list[str]]:
            return await asyncio.gather(*(work(number) for number in range(5)))

        assert [[f"{number} a", f"{number} b"] for number in range(5)] == asyncio.run(main())

    def test_it_adds_to_what_captures_anyway(self, enabled):
        """The process-wide handler, and one given to the call, get the same request."""
        other = MemoryRecorder()
        with collect_traces() as traces:
            enabled.rag().invoke(Q, {"callbacks": [RagstoneCallbackHandler(other)]})
        assert [OK] == enabled.seen()
        assert [[Q], [Q]] == [[draft.query for draft in drafts] for drafts in (traces, other.drafts)]

    def test_an_error_ends_it_too(self, app):
        """What ran until then is there."""
        with pytest.raises(ZeroDivisionError), collect_traces() as traces:
            RunnableLambda(lambda _: 1 / 0).invoke(Q)
        app.rag().invoke("after")
        assert [(Q, "error")] == [(trace.query, trace.status) for trace in traces]

    def test_a_block_inside_a_step_collects_the_step_s_own_calls(self, enabled):
        """They are requests of the block, and steps of the request around it."""
        found = []

        def step(question: str) -> str:
            with collect_traces() as traces:
                enabled.retriever(*FOUND).invoke(question)
            found.extend(traces)
            return "answer"

        RunnableLambda(step).invoke(Q)
        assert ([OK], [(Q, 1)]) == (enabled.seen(), [(trace.query, len(trace.retrievals)) for trace in found])


class TestJudges:
    """Our own calls are no traffic."""

    def test_suppressed_calls_are_not_captured(self, enabled):
        """Neither process-wide nor in a block, whole or streamed, also in the threads LangChain starts for them."""
        with collect_traces() as traces, suppress_capture():
            enabled.model("87").invoke("judge this")
            asyncio.run(enabled.model("87").ainvoke("judge this"))
            list(enabled.rag().stream("judge this"))
            enabled.rag().batch(["judge this", "and this"])
        assert ([], []) == (enabled.seen(), traces)

    def test_a_monitor_does_not_capture_the_judge_it_asks(self, app, tmp_path):
        """A judge that is made of a LangChain model answers in a process that captures everything."""
        asked = []

        class LangChainBackedJudge(FakeJudge):
            async def _asked(self, prompt):
                asked.append((await app.model("87").ainvoke("judge this")).text)
                return await super()._asked(prompt)

        with Monitor(judge=LangChainBackedJudge(), metrics=["ccrs"], store=tmp_path / "ragstone.db") as monitor:
            ragstone_enable(monitor)
            try:
                app.rag().invoke(Q)
                assert monitor.drain(60)
            finally:
                ragstone_disable()
            assert asked
            assert (1, 1) == (monitor.counters.recorded, monitor.ledger().total.captured)


def test_contexts_that_an_application_states_may_be_documents():
    """Code without callbacks records its requests with `make_draft`."""
    documents = [Document(page_content="alpha", id="7", metadata={"score": 0.5, "page": 3}), "beta", {"text": "c"}]
    alpha = PassageDraft(text="alpha", id="7", score=0.5, metadata={"score": 0.5, "page": 3})
    assert [alpha, PassageDraft(text="beta"), PassageDraft(text="c")] == make_draft(contexts=documents).contexts


class TestRequestBlock:
    """Calls inside a block that the application marks as a request."""

    @pytest.fixture
    def recorded(self):
        """A recorder that the blocks and the handlers share."""
        return MemoryRecorder()

    def test_calls_become_steps_of_the_block(self, recorded, app):
        """Retriever, bare model and chain are one request, with the contexts in the prompt."""
        ragstone_enable(recorded)
        try:
            with recorded.request(Q) as request:
                documents = app.retriever(*FOUND, "gamma").invoke(Q)
                kept = "\n".join(document.page_content for document in documents[:2])
                reply = app.model("answer").invoke(f"{kept}\n{Q}").content
                app.model("a title").invoke("Title of: who?")
                request.answer(reply)
        finally:
            ragstone_disable()
        (draft,) = recorded.drafts
        assert (Q, "answer", "ok") == (draft.query, draft.response, draft.status)
        assert FOUND == [passage.text for passage in draft.contexts]
        assert 1 == len(draft.retrievals)

    def test_a_handler_of_another_recorder_records_for_itself(self, recorded, app):
        """A block is of its own recorder."""
        with recorded.request(Q) as request:
            request.answer(app.rag().invoke(Q, app.config))
        assert [OK] == app.seen()
        assert [None] == [draft.contexts for draft in recorded.drafts]
