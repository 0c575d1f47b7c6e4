"""Ragstone's metrics as evaluators of LlamaIndex: one class, created by a metric's name."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from llama_index.core.base.llms.base import BaseLLM
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.bridge.pydantic import BaseModel
from llama_index.core.evaluation import BaseEvaluator, EvaluationResult
from llama_index.core.prompts.mixin import PromptDictType
from llama_index.core.schema import BaseNode, NodeWithScore

from llama_index.evaluation.ragstone._judge import LlamaIndexJudge, LlamaIndexModel
from ragstone.errors import ConfigurationError, DataError
from ragstone.judges import ChatReader, Embedder, Judge, Reader
from ragstone.metrics import Metric, MetricCard, resolve_metrics
from ragstone.reading import sample_from_row
from ragstone.schema import Failure, NotApplicable, Sample, Score
from ragstone.scoring import run_async
from ragstone.worker import ScoringSetup

_SUB_ANSWER: Final = re.compile(r"(?s)Sub question: .*\nResponse: |\nQuestion: .*\nAnswer: ")
"""How the texts begin that `SubQuestionQueryEngine` and `MultiStepQueryEngine` make from the model's answers."""


class RagstoneEvaluationResult(EvaluationResult):
    """An `EvaluationResult` with the outcome behind its score."""

    outcome: Score | NotApplicable | Failure | None = None
    """With interval, number of replies, judge and usage. None if the sample could not be read."""


