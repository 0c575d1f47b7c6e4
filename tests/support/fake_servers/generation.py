"""Drawing replies from a scripted model as an inference engine does: sampling fields, masks, what it reports."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from scripted_model import END, IMPOSSIBLE, ScriptedModel

__all__ = ["Mask", "SampledReply", "Step", "draw", "ranked"]

_MASKED: Final = -9999.0


@dataclass(frozen=True, slots=True)
class Step:
    """One token of a reply."""

    token: int
    logprobs: Mapping[int, float]
    """Of all tokens that can follow; others are at `floor`."""
    floor: float = IMPOSSIBLE

    def logprob(self, token: int) -> float:
        """The log-probability that is reported for a token."""
        return self.logprobs.get(token, self.floor)


@dataclass(frozen=True, slots=True)
class SampledReply:
    """A reply."""

    steps: tuple[Step, ...]
    finished: bool
    """Whether the turn ended; else the reply was cut."""


class Mask:
    """The token sequences that a constraint allows."""

    def __init__(self, model: ScriptedModel, texts: Sequence[str]) -> None:
        (end,) = model.tokens_of(END)
        self._paths = [(*model.tokens_of(text), end) for text in texts]

    def applied(self, nexts: Mapping[int, float], said: tuple[int, ...]) -> dict[int, float]:
        """What is left of a distribution, renormalised; all that is allowed alike where nothing is left."""
        allowed = dict.fromkeys(
            path[len(said)] for path in self._paths if path[: len(said)] == said and len(path) > len(said)
        )
        kept = {token: nexts[token] for token in allowed if nexts.get(token, 0.0) > 0}
        kept = kept or dict.fromkeys(allowed, 1.0)
        total = sum(kept.values())
        return {token: p / total for token, p in kept.items()}


def draw(
    model: ScriptedModel,
    prompt: Sequence[int],
    *,
    max_tokens: int,
    sampling: Mapping[str, Any],
    rng: random.Random,
    mask: Mask | None = None,
    processed: bool = False,
) -> SampledReply:
    """Draw a reply to a prompt.

    Args:
        model: Says how likely each token is.
        prompt: Token ids.
        max_tokens: Where the reply is cut.
        sampling: `temperature`, `top_k`, `top_p`, `min_p`; what is missing changes nothing.
        rng: Draws.
        mask: What the reply is held to.
        processed: Whether log-probabilities are reported after `sampling` was applied.
    """
    (end,) = model.tokens_of(END)
    steps: list[Step] = []
    said: tuple[int, ...] = ()
    while len(steps) < max_tokens:
        nexts = model.next_tokens([*prompt, *said])
        if mask is not None:
            nexts = mask.applied(nexts, said)
        shaped = _shaped(nexts, sampling)
        tokens = ranked(shaped)
        token = tokens[0] if sampling.get("temperature") == 0 else rng.choices(tokens, [shaped[t] for t in tokens])[0]
        reported = shaped if processed and sampling.get("temperature") != 0 else nexts
        logprobs = {t: math.log(p) for t, p in reported.items() if p > 0}
        steps.append(Step(token, logprobs, IMPOSSIBLE if mask is None else _MASKED))
        if token == end:
            return SampledReply(tuple(steps), finished=True)
        said = (*said, token)
    return SampledReply(tuple(steps), finished=False)


def ranked(weights: Mapping[int, float]) -> list[int]:
    """Tokens, heaviest first."""
    return sorted(weights, key=lambda token: (-weights[token], token))


def _shaped(nexts: Mapping[int, float], sampling: Mapping[str, Any]) -> dict[int, float]:
    temperature = sampling.get("temperature", 1.0) or 1.0
    heaviest = max(nexts.values())
    shaped = {token: (p / heaviest) ** (1 / temperature) for token, p in nexts.items() if p > 0}
    order = ranked(shaped)
    if 0 < (top_k := sampling.get("top_k", 0)) < len(order):
        order = order[:top_k]
    total = sum(shaped[token] for token in order)
    kept: list[int] = []
    mass = 0.0
    for token in order:
        # `shaped` is relative to the likeliest token, as `min_p` is.
        if kept and (mass >= sampling.get("top_p", 1.0) or shaped[token] < sampling.get("min_p", 0.0)):
            break
        kept.append(token)
        mass += shaped[token] / total
    total = sum(shaped[token] for token in kept)
    return {token: shaped[token] / total for token in kept}
