"""Queries that the documents do not answer: what is written, checked, dropped, kept and resumed."""

from __future__ import annotations

import json

import pytest

import ragstone
from command_line import run_command
from fake_servers.judge_server import FakeJudgeServer
from ragstone.errors import ConfigurationError, JudgeError
from ragstone.testing import FakeJudge
from ragstone_lab import build_negatives, plan_negatives

SUBJECTS = (
    "comets",
    "sourdough",
    "chess",
    "rugby",
    "opera",
    "glaciers",
    "orchids",
    "castles",
    "tides",
    "coins",
    "bees",
    "kites",
)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with two documents, and the current one."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "harbour.md").write_text(
        "The lighthouse of Northport was built in 1884. It is 31 metres tall."
    )
    (tmp_path / "docs" / "market.txt").write_text(
        "The market of Northport is held on Fridays. It sells fish and bread."
    )
    return tmp_path


class Writer:
    """A judge that writes the next queries of a list in each round, and rates those about the lighthouse as answered."""

    def __init__(self, queries, fail=None, size=4):
        self.judge = FakeJudge(json=self._reply, fail=fail)
        self._queries, self._size = list(queries), size

    def _reply(self, prompt):
        if prompt.construct == "answerability":
            return {str(n): 5 * ("lighthouse" in q) for n, q in enumerate(prompt.fields["sub_questions"], start=1)}
        assert prompt.construct == "unrelated_questions"
        earlier = prompt.fields.get("earlier_questions", ())
        start = max((self._queries.index(q) + 1 for q in earlier if q in self._queries), default=0)
        return {"items": self._queries[start : start + self._size]}


def about(subject):
    return f"What do {subject} in the world cost and weigh?"


def rows_of(folder):
    return [json.loads(line) for line in (folder / "out" / "queries.jsonl").read_text(encoding="utf-8").splitlines()]


def test_answered_and_repeated_queries_are_dropped(folder):
    """The lighthouse is in the documents; a query that only changes its punctuation is a repetition."""
    queries = [about("comets"), "How tall is the lighthouse?", about("comets").upper(), about("chess")]
    built = build_negatives("docs", "out", judge=Writer(queries).judge, queries=2)
    assert [about("comets"), about("chess")] == [row["query"] for row in rows_of(folder)]
    assert (1, 1) == (built.n_answered, built.n_repeated)
    assert rows_of(folder)[0]["metadata"]["best_rating"] == 0
    assert rows_of(folder)[0]["metadata"]["closest_passage"].startswith("docs/")
    assert len({row["id"] for row in rows_of(folder)}) == 2


@pytest.mark.parametrize(("threshold", "answered"), [(3, 1), (3.5, 0)])
def test_a_query_is_answered_by_its_best_passage(threshold, answered, folder):
    """One passage rates 1 and the other 3: the larger rating counts, and one that equals the threshold is an answer."""
    query = "What fish does the lighthouse of Northport sell?"

    def reply(prompt):
        if prompt.construct == "answerability":
            return {"1": 3 if "market" in prompt.fields["evidence"] else 1}
        return {"items": [query]}

    judge = FakeJudge(json=reply)
    built = build_negatives("docs", "out", judge=judge, queries=1, rating_threshold=threshold)
    assert len([prompt for prompt in judge.prompts if prompt.construct == "answerability"]) == 2
    assert (answered, 1 - answered) == (built.n_answered, len(built.rows))
    assert [3] * (1 - answered) == [row["metadata"]["best_rating"] for row in built.rows]


def test_rounds_continue_until_there_are_enough(folder):
    """Each round sees the earlier queries and other excerpts, and no more queries are kept than asked for."""
    judge = Writer([about(subject) for subject in SUBJECTS]).judge
    built = build_negatives("docs", "out", judge=judge, queries=6)
    writing = [p for p in judge.prompts if p.construct == "unrelated_questions"]
    assert len(writing) == 2
    assert "earlier_questions" not in writing[0].fields
    assert writing[1].fields["earlier_questions"] == tuple(about(subject) for subject in SUBJECTS[:4])
    assert writing[0].fields["excerpts"] != writing[1].fields["excerpts"]
    assert [about(subject) for subject in SUBJECTS[:6]] == [row["query"] for row in built.rows]


def test_at_most_the_planned_calls_are_made(folder):
    """A judge that repeats itself ends after the planned rounds, with a file of what there is."""
    plan = plan_negatives("docs", queries=20, max_passages=3)
    assert f"at most {plan.calls} judge calls" in str(plan)
    judge = FakeJudge(
        json=lambda prompt: {"1": 0} if prompt.construct == "answerability" else {"items": [about("comets")]}
    )
    built = build_negatives("docs", "out", judge=judge, queries=20)
    assert (len(built.rows), built.n_repeated) == (1, 3)
    assert len(judge.prompts) <= plan.calls == 4 * (1 + 2)


def test_the_same_call_asks_nothing_twice(folder):
    """A second run reads the journal and writes the same file."""
    queries = [about(subject) for subject in SUBJECTS]
    build_negatives("docs", "out", judge=Writer(queries).judge, queries=10)
    first = rows_of(folder)
    again = Writer(queries)
    built = build_negatives("docs", "out", judge=again.judge, queries=10)
    assert (first, [], 0) == (rows_of(folder), again.judge.prompts, built.n_asked)


