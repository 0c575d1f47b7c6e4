"""Replay: traces that other tools have collected, read without their server."""

from ragstone.replay._formats import RejectedRecord, TraceFormat, all_formats, detect
from ragstone.replay._intake import FileReport as FileReport
from ragstone.replay._intake import ReplayTraceSource as ReplayTraceSource
from ragstone.replay._intake import ignored_entries as ignored_entries
from ragstone.replay._merge import merge_outcomes
from ragstone.replay._read import read_traces
from ragstone.replay._records import Record as Record
from ragstone.replay._replay import ReplayPlan as ReplayPlan
from ragstone.replay._replay import ReplayReport as ReplayReport
from ragstone.replay._replay import areplay_traces, plan_replay, replay_traces
from ragstone.replay._replay import redacted as redacted
from ragstone.replay._rows import trace_of_row as trace_of_row
from ragstone.replay._source import InputFile
from ragstone.replay._stage import BufferedSpan as BufferedSpan
from ragstone.replay._stage import BufferedTrace as BufferedTrace
from ragstone.replay._stage import SpanBuffer as SpanBuffer

__all__ = [
    "InputFile",
    "RejectedRecord",
    "TraceFormat",
    "all_formats",
    "areplay_traces",
    "detect",
    "merge_outcomes",
    "plan_replay",
    "read_traces",
    "replay_traces",
]
