"""Commands that write scores use models that somebody has named: in an option, in the environment or in the store."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from builders import make_trace
from command_line import run_command
from completions import complete
from ragstone.judges import OpenAICompatibleJudge
from ragstone.metrics import Udcg, resolve_metrics
from ragstone.monitor import Monitor
from ragstone.requests import TraceDraft
from ragstone.schema import Captured, Score
from ragstone.store import PlannedMetric, SqliteStore
from ragstone.testing import FakeJudge
from ragstone.worker import ScoringSetup, advise, read_ledger

URL = "http://127.0.0.1:9/v1"
ROW = {"query": "Why?", "contexts": ["Because."], "response": "Because.", "reference": "Because."}


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store with a pending request, and a file of rows to replay."""
    monkeypatch.chdir(tmp_path)
    Path("rows.jsonl").write_text(json.dumps(ROW), encoding="utf-8")
    path = tmp_path / "my app.db"
    with SqliteStore.open(path, mode="own") as opened:
        opened.traces.ingest("app", 1, [Captured(trace=make_trace("t1"))])
    return path


WRITING = {
    "worker": ("worker", "STORE", "--until-idle"),
    "ingest": ("ingest", "STORE", "--listen", "127.0.0.1:0"),
    "replay": ("replay", "rows.jsonl", "--store", "STORE"),
    "backfill": ("store", "backfill", "STORE", "--since", "1970-01-01"),
}


def run(store: Path, name: str, *options: str, **environment: str) -> Any:
    """Run a command that writes scores."""
    return run_command(*(str(store) if word == "STORE" else word for word in WRITING[name]), *options, **environment)


@pytest.mark.parametrize("metrics", ["ccrs.qr", "udcg", "exact_match"])
@pytest.mark.parametrize("name", WRITING)
def test_a_judge_that_nobody_has_named_is_refused(store: Path, name: str, metrics: str) -> None:
    """Each command that writes scores exits with 2 and changes no file if a metric or a criterion needs a judge without a name."""
    if metrics == "exact_match":
        Path("kind.toml").write_text(
            '[[criterion]]\nname = "kind"\ntext = "Is it kind?"\nneeds = ["response"]\nscale = "yes/no"\n',
            encoding="utf-8",
        )
        metrics += ",criterion@kind.toml"
    before = {path: path.read_bytes() for path in store.parent.rglob("*") if path.is_file()}

    done = run(store, name, "--metrics", metrics)

    assert 2 == done.returncode, done.stderr
    for text in ("needs a judge, and none is named", "--judge", "RAGSTONE_JUDGE", "lexical"):
        assert text in " ".join(done.stderr.split())
    after = {path: path.read_bytes() for path in store.parent.rglob("*") if path.is_file()}
    assert before == {path: after[path] for path in before}
    assert {path.suffix for path in after.keys() - before.keys()} <= {".db-shm", ".db-wal"}
    assert (1, ()) == ((ledger := read_ledger(store)).total.pending, ledger.plans)


def test_a_store_that_does_not_exist_is_not_made(tmp_path: Path) -> None:
    """A worker without a judge leaves no file if the store does not exist."""
    done = run_command("worker", tmp_path / "a.db")
    assert (2, True) == (done.returncode, "need a judge, and none is named" in done.stderr)
    assert [] == list(tmp_path.iterdir())


@pytest.mark.parametrize("name", WRITING)
def test_a_store_that_cannot_be_read_does_not_lack_a_judge(store: Path, name: str) -> None:
    """A command without a judge says that the store has another format version, and not that it does not name a judge."""
    with contextlib.closing(sqlite3.connect(store)) as db:
        db.execute("PRAGMA user_version = 99")
    done = run(store, name, "--metrics", "ccrs.qr")
    text = " ".join(done.stderr.split())
    assert (3, True, False) == (done.returncode, "has format version 99, and" in text, "a judge" in text)


@pytest.mark.parametrize("name", ["worker", "replay", "backfill"])
def test_metrics_without_models_need_no_name(store: Path, name: str) -> None:
    """A command without a judge scores if its metrics do not call models."""
    done = run(store, name, "--metrics", "exact_match")
    assert 0 == done.returncode, done.stderr
    assert "lexical" not in done.stderr + done.stdout


