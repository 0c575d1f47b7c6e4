"""VERA's composite: one number for a whole answer, by a cross-encoder that reads the answer and what was measured of it.

    composite = logit of CE(query, enriched answer)

The enriched answer is the response, then for each metric a sentence with what it measures, its range and its value, then the
passages. The sentences are ours.

Source: T. Ding et al., "VERA: Validation and Evaluation of Retrieval-Augmented Systems", KDD 2024 workshop on evaluation of
generative AI, section 3.2 and appendix.

What the source leaves open, or does otherwise:

- The metrics are those of its section 3.1, which need no reference: faithfulness, groundedness (there "retrieval recall"),
  retrieval precision and answer relevance. Others can be given.
- The model reads 512 tokens. In the source's own example response and passages take up most of them, and most sentences are
  cut off. Here the passages come last; where it is still too long, first the passages are cut, then the response, never the
  sentences. `details` says what was cut.
- The value is a logit, without bounds: it ranks answers to one question, or mean answers of two systems, by the same model.
  It is no share and no probability; `details` has its logistic too, which lies between 0 and 1.
- **Cross-encoders are trained to find passages, not to weigh scores in words.** How far a sentence such as "0.2" moves the
  logit is up to the model: measure it on your data (`ragstone validate-metrics`) before you decide by it.
- A metric that is not applicable leaves nothing to state, and the composite is not applicable either; one that failed
  makes it fail.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from ragstone.errors import ConfigurationError
from ragstone.judges import Judge
from ragstone.metrics._card import Metric, MetricCard, WorkedExample
from ragstone.metrics._claims import gather_or_cancel
from ragstone.metrics._local import LocalModelMetric
from ragstone.metrics.vera._judged import JUDGED
from ragstone.schema import Failure, NotApplicable, Sample, Score

if TYPE_CHECKING:
    from sentence_transformers import CrossEncoder

__all__ = ["VeraComposite", "enriched"]

_MODEL: Final = "cross-encoder/ms-marco-MiniLM-L-12-v2"
"""The source's (130 MB, English)."""
_NAMES: Final = ("vera.faithfulness", "vera.groundedness", "vera.retrieval_precision", "vera.answer_relevance")
_PARTS: Final = tuple(metric for metric in JUDGED if metric.card.name in _NAMES)
_MARGIN: Final = 8
"""Tokens kept free: where parts are joined, one or two more may come about."""


class VeraComposite(LocalModelMetric["CrossEncoder"]):
    """One score of query, response and what metrics say of it, by a cross-encoder.

    Args:
        parts: The metrics whose values are stated; None: those of the source.
        model: A cross-encoder of one label: a name on the hub, or a folder. The name of the metric tells others than the
            default apart (`vera.composite@MODEL`).
        device: Where it runs ("cpu", "cuda"); None: where sentence-transformers thinks best.

    Raises:
        ConfigurationError: No metrics to state.
    """

    name = "vera.composite"
    title = "VERA composite (logit)"
    advice = (
        "Low means that the model prefers another system's answers; it has no absolute scale. "
        'Next: Look at details["parts"].'
    )
    description = "How well does the answer, enriched by what was measured of it, fit the question, to a cross-encoder?"
    formula = "logit of the cross-encoder for (query, response + each metric's meaning and value + passages)"
    source = "VERA, section 3.2"
    group = "vera_composite"
    example = WorkedExample(
        row={
            "query": "How tall is the lighthouse of Northport?",
            "contexts": ["The lighthouse of Northport was built in 1884. It is 31 metres tall."],
            "response": "It is 31 metres tall.",
        },
        replies={
            "entailment": {"1": 1},
            "sentence_relevance": {"1": 0, "2": 1},
            "answer_questions": {"items": ["How tall is the lighthouse?"]},
            "question_equivalence": {"1": 90},
        },
        value=None,
        steps="The response is followed by four sentences that state faithfulness 1.00, groundedness 1.00, retrieval "
        "precision 0.50 and answer relevance 0.90, and by the passage. The logit of question and text is up to the model.",
    )
    low = -math.inf
    high = math.inf

    def __init__(
        self, parts: Sequence[Metric] | None = None, *, model: str = _MODEL, device: str | None = None
    ) -> None:
        super().__init__(model, device=device, argument="" if model == _MODEL else model)
        self.parts = _PARTS if parts is None else tuple(parts)
        if not self.parts:
            raise ConfigurationError("the composite needs at least one metric to state, got none")
        cards = [part.card for part in self.parts]
        self.needs = tuple(dict.fromkeys(["query", "response", *(need for card in cards for need in card.needs)]))
        self.judge_calls = sum(card.judge_calls for card in cards)
        self.judge_calls_per_passage = sum(card.judge_calls_per_passage for card in cards)
        stated = "\n".join(f"{card.version}\n{_statement(card, 0.5)}" for card in cards)
        self.version = f"1({model},{hashlib.sha256(stated.encode()).hexdigest()[:12]})"

    async def compute(self, sample: Sample, judge: Judge) -> Score | NotApplicable | Failure:
        """Score `sample` by all parts, then by the model; not applicable or failed if one of the parts is."""
        outcomes = await gather_or_cancel(*(part.score(sample, judge) for part in self.parts))
        values: dict[str, float] = {}
        for part, outcome in zip(self.parts, outcomes, strict=True):
            name = part.card.name
            if isinstance(outcome, NotApplicable):
                return self.make_not_applicable(sample, f"{name} is not applicable: {outcome.reason}", outcome.missing)
            if isinstance(outcome, Failure):
                mine = {
                    "metric": self.card.name,
                    "metric_version": self.card.version,
                    "reason": f"{name}: {outcome.reason}",
                }
                return outcome.model_copy(update={**mine, "prompt_hash": None, "details": {}})
            values[name] = outcome.value
        statements = " ".join(_statement(part.card, values[part.card.name]) for part in self.parts)
        query, response = sample.query or "", (sample.response or "").strip()
        passages = "\n".join(passage.text for passage in sample.contexts or ())
        scored = await self._local.run(lambda model: _logit(model, query, response, statements, passages))
        if isinstance(scored, str):
            return self.make_not_applicable(sample, scored)
        logit, cut = scored
        details = {"model": self.model, "parts": values, "logistic": _logistic(logit), "cut": cut}
        return self.make_score(sample, logit, method="cross_encoder", details=details)

    def _load(self) -> CrossEncoder:
        from sentence_transformers import CrossEncoder

        model = CrossEncoder(self.model, device=self.device)
        if model.num_labels != 1:
            raise ConfigurationError(
                f"the model {self.model!r} gives {model.num_labels} numbers for a pair, and a composite is one"
            )
        return model


