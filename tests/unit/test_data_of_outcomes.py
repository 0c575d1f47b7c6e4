"""`--data` of `report`, `traces` and `compare`: the evaluated file, another file, and a part of it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import pytest

from command_line import run_command


def write(name: str, numbers: Iterable[int], *, ids: bool) -> str:
    """Write samples with some numbers, and return the name of the file."""
    rows = (
        ({"id": f"{name[0]}{n}"} if ids else {})
        | {"query": f"Question {n}?", "response": f"Answer {n}", "contexts": ["c"]}
        for n in numbers
    )
    Path(name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    return name


@pytest.fixture(params=[False, True], ids=["without ids", "with ids"])
def ids(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Outcomes of samples 1 to 4 in `o.jsonl`, with or without ids."""
    monkeypatch.chdir(tmp_path)
    data = write("a.jsonl", range(1, 5), ids=request.param)
    done = run_command("evaluate", data, "--judge", "lexical", "-o", "o.jsonl")
    assert 0 == done.returncode, done.stderr
    return bool(request.param)


def n_samples(*options: str) -> tuple[int, list[str]]:
    """Return the number of samples of a report, and its notices."""
    done = run_command("report", "o.jsonl", *options, "--json", "--full")
    assert 0 == done.returncode, done.stderr
    view = json.loads(done.stdout)
    return view["n_samples"], [notice["text"] for notice in view["notices"]]


@pytest.mark.parametrize("command", [["report", "o.jsonl"], ["traces", "o.jsonl"], ["compare", "o.jsonl", "o2.jsonl"]])
def test_another_file_is_refused(command: list[str], ids: bool):
    """A file without an id or a question of the outcomes is not the evaluated one, and its rows are not samples."""
    other = write("b.jsonl", range(5, 9), ids=ids)
    Path("o2.jsonl").write_bytes(Path("o.jsonl").read_bytes())
    data = ["--data", other] * (2 if command[0] == "compare" else 1)
    done = run_command(*command, *data)
    assert 2 == done.returncode, done.stdout
    assert "no row of --data has an id or a question of o (4 rows such as" in done.stderr
    assert "4 samples with outcomes" in done.stderr


def test_rows_without_outcomes_are_not_samples(ids: bool):
    """They are counted in a notice, and so are outcomes without a row."""
    n, notices = n_samples("--data", "a.jsonl")
    assert 4 == n
    assert not [text for text in notices if "--data" in text]
    more = write("a.jsonl", range(1, 7), ids=ids)
    n, notices = n_samples("--data", more)
    assert 4 == n
    assert any("2 of 6 rows of --data do not have outcomes, and do not count." in text for text in notices), notices
    part = write("a.jsonl", [3, 4, 5], ids=ids)
    n, notices = n_samples("--data", part)
    assert 4 == n
    assert any("2 of 4 samples are not in --data, so their texts are not known." in text for text in notices), notices
    assert any("1 of 3 rows of --data do not have outcomes" in text for text in notices), notices
    done = run_command("traces", "o.jsonl", "--data", part)
    assert "Question 3?" in done.stdout
    assert "Question 5?" not in done.stdout


def test_rows_with_other_ids_have_their_question(ids: bool):
    """A row that was read with another id belongs to the outcomes of its question, also if another row has its id."""
    other = write("x.jsonl", range(1, 4), ids=True)
    with Path(other).open("a") as file:
        file.write(Path("a.jsonl").read_text().splitlines()[3] + "\n")
    n, notices = n_samples("--data", other)
    assert 4 == n
    assert not [text for text in notices if "--data" in text]
