"""Criteria and reasons in the evaluator: the feedback of the result."""

from __future__ import annotations

import asyncio

import pytest
from llama_index.core.llms import CompletionResponse, CustomLLM, LLMMetadata

import ragstone
from llama_index.evaluation.ragstone import LlamaIndexJudge, RagstoneEvaluator
from ragstone.errors import ConfigurationError
from ragstone.testing import FakeJudge

VERSION = ragstone.Criterion("Does the answer name its version?", needs=("query", "response"), name="acme.version")


class Reasoning(CustomLLM):
    """A model that always gives the same reasons and the same score."""

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(model_name="reasoning")

    def complete(self, prompt: str, formatted: bool = False, **kwargs: object) -> CompletionResponse:
        return CompletionResponse(text="No version is named.\nScore: 0")

    def stream_complete(self, prompt: str, formatted: bool = False, **kwargs: object) -> object:
        raise NotImplementedError


def results(evaluator: RagstoneEvaluator, *responses: str) -> list[tuple[float | None, str | None]]:
    """Score and feedback of each response."""
    found = [asyncio.run(evaluator.aevaluate(query="How tall is it?", response=response)) for response in responses]
    return [(one.score, one.feedback) for one in found]


def test_a_reason_asked_afterwards_is_the_feedback():
    """For the worst response so far, and only for it."""
    judge = FakeJudge(lambda prompt: float("31" not in prompt.fields["response"]), text="It does not.")
    expected = [(0.0, "It does not."), (0.0, None), (1.0, None)]
    assert expected == results(RagstoneEvaluator(VERSION, judge=judge, reasons=1), "31 meters.", "31 m", "Version 2.")
    one = RagstoneEvaluator.for_metrics(["ccrs.qr", VERSION], judge=judge, reasons=1)["acme.version"]
    assert expected[:1] == results(one, "31 meters.")


def test_reasons_before_the_verdict_are_the_feedback():
    """Of a model of LlamaIndex."""
    evaluator = RagstoneEvaluator(VERSION, judge=LlamaIndexJudge(Reasoning(), score_mode="reasoned"))
    assert [(0.0, "No version is named.")] == results(evaluator, "31 meters.")


def test_the_baseline_cannot_explain():
    """An error when the evaluator is made."""
    with pytest.raises(ConfigurationError, match="needs a model as judge"):
        RagstoneEvaluator("ccrs.qr", judge="lexical", reasons=3)
