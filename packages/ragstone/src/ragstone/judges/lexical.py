"""The lexical baseline: deterministic word overlap, no model. It shows that the plumbing works, and judges nothing."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

from pydantic import TypeAdapter, ValidationError

from ragstone._util.words import split_sentences, split_words
from ragstone.errors import JudgeError
from ragstone.judges._protocol import AbstentionEstimate, JsonReply, JudgeIdentity, NumberReply, Prompt, TextReply
from ragstone.schema import Interval

__all__ = ["BASELINE_NOTE", "LexicalJudge", "LexicalReader", "is_baseline"]

T = TypeVar("T")

BASELINE_NOTE: Final = (
    "scored by the lexical baseline (word overlap), which is not a judge: use it only to test your setup"
)
"""What every table and report says of scores for which `is_baseline` holds; JSON says `"judge_is_baseline": true`."""
_NAME: Final = "lexical baseline"
_VERSION: Final = "1"

_FUNCTION_WORDS: Final = (
    "a an and are as at be been but by can did do does for from had has have how i if in is it its of on "
    "or so such than that the their them then there these they this those to was were what when where "
    "which who whom whose why will with would you your"
)
_STOPWORDS: Final = frozenset(_FUNCTION_WORDS.split())
# Below this many content words an answer is scored as too thin, above that many words as too long.
_THIN_WORDS: Final = 5
_LONG_WORDS: Final = 120
_LONG_SENTENCE: Final = 1000
"""Characters; no claim is longer."""


def is_baseline(*judges: str | None) -> bool:
    """Whether any of these judges, as outcomes name them (`Score.judge`), is or contains the lexical baseline."""
    return any(judge is not None and _NAME in judge for judge in judges)


class LexicalJudge:
    """Answers by word overlap, in microseconds and always alike: the five CCRS constructs, and what UDCG asks.

    A stand-in for trying out and for testing what surrounds a judge. It knows nothing of meaning: a negation, a
    paraphrase or a wrong date among the right words escapes it. Every table and report says that it is a baseline.

    | construct | value on the scale 0-1 |
    |---|---|
    | contextual_coherence | share of the response's words that occur in the contexts |
    | question_relevance | share of the question's words that occur in the response |
    | information_density | share of the response's words that are new content, less for under 5 and over 120 words |
    | answer_correctness | F1 of the words of the response and of the reference, best reference |
    | passage_relevance | share of the question's words that occur in the passage |
    | information_recall | share of the reference's words that occur in the response, best reference |
    | answer_grade | the same |

    And as JSON: `claims` are the sentences of a text; of `entailment`, what shares at least half of its words with
    the evidence; `sub_questions` are the first sentences of the reference or query; for `answerability`, five times
    the share of the question's words in the evidence, rounded. `answer_questions` is the response's first sentence,
    and `question_equivalence` the share of the query's words in each; of `sentence_relevance`, what has at least half
    of the query's words.

    Example:
        ```python
        reply = await LexicalJudge().ask_number(prompt)
        ```
    """

    @property
    def identity(self) -> JudgeIdentity:
        """The baseline's name and version."""
        digest = hashlib.sha256(f"lexical/{_VERSION}".encode()).hexdigest()[:16]
        return JudgeIdentity(name=_NAME, hash=digest, is_baseline=True)

    async def ask_text(self, prompt: Prompt, *, max_tokens: int = 512) -> TextReply:  # noqa: ARG002
        """Refuse: word overlap writes no text.

        Raises:
            JudgeError: Always, kind "unsupported".
        """
        raise JudgeError(
            f"the lexical baseline writes no text, and {prompt.construct!r} needs some; use a model as judge",
            kind="unsupported",
        )

    async def ask_number(self, prompt: Prompt, *, low: float = 0, high: float = 100) -> NumberReply:
        """Answer by `prompt.construct`; the task's wording plays no role.

        Raises:
            JudgeError: Kind "unsupported": another construct than those, or texts without a word to compare.
        """
        measure = _MEASURES.get(prompt.construct)
        if measure is None:
            raise JudgeError(
                (
                    f"the lexical baseline has no stand-in for {prompt.construct!r}, only for "
                    f"{', '.join(sorted(_MEASURES))}; use a model as judge"
                ),
                kind="unsupported",
            )
        try:
            share = measure(prompt.fields)
        except ZeroDivisionError:
            raise JudgeError(
                f"there is no word to compare for {prompt.construct!r} in {sorted(prompt.fields)}", kind="unsupported"
            ) from None
        value = low + (high - low) * share
        return NumberReply(value=value, raw=f"{value:g}", method="lexical")

    async def ask_json(self, prompt: Prompt, schema: TypeAdapter[T], *, max_tokens: int = 1024) -> JsonReply[T]:  # noqa: ARG002
        """Answer by `prompt.construct`.

        Raises:
            JudgeError: Kind "unsupported": another construct than those, or another shape than they have.
        """
        make = _VALUES.get(prompt.construct)
        if make is None:
            raise JudgeError(
                (
                    f"the lexical baseline has no stand-in for {prompt.construct!r}, only for "
                    f"{', '.join(sorted(_VALUES))}; use a model as judge"
                ),
                kind="unsupported",
            )
        value = make(prompt.fields)
        try:
            return JsonReply(value=schema.validate_python(value), raw=repr(value), method="lexical")
        except ValidationError as error:
            raise JudgeError(
                f"what the lexical baseline makes of {prompt.construct!r} has another shape than was asked for: {error}",
                kind="unsupported",
            ) from None

    async def aclose(self) -> None:
        """Nothing to let go of."""


