"""Fail if Ragstone's front door loads something heavy, or costs over 100 ms more than `import pydantic`.

Run it with the python of an environment that holds the core and nothing else.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

BUDGET_S = 0.1
ROUNDS = 9
HEAVY = (
    "numpy",
    "scipy",
    "nltk",
    "sacrebleu",
    "torch",
    "openai",
    "aiohttp",
    "typer",
    "rich",
    "langchain_core",
    "langchain",
    "llama_index",
)


def run(code: str) -> str:
    """Run `code` in a fresh process; return what it printed."""
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout


def seconds(code: str) -> float:
    """Wall seconds of a fresh process that runs `code`."""
    start = time.perf_counter()
    run(code)
    return time.perf_counter() - start


def main() -> int:
    """Measure, print, and return the exit status."""
    # What most applications write; names come from their rooms when asked for, so this is where heaviness would show.
    loaded = run("from ragstone import Monitor, evaluate; import sys; print(*sys.modules)").split()
    heavy = sorted(set(HEAVY) & set(loaded))
    # Interleaved, because a machine has busy and quiet minutes; medians, because it has busy seconds.
    statements = ("import pydantic", "import ragstone", "from ragstone import Monitor")
    rounds = [[seconds(statement) for statement in statements] for _ in range(ROUNDS)]
    medians = [statistics.median(column) for column in zip(*rounds, strict=True)]
    for statement, median in zip(statements, medians, strict=True):
        print(f"{median * 1000:4.0f} ms  {statement} (median of {ROUNDS} fresh processes)")
    if heavy:
        print(f"ragstone loads {', '.join(heavy)} before anything needs it")
    slow = medians[1] - medians[0] > BUDGET_S
    if slow:
        print(f"import ragstone costs more than {BUDGET_S * 1000:.0f} ms on top of pydantic")
    return int(bool(heavy) or slow)


if __name__ == "__main__":
    sys.exit(main())
