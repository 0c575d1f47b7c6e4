"""Watching of scored traffic: sessions, streams and alarms, as pure logic over plain data."""

from typing import TYPE_CHECKING

from ragstone._util.lazy import lazy_names

if TYPE_CHECKING:
    from ragstone.watch._alarm import Alarm
    from ragstone.watch._baseline import LEARNING_DAYS
    from ragstone.watch._canaries import CanaryRound, begin_round, end_round
    from ragstone.watch._fold import all_alarms, fold, open_alarms, read_alarm, read_streams
    from ragstone.watch._options import Scale, check_targets
    from ragstone.watch._requests import AlarmRequest, read_requests, write_request
    from ragstone.watch._stream import Stream
    from ragstone.watch._text import alarm_lines, describe_delay, render_alarm, stream_name

__all__: list[str] = []

if not TYPE_CHECKING:  # a type checker would accept any name
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "_alarm": "Alarm",
            "_baseline": "LEARNING_DAYS",
            "_canaries": "CanaryRound begin_round end_round",
            "_fold": "all_alarms fold open_alarms read_alarm read_streams",
            "_options": "Scale check_targets",
            "_requests": "AlarmRequest read_requests write_request",
            "_stream": "Stream",
            "_text": "alarm_lines describe_delay render_alarm stream_name",
        },
    )
