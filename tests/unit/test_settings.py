"""Every key of the settings: its sources, its rule, its default and its secret. One table, `CASES`, has a row for each key."""

from __future__ import annotations

import inspect
import json
import logging
import os
import pickle
import re
from pathlib import Path
from typing import Any

import pytest

from fake_servers import FakeJudgeServer
from ragstone import Monitor
from ragstone.capture import Capture, redact_secrets
from ragstone.errors import ConfigurationError
from ragstone.experiments import aevaluate, evaluate
from ragstone.judges import (
    ChatReader,
    ConnectionOptions,
    EndpointEmbedder,
    ModelJudge,
    OpenAICompatibleModel,
    embedder_from,
    judge_from,
    read_endpoint,
    reader_from,
)
from ragstone.replay import areplay_traces, replay_traces
from ragstone.requests import TraceDraft
from ragstone.settings import (
    RUN_KEYS,
    TABLES,
    read_table,
    resolve,
    resolve_arguments,
    takes_settings,
    variable_of,
)
from stored_bodies import count_replies

SECRET = "hunter2-very-secret"

_POSITIVE = ("2.5", "2.5", "-1")
_NOT_NEGATIVE = ("3", "3", "-1")
_TEXT = ('"abc"', "abc", "3")
_AGE = ('"30d"', "30d", '"soon"')
_ENDPOINT = {
    "url": ('"http://a/v1"', "http://a/v1", "3"),
    "model": _TEXT,
    "api_key_env": ('"MY_KEY"', "MY_KEY", f'"{SECRET}"'),
    "api_key": (f'"{SECRET}"', SECRET, "3"),
    "headers": (f'{{ x-key = "{SECRET}" }}', f'{{"x-key": "{SECRET}"}}', f'"{SECRET}"'),
    "extra_body": (f'{{ key = "{SECRET}" }}', f'{{ key = "{SECRET}" }}', f'"{SECRET}"'),
    "usd_per_million_tokens": ("[0.15, 0.6]", "0.15,0.6", "[1]"),
    "timeout_s": _POSITIVE,
    "max_retries": _NOT_NEGATIVE,
    "max_wait_s": _NOT_NEGATIVE,
    "backoff_s": _NOT_NEGATIVE,
    "max_concurrent_requests": ("8", "8", "0"),
    "requests_per_minute": _POSITIVE,
    "tokens_per_minute": _POSITIVE,
}
CASES: dict[str, tuple[str, str, str]] = {
    **{f"{role}.{name}": case for role in ("judge", "reader", "embedder") for name, case in _ENDPOINT.items()},
    "judge.score_mode": ('"sampled"', "sampled", '"fast"'),
    "judge.draws": ("7", "7", "1"),
    "judge.max_tokens": ("128", "128", "0"),
    "reader.prompt": ('"prompt.txt"', "prompt.txt", "3"),
    "reader.abstention": ('["no", "none"]', "no,none", "3"),
    "answers.refusals": ('["Ask us", "Call us"]', "Ask us,Call us", '["..."]'),
    "prompts.texts": ('{ "ccrs.qr" = "{query} {response}" }', '{"ccrs.qr": "{query} {response}"}', '{ "ccrs.qr" = 3 }'),
    "reader.estimator": ('"exact"', "exact", '"fast"'),
    "reader.max_draws": ("7", "7", "0"),
    "reader.max_tokens": ("128", "128", "0"),
    "embedder.batch_size": ("32", "32", "0"),
    "embedder.device": _TEXT,
    "cache.directory": _TEXT,
    "limits.concurrency": ("4", "4", "0"),
    "limits.processes": ("4", "4", "0"),
    "limits.deadline_s": ("30", "30", "0"),
    "limits.max_outage_s": ("30", "30", "-1"),
    "limits.max_failed_share": ("0.25", "0.25", "1.5"),
    "limits.stop_early": ("false", "false", "1"),
    "limits.call_latency_s": ("2", "2", "-1"),
    "limits.app_concurrency": ("4", "4", "0"),
    "limits.app_timeout_s": ("30", "30", "0"),
    "limits.max_page_mb": ("3", "3", "0"),
    "budget.calls": ("10", "10", "0"),
    "budget.tokens": ("10", "10", "0"),
    "budget.usd": ("1.5", "1.5", "0"),
    "daily_budget.calls": ("10", "10", "0"),
    "daily_budget.tokens": ("10", "10", "0"),
    "daily_budget.usd": ("1.5", "1.5", "0"),
    "scoring.metrics": ('["ccrs", "rouge"]', "ccrs,rouge", "3"),
    "scoring.sinks": (f'["webhook:https://host/{SECRET}"]', f"webhook:https://host/{SECRET}", "3"),
    "scoring.reasons": ("5", "5", "-1"),
    "scoring.mode": ('"process"', "process", '"cloud"'),
    "watch.false_alarms_per_quarter": ("2", "2", "101"),
    "watch.min_drop": ("0.1", "0.1", "0.6"),
    "watch.session_gap_s": ("600", "600", "14401"),
    "watch.slices": ('["release", "tag:team"]', "release,tag:team", '["color"]'),
    "watch.canaries": ("20", "20", "4"),
    "watch.notify": (f'["slack:https://host/{SECRET}"]', f"slack:https://host/{SECRET}", "3"),
    "watch.targets": ('{ "ccrs.ac" = 0.8 }', '{"ccrs.ac": 0.8}', '{ "ccrs.ac" = "high" }'),
    "retention.bodies_older_than": _AGE,
    "retention.requests_older_than": _AGE,
    "retention.sampled_out_older_than": _AGE,
    "sampling.sample_rate": ("0.25", "0.25", "1.5"),
    "sampling.rules": ('[{ status = "error", rate = 0.5 }]', '[{"status": "error", "rate": 0.5}]', "3"),
    "redaction.redact": ("false", "false", "1"),
    "redaction.ids": ('"hash"', "hash", '"drop"'),
    "app.name": _TEXT,
    "app.release": _TEXT,
    "app.environment": _TEXT,
    "app.tags": ('["beta", "eu"]', "beta,eu", "3"),
    "capture.store": ('"other.db"', "other.db", "3"),
    "capture.durability": ('"sync"', "sync", '"never"'),
    "capture.flush_interval_s": ("0.5", "0.5", "-1"),
    "capture.queue_size": ("50", "50", "0"),
    "lengths.max_chars": ("50", "50", "0"),
    "lengths.max_passages": ("50", "50", "0"),
    "lengths.max_items": ("50", "50", "0"),
    "analysis.confidence_level": ("0.9", "0.9", "1"),
    "analysis.cluster": _TEXT,
    "analysis.undecided": ('"pass"', "pass", '"maybe"'),
    "analysis.seed": ("7", "7", "-1"),
    "analysis.n_resamples": ("500", "500", "0"),
    "analysis.n_permutations": ("500", "500", "0"),
    "analysis.min_effect": ("0.02", "0.02", '"small"'),
    "analysis.across_metrics": ("false", "false", "1"),
    "analysis.allow_different_judges": ("true", "true", "1"),
    "receiver.idle_timeout_s": ("3", "3", "-1"),
    "receiver.rootless_timeout_s": ("3", "3", "-1"),
    "receiver.max_message_mib": ("16", "16", "257"),
    "research.max_items": ("5", "5", "0"),
    "research.max_passages": ("5", "5", "0"),
    "research.questions": ("5", "5", "31"),
    "research.rating_threshold": ("4", "4", "6"),
    "research.conditions": ('["wording", "order"]', "wording,order", "3"),
    "research.max_crossed": ("20", "20", "1"),
    "research.flip_threshold": ("0.2", "0.2", "-1"),
    "research.label_range": ("[1, 5]", "1,5", "[1]"),
    "research.label_values": ('["poor", "good"]', "poor,good", "3"),
    "research.repeats": ("3", "3", "0"),
    "research.target": _TEXT,
    "research.pass_at": ("[1, 3]", "1,3", "3"),
    "research.threshold": ("0.7", "0.7", '"high"'),
    "research.svm_c": ("[0.1, 1]", "0.1,1", "3"),
    "research.k": ("3", "3", '"all"'),
    "research.queries": ("5", "5", "0"),
    "research.second_judge": _TEXT,
    "research.second_judge_model": _TEXT,
    "research.other_readers": ('["lexical", "openai:m"]', "lexical,openai:m", "3"),
    "research.top_n": ("9", "9", '"all"'),
    "research.max_questions": ("9", "9", '"all"'),
    "research.n_contexts": ("4", "4", '"all"'),
    "research.k_values": ("[1, 3]", "1,3", "3"),
    "research.n_distractors": ("4", "4", '"all"'),
    "research.weak_below": ("0.1", "0.1", '"low"'),
    "research.hard_above": ("0.9", "0.9", '"low"'),
}
"""By key: a valid value as TOML, the same value as a text of the environment or of an option, and an invalid value as TOML."""
DEFAULTS: dict[str, Any] = {
    "research.repeats": 2,
    "judge.timeout_s": 60.0,
    "judge.max_retries": 4,
    "judge.max_wait_s": 600.0,
    "judge.backoff_s": 0.5,
    "judge.score_mode": "single",
    "judge.draws": 5,
    "judge.max_tokens": 64,
    "reader.timeout_s": 60.0,
    "reader.max_retries": 4,
    "reader.max_wait_s": 600.0,
    "reader.backoff_s": 0.5,
    "reader.abstention": ("NO-RESPONSE",),
    "answers.refusals": (),
    "prompts.texts": {},
    "reader.estimator": "auto",
    "reader.max_draws": 20,
    "reader.max_tokens": 512,
    "embedder.timeout_s": 60.0,
    "embedder.max_retries": 4,
    "embedder.max_wait_s": 600.0,
    "embedder.backoff_s": 0.5,
    "embedder.batch_size": 64,
    "limits.concurrency": 16,
    "limits.processes": 1,
    "limits.max_failed_share": 0.5,
    "limits.stop_early": True,
    "limits.call_latency_s": 1.0,
    "limits.app_concurrency": 8,
    "limits.app_timeout_s": 120.0,
    "limits.max_page_mb": 1.5,
    "scoring.metrics": ("ccrs",),
    "scoring.reasons": 0,
    "scoring.mode": "thread",
    "watch.false_alarms_per_quarter": 1.0,
    "watch.min_drop": 0.05,
    "watch.session_gap_s": 1800.0,
    "watch.slices": ("release", "environment", "operation", "retriever", "language", "tag:topic"),
    "watch.canaries": 0,
    "retention.sampled_out_older_than": "1d",
    "sampling.sample_rate": 1.0,
    "redaction.redact": True,
    "redaction.ids": "keep",
    "capture.store": "ragstone.db",
    "capture.durability": "batched",
    "capture.flush_interval_s": 0.1,
    "capture.queue_size": 10000,
    "lengths.max_chars": 50000,
    "lengths.max_passages": 200,
    "lengths.max_items": 200,
    "analysis.confidence_level": 0.95,
    "analysis.cluster": "auto",
    "analysis.undecided": "fail",
    "analysis.n_permutations": 10000,
    "analysis.across_metrics": True,
    "analysis.allow_different_judges": False,
    "receiver.idle_timeout_s": 10.0,
    "receiver.rootless_timeout_s": 300.0,
    "receiver.max_message_mib": 8,
    "research.max_items": 20,
    "research.queries": 100,
    "research.questions": 10,
    "research.rating_threshold": 3.0,
    "research.conditions": ("wording", "order", "repeats"),
    "research.max_crossed": 50,
    "research.flip_threshold": 0.1,
    "research.k": 5,
    "research.top_n": 25,
    "research.max_questions": 100,
    "research.n_contexts": 10,
    "research.k_values": (1, 2, 3, 5),
    "research.weak_below": 0.2,
    "research.hard_above": 0.8,
}
"""Defaults of the keys that have one."""
KEYS = [f"{table}.{name}" for table, kind in TABLES.items() for name in kind.model_fields]


