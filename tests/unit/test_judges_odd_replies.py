"""Judges whose replies can mislead: fractions of the scale, forced numbers. Each score is right, failed or marked; calls are counted."""

from __future__ import annotations

import asyncio
import json

import pytest

from fake_servers import FakeJudgeServer, Reply
from fake_servers.loopback import error_reply
from ragstone.errors import JudgeRejectedError, JudgeReplyError, JudgeUnavailableError
from ragstone.judges import ChatRequest, OpenAICompatibleJudge, OpenAICompatibleModel, Prompt

PROMPT = Prompt(construct="relevance", task="The task.", fields={"query": "Why?", "response": "Because."})


def ask(replies, n=1, **options):
    """Ask for `n` numbers one after another. Return the replies of the judge, or its errors, and the server."""
    rest = list(replies)
    reply = lambda _: rest.pop(0) if len(rest) > 1 else rest[0]  # noqa: E731

    async def session(url):
        judge = OpenAICompatibleJudge(url, **options)
        try:
            return [(await asyncio.gather(judge.ask_number(PROMPT), return_exceptions=True))[0] for _ in range(n)]
        finally:
            await judge.aclose()

    with FakeJudgeServer(reply=reply) as server:
        return asyncio.run(session(server.url)), server.stats


@pytest.mark.parametrize("first", ["0.85", "Score: .85", "0.85%", "1.0", "**Score:** 1.00", '{"score": 1.0}'])
def test_a_number_that_may_be_a_fraction_is_asked_for_again(first):
    """The second request names the ends of the scale, does not repeat the reply, and is not forced, which would give 0."""
    (reply,), stats = ask([first, "85"])
    assert (85, "second_reply", 2) == (reply.value, reply.method, stats.calls)
    (_, again) = stats.requests
    assert ["system", "user"] == [message["role"] for message in again["messages"]]
    assert again["messages"][-1]["content"].endswith("The lowest number is 0, the highest is 100. Digits only.")


@pytest.mark.parametrize("fraction", ["0.85", "1.0"])
def test_a_second_fraction_is_not_a_score(fraction):
    """It is an error that names the fraction and both scales."""
    (error,), stats = ask([fraction])
    assert isinstance(error, JudgeReplyError)
    assert ("unparseable", fraction, 2) == (error.kind, error.raw, stats.calls)
    assert f"got the fraction {fraction}, which may be on a scale from 0 to 1" in str(error)


@pytest.mark.parametrize("one", ["1", "<think>1.0?</think>1", '{"score": 1, "confidence": 1.0}'])
def test_whole_numbers_are_not_fractions(one):
    """One of a hundred is a rating."""
    (reply,), stats = ask([one])
    assert (1, "single_reply", 1) == (reply.value, reply.method, stats.calls)


@pytest.mark.parametrize("fraction", ["0.85", "1.0"])
@pytest.mark.parametrize("mode", ["sampled", "reasoned"])
def test_fractions_in_other_score_modes(mode, fraction):
    """They are not scores there either."""
    (error,), _ = ask([f"It is fine.\nScore: {fraction}" if mode == "reasoned" else fraction], score_mode=mode)
    assert isinstance(error, JudgeReplyError)
    assert f"fraction {fraction}" in str(error)


def test_fractions_on_a_scale_of_fractions():
    """From 0 to 1 a fraction is a rating."""

    async def session(url):
        judge = OpenAICompatibleJudge(url)
        try:
            return await judge.ask_number(PROMPT, low=0, high=1)
        finally:
            await judge.aclose()

    with FakeJudgeServer(reply=lambda _: "0.85") as server:
        assert 0.85 == asyncio.run(session(server.url)).value


def test_forced_replies_are_marked():
    """A number that the server forced is not the judge's own. After five, no free reply is asked for."""
    replies, stats = ask(["I like it."], n=7)
    assert ["forced_reply"] * 7 == [reply.method for reply in replies]
    assert 5 * 2 + 2 == stats.calls


