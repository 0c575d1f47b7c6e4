"""What both transports do with the faults of servers: equal outcomes and equal bills, whoever sends the request."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from pathlib import Path

import openai
import pytest

from fake_servers import FAULTS, FaultServer
from fake_servers.fault_server import ANSWER, bomb, http_reply, stream
from ragstone.errors import JudgeError
from ragstone.judges import ChatRequest, OpenAICompatibleModel, metered

pytestmark = pytest.mark.usefixtures("virtual_time")

KEY = "sk-live-0123456789abcdef"
QUESTION = ChatRequest(messages=[{"role": "user", "content": "?"}], max_tokens=9, sampling={"temperature": 0})
TRANSPORTS = ("aiohttp", "client")
MIB = 2**20

ACCEPTED = {
    *("text as type", "no type", "gzip", "gzip in upper case"),
    *("encoding identity", "gzip cut short", "HTTP/1.0", "no length", "byte order mark", "early hints", "200 choices"),
    *("usage of 10^30 tokens", "usage of text", "usage of NaN"),
}
"""Faults of the form only: the reply is used."""
REFUSED = {
    *("400", "401", "403", "404", "413", "422", "429 with a used-up quota", "page with status 404"),
    *("redirect", "redirect without an address"),
}
"""The request is not repeated, and counts as one call."""
TIMED_OUT = {"silence", "slow headers", "slow body"}
UNPARSEABLE = {
    *("truncated JSON", "page with status 200", "empty body", "status 204", "list", "without choices", "deep JSON"),
    *("integer of 100,000 digits", "gzip that is none", "gzip bomb", "gzip bomb in gzip", "huge body"),
    *("huge body in chunks", "invalid UTF-8"),
}
POSTPONED = {
    *("429 with an absurd Retry-After", "429 with a Retry-After of 400 digits", "503 with an absurd Retry-After"),
}
"""The server names a time beyond `max_wait_s`, so that the request fails at once."""
REPEATED = {
    *("429", "429 with Retry-After", "429 with a negative Retry-After"),
}
"""Refused for a while: repeated until `max_wait_s`."""


def model_at(url, transport, **options):
    options = {"model": "m", "max_retries": 2, "backoff_s": 0.01, "max_wait_s": 5, "timeout_s": 2} | options
    if transport == "aiohttp":
        return OpenAICompatibleModel(url, api_key=KEY, **options)
    return OpenAICompatibleModel(client=openai.AsyncOpenAI(base_url=url, api_key=KEY), **options)


def asked(transport, *answers):
    """Outcome, usage and number of requests that the server received."""

    async def session(url):
        model = model_at(url, transport)
        with metered() as meter:
            try:
                (reply, *_) = await model.complete(QUESTION)
                outcome = ("ok", reply.text)
            except JudgeError as error:
                shown = re.sub(r"gave up after \d\d? attempts?", "gave up", str(error).replace(url, "URL"))
                outcome = (error.kind, shown, getattr(error, "retry_after_s", None))
            finally:
                await model.aclose()
        return outcome, meter.total

    with FaultServer(*answers) as server:
        outcome, usage = asyncio.run(session(server.url))
    return outcome, usage, len(server.requests)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_that_passes(fault):
    """A temporary fault costs one more call, and the reply after it counts."""
    outcomes = {transport: asked(transport, FAULTS[fault], http_reply()) for transport in TRANSPORTS}
    outcome, usage, n_requests = outcomes["aiohttp"]
    assert outcomes["client"] == outcomes["aiohttp"]
    assert n_requests == usage.calls
    if fault in REFUSED:
        assert ("rejected", 1) == (outcome[0], usage.calls)
    elif fault in POSTPONED:
        assert ("unavailable", 1) == (outcome[0], usage.calls)
    else:
        assert ("ok", "85") == outcome
        assert (1 if fault in ACCEPTED else 2) == usage.calls
        reported = (0, 0) if fault.startswith("usage") else (7, 2)
        assert reported == (usage.input_tokens, usage.output_tokens)


@pytest.mark.parametrize("fault", [fault for fault in FAULTS if fault not in ACCEPTED | REPEATED])
def test_a_fault_that_stays(fault):
    """The error has a kind that says what failed, the same words from both, and no key."""
    outcomes = {transport: asked(transport, FAULTS[fault]) for transport in TRANSPORTS}
    (kind, shown, retry_after_s), usage, n_requests = outcomes["aiohttp"]
    assert outcomes["client"] == outcomes["aiohttp"]
    expected = {
        "rejected": REFUSED,
        "timeout": TIMED_OUT,
        "unparseable": UNPARSEABLE,
    }
    assert next((name for name, faults in expected.items() if fault in faults), "unavailable") == kind
    # Two timeouts without any reply are an outage, for which a model with short pauses does not wait.
    n_calls = 1 if fault in REFUSED | POSTPONED else 2 if fault in TIMED_OUT else 3
    assert n_calls == usage.calls == n_requests
    assert (86_400 if fault in POSTPONED else None) == retry_after_s
    assert KEY not in shown
    assert len(shown) < 700


@pytest.mark.parametrize("fault", sorted(REPEATED))
def test_a_refusal_that_stays(fault):
    """All requests are counted by both, whose jitter differs."""
    for transport in TRANSPORTS:
        (kind, shown, _), usage, n_requests = asked(transport, FAULTS[fault])
        assert ("unavailable", n_requests) == (kind, usage.calls)
        assert 3 < n_requests < 20
        assert "HTTP 429: the words of the server" in shown


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_closed_port(transport):
    """Nobody listens: no request is sent, so no call is counted, and the message names the connection."""
    with FaultServer(http_reply()) as server:
        url = server.url

    async def session():
        model = model_at(url, transport)
        with metered() as meter, pytest.raises(JudgeError, match="cannot connect") as caught:
            await model.complete(QUESTION)
        await model.aclose()
        return caught.value.kind, meter.total.calls

    assert ("unavailable", 0) == asyncio.run(session())


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_an_idle_connection_that_the_server_closes(transport):
    """The next request opens another one, without a failed attempt."""

    async def answered(writer):
        writer.write(http_reply())
        await writer.drain()

    async def session(url):
        model = model_at(url, transport, max_retries=0)
        with metered() as meter:
            for _ in range(3):
                await model.complete(QUESTION)
                await asyncio.sleep(0.5)
        await model.aclose()
        return meter.total.calls

    with FaultServer(answered) as server:
        assert 3 == asyncio.run(session(server.url))


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_pause_of_centuries_ends_after_two_minutes(virtual_time, transport):
    """Other requests of the process wait two minutes. Then one is sent, which shows that the server accepts them again."""

    async def session(url):
        model = model_at(url, transport, max_wait_s=600)
        with pytest.raises(JudgeError, match="HTTP 429"):
            await model.complete(QUESTION)
        started = virtual_time.time()
        await model.complete(QUESTION)
        await model.aclose()
        return virtual_time.time() - started

    with FaultServer(FAULTS["429 with an absurd Retry-After"], http_reply()) as server:
        assert 119 < asyncio.run(session(server.url)) < 122
        assert 2 == len(server.requests)


CLIENT = r"""
import asyncio, json, re, sys, time
from pathlib import Path
import openai
from ragstone.errors import JudgeError
from ragstone.judges import ChatRequest, OpenAICompatibleModel

