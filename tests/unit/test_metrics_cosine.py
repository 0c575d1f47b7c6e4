"""Answer relevance by embeddings: values, intervals, shared judge calls, identities, and the whole way from a command."""

from __future__ import annotations

import asyncio
import json
import re

import numpy as np
import pytest
from typer.testing import CliRunner

from builders import make_sample
from command_line import app
from fake_models import FakeEmbedder
from fake_servers import FakeEmbeddingServer
from fake_servers.embedding_server import fake_vector
from ragstone import evaluate
from ragstone.errors import ConfigurationError, JudgeError
from ragstone.judges import is_baseline
from ragstone.judges.lexical import LexicalEmbedder, LexicalJudge
from ragstone.metrics import resolve_metrics
from ragstone.metrics.cosine import RagasAnswerRelevancyCosine, VeraAnswerRelevanceCosine
from ragstone.schema import Failure
from ragstone.scoring import Scorer
from ragstone.stats import mean_interval
from ragstone.testing import FakeJudge
from ragstone.worker import ScoringSetup

QUESTIONS = ["How tall?", "What height?", "Where?"]
ROW = {"query": "How tall is the lighthouse?", "response": "The lighthouse is 31 meters tall.", "contexts": ["a"]}


def judge(*questions):
    return FakeJudge(json={"answer_questions": {"items": list(questions)}, "question_equivalence": {"1": 50}})


def score(*metrics, judge=None, **fields):
    """Outcomes of one sample by name."""
    scorer = Scorer(metrics, judge or FakeJudge(json={"answer_questions": {"items": QUESTIONS}}))
    outcomes = asyncio.run(scorer.score(make_sample(**{**ROW, "contexts": ("a",), **fields})))
    return {outcome.metric: outcome for outcome in outcomes}, scorer


def test_the_mean_of_the_cosines_and_its_interval():
    """Over the questions of one sample, in the range of a cosine."""
    embedder = FakeEmbedder([0.9, -0.3, 0.0])
    outcome = score(RagasAnswerRelevancyCosine(embedder=embedder))[0]["ragas.answer_relevancy_cosine"]
    expected = mean_interval([0.9, -0.3, 0.0], low=-1, high=1)
    assert pytest.approx(0.2) == outcome.value
    assert pytest.approx((expected.low, expected.high)) == (outcome.interval.low, outcome.interval.high)
    assert (3, "cosine") == (outcome.n, outcome.method)
    assert [(ROW["query"], *QUESTIONS)] == embedder.asked
    cosines = [entry["cosine"] for entry in outcome.details["questions"]]
    assert pytest.approx([0.9, -0.3, 0.0]) == cosines
    assert QUESTIONS == [entry["question"] for entry in outcome.details["questions"]]


def test_one_question_has_no_interval():
    """A single cosine does not show its spread."""
    outcome = score(VeraAnswerRelevanceCosine(FakeEmbedder([-1.0])), judge=judge("How tall?"))[0]
    assert -1.0 == outcome["vera.answer_relevance_cosine"].value
    assert outcome["vera.answer_relevance_cosine"].interval is None


def test_without_an_answer():
    """A blank response and one that answers no question score 0, and nothing is embedded."""
    embedder = FakeEmbedder()
    metric = RagasAnswerRelevancyCosine(embedder=embedder)
    (blank,) = score(metric, response=" ")[0].values()
    (evasive,) = score(metric, judge=judge())[0].values()
    assert (0.0, "empty_response") == (blank.value, blank.method)
    assert (0.0, True) == (evasive.value, evasive.details["noncommittal"])
    assert [] == embedder.asked


def test_the_judged_metric_shares_the_questions():
    """Both metrics of one source cost one call for the questions."""
    asked = judge("How tall?")
    metrics = [*resolve_metrics("vera.answer_relevance"), VeraAnswerRelevanceCosine(FakeEmbedder([0.7]))]
    outcomes, _ = score(*metrics, judge=asked)
    assert {"vera.answer_relevance": 0.5, "vera.answer_relevance_cosine": 0.7} == {
        name: pytest.approx(outcome.value) for name, outcome in outcomes.items()
    }
    assert 2 == len(asked.prompts)


@pytest.mark.parametrize("n", [1, 5, 20])
def test_the_number_of_questions(n):
    """It is part of name, prompt and version."""
    (metric,) = resolve_metrics(f"ragas.answer_relevancy_cosine@{n}")
    asked = judge(*(f"Question {i}?" for i in range(n)))
    outcome = score(metric.with_embedder(FakeEmbedder()), judge=asked)[0][f"ragas.answer_relevancy_cosine@{n}"]
    assert n == outcome.n
    assert f"write {n} questions" in asked.prompts[0].task
    assert metric.card.version != RagasAnswerRelevancyCosine().card.version
    assert resolve_metrics("ragas.answer_relevancy_cosine@3")[0].name == "ragas.answer_relevancy_cosine"


@pytest.mark.parametrize("n", ["0", "21", "-1", "x", "1.5", "٣"])
def test_impossible_numbers_of_questions(n):
    """The message names the range."""
    with pytest.raises(ConfigurationError, match="an integer of at least 1 and at most 20, got"):
        resolve_metrics(f"ragas.answer_relevancy_cosine@{n}")


