"""Files of human labels as their tools write them, read by the three commands that use labels. All contents are invented."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from command_line import run_command
from live_store import make_store
from ragstone.reading import by_answer, read_label_file
from ragstone.schema import Score
from ragstone.store import SqliteStore
from ragstone_lab import plan_judge_card

FAST = ("--set", "analysis.n_resamples=20", "--set", "analysis.n_permutations=20")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write_scores(values: dict[str, float], metric: str = "ccrs.cc") -> str:
    """Write scores by sample id, as `evaluate --output` does, and return the name of the file."""
    scores = [
        Score(sample_id=id_, metric=metric, metric_version="1", value=value, method="single_reply")
        for id_, value in values.items()
    ]
    with Path("scores.jsonl").open("a") as file:
        file.writelines(score.model_dump_json() + "\n" for score in scores)
    return "scores.jsonl"


def agreement(labels: str, *options: str) -> dict[str, Any]:
    """Return what `validate-metrics` says about the agreement of `scores.jsonl` with labels, and its notes."""
    done = run_command("lab", "validate-metrics", "scores.jsonl", "--labels", labels, *options, *FAST, "--json")
    assert 0 == done.returncode, done.stderr
    plain = json.loads(done.stdout)
    (found,) = plain["labels"]
    return {**found, "notes": [*found["notes"], *plain["notes"]]}


def refusal(labels: str, *options: str) -> str:
    """Return the message with which `validate-metrics` refuses labels."""
    done = run_command("lab", "validate-metrics", "scores.jsonl", "--labels", labels, *options, *FAST)
    assert 2 == done.returncode, done.stdout
    return done.stderr


def plan(labels: str, *options: str) -> dict[str, Any]:
    """Return the plan of a judge card."""
    done = run_command("lab", "judge-card", "--labels", labels, *options, "--judge", "lexical", "--dry-run", "--json")
    assert 0 == done.returncode, done.stderr
    plain: dict[str, Any] = json.loads(done.stdout)
    return plain


def write_json(name: str, value: object) -> str:
    Path(name).write_text(json.dumps(value))
    return name


ARES_HEADER = "Query\tDocument\tAnswer\tContext_Relevance_Label\tAnswer_Relevance_Label\tAnswer_Faithfulness_Label"


def write_ares(labels: list[str]) -> str:
    rows = [f"Q {n}?\tPassage {n}.\tAnswer {n}.\t1\t0\t{label}" for n, label in enumerate(labels)]
    Path("ares.tsv").write_text("\n".join([ARES_HEADER, *rows]) + "\n")
    return "ares.tsv"


@pytest.mark.usefixtures("folder")
def test_ares_rows_are_samples_and_labels():
    """The passage, the question and the answer of a row are its sample. An empty label is unknown, not 0."""
    file = write_ares(["1", "0", ""] * 6)
    chosen = ("--label", "Answer_Faithfulness_Label=ragas.faithfulness")
    found = plan(file, *chosen)
    assert (18, {"ragas.faithfulness": 12}) == (found["n_samples"], found["n_labeled"])
    assert "Answer_Faithfulness_Label: 6 of 18 labels are empty, so unknown" in found["notes"]
    sample = plan_judge_card(file, label_columns=chosen[1:]).samples[1]
    assert ("Q 1?", "Answer 1.", ["Passage 1."]) == (
        sample.query,
        sample.response,
        [passage.text for passage in sample.contexts],
    )


@pytest.mark.usefixtures("folder")
def test_ares_agreement_by_hand():
    """Of 6 known labels, the scores agree with 4 at 0.5. Chance agreement is 0.5, so that kappa is (4/6 - 0.5) / 0.5."""
    file = write_ares(["1", "1", "1", "0", "0", "0", ""])
    write_scores(dict(zip("1234567", (0.9, 0.8, 0.1, 0.2, 0.3, 0.6, 1.0), strict=True)))
    found = agreement(file, "--label", "Answer_Faithfulness_Label=ccrs.cc")
    assert (6, [0.0, 1.0]) == (found["n"], found["label_range"])
    assert 4 / 6 == pytest.approx(found["exact"]["value"])
    assert 1 / 3 == pytest.approx(found["cohen"]["coefficient"]["value"])
    # The differences are -0.1, -0.2, -0.9, 0.2, 0.3 and 0.6.
    assert -0.1 / 6 == pytest.approx(found["bias"]["value"])
    assert "the label Answer_Faithfulness_Label is compared with ccrs.cc" in found["notes"]


@pytest.mark.usefixtures("folder")
def test_ares_label_must_be_chosen_with_its_metric():
    """Neither the label nor its metric is guessed: the messages name both, and metrics with a similar name first."""
    file = write_ares(["1", "0"])
    write_scores({"1": 0.5})
    write_scores({"1": 0.5}, "ragas.faithfulness")
    assert "--label Answer_Faithfulness_Label=METRIC" in refusal(file)
    assert "Name it: --label Answer_Faithfulness_Label=ragas.faithfulness or" in refusal(
        file, "--label", "Answer_Faithfulness_Label"
    )
    message = refusal(file, "--label", "Faithfulness")
    assert "no row in the layout of ARES has the label 'Faithfulness'. Labels: Context_Relevance_Label" in message
    assert "row 2: a label must be correct, partly, wrong or a number from 0 to 1, got '2'" in refusal(
        write_ares(["1", "2"]), "--label", "Answer_Faithfulness_Label=ccrs.cc"
    )


def pair(n: int, label: int) -> dict[str, Any]:
    """Two answers of one question, the second of which is better if the label is positive."""
    answers = {
        f"model{k}": {"model_name": name, "response": f"Answer {n} of {name}."} for k, name in ((1, "bm"), (2, "e5"))
    }
    common = {"instance_id": n, "dataset": "d", "query_id": f"{n}", "query": f"Q {n}?", "gt_answer": f"A {n}."}
    return {**common, **answers, "correctness_label": 0, "overall_label": label}


@pytest.mark.usefixtures("folder")
def test_preferences_are_compared_with_differences_of_scores():
    """The label of a pair, from -2 to 2, is compared with the second score minus the first one, from -1 to 1."""
    labels = [(1, 1), (0, 0), (-2, -2), (2, 1)]
    file = write_json("pairs.json", [pair(n, label) for n, both in enumerate(labels) for label in both])
    scores = [(0.2, 0.7), (0.9, 0.9), (1.0, 0.0), (0.5, 0.6)]
    write_scores({f"d+{n}+{name}": both[k] for n, both in enumerate(scores) for k, name in ((0, "bm"), (1, "e5"))})
    found = agreement(file, "--label", "overall_label=ccrs.cc")
    assert (4, [-2.0, 2.0], [-1, -0.5, 0, 0.5, 1]) == (found["n"], found["label_range"], found["categories"])
    # The differences 0.5, 0, -1 and 0.1 and the mean preferences 0.5, 0, -1 and 0.75. The last pair disagrees.
    assert 0.75 == found["exact"]["value"]
    assert (0.1 - 0.75) / 4 == pytest.approx(found["bias"]["value"])
    assert found["people"]["coefficient"]["value"] > 0.8


@pytest.mark.usefixtures("folder")
def test_pairs_of_answers_are_samples_of_a_judge_card():
    """280 pairs, labeled twice, are 560 answers with ids of dataset, question and model. A pair is one label."""
    file = write_json("pairs.json", [pair(n, label) for n in range(12) for label in (1, -1)])
    found = plan(file, "--label", "overall_label=ccrs.ac")
    assert (24, {"ccrs.ac": 12}, 0) == (found["n_samples"], found["n_labeled"], found["n_unknown_labels"])
    sample = plan_judge_card(file, label_columns=["overall_label=ccrs.ac"]).samples[0]
    assert ("d+0+bm", "Answer 0 of bm.", ("A 0.",)) == (sample.id, sample.response, sample.reference)
    done = run_command(
        "lab", "judge-card", "--labels", file, "--label", "overall_label=ccrs.ac", "--judge", "lexical", "--json",
        "--set", "research.conditions=none", *FAST[:2],
    )  # fmt: skip
    (judge,) = json.loads(done.stdout)["judges"]
    assert 12 == judge["metrics"][0]["agreement"]["n"]


def annotation(n: int, output: float, *, accepted: bool = True, target: float | None = None) -> dict[str, Any]:
    inputs = {"user_input": f"Q {n}?", "response": f"A {n}.", "retrieved_contexts": [f"P {n}."]}
    return {"metric_input": inputs, "metric_output": output, "is_accepted": accepted, "target": target, "prompts": {}}


@pytest.mark.usefixtures("folder")
def test_ragas_scores_are_labels_if_a_person_accepted_them():
    """A rejected score is replaced by its target. Without one it is unknown, except among scores of 0 and 1."""
    graded = [annotation(1, 0.75), annotation(2, 0.5, accepted=False, target=0.25), annotation(3, 1, accepted=False)]
    binary = [annotation(1, 1), annotation(2, 1, accepted=False), annotation(3, 0)]
    file = write_json("ragas.json", {"faithfulness": graded, "harmful": binary})
    write_scores({"1": 1.0, "2": 0.375, "3": 0.0})
    found = agreement(file, "--label", "faithfulness=ccrs.cc", "--set", "research.label_range=0,1")
    assert 2 == found["n"]
    # The differences are 1 - 0.75 and 0.375 - 0.25.
    assert 0.1875 == pytest.approx(found["bias"]["value"])
    assert "faithfulness: 1 of 3 labels is empty, so unknown" in found["notes"]
    found = agreement(file, "--label", "harmful=ccrs.cc")
    assert (3, 1.0) == (found["n"], found["exact"]["value"])
    assert any(
        note.startswith("harmful: the scale is not stated. The labels are from 0 to 1") for note in found["notes"]
    )


@pytest.mark.usefixtures("folder")
def test_ragas_metrics_are_compared_with_those_of_the_same_name():
    """The file names the metric. Equal inputs in several lists are one sample."""
    rows = [annotation(n, n % 2) for n in range(12)]
    file = write_json("ragas.json", {"faithfulness": rows, "answer_relevancy": rows})
    found = plan(file)
    assert {"ragas.faithfulness", "ragas.answer_relevancy"} == set(found["metrics"])
    assert (12, {12}) == (found["n_samples"], set(found["n_labeled"].values()))


def human_evaluation(values: dict[str, tuple[int, int]]) -> dict[str, Any]:
    """Answers of two models to two tasks, of which the second is a follow-up question, labeled by two people."""
    first = {"speaker": "user", "text": "When is it open?"}
    talk = [first, {"speaker": "agent", "text": "Daily."}, {"speaker": "user", "text": "And on Sunday?"}]
    tasks = [
        {"task_id": "t1", "input": [first], "contexts": [{"document_id": "d"}], "targets": [{"text": "Daily."}]},
        {"task_id": "t2", "input": talk, "contexts": [], "targets": []},
    ]
    evaluations = [
        {
            "task_id": key.split("+")[0],
            "model_id": key.split("+")[1],
            "model_response": f"Answer {key}.",
            "annotations": {
                "accuracy": {"ann": {"value": a}, "bob": {"value": b}},
                "wins": {"ann": {"value": "yes" if a > 2 else "no"}},
            },
        }
        for key, (a, b) in values.items()
    ]
    wins = [{"value": "no", "numeric_value": 0}, {"value": "yes", "numeric_value": 1}]
    return {
        "models": [{"model_id": "m1"}, {"model_id": "m2"}],
        "metrics": [{"name": "accuracy", "range": [1, 4, 1]}, {"name": "wins", "values": wins}],
        "documents": [{"document_id": "d", "text": "It is open daily."}],
        "tasks": tasks,
        "evaluations": evaluations,
    }


@pytest.mark.usefixtures("folder")
def test_human_evaluation_with_several_lists():
    """Its ranges are stated, its people are compared, and answers get their task's conversation and documents."""
    values = {"t1+m1": (4, 4), "t1+m2": (2, 3), "t2+m1": (3, 3), "t2+m2": (2, 2)}
    file = write_json("human.json", human_evaluation(values))
    write_scores({"t1+m1": 1.0, "t1+m2": 0.6, "t2+m1": 0.0, "t2+m2": 0.3})
    found = agreement(file, "--label", "accuracy=ccrs.cc")
    assert (4, [1.0, 4.0]) == (found["n"], found["label_range"])
    assert [0, 1 / 3, 2 / 3, 1] == pytest.approx(found["categories"])
    # People: 1, 1/2, 2/3 and 1/3 as scores, 1, 2/3, 2/3 and 1/3 as grades.
    assert 0.75 == found["exact"]["value"]
    assert (0.1 - 2 / 3 + 0.3 - 1 / 3) / 4 == pytest.approx(found["bias"]["value"])
    assert not any("scale is not stated" in note for note in found["notes"])
    found = agreement(file, "--label", "wins=ccrs.cc")
    assert (4, 0.5, None) == (found["n"], found["exact"]["value"], found["people"])
    assert "--label accuracy=METRIC, --label wins=METRIC" in refusal(file)


