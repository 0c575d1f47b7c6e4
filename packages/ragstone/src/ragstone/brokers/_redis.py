"""Redis Streams as a message broker: one stream with one consumer group.

Keys of a queue `app`, all in one slot of a cluster:

- `ragstone:{app}:entries`: the stream. Stored entries are removed from it.
- `ragstone:{app}:aside`: entries that are not stored, with their reason.
- `ragstone:{app}:meta`: a hash with the id of the store that owns the queue, the format, and counts of entries set aside.
- `ragstone:{app}:sent:SEGMENT`: offset up to which a spool segment was published. It changes in the same step as the stream.
"""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from typing import Any, Final

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from ragstone.brokers._address import BrokerAddress
from ragstone.brokers._protocol import Message, SetAside
from ragstone.errors import BrokerError, ConfigurationError
from ragstone.schema import SCHEMA_VERSION, BrokerStatus, other_version

_VERSION: Final = version("ragstone")
_GROUP: Final = "ragstone"
_FORMAT: Final = b"%d" % SCHEMA_VERSION
_FIELD: Final = b"e"
"""Field of an entry that has the framed line."""
_MAX_KEPT: Final = 2**20
"""Bytes of an entry that are kept if it is set aside, and cannot be used by another version."""
_MAX_ASIDE: Final = 10_000
_SETTLE_S: Final = 3.0
"""Redis syncs its append-only file every second by default, and at the latest after two."""
_TAKE_OVER_S: Final = 60.0
"""Seconds after which entries of a worker that does not acknowledge them are delivered to another one."""
_FORGET_CONSUMER_MS: Final = 3_600_000
_CONNECT_S: Final = 2.0
_ANSWER_S: Final = 5.0
_POSITION_S: Final = 30 * 86_400

# The position is compared first, so that a step whose reply was lost and is repeated does not publish lines twice. It
# is written last: an XADD that fails ends the script.
_PUBLISH: Final = """
local at = tonumber(redis.call('GET', KEYS[2]) or '0')
if at ~= tonumber(ARGV[1]) then return at end
if redis.call('XLEN', KEYS[1]) >= tonumber(ARGV[3]) then return -1 end
for i = 5, #ARGV do redis.call('XADD', KEYS[1], '*', 'e', ARGV[i]) end
redis.call('SET', KEYS[2], ARGV[2], 'EX', ARGV[4])
return tonumber(ARGV[2])
"""

# In one step, because a consumer's entries are lost with it.
_FORGET_CONSUMERS: Final = """
for _, found in ipairs(redis.call('XINFO', 'CONSUMERS', KEYS[1], ARGV[1])) do
    local of = {}
    for i = 1, #found, 2 do of[found[i]] = found[i + 1] end
    if of['pending'] == 0 and of['idle'] > tonumber(ARGV[2]) and of['name'] ~= ARGV[3] then
        redis.call('XGROUP', 'DELCONSUMER', KEYS[1], ARGV[1], of['name'])
    end
end
"""


