"""Reading what an endpoint says when it has no reply, and what of it must not be shown."""

from __future__ import annotations

import base64
import email.utils
import re
import time
from collections.abc import Callable, Mapping
from urllib.parse import parse_qsl, unquote, urlsplit

__all__ = ["basic", "causes_of", "extract_error_message", "find_secrets", "retry_after_s"]


def extract_error_message(body: object) -> str:
    """What an error's body says, in one line: OpenAI's form, FastAPI's (`detail`), a bare text; "" when it says nothing."""
    if isinstance(body, str):
        return " ".join(body.split())
    if isinstance(body, list):
        return "; ".join(text for item in body if (text := extract_error_message(item)))
    if not isinstance(body, Mapping):
        return ""
    if "loc" in body and "msg" in body:
        # A validation error; its `input` would repeat the whole request.
        where = body["loc"]
        return f"{'.'.join(map(str, where)) if isinstance(where, list) else where}: {body['msg']}"
    return next((text for key in ("message", "detail", "error") if (text := extract_error_message(body.get(key)))), "")


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


def basic(user: str) -> str:
    """The header for `user:password` as it stands in a URL."""
    return f"Basic {base64.b64encode(unquote(user).encode()).decode()}"


def find_secrets(base_url: str, api_key: str | None) -> list[str]:
    """What must not be shown of a URL and a key, in the forms in which it is sent; the longest first."""
    parts = urlsplit(base_url)
    secrets = {api_key or ""}
    if "@" in parts.netloc:
        user = parts.netloc.rpartition("@")[0]
        password = user.partition(":")[2]
        secrets |= {user, unquote(user), password, unquote(password), basic(user).removeprefix("Basic ")}
    # An API version is no secret, and a message without it is no help.
    named = {
        value for name, value in parse_qsl(parts.query) if re.search("key|token|secret|sig|code", name, re.IGNORECASE)
    }
    return sorted((secrets | named) - {""}, key=len, reverse=True)
