"""Applications in the shapes of products: titles and suggestions beside the answer, checks by search, memories, many users."""

from __future__ import annotations

import asyncio
import json
import operator
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from operator import itemgetter
from typing import Annotated, Any, TypedDict

from langchain.agents import create_agent
from langchain.agents.middleware import SummarizationMiddleware
from langchain_core.caches import InMemoryCache
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.output_parsers import JsonOutputParser, StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda, RunnableParallel, RunnablePassthrough
from langchain_core.tools import create_retriever_tool, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.config import get_stream_writer
from langgraph.graph import END, START, MessagesState, StateGraph

from langchain_apps import TEXTS, A, Expected, Index, Q, Scripted, app, calls, join

ANSWER = ChatPromptTemplate.from_template("Answer from the context.\n{context}\nQuestion: {question}")
WRITER = {"Answer from the context": A}
TITLE = "Opening hours of the harbor library on the weekend"
NOT_FOUND = "The documents do not say when the harbor library opens on Saturdays."
WINDOW = f"Opening hours, page 4. {TEXTS['saturday']} Students need their card to enter before noon."


def rag(context: Any, script: dict[str, Any] = WRITER) -> Any:
    """The usual chain around something that makes the context."""
    found = {"context": context, "question": RunnablePassthrough()}
    return found | ANSWER | Scripted(script=script) | StrOutputParser()


class ChatState(MessagesState, total=False):
    """What the nodes of a chat share."""

    documents: list[Document]
    title: str
    follow_ups: list[str]


@app("saturday", "sunday")
def title_and_follow_ups_after_the_answer(config: Any) -> None:
    writer = Scripted(script={"You know": A})
    namer = Scripted(script={"Name this conversation": TITLE})
    asker = Scripted(script={"Suggest questions": json.dumps(["Is it open on Sundays?", "What does a card cost?"])})

    def retrieve(state: ChatState) -> Any:
        return {"documents": Index(names=["saturday", "sunday"]).invoke(state["messages"][-1].text)}

    def write(state: ChatState) -> Any:
        system = SystemMessage(f"You know:\n{join(state['documents'])}")
        return {"messages": [writer.invoke([system, *state["messages"]])]}

    def name(state: ChatState) -> Any:
        said = "\n".join(message.text for message in state["messages"])
        return {"title": namer.invoke(f"Name this conversation:\n{said}").text}

    def suggest(state: ChatState) -> Any:
        prompt = f"Suggest questions.\n{join(state['documents'])}\n{state['messages'][-1].text}"
        return {"follow_ups": (asker | JsonOutputParser()).invoke(prompt)}

    graph = StateGraph(ChatState).add_sequence([retrieve, write])
    graph.add_node("name", name)
    graph.add_node("suggest", suggest)
    graph.add_edge(START, "retrieve")
    graph.add_edge("write", "name")
    graph.add_edge("write", "suggest")
    graph.compile().invoke({"messages": [HumanMessage(Q)]}, config)


@app("saturday", "card")
def moderated_while_it_is_answered(config: Any) -> None:
    moderator = ChatPromptTemplate.from_template("Moderate: {question}") | Scripted(script={"Moderate": "allowed"})
    chain = RunnableParallel(
        answer=itemgetter("question") | rag(Index(names=["saturday", "card"]) | join),
        moderation=moderator | StrOutputParser(),
    )
    done = chain | RunnableLambda(lambda both: both["answer"] if both["moderation"] == "allowed" else "No.")
    done.invoke({"question": Q}, {**config, "max_concurrency": 1})


