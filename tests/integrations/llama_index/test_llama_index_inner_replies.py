"""Programs whose inner calls reply shortly, check the answer, write JSON, or compress and cut passages, in each way to run them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.query_engine import CustomQueryEngine
from llama_index.core.schema import NodeWithScore, TextNode
from llama_index.core.tools import FunctionTool
from llama_index.core.workflow import Context, Event, StartEvent, StopEvent, Workflow, step

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
LONG = "A prepaid label is sent within Germany, and others pay."
NOTE = "Keep the packaging until you are sure that the pump fits."
EXTRACTS = [
    "Any unused device may be returned within 30 days of delivery by the customer.",
    "A prepaid label is sent within Germany, and other countries pay the postage.",
]
BOTH = [RETURNS, POSTAGE]
SHORT = ("short_reply",)
SEVERAL = ("several_answers",)


@dataclass
class Shop:
    """What a program uses: a retriever, and models that are asked as a whole or as a stream."""

    app: Any
    streamed: bool

    def find(self, *pages: str) -> list[NodeWithScore]:
        """Search pages."""
        return self.app.retriever(*pages).retrieve("rules of the shop")

    def ask(self, prompt: str, reply: str) -> str:
        """Ask a model that gives a reply."""
        model = self.app.model(reply)
        return (
            "".join(part.delta for part in model.stream_complete(prompt))
            if self.streamed
            else model.complete(prompt).text
        )


def shown(nodes: list[NodeWithScore]) -> str:
    """Format nodes for a prompt."""
    return "\n---\n".join(node.text for node in nodes)


Program = Callable[[Shop], Any]
PROGRAMS: dict[str, tuple[Program, tuple[Any, str | None, tuple[str, ...]]]] = {}


def program(contexts: Any, answer: str | None = ANSWER, doubts: tuple[str, ...] = ()) -> Callable[[Program], Program]:
    """Add a program with the contexts, answer and doubts that it leaves."""

    def add(function: Program) -> Program:
        PROGRAMS[function.__name__] = (function, (contexts, answer, doubts))
        return function

    return add


def map_reduce(shop: Shop, *replies: str, take: Callable[[str], str] = str, form: str = "Notes:\n- {}") -> str:
    """A call for each page, and a last call that reads what the application took from the replies."""
    pages = shop.find(RETURNS, POSTAGE, WARRANTY)[: len(replies)]
    notes = [take(shop.ask(f"{page.text}\n\n{Q}", reply)) for page, reply in zip(pages, replies, strict=True)]
    return shop.ask(form.format("\n- ".join(notes)) + f"\n\n{Q}", ANSWER)


@program([POSTAGE], doubts=SHORT)
def short_note_next_to_a_long_one(shop: Shop) -> Any:
    """The passages of the short note may have been used."""
    return map_reduce(shop, "30 days", LONG)


@program(BOTH)
def two_short_findings(shop: Shop) -> Any:
    """Both findings stand by themselves, next to each other."""
    return map_reduce(shop, "within 30 days", "a prepaid label")


@program(BOTH)
def notes_of_a_few_words(shop: Shop) -> Any:
    """A line of its own with some words is not a coincidence."""
    return map_reduce(shop, "within 30 days, if unused", LONG)


@program([POSTAGE], doubts=SHORT)
def short_values_of_json(shop: Shop) -> Any:
    """The application takes a value from the reply."""
    replies = [json.dumps({"finding": text, "relevant": True}) for text in ("30 days", LONG)]
    return map_reduce(shop, *replies, take=lambda reply: json.loads(reply)["finding"])


@program(BOTH)
def thoughts_and_labels_are_removed(shop: Shop) -> Any:
    """The application takes the last line, without its label, or what follows the thoughts."""
    replies = ["<think>About returns.</think>Thirty days, if it is unused.", f"Thought: postage.\nSUMMARY: {LONG}"]
    return map_reduce(shop, *replies, take=lambda reply: reply.rpartition("</think>")[2].rpartition("SUMMARY: ")[2])


@program([POSTAGE], doubts=SHORT)
def draft_of_one_word(shop: Shop) -> Any:
    """The page of the draft may have been used."""
    one, two = shop.find(*BOTH)
    draft = shop.ask(f"{one.text}\n\n{Q}", "Yes")
    return shop.ask(f"Question: {Q}\nThe existing answer is: {draft}\nRefine it with:\n{two.text}", ANSWER)


@program([RETURNS])
def graders_say_yes_or_no(shop: Shop) -> Any:
    """Words of a grader in a sentence of the prompt are a coincidence."""
    pairs = zip(shop.find(RETURNS, POSTAGE, WARRANTY), ["yes", "no", "no"], strict=True)
    kept = [page for page, grade in pairs if shop.ask(f"Relevant? {page.text}", grade) == "yes"]
    return shop.ask(f"If the context has no answer, say no.\n{shown(kept)}\n\n{Q}", ANSWER)


@program(BOTH)
def guard_with_rules(shop: Shop) -> Any:
    """A guard gives the answer back. Its rules are not contexts of the answer."""
    text = shop.ask(f"{shown(shop.find(*BOTH))}\n\n{Q}", ANSWER)
    return shop.ask(
        f"Give this text back, changed if the rules demand it.\n\n{shown(shop.find(POLICY))}\n\nText: {text}", ANSWER
    )


@program([RETURNS.partition(".")[0] + ".", POSTAGE])
def first_sentence_and_a_whole_passage(shop: Shop) -> Any:
    """The first sentence has fewer than 80 characters."""
    one, two = shop.find(*BOTH)
    return shop.ask(f"{one.text.partition('.')[0]}.\n\n{two.text}\n\n{Q}", ANSWER)


@program(["The original packaging must be included.", POSTAGE])
def middle_sentence_and_a_whole_passage(shop: Shop) -> Any:
    """A sentence splitter keeps one sentence of a passage."""
    one, two = shop.find(*BOTH)
    return shop.ask(f"- {one.text.split('. ')[1]}.\n- {two.text}\n\n{Q}", ANSWER)


@program([POSTAGE], doubts=("not_in_prompt",))
def lines_behind_marks_next_to_a_whole_passage(shop: Shop) -> Any:
    """The beginning of a passage whose rest follows in another form is not what the model saw of it."""
    one, two = shop.find(*BOTH)
    text = one.text.replace(". ", ".\n> ")
    return shop.ask(f"> {text}\n\n{two.text}\n\n{Q}", ANSWER)


@program(BOTH)
def extracts_as_texts(shop: Shop) -> Any:
    """Texts that never become nodes are partial answers."""
    pairs = zip(shop.find(*BOTH), EXTRACTS, strict=True)
    extracts = [shop.ask(f"Extract: {page.text}", text) for page, text in pairs]
    return shop.ask("\n".join(extracts) + f"\n\n{Q}", ANSWER)


@program(BOTH, "Yes (shop.md), within 30 days (shop.md, page 2).")
def citations_of_a_short_answer(shop: Shop) -> Any:
    """The application puts names of files in the place of numbers."""
    reply = shop.ask(f"{shown(shop.find(*BOTH))}\n\n{Q}", "Yes [1], within 30 days [2].")
    return reply.replace("[1]", "(shop.md)").replace("[2]", "(shop.md, page 2)")


@program(BOTH, "Returns: within 30 days. Postage: a prepaid label.")
def findings_that_the_application_joins(shop: Shop) -> Any:
    """Each worker searches one page, and no call joins what they say."""
    one = shop.ask(f"{shown(shop.find(RETURNS))}\n\n{Q}", "within 30 days")
    two = shop.ask(f"{shown(shop.find(POSTAGE))}\n\n{Q}", "a prepaid label")
    return f"Returns: {one}. Postage: {two}."


def judged(shop: Shop, **fields: str) -> dict[str, str]:
    """The fields of a reply in JSON about two pages."""
    return json.loads(shop.ask(f"{shown(shop.find(*BOTH))}\n\n{Q}", json.dumps(fields)))


@program(BOTH)
def value_of_json_under_another_key(shop: Shop) -> Any:
    """The answer is the value, not the JSON."""
    return {"ruling": judged(shop, verdict=ANSWER, note=NOTE)["verdict"], "ticket": "T-4711"}


@program(BOTH, "Yes")
def word_of_json_under_another_key(shop: Shop) -> Any:
    """The same for a word."""
    return {"ruling": judged(shop, verdict="Yes", note=NOTE)["verdict"], "n": 3}


@program(BOTH, json.dumps({"verdict": ANSWER, "note": NOTE}))
def json_returned_whole(shop: Shop) -> Any:
    """An object with several texts is the answer as a whole."""
    return judged(shop, verdict=ANSWER, note=NOTE)


@program(BOTH, json.dumps({"verdict": ANSWER, "note": NOTE}), SEVERAL)
def two_values_under_other_keys(shop: Shop) -> Any:
    """Nothing says which one is the answer."""
    fields = judged(shop, verdict=ANSWER, note=NOTE)
    return {"ruling": fields["verdict"], "remark": fields["note"]}


@program(BOTH, ANSWER, SEVERAL)
def translation_under_another_key(shop: Shop) -> Any:
    """The application changes the reply in a way that cannot be followed."""
    shop.ask(f"{shown(shop.find(*BOTH))}\n\n{Q}", ANSWER)
    return {"ruling": "Ja, innerhalb von 30 Tagen, mit einem Aufkleber."}


class Part(Event):
    """A piece of a stream."""

    text: str


def run_in_workflow(function: Program, shop: Shop) -> None:
    """Run a program as the step of a workflow, whose events are read as they come if it streams."""

    class Flow(Workflow):
        @step
        async def answer(self, context: Context, event: StartEvent) -> StopEvent:
            result = function(shop)
            if shop.streamed:
                context.write_event_to_stream(Part(text=str(result)))
            return StopEvent(result=result)

    async def go() -> None:
        handler = Flow().run(query=Q)
        if shop.streamed:
            assert [True, False] == [isinstance(event, Part) async for event in handler.stream_events()]
        await handler

    asyncio.run(go())


def run_in_engine(function: Program, shop: Shop, *, is_async: bool) -> None:
    """Run a program as a query engine of the application."""

    class Engine(CustomQueryEngine):
        def custom_query(self, query_str: str) -> Any:
            return function(shop)

    if is_async:
        asyncio.run(Engine().aquery(Q))
    else:
        Engine().query(Q)


WAYS = ["query", "aquery", "workflow", "streamed workflow", "streamed query"]
IN_WORKFLOWS = {name for name in PROGRAMS if "json" in name or "key" in name}
"""Engines return texts, and workflows any objects."""


@pytest.mark.parametrize(
    ("name", "way"),
    [(name, way) for name in PROGRAMS for way in WAYS if "query" not in way or name not in IN_WORKFLOWS]
    + [("short_values_of_json", "query")],
)
def test_what_inner_calls_saw_is_a_context_or_in_doubt(make_app: Any, name: str, way: str) -> None:
    """Contexts, answer and doubts of one request, run in each way."""
    function, expected = PROGRAMS[name]
    app = make_app(recorder=MemoryRecorder())
    shop = Shop(app, streamed="streamed" in way)
    if "workflow" in way:
        run_in_workflow(function, shop)
    else:
        run_in_engine(function, shop, is_async=way == "aquery")

    app.instrumentor.stop_registering()
    (draft,) = app.drafts
    contexts = None if draft.contexts is None else [passage.text for passage in draft.contexts]
    assert expected == (contexts, draft.response, draft.evidence.doubts)
    assert (Q, 0, {}) == (draft.query, app.instrumentor.errors, app.recorder.errors)


@pytest.mark.parametrize("make", ["nodes", "nodes with a heading"])
@pytest.mark.parametrize("way", ["workflow", "streamed workflow"])
def test_extracts_as_nodes_are_the_contexts(make_app: Any, way: str, make: str) -> None:
    """The extracts are the contexts, and not the passages as well, if a step hands them on as nodes."""
    heading = "[shop] " if make == "nodes with a heading" else ""
    app = make_app(recorder=MemoryRecorder())
    shop = Shop(app, streamed="streamed" in way)

    class Found(Event):
        nodes: list[Any]

    class Flow(Workflow):
        @step
        async def extract(self, event: StartEvent) -> Found:
            pairs = zip(shop.find(*BOTH), EXTRACTS, strict=True)
            texts = [heading + shop.ask(f"Extract: {page.text}", text) for page, text in pairs]
            return Found(nodes=[NodeWithScore(node=TextNode(text=text)) for text in texts])

        @step
        async def answer(self, event: Found) -> StopEvent:
            return StopEvent(result=shop.ask(f"{shown(event.nodes)}\n\n{Q}", ANSWER))

    async def go() -> None:
        await Flow().run(query=Q)

    asyncio.run(go())
    app.instrumentor.stop_registering()
    (draft,) = app.drafts
    assert [heading + text for text in EXTRACTS] == [passage.text for passage in draft.contexts]
    assert (ANSWER, ()) == (draft.response, draft.evidence.doubts)


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize(
    ("form", "first"),
    [("{}", "30 days."), ("The expert says: {}", "30 days."), ('{{"result": "{}", "status": "ok"}}', "Prepaid")],
    ids=["bare", "in a sentence", "in JSON"],
)
def test_experts_as_tools_of_an_agent(make_app: Any, form: str, first: str, streamed: bool) -> None:
    """The tool puts the short reply of its engine into a form of the application: the passages of both engines are contexts."""
    app = make_app(recorder=MemoryRecorder())
    engines = {
        "returns": app.engine(app.retriever(RETURNS), app.model(first)),
        "postage": app.engine(app.retriever(POSTAGE), app.model(LONG)),
    }

    async def returns(question: str) -> str:
        """Ask the expert for returns."""
        return form.format(engines["returns"].query(question))

    async def postage(question: str) -> str:
        """Ask the expert for postage."""
        return form.format(await engines["postage"].aquery(question))

    model = app.agent_model(("returns", {"question": "Until when?"}), ("postage", {"question": "Who pays?"}))
    # The oldest versions run other functions in threads without the context of the agent.
    tools = [FunctionTool.from_defaults(async_fn=returns), FunctionTool.from_defaults(async_fn=postage)]
    agent = FunctionAgent(tools=tools, llm=model, streaming=streamed)

    async def go() -> None:
        await agent.run(user_msg=Q)

    asyncio.run(go())
    app.instrumentor.stop_registering()
    (draft,) = app.drafts
    assert (Q, BOTH, "answer", ()) == (
        draft.query,
        [passage.text for passage in draft.contexts],
        draft.response,
        draft.evidence.doubts,
    )


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize(
    ("reply", "make", "doubts"),
    [
        ("It takes 30 days.", lambda text, _: int(text.split()[2]), SHORT),
        ("YES", lambda text, _: text == "YES", SHORT),
        ("YES", lambda text, _: "status=FINE" if text == "YES" else "status=LATE", SHORT),
        ("about thirty days", lambda text, _: text.upper(), SHORT),
        ("30 days", lambda text, _: {"period": text}, ()),
        ("1", lambda _, found: shown(found), ()),
    ],
    ids=["number", "truth", "mapped", "capitals", "an object", "selected passages"],
)
def test_a_tool_makes_its_result_from_a_reply(
    make_app: Any, reply: str, make: Any, doubts: tuple[str, ...], streamed: bool
) -> None:
    """What a tool makes from a reply stands in the prompt, next to a passage: those of the reply are contexts, or in doubt."""
    app = make_app(recorder=MemoryRecorder())

    async def postage(question: str) -> str:
        """Search for postage."""
        return shown(app.retriever(POSTAGE).retrieve(question))

    async def returns(question: str) -> Any:
        """Ask about returns."""
        found = app.retriever(RETURNS).retrieve(question)
        return make(app.model(reply).complete(f"{shown(found)}\n\n{question}").text, found)

    model = app.agent_model(("postage", {"question": "Who pays?"}), ("returns", {"question": "Until when?"}))
    tools = [FunctionTool.from_defaults(async_fn=postage), FunctionTool.from_defaults(async_fn=returns)]

    async def go() -> None:
        await FunctionAgent(tools=tools, llm=model, streaming=streamed).run(user_msg=Q)

    asyncio.run(go())
    app.instrumentor.stop_registering()
    (draft,) = app.drafts
    contexts = {passage.text for passage in draft.contexts}
    assert ({POSTAGE} if doubts else {POSTAGE, RETURNS}, doubts) == (contexts, draft.evidence.doubts)


@pytest.mark.parametrize(
    ("shown_text", "answer", "doubts"),
    [
        ({"draft": ANSWER, "shown": "Please ask our service in Berlin."}, ANSWER, SEVERAL),
        ({"draft": ANSWER, "mail": f"Dear Ms Doe, {ANSWER} Yours, the shop in Berlin"}, ANSWER, SEVERAL),
        ({"ruling": ANSWER, "disclaimer": "This text is no legal advice."}, ANSWER, ()),
        ({"newsletter": f"{ANSWER}\n\n{NOTE}"}, f"{ANSWER}\n\n{NOTE}", ()),
    ],
    ids=["a fixed text is shown", "a letter is sent", "a disclaimer", "joined sections"],
)
def test_what_a_workflow_returns_next_to_a_reply(
    make_app: Any, shown_text: Any, answer: str, doubts: tuple[str, ...]
) -> None:
    """A reply next to a text that no model wrote may be a draft that nobody saw."""
    app = make_app(recorder=MemoryRecorder())

    class Write(Workflow):
        @step
        async def write(self, event: StartEvent) -> StopEvent:
            nodes = await app.retriever(*BOTH).aretrieve("rules of the shop")
            await app.model(ANSWER).acomplete(f"{nodes[0].text}\n\n{event.question}")
            if "newsletter" in shown_text:
                await app.model(NOTE).acomplete(f"{nodes[1].text}\n\n{event.question}")
            return StopEvent(result=shown_text)

    async def go() -> None:
        await Write(timeout=30).run(question=Q)

    asyncio.run(go())
    app.instrumentor.stop_registering()
    (draft,) = app.drafts
    contexts = BOTH if "newsletter" in shown_text else [RETURNS]
    assert (contexts, answer, doubts) == (
        [passage.text for passage in draft.contexts],
        draft.response,
        draft.evidence.doubts,
    )


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize(
    ("reply", "contexts", "doubts"),
    [("Yes, within 30 days.", BOTH, ()), (None, None, ("no_model_wrote_it",))],
    ids=["a model wrote it", "a fixed text"],
)
def test_the_answer_of_a_tool(
    make_app: Any, reply: str | None, contexts: list[str] | None, doubts: tuple[str, ...], streamed: bool
) -> None:
    """A tool with `return_direct` answers the user: a call inside of it wrote the answer, or none."""
    app = make_app(recorder=MemoryRecorder())

    async def rules(question: str) -> str:
        """Answer a question about the rules."""
        pages = shown(app.retriever(*BOTH).retrieve(question))
        return app.model(reply).complete(f"{pages}\n\n{question}").text if reply else "Your ticket has the number 4711."

    tools = [FunctionTool.from_defaults(async_fn=rules, return_direct=True)]
    agent = FunctionAgent(
        tools=tools, llm=app.agent_model(("rules", {"question": "Are 21 days fine?"})), streaming=streamed
    )

    async def go() -> None:
        await agent.run(user_msg=Q)

    asyncio.run(go())
    app.instrumentor.stop_registering()
    (draft,) = app.drafts
    found = None if draft.contexts is None else [passage.text for passage in draft.contexts]
    assert (reply or "Your ticket has the number 4711.", contexts, doubts) == (
        draft.response,
        found,
        draft.evidence.doubts,
    )
