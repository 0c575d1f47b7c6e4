"""A request that the application marks itself: `with monitor.request(question) as r`."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

from ragstone._util.exit import register_exit_hook
from ragstone._util.guard import Guard
from ragstone._util.variables import capture_suppressed
from ragstone.errors import ConfigurationError
from ragstone.requests import _current
from ragstone.requests._current import Recorder, link_current_span
from ragstone.requests._harvest import harvest, last_answer, look_up
from ragstone.requests._hits import Hits, read_hits, read_object
from ragstone.requests._live import LiveRequest, RequestArguments, text_or_none
from ragstone.requests._messages import Reply, read_prompt, read_reply
from ragstone.requests._shape import get
from ragstone.requests._step import Request, Step
from ragstone.requests._tap import AsyncTap, StreamListener, Tap, is_async_stream, is_stream
from ragstone.schema import TraceStatus, field_names

_T = TypeVar("_T")


class RequestBlock:
    """A request of the application, from `Monitor.request`: what it found, what it prompted, what it answered.

    Used as `with` or `async with`. Every method returns its argument and never raises: what it cannot read is counted
    in the recorder's `errors` and logged once, with the argument that helps. A block inside another one is a step of
    it.
    """

    def __init__(self, recorder: Recorder, guard: Guard, arguments: RequestArguments) -> None:
        self.outer: Any = None
        self.recorder = recorder
        self._guard = guard
        self._arguments = arguments
        self._live: LiveRequest | None = None
        self._enclosing: _current.EnclosingRun | None = None
        """The run of a framework that this request joins when it ends."""
        self._step = Step(id=None, kind="chain", name=arguments.given["name"])
        self._model: Step | None = None
        """The model call whose reply has not come yet."""
        self._source: StreamListener | None = None
        """The stream that the answer comes from."""
        self._n_open = 0
        """Streams that have not ended."""
        self._status: TraceStatus = "ok"
        self._error: BaseException | None = None
        """What the last stream ended in."""
        self._is_answered = False
        self._is_entered = False
        self._is_left = False
        self._n_joined = 0
        self._n_answering = 0
        """Joined requests that can have written the answer."""
        self._pid = os.getpid()
        self._reading: dict[str, Any] = {}
        """How `found` reads hits, for `used`."""

    # -- the block itself

    @property
    def ended(self) -> bool:
        """Whether the request has ended, or has not begun."""
        if self._live is None:  # not captured, or not begun
            return self._is_left or not self._is_entered
        return self._live.ended or self._step.ended_at is not None

    @property
    def trace_id(self) -> str | None:
        """The id under which the request is stored. None before it begins, and if it is not captured."""
        return None if self._live is None else self._live.draft.trace_id

    def __enter__(self) -> Self:
        try:
            self._begin()
        except Exception as error:  # noqa: BLE001 - whatever it is, the application continues
            self._guard.count("request", error)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        _current.leave(self, self.outer)
        self._is_left = True
        if error is not None:
            self._end("truncated" if isinstance(error, GeneratorExit) else "error", error)
        elif self._n_open == 0:
            self._end(self._status, self._error)

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.__exit__(kind, error, traceback)

    def _begin(self) -> None:
        if self._is_entered:
            self._guard.note("request.entered_twice", "a block was entered twice; call request() for each request")
            return
        self._is_entered = True
        outer = _current.current_request(self.recorder)
        self.outer = _current.enter(self)
        if capture_suppressed():
            return
        self._step.started_at = time.time()
        if isinstance(outer, _current.EnclosingRun):
            self._enclosing, outer = outer, None
        if outer is None:
            draft = self._arguments.draft(self._step.started_at)
            link_current_span(draft)
            self._step.id = "request"
            self._live = LiveRequest(draft, self._step)
            self._live.statements.query = draft.query
            self._live.statements.history = self._guard.attempt(self._arguments.history)
            register_exit_hook(self._abandon)
        elif (live := outer._live) is not None:  # noqa: SLF001 - this is a step of the block around it
            self._live = live
            self._step.id, self._step.parent = live.new_id(), outer._step.id  # noqa: SLF001
            self._step.query = self._arguments.question
            live.add(self._step)

    # -- what the application says

    def found(
        self,
        hits: _T,
        *,
        query: str | None = None,
        name: str | None = None,
        text: str | None = None,
        columns: Sequence[str] | None = None,
        texts: Sequence[str] | None = None,
        ids: Sequence[Any] | None = None,
        scores: Sequence[Any] | None = None,
    ) -> _T:
        """Note the result of a search.

        Args:
            hits: The result as the client returns it: of a vector database, of a provider's search, of a tool of MCP,
                rows of a SQL database, documents of a framework, mappings with a text, or texts.
            query: What was searched for, if it is not the question.
            name: Name of the index or the retriever.
            text: Field that holds the text, if it does not have a usual name (`text`, `content`, `page_content`, …).
            columns: Names of the columns, if the hits are tuples.
            texts: Texts of the hits, if these are an array of positions (FAISS), as many as hits.
            ids: Ids of the hits, if they do not hold any.
            scores: Scores of the hits, if they do not hold any. Higher means better.

        Returns:
            `hits`, unchanged.
        """
        if (live := self._active("found")) is not None:
            reading = {"text": text, "columns": columns}
            self._reading = {key: value for key, value in reading.items() if value is not None} or self._reading
            try:
                query, name = (
                    text_or_none(self._guard, "found", key, value) for key, value in (("query", query), ("name", name))
                )
                for passages in self._read("found", hits, **self._reading, texts=texts, ids=ids, scores=scores).lists:
                    live.add(self._new_step("retrieval", query=query, name=name, passages=passages))
            except Exception as error:  # noqa: BLE001 - objects of the application may do anything
                self._failed("found", error)
        return hits

    def prompt(self, messages: _T) -> _T:
        """Note the prompt of the model call that writes the answer, so that contexts are the passages that stand in it.

        Args:
            messages: The messages as the client takes them, or a text. An agent calls this for each turn.

        Returns:
            `messages`, unchanged.
        """
        if (live := self._active("prompt")) is not None:
            try:
                prompt = read_prompt(messages)
                if prompt:
                    self._model = self._new_step("model", prompt=prompt)
                    live.add(self._model)
                else:
                    self._failed(
                        "prompt",
                        ConfigurationError(f"takes a text or a list of messages, got {type(messages).__name__}"),
                    )
            except Exception as error:  # noqa: BLE001
                self._failed("prompt", error)
        return messages

    def used(self, hits: _T, *, text: str | None = None, columns: Sequence[str] | None = None) -> _T:
        """State the passages that were put into the prompt. Several calls add up.

        Args:
            hits: Some of the hits, texts, or anything else that `found` takes. An empty list says that none was used.
            text: As for `found`, whose value is the default.
            columns: As for `found`, whose value is the default.

        Returns:
            `hits`, unchanged.
        """
        if (live := self._active("used")) is not None:
            given = {key: value for key, value in (("text", text), ("columns", columns)) if value is not None}
            try:
                read = self._read("used", hits, **(self._reading | given))
                passages = [passage for passages in read.lists for passage in passages]
                if self._step is live.root:
                    live.statements.contexts = [*(live.statements.contexts or ()), *passages]
                else:
                    self._step.passages = [*(self._step.passages or ()), *passages]
            except Exception as error:  # noqa: BLE001
                self._failed("used", error)
        return hits

    def answer(self, response: Any) -> Any:
        """Note the answer.

        Args:
            response: A text, the response of a client (OpenAI, Anthropic, and those that have their shapes), or a
                stream. A reply that calls a tool does not count as the answer.

        Returns:
            `response`, or for a stream an object that passes everything through, and ends the request when it has been
            read, closed or collected.
        """
        return self._answer(response, explicit=True)

    def returned(self, value: Any) -> Any:
        """Note what the application returned, for code that calls a whole application inside a block.

        A text, a client's response or a field with a usual name is the answer, unless `answer` was called. A mapping
        with
        `contexts` states them. Everything else in the value is evidence, as the outputs of a framework's chain are.

        Args:
            value: What it returned.

        Returns:
            `value`, or the tap of a stream, as for `answer`.
        """
        if is_async_stream(value) or is_stream(value):
            return self._answer(value, explicit=False)
        if (live := self._active("returned")) is not None:
            try:
                self._step.outputs = harvest(value, read_object)
                if isinstance(value, Mapping) and value.get("contexts") is not None:
                    self.used(value["contexts"])
                reply = read_reply(value)
                if reply is not None and (reply.model is not None or self._model is not None):
                    self._take(live, reply, explicit=False)
                elif reply is not None and not (self._is_answered or reply.calls_tool):
                    # Not a model's step: one without a prompt would hide the framework's call that wrote this text.
                    self._state_response(live, reply.text)
                self._is_answered = True
            except Exception as error:  # noqa: BLE001 - objects of the application may do anything
                self._failed("returned", error)
        return value

    def join(self, request: Request) -> bool:
        """Make a framework's finished request a part of this one, instead of recording it. Never raises.

        Contexts and a response that it states count unless the block states its own, and so do its session, user,
        reference, tags and metadata. False if the block had ended, so that the steps are left out.
        """
        live = self._live
        if live is None:
            return False
        try:
            joined = live.join(request, parent=self._step)
        except Exception as error:  # noqa: BLE001
            self._failed("join", error)
            return False
        self._n_joined += joined
        self._n_answering += joined and request.root is not None and request.root.kind in ("chain", "agent", "model")
        return joined

    # -- inside

    def _active(self, method: str) -> LiveRequest | None:
        """Return the request if it is in flight. Calls before its begin or after its end are counted."""
        if not self._is_entered:
            self._guard.note(f"{method}.early", f"{method}() was called outside of `with monitor.request(...) as r`")
        elif self._live is not None and self.ended:
            self._guard.note(f"{method}.late", f"{method}() was called after its request had ended")
        else:
            return self._live
        return None

    def _new_step(self, kind: Any, **values: Any) -> Step:
        assert self._live is not None  # noqa: S101 - for the type checker
        return Step(id=self._live.new_id(), parent=self._step.id, kind=kind, started_at=time.time(), **values)

    def _read(self, method: str, hits: Any, **reading: Any) -> Hits:
        read = read_hits(hits, **reading)
        if read.without_text is not None:
            self._guard.note(f"{method}.without_text", f"{method}(): {read.without_text}")
            if read.is_complete:
                self._doubt(f"without_text:{method}")
        if read.n_cut:
            self._guard.note(
                f"{method}.cut",
                f"{method}() keeps 1,000 hits of each search and left out {read.n_cut:,}; pass fewer hits",
            )
        if not read.is_complete:
            self._note_unread(method)
        return read

    def _doubt(self, code: str) -> None:
        if self._live is not None:
            self._live.doubts[code] = None

    def _note_unread(self, method: str) -> None:
        if self._live is not None:
            self._live.unread[method] = None

    def _failed(self, method: str, error: Exception) -> None:
        if method in ("found", "prompt", "used"):
            self._note_unread(method)
        if isinstance(error, ConfigurationError):
            self._guard.note(f"{method}.unreadable", f"{method}(): {error}")
        else:
            self._guard.count(f"request.{method}", error)

    def _answer(self, response: Any, *, explicit: bool) -> Any:
        if (live := self._active("answer")) is None:
            return response
        try:
            if is_async_stream(response) or is_stream(response):
                return self._tap(response, explicit=explicit)
            inner = get(response, "response_gen")
            if is_async_stream(inner) or is_stream(inner):
                # A streamed response of LlamaIndex. If its stream cannot be replaced, only its own steps show the
                # answer.
                if "response_gen" in getattr(response, "__dict__", ()):
                    response.response_gen = self._tap(inner, explicit=explicit)
            elif (reply := read_reply(response) or _read_state(response)) is not None:
                if explicit and reply.text is not None and not reply.calls_tool:
                    self._source = None  # the streams before it are not the answer
                self._take(live, reply, explicit=explicit)
            elif explicit or not (response is None or self._is_answered):
                self._guard.note(
                    "answer.unreadable",
                    f"answer() cannot read {type(response).__name__}; pass the text, the client's response or its stream",
                )
        except Exception as error:  # noqa: BLE001
            self._failed("answer", error)
        return response

    def _tap(self, stream: Any, *, explicit: bool) -> Any:
        """Return an object in place of a stream, which reports its chunks and its end."""
        listener = StreamListener(self, explicit=explicit)
        tap = (AsyncTap if is_async_stream(stream) else Tap)(stream, listener)
        if explicit or self._source is None:
            self._source = listener
        for block in self._held_open():
            block._count_stream(1)  # noqa: SLF001 - our own class
        return tap

    def _held_open(self) -> list[RequestBlock]:
        """Return this block and the blocks of the same request around it: a stream that is not over holds them open."""
        blocks: list[RequestBlock] = [self]
        outer = self.outer
        while outer is not None:
            if isinstance(outer, RequestBlock) and outer._live is self._live:  # noqa: SLF001
                blocks.append(outer)
            outer = outer.outer
        return blocks

    def _take(self, live: LiveRequest, reply: Reply, *, explicit: bool, first_token_at: float | None = None) -> None:
        """Note a reply, and that it is the answer unless it calls a tool."""
        if self._is_answered and not explicit:
            return  # the function has stated its answer itself
        is_answer = reply.text is not None and not reply.calls_tool
        if self._is_answered and is_answer:
            self._guard.note("answer.twice", "answer() was called twice for one request; the last answer counts")
            self._doubt("answered_twice")
        step = self._model
        # A step without a prompt would hide the call of a framework that wrote the reply.
        is_framework = self._n_joined > 0 or (self._step is live.root and not explicit)
        if step is None and (reply.model is not None or not is_framework):
            step = self._new_step("model")
            live.add(step)
        self._model = None
        if reply.found:
            if step is None or step.prompt is None:
                live.add(self._new_step("retrieval", name="file_search", passages=reply.found))
            else:
                step.add_found(reply.found)
        if step is not None:
            step.reply, step.calls_tool, step.model = reply.text, reply.calls_tool, reply.model
            step.input_tokens, step.output_tokens = reply.input_tokens, reply.output_tokens
            step.first_token_at, step.ended_at = first_token_at, time.time()
        self._step.first_token_at = first_token_at
        if not is_answer:
            return
        self._is_answered = True
        self._status, self._error = "ok", None
        self._state_response(live, reply.text)

    def _state_response(self, live: LiveRequest, text: str | None) -> None:
        if self._step is live.root:
            live.statements.response = text
        else:
            self._step.reply = text
            for block in self._held_open()[1:]:  # what a nested block answers can be the answer of those around it
                block._n_joined += 1  # noqa: SLF001

    def _stream_over(self, listener: StreamListener, error: BaseException | None) -> None:
        """Take the text of a stream that has ended, and end the request if the block has ended."""
        live = self._live
        if live is not None and not self.ended:
            if listener is self._source:
                self._take_stream(live, listener)
            if listener.status != "ok" and (listener is self._source or not listener.explicit):
                self._status, self._error = listener.status, error
        for block in self._held_open():
            block._count_stream(-1)  # noqa: SLF001

    def _count_stream(self, change: int) -> None:
        """Count the streams that have not ended. The last one ends a block that has been left."""
        self._n_open += change
        if self._is_left and self._n_open == 0:
            self._end(self._status, self._error)

    def _take_stream(self, live: LiveRequest, listener: StreamListener) -> None:
        reply = listener.reader.reply
        if listener.status != "ok":
            reply.text = None  # a part of a text is not the answer
        elif reply.text is None and not (reply.calls_tool or self._is_answered or self._n_joined):
            self._guard.note(
                "answer.unreadable",
                "answer(): no chunk of the stream held a known text; pass a stream of texts, or the text itself",
            )
        self._take(live, reply, explicit=listener.explicit, first_token_at=listener.first_token_at)

    def _abandon(self) -> None:
        """Record the request in flight when the interpreter exits: a stream that is held and never read would be lost."""
        self._end("abandoned")

    def _end(self, status: TraceStatus, error: BaseException | None = None) -> None:
        live = self._live
        if live is None or self.ended or os.getpid() != self._pid:
            return  # a forked child leaves the request to its parent
        try:
            described = None if error is None or status != "error" else Guard.describe(error)
            if self._step is not live.root:
                self._step.ended_at, self._step.error = time.time(), described
                return
            if status == "ok" and not (self._is_answered or self._n_joined or self._source or self._enclosing):
                self._guard.note(
                    "answer.missing", "a request ended without an answer; pass it to answer() inside the block"
                )
                self._doubt("no_answer")
            elif status == "ok" and not (self._is_answered or self._source) and self._n_answering > 1:
                self._guard.note(
                    "answer.several", "several requests of a framework are in one block; pass the answer to answer()"
                )
            request = live.end(status, described)
            if request is not None:
                (self._enclosing.join if self._enclosing else self.recorder.record)(request)
        except Exception as failure:  # noqa: BLE001
            self._guard.count("request", failure)


def _read_state(value: Any) -> Reply | None:
    """Read the answer in what a framework's application returned: a state, a result, or messages."""
    text = look_up(harvest(value, read_object), field_names("response", "output"), last_answer)
    if text is None and isinstance(value, Mapping) and len(value) == 1:  # what a node of a graph wrote
        (inner,) = value.values()
        return _read_state(inner) if isinstance(inner, Mapping) else None
    return None if text is None else Reply(text=text)
