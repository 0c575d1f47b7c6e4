"""The score mode "reasoned": the judge writes its reasons first, and then the number on the last line."""

from __future__ import annotations

from typing import Final

from ragstone.errors import JudgeReplyError
from ragstone.judges._model import after_reasoning
from ragstone.judges._parse import parse_rating
from ragstone.judges._render import Message

REASONED_VERSION: Final = "1"
"""Part of the identity of judges with this mode, because changed wording makes a different judge."""
REASONED_MAX_TOKENS: Final = 1024
"""Smallest length limit of a reply. Five sentences need fewer than 300 tokens in most languages."""
_MAX_QUOTED: Final = 4000


def reasoned_request(low: float, high: float) -> str:
    """Return the request for reasons and one number on the scale."""
    return (
        "First write your reasons, in one to five sentences that name the words of the material which decide. Then "
        f"write one last line, with one number from {low:g} to {high:g} in place of N:\nScore: N"
    )


def parse_reasoned(raw: str, low: float, high: float) -> tuple[float, str]:
    """Parse the number on the last line of a reply, and return it with the reasons before it.

    Hidden reasoning of the model (`<think>`) is neither. Numbers in the reasons do not matter.

    Examples:
        ```python
        value, reasons = parse_reasoned(reply, 0, 100)
        ```
    """
    text = after_reasoning(raw)
    if not text:
        raise JudgeReplyError("the reply does not contain a score after the model's reasoning", raw=raw)
    reasons, _, last = text.rpartition("\n")
    try:
        return parse_rating(last, low, high), reasons.strip()
    except JudgeReplyError as error:
        raise JudgeReplyError(f"the last line of the reply is not a score: {error}", raw=raw) from None


def build_reasoned_retry(text: str, low: float, high: float) -> list[Message]:
    """Return two turns that follow a reply without a score: the reply, and the request for its last line."""
    return [
        {"role": "assistant", "content": text[-_MAX_QUOTED:] or "(no reply)"},
        {
            "role": "user",
            "content": f"The last line with the score is missing. Write only this line, with a number from {low:g} to "
            f"{high:g} in place of N:\nScore: N",
        },
    ]
