"""Where the texts of passages stand in a prompt, whatever escapes and line breaks were added on the way."""

from __future__ import annotations

import html
import re
import sys
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import accumulate, islice
from typing import Final, NamedTuple

from ragstone._util.unicode import normalize, replace_surrogates
from ragstone.requests._draft import PassageDraft

MAX_CHARS: Final = 20_000_000
"""Characters compared for one request. A number of characters, not a time: live capture and replay must agree."""
_SEED: Final = 32
_MIN_EXCERPT: Final = 80
_LARGE_EXCERPT: Final = 500
"""Characters of a piece that count, even if it is a small part of a long passage."""
_SHORT: Final = 32
_FEW_WORDS: Final = 4
_NEAR: Final = 100
"""Characters between two passages that are near each other."""
_MAX_OCCURRENCES: Final = 64
_MAX_ANCHOR_OCCURRENCES: Final = 8
_MAX_GAPS: Final = 4
_MAX_CHANGED: Final = 100
"""Characters of a passage in the place of which something else can stand, such as the mark of a redaction."""
_MAX_MARK: Final = 40
_RESUMED: Final = 8
"""Equal characters behind a change."""
_INDEX_AFTER: Final = 1_000_000
"""Characters searched in one text from which on an index is faster and uses less of the budget."""

_ESCAPE: Final = re.compile(r"""\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|([nrtbf"'/\\]))""")
_SPACES: Final = frozenset("nrtbf")
_DASH: Final = re.compile("[\u2010-\u2015]")
_INVISIBLE: Final = re.compile("[\u00ad\u200b\u2060\ufeff]")
"""Soft hyphen, zero-width space, word joiner and byte order mark, which applications remove."""
_ASCII_WORD: Final = re.compile(r"\w+", re.ASCII)
_WORD_START: Final = re.compile(r"\b\w|[\u0e00-\U0010ffff]")
"""Scripts from Thai on do not put spaces between words: each of their characters can begin one."""
_SPACELESS: Final = "\u0e00"
_MARKS: Final = (". ", "\u3002", " a", " t")
"""What a passage is searched by, the first one that it contains: an index of the places after a mark takes a tenth of
the time of one of all words."""
_CHARS_PER_MARK: Final = 6
"""What a place in the index counts as compared: about a word."""
_SENTENCE_END: Final = re.compile(r"[.!?]\s+|[\u3002\uff01\uff1f]")
_ENDS: Final = frozenset(" .,;:!?)]}\u3002\uff0c\uff01\uff1f")


class TooLargeError(Exception):
    """The budget of compared characters is used up."""


class Budget:
    """Characters that may still be compared for a request."""

    __slots__ = ("left",)

    def __init__(self, chars: int = MAX_CHARS) -> None:
        self.left = chars

    def spend(self, chars: int) -> None:
        """Count compared characters.

        Raises:
            TooLargeError: If the budget is used up.
        """
        self.left -= chars
        if self.left < 0:
            raise TooLargeError


def canonical(text: str) -> str:
    r"""Return a text without escapes of JSON, Python and HTML, and with one space for each run of whitespace.

    Letters and their accents are one character (Unicode's form NFC), invisible characters are removed, and dashes are
    hyphens. Case and punctuation stay. Both sides of a comparison are brought into this form.

    Examples:
        >>> canonical(r"Tom &amp; \"Jerry\"\n  run")
        'Tom & "Jerry" run'
    """
    for _ in range(4):
        before = text
        if "\\" in text:
            text = _ESCAPE.sub(_unescaped, text)
        if "&" in text:
            with suppress(ValueError):  # a number with more digits than `int` reads
                text = html.unescape(text)
        if text == before:
            break
    if not text.isascii():
        text = normalize("NFC", _DASH.sub("-", _INVISIBLE.sub("", replace_surrogates(text))))
    lines = text.replace("\n", " ")
    if lines.isprintable():  # the only whitespace is spaces: half the time of splitting
        while "  " in lines:
            lines = lines.replace("  ", " ")
        return lines.strip(" ")
    return " ".join(text.split())


def _unescaped(match: re.Match[str]) -> str:
    digits = match[1] or match[2]
    if digits:
        return chr(int(digits, 16))
    return " " if match[3] in _SPACES else match[3]


def has_word_edges(text: str, start: int, end: int) -> bool:
    """Whether a span neither begins nor ends within a word."""
    return not (_joins(text, start) or _joins(text, end))


def _joins(text: str, place: int) -> bool:
    if not 0 < place < len(text):
        return False
    before, after = text[place - 1], text[place]
    return _in_word(before) and _in_word(after)