@app("saturday", "branch")
def verified_by_searches_of_its_own(config: Any) -> None:
    draft = "The harbor library opens at ten on Saturdays, and so does the hill branch."
    index = Index(by_query={"hill": ["branch"], "harbor": ["saturday"]})
    script = {"Revise": A, "Answer from the context": draft, "Check": "When does the hill branch open on Saturdays?"}
    model = Scripted(script=script)

    def ask(question: str) -> str:
        first = (ANSWER | model).invoke({"context": join(index.invoke(question)), "question": question}).text
        check = model.invoke(f"Check: which question tests this draft?\n{first}").text
        facts = join(index.invoke(check))
        return model.invoke(f"Revise the draft: {first}\nFacts: {facts}\nQuestion: {question}").text

    RunnableLambda(ask).invoke(Q, config)


@app("saturday", "rooms")
def second_index_after_i_do_not_know(config: Any) -> None:
    first = rag(Index(names=["ferry", "card"]) | join, {"Answer from the context": NOT_FOUND})
    second = rag(Index(names=["saturday", "rooms"]) | join)

    def ask(question: str) -> Any:
        answer = first.invoke(question)
        return second if "do not say" in answer else answer

    RunnableLambda(ask).invoke(Q, config)


@app(WINDOW)
def larger_text_kept_in_the_metadata(config: Any) -> None:
    class Windows(BaseRetriever):
        def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
            return [Document(TEXTS["saturday"], id="saturday", metadata={"window": WINDOW, "page": 4})]

    rag(Windows() | (lambda found: "\n".join(one.metadata["window"] for one in found))).invoke(Q, config)


@app("saturday")
def question_indexed_and_text_kept_in_the_metadata(config: Any) -> None:
    class Questions(BaseRetriever):
        def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
            asked = "What are the opening hours of the library at the harbor on a Saturday?"
            return [Document(asked, id="q-17", metadata={"original_text": TEXTS["saturday"]})]

    rag(Questions() | (lambda found: "\n".join(one.metadata["original_text"] for one in found))).invoke(Q, config)


@app("saturday", "sunday", "card")
def searches_in_a_pool_of_threads(config: Any) -> None:
    index = Index(by_query={"Sunday": ["sunday", "card"], "Saturday": ["saturday", "sunday"]})
    planner = Scripted(script={"Split": "opening hours on Saturday\nopening hours on Sunday"})

    def search(question: str) -> str:
        queries = planner.invoke(f"Split: {question}").text.splitlines()
        with ThreadPoolExecutor(1) as pool:
            found = [pool.submit(copy_context().run, index.invoke, query) for query in queries]
        unique = {one.id: one for waiting in found for one in waiting.result()}
        return join([*unique.values()])

    rag(RunnableLambda(search)).invoke(Q, config)


USERS = [
    (f"When does room {n} open?", f"Room {n} opens at {n} in the afternoon, and closes an hour later.")
    for n in range(1, 9)
]


@app(requests=[Expected([found], asked, found.replace("closes", "it closes")) for asked, found in USERS])
def many_users_at_once(config: Any) -> None:
    class Rooms(BaseRetriever):
        def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
            raise NotImplementedError

        async def _aget_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
            await asyncio.sleep(0)
            return [Document(found) for asked, found in USERS if asked == query]

    chain = rag(Rooms() | join, {found: found.replace("closes", "it closes") for _, found in USERS})

    async def ask(question: str, before: asyncio.Event, after: asyncio.Event) -> None:
        pieces = chain.astream(question, config)
        first = await anext(pieces)
        await before.wait()  # all streams are open before the first one ends
        assert first + "".join([piece async for piece in pieces])
        after.set()

    async def go() -> None:
        turns = [asyncio.Event() for _ in range(len(USERS) + 1)]
        async with asyncio.TaskGroup() as group:
            for place, (asked, _) in enumerate(USERS):
                group.create_task(ask(asked, turns[place], turns[place + 1]))
            turns[0].set()

    asyncio.run(go())


@app(requests=[Expected([TEXTS["saturday"]]), Expected([TEXTS["saturday"]])])
def reply_from_the_cache(config: Any) -> None:
    model = Scripted(script=WRITER, cache=InMemoryCache())
    chain = {"context": Index(names=["saturday"]) | join, "question": RunnablePassthrough()} | ANSWER | model
    for _ in range(2):
        (chain | StrOutputParser()).invoke(Q, config)


