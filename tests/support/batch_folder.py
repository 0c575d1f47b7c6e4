"""What a batch API does with the files of requests in a folder."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx

from fake_servers import FakeJudgeServer

__all__ = ["answer", "lines_of", "requests_in"]


def lines_of(path: Path) -> list[str]:
    """The lines of a file."""
    return path.read_text(encoding="utf-8").splitlines()


def requests_in(folder: Path) -> list[dict[str, Any]]:
    """All requests of all files, in their order."""
    return [json.loads(line) for path in sorted(folder.glob("requests-*.jsonl")) for line in lines_of(path)]


def answer(
    server: FakeJudgeServer,
    folder: Path,
    *,
    name: str = "results",
    change: Callable[[int, dict[str, Any]], object] | None = None,
) -> int:
    """Do what a batch API does with all requests that have no result: send them, and write the results in reverse order.

    `change` gets the place of each result and the result, which it may change, and returns False to leave it out.
    """
    known = set()
    for path in folder.glob("*.jsonl"):
        if not path.name.startswith("requests-"):
            known |= {json.loads(line).get("custom_id") for line in lines_of(path)}
    results = []
    for place, request in enumerate(r for r in requests_in(folder) if r["custom_id"] not in known):
        assert ("POST", "/v1/chat/completions") == (request["method"], request["url"])
        reply = httpx.post(f"{server.url.removesuffix('/v1')}{request['url']}", json=request["body"], timeout=30)
        response = {"status_code": reply.status_code, "request_id": "r", "body": reply.json()}
        result = {"id": f"b{place}", "custom_id": request["custom_id"], "response": response, "error": None}
        if change is None or change(place, result) is not False:
            results.append(result)
    with (folder / f"{name}.jsonl").open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(result) + "\n" for result in reversed(results))
    return len(results)
