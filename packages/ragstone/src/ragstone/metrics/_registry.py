"""The registry: lookup of metrics by name, group or object, including metrics of other packages."""

from __future__ import annotations

import difflib
import importlib.metadata
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from ragstone._util.local_model import check_installed
from ragstone.errors import ConfigurationError
from ragstone.judges import Embedder, Reader
from ragstone.metrics._card import EmbedderMetric, Metric, ReaderMetric
from ragstone.metrics.ccrs import CCRS
from ragstone.metrics.ccrs_composite import CcrsComposite
from ragstone.metrics.ccrs_fused import CCRS_FUSED
from ragstone.metrics.citation import CITATION
from ragstone.metrics.cosine import COSINE, RagasAnswerRelevancyCosine
from ragstone.metrics.criterion import Criterion, read_criteria
from ragstone.metrics.crux import CRUX, CRUX_AT
from ragstone.metrics.ragas import RAGAS
from ragstone.metrics.ragchecker import RAGCHECKER
from ragstone.metrics.ranking import RANKING, RANKING_AT
from ragstone.metrics.semantic import SEMANTIC, SEMANTIC_AT
from ragstone.metrics.text import TEXT, TEXT_AT
from ragstone.metrics.udcg import Udcg, UdcgTheta
from ragstone.metrics.vera import VERA, VERA_AT

ENTRY_POINT_GROUP: Final = "ragstone.metrics"
"""An entry point of this group is a `Metric`, a sequence of metrics, or a function without arguments that returns these."""

_BUILT_IN: Final[tuple[Metric, ...]] = (
    *RANKING,
    *TEXT,
    *SEMANTIC,
    *CCRS,
    *CCRS_FUSED,
    Udcg(),
    *CRUX,
    *VERA,
    *RAGAS,
    *RAGCHECKER,
    *CITATION,
    *COSINE,
)
_WITH_ARGUMENT: Final[Mapping[str, tuple[str, Callable[[str], Metric | Sequence[Metric]]]]] = {
    "udcg": ("FILE", UdcgTheta.load),
    "criterion": ("FILE", read_criteria),
    CcrsComposite.name: ("FILE", CcrsComposite.load),
    RagasAnswerRelevancyCosine.name: ("N", RagasAnswerRelevancyCosine.from_argument),
    **{name: ("K", make) for name, make in RANKING_AT.items()},
    **{name: ("ETA", make) for name, make in CRUX_AT.items()},
    **TEXT_AT,
    **{name: ("MODEL", make) for name, make in {**SEMANTIC_AT, **VERA_AT}.items()},
}
"""For each `name@ARGUMENT`: the placeholder of the argument, and the function that makes the metric or metrics.

The function raises `ConfigurationError` or `DataError` if the argument is invalid.
"""

logger = logging.getLogger("ragstone")


def all_metrics() -> tuple[Metric, ...]:
    """Return all registered metrics: built-in metrics first, then those of entry points, ordered by entry point.

    If an entry point cannot be loaded, or its metric has the name of another metric, it is skipped and a warning is
    logged.
    """
    registered = {metric.card.name: metric for metric in _BUILT_IN}
    entries = importlib.metadata.entry_points(group=ENTRY_POINT_GROUP)
    for entry in sorted(entries, key=lambda entry: (entry.name, entry.value)):
        try:
            metrics = _load(entry)
        except Exception:  # an error in another package must not disable the other metrics
            logger.warning("the metrics of entry point %r cannot be loaded", entry.value, exc_info=True)
            continue
        for metric in metrics:
            if metric.card.name in registered:
                logger.warning(
                    "entry point %r: the metric name %r is already in use, metric skipped",
                    entry.value,
                    metric.card.name,
                )
            else:
                registered[metric.card.name] = metric
    return tuple(registered.values())


def _load(entry: importlib.metadata.EntryPoint) -> tuple[Metric, ...]:
    loaded = entry.load()
    if callable(loaded) and not isinstance(loaded, Metric):
        loaded = loaded()
    metrics = (loaded,) if isinstance(loaded, Metric) else tuple(loaded)
    for metric in metrics:
        _check(metric)
    return metrics


def _check(metric: object) -> None:
    # A metric class also passes the Protocol check, because it has all attributes of its instances.
    if isinstance(metric, type) or not isinstance(metric, Metric):
        raise ConfigurationError(
            f"{metric!r} is not a metric. Pass an object with a card and an async score(sample, judge)"
        )


