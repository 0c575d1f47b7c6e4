"""Destinations of alarms: `AlarmSink`, and `alarm_sink_from`, which creates one from its specification."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from html import escape
from typing import Protocol, runtime_checkable
from urllib.parse import urlsplit

from ragstone.schema import AlarmDelivery
from ragstone.sinks._http import WRONG_ADDRESS, HttpSink, parse_error_response
from ragstone.sinks.otlp import OtlpSink
from ragstone.sinks.webhook import WebhookSink


@runtime_checkable
class AlarmSink(Protocol):
    """A destination for alarms. The same event may be written twice: its id is its key."""

    @property
    def name(self) -> str:
        """Name of the destination in the store: stable across restarts, without credentials."""
        ...

    async def write_alarms(self, batch: Sequence[AlarmDelivery]) -> None:
        """Deliver events of alarms. Raises the errors of `Sink.write`."""
        ...

    async def aclose(self) -> None:
        """Close the connections. Can be called twice."""
        ...


class SlackSink(HttpSink):
    """Posts alarms to a Slack channel through an incoming webhook. Raise ConfigurationError if the URL is invalid."""

    _KIND = "slack"
    _EXAMPLE = "slack:https://hooks.slack.com/services/T000/B000/XXXX"

    def __init__(self, url: str, *, timeout_s: float = 10.0) -> None:
        super().__init__(url, timeout_s=timeout_s)
        self._target = url
        # The path is secret.
        self._name += f"#{hashlib.sha256(urlsplit(url).path.encode()).hexdigest()[:8]}"

    async def write_alarms(self, batch: Sequence[AlarmDelivery]) -> None:
        """Post each event as one message, in a fixed-width block.

        Raises:
            SinkUnavailableError: On connection failure, timeout or any other status, or if the sink is closed.
            SinkRejectedError: If Slack rejects the message.
            SinkDeniedError: If the webhook was revoked.
        """
        for event in batch:
            self._check_open()
            title, _, details = event.text.partition("\n")
            # Slack's markup escapes the same three characters as the text of HTML.
            text = f"*{escape(title, quote=False)}*" + (f"\n```{escape(details, quote=False)}```" if details else "")
            response = await self._http.request("POST", self._target, json={"text": text})
            error = parse_error_response(response, wrong_address=WRONG_ADDRESS)
            if error is not None:
                raise error


def alarm_sink_from(spec: str) -> AlarmSink:
    """Create a destination of alarms: `slack:URL`, `webhook:URL`, `otlp` or `otlp:URL`.

    Raise ConfigurationError if it has another form or the URL is invalid. Raise MissingExtraError if the extra `otlp`
    is needed and not installed.
    """
    kind, _, url = spec.partition(":")
    if kind == "slack":
        return SlackSink(url)
    return WebhookSink(url) if kind == "webhook" else OtlpSink.from_spec(url)
