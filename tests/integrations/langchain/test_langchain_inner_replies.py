"""Programs whose inner calls reply shortly, check the answer, write a report, or compress and cut passages."""

from __future__ import annotations

import asyncio
import json
import operator
from typing import Annotated, Any, TypedDict

import pytest
from langchain.agents import create_agent
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.documents import Document
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, AnyMessage
from langchain_core.output_parsers import JsonOutputParser
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import tool
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages

from langchain_ragstone import RagstoneCallbackHandler
from ragstone.testing import MemoryRecorder

Q = "Can I return the pump after three weeks, and who pays the postage?"
RETURNS = (
    "You may return any unused device within 30 days of delivery. The original packaging must be included. "
    "Opened filters and seals cannot be returned for reasons of hygiene."
)
POSTAGE = "For returns within Germany we send you a prepaid label, but from other countries you pay the whole postage yourself."
WARRANTY = "The pump has a warranty of two years from the day of purchase. Wear of the impeller is not covered."
POLICY = "Never promise refunds to customers before the device has been checked by the workshop."
ANSWER = "Yes. You can return an unused pump within 30 days. Inside Germany we send you a prepaid label."
PAGE = "\n\n".join(f"{n}. {ANSWER} Keep the packaging until you are sure that the pump fits." for n in range(1, 15))
LONG = "A prepaid label is sent within Germany, and others pay."
EXTRACTS = [
    "Any unused device may be returned within 30 days of delivery by the customer.",
    "A prepaid label is sent within Germany, and other countries pay the postage.",
]


class Model(GenericFakeChatModel):
    """Replies in turn, and may be bound to tools."""

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        """Take the tools."""
        return self


def says(*replies: Any) -> Model:
    """A model that gives these replies: texts, or a call of a tool as a pair of its name and its arguments."""
    calls = [[{"name": one[0], "args": one[1], "id": one[0]}] if isinstance(one, tuple) else [] for one in replies]
    messages = [
        AIMessage("" if call else text, tool_calls=call) for text, call in zip(replies, calls, strict=True)
    ]  # fmt: skip
    return Model(messages=iter([*messages, AIMessage("one reply too many")]))


class Shop(BaseRetriever):
    """A retriever over the pages of a shop."""

    pages: list[str] = [RETURNS, POSTAGE]  # noqa: RUF012 - pydantic copies it

    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        return [Document(page, id=page[:9], metadata={"source": "shop.md"}) for page in self.pages]


def find(*pages: str) -> list[Document]:
    """Search the shop."""
    return Shop(pages=list(pages)).invoke("rules of the shop")


def shown(documents: Any) -> str:
    """Format documents for a prompt."""
    return "\n---\n".join(one.page_content for one in documents)


class State(TypedDict, total=False):
    """The state of the graphs."""

    question: str
    messages: Annotated[list[AnyMessage], add_messages]
    documents: list[Document]
    extracts: list[Any]
    notes: Annotated[list[str], operator.add]
    draft: str
    verdict: str
    research_brief: str
    final_report: str
    ruling: str
    remark: str
    answer: str


def line(*nodes: Any) -> Any:
    """A graph whose nodes run one after the other."""
    graph = StateGraph(State)
    for n, node in enumerate(nodes):
        graph.add_node(f"node{n}", node)
        graph.add_edge(f"node{n - 1}" if n else START, f"node{n}")
    graph.add_edge(f"node{len(nodes) - 1}", END)
    return graph.compile()


def expert(reply: str, page: str) -> Any:
    """An agent that searches, and replies."""

    @tool
    def lookup(query: str) -> list[Any]:
        """Search."""
        return find(page)

    return create_agent(says(("lookup", {"query": "rules"}), reply), [lookup])


PROGRAMS: dict[str, tuple[Any, Any]] = {}


def program(contexts: Any, answer: str | None = ANSWER, doubts: tuple[str, ...] = ()) -> Any:
    """Add a program, which returns what is called and its input, with the contexts, answer and doubts that it leaves."""

    def add(function: Any) -> Any:
        PROGRAMS[function.__name__] = (function, (contexts, answer, doubts))
        return function

    return add


