"""Watching of scored traffic: sessions, streams and alarms, as pure logic over plain data."""

from typing import TYPE_CHECKING

from ragstone._util.lazy import lazy_names

if TYPE_CHECKING:
    from ragstone.watch._alarm import Alarm as Alarm
    from ragstone.watch._canaries import CanaryRound as CanaryRound
    from ragstone.watch._canaries import begin_round as begin_round
    from ragstone.watch._canaries import end_round as end_round
    from ragstone.watch._fold import all_alarms as all_alarms
    from ragstone.watch._fold import fold as fold
    from ragstone.watch._fold import open_alarms as open_alarms
    from ragstone.watch._fold import read_streams as read_streams
    from ragstone.watch._options import Scale as Scale
    from ragstone.watch._options import check_targets as check_targets
    from ragstone.watch._requests import AlarmRequest as AlarmRequest
    from ragstone.watch._requests import read_requests as read_requests
    from ragstone.watch._requests import write_request as write_request
    from ragstone.watch._stream import Stream as Stream
    from ragstone.watch._text import alarm_lines as alarm_lines
    from ragstone.watch._text import describe_delay as describe_delay
    from ragstone.watch._text import render_alarm as render_alarm
    from ragstone.watch._text import stream_name as stream_name

__all__: list[str] = []

if not TYPE_CHECKING:  # a type checker would accept any name
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "_alarm": "Alarm",
            "_canaries": "CanaryRound begin_round end_round",
            "_fold": "all_alarms fold open_alarms read_streams",
            "_options": "Scale check_targets",
            "_requests": "AlarmRequest read_requests write_request",
            "_stream": "Stream",
            "_text": "alarm_lines describe_delay render_alarm stream_name",
        },
    )
