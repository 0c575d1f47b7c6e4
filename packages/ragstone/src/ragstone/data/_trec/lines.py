"""Lines of a text file, and what is said of those that are wrong."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path

from ragstone.errors import ConfigurationError, DataError

__all__ = ["finite", "numbered", "refuse", "token"]


def numbered(path: Path, what: str) -> Iterator[tuple[int, str]]:
    """Yield each line that is not blank, with its number.

    Raises:
        ConfigurationError: There is no such file.
        DataError: It is no text in UTF-8.
    """
    if not path.is_file():
        raise ConfigurationError(f"there is no file {str(path)!r} with {what}")
    try:
        with path.open(encoding="utf-8-sig") as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    yield number, line
    except UnicodeDecodeError as error:
        raise DataError(f"{str(path)!r} is no text in UTF-8: {error}") from error


def finite(text: str) -> float | None:
    """The number in a text; None where there is none, or none that can be compared (NaN, infinity)."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def refuse(path: Path, errors: Sequence[DataError]) -> None:
    """Raise one error that names the first bad lines, if there are any.

    Raises:
        DataError: There are.
    """
    if errors:
        shown = "\n  ".join(map(str, errors[:5]))
        more = f"\n  and {len(errors) - 5} more" if len(errors) > 5 else ""
        raise DataError(f"{len(errors)} lines of {str(path)!r} cannot be read:\n  {shown}{more}")


def token(text: str, what: str) -> str:
    """Refuse what would fall apart at a space.

    Raises:
        DataError: It would.
    """
    if not text or len(text.split()) != 1 or text != text.strip():
        raise DataError(
            f"{what} {text!r} cannot stand in a TREC file: columns are parted by spaces, so it must hold none, and not be empty"
        )
    return text
