"""Redaction: the built-in redactor against its patterns behind needles alone (version 0.1), in interleaved rounds."""

from __future__ import annotations

import json
import random
import statistics
import time

import pytest

from ragstone.capture import redact_secrets
from ragstone.capture._redaction import _RULES, SecretRedactor, _redact_cards

pytestmark = pytest.mark.bench

ROUNDS = 15
TEXTS, CHARACTERS = 200, 1000
SOME_WORDS = (
    "the of and to in a is that for it as was with be by on not he his but at are this have from or had an they which one "
    "you were all her she there would their we him been has when who will no more if out so up said what its about than "
    "harbour ferry timetable passengers weather departure platform luggage long-distance crossing e-mail lighthouse"
)
WORDS = SOME_WORDS.split()


def redact_as_before(text: str) -> str:
    """Redact as version 0.1 did: each needle in each text, and the pattern of cards always."""
    for rule in _RULES:
        if any(needle in text for needle in rule.needles):
            text = rule.pattern.sub(rule.replacement, text)
    return _redact_cards(text)


def prose(rng: random.Random) -> str:
    """Sentences of which every fifth has a number."""
    sentences, length = [], 0
    while length < CHARACTERS:
        words = rng.choices(WORDS, k=rng.randint(6, 18))
        if rng.random() < 0.2:
            words.insert(3, str(rng.randint(1, 2025)))
        sentences.append(" ".join(words).capitalize() + ".")
        length += len(sentences[-1]) + 1
    return " ".join(sentences)[:CHARACTERS]


def numbers(rng: random.Random) -> str:
    """A column of numbers up to eight digits."""
    return " ".join(str(rng.randrange(10 ** rng.randint(1, 8))) for _ in range(CHARACTERS))[:CHARACTERS]


def cpu_s(redact, texts):
    """Seconds of this thread's CPU for all texts."""
    start = time.thread_time()
    for text in texts:
        redact(text)
    return time.thread_time() - start


def json_text(rng: random.Random) -> str:
    """Arguments of a tool: prose with escapes, words and numbers."""
    text = prose(rng)
    return json.dumps(
        {"text": text[:500] + "\n" + text[500:700], "page": rng.randrange(100), "words": text.split()[:20]}
    )


@pytest.mark.parametrize(
    ("make", "budget"),
    [(prose, 0.35), (numbers, 1.0), (json_text, 0.35)],
    ids=["prose", "text full of numbers", "JSON without secrets"],
)
def test_redaction_costs_a_share_of_its_patterns(make, budget):
    """Cheap tests before the patterns; a passage that was seen before costs its hash."""
    rng = random.Random(1)
    texts = [make(rng) for _ in range(TEXTS)]
    remembering = SecretRedactor()
    for text in texts:
        assert redact_as_before(text) == redact_secrets(text) == remembering(text)
    rounds = [
        (cpu_s(redact_as_before, texts), cpu_s(redact_secrets, texts), cpu_s(remembering, texts)) for _ in range(ROUNDS)
    ]
    before_ns = statistics.median(before for before, _, _ in rounds) / TEXTS / CHARACTERS * 1e9
    ours = statistics.median(now / before for before, now, _ in rounds)
    again = statistics.median(hit / before for before, _, hit in rounds)
    print(f"\n  before {before_ns:.1f} ns a character; now x{ours:.2f}; a text that was seen before x{again:.2f}")
    assert ours <= budget
    assert again <= 0.1