def _value(configuration: Any, key: str) -> Any:
    table, _, name = key.partition(".")
    return getattr(getattr(configuration, table), name)


def _toml(tmp_path: Path, key: str, value: str) -> Path:
    table, _, name = key.partition(".")
    file = tmp_path / "ragstone.toml"
    file.write_text(f"[{table}]\n{name} = {value}\n", encoding="utf-8")
    return file


def _python(value: str) -> Any:
    """Return a TOML value as a Python object."""
    import tomllib

    return tomllib.loads(f"value = {value}")["value"]


def test_each_key_has_a_case():
    """A key that is added to a table needs a row here."""
    assert sorted(KEYS) == sorted(CASES)


@pytest.mark.parametrize("key", KEYS)
def test_each_key_has_its_default(key: str):
    """Also in the rows, with the source `default`."""
    configuration = resolve(environment={})
    value = _value(configuration, key)
    assert DEFAULTS[key] == value if key in DEFAULTS else value in (None, (), {})
    row = next(row for row in configuration.rows() if row.key == key)
    assert ("default", row.default) == (row.source, row.value)


@pytest.mark.parametrize("key", KEYS)
def test_each_source_sets_a_key_to_the_same_value(key: str, tmp_path: Path):
    """TOML, environment, `--set` and Python give one value, and the default is another one."""
    toml, text, _ = CASES[key]
    file = _toml(tmp_path, key, toml)
    configurations = {
        "file": resolve(file=file, environment={}),
        "environment": resolve(environment={variable_of(key): text}),
        "option": resolve({key: text}, environment={}),
        "plan": resolve(plan={key: _python(toml)}, environment={}),
    }
    values = {source: _value(configuration, key) for source, configuration in configurations.items()}
    assert [values["file"]] * 4 == list(values.values())
    assert _value(resolve_arguments({key: _python(toml)}, {}), key) == values["file"]
    assert _value(resolve(environment={}), key) != values["file"]
    for source, configuration in configurations.items():
        sources = {row.key: row.source for row in configuration.rows()}
        assert {source} == {sources.pop(key)}
        assert {"default"} == set(sources.values())


