"""The callback handler: LangChain's events in, one `Request` of neutral steps out."""
# ruff: noqa: ARG002 - the hooks have LangChain's signatures

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.documents import Document
from langchain_core.messages import BaseMessage
from langchain_core.outputs import LLMResult
from langchain_core.runnables.config import var_child_runnable_config

from langchain_ragstone import _messages as messages_of
from langchain_ragstone import _steps as steps_of
from langchain_ragstone._documents import Passages, document_texts, documents_in
from langchain_ragstone._graph import (
    begin_on_thread,
    enable_interrupt_events,
    end_on_thread,
    keys_written,
    note_node,
    only_written,
    without_earlier_documents,
)
from langchain_ragstone._live import Begun, Live, LiveRequests
from langchain_ragstone._not_requests import is_bare_model_call, runs_in_evaluator
from langchain_ragstone._otel import link_current_span, link_root_span
from langchain_ragstone._statements import AnswerExtractor, ContextsExtractor, contexts_in_event, stated_contexts
from ragstone.capture import Guard, capture_suppressed, guarded, register_exit_hook
from ragstone.requests import (
    CaptureOptions,
    EnclosingRun,
    InFlight,
    Message,
    Recorder,
    RetrieverTools,
    Step,
    StepKind,
    current_request,
)
from ragstone.schema import TraceStatus

_NOT_GIVEN: Final[Any] = object()


