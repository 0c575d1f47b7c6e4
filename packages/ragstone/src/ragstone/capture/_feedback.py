"""Feedback of users about an answer, before it is redacted and written."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from ragstone.errors import DataError
from ragstone.schema import MAX_REQUEST_ID

MAX_COMMENT: Final = 4000
"""Maximum number of characters of a comment. The rest is cut off."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedbackDraft:
    """What a user said about an answer."""

    request_id: str
    value: float
    comment: str | None
    given_at: float


def make_feedback(request_id: object, value: object, comment: object, *, given_at: float) -> FeedbackDraft:
    """Check feedback. Raise DataError if a value has another type or is out of range."""
    if isinstance(request_id, int) and not isinstance(request_id, bool) and 0 < request_id < 2**128:
        request_id = f"{request_id:032x}"
    if not isinstance(request_id, str) or not 0 < len(request_id) <= MAX_REQUEST_ID or not request_id.isprintable():
        raise DataError(
            f"the id of feedback must be a trace id, a text of at most {MAX_REQUEST_ID} characters, got "
            f"{type(request_id).__name__}. Pass the id of the request that was answered."
        )
    if not isinstance(value, int | float) or not math.isfinite(value) or not 0 <= value <= 1:
        raise DataError(
            f"the value of feedback must be a number from 0 (bad) to 1 (good), got {value!r:.50}. Map other scales to "
            "it: (stars - 1) / 4."
        )
    if comment is not None and not isinstance(comment, str):
        raise DataError(f"the comment of feedback must be text, got {type(comment).__name__}.")
    return FeedbackDraft(request_id=request_id, value=float(value), comment=comment or None, given_at=given_at)
