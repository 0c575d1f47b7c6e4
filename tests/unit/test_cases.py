"""Cases: requests of a store as rows of a test set, which are asked again and compared with what happened then."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import ragstone
from command_line import run_command
from completions import complete
from live_store import METRICS, add_requests, make_store
from ragstone.errors import ConfigurationError, DataError
from ragstone.experiments import build_report, choose_cases, find_worst
from ragstone.schema import Captured, Sample, Score
from ragstone.store import SqliteStore, StoredCase, StoredLabel

CHOSEN = "cases chosen by what was judged, as a failures-only set is: their mean estimates nothing"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store of 80 requests, of which the 20 with a number divisible by 4 are judged wrong."""
    return make_store(tmp_path / "s.db", 80)


def rows_of(path: Path, **options) -> list[dict]:
    """The rows of cases of a store."""
    return [json.loads(line) for line in choose_cases(path, **options).lines()]


def write(path: Path, name: str = "cases.jsonl", **options) -> Path:
    """A file of cases next to the store."""
    file = path.parent / name
    choose_cases(path, **options).write(file)
    return file


def test_a_row_has_the_request_its_scores_and_its_cause(path: Path):
    """Question, contexts, answer, reference, id and release are those of the request; the case has what was judged."""
    (row,) = rows_of(path, worst=1)
    case = row["case"]
    assert ("t0", "When does ferry 0 leave? ", "It leaves at nine. It costs 0 crowns. ", ["At ten. "]) == (
        row["trace_id"], row["query"], row["response"], row["reference"],
    )  # fmt: skip
    assert ["p0", "p1", "p2"] == [passage["id"] for passage in row["contexts"]]
    assert {"ccrs.ac": 0.1, "ragas.faithfulness": 0.0, "ccrs.qr": 0.0} == case["scores"]
    assert (True, None, None) == (case["is_wrong"], case["weight"], case["estimates"])
    assert case["cause"] == find_worst(path, n=1)[0].cause
    assert list(METRICS) == [outcome["metric"] for outcome in case["outcomes"]]


def test_the_worst_are_wrong_ones_only(path: Path):
    """More than there are wrong answers gives the wrong ones, and the file says that their mean estimates nothing."""
    rows = rows_of(path, worst=50)
    assert {f"t{k}" for k in range(0, 80, 4)} == {row["trace_id"] for row in rows}
    assert {None} == {row["case"]["estimates"] for row in rows}


def test_conditions_select_by_cause_score_and_label(path: Path):
    """A cause or a score makes a set of failures; a label does not."""
    causes = {row["trace_id"]: row["case"]["cause"] for row in rows_of(path, worst=50)}
    cause = causes["t0"]
    chosen = rows_of(path, where=f"cause={cause}")
    assert {id_ for id_, each in causes.items() if each == cause} == {row["trace_id"] for row in chosen}
    assert {None} == {row["case"]["estimates"] for row in chosen}
    assert {None} == {row["case"]["estimates"] for row in rows_of(path, where="ccrs.qr<0.5")}
    drawn = rows_of(path, where="topic=times", limit=1000)
    assert 40 == len(drawn)
    assert {"that of 40 scored requests of s.db with topic=times"} == {row["case"]["estimates"] for row in drawn}
    assert {None} == {row["case"]["cause"] for row in rows_of(path, where="cause=none", limit=1000)} - {
        "correct_unsupported"
    }


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"where": "cause=missed"}, ConfigurationError, "unknown cause 'missed'. Causes: no_relevant_passage, missed"),
        ({"where": "tpoic=fares"}, ConfigurationError, "no sample has 'tpoic'"),
        ({"where": "ccrs.qr>2"}, DataError, "no scored request of .* is selected"),
        ({"where": "topic=nothing", "worst": 3}, DataError, "no wrong answer of .* is selected"),
    ],
)
def test_what_selects_nothing_is_an_error(path: Path, options: dict, error: type[Exception], message: str):
    """The error names the value, and never writes an empty file."""
    with pytest.raises(error, match=message):
        choose_cases(path, **options)


def test_a_file_of_outcomes_has_no_cases(path: Path, tmp_path: Path):
    """It does not hold texts."""
    (tmp_path / "o.jsonl").write_text("{}\n")
    with pytest.raises(ConfigurationError, match="cases are requests of a store"):
        choose_cases(tmp_path / "o.jsonl")


def test_drawn_cases_have_their_weights_and_are_the_same_again(path: Path):
    """The weight is the inverse of the probability, which the row states as well, and a seed decides."""
    first, again, other = rows_of(path, limit=20), rows_of(path, limit=20), rows_of(path, limit=20, seed=5)
    assert first == again != other
    for row in first:
        assert row["inclusion_probability"] == pytest.approx(1 / row["case"]["weight"])
    assert 8 < len(first) < 40
    assert sum(row["case"]["weight"] for row in first) == pytest.approx(80, rel=0.5)
    assert {1.0} == {row["case"]["weight"] for row in rows_of(path, limit=80)}
    assert 80 == len(rows_of(path, limit=80))


