"""`assemble`: what was asked, what the model saw and what was answered, in realistic and in adversarial requests."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from ragstone.requests import Message, PassageDraft, Request, Step, assemble, harvest
from ragstone.requests._step import Statements
from request_steps import ANSWER, QUESTION, A, B, C, D, Steps, passages, prompt


@dataclass(frozen=True)
class Expected:
    """What the draft says."""

    contexts: tuple[str, ...] | None
    """Texts; None if they are not known."""
    contexts_rule: str = "in_prompt"
    response: str | None = ANSWER
    response_rule: str = "output"
    query: str | None = QUESTION
    query_rule: str = "input"
    doubts: tuple[str, ...] = ()
    standalone_query: str | None = None


CASES: dict[str, tuple[Callable[[], Request], Expected]] = {}


def case(expected: Expected) -> Callable[[Callable[[], Request]], Callable[[], Request]]:
    """Add a request to the cases."""

    def add(build: Callable[[], Request]) -> Callable[[], Request]:
        CASES[build.__name__] = (build, expected)
        return build

    return add


def _start(answer: object = ANSWER) -> tuple[Steps, Step]:
    steps = Steps()
    return steps, steps.chain(inputs={"question": QUESTION}, outputs={"answer": answer})


@case(Expected((A, B)))
def all_that_was_found_is_in_the_prompt() -> Request:
    """The usual chain."""
    steps, root = _start()
    steps.retrieval(root, A, B)
    steps.model(root, prompt(A, B), ANSWER)
    return steps.request()


@case(Expected((B,), response_rule="reply_in_output"))
def dropped_by_a_function_and_answered_under_an_unknown_name() -> Request:
    """The prompt counts: the model did not see all that was found. The answer is a field that the model filled in."""
    steps = Steps()
    root = steps.chain(inputs={"question": QUESTION}, outputs={"reply": ANSWER, "cites": [1]})
    steps.retrieval(root, A, B, C)
    steps.model(root, prompt(B), json.dumps({"answer": ANSWER, "used": [1]}), calls_tool=True)
    return steps.request()


@case(Expected(None, "unknown", response=None, response_rule="unknown", doubts=("no_answer",)))
def several_prompts_and_no_known_answer() -> Request:
    """Nothing says which of the prompts led to what the request returns."""
    steps = Steps()
    root = steps.chain(inputs={"question": QUESTION}, outputs={"reply": ANSWER, "cites": [1]})
    steps.retrieval(root, A, B, C)
    for text in (A, B):
        steps.model(root, prompt(text), json.dumps({"answer": text}), calls_tool=True)
    return steps.request()


@case(Expected((A, C), "in_output", response=None, response_rule="unknown"))
def documents_graded_and_returned_without_an_answer() -> Request:
    """A request that only retrieves: its documents are what it returns, not what the last grader saw."""
    steps = Steps()
    root = steps.chain(inputs={"question": QUESTION}, outputs={"documents": passages(A, C)})
    steps.retrieval(root, A, B, C)
    for text in (A, B, C):
        steps.model(root, prompt(text), json.dumps({"relevant": text != B}), calls_tool=True)
    return steps.request()


@case(Expected((C, A)))
def reranked_inside_a_function() -> Request:
    """No step shows the order and the number of passages, the prompt does."""
    steps, root = _start()
    steps.retrieval(root, A, B, C, D)
    steps.model(root, prompt(C, A), ANSWER)
    return steps.request()


@case(Expected((A,)))
def documents_in_a_graphs_state_that_a_filter_dropped() -> Request:
    """The state keeps all documents, the prompt has one."""
    steps = Steps()
    root = steps.chain(
        inputs={"question": QUESTION},
        outputs={"question": QUESTION, "documents": [{"page_content": A}, {"page_content": B}], "generation": ANSWER},
    )
    steps.retrieval(root, A, B)
    steps.model(root, f"Is this relevant? {A}", "yes")
    steps.model(root, f"Is this relevant? {B}", "no")
    steps.model(root, prompt(A), ANSWER)
    return steps.request()


@case(Expected((A + " Tom & Jerry's <b>pump</b>",)))
def escaped_as_html() -> Request:
    """A template escapes what it inserts."""
    steps, root = _start()
    steps.retrieval(root, A + " Tom & Jerry's <b>pump</b>", B)
    steps.model(root, prompt(A + " Tom &amp; Jerry&#x27;s &lt;b&gt;pump&lt;/b&gt;"), ANSWER)
    return steps.request()


@case(Expected((f'He said: "{A}"\n\nCafé.',)))
def escaped_as_json_in_json() -> Request:
    """A tool message with JSON in a prompt that is JSON."""
    steps, root = _start()
    steps.retrieval(root, f'He said: "{A}"\n\nCafé.', B)
    inner = json.dumps([{"text": f'He said: "{A}"\n\nCafé.'}])
    steps.model(root, json.dumps({"context": inner}), ANSWER)
    return steps.request()


@case(Expected((B,)))
def wrapped_at_another_width() -> Request:
    """Line breaks and indents in the prompt differ from the passage's."""
    steps, root = _start()
    steps.retrieval(root, A, B)
    steps.model(root, prompt("    " + "\n    ".join(B.split(" "))), ANSWER)
    return steps.request()


