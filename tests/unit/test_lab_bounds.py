"""Bounds of CRUX: what retriever and generator can still gain, by planted answers."""

from __future__ import annotations

import json

import pytest

from command_line import run_command
from ragstone.errors import ConfigurationError, DataError, JudgeError
from ragstone.metrics import MetricBase
from ragstone.testing import FakeJudge
from ragstone_lab import retrieval_bounds

TOPICS = ("age", "builder", "colour", "depth")


def questions(n, **columns):
    """Questions with four answerable sub-questions, which one passage answers."""
    return [
        {
            "id": f"q{i}",
            "query": f"Tell me about tower {i}.",
            "sub_questions": [f"What is the {topic}?" for topic in TOPICS],
            "ratings": {f"What is the {topic}?": {"p1": 5} for topic in TOPICS},
            "required": {"p1": " ".join(TOPICS)},
            "reference": " ".join(TOPICS),
            **columns,
        }
        for i in range(n)
    ]


def rate(prompt):
    """A sub-question is answered if the text contains its topic."""
    asked = enumerate(prompt.fields["sub_questions"], start=1)
    return {str(n): 5 if text[12:-1] in prompt.fields["evidence"] else 0 for n, text in asked}


def judge():
    """A judge that rates each text."""
    return FakeJudge(json=rate)


def said(condition, i):
    """The planted answer: coverage 0, then 0.25 or 0.5, then 0.75."""
    return " ".join(TOPICS[: {"direct": 0, "retrieved": 1 + i % 2, "oracle": 3}[condition]]) or "nothing known"


def app(row):
    """An application that answers from the passages of the row, and retrieves if there are none given."""
    condition = "retrieved" if row.contexts is None else "oracle" if row.contexts else "direct"
    return said(condition, int(row.query.split()[-1].strip(".")))


def by_gain(result):
    return {gain.gain: gain for gain in result.gains}


def test_planted_gains_come_back_with_paired_intervals(tmp_path):
    """The three gains are those of the planted answers, and agree with an independent computation."""
    from statistics import mean

    result = retrieval_bounds(questions(40), tmp_path, app=app, judge=judge())
    gains = by_gain(result)
    retrieved = [0.25 * (1 + i % 2) for i in range(40)]
    expected = {
        "of retrieval now": mean(retrieved),
        "left to the retriever": mean(0.75 - value for value in retrieved),
        "left to the generator": 0.25,
    }
    assert expected == pytest.approx({name: gain.value for name, gain in gains.items()})
    assert [40] * 3 == [gain.n for gain in gains.values()]
    for gain in (gains["of retrieval now"], gains["left to the retriever"]):
        assert gain.low < gain.value < gain.high
        assert gain.p_value < 0.001
    # The interval is paired: that of independent answers would be as wide as that of the means together.
    means = {each.system: each.estimate for each in result.comparison.metrics[0].systems}
    width = sum(means[name].high - means[name].low for name in ("retrieved", "oracle"))
    assert gains["left to the retriever"].high - gains["left to the retriever"].low < width
    assert "left to the retriever: oracle - retrieved" in str(result)
    assert 40 == json.loads(json.dumps(result.to_dict()))["n_questions"]


def test_files_of_answers_give_the_same_gains_as_the_application(tmp_path):
    """The application and its recorded answers are compared alike."""
    rows = questions(20)
    files = {}
    for name in ("direct", "retrieved", "oracle"):
        files[name] = tmp_path / f"{name}.jsonl"
        lines = [{"id": f"q{i}", "query": rows[i]["query"], "response": said(name, i)} for i in range(20)]
        files[name].write_text("".join(json.dumps(line) + "\n" for line in lines))
    asked = retrieval_bounds(rows, tmp_path / "asked", app=app, judge=judge())
    read = retrieval_bounds(rows, tmp_path / "read", answers=files, judge=judge())
    assert asked.gains == read.gains
    with pytest.raises(ConfigurationError, match="answers are needed for direct, retrieved, oracle, got direct"):
        retrieval_bounds(rows, tmp_path, answers={"direct": files["direct"]}, judge=judge())
    with pytest.raises(DataError, match="'q0' answers another question"):
        other = [row | {"query": "Another?"} for row in rows]
        retrieval_bounds(other, tmp_path / "other", answers=files, judge=judge())


def test_unknown_stays_unknown_and_is_counted(tmp_path):
    """Questions without required passages or an answer are excluded, and a missing reference is no number."""
    rows = [
        *questions(12, reference=None),
        {"id": "none", "query": "No passages?", "sub_questions": ["a?"]},
        {"id": "blank", "query": "Blank?", "required": {"p": " "}},
    ]
    result = retrieval_bounds(rows, tmp_path / "app", app=app, judge=judge())
    assert (12, {"no passages that suffice (`required`)": 2}) == (result.n_questions, dict(result.left_out))
    unknown = by_gain(result)["left to the generator"]
    assert (None, None, 0) == (unknown.value, unknown.low, unknown.n)
    assert "unknown" in str(result)
    answers = {name: [{"id": f"q{i}", "response": said(name, i)} for i in range(12)] for name in ("direct", "oracle")}
    answers["retrieved"] = answers["direct"][:11]
    read = retrieval_bounds(rows[:12], tmp_path / "files", answers=answers, judge=judge())
    assert (11, {"no answer: retrieved": 1}) == (read.n_questions, dict(read.left_out))
    with pytest.raises(DataError, match="none of 2 questions can take part"):
        retrieval_bounds(rows[12:], tmp_path / "empty", app=app, judge=judge())


