"""The correlation protocol: values worked out by hand, undefined questions, pools, and what is asked."""

from __future__ import annotations

import json
import sys

import pytest

from fake_models import FakeReader
from ragstone.errors import ConfigurationError, DataError, JudgeError
from ragstone.metrics import UdcgTheta
from ragstone.reading import read_samples
from ragstone.testing import FakeJudge
from ragstone_lab import best_passages, correlate_udcg, fit_udcg, rank_udcg


def passage(text, relevance=None, **annotation):
    return {"text": text, "relevance": relevance, "metadata": {"udcg": annotation} if annotation else {}}


R, W, H = (passage("r", 1, p_abstain=0.1), passage("w", 0, p_abstain=0.9), passage("h", 0, p_abstain=0.1))


def rows_of(*graded, question="q1"):
    return [
        {"question_id": question, "query": "What?", "contexts": list(contexts), "grade": grade}
        for contexts, grade in graded
    ]


def by_name(found):
    return {m.metric: m for m in found.metrics}


def test_correlations_worked_out_by_hand():
    """Three contexts, three grades: UDCG orders all, precision ties two, and HITS sees two of three alike."""
    found = correlate_udcg(rows_of(((R, W), "correct"), ((W, W), "abstain"), ((W, H), "wrong")))
    metrics = by_name(found)
    assert 1.0 == pytest.approx(metrics["udcg"].defined.value)
    tied = 3**0.5 / 2
    for name in ("precision", "hits", "mrr", "ndcg", "map", "binary", "relevance_only"):
        assert tied == pytest.approx(metrics[name].defined.value), name
        assert 1 - tied == pytest.approx(metrics[name].difference.value), name
    assert metrics["udcg"].difference is None
    assert "erag" not in metrics
    assert {"correct": 1, "partial": 0, "abstained": 1, "wrong": 1} == found.grades


def test_questions_with_one_grade_and_constant_metrics_are_counted():
    """One grade: in no mean. A constant metric: out of the first mean, 0 in the second."""
    rows = rows_of(((R, W), 2), ((W, W), 1), ((W, H), 0), question="good")
    rows += rows_of(((R, W), 0), ((W, R), 0), question="one grade")
    rows += rows_of(((R, W), 2), ((R, H), 0), question="alike to HITS")
    found = correlate_udcg(rows)
    metrics = by_name(found)
    assert (3, 1) == (found.n_questions, found.n_one_grade)
    assert (1, 2) == (metrics["hits"].defined.n, metrics["hits"].all.n)
    assert metrics["hits"].all.value == pytest.approx(metrics["hits"].defined.value / 2)
    assert (2, 1.0) == (metrics["udcg"].defined.n, metrics["udcg"].defined.value)
    assert 2 == metrics["hits"].difference.n
    assert "questions with only one grade, undefined and excluded: 1" in str(found)


def test_ndcg_and_map_know_the_question_s_pool():
    """A context with one of two relevant passages is not ideal, although it holds no other order."""
    other = passage("r2", 1, p_abstain=0.5)
    rows = rows_of(((R, other), 2), ((R, W), 1), ((W, R), 0))
    metrics = by_name(correlate_udcg(rows))
    assert 1.0 == pytest.approx(metrics["ndcg"].defined.value)
    assert 1.0 == pytest.approx(metrics["map"].defined.value)
    assert 3**0.5 / 2 == pytest.approx(metrics["precision"].defined.value)


def test_a_repeated_passage_counts_once_in_ranking_metrics():
    """Twice the same relevant passage is no better than once, to them; UDCG takes it as the reader sees it."""
    metrics = by_name(correlate_udcg(rows_of(((R, R), 2), ((R, W), 0))))
    assert metrics["precision"].defined is None
    assert 1.0 == pytest.approx(metrics["binary"].defined.value)
    assert 1.0 == pytest.approx(metrics["udcg"].defined.value)


def test_theta_is_never_tested_on_what_it_learned():
    """Given weights are used as they are; without them each question's come from the others, and a note says so."""
    rows = []
    for question in range(8):
        rows += rows_of(((R, W), 2), ((W, W), 1), ((W, H), 0), ((H, H), 0), question=str(question))
    learned = correlate_udcg(rows)
    assert by_name(learned)["udcg_theta"].all.value > 0.9
    assert any("fitted to the other questions" in note for note in learned.notes)
    backwards = correlate_udcg(rows, theta=UdcgTheta([-1, -1], [-1, -1]))
    assert by_name(backwards)["udcg_theta"].all.value < -0.9
    assert any("with the given weights" in note for note in backwards.notes)


