"""The registry: lookup of metrics by name, group or object, including metrics of other packages."""

from __future__ import annotations

import difflib
import importlib.metadata
import logging
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, TypeVar

from ragstone._util.local_model import check_installed
from ragstone._util.variables import assigned
from ragstone.errors import ConfigurationError, RagstoneError
from ragstone.metrics._arguments import Argument, arguments_of, parse_values, quote, split_metrics
from ragstone.metrics._base import MetricBase
from ragstone.metrics._card import Metric, MetricCard
from ragstone.metrics._prompts import OWN_PROMPTS
from ragstone.metrics.ccrs import CCRS
from ragstone.metrics.citation import CITATION
from ragstone.metrics.composite import Composite, read_composite
from ragstone.metrics.cosine import COSINE
from ragstone.metrics.criterion import Criterion, read_criteria
from ragstone.metrics.crux import CRUX
from ragstone.metrics.ragas import RAGAS
from ragstone.metrics.ragchecker import RAGCHECKER
from ragstone.metrics.ranking import RANKING, RankingMetric
from ragstone.metrics.semantic import SEMANTIC
from ragstone.metrics.text import TEXT, ChrF
from ragstone.metrics.udcg import Udcg, UdcgTheta
from ragstone.metrics.vera import VERA

T = TypeVar("T")

ENTRY_POINT_GROUP: Final = "ragstone.metrics"
"""An entry point of this group is a `Metric`, a sequence of metrics, or a function without arguments that returns
these."""

_BUILT_IN: Final[tuple[Metric, ...]] = (
    *RANKING,
    *TEXT,
    *SEMANTIC,
    *CCRS,
    Udcg(),
    *CRUX,
    *VERA,
    *RAGAS,
    *RAGCHECKER,
    *CITATION,
    *COSINE,
)
_BY_NAME_ONLY: Final = (RankingMetric("ndcg_linear"), RankingMetric("judged_share"), ChrF(2))
"""Metrics that no group contains."""


def _load_composite(path: str | Path) -> Composite:
    return read_composite(path, resolve_metrics)


_FROM_FILES: Final[Mapping[str, Callable[..., Metric | Sequence[Metric]]]] = {
    UdcgTheta.name: UdcgTheta.load,
    Composite.name: _load_composite,
    "criterion": read_criteria,
}
"""For each `NAME@FILE`: the function that makes the metric or metrics."""

logger = logging.getLogger("ragstone")


def all_metrics() -> tuple[Metric, ...]:
    """Return all registered metrics: built-in metrics first, then those of entry points, ordered by entry point.

    If an entry point cannot be loaded, or its metric has the name of another metric, it is skipped and a warning is
    logged. Entry points are read once for each value of `sys.path`.
    """
    return _registered(tuple(sys.path))


@lru_cache(maxsize=1)
def _registered(_path: tuple[str, ...]) -> tuple[Metric, ...]:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """A metric with all its variants: a class or function, and the arguments that a text can state."""

    name: str
    make: Callable[..., Any]
    fixed: Mapping[str, Any] = field(default_factory=dict)
    """Arguments that the name contains before the @."""

    @property
    def arguments(self) -> tuple[Argument, ...]:
        """Arguments that a text can state."""
        return tuple(argument for argument in arguments_of(self.make) if argument.name not in self.fixed)

    def build(self, values: Mapping[str, Any]) -> tuple[Metric, ...]:
        """Make the metric or metrics with these arguments."""
        for argument in self.arguments:
            if argument.is_required and argument.name not in values:
                raise ConfigurationError(
                    f"{self.name!r} needs an argument: {self.name}@{argument.placeholder}. `ragstone metrics` lists "
                    "the metrics without one"
                )
        made = self.make(**self.fixed, **values)
        metrics = (made,) if isinstance(made, Metric) else tuple(made)
        if isinstance(made, Metric) and not isinstance(made, MetricBase) and made.card.name == self.name and values:
            raise ConfigurationError(
                f"the name of {self.name} does not state its arguments, so its variants cannot be distinguished. Derive "
                f"the class {type(made).__name__} from MetricBase, or put the arguments into the name of its card"
            )
        return metrics


def _families(known: Sequence[Metric]) -> dict[str, Family]:
    families = {name: Family(name=name, make=make) for name, make in _FROM_FILES.items()}
    for metric in (*_BY_NAME_ONLY, *known):
        name, fixed = _base_name(metric), {}
        if isinstance(metric, MetricBase):
            fixed = {key: metric.argument_values[key] for key in metric.unstated if key in metric.argument_values}
        families.setdefault(name.casefold(), Family(name=name, make=type(metric), fixed=fixed))
    return families


