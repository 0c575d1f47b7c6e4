"""Questions with a ranked list of candidates, from rows or from a retriever, and contexts drawn from it with a seed."""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import math
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from ragstone.errors import ApplicationError, ConfigurationError, DataError
from ragstone.reading import SampleSource, read_samples
from ragstone.requests import read_hits
from ragstone.schema import Passage, Sample
from ragstone_lab._journal import Journal, key_of
from ragstone_lab._udcg.experiment.settings import ExperimentSettings

Retriever = Callable[[str], Any]
"""Function of the question that returns a ranked list of passages, or awaits one: texts, mappings with `text`, or the
documents of a framework."""
_RETRIEVALS: Final = 8
"""Maximum number of concurrent calls of the retriever."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question and its candidates."""

    sample: Sample
    """Query and references."""
    candidates: tuple[Passage, ...]
    """The first passages of the ranked list, without repeated texts."""
    labels: tuple[bool | None, ...]
    """Whether each candidate is relevant. None is a missing label."""

    @property
    def id(self) -> str:
        """Id of the sample."""
        return self.sample.id

    @property
    def relevant(self) -> tuple[int, ...]:
        """Places of the relevant candidates."""
        return tuple(i for i, label in enumerate(self.labels) if label)

    @property
    def irrelevant(self) -> tuple[int, ...]:
        """Places of the irrelevant candidates."""
        return tuple(i for i, label in enumerate(self.labels) if label is False)

    @property
    def is_labeled(self) -> bool:
        """Whether each candidate has a label."""
        return None not in self.labels

    def passages(self, places: Sequence[int]) -> tuple[Passage, ...]:
        """Return candidates by place."""
        return tuple(self.candidates[place] for place in places)

    def with_labels(self, labels: Sequence[bool], *, relevant_grade: float) -> Question:
        """Return the question with these labels. Candidates without a grade get `relevant_grade` or 0."""
        candidates = tuple(
            passage
            if passage.relevance is not None
            else passage.model_copy(update={"relevance": relevant_grade if label else 0.0})
            for passage, label in zip(self.candidates, labels, strict=True)
        )
        return replace(self, candidates=candidates, labels=tuple(labels))


@dataclass(frozen=True, slots=True, kw_only=True)
class Questions:
    """The questions of an experiment, and counts of the others."""

    chosen: tuple[Question, ...]
    n_available: int
    left_out: Mapping[str, int]
    """Number of rows that are not questions, by reason."""


async def choose_questions(
    data: SampleSource, settings: ExperimentSettings, retriever: Retriever | None, journal: Journal
) -> Questions:
    """Read at most `max_questions` questions with candidates and labels, chosen at random, and count the other rows.

    A larger maximum keeps the questions of a smaller one.
    """
    samples, _ = read_samples(data)
    left_out: Counter[str] = Counter()
    usable = []
    for sample in samples:
        if not (sample.query and sample.query.strip()):
            left_out["no query"] += 1
        elif not any(reference.strip() for reference in sample.reference):
            left_out["no reference"] += 1
        elif retriever is None and not sample.contexts:
            left_out["no passages"] += 1
        else:
            usable.append(sample)
    if not usable:
        reasons = ", ".join(f"{reason}: {n}" for reason, n in left_out.items()) or "the data is empty"
        raise DataError(
            f"none of {len(samples)} rows is a question of the experiment ({reasons}). Each row needs `query`, "
            "`reference` and `contexts` (the ranked list of candidate passages, or a retriever)"
        )
    chosen = usable
    if len(usable) > settings.max_questions:
        by_hash = sorted(usable, key=lambda sample: hashlib.sha256(f"{settings.seed}/{sample.id}".encode()).digest())
        chosen = by_hash[: settings.max_questions]
    if retriever is not None:
        chosen = await _retrieve_candidates(chosen, retriever, journal, top_n=settings.top_n)
    _check_grades(chosen, settings)
    questions = tuple(_question(sample, settings) for sample in chosen)
    check_relevance(questions)
    return Questions(chosen=questions, n_available=len(usable), left_out=dict(left_out))


def check_relevance(questions: Sequence[Question]) -> None:
    """Check that not all candidates are irrelevant."""
    if all(question.is_labeled and not question.relevant for question in questions):
        n = sum(len(question.candidates) for question in questions)
        raise DataError(
            f"none of {n} candidate passages of {len(questions)} questions is relevant, so no answer can be correct. "
            "Check `relevance` of the passages, raise top_n (research.top_n), or set a lower threshold"
        )


def _check_grades(samples: Sequence[Sample], settings: ExperimentSettings) -> None:
    if settings.threshold is not None:
        return
    grades = {_grade_of(sample, passage) for sample in samples for passage in (sample.contexts or ())[: settings.top_n]}
    others = sorted(grade for grade in grades if grade is not None and grade not in (0, 1))
    if others:
        shown = ", ".join(f"{grade:g}" for grade in others[:5])
        raise DataError(
            f"the relevance of passages is {shown}, but the experiment needs labels 0 and 1. Set the smallest grade "
            "that means relevant (threshold=1, --set research.threshold=1)"
        )


def _grade_of(sample: Sample, passage: Passage) -> float | None:
    if passage.relevance is None and sample.qrels is not None:
        return sample.qrels.get(passage.id or "", 0.0)
    return passage.relevance


