"""Interface between metrics and models: prompts as data, replies, and the Protocols `Judge`, `Reader` and `Embedder`."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Generic, Literal, Protocol, TypeVar, runtime_checkable

from pydantic import TypeAdapter

from ragstone.errors import JudgeReplyError
from ragstone.schema import Failure, Interval, NotApplicable, Score, Usage

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

T = TypeVar("T")

BASELINE_NOTE: Final = (
    "scored by a baseline (such as word overlap), which is not a judge: use it only to test your setup"
)
"""Text for scores for which `is_baseline` is true, in every table and report. JSON has `"judge_is_baseline": true`."""
ROUNDING: Final = 1e-6
"""Largest rounding error of a number of a model, which may be in single precision."""
PLACEHOLDER: Final = re.compile(r"\{([A-Za-z]\w*)\}")
"""A field in a prompt of a user."""
_BASELINE: Final = re.compile(r"\blexical baseline\b|\(baseline\)")


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeIdentity:
    """Identity of a judge configuration, without secrets."""

    name: str
    """Display name: "qwen3-8b at 127.0.0.1:8000", "lexical baseline"."""
    hash: str
    """Hash for keys. It depends on endpoint, model, sampling settings and the version of the rendering."""
    is_baseline: bool = False
    """True for stand-ins that are not a judge. Every table and report states this, and the name ends in
    "(baseline)"."""
    refused_parameters: tuple[str, ...] = ()
    """Sampling parameters that the endpoint refuses, so that the server's own settings apply. Tables state this."""

    def __post_init__(self) -> None:
        if self.is_baseline and not is_baseline(self.name):
            # An outcome contains only the name.
            object.__setattr__(self, "name", f"{self.name} (baseline)")


def is_baseline(*judges: str | None) -> bool:
    """Return whether any of these names of judges (`Score.judge`) is, or contains, that of a baseline."""
    return any(judge is not None and _BASELINE.search(judge) for judge in judges)


NO_CLAIMS: Final = "does not contain claims"
"""End of the reason of an outcome without claims."""
OUTCOME_CHECKS: Final[Mapping[str, str]] = {
    "forced": (
        "are numbers that the server forced, because the judge's replies were not numbers. They can be arbitrary: "
        "compare some of them with your own ratings, or use another judge"
    ),
    "second_request": "needed a second request, because the first reply was not usable",
    "no_probabilities": (
        "are single replies, because the probabilities that score_mode='expected' needs are not available"
    ),
    "no_claims": "are not applicable, because the judge listed no claims in the answer",
    "other_words": "are of a reader that declined in other words than its phrase (reader.abstention)",
    "experimental": (
        "are of an experimental judge, which only decides on support. Compare some of them with your own ratings"
    ),
    "one_value": "are ratings that all have one value, so the judge measures nothing. Use another judge",
    "fractions": "are ratings of at most 0.01 of 1, as if the judge rates from 0 to 1, not to 100. Use another judge",
}
"""What can make an outcome doubtful, in the words of a notice."""


LEAST_RATINGS: Final = 20
"""Smallest number of ratings of which one value shows that a judge does not measure."""
_RATED: Final = ("single_reply", "forced_reply", "expected", "sampled", "reasoned")
"""Methods of ratings on a scale, at their start."""
_RARE: Final = 0.01


class RatingRange:
    """Number, smallest and largest of a judge's ratings from 0 to 1."""

    def __init__(self) -> None:
        self.n, self.low, self.high = 0, math.inf, -math.inf

    @staticmethod
    def is_rating(method: str, judge: str | None) -> bool:
        """Return whether a score with this method is a rating of a judge on a scale."""
        return method.startswith(_RATED) and not is_baseline(judge)

    def add(self, value: float) -> None:
        """Add a rating."""
        self.n, self.low, self.high = self.n + 1, min(self.low, value), max(self.high, value)

    def check(self) -> Literal["one_value", "fractions"] | None:
        """Return which of `OUTCOME_CHECKS` holds for all ratings together, or None."""
        if self.low < self.high:
            return "fractions" if 0 < self.high <= _RARE else None
        return "one_value" if self.n >= LEAST_RATINGS else None


