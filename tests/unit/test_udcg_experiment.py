"""The experiments of the UDCG paper in a world with planted effects: each is found, and lies in its interval."""

from __future__ import annotations

import json
import math

import pytest

from fake_models import FakeReader
from ragstone.errors import JudgeError
from ragstone.judges import ChatReader
from ragstone.testing import FakeJudge
from ragstone_lab import correlate_udcg, fit_udcg, run_udcg_experiment
from scripted_model import ScriptedModel
from udcg_world import P_ABSTAIN, chance, judge_of, kinds_of, questions, reader_of, truth_of


def run(folder, rows, reader, **options):
    """Run parts with few resamples."""
    options = {"judge": judge_of(), "erag": False} | options
    return run_udcg_experiment(rows, folder, reader=reader, **options)


def rows_by(table, *names):
    """The rows of a table as mappings, by the values of some columns."""
    rows = [dict(zip([column.name for column in table.columns], row, strict=True)) for row in table.rows]
    return {tuple(row[name] for name in names) if len(names) > 1 else row[names[0]]: row for row in rows}


def holds(estimate, value):
    """Whether an interval contains a value."""
    return estimate.low <= value <= estimate.high


def by_utility(query, kinds):
    """A reader that answers if it can, is misled by hard passages, and abstains otherwise."""
    return "correct" if "gold" in kinds else "wrong" if "hard" in kinds else "abstain"


def by_balance(query, kinds):
    """A reader that is misled if there are more hard passages than relevant ones."""
    gold, hard = kinds.count("gold"), kinds.count("hard")
    return "correct" if gold and gold >= hard else "wrong" if hard else "abstain"


def test_a_planted_position_bias_is_found(tmp_path):
    """A U-shaped reader: each share lies in its interval, the middle differs from the start and the end does not."""
    planted = (0.9, 0.6, 0.3, 0.6, 0.9)

    def answer(query, kinds):
        at = kinds.index("gold")
        return "correct" if chance("position", query, at) < planted[at] else "wrong"

    result = run(tmp_path, questions(120), reader_of(answer), parts="position", max_questions=120)
    (table,) = result.tables
    rows = rows_by(table, "position")
    assert [1, 2, 3, 4, 5] == list(rows)
    for position, share in enumerate(planted, start=1):
        row = rows[position]
        assert 120 == row["n"] == row["correct"].n
        assert holds(row["correct"], share), position
        assert holds(row["wrong"], 1 - share), position
        assert math.isclose(1 / math.log2(position + 1), row["ndcg"])
        assert (1 / position, 0.2) == (row["mrr"], row["precision"])
        if position > 1:
            assert holds(row["minus_first"], share - 0.9), position
    assert rows[3]["p_value"] < 0.001
    assert rows[5]["p_value"] > 0.05
    assert None is rows[1]["minus_first"]


def test_planted_distractors_are_found(tmp_path):
    """With weak ones 80% correct, with hard ones 50%, at the same positions. The groups follow the distracting effect."""
    seen = []

    def answer(query, kinds):
        seen.append((query, kinds))
        return (
            "correct" if chance("distractors", query, "hard" in kinds) < (0.5 if "hard" in kinds else 0.8) else "wrong"
        )

    result = run(tmp_path, questions(100, medium=4), reader_of(answer), parts="distractors")
    rows = rows_by(result.tables[0], "distractors")
    assert holds(rows["weak"]["correct"], 0.8)
    assert holds(rows["hard"]["correct"], 0.5)
    difference = rows["weak - hard"]
    assert holds(difference["correct"], 0.3)
    assert difference["correct"].low > 0
    assert difference["p_value"] < 0.01
    assert holds(rows["weak"]["distracting_effect"], 0.1)
    assert holds(rows["hard"]["distracting_effect"], 0.9)
    for query in {query for query, _ in seen}:
        weak, hard = sorted((kinds for asked, kinds in seen if asked == query), key=lambda kinds: "hard" in kinds)
        assert (["weak"] * 4, ["hard"] * 4) == tuple([k for k in kinds if k != "gold"] for kinds in (weak, hard))
        assert weak.index("gold") == hard.index("gold")


