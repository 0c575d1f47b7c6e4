"""`ragstone repair`: wrong answers are asked for again while the passages that the application retrieves are changed."""

from __future__ import annotations

import json
import random
import sys
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from typer.testing import CliRunner

import ragstone
from command_line import app as command_line
from ragstone.errors import ApplicationError, ConfigurationError, DataError, JudgeError
from ragstone.experiments import RepairTrial
from ragstone.experiments._repair.interventions import BY_NAME, Case, assign, state_of
from ragstone.experiments._repair.shares import Answer, RepairShare, is_order_clear, repair_shares
from ragstone.experiments._repair.trial import _judged
from ragstone.schema import Evidence, Failure, Passage, Sample, Score, Trace
from ragstone.testing import FakeJudge

RIGHT, WRONG = "At the river.", "In a cave below the mountain."
GOLD = "The stone lies at the river, near the old bridge and the mill."
Search = Callable[..., list[Any]]


def passages(question: str) -> list[str]:
    """Six passages for a question, the first of which is about another stone."""
    return [f"Passage {place} about the stone of {question}, with some more words." for place in range(6)]


def right_if(holds: bool) -> str:
    return RIGHT if holds else WRONG


class Planted:
    """An application in a module of its own, whose answers depend on the passages that `retrieve` returns."""

    def __init__(self, answer: Callable[[list[str]], str], n_used: int | None = None) -> None:
        self.calls: Counter[str] = Counter()
        self.module = module = ModuleType("planted_application")

        def retrieve(question: str, k: int = 4) -> list[str]:
            return passages(question)[:k]

        def ask(question: str) -> dict[str, Any]:
            self.calls[question] += 1
            hits = module.retrieve(question)[:n_used]
            return {"response": answer(hits), "contexts": hits}

        module.retrieve, module.ask = retrieve, ask  # type: ignore[attr-defined]


@pytest.fixture
def plant(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Planted]:
    def make(answer: Callable[[list[str]], str], n_used: int | None = None) -> Planted:
        planted = Planted(answer, n_used)
        monkeypatch.setitem(sys.modules, "planted_application", planted.module)
        return planted

    return make


def rows(n: int, n_used: int = 4, **values: Any) -> list[dict[str, Any]]:
    """Cases with a wrong answer."""
    return [
        {"id": f"q{i}", "query": f"question {i}", "contexts": passages(f"question {i}")[:n_used], "response": WRONG}
        | {"reference": RIGHT}
        | values
        for i in range(n)
    ]


def run(planted: Planted, data: list[dict[str, Any]], **options: Any) -> RepairTrial:
    settings: dict[str, Any] = {"hook": "planted_application:retrieve", "judge": "lexical", "repeats": 8} | options
    return ragstone.repair(data, ["ccrs.ac"], app=planted.module.ask, **settings)


def values(trial: RepairTrial) -> dict[str, float | None]:
    return {share.name: None if share.estimate is None else share.estimate.value for share in trial.shares}


def left_out(trial: RepairTrial) -> dict[str, dict[str, int]]:
    return {share.name: dict(share.left_out) for share in trial.shares if share.left_out}


def test_fewer_passages_correct_an_application_that_long_prompts_confuse(plant: Any) -> None:
    """An application that answers right with at most two passages is corrected by fewer, and by none."""
    planted = plant(lambda hits: right_if(len(hits) <= 2))
    trial = run(planted, rows(12))
    assert {"fewer_passages": 1.0, "more_passages": 0.0, "dropped_first": None, "no_passages": 1.0} == values(trial)
    assert trial.best is not None
    assert "fewer_passages" == trial.best.name
    assert trial.verdict.startswith("Fewer passages: corrects 100 % [")
    assert trial.luck is not None
    assert 0.0 == trial.luck.value


def test_answers_that_are_right_by_luck_are_subtracted(plant: Any) -> None:
    """If every answer is right the second time, no intervention gets the credit."""
    planted = plant(lambda hits: RIGHT)
    trial = run(planted, rows(12))
    assert trial.luck is not None
    assert 1.0 == trial.luck.value
    assert {0.0} == {value for value in values(trial).values() if value is not None}
    assert trial.best is None
    assert trial.verdict.startswith("No repair is shown to correct more answers than asking again does.")


