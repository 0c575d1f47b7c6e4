"""How requests are sent: sign-in, proxies, time limits, connections of event loops, and clients that the user made."""

from __future__ import annotations

import asyncio
import base64
import gc
import importlib.util
import json
import logging
import socket
import ssl
import subprocess
import sys
import threading
import warnings

import httpx
import openai
import pytest

from fake_servers import FakeEmbeddingServer, FakeJudgeServer, FaultServer
from fake_servers.fault_server import ANSWER, FAULTS, http_reply
from ragstone.errors import ConfigurationError, JudgeRejectedError, JudgeUnavailableError
from ragstone.judges import (
    ChatRequest,
    EndpointEmbedder,
    OpenAICompatibleJudge,
    OpenAICompatibleModel,
    Prompt,
    _render,
)
from ragstone.judges._http.bodies import reply_limit
from ragstone.judges._http.transport import AiohttpTransport, tls_context
from ragstone.judges._limits.flow_control import TokenBucket
from ragstone.judges._limits.spend import usage_of

pytestmark = pytest.mark.usefixtures("virtual_time")

KEY = "sk-live-0123456789abcdef"
QUESTION = ChatRequest(messages=[{"role": "user", "content": "Why?"}], max_tokens=9)
MODELS = http_reply({"data": [{"id": "served"}]})


def ask(*arguments, n=1, **options):
    """Ask a new model `n` times, in one event loop."""

    async def session():
        model = OpenAICompatibleModel(*arguments, **({"model": "m", "max_retries": 0, "backoff_s": 0.01} | options))
        try:
            return [(await model.complete(QUESTION))[0].text for _ in range(n)]
        finally:
            await model.aclose()

    return asyncio.run(session())


def client_at(url, **options):
    return openai.AsyncOpenAI(base_url=url, **({"api_key": KEY} | options))


def azure_at(url, **options):
    """A client of Azure's kind."""
    root = url.removesuffix("/v1")
    return openai.AsyncAzureOpenAI(azure_endpoint=root, api_version="2024-10-21", **options)


# Sign-in ----------------------------------------------------------------------------------------------------------


def test_a_key_is_a_bearer_token():
    """Nothing else is sent with it, and the body is JSON of the request."""
    with FaultServer(http_reply()) as server:
        ask(server.url, api_key=KEY)
    (request,) = server.requests
    assert f"Bearer {KEY}" == request.headers["authorization"]
    assert "api-key" not in request.headers
    assert {"model": "m", "messages": list(QUESTION.messages), "max_tokens": 9} == json.loads(request.content)
    assert ("application/json", "ragstone") == (request.headers["content-type"], request.headers["user-agent"])


@pytest.mark.parametrize("key", [None, ""])
def test_without_a_key_nothing_is_sent(monkeypatch, tmp_path, key):
    """Neither a key of the environment, nor a password of .netrc."""
    (tmp_path / ".netrc").write_text(f"machine 127.0.0.1 login me password {KEY}\n")
    monkeypatch.setenv("NETRC", str(tmp_path / ".netrc"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with FaultServer(http_reply()) as server:
        ask(server.url, api_key=key)
    assert KEY not in str(server.requests)
    assert "authorization" not in server.requests[0].headers


def test_azure_by_url():
    """The key in Azure's own header, and the query at each path."""
    with FaultServer(http_reply()) as server:
        url = server.url.replace("/v1", "/openai/deployments/rater?api-version=2024-10-21")
        ask(url, api_key=KEY)
    (request,) = server.requests
    assert KEY == request.headers["api-key"]
    assert ("/openai/deployments/rater/chat/completions", "api-version=2024-10-21") == (request.path, request.query)


def test_credentials_of_a_url_and_own_headers():
    """A header of the user's replaces the one of the key, however it is written."""
    with FaultServer(http_reply()) as server:
        url = server.url.replace("http://", "http://me:p%40ss@")
        ask(url)
        ask(url, api_key=KEY, headers={"AUTHORIZATION": "Basic abc", "x-team": "search"})
    first, second = server.requests
    assert f"Basic {base64.b64encode(b'me:p@ss').decode()}" == first.headers["authorization"]
    assert ("Basic abc", "search") == (second.headers["authorization"], second.headers["x-team"])


def test_a_function_returns_the_current_key():
    """It is called for each request, in a thread unless it is asynchronous, because it may ask a server."""
    threads = []
    tokens = iter(["token-one-111", "token-two-222"])

    def current():
        threads.append(threading.current_thread())
        return next(tokens)

    with FaultServer(http_reply()) as server:
        ask(server.url, api_key=current, n=2)
    assert ["Bearer token-one-111", "Bearer token-two-222"] == [r.headers["authorization"] for r in server.requests]
    assert threading.main_thread() not in threads


def test_an_asynchronous_function_returns_the_current_key():
    """It runs in the event loop of the request."""

    async def current():
        await asyncio.sleep(0)
        return KEY

    with FaultServer(http_reply()) as server:
        ask(server.url.replace("/v1", "/openai/deployments/d"), api_key=current)
    assert f"Bearer {KEY}" == server.requests[0].headers["authorization"]
    # Azure accepts tokens of its directory as bearer tokens only.
    assert "api-key" not in server.requests[0].headers


def test_a_key_with_a_line_break_is_refused():
    """When the model is made, and without showing the key."""
    with pytest.raises(ConfigurationError, match=r"api_key=\.\.\.\) contains a line break") as caught:
        OpenAICompatibleModel("http://h/v1", api_key=f"{KEY}\n")
    assert KEY not in str(caught.value)


def failing_key():
    raise RuntimeError("the vault is sealed")


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (failing_key, "raised RuntimeError: the vault is sealed"),
        (lambda: "", "returned str without a usable key"),
        (lambda: None, "returned NoneType without a usable key"),
        (lambda: "a\nx-injected: 1", "returned str without a usable key"),
    ],
)
def test_a_function_without_a_key(function, words):
    """No request is sent, and the error says why."""
    with (
        FaultServer(http_reply()) as server,
        pytest.raises(JudgeUnavailableError, match=rf"api_key {words}.*2 attempts"),
    ):
        ask(server.url, api_key=function, max_retries=1)
    assert [] == server.requests


