"""The time of each regular expression of the product grows with the length of a text, and not with its square.

`re` holds the interpreter's lock while it matches, so that one text would stop all threads of an application.
"""

from __future__ import annotations

import ast
import importlib
import itertools
import re
import re._constants as codes
import re._parser as parser
import signal
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import FrameType, SimpleNamespace
from typing import Any

import pytest

from ragstone._util import unicode, words
from ragstone.cli import _output

ROOT = Path(__file__).parents[2]
SOURCES = [
    ROOT / f"{project}/src"
    for project in ("packages/ragstone", "packages/ragstone-lab", "integrations/langchain", "integrations/llama-index")
]
FLAGS_AT = {
    "compile": 1,
    "search": 2,
    "match": 2,
    "fullmatch": 2,
    "findall": 2,
    "finditer": 2,
    "split": 3,
    "sub": 4,
    "subn": 4,
}
"""Position of the flags in the arguments of each function of `re`."""
NOT_SEARCHED = {
    "ragstone.reading._rows._ITEMS": "it is applied to what _ARRAY matched, in which it matches everywhere",
    "ragstone._util.abstains._QUOTED": "answers of more than 400 characters are not searched",
}
BY_FUNCTIONS = {
    # Answers of more than 400 characters are not searched.
    "ragstone._util.abstains": list,
    "ragstone._util.unicode": lambda: [unicode._marks()],
    "ragstone._util.words": lambda: list(words._patterns()),
    "ragstone.cli._output": lambda: [re.compile(pattern) for _, pattern in _output._STYLES],
}
"""Patterns that functions build, or that other libraries compile."""
LOCALS: dict[str, object] = {
    "constraint": "json_schema",
    "span": r"0\s*(?:-|to)\s*100(?![\d.]*\d)",
    "ceiling": "100",
    "what": "hits",
    "name": "doc-1",
    "mark": rb'"context"\s*:\s*\{',
    "n": "data",
    "pattern": "a",
    "token_digits": 1,
    "edge": "",
    "phrase": "no-response",
    "parts": {"none": "", "whole": "", "others": "", "apologies": "sorry", "own": "i"},
    "self": SimpleNamespace(pattern=r"\{\s*\"score\"\s*:\s*(\d{1,3})\s*\}"),
}
"""Values of the local variables that patterns inside functions depend on."""
UNITS = [
    *(" ", "\t", "\n", "\xa0", ".", "1", "a", "A", "[", "]", "(", ")", '"', "'", "\\", "-", ",", "@", "`", "<", ">", "=", "_", "|", "!"),
    *("a.", " a", ". ", "1.", "1 ", "[1", "[1] ", "((", "<a ", '{"', "a\n", "\n ", " \n", "\r\n", '."', "\\'", '"\\', "**", "# ", "```"),
    *("\u3010\u3011", "\u4e2d", "\u00e9", "aB", "://", "a=", "<>", "()", "system role not "),
]  # fmt: skip
_SIZE = 4000
_SUSPECT_S = 0.001
"""Seconds of one search of such a text after which a longer text is searched."""
_LONG_SIZE = 64_000
_LIMIT_S = 0.3
"""Processor time of one search of a long text. A linear one takes a tenth at most, and a quadratic one longer on any machine."""


def modules() -> Iterator[tuple[str, ast.Module]]:
    """Yield the name and the tree of each shipped module that uses `re`."""
    for source in SOURCES:
        for path in sorted(source.rglob("*.py")):
            if "import re\n" in (text := path.read_text(encoding="utf-8")):
                yield (
                    ".".join(path.relative_to(source).with_suffix("").parts).removesuffix(".__init__"),
                    ast.parse(text),
                )


MODULES = dict(modules())


def patterns(name: str) -> Iterator[tuple[str, re.Pattern[Any], set[str]]]:
    """Yield the patterns of a module: a name, the pattern, and the methods that the module calls."""
    namespace = vars(importlib.import_module(name)) | LOCALS
    tree = MODULES[name]
    methods: dict[str, set[str]] = {}
    names: dict[ast.AST, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.attr in FLAGS_AT:
            methods.setdefault(node.value.id, set()).add(node.attr)
        elif isinstance(node, ast.AnnAssign | ast.Assign) and isinstance(node.value, ast.Call):
            target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
            names[node.value] = ast.unparse(target)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func).startswith("re.") and node.func.attr in FLAGS_AT:
            function = node.func.attr
            variable = names.get(node, f"line {node.lineno}")
            if function == "compile" and variable not in namespace and name in BY_FUNCTIONS:
                continue
            at = FLAGS_AT[function]
            flags = (
                next((each.value for each in node.keywords if each.arg == "flags"), None)
                or (node.args[at:] or [None])[0]
            )
            try:
                pattern, mode = (
                    0 if each is None else eval(compile(ast.Expression(each), name, "eval"), namespace)  # noqa: S307 - our own code
                    for each in (node.args[0], flags)
                )
            except NameError as error:
                pytest.fail(f"{name}, line {node.lineno}: add a value of the local variable to LOCALS: {error}")
            yield (
                variable,
                re.compile(pattern, mode),
                methods.get(variable, set()) if function == "compile" else {function},
            )
    for pattern in BY_FUNCTIONS.get(name, list)():
        yield pattern.pattern[:40], pattern, {"finditer"}