@pytest.mark.parametrize("key", KEYS)
def test_an_invalid_value_is_described_by_source_key_and_rule(key: str, tmp_path: Path):
    """The sentence names where the value is, the key, the rule and the value, which is left out if it may be a secret."""
    _, _, bad = CASES[key]
    rule = next(row.rule for row in resolve(environment={}).rows() if row.key == key)
    value = _python(bad)
    text = value if isinstance(value, str) else json.dumps(value)
    file = _toml(tmp_path, key, bad)
    is_hidden = SECRET in bad or key in (
        "judge.api_key",
        "reader.api_key",
        "embedder.api_key",
        "scoring.sinks",
        "watch.notify",
    )
    # As text, a number is a text.
    reads_text = (
        _value(resolve(environment={}), key) is None or isinstance(value, str) or not key.endswith(("url", "store"))
    )
    calls = {
        repr(str(file)): lambda: resolve(file=file, environment={}),
        "the plan of the store": lambda: resolve(plan={key: value}, environment={}),
        "max_x": lambda: resolve_arguments({key: value}, {key: "max_x"}),
        "Monitor(x=...)": lambda: read_table(
            TABLES[key.partition(".")[0]], {key.partition(".")[2]: value}, source="Monitor(x=...)"
        ),
    }
    if _is_invalid_text(key) and reads_text:
        calls |= {
            variable_of(key): lambda: resolve(environment={variable_of(key): text}),
            "--set": lambda: resolve({key: text}, environment={}),
            "--flag": lambda: resolve({key: text}, names={key: "--flag"}, environment={}),
        }
    for source, call in calls.items():
        with pytest.raises(ConfigurationError) as caught:
            call()
        message = str(caught.value)
        assert message.startswith(f"{source}: {key} must be {rule}")
        assert SECRET not in message
        assert is_hidden == (", got " not in message)


