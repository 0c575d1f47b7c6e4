"""Replay: traces that other tools have collected, read without their server."""

from ragstone.replay._formats import Detected, Rejected, TraceFormat, all_formats, detect
from ragstone.replay._intake import FileCounts, ReplayIntake
from ragstone.replay._replay import ReplayPlan, ReplayReport, areplay_traces, plan_replay, replay_traces
from ragstone.replay._source import Source
from ragstone.replay._stage import SpanStage, StagedSpan, StagedTrace
from ragstone.replay._tree import Node, NodeKind

__all__ = [
    "Detected",
    "FileCounts",
    "Node",
    "NodeKind",
    "Rejected",
    "ReplayIntake",
    "ReplayPlan",
    "ReplayReport",
    "Source",
    "SpanStage",
    "StagedSpan",
    "StagedTrace",
    "TraceFormat",
    "all_formats",
    "areplay_traces",
    "detect",
    "plan_replay",
    "replay_traces",
]
