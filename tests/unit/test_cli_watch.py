"""`ragstone watch` and what other commands say about alarms, in process."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import re
import shutil
import time

import pytest

from command_line import run_command
from fake_servers import RecordingServer
from ragstone.cli import _watch
from ragstone.settings import Watch
from ragstone.store import open_store
from ragstone.testing import FakeJudge
from ragstone.watch import read_requests, read_streams
from ragstone.worker import ScoringSetup, Worker, spool_directory
from ragstone.worker._watching import requests_folder
from watched_store import DAY_S, fill, make


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A store with an open alarm; the last session was a few hours ago."""
    return make(tmp_path_factory.mktemp("watched") / "a.db", time.time() - 11.6 * DAY_S)


@pytest.fixture
def store(made, tmp_path):
    """A copy of it."""
    return shutil.copy(made, tmp_path / "a.db")


def watch(store, *arguments, **environment):
    return run_command("watch", store, *arguments, **environment)


def test_streams_and_the_alarm(store):
    """Each stream with what it can find, and the alarm in full."""
    text = watch(store).stdout
    assert re.search(r"qa-bot · ccrs\.qr +alarm +0\.\d+ +0\.78\d", text)
    assert re.search(r"its failures +day 1\d of 14, too imprecise on day 7 +\d\.\d%", text)
    assert "at most 1" in text
    alarm = text[text.index("ALARM 1") :]
    assert "ALARM 1 · qa-bot · Question relevance (ccrs.qr) fell by about" in alarm
    assert re.search(r"where      release=2\.4\.1: -(3\d|4\d)\.\d points; no other slice differs \(2 slices", alarm)
    assert re.search(r"failures   \d\.\d%, before [1-4]\.\d%", alarm)
    assert "Sampling unchanged: 100%" in alarm
    assert f"ragstone traces {store} --alarm 1   (10 shown, one per session)" in alarm


def test_old_numbers_are_not_shown_as_current(tmp_path):
    """A stream without sessions for more than a week has no mean and no delays, and a note counts it."""
    path = make(tmp_path / "a.db", time.time() - 51 * DAY_S)
    done = watch(path, "--fail-on-alarm")
    assert re.search(r"qa-bot · ccrs\.qr +no session for 40 days +0\.78\d *\n", done.stdout)
    assert f"not watched now: 2 streams without scored sessions. ragstone status {path}" in done.stdout
    assert 1 == done.returncode
    assert [None, None] == [s["mean_7_days"] for s in json.loads(watch(path, "--json").stdout)["streams"]]
    assert "watched streams: 2 no session for 40 days " in run_command("status", path).stdout


def test_streams_of_two_judges_are_told_apart(store):
    """The rows of a metric that was scored by two judges in the last week name version and judge."""
    with open_store(store, mode="own") as opened, opened.watch.change() as tables:
        for row in tables.streams():
            tables.save_stream(dataclasses.replace(row, key=row.key._replace(judge_hash="another1234")))
    text = watch(store).stdout
    assert [2, 2] == [text.count(f"(version 1, judge {judge})") for judge in ("j1", "another1")]


def test_json_and_the_gate(store):
    """The same as JSON; the exit code is 1 only if asked for."""
    done = watch(store, "--json", "--fail-on-alarm")
    found = json.loads(done.stdout)
    assert (1, 0) == (done.returncode, watch(store).returncode)
    assert {("score", "alarm"), ("failures", "learning")} == {(s["kind"], s["phase"]) for s in found["streams"]}
    assert {"score": None, "failures": 0} == {s["kind"]: s["sessions_needed"] for s in found["streams"]}
    (alarm,) = [a for a in found["alarms"] if a["number"] == 1]
    assert ("qa-bot", "open", False) == (alarm["key"]["app"], alarm["state"], alarm["muted"])
    assert json.loads(watch(store, "--alarm", "1", "--json").stdout)["number"] == 1


def test_traces_and_status_show_the_alarm(store):
    """The traces are those of the release, worst first, and `status` has one line for each alarm."""
    traces = json.loads(run_command("traces", store, "--alarm", "1", "--json", "--full").stdout)
    assert 10 == len(traces)
    listed = run_command("status", store).stdout
    assert "watched streams: 1 alarm, 1 learning   ragstone watch" in listed
    assert "ALARM 1 · qa-bot" in listed


def test_accept(store):
    """The alarm is closed and its stream learns from the change on."""
    assert "alarm 1: accept done" in watch(store, "--accept", "1").stdout
    text = watch(store).stdout
    assert "no open alarm" in text
    needed = re.search(r"ccrs\.qr +day \d of 7, ([\d,]+) more sessions +0\.", text)[1]
    assert f"watched streams: 2 learning (up to {needed} more sessions)" in run_command("status", store).stdout
    refused = watch(store, "--accept", "1")
    assert (2, True) == (refused.returncode, "is not open: it was accepted" in refused.stderr)


@pytest.mark.parametrize(("kind", "min_drop", "reads"), [("score", 0.02, [300, None]), ("failures", 0.2, [300])])
def test_a_part_of_many_units_is_read_if_it_is_enough(store, monkeypatch, kind, min_drop, reads):
    """The status of a million sessions took 20 s. If the part is not enough, all are read, with the same result."""
    asked = []
    options = Watch(min_drop=min_drop)
    with open_store(store, mode="read") as opened, opened.watch.read() as tables:
        (stream,) = [stream for stream in read_streams(tables) if stream.kind == kind]
        stream.relearn(stream.started_at)
        needed = _watch._units_needed(tables, stream, options)
        read = tables.unit_amounts
        monkeypatch.setattr(_watch, "_EXAMINED", 300)
        monkeypatch.setattr(
            type(tables), "unit_amounts", lambda _, *span, limit=None: asked.append(limit) or read(*span, limit=limit)
        )
        assert needed == _watch._units_needed(tables, stream, options)
    assert (reads, kind == "score") == (asked, needed > 0)


