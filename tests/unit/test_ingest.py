"""Spans of any application: on the disk before the answer, whole traces into the store, each once."""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from aiohttp import web

from ragstone.cli._output import ledger_lines
from ragstone.errors import ConfigurationError, StoreError, StoreOwnedError
from ragstone.ingest import Access, OtlpReceiver, OtlpTraceSource, SharedSpanBuffer
from ragstone.ingest._body import Body, BodyReader, BusyError
from ragstone.reading.otlp import OversizedMessageError
from ragstone.store import SqliteStore
from ragstone.worker import StepErrors

JSON = {"Content-Type": "application/json"}
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


def attribute(key: str, value: str) -> dict[str, Any]:
    """An attribute in OTLP's JSON."""
    return {"key": key, "value": {"stringValue": value}}


def span(n: int, *, trace: str = TRACE, parent: int | None = None, **attributes: str) -> dict[str, Any]:
    """A span in OTLP's JSON."""
    return {
        "traceId": trace,
        "spanId": f"{n:016x}",
        **({} if parent is None else {"parentSpanId": f"{parent:016x}"}),
        "name": f"span {n}",
        "startTimeUnixNano": str(10**18 + n),
        "endTimeUnixNano": str(10**18 + 1000 + n),
        "attributes": [attribute(key, value) for key, value in attributes.items()],
    }


def request(*spans: dict[str, Any]) -> bytes:
    """A message of an exporter."""
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": list(spans)}]}]}).encode()


def rag(trace: str = TRACE) -> list[dict[str, Any]]:
    """The spans of a RAG request, the root first."""
    return [
        span(
            1, trace=trace, **{"openinference.span.kind": "CHAIN", "input.value": "How tall?", "output.value": "31 m."}
        ),
        span(
            2,
            trace=trace,
            parent=1,
            **{
                "openinference.span.kind": "RETRIEVER",
                "input.value": "How tall?",
                "retrieval.documents.0.document.content": "It is 31 m tall.",
            },
        ),
    ]


class Clock:
    """A clock that tests move."""

    now = 1000.0

    def __call__(self) -> float:
        """The time."""
        return self.now


@pytest.fixture
def clock() -> Clock:
    """A clock that stands still."""
    return Clock()


@pytest.fixture
def stage(tmp_path: Path, clock: Clock) -> Iterator[SharedSpanBuffer]:
    """A stage on disk."""
    opened = SharedSpanBuffer(tmp_path / "s.db.spans", clock=clock)
    yield opened
    opened.close()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    """A store."""
    with SqliteStore.open(tmp_path / "s.db", mode="own") as opened:
        yield opened


def talk(
    stage: SharedSpanBuffer, ask: Callable[[httpx.AsyncClient], Awaitable[httpx.Response]], **options: Any
) -> httpx.Response:
    """Ask a receiver one thing."""

    async def session() -> httpx.Response:
        receiver = OtlpReceiver(stage, port=0, **options)
        await receiver.start()
        try:
            async with httpx.AsyncClient(base_url=receiver.url) as client:
                return await ask(client)
        finally:
            await receiver.aclose()

    return asyncio.run(session())


def post(stage: SharedSpanBuffer, body: bytes, kind: str = "application/json", **headers: str) -> httpx.Response:
    """Send a body to the place of traces."""
    sent = {"Content-Type": kind, **{name.replace("_", "-"): value for name, value in headers.items()}}
    return talk(stage, lambda client: client.post("/v1/traces", content=body, headers=sent))


def talk_json(stage: SharedSpanBuffer, body: bytes, **options: Any) -> httpx.Response:
    """Send a JSON body to a receiver with options."""
    sent = {"Content-Type": "application/json"}
    return talk(stage, lambda client: client.post("/v1/traces", content=body, headers=sent), **options)


