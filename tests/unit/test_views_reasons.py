"""`report --reasons`: the judge explains the shown answers, only its own scores, and the scores do not change."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from command_line import run_command
from fake_servers import FakeJudgeServer
from ragstone.errors import ConfigurationError, JudgeError
from ragstone.experiments import Experiment, build_report, evaluate
from ragstone.experiments._views.reasons import AskReasons
from ragstone.experiments._views.source import AnswerRecord
from ragstone.judges import Prompt
from ragstone.judges.lexical import LexicalJudge
from ragstone.schema import Score
from ragstone.testing import FakeJudge

ROWS = [
    {
        "id": f"q{n}",
        "query": f"What does ticket {n} cost?",
        "contexts": ["A ticket costs four crowns."],
        "response": "Dogs stay outside." if n % 2 else "Four crowns.",
        "reference": "Four crowns.",
    }
    for n in range(12)
]


def scored(judge: FakeJudge | None = None) -> Experiment:
    """Half of the answers are wrong."""

    def number(prompt: Prompt) -> float:
        return 5.0 if "Dogs" in str(prompt.fields) else 95.0

    return evaluate(ROWS, ["ccrs.ac", "ccrs.cc"], judge=judge or FakeJudge(number))


def test_the_shown_answers_have_reasons_and_no_score_changes(tmp_path: Path) -> None:
    """One call for each of N answers, the reason in the view, the page and the summary."""
    result = scored()
    result.to_jsonl(tmp_path / "o.jsonl")
    judge = FakeJudge(text="It speaks of dogs.")
    plain = build_report(tmp_path / "o.jsonl", samples=result.samples)
    view = build_report(tmp_path / "o.jsonl", samples=result.samples, reasons=3, judge=judge)
    assert 3 == len(judge.prompts)
    assert plain.metrics == view.metrics
    assert [answer.id for answer in plain.worst] == [answer.id for answer in view.worst]
    reasons = [score for answer in view.worst for score in answer.scores if score.reason_source == "judge"]
    assert ["It speaks of dogs."] * 3 == [score.reason for score in reasons]
    values = {(answer.id, s.metric): s.value for answer in plain.worst for s in answer.scores}
    assert values == {(answer.id, s.metric): s.value for answer in view.worst for s in answer.scores}
    assert () == tuple(n for n in view.notices if "reason" in n.text.lower())
    build_report(
        tmp_path / "o.jsonl", tmp_path / "r.html", samples=result.samples, reasons=2, judge=FakeJudge(text="No fare.")
    )
    assert 2 == (tmp_path / "r.html").read_text(encoding="utf-8").count("No fare.")


def test_as_many_answers_are_shown_as_reasons_are_asked_for(tmp_path: Path) -> None:
    """`reasons=8` shows at least 8 answers."""
    result = scored()
    result.to_jsonl(tmp_path / "o.jsonl")
    view = build_report(tmp_path / "o.jsonl", samples=result.samples, n_worst=2, reasons=6, judge=FakeJudge(text="x"))
    assert 6 == len(view.worst)


def test_another_judge_does_not_explain_these_scores(tmp_path: Path) -> None:
    """It is not called, and a notice says whose scores they are."""
    result = scored()
    result.to_jsonl(tmp_path / "o.jsonl")
    other = FakeJudge(text="x", name="other")
    view = build_report(tmp_path / "o.jsonl", samples=result.samples, reasons=3, judge=other)
    assert [] == other.prompts
    assert any("Reasons come from other, which explains only its own scores" in n.text for n in view.notices)


def test_a_judge_that_fails_leaves_the_report_complete(tmp_path: Path) -> None:
    """The notice contains the failure."""
    result = scored()
    result.to_jsonl(tmp_path / "o.jsonl")
    judge = FakeJudge(fail=lambda _: JudgeError("no such model", kind="rejected"))
    view = build_report(tmp_path / "o.jsonl", samples=result.samples, reasons=3, judge=judge)
    assert 5 == len(view.worst)
    assert any("no reason for 3 of the shown answers (rejected: no such model)" in n.text for n in view.notices)


def test_the_lexical_baseline_is_refused(tmp_path: Path) -> None:
    """With the way out."""
    scored().to_jsonl(tmp_path / "o.jsonl")
    with pytest.raises(ConfigurationError, match="needs a model as judge"):
        build_report(tmp_path / "o.jsonl", reasons=3, judge=LexicalJudge())


def test_on_the_command_line(tmp_path: Path) -> None:
    """With the judge of the scores, over HTTP."""
    data, outcomes = tmp_path / "q.jsonl", tmp_path / "o.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in ROWS), encoding="utf-8")
    with FakeJudgeServer() as server:
        arguments = ("--judge", server.url, "--judge-model", "m")
        done = run_command("evaluate", data, "--metrics", "ccrs.ac", *arguments, "--output", outcomes)
        assert 0 == done.returncode, done.stderr
        shown = run_command("report", outcomes, "--data", data, "--reasons", "2", *arguments, "--json", "--full")
    assert 0 == shown.returncode, shown.stderr
    scores = [score for answer in json.loads(shown.stdout)["worst"] for score in answer["scores"]]
    assert 2 == sum(score["reason_source"] == "judge" for score in scores)


def test_without_a_number_of_reasons_the_judge_is_not_asked(tmp_path: Path) -> None:
    """And nothing is said of reasons."""
    result = scored()
    result.to_jsonl(tmp_path / "o.jsonl")
    judge = FakeJudge(text="It speaks of dogs.", name="other")
    plain = build_report(tmp_path / "o.jsonl", samples=result.samples)
    view = build_report(tmp_path / "o.jsonl", samples=result.samples, judge=judge)
    assert ([], plain.notices) == (judge.prompts, view.notices)


def test_scores_of_a_metric_with_a_reader_are_not_explained() -> None:
    """The judge alone did not make them."""
    sample = scored().samples[0]
    udcg = Score(
        sample_id=sample.id, metric="udcg", metric_version="1", value=0.1, method="x", judge="fake", judge_hash="h"
    )
    judge = FakeJudge(text="So.")
    notes = AskReasons(1, judge).explain([AnswerRecord(sample, None, [udcg])])
    assert (["No shown answer has a rating that the judge can explain."], []) == (notes, judge.prompts)
