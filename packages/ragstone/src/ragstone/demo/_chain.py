"""The demo: an invented ferry handbook, BM25 retrieval, an extractive answer, and the application."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Final, Literal

from ragstone.requests import RequestBlocks


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoPassage:
    """One section of the handbook."""

    id: str
    title: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoQuestion:
    """A question about the handbook with its correct answer."""

    id: str
    query: str
    reference: str
    gold: tuple[str, ...]
    """Ids of the passages that contain the answer. Empty if no passage does."""
    kind: Literal["answerable", "unanswerable", "distractor"]
    """A distractor question is answerable, but another passage also looks relevant."""


def load_corpus() -> tuple[DemoPassage, ...]:
    """Return the sections of the handbook."""
    return tuple(DemoPassage(**row) for row in _rows("corpus.jsonl"))


def load_questions() -> tuple[DemoQuestion, ...]:
    """Return the questions, in the order in which the demo asks them."""
    return tuple(DemoQuestion(**row | {"gold": tuple(row["gold"])}) for row in _rows("questions.jsonl"))


def _rows(name: str) -> list[dict[str, Any]]:
    text = files("ragstone.demo").joinpath("data", name).read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


_INSTRUCTION: Final = "You answer questions about the handbook of a ferry line, from these sections only."
NOT_FOUND: Final = "I could not find this in the handbook."

_SENTENCE_END: Final = re.compile(r"(?<=[.!?])\s+")
# Minimum share of the question's weight. Chosen so that the demo answers most questions and still makes both kinds of
# mistakes: answers to unanswerable questions, and refusals of answerable ones.
_MIN_OVERLAP: Final = 0.4


def extract_answer(query: str, passages: Sequence[str]) -> str:
    """Return the sentence of `passages` with the largest word overlap with `query`, or `NOT_FOUND`.

    It compares words, not meaning, so some answers are wrong, which the demo needs.

    Args:
        query: The question.
        passages: Retrieved texts, best first. Ties go to the first sentence.
    """
    sentences = [s.strip() for passage in passages for s in _SENTENCE_END.split(passage) if s.strip()]
    bags = [set(words(sentence)) for sentence in sentences]
    idf = inverse_frequencies(bags)
    # A word that no sentence contains has the weight of the rarest word, and counts against every sentence.
    unknown = max(idf.values(), default=1.0)
    weights = {word: idf.get(word, unknown) for word in sorted(set(words(query)))}
    total = sum(weights.values())
    best, best_share = NOT_FOUND, 0.0
    for sentence, bag in zip(sentences, bags, strict=True):
        share = sum(weight for word, weight in weights.items() if word in bag) / total if total else 0.0
        if share > best_share:
            best, best_share = sentence, share
    return best if best_share >= _MIN_OVERLAP else NOT_FOUND


_WORD: Final = re.compile(r"\w+(?:[.:,]\w+)*")  # 9.40, 07:30 and 18,000 are one word each
_STOP_WORDS: Final = frozenset((
    "a", "an", "and", "are", "as", "at", "be", "by", "can", "do", "does", "for", "from", "has", "have", "how", "in", "is", "it", "its",
    "may", "much", "many", "no", "not", "of", "on", "or", "she", "that", "the", "their", "there", "they", "to", "was", "what", "when",
    "where", "which", "who", "with",
))  # fmt: skip


def words(text: str) -> list[str]:
    """Return the words of `text` without stop words, in order, in lower case and without a plural s."""
    tokens = (word.lower() for word in _WORD.findall(text))
    return [word[:-1] if len(word) > 3 and word.endswith("s") else word for word in tokens if word not in _STOP_WORDS]


def inverse_frequencies(texts: Sequence[Iterable[str]]) -> dict[str, float]:
    """Return ln(1 + (N - n + 0.5) / (n + 0.5)) for each word that n of the N texts contain. Always above 0.

    Source: Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond", 2009, with 1 added
    inside the logarithm so that a word in most texts does not count against a text.
    """
    counts = Counter(word for text in texts for word in set(text))
    return {word: math.log(1 + (len(texts) - n + 0.5) / (n + 0.5)) for word, n in counts.items()}


_K1: Final = 1.2
_B: Final = 0.75


class Bm25:
    """Ranks passages by BM25 (k1 = 1.2, b = 0.75) over title and text.

    Source: Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond", 2009, section 3.
    """

    def __init__(self, passages: Sequence[DemoPassage]) -> None:
        self._passages = tuple(passages)
        self._counts = [Counter(words(f"{p.title}. {p.text}")) for p in self._passages]
        self._idf = inverse_frequencies(self._counts)
        self._mean_length = sum(c.total() for c in self._counts) / max(1, len(self._counts))

    def search(self, query: str, k: int = 4) -> list[tuple[DemoPassage, float]]:
        """Return the best `k` passages with their scores (above 0), best first. Ties keep the order of the corpus."""
        terms = set(words(query))
        scored = [(p, self._score(terms, counts)) for p, counts in zip(self._passages, self._counts, strict=True)]
        ranked = sorted(scored, key=lambda hit: hit[1], reverse=True)
        return [hit for hit in ranked[:k] if hit[1] > 0]

    def _score(self, terms: set[str], counts: Counter[str]) -> float:
        norm = _K1 * (1 - _B + _B * counts.total() / self._mean_length)
        # Sorted, because the sum of floats depends on the order, and a set's order differs between runs.
        return sum(self._idf[t] * counts[t] * (_K1 + 1) / (counts[t] + norm) for t in sorted(terms) if t in counts)


def build_application(recorder: RequestBlocks) -> Callable[[DemoQuestion], None]:
    """Build an application over the handbook, whose requests get the correct answer as their reference."""
    index = Bm25(load_corpus())

    def ask(question: DemoQuestion) -> None:
        about = {"question_id": question.id, "question_kind": question.kind}
        with recorder.request(
            question.query, name="handbook", session_id="demo", reference=question.reference, metadata=about
        ) as request:
            found = index.search(question.query)
            hits = [
                {"id": one.id, "text": one.text, "score": score, "metadata": {"title": one.title}}
                for one, score in found
            ]
            request.found(hits, query=question.query)
            texts = [passage.text for passage, _ in found]
            prompt = request.prompt("\n---\n".join([_INSTRUCTION, *texts, question.query]))
            answer = extract_answer(question.query, texts)
            # Words stand in for tokens.
            usage = {"input_tokens": len(prompt.split()), "output_tokens": len(answer.split())}
            request.answer({"content": answer, "model": "extractive-demo", "usage": usage})

    return ask