class RagstoneCallbackHandler(InFlight.Counts, BaseCallbackHandler):
    """Captures each request of a LangChain chain, agent or graph, and hands it to a recorder.

    One handler can serve any number of requests, threads and event loops at the same time. It keeps references to texts
    and copies of documents, never raises into the application and never waits.

    ```python
    monitor = Monitor(store="ragstone.db")
    chain.invoke(question, config={"callbacks": [RagstoneCallbackHandler(monitor)]})
    ```

    The metadata of a call may contain `user_id`, `session_id` (or LangGraph's `thread_id`) and `reference`: one correct
    answer, or several. An application that searches without a retriever can state the contexts inside a chain step:
    `dispatch_custom_event("rag.contexts", {"contexts": documents})`. Calls inside a `Monitor.request` block become
    steps of that request.
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

    _live: LiveRequests
    _on_every_call = False
    """Whether LangChain adds this handler to every call, so that bare model calls and evaluators are not requests."""

    def __init__(
        self,
        recorder: Recorder,
        *,
        question: AnswerExtractor | None = None,
        contexts: ContextsExtractor | None = None,
        answer: AnswerExtractor | None = None,
        contexts_event: str = "rag.contexts",
        retriever_tools: Iterable[str] | RetrieverTools = (),
        ttl_s: float = 3600.0,
        max_live: int = 10_000,
        clock: Callable[[], float] = time.time,
    ) -> None:
        r"""Capture into `recorder`.

        Args:
            recorder: Takes the finished requests: a `ragstone.Monitor`, or any object with its `record` method.
            question: Finds the question in the root's inputs if the usual rules do not. None means "not found".
            contexts: Finds the contexts of the prompt in the root's outputs: documents, texts, or mappings with a
                `text`.
            answer: Finds the answer in the root's outputs.
            contexts_event: Name of the custom event that states contexts, if your application already dispatches one.
            retriever_tools: Names of tools whose text results are passages: `{"search_policy"}`, or with the separator
                between passages, `{"search_policy": "\n\n"}`. Tools that return documents need no entry.
            ttl_s: Age in seconds at which a request that has not ended (a stream that is not read) is recorded as
                `abandoned`.
            max_live: Number of requests in flight beyond which the oldest is recorded as `abandoned`.
            clock: Unix time in seconds.

        Raises:
            ConfigurationError: If the recorder does not have a `record` method or is a handler, if `question`,
                `contexts` or
                `answer` is not a function, or if `retriever_tools` contains anything but names and separators.
        """
        super().__init__()
        self._guard = Guard("ragstone.langchain")
        self._options = CaptureOptions(
            recorder, self._guard, question=question, contexts=contexts, answer=answer, retriever_tools=retriever_tools
        )
        self._recorder = recorder
        self._contexts_event = contexts_event
        self._clock = clock
        self._live = LiveRequests(ttl_s=ttl_s, max_live=max_live, clock=clock)
        enable_interrupt_events(self)
        register_exit_hook(self._give_up_all)

    def __copy__(self) -> RagstoneCallbackHandler:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> RagstoneCallbackHandler:
        """Return the handler itself: a copied chain or configuration reports to the same handler."""
        return self

    @property
    def recorder(self) -> Recorder:
        """The recorder of the finished requests."""
        return self._recorder

    def _give_up_all(self) -> None:
        self.record_abandoned(older_than_s=0)

    # Hooks take what they use by name. `about` holds the rest of the event: tags, metadata, the run's name.

    @guarded
    def on_chain_start(
        self, serialized: Any, inputs: Any, *, run_id: UUID, parent_run_id: UUID | None = None, **about: Any
    ) -> None:
        """Begin a chain's step, and note the documents that it was given."""
        kind: StepKind = "part" if about.get("run_type") in ("prompt", "parser") else "chain"
        begun = self._begin(kind, run_id, parent_run_id, about)
        if begun is None:
            return
        step, live = begun
        if step is live.root:
            # The inputs of a stream are not read yet: they come with its end.
            self._open(live, _NOT_GIVEN if "defers_inputs" in about else inputs, parent_run_id, about)
        elif not (live.ignored or step.muted or step.kind == "part"):
            step.input_texts = document_texts(inputs)
            live.is_graph = live.is_graph or "langgraph_node" in (about.get("metadata") or ())
            note_node(step, live, about.get("metadata"))

    @guarded
    def on_chain_end(self, outputs: Any, *, run_id: UUID, inputs: Any = _NOT_GIVEN, **about: Any) -> None:
        """Finish the request with its root; for other steps note the documents that they returned."""
        begun = self._end(run_id)
        if begun is None:
            return
        step, live = begun
        if step.id in live.nodes:
            live.wrote(keys_written(outputs))
        if step is live.root:
            self._close(live, outputs, inputs)
        elif not (live.ignored or step.muted or step.kind == "part"):
            if step.input_texts is None and inputs is not _NOT_GIVEN:
                step.input_texts = document_texts(inputs)
            step.outputs = documents_in(outputs, live.passages, expected=step.input_texts is not None)
            if steps_of.is_transform(step, live.steps):
                step.kind, step.passages = "transform", step.outputs[0].passages

    @guarded
    def on_chain_error(self, error: BaseException, *, run_id: UUID, inputs: Any = _NOT_GIVEN, **about: Any) -> None:
        """Finish the request with its root; for other steps keep the error, which the request survived."""
        begun = self._end(run_id)
        if begun is None:
            return
        step, live = begun
        failed = steps_of.is_failure(error)
        if failed:
            step.error = Guard.describe(error)
        if steps_of.is_interrupt(error):
            live.interrupted = True
        elif not failed:
            live.wrote(None)  # a graph inside jumps out of itself, and may take along what the outer one is to keep
        if step is live.root:
            self._take_inputs(live, inputs)
            live.draft.error = step.error
            self._record(live, "error" if failed else "interrupted" if live.interrupted else "truncated")

    on_llm_error = on_retriever_error = on_tool_error = on_chain_error

    @guarded
    def on_retriever_start(
        self, serialized: Any, query: str, *, run_id: UUID, parent_run_id: UUID | None = None, **about: Any
    ) -> None:
        """Begin a retrieval."""
        begun = self._begin("retrieval", run_id, parent_run_id, about)
        if begun is not None:
            begun[0].query = messages_of.text_of(query)
            if begun[0] is begun[1].root:
                self._open(begun[1], query, parent_run_id, about)

    @guarded
    def on_retriever_end(self, documents: Sequence[Document], *, run_id: UUID, **about: Any) -> None:
        """Copy the documents found."""
        self._end_leaf(run_id, steps_of.fill_documents, documents)

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
        """Begin the call of a chat model, and keep its prompt."""
        begun = self._begin("model", run_id, parent_run_id, about)
        if begun is not None:
            prompt = self._guard.attempt(messages_of.prompt_from, messages[0] if messages else (), begun[1].passages)
            self._start_model(begun, serialized, prompt or (), parent_run_id, about)

    @guarded
    def on_llm_start(
        self, serialized: Any, prompts: list[str], *, run_id: UUID, parent_run_id: UUID | None = None, **about: Any
    ) -> None:
        """Begin the call of a completion model, and keep its prompt."""
        begun = self._begin("model", run_id, parent_run_id, about)
        if begun is not None:
            prompt = (Message("user", prompts[0]),) if prompts else ()
            self._start_model(begun, serialized, prompt, parent_run_id, about)

    @guarded
    def on_llm_new_token(self, token: str | list[str | dict[str, Any]], *, run_id: UUID, **about: Any) -> None:
        """Note when the first text of a stream came."""
        self._note_text(run_id, token)

    @guarded
    def on_stream_event(self, event: Any, *, run_id: UUID, **about: Any) -> None:
        """Note when the first text of a version 3 stream came."""
        if (text := messages_of.text_in_stream_event(event)) is not None:
            self._note_text(run_id, text)

    @guarded
    def on_llm_end(self, response: LLMResult, *, run_id: UUID, **about: Any) -> None:
        """Keep the reply, the model's name and the token counts."""
        self._end_leaf(run_id, messages_of.fill_reply, response)

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
        """Begin the call of a tool."""
        begun = self._begin("tool", run_id, parent_run_id, about)
        if begun is not None:
            step, live = begun
            step.name = (serialized or {}).get("name") or step.name
            step.query = steps_of.tool_query_from(inputs, input_str)
            step.inputs = self._values(live, inputs) if isinstance(inputs, dict) else ()
            if step is live.root:
                self._open(live, inputs or input_str, parent_run_id, about)

    @guarded
    def on_tool_end(self, output: Any, *, run_id: UUID, **about: Any) -> None:
        """Keep the texts and documents that a tool returned."""
        self._end_leaf(run_id, steps_of.fill_tool_result, output)

    @guarded
    def on_custom_event(self, name: str, data: Any, *, run_id: UUID, **about: Any) -> None:
        """Take the contexts that the application states."""
        if name == self._contexts_event and (begun := self._live.find(run_id)) is not None and not begun[0].muted:
            begun[1].request.statements.contexts = stated_contexts(contexts_in_event(data))

    @guarded
    def on_interrupt(self, event: Any) -> None:
        """Note that a graph pauses, also without an error (`interrupt_before`, `interrupt_after`)."""
        if event.run_id is not None and (begun := self._live.find(event.run_id)) is not None:
            begun[1].interrupted = True

    def _begin(
        self, kind: StepKind, run_id: UUID, parent_run_id: UUID | None, about: Mapping[str, Any]
    ) -> Begun | None:
        begun = self._live.start(run_id, parent_run_id, kind, about.get("name"), counted=not self._on_every_call)
        if begun is not None:
            begun[0].muted = capture_suppressed()
        return begun

    def _end(self, run_id: UUID) -> Begun | None:
        return self._live.end(run_id, counted=not self._on_every_call)

    def _end_leaf(self, run_id: UUID, fill: Callable[[Step, Any, Passages], None], result: Any) -> None:
        """End a retrieval, or the call of a model or a tool, with its result."""
        begun = self._end(run_id)
        if begun is None:
            return
        step, live = begun
        if not (live.ignored or step.muted):
            self._guard.attempt(fill, step, result, live.passages)
            live.request.count_texts(step)
        if step is live.root:
            self._record(live, "ok")

    def _start_model(
        self,
        begun: Begun,
        serialized: Any,
        prompt: tuple[Message, ...],
        parent_run_id: UUID | None,
        about: Mapping[str, Any],
    ) -> None:
        step, live = begun
        step.name = step.name or messages_of.model_class_from(serialized)
        if step is live.root:
            self._open(live, _NOT_GIVEN, parent_run_id, about)
        if live.ignored or step.muted:
            return
        step.prompt = prompt
        step.model = messages_of.requested_model_from(about.get("metadata"))

    def _note_text(self, run_id: UUID, text: Any) -> None:
        begun = self._live.find(run_id)
        if begun is not None and begun[0].first_token_at is None and messages_of.text_of(text):
            begun[0].first_token_at = self._clock()

    def _open(self, live: Live, inputs: Any, parent_run_id: UUID | None, about: Mapping[str, Any]) -> None:
        """Fill in what is known when a request begins."""
        enable_interrupt_events(self)
        live.ignored = live.root.muted or (self._on_every_call and runs_in_evaluator())
        if not live.ignored:
            live.block = current_request(self._recorder)
            live.request.retriever_tools = self._options.retriever_tools
            draft = live.draft
            draft.parent_run_id = None if parent_run_id is None else str(parent_run_id)
            draft.name = about.get("name")
            metadata = about.get("metadata") or {}
            steps_of.fill_identity(draft, metadata, about.get("tags") or ())
            if "thread_id" in metadata:  # its outputs may hold what earlier requests of the thread left
                begin_on_thread(live, inputs, metadata["thread_id"])
            link_current_span(draft)
            self._take_inputs(live, inputs)
        for given_up in self._live.give_up():
            self._record(given_up, "abandoned")

    def _take_inputs(self, live: Live, inputs: Any) -> None:
        if inputs is not _NOT_GIVEN and not live.ignored:
            self._options.read_inputs(inputs, live.request.statements, messages_of.text_of)
            live.root.inputs = self._values(live, inputs)

    def _close(self, live: Live, outputs: Any, inputs: Any) -> None:
        """Finish a request whose root has returned."""
        if live.ignored:
            return
        self._take_inputs(live, inputs)
        status: TraceStatus = "ok"
        if live.interrupted:
            status = "interrupted"
        elif inputs is not _NOT_GIVEN and any(s.ended_at is None and s.parent == live.root.id for s in live.steps):
            # A stream that is closed early looks like success, except that a step directly in it is still open. Other
            # open steps, and those of a call that is not a stream, are background work of the application.
            status = "truncated"
        self._options.read_outputs(outputs, live.request.statements, messages_of.text_of, stated_contexts)
        if live.is_graph:
            live.request.doubt_unseen_prompt()
        live.root.outputs = without_earlier_documents(live, self._values(live, only_written(live, outputs)))
        self._record(live, status)

    def _values(self, live: Live, value: Any) -> Any:
        return self._guard.attempt(steps_of.values_in, value, live.passages) or ()

    def _record(self, live: Live, status: TraceStatus) -> None:
        if live.ignored:
            return
        draft = live.draft
        draft.status = status
        draft.ended_at = self._clock()
        end_on_thread(live, status)
        if live.block is not None:
            live.block.join(live.request)
        elif self._on_every_call and is_bare_model_call(live.root, live.steps):
            self._live.ignore_models()
        else:
            if status != "abandoned":  # given up by the next request, in another span
                link_root_span(draft)
            self._recorder.record(live.request)


def _enclosing_runs() -> Iterator[EnclosingRun]:
    """Yield the runs around the caller, by the handlers in LangChain's configuration variable."""
    manager: Any = (var_child_runnable_config.get() or {}).get("callbacks")
    run_id: Any = getattr(manager, "parent_run_id", None)
    for handler in () if run_id is None else manager.handlers:
        begun = handler._live.find(run_id) if isinstance(handler, RagstoneCallbackHandler) else None  # noqa: SLF001
        if begun is not None and not begun[1].ignored:
            yield EnclosingRun(handler.recorder, begun[1].block, begun[1].request, begun[0])


EnclosingRun.find_with(_enclosing_runs)
