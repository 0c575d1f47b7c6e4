"""Trials of repairs in reports: the store of the cases keeps the result, and its reports end with it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import ragstone
from command_line import run_command
from ragstone.experiments import FollowedReport, TableReader, TimeRange, build_report, choose_cases, save_run
from ragstone.experiments._outcomes import open_source
from ragstone.experiments._views.trial import build_trial
from ragstone.store import SqliteStore
from ragstone.views import ReportText, ReportView, html_report, live_parts, live_places, markdown_report

RIGHT, WRONG = "At the river.", "In a cave below the mountain."


def passages(question: str) -> list[str]:
    return [f"Passage {place} about the stone of {question}, with some more words." for place in range(4)]


@pytest.fixture
def app(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """An application that answers right with at most two passages, and otherwise wrong."""
    module = ModuleType("planted_application")

    def retrieve(question: str) -> list[str]:
        return passages(question)

    def ask(question: str) -> dict[str, Any]:
        hits = module.retrieve(question)
        return {"response": RIGHT if len(hits) <= 2 else WRONG, "contexts": hits}

    module.retrieve, module.ask = retrieve, ask  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "planted_application", module)
    return module


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store of 24 requests, of which 16 are answered wrong. User u0 asked the first."""
    rows = [
        {"id": f"q{k}", "query": f"question {k}", "contexts": passages(f"question {k}"), "reference": RIGHT}
        | {"response": WRONG if k < 16 else RIGHT, "metadata": {"topic": f"secret-topic-{k % 2}"}}
        for k in range(24)
    ]
    result = ragstone.evaluate(rows, ["ccrs.ac"], judge="lexical")
    save_run(tmp_path / "s.db", "1.0", result, ())
    return tmp_path / "s.db"


def write_cases(store: Path, **options: Any) -> Path:
    file = store.parent / "cases.jsonl"
    choose_cases(store, **{"worst": 50} | options).write(file)
    return file


def run_trial(app: ModuleType, file: Path, **options: Any) -> Any:
    settings: dict[str, Any] = {"hook": "planted_application:retrieve", "judge": "lexical"} | options
    return ragstone.repair(file, ["ccrs.ac"], app=app.ask, **settings)


def shown(view: ReportView, width: int = 200) -> str:
    return "\n".join(line.plain for line in ReportText(view, width=width).lines())


def page_of(view: ReportView) -> str:
    return html_report(view, (), max_bytes=10**6, has_texts=True, command=None)


def test_the_report_of_the_store_ends_with_what_a_trial_showed(app: ModuleType, store: Path) -> None:
    """Every format has the shares, the number of answers, the day, the application and the judge, in place of advice."""
    assert build_report(store).trial is None
    assert not build_report(store).next.text.startswith("Fewer passages")
    trial = run_trial(app, write_cases(store))
    assert f"In the report too: ragstone report {store}" == trial.kept
    view = build_report(store)
    assert view.trial is not None
    result = json.loads(json.dumps(view.to_dict()))["trial"]["result"]
    assert ("lexical baseline", 16, 16) == (result["judge"], result["n_wrong"], result["n_asked"])
    assert trial.to_dict()["metrics"].keys() == result["metrics"].keys() == {"ccrs.ac"}
    assert [share.title for share in trial.shares] == [row[0] for row in view.trial.table[1:]]
    assert trial.verdict == view.next.text == view.trial.statement.text
    page = page_of(view)
    for text in (shown(view), markdown_report(view).replace("\\", ""), page, json.dumps(view.to_dict())):
        assert "Fewer passages: corrects 100 %" in text
        assert "16 of 16 wrong answers, asked again in" in text
        assert "Judge: lexical baseline" in text
    assert max(map(len, shown(view, 80).splitlines())) <= 80


