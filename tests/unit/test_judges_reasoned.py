"""The score mode "reasoned": reasons first, then the number on the last line; a judge of its own."""

from __future__ import annotations

import asyncio
import json

import pytest

import ragstone
from command_line import run_command
from fake_servers import FakeJudgeServer
from ragstone.errors import ConfigurationError, JudgeReplyError
from ragstone.judges import ModelJudge, Prompt, judge_from
from ragstone.judges._parse import parse_reasoned
from scripted_model import ScriptedModel

PROMPT = Prompt(construct="relevance", task="The task.", fields={"query": "Why?"})
REPLY = "It answers 2 of the 4 parts (50%).\nThe year 1890 is missing.\nScore: 45"
REASONS = REPLY.rpartition("\n")[0]


def judge(*replies, **options):
    """A judge whose first reply is the first one, and so on; and its model."""
    model = ScriptedModel(lambda messages: {replies[min(len(messages) // 2 - 1, len(replies) - 1)]: 1.0})
    return ModelJudge(model, score_mode="reasoned", **options), model


def ask(*replies, low=0, high=100, **options):
    made, model = judge(*replies, **options)
    return asyncio.run(made.ask_number(PROMPT, low=low, high=high)), model


@pytest.mark.parametrize(
    ("reply", "value", "reasons"),
    [
        (REPLY, 45, REASONS),
        ("<think>80? 70?</think>Fine.\nScore: 75", 75, "Fine."),
        ("Fine.\n\n**Score: 75/100**", 75, "Fine."),
        ("Fine.\n75\n", 75, "Fine."),
        ("Score: 75", 75, ""),
    ],
)
def test_parsing(reply, value, reasons):
    """The last line is the score, and numbers before it do not matter."""
    assert (value, reasons) == parse_reasoned(reply, 0, 100)


@pytest.mark.parametrize(
    "reply", ["", "<think>Score: 5", "Score: 85\nBecause it is.", "Fine.\nScore: 101", "Score: 5-7"]
)
def test_other_last_lines_are_not_scores(reply):
    """Nothing is searched for in the reasons, and nothing is clipped."""
    with pytest.raises(JudgeReplyError) as error:
        parse_reasoned(reply, 0, 100)
    assert reply == error.value.raw


def test_reasons_come_first_and_are_kept():
    """In one call, with room for them."""
    reply, model = ask(REPLY)
    assert (45, REASONS, "reasoned", REPLY) == (reply.value, reply.reasons, reply.method, reply.raw)
    (request,) = model.requests
    assert 1024 == request.max_tokens
    assert request.messages[-1]["content"].endswith("with one number from 0 to 100 in place of N:\nScore: N")


def test_a_missing_last_line_is_asked_for_once():
    """The reasons are those of the first reply."""
    reply, model = ask("It is partly right.", "Score: 60")
    assert (60, "It is partly right.", "reasoned") == (reply.value, reply.reasons, reply.method)
    assert 2 == len(model.requests)
    with pytest.raises(JudgeReplyError):
        ask("It is partly right.", "I cannot say.")


def test_a_reply_that_was_cut_is_not_a_score():
    """Whatever number its last line has."""
    with pytest.raises(JudgeReplyError) as error:
        ask(" ".join(map(str, range(2000))) + "\nScore: 5")
    assert "truncated" == error.value.kind


def test_the_identity_is_its_own():
    """Scores of different modes are never mixed, and those of other modes keep their judge."""
    model = ScriptedModel({"7": 1.0})
    hashes = {
        ModelJudge(model, score_mode=mode).identity.hash for mode in ("single", "expected", "sampled", "reasoned")
    }
    assert 4 == len(hashes)
    assert ModelJudge(model).identity.hash in hashes
    names = [ModelJudge(model, score_mode=mode).identity.name for mode in ("single", "reasoned")]
    assert ["scripted model", "scripted model (reasoned)"] == names


@pytest.mark.parametrize("mode", ["thinking", None])
def test_unknown_modes(mode):
    """The message lists the modes."""
    with pytest.raises(ConfigurationError, match="'single', 'expected', 'sampled', 'reasoned'"):
        ModelJudge(ScriptedModel({"7": 1.0}), score_mode=mode)


def test_the_baseline_does_not_reason():
    """It does not have a model."""
    with pytest.raises(ConfigurationError, match="needs a language model"):
        judge_from("lexical", score_mode="reasoned")


def test_reasons_are_the_explanation():
    """Of metrics and of criteria. Asking again afterwards is not necessary."""
    criterion = ragstone.Criterion("Is it complete?", needs=("query", "response"), scale="0-100", name="a.complete")
    made, model = judge(REPLY)
    data = [{"query": "q", "response": "r"}]
    outcomes = ragstone.evaluate(data, ["ccrs.qr", criterion], judge=made, reasons=5).outcomes
    assert [(0.45, REASONS, "reasoned")] * 2 == [(o.value, o.explanation, o.method) for o in outcomes]
    assert ["before"] * 2 == [o.details["explanation_source"] for o in outcomes]
    assert 2 == len(model.requests)


def test_on_the_command_line(tmp_path):
    """`--set judge.score_mode=reasoned`, with the reasons in the file."""
    samples, out = tmp_path / "samples.jsonl", tmp_path / "outcomes.jsonl"
    samples.write_text(json.dumps({"id": "a", "query": "q", "response": "r"}))
    with FakeJudgeServer(reply=lambda body: REPLY) as server:
        done = run_command(
            *("evaluate", samples, "--metrics", "ccrs.qr", "--judge", server.url, "-o", out),
            *("--set", "judge.score_mode=reasoned"),
        )
    assert 0 == done.returncode, done.stderr
    (line,) = map(json.loads, out.read_text().splitlines())
    assert (0.45, REASONS) == (line["value"], line["explanation"])


def test_same_settings_in_another_score_mode():
    """Temperature, seed and length limit are those of the judge, so that only the mode differs."""
    settings = {"temperature": None, "seed": 7, "max_tokens": 99}
    own = ModelJudge(ScriptedModel({"5": 1.0}), **settings)
    other = own.with_score_mode("reasoned")

    assert ModelJudge(own.model, score_mode="reasoned", **settings).identity == other.identity
    assert own.model is other.model
    assert ("single", "reasoned") == (own.score_mode, other.score_mode)
