"""What coding agents use: the skill in the wheel, short JSON, and the read commands as tools of MCP."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import re
import subprocess
import sys
from importlib.resources import files
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from command_line import MAIN, app, environment, run_command
from ragstone._util.short_json import MAX_BYTES, shorten

SECRET = "canary"


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """A store with 40 scored requests, whose texts and metadata contain a word that no other text has."""
    folder = tmp_path_factory.mktemp("agents")
    rows = [
        {
            "id": f"r{i}",
            "query": f"What is the {SECRET} number {i}?",
            "contexts": [{"id": f"p{i}", "text": f"The {SECRET} number is {i}. " * 20, "relevance": 1}] * 4,
            "response": f"The {SECRET} is {i}." if i % 2 else "I do not know.",
            "reference": f"The {SECRET} is {i}.",
            "metadata": {"topic": f"{SECRET}-{i % 2}"},
        }
        for i in range(40)
    ]
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    path = str(folder / "s.db")
    done = run_command("replay", str(folder / "rows.jsonl"), "--store", path, "--judge", "lexical", "--metrics", "ccrs")
    assert 0 == done.returncode, done.stderr
    return path


def skill() -> str:
    """The text of the skill."""
    return (files("ragstone") / ".agents" / "skills" / "ragstone" / "SKILL.md").read_text(encoding="utf-8")


def test_the_skill_has_the_layout_of_agentskills():
    """The name is that of the folder, and name and description are within their limits."""
    front = yaml.safe_load(skill().split("---")[1])
    assert "ragstone" == front["name"]
    assert 0 < len(front["description"]) <= 1024
    assert len(skill().splitlines()) <= 500


def test_every_command_and_option_of_the_skill_exists():
    """A renamed command or option must be renamed in the skill."""
    from typer.main import get_command

    commands = get_command(app).commands
    used = re.findall(r"`ragstone ([a-z]+)([^`]*)`", skill())
    assert {"evaluate", "report", "traces", "compare", "status"} <= {name for name, _ in used}
    for name, rest in used:
        known = {opt for parameter in commands[name].params for opt in parameter.opts}
        assert set(re.findall(r"--?[a-z][a-z-]*", rest)) <= known | {"--help"}, name


@pytest.mark.parametrize(
    "value",
    [
        {"rows": [{"text": "x" * 1000, "parts": list(range(100))} for _ in range(100)]},
        {"by_id": {f"id{i}": i for i in range(10_000)}, "one": 1},
        {"a": {"b": [1] * 9000}, "c": ["é" * 50] * 500},
        {"text": "x" * 100_000},
    ],
)
def test_short_results_have_8_kb_and_count_what_is_left_out(value):
    """For each list, kept and left out items are all items."""
    short = shorten(value, "--full")
    assert len(json.dumps(short)) <= MAX_BYTES
    left_out = short["left_out"]
    assert "--full" == left_out["everything"]
    if "rows" in value:
        kept = len(short["rows"])
        assert 100 == kept + left_out["rows[]"]
        parts = sum(len(row["parts"]) for row in short["rows"])
        assert 1 <= parts <= 5 * kept
    if "a" in value:
        assert 9000 == len(short["a"]["b"]) + left_out["a.b[]"]
    if "by_id" in value:
        assert 10_000 == len(short["by_id"]) + left_out["by_id[]"]


def test_a_short_trace_is_not_read_as_a_sample(store, tmp_path):
    """Its texts are cut, so scores of it would be wrong."""
    for name, more in (("short", []), ("full", ["--full"])):
        (tmp_path / f"{name}.json").write_text(run_command("traces", store, "r0", "--json", *more).stdout)
    assert "left_out" in (tmp_path / "short.json").read_text()
    refused = run_command("evaluate", str(tmp_path / "short.json"), "--metrics", "exact_match")
    assert (2, True) == (refused.returncode, "its texts are cut. Print the trace with --full" in refused.stderr)
    assert 0 == run_command("evaluate", str(tmp_path / "full.json"), "--metrics", "exact_match").returncode


def test_a_small_result_is_whole():
    """Without `left_out` nothing is missing."""
    value = {"rows": [1, 2], "text": "x"}
    assert value == shorten(value, "--full")


@pytest.mark.parametrize("command", ["report STORE", "traces STORE", "traces STORE r0", "compare STORE OTHER"])
def test_json_is_short_unless_it_is_full(store, command, tmp_path):
    """At most 8 kB, with how to get the rest, and --full has all."""
    words = [{"STORE": store, "OTHER": f"other={store}"}.get(word, word) for word in command.split()]
    short, full = (run_command(*words, "--json", *more) for more in ([], ["--full"]))
    assert (0, 0) == (short.returncode, full.returncode), short.stderr + full.stderr
    assert len(short.stdout) <= MAX_BYTES + 1
    whole = json.loads(full.stdout)
    whole = {"answers": whole} if isinstance(whole, list) else whole
    assert whole.keys() == json.loads(short.stdout).keys() - {"left_out"}
    if len(json.dumps(whole)) > MAX_BYTES:
        assert "run the command again with --full" == json.loads(short.stdout)["left_out"]["everything"]


def use(store, *calls, options=()):
    """Start the command, and return its tools and the results of calls, with the client of the SDK."""
    mcp = pytest.importorskip("mcp")

    async def talk():
        parameters = mcp.StdioServerParameters(
            command=sys.executable, args=["-c", MAIN, "view", store, "--mcp", *options], env=environment({})
        )
        async with mcp.Client(parameters) as client:
            tools = (await client.list_tools()).tools
            return tools, [await client.call_tool(name, arguments) for name, arguments in calls]

    return asyncio.run(talk())


ALL = (
    ("status", {}),
    ("report", {}),
    ("worst", {"n": 2}),
    ("compare", {"before": "-3650d..-1825d", "after": "-1825d.."}),
    ("alarms", {}),
)


def test_tools_read_the_store_without_texts(store):
    """Each is marked as read-only, is short, and contains neither texts nor metadata."""
    tools, results = use(store, *ALL)
    assert ["alarms", "compare", "report", "status", "worst"] == sorted(tool.name for tool in tools)
    assert all(tool.annotations.read_only_hint and tool.description for tool in tools)
    texts = [result.content[0].text for result in results]
    assert [] == [text for text in texts if SECRET in text]
    assert max(map(len, texts)) <= MAX_BYTES
    found = dict(zip((name for name, _ in ALL), texts, strict=True))
    assert 40 == json.loads(found["status"])["total"]["captured"]
    assert 40 == json.loads(found["report"])["n_samples"]
    first = json.loads(found["worst"])["answers"][0]
    assert {"id", "cause", "scores", "passages"} <= first.keys()
    assert [] == json.loads(found["alarms"])["alarms"]


def test_texts_are_shown_if_they_are_asked_for(store):
    """The worst answers then have their question."""
    _, (worst,) = use(store, ("worst", {"n": 1}), options=["--texts"])
    assert SECRET in json.loads(worst.content[0].text)["answers"][0]["query"]


def test_invalid_calls_are_errors_with_the_message_of_the_command(store):
    """A period cannot name another file, and with --texts, a wrong cause names the causes."""
    calls = (("report", {"period": "/etc/x@.."}), ("worst", {"cause": "--data=/etc/passwd"}))
    _, results = use(store, *calls, options=["--texts"])
    assert [True, True] == [result.is_error for result in results]
    assert "invalid period" in results[0].content[0].text
    assert "Causes: no_relevant_passage" in results[1].content[0].text


def test_messages_of_errors_are_hidden_with_the_texts(store, tmp_path):
    """The error of a destination and of a damaged row quote what they are about: without --texts, nothing of it is shown."""
    import sqlite3

    damaged = tmp_path / f"{SECRET}.db"
    with sqlite3.connect(store) as source, sqlite3.connect(damaged) as db:
        source.backup(db)
        db.execute("INSERT INTO sinks VALUES ('hook', ?)", (f"HTTP 401 for {SECRET}",))
        delivery = (
            "INSERT INTO outbox (kind, item_id, sink, since, next_try, last_error) SELECT 'outcome', outcome_id, "
        )
        db.execute(f"{delivery} 'hook', 0, 0, ? FROM outcomes LIMIT 1", (f"HTTP 500 for {SECRET}",))
        db.execute("UPDATE counters SET n = n + 1 WHERE name = 'captured'")
    for options, is_shown in (([], False), (["--texts"], True)):
        _, results = use(str(damaged), *ALL, options=options)
        assert (True, is_shown) == (results[0].is_error, SECRET in results[0].content[0].text)
        assert is_shown or not any(SECRET in result.content[0].text for result in results)
    with sqlite3.connect(damaged) as db:
        db.execute("UPDATE counters SET n = n - 1 WHERE name = 'captured'")
    for options, is_shown in (([], False), (["--texts"], True)):
        _, results = use(str(damaged), ALL[0], options=options)
        assert (False, is_shown) == (results[0].is_error, SECRET in results[0].content[0].text)
        assert is_shown == (f"HTTP 401 for {SECRET}" in results[0].content[0].text)


def test_a_store_without_the_sdk_names_the_extra(store):
    """The error says what to install."""
    program = f"import sys; sys.modules['mcp'] = None; {MAIN}"
    done = subprocess.run(
        [sys.executable, "-c", program, "view", store, "--mcp"],
        capture_output=True,
        text=True,
        env=environment({}),
        check=False,
    )
    assert (2, True) == (done.returncode, "ragstone[mcp]" in done.stderr), done.stderr


def test_the_built_documentation_has_its_pages_as_markdown(tmp_path):
    """`llms.txt` lists each page by section with its first sentence, without links, and next to it is the Markdown."""
    path = Path(__file__).parents[2] / ".ci" / "docs_hooks.py"
    spec = importlib.util.spec_from_file_location("docs_hooks_for_agents", path)
    hooks = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hooks)
    text = "# Gate\n\nA gate is [a command](cli.md). It fails.\n"
    section = SimpleNamespace(title="Compare")
    page = SimpleNamespace(title="Gate", file=SimpleNamespace(src_uri="how-to/gate.md"), ancestors=[section], meta={})
    assert text == hooks.on_page_markdown(text, page=page)
    config = {"site_dir": str(tmp_path), "site_name": "Ragstone", "site_description": "Scores."}
    hooks.on_post_build(config=config)
    assert text == (tmp_path / "how-to" / "gate.md").read_text()
    expected = "# Ragstone\n\n> Scores.\n\n## Compare\n\n- [Gate](how-to/gate.md): A gate is a command.\n"
    assert expected == (tmp_path / "llms.txt").read_text()