def parts_of(parsed: Iterable[Any]) -> Iterator[str]:
    """Yield a character for each element of a parsed pattern, and its literal texts."""
    text = ""
    for code, value in [*parsed, (None, None)]:
        if code is codes.LITERAL:
            text += chr(value)
            yield chr(value)
            continue
        if len(text) > 1:
            yield text
        text = ""
        if code is codes.IN:
            yield from ("q" if value[0][0] is codes.NEGATE else "", *map(_member, value))
        elif code in (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT):
            yield from parts_of(value[2])
        elif code is codes.SUBPATTERN:
            yield from parts_of(value[3])
        elif code is codes.BRANCH:
            yield from itertools.chain.from_iterable(map(parts_of, value[1]))
        elif code in (codes.ASSERT, codes.ASSERT_NOT):
            yield from parts_of(value[1])
        elif code is codes.ATOMIC_GROUP:
            yield from parts_of(value)


def _member(item: tuple[Any, Any]) -> str:
    code, value = item
    if code is codes.CATEGORY:
        return {codes.CATEGORY_DIGIT: "1", codes.CATEGORY_SPACE: " ", codes.CATEGORY_NOT_WORD: "-"}.get(value, "a")
    return "" if code is codes.NEGATE else chr(value[0] if code is codes.RANGE else value)


def texts(pattern: re.Pattern[Any]) -> Iterator[tuple[str, str, str]]:
    """Yield parts of texts that are bad for a pattern: a beginning, what is repeated, and an end that does not match."""
    parts = sorted(set(parts_of(parser.parse(pattern.pattern, pattern.flags))) - {""})
    characters = [part for part in parts if len(part) == 1][:9]
    longer = [part for part in parts if len(part) > 1][:8]
    repeated = {*UNITS, *parts, *map("".join, itertools.product(characters, characters))}
    repeated |= {a + b for a in longer for b in characters}
    yield from (("", unit, end) for unit in sorted(repeated) for end in ("", "\x01"))
    yield from ((begin, unit, "\x01") for begin in (*longer, *characters) for unit in (*characters, " ", "a", "1"))
    yield from ((a + b, unit, "\x01") for a in characters for b in characters for unit in (" ", "a"))


class _TooSlowError(Exception):
    pass


def _stop(_signal: int, _frame: FrameType | None) -> None:
    raise _TooSlowError


def time_of(pattern: re.Pattern[Any], method: str, text: str) -> float:
    """Return the processor time of one call, at most the limit."""
    subject = text.encode("latin-1", "replace") if isinstance(pattern.pattern, bytes) else text
    before = time.process_time()
    try:
        signal.setitimer(signal.ITIMER_VIRTUAL, _LIMIT_S)
        try:
            if method in ("match", "fullmatch"):
                getattr(pattern, method)(subject)
            else:
                for _ in pattern.finditer(subject):
                    pass
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    # Also if the timer ends just before it is stopped.
    except _TooSlowError:
        return _LIMIT_S
    return time.process_time() - before


def is_slow(pattern: re.Pattern[Any], method: str, begin: str, unit: str, end: str) -> bool:
    """Return whether each of three searches of a long text reaches the limit."""

    def search(size: int) -> float:
        return time_of(pattern, method, begin + unit * (size // len(unit)) + end)

    # Wall time, because some machines count the processor time of a short search as 0.
    before = time.perf_counter()
    search(_SIZE)
    return time.perf_counter() - before >= _SUSPECT_S and all(search(_LONG_SIZE) >= _LIMIT_S for _ in range(3))


@pytest.mark.parametrize("name", MODULES)
def test_no_text_takes_quadratic_time(name: str) -> None:
    """A module's patterns take time that grows with the length of a text, whatever the text repeats."""
    previous = signal.signal(signal.SIGVTALRM, _stop)
    slow = []
    try:
        try:
            found = list(patterns(name))
        except ModuleNotFoundError as error:  # a framework that this environment does not have
            pytest.skip(str(error))
        for variable, pattern, used in found:
            if f"{name}.{variable}" in NOT_SEARCHED:
                continue
            for method in {each if each in ("match", "fullmatch") else "finditer" for each in used or {"finditer"}}:
                bad = next((parts for parts in texts(pattern) if is_slow(pattern, method, *parts)), None)
                slow += [(variable, method, bad)] if bad else []
    finally:
        signal.signal(signal.SIGVTALRM, previous)
    assert [] == slow


@pytest.mark.parametrize(
    ("pattern", "parts"),
    [
        (r"[ \t]*x", ("", " ", "")),
        (r"(a+)+$", ("", "a", "\x01")),
        (r".+?(?:[.!?]+(?=\s|$)|$)", ("", ".", "\x01")),
        (r"\A```\s*(.*?)\s*```\Z", ("```", " ", "\x01")),
        (r"\[[^\]]*\]", ("", "[", "")),
    ],
)
def test_quadratic_patterns_are_found(pattern: str, parts: tuple[str, str, str]) -> None:
    """The tried texts contain one for which a quadratic or exponential pattern is slow."""
    compiled = re.compile(pattern)
    previous = signal.signal(signal.SIGVTALRM, _stop)
    try:
        assert parts in set(texts(compiled))
        assert is_slow(compiled, "finditer", *parts)
    finally:
        signal.signal(signal.SIGVTALRM, previous)
