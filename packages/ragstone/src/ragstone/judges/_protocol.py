"""The seam between metrics and models: a prompt that is data, replies, and the `Judge` Protocol."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, Literal, Protocol, TypeVar, runtime_checkable

from pydantic import TypeAdapter

from ragstone.schema import Interval, Usage

__all__ = [
    "AbstentionEstimate",
    "JsonReply",
    "Judge",
    "JudgeIdentity",
    "NumberReply",
    "Preparable",
    "Prompt",
    "Reader",
    "TextReply",
]

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeIdentity:
    """Who judged: enough to tell two judge configurations apart, and nothing secret."""

    name: str
    """For people: "qwen3-8b at 127.0.0.1:8000", "lexical baseline"."""
    hash: str
    """For keys: changes with endpoint, model, sampling settings and our rendering version."""
    is_baseline: bool = False
    """True for stand-ins that are no judge; every table and report says so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """A question to a judge, as data: each judge renders it in its own way.

    `fields` is the shared, *untrusted* part (contexts, query, response, reference) and is rendered first, in the
    order given, so that all metrics of one sample share one prompt prefix; `task` is our own instruction and comes last.
    """

    construct: str
    """What is asked, as an identifier ("groundedness", "relevance"); a judge without a model answers by it."""
    task: str
    fields: Mapping[str, str | tuple[str, ...]]
    """Untrusted text by field name; a tuple is rendered as numbered parts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TextReply:
    """Free text from a judge."""

    text: str
    usage: Usage = field(default_factory=Usage)


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberReply:
    """A number from a judge, on the scale that was asked for."""

    value: float
    raw: str
    method: str
    n: int = 1
    """Replies the value rests on."""
    n_missing: int = 0
    """Replies that were drawn and held no usable number; in no other number."""
    interval: Interval | None = None
    """On the scale that was asked for; None where a single reply tells nothing about its spread."""
    mass: float | None = None
    """Probability that the reply is a whole number of the scale and nothing else, where it was read."""
    usage: Usage = field(default_factory=Usage)


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonReply(Generic[T]):
    """A value from a judge, of the shape that was asked for."""

    value: T
    raw: str
    method: str
    usage: Usage = field(default_factory=Usage)


@dataclass(frozen=True, slots=True, kw_only=True)
class AbstentionEstimate:
    """How likely a reader is to abstain: p(NO-RESPONSE | question, passages)."""

    value: float
    """Probability in [0, 1] that the reply starts with an abstention."""
    interval: Interval
    """Around `value`; its method says what kind of interval ("exact", "bound", "wilson", "beta_mixture")."""
    method: Literal["exact_sequence", "first_token", "monte_carlo", "lexical"]
    complete: float | None = None
    """Probability that the reply is an abstention and nothing else, where the method can tell."""
    n: int = 1
    """Replies drawn ("monte_carlo"), else 1."""
    n_missing: int = 0
    """Draws that gave no reply to look at (declined by a content filter, say); in no other number."""
    usage: Usage = field(default_factory=Usage)


@runtime_checkable
class Judge(Protocol):
    """A model (or a stand-in) that answers questions about a sample. Safe to use from many tasks of one loop."""

    @property
    def identity(self) -> JudgeIdentity:
        """Who judges."""
        ...

    async def ask_text(self, prompt: Prompt, *, max_tokens: int = 512) -> TextReply:
        """Ask for free text.

        Raises:
            JudgeError: When there is no usable answer; `kind` says why.
        """
        ...

    async def ask_number(self, prompt: Prompt, *, low: float = 0, high: float = 100) -> NumberReply:
        """Ask for one number in [low, high].

        Raises:
            JudgeError: When there is no usable answer; `kind` says why. A value out of range is never clipped.
        """
        ...

    async def ask_json(self, prompt: Prompt, schema: TypeAdapter[T], *, max_tokens: int = 1024) -> JsonReply[T]:
        """Ask for a value of a shape that pydantic can describe and check (`TypeAdapter(list[str])`).

        Raises:
            JudgeError: When there is no usable answer; `kind` says why. A reply of another schema is never mended.
        """
        ...

    async def aclose(self) -> None:
        """Let go of connections. Safe to call twice."""
        ...


@runtime_checkable
class Reader(Protocol):
    """The application's generator: the model that reads the retrieved passages and answers, or abstains."""

    @property
    def identity(self) -> JudgeIdentity:
        """Who reads; the hash changes with prompt template, abstention phrases and estimator as well."""
        ...

    async def estimate_abstention(self, query: str, passages: Sequence[str]) -> AbstentionEstimate:
        """How likely the reader abstains when it is given `passages`.

        Raises:
            JudgeError: There is no usable answer; `kind` says why.
        """
        ...

    async def answer(self, query: str, passages: Sequence[str]) -> TextReply:
        """The reader's own answer from `passages` (greedy, where the model allows it).

        Raises:
            JudgeError: There is no usable answer.
        """
        ...

    def is_abstention(self, reply: str) -> bool:
        """Whether a reply is an abstention."""
        ...

    async def aclose(self) -> None:
        """Let go of connections. Safe to call twice."""
        ...


@runtime_checkable
class Preparable(Protocol):
    """A judge, reader or metric that has to load or find out something before it is first used."""

    async def prepare(self) -> None:
        """Load it, or find it out. A judge's `identity` is final afterwards."""
        ...
