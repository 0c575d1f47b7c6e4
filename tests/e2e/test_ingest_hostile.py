"""A receiver against clients that want to stop it: bombs, connections that send nothing, and other web sites."""

from __future__ import annotations

import contextlib
import gzip
import json
import re
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from pathlib import Path

import grpc
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from waiting import wait_until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

SPAN = {"traceId": "4bf92f3577b34da6a3ce929d0e0e4736", "spanId": "00f067aa0ba902b7", "name": "a span"}
GOOD = json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [SPAN]}]}]}).encode()
SPANS = ExportTraceServiceRequest(
    resource_spans=[{"scope_spans": [{"spans": [{"trace_id": b"1" * 16, "span_id": b"2" * 8, "name": "a span"}]}]}]
).SerializeToString()
EXPORT = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
TOKEN = "0123456789abcdef"
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"
"""What a client of HTTP/2 sends first."""
JSON = "application/json"
PROTOBUF = "application/x-protobuf"


BELOW_THE_LIMITS = ("240,000 objects", "numbers", "text", "240,000 attributes")


def field(number: int, body: bytes) -> bytes:
    """A field of protobuf that holds bytes."""
    length, encoded = len(body), bytearray()
    while length > 127:
        encoded.append(length & 127 | 128)
        length >>= 7
    return bytes([number << 3 | 2, *encoded, length]) + body


def bombs() -> dict[str, tuple[bytes, str]]:
    """Small bodies that would take gigabytes."""
    texts = [{"key": "input.value", "value": {"stringValue": "mail a@b.example, card 4111 1111 1111 1111. " * 180_000}}]
    long = {"resourceSpans": [{"scopeSpans": [{"spans": [SPAN | {"attributes": texts}]}]}]}
    plain = {
        "64 MiB of empty resources": (b'{"resourceSpans":[' + b"{}," * 22_000_000 + b"{}]}", JSON),
        "empty resources within the limit": (b'{"resourceSpans":[' + b"{}," * 2_400_000 + b"{}]}", JSON),
        "240,000 objects": (b'{"resourceSpans":[' + b'{"":0},' * 240_000 + b"{}]}", JSON),
        "numbers": (b'{"resourceSpans":[' + b"1.5," * 990_000 + b"{}]}", JSON),
        "text": (json.dumps(long).encode(), JSON),
        "64 MiB of empty spans": (field(1, field(2, b"\x12\x00" * 32 * 2**20)), PROTOBUF),
        "empty spans within the limit": (field(1, field(2, b"\x12\x00" * (4 * 2**20 - 20))), PROTOBUF),
        "240,000 attributes": (field(1, field(2, field(2, b"\x4a\x00" * 240_000))), PROTOBUF),
    }
    return {name: (gzip.compress(body, 1), kind) for name, (body, kind) in plain.items()}


def open_channel(port: int) -> grpc.Channel:
    """Connect, without sharing a connection with other channels of this process."""
    return grpc.insecure_channel(f"127.0.0.1:{port}", options=[("grpc.use_local_subchannel_pool", 1)])


def headers(token: str) -> tuple[tuple[str, str], ...]:
    """The metadata of a call."""
    return (("authorization", f"Bearer {token}"),) if token else ()


class Receiver:
    """A running `ragstone ingest`."""

    def __init__(self, folder: Path, *options: str, files: int | None = None) -> None:
        program = Path(sys.executable).with_name("ragstone")
        command = [program, "ingest", folder / "s.db", "--judge", "lexical", "--listen", "127.0.0.1:0", *options]
        # A shell sets the limit: a function between fork and exec would meet gRPC's handlers of forks in this process.
        shell = ["sh", "-c", 'ulimit -n "$0" && exec "$@"', files] if files else []
        self.log = folder / "log"
        self.slowest_s = 0.0
        """The longest time in which a good message was answered."""
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                list(map(str, [*shell, *command])), stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        pattern = re.compile(r"http://127\.0\.0\.1:(\d+)/v1/traces(?: and http://127\.0\.0\.1:(\d+))?")
        wait_until(lambda: pattern.search(self.log.read_text()) or self.process.poll() is not None)
        found = pattern.search(self.log.read_text())
        assert found, self.log.read_text()
        self.port = int(found[1])
        self.grpc_port = int(found[2] or 0)

    def post(self, body: bytes, kind: str = JSON, **headers: str) -> int:
        """Send a body, and return the status."""
        sent = {"Content-Type": kind} | {name.replace("_", "-"): value for name, value in headers.items()}
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/v1/traces", body, sent)
        try:
            with urllib.request.urlopen(request, timeout=120) as response:  # noqa: S310 - loopback
                return response.status
        except urllib.error.HTTPError as error:
            return error.code

    def post_good(self) -> int:
        """Send a message of another client, and return the status."""
        begin = time.monotonic()
        status = self.post(GOOD)
        self.slowest_s = max(self.slowest_s, time.monotonic() - begin)
        return status

    def call(self, body: bytes, token: str = "", *, compressed: bool = False) -> str:
        """Send a message over gRPC with a connection of its own, and return the name of the status."""
        with open_channel(self.grpc_port) as channel:
            compression = grpc.Compression.Gzip if compressed else None
            try:
                channel.unary_unary(EXPORT)(body, timeout=60, metadata=headers(token), compression=compression)
            except grpc.RpcError as error:
                return error.code().name
            return "OK"

    def call_good(self, token: str = "") -> str:
        """Send a message of another client over gRPC, and return the name of the status."""
        begin = time.monotonic()
        status = self.call(SPANS, token)
        self.slowest_s = max(self.slowest_s, time.monotonic() - begin)
        return status

    def healthz(self) -> int:
        """Ask whether it is alive, and return the status."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/healthz", timeout=60) as response:
            return response.status

    def peak_mib(self) -> int:
        """The most memory that it has had."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmHWM:\s+(\d+)", status)[1]) // 1024

    def stop(self) -> int:
        """Stop it as a service manager does."""
        self.process.terminate()
        return self.process.wait(60)


