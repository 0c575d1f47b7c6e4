"""Reading: files, rows and objects of many tools, as samples and as traces."""

from typing import TYPE_CHECKING

from ragstone._util.lazy import lazy_names

if TYPE_CHECKING:
    from ragstone.reading._columns import FIELD_ALIASES
    from ragstone.reading._formats import DetectedFormat, RejectedRecord, TraceFormat, detect
    from ragstone.reading._labels import GENERIC_LABELS, LabelFile, LabelRecord, by_answer, read_label_file
    from ragstone.reading._ragstone import CASE, CHOSEN_BY_SCORES, case_of, is_cases
    from ragstone.reading._report import ReadingReport, group_reasons
    from ragstone.reading._row_lists import Choice
    from ragstone.reading._row_traces import check_repeats
    from ragstone.reading._rows import sample_from_row
    from ragstone.reading._samples import (
        RejectedRow,
        SampleSource,
        build_rows_error,
        iter_rows,
        iter_samples,
        read_samples,
    )
    from ragstone.reading._source import InputFile, Sources, open_inputs
    from ragstone.reading._stage import BufferedSpan, BufferedTrace, SpanBuffer
    from ragstone.reading._traces import find_formats, read_traces
    from ragstone.reading._trec import QrelsSource, read_beir, read_qrels, read_trec_run

__all__ = [
    "FIELD_ALIASES", "InputFile", "ReadingReport", "RejectedRecord", "TraceFormat", "detect",
    "read_beir", "read_qrels", "read_samples", "read_traces", "read_trec_run", "sample_from_row",
]  # fmt: skip

if not TYPE_CHECKING:  # a type checker would accept any name
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "_formats": "DetectedFormat RejectedRecord TraceFormat detect",
            "_labels": "GENERIC_LABELS LabelFile LabelRecord by_answer read_label_file",
            "_ragstone": "CASE CHOSEN_BY_SCORES case_of is_cases",
            "_report": "ReadingReport group_reasons",
            "_columns": "FIELD_ALIASES",
            "_rows": "sample_from_row",
            "_samples": "RejectedRow SampleSource build_rows_error iter_rows iter_samples read_samples",
            "_source": "InputFile Sources open_inputs",
            "_stage": "BufferedSpan BufferedTrace SpanBuffer",
            "_row_lists": "Choice",
            "_traces": "find_formats read_traces",
            "_trec": "QrelsSource read_beir read_qrels read_trec_run",
            "_row_traces": "check_repeats",
        },
    )
