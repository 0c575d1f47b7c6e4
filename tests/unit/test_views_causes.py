"""Causes: one planted fault for each row of the table, signals that are missing, and abstentions by their wording."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest

from ragstone._util.abstains import answer_abstains
from ragstone.experiments import Experiment, build_report, evaluate
from ragstone.experiments._app.repeats import merge_repeats
from ragstone.judges import JudgeIdentity
from ragstone.metrics import MetricCard, resolve_metrics
from ragstone.schema import Failure, NotApplicable, Passage, Sample, Score, Usage
from ragstone.scoring import Signals, find_cause, note_outcome, note_sample

CARDS = {metric.card.name: metric.card for metric in resolve_metrics(["ccrs", "ragas", "ragchecker", "udcg", "vera"])}


def score(metric: str, value: float, **details: object) -> Score:
    """A score of a metric."""
    return Score(sample_id="s", metric=metric, metric_version="1", value=value, method="exact", details=details)


def card(metric: str) -> MetricCard:
    """The card of a metric."""
    return CARDS[metric]


def cause_of(sample: Sample, *outcomes: Score | NotApplicable | Failure) -> str | None:
    """The cause that the signals of a sample and its outcomes give."""
    signals = Signals()
    note_sample(signals, sample)
    for outcome in outcomes:
        note_outcome(signals, outcome, card(outcome.metric))
    return find_cause(signals)


WRONG = score("ccrs.ac", 0.06, em=0.0, judge=0.2)
RIGHT = score("ccrs.ac", 0.27, em=0.0, judge=0.9)
SUPPORTED = score("ragas.faithfulness", 1.0, claims=[{"claim": "It is red.", "supported": True}])
UNSUPPORTED = score(
    "ragas.faithfulness",
    0.5,
    claims=[{"claim": "It is red.", "supported": True}, {"claim": "It is old.", "supported": False}],
)
FAILED = Failure(sample_id="s", metric="ccrs.ac", metric_version="1", kind="timeout", reason="slow")
ABSENT = NotApplicable(sample_id="s", metric="ccrs.ac", metric_version="1", reason="no reference")


def sample(*, relevance: float | None = 1.0, response: str = "It is red.", reference: str | None = "Blue.") -> Sample:
    """A sample with one passage."""
    return Sample(
        id="s",
        query="Which color?",
        contexts=(Passage(text="It is red.", relevance=relevance),),
        response=response,
        reference=() if reference is None else (reference,),
    )


DECLINED = "I could not find this in the documents."


@pytest.mark.parametrize(
    ("given", "outcomes", "expected"),
    [
        (sample(relevance=0.0), [WRONG, SUPPORTED], "no_relevant_passage"),
        (sample(relevance=0.0, response=DECLINED), [WRONG], "no_relevant_passage"),
        (sample(response=DECLINED), [WRONG], "missed_passage"),
        (sample(relevance=None, response=DECLINED), [WRONG], "abstained"),
        (sample(reference=DECLINED), [WRONG, SUPPORTED], "should_abstain"),
        (sample(reference=DECLINED, response=DECLINED), [RIGHT], None),
        (sample(), [WRONG, UNSUPPORTED], "unsupported_claims"),
        (sample(), [WRONG, SUPPORTED], "wrong_passage"),
        (sample(), [WRONG, score("ccrs.cc", 1.0)], "wrong_passage"),
        (sample(), [WRONG, score("ccrs.cc", 0.1)], "unsupported_claims"),
        (sample(), [WRONG], "unexplained"),
        (sample(relevance=0.0), [RIGHT, SUPPORTED], None),
        (sample(), [RIGHT, UNSUPPORTED], "correct_unsupported"),
        (sample(), [RIGHT, score("ccrs.cc", 0.1)], None),
        (sample(), [FAILED], "not_scored"),
        (sample(), [ABSENT], None),
        # Without a reference.
        (sample(reference=None), [SUPPORTED], None),
        (sample(reference=None), [UNSUPPORTED], "unsupported_claims"),
        (sample(reference=None, response=DECLINED), [score("ccrs.qr", 0.1)], "missed_passage"),
        (sample(reference=None, relevance=None, response=DECLINED), [score("ccrs.qr", 0.1)], "abstained"),
        # The exact match makes an answer correct, whatever the judge says.
        (sample(), [score("ccrs.ac", 0.7, em=1.0, judge=0.0)], None),
        # The claim F1 decides if the judged correctness is not there.
        (sample(), [score("ragchecker.f1", 0.2), SUPPORTED], "wrong_passage"),
        (sample(), [RIGHT, score("ragchecker.f1", 0.2)], None),
        # Labels of the judge, if the passages do not have any.
        (
            sample(relevance=None),
            [WRONG, score("udcg", 0.49, passages=[{"position": 1, "relevance": -1, "p_abstain": 0.9}])],
            "no_relevant_passage",
        ),
        (sample(relevance=None), [WRONG, score("ragas.context_precision", 0.0, useful=[False])], "no_relevant_passage"),
        (sample(relevance=None), [WRONG, score("ragchecker.claim_recall", 0.0)], "no_relevant_passage"),
        (sample(relevance=None, response=DECLINED), [WRONG, score("ragchecker.claim_recall", 0.5)], "missed_passage"),
    ],
)
def test_a_planted_fault_has_its_cause(
    given: Sample, outcomes: list[Score | NotApplicable | Failure], expected: str | None
) -> None:
    """The first step that failed is the cause, whatever the order of the outcomes."""
    assert expected == cause_of(given, *outcomes)
    assert expected == cause_of(given, *reversed(outcomes))


@pytest.mark.parametrize(
    ("id_", "expected"), [("c", "no_relevant_passage"), ("a", "unexplained"), (None, "unexplained")]
)
def test_a_passage_without_an_id_is_not_known_to_be_irrelevant(id_: str | None, expected: str | None) -> None:
    """Grades by id say that other passages with an id are not relevant, and nothing about a passage without one."""
    graded = sample(relevance=None).model_copy(
        update={"contexts": (Passage(text="It is red.", id=id_),), "qrels": {"a": 1.0, "b": 1.0}}
    )
    assert expected == cause_of(graded, WRONG)


def test_the_value_of_answer_correctness_is_not_used() -> None:
    """A correct paraphrase has a value of at most 0.3."""
    assert cause_of(sample(), score("ccrs.ac", 0.3, em=0.0, judge=1.0)) is None


def test_details_of_any_structure_are_read() -> None:
    """Details of other metrics, or of damaged files, are not signals."""
    for details in (
        {"claims": 3},
        {"claims": [1, None, {"claim": 4}]},
        {"passages": "x"},
        {"useful": ["a"]},
        {"judge": "x"},
    ):
        for metric in ("ragas.faithfulness", "udcg", "ragas.context_precision", "ccrs.ac"):
            cause_of(sample(relevance=None), score(metric, 0.5, **details))


@pytest.mark.parametrize(
    "answer",
    [
        "I don't know.",
        "I don’t know",
        "I do not have enough information to answer that.",
        "I could not find this in the handbook.",
        "I'm not sure, the passages are silent on this.",
        "The context does not mention the price.",
        "The provided documents don't contain this information.",
        "This is not mentioned in the provided context.",
        "No information is available about that.",
        "There is no information in the documents about it.",
        "NO-RESPONSE",
        "Unanswerable",
        "I'm sorry, but I cannot answer this question.",
        "Das weiß ich leider nicht.",
        "Je ne sais pas.",
        "I'm uncertain and don't want to guess.",
        "I cannot provide that information.",
        "It is unclear from the passages who built it.",
        "Unable to determine this from the context.",
        "None of the documents mention the price.",
        "There is not enough context to say.",
        "I don't know, but the passages do not say it either.",
        "",
        "   ",
    ],
)
def test_wordings_of_an_abstention(answer: str) -> None:
    """They decline, in any case and with any apostrophe."""
    assert answer_abstains(answer)


@pytest.mark.parametrize(
    "answer",
    [
        "The ferry carries 24 cars.",
        "No.",
        "No, dogs are not allowed on the upper deck.",
        "You do not need to know the code, the door is open.",
        "The known unknown is the tide.",
        "It is not available in blue.",
        "The captain said he did not know the passengers.",
        "Passengers who cannot find their ticket pay again.",
        "None of the boats sails on Sunday.",
        "I'm not sure, but I think it is Oslo.",
        "I don't know the exact day, however it was in 1884.",
        "Der Preis? Das weiß ich nicht, aber die Fähre fährt um neun.",
        "The rate is 5 %. " + "It applies to every fare. " * 40 + "I do not know more.",
    ],
)
def test_answers_are_not_abstentions(answer: str) -> None:
    """An answer with a negation, or with a remark at its end, is an answer."""
    assert not answer_abstains(answer)


YES, NO, NONE = "The tower is red.", "Penguins dance wildly tonight.", "I don't know."


@pytest.mark.parametrize(
    ("answers", "metric", "n_wrong", "n_unknown"),
    [
        ([YES, YES, YES], "ragas.faithfulness", 0, 0),
        ([NO, NO, NO], "ragas.faithfulness", 8, 0),
        ([YES, NO, YES], "ragas.faithfulness", None, 8),
        ([NONE, NONE, NONE], "ccrs.cc", 8, 0),
        ([NONE, YES, YES], "ccrs.cc", None, 8),
        ([YES, NONE, NONE], "ccrs.cc", None, 8),
        ([YES, NONE, YES], "ccrs.ac", 0, 0),
    ],
)
def test_an_answer_whose_repeats_differ_is_counted_as_unknown(
    tmp_path: Path, answers: list[str], metric: str, n_wrong: int | None, n_unknown: int
) -> None:
    """Whatever the first repeat says, with the texts of one repeat and without. Correctness decides by its mean."""
    calls: Counter[str] = Counter()

    def ask(question: str) -> dict[str, object]:
        calls[question] += 1
        return {"response": answers[calls[question] - 1], "contexts": ["The tower is red."]}

    rows = [{"id": str(n), "query": f"Which color has tower {n}?", "reference": "The tower is red."} for n in range(8)]
    result = evaluate(rows, [metric], judge="lexical", app=ask, repeats=3)
    result.to_jsonl(tmp_path / "file.jsonl")
    for source in (result, tmp_path / "file.jsonl"):
        view = build_report(source)
        assert n_wrong == view.verdict[0].numbers.get("n_wrong")
        unknown = [notice.numbers["n_undecided"] for notice in view.notices if "repeats differ" in notice.text]
        assert n_unknown == sum(unknown)


def test_support_does_not_decide_without_knowing_who_abstains(tmp_path: Path) -> None:
    """Counting only those that are not supported would select the answers by their result."""
    known = {"metric": "ccrs.cc", "metric_version": "1", "method": "exact"}
    lines = [Score(sample_id=f"s{n}", value=0.2 + 0.6 * (n % 3 > 0), **known).model_dump_json() for n in range(60)]
    (tmp_path / "file.jsonl").write_text("\n".join(lines), encoding="utf-8")
    view = build_report(tmp_path / "file.jsonl")
    assert {"n_scored": 60} == view.verdict[0].numbers
    assert "60 answers are not counted, right or wrong: what decides this is not known" in view.notices[0].text


def test_marks_of_repeats_are_those_that_agree() -> None:
    """A label of relevance that only some have is unknown, and so is everything if only some abstain."""
    repeats = [score("ccrs.cc", 0.5).model_copy(update={"answer": marks}) for marks in (("relevant",), ("irrelevant",))]
    assert () == merge_repeats("s", repeats).answer
    signals = Signals()
    note_sample(signals, sample())
    note_outcome(signals, merge_repeats("s", repeats), card("ccrs.cc"))
    assert (None, True, False) == (signals.has_relevant, signals.is_known, signals.abstains)
    abstains = repeats[0].model_copy(update={"answer": ("abstains", "relevant")})
    failed = FAILED.model_copy(update={"answer": None})
    assert ("abstains", "relevant") == merge_repeats("s", [abstains, failed, abstains]).answer
    assert None is merge_repeats("s", [repeats[0], abstains]).answer is merge_repeats("s", [failed, failed]).answer


def test_counts_of_causes_add_up() -> None:
    """The number of wrong answers is the sum of the wrong causes, and each lists its samples."""
    rows = [
        {
            "id": f"w{n}",
            "query": "Which color?",
            "contexts": ["The tower is red."],
            "response": "It is green.",
            "reference": "It is red.",
        }
        for n in range(6)
    ] + [
        {
            "id": f"r{n}",
            "query": "Which color?",
            "contexts": ["The tower is red."],
            "response": "It is red.",
            "reference": "It is red.",
        }
        for n in range(4)
    ]
    view = build_report(evaluate(rows, ["ccrs.ac", "ccrs.cc"], judge="lexical"))
    wrong = [row for row in view.causes if row.is_wrong]
    numbers = view.verdict[0].numbers
    assert sum(row.n for row in wrong) == numbers["n_wrong"]
    assert all(row.n == len(row.sample_ids) for row in view.causes)
    assert {id_ for row in wrong for id_ in row.sample_ids} <= {f"w{n}" for n in range(6)}


FAULTS = {
    "right": None,
    "retriever misses": "no_relevant_passage",
    "model declines": "missed_passage",
    "model invents": "unsupported_claims",
    "model follows a wrong passage": "wrong_passage",
    "right, and invents": "correct_unsupported",
    "answers what has no answer": "should_abstain",
}
"""What was planted, and the cause that it should have."""


def planted(fault: str, n: int, rng: random.Random, *, is_labeled: bool, error: float) -> tuple[Sample, list[Score]]:
    """A sample with a fault, and the outcomes of a judge that is wrong with a probability."""

    def judged(value: bool) -> bool:
        return value != (rng.random() < error)

    declines, invents = fault == "model declines", fault in ("model invents", "right, and invents")
    has_relevant = fault not in ("retriever misses", "answers what has no answer")
    is_right = judged(fault.startswith("right"))
    relevant = judged(has_relevant) if not is_labeled else has_relevant
    made = Sample(
        id=f"{fault}|{n}",
        query="Which color?",
        contexts=(Passage(text="It is red.", relevance=float(has_relevant) if is_labeled else None),),
        response=DECLINED if declines else "It is red. It is old.",
        reference=(DECLINED if fault == "answers what has no answer" else "Red.",),
    )
    outcomes = [
        score("ccrs.ac", 0.3 * is_right, em=0.0, judge=0.9 if is_right else 0.1),
        score("ragas.context_precision", float(relevant), useful=[relevant]),
    ]
    if not declines:
        claims = [{"claim": "It is red.", "supported": True}, {"claim": "It is old.", "supported": judged(not invents)}]
        outcomes.append(score("ragas.faithfulness", 1.0, claims=claims))
    return made, [outcome.model_copy(update={"sample_id": made.id}) for outcome in outcomes]


@pytest.mark.parametrize(
    ("is_labeled", "error", "least"), [(True, 0.0, 1.0), (False, 0.0, 1.0), (True, 0.1, 0.78), (False, 0.1, 0.7)]
)
def test_confusion_of_planted_faults(is_labeled: bool, error: float, least: float) -> None:
    """Without errors of the judge each fault has its cause, and with 10% the diagonal keeps most of them."""
    rng = random.Random(f"{is_labeled} {error}")
    made = [planted(fault, n, rng, is_labeled=is_labeled, error=error) for fault in FAULTS for n in range(100)]
    result = Experiment(
        samples=tuple(each for each, _ in made),
        outcomes=tuple(outcome for _, outcomes in made for outcome in outcomes),
        cards=tuple(CARDS[name] for name in ("ccrs.ac", "ragas.context_precision", "ragas.faithfulness")),
        judge=JudgeIdentity(name="j", hash="h"),
        usage=Usage(),
        wall_s=1.0,
    )
    table = Counter((answer.id.partition("|")[0], answer.cause) for answer in result.worst(len(made)))
    for fault, cause in FAULTS.items():
        others = {found: n for (planted_fault, found), n in table.items() if planted_fault == fault and found != cause}
        assert table[fault, cause] >= least * 100, (fault, table[fault, cause], others)
    counts = {row.cause: row.n for row in result.report().causes}
    assert counts == {
        c: n for c in set(FAULTS.values()) - {None} if (n := sum(v for (_, f), v in table.items() if f == c))
    }
