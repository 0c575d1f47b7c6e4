"""One run of a tool: its models, whose replies a journal keeps, and what became of their calls."""

from __future__ import annotations

import asyncio
import json
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, ClassVar, Final, Self, TypeVar

from pydantic import TypeAdapter

from ragstone.capture import suppress_capture
from ragstone.errors import ConfigurationError, JudgeError
from ragstone.extension import count
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
    after_reasoning,
    judge_from,
    metered,
    record_usage,
)
from ragstone.schema import Failure, Outcome, Usage
from ragstone.scoring import JudgedCounts
from ragstone_lab._journal import Journal, key_of
from ragstone_lab._report import plain_fields

RESULT: Final = "result.json"
"""Name of the file with the result of a run."""

_shape_of: Final[Callable[[Any], TypeAdapter[Any]]] = lru_cache(maxsize=8)(TypeAdapter)

T = TypeVar("T")
K = TypeVar("K")

PASSING: Final = frozenset({"budget", "unavailable", "timeout"})
"""Kinds of temporary failures, after which running the same command again may succeed."""
_ENDING: Final = frozenset({"budget", "unavailable"})
"""Kinds of failures after which all further calls would fail as well, some of them only after minutes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """What a run asked its models, and what failed."""

    counted: ClassVar = "calls"
    """What `counts` counts."""

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
        plain = plain_fields(self, "counts")
        if "rows" in plain:
            plain["n_rows"] = len(plain.pop("rows"))
        return plain

    def run_lines(self) -> list[str]:
        """Describe the calls and the failures, followed by the notes."""
        lines = [f"{count(self.n_asked, 'model call')}, {count(self.n_known, 'reply', 'replies')} from the journal"]
        lines += [f"failed, {kind}: {n}" for kind, n in sorted(self.failures.items())]
        return [*lines, *self.notes]


class Run:
    """The models of a run, used in an `async with` block, which closes those that the run has created.

    Replies are read from the journal, or written to it before they are used. Equal calls are one call. After a model
    fails systematically (with `stop_early`), no further call is made, and later calls fail with the same error. With a
    stored journal, from which another run continues, also after a budget is exhausted or a model is unavailable. The
    default journal is in memory. With `waits`, the caller decides when to give up a model that is unavailable. A kill
    of the process loses at most `concurrency` calls. `on_answer` is called after each distinct call that was answered, with the number of these calls.

    Raises:
        JudgeError: At the end of the block, if a model failed systematically.
    """

    def __init__(
        self,
        journal: Journal | None = None,
        *,
        concurrency: int,
        stop_early: bool = True,
        waits: bool = False,
        on_answer: Callable[[int], None] | None = None,
    ) -> None:
        self._waits = waits
        self._journal = Journal() if journal is None else journal
        self._concurrency = concurrency
        self._stop_early = stop_early
        self._slots = asyncio.Semaphore(concurrency)
        self._work: dict[str, asyncio.Task[Any]] = {}
        self._known: set[str] = set()
        self._on_answer = on_answer
        self._stopped_by: JudgeError | None = None
        self._systematic: JudgeError | None = None
        self._counts: defaultdict[str, JudgedCounts] = defaultdict(JudgedCounts)
        self._n_asked = 0
        self.errors: list[JudgeError] = []
        """What failed, in the units of the tool."""
        self._models = AsyncExitStack()

    async def __aenter__(self) -> Self:
        self._models.enter_context(suppress_capture())
        self._meter = self._models.enter_context(metered())
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        for task in self._work.values():
            task.cancel()
        await asyncio.gather(*self._work.values(), return_exceptions=True)
        await self._models.aclose()
        if self._systematic is not None and (error is None or isinstance(error, JudgeError)):
            raise self._systematic from None

    async def add_judge(self, judge: Judge, given: object) -> JournaledJudge:
        """Prepare a judge, and keep its replies. It is closed at the end, unless the caller has given it as an object.

        Raise JudgeError if the judge is unavailable.
        """
        await self._add(judge, given)
        return JournaledJudge(judge, self)

    async def add_reader(self, reader: Reader, given: object) -> JournaledReader:
        """Prepare a reader as `add_judge` does."""
        await self._add(reader, given)
        return JournaledReader(reader, self)

    async def _add(self, model: Judge | Reader, given: object) -> None:
        if model is not given:
            self._models.push_async_callback(model.aclose)
        # Without a judge, labels of the data may be enough. A call to it is an error.
        if isinstance(model, Preparable) and not (isinstance(model, MissingModel) and model.role == "judge"):
            await model.prepare()

    @property
    def n_answered(self) -> int:
        """Number of answered calls, also from the journal."""
        return self._n_asked + len(self._known)

    def values(self) -> dict[str, Any]:
        """Return the fields of `RunResult`, except the notes."""
        first: dict[str, str] = {}
        for error in self.errors:
            first.setdefault(error.kind, str(error))
        return {
            "failures": dict(Counter(error.kind for error in self.errors)),
            "errors": tuple(first.values()),
            "n_asked": self._n_asked,
            "n_known": len(self._known),
            "usage": self._meter.total,
            "counts": self._counts,
        }

    async def each(
        self,
        items: Sequence[K],
        work: Callable[[K], Awaitable[T]],
        *,
        limit: int | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> list[T | JudgeError]:
        """Process each item, at most `limit` at once, and return results or errors of models in the order of the items."""
        slots = asyncio.Semaphore(self._concurrency if limit is None else limit)
        n_done = 0

        async def one(item: K) -> T | JudgeError:
            nonlocal n_done
            async with slots:
                try:
                    result: T | JudgeError = await work(item)
                except JudgeError as error:
                    result = error
            n_done += 1
            if progress is not None:
                progress(n_done, len(items))
            return result

        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(one(item)) for item in items]
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from errors
        return [task.result() for task in tasks]

    async def once(
        self, model: JudgeIdentity, key: str, call: Callable[[], Coroutine[Any, Any, Any]], read: Callable[[Any], T]
    ) -> T:
        """Return the result of a call, from the journal if it contains a valid one.

        `call` returns plain values for JSON. `read` makes the result from them, or raises ValueError or KeyError. Raise
        JudgeError if the call fails.
        """
        if key in self._journal.answers and key not in self._work:
            try:
                known = read(self._journal.answers[key])
            except (ValueError, KeyError, TypeError):
                pass  # The line was edited and is not a valid reply, so the call is repeated.
            else:
                if key not in self._known:
                    self._known.add(key)
                    record_usage(Usage(cached=1))
                    self._count(model)
                return known
        if key not in self._work:
            self._work[key] = asyncio.create_task(self._call(model, key, call))
        return read(await asyncio.shield(self._work[key]))

    async def _call(self, model: JudgeIdentity, key: str, call: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        async with self._slots:
            if self._stopped_by is not None:
                raise self._stopped_by
            try:
                value = await call()
            except JudgeError as error:
                self._count_failure(model, key, error)
                raise
            self._journal.append(key, value)
        self._n_asked += 1
        self._count(model)
        return value

    def _count(self, model: JudgeIdentity) -> None:
        self._counts[model.name].n_scored += 1
        if self._on_answer is not None:
            self._on_answer(self.n_answered)

    def _count_failure(self, model: JudgeIdentity, key: str, error: JudgeError) -> None:
        counts = self._counts[model.name]
        call = {"sample_id": key, "metric": "call", "metric_version": "1"}
        failed = {"judge": model.name, "judge_hash": model.hash, "kind": error.kind, "reason": str(error)}
        counts.add([Failure.model_validate(call | failed)])
        if error.kind in _ENDING and self._journal.path is not None and not self._waits:
            self._stopped_by = error
        elif self._stop_early and (cause := counts.describe_systematic()):
            self._stopped_by = self._systematic = JudgeError(
                f"the run was stopped. {cause}. Fix the cause, or make all calls with stop_early=False "
                "(--set limits.stop_early=false)",
                kind=error.kind,
            )


def need_model(judge: str | Judge | None, work: str) -> Judge:
    """Return the judge for work that needs a model. Raise ConfigurationError if it is none, or the lexical baseline."""
    resolved = judge_from(judge)
    if resolved.identity.is_baseline or isinstance(resolved, MissingModel):
        raise ConfigurationError(
            f"{work} needs a model, and the judge is {resolved.identity.name}. Set judge= (--judge)."
        )
    return resolved


def folder_of(output: str | Path) -> Path:
    """Return the output directory, and create it if missing. Raise ConfigurationError if it cannot be created."""
    folder = Path(output)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(
            f"cannot create the directory {str(folder)!r} (--output-dir): {error.strerror or error}"
        ) from error
    return folder


def json_lines(rows: Iterable[Mapping[str, Any]]) -> str:
    """Return rows as the text of a JSONL file."""
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


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


def values_of_outcomes(outcomes: Mapping[str, Sequence[Outcome]]) -> dict[str, Any]:
    """Return the fields of `RunResult` about scored outcomes, by name of the judge."""
    counts = {name: JudgedCounts() for name in outcomes}
    for name, scored in outcomes.items():
        counts[name].add(scored)
    failures = [each for scored in outcomes.values() for each in scored if isinstance(each, Failure)]
    errors = {failure.kind: failure.reason for failure in reversed(failures)}
    kinds = Counter(failure.kind for failure in failures)
    return {"counts": counts, "failures": dict(kinds), "errors": tuple(errors.values())}


class _Journaled:
    """A model whose replies are read from a journal, or written to it before they are used.

    Equal calls of different `passes` are different calls.
    """

    def __init__(self, model: Any, run: Run, *passes: object) -> None:
        self._model = model
        self._run = run
        self._passes = passes

    @property
    def identity(self) -> JudgeIdentity:
        """Identity of the model."""
        found: JudgeIdentity = self._model.identity
        return found

    async def _once(self, shape: Any, ask: Callable[[], Awaitable[T]], *parts: object) -> T:
        """Ask once for all calls with these parts of a key."""
        adapter: TypeAdapter[T] = shape if isinstance(shape, TypeAdapter) else _shape_of(shape)

        async def call() -> Any:
            return adapter.dump_python(await ask(), mode="json", exclude={"usage"})

        return await self._run.once(
            self.identity, key_of(self.identity.hash, *parts, *self._passes), call, adapter.validate_python
        )

    async def aclose(self) -> None:
        """Do nothing. The run closes the model."""


class JournaledJudge(_Journaled):
    """A judge whose replies are read from a journal, or written to it before they are used."""

    async def ask_text(self, prompt: Prompt, *, max_tokens: int = 512) -> TextReply:
        """Ask for a text once."""
        ask = partial(self._model.ask_text, prompt, max_tokens=max_tokens)
        return await self._once(TextReply, ask, "text", *_parts_of(prompt), max_tokens)

    async def ask_number(self, prompt: Prompt, *, low: float = 0, high: float = 100) -> NumberReply:
        """Ask for a number once."""
        ask = partial(self._model.ask_number, prompt, low=low, high=high)
        return await self._once(NumberReply, ask, "number", *_parts_of(prompt), low, high)

    async def ask_json(self, prompt: Prompt, schema: TypeAdapter[T], *, max_tokens: int = 1024) -> JsonReply[T]:
        """Ask for a value once."""

        async def ask() -> T:
            reply: JsonReply[T] = await self._model.ask_json(prompt, schema, max_tokens=max_tokens)
            return reply.value

        value = await self._once(schema, ask, "json", *_parts_of(prompt), max_tokens)
        return JsonReply(value=value, raw=json.dumps(schema.dump_python(value, mode="json")), method="recorded_reply")


def _parts_of(prompt: Prompt) -> list[object]:
    return [prompt.construct, prompt.task, prompt.examples, [*prompt.fields.items()]]


_RUN_ON: Final = frozenset({"truncated", "repeated"})
"""Kinds of failures of an answer that did not end."""
_SENTENCE_ENDS: Final = ".!?\u3002\uff01\uff1f"


@dataclass(frozen=True, slots=True)
class _Answer:
    """An answer in a journal."""

    text: str
    is_cut: bool = False
    """Whether it is the first part of an answer that did not end."""


def first_part(raw: str) -> str:
    """Return the first line of an answer that did not end, or the whole sentences of an only line, or an empty text."""
    line, separator, _ = (after_reasoning(raw) or "").partition("\n")
    return line.strip() if separator else line[: 1 + max(map(line.rfind, _SENTENCE_ENDS))].strip()


class JournaledReader(_Journaled):
    """A reader whose replies are read from a journal, or written to it before they are used."""

    def __init__(self, model: Any, run: Run) -> None:
        super().__init__(model, run)
        self.run_on: set[tuple[str, ...]] = set()
        """Query and passages of answers that did not end, whose first part was used."""

    async def estimate_abstention(self, query: str, passages: Sequence[str]) -> AbstentionEstimate:
        """Estimate the probability of an abstention once for each query with these passages."""
        ask = partial(self._model.estimate_abstention, query, passages)
        return await self._once(AbstentionEstimate, ask, "p_abstain", query, list(passages))

    async def answer(self, query: str, passages: Sequence[str]) -> TextReply:
        """Answer once for each query with these passages. Of an answer that did not end, return the first part."""

        async def ask() -> _Answer:
            try:
                return _Answer((await self._model.answer(query, passages)).text)
            except JudgeError as error:
                if error.kind in _RUN_ON and (part := first_part(error.raw or "")):
                    return _Answer(part, is_cut=True)
                raise

        answer = await self._once(_Answer, ask, "answer", query, list(passages))
        if answer.is_cut:
            self.run_on.add((query, *passages))
        return TextReply(text=answer.text)

    async def answer_logprob(self, query: str, passages: Sequence[str], answer: str) -> float:
        """Read the log-probability of an answer once. Raise ConfigurationError if the reader does not provide it."""
        if not isinstance(self._model, ExactReader):
            raise ConfigurationError(
                f"part answer-prob needs the probability of a given answer, which the reader {self.identity.name} does "
                "not provide. Use a vLLM server or vllm:MODEL as reader, or omit this part"
            )
        ask = partial(self._model.answer_logprob, query, passages, answer)
        return await self._once(float, ask, "logprob", query, list(passages), answer)

    def is_abstention(self, reply: str) -> bool:
        """Return whether a reply is an abstention."""
        return bool(self._model.is_abstention(reply))
