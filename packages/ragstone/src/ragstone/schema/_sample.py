"""`Sample`, the input of a metric, and the conversion of traces to samples."""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any

from pydantic import Field, FiniteFloat

from ragstone._util.quantities import label_of
from ragstone._util.unicode import normalize
from ragstone.errors import DataError
from ragstone.schema._base import Record
from ragstone.schema._evidence import Evidence
from ragstone.schema._trace import Passage, Trace, Turn


class Sample(Record):
    """One row to evaluate. Every field except the id may be missing."""

    id: str = Field(min_length=1)
    query: str | None = None
    standalone_query: str | None = None
    """The question without references to earlier turns, if a model of the application wrote one for a retrieval."""
    history: tuple[Turn, ...] = ()
    """Messages of the conversation before the query, oldest first. Judges see the last of them with the query."""
    contexts: tuple[Passage, ...] | None = None
    """Passages in prompt order. `()` means that retrieval returned no passages, None that the passages are unknown."""
    response: str | None = None
    reference: tuple[str, ...] = ()
    """Correct answers. Each of them is a full correct answer."""
    sub_questions: tuple[str, ...] = ()
    """Sub-questions that a complete answer must address."""
    qrels: dict[str, FiniteFloat] | None = None
    """Relevance grades by passage id over the whole collection (0 = not relevant), or None without labels."""
    ratings: dict[str, dict[str, FiniteFloat]] | None = None
    """How well a passage answers a sub-question, from 0 to 5. The keys are the sub-question, then the passage id."""
    metadata: dict[str, Any] = Field(default_factory=dict)
    evidence: Evidence | None = None
    """How query, contexts and response were found, if the sample is a captured request."""


def fingerprint(query: str | None, history: Sequence[Turn] = ()) -> str | None:
    """Return a fingerprint of a question and its history: 24 hexadecimal digits, or None without a question and history.

    It depends on the query and on the roles and texts of the history, in order. Unicode normalization (NFC) and the
    kind and amount of whitespace do not change it. It is a hash without a key, so a guessed question can be verified
    with it. If a text was redacted, it is the fingerprint of the redacted text.

    Examples:
        >>> fingerprint("Who wrote it?") == fingerprint(" Who  wrote it? ")
        True
    """
    texts = [
        " ".join((text if text.isascii() else normalize("NFC", text)).split())
        for text in (*(turn.text for turn in history), query or "")
    ]
    if not any(texts):
        return None
    return blake2b(json.dumps([[turn.role for turn in history], texts]).encode(), digest_size=12).hexdigest()


def derive_id(sample: Sample) -> str:
    """Return the id of a row without an id, which does not depend on its position.

    Rows with equal question and history have equal ids. A row without them has an id of its whole contents.
    """
    if (question := fingerprint(sample.query, sample.history)) is not None:
        return f"q-{question}"
    content = json.dumps(sample.model_dump(exclude={"id"}), sort_keys=True, default=lambda value: type(value).__name__)
    return f"row-{blake2b(content.encode(), digest_size=12).hexdigest()}"


def has_derived_id(sample: Sample) -> bool:
    """Return whether the id of a sample is that of `derive_id`."""
    return sample.id.startswith(("q-", "row-")) and sample.id == derive_id(sample)


def sample_from_trace(trace: Trace) -> Sample:
    """Convert a captured trace to the sample that metrics read."""
    return Sample(
        id=trace.trace_id,
        query=trace.query,
        standalone_query=trace.standalone_query,
        history=trace.history,
        contexts=trace.prompt_contexts,
        response=trace.response,
        reference=trace.reference,
        sub_questions=trace.sub_questions,
        qrels=trace.qrels,
        ratings=trace.ratings,
        metadata=trace.metadata,
        evidence=trace.evidence,
    )


def trace_from_sample(sample: Sample, *, source: str, started_at: float) -> Trace:
    """Convert a row of a dataset to a trace, so that it can be stored and scored like a captured request.

    Its session and user are those of the metadata, if these are labels. Datasets contain no times, so the
    caller passes a `started_at` (Unix seconds) that is stable for the same file.
    """
    return Trace(
        trace_id=sample.id,
        source=source,
        session_id=label_of(sample.metadata.get("session_id")),
        user_id=label_of(sample.metadata.get("user_id")),
        query=sample.query,
        standalone_query=sample.standalone_query,
        history=sample.history,
        contexts=sample.contexts,
        response=sample.response,
        reference=sample.reference,
        sub_questions=sample.sub_questions,
        qrels=sample.qrels,
        ratings=sample.ratings,
        metadata=sample.metadata,
        evidence=sample.evidence,
        started_at=started_at,
    )


class RowProbabilities:
    """The sampling probabilities of rows, which all rows have, or none."""

    def __init__(self) -> None:
        self._has, self._first = True, ""

    def add(self, fields: Mapping[str, Any], place: str) -> float:
        """Return that of a row, 1 if none has one. Raise DataError if it is not in (0, 1], or only some have one."""
        value = fields.get("inclusion_probability")
        has = value is not None
        if not self._first:
            self._has, self._first = has, place
        elif has != self._has:
            raise DataError(
                f"{self._first if has else place}: inclusion_probability is missing, although other rows have it, so "
                "their mean cannot be weighted. Give each row its sampling probability (1 if it was certain to be "
                "kept), or give none."
            )
        return _probability(value, place) if has else 1.0


def _probability(value: Any, place: str) -> float:
    number = value if isinstance(value, (int, float)) and not isinstance(value, bool) else math.nan
    if isinstance(value, str):
        with contextlib.suppress(ValueError):
            number = float(value)
    if not 0 < number <= 1:
        raise DataError(
            f"{place}: inclusion_probability is {value!r}. It must be a number above 0 and at most 1: the probability "
            "with which this request was kept. The weight of a row is its inverse."
        )
    return float(number)
