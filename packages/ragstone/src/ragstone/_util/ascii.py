"""Texts for outputs that cannot show all characters."""

from __future__ import annotations

import codecs
import io
from typing import Final, TextIO

_ASCII: Final = {
    "\u2026": "...",
    "\u2013": "-",
    "\u2018": "'",
    "\u2019": "'",
    "\u201c": '"',
    "\u201d": '"',
    "\u00b7": "-",
    "\u25b8": ">",
    "\u221e": "inf",
    "\u2192": "->",
    "\u00b1": "+-",
}
_HANDLER: Final = "ragstone_ascii"


def to_ascii(text: str) -> str:
    """Replace each character that is not ASCII: by similar ones, or by a question mark."""
    return text if text.isascii() else "".join(c if c.isascii() else _ASCII.get(c, "?") for c in text)


def without_controls(text: str) -> str:
    """Replace each character that cannot be printed, such as a line break, by a space."""
    return "".join(c if c.isprintable() else " " for c in text)


def replace_unshown(stream: TextIO) -> None:
    """Let a stream replace the characters that its encoding does not have, instead of raising an error."""
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors=_HANDLER)


def _replacement(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return to_ascii(error.object[error.start : error.end]), error.end


codecs.register_error(_HANDLER, _replacement)