def test_without_scikit_learn_theta_is_left_out_with_a_note(monkeypatch):
    """The rest does not need it."""
    monkeypatch.setitem(sys.modules, "sklearn.svm", None)
    found = correlate_udcg(rows_of(((R, W), 2), ((W, W), 1)))
    assert "udcg_theta" not in by_name(found)
    assert any("ragstone-lab[fit]" in note for note in found.notes)


def test_theta_is_of_the_contexts_of_its_length():
    """Others have no value there, and the note counts them."""
    rows = [*rows_of(((R, W), 2), ((W, W), 1), ((W, H), 0)), *rows_of(((R,), 2), ((W,), 0), question="short")]
    found = correlate_udcg(rows, theta=UdcgTheta([1, 1], [1, 1]))
    theta = by_name(found)["udcg_theta"]
    assert (1, 1) == (theta.defined.n, theta.all.n)
    assert 2 == by_name(found)["udcg"].all.n
    assert any("3 of 5 contexts (those with 2 passages)" in note for note in found.notes)


def test_what_is_missing_is_asked_once_for_each_passage_of_a_question():
    """Labels, probabilities, answers and grades: each once, for ten contexts of three passages."""
    reader = FakeReader(
        lambda query, texts: 0.1 if texts == ["good"] else 0.8,
        answer=lambda query, texts: "31" if "good" in texts else "NO-RESPONSE" if "bad" not in texts else "7",
    )
    judge = FakeJudge(
        lambda prompt: float(prompt.fields["passage"] == "good"), json={"answer_grade": {"grade": "wrong"}}
    )
    contexts = [["good", "dull"], ["dull", "good"], ["dull", "dull"], ["bad", "dull"], ["bad", "good"]]
    rows = [{"query": "How tall?", "contexts": texts, "reference": "31"} for texts in contexts]
    found = correlate_udcg(rows, reader=reader, judge=judge, erag=True)
    assert {"correct": 3, "partial": 0, "abstained": 1, "wrong": 1} == found.grades
    single = [texts for _, texts in reader.asked if len(texts) == 1]
    assert sorted([("good",), ("dull",), ("bad",)] * 2) == sorted(single)
    assert 5 == len([texts for _, texts in reader.asked if len(texts) == 2])
    constructs = [prompt.construct for prompt in judge.prompts]
    # The reference answers itself, so the judge sees the other answer only.
    assert (3, 1) == (constructs.count("passage_relevance"), constructs.count("answer_grade"))
    assert by_name(found)["erag"].defined.value > 0.5


def test_rows_that_cannot_be_completed_are_counted_by_what_they_lack():
    """An unreadable passage, an answer without a reference, no passages."""
    reader = FakeReader(lambda query, texts: JudgeError("gone") if texts == ["broken"] else 0.5, answer="x")
    rows = [
        *rows_of(((R, W), 2), ((W, H), 0)),
        {"query": "Why?", "contexts": ["broken"], "grade": 1},
        {"query": "Why?", "contexts": ["fine"]},
        {"query": "Why?", "contexts": [], "grade": 1},
        {"question_id": "q", "contexts": ["fine"], "grade": 1},
    ]
    found = correlate_udcg(rows, reader=reader, judge=FakeJudge())
    assert {"no grade": 1, "no passages": 1, "no query": 1, "no utility": 1} == found.left_out
    assert found.errors[0].startswith("gone")
    assert "excluded, no grade: 1" in str(found)


def test_rows_that_cannot_be_read_are_named_without_an_option_that_is_not_there():
    """All of them are told, and what can be done here."""
    bad = [{"query": "?", "contexts": [passage("a", "perhaps")], "grade": 1}] * 2
    with pytest.raises(
        DataError, match=r"2 of 5 rows cannot be read:\n  row 4: .*'perhaps'.* \(and 1 more row\)\n"
    ) as caught:
        correlate_udcg([*rows_of(((R, W), 2), ((W, W), 1), ((W, H), 0)), *bad])
    assert "skip" not in str(caught.value)


def test_a_judge_that_answers_nobody_is_an_error():
    """Not an empty table."""
    reader = FakeReader(lambda query, texts: JudgeError("gone", kind="unavailable"))
    with pytest.raises(JudgeError, match=r"none of 1 rows could be completed.*gone") as caught:
        correlate_udcg([{"query": "Why?", "contexts": ["a"], "grade": "abstain"}], reader=reader, judge=FakeJudge())
    assert "unavailable" == caught.value.kind


def test_the_result_is_plain_json():
    """`--json` prints it."""
    found = correlate_udcg(rows_of(((R, W), 2), ((W, W), 1)))
    assert 2 == json.loads(json.dumps(found.to_dict()))["grades"]["correct"] + found.to_dict()["n_questions"]