def test_few_distractors_leave_a_question_out(tmp_path):
    """A number of distractors below the default may admit it."""
    rows = [*questions(3), *({**row, "id": f"few {n}"} for n, row in enumerate(questions(2, hard=2, weak=5)))]
    reader = reader_of(by_utility)
    result = run(tmp_path / "a", rows, reader, parts="distractors")
    assert 3 == rows_by(result.tables[0], "distractors")["weak"]["n"]
    assert "excluded, fewer than 4 weak or hard distractors: 2" in result.tables[0].notes
    result = run(tmp_path / "b", rows, reader, parts="distractors", n_distractors=2)
    assert 5 == rows_by(result.tables[0], "distractors")["weak"]["n"]


def test_the_best_passages_by_utility_help_the_reader_abstain(tmp_path):
    """Half of the questions have no relevant passage: labels choose misleading ones, utilities do not."""
    rows = [*questions(10), *({**row, "id": f"none {n}"} for n, row in enumerate(questions(10, gold=0)))]
    result = run(tmp_path, rows, reader_of(by_utility), parts="orders", erag=True)
    shares, differences = result.tables
    found = rows_by(shares, "order")
    assert (0.5, 0.0, 0.5) == tuple(found["relevance"][grade].value for grade in ("correct", "abstained", "wrong"))
    # eRAG does not distinguish between misleading and empty passages.
    assert (0.5, 0.0, 0.5) == tuple(found["erag"][grade].value for grade in ("correct", "abstained", "wrong"))
    assert (0.5, 0.5, 0.0) == tuple(found["utility"][grade].value for grade in ("correct", "abstained", "wrong"))
    assert {0.5} == {row["has_relevant"].value for row in found.values()}
    by_grade = rows_by(differences, "orders", "grade")
    assert (0.0, 0.5, -0.5) == tuple(
        by_grade["utility - relevance", grade]["difference"].value for grade in ("correct", "abstain", "wrong")
    )
    assert by_grade["utility - relevance", "wrong"]["difference"].high < 0
    assert by_grade["utility - relevance", "wrong"]["p_value"] < 0.05
    assert by_grade["utility - erag", "correct"]["p_value"] == 1


def test_contexts_are_balanced_and_metrics_predict_the_answers(tmp_path):
    """Half of the contexts have a relevant passage, and UDCG knows what relevance does not: distraction."""
    seen = []

    def answer(query, kinds):
        seen.append(kinds)
        return by_balance(query, kinds)

    result = run(tmp_path, questions(25), reader_of(answer), parts="correlation", k=3)
    (table,) = result.tables
    assert 250 == len(seen) == sum(table.facts["grades"].values())
    assert 125 == sum("gold" in kinds for kinds in seen)
    assert {3} == set(map(len, seen))
    rows = rows_by(table, "metric")
    assert {"udcg", "udcg_theta", "ndcg", "map", "mrr", "precision", "hits", "binary", "relevance_only"} == set(rows)
    assert 25 == rows["udcg"]["n"]
    assert rows["udcg"]["spearman"].low > 0.6
    assert rows["hits"]["difference"].value > 0
    for name in ("precision", "ndcg", "map", "mrr"):
        assert rows[name]["difference"].low > 0, name
    # The contexts are rows for the other commands, which find the same.
    again = correlate_udcg(tmp_path / "contexts.jsonl")
    assert rows["udcg"]["spearman"] == again.metrics[0].all
    assert dict(again.grades) == table.facts["grades"]
    assert 3 == fit_udcg(tmp_path / "contexts.jsonl", n_resamples=20).theta.k