def test_a_trial_with_another_judge_or_version_claims_nothing(app: ModuleType, store: Path) -> None:
    """It is said to be another's, without shares, and the advice stays. A trial with the same judge comes first."""
    file = write_cases(store)
    judge = ragstone.testing.FakeJudge(0)
    run_trial(app, file, judge=judge)
    view = build_report(store)
    assert ((), None) == (view.trial.table, view.trial.result.get("shares"))
    assert "says nothing about these scores: it has another judge, or another version" in view.trial.statement.text
    assert "beyond luck" not in shown(view) + page_of(view) + markdown_report(view)
    assert not view.next.text.startswith("Fewer passages")
    run_trial(app, file)
    assert build_report(store).trial.table
    run_trial(app, file, judge=judge)
    assert build_report(store).trial.table


def test_a_trial_of_a_run_is_in_the_report_of_this_run_only(app: ModuleType, store: Path) -> None:
    """The next run can be of another application, of whose answers the trial says nothing."""
    first = write_cases(store)
    rows = [{"id": f"q{k}", "query": "q", "contexts": ["c"], "reference": RIGHT, "response": WRONG} for k in range(9)]
    save_run(store, "2.0", ragstone.evaluate(rows, ["ccrs.ac"], judge="lexical"), ())
    run_trial(app, first)
    assert build_report(TimeRange(store, run="1.0")).trial is not None
    assert build_report(store).trial is None


def test_a_trial_of_other_causes_leaves_the_advice(app: ModuleType, store: Path) -> None:
    """Evidence about another cause than the most frequent one does not replace what to do next."""
    first = next(row.cause for row in build_report(store).causes if row.is_wrong)
    run_trial(app, write_cases(store, where=f"cause={first}"))
    assert build_report(store).next.text.startswith("Fewer passages")
    assert f"chosen by cause={first}" in build_report(store).trial.about
    run_trial(app, write_cases(store, where="cause!=no_relevant_passage and topic=secret-topic-1"))
    view = build_report(store)
    assert not view.next.text.startswith("Fewer passages")
    assert "chosen by cause!=no_relevant_passage and other conditions" in view.trial.about


def test_the_store_keeps_no_texts_of_a_trial(app: ModuleType, store: Path) -> None:
    """Conditions on labels and messages of errors can contain personal data, which an erasure would not find."""
    ask = app.ask

    def fail(question: str) -> Any:
        if len(app.retrieve(question)) == 0:
            raise RuntimeError(f"secret-error {question}")
        return ask(question)

    app.ask = fail
    trial = run_trial(app, write_cases(store, where="topic=secret-topic-1"))
    assert "secret-error" in str(trial)
    with SqliteStore.open(store, mode="read") as opened:
        (kept,) = opened.labels.trials()
    assert "secret-" not in kept.body
    assert "question 1" not in kept.body


def test_a_trial_is_kept_while_another_process_owns_the_store(app: ModuleType, store: Path) -> None:
    """It waits next to the store, where reports read it, and the live page shows it without a restart."""
    file = write_cases(store)
    followed = FollowedReport(TimeRange(store), targets={})
    followed.refresh()
    with SqliteStore.open(store, mode="own"):
        run_trial(app, file)
        assert build_report(store).trial.table
    assert (True, True) == (followed.refresh(), followed.view.trial is not None)
    parts = live_parts(followed.view, followed.ledger, latest=(), command="")
    page = live_places(parts, ["causes", "trial"])
    assert ("Fewer passages: corrects" in page, f"ragstone labels cases {store}@1.0 --where cause=" in page) == (
        True,
        True,
    )
    with SqliteStore.open(store, mode="own"), SqliteStore.open(store, mode="read") as opened:
        assert 1 == len(opened.labels.trials())
    assert not store.with_name("s.db.labels").read_bytes()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda case, path: {**case, "store": f"{path}.gone"}, "the cases are not of one file that is here"),
        (lambda case, path: {**case, "store": "postgresql://h/d"}, "the cases are not of one file that is here"),
        (lambda case, path: {**case, "store": str(path.with_name("other.db"))}, "does not contain these cases"),
        (lambda case, path: {**case, "store": str(path.with_name("cases.jsonl"))}, "does not keep this result: "),
        (lambda case, path: {k: v for k, v in case.items() if k != "store"}, ""),
    ],
)
def test_a_result_that_no_store_can_keep_is_in_its_file_and_says_so(
    app: ModuleType, store: Path, change: Any, message: str
) -> None:
    """A moved store, a database, another store with this name, and a file that is none: no store is changed or made."""
    file = write_cases(store)
    other = store.with_name("other.db")
    save_run(other, "1.0", ragstone.evaluate([{"id": "x", "query": "q", "response": "r", "contexts": ["c"]}], ["ccrs.cc"], judge="lexical"), ())  # fmt: skip
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    file.write_text("".join(json.dumps(row | {"case": change(row["case"], store)}) + "\n" for row in rows))
    trial = run_trial(app, file, output=store.with_name("trial.json"))
    assert message in trial.kept
    assert (message == "") == (trial.kept == "")
    assert trial.kept == json.loads(store.with_name("trial.json").read_text())["kept"]
    assert not Path(f"{store}.gone").exists()
    assert (None, None) == (build_report(store).trial, build_report(other).trial)


