"""Fields that a server does not know: what counts as a refusal, whatever its status, and what is still an outage."""

from __future__ import annotations

import asyncio
import itertools
import time

import pytest
from pydantic import TypeAdapter
from typing_extensions import TypedDict

from fake_servers import ODD_REFUSALS, FakeDialectServer, FakeJudgeServer, Reply
from ragstone.errors import JudgeUnavailableError
from ragstone.judges import (
    ChatRequest,
    OpenAICompatibleJudge,
    Prompt,
)

PROMPTS = [Prompt(construct="claims", task="List the claims.", fields={"text": f"Claim {n}."}) for n in range(40)]


class Items(TypedDict):
    """A list of texts."""

    items: list[str]


class Names(TypedDict):
    """Another list of texts."""

    names: list[str]


SHAPE = TypeAdapter(Items)


def run(url, ask, **options):
    """What a function returns for a new judge, and the judge."""

    async def session():
        judge = OpenAICompatibleJudge(url, **({"backoff_s": 0.01} | options))
        try:
            return await ask(judge), judge
        finally:
            await judge.aclose()

    return asyncio.run(session())


async def ask_all(judge):
    """How the judge obtained JSON for all prompts at once."""
    replies = await asyncio.gather(*(judge.ask_json(prompt, SHAPE) for prompt in PROMPTS))
    return [reply.method for reply in replies]


async def ask_in_turn(judge):
    """How the judge obtained JSON for ten prompts, one after another."""
    return [(await judge.ask_json(prompt, SHAPE)).method for prompt in PROMPTS[:10]]


def n_with(server, field):
    return sum(field in body for body in server.stats.requests)


class Sometimes(FakeJudgeServer):
    """A server that answers some requests with another reply, by their number and body."""

    def __init__(self, other, **options):
        super().__init__(**options)
        self.other, self.numbers = other, itertools.count()

    def _plan(self, question, body):
        return self.other(next(self.numbers), body) or super()._plan(question, body)


@pytest.mark.parametrize("form", ODD_REFUSALS)
@pytest.mark.parametrize("concurrency", [1, 16])
def test_schemas_that_are_refused_in_any_form(form, concurrency):
    """All samples have a reply. At most three requests have the usual form of a schema, and three llama-cpp-python's."""
    changes = {"refused": frozenset({"response_format"}), "refusal": ODD_REFUSALS[form]}
    with FakeDialectServer("sglang", changes=changes) as server:
        methods, judge = run(server.url, ask_all, max_concurrent_requests=concurrency)
    assert ["json_reply"] * len(PROMPTS) == methods
    assert 1 <= n_with(server, "response_format") <= 6
    assert server.calls == judge.usage.calls <= len(PROMPTS) + 12


def refusing(form, field):
    """A server that refuses a field, or the system message, in a certain form. Its replies are numbers only if constrained."""

    def refuse(number, body):
        has_system = field == "system" and body["messages"][0]["role"] == "system"
        return ODD_REFUSALS[form]([field]) if field in body or has_system else None

    return Sometimes(refuse, malformed_rate=1.0, structured="obeyed")


FORMS = ("500 that names the field", "500", "closed connection")


@pytest.mark.parametrize(
    ("field", "form"),
    [
        *itertools.product(("seed", "temperature", "n", "structured_outputs", "system"), FORMS),
        # All requests have the others, so that no request succeeds before it is omitted.
        *itertools.product(("n", "structured_outputs"), ["404"]),
    ],
)
def test_each_field(field, form):
    """Each optional field is omitted after a few refusals, and only this one."""
    chat = ChatRequest(messages=[{"role": "user", "content": "?"}], max_tokens=9, sampling={"temperature": 1.0}, n=3)

    async def ask(judge):
        await judge.prepare()
        for _ in range(5):
            await judge.ask_number(PROMPTS[0])
            replies = await judge.model.complete(chat)
        return len(replies)

    with refusing(form, field) as server:
        n, judge = run(server.url, ask, seed=7)
        kept = {"seed", "temperature"} - {field}
        assert all(kept <= body.keys() for body in server.stats.requests[-6:] if len(body["messages"]) > 1)
        # Two kinds of requests have a temperature, and each shows it by four refusals.
        assert n_with(server, field) <= 8
    assert 3 == n
    assert {field} & {"seed", "temperature"} == set(judge.identity.refused_parameters)


@pytest.mark.parametrize("form", [*FORMS, "404"])
def test_log_probabilities_that_are_refused(form):
    """They are not supported, and other capabilities are measured."""
    with refusing(form, "logprobs") as server:
        can, _ = run(server.url, lambda judge: judge.model.capabilities(fresh=True))
    assert can.seen["logprobs"].startswith("not supported (")
    assert ("logprobs", "json_schema") == (*can.refused_parameters, can.structured[-1])


