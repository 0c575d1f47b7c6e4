"""OTLP in files: whatever way it is written, torn, repeated, out of order or broken in places."""

from __future__ import annotations

import base64
import gzip
import json
import re
from pathlib import Path

import pytest

from ragstone.errors import DataError
from ragstone.reading import InputFile
from ragstone.reading.otlp import OtlpFormat, spans_of_request
from ragstone.reading.otlp import _files as files
from ragstone.reading.otlp._json_messages import spans_of_message
from ragstone.reading.otlp._span import OtelSpan, join_logs

DATA = Path(__file__).parent / "data"
TRACE, ROOT, SEARCH = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331", "00f067aa0ba902b7"
ANSWERED = ("q", ["p"], "a")


def attribute(key, value):
    """One attribute."""
    kinds = {str: "stringValue", bool: "boolValue", float: "doubleValue"}
    if isinstance(value, int) and not isinstance(value, bool):
        return {"key": key, "value": {"intValue": str(value)}}
    return {"key": key, "value": {kinds[type(value)]: value}}


def span(span_id=ROOT, parent="", trace_id=TRACE, **attributes):
    """One span; dots in names of attributes are written as double underscores."""
    return {
        "traceId": trace_id,
        "spanId": span_id,
        "parentSpanId": parent,
        "name": "s",
        "startTimeUnixNano": "1795219315056708096",
        "endTimeUnixNano": "1795219316056708096",
        "status": {},
        "attributes": [attribute(key.replace("__", "."), value) for key, value in attributes.items()],
    }


def root(**more):
    """The request's span."""
    return span(openinference__span__kind="CHAIN", input__value="q", output__value="a", **more)


def search(**more):
    """The search's span."""
    return span(
        SEARCH, ROOT, openinference__span__kind="RETRIEVER", retrieval__documents__0__document__content="p", **more
    )


def message(*spans):
    """An OTLP message."""
    return {"resourceSpans": [{"resource": {"attributes": []}, "scopeSpans": [{"scope": {}, "spans": list(spans)}]}]}


def told(traces):
    """Question, passages and answer of each."""
    return [(t.query, t.prompt_contexts and [p.text for p in t.prompt_contexts], t.response) for t in traces]


def lines(*values) -> bytes:
    """JSON lines; what is bytes is a line already."""
    return b"".join((v if isinstance(v, bytes) else json.dumps(v).encode()) + b"\n" for v in values)


OTHER_SIGNALS = {"resourceLogs": [{"scopeLogs": []}]}, {"resourceMetrics": []}
WAYS = {
    "one line": lines(message(root(), search())),
    "without line end": json.dumps(message(root(), search())).encode(),
    "pretty": json.dumps(message(root(), search()), indent=2).encode(),
    "byte order mark": b"\xef\xbb\xbf" + lines(message(root(), search())),
    "spread over lines": lines(message(search()), *OTHER_SIGNALS, message(root())),
    "a list": json.dumps([message(search()), message(root())]).encode(),
    "repeated": lines(message(root(), search()), message(search(), root())),
    "gzip": gzip.compress(lines(message(root()))) + gzip.compress(lines(message(search()))),
    "windows": lines(message(root()), message(search())).replace(b"\n", b"\r\n"),
}


@pytest.mark.parametrize("way", WAYS)
def test_the_way_a_file_is_written_does_not_matter(read, way):
    """Lines, a document, a list, spans in any order and place, other signals between them: the same request."""
    traces, rejected = read(OtlpFormat(), WAYS[way])

    assert ([ANSWERED], []) == (told(traces), rejected)
    assert OtlpFormat().detect(WAYS["one line"])
    assert (TRACE, ROOT) == (traces[0].otel_trace_id, traces[0].otel_span_id)


def test_protobufs_own_json_is_read(read):
    """It has base64 ids and may have names with underscores."""

    def rewritten(one):
        ids = {key: base64.b64encode(bytes.fromhex(one[key])).decode() for key in ("traceId", "spanId", "parentSpanId")}
        return {**one, **ids}

    camel = message(rewritten(root()), rewritten(search()))
    names = ("resourceSpans", "scopeSpans", "traceId", "spanId", "parentSpanId", "stringValue", "startTimeUnixNano")
    text = json.dumps(camel)
    for name in names:
        text = text.replace(f'"{name}"', '"' + "".join(f"_{c.lower()}" if c.isupper() else c for c in name) + '"')

    for content in (json.dumps(camel).encode(), text.encode()):
        assert OtlpFormat().detect(content)
        traces, _ = read(OtlpFormat(), content)
        assert [ANSWERED] == told(traces)
        assert (TRACE, ROOT) == (traces[0].otel_trace_id, traces[0].otel_span_id)


