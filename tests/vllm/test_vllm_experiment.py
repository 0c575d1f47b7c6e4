"""The experiments of the UDCG paper on the tiny reader: every table in miniature, resumed after an interruption."""

from __future__ import annotations

import json
import os
import random

import pytest

from ragstone.judges import ChatReader, OpenAICompatibleModel
from ragstone.testing import FakeJudge
from ragstone_lab import plan_udcg_experiment, run_udcg_experiment

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(3600)]

N_QUESTIONS = int(os.environ.get("RAGSTONE_EXPERIMENT_QUESTIONS", "40"))
POOL = [*["gold"] * 2, *["hard"] * 6, *["weak"] * 6, *["other"] * 2, *["unrelated"] * 8]
"""What a search could find for a question, in chance order."""
PARTS = "position,k,distractors,orders,correlation,ablation,answer-prob,judges"
SETTINGS = {
    "parts": PARTS,
    "max_questions": N_QUESTIONS,
    "k_values": (1, 3, 5),
    # The tiny reader abstains, given one hard passage, in a third of the cases, and given a weak one in three quarters.
    "n_distractors": 2,
    "weak_below": 0.3,
    "hard_above": 0.4,
}


@pytest.fixture(scope="module")
def reader(reader_url, ships):
    """The tiny reader."""
    return ChatReader(OpenAICompatibleModel(reader_url), **ships.READER)


@pytest.fixture(scope="module")
def cases(ships):
    """Questions about ships that training never asked about, some without a relevant passage."""
    rng = random.Random(500)
    made = []
    for n in range(N_QUESTIONS):
        kinds = [kind for kind in POOL if n % 8 or kind != "gold"]
        made.append(ships.make_case(rng, rng.sample(kinds, len(kinds)), held_out=True))
    return made


@pytest.fixture(scope="module")
def rows(cases):
    """Rows of the experiment."""
    return [
        {
            "id": f"ship-{n}",
            "query": case.question,
            "reference": [case.truth],
            "contexts": [
                {"text": text, "relevance": int(kind == "gold")}
                for text, kind in zip(case.passages, case.kinds, strict=True)
            ],
        }
        for n, case in enumerate(cases)
    ]


@pytest.fixture(scope="module")
def judges(cases):
    """A judge that knows the labels, and one that reverses one in ten. Neither accepts an answer in other words."""
    relevant = {
        (case.question, text)
        for case in cases
        for text, kind in zip(case.passages, case.kinds, strict=True)
        if kind == "gold"
    }

    def label(prompt):
        return float((prompt.fields["query"], prompt.fields["passage"]) in relevant)

    def reversed_label(prompt):
        is_reversed = random.Random(repr(prompt.fields)).random() < 0.1
        return abs(label(prompt) - is_reversed)

    grade = {"answer_grade": {"grade": "wrong"}}
    return FakeJudge(label, json=grade, name="known labels"), FakeJudge(reversed_label, name="one in ten reversed")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The directory of the results."""
    return tmp_path_factory.mktemp("experiment")


@pytest.fixture(scope="module")
def result(rows, reader, judges, folder, record_testsuite_property):
    """All parts, after a first run that was interrupted."""
    judge, second = judges
    plan = plan_udcg_experiment(rows, n_judges=2, **SETTINGS)

    class StoppedError(Exception):
        """An interruption in the middle of the run."""

    def interrupt(done, total):
        if done > plan.usage.calls / 4:
            raise StoppedError

    with pytest.raises(StoppedError):
        run_udcg_experiment(
            rows, folder, reader=reader, judge=judge, second_judge=second, progress=interrupt, **SETTINGS
        )
    n_recorded = len((folder / "journal.jsonl").read_text().splitlines())
    found = run_udcg_experiment(rows, folder, reader=reader, judge=judge, second_judge=second, **SETTINGS)
    assert plan.usage.calls / 4 < n_recorded == found.n_known
    assert found.n_known + found.n_asked <= plan.usage.calls
    print(plan, found, sep="\n\n")
    record_testsuite_property("udcg_experiment", json.dumps(found.to_dict()))
    return found


def table_of(result, part, number=0):
    """The rows of a part's table, by the value of the first column."""
    table = [table for table in result.tables if table.part == part][number]
    names = [column.name for column in table.columns]
    return {row[0]: dict(zip(names, row, strict=True)) for row in table.rows}