def test_rank_moves_the_best_up_and_sets_stale_answers_aside():
    """Relevant and answered first, hard distractors last; equals keep their order."""
    reader = FakeReader(lambda query, texts: {"good": 0.1, "weak": 0.6, "calm": 0.9, "loud": 0.2}[texts[0]])
    judge = FakeJudge(lambda prompt: float(prompt.fields["passage"] in ("good", "weak")))
    row = {
        "id": "a",
        "query": "Q?",
        "contexts": ["loud", "weak", {"text": "calm", "id": "c7"}, "good"],
        "response": "old",
        "grade": "wrong",
        "tag": "kept",
    }
    (best,) = rank_udcg([row], top_k=3, reader=reader, judge=judge).rows
    assert ["good", "weak", "calm"] == [p["text"] for p in best["contexts"]]
    assert ("c7", 1, -1) == (
        best["contexts"][2]["id"],
        best["contexts"][0]["metadata"]["udcg"]["relevance"],
        best["contexts"][2]["metadata"]["udcg"]["relevance"],
    )
    assert "response" not in best
    assert "grade" not in best
    assert ("old", "wrong", "kept") == (best["response_before"], best["grade_before"], best["tag"])


def test_annotations_are_read_back_and_not_asked_again(tmp_path):
    """`rank --keep-order` once, then correlate and fit without a question; another reader is asked again."""
    reader, judge = FakeReader(lambda query, texts: 0.2 if "good" in texts[0] else 0.7), FakeJudge(1.0)
    rows = [
        {"id": f"{q}-{i}", "question_id": q, "query": f"Q{q}?", "contexts": texts, "grade": grade, "reference": "r"}
        for q in range(3)
        for i, (texts, grade) in enumerate(((["good", "dull"], 2), (["dull", "poor"], 0)))
    ]
    ranking = rank_udcg(rows, keep_order=True, rank_by="erag", reader=reader, judge=judge)
    ranking.to_jsonl(tmp_path / "a.jsonl")
    asked = (len(reader.asked), len(judge.prompts))
    found = correlate_udcg(tmp_path / "a.jsonl", erag=True, reader=reader, judge=judge)
    assert asked == (len(reader.asked), len(judge.prompts))
    assert {"correct": 3, "partial": 0, "abstained": 0, "wrong": 3} == found.grades
    assert found.to_dict()["metrics"] == correlate_udcg(tmp_path / "a.jsonl").to_dict()["metrics"]
    assert 2 == fit_udcg(tmp_path / "a.jsonl", n_resamples=20).theta.k
    other = FakeReader(0.5, name="another reader")
    correlate_udcg(tmp_path / "a.jsonl", reader=other, judge=judge)
    assert 9 == len(other.asked)
    samples, _ = read_samples(tmp_path / "a.jsonl")
    assert ["0-0", "0-1"] == [sample.id for sample in samples[:2]]


def test_whose_labels_count_is_asked_of_annotations_too(tmp_path):
    """With the judge's labels those of the data say nothing, and with the data's those of the judge."""
    rows = rows_of(
        ((passage("a", 1),), "correct"), ((passage("b", 0),), "wrong"), ((passage("c"),), "abstain"), question="q"
    )
    # The judge holds the opposite of the data.
    judge = FakeJudge(lambda prompt: float(prompt.fields["passage"] != "a"))
    rank_udcg(rows, keep_order=True, labels="judge", reader=FakeReader(0.1), judge=judge).to_jsonl(tmp_path / "a.jsonl")
    by_judge, by_data = (by_name(correlate_udcg(tmp_path / "a.jsonl", labels=mode)) for mode in ("judge", "auto"))

    assert pytest.approx(-(3**0.5) / 2) == by_judge["udcg"].defined.value
    assert pytest.approx(3**0.5 / 2) == by_data["udcg"].defined.value
    now = by_name(correlate_udcg(rows, labels="judge", reader=FakeReader(0.1), judge=judge))
    for found in (by_judge, now):
        assert found["precision"].defined.value == found["ndcg"].defined.value < 0 < by_data["ndcg"].defined.value
    with pytest.raises(ConfigurationError, match="1 of 3 rows"):
        correlate_udcg(tmp_path / "a.jsonl", labels="data")
    with pytest.raises(ConfigurationError, match="3 of 3 rows"):
        correlate_udcg(rows_of(((R,), "correct"), ((W,), "wrong"), ((H,), "wrong")), labels="judge")


def test_intervals_of_few_questions_come_with_a_warning():
    """Resampling a handful of questions gives intervals that are too narrow."""
    few = [row for q in range(3) for row in rows_of(((R,), "correct"), ((H,), "wrong"), question=f"q{q}")]
    many = [row for q in range(20) for row in rows_of(((R,), "correct"), ((H,), "wrong"), question=f"q{q}")]

    assert any("3 questions" in note for note in correlate_udcg(few).notes)
    assert any("3 questions" in note for note in fit_udcg(few).notes)
    assert not any("too narrow" in note for note in (*correlate_udcg(many).notes, *fit_udcg(many).notes))