class RagstoneEvaluator(BaseEvaluator):
    """A metric as an evaluator of LlamaIndex.

    It never raises: if the metric does not apply, the judge does not give a usable reply, or the arguments cannot be
    read, the result does not have a score, but `invalid_result=True` and the reason. One failing judge does not end a
    `BatchEvalRunner`.

    Args:
        metric: A metric's name ("ccrs.qr", "exact_match", "udcg"), or a `Metric`. For groups see `for_metrics`.
        judge: A model of LlamaIndex, or a value that `ragstone.judges.judge_from` accepts: a `Judge`,
            "http://host:8000/v1", "lexical" (the baseline without a model). None means `RAGSTONE_JUDGE`.
        reader: The application's generator, for metrics that call it ("udcg"). None means the judge's model.
        embedder: The embedding model, for metrics that need it ("cosine"): a value that `ragstone.judges.embedder_from`
            accepts. None means `RAGSTONE_EMBEDDER`.
        threshold: The lowest score that passes, or the highest if a lower score is better. None leaves `passing` unset.
        deadline_s: Seconds after which the metric fails as "timeout". Default: 120 after the last call.
        reasons: Number of the worst responses for which the judge explains its score, in `feedback`: those that are
            among the worst so far when they are scored. Scores do not change.

    Raises:
        ConfigurationError: If a metric, judge, reader or embedder does not exist or is not named, for a group of
            metrics, or if reasons are requested from "lexical".
        MissingExtraError: If the metric needs a package that is not installed.

    Examples:
        ```python
        evaluator = RagstoneEvaluator("ccrs.qr", judge=llm, threshold=0.7)
        evaluator.evaluate_response(query="Why?", response=query_engine.query("Why?")).score
        ```
    """

    def __init__(
        self,
        metric: str | Metric,
        *,
        judge: str | Judge | BaseLLM | None = None,
        reader: str | Reader | BaseLLM | None = None,
        embedder: str | Embedder | None = None,
        threshold: float | None = None,
        deadline_s: float | None = None,
        reasons: int = 0,
    ) -> None:
        found = resolve_metrics(metric)
        if len(found) > 1:
            names = ", ".join(each.card.name for each in found)
            raise ConfigurationError(
                f"{metric!r} are {len(found)} metrics ({names}), and a result has one score; use for_metrics({metric!r})"
            )
        self._setup = _setup(
            found, judge=judge, reader=reader, embedder=embedder, deadline_s=deadline_s, reasons=reasons
        )
        (self._metric,) = self._setup.metrics
        self._threshold = threshold

    @classmethod
    def for_metrics(
        cls,
        metrics: str | Metric | Sequence[str | Metric],
        *,
        judge: str | Judge | BaseLLM | None = None,
        reader: str | Reader | BaseLLM | None = None,
        embedder: str | Embedder | None = None,
        thresholds: Mapping[str, float] | None = None,
        deadline_s: float | None = None,
        reasons: int = 0,
    ) -> dict[str, RagstoneEvaluator]:
        """Create one evaluator for each metric, by name, with one judge: the argument of `BatchEvalRunner`.

        Args:
            metrics: Names, groups ("ccrs"), `Metric`s.
            judge: As for one evaluator.
            reader: As for one evaluator.
            embedder: As for one evaluator.
            thresholds: The threshold of each metric, by its name.
            deadline_s: As for one evaluator.
            reasons: As for one evaluator, for each of them.

        Raises:
            ConfigurationError: If a metric, judge, reader or embedder does not exist, or for a threshold of another
                metric.

        Examples:
            ```python
            runner = BatchEvalRunner(RagstoneEvaluator.for_metrics(["ccrs", "exact_match"], judge=llm), workers=8)
            ```
        """
        found = resolve_metrics(metrics)
        passing = dict(thresholds or {})
        if unknown := sorted(passing.keys() - {metric.card.name for metric in found}):
            raise ConfigurationError(
                f"thresholds names {', '.join(map(repr, unknown))}; the metrics are {[m.card.name for m in found]}"
            )
        setup = _setup(found, judge=judge, reader=reader, embedder=embedder, deadline_s=deadline_s, reasons=reasons)
        return {
            metric.card.name: cls(
                metric,
                judge=setup.judge,
                threshold=passing.get(metric.card.name),
                deadline_s=deadline_s,
                reasons=reasons,
            )
            for metric in setup.metrics
        }

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.card.name!r})"

    @property
    def card(self) -> MetricCard:
        """The description of its metric."""
        return self._metric.card

    def _get_prompts(self) -> PromptDictType:
        """Return no prompts: the wording of a metric cannot be changed, because it is part of its identity."""
        return {}

    def _update_prompts(self, prompts: PromptDictType) -> None:
        """Refuse other wordings. Raise ConfigurationError if there is a prompt."""
        if prompts:
            raise ConfigurationError(
                f"{self.card.name} does not have a prompt {min(prompts)!r} that can be changed: the wording is part of "
                "the metric's version. Define a metric of your own for another wording"
            )

    async def aevaluate(
        self,
        query: str | None = None,
        response: str | None = None,
        contexts: Sequence[Any] | None = None,
        reference: str | Sequence[str] | None = None,
        sub_questions: Sequence[str] | None = None,
        qrels: Mapping[str, float] | None = None,
        ratings: Mapping[str, Mapping[str, float]] | None = None,
        **kwargs: Any,  # noqa: ARG002  arguments of other evaluators of a batch
    ) -> RagstoneEvaluationResult:
        """Score one response.

        Args:
            query: The question.
            response: The answer.
            contexts: The contexts in prompt order: texts, or nodes, whose ids `qrels` may contain.
            reference: A correct answer, or several.
            sub_questions: The questions that a complete answer covers.
            qrels: Relevance by node id over the whole collection, for ranking metrics.
            ratings: Grades of nodes as answers to sub-questions, by sub-question and node id.
            **kwargs: Ignored.
        """
        found = list(contexts) if isinstance(contexts, list | tuple) else contexts
        given: dict[str, Any] = {
            "query": _plain(query),
            "response": _plain(response),
            "contexts": [text for each in found if (text := _plain(each)) is not None]
            if isinstance(found, list)
            else None,
        }
        row = {
            "query": query,
            "response": response,
            "contexts": [_passage(each) for each in found] if isinstance(found, list) else found,
            "reference": reference,
            "sub_questions": sub_questions,
            "qrels": qrels,
            "ratings": ratings,
        }
        try:
            sample: Sample = sample_from_row(row, position=1)
        except DataError as error:
            return RagstoneEvaluationResult(**given, invalid_result=True, invalid_reason=f"cannot be read: {error}")
        (outcome,) = await self._setup.score(sample)
        if isinstance(outcome, Score):
            return RagstoneEvaluationResult(
                **given,
                outcome=outcome,
                score=outcome.value,
                feedback=outcome.explanation,
                passing=self._passes(outcome.value),
            )
        what = f"failed ({outcome.kind})" if isinstance(outcome, Failure) else "not applicable"
        return RagstoneEvaluationResult(
            **given, outcome=outcome, invalid_result=True, invalid_reason=f"{what}: {outcome.reason}"
        )

    def evaluate(
        self,
        query: str | None = None,
        response: str | None = None,
        contexts: Sequence[Any] | None = None,
        **kwargs: Any,
    ) -> RagstoneEvaluationResult:
        """Score one response, like `aevaluate`, and wait for it. Works inside a running event loop too."""
        return run_async(self.aevaluate(query, response, contexts, **kwargs))

    async def aevaluate_response(
        self, query: str | None = None, response: Any = None, **kwargs: Any
    ) -> RagstoneEvaluationResult:
        """Score a response with its source nodes, whose ids and scores are kept. Without any, the contexts are unknown.

        Nodes that an engine made from answers to sub-questions are left out. A streaming response is not read: it does
        not have a text before the application has read it.
        """
        if response is None:
            return await self.aevaluate(query=query, **kwargs)
        said = getattr(response, "response", getattr(response, "response_txt", None))
        said = said.content if isinstance(said, ChatMessage) else said  # of an agent
        text = said.model_dump_json() if isinstance(said, BaseModel) else said
        # Responses that name no sources have an empty list as well.
        contexts = getattr(response, "source_nodes", None) or None
        if isinstance(contexts, list | tuple):
            contexts = [each for each in contexts if not _is_made(each)] or None
        return await self.aevaluate(query=query, response=text, contexts=contexts, **kwargs)

    def evaluate_response(
        self, query: str | None = None, response: Any = None, **kwargs: Any
    ) -> RagstoneEvaluationResult:
        """Score a response, like `aevaluate_response`, and wait for it."""
        return run_async(self.aevaluate_response(query, response, **kwargs))

    def _passes(self, value: float) -> bool | None:
        if self._threshold is None:
            return None
        return value >= self._threshold if self.card.direction == "higher" else value <= self._threshold


