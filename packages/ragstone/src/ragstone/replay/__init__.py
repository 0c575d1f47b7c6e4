"""Replay: traces that other tools have collected, scored without their server."""

from ragstone.replay._intake import FileReport as FileReport
from ragstone.replay._intake import ReplayTraceSource as ReplayTraceSource
from ragstone.replay._intake import ignored_entries as ignored_entries
from ragstone.replay._replay import ReplayPlan as ReplayPlan
from ragstone.replay._replay import ReplayReport as ReplayReport
from ragstone.replay._replay import areplay_traces, plan_replay, replay_traces
from ragstone.replay._replay import redacted as redacted

__all__ = ["areplay_traces", "plan_replay", "replay_traces"]
