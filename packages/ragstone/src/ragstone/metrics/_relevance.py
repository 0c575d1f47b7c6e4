"""Relevance of a passage to a query, from labels in the data or from the judge. The prompts are our own."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from ragstone.errors import JudgeError
from ragstone.judges import Judge, Prompt
from ragstone.schema import Passage

__all__ = ["LABEL_MODES", "RELEVANCE_HASH", "Label", "LabelMode", "LabelSource", "judge_asked", "label_of"]

LabelMode = Literal["auto", "data", "judge"]
LABEL_MODES: Final = ("auto", "data", "judge")
LabelSource = Literal["data", "judge_with_reference", "judge"]

_JUDGED_FROM: Final = 0.5
"""A passage is relevant if the judge's number from 0 to 1 is at least this value."""

_WITH_REFERENCE: Final = (
    "Your assignment: decide whether somebody who has nothing but this passage could give the answer that the reference "
    "states. Where the reference has several parts, each is a correct answer by itself, and one is enough.\n"
    "1: the passage states that answer, in whatever words, or it follows from the passage without other knowledge.\n"
    "0: it does not; sharing the topic, names or words with the query is not enough, nor is a part of the answer.\n"
    "Only a passage of which you cannot tell lies between."
)
_WITHOUT_REFERENCE: Final = (
    "Your assignment: decide whether this passage holds what is needed to answer the query.\n"
    "1: somebody who has nothing but this passage could answer the query from it.\n"
    "0: they could not; sharing the topic, names or words with the query is not enough, nor is a part of an answer.\n"
    "Only a passage of which you cannot tell lies between."
)
RELEVANCE_HASH: Final = hashlib.sha256(f"{_WITH_REFERENCE}\x1f{_WITHOUT_REFERENCE}".encode()).hexdigest()[:12]
"""Hash of both task texts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """Relevance of a passage and the source of the label."""

    relevant: bool
    source: LabelSource
    value: float
    """The grade in the data, or the judge's number from 0 to 1."""
    n: int = 0
    """Number of judge replies behind the label."""
    raw: str | None = None


def from_data(passage: Passage, threshold: float) -> Label | None:
    """Return the label in the passage, or None if it is not labeled."""
    if passage.relevance is None:
        return None
    return Label(relevant=passage.relevance >= threshold, source="data", value=passage.relevance)


def judge_asked(passage: Passage, mode: LabelMode) -> bool:
    """Return whether the judge labels this passage."""
    return mode == "judge" or (mode == "auto" and passage.relevance is None)


async def label_of(
    passage: Passage, *, query: str, reference: Sequence[str], judge: Judge, mode: LabelMode, threshold: float
) -> Label:
    """Label one passage.

    Args:
        passage: The passage. `Passage.relevance` is its label in the data, if any.
        query: The query.
        reference: Reference answers, shown to the judge if there are any.
        judge: Called if the data does not have a label, or if `mode` is "judge".
        mode: "auto", "data" (never calls the judge) or "judge" (always calls the judge).
        threshold: Smallest label in the data that means relevant.

    Raises:
        JudgeError: If the judge does not return a usable reply. The kind is "unsupported" if `mode` is "data" and the
            passage is not labeled.
    """
    if not judge_asked(passage, mode):
        label = from_data(passage, threshold)
        if label is None:
            raise JudgeError(
                "the passage does not have a relevance label. Add the label, or use labels='auto' to ask the judge",
                kind="unsupported",
            )
        return label
    answers = tuple(answer for answer in reference if answer.strip())
    fields: dict[str, str | tuple[str, ...]] = {"query": query}
    if answers:
        fields["reference"] = answers
    fields["passage"] = passage.text
    task = _WITH_REFERENCE if answers else _WITHOUT_REFERENCE
    reply = await judge.ask_number(Prompt(construct="passage_relevance", task=task, fields=fields), low=0, high=1)
    return Label(
        relevant=reply.value >= _JUDGED_FROM,
        source="judge_with_reference" if answers else "judge",
        value=reply.value,
        n=reply.n,
        raw=reply.raw,
    )