class LexicalReader:
    """Stands in for the application's generator: abstains where the passages lack the question's words.

    The probability to abstain is the share of the question's content words that occur in no passage. Like the lexical
    judge it tries out the plumbing and measures nothing.

    Example:
        ```python
        reading = await LexicalReader().abstention("How tall is the lighthouse?", ["It is 31 metres tall."])
        ```
    """

    marker: Final = "NO-RESPONSE"

    @property
    def identity(self) -> JudgeIdentity:
        """The baseline's name and version."""
        digest = hashlib.sha256(f"lexical reader/{_VERSION}".encode()).hexdigest()[:16]
        return JudgeIdentity(name=_NAME, hash=digest, is_baseline=True)

    async def estimate_abstention(self, query: str, passages: Sequence[str]) -> AbstentionEstimate:
        """Share of the question's words that no passage has.

        Raises:
            JudgeError: Kind "unsupported": a question without a word.
        """
        try:
            p = 1 - _share_found(split_words(query), split_words("\n".join(passages)))
        except ZeroDivisionError:
            raise JudgeError(
                f"there is no word to look for in the question {query[:80]!r}", kind="unsupported"
            ) from None
        interval = Interval(low=p, high=p, method="exact")
        return AbstentionEstimate(value=p, interval=interval, method="lexical", complete=p)

    async def answer(self, query: str, passages: Sequence[str]) -> TextReply:
        """The passage that shares most words with the question; the marker when none shares half of them."""
        reading = await self.estimate_abstention(query, passages)
        if reading.value > 0.5:
            return TextReply(text=self.marker)
        words = split_words(query)
        return TextReply(text=max(passages, key=lambda passage: _share_found(words, split_words(passage))))

    def is_abstention(self, reply: str) -> bool:
        """Whether a reply is the marker."""
        return reply.strip() == self.marker

    async def aclose(self) -> None:
        """Nothing to let go of."""


Fields = Mapping[str, str | tuple[str, ...]]


def _words(fields: Fields, name: str) -> list[str]:
    value = fields.get(name, ())
    return split_words(value if isinstance(value, str) else "\n".join(value))


def _content(words: list[str]) -> list[str]:
    return [word for word in words if word not in _STOPWORDS]


def _share_found(sought: list[str], text: list[str]) -> float:
    """Share of the distinct content words of `sought` (of all, if it has none) that occur in `text`.

    Nothing sought is a division by zero.
    """
    distinct = set(_content(sought) or sought)
    return len(distinct & set(text)) / len(distinct)


def _coherence(fields: Fields) -> float:
    return _share_found(_words(fields, "response"), _words(fields, "contexts"))


def _relevance(fields: Fields) -> float:
    return _share_found(_words(fields, "query"), _words(fields, "response"))


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
    common = (Counter(reference) & Counter(response)).total()
    return 2 * common / (len(reference) + len(response))


_MEASURES: Final[Mapping[str, Callable[[Fields], float]]] = {
    "contextual_coherence": _coherence,
    "question_relevance": _relevance,
    "information_density": _density,
    "answer_correctness": lambda fields: _best(fields, _f1),
    "passage_relevance": lambda fields: _share_found(_words(fields, "query"), _words(fields, "passage")),
    "information_recall": lambda fields: _best(fields, _share_found),
    "answer_grade": lambda fields: _best(fields, _share_found),
}


def _claims(fields: Fields) -> dict[str, Any]:
    text = fields["text"]
    return {"items": [s[:_LONG_SENTENCE] for s in split_sentences(text if isinstance(text, str) else "\n".join(text))]}


def _found_in_each(fields: Fields, name: str, mark: Callable[[float], int]) -> dict[str, int]:
    """A mark for each part of a field, by its number, from the share of the query's words that it has."""
    query = _words(fields, "query")
    shares = [_share_found(query, split_words(part)) if query else 0.0 for part in fields[name]]
    return {str(number): mark(share) for number, share in enumerate(shares, start=1)}


def _marks(fields: Fields, name: str, mark: Callable[[float], int]) -> dict[str, int]:
    """A mark for each part of a field, by its number, from the share of its words that the evidence has."""
    evidence = _words(fields, "evidence")
    marks = {}
    for number, part in enumerate(fields[name], start=1):
        words = split_words(part)
        marks[str(number)] = mark(_share_found(words, evidence) if words else 0.0)
    return marks


_VALUES: Final[Mapping[str, Callable[[Fields], dict[str, Any]]]] = {
    "claims": _claims,
    "entailment": lambda fields: _marks(fields, "claims", lambda share: int(share >= 0.5)),
    "answer_questions": lambda fields: {"items": split_sentences(str(fields["response"]))[:1]},
    "question_equivalence": lambda fields: _found_in_each(fields, "questions", lambda share: round(100 * share)),
    "sentence_relevance": lambda fields: _found_in_each(fields, "sentences", lambda share: int(share >= 0.5)),
    # As many as are asked for at most: the first ten.
    "sub_questions": lambda fields: {"items": split_sentences(str(fields.get("reference") or fields["query"]))[:10]},
    "answerability": lambda fields: _marks(fields, "sub_questions", lambda share: round(5 * share)),
}