@pytest.mark.usefixtures("folder")
def test_samples_of_a_human_evaluation():
    """A judge card scores each answer of each model."""
    document = human_evaluation({f"{task}+m{k}": (1 + k % 4, 2) for task in ("t1", "t2") for k in range(6)})
    found = plan_judge_card(write_json("human.json", document), label_columns=["accuracy=ccrs.cc"], metrics="ccrs.cc")
    assert (12, {"ccrs.cc": 12}) == (len(found.samples), found.n_labeled)
    first, last = found.samples[0], found.samples[-1]
    assert ("When is it open?", "Answer t1+m0.", ("Daily.",)) == (first.query, first.response, first.reference)
    assert [("d", "It is open daily.")] == [(passage.id, passage.text) for passage in first.contexts]
    assert ("And on Sunday?", ["When is it open?", "Daily."]) == (last.query, [turn.text for turn in last.history])


def test_a_column_is_labels_only_if_it_is_named(folder: Path):
    """The message names columns that look like labels. Without a metric, the label is compared with the only one."""
    (folder / "l.csv").write_text("id,human_score,comment\nq0,4,good\nq1,1,bad one\nq2,,\n")
    write_scores({"q0": 1.0, "q1": 0.25})
    assert "Name the column: --label human_score, or" in refusal("l.csv")
    found = agreement("l.csv", "--label", "human_score", "--set", "research.label_range=1,5")
    # The differences are 1 - 0.75 and 0.25 - 0.
    assert (2, 0.25) == (found["n"], found["bias"]["value"])
    found = agreement("l.csv", "--label", "human_score")
    assert [1.0, 4.0] == found["label_range"]
    guess = "human_score: the scale is not stated. The labels are from 1 to 4, and the range is guessed"
    assert any(note.startswith(guess) for note in found["notes"])
    assert "got '4'. State another scale" in refusal(
        "l.csv", "--label", "human_score", "--set", "research.label_range=1,3"
    )


