"""What a build sets out to do: items, their pools, and what that costs at most. Nobody is asked for it."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from ragstone.errors import ConfigurationError, DataError
from ragstone.research._dataset.documents import Document, read_documents
from ragstone.research._dataset.spans import Span, find_similar_spans, sections_of, spans_of, verify

__all__ = ["DatasetPlan", "PlannedItem", "plan_dataset"]

_MAX_REPORT_CHARS: Final = 40_000
"""Of a reference report: a judge has to read it whole."""

Paths = str | Path | Sequence[str | Path]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedItem:
    """One row to be."""

    id: str
    text: str
    """The report, or the section of a document, that query and sub-questions are made from."""
    anchor: Mapping[str, Any]
    pool: tuple[Span, ...]
    reference: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetPlan:
    """What would be asked."""

    documents: tuple[Document, ...]
    items: tuple[PlannedItem, ...]
    left_out: tuple[str, ...] = field(default=())
    """Files and reports that cannot be used, and why."""
    n_beyond: int = 0
    """Items that there would be besides, were it not for `max_items`."""

    @property
    def spans(self) -> tuple[Span, ...]:
        """All spans of all pools, each once."""
        return tuple({span.id: span for item in self.items for span in item.pool}.values())

    @property
    def calls(self) -> int:
        """Calls to the judge, if none fails.

        A query and sub-questions for each item, a rewriting of each passage, a rating of each passage of each pool.
        """
        return 2 * len(self.items) + len(self.spans) + sum(len(item.pool) for item in self.items)

    def __str__(self) -> str:
        beyond = (
            f" ({self.n_beyond} more {'is' if self.n_beyond == 1 else 'are'} left for a larger --max-items)"
            if self.n_beyond
            else ""
        )
        return (
            f"{len(self.documents)} documents, {len(self.items)} items{beyond}, {len(self.spans)} passages: "
            f"{self.calls} calls to the judge at most"
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "n_documents": len(self.documents),
            "n_items": len(self.items),
            "n_beyond": self.n_beyond,
            "n_passages": len(self.spans),
            "calls": self.calls,
            "left_out": list(self.left_out),
        }


def plan_dataset(documents: Paths, *, reports: Paths = (), max_items: int = 20, max_passages: int = 12) -> DatasetPlan:
    """Read the documents and say what a data set from them would take. Nobody is asked.

    Without reports each section of a document (about 1000 words) is an item. With reports each report is one.
    The pool of an item are the passages of its own section or of the documents that its report names, and those of all
    documents that share most words with it.

    Args:
        documents: Files and folders: text, Markdown, or JSONL with `id` and `text`.
        reports: The same, of reference reports; a JSONL row may list its `documents`.
        max_items: Items at most, from all documents in turn.
        max_passages: Passages in one item's pool at most.

    Raises:
        ConfigurationError: A path that does not exist, or a number below 1.
        DataError: A file that cannot be read, or a report that names an unknown document.

    Example:
        ```python
        print(plan_dataset("handbook/"))
        ```
    """
    for name, value in (("max_items", max_items), ("max_passages", max_passages)):
        if value < 1:
            raise ConfigurationError(f"{name} must be at least 1, got {value!r}")
    library = read_documents(_paths(documents))
    spans = {document.name: spans_of(document) for document in library.documents}
    everything = tuple(span for found in spans.values() for span in found)
    verify(everything, library.documents)
    left_out = list(library.left_out)
    if _paths(reports):
        read = read_documents(_paths(reports))
        left_out += read.left_out
        anchors = list(_from_reports(read.documents, spans, max_passages, left_out))
    else:
        anchors = list(_from_sections(library.documents, spans))
    items = tuple(
        PlannedItem(
            id=anchor.id,
            text=anchor.text,
            anchor=anchor.anchor,
            reference=anchor.reference,
            pool=find_similar_spans(anchor.text, everything, own=anchor.pool, most=max_passages),
        )
        for anchor in anchors[:max_items]
    )
    return DatasetPlan(
        documents=library.documents,
        items=items,
        left_out=tuple(left_out),
        n_beyond=max(0, len(anchors) - max_items),
    )


def _paths(given: Paths) -> list[str | Path]:
    return [given] if isinstance(given, str | Path) else list(given)


def _from_sections(documents: Sequence[Document], spans: Mapping[str, Sequence[Span]]) -> list[PlannedItem]:
    """The first section of each document, then the second of each, and so on: a cap leaves something of them all."""
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
                f"the report {report.name!r} has {len(report.text)} characters, more than the {_MAX_REPORT_CHARS} a judge "
                "is given at once; cut it into several"
            )
            continue
        own = tuple(span for name in report.about for span in spans[_document(name, report, spans)])
        if len(own) > max_passages:
            left_out.append(
                f"the documents that {report.name!r} names have {len(own)} passages: {len(own) - max_passages} are left out "
                "of its pool; raise --max-passages for all"
            )
        anchor = _anchor(report, 0, len(report.text))
        items.append(PlannedItem(id=report.name, text=report.text, anchor=anchor, pool=own, reference=report.text))
    return items


def _document(name: str, report: Document, spans: Mapping[str, Sequence[Span]]) -> str:
    """The one document that a report means by a name: its whole name, or how it ends."""
    fits = [known for known in spans if known == name or known.endswith((f"/{name}", f"#{name}"))]
    if len(fits) != 1:
        what = "no document" if not fits else f"{len(fits)} documents"
        raise DataError(
            f"the report {report.name!r} names {name!r}, which fits {what}; known are {', '.join(list(spans)[:5])}, ..."
        )
    return fits[0]


def _anchor(document: Document, start: int, end: int) -> dict[str, Any]:
    return {"document": document.name, "start": start, "end": end, "document_digest": document.digest}
