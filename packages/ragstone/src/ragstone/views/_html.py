"""The report as one HTML file: no requests, a strict content security policy, complete without JavaScript but for the table."""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
import zlib
from collections.abc import Iterable, Mapping
from importlib.resources import files
from typing import Any, Final

from ragstone.views._html_answer import answer_data
from ragstone.views._markup import Markup, join, tag
from ragstone.views._model import AnswerView, ChangesView, QuestionRow, ReportView
from ragstone.views._sections import header, sections

_QUERY_CHARS: Final = 200
_GROUP: Final = 25
"""Answers that are added between two measurements of the size."""
_MAX_UNPACKED: Final = 16_000_000
"""Most bytes of data before compression: similar texts take little room in the file, but the browser unpacks all of
them."""
_GZIP: Final = 31
"""Window size of zlib with the header of gzip, which then does not have a time."""


def html_report(
    view: ReportView, answers: Iterable[AnswerView], *, max_bytes: int, has_texts: bool, command: str | None
) -> str:
    """Return the report as one HTML file.

    `view` contains the questions. `answers` for the details of the table, the most important first, are included if
    they fit `max_bytes`. Without `has_texts`, only ids and scores are. `command` made the report.
    """
    style, script = read_asset("page.css"), read_asset("page.js")
    shown = sections(view, has_texts=has_texts, command=command)
    content = join(header(view, has_texts=has_texts), tag("main", *shown.values()))
    page = len(style) + len(script) + len(content.encode())
    packed, n_answers = _pack(view, answers, max_bytes - page - 2000, has_texts=has_texts)
    note = f"Full text of {n_answers:,} of {view.n_samples:,} answers."
    body = join(
        content,
        tag("footer", tag("p", note, class_="soft") if packed else None),
        tag("script", Markup(packed), id="data", type="application/octet-stream") if packed else None,
        tag("script", Markup(script)),
    )
    return html_document(view.title, body, style=style, script=script)


def _pack(view: ReportView, answers: Iterable[AnswerView], limit: int, *, has_texts: bool) -> tuple[str, int]:
    """Return the data of the table, compressed, with as many answers as fit, and their number."""
    if not view.questions:
        return "", 0
    causes = {row.cause: row for row in view.causes}
    texts = dict.fromkeys(f"{table.key}={row.value}" for table in view.slices for row in table.rows)
    labels = {text: n for n, text in enumerate(texts)}
    data = {
        "metrics": [row.name for row in view.metrics],
        "labels": list(labels),
        "causes": [[row.cause, row.title] for row in view.causes],
        "wrong": [name for name, row in causes.items() if row.is_wrong],
        "changed": [] if view.changes is None else _changed(view.changes),
        "questions": [_question(row, labels, has_texts=has_texts) for row in view.questions],
    }
    # The answers are the last member, so each one is compressed once, in the order in which they arrive.
    packed = _PackedJson(f'{_json(data)[:-1]},"answers":[')
    if not has_texts:
        return packed.text(), 0
    numbers: dict[str, int] = {}
    """Numbers of the passages, by text. An answer carries the texts that no earlier one has."""
    n_answers = 0
    answers = itertools.chain(view.worst, answers)
    while group := list(itertools.islice(answers, _GROUP)):
        before = packed.mark()
        for n, each in enumerate(group, start=n_answers):
            known = len(numbers)
            entry = answer_data(each, numbers)
            packed.add(f"{',' if n else ''}{_json([each.id, entry, list(itertools.islice(numbers, known, None))])}")
        if packed.n_bytes > limit or packed.n_unpacked > _MAX_UNPACKED:
            packed.reset(before)
            break
        n_answers += len(group)
    return packed.text(), n_answers


def _changed(changes: ChangesView) -> list[list[Any]]:
    """Return the filters of gained and lost questions: their names and ids."""
    lists = (("lost", changes.lost_ids), ("gained", changes.gained_ids))
    return [[f"{name} against {changes.baseline}", ids] for name, ids in lists if ids]


def _question(row: QuestionRow, labels: Mapping[str, int], *, has_texts: bool) -> list[Any]:
    query = (row.query or "")[:_QUERY_CHARS] if has_texts else ""
    values, numbers = [_rounded(value) for value in row.values], [labels[label] for label in row.labels]
    return [row.id, query, row.cause, _rounded(row.rating), values, numbers, row.low]


class _PackedJson:
    """JSON that ends with a list that grows, compressed (gzip, base64)."""

    def __init__(self, start: str) -> None:
        self._compressor = zlib.compressobj(6, zlib.DEFLATED, _GZIP)
        self._written = bytearray()
        self.n_unpacked = 0
        """Number of bytes before compression."""
        self.add(start)

    def add(self, part: str) -> None:
        """Add a part."""
        encoded = part.encode()
        self.n_unpacked += len(encoded)
        self._written += self._compressor.compress(encoded)

    @property
    def n_bytes(self) -> int:
        """Length of the text, if it ended here."""
        return -(-(len(self._written) + len(self._tail())) // 3) * 4

    def mark(self) -> tuple[Any, int, int]:
        """Return the state, for `reset`."""
        return self._compressor.copy(), len(self._written), self.n_unpacked

    def reset(self, mark: tuple[Any, int, int]) -> None:
        """Remove what was added after `mark`."""
        self._compressor, n_written, self.n_unpacked = mark
        del self._written[n_written:]

    def text(self) -> str:
        """Return the closed JSON in base64."""
        return base64.b64encode(bytes(self._written) + self._tail()).decode()

    def _tail(self) -> bytes:
        closed = self._compressor.copy()
        return closed.compress(b"]}") + closed.flush()


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=True, separators=(",", ":"), allow_nan=False)


def read_asset(name: str) -> str:
    """Return a file of this package."""
    return files("ragstone.views").joinpath(name).read_text(encoding="utf-8")


def html_document(title: str, body: Markup, *, style: str, script: str = "") -> str:
    """Return a page in one file, whose policy allows its style and its script only."""
    policy = tag("meta", http_equiv="Content-Security-Policy", content=content_policy(style, script))
    return html_page(title, tag("body", body), policy, tag("meta", name="referrer", content="no-referrer"), style=style)


def html_page(title: str, body: Markup, *metas: Markup, style: str) -> str:
    """Return a page from its body."""
    head = join(
        tag("meta", charset="utf-8"),
        *metas,
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("title", f"{title} - Ragstone"),
        tag("style", Markup(style)),
    )
    return f"<!doctype html>\n{tag('html', tag('head', head), body, lang='en')}\n"


def content_policy(style: str, script: str, *, connects: bool = False) -> str:
    """Return the content security policy of a page: only this style and this script, and nothing from elsewhere.

    With `connects`, the script may fetch from the page's server. The policy is then a header, and forbids frames.
    """
    policy = (
        f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(script)}'; base-uri 'none'; "
        "form-action 'none'"
    )
    return f"{policy}; connect-src 'self'; frame-ancestors 'none'" if connects else policy


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
