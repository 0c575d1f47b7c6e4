"""Utility of one passage for the reader: u = R * (1 - p(abstain)).

Source: "Redefining Retrieval Evaluation in the Era of LLMs" (UDCG), section 4, equations 1 and 2.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from ragstone._util.unicode import replace_surrogates
from ragstone.errors import JudgeError
from ragstone.judges import AbstentionEstimate, Judge, Reader
from ragstone.metrics._relevance import Label, LabelMode, judge_asked, label_of
from ragstone.schema import Passage

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class PassageUtility:
    """Utility of one passage. Unknown values are None, and `error` is the reason."""

    position: int
    """Position in the prompt, from 1."""
    passage: Passage
    label: Label | None
    abstention: AbstentionEstimate | None
    error: JudgeError | None = None
    """Why the label or the probability is missing. If both are, this is the error of the probability."""

    @property
    def utility(self) -> float | None:
        """Probability of an answer, negative for an irrelevant passage, between -1 and 1."""
        if self.label is None or self.abstention is None:
            return None
        answered = 1 - self.abstention.value
        return answered if self.label.relevant else -answered

    @property
    def distracting_effect(self) -> float | None:
        """Probability that the reader answers from an irrelevant passage, or None for a relevant passage."""
        if self.label is None or self.label.relevant or self.abstention is None:
            return None
        return 1 - self.abstention.value

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, as in the details of an outcome and in annotated rows."""
        label, read = self.label, self.abstention
        values: dict[str, Any] = {
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
            values["p_complete"] = read.complete
        if read is not None:
            counts = {"n_missing": read.n_missing, "n_drawn": read.n_drawn, "n_declined": read.n_declined}
            values |= {name: n for name, n in counts.items() if n}
        if self.error is not None:
            # An error may quote any text, and files cannot store lone surrogates.
            values["error"] = {"kind": self.error.kind, "reason": replace_surrogates(str(self.error))}
        return values


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
    """Estimate the utility of each passage for the reader, concurrently. Each distinct text is asked about once.

    The result includes passages whose utility could not be estimated, with their error. `labels` and `threshold` decide
    about relevance as in `label_of`.

    Examples:
        ```python
        utilities = await passage_utilities("How tall is it?", sample.contexts, reader=reader, judge=judge)
        [(u.utility, u.distracting_effect) for u in utilities]
        ```
    """
    reads: dict[str, asyncio.Task[AbstentionEstimate | JudgeError]] = {}
    judged: dict[str, asyncio.Task[Label | JudgeError]] = {}
    own_labels: list[Label | JudgeError | None] = []

    def label(passage: Passage) -> Coroutine[Any, Any, Label]:
        return label_of(passage, query=query, reference=reference, judge=judge, mode=labels, threshold=threshold)

    try:
        async with asyncio.TaskGroup() as group:
            for passage in passages:
                text = passage.text
                if text not in reads:
                    reads[text] = group.create_task(_as_error(reader.estimate_abstention(query, [text])))
                if not judge_asked(passage, labels):
                    own_labels.append(await _as_error(label(passage)))
                    continue
                own_labels.append(None)
                if text not in judged:
                    judged[text] = group.create_task(_as_error(label(passage)))
    except BaseExceptionGroup as errors:
        # Callers handle a single error, not an exception group.
        raise errors.exceptions[0] from errors
    utilities = []
    for position, (passage, own) in enumerate(zip(passages, own_labels, strict=True), start=1):
        read = reads[passage.text].result()
        mark = own if own is not None else judged[passage.text].result()
        failed = [outcome for outcome in (read, mark) if isinstance(outcome, JudgeError)]
        utilities.append(
            PassageUtility(
                position=position,
                passage=passage,
                label=mark if isinstance(mark, Label) else None,
                abstention=read if isinstance(read, AbstentionEstimate) else None,
                error=failed[0] if failed else None,
            )
        )
    return tuple(utilities)


async def _as_error(call: Coroutine[Any, Any, T]) -> T | JudgeError:
    try:
        return await call
    except JudgeError as error:
        return error