@pytest.mark.parametrize("way", ["function", "client", "client with a function"])
def test_keys_that_a_server_repeats_are_not_shown(way):
    """Also those that are known only when they are sent."""

    async def current():
        return KEY

    error = http_reply({"error": {"message": f"wrong key {KEY}"}}, status="403 Forbidden")
    with FaultServer(error) as server, pytest.raises(JudgeRejectedError, match=r"wrong key .api key.$"):
        if way == "function":
            ask(server.url, api_key=lambda: KEY)
        else:
            ask(client=client_at(server.url, api_key=KEY if way == "client" else current))


def test_a_request_of_several_mib_is_sent_whole():
    """Long documents, and batches of an embedder."""
    text = "word " * 600_000
    with FaultServer(http_reply()) as server:

        async def session():
            model = OpenAICompatibleModel(server.url, model="m")
            await model.complete(ChatRequest(messages=[{"role": "user", "content": text}], max_tokens=9))
            await model.aclose()

        asyncio.run(session())
    assert text == json.loads(server.requests[0].content)["messages"][0]["content"]


# Proxies, certificates, time limits ---------------------------------------------------------------------------------


def test_proxy_of_the_environment(monkeypatch):
    """Requests go to it, with its user and password, unless NO_PROXY names the host."""
    with FaultServer(http_reply()) as proxy, FaultServer(http_reply()) as server:
        address = proxy.url.removesuffix("/v1").replace("http://", "http://me:pass@")
        monkeypatch.setenv("http_proxy", address)
        monkeypatch.setenv("no_proxy", "")
        ask(server.url)
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        ask(server.url)
    (request,) = proxy.requests
    assert server.url.rpartition(":")[2].removesuffix("/v1") in request.path
    assert f"Basic {base64.b64encode(b'me:pass').decode()}" == request.headers["proxy-authorization"]
    assert 1 == len(server.requests)


def test_a_proxy_that_is_not_supported(monkeypatch):
    """An error before any request, without the password."""
    monkeypatch.setenv("all_proxy", "socks5://me:secret@127.0.0.1:9")
    monkeypatch.setenv("no_proxy", "")
    with pytest.raises(ConfigurationError, match=r"socks5://127.0.0.1:9.*NO_PROXY") as caught:
        ask("http://127.0.0.1:9/v1")
    assert "secret" not in str(caught.value)


def test_one_store_of_certificates():
    """All endpoints and event loops share it, because it takes megabytes and milliseconds."""

    async def session():
        transports = [AiohttpTransport(f"https://host{n}/v1", api_key=None, headers={}, timeout_s=1) for n in range(3)]
        contexts = {transport._session.connector._ssl for transport in transports}
        for transport in transports:
            await transport.aclose()
        return contexts

    assert {tls_context()} == asyncio.run(session()) | asyncio.run(session())
    assert ssl.CERT_REQUIRED == tls_context().verify_mode
    assert tls_context().check_hostname


