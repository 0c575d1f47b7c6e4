"""Small things that every tool's records hold in its own way: names of fields, times, ids, and what a model replied."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from ragstone.replay._payloads import answer_in, count_in

__all__ = [
    "Reply",
    "has_fields",
    "mapping",
    "parse_names",
    "reply_in",
    "snake_case",
    "text_or_none",
    "tokens_in",
    "unix_time",
]

_TOKEN_KEYS: Final = (
    ("input_tokens", "prompt_tokens", "input"),
    ("output_tokens", "completion_tokens", "output"),
)
_HUMP: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_NAME: Final = re.compile(rb'"([A-Za-z0-9_.]{1,80})"\s*:')
_PARQUET: Final = b"PAR1"


def has_fields(head: bytes, *names: str) -> bool:
    """Whether the beginning of a JSON file has all these names of fields, or a Parquet file's end these of columns."""
    if head.startswith(_PARQUET):
        return all(name.encode() in head for name in names)
    return parse_names(head).issuperset(names)


def parse_names(head: bytes) -> set[str]:
    """The names of fields in the beginning of a JSON file, at any depth; those in texts are escaped, and not among them."""
    return {found.decode() for found in _NAME.findall(head)}


def snake_case(record: Mapping[str, Any]) -> dict[str, Any]:
    """A record with `parentObservationId` as `parent_observation_id`: tools' APIs and exports differ in this."""
    return {_HUMP.sub("_", name).lower(): value for name, value in record.items()}


def mapping(value: Any) -> Mapping[str, Any]:
    """The value if it is an object, else an empty one."""
    return value if isinstance(value, Mapping) else {}


def text_or_none(value: Any) -> str | None:
    """A text with something in it, or a whole number as text; None for anything else."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return value if isinstance(value, str) and value else None


def unix_time(value: Any) -> float | None:
    """A time in Unix seconds: ISO 8601 (UTC where it names no zone), or a number of seconds, or of finer units."""
    if isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value.strip())
            return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
        except (ValueError, OverflowError):
            return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
        return None
    # Since 1973 seconds have nine digits or ten, milliseconds twelve or thirteen: no unit reaches into the next one's.
    unit = next((unit for unit in (1e9, 1e6, 1e3) if value >= 1e8 * unit), 1.0)
    return value / unit


def tokens_in(usage: Any) -> tuple[int | None, int | None]:
    """Tokens read and written, under any tool's names for them."""
    first, second = (_first_count(mapping(usage), keys) for keys in _TOKEN_KEYS)
    return first, second


def _first_count(usage: Mapping[str, Any], keys: Sequence[str]) -> int | None:
    return next((count for key in keys if (count := count_in(usage.get(key))) is not None), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What one call of a model says."""

    text: str | None
    """None when it is a call of a tool, or has no text."""
    model: str | None
    input_tokens: int | None
    output_tokens: int | None


def reply_in(outputs: Any) -> Reply:
    """Read what a model gave back: a text, a message, LangChain's result, or an answer of OpenAI's API."""
    whole = mapping(outputs)
    generation = mapping(_first(_first(whole.get("generations"))))
    message = mapping(generation.get("message") or mapping(_first(whole.get("choices"))).get("message"))
    message = mapping(message.get("kwargs")) if message.get("lc") else message
    about, output = mapping(message.get("response_metadata")), mapping(whole.get("llm_output"))
    usages = (message.get("usage_metadata"), about.get("token_usage"), output.get("token_usage"), whole.get("usage"))
    models = (about.get("model_name"), about.get("model"), output.get("model_name"), whole.get("model"))
    read, written = tokens_in(next((usage for usage in usages if isinstance(usage, Mapping) and usage), None))
    return Reply(
        text=None if message.get("tool_calls") else answer_in(outputs),
        model=next((model for model in map(text_or_none, models) if model), None),
        input_tokens=read,
        output_tokens=written,
    )


def _first(value: Any) -> Any:
    return value[0] if isinstance(value, list) and value else value