@pytest.mark.parametrize("name", ["worker", "replay", "backfill"])
@pytest.mark.parametrize("source", ["option", "environment", "configuration"])
def test_each_source_names_the_judge(store: Path, name: str, source: str) -> None:
    """An option, the environment or a configuration file names the judge, and lexical is a name."""
    Path("c.toml").write_text('[judge]\nurl = "lexical"\n', encoding="utf-8")
    if name == "backfill":
        assert 0 == run(store, "worker", "--metrics", "exact_match").returncode
    words = [str(store) if word == "STORE" else word for word in WRITING[name]]
    before = ["--config", "c.toml"] if source == "configuration" else []
    options = ["--judge", "lexical"] if source == "option" else []
    environment = {"RAGSTONE_JUDGE": "lexical"} if source == "environment" else {}
    done = run_command(*before, *words, "--metrics", "ccrs.qr", *options, **environment)
    assert 0 == done.returncode, done.stderr
    with SqliteStore.open(store, mode="read") as opened:
        assert {"lexical baseline"} == {outcome.judge for outcome in opened.outcomes.read(metric="ccrs.qr")}


def test_an_embedder_is_named_like_a_judge(store: Path) -> None:
    """A metric that embeds texts is refused without the name of an embedder, and the record has it afterwards."""
    metric = next(m.card.name for m in resolve_metrics("cosine"))
    options = ["--metrics", metric, "--judge", "lexical"]
    refused = run(store, "worker", *options)
    assert (2, True) == (refused.returncode, "needs an embedder" in refused.stderr)
    assert () == read_ledger(store).plans
    run(store, "worker", *options, "--set", "embedder=lexical")
    assert {"scoring.metrics": [metric], "judge.url": "lexical", "embedder.url": "lexical"} == plan_of(store)


def plan_of(store: Path) -> dict[str, Any]:
    """Return the settings of the plan that applies."""
    return read_ledger(store).plans[-1].settings


def test_a_judge_that_is_an_object_has_to_be_named(tmp_path: Path) -> None:
    """The plan names an object and its hash. A worker refuses without another judge, and the hint has a placeholder."""
    path = tmp_path / "a.db"
    with Monitor(judge=FakeJudge(), metrics=["ccrs.qr"], store=path) as monitor:
        monitor.record(TraceDraft(query="Why?", response="So."))
        assert monitor.drain()
    judge = plan_of(path)["judge.url"]
    assert f"object:{FakeJudge().identity.name} {FakeJudge().identity.hash[:12]}" == judge
    refused = run_command("worker", path)
    assert (2, True) == (refused.returncode, judge in " ".join(refused.stderr.split()))
    with SqliteStore.open(path, mode="own") as opened:
        opened.traces.ingest("app", 2, [Captured(trace=make_trace("t2"))])
    (sentence,) = advise(path, read_ledger(path))
    assert sentence.endswith("--until-idle --judge=JUDGE --replan")
    assert (
        f"Replace JUDGE (http://HOST:PORT/v1, openai:MODEL, or lexical to try the setup), which is {judge}" in sentence
    )


TABLE = {"url": URL, "model": "m", "api_key_env": "KEY", "score_mode": "sampled", "draws": 7, "timeout_s": 3.0}
READER = {"url": URL, "prompt": "prompt.txt", "abstention": ["None.", "I do not know."]}


