"""A chat model made of a function: on threads, within its limits, with other people's errors told in our words."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import pytest
from pydantic import BaseModel, SecretStr

from ragstone.capture import capture_suppressed
from ragstone.errors import ConfigurationError, JudgeError, JudgeRejectedError, JudgeReplyError, JudgeUnavailableError
from ragstone.judges import (
    ChatModel,
    ChatRequest,
    ClientSettings,
    Completion,
    ConstrainedModel,
    ExactModel,
    FunctionModel,
    ModelJudge,
    OpenAICompatibleModel,
    Prompt,
    TokenLogprobs,
    metered,
)
from ragstone.schema import Usage
from scripted_model import ScriptedModel

MESSAGES = [{"role": "user", "content": "Where?"}]
SHAPE = {"model": "tiny"}


def model(ask: Callable[[ChatRequest], Any] | None = None, **options: Any) -> FunctionModel:
    """A model whose function returns a text, or what `ask` returns."""

    def answer(request: ChatRequest) -> tuple[Completion, Usage]:
        found = "Oslo" if ask is None else ask(request)
        completion = found if isinstance(found, Completion) else Completion(text=found)
        return completion, Usage(calls=9, input_tokens=7, output_tokens=2)

    return FunctionModel(answer, name="tiny", settings=SHAPE, **options)


def request(**fields: Any) -> ChatRequest:
    """A request for a short reply."""
    return ChatRequest(messages=MESSAGES, max_tokens=5, **fields)


def complete(asked: FunctionModel, **fields: Any) -> tuple[Completion, ...]:
    """Replies, in a loop of their own."""
    return asyncio.run(asked.complete(request(**fields)))


def raising(error: BaseException) -> FunctionModel:
    """A model that raises."""

    def ask(_: ChatRequest) -> str:
        raise error

    return model(ask, secrets=("s3cr3t-key",))


def test_says_what_it_was_told():
    """Name and shape are those given; nothing is prepared."""
    made = model()
    asyncio.run(made.prepare())
    assert ("tiny", SHAPE, "FunctionModel('tiny')") == (made.name, made.settings, repr(made))


@pytest.mark.parametrize("wrong", [{"max_concurrent_requests": 0}, {"timeout_s": 0.0}, {"timeout_s": float("nan")}])
def test_limits_that_cannot_work_are_refused(wrong):
    """No one is asked with no thread, or in no time."""
    with pytest.raises(ConfigurationError, match=next(iter(wrong))):
        model(**wrong)


def test_each_reply_is_a_request_of_its_own():
    """Several replies are several requests of one each; seeds go up, for the same seed would repeat the draw."""
    asked: list[ChatRequest] = []
    lock = threading.Lock()

    def ask(each: ChatRequest) -> str:
        with lock:
            asked.append(each)
        return f"seed {each.sampling['seed']}"

    replies = complete(model(ask), n=3, sampling={"seed": 7})
    assert ["seed 7", "seed 8", "seed 9"] == [reply.text for reply in replies]
    assert [1, 1, 1] == [each.n for each in asked]


def test_bill_counts_calls_as_they_go_out():
    """One call a request, whatever the function says of calls; tokens as it says."""
    with metered() as meter:
        complete(model(), n=2)
    assert (2, 14, 4) == (meter.total.calls, meter.total.input_tokens, meter.total.output_tokens)
    with metered() as meter, pytest.raises(JudgeError):
        complete(raising(ValueError("no")))
    assert 1 == meter.total.calls


def test_function_sees_the_caller_s_context_and_is_no_traffic():
    """Context variables reach the thread, capture is off there, and on again for the caller."""
    user: ContextVar[str] = ContextVar("user", default="nobody")
    seen: list[Any] = []

    def ask(_: ChatRequest) -> str:
        seen.append((user.get(), capture_suppressed(), threading.current_thread() is threading.main_thread()))
        return "Oslo"

    async def session() -> bool:
        user.set("ada")
        await model(ask).complete(request())
        return capture_suppressed()

    assert asyncio.run(session()) is False
    assert [("ada", True, False)] == seen


def test_text_that_no_file_takes_is_replaced():
    """Lone surrogates do not get into outcomes."""
    assert "O?lo" == complete(model(lambda _: "O\ud800lo"))[0].text


class StatusError(Exception):
    """A client's error with a status in one of the usual places."""

    def __init__(self, message: str = "said so", **fields: Any) -> None:
        super().__init__(message)
        self.__dict__.update(fields)


class Answered:
    """A client's response."""

    def __init__(self, status_code: int, headers: Any = None) -> None:
        self.status_code = status_code
        self.headers = headers


class ServiceUnavailable(Exception):  # noqa: N818
    """Named as a client's authors name things."""


