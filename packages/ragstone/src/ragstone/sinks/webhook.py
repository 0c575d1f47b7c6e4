"""Outcomes as signed JSON to a URL of the user."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Final
from urllib.parse import urlsplit

from ragstone.errors import ConfigurationError, SinkDeniedError
from ragstone.schema import SCHEMA_VERSION, AlarmDelivery, Delivery
from ragstone.sinks._http import WRONG_ADDRESS, HttpSink, json_bytes, parse_error_response
from ragstone.sinks._row import outcome_row

_NAMESPACE: Final = uuid.UUID("0c1d5a52-8a0e-5c5b-9d43-6f1f3c3a9e10")
_SECRET_PREFIX: Final = "whsec_"  # noqa: S105  a prefix, not a secret
_GONE: Final = 410


class WebhookSink(HttpSink):
    """Posts each batch as one JSON object: `{"version": 1, "id": "...", "outcomes": [...]}`.

    All kinds of outcomes are sent, with the fields of the JSONL sink. The receiver answers with any 2xx status after it
    has stored the batch. 400, 413 and 422 reject the batch: the worker splits it in half and retries, until only the
    rejected row remains. 401, 403 and 410 stop delivery to this sink. After any other response, including 404 and
    redirects, the batch is retried later. A batch may arrive twice: `outcomes[].id` is the key, and the same batch has
    the same `id`.

    With a secret, requests are signed as Standard Webhooks specifies: `webhook-signature` is `v1,` and the base64 of
    HMAC-SHA256 over `webhook-id`, `webhook-timestamp` and the body, joined by dots.

    Args:
        url: URL to post to. User and password in it are sent as basic authentication.
        secret: Signing secret: `whsec_` and base64, or the key itself. Default: `RAGSTONE_WEBHOOK_SECRET`.
        timeout_s: Timeout of one request, in seconds.
        include_text: Also send explanations, reasons, details and raw replies, which may quote captured text.
        clock: Returns the current time in Unix seconds.

    Raises:
        ConfigurationError: If the URL is invalid, or the secret after `whsec_` is not base64.
    """

    _KIND = "webhook"
    _EXAMPLE = "webhook:https://example.com/scores"

    def __init__(
        self,
        url: str,
        *,
        secret: str | None = None,
        timeout_s: float = 10.0,
        include_text: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(url, timeout_s=timeout_s, include_text=include_text)
        parts = urlsplit(url)
        self._target = parts._replace(fragment="").geturl()
        self._key = _key(secret or os.environ.get("RAGSTONE_WEBHOOK_SECRET"))
        self._clock = clock
        # Two URLs on one host are two destinations, so the name contains a hash of the path. The path itself is often
        # secret.
        path_hash = hashlib.sha256(f"{parts.path}?{parts.query}".encode()).hexdigest()[:8]
        self._name += f"#{path_hash}"

    async def write(self, batch: Sequence[Delivery]) -> None:
        """Post `batch`, and return when the receiver has accepted it.

        Raises:
            SinkUnavailableError: On connection failure, timeout or any other status, or if the sink is closed.
            SinkRejectedError: If the receiver rejects the batch (400, 413, 422).
            SinkDeniedError: If the receiver denies access (401, 403) or is gone (410).
        """
        self._check_open()
        if not batch:
            return
        batch_id = str(uuid.uuid5(_NAMESPACE, "\x1f".join(delivery.outcome.id for delivery in batch)))
        await self._post(batch_id, {"outcomes": [self._row(delivery) for delivery in batch]})

    async def write_alarms(self, batch: Sequence[AlarmDelivery]) -> None:
        """Post each event of an alarm as one object: `{"version": 1, "id": "...", "event": "alarm", "alarm": {...}}`.

        Raises the errors of `write`.
        """
        for event in batch:
            self._check_open()
            event_id = str(uuid.uuid5(_NAMESPACE, f"{event.alarm.get('raised_at')}\x1f{event.id}"))
            await self._post(event_id, {"event": event.event, "text": event.text, "alarm": dict(event.alarm)})

    async def _post(self, batch_id: str, values: Mapping[str, object]) -> None:
        content = json_bytes({"version": SCHEMA_VERSION, "id": batch_id, **values})
        response = await self._http.request(
            "POST", self._target, content=content, headers=self._headers(batch_id, content)
        )
        error = parse_error_response(response, wrong_address=WRONG_ADDRESS)
        if error is not None:
            raise SinkDeniedError(str(error)) if response.status_code == _GONE else error

    def _row(self, delivery: Delivery) -> dict[str, object]:
        row = outcome_row(delivery, include_text=self._include_text)
        if not self._include_text:
            # The reason may quote captured text. `kind` and `missing` contain the cause without it.
            del row["reason"]
        return row

    def _headers(self, batch_id: str, content: bytes) -> dict[str, str]:
        timestamp = str(int(self._clock()))
        headers = {"Content-Type": "application/json", "webhook-id": batch_id, "webhook-timestamp": timestamp}
        if self._key is not None:
            signed = b".".join((batch_id.encode(), timestamp.encode(), content))
            headers["webhook-signature"] = "v1," + base64.b64encode(hmac.digest(self._key, signed, "sha256")).decode()
        return headers


def _key(secret: str | None) -> bytes | None:
    if not secret:
        return None
    if not secret.startswith(_SECRET_PREFIX):
        return secret.encode()
    try:
        key = base64.b64decode(secret.removeprefix(_SECRET_PREFIX), validate=True)
    except binascii.Error:
        key = b""
    if not key:
        raise ConfigurationError(
            f"the secret of the sink 'webhook' must be base64 after {_SECRET_PREFIX!r}, or a text without this prefix"
        )
    return key
