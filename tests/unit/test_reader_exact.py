"""Exact probabilities of abstentions: against scripts whose probabilities are known, in this process and over HTTP."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fake_servers import FakeModelServer
from ragstone.errors import ConfigurationError, JudgeError, JudgeReplyError
from ragstone.judges import Capabilities, ChatReader, OpenAICompatibleModel
from scripted_model import ScriptedModel

# "badge" answers start with the phrase's own first tokens.
REPLIES = {"NO-RESPONSE": 0.3, " NO-RESPONSE.": 0.05, "\nNO-RESPONSE": 0.05, "NO-Kappa": 0.4, "Norway": 0.2}


def read(model, **options):
    return asyncio.run(
        ChatReader(model, estimator="exact_sequence", **options).estimate_abstention("Where?", ["In Oslo."])
    )


def over_http(script, route, *, dialect="vllm", reader=None, **changes):
    """What a reader behind a fake server says, on one exact route."""

    async def ask(url):
        model = OpenAICompatibleModel(url, max_retries=0)
        model._capabilities = Capabilities(model="m", exact_route=route, asked_tokens=128)
        try:
            return await ChatReader(model, **(reader or {})).estimate_abstention("Where?", ["In Oslo."])
        finally:
            await model.aclose()

    with FakeModelServer(script, dialect, changes=changes) as server:
        return asyncio.run(ask(server.url)), server


@pytest.mark.parametrize("split", [0.0, 0.3])
def test_the_chain_sums_every_spelling_of_the_start(split):
    """White space before the phrase and other pieces of its first token count; other answers do not."""
    reading = read(ScriptedModel(REPLIES, split=split))

    assert reading.value == pytest.approx(0.4)
    assert (reading.interval.low, reading.interval.high) == pytest.approx((0.4, 0.4), abs=2e-6)
    assert reading.complete == pytest.approx(0.35)
    assert (reading.method, reading.interval.method) == ("exact_sequence", "exact")


def test_the_chain_needs_one_request_where_nothing_else_starts_the_phrase():
    """The phrase's tokens, and the end after them, in one batch."""
    model = ScriptedModel({"NO-RESPONSE": 0.25, "Oslo": 0.75})
    reading = read(model)

    assert reading.value == pytest.approx(0.25)
    # NO - RESP ONSE and the end.
    # The other call draws a reply, which shows if the model declines in another form.
    assert (1 + reading.n_drawn, 5) == (reading.usage.calls, model.rows)


def test_a_negligible_spelling_widens_the_interval():
    """It is not followed, and what it may hold is added at the upper end."""
    reading = read(ScriptedModel({"NO-RESPONSE": 0.5, "Oslo": 0.5}, split=1e-6))

    assert 0.5 * (1 - 1e-6) == pytest.approx(reading.interval.low, abs=1e-12)
    assert reading.interval.low == reading.value
    assert 0.5 == pytest.approx(reading.interval.high, abs=1e-12)
    assert reading.interval.high > reading.interval.low


def test_a_forced_reply_has_the_tokenisers_own_spelling():
    """The route that takes a reply as a text reads that one."""
    reading = read(ScriptedModel(REPLIES, split=0.5, exact_route="echo"))

    assert (reading.value, reading.complete) == pytest.approx((0.15, 0.15))


def test_several_phrases_are_summed_and_none_is_counted_twice():
    """A phrase that continues another is a part of it; the complete replies are told apart."""
    replies = {"UNKNOWN": 0.1, "NO-RESPONSE": 0.2, "NO-RESPONSE AT ALL": 0.3, "Oslo": 0.4}
    for route in ("chain", "echo"):
        reading = read(
            ScriptedModel(replies, exact_route=route), abstention=["NO-RESPONSE", "NO-RESPONSE AT ALL", "UNKNOWN"]
        )

        assert (0.6, 0.6) == pytest.approx((reading.value, reading.complete))