@app("saturday", "sunday")
def agent_whose_messages_are_summarized(config: Any) -> None:
    summary = "The harbor library opens at ten on Saturdays; on Sundays only its reading room opens, at noon."
    search = create_retriever_tool(Index(names=["saturday", "sunday"]), "search", "Search.")
    shorten = SummarizationMiddleware(
        Scripted(script={TEXTS["sunday"]: summary}),
        trigger=("messages", 5),
        keep=("messages", 1),
        token_counter=lambda messages: sum(len(one.text) for one in messages),
    )
    turns = {
        summary: A,
        TEXTS["sunday"]: calls("clock", zone="local"),
        Q: calls("search", query="opening hours"),
    }

    @tool
    def clock(zone: str) -> str:
        """Tell the time."""
        return "half past nine"

    agent = create_agent(Scripted(script=turns), [search, clock], middleware=[shorten])
    agent.invoke({"messages": [HumanMessage(Q)]}, config)


@app("saturday", "card")
def blocks_of_a_remote_tool(config: Any) -> None:
    @tool
    def search(query: str) -> Any:
        """Search, as a tool of another process that returns blocks."""
        return [{"type": "text", "text": TEXTS[name]} for name in ("saturday", "card")]

    model = Scripted(script={TEXTS["card"]: A, Q: calls("search", query="hours")})
    create_agent(model, [search]).invoke({"messages": [{"role": "user", "content": Q}]}, config)


@app("saturday", "sunday", "card", answer=f"{A}\n\nMore: A library card costs twelve euros, and half for students.")
def short_answer_and_details_by_two_calls(config: Any) -> None:
    more = "A library card costs twelve euros, and half for students."
    model = Scripted(script={"Details": more, "Answer from the context": A})

    def ask(question: str) -> str:
        hours = join(Index(names=["saturday", "sunday"]).invoke(question))
        short = (ANSWER | model).invoke({"context": hours, "question": question}).text
        details = model.invoke(f"Details: {join(Index(names=['card']).invoke('costs'))}\n{question}").text
        return f"{short}\n\nMore: {details}"

    RunnableLambda(ask).invoke(Q, config)


@app("saturday", "sunday")
def tokens_written_to_a_custom_stream(config: Any) -> None:
    class Plain(TypedDict, total=False):
        question: str
        found: list[str]
        final: str

    writer = ANSWER | Scripted(script=WRITER) | StrOutputParser()

    def retrieve(state: Plain) -> Plain:
        return {"found": [one.page_content for one in Index(names=["saturday", "sunday"]).invoke(state["question"])]}

    def write(state: Plain) -> Plain:
        send, pieces = get_stream_writer(), []
        for piece in writer.stream({"context": "\n".join(state["found"]), "question": state["question"]}):
            pieces.append(piece)
            send({"token": piece})
        return {"final": "".join(pieces)}

    graph = StateGraph(Plain).add_sequence([retrieve, write])
    graph.add_edge(START, "retrieve")
    for _ in graph.compile().stream({"question": Q}, config, stream_mode="custom"):
        pass


@app(unknown=True, doubts=["not_in_prompt"])
def neighbors_in_a_graph_of_facts(config: Any) -> None:
    facts = {
        "saturday": "(harbor library) -[opens on Saturdays]-> (10:00)",
        "branch": "(hill branch) -[opens on]-> (weekdays)",
    }
    rag(Index(names=["saturday", "branch"]) | (lambda found: "\n".join(facts[one.id] for one in found))).invoke(
        Q, config
    )


