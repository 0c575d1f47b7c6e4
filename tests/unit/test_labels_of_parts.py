"""Labels of claims, sub-questions, and passages and sub-questions, compared one by one with the verdicts of a judge."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from sklearn import metrics as sklearn_metrics

import ragstone
from command_line import run_command
from ragstone.errors import DataError
from ragstone.experiments import add_labels
from ragstone.metrics import MetricBase
from ragstone.stats import estimate_mean
from ragstone.testing import FakeJudge
from ragstone_lab import judge_card, validate_metrics

N, QUESTIONS, PASSAGES = 12, 4, 3


def rating_of(question: str, passage: str) -> int:
    """Return the rating that the judge gives."""
    return random.Random(f"{question}/{passage}").choice([0, 1, 2, 3, 5])


def people_of(question: str, passage: str) -> int:
    """Return the rating that a person gives: often a higher one, sometimes a lower one."""
    own = random.Random(f"people/{question}/{passage}")
    return max(0, min(5, rating_of(question, passage) + own.choice([-1, 0, 0, 1, 2])))


def ratings(prompt: Any) -> dict[str, int]:
    """Reply of the judge about one passage."""
    questions = enumerate(prompt.fields["sub_questions"], 1)
    return {str(n): rating_of(question, prompt.fields["evidence"]) for n, question in questions}


ROWS = [
    {
        "id": f"s{i}",
        "query": f"Q{i}?",
        "contexts": [{"id": f"p{j}", "text": f"passage {i}.{j}"} for j in range(PASSAGES)],
        "response": f"passage {i}.0",
        "sub_questions": [f"q{i}.{k}?" for k in range(QUESTIONS)],
    }
    for i in range(N)
]
PAIRS = [
    {
        "id": f"s{i}",
        "sub_question": f"q{i}.{k}?",
        "passage_id": f"p{j}",
        "label": people_of(f"q{i}.{k}?", f"passage {i}.{j}"),
        "rater": "ann",
    }
    for i in range(N)
    for k in range(QUESTIONS)
    for j in range(PASSAGES - 1)
]
EXPECTED = [
    (row["label"] >= 3, rating_of(row["sub_question"], f"passage {row['id'][1:]}.{row['passage_id'][1:]}") >= 3)
    for row in PAIRS
]


def agreement(labels: Any, metric: str = "crux.coverage", **options: Any) -> Any:
    """Return the only agreement of the scores of a fake judge with labels."""
    scored = ragstone.evaluate(ROWS, [metric], judge=FakeJudge(json=ratings))
    (found,) = validate_metrics(scored, labels=labels, n_resamples=50, **options).labels
    return found


def test_passages_and_sub_questions_as_in_the_appendix_of_crux() -> None:
    """Precision and recall for answerable and unanswerable are those of scikit-learn, with the samples as clusters."""
    found = agreement(PAIRS, label_range=(0, 5))
    people, judge = ([*side] for side in zip(*EXPECTED, strict=True))
    (tn, fp), (fn, tp) = sklearn_metrics.confusion_matrix(people, judge)
    errors = found.errors
    assert (tp, fp, fn, tn) == (
        errors.n_true_positive, errors.n_false_positive, errors.n_false_negative, errors.n_true_negative
    )  # fmt: skip
    precision, recall, _, _ = sklearn_metrics.precision_recall_fscore_support(people, judge, labels=[True, False])
    assert [*precision] == pytest.approx([errors.precision.value, errors.negative_precision.value])
    assert [*recall] == pytest.approx([errors.sensitivity.value, errors.specificity.value])
    assert ("crux.coverage by passage and sub-question", len(PAIRS)) == (found.name, found.n)
    assert N * QUESTIONS * (PASSAGES - 1) == found.n
    # Each passage without a label is a part without a label, not an answer.
    assert N * QUESTIONS == found.n_unlabeled
    assert all(estimate.low < estimate.value < estimate.high for estimate in (errors.precision, errors.sensitivity))


def test_the_parts_of_a_sample_are_a_cluster() -> None:
    """The interval is that of a share over clusters, not over parts."""
    rows = [(row["id"], judge) for row, (person, judge) in zip(PAIRS, EXPECTED, strict=True) if person]
    values = [float(judge) for _, judge in rows]
    of_samples = estimate_mean(values, low=0, high=1, clusters=[id_ for id_, _ in rows])
    found = agreement(PAIRS, label_range=(0, 5)).errors.sensitivity
    assert (of_samples.low, of_samples.high) == pytest.approx((found.low, found.high))
    assert estimate_mean(values, low=0, high=1).low != pytest.approx(found.low)


def test_a_scale_that_is_not_stated() -> None:
    """Ratings above 1 are ratings from 0 to 5, and yes and no are compared with the threshold."""
    assert (0, 5) == agreement(PAIRS).label_range
    words = [{**row, "label": "yes" if row["label"] >= 3 else "no"} for row in PAIRS]
    found, stated = agreement(words).errors, agreement(PAIRS, label_range=(0, 5)).errors
    assert (stated.n_true_positive, stated.n_false_negative) == (found.n_true_positive, found.n_false_negative)


def test_labels_of_parts_that_the_judge_did_not_rate_are_counted() -> None:
    """A passage or a sub-question that is not known, and what the data had rated before."""
    unknown = [{**PAIRS[0], "passage_id": "other"}, {**PAIRS[1], "sub_question": "Other?"}]
    found = agreement([*PAIRS[2:], *unknown], label_range=(0, 5))
    assert (len(PAIRS) - 2, 2) == (found.n, found.n_unknown)


def test_labels_of_sub_questions_of_the_response() -> None:
    """The first task of CRUX: is a sub-question answered by the response?"""
    labels = [
        {"id": row["id"], "sub_question": question.upper(), "label": "yes" if n % 2 else "no"}
        for row in ROWS
        for n, question in enumerate(row["sub_questions"])
    ]
    scored = ragstone.evaluate(ROWS, ["crux.response_coverage"], judge=FakeJudge(json=ratings))
    whole, parts = validate_metrics(scored, labels=labels, n_resamples=50).labels
    assert ("answer", "sub-question") == (whole.level, parts.level)
    assert (N, N * QUESTIONS) == (whole.n, parts.n)


def claims_of(prompt: Any) -> Any:
    """Two claims of each response, of which passages support the first."""
    if prompt.construct == "claims":
        return {"items": [f"First of {prompt.fields['text']}.", f"Second of {prompt.fields['text']}."]}
    return {"1": 1, "2": 0}


@pytest.mark.parametrize("form", ["rows", "lists"])
def test_labels_of_claims(form: str) -> None:
    """A row for each claim, or a list of claims in their order; a person supports both of every second answer."""
    marks = [[1, i % 2] for i in range(N)]
    if form == "rows":
        labels: list[dict[str, Any]] = [
            {"id": f"s{i}", "claim": f"{name} of passage {i}.0.", "label": mark}
            for i in range(N)
            for name, mark in zip(("First", "Second"), marks[i], strict=True)
        ]
        columns = []
    else:
        labels = [{"id": f"s{i}", "claims": [{"label": mark} for mark in marks[i]]} for i in range(N)]
        columns = ["claims.label"]
    scored = ragstone.evaluate(ROWS, ["ragas.faithfulness"], judge=FakeJudge(json=claims_of))
    found = validate_metrics(
        scored, labels=labels, label_columns=[f"{name}=ragas.faithfulness" for name in columns], n_resamples=50
    )
    parts = next(each for each in found.labels if each.level == "claim").errors
    assert (N, 0, N // 2, N // 2) == (
        parts.n_true_positive, parts.n_false_positive, parts.n_false_negative, parts.n_true_negative
    )  # fmt: skip


def test_a_judge_card_of_passages_and_sub_questions(tmp_path: Path) -> None:
    """The card asks the judge and shows the numbers of the parts, in text and JSON."""
    card = judge_card(
        PAIRS, ROWS, judge=FakeJudge(json=ratings), metrics="crux.coverage", conditions=(), n_resamples=50,
        label_range=(0, 5),
    )  # fmt: skip
    (report,) = card.judges[0].metrics
    assert report.agreement is None
    assert len(PAIRS) == report.parts.n
    assert "crux.coverage by passage and sub-question" in str(card)
    assert "precision: correct of those it calls correct" in str(card)
    parts = json.loads(json.dumps(card.to_dict()))["judges"][0]["metrics"][0]["parts"]
    assert report.parts.errors.precision.value == parts["errors"]["precision"]["value"]


def test_a_store_refuses_ratings_of_passages(tmp_path: Path) -> None:
    """Their mean is no label of an answer; the error says where to compare them."""
    monitor = ragstone.Monitor(store=tmp_path / "s.db", judge="lexical", metrics=["ccrs.qr"], scoring="none")
    with monitor.request("Q?") as request:
        request.answer("A")
    monitor.close()
    assert 0 == run_command("worker", tmp_path / "s.db", "--until-idle").returncode
    with pytest.raises(
        DataError, match=r"a rating of a passage is not a label of one answer\. Use `ragstone lab judge-card"
    ):
        add_labels(tmp_path / "s.db", PAIRS, author="ann", label_range=(0, 5))


def test_command(tmp_path: Path) -> None:
    """The scores of a file with labels of passages and sub-questions."""
    ragstone.evaluate(ROWS, ["crux.coverage"], judge=FakeJudge(json=ratings)).to_jsonl(tmp_path / "out.jsonl")
    (tmp_path / "labels.jsonl").write_text("\n".join(map(json.dumps, PAIRS)), encoding="utf-8")
    arguments = [tmp_path / "out.jsonl", "--labels", tmp_path / "labels.jsonl", "--set", "research.label_range=0,5"]
    done = run_command("lab", "validate-metrics", *arguments, "--set", "analysis.n_resamples=50")
    assert 0 == done.returncode, done.stderr
    assert "crux.coverage by passage and sub-question" in done.stdout


def test_details_of_another_form_have_no_parts() -> None:
    """A metric of another package may list claims as texts; labels of claims are then compared as their mean."""

    class Listed(MetricBase):
        name, needs = "acme.listed", ("response",)

        async def compute(self, sample: Any, judge: Any) -> Any:
            return self.make_score(
                sample, len(sample.id) / 4, method="exact", details={"claims": ["First.", "Second."]}
            )

    scored = ragstone.evaluate(ROWS, [Listed()])
    labels = [{"id": row["id"], "claim": "First.", "label": n % 2} for n, row in enumerate(ROWS)]
    assert ["answer"] == [found.level for found in validate_metrics(scored, labels=labels, n_resamples=50).labels]


def test_ids_of_labels_in_a_column_with_an_empty_cell():
    """A float is the id of the integer, and an empty one is not an id: it was the id "nan"."""
    rows = [{"id": n, "contexts": ["a"], "response": "a"} for n in range(4)]
    result = ragstone.evaluate(rows, ["token_f1", "ccrs.cc"], judge="lexical")
    labels = [{"id": float(n), "ccrs.cc": n % 2} for n in range(4)]
    assert [4] == [each.n for each in validate_metrics({"x": result}, labels=labels).labels]
    labels[1]["id"] = labels[2]["id"] = float("nan")
    with pytest.raises(DataError, match="row 2 does not have an id of a sample"):
        validate_metrics({"x": result}, labels=labels)
