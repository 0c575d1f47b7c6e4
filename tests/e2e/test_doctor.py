"""`ragstone doctor` as a user meets it."""

from __future__ import annotations

import json
import re

import pytest

from command_line import Done, run_command
from fake_servers import FakeEmbeddingServer, FakeModelServer
from fake_servers.loopback import error_reply
from ragstone.cli._doctor_items import ITEMS
from scripted_model import ScriptedModel

pytestmark = pytest.mark.usefixtures("virtual_time")

RIGHT = {f"<query>\n{query}\n</query>\n<response>\n{right}\n</response>" for query, _, right, _ in ITEMS}
"""Fields of the prompts for items whose answer is right."""


def judge_replies(right: str, wrong: str):
    """Return the script of a model that rates items so, and replies to anything else with a name or abstains."""

    def script(messages):
        text = messages[-1]["content"] if messages else ""
        if "<response>" not in text:
            return {"NO-RESPONSE": 0.25, "Oslo": 0.75}
        return {right if any(fields in text for fields in RIGHT) else wrong: 1.0}

    return script


REPLIES = judge_replies("90", "10")


def doctor(*arguments: str, **environment: str) -> Done:
    """Run `ragstone doctor`."""
    return run_command("doctor", *arguments, **environment)


def test_one_endpoint_for_both():
    """A reader that is not named is the judge's model, and is measured once."""
    with FakeModelServer(ScriptedModel(REPLIES)) as server:
        done = doctor("--judge", server.url)
        assert server.calls <= 20 + 30
    assert (0, "") == (done.returncode, done.stderr)
    lines = done.stdout.splitlines()
    assert lines[0].startswith("judge and reader: scripted-model at 127.0.0.1:")
    assert "  model scripted-model, server vllm 0.32.0, context of 32768 tokens" == lines[1]
    verdicts = dict(re.findall(r"^ +(\S.*?)  +(yes|no|unknown)\b", done.stdout, re.MULTILINE))
    assert "yes" == verdicts["exact: token-id chain"]
    assert "no" == verdicts["reasons first"]
    assert "p(abstain) is computed exactly (chain)" in done.stdout
    assert "advice" not in done.stdout


def test_two_endpoints():
    """Judge and reader are measured apart, and each gets its own advice."""
    with (
        FakeModelServer(ScriptedModel(REPLIES), "litellm", name="judge") as judge,
        FakeModelServer(
            ScriptedModel(REPLIES), changes={"cached_tokens": False, "metrics": False}, name="reader"
        ) as reader,
    ):
        done = doctor("--reader", reader.url, RAGSTONE_JUDGE=judge.url)
    assert (0, "") == (done.returncode, done.stderr)
    first, second = done.stdout.split("\n\n")
    assert first.startswith("judge: judge at")
    assert "drawn at temperature 1, because the endpoint does not return log-probabilities" in first
    assert "allowed_openai_params" in first
    assert second.startswith("reader: reader at")
    assert "p(abstain) is computed exactly" in second


@pytest.mark.parametrize(
    ("dialect", "changes", "said"),
    [
        ("openai", {}, "bounded by the first token's 20 listed"),
        ("openai", {"processed_logprobs": True}, "the temperature changes the returned log-probabilities"),
        ("openai-reasoning", {}, "reasons before it answers"),
    ],
)
def test_estimator_and_reason(dialect, changes, said):
    """One sentence says which estimator is used and why."""
    with FakeModelServer(ScriptedModel(REPLIES), dialect, changes=changes) as server:
        done = doctor("--judge", server.url)
    assert said in done.stdout


def test_json():
    """Programs get all that people get."""
    with FakeModelServer(ScriptedModel(REPLIES), "sglang") as server:
        done = doctor("--judge", server.url, "--json")
    assert (0, "") == (done.returncode, done.stderr)
    (endpoint,) = json.loads(done.stdout)["endpoints"]
    assert ["judge", "reader"] == endpoint["roles"]
    assert "exact_sequence" == endpoint["estimator"]
    assert ["echo"] == endpoint["capabilities"]["exact_routes"]
    assert "echo" in endpoint["why"]
    assert endpoint["usage"]["calls"] > 10
    assert endpoint["error"] is None