def protobuf(*spans: dict[str, Any]) -> bytes:
    """The same message as protobuf."""
    from google.protobuf.json_format import ParseDict
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    message = ExportTraceServiceRequest()
    ParseDict(json.loads(request()), message)
    scope = message.resource_spans[0].scope_spans[0]
    for item in spans:
        made = scope.spans.add(
            trace_id=bytes.fromhex(item["traceId"]),
            span_id=bytes.fromhex(item["spanId"]),
            parent_span_id=bytes.fromhex(item.get("parentSpanId", "")),
            name=item["name"],
            start_time_unix_nano=int(item["startTimeUnixNano"]),
            end_time_unix_nano=int(item["endTimeUnixNano"]),
        )
        for entry in item["attributes"]:
            made.attributes.add(key=entry["key"]).value.string_value = entry["value"]["stringValue"]
    return message.SerializeToString()


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("kind", ["application/json", "application/x-protobuf"])
def test_both_forms_are_taken_packed_or_not(stage, store, clock, kind, packed):
    """What exporters of all languages send ends as the same request."""
    body = request(*rag()) if kind == "application/json" else protobuf(*rag())
    headers = {"Content_Encoding": "gzip"} if packed else {}
    answer = post(stage, gzip.compress(body) if packed else body, kind, **headers)
    assert (200, kind, b"{}" if kind == "application/json" else b"") == (
        answer.status_code,
        answer.headers["content-type"].partition(";")[0],
        answer.content,
    )

    clock.now += 60
    OtlpTraceSource(stage, clock=clock).transfer_batch(store, StepErrors())
    (trace,) = store.traces.read()
    assert ("How tall?", "31 m.", ["It is 31 m tall."], TRACE, f"{1:016x}") == (
        trace.query,
        trace.response,
        [passage.text for passage in trace.prompt_contexts],
        trace.otel_trace_id,
        trace.otel_span_id,
    )


def test_what_is_received_is_redacted_before_the_disk(stage, store, clock, tmp_path):
    """The address of a user is in no file, that of spans included."""
    spans = rag()
    spans[0]["attributes"].append(attribute("user.note", "mail ada@example.org"))
    spans[1]["attributes"][2]["value"]["stringValue"] = "Ask ada@example.org."
    post(stage, request(*spans))
    assert all(b"ada@" not in file.read_bytes() for file in tmp_path.iterdir())

    clock.now += 60
    OtlpTraceSource(stage, clock=clock).transfer_batch(store, StepErrors())
    (trace,) = store.traces.read()
    assert ["Ask [email]."] == [passage.text for passage in trace.prompt_contexts]


@pytest.mark.parametrize("fails", [lambda text: None, lambda text: 1 / 0])
def test_a_span_that_cannot_be_redacted_is_rejected(stage, fails):
    """Its exporter gets the reason, without the text, and nothing is written."""
    answer = talk_json(stage, request(*rag()), redact=fails)
    assert "2" == answer.json()["partialSuccess"]["rejectedSpans"]
    assert "cannot be redacted: the redactor " in answer.json()["partialSuccess"]["errorMessage"]
    assert ("How tall" in answer.text, len(stage)) == (False, 0)


def test_a_secret_that_two_spans_make_is_redacted(stage, store, clock):
    """The request is redacted once more before it is stored, by the same function."""
    talk_json(stage, request(*rag()), redact=None)
    clock.now += 60
    OtlpTraceSource(stage, redact=lambda text: text.replace("31 m", "[height]"), clock=clock).transfer_batch(
        store, StepErrors()
    )
    (trace,) = store.traces.read()
    assert "[height]." == trace.response


def test_a_request_that_cannot_be_redacted_is_not_stored(stage, store, clock):
    """It is counted with the reason, and the next ones are stored."""
    post(stage, request(*rag()))
    post(stage, request(*rag("5" * 32)))
    clock.now += 60

    results = iter([None])

    def redact(text: str) -> Any:
        return next(results, text) if text == "31 m." else text

    source = OtlpTraceSource(stage, redact=redact, clock=clock)
    source.transfer_batch(store, StepErrors())
    assert (1, 1, 0) == (source.n_requests, source.n_others, len(stage))
    assert {"it cannot be redacted: the redactor must return text, got NoneType": 1} == dict(source.others)


def test_names_of_spans_are_redacted_and_ids_are_not(stage, store, clock, tmp_path):
    """A name by the default rules. The id of a user is stored as in a monitor, so that `store erase` finds it."""
    spans = rag()
    spans[0]["name"] = "ask for bob@example.org"
    spans[0]["attributes"] += [attribute("user.id", "ada@example.org"), attribute("of bob@example.org.user.id", "x")]
    listed = {"arrayValue": {"values": [{"stringValue": "bob@example.org"}]}}
    spans[0]["attributes"] += [attribute("other_user.id", "bob@example.org"), {"key": "enduser.id", "value": listed}]
    spans[0]["status"] = {"code": 2, "message": "unknown: bob@example.org"}
    spans[0]["events"] = [{"name": "found bob@example.org", "timeUnixNano": "1"}]
    post(stage, request(*spans))
    assert all(b"bob@" not in file.read_bytes() for file in tmp_path.iterdir())
    clock.now += 60
    OtlpTraceSource(stage, clock=clock).transfer_batch(store, StepErrors())
    (trace,) = store.traces.read()
    assert ("ada@example.org", "ask for [email]") == (trace.user_id, trace.name)