def test_labels_of_passages_make_reranking_and_filtering_possible(plant: Any) -> None:
    """With labels, the relevant passage is put first, or given alone."""
    labeled = [
        row | {"contexts": [{"text": text, "relevance": place == 2} for place, text in enumerate(row["contexts"])]}
        for row in rows(12)
    ]
    first = run(plant(lambda hits: right_if(hits[:1] != [] and hits[0].startswith("Passage 2"))), labeled)
    assert {"best_first": 1.0, "relevant_only": 1.0, "reference_passages": 1.0} == {
        name: value for name, value in values(first).items() if value
    }
    only = run(plant(lambda hits: right_if(len(hits) == 1)), labeled)
    assert {"relevant_only": 1.0, "reference_passages": 1.0} == {n: v for n, v in values(only).items() if v}


def test_an_intervention_that_changes_nothing_is_given_up(plant: Any) -> None:
    """Where no passage is dropped, the first 15 cases show it, and no more calls are spent."""
    trial = run(plant(lambda hits: right_if(len(hits) <= 2)), rows(30))
    assert {"dropped_first": {"unchanged": 15}} == left_out(trial)
    assert 15 + 30 * 4 == trial.n_calls


def test_more_candidates_a_dropped_passage_and_reference_passages_reach_the_prompt(plant: Any) -> None:
    """Each of these interventions corrects the application that lacks what it gives."""
    more = run(plant(lambda hits: right_if(len(hits) > 4)), rows(12))
    assert 1.0 == values(more)["more_passages"]
    # The application retrieves four passages and uses two: the third one is dropped.
    dropped = run(plant(lambda hits: right_if(any("Passage 2" in hit for hit in hits)), 2), rows(12, n_used=2))
    assert 1.0 == values(dropped)["dropped_first"]
    assert {"not_in_prompt": 12} == left_out(dropped)["more_passages"]
    reference = run(plant(lambda hits: right_if(GOLD in hits)), rows(12, reference_contexts=[GOLD]))
    assert 1.0 == values(reference)["reference_passages"]
    assert "With the reference passages alone, 0 % [0, 30] stay wrong" in reference.verdict


def test_an_application_that_ignores_what_it_retrieves_is_named_and_nothing_is_claimed(plant: Any) -> None:
    """It retrieves, and prompts with other passages: the contexts that it states show that."""
    planted = plant(lambda hits: WRONG)

    def ask(question: str) -> dict[str, Any]:
        planted.module.retrieve(question)
        return {"response": RIGHT, "contexts": passages(question)[:4]}

    planted.module.ask = ask
    trial = run(planted, rows(12))
    assert {None} == set(values(trial).values())
    assert "not_in_prompt" in left_out(trial)["fewer_passages"]
    assert "Fewer passages: 12 left out, the intervention did not reach the prompt" in str(trial)
    assert trial.verdict.startswith("No repair has a result, so nothing is claimed.")


def test_a_prompt_that_nobody_saw_is_unknown(plant: Any) -> None:
    """An answer alone does not show which passages the prompt held."""
    planted = plant(lambda hits: WRONG)
    planted.module.ask = lambda question: right_if(len(planted.module.retrieve(question)) < 3)
    trial = run(planted, rows(12))
    assert None is values(trial)["fewer_passages"]
    assert {"unseen": 12} == left_out(trial)["fewer_passages"]


def test_an_application_without_a_retriever_is_an_error_that_names_the_way_out(plant: Any) -> None:
    """Nothing can be changed, which is an error after the first cases."""
    planted = plant(lambda hits: WRONG)
    planted.module.ask = lambda question: WRONG
    with pytest.raises(ConfigurationError, match=r"does not call 'planted_application:retrieve'. Name the function"):
        run(planted, rows(12))
    with pytest.raises(ConfigurationError, match=r"no retriever of LangChain or LlamaIndex.*--hook rag.chain:retrieve"):
        run(planted, rows(12), hook=None)
    with pytest.raises(ConfigurationError, match="hook 'planted_application:missing' is not a function"):
        run(planted, rows(12), hook="planted_application:missing")


