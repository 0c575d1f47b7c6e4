"""Relevance of a passage to a query, from labels in the data or from the judge. The prompts are our own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from ragstone.errors import JudgeError
from ragstone.judges import Judge, Prompt, ask_number
from ragstone.metrics._prompts import Task
from ragstone.schema import Passage

LabelMode = Literal["auto", "data", "judge"]
LabelSource = Literal["data", "judge_with_reference", "judge"]

_JUDGED_FROM: Final = 0.5
"""A passage is relevant if the judge's number is at least this value. It is 0 or 1, or in some modes a mean of
these."""

_EXAMPLES: Final = """\
Examples of relevant and irrelevant passages:

Query: What is the roof of the Aulitz tower made of?
{first}Passage: In 1904, the shingles of the Aulitz tower were replaced with copper sheets.
Number: 1

Query: What is the roof of the Aulitz tower made of?
{first}Passage: The Aulitz tower is famous for its roof, which can be seen from the harbor.
Number: 0

Query: Who built the Tarn mill, and when?
{second}Passage: Die Mühle am Tarn wurde 1887 eröffnet.
Number: 0"""
_WITH_REFERENCE: Final = Task(
    "Your assignment: decide whether this passage alone is enough to give the answer that the reference states. If the "
    "reference has several parts, each is a correct answer by itself, and one is enough.\n"
    "1: the passage states that answer, in any words or language, or it follows from the passage without other knowledge.\n"
    "0: it does not. The same topic, names or words are not enough, and neither is a part of the answer.\n"
    "Use only 1 and 0. If you are not sure, use 0.",
    "relevance_with_reference",
    ("query", "reference", "passage"),
    examples=_EXAMPLES.format(first="Reference: Copper.\n", second="Reference: Ida Falk, in 1887.\n"),
)
_WITHOUT_REFERENCE: Final = Task(
    "Your assignment: decide whether this passage alone is enough to answer the query.\n"
    "1: the passage states the answer, in any words or language, or it follows from the passage without other knowledge.\n"
    "0: it does not. The same topic, names or words are not enough, and neither is a part of the answer.\n"
    "Use only 1 and 0. If you are not sure, use 0.",
    "relevance",
    ("query", "passage"),
    examples=_EXAMPLES.format(first="", second=""),
)
RELEVANCE_TASKS: Final = (_WITH_REFERENCE, _WITH_REFERENCE.examples, _WITHOUT_REFERENCE, _WITHOUT_REFERENCE.examples)
"""Both tasks and their examples."""


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


def judge_asked(passage: Passage, mode: LabelMode) -> bool:
    """Return whether the judge labels this passage."""
    return mode == "judge" or (mode == "auto" and passage.relevance is None)


async def label_of(
    passage: Passage, *, query: str, reference: Sequence[str], judge: Judge, mode: LabelMode, threshold: float
) -> Label:
    """Label one passage by the data (`Passage.relevance`, relevant from `threshold` on) or the judge.

    `mode` "data" never calls the judge, "judge" always, and "auto" if the data does not have a label. The judge is
    shown the reference answers. Raise JudgeError if the judge does not return a usable reply. The kind is "unsupported"
    if `mode` is "data" and the passage is not labeled.
    """
    if not judge_asked(passage, mode):
        if passage.relevance is None:
            raise JudgeError(
                "the passage does not have a relevance label. Add the label, or use labels='auto' to ask the judge",
                kind="unsupported",
            )
        return Label(relevant=passage.relevance >= threshold, source="data", value=passage.relevance)
    answers = tuple(answer for answer in reference if answer.strip())
    fields: dict[str, str | tuple[str, ...]] = {"query": query}
    if answers:
        fields["reference"] = answers
    fields["passage"] = passage.text
    task = _WITH_REFERENCE if answers else _WITHOUT_REFERENCE
    prompt = Prompt(construct="passage_relevance", task=task, fields=fields, examples=task.examples)
    reply = await ask_number(judge, prompt, low=0, high=1)
    return Label(
        relevant=reply.value >= _JUDGED_FROM,
        source="judge_with_reference" if answers else "judge",
        value=reply.value,
        n=reply.n,
        raw=reply.raw,
    )
