"""The demo's application, whose requests are captured."""

from __future__ import annotations

from ragstone.demo import build_application, extract_answer, load_questions
from ragstone.testing import MemoryRecorder


def answers() -> list[str | None]:
    """The answers of one run."""
    recorder = MemoryRecorder()
    ask = build_application(recorder)
    for question in load_questions():
        ask(question)
    return [draft.response for draft in recorder.drafts]


def test_every_question_is_answered_and_captured_once():
    """One draft for each question, with its query, answer and reference."""
    recorder, questions = MemoryRecorder(), load_questions()
    ask = build_application(recorder)
    for question in questions:
        ask(question)
    assert [q.query for q in questions] == [d.query for d in recorder.drafts]
    assert {("in_prompt", ()), ("found", ())} >= {(d.evidence.contexts, d.evidence.doubts) for d in recorder.drafts}
    assert [[q.reference] for q in questions] == [d.reference for d in recorder.drafts]
    assert {d.status for d in recorder.drafts} == {"ok"}
    assert len({d.trace_id for d in recorder.drafts}) == len(questions)


def test_a_draft_holds_what_retrieval_found():
    """Texts, ids and scores of the passages in rank order, the model, its usage, and the metadata of the call."""
    recorder = MemoryRecorder()
    question = next(q for q in load_questions() if q.kind == "distractor")
    build_application(recorder)(question)
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
    """A second run gives the same answers; some of it is a refusal and some is not."""
    first, second = (answers(), answers())
    assert first == second
    assert 0 < first.count(extract_answer("", [])) < len(first) / 2
