"""What our metrics have in common: a card from class attributes, the check of what they need, and making outcomes."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar, Final, Literal, get_args

from ragstone.errors import JudgeError
from ragstone.judges import Judge
from ragstone.metrics._card import Extra, MetricCard, WorkedExample
from ragstone.schema import Failure, FailureKind, NotApplicable, Sample, Score

__all__ = ["TEXTLESS", "MetricBase", "are_ids_alone", "lacking"]

_TEXTS: Final = ("query", "reference", "sub_questions")
"""Fields of which blank text is none."""
TEXTLESS: Final = "the passages have no text, only their ids are known"

_KINDS: Final[dict[str, FailureKind]] = {kind: kind for kind in get_args(FailureKind)}


def lacking(sample: Sample, needs: Sequence[str]) -> tuple[str, ...]:
    """Which of the needed fields the sample does not have.

    A blank query, reference or sub-question is none. An empty response is one: metrics say what it scores. Contexts are
    known even where retrieval found nothing.
    """
    return tuple(name for name in needs if not _there(sample, name))


def _there(sample: Sample, name: str) -> bool:
    value = getattr(sample, name)
    if name in _TEXTS:
        texts = (value,) if isinstance(value, str) else value or ()
        return any(text.strip() for text in texts)
    return value is not None


def are_ids_alone(sample: Sample) -> bool:
    """Whether passages were retrieved of which nobody kept the text: some formats of traces name documents and no more."""
    passages = sample.contexts or ()
    return bool(passages) and all(not passage.text and passage.id is not None for passage in passages)


class MetricBase(ABC):
    """A metric whose card is written as class attributes; parameters of a metric are set on the instance before use.

    Subclasses write `_scored`, which is called with all the needed fields there.
    """

    name: str
    title: str
    advice: str = ""
    description: str
    group: str
    source: str
    formula: str
    needs: tuple[str, ...]
    low: float = 0.0
    high: float = 1.0
    direction: Literal["higher", "lower"] = "higher"
    version: str = "1"
    """Of the definition; the hash of the prompts is added."""
    judge_calls: int = 0
    judge_calls_per_passage: int = 0
    example: WorkedExample | None = None
    extra: Extra | None = None
    reads_passages: ClassVar[bool] = True
    """Whether contexts are needed for their texts; False where their ids are enough."""
    tasks: ClassVar[tuple[str, ...]] = ()
    """Every assignment that the metric gives the judge."""

    @cached_property
    def prompt_hash(self) -> str | None:
        """Changes with the wording of any assignment; None for a metric that asks nobody."""
        if not self.tasks:
            return None
        return hashlib.sha256("\x1f".join(self.tasks).encode()).hexdigest()[:12]

    @cached_property
    def card(self) -> MetricCard:
        """What this metric is."""
        return MetricCard(
            name=self.name,
            title=self.title,
            advice=self.advice,
            description=self.description,
            low=self.low,
            high=self.high,
            direction=self.direction,
            needs=self.needs,
            version=self.version if self.prompt_hash is None else f"{self.version}+{self.prompt_hash}",
            source=self.source,
            group=self.group,
            judge_calls=self.judge_calls,
            judge_calls_per_passage=self.judge_calls_per_passage,
            formula=self.formula,
            example=self.example,
            extra=self.extra,
        )

    def __repr__(self) -> str:
        return f"<{self.name}>"

    async def score(self, sample: Sample, judge: Judge) -> Score | NotApplicable | Failure:
        """Score `sample`.

        Raises:
            JudgeError: The judge gave no usable answer.
        """
        if missing := lacking(sample, self.needs):
            return self._not_applicable(sample, f"the sample has no {' and no '.join(missing)}", missing)
        if self.reads_passages and "contexts" in self.needs and are_ids_alone(sample):
            return self._not_applicable(sample, TEXTLESS)
        return await self._scored(sample, judge)

    @abstractmethod
    async def _scored(self, sample: Sample, judge: Judge) -> Score | NotApplicable | Failure:
        """Score a sample that has all the needed fields."""

    def _score(
        self, sample: Sample, value: float, *, method: str, details: Mapping[str, Any] | None = None, **rest: Any
    ) -> Score:
        return Score(
            sample_id=sample.id,
            metric=self.card.name,
            metric_version=self.card.version,
            prompt_hash=self.prompt_hash,
            value=value,
            method=method,
            details=dict(details or {}),
            **rest,
        )

    def _not_applicable(self, sample: Sample, reason: str, missing: tuple[str, ...] = ()) -> NotApplicable:
        return NotApplicable(
            sample_id=sample.id,
            metric=self.card.name,
            metric_version=self.card.version,
            reason=reason,
            missing=missing,
        )

    def _failure(self, sample: Sample, error: JudgeError, *, reason: str, details: Mapping[str, Any]) -> Failure:
        """Say what was found out all the same; without anything found out, let the error through instead."""
        return Failure(
            sample_id=sample.id,
            metric=self.card.name,
            metric_version=self.card.version,
            prompt_hash=self.prompt_hash,
            # A judge from elsewhere may have kinds of its own.
            kind=_KINDS.get(error.kind, "unavailable"),
            # An error may quote any text, and no file takes lone surrogates.
            reason=reason.encode(errors="replace").decode(),
            raw=None if error.raw is None else error.raw.encode(errors="replace").decode(),
            details=dict(details),
        )
