"""Variants of metrics through all commands: scored, gated, compared, stored, filled in, exported and delivered."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from command_line import run_command
from ragstone.metrics import AnswerCorrectness
from ragstone.monitor import Monitor
from ragstone.requests import TraceDraft
from ragstone.store import SqliteStore

VARIANTS = ("ccrs.ac", "ccrs.ac@em_weight=0", "ccrs.ac@em_weight=0.5", "precision@2,threshold=1")
SPECS = "ccrs.ac,CCRS.ac@0,ccrs.ac@em_weight=.50,precision@2,threshold=1.0,ccrs.ac@0.70"


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two systems that are scored with four variants."""
    folder = tmp_path_factory.mktemp("variants")
    for name, sample in (("new", "answers"), ("old", "old-answers")):
        (folder / f"{name}.jsonl").write_text(run_command("demo", "--samples", sample).stdout, encoding="utf-8")
        done = run_command(
            "evaluate", folder / f"{name}.jsonl", "--metrics", SPECS, "--judge", "lexical",
            "-o", folder / f"{name}-scores.jsonl", "--sink", f"jsonl:{folder / name}-sink.jsonl",
        )  # fmt: skip
        assert 0 == done.returncode, done.stderr
    return folder


def test_files_contain_each_variant(folder: Path) -> None:
    """Outcomes and rows of a sink have the full name of their variant, each once per sample."""
    n = len(lines(folder / "new.jsonl"))
    for file in ("new-scores.jsonl", "new-sink.jsonl"):
        metrics = Counter(row["metric"] for row in lines(folder / file) if "metric" in row)
        assert dict.fromkeys(VARIANTS, n) == metrics


def test_gates_decide_about_one_variant(folder: Path) -> None:
    """`--fail-under` accepts any notation of a variant, and does not mix it with another variant."""
    scores = folder / "new-scores.jsonl"
    passed = run_command("report", scores, "--fail-under", "ccrs.ac@em_weight=0.0=0.35", COLUMNS="200")
    assert (0, True) == (passed.returncode, "ccrs.ac@em_weight=0" in passed.stdout)
    assert 1 == run_command("report", scores, "--fail-under", "ccrs.ac=0.35").returncode
    unknown = run_command("report", scores, "--fail-under", "ccrs.ac@0.4=0.3")
    assert 2 == unknown.returncode
    assert "'ccrs.ac@0.4', which is not scored" in unknown.stderr.replace("\n", " ")
    twice = run_command("report", scores, "--fail-under", "ccrs.ac@0=0.3", "--fail-under", "ccrs.ac@0.0=0.4")
    assert "given twice" in twice.stderr
    one = run_command(
        "evaluate", folder / "new.jsonl", "--metrics", SPECS, "--judge", "lexical", "--fail-under", "ccrs.ac@0=0.3"
    )
    assert 0 == one.returncode


def test_compare_selects_one_variant(folder: Path) -> None:
    """Metrics, hypotheses, the primary metric and the gate of `compare` accept any notation of a variant."""
    done = run_command(
        "compare", folder / "old-scores.jsonl", folder / "new-scores.jsonl",
        "--metrics", "ccrs.ac@0,precision@2,threshold=1.0", "--primary", "ccrs.ac@.0",
        "--hypothesis", "old-scores > new-scores on ccrs.ac@0, precision@threshold=1,k=2",
        "--fail-if-worse", "--gate-metrics", "precision@2,threshold=1", "--json",
    )  # fmt: skip
    assert 0 == done.returncode, done.stderr
    assert {"ccrs.ac@em_weight=0", "precision@2,threshold=1"} == {
        m["metric"] for m in json.loads(done.stdout)["metrics"]
    }
    unknown = run_command(
        "compare", folder / "old-scores.jsonl", folder / "new-scores.jsonl", "--metrics", "ccrs.ac@0.4"
    )
    assert "'ccrs.ac@0.4'" in unknown.stderr