@pytest.mark.parametrize(
    ("metrics", "models", "options"),
    [
        ("exact_match", {"judge": URL}, {}),
        (["ccrs", "rouge_l"], {"judge": URL}, {"judge.url": URL}),
        ("ccrs", {"judge": "openai:gpt"}, {"judge.url": "openai:gpt"}),
        (
            "ccrs",
            {"judge": TABLE},
            {
                "judge.url": URL,
                "judge.model": "m",
                "judge.api_key_env": "KEY",
                "judge.score_mode": "sampled",
                "judge.draws": 7,
            },
        ),
        ("ccrs", {"judge": {"url": URL, "headers": {"x-key": "secret"}}}, {"judge.url": f"secret:{URL} (headers)"}),
        ("ccrs", {"judge": {"url": URL, "extra_body": {"k": "secret"}}}, {"judge.url": f"secret:{URL} (extra_body)"}),
        ("ccrs", {"judge": "http://user:secret@host/v1"}, {"judge.url": "secret:http://host/v1 (url)"}),
        ("ccrs", {"judge": "http://host/v1?key=secret"}, {"judge.url": "secret:http://host/v1 (url)"}),
        ("ccrs", {}, {"judge.url": None}),
        ("udcg", {"judge": "lexical", "reader": URL}, {"judge.url": "lexical", "reader.url": URL}),
    ],
)
def test_a_setup_describes_its_options_without_secrets(
    monkeypatch: pytest.MonkeyPatch, metrics: Any, models: dict[str, Any], options: dict[str, Any]
) -> None:
    """Names become options. Objects, secrets and tables that commands cannot express become None."""
    monkeypatch.delenv("RAGSTONE_JUDGE", raising=False)
    for name in ("KEY", "OPENAI_API_KEY"):
        monkeypatch.setenv(name, "secret")
    found = ScoringSetup(metrics, **models, may_lack_models=True).plan
    assert {"scoring.metrics": metrics if isinstance(metrics, list) else [metrics]} | options == found
    assert "secret" not in json.dumps(found).replace("secret:", "")


def test_objects_are_in_a_plan_by_name_and_hash() -> None:
    """A judge that is an object is named with its hash, and a metric object like its name if the command line makes the same."""
    judge = OpenAICompatibleJudge(URL, model="m", api_key="secret")
    plan = ScoringSetup(resolve_metrics("ccrs.qr"), judge=judge).plan
    assert {
        "scoring.metrics": ["ccrs.qr"],
        "judge.url": f"object:{judge.identity.name} {judge.identity.hash[:12]}",
    } == plan
    assert "secret" not in json.dumps(plan)


@pytest.mark.parametrize("role", ["judge", "reader", "embedder"])
def test_the_endpoint_of_openai_is_on_record(monkeypatch: pytest.MonkeyPatch, role: str) -> None:
    """A model at OPENAI_BASE_URL is recorded with this URL, because its name alone is another model in another environment."""
    monkeypatch.setenv("OPENAI_BASE_URL", URL)
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    setup = ScoringSetup(
        ["ccrs", "udcg", "cosine"], **({"judge": "lexical", "embedder": "lexical"} | {role: "openai:m"})
    )
    recorded = {f"{role}.url": URL, f"{role}.model": "m", f"{role}.api_key_env": "OPENAI_API_KEY"}
    assert setup.plan | recorded == setup.plan

    again = ScoringSetup("ccrs", judge={"url": URL, "model": "m", "api_key_env": "OPENAI_API_KEY"})
    assert again.judge.identity == ScoringSetup("ccrs", judge="openai:m").judge.identity
    monkeypatch.setenv("OPENAI_BASE_URL", "http://user:secret@host/v1")
    assert ScoringSetup("ccrs", judge="openai:m").plan["judge.url"] == "secret:http://host/v1 (url)"


@pytest.mark.parametrize("option", ["judge", "reader", "embedder", "RAGSTONE_JUDGE"])
@pytest.mark.parametrize("url", ["HTTP://user:secret@host/v1", "htps://host/v1?key=secret", "user:secret@host/v1"])
def test_an_unknown_model_is_shown_without_secrets(store: Path, option: str, url: str) -> None:
    """The message about a misspelled URL contains its host, and neither its credentials nor its query."""
    options = ["--metrics", "ccrs,udcg,cosine", "--set", "embedder=lexical"]
    if option == "RAGSTONE_JUDGE":
        done = run(store, "worker", *options, RAGSTONE_JUDGE=url)
    else:
        named = ["--set", f"embedder={url}"] if option == "embedder" else [f"--{option}", url]
        done = run(store, "worker", *options, "--judge", "lexical", *named)
    assert (2, False, True) == (done.returncode, "secret" in done.stderr, "host/v1' is unknown" in done.stderr)


