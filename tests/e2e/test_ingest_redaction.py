"""Secrets behind escapes of JSON: they reach no file of `ragstone ingest`, and no request is lost."""

from __future__ import annotations

import base64
import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.json_format import ParseDict
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from command_line import STARTED, run_command
from ragstone.errors import StoreError
from ragstone.store import open_store
from waiting import wait_until

SECRETS = {
    "sk-proj-Abc123Def456Ghi789": "[key]",
    "AKIAIOSFODNN7EXAMPLE": "[key]",
    "ghp_0123456789abcdefghijABCDEFGHIJ012345": "[key]",
    "npm_0123456789abcdefghijABCDEFGHIJ012345": "[key]",
    "xoxb-123456789012-abcdefGHIJKL": "[key]",
    "sk_live_0123456789abcdef": "[key]",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmN": "[token]",
    "Bearer abcdef0123456789ABCDEF": "Bearer [token]",
    "4111111111111111": "[card]",
    "5555 5555 5555 4444": "[card]",
    "ada@example.org": "[email]",
}
SEPARATORS = {
    "start": "",
    "line feed": "\n",
    "tab": "\t",
    "carriage return": "\r",
    "no-break space": "\u00a0",
    "quote": '"',
    "backslash": "\\",
    "slash": "/",
}
WHOLE = [secret.removeprefix("Bearer ").encode() for secret in SECRETS]
TRACES = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"


def encoded(value: Any) -> str:
    """JSON with as many escapes as it allows."""
    return json.dumps(value).replace("/", "\\/")


def attributes(**values: str) -> list[dict[str, Any]]:
    """Attributes in OTLP's JSON. `__` in a name is a dot."""
    return [{"key": key.replace("__", "."), "value": {"stringValue": text}} for key, text in values.items()]


def texts(separator: str) -> list[str]:
    """Each secret between two separators."""
    return [f"{separator}{secret}{separator}" for secret in SECRETS]


def request(n: int, secrets: list[str], carrier: str) -> dict[str, Any]:
    """A message with a request of one span, in which the carrier contains the secrets."""
    given: dict[str, Any] = {"input.value": f"How tall is {n}?", "output.value": "31 m."}
    span: dict[str, Any] = {"name": "ask"}
    resource: list[dict[str, Any]] = attributes(service__name="shop")
    match carrier:
        case "text":
            given["input.value"] = " and ".join(secrets)
        case "json":
            given |= {
                "input.value": encoded({"question": secrets[0], "notes": secrets}),
                "input.mime_type": "application/json",
            }
        case "json in json":
            given["input.value"] = encoded({"question": encoded({"notes": secrets})})
        case "keys of json":
            given["output.value"] = encoded(dict.fromkeys(secrets, 1))
        case "cut json":
            given["input.value"] = encoded({"notes": secrets, "more": "text"})[:-5]
        case "json within text":
            given["input.value"] = f"Answer from the data:\n```json\n{encoded(secrets)}\n```\n"
        case "python":
            given["output.value"] = repr({"notes": secrets})
        case "messages":
            content = [{"type": "text", "content": secret} for secret in secrets]
            given["gen_ai.input.messages"] = encoded([{"role": "user", "parts": content}])
        case "metadata":
            given["metadata"] = encoded({"notes": secrets, **dict.fromkeys(secrets, "note")})
        case "attribute of the application":
            given["shop.note"] = encoded(secrets)
        case "tags":
            given["tag.tags"] = encoded(secrets)
        case "numbers":
            given["output.value"] = '{"card": 4111111111111111, "others": [4111111111111111, 1.50]}'
        case "resource attribute":
            resource += attributes(shop__owner=encoded(secrets))
        case "event attributes":
            values = attributes(shop__note=encoded(secrets))
            span["events"] = [{"name": "note", "timeUnixNano": "1", "attributes": values}]
        case "exception":
            values = attributes(exception__type="ValueError", exception__message=f"invalid: {encoded(secrets)}")
            span["events"] = [{"name": "exception", "timeUnixNano": "1", "attributes": values}]
            span["status"] = {"code": 2, "message": encoded(secrets)}
        case "name":
            span["name"] = f"ask {' and '.join(secrets)}"
    span |= {
        "traceId": f"{n:032x}",
        "spanId": f"{n:016x}",
        "startTimeUnixNano": str(10**18 + n),
        "endTimeUnixNano": str(10**18 + n + 1000),
        "attributes": attributes(openinference__span__kind="CHAIN") + attributes(**given),
    }
    return {"resourceSpans": [{"resource": {"attributes": resource}, "scopeSpans": [{"spans": [span]}]}]}


