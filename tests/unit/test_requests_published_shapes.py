"""`assemble` on shapes that applications publish: tables, translations, agents, drafts, guards, structured answers."""

from __future__ import annotations

import html
import json
import textwrap
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from ragstone.requests import Message, PassageDraft, Request, Step, assemble, harvest
from request_steps import ANSWER, QUESTION, A, B, C, D, Steps, passages, prompt


@dataclass(frozen=True)
class Expected:
    """What a careful reader of the steps would write down."""

    contexts: tuple[str, ...] | None
    """Texts, None if they are not known."""
    response: str | None = ANSWER
    query: str | None = QUESTION
    doubts: tuple[str, ...] = ()


CASES: dict[str, tuple[Callable[[], Request], Expected]] = {}


def case(expected: Expected) -> Callable[[Callable[[], Request]], Callable[[], Request]]:
    """Add a request to the cases."""

    def add(build: Callable[[], Request]) -> Callable[[], Request]:
        CASES[build.__name__] = (build, expected)
        return build

    return add


def _start(answer: object = ANSWER, question: str = QUESTION) -> tuple[Steps, Step]:
    steps = Steps()
    return steps, steps.chain(inputs={"question": question}, outputs={"answer": answer})


def _one(
    shown: str, *found: str, answer: object = ANSWER, reply: str | None = None, question: str = QUESTION
) -> Request:
    """One retrieval, one model call whose prompt shows something, one answer."""
    steps, root = _start(answer, question)
    steps.retrieval(root, *found, query=question)
    steps.model(root, shown, reply if reply is not None else str(answer))
    return steps.request()


TABLE = "| Part | Years |\n|------|-------|\n| Pump | 2     |\n| Hose | 1     |\n| Seal | not covered |"
CODE = 'def warranty(part: str) -> int:\n    if part == "pump":\n        return 2\n    return {"hose": 1}.get(part, 0)'


@case(Expected((TABLE,)))
def table_in_markdown() -> Request:
    """A table stands in the prompt as it is."""
    return _one(prompt(TABLE), TABLE, B)


@case(Expected((TABLE,)))
def table_whose_columns_are_padded_again() -> Request:
    """A formatter pads the columns of a table: only whitespace differs."""
    wider = "\n".join(line.replace(" |", "    |") for line in TABLE.splitlines())
    return _one(prompt(wider), TABLE, B)


@case(Expected((CODE,)))
def code_in_a_fence() -> Request:
    """Code is indented by the template."""
    return _one(prompt("```python\n" + textwrap.indent(CODE, "    ") + "\n```"), CODE, B)


@case(Expected((CODE, A)))
def code_in_json() -> Request:
    """Quotes and line breaks of code are escaped."""
    return _one(json.dumps({"documents": [CODE, A], "question": QUESTION}), CODE, B, A)


@case(Expected((r"Set the path to C:\new\tables\report and restart the service of the pump.",)))
def windows_path() -> Request:
    """Backslashes of a path are not escapes, on either side."""
    path = r"Set the path to C:\new\tables\report and restart the service of the pump."
    return _one(prompt(path), path, B)


@case(Expected((r"The loss is \frac{1}{n}\sum_i \theta_i and \nu is the rate of the batch.",)))
def latex_in_json() -> Request:
    """LaTeX has backslashes that JSON doubles."""
    text = r"The loss is \frac{1}{n}\sum_i \theta_i and \nu is the rate of the batch."
    return _one(json.dumps([text]), text, B)


@case(Expected((f"{A} Question: {QUESTION} Answer: two years.", B)))
def passage_that_quotes_the_question() -> Request:
    """A page of frequent questions contains the very question."""
    faq = f"{A} Question: {QUESTION} Answer: two years."
    return _one(prompt(faq, B), faq, B, C)


@case(Expected((A, B), "The warranty lasts two years [1] and returns are accepted within thirty days [2]."))
def numbered_with_citations() -> Request:
    """The prompt numbers the passages, and the answer cites them."""
    answer = "The warranty lasts two years [1] and returns are accepted within thirty days [2]."
    return _one(prompt(f"[1] {A}", f"[2] {B}"), A, B, C, answer=answer)


@case(Expected((A, B)))
def wrapped_in_xml() -> Request:
    """Each passage is an element, with escaped characters."""
    shown = "".join(
        f'<document index="{i}"><source>a.pdf</source>{html.escape(t)}</document>' for i, t in enumerate((A, B))
    )
    return _one(f"<documents>{shown}</documents>\n{QUESTION}", A, B, C)


@case(Expected((A,)))
def citation_markers_inside_sentences() -> Request:
    """The passage has markers of its own source."""
    return _one(prompt(A), A, B)


_MARKED = "The warranty of the pump covers parts. [p. 4] It lasts two years after the date of purchase. [p. 5] Labor is covered as well. [p. 6]"


@case(Expected((_MARKED,)))
def markers_of_pages_in_the_passage() -> Request:
    """Markers are part of the passage's text."""
    return _one(prompt(_MARKED), B, _MARKED)


_LONG = f"{A} {B} {C} {D}"


@case(Expected((f"{B} {C}", D)))
def middle_of_a_passage_is_extracted() -> Request:
    """A compressor inside a function keeps two sentences of three, and the beginning of another passage."""
    longer = D + " More about recycling is on the page of the town hall."
    return _one(prompt(f"{B} {C}", D), f"{A} {B} {C}", longer)


@case(Expected((A, C)))
def cut_and_reranked() -> Request:
    """Sentences that are whole passages and a cut one."""
    return _one(prompt(A, C), A, B, C)


WINDOWS = (f"{A} {B}", f"{B} {C}", f"{C} {D}")


@case(Expected((WINDOWS[0], WINDOWS[1])))
def sliding_windows_with_overlap() -> Request:
    """Neighboring chunks share a sentence, and two of three are in the prompt."""
    return _one(prompt(*WINDOWS[:2]), *WINDOWS)


@case(Expected((WINDOWS[0], WINDOWS[1])))
def sliding_windows_that_are_merged() -> Request:
    """The application joins overlapping chunks to one text: both stand in it, and overlap."""
    return _one(prompt(f"{A} {B} {C}"), *WINDOWS)


@case(Expected((A,)))
def duplicates_with_different_ids() -> Request:
    """The same text was indexed twice: the model saw it once or twice, it is one context."""
    steps, root = _start()
    steps.add(
        "retrieval", within=root, query=QUESTION, passages=[PassageDraft(text=A, id="1"), PassageDraft(text=A, id="2")]
    )
    steps.model(root, prompt(A, A), ANSWER)
    return steps.request()


@case(Expected((A + " The price is 10 euros.",)))
def near_duplicates() -> Request:
    """Two versions of a page differ in a number: only one is in the prompt."""
    old, new = A + " The price is 10 euros.", A + " The price is 12 euros."
    return _one(prompt(old), new, old)


