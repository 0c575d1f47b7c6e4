"""UDCG from the command line and live, without a model and with a fake one."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from command_line import run_command
from fake_models import FakeReader
from fake_servers import FakeModelServer
from ragstone.errors import JudgeRejectedError
from ragstone.judges import Message
from ragstone.monitor import Monitor
from ragstone.requests import PassageDraft, RetrievalDraft, TraceDraft
from ragstone.schema import Failure, Score
from ragstone.store import SqliteStore
from ragstone.testing import FakeJudge
from scripted_model import ScriptedModel

LIGHTHOUSE = "How tall is the lighthouse of Northport?"
TALL = "The lighthouse of Northport is 31 metres tall."
SHORT = "The chapel of Northport is small."
FERRY = "Ferries leave at noon."


@pytest.fixture
def graded(tmp_path: Path) -> Path:
    """Three contexts for each of four questions, graded."""
    path = tmp_path / "graded.jsonl"
    contexts = (([FERRY, TALL], "correct"), ([FERRY, SHORT], "wrong"), ([FERRY, FERRY], "abstain"))
    rows = [
        {
            "id": f"{question}-{grade}",
            "question_id": question,
            "query": LIGHTHOUSE,
            "contexts": texts,
            "grade": grade,
            "reference": "31 metres",
        }
        for question in range(4)
        for texts, grade in contexts
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_evaluate_scores_udcg_without_a_model(graded: Path, tmp_path: Path) -> None:
    """Mean and interval lie in UDCG's own range, and the outcomes tell passage from passage."""
    done = run_command(
        "evaluate", graded, "--metrics", "udcg", "--judge", "lexical", "--json", "-o", tmp_path / "o.jsonl"
    )
    assert 0 == done.returncode, done.stderr
    (summary,) = json.loads(done.stdout)["metrics"]
    assert ("udcg", 12) == (summary["metric"], summary["n_scored"])
    low, high = summary["ci"]
    assert 0.41 < low < summary["mean"] < high < 0.74
    first = json.loads((tmp_path / "o.jsonl").read_text(encoding="utf-8").splitlines()[0])
    ferry, tall = first["details"]["passages"]
    assert ferry["utility"] <= 0 < tall["utility"]
    assert "lexical" == first["method"]


def test_rank_correlate_fit_and_evaluate_work_on_each_other_s_files(graded: Path, tmp_path: Path) -> None:
    """Annotate once; correlate and fit without asking; evaluate with the weights that were learned."""
    annotated, theta = tmp_path / "annotated.jsonl", tmp_path / "theta.json"
    done = run_command(
        "lab",
        "udcg",
        "rank",
        graded,
        "--keep-order",
        "--erag",
        "-o",
        annotated,
        "--judge",
        "lexical",
        "--json",
    )
    assert 0 == done.returncode, done.stderr
    assert (12, 24, 0) == tuple(json.loads(done.stdout)[key] for key in ("n_samples", "n_passages", "n_failed"))

    done = run_command("lab", "udcg", "correlate", annotated)
    assert 0 == done.returncode, done.stderr
    for name in ("udcg", "udcg_theta", "relevance_only", "binary", "ndcg", "map", "mrr", "precision", "hits", "erag"):
        assert f"\n{name} " in done.stdout
    assert "4 questions, 12 contexts; answers: 4 correct, 4 abstained, 4 wrong" in done.stdout

    done = run_command("lab", "udcg", "fit", annotated, "-o", theta, "--set", "research.svm_c=1,10", "--json")
    assert 0 == done.returncode, done.stderr
    assert (2, 4) == (json.loads(done.stdout)["k"], json.loads(done.stdout)["n_questions"])

    done = run_command("lab", "udcg", "correlate", annotated, "--theta", theta, "--json")
    assert 0 == done.returncode, done.stderr
    assert 12 == json.loads(done.stdout)["n_contexts"]

    done = run_command("evaluate", annotated, "--metrics", f"udcg,udcg_theta@{theta}", "--judge", "lexical")
    assert 0 == done.returncode, done.stderr
    assert re.search(r"udcg_theta\)? +0\.", done.stdout)


def test_rank_prints_the_best_passages(graded: Path) -> None:
    """Without a file the samples go to stdout, one a line, and the counts to stderr."""
    done = run_command("lab", "udcg", "rank", graded, "-k", "1", "--judge", "lexical")
    assert 0 == done.returncode, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert 12 == len(rows)
    assert [TALL] == [passage["text"] for passage in rows[0]["contexts"]]
    assert "correct" == rows[0]["grade_before"]
    assert "12 samples, 24 passages ranked by utility" in done.stderr