def in_snake_case(content: bytes) -> bytes:
    """The names of protobuf's fields, which its JSON may keep."""
    return re.sub(
        rb'"[a-z]+(?:[A-Z][a-z]+)+"(?=:)',
        lambda name: re.sub(rb"[A-Z]", lambda c: b"_" + c[0].lower(), name[0]),
        content,
    )


def test_ids_in_capital_digits_are_the_same_ids(read):
    """Of two exporters, one may write hex digits in capitals."""
    capitals = {
        name: value.upper() for name, value in search().items() if name in ("traceId", "spanId", "parentSpanId")
    }
    traces, rejected = read(OtlpFormat(), lines(message(root(), search() | capitals)))

    assert ([ANSWERED], []) == (told(traces), rejected)


def test_scopes_under_their_older_name_are_read(read):
    """They were called instrumentation libraries before."""
    sent = json.dumps(message(root(), search())).replace("scopeSpans", "instrumentationLibrarySpans")
    traces, _ = read(OtlpFormat(), sent.encode())

    assert [ANSWERED] == told(traces)


@pytest.mark.parametrize("code", [2, "2", "STATUS_CODE_ERROR", "ERROR"])
def test_each_spelling_of_a_failed_status_is_read(read, code):
    """Writers of JSON use the number or the name."""
    failed = root() | {"status": {"code": code, "message": "it broke"}}
    (trace,), _ = read(OtlpFormat(), lines(message(failed, search())))

    assert ("error", "it broke") == (trace.status, trace.error)


def test_a_torn_last_line_costs_that_line(read):
    """A writer that was killed leaves half a line: it is counted, and the rest is read."""
    content = lines(message(root(), search()))
    traces, rejected = read(OtlpFormat(), content + content[:200])

    assert [ANSWERED] == told(traces)
    assert ["line 2"] == [r.place for r in rejected]
    assert "the file ends inside it" in rejected[0].reason


def test_a_resource_names_the_application(read):
    """Of each resource its own, and a stage keeps it."""
    sent = message(root(), search())
    sent["resourceSpans"][0]["resource"] = {
        "attributes": [
            attribute("service.name", "bot"), attribute("service.version", "2.4"),
            attribute("deployment.environment.name", "eu"), attribute("host.name", "h"),
        ]
    }  # fmt: skip
    traces, _ = read(OtlpFormat(), lines(sent))
    staged = next(span for span in spans_of_message(sent) if isinstance(span, OtelSpan)).staged().body

    assert [("bot", "2.4", "eu")] == [(t.app, t.release, t.environment) for t in traces]
    assert {"app": "bot", "release": "2.4", "environment": "eu"} == OtelSpan.from_staged(staged).resource


def test_bad_records_are_counted_one_by_one(read):
    """No JSON, no message, no span, no ids: each is one rejection with its place; the rest continues."""
    bad = message({"traceId": TRACE}, "no span", span("00" * 8), span(trace_id="zz"), root(), search())
    content = lines(b"{no json", {"hello": 1}, b"[" * 100_000, bad)
    traces, rejected = read(OtlpFormat(), content)

    assert [ANSWERED] == told(traces)
    assert ["line 1", "line 2", "line 3", *["line 4"] * 4] == [r.place for r in rejected]
    assert ["span 1", "span 2", "span 3", "span 4"] == [r.reason.partition(":")[0] for r in rejected[3:]]


