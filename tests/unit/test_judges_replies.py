"""Replies as endpoints send them, with the oddities that real ones have."""

from __future__ import annotations

import math

import pytest

from ragstone.errors import JudgeReplyError
from ragstone.judges._abstention.bound import bound
from ragstone.judges._http.replies import completions, token_ids


def reply(content):
    """A chat completion with the log-probabilities `content`."""
    text = "".join(token["token"] for token in content)
    return {"choices": [{"message": {"content": text}, "finish_reason": "stop", "logprobs": {"content": content}}]}


def padded(token, p):
    """A token as vLLM 0.32 reports it when its step was shared with a request for tokens by id."""
    listed = [{"token": token, "logprob": math.log(p)}, {"token": "<pad>", "logprob": -9999.0}]
    return {"token": token, "logprob": math.log(p), "top_logprobs": listed}


def test_padding_is_no_alternative():
    """What stands for minus infinity is left out, and the token's own value stays."""
    (completion,) = completions(reply([padded("Oslo", 0.6)]))
    assert [(("Oslo", math.log(0.6)),)] == [token.top for token in completion.tokens]


def test_padding_does_not_make_the_rest_impossible():
    """Of the 40% that are not listed all may be abstentions; the bound says so."""
    (completion,) = completions(reply([padded("Oslo", 0.6)]))
    low, _, high = bound(completion.tokens, ["NO-RESPONSE"])
    assert low <= 0.4 <= high


@pytest.mark.parametrize("value", [0.5, 710.0, 10**400, -(10**400), math.nan, math.inf, True, "-0.5", None, [-0.5]])
@pytest.mark.parametrize("place", ["own", "other"])
def test_what_is_no_log_probability_is_none(value, place):
    """A value above 0 is no certainty, and a text is no number: nothing is read from a reply that holds one."""
    token = padded("Oslo", 0.6)
    (token if place == "own" else token["top_logprobs"][1])["logprob"] = value
    (completion,) = completions(reply([token]))
    if value == -(10**400):
        assert (-math.inf if place == "own" else math.log(0.6)) == completion.tokens[0].logprob
    else:
        assert completion.tokens is None


@pytest.mark.parametrize("ids", [None, "12", [1, -1], [1, True], [1, 2.0], [1, "2"]])
def test_what_are_no_token_ids(ids):
    """They would be sent back as a prompt."""
    with pytest.raises(JudgeReplyError, match="not contain token ids"):
        token_ids({"tokens": ids})
