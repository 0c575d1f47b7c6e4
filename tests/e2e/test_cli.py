"""The command line as a user meets it: output, exit codes, `--json`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from command_line import run_command, run_in_new_process
from fake_servers import FakeJudgeServer

ROW = {"id": "a", "query": "Where is the stone?", "contexts": ["At the river."], "response": "At the river."}


@pytest.fixture
def samples(tmp_path: Path) -> Path:
    """One good sample."""
    path = tmp_path / "samples.jsonl"
    path.write_text(json.dumps(ROW) + "\n", encoding="utf-8")
    return path


def test_evaluate_prints_a_table_and_keeps_progress_off_stdout(samples: Path) -> None:
    """Results can be piped; notes cannot get into them."""
    done = run_in_new_process("evaluate", samples, "--metrics", "ccrs", "--judge", "lexical")

    assert 0 == done.returncode, done.stderr
    assert "mean [95% CI]" in done.stdout
    assert "n scored / failed / n.a." in done.stdout
    assert "scoring: 1 of 1" in done.stderr
    assert "scoring" not in done.stdout


def test_evaluate_takes_references_fields_and_outputs(samples: Path, tmp_path: Path) -> None:
    """A file of references makes AC and IR applicable; outcomes go to files."""
    references = tmp_path / "gold.jsonl"
    references.write_text('{"id": "a", "ground_truth": "At the river."}\n', encoding="utf-8")
    done = run_command(
        "evaluate", samples, "--judge", "lexical", "--references", references, "--field", "query=query", "--json",
        "-o", tmp_path / "o.jsonl", "--sink", f"jsonl:{tmp_path / 's.jsonl'}",
    )  # fmt: skip

    assert 0 == done.returncode, done.stderr
    assert [1, 1, 1, 1, 1] == [m["n_scored"] for m in json.loads(done.stdout)["metrics"]]
    assert (
        5
        == len((tmp_path / "o.jsonl").read_text().splitlines())
        == len((tmp_path / "s.jsonl").read_text().splitlines())
    )


def test_the_judge_comes_from_the_environment(samples: Path) -> None:
    """`RAGSTONE_JUDGE` is used where no `--judge` is given, and its calls are reported."""
    with FakeJudgeServer() as server:
        done = run_command("evaluate", samples, "--metrics", "ccrs.qr", RAGSTONE_JUDGE=server.url)

    assert 0 == done.returncode, done.stderr
    assert "1 call," in done.stderr
    assert "not a judge" not in done.stdout


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("evaluate", "no-such.jsonl"), 2, "file not found: 'no-such.jsonl'"),
        (("evaluate", "SAMPLES", "--metrics", "ccrs.cq"), 2, "ccrs.cq"),
        (("evaluate", "SAMPLES", "--judge", "gpt5"), 2, "gpt5"),
        (("evaluate", "SAMPLES", "--field", "query"), 2, "FIELD=COLUMN"),
        (("evaluate", "SAMPLES", "--frobnicate"), 2, "frobnicate"),
        (("evaluate", "SAMPLES", "-o", "/no/such/folder/o.jsonl"), 2, "does not exist"),
        (("evaluate", "SAMPLES", "--judge", "http://127.0.0.1:9/v1", "--set", "limits.deadline_s=2"), 3, ""),
        (("evaluate", "SAMPLES", "--judge", "lexical", "--sink", "webhook:http://127.0.0.1:9/scores"), 3, ""),
        (("status", "no-such.db"), 2, "store not found"),
        (("status", "."), 2, "store not found"),
        (("status", "SAMPLES"), 3, "not a Ragstone store"),
        (("worker", "/no/such/folder/r.db"), 2, "does not exist"),
    ],
)
@pytest.mark.usefixtures("virtual_time")
def test_exit_codes_tell_who_can_act(samples: Path, arguments: tuple[str, ...], code: int, message: str) -> None:
    """2 is the user's, 3 the infrastructure's; no traceback either way."""
    done = run_command(*(samples if a == "SAMPLES" else a for a in arguments))

    assert code == done.returncode, done.stderr
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_the_demo_shows_the_whole_path(tmp_path: Path) -> None:
    """Report, ledger, page and what to do next, after planted traffic with an alarm and its repair."""
    done = run_in_new_process("demo", "--output-dir", tmp_path / "d")
    again = run_command("demo", "--output-dir", tmp_path / "d", "--json")

    assert 0 == done.returncode, done.stderr
    for part in (
        "mean [CI]",
        "Where it fails",
        "Worst answer of each cause",
        "ledger",
        "captured = scored",
        "next",
        "not a judge",
        "560 requests are planted",
        "By release",
    ):
        assert part in done.stdout
    assert "RECOVERED 1 · handbook · Question relevance" in done.stderr
    assert 0 == again.returncode, again.stderr
    result = json.loads(again.stdout)
    total = result["ledger"]["total"]
    assert total["captured"] == total["scored"] == 560 + 29
    releases = next(table for table in result["report"]["slices"] if table["key"] == "release")
    assert ["1.1", "1.0", "1.2"] == [
        row["value"] for row in releases["rows"]
    ]  # the largest share of wrong answers first
    assert ["1.1", "1.2"] == [mark["name"] for mark in result["report"]["trend"]["releases"]]
    assert 6 * 29 == len((tmp_path / "d" / "demo.jsonl").read_text().splitlines())

    assert "<!doctype html>" in (tmp_path / "d" / "report.html").read_text(encoding="utf-8")

    status = run_command("status", tmp_path / "d" / "demo.db", "--json")
    assert json.loads(status.stdout)["balanced"] is True
    why = run_command("traces", tmp_path / "d" / "demo.db", result["report"]["worst"][0]["id"])
    assert 0 == why.returncode, why.stderr
    assert "Question relevance" in why.stdout
    unknown = run_command("traces", tmp_path / "d" / "demo.db", "nope")
    assert 2 == unknown.returncode
    assert "trace 'nope' not found" in unknown.stderr


def test_the_demo_uses_the_judge_it_is_given(tmp_path: Path) -> None:
    """With `RAGSTONE_JUDGE` set every score comes from that server."""
    pytest.importorskip("langchain_ragstone")
    with FakeJudgeServer() as server:
        done = run_command("demo", "--output-dir", tmp_path / "d", RAGSTONE_JUDGE=server.url)
        calls = server.calls

    assert 0 == done.returncode, done.stderr
    assert calls >= 5 * 20
    assert "not a judge" not in done.stdout


def test_an_output_that_is_a_folder_is_refused_before_anything_is_scored(samples: Path, tmp_path: Path) -> None:
    """What the judge was paid for is not lost in a traceback."""
    done = run_command("evaluate", samples, "-o", tmp_path)

    assert (2, "") == (done.returncode, done.stdout)
    assert "is a directory" in done.stderr
    assert "Traceback" not in done.stderr