def find_family(name: str) -> Family | None:
    """Return the family of a metric by its name, with or without arguments, or None for a group or an unknown name."""
    return _families(all_metrics()).get(name.strip().partition("@")[0].casefold())


def full_name(spec: str) -> str:
    """Return the canonical name of a metric with arguments: `ccrs.ac@em_weight=0` for `CCRS.AC@.0`.

    Other texts, such as groups, stay as they are.
    """
    if "@" not in spec:
        return spec.strip()
    try:
        (metric,) = resolve_metrics(spec)
    except (RagstoneError, ValueError):
        return spec.strip()
    return metric.card.name


def is_from_file(card: MetricCard) -> bool:
    """Return whether a file defines a metric, so that its name alone does not say what it is."""
    return bool(_FROM_FILES.keys() & {card.group, card.name.partition("@")[0]})


def find_composites(specs: Iterable[str]) -> tuple[Composite, ...]:
    """Return the composites among names of metrics: those with a file."""
    named = [spec for spec in specs if spec.partition("@")[0].casefold().strip() == Composite.name and "@" in spec]
    return tuple(metric for metric in resolve_metrics(named) if isinstance(metric, Composite)) if named else ()


def with_absolute_paths(specs: str) -> str:
    """Return the same metrics for a process with another working directory: paths are absolute."""
    written: list[str] = []
    for spec in split_metrics(specs):
        name, _, text = spec.partition("@")
        if (load := _FROM_FILES.get(name.casefold())) and text:
            (path,) = parse_values(name, text, arguments_of(load)).values()
            written.append(f"{name}@{quote(str(Path(path).absolute()))}")
        else:
            written.append(spec)
    return ",".join(written)


def selects(name: str, metric: str, card: MetricCard | None) -> bool:
    """Return whether a name, a group or the beginning of a name before a dot selects a metric.

    A name without arguments does not select the variants of its metric, and a name with arguments only one of them.
    """
    if name == metric or ("@" in name and full_name(name) == metric):
        return True
    return "@" not in name and (metric.startswith(f"{name}.") or (card is not None and card.group == name))


def resolve_metrics(specs: str | Metric | Sequence[str | Metric]) -> tuple[Metric, ...]:
    """Resolve the argument `metrics=` to metrics, in that order and without duplicates.

    Args:
        specs: One or several of: names ("ccrs.cc"), groups ("ccrs"), names or groups with arguments ("ndcg@10",
            "ccrs.ac@em_weight=0", "crux@4", "udcg_theta@theta.json", "criterion@FILE.toml") and `Metric` objects. A
            text can hold several, separated by commas. An object takes the place of the registered metric of the same
            name and version. Its arguments are part of its name, so `["ccrs", AnswerCorrectness(em_weight=0)]` resolves
            to six metrics. A `Criterion` must have a name of its own.

    Raises:
        ConfigurationError: If a name is unknown (the message lists the groups), an argument is invalid, a file does not
            exist, an object is not a metric, two different metrics have the same name, or `specs` is empty.
        MissingExtraError: If a metric needs a package that is not installed.
        DataError: If the content of a file is invalid.

    Examples:
        ```python
        resolve_metrics(["ccrs"])
        ```
    """
    listed: list[object] = []
    for given in [specs] if isinstance(specs, str | Metric) else specs or ():
        if isinstance(given, str) and listed and isinstance(listed[-1], str):
            listed[-1] += f",{given}"  # a list that was split at its commas is the same list
        else:
            listed.append(given)
    known = all_metrics() if any(isinstance(spec, str) for spec in listed) else ()
    resolved: dict[str, Metric] = {}
    objects: set[str] = set()
    for spec in listed:
        if isinstance(spec, str):
            metrics = [metric for part in split_metrics(spec) for metric in _named(part, known)]
        else:
            _check(spec)
            assert isinstance(spec, Metric)  # noqa: S101  `_check` raises otherwise
            metrics = [spec]
        for metric in metrics:
            name = metric.card.name
            if isinstance(metric, Criterion):
                _check_own_name(metric)
            is_object = isinstance(metric, Criterion) or not isinstance(spec, str)
            other = resolved.get(name, metric)
            if other is not metric and ((is_object and name in objects) or other.card.version != metric.card.version):
                raise ConfigurationError(
                    f"two metrics have the name {name!r}: {other!r} and {metric!r}. Give each metric a unique name, or "
                    "score them in two runs, because outcomes are stored by name"
                )
            if is_object:
                objects.add(name)
            if is_object or name not in resolved:
                resolved[name] = metric
    if not resolved:
        raise ConfigurationError("no metrics given. Name at least one, for example metrics=['ccrs']")
    for metric in resolved.values():
        # Check packages before the first judge call.
        if metric.card.extra is not None:
            check_installed(metric.card.extra, f"The metric {metric.card.name!r}")
    return tuple(map(_with_own_prompts, resolved.values()))