def _is_invalid_text(key: str) -> bool:
    """Return whether the invalid value of a key is also invalid as a text: "3" is a text like any other."""
    return CASES[key][2] != "3" or key == "sampling.rules"


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("value", [True, float("nan"), {"a": object()}, [[]]])
def test_a_value_of_the_wrong_type_is_refused(key: str, value: object):
    """A boolean is not a number, and NaN is not in any range."""
    if CASES[key][1] in ("true", "false") and value is True:
        return
    if key.endswith("extra_body") and isinstance(value, dict):
        return
    with pytest.raises(ConfigurationError, match=rf"^x: {key}(\[0\]\.?\w*)? "):
        resolve_arguments({key: value}, {key: "x"})


@pytest.mark.parametrize("key", [key for key in KEYS if SECRET in CASES[key][0]])
def test_a_secret_is_never_printed(key: str, tmp_path: Path, caplog: pytest.LogCaptureFixture):
    """Not in rows, representations, what a store records or the warning, which names the key."""
    file = _toml(tmp_path, key, CASES[key][0])
    with caplog.at_level(logging.WARNING, "ragstone"):
        configuration = resolve(file=file, environment={})
        resolve(file=file, environment={})
    recorded = [
        read_endpoint(role, getattr(configuration, role).stated, source="x").plan_settings()
        for role in ("judge", "reader", "embedder")
    ]
    shown = [*configuration.rows(), configuration, recorded]
    assert SECRET not in f"{shown} {configuration!s} {caplog.text}"
    assert int(key.endswith(("api_key", "headers", "extra_body"))) == caplog.text.count(f"{key}")


def test_a_password_in_a_url_is_warned_about_and_not_stored(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    """The rows show the host, and the plan does not get the URL."""
    file = tmp_path / "ragstone.toml"
    file.write_text(
        f'[judge]\nurl = "http://user:{SECRET}@host/v1"\nmodel = "m"\n[capture]\nstore = "postgresql://u:{SECRET}@db/x"',
        "utf-8",
    )
    with caplog.at_level(logging.WARNING, "ragstone"):
        configuration = resolve(file=file, environment={})
    assert [f"{key} contains a secret" in caplog.text for key in ("judge.url", "capture.store")] == [True, True]
    plan = read_endpoint("judge", configuration.judge.stated, source="x").plan_settings()
    assert {"judge.url": "secret:http://host/v1 (url)", "judge.model": "m"} == plan
    shown = {row.key: row.value for row in configuration.rows()}
    assert ("http://host/v1", "postgresql://db/x") == (shown["judge.url"], shown["capture.store"])
    assert SECRET not in f"{shown} {configuration!r} {caplog.text}"
    with pytest.raises(ConfigurationError) as caught:
        resolve({"watch.canaries": f"http://user:{SECRET}@host"}, environment={})
    assert SECRET not in str(caught.value)


def test_a_header_from_the_environment_is_not_warned_about(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    """A file that names a variable contains no secret."""
    file = _toml(tmp_path, "judge.headers", '{ x-api-key = { env = "MY_KEY" }, x-team = "search" }')
    resolve(file=file, environment={})
    assert "" == caplog.text


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda file: resolve({"judge.max_retrys": 1}),
            "--set: 'judge.max_retrys' is not a setting. Did you mean 'max_retries'?",
        ),
        (lambda file: resolve({"jugde.url": "x"}), "--set: 'jugde' is not a table of settings. Did you mean 'judge'?"),
        (
            lambda file: resolve({"max_retries": "x"}),
            "--set: 'max_retries' is not a table of settings. Did you mean 'judge.max_retries'?",
        ),
        (lambda file: resolve({"limits": "x"}), "--set: 'limits' is not a setting."),
        (
            lambda file: resolve(environment={"RAGSTONE_JUDGE_MAX_RETRYS": "1"}),
            "the environment variable RAGSTONE_JUDGE_MAX_RETRYS is not a setting. Did you mean RAGSTONE_JUDGE_MAX_RETRIES?",
        ),
        (
            lambda file: resolve(environment={"RAGSTONE_JUDGE_URL": "x"}),
            "the environment variable RAGSTONE_JUDGE_URL is not a setting. Did you mean RAGSTONE_JUDGE?",
        ),
        (
            lambda file: resolve(environment={"RAGSTONE_SCORING_MODE": "none"}),
            "the environment variable RAGSTONE_SCORING_MODE is not a setting. Did you mean RAGSTONE_SCORING?",
        ),
        (
            lambda file: resolve(file=file("[jugde]\nurl = 'x'")),
            "FILE: 'jugde' is not a table of settings. Did you mean 'judge'?",
        ),
        (
            lambda file: resolve(file=file("[judge]\nurls = 'x'")),
            "FILE: 'judge.urls' is not a setting. Did you mean 'url'?",
        ),
        *(
            (
                lambda file, text=text: resolve(file=file(text)),
                f"FILE: {key} must be a text (for several servers with the same model, the URL of a load balancer), got ['a', 'b'].",
            )
            for text, key in (
                ("judge = ['a', 'b']", "judge.url"),
                ("[embedder]\nurl = ['a', 'b']", "embedder.url"),
            )
        ),
        (
            lambda file: resolve(file=file("sample_rate = 1")),
            "FILE: 'sample_rate' is not a table of settings. Did you mean [sampling] sample_rate?",
        ),
        (lambda file: resolve(file=file("limits = 1")), "FILE: limits must be a table [limits], got 1."),
        (
            lambda file: resolve({"sampling.rules": [{"status": "error", "rates": 1}]}),
            "--set: sampling.rules[0].rate must be",
        ),
        (
            lambda file: resolve({"sampling.rules": [{"status": "error", "rate": 1}, {"app": "a", "rate": 2}]}),
            "--set: sampling.rules[1].rate must be a number above 0 and at most 1, because",
        ),
    ],
)
def test_an_unknown_name_is_refused_with_its_nearest_neighbor(call: Any, message: str, tmp_path: Path):
    """In each source."""
    path = tmp_path / "ragstone.toml"

    def file(text: str) -> Path:
        path.write_text(text, encoding="utf-8")
        return path

    with pytest.raises(ConfigurationError) as caught:
        call(file)
    assert str(caught.value).replace(repr(str(path)), "FILE").startswith(message)


