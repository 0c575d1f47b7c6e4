"""Lexical baseline: deterministic word overlap without a model, to test a setup. It is not a judge."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pydantic import TypeAdapter, ValidationError

from ragstone._util.abstains import answer_abstains
from ragstone._util.words import split_sentences, split_words
from ragstone.errors import JudgeError
from ragstone.judges._protocol import AbstentionEstimate, JsonReply, JudgeIdentity, NumberReply, Prompt, TextReply
from ragstone.schema import Interval

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

T = TypeVar("T")

_NAME: Final = "lexical baseline"
_VERSION: Final = "1"

_FUNCTION_WORDS: Final = (
    "a an and are as at be been but by can did do does for from had has have how i if in is it its of on "
    "or so such than that the their them then there these they this those to was were what when where "
    "which who whom whose why will with would you your"
)
_STOPWORDS: Final = frozenset(_FUNCTION_WORDS.split())
# A response with fewer content words counts as too thin, one with more words as too long.
_THIN_WORDS: Final = 5
_LONG_WORDS: Final = 120
_LONG_SENTENCE: Final = 1000
"""Maximum number of characters of a claim."""


def identify_baseline(kind: str, *, name: str = _NAME) -> JudgeIdentity:
    """Return the identity of a stand-in for a model."""
    digest = hashlib.sha256(f"{kind}/{_VERSION}".encode()).hexdigest()[:16]
    return JudgeIdentity(name=name, hash=digest, is_baseline=True)


class LexicalJudge:
    """Rates by word overlap, deterministically and in microseconds: the CCRS constructs and those of other metrics.

    It is a stand-in to test everything except the judge. It ignores meaning: it does not detect a negation, a
    paraphrase or a wrong date among matching words. Every table and report states that it is a baseline.

    | construct | value on the scale 0-1 |
    |---|---|
    | contextual_coherence | share of the response's words that occur in the contexts |
    | question_relevance | share of the query's words that occur in the response |
    | information_density | share of the response's words that are new content, lower below 5 and above 120 words |
    | answer_correctness | F1 of the words of the response and of the reference, best reference |
    | passage_relevance | share of the query's words that occur in the passage |
    | information_recall | share of the reference's words that occur in the response, best reference |

    JSON values: `claims` are the sentences of a text. `entailment` is 1 for claims that share at least half of their
    words with the evidence. `sub_questions` are the first sentences of the reference or query. `answerability` is five
    times the share of the question's words in the evidence, rounded. `answer_questions` is the first sentence of the
    response, and `question_equivalence` the share of the query's words in each question. `sentence_relevance` is 1 for
    sentences with at least half of the query's words. `answer_grade` is abstain for an answer that declines, and
    correct for one with at least half of the reference's words.

    Examples:
        ```python
        reply = await LexicalJudge().ask_number(prompt)
        ```
    """

    identity = identify_baseline("lexical")
    """Name and version of the baseline."""

    async def ask_text(self, prompt: Prompt, *, max_tokens: int = 512) -> TextReply:  # noqa: ARG002
        """Raise an error, because word overlap does not generate text.

        Raises:
            JudgeError: Always, with kind "unsupported".
        """
        raise JudgeError(
            f"the lexical baseline does not generate text, which {prompt.construct!r} needs. Use a model as judge",
            kind="unsupported",
        )

    async def ask_number(self, prompt: Prompt, *, low: float = 0, high: float = 100) -> NumberReply:
        """Rate by `prompt.construct`. The wording of the task is ignored.

        Raises:
            JudgeError: With kind "unsupported", if the construct is unknown or the texts contain no words to compare.
        """
        measure = _supported(_MEASURES, prompt.construct)
        try:
            share = measure(prompt.fields)
        except ZeroDivisionError:
            raise JudgeError(
                f"{sorted(prompt.fields)} contain no words to compare for {prompt.construct!r}", kind="unsupported"
            ) from None
        value = low + (high - low) * share
        return NumberReply(value=value, raw=f"{value:g}", method="lexical")

    async def ask_json(self, prompt: Prompt, schema: TypeAdapter[T], *, max_tokens: int = 1024) -> JsonReply[T]:  # noqa: ARG002
        """Return a value by `prompt.construct`.

        Raises:
            JudgeError: With kind "unsupported", if the construct is unknown or the value does not have the shape.
        """
        value = _supported(_VALUES, prompt.construct)(prompt.fields)
        try:
            return JsonReply(value=schema.validate_python(value), raw=repr(value), method="lexical")
        except ValidationError as error:
            raise JudgeError(
                f"the lexical baseline's value for {prompt.construct!r} does not have the requested shape: {error}",
                kind="unsupported",
            ) from None

    async def aclose(self) -> None:
        """Do nothing."""


class LexicalReader:
    """Stand-in for the application's generator: it abstains if the passages do not contain the query's words.

    The probability of abstention is the share of the query's content words that occur in no passage. Like the lexical
    judge it is for tests only.

    Examples:
        ```python
        reading = await LexicalReader().estimate_abstention(
            "How tall is the lighthouse?", ["It is 31 meters tall."]
        )  # codespell:ignore
        ```
    """

    marker: Final = "NO-RESPONSE"

    identity = identify_baseline("lexical reader")
    """Name and version of the baseline."""

    async def estimate_abstention(self, query: str, passages: Sequence[str]) -> AbstentionEstimate:
        """Return the share of the query's words that occur in no passage.

        Raises:
            JudgeError: With kind "unsupported", if the query contains no words.
        """
        try:
            p = 1 - _share_found(split_words(query), split_words("\n".join(passages)))
        except ZeroDivisionError:
            raise JudgeError(f"the query {query[:80]!r} contains no words to compare", kind="unsupported") from None
        interval = Interval(low=p, high=p, method="exact")
        return AbstentionEstimate(value=p, interval=interval, method="lexical", complete=p)

    async def answer(self, query: str, passages: Sequence[str]) -> TextReply:
        """Return the passage that shares most words with the query, or the marker if none shares half of them."""
        # Not of a subclass, which counts calls.
        if (await LexicalReader.estimate_abstention(self, query, passages)).value > 0.5:
            return TextReply(text=self.marker)
        words = split_words(query)
        return TextReply(text=max(passages, key=lambda passage: _share_found(words, split_words(passage))))

    def is_abstention(self, reply: str) -> bool:
        """Return whether a reply is the marker."""
        return reply.strip() == self.marker

    async def aclose(self) -> None:
        """Do nothing."""


class LexicalEmbedder:
    """Stand-in for an embedding model: a vector of word counts, so that the cosine measures common words.

    Each distinct content word (each word, if a text has none) adds its count at a place that its hash determines. Like
    the lexical judge it is for tests only.

    Examples:
        ```python
        vectors = await LexicalEmbedder().embed(["How tall is it?", "How high is it?"])
        ```
    """

    dimension: Final = 4096

    identity = identify_baseline("lexical embedder")
    """Name and version of the baseline."""

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float64]:
        """Return an array of shape (number of texts, 4096) with rows of length 1.

        Raises:
            JudgeError: With kind "unsupported", if a text contains no words.
        """
        import numpy as np

        rows = np.zeros((len(texts), self.dimension))
        for row, text in zip(rows, texts, strict=True):
            words = split_words(text)
            for word, count in Counter(_content(words) or words).items():
                digest = hashlib.sha256(word.encode(errors="replace")).digest()
                row[int.from_bytes(digest[:2]) % self.dimension] += count
            if not row.any():
                raise JudgeError(f"the text {text[:80]!r} contains no words to compare", kind="unsupported")
        return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True), dtype=np.float64)

    async def aclose(self) -> None:
        """Do nothing."""


Fields = Mapping[str, str | tuple[str, ...]]


def _supported(ways: Mapping[str, T], construct: str) -> T:
    if construct not in ways:
        known = ", ".join(sorted(ways))
        raise JudgeError(
            f"the lexical baseline does not support {construct!r}, only {known}. Use a model as judge",
            kind="unsupported",
        )
    return ways[construct]


def _words(fields: Fields, name: str) -> list[str]:
    value = fields.get(name, ())
    return split_words(value if isinstance(value, str) else "\n".join(value))


@lru_cache(maxsize=8)
def _distinct(value: str | tuple[str, ...]) -> frozenset[str]:
    """Return the distinct words of the evidence, which all claims of an answer share."""
    return frozenset(_words({"": value}, ""))


def _content(words: list[str]) -> list[str]:
    return [word for word in words if word not in _STOPWORDS]


def _share_found(sought: list[str], text: Iterable[str]) -> float:
    """Return the share of the distinct content words of `sought` (all words, if it has none) that occur in `text`.

    If `sought` is empty, this raises ZeroDivisionError.
    """
    distinct = set(_content(sought) or sought)
    return len(distinct.intersection(text)) / len(distinct)


def _density(fields: Fields) -> float:
    words = _words(fields, "response")
    n_new = len(set(_content(words)))
    return min(1.0, n_new / _THIN_WORDS, _LONG_WORDS / len(words)) * n_new / len(words)


def _best(fields: Fields, measure: Callable[[list[str], list[str]], float]) -> float:
    value = fields.get("reference", ())
    references = [words for text in ((value,) if isinstance(value, str) else value) if (words := split_words(text))]
    if not references:
        raise ZeroDivisionError
    response = _words(fields, "response")
    return max(measure(reference, response) for reference in references)


def _f1(reference: list[str], response: list[str]) -> float:
    if content := _content(reference):
        reference, response = content, _content(response)
    return 2 * (Counter(reference) & Counter(response)).total() / (len(reference) + len(response))


_MEASURES: Final[Mapping[str, Callable[[Fields], float]]] = {
    "contextual_coherence": lambda fields: _share_found(_words(fields, "response"), _words(fields, "contexts")),
    "question_relevance": lambda fields: _share_found(_words(fields, "query"), _words(fields, "response")),
    "information_density": _density,
    "answer_correctness": lambda fields: _best(fields, _f1),
    "passage_relevance": lambda fields: _share_found(_words(fields, "query"), _words(fields, "passage")),
    "information_recall": lambda fields: _best(fields, _share_found),
}


def _claims(fields: Fields) -> dict[str, Any]:
    text = fields["text"]
    return {"items": [s[:_LONG_SENTENCE] for s in split_sentences(text if isinstance(text, str) else "\n".join(text))]}


def _found_in_each(fields: Fields, name: str, mark: Callable[[float], int]) -> dict[str, int]:
    """Rate each part of a field by the share of the query's words that it contains. The keys are numbers from 1."""
    query = _words(fields, "query")
    shares = (_share_found(query, split_words(part)) if query else 0.0 for part in fields[name])
    return {str(number): mark(share) for number, share in enumerate(shares, start=1)}


