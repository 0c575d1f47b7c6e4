"""The user's own phrases of refusal (`answers.refusals`): the same answers decline in every way of scoring."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import ragstone
from command_line import run_command
from ragstone.errors import ConfigurationError
from ragstone.store import SqliteStore
from ragstone.worker import ScorerSpec, read_ledger

PHRASES = ["Please ask the front desk", "Nur für Mitglieder!"]
ANSWERS = {
    "Please ask the front desk.": True,
    "please  ASK the\nfront desk about the pool": True,
    "I am sorry. Please ask the front desk.": True,
    '"Please ask the front desk"': True,
    "nur für mitglieder": True,
    "Please ask the front desk, who are there from 8:00 to 20:00. " * 20: True,
    "Please ask the front desks.": False,
    "The pool opens at 8:00. Please ask the front desk for a towel.": False,
    "He said: ask the front desk.": False,
}


def rows() -> list[dict[str, Any]]:
    """Return a row for each answer."""
    return [
        {
            "id": f"r{n}",
            "query": "When does the pool open?",
            "contexts": ["At 8."],
            "response": answer,
            "reference": "8",
        }
        for n, answer in enumerate(ANSWERS)
    ]


def declined(outcomes: Any) -> list[bool]:
    """Return whether each answer declines, by its outcome, in the order of the rows."""
    marks = {outcome["sample_id"]: outcome["answer"] for outcome in outcomes}
    assert all(("own_phrase" in found) == ("abstains" in found) for found in marks.values())
    return ["abstains" in marks[f"r{n}"] for n in range(len(ANSWERS))]


@pytest.mark.parametrize("processes", [1, 2])
def test_evaluate(processes: int) -> None:
    """An argument of `evaluate`, in this process and in others; the outcome says that an own phrase decided."""
    result = ragstone.evaluate(rows(), ["ccrs.qr"], judge="lexical", refusals=PHRASES, processes=processes)
    assert list(ANSWERS.values()) == declined(outcome.model_dump() for outcome in result.outcomes)


def test_phrases_of_one_call_are_not_those_of_the_next() -> None:
    """Without phrases, none of the answers declines, and what is detected anyway is no own phrase."""
    ragstone.evaluate(rows()[:1], ["ccrs.qr"], judge="lexical", refusals=PHRASES)
    detected = {**rows()[0], "id": "detected", "response": "I don't know."}
    result = ragstone.evaluate([*rows(), detected], ["ccrs.qr"], judge="lexical")
    assert [("abstains",)] == [outcome.answer for outcome in result.outcomes if outcome.answer]
    result = ragstone.evaluate([detected], ["ccrs.qr"], judge="lexical", refusals=PHRASES)
    assert ("abstains",) == result.outcomes[0].answer


@pytest.mark.parametrize("source", ["option", "environment", "file"])
def test_command(tmp_path: Path, source: str) -> None:
    """An option, a variable and a table of the file; a phrase may contain a comma in a list."""
    phrases = json.dumps(PHRASES, ensure_ascii=False)
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows())), encoding="utf-8")
    (tmp_path / "r.toml").write_text(f"[answers]\nrefusals = {phrases}\n", encoding="utf-8")
    file = ["--config", tmp_path / "r.toml"] if source == "file" else []
    option = ["--set", f"answers.refusals={phrases}"] if source == "option" else []
    environment = {"RAGSTONE_ANSWERS_REFUSALS": phrases} if source == "environment" else {}
    arguments = ["--metrics", "ccrs.qr", "--judge", "lexical", *option, "-o", tmp_path / "out.jsonl"]
    done = run_command(*file, "evaluate", tmp_path / "rows.jsonl", *arguments, **environment)
    assert 0 == done.returncode, done.stderr
    lines = (tmp_path / "out.jsonl").read_text(encoding="utf-8").splitlines()
    assert list(ANSWERS.values()) == declined(row for line in lines if "sample_id" in (row := json.loads(line)))


def test_a_store_keeps_the_phrases(tmp_path: Path) -> None:
    """A worker scores with the phrases of the application, and says if it has others."""
    store = tmp_path / "s.db"
    monitor = ragstone.Monitor(
        judge="lexical", metrics=["ccrs.qr"], store=store, scoring="none", refusals=PHRASES, redact=None
    )
    for row in rows():
        with monitor.request(row["query"]) as request:
            request.found(row["contexts"])
            request.answer(row["response"])
    monitor.close()
    (plan,) = read_ledger(store).plans
    assert PHRASES == plan.settings["answers.refusals"]
    other = run_command("worker", store, "--until-idle", "--set", "answers.refusals=Sorry")
    assert 2 == other.returncode
    assert "answers.refusals: plan" in other.stderr
    done = run_command("worker", store, "--until-idle")
    assert 0 == done.returncode, done.stderr
    with SqliteStore.open(store, mode="read") as opened:
        marks = [outcome.answer or () for outcome in opened.outcomes.read()]
    assert sum(ANSWERS.values()) == sum("own_phrase" in found for found in marks)


def test_a_spec_keeps_the_phrases() -> None:
    """A spec for another process or host has them as data."""
    assert ("a",) == ScorerSpec("ccrs.qr", judge="lexical", refusals=("a",)).split(1)[0].refusals
    assert () == ScorerSpec("ccrs.qr", judge="lexical").refusals


@pytest.mark.parametrize("wrong", [["..."], [""], [3]])
def test_phrases_without_a_letter_are_refused(wrong: list[Any]) -> None:
    """They would match every answer; the error names the argument."""
    with pytest.raises(ConfigurationError, match="refusals"):
        ragstone.evaluate(rows(), ["ccrs.qr"], judge="lexical", refusals=wrong)