def test_a_trace_waits_until_it_seems_whole(stage, store, clock):
    """With its root for the shorter time after the last span, without it for the longer one."""
    intake = OtlpTraceSource(stage, idle_timeout_s=10, rootless_timeout_s=100, clock=clock)
    other = "00000000000000000000000000000001"
    post(stage, request(rag()[1], rag(other)[1]))
    clock.now += 9
    post(stage, request(rag()[0]))
    clock.now += 9
    assert 0 == intake.transfer_batch(store, StepErrors())
    clock.now += 1
    assert 1 == intake.transfer_batch(store, StepErrors())
    assert [TRACE] == [trace.otel_trace_id for trace in store.traces.read()]

    clock.now += 90
    assert 1 == intake.transfer_batch(store, StepErrors())
    assert 0 == len(stage)


def test_spans_that_come_again_or_late_change_nothing(stage, store, clock):
    """An exporter that was not sure sends again; a trace that has gone on is not opened again."""
    intake = OtlpTraceSource(stage, clock=clock)
    for _ in range(2):
        post(stage, request(*rag()))
    clock.now += 60
    intake.transfer_batch(store, StepErrors())
    post(stage, request(*rag()))
    clock.now += 60
    intake.transfer_batch(store, StepErrors())

    assert (1, 1) == (intake.n_requests, intake.n_late)
    assert 1 == store.ledger().total.captured


def test_traces_that_are_no_requests_are_left_out_and_counted(stage, store, clock, caplog):
    """Health checks and database calls are not RAG."""
    intake = OtlpTraceSource(stage, clock=clock)
    post(stage, request(span(1, **{"http.request.method": "GET"})))
    clock.now += 60
    with caplog.at_level("INFO"):
        intake.transfer_batch(store, StepErrors())

    assert (0, 1) == (store.ledger().total.captured, intake.n_others)
    reason = "not a request: no span follows a convention that is known"
    assert f"1 traces are not RAG requests (most often: {reason}; the last one: trace {TRACE})" in caplog.text
    ignored = store.ledger().ignored
    assert {reason: (1, f"trace {TRACE}")} == {name: (found.n, found.example) for name, found in ignored.items()}
    assert f"ignored, {reason}: 1 (for example trace {TRACE})" in ledger_lines(store.ledger())


@pytest.mark.parametrize(
    ("body", "kind", "headers", "status", "words"),
    [
        (b"{", "application/json", {}, 400, ""),
        (b'{"spans": []}', "application/json", {}, 400, "resourceSpans"),
        (b"\xff\xff", "application/x-protobuf", {}, 400, ""),
        (b"<xml/>", "text/xml", {}, 400, "content type must be application/x-protobuf"),
        (b"not gzip", "application/json", {"Content_Encoding": "gzip"}, 400, "not valid gzip"),
        (
            gzip.compress(b"{}" * 9000, mtime=0)[:-20],
            "application/json",
            {"Content_Encoding": "gzip"},
            400,
            "gzip data is incomplete",
        ),
        (b"{}", "application/json", {"Content_Encoding": "br"}, 400, "unknown content encoding 'br'"),
    ],
)
def test_what_cannot_be_read_is_refused_with_the_reason(stage, body, kind, headers, status, words):
    """Exporters do not send it again, and show what is said."""
    answer = post(stage, body, kind, **headers)
    assert status == answer.status_code
    assert words in answer.json()["message"]
    assert 0 == len(stage)


def test_a_bomb_is_refused_before_it_goes_off(stage):
    """A small body that unpacks to more than is taken: refused, whatever it holds."""
    bomb = gzip.compress(b" " * (65 * 2**20), compresslevel=1)
    answer = post(stage, bomb, Content_Encoding="gzip")
    assert (413, True) == (answer.status_code, "Send smaller batches" in answer.json()["message"])


