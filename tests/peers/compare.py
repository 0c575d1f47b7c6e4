"""Run each tool on the same rows, judge and machine, and print the tables of docs/reference/benchmarks.md.

`nox -s compare-peers` makes an environment for each tool and passes its interpreter: `compare.py ragstone=PATH ragas=PATH ...`.
All servers are on the loopback interface. Tools run in turn, in `RAGSTONE_PEERS_ROUNDS` rounds, and the table has medians.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

HERE: Final = Path(__file__).parent
ROUNDS: Final = int(os.environ.get("RAGSTONE_PEERS_ROUNDS", "3"))
ROWS: Final = int(os.environ.get("RAGSTONE_PEERS_ROWS", "30"))
LATENCY_S: Final = 0.05
JUDGED: Final = ("ragstone", "ragas", "deepeval")
FAULTS: Final = {
    "empty": "lists in valid replies are empty",
    "prose": "replies are not in the format",
    "down": "HTTP status 500",
}
TIMEOUT_S: Final = 900


@contextmanager
def judge(python: str, latency_s: float = LATENCY_S) -> Iterator[str]:
    """Start the judge server, and yield its address."""
    command = [python, str(HERE / "judge.py"), str(latency_s)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.stdin.close()
            process.wait(10)


def get(url: str) -> Any:
    """Return the JSON at an address of the judge server."""
    with urllib.request.urlopen(url, timeout=10) as reply:  # noqa: S310 - our own server
        return json.load(reply)


def adapter(python: str, name: str, *arguments: str | int) -> dict[str, Any]:
    """Run an adapter in an empty directory, and return what it prints as its last line."""
    with tempfile.TemporaryDirectory() as empty:
        command = [python, str(HERE / f"with_{name}.py"), *map(str, arguments)]
        environment = {**os.environ, "PYTHONPATH": str(HERE), "HOME": empty}
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=TIMEOUT_S, cwd=empty, env=environment, check=False
        )
    lines = done.stdout.strip().splitlines()
    if done.returncode or not lines:
        raise SystemExit(f"{name}: exit code {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-4000:]}")
    found: dict[str, Any] = json.loads(lines[-1])
    return found


def table(head: list[str], rows: list[list[str]]) -> None:
    """Print a Markdown table."""
    print("| " + " | ".join(head) + " |")
    print("|" + "---|" * len(head))
    for row in rows:
        print("| " + " | ".join(row) + " |")
    print(flush=True)


def cost(pythons: dict[str, str]) -> None:
    """Print requests, tokens, time and CPU of four metrics for each tool."""
    rounds: dict[str, list[dict[str, Any]]] = {name: [] for name in pythons}
    with judge(pythons["ragstone"]) as url:
        for _ in range(ROUNDS):
            for name, python in pythons.items():
                get(f"{url}/count")
                found = adapter(python, name, f"{url}/v1", ROWS)
                if "raised" in found:
                    raise SystemExit(f"{name}: {found['raised']}")
                rounds[name].append(found | get(f"{url}/count"))
    print(f"## Four metrics of {ROWS} rows, a judge with {LATENCY_S * 1000:.0f} ms latency\n")
    rows = []
    for name, found in rounds.items():

        def middle(key: str, found: list[dict[str, Any]] = found) -> float:
            return statistics.median(one[key] for one in found)

        calls = middle("requests") + middle("embeddings")
        ideal_s = calls / 16 * LATENCY_S
        ours = rounds["ragstone"]
        rows.append(
            [
                name,
                f"{middle('requests') / ROWS:.1f}",
                f"{middle('embeddings') / ROWS:.1f}",
                f"{middle('prompt') / ROWS / 4:,.0f}",
                f"{middle('reply') / ROWS / 4:,.0f}",
                f"{middle('peak'):.0f}",
                f"{middle('wall_s') / ideal_s:.1f}",
                f"{statistics.median(a['cpu_s'] / b['cpu_s'] for a, b in zip(found, ours, strict=True)):.1f}",
                f"{min(found[-1]['scored'].values())} of {ROWS}",
            ]
        )
    head = ["tool", "judge calls a row", "embedding calls a row", "prompt tokens a row", "reply tokens a row"]
    table([*head, "concurrent calls", "time, x ideal", "CPU, x ragstone", "scored"], rows)


def failures(pythons: dict[str, str]) -> None:
    """Print what each tool reports if every reply of the judge is unusable."""
    print("## What is reported if the judge is of no use\n")
    rows = []
    with judge(pythons["ragstone"], 0.0) as url:
        for mode, label in FAULTS.items():
            get(f"{url}/mode/{mode}")
            for name, python in pythons.items():
                get(f"{url}/count")
                found = adapter(python, name, f"{url}/v1", 4)
                asked = get(f"{url}/count")["requests"]
                if "raised" in found:
                    said = [f"raises `{found['raised'].split(':')[0]}`"] * 4
                else:
                    said = ["no mean" if mean is None else f"{mean:.2f}" for mean in found["means"].values()]
                scored = sum(found.get("scored", {}).values())
                rows.append([label, name, *said, f"{scored} of 16", f"{asked / 4:.1f}"])
    head = ["judge", "tool", "faithfulness", "answer relevancy", "context precision", "context recall"]
    table([*head, "counted as scored", "requests a row"], rows)


def main(pairs: list[str]) -> None:
    """Print all tables."""
    pythons = dict(pair.split("=", 1) for pair in pairs)
    judged = {name: pythons[name] for name in JUDGED}
    cost(judged)
    failures(judged)
    for name in ("tracing", "retrieval"):
        found = adapter(pythons[name], name)
        print(f"## {found['title']}\n")
        table(found["head"], found["rows"])


if __name__ == "__main__":
    main(sys.argv[1:])
