"""`[[sampling.rules]]`: the first rule that matches gives the rate, which is recorded, and means stay those of all requests."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from command_line import run_command
from ragstone import Monitor
from ragstone.capture import Capture
from ragstone.capture._application import Application
from ragstone.errors import ConfigurationError
from ragstone.requests import Request, Step, TraceDraft
from ragstone.schema import Captured, SampledOut
from ragstone.settings import Sampling, Watch, read_table
from ragstone.spool import SpoolReader, SpoolWriter
from ragstone.store import WatchedOutcome
from ragstone.watch import Scale, fold
from watch_tables import DAY_S, KEY, MemoryTables

RULES = {
    "rules": [
        {"status": "error", "rate": 1.0},
        {"app": "search", "tag": "beta", "rate": 0.5},
        {"app": "search", "rate": 0.02},
        {"tag": "batch", "rate": 0.05},
    ]
}
T0 = 1_790_000_000.0


def entries(directory, drafts, *, sample_rate=0.2, **application):
    """Record drafts, and return what the spool has, by trace id."""
    with Capture(
        partial(SpoolWriter, directory),
        sample_rate=sample_rate,
        sampling=read_table(Sampling, RULES, source="test").rules,
        application=Application(**application),
    ) as capture:
        for draft in drafts:
            assert capture.record(draft)
    reader = SpoolReader(directory)
    found = [e for s in reader.segments() for e in reader.read(s.name, 0, max_entries=10**6).entries]
    return {e.trace.trace_id if isinstance(e, Captured) else e.trace_id: e for e in found}


def draft(k, **fields):
    return TraceDraft(trace_id=f"t{k}", started_at=T0, query="q", response="r", **fields)


@pytest.mark.parametrize(
    ("fields", "rate"),
    [
        ({}, 0.2),
        ({"app": "search"}, 0.02),
        ({"app": "search", "tags": ("x", "beta")}, 0.5),
        ({"tags": ("beta",)}, 0.2),
        ({"app": "search", "tags": ("batch",)}, 0.02),
        ({"tags": ("batch",)}, 0.05),
        ({"app": "search", "status": "error"}, 1.0),
    ],
)
def test_first_rule_that_matches(tmp_path, fields, rate):
    """Its rate is recorded with kept and skipped requests, and so many are kept."""
    found = entries(tmp_path / "spool", [draft(k, **fields) for k in range(1000)])
    kept = [e.trace.inclusion_probability for e in found.values() if isinstance(e, Captured)]
    skipped = [e.inclusion_probability for e in found.values() if isinstance(e, SampledOut)]
    assert 1000 == len(kept) + len(skipped)
    assert {rate} == {*kept, *skipped}
    assert abs(len(kept) - 1000 * rate) <= 4 * (1000 * rate * (1 - rate)) ** 0.5


def test_application_of_the_monitor(tmp_path):
    """Its name and tags count, and a higher rate keeps what a lower one keeps."""
    low = entries(tmp_path / "a", [draft(k) for k in range(500)], app="search")
    high = entries(tmp_path / "b", [draft(k) for k in range(500)], app="search", tags=("beta",))
    first, second = ({k for k, e in found.items() if isinstance(e, Captured)} for found in (low, high))
    assert first < second


def test_steps_of_an_integration(tmp_path):
    """A request that is assembled later has the rate of its draft."""
    requests = [
        Request(draft=draft(k, status="error"), steps=[Step(id="s", kind="chain", name="c", started_at=T0)])
        for k in range(50)
    ]
    found = entries(tmp_path / "spool", requests)
    assert {1.0} == {e.trace.inclusion_probability for e in found.values()}


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (
            {"rules": [{"app": "a", "rate": 0}]},
            "rules.0..rate must be a number above 0 and at most 1, .*no weight can .*, got 0",
        ),
        ({"rules": [{"app": "a", "rate": 1.1}]}, "got 1.1"),
        ({"rules": [{"app": "a", "rate": True}]}, "got True"),
        ({"rules": [{"app": "a"}]}, "rules.0..rate must be"),
        ({"rules": [{"rate": 0.5}]}, "rule 1 must have at least one of app, tag and status"),
        ({"rules": [{"statuss": "m", "rate": 0.5}]}, "statuss is not a setting. Did you mean 'status'"),
        ({"rules": [{"status": "failed", "rate": 0.5}]}, "status must be one of 'ok', 'error'"),
        ({"rules": [{"app": 5, "rate": 0.5}]}, "app must be a text, got 5"),
        (
            {"rules": [{"app": "a", "rate": 1}, {"app": "a", "tag": "b", "rate": 0.5}]},
            "rule 2 never applies, because rule 1",
        ),
        ({"rules": [{"feedback": "negative", "rate": 1}]}, "feedback is not a setting"),
        (
            {"rules": [{"app": "a", "rate": 1}, {"app": "a", "status": "error", "rate": 1}]},
            "rule 2 never applies, because rule 1",
        ),
        ({"rule": []}, "'sampling.rule' is not a setting"),
        ([], "must be a table with the keys of .sampling."),
    ],
)
def test_invalid_rules(tmp_path, table, message):
    """Each message names the rule, the value and what is allowed, in Python and in a file."""
    with pytest.raises(ConfigurationError, match=message):
        Monitor(store=tmp_path / "m.db", metrics="rouge_l", sampling=table)


def test_file(tmp_path):
    """A monitor reads the rules, and a command accepts a file with them."""
    config = tmp_path / "ragstone.toml"
    config.write_text('[[sampling.rules]]\napp = "a"\nrate = 0\n')
    with pytest.raises(ConfigurationError, match="got 0"):
        Monitor.from_config(config, store=tmp_path / "m.db", metrics="rouge_l")
    assert 2 == run_command("--config", config, "metrics").returncode
    config.write_text('[[sampling.rules]]\napp = "a"\nrate = 0.5\n')
    assert 0 == run_command("--config", config, "metrics").returncode


def sampled(*, weighted, seed, days=35, per_day=400):
    """Sessions of one request, whose bad answers have a rule of their own from day 21 on: 50% instead of 10%."""
    rng = np.random.default_rng(seed)
    found = []
    for i in range(days * per_day):
        day = (i + 0.5) / per_day
        value = float(rng.random() < 0.85)
        rate = 0.5 if day >= 21 and value == 0.0 else 0.1
        if rng.random() < rate:
            found.append(
                WatchedOutcome(
                    key=KEY,
                    trace_id=f"{i}",
                    session=f"{i}",
                    requested_at=T0 + day * DAY_S,
                    value=value,
                    probability=rate if weighted else 1.0,
                )
            )
    return found


@pytest.mark.parametrize("seed", range(3))
def test_rule_that_is_added_later_raises_no_alarm(seed):
    """With weights none, although the plain mean of the kept requests falls from 0.85 to 0.53; without weights one."""
    raised = {}
    for weighted in (True, False):
        tables = MemoryTables()
        tables.put(*sampled(weighted=weighted, seed=seed))
        fold(tables, now=T0 + 40 * DAY_S, options=Watch(), scales={KEY.metric: Scale(low=0.0, high=1.0)})
        raised[weighted] = [event for event, _ in tables.events if event == "alarm"]
    assert ([], ["alarm"]) == (raised[True], raised[False][:1])
