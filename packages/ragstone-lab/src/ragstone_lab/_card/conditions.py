"""Conditions under which a judge scores the same samples again: wording, order of the passages, score mode."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import Final, Literal, get_args

from ragstone.errors import ConfigurationError
from ragstone.judges import Judge, ModelJudge
from ragstone.metrics import RewordedJudge
from ragstone.schema import Sample
from ragstone_lab._card.wordings import WORDINGS_HASH, reword

Condition = Literal["wording", "order", "repeats", "reasoned"]
CONDITIONS: Final[tuple[Condition, ...]] = get_args(Condition)
DEFAULT_CONDITIONS: Final[tuple[Condition, ...]] = ("wording", "order", "repeats")
"""All conditions except `reasoned`, whose replies are the longest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One pass of a judge over samples."""

    condition: Literal["base", "wording", "order", "reasoned"] = "base"
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
        return RewordedJudge(
            judge,
            lambda prompt: replace(prompt, task=reword(prompt, run.level)),
            stated=(WORDINGS_HASH, str(run.level)),
            suffix=f" (wording {run.level})",
        )
    if run.condition == "reasoned":
        if not isinstance(judge, ModelJudge):
            raise ConfigurationError(
                f"the condition 'reasoned' needs a judge with a model, and {judge.identity.name!r} does not have one. "
                "Omit the condition (--set research.conditions=wording,order,repeats)"
            )
        if judge.score_mode == "reasoned":
            raise ConfigurationError(
                f"the condition 'reasoned' compares this score mode with the judge's own, and {judge.identity.name!r} "
                "uses it already. Omit the condition, or the judge's score mode"
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
