"""The OpenAI-compatible judge against a server on loopback: what is sent, repeated, adapted, refused and counted."""

from __future__ import annotations

import asyncio
import base64
import gc
import os
import signal
import threading
import warnings

import pytest

from fake_servers import FakeJudgeServer, Reply
from ragstone.errors import ConfigurationError, JudgeRejectedError, JudgeReplyError, JudgeUnavailableError
from ragstone.judges import ChatRequest, OpenAICompatibleJudge, OpenAICompatibleModel, Prompt
from ragstone.schema import Usage

pytestmark = pytest.mark.usefixtures("virtual_time")

PROMPT = Prompt(construct="relevance", task="The task.", fields={"query": "Why?", "response": "Because."})
KEY = "sk-live-0123456789abcdef"
PASSWORD = "correct-horse-battery"


def ask(url, *, low=0, high=100, **options):
    """One number from a new judge; returns the reply and the judge."""

    async def session():
        judge = OpenAICompatibleJudge(url, **({"backoff_s": 0.01} | options))
        try:
            return await judge.ask_number(PROMPT, low=low, high=high), judge
        finally:
            await judge.aclose()

    return asyncio.run(session())


def replying(*texts):
    """A `reply` that goes through texts and stays with the last."""
    rest = list(texts)
    return lambda body: rest.pop(0) if len(rest) > 1 else rest[0]


def test_plain_question():
    """One request with the material first, the request last, temperature 0; the usage is the server's."""
    with FakeJudgeServer(reply=replying("85")) as server:
        reply, judge = ask(server.url)
    (body,) = server.stats.requests
    assert ("fake-judge", 0, 64) == (body["model"], body["temperature"], body["max_tokens"])
    assert ["system", "user"] == [message["role"] for message in body["messages"]]
    assert body["messages"][1]["content"].startswith("<query>\nWhy?\n</query>\n<response>\n")
    assert body["messages"][1]["content"].endswith("Reply with one number from 0 to 100 and nothing else.")
    assert (85, "85", "single_reply", 1) == (reply.value, reply.raw, reply.method, reply.usage.calls)
    assert reply.usage.input_tokens > 0
    assert reply.usage == judge.usage


def test_free_text():
    """`ask_text` hands on the text and the limit."""
    with FakeJudgeServer(reply=replying("Some words.")) as server:

        async def session():
            judge = OpenAICompatibleJudge(server.url)
            try:
                return await judge.ask_text(PROMPT, max_tokens=99)
            finally:
                await judge.aclose()

        assert "Some words." == asyncio.run(session()).text
    assert 99 == server.stats.requests[0]["max_tokens"]


def test_settings_are_sent():
    """Model, key, seed and extra fields reach the server; prices make a cost."""
    with FakeJudgeServer(api_key=KEY, models=("a", "b")) as server:
        reply, _ = ask(
            server.url,
            model="b",
            api_key=KEY,
            seed=3,
            temperature=None,
            max_tokens=9,
            extra_body={"top_k": 1},
            usd_per_million_tokens=(2.0, 8.0),
        )
    (body,) = server.stats.requests
    assert ("b", 3, 1, 9) == tuple(body[name] for name in ("model", "seed", "top_k", "max_tokens"))
    assert "temperature" not in body
    assert pytest.approx((2 * reply.usage.input_tokens + 8 * reply.usage.output_tokens) / 1e6) == reply.usage.cost_usd


# The model of the server ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("models", [(), ("one", "two")])
def test_several_models_are_a_question_to_the_user(models):
    """Without exactly one served model the user has to choose, and sees from what."""
    with FakeJudgeServer(models=models) as server, pytest.raises(ConfigurationError, match=r"with model=") as caught:
        ask(server.url)
    assert all(name in str(caught.value) for name in models)


def test_wrong_path_is_named():
    """A base URL that leads nowhere says so."""
    with FakeJudgeServer() as server, pytest.raises(ConfigurationError, match="/v1"):
        ask(server.url.replace("/v1", "/wrong"))