@pytest.mark.parametrize("fields", [("response_format",), ("response_format", "logprobs", "n", "seed")])
def test_fields_that_are_answered_with_500(fields):
    """A field that the server answers with HTTP 500 is not supported, which is not an error of the probe."""
    with FakeModelServer(ScriptedModel(REPLIES), changes={"crashes_on": frozenset(fields)}) as server:
        done = doctor("--judge", server.url)
    assert (0, "") == (done.returncode, done.stderr)
    assert re.search(r"^ +constrained by: JSON Schema +no +not supported \(HTTP 500\)", done.stdout, re.MULTILINE)
    assert re.search(r"^ +constrained by: regular expression +yes", done.stdout, re.MULTILINE)


def test_without_a_model():
    """The lexical baseline has nothing to probe, and says what to do."""
    done = doctor("--judge", "lexical")
    assert (0, "") == (done.returncode, done.stderr)
    assert "lexical baseline" in done.stdout
    assert "--judge http://host:port/v1" in done.stdout


def test_unreachable_judge_does_not_hide_the_reader():
    """Exit code 3 says that an endpoint cannot be asked; the other one is measured all the same."""
    with FakeModelServer(ScriptedModel(REPLIES)) as server:
        done = doctor("--judge", "http://127.0.0.1:9/v1", "--reader", server.url)
    assert 3 == done.returncode
    first, second = done.stdout.split("\n\n")
    assert "probe failed: http://127.0.0.1:9/v1: cannot connect" in first
    assert "exact: token-id chain" in second
    assert "Traceback" not in done.stderr


def test_an_embedder_is_probed():
    """One that is named, by an option or by the environment; its error does not hide the judge."""
    with FakeModelServer(ScriptedModel(REPLIES)) as judge, FakeEmbeddingServer() as server:
        done = doctor("--judge", judge.url, "--set", f"embedder={server.url}")
        assert (0, "") == (done.returncode, done.stderr)
        *_, last = done.stdout.split("\n\n")
        assert re.match(r"embedder: \S+ at 127.0.0.1:\d+\n  replies with vectors of dimension \d+\n", last)
        done = doctor("--judge", judge.url, "--json", RAGSTONE_EMBEDDER=judge.url)
    assert 3 == done.returncode
    first, second = json.loads(done.stdout)["endpoints"]
    assert (["judge", "reader"], None) == (first["roles"], first["error"])
    assert (["embedder"], True) == (second["roles"], "404" in second["error"])


def test_a_closed_port_is_given_up_within_seconds(virtual_time):
    """Nobody waits half a minute to learn that a server is not started."""
    started = virtual_time.time()
    done = doctor("--judge", "http://127.0.0.1:9/v1")
    assert 3 == done.returncode
    assert "cannot connect" in done.stdout
    assert virtual_time.time() - started < 10


def test_a_typo_in_a_path_does_not_hide_the_other_endpoint():
    """What can be measured is printed, for programs too; exit code 3 says that an endpoint cannot be asked."""
    with FakeModelServer(ScriptedModel(REPLIES)) as server:
        done = doctor("--judge", server.url, "--reader", f"{server.url}/v1", "--json")
    assert (3, "") == (done.returncode, done.stderr)
    good, bad = json.loads(done.stdout)["endpoints"]
    assert (None, "exact_sequence") == (good["error"], good["estimator"])
    assert "does not list models (HTTP 404). Check the URL" in bad["error"]


def test_a_missing_key_says_how_to_give_one():
    """A judge that is named by URL is asked without a key; who needs one is told the way."""
    with FakeModelServer(ScriptedModel(REPLIES), api_key="k") as server:
        done = doctor("--judge", server.url)
    assert 3 == done.returncode
    assert "HTTP 401" in done.stdout
    assert "No key was given. Set judge.api_key_env" in done.stdout


def test_wrong_name():
    """A judge that does not exist is the user's to repair."""
    done = doctor("--judge", "gpt5")
    assert 2 == done.returncode
    assert "gpt5" in done.stderr