def test_a_sampled_request_counts_for_those_that_were_not_captured(path: Path):
    """Its weight contains the probability to be captured."""
    with SqliteStore.open(path, mode="own") as store:
        (trace,) = store.traces.get_many(["t1"]).values()
        kept = trace.model_copy(update={"trace_id": "kept", "inclusion_probability": 0.25})
        store.traces.ingest("test", 200, [Captured(trace=kept)])
        complete(store, "kept", [Score(
            sample_id="kept", metric="ccrs.ac", metric_version="1", value=0.9, method="exact", judge_hash="h",
        )])  # fmt: skip
    (row,) = [row for row in rows_of(path, limit=1000) if row["trace_id"] == "kept"]
    assert (4.0, 0.25) == (row["case"]["weight"], row["inclusion_probability"])


def test_requests_without_texts_are_counted_and_not_written(path: Path):
    """Retention has removed the texts of the first ten, of which three are wrong."""
    with SqliteStore.open(path, mode="own") as store:
        store.upkeep.remove_texts(before=1_700_000_000.0 + 60 * 10)
    cases = choose_cases(path, worst=50)
    assert (17, 3) == (len(cases.weights), cases.n_removed)
    assert 17 == len(list(cases.lines()))


def test_evaluate_and_report_read_cases_without_options(path: Path):
    """They are recognized as our own format. A report has the outcomes of production, an evaluation its own."""
    file = write(path, worst=12)
    result = ragstone.evaluate(file, ["ccrs.cc"], judge="lexical")
    assert result.reading is not None
    assert "cases, as `labels cases` writes them" in result.reading.format
    assert 12 == result.reading.notes[CHOSEN]
    view = build_report(file)
    assert 12 == view.n_samples
    assert f"C{CHOSEN[1:]}." in str(view.notices)
    assert pytest.approx(0.1) == next(row for row in view.metrics if row.name == "ccrs.ac").estimate.value


def test_answers_are_compared_with_what_was_judged_then(path: Path):
    """The application corrects those with an even half; the rest stays wrong. Luck and the judge are named."""
    file = write(path, worst=20)

    def ask(row: Sample) -> dict:
        is_right = int(row.id[1:]) % 8 == 0
        return {"response": row.reference[0] if is_right else "No idea at all.", "contexts": ["At ten."]}

    result = ragstone.evaluate(file, ["ccrs.ac"], app=ask, judge="lexical")
    found = result.to_dict()["cases"]
    assert (20, 20, 10, 0, 0) == tuple(found[name] for name in ("n", "n_wrong", "n_corrected", "n_right", "n_unknown"))
    assert (0.5, "wilson") == (found["corrected"]["value"], found["corrected"]["method"])
    text = str(result)
    assert "10 of 20 answers that were judged wrong are right now (50 % [30, 70])." in text
    assert "by luck" in text
    assert (
        "definition or prompt of ccrs.ac changed; judge of ccrs.ac changed (judge before, lexical baseline now): scores"
        in text
    )
    assert "Scored then, and not now: ccrs.qr, ragas.faithfulness." in text
    assert f"C{CHOSEN[1:]}." in text


def test_a_changed_question_is_not_compared(path: Path):
    """Its answer is to another question. It is counted."""
    rows = rows_of(path, worst=4)
    rows[0]["query"] = "When does the last ferry leave?"
    file = path.parent / "edited.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = ragstone.evaluate(file, ["ccrs.ac"], app=lambda question: "At ten.", judge="lexical").to_dict()["cases"]
    assert (4, 3, 1, 0) == tuple(found[name] for name in ("n", "n_wrong", "n_other_question", "n_unknown"))
    rows[1]["case"]["is_wrong"] = None
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = ragstone.evaluate(file, ["ccrs.ac"], app=lambda question: "At ten.", judge="lexical").to_dict()["cases"]
    assert (4, 2, 1, 1) == tuple(found[name] for name in ("n", "n_wrong", "n_other_question", "n_unknown"))


def test_right_answers_that_are_wrong_now_are_broken(path: Path):
    """Of 60 that were judged right, the application answers ten right again."""
    file = write(path, limit=1000)

    def ask(row: Sample) -> dict:
        is_right = int(row.id[1:]) % 8 in (0, 1)
        return {"response": row.reference[0] if is_right else "No idea at all.", "contexts": ["At ten."]}

    result = ragstone.evaluate(file, ["ccrs.ac"], app=ask, judge="lexical")
    found = result.to_dict()["cases"]
    assert (20, 10, 60, 50) == tuple(found[name] for name in ("n_wrong", "n_corrected", "n_right", "n_broken"))
    assert "50 of 60 answers that were judged right are wrong now." in str(result)


def test_other_samples_are_not_compared(path: Path):
    """Rows that are not cases have no comparison."""
    rows = [{"query": "Why?", "response": "Rain.", "contexts": ["Rain."], "case": "a column of the user"}]
    assert ragstone.evaluate(rows, ["ccrs.cc"], judge="lexical").to_dict()["cases"] is None