def test_traces_are_ordered_and_selected_by_a_variant(folder: Path) -> None:
    """`--metric` and `--where` accept a variant; in `--where` its name is quoted."""
    listed = run_command(
        "traces",
        folder / "new-scores.jsonl",
        "--metric",
        "ccrs.ac@.0",
        "--where",
        '"ccrs.ac@0"<0.5',
        "--json",
        "--full",
    )
    assert 0 == listed.returncode, listed.stderr
    values = [
        next(s["value"] for s in a["scores"] if "ccrs.ac@em_weight=0" == s["metric"]) for a in json.loads(listed.stdout)
    ]
    assert values
    assert values == sorted(values)
    assert max(values) < 0.5


def test_a_store_keeps_variants_apart(tmp_path: Path) -> None:
    """A monitor, a worker, `backfill`, `report`, `status`, `store export` and Prometheus use full names."""
    store, sink, out = tmp_path / "app.db", tmp_path / "sink.jsonl", tmp_path / "out.jsonl"
    metrics = [AnswerCorrectness(em_weight=0), "ccrs.ac,precision@2,threshold=1"]
    with Monitor(store=store, judge="lexical", metrics=metrics, scoring="none") as monitor:
        for i in range(4):
            monitor.record(
                TraceDraft(query=f"Which stone is {i}?", response="The grey one.", reference="The grey stone.")
            )
    done = run_command("worker", store, "--until-idle", "--judge", "lexical", "--sink", f"jsonl:{sink}")
    assert 0 == done.returncode, done.stderr
    expected = {"ccrs.ac", "ccrs.ac@em_weight=0", "precision@2,threshold=1"}
    with SqliteStore.open(store, mode="read") as opened:
        assert {"ccrs.ac": 4, "ccrs.ac@em_weight=0": 4, "precision@2,threshold=1": 4} == Counter(
            outcome.metric for outcome in opened.outcomes.read()
        )
    assert expected - {"precision@2,threshold=1"} <= {row["metric"] for row in lines(sink)}
    done = run_command("store", "backfill", store, "--metrics", "ccrs.ac@.25,rouge_l@stem", "--since", "-10d")
    assert (0, True) == (done.returncode, "ccrs.ac@em_weight=0.25, rouge_l@stem" in done.stdout), done.stderr
    done = run_command("report", store, "--target", "ccrs.ac@.25=0.2")
    assert (0, True) == (done.returncode, "Answer correctness, em_weight 0.25" in done.stdout), done.stderr
    assert "ccrs.ac@em_weight=0 " in run_command("status", store).stdout
    assert 0 == run_command("store", "export", store, out).returncode
    assert expected | {"ccrs.ac@em_weight=0.25", "rouge_l@stem"} == {row["metric"] for row in lines(out)}


def test_the_card_lists_the_arguments(folder: Path) -> None:
    """`ragstone metrics NAME` prints each argument with its rule and default, and an error before any work."""
    done = run_command("metrics", "ccrs.ac@0", COLUMNS="200")
    assert "Answer correctness, em_weight 0 (ccrs.ac@em_weight=0)" in done.stdout
    assert "em_weight (a number of at least 0 and at most 1, default 0.7)" in done.stdout
    (card,) = json.loads(run_command("metrics", "udcg", "--json").stdout)
    assert ["gamma", "labels", "threshold"] == [argument["name"] for argument in card["arguments"]]
    for arguments in (
        ["metrics", "ccrs.ac@2"],
        ["evaluate", folder / "new.jsonl", "--metrics", "ccrs.ac@2", "--judge", "lexical"],
    ):
        done = run_command(*arguments)
        assert (2, True) == (done.returncode, done.stderr.rstrip().endswith("got '2'"))


def test_a_configuration_file_lists_variants(folder: Path, tmp_path: Path) -> None:
    """Metrics with arguments in a TOML file are a list or one text."""
    for number, written in enumerate(
        ('["ccrs.ac@0", "precision@2,threshold=1"]', '"ccrs.ac@0,precision@2,threshold=1"')
    ):
        config, out = tmp_path / f"{number}.toml", tmp_path / f"{number}.jsonl"
        config.write_text(f"[scoring]\nmetrics = {written}\n", encoding="utf-8")
        done = run_command("--config", config, "evaluate", folder / "new.jsonl", "--judge", "lexical", "-o", out)
        assert 0 == done.returncode, done.stderr
        assert {"ccrs.ac@em_weight=0", "precision@2,threshold=1"} == {r["metric"] for r in lines(out) if "metric" in r}
