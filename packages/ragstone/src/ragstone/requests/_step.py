"""The steps of one request, in the terms of no framework: what integrations and trace readers translate events into."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from ragstone.errors import ConfigurationError
from ragstone.requests._draft import PassageDraft, TraceDraft
from ragstone.requests._hits import documents_in, found_by_provider
from ragstone.requests._shape import content_text, read_tokens, shown_text
from ragstone.schema import Turn, message_role

RetrieverTools: TypeAlias = Mapping[str, str | bool | None]
"""By tool name: the separator between the passages in its text result, None or True if the whole text is one passage,
or False for a tool that does not retrieve, whose results are never passages."""


def read_retriever_tools(tools: Iterable[str] | RetrieverTools) -> dict[str, str | bool | None]:
    r"""Read the `retriever_tools` option: tool names, or a mapping from tool names to separators.

    Args:
        tools: Names of tools whose whole text result is one passage, or a mapping from each name to the separator
            between the passages in its result (None or True: the whole text is one passage), or to False for a tool
            that does not retrieve. A single string is one name.

    Returns:
        The separator, None or False for each tool name.

    Examples:
        >>> read_retriever_tools({"search_policy"})
        {'search_policy': None}
        >>> read_retriever_tools({"search_policy": "\n\n"})
        {'search_policy': '\n\n'}
        >>> read_retriever_tools({"search_policy": True, "calculator": False})
        {'search_policy': None, 'calculator': False}
    """
    if isinstance(tools, str):
        tools = (tools,)
    named = dict(tools) if isinstance(tools, Mapping) else dict.fromkeys(tools)
    separators = {name: None if separator is True else separator for name, separator in named.items()}
    for name, separator in separators.items():
        if not isinstance(name, str) or not name:
            raise ConfigurationError(f"retriever_tools: expected tool names, got {name!r}")
        if separator is not None and separator is not False and (not isinstance(separator, str) or not separator):
            raise ConfigurationError(
                f"retriever_tools: the separator of {name!r} must be a non-empty string, None or True (the whole text "
                f"is one passage) or False (the tool does not retrieve), got {separator!r}"
            )
    return separators


_MAX_LIVE_CHARS: Final = 4_000_000
"""Characters that the steps of a running request may hold."""

StepKind = Literal[
    "retrieval", "transform", "model", "tool", "chain", "agent", "embedding", "part", "infrastructure", "other"
]
"""What a step does.

`transform`: documents in, documents out (a reranker or a filter). `chain`: also a graph, an engine or a workflow.
`part`: a prompt builder or an output parser. `infrastructure`: a server, HTTP or database span.
"""

Role = Literal["system", "user", "assistant", "tool", "other"]


class Message(NamedTuple):
    """One message of a prompt or of a message list."""

    role: Role
    text: str
    calls_tool: bool = False
    """Whether an assistant's message asks for a tool call, so that its text is not a reply to the user."""
    tool: str | None = None
    """Name of the tool whose result a message of role "tool" holds."""
    passages: tuple[PassageDraft, ...] | None = None
    """Documents that a tool message carries in addition to its text (LangChain's `artifact`)."""

    @staticmethod
    def role_of(name: object) -> Role:
        """Return our name of a role, from that of a chat format or of a class of messages; "other" if it is unknown."""
        return message_role(name) or "other"

    @staticmethod
    def text_in(content: object) -> str:
        """Return every text that a model reads in a message's content: texts, documents and results of searches."""
        return shown_text(content)

    @staticmethod
    def reply_in(content: object) -> str | None:
        """Return the text of a message's content, without reasoning, calls of tools and images. None if it does not have any."""
        return content_text(content)

    @staticmethod
    def documents_in(content: object) -> tuple[PassageDraft, ...] | None:
        """Return the documents and search results among the parts of a message's content; None without any."""
        return documents_in(content) or None


class Value(NamedTuple):
    """One text, message list or document list in a step's inputs or outputs. Exactly one of the three is not None."""

    path: tuple[str, ...]
    """Keys from the top to the value, or `()` for the value itself."""
    text: str | None = None
    messages: tuple[Message, ...] | None = None
    passages: tuple[PassageDraft, ...] | None = None
    """An empty tuple is an empty list: no document at all."""
    is_evident: bool = True
    """Whether the passages have the form of documents, or the name of their list says that they were found."""


