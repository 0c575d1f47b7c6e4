"""The reference pages are complete: what the code offers stands on them."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import get_args

import pytest

from command_line import app
from ragstone.cli._exit_codes import ExitCode
from ragstone.metrics import all_metrics
from ragstone.monitor._config import CONFIGURABLE
from ragstone.schema import FIELD_ALIASES, FailureKind, Interval, Sample, Score, Trace
from ragstone.sinks import Delivery
from ragstone.sinks._otlp_event import evaluation_attributes
from ragstone.sinks._row import outcome_row

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"


def _words(page: str) -> set[str]:
    """What stands in code marks on a page, split at commas and blanks."""
    text = (REFERENCE / page).read_text(encoding="utf-8")
    return {word for code in re.findall(r"`([^`\n]+)`", text) for word in re.split(r"[,\s]+", code)}


@pytest.fixture
def delivery() -> Delivery:
    """A score with everything there can be."""
    interval = Interval(low=0.1, high=0.9, method="x")
    score = Score(
        sample_id="t",
        metric="m",
        metric_version="1",
        judge="j",
        judge_hash="h",
        prompt_hash="p",
        value=0.5,
        interval=interval,
        method="x",
        explanation="why",
    )
    return Delivery(outcome=score, trace_id="t", run_id="r", requested_at=1.0)


def test_every_metric_and_failure_kind():
    """`metrics.md` names every metric of ours and every way to fail."""
    ours = {m.card.name for m in all_metrics() if type(m).__module__.startswith("ragstone.")}
    assert ours | set(get_args(FailureKind)) <= _words("metrics.md")


def test_every_extra_and_distribution():
    """The page on installing has a row for each extra of the core, and for each distribution."""
    text = (REFERENCE.parent / "tutorial" / "install.md").read_text(encoding="utf-8")
    root = REFERENCE.parents[1]
    projects = [
        tomllib.loads(path.read_text(encoding="utf-8"))["project"]
        for path in (*root.glob("packages/*/pyproject.toml"), *root.glob("integrations/*/pyproject.toml"))
    ]
    extras = {extra for project in projects for extra in project.get("optional-dependencies", ())}
    assert sorted(extras) == re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE)
    assert sorted(project["name"] for project in projects) == sorted(
        re.findall(r"\| `([a-z-]+)` \|", text)[: len(projects)]
    )


def test_every_variable_of_the_environment():
    """`environment.md` names every variable of ours that the code reads."""
    root = REFERENCE.parents[1]
    sources = [*root.glob("packages/*/src/**/*.py"), *root.glob("integrations/*/src/**/*.py")]
    read = {
        name for path in sources for name in re.findall(r"RAGSTONE_[A-Z_]*[A-Z]\b", path.read_text(encoding="utf-8"))
    }
    assert "RAGSTONE_JUDGE" in read
    assert [] == sorted(read - _words("environment.md"))


def test_every_key_of_a_configuration():
    """The page on configuration files lists the arguments of `Monitor` that a file can set, in their order."""
    text = (REFERENCE.parent / "how-to" / "configuration.md").read_text(encoding="utf-8")
    (listed,) = [
        line for line in text.splitlines() if line.startswith("The top of the file may contain these arguments")
    ]
    assert list(CONFIGURABLE) == re.findall(r"`(\w+)`", listed.partition("): ")[2])


def test_every_exit_code():
    """`cli.md` has a row for each exit code."""
    text = (REFERENCE / "cli.md").read_text(encoding="utf-8")
    table = text[text.index("| exit code |") :].partition("\n\n")[0]
    assert sorted(ExitCode) == [int(code) for code in re.findall(r"^\| (\d+) \|", table, re.MULTILINE)]


def test_every_command_and_option():
    """`cli.md` has a section for each command, and each of its options there."""
    import typer

    text = (REFERENCE / "cli.md").read_text(encoding="utf-8")
    sections = {part.split("\n", 1)[0]: part for part in text.split("\n## ")[1:]}
    common = sections.pop("Options for models")
    commands = typer.main.get_command(app).commands
    assert set(sections) == set(commands)
    for name, command in commands.items():
        # A group of commands has one section for all of them.
        for part in (command, *getattr(command, "commands", {}).values()):
            for parameter in part.params:
                if parameter.param_type_name == "option":
                    # The options for models have a section of their own, which others link to.
                    listed = sections[name] + (common if "(#options-for-models)" in sections[name] else "")
                    assert any(f"`{option}" in listed for option in parameter.opts), (name, parameter.opts)


def test_every_field_of_the_records():
    """`schema.md` names every field of a trace, a sample and an outcome, and every alias."""
    fields = {*Trace.model_fields, *Sample.model_fields, *Score.model_fields}
    aliases = {alias for names in FIELD_ALIASES.values() for alias in names}
    assert fields | aliases <= _words("schema.md")


def test_every_key_of_a_jsonl_line(delivery):
    """`schema.md` names every key."""
    row = outcome_row(delivery, include_text=True)
    json.dumps(row)
    assert row.keys() <= _words("schema.md")


def test_every_attribute_of_an_event(delivery):
    """`schema.md` names every attribute."""
    assert evaluation_attributes(delivery, include_text=True).keys() <= _words("schema.md")
