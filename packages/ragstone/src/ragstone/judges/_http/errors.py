"""Errors of endpoints: their messages, causes and retry times, and the secrets that must not be shown."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Self
from urllib.parse import parse_qsl, unquote, urlsplit

from ragstone.errors import JudgeRejectedError

_PERMANENT: Final[Mapping[str, int]] = {
    "invalid_api_key": 401,
    "authentication_error": 401,
    "insufficient_quota": 403,
    "permission_error": 403,
    "model_not_found": 404,
    "not_found_error": 404,
    "invalid_request_error": 400,
}
_MAX_TEXT: Final = 65_536
"""Characters of an error that are read. Validation errors may repeat a whole request."""


class RequestRefusedError(JudgeRejectedError):
    """The endpoint refused the request itself: 4xx, except for temporary errors, or an isolated failure."""

    def __init__(
        self, message: str, *, status: int, param: str | None, text: str | None = None, isolated: bool = False
    ) -> None:
        super().__init__(message)
        self.status = status
        """HTTP status, which may be any status if the refusal is `isolated`. 0 if the connection broke."""
        self.isolated = isolated
        """Whether requests without `param` succeeded, in turn with requests with it that failed."""
        self.param = param
        """The parameter that the endpoint named, or None."""
        self.text = message if text is None else text
        """Complete text of the endpoint, to find parameter names in. It may contain secrets and must not be shown."""


@dataclass(frozen=True, slots=True)
class ErrorBody:
    """The body of a reply with an error status."""

    text: str
    """Its message, or all of it if it is in no known form. It may contain secrets."""
    code: str | None = None
    """Its code, or its type if it does not have one."""
    param: str | None = None
    """The parameter that the server names."""

    @classmethod
    def read(cls, body: bytes) -> Self:
        """Read a body of any form."""
        plain = body[: 4 * _MAX_TEXT].decode(errors="replace")[:_MAX_TEXT]
        try:
            read = json.loads(body)
        except (ValueError, RecursionError):
            return cls(text=extract_error_message(plain))
        first = read[0] if isinstance(read, list) and read else read
        error = first.get("error", first) if isinstance(first, Mapping) else None
        code, param, kind = (
            str(value) if isinstance(error, Mapping) and isinstance(value := error.get(name), str | int) else None
            for name in ("code", "param", "type")
        )
        try:
            text = extract_error_message(read)[:_MAX_TEXT]
        except RecursionError:
            text = ""
        return cls(text=text or extract_error_message(plain), code=code or kind, param=param)

    @property
    def permanent_status(self) -> int | None:
        """HTTP status that its code stands for, if another attempt would fail as well, otherwise None."""
        code = self.code or ""
        is_status = re.fullmatch("4[0-9]{2}", code) and code not in ("408", "409", "425", "429")
        return int(code) if is_status else _PERMANENT.get(code)


def extract_error_message(body: object) -> str:
    """Return an error body as one line: OpenAI's form, FastAPI's (`detail`) or plain text. "" without a message."""
    if isinstance(body, str):
        return " ".join(body.split())
    if isinstance(body, list):
        return "; ".join(text for item in body if (text := extract_error_message(item)))
    if not isinstance(body, Mapping):
        return ""
    if "loc" in body and "msg" in body:
        # A validation error. Its `input` would repeat the whole request.
        where = body["loc"]
        return f"{'.'.join(map(str, where)) if isinstance(where, list) else where}: {body['msg']}"
    return next((text for key in ("message", "detail", "error") if (text := extract_error_message(body.get(key)))), "")


def causes_of(error: BaseException) -> list[BaseException]:
    """Return the error and its causes, down to the first cause. Cyclic causes are cut."""
    causes = [error]
    while (cause := causes[-1].__cause__) is not None and cause not in causes:
        causes.append(cause)
    return causes


def basic(user: str) -> str:
    """Return the header for `user:password` from a URL."""
    return f"Basic {base64.b64encode(unquote(user).encode()).decode()}"


def find_secrets(base_url: str, api_key: str | None, headers: Mapping[str, str] | None = None) -> list[str]:
    """Return the secrets of a URL, a key and headers, in all forms in which they are sent, longest first."""
    parts = urlsplit(base_url)
    secrets = {api_key or ""}
    for name, value in (headers or {}).items():
        if re.search("auth|key|token|secret|cookie", name, re.IGNORECASE):
            secrets |= {value, value.removeprefix("Bearer ")}
    if "@" in parts.netloc:
        user = parts.netloc.rpartition("@")[0]
        password = user.partition(":")[2]
        secrets |= {user, unquote(user), password, unquote(password), basic(user).removeprefix("Basic ")}
    # An API version is not secret, and messages should show it.
    named = {
        value for name, value in parse_qsl(parts.query) if re.search("key|token|secret|sig|code", name, re.IGNORECASE)
    }
    return sorted((secrets | named) - {""}, key=len, reverse=True)
