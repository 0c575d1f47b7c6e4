"""Extraction of claims from texts, and verdicts whether evidence supports them, once per sample for all metrics.

A claim is a short sentence that states one thing and can be understood by itself. The judge extracts claims from the
response and from each reference. It also sees the query, because "31 meters" is a claim only as an answer. A judge call
returns verdicts for up to 20 claims about one evidence: a passage, all passages, the references or the response.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, TypeVar

from ragstone._util.abstains import answer_abstains
from ragstone._util.words import split_sentences
from ragstone.errors import JudgeError, JudgeReplyError
from ragstone.judges import Judge, Prompt, ask_number
from ragstone.metrics._ask import RatingsReply, TextListReply, ask_ratings, ask_text_list
from ragstone.metrics._history import question_fields
from ragstone.metrics._prompts import Task
from ragstone.metrics._shared import compute_once
from ragstone.metrics._shares import Mark
from ragstone.schema import Sample

T = TypeVar("T")
U = TypeVar("U")

EXTRACTION_EXAMPLES: Final = """\
Examples of claims:

Query: Since when does the Skelling ferry run, and who owns it?
Text: It has run since 1921. I am glad to help! It belongs to Marit Oye, whose office is in Vik.
Reply: {"items": ["The Skelling ferry has run since 1921.", "The Skelling ferry belongs to Marit Oye.", \
"Marit Oye's office is in Vik."]}

Query: Wie hoch ist der Turm von Aulitz?
Text: 48 Meter. Wann er gebaut wurde, steht nicht in den Unterlagen.
Reply: {"items": ["Der Turm von Aulitz ist 48 Meter hoch."]}