def _setup(
    metrics: Sequence[Metric],
    *,
    judge: str | Judge | BaseLLM | None,
    reader: str | Reader | BaseLLM | None,
    embedder: str | Embedder | None,
    deadline_s: float | None,
    reasons: int,
) -> ScoringSetup:
    return ScoringSetup(
        metrics,
        judge=LlamaIndexJudge(judge) if isinstance(judge, BaseLLM) else judge,
        reader=ChatReader(LlamaIndexModel(reader)) if isinstance(reader, BaseLLM) else reader,
        embedder=embedder,
        limits={"deadline_s": deadline_s},
        reasons=reasons,
    )


def _node(context: object) -> BaseNode | None:
    node = context.node if isinstance(context, NodeWithScore) else context
    return node if isinstance(node, BaseNode) else None


def _is_made(context: object) -> bool:
    """Whether an engine made a node from its answer to a sub-question."""
    node = _node(context)
    is_found = node is None or node.metadata or node.relationships or getattr(context, "score", None) is not None
    return not is_found and _SUB_ANSWER.match(_plain(context) or "") is not None


def _plain(value: object) -> str | None:
    """Return a text for the result, which accepts neither other values nor lone surrogates."""
    node = _node(value)
    text = value if node is None else node.get_content()
    return text.encode(errors="replace").decode() if isinstance(text, str) else None


def _passage(context: object) -> object:
    """Return a node as the plain values of a dataset, and any other value as it is."""
    node = _node(context)
    if node is None:
        return context
    score = context.score if isinstance(context, NodeWithScore) else None
    return {"text": node.get_content(), "id": node.node_id, "score": score}