def test_model_is_looked_up_once():
    """A hundred first questions at once, one identity in the end."""
    with FakeJudgeServer() as server:

        async def session():
            judge = OpenAICompatibleJudge(server.url)
            before = judge.identity.hash
            try:
                await asyncio.gather(*(judge.ask_number(PROMPT) for _ in range(100)))
                return before, judge.identity
            finally:
                await judge.aclose()

        before, identity = asyncio.run(session())
        assert identity == OpenAICompatibleJudge(server.url, model="fake-judge").identity
        assert before != identity.hash
        assert identity.name.startswith("fake-judge at 127.0.0.1:")


# Faults -----------------------------------------------------------------------------------------------------------


def test_server_errors_are_repeated_so_often():
    """HTTP 500: `max_retries` repetitions, all counted, then "unavailable" with the server's words."""
    with FakeJudgeServer(error_rate=1.0) as server:
        judge = OpenAICompatibleJudge(server.url, model="m", max_retries=3, backoff_s=0.001)

        async def session():
            try:
                await judge.ask_number(PROMPT)
            finally:
                await judge.aclose()

        with pytest.raises(JudgeUnavailableError, match=r"HTTP 500: .*injected.*4 attempts") as caught:
            asyncio.run(session())
    assert ("unavailable", 4, 4) == (caught.value.kind, server.calls, judge.usage.calls)


def test_silence_is_a_timeout():
    """No reply within `timeout_s`: kind "timeout"."""
    with (
        FakeJudgeServer(hang_rate=1.0) as server,
        pytest.raises(JudgeUnavailableError, match=r"no reply within 0\.1 s.*2 attempts") as caught,
    ):
        ask(server.url, model="m", timeout_s=0.1, max_retries=1)
    assert "timeout" == caught.value.kind


def test_nobody_there():
    """A refused connection names the address."""
    with FakeJudgeServer() as server:
        url = server.url
    with pytest.raises(JudgeUnavailableError, match=r"127\.0\.0\.1.*cannot connect"):
        ask(url, max_retries=1)


def test_error_page_is_no_reply():
    """A proxy that answers 200 with a page of its own: repeated, then an error that says so."""

    async def session():
        async def page(reader, writer):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(
                b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\nContent-Type: text/html\r\nConnection: close\r\n\r\n<html>"
            )
            writer.close()

        server = await asyncio.start_server(page, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        judge = OpenAICompatibleJudge(f"http://127.0.0.1:{port}", model="m", max_retries=1, backoff_s=0.01)
        try:
            await judge.ask_number(PROMPT)
        finally:
            await judge.aclose()
            server.close()

    with pytest.raises(JudgeUnavailableError, match=r"is not JSON.*2 attempts") as caught:
        asyncio.run(session())
    assert "unparseable" == caught.value.kind


def served(reply, **options):
    """One number from a server that sends these bytes whatever is asked; returns the reply and the requests' heads."""
    heads = []

    async def session():
        async def answer(reader, writer):
            heads.append(await reader.readuntil(b"\r\n\r\n"))
            writer.write(reply)
            writer.close()

        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        url = f"http://{options.pop('user', '')}127.0.0.1:{port}"
        judge = OpenAICompatibleJudge(url, **({"model": "m", "max_retries": 1, "backoff_s": 0.01} | options))
        try:
            return await judge.ask_number(PROMPT)
        finally:
            await judge.aclose()
            server.close()

    return asyncio.run(session()), heads


def http(body, *, status="200 OK"):
    """A whole HTTP reply with this body, after which the connection closes."""
    head = f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\nContent-Type: application/json\r\n"
    return f"{head}Connection: close\r\n\r\n{body}".encode()


@pytest.mark.parametrize(
    ("reply", "kind", "words"),
    [
        (b"SSH-2.0-OpenSSH_9.2\r\n", "unavailable", r"the connection broke.*2 attempts"),
        (http("[" * 100_000), "unparseable", r"not JSON.*2 attempts"),
        (http('{"error": {"message": "no upstream", "code": 502}}'), "unavailable", r"no upstream.*2 attempts"),
    ],
)
def test_no_server_of_ours(reply, kind, words):
    """Something else on that port, or a gateway whose model is gone: repeated, then an error that says so."""
    with pytest.raises(JudgeUnavailableError, match=words) as caught:
        served(reply)
    assert kind == caught.value.kind


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ('{"error": "no such adapter"}', "HTTP 400: no such adapter"),
        ('{"object": "error", "message": "no such adapter"}', "HTTP 400: no such adapter"),
        ('{"detail": "no such adapter"}', "HTTP 400: no such adapter"),
        ('{"detail": [{"loc": ["body", "n"], "msg": "too small", "input": "Why?"}]}', r"HTTP 400: body\.n: too small$"),
        ("no such\nadapter", "HTTP 400: no such adapter"),
        ('{"error": null}', "HTTP 400"),
    ],
)
def test_refusal_is_quoted(body, words):
    """Whatever form the server gives its reason, the reason is in the error."""
    with pytest.raises(JudgeRejectedError, match=words):
        served(http(body, status="400 Bad Request"))