@dataclass(slots=True, kw_only=True, eq=False)
class Step:
    """One step (run, span, observation) of a request.

    A translator sets what its source reports and leaves the rest: what a source does not report is None, never a
    guess. Values are references to texts of the application, not joined, cleaned or chosen: `assemble` decides.
    """

    id: Hashable
    parent: Hashable = None
    """Id of the step around it. None, or an id that is not among the steps, makes this step a root."""
    kind: StepKind = "other"
    name: str | None = None
    started_at: float | None = None
    """Unix seconds."""
    ended_at: float | None = None
    first_token_at: float | None = None
    """Unix seconds at which the first text of a streamed reply arrived."""
    error: str | None = None
    """"Type: message" if the step failed."""
    muted: bool = False
    """Whether it ran while capture was suppressed: it then contributes nothing, and neither do the steps in it."""

    query: str | None = None
    """Retrieval, transform, tool: what it was asked. Other steps: only if the source states the question as such."""
    passages: Sequence[PassageDraft] | None = None
    """Retrieval, transform, tool: the documents it returned. Other steps: the contexts that the source states."""
    input_texts: Collection[str] | None = None
    """Texts of the documents that it was given."""
    prompt: Sequence[Message] | None = None
    """Model: the messages that were sent. A completion prompt is one message of role "user"."""
    reply: str | None = None
    """Model: the text of its reply, or another step's answer, if the source states it as such."""
    calls_tool: bool = False
    """Model: whether the reply asks for a tool call."""
    inputs: Sequence[Value] = ()
    """Texts, message lists and document lists in the inputs, by key path (see `harvest`)."""
    outputs: Sequence[Value] = ()
    """The same of the outputs."""

    model: str | None = None
    response_id: str | None = None
    """Model: the id that the provider gave to its response."""
    input_tokens: int | None = None
    output_tokens: int | None = None

    keeps_history: bool = False
    """Whether the framework keeps the conversation, as a chat engine does, so that prompts in it hold earlier turns."""
    session_id: str | None = None
    user_id: str | None = None
    app: str | None = None
    """Name, version and environment of the application, if the source states them."""
    release: str | None = None
    environment: str | None = None
    run_id: str | None = None
    """The id that a tracing tool uses for the request, if it differs from the trace id."""
    otel_trace_id: str | None = None
    """32 hex digits."""
    otel_span_id: str | None = None
    """16 hex digits."""
    reference: Sequence[str] = ()
    tags: Sequence[str] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def add_search(self, *places: object) -> None:
        """Add what the provider's own search gave to the model to the prompt, from a response or a message."""
        if found := found_by_provider(*places):
            self.add_found(found)

    def add_found(self, found: Sequence[PassageDraft]) -> None:
        """Add passages that the provider gave to the model to the prompt."""
        text = "\n\n".join(passage.text for passage in found)
        self.prompt = (*(self.prompt or ()), Message("tool", text, tool="file_search", passages=tuple(found)))

    def set_tokens(self, *places: object) -> None:
        """Set the tokens read and written, from the first of these objects or mappings that has each count, under any name."""
        self.input_tokens, self.output_tokens = read_tokens(places)


@dataclass(slots=True, kw_only=True)
class Statements:
    """What the application says itself about a request. It wins over everything that is found in the steps."""

    query: str | None = None
    contexts: Sequence[PassageDraft] | None = None
    response: str | None = None
    history: Sequence[Turn] | None = None
    """The conversation before the question. An empty one says that the question stands alone."""
    unread: Collection[str] = ()
    """Names of statements that could not be read: "found", "prompt", "used". They put the contexts in doubt."""
    doubts: Collection[str] = ()
    """Codes of what the application did wrong, such as "no_answer" (see `Evidence`)."""