def test_calls_that_raise_or_hang_are_counted_with_their_reason(plant: Any) -> None:
    """They are left out of the share of their intervention. If every call fails, the trial stops."""
    ended = threading.Event()

    def answer(hits: list[str]) -> str:
        if not hits:
            raise RuntimeError("no passages")
        if len(hits) > 4:
            ended.wait()
        return right_if(len(hits) == 2)

    trial = run(plant(answer), rows(6), app_timeout_s=2)
    ended.set()
    assert {"no_passages": {"failed": 6}, "more_passages": {"failed": 6}} == {
        name: reasons for name, reasons in left_out(trial).items() if "failed" in reasons
    }
    assert 1.0 == values(trial)["fewer_passages"]
    assert {6} == set(trial.failures.values())
    assert "6 calls without an answer: the application raised RuntimeError: no passages" in str(trial)

    def fail(hits: list[str]) -> str:
        raise RuntimeError("down")

    with pytest.raises(ApplicationError, match="failed on each of the first 10"):
        run(plant(fail), rows(12))


def test_rows_that_cannot_be_asked_or_are_right_are_counted(plant: Any) -> None:
    """Removed questions, right answers, and answers that another judge called wrong."""
    planted = plant(lambda hits: RIGHT)
    removed = [{**row, "query": None} for row in rows(2)]
    right = [
        row
        | {
            "id": f"r{i}",
            "response": RIGHT,
            "case": {"estimates": None, "fingerprint": None, "outcomes": [], "is_wrong": True},
        }
        for i, row in enumerate(rows(3))
    ]
    other = {"id": "other", "query": "another", "reference": RIGHT, "response": RIGHT, "contexts": ["c"]}
    assert 0 == run(planted, [other]).n_judged_before, "it was not called wrong"
    trial = run(planted, [*removed, *right])
    assert (5, 2, 3, 0, 3) == (
        trial.n_rows,
        trial.n_without_question,
        trial.n_right,
        trial.n_wrong,
        trial.n_judged_before,
    )
    assert "No answer is wrong by this judge (3 right, 0 not decided), so there is nothing to repair." == trial.verdict
    assert "3 answers that the file calls wrong passed: the judge may have changed since" in str(trial)
    assert "2 without a question (texts removed?)" in str(trial)
    assert not planted.calls
    with pytest.raises(DataError, match="none of 2 rows has a question"):
        run(planted, removed)


def test_answers_that_no_judge_decides_are_not_called_right(plant: Any) -> None:
    """A judge that fails says nothing, so nothing is claimed and the application is not called."""
    planted = plant(lambda hits: WRONG)
    judge = FakeJudge(0, fail=lambda prompt: JudgeError("no reply", kind="timeout"))
    trial = run(planted, rows(4), judge=judge)
    assert (4, 0) == (trial.n_undecided, trial.n_asked)
    assert "No answer is wrong by this judge (0 right, 4 not decided), so nothing is claimed." == trial.verdict
    assert not planted.calls


def test_prompts_and_refusals_apply_to_a_trial(plant: Any) -> None:
    """A phrase of refusal makes an answer wrong, and a replaced prompt reaches the judge, as in `evaluate`."""
    planted = plant(lambda hits: "Please ask the front desk." if len(hits) > 2 else RIGHT)
    judge = FakeJudge(100)
    data = [row | {"response": "Please ask the front desk.", "reference": None} for row in rows(12)]
    text = (
        "Rate the answer {response} to {query} with {contexts}. Reply with one number from 0 to 100 and nothing else."
    )
    options = {"judge": judge, "prompts": {"ccrs.cc": text}}
    settings = {"app": planted.module.ask, "hook": "planted_application:retrieve"}
    assert 0 == ragstone.repair(data, ["ccrs.cc"], **settings, **options).n_wrong
    trial = ragstone.repair(data, ["ccrs.cc"], **settings, **options, refusals=["Please ask the front desk"])
    assert (12, "fewer_passages") == (trial.n_wrong, trial.best and trial.best.name)
    assert any("Rate the answer" in str(prompt) for prompt in judge.prompts)


def test_rows_without_an_answer_are_asked_first(plant: Any) -> None:
    """One call gives the answer, one is the control, one has an intervention."""
    planted = plant(lambda hits: right_if(len(hits) <= 2))
    trial = run(planted, [{key: row[key] for key in ("id", "query", "reference")} for row in rows(6)], repeats=2)
    assert 6 == trial.n_wrong
    assert {3} == set(planted.calls.values())


