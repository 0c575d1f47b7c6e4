"""A cap on spending, and what is sent to keep requests together."""

from __future__ import annotations

import asyncio
import socket
import threading

import pytest

from fake_servers import FakeJudgeServer
from ragstone.errors import ConfigurationError, JudgeError
from ragstone.judges import Budget, OpenAICompatibleJudge, OpenAICompatibleModel, Prompt, metered


def prompt(n):
    """A question of its own."""
    return Prompt(construct="relevance", task="The task.", fields={"query": f"Why {n}?", "response": "Because."})


def ask(url, n, **options):
    """Ask n questions at once; returns the errors."""

    async def session():
        judge = OpenAICompatibleJudge(url, model="m", **({"backoff_s": 0.01} | options))
        try:
            replies = await asyncio.gather(*(judge.ask_number(prompt(i)) for i in range(n)), return_exceptions=True)
        finally:
            await judge.aclose()
        return [reply for reply in replies if isinstance(reply, BaseException)]

    return asyncio.run(session())


@pytest.mark.parametrize("faults", [{}, {"error_rate": 0.3}])
def test_calls_never_exceed_their_cap(faults):
    """Twelve calls, retries included, are twelve calls; the rest fail with words that help."""
    cap = Budget(calls=12)
    with FakeJudgeServer(latency_s=0.005, **faults) as server:
        errors = ask(server.url, 40, budget=cap)
    assert 12 == server.calls == cap.spent.calls
    assert len(errors) >= 28
    assert {"budget"} == {error.kind for error in errors if "budget is reached" in str(error)}
    assert "calls=12" in str(errors[-1])
    assert "12 calls" in str(errors[-1])
    assert cap.reached


def test_tokens_exceed_their_cap_by_what_is_in_flight_only():
    """With two requests at once at most two more are paid for."""
    cap = Budget(tokens=300)
    with FakeJudgeServer(latency_s=0.005) as server:
        errors = ask(server.url, 40, budget=cap, max_concurrent_requests=2)
    total = cap.spent.input_tokens + cap.spent.output_tokens
    a_call = total / server.calls
    assert errors
    assert 300 <= total < 300 + 2 * a_call + 1


@pytest.mark.parametrize("told", [10**400, -5, "7", True, None])
def test_a_count_of_tokens_that_is_none(told):
    """Whatever a server says it took: the reply is used, and its place is free for the next one. A limit of dollars stops."""

    class Boasting(FakeJudgeServer):
        def _completed(self, body, text, finish):
            return super()._completed(body, text, finish) | {"usage": {"prompt_tokens": told, "completion_tokens": 3}}

    cap, limited = Budget(calls=5), Budget(usd=5)
    options = {"max_concurrent_requests": 1, "usd_per_million_tokens": (1.0, 1.0)}
    with Boasting() as server:
        assert [] == ask(server.url, 3, **options, budget=cap)
        errors = ask(server.url, 3, **options, budget=limited)
    assert (3, 9) == (cap.spent.calls, cap.spent.output_tokens)
    assert ["in usd cannot be counted: a model does not report its tokens" in str(e) for e in errors] == [True, True]
    assert limited.reached
    assert limited.spent.calls == 1


def test_dollars_are_counted():
    """The server's tokens at the user's prices."""
    cap = Budget(usd=0.01)
    with FakeJudgeServer() as server:
        errors = ask(server.url, 30, budget=cap, max_concurrent_requests=1, usd_per_million_tokens=(10.0, 30.0))
    spent = cap.spent
    assert errors
    assert pytest.approx((10 * spent.input_tokens + 30 * spent.output_tokens) / 1e6) == spent.cost_usd
    assert spent.cost_usd >= 0.01
    assert "USD" in str(errors[-1])


def test_models_may_share_a_cap():
    """Two judges, two threads, one cap."""
    cap = Budget(calls=10)
    with FakeJudgeServer() as server:
        threads = [threading.Thread(target=ask, args=(server.url, 20), kwargs={"budget": cap}) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert 10 == server.calls


def test_what_may_not_go_out_does_not_queue():
    """Behind a budget of a request a minute a reached cap is told at once."""
    cap = Budget(calls=1)
    with FakeJudgeServer() as server:
        errors = ask(server.url, 20, budget=cap, requests_per_minute=60)
        assert (1, 19) == (server.calls, len(errors))


def refused_url():
    """The URL of a port that refuses connections."""
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{closed.getsockname()[1]}/v1"


def broken_key():
    """A function that cannot provide a key."""
    raise RuntimeError("no key")


@pytest.mark.parametrize("options", [
    pytest.param(lambda url: {}, id="refused"),
    pytest.param(lambda url: {"api_key": broken_key}, id="sign-in"),
])  # fmt: skip
def test_a_call_that_could_not_be_sent_is_not_counted(options):
    """Neither in the usage nor in the budget, whichever transport could not send it."""
    cap, url = Budget(calls=3), refused_url()
    given = {"url": url} | options(url)

    async def session():
        judge = OpenAICompatibleJudge(
            given.pop("url"), model="m", backoff_s=0.01, max_outage_s=0.0, budget=cap, **given
        )
        with metered() as meter:
            replies = await asyncio.gather(*(judge.ask_number(prompt(i)) for i in range(5)), return_exceptions=True)
        await judge.aclose()
        return meter.total.calls, [str(reply) for reply in replies]

    calls, errors = asyncio.run(session())
    assert (0, 0) == (calls, cap.spent.calls)
    assert not any("budget" in error for error in errors)


def test_a_call_whose_connection_breaks_is_counted():
    """The server may have computed a reply."""
    cap = Budget(calls=50)

    async def session():
        async def close(reader, writer):
            await reader.readuntil(b"\r\n\r\n")
            writer.close()

        server = await asyncio.start_server(close, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        judge = OpenAICompatibleJudge(url, model="m", backoff_s=0.01, max_outage_s=0.0, budget=cap)
        with metered() as meter, pytest.raises(JudgeError):
            await judge.ask_number(prompt(1))
        await judge.aclose()
        server.close()
        return meter.total.calls

    assert 0 < asyncio.run(session()) == cap.spent.calls


@pytest.mark.parametrize("caps", [{}, {"calls": 0}, {"usd": -1.0}, {"tokens": 0}])
def test_impossible_caps(caps):
    """A cap without a number, or of nothing."""
    with pytest.raises(ConfigurationError, match="Budget"):
        Budget(**caps)


def test_dollars_need_prices():
    """A cap that could never be reached is refused."""
    with pytest.raises(ConfigurationError, match="usd_per_million_tokens"):
        OpenAICompatibleModel("http://h", budget=Budget(usd=1))


def test_cap_is_an_error_of_the_judge():
    """Kind "budget", which outcomes record."""
    cap = Budget(calls=1)
    cap.begin()
    with pytest.raises(JudgeError) as caught:
        cap.begin()
    assert "budget" == caught.value.kind


def heads(questions, **options):
    """The request heads that a server sees for questions."""
    seen = []

    async def session():
        async def answer(reader, writer):
            seen.append((await reader.readuntil(b"\r\n\r\n")).decode().lower())
            body = b'{"choices": [{"message": {"content": "85"}}]}'
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n")
            writer.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
            writer.close()

        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        judge = OpenAICompatibleJudge(url, model="m", **options)
        for question in questions:
            await judge.ask_number(question)
        await judge.aclose()
        server.close()

    asyncio.run(session())
    return seen
