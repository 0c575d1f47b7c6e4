"""Details of reports that a mutated program got wrong without a failing test: precedence, order, limits and weights."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path

import pytest

from ragstone.errors import ConfigurationError
from ragstone.experiments import Experiment, build_report
from ragstone.experiments._table import ScoreRows, TableReader
from ragstone.experiments._views.answers import build_answer
from ragstone.experiments._views.labeled import HumanLabels, build_labels, takes_labels
from ragstone.experiments._views.slices import SliceLabels
from ragstone.experiments._views.steps import steps_of
from ragstone.experiments._views.trend import Timeline
from ragstone.experiments._views.where import parse_where
from ragstone.judges import JudgeIdentity
from ragstone.metrics import resolve_metrics
from ragstone.schema import Failure, Interval, NotApplicable, Passage, Retrieval, Sample, Score, Trace, Usage
from ragstone.scoring import Signals, answer_probabilities, diagnose, note_outcome, note_sample
from ragstone.settings import Analysis
from ragstone.stats import drawn_kappa, drawn_prediction_powered_mean, mean_interval
from ragstone.store import DrawnRequest, StoredLabel
from ragstone.views import Answers, AnswerText, ReportText

CARDS = {metric.card.name: metric.card for metric in resolve_metrics(["ccrs", "ragas", "ragchecker", "udcg"])}
DECLINED = "I could not find this in the documents."


def score(metric: str, value: float, sample_id: str = "s", **details: object) -> Score:
    """A score of a metric."""
    return Score(sample_id=sample_id, metric=metric, metric_version="1", value=value, method="exact", details=details)


def sample(*, relevance: float | None = 1.0, response: str = "It is red.", reference: str = "Blue.") -> Sample:
    """A sample with one passage."""
    passages = (Passage(text="It is red.", relevance=relevance),)
    return Sample(id="s", query="Which color?", contexts=passages, response=response, reference=(reference,))


WRONG = score("ccrs.ac", 0.06, em=0.0, judge=0.2)
SUPPORTED = score("ragas.faithfulness", 1.0, claims=[{"claim": "It is red.", "supported": True}])
UNSUPPORTED_ELSEWHERE = score("ragchecker.faithfulness", 0.0, claims=[{"claim": "It is red.", "supported": False}])
IRRELEVANT = score("udcg", 0.5, passages=[{"position": 1, "relevance": 0.0, "p_abstain": 0.2}])


@pytest.mark.parametrize(
    ("given", "outcomes", "expected"),
    [
        (sample(reference=DECLINED, response=DECLINED), [WRONG], None),
        (sample(reference=DECLINED + " " * 400, response=DECLINED), [WRONG], None),
        (sample(response=DECLINED), [WRONG, score("ragchecker.claim_recall", 0.0)], "missed_passage"),
        (
            sample(response=DECLINED).model_copy(update={"reference": (DECLINED, "Blue.")}),
            [WRONG],
            "missed_passage",
        ),
        (
            sample(response=DECLINED).model_copy(update={"reference": (DECLINED, "Blue, " * 100)}),
            [WRONG],
            "missed_passage",
        ),
        (sample(), [WRONG, SUPPORTED, UNSUPPORTED_ELSEWHERE], "wrong_passage"),
        (sample(), [WRONG, UNSUPPORTED_ELSEWHERE, SUPPORTED], "wrong_passage"),
        (sample(relevance=None, response=DECLINED), [WRONG, IRRELEVANT], "no_relevant_passage"),
    ],
)
def test_the_first_signal_decides(given: Sample, outcomes: list[Score], expected: str | None) -> None:
    """Labels count before judges, the preferred metric of claims before others, whatever the order of the outcomes."""
    found = diagnose(given, outcomes)
    assert (found.name if found else None) == expected


def test_the_probability_to_answer_has_the_complementary_interval() -> None:
    """The lower end of one is the upper end of the other."""
    outcome = score("udcg", 0.5, passages=[{"position": 1, "p_abstain": 0.2, "interval": [0.1, 0.4]}])
    ((p_answer, (low, high)),) = answer_probabilities([outcome]).values()
    assert (p_answer, low, high) == pytest.approx((0.8, 0.6, 0.9))


def test_marks_of_an_answer() -> None:
    """A relevant passage does not distract, and a claim without its sentence is listed instead of marked."""
    outcomes = [
        score("udcg", 0.5, passages=[{"position": 1, "relevance": 1.0, "p_abstain": 0.1}]),
        score(
            "ragas.faithfulness", 0.0, claims=[{"claim": "Norwegian carpenters made it by hand.", "supported": False}]
        ),
    ]
    answer = build_answer("s", sample(), outcomes, Signals(), CARDS, time=None)
    assert answer.passages is not None
    assert answer.passages[0].marks == ("relevant",)
    assert answer.unsupported == ("Norwegian carpenters made it by hand.",)
    assert not any(span.unsupported for span in answer.response or ())
    (other,) = build_answer("s", sample(relevance=0.0), outcomes[:1], Signals(), CARDS, time=None).passages or ()
    assert other.marks == ("distracting",)


def test_a_claim_without_a_verdict_is_not_marked() -> None:
    """The judge that did not say whether a claim is supported did not say that it is not."""
    claims = [{"claim": "It is red.", "supported": None}, {"claim": "It costs nine crowns.", "supported": False}]
    given = sample(response="It is red. It costs nine crowns.")
    answer = build_answer("s", given, [score("ragas.faithfulness", 0.0, claims=claims)], Signals(), CARDS, time=None)
    assert [("It is red. ", False), ("It costs nine crowns.", True)] == [
        (span.text, span.unsupported) for span in answer.response or ()
    ]
    assert "0 of 2 claims are supported" == answer.scores[0].reason


@pytest.mark.parametrize(("claim", "is_marked"), [("Red stones.", True), ("Red old stones.", False)])
def test_a_sentence_with_half_of_the_words_of_a_claim_makes_it(claim: str, is_marked: bool) -> None:
    """With fewer of them, the claim is listed without a sentence."""
    outcome = score("ragas.faithfulness", 0.0, claims=[{"claim": claim, "supported": False}])
    answer = build_answer("s", sample(), [outcome], Signals(), CARDS, time=None)
    assert ([is_marked], () if is_marked else (claim,)) == (
        [span.unsupported for span in answer.response or ()], answer.unsupported
    )  # fmt: skip


def test_a_passage_without_a_label_does_not_distract() -> None:
    """A passage that alone draws an answer may be relevant."""
    drawn = score("udcg", 0.5, passages=[{"position": 1, "p_abstain": 0.1}])
    (passage,) = build_answer("s", sample(relevance=None), [drawn], Signals(), CARDS, time=None).passages or ()
    assert (passage.marks, passage.p_answer) == ((), 0.9)


def test_the_evidence_is_red_if_the_answer_is_wrong() -> None:
    """And green otherwise."""
    right = score("ccrs.ac", 0.9, em=0.0, judge=0.9)
    for outcome, why, style in ((WRONG, "Judged wrong by ccrs.ac.", "red"), (right, "Judged correct.", "green")):
        signals = Signals()
        note_sample(signals, sample())
        note_outcome(signals, outcome, None)
        view = build_answer("s", sample(), [outcome], signals, CARDS, time=None)
        spans = [
            (line.plain[e.start : e.end], e.style) for line in AnswerText(view, width=80).lines() for e in line.spans
        ]
        assert (why, style) in spans


def test_the_source_of_a_label_is_named() -> None:
    """Labels of the data come before judges; a passage that nobody judged has no source."""
    judged = score("udcg", 0.5, passages=[{"position": 1, "relevance": 1.0, "p_abstain": 0.1}])

    def source(relevance: float | None, *outcomes: Score) -> str | None:
        view = build_answer("s", sample(relevance=relevance), outcomes, Signals(), CARDS, time=None)
        assert view.passages is not None
        return view.passages[0].label_source

    assert source(1.0, judged) == "labels of the passages"
    assert source(None, judged) == "udcg (judge)"
    assert source(None) is None
    passages = (Passage(text="It is red."), Passage(text="It is old."))
    both = build_answer("s", sample().model_copy(update={"contexts": passages}), [judged], Signals(), CARDS, time=None)
    assert ["udcg (judge)", None] == [passage.label_source for passage in both.passages or ()]


def test_failures_are_counted_in_notebooks_and_yellow_in_the_terminal() -> None:
    """A failure is not a low score, which is red."""
    result = experiment([(0.1, 0.9), (0.2, None), (0.3, None)])
    assert '1 scored<span class="failed">, 2 failed</span>' in result._repr_html_()
    assert "<small>3 scored</small>" in result._repr_html_()
    failure = Failure(sample_id="s", metric="ccrs.cc", metric_version="1", kind="timeout", reason="slow")
    view = build_answer("s", sample(), [score("ccrs.qr", 0.1), failure], Signals(), CARDS, time=None)
    lines = AnswerText(view, width=80).lines()
    parts = [(line.plain[span.start : span.end].strip(), span.style) for line in lines for span in line.spans]
    assert [part for part in parts if part[0] in {"0.10", "failed"}] == [("0.10", "red"), ("failed", "yellow")]


def test_the_highest_value_is_the_worst_if_lower_is_better() -> None:
    """And the lowest one otherwise."""
    lower = next(card for card in CARDS.values() if card.direction == "lower")
    result = experiment([(value, None) for value in (0.3, 0.9, 0.1)])
    assert ["s2", "s0", "s1"] == [answer.id for answer in result.worst(metric="ccrs.ac")]
    renamed = [each.model_copy(update={"metric": lower.name}) for each in result.outcomes if each.metric == "ccrs.ac"]
    object.__setattr__(result, "outcomes", tuple(renamed))
    object.__setattr__(result, "cards", (lower,))
    assert ["s1", "s0", "s2"] == [answer.id for answer in result.worst(metric=lower.name)]


def test_the_metrics_with_the_most_failures_are_described() -> None:
    """The number of the others follows."""
    names = ("ccrs.ac", "ccrs.cc", "ccrs.qr", "ccrs.ir", "ragas.faithfulness")
    failures = tuple(
        Failure(sample_id=f"s{n}", metric=name, metric_version="1", kind="timeout", reason="slow")
        for k, name in enumerate(names, start=1)
        for n in range(k)
    )
    result = experiment([(0.1, 0.9)] * 6)
    object.__setattr__(result, "outcomes", (*failures, score("ccrs.if", 0.5, "s0")))
    object.__setattr__(result, "cards", tuple(CARDS[name] for name in names))
    notices = build_report(result).notices
    assert [5, 4, 3] == [each.numbers["n_failed"] for each in notices if "n_failed" in each.numbers]
    (others,) = [each for each in notices if "n_metrics" in each.numbers]
    assert (others.numbers, others.text) == ({"n_metrics": 2}, "2 more metrics have failures, see the table.")


def test_of_several_outcomes_of_a_sample_the_last_one_counts() -> None:
    """As in `compare`: a report of two files in one is that of the second, and says so."""
    first, second = experiment([(0.1, 0.9), (0.2, None)] * 20), experiment([(0.9, None), (0.3, 0.8)] * 20)
    both = dataclasses.replace(second, outcomes=(*first.outcomes, *second.outcomes))
    view, expected = build_report(both), build_report(second)
    (note,) = [each.text for each in view.notices if "later one" in each.text]
    assert "80 outcomes do not count: a later one is of the same sample and metric." == note
    assert expected.metrics == view.metrics
    assert (expected.verdict, expected.causes, expected.worst) == (view.verdict, view.causes, view.worst)
    compared = second.report(baseline=both)
    assert note in [each.text for each in compared.notices]


def test_scores_of_several_judges_are_no_mean(tmp_path: Path) -> None:
    """Unless the caller insists; then one notice names all metrics. An outcome that does not count is no obstacle."""
    result, file = experiment([(0.1, 0.9)] * 4), tmp_path / "outcomes.jsonl"
    outcomes = tuple(o.model_copy(update={"judge": f"judge {o.sample_id}"}) for o in result.outcomes)
    mixed = dataclasses.replace(result, outcomes=outcomes)
    mixed.to_jsonl(file)
    refused = (
        r"scores of different judges are not on the same scale \('judge s0', .*--set analysis.allow_different_judges"
    )
    for make in (mixed.report, lambda: mixed.check({"ccrs.ac": 0.5}), lambda: build_report(file)):
        with pytest.raises(ConfigurationError, match=refused):
            make()
    notices = build_report(file, analysis=Analysis(allow_different_judges=True)).notices
    (said,) = [each for each in notices if "n_judges" in each.numbers]
    assert said.text == "Scores of 2 metrics come from 4 judges, whose scales may differ."
    assert {"n_metrics": 2, "n_judges": 4} == said.numbers
    assert build_report(dataclasses.replace(result, outcomes=(*outcomes, *result.outcomes))).verdict


def test_answers_without_a_score_are_counted_in_notebooks() -> None:
    """By kind: a metric that does not apply has not failed."""
    result = experiment([(0.1, 0.9), (0.2, None), (0.3, None), (0.4, None)])
    about = {"metric": "ccrs.cc", "metric_version": "1"}
    inapplicable = [NotApplicable(sample_id=id_, reason="no contexts", **about) for id_ in ("s1", "s2")]
    outcomes = [
        each for each in result.outcomes if (each.sample_id, each.metric) not in {("s1", "ccrs.cc"), ("s2", "ccrs.cc")}
    ]
    object.__setattr__(result, "outcomes", (*outcomes, *inapplicable))
    assert '1 scored, 2 n.a.<span class="failed">, 1 failed</span>' in result._repr_html_()


def test_the_interval_of_a_probability_is_shown_if_it_has_a_width() -> None:
    """In the terminal."""
    view = build_answer("s", sample(), [score("udcg", 0.5, passages=[])], Signals(), CARDS, time=None)
    assert view.passages is not None

    def text(low: float, high: float) -> str:
        passage = dataclasses.replace(view.passages[0], p_answer=0.4, p_answer_interval=(low, high))
        shown = dataclasses.replace(view, passages=(passage,))
        return "\n".join(line.plain for line in AnswerText(shown, width=80).lines())

    assert "p(answer) 0.40 [0.20, 0.60]" in text(0.2, 0.6)
    assert "p(answer) 0.40" in text(0.4, 0.4)
    assert "0.40 [" not in text(0.4, 0.4)


def test_a_high_value_is_low_quality_if_lower_is_better() -> None:
    """The mark of a low score follows the direction of the metric."""
    lower = next(card for card in CARDS.values() if card.direction == "lower" and math.isfinite(card.high - card.low))
    for value, is_low in ((lower.high, True), (lower.low, False)):
        answer = build_answer("s", sample(), [score(lower.name, value)], Signals(), CARDS, time=None)
        assert answer.scores[0].is_low is is_low


def experiment(values: list[tuple[float | None, float | None]]) -> Experiment:
    """An experiment with a row for each pair of values of two metrics."""
    samples = tuple(
        Sample(id=f"s{n}", query="Why?", contexts=(), response="So.", reference=("Else.",)) for n in range(len(values))
    )
    outcomes: list[Score | Failure] = []
    for n, pair in enumerate(values):
        for metric, value in zip(("ccrs.ac", "ccrs.cc"), pair, strict=True):
            if value is None:
                about = {"sample_id": f"s{n}", "metric": metric, "metric_version": "1"}
                outcomes.append(Failure(**about, kind="timeout", reason="slow"))
            else:
                outcomes.append(score(metric, value, f"s{n}", em=0.0, judge=value))
    return Experiment(
        samples=samples,
        outcomes=tuple(outcomes),
        cards=tuple(CARDS[name] for name in ("ccrs.ac", "ccrs.cc")),
        judge=JudgeIdentity(name="a judge", hash="h"),
        usage=Usage(),
        wall_s=1.0,
    )


def test_a_target_is_missed_or_reached() -> None:
    """The word follows from the side of the interval."""
    for value, word in ((0.1, "missed"), (0.9, "reached")):
        view = build_report(experiment([(value, 0.5)] * 40), targets={"ccrs.ac": 0.5})
        assert view.verdict[1].text.endswith(f"The target is {word}.")


def test_the_metric_with_most_failures_is_named_first() -> None:
    """More metrics than fit are summed up, so the order decides what is seen."""
    view = build_report(experiment([(None, None), (0.5, None), (0.5, None), (0.5, 0.5)]))
    failed = [each.numbers["n_failed"] for each in view.notices if "n_failed" in each.numbers]
    assert failed == [3, 1]
    assert [4, 4] == [each.numbers["n"] for each in view.notices if "n_failed" in each.numbers]


def test_five_answers_have_causes_and_the_worst_is_listed_first() -> None:
    """Four are too few for counts."""
    values: list[tuple[float | None, float | None]] = [(0.4, 0.4), (0.1, 0.1), (0.3, 0.3), (0.2, 0.2), (0.0, 0.0)]
    assert not build_report(experiment(values[:4])).causes
    (row,) = build_report(experiment(values)).causes
    assert row.sample_ids == ("s4", "s1", "s3", "s2", "s0")


def test_the_last_scores_of_a_trend_are_not_lost() -> None:
    """A last part with fewer than 20 scores joins the one before."""
    timeline = Timeline()
    ids = [f"s{n}" for n in range(65)]
    for n, id_ in enumerate(ids):
        timeline.add(id_, 1_700_000_000.0 + 600 * n, {})
    view = build_report(experiment([(0.5, 0.5)] * 5))
    reader = TableReader()
    for row in view.metrics:
        for id_ in ids:
            reader.put(score(row.name, 0.5, id_))
    trend = timeline.view(view.metrics, reader.table(), 0.8)
    assert trend is not None
    assert {0.8} == {point.estimate.confidence_level for row in trend.rows for point in row.points}
    assert all(sum(point.estimate.n for point in row.points) == 65 for row in trend.rows)


def test_conditions_with_not_equal() -> None:
    """A sample without the label fulfills it too."""
    (condition,) = parse_where("topic!=dogs")
    assert not condition.holds({"topic": ("dogs",)}, {})
    assert condition.holds({"topic": ("fares",)}, {})
    assert condition.holds({}, {})


def test_labels_are_weighted_by_draw_and_sampling_probability() -> None:
    """A label of 0.5 is not a wrong answer, and kappa counts a request as often as it stands for others."""
    ids = [f"t{n}" for n in range(12)]
    people = {id_: (0.0, 0.5, 1.0)[n % 3] for n, id_ in enumerate(ids)}
    wrong = {id_: n % 4 == 0 for n, id_ in enumerate(ids)}
    draws = {id_: 0.2 + 0.05 * n for n, id_ in enumerate(ids)}
    sampled = {id_: 0.5 if n % 2 else 1.0 for n, id_ in enumerate(ids)}
    human = HumanLabels(
        labels=[StoredLabel(id_, "ann", value, 0.0) for id_, value in people.items()],
        drawn=[DrawnRequest(id_, draws[id_], n) for n, id_ in enumerate(ids)],
    )
    reader = TableReader()
    for id_ in ids:
        reader.row(id_)
    view = build_labels(human, wrong, reader.table(sampled), (), 0.95)
    assert view is not None
    numbers = view.statements[0].numbers
    assert numbers["n_same"] == sum((people[id_] < 0.5) == wrong[id_] for id_ in ids)
    expected = drawn_kappa(
        [wrong[id_] for id_ in ids], [people[id_] < 0.5 for id_ in ids], [draws[id_] * sampled[id_] for id_ in ids]
    )
    assert expected.coefficient is not None
    assert numbers["kappa"] == pytest.approx(expected.coefficient.value)


def test_an_answer_without_a_cause_names_its_low_scores() -> None:
    """What to look at, if nothing says that the answer is wrong. A cause is named instead of its scores."""
    scores = [score("ccrs.qr", 0.1), score("ccrs.id", 0.9), score("ccrs.cc", 0.2)]
    low = build_answer("s", sample(), scores, Signals(), CARDS, time=None)
    assert "Low: Question relevance 0.10, Contextual coherence 0.20." == low.why
    fine = build_answer("s", sample(), scores[1:2], Signals(), CARDS, time=None)
    assert "No score is low." == fine.why
    samples = tuple(sample().model_copy(update={"id": f"s{n}", "reference": ()}) for n in range(3))
    result = Experiment(
        samples=samples,
        outcomes=tuple(score("ccrs.qr", 0.1 * n, f"s{n}") for n in range(3)),
        cards=(CARDS["ccrs.qr"],),
        judge=JudgeIdentity(name="judge", hash="h"),
        usage=Usage(),
        wall_s=1.0,
    )
    text = "\n".join(line.plain for line in ReportText(build_report(result)).lines())
    assert "Low: Question relevance 0.00." in text


def test_the_scores_of_an_answer_take_the_width_that_they_need() -> None:
    """A reason follows its value; intervals widen the column. The id of a distracting passage has a line of its own if it must."""
    interval = {"low": 0.05, "high": 0.35, "confidence_level": 0.95, "method": "wilson"}
    plain = [score("ccrs.ac", 0.06, em=0.0, judge=0.2), score("ccrs.qr", 0.1)]
    wide = [plain[0], plain[1].model_copy(update={"interval": Interval(**interval)})]
    distracting = score("udcg", 0.5, passages=[{"position": 1, "relevance": 0.0, "p_abstain": 0.2}])
    for scores, expected in ((plain, "0.06  judged 0.20"), (wide, "0.06               judged 0.20")):
        view = build_answer("s", sample(), scores, Signals(), CARDS, time=None)
        assert expected in "\n".join(line.plain for line in AnswerText(view, width=80).lines())
        assert ("0.10 [0.05, 0.35]" in str(Answers([view]))) == (scores is wide)
    passage = Passage(text="It is red.", id="a-long-name-of-a-passage-in-a-folder")
    view = build_answer(
        "s", sample().model_copy(update={"contexts": (passage,)}), [distracting], Signals(), CARDS, time=None
    )
    lines = [line.plain for line in AnswerText(view, width=60).lines()]
    assert "   1  distracting" in [line.rstrip() for line in lines]
    assert max(map(len, lines)) <= 60
    assert any(line.startswith("      a-long-name") for line in lines)
    (line,) = [each.plain for each in AnswerText(view, width=100).lines() if "a-long-name" in each.plain]
    assert line.startswith("   1  distracting a-long-name")


@pytest.mark.parametrize(
    ("width", "expected"),
    [
        (60, ["one answer", "  ragstone traces traffic.db 01a21fef-6e23-7451-bacf-d0c9"]),
        (80, ["one answer  ragstone traces traffic.db 01a21fef-6e23-7451-bacf-d0c9"]),
        (50, ["one answer  ragstone traces traffic.db 01a21fef-6e23-7451-bacf-d0c9"]),
    ],
)
def test_commands_have_lines_of_their_own_if_they_fit_only_there(width: int, expected: list[str]) -> None:
    """They are never broken, so that they can be copied."""
    view = build_report(experiment([(0.1, 0.9)] * 6))
    steps = [("one answer", "ragstone traces traffic.db 01a21fef-6e23-7451-bacf-d0c9")]
    lines = [line.plain for line in ReportText(view, width=width).lines(next_steps=steps)]
    assert expected == lines[-len(expected) :]


def test_labels_of_answers_are_compared_with_metrics_that_rate_answers() -> None:
    """From bad to good on a scale with two ends: not with those of passages, of harm or without an end."""
    assert takes_labels("answer", 0.0, 1.0, lower_is_better=False)
    assert takes_labels("support", 0.0, 1.0, lower_is_better=False)
    assert not takes_labels("passages", 0.0, 1.0, lower_is_better=False)
    assert not takes_labels("answer", 0.0, 1.0, lower_is_better=True)
    assert not takes_labels("answer", 0.0, math.inf, lower_is_better=False)


def test_an_answer_with_several_values_of_a_label_has_the_label() -> None:
    """It is in the row of each value, and not among those without one."""
    labels = SliceLabels(["tag"])
    for n in range(6):
        labels.add(f"s{n}", {"tag": ("a", "b")} if n < 3 else {"tag": ("a",)} if n < 4 else {})
    (table,) = labels.tables(
        {f"s{n}": n == 0 for n in range(6)}, lambda ids, flags, n: mean_interval([float(flag) for flag in flags])
    )
    assert ([("b", 3, 1), ("a", 4, 1)], 2) == ([(row.value, row.n, row.n_wrong) for row in table.rows], table.n_without)


def test_the_steps_of_a_request() -> None:
    """A query that is the question is not repeated, and a clock that was put back gives no duration."""
    found = Retrieval(passages=(Passage(text="It is red."),), query="Which color?")
    other = found.model_copy(update={"query": "color of it"})
    trace = Trace(
        trace_id="t", started_at=10.0, ended_at=12.5, query="Which color?", retrievals=(found, other), model="m",
        usage=Usage(calls=2, input_tokens=70, output_tokens=30),
    )  # fmt: skip
    first, second, model, whole = steps_of(trace)
    assert ("1 passage", "color of it → 1 passage") == (first.about, second.about)
    assert (True, "2.50 s") == (model.about.endswith(", 2 calls"), whole.duration)
    back = steps_of(trace.model_copy(update={"ended_at": 9.0}))
    assert "unknown" == back[-1].duration


@pytest.mark.parametrize(("p_abstain", "marks"), [(0.7, ("distracting",)), (0.71, ())])
def test_a_passage_that_is_answered_from_in_three_of_ten_distracts(p_abstain: float, marks: tuple[str, ...]) -> None:
    """If it is irrelevant."""
    drawn = score("udcg", 0.5, passages=[{"position": 1, "p_abstain": p_abstain}])
    (passage,) = build_answer("s", sample(relevance=0.0), [drawn], Signals(), CARDS, time=None).passages or ()
    assert marks == passage.marks


@pytest.mark.parametrize(("n", "n_metrics"), [(4, 0), (5, 1)])
def test_five_labels_of_drawn_requests_correct_a_mean(n: int, n_metrics: int) -> None:
    """Fewer do not."""
    result = experiment([(0.25 * (k % 5), None) for k in range(20)])
    rows = [row for row in build_report(result).metrics if row.name == "ccrs.ac"]
    human = HumanLabels(
        labels=[StoredLabel(f"s{k}", "ann", 0.5 * (k % 3), 0.0) for k in range(n)],
        drawn=[DrawnRequest(f"s{k}", 0.4, k) for k in range(10)],
    )
    view = build_labels(human, {}, result.source().table()[0], rows, 0.95)
    assert view is not None
    assert (n_metrics, [n] * n_metrics) == (len(view.metrics), [metric.n for metric in view.metrics])


def test_labels_of_a_kind_of_request_are_sliced_only_on_demand() -> None:
    """Users, sessions, states and sources say little about what an application is asked."""
    keys = ("topic", "user_id", "session_id", "status", "source")

    def sliced(by: tuple[str, ...]) -> list[str]:
        labels = SliceLabels(by)
        for n in range(40):
            labels.add(f"s{n}", {key: (f"{key}{n % 2}",) for key in keys})
        wrong = {f"s{n}": n % 3 == 0 for n in range(40)}
        tables = labels.tables(wrong, lambda ids, flags, n: mean_interval([float(flag) for flag in flags]))
        return [table.key for table in tables]

    assert ["topic"] == sliced(())
    assert ["status", "source"] == sliced(("status", "source"))


def test_two_parts_of_20_scores_are_a_trend() -> None:
    """And 39 scores are none."""
    view = build_report(experiment([(0.5, 0.5)] * 5))

    def points(n: int) -> list[int]:
        timeline, reader = Timeline(), TableReader()
        for k in range(n):
            timeline.add(f"s{k}", 1_700_000_000.0 + 86_400 * (k // 20), {})
            reader.put(score("ccrs.ac", 0.5, f"s{k}"))
        trend = timeline.view(view.metrics[:1], reader.table(), 0.95)
        return [] if trend is None else [point.estimate.n for point in trend.rows[0].points]

    assert ("ccrs.ac", [20, 20], []) == (view.metrics[0].name, points(40), points(39))


@pytest.mark.parametrize(
    ("operator", "expected"),
    [("=", [2]), ("!=", [1, 3]), ("<", [1]), ("<=", [1, 2]), (">", [3]), (">=", [2, 3])],
)
def test_the_operators_of_conditions(operator: str, expected: list[int]) -> None:
    """Of scores, and of labels that are numbers."""
    (condition,) = parse_where(f"x{operator}2")
    assert expected == [n for n in (1, 2, 3) if condition.holds({}, {"x": float(n)})]
    assert expected == [n for n in (1, 2, 3) if condition.holds({"x": (f"{n}",)}, {})]


def test_a_score_without_its_decision_value_is_not_called_low_or_good() -> None:
    """What decides may be missing in outcomes of other programs."""
    known, unknown = score("ccrs.ac", 0.9, em=0.0, judge=0.2), score("ccrs.ac", 0.1)
    view = build_answer("s", sample(), [known, unknown], Signals(), CARDS, time=None)
    assert [True, None] == [each.is_low for each in view.scores]


def test_claims_are_those_of_the_first_metric_with_verdicts_about_them() -> None:
    """A metric that lists claims alone says nothing about them."""
    listed = score("ragchecker.claim_recall", 0.5, claims=[{"claim": "It is red."}])
    judged = score("ragas.faithfulness", 0.0, claims=[{"claim": "It is red.", "supported": False}])
    view = build_answer("s", sample(), [listed, judged], Signals(), CARDS, time=None)
    assert [True] == [span.unsupported for span in view.response or ()]


def test_labels_are_compared_with_what_decides() -> None:
    """The judged part of a score, at the level of the report. Labels of other requests are counted."""
    plain = experiment([(0.1 * (k % 7), None) for k in range(20)])
    outcomes = [score("ccrs.ac", 0.05 * k, f"s{k}", em=0.0, judge=1.0 if k % 3 else 0.0) for k in range(20)]
    result = dataclasses.replace(plain, outcomes=tuple(outcomes))
    human = HumanLabels(
        labels=[StoredLabel(f"s{k}", "ann", 1.0 if k % 3 else 0.0, 0.0) for k in (*range(10), 15)],
        drawn=[DrawnRequest(f"s{k}", 0.5, k if k < 10 else None) for k in range(20)],
    )
    table, _ = result.source().table()
    rows = [row for row in build_report(result).metrics if row.name == "ccrs.ac"]
    view = build_labels(human, {}, table, rows, 0.8)
    assert view is not None
    assert (11, 10, 10) == (view.n_labeled, view.n_drawn, view.n_drawn_labeled)
    (metric,) = view.metrics
    expected = drawn_prediction_powered_mean(
        [(1.0 if k % 3 else 0.0) if k < 10 else None for k in range(20)],
        [1.0 if k % 3 else 0.0 for k in range(20)],
        [0.5] * 20,
        confidence_level=0.8,
    )
    assert (expected.estimate, 13 / 20) == (metric.label_mean, pytest.approx(metric.mean.value))


@pytest.mark.parametrize(("n", "keys"), [(12, ["topic"]), (13, [])])
def test_a_label_with_up_to_12_values_is_sliced_unasked(n: int, keys: list[str]) -> None:
    """One with more is not."""
    labels = SliceLabels()
    for k in range(20 * n):
        labels.add(f"s{k}", {"topic": (f"t{k % n}",)})
    wrong = {f"s{k}": k % 3 == 0 for k in range(20 * n)}
    tables = labels.tables(wrong, lambda ids, flags, n: mean_interval([float(flag) for flag in flags]))
    assert keys == [table.key for table in tables]


def test_parts_of_a_trend_start_at_full_hours() -> None:
    """Not at the first request: ten minutes before and after an hour are two parts."""
    view = build_report(experiment([(0.5, 0.5)] * 5))
    timeline, reader = Timeline(), TableReader()
    for k, hour in enumerate((0.9, 1.1, 3.0)):
        for n in range(20):
            timeline.add(f"s{k}-{n}", 1_699_999_200.0 + 3600 * hour, {})
            reader.put(score("ccrs.ac", 0.5, f"s{k}-{n}"))
    trend = timeline.view(view.metrics[:1], reader.table(), 0.95)
    assert trend is not None
    assert (3600.0, [20, 20, 20]) == (trend.part_s, [point.estimate.n for point in trend.rows[0].points])


def test_causes_of_wrong_answers_come_first() -> None:
    """Also if more answers are right and not supported."""
    result = experiment([(0.1, 0.5)] * 3 + [(0.9, 0.5)] * 6)
    claims = [{"claim": "So.", "supported": False}]
    more = tuple(score("ragas.faithfulness", 0.0, f"s{k}", claims=claims) for k in range(9))
    view = build_report(dataclasses.replace(result, outcomes=(*result.outcomes, *more)))
    assert [(True, 3), ("correct_unsupported", 6)] == [(row.is_wrong or row.cause, row.n) for row in view.causes]


def test_only_a_metric_with_failures_has_bounds_in_a_report() -> None:
    """Without them the mean is what it is."""
    first, second = build_report(experiment([(0.5, 0.5), (0.7, None)])).metrics
    assert (None, (0.25, 0.75)) == (first.bounds, second.bounds)


def test_equal_sampling_probabilities_are_no_weights() -> None:
    """A report says that means are weighted only if they are."""
    result = experiment([(0.5, 0.5)] * 4)
    for shares, is_weighted in (([0.5] * 4, False), ([0.5, 1.0] * 2, True)):
        samples = [
            each.model_copy(update={"metadata": {"inclusion_probability": share}})
            for each, share in zip(result.samples, shares, strict=True)
        ]
        view = build_report(dataclasses.replace(result, samples=tuple(samples)))
        assert is_weighted == view.provenance.is_weighted


def test_a_condition_takes_any_spelling_of_a_metric_with_arguments() -> None:
    """As options of commands do."""
    (condition,) = parse_where('"CCRS.AC@.0"<0.5')
    assert "ccrs.ac@em_weight=0" == condition.key


def test_a_probability_of_one_percent_counts_as_never() -> None:
    """A reader that abstains on 2% of one passage abstains."""
    reader = TableReader(cards=CARDS)
    reader.put(score("udcg", 0.5, passages=[{"position": 1, "p_abstain": 0.01}, {"position": 2, "p_abstain": 0.02}]))
    (origin,) = reader.table().metrics["udcg"].origins[0]
    assert (2, 1, 0, 0) == origin.reads


def test_what_is_matched_by_question_keeps_its_decision_and_its_bounds() -> None:
    """The outcome moves to the row of the sample with an id."""
    rows = ScoreRows(CARDS["ccrs.ac"])
    failure = Failure(sample_id="b", metric="ccrs.ac", metric_version="1", kind="timeout", reason="slow", details={"bounds": [0.2, 0.4]})  # fmt: skip
    rows.put(0, score("ccrs.ac", 0.9, em=0.0, judge=0.2))
    rows.put(1, failure)
    rows.move(0, 200)
    rows.move(1, 201)
    assert (0.9, 0.2, (0.2, 0.4)) == (rows.values[200], rows.decisions[200], rows.ends[201])


def test_answers_that_nothing_judges_are_not_counted_as_right() -> None:
    """Beside answers that are judged, another score does not say whether an answer is wrong."""
    result = experiment([(0.1, None)] * 10)
    outcomes = [score("ccrs.ac", 0.1, f"s{k}", em=0.0, judge=0.1) for k in range(6)]
    outcomes += [score("ccrs.qr", 0.9, f"s{k}") for k in range(6, 10)]
    view = build_report(
        dataclasses.replace(result, outcomes=tuple(outcomes), cards=(CARDS["ccrs.ac"], CARDS["ccrs.qr"]))
    )
    assert (6, 6) == (view.verdict[0].numbers["n_wrong"], view.verdict[0].numbers["n_answers"])