@case(Expected((f"{A} {B} {C} {D}",)))
def parent_of_several_children() -> Request:
    """Children were found, and the application looks up the parent in a step of its own."""
    steps, root = _start()
    steps.retrieval(root, A, C)
    steps.add("transform", within=root, input_texts=[A, C], passages=passages(_LONG))
    steps.model(root, prompt(_LONG), ANSWER)
    return steps.request()


@case(Expected((A, C)))
def parent_looked_up_in_a_function() -> Request:
    """Children were found, and the prompt has their parent, which no step shows: the children stand in it."""
    return _one(prompt(_LONG), A, C)


@case(Expected((A, B, C, D)))
def summaries_of_summaries() -> Request:
    """Two levels of summaries lead back to the passages."""
    steps, root = _start()
    steps.retrieval(root, A, B, C, D)
    first = [
        f"Summary number {i} says what the text has to say in a few words: {t[:20]}" for i, t in enumerate((A, B, C, D))
    ]
    for text, reply in zip((A, B, C, D), first, strict=True):
        steps.model(root, f"Summarize: {text}", reply)
    second = [
        "The first half of the texts is about warranty and about returns.",
        "The second half of the texts is about support and batteries.",
    ]
    steps.model(root, "Merge:\n" + "\n".join(first[:2]), second[0])
    steps.model(root, "Merge:\n" + "\n".join(first[2:]), second[1])
    steps.model(root, "\n".join(second) + "\n" + QUESTION, ANSWER)
    return steps.request()


@case(Expected((A, B)))
def agent_with_three_tools() -> Request:
    """A calculator and a calendar return texts, and one tool returns documents."""
    steps, root = _start()
    user = Message("user", QUESTION)
    call = Message("assistant", "", calls_tool=True)
    steps.model(root, [user], None, calls_tool=True)
    steps.add("tool", within=root, name="calculator", query="2*365", outputs="730")
    steps.add("tool", within=root, name="today", outputs="2024-05-01")
    tool = steps.add("tool", within=root, name="search", query="warranty", outputs=f"{A}\n\n{B}")
    steps.retrieval(tool, A, B, query="warranty")
    results = [
        Message("tool", "730", tool="calculator"),
        Message("tool", "2024-05-01", tool="today"),
        Message("tool", f"{A}\n\n{B}", tool="search"),
    ]
    steps.model(root, [user, call, *results], ANSWER)
    return steps.request()


@case(Expected((A,)))
def self_consistency_by_voting() -> Request:
    """Three drafts from the same prompt, of which the majority is returned by a function."""
    steps, root = _start()
    steps.retrieval(root, A, B)
    for reply in (ANSWER, "The warranty lasts three years and covers only parts.", ANSWER):
        steps.model(root, prompt(A), reply)
    return steps.request()


@case(Expected((B, A)))
def drafts_with_different_passages_and_a_judge() -> Request:
    """A judge picks a draft by its number: only the passages of that draft wrote the answer."""
    steps, root = _start()
    steps.retrieval(root, A, B, C, D)
    other = "The support line answers questions on the warranty on weekdays."
    steps.model(root, prompt(B, A), ANSWER)
    steps.model(root, prompt(C, D), other)
    steps.model(root, f"Which answer is better?\n1: {ANSWER}\n2: {other}", "1")
    return steps.request()


@case(Expected((A,)))
def guards_before_and_after() -> Request:
    """Both guards answer "safe"."""
    steps, root = _start()
    steps.model(root, f"Is this safe? {QUESTION}", "safe")
    steps.retrieval(root, A, B)
    steps.model(root, prompt(A), ANSWER)
    steps.model(root, f"Is this safe? {ANSWER}", "safe")
    return steps.request()


@case(Expected((A,)))
def hypothetical_document() -> Request:
    """HyDE: a model writes a document that is the query of the search, and does not stand in the prompt."""
    steps, root = _start()
    document = "The warranty of a pump usually lasts for two or three years and covers all of its parts."
    steps.model(root, f"Write a passage that answers: {QUESTION}", document)
    steps.retrieval(root, A, B, query=document)
    steps.model(root, prompt(A), ANSWER)
    return steps.request()


@case(Expected((B, A)))
def query_rewriting_that_equals_a_passage() -> Request:
    """The rewritten query is a title that was found as a passage, and in the prompt as such."""
    steps, root = _start()
    steps.model(root, f"Rewrite: {QUESTION}", B)
    steps.retrieval(root, B, A, query=B)
    steps.model(root, prompt(B, A), ANSWER)
    return steps.request()


@case(Expected(None, doubts=("no_model_wrote_it",)))
def answer_from_a_cache() -> Request:
    """The answer comes from a cache after the search, and a model only wrote a title."""
    steps, root = _start()
    steps.retrieval(root, A, B)
    steps.model(root, f"Write a title for: {QUESTION}", "Warranty")
    return steps.request()


@case(Expected((A,)))
def fallback_model_after_an_error() -> Request:
    """The same prompt goes to a second model."""
    steps, root = _start()
    steps.retrieval(root, A, B)
    steps.model(root, prompt(A, B), None, error="RateLimitError: 429")
    steps.model(root, prompt(A), ANSWER)
    return steps.request()


@case(Expected((A,)))
def two_requests_interleaved() -> Request:
    """Steps of another request began in between; they are not within the root."""
    steps, root = _start()
    other = steps.chain(inputs={"question": "And returns?"}, outputs={"answer": "Within thirty days, unused."})
    steps.retrieval(root, A, C)
    steps.retrieval(other, B, D, query="And returns?")
    steps.model(root, prompt(A), ANSWER)
    steps.model(other, prompt(B), "Within thirty days, unused.")
    request = steps.request()
    inside = {root.id}
    return replace_steps(request, [step for step in steps.steps if step.id in inside or step.parent in inside])


def replace_steps(request: Request, steps: list[Step]) -> Request:
    """Return the request with these steps."""
    return replace(request, steps=steps)


@case(Expected((A,)))
def history_with_an_earlier_answer() -> Request:
    """The history has an earlier answer of the assistant, which quotes nothing that was found now."""
    steps, root = _start()
    steps.retrieval(root, A, B)
    history = [
        Message("user", "And returns?"),
        Message("assistant", "Within thirty days, if unused."),
        Message("user", prompt(A)),
    ]
    steps.model(root, history, ANSWER)
    return steps.request()


@case(Expected((B, A)))
def history_with_an_earlier_prompt() -> Request:
    """The earlier prompt with its passages is still in the messages, and one was found again: the model saw it."""
    steps, root = _start()
    steps.retrieval(root, A, B)
    history = [
        Message("user", prompt(B, question="And returns?")),
        Message("assistant", "Thirty days."),
        Message("user", prompt(A)),
    ]
    steps.model(root, history, ANSWER)
    return steps.request()