Text: Sorry, I could not find this. Please ask the harbor office.
Reply: {"items": []}"""
EXTRACTION: Final = Task(
    "Your assignment: split the text into its claims, one item for each.\n"
    "A claim is a short sentence that states one fact. A reader must understand it without the text: write names "
    "instead of 'he', 'it' or 'there'. If the text only answers the query, add what the query asks about.\n"
    "Include every fact that the text states, even if it is wrong. Do not add facts. Leave out opinions, advice, questions, "
    "greetings, and sentences that say that something is unknown or was not found. If the text does not state a fact, "
    "return an empty list.\n"
    "Write the claims in the language of the text. If there is a block 'before', use it only to understand the text.",
    "claims",
    ("text",),
    ("query", "before"),
    EXTRACTION_EXAMPLES,
)
_AFTER_NONE: Final = (
    "An earlier reply was an empty list. Read each sentence again, and return an empty list only if none states a fact."
)
"""What is added to a second request for the claims of a text that does not decline."""
IN_PASSAGES: Final = Task(
    "Your assignment: for each numbered claim, decide whether the evidence supports it.\n"
    "1: everything in the claim is stated in the evidence, in any words or language, or follows from it, from one part "
    "or from several together.\n"
    "0: a part of the claim is not in the evidence, or the evidence contradicts it.\n"
    "Use only the evidence, not your own knowledge. Decide on each claim by itself.",
    "support",
    ("evidence", "claims"),
)
IN_ANSWER: Final = Task(
    "Your assignment: for each numbered claim, decide whether the evidence supports it. If there is a query, the "
    "evidence is an answer to the query: read it in this way.\n"
    "1: everything in the claim is stated in the evidence, in any words or language, or follows from it. If the "
    "evidence has several parts, each is an answer by itself, and one that supports the claim is enough.\n"
    "0: a part of the claim is not in the evidence, or the evidence contradicts it.\n"
    "Use only the evidence, not your own knowledge. Decide on each claim by itself.",
    "support_in_answer",
    ("evidence", "claims"),
    ("query",),
)

_CHUNK: Final = 20
"""Maximum number of parts in one judge call. Judges miscount longer lists."""
_PIECE: Final = 1500
"""Maximum characters of text in one extraction call. Prompt and reply then fit a context of 4,096 tokens."""
_CHARS_A_CLAIM: Final = 6
"""Minimum characters of text per claim, used to limit the number of claims. A list of names has one claim per name."""
_EXTRA_CLAIMS: Final = 8
_TOKENS_A_CHAR: Final = 1.5
"""Reply tokens per character of text. Claims repeat their subject, and one character may be one token."""
_EXTRA_TOKENS: Final = 256
_AT_ONCE: Final = 32
"""Judge calls of one metric at once. Each waits as a task with its prompt, which garbage collections stop threads
for."""


class ClaimCheck:
    """Claims and verdicts of one sample for one metric. Metrics of the same sample share their judge calls.

    If claims, texts or numbers are not available, the judge's error is raised. If a verdict is not available, it is None and its error
    is kept. The metric may still have a value without this verdict, or report bounds. `methods` and `replies` include
    the calls that are shared with other metrics.
    """

    def __init__(self, sample: Sample, judge: Judge) -> None:
        self.sample = sample
        self.judge = judge
        self.methods: list[str] = []
        self.replies = 0
        self.errors: list[JudgeError] = []
        self._query = question_fields(sample)

    async def of_response(self) -> tuple[str, ...]:
        """Extract the claims of the response. An empty response does not have claims."""
        return await self._claims(self.sample.response or "")

    async def of_references(self) -> tuple[tuple[str, ...], ...]:
        """Extract the claims of each reference. References without claims are omitted."""
        texts = dict.fromkeys(text for reference in self.sample.reference if (text := reference.strip()))
        return tuple(claims for claims in await gather_or_cancel(map(self._claims, texts)) if claims)

    async def supported_by_contexts(self, claims: Sequence[str]) -> tuple[Mark, ...]:
        """Judge which claims all passages together support."""
        return await self._supported(claims, tuple(passage.text for passage in self.sample.contexts or ()), IN_PASSAGES)

    async def supported_by_passages(self, claims: Sequence[str]) -> tuple[tuple[Mark, ...], ...]:
        """Judge which claims each passage alone supports. Returns one tuple of verdicts per passage."""
        passages = self.sample.contexts or ()
        texts = list(dict.fromkeys(passage.text for passage in passages))
        columns = await gather_or_cancel(self._supported(claims, text, IN_PASSAGES) for text in texts)
        by_text = dict(zip(texts, columns, strict=True))
        return tuple(by_text[passage.text] for passage in passages)

    async def supported_by_references(self, claims: Sequence[str]) -> tuple[Mark, ...]:
        """Judge which claims at least one reference supports."""
        texts = tuple(dict.fromkeys(text for reference in self.sample.reference if (text := reference.strip())))
        return await self._supported(claims, texts, IN_ANSWER)

    async def supported_by_response(self, claims: Sequence[str]) -> tuple[Mark, ...]:
        """Judge which claims the response supports."""
        return await self._supported(claims, self.sample.response or "", IN_ANSWER)

    async def _claims(self, text: str) -> tuple[str, ...]:
        claims = await gather_or_cancel(self._extract(before, piece) for before, piece in _split(text))
        return tuple(dict.fromkeys(itertools.chain.from_iterable(claims)))

    async def _extract(self, before: str, piece: str) -> tuple[str, ...]:
        most = _EXTRA_CLAIMS + len(piece) // _CHARS_A_CLAIM
        fields = {**self._query, **({"before": before} if before else {}), "text": piece}
        prompt = Prompt(construct="claims", task=EXTRACTION, fields=fields, examples=EXTRACTION_EXAMPLES)
        max_tokens = _EXTRA_TOKENS + round(_TOKENS_A_CHAR * len(piece))
        reply = await self.ask_texts_once(prompt, most=most, max_tokens=max_tokens)
        if not reply.texts and not answer_abstains(piece, whole=True):
            prompt = replace(prompt, task=f"{EXTRACTION}\n{_AFTER_NONE}")
            reply = await self.ask_texts_once(prompt, most=most, max_tokens=max_tokens)
        if reply.n_items >= most:
            # A server that enforces the maximum length ends the list there, even if claims are missing.
            raise JudgeReplyError(
                f"the judge extracted {most} or more claims from {len(piece)} characters ({len(reply.texts)} different "
                "ones), so the list may be incomplete",
                kind="truncated" if 2 * len(reply.texts) > most else "repeated",
                raw=reply.raw,
            )
        return reply.texts

    async def _supported(self, claims: Sequence[str], evidence: str | tuple[str, ...], task: str) -> tuple[Mark, ...]:
        if not any(text.strip() for text in ((evidence,) if isinstance(evidence, str) else evidence)):
            return (False,) * len(claims)
        # Shared fields come first, because servers cache the beginning of prompts.
        fields = {**(self._query if task == IN_ANSWER else {}), "evidence": evidence}
        return await self.marked("entailment", task, fields, "claims", claims)

    async def marked(
        self, construct: str, task: str, fields: Mapping[str, str | tuple[str, ...]], name: str, parts: Sequence[str]
    ) -> tuple[Mark, ...]:
        """Ask for a yes-or-no verdict on each of `parts`, in chunks. The field `name` with the parts follows `fields`."""

        async def ask(chunk: tuple[str, ...]) -> tuple[Mark, ...]:
            prompt = Prompt(construct=construct, task=task, fields={**fields, name: chunk})
            try:
                reply = await self.ask_marks_once(prompt, len(chunk))
            except JudgeError as error:
                self.errors.append(error)
                return (None,) * len(chunk)
            return tuple(mark == 1 for mark in reply.marks)

        chunks = (tuple(parts[start : start + _CHUNK]) for start in range(0, len(parts), _CHUNK))
        return tuple(itertools.chain.from_iterable(await gather_or_cancel(map(ask, chunks))))

    async def ask_texts_once(self, prompt: Prompt, *, most: int, max_tokens: int | None = None) -> TextListReply:
        """Ask for a list of texts, once per sample."""
        reply = await compute_once(
            self._key(prompt, most), lambda: ask_text_list(self.judge, prompt, most=most, max_tokens=max_tokens)
        )
        self._note(reply.method)
        return reply

    async def ask_marks_once(self, prompt: Prompt, count: int, *, high: int = 1) -> RatingsReply:
        """Ask for ratings from 0 to `high`, once per sample."""
        reply = await compute_once(self._key(prompt, high), lambda: ask_ratings(self.judge, prompt, count, high=high))
        self._note(reply.method)
        return reply

    async def ask_number_once(self, prompt: Prompt) -> float:
        """Ask for a number from 0 to 1, once per sample."""
        reply = await compute_once(self._key(prompt, 1), lambda: ask_number(self.judge, prompt, low=0, high=1))
        self._note(reply.method, reply.n)
        return reply.value

    def _note(self, method: str, replies: int = 1) -> None:
        self.methods.append(method)
        self.replies += replies

    def _key(self, prompt: Prompt, form: int) -> tuple[object, ...]:
        return (self.judge.identity.hash, prompt.construct, prompt.task, *prompt.fields.items(), form)


async def gather_or_cancel(work: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Run coroutines concurrently, at most `_AT_ONCE`. The first error cancels the others and is raised unchanged."""
    results: list[T] = []
    waiting = iter(work)
    while batch := tuple(itertools.islice(waiting, _AT_ONCE)):
        tasks = [asyncio.create_task(each) for each in batch]
        try:
            results += await asyncio.gather(*tasks)
        except BaseException:
            await _cancel(tasks)
            raise
        finally:
            # An error refers to this frame, which would refer to it: only the garbage collector frees a circle.
            tasks.clear()
    return results


async def _cancel(tasks: Sequence[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def pair(one: Coroutine[Any, Any, T], other: Coroutine[Any, Any, U]) -> tuple[T, U]:
    """Run two coroutines concurrently, as `gather_or_cancel` does."""
    results: list[Any] = await gather_or_cancel((one, other))
    return results[0], results[1]


def _split(text: str) -> list[tuple[str, str]]:
    """Split a text into pieces at sentence ends, each with the piece before it."""
    if len(text := text.strip()) <= _PIECE:
        return [("", text)] if text else []
    pieces = [""]
    for sentence in split_sentences(text):
        for start in range(0, len(sentence), _PIECE):
            part = sentence[start : start + _PIECE]
            if pieces[-1] and len(pieces[-1]) + 1 + len(part) > _PIECE:
                pieces.append(part)
            else:
                pieces[-1] = f"{pieces[-1]} {part}".lstrip()
    return list(zip(["", *pieces], [piece for piece in pieces if piece], strict=False))
