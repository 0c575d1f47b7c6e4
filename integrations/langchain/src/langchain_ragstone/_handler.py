"""The callback handler: LangChain's events in, one finished `TraceDraft` per request out."""
# ruff: noqa: ARG002 - the hooks have LangChain's signatures

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.documents import Document
from langchain_core.messages import BaseMessage
from langchain_core.outputs import LLMResult

from langchain_ragstone import _translate as translate
from langchain_ragstone._assemble import finish
from langchain_ragstone._explicit import ExplicitRecording
from langchain_ragstone._fallbacks import start_run
from langchain_ragstone._find import Finder
from langchain_ragstone._graph import enable_interrupt_events, input_keys, keys_written, note_node, only_written
from langchain_ragstone._otel import link_current_span
from langchain_ragstone._tree import ChainRun, LiveTrace, LlmRun, RetrieverRun, Run, RunTree, Step, ToolRun
from ragstone.capture import Guard, capture_suppressed, guarded, register_exit_hook
from ragstone.errors import ConfigurationError
from ragstone.requests import PassageDraft, Recorder, RetrievalDraft
from ragstone.schema import TraceStatus

__all__ = ["RagstoneCallbackHandler"]

_NOT_GIVEN: Any = object()

_StepRun = TypeVar("_StepRun", bound=Run)


