"""UDCG: utility of the retrieved passages for the reader, with a penalty for distraction.

Source: G. Trappolini, F. Cuconasu, S. Filice, Y. Maarek, F. Silvestri, "Redefining Retrieval Evaluation in the Era of
LLMs", sections 4 and 5.

With u(q, p) = R * (1 - p(abstain | q, p)), R = +1 for a relevant and -1 for an irrelevant passage, u+ = max(u, 0),
u- = min(u, 0). `docs/reference/metrics.md` states the cases that the source does not define.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import BeforeValidator, Field

from ragstone._util.files import write_output
from ragstone.errors import ConfigurationError, DataError
from ragstone.judges import Reader
from ragstone.metrics._arguments import Positive
from ragstone.metrics._card import WorkedExample
from ragstone.metrics._relevance import LabelMode
from ragstone.metrics._udcg_base import UdcgBase, sigmoid
from ragstone.metrics._utility import PassageUtility
from ragstone.schema import SCHEMA_VERSION, check_version

_EXAMPLE_UTILITIES: Final = (0.9, -0.8)
_GAMMA_KIND: Final = "ragstone.udcg_gamma"


def save_gamma(path: str | Path, gamma: float, **found: Any) -> None:
    """Write a weight of distraction as JSON, with what it was found with, for `udcg@gamma=FILE`."""
    content = {"kind": _GAMMA_KIND, "version": SCHEMA_VERSION, "gamma": gamma, "found": found}
    write_output(path, json.dumps(content, indent=2, ensure_ascii=False) + "\n")


def load_gamma(value: Any) -> Any:
    """Return the weight in a file of `save_gamma`, or another value as it is."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        content = json.loads(Path(value).read_text(encoding="utf-8"))
        if (content["kind"], content["version"]) == (_GAMMA_KIND, SCHEMA_VERSION):
            return content["gamma"]
    return value


_GAMMA_RULE: Final = "a number from 0 to 1, or a file gamma.json of `ragstone lab udcg experiment`"
Gamma = Annotated[float, Field(ge=0, le=1, json_schema_extra={"rule": _GAMMA_RULE}), BeforeValidator(load_gamma)]


def _worked_example(k: int, value: float, last_step: str) -> WorkedExample:
    """Make an example of `k` passages: relevant ones (p(abstain) = 0.1) and irrelevant ones (0.2) alternate."""
    contexts = [
        {"text": f"Tower {place} is {31 + place} meters tall.", "relevance": 1 - place % 2} for place in range(k)
    ]
    helps, distracts = _EXAMPLE_UTILITIES
    return WorkedExample(
        row={"query": "How tall is the lighthouse?", "contexts": contexts},
        abstentions=tuple(0.1 if place % 2 == 0 else 0.2 for place in range(k)),
        value=value,
        steps=(
            f"A relevant passage has u = 1 - 0.1 = {helps:g}, an irrelevant one has u = -(1 - 0.2) = {distracts:g}. "
            f"{last_step}."
        ),
    )


class Udcg(UdcgBase):
    """Mean utility of the passages, with a weight for distraction, mapped by the logistic function.

    Args:
        reader: The application's generator. If None, `evaluate`, `Monitor` or the worker binds it later.
        gamma: Weight of distraction relative to relevance, between 0 and 1. In a name, also the file that
            `ragstone lab udcg experiment` writes: `udcg@gamma=experiment/gamma.json` is `udcg@gamma=0.4` if it found 0.4.
        labels: Source of relevance labels: "auto" (the labels in the data, or the judge if they are missing), "data"
            (only the labels in the data) or "judge" (always the judge).
        threshold: Smallest label in the data that means relevant. The default suits binary labels, TREC grades
            (relevant from 1) and probabilities. Use 2 for graded labels if only grades 2 and 3 answer the query.

    Raises:
        ConfigurationError: If an option is out of range.
    """

    name = "udcg"
    title = "Passage utility (UDCG)"
    advice = (
        "Low (below 0.50) means that passages distract more than they help. "
        'Next: Open details["passages"] and remove or demote the distracting ones.'
    )
    description = "How much do the retrieved passages help or distract this reader?"
    source = "UDCG, sections 4 and 5, equation 4"
    formula = "sigmoid(sum over k passages of (u+ + gamma u-) / k), u = R (1 - p(abstain)), R = 1 or -1, gamma = 1/3"

    def __init__(
        self,
        reader: Reader | None = None,
        *,
        gamma: Gamma = 1 / 3,
        labels: LabelMode = "auto",
        threshold: Positive = 0.5,
    ) -> None:
        super().__init__(f"{gamma:.6g}", reader=reader, labels=labels, threshold=threshold)
        self.gamma = gamma
        self.formula = self.formula.replace("1/3", "1/3" if gamma == 1 / 3 else f"{gamma:g}")
        self.low, self.high = sigmoid(-gamma), sigmoid(1.0)
        helps, distracts = _EXAMPLE_UTILITIES
        inner = (helps + gamma * distracts) / 2
        step = f"({helps:g} + {gamma:.4g} * {distracts:g}) / 2 = {inner:.4f}, and its sigmoid is the value"
        # Its passages have the labels 1 and 0, so the judge is not asked.
        self.example = _worked_example(2, sigmoid(inner), step) if labels != "judge" and threshold <= 1 else None

    def _weights(self, k: int) -> tuple[Sequence[float], Sequence[float]]:
        return [1 / k] * k, [self.gamma / k] * k

    def _details(self, found: Sequence[PassageUtility]) -> dict[str, Any]:
        return {"gamma": self.gamma} | super()._details(found)


