"""UDCG's experiments with several readers and data sets: one plan, one journal, merged tables, and a gamma by name."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path

import pytest

import ragstone
from command_line import run_command
from ragstone.errors import ConfigurationError, DataError
from ragstone_lab import plan_udcg_experiment, run_udcg_experiment
from udcg_world import chance, judge_of, questions, reader_of

QUICK = {"k": 3, "k_values": (2, 3), "n_contexts": 6, "erag": False}


def careful(query, kinds):
    """A reader that is misled if there are more hard passages than relevant ones."""
    gold, hard = kinds.count("gold"), kinds.count("hard")
    return "correct" if gold and gold >= hard else "wrong" if hard else "abstain"


def noisy(query, kinds):
    """A reader that often answers at random."""
    return careful(query, kinds) if chance(query, kinds) < 0.5 else "wrong"


def other_questions(n):
    """Another data set with the same ids."""
    return [row | {"query": f"Other {row['query']}"} for row in questions(n, hard=5)]


def readers():
    """Two readers with their own names."""
    made = {"careful": reader_of(careful), "noisy": reader_of(noisy)}
    for name, reader in made.items():
        reader._name = name
    return made


def rows_of(table):
    names = [column.name for column in table.columns]
    return [dict(zip(names, row, strict=True)) for row in table.rows]


def holm_of(p_values):
    """Holm's correction, as in his paper."""
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    corrected, largest = [0.0] * len(p_values), 0.0
    for rank, place in enumerate(order):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[place]))
        corrected[place] = largest
    return corrected


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The experiment of two readers on two data sets, and its directory."""
    folder = tmp_path_factory.mktemp("whole")
    data = {"first": questions(14), "second": other_questions(10)}
    parts = "position,k,orders,correlation,ablation"
    return run_udcg_experiment(data, folder, parts=parts, reader=readers(), judge=judge_of(), **QUICK), folder


def test_each_run_is_that_of_one_reader_on_one_data_set(whole, tmp_path):
    """The tables of a run equal those of a run of its own, before and after Holm's correction."""
    result, _ = whole
    assert [("careful", "first"), ("careful", "second"), ("noisy", "first"), ("noisy", "second")] == [
        (run.reader, run.data) for run in result.runs
    ]
    alone = run_udcg_experiment(
        other_questions(10), tmp_path, parts="position,k,orders,correlation,ablation",
        reader=readers()["noisy"], judge=judge_of(), **QUICK,
    )  # fmt: skip
    assert list(alone.tables) == list(result.runs[3].tables)
    assert () == alone.runs
    assert (24, "careful, noisy") == (result.n_questions, result.reader)


def test_merged_tables_have_all_rows_and_one_correction(whole):
    """Each table of each run is there with reader and data set, and Holm's correction is over all its rows."""
    result, _ = whole
    assert len(result.runs[0].tables) == len(result.tables)
    n_tested = 0
    for at, table in enumerate(result.tables):
        rows = list(rows_of(table))
        expected = [(run.reader, run.data, row) for run in result.runs for row in rows_of(run.tables[at])]
        assert [(reader, data) for reader, data, _ in expected] == [(row["reader"], row["data"]) for row in rows]
        for row, (_, _, own) in zip(rows, expected, strict=True):
            assert {name: value for name, value in own.items() if name != "p_value"} == {
                name: value for name, value in row.items() if name not in ("reader", "data", "p_value")
            }
        tests = [p for run in result.runs for p in run.tables[at].uncorrected if p is not None]
        everything = [p for p in table.uncorrected if p is not None]
        assert tests == everything[: len(tests)]
        found = [row["p_value"] for row in rows_of(table) if row.get("p_value") is not None]
        expected_p = holm_of([1.0 if math.isnan(p) else p for p in everything])
        assert found == pytest.approx(expected_p, abs=1e-12)
        n_tested += len(found)
    assert n_tested > 50


def test_the_plan_counts_every_reader_and_shares_labels(tmp_path):
    """Two readers share the labels of the judge, and no run needs more calls than planned."""
    data = {"a": questions(4, labels=False), "b": [row | {"query": f"B {row['query']}"} for row in questions(3)]}
    judge = judge_of()
    plans = [plan_udcg_experiment(data, parts="position", n_readers=n, **QUICK) for n in (1, 2)]
    assert (7, {"position": 7}, 4 * 14) == (plans[1].n_questions, plans[1].parts, plans[1].n_unlabeled)
    one, two = ({what: usage.calls for what, usage in plan.calls.items()} for plan in plans)
    assert (one["relevance labels"], 2 * one["answers"]) == (two["relevance labels"], two["answers"])
    result = run_udcg_experiment(data, tmp_path, parts="position", reader=readers(), judge=judge, **QUICK)
    assert 4 * 14 == len([prompt for prompt in judge.prompts if prompt.construct != "answer_grade"])
    assert result.n_asked <= plans[1].usage.calls


KILLED = """
import os, sys
sys.path[:0] = {paths!r}
import test_udcg_experiment_several as world
from udcg_world import judge_of, questions, reader_of
from ragstone_lab import run_udcg_experiment
asked = []
def dying(query, kinds):
    asked.append(query)
    if len(asked) == {n}:
        os._exit(9)
    return world.noisy(query, kinds)
readers = world.readers()
readers["noisy"] = reader_of(dying)
readers["noisy"]._name = "noisy"
data = {{"first": questions(4), "second": world.other_questions(4)}}
run_udcg_experiment(data, {folder!r}, parts="position,correlation", reader=readers, judge=judge_of(), concurrency=1, **world.QUICK)
"""


