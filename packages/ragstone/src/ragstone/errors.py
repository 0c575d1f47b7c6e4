"""Every error Ragstone raises on purpose, arranged by who can act on it.

```
RagstoneError
├── ConfigurationError (ValueError)      the caller: an argument, option or environment variable
│   └── MissingExtraError (ImportError)  the caller: install the named extra
├── DataError (ValueError)               the caller: a row, file or field that cannot be read
├── JudgeError                           the judge endpoint; carries `kind` and the raw reply
│   ├── JudgeUnavailableError            retried: no connection, 408, 429, 5xx, time-out
│   ├── JudgeRejectedError               not retried: other 4xx, credentials, context length
│   └── JudgeReplyError                  an answer came and could not be used
├── SpoolError                           the spool directory: not writable, full, foreign
├── StoreError                           the store file
│   ├── StoreNotReadyError               its owner is still setting it up
│   ├── StoreOwnedError                  another process owns it
│   ├── StoreVersionError                written by a newer Ragstone
│   └── StoreCorruptError                not a Ragstone store, or damaged
└── SinkError                            a destination
    ├── SinkUnavailableError             retried with back-off
    │   └── SinkTargetMissingError       retried for a day: the trace is not there (yet)
    ├── SinkRejectedError                not retried: the destination refuses the row itself
    ├── SinkDeniedError                  stops the sink: the credentials are refused
    └── SinkNoTargetError                left out: the row has no place at this destination
```
"""

from __future__ import annotations

__all__ = [
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
    "StoreNotReadyError",
    "StoreOwnedError",
    "StoreVersionError",
]


class RagstoneError(Exception):
    """Root of every error that Ragstone raises on purpose."""


class ConfigurationError(RagstoneError, ValueError):
    """An argument, option or environment variable has a value that cannot work."""


class MissingExtraError(ConfigurationError, ImportError):
    """An optional dependency is needed; the message carries the install line."""

    def __init__(self, *, feature: str, package: str, extra: str) -> None:
        super().__init__(
            f"{feature} needs the package {package!r}, which is not installed. Install it with: pip install '{extra}'"
        )


class DataError(RagstoneError, ValueError):
    """A row, file or field cannot be read as what it should be."""


class JudgeError(RagstoneError):
    """The judge gave no usable answer.

    Attributes:
        kind: The failure kind recorded in a `Failure` outcome (see `ragstone.schema.FailureKind`).
        raw: What the judge replied, if it replied at all.
    """

    default_kind = "unavailable"

    def __init__(self, message: str, *, kind: str | None = None, raw: str | None = None) -> None:
        super().__init__(message)
        self.kind = kind or self.default_kind
        self.raw = raw


class JudgeUnavailableError(JudgeError):
    """No answer for a reason that may pass: connection, 408, 429, 5xx or a time-out.

    Attributes:
        retry_after_s: Seconds the endpoint asked us to wait, if it did.
    """

    def __init__(
        self,
        message: str,
        *,
        kind: str | None = None,
        raw: str | None = None,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(message, kind=kind, raw=raw)
        self.retry_after_s = retry_after_s


class JudgeRejectedError(JudgeError):
    """The endpoint refuses this request and will refuse it again."""

    default_kind = "rejected"


class JudgeReplyError(JudgeError):
    """The endpoint answered, but the answer is not what was asked for."""

    default_kind = "unparseable"


class SpoolError(RagstoneError):
    """The spool directory cannot be used."""


class StoreError(RagstoneError):
    """The store cannot be used."""


class StoreNotReadyError(StoreError):
    """The file is there, and its owner has not set it up yet."""


class StoreOwnedError(StoreError):
    """Another living process owns the store file."""


class StoreVersionError(StoreError):
    """The store was written by a newer version of Ragstone."""


class StoreCorruptError(StoreError):
    """The file is not a Ragstone store, or it is damaged."""


class SinkError(RagstoneError):
    """A destination did not take a batch."""


class SinkUnavailableError(SinkError):
    """The destination may take the batch later.

    Attributes:
        retry_after_s: Seconds the destination asked us to wait, if it did.
    """

    def __init__(self, message: str, *, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class SinkTargetMissingError(SinkUnavailableError):
    """The destination does not have the trace that the outcome belongs to, or not yet."""


class SinkRejectedError(SinkError):
    """The destination refuses the outcome, or the batch, and will refuse it again."""


class SinkDeniedError(SinkError):
    """The destination refuses us (401, 403): nothing passes until somebody mends the credentials."""


class SinkNoTargetError(SinkError):
    """The outcome has no place at this destination, and never will: nothing is wrong, and nothing is to be done."""