def test_a_correction_is_the_reference_and_marks_are_labels(path: Path):
    """The last correction counts, and passages without a mark are not relevant."""
    with SqliteStore.open(path, mode="own") as store:
        store.labels.save([
            StoredLabel("t0", "bob", 0.0, 1.0, "At eight.", "[1]"),
            StoredLabel("t0", "ann", 0.0, 2.0, "At seven.", "[2, 3]"),
            StoredLabel("t4", "ann", 0.0, 1.0),
            StoredLabel("t8", "ann", None, 5.0),
            StoredLabel("t12", "ann", 0.0, 9.0, "At nine."),
            StoredLabel("t12", "bob", 0.0, 8.0, "At eight."),
        ])  # fmt: skip
    assert ["At nine."] == next(row for row in rows_of(path, worst=20) if row["trace_id"] == "t12")["reference"]
    rows = {row["trace_id"]: row for row in rows_of(path, worst=20)}
    assert (["At seven."], {"p0": 0.0, "p1": 1.0, "p2": 1.0}) == (rows["t0"]["reference"], rows["t0"]["qrels"])
    assert [0.0, 1.0, 1.0] == [passage["relevance"] for passage in rows["t0"]["contexts"]]
    assert (["At ten. "], None) == (rows["t4"]["reference"], rows["t4"].get("qrels"))
    assert (0.0, 0.0, None) == tuple(rows[id_]["case"]["label"] for id_ in ("t0", "t4", "t8"))


def test_the_command_writes_rows_and_says_what_they_are(path: Path):
    """Rows to a file or to standard output, everything else to standard error."""
    file = path.parent / "out.jsonl"
    done = run_command("labels", "cases", path, "--worst", "5", "-o", file)
    assert (0, "") == (done.returncode, done.stdout)
    assert f"5 cases of 20 requests. C{CHOSEN[1:]}." in done.stderr
    assert f"ragstone evaluate {file} --app MODULE:NAME" in done.stderr
    assert 5 == len(file.read_text().splitlines())
    piped = run_command("labels", "cases", path, "--worst", "5")
    assert file.read_text() == piped.stdout
    with SqliteStore.open(path, mode="read") as store:
        ids = [json.loads(line)["trace_id"] for line in file.read_text().splitlines()]
        assert {(str(file), id_) for id_ in ids} == set(store.labels.cases())


def test_an_erasure_removes_the_rows_of_known_files(path: Path):
    """Other rows stay as they are. A file that is not there is named."""
    file = write(path, worst=5)
    lines = file.read_text().splitlines(keepends=True)
    gone = write(path, "gone.jsonl", worst=5)
    gone.unlink()
    planned = run_command("store", "erase", path, "--trace", "t0", "--dry-run")
    assert f"1 row of the file of cases {file} would be removed." in planned.stdout
    assert lines == file.read_text().splitlines(keepends=True)
    done = run_command("store", "erase", path, "--trace", "t0")
    assert f"1 row of the file of cases {file} removed." in done.stdout
    assert f"The file of cases {gone} contains some of them and cannot be read or written here" in done.stdout
    assert [line for line in lines if json.loads(line)["trace_id"] != "t0"] == file.read_text().splitlines(
        keepends=True
    )
    with SqliteStore.open(path, mode="read") as store:
        assert {"t0"} & {case.trace_id for case in store.labels.cases()} == set()
        assert 8 == len(store.labels.cases())


def test_a_reader_notes_a_file_while_another_process_owns_the_store(path: Path):
    """The note waits in the inbox, and the owner stores it."""
    with SqliteStore.open(path, mode="own") as owner:
        file = write(path, worst=2)
        assert {StoredCase(str(file), id_) for id_ in choose_cases(path, worst=2).weights} == set(owner.labels.cases())
    with SqliteStore.open(path, mode="own") as store:
        store.labels.save([])
        assert 2 == len(store.labels.cases())


def test_new_traffic_keeps_most_drawn_cases(path: Path):
    """Each request has its own number, so cases leave only as their probability falls."""
    before = {row["trace_id"] for row in rows_of(path, limit=40)}
    with SqliteStore.open(path, mode="own") as store:
        add_requests(store, 80, 10)
    after = {row["trace_id"] for row in rows_of(path, limit=40)}
    assert len(before & after) >= 0.7 * len(before)


def test_one_case_that_was_chosen_by_what_was_judged_makes_a_set_of_them(path: Path):
    """Its mean estimates nothing, although the other cases were drawn."""
    drawn, worst = write(path, "drawn.jsonl", limit=20), write(path, "worst.jsonl", worst=2)
    lines = {json.loads(line)["trace_id"]: line for file in (drawn, worst) for line in file.read_text().splitlines()}
    both = path.parent / "both.jsonl"
    both.write_text("".join(f"{line}\n" for line in lines.values()))
    assert {None} < {json.loads(line)["case"]["estimates"] for line in lines.values()}
    said = [f"C{CHOSEN[1:]}." in str(build_report(file).notices) for file in (drawn, worst, both)]
    assert [False, True, True] == said
