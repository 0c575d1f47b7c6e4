"""Laws of redaction: the cheap tests before the patterns, and the memory of unchanged texts, never change a result."""

from __future__ import annotations

import random
import tracemalloc

import pytest

from ragstone.capture import redact_secrets
from ragstone.capture._redaction import _CARD, _MAX_REMEMBERED, _RULES, SecretRedactor, _is_card

SEPARATORS = (
    "\t",
    "\r\n",
    "\u202f",
    "\u2013",
    " ",
    "  ",
    "-",
    ".",
    "\xa0",
    "\xa0\xa0",
    "\u2009",
    "\xc2",
    "\xa0 ",
    "",
    "\n",
    "x",
    "\u0660",
)
DIGITS = "0123456789\u0663\u0967\uff11\u00b2"
CARDS = ("4111111111111111", "5555555555554444", "378282246310005", "6011000990139424", "4222222222222")
SOME_WORDS = "the harbour opens at and closes when Bearer authorization: Basic xox SG. AIza ya29. AKIA"
WORDS = SOME_WORDS.split()
TAILS = (
    "0123456789abcdefghij0123456789abcdefghij",
    "ABCDEFGHIJKLMNOP",
    "a",
    "",
    "_-",
    ".example.org",
    "eyJabcdefgh.x.y",
)
NEEDLES = [needle for rule in _RULES for needle in rule.needles]
NOISE = (
    "\ud800",
    "\U0001f600",
    "ä",
    "@",
    "%",
    "%40",
    "-",
    "--",
    "_",
    ".",
    "\x00",
    "J",
    "塔",
    "\u0301",
    "[key]",
    "-----BEGIN ",
)


def redact_always(text: str) -> str:
    """Apply each pattern to the text, without any test before it."""
    for rule in _RULES:
        text = rule.pattern.sub(rule.replacement, text)
    parts, done, start = [], 0, 0
    while match := _CARD.search(text, start):
        start = match.start() + 1
        if _is_card([int(digit) for digit in match[0] if digit.isdecimal()]):
            parts += (text[done : match.start()], "[card]")
            done = start = match.end()
    return "".join(parts) + text[done:]


def card(rng: random.Random) -> str:
    """A card number, whole or in groups, with one separator or several, and perhaps one wrong character."""
    number, groups = rng.choice(CARDS), rng.choice([(4, 4, 4, 4), (4, 6, 5), (4, 6, 4), (19,), (8, 8), (5, 4, 4)])
    separator, parts = rng.choice(SEPARATORS), []
    for size in groups:
        parts.append(number[:size])
        number = number[size:]
    text = separator.join(parts)
    if rng.random() < 0.3:
        place = rng.randrange(len(text))
        text = text[:place] + rng.choice((*SEPARATORS, *DIGITS)) + text[place + 1 :]
    return text


def hostile_text(rng: random.Random) -> str:
    """Whole secrets, parts of secrets, and what looks like them, with and without space between them."""
    makers = (
        lambda: card(rng),
        lambda: "".join(rng.choice(DIGITS) for _ in range(rng.randrange(20))),
        lambda: rng.choice(NEEDLES) + rng.choice(TAILS),
        lambda: rng.choice(NEEDLES)[: rng.randrange(1, 6)],
        lambda: rng.choice(NOISE),
        lambda: rng.choice(SEPARATORS),
        lambda: rng.choice(WORDS),
        lambda: rng.choice(TAILS),
        lambda: f"{rng.choice(WORDS)}@{rng.choice(WORDS)}{rng.choice(TAILS)}",
    )
    between = rng.choice(("", " ", " ", "\xa0"))
    return between.join(rng.choice(makers)() for _ in range(rng.randrange(1, 12)))


@pytest.mark.parametrize(
    "n_texts",
    [
        pytest.param(5_000, id="few"),
        pytest.param(300_000, id="many", marks=[pytest.mark.long, pytest.mark.timeout(600)]),
    ],
)
def test_cheap_tests_change_no_text(n_texts):
    """The function equals the patterns alone, on texts of which many hold secrets and many only their parts."""
    rng = random.Random(n_texts)
    n_changed = 0
    for _ in range(n_texts):
        text = hostile_text(rng)
        expected = redact_always(text)
        assert expected == redact_secrets(text), text
        n_changed += expected != text
    assert 0.1 * n_texts < n_changed < 0.9 * n_texts


def test_remembered_texts_are_redacted_alike():
    """A memory of texts changes neither those with secrets nor those without, also after it forgot some."""
    rng = random.Random(7)
    texts = ["".join(hostile_text(rng) for _ in range(12)) for _ in range(200)]
    redact = SecretRedactor()
    for _ in range(2):
        for text in texts:
            assert redact_secrets(text) == redact(text)
    assert redact._recent


def test_memory_of_texts_is_bounded():
    """However many texts pass, the memory stays under 8 MB, and the most recent texts are remembered."""
    redact = SecretRedactor()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for number in range(2 * _MAX_REMEMBERED):
            redact(f"{number:x}".rjust(250, "g"))
        assert tracemalloc.get_traced_memory()[0] - before < 8_000_000
    finally:
        tracemalloc.stop()
    assert len(redact._recent) + len(redact._older) <= _MAX_REMEMBERED
    size = len(redact._recent)
    redact(f"{2 * _MAX_REMEMBERED - 1:x}".rjust(250, "g"))
    assert size == len(redact._recent)