class RagstoneCallbackHandler(ExplicitRecording, BaseCallbackHandler):
    """Captures each request of a LangChain chain, agent or graph, and hands it to a recorder.

    Make one and share it: it may serve any number of requests, threads and event loops at once. It copies what it
    needs out of the events as plain strings, never raises into the application and never waits.

    ```python
    monitor = Monitor(store="ragstone.db")
    chain.invoke(question, config={"callbacks": [RagstoneCallbackHandler(monitor)]})
    ```

    The metadata of a call may name `user_id`, `session_id` (or LangGraph's `thread_id`) and `reference`: one correct
    answer, or several. An application that searches without a retriever can state, inside a chain step, what it put
    into the prompt: `dispatch_custom_event("rag.contexts", {"contexts": documents})`.
    """

    # Plain attributes: LangChain reads them at each event, and a property is a call.
    run_inline = True
    raise_error = False
    ignore_retry = True
    ignore_llm = False
    ignore_chain = False
    ignore_agent = False
    ignore_retriever = False
    ignore_chat_model = False
    ignore_custom_event = False

    def __init__(
        self,
        recorder: Recorder,
        *,
        question: Callable[[Any], str | None] | None = None,
        contexts: Callable[[Any], Iterable[Document | str | Mapping[str, Any]] | None] | None = None,
        answer: Callable[[Any], str | None] | None = None,
        contexts_event: str = "rag.contexts",
        ttl_s: float = 3600.0,
        max_live: int = 10_000,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Capture into `recorder`.

        Args:
            recorder: Takes the finished requests: a `ragstone.Monitor`, or anything else with its `record` method.
            question: Finds the question in the root's inputs where the usual rules do not; None means "not here".
            contexts: Finds in the root's outputs what was put into the prompt: documents, texts, or mappings with a
                `text`.
            answer: Finds the answer in the root's outputs.
            contexts_event: The name of the custom event that states contexts, if your application dispatches one already.
            ttl_s: Age in seconds at which a request that has not ended (a stream that nobody reads) is recorded as
                `abandoned`.
            max_live: Requests in flight beyond which the oldest is recorded as `abandoned`.
            clock: Unix time in seconds.

        Raises:
            ConfigurationError: The recorder has no `record` method, or is a handler.
        """
        if isinstance(recorder, BaseCallbackHandler) or not callable(getattr(recorder, "record", None)):
            raise ConfigurationError(f"needs a recorder, such as a ragstone.Monitor, got {type(recorder).__name__}")
        super().__init__()
        self._recorder = recorder
        self._contexts_event = contexts_event
        self._clock = clock
        self._tree = RunTree(ttl_s=ttl_s, max_live=max_live, clock=clock)
        self._guard = Guard("ragstone.langchain")
        self._find = Finder(self._guard, question=question, contexts=contexts, answer=answer)
        enable_interrupt_events(self)
        register_exit_hook(self._give_up_all)

    def __copy__(self) -> RagstoneCallbackHandler:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> RagstoneCallbackHandler:
        """The handler itself: whoever copies a chain or its configuration still means this one."""
        return self

    @property
    def recorder(self) -> Recorder:
        """Who gets the finished requests."""
        return self._recorder

    @property
    def errors(self) -> int:
        """How many events failed inside this handler; 0 unless it has a bug, or an extractor raised."""
        return self._guard.total

    @property
    def late_events(self) -> int:
        """How many events were ignored because they came twice, or after their request had ended."""
        return self._tree.late

    @property
    def in_flight(self) -> int:
        """How many requests are in flight."""
        return len(self._tree)

    def record_abandoned(self, *, older_than_s: float | None = None) -> int:
        """Record requests that have not ended for too long as `abandoned`.

        Each new request sweeps a little; call this at shutdown, or where no new requests come.

        Args:
            older_than_s: Age in seconds from which a request counts as abandoned; `ttl_s` by default, 0 for all.

        Returns:
            How many were recorded.
        """
        given_up = self._tree.give_up(older_than_s=older_than_s, at_most=None)
        for trace in given_up:
            self._record(trace, "abandoned")
        return len(given_up)

    def _give_up_all(self) -> None:
        self.record_abandoned(older_than_s=0)

    # Hooks take what they use by name; `about` holds the rest of the event: tags, metadata, the run's name.

    @guarded
    def on_chain_start(
        self, serialized: Any, inputs: Any, *, run_id: UUID, parent_run_id: UUID | None = None, **about: Any
    ) -> None:
        """Note a step, and what documents it was given."""
        run = start_run(self._tree, run_id, parent_run_id, ChainRun, name=about.get("name"))
        if run is None:
            return
        if run.parent is None:
            # The inputs of a stream are not read yet: they come with its end.
            self._open(run, _NOT_GIVEN if "defers_inputs" in about else inputs, parent_run_id, about)
        else:
            run.documents_in = translate.document_texts(inputs)
            note_node(run, about.get("metadata"))

    @guarded
    def on_chain_end(self, outputs: Any, *, run_id: UUID, inputs: Any = _NOT_GIVEN, **about: Any) -> None:
        """Finish the request with its root; of the other steps only re-rankings matter."""
        run = self._tree.end(run_id)
        if run is None:
            return
        if isinstance(run, ChainRun) and run.is_node:
            run.trace.wrote(keys_written(outputs))
        if run.parent is None:
            self._close(run.trace, outputs, inputs)
        elif type(outputs) is list and isinstance(run, ChainRun) and not run.muted and not run.inside_search:
            documents_in = run.documents_in or translate.document_texts(inputs)
            if documents_in is None or run.searched or capture_suppressed():
                return
            if all(isinstance(output, Document) for output in outputs):
                run.trace.steps.append(Step(run, documents_in, translate.passages_from(outputs)))

    @guarded
    def on_chain_error(self, error: BaseException, *, run_id: UUID, inputs: Any = _NOT_GIVEN, **about: Any) -> None:
        """Finish the request with its root; elsewhere remember what the request survived."""
        failed = translate.is_failure(error)
        run = self._tree.end(run_id, failed=failed)
        if run is None:
            return
        trace = run.trace
        description = translate.describe_error(error)
        if translate.is_interrupt(error):
            trace.interrupted = True
        elif not failed:
            trace.wrote(None)  # a graph inside jumps out of itself, and may take along what the outer one is to keep
        if run.parent is None:
            self._take_question(trace, inputs)
            trace.draft.error = description if failed else None
            self._record(trace, "error" if failed else "interrupted" if trace.interrupted else "truncated")
        elif failed and not run.muted and not capture_suppressed():
            trace.note_inner_error(description)

    on_llm_error = on_retriever_error = on_tool_error = on_chain_error

    @guarded
    def on_retriever_start(
        self, serialized: Any, query: str, *, run_id: UUID, parent_run_id: UUID | None = None, **about: Any
    ) -> None:
        """Note a search; searches inside a search are its own business."""
        run = self._start_step(RetrieverRun, query, run_id, parent_run_id, about)
        if run is None or run.muted or run.inside_search:
            return
        run.outermost = True
        run.query = translate.text_of(query)
        run.name = about.get("name")
        run.trace.searching.append(run)
        run.counts_as_search()

    @guarded
    def on_retriever_end(self, documents: Sequence[Document], *, run_id: UUID, **about: Any) -> None:
        """Copy what was found."""
        run = self._tree.end(run_id)
        if not isinstance(run, RetrieverRun):
            return
        if run.outermost and (passages := self._guard.attempt(translate.passages_from, documents)) is not None:
            run.search = RetrievalDraft(query=run.query, passages=passages, name=run.name)
        if run.parent is None:
            self._record(run.trace, "ok")

    @guarded
    def on_chat_model_start(
        self,
        serialized: Any,
        messages: list[list[BaseMessage]],
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        **about: Any,
    ) -> None:
        """Note the call of a chat model."""
        self._start_llm(messages[0] if messages else [], run_id, parent_run_id, about)

    @guarded
    def on_llm_start(
        self, serialized: Any, prompts: list[str], *, run_id: UUID, parent_run_id: UUID | None = None, **about: Any
    ) -> None:
        """Note the call of a completion model."""
        self._start_llm(prompts[0] if prompts else "", run_id, parent_run_id, about)

    @guarded
    def on_llm_new_token(self, token: str | list[str | dict[str, Any]], *, run_id: UUID, **about: Any) -> None:
        """Note when the first text of a stream came."""
        self._note_text(run_id, token)

    @guarded
    def on_stream_event(self, event: Any, *, run_id: UUID, **about: Any) -> None:
        """Note when the first text of a stream of version 3 came."""
        if (text := translate.text_in_stream_event(event)) is not None:
            self._note_text(run_id, text)

    @guarded
    def on_llm_end(self, response: LLMResult, *, run_id: UUID, **about: Any) -> None:
        """Copy the reply, the model's name and the tokens spent."""
        run = self._tree.end(run_id)
        if not isinstance(run, LlmRun):
            return
        if not run.muted and (reply := self._guard.attempt(translate.reply_from, response)) is not None:
            reply.add_to(run.trace.draft)
            if reply.text is not None and not run.inside_search:
                run.trace.last_answer = (run, reply.text)
        if run.parent is None:
            self._record(run.trace, "ok")

    @guarded
    def on_tool_start(
        self,
        serialized: dict[str, Any] | None,
        input_str: str,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        inputs: dict[str, Any] | None = None,
        **about: Any,
    ) -> None:
        """Note the call of a tool, which may turn out to be a search."""
        run = self._start_step(ToolRun, inputs or input_str, run_id, parent_run_id, about)
        if run is not None:
            run.query = translate.tool_query_from(inputs, input_str)
            run.name = (serialized or {}).get("name")

    @guarded
    def on_tool_end(self, output: Any, *, run_id: UUID, **about: Any) -> None:
        """Copy the documents that a tool found without a retriever of LangChain's."""
        run = self._tree.end(run_id)
        if not isinstance(run, ToolRun):
            return
        if not run.searched and not run.muted and not run.inside_search:
            passages = self._guard.attempt(translate.documents_in_tool_output, output)
            if passages is not None:
                run.search = RetrievalDraft(query=run.query, passages=passages, name=run.name)
                run.trace.searching.append(run)
                run.counts_as_search()
        if run.parent is None:
            self._close(run.trace, output, _NOT_GIVEN)

    @guarded
    def on_custom_event(self, name: str, data: Any, *, run_id: UUID, **about: Any) -> None:
        """Take the contexts that the application states itself."""
        if name == self._contexts_event and (run := self._tree.find(run_id)) is not None and not run.muted:
            run.trace.contexts = translate.stated_contexts(translate.contexts_in_event(data))

    @guarded
    def on_interrupt(self, event: Any) -> None:
        """Note that a graph pauses, also where no step asked for it (`interrupt_before`, `interrupt_after`)."""
        if event.run_id is not None and (run := self._tree.find(event.run_id)) is not None:
            run.trace.interrupted = True

    def _note_text(self, run_id: UUID, text: Any) -> None:
        run = self._tree.find(run_id)
        if run is None or run.muted:
            return
        draft = run.trace.draft
        if draft.first_token_s is None and translate.text_of(text) and not run.inside_search:
            draft.first_token_s = self._clock() - draft.started_at

    def _start_step(
        self, kind: type[_StepRun], inputs: Any, run_id: UUID, parent_run_id: UUID | None, about: dict[str, Any]
    ) -> _StepRun | None:
        run = start_run(self._tree, run_id, parent_run_id, kind, name=about.get("name"))
        if run is not None:
            if run.parent is None:
                self._open(run, inputs, parent_run_id, about)
            elif not run.muted:
                run.muted = capture_suppressed()
        return run

    def _start_llm(self, inputs: Any, run_id: UUID, parent_run_id: UUID | None, about: dict[str, Any]) -> None:
        run = self._start_step(LlmRun, inputs, run_id, parent_run_id, about)
        if run is not None and not run.muted and run.trace.draft.model is None:
            # What was asked for; the reply may name it more precisely.
            run.trace.draft.model = translate.requested_model_from(about.get("metadata"))

    def _open(self, root: Run, inputs: Any, parent_run_id: UUID | None, about: dict[str, Any]) -> None:
        """Fill in what is known when a request begins."""
        enable_interrupt_events(self)
        trace = root.trace
        trace.ignored = root.muted = capture_suppressed()
        if not trace.ignored:
            self._take_question(trace, inputs)
            draft = trace.draft
            draft.parent_run_id = None if parent_run_id is None else str(parent_run_id)
            draft.name = about.get("name")
            metadata = about.get("metadata") or {}
            translate.fill_identity(draft, metadata, about.get("tags") or ())
            if "thread_id" in metadata:  # its outputs may hold what earlier requests of the thread left
                trace.written = input_keys(inputs)
            link_current_span(draft)
        for given_up in self._tree.give_up():
            self._record(given_up, "abandoned")

    def _take_question(self, trace: LiveTrace, inputs: Any) -> None:
        if inputs is not _NOT_GIVEN and not trace.ignored:
            trace.draft.query = self._find.question(inputs)

    def _close(self, trace: LiveTrace, outputs: Any, inputs: Any) -> None:
        """The root has returned: find the question, the contexts and the answer in what it returned."""
        if trace.ignored:
            return
        self._take_question(trace, inputs)
        if not trace.draft.query and isinstance(outputs, dict):
            # A graph that is resumed gets a command, and has the question in its state.
            trace.draft.query = self._guard.attempt(translate.question_from, outputs)
        status: TraceStatus = "ok"
        if trace.interrupted:
            status = "interrupted"
        elif trace.open and inputs is not _NOT_GIVEN:
            # A stream that is closed early looks like success, but for the steps that are still at work. (In a call
            # that is no stream such steps are background work of the application.)
            status = "truncated"
        written = only_written(trace, outputs)
        contexts = self._find.contexts(outputs, written=written)
        self._record(trace, status, contexts=contexts, answer=self._find.answer(outputs, written=written))

    def _record(
        self,
        trace: LiveTrace,
        status: TraceStatus,
        *,
        contexts: list[PassageDraft] | None = None,
        answer: str | None = None,
    ) -> None:
        if not trace.ignored:
            finish(trace, status=status, ended_at=self._clock(), stated_contexts=contexts, stated_answer=answer)
            self._recorder.record(trace.draft)
