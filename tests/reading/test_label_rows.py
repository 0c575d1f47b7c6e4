"""Rows with labels of one's own: whose label of which answer a row has. All contents are invented."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from command_line import run_command
from live_store import make_store
from ragstone.errors import DataError
from ragstone.reading import LabelRecord, by_answer, read_label_file
from ragstone.store import SqliteStore
from ragstone_lab import plan_judge_card

N = 12


def answer(n: int) -> dict[str, Any]:
    """Return the texts of an answer."""
    return {
        "query": f"How old is mill {n}?",
        "response": f"It is {n} years old.",
        "contexts": [f"Mill {n} is {n} years old."],
    }


def rated(**people: int) -> list[dict[str, Any]]:
    """Return a row for each answer and person, without ids."""
    return [
        answer(n) | {"annotator": name, "label": (n + shift) % 2} for name, shift in people.items() for n in range(N)
    ]


def as_csv(rows: list[dict[str, Any]], path: Path) -> str:
    """Write rows as CSV, with lists as JSON."""
    text = io.StringIO()
    writer = csv.DictWriter(text, rows[0].keys())
    writer.writeheader()
    writer.writerows({k: json.dumps(v) if isinstance(v, list) else v for k, v in row.items()} for row in rows)
    path.write_text(text.getvalue())
    return str(path)


def card(labels: Any, **options: Any) -> Any:
    """Return the plan of a judge card for one metric."""
    return plan_judge_card(labels, metrics="ccrs.qr", **options)


@pytest.mark.parametrize("name", ["annotator", "rater", "author", "Annotator", "labeler"])
def test_two_people_label_one_answer(name: str):
    """Rows without ids are one sample if question, history, response and passages are equal."""
    rows = [{name if key == "annotator" else key: value for key, value in row.items()} for row in rated(ann=0, bob=1)]
    plan = card(rows)
    assert (N, {"ccrs.qr": N}) == (len(plan.samples), plan.n_labeled)
    assert {"ann", "bob"} == {label.annotator for label in plan.labels}
    assert 2 * N == len(plan.labels)


def test_two_labels_of_one_answer_need_people():
    """Two rows of one answer are not two samples, and nobody says whose labels they are."""
    rows = [{k: v for k, v in row.items() if k != "annotator"} for row in rated(ann=0, bob=1)]
    with pytest.raises(
        DataError, match=r"the answer of row 1 has 2 labels without a name of a person\. Name the person"
    ):
        card(rows)


@pytest.mark.parametrize("key", ["response", "contexts", "history"])
def test_other_answers_to_one_question_are_other_samples(key: str):
    """Another response, another history or other passages are another answer."""
    other = {"response": "It is old.", "contexts": ["Mills are old."], "history": [{"role": "user", "content": "Hi."}]}
    rows = [answer(n) | change | {"label": n % 2} for n in range(N) for change in ({}, {key: other[key]})]
    assert 2 * N == len(card(rows).samples)


@pytest.mark.parametrize("column", ["contexts", "context", "passages", "retrieved_contexts"])
@pytest.mark.parametrize("people", [("ann",), ("ann", "bob")])
def test_a_column_of_passages_is_not_a_part_of_an_answer(column: str, people: tuple[str, ...], tmp_path: Path):
    """A cell with all passages of an answer names no single passage that a label is about."""
    rows = [{column if k == "contexts" else k: v for k, v in row.items()} for row in rated(**dict.fromkeys(people, 0))]
    file = read_label_file(as_csv(rows, tmp_path / "l.csv"))
    assert {("answer", None)} == {(label.level, label.unit) for label in file.records}
    plan = card(as_csv(rows, tmp_path / "l.csv"))
    assert (N, {"ccrs.qr": N}) == (len(plan.samples), plan.n_labeled)


def test_claims_of_answers_without_ids_stay_with_their_answer():
    """The label of an answer is the mean over its claims, not over those of all answers."""
    rows = [answer(n) | {"claim": text, "label": n % 2} for n in range(N) for text in ("old", "a mill")]
    plan = card(rows)
    assert [float(n % 2) for n in range(N)] == [label.value for label in plan.labels]
    assert N == len(plan.samples)


def test_an_id_with_two_answers_is_refused():
    """The label of one answer is not compared with the score of another."""
    rows = [answer(n) | {"id": str(n % N), "annotator": f"p{n // N}", "label": 1} for n in range(2 * N)]
    with pytest.raises(DataError, match=r"row 13 has the id '0' of row 1 and another question or response"):
        card(rows)
    same = [answer(n % N) | {"id": str(n % N), "annotator": f"p{n // N}", "label": 1} for n in range(2 * N)]
    assert N == len(card(same).samples)
    systems = [row | {"system": row["annotator"]} for row in rows]
    assert 2 * N == len(read_label_file(systems).records)


def label_studio(n: int, *people: str) -> dict[str, Any]:
    """Return a task of an export of Label Studio."""
    words = ("Correct", "Wrong")
    annotations = [
        {
            "id": 100 + 2 * n + i,
            "completed_by": who,
            "was_cancelled": False,
            "result": [{"from_name": "verdict", "type": "choices", "value": {"choices": [words[(n + i) % 2]]}}],
        }
        for i, who in enumerate(people)
    ]
    texts = {"question": answer(n)["query"], "answer": answer(n)["response"], "context": answer(n)["contexts"][0]}
    return {"id": n, "inner_id": n, "project": 3, "total_annotations": 1, "data": texts, "annotations": annotations}


def argilla(n: int, *people: str) -> dict[str, Any]:
    """Return a record of an export of Argilla."""
    given = [{"value": ("yes", "no")[(n + i) % 2], "user_id": who} for i, who in enumerate(people)]
    return {"id": f"a{n}", "fields": label_studio(n)["data"], "responses": {"faithful": given}}


TOOLS = {
    "annotations.result.value.choices": label_studio,
    "responses.faithful.value": argilla,
}


@pytest.mark.parametrize("path", TOOLS)
@pytest.mark.parametrize("people", [("u1",), ("u1", "u2")])
def test_labels_in_nested_lists_of_people(path: str, people: tuple[str, ...]):
    """The message names the path of the labels, which reads the labels of each person."""
    rows = [TOOLS[path](n, *people) for n in range(N)]
    with pytest.raises(DataError) as refused:
        card(rows)
    assert f"Name the column: --label {path}, or" in str(refused.value)
    for named in (path, path.replace(".value", "[].value", 1)):
        plan = card(rows, label_columns=[named])
        assert (N, {"ccrs.qr": N}) == (len(plan.samples), plan.n_labeled)
        assert {*people} == {label.annotator for label in plan.labels}
        assert len(people) * N == len(plan.labels)
        assert {answer(n)["query"] for n in range(N)} == {sample.query for sample in plan.samples}


def test_a_list_of_labels_of_unknown_things_is_refused():
    """Labels of people are not averaged like those of claims."""
    rows = [answer(n) | {"votes": [{"value": "yes"}, {"value": "no"}]} for n in range(N)]
    with pytest.raises(DataError, match=r"'votes' is a list of 2 labels, and it does not say whose they are"):
        card(rows, label_columns=["votes.value"])
    claims = [answer(n) | {"claims": [{"value": "yes"}, {"value": "no"}]} for n in range(N)]
    assert {0.5} == {label.value for label in card(claims, label_columns=["claims.value"]).labels}


def test_a_person_labels_an_answer_twice():
    """Two results of one person are refused, not averaged."""
    rows = [label_studio(n, "u1", "u1") for n in range(N)]
    with pytest.raises(DataError, match="'0' has 2 labels by 'u1'"):
        card(rows, label_columns=["annotations.result.value.choices"])


def test_options_are_quoted_for_a_shell():
    """A named column can be pasted, also one with blanks and brackets."""
    rows = [answer(n) | {"Verdict (human)": ("yes", "no")[n % 2]} for n in range(N)]
    with pytest.raises(DataError, match=r"Name the column: --label 'Verdict \(human\)', or"):
        plan_judge_card(rows)
    with pytest.raises(DataError, match=r"Name it: --label 'Verdict \(human\)=ccrs\.\w+' or --label 'Verdict"):
        plan_judge_card(rows, label_columns=["Verdict (human)"])


def test_one_sentence_for_all_rows():
    """One fault of all rows is said once, with the number of rows."""
    rows = [answer(n) | {"Verdict": ("yes", "no")[n % 2]} for n in range(N)]
    with pytest.raises(DataError) as refused:
        card(rows)
    assert 1 == str(refused.value).count("does not have a label")
    assert "(and 11 more rows)" in str(refused.value)


@pytest.mark.parametrize("value", ["0,5", " 0,50 ", "+0,5"])
def test_decimal_commas(value: str):
    """A comma with one or two digits after it is a decimal comma. One with three digits is not known."""
    assert [0.5] == [label.value for label in read_label_file([{"id": "a", "Label": value}]).records]
    (rejected,) = read_label_file([{"id": "a", "label": "1,000"}]).rejected
    assert "got '1,000'" in rejected.reason


def test_labels_add_knows_the_files_of_people(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Capitals, other languages and decimal commas, and one sentence for all rows."""
    monkeypatch.chdir(tmp_path)
    path = make_store(tmp_path / "s.db", 3)
    with SqliteStore.open(path, mode="read") as store:
        known = [trace.trace_id for trace in store.traces.read()][:3]
    (tmp_path / "l.csv").write_text("trace_id;Label;Rater\n" + "".join(f"{id_};0,5;ann\n" for id_ in known))
    assert "3 labels added" in run_command("labels", "add", str(path), "l.csv").stdout
    with SqliteStore.open(path, mode="read") as store:
        assert {("ann", 0.5)} == {(each.author, each.value) for each in store.labels.read()}
    (tmp_path / "m.csv").write_text(
        "trace_id;Bewertung (1)\n" + "".join(f"{id_};0,{n}\n" for n, id_ in enumerate(known))
    )
    done = run_command("labels", "add", str(path), "m.csv")
    assert 2 == done.returncode
    assert 1 == done.stderr.count("does not have a label"), done.stderr
    assert "Name the column: --label 'Bewertung (1)', or" in done.stderr
    assert "3 rows are invalid" in done.stderr


