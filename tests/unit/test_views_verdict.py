"""The verdict, computed again from the outcomes by other code, with each of the three meanings of a wrong answer."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstone.experiments import Experiment, build_report
from ragstone.judges import JudgeIdentity
from ragstone.metrics import resolve_metrics
from ragstone.schema import Failure, NotApplicable, Passage, Sample, Score, Usage
from ragstone.stats import mean_interval
from ragstone.views import ReportView, format_share

AnyOutcome = Score | NotApplicable | Failure
METRICS = ("ccrs.ac", "ccrs.cc", "ccrs.qr")
Row = tuple[bool, float | None, float | None, float]
"""Whether the answer abstains, judged correctness, coherence (None: not scored), and question relevance."""

rows = st.tuples(
    st.booleans(), st.sampled_from([None, 0.0, 0.4, 0.6, 1.0]), st.sampled_from([None, 0.0, 0.4, 0.6, 1.0]),
    st.sampled_from([0.0, 0.4, 0.6, 1.0]),
)  # fmt: skip


def experiment(table: list[Row], metrics: tuple[str, ...], *, has_references: bool) -> Experiment:
    """An experiment with these metrics. A missing score is a failure, or not applicable without a reference."""
    samples, outcomes = [], []
    for n, (abstains, correct, coherent, relevant) in enumerate(table):
        sample = Sample(
            id=f"s{n}",
            query=f"Question {n}?",
            contexts=(Passage(text="A text."),),
            response="I don't know." if abstains else "At nine.",
            reference=("At ten.",) if has_references else (),
        )
        samples.append(sample)
        for metric, value in zip(METRICS, (correct, coherent, relevant), strict=True):
            if metric in metrics:
                outcomes.append(outcome(sample.id, metric, value, has_references=has_references))
    return Experiment(
        samples=tuple(samples),
        outcomes=tuple(outcomes),
        cards=tuple(metric.card for metric in resolve_metrics(metrics)),
        judge=JudgeIdentity(name="a judge", hash="h"),
        usage=Usage(),
        wall_s=1.0,
    )


def outcome(sample_id: str, metric: str, value: float | None, *, has_references: bool) -> AnyOutcome:
    """A score whose judged part is its value, a failure, or an outcome that says that a reference is missing."""
    about = {"sample_id": sample_id, "metric": metric, "metric_version": "1", "judge": "a judge", "judge_hash": "h"}
    if metric == "ccrs.ac" and not has_references:
        return NotApplicable(**about, reason="without reference")
    if value is None:
        return Failure(**about, kind="timeout", reason="too slow")
    return Score(**about, value=value, method="json_reply", details={"em": 0.0, "judge": value})


def wrong_flags(table: list[Row]) -> dict[str, dict[str, bool]]:
    """Return for each meaning of wrong whether each answer, of which that is known, is wrong. A missing score is a failure."""
    by_id = {f"s{n}": row for n, row in enumerate(table)}
    return {
        "abstention": {id_: abstains for id_, (abstains, _, _, _) in by_id.items()},
        "support": {
            id_: abstains or coherent < 0.5 for id_, (abstains, _, coherent, _) in by_id.items() if coherent is not None
        },
        "correctness": {id_: correct < 0.5 for id_, (_, correct, _, _) in by_id.items() if correct is not None},
    }


WORDS = {
    "correctness": r"(is|are) judged wrong",
    "mixed": r"(is judged wrong, abstains, or is|are judged wrong, abstain, or are) not supported",
    "support": r"(abstains or is|abstain or are) not supported",
    "abstention": r"abstains?\b",
}
NONE = {
    "correctness": "is judged wrong",
    "mixed": "is judged wrong, abstains, or lacks support",
    "support": "abstains or lacks support",
    "abstention": "abstains",
}
"""What is said if no answer is wrong."""


def check(view: ReportView, flags: dict[str, bool], rule: str) -> None:
    """Assert the counts, the share with its interval, and the largest causes, in the numbers and in the text."""
    n, total = sum(flags.values()), len(flags)
    share = mean_interval([float(flag) for flag in flags.values()])
    first = view.verdict[0]
    numbers = first.numbers
    assert (n, total) == (numbers["n_wrong"], numbers["n_answers"])
    assert (share.value, share.low, share.high) == (numbers["share"], numbers["low"], numbers["high"])
    percent = f"({format_share(share)})."
    if total > 1:
        words = WORDS[rule] if n else NONE[rule]
        assert re.match(rf"{n or 'None'} of {total} answers {words} {re.escape(percent)}", first.text)
    counts = Counter(answer.cause for answer in view.worst if flags.get(answer.id))
    assert sum(counts.values()) == n  # all answers are shown
    if total < 5:
        assert () == view.causes
        return
    assert {row.cause: row.n for row in view.causes if row.is_wrong} == counts
    named = {key.removeprefix("n_"): value for key, value in numbers.items() if key.startswith("n_")}
    named = {cause: value for cause, value in named.items() if cause not in ("wrong", "answers")}
    assert sorted(named.values(), reverse=True) == sorted(counts.values(), reverse=True)[:2]
    assert all(counts[cause] == value for cause, value in named.items())
    assert all(re.search(rf"\b[Ii]n {value:.0f} ", first.text) for value in named.values())
    if rule != "abstention" and n:
        assert view.next is not None
        most = max(counts.values())
        assert {"n": most, "n_wrong": n} == view.next.numbers
        limit = f"at most {most} of the {n} wrong" if most < n else f"all {n} wrong" if n > 1 else "all 1 wrong"
        assert limit in view.next.text


@given(st.lists(rows, min_size=1, max_size=30))
def test_answers_with_references_are_judged_wrong(table: list[Row]) -> None:
    """Where correctness failed, it is not known whether an answer is wrong, also if it abstains or is not supported."""
    check_known(table, "correctness", [correct for _, correct, _, _ in table], has_references=True)


@given(st.lists(rows, min_size=1, max_size=30))
def test_answers_without_references_abstain_or_are_not_supported(table: list[Row]) -> None:
    """Judged correctness is not applicable, so its values do not count. Where support failed, abstentions do not count."""
    check_known(table, "support", [coherent for _, _, coherent, _ in table], has_references=False)


def check_known(table: list[Row], rule: str, values: list[float | None], *, has_references: bool) -> None:
    """Assert the verdict, or that nothing is known because the metric that decides failed for all answers."""
    view = build_report(experiment(table, METRICS, has_references=has_references), n_worst=100)
    n_failed = values.count(None)
    n_undecided = sum(
        values[n] is None and any(value is not None for value in table[n][(1 if has_references else 2) :])
        for n in range(len(table))
    )
    said = [notice.numbers["n_undecided"] for notice in view.notices if "n_undecided" in notice.numbers]
    assert ([n_undecided] if n_undecided else []) == said
    if n_failed < len(table):
        check(view, wrong_flags(table)[rule], rule)
    else:
        assert "No metric says which answers are wrong." in view.verdict[0].text
        assert view.next is not None
        assert "ragstone doctor" in view.next.text
        assert not any(row.is_wrong for row in view.causes)


@given(st.lists(rows, min_size=2, max_size=30), st.integers(1, 29))
def test_with_some_references_each_answer_is_decided_by_what_applies_to_it(table: list[Row], n: int) -> None:
    """The verdict says that wrong does not mean the same for all answers."""
    with_references = experiment(table, METRICS, has_references=True)
    without = experiment(table, METRICS, has_references=False)
    ids = {f"s{k}" for k in range(n)}
    mixed = replace(
        with_references,
        samples=tuple(a if a.id in ids else b for a, b in zip(with_references.samples, without.samples, strict=True)),
        outcomes=tuple(
            a if a.sample_id in ids else b for a, b in zip(with_references.outcomes, without.outcomes, strict=True)
        ),
    )
    flags = wrong_flags(table)
    judged = {id_: flag for id_, flag in flags["correctness"].items() if id_ in ids}
    supported = {id_: flag for id_, flag in flags["support"].items() if id_ not in ids}
    rule = "mixed" if judged and supported else "correctness" if judged else "support"
    if judged or supported:
        check(build_report(mixed, n_worst=100), judged | supported, rule)


def test_failures_of_the_judge_do_not_change_the_expected_share() -> None:
    """Of 2,100 answers 10 % abstain and none is unsupported. One in seven is not judged: 10 % of the others are wrong."""
    table: list[Row] = [(n % 10 == 0, None, None if n % 7 == 0 else 1.0, 1.0) for n in range(2_100)]
    view = build_report(experiment(table, METRICS, has_references=False))
    assert (180, 1_800) == (view.verdict[0].numbers["n_wrong"], view.verdict[0].numbers["n_answers"])


@given(st.lists(rows, min_size=1, max_size=30))
def test_without_a_metric_of_correctness_or_support_all_answers_count(table: list[Row]) -> None:
    """Not only those that abstain, all of which would be wrong. The next step is another metric, and no answer is without a reason."""
    view = build_report(experiment(table, ("ccrs.qr",), has_references=False), n_worst=100)
    check(view, wrong_flags(table)["abstention"], "abstention")
    assert "No metric says whether the answers are correct or supported." in view.verdict[0].text
    assert view.next is not None
    assert "Add a metric" in view.next.text
    assert {f"s{n}" for n in range(len(table))} == {answer.id for answer in view.worst}
    assert all(answer.why for answer in view.worst)
    abstaining = [answer.cause is not None for answer in view.worst]
    assert abstaining == sorted(abstaining, reverse=True)


@pytest.mark.parametrize(("relevance", "expected"), [(0.1, "Low: Question relevance 0.10."), (0.9, "No score is low.")])
def test_an_answer_that_nothing_judges_has_a_reason(relevance: float, expected: str) -> None:
    """Its low scores, or that none is low."""
    view = build_report(experiment([(False, None, None, relevance)] * 6, ("ccrs.qr",), has_references=False))
    assert [expected] * 5 == [answer.why for answer in view.worst]


def test_answers_that_stop_to_abstain_are_not_gained_without_a_judgment() -> None:
    """Scores decide what changed, as without any answer that abstains."""
    before = experiment(
        [(n == 0, None, None, 0.0 if n < 4 else 1.0) for n in range(8)], ("ccrs.qr",), has_references=False
    )
    after = experiment(
        [(n == 1, None, None, 1.0 if n < 3 else 0.0) for n in range(8)], ("ccrs.qr",), has_references=False
    )
    changes = after.report(baseline=before).changes
    assert changes is not None
    assert ({"s0", "s1", "s2"}, {"s4", "s5", "s6", "s7"}) == (
        {row.id for row in changes.gained},
        {row.id for row in changes.lost},
    )
    assert () == changes.flow


@given(st.lists(st.tuples(rows, rows), min_size=5, max_size=30))
def test_causes_that_only_the_baseline_has_are_not_in_the_verdict(pairs: list[tuple[Row, Row]]) -> None:
    """With a baseline, the sentences about this system have the same counts as without, none of which is 0."""
    before, after = (experiment([pair[k] for pair in pairs], METRICS, has_references=True) for k in (0, 1))
    alone, compared = build_report(after, n_worst=100), after.report(baseline=before, n_worst=100)
    assert alone.verdict[0] in compared.verdict
    assert alone.next == compared.next
    assert all(
        numbers > 0
        for key, numbers in compared.verdict[-1].numbers.items()
        if key.startswith("n_") and key != "n_wrong"
    )