def test_a_learned_weight_finds_the_position_that_the_reader_reads(tmp_path):
    """It uses the first two passages: weights by position predict that, and every variant without utility less."""

    def answer(query, kinds):
        return by_utility(query, kinds[:2])

    result = run(tmp_path, questions(40), reader_of(answer), parts="ablation", k=4)
    variants, gammas = (rows_by(table, key) for table, key in zip(result.tables, ("metric", "gamma"), strict=True))
    assert variants["udcg_theta"]["spearman"].low > variants["udcg"]["spearman"].high
    for name in ("udcg_theta, relevance only", "udcg_theta, binary", "udcg, relevance only"):
        assert variants[name]["loss"].low > 0, name
    assert None is variants["udcg"]["loss"] is variants["udcg_theta"]["loss"]
    assert gammas["0"]["gain"].high < 0
    assert None is gammas["0.333"]["gain"]
    assert gammas["0.333"]["spearman"] == variants["udcg"]["spearman"]
    assert gammas["0"]["spearman"] == variants["udcg, relevance only"]["spearman"]
    assert gammas["tuned"]["n"] == 40


def test_a_gamma_near_a_third_has_the_interval_of_rare_questions(tmp_path):
    """Of 30 questions none differs at 0.3, and few at 0.2 and 0.4: all intervals are that of 30 equal differences.

    A random mean of 30 zeros and one more value, -2 or 2, is below -2 (1 - 0.05 ** (1 / 30)) with probability 0.025.
    """

    def answer(query, kinds):
        return by_utility(query, kinds[:2])

    _, table = run(tmp_path, questions(30), reader_of(answer), parts="ablation", k=4).tables
    gains = {row["gamma"]: row["gain"] for row in rows_by(table, "gamma").values()}
    half = 2 * (1 - 0.05 ** (1 / 30))
    near = [gains[name] for name in ("0.2", "0.3", "0.4")]
    assert (0.0, 30) == (gains["0.3"].value, gains["0.3"].n)
    assert any(one.value != 0 for one in near)
    for one in near:
        assert one.low == pytest.approx(one.value - half, abs=0.01)
        assert one.high == pytest.approx(one.value + half, abs=0.01)


def test_without_an_effect_nothing_is_found(tmp_path):
    """A reader that answers at random: every difference contains 0."""

    def answer(query, kinds):
        return "correct" if chance("none", query, kinds) < 0.5 else "wrong"

    parts = "position,distractors,orders,ablation"
    result = run(tmp_path, questions(60), reader_of(answer), parts=parts, k=3)
    position, distractors, _, orders, _, gamma = result.tables
    found = [
        *(row["minus_first"] for row in list(rows_by(position, "position").values())[1:]),
        rows_by(distractors, "distractors")["weak - hard"]["correct"],
        *(row["difference"] for row in rows_by(orders, "orders", "grade").values()),
        rows_by(gamma, "gamma")["tuned"]["gain"],
    ]
    # At 95% confidence, one of thirteen intervals misses by chance in half of all worlds.
    assert sum(not holds(estimate, 0) for estimate in found) <= 1
    assert all(row["p_value"] > 0.05 for row in list(rows_by(position, "position").values())[1:])


def test_correlation_by_the_number_of_passages(tmp_path):
    """Each number of passages has a column, as has the spread over them, and UDCG is compared with each other metric."""
    result = run(tmp_path, questions(20), reader_of(by_balance), parts="k", k_values=(1, 3, 5))
    table, differences = result.tables
    assert ["metric", "k=1", "k=3", "k=5", "standard_deviation"] == [column.name for column in table.columns]
    rows = rows_by(table, "metric")
    for name, row in rows.items():
        means = [row[f"k={k}"].value for k in (1, 3, 5)]
        middle = sum(means) / 3
        spread = math.sqrt(sum((mean - middle) ** 2 for mean in means) / 2)
        assert math.isclose(spread, row["standard_deviation"].value, abs_tol=1e-9), name
        assert holds(row["standard_deviation"], spread), name
    assert rows["hits"]["k=5"].high < rows["udcg"]["k=5"].value
    compared = rows_by(differences, "metric", "k")
    assert {(name, k) for name in rows if name != "udcg" for k in (1, 3, 5)} == set(compared)
    for (name, k), row in compared.items():
        assert math.isclose(
            row["difference"].value, rows["udcg"][f"k={k}"].value - rows[name][f"k={k}"].value, abs_tol=1e-9
        )
    assert compared["hits", 5]["p_value"] < 0.01