@case(Expected(((A + " " + B)[:130].rsplit(" ", 1)[0],), "part_of_prompt"))
def cut_to_the_first_characters() -> Request:
    """The excerpt is the context, under the passage's id."""
    steps, root = _start()
    steps.retrieval(root, f"{A} {B} {C}", D)
    steps.model(root, prompt(f"{A} {B} {C}"[:130]), ANSWER)
    return steps.request()


@case(Expected(None, "unknown", doubts=("not_in_prompt",)))
def cut_to_less_than_evidence() -> Request:
    """Twenty characters of a passage are not evidence."""
    steps, root = _start()
    steps.retrieval(root, f"{A} {B} {C}", D)
    steps.model(root, prompt(A[:20]), ANSWER)
    return steps.request()


@case(Expected((f"{A} {B}",)))
def chunk_within_its_parent() -> Request:
    """A parent document retriever: the child was found, the parent is in the prompt."""
    steps, root = _start()
    outer = steps.retrieval(root, f"{A} {B}")
    steps.retrieval(outer, A, C)
    steps.model(root, prompt(f"{A} {B}"), ANSWER)
    return steps.request()


@case(Expected((f"{A} {B}",)))
def parent_that_stands_in_the_prompt_twice() -> Request:
    """Two children were found, and the prompt has their parent for each of them."""
    steps, root = _start()
    steps.retrieval(root, A, B)
    parent = steps.chain(root, inputs={"documents": passages(A, B)})
    parent.outputs = harvest({"documents": [{"page_content": f"{A} {B}", "id": "parent"}] * 2})
    steps.model(root, prompt(f"{A} {B}", f"{A} {B}"), ANSWER)
    return steps.request()


_PASTED = f"Is this right: {B} Please check."


@case(Expected((A,), query=_PASTED))
def question_quotes_a_passage() -> Request:
    """What the user pasted is not what retrieval contributed."""
    steps = Steps()
    root = steps.chain(inputs=_PASTED, outputs=ANSWER)
    steps.retrieval(root, A, B)
    steps.model(root, prompt(A, question=_PASTED), ANSWER)
    return steps.request()


@case(Expected((A, B)))
def map_reduce() -> Request:
    """Each passage stands in the prompt of a call whose reply stands in the last prompt."""
    steps, root = _start()
    steps.retrieval(root, A, B, C)
    first = "The text says that parts and labor are covered for two years."
    second = "The text says that a device can be returned within thirty days."
    steps.model(root, f"Summarize: {A}", first)
    steps.model(root, f"Summarize: {B}", second)
    steps.model(root, f"Combine these summaries.\n{first}\n{second}\nQuestion: {QUESTION}", ANSWER)
    return steps.request()