def peak_mib():
    return int(re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())[1]) / 1024

async def note_pauses(pauses):
    while True:
        begin = time.monotonic()
        try:
            await asyncio.sleep(0.01)
        finally:
            pauses.append(time.monotonic() - begin - 0.01)

async def ask(transport, url, times):
    options = {"model": "m", "max_retries": 0}
    if transport == "client":
        options["client"] = openai.AsyncOpenAI(base_url=url, api_key="k", max_retries=0)
        url = None
    model = OpenAICompatibleModel(url, **options)
    kinds, pauses = [], []
    noting = asyncio.create_task(note_pauses(pauses))
    for _ in range(times):
        try:
            await model.complete(ChatRequest(messages=[{"role": "user", "content": "?"}], max_tokens=9))
            kinds.append("ok")
        except JudgeError as error:
            kinds.append(error.kind)
    noting.cancel()
    await asyncio.wait([noting])
    await model.aclose()
    return kinds, max(0, *pauses)

transport, small, huge = sys.argv[1:]
asyncio.run(ask(transport, small, 2))
before = peak_mib()
kinds, pause_s = asyncio.run(ask(transport, huge, 1))
print(json.dumps([kinds, peak_mib() - before, pause_s]))
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads its peak memory from /proc")
@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("form", ["plain", "chunks", "compressed", "compressed error"])
def test_a_body_of_300_mib_does_not_fill_the_memory(transport, form):
    """What is beyond the limit is not read, and others use the event loop meanwhile. The peak includes all layers below."""
    piece = b" " * MIB
    huge = {
        "plain": stream(http_reply(b"", length=300 * MIB), piece, 300),
        "chunks": stream(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"100000\r\n" + piece + b"\r\n", 300
        ),
        "compressed": http_reply(bomb(300 * MIB), "Content-Encoding: gzip"),
        "compressed error": http_reply(bomb(300 * MIB), "Content-Encoding: gzip", status="500 Internal Server Error"),
    }[form]
    with FaultServer(http_reply(ANSWER)) as small, FaultServer(huge) as server:
        done = subprocess.run(
            [sys.executable, "-c", CLIENT, transport, small.url, server.url],
            check=True,
            capture_output=True,
            text=True,
            timeout=120,
        )
    kinds, growth_mib, pause_s = json.loads(done.stdout)
    assert ["unavailable" if form == "compressed error" else "unparseable"] == kinds
    assert growth_mib < 32
    assert pause_s < 2
    print(f"{form}, {transport}: {growth_mib:.0f} MiB more than before, others waited {pause_s:.2f} s at most")
