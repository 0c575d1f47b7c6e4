"""The scripted model behind HTTP: what it says on each route is what the script says."""

from __future__ import annotations

import json
import math
import urllib.error
import urllib.request

import pytest

from fake_servers import FakeModelServer
from fake_servers.grammar import allowed_texts
from scripted_model import ScriptedModel

REPLIES = {"NO-RESPONSE": 0.25, "Oslo": 0.5, "No idea": 0.25}
ASKED = [{"role": "user", "content": "Where is it?"}]
ANSWERED = [*ASKED, {"role": "assistant", "content": "NO-RESPONSE"}]
LOG_QUARTER = math.log(0.25)


def call(url, body=None):
    """Status and JSON of a reply."""
    request = urllib.request.Request(  # noqa: S310  loopback
        url, None if body is None else json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    try:
        with urllib.request.urlopen(request, timeout=30) as reply:  # noqa: S310
            return reply.status, json.loads(reply.read())
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read())


@pytest.fixture(scope="module")
def server():
    """A vLLM server, as far as a client can see."""
    with FakeModelServer(ScriptedModel(REPLIES)) as server:
        yield server


def chat(server, **fields):
    """A chat completion of one token, when nothing else is said."""
    return call(f"{server.url}/chat/completions", {"messages": ASKED, "max_tokens": 1, **fields})


def completion(server, **fields):
    """A text completion of one token."""
    return call(f"{server.url}/completions", {"max_tokens": 1, **fields})


def tokens(server, **fields):
    """Token ids."""
    status, reply = call(f"{server.url.removesuffix('/v1')}/tokenize", fields)
    assert 200 == status
    return reply["tokens"]


@pytest.fixture(scope="module")
def ids(server):
    """Question and marker as token ids."""
    return tokens(server, messages=ASKED), tokens(server, prompt="NO-RESPONSE", add_special_tokens=False)


def test_conversations_are_tokenised_piece_by_piece(server, ids):
    """Question + marker is the prefilled chat, and a closed turn has one more token: the end."""
    prompt, marker = ids
    continued = tokens(server, messages=ANSWERED, add_generation_prompt=False, continue_final_message=True)
    closed = tokens(server, messages=ANSWERED, add_generation_prompt=False)
    assert [*prompt, *marker] == continued
    assert continued == closed[:-1]


def test_all_exact_routes_agree_with_the_script(server, ids):
    """Chain, prefilled chat, prompt log-probabilities and echo give the marker a probability of one quarter."""
    prompt, marker = ids
    n = len(marker)
    _, reply = completion(
        server,
        prompt=[[*prompt, *marker[:i]] for i in range(n)],
        logprobs=1,
        logprob_token_ids=marker,
        return_tokens_as_token_ids=True,
    )
    chain = [
        choice["logprobs"]["top_logprobs"][0][f"token_id:{token}"]
        for choice, token in zip(reply["choices"], marker, strict=True)
    ]
    _, reply = chat(
        server, messages=ANSWERED, add_generation_prompt=False, continue_final_message=True, prompt_logprobs=0
    )
    assert reply["usage"]["prompt_tokens"] == len(reply["prompt_logprobs"])
    prefilled = [next(iter(entry.values()))["logprob"] for entry in reply["prompt_logprobs"][-n:]]
    _, reply = completion(server, prompt=[[*prompt, *marker]], prompt_logprobs=0)
    prompted = [next(iter(entry.values()))["logprob"] for entry in reply["choices"][0]["prompt_logprobs"][-n:]]
    _, reply = completion(server, prompt=[*prompt, *marker], echo=True, logprobs=0, max_tokens=0)
    echoed = reply["choices"][0]["logprobs"]["token_logprobs"]
    assert echoed[0] is None
    assert echoed[-n:] == chain == prefilled == prompted
    assert pytest.approx(LOG_QUARTER) == sum(chain)


def test_drawn_token_outside_the_list_comes_first(server):
    """As on vLLM, there is one entry more than asked for when the drawn token is not among the likeliest."""
    _, reply = chat(server, logprobs=True, top_logprobs=1, n=100, temperature=1)
    lengths = {
        (choice["message"]["content"], len(choice["logprobs"]["content"][0]["top_logprobs"]))
        for choice in reply["choices"]
    }
    assert {("Oslo", 1), ("NO", 2), ("No", 2)} == lengths


def test_the_end_of_the_turn_is_reported(server):
    """The end is an entry without text."""
    _, reply = chat(server, logprobs=True, top_logprobs=1, max_tokens=9, temperature=0)
    (choice,) = reply["choices"]
    assert ("Oslo", "stop") == (choice["message"]["content"], choice["finish_reason"])
    assert ["Oslo", "<end>"] == [entry["token"] for entry in choice["logprobs"]["content"]]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"logprobs": True, "top_logprobs": 21}, "max allowed: 20"),
        ({"top_logprobs": 1}, "`logprobs` must be set"),
        ({"n": 2, "temperature": 0}, "greedy"),
        ({"max_tokens": 0}, "at least 1"),
        ({"max_tokens": 10**6}, "maximum context length"),
        ({"logprobs": True, "logprob_token_ids": list(range(129))}, "max allowed: 128"),
        ({"structured_outputs": {"regex": "["}}, "regular expression"),
        ({"structured_outputs": {"regex": "7", "choice": ["7"]}}, "one kind"),
        ({"continue_final_message": True}, "add_generation_prompt"),
    ],
)
def test_refusals(server, fields, said):
    """What vLLM refuses is refused."""
    status, reply = chat(server, **fields)
    assert 400 == status
    assert said in reply["error"]["message"]


def test_unknown_model(server):
    """Another name is no model."""
    assert 404 == chat(server, model="other")[0]


