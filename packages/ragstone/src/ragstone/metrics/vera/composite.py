"""VERA's composite: one number for a response, from a cross-encoder that reads the response and its metric values.

    composite = logit of CE(query, enriched answer)

The enriched answer contains the response, a sentence for each metric with its meaning, range and value, and the
passages. The sentences are our own.

Source: T. Ding et al., "VERA: Validation and Evaluation of Retrieval-Augmented Systems", KDD 2024 workshop on
    evaluation of
generative AI, section 3.2 and appendix.

`docs/reference/metrics.md` states the cases that the source does not define.
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
from ragstone.metrics._udcg_base import sigmoid
from ragstone.metrics.vera._judged import JUDGED
from ragstone.schema import Failure, NotApplicable, Sample, Score

if TYPE_CHECKING:
    from sentence_transformers import CrossEncoder

_MODEL: Final = "cross-encoder/ms-marco-MiniLM-L-12-v2"
"""The model of the source (130 MB, English)."""
_NAMES: Final = ("vera.faithfulness", "vera.groundedness", "vera.retrieval_precision", "vera.answer_relevance")
_PARTS: Final = tuple(metric for metric in JUDGED if metric.card.name in _NAMES)
_MARGIN: Final = 8
"""Reserve in tokens. Joining the parts may add one or two tokens."""


class VeraComposite(LocalModelMetric["CrossEncoder"]):
    """Cross-encoder score of query, response and the values of other metrics.

    Args:
        parts: Metrics whose values the model reads. None: the metrics of the source.
        model: A cross-encoder with one output: a name on the hub, or a directory. Other models than the default are
            part of the metric's name (`vera.composite@MODEL`).
        device: Device of the model ("cpu", "cuda"). None: sentence-transformers chooses.
        statements: Whether the model reads sentences with metric values. False is the baseline of the source: only
            response and passages, without parts and without a judge (`vera.composite@statements=false`).

    Raises:
        ConfigurationError: If `parts` is empty.
    """

    name = "vera.composite"
    title = "VERA composite (logit)"
    _meaning = "the model prefers another system's answers; it does not have an absolute scale"
    _next_step = 'Look at details["parts"].'
    description = (
        "How relevant is the response, enriched with metric values, to the query, according to a cross-encoder?"
    )
    formula = "logit of the cross-encoder for (query, response + each metric's meaning and value + passages)"
    source = "VERA, section 3.2"
    group = "vera_composite"
    example = WorkedExample(
        row={
            "query": "How tall is the lighthouse of Northport?",
            "contexts": ["The lighthouse of Northport was built in 1884. It is 31 meters tall."],
            "response": "It is 31 meters tall.",
        },
        replies={
            "entailment": {"1": 1},
            "sentence_relevance": {"1": 0, "2": 1},
            "answer_questions": {"items": ["How tall is the lighthouse?"]},
            "question_equivalence": {"1": 90},
        },
        value=None,
        steps="The text contains the response, four sentences with faithfulness 1.00, groundedness 1.00, retrieval "
        "precision 0.50 and answer relevance 0.90, and the passage. The logit of query and text depends on the model.",
    )
    low = -math.inf
    high = math.inf

    def __init__(
        self,
        parts: Sequence[Metric] | None = None,
        model: str = _MODEL,
        *,
        device: str | None = None,
        statements: bool = True,
    ) -> None:
        super().__init__(model, device=device)
        self.parts = () if not statements else _PARTS if parts is None else tuple(parts)
        if statements and not self.parts:
            raise ConfigurationError("parts must contain at least one metric, got none")
        cards = [part.card for part in self.parts]
        self.follows_from = tuple(card.name for card in cards)
        self.needs = tuple(dict.fromkeys(["query", "response", *(need for card in cards for need in card.needs)]))
        self.judge_calls = sum(card.judge_calls for card in cards)
        self.judge_calls_per_passage = sum(card.judge_calls_per_passage for card in cards)
        stated = "\n".join(f"{card.version}\n{_statement(card, 0.5)}" for card in cards)
        self.version = f"1({model},{hashlib.sha256(stated.encode()).hexdigest()[:12]})"

    async def compute(self, sample: Sample, judge: Judge) -> Score | NotApplicable | Failure:
        """Score `sample` with all parts, then with the model.

        The outcome is not applicable or a failure if that of a part is.
        """
        outcomes = await gather_or_cancel(part.score(sample, judge) for part in self.parts)
        values: dict[str, float] = {}
        for part, outcome in zip(self.parts, outcomes, strict=True):
            name = part.card.name
            if isinstance(outcome, NotApplicable):
                return self.make_not_applicable(sample, f"{name} is not applicable: {outcome.reason}", outcome.missing)
            if isinstance(outcome, Failure):
                own = {
                    "metric": self.card.name,
                    "metric_version": self.card.version,
                    "reason": f"{name}: {outcome.reason}",
                }
                return outcome.model_copy(update={**own, "prompt_hash": None, "details": {}})
            values[name] = outcome.value
        statements = " ".join(_statement(part.card, values[part.card.name]) for part in self.parts)
        query, response = sample.query or "", (sample.response or "").strip()
        passages = "\n".join(passage.text for passage in sample.contexts or ())
        scored = await self._local.run(lambda model: _logit(model, query, response, statements, passages))
        if isinstance(scored, str):
            return self.make_not_applicable(sample, scored)
        logit, cut = scored
        details = {"model": self.model, "parts": values, "logistic": sigmoid(logit), "cut": cut}
        return self.make_score(sample, logit, method="cross_encoder", details=details)

    def _load(self) -> CrossEncoder:
        from sentence_transformers import CrossEncoder

        model = CrossEncoder(self.model, device=self.device)
        if model.num_labels != 1:
            raise ConfigurationError(
                f"the model {self.model!r} has {model.num_labels} outputs. Use a cross-encoder with one output"
            )
        return model


def enriched(
    response: str, statements: str, passages: str, *, limit: float, cut: Callable[[str, int], tuple[str, int]]
) -> tuple[str, list[str]] | None:
    """Join response, statements and passages to at most `limit` tokens. Return the text and the parts that were cut.

    The statements, with metric values, are never cut, and passages are cut first. `cut` shortens a text to a number of
    tokens, and returns both. The result is None if the statements exceed the limit.
    """
    if limit == math.inf:
        return _joined(response, statements, passages), []
    remaining = int(limit) - _MARGIN - cut(statements, int(limit))[1]
    if remaining < 1 or cut(statements, int(limit))[0] != statements:
        return None
    kept, used = cut(response, remaining)
    shown, _ = cut(passages, max(0, remaining - used))
    cuts = [
        name
        for name, original, result in (("response", response, kept), ("passages", passages, shown))
        if result != original
    ]
    return _joined(kept, statements, shown), cuts


def _joined(response: str, *others: str) -> str:
    return "\n\n".join([response, *filter(None, others)]).rstrip()


def _statement(card: MetricCard, value: float) -> str:
    better = "more" if card.direction == "higher" else "less"
    asks = card.title.partition(" (")[0]
    return f"{asks} asks: {card.description} From {card.low:g} to {card.high:g}, {better} is better; here it is {value:.2f}."


def _logit(
    model: CrossEncoder, query: str, response: str, statements: str, passages: str
) -> tuple[float, list[str]] | str:
    """Compute the model's score and the names of cut parts, or return the reason for a missing score."""
    from torch.nn import Identity

    tokenizer: Any = model.tokenizer

    def cut(text: str, most: int) -> tuple[str, int]:
        read = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
        ends = [end for _, end in read["offset_mapping"]]
        if len(ends) <= most:
            return text, len(ends)
        return (text[: ends[most - 1]] if most else ""), most

    max_tokens = model.max_seq_length
    limit = math.inf
    if max_tokens is not None:
        limit = max_tokens - tokenizer.num_special_tokens_to_add(pair=True) - cut(query, max_tokens)[1]
    answer = enriched(response, statements, passages, limit=limit, cut=cut)
    if answer is None:
        return f"query and metric values alone exceed the model's limit of {max_tokens} tokens"
    text, cuts = answer
    # `Identity` replaces the activation function, so the score is a logit.
    (logit,) = model.predict([(query, text)], activation_fn=Identity(), show_progress_bar=False)
    return float(logit), cuts
