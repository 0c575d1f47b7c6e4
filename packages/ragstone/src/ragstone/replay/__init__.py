"""Replay: traces that other tools have collected, scored without their server."""

from ragstone.replay._intake import FileReport, ReplayTraceSource, ignored_entries
from ragstone.replay._replay import ReplayPlan, ReplayReport, areplay_traces, plan_replay, redacted, replay_traces

__all__ = ["areplay_traces", "plan_replay", "replay_traces"]
