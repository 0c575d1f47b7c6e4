"""Replies as endpoints send them, with the oddities that real ones have."""

from __future__ import annotations

import math

from ragstone.judges._abstention.bound import bound
from ragstone.judges._http.replies import completions


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