@pytest.mark.parametrize(
    "variable",
    [
        "RAGSTONE_JUDGE_PORT",
        "RAGSTONE_JUDGE_SERVICE_HOST",
        "RAGSTONE_READER_PORT_80_TCP_ADDR",
        "RAGSTONE_VIEW_TOKEN",
        "JUDGE",
    ],
)
def test_other_variables_are_ignored(variable: str):
    """Kubernetes sets variables for a service with the name "ragstone-judge"."""
    assert resolve(environment={variable: "1"}) == resolve(environment={})


@pytest.mark.parametrize(
    ("variable", "hint"),
    [
        ("RAGSTONE_CONCURRENCY", "Did you mean RAGSTONE_LIMITS_CONCURRENCY or RAGSTONE_LIMITS_APP_CONCURRENCY?"),
        ("RAGSTONE_ZZYZX", "`ragstone doctor --settings` lists all."),
        ("RAGSTONE_SPOOL", None),
        ("RAGSTONE_ID_KEY", None),
        ("PATH", None),
    ],
)
def test_an_unknown_variable_is_named_once(variable: str, hint: str | None, caplog: pytest.LogCaptureFixture):
    """A variable that looks like a setting is ignored with one warning, which names similar ones."""
    for _ in range(2):
        resolve({}, environment={variable: "3"})
    sentence = f"ragstone: the environment variable {variable} is not a setting, and is ignored. {hint}"
    assert ([] if hint is None else [sentence]) == [record.getMessage() for record in caplog.records]


def test_a_key_that_is_withheld_is_named_without_its_value(caplog: pytest.LogCaptureFixture, tmp_path: Path):
    """A key of the environment that is for the endpoint of a file is not sent to that of an option, and the log says so."""
    file = tmp_path / "r.toml"
    file.write_text("[judge]\nurl = 'http://a2'\n", encoding="utf-8")
    found = resolve({"judge.url": "http://b2"}, file=file, environment={"RAGSTONE_JUDGE_API_KEY": "s3cret"})
    assert None is found.judge.api_key
    assert [
        "ragstone: RAGSTONE_JUDGE_API_KEY: judge.api_key is not sent to http://b2, because it belongs to http://a2."
    ] == [record.getMessage() for record in caplog.records]


@pytest.mark.parametrize("role", ["judge", "reader", "embedder"])
def test_a_key_in_the_name_of_a_model_is_refused(role: str):
    """`openai:MODEL?key=...` would be stored as the name of the model. The error names the variable for the key."""
    with pytest.raises(ConfigurationError, match=f"RAGSTONE_{role.upper()}_API_KEY") as caught:
        resolve({f"{role}.url": "openai:m?key=s3cret"})
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize("named_by", ["file", "environment"])
def test_a_monitor_from_a_file_uses_its_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named_by: str):
    """`[cache] directory` is that of the monitor's own judge, also of one in the environment, and of no other model."""
    file, folder = tmp_path / "r.toml", tmp_path / "replies"
    with FakeJudgeServer() as server:
        text = f"judge = '{server.url}'\n" if named_by == "file" else ""
        if named_by == "environment":
            monkeypatch.setenv("RAGSTONE_JUDGE", server.url)
        file.write_text(f"{text}cache = '{folder}'\n", encoding="utf-8")
        with Monitor.from_config(file, store=tmp_path / "s.db", metrics="ccrs.qr") as monitor:
            monitor.record(TraceDraft(query="Why?", response="Because."))
            assert monitor.drain(60)
        assert 1 == count_replies(folder)
    assert "RAGSTONE_CACHE" not in os.environ


