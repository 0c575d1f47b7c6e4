"""NATS JetStream as a message broker: one stream with one durable consumer.

JetStream objects of a queue `app`:

- stream `ragstone-app`, subject `ragstone.app.entries`: the entries. Acknowledged ones are removed.
- stream `ragstone-app-aside`, subject `ragstone.app.aside`: entries that are not stored, with their reason.
- key-value bucket `ragstone-app`: the id of the store that owns the queue, and offsets up to which spool segments were published.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import threading
import time
from collections.abc import Coroutine, Sequence
from concurrent.futures import TimeoutError as CallTimeoutError
from datetime import datetime
from importlib.metadata import version
from typing import Any, Final, TypeVar

import nats
import nats.errors
from nats.js import api
from nats.js.errors import (
    APIError,
    BucketNotFoundError,
    KeyNotFoundError,
    KeyValueError,
    KeyWrongLastSequenceError,
    NotFoundError,
)

from ragstone.brokers._address import BrokerAddress
from ragstone.brokers._protocol import Message, SetAside
from ragstone.errors import BrokerError, ConfigurationError
from ragstone.schema import BrokerStatus

T = TypeVar("T")

_VERSION: Final = version("ragstone")
_DURABLE: Final = "ragstone"
_MAX_ASIDE: Final = 10_000
_TAKE_OVER_S: Final = 60.0
"""Seconds after which entries of a worker that does not acknowledge them are delivered to another one."""
_CONNECT_S: Final = 2
_ANSWER_S: Final = 5.0
_CALL_S: Final = 30.0
"""Longest time of one method, which may need several answers."""
_FETCH_S: Final = 0.2
"""Longest wait for the next entry, when there is none."""
_DUPLICATES_S: Final = 600.0
"""Seconds in which JetStream ignores an entry that is published again."""
_HEADERS_BYTES: Final = 1024
_FULL: Final = 10077
"""Error code of JetStream: the stream has its maximum number of messages."""


class NatsBroker:
    """A queue in NATS 2.9 or newer with JetStream, named by the `app` of the address.

    After `take_over_s` seconds, entries that a worker does not acknowledge are delivered to another one.
    """

    settle_s = 0.0

    def __init__(self, address: BrokerAddress, *, take_over_s: float = _TAKE_OVER_S) -> None:
        self.name = address.name
        self.max_line_bytes = 2**20 - _HEADERS_BYTES
        self._address = address
        self._take_over_s = take_over_s
        self._stream = f"ragstone-{address.app}"
        self._subject = f"ragstone.{address.app}.entries"
        self._aside = f"ragstone-{address.app}-aside"
        self._aside_subject = f"ragstone.{address.app}.aside"
        self._loop: asyncio.AbstractEventLoop | None = None
        self._client: Any = None
        self._js: Any = None
        self._bucket: Any = None
        self._pull: Any = None
        self._checked_at = 0.0
        """When the state of the consumer was compared with the stream, in monotonic seconds."""
        self._held: dict[str, Any] = {}
        """Entries that were received and not acknowledged, by key."""

    # -- connection --------------------------------------------------------------------------------------------

    def _call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the client's loop, which answers the server's pings between calls.

        Raise BrokerError if the server does not answer in time, or with an error.
        """
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            threading.Thread(target=_run, args=(self._loop,), name="ragstone-nats", daemon=True).start()
        running = asyncio.run_coroutine_threadsafe(self._connected(work), self._loop)
        try:
            return running.result(_CALL_S)
        except (nats.errors.Error, OSError, CallTimeoutError, TimeoutError) as error:
            running.cancel()
            why = self._address.hide_password(str(error)) or type(error).__name__
            raise BrokerError(f"{self.name} cannot be used: {why}") from None

    async def _connected(self, work: Coroutine[Any, Any, T]) -> T:
        try:
            await self._connect()
        except BaseException:
            work.close()
            raise
        return await work

    async def _connect(self) -> None:
        if self._client is not None and self._client.is_connected:
            return
        await self._disconnect()
        address = self._address

        async def ignore(_error: Exception) -> None:
            """Say nothing: the call that needs the connection raises."""

        tls = ssl.create_default_context(cafile=address.tls_files.get("ssl_ca_certs")) if address.is_encrypted else None
        if tls is not None and "ssl_certfile" in address.tls_files:
            tls.load_cert_chain(address.tls_files["ssl_certfile"], address.tls_files.get("ssl_keyfile"))
        host = f"[{address.host}]" if ":" in address.host else address.host
        client = await nats.connect(
            f"nats://{host}:{address.port}",
            name="ragstone",
            user=address.username,
            password=address.password,
            tls=tls,
            tls_hostname=address.host if tls is not None else None,
            error_cb=ignore,
            connect_timeout=_CONNECT_S,
            # The next call connects again.
            allow_reconnect=False,
            max_reconnect_attempts=1,
        )
        try:
            js = client.jetstream(timeout=_ANSWER_S)
            self.max_line_bytes = client.max_payload - _HEADERS_BYTES
            await self._ensure_stream(js, self._stream, self._subject, self._address.max_entries, is_queue=True)
            await self._ensure_stream(js, self._aside, self._aside_subject, _MAX_ASIDE, is_queue=False)
            try:
                bucket = await js.key_value(self._stream)
            except BucketNotFoundError:
                bucket = await js.create_key_value(bucket=self._stream, history=1)
        except BaseException:
            await client.close()
            raise
        self._client, self._js, self._bucket, self._pull = client, js, bucket, None

    async def _ensure_stream(self, js: Any, name: str, subject: str, limit: int, *, is_queue: bool) -> None:
        """Make a stream, or check that the existing one keeps its entries."""
        kind = api.RetentionPolicy.WORK_QUEUE if is_queue else api.RetentionPolicy.LIMITS
        try:
            config = (await js.stream_info(name)).config
        except NotFoundError:
            config = api.StreamConfig(
                name=name,
                subjects=[subject],
                retention=kind,
                storage=api.StorageType.FILE,
                # A full stream refuses entries, and does not remove old ones.
                discard=api.DiscardPolicy.NEW,
                max_msgs=limit,
                duplicate_window=_DUPLICATES_S,
            )
            await js.add_stream(config)
        risks = []
        if config.retention != kind:
            risks.append(f"has retention {config.retention}, and needs {kind.value}")
        if not self._address.accepts_loss:
            if config.storage != api.StorageType.FILE:
                risks.append("is kept in memory, so a restart loses entries")
            if config.discard != api.DiscardPolicy.NEW or config.max_age:
                risks.append("removes entries that no worker has stored (discard or max_age)")
        if risks:
            raise ConfigurationError(
                f"the stream {name!r} of {self.name} {', and '.join(risks)}. Remove it, so that Ragstone makes it, or accept the "
                "loss with '?accept_loss=1' in the URL"
            )

    async def _disconnect(self) -> None:
        client, self._client, self._pull = self._client, None, None
        # The server delivers them again, to any worker.
        self._held.clear()
        if client is not None:
            with contextlib.suppress(Exception):
                await client.close()

    def check(self) -> None:
        """See `Broker`."""
        self._call(self._nothing())

    async def _nothing(self) -> None:
        """Only connect, which checks the streams."""

    # -- application -------------------------------------------------------------------------------------------

    def position(self, segment: str) -> int:
        """See `Broker`."""
        return self._call(self._position(segment))

    async def _position(self, segment: str) -> int:
        try:
            return int((await self._bucket.get(f"sent.{segment}")).value or 0)
        except (KeyNotFoundError, ValueError):
            return 0

    def publish(self, segment: str, offset: int, next_offset: int, lines: Sequence[bytes]) -> int:
        """See `Broker`.

        The position is written after the entries. JetStream ignores those that are published again within ten minutes.
        """
        return self._call(self._publish(segment, offset, next_offset, lines))

    async def _publish(self, segment: str, offset: int, next_offset: int, lines: Sequence[bytes]) -> int:
        position = await self._position(segment)
        if position != offset:
            return position
        sends = [
            self._js.publish(
                self._subject, line, stream=self._stream, headers={"Nats-Msg-Id": f"{segment}:{offset}:{place}"}
            )
            for place, line in enumerate(lines)
        ]
        for result in await asyncio.gather(*sends, return_exceptions=True):
            if isinstance(result, APIError) and result.err_code == _FULL:
                raise self._address.full_error()
            if isinstance(result, BaseException):
                raise result
        await self._bucket.put(f"sent.{segment}", str(next_offset).encode())
        return next_offset

    def forget(self, segment: str) -> None:
        """See `Broker`."""
        self._call(self._bucket_delete(f"sent.{segment}"))

    async def _bucket_delete(self, key: str) -> None:
        await self._bucket.purge(key)

    # -- worker ------------------------------------------------------------------------------------------------

    def join(self, store_id: str) -> None:
        """See `Broker`."""
        self._call(self._join(store_id))

    async def _join(self, store_id: str) -> None:
        try:
            await self._bucket.create("store", store_id.encode())
        except (KeyWrongLastSequenceError, KeyValueError):
            if ((await self._bucket.get("store")).value or b"") != store_id.encode():
                raise self._address.other_store_error(f"nats kv del {self._stream} store") from None
        await self._add_consumer()
        await self._deliver_forgotten()
        await self._restore()

    async def _add_consumer(self) -> None:
        await self._js.add_consumer(
            self._stream,
            api.ConsumerConfig(
                durable_name=_DURABLE,
                # From the first one, so that entries which came before the first worker are received.
                deliver_policy=api.DeliverPolicy.ALL,
                ack_policy=api.AckPolicy.EXPLICIT,
                ack_wait=self._take_over_s,
                max_deliver=-1,
                max_ack_pending=100_000,
            ),
        )
        self._pull = await self._js.pull_subscribe_bind(consumer=_DURABLE, stream=self._stream)

    async def _deliver_forgotten(self) -> None:
        """Replace the consumer if its state does not fit the stream, as after `kill -9` of a server.

        The server may have removed acknowledged entries and forgotten it, so that they are in the stream and no worker
        receives them. They would count as waiting, and fill the stream. New entries are among them if the server has
        lost the end of the stream and used its numbers again. The consumer may also wait for an entry that the server
        has removed. A new consumer delivers all entries of the stream, and the store ignores those that it has.
        """
        self._checked_at = time.monotonic()
        before = await self._js.consumer_info(self._stream, _DURABLE)
        state = (await self._js.stream_info(self._stream)).state
        is_floor_right = True
        if before.num_ack_pending and before.ack_floor is not None:
            # All entries up to the floor are acknowledged, and the next one is in progress.
            try:
                await self._js.get_msg(self._stream, before.ack_floor.stream_seq + 1)
            except NotFoundError:
                is_floor_right = False
        after = await self._js.consumer_info(self._stream, _DURABLE)
        if (before.num_pending, before.num_ack_pending, before.ack_floor, before.delivered) != (
            after.num_pending,
            after.num_ack_pending,
            after.ack_floor,
            after.delivered,
        ):
            return  # entries are published or received, so the numbers are of different moments
        if is_floor_right and state.messages <= (after.num_pending or 0) + (after.num_ack_pending or 0):
            return
        with contextlib.suppress(NotFoundError):  # another worker has removed it
            await self._js.delete_consumer(self._stream, _DURABLE)
        with contextlib.suppress(nats.errors.Error):
            await self._pull.unsubscribe()
        await self._add_consumer()

    async def _restore(self) -> None:
        """Receive entries again that another version of Ragstone has set aside."""
        state = (await self._js.stream_info(self._aside)).state
        for number in range(max(1, state.first_seq), state.last_seq + 1):
            try:
                found = await self._js.get_msg(self._aside, number)
            except NotFoundError:
                continue
            headers = found.headers or {}
            if headers.get("Ragstone-Reason") == "other_version" and headers.get("Ragstone-By") != _VERSION:
                await self._js.publish(self._subject, found.data or b"", stream=self._stream)
                await self._js.delete_msg(self._aside, number)

    def receive(self, limit: int, *, again: bool) -> list[Message]:
        """See `Broker`."""
        return self._call(self._receive(limit, again=again))

    async def _receive(self, limit: int, *, again: bool) -> list[Message]:
        if not again and self._pull is not None:
            if not self._held and time.monotonic() - self._checked_at >= self._take_over_s:
                await self._deliver_forgotten()
            with contextlib.suppress(nats.errors.TimeoutError, TimeoutError):
                for found in await self._pull.fetch(limit, timeout=_FETCH_S):
                    self._held[str(found.metadata.sequence.stream)] = found
                    found.is_new = True
        elif self._pull is None:
            raise BrokerError(f"{self.name} cannot be used: the connection was lost")
        messages = [
            Message(key=key, data=held.data)
            for key, held in self._held.items()
            if again or held.__dict__.pop("is_new", False)
        ]
        return messages[:limit]

    def acknowledge(self, messages: Sequence[Message]) -> None:
        """See `Broker`."""
        self._call(self._acknowledge([message.key for message in messages]))

    async def _acknowledge(self, keys: Sequence[str]) -> None:
        async def acknowledge(key: str) -> None:
            held = self._held.get(key)
            if held is not None:
                with contextlib.suppress(nats.errors.MsgAlreadyAckdError):
                    await held.ack_sync(timeout=_ANSWER_S)
                # Each on its own: if another one fails, only that one is acknowledged again.
                self._held.pop(key, None)

        await asyncio.gather(*map(acknowledge, keys))

    def set_aside(self, message: Message, reason: SetAside) -> bool:
        """See `Broker`. At most 10,000 entries are kept."""
        return self._call(self._set_aside(message, reason))

    async def _set_aside(self, message: Message, reason: SetAside) -> bool:
        headers = {"Nats-Msg-Id": message.key, "Ragstone-Reason": reason, "Ragstone-By": _VERSION}
        is_kept = True
        try:
            await self._js.publish(self._aside_subject, message.data or b"", stream=self._aside, headers=headers)
        except APIError as error:
            if error.err_code != _FULL:
                raise
            is_kept = False
        await self._acknowledge([message.key])
        return is_kept

    def status(self) -> BrokerStatus:
        """See `Broker`."""
        return self._call(self._status())

    async def _status(self) -> BrokerStatus:
        state = (await self._js.stream_info(self._stream)).state
        aside = (await self._js.stream_info(self._aside)).state
        try:
            in_progress = (await self._js.consumer_info(self._stream, _DURABLE)).num_ack_pending or 0
        except NotFoundError:
            in_progress = 0
        return BrokerStatus(
            waiting=max(0, state.messages - in_progress),
            in_progress=in_progress,
            oldest_s=await self._oldest_s(state.first_seq) if state.messages else None,
            set_aside=aside.last_seq,
        )

    async def _oldest_s(self, number: int) -> float | None:
        try:
            stored_at = (await self._js.get_msg(self._stream, number)).time
        except NotFoundError:
            return None
        return max(0.0, time.time() - stored_at.timestamp()) if isinstance(stored_at, datetime) else None

    def close(self) -> None:
        """See `Broker`."""
        loop, self._loop = self._loop, None
        if loop is None:
            return

        async def end() -> None:
            await self._disconnect()
            loop.call_soon(loop.stop)

        asyncio.run_coroutine_threadsafe(end(), loop)


def _run(loop: asyncio.AbstractEventLoop) -> None:
    try:
        loop.run_forever()
    finally:
        loop.close()
