"""The tables `[judge]` and `[reader]`, and the options of the command line for the same things."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from command_line import run_command
from fake_servers import FakeJudgeServer, FaultServer
from fake_servers.fault_server import http_reply
from fake_servers.loopback import error_reply
from ragstone import Monitor
from ragstone.errors import ConfigurationError, JudgeRejectedError
from ragstone.judges import OpenAICompatibleJudge, OptionNames, Prompt, read_endpoint

ROWS = [{"id": f"q{i}", "query": f"Why {i}?", "contexts": ["So."], "response": "So."} for i in range(3)]


@pytest.fixture
def rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with a file of samples."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return path


def read(role, **table):
    """Read a table of a file."""
    return read_endpoint(role, table, source="r.toml")


def test_every_key_reaches_its_model(monkeypatch):
    """The key is read from the environment, and so is a header that holds a secret."""
    monkeypatch.setenv("A_KEY", "secret")
    monkeypatch.setenv("GATEWAY", "token")
    options = read(
        "judge",
        url="http://h/v1",
        model="m",
        api_key_env="A_KEY",
        extra_body={"reasoning_effort": "low"},
        headers={"x-team": "search", "x-gateway": {"env": "GATEWAY"}},
        usd_per_million_tokens=[0.15, 0.6],
        timeout_s=9,
        max_retries=2,
        max_wait_s=30,
        backoff_s=0.1,
        max_concurrent_requests=3,
        requests_per_minute=60,
        tokens_per_minute=1000,
        score_mode="sampled",
        draws=3,
        max_tokens=99,
    )
    assert {
        "model": "m",
        "api_key": "secret",
        "extra_body": {"reasoning_effort": "low"},
        "headers": {"x-team": "search", "x-gateway": "token"},
        "usd_per_million_tokens": (0.15, 0.6),
        "timeout_s": 9.0,
        "max_retries": 2,
        "max_wait_s": 30.0,
        "backoff_s": 0.1,
        "max_concurrent_requests": 3,
        "requests_per_minute": 60.0,
        "tokens_per_minute": 1000.0,
        "option_names": OptionNames("judge", "file"),
    } == options.resolve()
    assert {"score_mode": "sampled", "draws": 3, "max_tokens": 99} == options.own
    assert "m" == options.build_judge().model.settings["model"]


def test_a_key_is_not_sent_to_another_endpoint():
    """A URL on the command line that differs from the table's replaces the whole table."""
    table = read("judge", url="http://a/v1", api_key_env="A_KEY", extra_body={"top_k": 1}, model="m")
    nothing = {"model": None, "api_key_env": None, "limits": {}}

    other = table.override(url="http://b/v1", **nothing)
    assert ("http://b/v1", None, {}) == (other.url, other.api_key_env, other.connection)
    for url in (None, "http://a/v1"):
        same = table.override(url=url, **nothing | {"model": "n"})
        assert ("A_KEY", "n") == (same.api_key_env, same.connection["model"])


@pytest.mark.parametrize(
    ("judge", "reader", "model"),
    [
        ({"url": "http://h/v1", "api_key_env": "A_KEY", "headers": {"x-team": "a"}}, "http://h/v1", "r"),
        ({"url": "openai:j"}, "https://api.openai.com/v1", "r"),
    ],
)
def test_another_model_at_the_judges_endpoint(monkeypatch, judge, reader, model):
    """A reader's model without a URL is served where the judge is, with the judge's key and headers."""
    monkeypatch.setenv("A_KEY", "secret")
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    of_judge = read("judge", **judge)
    built = read("reader", model=model).build_reader(of_judge.build_judge(), of_judge)
    assert (reader, model) == (built.model.settings["endpoint"], built.model.settings["model"])
    assert "secret" == built.model._endpoint._api_key
    assert judge.get("headers", {}) == built.model._endpoint._headers


def test_a_judge_with_a_key_and_a_reader_on_a_server_with_two_models(rows):
    """Each role has its own endpoint, model and key, on the command line alone."""
    with FakeJudgeServer(api_key="judge-key") as judge, FakeJudgeServer(models=("a", "b")) as reader:
        done = run_command(
            "evaluate", rows, "--metrics", "ccrs.qr,udcg", "--judge", judge.url, "--set", "judge.api_key_env=J_KEY",
            "--reader", reader.url, "--set", "reader.model=b", "--set", "reader.estimator=monte_carlo", "--json", J_KEY="judge-key",
        )  # fmt: skip
    assert 0 == done.returncode, done.stderr
    assert {"b"} == {request["model"] for request in reader.stats.requests}
    assert [3, 3] == [metric["n_scored"] for metric in json.loads(done.stdout)["metrics"]]


