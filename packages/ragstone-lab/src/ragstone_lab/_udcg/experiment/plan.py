"""The plan of an experiment: which questions take part, and how many model calls it needs at most."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ragstone.errors import DataError
from ragstone.extension import count
from ragstone.schema import Usage
from ragstone_lab._journal import Journal
from ragstone_lab._report import plain_fields
from ragstone_lab._udcg.experiment.questions import Question, Questions, find_obstacle
from ragstone_lab._udcg.experiment.settings import PARTS, ExperimentSettings

_CHARS_PER_TOKEN: Final = 4
_READER_CHARS: Final = 400
_JUDGE_CHARS: Final = 2_000
"""Characters that the instructions add to query, passages and references."""
_ANSWER_TOKENS: Final = 100
_LABEL_TOKENS: Final = 4
_GRADE_TOKENS: Final = 10
_SHARED: Final = ("relevance labels", "labels of each judge")
"""Calls whose replies all readers share."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentPlan:
    """The plan of an experiment."""

    parts: Mapping[str, int]
    """Number of questions that can take part, by part. Without labels it is the maximum."""
    n_questions: int
    n_available: int
    n_candidates: int
    n_unlabeled: int
    """Number of candidates whose relevance the judge decides."""
    left_out: Mapping[str, int]
    calls: Mapping[str, Usage]
    """Calls and tokens at most, by kind of call."""
    n_recorded: int
    """Number of replies in the journal. Calls that an earlier run has made are not repeated."""
    seed: int

    @property
    def usage(self) -> Usage:
        """Maximum number of calls and tokens, without replies in the journal and draws."""
        return sum(self.calls.values(), Usage())

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        names = {"calls", "input_tokens", "output_tokens"}
        planned = [{"what": what, **usage.model_dump(include=names)} for what, usage in self.calls.items()]
        return plain_fields(self) | {"planned": planned, **self.usage.model_dump(include=names)}

    def __str__(self) -> str:
        lines = [
            f"{self.n_questions} of {self.n_available} questions, {self.n_candidates} candidate passages, seed {self.seed}"
        ]
        lines += [f"  {part}: {PARTS[part]}, {n} questions" for part, n in self.parts.items()]
        if self.n_unlabeled:
            lines.append(f"{self.n_unlabeled} candidates do not have a label. The judge decides about their relevance")
        lines += [f"excluded rows, {reason}: {n}" for reason, n in self.left_out.items()]
        lines.append(f"at most {count(self.usage.calls, 'call')}:")
        lines += [f"  {what}: {usage.calls}" for what, usage in self.calls.items() if usage.calls]
        if "p(abstain)" in self.calls:
            lines.append(
                "p(abstain) needs 1 or 2 requests, and up to 20 replies (reader.max_draws) without token probabilities"
            )
        if self.n_recorded:
            lines.append(f"{self.n_recorded} replies of an earlier run are recorded and are not requested again")
        return "\n".join(lines)


def check_parts(questions: Sequence[Question], settings: ExperimentSettings) -> dict[str, int]:
    """Return the number of questions that can take part in each part."""
    counts = {}
    for part in settings.parts:
        sizes = settings.k_values if part == "k" else (settings.k,)
        reasons = {k: [find_obstacle(question, part, settings, k=k) for question in questions] for k in sizes}
        for k, obstacles in reasons.items():
            if all(obstacles):
                found = ", ".join(f"{obstacles.count(reason)} have {reason}" for reason in dict.fromkeys(obstacles))
                raise DataError(
                    f"part {part}: none of {len(questions)} questions can take part with k = {k} ({found}, of the first "
                    f"{settings.top_n}). Lower k (research.k, research.k_values), raise top_n (research.top_n), or omit the part"
                )
        counts[part] = max(obstacles.count(None) for obstacles in reasons.values())
    return counts


