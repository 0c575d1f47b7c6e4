"""The options for models: each reaches what it is for, and commands get them in one piece."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from ragstone.cli import _models
from ragstone.cli._models import JudgeOptions, ModelOptions, takes_models
from ragstone.judges import OpenAICompatibleJudge

VALUES = {
    "judge": "http://127.0.0.1:1/v1",
    "judge_max_tokens": 11,
    "cache": Path("kept"),
    "max_concurrent_requests": 12,
    "requests_per_minute": 13.0,
    "tokens_per_minute": 14.0,
    "budget_calls": 15,
    "budget_tokens": 16,
    "budget_usd": 17.0,
    "prices": "1,2",
    "fail_fast_after_s": 18.0,
    "affinity_header": "x-session-id",
    "judge_score_mode": "sampled",
    "judge_draws": 19,
    "reader": "http://127.0.0.1:2/v1",
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


def test_no_option_is_dropped(monkeypatch):
    """Every option comes to the judge, the reader, their connection or the environment, under its own name there."""
    seen = {}

    def saw(what):
        def make(*arguments, **options):
            seen[what] = (*arguments, options)
            return what

        return make

    for name in ("build_connection", "judge_from", "build_reader"):
        monkeypatch.setattr(_models, name, saw(name))
    assert {field.name for field in fields(ModelOptions)} == set(VALUES)

    assert ("judge_from", "build_reader") == ModelOptions(**VALUES).models()

    limits = ("max_concurrent_requests", "requests_per_minute", "tokens_per_minute", "budget_calls", "budget_tokens", "budget_usd", "prices",
              "fail_fast_after_s", "affinity_header")  # fmt: skip
    assert ({name: VALUES[name] for name in limits},) == seen["build_connection"]
    asked = {"score_mode": "sampled", "draws": 19, "max_tokens": 11, "connection": "build_connection"}
    assert (VALUES["judge"], asked) == seen["judge_from"]
    read = {"judge": "judge_from", "prompt": Path("prompt.txt"), "abstention": ["NONE"], "estimator": "monte_carlo"}
    assert (VALUES["reader"], read | {"draws": 20, "connection": "build_connection"}) == seen["build_reader"]
    assert "kept" == _models.os.environ["RAGSTONE_CACHE"]


def test_a_reader_alone_judges_where_nobody_else_is_named(monkeypatch):
    """Its model labels and grades; with nobody named at all, nobody does."""
    judge, reader = ModelOptions(reader="http://127.0.0.1:2/v1").models_or_none()
    assert isinstance(judge, OpenAICompatibleJudge)
    assert "http://127.0.0.1:2/v1" == reader
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
