"""Evidence of a trace: what is in doubt is not scored, and the reason says why."""

from __future__ import annotations

import asyncio

import pytest

from ragstone.cli._output import ledger_lines
from ragstone.metrics import check_sample, resolve_metrics
from ragstone.schema import (
    Evidence,
    Ledger,
    LedgerRow,
    NotApplicable,
    Passage,
    Retrieval,
    Sample,
    Trace,
    describe_doubt,
    sample_from_trace,
)
from ragstone.scoring import Scorer
from ragstone.testing import FakeJudge

PASSAGE = Passage(text="Because.")


def trace(evidence: Evidence | None) -> Trace:
    """A trace with all that a metric needs."""
    return Trace(
        trace_id="t",
        started_at=1.0,
        query="Why?",
        response="Because.",
        retrievals=(Retrieval(passages=(PASSAGE,)),),
        evidence=evidence,
    )


def test_metric_that_needs_a_part_in_doubt_is_not_applicable() -> None:
    """The doubt is the reason; a metric that does not need the part is scored."""
    sample = sample_from_trace(trace(Evidence(contexts="in_prompt", doubts=("short_passage",))))
    with_contexts, without = resolve_metrics(["ccrs.cc", "ccrs.qr"])
    assert "contexts" in with_contexts.card.needs
    assert "contexts" not in without.card.needs

    found = check_sample(with_contexts, sample)

    assert isinstance(found, NotApplicable)
    assert found.reason.startswith("contexts in doubt: short_passage: ")
    assert check_sample(without, sample) is None


def test_scorer_does_not_ask_the_judge_about_contexts_in_doubt() -> None:
    """The rule holds for every metric, in the one place that all samples go through."""
    sample = sample_from_trace(trace(Evidence(contexts="unknown", doubts=("not_in_prompt",))))
    (outcome,) = asyncio.run(Scorer(resolve_metrics(["ccrs.cc"]), FakeJudge()).score(sample))
    assert isinstance(outcome, NotApplicable)
    assert "not_in_prompt" in outcome.reason


@pytest.mark.parametrize(
    ("evidence", "contexts"),
    [
        (None, (PASSAGE,)),
        (Evidence(contexts="found"), (PASSAGE,)),
        (Evidence(contexts="unknown"), None),
    ],
)
def test_unknown_contexts_are_not_what_was_found(
    evidence: Evidence | None, contexts: tuple[Passage, ...] | None
) -> None:
    """Without stated contexts those of the retrievals count, unless the evidence says that they are not known."""
    assert trace(evidence).prompt_contexts == contexts


def test_sample_without_evidence_is_scored_as_before() -> None:
    """Rows of datasets and older traces have no evidence."""
    sample = Sample(id="1", query="Why?", contexts=(PASSAGE,), response="Because.")
    assert all(check_sample(metric, sample) is None for metric in resolve_metrics(["ccrs.cc", "ccrs.qr"]))


def test_doubt_names_the_tool_that_it_is_about() -> None:
    """`text_tool` has the name of the tool, and its reason says what to declare."""
    reason = Evidence(doubts=("text_tool:search",)).doubt_about("contexts")
    assert reason is not None
    assert reason.startswith("text_tool:search: ")
    assert "retriever_tools" in describe_doubt("text_tool:search")


def test_status_prints_rules_and_doubts() -> None:
    """The most frequent rule comes first, and each doubt has its explanation."""
    ledger = Ledger(
        total=LedgerRow(),
        rules={"contexts": {"found": 1, "in_prompt": 12}, "query": {"input": 13}},
        doubts={"not_in_prompt": 3},
    )
    lines = ledger_lines(ledger)
    assert "contexts, by rule: 12 in_prompt, 1 found" in lines
    assert f"in doubt, not_in_prompt: 3. {describe_doubt('not_in_prompt')}" in lines