def enriched(
    response: str, statements: str, passages: str, *, room: float, cut: Callable[[str, int], tuple[str, int]]
) -> tuple[str, list[str]] | None:
    """The response with statements and passages, in at most `room` tokens, and which of them were cut.

    Args:
        response: What was answered.
        statements: Are kept whole.
        passages: Texts that were retrieved; they are the first to be cut.
        room: Tokens there are.
        cut: Shortens a text to a number of tokens, and says how many it has then.

    Returns:
        None where not even the statements fit.
    """
    if room == math.inf:
        return f"{response}\n\n{statements}\n\n{passages}".rstrip(), []
    left = int(room) - _MARGIN - cut(statements, int(room))[1]
    if left < 1 or cut(statements, int(room))[0] != statements:
        return None
    kept, used = cut(response, left)
    shown, _ = cut(passages, max(0, left - used))
    cuts = [
        name for name, given, there in (("response", response, kept), ("passages", passages, shown)) if there != given
    ]
    return f"{kept}\n\n{statements}\n\n{shown}".rstrip(), cuts


def _statement(card: MetricCard, value: float) -> str:
    better = "more" if card.direction == "higher" else "less"
    asks = card.title.partition(" (")[0]
    return f"{asks} asks: {card.description} From {card.low:g} to {card.high:g}, {better} is better; here it is {value:.2f}."


def _logit(
    model: CrossEncoder, query: str, response: str, statements: str, passages: str
) -> tuple[float, list[str]] | str:
    """The model's score, and what was cut; or why there is none."""
    from torch.nn import Identity

    tokeniser: Any = model.tokenizer

    def cut(text: str, most: int) -> tuple[str, int]:
        ends = [
            end
            for _, end in tokeniser(text, add_special_tokens=False, return_offsets_mapping=True, verbose=False)[
                "offset_mapping"
            ]
        ]
        if len(ends) <= most:
            return text, len(ends)
        return (text[: ends[most - 1]] if most else ""), most

    limit = model.max_seq_length
    room = math.inf
    if limit is not None:
        room = limit - tokeniser.num_special_tokens_to_add(pair=True) - cut(query, limit)[1]
    answer = enriched(response, statements, passages, room=room, cut=cut)
    if answer is None:
        return f"query and statements alone are too long for the model, which reads {limit} tokens"
    text, cuts = answer
    # Without its last step, which makes a share of the logit.
    (logit,) = model.predict([(query, text)], activation_fn=Identity(), show_progress_bar=False)
    return float(logit), cuts


def _logistic(x: float) -> float:
    return 1 / (1 + math.exp(-x)) if x >= 0 else math.exp(x) / (1 + math.exp(x))
