"""The steps of one request, in the terms of no framework: what integrations and trace readers translate events into."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from ragstone.requests._draft import PassageDraft, TraceDraft
from ragstone.requests._plain import read_tokens
from ragstone.requests._tools import RetrieverTools
from ragstone.schema import Turn, message_role

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


class Value(NamedTuple):
    """One text, message list or document list in a step's inputs or outputs. Exactly one of the three is not None."""

    path: tuple[str, ...]
    """Keys from the top to the value, or `()` for the value itself."""
    text: str | None = None
    messages: tuple[Message, ...] | None = None
    passages: tuple[PassageDraft, ...] | None = None
    """An empty tuple is an empty list: no document at all."""


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