def ask_experts(first: str, second: str, form: Any) -> Any:
    """Two agents as tools, whose replies come back in a form of the application."""
    experts = {"returns": expert(first, RETURNS), "postage": expert(second, POSTAGE)}

    @tool
    def returns(question: str) -> str:
        """Ask the expert for returns."""
        return form(experts["returns"].invoke({"messages": [("user", question)]})["messages"][-1].text)

    @tool
    def postage(question: str) -> str:
        """Ask the expert for postage."""
        return form(experts["postage"].invoke({"messages": [("user", question)]})["messages"][-1].text)

    model = says(("returns", {"question": "Until when?"}), ("postage", {"question": "Who pays?"}), ANSWER)
    return create_agent(model, [returns, postage]), {"messages": [("user", Q)]}


@program([RETURNS, POSTAGE])
def experts_in_a_sentence() -> Any:
    """The tool puts the reply of its agent behind a label."""
    return ask_experts("30 days.", LONG, lambda reply: f"The expert says: {reply}")


@program([RETURNS, POSTAGE])
def experts_in_json() -> Any:
    """The tool puts the reply of its agent into an object."""
    return ask_experts("30 days.", "Prepaid", lambda reply: json.dumps({"result": reply, "status": "ok"}))


def map_reduce(*replies: str, take: Any = str, first: str = "") -> Any:
    """A call for each page, and a last call that reads what the application took from the replies."""

    def ask(question: str) -> str:
        pages = find(RETURNS, POSTAGE, WARRANTY)[: len(replies)]
        notes = [
            take(says(reply).invoke(f"{page.page_content}\n\n{question}").text)
            for page, reply in zip(pages, replies, strict=True)
        ]
        return says(ANSWER).invoke(f"{first}\nNotes:\n- " + "\n- ".join(notes) + f"\n\n{question}").text

    return RunnableLambda(ask), Q


@program([POSTAGE], doubts=("short_reply",))
def short_note_next_to_a_long_one() -> Any:
    """The passages of the short note may have been used."""
    return map_reduce("30 days", LONG)


@program([RETURNS, POSTAGE])
def notes_of_a_few_words() -> Any:
    """A line of its own with some words is not a coincidence."""
    return map_reduce("within 30 days, if unused", LONG)


@program([RETURNS], doubts=("short_reply",))
def votes_next_to_a_passage() -> Any:
    """Each page is asked, and the votes are counted by a call that sees one of the pages."""
    return map_reduce("yes", "unknown", "no", first=RETURNS)


@program([POSTAGE], doubts=("short_reply",))
def short_values_of_json() -> Any:
    """The application takes a value from the reply."""
    replies = [json.dumps({"finding": text, "relevant": True}) for text in ("30 days", LONG)]
    return map_reduce(*replies, take=lambda reply: json.loads(reply)["finding"])


@program([RETURNS, POSTAGE])
def thoughts_and_labels_are_removed() -> Any:
    """The application takes the last line, without its label, or what follows the thoughts."""
    replies = ["<think>About returns.</think>Thirty days, if it is unused.", f"Thought: postage.\nSUMMARY: {LONG}"]
    return map_reduce(*replies, take=lambda reply: reply.rpartition("</think>")[2].rpartition("SUMMARY: ")[2])


def refined(draft: str, reply: str = ANSWER) -> Any:
    """A draft from the first page, and a last call with the second page."""

    def ask(question: str) -> str:
        one, two = find(RETURNS, POSTAGE)
        text = says(draft).invoke(f"{one.page_content}\n\n{question}").text
        prompt = f"Question: {question}\nThe existing answer is: {text}\nRefine it with:\n{two.page_content}"
        return says(reply).invoke(prompt).text

    return RunnableLambda(ask), Q


@program([POSTAGE], doubts=("short_reply",))
def draft_of_one_word() -> Any:
    """The page of the draft may have been used."""
    return refined("Yes")


@program([RETURNS, POSTAGE])
def draft_that_is_kept() -> Any:
    """The last call gives the draft back, and has seen another page of the same search."""
    return refined(ANSWER)


@program([RETURNS])
def graders_say_yes_or_no() -> Any:
    """Words of a grader in a sentence of the prompt are a coincidence."""

    def ask(question: str) -> str:
        replies = zip(find(RETURNS, POSTAGE, WARRANTY), ["yes", "no", "no"], strict=True)
        kept = [one for one, grade in replies if says(grade).invoke(f"Relevant? {one.page_content}").text == "yes"]
        return says(ANSWER).invoke(f"If the context has no answer, say no.\n{shown(kept)}\n\n{question}").text

    return RunnableLambda(ask), Q