def test_the_page_names_the_commands_that_write_cases_of_a_cause(store: Path) -> None:
    """The command of each cause of wrong answers can be copied as it is, and runs."""
    view = build_report(TimeRange(store, run="1.0"))
    cause = next(row.cause for row in view.causes if row.is_wrong)
    command = f"labels cases {store}@1.0 --where cause={cause} -o cases.jsonl"
    assert f'<code class="command">ragstone {command}</code>' in page_of(view)
    done = run_command(*command.replace("cases.jsonl", str(store.with_name("c.jsonl"))).split())
    assert (0, 16) == (done.returncode, len(store.with_name("c.jsonl").read_text().splitlines())), done.stderr
    assert command in run_command("report", f"{store}@1.0").stdout


def test_a_trial_says_nothing_about_scores_of_several_judges_or_another_meaning_of_wrong(
    app: ModuleType, store: Path
) -> None:
    """Although one of the judges is its own, and although its metric is among those of the report."""
    run_trial(app, write_cases(store))
    with SqliteStore.open(store, mode="read") as opened:
        bodies = [each.body for each in opened.labels.trials()]
    table, _ = open_source(store).table()
    assert build_trial(bodies, table, "correctness").table
    other = build_trial(bodies, table, "support")
    assert ("warning", ()) == (other.statement.kind, other.table)
    assert "its answers are wrong by correctness, and those of this report by other metrics" in other.statement.text
    reader = TableReader()
    for n, outcome in enumerate(open_source(store).outcomes()):
        reader.put(outcome.model_copy(update={"judge_hash": "other"}) if n % 2 else outcome)
    mixed = build_trial(bodies, reader.table(), "correctness")
    assert ("warning", ()) == (mixed.statement.kind, mixed.table)
    assert "it has another judge, or another version or prompt, of ccrs.ac" in mixed.statement.text


def test_cases_of_two_stores_are_kept_by_none(app: ModuleType, store: Path) -> None:
    """The result is that of all."""
    other = store.with_name("other.db")
    other.write_bytes(store.read_bytes())
    file = write_cases(store)
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    for n, row in enumerate(rows):
        row["case"]["store"] = str(other if n % 2 else store)
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert "No store keeps this result: the cases are not of one file that is here" in run_trial(app, file).kept
    assert (None, None) == (build_report(store).trial, build_report(other).trial)


def test_a_trial_that_asked_nothing_is_not_kept(app: ModuleType, store: Path) -> None:
    """This judge calls no answer wrong."""
    trial = run_trial(app, write_cases(store), judge=ragstone.testing.FakeJudge(100))
    assert (0, "", None) == (trial.n_wrong, trial.kept, build_report(store).trial)