CARRIERS = (
    "text", "json", "json in json", "keys of json", "cut json", "json within text", "python", "messages", "metadata",
    "attribute of the application", "tags", "numbers", "resource attribute", "event attributes", "exception", "name",
)  # fmt: skip
CASES = {
    n: (carrier, separator)
    for n, (carrier, separator) in enumerate(((c, s) for c in CARRIERS for s in SEPARATORS), start=1)
}


def protobuf(message: dict[str, Any]) -> bytes:
    """The same message as protobuf."""
    message = json.loads(json.dumps(message))
    for span in message["resourceSpans"][0]["scopeSpans"][0]["spans"]:
        for name in ("traceId", "spanId"):
            span[name] = base64.b64encode(bytes.fromhex(span[name])).decode()
    return ParseDict(message, ExportTraceServiceRequest()).SerializeToString()


def post(url: str, body: bytes, kind: str) -> None:
    """Send a body over HTTP. Another status than 200 is an error."""
    with urllib.request.urlopen(urllib.request.Request(url, body, {"Content-Type": kind}), timeout=60):  # noqa: S310
        pass


def send_json(http: str, _grpc: str, messages: list[dict[str, Any]]) -> None:
    """Send messages as OTLP/JSON over HTTP."""
    for message in messages:
        post(f"{http}/v1/traces", json.dumps(message).encode(), "application/json")


def send_protobuf(http: str, _grpc: str, messages: list[dict[str, Any]]) -> None:
    """Send messages as OTLP/protobuf over HTTP."""
    for message in messages:
        post(f"{http}/v1/traces", protobuf(message), "application/x-protobuf")


def send_grpc(_http: str, address: str, messages: list[dict[str, Any]]) -> None:
    """Send messages over gRPC."""
    import grpc

    with grpc.insecure_channel(address) as channel:
        for message in messages:
            assert channel.unary_unary(TRACES)(protobuf(message), timeout=60) == b""