@case(Expected((A, B)))
def refine() -> Request:
    """A draft is refined with the next passage."""
    steps, root = _start()
    steps.retrieval(root, A, B)
    draft = "The warranty seems to last for about two years in most cases."
    steps.model(root, prompt(A), draft)
    steps.model(root, f"Refine the answer.\nExisting answer: {draft}\nNew context: {B}", ANSWER)
    return steps.request()


def _refined(answer: str) -> Request:
    """The next passages do not help, so that each call gives the answer back, as LlamaIndex asks for."""
    steps, root = _start(answer)
    steps.retrieval(root, A, B, C)
    steps.model(root, prompt(A), answer)
    for text in (B, C):
        steps.model(root, f"Refine the answer.\nExisting answer: {answer}\nNew context: {text}", answer)
    return steps.request()


@case(Expected((A, B, C)))
def refine_that_keeps_the_answer() -> Request:
    """Each of the calls saw a passage, and any of them could have changed the answer."""
    return _refined(ANSWER)


@case(Expected((A, B, C), response="It lasts for two years."))
def refine_that_keeps_a_short_answer() -> Request:
    """An answer of 23 characters is not quoted by coincidence if the last call gives it back."""
    return _refined("It lasts for two years.")


@case(Expected((A, B, C), response="1: It lasts for two years.\n2: The text does not say.\n3: The text does not say."))
def same_reply_to_several_passages() -> Request:
    """Each passage is answered alone, and two replies are the same text."""
    steps, root = _start("1: It lasts for two years.\n2: The text does not say.\n3: The text does not say.")
    steps.retrieval(root, A, B, C)
    for text, reply in ((A, "It lasts for two years."), (B, "The text does not say."), (C, "The text does not say.")):
        steps.model(root, prompt(text), reply)
    return steps.request()


@case(Expected((A,)))
def draft_thrown_away() -> Request:
    """A draft from other passages, which no later call read, contributes nothing."""
    steps, root = _start()
    steps.retrieval(root, B, C)
    steps.model(root, prompt(B, C), "I could not find anything about the warranty in these texts.")
    steps.retrieval(root, A, D, query="warranty duration of the pump")
    steps.model(root, prompt(A), ANSWER)
    return steps.request()


@case(Expected((A, C)))
def sub_questions() -> Request:
    """Each sub-question is answered from passages of its own."""
    steps, root = _start()
    for text, reply in (
        (A, "Parts and labor are covered by the warranty for two years."),
        (C, "The support line can be called on weekdays from eight to six."),
    ):
        engine = steps.chain(root, inputs={"query": reply[:20] + "?"}, outputs={"response": reply})
        steps.retrieval(engine, text, B, query=reply[:20] + "?")
        steps.model(engine, prompt(text, question=reply[:20] + "?"), reply)
    texts = "\n".join(step.reply or "" for step in steps.steps if step.kind == "model")
    steps.model(root, f"Answer from these answers.\n{texts}\nQuestion: {QUESTION}", ANSWER)
    return steps.request()


@case(Expected((A,), response="Die Garantie gilt zwei Jahre.", doubts=()))
def translated_answer() -> Request:
    """The last call translates what the call before it wrote."""
    steps, root = _start("Die Garantie gilt zwei Jahre.")
    steps.retrieval(root, A, B)
    steps.model(root, prompt(A), ANSWER)
    steps.model(root, f"Translate into German: {ANSWER}", "Die Garantie gilt zwei Jahre.")
    return steps.request()


@case(Expected(None, "unknown", response="I cannot help with that.", doubts=("no_model_wrote_it",)))
def canned_refusal() -> Request:
    """A fixed text replaces the model's answer."""
    steps, root = _start("I cannot help with that.")
    steps.retrieval(root, A, B)
    steps.model(root, prompt(A, B), ANSWER)
    return steps.request()