@pytest.mark.parametrize("n", [3, 30])
def test_a_killed_run_of_several_readers_resumes(tmp_path, n):
    """The process is killed inside an answer of the second reader: the rest is asked, with the same numbers."""
    folder = tmp_path / "killed"
    here = Path(__file__).parent
    code = KILLED.format(paths=[str(here), str(here.parent / "support")], n=n, folder=str(folder))
    done = subprocess.run([sys.executable, "-c", code], check=False, timeout=200, capture_output=True, text=True)
    assert 9 == done.returncode, done.stderr
    data = {"first": questions(4), "second": other_questions(4)}
    options = {"parts": "position,correlation", "judge": judge_of(), **QUICK}
    again = readers()
    resumed = run_udcg_experiment(data, folder, reader=again, **options)
    complete = run_udcg_experiment(data, tmp_path / "whole", reader=readers(), **options)
    assert [] == again["careful"].asked
    assert resumed.n_asked + resumed.n_known == complete.n_asked
    assert complete.tables == resumed.tables


def test_the_gamma_that_was_found_has_a_name(whole, tmp_path):
    """`udcg@gamma=FILE` scores with the gamma of the file, and each outcome says which."""
    _, folder = whole
    files = sorted(folder.glob("*/gamma.json"))
    assert [f"{reader}--{data}" for reader in ("careful", "noisy") for data in ("first", "second")] == [
        file.parent.name for file in files
    ]
    found = json.loads(files[0].read_text())
    (table,) = (table for table in whole[0].runs[0].tables if table.title.startswith("The weight of distraction"))
    best = max(row["spearman"].value for row in rows_of(table) if row["gamma"] != "tuned")
    own = {row["gamma"]: row["spearman"].value for row in rows_of(table)}
    assert own[f"{found['gamma']:.3g}"] == pytest.approx(best, abs=1e-9)
    row = {"query": "Q?", "contexts": [{"text": "q0 hard 1", "relevance": 0}]}
    result = ragstone.evaluate([row], [f"udcg@gamma={files[0]}", "udcg"], reader=reader_of(careful), judge=judge_of())
    by_file, default = result.outcomes
    assert (found["gamma"], 1 / 3) == (by_file.details["gamma"], default.details["gamma"])
    assert f"udcg@gamma={found['gamma']:g}" == by_file.metric
    assert by_file.metric_version != default.metric_version
    with pytest.raises(ConfigurationError, match=r"gamma\.json of `ragstone lab udcg experiment`, got 'none\.json'"):
        ragstone.evaluate([row], ["udcg@gamma=none.json"], reader=reader_of(careful), judge=judge_of())


def test_one_run_writes_its_gamma_into_its_directory(tmp_path):
    """Without several readers or data sets the directory is flat."""
    run_udcg_experiment(questions(8), tmp_path, parts="ablation", reader=reader_of(careful), judge=judge_of(), **QUICK)
    assert {"contexts.jsonl", "gamma.json", "journal.jsonl", "result.json"} <= {
        path.name for path in tmp_path.iterdir()
    }


def test_several_readers_need_one_judge_and_possible_parts(tmp_path, monkeypatch):
    """Each reader would grade itself otherwise. A data set that cannot take part is refused before a call."""
    monkeypatch.delenv("RAGSTONE_JUDGE", raising=False)
    both = readers()
    with pytest.raises(ConfigurationError, match="several readers need one judge"):
        run_udcg_experiment(questions(4), tmp_path, parts="position", reader=both, **QUICK)
    few = {"many": questions(4), "few": questions(4, hard=1, weak=0)}
    with pytest.raises(DataError, match="part position: none of 4 questions can take part"):
        run_udcg_experiment(few, tmp_path, parts="position", reader=both, judge=judge_of(), **QUICK)
    assert [] == both["careful"].asked


def test_the_command_runs_several_readers_and_files(tmp_path, monkeypatch):
    """`ragstone lab udcg experiment A B` with other readers, in one plan."""
    monkeypatch.chdir(tmp_path)
    for name, rows in {"a": questions(5), "b": other_questions(5)}.items():
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    words = ("lab", "udcg", "experiment", "a.jsonl", "second=b.jsonl", "--parts", "position", "--no-erag")
    options = ("--set", "research.other_readers=lexical", "--set", "research.k=3")
    planned = run_command(*words, *options, "--dry-run", "--json")
    assert (0, 10) == (planned.returncode, json.loads(planned.stdout)["n_questions"])
    done = run_command(*words, *options, "--judge", "lexical", "--json")
    assert 0 == done.returncode, done.stderr
    assert ["a.jsonl", "second"] * 2 == [run["data"] for run in json.loads(done.stdout)["runs"]]
    alone = run_command(*words[:3], "first=a.jsonl", *words[5:], *options, "--dry-run", "--json")
    assert (0, 5) == (alone.returncode, json.loads(alone.stdout)["n_questions"])
    refused = run_command(*words[:4], "a.jsonl", *options, "--judge", "lexical")
    assert (2, True) == (refused.returncode, "two data sets have the same name" in refused.stderr)
    unjudged = run_command(*words, *options, "--reader", "lexical")
    assert (2, True) == (unjudged.returncode, "several readers need one judge" in unjudged.stderr)
