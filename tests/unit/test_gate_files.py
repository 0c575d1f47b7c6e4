"""JUnit and Markdown of gates, `assert_score`, and the composite action."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
import yaml

import ragstone
from command_line import run_command
from ragstone.errors import ConfigurationError, DataError
from ragstone.schema import NotApplicable, Outcome, Score

ACTION = Path(__file__).parents[2] / "examples" / "github-action" / "action.yml"
GOOD, BAD = [0.9, 1.0, 0.95, 1.0, 0.8] * 12, [0.3, 0.2, 0.4, 0.1, 0.3] * 12


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with outcomes of two systems. Names of systems and metrics may contain any character."""
    monkeypatch.chdir(tmp_path)
    for name, cc, qr in (("old", GOOD, GOOD), ("new", GOOD, BAD)):
        outcomes: list[Outcome] = []
        for metric, values in (("ccrs.cc", cc), ("ccrs.qr", qr)):
            shared = {"metric": metric, "metric_version": "1", "judge_hash": "h"}
            outcomes += [Score(sample_id=f"q{i}", value=v, method="x", **shared) for i, v in enumerate(values)]
        outcomes.append(
            NotApplicable(sample_id="q0", metric="ccrs.ac", metric_version="1", judge_hash="h", reason="no reference")
        )
        Path(f"{name}.jsonl").write_text("".join(o.model_dump_json() + "\n" for o in outcomes), encoding="utf-8")
    return tmp_path


def cases(path: str) -> dict[tuple[str, str], str]:
    """The state of each test case: passed, failure or error."""
    root = ET.parse(path).getroot()  # noqa: S314  written by the test
    found = {}
    for case in root.iter("testcase"):
        kinds = [child.tag for child in case if child.tag != "system-out"]
        found[(case.attrib["classname"], case.attrib["name"])] = kinds[0] if kinds else "passed"
    suite = root.find("testsuite")
    for element in (root, suite):
        assert [str(n) for n in (len(found), *(list(found.values()).count(kind) for kind in ("failure", "error")))] == [
            element.attrib[key] for key in ("tests", "failures", "errors")
        ]
    return found


@pytest.mark.usefixtures("files")
def test_thresholds_as_junit() -> None:
    """A metric without scores is an error, and the failure contains the table."""
    thresholds = [f"--fail-under={metric}=0.8" for metric in ("ccrs.cc", "ccrs.qr", "ccrs.ac")]
    done = run_command("report", "new.jsonl", *thresholds, "--junit", "gate.xml")
    assert 1 == done.returncode
    name = "ragstone thresholds"
    assert {(name, "ccrs.cc"): "passed", (name, "ccrs.qr"): "failure", (name, "ccrs.ac"): "error"} == cases("gate.xml")
    failure = next(ET.parse("gate.xml").iter("failure"))  # noqa: S314
    assert "0.260 (n = 60): MISSED: the mean is below 0.8" == failure.attrib["message"]
    assert "FAILED on 2 of 3 thresholds" in failure.text


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize(("gate", "qr"), [("--fail-if-worse", "failure"), ("--margin=0.1", "failure")])
def test_a_comparison_as_junit_and_markdown(gate: str, qr: str) -> None:
    """Each candidate and metric is a case. The summary has the gate, the verdict, the tables and what changed."""
    options = [gate, "--junit", "gate.xml", "-o", "summary.md"]
    done = run_command("compare", "main|1=old.jsonl", "new=new.jsonl", *options)
    assert (1, "") == (done.returncode, done.stderr)
    assert {("ragstone regression.new", "ccrs.cc"): "passed", ("ragstone regression.new", "ccrs.qr"): qr} == cases(
        "gate.xml"
    )
    summary = Path("summary.md").read_text(encoding="utf-8")
    assert summary.startswith("### baseline main\\|1: FAILED on 1 of 2\n")
    assert "| **FAILED** | `ccrs.qr` | new | gain -67 points (n = 60) |" in summary
    assert "| passed | `ccrs.cc` | new |" in summary
    assert "### main\\|1 beats new on ccrs.qr by 67 points \\[" in summary
    assert "| metric | a main\\|1 | b new |" in summary
    assert "Contextual coherence rose by at least half of its range for 0 questions" in summary


@pytest.mark.usefixtures("files")
def test_a_report_in_markdown_ends_with_the_gate() -> None:
    """One file for the summary of a job."""
    options = ["--fail-under", "ccrs.qr=0.8", "-o", "report.md"]
    assert 1 == run_command("report", "new.jsonl", *options).returncode
    assert "\n### FAILED on 1 of 1 thresholds\n" in Path("report.md").read_text(encoding="utf-8")
    run_command("report", "new.jsonl", *options[2:])
    assert "thresholds" not in Path("report.md").read_text(encoding="utf-8")