def test_an_empty_variable_is_not_set_except_for_the_cache():
    """An empty cache directory disables the cache."""
    configuration = resolve(
        environment={"RAGSTONE_JUDGE": " ", "RAGSTONE_LIMITS_CONCURRENCY": "", "RAGSTONE_CACHE": ""}
    )
    assert (None, 16, "") == (configuration.judge.url, configuration.limits.concurrency, configuration.cache.directory)
    assert {"cache.directory": "environment"} == configuration.sources


def test_the_precedence_is_option_environment_file_plan(tmp_path: Path):
    """Each source is replaced by the one before it."""
    file = _toml(tmp_path, "limits.concurrency", "3")
    options, environment, plan = (
        {"limits.concurrency": "1"},
        {"RAGSTONE_LIMITS_CONCURRENCY": "2"},
        {"limits.concurrency": 4},
    )
    values = [
        resolve(options, environment=environment, file=file, plan=plan),
        resolve(environment=environment, file=file, plan=plan),
        resolve(environment={}, file=file, plan=plan),
        resolve(environment={}, plan=plan),
        resolve(environment={}),
    ]
    assert [1, 2, 3, 4, 16] == [configuration.limits.concurrency for configuration in values]


def test_an_invalid_value_is_an_error_even_if_another_source_replaces_it(tmp_path: Path):
    """The same file is also for other commands."""
    with pytest.raises(ConfigurationError, match="concurrency must be an integer of at least 1, got 0"):
        resolve({"limits.concurrency": 4}, file=_toml(tmp_path, "limits.concurrency", "0"), environment={})


def test_settings_of_another_endpoint_are_ignored(tmp_path: Path):
    """A key of the file must not be sent to the endpoint that an option names."""
    file = tmp_path / "ragstone.toml"
    file.write_text("[judge]\nurl = 'http://a/v1'\napi_key_env = 'KEY_OF_A'\nmax_retries = 1", encoding="utf-8")
    other = resolve({"judge.url": "http://b/v1", "judge.model": "m"}, file=file, environment={}).judge
    assert {"url": "http://b/v1", "model": "m"} == other.stated
    same = resolve({"judge.url": "http://a/v1/"}, file=file, environment={}).judge
    assert {"url": "http://a/v1", "api_key_env": "KEY_OF_A", "max_retries": 1} == same.stated
    nearer = resolve(environment={"RAGSTONE_JUDGE": "http://c/v1"}, file=file).judge
    assert {"url": "http://c/v1"} == nearer.stated


A, B, C = "http://a/v1", "http://b/v1", "http://c/v1"
READER_AT_A = "[judge]\nurl = 'http://a/v1'\n[reader]\nmodel = 'r'\napi_key_env = 'KEY_OF_A'"


@pytest.mark.parametrize(
    ("options", "environment", "file", "key"),
    [
        # The key of the environment is for the URL of the file.
        ({"judge.url": B}, {"RAGSTONE_JUDGE_API_KEY_ENV": "KEY_OF_A"}, "judge = 'http://a/v1'", ("judge", None)),
        ({"judge.url": A}, {"RAGSTONE_JUDGE_API_KEY_ENV": "KEY_OF_A"}, "judge = 'http://a/v1'", ("judge", "KEY_OF_A")),
        ({}, {"RAGSTONE_JUDGE_API_KEY_ENV": "KEY_OF_A"}, "judge = 'http://a/v1'", ("judge", "KEY_OF_A")),
        # A source whose URL no other source names states the key of any endpoint.
        ({"judge.url": B}, {"RAGSTONE_JUDGE_API_KEY_ENV": "KEY"}, "", ("judge", "KEY")),
        # A reader without a URL is at the endpoint of the judge of its source.
        ({"judge.url": B}, {}, READER_AT_A, ("reader", None)),
        ({"judge.url": A}, {}, READER_AT_A, ("reader", "KEY_OF_A")),
        ({}, {}, READER_AT_A, ("reader", "KEY_OF_A")),
        ({"reader.url": C}, {}, READER_AT_A, ("reader", None)),
        ({"reader.url": A}, {}, READER_AT_A, ("reader", "KEY_OF_A")),
        (
            {"judge.url": A, "reader.model": "r", "reader.api_key_env": "KEY_OF_A"},
            {"RAGSTONE_READER": C},
            "",
            ("reader", None),
        ),
    ],
)
def test_the_key_of_a_source_without_a_url_is_not_sent_to_another_endpoint(
    options: Any, environment: Any, file: str, key: tuple[str, str | None], tmp_path: Path
):
    """It is for the URL of the next source, or for that of the judge."""
    path = tmp_path / "ragstone.toml"
    path.write_text(file, encoding="utf-8")
    role, variable = key
    assert variable == getattr(resolve(options, environment=environment, file=path), role).api_key_env


