"""Finding metrics: by name, by group, or as objects; ours, and those that other packages bring."""

from __future__ import annotations

import difflib
import importlib.metadata
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from ragstone.errors import ConfigurationError
from ragstone.judges import Reader
from ragstone.metrics._card import Metric, ReaderMetric
from ragstone.metrics._local import check_installed
from ragstone.metrics.ccrs import CCRS
from ragstone.metrics.crux import CRUX
from ragstone.metrics.ragas import RAGAS
from ragstone.metrics.ragchecker import RAGCHECKER
from ragstone.metrics.ranking import RANKING, RANKING_AT
from ragstone.metrics.semantic import SEMANTIC, SEMANTIC_AT
from ragstone.metrics.text import TEXT, TEXT_AT
from ragstone.metrics.udcg import Udcg, UdcgTheta
from ragstone.metrics.vera import VERA, VERA_AT

__all__ = ["ENTRY_POINT_GROUP", "all_metrics", "bind_reader", "resolve_metrics"]

ENTRY_POINT_GROUP: Final = "ragstone.metrics"
"""An entry point of this group names a `Metric`, a sequence of them, or a function without arguments that makes either."""

_OURS: Final[tuple[Metric, ...]] = (*RANKING, *TEXT, *SEMANTIC, *CCRS, Udcg(), *CRUX, *VERA, *RAGAS, *RAGCHECKER)
_WITH_ARGUMENT: Final[Mapping[str, tuple[str, Callable[[str], Metric]]]] = {
    "udcg": ("FILE", UdcgTheta.load),
    **{name: ("K", made) for name, made in RANKING_AT.items()},
    **TEXT_AT,
    **{name: ("MODEL", made) for name, made in {**SEMANTIC_AT, **VERA_AT}.items()},
}
"""What `name@ARGUMENT` makes: the argument in words, and the maker (which raises `ConfigurationError` or `DataError`)."""

logger = logging.getLogger("ragstone")


def all_metrics() -> tuple[Metric, ...]:
    """All metrics that can be named: ours first, then those found by entry point, by name.

    A package that cannot be loaded, or that takes a name already taken, is left out with a warning in the log.
    """
    found = {metric.card.name: metric for metric in _OURS}
    entries = importlib.metadata.entry_points(group=ENTRY_POINT_GROUP)
    for entry in sorted(entries, key=lambda entry: (entry.name, entry.value)):
        try:
            metrics = _loaded(entry)
        except Exception:  # somebody else's code, and the others' metrics still work
            logger.warning("the metrics of entry point %r cannot be loaded", entry.value, exc_info=True)
            continue
        for metric in metrics:
            if metric.card.name in found:
                logger.warning("entry point %r brings %r, which exists already", entry.value, metric.card.name)
            else:
                found[metric.card.name] = metric
    return tuple(found.values())


def _loaded(entry: importlib.metadata.EntryPoint) -> tuple[Metric, ...]:
    brought = entry.load()
    if callable(brought) and not isinstance(brought, Metric):
        brought = brought()
    metrics = (brought,) if isinstance(brought, Metric) else tuple(brought)
    for metric in metrics:
        _check(metric)
    return metrics


def _check(metric: object) -> None:
    # A class has all the attributes its objects have.
    if isinstance(metric, type) or not isinstance(metric, Metric):
        raise ConfigurationError(f"{metric!r} is not a metric: it needs a card and an async score(sample, judge)")


def resolve_metrics(specs: str | Metric | Sequence[str | Metric]) -> tuple[Metric, ...]:
    """Turn what a user writes as `metrics=` into metrics, in that order, each name once.

    Args:
        specs: Names ("ccrs.cc"), groups ("ccrs"), a name with an argument ("ndcg@10", "udcg@theta.json"), `Metric`
            objects, or one of them alone. An object takes the place of the registered metric of its name, so
            `["ccrs", AnswerCorrectness(em_weight=0)]` are five metrics.

    Raises:
        ConfigurationError: A name nobody knows (the message lists those that exist), a file that does not exist,
            something that is no metric, two different objects of one name, or nothing at all.
        MissingExtraError: A metric needs a package that is not installed.
        DataError: A file that holds something else.

    Example:
        ```python
        resolve_metrics(["ccrs"])
        ```
    """
    listed: list[object] = [specs] if isinstance(specs, str | Metric) else list(specs)
    known = all_metrics() if any(isinstance(spec, str) for spec in listed) else ()
    resolved: dict[str, Metric] = {}
    given: set[str] = set()
    for spec in listed:
        if isinstance(spec, str):
            for metric in _named(spec, known):
                resolved.setdefault(metric.card.name, metric)
            continue
        _check(spec)
        assert isinstance(spec, Metric)  # noqa: S101  `_check` saw to it
        name = spec.card.name
        if name in given and resolved[name] is not spec:
            raise ConfigurationError(
                f"two metrics are called {name!r}: {resolved[name]!r} and {spec!r}; outcomes are told apart by name"
            )
        given.add(name)
        resolved[name] = spec
    if not resolved:
        raise ConfigurationError("no metric was asked for; name at least one, for example metrics=['ccrs']")
    for metric in resolved.values():
        # Before anything is spent.
        if metric.card.extra is not None:
            check_installed(metric.card.extra, f"The metric {metric.card.name!r}")
    return tuple(resolved.values())


def _named(spec: str, known: Sequence[Metric]) -> list[Metric]:
    wanted = spec.strip().casefold()
    # First as it stands: "ndcg@10" is the name of a metric that exists.
    if metrics := [metric for metric in known if wanted in (metric.card.name, metric.card.group)]:
        return metrics
    name, at, argument = spec.strip().partition("@")
    if at and (made := _WITH_ARGUMENT.get(name.casefold())) and argument:
        return [made[1](argument)]
    if at:
        forms = ", ".join(f"{name}@{what}" for name, (what, _) in _WITH_ARGUMENT.items())
        raise ConfigurationError(f"{spec!r} is not a metric with its argument; those are {forms}")
    names = list(dict.fromkeys([m.card.group for m in known] + [m.card.name for m in known]))
    close = difflib.get_close_matches(wanted, names, n=1)
    hint = f"did you mean {close[0]!r}? " if close else ""
    groups = ", ".join(dict.fromkeys(m.card.group for m in known))
    raise ConfigurationError(
        f"there is no metric or group {spec!r}; {hint}the groups are {groups}; `ragstone metrics` lists what is in them"
    )


def bind_reader(metrics: Sequence[Metric], reader: Callable[[], Reader]) -> tuple[tuple[Metric, ...], Reader | None]:
    """Give the reader to the metrics that need one and have none.

    Args:
        metrics: From `resolve_metrics`.
        reader: Makes the reader; called only when a metric needs it.

    Returns:
        The metrics, in their order, and the reader that was made, if one was.
    """
    waiting = [metric for metric in metrics if isinstance(metric, ReaderMetric) and metric.reader is None]
    if not waiting:
        return tuple(metrics), None
    made = reader()
    return tuple(
        metric.with_reader(made) if isinstance(metric, ReaderMetric) and metric.reader is None else metric
        for metric in metrics
    ), made