@pytest.mark.usefixtures("files")
def test_control_characters_do_not_break_the_file() -> None:
    """Names of metrics and systems come from files. XML does not allow all characters."""
    odd = "a\x00<b>&\x1b\ud800\uffff"
    check = ragstone.compare({"old": "old.jsonl", odd: "new.jsonl"}).check_regression("ccrs.qr")
    replace(check, gates=tuple(replace(gate, metric=odd) for gate in check.gates)).write_junit("gate.xml")
    assert {("ragstone regression.a <b>&   ", "a <b>&   "): "failure"} == cases("gate.xml")


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("report new.jsonl --junit gate.xml", "--junit writes the result of a gate. Add --fail-under"),
        ("compare old.jsonl new.jsonl --junit gate.xml", "Add --fail-if-worse, --margin or --equivalent-within"),
        ("compare old.jsonl new.jsonl --margin 0.1 --junit gate.json", "must end in .xml, got 'gate.json'"),
        ("compare old.jsonl new.jsonl -o summary.pdf", "must end in .html or .md or .tex or .csv, got 'summary.pdf'"),
        ("compare old.jsonl new.jsonl -o no/such.md", "existing directory"),
    ],
)
def test_invalid_files_are_refused(command: str, message: str) -> None:
    """Before anything is computed."""
    done = run_command(*command.split())
    assert (2, "") == (done.returncode, done.stdout)
    assert message in done.stderr


CASE = {"query": "Why?", "contexts": ["Rain."], "response": "Rain."}


class TestAssertScore:
    """One case of a test."""

    def test_a_good_case_passes_also_at_the_best_value(self) -> None:
        """A score equal to the threshold is good enough."""
        ragstone.assert_score(CASE, {"ccrs.cc": 1.0, "ccrs.qr": 0.0}, judge="lexical")

    def test_the_message_is_a_table_of_what_is_worse(self) -> None:
        """With threshold and question, and without what is good."""
        bad = CASE | {"response": "The sun."}
        with pytest.raises(AssertionError) as failure:
            ragstone.assert_score(bad, {"ccrs.cc": 0.8, "ccrs.qr": 0.0}, judge="lexical")
        lines = str(failure.value).splitlines()
        assert "FAILED on 1 of 2 metrics: Why?" == lines[0]
        assert re.search(r"\(ccrs\.cc\) +0\.000 +>= 0\.8", lines[4])
        assert 5 == len(lines)

    def test_a_missing_score_fails(self) -> None:
        """Without a reference there is no correctness."""
        with pytest.raises(AssertionError, match=r"not applicable +>= 0\.1 +.*reference"):
            ragstone.assert_score(CASE, {"ccrs.ac": 0.1}, judge="lexical")

    def test_a_metric_overrides_its_group(self) -> None:
        """In any order."""
        bad = CASE | {"response": "The sun.", "reference": "Rain."}
        for thresholds in ({"ccrs": 0.0, "ccrs.cc": 0.5}, {"ccrs.cc": 0.5, "ccrs": 0.0}):
            with pytest.raises(AssertionError, match="FAILED on 1 of 5 metrics"):
                ragstone.assert_score(bad, thresholds, judge="lexical")

    @pytest.mark.parametrize(
        ("thresholds", "message"),
        [
            ({}, "needs a threshold"),
            ({"ccrs.cc": 80}, r"threshold of ccrs\.cc must be a number from 0 to 1, got 80"),
            ({"no.such": 0.5}, "no.such"),
        ],
    )
    def test_invalid_thresholds(self, thresholds: dict[str, float], message: str) -> None:
        """The error names the value and the range."""
        with pytest.raises(ConfigurationError, match=message):
            ragstone.assert_score(CASE, thresholds, judge="lexical")

    def test_pytest_shows_the_line_of_the_test(self, tmp_path: Path) -> None:
        """The traceback ends in the user's file, for both assertions."""
        (tmp_path / "test_case.py").write_text(
            "import ragstone\n"
            f"CASE = {CASE | {'response': 'The sun.'}!r}\n"
            "def test_one():\n    ragstone.assert_score(CASE, {'ccrs.cc': 0.8}, judge='lexical')\n"
            "def test_two():\n    a, b = (ragstone.evaluate([CASE | {'id': '1', 'response': r}], ['ccrs.cc'], judge='lexical')"
            " for r in ('Rain.', 'Sun.'))\n    ragstone.assert_no_regression(a, b, margin=0.1)\n",
            encoding="utf-8",
        )
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:randomly", str(tmp_path)]
        shown = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path).stdout
        assert "2 failed" in shown
        places = re.findall(r"^(\S+\.py):\d+: AssertionError", shown, flags=re.MULTILINE)
        assert ["test_case.py", "test_case.py"] == [Path(place).name for place in places]


