"""Lone surrogates: escapes of JSON and Python can contain them, and UTF-8 cannot encode them."""

from __future__ import annotations

from typing import Any


def replace_surrogates(text: str) -> str:
    """Return a text that UTF-8 can encode: pairs of surrogates become one character, and lone ones U+FFFD."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        # Encoding as UTF-16 joins surrogate pairs into characters.
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def replace_surrogates_in(value: Any) -> Any:
    """Return a parsed value with all of its texts as `replace_surrogates` returns them. Tuples become lists."""
    if isinstance(value, str):
        return replace_surrogates(value)
    if isinstance(value, list | tuple):
        return [replace_surrogates_in(item) for item in value]
    if isinstance(value, dict):
        return {replace_surrogates_in(key): replace_surrogates_in(item) for key, item in value.items()}
    return value
