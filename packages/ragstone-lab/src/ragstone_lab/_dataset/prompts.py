"""Prompts for building a dataset. Documents are untrusted, so they are passed only in fields."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Final

from pydantic import Field, StringConstraints, TypeAdapter

from ragstone.extension import split_words
from ragstone.judges import Prompt
from ragstone.metrics import closed_object

_QUERY_TASK: Final = (
    "Your assignment: write the request that a person would send who wants a report like the one above and has not "
    "seen it.\n"
    "Ask openly, in one to three sentences of at most 60 words together: name the subject, and which sides of it the report "
    "has to treat. Give nothing away of what the report finds; no figures, no answers, no mention of 'the report "
    "above' or 'the text'. Use the language of the report."
)
_QUESTIONS_TASK: Final = (
    "Your assignment: write up to {n} questions that the report answers, and that together ask for everything that "
    "matters in it.\n"
    "Each asks for one thing and for another than the rest, can be understood by a person who has not seen the report "
    "(names in place of 'he' or 'the company'), and is left open: the answer does not show in it. Use the language of "
    "the report.\n"
    "Fewer are better than some that overlap."
)
_PASSAGE_TASK: Final = (
    "Your assignment: rewrite the passage so that it can be understood by itself.\n"
    "Put names in place of words like 'it', 'she', 'there', 'last year' where the beginning of the document or the text "
    "before the passage shows what they mean; leave them where it does not. Take over the wording, all facts and all "
    "numbers as they are; add nothing that is not above, and leave nothing out. Keep the language. A passage that "
    "stands by itself already is repeated as it is."
)
_NEGATIVES_TASK: Final = (
    "Your assignment: the excerpts come from a collection of documents. Write {n} questions that people would ask in "
    "an ordinary search or chat, and that this collection does not answer because they are about something else.\n"
    "Each is about another subject than the excerpts and than the rest of your questions (for example cooking, sport, law, "
    "history, gardening, astronomy, travel), has a definite answer elsewhere, and can be understood by itself. Do not "
    "repeat an earlier question. Do not mention the excerpts. Use the language of the excerpts."
)
_BEFORE_CHARS: Final = 600
_BEGINNING_CHARS: Final = 300
_Query = Annotated[str, StringConstraints(min_length=1, max_length=2000)]
_Question = Annotated[str, StringConstraints(min_length=1, max_length=500)]
_Passage = Annotated[str, StringConstraints(min_length=1, max_length=8000)]
_SAME_FROM: Final = 0.9
"""Share of common words from which two questions are duplicates. High, because a reviewer does not see dropped
questions."""


def query_prompt(report: str) -> Prompt:
    """Build the prompt for the open query of a report."""
    return Prompt(construct="report_request", task=_QUERY_TASK, fields={"report": report})


def questions_prompt(report: str, n: int) -> Prompt:
    """Build the prompt for the sub-questions of a report."""
    return Prompt(construct="report_questions", task=_QUESTIONS_TASK.format(n=n), fields={"report": report})


def passage_prompt(document: str, start: int, text: str) -> Prompt:
    """Build the prompt for a self-contained passage, with the text before it."""
    fields = {
        "beginning": document[: min(_BEGINNING_CHARS, start)],
        "before": document[max(0, start - _BEFORE_CHARS) : start],
    }
    non_empty = {name: value for name, value in fields.items() if value.strip()}
    return Prompt(construct="standalone_passage", task=_PASSAGE_TASK, fields=non_empty | {"passage": text})


def negatives_prompt(excerpts: Sequence[str], earlier: Sequence[str], n: int) -> Prompt:
    """Build the prompt for `n` queries about other subjects than the documents."""
    fields: dict[str, str | tuple[str, ...]] = {"excerpts": tuple(excerpts)}
    if earlier:
        fields["earlier_questions"] = tuple(earlier)
    return Prompt(construct="unrelated_questions", task=_NEGATIVES_TASK.format(n=n), fields=fields)


QUERY_SHAPE: Final = closed_object("Request", {"query": _Query})
"""Schema of an object with the query."""
PASSAGE_SHAPE: Final = closed_object("Standalone", {"passage": _Passage})
"""Schema of an object with the passage."""


def questions_shape(n: int) -> TypeAdapter[dict[str, list[str]]]:
    """Return the schema of an object with at most `n` sub-questions."""
    return closed_object("Questions", {"items": Annotated[list[_Question], Field(max_length=n)]})


def distinct_questions(questions: Sequence[str]) -> tuple[str, ...]:
    """Remove questions that nearly repeat an earlier one.

    Two questions are duplicates if they share at least 90% of their words and contain the same numbers: "in 2019?" and
    "in 2020?" are different.

    Examples:
        >>> distinct_questions(["Who built the tower?", "Who built the  tower", "Who built the tower in 1884?"])
        ('Who built the tower?', 'Who built the tower in 1884?')
    """
    kept: list[tuple[str, set[str]]] = []
    for question in (text.strip() for text in questions):
        words = set(split_words(question))
        if words and not any(_same(words, other) for _, other in kept):
            kept.append((question, words))
    return tuple(question for question, _ in kept)


def _same(words: set[str], other: set[str]) -> bool:
    numbers, others = ({word for word in group if any(c.isdigit() for c in word)} for group in (words, other))
    return numbers == others and len(words & other) >= _SAME_FROM * len(words | other)


def find_unsupported_numbers(text: str, document: str) -> tuple[str, ...]:
    """Return the numbers in a rewritten passage that are not in its document, which a reviewer should check first."""
    known = set(re.findall(r"\d+", document))
    return tuple(dict.fromkeys(number for number in re.findall(r"\d+", text) if number not in known))
