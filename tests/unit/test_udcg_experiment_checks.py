"""What the experiments of the UDCG paper say about their own numbers: refused tables, p-values, grades and run-on answers."""

from __future__ import annotations

import itertools
import json
import math

import pytest

from fake_models import FakeReader
from ragstone.errors import JudgeError
from ragstone.testing import FakeJudge
from ragstone_lab import correlate_udcg, run_udcg_experiment
from ragstone_lab._run import first_part
from udcg_world import chance, judge_of, kinds_of, questions, reader_of, truth_of


def run(folder, rows, reader, **options):
    """Run parts with few resamples."""
    options = {"judge": judge_of(), "erag": False, "k": 3, "n_contexts": 6} | options
    return run_udcg_experiment(rows, folder, reader=reader, **options)


def rows_of(table):
    """The rows of a table as mappings."""
    return [dict(zip([column.name for column in table.columns], row, strict=True)) for row in table.rows]


def never_wrong(query, kinds):
    """A reader that no passage misleads."""
    return "correct" if "gold" in kinds else "abstain"


def by_label(query, kinds):
    """A reader whose answer depends on the label of its passages alone."""
    return "correct" if "gold" in kinds else "wrong"


def misled(query, kinds):
    """A reader that hard passages mislead, more often without a relevant one."""
    return "wrong" if chance(query, kinds) < 0.3 * kinds.count("hard") else never_wrong(query, kinds)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (never_wrong, "none of 48 answers is wrong, so no passage has misled the reader"),
        (by_label, "the grades of all 48 answers follow from the labels of the passages"),
    ],
)
def test_tables_that_could_only_repeat_the_labels_are_refused(tmp_path, answer, reason):
    """Instead of a ranking of metrics that says nothing, the text and the JSON have the reason."""
    result = run(tmp_path, questions(8), reader_of(answer), parts="k,correlation,ablation", k_values=(1, 3))
    assert ["k", "correlation", "ablation"] == [table.part for table in result.tables]
    for table in result.tables:
        assert () == table.rows
        assert reason in table.facts["refused"]
        assert reason in " ".join(str(table).split())
    saved = json.loads((tmp_path / "result.json").read_text(encoding="utf-8"))
    assert all(reason in table["refused"] for table in saved["tables"])
    # The contexts are still written: other commands can use them.
    assert 48 == len((tmp_path / "contexts.jsonl").read_text(encoding="utf-8").splitlines())


def test_one_number_of_passages_is_refused_alone(tmp_path):
    """A single passage misleads nobody here, three do."""

    def answer(query, kinds):
        return never_wrong(query, kinds) if len(kinds) == 1 else misled(query, kinds)

    result = run(tmp_path, questions(8), reader_of(answer), parts="k", k_values=(1, 3))
    table = result.tables[0]
    assert ["metric", "k=3", "standard_deviation"] == [column.name for column in table.columns]
    assert any(note.startswith("k = 1: not computed: none of 48 answers is wrong") for note in table.notes)


def exact_p(differences):
    """Two-sided sign-flip test of a mean by all signs. The statistic of all signs is compared with that of the data."""
    values = [value for value in differences if abs(value) > 1e-9]
    observed = abs(math.fsum(values))
    sums = [
        abs(math.fsum(sign * value for sign, value in zip(signs, values, strict=True)))
        for signs in itertools.product((1, -1), repeat=len(values))
    ]
    return sum(total >= observed - 1e-9 for total in sums) / len(sums)


def holm_of(p_values):
    """Holm's correction, as in his paper."""
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    adjusted, largest = [0.0] * len(p_values), 0.0
    for rank, place in enumerate(order):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[place]))
        adjusted[place] = largest
    return adjusted


