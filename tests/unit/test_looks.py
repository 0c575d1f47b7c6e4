"""Test sets: verdicts over many looks, and the file that keeps them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import ragstone
from command_line import run_command
from ragstone.errors import ConfigurationError, DataError, StoreError
from ragstone.judges import Completion, FunctionModel, ModelJudge
from ragstone.metrics import MetricBase
from ragstone.schema import Usage

N = 100


@pytest.fixture
def golden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A test set of 100 questions in the working directory."""
    monkeypatch.chdir(tmp_path)
    rows = [
        {"id": f"q{i}", "query": f"What is {i}?", "reference": str(i), "session_id": f"s{i % 20}"} for i in range(N)
    ]
    Path("golden.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return "golden.jsonl"


def answers(n_right: int, *, fails: range = range(0)):
    """An application that answers the first questions right, and raises on some."""

    def ask(question: str) -> str:
        number = int(re.findall(r"\d+", question)[0])
        if number in fails:
            raise RuntimeError("no")
        return str(number) if number < n_right else "unknown"

    return ask


def look(app, golden: str = "golden.jsonl", metric="exact_match", **options):
    """One look at the test set."""
    return ragstone.evaluate(golden, [metric], app=app, test_set=getattr(metric, "name", metric), **options)


def entries(golden: str) -> list[dict]:
    """The entries of the file of looks."""
    return [json.loads(line[9:]) for line in Path(f"{golden}.looks").read_text().splitlines()]


def test_a_change_is_accepted_or_not_shown_and_compared_with_the_last_accepted_one(golden):
    """A clear gain is accepted and becomes the baseline. A small one is not shown."""
    verdicts = [
        (found.verdict, found.number, found.before)
        for found in (look(answers(n), cluster=None).look for n in (50, 53, 75, 60, 90))
    ]
    expected = [("baseline", 1, None), ("not shown", 2, 1), ("accepted", 3, 1), ("not shown", 4, 3), ("accepted", 5, 3)]
    assert expected == verdicts


def test_scores_of_a_change_that_is_not_shown_are_in_no_output(golden):
    """Selecting changes by their mean would wear the set out, so neither text nor JSON has it."""
    look(answers(50))
    result = look(answers(53))
    assert "not shown: 100 questions do not show that exact_match is better than at look 1" in str(result)
    assert {"test_set", "n_samples", "usage"} == set(result.to_dict())
    assert (None, None) == (result.look.gain, result.look.p_value)
    assert "0.53" not in str(result)


def test_an_accepted_change_says_by_how_much(golden):
    """The gain and its p-value are shown, and the scores."""
    look(answers(50), cluster=None)
    result = look(answers(75), cluster=None)
    assert pytest.approx(0.25) == result.look.gain
    assert result.look.p_value <= 0.05 / 30
    assert "0.750" in str(result)


def test_what_the_next_look_can_find_is_said_before(golden):
    """At most, before two looks have shown how many answers change at random."""
    look(answers(50), cluster=None)
    following = look(answers(53), cluster=None).look.following
    assert "look 3, 1 of 30 spent: with 100 questions, a gain of 8% of the range is found in" in following
    share = int(re.findall(r"found in (\d+)%", following)[0])
    assert 10 <= share <= 25


def test_clusters_decide_as_a_whole(golden):
    """A gain on all questions of 5 of 20 sessions is not shown, although 25 independent questions would show it."""
    look(answers(0))

    def ask(question: str) -> str:
        number = int(re.findall(r"\d+", question)[0])
        return str(number) if number % 20 < 5 else "unknown"

    assert "not shown" == look(ask).look.verdict
    assert "accepted" == look(ask, cluster=None).look.verdict


def test_unknown_scores_count_with_the_least_gain(golden):
    """30 failed questions could have been right before and wrong now: then 25 gains are not shown."""
    look(answers(50), cluster=None)
    found = look(answers(80, fails=range(20, 50)), cluster=None).look
    assert ("not shown", 30, 100) == (found.verdict, found.n_failed, found.n)
    assert "30 questions without a known score" in str(found)


class Length(MetricBase):
    """The share of a long answer."""

    name = "length"
    title = "Length"
    direction = "lower"
    needs = ("response",)

    async def compute(self, sample, judge):
        """Long answers are worse."""
        return self.make_score(sample, min(len(sample.response) / 7, 1.0), method="exact")


def test_lower_is_better(golden):
    """An improvement of a metric whose lower values are better is accepted, and the opposite is not shown."""
    metric = Length()
    look(answers(10), metric=metric, cluster=None)
    assert "accepted" == look(answers(60), metric=metric, cluster=None).look.verdict
    assert "not shown" == look(answers(10), metric=metric, cluster=None).look.verdict


def test_a_set_is_worn_after_30_looks_and_says_how_many_cases_are_needed(golden):
    """The error rate is spent: no further look, before any call."""
    look(answers(50))
    calls = []
    for n in range(30):
        last = look(answers(50 + n % 2)).look
    assert "not shown" == last.verdict
    assert re.search(r"this set is worn: \d+ fresh cases needed", last.following)
    with pytest.raises(DataError, match=r"this set is worn: \d+ fresh cases needed"):
        look(lambda question: calls.append(question) or "x")
    assert [] == calls


def test_an_accepted_change_does_not_spend_a_look(golden):
    """Only looks that do not accept count."""
    for n in (10, 40, 70):
        found = look(answers(n), cluster=None).look
    assert "look 4, 0 of 30 spent" in found.following


@pytest.mark.parametrize(
    ("changes", "message"), [({"metric": "token_f1"}, "metric 'token_f1'"), ({"repeats": 2}, "repeats 2")]
)
def test_other_scores_are_refused_before_any_call(golden, changes, message):
    """Another metric or number of repeats is not comparable."""
    look(answers(50))
    calls = []
    with pytest.raises(ConfigurationError, match=f"not comparable.*{message} instead of"):
        look(lambda question: calls.append(question) or "x", **changes)
    assert [] == calls
    assert 2 == len(entries(golden))


def test_another_judge_is_refused(golden):
    """The judge of each look is kept."""
    rows = {"metric": "ccrs.cc"}

    def short(question):
        return {"response": "a", "contexts": ["a"]}

    look(short, judge="lexical", **rows)
    path = Path(f"{golden}.looks")
    assert "lexical" in path.read_text()

    def rate(request):
        return Completion(text="50"), Usage(calls=1)

    with pytest.raises(ConfigurationError, match=r"not comparable.*judge 'other' instead of 'lexical baseline'"):
        look(short, judge=ModelJudge(FunctionModel(rate, name="other", settings={"model": "other"})), **rows)


def test_another_content_is_named(golden):
    """One row more is another set."""
    look(answers(50))
    with Path(golden).open("a") as file:
        file.write(json.dumps({"id": "new", "query": "What is 1?", "reference": "1"}) + "\n")
    with pytest.raises(DataError, match="another content \\(100 questions then, 101 now\\)"):
        look(answers(50))


@pytest.mark.parametrize("damage", ["change", "remove a line"])
def test_damage_is_an_error(golden, damage):
    """A changed or missing line would hide a look."""
    for n in (50, 51):
        look(answers(n))
    path = Path(f"{golden}.looks")
    lines = path.read_bytes().splitlines(keepends=True)
    lines = [lines[0].replace(b'"n": 100', b'"n": 101'), *lines[1:]] if damage == "change" else [lines[0], *lines[2:]]
    path.write_bytes(b"".join(lines))
    with pytest.raises(StoreError, match="is damaged: the checksum of line"):
        look(answers(50))


def test_a_look_that_does_not_end_is_resumed_or_counts(golden, tmp_path):
    """With answers that are kept, the same run resumes its look. Without them, its part of the error rate is spent."""
    look(answers(50))
    path = Path(f"{golden}.looks")
    kept = path.read_bytes()
    first = look(answers(51)).look
    whole = path.read_bytes()
    begun = whole[: len(kept) + whole[len(kept) :].index(b"\n") + 1]
    path.write_bytes(begun + b"0000")  # killed while it wrote the verdict
    again = look(answers(51)).look
    assert (2, 3) == (first.number, again.number)
    assert "2 of 30 spent" in again.following
    path.write_bytes(begun)
    traces = tmp_path / "answers.jsonl"

    def ask(question: str) -> str:
        return answers(51)(question)

    with pytest.raises(KeyboardInterrupt):
        look(_interrupted(ask, at=60), traces=traces, app_concurrency=1)
    look_number = entries(golden)[-1]["look"]
    resumed = look(_interrupted(ask, at=1000), traces=traces).look
    assert look_number == resumed.number


def _interrupted(ask, at: int):
    """An application whose process is interrupted at a call."""
    calls = []

    def ask_until(question: str) -> str:
        calls.append(question)
        if len(calls) == at:
            raise KeyboardInterrupt
        return ask(question)

    return ask_until


def test_an_application_that_never_answers_spends_nothing(golden):
    """No score was seen, so the look is withdrawn."""
    look(answers(50))
    with pytest.raises(ragstone.errors.ApplicationError):
        look(answers(0, fails=range(N)))
    assert "0 of 30 spent" in look(answers(75), cluster=None).look.following


def test_a_second_process_waits(golden):
    """Two looks at once would share a number."""
    look(answers(50))

    def ask(question: str) -> str:
        with pytest.raises(ConfigurationError, match="another process evaluates this test set"):
            look(answers(50))
        return "x"

    assert "not shown" == look(ask).look.verdict


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--test-set", "exact_match"], "--app"),
        (["--test-set", "exact_match", "--app", "asked:ask", "-o", "o.jsonl"], "omit output"),
        (
            ["--test-set", "exact_match", "--app", "asked:ask", "--fail-under", "exact_match=0.5"],
            "without --fail-under",
        ),
        (["--test-set", "nothing", "--app", "asked:ask"], "'nothing' of a test set is not scored"),
    ],
)
def test_options_that_do_not_fit_are_refused(golden, monkeypatch, arguments, message):
    """Each with the way out."""
    _install(monkeypatch, 50)
    done = run_command("evaluate", golden, "--metrics", "exact_match", *arguments)
    assert (2, True) == (done.returncode, message in done.stderr), done.stderr
    assert not Path(f"{golden}.looks").exists()