def test_credentials_in_the_url_are_sent():
    """As basic authentication, where there is no key; a password may hold escapes."""
    reply, (head,) = served(http('{"choices": [{"message": {"content": "85"}}]}'), user="me:p%40ss@")
    assert 85 == reply.value
    assert b"authorization: basic bwu6cebzcw==" in head.lower()


def test_rate_limit_is_sat_out_beyond_the_retries():
    """429 with Retry-After is no failed attempt: all 30 questions are answered although none may fail once."""
    with FakeJudgeServer(rate_limit_rpm=1200, retry_after_s=0.1) as server:

        async def session():
            judge = OpenAICompatibleJudge(server.url, max_retries=0, backoff_s=0.05)
            try:
                return await asyncio.gather(*(judge.ask_number(PROMPT) for _ in range(40)))
            finally:
                await judge.aclose()

        replies = asyncio.run(session())
    assert 40 == len(replies)
    assert server.stats.replies["429"] > 0
    assert server.calls == sum(reply.usage.calls for reply in replies)


def test_rate_limit_beyond_patience():
    """A pause longer than `max_wait_s` is not waited for, and the error says how long it would have been."""
    with (
        FakeJudgeServer(rate_limit_rpm=0.001, retry_after_s=3600) as server,
        pytest.raises(JudgeUnavailableError, match="429") as caught,
    ):
        ask(server.url)
        ask(server.url, max_wait_s=5)
    assert 3600 == caught.value.retry_after_s


@pytest.mark.parametrize("key", [None, "sk-wrong-0123456789"])
def test_wrong_key_is_not_repeated_and_not_shown(key):
    """401 is final; the key the server repeats is in no message, name or repr."""
    with FakeJudgeServer(api_key=KEY) as server:
        judge = OpenAICompatibleJudge(server.url, model="m", api_key=key)

        async def session():
            try:
                await judge.ask_number(PROMPT)
            finally:
                await judge.aclose()

        with pytest.raises(JudgeRejectedError, match="401") as caught:
            asyncio.run(session())
    for text in (str(caught.value), repr(caught.value), repr(judge), repr(judge.identity)):
        assert "sk-wrong" not in text
    assert 1 == judge.usage.calls