def test_several_cases_are_not_one_case() -> None:
    """A list of rows ended with a traceback of `dict`, and a threshold as text with one of `math`."""
    with pytest.raises(DataError, match="row 1 must be an object with named fields, got list"):
        ragstone.assert_score([CASE], {"ccrs.cc": 0.8}, judge="lexical")
    with pytest.raises(ConfigurationError, match=r"the threshold of ccrs.cc must be a number from 0 to 1, got '0\.8'"):
        ragstone.assert_score(CASE, {"ccrs.cc": "0.8"}, judge="lexical")
    with pytest.raises(ConfigurationError, match="no metrics given"):
        ragstone.evaluate([CASE], None, judge="lexical")
    assert 1 == len(ragstone.evaluate([CASE], ["ccrs.cc"], judge="lexical", refusals=None).samples)


def action() -> dict[str, Any]:
    """The composite action."""
    return yaml.safe_load(ACTION.read_text(encoding="utf-8"))


def test_the_workflow_sets_only_inputs_of_the_action() -> None:
    """A misspelled input would be ignored with a warning, and the gate would pass."""
    workflow = yaml.safe_load(ACTION.with_name("answers.yml").read_text(encoding="utf-8"))
    (step,) = [step for step in workflow["jobs"]["score"]["steps"] if "ragstone" in step.get("uses", "")]
    inputs = action()["inputs"]
    assert step["with"].keys() <= inputs.keys()
    assert {name for name, spec in inputs.items() if spec.get("required")} <= step["with"].keys()


def test_the_action_has_the_structure_of_a_composite_action() -> None:
    """Each input is described and used. Inputs reach a command only as variables, so that they cannot add commands."""
    content = action()
    assert {"name", "description", "inputs", "runs"} == content.keys()
    assert "composite" == content["runs"]["using"]
    used: set[str] = set()
    for step in content["runs"]["steps"]:
        assert {"name", "shell", "run"} <= step.keys() <= {"name", "shell", "run", "env", "if"}
        assert "${{" not in step["run"]
        used |= set(re.findall(r"inputs\.([a-z-]+)", " ".join([step.get("if", ""), *step.get("env", {}).values()])))
    assert used == content["inputs"].keys()
    assert all(spec.keys() <= {"description", "required", "default"} for spec in content["inputs"].values())
    assert {"data"} == {name for name, spec in content["inputs"].items() if spec.get("required")}


def run_action(**given: str) -> list[int]:
    """Run the steps after the installation in the working directory, as a runner does, and return their exit codes."""
    content = action()
    inputs = {name: spec.get("default", "") for name, spec in content["inputs"].items()} | {
        name.replace("_", "-"): value for name, value in given.items()
    }
    codes = []
    for step in content["runs"]["steps"][1:]:
        if "inputs.baseline" in step.get("if", "") and not inputs["baseline"]:
            continue
        own = {
            name: re.sub(r"\$\{\{ inputs\.([a-z-]+) \}\}", lambda match: inputs[match[1]], value)
            for name, value in step.get("env", {}).items()
        }
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        environment = {"PATH": path, "HOME": str(Path.cwd()), "GITHUB_STEP_SUMMARY": "summary.md"} | own
        command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
        codes.append(subprocess.run(command, env=environment, check=False, capture_output=True).returncode)
    return codes


@pytest.mark.parametrize(
    ("given", "codes"),
    [
        ({}, [0, 0]),
        ({"fail_under": "ccrs.cc=0.8 ccrs.ac=0.5", "baseline": "outcomes-main.jsonl"}, [0, 0, 0]),
        ({"fail_under": "ccrs.ac=0.5\nccrs.cc=0.97\n", "baseline": "outcomes-main.jsonl", "margin": "0.01"}, [0, 1, 1]),
    ],
)
def test_the_action_runs(
    given: dict[str, str], codes: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commands of its steps, in an empty folder with a file of answers."""
    monkeypatch.chdir(tmp_path)
    rows = [CASE | {"id": str(i), "reference": "Rain."} for i in range(40)]
    Path("my answers.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    if "baseline" in given:
        ragstone.evaluate(rows, ["ccrs.cc", "ccrs.ac"], judge="lexical").to_jsonl("outcomes-main.jsonl")
    assert codes == run_action(data="my answers.jsonl", metrics="ccrs.cc,ccrs.ac", judge="lexical", **given)
    summary = Path("summary.md").read_text(encoding="utf-8")
    assert ("threshold" in summary) == Path("ragstone-thresholds.xml").exists() == ("fail_under" in given)
    assert ("baseline main" in summary) == Path("ragstone-regression.xml").exists() == ("baseline" in given)


def test_the_action_refuses_judged_metrics_without_a_judge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The action fails in its first step, and writes no outcomes, if neither an input nor the environment names a judge."""
    monkeypatch.chdir(tmp_path)
    Path("answers.jsonl").write_text(json.dumps(CASE | {"id": "a"}) + "\n")
    assert 2 == run_action(data="answers.jsonl")[0]
    assert not Path("outcomes.jsonl").exists()
