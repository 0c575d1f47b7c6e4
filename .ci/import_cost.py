"""Fail if `import ragstone` loads something heavy, or costs over 100 ms more than `import pydantic`.

Run it with the python of an environment that holds the core and nothing else.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

BUDGET_S = 0.1
ROUNDS = 9
HEAVY = ("numpy", "scipy", "nltk", "openai", "aiohttp", "typer", "rich", "langchain_core", "langchain", "llama_index")


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
    loaded = run("import ragstone, sys; print(*sys.modules)").split()
    heavy = sorted(set(HEAVY) & set(loaded))
    # Interleaved, because a machine has busy and quiet minutes; medians, because it has busy seconds.
    pairs = [(seconds("import pydantic"), seconds("import ragstone")) for _ in range(ROUNDS)]
    pydantic, ragstone = (statistics.median(column) for column in zip(*pairs, strict=True))
    print(f"import pydantic {pydantic * 1000:.0f} ms, import ragstone {ragstone * 1000:.0f} ms (medians of {ROUNDS})")
    if heavy:
        print(f"import ragstone loads {', '.join(heavy)}")
    if ragstone - pydantic > BUDGET_S:
        print(f"import ragstone costs more than {BUDGET_S * 1000:.0f} ms on top of pydantic")
    return int(bool(heavy) or ragstone - pydantic > BUDGET_S)


if __name__ == "__main__":
    sys.exit(main())