def test_weights_of_cases_count(plant: Any) -> None:
    """A case that stands for nine requests counts nine times."""
    planted = plant(lambda hits: right_if(len(hits) <= 2 and "question 0" in hits[0]) if hits else WRONG)
    data = [row | {"weight": 9 if row["id"] == "q0" else 1} for row in rows(4)]
    assert 0.75 == values(run(planted, data))["fewer_passages"]


def test_the_trial_ends_early_when_the_order_is_clear(plant: Any) -> None:
    """Half of 80 cases suffice if one repair corrects all, and the others none."""
    planted = plant(lambda hits: right_if(len(hits) <= 2))
    trial = run(planted, rows(80))
    assert ("clear", 40) == (trial.stopped, trial.n_asked)
    assert "The trial ended early" in str(trial)
    everything = run(planted, rows(80), stop_early=False)
    assert ("", 80) == (everything.stopped, everything.n_asked)


def test_an_interrupted_trial_resumes_without_asking_again(plant: Any, tmp_path: Path) -> None:
    """The second run asks what is missing, gives the same result, and removes its files."""
    planted = plant(lambda hits: right_if(len(hits) <= 2))
    whole = run(planted, rows(12))
    n_whole = planted.calls.total()
    planted.calls.clear()

    def stop(n_done: int, total: int) -> None:
        if n_done == 20:
            raise KeyboardInterrupt

    output = tmp_path / "trial.json"
    with pytest.raises(KeyboardInterrupt):
        run(planted, rows(12), output=output, progress=stop)
    resumed = run(planted, rows(12), output=output)
    assert str(whole) == str(resumed)
    assert n_whole <= planted.calls.total() <= n_whole + 8  # calls in flight when it was stopped
    assert ["trial.json"] == [path.name for path in tmp_path.iterdir()]
    assert "fewer_passages" == json.loads(output.read_text())["best"]


@pytest.mark.parametrize(("n_calls", "n_asked", "n_undecided"), [(8, 0, 4), (40, 12, 0)])
def test_an_exhausted_budget_stops_the_trial(plant: Any, n_calls: int, n_asked: int, n_undecided: int) -> None:
    """What is judged is reported, in the first pass and later, and the application is not called for nothing."""
    left = iter(range(n_calls))

    def fail(prompt: object) -> JudgeError | None:
        return JudgeError("the budget is exhausted", kind="budget") if next(left, None) is None else None

    judge = FakeJudge(0, fail=fail)
    planted = plant(lambda hits: WRONG)
    trial = run(planted, rows(12), judge=judge)
    assert ("budget", n_asked, n_undecided) == (trial.stopped, trial.n_asked, trial.n_undecided)
    assert "The budget is exhausted" in str(trial)