_JSON_ANSWER = json.dumps({"answer": ANSWER, "confidence": 0.9, "citations": ["a.pdf"]})


@case(Expected((A,)))
def structured_output_as_an_object() -> Request:
    """The root returns the parsed object, and the model wrote JSON with other spaces."""
    steps = Steps()
    root = steps.chain(
        inputs={"question": QUESTION}, outputs={"answer": ANSWER, "confidence": 0.9, "citations": ["a.pdf"]}
    )
    steps.retrieval(root, A, B)
    steps.model(root, prompt(A), json.dumps({"answer": ANSWER, "confidence": 0.9, "citations": ["a.pdf"]}, indent=2))
    return steps.request()


@case(Expected((A,)))
def answer_as_arguments_of_a_function_call() -> Request:
    """The final answer is the argument of a tool that is called, as with `final_answer` of agents."""
    steps, root = _start()
    steps.retrieval(root, A, B)
    steps.model(root, prompt(A), json.dumps({"answer": ANSWER}), calls_tool=True)
    return steps.request()


@case(Expected((A,)))
def streamed_with_an_empty_root() -> Request:
    """The application did not collect the stream, and a title was written afterwards."""
    steps = Steps()
    root = steps.chain(inputs={"question": QUESTION}, outputs={"answer": ""})
    steps.retrieval(root, A, B)
    steps.model(root, prompt(A), ANSWER)
    steps.model(root, f"Write a title for this conversation: {QUESTION}", "Warranty")
    return steps.request()


@case(Expected(("A photo of the pump with its seal marked in red.", A)))
def images_with_captions() -> Request:
    """An image counts by its caption, and one without a caption by nothing."""
    steps, root = _start()
    image = PassageDraft(text="A photo of the pump with its seal marked in red.", id="img-1")
    steps.add(
        "retrieval", within=root, query=QUESTION, passages=[image, PassageDraft(text="", id="img-2"), *passages(A)]
    )
    steps.model(root, [Message("user", prompt(image.text, A))], ANSWER)
    return steps.request()


ZH = "水泵的保修期为自购买之日起两年，包括零件和人工费用，但不包括电池。"
ZH2 = "如果设备未使用且保持原包装，可在三十天内退货，运费由买方承担。"
JA = "ポンプの保証は、購入日から二年間、部品と工賃を対象とします。電池は対象外です。"
TH = "การรับประกันปั๊มครอบคลุมอะไหล่และค่าแรงเป็นเวลาสองปีนับจากวันที่ซื้อ"
AR = "يغطي ضمان المضخة قطع الغيار والعمالة لمدة عامين من تاريخ الشراء."
HI = "पंप की वारंटी खरीद की तारीख से दो साल तक पुर्जों और श्रम को कवर करती है।"
KO = "펌프의 보증은 구입일로부터 2년 동안 부품과 인건비를 포함합니다."


@case(Expected((ZH,)))
def chinese() -> Request:
    """No spaces, and full-width punctuation next to the passage."""
    return _one(f"请根据资料回答。资料：{ZH}问题：保修多久？", ZH, ZH2)


@case(Expected(((ZH + ZH2 + JA)[:90],)))
def chinese_cut() -> Request:
    """A long Chinese passage is cut in the middle of a sentence: 80 characters are evidence."""
    return _one("资料：" + (ZH + ZH2 + JA)[:90], ZH + ZH2 + JA + ZH, B)


@case(Expected(((ZH + ZH2)[:60],)))
def chinese_cut_to_little() -> Request:
    """32 characters of the beginning of a passage are evidence, in any script."""
    return _one("资料：" + (ZH + ZH2)[:60], ZH + ZH2 + JA, B)


@case(Expected((JA, TH, AR, HI, KO)))
def other_scripts() -> Request:
    """Passages of several scripts, as JSON with escapes."""
    return _one(json.dumps([JA, TH, AR, HI, KO]), JA, TH, AR, HI, KO, B)


_EMOJI = "The pump 🚰 has a warranty 👩‍🔧 of two years 🎉 after the date of purchase ✅."


@case(Expected((_EMOJI,)))
def emoji_in_escaped_json() -> Request:
    """Characters outside the basic plane are two escapes."""
    return _one(json.dumps({"context": _EMOJI}), _EMOJI, B)


@case(Expected(("Die Garantie gilt für Café-Pumpen zwei Jahre ab dem Kauf der Pumpe.",)))
def composed_and_decomposed_letters() -> Request:
    """One side has letters with combining accents."""
    text = "Die Garantie gilt für Café-Pumpen zwei Jahre ab dem Kauf der Pumpe."
    return _one(prompt(unicodedata.normalize("NFD", text)), text, B)


@case(Expected(("\ufeffThe warranty doesn’t cover bat\u00adteries, and\u200b it lasts for two years.",)))
def invisible_characters() -> Request:
    """A template removes zero-width spaces, soft hyphens and the byte order mark."""
    text = "The warranty doesn’t cover batteries, and it lasts for two years."
    return _one(
        prompt(text), "\ufeff" + text.replace("batteries", "bat\u00adteries").replace("and it", "and\u200b it"), B
    )


@case(Expected((A,), "الضمان سنتان ويشمل قطع الغيار والعمالة.", "ما مدة الضمان؟"))
def translated_question_and_answer() -> Request:
    """The question is translated, answered in English, and the answer translated back."""
    arabic, english = "ما مدة الضمان؟", "How long is the warranty of the pump?"
    steps = Steps()
    root = steps.chain(inputs={"question": arabic}, outputs={"answer": "الضمان سنتان ويشمل قطع الغيار والعمالة."})
    steps.model(root, f"Translate to English: {arabic}", english)
    steps.retrieval(root, A, B, query=english)
    steps.model(root, prompt(A, question=english), ANSWER)
    steps.model(root, f"Translate to Arabic: {ANSWER}", "الضمان سنتان ويشمل قطع الغيار والعمالة.")
    return steps.request()


@case(Expected(None, doubts=("not_in_prompt",)))
def passages_translated_in_a_function() -> Request:
    """The prompt has translations of the passages, which no step shows."""
    return _one(prompt("Die Garantie der Pumpe gilt zwei Jahre für Teile und Arbeit."), A, B)


def _noted(first: str, shown: str, second: str = B, question: str = QUESTION) -> Request:
    """A reply about one passage, and a prompt that shows something of it with another passage of the search."""
    steps, root = _start(question=question)
    steps.retrieval(root, A, second)
    steps.model(root, f"What matters here?\n{A}", first)
    steps.model(root, f"{shown}\n{second}\n{question}", ANSWER)
    return steps.request()


