"""Our metrics as evaluators, in the shape that openevals and LangSmith share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from langchain_core.runnables import Runnable

from langchain_ragstone._evaluator_sample import sample_from_run
from langchain_ragstone._judge import LangChainJudge, LangChainModel
from ragstone.errors import ConfigurationError, DataError
from ragstone.judges import ChatReader, Judge, Reader
from ragstone.metrics import Metric, MetricCard
from ragstone.schema import FIELD_ALIASES, Failure, NotApplicable, Score
from ragstone.scoring import run_async
from ragstone.worker import ScoringSetup

__all__ = ["RagstoneEvaluator"]

Feedback = dict[str, Any]

_UNREADABLE: Final = "unreadable"
"""The outcome of a run that could not be read as a sample."""


class RagstoneEvaluator:
    """Metrics as an evaluator for LangSmith and openevals.

    Called with keywords, it returns `{"key", "score", "comment", "metadata"}`, or for several metrics a list of these.
    Metrics share their judge calls. `score` is None if the metric does not apply, the judge's reply is unusable, or the
    arguments cannot be read. Then `comment` has the reason. One bad row does not raise an error.

    Give it to `langsmith.evaluate`, and `evaluator.acall`, which does the same asynchronously, to `langsmith.aevaluate`.
    Contexts must be among the outputs: LangSmith shows evaluators nothing else of a run.

    Args:
        metrics: A metric's name ("ccrs.qr", "ndcg@10"), a group ("ccrs"), a `Metric`, or several of them.
        judge: A chat model of LangChain's, or what `ragstone.judges.judge_from` takes: a `Judge`, "http://host:8000/v1",
            "lexical". None reads `RAGSTONE_JUDGE`, or takes "lexical", the baseline without a model.
        reader: The application's generator, for metrics that call it ("udcg"). None takes the judge's model.
        fields: Names of sample fields to the application's (`{"contexts": "quellen"}`), if these are not known names.
        deadline_s: Seconds after which metrics without an outcome fail as "timeout".

    Raises:
        ConfigurationError: A metric, judge, reader or field that does not exist.
        MissingExtraError: A metric needs a package that is not installed.

    Example:
        ```python
        evaluator = RagstoneEvaluator("ccrs.qr", judge=chat_model)
        evaluator(inputs={"question": "Why?"}, outputs={"answer": "Because."})["score"]
        langsmith.evaluate(target, data="my data set", evaluators=[evaluator])
        ```
    """

    def __init__(
        self,
        metrics: str | Metric | Sequence[str | Metric],
        *,
        judge: str | Judge | Runnable[Any, Any] | None = None,
        reader: str | Reader | Runnable[Any, Any] | None = None,
        fields: Mapping[str, str] | None = None,
        deadline_s: float = 120.0,
    ) -> None:
        self._fields = dict(fields or {})
        if unknown := sorted(self._fields.keys() - FIELD_ALIASES.keys()):
            raise ConfigurationError(
                f"fields names {', '.join(map(repr, unknown))}; a sample has {', '.join(FIELD_ALIASES)}"
            )
        self._scorer = ScoringSetup(
            metrics,
            judge=LangChainJudge(judge) if isinstance(judge, Runnable) else judge,
            reader=ChatReader(LangChainModel(reader)) if isinstance(reader, Runnable) else reader,
            deadline_s=deadline_s,
        ).scorer
        self.__name__ = metrics if isinstance(metrics, str) else "+".join(card.name for card in self.cards)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.__name__!r})"

    @property
    def cards(self) -> tuple[MetricCard, ...]:
        """The cards of its metrics."""
        return tuple(metric.card for metric in self._scorer.metrics)

    def __call__(
        self, *, inputs: Any = None, outputs: Any = None, reference_outputs: Any = None, **given: Any
    ) -> Feedback | list[Feedback]:
        """Score one run. Works inside a running event loop too, which then waits.

        Args:
            inputs: The application's input: a text, messages, or a mapping with the question.
            outputs: Its output: a text, a message, or a mapping with the answer and the contexts.
            reference_outputs: The reference: a text, or a mapping with an answer, `qrels`, `sub_questions`, `ratings`.
            given: Fields of the sample by any known name (`context=documents`). They take precedence.
        """
        return run_async(self.acall(inputs=inputs, outputs=outputs, reference_outputs=reference_outputs, **given))

    async def acall(
        self, *, inputs: Any = None, outputs: Any = None, reference_outputs: Any = None, **given: Any
    ) -> Feedback | list[Feedback]:
        """Score one run; the same as calling the evaluator, asynchronously."""
        try:
            sample = sample_from_run(
                inputs=inputs, outputs=outputs, reference_outputs=reference_outputs, given=given, fields=self._fields
            )
        except DataError as error:
            feedback = [self._unreadable(metric, error) for metric in self._scorer.metrics]
        else:
            outcomes = await self._scorer.score(sample)
            feedback = [self._feedback(*pair) for pair in zip(self._scorer.metrics, outcomes, strict=True)]
        return feedback[0] if len(feedback) == 1 else feedback

    def _feedback(self, metric: Metric, outcome: Score | NotApplicable | Failure) -> Feedback:
        scored = outcome if isinstance(outcome, Score) else None
        if isinstance(outcome, Score):
            comment, reason = outcome.explanation, None
        elif isinstance(outcome, Failure):
            comment, reason = f"failed ({outcome.kind}): {outcome.reason}", outcome.reason
        else:
            comment, reason = f"not applicable: {outcome.reason}", outcome.reason
        identity = self._scorer.judged_by(metric)
        return {
            "key": metric.card.name,
            "score": scored.value if scored else None,
            "comment": comment,
            # LangSmith accepts only these four keys, and any value under the last one.
            "metadata": {
                "outcome": outcome.outcome,
                "reason": reason,
                "kind": outcome.kind if isinstance(outcome, Failure) else None,
                "method": scored.method if scored else None,
                "n": scored.n if scored else None,
                "interval": scored.interval.model_dump() if scored and scored.interval else None,
                "direction": metric.card.direction,
                "metric_version": outcome.metric_version,
                "prompt_hash": outcome.prompt_hash,
                "judge": outcome.judge,
                "judge_hash": outcome.judge_hash or None,
                "is_baseline": identity.is_baseline if identity else False,
                "usage": outcome.usage.model_dump(exclude={"schema_version"}) if outcome.usage else None,
            },
        }

    def _unreadable(self, metric: Metric, error: DataError) -> Feedback:
        return {
            "key": metric.card.name,
            "score": None,
            "comment": f"cannot be read: {error}",
            "metadata": {"outcome": _UNREADABLE, "reason": str(error), "metric_version": metric.card.version},
        }