@pytest.mark.parametrize(
    ("fields", "texts"),
    [
        ({"structured_outputs": {"regex": "[7]{3}"}}, {"777"}),
        ({"structured_outputs": {"choice": ["Oslo", "zz9"]}}, {"Oslo"}),
        ({"structured_outputs": {"regex": "(No idea|NO-RESPONSE)"}}, {"No idea", "NO-RESPONSE"}),
    ],
)
def test_constraints_are_obeyed(server, fields, texts):
    """Replies are drawn from the script's distribution over what is allowed."""
    _, reply = chat(server, n=50, max_tokens=20, temperature=1, **fields)
    assert texts == {choice["message"]["content"] for choice in reply["choices"]}


def test_masked_logprobs_are_those_of_what_is_allowed(server):
    """Under a constraint the distribution is cut and renormalised before it is reported."""
    _, reply = chat(
        server, structured_outputs={"choice": ["NO-RESPONSE", "No idea"]}, logprobs=True, top_logprobs=3, temperature=0
    )
    first, second, third = reply["choices"][0]["logprobs"]["content"][0]["top_logprobs"]
    assert [pytest.approx(math.log(0.5))] * 2 == [first["logprob"], second["logprob"]]
    assert -9999.0 == third["logprob"]


@pytest.mark.parametrize(
    ("changes", "fields", "expected"),
    [
        ({}, {"temperature": 0.5}, math.log(0.5)),
        ({"processed_logprobs": True}, {"temperature": 0.5}, math.log(2 / 3)),
        ({"processed_logprobs": True}, {"temperature": 1}, math.log(0.5)),
        ({"processed_logprobs": True, "generation_config": {"temperature": 0.5}}, {}, math.log(2 / 3)),
        ({"processed_logprobs": True, "generation_config": {"top_k": 1}}, {}, 0.0),
        ({"processed_logprobs": True, "generation_config": {"top_p": 0.4}}, {"top_p": 1}, math.log(0.5)),
        ({"processed_logprobs": True}, {"min_p": 0.6}, 0.0),
    ],
)
def test_when_logprobs_are_taken(changes, fields, expected):
    """Raw ones know nothing of the sampling fields; processed ones do, and missing fields have a default."""
    with FakeModelServer(ScriptedModel(REPLIES), changes=changes) as server:
        _, reply = chat(server, logprobs=True, top_logprobs=1, **fields)
        top = reply["choices"][0]["logprobs"]["content"][0]["top_logprobs"]
    assert pytest.approx(expected) == max(entry["logprob"] for entry in top)


def test_draws_have_the_script_s_frequencies(server):
    """2,000 draws, five standard errors wide."""
    _, reply = chat(server, n=2000, max_tokens=9, temperature=1)
    share = sum(choice["message"]["content"] == "NO-RESPONSE" for choice in reply["choices"]) / 2000
    assert abs(share - 0.25) < 5 * math.sqrt(0.25 * 0.75 / 2000)


def test_seeds_start_one_stream(server):
    """One seed gives one draw, whatever the prompt, and n replies that differ."""

    def drawn(**fields):
        _, reply = chat(server, max_tokens=9, temperature=1, **fields)
        return [choice["message"]["content"] for choice in reply["choices"]]

    assert drawn(seed=1, n=12) == drawn(seed=1, n=12)
    assert len(set(drawn(seed=1, n=12))) > 1
    assert drawn(seed=1, n=12) != drawn(seed=2, n=12)
    assert drawn(n=12) != drawn(n=12)


def test_the_prefix_cache_counts_whole_blocks():
    """The second request finds all blocks but the last, begun one; prompt log-probabilities never look."""
    long = [{"role": "user", "content": "abc " * 100}]
    with FakeModelServer(ScriptedModel(REPLIES)) as server:
        cached = [
            chat(server, messages=long, **fields)[1]["usage"]["prompt_tokens_details"]["cached_tokens"]
            for fields in ({}, {}, {"prompt_logprobs": 0})
        ]
        n_tokens = len(tokens(server, messages=long))
    assert [0, (n_tokens - 1) // 16 * 16, 0] == cached


@pytest.mark.parametrize(
    ("fields", "texts"),
    [
        ({"regex": r"(100|[1-9]?[0-9])"}, {str(n) for n in range(101)}),
        ({"regex": r"\{\"score\": (1|2)\}"}, {'{"score": 1}', '{"score": 2}'}),
        ({"regex": r"a+b*c?d{2,3}"}, {"add", "addd", "acdd", "acddd"}),
        ({"regex": r"[a-c\d]"}, {*"abc0123456789"}),
        ({"json": {"type": "object", "properties": {"a": {"type": "boolean"}}}}, {'{"a": false}', '{"a": true}'}),
        ({"json": {"type": "integer", "minimum": 3, "maximum": 5}}, {"3", "4", "5"}),
    ],
)
def test_what_constraints_allow(fields, texts):
    """Constraints with few answers are listed in full."""
    assert texts == set(allowed_texts(fields))


@pytest.mark.parametrize("faults", [{"malformed_rate": 1.0}, {"truncated_rate": 1.0}, {"error_rate": 1.0}])
def test_faults(faults):
    """A malformed reply has no choices, a truncated one ends in the middle, an error is a 500."""
    with FakeModelServer(ScriptedModel({"NO-RESPONSE": 1.0}), **faults) as server:
        status, reply = chat(server, max_tokens=9)
    if "malformed_rate" in faults:
        assert (200, []) == (status, reply["choices"])
    elif "truncated_rate" in faults:
        assert "length" == reply["choices"][0]["finish_reason"]
        assert "NO-RESPONSE".startswith(reply["choices"][0]["message"]["content"])
        assert "NO-RESPONSE" != reply["choices"][0]["message"]["content"]
    else:
        assert 500 == status
