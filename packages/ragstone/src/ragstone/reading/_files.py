"""Bytes of files as plain UTF-8, and the names of files that do not contain rows or traces."""

from __future__ import annotations

import codecs
import gzip
import io
import re
import sys
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO, Final, cast

from ragstone._util.lazy import needs_extra
from ragstone.errors import ConfigurationError, DataError

PARQUET: Final = b"PAR1"
_GZIP: Final = b"\x1f\x8b"
_ZSTD: Final = b"\x28\xb5\x2f\xfd"
_ZSTD_CHUNK: Final = 1024
_CHUNK: Final = 64 * 2**10
_BOMS: Final = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
_PAIRS: Final = 4
"""Characters of ASCII that a file without a mark must begin with to be UTF-16."""
_HIGH: Final = re.compile(rb"[\x80-\xff]+")
_TALKS: Final = 'Write each conversation as a line: {"messages": [{"role": "user", "content": "..."}, ...]}, or a table of questions'
_OTHERS: Final[tuple[tuple[str, str, str], ...]] = (
    (r"version https://git-lfs", "a Git LFS pointer, not the file itself", "Fetch the file: git lfs pull"),
    (r"%PDF", "a PDF document", "Write its questions and answers as CSV or JSON lines"),
    (r"\xd0\xcf\x11\xe0", "an Excel file of the old format (.xls)", "Save it as .xlsx or as CSV"),
    (
        r"SQLite format 3\x00", "a SQLite database of another application",
        "Write its table as CSV: sqlite3 -csv -header FILE 'SELECT * FROM TABLE' > NEW.csv",
    ),
    (r"BZh", "compressed with bzip2", "Decompress it: bunzip2 FILE"),
    (r"\xfd7zXZ\x00", "compressed with xz", "Decompress it: unxz FILE"),
    (r"7z\xbc\xaf\x27\x1c", "a 7z archive", "Extract it, and name a file in it"),
    (
        r"\S{1,200}[ \t]{1,9}Q?0[ \t]{1,9}\S{1,200}[ \t]{1,9}-?\d{1,9}\r?\n", "qrels, which are relevance labels",
        "Give them next to a run or samples: --qrels FILE",
    ),
    (r"(?s)PK\x03\x04.{0,60}mimetypeapplication/vnd\.oasis", "an OpenDocument file", "Save it as .xlsx or as CSV"),
    (r"(?s)PK\x03\x04.{0,9000}?word/", "a Word document", "Save its table as CSV"),
    (r"(?s)PK\x03\x04.{0,9000}?xl/", "a damaged Excel workbook", "Save it again, as .xlsx or as CSV"),
    (r"PK\x03\x04", "a ZIP archive", "Extract it, and name a file in it"),
    (
        r"\x80[\x02-\x05]", "a Python pickle, which may run any code when it is read, so it never is",
        "Write the objects as JSON, for example with langchain_core.load.dumps or LlamaIndex's model_dump_json",
    ),
    (
        r"WEBVTT|1\r?\n\d\d:\d\d:\d\d,\d{3} -->|[\[(]?(?:\d{1,2}:)?\d{1,2}:\d\d[\])]? ", "a transcript", _TALKS,
    ),
    (
        r"(?i:user|human|customer|agent|assistant|interviewer|speaker \d{1,3}|q|question) ?: [^\n,;\t\x22]{1,300}\n",
        "a transcript", _TALKS,
    ),
    (
        r"(?:\s*+#[^\n]*+\n)*+\s*+\|[^\n]*\n\s*+\|[ :|-]++\r?\n", "a Markdown table", "Save it as CSV or JSON lines",
    ),
    (
        r"(?:---\r?\n)?(?:\w{1,80}:\s*\n\s*)?- \w{1,80}: ", "a YAML document",
        "Write it as JSON: yq -o json FILE > NEW.json",
    ),
    (
        r"\[{1,2}[a-z_.]{1,80}\]{1,2}\r?\n\w{1,80} ?= ?", "a TOML document",
        "Write it as JSON: yq -p toml -o json FILE > NEW.json",
    ),
    (
        r"\s*+(?:<!--[^>]{0,200}-->\s*+)?<(?i:!doctype html|html|head)\b", "an HTML page, not data",
        "Check the address: a login or an error page is often saved in its place. A table in it: save it as CSV or .xlsx",
    ),
)  # fmt: skip
"""Files that cannot contain rows: how their first bytes look, what they are, and the way out."""
_OTHER: Final = tuple((re.compile(pattern.encode()), kind, remedy) for pattern, kind, remedy in _OTHERS)


def open_plain(raw: BinaryIO, encoding: str | None = None) -> tuple[BinaryIO, str]:
    """Return a stream of the decompressed bytes of a file, in UTF-8 without a byte order mark, and the file's encoding.

    UTF-16 is detected by its mark, or by ASCII characters with a zero byte each at the start of the file. Raise
    ConfigurationError if Python does not know the encoding. Raise MissingExtraError if a Zstandard file needs a missing
    package.
    """
    first = raw.read(2 * _PAIRS)
    raw.seek(0)
    stream = raw
    if first.startswith(_GZIP):
        stream = cast("BinaryIO", gzip.GzipFile(fileobj=raw, mode="rb"))
        first = stream.peek(2 * _PAIRS)  # type: ignore[attr-defined]
    elif first.startswith(_ZSTD):
        stream = _stream(_zstandard(raw))
        first = stream.peek(2 * _PAIRS)  # type: ignore[attr-defined]
    try:
        found = (encoding and codecs.lookup(encoding).name) or detect_encoding(first)
    except LookupError:
        raise ConfigurationError(
            f"unknown encoding {encoding!r}. Use a name that Python knows, such as cp1252 or latin-1"
        ) from None
    if found == "utf-8-sig" or (found == "utf-8" and first.startswith(codecs.BOM_UTF8)):
        stream.read(3)
    elif found != "utf-8":
        return _stream(_recoded(stream, found)), found
    return stream, found


