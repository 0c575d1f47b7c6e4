"""The options for models: each reaches what it is for, and commands get them in one piece."""

from __future__ import annotations

import os
from dataclasses import fields
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from ragstone.cli._models import JudgeOptions, ModelOptions, ScoringModelOptions, takes_models
from ragstone.judges import OpenAICompatibleJudge, OptionNames

VALUES = {
    "judge": "http://127.0.0.1:1/v1",
    "judge_model": "j",
    "judge_api_key_env": "JUDGE_KEY",
    "judge_max_tokens": 11,
    "cache": Path("kept"),
    "max_concurrent_requests": 12,
    "requests_per_minute": 13.0,
    "tokens_per_minute": 14.0,
    "budget_calls": 15,
    "budget_tokens": 16,
    "budget_usd": 17.0,
    "prices": "1,2",
    "affinity_header": "x-session-id",
    "judge_score_mode": "sampled",
    "judge_draws": 19,
    "reader": "http://127.0.0.1:2/v1",
    "reader_model": "r",
    "reader_api_key_env": "READER_KEY",
    "reader_prompt": Path("prompt.txt"),
    "reader_abstention": ["NONE"],
    "reader_estimator": "monte_carlo",
    "reader_max_draws": 20,
}


@pytest.fixture(autouse=True)
def nobody_named(monkeypatch):
    """No model in the environment, and what is set there is gone afterwards."""
    for name in ("RAGSTONE_JUDGE", "RAGSTONE_READER", "RAGSTONE_CACHE"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)


def test_no_option_is_dropped(monkeypatch, tmp_path):
    """Every option comes to the judge, the reader, their connection or the environment, under its own name there."""
    seen = {}

    def record(kind):
        def make(spec, **options):
            if options:
                seen[kind] = (spec, options)
            return kind

        return make

    for name in ("judge_from", "reader_from"):
        monkeypatch.setattr(f"ragstone.judges._endpoint_options.{name}", record(name))
    assert {field.name for field in fields(ModelOptions)} == {*VALUES, "tables"}
    prompt = tmp_path / "prompt.txt"
    prompt.write_text("{context} {question}")
    monkeypatch.setenv("JUDGE_KEY", "key of the judge")
    monkeypatch.setenv("READER_KEY", "key of the reader")

    assert ("judge_from", "reader_from") == ModelOptions(**VALUES | {"reader_prompt": prompt}).models_or_none()

    for maker, role, options in (
        ("judge_from", "judge", {"score_mode": "sampled", "draws": 19, "max_tokens": 11}),
        (
            "reader_from",
            "reader",
            {
                "prompt": "{context} {question}",
                "abstention": ("NONE",),
                "estimator": "monte_carlo",
                "max_draws": 20,
            },
        ),
    ):
        spec, given = seen[maker]
        connection = given.pop("connection")
        given.pop("judge", None)
        budget = connection.pop("budget")
        assert (VALUES[role], options) == (spec, given)
        assert "Budget(calls=15, tokens=16, usd=17.0)" == repr(budget)
        assert {
            "model": role[0],
            "api_key": f"key of the {role}",
            "max_concurrent_requests": 12,
            "requests_per_minute": 13.0,
            "tokens_per_minute": 14.0,
            "usd_per_million_tokens": (1.0, 2.0),
            "affinity_header": "x-session-id",
            "option_names": OptionNames(role, "command line"),
        } == connection
    assert "kept" == os.environ["RAGSTONE_CACHE"]


def test_options_of_the_embedder(monkeypatch):
    """They reach it with the limits of the other models, but not with the prices of chat models."""
    seen = []
    monkeypatch.setattr(
        "ragstone.judges._endpoint_options.embedder_from",
        lambda spec, **options: seen.append((spec, options)) or "made",
    )
    monkeypatch.setenv("EMBEDDER_KEY", "key of the embedder")
    own = {"embedder": "http://127.0.0.1:3/v1", "embedder_model": "e", "embedder_api_key_env": "EMBEDDER_KEY"}
    assert {field.name for field in fields(ScoringModelOptions)} == {*VALUES, *own, "tables"}
    assert "made" == ScoringModelOptions(**VALUES | own).of_embedder.build_embedder()
    ((spec, options),) = seen
    connection = options.pop("connection")
    assert ("http://127.0.0.1:3/v1", {}) == (spec, options)
    assert "Budget(calls=15, tokens=16, usd=17.0)" == repr(connection.pop("budget"))
    assert {
        "model": "e",
        "api_key": "key of the embedder",
        "max_concurrent_requests": 12,
        "requests_per_minute": 13.0,
        "tokens_per_minute": 14.0,
        "affinity_header": "x-session-id",
        "option_names": OptionNames("embedder", "command line"),
    } == connection
    assert ScoringModelOptions().of_embedder.build_embedder() is None


def test_a_reader_alone_judges_where_nobody_else_is_named(monkeypatch):
    """Its model labels and grades; with no one named at all, no one does."""
    judge, reader = ModelOptions(reader="http://127.0.0.1:2/v1").models_or_none()
    assert isinstance(judge, OpenAICompatibleJudge)
    assert "http://127.0.0.1:2/v1" == reader.model.settings["endpoint"] == judge.model.settings["endpoint"]
    assert (None, None) == ModelOptions().models_or_none()
    assert JudgeOptions().judge_or_none() is None
    monkeypatch.setenv("RAGSTONE_JUDGE", "lexical")
    assert JudgeOptions().judge_or_none().identity.is_baseline


@pytest.mark.parametrize(("kind", "has_reader"), [(JudgeOptions, False), (ModelOptions, True)])
def test_a_command_gets_its_options_in_one_piece(kind, has_reader):
    """Beside its own, and those that are not given have their defaults."""
    got = []

    def command(name, *, models):
        got.append((name, models))

    # `kind` is no name of this module, where an annotation that is text would be looked up.
    command.__annotations__ = {"name": str, "models": kind}
    app = typer.Typer()
    app.command()(takes_models(command))
    assert 0 == CliRunner().invoke(app, ["me", "--judge", "lexical", "--budget-calls", "3"]).exit_code
    assert [("me", kind(judge="lexical", budget_calls=3))] == got
    assert has_reader == ("--reader-prompt" in CliRunner().invoke(app, ["--help"], terminal_width=200).stdout)