class KnowsProbabilities(FakeReader):
    """A reader that knows the probability of each answer: high with a relevant passage."""

    async def answer_logprob(self, query, passages, answer):
        """The log-probability of an answer."""
        self.asked.append((query, tuple(passages)))
        assert truth_of(query) == answer
        return math.log(0.8 if "gold" in kinds_of(passages) else 0.01)


def test_the_probability_of_the_reference_ignores_distraction(tmp_path):
    """It orders contexts as precision does, so UDCG is better by the same."""
    reader = reader_of(by_balance, kind=KnowsProbabilities)
    result = run(tmp_path, questions(25), reader, parts="answer-prob", k=3)
    rows = rows_by(result.tables[0], "metric")
    assert rows["precision"]["spearman"] == rows["answer_prob"]["spearman"]
    assert rows["answer_prob"]["difference"].low > 0


def test_judges_that_disagree_at_random(tmp_path):
    """One judge repeats the labels of the data, the other reverses one label in ten: kappa is known."""
    rows = questions(60, gold=5, hard=5, weak=0, order="gold hard")

    def reversed_sometimes(prompt):
        text = prompt.fields["passage"]
        return float((" gold " in text) != (chance("reversed", text) < 0.1))

    result = run(
        tmp_path, rows, reader_of(by_utility), parts="judges", k=10,
        judge=judge_of(name="first"), second_judge=FakeJudge(reversed_sometimes, name="second"),
    )  # fmt: skip
    (table,) = result.tables
    found = rows_by(table, "raters")
    assert {"data / first", "data / second", "first / second"} == set(found)
    # Equal labels of 60 questions: Wilson's interval of the share begins at 0.94, and chance agrees in half of the cases.
    assert 0.85 < found["data / first"]["kappa"].low < 0.9
    assert (1.0, "almost perfect", 600, 60) == (
        found["data / first"]["kappa"].value, *(found["data / first"][name] for name in ("words", "n", "n_questions"))
    )  # fmt: skip
    for name in ("data / second", "first / second"):
        # With balanced labels, kappa is 2 * 0.9 - 1.
        assert holds(found[name]["kappa"], 0.8), name
        assert holds(found[name]["equal"], 0.9), name
        assert found[name]["kappa"].high < 1


def test_passages_without_labels_are_judged_first(tmp_path):
    """The judge's labels replace those of the data, once for each passage."""
    judge = judge_of()
    rows = questions(12, labels=False)
    result = run(tmp_path, rows, reader_of(by_utility), parts="position,correlation", k=3, judge=judge)
    assert 12 * 14 == sum(prompt.construct == "passage_relevance" for prompt in judge.prompts)
    assert all(prompt.fields["reference"] for prompt in judge.prompts)
    labeled = run(tmp_path / "labeled", questions(12), reader_of(by_utility), parts="position,correlation", k=3)
    assert [table.rows for table in labeled.tables] == [table.rows for table in result.tables]


def test_grades_need_a_threshold_and_keep_their_gain(tmp_path):
    """With a threshold of 2, a passage of grade 1 is irrelevant."""
    rows = questions(6)
    for row in rows:
        for passage in row["contexts"]:
            passage["relevance"] = 3 if " gold " in passage["text"] else int(" hard " in passage["text"])
    result = run(tmp_path, rows, reader_of(by_utility), parts="position", threshold=2)
    assert 1.0 == rows_by(result.tables[0], "position")[1]["correct"].value


