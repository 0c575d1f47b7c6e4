"""Every key of the settings: its sources, its rule, its default and its secret. One table, `CASES`, has a row for each key."""

from __future__ import annotations

import json
import logging
import pickle
from pathlib import Path
from typing import Any

import pytest

from ragstone.errors import ConfigurationError
from ragstone.settings import TABLES, read_table, resolve, resolve_arguments, variable_of

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
    "lengths.max_metadata_bytes": ("50", "50", "0"),
    "analysis.confidence_level": ("0.9", "0.9", '"high"'),
    "analysis.cluster": _TEXT,
    "analysis.undecided": ('"pass"', "pass", '"maybe"'),
    "analysis.seed": ("7", "7", "-1"),
    "analysis.n_resamples": ("500", "500", "0"),
    "analysis.n_permutations": ("500", "500", "0"),
    "analysis.test": ('"bootstrap"', "bootstrap", '"guess"'),
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
    "research.label_column": _TEXT,
    "research.label_range": ("[1, 5]", "1,5", "[1]"),
    "research.threshold": ("0.7", "0.7", '"high"'),
    "research.svm_c": ("[0.1, 1]", "0.1,1", "3"),
    "research.k": ("3", "3", '"all"'),
    "research.queries": ("5", "5", "0"),
    "research.convergence": ("true", "true", "1"),
    "research.second_judge": _TEXT,
    "research.second_judge_model": _TEXT,
    "research.top_n": ("9", "9", '"all"'),
    "research.max_questions": ("9", "9", '"all"'),
    "research.n_contexts": ("4", "4", '"all"'),
    "research.k_values": ("[1, 3]", "1,3", "3"),
    "research.n_distractors": ("4", "4", '"all"'),
    "research.weak_below": ("0.1", "0.1", '"low"'),
    "research.hard_above": ("0.9", "0.9", '"low"'),
}
"""By key: a valid value as TOML, the same value as a text of the environment or of an option, and an invalid value as TOML."""
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
    """Not in rows, representations, the plan or the warning, which names the key."""
    file = _toml(tmp_path, key, CASES[key][0])
    with caplog.at_level(logging.WARNING, "ragstone"):
        configuration = resolve(file=file, environment={})
    shown = [*configuration.rows(), configuration, _value(configuration, "judge.url"), configuration.without_secrets()]
    assert SECRET not in f"{shown} {configuration!s} {caplog.text}"
    assert key not in configuration.without_secrets()
    assert (key in caplog.text) == key.endswith(("api_key", "headers", "extra_body"))


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
    assert {"judge.model": "m"} == configuration.without_secrets()
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
            lambda file: resolve(file=file("[jugde]\nurl = 'x'")),
            "FILE: 'jugde' is not a table of settings. Did you mean 'judge'?",
        ),
        (
            lambda file: resolve(file=file("[judge]\nurls = 'x'")),
            "FILE: 'judge.urls' is not a setting. Did you mean 'url'?",
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
    same = resolve({"judge.url": "http://a/v1"}, file=file, environment={}).judge
    assert {"url": "http://a/v1", "api_key_env": "KEY_OF_A", "max_retries": 1} == same.stated
    nearer = resolve(environment={"RAGSTONE_JUDGE": "http://c/v1"}, file=file).judge
    assert {"url": "http://c/v1"} == nearer.stated


def test_a_main_key_is_the_value_of_its_table(tmp_path: Path):
    """`judge = "URL"` is `[judge] url = "URL"`, and several URLs can be a list."""
    file = tmp_path / "ragstone.toml"
    file.write_text("judge = ['http://a/v1', ' http://b/v1']\napp = 'bot'\n[replay]\nformat = 'x'", encoding="utf-8")
    configuration = resolve({"reader": "lexical"}, file=file, environment={}, other_tables={"replay"})
    assert ("http://a/v1,http://b/v1", "bot", "lexical") == (
        configuration.judge.url,
        configuration.app.name,
        configuration.reader.url,
    )


def test_settings_travel_to_another_process():
    """Workers are started with them."""
    configuration = resolve({"judge.url": "http://a/v1", "judge.api_key": SECRET}, environment={})
    assert configuration.judge == pickle.loads(pickle.dumps(configuration.judge))  # noqa: S301  written here
