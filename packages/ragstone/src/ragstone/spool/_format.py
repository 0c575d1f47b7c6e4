r"""The files of a spool, byte by byte.

A segment is text, one line an entry, so that it can be read with `less` when everything else is broken:

```
{"magic": "ragstone-spool", "format": 1, "pid": 4711, "created_at": 1767225600.0}
89d0b4ea 0000018f + {"schema_version":1,"entry":"captured","trace":{...}}
5b1c7c5f 0000012a . {"schema_version":1,"entry":"captured","trace":{...}}
2d3c1a90 00000000 $
```

CRC-32 and length are in hexadecimal; the CRC covers the mark, the blank and the payload, the length the payload. The mark is `+`
when more lines of the same append follow, `.` on its last line and `$` on the last line of a sealed segment. An append
counts when its `.` is there: one that was cut off half way (disk full, `kill -9`) never was, even where some of its
lines are whole.
"""

from __future__ import annotations

import json
import os
import re
import zlib
from pathlib import Path
from typing import Final

from ragstone.errors import SpoolError

__all__ = ["END", "LAST", "MORE", "NAME", "SEAL", "frame", "header", "read_header", "sync_directory", "unframe"]

NAME: Final = re.compile(r"\d{8}T\d{6}\.\d{6}Z-\d+-[0-9a-f]{8}\.seg")
"""Names of segments; their order is the order of creation."""

MORE: Final = b"+"
LAST: Final = b"."
SEAL: Final = b"$"

_MAGIC: Final = "ragstone-spool"
_FORMAT: Final = 1
_PREFIX: Final = len(b"89d0b4ea 0000018f + ")


def header(*, pid: int, created_at: float) -> bytes:
    """The first line of a segment."""
    return json.dumps({"magic": _MAGIC, "format": _FORMAT, "pid": pid, "created_at": created_at}).encode() + b"\n"


def read_header(line: bytes, *, name: str) -> float | None:
    """The creation time of a segment by its first line, in Unix seconds; None when the file is not one of ours.

    Raises:
        SpoolError: The segment was written by a newer Ragstone.
    """
    try:
        fields = json.loads(line)
    except ValueError:
        return None
    if not line.endswith(b"\n") or not isinstance(fields, dict) or fields.get("magic") != _MAGIC:
        return None
    version, created_at = fields.get("format"), fields.get("created_at")
    if not isinstance(version, int) or not isinstance(created_at, int | float):
        return None
    if version > _FORMAT:
        raise SpoolError(
            f"segment {name!r} has spool format {version}, and this Ragstone reads up to {_FORMAT}; "
            "upgrade the reading side with: pip install -U ragstone"
        )
    return float(created_at)


def frame(payload: bytes, mark: bytes) -> bytes:
    """A payload without newline as a line with its length and checksum."""
    body = mark + b" " + payload
    return b"%08x %08x %b\n" % (zlib.crc32(body), len(payload), body)


def unframe(line: bytes) -> tuple[bytes, bytes] | None:
    """Mark and payload of a line; None when it is damaged or not one of ours."""
    if len(line) <= _PREFIX or not line.endswith(b"\n"):
        return None
    body = line[_PREFIX - 2 : -1]
    if line[: _PREFIX - 2] != b"%08x %08x " % (zlib.crc32(body), len(body) - 2):
        return None
    return body[:1], body[2:]


END: Final = frame(b"", SEAL)
"""The last line of a sealed segment."""


def sync_directory(directory: Path) -> None:
    """Put the names of new and removed files on the disk, which syncing the files themselves does not."""
    fd = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
