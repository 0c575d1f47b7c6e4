"""Clusters of samples, such as the requests of one session, and notes about their design effect."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ragstone._util.quantities import label_of
from ragstone.errors import ConfigurationError, DataError
from ragstone.schema import RowProbabilities, Sample
from ragstone.stats import DesignEffect, design_effect

if TYPE_CHECKING:
    from ragstone.store import Store

AUTO_CLUSTER: Final = "auto"
NO_CLUSTER: Final = "none"
CLUSTER_KEYS: Final = ("session_id", "user_id", "document_id")
"""Fields that are read without being named."""
_AUTO_KEY: Final = "session_id"
_SHARED: Final = 0.05
"""Share of samples with a common label from which samples are treated as dependent without being asked."""
_FEW_CLUSTERS: Final = 30
_LABELS_SHOWN: Final = 8

Labels = Mapping[str, Mapping[str, str]]
"""Labels by key, then by sample id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Clusters:
    """Clusters of samples: whole clusters are independent, the samples of one cluster are not."""

    key: str
    by_sample: Mapping[str, str]
    """Labels by sample id. A sample without a label is a cluster of its own."""
    is_automatic: bool
    """Whether the key was chosen automatically."""

    def of(self, sample_ids: Iterable[str]) -> list[str | None]:
        """Return the labels of samples."""
        return [self.by_sample.get(id_) for id_ in sample_ids]


def count_units(sample_ids: Collection[str], clusters: Clusters | None) -> int:
    """Return the number of independent units: samples, or clusters of samples."""
    if clusters is None:
        return len(sample_ids)
    return _count_clusters(clusters.of(sample_ids))


def _count_clusters(labels: Sequence[str | None]) -> int:
    """Return the number of clusters of samples with these labels. Each None is a cluster of its own."""
    return len({label for label in labels if label is not None}) + labels.count(None)


def labels_in(metadata: Mapping[str, Any], keys: Iterable[str]) -> dict[str, str]:
    """Return the labels in the metadata of a sample, by key."""
    return {key: label for key in keys if (label := label_of(metadata.get(key))) is not None}


def cluster_keys(cluster: str | None) -> tuple[str, ...]:
    """Return the keys to read: `CLUSTER_KEYS`, and the one that the caller names."""
    named = [] if cluster in (None, AUTO_CLUSTER, NO_CLUSTER, *CLUSTER_KEYS) else [str(cluster)]
    return (*CLUSTER_KEYS, *named)


class SampleFields:
    """Sampling probabilities and labels (`keys`) of samples, collected from their fields.

    `sample_ids` are the ids of all samples, if they are kept elsewhere. None collects them.
    """

    def __init__(self, keys: Sequence[str], sample_ids: Collection[str] | None = None) -> None:
        self._keys = keys
        self._collected: dict[str, None] = {}
        self._probabilities = RowProbabilities()
        self._known: dict[str, str] = {}
        self.labels: dict[str, dict[str, str]] = {key: {} for key in keys}
        """Labels by key and sample id."""
        self.inclusion_probabilities: dict[str, float] = {}
        """Sampling probabilities below 1, by sample id."""
        self.sample_ids: Collection[str] = self._collected if sample_ids is None else sample_ids
        self._names: set[str] = set()

    def add_labels(self, samples: Iterable[Sample]) -> None:
        """Add the labels of samples whose own fields are read later. Labels that are read later replace them."""
        for sample in samples:
            for key, label in labels_in(sample.metadata, self._keys).items():
                self.labels[key][sample.id] = self._known.setdefault(label, label)

    def choose(self, cluster: str | None) -> Clusters | None:
        """Choose the clusters of the samples, as `choose_clusters` does."""
        return choose_clusters(cluster, self.labels, self.sample_ids, known=self._names)

    def add(self, sample_id: str, fields: Mapping[str, Any], place: str) -> None:
        """Add the fields of a sample, with a mapping of labels in `clusters`, or with the labels themselves.

        Raise DataError if a sampling probability is not in (0, 1], or only some samples have one.
        """
        if self.sample_ids is self._collected:
            self._collected[sample_id] = None
        if fields:  # a file of outcomes of a dataset often has none
            self._names.update(fields)
            stored = fields.get("clusters")
            fields = {**fields, **stored} if isinstance(stored, Mapping) else fields
            for key, label in labels_in(fields, self._keys).items():
                # The labels of many samples are equal, so each text is kept once.
                self.labels[key][sample_id] = self._known.setdefault(label, label)
        probability = self._probabilities.add(fields, place)
        if probability < 1:
            self.inclusion_probabilities[sample_id] = probability


def collect_fields(
    samples: Iterable[Sample], keys: Sequence[str], *, sample_ids: Collection[str] | None = None
) -> SampleFields:
    """Read the fields of samples one by one. `sample_ids` is that of `SampleFields`."""
    fields = SampleFields(keys, sample_ids)
    for number, sample in enumerate(samples, start=1):
        fields.add(sample.id, sample.metadata, f"row {number} ({sample.id!r})")
    return fields