@pytest.mark.parametrize("spelled", [bytes, in_snake_case], ids=["camel case", "snake case"])
def test_values_of_all_kinds_are_read(read, spelled):
    """Lists and maps within attributes, numbers as texts, and numbers that no request can have."""
    ids = [
        {"key": "tag.tags", "value": {"arrayValue": {"values": [{"stringValue": "a"}, {"stringValue": "b"}]}}},
        {"key": "metadata", "value": {"kvlistValue": {"values": [attribute("release", "2"), attribute("n", 3)]}}},
        {"key": "app.bytes", "value": {"bytesValue": "AAE="}},
        {"key": "app.empty", "value": {}},
        attribute("app.low", -3),
    ]
    model = span(
        "11f067aa0ba902b7", ROOT, openinference__span__kind="LLM", llm__token_count__prompt=10**30,
        llm__token_count__completion=7,
    )  # fmt: skip
    whole = root()
    whole["attributes"] += ids
    whole["startTimeUnixNano"] = "9" * 40
    traces, _ = read(OtlpFormat(), spelled(lines(message(whole, search(), model))))

    assert ("a", "b") == traces[0].tags
    assert {"release": "2", "n": 3, "app.bytes": "AAE=", "app.empty": None, "app.low": -3} == traces[0].metadata
    assert traces[0].usage is None
    assert 1795219315.0567081 == traces[0].started_at


def test_deep_nesting_is_cut(read):
    """Maps in maps in maps: neither a crash nor a lost request."""
    value = {"stringValue": "x"}
    for _ in range(20):
        value = {"kvlistValue": {"values": [{"key": "k", "value": value}]}}
    whole = root()
    whole["attributes"].append({"key": "app.deep", "value": value})
    traces, rejected = read(OtlpFormat(), lines(message(whole, search())))

    assert ([ANSWERED], []) == (told(traces), rejected)


def test_text_that_is_not_said_to_be_json_is_text(read):
    """A question may look like JSON."""
    plain = span(openinference__span__kind="CHAIN", input__value='{"query": "q"}', output__value='{"answer": "a"}')
    said = span(
        openinference__span__kind="CHAIN", input__value='{"query": "q"}', input__mime_type="application/json",
        output__value='{"answer": "a"}', output__mime_type="application/json",
    )  # fmt: skip

    assert [('{"query": "q"}', ["p"], '{"answer": "a"}')] == told(
        read(OtlpFormat(), lines(message(plain, search())))[0]
    )
    assert [ANSWERED] == told(read(OtlpFormat(), lines(message(said, search())))[0])


def test_a_large_document_is_read_span_by_span(read, monkeypatch):
    """One JSON value larger than what is parsed at once gives what a small one gives, also as a list of messages."""
    pytest.importorskip("ijson")
    monkeypatch.setattr(files, "MAX_RECORD_BYTES", 100)
    bad = span(trace_id="no")

    for content in (
        json.dumps(message(root(), bad, search()), indent=1).encode(),
        b"\xef\xbb\xbf" + json.dumps([message(root()), message(bad, search())]).encode(),
    ):
        traces, rejected = read(OtlpFormat(), content)
        assert [ANSWERED] == told(traces)
        assert 1 == len(rejected)


CHAT, CALL = "11f067aa0ba902b7", "gen_ai.client.inference.operation.details"


def value(content):
    """A value in OTLP's JSON."""
    if isinstance(content, dict):
        return {"kvlistValue": {"values": [{"key": key, "value": value(item)} for key, item in content.items()]}}
    return (
        {"arrayValue": {"values": list(map(value, content))}} if isinstance(content, list) else {"stringValue": content}
    )


def log(name, at=1, span_id=CHAT, *, body=None, in_attributes=False, **attributes):
    """A message with one log record about the call of the model."""
    attributes |= {"event.name": name} if in_attributes else {}
    record = {
        "traceId": TRACE,
        "spanId": span_id,
        "observedTimeUnixNano": str(1795219315_000000000 + at * 1000),
        **({} if in_attributes else {"eventName": name}),
        **({} if body is None else {"body": value(body)}),
        "attributes": [{"key": key.replace("__", "."), "value": value(item)} for key, item in attributes.items()],
    }
    return {"resourceLogs": [{"resource": {}, "scopeLogs": [{"scope": {}, "logRecords": [record]}]}]}


def called(**attributes):
    """A workflow with a search and a call of a model, whose spans do not have what the model was sent and replied."""
    found = json.dumps([{"id": "d", "content": "p"}])
    return message(
        span(gen_ai__operation__name="invoke_workflow"),
        span(SEARCH, ROOT, gen_ai__operation__name="retrieval", gen_ai__retrieval__documents=found),
        span(CHAT, ROOT, gen_ai__operation__name="chat", gen_ai__response__id="chatcmpl-7", **attributes),
    )


def parts(role, text):
    """Messages as OpenTelemetry's convention has them."""
    return [{"role": role, "parts": [{"type": "text", "content": text}]}]


