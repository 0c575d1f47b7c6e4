"""The review of a data set: what a person may do to it, and what is refused."""

from __future__ import annotations

import csv
import json
import math
import re

import pytest

from ragstone._util.csv_table import guarded, unguarded
from ragstone.errors import ConfigurationError, DataError
from ragstone.testing import FakeJudge
from ragstone_lab import apply_review, build_dataset

HARBOUR = "The lighthouse of Northport was built in 1884. It is 31 metres tall.\n\nFerries leave at seven and at noon."
MARKET = "The market of Northport is held on Fridays. It sells fish and bread."


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with two documents, and the current one."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "harbour.md").write_text(HARBOUR)
    (tmp_path / "docs" / "market.txt").write_text(MARKET)
    return tmp_path


def writing(answers=None, fail=None, questions=("Who built it?", "When was it built?", "What is sold there?")):
    """A judge that writes; `answers` gives the ratings of (a part of) a passage."""

    def reply(prompt):
        match prompt.construct:
            case "report_request":
                return {"query": f"Tell me about {prompt.fields['report'].split()[1]}."}
            case "report_questions":
                return {"items": list(questions)}
            case "standalone_passage":
                return {"passage": prompt.fields["passage"]}
        evidence = prompt.fields["evidence"]
        for part, marks in (answers or {"lighthouse": (0, 5, 0), "market": (0, 0, 4)}).items():
            if part in evidence:
                by_question = dict(zip(questions, marks, strict=False))
                asked = prompt.fields["sub_questions"]
                return {str(n): by_question.get(q, 2) for n, q in enumerate(asked, start=1)}
        return {str(n): 0 for n in range(1, len(prompt.fields["sub_questions"]) + 1)}

    return FakeJudge(json=reply, fail=fail)