def test_every_part_has_its_table(result):
    """Nothing failed, and all questions with a relevant passage are in each mean."""
    assert not result.failures
    assert set(PARTS.split(",")) == {table.part for table in result.tables}
    n_with_relevant = N_QUESTIONS - -(-N_QUESTIONS // 8)
    assert n_with_relevant == table_of(result, "position")[1]["n"]
    assert n_with_relevant >= table_of(result, "distractors")["weak"]["n"] >= n_with_relevant / 2
    assert N_QUESTIONS == table_of(result, "orders")["utility"]["n"]


def test_the_reader_prefers_the_first_passages(result):
    """It was taught to read them in order, and to stop at the first that convinces it (figure 1)."""
    positions = table_of(result, "position")
    assert positions[5]["minus_first"].high < 0


def test_hard_distractors_mislead_the_reader(result):
    """More than weak ones (table 1), as taught."""
    rows = table_of(result, "distractors")
    assert rows["weak - hard"]["correct"].value > 0
    assert rows["weak"]["distracting_effect"].high < rows["hard"]["distracting_effect"].low


def test_utilities_choose_passages_that_mislead_less(result):
    """Fewer wrong answers than with labels, and more abstentions (table 2)."""
    rows = table_of(result, "orders")
    assert rows["utility"]["wrong"].value < rows["relevance"]["wrong"].value
    assert rows["utility"]["abstained"].value > rows["relevance"]["abstained"].value
    assert rows["utility"]["has_relevant"].value == rows["relevance"]["has_relevant"].value
    differences = [row for table in result.tables if table.title == "Differences of the orders" for row in table.rows]
    assert len(differences) == 6


def test_metrics_predict_the_answers(result):
    """UDCG and its variants, for each number of passages (figure 2, tables 3 to 5)."""
    metrics = table_of(result, "correlation")
    assert metrics["udcg"]["spearman"].low > 0
    assert metrics["udcg_theta"]["spearman"].low > 0
    assert {f"k={k}" for k in SETTINGS["k_values"]} < set(table_of(result, "k")["udcg"])
    assert table_of(result, "k")["udcg"]["k=1"].value > table_of(result, "k")["udcg"]["k=5"].value
    assert table_of(result, "ablation")["udcg"]["spearman"] == metrics["udcg"]["spearman"]
    assert "tuned" in table_of(result, "ablation", 1)
    assert table_of(result, "answer-prob")["answer_prob"]["spearman"].value > 0


def test_agreement_of_judges(result):
    """One judge repeats the labels, the other reverses one in ten (appendix B)."""
    raters = table_of(result, "judges")
    assert 1.0 == raters["data / known labels"]["kappa"].value
    assert raters["data / one in ten reversed"]["equal"].low < 0.9 < raters["data / one in ten reversed"]["equal"].high


def test_drawn_probabilities_agree_with_exact_ones(result, rows, reader_url, ships, judges, tmp_path):
    """A reader that does not give probabilities finds the same correlation, within both intervals."""
    drawing = ChatReader(OpenAICompatibleModel(reader_url), estimator="monte_carlo", **ships.READER)
    settings = SETTINGS | {"parts": "correlation", "erag": False, "max_questions": 12}
    drawn = run_udcg_experiment(rows, tmp_path, reader=drawing, judge=judges[0], **settings)
    assert not drawn.failures
    methods = {
        passage["metadata"]["udcg"]["method"]
        for line in (tmp_path / "contexts.jsonl").read_text().splitlines()
        for passage in json.loads(line)["contexts"]
    }
    assert {"monte_carlo"} == methods
    one, other = (table_of(found, "correlation")["udcg"]["spearman"] for found in (result, drawn))
    assert max(one.low, other.low) < min(one.high, other.high)