def _install(monkeypatch, n_right: int) -> None:
    import sys
    from types import ModuleType

    module = ModuleType("asked")
    module.ask = answers(n_right)
    monkeypatch.setitem(sys.modules, "asked", module)


def test_the_command_exits_with_1_unless_a_change_is_accepted(golden, monkeypatch):
    """The verdict is the first line, and the power is on stderr before."""
    done = {}
    for n_right in (50, 52, 90):
        _install(monkeypatch, n_right)
        command = ("evaluate", golden, "--app", "asked:ask", "--metrics", "exact_match", "--test-set", "exact_match")
        done[n_right] = run_command(*command, "--set", "analysis.cluster=none")
    assert {50: 0, 52: 1, 90: 0} == {n: one.returncode for n, one in done.items()}, done
    assert ["baseline", "not shown", "accepted"] == [one.stdout.partition(":")[0] for one in done.values()]
    assert "look 3, 1 of 30 spent" in done[90].stderr
    assert "0.52" not in done[52].stdout + done[52].stderr


def test_a_gain_is_weighted_by_sampling_probabilities(golden):
    """A quarter of the questions stands for 10 each. All of them are gained, and 15 of the others."""
    rows = [json.loads(line) for line in Path(golden).read_text().splitlines()]
    for n, row in enumerate(rows):
        row["inclusion_probability"] = 0.1 if n >= 75 else 1.0
    Path(golden).write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    look(answers(0), cluster=None)

    def ask(question: str) -> str:
        number = int(re.findall(r"\d+", question)[0])
        return str(number) if number >= 60 else "unknown"

    found = look(ask, cluster=None).look
    assert ("accepted", pytest.approx((15 + 250) / 325)) == (found.verdict, found.gain)


class Tenths(MetricBase):
    """From 0 to 10: ten points for a right answer."""

    name = "tenths"
    title = "Tenths"
    high = 10.0
    needs = ("response",)

    async def compute(self, sample, judge):
        """A wrong answer has none."""
        return self.make_score(sample, 10.0 * (sample.response in sample.reference), method="exact")


def test_the_range_of_a_metric_does_not_change_what_a_look_can_find(golden):
    """The gain is a share of it."""
    look(answers(50), cluster=None)
    expected = look(answers(53), cluster=None).look.following
    Path(f"{golden}.looks").unlink()
    metric = Tenths()
    look(answers(50), metric=metric, cluster=None)
    assert expected == look(answers(53), metric=metric, cluster=None).look.following