def test_a_constant_number_is_not_proposed_as_a_label():
    """The number of a project is the same in all rows."""
    rows = [answer(n) | {"project": 3, "points": n % 3} for n in range(N)]
    with pytest.raises(DataError) as refused:
        card(rows)
    assert "--label points, or" in str(refused.value)
    assert "--label project" not in str(refused.value)


def test_records_keep_their_rows():
    """A record of a row with an id has the position of its own row."""
    rows = [{"id": "a", "label": 1, "rater": "x"}, {"id": "a", "label": 0, "rater": "y"}]
    records: list[LabelRecord] = read_label_file(rows).records
    assert [1, 2] == [each.position for each in records]


def test_people_may_be_objects():
    """Exports name a person by an address, or by an id alone."""
    rows = [label_studio(0, "u1", "u2", "u3")]
    for annotation, who in zip(
        rows[0]["annotations"], ({"id": 7, "email": "ann@example.org"}, {"id": 8}, 9), strict=True
    ):
        annotation["completed_by"] = who
    records = read_label_file(rows, columns=["annotations.result.value.choices"]).records

    assert ["ann@example.org", "8", "9"] == [label.annotator for label in records]


def test_claims_of_two_systems_are_of_two_answers():
    """They may share the id of their question, and the person who labeled them."""
    rows = [
        {"id": "q1", "annotator": "ann", "system": system, "claim": f"{system} {n}", "label": label}
        for system, labels in (("small", (0, 1)), ("large", (1, 1)))
        for n, label in enumerate(labels)
    ]

    assert [("small", 0.5), ("large", 1.0)] == [
        (label.system, label.value) for label in by_answer(read_label_file(rows).records)
    ]