def test_the_embedder_is_part_of_the_judge():
    """Scores of two embedders, and of two judges, have different hashes; names say who embedded."""
    made = {}
    for name in ("one", "two"):
        outcome = score(VeraAnswerRelevanceCosine(FakeEmbedder(name=name)), judge=judge("How?"))[0]
        made[name] = outcome["vera.answer_relevance_cosine"]
    assert made["one"].judge_hash != made["two"].judge_hash
    assert made["one"].metric_version == made["two"].metric_version
    assert "fake judge, embedded by one" == made["one"].judge
    assert {"one"} == {made["one"].details["embedder"]}
    _, scorer = score(VeraAnswerRelevanceCosine(FakeEmbedder()), *resolve_metrics("exact_match"))
    assert scorer.judged_by(scorer.metrics[1]) is None


def test_what_fails_is_a_failure():
    """The embedder's reason is kept, and a metric without an embedder says how to give it one."""

    def broken(first, other):
        return JudgeError("the model is too small", kind="rejected")

    (outcome,) = score(VeraAnswerRelevanceCosine(FakeEmbedder(broken)), judge=judge("How?"))[0].values()
    assert isinstance(outcome, Failure)
    assert ("rejected", "the model is too small") == (outcome.kind, outcome.reason)
    (unbound,) = score(VeraAnswerRelevanceCosine())[0].values()
    assert "does not have an embedder. Pass one with embedder=" in unbound.reason


def test_a_setup_binds_closes_and_describes_the_embedder():
    """One is made only if a metric needs it; one that was passed is not closed."""
    assert ScoringSetup("ccrs", judge="lexical").embedder is None

    class Closing(FakeEmbedder):
        closed = False

        async def aclose(self):
            self.closed = True

    own = Closing()
    for closes in (False, True):
        setup = ScoringSetup("cosine", judge=LexicalJudge(), embedder=own, closes_models=closes)
        assert {own} == {metric.embedder for metric in setup.metrics}
        asyncio.run(setup.aclose())
        assert closes == own.closed
    assert setup.plan["embedder.url"].startswith("object:")
    assert "embedder.url" not in ScoringSetup("ccrs", judge="lexical", embedder="lexical").plan
    assert isinstance(ScoringSetup("cosine", judge="lexical", embedder="lexical").embedder, LexicalEmbedder)


def test_the_baseline_scores_without_a_model():
    """By common words, and the table says that this is not a judgment."""
    result = evaluate([ROW], "cosine", judge="lexical", embedder="lexical")
    values = {outcome.metric: outcome.value for outcome in result.outcomes}
    # The response is its own first question. Both contain "tall" and "lighthouse", and the response has "31" and "meters".
    assert {name: pytest.approx(2 / (2 * 4) ** 0.5) for name in values} == values
    assert 2 == len(values)
    assert all(is_baseline(outcome.judge) for outcome in result.outcomes)


def test_the_command(tmp_path):
    """`--embedder`, its model and its key reach the server, and the outcomes name it."""
    rows = tmp_path / "rows.jsonl"
    rows.write_text(json.dumps({"id": "a", **ROW}))
    out = tmp_path / "out.jsonl"
    with FakeEmbeddingServer(models=("a", "b"), api_key="k-1234") as server:
        line = ["evaluate", str(rows), "--metrics", "cosine", "--judge", "lexical", "-o", str(out)]
        line += ["--embedder", server.url, "--set", "embedder.model=b", "--set", "embedder.api_key_env=MY_KEY"]
        done = CliRunner().invoke(app, line, env={"MY_KEY": "k-1234"})
    assert 0 == done.exit_code, done.output
    outcomes = [json.loads(text) for text in out.read_text().splitlines()]
    # The baseline's question is the first sentence of the response.
    query, question = (np.asarray(fake_vector(ROW[name], 32)) for name in ("query", "response"))
    cosine = query @ question / (np.linalg.norm(query) * np.linalg.norm(question))
    assert [pytest.approx(cosine)] * 2 == [outcome["value"] for outcome in outcomes]
    assert all(", embedded by b at 127.0.0.1" in outcome["judge"] for outcome in outcomes)


def test_a_dry_run_counts_the_calls(tmp_path):
    """Those of the judge and those of the embedder."""
    rows = tmp_path / "rows.jsonl"
    rows.write_text("\n".join(json.dumps({"id": str(n), **ROW}) for n in range(3)))
    line = ["evaluate", str(rows), "--metrics", "vera.answer_relevance_cosine", "--dry-run", "--json"]
    plan = json.loads(CliRunner().invoke(app, line).stdout)
    assert 6 == plan["calls"]


def test_the_card_names_the_calls():
    """`ragstone metrics NAME` shows the calls of the embedder and the cosines of the example."""
    shown = CliRunner().invoke(app, ["metrics", "ragas.answer_relevancy_cosine"]).stdout
    assert re.search(r"calls\s+judge 1 per sample, embedder 1 per sample", shown)
    assert "cosines of the query's embedding: 0.92, 0.68, 0.25" in shown
