"""The time of each function that reads texts of others grows with the length of a text, and not with its square.

`test_linear_patterns.py` checks the regular expressions. Here the functions around them are called, with their loops.
"""

from __future__ import annotations

import contextlib
import json
import signal
import time
from collections.abc import Callable, Iterator
from types import FrameType

import pytest
from pydantic import TypeAdapter

from ragstone._util.abstains import answer_abstains
from ragstone._util.ascii import to_ascii, without_controls
from ragstone._util.csv_table import guarded
from ragstone._util.unicode import normalize
from ragstone._util.words import find_sentences, normalize_case, split_tokens, split_words
from ragstone.capture import redact_secrets
from ragstone.capture._convert import to_json_value
from ragstone.errors import RagstoneError
from ragstone.judges._http.errors import extract_error_message
from ragstone.judges._parse import parse_json, parse_number
from ragstone.judges._render import escape, unescape
from ragstone.metrics import split_metrics
from ragstone.metrics._claims import _split
from ragstone.metrics.citation._read import read_cited_sentences
from ragstone.metrics.text._answer import token_f1
from ragstone.reading._cells import begins_like_list, parse_cell
from ragstone.reading._row_values import json_value
from ragstone.requests._answer import _json
from ragstone.requests._harvest import harvest
from ragstone.requests._hits import read_object
from ragstone.requests._match import canonical
from ragstone.requests._python_text import read_python_text
from ragstone.schema import Passage, Sample, fingerprint
from ragstone.views._canvas import wrap_cells
from ragstone.views._markdown import answer_line, code_in_markdown, escape_markdown
from ragstone.views._words import split_sentence

SHORT = 125_000
DOUBLINGS = 3
LONG = SHORT * 2**DOUBLINGS
MOST_GROWTH = 2.5
"""How many times as long a text of twice the length may take, as the geometric mean of the doublings."""
SUSPECT_S = 0.06
"""Processor time for a short text after which the long one is read. A quadratic function needs 4 s for the long one."""
LIMIT_S = 12.0
"""Processor time after which a function is stopped, and counts as too slow."""
N_SLOWEST = 3
"""Units whose growth is measured. In a short text, a quadratic function takes longer for its units than for the others."""
ROUNDS = 3
"""How often the growth is measured. Other processes can make a round slower, but not each of them."""
NUMBERS = TypeAdapter(dict[str, int])
UNITS = [
    *(" ", "\n", "\xa0", ".", "1", "a", "[", "]", "(", '"', "'", "\\", "-", ",", "@", "`", "<a ", '{"', "((", "[1", "a. ", " a"),
    *("[1] ", "Sources:\n", "* sources\n", "\u3010\u3011", "[^1]: x [1]\n", "\u0301\u0327", "&#1", "\u4e2d\u3002", "```", "a="),
    *("![](", '{"a": 1} ', '{"a": ', "[[", '{"a":[', "\\u0041", '\\"', "I do not know. ", "1,", "x@y.zz ", "<0x0A>", "|", "\n- a"),
    *("\ud800", '"a",', "4111 ", "sk-", "authorization=", "doc 1 ", "(a", "\r\n"),
]  # fmt: skip


def cited(text: str) -> object:
    """Read the citations of an answer."""
    passage = Passage(text="It is tall.", id="doc 1")
    return read_cited_sentences(Sample(id="1", query="q", contexts=(passage,), response=text))


FUNCTIONS: dict[str, Callable[[str], object]] = {
    "abstention": answer_abstains,
    "words": split_words,
    "tokens": split_tokens,
    "sentences": find_sentences,
    "case": normalize_case,
    "normal form": lambda text: normalize("NFC", text),
    "cell of a table": guarded,
    "redaction": redact_secrets,
    "redaction of cut JSON": lambda text: redact_secrets("[" + text),
    "redaction of JSON in JSON": lambda text: redact_secrets(json.dumps({"a": json.dumps([text])})),
    "metadata": to_json_value,
    "JSON of a judge": lambda text: parse_json(text, NUMBERS),
    "number of a judge": parse_number,
    "error of a judge": lambda text: extract_error_message(text.encode("utf-8", "replace")),
    "text of a prompt": escape,
    "text of a prompt, read": unescape,
    "citations": cited,
    "claims": _split,
    "overlap": lambda text: token_f1(text, [text]),
    "cell with a list": lambda text: parse_cell(f"[{text}]"),
    "cell with a cut list": lambda text: parse_cell(f"['{text}"),
    "beginning of a cell": begins_like_list,
    "value of a cell": json_value,
    "passage": canonical,
    "text of Python": lambda text: read_python_text(f"content='{text}'"),
    "value of a request": harvest,
    "value of a request, as JSON": lambda text: harvest(json.dumps({"a": text})),
    "hit": read_object,
    "answer": _json,
    "fingerprint": fingerprint,
    "line of a terminal": lambda text: wrap_cells(text, 80),
    "Markdown": escape_markdown,
    "code of Markdown": code_in_markdown,
    "first line": answer_line,
    "first sentence": split_sentence,
    "text in ASCII": to_ascii,
    "text in one line": without_controls,
    "metrics of an option": split_metrics,
}


class _TooSlowError(Exception):
    pass


def _stop(_signal: int, _frame: FrameType | None) -> None:
    raise _TooSlowError


@pytest.fixture
def limit() -> Iterator[None]:
    """Let a timer of the processor time stop a function."""
    previous = signal.signal(signal.SIGVTALRM, _stop)
    yield
    signal.signal(signal.SIGVTALRM, previous)


def text_of(unit: str, size: int) -> str:
    """Return a text that repeats one thing, and does not end with it."""
    return ("It is. " + unit * (size // len(unit)))[:size] + "x"


def time_of(function: Callable[[str], object], text: str) -> float:
    """Return the processor time of one call, at most the limit."""
    before = time.thread_time()
    try:
        signal.setitimer(signal.ITIMER_VIRTUAL, LIMIT_S)
        try:
            # What a function refuses, it shall refuse as fast.
            with contextlib.suppress(RagstoneError, ValueError, RecursionError, SyntaxError):
                function(text)
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    except _TooSlowError:
        return LIMIT_S
    return time.thread_time() - before


def grows(function: Callable[[str], object], unit: str) -> bool:
    """Return whether a long text takes too many times the time of a short one."""
    short = time_of(function, text_of(unit, SHORT))
    most = min(LIMIT_S, MOST_GROWTH**DOUBLINGS * short)
    return short >= SUSPECT_S and time_of(function, text_of(unit, LONG)) >= most


def slow_unit(function: Callable[[str], object]) -> str | None:
    """Return which of the units that take longest makes the time of a function grow too fast, in each round."""
    slowest = sorted(UNITS, key=lambda unit: time_of(function, text_of(unit, SHORT)))[-N_SLOWEST:]
    return next((unit for unit in slowest if all(grows(function, unit) for _ in range(ROUNDS))), None)


@pytest.mark.usefixtures("limit")
@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_time_of_no_text_grows_faster_than_its_length(name: str) -> None:
    """A text of twice the length takes at most 2.5 times the processor time, up to a megabyte, whatever the text repeats."""
    assert slow_unit(FUNCTIONS[name]) is None


@pytest.mark.usefixtures("limit")
def test_a_quadratic_loop_is_found() -> None:
    """A function whose time grows with the square of the length is slow, on any machine, although a short text takes 0.07 s."""

    def work(text: str) -> None:
        end = time.thread_time() + 1.2 * SUSPECT_S * (len(text) / SHORT) ** 2
        while time.thread_time() < end:
            pass

    assert slow_unit(work) is not None
