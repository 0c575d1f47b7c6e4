"""Reading what an endpoint says when it has no reply."""

from __future__ import annotations

import email.utils
import re
import time
from collections.abc import Callable, Mapping

__all__ = ["causes_of", "message_in", "retry_after_s"]


def message_in(body: object) -> str:
    """What an error's body says, in one line: OpenAI's form, FastAPI's (`detail`), a bare text; "" when it says nothing."""
    if isinstance(body, str):
        return " ".join(body.split())
    if isinstance(body, list):
        return "; ".join(text for item in body if (text := message_in(item)))
    if not isinstance(body, Mapping):
        return ""
    if "loc" in body and "msg" in body:
        # A validation error; its `input` would repeat the whole request.
        where = body["loc"]
        return f"{'.'.join(map(str, where)) if isinstance(where, list) else where}: {body['msg']}"
    return next((text for key in ("message", "detail", "error") if (text := message_in(body.get(key)))), "")


def causes_of(error: BaseException) -> list[BaseException]:
    """The error and what caused it, down to the first cause."""
    causes = [error]
    while (cause := causes[-1].__cause__) is not None:
        causes.append(cause)
    return causes


def retry_after_s(headers: Mapping[str, str], *, clock: Callable[[], float] = time.time) -> float | None:
    """Read how long the endpoint wants to be left alone, in seconds from now.

    Understands `retry-after-ms`, and `retry-after` in seconds or as an HTTP date; None when absent or unreadable.
    """
    for name, unit_s in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        value = headers.get(name, "")
        if re.fullmatch(r"\s*\d+(?:\.\d+)?\s*", value):
            return float(value) * unit_s
    try:
        date = email.utils.parsedate_to_datetime(headers.get("retry-after", ""))
    except ValueError:
        return None
    return max(0.0, date.timestamp() - clock())
