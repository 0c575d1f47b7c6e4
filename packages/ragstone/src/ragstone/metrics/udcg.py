"""UDCG: what the retrieved passages are worth to the reader, distraction counted against them.

Source: G. Trappolini, F. Cuconasu, S. Filice, Y. Maarek, F. Silvestri, "Redefining Retrieval Evaluation in the Era of
LLMs", sections 4 and 5.

With u(q, p) = R * (1 - p(abstain | q, p)), R = +1 for a relevant passage and -1 for another, u+ = max(u, 0) and
u- = min(u, 0), and k passages:

| metric | value | range |
|---|---|---|
| `udcg` | sigma(mean(u+) + gamma * mean(u-)), gamma = 1/3 | [sigma(-gamma), sigma(1)] = [0.417, 0.731] |
| `udcg_theta` | sigma(sum of alpha_i * u+_i + beta_i * u-_i), weights learned for one k | [0, 1] |

What the source leaves open is decided so:

- u- is at most 0. (The usual "negative part" is not, and would reward distraction.)
- No passages, or none known: not applicable. (The authors' code says 0.0, which is below the metric's own minimum.)
- The same text twice counts twice and is asked once; a blank passage is read like any other.
- A passage that could not be read or labelled makes the sample a `Failure` that says where UDCG must lie.
- The interval is that of the reader's probabilities; relevance labels are taken as they are.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Final, Literal

from ragstone.errors import ConfigurationError, DataError
from ragstone.judges import Reader
from ragstone.metrics._card import WorkedExample
from ragstone.metrics._relevance import LabelMode
from ragstone.metrics._udcg_base import UdcgBase, sigmoid
from ragstone.metrics._utility import PassageUtility

__all__ = ["Udcg", "UdcgTheta"]


_EXAMPLE_UTILITIES: Final = (0.9, -0.8)


def _worked_example(k: int, value: float, last_step: str) -> WorkedExample:
    """Of `k` passages every other one is relevant and read with p(abstain) = 0.1, the others distract with 0.2."""
    contexts = [
        {"text": f"Tower {place} is {31 + place} metres tall.", "relevance": 1 - place % 2} for place in range(k)
    ]
    helps, distracts = _EXAMPLE_UTILITIES
    return WorkedExample(
        row={"query": "How tall is the lighthouse?", "contexts": contexts},
        abstentions=tuple(0.1 if place % 2 == 0 else 0.2 for place in range(k)),
        value=value,
        steps=f"A relevant passage has u = 1 - 0.1 = {helps:g}, one that is not has u = -(1 - 0.2) = {distracts:g}; {last_step}.",
    )


class Udcg(UdcgBase):
    """Mean utility of the relevant passages, less a share of the mean distraction by the others, squashed.

    Args:
        reader: The application's generator; None is bound later by whoever runs the metric.
        gamma: Weight of distraction against relevance, between 0 and 1.
        labels: Where relevance comes from: "auto" (the passages' own labels, else the judge), "data" (their own labels
            only) or "judge" (always asked).
        threshold: A label of the data means relevant from here on. The default fits 0/1, the grades of TREC (relevant
            from 1) and probabilities; with grades of which only 2 and 3 answer the question, say 2.

    Raises:
        ConfigurationError: An option out of range.

    Example:
        ```python
        ragstone.evaluate(rows, ["ccrs", Udcg(gamma=0.5)], judge="http://localhost:8000/v1")
        ```
    """

    name = "udcg"
    title = "Passage utility (UDCG)"
    advice = (
        "Low (below 0.50) means that passages distract more than they help. "
        'Next: Open details["passages"] and remove or demote the distracting ones.'
    )
    description = "How much do the retrieved passages help this reader to answer, and how much do they distract it?"
    equation = "4"
    formula = "sigmoid(sum over k passages of (u+ + gamma u-) / k), u = R (1 - p(abstain)), R = 1 or -1, gamma = 1/3"

    def __init__(
        self,
        reader: Reader | None = None,
        *,
        gamma: float = 1 / 3,
        labels: LabelMode = "auto",
        threshold: float = 0.5,
    ) -> None:
        if not 0 <= gamma <= 1:
            raise ConfigurationError(f"gamma must be between 0 and 1, got {gamma!r}")
        super().__init__(reader=reader, labels=labels, threshold=threshold)
        self.gamma = gamma

    def __repr__(self) -> str:
        return f"Udcg(gamma={self.gamma!r}, labels={self.labels!r}, threshold={self.threshold!r})"

    def with_reader(self, reader: Reader) -> Udcg:
        """The same metric with this reader."""
        return Udcg(reader, gamma=self.gamma, labels=self.labels, threshold=self.threshold)

    def _example(self) -> WorkedExample:
        helps, distracts = _EXAMPLE_UTILITIES
        inner = (helps + self.gamma * distracts) / 2
        return _worked_example(
            2,
            sigmoid(inner),
            f"({helps:g} + {self.gamma:.4g} * {distracts:g}) / 2 = {inner:.4f}; its sigmoid is the value",
        )

    def _range(self) -> tuple[float, float]:
        return sigmoid(-self.gamma), sigmoid(1.0)

    def _definition(self) -> str:
        return f"{self.gamma:.6g}"

    def _weights(self, k: int) -> tuple[Sequence[float], Sequence[float]]:
        return [1 / k] * k, [self.gamma / k] * k

    def _details(self, found: Sequence[PassageUtility]) -> dict[str, Any]:
        return {"gamma": self.gamma} | super()._details(found)


class UdcgTheta(UdcgBase):
    """UDCG with a weight for each position, learned from answers that were graded (`ragstone udcg fit`).

    Args:
        alpha: Weights of u+ by position.
        beta: Weights of u- by position, as many.
        fit: How the weights came about; kept in the file, no part of the metric.
        reader: As for `Udcg`.
        labels: As for `Udcg`.
        threshold: As for `Udcg`.

    Raises:
        ConfigurationError: No weights, unequally many, or one that is not finite.

    Example:
        ```python
        ragstone.evaluate(rows, [UdcgTheta.load("theta.json")], judge="http://localhost:8000/v1")
        ```
    """

    name = "udcg_theta"
    title = "UDCG with learned weights"
    advice = (
        "Low means that passages distract more than they help. "
        'Next: Open details["passages"] and remove or demote the distracting ones.'
    )
    description = "UDCG with a weight for help and for distraction at each position, learned from graded answers."
    equation = "3"
    formula = "sigmoid(sum over positions j of alpha_j u+_j + beta_j u-_j), u = R (1 - p(abstain)), R = 1 or -1"
    file_kind: ClassVar[Literal["ragstone.udcg_theta"]] = "ragstone.udcg_theta"

    def __init__(
        self,
        alpha: Sequence[float],
        beta: Sequence[float],
        *,
        fit: dict[str, Any] | None = None,
        reader: Reader | None = None,
        labels: LabelMode = "auto",
        threshold: float = 0.5,
    ) -> None:
        if not alpha or len(alpha) != len(beta) or not all(map(math.isfinite, [*alpha, *beta])):
            raise ConfigurationError(
                f"alpha and beta are finite weights, one of each a position, got alpha={alpha!r}, beta={beta!r}"
            )
        super().__init__(reader=reader, labels=labels, threshold=threshold)
        self.alpha = tuple(map(float, alpha))
        self.beta = tuple(map(float, beta))
        self.fit = dict(fit or {})

    def __repr__(self) -> str:
        return f"UdcgTheta(alpha={self.alpha!r}, beta={self.beta!r})"

    @property
    def k(self) -> int:
        """How many passages a sample must have."""
        return len(self.alpha)

    @classmethod
    def load(cls, path: str | Path, *, reader: Reader | None = None) -> UdcgTheta:
        """Read weights that `save` or `ragstone udcg fit` wrote.

        Raises:
            ConfigurationError: There is no such file.
            DataError: The file holds something else.
        """
        path = Path(path)
        if not path.is_file():
            raise ConfigurationError(
                f"there is no file {str(path)!r} with weights; `ragstone udcg fit FILE -o theta.json` makes one"
            )
        try:
            held = json.loads(path.read_text(encoding="utf-8"))
            if (held["kind"], held["version"]) == (cls.file_kind, 1):
                return cls(
                    held["alpha"],
                    held["beta"],
                    fit=held.get("fit"),
                    reader=reader,
                    labels=held.get("labels", "auto"),
                    threshold=float(held.get("threshold", 0.5)),
                )
            why = f"it is of kind {held['kind']!r}, version {held['version']!r}"
        except (ValueError, KeyError, TypeError) as error:
            why = f"{type(error).__name__}: {error}"
        raise DataError(f"{str(path)!r} holds no weights of UDCG-theta, version 1: {why}")

    def save(self, path: str | Path) -> None:
        """Write the weights as JSON."""
        held = {
            "kind": self.file_kind,
            "version": 1,
            "k": self.k,
            "alpha": self.alpha,
            "beta": self.beta,
            "labels": self.labels,
            "threshold": self.threshold,
            "fit": self.fit,
        }
        Path(path).write_text(json.dumps(held, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")

    def with_reader(self, reader: Reader) -> UdcgTheta:
        """The same metric with this reader."""
        return UdcgTheta(
            self.alpha, self.beta, fit=self.fit, reader=reader, labels=self.labels, threshold=self.threshold
        )

    def linear(self, utilities: Sequence[float]) -> float:
        """The weighted sum before it is squashed: ranks contexts as the metric does, and never saturates.

        Raises:
            ValueError: Not `k` utilities.
        """
        if len(utilities) != self.k:
            raise ValueError(f"these weights are for {self.k} passages, got {len(utilities)}")
        return math.fsum(
            a * max(u, 0.0) + b * min(u, 0.0) for a, b, u in zip(self.alpha, self.beta, utilities, strict=True)
        )

    def _example(self) -> WorkedExample:
        inner = self.linear([_EXAMPLE_UTILITIES[place % 2] for place in range(self.k)])
        return _worked_example(
            self.k,
            sigmoid(inner),
            f"weighted by position these add up to {inner:.4f}; the sigmoid of that is the value",
        )

    def _range(self) -> tuple[float, float]:
        return 0.0, 1.0

    def _definition(self) -> str:
        return hashlib.sha256(repr((self.alpha, self.beta)).encode()).hexdigest()[:12]

    def _weights(self, k: int) -> tuple[Sequence[float], Sequence[float]]:  # noqa: ARG002  `_find_not_applicable_reason` sees to it
        return self.alpha, self.beta

    def _find_not_applicable_reason(self, k: int) -> str | None:
        return None if k == self.k else f"the weights are for {self.k} passages, and the sample has {k}"

    def _details(self, found: Sequence[PassageUtility]) -> dict[str, Any]:
        return {"k": self.k} | super()._details(found)