def test_a_table_reaches_the_server(rows):
    """URL, model, key, body, headers and prices of `[judge]`, and a header whose value stays secret in messages."""
    with FakeJudgeServer(models=("a", "b"), api_key="judge-key") as server:
        Path("r.toml").write_text(
            f"""
            [scoring]
            metrics = ["ccrs.qr"]
            [judge]
            url = "{server.url}"
            model = "b"
            api_key_env = "J_KEY"
            extra_body = {{ reasoning_effort = "low" }}
            headers = {{ "x-team" = "search" }}
            usd_per_million_tokens = [1000000, 0]
            """
        )
        done = run_command("--config", "r.toml", "evaluate", rows, "--json", J_KEY="judge-key")
        assert 0 == done.returncode, done.stderr
        body = server.stats.requests[-1]
        assert ("b", "low") == (body["model"], body["reasoning_effort"])
        usage = json.loads(done.stdout)["usage"]
        assert usage["input_tokens"] == usage["cost_usd"] > 0

        Path("m.toml").write_text(f'[judge]\nurl = "{server.url}"\nmodel = "b"\napi_key_env = "J_KEY"\n')
        monitor = Monitor.from_config("m.toml", judge="lexical", store="m.db")
        monitor.close()


@pytest.mark.parametrize(
    ("text", "arguments", "message"),
    [
        ("[judge]\nmodle = 'x'", [], "'judge.modle' is not a setting. Did you mean 'model'?"),
        ("[generator]\nurl = 'http://h/v1'", [], "'generator' is not a table of settings"),
        ("[jugde]\nmodel = 'x'", [], "'jugde' is not a table of settings. Did you mean 'judge'?"),
        ("[evaluate]\njudge = 'http://h/v1'", [], "'evaluate' is not a table of settings"),
        ("[judge]\nurl = 'http://h/v1'\napi_key_env = 'NOT_SET'", [], "names an environment variable NOT_SET that is not set"),
        ("", ["--judge", "gpt-4o"], "--judge 'gpt-4o' is unknown. Did you mean 'openai:gpt-4o'?"),
        ("", ["--judge", "localhost:8000"], "--judge 'localhost:8000' is unknown. Did you mean 'http://localhost:8000/v1'?"),
        ("", ["--judge", "localhost:8000/v1"], "Did you mean 'http://localhost:8000/v1'?"),
        ("", ["--reader", "gpt-4o", "--metrics", "udcg"], "--reader 'gpt-4o' is unknown. Did you mean 'openai:gpt-4o'?"),
        ("[judge]\nurl = 'gpt-4o'", [], "Did you mean 'openai:gpt-4o'?"),
        ("", ["--judge-model", "m"], "--judge-model is for an endpoint, and no judge is named"),
        ("", ["--set", "reader.model=m"], "reader.model='m' is another model at the judge's endpoint, and no judge is named"),
        ("", ["--set", "reader.api_key_env=K"], "reader.api_key_env is for an endpoint of the reader"),
        ("", ["--judge", "openai:a", "--judge-model", "b"], "--judge 'openai:a' and --judge-model 'b' name two models"),
        ("", ["--judge", "http://h/v1", "--budget-usd", "5"], "requires prices of the judge"),
    ],
)  # fmt: skip
def test_what_cannot_work_is_said_before_anything_is_spent(rows, text, arguments, message):
    """The message names the option of the command line, or the key of the table."""
    Path("r.toml").write_text(text)
    done = run_command("--config", "r.toml", "evaluate", rows, *arguments, OPENAI_API_KEY="k")
    assert 2 == done.returncode
    assert message in done.stderr


def test_several_models_are_named_with_the_option_of_the_interface(rows, tmp_path):
    """On the command line it is an option, in Python an argument, in a file a key."""
    with FakeJudgeServer(models=("a", "b")) as server:
        done = run_command("evaluate", rows, "--judge", server.url)
        assert "serves 2 models (a, b). Choose one with --judge-model\n" in done.stderr
        Path("r.toml").write_text(f'[judge]\nurl = "{server.url}"\n')
        judge = read("judge", url=server.url).build_judge()
        assert "`model` in the table [judge]" == judge.model._endpoint.how_to_set("model")


def test_a_secret_header_is_not_shown():
    """A server that repeats its headers in errors does not reveal the key, and other values stay readable."""
    refusal = error_reply(403, "bad key top-secret of team search")
    with FaultServer(http_reply(refusal.body, status="403 Forbidden")) as server:
        headers = {"x-api-key": "top-secret", "x-team": "search"}
        judge = OpenAICompatibleJudge(server.url, model="m", headers=headers)
        with pytest.raises(JudgeRejectedError, match=r"bad key .api key. of team search"):
            asyncio.run(judge.ask_text(Prompt(construct="any", task="Reply.", fields={})))
    with pytest.raises(ConfigurationError, match="headers='x team': a header has a name"):
        OpenAICompatibleJudge("http://h/v1", headers={"x team": "a"})
