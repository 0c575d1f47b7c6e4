"""Criteria and reasons in the evaluator: the comment of the feedback."""

from __future__ import annotations

import pytest
from langchain_core.language_models import FakeListChatModel

import ragstone
from langchain_ragstone import LangChainJudge, RagstoneEvaluator
from ragstone.errors import ConfigurationError
from ragstone.testing import FakeJudge

INPUTS, OUTPUTS = {"question": "How tall is it?"}, {"answer": "31 meters."}
VERSION = ragstone.Criterion("Does the answer name its version?", needs=("query", "response"), name="acme.version")


def test_a_reason_asked_afterwards_is_the_comment():
    """For the worst row so far, and only for it."""
    judge = FakeJudge(lambda prompt: float("31" not in prompt.fields["response"]), text="It does not.")
    evaluator = RagstoneEvaluator(VERSION, judge=judge, reasons=1)
    found = [evaluator(inputs=INPUTS, outputs={"answer": text}) for text in ("31 meters.", "31 m", "Version 2.")]
    assert [("acme.version", 0.0), ("acme.version", 0.0), ("acme.version", 1.0)] == [
        (f["key"], f["score"]) for f in found
    ]
    assert ["It does not.", None, None] == [f["comment"] for f in found]


def test_reasons_before_the_verdict_are_the_comment():
    """Of a chat model of LangChain."""
    model = FakeListChatModel(responses=["No version is named.\nScore: 0"])
    evaluator = RagstoneEvaluator(VERSION, judge=LangChainJudge(model, score_mode="reasoned"))
    found = evaluator(inputs=INPUTS, outputs=OUTPUTS)
    assert (0.0, "No version is named.") == (found["score"], found["comment"])
    assert "reasoned" == found["metadata"]["method"]


def test_the_baseline_cannot_explain():
    """An error when the evaluator is made."""
    with pytest.raises(ConfigurationError, match="needs a model as judge"):
        RagstoneEvaluator("ccrs.qr", judge="lexical", reasons=3)
