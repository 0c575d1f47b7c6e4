"""Decision values and scales of metrics, and causes of answers whose texts are not known."""

from __future__ import annotations

import asyncio
import base64
import dataclasses
import gzip
import itertools
import json
import re

import pytest
from typer.testing import CliRunner

import ragstone
from builders import make_sample
from command_line import app
from ragstone.experiments import read_outcomes
from ragstone.experiments._app.repeats import merge_repeats
from ragstone.experiments._table import TableReader
from ragstone.experiments._views.answers import build_answer
from ragstone.experiments._views.labeled import HumanLabels, build_labels
from ragstone.metrics import AnswerCorrectness, Criterion, MetricBase, all_metrics, resolve_metrics
from ragstone.schema import Failure, MetricScale, Passage, Score
from ragstone.scoring import Scorer, Signals, diagnose, note_outcome
from ragstone.store import DrawnRequest, StoredLabel
from ragstone.testing import FakeJudge
from ragstone.views import ReportText, markdown_report, notebook_report, question_rows
from ragstone_lab import validate_metrics

AC = AnswerCorrectness()


def scored(metric, judge, sample):
    return asyncio.run(Scorer([metric], judge).score(sample))[0]


@pytest.mark.parametrize("name", ["ccrs.ac", "ccrs.ac@em_weight=0.5"])
@pytest.mark.parametrize(("rating", "good"), [(100, True), (50, True), (49, False), (0, False)])
def test_the_judged_part_decides_about_a_paraphrase(name, rating, good):
    """A perfect paraphrase has the value 0.3, which is below half of the range, and is good."""
    (metric,) = resolve_metrics(name)
    judge = FakeJudge(
        rating, json=lambda _: dict.fromkeys(("coherence", "relevance", "density", "correctness", "recall"), rating)
    )
    outcome = scored(metric, judge, make_sample(response="31 meters", reference=("It is 31 m tall.",)))
    assert outcome.value == pytest.approx((1 - metric.em_weight) * rating / 100)
    assert (rating / 100, good) == (metric.card.decision(outcome), metric.card.is_good(outcome))
    signals = Signals()
    note_outcome(signals, outcome, metric.card)
    assert (good, name) == (signals.is_correct, signals.correct_by)


def test_an_exact_match_is_good_whatever_the_judge_says():
    """And an empty response is not. Without the parts, it is not known."""
    same = scored(AC, FakeJudge(20), make_sample(response="31 m", reference=("31 m",)))
    empty = scored(AC, FakeJudge(100), make_sample(response=" ", reference=("31 m",)))
    assert (1.0, True, 0.0, False) == tuple(f(o) for o in (same, empty) for f in (AC.card.decision, AC.card.is_good))
    bare = same.model_copy(update={"details": {"judge": 0.9}})
    assert (None, None) == (AC.card.decision(bare), AC.card.is_good(bare))
    signals = Signals()
    note_outcome(signals, bare, AC.card)
    assert signals.is_correct is None


def test_texts_in_two_normal_forms_are_identical():
    """An accent is one character or two. Case and punctuation still differ."""
    for response, reference, em in (
        ("Caf\u00e9", "Cafe\u0301", 1.0),
        ("Cafe\u0301 ", "Caf\u00e9", 1.0),
        ("\u1100\u1161", "\uac00", 1.0),
        ("Cafe", "Caf\u00e9", 0.0),
        ("\ufb01n", "fin", 0.0),
    ):
        assert em == scored(AC, FakeJudge(0), make_sample(response=response, reference=(reference,))).details["em"]