@case(Expected((A, B)))
def guard_that_repeats_the_answer() -> Request:
    """A guard quotes what it checks, and gives it back."""
    steps, root = _start()
    steps.retrieval(root, A, B)
    steps.model(root, prompt(A, B), ANSWER)
    steps.model(root, f"Repeat this text if it is safe.\nAllowed source: {A}\nText: {ANSWER}", ANSWER)
    return steps.request()


@case(Expected((A,), response_rule="reply_in_output"))
def grader_of_the_answer() -> Request:
    """A verdict is not the answer, and a grader's prompt is not the answer's."""
    steps = Steps()
    root = steps.chain(inputs={"question": QUESTION}, outputs={"draft": ANSWER, "verdict": "grounded"})
    steps.retrieval(root, A, B)
    steps.model(root, prompt(A), ANSWER)
    steps.model(root, f"Is the answer grounded?\nFacts: {A}\n{B}\nAnswer: {ANSWER}", "grounded")
    return steps.request()


@case(Expected((A,), response=f"{ANSWER}\n\nSources: [1] manual.pdf"))
def sources_appended_to_the_reply() -> Request:
    """The reply is a piece of the answer."""
    steps, root = _start(f"{ANSWER}\n\nSources: [1] manual.pdf")
    steps.retrieval(root, A, B)
    steps.model(root, prompt(A), ANSWER)
    return steps.request()


@case(Expected((A,)))
def parser_cuts_out_the_answer() -> Request:
    """The reply is JSON, and the answer is one of its values."""
    steps, root = _start()
    steps.retrieval(root, A, B)
    steps.model(root, prompt(A), json.dumps({"answer": ANSWER, "sources": [1]}))
    return steps.request()


_CITED = "The warranty lasts two years from the date of purchase (manual.pdf), and it covers labor (policy.pdf)."


@case(Expected((A,), response=_CITED))
def citations_rewritten_by_the_application() -> Request:
    """Every marker of a citation becomes a file's name, so no reply is the answer."""
    steps, root = _start(_CITED)
    steps.retrieval(root, A, B)
    steps.model(root, f"Is this about warranty? {B}", "yes")
    steps.model(root, prompt(A), "The warranty lasts two years from the date of purchase [1], and it covers labor [2].")
    return steps.request()


@case(Expected((A,), response="Yes", doubts=("several_answers",)))
def short_answer_of_several_calls() -> Request:
    """Two calls with different contexts said "Yes"."""
    steps, root = _start("Yes")
    steps.retrieval(root, A, B)
    steps.model(root, f"Is this about warranty? {B}", "Yes")
    steps.model(root, prompt(A), "Yes")
    return steps.request()


@case(Expected((A,)))
def short_verdict_is_not_a_predecessor() -> Request:
    """The word "relevant" stands in the last prompt by coincidence."""
    steps, root = _start()
    steps.retrieval(root, A, B)
    steps.model(root, f"Is it relevant? {B}", "relevant")
    steps.model(root, "Use only what is relevant. " + prompt(A), ANSWER)
    return steps.request()


_REWRITTEN = "How many years does the warranty of the pump last for parts and labor?"


@case(Expected((A,), standalone_query=_REWRITTEN))
def rewritten_query_is_not_a_predecessor() -> Request:
    """The rewriter's prompt contains passages of an earlier turn; its reply is a query."""
    steps, root = _start()
    steps.retrieval(root, B, query="history")
    steps.model(root, f"Rewrite the question with this history: {B}", _REWRITTEN)
    steps.retrieval(root, A, C, query=_REWRITTEN)
    steps.model(root, prompt(A, question=_REWRITTEN), ANSWER)
    return steps.request()


@case(Expected(("Lyon",), doubts=("short_passage",)))
def short_passage_by_coincidence() -> Request:
    """The name "Lyon" stands in the system prompt."""
    steps, root = _start()
    steps.retrieval(root, "Lyon", A)
    steps.model(root, "You are the assistant of the town hall of Lyon. " + QUESTION, ANSWER)
    return steps.request()