def test_environment_key_is_not_shown_to_strangers(monkeypatch):
    """OPENAI_API_KEY stays here unless it was given."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with FakeJudgeServer(api_key=KEY) as server, pytest.raises(JudgeRejectedError):
        ask(server.url, model="m")


def test_credentials_in_the_url_stay_there():
    """User and password of a URL are in no name, and do not change the hash."""
    plain = OpenAICompatibleJudge("http://judge.internal/v1", model="m")
    secret = OpenAICompatibleJudge("http://me:hunter2@judge.internal/v1?token=hunter2", model="m")
    assert plain.identity == secret.identity
    assert "hunter2" not in repr(secret)


# Dialects ---------------------------------------------------------------------------------------------------------


def test_refused_parameters_are_adapted_and_remembered():
    """A reasoning model's server: max_completion_tokens, no temperature; found out once."""
    with FakeJudgeServer(refused=("max_tokens", "temperature")) as server:

        async def session():
            judge = OpenAICompatibleJudge(server.url)
            try:
                first = await judge.ask_number(PROMPT)
                return first, await judge.ask_number(PROMPT)
            finally:
                await judge.aclose()

        first, second = asyncio.run(session())
    assert (3, 1) == (first.usage.calls, second.usage.calls)
    assert 64 == server.stats.requests[-1]["max_completion_tokens"]
    assert {"max_tokens", "temperature"}.isdisjoint(server.stats.requests[-1])


# Replies that cannot be read --------------------------------------------------------------------------------------


def test_second_chance_is_constrained():
    """A reply in words; then the same question with a regular expression, which vLLM obeys."""
    with FakeJudgeServer(malformed_rate=1.0) as server:
        reply, _ = ask(server.url)
    assert ("forced_reply", 2) == (reply.method, server.calls)
    assert "structured_outputs" in server.stats.requests[1]
    assert server.stats.requests[0]["messages"] == server.stats.requests[1]["messages"]


def test_constraint_knows_the_scale():
    """On a scale of 1-5 the constraint allows 1 to 5."""
    with FakeJudgeServer(malformed_rate=1.0) as server:
        reply, _ = ask(server.url, low=1, high=5)
    assert "(5|4|3|2|1)" == server.stats.requests[1]["structured_outputs"]["regex"]
    assert 1 <= reply.value <= 5


@pytest.mark.parametrize(("structured", "n_calls"), [("ignored", 4), ("refused", 5)])
def test_second_chance_without_constraints_is_a_reminder(structured, n_calls):
    """A server that cannot constrain is found out once and asked again in words from then on."""
    texts = {}

    def reply(body):
        return "82" if body["messages"][-1]["content"].endswith("Digits only.") else "Rather good."

    with FakeJudgeServer(structured=structured, reply=reply) as server:

        async def session():
            judge = OpenAICompatibleJudge(server.url)
            try:
                texts["first"] = await judge.ask_number(PROMPT)
                texts["second"] = await judge.ask_number(PROMPT)
            finally:
                await judge.aclose()

        asyncio.run(session())
    assert ["second_reply"] * 2 == [texts[name].method for name in ("first", "second")]
    assert (n_calls, 2) == (texts["first"].usage.calls, texts["second"].usage.calls)
    last = server.stats.requests[-1]["messages"]
    # Models tend to repeat a reply that they are shown.
    assert ["system", "user"] == [message["role"] for message in last]
    assert "Rather good." not in last[1]["content"]


def test_unreadable_twice_is_an_error_with_the_reply():
    """Nothing is made up: kind "unparseable", and what was said is kept."""
    with (
        FakeJudgeServer(structured="ignored", reply=replying("70-80")) as server,
        pytest.raises(JudgeReplyError) as caught,
    ):
        ask(server.url)
    assert ("unparseable", "70-80") == (caught.value.kind, caught.value.raw)


def test_cut_reply_is_not_a_number():
    """The 9 of a 90 cut short is no 9."""
    with FakeJudgeServer(truncated_rate=1.0) as server, pytest.raises(JudgeReplyError, match="cut at 64") as caught:
        ask(server.url)
    assert "truncated" == caught.value.kind


def test_hidden_reasoning_is_given_room_once():
    """A reply that is cut before its first word is requested once more, with tokens for reasoning, and not again."""
    with FakeJudgeServer(truncated_rate=1.0, reply=replying("")) as server:
        with pytest.raises(JudgeReplyError, match=r"cut at 4160 tokens.*max_tokens") as caught:
            ask(server.url)
        assert ("truncated", [64, 4160]) == (
            caught.value.kind,
            [request["max_tokens"] for request in server.stats.requests],
        )


