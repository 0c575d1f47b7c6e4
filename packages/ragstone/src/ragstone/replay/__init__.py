"""Replay: traces that other tools have collected, read without their server."""

from ragstone.replay._formats import Detected, Rejected, TraceFormat, all_formats, detect
from ragstone.replay._intake import FileCounts as FileCounts
from ragstone.replay._intake import ReplayIntake as ReplayIntake
from ragstone.replay._replay import ReplayPlan, ReplayReport, areplay_traces, plan_replay, replay_traces
from ragstone.replay._source import Source
from ragstone.replay._stage import SpanStage as SpanStage
from ragstone.replay._stage import StagedSpan as StagedSpan
from ragstone.replay._stage import StagedTrace as StagedTrace
from ragstone.replay._tree import Node

__all__ = [
    "Detected",
    "Node",
    "Rejected",
    "ReplayPlan",
    "ReplayReport",
    "Source",
    "TraceFormat",
    "all_formats",
    "areplay_traces",
    "detect",
    "plan_replay",
    "replay_traces",
]
