"""What outcomes show about the judge and the reader behind them: forced replies, one value, other scales, other refusals."""

from __future__ import annotations

import asyncio
import json

import pytest
from typer.testing import CliRunner

import ragstone
from fake_servers import FakeJudgeServer, Reply
from ragstone.cli._app import app
from ragstone.experiments import build_report
from ragstone.judges import AbstentionEstimate, ChatReader, JudgeIdentity
from ragstone.judges.lexical import LexicalReader
from ragstone.schema import Interval, Score
from ragstone.testing import FakeJudge
from scripted_model import ScriptedModel

ROWS = [
    {"id": f"r{n}", "query": f"How tall is tower {n}?", "response": f"{n} meters.", "contexts": [f"Tower {n}."]}
    for n in range(20)
]


def score(metric="ccrs.qr", rows=ROWS, **options):
    with FakeJudgeServer(**options) as server:
        return ragstone.evaluate(rows, (metric,), judge=server.url)


def outcomes(values, method="single_reply", metric="ccrs.qr", **more):
    """Scores of one metric as a file of outcomes has them."""
    base = {"metric": metric, "metric_version": "1", "judge": "a judge", "judge_hash": "h", "method": method}
    return [Score(sample_id=f"r{n}", value=value, **base, **more) for n, value in enumerate(values)]


def report(scores, tmp_path):
    path = tmp_path / "outcomes.jsonl"
    path.write_text("".join(f"{outcome.model_dump_json()}\n" for outcome in scores))
    return build_report(path)


def test_forced_replies_are_counted():
    """The summary names how many scores are forced, and the printed result and its JSON say it."""
    result = score(reply=lambda _: "It is good.")
    (summary,) = result.summary()
    (text,) = summary.checks
    assert text.startswith("20 of 20 scores are numbers that the server forced")
    assert f"ccrs.qr: {text}" in str(result)
    assert [text] == result.to_dict()["metrics"][0]["checks"]


def test_ordinary_replies_are_not_mentioned():
    """A judge that rates as asked has no notice."""
    (summary,) = score().summary()
    assert () == summary.checks


@pytest.mark.parametrize(("response", "n_calls"), [("It is 31 meters tall.", 2), ("I could not find this.", 1)])
def test_an_empty_list_of_claims_is_asked_for_again(response, n_calls):
    """Once, with a request to read each sentence, unless the response declines. The summary names what stays empty."""
    prompts = []

    def reply(body):
        prompts.append(body["messages"][-1]["content"])
        return '{"items": []}'

    rows = [{**row, "response": response} for row in ROWS[:3]]
    (summary,) = score("ragas.faithfulness", rows, reply=reply, structured="ignored").summary()
    assert 3 * n_calls == len(prompts)
    assert 3 * (n_calls - 1) == sum("An earlier reply was an empty list." in prompt for prompt in prompts)
    assert (3, 0) == (summary.n_not_applicable, summary.n_failed)
    named = [text for text in summary.checks if "to 3 answers, because the judge listed no claims in them" in text]
    assert (n_calls == 2) == bool(named)


def test_one_value_for_all_ratings():
    """Twenty equal ratings measure nothing, and nineteen may be chance."""
    assert "one value (1)" in score(reply=lambda _: "100").unusable()
    assert score(rows=ROWS[:19], reply=lambda _: "100").unusable() is None
    assert score().unusable() is None


def test_evaluate_exits_with_3_if_the_judge_gives_one_value(tmp_path):
    """The command prints the reason last."""
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in ROWS))
    with FakeJudgeServer(reply=lambda _: "100") as server:
        result = CliRunner().invoke(app, ["evaluate", str(path), "--metrics", "ccrs.qr", "--judge", server.url])
    assert 3 == result.exit_code
    assert "one value (1) for all 20 ratings" in result.output


def test_the_line_of_a_run_that_waits_has_the_last_error(tmp_path, monkeypatch):
    """A server that replies with errors is waited for, and the user sees which errors."""
    monkeypatch.setattr("ragstone.cli._progress._LOGGED_EVERY_S", 0.1)
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in ROWS))
    command = ["evaluate", str(path), "--metrics", "ccrs.qr", "--set", "limits.max_outage_s=2", "--judge"]
    with FakeJudgeServer() as server:
        monkeypatch.setattr(server, "_plan", lambda *_: Reply(200, {"detail": "Model is loading"}))
        result = CliRunner().invoke(app, [*command, server.url])
    assert 3 == result.exit_code
    assert "(last error: HTTP 200 with an error: Model is loading)" in result.output