def _in_word(char: str) -> bool:
    return char < _SPACELESS and (char.isalnum() or char == "_")


class Text:
    """A text in canonical form that others are searched in.

    Args:
        text: The text, in canonical form.
        budget: What the search may spend.
        indexed: Whether many texts are going to be searched, so that an index is worth its cost.
    """

    __slots__ = ("_indexes", "_searched", "budget", "is_indexed", "text")

    def __init__(self, text: str, budget: Budget, *, indexed: bool = False) -> None:
        self.text = text
        self.budget = budget
        self.is_indexed = indexed
        """Whether texts are looked up in an index instead of searched, which is so after a million searched
        characters."""
        self._searched = 0
        self._indexes: dict[str, _Index] = {}
        """By mark. That of all starts of words has the mark ""."""

    def __contains__(self, needle: str) -> bool:
        """Whether a canonical text stands here, in whole words."""
        return next(self.starts(needle), None) is not None

    def starts(self, needle: str, seed: _Seed | None = None) -> Iterator[int]:
        """Yield the positions, in their order, at which a canonical text stands in whole words."""
        if not needle:
            return
        for start in self._positions(needle, seed):
            if has_word_edges(self.text, start, start + len(needle)):
                yield start

    def anchor_starts(self, anchor: str) -> Iterator[int]:
        """Yield the positions of 32 characters that begin a word."""
        if self.is_indexed and anchor[0].isalnum():
            index = self._index("")
            return index.positions(anchor) if anchor in index else iter(())
        return (start for start in self._positions(anchor) if not _joins(self.text, start))

    def can_hold(self, seed: _Seed) -> bool:
        """Whether the index does not show that the text lacks a seed."""
        return not seed.chars or seed.chars in self._index(seed.mark)

    def extended(self, start: int, passage: str, anchor: int, n_gaps: int = 0) -> tuple[int, int]:
        """Return the span around equal characters up to which both texts are equal, cut to whole words."""
        text = self.text
        end, _ = self._equal_to(start, passage, anchor, 1, n_gaps)
        begin, _ = self._equal_to(start - 1, passage, anchor - 1, -1, n_gaps)
        begin += 1
        while begin < start and _joins(text, begin):
            begin += 1
        while end > start and _joins(text, end):
            end -= 1
        while end > start and text[end - 1] == " ":
            end -= 1
        while begin < start and text[begin] in _ENDS:
            begin += 1  # the end of the sentence before
        return begin, end

    def _equal_to(self, at: int, passage: str, place: int, way: int, n_gaps: int) -> tuple[int, int]:
        """Return the places up to which both texts are equal in a direction, but for changed words."""
        size = _common(self.text, at, passage, place, way)
        at, place = at + way * size, place + way * size
        for _ in range(n_gaps):
            if not 0 <= place < len(passage) or (resumed := self._resumed(at, passage, place, way)) is None:
                break
            size = _common(self.text, resumed[0], passage, resumed[1], way)
            at, place = resumed[0] + way * size, resumed[1] + way * size
        return at, place

    def _resumed(self, at: int, passage: str, place: int, way: int) -> tuple[int, int] | None:
        """Return where both texts are equal again, if one other word stands here for a few words of the passage."""
        text = self.text
        self.budget.spend(_MAX_MARK * _RESUMED)
        end = text.find(" ", at, at + _MAX_MARK) if way > 0 else text.rfind(" ", max(0, at - _MAX_MARK), at + 1)
        for start in range(at + way, end + way, way) if end >= 0 else ():
            if way > 0:
                equal = text[start : start + _RESUMED]
                found = passage.find(equal, place + 1, place + _MAX_CHANGED)
            else:
                equal = text[max(0, start - _RESUMED + 1) : start + 1]
                found = passage.rfind(equal, max(0, place - _MAX_CHANGED), place) + _RESUMED - 1
            # What stands before an equal character is not an insertion.
            if len(equal) == _RESUMED and found >= _RESUMED - 1 and text[start - way] != passage[found - way]:
                return start, found
        return None

    def _positions(self, needle: str, seed: _Seed | None = None) -> Iterator[int]:
        if self.is_indexed:
            seed = seed or _Seed.of(needle)
            if seed.chars:
                for position in self._index(seed.mark).positions(seed.chars):
                    start = position - seed.offset
                    self.budget.spend(len(needle))
                    if start >= 0 and self.text.startswith(needle, start):
                        yield start
                return
        start = self._find(needle, 0)
        while start >= 0:
            yield start
            start = self._find(needle, start + 1)

    def _find(self, needle: str, begin: int) -> int:
        start = self.text.find(needle, begin)
        searched = (start if start >= 0 else len(self.text)) - begin + len(needle)
        self._searched += searched
        self.is_indexed = self.is_indexed or self._searched > _INDEX_AFTER
        self.budget.spend(searched)
        return start

    def _index(self, mark: str) -> _Index:
        index = self._indexes.get(mark)
        if index is None:
            starts = _marked(self.text, mark) if mark else _words(self.text)
            self.budget.spend(len(starts) * _CHARS_PER_MARK if mark else len(self.text))
            index = self._indexes[mark] = _Index(self.text, starts)
        return index