class UdcgTheta(UdcgBase):
    """UDCG with a weight for each position, learned from graded responses (`ragstone lab udcg fit`).

    Args:
        alpha: Weights of u+ by position.
        beta: Weights of u- by position, as many as `alpha`.
        fit: Information about the fit. It is stored in the file and does not affect the metric.
        reader: As for `Udcg`.
        labels: As for `Udcg`.
        threshold: As for `Udcg`.

    Raises:
        ConfigurationError: If `alpha` is empty, the lengths differ, or a weight is not finite.
    """

    name = "udcg_theta"
    title = "UDCG with learned weights"
    _meaning = "passages distract more than they help"
    _next_step = 'Open details["passages"] and remove or demote the distracting ones.'
    description = "UDCG with weights for relevance and distraction at each position, learned from graded responses."
    source = "UDCG, sections 4 and 5, equation 3"
    formula = "sigmoid(sum over positions j of alpha_j u+_j + beta_j u-_j), u = R (1 - p(abstain)), R = 1 or -1"
    unstated = ("labels", "threshold")
    file_kind: ClassVar[Literal["ragstone.udcg_theta"]] = "ragstone.udcg_theta"

    def __init__(
        self,
        alpha: Sequence[float],
        beta: Sequence[float],
        *,
        fit: dict[str, Any] | None = None,
        reader: Reader | None = None,
        labels: LabelMode = "auto",
        threshold: Positive = 0.5,
    ) -> None:
        if not alpha or len(alpha) != len(beta) or not all(map(math.isfinite, [*alpha, *beta])):
            raise ConfigurationError(
                f"alpha and beta must be finite and of equal length (at least 1), got alpha={alpha!r}, beta={beta!r}"
            )
        self.alpha = tuple(map(float, alpha))
        self.beta = tuple(map(float, beta))
        self.fit = dict(fit or {})
        definition = hashlib.sha256(repr((self.alpha, self.beta)).encode()).hexdigest()[:12]
        super().__init__(definition, reader=reader, labels=labels, threshold=threshold)
        inner = self.linear([_EXAMPLE_UTILITIES[place % 2] for place in range(self.k)])
        step = f"Their sum weighted by position is {inner:.4f}, and its sigmoid is the value"
        self.example = _worked_example(self.k, sigmoid(inner), step)

    @property
    def k(self) -> int:
        """Number of passages that a sample must have."""
        return len(self.alpha)

    @classmethod
    def load(cls, path: str | Path, *, reader: Reader | None = None) -> UdcgTheta:
        """Read weights from a file of `save` or `ragstone lab udcg fit`.

        Raises:
            ConfigurationError: If the file does not exist.
            DataError: If the content of the file is invalid.
            StoreVersionError: If another version of Ragstone wrote the file.
        """
        path = Path(path)
        if not path.is_file():
            raise ConfigurationError(
                f"file with weights not found: {str(path)!r}. Create one with `ragstone lab udcg fit FILE -o theta.json`"
            )
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            if content["kind"] == cls.file_kind:
                check_version(f"the file with weights {str(path)!r}", content.get("version"))
                return cls(
                    content["alpha"],
                    content["beta"],
                    fit=content.get("fit"),
                    reader=reader,
                    labels=content.get("labels", "auto"),
                    threshold=float(content.get("threshold", 0.5)),
                )
            problem = f"kind {content['kind']!r}"
        except (ValueError, KeyError, TypeError) as error:
            problem = f"{type(error).__name__}: {error}"
        raise DataError(f"{str(path)!r} does not contain weights of UDCG-theta: {problem}")

    def save(self, path: str | Path) -> None:
        """Write the weights as JSON."""
        content = {
            "kind": self.file_kind,
            "version": SCHEMA_VERSION,
            "k": self.k,
            "alpha": self.alpha,
            "beta": self.beta,
            "labels": self.labels,
            "threshold": self.threshold,
            "fit": self.fit,
        }
        write_output(path, json.dumps(content, indent=2, ensure_ascii=False) + "\n")

    def linear(self, utilities: Sequence[float]) -> float:
        """Compute the weighted sum before the sigmoid. It ranks contexts like the metric but does not saturate.

        Raises:
            ValueError: If the number of utilities is not `k`.
        """
        if len(utilities) != self.k:
            raise ValueError(f"these weights are for {self.k} passages, got {len(utilities)} utilities")
        return math.fsum(
            a * max(u, 0.0) + b * min(u, 0.0) for a, b, u in zip(self.alpha, self.beta, utilities, strict=True)
        )

    def _weights(self, k: int) -> tuple[Sequence[float], Sequence[float]]:  # noqa: ARG002  `_find_not_applicable_reason` checks `k`
        return self.alpha, self.beta

    def _find_not_applicable_reason(self, k: int) -> str | None:
        return None if k == self.k else f"the weights are for {self.k} passages, but the sample has {k}"

    def _details(self, found: Sequence[PassageUtility]) -> dict[str, Any]:
        return {"k": self.k} | super()._details(found)