@pytest.mark.parametrize("route", ["chain", None])
def test_a_chat_model_with_exact_or_drawn_probabilities(tmp_path, route):
    """The known probability lies in the interval of each passage, and the method is stated."""

    def replies(messages):
        kind = next(kind for kind in P_ABSTAIN if f" {kind} " in messages[-1]["content"])
        number = messages[-1]["content"].split("Question ")[1].split("?")[0]
        p = P_ABSTAIN[kind]
        return {"NO-RESPONSE": p, "something else" if kind == "hard" else f"truth {number}": 1 - p}

    model = ScriptedModel(replies, exact_route=route, top_logprobs=0 if route is None else 20)
    reader = ChatReader(model, prompt="Answer or reply NO-RESPONSE.\n{context}\nQuestion: {question}")
    parts = "correlation,answer-prob" if route else "correlation"
    result = run(tmp_path, questions(4), reader, parts=parts, k=2, n_contexts=4)
    rows = [json.loads(line) for line in (tmp_path / "contexts.jsonl").read_text().splitlines()]
    annotations = {passage["text"]: passage["metadata"]["udcg"] for row in rows for passage in row["contexts"]}
    assert {"monte_carlo" if route is None else "exact_sequence"} == {a["method"] for a in annotations.values()}
    covered = [
        a["interval"][0] - 1e-9 <= P_ABSTAIN[kinds_of([text])[0]] <= a["interval"][1] + 1e-9
        for text, a in annotations.items()
    ]
    assert sum(covered) >= 0.9 * len(covered)
    if route:
        assert all(covered)
        assert "answer_prob" in rows_by(result.tables[1], "metric")


def test_contexts_of_few_candidates_have_different_ids(tmp_path):
    """The same passages can be drawn several times, and the other commands refuse rows with the same id."""
    few = questions(3, gold=1, hard=2, weak=0)
    run(tmp_path, few, reader_of(by_balance), parts="correlation", k=2, n_contexts=20)
    ids = [json.loads(line)["id"] for line in (tmp_path / "contexts.jsonl").read_text().splitlines()]
    assert 60 == len(ids) == len(set(ids))


def test_failed_contexts_are_counted(tmp_path):
    """A question whose answers fail is in no mean of the position, and the others are."""

    def answer(query, kinds):
        if query == "Question 3?":
            raise JudgeError("cut", kind="truncated")
        return by_utility(query, kinds)

    result = run(tmp_path, questions(6), reader_of(answer), parts="position")
    assert 5 == rows_by(result.tables[0], "position")[1]["n"]
    assert ("excluded, failed (truncated): 1",) == result.tables[0].notes[1:]
    assert {"truncated": 1} == dict(result.failures)
    assert not result.unfinished
    assert ("cut",) == result.errors


def test_results_as_text_and_json(tmp_path, monkeypatch):
    """The text fits 80 columns, and the saved JSON contains every estimate with interval, method and n."""
    monkeypatch.setenv("COLUMNS", "80")
    reader = reader_of(by_utility)
    result = run(tmp_path, questions(6), reader, parts="position,k,distractors,orders,correlation,ablation", erag=True)
    assert 80 >= max(map(len, str(result).splitlines()))
    saved = json.loads((tmp_path / "result.json").read_text())
    assert saved == json.loads(json.dumps(result.to_dict()))
    assert 9 == len(saved["tables"])
    cell = saved["tables"][0]["rows"][0]["correct"]
    assert {"value", "low", "high", "confidence_level", "method", "n"} == set(cell)
    assert 0 == saved["settings"]["seed"]


def test_labels_of_one_question_are_not_independent(tmp_path):
    """A judge that reverses all labels of a tenth of the questions: 600 labels say no more than 60."""
    rows = questions(60, gold=5, hard=5, weak=0, order="gold hard")

    def reversed_questions(prompt):
        return float((" gold " in prompt.fields["passage"]) != (chance("whole", prompt.fields["query"]) < 0.1))

    judge = FakeJudge(reversed_questions, name="first")
    result = run(tmp_path, rows, reader_of(by_utility), parts="judges", k=10, judge=judge)
    (row,) = rows_by(result.tables[0], "raters").values()
    assert holds(row["kappa"], 0.8)
    # 0.1 if the labels were independent.
    assert row["kappa"].high - row["kappa"].low > 0.2
    assert row["equal"].high - row["equal"].low > 0.1


def test_judges_that_always_agree_on_one_label(tmp_path):
    """Chance agrees as well, so kappa is undefined and the share of equal labels is not."""
    rows = questions(10, gold=2, hard=0, weak=3, order="weak gold")
    result = run(tmp_path, rows, reader_of(by_utility), parts="judges", k=2)
    (row,) = rows_by(result.tables[0], "raters").values()
    assert (None, "undefined", 1.0, 10) == (row["kappa"], row["words"], row["equal"].value, row["n_questions"])
