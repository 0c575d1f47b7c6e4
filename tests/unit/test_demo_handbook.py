"""The demo's data, retriever and answerer."""

from __future__ import annotations

from dataclasses import replace

from ragstone.demo import Bm25, extract_answer, load_corpus, load_questions

NOT_FOUND = "I could not find this in the handbook."


def test_the_corpus_is_large_enough_and_every_id_is_there_once():
    """Enough passages for retrieval to be a choice."""
    ids = [p.id for p in load_corpus()]
    assert len(ids) >= 34
    assert len(set(ids)) == len(ids)
    assert all(p.title and p.text for p in load_corpus())


def test_the_questions_cover_every_kind():
    """At least 24, at least 4 that the handbook does not answer, at least 4 with a look-alike."""
    questions = load_questions()
    kinds = [q.kind for q in questions]
    assert len(questions) >= 24
    assert len({q.id for q in questions}) == len(questions)
    assert kinds.count("unanswerable") >= 4
    assert kinds.count("distractor") >= 4
    assert all(q.query.endswith("?") and q.reference for q in questions)


def test_gold_passages_exist_where_there_is_an_answer():
    """An unanswerable question has no gold passage, every other has one that is in the corpus."""
    ids = {p.id for p in load_corpus()}
    for question in load_questions():
        assert set(question.gold) <= ids, question.id
        assert bool(question.gold) == (question.kind != "unanswerable"), question.id


def test_the_right_answer_to_an_unanswerable_question_is_the_refusal():
    """So that refusing where one must scores as correct, and making something up does not."""
    assert {q.reference for q in load_questions() if q.kind == "unanswerable"} == {NOT_FOUND}


def test_bm25_finds_most_gold_passages():
    """Retrieval works, so that bad answers of the demo are the answerer's."""
    index = Bm25(load_corpus())
    answerable = [q for q in load_questions() if q.gold]
    found = [q for q in answerable if set(q.gold) & {p.id for p, _ in index.search(q.query, 4)}]
    assert len(found) >= 0.9 * len(answerable)


def test_distractors_bring_their_look_alike():
    """For every distractor question retrieval also returns passages that are not gold."""
    index = Bm25(load_corpus())
    for question in load_questions():
        if question.kind == "distractor":
            assert {p.id for p, _ in index.search(question.query, 4)} - set(question.gold), question.id


def test_bm25_score_by_hand():
    """One term, two passages of equal length: idf ln(1 + 1.5 / 1.5) = ln 2 times 2.2 * tf / (tf + 1.2)."""
    passage = load_corpus()[0]
    index = Bm25([replace(passage, id="a", title="x", text="buoy"), replace(passage, id="b", title="x", text="rope")])
    ((passage, score),) = index.search("Buoy?")
    assert passage.id == "a"
    assert abs(score - 0.6931471805599453) < 1e-12


def test_bm25_edges():
    """Nothing in common, an empty query and an empty corpus find nothing; k bounds the result."""
    index = Bm25(load_corpus())
    assert index.search("zeppelin") == []
    assert index.search("") == []
    assert Bm25([]).search("ferry") == []
    assert len(index.search("Gannet", 2)) == 2


def test_bm25_is_ordered_and_repeatable():
    """Scores fall, and a second index gives the same result to the last digit."""
    first = Bm25(load_corpus()).search("How many cars does the Gannet carry?", 10)
    assert first == Bm25(load_corpus()).search("How many cars does the Gannet carry?", 10)
    assert [s for _, s in first] == sorted((s for _, s in first), reverse=True)


def test_the_answer_is_the_best_sentence():
    """The sentence with the telling words wins, not the passage's first."""
    passages = ["The pier is old. The bell rings at noon.", "The bell is made of bronze."]
    assert extract_answer("When does the bell ring at noon?", passages) == "The bell rings at noon."


def test_no_answer_without_overlap():
    """It gives up rather than guess when words have nothing in common, or there is nothing to read."""
    assert extract_answer("Who painted the ceiling?", ["The bell rings at noon."]) == NOT_FOUND
    assert extract_answer("Who painted the ceiling?", []) == NOT_FOUND
    assert extract_answer("", ["The bell rings at noon."]) == NOT_FOUND


def test_the_demo_has_good_answers_bad_answers_and_refusals():
    """Metrics have something to tell apart: correct figures, answers to unanswerable questions, and refusals."""
    index = Bm25(load_corpus())
    said = {q.id: extract_answer(q.query, [p.text for p, _ in index.search(q.query)]) for q in load_questions()}
    exact = [q for q in load_questions() if said[q.id] == q.reference]
    invented = [q for q in load_questions() if q.kind == "unanswerable" and said[q.id] != NOT_FOUND]
    refused = [q for q in load_questions() if said[q.id] == NOT_FOUND]
    assert len(exact) >= 5
    assert 1 <= len(invented) < 5
    assert len(refused) >= 2
