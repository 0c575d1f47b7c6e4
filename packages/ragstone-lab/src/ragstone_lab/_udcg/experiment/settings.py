"""Parts of the experiment and their settings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ragstone.errors import ConfigurationError
from ragstone.settings import check

PARTS: Final = {
    "position": "one relevant passage at each position (figure 1)",
    "k": "correlation by the number of passages (figure 2)",
    "distractors": "one relevant passage among weak or hard distractors (table 1)",
    "orders": "answers from the best passages by three annotations (table 2)",
    "correlation": "correlation of metrics with the answers (table 3)",
    "ablation": "variants of UDCG and of its weight of distraction (table 4)",
    "answer-prob": "the probability of the reference as utility (appendix C)",
    "judges": "agreement of judges on relevance (appendix B)",
}
"""The parts, in the order in which they run."""
DEFAULT_PARTS: Final = ("position", "k", "distractors", "orders", "correlation", "ablation")
"""Parts that need neither exact probabilities nor a second judge."""
CORRELATED: Final = ("correlation", "ablation", "answer-prob")
"""Parts about the sampled contexts of `k` passages."""
_CHECKED: Final = ("k", "top_n", "max_questions", "n_contexts", "n_distractors", "weak_below", "hard_above")
"""Settings of the experiment that are keys of the table `research`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentSettings:
    """Settings of an experiment, see `run_udcg_experiment`."""

    parts: tuple[str, ...] = DEFAULT_PARTS
    k: int = 5
    top_n: int = 25
    max_questions: int = 100
    n_contexts: int = 10
    k_values: tuple[int, ...] = (1, 2, 3, 5)
    n_distractors: int | None = None
    weak_below: float = 0.2
    hard_above: float = 0.8
    gamma: float = 1 / 3
    erag: bool = True
    threshold: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        check("research", "run_udcg_experiment", **{name: getattr(self, name) for name in _CHECKED})
        check("analysis", "run_udcg_experiment", seed=self.seed)
        if not self.k_values or min(self.k_values) < 1:
            raise ConfigurationError(f"k_values must contain numbers of at least 1, got {self.k_values!r}")
        for name, value in {"k": self.k, "k_values": max(self.k_values)}.items():
            if value > self.top_n:
                raise ConfigurationError(
                    f"{name} must be at most top_n, got {value} passages of the first {self.top_n}. Lower {name}, or "
                    "raise top_n"
                )
        if self.weak_below > self.hard_above:
            raise ConfigurationError(
                f"weak_below must be at most hard_above, got {self.weak_below!r} and {self.hard_above!r}"
            )
        if not 0 <= self.gamma <= 1:
            raise ConfigurationError(f"gamma must be from 0 to 1, got {self.gamma!r}")
        if self.threshold is not None and not 0 < self.threshold < float("inf"):
            raise ConfigurationError(
                f"threshold (the smallest grade that means relevant) must be above 0, got {self.threshold!r}"
            )

    @property
    def relevant_grade(self) -> float:
        """Smallest grade that means relevant."""
        return 1.0 if self.threshold is None else self.threshold

    @property
    def distractors(self) -> int:
        """Number of irrelevant passages in addition to the relevant one."""
        return self.k - 1 if self.n_distractors is None else self.n_distractors

    @property
    def sizes(self) -> tuple[int, ...]:
        """Numbers of passages of the sampled contexts."""
        wanted = set(self.k_values) if "k" in self.parts else set()
        if not set(CORRELATED).isdisjoint(self.parts):
            wanted.add(self.k)
        return tuple(sorted(wanted))


def parts_from(parts: str | Sequence[str] | None) -> tuple[str, ...]:
    """Return the parts in their order. None means those that every reader and judge supports."""
    if parts is None:
        return DEFAULT_PARTS
    names = [part.strip() for part in (parts.split(",") if isinstance(parts, str) else parts) if part.strip()]
    if unknown := [name for name in names if name not in PARTS]:
        raise ConfigurationError(f"{unknown[0]!r} is not a part of the experiment. The parts are {', '.join(PARTS)}")
    if not names:
        raise ConfigurationError(f"parts must name at least one part. The parts are {', '.join(PARTS)}")
    return tuple(part for part in PARTS if part in names)