@contextlib.contextmanager
def receiver(folder: Path, *options: str, files: int | None = None):
    """Run a receiver, and kill it at the end if it still runs."""
    running = Receiver(folder, *options, files=files)
    try:
        yield running
    finally:
        running.process.kill()
        running.process.wait()


def test_bombs_take_little_memory_and_stop_nobody(tmp_path):
    """Ten at once of each kind: refused or kept, while the message of another client is accepted."""
    waits_s: list[float] = []
    with receiver(tmp_path) as running:
        for name, (body, kind) in bombs().items():
            statuses: list[int] = []

            def send(body: bytes = body, kind: str = kind, statuses: list[int] = statuses) -> None:
                begin = time.monotonic()
                statuses.append(running.post(body, kind, Content_Encoding="gzip"))
                waits_s.append(time.monotonic() - begin)

            threads = [threading.Thread(target=send) for _ in range(10)]
            for thread in threads:
                thread.start()
            assert [200, 200, 200] == [running.post_good() for _ in range(3)], name
            for thread in threads:
                thread.join(120)
            assert len(statuses) == 10, name
            assert set(statuses) <= {413, 503, 200 if name in BELOW_THE_LIMITS else 413}, name
        peak = running.peak_mib()
        assert 0 == running.stop()
    assert peak <= 256
    assert running.slowest_s < 10
    assert "Traceback" not in (tmp_path / "log").read_text()
    print(
        f"{len(waits_s)} bombs: answered within {max(waits_s):.1f} s, others within {running.slowest_s:.2f} s, peak {peak} MiB"
    )


@pytest.mark.parametrize(
    "start",
    [b"P", b"POST /v1/traces HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 999\r\n\r\n{", b"nonsense\x00\xff\r\n\r\n"],
    ids=["one byte", "a part of a body", "no HTTP"],
)
def test_silent_connections_stop_nobody(tmp_path, start):
    """Far more of them than the process has file descriptors, again and again."""
    with receiver(tmp_path, files=128) as running:
        for _ in range(3):
            silent = []
            for _ in range(150):
                client = socket.create_connection(("127.0.0.1", running.port), timeout=60)
                with contextlib.suppress(OSError):
                    client.sendall(start)
                silent.append(client)
            assert [200, 200] == [running.post_good() for _ in range(2)]
            for client in silent:
                client.close()
        peak = running.peak_mib()
        assert 0 == running.stop()
    log = (tmp_path / "log").read_text()
    assert len(log.splitlines()) <= 5, log
    assert "nonsense" not in log
    assert running.slowest_s < 10
    print(f"450 connections, {start[:9]!r}: others were answered within {running.slowest_s:.2f} s, peak {peak} MiB")


GRPC = ("--listen-grpc", "127.0.0.1:0")


@pytest.mark.parametrize("start", [b"", b"P", PREFACE], ids=["nothing", "one byte", "a preface"])
def test_idle_connections_to_grpc_stop_nobody(tmp_path, start):
    """400 of them, and 256 file descriptors: both receivers and the health check go on."""
    with receiver(tmp_path, *GRPC, files=256) as running:
        idle = []
        for _ in range(400):
            client = socket.create_connection(("127.0.0.1", running.grpc_port), timeout=60)
            with contextlib.suppress(OSError):
                client.sendall(start)
            idle.append(client)
        for _ in range(3):
            assert (200, 200, "OK") == (running.healthz(), running.post_good(), running.call_good())
        for client in idle:
            client.close()
        assert 0 == running.stop()
    log = (tmp_path / "log").read_text()
    assert len(log.splitlines()) <= 6, log[:2000]
    assert running.slowest_s < 10
    print(f"400 connections, {start[:9]!r}: others were answered within {running.slowest_s:.2f} s")


def half_open(port: int, token: str, ended: threading.Event) -> tuple[grpc.Channel, grpc.Future]:
    """Begin a call whose message does not come before the event."""

    def messages():
        ended.wait()
        yield b""

    channel = open_channel(port)
    return channel, channel.stream_unary(EXPORT).future(messages(), metadata=headers(token))


