"""Scores in Phoenix and MLflow: sent by our sinks, read back through the servers' own APIs."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from ragstone.errors import SinkNoTargetError, SinkTargetMissingError, SinkUnavailableError
from ragstone.schema import Score

pytestmark = pytest.mark.servers


def write(sink, *batches):
    """What a sink says of each batch, by the class of the error."""

    async def run():
        try:
            return [{i: type(e) for i, e in (await sink.write(batch) or {}).items()} for batch in batches]
        finally:
            await sink.aclose()

    return asyncio.run(run())


def test_a_batch_arrives_as_it_is(server, deliveries, fact):
    """Scores and failures are on the span of their request, with judge, prompt, method, interval and probability."""
    spans = server.sent(2)
    sent = [d for span in spans for d in deliveries(span)]
    assert [{}] == write(server.sink(), sent)

    seen = {s.id: s for s in server.seen(spans)}
    assert sorted(seen) == sorted(d.outcome.id for d in sent)
    for delivery in sent:
        got = seen[delivery.outcome.id]
        assert (delivery.outcome.metric, delivery.otel_span_id) == (got.name, got.span_id)
        assert getattr(delivery.outcome, "value", None) == got.value
        assert getattr(delivery.outcome, "kind", None) == got.failure
        assert (delivery.outcome.judge is not None) == got.by_model
        assert delivery.outcome.metric_version == got.facts["metric_version"]
        assert 0.25 == fact(got, "inclusion_probability")
        assert delivery.trace_id == got.facts["trace_id"]
    full = seen[sent[0].outcome.id]
    assert ("tiny at http://judge:8000/v1", "j1", "p1", "monte_carlo") == tuple(
        full.facts[name] for name in ("judge", "judge_hash", "prompt_hash", "method")
    )
    assert 8 == fact(full, "n")
    assert {"low": 0.5, "high": 0.75, "confidence_level": 0.9, "method": "wilson"} == fact(full, "interval")


def test_a_repeat_changes_nothing(server, deliveries):
    """The same batch three times, from two sinks, is there once."""
    spans = server.sent(2)
    sent = [d for span in spans for d in deliveries(span)]
    first = write(server.sink(), sent)
    once = sorted(server.seen(spans), key=lambda s: s.id)
    assert first * 2 == write(server.sink(), sent, sent)
    assert once == sorted(server.seen(spans), key=lambda s: s.id)


def test_applications_may_name_their_requests_alike(server, deliveries):
    """Two requests with the same id of ours, and traces of their own, have their own scores."""
    spans = server.sent(2)
    sent = [replace(deliveries(span)[1], outcome=deliveries(spans[0])[1].outcome) for span in spans]
    assert [{}, {}] == write(server.sink(), sent[:1], sent[1:])
    assert sorted(d.otel_span_id for d in sent) == sorted(s.span_id for s in server.seen(spans))


@pytest.mark.parametrize("changed", [{"metric_version": "3"}, {"judge_hash": "j2"}])
def test_another_version_or_judge_stands_beside(server, deliveries, changed):
    """History is not overwritten: each version of a metric, and each judge, has a score of its own."""
    spans = server.sent(1)
    score = deliveries(spans[0])[0]
    other = replace(score, outcome=score.outcome.model_copy(update={**changed, "value": 0.5}))
    write(server.sink(), [score], [other])
    assert {score.outcome.id: 0.625, other.outcome.id: 0.5} == {s.id: s.value for s in server.seen(spans)}


def test_a_score_waits_for_its_trace_and_holds_back_no_other(server, deliveries):
    """Only what has no trace yet is refused, and it arrives when the trace has."""
    spans = server.make_spans(3)
    server.send(spans[:1])
    sent = [deliveries(span)[0] for span in spans]
    early, late = sent[0].outcome.id, {d.outcome.id for d in sent[1:]}

    assert [dict.fromkeys(late, SinkTargetMissingError)] == write(server.sink(), sent)
    assert [early] == [s.id for s in server.seen(spans)]
    server.send(spans[1:])
    assert [{}] == write(server.sink(), sent)
    assert sorted([early, *late]) == sorted(s.id for s in server.seen(spans))


def test_text_stays_at_home(server, deliveries):
    """Explanations and reasons, which quote captured text, are sent only when asked for."""
    spans = server.sent(2)
    write(server.sink(), deliveries(spans[0]))
    write(server.sink(suffix="+text"), deliveries(spans[1]))
    seen = server.seen(spans)
    without = [s for s in seen if s.facts["otel_trace_id"] == deliveries(spans[0])[0].otel_trace_id]
    evidence = {
        "faithfulness": "0.625 [0.5, 0.75] (90% wilson). judge tiny at http://judge:8000/v1. monte carlo, n = 8",
        "ndcg": "1. exact",
        "coverage": "failed (timeout). judge tiny at http://judge:8000/v1",
        "accuracy": "not applicable. judge tiny at http://judge:8000/v1",
    }
    assert "SECRET" not in repr(without)
    assert evidence == {s.name: s.words for s in without}
    words = {
        "faithfulness": "The answer says SECRET.",
        "coverage": "no answer on SECRET",
        "accuracy": "no reference on SECRET",
    }
    assert {name: f"{words[name]}\n\n{line}" if name in words else line for name, line in evidence.items()} == {
        s.name: s.words for s in seen if s not in without
    }


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("<script>alert(1)</script>\u202e'; DROP TABLE spans; --\r\n\t\x1b[31m", None),
        ("half \ud83d of a pair", "half ? of a pair"),
        ("a\0b", "a\ufffdb"),
        ("\u5b57" * 1_000_000, "\u5b57" * 15_000),
    ],
    ids=["markup", "surrogate", "nul", "huge"],
)
def test_hostile_text_arrives_as_text(server, deliveries, text, kept):
    """What no server can store is replaced, what is too long is cut, and the batch arrives."""
    spans = server.sent(1)
    score = deliveries(spans[0])[0]
    hostile = replace(score, outcome=score.outcome.model_copy(update={"explanation": text}))
    assert [{}] == write(server.sink(suffix="+text"), [hostile, *deliveries(spans[0])[1:3]])
    seen = {s.name: s.words for s in server.seen(spans)}
    assert 3 == len(seen)
    assert seen["faithfulness"].startswith(text if kept is None else kept)
    assert len(seen["faithfulness"]) <= 16_000


@pytest.mark.parametrize(
    "place", [{"otel_sampled": False}, {"otel_trace_id": None}, {"otel_trace_id": "0x" + 30 * "_"}]
)
def test_a_request_without_a_trace_has_no_place(server, deliveries, place):
    """A score of a request that no tracing tool has is left out, although the span is there."""
    spans = server.sent(1)
    sent = deliveries(spans[0], **place)
    assert [dict.fromkeys((d.outcome.id for d in sent), SinkNoTargetError)] == write(server.sink(), sent)
    assert [] == server.seen(spans)


def test_a_wrong_address_loses_nothing(server, deliveries):
    """Where the server is, but not its API, an outcome waits for someone to repair the address."""
    sink, (delivery, *_) = server.sink(path="/nowhere"), deliveries(server.make_spans(1)[0])

    async def run():
        # One tells of the row, the other of the batch.
        try:
            return (await sink.write([delivery]))[delivery.outcome.id]
        except SinkUnavailableError as error:
            return error
        finally:
            await sink.aclose()

    error = asyncio.run(run())
    assert SinkUnavailableError is type(error)
    assert "Check the URL" in str(error)


def test_a_large_batch_arrives(server, deliveries):
    """As many outcomes as the outbox hands over at once, and more than a request to Phoenix holds."""
    spans = server.sent(1)
    score = deliveries(spans[0])[0]
    sent = [
        replace(score, outcome=score.outcome.model_copy(update={"metric_version": str(i)}))
        for i in range(1100 if server.kind == "phoenix" else 200)
    ]
    assert [{}] == write(server.sink(), sent)
    assert sorted(d.outcome.id for d in sent) == sorted(s.id for s in server.seen(spans))


@pytest.mark.parametrize("server", ["phoenix"], indirect=True)
def test_failures_leave_averages_alone_in_phoenix(server, deliveries):
    """The mean that Phoenix shows is that of the scores."""
    spans = server.sent(3)
    about = {"sample_id": "s", "metric": "coverage", "metric_version": "1"}
    sent = [
        replace(d, outcome=Score(value=value, method="exact", **about | {"sample_id": str(value)}))
        for span, value in zip(spans, (0.25, 0.75), strict=False)
        for d in deliveries(span)[:1]
    ]
    write(server.sink(), [*sent, deliveries(spans[2])[2]])
    query = '{ projects { edges { node { name spanAnnotationSummary(annotationName: "coverage") { meanScore } } } } }'
    projects = server.post("/graphql", {"query": query})["data"]["projects"]["edges"]
    (mean,) = [p["node"]["spanAnnotationSummary"] for p in projects if p["node"]["name"] == server.project]
    assert {"meanScore": 0.5} == mean


@pytest.mark.parametrize("server", ["mlflow"], indirect=True)
def test_traces_are_found_by_score_in_mlflow(server, deliveries):
    """MLflow's search knows the score as a number."""
    spans = server.sent(2)
    low = deliveries(spans[0])[0]
    low = replace(low, outcome=low.outcome.model_copy(update={"value": 0.125}))
    write(server.sink(), [low, deliveries(spans[1])[0], deliveries(spans[0])[2]])
    found = server.search("feedback.faithfulness > 0.5")
    assert [f"tr-{deliveries(spans[1])[0].otel_trace_id}"] == [trace["trace_id"] for trace in found]