def resolve_metrics(specs: str | Metric | Sequence[str | Metric]) -> tuple[Metric, ...]:
    """Resolve the argument `metrics=` to metrics, in that order and without duplicates.

    Args:
        specs: One or several of: names ("ccrs.cc"), groups ("ccrs"), names with an argument ("ndcg@10",
            "udcg@theta.json", "criterion@FILE.toml") and `Metric` objects. An object replaces the registered metric with the
            same name, so `["ccrs", AnswerCorrectness(em_weight=0)]` resolves to five metrics. A `Criterion` must have a
            name of its own.

    Raises:
        ConfigurationError: If a name is unknown (the message lists the groups), a file does not exist, an object is not
            a metric, two different objects have the same name, or `specs` is empty.
        MissingExtraError: If a metric needs a package that is not installed.
        DataError: If the content of a file is invalid.

    Examples:
        ```python
        resolve_metrics(["ccrs"])
        ```
    """
    listed: list[object] = [specs] if isinstance(specs, str | Metric) else list(specs)
    known = all_metrics() if any(isinstance(spec, str) for spec in listed) else ()
    resolved: dict[str, Metric] = {}
    objects: set[str] = set()
    for spec in listed:
        if not isinstance(spec, str):
            _check(spec)
            assert isinstance(spec, Metric)  # noqa: S101  `_check` raises otherwise
        for metric in _named(spec, known) if isinstance(spec, str) else (spec,):
            name = metric.card.name
            if isinstance(metric, Criterion):
                _check_own_name(metric)
            elif isinstance(spec, str):
                resolved.setdefault(name, metric)
                continue
            if name in objects and resolved[name] is not metric:
                raise ConfigurationError(
                    f"two metrics have the name {name!r}: {resolved[name]!r} and {metric!r}. Give each metric a unique "
                    "name, because outcomes are stored by name"
                )
            objects.add(name)
            resolved[name] = metric
    if not resolved:
        raise ConfigurationError("no metrics given. Name at least one, for example metrics=['ccrs']")
    for metric in resolved.values():
        # Check packages before the first judge call.
        if metric.card.extra is not None:
            check_installed(metric.card.extra, f"The metric {metric.card.name!r}")
    return tuple(resolved.values())


def _check_own_name(criterion: Criterion) -> None:
    others = [metric.card for metric in all_metrics() if metric is not criterion]
    taken = {key for card in others for key in (card.name, card.group)}
    if criterion.name in taken:
        raise ConfigurationError(
            f"{criterion!r} has the name of a registered metric or group. Choose another name, such as "
            f"'criterion.{criterion.name.rpartition('.')[2]}'"
        )


def _named(spec: str, known: Sequence[Metric]) -> list[Metric]:
    key = spec.strip().casefold()
    # Look up the whole text first: "ndcg@10" is the name of a registered metric.
    if metrics := [metric for metric in known if key in (metric.card.name, metric.card.group)]:
        return metrics
    name, at, argument = spec.strip().partition("@")
    if at and (entry := _WITH_ARGUMENT.get(name.casefold())) and argument:
        made = entry[1](argument)
        return [made] if isinstance(made, Metric) else list(made)
    if entry := None if at else _WITH_ARGUMENT.get(key):
        raise ConfigurationError(
            f"{spec!r} needs an argument: {key}@{entry[0]}. `ragstone metrics` lists the metrics without one"
        )
    if at:
        forms = ", ".join(f"{name}@{placeholder}" for name, (placeholder, _) in _WITH_ARGUMENT.items())
        raise ConfigurationError(f"{spec!r} is not a metric with an argument. Metrics with an argument: {forms}")
    names = list(dict.fromkeys([m.card.group for m in known] + [m.card.name for m in known]))
    close = difflib.get_close_matches(key, names, n=1)
    hint = f"Did you mean {close[0]!r}? " if close else ""
    groups = ", ".join(dict.fromkeys(m.card.group for m in known))
    raise ConfigurationError(
        f"unknown metric or group {spec!r}. {hint}Groups: {groups}. `ragstone metrics` lists all metrics"
    )


def bind_reader(metrics: Sequence[Metric], reader: Callable[[], Reader]) -> tuple[tuple[Metric, ...], Reader | None]:
    """Bind the reader to the metrics that need one and do not have one yet.

    Args:
        metrics: Metrics from `resolve_metrics`.
        reader: Function that makes the reader, called only if a metric needs it.

    Returns:
        The metrics in their order, and the reader if one was made, else None.
    """
    unbound = [metric for metric in metrics if isinstance(metric, ReaderMetric) and metric.reader is None]
    if not unbound:
        return tuple(metrics), None
    bound = reader()
    return tuple(
        metric.with_reader(bound) if isinstance(metric, ReaderMetric) and metric.reader is None else metric
        for metric in metrics
    ), bound


def bind_embedder(
    metrics: Sequence[Metric], embedder: Callable[[], Embedder]
) -> tuple[tuple[Metric, ...], Embedder | None]:
    """Bind the embedder to the metrics that need one and do not have one yet.

    Args:
        metrics: Metrics from `resolve_metrics`.
        embedder: Function that makes the embedder, called only if a metric needs it.

    Returns:
        The metrics in their order, and the embedder if one was made, else None.
    """
    if not any(isinstance(metric, EmbedderMetric) and metric.embedder is None for metric in metrics):
        return tuple(metrics), None
    bound = embedder()
    return tuple(
        metric.with_embedder(bound) if isinstance(metric, EmbedderMetric) and metric.embedder is None else metric
        for metric in metrics
    ), bound
