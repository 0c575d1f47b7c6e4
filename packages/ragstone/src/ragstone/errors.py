"""The exceptions that Ragstone raises deliberately, grouped by who can fix the cause.

```
RagstoneError
├── ConfigurationError (ValueError)      an invalid argument, option or environment variable
│   └── MissingExtraError (ImportError)  an optional package is missing: install the named extra
├── DataError (ValueError)               an invalid row, file or field
├── ApplicationError                     the application that `evaluate` runs fails on every sample
├── JudgeError                           no usable reply from the judge: has `kind` and the raw reply
│   ├── JudgeUnavailableError            retried: connection error, 408, 429, 5xx, timeout
│   ├── JudgeRejectedError               not retried: other 4xx, credentials, context length
│   └── JudgeReplyError                  the judge replied, but the reply cannot be used
├── SpoolError                           the spool directory is not writable, full or not a spool
├── BrokerError                          the message broker cannot be used now, or is refused
├── StoreError                           the store file
│   ├── StoreNotFoundError               no store at this path
│   ├── StoreNotReadyError               the owner has not initialized it yet
│   ├── StoreOwnedError                  another process owns it
│   ├── StoreUnavailableError            the server of the database does not answer now
│   ├── StoreVersionError                written by another version of Ragstone
│   └── StoreCorruptError                not a Ragstone store, or damaged
└── SinkError                            a destination
    ├── SinkUnavailableError             retried with backoff
    │   └── SinkTargetMissingError       retried for a day: the destination does not have the trace (yet)
    ├── SinkRejectedError                not retried: the destination rejects the row
    ├── SinkDeniedError                  stops the sink: the destination rejects the credentials
    └── SinkNoTargetError                skipped: the row does not apply to this destination
```
"""

from __future__ import annotations

from typing import Final

from typing_extensions import override

__all__ = [
    "ApplicationError",
    "BrokerError",
    "ConfigurationError",
    "DataError",
    "JudgeError",
    "JudgeRejectedError",
    "JudgeReplyError",
    "JudgeUnavailableError",
    "MissingExtraError",
    "RagstoneError",
    "SinkDeniedError",
    "SinkError",
    "SinkNoTargetError",
    "SinkRejectedError",
    "SinkTargetMissingError",
    "SinkUnavailableError",
    "SpoolError",
    "StoreCorruptError",
    "StoreError",
    "StoreNotFoundError",
    "StoreNotReadyError",
    "StoreOwnedError",
    "StoreUnavailableError",
    "StoreVersionError",
]


_LONGEST: Final = 3_000
"""Characters of a message. Longer ones quote a large value of a file or a reply."""
_END: Final = 800
"""Characters of the end of a long message, which says what to do."""


class RagstoneError(Exception):
    """Base class of all exceptions that Ragstone raises deliberately.

    The middle of a message of more than 3,000 characters is replaced by its length.
    """

    @override
    def __str__(self) -> str:
        text = super().__str__()
        if len(text) <= _LONGEST:
            return text
        start, end = text[: _LONGEST - _END], text[-_END:]
        return f"{start} ... ({len(text) - _LONGEST:,} characters) ... {end}"


class ConfigurationError(RagstoneError, ValueError):
    """An argument, option or environment variable has an invalid value."""


class MissingExtraError(ConfigurationError, ImportError):
    """An optional dependency is missing. The message contains the install command."""

    def __init__(self, *, feature: str, package: str, extra: str) -> None:
        super().__init__(
            f"{feature} needs the package {package!r}, which is not installed. Install it with: pip install '{extra}'"
        )


class DataError(RagstoneError, ValueError):
    """A row, file or field cannot be read or is invalid."""


class ApplicationError(RagstoneError):
    """The application that `evaluate` runs fails on every sample, so the run was stopped."""


class JudgeError(RagstoneError):
    """The judge did not give a usable reply.

    Attributes:
        kind: The failure kind recorded in a `Failure` outcome (see `ragstone.schema.FailureKind`).
        raw: The judge's reply, or None if it did not reply.
    """

    default_kind = "unavailable"

    def __init__(self, message: str, *, kind: str | None = None, raw: str | None = None) -> None:
        super().__init__(message)
        self.kind = kind or self.default_kind
        self.raw = raw


class JudgeUnavailableError(JudgeError):
    """The judge did not reply for a temporary reason: connection error, 408, 429, 5xx or timeout.

    Attributes:
        retry_after_s: Seconds that the endpoint asked to wait, or None.
    """

    def __init__(
        self, message: str, *, kind: str | None = None, raw: str | None = None, retry_after_s: float | None = None
    ) -> None:
        super().__init__(message, kind=kind, raw=raw)
        self.retry_after_s = retry_after_s


class JudgeRejectedError(JudgeError):
    """The endpoint rejects this request, and would reject it again."""

    default_kind = "rejected"


class JudgeReplyError(JudgeError):
    """The endpoint replied, but the reply does not have the requested form."""

    default_kind = "unparseable"


class SpoolError(RagstoneError):
    """The spool directory cannot be used."""


class BrokerError(RagstoneError):
    """The message broker between applications and workers cannot be used."""


class StoreError(RagstoneError):
    """The store cannot be used."""


class StoreNotFoundError(StoreError):
    """A store does not exist at this path."""


class StoreNotReadyError(StoreError):
    """The store file exists, but its owner has not initialized it yet."""


class StoreOwnedError(StoreError):
    """Another running process owns the store file."""


class StoreUnavailableError(StoreError):
    """The server of the database cannot be reached now. A later attempt may succeed."""


class StoreVersionError(StoreError):
    """A store or file was written by another version of Ragstone."""


class StoreCorruptError(StoreError):
    """The file is not a Ragstone store, or it is damaged."""


class SinkError(RagstoneError):
    """A destination did not accept a batch."""


class SinkUnavailableError(SinkError):
    """The destination did not accept the batch now, but may accept it later.

    Attributes:
        retry_after_s: Seconds that the destination asked to wait, or None.
    """

    def __init__(self, message: str, *, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class SinkTargetMissingError(SinkUnavailableError):
    """The destination does not have the trace of the outcome, or does not have it yet."""


class SinkRejectedError(SinkError):
    """The destination rejects the outcome or the batch, and would reject it again."""


class SinkDeniedError(SinkError):
    """The destination rejects the credentials (401, 403). Delivery stops until they are fixed."""


class SinkNoTargetError(SinkError):
    """The outcome does not apply to this destination. This is not an error, and the worker skips the outcome."""
