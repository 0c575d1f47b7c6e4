"""The reference pages are complete: what the code offers stands on them."""

from __future__ import annotations

import importlib.util
import json
import re
import tomllib
from pathlib import Path
from typing import get_args

import pytest

from ragstone.cli._exit_codes import ExitCode
from ragstone.metrics import resolve_metrics
from ragstone.reading import FIELD_ALIASES
from ragstone.schema import FailureKind, Interval, Sample, Score, Trace
from ragstone.settings import TABLES, variable_of
from ragstone.sinks import Delivery
from ragstone.sinks._otlp_event import evaluation_attributes
from ragstone.sinks._row import outcome_row

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"
SPEC = importlib.util.spec_from_file_location("reference_script", REFERENCE.parents[1] / ".ci" / "reference.py")
reference = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(reference)


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


def test_every_failure_kind():
    """`metrics.md` names every kind of failure."""
    assert set(get_args(FailureKind)) <= _words("metrics.md")


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
    """`settings.md` names every variable of ours that the code reads: those of settings by the table and the key."""
    page = (REFERENCE / "settings.md").read_text(encoding="utf-8")
    of_settings = set()
    for name, kind in TABLES.items():
        section = page.partition(f"\n### {name}\n")[2].partition("\n#")[0]
        assert f"`RAGSTONE_{name.upper()}_*`" in section
        for key in kind.model_fields:
            of_settings.add(variable := variable_of(f"{name}.{key}"))
            assert variable == f"RAGSTONE_{name}_{key}".upper() or f"`{variable}`" in section
    root = REFERENCE.parents[1]
    sources = [*root.glob("packages/*/src/**/*.py"), *root.glob("integrations/*/src/**/*.py")]
    read = {
        name for path in sources for name in re.findall(r"RAGSTONE_[A-Z_]*[A-Z]\b", path.read_text(encoding="utf-8"))
    }
    assert "RAGSTONE_JUDGE" in read
    assert [] == sorted(read - of_settings - _words("settings.md"))


def test_every_setting():
    """`settings.md` has a row for each key: in the section of its table, or in that of a table whose keys it shares."""
    page = (REFERENCE / "settings.md").read_text(encoding="utf-8")
    sections = {part.partition("\n")[0]: part for part in page.split("\n### ")}
    shared = {"judge": "Endpoints", "reader": "Endpoints", "embedder": "Endpoints", "daily_budget": "budget"}
    for name, kind in TABLES.items():
        rows = sections[name] + sections.get(shared.get(name), "")
        assert [] == [key for key in kind.model_fields if f"\n- `{key}`" not in rows]


def test_every_exit_code():
    """`cli.md` has a row for each exit code."""
    text = (REFERENCE / "cli.md").read_text(encoding="utf-8")
    table = text[text.index("| exit code |") :].partition("\n\n")[0]
    assert sorted(ExitCode) == [int(code) for code in re.findall(r"^\| (\d+) \|", table, re.MULTILINE)]


def test_generated_parts_show_the_code():
    """Commands, options and metrics on the pages are those of the code."""
    assert [] == [path.name for path in reference.stale()], f"Write the pages: {reference.WRITE}"


def test_a_changed_help_makes_the_page_stale(monkeypatch):
    """A page that was written for another help of an option differs from the code."""
    page = (REFERENCE / "cli.md").read_text(encoding="utf-8")
    help_of = reference.meaning
    monkeypatch.setattr(reference, "meaning", lambda part: help_of(part) + ("!" if part.name == "until_idle" else ""))
    changed = [line for line in reference.commands_page(page).splitlines() if line not in page.splitlines()]
    assert 1 == len(changed)
    assert "`--until-idle" in changed[0]


def test_texts_of_a_command_that_does_not_exist_are_not_lost():
    """A section of an unknown command with a text is an error, and one without a text is removed."""
    page = (REFERENCE / "cli.md").read_text(encoding="utf-8")
    section = "## fly\n\nFly.\n<!-- end -->\n"
    assert page == reference.commands_page(f"{page}\n{section}")
    with pytest.raises(ValueError, match="texts for fly, which are not commands"):
        reference.commands_page(f"{page}\n{section}\nA text.\n")


def test_every_guide_belongs_to_an_option():
    """An option that links to a guide is an option of a command."""
    from typer.main import get_command

    from ragstone.cli._app import app

    offered = {name for _, command in reference.walk(get_command(app)) for part in command.params for name in part.opts}
    assert [] == sorted(reference.GUIDES.keys() - offered)


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


def _questions() -> list[tuple[str, str]]:
    """Metrics and needs in each row of the table of questions."""
    page = (REFERENCE / "metrics.md").read_text(encoding="utf-8")
    table = page.partition("| question | metric |")[2].partition("\n\n")[0].splitlines()[2:]
    return [tuple(cell.strip() for cell in row.split("|")[2:4]) for row in table]


@pytest.mark.parametrize(("names", "needs"), [row for row in _questions() if row[0].startswith("`")])
def test_the_table_of_questions_says_what_each_metric_needs(names, needs):
    """Somebody who chooses a metric by the table has what it needs, beyond query, contexts and response."""
    for metric in resolve_metrics(re.findall(r"`([^`]+)`", names)):
        card = metric.card
        fields = [name.replace("_", "-") for name in card.needs if name not in ("query", "contexts", "response")]
        calls = {"judge": card.judge_calls + card.judge_calls_per_passage, "reader": card.reader_calls_per_passage}
        models = [model for model, n in calls.items() if n]
        assert ", ".join([*fields, *models]) == needs, card.name
