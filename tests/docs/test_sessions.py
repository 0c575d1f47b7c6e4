"""Sessions of nox that files name exist."""

from __future__ import annotations

import ast
import itertools
import re
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
FILES = [*WORKFLOWS, ROOT / ".ci" / "run", *ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
CALL = re.compile(r"\bnox\)? (?:-[a-z]+ )*(?:-s|--session) ([a-z][a-z-]*)")


def sessions() -> set[str]:
    """Return the names of the sessions of `noxfile.py`."""
    found = set()
    for node in ast.parse((ROOT / "noxfile.py").read_text(encoding="utf-8")).body:
        for decorator in getattr(node, "decorator_list", []):
            if ast.unparse(decorator).startswith("nox.session"):
                given = {each.arg: each.value for each in getattr(decorator, "keywords", [])}
                found.add(ast.literal_eval(given["name"]) if "name" in given else node.name)
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_named_sessions_exist(path):
    """No file names a session that `nox --list` does not show."""
    assert set(CALL.findall(path.read_text(encoding="utf-8"))) <= sessions()


def test_the_forge_runs_what_ci_runs():
    """The matrix of the workflow lists sessions that exist, among them all that `.ci/run` runs."""
    flow = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8"))
    listed = {*flow["jobs"]["session"]["strategy"]["matrix"]["session"], "tests", "servers"}
    run = re.search(r"^sessions=\((.*)\)$", (ROOT / ".ci" / "run").read_text(encoding="utf-8"), re.MULTILINE)
    assert run is not None
    assert set(run[1].split()) <= listed <= sessions()


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_actions_are_pinned(path):
    """Each action has the hash of a commit with its version behind it, or a comment that says why it has none."""
    lines = path.read_text(encoding="utf-8").splitlines()
    for before, line in itertools.pairwise(lines):
        if "uses:" in line and not re.search(r"@[0-9a-f]{40}  # v\d+\.\d+\.\d+$", line):
            assert before.strip().startswith("# Not pinned: "), line


def test_the_audit_installs_all_extras():
    """Except those whose packages are too large, which its comment names."""
    audit = (ROOT / ".github" / "workflows" / "audit.yml").read_text(encoding="utf-8")
    extras = tomllib.loads((ROOT / "packages/ragstone/pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert sorted(extras["optional-dependencies"]) == sorted(
        [*re.search(r"extras=(\S+)", audit)[1].split(","), *re.findall(r"All extras but (\w+)", audit)]
    )