@case(Expected((B,), doubts=("short_reply",)))
def short_reply_in_a_line() -> Request:
    """A few words stand by themselves in the last prompt."""
    return _noted("two years", "Notes: two years")


@case(Expected((A, B)))
def reply_of_some_words_in_a_line() -> Request:
    """20 characters that stand by themselves are not a coincidence."""
    return _noted("two years for parts and labor", "Notes: two years for parts and labor")


@case(Expected((B,), doubts=("short_reply",)))
def short_reply_in_a_sentence_that_its_passage_contains() -> Request:
    """A name that a call took from its passage may be used inside of a sentence."""
    return _noted("two years", "Keep in mind that two years have passed.")


@case(Expected((B,)))
def word_of_a_grader_in_a_sentence() -> Request:
    """A word that neither stands by itself nor is from the passage is a coincidence."""
    return _noted("no", "If there is no answer, say so.")


@case(Expected((B,), query="Is there a warranty: yes, no?"))
def word_of_a_grader_in_the_question() -> Request:
    """The question is not what a call replied."""
    return _noted("no", "Read.", question="Is there a warranty: yes, no?")


_DENIED = "The table of the manual says for batteries, seals and all other parts that wear: no, never, not once."


@case(Expected((_DENIED,)))
def word_of_a_grader_in_a_passage() -> Request:
    """A passage of the prompt is not what a call replied either."""
    return _noted("no", "Read.", second=_DENIED)


_TWO_YEARS = "The guarantee of the hose lasts two years as well, and covers leaks, but not the wear of its seals."


@case(Expected((_TWO_YEARS,)))
def short_reply_in_a_sentence_of_another_passage() -> Request:
    """The same words inside of a passage of the prompt are not what a call replied."""
    return _noted("two years", "Read.", second=_TWO_YEARS)


@case(Expected((B,), query="Is it true that two years are covered?"))
def short_reply_in_a_sentence_of_the_question() -> Request:
    """The same words inside of the question are not what a call replied."""
    return _noted("two years", "Read.", question="Is it true that two years are covered?")


@case(Expected((A, B)))
def short_reply_of_a_call_whose_passages_are_shown() -> Request:
    """The last prompt shows the passage of the reply as well."""
    return _noted("two years", f"Notes: two years\n{A}")


@case(Expected((B,)))
def word_of_a_grader_in_an_earlier_answer() -> Request:
    """The assistant said the same word in an earlier turn."""
    steps, root = _start()
    steps.retrieval(root, A, B)
    steps.model(root, f"Is this relevant?\n{A}", "no")
    turns = [Message("user", "Is it blue?"), Message("assistant", "no"), Message("user", f"{B}\n{QUESTION}")]
    steps.model(root, turns, ANSWER)
    return steps.request()


@case(Expected((A,), ANSWER))
def agent_whose_messages_end_with_its_answer() -> Request:
    """The message of a tool is the answer only if it is the last one, and a message of the user is not."""
    steps = Steps()
    messages = [("user", QUESTION), ("ai", ""), ("tool", A), ("user", "Go on.")]
    outputs = [
        {"role": role, "content": text, "tool_calls": [{"id": "1"}] if role == "ai" else []} for role, text in messages
    ]
    root = steps.chain(inputs={"question": QUESTION}, outputs={"messages": outputs})
    steps.retrieval(root, A)
    steps.model(root, prompt(A), ANSWER)
    return steps.request()


def _rewritten(outputs: object) -> Request:
    """A model rewrites the question, and what is found for it is not in a prompt."""
    steps = Steps()
    root = steps.chain(inputs={"question": QUESTION}, outputs=outputs)
    steps.model(root, f"Rewrite: {QUESTION}", "length of the warranty for parts")
    steps.retrieval(root, A, B, query="length of the warranty for parts")
    return steps.request()


DOCUMENTS = [{"page_content": A}, {"page_content": B}]


@case(Expected((A, B), response=None))
def documents_alone() -> Request:
    """A chain rewrites the question and returns the documents: the query of the search is not an answer."""
    return _rewritten(DOCUMENTS)


@case(Expected((A, B), response=None))
def documents_and_the_query_of_the_search() -> Request:
    """A graph returns its state, without an answer."""
    state = {"question": QUESTION, "query": "length of the warranty for parts", "documents": DOCUMENTS}
    return _rewritten(state)


@case(Expected((), response=None))
def grader_that_drops_the_only_document() -> Request:
    """The graph ends without an answer, and returns an empty list of documents."""
    steps = Steps()
    root = steps.chain(inputs={"question": QUESTION}, outputs={"question": QUESTION, "documents": []})
    steps.retrieval(root, A)
    steps.model(root, prompt(A), "no")
    return steps.request()


@case(Expected((A,), response=None))
def guard_that_ends_without_a_message() -> Request:
    """What a guard says about the passages is not an answer: the conversation ends with the user's message."""
    steps = Steps()
    messages = [{"role": role, "content": text} for role, text in (("user", "Hi."), ("ai", "Hi."), ("user", QUESTION))]
    root = steps.chain(inputs={"messages": messages}, outputs={"messages": messages})
    steps.retrieval(root, A)
    steps.model(root, prompt(A), "UNSAFE: the passages contain medical advice.")
    return steps.request()


@case(Expected((A, B), response=None))
def retriever_alone_that_writes_queries() -> Request:
    """The queries that a model writes inside a retriever are not an answer, if the retriever is the request as well."""
    steps = Steps()
    root = steps.retrieval(None, A, B)
    steps.model(root, f"Write queries: {QUESTION}", "length of the warranty\nwarranty for parts")
    return steps.request()


@case(Expected(None, doubts=("not_in_prompt",)))
def answer_that_is_written_as_a_document() -> Request:
    """A list of what a model wrote is not a list of documents that were found."""
    steps = Steps()
    root = steps.chain(inputs={"question": QUESTION}, outputs={"results": [{"text": ANSWER, "score": 0.5}]})
    steps.retrieval(root, A)
    steps.model(root, QUESTION, ANSWER)
    return steps.request()


@case(Expected((A,), response=ANSWER))
def guard_with_rules_of_another_search() -> Request:
    """The guard gives the answer back, and its rules are not contexts."""
    steps, root = _start()
    steps.retrieval(root, A)
    steps.model(root, prompt(A), ANSWER)
    steps.retrieval(root, B, query="rules")
    steps.model(root, f"Rules: {B}\nText: {ANSWER}", ANSWER)
    return steps.request()


@case(Expected((A, B)))
def second_page_of_the_same_search_keeps_the_draft() -> Request:
    """A call that gives the draft back has read another passage of the search."""
    steps, root = _start()
    steps.retrieval(root, A, B)
    steps.model(root, prompt(A), ANSWER)
    steps.model(root, f"Refine with {B}\nText: {ANSWER}", ANSWER)
    return steps.request()


