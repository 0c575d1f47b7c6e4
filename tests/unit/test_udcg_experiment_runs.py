"""Runs of UDCG's experiments: the plan, interruptions, retrievers, invalid input and the command."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from command_line import run_command
from fake_models import FakeReader
from ragstone.errors import ApplicationError, ConfigurationError, DataError, JudgeError
from ragstone.schema import Passage
from ragstone_lab import plan_udcg_experiment, run_udcg_experiment
from udcg_world import judge_of, questions, reader_of

QUICK = {"k": 3, "k_values": (1, 3), "n_contexts": 4}


def by_utility(query, kinds):
    """A reader that answers if it can, is misled by hard passages, and abstains otherwise."""
    return "correct" if "gold" in kinds else "wrong" if "hard" in kinds else "abstain"


def rows_of(result):
    """The rows of all tables."""
    return [table.rows for table in result.tables]


# -- the plan


@pytest.mark.parametrize("labels", [True, False])
@pytest.mark.parametrize("parts", [None, "position", "k", "correlation", "orders", "judges,distractors"])
def test_a_run_needs_at_most_the_planned_calls(tmp_path, parts, labels):
    """The plan counts each kind of call. It is exact for the answers to labeled questions, and a maximum otherwise."""
    rows = questions(5, labels=labels)
    reader, judge = reader_of(by_utility), judge_of()
    options = QUICK | ({"second_judge": judge_of(name="second")} if parts and "judges" in parts else {})
    plan = plan_udcg_experiment(rows, parts=parts, n_judges=1 + ("second_judge" in options), **QUICK)
    result = run_udcg_experiment(rows, tmp_path, parts=parts, reader=reader, judge=judge, **options)
    planned = {what: usage.calls for what, usage in plan.calls.items()}
    single = [texts for _, texts in reader.asked if len(texts) == 1]
    assert result.n_asked <= plan.usage.calls
    assert plan.usage.input_tokens > 0
    assert len(judge.prompts) <= planned["grades"] + planned["relevance labels"] + planned.get(
        "labels of each judge", 0
    )
    assert planned["relevance labels"] == (0 if labels else 5 * 14)
    if labels and parts == "correlation":
        answered_alone = planned["answers from one passage (eRAG)"]
        assert len(single) <= planned["p(abstain)"] + answered_alone <= 2 * 5 * 12
        assert planned["answers"] == len([texts for _, texts in reader.asked if len(texts) == 3])


def test_a_plan_states_questions_cost_and_parts(tmp_path):
    """Draws multiply readings, and a recorded reply is counted."""
    rows = [
        *questions(3),
        {"query": "No reference?", "contexts": ["a"]},
        {"query": "", "reference": "r", "contexts": ["a"]},
    ]
    plan = plan_udcg_experiment(rows, tmp_path, parts="orders", max_questions=2, **QUICK)
    drawn = plan_udcg_experiment(rows, tmp_path, parts="orders", max_questions=2, calls_per_reading=20, **QUICK)
    counts = [{what: usage.calls for what, usage in one.calls.items()} for one in (plan, drawn)]
    assert (28, 560) == tuple(count["p(abstain)"] for count in counts)
    assert (2, 3, 28, {"no reference": 1, "no query": 1}) == (
        plan.n_questions, plan.n_available, plan.n_candidates, dict(plan.left_out)
    )  # fmt: skip
    assert json.loads(json.dumps(plan.to_dict()))["calls"] == plan.usage.calls
    assert 0 == plan.n_recorded
    run_udcg_experiment(
        rows, tmp_path, parts="orders", max_questions=2, reader=reader_of(by_utility), judge=judge_of(), **QUICK
    )
    assert plan_udcg_experiment(rows, tmp_path, parts="orders", max_questions=2, **QUICK).n_recorded > 28


def test_more_questions_keep_the_earlier_ones(tmp_path):
    """A larger experiment asks only what is new."""
    rows, reader = questions(12), reader_of(by_utility)
    options = {"parts": "correlation", "reader": reader, "judge": judge_of(), "erag": False, **QUICK}
    first = run_udcg_experiment(rows, tmp_path, max_questions=5, **options)
    n = len(reader.asked)
    small = {query for query, _ in reader.asked}
    more = run_udcg_experiment(rows, tmp_path, max_questions=8, **options)
    assert (5, 8) == (len(small), len({query for query, _ in reader.asked}))
    assert small.isdisjoint({query for query, _ in reader.asked[n:]})
    assert more.n_known == first.n_asked


# -- interruptions


def test_a_run_that_fails_resumes_without_asking_again(tmp_path):
    """The reader is unavailable after 40 calls. The second run asks the rest, and equals an uninterrupted run."""
    rows = questions(5)
    whole_reader = reader_of(by_utility)
    whole = run_udcg_experiment(rows, tmp_path / "whole", reader=whole_reader, judge=judge_of(), **QUICK)
    reader = reader_of(by_utility)
    working = type(reader).answer

    refused = []

    class Failing(FakeReader):
        async def answer(self, query, passages):
            if len(self.asked) >= 40:
                refused.append(query)
                raise JudgeError("down", kind="unavailable")
            return await working(self, query, passages)

    failing = reader_of(by_utility, kind=Failing)
    first = run_udcg_experiment(rows, tmp_path / "cut", reader=failing, judge=judge_of(), **QUICK)
    assert first.unfinished
    # A reader that is down is not asked again, because each call would wait for it.
    assert 1 <= len(refused) <= 16
    assert sum(first.failures.values()) > 16
    assert ("down",) == first.errors
    second = run_udcg_experiment(rows, tmp_path / "cut", reader=reader, judge=judge_of(), **QUICK)
    assert not second.unfinished
    assert second.n_known == first.n_asked >= 40
    assert sorted(whole_reader.asked) == sorted(failing.asked + reader.asked)
    assert rows_of(whole) == rows_of(second)


KILLED = """
import os, sys
sys.path.insert(0, {support!r})
from ragstone_lab import run_udcg_experiment
from udcg_world import judge_of, kinds_of, questions, reader_of
asked = []
def answer(query, kinds):
    asked.append(query)
    if len(asked) == 30:
        os._exit(9)
    return "correct" if "gold" in kinds else "wrong" if "hard" in kinds else "abstain"