def test_a_placeholder_is_not_taken_for_a_model(store: Path) -> None:
    """A pasted `--judge=JUDGE` is refused, and the message does not suggest `openai:JUDGE`."""
    done = run(store, "worker", "--judge=JUDGE")
    assert (2, True, False) == (done.returncode, "'JUDGE' is unknown" in done.stderr, "openai:JUDGE" in done.stderr)


def test_files_of_metrics_are_recorded_with_absolute_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of criteria is on record so that each directory finds it, or not at all if `--metrics` would split its name."""
    monkeypatch.chdir(tmp_path)
    for number, name in enumerate(("kind.toml", "kind,.toml", "10")):
        Path(name).write_text(
            f'[[criterion]]\nname = "kind{number}"\ntext = "Is it kind?"\nneeds = ["response"]\nscale = "yes/no"\n',
            encoding="utf-8",
        )
    metrics = ["criterion@kind.toml", "ndcg@10", 'criterion@"kind,.toml"']
    assert [f"criterion@{tmp_path / 'kind.toml'}", "ndcg@10", f'criterion@"{tmp_path / "kind,.toml"}"'] == (
        ScoringSetup(metrics, judge="lexical").plan["scoring.metrics"]
    )


def test_a_table_of_the_reader_becomes_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The options of a reader include its prompt, with an absolute path, and its replies without an answer."""
    prompt = tmp_path / "prompt.txt"
    prompt.write_text("{context} {question}", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    setup = ScoringSetup("udcg", judge="lexical", reader=READER)
    assert {
        "scoring.metrics": ["udcg"],
        "judge.url": "lexical",
        "reader.url": URL,
        "reader.prompt": str(prompt),
        "reader.abstention": ["None.", "I do not know."],
    } == setup.plan


def test_a_metric_that_differs_from_the_one_of_its_name_is_an_object() -> None:
    """A plan does not name a metric object like the metric that the command line would make in another way."""
    judge = OpenAICompatibleJudge(URL, model="m")
    reader = ScoringSetup("udcg", judge=judge).reader
    (name,) = ScoringSetup([Udcg(reader=reader)], judge="lexical").plan["scoring.metrics"]
    assert name.startswith("object:udcg ")


def test_outcomes_of_another_judge_are_counted_and_not_hidden(tmp_path: Path) -> None:
    """`report`, `traces` and `status` say how many outcomes another judge has made, and how to show them."""
    path = tmp_path / "my app.db"
    with SqliteStore.open(path, mode="own") as store:
        store.plan.set([PlannedMetric(name="ccrs.qr", version="1", judge_hash="old")], [])
        store.traces.ingest("app", 3, [Captured(trace=make_trace(f"t{i}")) for i in range(3)])
        for i in range(3):
            score = Score(
                sample_id=f"t{i}",
                metric="ccrs.qr",
                metric_version="1",
                value=0.5,
                method="exact",
                judge="Old",
                judge_hash="old",
            )
            complete(store, f"t{i}", [score])
        assert store.ledger().other_outcomes == {}
        store.plan.set([PlannedMetric(name="ccrs.qr", version="1", judge_hash="new")], [])
        assert store.ledger().other_outcomes == {"Old": 3}
    for command in ("report", "traces", "status"):
        done = run_command(command, path)
        text = " ".join((done.stdout + done.stderr).split())
        assert "3 stored outcomes are of" in text, text
        assert f"ragstone store export '{path}' outcomes.jsonl" in text
        assert "'Old': 3" in text
    assert json.loads(run_command("status", path, "--json").stdout)["other_outcomes"] == {"Old": 3}
    out = tmp_path / "outcomes.jsonl"
    assert 0 == run_command("store", "export", path, out).returncode
    assert 3 == len(out.read_text(encoding="utf-8").splitlines())


def test_no_command_is_advised_while_a_worker_runs(tmp_path: Path) -> None:
    """The text about pending requests has no command while a process owns the store and scores them."""
    path = tmp_path / "a.db"
    with SqliteStore.open(path, mode="own") as store:
        store.traces.ingest("app", 1, [Captured(trace=make_trace("t1"))])
        assert ["1 request is pending. The process that owns the store scores them."] == advise(path, read_ledger(path))