def test_failed_scores_are_bounded_not_filled_in(tmp_path):
    """A failure of the judge is counted in each gain of its condition, with the bounds of any score."""

    def reply(prompt):
        if prompt.fields["evidence"] == said("oracle", 0):
            raise JudgeError("no rating", kind="unparseable")
        return rate(prompt)

    rows = questions(15)
    result = retrieval_bounds(rows, tmp_path, app=app, judge=FakeJudge(json=reply))
    gain = by_gain(result)["left to the retriever"]
    assert (None, 0, 15) == (gain.value, gain.n, gain.n_failed)
    assert {"unparseable": 15} == dict(result.failures)


def test_metrics_of_which_less_is_better_gain_by_less(tmp_path):
    """A gain is positive if the answers become better."""

    class Missing(MetricBase):
        name, title, description, formula, source = (
            "missing",
            "Missing",
            "How many words are missing?",
            "4 - words",
            "test",
        )
        needs, direction, low, high, version = ("response",), "lower", 0.0, 4.0, "1"

        async def compute(self, sample, judge):
            return self.make_score(sample, 4.0 - sum(topic in sample.response for topic in TOPICS), method="exact")

    result = retrieval_bounds(questions(20), tmp_path, app=app, metrics=[Missing()])
    gains = by_gain(result)
    assert (1.5, 1.5, 1.0) == tuple(gain.value for gain in gains.values())
    assert gains["left to the retriever"].low > 0


def test_clusters_of_questions_widen_the_intervals(tmp_path):
    """Questions of one document resemble each other: 4 documents say less than 40 questions."""
    rows = [row | {"document": f"d{i // 10}"} for i, row in enumerate(questions(40))]

    def by_document(row):
        i = int(row.query.split()[-1].strip("."))
        return said("retrieved", i // 10) if row.contexts is None else app(row)

    alone, together = (
        by_gain(retrieval_bounds(rows, tmp_path / str(cluster), app=by_document, judge=judge(), cluster=cluster))
        for cluster in (None, "document")
    )
    name = "left to the retriever"
    assert alone[name].value == together[name].value
    assert alone[name].p_value < 0.001 < together[name].p_value
    with pytest.raises(ConfigurationError, match="chapter"):
        retrieval_bounds(rows, tmp_path / "x", app=app, judge=judge(), cluster="chapter")


def test_an_interrupted_run_asks_only_for_missing_answers(tmp_path):
    """After an interruption neither the application nor the judge is asked again for complete answers."""
    asked, stop = [], True

    def counted(row):
        asked.append(row.id)
        if stop and len(asked) > 30:
            raise KeyboardInterrupt
        return app(row)

    with pytest.raises(KeyboardInterrupt):
        retrieval_bounds(questions(20), tmp_path, app=counted, judge=judge(), app_concurrency=1)
    stop, first = False, set(asked[:-1])
    asked.clear()
    again = judge()
    result = retrieval_bounds(questions(20), tmp_path, app=counted, judge=again, app_concurrency=1)
    assert 60 == len(first | set(asked))
    assert len(first & set(asked)) <= 1
    assert len(again.prompts) < 60
    assert retrieval_bounds(questions(20), tmp_path / "whole", app=app, judge=judge()).gains == result.gains


@pytest.mark.parametrize("wrong", [lambda question: question, lambda: "", "text"])
def test_an_application_that_cannot_be_given_passages_is_refused(tmp_path, wrong):
    """It would retrieve in all conditions, and each gain would be 0."""
    with pytest.raises(ConfigurationError, match="first parameter is named `row`"):
        retrieval_bounds(questions(3), tmp_path, app=wrong, judge=judge())


def test_the_command_runs_an_application_and_files(tmp_path, monkeypatch):
    """`ragstone lab dataset bounds` with the lexical baseline."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "answering.py").write_text(
        "def answer(row):\n    given = row.contexts\n"
        "    return 'age' if given is None else given[0].text if given else 'nothing'\n"
    )
    (tmp_path / "set.jsonl").write_text("".join(json.dumps(row) + "\n" for row in questions(12)))
    done = run_command(
        "lab", "dataset", "bounds", "set.jsonl", "--app", "answering:answer", "--judge", "lexical", "--json"
    )
    assert 0 == done.returncode, done.stderr
    gains = {gain["gain"]: gain["value"] for gain in json.loads(done.stdout)["gains"]}
    assert (0.25, 0.75, 0.0) == tuple(list(gains.values())[:3])
    assert (tmp_path / "bounds" / "outcomes.jsonl").is_file()
    neither = run_command("lab", "dataset", "bounds", "set.jsonl", "--judge", "lexical")
    assert (2, True) == (neither.returncode, "give either the application" in neither.stderr)
