"""Records to text and back, with errors that name the record."""

from __future__ import annotations

from pydantic import ValidationError
from pydantic_core import PydanticSerializationError

from ragstone.errors import DataError, StoreCorruptError
from ragstone.schema import Failure, NotApplicable, Score, Trace, outcome_adapter

__all__ = ["to_body", "to_outcome", "to_trace"]


def to_body(record: Trace | Score | NotApplicable | Failure) -> str:
    """JSON of a record.

    Raises:
        DataError: A free field (`metadata`, `details`, an unknown one) holds something that JSON cannot say.
    """
    try:
        return record.model_dump_json()
    except PydanticSerializationError as exc:
        name = record.trace_id if isinstance(record, Trace) else "/".join(record.key[:2])
        raise DataError(
            f"the {type(record).__name__} {name!r} cannot be stored as JSON ({exc}). Put only text, finite numbers, "
            "booleans, lists and dicts into its metadata or details."
        ) from exc


def to_trace(body: str) -> Trace:
    """The trace that `to_body` wrote.

    Raises:
        StoreCorruptError: The text is no trace.
    """
    try:
        return Trace.model_validate_json(body)
    except ValidationError as exc:
        raise StoreCorruptError(_unreadable("trace", body, exc)) from exc


def to_outcome(body: str) -> Score | NotApplicable | Failure:
    """The outcome that `to_body` wrote.

    Raises:
        StoreCorruptError: The text is no outcome.
    """
    try:
        return outcome_adapter.validate_json(body)
    except ValidationError as exc:
        raise StoreCorruptError(_unreadable("outcome", body, exc)) from exc


def _unreadable(kind: str, body: str, exc: ValidationError) -> str:
    # Neither the text nor pydantic's quotation of it: both may hold what a user asked.
    where = ", ".join(".".join(map(str, error["loc"])) or error["type"] for error in exc.errors(include_input=False))
    return (
        f"a stored {kind} of {len(body)} characters cannot be read: wrong at {where}. The store was changed by another "
        "program or is damaged; restore a backup."
    )