class ReadTimeout(Exception):  # noqa: N818
    """Likewise."""


class SpeechlessError(Exception):
    """Broken like what raised it."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


def caused(error: Exception, cause: Exception) -> Exception:
    """An error with what it was raised from."""
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "kind", "expected"),
    [
        (StatusError(status_code=400), JudgeRejectedError, "rejected"),
        (StatusError(http_status=404), JudgeRejectedError, "rejected"),
        (StatusError(code=403), JudgeRejectedError, "rejected"),
        (StatusError(response=Answered(422)), JudgeRejectedError, "rejected"),
        (StatusError(response=Answered(503)), JudgeUnavailableError, "unavailable"),
        (StatusError(response={"ResponseMetadata": {"HTTPStatusCode": 400}}), JudgeRejectedError, "rejected"),
        (StatusError(response={"ResponseMetadata": None}), JudgeRejectedError, "rejected"),
        (StatusError(status_code=408), JudgeUnavailableError, "timeout"),
        (StatusError(status_code=504), JudgeUnavailableError, "timeout"),
        (StatusError(status_code=429), JudgeUnavailableError, "unavailable"),
        (StatusError("insufficient_quota", status_code=429), JudgeRejectedError, "rejected"),
        (StatusError(status_code=500), JudgeUnavailableError, "unavailable"),
        (StatusError("insufficient_quota", status_code=503), JudgeUnavailableError, "unavailable"),
        (StatusError(status_code=True, code="context_length"), JudgeRejectedError, "rejected"),
        (ServiceUnavailable(), JudgeUnavailableError, "unavailable"),
        (ReadTimeout(), JudgeUnavailableError, "timeout"),
        (TimeoutError(), JudgeUnavailableError, "timeout"),
        (BrokenPipeError(), JudgeUnavailableError, "unavailable"),
        (caused(RuntimeError("wrapped"), ReadTimeout()), JudgeUnavailableError, "timeout"),
        (caused(RuntimeError("wrapped"), OSError()), JudgeUnavailableError, "unavailable"),
        (RuntimeError("a bug"), JudgeRejectedError, "rejected"),
        (StopIteration(), JudgeRejectedError, "rejected"),
        (SpeechlessError(), JudgeRejectedError, "rejected"),
        (JudgeReplyError("no", kind="refused"), JudgeReplyError, "refused"),
    ],
    ids=lambda value: repr(value)[:60],
)
def test_errors_of_clients_have_our_kinds(error, kind, expected):
    """A status decides; else a name or a cause; what nothing is known of is rejected, for it would happen again."""
    with pytest.raises(kind) as caught:
        complete(raising(error))
    assert expected == caught.value.kind


def test_causes_in_a_circle_end():
    """An error that is its own cause is told like any other."""
    first, second = RuntimeError("first"), RuntimeError("second")
    first.__cause__, second.__cause__ = second, first
    with pytest.raises(JudgeRejectedError, match="first"):
        complete(raising(first))


def test_rate_limit_says_when_to_come_again():
    """`Retry-After` reaches the error, from wherever a client keeps the response."""
    with pytest.raises(JudgeUnavailableError) as caught:
        complete(raising(StatusError(status_code=429, response=Answered(429, {"retry-after": "7"}))))
    assert 7 == caught.value.retry_after_s


def test_messages_are_short_and_hide_secrets():
    """What a client says is quoted in one line, in part, and without keys."""
    with pytest.raises(JudgeError) as caught:
        complete(raising(ValueError(f"bad key s3cr3t-key\n{'x' * 5000}")))
    assert str(caught.value).startswith("tiny: ValueError: bad key [api key] xxx")
    assert len(str(caught.value)) < 600


def test_one_error_of_several_replies_is_the_error():
    """Who asked for several replies sees an error, not a group of them."""
    with pytest.raises(JudgeRejectedError):
        complete(raising(ValueError("no")), n=3)


def test_reply_that_hangs_times_out_and_keeps_its_place():
    """A hanging reply costs `timeout_s`. What waits for its thread waits outside its own time, and then is answered."""
    go_on, hanging = threading.Event(), threading.Event()

    def ask(each: ChatRequest) -> str:
        if each.messages == MESSAGES:
            hanging.set()
            go_on.wait(60)
        return "Oslo"

    made = model(ask, timeout_s=2, max_concurrent_requests=1)
    other = ChatRequest(messages=[{"role": "user", "content": "And?"}], max_tokens=5)

    async def session() -> Any:
        first = asyncio.create_task(made.complete(request()))
        await asyncio.to_thread(hanging.wait, 60)
        second = asyncio.create_task(made.complete(other))
        with pytest.raises(JudgeUnavailableError, match=r"no reply within 2 s") as caught:
            await first
        assert not second.done()
        go_on.set()
        return caught.value.kind, (await second)[0].text

    try:
        assert ("timeout", "Oslo") == asyncio.run(session())
    finally:
        go_on.set()


def test_time_out_of_the_caller_is_the_caller_s():
    """A deadline around the question ends the waiting, and is not told as the model's."""
    go_on = threading.Event()

    async def session() -> None:
        async with asyncio.timeout(0.05):
            await model(lambda _: go_on.wait(60) and "Oslo").complete(request())

    try:
        with pytest.raises(TimeoutError):
            asyncio.run(session())
    finally:
        go_on.set()