MESSAGES = [
    log("gen_ai.choice", 3, body={"message": {"role": "assistant", "content": "a"}, "finish_reason": "stop"}),
    log("gen_ai.user.message", 2, body={"content": "q"}),
    log("gen_ai.system.message", 1, body={"content": "Answer from this: p"}),
]
LOGGED = {
    "details": [
        log(
            CALL,
            gen_ai__input__messages=parts("user", "q"),
            gen_ai__output__messages=parts("assistant", "a"),
            gen_ai__system_instructions=[{"type": "text", "content": "Answer from this: p"}],
        )
    ],
    "one record for each message": MESSAGES,
    "names of events as attributes, bodies as JSON": [
        log("gen_ai.user.message", 2, body=json.dumps({"content": "q"}), in_attributes=True),
        log("gen_ai.choice", 3, body=json.dumps({"message": {"content": "a"}}), in_attributes=True),
        log("gen_ai.system.message", 1, body=json.dumps({"content": "Answer from this: p"}), in_attributes=True),
    ],
    "texts as attributes": [
        log("gen_ai.system.message", 1, **{"gen_ai.event.content": "Answer from this: p"}),
        log("gen_ai.user.message", 2, **{"gen_ai.event.content": "q"}),
        log("gen_ai.choice", 3, message=json.dumps({"content": "a"})),
    ],
    "each record twice, and others": [
        *MESSAGES, *MESSAGES, log("gen_ai.evaluation.result", body={"content": "no"}), log("session.start"),
    ],
}  # fmt: skip


@pytest.mark.parametrize("logs", LOGGED.values(), ids=LOGGED)
def test_messages_in_log_records_belong_to_the_span_of_the_call(read, logs):
    """Instrumentations log messages instead of writing them into spans. They may be in the file before the span."""
    for content in (lines(*logs, called()), lines(called(), *logs), in_snake_case(lines(called(), *logs))):
        (trace,), rejected = read(OtlpFormat(), content)
        assert [ANSWERED] == told([trace])
        assert "chatcmpl-7" == trace.response_id
        assert not rejected


def test_messages_in_log_records_have_the_order_of_their_times(read):
    """A conversation is logged message by message, and exporters send the records in any order."""
    turns = [log("gen_ai.user.message", 10 + n, body={"content": f"Question {n}?"}) for n in range(9)]
    (trace,), _ = read(OtlpFormat(), lines(MESSAGES[0], *reversed(turns), called()))
    assert "Question 8?" == trace.query


def test_a_log_record_without_the_span_of_its_call_is_read(read):
    """A sampler may drop the span of a call. The record has what the call was sent and replied."""
    call = LOGGED["details"][0]
    spans = called()["resourceSpans"][0]["scopeSpans"][0]["spans"][:2]
    (trace,), rejected = read(OtlpFormat(), lines(call, message(*spans)))
    assert [(*ANSWERED, TRACE, ROOT)] == [(*told([trace])[0], trace.trace_id, trace.otel_span_id)]
    assert not rejected


def test_messages_without_the_span_of_their_call_are_a_span(read):
    """It begins with the first of them, whatever their order."""
    (joined,) = join_logs(record for one in MESSAGES for record in spans_of_message(one))

    assert ("gen_ai.system.message", 1795219315.000001) == (joined.name, joined.started_at)
    assert ["system", "user", "choice"] == [event.name.split(".")[1] for event in joined.events]


def test_a_log_record_of_no_span_is_rejected(read):
    """It cannot belong to a request. Its messages are counted as lost."""
    sent = log("session.start")
    (record,) = log("gen_ai.choice", span_id="", body={"message": {"content": "b"}})["resourceLogs"][0]["scopeLogs"][0][
        "logRecords"
    ]
    sent["resourceLogs"][0]["scopeLogs"][0]["logRecords"].append(record)
    traces, rejected = read(OtlpFormat(), lines(sent))
    assert not traces
    assert ["log record 2: no trace id of 16 bytes and span id of 8 bytes, in hex digits or base64"] == [
        record.reason for record in rejected
    ]


