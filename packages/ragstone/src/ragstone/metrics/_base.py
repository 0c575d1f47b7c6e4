"""`MetricBase`, which makes cards and outcomes, and `check_sample`, which checks a sample before a metric runs."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import fields
from functools import cached_property
from types import MappingProxyType
from typing import Any, ClassVar, Final, Literal, Self, get_args

from ragstone._util.local_model import OptionalDependency
from ragstone._util.unicode import replace_surrogates
from ragstone.errors import ConfigurationError, JudgeError
from ragstone.judges import Judge
from ragstone.metrics._arguments import base_name, describe_values, read_values, suffix_of
from ragstone.metrics._card import Metric, MetricCard, WorkedExample, advise
from ragstone.metrics._prompts import Task, hash_tasks, with_own_prompts
from ragstone.schema import Failure, FailureKind, NotApplicable, Sample, Score

_TEXTS: Final = ("query", "reference", "sub_questions")
"""Fields in which blank text counts as missing."""
TEXTLESS: Final = "the passages have no text, only their ids are known"

_KINDS: Final[dict[str, FailureKind]] = {kind: kind for kind in get_args(FailureKind)}


def find_missing_fields(sample: Sample, needs: Sequence[str]) -> tuple[str, ...]:
    """Return the needed fields that the sample does not have.

    A blank query, reference or sub-question counts as missing. An empty response does not: each metric defines its
    score. Contexts are present even if retrieval returned no passages.
    """

    def is_missing(name: str) -> bool:
        value = getattr(sample, name)
        if name not in _TEXTS:
            return value is None
        texts = (value,) if isinstance(value, str) else value or ()
        return not any(text.strip() for text in texts)

    return tuple(filter(is_missing, needs))


def have_no_text(sample: Sample) -> bool:
    """Return whether the sample has passages with ids but without texts, as in some trace formats."""
    passages = sample.contexts or ()
    return bool(passages) and all(not passage.text and passage.id is not None for passage in passages)


def check_sample(metric: Metric, sample: Sample) -> NotApplicable | None:
    """Return why a metric is not applicable to a sample, or None if the sample has the fields in the card's `needs`.

    `Scorer` calls this before every metric, so `Metric.score` may rely on these fields. If the part of a captured
    request that the metric needs is in doubt, the doubt is the reason.
    """
    if sample.evidence is not None:
        for part in metric.card.needs:
            if (doubt := sample.evidence.doubt_about(part)) is not None:
                return _not_applicable(metric.card, sample, f"{part} in doubt: {doubt}")
    if isinstance(metric, MetricBase):
        return metric.check_sample(sample)
    return _check_card(metric.card, sample)


def _check_card(card: MetricCard, sample: Sample) -> NotApplicable | None:
    if missing := find_missing_fields(sample, card.needs):
        reason = f"the sample has no {' and no '.join(missing)}"  # codespell:ignore (stored reason)
        return _not_applicable(card, sample, reason, missing)
    if card.reads_passages and "contexts" in card.needs and have_no_text(sample):
        return _not_applicable(card, sample, TEXTLESS)
    return None


def _not_applicable(card: MetricCard, sample: Sample, reason: str, missing: tuple[str, ...] = ()) -> NotApplicable:
    return NotApplicable(
        sample_id=sample.id, metric=card.name, metric_version=card.version, reason=reason, missing=missing
    )


def make_failure(
    card: MetricCard, sample: Sample, *, kind: str, reason: str, raw: str | None = None, **more: Any
) -> Failure:
    """Make a failure of a metric. `more` sets further fields of `Failure`."""
    return Failure(
        sample_id=sample.id,
        metric=card.name,
        metric_version=card.version,
        # A judge of another package may use other kinds.
        kind=_KINDS.get(kind, "unavailable"),
        # An error may quote any text, and files cannot store lone surrogates.
        reason=replace_surrogates(reason),
        raw=None if raw is None else replace_surrogates(raw),
        **more,
    )


class MetricBase(ABC):
    """Base class for metrics. Class attributes define the card, and methods make outcomes.

    Subclasses set `name` and `needs`, and implement `compute`, which is called only with samples that have every field
    in
    `needs`. The other attributes have defaults. A `Metric` does not have to use this class: any object with a card and
    `score` is a metric, and `Scorer` also checks its samples and values.

    Arguments of the constructor that are numbers, truth values, texts or paths can also be written in text
    (`NAME@key=value`). They are checked against their annotations, and those that differ from their default become part
    of `name` and `title` before the constructor runs.

    Examples:
        ```python
        class Brevity(MetricBase):
            name, needs = "acme.brevity", ("response",)

            async def compute(self, sample: Sample, judge: Judge) -> Score:
                return self.make_score(sample, 1 / max(1, len(sample.response.split())), method="exact")
        ```
    """

    name: str
    """Name of the metric, by which outcomes are stored."""
    needs: tuple[str, ...]
    """Fields of the sample without which the metric is not applicable."""
    title: str = ""
    """Display name. Default: the name."""
    description: str = ""
    """Default: the first line of the class's docstring."""
    group: str = ""
    """Default: the part of the name before the first dot."""
    source: str = "user-defined"
    formula: str = ""
    advice: str = ""
    _meaning: str = ""
    """What a bad value means. With `_next_step`, it is the advice of a metric that does not state one."""
    _next_step: str = ""
    low: float = 0.0
    high: float = 1.0
    neutral: float | None = None
    decided_by: tuple[str, ...] = ()
    reachable: str = ""
    follows_from: tuple[str, ...] = ()
    direction: Literal["higher", "lower"] = "higher"
    version: str = "1"
    """Version of the definition. The hash of the prompts is appended to it in the card."""
    judge_calls: int = 0
    judge_calls_per_passage: int = 0
    reader_calls_per_passage: int = 0
    embedder_calls: int = 0
    example: WorkedExample | None = None
    extra: OptionalDependency | None = None
    reads_passages: bool = True
    """Whether needed contexts must have texts. False if their ids are enough."""
    tasks: tuple[str, ...] = ()
    """Texts of all tasks that the metric gives the judge."""
    unstated: ClassVar[tuple[str, ...]] = ()
    """Arguments of the constructor that the name does not state after an @, because they do not change values
    (`device`), or because the name contains them before the @."""
    argument_values: Mapping[str, Any] = MappingProxyType({})
    """Arguments of this instance that differ from their defaults, of those that can be written in text."""
    own_prompts: Mapping[str, str] = MappingProxyType({})
    """The user's own prompts of this instance, by name of the prompt."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Check the arguments, and name the metric by them.

        Raises:
            ConfigurationError: If an argument does not follow its annotation.
        """
        if (args or kwargs) and cls.__init__ is object.__init__:
            raise TypeError(f"{cls.__name__}() does not take arguments")
        metric = super().__new__(cls)
        if args or kwargs:
            metric.argument_values = read_values(cls, args, kwargs)
            if metric.suffix:
                metric.name = f"{getattr(cls, 'name', '')}{metric.suffix}"
                metric.title = metric.extend_title(cls.title)
        return metric

    @property
    def suffix(self) -> str:
        """The arguments in the name, from its @. Empty if all have their default values."""
        return suffix_of(self.argument_values, type(self), without=self.unstated)

    def extend_title(self, title: str, *stated: str) -> str:
        """Return a title with the arguments in the name, except those that the title states."""
        words = describe_values(self.argument_values, type(self), without=(*self.unstated, *stated))
        return f"{title}, {words}" if title and words else title

    @cached_property
    def prompt_hash(self) -> str | None:
        """Hash of all task texts, or None for a metric that does not call a judge."""
        if not self.tasks:
            return None
        return hash_tasks(self.tasks)

    @property
    def prompts(self) -> tuple[Task, ...]:
        """The built-in prompts that can be replaced."""
        return tuple(task for task in self.tasks if isinstance(task, Task))

    def prompt_keys(self) -> dict[str, Task]:
        """Return the prompts that can be replaced by their keys in `[prompts]`: the metric's name, if it has only one."""
        name = base_name(self.name)
        return {name if len(self.prompts) == 1 else f"{name}.{task.name}": task for task in self.prompts}

    def with_prompts(self, texts: Mapping[str, str]) -> Self:
        """Return the same metric with other prompts, whose hash is part of its version.

        Args:
            texts: Prompts by their name (`ragstone metrics NAME` shows both). Each `{field}` in a prompt is replaced by
                the text of this field, in a tagged block.

        Raises:
            ConfigurationError: If the metric does not have a prompt of a name, or a placeholder is unknown or missing.
        """
        keys = {task.name: key for key, task in self.prompt_keys().items()}
        for name, text in texts.items():
            if name not in keys:
                raise ConfigurationError(
                    f"prompts: {self.name} does not have a prompt {name!r} that can be replaced. Its prompts: "
                    f"{', '.join(keys) or 'none'}"
                )
            self.prompt_keys()[keys[name]].check(keys[name], text)
        changed = copy.copy(self)
        changed.own_prompts = dict(texts)
        vars(changed).pop("card", None)
        hashed = (self.prompt_hash or "", *(part for pair in sorted(texts.items()) for part in pair))
        vars(changed)["prompt_hash"] = hash_tasks(hashed)
        return changed

    @cached_property
    def card(self) -> MetricCard:
        """The card of this metric."""
        stated: dict[str, Any] = {field.name: getattr(self, field.name) for field in fields(MetricCard)}
        return MetricCard(
            **stated
            | {
                "title": self.title or self.name,
                "description": self.description or (type(self).__doc__ or self.name).strip().partition("\n")[0],
                "advice": self.advice
                or (advise(self._meaning, self._next_step, self.direction) if self._meaning else ""),
                "version": self.version if self.prompt_hash is None else f"{self.version}+{self.prompt_hash}",
                "group": self.group or base_name(self.name).partition(".")[0],
            }
        )

    def __repr__(self) -> str:
        return f"<{self.name}>"

    async def score(self, sample: Sample, judge: Judge) -> Score | NotApplicable | Failure:
        """Score `sample`, or return not applicable if a needed field is missing.

        The sample is also checked if this is called without a `Scorer`, so a missing field never becomes a value.
        Only `Scorer` checks the value, adds judge, usage and time, and turns errors into a `Failure`.

        Raises:
            JudgeError: If the judge does not return a usable reply.
        """
        if self.own_prompts:
            texts = {task: self.own_prompts[task.name] for task in self.prompts if task.name in self.own_prompts}
            judge = with_own_prompts(judge, texts)
        return self.check_sample(sample) or await self.compute(sample, judge)

    def check_sample(self, sample: Sample) -> NotApplicable | None:
        """Return the reason why the metric is not applicable to a sample, or None if it is applicable.

        By default the sample must have every field in `needs`. A metric overrides this if one field can replace
        another.
        """
        return _check_card(self.card, sample)

    @abstractmethod
    async def compute(self, sample: Sample, judge: Judge) -> Score | NotApplicable | Failure:
        """Score a sample that has all needed fields.

        Raises:
            JudgeError: If the judge does not return a usable reply.
        """

    def make_score(
        self, sample: Sample, value: float, *, method: str, details: Mapping[str, Any] | None = None, **rest: Any
    ) -> Score:
        """Make a score of this metric. `rest` sets further fields of `Score`."""
        return Score(
            sample_id=sample.id,
            metric=self.card.name,
            metric_version=self.card.version,
            prompt_hash=self.prompt_hash,
            value=value,
            method=method,
            details=dict(details or {}),
            **rest,
        )

    def make_not_applicable(self, sample: Sample, reason: str, missing: tuple[str, ...] = ()) -> NotApplicable:
        """Make the outcome for a sample to which the metric does not apply."""
        return _not_applicable(self.card, sample, reason, missing)

    def make_failure(self, sample: Sample, error: JudgeError, *, reason: str, details: Mapping[str, Any]) -> Failure:
        """Make a failure that keeps partial results in `details`. Without partial results, do not catch the error."""
        more = {"prompt_hash": self.prompt_hash, "details": dict(details)}
        return make_failure(self.card, sample, kind=error.kind, reason=reason, raw=error.raw, **more)
