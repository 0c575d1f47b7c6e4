"""Mutations of bytes for fuzz tests. All randomness comes from the generator that is passed in."""

from __future__ import annotations

import gzip
import json
import random
import zlib
from collections.abc import Callable

HOSTILE = [
    b"null", b"true", b"-1", b"1e999", b"NaN", b"-Infinity", b"9" * 5000, b'""', b"[]", b"{}", b"[[[[[[", b'{"a":',
    b'"\\ud800"', b'"\\u0000"', b"\xff\xfe", b"\x00", b"[" * 2000, b'{"lc":1,"type":"constructor","id":[],"kwargs":7}',
    b'{"role":null,"content":[1,{"type":"text"}]}', b'"0000000000000000"', b'"-1"', b'"' + b"A" * 3000 + b'"',
]  # fmt: skip


def cut(content: bytes, rng: random.Random) -> bytes:
    """The end is missing."""
    return content[: rng.randrange(len(content) + 1)]


def flip(content: bytes, rng: random.Random) -> bytes:
    """Some bits are others."""
    changed = bytearray(content)
    for _ in range(rng.choice([1, 2, 8, 64])):
        changed[rng.randrange(len(changed))] = rng.randrange(256)
    return bytes(changed)


def paste(content: bytes, rng: random.Random) -> bytes:
    """Something hostile stands in the middle, in place of some bytes."""
    at = rng.randrange(len(content))
    return content[:at] + rng.choice(HOSTILE) + content[at + rng.choice([0, 0, 1, 10, 500]) :]


def swap_value(content: bytes, rng: random.Random) -> bytes:
    """A value of JSON is another one: what comes is still JSON."""
    lines = content.splitlines()
    try:
        values = [json.loads(line) for line in lines]
    except (ValueError, RecursionError):
        values = []
    if not values:
        return paste(content, rng)
    for _ in range(rng.choice([1, 1, 3, 10])):
        holder, key = place_in(values, rng)
        holder[key] = rng.choice(
            [
                None,
                True,
                -1,
                2**70,
                1e308,
                "",
                "x",
                [],
                {},
                [[]],
                {"a": {"b": [1]}},
                [None, "x", {}],
                "{",
                "[1,",
                "\ud800",
            ]
        )
    return b"\n".join(json.dumps(value).encode() for value in values)


def place_in(values: list, rng: random.Random):
    """A place deep in some values."""
    holder, key = values, rng.randrange(len(values))
    for _ in range(rng.randrange(1, 14)):
        inner = holder[key]
        if isinstance(inner, dict) and inner:
            holder, key = inner, rng.choice(list(inner))
        elif isinstance(inner, list) and inner:
            holder, key = inner, rng.randrange(len(inner))
    return holder, key


def double(content: bytes, rng: random.Random) -> bytes:
    """A part comes twice."""
    start, end = sorted(rng.randrange(len(content) + 1) for _ in range(2))
    return content[:end] + content[start:end] + content[end:]


def squeeze(content: bytes, rng: random.Random) -> bytes:
    """Compressed, and then damaged."""
    return flip(gzip.compress(content, 1, mtime=0), rng)


def inside(content: bytes, rng: random.Random) -> bytes:
    """The content of compressed bytes is damaged, and compressed again without damage."""
    if not content.startswith(b"\x1f\x8b"):
        return paste(content, rng)
    try:
        unpacked = gzip.decompress(content)
    except (OSError, EOFError, zlib.error):
        return flip(content, rng)
    changed = rng.choice([cut, flip, paste, swap_value, double])(unpacked, rng) if unpacked else rng.choice(HOSTILE)
    return gzip.compress(changed, 1, mtime=0)


MUTATIONS: list[Callable[[bytes, random.Random], bytes]] = [
    cut,
    flip,
    paste,
    swap_value,
    swap_value,
    double,
    squeeze,
    inside,
]