def test_an_outage_ends_the_run_and_the_next_one_resumes(folder):
    """Queries of the unfinished round are not kept unchecked. The next run asks only what is missing."""
    queries = [about(subject) for subject in SUBJECTS]
    seen = []

    def fail(prompt):
        seen.append(prompt.construct)
        return JudgeError("no reply", kind="unavailable") if len(seen) > 4 else None

    built = build_negatives("docs", "out", judge=Writer(queries, fail=fail).judge, queries=8)
    assert built.unfinished
    assert built.failures == {"unavailable": 1}
    assert len(built.rows) == 4
    second = Writer(queries)
    finished = build_negatives("docs", "out", judge=second.judge, queries=8)
    assert not finished.unfinished
    assert [row["query"] for row in rows_of(folder)] == queries[:8]
    assert len(second.judge.prompts) + 4 == finished.n_asked + finished.n_known


@pytest.mark.parametrize("construct", ["unrelated_questions", "answerability"])
def test_an_outage_of_one_call_ends_the_rounds_and_the_same_round_is_repeated(construct, folder):
    """Later rounds would be written without the queries of the missing one. The next run asks for that round as it was."""
    queries = [about(subject) for subject in SUBJECTS]
    failed = []

    def fail(prompt):
        # Words of the second round only: its check, or the request that already has the queries of the first.
        in_second = queries[4] in prompt.fields.get("sub_questions", ()) or "earlier_questions" in prompt.fields
        if prompt.construct != construct or not in_second or failed:
            return None
        failed.append(prompt)
        return JudgeError("no reply", kind="unavailable")

    first = Writer(queries, fail=fail)
    built = build_negatives("docs", "out", judge=first.judge, queries=12)
    assert (len(failed), len(built.rows), built.failures) == (1, 4, {"unavailable": 1})
    assert [
        p.fields.get("earlier_questions", ()) for p in first.judge.prompts if p.construct == "unrelated_questions"
    ] == [
        (),
        tuple(queries[:4]),
    ]
    second = Writer(queries)
    finished = build_negatives("docs", "out", judge=second.judge, queries=12)
    assert [row["query"] for row in finished.rows] == queries
    assert failed[0] in second.judge.prompts


def test_a_query_without_a_valid_check_is_dropped(folder):
    """An invalid rating of one passage drops the queries of that passage, counts, and does not end the run."""

    def fail(prompt):
        bad = prompt.construct == "answerability" and "lighthouse" in prompt.fields["evidence"]
        return JudgeError("no number", kind="unparseable") if bad else None

    queries = ["How tall are chess kings in metres?", "Do bread bakers play opera and fish?"]
    built = build_negatives("docs", "out", judge=Writer(queries, fail=fail).judge, queries=1)
    assert [row["query"] for row in built.rows] == ["Do bread bakers play opera and fish?"]
    assert built.failures == {"unparseable": 1}
    assert "no number" in built.errors[0]


def test_an_edited_file_is_kept_and_costs_no_call(folder):
    """A person removed a row: the next run refuses before any call."""
    build_negatives("docs", "out", judge=Writer([about(s) for s in SUBJECTS]).judge, queries=3)
    path = folder / "out" / "queries.jsonl"
    kept = "".join(path.read_text().splitlines(keepends=True)[:2])
    path.write_text(kept)
    judge = FakeJudge()
    with pytest.raises(ConfigurationError, match="was edited and is not overwritten"):
        build_negatives("docs", "out", judge=judge, queries=3)
    assert (kept, []) == (path.read_text(), judge.prompts)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"queries": 0}, "queries must be an integer of at least 1, got 0"),
        ({"max_passages": 0}, "max_passages must be an integer of at least 1, got 0"),
        ({"rating_threshold": 6}, "rating_threshold must be a number from 0.1 to 5, got 6"),
        ({"concurrency": 0}, "concurrency must be an integer of at least 1, got 0"),
        ({"judge": "lexical"}, "needs a model"),
    ],
)
def test_bad_options_are_refused(options, message, folder):
    """The value, the rule and the way out, before any call."""
    with pytest.raises(ConfigurationError, match=message):
        build_negatives("docs", "out", **{"judge": FakeJudge(), **options})
    assert not (folder / "out" / "queries.jsonl").exists()


def test_evaluate_reads_the_queries(folder):
    """The rows are questions for an application."""
    built = build_negatives("docs", "out", judge=Writer([about(s) for s in SUBJECTS]).judge, queries=3)
    result = ragstone.evaluate(built.path, ["ccrs.qr"], app=lambda query: f"I do not know {query}", judge=FakeJudge())
    assert len(result.outcomes) == 3


def test_the_command_shows_the_cost_and_the_next_step(folder):
    """The plan before the calls, nothing called by --dry-run, and the command that uses the file."""
    planned = run_command("lab", "dataset", "negatives", "docs", "--set", "research.queries=5", "--dry-run")
    assert planned.stdout.strip() == ("5 queries that 2 documents (2 passages) do not answer: at most 3 judge calls")
    assert not (folder / "negatives").exists()
    written = json.dumps({"items": [f"Who invented {subject}?" for subject in SUBJECTS[:10]]})
    with FakeJudgeServer(structured="ignored", reply=lambda body: written) as server:
        done = run_command(
            "lab", "dataset", "negatives", "docs", "--set", "research.queries=5", "-o", "out", "--judge", server.url
        )
    assert done.returncode == 0, done.stderr
    assert "at most 3 judge calls" in done.stderr
    assert "5 of 5 queries" in done.stdout
    assert "next: check out/queries.jsonl, then run: ragstone evaluate out/queries.jsonl" in done.stderr
    assert rows_of(folder)[0]["metadata"] == {"best_rating": None, "closest_passage": None}
