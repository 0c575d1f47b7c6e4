"""The probe under trouble: what fails becomes unknown, what cannot be asked is an error, what is remembered costs nothing."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from fake_servers import FakeDialectServer, FakeJudgeServer, FakeModelServer, Reply
from ragstone.errors import JudgeError, JudgeRejectedError, JudgeUnavailableError
from ragstone.judges import OpenAICompatibleModel, metered, wait_for_outages
from scripted_model import ScriptedModel

pytestmark = pytest.mark.usefixtures("virtual_time")

NOT_SUPPORTED = "not supported (HTTP 500): EngineCore"
REPLIES = {"NO-RESPONSE": 0.25, "Oslo": 0.5, "No idea": 0.25}
THOUGHTS = "Okay, the user wants one word, and one word is what they will get from me.</think>yes"


async def measured(url, **options):
    """What the probe says."""
    model = OpenAICompatibleModel(url, model="scripted-model", **{"backoff_s": 0.01, **options})
    try:
        return await model.capabilities(fresh=True)
    finally:
        await model.aclose()


def test_measured_once():
    """The first measurement is what estimators need, the second question costs nothing, a fresh measurement is of all."""

    async def ask(server):
        model = OpenAICompatibleModel(server.url, model="scripted-model")
        first = await model.capabilities()
        n_first = server.calls
        second = await model.capabilities()
        n_second = server.calls
        with metered() as meter:
            fresh = await model.capabilities(fresh=True)
        await model.aclose()
        assert not any(
            "seed" in request or "structured_outputs" in request for request in server.stats.requests[:n_first]
        )
        return (first, second, fresh), (n_first, n_second - n_first, server.calls - n_second), meter.total

    with FakeModelServer(ScriptedModel(REPLIES)) as server:
        verdicts, calls, spent = asyncio.run(ask(server))
    only_in_full = {"structured", "whole_prompts"}
    assert 1 == len({verdict.model_dump_json(exclude={"seen", *only_in_full}) for verdict in verdicts})
    assert [(), ("regex", "json_schema")] == [verdicts[0].structured, verdicts[2].structured]
    assert only_in_full - {"structured"} < verdicts[0].seen.keys()
    assert 0 == calls[1]
    assert calls[2] == spent.calls
    assert 6 <= calls[0] < 12 <= calls[2] <= 20
    assert spent.input_tokens > 1200


@pytest.mark.parametrize(
    ("faults", "kind"),
    [
        ({"error_rate": 0.3}, "500"),
        ({"malformed_rate": 0.25}, "malformed"),
        # A slow machine may stay below any limit.
        ({"rate_limit_rpm": 600, "retry_after_s": 0.05}, None),
    ],
    ids=["error_rate", "malformed_rate", "rate_limit_rpm"],
)
def test_passing_trouble_changes_no_verdict(faults, kind):
    """Server errors, replies without a message and rate limits are waited out."""
    with FakeModelServer(ScriptedModel(REPLIES)) as server:
        calm = asyncio.run(measured(server.url))
    with FakeModelServer(ScriptedModel(REPLIES), **faults) as server:
        troubled = asyncio.run(measured(server.url, max_retries=10))
        assert kind is None or kind in server.stats.replies
    assert calm == troubled


@pytest.mark.parametrize(
    ("field", "name", "seen"),
    [
        ("n", "several_replies", "1 of 2 replies returned"),
        ("response_format", "json_schema", NOT_SUPPORTED),
        ("structured_outputs", "regex", NOT_SUPPORTED),
        ("logprobs", "logprobs", NOT_SUPPORTED),
        ("logprob_token_ids", "chain", NOT_SUPPORTED),
        ("echo", "echo", NOT_SUPPORTED),
    ],
)
@pytest.mark.parametrize("max_retries", [0, 1, 4])
def test_a_field_that_is_answered_with_500(field, name, seen, max_retries):
    """A capability is missing if the server answers its field with HTTP 500, and other requests with replies."""
    with FakeModelServer(ScriptedModel(REPLIES), changes={"crashes_on": frozenset({field})}) as server:
        with wait_for_outages(3.0):
            can = asyncio.run(measured(server.url, max_retries=max_retries, backoff_s=0.5))
        n_refused = sum(field in body for body in server.stats.requests)
    assert can.seen[name].startswith(seen)
    assert () == can.notes
    assert n_refused <= 6
    assert "chain" in can.exact_routes or field in ("logprobs", "logprob_token_ids")
    assert field == "response_format" or "json_schema" in can.structured


@pytest.mark.parametrize("path", ["version", "tokenize"])
def test_a_path_that_is_answered_with_500(path):
    """The probe of a gateway that answers unknown paths with HTTP 500 does not end."""

    class Gateway(FakeModelServer):
        async def _answer(self, request):
            return Reply(500, "oops") if request.path.endswith(path) else await super()._answer(request)

    with Gateway(ScriptedModel(REPLIES), changes={"cached_tokens": False}) as server, wait_for_outages(3.0):
        can = asyncio.run(measured(server.url, max_retries=4, backoff_s=0.5))
    assert ("regex", "json_schema") == can.structured
    assert (path == "tokenize") == ("chain" not in can.exact_routes)


class HiccupServer(FakeModelServer):
    """A server whose first request with log-probabilities fails, once."""

    hiccups = 1

    def _refuse_fields(self, body):
        crashes = frozenset({"logprobs"}) if self.hiccups and "logprobs" in body else frozenset()
        self.hiccups -= bool(crashes)
        self.dialect = replace(self.dialect, crashes_on=crashes)
        super()._refuse_fields(body)


def test_one_failure_makes_no_lesser_server():
    """A step that fails is tried again once the server is seen to answer: the estimator hangs on it."""
    with HiccupServer(ScriptedModel(REPLIES), "openai") as server:
        can = asyncio.run(measured(server.url, max_retries=0))
    assert ("first_token", ()) == (can.estimator, can.unmeasured)
    assert 0 == server.hiccups


def test_a_server_that_dies_during_the_probe():
    """A server that one step has killed is no server with fewer capabilities."""
    changes = {"crashes_on": frozenset({"response_format"}), "stays_down": True}
    with (
        FakeModelServer(ScriptedModel(REPLIES), changes=changes) as server,
        pytest.raises(JudgeUnavailableError, match="HTTP 500"),
    ):
        asyncio.run(measured(server.url, max_retries=1))


def test_a_server_that_dies_after_one_comparison():
    """One reply without the field, before the last failure, does not show that the field is the reason."""

    class Dying(FakeModelServer):
        n_alive: float = float("inf")

        async def _answer(self, request):
            if b"response_format" in request.content:
                self.n_alive = min(self.n_alive, 1)
                return Reply(500, "EngineCore")
            self.n_alive -= 1
            return Reply(500, "EngineCore") if self.n_alive < 0 else await super()._answer(request)

    async def session(url):
        model = OpenAICompatibleModel(url, model="scripted-model", max_retries=1, backoff_s=0.01)
        messages = [{"role": "user", "content": "Reply with the word yes."}]
        try:
            await model.chat(messages, max_tokens=4, fields={"response_format": {"type": "json_object"}})
        finally:
            await model.aclose()

    with Dying(ScriptedModel(REPLIES)) as server, pytest.raises(JudgeUnavailableError, match="HTTP 500"):
        asyncio.run(session(server.url))


@pytest.mark.parametrize(
    ("options", "error"),
    [({"api_key": "wrong"}, JudgeRejectedError), ({"api_key": None}, JudgeRejectedError)],
)
def test_wrong_credentials(options, error):
    """Nothing can be measured with a wrong key, and nothing is guessed."""
    with FakeModelServer(ScriptedModel(REPLIES), api_key="right") as server, pytest.raises(error, match="401"):
        asyncio.run(measured(server.url, **options))


def test_nobody_there():
    """No server is an error."""
    with pytest.raises(JudgeUnavailableError, match="cannot connect"):
        asyncio.run(measured("http://127.0.0.1:9/v1", max_retries=0))


def test_nothing_but_malformed_replies():
    """A server that never sends a message cannot be measured."""
    with (
        FakeModelServer(ScriptedModel(REPLIES), malformed_rate=1.0) as server,
        pytest.raises(JudgeError, match="not contain a message"),
    ):
        asyncio.run(measured(server.url))


@pytest.mark.parametrize(
    ("replies", "changes", "sign"),
    [
        ({"<think>Hm.</think>yes": 1.0}, {}, "tags"),
        # The chat template opens the block, the reply only closes it, far behind the first tokens.
        ({THOUGHTS: 1.0}, {}, "tags"),
        ({"yes": 1.0}, {"reasoning": "separate"}, "reasoning_content"),
        ({"yes": 1.0}, {"reasoning": "hidden"}, "tokens of reasoning"),
        ({"yes": 1.0}, {"reasoning": "hidden", "max_tokens_name": "max_completion_tokens"}, "tokens of reasoning"),
    ],
)
def test_reasoning_is_seen(replies, changes, sign):
    """A model that reasons first is told by its replies, and no first token of its is believed."""
    with FakeModelServer(ScriptedModel(replies), changes=changes) as server:
        can = asyncio.run(measured(server.url))
    assert can.reasons
    assert sign in can.seen["reasons"]
    assert "monte_carlo" == can.estimator
    assert {"regex", "json_schema"} == set(can.structured)


def test_a_long_reply_is_no_reasoning():
    """Models that talk too much are not taken for models that think aloud."""
    with FakeModelServer(ScriptedModel({"Yes, and here is all that I know of it. " * 30: 1.0})) as server:
        can = asyncio.run(measured(server.url))
    assert not can.reasons


class Nonsense(ScriptedModel):
    """A model whose probabilities add up to far more than 1."""

    def next_tokens(self, ids):
        """Everything is almost certain."""
        return dict.fromkeys([*range(20), *self.tokens_of("<end>")], 0.9)


def test_log_probabilities_that_are_none():
    """Values that no distribution can have are not read as probabilities."""
    with FakeModelServer(Nonsense(REPLIES)) as server:
        can = asyncio.run(measured(server.url))
    assert 0 == can.top_logprobs
    assert "add up to" in can.seen["logprobs"]
    assert "monte_carlo" == can.estimator


def test_a_server_that_knows_chats_alone():
    """A server of verdicts and nothing else is measured as well."""
    with FakeJudgeServer(models=("scripted-model",)) as server:
        can = asyncio.run(measured(server.url))
    assert ("monte_carlo", 0, None) == (can.estimator, can.top_logprobs, can.exact_route)
    assert can.seen["logprobs"] == "accepted, but not returned"


class PaddingServer(FakeModelServer):
    """A vLLM whose small model pads JSON with whitespace, up to the length limit."""

    def __init__(self, start, **options):
        super().__init__(ScriptedModel(REPLIES), **options)
        self.start = start

    def _plan(self, body, *, chat):
        plan = super()._plan(body, chat=chat)
        if "response_format" not in body or isinstance(plan, Reply):
            return plan

        def answer(fault):
            kind, reply = plan(fault)
            for choice in reply.body["choices"]:
                choice["message"]["content"] = f"{self.start}{' ' * 60}"
                choice["finish_reason"] = "length"
            return kind, reply

        return answer


@pytest.mark.parametrize(
    ("start", "obeyed"), [("", True), ("{", True), ('{"quux":', True), ("yes", False), ('{"answer":', False)]
)
def test_json_padded_with_whitespace(start, obeyed):
    """A schema that allows whitespace is obeyed all the same, and a note states the padding."""
    with PaddingServer(start) as server:
        can = asyncio.run(measured(server.url))
    assert obeyed == ("json_schema" in can.structured)
    assert obeyed == any("whitespace" in note for note in can.notes)


def test_the_form_of_llama_cpp_python():
    """A schema in a JSON object is found where `json_schema` is answered with 500, and is not tried elsewhere."""
    found = {}
    for name in ("llama-cpp-python", "llamacpp"):
        with FakeDialectServer(name) as server:
            found[name] = asyncio.run(measured(server.url))
    assert ("json_object",) == found["llama-cpp-python"].structured
    assert ("json_schema",) == found["llamacpp"].structured
    assert "json_object" not in found["llamacpp"].seen