def test_a_server_that_does_not_accept_connections():
    """It fails after 10 s as unavailable, although a reply may take much longer."""
    with socket.socket() as listener, socket.socket() as first, socket.socket() as second:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for other in (first, second):
            other.setblocking(False)
            other.connect_ex(listener.getsockname())
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
        with pytest.raises(JudgeUnavailableError, match="no connection within 10 s") as caught:
            ask(url, timeout_s=600)
    assert "unavailable" == caught.value.kind


def test_connections_close_with_their_event_loop():
    """Without `aclose`, in as many loops as there are, no socket stays open."""
    with FaultServer(http_reply()) as server:
        models = [
            OpenAICompatibleModel(server.url, model="m"),
            OpenAICompatibleModel(client=client_at(server.url), model="m"),
        ]
        with warnings.catch_warnings():
            warnings.simplefilter("error", ResourceWarning)
            for model in models * 3:
                asyncio.run(model.complete(QUESTION))
            gc.collect()
    assert 6 == len(server.requests)


# Clients that the user made -----------------------------------------------------------------------------------------


def test_a_client_is_taken_as_it_is(monkeypatch):
    """Its key, headers, query and organization are sent, and it is the same judge as the URL."""
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    with FaultServer(http_reply()) as server:
        client = client_at(
            server.url, organization="us", default_query={"v": "1"}, default_headers={"x-team": "search"}
        )
        judge = OpenAICompatibleJudge(client=client, model="m")
        asyncio.run(judge.ask_text(Prompt(construct="any", task="Reply.", fields={})))
        assert OpenAICompatibleJudge(server.url, model="m").identity == judge.identity
    (request,) = server.requests
    sent = [request.headers[name] for name in ("authorization", "openai-organization", "x-team")]
    assert [f"Bearer {KEY}", "us", "search"] == sent
    assert ("/v1/chat/completions", "v=1") == (request.path, request.query)
    # The user's client stays open.
    assert not client.is_closed()


def test_a_client_of_azure():
    """With a deployment of each model, its version in the query, and a token of the directory."""

    async def token():
        return KEY

    with FaultServer(http_reply()) as server:
        ask(client=azure_at(server.url, api_key=KEY), model="rater")
        ask(client=azure_at(server.url, azure_ad_token_provider=token, azure_deployment="other"), model="rater")
    first, second = server.requests
    assert "/openai/deployments/rater/chat/completions" == first.path
    assert "/openai/deployments/other/chat/completions" == second.path
    assert ("api-version=2024-10-21", KEY) == (first.query, first.headers["api-key"])
    assert f"Bearer {KEY}" == second.headers["authorization"]


def test_a_client_detects_its_model_and_reaches_the_root():
    """The list of models, and paths beside /v1, with its key."""
    with FaultServer(MODELS, http_reply({"tokens": [1, 2]})) as server:

        async def session():
            model = OpenAICompatibleModel(client=client_at(server.url))
            await model.prepare()
            ids = await model.tokenized(QUESTION.messages)
            await model.aclose()
            return model.name, ids

        name, ids = asyncio.run(session())
    assert name.startswith("served at 127.0.0.1")
    assert [1, 2] == ids
    assert ["/v1/models", "/tokenize"] == [request.path for request in server.requests]
    assert all(f"Bearer {KEY}" == request.headers["authorization"] for request in server.requests)


def test_an_embedder_with_a_client():
    """Embedders take clients as judges do."""
    with FakeEmbeddingServer(api_key=KEY) as server:

        async def session():
            embedder = EndpointEmbedder(client=client_at(server.url))
            try:
                return (await embedder.embed(["a", "b"])).shape[0]
            finally:
                await embedder.aclose()

        assert 2 == asyncio.run(session())


@pytest.mark.parametrize("module", [httpx, pytest.importorskip("httpx2")], ids=["httpx", "httpx2"])
def test_an_http_client_of_the_user(module):
    """It sends the requests, its other replies are left alone, and a second event loop is refused with the way out."""
    if module is not httpx and importlib.util.find_spec("openai._httpx2") is None:
        pytest.skip("this version of openai does not accept clients of httpx2")
    seen = []

    async def note(response):
        seen.append(response.status_code)

    with FaultServer(http_reply(), FAULTS["huge body"], http_reply(b"x" * 5_000_000)) as server:
        own = module.AsyncClient(event_hooks={"response": [note]}, headers={"x-own": "1"})
        client = client_at(server.url, http_client=own)
        model = OpenAICompatibleModel(client=client, model="m", max_retries=0)

        async def session():
            (reply,) = await model.complete(QUESTION)
            with pytest.raises(JudgeUnavailableError, match="larger than 4 MiB"):
                await model.complete(QUESTION)
            large = await own.get(f"{server.url}/files")
            await model.aclose()
            closed = own.is_closed
            await own.aclose()
            return reply.text, len(large.content), closed

        assert ("85", 5_000_000, False) == asyncio.run(session())
        assert ([200, 200, 200], "1") == (seen, server.requests[0].headers["x-own"])
        with pytest.raises(ConfigurationError, match=r"its own .http_client=.*each event loop"):
            asyncio.run(model.complete(QUESTION))