def directly(text: str, *, asks: bool) -> Any:
    """An agent with a tool whose result is the answer."""

    @tool(return_direct=True)
    def rules(question: str) -> str:
        """Answer a question about the rules."""
        found = shown(find(RETURNS, POSTAGE))
        return says(text).invoke(f"{found}\n\n{question}").text if asks else text

    return create_agent(says(("rules", {"question": "Are 21 days fine?"})), [rules]), {"messages": [("user", Q)]}


@program([RETURNS, POSTAGE], "Yes, within 30 days.")
def answer_of_a_tool() -> Any:
    """A call inside of the tool wrote it."""
    return directly("Yes, within 30 days.", asks=True)


@program(None, "Your ticket has the number 4711.", ("no_model_wrote_it",))
def fixed_answer_of_a_tool() -> Any:
    """No call wrote it."""
    return directly("Your ticket has the number 4711.", asks=False)


def report(text: str, key: str = "final_report", ending: str = "") -> Any:
    """A brief, a note of each researcher, and a report."""

    def brief(state: Any) -> Any:
        question = state["messages"][-1].text
        return {"research_brief": says("Find the rules for returns and for postage.").invoke(question).text}

    def research(page: str, note: str) -> Any:
        return lambda state: {"notes": [says(note).invoke(f"{state['research_brief']}\n{shown(find(page))}").text]}

    def write(state: Any) -> Any:
        reply = says(text).invoke(f"Brief: {state['research_brief']}\n" + "\n".join(state["notes"])).text
        return {key: reply + ending}

    note = "Returns of unused devices are possible for thirty days in the original packaging."
    return line(brief, research(RETURNS, note), research(POSTAGE, LONG + " See the page."), write), {
        "messages": [("user", Q)], "notes": [],
    }  # fmt: skip


@program([RETURNS, POSTAGE], PAGE)
def report_of_a_page() -> Any:
    """The report is the answer, not a note."""
    return report(PAGE)


@program([RETURNS, POSTAGE], "Yes, you can.")
def report_of_three_words() -> Any:
    """A field goes before the items of a list, whatever its size."""
    return report("Yes, you can.")


@program([RETURNS, POSTAGE], f"{PAGE}\n\nSources: shop.md")
def report_with_sources() -> Any:
    """The application adds sources, and gives the report a name of its own."""
    return report(PAGE, "draft", "\n\nSources: shop.md")


def checked(prompt: str, reply: str = ANSWER, *policies: str) -> Any:
    """A guard gets the answer and rules of another search, and gives the answer back."""

    def ask(question: str) -> str:
        text = says(reply).invoke(f"{shown(find(RETURNS, POSTAGE))}\n\n{question}").text
        rules = shown(find(*policies or (POLICY,)))
        return says(reply).invoke(prompt.format(rules=rules, text=text, question=question)).text

    return RunnableLambda(ask), Q


@program([RETURNS, POSTAGE])
def guard_with_rules() -> Any:
    """The rules are not contexts of the answer."""
    return checked("Give this text back, changed if the rules demand it.\n\n{rules}\n\nText: {text}")


@program([RETURNS, POSTAGE], doubts=("several_answers",))
def guard_that_is_asked_the_question() -> Any:
    """Nothing tells such a guard from a second search."""
    return checked("{rules}\n\nQuestion: {question}\n\nAnswer: {text}")


@program([RETURNS.partition(".")[0] + ".", POSTAGE])
def first_sentence_and_a_whole_passage() -> Any:
    """The first sentence has fewer than 80 characters."""

    def ask(question: str) -> str:
        one, two = find(RETURNS, POSTAGE)
        first = one.page_content.partition(".")[0]
        return says(ANSWER).invoke(f"{first}.\n\n{two.page_content}\n\n{question}").text

    return RunnableLambda(ask), Q


@program([RETURNS[:50], POSTAGE[:50]])
def passages_cut_to_fifty_characters() -> Any:
    """The application shows the beginnings."""

    def ask(question: str) -> str:
        texts = "\n".join(f"{one.page_content[:50]}..." for one in find(RETURNS, POSTAGE))
        return says(ANSWER).invoke(f"{texts}\n\n{question}").text

    return RunnableLambda(ask), Q


@program([POSTAGE], doubts=("not_in_prompt",))
def lines_behind_marks_next_to_a_whole_passage() -> Any:
    """The beginning of a passage whose rest follows in another form is not what the model saw of it."""

    def ask(question: str) -> str:
        one, two = find(RETURNS, POSTAGE)
        text = one.page_content.replace(". ", ".\n> ")
        return says(ANSWER).invoke(f"> {text}\n\n{two.page_content}\n\n{question}").text

    return RunnableLambda(ask), Q


