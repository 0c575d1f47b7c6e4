"""Outcomes as signed JSON to an address of one's own."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
import time
import uuid
from collections.abc import Callable, Sequence
from typing import Final
from urllib.parse import urlsplit

from ragstone.errors import ConfigurationError, SinkDeniedError, SinkUnavailableError
from ragstone.schema import Delivery
from ragstone.sinks._http import HttpClient, base_url, host_and_port, json_bytes, parse_error_response
from ragstone.sinks._row import outcome_row

__all__ = ["WebhookSink"]

_VERSION: Final = 1
_NAMESPACE: Final = uuid.UUID("0c1d5a52-8a0e-5c5b-9d43-6f1f3c3a9e10")
_SECRET_PREFIX: Final = "whsec_"  # noqa: S105  the mark of a secret, not one
_WRONG_ADDRESS: Final = frozenset({404, 405})
_GONE: Final = 410


class WebhookSink:
    """Posts each batch as one JSON object: `{"version": 1, "id": "...", "outcomes": [...]}`.

    An outcome has the fields of a line of the JSONL sink, every kind of outcome. The receiver answers any 2xx when it has
    stored the batch. 400, 413 and 422 refuse it: it comes again in halves, down to the row at fault. 401, 403 and 410 stop
    the sink. All else, 404 and redirections included, is tried again later. A batch may come twice: `outcomes[].id` is
    the key, and the same batch has the same `id`.

    With a secret, requests are signed as Standard Webhooks describes: `webhook-signature` holds `v1,` and the base64 of
    HMAC-SHA256 over `webhook-id`, `webhook-timestamp` and the body, with dots between.

    Args:
        url: Where to post. User and password in it are sent as basic authentication.
        secret: Signs the requests; by default `RAGSTONE_WEBHOOK_SECRET`. After `whsec_` it is base64, else the key itself.
        timeout_s: Seconds for one request.
        include_text: Also send explanations, reasons, details and raw replies, which may quote captured text.
        clock: Unix seconds.

    Raises:
        ConfigurationError: The URL is none, or the secret after `whsec_` is not base64.
    """

    def __init__(
        self,
        url: str,
        *,
        secret: str | None = None,
        timeout_s: float = 10.0,
        include_text: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        address = base_url(url, sink="webhook", example="webhook:https://example.com/scores")
        given = urlsplit(url)
        self._url = given._replace(fragment="").geturl()
        self._key = _key(secret or os.environ.get("RAGSTONE_WEBHOOK_SECRET"))
        self._include_text = include_text
        self._clock = clock
        self._http = HttpClient(timeout_s=timeout_s)
        self._closed = False
        # Two addresses on one host are two destinations, and a path is often the secret: told apart, and not shown.
        mark = hashlib.sha256(f"{given.path}?{given.query}".encode()).hexdigest()[:8]
        self._name = f"webhook:{host_and_port(address)}#{mark}"

    @classmethod
    def from_spec(cls, argument: str, *, include_text: bool = False) -> WebhookSink:
        """Make the sink of `"webhook:https://host/path"` from its part after the colon.

        Raises:
            ConfigurationError: The URL is none, or the secret is malformed.
        """
        return cls(argument, include_text=include_text)

    @property
    def name(self) -> str:
        """`webhook:` with host and port, and eight hex digits that stand for the rest of the URL."""
        return self._name

    async def write(self, batch: Sequence[Delivery]) -> None:
        """Post `batch`; returns when the receiver has accepted it.

        Raises:
            SinkUnavailableError: No connection, time-out, or an answer that says neither yes nor no; or the sink is closed.
            SinkRejectedError: The receiver refuses the batch.
            SinkDeniedError: The receiver refuses us, or has gone for good.
        """
        if self._closed:
            raise SinkUnavailableError(f"the sink {self.name!r} is closed")
        if not batch:
            return
        batch_id = str(uuid.uuid5(_NAMESPACE, "\x1f".join(delivery.outcome.id for delivery in batch)))
        outcomes = [self._row(delivery) for delivery in batch]
        content = json_bytes({"version": _VERSION, "id": batch_id, "outcomes": outcomes})
        response = await self._http.request(
            "POST", self._url, content=content, headers=self._headers(batch_id, content)
        )
        error = parse_error_response(response, wrong_address=_WRONG_ADDRESS)
        if error is not None:
            raise SinkDeniedError(str(error)) if response.status_code == _GONE else error

    async def aclose(self) -> None:
        """Close the connections."""
        self._closed = True
        await self._http.aclose()

    def _row(self, delivery: Delivery) -> dict[str, object]:
        row = outcome_row(delivery, include_text=self._include_text)
        if not self._include_text:
            # It may quote what was captured; `kind` and `missing` say as much in words of ours.
            del row["reason"]
        return row

    def _headers(self, batch_id: str, content: bytes) -> dict[str, str]:
        timestamp = str(int(self._clock()))
        headers = {"Content-Type": "application/json", "webhook-id": batch_id, "webhook-timestamp": timestamp}
        if self._key is not None:
            headers["webhook-signature"] = _signature(self._key, batch_id, timestamp, content)
        return headers


def _signature(key: bytes, batch_id: str, timestamp: str, content: bytes) -> str:
    signed = b".".join((batch_id.encode(), timestamp.encode(), content))
    return "v1," + base64.b64encode(hmac.digest(key, signed, "sha256")).decode()


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
            f"the secret of the sink 'webhook' must be base64 after {_SECRET_PREFIX!r}, or a text without that beginning"
        )
    return key