def test_a_body_that_is_larger_than_it_says_is_refused(stage, caplog):
    """By its length, or when too much has come without one."""

    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(9):
            yield b" " * 2**20

    headers = {"Content-Type": "application/json"}
    told = post(stage, b" " * (9 * 2**20))
    untold = talk(stage, lambda client: client.post("/v1/traces", content=chunks(), headers=headers))
    assert [413, 413] == [told.status_code, untold.status_code]
    assert "a message was refused, and its spans are lost: the message has more than 8388608 bytes" in caplog.text


def test_a_small_message_does_not_wait_for_large_ones(stage, monkeypatch):
    """Ten expensive messages of one client do not stop the others."""
    release = threading.Event()
    large = request(*rag(), span(9, text="x" * 300_000))

    async def ask(client: httpx.AsyncClient) -> httpx.Response:
        headers = {"Content-Type": "application/json"}
        slow = [asyncio.create_task(client.post("/v1/traces", content=large, headers=headers)) for _ in range(3)]
        await asyncio.sleep(0.2)
        response = await client.post("/v1/traces", content=request(*rag("a" * 32)), headers=headers)
        assert not any(task.done() for task in slow)
        release.set()
        assert [200] * 3 == [(await task).status_code for task in slow]
        return response

    add = stage.add

    def wait(spans: list[Any]) -> int:
        if len(spans) == 3:
            assert release.wait(20)
        return add(spans)

    monkeypatch.setattr(stage, "add", wait)
    assert 200 == talk(stage, ask).status_code
    assert 2 == len(stage)


def test_too_many_messages_at_once_are_sent_again(stage, monkeypatch):
    """Exporters retry after 503, so nothing is lost."""
    from ragstone.ingest import _intake

    monkeypatch.setattr(_intake, "PATIENCE_S", 0.05)
    release = threading.Event()
    large = request(span(9, text="x" * 300_000))

    async def ask(client: httpx.AsyncClient) -> httpx.Response:
        headers = {"Content-Type": "application/json"}
        first = asyncio.create_task(client.post("/v1/traces", content=large, headers=headers))
        await asyncio.sleep(0.2)
        second = await client.post("/v1/traces", content=large, headers=headers)
        release.set()
        assert 200 == (await first).status_code
        return second

    add = stage.add

    def wait(spans: list[Any]) -> int:
        assert release.wait(20)
        return add(spans)

    monkeypatch.setattr(stage, "add", wait)
    refused = talk(stage, ask)
    assert (503, "5") == (refused.status_code, refused.headers["Retry-After"])


def test_bodies_share_one_limit():
    """Its rest is free again when a body is done, also after an error."""
    reader = BodyReader(100)
    bodies = [Body(reader) for _ in range(5)]
    for body in bodies[:4]:
        body.extend(b"x" * 100)
    with pytest.raises(BusyError):
        bodies[4].extend(b"x")
    bodies[0].close()
    bodies[0].close()
    bodies[4].extend(b"x" * 100)
    bodies[1].close()
    with pytest.raises(OversizedMessageError):
        bodies[4].extend(b"x")


def test_a_slow_body_is_given_up(stage, monkeypatch):
    """With a status that says so."""

    async def slow() -> AsyncIterator[bytes]:
        yield b"{"
        await asyncio.sleep(0.5)
        yield b"}"

    monkeypatch.setattr(BodyReader.__init__, "__kwdefaults__", {"deadline_s": 0.1})
    headers = {"Content-Type": "application/json"}
    assert 408 == talk(stage, lambda client: client.post("/v1/traces", content=slow(), headers=headers)).status_code


TOKEN = "0123456789abcdef"


@pytest.mark.parametrize(
    ("access", "headers", "status"),
    [
        (Access(), {}, 200),
        (Access(), {"Host": "localhost:1"}, 200),
        (Access(), {"Host": "evil.example"}, 403),
        (Access(hosts=["proxy.example"]), {"Host": "Proxy.example:80"}, 200),
        (Access(TOKEN), {}, 401),
        (Access(TOKEN), {"Authorization": f"Bearer {TOKEN}"}, 200),
        (Access(TOKEN), {"Authorization": f"bearer  {TOKEN}", "Host": "evil.example"}, 200),
        (Access(TOKEN), {"Authorization": f"Bearer {TOKEN}x"}, 401),
        (Access(TOKEN), {"Authorization": TOKEN}, 401),
        (Access(TOKEN), {"Authorization": "Bearer é"}, 401),
    ],
)
def test_who_may_send(stage, access, headers, status):
    """The token decides; without one, only clients that ask for this machine."""

    async def ask(client: httpx.AsyncClient) -> httpx.Response:
        sent = [
            (name, value.encode("latin-1")) for name, value in ({"Content-Type": "application/json"} | headers).items()
        ]
        return await client.post("/v1/traces", content=request(*rag()), headers=sent)

    response = talk(stage, ask, access=access)
    assert (status, int(status == 200)) == (response.status_code, len(stage))