def test_lower_is_better_turns_the_decision_around():
    """Redundancy is good up to the middle, UDCG from the value without effect, density has no middle."""
    cards = {metric.card.name: metric.card for metric in all_metrics()}

    def score(name, value):
        return Score(sample_id="s", metric=name, metric_version="1", value=value, method="x")

    assert [True, True, False] == [
        cards["crux.redundancy"].is_good(score("crux.redundancy", v)) for v in (0.2, 0.5, 0.6)
    ]
    assert [False, True] == [cards["udcg"].is_good(score("udcg", v)) for v in (0.49, 0.51)]
    assert cards["crux.density"].is_good(score("crux.density", 2.0)) is None
    for card in cards.values():
        assert card.threshold is None or card.low < card.threshold < card.high, card.name


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("ccrs.ac", "0 to 0.3, and 0.7 to 1 if the response is identical"),
        ("ccrs.ac", "the best of em and judge in its details is at least 0.5"),
        ("ccrs.ac@em_weight=0.4", "0 to 0.6, and 0.4 to 1 if"),
        ("crux.redundancy", "its value is at most 0.5"),
        ("udcg", "0.417 to 0.731"),
    ],
)
def test_the_command_prints_what_can_be_reached(name, shown):
    """`metrics NAME` says it in words."""
    assert shown in " ".join(CliRunner().invoke(app, ["metrics", name]).output.split())


def test_repeats_keep_the_values_that_decide():
    """The mean of 0.9 and 0.1 of the judge is 0.5, and pass@k counts one of two answers."""
    sample = make_sample(response="31 meters", reference=("It is 31 m tall.",))
    repeats = [scored(AC, FakeJudge(rating), sample) for rating in (90, 10)]
    failed = Failure(sample_id="s", metric="ccrs.ac", metric_version="1", kind="timeout", reason="slow")
    merged = merge_repeats("s", [repeats[0], failed, repeats[1]])
    assert [0.9, 0.1] == pytest.approx(AC.card.decisions(merged))
    assert AC.card.decision(merged) == pytest.approx(0.5)
    plain = [one.model_copy(update={"metric": "ccrs.ir", "details": {}}) for one in repeats]
    (recall,) = resolve_metrics("ccrs.ir")
    assert [one.value for one in repeats] == recall.card.decisions(merge_repeats("s", plain))


def test_a_perfect_judge_agrees_with_people(tmp_path):
    """Its values reach 0.3, which was compared with the middle of the range: kappa 0, and 45 points lower than people."""
    rows = [
        {"id": str(n), "query": "q", "contexts": ["c"], "response": f"answer {n}", "reference": f"reference {n}"}
        for n in range(40)
    ]
    judge = FakeJudge(lambda prompt: 95.0 if int(str(prompt.fields["response"]).split()[-1]) % 4 else 5.0)
    result = ragstone.evaluate(rows, ["ccrs.ac"], judge=judge)
    labels = [{"id": str(n), "label": float(n % 4 > 0)} for n in range(40)]
    (found,) = validate_metrics(result, labels=labels, metrics=["ccrs.ac"]).labels
    assert (1.0, 1.0) == (found.exact.value, found.cohen.coefficient.value)
    assert abs(found.bias.value) < 0.06
    assert any("compared by the best of em and judge" in note for note in found.notes)


@pytest.mark.parametrize(("rating", "low"), [(90, False), (10, True)])
def test_a_page_colors_a_score_by_what_decides(rating, low):
    """The value 0.27 of a correct paraphrase was red."""
    sample = make_sample(response="31 meters", reference=("It is 31 m tall.",))
    outcome = scored(AC, FakeJudge(rating), sample)
    signals = Signals()
    note_outcome(signals, outcome, AC.card)
    view = build_answer("s", sample, [outcome], signals, {"ccrs.ac": AC.card}, time=None)
    assert [low] == [score.is_low for score in view.scores]


def paraphrases(n=12, n_wrong=4):
    """Answers without an exact match, of which a perfect judge finds some wrong: values 0.285 and 0.015."""
    rows = [
        {"id": str(k), "query": "q", "contexts": ["c"], "response": f"answer {k}", "reference": f"reference {k}"}
        for k in range(n)
    ]
    judge = FakeJudge(lambda prompt: 5.0 if int(str(prompt.fields["response"]).split()[-1]) < n_wrong else 95.0)
    return ragstone.evaluate(rows, ["ccrs.ac"], judge=judge)


def without_details(result, *ids):
    """The same outcomes, some of them without the parts of the score."""
    outcomes = tuple(o.model_copy(update={"details": {}}) if o.sample_id in ids else o for o in result.outcomes)
    return dataclasses.replace(result, outcomes=outcomes)