run_udcg_experiment(questions(5), {folder!r}, reader=reader_of(answer), judge=judge_of(), concurrency=1, **{options!r})
"""


def test_a_killed_run_resumes(tmp_path):
    """The process ends without cleanup inside its thirtieth answer: at most the calls in flight are repeated."""
    folder = tmp_path / "killed"
    support = str(Path(__file__).parents[1] / "support")
    code = KILLED.format(support=support, folder=str(folder), options=QUICK)
    done = subprocess.run([sys.executable, "-c", code], check=False, timeout=100, capture_output=True, text=True)
    assert 9 == done.returncode, done.stderr
    lines = (folder / "journal.jsonl").read_bytes().split(b"\n")
    n_recorded = sum(bool(line) for line in lines)
    assert n_recorded >= 29
    # A kill inside a write leaves a part of a line.
    with (folder / "journal.jsonl").open("ab") as file:
        file.write(b'{"kind": "answer", "key": "ab')
    reader, whole_reader = reader_of(by_utility), reader_of(by_utility)
    resumed = run_udcg_experiment(questions(5), folder, reader=reader, judge=judge_of(), **QUICK)
    whole = run_udcg_experiment(questions(5), tmp_path / "whole", reader=whole_reader, judge=judge_of(), **QUICK)
    assert n_recorded == resumed.n_known
    assert resumed.n_asked + resumed.n_known == whole.n_asked
    assert rows_of(whole) == rows_of(resumed)


def test_another_reader_is_asked_again(tmp_path):
    """Replies belong to the reader that gave them."""
    one, other = (reader_of(by_utility) for _ in range(2))
    other._name = "another reader"
    options = {"parts": "position", "judge": judge_of(), **QUICK}
    run_udcg_experiment(questions(3), tmp_path, reader=one, **options)
    result = run_udcg_experiment(questions(3), tmp_path, reader=other, **options)
    assert 0 == result.n_known
    assert sorted(one.asked) == sorted(other.asked)


def test_nothing_answered_is_an_error(tmp_path):
    """Empty tables would look like a result."""

    def answer(query, kinds):
        raise JudgeError("no such model", kind="rejected")

    with pytest.raises(JudgeError, match="no such model"):
        run_udcg_experiment(
            questions(3), tmp_path, parts="position", reader=reader_of(answer), judge=judge_of(), **QUICK
        )


# -- retrievers


@pytest.mark.parametrize("form", ["texts", "mappings", "passages", "hits", "async"])
def test_candidates_from_a_retriever(tmp_path, form):
    """A function of the query: it is called once per question, also over two runs."""
    found = {row["query"]: [passage["text"] for passage in row["contexts"]] for row in questions(4)}
    rows = [{name: value for name, value in row.items() if name != "contexts"} for row in questions(4)]
    calls = []

    def search(query):
        calls.append(query)
        texts = found[query]
        if form == "mappings":
            return [{"text": text, "id": str(n), "relevance": int(" gold " in text)} for n, text in enumerate(texts)]
        if form == "passages":
            return [Passage(text=text) for text in texts]
        if form == "hits":
            return {"documents": [texts], "ids": [[str(n) for n in range(len(texts))]]}
        return texts

    async def search_async(query):
        return search(query)

    search_async.__qualname__ = search.__qualname__
    options = {"parts": "position", "judge": judge_of(), **QUICK}
    options["retriever"] = search_async if form == "async" else search
    first = run_udcg_experiment(rows, tmp_path, reader=reader_of(by_utility), **options)
    second = run_udcg_experiment(rows, tmp_path, reader=reader_of(by_utility), **options)
    assert sorted(found) == sorted(calls)
    assert rows_of(first) == rows_of(second)
    assert 4 == first.tables[0].rows[0][1]
    assert 0 == second.n_asked


def test_a_retriever_that_fails_or_returns_something_else(tmp_path):
    """Before any model call, with its name."""
    rows = [{"query": "Q?", "reference": "r"}, {"query": "R?", "reference": "r"}]
    reader = reader_of(by_utility)

    def broken(query):
        raise OSError("no index")

    with pytest.raises(ApplicationError, match=r"broken raised OSError: no index"):
        run_udcg_experiment(rows, tmp_path, retriever=broken, reader=reader, judge=judge_of())
    with pytest.raises(ConfigurationError, match="must return a ranked list of passages"):
        run_udcg_experiment(rows, tmp_path, retriever=lambda query: 7, reader=reader, judge=judge_of())
    assert [] == reader.asked


# -- invalid input


def changed(**fields):
    """Rows with other fields."""
    return [{**row, **fields} for row in questions(3)]


INVALID = [
    ({"parts": "position,speed"}, questions(3), r"'speed' is not a part of the experiment\. The parts are position, k"),
    ({"parts": " , "}, questions(3), "parts must name at least one part"),
    ({"k": 0}, questions(3), r"research.k must be an integer of at least 1, got 0"),
    ({"k": 30}, questions(3), r"k must be at most top_n, got 30 passages of the first 25"),
    ({"k_values": (1, 40)}, questions(3), "k_values must be at most top_n, got 40"),
    ({"k_values": ()}, questions(3), "k_values must contain"),
    ({"k": 9}, questions(3, hard=3, weak=3), r"none of 3 questions can take part with k = 9 .*Lower k"),
    ({"k": 20}, questions(3), r"part position: none of 3 questions can take part with k = 20"),
    ({"parts": "orders", "k": 20}, questions(3), "3 have fewer than 20 candidates"),
    ({}, questions(3, gold=0), r"none of 36 candidate passages of 3 questions is relevant"),
    ({"weak_below": 0.9}, questions(3), "weak_below must be at most hard_above, got 0.9 and 0.8"),
    ({"gamma": 2}, questions(3), "gamma must be from 0 to 1, got 2"),
    ({"threshold": 0}, questions(3), "threshold .* must be above 0, got 0"),
    ({"n_distractors": 0}, questions(3), "n_distractors must be an integer of at least 1, got 0"),
    ({"parts": "distractors", "n_distractors": 13}, questions(3), r"fewer than 13 irrelevant candidates.*raise top_n \(research.top_n\)"),
    ({"max_questions": 1}, questions(3), "max_questions must be an integer of at least 2, got 1"),
    ({}, changed(reference=[]), r"none of 3 rows is a question of the experiment \(no reference: 3\)"),
    ({}, changed(contexts=[]), r"no passages: 3"),
    ({}, [], "the data is empty"),
    ({}, changed(contexts=[{"text": "a", "relevance": 2}, {"text": "b", "relevance": 0.5}]), r"0\.5, 2, but .*--set research.threshold=1"),
    ({"parts": "judges"}, questions(3, labels=False), "part judges compares two sources of labels.*research.second_judge"),
    ({"second_judge": judge_of()}, questions(3), "second_judge is only used by the part judges"),
    ({"parts": "answer-prob"}, questions(3), "the probability of a given answer, which the reader fake reader does not"),
    ({"reader": None, "judge": None}, questions(3), "needs a reader"),
]  # fmt: skip


@pytest.mark.parametrize(("options", "rows", "message"), INVALID, ids=[message[:30] for *_, message in INVALID])
def test_invalid_input_is_refused_before_a_model_is_called(tmp_path, options, rows, message):
    """With the value, the rule and the way out."""
    reader, judge = reader_of(by_utility), judge_of()
    with pytest.raises((ConfigurationError, DataError), match=re.compile(message, re.DOTALL)):
        run_udcg_experiment(rows, tmp_path, **({"reader": reader, "judge": judge} | options))
    assert [] == reader.asked
    assert [] == judge.prompts


def test_questions_that_the_judge_cannot_label_are_counted(tmp_path):
    """They are in no table, and a note says how many there are and why."""
    judge = judge_of(
        fail=lambda prompt: JudgeError("?", kind="unparseable") if "q0 " in str(prompt.fields.get("passage")) else None
    )
    result = run_udcg_experiment(
        questions(4, labels=False), tmp_path, reader=reader_of(by_utility), judge=judge, parts="position", **QUICK
    )
    assert 3 == result.n_questions
    assert "questions without labels: excluded, failed (unparseable): 1" in result.notes
    assert 1 == str(result).count("excluded, ")


def test_judged_labels_without_a_relevant_passage_end_the_run(tmp_path):
    """Only the labels were paid for."""
    reader, judge = reader_of(by_utility), judge_of()
    with pytest.raises(DataError, match="none of 36 candidate passages of 3 questions is relevant"):
        run_udcg_experiment(questions(3, gold=0, labels=False), tmp_path, reader=reader, judge=judge)
    assert [] == reader.asked
    assert 36 == len(judge.prompts)


def test_two_runs_in_one_directory(tmp_path):
    """The second is refused while the first runs."""
    reader = reader_of(by_utility)

    def answer(query, kinds):
        with pytest.raises(ConfigurationError, match="another process is writing"):
            run_udcg_experiment(questions(3), tmp_path, reader=reader, judge=judge_of(), **QUICK)
        return by_utility(query, kinds)

    result = run_udcg_experiment(
        questions(2), tmp_path, parts="position", reader=reader_of(answer), judge=judge_of(), **QUICK
    )
    assert not result.failures
    assert [] == reader.asked


# -- the command


@pytest.fixture
def data(tmp_path, monkeypatch):
    """A file of questions in the current directory, which the lexical baseline can answer."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    rows = []
    for n in range(8):
        texts = [
            f"The tower of town{n} is {30 + n} meters tall.",
            *(f"The tower of village{i} is red." for i in range(6)),
        ]
        texts += [f"Fish swim in pond{i}." for i in range(6)]
        contexts = [{"text": text, "relevance": int(i == 0)} for i, text in enumerate(texts)]
        reference = f"The tower of town{n} is {30 + n} meters tall."
        rows.append(
            {"id": str(n), "query": f"How tall is the tower of town{n}?", "reference": reference, "contexts": contexts}
        )
    path = tmp_path / "questions.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