def test_a_large_document_of_log_records_is_read_one_by_one(read, tmp_path, monkeypatch):
    """Log records and spans are often in different files of a directory."""
    pytest.importorskip("ijson")
    monkeypatch.setattr(files, "MAX_RECORD_BYTES", 100)
    (tmp_path / "logs.json").write_text(json.dumps(LOGGED["details"][0], indent=1))
    (tmp_path / "traces.json").write_text(json.dumps(called(), indent=1))
    assert [ANSWERED] == told(OtlpFormat().read(InputFile(tmp_path, "both")))


def test_a_large_document_that_breaks_off_gives_what_it_had(read, tmp_path, monkeypatch):
    """First what was read, then the error."""
    pytest.importorskip("ijson")
    monkeypatch.setattr(files, "MAX_RECORD_BYTES", 100)
    (tmp_path / "torn").write_bytes(json.dumps(message(root(), search(), span()), indent=1).encode()[:-300])
    items = OtlpFormat().read(InputFile(tmp_path / "torn", "torn"))

    assert [ANSWERED] == told([next(items)])
    with pytest.raises(DataError, match="'torn' cannot be read on from span 3"):
        next(items)


def test_a_large_document_with_an_endless_span_is_refused(tmp_path, monkeypatch):
    """What expands to more than one span may have does not fill the memory."""
    pytest.importorskip("ijson")
    monkeypatch.setattr(files, "MAX_RECORD_BYTES", 100)
    monkeypatch.setattr("ragstone._util.row_limits.MAX_ROW_BYTES", 2**20)
    content = b'{"resourceSpans": [{"scopeSpans": [{"spans": [{"name": "' + b"x" * 30_000_000
    (tmp_path / "bomb").write_bytes(gzip.compress(content))

    with pytest.raises(DataError, match="has an item of more than 1048576 bytes"):
        list(OtlpFormat().read(InputFile(tmp_path / "bomb", "bomb")))


def test_damaged_compression_gives_what_it_had(tmp_path):
    """First what was read, then the error."""
    content = lines(*[message(root(), search())] * 2000)
    (tmp_path / "torn.gz").write_bytes(gzip.compress(content)[:-50])
    items = OtlpFormat().read(InputFile(tmp_path / "torn.gz", "torn.gz"))

    assert [ANSWERED] == told([next(items)])
    with pytest.raises(DataError, match=r"'torn.gz' cannot be read"):
        next(items)


@pytest.mark.parametrize("kept", [0.3, 0.99])
def test_cut_zstandard_gives_what_comes_before_and_says_so(tmp_path, kept):
    """A download that broke off must not pass for a whole one, wherever it ends; several frames are read as one file."""
    zstandard = pytest.importorskip("zstandard")
    lines = [WAYS["one line"].replace(b"4bf92f35", f"{n:08x}".encode()) for n in range(1, 400)]
    half = len(lines) // 2
    content = b"".join(zstandard.ZstdCompressor().compress(b"".join(part)) for part in (lines[:half], lines[half:]))
    whole, cut = tmp_path / "whole.zst", tmp_path / "cut.zst"
    whole.write_bytes(content)
    cut.write_bytes(content[: int(len(content) * kept)])

    assert b"".join(lines) == b"".join(line.text + b"\n" for line in InputFile(whole, "whole.zst").lines())
    found = []
    with pytest.raises(DataError, match=r"'cut.zst' cannot be read: the compressed file ends in the middle"):
        found += (line.text for line in InputFile(cut, "cut.zst").lines())
    # Whole blocks come out: all of the first frame, or less than that.
    assert (kept > 0.5, True) == (len(found) >= half, len(found) < len(lines))


def test_a_zstandard_bomb_is_read_in_little_memory(tmp_path):
    """A gigabyte of zeros in a few kilobytes: what is asked for is given, and hardly more is made."""
    import tracemalloc

    zstandard = pytest.importorskip("zstandard")
    compressor = zstandard.ZstdCompressor().compressobj()
    with (tmp_path / "bomb.zst").open("wb") as file:
        for _ in range(256):
            file.write(compressor.compress(bytes(2**22)))
        file.write(compressor.flush())
    tracemalloc.start()
    with InputFile(tmp_path / "bomb.zst", "bomb.zst").open() as stream:
        assert bytes(2**20) == stream.read(2**20)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 128 * 2**20