def compressed(make: Any, show: Any) -> Any:
    """A node extracts what matters from each document."""

    def search(state: Any) -> Any:
        return {"documents": find(RETURNS, POSTAGE)}

    def extract(state: Any) -> Any:
        pairs = zip(state["documents"], EXTRACTS, strict=True)
        return {"extracts": [make(says(text).invoke(f"Extract: {one.page_content}").text) for one, text in pairs]}

    def answer(state: Any) -> Any:
        texts = "\n".join(show(one) for one in state["extracts"])
        return {"answer": says(ANSWER).invoke(f"{texts}\n\n{state['question']}").text}

    return line(search, extract, answer), {"question": Q}


@program(EXTRACTS)
def extracts_as_documents() -> Any:
    """The extracts are the contexts, and not the passages as well."""
    return compressed(Document, lambda one: one.page_content)


@program([f"[shop] {text}" for text in EXTRACTS])
def extracts_with_a_heading() -> Any:
    """The same if the documents hold more than the extract."""
    return compressed(lambda text: Document(f"[shop] {text}"), lambda one: one.page_content)


@program([RETURNS, POSTAGE])
def extracts_as_texts() -> Any:
    """Texts that never become documents are partial answers."""
    return compressed(str, str)


FINDING = (
    "The shop accepts returns of unused devices within thirty days if the original packaging is included, and never takes back "
    "opened filters or seals for reasons of hygiene."
)


def after_a_finding(reply: str, form: str, take: Any = str) -> Any:
    """A call about the first page, and a last call with what the application took from its reply and the second page."""

    def ask(question: str) -> str:
        one, two = find(RETURNS, POSTAGE)
        found = take(says(reply).invoke(f"{one.page_content}\n\n{question}").text)
        return says(ANSWER).invoke(f"{form.format(found)}\n\n{two.page_content}\n\n{question}").text

    return RunnableLambda(ask), Q


@program([RETURNS, POSTAGE])
def finding_without_its_citations() -> Any:
    """The application removes the numbers of the passages."""
    reply = "Devices can be returned [1] within thirty days [1] with their packaging."
    return after_a_finding(reply, "Note: {}", lambda text: text.replace(" [1]", ""))


@program([RETURNS, POSTAGE])
def numbered_findings() -> Any:
    """The application makes a list of the lines."""
    lines = "1. thirty days\n2. original packaging"
    return after_a_finding(lines, "Findings: {}", lambda text: ", ".join(one[3:] for one in text.splitlines()))


@program([POSTAGE], doubts=("short_reply",))
def finding_that_is_cut() -> Any:
    """The application shows the beginning of the reply."""
    return after_a_finding(FINDING, "Note: {}...", lambda text: text[:100])


@program([POSTAGE], doubts=("short_reply",))
def name_inside_of_a_sentence() -> Any:
    """The reply is a text of its passage."""
    return after_a_finding("30 days", "We know that the period of {} is long.")


@program([RETURNS])
def graders_with_marks_and_a_numbered_prompt() -> Any:
    """The number of an item is not the mark of a grader."""

    def ask(question: str) -> str:
        pairs = zip(find(RETURNS, POSTAGE), ["8", "2"], strict=True)
        kept = [one for one, mark in pairs if says(mark).invoke(f"Give a mark.\n{one.page_content}").text == "8"]
        return says(ANSWER).invoke(f"1. Read: {shown(kept)}\n\n2. Answer: {question}").text

    return RunnableLambda(ask), Q


HEADING = "ACME manual for pumps, edition 2026, chapter four: "


@program([HEADING + RETURNS])
def heading_that_passages_share() -> Any:
    """The heading alone is not a piece of the passages that were dropped."""

    def ask(question: str) -> str:
        kept = find(*(HEADING + page for page in (RETURNS, POSTAGE, WARRANTY)))[:1]
        return says(ANSWER).invoke(f"{HEADING}\n\n{shown(kept)}\n\n{question}").text

    return RunnableLambda(ask), Q


def analyzed(key: str, first: str = "draft", text: str = ANSWER) -> Any:
    """A call with passages, and a call that reads its reply, which both write fields of the state."""

    def analyze(state: Any) -> Any:
        return {first: says(LONG).invoke(f"{shown(find(POSTAGE))}\n\n{state['question']}").text}

    def write(state: Any) -> Any:
        return {key: says(text).invoke(f"{state['question']}\n\n{state[first]}").text}

    return line(analyze, write), {"question": Q}