def test_a_server_that_starts_late():
    """Structured output is used after an outage of two seconds at the start."""
    started = time.monotonic()
    down = lambda number, body: Reply(503, "starting") if time.monotonic() < started + 2 else None  # noqa: E731
    with Sometimes(down) as server:
        methods, _ = run(server.url, ask_all, backoff_s=0.1, max_outage_s=30)
    assert ["constrained_reply"] * len(PROMPTS) == methods


@pytest.mark.parametrize("status", [0, 200, 500, 502, 503])
@pytest.mark.parametrize(("period", "failing"), [(2, {0}), (2, {1}), (3, {0}), (3, {0, 1}), (5, {0, 1, 2})])
def test_a_replica_that_is_down(status, period, failing):
    """Structured output is used, although every second or third request fails, as with a replica that is down."""
    reply = Reply(status, {"error": {"message": "oops"}})
    with Sometimes(lambda number, body: reply if number % period in failing else None) as server:
        methods, _ = run(server.url, ask_in_turn)
    assert ["constrained_reply"] * 10 == methods


@pytest.mark.parametrize("busy", [Reply(503, "busy", {"Retry-After": "0"}), Reply(504, "late"), Reply(529, "busy")])
def test_replies_of_a_busy_server(busy):
    """Structured output is used after four replies that say that the server has too much to do."""
    replies = itertools.repeat(busy, 4)
    with Sometimes(lambda number, body: next(replies, None) if "response_format" in body else None) as server:
        methods, _ = run(server.url, ask_in_turn, max_retries=9)
    assert ["constrained_reply"] * 10 == methods


def test_a_server_that_fails_again_during_the_comparison():
    """Structured output is used if a request without it fails as well, after one that succeeded."""
    # The first request without a schema is that of `prepare`.
    with_schema, without = iter((True, True, True)), iter((False, False, True))

    def fail(number, body):
        fails = next(with_schema if "response_format" in body else without, False)
        return Reply(500, "oops") if fails else None

    async def ask(judge):
        await judge.prepare()
        return await ask_in_turn(judge)

    with Sometimes(fail) as server:
        methods, _ = run(server.url, ask, max_retries=9)
    assert ["constrained_reply"] * 10 == methods


def test_a_field_that_fails_later():
    """A server that has accepted a field and then answers it with HTTP 500 is in trouble, which passes."""
    failing = lambda number, body: Reply(500, "oops") if 5 < number < 14 and "response_format" in body else None  # noqa: E731
    with Sometimes(failing) as server:
        methods, _ = run(server.url, ask_in_turn, max_retries=9)
    assert ["constrained_reply"] * 10 == methods


def test_one_schema_that_is_answered_with_500():
    """Another schema is still used, and the first one is not sent again."""

    def refuse(number, body):
        return Reply(500, "oops") if "names" in str(body.get("response_format")) else None

    async def ask(judge):
        shapes = [SHAPE, TypeAdapter(Names)] * 20
        accepted = await judge.ask_json(PROMPTS[0], SHAPE)
        replies = await asyncio.gather(
            *(judge.ask_json(prompt, shape) for prompt, shape in zip(PROMPTS, shapes, strict=True))
        )
        return [reply.method for reply in (accepted, *replies)]

    with Sometimes(refuse) as server:
        methods, _ = run(server.url, ask)
        assert sum("names" in str(body.get("response_format")) for body in server.stats.requests) <= 3
    assert ["constrained_reply", *["constrained_reply", "json_reply"] * 20] == methods


@pytest.mark.parametrize("max_retries", [2, 4])
def test_a_server_that_answers_500_to_everything(max_retries):
    """It is an outage, with the usual number of calls, and after it structured output is used."""
    is_down = [True]

    async def ask(judge):
        with pytest.raises(JudgeUnavailableError, match="HTTP 500"):
            await judge.ask_json(PROMPTS[0], SHAPE)
        n_calls = judge.usage.calls
        is_down.clear()
        return n_calls, await ask_in_turn(judge)

    with Sometimes(lambda number, body: Reply(500, "oops") if is_down else None) as server:
        (n_calls, methods), _ = run(server.url, ask, max_retries=max_retries)
    assert max_retries + 1 == n_calls
    assert ["constrained_reply"] * 10 == methods


def test_a_field_that_stops_the_server():
    """A server that is down after each request with a field has not refused it."""
    is_down = []

    def crash(number, body):
        if "response_format" in body:
            is_down.append(True)
        return Reply(500, "oops") if is_down else None

    with Sometimes(crash) as server, pytest.raises(JudgeUnavailableError, match="HTTP 500"):
        run(server.url, ask_in_turn)
