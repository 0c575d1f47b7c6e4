"""The models of a command: each setting reaches the model that it describes."""

from __future__ import annotations

import os

import pytest

from ragstone.cli._models import Models
from ragstone.judges import OpenAICompatibleJudge, OptionNames
from ragstone.settings import resolve

JUDGE = {
    "judge.url": "http://127.0.0.1:1/v1",
    "judge.model": "j",
    "judge.api_key_env": "JUDGE_KEY",
    "judge.max_tokens": "11",
    "judge.score_mode": "sampled",
    "judge.draws": "19",
    "judge.max_concurrent_requests": "12",
    "judge.requests_per_minute": "13",
    "judge.tokens_per_minute": "14",
    "judge.usd_per_million_tokens": "1,2",
    "judge.max_retries": "8",
}
READER = {
    "reader.url": "http://127.0.0.1:2/v1",
    "reader.model": "r",
    "reader.api_key": "key of the reader",
    "reader.abstention": "NONE",
    "reader.estimator": "monte_carlo",
    "reader.max_draws": "20",
}
BUDGET = {"budget.calls": "15", "budget.tokens": "16", "budget.usd": "17"}


@pytest.fixture(autouse=True)
def keys(monkeypatch):
    """Set the keys, and restore the cache of the process."""
    monkeypatch.setenv("RAGSTONE_CACHE", "")
    monkeypatch.delenv("RAGSTONE_CACHE")
    monkeypatch.setenv("JUDGE_KEY", "key of the judge")
    monkeypatch.setenv("EMBEDDER_KEY", "key of the embedder")


def models_of(options, **environment):
    """Build the models of a command line."""
    return Models(resolve(options, environment=environment))


@pytest.fixture
def built(monkeypatch):
    """Record what the models are built from, by role."""
    calls = {}
    for role in ("judge", "reader", "embedder"):
        monkeypatch.setattr(
            f"ragstone.judges._factory.{role}_from",
            lambda spec, role=role, **options: calls.setdefault(role, (spec, options)) and role if options else spec,
        )
    return calls


def test_each_setting_reaches_its_model(built, tmp_path):
    """Judge and reader get their keys, limits and prices, the shared budget and the cache, and the process stays as it is."""
    prompt = tmp_path / "prompt.txt"
    prompt.write_text("{context} {question}")
    models = models_of(JUDGE | READER | BUDGET | {"reader.prompt": str(prompt), "cache.directory": "kept"})
    assert ("judge", "reader") == models.judge_and_reader()

    spec, judge = built["judge"]
    connection = judge.pop("connection")
    assert ("http://127.0.0.1:1/v1", {"score_mode": "sampled", "draws": 19, "max_tokens": 11}) == (spec, judge)
    assert "Budget(calls=15, tokens=16, usd=17.0)" == repr(connection["budget"])
    assert {
        "model": "j",
        "api_key": "key of the judge",
        "max_concurrent_requests": 12,
        "requests_per_minute": 13.0,
        "tokens_per_minute": 14.0,
        "usd_per_million_tokens": (1.0, 2.0),
        "max_retries": 8,
        "budget": connection["budget"],
        "cache": "kept",
        "option_names": OptionNames("judge", "command line"),
    } == connection

    spec, reader = built["reader"]
    of_reader = reader.pop("connection")
    assert "http://127.0.0.1:2/v1" == spec
    assert {
        "judge": "judge",
        "prompt": "{context} {question}",
        "abstention": ("NONE",),
        "estimator": "monte_carlo",
        "max_draws": 20,
    } == reader
    assert of_reader["budget"] is connection["budget"]
    assert {"model": "r", "api_key": "key of the reader"} == {key: of_reader[key] for key in ("model", "api_key")}
    assert "max_concurrent_requests" not in of_reader
    assert ("kept", False) == (of_reader["cache"], "RAGSTONE_CACHE" in os.environ)


def test_another_model_at_the_endpoint_of_the_judge_has_its_limits():
    """A reader without a URL has the limits and prices of the judge, unless it has its own."""
    models = models_of(JUDGE | {"reader.model": "r", "reader.requests_per_minute": "3"})
    assert 12 == models.of_reader.connection["max_concurrent_requests"]
    assert 3 == models.of_reader.connection["requests_per_minute"]
    assert (1.0, 2.0) == models.prices
    assert models_of(JUDGE | READER).prices is None


def test_settings_of_the_embedder(built):
    """An embedder gets its own settings and the budget, and not the limits of the judge."""
    embedder = {"url": "http://127.0.0.1:3/v1", "model": "e", "api_key_env": "EMBEDDER_KEY", "batch_size": "4"}
    models = models_of(JUDGE | BUDGET | {f"embedder.{key}": value for key, value in embedder.items()})
    assert "embedder" == models.of_embedder.build_embedder()
    spec, options = built["embedder"]
    connection = options.pop("connection")
    assert ("http://127.0.0.1:3/v1", {"batch_size": 4}) == (spec, options)
    assert "Budget(calls=15, tokens=16, usd=17.0)" == repr(connection.pop("budget"))
    assert {
        "model": "e",
        "api_key": "key of the embedder",
        "option_names": OptionNames("embedder", "command line"),
    } == connection
    assert models_of({}).of_embedder.build_embedder() is None


def test_a_reader_alone_judges_if_no_judge_is_named():
    """The reader's model is the judge if only a reader is named. Without both there is neither."""
    judge, reader = models_of({"reader.url": "http://127.0.0.1:2/v1"}).judge_and_reader()
    assert isinstance(judge, OpenAICompatibleJudge)
    assert "http://127.0.0.1:2/v1" == reader.model.settings["endpoint"] == judge.model.settings["endpoint"]
    assert (None, None) == models_of({}).judge_and_reader()
    assert models_of({}).judge_or_none() is None
    assert models_of({}, RAGSTONE_JUDGE="lexical").judge_or_none().identity.is_baseline


def test_other_judges_have_the_limits_and_not_the_key(built):
    """A second judge has the limits, prices and budget of the first. Its key is not sent to another endpoint."""
    models = models_of(JUDGE | BUDGET)
    assert "judge" == models.build_other_judge("http://127.0.0.1:9/v1", "m")
    spec, options = built["judge"]
    assert "http://127.0.0.1:9/v1" == spec
    assert options["connection"].pop("budget") is models.of_judge.connection["budget"]
    assert {
        "model": "m",
        "max_concurrent_requests": 12,
        "requests_per_minute": 13.0,
        "tokens_per_minute": 14.0,
        "usd_per_million_tokens": (1.0, 2.0),
        "option_names": OptionNames("judge", "command line"),
    } == options.pop("connection")
    assert {} == options
