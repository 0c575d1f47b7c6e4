"""`replay` of rows that repeat ids or questions, and of files that only `evaluate` reads: nothing is stored silently."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest

from command_line import Done, run_command
from ragstone.replay import plan_replay
from ragstone.schema import SampledOut
from ragstone.store import SqliteStore, open_store

PASSAGES = [
    {
        "query_id": f"q{n}",
        "query": f"How old is mill {n}?",
        "rank": rank,
        "passage": f"Mill {n}, part {rank}.",
        "answer": "Old.",
    }
    for n in range(3)
    for rank in (1, 2)
]
MODELS = [
    {
        "question_id": f"q{n}",
        "model": model,
        "question": f"How old is mill {n}?",
        "answer": f"Old, says {model}.",
        "context": "-",
    }
    for n in range(3)
    for model in ("small", "large")
]
METRICS = [
    {
        "query": f"How old is mill {n}?",
        "answer": f"It is {n}.",
        "context": "Mills are old.",
        "metric": metric,
        "score": "1",
    }
    for n in range(4)
    for metric in ("faithfulness", "relevance")
]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(rows: list[dict[str, Any]], name: str) -> str:
    """Write rows as CSV or JSON lines."""
    text = io.StringIO()
    if name.endswith(".csv"):
        writer = csv.DictWriter(text, rows[0].keys())
        writer.writeheader()
        writer.writerows(rows)
    else:
        text.writelines(json.dumps(row) + "\n" for row in rows)
    Path(name).write_text(text.getvalue())
    return name


def run(command: str, *arguments: str) -> Done:
    """Run `replay` or `evaluate` with a lexical judge."""
    return run_command(command, *arguments, "--judge", "lexical", "--metrics", "ccrs.qr")


def n_stored() -> int:
    """Return the number of traces in the store of `replay`."""
    with SqliteStore.open("ragstone-replay.db", mode="read") as store:
        return sum(1 for _ in store.traces.read())


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
@pytest.mark.parametrize(
    "rows", [PASSAGES, MODELS, METRICS], ids=["a passage a row", "a model a row", "a metric a row"]
)
def test_replay_refuses_what_evaluate_refuses(rows: list[dict[str, Any]], suffix: str):
    """The remedy is the same, and neither a dry run nor a run stores or announces a trace."""
    file = write(rows, f"rows.{suffix}")
    refused = run("evaluate", file, "--dry-run")
    assert 2 == refused.returncode, refused.stdout
    remedy = (
        re.split(r"Ids must be unique[^\n]*\n", refused.stderr.removeprefix("ragstone: "))[-1].strip().splitlines()[-1]
    )
    dry = run("replay", file, "--dry-run")
    done = run("replay", file)
    for each in (dry, done):
        assert (2, "") == (each.returncode, each.stdout)
        assert f"'{file}': " in each.stderr
        assert remedy in each.stderr
    assert not Path("ragstone-replay.db").exists()


def test_a_dry_run_announces_the_traces_that_are_stored():
    """A copy of a row with its id is one trace, in a dry run as in the store."""
    rows = [{"id": f"r{n}", "query": f"How old is mill {n}?", "response": "Old.", "contexts": ["c"]} for n in range(5)]
    file = write([*rows, *rows[:2]], "rows.jsonl")
    dry = run("replay", file, "--dry-run")
    assert "7 records, 2 of them repeat the id of an earlier one" in dry.stdout
    assert "5 traces, of which 5 would be scored" in dry.stdout
    assert 5 == plan_replay([file, file], "ccrs.qr").n_traces
    done = run("replay", file)
    assert "5 new traces, 2 already stored" in done.stderr
    assert 5 == n_stored()


def test_known_ids_without_a_trace_are_not_called_stored():
    """An application has sampled one request out, and another one was erased."""
    rows = [{"id": f"r{n}", "query": f"How old is mill {n}?", "response": "Old.", "contexts": ["c"]} for n in range(4)]
    with open_store("ragstone-replay.db", mode="own") as store:
        store.traces.ingest("a", 1, [SampledOut(trace_id="r1", started_at=1.0, inclusion_probability=0.5)])
    run("replay", write(rows[:3], "rows.jsonl"))
    with open_store("ragstone-replay.db", mode="own") as store:
        store.upkeep.erase(["r2"])
    assert "1 new traces, 1 already stored, 1 sampled out, 1 erased" in run("replay", write(rows, "rows.jsonl")).stderr


def test_a_changed_row_is_skipped_in_each_later_run():
    """The store keeps the first one. The message names a way out for ids in one file as well."""
    first = {"query": "How old?", "response": "Old.", "contexts": ["Mills are old."], "reference": "Very old."}
    rows = [{"id": f"r{n}", **first} for n in range(4)]
    write(rows, "rows.jsonl")
    assert "4 new traces, 0 already stored" in run("replay", "rows.jsonl").stderr
    changes = ({"response": "New."}, {"contexts": ["Mills are new."]}, {"reference": "New."}, {})
    write([row | change for row, change in zip(rows, changes, strict=True)], "rows.jsonl")
    for _ in range(2):
        done = run("replay", "rows.jsonl")
        assert "0 new traces, 1 already stored" in done.stderr
        assert "3 skipped: other traces have these ids" in done.stderr
        assert "unique ids" in done.stderr
    assert 4 == n_stored()


def test_an_index_without_a_name_is_neither_an_id_nor_a_question():
    """Data frames write one. Two columns with the question, or with the id, are read whole."""
    for header in ("query,question", "id,sample_id,query"):
        width = header.count(",") + 1
        rows = [f"{n}," + ",".join([f"Why {n // 2}?"] * width) + f",part {n}" for n in range(8)]
        Path("indexed.csv").write_text("\n".join([f",{header},contexts", *rows]) + "\n")
        refused = run("replay", "indexed.csv", "--dry-run")
        assert 2 == refused.returncode, header
        assert "one passage" in refused.stderr


def test_questions_that_users_repeat_are_traces():
    """Traffic has equal questions with other answers."""
    rows = [{"query": "Opening hours?", "response": f"Answer {n}.", "contexts": ["c"]} for n in range(3)]
    done = run("replay", write(rows, "rows.jsonl"))
    assert "3 new traces" in done.stderr
    assert 3 == n_stored()


def test_rows_without_questions_are_traces():
    """They cannot repeat a question."""
    rows = [{"response": f"Answer {n}.", "contexts": ["c"]} for n in range(4)]
    done = run("replay", write(rows, "rows.jsonl"))
    assert "4 new traces" in done.stderr, done.stderr
    assert 4 == n_stored()


def test_later_files_of_a_folder_are_checked_before_they_are_stored(folder: Path):
    """Nothing of a folder is stored if one of its files is refused."""
    (folder / "in").mkdir()
    write([{"id": "a", "query": "Why?", "response": "So.", "contexts": ["c"]}], "in/a.jsonl")
    write(MODELS, "in/b.jsonl")
    done = run("replay", "in")
    assert 2 == done.returncode
    assert "'b.jsonl': 6 rows share 3 ids" in done.stderr
    assert not Path("ragstone-replay.db").exists()


def test_a_file_that_only_evaluate_reads():
    """The message names the command that reads the file."""
    Path("german.csv").write_text("Nr.;Frage;Antwort\n1;Wie alt?;Alt.\n")
    done = run("replay", "german.csv", "--dry-run")
    assert done.returncode
    assert "If its rows are samples: ragstone evaluate german.csv" in done.stderr


def test_an_excel_file_is_read_as_evaluate_reads_it():
    """An Excel file with unknown names is for `evaluate`, which takes their names, and not an archive to extract."""
    openpyxl = pytest.importorskip("openpyxl")
    for name, header in (("an audit.xlsx", ["query", "response"]), ("a german one.xlsx", ["Frage", "Antwort"])):
        book = openpyxl.Workbook()
        book.active.append(["Cases of March"])
        book.active.append(header)
        book.active.append(["Why?", "So."])
        book.save(name)
    read = run("replay", "an audit.xlsx", "--dry-run").stdout
    assert "rows (Excel with `query` and `response`): 1 records" in read
    assert "rows above the header, not read: 'Cases of March'" in read
    done = run("replay", "a german one.xlsx", "--dry-run")
    assert "If its rows are samples: ragstone evaluate 'a german one.xlsx'" in done.stderr
    assert "Extract it" not in done.stderr


def test_other_files_do_not_name_evaluate():
    """A file without rows is not for `evaluate` either."""
    Path("picture.png").write_bytes(b"\x89PNG\r\n\x1a\n\x00\x00")
    assert "ragstone evaluate" not in run("replay", "picture.png", "--dry-run").stderr