def test_a_plan_does_not_decide_which_endpoint_a_key_is_for():
    """A worker with another judge has the key of this judge."""
    configuration = resolve(
        {"judge.url": B}, environment={"RAGSTONE_JUDGE_API_KEY_ENV": "KEY_OF_B"}, plan={"judge.url": A}
    )
    assert "KEY_OF_B" == configuration.judge.api_key_env


def test_a_main_key_is_the_value_of_its_table(tmp_path: Path):
    """`judge = "URL"` is `[judge] url = "URL"`."""
    file = tmp_path / "ragstone.toml"
    file.write_text("judge = ' http://a/v1'\napp = 'bot'", encoding="utf-8")
    configuration = resolve({"reader": "lexical"}, file=file, environment={})
    assert ("http://a/v1", "bot", "lexical") == (
        configuration.judge.url,
        configuration.app.name,
        configuration.reader.url,
    )


@pytest.mark.parametrize(
    ("options", "key"),
    [
        ({"judge": "http://a/v1", "judge.url": "http://b/v1"}, "judge.url"),
        ({"limits.stop-early": "true", "limits.stop_early": "false"}, "limits.stop_early"),
    ],
)
def test_a_key_that_one_source_sets_twice_is_refused(options: dict[str, str], key: str):
    """The name of a table and its main key, and a key with a dash and with an underscore, are the same key."""
    with pytest.raises(ConfigurationError, match=re.escape(f"--set: {key} is set twice. Remove one of them.")):
        resolve(options, environment={})


@pytest.mark.parametrize(("text", "value"), [("TRUE", True), (" False ", False)])
def test_true_and_false_of_a_variable_are_read_in_any_case(text: str, value: bool):
    """YAML files of deployments write `True`."""
    assert resolve(environment={"RAGSTONE_LIMITS_STOP_EARLY": text}).limits.stop_early is value


def test_the_default_of_a_row_is_not_its_value():
    """A user compares both in `ragstone doctor --settings`."""
    configuration = resolve({"limits.concurrency": "3"}, environment={})
    row = next(row for row in configuration.rows() if row.key == "limits.concurrency")
    assert ("3", "16") == (row.value, row.default)


def test_the_query_of_a_url_is_not_in_a_row():
    """A query may contain a key."""
    rows = resolve({"judge.url": f"http://host/v1?key={SECRET}"}, environment={}).rows()
    assert next(row for row in rows if row.key == "judge.url").value == "http://host/v1"


def test_settings_travel_to_another_process():
    """Workers are started with them."""
    configuration = resolve({"judge.url": "http://a/v1", "judge.api_key": SECRET}, environment={})
    assert configuration.judge == pickle.loads(pickle.dumps(configuration.judge))  # noqa: S301  written here


@pytest.mark.parametrize("key", [key for key in KEYS if CASES[key][1].replace(".", "").isdigit()])
def test_the_text_of_a_number_is_not_a_number_in_a_file_or_in_python(key: str, tmp_path: Path):
    """Only the environment and options have texts for everything."""
    text = CASES[key][1]
    with pytest.raises(ConfigurationError, match=rf": {key} must be .*, got '{text}'"):
        resolve(file=_toml(tmp_path, key, f'"{text}"'), environment={})
    with pytest.raises(ConfigurationError, match=rf"^x: {key} must be .*, got '{text}'"):
        resolve_arguments({key: text}, {key: "x"})


def test_a_secret_in_a_file_is_an_error_of_other_values_without_the_secret(tmp_path: Path):
    """A message about one key does not show another."""
    file = tmp_path / "ragstone.toml"
    file.write_text(f'[judge]\napi_key = "{SECRET}"\nmax_retries = -1\n', encoding="utf-8")
    with pytest.raises(ConfigurationError) as caught:
        resolve(file=file, environment={})
    assert SECRET not in f"{caught.value} {caught.value.__cause__} {caught.value.__context__}"


_FUNCTIONS = {
    "Monitor": (Monitor.__init__, Monitor.__init__.keys),
    "evaluate": (evaluate, RUN_KEYS),
    "aevaluate": (aevaluate, RUN_KEYS),
    "replay_traces": (replay_traces, replay_traces.keys),
    "areplay_traces": (areplay_traces, areplay_traces.keys),
    "Capture": (
        Capture.__init__,
        {name: f"capture.{name}" for name in ("durability", "flush_interval_s", "queue_size")},
    ),
    "OpenAICompatibleModel": (
        OpenAICompatibleModel.__init__,
        {name: f"judge.{name}" for name in ConnectionOptions.__annotations__ if f"judge.{name}" in KEYS},
    ),
    "ModelJudge": (ModelJudge.__init__, {name: f"judge.{name}" for name in ("score_mode", "draws", "max_tokens")}),
    "ChatReader": (
        ChatReader.__init__,
        {name: f"reader.{name}" for name in ("abstention", "estimator", "max_draws", "max_tokens")},
    ),
    "EndpointEmbedder": (EndpointEmbedder.__init__, {"batch_size": "embedder.batch_size"}),
}
_OTHER_DEFAULTS = {"max_outage_s": {300.0, 3600.0, None}, "redact": {redact_secrets}, "cluster": {"auto"}}
"""Defaults that depend on the function, and one whose key is a switch."""


