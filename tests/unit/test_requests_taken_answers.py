"""`assemble` if the application takes its answer from a reply: values of JSON, rewritten citations, joined findings, cut passages."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from ragstone.requests import Request, TraceDraft, assemble
from request_steps import ANSWER, QUESTION, A, B, C, Steps, prompt

V = "Yes. The warranty lasts two years."
N = "Keep the receipt, because the shop asks for it."
J = json.dumps({"verdict": V, "note": N})
SEARCH = ("Rewrite the question.", "warranty duration pump")
SEVERAL = ("several_answers",)


def returned(*calls: str | tuple[str, str], outputs: Any, **inputs: Any) -> Request:
    """A request with a retrieval and model calls: replies to a prompt with both passages, or pairs of prompt and reply."""
    steps = Steps()
    root = steps.chain(inputs={"question": QUESTION, **inputs}, outputs=outputs)
    steps.retrieval(root, A, B)
    for call in calls:
        steps.model(root, *((prompt(A, B), call) if isinstance(call, str) else call))
    return steps.request()


def said(draft: TraceDraft) -> tuple[str | None, tuple[str, ...]]:
    """The answer and the doubts of a draft."""
    assert draft.evidence is not None
    return draft.response, draft.evidence.doubts


CLEAR: dict[str, tuple[Sequence[str | tuple[str, str]], dict[str, Any], str]] = {
    "a value": ([J], {"ruling": V}, V),
    "a value of one word": ([json.dumps({"verdict": "Yes", "note": N})], {"ruling": "Yes"}, "Yes"),
    "a value and an id": ([J], {"ruling": V, "ticket": "T-4711"}, V),
    "a value and the question": ([J], {"asked": QUESTION, "ruling": V}, V),
    "a value and a text of the inputs": ([J], {"customer": "Ms Jane Doe of Berlin", "ruling": V}, V),
    "a value and a passage": ([J], {"excerpt": A, "ruling": V}, V),
    "a value and a query": ([SEARCH, J], {"search_query": SEARCH[1], "ruling": V}, V),
    "a value and its category": ([json.dumps({"text": V, "category": "pumps"})], {"ruling": V, "category": "pumps"}, V),
    "a value and a list": (
        [json.dumps({"verdict": V, "pages": ["page 1 of a", "page 2 of b"]})],
        {"ruling": V, "pages": ["page 1 of a", "page 2 of b"]},
        V,
    ),
    "an inner value": ([json.dumps({"result": {"verdict": V}, "plan": ["a", "b"]})], {"ruling": V}, V),
    "a value with escapes": ([json.dumps({"verdict": 'Für "zwei" Jahre.', "n": 1})], {"ruling": 'Für "zwei" Jahre.'}, 'Für "zwei" Jahre.'),
    "a sentence of a value": ([J], {"ruling": "The warranty lasts two years.", "n": "1"}, "The warranty lasts two years."),
    "a text made of two values": ([J], {"ruling": f"{V} ({N})"}, f"{V} ({N})"),
    "a text made of one word": ([json.dumps({"verdict": "Yes", "days": 30})], {"ruling": "Verdict: Yes"}, "Verdict: Yes"),
    "JSON in a fence": ([f"```json\n{J}\n```"], {"ruling": V}, V),
    "JSON after thoughts": ([f"<think>Two.</think>{J}"], {"ruling": V}, V),
    "a text after thoughts": ([f"<think>Two.</think>{V}"], {"ruling": V}, V),
    "a line without its label": ([f"Thought: look.\nRULING: {V}"], {"ruling": V}, V),
    "the key of the reply is named": ([json.dumps({"answer": V, "note": N})], {"ruling": V, "remark": N}, V),
    "the key of the output is named": ([J], {"final_ruling": V, "remark": N}, V),
    "an object returned whole": ([J], json.loads(J), J),
    "an object returned within another": ([J], {"data": json.loads(J), "request_id": "r-1"}, J),
    "an object with one text": ([json.dumps({"verdict": V, "score": 0.9})], {"verdict": V, "score": 0.9}, V),
    "a guard with a word": ([J, (f"Check: {V}", "ok")], {"ruling": V, "guard": "ok"}, V),
    "a guard with JSON": (
        [V, (f"Check: {V} {A}", json.dumps({"grounded": "yes", "reason": "All is in the text."}))],
        {"ruling": V, "why": "All is in the text."},
        V,
    ),
    "graders that say the first word": (
        [(f"Relevant? {A}", "Yes"), (f"Relevant? {B}", "Yes"), json.dumps({"verdict": "Yes, for two years.", "note": N})],
        {"ruling": "Yes, for two years."},
        "Yes, for two years.",
    ),
    "a plan": ([("Plan.", json.dumps({"steps": ["read a", "read b"]})), J], {"steps": ["read a", "read b"], "ruling": V}, V),
    "a critique": ([V, (f"Check: {V} {A}", json.dumps({"critique": "It is short."}))], {"ruling": V, "critique": "It is short."}, V),
    "a text in HTML": (["Two years."], {"ruling": "<b>Two years</b>."}, "<b>Two years</b>."),
    "an object within a named field": ([J], {"answer": json.loads(J)}, J),
    "a title under another key": ([json.dumps({"body": V, "title": "On pumps"})], {"headline": "On pumps", "article": V}, V),
    "a value and ids of three words": ([J], {"ruling": V, "pages": ["page 1 of a", "page 2 of b"]}, V),
    "an address": ([json.dumps({"verdict": V, "n": 1})], {"saved_to": "s3://answers/1.json"}, json.dumps({"verdict": V, "n": 1})),
    "a reply and a disclaimer": ([V], {"ruling": V, "disclaimer": "This text is no legal advice."}, V),
    "a named answer and a fixed text": ([V], {"final_ruling": V, "banner": "The shop is closed in May."}, V),
    "an empty state": ([V], {"status": "done"}, V),
}  # fmt: skip


@pytest.mark.parametrize("name", CLEAR)
def test_a_text_of_the_reply_under_another_key_is_the_answer(name: str) -> None:
    """The text that the request returns is the answer, not the JSON around it, and the contexts are those of its call."""
    calls, outputs, answer = CLEAR[name]
    draft = assemble(returned(*calls, outputs=outputs, customer="Ms Jane Doe of Berlin"))
    assert (answer, ()) == said(draft)
    assert [A, B] == [passage.text for passage in draft.contexts or ()]


DOUBTFUL: dict[str, tuple[Sequence[str | tuple[str, str]], dict[str, Any]]] = {
    "two values under other keys": ([J], {"ruling": V, "remark": N}),
    "a word and a sentence": ([json.dumps({"verdict": "Yes", "note": N})], {"verdict": "Yes", "hint": N}),
    "a value and a text of the application": ([J], {"ruling": V, "shown": "This text is no legal advice."}),
    "a draft and a fixed text": ([V], {"draft": V, "shown": "Please ask our service in Berlin."}),
    "a named draft and a fixed text": ([V], {"draft_answer": V, "final_text": "Please ask our service in Berlin."}),
    "a raw reply and a fixed reply": ([V], {"raw": V, "reply": "Please ask our service in Berlin."}),
    "a raw reply and a letter with it": (
        [V],
        {"raw_reply": V, "letter": f"Dear Ms Doe, {V} Keep it. Yours, the shop in Berlin"},
    ),
    "a draft and the text of a person": ([V], {"draft": V, "sent": "Yes, it is valid for two years. Ask us."}),
    "a value next to a translation": ([J], {"ruling": "Ja, zwei Jahre lang gilt sie.", "remark": N}),
    "a translation of a value": ([J], {"ruling": "Ja, zwei Jahre lang."}),
    "a translation of a reply": ([V], {"ruling": "Ja, die Garantie gilt zwei Jahre."}),
    "a word for a value": ([json.dumps({"allowed": True, "reason": N})], {"ruling": "yes"}),
    "another reply": (
        [(f"Sum up: {B}", "Returns are accepted for thirty days."), J],
        {"analysis": "Returns are accepted for thirty days.", "ruling": V},
    ),
}


@pytest.mark.parametrize("name", DOUBTFUL)
def test_several_texts_that_can_be_the_answer_are_in_doubt(name: str) -> None:
    """Nothing says which text is the answer, or how the application made it."""
    calls, outputs = DOUBTFUL[name]
    assert SEVERAL == said(assemble(returned(*calls, outputs=outputs)))[1]


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        ("Two years [1].", "Two years (manual.pdf)."),
        ("Yes [1].", "Yes (manual.pdf)."),
        ("Yes [1], for two years [2].", "Yes¹, for two years²."),
        ("Yes [1], for two years [2].", "Yes<sup>1</sup>, for two years<sup>2</sup>."),
        ("Yes [1], for two years [2].", "Yes [1](https://a.example/x), for two years [2](https://a.example/y)."),
        ("Yes [doc_1], for two years [doc_2].", "Yes [1], for two years [2]."),
        ("Yes【3:0†manual.pdf】, two years.", "Yes [manual.pdf], two years."),
        ("Two years [1].", "Two years.\n\nSources: manual.pdf"),
        ("Two years [1].", "TWO YEARS"),
        ("Two [1]. Parts too [2]. Labor too [1]. Returns not [2].", "Two (a). Parts too (b). Labor too (a). Returns not (b)."),
        (json.dumps({"answer": "Yes [1], two years.", "note": "x"}), "Yes (manual.pdf), two years."),
    ],
)  # fmt: skip
def test_citations_are_rewritten_in_a_short_answer(reply: str, answer: str) -> None:
    """The call with the same words wrote the answer, and a grader that says the first of them did not."""
    draft = assemble(returned((f"Is this relevant? {C}", "Yes"), reply, outputs={"answer": answer}))
    assert (answer, ()) == said(draft)
    assert [A, B] == [passage.text for passage in draft.contexts or ()]


@pytest.mark.parametrize("key", ["answer", "combined"])
@pytest.mark.parametrize("form", ["{}\n\n{}", "Warranty: {}\nReturns: {}"])
def test_findings_that_the_application_joins(form: str, key: str) -> None:
    """The passages behind both replies are contexts."""
    replies = [
        "The warranty lasts two years and covers all parts.",
        "Returns are accepted for thirty days in the shop.",
    ]
    draft = assemble(returned(*zip((prompt(A), prompt(B)), replies, strict=True), outputs={key: form.format(*replies)}))
    assert (form.format(*replies), ()) == said(draft)
    assert [A, B] == [passage.text for passage in draft.contexts or ()]


def test_the_word_of_a_value_and_of_a_grader() -> None:
    """Nothing says which one the application returned, if they saw different passages."""
    verdict = json.dumps({"verdict": "Yes", "note": N})
    assert SEVERAL == said(assemble(returned((f"Is this relevant? {A}", "Yes"), verdict, outputs={"ruling": "Yes"})))[1]


@pytest.mark.parametrize(("key", "doubts"), [("answer", ("no_model_wrote_it",)), ("combined", SEVERAL)])
def test_a_finding_and_a_text_of_the_application(key: str, doubts: tuple[str, ...]) -> None:
    """What the application made of the other finding is not known."""
    calls = [(prompt(A), "Two years."), (prompt(B), "Thirty days.")]
    assert doubts == said(assemble(returned(*calls, outputs={key: "Two years, and a month."})))[1]


def test_a_word_of_a_grader_in_a_fixed_text() -> None:
    """The word does not make the grader the author of the text."""
    answer = "Yes, see the handbook on the shelf in the hall."
    draft = assemble(returned((f"Is this relevant? {A}", "Yes"), "Two years.", outputs={"answer": answer}))
    assert (answer, SEVERAL) == said(draft)


@pytest.mark.parametrize("key", ["answer", "combined"])
@pytest.mark.parametrize(
    ("answer", "form", "doubts"),
    [
        ("Two years.\nThirty days.", None, ()),
        ("Warranty: Two years. Returns: Thirty days.", None, ()),
        ("Two years and thirty days.", "Findings:\n- {}\n- {}", ()),
        ("Two years and thirty days.", '{{"warranty": "{}", "returns": "{}"}}', ()),
        ("Two years and thirty days.", "The first expert says {} and the second one {}", ()),
    ],
)
def test_short_findings_of_parallel_workers(answer: str, form: str | None, doubts: tuple[str, ...], key: str) -> None:
    """The passages of both are contexts, whether the application or another call joins the findings."""
    steps = Steps()
    root = steps.chain(inputs={"question": QUESTION}, outputs={key: answer})
    for page, finding in ((A, "Two years."), (B, "Thirty days.")):
        worker = steps.chain(root)
        steps.retrieval(worker, page)
        steps.model(worker, prompt(page), finding)
    if form is not None:
        steps.model(root, form.format("Two years.", "Thirty days.") + QUESTION, answer)
    draft = assemble(steps.request())
    assert (answer, doubts) == said(draft)
    assert doubts or [A, B] == [passage.text for passage in draft.contexts or ()]


SENTENCES = [
    "Devices are welcome back at our shop in Berlin.",
    "All of them must be returned in thirty days.",
    "The box has to be included in any case, and the receipt too.",
]
PAGE = " ".join(SENTENCES)


@pytest.mark.parametrize("sentence", SENTENCES)
@pytest.mark.parametrize("others", [[], [C]])
@pytest.mark.parametrize("form", ["- {}", "{}", "Note: {} (shop.md)"])
def test_one_sentence_of_a_passage(sentence: str, others: list[str], form: str) -> None:
    """A sentence from any place of a passage is what the model read of it."""
    steps = Steps()
    root = steps.chain(inputs={"question": QUESTION}, outputs={"answer": ANSWER})
    steps.retrieval(root, PAGE, C, B)
    steps.model(root, prompt(*(form.format(text) for text in (sentence, *others))), ANSWER)
    draft = assemble(steps.request())
    assert (ANSWER, ()) == said(draft)
    assert [(sentence, PAGE[:5]), *((text, text[:5]) for text in others)] == [
        (passage.text, passage.id) for passage in draft.contexts or ()
    ]


@pytest.mark.parametrize("mark", ["- {}\n", "{}\n\n", "* {} (shop.md)\n"])
def test_the_sentences_of_a_passage_as_a_list(mark: str) -> None:
    """Each sentence is what the model read of the passage."""
    steps = Steps()
    root = steps.chain(inputs={"question": QUESTION}, outputs={"answer": ANSWER})
    steps.retrieval(root, PAGE, C)
    shown = [sentence.rstrip(".") for sentence in SENTENCES]
    steps.model(root, prompt("".join(map(mark.format, shown)), C), ANSWER)
    draft = assemble(steps.request())
    assert (ANSWER, ()) == said(draft)
    assert [*shown, C] == [passage.text.rstrip(".") if passage.id != C[:5] else C for passage in draft.contexts or ()]


def test_a_sentence_that_passages_share_is_not_a_piece_of_them() -> None:
    """A line above each page is in the prompt without the pages that were dropped."""
    line = "Page of the manual. All rights are reserved by the ACME company. "
    steps = Steps()
    root = steps.chain(inputs={"question": QUESTION}, outputs={"answer": ANSWER})
    steps.retrieval(root, line + A, line + B, line + C)
    steps.model(root, prompt("All rights are reserved by the ACME company.", line + A), ANSWER)
    draft = assemble(steps.request())
    assert [line + A] == [passage.text for passage in draft.contexts or ()]


def test_a_sentence_of_the_question_is_not_a_piece() -> None:
    """The user quotes a sentence of a passage, which counts only if the application shows it as well."""
    question = f"The page says: {SENTENCES[1]} Is this true?"
    steps = Steps()
    root = steps.chain(inputs={"question": question}, outputs={"answer": ANSWER})
    steps.retrieval(root, PAGE, C, query=question)
    steps.model(root, prompt(C, question=question), ANSWER)
    assert [C] == [passage.text for passage in assemble(steps.request()).contexts or ()]


@pytest.mark.parametrize(("verdict", "key"), [(V, "ruling"), ("Yes", "ruling")])
def test_arguments_for_a_tool_that_does_not_run_are_a_structured_reply(verdict: str, key: str) -> None:
    """The application takes a field of the object that the model filled in. Arguments of a search are not an answer."""
    steps = Steps()
    outputs = {"search_query": "warranty of pumps", key: verdict}
    root = steps.chain(inputs={"question": QUESTION}, outputs=outputs)
    steps.model(root, QUESTION, json.dumps({"query": "warranty of pumps"}), calls_tool=True)
    tool = steps.add("tool", within=root, name="search", inputs={"query": "warranty of pumps"}, outputs=A)
    steps.retrieval(tool, A)
    steps.model(root, prompt(A), json.dumps({"verdict": verdict, "note": N}), calls_tool=True)
    draft = assemble(steps.request())
    assert (verdict, ()) == said(draft)
    assert [A] == [passage.text for passage in draft.contexts or ()]


def test_a_sentence_that_the_question_and_the_application_quote() -> None:
    """The question does not hide the sentence."""
    question = f"The page says: {SENTENCES[1]} Is this true?"
    steps = Steps()
    root = steps.chain(inputs={"question": question}, outputs={"answer": ANSWER})
    steps.retrieval(root, PAGE, C, query=question)
    steps.model(root, prompt(SENTENCES[1], C, question=question), ANSWER)
    assert [SENTENCES[1], C] == [passage.text for passage in assemble(steps.request()).contexts or ()]


@pytest.mark.parametrize(
    ("reply", "output"),
    [
        ("[" * 20_000, "["),
        ('{"verdict": ' * 5_000, "x"),
        (json.dumps({"verdict": "\ud800 Yes, two years"}), "\ud800 Yes, two years"),
        ('{"verdict": NaN, "note": Infinity}', "NaN"),
        (json.dumps({str(n): f"text {n}" for n in range(5_000)}), "text 7"),
        ("[(<" * 5_000, "[(<" * 5_000 + "x"),
        ("\u0000", "\u0000"),
        (json.dumps(["a"] * 10_000), "a, a"),
        ("a b c " * 5_000, "a b c d " * 5_000),
    ],
    ids=["brackets", "unclosed", "surrogate", "no numbers", "keys", "mixed brackets", "null character", "items", "words"],
)  # fmt: skip
@pytest.mark.parametrize("key", ["answer", "ruling"])
def test_odd_replies_are_read_or_left(reply: str, output: str, key: str) -> None:
    """No reply and no output stops the assembly."""
    response, doubts = said(assemble(returned(reply, reply, outputs={key: output, "other": [output] * 40})))
    assert response is not None
    assert "internal_error" not in doubts
