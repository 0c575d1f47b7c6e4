"""The demo chain: a real LCEL chain whose requests are captured."""

from __future__ import annotations

from importlib.metadata import entry_points

from ragstone.demo import extract_answer, load_questions
from ragstone.testing import MemoryRecorder

build_demo_chain = entry_points(group="ragstone.demos")["langchain"].load()


def test_every_question_is_answered_and_captured_once():
    """One draft for each question, with its query, answer and reference."""
    recorder, questions = MemoryRecorder(), load_questions()
    ask = build_demo_chain(recorder)
    answers = [ask(q) for q in questions]
    assert [q.query for q in questions] == [d.query for d in recorder.drafts]
    assert answers == [d.response for d in recorder.drafts]
    assert [[q.reference] for q in questions] == [d.reference for d in recorder.drafts]
    assert {d.status for d in recorder.drafts} == {"ok"}
    assert len({d.trace_id for d in recorder.drafts}) == len(questions)


def test_a_draft_holds_what_retrieval_found():
    """Texts, ids and scores of the passages in rank order, the model, its usage, and the metadata of the call."""
    recorder = MemoryRecorder()
    question = next(q for q in load_questions() if q.kind == "distractor")
    build_demo_chain(recorder)(question)
    (draft,) = recorder.drafts
    (search,) = draft.retrievals
    assert question.query == search.query
    assert question.gold[0] == search.passages[0].id
    scores = [p.score for p in search.passages]
    assert scores == sorted(scores, reverse=True)
    assert scores[-1] > 0
    assert draft.model == "extractive-demo"
    assert draft.output_tokens == len(draft.response.split())
    assert draft.session_id == "demo"
    assert draft.metadata["question_kind"] == "distractor"


def test_answers_are_the_same_each_time():
    """A second chain gives the same answers; some of it is a refusal and some is not."""
    first, second = (list(map(build_demo_chain(MemoryRecorder()), load_questions())) for _ in range(2))
    assert first == second
    assert 0 < first.count(extract_answer("", [])) < len(first) / 2