@case(Expected((B, A[:40])))
def beginning_of_a_passage() -> Request:
    """32 characters of the beginning are a piece."""
    return _one(prompt(B, A[:40] + "..."), A, B)


@case(Expected((B,)))
def less_than_the_beginning_of_a_passage() -> Request:
    """A shorter beginning is a coincidence."""
    return _one(prompt(B, A[:28] + "..."), A, B)


@case(Expected(None, doubts=("not_in_prompt",)))
def characters_in_front_of_each_line() -> Request:
    """A passage of two short lines is quoted with "> " in front of each line: no rule covers that."""
    first, second = A[:40], A[41:]
    return _one(prompt(f"> {first}\n> {second}"), f"{first}\n{second}", B)


@case(Expected((A,), response=f"**{ANSWER}**"))
def answer_formatted_by_the_application() -> Request:
    """The application adds markup around the reply."""
    steps, root = _start(f"**{ANSWER}**")
    steps.retrieval(root, A, B)
    steps.model(root, prompt(A), ANSWER)
    return steps.request()


@case(Expected((A,), response=ANSWER))
def thoughts_are_removed() -> Request:
    """A model that thinks writes its thoughts first; the application removes them."""
    steps, root = _start()
    steps.retrieval(root, A, B)
    steps.model(root, prompt(A), f"<think>The user wants to know about the warranty. {A}</think>\n\n{ANSWER}")
    return steps.request()


@case(Expected((A,), response="2 years"))
def short_answer_cut_out_of_a_sentence() -> Request:
    """A parser returns two words of the reply."""
    steps, root = _start("2 years")
    steps.retrieval(root, A, B)
    steps.model(root, prompt(A), "Final answer: 2 years")
    return steps.request()


@case(Expected((A, B)))
def follow_up_suggestions_with_passages() -> Request:
    """After the answer a model suggests questions from other passages."""
    steps = Steps()
    root = steps.chain(inputs={"question": QUESTION}, outputs={"answer": ANSWER, "suggestions": ["And batteries?"]})
    steps.retrieval(root, A, B, C, D)
    steps.model(root, prompt(A, B), ANSWER)
    steps.model(root, f"Suggest questions from:\n{C}\n{D}\nAnswer: {ANSWER}", "And batteries?")
    return steps.request()


@case(Expected((A,)))
def grader_in_parallel_with_the_same_passages() -> Request:
    """Each passage is graded, and the graders' prompts contain the others."""
    steps, root = _start()
    steps.retrieval(root, A, B)
    for text in (A, B):
        steps.model(root, f"Is it relevant to {QUESTION}?\n{text}", json.dumps({"score": "yes" if text == A else "no"}))
    steps.model(root, prompt(A), ANSWER)
    steps.model(root, f"Is it grounded? {A} {ANSWER}", json.dumps({"score": "yes"}))
    return steps.request()


_MANUAL = "\n\n".join(
    f"Section {i}. The {part} of the pump is described here, with its size, its price and the tools that are needed."
    for i, part in enumerate(
        ("seal", "hose", "valve", "motor", "filter", "handle", "cable", "cover", "wheel", "base") * 5
    )
)


@case(Expected((A, _MANUAL[:600].replace("\n\n", " "))))
def long_passage_cut_and_a_whole_short_one() -> Request:
    """Each passage is cut to 600 characters, which is a tenth of the long one."""
    return _one(prompt(A, _MANUAL[:600]), _MANUAL, A)


@case(Expected((ZH, ZH2)))
def map_reduce_in_chinese() -> Request:
    """Summaries of twenty characters say as much as sixty Latin ones."""
    steps, root = _start()
    steps.retrieval(root, ZH, ZH2)
    replies = ["水泵的零件和人工费用保修两年，电池除外。", "未使用且原包装的设备可在三十天内退货。"]
    for text, reply in zip((ZH, ZH2), replies, strict=True):
        steps.model(root, f"请总结：{text}", reply)
    steps.model(root, "合并：" + "\n".join(replies), ANSWER)
    return steps.request()


@case(Expected((A, B), response=A))
def extractive_answer_without_a_model() -> Request:
    """The best passage is the answer, and no model was called."""
    steps, root = _start(A)
    steps.retrieval(root, A, B)
    return steps.request()


@case(Expected((A,)))
def output_with_blocks_of_content() -> Request:
    """The last message has its text in blocks, after thoughts."""
    steps = Steps()
    blocks = [{"type": "thinking", "thinking": "The user asks."}, {"type": "text", "text": ANSWER}]
    messages = [{"role": "user", "content": QUESTION}, {"role": "assistant", "content": blocks}]
    root = steps.chain(inputs={"messages": messages[:1]}, outputs={"messages": messages})
    steps.retrieval(root, A, B)
    steps.model(root, prompt(A), ANSWER)
    return steps.request()


@case(Expected((A,)))
def answer_and_sources_as_a_pair() -> Request:
    """A function returns the answer and its sources."""
    steps = Steps()
    root = steps.chain(inputs={"args": [QUESTION]}, outputs=[ANSWER, ["manual.pdf", "policy.pdf"]])
    steps.retrieval(root, A, B)
    steps.model(root, prompt(A), ANSWER)
    return steps.request()


@case(Expected((A,)))
def prefix_of_the_embedding_model() -> Request:
    """The index holds "passage: ", and the prompt does not."""
    return _one(prompt(A), f"passage: {A}", f"passage: {B}")


@case(Expected(("Paris", "Lyon", "Nice")))
def list_of_names() -> Request:
    """Short passages in a list are near each other."""
    return _one(prompt("- Paris\n- Lyon\n- Nice"), "Paris", "Lyon", "Nice", "Marseille")


@case(Expected((A,)))
def frequent_question_whose_answer_is_metadata() -> Request:
    """The index holds questions; the prompt has the answer, which is a text of the passage's metadata."""
    steps, root = _start()
    found = PassageDraft(text=QUESTION, id="faq-1", metadata={"answer": A})
    steps.add("retrieval", within=root, query=QUESTION, passages=[found])
    steps.model(root, prompt(A), ANSWER)
    return steps.request()


@case(Expected((A,)))
def invalid_json_is_asked_again() -> Request:
    """The reply is not valid, and the second prompt quotes it with the error."""
    steps, root = _start()
    steps.retrieval(root, A, B)
    broken = '{"answer": "The warranty lasts two years'
    steps.model(root, prompt(A), broken)
    steps.model(root, f"{prompt(A)}\nThis is not valid JSON: {broken}\nWrite it again.", json.dumps({"answer": ANSWER}))
    return steps.request()