def test_health_needs_no_token(stage):
    """Supervisors do not have it, and the routes do not show texts."""

    async def alive(_: web.Request) -> web.Response:
        return web.Response(text="alive")

    def add(app: web.Application) -> None:
        app.router.add_get("/healthz", alive)

    response = talk(stage, lambda client: client.get("/healthz"), access=Access(TOKEN), add_routes=add)
    assert (200, "alive") == (response.status_code, response.text)


@pytest.mark.parametrize(
    ("token", "words"),
    [("short", "at least 16 characters, got 5"), ("é" * 20, "printable ASCII"), ("a b" * 20, "printable ASCII")],
)
def test_a_weak_token_is_refused(token, words):
    """Before the receiver starts."""
    with pytest.raises(ConfigurationError, match=words):
        Access(token)


@pytest.mark.parametrize("host", ["0.0.0.0", "10.0.0.5", "::", "example.org"])  # noqa: S104 - only checked
def test_an_open_address_needs_a_token(host):
    """The message names what to set."""
    with pytest.raises(ConfigurationError, match=rf"reach --listen {host}, .*RAGSTONE_INGEST_TOKEN.*--token none"):
        Access().check_address(host, "--listen")
    Access(TOKEN).check_address(host, "--listen")
    for local in ("127.0.0.1", "localhost", "::1"):
        Access().check_address(local, "--listen")


def test_spans_that_cannot_be_read_are_told_and_the_others_kept(stage):
    """In the words of the protocol: a partial success."""
    answer = post(stage, request(*rag(), {"traceId": "x", "spanId": "y"}))
    assert "1" == answer.json()["partialSuccess"]["rejectedSpans"]
    assert 1 == len(stage)


def test_a_full_disk_is_told_so_that_exporters_come_again(stage, monkeypatch, caplog):
    """Nothing that was not kept is confirmed."""

    def full(spans: object) -> int:
        msg = "no space left"
        raise StoreError(msg)

    monkeypatch.setattr(stage, "add", full)
    answer = post(stage, request(*rag()))
    assert (503, "5") == (answer.status_code, answer.headers["Retry-After"])


def logged(name: str, **fields: Any) -> dict[str, Any]:
    """A message with a log record of the root's span."""
    record = {"traceId": TRACE, "spanId": f"{1:016x}", "eventName": name, **fields}
    return {"resourceLogs": [{"scopeLogs": [{"logRecords": [record]}]}]}


@pytest.mark.parametrize("kind", ["application/json", "application/x-protobuf"])
def test_log_records_of_model_calls_are_taken_and_redacted(stage, store, clock, kind, tmp_path):
    """What an instrumentation logs about a call is read with its span, and no secret in it reaches the disk."""
    key = "sk-abcdefghijklmnopqrstuvwxyz0123456789"
    content = {"key": "content", "value": {"stringValue": f"How tall? {key}"}}
    body = {"kvlistValue": {"values": [content]}}
    message = logged("gen_ai.user.message", timeUnixNano=str(10**18), body=body)
    sent = json.dumps(message).encode()
    if kind != "application/json":
        from google.protobuf.json_format import ParseDict
        from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

        record = message["resourceLogs"][0]["scopeLogs"][0]["logRecords"][0]
        record |= {name: base64.b64encode(bytes.fromhex(record[name])).decode() for name in ("traceId", "spanId")}
        sent = ParseDict(message, ExportLogsServiceRequest()).SerializeToString()
    answer = talk(stage, lambda client: client.post("/v1/logs", content=sent, headers={"Content-Type": kind}))
    assert (200, b"{}" if kind == "application/json" else b"") == (answer.status_code, answer.content)
    assert key.encode() not in b"".join(path.read_bytes() for path in tmp_path.iterdir())

    # A log record has no parent, but it does not end the wait for the root of its trace.
    clock.now += 60
    assert 0 == OtlpTraceSource(stage, clock=clock).transfer_batch(store, StepErrors())

    chat = {"gen_ai.operation.name": "chat", "gen_ai.completion": "31 m."}
    found = {
        "gen_ai.operation.name": "retrieval",
        "gen_ai.retrieval.documents": '[{"id": "d", "content": "31 m tall"}]',
    }
    workflow = {"gen_ai.operation.name": "invoke_workflow"}
    post(stage, request(span(3, **workflow), span(1, parent=3, **chat), span(2, parent=3, **found)))
    clock.now += 60
    OtlpTraceSource(stage, clock=clock).transfer_batch(store, StepErrors())
    (trace,) = store.traces.read()
    assert ("How tall? [key]", "31 m.") == (trace.query, trace.response)