EXPERIMENT = ("lab", "udcg", "experiment", "questions.jsonl", "--judge", "lexical")


def test_a_dry_run_states_the_cost_and_calls_nothing(data, tmp_path):
    """No model, no directory."""
    done = run_command(
        *EXPERIMENT[:4], "--dry-run", "--set", "judge.usd_per_million_tokens=1,2", "--set", "limits.call_latency_s=2"
    )
    assert (0, "") == (done.returncode, done.stderr)
    assert "8 of 8 questions, 104 candidate passages, seed 0" in done.stdout
    assert re.search(r"\nat most [\d,]+ calls:\n", done.stdout)
    cost = r"about [\d,]+ calls, \d+ \+ \d+ tokens \(\d+\.\d\d USD\), \d+ .* at 2 s per call and 16 concurrent requests"
    assert re.search(cost, done.stdout)
    assert ["questions.jsonl"] == [path.name for path in tmp_path.iterdir()]
    done = run_command(*EXPERIMENT[:4], "--dry-run", "--json")
    assert json.loads(done.stdout)["n_questions"] == 8


def test_the_command_runs_and_resumes(data, tmp_path):
    """Tables on stdout, the plan on stderr. The second run reads the journal."""
    done = run_command(*EXPERIMENT, "--parts", "position,correlation", "--set", "research.k=3")
    assert 0 == done.returncode, done.stderr
    assert "Answers by the position of the only relevant passage among 3 (figure 1)" in done.stdout
    assert 80 >= max(map(len, done.stdout.splitlines()))
    assert "at most" in done.stderr
    assert "saved in udcg-experiment" in done.stderr
    again = run_command(*EXPERIMENT, "--parts", "position,correlation", "--set", "research.k=3", "--json")
    saved = json.loads(again.stdout)
    assert (0, "lexical baseline") == (saved["n_asked"], saved["judge"])
    assert "replies of an earlier run are recorded" in again.stderr
    assert saved == json.loads((tmp_path / "udcg-experiment" / "result.json").read_text())