def test_calls_without_the_token_end_before_their_message(tmp_path):
    """16 half-open ones are refused at once, and take no place of an exporter."""
    ended = threading.Event()
    with receiver(tmp_path, *GRPC, "--token", TOKEN) as running:
        calls = [half_open(running.grpc_port, "wrong", ended) for _ in range(16)]
        assert ["OK"] * 3 == [running.call_good(TOKEN) for _ in range(3)]
        assert {"UNAUTHENTICATED"} == {call.exception(timeout=60).code().name for _, call in calls}
        ended.set()
        for channel, _ in calls:
            channel.close()
    assert running.slowest_s < 5
    assert 1 == (tmp_path / "log").read_text().count("without the token")


def test_half_open_calls_make_room(tmp_path):
    """16 calls whose message does not come, and a client that is allowed to send: others wait for seconds."""
    ended = threading.Event()
    with receiver(tmp_path, *GRPC) as running:
        calls = [half_open(running.grpc_port, "", ended) for _ in range(16)]
        assert ["OK"] * 3 == [running.call_good() for _ in range(3)]
        # Those that made room shall be sent again.
        assert {"UNAVAILABLE"} >= {call.exception(0).code().name for _, call in calls if call.done()}
        ended.set()
        for channel, _ in calls:
            channel.close()
    assert running.slowest_s < 10


def test_slow_bodies_make_room(tmp_path):
    """Bodies that together take all of the memory for bodies, and do not go on."""
    with receiver(tmp_path) as running:
        slow = []
        for _ in range(4):
            client = socket.create_connection(("127.0.0.1", running.port), timeout=60)
            n = 8 * 2**20
            client.sendall(
                f"POST /v1/traces HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: {JSON}\r\nContent-Length: {n}\r\n\r\n".encode()
            )
            client.sendall(b"[" * (n - 10))
            slow.append(client)
        large = json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [SPAN | {"name": "x" * 500_000}]}]}]}).encode()
        wait_until(lambda: running.post(large) == 200, limit_s=10)
        for client in slow:
            client.close()


def test_forty_exporters_at_once_are_answered_or_shall_retry(tmp_path):
    """With 2,000 spans each: some are stored, and the others get the code after which exporters send again."""
    many = ExportTraceServiceRequest()
    many.ParseFromString(SPANS)
    spans = many.resource_spans[0].scope_spans[0].spans
    for n in range(2_000):
        spans.add(trace_id=b"1" * 16, span_id=n.to_bytes(8), name="x" * 150)
    statuses: list[str] = []
    with receiver(tmp_path, *GRPC) as running:
        threads = [
            threading.Thread(target=lambda: statuses.append(running.call(many.SerializeToString()))) for _ in range(40)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
        assert "OK" == running.call_good()
        assert 0 == running.stop()
    counts = Counter(statuses)
    assert counts["OK"] > 0
    assert 40 == counts["OK"] + counts["UNAVAILABLE"], counts
    print(f"40 exporters at once: {dict(counts)}")


def test_bombs_over_grpc_take_little_memory(tmp_path):
    """Ten compressed messages at once of each kind: refused or kept, while the message of another client is accepted."""
    statuses: Counter[str] = Counter()
    with receiver(tmp_path, *GRPC) as running:
        for name, (body, kind) in bombs().items():
            if kind != PROTOBUF:
                continue
            message = gzip.decompress(body)

            def send(message: bytes = message) -> None:
                statuses[running.call(message, compressed=True)] += 1

            threads = [threading.Thread(target=send) for _ in range(10)]
            for thread in threads:
                thread.start()
            assert ["OK"] * 3 == [running.call_good() for _ in range(3)], name
            for thread in threads:
                thread.join(120)
        peak = running.peak_mib()
        assert 0 == running.stop()
    assert set(statuses) <= {"OK", "RESOURCE_EXHAUSTED", "UNAVAILABLE"}, statuses
    assert 30 == statuses.total()
    assert peak <= 256
    assert running.slowest_s < 10
    print(f"30 bombs over gRPC: {dict(statuses)}, others within {running.slowest_s:.2f} s, peak {peak} MiB")


def test_an_open_address_is_refused_without_a_token(tmp_path):
    """Before the store is made, with exit code 2; and the token of the environment is used."""
    program = Path(sys.executable).with_name("ragstone")
    command = [program, "ingest", tmp_path / "s.db", "--judge", "lexical", "--listen", "0.0.0.0:0"]
    refused = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False, timeout=120)
    assert (2, []) == (refused.returncode, list(tmp_path.iterdir()))
    assert "RAGSTONE_INGEST_TOKEN" in refused.stderr

    with receiver(tmp_path, "--token", "0123456789abcdef") as running:
        assert 401 == running.post(GOOD)
        assert 200 == running.post(GOOD, Authorization="Bearer 0123456789abcdef")
    with receiver(tmp_path) as running:
        assert 403 == running.post(GOOD, Host="evil.example")