def test_rank_reads_with_the_application_s_own_prompt(graded: Path, tmp_path: Path) -> None:
    """The reader is asked in the application's words for its own phrase; where no judge is named, its model labels."""
    template = tmp_path / "prompt.txt"
    template.write_text("Passage: {context} Question: {question} If it is not there, say UNKNOWN.", encoding="utf-8")

    def replies(messages: Sequence[Message]) -> dict[str, float]:
        asked = messages[-1]["content"]
        if asked.startswith("Passage: "):
            p = 0.125 if TALL in asked else 0.75
            return {"UNKNOWN": p, "31 metres": 1 - p}
        return {"1" if TALL in asked else "0": 1.0}

    with FakeModelServer(ScriptedModel(replies)) as server:
        options = (
            "--set",
            f"reader.prompt={template}",
            "--set",
            "reader.abstention=UNKNOWN",
            "--set",
            "reader.estimator=exact",
        )
        done = run_command("lab", "udcg", "rank", graded, "--reader", server.url, *options)
        assert 0 == done.returncode, done.stderr
        assert {"scripted-model"} == {request["model"] for request in server.stats.requests}
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    found = {p["text"]: p["metadata"]["udcg"] for row in rows for p in row["contexts"]}
    assert [0.875, -0.25] == [pytest.approx(found[text]["utility"], abs=1e-6) for text in (TALL, FERRY)]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("fit", "no.jsonl"), 2, "file not found"),
        (("fit", "GRADED"), 2, "rows lack a passage"),
        (("correlate", "GRADED"), 2, "12 of 12 rows lack"),
        (("correlate", "GRADED", "--theta", "no.json"), 2, "no.json"),
        (("rank", "GRADED", "-k", "0"), 2, "-k"),
        (("rank", "GRADED", "--json"), 2, "--output FILE"),
        (("rank", "GRADED", "-o", "/no/such/folder/x.jsonl"), 2, "does not exist"),
        (("rank", "GRADED", "--judge", "http://127.0.0.1:9/v1"), 3, ""),
    ],
)
@pytest.mark.usefixtures("virtual_time")
def test_exit_codes_tell_who_can_act(graded: Path, arguments: tuple[str, ...], code: int, message: str) -> None:
    """2 is the user's, 3 the infrastructure's; no traceback either way."""
    done = run_command("lab", "udcg", *(graded if a == "GRADED" else a for a in arguments))
    assert code == done.returncode, done.stderr
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_udcg_is_scored_live_beside_the_others(tmp_path: Path) -> None:
    """Captured requests have UDCG with its interval; where retrieval found nothing it is not applicable."""
    store = tmp_path / "r.db"

    reader = FakeReader(lambda query, passages: {TALL: 0.1, FERRY: 0.8}[passages[0]], half_width=0.05)
    judge = FakeJudge(lambda prompt: float(TALL in str(prompt.fields.get("passage", TALL))))
    with Monitor(metrics=["ccrs", "udcg"], judge=judge, reader=reader, store=store) as monitor:
        for number, texts in enumerate(([TALL, FERRY], [FERRY, FERRY], [])):
            found = RetrievalDraft(passages=[PassageDraft(text=text) for text in texts])
            monitor.record(
                TraceDraft(
                    trace_id=f"t{number}",
                    query=LIGHTHOUSE,
                    response="31 metres.",
                    retrievals=[found],
                    reference=["31 metres"],
                )
            )
        assert monitor.drain(60)
        ledger = monitor.ledger()
    assert ledger.total.balanced
    assert (2, 1) == (ledger.metrics["udcg"].scored, ledger.metrics["udcg"].not_applicable)
    with SqliteStore.open(store, mode="read") as opened:
        scores = {o.sample_id: o for o in opened.outcomes.read() if o.metric == "udcg" and isinstance(o, Score)}
    assert "judge_with_reference" == scores["t0"].details["labels"]
    assert scores["t0"].interval.low < scores["t0"].value < scores["t0"].interval.high
    assert scores["t1"].value < 0.5 < scores["t0"].value
    assert {"fake judge, read by fake reader"} == {score.judge for score in scores.values()}


def test_a_passage_that_cannot_be_read_fails_live_with_its_bounds(tmp_path: Path) -> None:
    """The failure in the store says which passage, and where the value lies; the other metrics have theirs."""
    store = tmp_path / "r.db"
    reader = FakeReader(lambda query, passages: JudgeRejectedError("too long") if passages == [FERRY] else 0.1)
    judge = FakeJudge(1.0)
    with Monitor(metrics=["ccrs.qr", "udcg"], judge=judge, reader=reader, store=store) as monitor:
        found = RetrievalDraft(passages=[PassageDraft(text=TALL), PassageDraft(text=FERRY)])
        monitor.record(TraceDraft(trace_id="t", query=LIGHTHOUSE, response="31 metres.", retrievals=[found]))
        assert monitor.drain(60)
    with SqliteStore.open(store, mode="read") as opened:
        outcomes = {o.metric: o for o in opened.outcomes.read()}
    failure = outcomes["udcg"]
    assert isinstance(outcomes["ccrs.qr"], Score)
    assert isinstance(failure, Failure)
    assert "rejected" == failure.kind
    assert "the utility of 1 of 2 passages is unknown" in failure.reason
    low, high = failure.details["bounds"]
    assert low < high
    assert [pytest.approx(0.9), None] == [passage["utility"] for passage in failure.details["passages"]]