class RedisBroker:
    """A queue in Redis 6.2 or newer, named by the `app` of the address.

    After `take_over_s` seconds, entries that a worker does not acknowledge are delivered to another one.
    """

    def __init__(self, address: BrokerAddress, *, take_over_s: float = _TAKE_OVER_S) -> None:
        self.name = address.name
        self.settle_s = _SETTLE_S
        self._address = address
        self._take_over_ms = max(1, int(take_over_s * 1000))
        self._take_over_next = 0.0
        self._claim_from: bytes | str = "0-0"
        self._consumer = f"worker-{uuid.uuid4().hex[:16]}"
        self._checked = False
        self._client: Any = self._connect()
        self._publish = self._client.register_script(_PUBLISH)
        self._forget_consumers = self._client.register_script(_FORGET_CONSUMERS)
        prefix = f"ragstone:{{{address.app}}}"
        self._stream, self._aside, self._meta = f"{prefix}:entries", f"{prefix}:aside", f"{prefix}:meta"
        self._sent = f"{prefix}:sent:"

    def _connect(self) -> redis.Redis:
        address = self._address
        tls: dict[str, Any] = {"ssl": True, **address.tls_files} if address.scheme == "rediss" else {}
        return redis.Redis(
            host=address.host,
            port=address.port,
            db=address.db,
            username=address.username,
            password=address.password,
            socket_connect_timeout=_CONNECT_S,
            socket_timeout=_ANSWER_S,
            # The caller retries, with what the server knows by then.
            retry=Retry(NoBackoff(), 0),
            protocol=2,
            client_name="ragstone",
            **tls,
        )

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except (redis.RedisError, OSError) as error:
            raise BrokerError(
                f"{self.name} cannot be used: {self._address.hide_password(str(error)) or type(error).__name__}"
            ) from None

    # -- persistence -------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Check that Redis keeps what it confirms: it has an append-only file, and does not evict keys.

        Raise BrokerError if Redis does not answer. Raise ConfigurationError if it may lose entries, and the address
        does not accept that.
        """
        with self._errors():
            info = self._client.info("everything")
            kind = self._client.type(self._stream)
            # Hosted servers may not allow this command.
            with contextlib.suppress(redis.ResponseError):
                found = self._client.config_get("appendfsync").get("appendfsync")
                self.settle_s = 0.0 if found == "always" else _SETTLE_S
        if kind not in (b"stream", b"none"):
            raise ConfigurationError(
                f"the key {self._stream!r} of {self.name} is not a stream. Choose another name in the path of the URL"
            )
        risks = []
        if not info.get("aof_enabled"):
            risks.append("does not write an append-only file, so a restart loses entries (CONFIG SET appendonly yes)")
        if (policy := info.get("maxmemory_policy")) != "noeviction":
            risks.append(
                f"may remove entries when its memory is full: maxmemory-policy is {policy} (CONFIG SET maxmemory-policy noeviction)"
            )
        if risks and not self._address.accepts_loss:
            raise ConfigurationError(
                f"{self.name} {', and '.join(risks)}. Change its configuration, also in its file, or accept the loss "
                "with '?accept_loss=1' in the URL"
            )
        self._checked = True

    def _ensure_checked(self) -> None:
        if not self._checked:
            self.check()

    # -- application -------------------------------------------------------------------------------------------

    def position(self, segment: str) -> int:
        """See `Broker`."""
        self._ensure_checked()
        with self._errors():
            return int(self._client.get(self._sent + segment) or 0)

    def publish(self, segment: str, offset: int, next_offset: int, lines: Sequence[bytes]) -> int:
        """See `Broker`."""
        self._ensure_checked()
        with self._errors():
            position = int(
                self._publish(
                    keys=[self._stream, self._sent + segment],
                    args=[offset, next_offset, self._address.max_entries, _POSITION_S, *lines],
                )
            )
        if position < 0:
            raise self._address.full_error()
        return position

    def forget(self, segment: str) -> None:
        """See `Broker`."""
        with self._errors():
            self._client.delete(self._sent + segment)

    # -- worker ------------------------------------------------------------------------------------------------

    def join(self, store_id: str) -> None:
        """See `Broker`."""
        self._ensure_checked()
        with self._errors():
            format_ = self._client.hget(self._meta, "format") or _FORMAT
        if format_ != _FORMAT:
            raise ConfigurationError(f"{self.name} {other_version(format_.decode(errors='replace'))}")
        with self._errors():
            pipe = self._client.pipeline(transaction=True)
            pipe.hsetnx(self._meta, "format", _FORMAT)
            pipe.hsetnx(self._meta, "store", store_id)
            pipe.hget(self._meta, "store")
            owner = pipe.execute()[-1]
        if owner != store_id.encode():
            raise self._address.other_store_error(f"redis-cli HDEL '{self._meta}' store")
        with self._errors():
            try:
                # From 0, so that entries which came before the first worker are received.
                self._client.xgroup_create(self._stream, _GROUP, id="0", mkstream=True)
            except redis.ResponseError as error:
                if not str(error).startswith("BUSYGROUP"):
                    raise
            self._restore()

    def _restore(self) -> None:
        """Receive entries again that another version of Ragstone has set aside."""
        for entry_id, fields in self._client.xrange(self._aside, count=_MAX_ASIDE):
            if fields.get(b"reason") == b"other_version" and fields.get(b"by") != _VERSION.encode():
                pipe = self._client.pipeline(transaction=True)
                pipe.xadd(self._stream, {_FIELD: fields.get(_FIELD, b"")})
                pipe.xdel(self._aside, entry_id)
                pipe.execute()

    def receive(self, limit: int, *, again: bool) -> list[Message]:
        """See `Broker`."""
        with self._errors():
            found = [] if again else self._take_over(limit)
            if not found:
                start = "0" if again else ">"
                answer = self._client.xreadgroup(_GROUP, self._consumer, {self._stream: start}, count=limit)
                found = answer[0][1] if answer else []
            # Entries that someone removed while they were in progress do not have fields.
            removed = [entry_id for entry_id, fields in found if not fields]
            if removed:
                self._client.xack(self._stream, _GROUP, *removed)
        return [_message(entry_id, fields) for entry_id, fields in found if fields]

    def _take_over(self, limit: int) -> list[tuple[bytes, dict[bytes, bytes] | None]]:
        """Return entries of workers that do not acknowledge them. They are looked for a few times in the waiting time."""
        if time.monotonic() < self._take_over_next:
            return []
        answer = self._client.xautoclaim(
            self._stream, _GROUP, self._consumer, self._take_over_ms, start_id=self._claim_from, count=limit
        )
        self._claim_from, found = answer[0], answer[1]
        if self._claim_from in (b"0-0", "0-0"):
            self._take_over_next = time.monotonic() + self._take_over_ms / 3000
            self._forget_consumers(keys=[self._stream], args=[_GROUP, _FORGET_CONSUMER_MS, self._consumer])
        return list(found)

    def acknowledge(self, messages: Sequence[Message]) -> None:
        """See `Broker`."""
        if not messages:
            return
        keys = [message.key for message in messages]
        with self._errors():
            pipe = self._client.pipeline(transaction=True)
            pipe.xack(self._stream, _GROUP, *keys)
            pipe.xdel(self._stream, *keys)
            pipe.execute()

    def set_aside(self, message: Message, reason: SetAside) -> bool:
        """See `Broker`. At most 10,000 entries are kept: those of another version, and the first MiB of others."""
        data = message.data or b""
        with self._errors():
            is_kept = int(self._client.xlen(self._aside)) < _MAX_ASIDE
            kept = data if reason == "other_version" else data[:_MAX_KEPT]
            pipe = self._client.pipeline(transaction=True)
            if is_kept:
                pipe.xadd(self._aside, {"reason": reason, "by": _VERSION, "bytes": len(data), _FIELD: kept})
            pipe.hincrby(self._meta, f"set_aside:{reason}", 1)
            pipe.xack(self._stream, _GROUP, message.key)
            pipe.xdel(self._stream, message.key)
            pipe.execute()
        return is_kept

    def status(self) -> BrokerStatus:
        """See `Broker`."""
        with self._errors():
            pipe = self._client.pipeline(transaction=True)
            pipe.xlen(self._stream)
            pipe.xrange(self._stream, count=1)
            pipe.time()
            pipe.hgetall(self._meta)
            pipe.exists(self._stream)
            length, first, (seconds, _), meta, exists = pipe.execute()
            groups = self._client.xinfo_groups(self._stream) if exists else []
        in_progress = sum(int(group["pending"]) for group in groups if group["name"] == _GROUP.encode())
        return BrokerStatus(
            waiting=max(0, int(length) - in_progress),
            in_progress=in_progress,
            oldest_s=max(0.0, int(seconds) - int(first[0][0].split(b"-")[0]) / 1000) if first else None,
            set_aside=sum(int(n) for name, n in meta.items() if name.startswith(b"set_aside:")),
        )

    def close(self) -> None:
        """See `Broker`."""
        self._client.close()


def _message(entry_id: bytes, fields: dict[bytes, bytes]) -> Message:
    return Message(key=entry_id.decode(), data=fields.get(_FIELD) if len(fields) == 1 else None)