def rows_of(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def review_of(folder):
    with (folder / "set" / "review.csv").open(encoding="utf-8-sig", newline="") as file:
        return list(csv.DictReader(file))


def rewrite(folder, rows, **dialect):
    with (folder / "set" / "review.csv").open("w", encoding="utf-8", newline="") as file:
        table = csv.DictWriter(file, list(rows[0]), **dialect)
        table.writeheader()
        table.writerows(rows)


def test_an_untouched_review_changes_nothing(folder):
    """And asks no one."""
    build_dataset("docs", "set", judge=writing())
    before = (folder / "set" / "dataset.jsonl").read_bytes()
    found = apply_review("set")
    assert before == (folder / "set" / "dataset.jsonl").read_bytes()
    assert (0, 0, 0) == (found.n_edited, found.n_dropped, found.n_asked)


def test_no_and_a_removed_line_drop(folder):
    """A query takes its item along; a passage goes from every pool, and what it alone answered is no longer answerable."""
    build_dataset("docs", "set", judge=writing())
    rows = review_of(folder)
    queries = [row for row in rows if row["kind"] == "query"]
    queries[0]["keep"] = "no"
    market = next(row for row in rows if row["kind"] == "passage" and "market" in row["text"])
    rewrite(folder, [row for row in rows if row is not market])
    found = apply_review("set")
    assert (2, 1) == (found.n_dropped, found.n_removed)
    (row,) = rows_of(folder / "set" / "dataset.jsonl")
    assert queries[1]["item"] == row["id"]
    assert ["When was it built?"] == row["sub_questions"]


def test_an_edited_text_is_rated_anew(folder):
    """Only the pairs it is in, once; the same review again asks nothing."""
    build_dataset("docs", "set", judge=writing())
    rows = review_of(folder)
    edited = next(row for row in rows if row["kind"] == "sub_question" and row["id"] == "q1")
    edited["text"] = "What is the name of the town?"
    rewrite(folder, rows)
    with pytest.raises(ConfigurationError, match="1 text was edited"):
        apply_review("set")
    judge = writing({"market": (), "lighthouse": ()}, questions=())
    judge._json = lambda prompt: {"1": 4}
    found = apply_review("set", judge=judge)
    assert {("What is the name of the town?",)} == {p.fields["sub_questions"] for p in judge.prompts}
    assert (1, len(judge.prompts)) == (found.n_edited, found.n_asked)
    row = next(row for row in found.rows if row["id"] == edited["item"])
    assert {4.0} == set(row["ratings"]["What is the name of the town?"].values())
    assert 0 == apply_review("set", judge=judge).n_asked


def test_an_edited_query_asks_nobody(folder):
    """No rating depends on it."""
    build_dataset("docs", "set", judge=writing())
    rows = review_of(folder)
    rows[0]["text"] = "What is there to see?"
    rewrite(folder, rows)
    found = apply_review("set")
    assert (1, 0) == (found.n_edited, found.n_asked)
    assert "What is there to see?" == found.rows[0]["query"]


def test_line_ends_of_a_spreadsheet_are_no_edit(folder):
    """A passage of two paragraphs comes back with other line ends."""
    build_dataset("docs", "set", judge=writing())
    rows = review_of(folder)
    assert any("\n" in row["text"] for row in rows)
    for row in rows:
        row["text"] = row["text"].replace("\n", "\r\n")
    rewrite(folder, rows)
    assert 0 == apply_review("set").n_edited


def test_only_a_model_rates_edited_texts(folder, monkeypatch):
    """The lexical baseline of `RAGSTONE_JUDGE` is refused before a file is written, and a model rates the texts."""
    build_dataset("docs", "set", judge=writing())
    rows = review_of(folder)
    next(row for row in rows if row["id"] == "q1")["text"] = "The lighthouse of Northport?"
    rewrite(folder, rows)
    before = (folder / "set" / "dataset.jsonl").read_bytes()
    monkeypatch.setenv("RAGSTONE_JUDGE", "lexical")
    with pytest.raises(ConfigurationError, match="rating edited texts needs a model, and the judge is"):
        apply_review("set")
    assert before == (folder / "set" / "dataset.jsonl").read_bytes()
    assert apply_review("set", judge=writing()).n_asked > 0


def test_wording_alone_may_keep_its_ratings(folder):
    """`keep_ratings` asks no one, and the person answers for it."""
    build_dataset("docs", "set", judge=writing())
    rows = review_of(folder)
    for row in rows:
        row["text"] = row["text"].replace("When was it built?", "When was it built, please?")
    rewrite(folder, rows)
    found = apply_review("set", keep_ratings=True)
    assert "When was it built, please?" in found.rows[0]["sub_questions"]


def test_an_edited_review_is_not_written_over(folder):
    """A build that continues leaves it, and says so."""
    build_dataset("docs", "set", judge=writing())
    rows = review_of(folder)
    rows[0]["text"] = "Mine."
    rewrite(folder, rows)
    built = build_dataset("docs", "set", judge=writing())
    assert "Mine." == review_of(folder)[0]["text"]
    assert any("was edited and is not overwritten" in note for note in built.notes)


def test_a_review_saved_with_semicolons_is_read(folder):
    """As spreadsheets of some countries do; line ends of another kind are no edit."""
    build_dataset("docs", "set", judge=writing())
    rewrite(folder, review_of(folder), delimiter=";", lineterminator="\r\n", quoting=csv.QUOTE_ALL)
    assert (0, 0) == ((found := apply_review("set")).n_edited, found.n_dropped)


@pytest.mark.parametrize(
    ("tamper", "message"),
    [
        (lambda rows: rows.append(dict(rows[0])), "repeats "),
        (lambda rows: rows[0].update(keep="perhaps"), "keep must be yes or no, got 'perhaps'"),
        (lambda rows: rows[0].update(item="elsewhere"), "which is not in the draft"),
        (lambda rows: rows[0].update(text="  "), "with a text of 0 characters"),
        (lambda rows: rows[0].update(text="x" * 20_001), "20001 characters"),
        (lambda rows: [row.pop("keep") for row in rows], "lacks keep"),
        (lambda rows: rows[2].update(text=rows[1]["text"]), "the same text"),
    ],
)
def test_a_review_that_was_tampered_with_is_refused(folder, tamper, message):
    """With the line, the rule and the way out; the data set stays as it was."""
    build_dataset("docs", "set", judge=writing())
    before = (folder / "set" / "dataset.jsonl").read_bytes()
    rows = review_of(folder)
    tamper(rows)
    rewrite(folder, rows)
    with pytest.raises(DataError, match=message):
        apply_review("set", judge=FakeJudge())
    assert before == (folder / "set" / "dataset.jsonl").read_bytes()


@pytest.mark.parametrize("data", [b"\xff\xfe\x00", b'keep,kind\n"unclosed'])
def test_a_review_that_is_no_table(folder, data):
    """An error, no crash."""
    build_dataset("docs", "set", judge=writing())
    (folder / "set" / "review.csv").write_bytes(data)
    with pytest.raises(DataError, match=r"review\.csv"):
        apply_review("set")


@pytest.mark.parametrize("cell", ["=1+1", "+1", "-x", "@SUM(A1)", "'=quoted", "''", "plain", "", "\tx", "'"])
def test_cells_that_begin_like_a_formula_are_guarded_and_come_back(cell):
    """Text of a document must not run in a spreadsheet, and must not change by the way."""
    assert not guarded(cell).startswith(("=", "+", "-", "@", "\t"))
    assert cell == unguarded(guarded(cell))


def test_no_draft_no_review(tmp_path):
    """The message says which command makes one."""
    with pytest.raises(DataError, match="ragstone lab dataset build"):
        apply_review(tmp_path)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda d: d["items"][0].update(ratings=None), "items.0.ratings: Input should be an object"),
        (lambda d: next(iter(d["passages"].values())).update(text=5), ".text: Input should be a valid string"),
        (lambda d: d.update(rating_threshold=math.nan), "rating_threshold must be above 0"),
        (lambda d: d["items"][0]["ratings"].pop("q1"), "lacks ratings of sub-questions and passages"),
        (lambda d: d["items"][0]["ratings"]["q1"].clear(), "lacks ratings of sub-questions and passages"),
        (lambda d: d["items"][0]["ratings"]["q1"].update(dict.fromkeys(d["items"][0]["ratings"]["q1"], 9)), "0 to 5"),
        (lambda d: d["passages"].clear(), "ratings of the unknown passage"),
    ],
)
def test_a_draft_that_was_tampered_with_is_refused(folder, damage, message):
    """Named with what is wrong, before anything is asked or written."""
    build_dataset("docs", "set", judge=writing())
    path = folder / "set" / "draft.json"
    draft = json.loads(path.read_text(encoding="utf-8"))
    damage(draft)
    path.write_text(json.dumps(draft), encoding="utf-8")
    with pytest.raises(DataError, match=re.escape(message)):
        apply_review("set")


def test_a_draft_nested_too_deep_is_refused(folder):
    """Python's own reader gives up on it in a way of its own."""
    build_dataset("docs", "set", judge=writing())
    (folder / "set" / "draft.json").write_text("[" * 100_000)
    with pytest.raises(DataError, match="cannot be read"):
        apply_review("set")


def test_a_folder_in_place_of_the_review_is_told(folder):
    """By both commands."""
    build_dataset("docs", "set", judge=writing())
    (folder / "set" / "review.csv").unlink()
    (folder / "set" / "review.csv").mkdir()
    with pytest.raises(DataError, match="cannot be read"):
        apply_review("set")
    with pytest.raises(DataError, match="cannot be read"):
        build_dataset("docs", "set", judge=writing())