def test_texts_are_a_scale_in_a_stated_order(folder: Path):
    """Other texts are errors, and words and large numbers in one column need a range."""
    (folder / "l.csv").write_text("id,level\nq0,Good\nq1,fair\nq2,poor\nq3,None\n")
    write_scores({"q0": 1.0, "q1": 0.5, "q2": 1.0, "q3": 0.0})
    found = agreement("l.csv", "--label", "level", "--set", "research.label_values=poor,fair,good")
    assert (3, [0.0, 2.0], 2 / 3) == (found["n"], found["label_range"], pytest.approx(found["exact"]["value"]))
    assert "a label must be one of poor, fair, got 'Good'" in refusal(
        "l.csv", "--label", "level", "--set", "research.label_values=poor,fair"
    )
    assert "Name other texts, lowest first: --set research.label_values=TEXT,TEXT" in refusal(
        "l.csv", "--label", "level"
    )
    (folder / "m.csv").write_text("id,level\nq0,yes\nq1,4\n")
    assert "level has words (such as yes) and numbers outside of 0 to 1" in refusal("m.csv", "--label", "level")
    found = agreement("m.csv", "--label", "level", "--set", "research.label_range=0,8")
    assert (2, 0.0) == (found["n"], found["bias"]["value"])


def test_labels_of_parts_are_averaged(folder: Path):
    """A row for each claim, or a list of claims in a row: the label of an answer is the share of supported claims."""
    (folder / "rows.csv").write_text("id,claim,supported\nq0,a,yes\nq0,b,no\nq0,c,\nq1,a,yes\n")
    claims = [{"text": "a", "ok": True}, {"text": "b", "ok": False}]
    (folder / "lists.jsonl").write_text(
        json.dumps({"id": "q0", "claims": claims}) + "\n" + json.dumps({"id": "q1", "claims": claims[:1]}) + "\n"
    )
    write_scores({"q0": 0.75, "q1": 1.0})
    for file, column, n in (("rows.csv", "supported", 3), ("lists.jsonl", "claims.ok", 3)):
        found = agreement(file, "--label", column)
        assert (2, 0.125) == (found["n"], found["bias"]["value"])
        assert f"{column}: {n} labels of claims. Their mean is the label of an answer" in found["notes"]


