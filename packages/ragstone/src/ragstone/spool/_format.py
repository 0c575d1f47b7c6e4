r"""File format of a spool.

A segment is a text file with one line per entry, so that it can be inspected with `less`:

```
{"magic": "ragstone-spool", "format": 1, "pid": 4711, "created_at": 1767225600.0, "lines": 2           }
89d0b4ea 0000018f + {"schema_version":1,"entry":"captured","trace":{...}}
5b1c7c5f 0000012a . {"schema_version":1,"entry":"captured","trace":{...}}
2d3c1a90 00000000 $
```

CRC-32 and length are hexadecimal. The CRC covers the mark, the space and the payload. The length covers the payload.
The mark is `+` if more lines of the same append follow, `.` on its last line and `$` on the last line of a sealed
segment. An append is complete if its `.` line is present. Readers ignore an incomplete append (disk full, `kill -9`),
even if some of its lines are complete.

`lines` is the number of entries. The writer replaces it after each append, so its field has a fixed width. A reader
compares it with the entries that it finds, because a file that was cut looks like one whose writer was killed.
"""

from __future__ import annotations

import json
import math
import re
import zlib
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final, NamedTuple

from ragstone.schema import SCHEMA_VERSION, check_version

NAME: Final = re.compile(r"\d{8}T\d{6}\.\d{6}Z-\d+-[0-9a-f]{8}\.seg")
"""Names of segments. Their order is the order of creation."""

MORE: Final = b"+"
LAST: Final = b"."
SEAL: Final = b"$"

_MAGIC: Final = "ragstone-spool"
_YEAR_10000: Final = 253_402_300_800
_PREFIX: Final = len(b"89d0b4ea 0000018f + ")


class Header(NamedTuple):
    """What the first line of a segment says."""

    created_at: float
    """Unix seconds."""
    n_lines: int | None
    """Number of entries of the last append whose number was written and all before it, or None if it is damaged."""


def header(*, pid: int, created_at: float) -> bytes:
    """Return the first line of a segment. It ends with `count_field(0)`."""
    fields = json.dumps({"magic": _MAGIC, "format": SCHEMA_VERSION, "pid": pid, "created_at": created_at})
    return fields[:-1].encode() + b', "lines": ' + count_field(0)


def count_field(n_lines: int) -> bytes:
    """Return the end of a header, which always has the same length."""
    return b"%-12d}\n" % n_lines


@lru_cache(maxsize=256)
def read_header(line: bytes, *, name: str) -> Header | None:
    """Read the first line of a segment. Return None if it is not one, or is damaged.

    Raise StoreVersionError if another version of Ragstone wrote the segment.
    """
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not line.endswith(b"\n") or not isinstance(fields, dict) or fields.get("magic") != _MAGIC:
        return None
    check_version(f"the spool segment {name!r}", fields.get("format"))
    created_at, n_lines = fields.get("created_at"), fields.get("lines")
    if not isinstance(created_at, int | float):
        return None
    if not 0 <= created_at < _YEAR_10000 or not math.isfinite(created_at):
        return None
    return Header(float(created_at), n_lines if isinstance(n_lines, int) and n_lines >= 0 else None)


def is_cut_header(line: bytes) -> bool:
    """Return whether the last line of a file is all that is left of a header. Zeros at its end count as nothing."""
    start = json.dumps({"magic": _MAGIC})[:-1].encode()
    rest = line.rstrip(b"\0")
    return not line.endswith(b"\n") and rest[: len(start)] == start[: len(rest)]


def created_at_of(name: str) -> float | None:
    """Return the creation time in the name of a segment (Unix seconds), or None if it is not a date."""
    try:
        return datetime.strptime(name[:22], "%Y%m%dT%H%M%S.%f").replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None


def frame(payload: bytes, mark: bytes) -> bytes:
    """Return the line for a payload without newlines: its checksum, its length, the mark and the payload."""
    body = mark + b" " + payload
    return b"%08x %08x %b\n" % (zlib.crc32(body), len(payload), body)


def unframe(line: bytes) -> tuple[bytes, bytes] | None:
    """Return the mark and the payload of a line, or None if the line is damaged or not from a spool."""
    if len(line) <= _PREFIX or not line.endswith(b"\n"):
        return None
    body = line[_PREFIX - 2 : -1]
    if line[: _PREFIX - 2] != b"%08x %08x " % (zlib.crc32(body), len(body) - 2):
        return None
    return body[:1], body[2:]


END: Final = frame(b"", SEAL)
"""The last line of a sealed segment."""
