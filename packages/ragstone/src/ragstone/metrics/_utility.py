"""What one passage is worth to the reader: u = R * (1 - p(abstain)).

Source: "Redefining Retrieval Evaluation in the Era of LLMs" (UDCG), section 4, equations 1 and 2.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from ragstone.errors import ConfigurationError, JudgeError
from ragstone.judges import AbstentionEstimate, Judge, Reader
from ragstone.metrics._relevance import LABEL_MODES, Label, LabelMode, judge_asked, label_of
from ragstone.schema import Passage

__all__ = ["PassageUtility", "check_label_options", "passage_utilities"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class PassageUtility:
    """What is known about one passage; what could not be found out is None, and `error` says why."""

    position: int
    """In the prompt, from 1."""
    passage: Passage
    label: Label | None
    abstention: AbstentionEstimate | None
    error: JudgeError | None = None
    """Why the label or the probability is missing (the probability's error, if both are)."""

    @property
    def utility(self) -> float | None:
        """Between -1 and 1: the probability of an answer, negative for an irrelevant passage."""
        if self.label is None or self.abstention is None:
            return None
        answered = 1 - self.abstention.value
        return answered if self.label.relevant else -answered

    @property
    def distracting_effect(self) -> float | None:
        """Probability that the reader answers from an irrelevant passage; None for a relevant one."""
        if self.label is None or self.label.relevant or self.abstention is None:
            return None
        return 1 - self.abstention.value

    def as_dict(self) -> dict[str, Any]:
        """Plain values, as they stand in the details of an outcome and in annotated rows."""
        label, read = self.label, self.abstention
        found: dict[str, Any] = {
            "position": self.position,
            "id": self.passage.id,
            "relevance": None if label is None else 1 if label.relevant else -1,
            "label": None if label is None else label.value,
            "label_source": None if label is None else label.source,
            "p_abstain": None if read is None else read.value,
            "interval": None if read is None else [read.interval.low, read.interval.high],
            "interval_method": None if read is None else read.interval.method,
            "method": None if read is None else read.method,
            "n": 0 if read is None else read.n,
            "utility": self.utility,
            "distracting_effect": self.distracting_effect,
        }
        if read is not None and read.complete is not None:
            found["p_complete"] = read.complete
        if read is not None and read.n_missing:
            found["n_missing"] = read.n_missing
        if self.error is not None:
            # An error may quote any text, and no file takes lone surrogates.
            reason = str(self.error).encode(errors="replace").decode()
            found["error"] = {"kind": self.error.kind, "reason": reason}
        return found


def check_label_options(labels: str, threshold: float) -> None:
    """Refuse options that cannot work.

    Raises:
        ConfigurationError: `labels` is none of the modes, or the threshold is no number above 0.
    """
    if labels not in LABEL_MODES:
        raise ConfigurationError(f"labels must be 'auto', 'data' or 'judge', got {labels!r}")
    if not 0 < threshold < float("inf"):
        raise ConfigurationError(
            f"threshold is the smallest grade that means relevant, and must be above 0, got {threshold!r}"
        )


async def passage_utilities(
    query: str,
    passages: Sequence[Passage],
    *,
    reader: Reader,
    judge: Judge,
    reference: Sequence[str] = (),
    labels: LabelMode = "auto",
    threshold: float = 0.5,
) -> tuple[PassageUtility, ...]:
    """Find the utility of each passage for the reader, all at once; the same text is asked about once.

    A passage that could not be read or labelled is in the result, with its error.

    Args:
        query: The question.
        passages: In prompt order; `Passage.relevance` is the label of the data.
        reader: The application's generator.
        judge: Labels passages that carry no label.
        reference: Correct answers, shown to the judge.
        labels: "auto" takes the label of the data, else asks the judge; "data" never asks; "judge" always asks.
        threshold: From here on a label of the data means relevant.

    Returns:
        One for each passage, in their order.

    Raises:
        ConfigurationError: An option that cannot work.

    Example:
        ```python
        found = await passage_utilities("How tall is it?", sample.contexts, reader=reader, judge=judge)
        [(u.utility, u.distracting_effect) for u in found]
        ```
    """
    check_label_options(labels, threshold)
    reads: dict[str, asyncio.Task[AbstentionEstimate | JudgeError]] = {}
    judged: dict[str, asyncio.Task[Label | JudgeError]] = {}
    given: list[Label | JudgeError | None] = []

    def label(passage: Passage) -> Coroutine[Any, Any, Label]:
        return label_of(passage, query=query, reference=reference, judge=judge, mode=labels, threshold=threshold)

    try:
        async with asyncio.TaskGroup() as group:
            for passage in passages:
                text = passage.text
                if text not in reads:
                    reads[text] = group.create_task(_as_error(reader.estimate_abstention(query, [text])))
                if not judge_asked(passage, labels):
                    given.append(await _as_error(label(passage)))
                    continue
                given.append(None)
                if text not in judged:
                    judged[text] = group.create_task(_as_error(label(passage)))
    except BaseExceptionGroup as errors:
        # One mistake of ours or of the configuration is what callers know how to handle; a group of them is not.
        raise errors.exceptions[0] from errors
    found = []
    for position, (passage, own) in enumerate(zip(passages, given, strict=True), start=1):
        read = reads[passage.text].result()
        mark = own if own is not None else judged[passage.text].result()
        wrong = [outcome for outcome in (read, mark) if isinstance(outcome, JudgeError)]
        found.append(
            PassageUtility(
                position=position,
                passage=passage,
                label=mark if isinstance(mark, Label) else None,
                abstention=read if isinstance(read, AbstentionEstimate) else None,
                error=wrong[0] if wrong else None,
            )
        )
    return tuple(found)


async def _as_error(asked: Coroutine[Any, Any, T]) -> T | JudgeError:
    try:
        return await asked
    except JudgeError as error:
        return error