def test_the_temperature_is_left_out_last() -> None:
    """A refusal of two options together costs the one without an effect."""
    asked: list[dict[str, Any]] = []

    def ask(wanted: ChatRequest) -> str:
        asked.append(dict(wanted.sampling))
        if {"temperature", "top_p"} <= wanted.sampling.keys():
            raise JudgeRejectedError("`temperature` and `top_p` cannot both be specified")
        return "Oslo"

    complete(model(ask), sampling={"temperature": 1.0, "top_p": 1.0})
    assert [{"temperature": 1.0, "top_p": 1.0}, {"temperature": 1.0}] == asked


def test_options_that_are_refused_are_left_out():
    """Options that a refusal names are left out and remembered; other refusals are errors."""
    asked: list[set[str]] = []

    def ask(each: ChatRequest) -> str:
        asked.append({*each.sampling, *(["logprobs"] if each.top_logprobs else [])})
        for name in ("seed", "logprobs"):
            if name in asked[-1]:
                raise StatusError(f"{name} is not supported", status_code=400)
        return "Oslo"

    made = model(ask)
    for _ in range(2):
        complete(made, sampling={"seed": 1, "temperature": 0.0}, top_logprobs=5)
    assert [{"seed", "temperature", "logprobs"}, {"temperature", "logprobs"}, {"temperature"}, {"temperature"}] == asked
    with pytest.raises(JudgeRejectedError):
        complete(raising(StatusError("seed is not supported", status_code=400)), sampling={"temperature": 0.0})


def logprobs(each: ChatRequest, *, processed: bool) -> Completion:
    """A reply with log-probabilities, as they are or as the temperature makes them."""
    if not each.top_logprobs:
        return Completion(text="yes")
    heat = each.sampling["temperature"] if processed else 1.0
    top = (("yes", -0.1 / heat), ("no", -3.0 / heat))
    return Completion(text="yes", tokens=(TokenLogprobs(text="yes", logprob=top[0][1], top=top),))


def measured(ask: Callable[[ChatRequest], Any]) -> Any:
    """What such a model can do."""
    return asyncio.run(model(ask).capabilities())


def test_capabilities_are_measured():
    """Whether log-probabilities come, and are the model's own, is seen from replies; and it tells no exact ones."""
    raw = measured(lambda each: logprobs(each, processed=False))
    assert (2, True, None, False, "first_token") == (
        raw.top_logprobs, raw.logprobs_raw, raw.exact_route, raw.reasons, raw.estimator
    )  # fmt: skip
    processed = measured(lambda each: logprobs(each, processed=True))
    assert (False, "monte_carlo") == (processed.logprobs_raw, processed.estimator)
    none = measured(lambda _: "yes")
    assert (0, None, "monte_carlo") == (none.top_logprobs, none.logprobs_raw, none.estimator)


@pytest.mark.parametrize(
    "reply",
    ["<think>hm</think>yes", "<think>hm", Completion(text="", finish="length")],
    ids=["closed", "open", "unseen"],
)
def test_reasoning_is_seen(reply):
    """A model that thinks aloud, or out of sight, has first tokens that say nothing."""
    assert measured(lambda _: reply).reasons


def test_long_reply_is_no_reasoning():
    """A chatty model that is cut short says something from its first token on."""
    assert not measured(lambda _: Completion(text="Yes, of course, and", finish="length")).reasons


def test_log_probabilities_that_come_at_times_are_none():
    """Where they come at one temperature and not at another, nothing can be built on them."""
    found = measured(
        lambda each: logprobs(each, processed=False) if each.sampling["temperature"] < 1 else Completion(text="yes")
    )
    assert (0, None) == (found.top_logprobs, found.logprobs_raw)


def test_refused_options_are_no_obstacle_to_measuring():
    """A model that takes neither temperature nor log-probabilities is measured all the same."""

    def ask(each: ChatRequest) -> str:
        for name in ("temperature", "logprobs"):
            if name in each.sampling or (name == "logprobs" and each.top_logprobs):
                raise StatusError(f"{name}: no", status_code=400)
        return "yes"

    found = measured(ask)
    assert (("logprobs", "temperature"), 0, None) == (
        found.refused_parameters, found.top_logprobs, found.logprobs_raw
    )  # fmt: skip