def test_several_labels_of_one_answer_need_a_person_or_a_part(folder: Path):
    """The last row does not silently count alone."""
    (folder / "l.csv").write_text("id,label\nq0,1\nq0,0\n")
    write_scores({"q0": 0.5})
    assert "'q0' has 2 labels without a name of a person. Name the person in a column" in refusal("l.csv")
    (folder / "l.csv").write_text("id,label,annotator\nq0,1,ann\nq0,0,bob\n")
    found = agreement("l.csv")
    assert (1, 0.0) == (found["n"], found["bias"]["value"])


def test_labels_are_added_to_a_store(folder: Path):
    """From any column, on a stated scale. A mean over claims is one label, and preferences are refused."""
    path = make_store(folder / "s.db", 3)
    (folder / "l.csv").write_text("trace_id,human_score,author\nt0,4,ann\nt1,1,ann\nt2,,ann\n")
    done = run_command("labels", "add", path, "l.csv")
    assert 2 == done.returncode
    assert "Name the column: --label human_score" in done.stderr
    options = ("--label", "human_score", "--set", "research.label_range=1,5")
    done = run_command("labels", "add", path, "l.csv", *options)
    assert "2 labels added.\nhuman_score: 1 of 3 labels is empty, so unknown\n" in done.stdout
    (folder / "c.csv").write_text("trace_id,claim,label,author\nt2,a,yes,bob\nt2,b,no,bob\n")
    assert 0 == run_command("labels", "add", path, "c.csv").returncode
    with SqliteStore.open(path, mode="read") as store:
        found = {(each.trace_id, each.author): each.value for each in store.labels.read()}
    assert {("t0", "ann"): 0.75, ("t1", "ann"): 0.0, ("t2", "bob"): 0.5} == found
    done = run_command("labels", "add", path, write_json("p.json", [pair(0, 1)]), "--label", "overall_label")
    assert "row 1: a preference between two answers is not a label of one answer" in done.stderr
    done = run_command("labels", "add", path, "l.csv", "--label", "human_score=ccrs.cc")
    assert "a store has one label of an answer" in done.stderr