def free_port() -> int:
    """A port that nothing uses now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextmanager
def receiving(folder: Path, *options: str) -> Iterator[tuple[str, str]]:
    """Run `ragstone ingest` with a store in a folder, and give its addresses for HTTP and gRPC."""
    http, grpc = (f"127.0.0.1:{free_port()}" for _ in range(2))
    command = [
        sys.executable,
        "-c",
        STARTED,
        "ingest",
        str(folder / "s.db"),
        "--judge",
        "lexical",
        "--metrics",
        "ccrs.qr",
    ]
    command += ["--listen", http, "--listen-grpc", grpc, "--set", "receiver.idle_timeout_s=3", *options]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAGSTONE_")}
    with (folder.parent / "log").open("wb") as log:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=log, env=environment
        )
    try:

        def listens() -> bool:
            assert process.poll() is None, (folder.parent / "log").read_text(encoding="utf-8")
            for address in (http, grpc):
                with suppress(OSError), socket.create_connection(("127.0.0.1", int(address.rpartition(":")[2])), 1):
                    continue
                return False
            return True

        wait_until(listens)
        yield f"http://{http}", grpc
        process.send_signal(signal.SIGTERM)
        assert process.wait(120) == 0
    finally:
        process.kill()
        process.wait()


def n_stored(store: Path) -> int:
    """The number of captured requests of a store."""
    try:
        with open_store(store, mode="read") as opened:
            return opened.ledger().total.captured
    except StoreError:
        return 0


def leaked(folder: Path) -> set[bytes]:
    """The secrets in the bytes of any file of a folder."""
    content = b"\n".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file())
    return {secret for secret in WHOLE if secret in content}


def leaking(store: Path) -> dict[tuple[str, str], list[str]]:
    """The carriers and separators whose stored request contains a secret. Bodies in the file are compressed."""
    with open_store(store, mode="read") as opened:
        records = {int(trace.trace_id, 16): trace.model_dump_json().encode() for trace in opened.traces.read()}
    assert set(CASES) == set(records), "requests are lost"
    found = {CASES[n]: [secret.decode() for secret in WHOLE if secret in record] for n, record in records.items()}
    return {case: secrets for case, secrets in found.items() if secrets}


@pytest.mark.parametrize("send", [send_json, send_protobuf, send_grpc], ids=["json", "protobuf", "grpc"])
def test_no_secret_reaches_a_file(tmp_path: Path, send: Callable[[str, str, list[dict[str, Any]]], None]) -> None:
    """`ragstone ingest` writes no secret to a file, and stores each request, if secrets stand behind escapes."""
    folder = tmp_path / "store"
    folder.mkdir()
    messages = [request(n, texts(SEPARATORS[separator]), carrier) for n, (carrier, separator) in CASES.items()]
    with receiving(folder) as (http, grpc):
        send(http, grpc, messages)
        comment = encoded({"text": "\n".join(texts("\n"))})
        feedback = {"trace_id": f"{1:032x}", "value": 0, "comment": comment}
        post(f"{http}/v1/feedback", json.dumps(feedback).encode(), "application/json")
        buffered = b"".join(path.read_bytes() for path in folder.glob("*.spans*"))
        assert b"How tall is" in buffered
        assert set() == leaked(folder)
        wait_until(lambda: n_stored(folder / "s.db") >= len(CASES))
        assert set() == leaked(folder)
    assert {} == leaking(folder / "s.db")
    with open_store(folder / "s.db", mode="read") as store:
        traces = {CASES[int(trace.trace_id, 16)]: trace for trace in store.traces.read()}
    for separator, character in SEPARATORS.items():
        # JSON stays valid, and each secret has become its placeholder.
        kept = json.loads(traces["keys of json", separator].response or "")
        assert len(SECRETS) == len(kept)
        assert '{"card": "[card]", "others": ["[card]", 1.50]}' == traces["numbers", separator].response
        notes = traces["metadata", separator].metadata["notes"]
        assert list(SECRETS.values()) == [note.strip(character or None) for note in notes]


def test_a_secret_would_be_found(tmp_path: Path) -> None:
    """The test above sees secrets in the bytes of files and in stored requests if redaction is off."""
    folder = tmp_path / "store"
    folder.mkdir()
    with receiving(folder, "--set", "redaction.redact=false") as (http, grpc):
        send_json(http, grpc, [request(n, texts(""), carrier) for n, (carrier, _) in CASES.items()])
        assert set(WHOLE) == leaked(folder)
        wait_until(lambda: n_stored(folder / "s.db") >= len(CASES))
    assert {"json", "json in json", "metadata", "exception", "numbers"} <= {
        carrier for carrier, _ in leaking(folder / "s.db")
    }


def test_no_replayed_secret_reaches_a_store(tmp_path: Path) -> None:
    """`ragstone replay` stores no secret, and each request, if secrets stand behind escapes in its file."""
    folder = tmp_path / "store"
    folder.mkdir()
    lines = [json.dumps(request(n, texts(SEPARATORS[separator]), carrier)) for n, (carrier, separator) in CASES.items()]
    (tmp_path / "spans.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    options = ("--store", folder / "s.db", "--judge", "lexical", "--metrics", "ccrs.qr")
    done = run_command("replay", tmp_path / "spans.jsonl", *options)
    assert 0 == done.returncode, done.stderr
    assert set() == leaked(folder)
    assert {} == leaking(folder / "s.db")