def test_lone_surrogates_in_a_reply_are_replaced():
    """A reply that no UTF-8 file could hold does not break what stores it."""
    with FakeJudgeServer(reply=replying("Score: 85 \ud83d")) as server:
        reply, _ = ask(server.url)
    assert (85, "Score: 85 ?") == (reply.value, reply.raw)


# Limits and loops -------------------------------------------------------------------------------------------------


def test_concurrency_counts_calls_in_flight():
    """Never more than the limit, and all of it used."""
    with FakeJudgeServer(latency_s=0.02) as server:

        async def session():
            judge = OpenAICompatibleJudge(server.url, model="m", max_concurrent_requests=5)
            try:
                await asyncio.gather(*(judge.ask_number(PROMPT) for _ in range(40)))
            finally:
                await judge.aclose()

        asyncio.run(session())
    assert 5 == server.stats.peak_in_flight


def test_one_judge_on_many_loops():
    """Loops one after another and at once, closed by no one: every question is answered and no connection leaks."""
    with FakeJudgeServer(latency_s=0.01) as server, warnings.catch_warnings():
        warnings.simplefilter("error", ResourceWarning)
        judge = OpenAICompatibleJudge(server.url)
        values = []

        async def session():
            replies = await asyncio.gather(*(judge.ask_number(PROMPT) for _ in range(5)))
            values.extend(reply.value for reply in replies)

        for _ in range(3):
            asyncio.run(session())
        threads = [threading.Thread(target=lambda: asyncio.run(session())) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        gc.collect()
    assert (35, 1) == (len(values), len(set(values)))
    assert judge.usage.calls == 35


def test_cancelled_question_is_counted_and_frees_its_place():
    """Cancelling ends the wait; the call is on the bill, and the next one can go out."""
    with FakeJudgeServer(hang_rate=1.0) as server:
        judge = OpenAICompatibleJudge(server.url, model="m", max_concurrent_requests=1)

        async def session():
            try:
                for n in range(1, 4):
                    question = asyncio.create_task(judge.ask_number(PROMPT))
                    async with asyncio.timeout(60):
                        while server.calls < n:  # noqa: ASYNC110 - the server counts in a thread of its own
                            await asyncio.sleep(0.001)
                    question.cancel()
                    with pytest.raises(asyncio.CancelledError):
                        await question
            finally:
                await judge.aclose()

        asyncio.run(session())
    assert 3 == server.calls == judge.usage.calls
    assert Usage(calls=3) == judge.usage


@pytest.mark.parametrize(
    ("url", "options"),
    [
        ("localhost:8000", {}),
        ("ftp://host/v1", {}),
        ("http://[::1", {}),
        ("http://", {}),
        ("http://h", {"max_concurrent_requests": 0}),
        ("http://h", {"timeout_s": 0}),
        ("http://h", {"max_retries": -1}),
        ("http://h", {"max_tokens": 0}),
    ],
)
def test_impossible_settings(url, options):
    """Refused when the judge is made, not when the first sample fails."""
    with pytest.raises(ConfigurationError):
        OpenAICompatibleJudge(url, **options)


@pytest.mark.parametrize("url", ["http://h:1", "http://h:1/", "http://h:1/v1/", "http://h:1/v1/chat/completions"])
def test_ways_to_write_a_base_url(url):
    """All mean http://h:1/v1."""
    assert "OpenAICompatibleModel('http://h:1/v1', model=None)" == repr(OpenAICompatibleModel(url))


def test_identity_tells_configurations_apart():
    """Whatever shapes replies changes the hash; what only concerns the transport does not."""
    base = {"model": "m"}
    variants = [
        {},
        {"model": "n"},
        {"temperature": 0.7},
        {"seed": 1},
        {"max_tokens": 9},
        {"extra_body": {"a": 1}},
    ]
    hashes = [OpenAICompatibleJudge("http://h/v1", **base | variant).identity.hash for variant in variants]
    assert len(variants) == len(set(hashes))
    same = OpenAICompatibleJudge("http://h/v1/", **base, timeout_s=1, max_concurrent_requests=2, api_key=KEY)
    assert hashes[0] == same.identity.hash


@pytest.mark.parametrize("where", ["password", "query"])
def test_credentials_of_a_url_that_a_server_repeats_are_not_shown(where):
    """Neither as they stand in the URL, nor in the form in which they were sent."""

    class Repeating(FakeJudgeServer):
        async def _answer(self, request):
            said = f"wrong: {dict(request.headers)} {PASSWORD}"
            return Reply(403, {"error": {"message": said}})

    with Repeating() as server:
        url = {
            "password": server.url.replace("http://", f"http://me:{PASSWORD}@"),
            "query": f"{server.url}?api-version=1&api-key={PASSWORD}",
        }[where]
        with pytest.raises(JudgeRejectedError, match="wrong") as caught:
            ask(url)
    assert PASSWORD not in str(caught.value)
    assert base64.b64encode(f"me:{PASSWORD}".encode()).decode() not in str(caught.value)


@pytest.mark.parametrize("url", [f"ftp://me:{PASSWORD}@host/v1", f"http://me:{PASSWORD}@/v1"])
def test_credentials_of_a_url_that_is_none_are_not_shown(url):
    """The message shows the rest of it."""
    with pytest.raises(ConfigurationError, match="looks like") as caught:
        OpenAICompatibleModel(url)
    assert PASSWORD not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://a/v1,http://b/v1", "http://a/v1,http://b/v1"),
        ("http://a:8000 , https://b:8000/v1", "http://a:8000 , https://b:8000/v1"),
        ("http://a:8000,b:8000/v1", "http://a:8000,b:8000/v1"),
        ("http://a/v1,openai:gpt", "http://a/v1,openai:gpt"),
        (f"http://me:a,{PASSWORD}@a/v1,https://b", "http://a/v1,https://b"),
        ("http://a/v1?x=1,http://b/v1", "http://a/v1,http://b/v1"),
        (f"http://me:{PASSWORD}@a/v1,http://me:{PASSWORD}@b/v1?key={PASSWORD}", "http://a/v1,http://b/v1"),
    ],
)
def test_a_list_of_urls_is_refused(url, shown):
    """A model has one endpoint. The message shows the list without its credentials, and what to do instead."""
    with pytest.raises(ConfigurationError, match="start a load balancer") as caught:
        OpenAICompatibleJudge(url)
    assert f"without a comma, got {shown!r}." in str(caught.value)


@pytest.mark.parametrize(
    ("url", "shown"),
    [("http://me:a,b@host/v1", "http://host/v1"), ("http://host/v1?list=1,2", "http://host/v1")],
)
def test_a_comma_of_a_password_or_a_query_is_accepted(url, shown):
    """A comma there does not separate URLs."""
    assert f"OpenAICompatibleModel({shown!r}, model=None)" == repr(OpenAICompatibleModel(url))


def test_a_forked_child_asks_although_a_thread_of_the_parent_was_connecting():
    """The lock that it held is no one's in the child."""
    model = OpenAICompatibleModel("http://127.0.0.1:9/v1", model="m", max_retries=0, timeout_s=5)
    with model._endpoint._connections_lock, warnings.catch_warnings():
        # Python warns of forks beside threads, which this is about.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
        if pid == 0:
            signal.alarm(20)
            status = 1
            try:
                asyncio.run(model.prepare())
                asyncio.run(model.complete(ChatRequest(messages=[{"role": "user", "content": "?"}], max_tokens=1)))
            except JudgeUnavailableError:
                status = 0
            finally:
                os._exit(status)
    assert 0 == os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