@case(Expected((A, B)))
def verifier_that_corrects_the_draft() -> Request:
    """A verifier sees the draft and one more passage, and writes the final answer."""
    steps, root = _start()
    steps.retrieval(root, A, B, C)
    draft = "The warranty lasts for three years and covers parts and labor and batteries."
    steps.model(root, prompt(A), draft)
    steps.model(root, f"Correct this draft.\nSource: {B}\nDraft: {draft}", ANSWER)
    return steps.request()


@case(Expected((A,), response="Hello Ann! " + ANSWER + " Anything else?"))
def greeting_around_the_reply() -> Request:
    """The application adds a greeting and a closing sentence."""
    steps, root = _start("Hello Ann! " + ANSWER + " Anything else?")
    steps.retrieval(root, A, B)
    steps.model(root, prompt(A), ANSWER)
    return steps.request()


_REDACTED = "The warranty for [NAME] lasts two years and covers parts and labor of the pump. Call us on [PHONE]."


@case(Expected((A,), response=_REDACTED))
def names_redacted_in_the_answer() -> Request:
    """The application takes names out of the reply; a large piece of it is left."""
    steps, root = _start(_REDACTED)
    steps.retrieval(root, A, B)
    steps.model(root, prompt(A), _REDACTED.replace("[NAME]", "Ann").replace("[PHONE]", "555-0100"))
    return steps.request()


@case(Expected(None, response="[NAME] has two years, so until [DATE].", doubts=("no_model_wrote_it",)))
def short_answer_with_redacted_names() -> Request:
    """No piece of 40 characters is left, so that the answer could be from anywhere."""
    steps, root = _start("[NAME] has two years, so until [DATE].")
    steps.retrieval(root, A, B)
    steps.model(root, prompt(A), "Ann has two years, so until 1 May.")
    return steps.request()


@case(Expected((A, C)))
def same_passage_from_several_queries() -> Request:
    """Multi-query: three searches with two passages each, fused inside a function."""
    steps, root = _start()
    for query, texts in (("q1", (A, B)), ("q2", (C, A)), ("q3", (A, D))):
        steps.retrieval(root, *texts, query=query)
    steps.model(root, prompt(A, C), ANSWER)
    return steps.request()


@case(Expected((f"Title: Warranty\n{A}",)))
def reranker_that_changes_the_text() -> Request:
    """A step puts the title in front: the changed text is what the model saw."""
    steps, root = _start()
    steps.retrieval(root, A, B)
    steps.add("transform", within=root, input_texts=[A, B], passages=passages(f"Title: Warranty\n{A}"))
    steps.model(root, prompt(f"Title: Warranty\n{A}"), ANSWER)
    return steps.request()


@case(Expected((A,)))
def passage_split_over_two_messages() -> Request:
    """Long contexts are sent in several messages."""
    steps, root = _start()
    steps.retrieval(root, A, B)
    cut = A.index(" parts")
    steps.model(root, [Message("system", A[:cut]), Message("user", A[cut:]), Message("user", QUESTION)], ANSWER)
    return steps.request()


@case(Expected((A, A + " It does not cover batteries.")))
def short_version_and_the_long_one() -> Request:
    """A passage that begins another one stands in the prompt on its own as well."""
    return _one(prompt(A, A + " It does not cover batteries."), A + " It does not cover batteries.", A)


@case(Expected((A,), query="   "))
def blank_question() -> Request:
    """A user sends spaces: the query is kept as it was asked, and does not hide passages."""
    return _one(prompt(A, question="   "), A, B, question="   ")


@case(Expected((A,)))
def system_message_repeats_the_question() -> Request:
    """Two user messages: the question, and an instruction that the application adds."""
    steps, root = _start()
    steps.retrieval(root, A, B)
    steps.model(
        root,
        [Message("system", f"Task: {QUESTION}"), Message("user", prompt(A)), Message("user", "Answer in JSON.")],
        ANSWER,
    )
    return steps.request()


@case(Expected((A,)))
def handoff_between_agents() -> Request:
    """A triage agent hands over; the specialist retrieves and answers, and the root returns its message."""
    steps = Steps()
    root = steps.add(
        "agent", inputs={"messages": [{"role": "user", "content": QUESTION}]}, outputs={"final_output": ANSWER}
    )
    triage = steps.add("agent", within=root, name="triage")
    steps.model(triage, QUESTION, None, calls_tool=True)
    steps.add("tool", within=triage, name="transfer_to_warranty", outputs="Transferred to warranty")
    expert = steps.add("agent", within=root, name="warranty")
    steps.retrieval(expert, A, B)
    steps.model(expert, prompt(A), ANSWER)
    return steps.request()


@case(Expected((A,)))
def speculative_second_search() -> Request:
    """A second search runs while the model answers, for a follow-up."""
    steps, root = _start()
    steps.retrieval(root, A)
    steps.model(root, prompt(A), ANSWER)
    steps.retrieval(root, C, D, query="follow-up")
    return steps.request()


@case(Expected((A,), response="Yes."))
def yes_of_a_grader_and_of_the_answer() -> Request:
    """Grader and answer say "Yes." with the same passage."""
    steps, root = _start("Yes.")
    steps.retrieval(root, A, B)
    steps.model(root, f"Is it relevant? {A}", "Yes.")
    steps.model(root, prompt(A), "Yes.")
    return steps.request()


@case(Expected((A,), response="Zwei Jahre."))
def memory_of_answers_in_the_prompt() -> Request:
    """The prompt has an earlier answer that equals the new one."""
    steps, root = _start("Zwei Jahre.")
    steps.retrieval(root, A, B)
    history = [Message("user", "Wie lange?"), Message("assistant", "Zwei Jahre."), Message("user", prompt(A))]
    steps.model(root, history, "Zwei Jahre.")
    return steps.request()


@case(Expected(None, doubts=("not_in_prompt",)))
def passages_in_upper_case() -> Request:
    """Case counts: a prompt in upper case does not contain the passage."""
    return _one(prompt(A.upper()), A, B)


@case(Expected((f"{A}\r\n{B}",)))
def line_ends_of_windows_and_tabs() -> Request:
    """Line ends, tabs and no-break spaces are whitespace."""
    return _one(prompt(f"{A}\n\t{B}".replace(" pump", "\u00a0pump")), f"{A}\r\n{B}", C)


def _kept(shown: str, text: str, **metadata: object) -> Request:
    """One passage with texts in its metadata, and a prompt."""
    steps, root = _start()
    steps.add("retrieval", within=root, query=QUESTION, passages=[PassageDraft(text=text, id="p", metadata=metadata)])
    steps.model(root, shown, ANSWER)
    return steps.request()


@case(Expected((f"{B} {A} {C}",)))
def window_around_a_sentence_is_metadata() -> Request:
    """A sentence is indexed, and the prompt has the sentences around it too."""
    return _kept(prompt(f"{B} {A} {C}"), A, window=f"{B} {A} {C}", page=4)