class _Index:
    """The positions of a text by the 32 characters that begin there. `starts` has the last position first."""

    __slots__ = ("_first", "_later")

    def __init__(self, text: str, starts: list[int]) -> None:
        keys = [text[start : start + _SEED] for start in starts]
        self._first = dict(zip(keys, starts, strict=True))
        self._later: dict[int, int] = {}
        """By position, the next one with the same 32 characters."""
        if len(self._first) < len(keys):
            following: dict[str, int] = {}
            for key, start in zip(keys, starts, strict=True):
                if key in following:
                    self._later[start] = following[key]
                following[key] = start

    def __contains__(self, seed: str) -> bool:
        return seed in self._first

    def positions(self, seed: str) -> Iterator[int]:
        """Yield the positions of 32 characters in their order."""
        start = self._first.get(seed, -1)
        while start >= 0:
            yield start
            start = self._later.get(start, -1)


class _Seed(NamedTuple):
    """The characters by which a text is looked up in an index."""

    mark: str
    """What they follow. The mark "" is the start of a word."""
    offset: int
    """Where they begin in the text."""
    chars: str
    """32 characters, or none if the text is too short."""

    @classmethod
    def of(cls, needle: str) -> _Seed:
        """Choose the characters after the first mark that a canonical text contains."""
        last = len(needle) - _SEED
        if last < 0:
            return cls("", 0, "")
        for mark in _MARKS:
            place = needle.find(mark, 0, last)
            if place >= 0:
                offset = place + len(mark)
                return cls(mark, offset, needle[offset : offset + _SEED])
        word = _WORD_START.search(needle)
        if word is None or word.start() > last:
            return cls("", 0, "")
        return cls("", word.start(), needle[word.start() : word.start() + _SEED])


def _marked(text: str, mark: str) -> list[int]:
    """Return the positions after each mark, the last one first."""
    starts = list(accumulate(len(piece) + len(mark) for piece in text.split(mark)[:-1]))
    starts.reverse()
    return starts


def _words(text: str) -> list[int]:
    """Return the starts of words, the last one first."""
    # Matching a whole word takes less time than looking for a boundary at each character.
    starts = [word.start() for word in (_ASCII_WORD.finditer(text) if text.isascii() else _WORD_START.finditer(text))]
    starts.reverse()
    return starts


@dataclass(slots=True, eq=False)
class Candidate:
    """A passage that may stand in a prompt."""

    passage: PassageDraft
    text: str
    """In canonical form."""
    anchors: list[int] | None = None
    """Positions of the 32 characters by which pieces of it are found, once they are known."""
    _seed: _Seed | None = None

    @property
    def seed(self) -> _Seed:
        """The characters by which it is looked up in an index."""
        if self._seed is None:
            self._seed = _Seed.of(self.text)
        return self._seed

    @property
    def is_short(self) -> bool:
        """Whether it can stand in a text by coincidence: a name or a few words."""
        # In bytes, because 11 Chinese characters say as much as 32 Latin ones.
        return len(self.text.encode("utf-8", "replace")) < _SHORT and len(self.text.split()) < _FEW_WORDS


@dataclass(slots=True, eq=False)
class Match:
    """A passage, or a piece of one, in a prompt."""

    candidate: Candidate
    start: int
    end: int
    excerpt: str | None = None
    """The piece, if not the whole passage is in the prompt."""
    is_doubtful: bool = False
    """Whether the passage is short and not near another one."""
    is_changed: bool = False
    """Whether it is the beginning of a passage, whose rest stands in the prompt in another form."""


class _Spans:
    """Spans of a text of which none lies within another."""

    def __init__(self) -> None:
        self._spans: list[tuple[int, int]] = []

    def add(self, start: int, end: int) -> None:
        """Add a span, in the place of those within it."""
        # Starts and ends are both in order, so those within it are next to each other.
        first = after = bisect_left(self._spans, (start, start))
        while after < len(self._spans) and self._spans[after][1] <= end:
            after += 1
        self._spans[first:after] = [(start, end)]

    def __contains__(self, span: tuple[int, int]) -> bool:
        place = bisect_right(self._spans, span) - 1
        return place >= 0 and self._spans[place] == span

    def contain(self, start: int, end: int) -> bool:
        """Whether a span lies within one of these."""
        place = bisect_right(self._spans, (start, sys.maxsize)) - 1
        return place >= 0 and self._spans[place][1] >= end