def test_a_sign_in_of_a_client_that_fails():
    """The reason is in the error, and no request is sent."""

    async def token():
        raise RuntimeError("no identity on this host")

    with (
        FaultServer(http_reply()) as server,
        pytest.raises(JudgeUnavailableError, match="client raised RuntimeError: no identity on this host"),
    ):
        ask(client=azure_at(server.url, azure_ad_token_provider=token))
    assert [] == server.requests


def test_the_time_limits_and_retries_are_those_of_the_model(virtual_time):
    """The client's own retries would not be counted."""
    with FaultServer(FAULTS["500"]) as server:
        with pytest.raises(JudgeUnavailableError, match="2 attempts"):
            ask(client=client_at(server.url, max_retries=7), max_retries=1)
        assert 2 == len(server.requests)
    with FaultServer(FAULTS["silence"]) as server, pytest.raises(JudgeUnavailableError, match="no reply within 3 s"):
        ask(client=client_at(server.url, timeout=900), timeout_s=3)


@pytest.mark.parametrize(
    ("arguments", "options", "words"),
    [
        ((), {}, "either a base_url .* or client="),
        (("http://h/v1",), {"client": "a client"}, "either a base_url .* or client="),
        ((), {"client": "a client"}, "must be an openai.AsyncOpenAI or AsyncAzureOpenAI, got builtins.str"),
        ((), {"client": openai.OpenAI(api_key=KEY)}, "must be an openai.AsyncOpenAI"),
        ((), {"client": openai.AsyncOpenAI(api_key=KEY), "api_key": "k"}, "api_key and client exclude each other"),
    ],
)
def test_impossible_clients(arguments, options, words):
    """Refused when the model is made."""
    with pytest.raises(ConfigurationError, match=words):
        OpenAICompatibleModel(*arguments, **options)


# Hostile servers ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("transport", ["aiohttp", "client"])
@pytest.mark.parametrize("what", ["judge", "list of models", "embedder"])
def test_a_redirect_is_refused(what, transport):
    """Neither question nor key reach another origin; the error names it without its secrets, and the way out."""
    with FaultServer(http_reply()) as target:
        location = f"Location: {target.url.replace('http://', 'http://u:secret@')}/other?key=secret"
        with FaultServer(http_reply({}, location, status="307 Temporary Redirect")) as server:
            options = (
                {"base_url": server.url, "api_key": KEY}
                if transport == "aiohttp"
                else {"client": client_at(server.url)}
            )

            async def session():
                if what == "embedder":
                    await EndpointEmbedder(**options, model="m").embed(["a text"])
                elif what == "judge":
                    await OpenAICompatibleModel(**options, model="m").complete(QUESTION)
                else:
                    await OpenAICompatibleModel(**options).prepare()

            refused = rf"a redirect to {target.url}/other, which is not followed. Name the final URL"
            with pytest.raises(JudgeRejectedError, match=refused) as caught:
                asyncio.run(session())
    assert [] == target.requests
    assert "secret" not in str(caught.value)


def test_cookies_are_not_kept():
    """A server cannot fill the memory with them, or recognize a client."""
    with FaultServer(http_reply(ANSWER, "Set-Cookie: a=1; Path=/")) as server:
        ask(server.url, n=3)
    assert ["", "", ""] == [request.headers.get("cookie", "") for request in server.requests]


def test_large_replies_that_were_requested():
    """Vectors and values for each token of a prompt may be larger, by the size of the request."""
    vector = [0.123456789012345] * 3072
    data = {"data": [{"index": n, "embedding": vector} for n in range(100)]}
    with FaultServer(http_reply(data)) as server:

        async def session():
            embedder = EndpointEmbedder(server.url, model="m", batch_size=100)
            rows = await embedder._request([f"text {n}" for n in range(100)])
            await embedder.aclose()
            return rows.shape

        assert (100, 3072) == asyncio.run(session())