def _marks(fields: Fields, name: str, mark: Callable[[float], int]) -> dict[str, int]:
    """Rate each part of a field by the share of its words that the evidence contains. The keys are numbers from 1."""
    evidence = _distinct(fields.get("evidence", ()))
    shares = (_share_found(words, evidence) if words else 0.0 for words in map(split_words, fields[name]))
    return {str(number): mark(share) for number, share in enumerate(shares, start=1)}


def _grade(fields: Fields) -> dict[str, str]:
    if answer_abstains(str(fields["response"])):
        return {"grade": "abstain"}
    try:
        share = _best(fields, _share_found)
    except ZeroDivisionError:
        share = 0.0
    return {"grade": "correct" if share >= 0.5 else "wrong"}


_VALUES: Final[Mapping[str, Callable[[Fields], dict[str, Any]]]] = {
    "answer_grade": _grade,
    "claims": _claims,
    "entailment": lambda fields: _marks(fields, "claims", lambda share: int(share >= 0.5)),
    "answer_questions": lambda fields: {"items": split_sentences(str(fields["response"]))[:1]},
    "question_equivalence": lambda fields: _found_in_each(fields, "questions", lambda share: round(100 * share)),
    "sentence_relevance": lambda fields: _found_in_each(fields, "sentences", lambda share: int(share >= 0.5)),
    # The prompt requests at most ten sub-questions.
    "sub_questions": lambda fields: {"items": split_sentences(str(fields.get("reference") or fields["query"]))[:10]},
    "answerability": lambda fields: _marks(fields, "sub_questions", lambda share: round(5 * share)),
}
