"""Replay: traces that other tools have collected, read without their server."""

from ragstone.replay._formats import Detected, Rejected, TraceFormat, all_formats, detect
from ragstone.replay._nodes import Node, NodeKind
from ragstone.replay._source import Source
from ragstone.replay._stage import SpanStage, StagedSpan, StagedTrace

__all__ = [
    "Detected",
    "Node",
    "NodeKind",
    "Rejected",
    "Source",
    "SpanStage",
    "StagedSpan",
    "StagedTrace",
    "TraceFormat",
    "all_formats",
    "detect",
]
