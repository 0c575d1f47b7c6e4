"""UDCG of one sample: values worked out by hand, where labels come from, what is asked, and what is missing."""

from __future__ import annotations

import asyncio
import json
import math

import pytest

from builders import make_sample
from fake_models import FakeReader
from ragstone.errors import ConfigurationError, DataError, JudgeError, JudgeUnavailableError
from ragstone.metrics import Udcg, UdcgTheta, passage_utilities, resolve_metrics
from ragstone.schema import Failure, NotApplicable, Passage, Score
from ragstone.scoring import Scorer
from ragstone.testing import FakeJudge

P_ABSTAIN = {"a": 0.1, "b": 0.4, "c": 0.9}
LABELLED = tuple(Passage(text=text, relevance=grade) for text, grade in (("a", 1), ("b", 0), ("c", 0)))


def reader(**options):
    return FakeReader(lambda query, passages: P_ABSTAIN[passages[0]], **options)


def score(metric, sample, judge=None):
    return asyncio.run(metric.score(sample, judge or FakeJudge()))


@pytest.mark.parametrize(
    ("gamma", "linear"),
    [
        (1 / 3, 0.9 / 3 - (0.6 + 0.1) / 3 / 3),
        (0.0, 0.9 / 3),
        (1.0, (0.9 - 0.6 - 0.1) / 3),
    ],
)
def test_value_worked_out_by_hand(gamma, linear):
    """R = [1, -1, -1] and p = [.1, .4, .9] make u = [.9, -.6, -.1]."""
    outcome = score(Udcg(reader(), gamma=gamma), make_sample(contexts=LABELLED))
    assert isinstance(outcome, Score)
    assert abs(1 / (1 + math.exp(-linear)) - outcome.value) < 1e-12
    assert [0.9, -0.6, -0.1] == pytest.approx([p["utility"] for p in outcome.details["passages"]], abs=1e-12)
    assert [None, 0.6, 0.1] == [
        p["distracting_effect"] if p["relevance"] == 1 else pytest.approx(p["distracting_effect"], abs=1e-12)
        for p in outcome.details["passages"]
    ]


def test_range_of_the_card_is_reached():
    """All passages answered and relevant is the top; all answered and irrelevant the bottom."""
    metric = Udcg(FakeReader(0.0))
    best = score(metric, make_sample(contexts=[Passage(text="a", relevance=1)] * 2))
    worst = score(metric, make_sample(contexts=[Passage(text="a", relevance=0)] * 2))
    assert (metric.card.low, metric.card.high) == (worst.value, best.value)
    assert (0.417, 0.731) == (round(worst.value, 3), round(best.value, 3))


def test_theta_weighs_by_position():
    """The weighted sum of u+ and u-, squashed; the weights' hash is part of the version."""
    theta = UdcgTheta([2.0, 1.0, 0.5], [0.5, 1.0, -0.25], reader=reader())
    outcome = score(theta, make_sample(contexts=LABELLED))
    linear = 2.0 * 0.9 + 1.0 * -0.6 + -0.25 * -0.1
    assert abs(1 / (1 + math.exp(-linear)) - outcome.value) < 1e-12
    assert abs(linear - theta.linear([0.9, -0.6, -0.1])) < 1e-12
    assert theta.card.version != UdcgTheta([2.0, 1.0, 0.5], [0.5, 1.0, 0.25]).card.version


def test_theta_needs_its_number_of_passages():
    """Another k has no weights: not applicable, and no one is asked."""
    asked = reader()
    outcome = score(UdcgTheta([1.0], [1.0], reader=asked), make_sample(contexts=LABELLED))
    assert isinstance(outcome, NotApplicable)
    assert "for 1 passages, but the sample has 3" in outcome.reason
    assert [] == asked.asked