def test_damaged_zstandard_is_a_data_error(tmp_path):
    """Its package has an error of its own, which no one is left to know."""
    zstandard = pytest.importorskip("zstandard")
    content = bytearray(zstandard.ZstdCompressor(write_checksum=True).compress(WAYS["one line"]))
    content[-1] ^= 0xFF  # of the checksum
    (tmp_path / "bad.zst").write_bytes(bytes(content))

    with pytest.raises(DataError, match=r"'bad.zst' cannot be read"):
        list(OtlpFormat().read(InputFile(tmp_path / "bad.zst", "bad.zst")))


def protobuf(*spans) -> bytes:
    """Requests of one resource for each span, not delimited."""
    pb = pytest.importorskip("opentelemetry.proto.collector.trace.v1.trace_service_pb2")
    from google.protobuf.json_format import ParseDict

    def coded(one):
        ids = {key: base64.b64encode(bytes.fromhex(one[key])).decode() for key in ("traceId", "spanId", "parentSpanId")}
        return {**one, **ids}

    return b"".join(
        ParseDict(message(coded(one)), pb.ExportTraceServiceRequest()).SerializeToString()
        for one in spans or (root(), search())
    )


def test_protobuf_is_read_one_after_another_and_delimited(read):
    """A request, requests one after another, and requests with their lengths: the same traces."""
    single = protobuf()
    delimited = len(single).to_bytes(1, "little") if len(single) < 128 else bytes(
        [len(single) & 0x7F | 0x80, len(single) >> 7]
    )  # fmt: skip

    for content in (single, delimited + single, delimited + single + delimited + single):
        assert "protobuf" in OtlpFormat().detect(content[:300])
        traces, rejected = read(OtlpFormat(), content)
        assert ([ANSWERED], []) == (told(traces), rejected)
        assert (TRACE, ROOT) == (traces[0].otel_trace_id, traces[0].otel_span_id)


def test_an_attribute_that_is_repeated_has_its_first_value(read):
    """In each encoding, because names are unique."""
    twice = root()
    twice["attributes"].append(attribute("input.value", "other"))

    for content in (lines(message(twice, search())), protobuf(twice, search())):
        assert [ANSWERED] == told(read(OtlpFormat(), content)[0])


@pytest.mark.parametrize(("code", "status"), [(0, "ok"), (1, "ok"), (2, "error")])
def test_the_status_of_a_span_of_protobuf(read, code, status):
    """An application may say that a span is right."""
    (trace,), _ = read(OtlpFormat(), protobuf(root() | {"status": {"code": code}}))

    assert status == trace.status


def test_a_message_of_protobuf_that_is_too_large_is_refused(tmp_path, monkeypatch):
    """It would be read as one."""
    first, second = protobuf(root()), protobuf(root(app__text="x"))
    monkeypatch.setattr("ragstone.reading.otlp._protobuf.MAX_RECORD_BYTES", len(first))
    (tmp_path / "large").write_bytes(first + second)
    items = OtlpFormat().read(InputFile(tmp_path / "large", "large"))

    assert [("q", None, "a")] == told([next(items)])
    with pytest.raises(DataError, match=f"it holds a message of [0-9]+ bytes; at most {len(first)} are read as one"):
        next(items)


def test_a_bad_span_of_protobuf_has_its_place(read):
    """The number of the message, and of the span in it."""
    traces, rejected = read(OtlpFormat(), protobuf(root(), search(), span(trace_id="00" * 16)))

    assert [ANSWERED] == told(traces)
    assert [("the file", "message 3, span 1: no trace id of 16 bytes")] == [
        (record.place, record.reason.partition(" and span")[0]) for record in rejected
    ]


def test_protobuf_that_breaks_off_gives_what_it_had(tmp_path):
    """First what was read, then the error."""
    content = protobuf()
    (tmp_path / "torn").write_bytes(content + content[:100])
    items = OtlpFormat().read(InputFile(tmp_path / "torn", "torn"))

    assert [ANSWERED] == told([next(items)])
    with pytest.raises(DataError, match="'torn' cannot be read on"):
        next(items)


def test_delimited_protobuf_that_breaks_off_is_noticed_at_each_byte(tmp_path):
    """Also where the part that is left is a request of its own."""
    request = protobuf()
    length = bytes([len(request) & 0x7F | 0x80, len(request) >> 7])
    for n_left in range(1, len(length) + len(request)):
        (tmp_path / "torn").write_bytes(length + request + (length + request)[:n_left])
        items = OtlpFormat().read(InputFile(tmp_path / "torn", "torn"))
        assert [ANSWERED] == told([next(items)])
        with pytest.raises(DataError, match="'torn' cannot be read on"):
            next(items)