@case(Expected((A,)))
def window_that_the_prompt_does_not_have() -> Request:
    """The metadata has a window, and the prompt has the sentence alone."""
    return _kept(prompt(A), A, window=f"{B} {A} {C}")


@case(Expected((A,)))
def summary_beside_the_passage() -> Request:
    """The prompt has the passage, and its summary from the metadata as a heading: the passage was found, the summary not."""
    return _kept(prompt(C, A), A, summary=C)


@case(Expected((A,)))
def text_of_the_metadata_that_was_cut() -> Request:
    """A summary is indexed, and the prompt has the beginning of the text from the metadata."""
    return _kept(prompt(A), "Warranty of pumps, parts and labor.", body=f"{A} {B}")


@case(Expected(None, doubts=("not_in_prompt",)))
def title_of_a_passage_that_is_not_shown() -> Request:
    """A short text of the metadata stands in a prompt by coincidence."""
    return _kept(prompt("See the manual of the pump."), A, title="the manual of the pump", source="pump.md")


@case(Expected((A, B)))
def documents_of_an_earlier_turn_in_the_state() -> Request:
    """A step is given documents that this request did not find, and the prompt has one of them."""
    steps, root = _start()
    steps.retrieval(root, A)
    steps.chain(root, input_texts=frozenset((A, B, C)))
    steps.model(root, prompt(A, B), ANSWER)
    return steps.request()


@case(Expected((A,)))
def document_that_was_split_and_searched() -> Request:
    """A step is given a whole document, of which the prompt has one piece, which was found."""
    steps, root = _start()
    steps.chain(root, input_texts=frozenset((f"{A} {B} {C} {D}",)))
    steps.retrieval(root, A, D)
    steps.model(root, prompt(f"{A} {B}"), ANSWER)
    return steps.request()


def _next_to_a_retrieval(outputs: Any, shown: str, *, found: bool = True, **fields: Any) -> Request:
    """A tool of unknown kind returns plain texts, next to a retrieval or without one."""
    steps, root = _start()
    if found:
        steps.retrieval(root, A)
    steps.add("tool", within=root, name="search", outputs=outputs)
    steps.model(
        root, [Message("user", prompt(A) if found else QUESTION), Message("tool", shown, tool="search")], ANSWER
    )
    return steps.request(**fields)


PLAIN_TEXTS = {
    "a text": f"{B}\n{C}",
    "a list of texts": [B, C],
    "a list of one text": [f"{B}\n{C}"],
    "blocks": [{"type": "text", "text": text} for text in (B, C)],
    "one block": [{"type": "text", "text": f"{B}\n{C}"}],
    "objects with nothing but a text": [{"content": B}, {"content": C}],
    "a list under a name that says nothing": {"items": [B, C]},
    "a list as JSON": json.dumps([B, C]),
    "a list of short texts": [
        "The pump is for ponds.",
        "The customer is vegan.",
        "The shop is closed.",
        "Ask for both of them.",
    ],
}


@pytest.mark.parametrize("form", PLAIN_TEXTS)
@pytest.mark.parametrize("is_found", [True, False])
def test_plain_texts_of_a_tool_are_never_guessed(form: str, is_found: bool) -> None:
    """In each form they put the contexts in doubt, and are not contexts, whether something else was retrieved or not."""
    value = PLAIN_TEXTS[form]
    shown = value if isinstance(value, str) else json.dumps(value)

    draft = assemble(_next_to_a_retrieval(value, shown, found=is_found))

    assert draft.evidence is not None
    assert ("text_tool:search",) == draft.evidence.doubts
    assert ([A] if is_found else None) == (draft.contexts and [passage.text for passage in draft.contexts])


@pytest.mark.parametrize(
    "inputs", [{"query": "pump"}, {"kwargs": {"question": "pump"}}, {"input": "{'query': 'pump'}"}]
)
@pytest.mark.parametrize(
    ("form", "contexts"),
    [
        ("a list of texts", [B, C]),
        ("a list of one text", [f"{B}\n{C}"]),
        ("blocks", [B, C]),
        ("one block", [f"{B}\n{C}"]),
        ("a list as JSON", [B, C]),
        ("a text", None),
    ],
)
@pytest.mark.parametrize("is_found", [True, False])
def test_a_list_with_which_a_tool_answers_a_question(inputs: Any, form: str, contexts: Any, is_found: bool) -> None:
    """It is what was retrieved, if nothing else was. Of one text nothing says how many passages it is."""
    request = _next_to_a_retrieval(PLAIN_TEXTS[form], json.dumps(PLAIN_TEXTS[form]), found=is_found)
    (step,) = (step for step in request.steps if step.kind == "tool")
    step.inputs = harvest(inputs)

    draft = assemble(request)

    expected = [A] if is_found else contexts
    assert draft.evidence is not None
    assert expected == (draft.contexts and [passage.text for passage in draft.contexts])
    assert (("text_tool:search",) if is_found or contexts is None else ()) == draft.evidence.doubts


@pytest.mark.parametrize("form", [name for name in PLAIN_TEXTS if "short" not in name])
@pytest.mark.parametrize(("is_passage", "found"), [(True, {A, B, C}), (False, {A})])
def test_a_declaration_decides_about_plain_texts(form: str, is_passage: bool, found: set[str]) -> None:
    """The tool retrieves, or it does not, without a doubt."""
    value = PLAIN_TEXTS[form]
    shown = value if isinstance(value, str) else json.dumps(value)
    declared = {"search": "\n" if form == "a text" and is_passage else is_passage}

    draft = assemble(_next_to_a_retrieval(value, shown, retriever_tools=declared))

    assert draft.evidence is not None
    assert () == draft.evidence.doubts
    assert found == {part for passage in draft.contexts or () for part in passage.text.split("\n")}


@pytest.mark.parametrize("more", [{"id": "b"}, {"score": 0.7}, {"metadata": {"page": 2}}, {"source": "returns.md"}])
def test_a_text_with_an_id_a_score_or_a_source_is_a_document(more: dict[str, Any]) -> None:
    """Its form shows that it was retrieved, next to another retrieval too."""
    draft = assemble(_next_to_a_retrieval([{"content": B, **more}], json.dumps([{"content": B}])))

    assert draft.evidence is not None
    assert ([A, B], ()) == ([passage.text for passage in draft.contexts or ()], draft.evidence.doubts)


MAIL = "Send the pump with its receipt to anna.smith@pumps.example or call 0171 555 0199 within thirty days, and we refund you."
HIDDEN = MAIL.replace("anna.smith@pumps.example", "[REDACTED_EMAIL]")


def _redacted(shown: str, *, declared: bool = False) -> Request:
    steps, root = _start()
    result: dict[str, Any] = {"outputs": MAIL} if declared else {"passages": passages(MAIL)}
    steps.add("tool", within=root, name="search", query="returns", **result)
    steps.model(root, [Message("user", QUESTION), Message("tool", shown, tool="search")], ANSWER)
    return steps.request(retriever_tools={"search": None} if declared else {})


