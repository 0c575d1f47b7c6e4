"""The plan of a dataset: items, their pools, and the maximum number of judge calls. Planning does not call the judge."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from ragstone.errors import DataError
from ragstone.extension import count
from ragstone.settings import check
from ragstone_lab._dataset.documents import Document, Span, SpanIndex, read_documents, sections_of, spans_of

_MAX_REPORT_CHARS: Final = 40_000
"""Maximum length of a reference report, which must fit into one prompt."""

Paths = str | Path | Sequence[str | Path]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedItem:
    """A planned row."""

    id: str
    text: str
    """The report or the section of a document from which query and sub-questions are generated."""
    anchor: Mapping[str, Any]
    pool: tuple[Span, ...]
    reference: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetPlan:
    """The plan of a dataset."""

    documents: tuple[Document, ...]
    items: tuple[PlannedItem, ...]
    left_out: tuple[str, ...] = field(default=())
    """Skipped files and reports, with reasons."""
    n_beyond: int = 0
    """Number of further items beyond `max_items`."""

    @property
    def spans(self) -> tuple[Span, ...]:
        """All distinct spans of all pools."""
        return tuple({span.id: span for item in self.items for span in item.pool}.values())

    @property
    def calls(self) -> int:
        """Maximum number of judge calls.

        One call each for the query and the sub-questions of each item, for each rewritten passage, and for each passage
        of each pool.
        """
        return 2 * len(self.items) + len(self.spans) + sum(len(item.pool) for item in self.items)

    def __str__(self) -> str:
        beyond = f" ({self.n_beyond} more with a larger research.max_items)" if self.n_beyond else ""
        return (
            f"{len(self.documents)} documents, {len(self.items)} items{beyond}, {len(self.spans)} passages: "
            f"at most {count(self.calls, 'judge call')}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "n_documents": len(self.documents),
            "n_items": len(self.items),
            "n_beyond": self.n_beyond,
            "n_passages": len(self.spans),
            "calls": self.calls,
            "left_out": list(self.left_out),
        }


def plan_dataset(documents: Paths, *, reports: Paths = (), max_items: int = 20, max_passages: int = 12) -> DatasetPlan:
    """Read the documents and plan a dataset, without calling the judge.

    Without reports, each section of a document (about 1000 words) becomes an item. With reports, each report becomes
    one. The pool of an item consists of the passages of its section or of the report's documents, and of the passages
    of all documents with the largest word overlap.

    Args:
        documents: Files and directories: text, Markdown, or JSONL with `id` and `text`.
        reports: Reference reports, in the same formats. A JSONL row can list its `documents`.
        max_items: Maximum number of items, taken from the documents in turn.
        max_passages: Maximum passages per item's pool.

    Raises:
        ConfigurationError: If a path does not exist or a number is below 1.
        DataError: If a file cannot be read or a report names an unknown document.

    Examples:
        ```python
        print(plan_dataset("handbook/"))
        ```
    """
    check("research", "plan_dataset", max_items=max_items, max_passages=max_passages)
    library = read_documents(paths_of(documents))
    spans = {document.name: spans_of(document) for document in library.documents}
    all_spans = tuple(span for of_document in spans.values() for span in of_document)
    index = SpanIndex(all_spans)
    left_out = list(library.left_out)
    if paths_of(reports):
        read = read_documents(paths_of(reports))
        left_out += read.left_out
        anchors = list(_from_reports(read.documents, spans, max_passages, left_out))
    else:
        anchors = list(_from_sections(library.documents, spans))
    items = tuple(
        replace(anchor, pool=index.most_similar(anchor.text, max_passages, own=anchor.pool))
        for anchor in anchors[:max_items]
    )
    return DatasetPlan(
        documents=library.documents, items=items, left_out=tuple(left_out), n_beyond=max(0, len(anchors) - max_items)
    )


def paths_of(paths: Paths) -> list[str | Path]:
    """Return one path or several as a list."""
    return [paths] if isinstance(paths, str | Path) else list(paths)


def _from_sections(documents: Sequence[Document], spans: Mapping[str, Sequence[Span]]) -> list[PlannedItem]:
    """Plan the first section of each document, then the second of each, so that `max_items` keeps parts of all."""
    by_document = [
        [
            PlannedItem(
                id=f"{document.name}:{section[0].start}-{section[-1].end}",
                text=document.text[section[0].start : section[-1].end],
                anchor=_anchor(document, section[0].start, section[-1].end),
                pool=section,
            )
            for section in sections_of(spans[document.name])
        ]
        for document in documents
    ]
    return [item for turn in itertools.zip_longest(*by_document) for item in turn if item is not None]


def _from_reports(
    reports: Sequence[Document], spans: Mapping[str, Sequence[Span]], max_passages: int, left_out: list[str]
) -> list[PlannedItem]:
    items = []
    for report in reports:
        if len(report.text) > _MAX_REPORT_CHARS:
            left_out.append(
                f"the report {report.name!r} has {len(report.text)} characters, more than the maximum of {_MAX_REPORT_CHARS}. "
                "Split it into several reports."
            )
            continue
        own = tuple(span for name in report.about for span in spans[_document(name, report, spans)])
        if len(own) > max_passages:
            left_out.append(
                f"the documents of {report.name!r} have {len(own)} passages, of which {len(own) - max_passages} are "
                "not in its pool. To include all, increase research.max_passages."
            )
        anchor = _anchor(report, 0, len(report.text))
        items.append(PlannedItem(id=report.name, text=report.text, anchor=anchor, pool=own, reference=report.text))
    return items


def _document(name: str, report: Document, spans: Mapping[str, Sequence[Span]]) -> str:
    """Return the document that a report refers to by its name or the end of its name."""
    matches = [known for known in spans if known == name or known.endswith((f"/{name}", f"#{name}"))]
    if len(matches) != 1:
        what = "no document" if not matches else f"{len(matches)} documents"
        raise DataError(
            f"the report {report.name!r} names {name!r}, which matches {what}. Documents: {', '.join(list(spans)[:5])}, ..."
        )
    return matches[0]


def _anchor(document: Document, start: int, end: int) -> dict[str, Any]:
    return {"document": document.name, "start": start, "end": end, "document_digest": document.digest}
