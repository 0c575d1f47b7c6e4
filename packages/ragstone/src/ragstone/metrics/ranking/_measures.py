"""Definitions of the ranking measures by name, and parsing of NAME@K."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, Protocol

from ragstone.errors import ConfigurationError
from ragstone.metrics._arguments import Cutoff
from ragstone.metrics.ranking._binary import (
    average_precision,
    f1,
    hit_rate,
    judged_share,
    precision,
    recall,
    reciprocal_rank,
)
from ragstone.metrics.ranking._grades import Gain
from ragstone.metrics.ranking._ndcg import ndcg


class _Binary(Protocol):
    def __call__(
        self, ranking: Sequence[str], qrels: Mapping[str, float], *, k: int | None, threshold: float
    ) -> float | None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A measure without its cutoff."""

    name: str
    title: str
    meaning: str
    """What a low value means."""
    next_step: str
    description: str
    formula: str
    source: str
    function: _Binary
    labels: Literal["first k", "first relevant", "all", "collection"]
    """Passages whose labels determine the value: the top k, all down to the first relevant one, all retrieved passages
    (the ideal order or the sum then covers only these), or the whole collection."""
    gain: Gain | None = None
    mean: str = ""
    """The established name of the mean over queries, if there is one ("MRR")."""
    judged_meaning: str = ""
    """Meaning and next step for labels from a judge."""
    judged_next_step: str = ""
    k: int | None = None
    """Cutoff of the measure in the group `ranking`."""
    is_by_name_only: bool = False
    """Whether the measure is not in the group."""


def _graded(gain: Gain) -> _Binary:
    def graded(ranking: Sequence[str], qrels: Mapping[str, float], *, k: int | None, threshold: float) -> float | None:  # noqa: ARG001  nDCG does not use a threshold
        return ndcg(ranking, qrels, k=k, gain=gain)

    return graded


_KINDS: Final = (
    Kind(
        name="precision",
        title="Precision",
        meaning="most of the top passages are irrelevant",
        next_step="Add a reranker, or retrieve fewer passages.",
        judged_meaning="the judge finds most of the top passages irrelevant",
        judged_next_step="Label 50 passages to check the judge, then rerank.",
        description="How many of the top k ranks contain a relevant passage?",
        formula="relevant in the top k / k",
        source="Manning, Raghavan and Schuetze 2008, section 8.3",
        function=precision,
        labels="first k",
        k=5,
    ),
    Kind(
        name="judged_share",
        title="Judged passages",
        meaning="most of the top passages were never judged, and count as irrelevant",
        next_step="Label them, or use judged.precision.",
        description="How many of the top k ranks contain a passage with a grade?",
        formula="with a grade in the top k / k",
        source="Judged@k of ir_measures. Sakai 2007 (incomplete judgments)",
        function=judged_share,
        labels="collection",
        is_by_name_only=True,
    ),
    Kind(
        name="recall",
        title="Recall",
        meaning="relevant passages are missing from the top passages",
        next_step="Retrieve more, then check chunking and the embedding model.",
        description="How many of all relevant passages are in the top k?",
        formula="relevant in the top k / all relevant",
        source="Manning, Raghavan and Schuetze 2008, section 8.3",
        function=recall,
        labels="collection",
        k=5,
    ),
    Kind(
        name="f1",
        title="F1",
        meaning="precision, recall or both are low",
        next_step="Look at the two separately.",
        description="The harmonic mean of precision and recall in the top k.",
        formula="2 * relevant in the top k / (k + all relevant)",
        source="Manning, Raghavan and Schuetze 2008, section 8.3",
        function=f1,
        labels="collection",
        k=5,
    ),
    Kind(
        name="hit_rate",
        title="Hit rate",
        meaning="many questions get no relevant passage in the top passages",
        next_step="List those questions and fix indexing or query rewriting first.",
        judged_meaning="the judge often finds no relevant passage at the top",
        judged_next_step="Read those questions; if the corpus has the answer, fix retrieval.",
        description="Is any of the top k passages relevant?",
        formula="1 if a relevant passage is in the top k, else 0",
        source="success@k of trec_eval",
        function=hit_rate,
        labels="first k",
        k=5,
    ),
    Kind(
        name="reciprocal_rank",
        title="Reciprocal rank",
        mean="MRR",
        meaning="the first relevant passage comes late",
        next_step="Add a reranker.",
        judged_meaning="the first passage that the judge finds relevant comes late",
        judged_next_step="Rerank.",
        description="How high is the first relevant passage ranked?",
        formula="1 / rank of the first relevant passage, 0 without one",
        source="Voorhees 1999, section 3",
        function=reciprocal_rank,
        labels="first relevant",
    ),
    Kind(
        name="average_precision",
        title="Average precision",
        mean="MAP",
        meaning="relevant passages are missing or rank late",
        next_step="Check recall: if it is high, rerank; if not, retrieve more.",
        judged_meaning="relevant passages rank below irrelevant ones; missing ones are not seen",
        judged_next_step="Rerank; use qrels to see what is missing.",
        description="Are all relevant passages retrieved, and ranked above the others?",
        formula="sum of precision@rank over the retrieved relevant passages / all relevant",
        source="Buckley and Voorhees 2005, section 3.2",
        function=average_precision,
        labels="all",
    ),
    Kind(
        name="ndcg",
        title="nDCG",
        meaning="highly relevant passages rank below weaker ones, or are missing",
        next_step="Rerank, then check recall.",
        judged_meaning="relevant passages rank below irrelevant ones; missing ones are not seen",
        judged_next_step="Rerank; use qrels to see what is missing.",
        description="Are the passages with the highest grades ranked first?",
        formula="DCG@k / DCG@k of the best order, DCG = sum of (2**grade - 1) / log2(rank + 1)",
        source="Jarvelin and Kekalainen 2002. Gain: Burges et al. 2005, section 5",
        function=_graded("exp"),
        labels="all",
        gain="exp",
        k=10,
    ),
)

