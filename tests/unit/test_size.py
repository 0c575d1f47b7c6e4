"""The size of the code base: `[tool.ragstone.size]` of `pyproject.toml` holds the numbers that `.ci/size.py` counts."""

from __future__ import annotations

import ast
import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
WAY_OUT = "Remove as much as the change adds, then write the new numbers: .nox/tests/bin/python .ci/size.py --write"


def load_script(name: str = "size") -> ModuleType:
    """Return a new module of a script."""
    spec = importlib.util.spec_from_file_location(f"{name}_script", ROOT / ".ci" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


size = load_script()


@pytest.mark.parametrize("count", size.COUNTS, ids=lambda count: count.__name__)
def test_size_equals_the_numbers_of_pyproject(count):
    """Every number is the one in `pyproject.toml`: neither a line more, nor a line less without a lower number."""
    actual = count()
    pinned = size.pinned(size.PROJECT.read_text(encoding="utf-8"))
    assert [] == size.differences({name: pinned.get(name, 0) for name in actual}, actual), WAY_OUT


@pytest.mark.parametrize("commit", ["HEAD", "HEAD~1"])
def test_no_total_is_higher_than_in_the_last_commits(commit):
    """A change does not raise a total of `pyproject.toml`, not even by hand."""
    shown = subprocess.run(
        ["git", "show", f"{commit}:pyproject.toml"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if shown.returncode:
        pytest.skip(f"git does not have {commit}: {shown.stderr.strip()}")
    assert [] == size.raised(size.pinned(shown.stdout), size.pinned(size.PROJECT.read_text(encoding="utf-8")))


def test_one_more_line_in_a_package_is_a_difference(monkeypatch):
    """A line that is added to one package is reported for the package and for the total of all packages."""
    script = load_script()
    before = script.count_code()
    modules = list(script.modules())
    modules[0][1].append("added = 1")
    monkeypatch.setattr(script, "modules", lambda: modules)
    after = script.count_code()
    changed = [line.partition(":")[0] for line in script.differences(before, after)]
    assert ["code_lines", "lines", f"packages.{modules[0][0]}"] == changed
    assert [f"{name} rises from {before[name]:,} to {before[name] + 1:,}" for name in ("lines", "code_lines")] == (
        script.raised(before, after)
    )


def test_a_package_may_take_the_lines_that_leave_another():
    """A package that grows is not a rise if the total stays, and a Protocol above the limit that is new is one."""
    before = {"lines": 30, "packages": {"judges": 10, "stats": 20}, "protocols": {}}
    assert [] == size.raised(before, {"lines": 30, "packages": {"judges": 12, "stats": 18}, "protocols": {}})
    assert ["protocols.Store rises from 0 to 13"] == size.raised(before, before | {"protocols": {"Store": 13}})


def test_data_may_take_the_lines_that_leave_the_code():
    """The page's script may grow by the lines by which the code shrinks, and not by one more."""
    before = {"lines": 30, "data_lines": 5}
    assert [] == size.raised(before, {"lines": 28, "data_lines": 7})
    assert ["data_lines rises from 5 to 8"] == size.raised(before, {"lines": 28, "data_lines": 8})
    assert ["data_lines rises from 5 to 6"] == size.raised(before, {"lines": 30, "data_lines": 6})


def test_a_new_total_is_let_in_and_does_not_rise_later():
    """A total that was not pinned before is not a rise, and a higher one in the next change is."""
    before = {"lines": 30}
    assert [] == size.raised(before, before | {"request_files": 89})
    assert ["request_files rises from 89 to 90"] == size.raised(before | {"request_files": 89}, {"request_files": 90})


def test_a_total_below_its_goal_may_rise_up_to_it():
    """The number of commands may rise up to its goal, and not above."""
    assert [] == size.raised({"commands": 16}, {"commands": 17})
    assert ["commands rises from 16 to 18"] == size.raised({"commands": 16}, {"commands": 18})


def test_transactions_are_counted_by_what_they_may_do(tmp_path):
    """A transaction counts once, as one that writes if it locks the file, and a statement outside of one counts too."""
    recorder = load_script("one_request").Recorder()
    database = recorder.connect(tmp_path / "x.db", isolation_level=None)
    database.execute("CREATE TABLE t (x)")
    recorder.active = True
    for statement in (
        "BEGIN IMMEDIATE", "INSERT INTO t VALUES (1)", "SELECT x FROM t", "COMMIT",
        "INSERT INTO t VALUES (2)",
        "BEGIN", "SELECT x FROM t", "SELECT x FROM t", "COMMIT",
        "SELECT x FROM t",
        "PRAGMA user_version",
    ):  # fmt: skip
        database.execute(statement)
    database.close()
    assert {"write_transactions": 2, "read_transactions": 2} == dict(recorder.counts)


def test_only_functions_of_ragstone_are_counted():
    """Functions of other packages and bodies of modules and classes do not count, and reading JSON does."""
    from ragstone._util import tally

    script = load_script("one_request")
    recorder = script.Recorder()
    recorder.active = True
    sys.setprofile(recorder.record_call)
    try:
        tally.AtomicCounter()
        Path("x").with_suffix(".y")
        json.loads("1")
        importlib.util.spec_from_file_location("again", tally.__file__).loader.exec_module(ModuleType("again"))
    finally:
        sys.setprofile(None)
    assert {tally.__file__} == {code.co_filename for code in recorder.functions}
    assert not {"<module>", "AtomicCounter"} & {code.co_name for code in recorder.functions}
    assert {"json_parses": 1} == dict(recorder.counts)


def test_code_lines_are_counted_without_imports_comments_and_strings_that_stand_alone():
    """Blank lines, comments, docstrings and imports are not code. A string that is an argument is."""
    text = '"""Doc."""\nimport os\nfrom a import (\n    b,\n)\n\n# A comment\nx = f(\n    "text",\n)  # code\n'
    assert 3 == size.code_lines(text.split("\n"), ast.parse(text))


def test_written_numbers_are_read_again(tmp_path, monkeypatch):
    """`--write` writes what was counted, and refuses a total that rises."""
    script = load_script()
    project = tmp_path / "pyproject.toml"
    project.write_text(f"[tool.ragstone.size]\n{script.MARK}lines = 9\n{script.END}\n[tool.other]\nkey = 1\n")
    monkeypatch.setattr(script, "PROJECT", project)
    monkeypatch.setattr(script, "measure", lambda: {"lines": 8, "packages": {"top level": 8}})
    assert 0 == script.main(["--write"])
    assert {"lines": 8, "packages": {"top level": 8}} == script.pinned(project.read_text())
    assert project.read_text().endswith(f"{script.END}\n[tool.other]\nkey = 1\n")
    monkeypatch.setattr(script, "measure", lambda: {"lines": 9, "packages": {"top level": 9}})
    assert 1 == script.main(["--write"])
    assert 8 == script.pinned(project.read_text())["lines"]