def test_capabilities_are_measured_once():
    """Who asks at the same time waits for one measurement; `fresh` measures again."""
    asked: list[ChatRequest] = []
    made = model(lambda each: asked.append(each) or "yes")

    async def session() -> None:
        await asyncio.gather(*(made.capabilities() for _ in range(5)))

    asyncio.run(session())
    n = len(asked)
    asyncio.run(made.capabilities(fresh=True))
    assert 2 * n == len(asked)


def test_a_function_is_a_plain_chat_model():
    """It cannot be constrained and tells no exact probability; models behind a server do both."""
    assert isinstance(model(), ChatModel)
    assert not isinstance(model(), ConstrainedModel | ExactModel)
    for other in (OpenAICompatibleModel("http://127.0.0.1:1/v1"), ScriptedModel({"70": 1.0})):
        assert isinstance(other, ConstrainedModel)
        assert isinstance(other, ExactModel)


@pytest.mark.parametrize("score_mode", ["single", "expected"])
def test_a_judge_asks_a_function_in_words(score_mode):
    """A reply without a number is asked for once more; exact probabilities are not looked for."""
    replies = iter(["yes", "yes", "yes", "no number", "70"] if score_mode == "expected" else ["no number", "70"])
    judge = ModelJudge(model(lambda _: next(replies)), score_mode=score_mode)
    reply = asyncio.run(judge.ask_number(Prompt(construct="c", task="Rate it.", fields={})))

    method = "second_reply" if score_mode == "single" else "second_reply_no_probabilities"
    assert (70.0, method) == (reply.value, reply.method)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform has no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_forked_child_has_threads_of_its_own():
    """A model that was asked before a fork answers in the child."""
    made = model()
    complete(made)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(write, complete(made)[0].text.encode())
        finally:
            os._exit(0)
    os.close(write)
    try:
        assert b"Oslo" == os.read(read, 10)
    finally:
        os.close(read)
        os.waitpid(child, 0)


class Client(BaseModel):
    """A client's object, with settings of all kinds."""

    model_name: str = "tiny-1"
    temperature: float | None = None
    top_p: float | None = None
    seed: int | None = None
    max_output_tokens: int | None = None
    base_url: str = "https://ada:hunter22@host:81/v1?sig=abc"
    api_key: SecretStr = SecretStr("a-very-secret-key")
    auth_token: str = "tok-123456"
    default_headers: dict[str, str] = {"X-Key": "header-secret"}
    model_kwargs: dict[str, Any] = {
        "effort": "high",
        "stop": ["END"],
        "api_key": "nested-secret",
        "extra_headers": {"a": "b"},
    }
    connection: Any = None


def test_client_s_shape_holds_settings_and_no_secrets():
    """Model, host and sampling are part of the shape; keys, headers and credentials are not."""
    shape = ClientSettings(Client(temperature=0.5)).settings
    assert ("tiny-1", 0.5, "host:81/v1", {"effort": "high", "stop": ["END"]}) == (
        shape["model_name"], shape["temperature"], shape["base_url"], shape["model_kwargs"]
    )  # fmt: skip
    for secret in ("hunter22", "abc", "secret", "tok-"):
        assert secret not in repr({name: value for name, value in shape.items() if name != "client"})


def test_client_s_secrets_are_found():
    """Keys, tokens, headers and the credentials of URLs are what messages must not show; short words are not hidden."""
    secrets = ClientSettings(Client()).secrets
    assert {"a-very-secret-key", "tok-123456", "header-secret", "hunter22"} == set(secrets)


def test_client_is_configured_on_a_copy():
    """Sampling and length are set on a copy with the same connection; what says nothing is not set."""
    client = Client(temperature=0.3, connection=object())
    sampling = {"temperature": 1.0, "top_p": 1.0, "seed": 4, "min_p": 0.0}
    made = ClientSettings(client).client_for(request(sampling=sampling))
    assert (1.0, None, 4, 5) == (made.temperature, made.top_p, made.seed, made.max_output_tokens)
    assert made.connection is client.connection
    assert (0.3, None) == (client.temperature, client.max_output_tokens)
    assert 1.0 == ClientSettings(Client(top_p=0.5)).client_for(request(sampling=sampling)).top_p


def test_client_of_another_kind_is_left_alone():
    """Of an object that is no pydantic model nothing is known but its class."""
    client = object()
    settings = ClientSettings(client)
    assert ({"client": "builtins.object"}, (), None) == (settings.settings, settings.secrets, settings.model)
    assert client is settings.client_for(request(sampling={"temperature": 1.0}))
