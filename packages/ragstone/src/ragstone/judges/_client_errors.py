"""What other people's clients raise, sorted into our errors by what such errors have in common: a status, a name, a cause."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from ragstone.errors import JudgeError, JudgeRejectedError, JudgeReplyError, JudgeUnavailableError
from ragstone.judges._http.errors import message_in, retry_after_s

__all__ = ["judge_error_from"]

_MAX_CHARS: Final = 500
_MAX_CAUSES: Final = 8
_PASSING: Final = (408, 409, 425, 429)
"""Client errors by number that may pass."""
_QUOTA: Final = "insufficient_quota"
"""A 429 that does not pass."""

# Every client library has classes of its own, and their names say what its documentation says.
_REFUSALS: Final = ("ContentFilter", "ContentPolicy", "Refusal", "BlockedPrompt", "SafetyError")
_TIMEOUTS: Final = ("Timeout", "TimedOut", "DeadlineExceeded")
_UNAVAILABLE: Final = (
    *("Connect", "Network", "Transport", "Protocol", "Unavailable", "Overloaded", "RateLimit", "Throttl"),
    *("TooManyRequests", "ResourceExhausted", "InternalServer", "RemoteDisconnected"),
)


def judge_error_from(error: Exception, *, who: str, secrets: Sequence[str] = ()) -> JudgeError:
    """Say in our terms what a client raised.

    Args:
        error: What it raised.
        who: The model, for the message.
        secrets: Texts that the message must not show.

    Returns:
        `JudgeReplyError` ("refused") for a content filter; `JudgeUnavailableError` ("timeout", "unavailable") for what may
        pass: time-outs, lost connections, rate limits, 5xx; `JudgeRejectedError` for all else, other 4xx and bugs among it.
    """
    if isinstance(error, JudgeError):
        return error
    causes = _causes(error)
    said = _hidden(f"{type(error).__name__}: {message_in(_text(error))}"[:_MAX_CHARS], secrets)
    message = f"{who}: {said}"
    names = [kind.__name__ for cause in causes for kind in type(cause).__mro__]
    if _any_of(_REFUSALS, names):
        return JudgeReplyError(message, kind="refused")
    if (status := _status(error)) is not None:
        if status == 429 and _QUOTA in _text(error):
            return JudgeRejectedError(message)
        if status in _PASSING or status >= 500:
            kind = "timeout" if status in (408, 504) else "unavailable"
            return JudgeUnavailableError(message, kind=kind, retry_after_s=_retry_after_s(error))
        if status >= 400:
            return JudgeRejectedError(message)
    if any(isinstance(cause, TimeoutError) for cause in causes) or _any_of(_TIMEOUTS, names):
        return JudgeUnavailableError(message, kind="timeout")
    if any(isinstance(cause, OSError) for cause in causes) or _any_of(_UNAVAILABLE, names):
        return JudgeUnavailableError(message, retry_after_s=_retry_after_s(error))
    return JudgeRejectedError(message)


def _causes(error: BaseException) -> list[BaseException]:
    """The error and what it was raised from, the outermost first; loops of causes end."""
    causes = [error]
    while len(causes) < _MAX_CAUSES and (cause := causes[-1].__cause__) is not None and cause not in causes:
        causes.append(cause)
    return causes


def _any_of(parts: Sequence[str], names: Sequence[str]) -> bool:
    return any(part.lower() in name.lower() for name in names for part in parts)


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001  an error may be as broken as what raised it
        return ""


def _hidden(text: str, secrets: Sequence[str]) -> str:
    for secret in sorted(filter(None, secrets), key=len, reverse=True):
        text = text.replace(secret, "[api key]")
    # Lone surrogates can be written nowhere.
    return text.encode(errors="replace").decode()


def _status(error: BaseException) -> int | None:
    """The HTTP status, wherever client libraries keep it."""
    response = getattr(error, "response", None)
    places: list[Any] = [getattr(error, name, None) for name in ("status_code", "http_status", "status", "code")]
    places.append(getattr(response, "status_code", None))
    if isinstance(response, Mapping):
        about = response.get("ResponseMetadata")
        places.append(about.get("HTTPStatusCode") if isinstance(about, Mapping) else None)
    return next(
        (
            int(place)
            for place in places
            if isinstance(place, int) and not isinstance(place, bool) and 100 <= place < 600
        ),
        None,
    )


def _retry_after_s(error: BaseException) -> float | None:
    headers = getattr(getattr(error, "response", None), "headers", None)
    return retry_after_s(headers) if isinstance(headers, Mapping) else None