def test_theta_survives_its_file(tmp_path):
    """What was saved is what `udcg_theta@FILE` uses, in upper case too."""
    path = tmp_path / "Theta.json"
    theta = UdcgTheta([0.1, 1 / 3], [0.2, -0.7], fit={"C": 10.0}, threshold=2.0)
    theta.save(path)
    (found,) = resolve_metrics(f"UDCG_Theta@{path}")
    assert (theta.alpha, theta.beta, theta.fit, theta.card) == (found.alpha, found.beta, found.fit, found.card)
    assert ["udcg", "udcg_theta"] == [m.card.name for m in resolve_metrics(["udcg", f"udcg_theta@{path}"])]


@pytest.mark.parametrize("text", ["{}", "[]", "no JSON", json.dumps({"kind": "x", "version": 1}), '{"kind": null}'])
def test_a_file_that_is_something_else_is_refused(tmp_path, text):
    """Weights are never guessed."""
    path = tmp_path / "theta.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match="does not contain weights"):
        resolve_metrics(f"udcg_theta@{path}")


@pytest.mark.parametrize("held", [{"alpha": []}, {"beta": [1.0]}, {"alpha": [1.0, float("nan")]}, {"labels": "no"}])
def test_weights_that_cannot_work_are_refused(tmp_path, held):
    """Empty, unequal or not finite."""
    path = tmp_path / "theta.json"
    whole = {"kind": "ragstone.udcg_theta", "version": 1, "alpha": [1.0, 2.0], "beta": [1.0, 2.0]}
    path.write_text(json.dumps(whole | held), encoding="utf-8")
    with pytest.raises(DataError, match="does not contain weights"):
        UdcgTheta.load(path)


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("udcg_theta", "udcg_theta@FILE"),
        ("udcg_theta@", "path of udcg_theta must be a file, got ''"),
        ("udcg@theta.json", "gamma of udcg must be a number"),
        ("udcg_theta@no.json", "not found"),
    ],
)
def test_specs_with_a_file_that_cannot_work(spec, words):
    """A mistake in the name or the path is told before anything is asked."""
    with pytest.raises(ConfigurationError, match=words):
        resolve_metrics(spec)


@pytest.mark.parametrize(
    ("passages", "options", "reference", "sources", "questions"),
    [
        (LABELLED, {}, "x", {"data": 3}, []),
        (LABELLED, {"labels": "judge"}, "x", {"judge_with_reference": 3}, ["query", "reference", "passage"]),
        (("a", "b"), {}, "x", {"judge_with_reference": 2}, ["query", "reference", "passage"]),
        (("a", "b"), {}, ("", " "), {"judge": 2}, ["query", "passage"]),
        ((*LABELLED[:2], Passage(text="c")), {}, (), {"data": 2, "judge": 1}, ["query", "passage"]),
    ],
)
def test_where_labels_come_from_is_told(passages, options, reference, sources, questions):
    """From the data, else the judge with the reference, else the judge alone; all of it in the outcome."""
    judge = FakeJudge({"passage_relevance": 1})
    sample = make_sample(contexts=passages, reference=reference)
    outcome = score(Udcg(reader(), **options), sample, judge)
    assert sources == outcome.details["label_sources"]
    assert (next(iter(sources)) if len(sources) == 1 else "mixed") == outcome.details["labels"]
    for prompt in judge.prompts:
        assert questions == list(prompt.fields)
    assert sum(n for source, n in sources.items() if source != "data") == len(judge.prompts)


@pytest.mark.parametrize(
    ("grade", "threshold", "relevance"),
    [(0, 0.5, -1), (1, 0.5, 1), (0.5, 0.5, 1), (0.49, 0.5, -1), (1, 2, -1), (2, 2, 1), (-2, 0.5, -1)],
)
def test_grades_become_labels_by_a_threshold(grade, threshold, relevance):
    """A grade means relevant from the threshold on."""
    outcome = score(Udcg(reader(), threshold=threshold), make_sample(contexts=[Passage(text="a", relevance=grade)]))
    (passage,) = outcome.details["passages"]
    assert (relevance, grade) == (passage["relevance"], passage["label"])


def test_the_judge_s_number_is_halved_in_the_middle():
    """From 0.5 on the judge says relevant, whatever the threshold for grades of the data is."""
    judge = FakeJudge(lambda prompt: {"a": 0.5, "b": 0.49}[prompt.fields["passage"]])
    outcome = score(Udcg(reader(), threshold=3), make_sample(contexts=["a", "b"]), judge)
    assert [1, -1] == [p["relevance"] for p in outcome.details["passages"]]