def _with_own_prompts(metric: Metric) -> Metric:
    texts = OWN_PROMPTS.get()
    if not texts or not isinstance(metric, MetricBase) or metric.own_prompts:
        return metric
    stated = {task.name: texts[key] for key, task in metric.prompt_keys().items() if key in texts}
    return metric.with_prompts(stated) if stated else metric


def own_prompts(texts: Mapping[str, str]) -> AbstractContextManager[object]:
    """Replace built-in prompts of metrics that are resolved within a block. Without any, those around it apply.

    Raise ConfigurationError if a key does not name a prompt, or a placeholder is unknown or missing.
    """
    metrics = [*all_metrics(), UdcgTheta([0], [0])] if texts else []
    known = {key: task for m in metrics if isinstance(m, MetricBase) for key, task in m.prompt_keys().items()}
    for key, text in texts.items():
        if key not in known:
            near = [each for each in known if each.startswith(f"{key}.")] or difflib.get_close_matches(key, known, n=1)
            raise ConfigurationError(
                f"prompts: {key!r} is not a built-in prompt."
                + (f" Did you mean {', '.join(near)}?" if near else "")
                + " `ragstone metrics NAME` shows the prompts of a metric"
            )
        known[key].check(key, text)
    return assigned(OWN_PROMPTS, dict(texts) or OWN_PROMPTS.get())


def _check_own_name(criterion: Criterion) -> None:
    others = [metric.card for metric in all_metrics() if metric is not criterion]
    if criterion.name in {key for card in others for key in (card.name, card.group)}:
        raise ConfigurationError(
            f"{criterion!r} has the name of a registered metric or group. Choose another name, such as "
            f"'criterion.{criterion.name.rpartition('.')[2]}'"
        )


def _named(spec: str, known: Sequence[Metric]) -> Sequence[Metric]:
    key = spec.casefold()
    # Look up the whole text first: "ndcg@10" is the name of a registered metric.
    if metrics := [metric for metric in known if key in (metric.card.name, metric.card.group)]:
        return metrics
    name, at, text = spec.partition("@")
    key = name.strip().casefold()
    families = _families(known)
    if family := families.get(key):
        return family.build(parse_values(family.name, text, family.arguments) if at else {})
    members = [metric for metric in known if metric.card.group == key]
    if not members:
        names = list(dict.fromkeys([m.card.group for m in known] + [m.card.name for m in known] + [*families]))
        close = difflib.get_close_matches(key, names, n=1)
        hint = f"Did you mean {close[0]!r}? " if close else ""
        groups = ", ".join(dict.fromkeys(m.card.group for m in known))
        raise ConfigurationError(
            f"unknown metric or group {spec!r}. {hint}Groups: {groups}. `ragstone metrics` lists all metrics"
        )
    found = [families[_base_name(metric).casefold()] for metric in members]
    try:
        values = [parse_values(family.name, text, family.arguments) for family in found]
    except ConfigurationError as error:
        raise ConfigurationError(f"{spec!r}: the arguments of a group must fit each of its metrics. {error}") from None
    if len({tuple(each) for each in values}) > 1:
        raise ConfigurationError(
            f"{spec!r}: the first argument of the metrics in {key} differs. Write its key before it"
        )
    return [metric for family, each in zip(found, values, strict=True) for metric in family.build(each)]


def _base_name(metric: Metric) -> str:
    """Return the name of a metric without its arguments."""
    return metric.card.name.removesuffix(metric.suffix) if isinstance(metric, MetricBase) else metric.card.name


def bind(role: str, metrics: Sequence[Metric], make: Callable[[], T]) -> tuple[tuple[Metric, ...], T | None]:
    """Bind the "reader" or "embedder" to the metrics that lack it, and return them and the model, if it was needed."""
    unbound = {id(metric) for metric in metrics if getattr(metric, role, metric) is None}
    model = make() if unbound else None
    return tuple(getattr(m, f"with_{role}")(model) if id(m) in unbound else m for m in metrics), model
