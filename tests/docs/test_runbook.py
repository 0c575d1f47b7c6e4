"""The runbook has a section for every alert that is shipped and every message of `watch`, and its commands run."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path

import pytest

from command_line import run_command
from ragstone.watch import all_alarms, render_alarm
from watched_store import make, open_store

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "how-to" / "production.md"
RULES = ROOT / "examples/deploy/prometheus/ragstone.rules.yml"
T0 = 1_790_000_000.0
SECTIONS = dict(
    re.findall(
        r"^### ([^\n]+)\n(.*?)(?=^##|\Z)",
        PAGE.read_text(encoding="utf-8").partition("\n## Runbook\n")[2],
        re.MULTILINE | re.DOTALL,
    )
)
COMMANDS = sorted(
    {
        line
        for text in SECTIONS.values()
        for block in re.findall(r"^```bash\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
        for line in block.splitlines()
    }
)


def anchor(heading):
    """The fragment of a heading in a URL."""
    return re.sub(r"[^\w-]", "", heading.lower().replace(" ", "-"))


@pytest.fixture
def desk(tmp_path, monkeypatch):
    """A folder with a store that has an open alarm."""
    monkeypatch.chdir(tmp_path)
    make(tmp_path / "ragstone.db", T0)
    return tmp_path


def test_each_rule_names_its_section():
    """In the annotation that an alert carries to the person who is called."""
    rules = RULES.read_text(encoding="utf-8")
    alerts = re.findall(r"- alert: (\w+)\n.*?runbook_url: docs/how-to/production.md#([\w-]+)\n", rules, re.DOTALL)
    assert rules.count("- alert:") == rules.count("runbook_url:") == len(alerts) >= 9
    places = {anchor(heading): heading for heading in SECTIONS}
    for alert, place in alerts:
        assert alert in places[place]


def test_each_message_has_a_section(desk):
    """By the words with which a message begins: both kinds of stream, feedback, the judge, and what follows an alarm."""
    with open_store(desk / "ragstone.db", mode="read") as store, store.watch.read() as tables:
        (alarm, *_) = all_alarms(tables)
    firsts = {
        event: render_alarm(alarm, event=event).partition("\n")[0] for event in ("alarm", "follow_up", "recovered")
    }
    assert firsts["alarm"].startswith("ALARM 1")
    assert " fell by about" in firsts["alarm"]
    assert "`ALARM 1 · " in SECTIONS["Quality fell"]
    for event, section in (("follow_up", "Follow-up"), ("recovered", "Recovered")):
        word = firsts[event].partition(" ")[0]
        assert f"`{word} 1 · ...`" in SECTIONS[section]
    words = {
        "Failures rose": "`failures of ",
        "The judge changed": "`the judge changed: ",
        "Feedback got worse": "Feedback of users",
    }
    for section, word in words.items():
        assert word in SECTIONS[section]
    source = (files("ragstone.watch") / "_text.py").read_text() + (
        files("ragstone.worker") / "_watching.py"
    ).read_text()
    assert all(word.strip("`") in source for word in words.values())


def test_each_section_has_a_command():
    """Except for messages that need no action."""
    assert {name for name, text in SECTIONS.items() if "```bash\nragstone " not in text} == {"Follow-up", "Recovered"}


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_run(desk, command):
    """As they are printed, in a folder with a store that has an open alarm."""
    program, *arguments = command.split()
    done = run_command(*arguments)
    assert "ragstone" == program
    assert 0 == done.returncode, done.stderr
    # An empty list is announced on stderr.
    assert done.stdout or re.fullmatch(r"0 (failed|pending)\n", done.stderr)