def test_the_command_takes_a_retriever(data, tmp_path):
    """MODULE:NAME in the current directory."""
    (tmp_path / "my_udcg_index.py").write_text(
        "import json, pathlib\n"
        "rows = [json.loads(line) for line in pathlib.Path('questions.jsonl').read_text().splitlines()]\n"
        "def search(query):\n"
        "    return next(row['contexts'] for row in rows if row['query'] == query)\n"
    )
    done = run_command(*EXPERIMENT, "--parts", "orders", "--retriever", "my_udcg_index:search", "--no-erag")
    assert 0 == done.returncode, done.stderr
    assert "Answers from the best 5 of at most 25 candidates" in done.stdout
    done = run_command(*EXPERIMENT, "--retriever", "my_udcg_index:find")
    assert 2 == done.returncode
    assert "--retriever 'my_udcg_index:find': 'my_udcg_index' does not have 'find'" in done.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--set", "research.k_values=1,two"), "research.k_values must be integers, such as 1,3,5"),
        (("--parts", "speed"), "'speed' is not a part"),
        (("--retriever", "index.py"), "--retriever must be MODULE:NAME, got 'index.py'"),
        (("--parts", "judges", "--set", "research.threshold=-1"), "must be above 0, got -1"),
    ],
)
def test_the_command_refuses_invalid_options(data, options, message):
    """With exit code 2."""
    done = run_command(*EXPERIMENT, *options)
    assert 2 == done.returncode
    assert message in done.stderr