def test_erag_of_one_reader_is_not_another_s():
    """When a passage is read again, what the old reader answered is dropped."""
    row = {"query": "Q?", "contexts": ["a"], "reference": "a"}
    (first,) = rank_udcg([row], rank_by="erag", reader=FakeReader(0.5, answer="a"), judge=FakeJudge(1.0)).rows
    assert 1.0 == first["contexts"][0]["metadata"]["udcg"]["erag"]
    (again,) = rank_udcg([first], reader=FakeReader(0.5, name="other"), judge=FakeJudge(1.0)).rows
    assert "erag" not in again["contexts"][0]["metadata"]["udcg"]


def test_passages_without_a_value_come_last_and_are_counted():
    """They are never dropped in silence."""
    reader = FakeReader(lambda query, texts: JudgeError("gone") if texts == ["a"] else 0.5)
    found = rank_udcg([{"query": "Q?", "contexts": ["a", "b"]}], reader=reader, judge=FakeJudge(0.0))
    (row,) = found.rows
    assert ["b", "a"] == [p["text"] for p in row["contexts"]]
    assert {"kind": "unavailable", "reason": "gone"} == row["contexts"][1]["metadata"]["udcg"]["error"]
    assert (2, 1) == (found.n_passages, found.n_failed)
    with pytest.raises(JudgeError, match="none of 1 passages"):
        rank_udcg([{"query": "Q?", "contexts": ["a"]}], reader=reader, judge=FakeJudge(0.0))


def test_samples_that_cannot_be_ranked_pass_through():
    """No passages, or no reference for eRAG: as they were, and counted."""
    rows = [{"id": "a", "query": "Q?", "contexts": []}, {"id": "b", "query": "Q?", "contexts": ["x", "y"]}]
    found = rank_udcg(rows, rank_by="erag", reader=FakeReader(), judge=FakeJudge())
    assert "erag" == found.to_dict()["rank_by"]
    assert 2 == found.n_unranked
    assert [{"text": "x"}, {"text": "y"}] == found.rows[1]["contexts"]


@pytest.mark.parametrize("options", [{"top_k": 0}, {"rank_by": "relevance"}, {"top_k": 2, "keep_order": True}])
def test_options_of_rank_that_cannot_work(options):
    """Before anything is asked."""
    with pytest.raises(ConfigurationError):
        rank_udcg([{"query": "Q?", "contexts": ["x"]}], **options)


def test_best_passages_break_ties_by_order():
    """A stable order; what has no score is last."""
    assert [1, 3, 0, 4, 2] == best_passages([0.5, 0.9, None, 0.9, 0.5])
    assert [1] == best_passages([0.5, 0.9], 1)
    assert [] == best_passages([])


@pytest.mark.parametrize("annotation", [{"p_abstain": 1.5}, {"p_abstain": "0.5"}, {"utility": -2}, {"p_abstain": True}])
def test_annotations_that_cannot_be_are_refused(annotation):
    """A wrong number would be believed."""
    with pytest.raises(ValueError, match="annotation"):
        correlate_udcg(rows_of(((passage("a", 1, **annotation),), 2)))


def test_a_utility_alone_is_enough():
    """Its sign is the label, its size the probability of an answer."""
    contexts = [[passage("a", utility=0.7)], [passage("b", utility=-0.7)]]
    found = correlate_udcg([{"query": "Q?", "contexts": c, "grade": g} for c, g in zip(contexts, (2, 0), strict=True)])
    assert 1.0 == pytest.approx(by_name(found)["udcg"].defined.value)


def test_a_baseline_is_named_where_it_was_used(monkeypatch):
    """Word overlap must not pass for a measurement; and what the data says is not word overlap."""
    monkeypatch.delenv("RAGSTONE_JUDGE", raising=False)
    monkeypatch.delenv("RAGSTONE_READER", raising=False)
    rows = [
        {"query": "How tall?", "contexts": [{"text": t, "relevance": 1}], "grade": g}
        for t, g in (("tall", 2), ("x", 0))
    ]
    labelled = correlate_udcg(rows, reader="lexical")
    assert ["passages were read by the lexical baseline"] == [
        n.partition(", ")[0] for n in labelled.notes if "lexical" in n
    ]
    bare = [row | {"contexts": ["tall", row["contexts"][0]["text"]]} for row in rows]
    assert 2 == len([note for note in rank_udcg(bare, reader="lexical").notes if "lexical" in note])
    assert () == rank_udcg(rows, reader=FakeReader(), judge="lexical").notes