class Finder:
    """Finds the passages that stand in a prompt, its `text`.

    The largest span counts: a chunk within its parent is not a match of its own. The own spans of `blanked`, canonical
    texts such as the question, do not count, and neither do the other `spans`.
    """

    def __init__(self, text: Text, *, blanked: Iterable[str] = (), spans: Iterable[tuple[int, int]] = ()) -> None:
        self._text = text
        self._blanks = [
            (start, start + len(blank)) for blank in blanked for start in islice(text.starts(blank), _MAX_OCCURRENCES)
        ]
        self._blanks += spans
        self._spans = _Spans()
        self._matches: list[Match] = []

    def find_whole(self, candidates: Iterable[Candidate]) -> list[Candidate]:
        """Find passages, with different texts, as a whole. Return those that do not stand here.

        Raise TooLargeError if the budget of compared characters is used up.
        """
        rest: list[Candidate] = []
        for candidate in sorted(candidates, key=lambda candidate: -len(candidate.text)):
            size = len(candidate.text)
            seed = candidate.seed if self._text.is_indexed else None
            if seed is not None and not self._text.can_hold(seed):
                rest.append(candidate)
                continue
            found = islice(self._text.starts(candidate.text, seed), _MAX_OCCURRENCES)
            starts = [start for start in found if self._is_free(start, start + size)]
            if not starts:
                rest.append(candidate)
                continue
            self._add(Match(candidate, starts[0], starts[0] + size))
            for start in starts[1:]:  # what stands in a repetition is not a match of its own either
                self._spans.add(start, start + size)
        return rest

    def find_pieces(self, candidates: Sequence[Candidate]) -> None:
        """Find the longest piece of each passage, if it has 80 characters and a quarter of the passage.

        Of a long passage, 500 characters and a twentieth are enough. A piece can have changed words, such as redacted
        ones. Of its beginning, and of any of its sentences, 32 characters are enough. Raise TooLargeError if the budget
        of compared characters is used up.
        """
        for candidate in candidates:
            size = len(candidate.text)
            smallest = max(_MIN_EXCERPT, min(size // 4, max(_LARGE_EXCERPT, size // 20)))
            if candidate.anchors is None:
                candidate.anchors = find_anchors(candidate.text, smallest)
            begins = list(self._text.anchor_starts(candidate.text[:_SEED])) if size > _SEED else []
            anchors = candidate.anchors if begins or candidate.anchors[:1] != [0] else candidate.anchors[1:]
            for n_gaps in (_MAX_GAPS, 0):
                piece = longest_piece(self._text, candidate.text, smallest=smallest, anchors=anchors, n_gaps=n_gaps)
                if piece is None or not any(piece[0] <= one.start and one.end <= piece[1] for one in self._matches):
                    break  # a changed passage is not one around others
            if piece is not None:
                self._add_piece(candidate, *piece)
            else:
                for start in begins:
                    if self._add_beginning(candidate, start, candidates):
                        break
        if candidates:
            self._find_sentences(candidates)

    def _add_beginning(self, candidate: Candidate, start: int, others: Iterable[Candidate]) -> bool:
        """Add the beginning of a passage, from 32 characters on, unless it is a heading, with which another one begins as well."""
        begin, end = self._text.extended(start, candidate.text, 0)
        known = (other for other in (*others, *(match.candidate for match in self._matches)) if other is not candidate)
        is_piece = end - begin >= _SEED and not any(
            other.text.startswith(candidate.text[: end - begin]) for other in known
        )
        if is_piece:
            self._add_piece(candidate, begin, end, end - begin)
        return is_piece

    def _find_sentences(self, candidates: Iterable[Candidate]) -> None:
        """Find sentences of passages, from 32 characters on, outside of what was found, that no other passage has."""
        text, end = self._text.text, 0
        starts: dict[str, int] = {}
        spans = [*self._blanks, *((match.start, match.end) for match in self._matches), (len(text), 0)]
        for begin, stop in sorted(spans):
            words = _WORD_START.finditer(text, end, begin) if begin - end >= _SEED else ()
            starts.update((text[word.start() : word.start() + _SEED], word.start()) for word in words)
            end = max(end, stop)
        found: dict[str, list[tuple[Candidate, int]]] = {}
        for candidate in {*candidates, *(match.candidate for match in self._matches)} if starts else ():
            self._text.budget.spend(len(candidate.text))
            for sentence in _SENTENCE_END.finditer(candidate.text):
                seed = candidate.text[sentence.end() : sentence.end() + _SEED]
                if seed in starts:
                    found.setdefault(seed, []).append((candidate, sentence.end()))
        missing = set(candidates).difference(match.candidate for match in self._matches if match.is_changed)
        for seed, places in found.items():
            candidate, place = places[0]
            if len(places) == 1 and candidate in missing:
                begin, end = self._text.extended(starts[seed], candidate.text, place)
                if end - begin >= _SEED:
                    self._add_piece(candidate, begin, end, place + end - starts[seed])

    def _add_piece(self, candidate: Candidate, begin: int, end: int, rest: int | None = None) -> None:
        """Add a piece of a passage. `rest` is the place behind it in the passage, if that may follow in another form."""
        if self._is_free(begin, end):
            following = "" if rest is None else candidate.text[rest:].strip()[:_RESUMED]
            is_changed = len(following) == _RESUMED and following in self._text.text[end : end + _MAX_MARK]
            self._add(Match(candidate, begin, end, excerpt=self._text.text[begin:end], is_changed=is_changed))

    def _add(self, match: Match) -> None:
        self._spans.add(match.start, match.end)
        self._matches.append(match)

    def _is_free(self, start: int, end: int) -> bool:
        is_blank = any(begin <= start and end <= stop for begin, stop in self._blanks)
        return not is_blank and not self._spans.contain(start, end)

    @property
    def matches(self) -> list[Match]:
        """What was found, in the order of the prompt."""
        matches = [match for match in self._matches if (match.start, match.end) in self._spans]
        matches.sort(key=lambda match: (match.start, match.end))
        _mark_doubtful(matches)
        return matches


def _mark_doubtful(matches: list[Match]) -> None:
    for place, match in enumerate(matches):
        if match.candidate.is_short:
            near = matches[max(0, place - 1) : place] + matches[place + 1 : place + 2]
            gaps = (max(other.start - match.end, match.start - other.end) for other in near)
            match.is_doubtful = not any(gap <= _NEAR for gap in gaps)


def longest_piece(
    text: Text, passage: str, *, smallest: int, anchors: Iterable[int] | None = None, n_gaps: int = 0
) -> tuple[int, int] | None:
    """Return the span of the longest piece of a passage in another canonical text, or None if all pieces are too small.

    A piece has at least `smallest` characters, and at most `n_gaps` changed words. `anchors` are what `find_anchors`
    returned for both, if it is known. Raise TooLargeError if the budget of compared characters is used up.
    """
    if len(passage) < smallest:
        return None
    best: tuple[int, int] | None = None
    first = 0
    for anchor in find_anchors(passage, smallest) if anchors is None else anchors:
        for start in islice(text.anchor_starts(passage[anchor : anchor + _SEED]), _MAX_ANCHOR_OCCURRENCES):
            if best is not None and start < best[1] and start - anchor == best[0] - first:
                continue  # in the best piece
            piece = text.extended(start, passage, anchor)
            if best is None or piece[1] - piece[0] > best[1] - best[0]:
                best, first = piece, anchor + piece[0] - start
    if best is not None and n_gaps:
        best = text.extended(best[0], passage, first, n_gaps)
    return best if best is not None and best[1] - best[0] >= smallest else None


def find_anchors(passage: str, smallest: int) -> list[int]:
    """Return positions such that a piece of the smallest size contains the 32 characters at one of them."""
    step = max(1, smallest - 2 * _SEED)
    anchors: list[int] = []
    for place in range(0, len(passage) - _SEED + 1, step):
        word = _WORD_START.search(passage, place)
        if word is not None and word.start() + _SEED <= len(passage):
            anchors.append(word.start())
    return anchors


def _common(one: str, place: int, other: str, place_in_other: int, direction: int) -> int:
    """Return the number of equal characters from two places on, in a direction."""
    limit = min(len(one) - place, len(other) - place_in_other) if direction > 0 else min(place, place_in_other) + 1
    n = 0
    step = 64
    while n < limit:
        step = min(step, limit - n)
        if _piece(one, place, n, step, direction) == _piece(other, place_in_other, n, step, direction):
            n += step
            step *= 2
        elif step == 1:
            break
        else:
            step = max(1, step // 4)
    return n


def _piece(text: str, place: int, n: int, step: int, direction: int) -> str:
    if direction > 0:
        return text[place + n : place + n + step]
    return text[place - n - step + 1 : place - n + 1]