@pytest.mark.parametrize("label", [0, 6])
def test_a_label_outside_of_its_scale_is_refused(label: int):
    """Below it as well as above it."""
    read = read_label_file([{"id": "1", "label": 1}, {"id": "2", "label": label}], bounds=(1, 5))

    assert [1.0] == [record.value for record in read.records]
    assert (
        f"row 2: a label must be correct, partly, wrong or a number from 1 to 5, got {label}" in read.rejected[0].reason
    )


@pytest.mark.parametrize(("bounds", "expected"), [(None, (0, 1)), ((0, 2), (0, 2))])
def test_the_range_of_the_caller_wins_over_that_of_the_layout(bounds: Any, expected: Any):
    """ARES has labels of 0 and 1, and people use its layout for others."""
    row = {"Query": "Why?", "Document": "So.", "Answer": "So.", "Answer_Relevance_Label": 1}
    (record,) = read_label_file([row], bounds=bounds).records

    assert (1.0, expected) == (record.value, record.bounds)


@pytest.mark.parametrize("label", [1e101, -1e101, float("inf"), float("-inf")])
def test_a_label_must_be_a_number_that_can_be_squared(label: float):
    """Sums of larger ones are not finite."""
    (rejected,) = read_label_file([{"id": "1", "label": 1}, {"id": "2", "label": label}]).rejected

    assert "row 2: a label must be finite and within 1e+100" in rejected.reason