@program([POSTAGE])
def analysis_and_a_report() -> Any:
    """The name of the field says which one is the answer."""
    return analyzed("final_report")


@program([POSTAGE], LONG, ("several_answers",))
def draft_and_another_text() -> Any:
    """Nothing says which of two fields is the answer."""
    return analyzed("research_brief")


@program([POSTAGE], LONG)
def answer_and_a_verdict() -> Any:
    """A verdict is not an answer."""
    return analyzed("verdict", text="grounded")


KEEP = "Keep the packaging until you are sure that the pump fits."


def judged(take: Any, **fields: str) -> Any:
    """A node whose model replies with JSON, of which the application writes what it takes into the state."""

    def judge(state: Any) -> Any:
        chain = says(json.dumps(fields)) | JsonOutputParser()
        return take(chain.invoke(f"{shown(find(RETURNS, POSTAGE))}\n\n{state['question']}"))

    return line(judge), {"question": Q}


@program([RETURNS, POSTAGE])
def value_of_json_under_another_key() -> Any:
    """The answer is the value, not the JSON."""
    return judged(lambda fields: {"ruling": fields["verdict"]}, verdict=ANSWER, note=KEEP)


@program([RETURNS, POSTAGE], "Yes")
def word_of_json_under_another_key() -> Any:
    """The same for a word."""
    return judged(lambda fields: {"ruling": fields["verdict"]}, verdict="Yes", note=KEEP)


@program([RETURNS, POSTAGE], json.dumps({"ruling": ANSWER, "remark": KEEP}))
def json_returned_whole() -> Any:
    """An object with several texts is the answer as a whole."""
    return judged(lambda fields: fields, ruling=ANSWER, remark=KEEP)


@program([RETURNS, POSTAGE], json.dumps({"verdict": ANSWER, "note": KEEP}), ("several_answers",))
def two_values_under_other_keys() -> Any:
    """Nothing says which one is the answer."""
    return judged(lambda fields: {"ruling": fields["verdict"], "remark": fields["note"]}, verdict=ANSWER, note=KEEP)


@program([RETURNS, POSTAGE], json.dumps({"verdict": ANSWER, "note": KEEP}), ("several_answers",))
def translation_under_another_key() -> Any:
    """The application changes the value in a way that cannot be followed."""
    return judged(lambda fields: {"ruling": "Ja, innerhalb von 30 Tagen."}, verdict=ANSWER, note=KEEP)


@program([RETURNS, POSTAGE], "Yes (shop.md), within 30 days (shop.md, page 2).")
def citations_of_a_short_answer() -> Any:
    """The application puts names of files in the place of numbers."""

    def ask(question: str) -> str:
        reply = says("Yes [1], within 30 days [2].").invoke(f"{shown(find(RETURNS, POSTAGE))}\n\n{question}").text
        return reply.replace("[1]", "(shop.md)").replace("[2]", "(shop.md, page 2)")

    return RunnableLambda(ask), Q


@program([RETURNS, POSTAGE], "Returns: within 30 days. Postage: a prepaid label.")
def findings_that_the_application_joins() -> Any:
    """Each worker searches one page, and no call joins what they say."""

    def ask(question: str) -> str:
        one = says("within 30 days").invoke(f"{shown(find(RETURNS))}\n\n{question}").text
        two = says("a prepaid label").invoke(f"{shown(find(POSTAGE))}\n\n{question}").text
        return f"Returns: {one}. Postage: {two}."

    return RunnableLambda(ask), Q


@program(["The original packaging must be included.", POSTAGE])
def middle_sentence_and_a_whole_passage() -> Any:
    """A sentence splitter keeps one sentence of a passage."""

    def ask(question: str) -> str:
        one, two = find(RETURNS, POSTAGE)
        return says(ANSWER).invoke(f"- {one.page_content.split('. ')[1]}.\n- {two.page_content}\n\n{question}").text

    return RunnableLambda(ask), Q


@program([RETURNS, POSTAGE], doubts=("several_answers",))
def fixed_text_in_the_place_of_a_draft() -> Any:
    """A guard of the application shows another text than the model wrote."""

    def ask(question: str) -> dict[str, str]:
        draft = says(ANSWER).invoke(f"{shown(find(RETURNS, POSTAGE))}\n\n{question}").text
        return {"draft": draft, "shown": "Please ask our service in Berlin."}

    return RunnableLambda(ask), Q