@pytest.mark.parametrize(
    ("changes", "verdict", "seen"),
    [
        ({"cuts_at": 4096}, "no", "cut the prompt at 4096 tokens"),
        ({"cuts_at": 2048}, "no", "cut the prompt at 2048 tokens"),
        ({}, "yes", "tokens counted"),
        ({"context_length": 3000}, "yes", "tokens counted"),
    ],
)
def test_long_prompts(changes, verdict, seen):
    """A server that cuts a long prompt without an error is found, with at most two calls, and the advice names num_ctx."""
    with FakeModelServer(ScriptedModel(REPLIES), "ollama", changes=changes) as server:
        done = doctor("--judge", server.url)
        sizes = [sum(len(message["content"]) for message in body["messages"]) for body in server.stats.requests]
    assert 0 == done.returncode
    (line,) = (line for line in done.stdout.splitlines() if line.strip().startswith("whole prompts"))
    assert (verdict, True) == (line.split()[2], seen in line)
    assert (verdict == "no") == ("num_ctx" in done.stdout.partition("advice")[2])
    assert sum(size > 20_000 for size in sizes) <= 2


@pytest.mark.parametrize(
    ("ratings", "code", "line"),
    [
        (("90", "10"), 0, "agrees on 30 of 30 (kappa 1.00 [0.77, 1.00]): better than chance (30 calls, "),
        (("100", "100"), 3, "agrees on 15 of 30 (kappa 0.00 [-0.34, 0.34]): not better than chance."),
        (("10", "90"), 3, "agrees on 0 of 30 (kappa -1.00 [-1.00, -0.77]): not better than chance."),
        (("50", "50"), 3, "agrees on 0 of 30 "),
        (
            ("95", "60"),
            0,
            "agrees on 15 of 30 (kappa 0.00 [-0.34, 0.34]): rates 15 of 15 right answers above the wrong one",
        ),
        (
            ("90", "No number."),
            3,
            "agrees on 15 of 30 (kappa 0.00 [-0.34, 0.34]; 15 without a usable reply): not better",
        ),
    ],
)
def test_items(ratings, code, line):
    """Doctor says what a judge can do, and exits with code 3 if the judge cannot tell right from wrong answers."""
    changes = {"constraints": frozenset()} if "No number." in ratings else {}
    with FakeModelServer(ScriptedModel(judge_replies(*ratings)), changes=changes) as server:
        done = doctor("--judge", server.url)
    assert (code, "") == (done.returncode, done.stderr)
    (found,) = (text for text in done.stdout.splitlines() if "as a judge" in text)
    assert f"  -> as a judge: {line}" in found
    assert re.search(r"\(\d+ calls, \d+\.\d s\)$", found)


def test_items_that_are_not_answered():
    """What was measured before is shown, with the reason why the judge is not known."""

    class Overloaded(FakeModelServer):
        async def _answer(self, request):
            is_rating = b"<response>" in (request.content or b"")
            return error_reply(503, "overloaded") if is_rating else await super()._answer(request)

    with Overloaded(ScriptedModel(REPLIES)) as server:
        done = doctor("--judge", server.url)
    assert (3, "") == (done.returncode, done.stderr)
    assert "exact: token-id chain" in done.stdout
    assert "  -> as a judge: not measured, " in done.stdout


def test_items_for_programs():
    """The JSON form has the counts, kappa with its interval, and the verdict."""
    with FakeModelServer(ScriptedModel(judge_replies("100", "100"))) as server:
        done = doctor("--judge", server.url, "--json")
    assert (3, "") == (done.returncode, done.stderr)
    items = json.loads(done.stdout)["endpoints"][0]["items"]
    assert (30, 15, 0, 30, False) == tuple(items[k] for k in ("n", "n_agreed", "n_unusable", "calls", "usable"))
    value, low, high = items["kappa"]
    assert low < 0 == value < high


def test_a_reader_is_not_asked_for_ratings():
    """Only the judge rates items."""
    with FakeModelServer(ScriptedModel(judge_replies("100", "100"))) as server:
        done = doctor("--judge", "lexical", "--reader", server.url)
    assert (0, "") == (done.returncode, done.stderr)
    assert "as a judge" not in done.stdout