@case(Expected(("Paris is the capital of France.",)))
def short_sentence() -> Request:
    """A sentence of fewer than 32 characters does not stand in a prompt by coincidence."""
    steps, root = _start()
    steps.retrieval(root, "Paris is the capital of France.", A)
    steps.model(root, prompt("Paris is the capital of France."), ANSWER)
    return steps.request()


@case(Expected(("Paris, France", A)))
def short_passage_near_another() -> Request:
    """A short passage in a list of passages is one of them."""
    steps, root = _start()
    steps.retrieval(root, A, "Paris, France")
    steps.model(root, prompt("Paris, France", A), ANSWER)
    return steps.request()


@case(Expected((A,), doubts=("passages_from_earlier_turn",)))
def earlier_turn() -> Request:
    """The history contains a tool's result that no step of this request made."""
    steps, root = _start()
    steps.retrieval(root, A)
    history = [
        Message("user", "And returns?"),
        Message("assistant", "", calls_tool=True),
        Message("tool", B, tool="search_policy"),
        Message("assistant", "Within thirty days."),
        Message("user", prompt(A)),
    ]
    steps.model(root, history, ANSWER)
    return steps.request()


@case(Expected((B, A)))
def earlier_turn_with_documents() -> Request:
    """A tool message that carries its documents says what its text is."""
    steps, root = _start()
    steps.retrieval(root, A)
    history = [
        Message("user", "And returns?"),
        Message("tool", B, tool="search_policy", passages=tuple(passages(B))),
        Message("user", prompt(A)),
    ]
    steps.model(root, history, ANSWER)
    return steps.request()


def _agent_with_a_text_tool(**fields: dict[str, str | None]) -> Request:
    steps, root = _start()
    question = Message("user", QUESTION)
    steps.model(root, [question], None, calls_tool=True)
    steps.add("tool", within=root, name="search_policy", query="warranty", outputs=f"{A}\n---\n{B}")
    found = Message("tool", f"{A}\n---\n{B}", tool="search_policy")
    steps.model(root, [question, Message("assistant", "", calls_tool=True), found], ANSWER)
    return steps.request(**fields)


@case(Expected(None, "unknown", doubts=("text_tool:search_policy",)))
def undeclared_text_tool() -> Request:
    """Plain text is never taken for passages."""
    return _agent_with_a_text_tool()


@case(Expected((A, B), standalone_query="warranty"))
def declared_text_tool() -> Request:
    """A declared tool's text is split into passages."""
    return _agent_with_a_text_tool(retriever_tools={"search_policy": "\n---\n"})


@case(Expected((A,)))
def tool_that_returns_objects_with_texts() -> Request:
    """Objects with a text in a list that stands in a later prompt."""
    steps, root = _start()
    steps.model(root, [Message("user", QUESTION)], None, calls_tool=True)
    steps.add("tool", within=root, name="search", outputs={"results": [{"content": A, "id": "1"}, {"content": B}]})
    steps.model(root, [Message("user", QUESTION), Message("tool", json.dumps([{"content": A}]))], ANSWER)
    return steps.request()


@case(Expected(None, "unknown"))
def tool_that_does_not_retrieve() -> Request:
    """Its text puts nothing in doubt."""
    return _agent_with_a_text_tool(retriever_tools={"search_policy": False})


@case(Expected((A,)))
def list_of_a_tool_that_does_not_retrieve() -> Request:
    """A list of texts is no retrieval either."""
    steps, root = _start()
    steps.retrieval(root, A)
    steps.model(root, prompt(A), None, calls_tool=True)
    steps.add("tool", within=root, name="remember", outputs=[B, C])
    steps.model(root, [Message("user", prompt(A)), Message("tool", f"{B}\n{C}", tool="remember")], ANSWER)
    return steps.request(retriever_tools={"remember": False})