def test_columns_with_the_names_of_metrics_are_labels():
    """They count before a general name, unless a column names the metric."""
    rows = [{"id": "a", "ccrs.cc": 0.5, "label": 1}]
    found = read_label_file(rows, metrics=["ccrs.cc"]).records
    assert [("ccrs.cc", "ccrs.cc", 0.5)] == [(label.name, label.metric, label.value) for label in found]
    found = read_label_file([row | {"metric": "ccrs.qr"} for row in rows], metrics=["ccrs.cc"]).records
    assert [("label", "ccrs.qr", 1.0)] == [(label.name, label.metric, label.value) for label in found]


def test_labels_of_two_people_without_ids_are_of_one_sample():
    """The same texts in two rows are one sample, and a text of contexts is not a part of an answer."""
    rows = [
        {"query": f"q{n}", "response": f"a{n}", "contexts": "The same passage.", "annotator": who, "label": n % 2}
        for n in range(3)
        for who in ("ann", "ben")
    ]
    file = read_label_file(rows)
    assert (3, 6) == (len(file.samples), len(file.records))
    assert {("answer", None)} == {(record.level, record.unit) for record in file.records}
    ids = [str(record.sample_id or record.first) for record in file.records]
    assert [sample["id"] for sample in file.samples for _ in range(2)] == ids
    assert 6 == len(by_answer(file.records))


@pytest.mark.usefixtures("folder")
def test_words_of_a_human_evaluation_have_the_numbers_that_it_states():
    """Other words than those that are known as labels."""
    document = human_evaluation({"t1+m1": (4, 4), "t1+m2": (2, 3), "t2+m1": (3, 3), "t2+m2": (2, 2)})
    wins = next(each for each in document["metrics"] if each["name"] == "wins")
    wins["values"] = [{"value": "never", "numeric_value": 3}, {"value": "at times", "numeric_value": 7}]
    text = json.dumps(document).replace('"no"', '"never"').replace('"yes"', '"at times"')
    records = read_label_file(write_json("human.json", json.loads(text)), columns=["wins"]).records

    assert ({3.0, 7.0}, {(3.0, 7.0)}) == ({each.value for each in records}, {each.bounds for each in records})
