"""The header of a response that says when a server accepts requests again."""

from __future__ import annotations

import email.utils
import re
import time
from collections.abc import Callable, Mapping
from typing import Final

_MAX_S: Final = 86_400.0
"""Longest wait that is reported. Nothing waits that long."""


def retry_after_s(headers: Mapping[str, str], *, clock: Callable[[], float] = time.time) -> float | None:
    """Return the number of seconds after which a server accepts requests again.

    Reads `retry-after-ms`, and `retry-after` in seconds or as an HTTP date. None if absent or invalid, at most a day.
    """
    for name, unit_s in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        value = headers.get(name, "")
        if re.fullmatch(r"\s*\d+(?:\.\d+)?\s*", value):
            return min(float(value) * unit_s, _MAX_S)
    try:
        date = email.utils.parsedate_to_datetime(headers.get("retry-after", ""))
        return min(max(0.0, date.timestamp() - clock()), _MAX_S)
    except (ValueError, OverflowError):
        return None
