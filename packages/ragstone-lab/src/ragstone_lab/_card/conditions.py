"""Conditions under which a judge scores the same samples again: wording, order of the passages, score mode, one call."""

from __future__ import annotations

import hashlib
import random
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeVar, get_args

from pydantic import TypeAdapter

from ragstone.errors import ConfigurationError
from ragstone.judges import JsonReply, Judge, JudgeIdentity, ModelJudge, NumberReply, Preparable, Prompt, TextReply
from ragstone.schema import Sample
from ragstone_lab._card.wordings import WORDINGS_HASH, reword

T = TypeVar("T")

Condition = Literal["wording", "order", "repeats", "fused", "reasoned"]
CONDITIONS: Final[tuple[Condition, ...]] = get_args(Condition)
DEFAULT_CONDITIONS: Final[tuple[Condition, ...]] = ("wording", "order", "repeats", "fused")
"""All conditions except `reasoned`, whose replies are the longest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One pass of a judge over samples."""

    condition: Literal["base", "wording", "order", "fused", "reasoned"] = "base"
    """"base" is the usual way to score."""
    level: int = 0
    """Number of the wording, or of the order: 1 is reversed, 2 is shuffled. 0 for other conditions."""
    repeat: int = 0

    @property
    def name(self) -> str:
        """Name of the condition: "wording 1", "order reversed"."""
        if self.condition == "order":
            return f"order {('reversed', 'shuffled')[self.level - 1]}"
        return f"{self.condition} {self.level}" if self.level else self.condition


def judge_of(judge: Judge, run: Run) -> Judge:
    """Return the judge as a run uses it."""
    if run.condition == "wording":
        return _RewordedJudge(judge, run.level)
    if run.condition == "reasoned":
        if not isinstance(judge, ModelJudge):
            raise ConfigurationError(
                f"the condition 'reasoned' needs a judge with a model, and {judge.identity.name!r} does not have one. Omit the "
                "condition (--set research.conditions=wording,order,repeats)"
            )
        if judge.score_mode == "reasoned":
            raise ConfigurationError(
                f"the condition 'reasoned' compares this score mode with the judge's own, and {judge.identity.name!r} uses it "
                "already. Omit the condition, or the judge's score mode"
            )
        return judge.with_score_mode("reasoned")
    return judge


def reordered(sample: Sample, run: Run, seed: int) -> Sample | None:
    """Return the sample with its passages in another order, or None if it does not have two different passages."""
    passages = sample.contexts or ()
    texts = [passage.text for passage in passages]
    if len(set(texts)) < 2:
        return None
    changed = list(reversed(passages))
    if run.level == 2:
        generator = random.Random(f"{seed}/{sample.id}")  # noqa: S311
        generator.shuffle(changed)
        while [passage.text for passage in changed] == texts:
            generator.shuffle(changed)
    if [passage.text for passage in changed] == texts:
        # A, B, A reads the same backwards.
        return None
    return sample.model_copy(update={"contexts": tuple(changed)})


class _RewordedJudge:
    """A judge that receives every task in another wording. Fields, reply formats and scales are the same."""

    def __init__(self, judge: Judge, number: int) -> None:
        self._judge = judge
        self._number = number

    @property
    def identity(self) -> JudgeIdentity:
        """Identity of the judge, with the wording in its name and hash."""
        own = self._judge.identity
        digest = hashlib.sha256(f"{own.hash}/{WORDINGS_HASH}/{self._number}".encode()).hexdigest()[:16]
        return replace(own, name=f"{own.name} (wording {self._number})", hash=digest)

    async def prepare(self) -> None:
        """Prepare the judge."""
        if isinstance(self._judge, Preparable):
            await self._judge.prepare()

    async def ask_text(self, prompt: Prompt, *, max_tokens: int = 512) -> TextReply:
        """Request free text."""
        return await self._judge.ask_text(self._reword(prompt), max_tokens=max_tokens)

    async def ask_number(self, prompt: Prompt, *, low: float = 0, high: float = 100) -> NumberReply:
        """Request a number."""
        return await self._judge.ask_number(self._reword(prompt), low=low, high=high)

    async def ask_json(self, prompt: Prompt, schema: TypeAdapter[T], *, max_tokens: int = 1024) -> JsonReply[T]:
        """Request a value."""
        return await self._judge.ask_json(self._reword(prompt), schema, max_tokens=max_tokens)

    async def aclose(self) -> None:
        """Do nothing. The judge itself is closed by its owner."""

    def _reword(self, prompt: Prompt) -> Prompt:
        return replace(prompt, task=reword(prompt, self._number))