@given(
    st.dictionaries(
        st.sampled_from(
            [
                "NO-RESPONSE",
                " NO-RESPONSE",
                "NO-RESPONSE.",
                "NO-Kappa",
                "NO",
                "N",
                "Oslo",
                "",
                "NO-RESP",
                "\n\nNO-RESPONSE",
            ]
        ),
        st.floats(0.001, 1),
        min_size=1,
    ),
    st.sampled_from([0.0, 0.01, 0.5]),
)
@settings(max_examples=60, deadline=None)
def test_the_chain_agrees_with_any_script(weights, split):
    """Value and complete are the script's own sums, but for what is too rare to be followed."""
    total = sum(weights.values())
    replies = {text: weight / total for text, weight in weights.items()}
    reading = read(ScriptedModel(replies, split=split))

    # Ways that are taken less often than once in 100,000 replies, all together, are not followed to their ends.
    assert sum(p for text, p in replies.items() if text.strip().startswith("NO-RESPONSE")) == pytest.approx(
        reading.value, abs=2e-5
    )
    assert sum(p for text, p in replies.items() if text.strip() == "NO-RESPONSE") == pytest.approx(
        reading.complete, abs=2e-5
    )


@pytest.mark.parametrize("route", ["chain", "echo"])
def test_over_http_as_in_the_process(route):
    """Token-id prompts and echoed completions give the script's probabilities."""
    here = read(ScriptedModel(REPLIES, split=0.2, exact_route=route))
    there, _ = over_http(ScriptedModel(REPLIES, split=0.2), route)

    assert (here.value, here.complete) == pytest.approx((there.value, there.complete))
    assert (here.interval.low, here.interval.high) == pytest.approx((there.interval.low, there.interval.high))


def test_the_tokeniser_is_asked_once():
    """Spellings of the phrase are the same for every passage; the conversation alone is new."""

    async def ask(url):
        model = OpenAICompatibleModel(url)
        model._capabilities = Capabilities(model="m", exact_route="chain", asked_tokens=128)
        reader = ChatReader(model)
        await asyncio.gather(*(reader.estimate_abstention("Where?", [f"In {n}."]) for n in range(5)))
        n_first = len(server.paths)
        await reader.estimate_abstention("Where?", ["In Oslo."])
        await model.aclose()
        return server.paths[n_first:]

    with FakeModelServer(ScriptedModel({"NO-RESPONSE": 0.25, "Oslo": 0.75})) as server:
        server.paths = []
        answer = server._answer

        async def recorded(request):
            server.paths.append(request.path)
            return await answer(request)

        server._answer = recorded
        assert ["/tokenize", "/v1/completions"] == asyncio.run(ask(server.url))


def test_many_tokens_are_asked_for_in_several_requests():
    """A request takes 128 token ids, whatever the number of prompts; each prompt still gets what it wants."""
    alphabet = [chr(0x4E00 + i) for i in range(300)]
    script = ScriptedModel(dict.fromkeys(alphabet, 1 / 300))

    async def ask(url):
        model = OpenAICompatibleModel(url)
        prompt = await model.chat_ids([{"role": "user", "content": "Which?"}])
        ids = [(await model.text_ids(letter))[0] for letter in alphabet]
        with_first = [*prompt, ids[0]]
        rows = await model.next_logprobs([prompt, with_first, prompt], [ids, [await model.end_id()], ids[:3]])
        await model.aclose()
        return ids, rows

    with FakeModelServer(script) as server:
        ids, rows = asyncio.run(ask(server.url))

    assert [set(ids), 1, set(ids[:3])] == [set(rows[0]), len(rows[1]), set(rows[2])]
    assert {-5.703782} == {round(value, 6) for value in rows[0].values()}
    assert [0.0] == pytest.approx(list(rows[1].values()))


@pytest.mark.parametrize(
    ("dialect", "route", "error", "message"),
    [
        ("sglang", "chain", JudgeReplyError, "did not send the requested"),
        ("openai", "chain", JudgeError, "404"),
        ("openai", "echo", JudgeError, "404"),
        ("llamacpp", "echo", JudgeReplyError, "is missing"),
    ],
)
def test_what_an_endpoint_does_not_tell_is_an_error(dialect, route, error, message):
    """No number is made up for what did not come."""
    with pytest.raises(error, match=message):
        over_http(ScriptedModel(REPLIES), route, dialect=dialect)