@app("saturday", "sunday")
def answers_sampled_and_compared(config: Any) -> None:
    sampled = "On Saturdays the library by the harbor opens at ten o'clock in the morning."
    writer = Scripted(script={"Answer from the context": [A, sampled, A]})
    judge = Scripted(script={"Which of these": "2"})

    def ask(question: str) -> str:
        given = {"context": join(Index(names=["saturday", "sunday"]).invoke(question)), "question": question}
        answers = [(ANSWER | writer).invoke(given).text for _ in range(3)]
        numbered = "\n".join(f"{place}: {one}" for place, one in enumerate(answers))
        return answers[int(judge.invoke(f"Which of these answers is best?\n{numbered}").text)]

    RunnableLambda(ask).invoke(Q, config)


@app(
    "ferry",
    "saturday",
    answer="The ferry leaves every twenty minutes, and on Saturdays the harbor library opens at ten.",
)
def plan_carried_out_step_by_step(config: Any) -> None:
    index = Index(by_query={"ferry": ["ferry", "rooms"], "opens": ["saturday"]})
    notes = {
        "ferry": "A ferry to the harbor leaves the market square every twenty minutes.",
        "opens": "The harbor library opens at ten in the morning on Saturdays.",
    }
    script = {
        "Write the final answer": "The ferry leaves every twenty minutes, and on Saturdays the harbor library opens at ten.",
        "Plan": "find the ferry\nfind out when it opens",
        "Step: find the ferry": notes["ferry"],
        "Step: find out when it opens": notes["opens"],
    }
    model = Scripted(script=script)

    def run(state: dict[str, Any]) -> str:
        past = []
        for step in model.invoke(f"Plan: {state['question']}").text.splitlines():
            # The first passage only, as a reader would do it with a limit.
            found = index.invoke(step)[:1]
            past.append(model.invoke(f"Step: {step}\n{join(found)}").text)
        return model.invoke("Write the final answer.\n" + "\n".join(past) + f"\n{state['question']}").text

    RunnableLambda(run).invoke({"question": Q}, config)


@app("saturday", "sunday")
def tool_results_sent_by_hand(config: Any) -> None:
    search = create_retriever_tool(Index(names=["saturday", "sunday"]), "search", "Search.")
    model = Scripted(script={TEXTS["sunday"]: A, Q: calls("search", query="hours")}).bind_tools([search])

    def chat(question: str) -> str:
        messages: list[Any] = [HumanMessage(question)]
        while (reply := model.invoke(messages)).tool_calls:
            messages.append(reply)
            messages += [ToolMessage(search.invoke(call["args"]), tool_call_id=call["id"]) for call in reply.tool_calls]
        return reply.text

    RunnableLambda(chat).invoke(Q, config)


@app("saturday", answer=f"{A} (1)")
def citations_checked_and_removed_by_a_function(config: Any) -> None:
    def only_real(given: dict[str, Any]) -> str:
        return str(given["answer"]).replace(" (7)", "")

    class Cited(TypedDict):
        question: str

    found = RunnablePassthrough.assign(docs=itemgetter("question") | Index(names=["saturday", "ferry"]))
    best = found | RunnablePassthrough.assign(context=lambda given: join(given["docs"][:1]))
    written = best | RunnablePassthrough.assign(
        answer=ANSWER | Scripted(script={"Answer from the context": f"{A} (1) (7)"}) | StrOutputParser()
    )
    (written | only_real).with_types(input_type=Cited).invoke({"question": Q}, config)


@app("saturday", "sunday", question="open sat??", answer=A)
def spelling_corrected_before_the_search(config: Any) -> None:
    fixer = Scripted(script={"Correct the spelling": Q})
    chain = RunnablePassthrough() | (lambda text: f"Correct the spelling: {text}") | fixer | StrOutputParser()
    (chain | rag(Index(names=["saturday", "sunday"]) | join)).invoke("open sat??", config)


