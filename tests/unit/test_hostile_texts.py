"""Texts that repeat one thing, as a model in a loop writes them: no stage takes time that grows with the square of their length.

Each stage runs in a process of its own, which is killed after a time that only a quadratic stage needs.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
import unicodedata
from pathlib import Path
from typing import Literal

import pytest

import ragstone
from ragstone._util.unicode import normalize
from ragstone.experiments import build_report
from ragstone.metrics import rouge_l
from ragstone.monitor import Monitor
from ragstone.requests._match import canonical
from ragstone.views._canvas import wrap_cells

_LIMIT_S = 100
"""For texts with which the quadratic stages took several minutes, and the linear ones take seconds."""

TEXTS = """
UNITS = [" ", "\\t", "\\n", "\\xa0", ".", "1", "a", "[", "]", "(", '"', "'", "\\\\", "-", ",", "@", "`", "<a ", '{"', "((", "[1",
         "a. ", " a", "a. [1] ", "`a`[1] ", "Sources:\\n", "* sources\\n", "Sources: 【】", "[^1]: x [1]\\n", "\\u0301\\u0327",
         "&#1", "\\u4e2d", "\\u4e2d\\u3002", "```", "a=", "![]("]
def texts(n):
    return [("It is. " + unit * (n // len(unit)))[:n] + "x" for unit in UNITS]
"""

EVALUATE = """
import ragstone
rows = [{"question": text[:2000], "contexts": [text, "It is tall."], "answer": text, "ground_truth": text} for text in texts(15_000)]
metrics = ["citation", "exact_match", "token_f1", "rouge_1", "rouge_l", "ragas.faithfulness", "ccrs", "chrf"]
result = ragstone.evaluate(rows, judge="lexical", metrics=metrics)
assert not [each for each in result.outcomes if getattr(each, "kind", None) == "bug"]
"""

REPORT = """
import ragstone
from ragstone.experiments import build_report, build_report
from ragstone.views import ReportText
for text in texts(15_000):
    row = {"question": text, "contexts": [{"id": text[:200], "text": text}], "answer": text, "ground_truth": text, "tag": text}
    result = ragstone.evaluate([row], judge="lexical", metrics=["ragas.faithfulness", "citation.recall", "rouge_l"])
    for ascii_only in (False, True):
        ReportText(build_report(result), ascii_only=ascii_only).lines()
    str(result.worst())
    for name in ("report.html", "report.md"):
        build_report(result, name)
"""

CAPTURE = """
from ragstone.metrics import rouge_l
from ragstone.monitor import Monitor
monitor = Monitor(store="r.db")
longer = texts(400_000)[UNITS.index("\\u0301\\u0327")]
for text in [longer, *texts(30_000)]:
    with monitor.request(f"Why {text}") as request:
        request.found([{"id": "1", "text": text}, {"id": "2", "text": text[5:4000]}, {"id": "3", "text": text[:12_000]}])
        request.prompt([{"role": "user", "content": f"Use {text}. Why {text}"}])
        request.answer(text + "!")
monitor.flush(timeout_s=90)
assert 1 + len(UNITS) == monitor.ledger().total.captured
monitor.close()
"""

REPLAY = """
import json
from pathlib import Path
from ragstone.reading import read_traces
path = Path("rows.jsonl")
with path.open("w") as file:
    for text in texts(30_000):
        for row in (
            {"question": text, "contexts": [text], "answer": text},
            {"question": "[" + text, "answer": text, "contexts": "[" + text + "]", "ground_truth": "['" + text},
            {"inputs": {"question": text}, "outputs": {"answer": "[" + text}},
        ):
            file.write(json.dumps(row) + "\\n")
# Cells that begin like a list and are none are rejected.
assert 2 * len(UNITS) == len(list(read_traces(path)))
Path("blanks.json").write_text(" " * 200_000 + '[ {"question": "Why?", "answer": "So."}]')
assert 1 == len(list(read_traces(Path("blanks.json"))))
"""

COMPARE = """
import dataclasses
import ragstone
from ragstone.experiments import compare
def experiment(answer, name):
    rows = [{"id": n, "question": "Why?", "contexts": ["Because."], "answer": answer, "ground_truth": "Because."} for n in range(12)]
    result = ragstone.evaluate(rows, judge="lexical", metrics=["exact_match"])
    outcomes = tuple(each.model_copy(update={"metric": name}) for each in result.outcomes)
    return dataclasses.replace(result, outcomes=outcomes)
for name in ("[" * 60_000, "[ " * 30_000, "a / " * 5_000, "\\u4e2d " * 10_000):
    str(compare({"a": experiment("Because.", name), "b": experiment("No.", name)}))
"""


def run(code: str, folder: Path) -> None:
    """Run code in a process that is killed at the limit."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAGSTONE_")}
    subprocess.run(
        [sys.executable, "-c", TEXTS + code],
        cwd=folder,
        env=environment,
        timeout=_LIMIT_S,
        check=True,
        capture_output=True,
    )


@pytest.mark.parametrize(
    "code", [EVALUATE, REPORT, CAPTURE, REPLAY, COMPARE], ids=["evaluate", "report", "capture", "replay", "compare"]
)
def test_a_stage_ends(code: str, tmp_path: Path) -> None:
    """Each stage ends with every text that repeats something."""
    run(code, tmp_path)


def test_an_answer_of_blanks_is_scored(tmp_path: Path) -> None:
    """The citation metrics score an answer with 50,000 blanks."""
    run(
        """
import ragstone
row = {"question": "How tall?", "contexts": ["It is tall."], "answer": "It is tall." + " " * 50_000 + "[1]x" + " " * 50_000 + "x"}
result = ragstone.evaluate([row], judge="lexical", metrics=["citation"])
assert {1.0} == {each.value for each in result.outcomes if each.metric == "citation.precision"}
""",
        tmp_path,
    )


def test_marks_of_sources_before_a_word_are_read(tmp_path: Path) -> None:
    """A line with 40 marks of OpenAI's file search, of which the last is followed by a word, is read."""
    run(
        """
from ragstone.metrics.citation._read import read_cited_sentences
from ragstone.schema import Passage, Sample
text = "It is tall.\\n\\nSources: " + "\u30101\u2020a\u3011" * 40 + " and more"
assert 2 == len(read_cited_sentences(Sample(id="1", query="q", contexts=(Passage(text="It is tall."),), response=text)))
""",
        tmp_path,
    )


def test_a_live_application_is_not_stopped(tmp_path: Path) -> None:
    """The event loop of an application goes on while its monitor scores an answer of 30,000 blanks."""
    gaps: list[float] = []

    async def tick() -> None:
        while True:
            before = time.monotonic()
            await asyncio.sleep(0.01)
            gaps.append(time.monotonic() - before)

    async def main() -> None:
        ticking = asyncio.create_task(tick())
        monitor = Monitor(judge="lexical", metrics="citation", store=tmp_path / "r.db")
        monitor.start()
        with monitor.request("How tall?") as request:
            request.found(["It is tall."])
            request.prompt("It is tall. How tall?")
            request.answer("It is tall [1]." + " " * 30_000 + "x")
        assert await asyncio.to_thread(monitor.drain, timeout_s=200)
        ticking.cancel()
        monitor.close()

    asyncio.run(main())
    assert max(gaps) < 20  # a search for markers that is quadratic holds the interpreter for a minute


def test_a_long_character_reference_stays_text() -> None:
    """A text in which a character reference has more digits than Python reads is compared as it is."""
    assert "a &#" + "9" * 5000 + ";" == canonical("a  &#" + "9" * 5000 + ";")


def test_broken_json_is_refused_in_linear_time(tmp_path: Path) -> None:
    """A judge's reply of half a million characters with nothing but broken lists is refused."""
    run(
        """
from pydantic import TypeAdapter
from ragstone.errors import JudgeReplyError
from ragstone.judges._parse import parse_json
try:
    parse_json("[1" * 250_000, TypeAdapter(dict[str, int]))
except JudgeReplyError:
    pass
""",
        tmp_path,
    )


def test_a_long_passage_that_starts_with_blanks_is_reported(tmp_path: Path) -> None:
    """The HTML report shows a long passage whose first 5,000 characters are blanks."""
    row = {"question": "Why?", "contexts": [" " * 5000 + "It is."], "answer": "No.", "ground_truth": "It is."}
    build_report(ragstone.evaluate([row], judge="lexical", metrics=["exact_match"]), tmp_path / "report.html")
    assert "It is." in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_a_changed_answer_without_a_question_is_shown() -> None:
    """A text of blanks is one empty line of a terminal, as is an empty text."""
    assert [""] == wrap_cells("", 20)


def test_wide_words_are_broken_into_lines() -> None:
    """Words are broken after the columns of a line, of which some characters take two, and keep their characters."""
    lines = wrap_cells("ab " + "\u4e2d" * 25 + " cd \u00e9", 20)
    assert ["ab", "\u4e2d" * 10, "\u4e2d" * 10, "\u4e2d" * 5 + " cd \u00e9"] == lines


@pytest.mark.parametrize("form", ["NFC", "NFKC"])
@pytest.mark.parametrize("run", ["\u0301\u0327", "\u0f73\u0301\u0f81", "\uff9e\u0301", "\u0344\u0327", "\u0301"])
def test_long_runs_of_marks_have_their_normal_form(form: Literal["NFC", "NFKC"], run: str) -> None:
    """Marks that are sorted before the normal form is computed give the same form."""
    text = "\u00e9" + run * 300 + "e" + run * 3 + " \u4e2d" + run * 200
    assert unicodedata.normalize(form, text) == normalize(form, text)


def test_very_long_words_are_not_stemmed() -> None:
    """A word of more than 64 letters counts as it is, because a stemmer may take quadratic time for it."""
    assert 0.0 == rouge_l("s" * 70 + "ies", ["s" * 70 + "i"], stem=True).f1
    assert 1.0 == rouge_l("flies", ["fli"], stem=True).f1
