"""One run of a tool: its models, whose replies a journal keeps, and what became of their calls."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from functools import lru_cache
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from pydantic import TypeAdapter

from ragstone._util.plural import count
from ragstone._util.variables import suppress_capture
from ragstone.errors import ConfigurationError, JudgeError
from ragstone.judges import (
    AbstentionEstimate,
    ExactReader,
    JsonReply,
    Judge,
    JudgeIdentity,
    MissingModel,
    NumberReply,
    Preparable,
    Prompt,
    Reader,
    TextReply,
    judge_from,
    metered,
)
from ragstone.research._journal import PASSING, Journal, JournaledCalls
from ragstone.schema import Usage
from ragstone.scoring import JudgedCounts

T = TypeVar("T")

JOURNAL: Final = "journal.jsonl"
"""Name of the journal in the directory of a run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """What a run asked its models, and what failed."""

    failures: Mapping[str, int] = field(default_factory=dict)
    """Number of failures, by kind."""
    errors: tuple[str, ...] = ()
    """The first error of each kind."""
    notes: tuple[str, ...] = ()
    n_asked: int = 0
    """Number of answered model calls of this run."""
    n_known: int = 0
    """Number of calls answered from the journal of an earlier run."""
    usage: Usage = field(default_factory=Usage)
    counts: Mapping[str, JudgedCounts] = field(default_factory=dict, repr=False, compare=False)
    """Answered and failed calls, by name of the model."""

    @property
    def unfinished(self) -> bool:
        """Whether running the same command again may complete more (after an exhausted budget or an outage)."""
        return not PASSING.isdisjoint(self.failures)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON: all fields, and for `rows` only their number."""
        plain: dict[str, Any] = _to_plain({each.name: getattr(self, each.name) for each in fields(self)})
        del plain["counts"]
        if "rows" in plain:
            plain["n_rows"] = len(plain.pop("rows"))
        return plain

    def run_lines(self) -> list[str]:
        """Describe the calls and the failures, followed by the notes."""
        lines = [f"{count(self.n_asked, 'model call')}, {count(self.n_known, 'reply', 'replies')} from the journal"]
        lines += [f"failed, {kind}: {n}" for kind, n in sorted(self.failures.items())]
        return [*lines, *self.notes]


def _to_plain(value: Any) -> Any:
    match value:
        case Mapping():
            return {key: _to_plain(part) for key, part in value.items()}
        case list() | tuple():
            return [_to_plain(part) for part in value]
        case Path():
            return str(value)
        case JudgeIdentity():
            return value.name
        case Usage():
            return value.model_dump()
    if hasattr(value, "to_dict"):
        return value.to_dict()
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else value


class Run:
    """The models of a run, used in an `async with` block, which closes those that the run has created.

    Args:
        journal: The journal, or None to keep replies only in memory.
        concurrency: Number of concurrent model calls.
        stop_early: Whether to stop if a model fails systematically.
        on_answer: Called after each distinct call that was answered.

    Raises:
        JudgeError: At the end of the block, if a model failed systematically.
    """

    def __init__(
        self,
        journal: Journal | None = None,
        *,
        concurrency: int,
        stop_early: bool = True,
        on_answer: Callable[[], None] | None = None,
    ) -> None:
        self.calls = JournaledCalls(journal, concurrency=concurrency, stop_early=stop_early, on_answer=on_answer)
        self.errors: list[JudgeError] = []
        """What failed, in the units of the tool."""
        self._models = AsyncExitStack()

    async def __aenter__(self) -> Self:
        self._models.enter_context(suppress_capture())
        self._meter = self._models.enter_context(metered())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.calls.aclose()
        await self._models.aclose()
        if self.calls.systematic is not None and (error is None or isinstance(error, JudgeError)):
            raise self.calls.systematic from None

    async def add_judge(self, judge: Judge, given: object) -> JournaledJudge:
        """Prepare a judge, and keep its replies. It is closed at the end, unless the caller has given it as an object.

        Raises:
            JudgeError: If the judge is unavailable.
        """
        await self._add(judge, is_ours=judge is not given)
        return JournaledJudge(judge, self.calls)

    async def add_reader(self, reader: Reader, given: object) -> JournaledReader:
        """Prepare a reader, and keep its replies. It is closed at the end, unless the caller has given it as an object.

        Raises:
            JudgeError: If the reader is unavailable.
        """
        await self._add(reader, is_ours=reader is not given)
        return JournaledReader(reader, self.calls)

    async def _add(self, model: Judge | Reader, *, is_ours: bool) -> None:
        if is_ours:
            self._models.push_async_callback(model.aclose)
        # Without a judge, labels of the data may be enough. A call to it is an error.
        if isinstance(model, Preparable) and not (isinstance(model, MissingModel) and model.role == "judge"):
            await model.prepare()

    def values(self) -> dict[str, Any]:
        """Return the fields of `RunResult`, except the notes."""
        first: dict[str, str] = {}
        for error in self.errors:
            first.setdefault(error.kind, str(error))
        return {
            "failures": dict(Counter(error.kind for error in self.errors)),
            "errors": tuple(first.values()),
            "n_asked": self.calls.n_answered,
            "n_known": self.calls.n_known,
            "usage": self._meter.total,
            "counts": self.calls.counts,
        }


def need_model(judge: str | Judge | None, work: str) -> Judge:
    """Return the judge for work that needs a model.

    Raises:
        ConfigurationError: If it is none, or the lexical baseline.
    """
    resolved = judge_from(judge)
    if resolved.identity.is_baseline or isinstance(resolved, MissingModel):
        raise ConfigurationError(
            f"{work} needs a model, and the judge is {resolved.identity.name}. Set judge= (--judge)."
        )
    return resolved


def folder_of(output: str | Path) -> Path:
    """Return the output directory, and create it if missing.

    Raises:
        ConfigurationError: If it cannot be created.
    """
    folder = Path(output)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(
            f"cannot create the directory {str(folder)!r} (--output-dir): {error.strerror or error}"
        ) from error
    return folder


def all_failed(errors: Sequence[JudgeError], what: str) -> JudgeError:
    """Return the error of a run of which nothing is left."""
    return JudgeError(f"{what}. First error: {errors[0]}", kind=errors[0].kind, raw=errors[0].raw)


async def gathered(calls: Iterable[Awaitable[T]]) -> list[T]:
    """Await all calls, then raise the first error in their order, if any."""
    results: list[T] = []
    for outcome in await asyncio.gather(*calls, return_exceptions=True):
        if isinstance(outcome, BaseException):
            raise outcome
        results.append(outcome)
    return results


class _Journaled:
    """A model whose replies are read from a journal, or written to it before they are used."""

    def __init__(self, model: Any, calls: JournaledCalls) -> None:
        self._model = model
        self._calls = calls

    @property
    def identity(self) -> JudgeIdentity:
        """Identity of the model."""
        found: JudgeIdentity = self._model.identity
        return found

    async def _once(self, shape: TypeAdapter[T], parts: Sequence[object], ask: Callable[[], Awaitable[T]]) -> T:
        """Ask once for all calls with these parts of a key."""

        async def call() -> Any:
            return shape.dump_python(await ask(), mode="json", exclude={"usage"})

        key = hashlib.sha256(json.dumps([self.identity.hash, *parts]).encode()).hexdigest()[:32]
        return await self._calls.once(self.identity, key, call, shape.validate_python)

    async def aclose(self) -> None:
        """Do nothing. The run closes the model."""


@lru_cache(maxsize=8)
def _shape_of(reply: type[T]) -> TypeAdapter[T]:
    return TypeAdapter(reply)


class JournaledJudge(_Journaled):
    """A judge whose replies are read from a journal, or written to it before they are used."""

    async def ask_text(self, prompt: Prompt, *, max_tokens: int = 512) -> TextReply:
        """Ask for a text once."""
        parts = ["text", *_parts_of(prompt), max_tokens]
        return await self._once(
            _shape_of(TextReply), parts, lambda: self._model.ask_text(prompt, max_tokens=max_tokens)
        )

    async def ask_number(self, prompt: Prompt, *, low: float = 0, high: float = 100) -> NumberReply:
        """Ask for a number once."""
        parts = ["number", *_parts_of(prompt), low, high]
        return await self._once(
            _shape_of(NumberReply), parts, lambda: self._model.ask_number(prompt, low=low, high=high)
        )

    async def ask_json(self, prompt: Prompt, schema: TypeAdapter[T], *, max_tokens: int = 1024) -> JsonReply[T]:
        """Ask for a value once."""

        async def ask() -> T:
            reply: JsonReply[T] = await self._model.ask_json(prompt, schema, max_tokens=max_tokens)
            return reply.value

        value = await self._once(schema, ["json", *_parts_of(prompt), max_tokens], ask)
        return JsonReply(value=value, raw=json.dumps(schema.dump_python(value, mode="json")), method="recorded_reply")


def _parts_of(prompt: Prompt) -> list[object]:
    return [prompt.construct, prompt.task, prompt.examples, [[name, value] for name, value in prompt.fields.items()]]


class JournaledReader(_Journaled):
    """A reader whose replies are read from a journal, or written to it before they are used."""

    async def estimate_abstention(self, query: str, passages: Sequence[str]) -> AbstentionEstimate:
        """Estimate the probability of an abstention once for each query with these passages."""
        parts = ["p_abstain", query, list(passages)]
        return await self._once(
            _shape_of(AbstentionEstimate), parts, lambda: self._model.estimate_abstention(query, passages)
        )

    async def answer(self, query: str, passages: Sequence[str]) -> TextReply:
        """Answer once for each query with these passages."""
        parts = ["answer", query, list(passages)]
        return await self._once(_shape_of(TextReply), parts, lambda: self._model.answer(query, passages))

    async def answer_logprob(self, query: str, passages: Sequence[str], answer: str) -> float:
        """Read the log-probability of an answer once.

        Raises:
            ConfigurationError: If the reader does not provide it.
        """
        reader = self._model
        if not isinstance(reader, ExactReader):
            raise ConfigurationError(
                f"part answer-prob needs the probability of a given answer, which the reader {self.identity.name} does not "
                "provide. Use a vLLM server or vllm:MODEL as reader, or omit this part"
            )
        parts = ["logprob", query, list(passages), answer]
        return await self._once(_shape_of(float), parts, lambda: reader.answer_logprob(query, passages, answer))

    def is_abstention(self, reply: str) -> bool:
        """Return whether a reply is an abstention."""
        found: bool = self._model.is_abstention(reply)
        return found