def plan_calls(
    chosen: Collection[Questions],
    settings: ExperimentSettings,
    journal: Journal,
    *,
    n_judges: int,
    calls_per_reading: int,
    n_readers: int = 1,
) -> ExperimentPlan:
    """Plan the calls for the questions of all data sets. No model is called.

    `n_judges` judges label the first candidates again. All readers share the labels.
    """
    tally: dict[str, Usage] = {}
    questions = [question for each in chosen for question in each.chosen]
    for question in questions:
        _count(question, settings, tally, n_judges=n_judges, calls_per_reading=calls_per_reading)
    parts = [check_parts(each.chosen, settings) for each in chosen]
    return ExperimentPlan(
        parts={part: sum(counts[part] for counts in parts) for part in settings.parts},
        n_questions=len(questions),
        n_available=sum(each.n_available for each in chosen),
        n_candidates=sum(len(question.candidates) for question in questions),
        n_unlabeled=sum(question.labels.count(None) for question in questions),
        left_out=dict(sum((Counter(each.left_out) for each in chosen), Counter())),
        calls={what: usage if what in _SHARED else sum([usage] * n_readers, Usage()) for what, usage in tally.items()},
        n_recorded=len(journal.answers),
        seed=settings.seed,
    )


def _count(
    question: Question, settings: ExperimentSettings, tally: dict[str, Usage], *, n_judges: int, calls_per_reading: int
) -> None:
    """Add the calls for a question to those of its kind."""

    def add(what: str, calls: int, chars: float, output_tokens: int) -> None:
        tokens = {"input_tokens": round(calls * chars / _CHARS_PER_TOKEN), "output_tokens": calls * output_tokens}
        tally[what] = tally.get(what, Usage()) + Usage(calls=calls, **tokens)

    n = len(question.candidates)
    query = len(question.sample.query or "")
    reference = sum(map(len, question.sample.reference))
    passage = sum(len(candidate.text) for candidate in question.candidates) / max(n, 1)
    judged = _JUDGE_CHARS + query + reference + passage
    add("relevance labels", question.labels.count(None), judged, _LABEL_TOKENS)
    n_rated, answers = _needed(question, settings)
    add("p(abstain)", n_rated * calls_per_reading, _READER_CHARS + query + passage, _LABEL_TOKENS)
    for k, number in answers.items():
        add("answers", number, _READER_CHARS + query + k * passage, _ANSWER_TOKENS)
        add("grades", number, _JUDGE_CHARS + query + reference, _GRADE_TOKENS)
    if settings.erag:
        add("answers from one passage (eRAG)", n_rated, _READER_CHARS + query + passage, _ANSWER_TOKENS)
    if "answer-prob" in settings.parts and find_obstacle(question, "answer-prob", settings, k=settings.k) is None:
        n_references = sum(bool(text.strip()) for text in question.sample.reference)
        readings = min(n, settings.k * settings.n_contexts) * n_references
        add("probabilities of references", readings, _READER_CHARS + query + passage, 1)
    if "judges" in settings.parts and find_obstacle(question, "judges", settings, k=settings.k) is None:
        add("labels of each judge", settings.k * n_judges, judged, _LABEL_TOKENS)


def _needed(question: Question, settings: ExperimentSettings) -> tuple[int, Counter[int]]:
    """Return the maximum number of candidates to rate, and of answers by number of passages."""
    n, n_rated, answers = len(question.candidates), 0, Counter[int]()
    parts = [part for part in settings.parts if part != "k"]
    allowed = {part for part in parts if find_obstacle(question, part, settings, k=settings.k) is None}
    if "position" in allowed:
        answers[settings.k] += settings.k
    for k in settings.sizes:
        if find_obstacle(question, "k", settings, k=k) is None:
            n_rated += k * settings.n_contexts
            answers[k] += settings.n_contexts
    if "distractors" in allowed:
        answers[settings.distractors + 1] += 2
    if "orders" in allowed:
        answers[settings.k] += 2 + settings.erag
    return n if allowed & {"orders", "distractors"} else min(n, n_rated), answers
