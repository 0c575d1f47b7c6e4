"""Reads the citations of an answer: markers in its text, or a list of the model's provider, by sentence.

| shape | written by |
|---|---|
| `[1]`, `[1, 2]`, `[1][2]`, `[1-3]`, `[^1]`, `[Source 1]`, `(Source 1)` | models that are asked to cite, LlamaIndex's `CitationQueryEngine` |
| `[doc-3]`, `[handbook.pdf]`, `[text](https://...)` | the same, by id, file or URL |
| `【1】`, `【4:0†handbook.pdf】`, `【1†L3-L5】` | OpenAI's file search and search models |
| a list `citations` or `annotations` in the metadata of the sample | LangChain, Anthropic, Cohere, OpenAI |

A marker belongs to the sentence that it is in. After the end of a sentence it belongs to that sentence, and at the
beginning of a line to the sentence that follows. A list of sources at the end of the answer is not part of its
sentences.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Sequence
from typing import Final

from ragstone._util.words import find_sentences
from ragstone.metrics.citation._listed import read_list
from ragstone.metrics.citation._passages import Citation, CitedPassages
from ragstone.schema import Sample

_MARKER: Final = re.compile(
    r"(?<![ \t])[ \t]*+(?:"
    r"【(?P<wide>[^【】\n]{1,200})】"
    r"|(?:\(\s*)?\[(?P<label>[^\[\]\n]{1,200})\]\((?P<url>[^()\s]{1,2000})\)(?:\s*\))?"
    r"|\[(?P<square>[^\[\]\n]{1,200})\](?!\()"
    r"|\((?P<round>(?:see\s+)?(?:sources?|documents?|docs?|passages?)\s*#?\d[^()\n]{0,40})\)"
    r")",
    re.IGNORECASE,
)
_KIND: Final = re.compile(
    r"^(?:see\s++)?(?:sources?|documents?|docs?|passages?|refs?|references?|citations?)?\s*+(?:[#^:]\s*+)?(?=\d)",
    re.IGNORECASE,
)
"""A word before a number: "Source 1". Also the caret of a footnote."""
_NUMBER: Final = re.compile(r"(\d{1,3})(?:\s*[-\u2013]\s*(\d{1,3}))?")
_WIDE: Final = re.compile(r"(?:(?P<message>\d{1,4}):)?(?P<number>\d{1,4})\u2020(?P<name>.*)")
_CODE: Final = re.compile(r"```.*?(?:```|\Z)|`[^`\n]+`", re.DOTALL)
_LONGEST_RANGE: Final = 20
_SOURCES: Final = (
    r"(?:sources?|references?|citations?|bibliography|works cited|footnotes?|quellen|quellenangaben|referenzen|"
    r"r\u00e9f\u00e9rences|fuentes|referencias|fonti|riferimenti|fontes|refer\u00eancias|bronnen|"
    r"\u51fa\u5178|\u53c2\u8003\u6587\u732e|\u53c2\u8003\u8cc7\u6599|\u6765\u6e90|\u0627\u0644\u0645\u0635\u0627\u062f\u0631|\u0627\u0644\u0645\u0631\u0627\u062c\u0639)"
)
_SOURCE_LIST: Final = re.compile(
    # A heading, a line with nothing but citations after the word, or definitions of footnotes.
    rf"^[#*_ \t]*+{_SOURCES}[*_ \t]*+(?:[:\uff1a][*_ \t]*+)?(?P<heading>\n)"
    rf"|^[#*_ \t]*+{_SOURCES}[*_ \t]*+[:\uff1a][*_ \t]*+"
    r"(?:[\[\u3010](?>[^\[\]\n]*(?:\]|\u3011(?=[,; \t]*+(?:\[|$))))[,; \t]*+)++$"
    r"|^\[\^\w{1,20}\]:.*$",
    re.IGNORECASE | re.MULTILINE,
)
_LISTED: Final = re.compile(
    r"(?:^[ \t]*+(?:(?:[-*\u2022]|\d{1,3}[.)]|\[|\u3010|https?:).*+(?:\n|\Z)|\n))++", re.IGNORECASE | re.MULTILINE
)
"""Lines of a list of sources."""
_LINE_START: Final = re.compile(r"^[ \t*\u2022>-]*+", re.MULTILINE)

_Target = tuple[str, int | tuple[int, ...]]
"""What a marker cites: its label, and a number or the positions of passages."""

CitedSentence = tuple[str, tuple[int, ...], tuple[str, ...]]
"""A sentence without markers, the positions of the passages that it cites (from 1, ascending, without duplicates), and
citations of other passages as written. Garbage collections, which stop all threads, do not visit such plain tuples."""


def read_cited_sentences(sample: Sample) -> list[CitedSentence]:
    """Return the sentences of the response with their citations.

    If `sample.metadata` has a list `citations` or `annotations` of the model's provider, only this list counts, and
    markers are removed from the text. If entries of the list do not say where they belong, the response is one
    statement that cites all of them.
    """
    response = sample.response or ""
    passages = CitedPassages(sample.contexts or ())
    markers = _find_markers(response, passages)
    listed = read_list(sample, passages)
    sources = _find_sources(response)
    text = _Removal(response, [*((marker.start, marker.end) for marker in markers), *sources])
    if listed is None:
        return _assign(text, [marker for marker in markers if not _overlaps(sources, marker.start, marker.start + 1)])
    if any(citation.whole for citation in listed):
        return [_sentence(" ".join(text.kept.split()), listed)] if find_sentences(text.kept) else []
    return _assign(text, listed)


def _find_sources(response: str) -> list[tuple[int, int]]:
    """Return where lists of sources are. A heading counts if nothing but a list follows it."""
    end = len(response)
    last = next((match.start() for match in _LISTED.finditer(response) if match.end() == end), end)
    spans: list[tuple[int, int]] = []
    for match in _SOURCE_LIST.finditer(response):
        if not match["heading"]:
            spans.append(match.span())
        elif last <= match.end() < end:
            return [*spans, (match.start(), end)]
    return spans


def _overlaps(spans: Sequence[tuple[int, int]], start: int, end: int) -> bool:
    """Return whether a part of a text and one of the spans, which are in order and apart, share characters."""
    before = bisect.bisect_left(spans, (end, 0)) - 1
    return before >= 0 and start < spans[before][1]


class _Removal:
    """A text without some of its parts, and where its characters are afterwards."""

    def __init__(self, text: str, parts: Sequence[tuple[int, int]]) -> None:
        self._starts: list[int] = []
        self._offsets: list[int] = []
        kept: list[str] = []
        length = at = 0
        for start, end in sorted(parts):
            if end <= at:
                continue
            kept.append(text[at : max(start, at)])
            if text[end : end + 1].isalnum() and kept[-1][-1:].strip():
                kept[-1] += " "  # "tall.[1]It" must not become "tall.It"
            length += len(kept[-1])
            self._starts.append(end)
            self._offsets.append(length - end)
            at = end
        self.kept = "".join([*kept, text[at:]])

    def find(self, position: int) -> int:
        """Return where a position of the text is in the kept text."""
        index = bisect.bisect_right(self._starts, position) - 1
        moved = position + (self._offsets[index] if index >= 0 else 0)
        following = index + 1
        if following < len(self._starts):  # inside of a removed part
            moved = min(moved, self._starts[following] + self._offsets[following])
        return moved


def _assign(text: _Removal, citations: Sequence[Citation]) -> list[CitedSentence]:
    """Assign citations to sentences of the kept text."""
    spans = find_sentences(text.kept)
    cited: dict[int, list[Citation]] = {}
    lines = [match.span() for match in _LINE_START.finditer(text.kept)]
    for citation in citations:
        for n in _sentences_of(citation, text, spans, lines):
            cited.setdefault(n, []).append(citation)
    return [_sentence(text.kept[start:end], cited.get(n, ())) for n, (start, end) in enumerate(spans)]


def _sentences_of(
    citation: Citation, text: _Removal, spans: Sequence[tuple[int, int]], lines: Sequence[tuple[int, int]]
) -> Sequence[int]:
    start, end = text.find(citation.start), text.find(citation.end)
    covered = range(bisect.bisect_right(spans, start, key=lambda span: span[1]), bisect.bisect_left(spans, (end, 0)))
    if covered or not spans:
        return covered
    before = bisect.bisect_right(spans, max(0, start - 1), key=lambda span: span[0]) - 1
    n_line = bisect.bisect_right(lines, start, key=lambda line: line[0]) - 1
    following = bisect.bisect_left(spans, (lines[n_line][0], 0))
    # At the beginning of a line: the sentence that follows on this line, if there is one.
    if (
        following < len(spans)
        and (before < 0 or start <= lines[n_line][1])
        and (n_line + 1 == len(lines) or spans[following][0] < lines[n_line + 1][0])
    ):
        return [following]
    return [max(0, before)]


def _sentence(text: str, citations: Sequence[Citation]) -> CitedSentence:
    cited = sorted({position for citation in citations for position in citation.cited})
    unknown = dict.fromkeys(citation.label for citation in citations if not citation.cited)
    return re.sub(r"[ \t]{2,}", " ", text), tuple(cited), tuple(unknown)


def _find_markers(response: str, passages: CitedPassages) -> list[Citation]:
    code = [match.span() for match in _CODE.finditer(response)]
    found: list[tuple[int, int, str, int | tuple[int, ...]]] = []
    for match in _MARKER.finditer(response):
        if not _overlaps(code, *match.span()):
            found += [(*match.span(), *target) for target in _targets(match, passages)]
    numbers = frozenset(target for *_, target in found if isinstance(target, int))
    return [
        Citation(
            start=start,
            end=end,
            cited=passages.by_number(target, numbers) if isinstance(target, int) else target,
            label=label,
        )
        for start, end, label, target in found
    ]


def _targets(match: re.Match[str], passages: CitedPassages) -> list[_Target]:
    """Return what a marker cites, as (label, number or positions), or nothing if the text is not a citation."""
    if (wide := match["wide"]) is not None:
        if special := _WIDE.fullmatch(wide.strip()):
            label = f"\u3010{wide}\u3011"
            if named := passages.by_name(special["name"]):
                return [(label, named)]
            # OpenAI writes message:index, and the index counts from 0.
            number = int(special["number"])
            return [(label, passages.by_index(number) if special["message"] else number)]
        return _named_or_numbered(wide, passages)
    if match["url"] is not None:
        named = passages.by_name(match["url"]) or passages.by_name(match["label"])
        return [(match["url"], named)] if named else _numbered(match["label"])
    return _named_or_numbered(match["square"] or match["round"], passages)


def _named_or_numbered(content: str, passages: CitedPassages) -> list[_Target]:
    if (named := passages.by_name(content)) and not content.strip().isdigit():
        return [(content.strip(), named)]
    targets: list[_Target] = []
    for part in re.split(r"[,;\u3001\uff0c&]|\band\b|\bund\b", content):
        if not (item := part.strip()):
            continue
        if numbered := _numbered(item):
            targets += numbered
        elif (named := passages.by_name(item)) or passages.looks_like_id(item):
            targets.append((item, named))
        else:
            return []
    return targets


def _numbered(item: str) -> list[_Target]:
    match = _NUMBER.fullmatch(_KIND.sub("", item.strip()))
    if match is None:
        return []
    first, last = int(match[1]), int(match[2] or match[1])
    if not 0 <= last - first < _LONGEST_RANGE:
        return []
    return [(f"[{number}]", number) for number in range(first, last + 1)]