@pytest.mark.parametrize(
    ("values", "is_unusable"),
    [([0.0085, 0.009], True), ([0.01, 0.0, 0.0], True), ([0.0085, 0.9], False), ([0.0, 0.0], False), ([0.01], False)],
)
def test_a_report_has_no_verdict_on_another_scale(values, is_unusable, tmp_path):
    """Stored ratings that all lie at the lower end are those of a judge that rates from 0 to 1."""
    view = report(outcomes(values), tmp_path)
    assert is_unusable == view.verdict[0].text.startswith("No verdict: all")


def test_a_report_has_notices_about_replies(tmp_path):
    """Forced replies, second requests, and ratings without the probabilities that were asked for."""
    scores = [
        *outcomes([0.1, 0.5, 0.7], "forced_reply"),
        *outcomes([0.3, 0.4], "second_reply", "ccrs.cc"),
        *outcomes([0.3, 0.6], "single_reply_no_probabilities", "ccrs.ir"),
    ]
    texts = "\n".join(notice.text for notice in report(scores, tmp_path).notices)
    assert "3 of 3 scores are numbers that the server forced" in texts
    assert "2 of 2 scores needed a second request" in texts
    assert "2 of 2 scores are single replies" in texts


def read(replies, n=1, **options):
    async def session():
        reader = ChatReader(ScriptedModel(replies), **options)
        return [await reader.estimate_abstention("Where?", [f"In Oslo {k}."]) for k in range(n)]

    return asyncio.run(session())


@pytest.mark.parametrize("reply", ["**NO-RESPONSE**", '"NO-RESPONSE"', "No-Response", "NO RESPONSE", "I don't know."])
def test_refusals_that_an_exact_reading_misses(reply):
    """For every 20th passage one reply is requested, and counted if it declines in a form that has no probability."""
    first, *rest = read({reply: 0.9, "Oslo": 0.1}, n=21)
    assert ("exact_sequence", 1, 1) == (first.method, first.n_drawn, first.n_declined)
    assert [(0, 0)] * 19 + [(1, 1)] == [(each.n_drawn, each.n_declined) for each in rest]


@pytest.mark.parametrize("reply", ["NO-RESPONSE", "Oslo"])
def test_other_replies_of_an_exact_reading(reply):
    """The phrase itself is read, and an answer is an answer."""
    (reading,) = read({reply: 1.0})
    assert (1, 0) == (reading.n_drawn, reading.n_declined)


def test_drawn_refusals_in_other_words_are_counted():
    """The share of abstentions contains forms of the phrase, and other words are counted apart."""
    (reading,) = read({"I don't know.": 1.0}, estimator="monte_carlo")
    assert (0, reading.n, reading.n) == (reading.value, reading.n_drawn, reading.n_declined)
    (reading,) = read({"NO RESPONSE": 1.0}, estimator="monte_carlo")
    assert (1, 0) == (reading.value, reading.n_declined)


def test_a_reader_that_abstains_with_one_passage_is_not_noticed():
    """One abstention among 20 passages shows that the reader knows its phrase."""
    rows = [{**row, "contexts": [{"text": row["contexts"][0], "relevance": 1}]} for row in ROWS]

    class Once(LexicalReader):
        async def estimate_abstention(self, query, passages):
            value = float(query == ROWS[7]["query"])
            return AbstentionEstimate(
                value=value, interval=Interval(low=value, high=value, method="exact"), method="exact_sequence"
            )

    reader = Once()
    reader.identity = JudgeIdentity(name="m at host", hash="m")
    (summary,) = ragstone.evaluate(rows, ("udcg",), judge=FakeJudge(), reader=reader).summary()[:1]
    assert not [check for check in summary.checks if "abstains with none" in check]


def test_a_reader_that_declines_in_other_words_is_noticed():
    """UDCG takes such refusals for answers, so the summary names their number and the way out."""
    rows = [{**row, "contexts": [{"text": row["contexts"][0], "relevance": 1}]} for row in ROWS]
    reader = ChatReader(ScriptedModel({"I don't know.": 1.0}), estimator="monte_carlo")
    (summary,) = ragstone.evaluate(rows, ("udcg",), judge=FakeJudge(), reader=reader).summary()[:1]
    declined, never = summary.checks
    assert "the reader declines in other words than its phrase in 200 of 200 drawn replies" in declined
    assert "the reader abstains with none of 20 passages" in never


def test_a_comparison_has_the_same_notices(tmp_path):
    """They name the system."""
    paths = []
    for name, method in (("a", "forced_reply"), ("b", "single_reply")):
        paths.append(tmp_path / f"{name}.jsonl")
        lines = [outcome.model_dump_json() for outcome in outcomes([0.1, 0.5, 0.7], method)]
        paths[-1].write_text("\n".join(lines))
    notes = ragstone.compare(paths).notes
    assert ["a"] == [note.partition(":")[0] for note in notes if "numbers that the server forced" in note]