@case(Expected((A,)))
def text_of_an_earlier_turn_from_a_tool_that_does_not_retrieve() -> Request:
    """The prompt names the tool."""
    steps, root = _start()
    steps.retrieval(root, A)
    earlier = [Message("user", "What is 2 + 2?"), Message("tool", B + C, tool="calculator"), Message("user", prompt(A))]
    steps.model(root, earlier, ANSWER)
    return steps.request(retriever_tools={"calculator": False})


@case(Expected((A, B), standalone_query="warranty"))
def agent_as_a_tool() -> Request:
    """The passages of an agent that is a tool of another one."""
    steps, root = _start()
    report = "The policy says that parts and labor are covered for two years."
    steps.model(root, [Message("user", QUESTION)], None, calls_tool=True)
    tool = steps.add("tool", within=root, name="policy_agent", outputs=report)
    steps.retrieval(tool, A, B, C, query="warranty")
    steps.model(tool, prompt(A, B), report)
    steps.model(root, [Message("user", QUESTION), Message("tool", report, tool="policy_agent")], ANSWER)
    return steps.request()


@case(Expected((A,), response_rule="last_reply"))
def streamed_answer_whose_root_has_no_output() -> Request:
    """The root's output is empty, and a model answered."""
    steps = Steps()
    root = steps.chain(inputs={"question": QUESTION}, outputs="")
    steps.retrieval(root, A, B)
    steps.model(root, prompt(A), ANSWER)
    return steps.request()


@case(Expected((A,), response_rule="reply_in_output"))
def output_that_python_shows_as_an_object() -> Request:
    """What `str()` shows of an object is not an answer, the reply inside it is."""
    steps = Steps()
    root = steps.chain(inputs={"question": QUESTION}, outputs={"output": f"Response(response='{ANSWER}', nodes=[])"})
    steps.retrieval(root, A, B)
    steps.model(root, prompt(A), ANSWER)
    steps.model(root, "Suggest a follow-up question.", "What about batteries?")
    return steps.request()


@case(Expected(("Two years.",), query_rule="retrieval", response=None, response_rule="unknown", contexts_rule="found"))
def stream_that_nobody_finished() -> Request:
    """The inputs of a stream arrive with its end: a prompt that quotes passages, short ones too, is not the question."""
    steps = Steps()
    root = steps.chain()
    steps.retrieval(root, "Two years.")
    steps.model(root, prompt("Two years."), None)
    request = steps.request()
    request.draft.status = "abandoned"
    return request


@case(Expected((A, C), "made_by_last_step"))
def without_prompts_a_reranker_decides() -> Request:
    """No prompt is visible: what the last step made of the passages."""
    steps, root = _start()
    steps.retrieval(root, A, B, C)
    steps.add("transform", within=root, input_texts=[A, B, C], passages=passages(A, C))
    return steps.request()


@case(Expected((A, C), "found"))
def without_prompts_a_reranker_inside_a_retrieval() -> Request:
    """What a retriever makes inside itself is in its result, or not at all."""
    steps, root = _start()
    retrieval = steps.retrieval(root, A, C)
    steps.add("transform", within=retrieval, input_texts=[A, B, C], passages=passages(B))
    return steps.request()


@case(Expected((A[:20],), "in_output"))
def without_prompts_the_request_returns_a_shortened_passage() -> Request:
    """Its id shows that it was found."""
    steps = Steps()
    document = {"page_content": A[:20], "metadata": {}, "id": passages(A)[0].id or "a"}
    root = steps.chain(inputs={"question": QUESTION}, outputs={"answer": ANSWER, "context": [document]})
    found = steps.retrieval(root, A, B)
    found.passages = [PassageDraft(text=A, id=document["id"]), PassageDraft(text=B)]
    return steps.request()


@case(Expected((A, B), "found"))
def without_prompts_all_that_was_found() -> Request:
    """No prompt is visible, and nothing else says which passages were used."""
    steps, root = _start()
    steps.retrieval(root, A, B)
    return steps.request()