def test_a_request_to_a_receiver_is_read_as_files_are():
    """JSON and protobuf by their content types; anything else is refused in words."""
    as_json = spans_of_request(
        json.dumps(message(root(), span(trace_id="no"))).encode(), "Application/JSON; charset=utf-8"
    )
    as_protobuf = spans_of_request(protobuf(), "application/x-protobuf")

    assert as_json[0] == as_protobuf[0]
    assert "the message" == as_json[1].place
    assert [] == spans_of_request(b"{}", "application/json")
    for body, content_type, reason in (
        (b"{", "application/json", "not valid JSON"),
        (b'{"a": 1}', "application/json", "not an OTLP message"),
        (b"\xff\xff\xff", "application/x-protobuf", "not an OTLP trace request in protobuf"),
        (b"{}", "text/html", "content type"),
    ):
        with pytest.raises(DataError, match=reason):
            spans_of_request(body, content_type)


@pytest.mark.parametrize(
    "head",
    [
        b"",
        b"{",
        b"[]",
        b"\n",
        b"\x0a\xff\xff\xff\xff\xff",
        b"PAR1",
        b'{"query": "q"}',
        b"hello",
        b"\xff" * 300,
    ],
)
def test_what_is_something_else_is_left_to_others(head):
    """Detection says no, and never raises."""
    assert OtlpFormat().detect(head) is None


PAGE = (
    "You may return any unused device within 30 days of delivery. The original packaging must be included in the box."
)
LABEL = "For returns within Germany we send you a prepaid label, but from other countries you pay the postage yourself."
VERDICT, NOTE = "Yes. You can return the pump within 30 days.", "Keep the packaging until you are sure that it fits."
JUDGED = json.dumps({"verdict": VERDICT, "note": NOTE})


@pytest.mark.parametrize(
    ("reply", "output", "response", "shown", "contexts", "doubts"),
    [
        (JUDGED, {"ruling": VERDICT, "ticket": "T-1"}, VERDICT, None, [PAGE, LABEL], ()),
        (JUDGED, {"verdict": VERDICT, "note": NOTE}, JUDGED, None, [PAGE, LABEL], ()),
        (JUDGED, {"ruling": VERDICT, "remark": NOTE}, JUDGED, None, [PAGE, LABEL], ("several_answers",)),
        (JUDGED, {"ruling": "Ja, innerhalb von 30 Tagen."}, JUDGED, None, [PAGE, LABEL], ("several_answers",)),
        ("Yes [1], 30 days [2].", "Yes (a.md), 30 days (b.md).", "Yes (a.md), 30 days (b.md).", None, [PAGE, LABEL], ()),
        (VERDICT, VERDICT, VERDICT, f"- {PAGE.split('. ')[1]}\n- {LABEL}", [PAGE.split(". ")[1], LABEL], ()),
    ],
    ids=["value", "whole", "two values", "translation", "citations", "sentence"],
)  # fmt: skip
def test_an_answer_that_was_taken_from_a_reply(read, reply, output, response, shown, contexts, doubts):
    """The rules of live capture hold for recorded spans: values of JSON, rewritten citations, sentences of passages."""
    found = {f"retrieval__documents__{n}__document__content": text for n, text in enumerate((PAGE, LABEL))}
    asked = {
        "llm__input_messages__0__message__role": "user",
        "llm__input_messages__0__message__content": f"{shown or f'{PAGE} {LABEL}'} Can I return it?",
        "llm__output_messages__0__message__role": "assistant",
        "llm__output_messages__0__message__content": reply,
    }
    given = {"output__value": output} if isinstance(output, str) else {"output__value": json.dumps(output)}
    spans = [
        span(openinference__span__kind="CHAIN", input__value="Can I return it?", output__mime_type="application/json" if isinstance(output, dict) else "text/plain", **given),
        span(SEARCH, ROOT, openinference__span__kind="RETRIEVER", **found),
        span("11f067aa0ba902b7", ROOT, openinference__span__kind="LLM", **asked),
    ]  # fmt: skip
    ((trace,), _) = read(OtlpFormat(), lines(message(*spans)))
    seen = [passage.text for passage in trace.prompt_contexts or ()]
    assert (response, contexts, doubts) == (trace.response, seen, trace.evidence.doubts)
