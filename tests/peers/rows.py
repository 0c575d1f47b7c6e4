"""The rows that each tool evaluates, and what an adapter prints."""

from __future__ import annotations

import contextlib
import json
import sys
import time
import urllib.request
from collections.abc import Callable
from typing import Any

PASSAGES = 5
SENTENCE = "The tower {n} in town {i} is 300 m tall, was built in 1889 and stands beside the old harbor. "


def rows(count: int) -> list[dict[str, Any]]:
    """Return questions with five passages of about 800 characters, a response and a reference."""
    return [
        {
            "id": f"s{n}",
            "query": f"How tall is tower {n}, and where does it stand?",
            "contexts": [SENTENCE.format(n=n, i=i) * 9 for i in range(PASSAGES)],
            "response": f"Tower {n} is 300 m tall. It stands in the old town. It was built in 1889.",
            "reference": f"Tower {n} is 300 m tall and stands in the old town.",
        }
        for n in range(count)
    ]


def report(work: Callable[[str, list[dict[str, Any]]], dict[str, Any]]) -> None:
    """Run an adapter as `python adapter.py URL ROWS`, and print what it cost and returned as JSON.

    One row is evaluated before, so that imports and the first connection are not counted.
    """
    url, count = sys.argv[1], int(sys.argv[2])
    data = rows(count + 1)
    with contextlib.suppress(Exception):
        work(url, data[count:])
    with urllib.request.urlopen(f"{url.removesuffix('/v1')}/count", timeout=10):  # noqa: S310 - our own server
        del data[count:]
    wall, cpu = time.perf_counter(), time.process_time()
    try:
        result = work(url, data)
    except Exception as error:  # noqa: BLE001 - what the tool raises is the result
        result = {"raised": f"{type(error).__name__}: {error}"[:300]}
    result |= {"wall_s": time.perf_counter() - wall, "cpu_s": time.process_time() - cpu}
    print("\n" + json.dumps(result))