_LINEAR: Final = replace(
    _KINDS[-1],
    name="ndcg_linear",
    title="nDCG with linear gain",
    judged_meaning="",
    judged_next_step="",
    description="Do the passages of the highest grades come first, each worth its grade?",
    formula="DCG@k / DCG@k of the best order, DCG = sum of grade / log2(rank + 1)",
    source="Jarvelin and Kekalainen 2002, section 3.2. UDCG, appendix A",
    function=_graded("linear"),
    gain="linear",
    is_by_name_only=True,
)
KINDS: Final[Mapping[str, Kind]] = {kind.name: kind for kind in (*_KINDS, _LINEAR)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """A measure with its cutoff."""

    kind: Kind
    k: int | None
    """Number of ranks that count. None: all."""

    @property
    def name(self) -> str:
        """Name of the measure: `ndcg@10`, `reciprocal_rank`."""
        return self.kind.name if self.k is None else f"{self.kind.name}@{self.k}"

    @property
    def title(self) -> str:
        """Display name for labels in the data: "nDCG at 10", "Reciprocal rank (mean: MRR)"."""
        return self._at_cutoff + (f" (mean: {self.kind.mean})" if self.kind.mean else "")

    @property
    def judged_title(self) -> str:
        """Display name for labels from a judge: "Judged nDCG at 10"."""
        keeps_case = self._at_cutoff.startswith(("F1", "nDCG"))
        return f"Judged {self._at_cutoff if keeps_case else self._at_cutoff[0].lower() + self._at_cutoff[1:]}"

    @property
    def _at_cutoff(self) -> str:
        return self.kind.title if self.k is None else f"{self.kind.title} at {self.k}"


def measure_from(name: str, k: Cutoff | None = None) -> Measure:
    """Return a measure by its name, with its cutoff. Raise ConfigurationError if the measure is unknown."""
    kind = KINDS.get(name.strip().casefold())
    if kind is None:
        raise ConfigurationError(f"unknown ranking measure {name!r}. Known measures: {', '.join(KINDS)}")
    return Measure(kind=kind, k=k)