def test_a_log_record_that_cannot_be_read_is_told(stage):
    """The count has the name that the protocol has for logs."""
    bad = json.dumps(logged("gen_ai.choice", spanId="")).encode()
    answer = talk(stage, lambda client: client.post("/v1/logs", content=bad, headers=JSON))
    assert "1" == answer.json()["partialSuccess"]["rejectedLogRecords"]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/metrics", b"\x0a\x00"),
        ("/v1/logs", b"{}"),
        ("/v1/logs", json.dumps(logged("session.start")).encode()),
        ("/v1/logs", json.dumps(logged("gen_ai.evaluation.result")).encode()),
    ],
)
def test_other_signals_are_accepted_and_left_alone(stage, path, body):
    """An application whose exporters share one address sees no errors."""
    answer = talk(stage, lambda client: client.post(path, content=body, headers=JSON))
    assert (200, 0) == (answer.status_code, len(stage))
    assert 404 == talk(stage, lambda client: client.get("/")).status_code


def test_a_port_that_is_taken(stage):
    """The message names the address and the option."""

    async def session() -> None:
        first = OtlpReceiver(stage, port=0)
        await first.start()
        second = OtlpReceiver(stage, port=int(first.url.rpartition(":")[2]))
        try:
            with pytest.raises(ConfigurationError, match=r"cannot listen on 127.0.0.1:\d+: .*--listen HOST:PORT"):
                await second.start()
        finally:
            await second.aclose()
            await first.aclose()

    asyncio.run(session())


def test_several_receivers_share_a_store(store, tmp_path, clock):
    """As on several hosts: none takes the other's batches for its own."""
    stages = [SharedSpanBuffer(tmp_path / f"{n}.spans", clock=clock) for n in range(2)]
    intakes = [OtlpTraceSource(stage, clock=clock) for stage in stages]
    for round_ in range(3):
        for n, stage in enumerate(stages):
            post(stage, request(*rag(f"{10 * round_ + n + 1:032x}")))
        clock.now += 60
        for intake in intakes:
            intake.transfer_batch(store, StepErrors())
    for stage in stages:
        stage.close()

    assert 6 == store.ledger().total.captured


def test_one_process_receives_for_a_store(stage, tmp_path):
    """A second one is told who does; when the first has let go it may."""
    with pytest.raises(StoreOwnedError, match=r"another `ragstone ingest` \(process \d+\) uses the span buffer"):
        SharedSpanBuffer(tmp_path / "s.db.spans")
    stage.close()
    SharedSpanBuffer(tmp_path / "s.db.spans").close()


def test_what_was_answered_survives_the_process(tmp_path, store, clock):
    """The next one finds the spans on the disk."""
    stage = SharedSpanBuffer(tmp_path / "x.spans", clock=clock)
    post(stage, request(*rag()))
    stage.close()

    again = SharedSpanBuffer(tmp_path / "x.spans", clock=clock)
    clock.now += 60
    OtlpTraceSource(again, clock=clock).transfer_batch(store, StepErrors())
    again.close()
    assert 1 == store.ledger().total.captured


def test_a_store_that_does_not_take_it_loses_nothing(stage, store, clock, monkeypatch):
    """The spans stay until the traces are stored."""
    intake, troubles = OtlpTraceSource(stage, clock=clock), StepErrors()
    post(stage, request(*rag()))
    clock.now += 60
    ingest = store.traces.ingest

    def full(*args: object) -> int:
        monkeypatch.setattr(store.traces, "ingest", ingest)
        msg = "no space left"
        raise StoreError(msg)

    monkeypatch.setattr(store.traces, "ingest", full)
    intake.transfer_batch(store, troubles)
    assert (True, 1) == (bool(troubles), len(stage))
    intake.transfer_batch(store, troubles)
    assert (False, 0, 1) == (bool(troubles), len(stage), store.ledger().total.captured)
