"""Contexts of the experiments, drawn with a seed from the candidates of a question."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Final

from ragstone_lab._udcg.experiment.questions import Question
from ragstone_lab._udcg.experiment.settings import ExperimentSettings

Places = tuple[int, ...]
"""Candidates of one context in prompt order, by their place in the ranked list."""
_ATTEMPTS: Final = 50
"""Attempts to draw a context that differs from the others of its question."""


def find_obstacle(question: Question, part: str, settings: ExperimentSettings, *, k: int) -> str | None:
    """Return why a question cannot take part in a part of the experiment, or None.

    Candidates without a label may have any.
    """
    n = len(question.candidates)
    if part in ("orders", "judges"):
        return None if n >= k else f"fewer than {k} candidates"
    n_unknown = question.labels.count(None)
    if not question.relevant and not n_unknown:
        return "no relevant candidate"
    needed = {"position": k - 1, "distractors": settings.distractors}.get(part, k)
    # At least one of the candidates without a label must be the relevant one.
    if len(question.irrelevant) + n_unknown - (not question.relevant) < needed:
        return f"fewer than {needed} irrelevant candidates"
    return None


def sampled_contexts(question: Question, *, k: int, n: int, seed: int) -> list[Places]:
    """Draw `n` contexts of `k` candidates: half with a relevant one, the others without.

    The contexts with a relevant one are uniform among those. Contexts differ as long as there are enough.
    """
    rng = random.Random(f"{seed}/contexts/{k}/{question.id}")  # noqa: S311  not for cryptography
    with_relevant = [True] * ((n + 1) // 2) + [False] * (n // 2)
    contexts: list[Places] = []
    for has_relevant in with_relevant:
        for _ in range(_ATTEMPTS):
            places = _draw(question, k, rng, has_relevant=has_relevant)
            if places not in contexts:
                break
        contexts.append(places)
    return contexts


def _draw(question: Question, k: int, rng: random.Random, *, has_relevant: bool) -> Places:
    n_relevant = 0
    if has_relevant:
        counts = range(max(1, k - len(question.irrelevant)), min(k, len(question.relevant)) + 1)
        ways = [math.comb(len(question.relevant), m) * math.comb(len(question.irrelevant), k - m) for m in counts]
        (n_relevant,) = rng.choices(counts, ways)
    places = rng.sample(question.relevant, n_relevant) + rng.sample(question.irrelevant, k - n_relevant)
    rng.shuffle(places)
    return tuple(places)


def position_contexts(question: Question, *, k: int, seed: int) -> list[Places]:
    """Return one context for each position of the first relevant candidate among the same irrelevant ones."""
    rng = random.Random(f"{seed}/position/{question.id}")  # noqa: S311  not for cryptography
    others = rng.sample(question.irrelevant, k - 1)
    return [(*others[:at], question.relevant[0], *others[at:]) for at in range(k)]


def distractor_contexts(
    question: Question, effects: Sequence[float], settings: ExperimentSettings
) -> tuple[Places, Places] | None:
    """Return the first relevant candidate among weak and among hard distractors, at the same position.

    None if there are too few distractors of a kind.
    """
    rng = random.Random(f"{settings.seed}/distractors/{question.id}")  # noqa: S311  not for cryptography
    weak = [place for place in question.irrelevant if effects[place] < settings.weak_below]
    hard = [place for place in question.irrelevant if effects[place] > settings.hard_above]
    n = settings.distractors
    if min(len(weak), len(hard)) < n:
        return None
    at = rng.randint(0, n)
    first, second = rng.sample(weak, n), rng.sample(hard, n)
    relevant = question.relevant[0]
    return (*first[:at], relevant, *first[at:]), (*second[:at], relevant, *second[at:])