@pytest.mark.parametrize(
    ("path", "body", "n_bytes"),
    [
        # Replies of vLLM: 20 alternatives for 300 tokens of 8 replies, 32,000 tokens of a prompt, 128 tokens by id.
        ("/chat/completions", {"logprobs": True, "top_logprobs": 20, "n": 8, "max_tokens": 300}, 8 * 300 * 21 * 110),
        ("/chat/completions", {"prompt_logprobs": 0, "messages": [{"content": "four" * 32_000}]}, 32_000 * 130),
        ("/completions", {"echo": True, "logprobs": 1, "prompt": [list(range(100_000))]}, 100_000 * 130),
        ("/completions", {"logprobs": 1, "prompt": [[1]] * 400, "logprob_token_ids": [1] * 128}, 400 * 128 * 110),
        ("/embeddings", {"input": ["a"] * 256}, 256 * 4096 * 22),
    ],
)
def test_limits_of_large_replies(path, body, n_bytes):
    """They are above what servers send, and within a small multiple of it."""
    assert n_bytes < reply_limit(path, body) < 8 * n_bytes + 4 * 2**20
    assert 4 * 2**20 == reply_limit("/chat/completions", {"messages": [{"content": "x" * 10**6}], "max_tokens": 9})


@pytest.mark.parametrize("number", [10**30, 10**8, -1, True, float("nan"), float("inf"), "7", None, [7]])
def test_numbers_of_usage_that_cannot_be(number):
    """They are unknown, and so is the cost: a budget, a limit per minute and a database take only numbers that a request can have."""
    usage = usage_of({"usage": {"prompt_tokens": number, "completion_tokens": 3}}, (1.0, 1.0))
    assert (0, 3) == (usage.input_tokens, usage.output_tokens)
    assert usage.cost_usd is None


def test_reported_tokens_stop_requests_for_two_minutes_at_most():
    """A limit on tokens per minute waits for what a reply reports, but not for days."""
    bucket = TokenBucket(burst_s=10)
    bucket.set(60_000, 0.0)
    bucket.take(9_999_999, 0.0)
    assert 119 < bucket.wait_s(1, 0.0) < 121
    bucket.take(9_999_999, 1.0)
    assert 119 < bucket.wait_s(1, 1.0) < 121


def test_a_judge_with_a_url_does_not_load_the_openai_package():
    """It takes a second of a start."""
    script = (
        "import asyncio, sys; from ragstone.judges import OpenAICompatibleJudge, Prompt\n"
        "judge = OpenAICompatibleJudge(sys.argv[1], model='m')\n"
        "print(asyncio.run(judge.ask_text(Prompt(construct='any', task='Reply.', fields={}))).text, 'openai' in sys.modules)"
    )
    with FakeJudgeServer(reply=lambda body: "words") as server:
        done = subprocess.run(
            [sys.executable, "-c", script, server.url], check=True, capture_output=True, text=True, timeout=60
        )
    assert ["words", "False"] == done.stdout.split()


def test_keys_are_not_logged(caplog):
    """At no level, by no library."""
    caplog.set_level(logging.DEBUG)
    with FaultServer(http_reply()) as server:
        ask(server.url.replace("http://", "http://me:hunter22@"), headers={"x-api-key": KEY})
    assert KEY not in caplog.text
    assert "hunter22" not in caplog.text


def test_what_outcomes_repeat_is_computed_once():
    """The identity until it changes, and the blocks of a sample, whose metrics show the same fields."""
    with FakeJudgeServer(refused=("temperature",)) as server:
        judge = OpenAICompatibleJudge(server.url)
        before = judge.identity
        assert before is judge.identity
        asyncio.run(judge.prepare())
        after = judge.identity
        assert after is judge.identity
    assert (before.hash != after.hash, ("temperature",)) == (True, after.refused_parameters)
    fields = {"query": "Why <b>?", "contexts": ("One.", "Two.")}
    hits = _render._kept_block.cache_info().hits
    texts = [_render.render(Prompt(construct="any", task=task, fields=fields))[1]["content"] for task in ("A", "B")]
    assert hits + 2 <= _render._kept_block.cache_info().hits
    assert texts[0].removesuffix("A") == texts[1].removesuffix("B")
    assert texts[0].startswith("<query>\nWhy &lt;b>?\n</query>\n<contexts>\n<1>\nOne.\n<2>\nTwo.\n</contexts>\n")
    # A list of one text is another block than the text.
    one = _render.render(Prompt(construct="any", task="A", fields={"query": ("Why <b>?",)}))[1]["content"]
    assert one.startswith("<query>\n<1>\nWhy &lt;b>?\n</query>\n")
