"""`WebhookSink`: the body, its signature, and what an answer means."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json

import pytest

from fake_servers import RecordingServer, Reply
from ragstone.errors import ConfigurationError, SinkDeniedError, SinkRejectedError, SinkUnavailableError
from ragstone.schema import Failure, NotApplicable, Score
from ragstone.sinks import Delivery, WebhookSink, sink_from


def _score(sample_id: str = "t1", **fields) -> Score:
    known = {"sample_id": sample_id, "metric": "m", "metric_version": "1", "value": 0.5, "method": "x"}
    return Score(**(known | fields))


_BASE = {"sample_id": "t1", "metric_version": "1"}
_BATCH = [
    Delivery(outcome=_score(explanation="secret", raw="secret", details={"q": "secret"}), trace_id="t1"),
    Delivery(outcome=NotApplicable(metric="n", reason="secret", missing=("reference",), **_BASE), trace_id="t1"),
    Delivery(outcome=Failure(metric="f", kind="timeout", reason="secret", raw="secret", **_BASE), trace_id="t1"),
]


@pytest.fixture
def server():
    with RecordingServer() as server:
        yield server


def _send(url: str, *batches, **options) -> None:
    async def session() -> None:
        sink = WebhookSink(url, **options)
        try:
            for batch in batches:
                await sink.write(batch)
        finally:
            await sink.aclose()

    asyncio.run(session())


def test_the_body(server):
    """A version, an id, and an outcome of each kind with the names of the JSONL sink; nothing that may quote text."""
    _send(f"{server.address}/scores?key=1", _BATCH)
    (request,) = server.requests
    body = json.loads(request.content)
    assert ("POST", "/scores", "key=1", "application/json") == (
        request.method,
        request.path,
        request.query,
        request.headers["content-type"],
    )
    assert {"version", "id", "outcomes"} == set(body)
    assert 1 == body["version"]
    assert [d.outcome.id for d in _BATCH] == [row["id"] for row in body["outcomes"]]
    assert [("score", 0.5, None), ("not_applicable", None, None), ("failure", None, "timeout")] == [
        (row["outcome"], row["value"], row["kind"]) for row in body["outcomes"]
    ]
    assert "secret" not in request.content.decode()


def test_text_when_it_is_wanted(server):
    """All that the JSONL sink writes."""
    _send(server.address, _BATCH, include_text=True)
    score, not_applicable, failure = json.loads(server.requests[0].content)["outcomes"]
    assert ("secret", "secret", {"q": "secret"}) == (score["explanation"], score["raw"], score["details"])
    assert ["secret", "secret"] == [not_applicable["reason"], failure["reason"]]


def test_the_same_batch_has_the_same_id(server):
    """In the body and in the header; another batch has another."""
    _send(server.address, _BATCH, _BATCH, _BATCH[:2])
    ids = [request.headers["webhook-id"] for request in server.requests]
    assert ids == [json.loads(request.content)["id"] for request in server.requests]
    assert ids[0] == ids[1] != ids[2]


def test_an_empty_batch_is_not_sent(server):
    """There is nothing to say."""
    _send(server.address, [])
    assert not server.requests


@pytest.mark.parametrize(
    ("secret", "key"),
    [
        ("correct horse", b"correct horse"),
        ("whsec_" + base64.b64encode(b"\x00\xff key").decode(), b"\x00\xff key"),
        ("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", b"MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"),
    ],
)
def test_the_signature(server, monkeypatch, secret, key):
    """HMAC-SHA256 over id, time and the very bytes that arrive."""
    monkeypatch.setenv("RAGSTONE_WEBHOOK_SECRET", secret)
    _send(server.address, _BATCH, clock=lambda: 1_700_000_000.9)
    (request,) = server.requests
    id_, timestamp = request.headers["webhook-id"], request.headers["webhook-timestamp"]
    assert "1700000000" == timestamp
    expected = hmac.new(key, f"{id_}.{timestamp}.".encode() + request.content, hashlib.sha256).digest()
    assert f"v1,{base64.b64encode(expected).decode()}" == request.headers["webhook-signature"]
    assert secret not in str(request.headers)


def test_the_key_of_the_specification():
    """The worked example of Standard Webhooks, with the key that is read from its secret."""
    from ragstone.sinks.webhook import _key

    key = _key("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    signed = hmac.new(key, b'msg_p5jXN8AQM9LWM0D4loKWxJek.1614265330.{"test": 2432232314}', hashlib.sha256).digest()
    assert b"g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=" == base64.b64encode(signed)


def test_without_a_secret_nothing_is_signed(server):
    """A receiver that asks for a signature refuses it."""
    _send(server.address, _BATCH)
    assert "webhook-signature" not in server.requests[0].headers


@pytest.mark.parametrize("secret", ["whsec_", "whsec_no base64!", "whsec_abc"])
def test_a_malformed_secret(secret):
    """The rule is told, and the secret is not."""
    with pytest.raises(ConfigurationError, match="must be base64 after 'whsec_'") as caught:
        WebhookSink("https://host/", secret=secret)
    assert secret not in str(caught.value).replace("'whsec_'", "")


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (204, None),
        (301, SinkUnavailableError),
        (400, SinkRejectedError),
        (401, SinkDeniedError),
        (403, SinkDeniedError),
        (404, SinkUnavailableError),
        (408, SinkUnavailableError),
        (410, SinkDeniedError),
        (413, SinkRejectedError),
        (422, SinkRejectedError),
        (429, SinkUnavailableError),
        (502, SinkUnavailableError),
    ],
)
def test_what_an_answer_means(server, status, error):
    """Refused rows are split, refused credentials stop the sink, and all else comes again."""
    server._reply = lambda _: Reply(status, "", {"Location": server.address} if status == 301 else {})
    if error is None:
        _send(server.address, _BATCH)
    else:
        with pytest.raises(error) as caught:
            _send(f"{server.address}/hunter2", _BATCH)
        assert error is type(caught.value)
        assert str(status) in str(caught.value)
        assert "hunter2" not in str(caught.value)
    assert 1 == len(server.requests)


def test_nobody_there():
    """No connection is no refusal; the message has no path, which may be the secret."""
    with RecordingServer() as gone:
        url = f"{gone.address}/hunter2"
    with pytest.raises(SinkUnavailableError, match="no response from 127") as caught:
        _send(url, _BATCH)
    assert "hunter2" not in str(caught.value)


def test_user_and_password(server):
    """Those of the URL are sent."""
    _send(server.address.replace("//", "//user:word@"), _BATCH)
    assert "Basic dXNlcjp3b3Jk" == server.requests[0].headers["authorization"]


def test_names():
    """Addresses on one host have different names, the same ones after a restart; credentials change nothing."""
    name = sink_from("webhook:https://user:hunter2@host/services/hunter2").name
    assert "hunter2" not in name
    assert name.startswith("webhook:host:443#")
    assert name == WebhookSink("https://user:other@host/services/hunter2").name
    others = {
        WebhookSink(url).name for url in ("https://host/services/x", "https://host/services/hunter2?x", "https://host")
    }
    assert 4 == len(others | {name})


@pytest.mark.parametrize("url", ["", "host/path", "ftp://host", "http://host:port"])
def test_what_is_no_address(url):
    """The message says how to write one."""
    with pytest.raises(ConfigurationError, match="webhook:https://"):
        sink_from(f"webhook:{url}")


def test_a_closed_sink_takes_nothing(server):
    """A batch after `aclose` stays with the caller."""

    async def session() -> None:
        sink = WebhookSink(server.address)
        await sink.aclose()
        await sink.write(_BATCH)

    with pytest.raises(SinkUnavailableError, match="closed"):
        asyncio.run(session())