def choose_clusters(
    cluster: str | None, labels: Labels, sample_ids: Collection[str], *, known: Collection[str] = ()
) -> Clusters | None:
    """Choose the clusters of samples by the caller's choice, as `evaluate` does.

    `known` are keys that the samples have, for messages.
    """
    if cluster is None or cluster == NO_CLUSTER:
        return None
    if cluster == AUTO_CLUSTER:
        if not _is_shared(labels.get(_AUTO_KEY, {}), sample_ids):
            return None
        return Clusters(key=_AUTO_KEY, by_sample=labels[_AUTO_KEY], is_automatic=True)
    by_sample = labels.get(cluster, {})
    own = [label for id_ in sample_ids if (label := by_sample.get(id_)) is not None] if by_sample else []
    if not own:
        others = sorted({*known, *(key for key, by in labels.items() if by)} - {cluster})
        raise ConfigurationError(
            f"cluster {cluster!r}: no sample has {'a text or an integer under ' if cluster in known else ''}this key. "
            f"Keys of these samples: {_listed(others)}. A key is a column of the rows, session_id or user_id. A file of "
            "outcomes has session_id, user_id, document_id and the key that "
            "`evaluate --set analysis.cluster=KEY` named when it was written. Other columns are read from the "
            "evaluated file: --data ROWS. Without clusters, set cluster='none' (--set analysis.cluster=none)."
        )
    if len(own) == len(sample_ids) > 1 and len(set(own)) == 1:
        raise DataError(
            f"cluster {cluster!r}: all {len(own)} samples are in one cluster ({own[0]!r}), so their error cannot be "
            "estimated. At least two clusters are needed. Use another key, or cluster='none' (--set analysis.cluster=none)."
        )
    return Clusters(key=cluster, by_sample=labels[cluster], is_automatic=False)


def _listed(keys: Sequence[str]) -> str:
    return ", ".join(keys[:_LABELS_SHOWN]) + (", ..." if len(keys) > _LABELS_SHOWN else "") if keys else "none"


def _is_shared(by_sample: Mapping[str, str], sample_ids: Collection[str]) -> bool:
    """Return whether enough samples share a label, and there are at least two clusters."""
    if not by_sample:
        return False
    sizes = Counter(map(by_sample.get, sample_ids))
    del sizes[None]
    n_shared = sum(size for size in sizes.values() if size > 1)
    n_clusters = len(sizes) + len(sample_ids) - sizes.total()
    return n_clusters > 1 and n_shared >= _SHARED * len(sample_ids) and n_shared > 0


def cluster_notes(
    cluster: str | None,
    clusters: Clusters | None,
    labels: Labels,
    sample_ids: Collection[str],
    scores: Mapping[str, Mapping[str, float]],
) -> list[str]:
    """Describe the clusters in use and their design effect, or those that are not used although samples share them.

    Of the metrics in `scores` (by sample id), the one with the largest design effect is described.
    """
    if clusters is None:
        return [
            f"{_described(key, effect)}. Intervals and tests treat the rows as independent: --set analysis.cluster={key} (cluster={key!r}) does not"
            for key in (CLUSTER_KEYS if cluster == AUTO_CLUSTER else ())
            if _is_shared(labels.get(key, {}), sample_ids)
            and (effect := _largest_effect(labels[key], scores)) is not None
            and effect[1].value > 1
        ]
    notes = []
    effect = _largest_effect(clusters.by_sample, scores)
    if effect is not None:
        off = " (--set analysis.cluster=none for independent rows)" if clusters.is_automatic else ""
        notes.append(
            f"{_described(clusters.key, effect)}. Intervals and tests treat whole {_plural(clusters.key)} as independent{off}"
        )
    found = clusters.of(sample_ids)
    n_unlabeled, n_clusters = found.count(None), _count_clusters(found)
    if n_unlabeled:
        notes.append(
            f"{n_unlabeled:,} of {len(sample_ids):,} samples do not have a {clusters.key}. Each counts as a cluster of its own."
        )
    if n_clusters < _FEW_CLUSTERS:
        notes.append(
            f"{n_clusters} clusters ({clusters.key}): with fewer than {_FEW_CLUSTERS}, intervals are a rough guide"
        )
    return notes


def _largest_effect(
    by_sample: Mapping[str, str], scores: Mapping[str, Mapping[str, float]]
) -> tuple[str, DesignEffect] | None:
    found = [
        (metric, effect)
        for metric, values in scores.items()
        if (effect := design_effect(list(values.values()), [by_sample.get(id_) for id_ in values])) is not None
    ]
    return max(found, key=lambda pair: pair[1].value) if found else None


def _plural(key: str) -> str:
    return f"{key.removesuffix('_id')}s" if key in CLUSTER_KEYS else f"clusters of {key}"


def _described(key: str, of_metric: tuple[str, DesignEffect]) -> str:
    metric, effect = of_metric
    return (
        f"{effect.n:,} rows in {effect.n_clusters:,} {_plural(key)}, ICC {effect.icc:.2f} ({metric}): design effect "
        f"{effect.value:.1f}, worth {effect.n_independent:,.0f} independent rows"
    )


def store_labels(store: Store, key: str, *, since: float | None = None, until: float | None = None) -> dict[str, str]:
    """Return the labels of a store's requests. Only a key that the caller names is read from the traces' bodies."""
    match key:
        case "session_id" | "user_id" | "app" | "release" | "environment":
            return store.traces.request_labels(key, since=since, until=until)
        case _ if key in CLUSTER_KEYS:
            return {}
    return {
        trace.trace_id: found[key]
        for trace in store.traces.read(since=since)
        if (until is None or trace.started_at < until) and (found := labels_in(trace.metadata, [key]))
    }