@program(None, answer=None, doubts=("no_answer",))
def table_that_the_application_writes() -> Any:
    """The rows of a table are in two prompts, and no reply has its text."""

    def ask(question: str) -> dict[str, str]:
        rows = [says(("row", {"days": 30, "by": "us"})).invoke(page.page_content) for page in find(RETURNS, POSTAGE)]
        return {"table": "\n".join(f"| device {n} | thirty |" for n, _ in enumerate(rows))}

    return RunnableLambda(ask), Q


def beside_a_passage(*replies: str, make: Any, n_calls: int = 1, pages: Any = (RETURNS,)) -> Any:
    """An agent with a tool that returns a passage, and one that makes its result from replies about others."""
    model = says(*replies)

    @tool
    def postage(query: str) -> str:
        """Search for postage."""
        return shown(find(POSTAGE))

    @tool
    def returns(query: str) -> Any:
        """Ask about returns."""
        found = find(*pages)
        return make(model.invoke(f"{shown(found)}\n\n{query}").text, found)

    calls = [("returns", {"query": "Until when?"})] * n_calls
    return create_agent(says(("postage", {"query": "Who pays?"}), *calls, ANSWER), [postage, returns]), {
        "messages": [("user", Q)]
    }


RESULTS = {
    "number": ("It takes 30 days.", lambda text, _: int(text.split()[2])),
    "truth": ("YES", lambda text, _: text == "YES"),
    "mapped": ("YES", lambda text, _: "status=FINE" if text == "YES" else "status=LATE"),
    "capitals": ("about thirty days", lambda text, _: text.upper()),
    "paraphrase": ("You may send back an unused device for thirty days, with its box.", lambda *_: "Returns: 30 days"),
}
for result, (inner_reply, making) in RESULTS.items():
    PROGRAMS[f"tool_returns_{result}"] = (
        lambda reply=inner_reply, make=making: beside_a_passage(reply, make=make),
        ([POSTAGE], ANSWER, ("short_reply",)),
    )


@program([POSTAGE, RETURNS])
def tool_selects_passages() -> Any:
    """The model in the tool is a grader: nothing is lost but what it did not choose."""
    return beside_a_passage("1", make=lambda _, found: shown(found[:1]), pages=(RETURNS, WARRANTY))


@program([POSTAGE, RETURNS])
def tool_selects_nothing_at_first() -> Any:
    """A tool that gives passages back in its second call did not answer in its first one."""
    return beside_a_passage(
        "none", "1", make=lambda text, found: "Nothing." if text == "none" else shown(found[:1]), n_calls=2,
        pages=(RETURNS, WARRANTY),
    )  # fmt: skip


@program(["The period 2024\u20132026 \u2014 as agreed \u2014 covers the pump only, and its seals for a year."])
def dashes_as_hyphens() -> Any:
    """The application writes hyphens in the place of dashes."""

    def ask(question: str) -> str:
        page = "The period 2024\u20132026 \u2014 as agreed \u2014 covers the pump only, and its seals for a year."
        text = shown(find(page)).replace("\u2013", "-").replace("\u2014", "-")
        return says(ANSWER).invoke(f"{text}\n\n{question}").text

    return RunnableLambda(ask), Q


@pytest.mark.parametrize("way", ["invoke", "ainvoke", "stream", "astream"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_what_inner_calls_saw_is_a_context_or_in_doubt(name: str, way: str) -> None:
    """Contexts, answer and doubts of one request, called in each way."""
    function, expected = PROGRAMS[name]
    recorder = MemoryRecorder()
    handler = RagstoneCallbackHandler(recorder)
    runnable, given = function()
    config: Any = {"callbacks": [handler, BaseCallbackHandler()]}

    async def read_all() -> Any:
        return [part async for part in runnable.astream(given, config)]

    calls = {
        "invoke": lambda: runnable.invoke(given, config),
        "ainvoke": lambda: asyncio.run(runnable.ainvoke(given, config)),
        "stream": lambda: list(runnable.stream(given, config)),
        "astream": lambda: asyncio.run(read_all()),
    }
    calls[way]()

    (draft,) = recorder.drafts
    contexts = None if draft.contexts is None else [passage.text for passage in draft.contexts]
    assert expected == (contexts, draft.response, draft.evidence.doubts)
    assert (Q, 0, {}) == (draft.query, handler.errors, recorder.errors)