def check_method(method: str) -> list[str]:
    """Return which of `OUTCOME_CHECKS` hold for the method of a score."""
    found = {"forced": "forced" in method, "second_request": "second" in method}
    found["no_probabilities"] = method.endswith("no_probabilities")
    found["experimental"] = method.removeprefix("mixed_").startswith(("nli", "classifier"))
    return [name for name, holds in found.items() if holds]


def common_method(methods: Iterable[str]) -> str:
    """Return the method of a value that follows from several replies. `check_method` finds what one of them lacks."""
    distinct = sorted(set(methods))
    if len(distinct) == 1:
        return distinct[0]
    return "_".join(["mixed", *filter(check_method, distinct)])


def check_outcome(outcome: Score | NotApplicable | Failure) -> list[str]:
    """Return which of `OUTCOME_CHECKS` hold for an outcome. A baseline is not checked."""
    if isinstance(outcome, Failure) or is_baseline(outcome.judge):
        return []
    if isinstance(outcome, NotApplicable):
        is_empty = outcome.reason.endswith(NO_CLAIMS) and "abstains" not in (outcome.answer or ())
        return ["no_claims"] if is_empty else []
    passages = outcome.details.get("passages") if outcome.metric.startswith("udcg") else None
    is_other = isinstance(passages, list) and any(isinstance(p, Mapping) and p.get("n_declined") for p in passages)
    return [*check_method(outcome.method), *(["other_words"] if is_other else [])]


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """A prompt for a judge, as data. Each judge renders it.

    `fields` is the shared, *untrusted* part (contexts, query, response, reference). It is rendered first and in this
    order, so that all metrics of one sample share one prompt prefix. `task` is the instruction, and is rendered last.
    `examples` are rendered before the fields, so that all prompts of this task share them as a prefix.
    """

    construct: str
    """Construct to rate, as an identifier ("groundedness", "relevance"). A judge without a model replies by it."""
    task: str
    fields: Mapping[str, str | tuple[str, ...]]
    """Untrusted text by field name. A tuple is rendered as numbered parts."""
    examples: str = ""
    """Trusted examples of the task, with the reply to each. They are part of the instructions, like `task`."""
    is_template: bool = False
    """Whether `task` is a whole prompt of a user. Each `{field}` in it is replaced by the tagged block of this
    field."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TextReply:
    """Free text from a judge."""

    text: str
    usage: Usage = field(default_factory=Usage)


def bounded_number(value: float, low: float, high: float, *, what: str) -> float:
    """Return a number that a model returned, without rounding errors at the ends of its range."""
    if not low - ROUNDING <= value <= high + ROUNDING:
        raise JudgeReplyError(f"{what} must be from {low:g} to {high:g}, got {value!r}")
    return float(min(max(value, low), high))


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberReply:
    """A number from a judge, on the requested scale."""

    value: float
    raw: str
    method: str
    n: int = 1
    """Number of replies that the value is based on."""
    n_missing: int = 0
    """Number of sampled replies without a usable number. They are not included in the other numbers."""
    interval: Interval | None = None
    """Interval on the requested scale, or None if a single reply gives no information about its spread."""
    reasons: str | None = None
    """Reasons that the judge wrote before the number, or None if it was not asked for any."""
    mass: float | None = None
    """Probability that the reply is an integer of the scale and nothing else, or None if it was not read."""
    usage: Usage = field(default_factory=Usage)


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonReply(Generic[T]):
    """A value from a judge, with the requested shape."""

    value: T
    raw: str
    method: str
    usage: Usage = field(default_factory=Usage)


@dataclass(frozen=True, slots=True, kw_only=True)
class AbstentionEstimate:
    """Probability that a reader abstains: p(NO-RESPONSE | query, passages)."""

    value: float
    """Probability in [0, 1] that the reply starts with an abstention."""
    interval: Interval
    """Interval of `value`. Its method is the kind of interval ("exact", "bound", "wilson", "stopped")."""
    method: Literal["exact_sequence", "first_token", "monte_carlo", "lexical"]
    complete: float | None = None
    """Probability that the reply is an abstention and nothing else, or None if the method does not measure it."""
    n: int = 1
    """Number of sampled replies ("monte_carlo"), else 1."""
    n_missing: int = 0
    """Number of unusable draws (for example declined by a content filter). Not included in the other numbers."""
    n_drawn: int = 0
    """Number of replies that were read, to see how the reader declines. Exact methods draw one for 20 passages."""
    n_declined: int = 0
    """Number of these that decline without being part of `value`: in other words, or in another form of a phrase."""
    usage: Usage = field(default_factory=Usage)

    def __post_init__(self) -> None:
        numbers = (self.value, self.interval.low, self.interval.high, 0.0 if self.complete is None else self.complete)
        value, *_ = (bounded_number(number, 0, 1, what="the probability of an abstention") for number in numbers)
        object.__setattr__(self, "value", value)


async def ask_number(judge: Judge, prompt: Prompt, *, low: float = 0, high: float = 100) -> NumberReply:
    """Request one number in [low, high] from any judge, and check its reply."""
    reply = await judge.ask_number(prompt, low=low, high=high)
    ends = () if reply.interval is None else (reply.interval.low, reply.interval.high)
    for number in (reply.value, *ends):
        bounded_number(number, low, high, what=f"the number for {prompt.construct!r}")
    return reply


@runtime_checkable
class Judge(Protocol):
    """A model (or a stand-in) that rates samples. Tasks of one event loop can share it."""

    @property
    def identity(self) -> JudgeIdentity:
        """Identity of the judge."""

    async def ask_text(self, prompt: Prompt, *, max_tokens: int = 512) -> TextReply:
        """Request free text.

        Raises:
            JudgeError: If no usable reply is received. `kind` is the reason.
        """

    async def ask_number(self, prompt: Prompt, *, low: float = 0, high: float = 100) -> NumberReply:
        """Request one number in [low, high].

        Raises:
            JudgeError: If no usable reply is received. `kind` is the reason. A value out of range is never clipped.
        """

    async def ask_json(self, prompt: Prompt, schema: TypeAdapter[T], *, max_tokens: int = 1024) -> JsonReply[T]:
        """Request a value of a shape that pydantic can describe and validate (`TypeAdapter(list[str])`).

        Raises:
            JudgeError: If no usable reply is received. `kind` is the reason. An invalid reply is never repaired.
        """

    async def aclose(self) -> None:
        """Close connections. Further calls have no effect."""


@runtime_checkable
class Reader(Protocol):
    """The application's generator: the model that reads the retrieved passages and answers, or abstains."""

    @property
    def identity(self) -> JudgeIdentity:
        """Identity of the reader. The hash also depends on prompt template, abstention phrases and estimator."""

    async def estimate_abstention(self, query: str, passages: Sequence[str]) -> AbstentionEstimate:
        """Estimate the probability that the reader abstains with these passages.

        Raises:
            JudgeError: If no usable reply is received. `kind` is the reason.
        """

    async def answer(self, query: str, passages: Sequence[str]) -> TextReply:
        """Return the reader's answer from these passages (greedy, if the model allows it).

        Raises:
            JudgeError: If no usable reply is received.
        """

    def is_abstention(self, reply: str) -> bool:
        """Return whether a reply is an abstention."""

    async def aclose(self) -> None:
        """Close connections. Further calls have no effect."""


@runtime_checkable
class Embedder(Protocol):
    """A model that maps texts to vectors. Texts with similar meanings have vectors with a high cosine."""

    @property
    def identity(self) -> JudgeIdentity:
        """Identity of the embedder. The hash also depends on the dimension of the vectors."""

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float64]:
        """Return one vector of length 1 per text: an array of shape (number of texts, dimension).

        Args:
            texts: At least one text, none of them blank.

        Raises:
            JudgeError: If no usable reply is received. `kind` is the reason.
        """

    async def aclose(self) -> None:
        """Close connections. Further calls have no effect."""


@runtime_checkable
class ExactReader(Reader, Protocol):
    """A reader that also provides the probability of a given answer."""

    async def answer_logprob(self, query: str, passages: Sequence[str], answer: str) -> float:
        """Return the log-probability that the reader's answer starts with a text.

        Raises:
            ConfigurationError: If the endpoint does not provide it.
            JudgeError: If no usable reply is received.
        """


@runtime_checkable
class Preparable(Protocol):
    """A judge, reader, embedder or metric that must load or detect something before its first use."""

    async def prepare(self) -> None:
        """Load or detect it. The `identity` of a judge is final afterwards."""