def test_the_same_text_is_asked_once_and_counts_twice():
    """Two places, one estimate: the reader and the judge are asked once, and the uncertainty adds up in full."""
    read, judge = reader(half_width=0.05), FakeJudge({"passage_relevance": 1})
    twice = score(Udcg(read), make_sample(contexts=["a", "a"]), judge)
    once = score(Udcg(read), make_sample(contexts=["a"]), judge)
    assert [("a",), ("a",)] == [passages for _, passages in read.asked]
    assert 2 == len(judge.prompts)
    assert (once.value, once.interval, once.n) == (twice.value, twice.interval, twice.n)


def test_blank_passages_are_read_like_any_other():
    """What the reader does with nothing is the reader's to say."""
    outcome = score(Udcg(FakeReader(1.0)), make_sample(contexts=[" ", ""]), FakeJudge({"passage_relevance": 0}))
    assert 0.5 == outcome.value


@pytest.mark.parametrize(
    ("half_width", "method", "estimator", "n"),
    [(0.0, "exact", "exact_sequence", 3), (0.05, "mover", "monte_carlo", 60)],
)
def test_interval_names_its_method(half_width, method, estimator, n):
    """Exact readings have no width; draws are combined, and counted."""
    outcome = score(Udcg(reader(half_width=half_width)), make_sample(contexts=LABELLED))
    assert (method, estimator, n) == (outcome.interval.method, outcome.method, outcome.n)
    assert {estimator: 3} == outcome.details["estimators"]
    assert (half_width > 0) == (outcome.interval.low < outcome.value < outcome.interval.high)


def test_interval_worked_out_by_hand():
    """Squares of the weighted half-widths add up, then the sum is squashed."""
    outcome = score(Udcg(reader(half_width=0.05)), make_sample(contexts=LABELLED))
    half = 0.05 * math.sqrt((1 / 3) ** 2 + 2 * (1 / 9) ** 2)
    linear = 0.9 / 3 - 0.7 / 9
    assert 1 / (1 + math.exp(half - linear)) == pytest.approx(outcome.interval.low, abs=1e-12)
    assert 1 / (1 + math.exp(-half - linear)) == pytest.approx(outcome.interval.high, abs=1e-12)


@pytest.mark.parametrize("broken", ["reader", "judge", "both"])
def test_what_is_missing_is_told_and_bounded(broken):
    """One passage fails: a failure with its kind, the others' values, and where UDCG must lie."""
    error = JudgeUnavailableError("the line is dead", kind="timeout", raw="half a re")

    def p(query, passages):
        return error if broken != "judge" and passages == ["b"] else P_ABSTAIN[passages[0]]

    judge = FakeJudge(
        {"passage_relevance": 1},
        fail=lambda prompt: error if broken != "reader" and prompt.fields["passage"] == "b" else None,
    )
    outcome = score(Udcg(FakeReader(p)), make_sample(contexts=["a", "b", "c"]), judge)
    assert isinstance(outcome, Failure)
    assert ("timeout", "half a re") == (outcome.kind, outcome.raw)
    assert "the utility of 1 of 3 passages is unknown" in outcome.reason
    assert "passage 2): the line is dead" in outcome.reason
    known = (0.9 + 0.1) / 3
    spread = {"reader": (0, 1 / 3), "judge": (-0.6 / 9, 0.6 / 3), "both": (-1 / 9, 1 / 3)}[broken]
    assert [1 / (1 + math.exp(-known - more)) for more in spread] == pytest.approx(outcome.details["bounds"], abs=1e-12)
    found = outcome.details["passages"]
    assert [0.9, None, pytest.approx(0.1)] == [passage["utility"] for passage in found]
    assert {"kind": "timeout", "reason": "the line is dead"} == found[1]["error"]
    assert f"between {outcome.details['bounds'][0]:.3f} and" in outcome.reason