@app("saturday", "sunday", answer="ten in the morning")
def value_taken_out_of_the_reply(config: Any) -> None:
    reply = json.dumps({"time": "ten in the morning", "certain": True, "sources": [1]})
    chain = {"context": Index(names=["saturday", "sunday"]) | join, "question": RunnablePassthrough()} | ANSWER
    chain |= Scripted(script={"Answer from the context": AIMessage(reply)})
    (chain | JsonOutputParser() | itemgetter("time")).invoke(Q, config)


@app(requests=[Expected([TEXTS["saturday"]]), Expected([TEXTS["saturday"]], "And again?", A)])
def graph_with_documents_left_from_the_last_turn(config: Any) -> None:
    writer = Scripted(script={"You know": A})

    def retrieve(state: ChatState) -> Any:
        if "again" in state["messages"][-1].text:
            return {}  # the follow-up uses the documents of the last turn
        return {"documents": Index(names=["saturday"]).invoke(state["messages"][-1].text)}

    def write(state: ChatState) -> Any:
        return {
            "messages": [writer.invoke([SystemMessage(f"You know: {join(state['documents'])}"), *state["messages"]])]
        }

    graph = StateGraph(ChatState).add_sequence([retrieve, write])
    graph.add_edge(START, "retrieve")
    graph.add_edge("write", END)
    built = graph.compile(checkpointer=InMemorySaver())
    thread = {**config, "configurable": {"thread_id": "t"}}
    built.invoke({"messages": [HumanMessage(Q)]}, thread)
    built.invoke({"messages": [HumanMessage("And again?")]}, thread)


@app(
    requests=[
        Expected([TEXTS["saturday"]]),
        Expected([TEXTS["saturday"], TEXTS["sunday"]], "And on Sundays?", "On Sundays only its reading room opens."),
    ]
)
def graph_that_collects_documents_over_turns(config: Any) -> None:
    class Collecting(MessagesState):
        documents: Annotated[list[Document], operator.add]

    writer = Scripted(script={TEXTS["sunday"]: "On Sundays only its reading room opens.", "You know": A})
    index = Index(by_query={"Saturdays": ["saturday"], "Sundays": ["sunday"]})

    def retrieve(state: Collecting) -> Any:
        return {"documents": index.invoke(state["messages"][-1].text)}

    def write(state: Collecting) -> Any:
        known = SystemMessage(f"You know: {join(state['documents'])}")
        return {"messages": [writer.invoke([known, *state["messages"]])]}

    graph = StateGraph(Collecting).add_sequence([retrieve, write])
    graph.add_edge(START, "retrieve")
    graph.add_edge("write", END)
    built = graph.compile(checkpointer=InMemorySaver())
    thread = {**config, "configurable": {"thread_id": "t"}}
    built.invoke({"messages": [HumanMessage(Q)]}, thread)
    built.invoke({"messages": [HumanMessage("And on Sundays?")]}, thread)


@app("saturday", "card")
def search_results_to_be_cited(config: Any) -> None:
    @tool
    def search(query: str) -> Any:
        """Search, and return blocks that a model can cite."""
        return [
            {
                "type": "search_result",
                "source": f"{name}.md",
                "title": name,
                "content": [{"type": "text", "text": TEXTS[name]}],
            }
            for name in ("saturday", "card")
        ]

    model = Scripted(script={TEXTS["card"]: A, Q: calls("search", query="hours")})
    create_agent(model, [search]).invoke({"messages": [{"role": "user", "content": Q}]}, config)


@app("saturday", "sunday")
def documents_in_blocks_of_the_prompt(config: Any) -> None:
    def blocks(given: dict[str, Any]) -> list[Any]:
        texts = [{"type": "text", "media_type": "text/plain", "data": one.page_content} for one in given["context"]]
        return [HumanMessage([*({"type": "document", "source": text} for text in texts), {"type": "text", "text": Q}])]

    found = {"context": Index(names=["saturday", "sunday"]), "question": RunnablePassthrough()}
    (found | RunnableLambda(blocks) | Scripted(script={Q: A}) | StrOutputParser()).invoke(Q, config)