@pytest.mark.parametrize("name", _FUNCTIONS)
def test_defaults_of_signatures_are_those_of_the_settings(name: str):
    """An editor shows the same default as the reference."""
    function, keys = _FUNCTIONS[name]
    parameters = inspect.signature(function).parameters
    defaults = resolve(environment={})
    for argument, key in keys.items():
        default = parameters[argument].default
        if argument in _OTHER_DEFAULTS:
            assert default in _OTHER_DEFAULTS[argument]
            continue
        expected = _value(defaults, key) if "." in key else None
        if default is inspect.Parameter.empty or default is None:
            assert argument == "store" or expected in (None, {}, ())
        else:
            assert expected == ((default,) if argument == "abstention" else default)


class TestArguments:
    """Keyword arguments of `Monitor`, `evaluate` and `replay_traces`."""

    def test_a_variable_sets_what_a_call_omits(self, monkeypatch: pytest.MonkeyPatch):
        """An argument that equals the default is still stated."""
        monkeypatch.setenv("RAGSTONE_LIMITS_CONCURRENCY", "3")
        monkeypatch.setenv("RAGSTONE_WATCH_MIN_DROP", "0.2")
        monkeypatch.setenv("RAGSTONE_REDACTION_REDACT", "false")

        @takes_settings(
            concurrency="limits.concurrency", watch="watch", redact="redaction.redact", sinks="scoring.sinks"
        )
        def call(
            *, concurrency: int = 16, watch: Any = None, redact: Any = print, sinks: Any = (), other: int = 1
        ) -> Any:
            return concurrency, watch, redact, sinks, other

        assert (3, {"min_drop": 0.2}, False, (), 1) == call()
        given = object()
        assert (16, {"min_drop": 0.1}, repr, [given], 2) == call(
            concurrency=16, watch={"min_drop": 0.1}, redact=repr, sinks=[given], other=2
        )
        assert (3, {"min_drop": 0.2, "canaries": 5}, None, ("jsonl:a",), 1) == call(
            watch={"canaries": 5}, redact=None, sinks=["jsonl:a"]
        )
        with pytest.raises(
            ConfigurationError, match=r"call\(concurrency=\.\.\.\): limits.concurrency must be an integer"
        ):
            call(concurrency=True)
        with pytest.raises(
            ConfigurationError, match=r"call\(watch=\.\.\.\) must be a table with the keys of \[watch\], got 5"
        ):
            call(watch=5)

    def test_variables_reach_a_monitor_and_a_file_does_not_replace_them(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ):
        """Argument, then environment, then file."""
        monkeypatch.setenv("RAGSTONE_LIMITS_CONCURRENCY", "3")
        monkeypatch.setenv("RAGSTONE_LIMITS_DEADLINE_S", "30")
        file = tmp_path / "ragstone.toml"
        file.write_text(
            "[limits]\nconcurrency = 5\ndeadline_s = 50\nmax_outage_s = 7\n[retention]\nbodies_older_than = '2d'"
        )
        with Monitor.from_config(file, store=tmp_path / "a.db", metrics="rouge_l", concurrency=2) as monitor:
            read = (
                monitor._setup.limits.concurrency,
                monitor._setup.limits.deadline_s,
                monitor._worker_options["max_outage_s"],
            )
            assert (2, 30.0, 7.0) == read
            assert "2d" == monitor._worker_options["retention"].bodies_older_than
        with Monitor(store=tmp_path / "b.db", metrics="rouge_l") as monitor:
            read = (
                monitor._setup.limits.concurrency,
                monitor._setup.limits.deadline_s,
                monitor._worker_options["max_outage_s"],
            )
            assert (3, 30.0, 3600.0) == read

    def test_variables_complete_a_judge_that_is_named_by_its_url(self, monkeypatch: pytest.MonkeyPatch):
        """Not one of another URL, and not one that is built in Python."""
        monkeypatch.setenv("RAGSTONE_JUDGE", "http://a/v1")
        monkeypatch.setenv("RAGSTONE_JUDGE_MODEL", "m")
        monkeypatch.setenv("RAGSTONE_JUDGE_API_KEY", SECRET)
        monkeypatch.setenv("RAGSTONE_JUDGE_MAX_TOKENS", "99")
        for spec in (None, "http://a/v1"):
            judge = judge_from(spec)
            assert (SECRET, 99) == (judge.model._endpoint._api_key, judge._number_max_tokens)
            assert "m" == judge.model.settings["model"]
        other = judge_from("http://b/v1")
        assert (None, 64) == (other.model._endpoint._api_key, other._number_max_tokens)
        monkeypatch.setenv("RAGSTONE_READER_MODEL", "r")
        reader = reader_from(None, judge=judge_from(None))
        assert ("r", SECRET) == (reader.model.settings["model"], reader.model._endpoint._api_key)
        monkeypatch.setenv("RAGSTONE_EMBEDDER", "http://e/v1")
        monkeypatch.setenv("RAGSTONE_EMBEDDER_BATCH_SIZE", "7")
        assert 7 == embedder_from(None)._batch_size