@case(Expected((B,), "in_output"))
def without_prompts_what_the_request_returns() -> Request:
    """The request returns the documents that it used."""
    steps = Steps()
    root = steps.chain(
        inputs={"question": QUESTION}, outputs={"answer": ANSWER, "context": [{"page_content": B, "metadata": {}}]}
    )
    steps.retrieval(root, A, B)
    return steps.request()


@case(Expected((), "found"))
def retrieval_that_found_nothing() -> Request:
    """An empty list is known, not unknown."""
    steps, root = _start()
    steps.retrieval(root)
    steps.model(root, prompt(), ANSWER)
    return steps.request()


@case(Expected((), "made_by_last_step"))
def filter_that_left_nothing() -> Request:
    """A step was given all that was found and returned none of it: known, not unknown."""
    steps, root = _start()
    steps.retrieval(root, A, B)
    steps.add("transform", within=root, input_texts=[A, B], passages=[])
    steps.model(root, prompt(), ANSWER)
    return steps.request()


@case(Expected((A, B), standalone_query="warranty"))
def tool_whose_text_result_is_json() -> Request:
    """A framework hands a list of hits to the model as a JSON text."""
    steps, root = _start()
    steps.model(root, QUESTION, None, calls_tool=True)
    hits = json.dumps([{"title": "Guide", "text": text, "score": 0.5} for text in (A, B)])
    steps.add("tool", within=root, name="search", query="warranty", outputs=hits)
    steps.model(root, [Message("user", QUESTION), Message("tool", hits, tool="search")], ANSWER)
    return steps.request()


@case(Expected((f'He said: "It\'s"\nCafé. {A}', B), standalone_query="warranty"))
def tool_whose_text_result_is_documents_as_python() -> Request:
    """An agent hands the documents of LangChain that its tool returned to the model as `str(documents)`."""
    steps, root = _start()
    steps.model(root, QUESTION, None, calls_tool=True)
    first = f'He said: "It\'s"\nCafé. {A}'
    written = (
        f"[Document(id='d1', metadata={{'at': datetime.date(2024, 1, 2), 'kind': <Kind.A: 'a'>}}, "
        f"page_content={first!r}), Document(metadata={{}}, page_content={B!r})]"
    )
    steps.add("tool", within=root, name="search", query="warranty", outputs=written)
    steps.model(root, [Message("user", QUESTION), Message("tool", written, tool="search")], ANSWER)
    return steps.request()


def _rewriting(asked: str, **inputs: object) -> Request:
    """A request whose first model call rewrites the question."""
    steps = Steps()
    root = steps.chain(inputs=inputs, outputs={"answer": ANSWER})
    steps.model(root, asked, "warranty in years")
    steps.retrieval(root, A, query="warranty in years")
    steps.model(root, prompt(A), ANSWER)
    return steps.request()


@case(Expected((A,), standalone_query="warranty in years"))
def rewritten_question_under_a_known_name_next_to_other_texts() -> Request:
    """The names that applications give to the question of a user."""
    return _rewriting(f"Rewrite: {QUESTION}", language="English", user_query=QUESTION)


@case(Expected((A,), query_rule="prompt", standalone_query="warranty in years"))
def rewritten_question_under_an_unknown_name_next_to_other_texts() -> Request:
    """The prompt asks to rewrite the longest text of the inputs that it contains, which is the question."""
    return _rewriting(
        f"Rewrite in English for Big Acme:\n{QUESTION}\nAfter: {B}",
        language="English",
        tenant="Big Acme",
        ticket=QUESTION,
        chat_history=B,
        style="Write as a friendly person would write in a very long letter.",
    )


@case(Expected((A,), query="Rewrite for English: Price?", query_rule="prompt", standalone_query="warranty in years"))
def word_of_the_inputs_in_the_first_prompt() -> Request:
    """A single word of the inputs can be in a prompt by coincidence."""
    return _rewriting("Rewrite for English: Price?", language="English", tenant="Acme")