def test_a_free_reply_that_can_be_read_keeps_free_replies():
    """Some replies without a number do not make all of them forced."""
    replies, stats = ask(["I like it."] * 4 + ["80"] + ["I like it."] * 4 + ["70"], n=10)
    assert [*["forced_reply"] * 4, "single_reply", *["forced_reply"] * 4, "single_reply"] == [r.method for r in replies]
    assert 10 + 8 == stats.calls


class Scripted(FakeJudgeServer):
    """A server whose reply to a request is made by a function of its body, or the usual one if that returns None."""

    def __init__(self, answer, **options):
        super().__init__(**options)
        self._answer_to = answer

    def _plan(self, question, body):
        return self._answer_to(body) or super()._plan(question, body)


def number_from(server, **options):
    async def session():
        judge = OpenAICompatibleJudge(server.url, **({"backoff_s": 0.01, "max_outage_s": 0.1} | options))
        try:
            return await judge.ask_number(PROMPT)
        finally:
            await judge.aclose()

    with server:
        return asyncio.run(session())


def stream(*deltas, end="data: [DONE]\n\n"):
    events = [{"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None}]} for text in deltas]
    events += [{"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}, {"choices": [], "usage": USAGE}]
    return Reply(200, "".join(f"data: {json.dumps(event)}\n\n" for event in events) + end)


USAGE = {"prompt_tokens": 20, "completion_tokens": 2}


def test_an_event_stream_is_read():
    """Some servers stream although that was not requested. The usage is that of the last event."""
    server = Scripted(lambda _: stream("8", "5"))
    reply = number_from(server)
    assert (85, 1) == (reply.value, server.stats.calls)
    assert (20, 2) == (reply.usage.input_tokens, reply.usage.output_tokens)


@pytest.mark.parametrize("start", [": connected\n\n", "event: message\n", "id: 1\n"])
def test_an_event_stream_may_begin_with_other_fields(start):
    """The usage stays known if a later event has none."""
    late = {"choices": [], "usage": None}
    reply = stream("85", end=f"data: {json.dumps(late)}\n\ndata: [DONE]\n\n")
    server = Scripted(lambda _: Reply(200, start + reply.body))
    found = number_from(server, max_retries=0)
    assert (85, 20) == (found.value, found.usage.input_tokens)


def test_an_event_stream_of_two_replies():
    """Their parts may alternate, and the reason for the end need not stand in the last one."""
    parts = [(0, "8", None), (1, "7", None), (0, "5", "length"), (1, "0", "stop"), (0, "", None)]
    events = [
        {"choices": [{"index": index, "delta": {"content": text}, "finish_reason": finish}]}
        for index, text, finish in parts
    ]
    body = "".join(f"data: {json.dumps(event)}\n\n" for event in events) + "data: [DONE]\n\n"

    async def session(url):
        model = OpenAICompatibleModel(url, model="m", max_retries=0)
        try:
            messages = [{"role": "user", "content": "?"}]
            return await model.complete(ChatRequest(messages=messages, max_tokens=9, n=2))
        finally:
            await model.aclose()

    with Scripted(lambda _: Reply(200, body)) as server:
        replies = asyncio.run(session(server.url))
    assert [("85", "length"), ("70", "stop")] == [(reply.text, reply.finish) for reply in replies]


def test_an_event_stream_without_its_end_is_not_a_reply():
    """The 8 of an 85 whose stream broke is not a rating."""
    for end in ("", "data: {broken\n\ndata: [DONE]\n\n"):
        server = Scripted(lambda _, end=end: stream("8", end=end))
        with pytest.raises(JudgeUnavailableError, match="not JSON: 'data: "):
            number_from(server, max_retries=1)


def test_a_server_that_only_streams():
    """Its refusal is learned once, and later requests ask for a stream."""

    def answer(body):
        if not body.get("stream"):
            return error_reply(400, "Only streaming requests are supported, set stream=true.")
        return stream("85")

    server = Scripted(answer)
    assert 85 == number_from(server).value
    assert [None, True] == [body.get("stream") for body in server.stats.requests]


@pytest.mark.parametrize(
    "error",
    [
        {"code": 401, "message": "wrong key"},
        {"code": "invalid_api_key", "message": "wrong key"},
        {"type": "invalid_request_error", "message": "wrong key"},
        {"code": "model_not_found", "message": "wrong key"},
    ],
)
def test_a_permanent_error_in_a_reply_with_status_200(error):
    """It ends at once, instead of after minutes of retries."""
    server = Scripted(lambda _: Reply(200, {"error": error}))
    with pytest.raises(JudgeRejectedError, match="HTTP 200 with an error: wrong key"):
        number_from(server)
    assert 1 == server.stats.calls


@pytest.mark.parametrize(
    "body",
    [
        {"detail": "Model is loading"},
        {"error": {"code": 503, "message": "Model is loading"}},
        {"error": {"code": 408, "message": "Model is loading"}},
    ],
)
def test_a_temporary_error_in_a_reply_with_status_200(body):
    """It is retried, and the failure names it."""
    server = Scripted(lambda _: Reply(200, body))
    with pytest.raises(JudgeUnavailableError, match="HTTP 200 with an error: Model is loading"):
        number_from(server, max_retries=1)


@pytest.mark.usefixtures("virtual_time")
@pytest.mark.parametrize("pause", ["0", "0.07"])
def test_a_server_that_names_too_short_a_pause_gets_few_requests(pause):
    """Refused for seven minutes, a request is sent less and less often, whatever pause the server names."""
    server = Scripted(lambda _: Reply(429, "slow down", {"Retry-After": pause}))
    with pytest.raises(JudgeUnavailableError, match="HTTP 429: slow down"):
        number_from(server, model="m", max_wait_s=420)
    assert 10 < server.stats.calls < 50


@pytest.mark.parametrize(
    ("headers", "low", "high"),
    [
        ({"Retry-After": "1"}, 1.0, 2.0),
        ({"Retry-After": "300"}, 120.0, 125.0),
        ({"Retry-After-Ms": "2500"}, 2.5, 3.5),
        ({"Retry-After": "-5"}, 0.0, 2.0),
    ],
)
def test_the_pause_that_a_server_names(headers, low, high, virtual_time):
    """It is kept, in both units, and limited to two minutes. An impossible one is not read."""
    times = []

    def answer(_):
        times.append(virtual_time.time())
        return Reply(429, "slow down", headers) if len(times) == 1 else None

    number_from(Scripted(answer), model="m", max_wait_s=600)
    first, second = times[:2]
    assert low <= second - first <= high


def test_an_outage_does_not_use_up_the_time_of_a_request(virtual_time):
    """A request that may be retried for 30 seconds gets its reply after two minutes without a server."""
    started = virtual_time.time()

    def answer(_):
        return error_reply(502, "no upstream") if virtual_time.time() < started + 120 else stream("85")

    assert 85 == number_from(Scripted(answer), model="m", max_wait_s=30, max_outage_s=300).value


@pytest.mark.usefixtures("virtual_time")
@pytest.mark.parametrize("status", [408, 409, 425])
def test_a_status_for_a_moment_is_tried_again(status):
    """One of them is no refusal."""
    replies = [error_reply(status, "not now"), stream("85")]
    server = Scripted(lambda _: replies.pop(0))
    assert (85, 2) == (number_from(server, model="m").value, server.stats.calls)


def test_a_reply_with_a_remark_is_a_reply():
    """A field `detail` beside the message is not an error."""
    choice = {"message": {"role": "assistant", "content": "85"}, "finish_reason": "stop"}
    server = Scripted(lambda _: Reply(200, {"choices": [choice], "detail": "from a cache"}))
    assert (85, 1) == (number_from(server, model="m").value, server.stats.calls)


@pytest.mark.usefixtures("virtual_time")
@pytest.mark.parametrize("status", [429, 503])
def test_a_pause_beyond_the_time_of_a_request_ends_it_at_once(status):
    """Five minutes are named and three are left, so that even the two that are waited at most are in vain."""
    server = Scripted(lambda _: Reply(status, "slow down", {"Retry-After": "300"}))
    with pytest.raises(JudgeUnavailableError, match=f"HTTP {status}: slow down"):
        number_from(server, model="m", max_wait_s=180, max_outage_s=30)
    assert 1 == server.stats.calls