def test_p_values_are_those_of_an_independent_computation(tmp_path):
    """Thirteen questions have 8192 signs: each p-value of figure 2 is the exact one, with Holm's correction by hand."""

    def answer(query, kinds):
        gold, hard = kinds.count("gold"), kinds.count("hard")
        return "correct" if gold and gold >= hard else "wrong" if hard else "abstain"

    result = run(tmp_path, questions(13), reader_of(answer), parts="k,correlation", k_values=(3,), n_contexts=10)
    found = {row["metric"]: row["p_value"] for row in rows_of(result.tables[1])}
    by_question = {}
    for line in (tmp_path / "contexts.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        by_question.setdefault(row["question_id"], []).append(row)
    assert 13 == len(by_question)
    differences = {name: [] for name in found}
    for rows in by_question.values():
        values = {metric.metric: metric.all for metric in correlate_udcg(rows).metrics}
        for name in found:
            differences[name].append(values["udcg"].value - values[name].value)
    expected = holm_of([exact_p(several) for several in differences.values()])
    assert len(found) > 4
    for (name, p_value), own in zip(found.items(), expected, strict=True):
        assert math.isclose(p_value, own, abs_tol=1e-9), name
    assert min(expected) < 0.5


def test_tables_4_and_2_have_p_values_and_nothing_is_significant_without_an_effect(tmp_path):
    """A reader at random: no variant, weight or number of passages differs after Holm's correction."""

    def answer(query, kinds):
        return ("correct", "wrong", "abstain")[int(3 * chance("none", query, kinds))]

    result = run(tmp_path, questions(30), reader_of(answer), parts="k,ablation", k_values=(2, 3))
    tables = {table.title: rows_of(table) for table in result.tables}
    tested = [rows for rows in tables.values() if rows and "p_value" in rows[0]]
    assert 3 == len(tested)
    values = [row["p_value"] for rows in tested for row in rows if row["p_value"] is not None]
    assert len(values) > 20
    assert min(values) > 0.05
    saved = json.loads((tmp_path / "result.json").read_text(encoding="utf-8"))
    kept = [row["p_value"] for table in saved["tables"] for row in table["rows"] if row.get("p_value") is not None]
    assert values == kept


def test_answers_are_counted_by_who_graded_them(tmp_path):
    """By exact match, by their words and by the judge. A reference in an answer that the judge calls wrong is a doubt."""

    def reply(query, texts):
        kinds = kinds_of(texts)
        if "gold" in kinds:
            return truth_of(query) if "weak" in kinds else f"It is {truth_of(query)}, as written."
        return "NO-RESPONSE" if "weak" in kinds else "something else"

    reader = FakeReader(0.5, answer=reply)
    judge = judge_of()  # It calls everything wrong that is not equal to the reference.
    result = run(tmp_path, questions(8), reader, judge=judge, parts="correlation")
    counts = {by: dict(grades) for by, grades in result.grades.items()}
    assert {"exact match", "its words", "the judge"} == set(counts)
    assert {"correct"} == set(counts["exact match"])
    assert {"abstain"} == set(counts["its words"])
    assert {"wrong"} == set(counts["the judge"])
    text = " ".join(str(result).split())
    assert f"graded by the judge: {counts['the judge']['wrong']} wrong" in text
    assert "that contain a reference are not correct for the judge" in text
    agreeing = FakeJudge(
        judge._number, json=lambda prompt: {"grade": "correct" if "truth" in prompt.fields["response"] else "wrong"}
    )
    fine = run(tmp_path / "other", questions(8), reader, judge=agreeing, parts="correlation")
    assert "that contain a reference" not in str(fine)


@pytest.mark.parametrize(
    ("raw", "part"),
    [
        ("31 meters.\nQuestion: How old is it?\nAnswer: 1884", "31 meters."),
        ("It is 31 meters tall. It was built in 1884 by the", "It is 31 meters tall."),
        ("It is 31 m. It is 31 m. It is 31", "It is 31 m. It is 31 m."),
        ("<think>The passage says 31.</think>31 meters\n\nQuestion", "31 meters"),
        ("高さは31メートルです。そして", "高さは31メートルです。"),
        ("<think>The passage says 31.\nSo the answer", ""),
        ("a list of words that does not end", ""),
        ("", ""),
    ],
)
def test_the_first_part_of_an_answer_that_did_not_end(raw, part):
    """A whole line, otherwise whole sentences. Reasoning is not an answer."""
    assert part == first_part(raw)


@pytest.mark.parametrize("kind", ["truncated", "repeated"])
def test_a_run_on_answer_is_graded_by_its_first_part(tmp_path, kind):
    """It is not dropped, a note counts it, and the next run finds it in the journal."""
    asked = []

    def answer(query, kinds):
        asked.append(query)
        grade = misled(query, kinds)
        text = {"correct": truth_of(query), "abstain": "NO-RESPONSE", "wrong": "something else"}[grade]
        if query == "Question 3?":
            raise JudgeError("cut", kind=kind, raw=f"{text}\nQuestion 4? {text}")
        return grade

    def whole(query, kinds):
        return misled(query, kinds)

    result = run(tmp_path / "cut", questions(6), reader_of(answer), parts="correlation")
    usual = run(tmp_path / "whole", questions(6), reader_of(whole), parts="correlation")
    assert usual.tables[0].rows == result.tables[0].rows
    assert {} == dict(result.failures)
    note = "6 answers did not end before the limit of tokens. The first part was graded"
    assert note in result.notes
    assert note not in usual.notes
    n = len(asked)
    again = run(tmp_path / "cut", questions(6), reader_of(answer), parts="correlation")
    assert (n, 0) == (len(asked), again.n_asked)
    assert note in again.notes