@case(Expected((A,), query="Rewrite: the old pricelist", query_rule="prompt", standalone_query="warranty in years"))
def part_of_a_word_in_the_first_prompt() -> Request:
    """Only whole words count."""
    return _rewriting("Rewrite: the old pricelist", language="English", ticket="old price")


@case(Expected(None, "unknown"))
def nothing_was_retrieved() -> Request:
    """A chain without retrieval says nothing about contexts, and nothing is unclear."""
    steps, root = _start()
    steps.model(root, prompt(), ANSWER)
    return steps.request()


@case(Expected(("Stated.",), "stated", response="Said.", response_rule="stated", query="Asked?", query_rule="stated"))
def what_the_application_states_wins() -> Request:
    """Statements win over what the steps show."""
    steps, root = _start()
    steps.retrieval(root, A)
    steps.model(root, prompt(A), ANSWER)
    return steps.request(
        statements=Statements(query="Asked?", contexts=[PassageDraft(text="Stated.")], response="Said.")
    )


@case(Expected((A, B), "found", None, "unknown"))
def request_that_failed_inside_another_chain() -> Request:
    """An error that ends the request is not a failed attempt: what was found before it stays known."""
    steps, root = _start(None)
    root.error = "RuntimeError: the model is gone"
    inner = steps.chain(root, error="RuntimeError: the model is gone")
    steps.retrieval(inner, A, B)
    steps.model(inner, prompt(A, B), None, error="RuntimeError: the model is gone")
    request = steps.request()
    request.draft.status = "error"
    return request


@case(Expected((A, B)))
def declared_tool_without_a_step() -> Request:
    """A tracer that records tools in prompts only: the message has what the declared tool returned."""
    steps, root = _start()
    result = Message("tool", f"{A}\n---\n{B}", tool="find")
    steps.model(root, [Message("user", QUESTION), result], ANSWER)
    return steps.request(retriever_tools={"find": "\n---\n"})


@case(Expected((A, B)))
def declared_tool_that_returned_a_list() -> Request:
    """A list of documents or texts is its passages as it is; only a single text is split."""
    steps, root = _start()
    model = steps.model(root, prompt(), None, calls_tool=True)
    steps.add("tool", within=root, name="find", outputs=[A, B])
    steps.model(root, prompt(A, B), ANSWER)
    assert model.calls_tool
    return steps.request(retriever_tools={"find": None})


@case(Expected(None, "unknown", query=None, query_rule="unknown"))
def bare_text_that_answers_an_unknown_question() -> Request:
    """The text that a request returns is not its question."""
    steps = Steps()
    steps.chain(outputs=ANSWER)
    return steps.request()


@case(Expected((A,)))
def attempt_that_failed_and_its_fallback() -> Request:
    """A chain that fails is replaced by another one, whose passages count."""
    steps, root = _start()
    failed = steps.chain(root, error="TimeoutError: model")
    steps.retrieval(failed, B, C)
    steps.model(failed, prompt(B, C), None, error="TimeoutError: model")
    again = steps.chain(root)
    steps.retrieval(again, A)
    steps.model(again, prompt(A), ANSWER)
    return steps.request()


@pytest.mark.parametrize("name", CASES)
def test_draft_of_a_request(name: str) -> None:
    """Each request gets the draft that a reader of its prompts would write."""
    build, expected = CASES[name]
    draft = assemble(build())
    evidence = draft.evidence
    assert evidence is not None
    contexts = draft.contexts
    if contexts is None and draft.retrievals and evidence.contexts != "unknown":
        contexts = [passage for retrieval in draft.retrievals for passage in retrieval.passages]
    found = Expected(
        contexts=None if contexts is None else tuple(passage.text for passage in contexts),
        contexts_rule=evidence.contexts,
        response=draft.response,
        response_rule=evidence.response,
        query=draft.query,
        query_rule=evidence.query,
        doubts=evidence.doubts,
        standalone_query=draft.standalone_query,
    )
    assert found == expected
