"""Passages that nobody judged: their share by rank, and the line that says how many count as irrelevant."""

from __future__ import annotations

import asyncio

import pytest

import ragstone
from ragstone.experiments._table import TableReader, describe_unjudged
from ragstone.metrics import resolve_metrics
from ragstone.metrics.ranking import precision
from ragstone.schema import Passage, Sample
from ragstone.testing import FakeJudge

JUDGE = FakeJudge()


def score(spec, ids, qrels=None, relevance=()):
    labels = dict(zip(ids, relevance, strict=False))
    contexts = tuple(Passage(id=id_, text=f"text of {id_}", relevance=labels.get(id_)) for id_ in ids)
    (metric,) = resolve_metrics(spec)
    return asyncio.run(metric.score(Sample(id="s", query="q", contexts=contexts, qrels=qrels), JUDGE))


@pytest.mark.parametrize(
    ("spec", "ids", "qrels", "value"),
    [
        ("judged_share@5", "vwxyz", {"a": 1.0}, 0.0),
        ("judged_share@5", "axbyc", {"a": 1.0, "b": 0.0, "d": 2.0}, 0.4),
        ("judged_share@2", "xabc", {"a": 0.0, "b": 1.0}, 0.5),
        ("judged_share@4", "ab", {"a": 0.0, "b": -1.0}, 0.5),
        ("judged_share", "ab", {"a": 0.0, "b": 1.0}, 1.0),
        ("judged_share@3", "aab", {"a": 1.0, "b": 1.0}, 2 / 3),
    ],
)
def test_the_share_of_judged_ranks(spec, ids, qrels, value):
    """Any grade counts: it is precision with a threshold below all grades."""
    assert score(spec, ids, qrels).value == pytest.approx(value)
    k = int(spec.partition("@")[2] or 0) or None
    assert precision(list(ids), qrels, k=k, threshold=-10) == pytest.approx(value)


def test_labels_of_the_passages_and_no_labels():
    """The share of labeled passages. Without any label of any kind it is not known."""
    assert 0.5 == score("judged_share@4", "abcd", relevance=(1.0, None, 0.0, None)).value
    assert "not_applicable" == score("judged_share@4", "abcd").outcome


def row(n, ids, qrels):
    return {"id": str(n), "query": "q", "contexts": [{"id": i, "text": f"text {i}"} for i in ids], "qrels": qrels}


def test_evaluate_says_how_many_passages_are_not_judged():
    """Top-5 all unjudged had precision 0.000 without a word."""
    rows = [row(0, "vwxyz", {"a": 1}), row(1, "abxyz", {"a": 1, "b": 0}), row(2, "abcde", dict.fromkeys("abcde", 1))]
    result = ragstone.evaluate(rows, ["precision@5", "precision@1"])
    (line,) = [note for note in result.notes() if "do not have a grade" in note]
    assert line.startswith(
        "8 of 15 passages in the top ranks of precision@5 do not have a grade and count as irrelevant, in 1 of 3 samples"
    )
    assert "judged_share@5" in line
    assert line in str(result)
    assert line in result.to_dict()["notes"]


@pytest.mark.parametrize("metrics", [["precision@5"], ["exact_match"]])
def test_nothing_is_said_if_all_are_judged(metrics):
    """Or if no ranking metric was asked for."""
    rows = [row(0, "abcde", dict.fromkeys("abcde", 1)) | {"response": "a", "reference": "a"}]
    assert not [note for note in ragstone.evaluate(rows, metrics).notes() if "grade" in note]


def test_report_and_compare_say_it_too():
    """Of each system, and once."""
    none = [row(n, "vwxyz", {"a": 1}) for n in range(6)]
    some = [row(n, "abxyz", {"a": 1, "b": 0}) for n in range(6)]
    old, new = (ragstone.evaluate(rows, ["precision@5"]) for rows in (none, some))
    line = "30 of 30 passages in the top ranks of precision@5 do not have a grade and count as irrelevant"
    assert [line] == [s.text[: len(line)] for s in old.report().notices if "do not have a grade" in s.text]
    compared = ragstone.compare({"old": old, "new": new})
    found = [note for note in compared.notes if "do not have a grade" in note]
    assert [f"old: {line}", f"new: {line.replace('30 of', '18 of')}"] == [note.split(", in")[0] for note in found]
    notices = [s.text for s in new.report(baseline=old).notices if "do not have a grade" in s.text]
    assert 2 == len(notices)


def test_a_replaced_outcome_does_not_count():
    """The last outcome of a sample counts, also if the first one had more ranks."""
    first, last = (ragstone.evaluate([row(0, ids, {"a": 1})], ["precision@5"]).outcomes[0] for ids in ("avwxy", "av"))
    reader = TableReader()
    for outcome in (first, last):
        reader.put(outcome)
    assert describe_unjudged(reader.table()).startswith("1 of 2 passages in the top ranks of precision@5")
