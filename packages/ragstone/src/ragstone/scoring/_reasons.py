"""Reasons asked afterwards: the judge is shown its rating of an answer and explains it. Scores do not change.

Only the worst answers are explained, each by its lowest score. A score counts if a judge rated it, without a reader, on
a scale with two ends. It is compared by its position on that scale, from 0 (worst) to 1 (best). Of equal scores the
metric that comes first counts, and of equal answers the one that comes first. An answer whose scores are all best is
not explained. If the metric already explains the score (claims and their verdicts), the judge is not called.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from ragstone._util.unicode import replace_surrogates
from ragstone.errors import JudgeError
from ragstone.judges import Prompt, UsageMeter, record_usage
from ragstone.metrics import Criterion, Metric, MetricCard, question_fields
from ragstone.schema import Outcome, Sample, Score, Usage
from ragstone.scoring._scorer import Scorer

_FIELDS: Final = ("query", "contexts", "response", "reference", "sub_questions")
_MAX_TOKENS: Final = 512
"""Two sentences need fewer than 200 in most languages."""
_MAX_CHARS: Final = 1000
_CHOSEN_AT_ONCE: Final = 1000
"""Candidates in memory besides twice the wanted number."""
_DAY_S: Final = 86_400.0
MAX_CALLS_PER_REASON: Final = 5
"""Maximum judge calls of a day for each place among the worst answers, while answers arrive."""


async def explain_worst(
    scorer: Scorer, samples: Sequence[Sample], outcomes: Sequence[Outcome], n: int
) -> tuple[Outcome, ...]:
    """Return the outcomes, in which the lowest scores of the `n` worst answers have a reason.

    `outcomes` has one for each sample and metric, ordered by sample.
    """
    explained = list(outcomes)
    for at, score in (await explain_lowest_scores(scorer, samples, outcomes, n)).items():
        explained[at] = score
    return tuple(explained)


async def explain_lowest_scores(
    scorer: Scorer, samples: Iterable[Sample], outcomes: Iterable[Outcome], n: int, *, concurrency: int = 16
) -> dict[int, Score]:
    """Return the lowest scores of the `n` worst answers with a reason, by their position among the outcomes.

    The arguments are those of `explain_worst`. Samples and outcomes are read once, and not kept.
    """
    lowest: list[tuple[float, int, Score]] = []
    by_sample = itertools.groupby(enumerate(outcomes), key=lambda numbered: numbered[1].sample_id)
    for numbered in (list(group) for _, group in by_sample) if n else ():
        found = _find_lowest(scorer.metrics, [outcome for _, outcome in numbered])
        if found is not None:
            at, score = numbered[found[1]]
            assert isinstance(score, Score)  # noqa: S101  `_find_lowest` returns positions of scores only
            # Of answers with equal scores, the one that comes first counts.
            lowest.append((found[0], at, score))
            if len(lowest) > 2 * n + _CHOSEN_AT_ONCE:
                lowest = heapq.nsmallest(n, lowest, key=lambda each: each[:2])
    chosen = heapq.nsmallest(n, lowest, key=lambda each: each[:2])
    wanted = {score.sample_id for _, _, score in chosen}
    by_id = {sample.id: sample for sample in samples if sample.id in wanted} if wanted else {}
    explained: dict[int, Score] = {}
    free = asyncio.Semaphore(concurrency)

    async def explain(at: int, score: Score) -> None:
        async with free:
            explained[at] = await _explain(scorer, by_id[score.sample_id], score)

    async with asyncio.TaskGroup() as group:
        for _, at, score in chosen:
            group.create_task(explain(at, score))
    return explained


async def explain_lowest(
    scorer: Scorer, sample: Sample, outcomes: Sequence[Outcome], worst: WorstAnswers
) -> tuple[Outcome, ...]:
    """Return the outcomes of one sample, with a reason for the lowest score if it is among the worst answers so far."""
    found = _find_lowest(scorer.metrics, outcomes)
    if found is None:
        return tuple(outcomes)
    goodness, at = found
    score = outcomes[at]
    if not isinstance(score, Score) or not worst.admit(goodness, calls=score.explanation is None):
        return tuple(outcomes)
    return (*outcomes[:at], await _explain(scorer, sample, score), *outcomes[at + 1 :])


class WorstAnswers:
    """Selects answers to explain while answers arrive: each that is among the worst `n` of the last 24 hours so far.

    After up to 24 hours, the worst `n` are therefore all selected, and some that were among the worst before them: with
    scores in random order, about n * (1 + ln(N / n)) of N answers. At most 5 * n of them get judge calls in 24 hours.
    """

    def __init__(self, n: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._n = n
        self._clock = clock
        self._kept: list[tuple[float, float]] = []
        """Position on the scale and time of the worst answers."""
        self._calls: list[float] = []
        """Times of the judge calls of the last 24 hours."""

    def admit(self, goodness: float, *, calls: bool) -> bool:
        """Return whether to explain an answer, by its lowest score, 0 (worst) to 1, and whether the judge is called."""
        if not self._n:
            return False
        now = self._clock()
        self._kept = [(value, at) for value, at in self._kept if now - at < _DAY_S]
        self._calls = [at for at in self._calls if now - at < _DAY_S]
        if len(self._kept) == self._n:
            best = max(self._kept)
            if goodness >= best[0]:
                return False
            self._kept.remove(best)
        self._kept.append((goodness, now))
        if not calls:
            return True
        if len(self._calls) >= self._n * MAX_CALLS_PER_REASON:
            return False
        self._calls.append(now)
        return True


def _find_lowest(metrics: Sequence[Metric], outcomes: Sequence[Outcome]) -> tuple[float, int] | None:
    """Return the lowest position on a scale and its index among the outcomes, or None without a score to explain."""
    cards = {metric.card.name: metric.card for metric in metrics}
    found: list[tuple[float, int]] = []
    for at, outcome in enumerate(outcomes):
        card = cards[outcome.metric]
        if not isinstance(outcome, Score) or not card.asks_judge or card.reader_calls_per_passage:
            continue
        if math.isfinite(card.high - card.low):
            found.append((card.goodness(outcome.value), at))
    # A tuple compares the index second, so the first of several equal scores counts.
    lowest = min(found, default=None)
    return None if lowest is None or lowest[0] >= 1 else lowest


async def _explain(scorer: Scorer, sample: Sample, score: Score) -> Score:
    """Ask for the reason of a score. If there is none, `details["no_reason"]` says why, and the score is unchanged."""
    if score.explanation is not None:
        return score
    metric = next(metric for metric in scorer.metrics if metric.card.name == score.metric)
    explanation, details = None, dict(score.details)
    usage = Usage()
    try:
        async with scorer.limited() as meter:
            try:
                explanation = await _ask(scorer, _prompt(metric, sample, score), meter)
            finally:
                usage = meter.total
        details["explanation_source"] = "afterwards"
    except JudgeError as error:
        details["no_reason"] = replace_surrogates(f"{error.kind}: {error}")
    except TimeoutError:
        details["no_reason"] = "timeout: no reason before the deadline of a sample"
    except Exception as error:  # noqa: BLE001  an error in a third-party judge must not lose the score
        details["no_reason"] = replace_surrogates(f"bug: {type(error).__name__}: {error}")
    return score.model_copy(
        update={
            "explanation": explanation,
            "details": details,
            "usage": usage if score.usage is None else score.usage + usage,
        }
    )


async def _ask(scorer: Scorer, prompt: Prompt, meter: UsageMeter) -> str:
    reply = await scorer.judge.ask_text(prompt, max_tokens=_MAX_TOKENS)
    if not (meter.total.calls or meter.total.cached):
        # A judge that does not report to the meter sets the usage on the reply instead.
        record_usage(reply.usage)
    text = " ".join(reply.text.split())
    if not text:
        raise JudgeError("the judge returned an empty reply", kind="unparseable", raw=reply.text)
    return replace_surrogates(text if len(text) <= _MAX_CHARS else f"{text[: _MAX_CHARS - 1]}…")


def _prompt(metric: Metric, sample: Sample, score: Score) -> Prompt:
    """Show the fields that the metric needs, the metric, and the score."""
    card = metric.card
    best, worst = (card.high, card.low) if card.direction == "higher" else (card.low, card.high)
    parts = _parts(metric, score)
    return Prompt(
        construct="reason",
        task=(
            "Your assignment: explain a rating of the material.\n"
            f"Rated: {card.title}. {card.description}\n"
            + (f"Definition: {card.formula}\n" if card.formula else "")
            + f"Rating: {score.value:.3g}, where {best:.3g} is the best possible value and {worst:.3g} the worst"
            + (f" (parts: {', '.join(parts)})" if parts else "")
            + ".\n"
            "Say in one or two sentences why the material got this rating, and name the words in it that decided the rating. "
            "If nothing in the material explains the rating, say that. Do not rate it again. Write plain text, in the "
            "language of the material."
        ),
        fields=_material(card, sample),
    )


def _material(card: MetricCard, sample: Sample) -> Mapping[str, str | tuple[str, ...]]:
    fields: dict[str, str | tuple[str, ...]] = {}
    for name in _FIELDS:
        value = getattr(sample, name)
        if name not in card.needs or value is None:
            continue
        if name == "query":
            fields |= question_fields(sample)
        elif name == "contexts":
            fields[name] = tuple(passage.text for passage in value)
        else:
            fields[name] = value if isinstance(value, str) else tuple(value)
    return fields


def _parts(metric: Metric, score: Score) -> list[str]:
    """Return the numbers in the details of a score, and the label of a criterion. Other texts may be captured ones."""
    parts = [
        f"{name} {value:.3g}"
        for name, value in score.details.items()
        if isinstance(value, int | float) and name not in ("format_mass", "n_missing")
    ]
    return (
        [*parts, f"label {score.details['label']}"]
        if isinstance(metric, Criterion) and "label" in score.details
        else parts
    )
