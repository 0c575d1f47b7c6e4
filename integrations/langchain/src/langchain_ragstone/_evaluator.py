"""Our metrics as evaluators, in the shape that openevals and LangSmith share."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.runnables import Runnable

from langchain_ragstone._evaluator_sample import sample_from_run
from langchain_ragstone._judge import LangChainJudge, LangChainModel
from ragstone.errors import ConfigurationError, DataError
from ragstone.judges import ChatReader, Embedder, Judge, Reader
from ragstone.metrics import Metric, MetricCard
from ragstone.reading import FIELD_ALIASES
from ragstone.schema import Failure, NotApplicable, Score
from ragstone.scoring import run_async
from ragstone.worker import ScoringSetup

_logger = logging.getLogger("ragstone.langchain")

Feedback = dict[str, Any]


class RagstoneEvaluator:
    """Metrics as an evaluator for LangSmith and openevals.

    Called with keywords, it returns `{"key", "score", "comment", "metadata"}`; for several metrics, a list of them,
    which share their judge calls. `score` is None if the metric does not apply, if the judge did not give a usable
    reply, or if the row cannot be read; `comment` then gives the reason. One bad row does not raise.

    Pass it to `langsmith.evaluate`, and `evaluator.acall`, which does the same asynchronously, to
    `langsmith.aevaluate`.

    Contexts must be among the outputs, because LangSmith shows evaluators nothing else of a run: documents under a
    known name, or the messages of an agent. Its contexts are documents that tools returned in the last turn, as the
    artifact of their messages or as JSON. They are unknown if another tool returned a text that may be a passage.

    Args:
        metrics: A metric's name ("ccrs.qr", "ndcg@10"), a group ("ccrs"), a `Metric`, or several of them.
        judge: A chat model of LangChain's, or any argument of `ragstone.judges.judge_from`: a `Judge`,
            "http://host:8000/v1", "lexical" (the baseline without a model). None reads `RAGSTONE_JUDGE`.
        reader: The application's generator, for metrics that ask it ("udcg"). None is the judge's model.
        embedder: The embedding model, for metrics that need it ("cosine"): any argument of
            `ragstone.judges.embedder_from`. None reads `RAGSTONE_EMBEDDER`.
        fields: Our field name to the application's (`{"contexts": "quellen"}`), if the known names do not fit.
        deadline_s: Seconds after which metrics without an outcome fail as "timeout". Default: 120 after the last call.
        reasons: Number of the worst rows for which the judge explains its lowest score, in `comment`: those that are
            among the worst so far when they are scored. Scores do not change.

    Raises:
        ConfigurationError: If a metric, judge, reader, embedder or field does not exist, a needed model is not named,
            or reasons are requested from "lexical".
        MissingExtraError: If a metric needs a package that is not installed.

    Examples:
        ```python
        evaluator = RagstoneEvaluator("ccrs.qr", judge=chat_model)
        evaluator(inputs={"question": "Why?"}, outputs={"answer": "Because."})["score"]
        langsmith.evaluate(target, data="dataset", evaluators=[evaluator])
        ```
    """

    def __init__(
        self,
        metrics: str | Metric | Sequence[str | Metric],
        *,
        judge: str | Judge | Runnable[Any, Any] | None = None,
        reader: str | Reader | Runnable[Any, Any] | None = None,
        embedder: str | Embedder | None = None,
        fields: Mapping[str, str] | None = None,
        deadline_s: float | None = None,
        reasons: int = 0,
    ) -> None:
        self._fields = dict(fields or {})
        if unknown := sorted(self._fields.keys() - FIELD_ALIASES.keys()):
            raise ConfigurationError(
                f"fields names {', '.join(map(repr, unknown))}; a sample has {', '.join(FIELD_ALIASES)}"
            )
        self._setup = ScoringSetup(
            metrics,
            judge=LangChainJudge(judge) if isinstance(judge, Runnable) else judge,
            reader=ChatReader(LangChainModel(reader)) if isinstance(reader, Runnable) else reader,
            embedder=embedder,
            limits={"deadline_s": deadline_s},
            reasons=reasons,
        )
        self._scorer = self._setup.scorer
        self.__name__ = metrics if isinstance(metrics, str) else "+".join(card.name for card in self.cards)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.__name__!r})"

    @property
    def cards(self) -> tuple[MetricCard, ...]:
        """The definitions of its metrics."""
        return tuple(metric.card for metric in self._scorer.metrics)

    def __call__(
        self, *, inputs: Any = None, outputs: Any = None, reference_outputs: Any = None, **given: Any
    ) -> Feedback | list[Feedback]:
        """Score one run. Inside a running event loop it blocks the loop.

        Args:
            inputs: What the application was asked: a text, messages, or a mapping with the question.
            outputs: What it replied: a text, a message, the messages of an agent, or a mapping with the answer and the
                contexts.
            reference_outputs: The correct answer: a text, or a mapping with an answer, `qrels`, `sub_questions`,
                `ratings`.
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
            outcomes = await self._setup.score(sample)
        except DataError as error:
            found = self._unscored(f"cannot be read: {error}", outcome="unreadable", reason=str(error))
        except Exception as error:
            # LangSmith would report an evaluator that raises under the name of this method, which is not a metric.
            _logger.exception("evaluator: scoring failed (metrics=%s)", self.__name__)
            reason = f"{type(error).__name__}: {error}"
            found = self._unscored(f"failed (bug): {reason}", outcome="failure", reason=reason, kind="bug")
        else:
            found = [self._feedback(*pair) for pair in zip(self._scorer.metrics, outcomes, strict=True)]
        return found[0] if len(found) == 1 else found

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
                "usage": outcome.usage.model_dump() if outcome.usage else None,
            },
        }

    def _unscored(self, comment: str, **about: str) -> list[Feedback]:
        return [
            {"key": card.name, "score": None, "comment": comment, "metadata": {**about, "metric_version": card.version}}
            for card in self.cards
        ]