def test_mute(store):
    """A muted alarm does not fail the gate."""
    assert 0 == watch(store, "--mute", "1", "--until", "3d").returncode
    done = watch(store, "--fail-on-alarm")
    assert 0 == done.returncode
    assert "muted alarms: 1" in done.stdout


def test_request_for_the_worker_that_owns_the_store(store):
    """While a worker owns the file, the command leaves a request, which the worker's next fold does."""
    with open_store(store, mode="own"):
        said = watch(store, "--accept", "1").stdout
    assert "accept requested. The worker of" in said
    folder = requests_folder(spool_directory(store))
    assert [1] == [request.number for _, request in read_requests(folder)]
    worker = Worker(store, ScoringSetup("ccrs.qr", judge=FakeJudge()))
    asyncio.run(asyncio.wait_for(worker.run(until_idle=True), 60))
    assert [] == list(read_requests(folder))
    assert "no open alarm" in watch(store).stdout


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--alarm", "9"], 2, "alarm 9 not found. This store has only alarm 1: "),
        (["--accept", "9"], 2, "alarm 9 not found"),
        (["--mute", "1"], 2, "needs --until"),
        (["--mute", "1", "--until", "soon"], 2, "must be a time such as"),
        (["--mute", "1", "--until", "2001-01-01"], 2, "must be in the future"),
        (["--until", "3d"], 2, "--until is the end of --mute"),
        (["--test-notify"], 2, "needs [watch] notify"),
    ],
)
def test_refusals(made, arguments, code, message):
    """Each message names the value and the way out."""
    done = watch(made, *arguments)
    assert code == done.returncode
    assert message in " ".join(done.stderr.split())


def test_store_without_sessions(tmp_path):
    """Before the first closed session, the command says so."""
    path = tmp_path / "new.db"
    open_store(path, mode="own").close()
    assert "no closed sessions so far" in watch(path).stdout


def test_worker_folds_and_notifies(tmp_path, caplog):
    """The worker folds what has closed, and posts the alarm and its follow-up to Slack and a webhook, once each."""
    path = tmp_path / "a.db"
    with open_store(path, mode="own") as store:
        fill(store, time.time() - 11.6 * DAY_S)
    with RecordingServer() as slack, RecordingServer() as hook:
        options = Watch(notify=(f"slack:{slack.address}/services/T/B/secret", f"webhook:{hook.address}/alarms"))
        for _ in range(2):
            worker = Worker(path, ScoringSetup("ccrs.qr", judge=FakeJudge()), watch=options)
            asyncio.run(asyncio.wait_for(worker.run(until_idle=True), 120))
    texts = [json.loads(request.content)["text"] for request in slack.requests]
    assert [1, 1] == [sum(text.startswith(f"*{word} 1 · qa-bot") for text in texts) for word in ("ALARM", "FOLLOW-UP")]
    assert "```since " in texts[0]
    bodies = [json.loads(request.content) for request in hook.requests]
    assert len(texts) == len(bodies) == len({body["id"] for body in bodies})
    assert ("alarm", 1, "qa-bot") == (
        bodies[0]["event"],
        bodies[0]["alarm"]["number"],
        bodies[0]["alarm"]["key"]["app"],
    )
    logged = [record.getMessage().split(" · ")[0] for record in caplog.records if " · qa-bot · " in record.getMessage()]
    assert ["ragstone watch: ALARM 1", "ragstone watch: FOLLOW-UP 1"] == logged
    states = run_command("store", "deliveries", path, "--state", "sent").stdout
    assert "secret" not in states
    assert "slack:127.0.0.1" in states


def test_configuration_of_the_worker(tmp_path):
    """`[watch]` is read from the file; a target outside of the range is refused before anything starts."""
    path = tmp_path / "ragstone.toml"
    path.write_text('[watch]\nmin_drop = 0.1\n[watch.targets]\n"exact_match" = 1.0\n', encoding="utf-8")
    done = run_command("--config", path, "worker", tmp_path / "b.db", "--metrics", "exact_match", "--until-idle")
    assert 2 == done.returncode
    assert "the target of 'exact_match' must be strictly between 0 and 1, got 1" in " ".join(done.stderr.split())
    path.write_text("[watch]\nmin_dorp = 0.1\n", encoding="utf-8")
    done = run_command("--config", path, "worker", tmp_path / "b.db", "--judge", "lexical", "--until-idle")
    assert "'watch.min_dorp' is not a setting. Did you mean 'min_drop'?" in " ".join(done.stderr.split())


def test_two_destinations_of_one_name_are_refused(tmp_path):
    """What one has received would count as sent to both, and one that fails would lose it."""
    path = tmp_path / "ragstone.toml"
    path.write_text('[watch]\nnotify = ["otlp:http://host/a", "otlp:http://host/b"]\n', encoding="utf-8")
    done = run_command("--config", path, "worker", tmp_path / "b.db", "--judge", "lexical", "--until-idle")
    message = "sinks 1 and 2 have one name, 'otlp:host:80', and a store counts by name what was sent."
    assert (2, True) == (done.returncode, message in " ".join(done.stderr.split()))


def test_test_notify(tmp_path):
    """A test message reaches each destination."""
    path = tmp_path / "ragstone.toml"
    with RecordingServer() as slack:
        path.write_text(f'[watch]\nnotify = ["slack:{slack.address}/x"]\n', encoding="utf-8")
        done = run_command("--config", path, "watch", "any", "--test-notify")
    assert "sent to slack:127.0.0.1" in done.stdout
    assert json.loads(slack.requests[0].content)["text"].startswith("*TEST of `ragstone watch`")
