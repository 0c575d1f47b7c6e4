"""Writes reports to files: a page (.html) or a summary (.md)."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from ragstone._util.files import write_output
from ragstone.errors import ConfigurationError
from ragstone.experiments._views.build import build_page, build_report
from ragstone.experiments._views.changes import Compared
from ragstone.experiments._views.reasons import ReasonsOf
from ragstone.experiments._views.source import ReportSource
from ragstone.views import HtmlReport, MarkdownReport, ReportView

_FORMATS: Final = (".html", ".htm", ".md")


def check_output(path: str | os.PathLike[str]) -> Path:
    """Check that a report can be written to a path, before it is computed.

    Raises:
        ConfigurationError: If the suffix is not a known format, or the directory does not exist.
    """
    file = Path(path)
    if file.suffix.lower() not in _FORMATS:
        raise ConfigurationError(
            f"a report is written to a file that ends in .html (page) or .md (summary), got {str(file)!r}"
        )
    if not file.absolute().parent.is_dir() or file.is_dir():
        raise ConfigurationError(f"cannot write the report to {str(file)!r}. Give the path of a file in a directory")
    return file


def write_report(
    source: ReportSource,
    path: str | os.PathLike[str],
    *,
    targets: Mapping[str, float],
    n_worst: int,
    by: Sequence[str] = (),
    max_mb: float,
    texts: bool,
    command: str | None = None,
    compared: Compared | None = None,
    reasons: ReasonsOf | None = None,
) -> ReportView:
    """Write the report of one system to a file, and return it.

    Args:
        source: Its outcomes and samples.
        path: Path of the file. The suffix gives the format: `.html` or `.md`.
        targets: The mean that each metric should reach, by metric.
        n_worst: Maximum number of answers that are shown.
        by: Labels whose values are compared. Empty: those with 2 to 12 values of at least 20 answers each.
        max_mb: Size limit of a page, in MB. Answers that do not fit are listed without their texts.
        texts: Whether texts of questions, answers and passages are included.
        command: The command that made the report.
        compared: What a comparison says about this system and others.
        reasons: Adds reasons to the worst answers.

    Raises:
        ConfigurationError: If the path, a target or the size limit is invalid.
        DataError: If the source does not contain outcomes.
        StoreError: If a store cannot be read.
        OSError: If the file cannot be written.
    """
    file = check_output(path)
    if not max_mb > 0:
        raise ConfigurationError(f"max_mb must be above 0, got {max_mb!r}")
    if file.suffix.lower() == ".md":
        view = build_report(
            source, targets=targets, n_worst=n_worst if texts else 0, by=by, compared=compared, reasons=reasons
        )
        document = MarkdownReport(view).text()
    else:
        view, answers = build_page(source, targets=targets, n_worst=n_worst, by=by, compared=compared, reasons=reasons)
        limit = round(max_mb * 1_000_000)
        document = HtmlReport(view, answers, max_bytes=limit, has_texts=texts, command=command).text()
    write_output(file, document, errors="replace")
    return view
