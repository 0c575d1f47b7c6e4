"""Lines of a text file, and the errors about invalid ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from ragstone._util.row_limits import bounded_lines, check_json_row
from ragstone.errors import ConfigurationError, DataError
from ragstone.reading._files import corruption_errors, describe_bytes, open_plain


def numbered(path: Path, what: str) -> Iterator[tuple[int, str]]:
    """Yield each line that is not blank, with its 1-based number.

    Raises:
        ConfigurationError: If the file does not exist.
        DataError: If the file is not valid UTF-8, or a line is too long or contains too many values.
    """
    if not path.is_file():
        raise ConfigurationError(f"file not found: {str(path)!r} (expected {what})")
    try:
        with path.open("rb") as file:
            for number, line in enumerate(bounded_lines(open_plain(file)[0]), start=1):
                if not line.strip():
                    continue
                try:
                    check_json_row(line)
                except DataError as error:
                    raise DataError(f"line {number} of {str(path)!r}: {error}") from None
                yield number, line.decode().replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise DataError(f"line {number} of {str(path)!r} is {describe_bytes(error)}") from error
    except corruption_errors() as error:
        raise DataError(f"{str(path)!r} cannot be read: {error}") from error


def refuse(path: Path, errors: Sequence[DataError]) -> None:
    """Raise one error that lists the first invalid lines, if there are any.

    Raises:
        DataError: If `errors` is not empty.
    """
    if errors:
        shown = "\n  ".join(map(str, errors[:5]))
        more = f"\n  and {len(errors) - 5} more" if len(errors) > 5 else ""
        raise DataError(f"{len(errors)} lines of {str(path)!r} cannot be read:\n  {shown}{more}")


def token(text: str, what: str) -> str:
    """Return the text if a column of a TREC file can hold it.

    Raises:
        DataError: If the text is empty or contains whitespace.
    """
    if not text or len(text.split()) != 1 or text != text.strip():
        raise DataError(
            f"{what} {text!r} cannot be written to a TREC file: spaces separate columns, so it must contain no "
            "whitespace and must not be empty"
        )
    return text