@dataclass(slots=True, kw_only=True, eq=False)
class Request:
    """The steps of one request, before anything is decided about them.

    Attributes:
        draft: Identity, times, status, error, tags and metadata, as far as the translator knows them. `assemble`
            completes it with query, retrievals, contexts, response, tokens, model and evidence.
        steps: All steps, in the order in which they began.
        root: The step that is the request. None if `assemble` is to find it.
        statements: What the application states itself.
        retriever_tools: Names of tools whose text results are passages, with the separator between passages
            (None: the whole text is one passage), and names of tools that do not retrieve (False).
    """

    draft: TraceDraft
    steps: Sequence[Step] = ()
    root: Step | None = None
    statements: Statements = field(default_factory=Statements)
    retriever_tools: RetrieverTools = field(default_factory=dict)
    n_chars: int = 0
    """Characters counted so far, see `count_texts`."""

    def count_texts(self, step: Step) -> None:
        """Count the texts of a step that has ended, and keep those of a running request within 4 million characters.

        The prompts of calls that asked for a tool are given up first, the oldest first, then other prompts. A prompt
        that was given up is empty, so that no passage is found in it: contexts that depend on it are in doubt, never
        wrong.
        """
        # Counted as if nothing was shared. Only a sum above the limit is worth counting exactly.
        self.n_chars += sum(map(len, _texts(step)))
        if self.n_chars <= _MAX_LIVE_CHARS:
            return
        self.n_chars = _shared_size(self.steps)
        prompted = sorted((one for one in self.steps if one.prompt), key=lambda one: not one.calls_tool)
        while self.n_chars > _MAX_LIVE_CHARS and prompted:
            half = len(prompted) // 2 + 1  # each time is a count of everything
            for one in prompted[:half]:
                one.prompt = ()
            del prompted[:half]
            self.n_chars = _shared_size(self.steps)

    def doubt_unseen_prompt(self) -> None:
        """State a doubt if something was retrieved, and no model call was seen: nothing says what the model saw."""
        kinds = {step.kind for step in self.steps}
        if "retrieval" in kinds and "model" not in kinds:
            self.statements.doubts = (*self.statements.doubts, "unseen_prompt")

    def join(self, inner: Request, *, parent: Step) -> bool:
        """Make another finished request a part of this one, under a step, and only once if two handlers captured it.

        Its steps become steps of this one. What it states counts unless this one states it, and so do its session,
        user, reference, tags and metadata. Its failure is one that this request survived.

        Returns:
            False if it was a part already.
        """
        steps: Any = self.steps
        if inner.root is not None and any(step.id == inner.root.id for step in steps):
            return False
        known = {step.id for step in inner.steps}
        for step in inner.steps:
            if step.parent not in known:
                step.parent = parent.id
        steps.extend(inner.steps)
        self.retriever_tools = {**self.retriever_tools, **inner.retriever_tools}
        stated, said, draft, other = self.statements, inner.statements, self.draft, inner.draft
        stated.contexts = said.contexts if stated.contexts is None else stated.contexts
        stated.response = said.response if stated.response is None else stated.response
        stated.doubts = tuple(dict.fromkeys((*stated.doubts, *said.doubts)))
        for name in ("session_id", "user_id", "app", "release", "environment", "reference"):
            setattr(draft, name, getattr(draft, name) or getattr(other, name))
        draft.metadata = {**other.metadata, **draft.metadata}
        draft.tags = [*draft.tags, *(tag for tag in other.tags if tag not in draft.tags)]
        errors = [*draft.inner_errors, *other.inner_errors, *([other.error] if other.error else [])]
        draft.inner_errors = list(dict.fromkeys(errors))
        return True


def text_size(item: TraceDraft | Request) -> int:
    """Return the number of characters that a finished request holds, each shared text once."""
    if isinstance(item, Request):
        return _shared_size(item.steps) + text_size(item.draft)
    passages = [passage for retrieval in item.retrievals for passage in retrieval.passages]
    texts = [item.query or "", item.response or "", *(passage.text for passage in (*passages, *(item.contexts or ())))]
    return sum({id(text): len(text) for text in texts}.values())


def _texts(step: Step) -> Iterator[str]:
    for passage in step.passages or ():
        yield passage.text
    for message in step.prompt or ():
        yield message.text
    if step.reply is not None:
        yield step.reply
    for values in (step.inputs, step.outputs):
        for value in values:
            if value.text is not None:
                yield value.text
            for message in value.messages or ():
                yield message.text
            for passage in value.passages or ():
                yield passage.text


def _shared_size(steps: Iterable[Step]) -> int:
    return sum({id(text): len(text) for step in steps for text in _texts(step)}.values())
