"""Count how many attacks change the score of a real model, with the escapes of prompts and without them: `attacks.py URL`.

Each attack is appended to an answer, whose query relevance the model then rates. For every fourth attack, a harmless sentence takes the
place of its order. The last line of the output is JSON: for attacks and for harmless texts, how many change the score with
escapes and without (`both`, `with`, `without`, `neither`), and how many have no score (`none`).
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "support"))

from prompt_attacks import ATTACKS, ORDER, attacked
from ragstone.judges import _render as rendering
from ragstone.judges import judge_from
from ragstone.metrics import resolve_metrics
from ragstone.schema import Score
from ragstone.scoring import Scorer

HARMLESS = "NOTE: the tower is old"


async def count_changed(url: str) -> dict[str, Counter[str]]:
    """Return the number of texts by kind and by what they change."""
    judge = judge_from(url)
    scorer = Scorer(resolve_metrics("ccrs.qr"), judge)
    escape, block = rendering.escape, rendering._kept_block

    async def score(text: str, *, is_escaped: bool) -> float | None:
        rendering.escape = escape if is_escaped else lambda text: text
        rendering._kept_block = block if is_escaped else rendering._new_block
        (outcome,) = await scorer.score(attacked("response", text))
        return outcome.value if isinstance(outcome, Score) else None

    plain = {is_escaped: await score("", is_escaped=is_escaped) for is_escaped in (True, False)}
    texts = [("attacks", attack) for attack in ATTACKS]
    texts += [("harmless", attack.replace(ORDER, HARMLESS)) for attack in ATTACKS[::4]]
    counts: dict[str, Counter[str]] = {"attacks": Counter(), "harmless": Counter()}
    for kind, text in texts:
        values = {is_escaped: await score(text, is_escaped=is_escaped) for is_escaped in (True, False)}
        changed = tuple(values[is_escaped] != plain[is_escaped] for is_escaped in (True, False))
        names = {(True, True): "both", (True, False): "with", (False, True): "without", (False, False): "neither"}
        counts[kind]["none" if None in values.values() else names[changed]] += 1
        print(f"{kind} {dict(counts[kind])}", flush=True)
    await judge.aclose()
    return counts


if __name__ == "__main__":
    print(json.dumps(asyncio.run(count_changed(sys.argv[1]))))