def _question(sample: Sample, settings: ExperimentSettings) -> Question:
    by_text: dict[str, Passage] = {}
    for passage in sample.contexts or ():
        if passage.text.strip() and passage.text not in by_text:
            by_text[passage.text] = passage.model_copy(update={"relevance": _grade_of(sample, passage)})
    candidates = tuple(by_text.values())[: settings.top_n]
    return Question(
        sample=sample.model_copy(update={"contexts": None, "response": None}),
        candidates=candidates,
        labels=tuple(None if p.relevance is None else p.relevance >= settings.relevant_grade for p in candidates),
    )


async def _retrieve_candidates(
    samples: Sequence[Sample], retriever: Retriever, journal: Journal, *, top_n: int
) -> list[Sample]:
    """Give each sample the passages that the retriever finds. The journal keeps them for later runs."""
    name = f"{getattr(retriever, '__module__', '')}:{getattr(retriever, '__qualname__', type(retriever).__name__)}"
    slots = asyncio.Semaphore(_RETRIEVALS)

    async def one(sample: Sample) -> Sample:
        query = sample.query or ""
        key = key_of("candidates", name, top_n, query)
        if key in journal.answers:
            found = [Passage.model_validate(passage) for passage in journal.answers[key]]
        else:
            async with slots:
                found = _passages(await _called(retriever, name, query), name)[:top_n]
            journal.append(key, [passage.model_dump(mode="json") for passage in found])
        return sample.model_copy(update={"contexts": tuple(found)})

    return list(await asyncio.gather(*map(one, samples)))


async def _called(retriever: Retriever, name: str, query: str) -> Any:
    try:
        found = await asyncio.to_thread(retriever, query)
        return await found if inspect.isawaitable(found) else found
    except Exception as error:
        raise ApplicationError(f"the retriever {name} raised {type(error).__name__}: {error}") from error


def _passages(found: Any, name: str) -> list[Passage]:
    try:
        lists = read_hits(found).lists
    except ConfigurationError as error:
        raise ConfigurationError(f"the retriever {name} must return a ranked list of passages: {error}") from error
    return [
        Passage(
            text=hit.text, id=hit.id, score=hit.score, relevance=hit.metadata.get("relevance"), metadata=hit.metadata
        )
        for hits in lists[:1]
        for hit in hits
    ]


Places = tuple[int, ...]
"""Candidates of one context in prompt order, by their place in the ranked list."""
_ATTEMPTS: Final = 50
"""Attempts to draw a context that differs from the others of its question."""


def find_obstacle(question: Question, part: str, settings: ExperimentSettings, *, k: int) -> str | None:
    """Return why a question cannot take part in a part of the experiment, or None.

    Candidates without a label may have any.
    """
    n = len(question.candidates)
    if part in ("orders", "judges"):
        return None if n >= k else f"fewer than {k} candidates"
    n_unknown = question.labels.count(None)
    if not question.relevant and not n_unknown:
        return "no relevant candidate"
    needed = {"position": k - 1, "distractors": settings.distractors}.get(part, k)
    # At least one of the candidates without a label must be the relevant one.
    if len(question.irrelevant) + n_unknown - (not question.relevant) < needed:
        return f"fewer than {needed} irrelevant candidates"
    return None


def sampled_contexts(question: Question, *, k: int, n: int, seed: int) -> list[Places]:
    """Draw `n` contexts of `k` candidates: half with a relevant one, the others without.

    The contexts with a relevant one are uniform among those. Contexts differ as long as there are enough.
    """
    rng = random.Random(f"{seed}/contexts/{k}/{question.id}")  # noqa: S311  not for cryptography
    with_relevant = [True] * ((n + 1) // 2) + [False] * (n // 2)
    contexts: list[Places] = []
    for has_relevant in with_relevant:
        for _ in range(_ATTEMPTS):
            places = _draw(question, k, rng, has_relevant=has_relevant)
            if places not in contexts:
                break
        contexts.append(places)
    return contexts


def _draw(question: Question, k: int, rng: random.Random, *, has_relevant: bool) -> Places:
    n_relevant = 0
    if has_relevant:
        counts = range(max(1, k - len(question.irrelevant)), min(k, len(question.relevant)) + 1)
        ways = [math.comb(len(question.relevant), m) * math.comb(len(question.irrelevant), k - m) for m in counts]
        (n_relevant,) = rng.choices(counts, ways)
    places = rng.sample(question.relevant, n_relevant) + rng.sample(question.irrelevant, k - n_relevant)
    rng.shuffle(places)
    return tuple(places)


def position_contexts(question: Question, *, k: int, seed: int) -> list[Places]:
    """Return one context for each position of the first relevant candidate among the same irrelevant ones."""
    rng = random.Random(f"{seed}/position/{question.id}")  # noqa: S311  not for cryptography
    others = rng.sample(question.irrelevant, k - 1)
    return [(*others[:at], question.relevant[0], *others[at:]) for at in range(k)]


def distractor_contexts(
    question: Question, effects: Sequence[float], settings: ExperimentSettings
) -> tuple[Places, Places] | None:
    """Return the first relevant candidate among weak and among hard distractors, at the same position.

    None if there are too few distractors of a kind.
    """
    rng = random.Random(f"{settings.seed}/distractors/{question.id}")  # noqa: S311  not for cryptography
    weak = [place for place in question.irrelevant if effects[place] < settings.weak_below]
    hard = [place for place in question.irrelevant if effects[place] > settings.hard_above]
    n = settings.distractors
    if min(len(weak), len(hard)) < n:
        return None
    at = rng.randint(0, n)
    first, second = rng.sample(weak, n), rng.sample(hard, n)
    relevant = question.relevant[0]
    return (*first[:at], relevant, *first[at:]), (*second[:at], relevant, *second[at:])