def test_the_command_prints_the_result_and_the_cost_before(
    plant: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cost before, the verdict first, and the same result as JSON on stdout and in the file."""
    planted = plant(lambda hits: right_if(len(hits) <= 2))
    monkeypatch.chdir(tmp_path)
    Path("cases.jsonl").write_text("\n".join(map(json.dumps, rows(12))))
    options = ["--app", "planted_application:ask", "--hook", "planted_application:retrieve"]
    command = ["repair", "cases.jsonl", *options, "--judge", "lexical", "--metrics", "ccrs.ac"]
    dry = CliRunner().invoke(command_line, [*command, "--dry-run", "--json"])
    assert 60 == json.loads(dry.stdout)["n_application_calls"]
    assert not planted.calls
    done = CliRunner().invoke(command_line, command)
    assert 0 == done.exit_code
    assert done.stdout.startswith("Fewer passages: corrects 100 % [")
    assert "12 wrong answers: planted_application:ask is called" in done.stderr
    shown = CliRunner().invoke(command_line, [*command, "--json"])
    assert json.loads(Path("cases.planted_application.ask.repair.json").read_text()) == json.loads(shown.stdout)


def shares_of(cases: list[dict[str, Answer]], weights: list[float] | None = None) -> dict[str, RepairShare]:
    return {share.name: share for share in repair_shares(cases, weights or [1.0] * len(cases), 0.95)}


def test_a_case_counts_as_often_as_it_stands_for_others() -> None:
    """By its weight, and by the inverse of its probability to get the intervention."""
    right, wrong = (Answer(is_right, "changed", 0.5) for is_right in (True, False))
    control = Answer(False, "unchanged")
    cases = [
        {"control": control, "fewer_passages": answer} for answer in (right, wrong, wrong._replace(probability=0.25))
    ]
    share = shares_of(cases, [3.0, 1.0, 1.0])["fewer_passages"].estimate
    assert share is not None
    assert 6 / (6 + 2 + 4) == pytest.approx(share.value)


def test_a_pair_needs_a_control_that_reached_the_prompt() -> None:
    """What became of the control says why the pair is left out, and a control that is right is luck."""
    changed = Answer(True, "changed")
    controls = [Answer(False, "unchanged")] * 2 + [
        Answer(True, "unchanged"),
        Answer(False, "unseen"),
        Answer(None, "failed"),
    ]
    share = shares_of([{"control": control, "fewer_passages": changed} for control in controls])["fewer_passages"]
    assert share.estimate is not None
    assert (5, {"unseen": 1, "no_control": 1}, 3) == (share.n_assigned, share.left_out, share.estimate.n)
    assert 2 / 3 == pytest.approx(share.estimate.value)


@pytest.mark.parametrize(
    ("n_first", "n_second", "n", "is_clear"),
    [(20, 0, 20, True), (20, 18, 20, False), (14, 11, 20, False), (9, 0, 9, False), (0, 0, 20, False)],
)
def test_the_order_is_clear_if_the_difference_is_shown(n_first: int, n_second: int, n: int, is_clear: bool) -> None:
    """Not by the larger estimate alone, and not by fewer than ten pairs."""
    cases = [
        {"control": Answer(False, "unchanged")}
        | {"fewer_passages": Answer(k < n_first, "changed"), "more_passages": Answer(k < n_second, "changed")}
        for k in range(n)
    ]
    assert is_clear == is_order_clear(list(shares_of(cases).values()))
    alone = [{name: case[name] for name in ("control", "fewer_passages")} for case in cases]
    assert (n_first > 0 and n >= 10) == is_order_clear(list(shares_of(alone).values()))
    # What only shows what retrieval can change at most does not compete with repairs.
    limits = [case | {"reference_passages": Answer(True, "changed")} for case in cases]
    assert is_clear == is_order_clear(list(shares_of(limits).values()))


@pytest.mark.parametrize(
    ("n", "reason", "is_hopeless"), [(7, "not_in_prompt", False), (8, "not_in_prompt", True), (8, "failed", False)]
)
def test_an_intervention_is_given_up_after_eight_answers(n: int, reason: str, is_hopeless: bool) -> None:
    """If it changed no prompt, and not if the application or the judge failed."""
    answer = Answer(None if reason == "failed" else False, reason)
    share = shares_of([{"control": Answer(False, "unchanged"), "fewer_passages": answer}] * n)["fewer_passages"]
    assert is_hopeless == share.is_hopeless


TEXTS = ["one", "two", "three"]


@pytest.mark.parametrize(
    ("name", "case", "expected"),
    [
        ("fewer_passages", {}, [0, 1]),
        ("fewer_passages", {"contexts": ("one", "two")}, [0]),
        ("best_first", {"utilities": {"one": 0.2, "three": 0.9}}, [2, 0, 1]),
        ("best_first", {"utilities": {"one": -0.2}}, None),
        ("relevant_only", {"utilities": {"two": -1.0, "three": 1.0}}, [0, 2]),
        ("relevant_only", {}, None),
        ("dropped_first", {"contexts": ("one", "two")}, [2, 0, 1]),
        ("no_passages", {}, []),
        ("reference_passages", {"references": ("gold",)}, ["gold"]),
    ],
)
def test_what_an_intervention_gives(name: str, case: dict[str, Any], expected: list[int | str] | None) -> None:
    """Positions of what was retrieved, or texts. A passage of which nothing is known is not called irrelevant."""
    found = BY_NAME[name].plan(Case(sample=Sample(id="q"), **case), TEXTS, [])
    assert expected == (None if found is None else list(found))


def test_interventions_are_assigned_with_equal_probabilities_among_those_that_are_possible() -> None:
    """Two of four without labels, and two of seven with labels."""
    plain = Case(sample=Sample(id="q"))
    known = Case(sample=Sample(id="q"), utilities={"one": 1.0, "two": -1.0}, references=("one",))
    rng = random.Random(0)
    for case, n_possible in ((plain, 4), (known, 7)):
        assigned = assign([case] * 400, 2, rng)
        assert {(2, 2 / n_possible)} == {(len(names), share) for names in assigned for share in names.values()}
        counts = Counter(name for names in assigned for name in names)
        assert n_possible == len(counts)
        assert all(abs(n / 400 - 2 / n_possible) < 0.1 for n in counts.values())
    assert {"no_passages": 1.0} == assign([plain], 9, rng, {"fewer_passages", "more_passages", "dropped_first"})[0]


def called(
    before: list[str], given: list[str], prompt: list[str], *, widens: bool = False, doubts: tuple[str, ...] = ()
) -> Trace:
    """A call under an intervention, with the passages of its prompt."""
    about = {"n_retrievals": 1, "is_possible": True, "widens": widens, "before": before, "given": given}
    return Trace(
        trace_id="t", started_at=0.0, metadata={"repair": about}, contexts=tuple(Passage(text=text) for text in prompt),
        evidence=Evidence(contexts="stated", doubts=doubts),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("trace", "state"),
    [
        (called(["a", "b"], ["a", "b"], ["a", "b"]), "unchanged"),
        (called(["a", "b"], ["a", "b"], ["a", "b"], widens=True), "changed"),
        (called(["a", "b"], ["a"], ["a"]), "changed"),
        (called(["a", "b"], ["a"], ["a", "b"]), "not_in_prompt"),
        (called(["a"], ["a", "b"], ["a"]), "not_in_prompt"),
        (called(["a", "b"], ["b", "a"], ["b", "a"]), "changed"),
        (called(["a", "b"], ["b", "a"], ["a", "b"]), "not_in_prompt"),
        (called(["a"], [], []), "changed"),
        (called(["a"], ["b"], ["b"], doubts=("not_in_prompt",)), "not_in_prompt"),
    ],
)
def test_an_intervention_reached_the_prompt_or_not(trace: Trace, state: str) -> None:
    """What was given must be there in its order, and what was taken away must not."""
    assert state == state_of(trace)


def test_a_correct_answer_is_right_although_it_is_not_supported() -> None:
    """A repair has nothing to correct."""
    sample = Sample(id="q", query="Where?", contexts=(Passage(text="c"),), response=RIGHT, reference=(RIGHT,))
    about = {"sample_id": "q", "metric_version": "1", "method": "x"}
    correct = Score(metric="ccrs.ac", value=0.9, details={"em": 0.0, "judge": 0.9}, **about)
    claims = [{"claim": RIGHT, "supported": False}]
    unsupported = Score(metric="ragas.faithfulness", value=0.0, details={"claims": claims}, **about)
    assert (True, "correctness") == _judged(sample, [correct, unsupported])
    failed = Failure(sample_id="q", metric="ccrs.qr", metric_version="1", kind="timeout", reason="late")
    declined = sample.model_copy(update={"response": "I don't know.", "reference": ()})
    assert (None, None) == _judged(declined, [failed]), "nothing was judged"


@pytest.mark.parametrize(("n", "stopped", "n_asked"), [(39, "", 39), (40, "clear", 20)])
def test_a_trial_may_end_early_from_40_wrong_answers_on(plant: Any, n: int, stopped: str, n_asked: int) -> None:
    """After half of them."""
    trial = run(plant(lambda hits: right_if(len(hits) <= 2)), rows(n))
    assert (stopped, n_asked) == (trial.stopped, trial.n_asked)


def test_a_case_with_few_possible_interventions_counts_less(plant: Any) -> None:
    """Labeled cases have two of seven interventions, the others two of four, so a labeled case stands for more."""
    fewer: set[str] = set()

    def answer(hits: list[str]) -> str:
        if len(hits) == 2:
            fewer.add(hits[0].partition("question ")[2].partition(",")[0])
        return right_if(len(hits) == 2 and "question 1" in hits[0])

    plain, labeled = rows(24)[:10], rows(24)[10:20]
    labeled = [
        row | {"contexts": [{"text": text, "relevance": place == 2} for place, text in enumerate(row["contexts"])]}
        for row in labeled
    ]
    trial = run(plant(answer), [row for row in [*plain, *labeled] if row["id"] != "q1"], repeats=3)
    n_labeled = sum(len(number) == 2 for number in fewer)
    n_plain = len(fewer) - n_labeled
    assert 0 < n_labeled
    assert 0 < n_plain
    assert 3.5 * n_labeled / (3.5 * n_labeled + 2 * n_plain) == pytest.approx(values(trial)["fewer_passages"])
