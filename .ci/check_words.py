"""Count words of `.ci/words.txt` in code and docs with codespell, and fail if there are more than `pyproject.toml` allows."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent
PLACES = ("docs", "README.md", "CONTRIBUTING.md", "packages", "integrations", "examples")

# Words, and phrases that a word-by-word check cannot see. The letter class splits identifiers at underscores.
PHRASES = (
    r"(?i:sit out|lets? go of|there is no|(?:is|are|was|has) no(?! longer| more)|of (?:ours|yours|theirs)|bears? out|"
    r"borne out|comes? again|goes on|go on|going on|pass(?:ed|es)? over|held against|so many|the books|in earnest)\b"
)
CHECKS = (
    ("-D", ".ci/words.txt", "--regex", rf"{PHRASES}|[A-Za-z]+"),
    ("--builtin", "en-GB_to_en-US", "--regex", "[A-Za-z]+"),
)


def main() -> int:
    """Print what was found if the number exceeds the limit, which a change may only lower."""
    limit = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["ragstone"]["words"]["limit"]
    found: list[str] = []
    for options in CHECKS:
        command = ["codespell", *options, "--skip", "*.json,*.jsonl,*.csv,*.parquet,*.toml", *PLACES]
        result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        if result.returncode not in (0, 65):
            sys.exit(f"codespell failed with exit code {result.returncode}: {result.stderr}")
        found += [line for line in result.stdout.splitlines() if "==>" in line]
    if len(found) > limit:
        print(*found, sep="\n")
        print(f"{len(found)} words to replace (CONTRIBUTING.md, Words), at most {limit} are allowed")
        return 1
    if len(found) < limit:
        print(
            f"{len(found)} words to replace: lower `limit` of [tool.ragstone.words] in pyproject.toml to {len(found)}"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