def test_a_text_that_stands_twice_is_one_unknown():
    """Its places move together: where their weights cancel out, nothing is left to bound."""
    passages = [Passage(text="a", relevance=1.0), Passage(text="a", relevance=0.0)]
    broken = FakeReader(lambda query, texts: JudgeUnavailableError("down"))
    (low, high) = score(Udcg(broken, gamma=1.0), make_sample(contexts=passages)).details["bounds"]

    assert (0.5, 0.5) == pytest.approx((low, high), abs=1e-12)


def test_a_passage_without_weight_is_in_no_interval():
    """Where distraction counts nothing, how often the reader was drawn for it says nothing of the value."""
    sample = make_sample(contexts=[Passage(text="a", relevance=0.0)])
    outcome = score(Udcg(FakeReader(0.5, half_width=0.2), gamma=0.0), sample)

    assert (0.5, "exact") == (outcome.value, outcome.interval.method)
    assert (0.5, 0.5) == (outcome.interval.low, outcome.interval.high)


def test_labels_of_the_data_alone_ask_nobody():
    """A passage without a label is a failure then, and the judge hears nothing."""
    judge = FakeJudge()
    metric = Udcg(reader(), labels="data")
    outcome = score(metric, make_sample(contexts=[*LABELLED[:2], "c"]), judge)
    assert isinstance(outcome, Failure)
    assert "unsupported" == outcome.kind
    assert [] == judge.prompts
    assert not metric.card.asks_judge


def test_a_bug_in_a_reader_is_not_hidden():
    """Only a judge's own errors become failures of a passage."""
    with pytest.raises(KeyError):
        score(Udcg(reader()), make_sample(contexts=["z"]))


@pytest.mark.parametrize(
    "options", [{"gamma": -0.1}, {"gamma": 1.1}, {"labels": "both"}, {"threshold": 0}, {"threshold": float("nan")}]
)
def test_options_out_of_range_are_refused(options):
    """Before anything is asked."""
    with pytest.raises(ConfigurationError):
        Udcg(**options)


def test_without_a_reader_there_is_no_score():
    """The message says what to give."""
    with pytest.raises(ConfigurationError, match="reader="):
        score(Udcg(), make_sample())


def test_binding_keeps_the_options():
    """`evaluate` binds the reader, and nothing else changes."""
    metric = Udcg(gamma=0.5, labels="judge", threshold=2)
    assert repr(metric) == repr(metric.with_reader(reader()))
    assert metric.card == metric.with_reader(reader()).card
    theta = UdcgTheta([1.0], [2.0], fit={"C": 1}, threshold=2)
    bound = theta.with_reader(reader())
    assert (repr(theta), theta.fit, theta.card) == (repr(bound), bound.fit, bound.card)


def test_outcomes_rest_on_both_models():
    """Another reader is another outcome, and its calls are on the bill."""

    async def outcome(name):
        scorer = Scorer([Udcg(FakeReader(0.2, name=name))], FakeJudge({"passage_relevance": 1}))
        return (await scorer.score(make_sample()))[0]

    one, other = asyncio.run(outcome("r1")), asyncio.run(outcome("r2"))
    assert one.key != other.key
    assert "fake judge, read by r1" == one.judge
    assert 4 == one.usage.calls


def test_passages_are_asked_at_once():
    """Five passages take as long as one: no one is asked before the others wait too."""

    class Together(FakeReader):
        async def estimate_abstention(self, query, passages):
            async with asyncio.timeout(100):
                await barrier.wait()
            return await super().estimate_abstention(query, passages)

    passages = [Passage(text=text, relevance=1) for text in "abcde"]
    barrier = asyncio.Barrier(5)
    found = asyncio.run(passage_utilities("q", passages, reader=Together(0.5), judge=FakeJudge()))
    assert [1, 2, 3, 4, 5] == [u.position for u in found]


def test_an_error_with_odd_text_can_be_stored():
    """A lone surrogate in a server's words must not turn the failure into a bug."""
    outcome = score(Udcg(FakeReader(lambda q, p: JudgeError("\ud800", raw="\udfff"))), make_sample())
    assert isinstance(outcome, Failure)
    outcome.model_dump_json()