def detect_encoding(first: bytes) -> str:
    """Return the encoding that the first bytes of a file show: "utf-8", "utf-8-sig", or a variant of UTF-16."""
    for mark, name in _BOMS.items():
        if first.startswith(mark):
            return name
    start = first[: 2 * _PAIRS]
    for name, zeros, letters in (("utf-16-le", start[1::2], start[::2]), ("utf-16-be", start[::2], start[1::2])):
        if len(start) == 2 * _PAIRS and not any(zeros) and all(0 < letter < 128 for letter in letters):
            return name
    return "utf-8"


def corruption_errors() -> tuple[type[Exception], ...]:
    """Return the errors that reading a damaged file raises, with Zstandard's error only if its package is imported."""
    zstandard = sys.modules.get("zstandard")
    return (OSError, EOFError, zlib.error, *([zstandard.ZstdError] if zstandard else []))


def refuse_other(head: bytes, name: str) -> None:
    """Raise an error that names the kind of a file by its first bytes, if it cannot contain rows.

    Raise DataError if the file is of another kind: a pointer, a page, an archive, a pickle.
    """
    for start, kind, remedy in _OTHER:
        if start.match(head[:10_000]) is not None:
            raise DataError(f"{name!r} is {kind}. {remedy}")


def is_workbook(file: BinaryIO) -> bool:
    """Return whether a file is an Excel workbook (.xlsx)."""
    try:
        with zipfile.ZipFile(file) as archive:
            return any(name.lower() == "xl/workbook.xml" for name in archive.namelist())
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError):
        return False


def encoding_error(lines: Iterable[bytes], name: str) -> DataError:
    """Return the error about a file that is not UTF-8: its first invalid line, and what to do."""
    found, others, accented = None, 0, None
    for number, line in enumerate(lines, start=1):
        try:
            if not line.decode().isascii():
                accented = accented or number
        except UnicodeDecodeError as error:
            others += 1
            found = found or (number, error)
    if found is None:
        return DataError(f"{name!r} is not UTF-8. Convert it to UTF-8")
    if accented is None:
        return DataError(f"line {found[0]} of {name!r} is {describe_bytes(found[1])}")
    return DataError(
        f"{name!r} has two encodings: line {accented} is UTF-8, and line {found[0]} is not (byte "
        f"0x{found[1].object[found[1].start]:02x}{f', as {others - 1} more' if others > 1 else ''}). No --encoding reads both. "
        f"Write the lines that are not UTF-8 again, such as with iconv -f cp1252 -t utf-8 on these lines alone"
    )


def describe_bytes(error: UnicodeDecodeError) -> str:
    """Return what is wrong with a text that is not UTF-8, and what to do."""
    names = _possible_encodings(error.object)
    letters = error.object[error.start :]
    shown = [f"{name}: {letters.decode(name, 'replace')[:1]!r}" for name in names]
    first = names[0] if names else "ENCODING"
    return (
        f"not UTF-8: byte 0x{letters[:1].hex()} (in {', in '.join(shown) or 'an unknown encoding'}). Convert the "
        f"file: iconv -f {first} -t utf-8 FILE > NEW, or `evaluate` it with --encoding {first} (encoding={first!r})"
    )


def _possible_encodings(text: bytes) -> list[str]:
    """Return encodings of a text, the likeliest first: letters with accents stand alone, and other scripts are longer."""
    runs = _HIGH.findall(text)
    is_western = sum(map(len, runs)) <= 2 * len(runs)
    names = ("cp1252", "cp932", "gb18030") if is_western else ("cp932", "gb18030", "euc_kr", "cp1251")
    return [name for name in names if "\N{REPLACEMENT CHARACTER}" not in text.decode(name, "replace")][:3]


def _zstandard(raw: BinaryIO) -> Iterator[bytes]:
    """Yield the contents of consecutive Zstandard frames. The package's reader does not detect a truncated file."""
    with needs_extra("replay", "zstandard", "a Zstandard file"):
        import zstandard
    frame: Any = None
    rest = b""
    # So little at once, because a bomb may make 32 KiB of each byte.
    while rest := rest or raw.read(_ZSTD_CHUNK):
        frame = frame or zstandard.ZstdDecompressor().decompressobj()
        yield frame.decompress(rest)
        rest = frame.unused_data
        if frame.eof:
            frame = None
    if frame is not None:
        raise EOFError("the compressed file ends in the middle; it was cut")


def _recoded(stream: BinaryIO, encoding: str) -> Iterator[bytes]:
    decoder = codecs.getincrementaldecoder(encoding)()
    try:
        while part := stream.read(_CHUNK):
            yield decoder.decode(part).encode("utf-8", "surrogatepass")
        yield decoder.decode(b"", final=True).encode("utf-8", "surrogatepass")
    except UnicodeDecodeError as error:
        raise EOFError(f"its text is not {encoding}: {error.reason}") from None


def _stream(pieces: Iterator[bytes]) -> BinaryIO:
    return cast("BinaryIO", io.BufferedReader(_Pieces(pieces)))


class _Pieces(io.RawIOBase):
    """A stream of consecutive pieces."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._piece = memoryview(b"")

    def readable(self) -> bool:
        """Whether it can be read: always."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer, or a part of it. Returns 0 at the end."""
        while not self._piece:
            piece = next(self._pieces, None)
            if piece is None:
                return 0
            self._piece = memoryview(piece)
        n = min(len(buffer), len(self._piece))
        buffer[:n] = self._piece[:n]
        self._piece = self._piece[n:]
        return n