def test_the_budget_stops_the_command(data):
    """Exit code 4, and a second run with a larger budget continues."""
    from fake_servers import FakeJudgeServer

    with FakeJudgeServer() as server:
        options = (*EXPERIMENT[:4], "--judge", server.url, "--parts", "orders", "--no-erag")
        done = run_command(*options, "--set", "budget.calls=30", "--set", "research.max_questions=2")
        assert 4 == done.returncode, done.stderr
        assert "unfinished: run the same command to resume" in done.stderr
        done = run_command(*options, "--set", "research.max_questions=2")
        assert 0 == done.returncode, done.stderr
        assert re.search(r"replies of an earlier run are recorded", done.stderr)


def test_an_outage_ends_the_command(data, tmp_path, monkeypatch):
    """Exit code 3, with the first error of each kind."""
    result = run_udcg_experiment(
        questions(2), tmp_path / "e", parts="position", reader=reader_of(by_utility), judge=judge_of(), **QUICK
    )
    down = replace(result, failures={"unavailable": 3, "truncated": 1}, errors=("down", "cut"))
    monkeypatch.setattr("ragstone_lab.run_udcg_experiment", lambda *args, **options: down)
    done = run_command(*EXPERIMENT)
    assert 3 == done.returncode
    assert "failed: down\nfailed: cut\nunfinished" in done.stderr
