"""The longest pause of an application's main thread while hostile texts are captured and scored in the same process.

A pause is the processor time of the other threads in it. Where other processes keep the main thread from a processor, this
time is longer than the pause, so that a text with a pause above the budget is tried up to five times, and its shortest one counts.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.bench, pytest.mark.timeout(900)]

BUDGET_MS = 60
"""The goal is 50 ms, which a machine with nothing else to do keeps (44 ms). With a load of 15 on two cores it was up to 55 ms: full
garbage collections of the 60,000 objects that the imports leave in memory, and of what a text adds."""

APPLICATION = """
import sys, threading, time
# The lock files of sacrebleu import the client of Redis if it is installed, which is not a part of this application.
sys.modules["redis"] = None
from ragstone.metrics import all_metrics
from ragstone.monitor import Monitor

# An embedder, and models of hundreds of megabytes, are not part of this test.
metrics = [
    metric.card.name for metric in all_metrics()
    if (metric.card.extra is None or "models" not in metric.card.extra.extra) and not metric.card.name.endswith("_cosine")
]
texts = [("It is. " + unit * (50_000 // len(unit)))[:50_000] + "x" for unit in sys.argv[3:]]
monitor = Monitor(store=sys.argv[1], judge="lexical", metrics=metrics)
monitor.start()

def request(text):
    with monitor.request(f"How tall? {text[:300]}", reference=text) as request:
        request.found([{"id": "doc 1", "text": text}, "It is tall."])
        request.prompt(f"Use {text}. How tall?")
        request.answer(text + "!")

def serve(texts):
    for text in texts:
        request(text)
    assert monitor.drain(timeout_s=600)

def longest_gap_ms(work):
    thread = threading.Thread(target=work)
    gaps, last = [], time.process_time()
    thread.start()
    while thread.is_alive():
        time.sleep(0.001)
        now = time.process_time()
        gaps.append(now - last)
        last = now
    return 1000 * max(gaps)

serve(["It is 31 m tall [1]."])  # imports
idle = longest_gap_ms(lambda: time.sleep(3))
for unit, text in zip(sys.argv[3:], texts):
    pauses = [longest_gap_ms(lambda: serve([text]))]
    while pauses[-1] >= float(sys.argv[2]) and len(pauses) < 5:
        pauses.append(longest_gap_ms(lambda: serve([text])))
    print(f"{unit!r:24}{min(pauses):8.1f}", flush=True)
print(f"{'nothing':24}{idle:8.1f}")
monitor.close()
"""

UNITS = [
    *(" ", ".", "1", "a", "[", "(", '"', "\\", "-", "@", "`", "<a ", '{"', "((", "[1", "a. ", " a", "It is tall. ", "[1] ", "Sources:\n"),
    *("\u3010\u3011", "[^1]: x [1]\n", "\u0301\u0327", "&#1", "\u4e2d\u3002", "```", '{"a": 1} ', "I do not know. ", "1,", "x@y.zz "),
]  # fmt: skip


def test_hostile_texts_pause_the_main_thread_for_milliseconds(tmp_path: Path) -> None:
    """Texts of 50,000 characters that repeat one thing, captured and scored by every metric that needs no embedder."""
    done = subprocess.run(
        [sys.executable, "-c", APPLICATION, tmp_path / "s.db", str(BUDGET_MS), *UNITS],
        capture_output=True,
        text=True,
        check=False,
    )
    assert 0 == done.returncode, done.stderr
    print(f"\nlongest pause in ms, by what a text repeats\n{done.stdout}")
    pauses = [float(line.rpartition(" ")[2]) for line in done.stdout.splitlines()]
    assert max(pauses[:-1]) < BUDGET_MS