@pytest.mark.parametrize("route", ["chain", "echo"])
@pytest.mark.parametrize("noise", [0.5, 1000.0])
def test_values_above_zero_are_no_certainty(route, noise):
    """A log-probability above 0 is nonsense, and no number is made of it."""
    with pytest.raises(JudgeReplyError, match=r"did not send the requested|is missing"):
        over_http(ScriptedModel({"NO-RESPONSE": 0.99, "Oslo": 0.01}), route, exact_noise=noise)


def test_probabilities_of_one_token_cannot_exceed_one():
    """Each value may be one by itself; together they are none."""
    script = ScriptedModel(dict.fromkeys(["NO-RESPONSE", " NO-RESPONSE", "\nNO-RESPONSE", "Oslo"], 0.25))
    with pytest.raises(JudgeReplyError, match="add up to"):
        over_http(script, "chain", exact_noise=0.69)


class Wrapping(ScriptedModel):
    """A chat template that puts brackets around what the assistant said."""

    def turns(self, messages, *, reply=True, open_end=False):
        wrapped = [{**m, "content": f"[{m['content']}]"} if m["role"] == "assistant" else dict(m) for m in messages]
        return super().turns(wrapped, reply=reply, open_end=open_end)


def test_no_end_is_known_where_the_template_changes_the_reply():
    """Then token-id prompts still read the start, and the probability of the complete reply is not told."""
    reading, _ = over_http(Wrapping({"NO-RESPONSE": 0.25, "Oslo": 0.75}), "chain")

    assert 0.25 == pytest.approx(reading.value)
    assert reading.complete is None


def test_what_cannot_be_read_exactly_is_said_in_advance():
    """With the estimator demanded, and on an endpoint that cannot: why, and what would work."""
    model = ScriptedModel(REPLIES, exact_route=None, top_logprobs=0)
    reader = ChatReader(model, estimator="exact_sequence")

    for ask in (reader.prepare, lambda: reader.estimate_abstention("Where?", ["In Oslo."])):
        with pytest.raises(ConfigurationError, match=r"does not provide the probability .* Use 'monte_carlo'"):
            asyncio.run(ask())


@pytest.mark.parametrize("route", ["chain", "echo"])
def test_a_longer_phrase_with_tokens_of_its_own_is_no_part_of_the_shorter(route):
    """The phrase "Not found" begins with the letters of "No" and with another token: neither holds the other."""
    reading = read(
        ScriptedModel({"No": 0.1, "Not found": 0.2, "Norway": 0.7}, exact_route=route), abstention=["No", "Not found"]
    )

    assert (0.3, 0.3) == pytest.approx((reading.value, reading.complete))


@pytest.mark.parametrize("route", ["chain", "echo"])
def test_phrases_of_as_many_tokens_are_two(route):
    """One token each, and as likely: still two."""
    reading = read(ScriptedModel({"No": 0.2, "Not": 0.2, "Norway": 0.6}, exact_route=route), abstention=["No", "Not"])

    assert (0.4, 0.4) == pytest.approx((reading.value, reading.complete))


@pytest.mark.parametrize("route", ["chain", "echo"])
def test_a_reply_may_end_the_phrase_with_another_mark(route):
    """A full stop in the phrase is not waited for: drawn replies are looked at without it as well."""
    replies = {"I do not know.": 0.3, "I do not know": 0.1, "I do not know, sorry": 0.05, "I do what I can": 0.55}
    reading = read(ScriptedModel(replies, exact_route=route), abstention="I do not know.")

    assert 0.45 == pytest.approx(reading.value)
    assert 0.3 == pytest.approx(reading.complete)


def test_other_spellings_may_leave_out_the_mark_too():
    """What counts for the tokeniser's own spelling counts for those that are followed."""
    replies = {"NO ANSWER.": 0.3, "NO ANSWER, sorry": 0.2, "NO WAY": 0.5}
    reading = read(ScriptedModel(replies, split=0.5), abstention="NO ANSWER.")

    assert (0.5, 0.3) == pytest.approx((reading.value, reading.complete))