@case(Expected((HIDDEN,)))
def address_that_a_middleware_redacted() -> Request:
    """The context is what the model read, with the mark of the redaction."""
    return _redacted(HIDDEN)


@case(Expected((HIDDEN.replace("0171 555 0199", "****"),)))
def two_redactions_in_a_passage_of_a_declared_tool() -> Request:
    """Each mark stands for words of the passage."""
    return _redacted(HIDDEN.replace("0171 555 0199", "****"), declared=True)


@case(Expected(None, doubts=("not_in_prompt",)))
def result_of_a_declared_tool_that_was_rewritten() -> Request:
    """The doubt does not name a tool that is declared."""
    return _redacted(
        "Refunds: by mail or phone, for thirty days, with the receipt, and only for the pump.", declared=True
    )


@case(Expected((A,)))
def passage_that_an_earlier_answer_quotes() -> Request:
    """It was retrieved and left out, and only stands in the conversation before the question."""
    steps, root = _start()
    steps.retrieval(root, A, B)
    messages = [Message("user", "And returns?"), Message("assistant", f"So: {B}"), Message("user", prompt(A))]
    steps.model(root, messages, ANSWER)
    return steps.request()


@case(Expected((A, B)))
def passage_that_another_agent_of_the_turn_hands_over() -> Request:
    """After the question, messages of assistants are a part of the work on it."""
    steps, root = _start()
    steps.retrieval(root, A, B)
    messages = [Message("user", QUESTION), Message("assistant", f"{A}\n{B}"), Message("user", "Now answer, please.")]
    steps.model(root, messages, ANSWER)
    return steps.request()


@case(Expected(("two years after the date of purchase", "unused and in its original packaging")))
def passages_that_a_model_compressed_into_documents() -> Request:
    """The extracts are the contexts, as in a retriever that compresses, and not the passages that they were made from."""
    steps, root = _start()
    steps.retrieval(root, A, B)
    extracts = ["two years after the date of purchase", "unused and in its original packaging"]
    for text, extract in zip((A, B), extracts, strict=True):
        steps.model(root, f"Extract what answers the question.\n{text}", extract)
    steps.chain(
        root, input_texts=frozenset((A, B)), outputs={"documents": [{"page_content": text} for text in extracts]}
    )
    steps.model(root, prompt(*extracts), ANSWER)
    return steps.request()


@case(Expected((A, B, C)))
def short_partial_answers_that_are_joined() -> Request:
    """All calls with passages answered in a few words, and the last prompt has the answers next to each other."""
    steps, root = _start()
    steps.retrieval(root, A, B, C)
    replies = ["Two years.", "Thirty days.", "No."]
    for text, reply in zip((A, B, C), replies, strict=True):
        steps.model(root, prompt(text), reply)
    steps.model(root, "Combine.\n" + "\n".join(replies), ANSWER)
    return steps.request()


@case(Expected((A,)))
def graders_whose_words_are_in_the_last_prompt() -> Request:
    """Words of an instruction are not the grades of many passages."""
    steps, root = _start()
    steps.retrieval(root, A, B, C, D)
    for text, reply in zip((A, B, C, D), ["relevant", "irrelevant", "irrelevant", "irrelevant"], strict=True):
        steps.model(root, f"Is this relevant or irrelevant?\n{text}", reply)
    steps.model(root, f"Some texts are relevant or irrelevant.\n{prompt(A)}", ANSWER)
    return steps.request()


@case(Expected((B, A)))
def results_of_tools_that_ran_at_the_same_time() -> Request:
    """Their contexts have the order of the results in the prompt, in whatever order the tools began."""
    steps, root = _start()
    messages = [Message("user", QUESTION)]
    for text, reply in (
        (A, "It is two years, for parts and labor too."),
        (B, "It is thirty days if the pump is unused."),
    ):
        inner = steps.add("tool", within=root, name="ask", query=reply[:9], outputs=reply)
        steps.retrieval(inner, text)
        steps.model(inner, prompt(text), reply)
        messages.insert(1, Message("tool", reply, tool="ask"))
    steps.model(root, messages, ANSWER)
    return steps.request()


EARLY = (
    "Write to anna.smith@pumps.example with the number of your order, and the money is back within five working days."
)


@case(Expected((EARLY.replace("anna.smith@pumps.example", "<email_hash:88f1>"),)))
def address_near_the_beginning_that_was_redacted() -> Request:
    """The words in front of the mark are a part of the context too."""
    steps, root = _start()
    steps.retrieval(root, EARLY)
    steps.model(root, prompt(EARLY.replace("anna.smith@pumps.example", "<email_hash:88f1>")), ANSWER)
    return steps.request()


@case(Expected((A, C), response="Yes"))
def graders_that_say_the_same_word_as_the_answer() -> Request:
    """Whichever of them wrote the word, the last prompt holds all that they read."""
    steps, root = _start(answer="Yes")
    steps.retrieval(root, A, B, C)
    for text, reply in ((A, "Yes"), (B, "No"), (C, "Yes")):
        steps.model(root, f"Does this help? Yes or No.\n{text}", reply)
    steps.model(root, prompt(A, C), "Yes")
    return steps.request()


@case(Expected((A,)))
def file_with_numbered_lines_that_a_model_wrote() -> Request:
    """A tool writes the plan of a model, and another one reads it with the number of each line."""
    plan = ["Look for the period of the warranty first", "Then look for what the warranty does not cover"]
    steps, root = _start()
    steps.add("tool", within=root, name="write", inputs={"path": "plan.md", "content": "\n".join(plan)}, outputs="ok")
    steps.retrieval(root, A)
    shown = "\n".join(f"{place:6d}\t{line}" for place, line in enumerate(plan, 1))
    steps.add("tool", within=root, name="read", inputs={"path": "plan.md"}, outputs=shown)
    steps.model(root, [Message("user", prompt(A)), Message("tool", shown, tool="read")], ANSWER)
    return steps.request()


@pytest.mark.parametrize("name", CASES)
def test_draft_of_a_published_shape(name: str) -> None:
    """Query, contexts, response and doubts are what a careful reader would write."""
    build, expected = CASES[name]
    draft = assemble(build())
    assert draft.evidence is not None
    contexts = draft.contexts
    if contexts is None and draft.retrievals and draft.evidence.contexts != "unknown":
        contexts = [passage for retrieval in draft.retrievals for passage in retrieval.passages]
    found = Expected(
        contexts=None if contexts is None else tuple(passage.text for passage in contexts),
        response=draft.response,
        query=draft.query,
        doubts=draft.evidence.doubts,
    )
    assert found == expected