def report_of(result, tmp_path):
    """The model, and the page with its data."""
    view = result.report(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    packed = re.search(r'<script id="data"[^>]*>([^<]*)<', page)[1]
    return view, page, json.loads(gzip.decompress(base64.b64decode(packed)))


def test_tables_and_histograms_color_by_what_decides(tmp_path):
    """All 12 values were red, because none reaches 0.5. Of two scores it is not known: they have no color."""
    result = without_details(paraphrases(), "3", "11")
    view, page, data = report_of(result, tmp_path)
    low = {id_ for id_, *_, numbers in data["questions"] if numbers == [0]}
    assert {"0", "1", "2"} == low == {row.id for row in view.questions if row.low}
    (row,) = view.metrics
    assert (12, 3, 2) == tuple(map(sum, (row.histogram, row.histogram_low, row.histogram_unknown)))
    assert 2 == row.n_undecided
    note = f"ccrs.ac: {AC.card.rule}; 2 scores do not have it, and no color."
    texts = (
        page,
        "\n".join(line.plain for line in ReportText(view, width=200).lines()),
        markdown_report(view),
        notebook_report(view),
    )
    for text in texts:
        assert " ".join(note.split()) in " ".join(text.replace("\\_", "_").split())
    cells = question_rows(view.questions, {}, metric=None, metrics=view.metrics).split("</tr>")
    assert ["number bad" in cell for cell in cells[:-1]] == [k < 3 for k in range(12)]


def test_an_answer_says_if_it_is_not_known_whether_a_score_is_low():
    """It was said that no score is low."""
    (view,) = [answer for answer in without_details(paraphrases(), "0").worst(12) if answer.id == "0"]
    assert [None] == [score.is_low for score in view.scores]
    assert "Not known whether low: Answer correctness 0.02." == view.why


def test_labels_are_compared_with_what_decides():
    """The mean score of the judge was 0.20 beside a mean label of 0.67, which it agrees with."""
    result = paraphrases(40, 13)
    reader = TableReader()
    for outcome in result.outcomes:
        reader.put(outcome)
    table = reader.table()
    labels = [StoredLabel(str(k), "ann", float(k >= 13), 0.0) for k in range(40)]
    drawn = [DrawnRequest(str(k), 1.0, k) for k in range(40)]
    view = build_labels(HumanLabels(labels=labels, drawn=drawn), {}, table, result.report().metrics, 0.95)
    (metric,) = view.metrics
    assert metric.mean.value == pytest.approx((27 * 0.95 + 13 * 0.05) / 40)
    assert metric.label_mean.value == pytest.approx(27 / 40)
    assert "the best of em and judge in its details" == metric.compared


def test_a_test_of_one_case_compares_what_decides():
    """A correct paraphrase could not pass: its value is at most 0.3."""
    case = {"query": "q", "contexts": ["c"], "response": "31 meters", "reference": "It is 31 m tall."}
    ragstone.assert_score(case, {"ccrs.ac": 0.9}, judge=FakeJudge(95))
    with pytest.raises(AssertionError, match=r"0\.850, the best of em and judge in its details \(its value: 0\.255\)"):
        ragstone.assert_score(case, {"ccrs.ac": 0.9}, judge=FakeJudge(85))


def test_a_gate_says_that_its_threshold_is_for_the_mean_of_the_value():
    """The user names the metric, whose mean of 0.2 is compared, also if most of its answers are good."""
    check = paraphrases(40).check({"ccrs.ac": 0.2})
    (note,) = [note for note in check.notes if "ccrs.ac" in note]
    assert note.startswith("ccrs.ac: the threshold is for the mean of its value (0 to 0.3, and 0.7 to 1 if")
    assert note.endswith(f"One answer is {AC.card.rule}.")
    assert note in str(check)
    assert (
        not ragstone.evaluate([{"query": "q", "contexts": ["c"], "response": "c"}] * 2, ["ccrs.cc"], judge="lexical")
        .check({"ccrs.cc": 0.5})
        .notes
    )


def test_a_target_is_for_the_mean_value():
    """And says so, if another value decides about one answer."""
    first = paraphrases(40).report(targets={"ccrs.ac": 0.5}).verdict[1].text
    assert first.startswith("The mean value of Answer correctness is significantly below its target 0.5")


class Noise(MetricBase):
    """Words that nobody asked for. Lower is better."""

    name, needs, direction, high = "mine.noise", ("response",), "lower", 20.0

    async def compute(self, sample, judge):
        return self.make_score(sample, float(len(sample.response.split())), method="exact")


def test_a_users_metric_keeps_its_direction_in_a_file(tmp_path):
    """Another installation does not know the metric: it was read as unbounded, and higher as better."""
    rows = [{"id": str(n), "query": "q", "contexts": ["c"], "response": "word " * (n % 3 + 1)} for n in range(12)]
    polite = Criterion("Is the answer rude?", needs=("response",), direction="lower", name="rude")
    result = ragstone.evaluate(rows, [Noise(), polite, "ccrs.qr"], judge=FakeJudge(1))
    worse = ragstone.evaluate(
        [row | {"response": row["response"] + "more"} for row in rows], [Noise()], judge=FakeJudge(1)
    )
    for name, experiment in (("a", result), ("b", worse)):
        experiment.to_jsonl(tmp_path / f"{name}.jsonl")
    read = read_outcomes(tmp_path / "a.jsonl")
    assert ("lower", 0.0, 20.0) == (read.cards["mine.noise"].direction, *read.range_of("mine.noise"))
    assert ("lower", 0.0, 1.0) == (read.cards["rude"].direction, *read.range_of("rude"))
    scales = {outcome.metric: outcome.scale for outcome in result.outcomes}
    assert MetricScale(low=0.0, high=20.0, direction="lower") == scales["mine.noise"]
    assert scales["ccrs.qr"] is None
    compared = ragstone.compare({"a": tmp_path / "a.jsonl", "b": tmp_path / "b.jsonl"}, metrics=["mine.noise"])
    assert not compared.metrics[0].higher_is_better


RESPONSES = ("It is 31 m tall.", "I don't know.", "")
REFERENCES = ((), ("31 m",), ("I don't know.",))
RELEVANCE = (None, 0.0, 1.0)


@pytest.mark.parametrize("metrics", ["ccrs.ac", "ccrs.ac,ccrs.cc", "ccrs.cc", "ragas.faithfulness", "ccrs.qr"])
def test_causes_are_the_same_without_texts(metrics):
    """With texts, with what outcomes say about them, and without both: the same cause, or that it is not known."""
    kinds = set()
    for response, reference, relevance, rating in itertools.product(RESPONSES, REFERENCES, RELEVANCE, (90, 10)):
        sample = make_sample(
            response=response,
            reference=reference,
            contexts=(Passage(text="Ferries leave at noon.", relevance=relevance),),
        )
        outcomes = asyncio.run(Scorer(resolve_metrics(metrics.split(",")), FakeJudge(rating)).score(sample))
        known = diagnose(sample, outcomes)
        assert (known and known.name) == ((found := diagnose(None, outcomes)) and found.name), sample
        bare = [outcome.model_copy(update={"answer": None}) for outcome in outcomes]
        assert known == diagnose(sample, bare), sample
        unknown = diagnose(None, bare)
        assert unknown is None or unknown.name in ("unexplained", "not_scored"), sample
        if unknown is not None and unknown.name == "unexplained":
            # Only of a reference that declines, a wrong answer that declines too is right.
            assert known is not None or outcomes[0].answer[:2] == ("abstains", "unanswerable")
            assert "Without its texts" in unknown.why
        kinds.add(known and known.name)
    assert len(kinds) > 1


def test_outcomes_say_what_the_texts_say():
    """In four words, each only if it holds."""
    outcome = scored(
        AC,
        FakeJudge(1),
        make_sample(
            response="I don't know.", reference=("I don't know.",), contexts=(Passage(text="a", relevance=0.0),)
        ),
    )
    assert ("abstains", "unanswerable", "irrelevant") == outcome.answer
    other = make_sample(response="31 m", reference=("31 m",), contexts=(Passage(text="a", relevance=1.0),))
    assert ("relevant",) == scored(AC, FakeJudge(1), other).answer
    assert () == scored(AC, FakeJudge(1), make_sample(response="31 m", reference=("31 m",))).answer
