"""Applications in the shapes of recent tutorials: swarms, supervisors, middleware, event streams, loops over sub-questions."""

from __future__ import annotations

import asyncio
import operator
from operator import itemgetter
from typing import Annotated, Any, Literal, TypedDict

from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, wrap_model_call, wrap_tool_call
from langchain.tools import InjectedToolCallId
from langchain_classic.chains import create_history_aware_retriever, create_retrieval_chain
from langchain_classic.chains.combine_documents import create_stuff_documents_chain
from langchain_classic.retrievers import ContextualCompressionRetriever, EnsembleRetriever
from langchain_core.documents import BaseDocumentCompressor, Document
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_core.runnables import RunnableBranch, RunnableLambda, RunnableParallel, RunnablePassthrough
from langchain_core.tools import create_retriever_tool, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import Command, Send
from pydantic import BaseModel

from langchain_apps import TEXTS, A, Expected, Index, Q, Scripted, app, calls, join

ANSWER = ChatPromptTemplate.from_template("Answer from the context.\n{context}\nQuestion: {question}")
WRITER = {"Answer from the context": A}
ASK = {"messages": [{"role": "user", "content": Q}]}
NOTES = "Found in the pages: the harbor library opens at ten on Saturdays, and on Sundays only its reading room opens."


def handoff(to: str) -> Any:
    """Make the tool that hands the conversation to another agent of the same graph."""

    @tool(f"transfer_to_{to}")
    def transfer(tool_call_id: Annotated[str, InjectedToolCallId]) -> Command:
        """Hand the conversation over."""
        done = ToolMessage(f"Successfully transferred to {to}", name=f"transfer_to_{to}", tool_call_id=tool_call_id)
        return Command(goto=to, graph=Command.PARENT, update={"messages": [done]})

    return transfer


@app("saturday", "sunday")
def swarm_that_hands_over(config: Any) -> None:
    search = create_retriever_tool(Index(names=["saturday", "sunday"]), "search", "Search.")
    front = create_agent(Scripted(script={Q: calls("transfer_to_expert")}), [handoff("expert")], name="front")
    expert_model = Scripted(script={TEXTS["sunday"]: A, Q: calls("search", query="opening hours")})
    expert = create_agent(expert_model, [search], name="expert")
    graph = StateGraph(MessagesState)
    graph.add_node("front", front, destinations=("expert",))
    graph.add_node("expert", expert)
    graph.add_edge(START, "front")
    graph.add_edge("expert", END)
    graph.compile().invoke(ASK, config)


@app("saturday", "sunday")
def supervisor_as_a_graph(config: Any) -> None:
    search = create_retriever_tool(Index(names=["saturday", "sunday"]), "search", "Search.")
    worker_model = Scripted(script={TEXTS["sunday"]: NOTES, Q: calls("search", query="hours")})
    worker = create_agent(worker_model, [search], name="researcher")

    class Route(BaseModel):
        next: Literal["researcher", "FINISH"]

    boss = Scripted(script={NOTES: calls("Route", next="FINISH"), Q: calls("Route", next="researcher")})
    writer = Scripted(script={NOTES: A})

    def supervisor(state: MessagesState) -> Command:
        route = boss.with_structured_output(Route).invoke([SystemMessage("Who is next?"), *state["messages"]])
        return Command(goto="writer" if route.next == "FINISH" else "researcher")

    def researcher(state: MessagesState) -> Command:
        last = worker.invoke({"messages": state["messages"]})["messages"][-1]
        return Command(goto="supervisor", update={"messages": [HumanMessage(last.content, name="researcher")]})

    def write(state: MessagesState) -> Any:
        return {"messages": [writer.invoke([SystemMessage("Write the reply."), *state["messages"]])]}

    graph = StateGraph(MessagesState)
    graph.add_node("supervisor", supervisor, destinations=("researcher", "writer"))
    graph.add_node("researcher", researcher, destinations=("supervisor",))
    graph.add_node("writer", write)
    graph.add_edge(START, "supervisor")
    graph.add_edge("writer", END)
    graph.compile().invoke(ASK, config)


@app("saturday", "card")
def middleware_that_adds_passages_to_the_prompt(config: Any) -> None:
    @wrap_model_call
    def add(request: Any, handler: Any) -> Any:
        found = Index(names=["saturday", "card"]).invoke(request.messages[-1].text)
        return handler(request.override(system_message=SystemMessage(f"Facts you may use:\n{join(found)}")))

    create_agent(Scripted(script={"Facts you may use": A}), [], middleware=[add]).invoke(ASK, config)


@app("saturday")
def middleware_that_shortens_the_result_of_a_tool(config: Any) -> None:
    @wrap_tool_call
    def first_only(request: Any, handler: Any) -> Any:
        message = handler(request)
        return message.model_copy(update={"content": message.content.split("\n\n")[0]})

    search = create_retriever_tool(Index(names=["saturday", "card"]), "search", "Search.")
    model = Scripted(script={TEXTS["saturday"]: A, Q: calls("search", query="hours")})
    create_agent(model, [search], middleware=[first_only]).invoke(ASK, config)


@app("sunday", "saturday")
def middleware_that_keeps_the_last_messages(config: Any) -> None:
    class Trim(AgentMiddleware):
        def wrap_model_call(self, request: Any, handler: Any) -> Any:
            kept = [request.messages[0], *request.messages[-2:]] if len(request.messages) > 3 else request.messages
            return handler(request.override(messages=kept))

    index = Index(by_query={"ferry": ["ferry"], "hours": ["sunday", "saturday"]})
    search = create_retriever_tool(index, "search", "Search.")
    script = {
        TEXTS["sunday"]: A,
        TEXTS["ferry"]: calls("search", query="hours"),
        Q: calls("search", query="ferry"),
    }
    create_agent(Scripted(script=script), [search], middleware=[Trim()]).invoke(ASK, config)


@app("saturday", "sunday")
def events_of_a_chain(config: Any) -> None:
    index = Index(names=["saturday", "sunday"])
    chain = (
        {"context": index | join, "question": RunnablePassthrough()}
        | ANSWER
        | Scripted(script=WRITER)
        | StrOutputParser()
    )

    async def go() -> list[str]:
        events = chain.astream_events(Q, config, version="v2")
        return [e["data"]["chunk"].content async for e in events if e["event"] == "on_chat_model_stream"]

    assert A == "".join(asyncio.run(go()))


@app("saturday", "sunday")
def tokens_of_an_agent(config: Any) -> None:
    search = create_retriever_tool(Index(names=["saturday", "sunday"]), "search", "Search.")
    agent = create_agent(Scripted(script={TEXTS["sunday"]: A, Q: calls("search", query="hours")}), [search])

    async def go() -> None:
        async for _ in agent.astream(ASK, config, stream_mode=["messages", "updates"]):
            pass

    asyncio.run(go())


@app("saturday", "branch")
def reranked_in_parallel_with_sources(config: Any) -> None:
    class Best(BaseModel):
        order: list[int]

    ranker = Scripted(script={"Rank": calls("Best", order=[2, 0])}).with_structured_output(Best)

    def rerank(given: dict[str, Any]) -> list[Document]:
        numbered = "\n".join(f"{place}: {one.page_content}" for place, one in enumerate(given["found"]))
        best = ranker.invoke(f"Rank the passages for {given['question']}\n{numbered}")
        return [given["found"][place] for place in best.order]

    found = RunnableParallel(found=Index(names=["branch", "ferry", "saturday"]), question=RunnablePassthrough())
    write = ANSWER | Scripted(script=WRITER) | StrOutputParser()
    answer = RunnablePassthrough.assign(
        answer=RunnablePassthrough.assign(context=lambda given: join(given["context"])) | write
    )
    chain = found | RunnableParallel(context=RunnableLambda(rerank), question=itemgetter("question")) | answer
    assert A == chain.invoke(Q, config)["answer"]


EARLIER = [HumanMessage("Which libraries are there?"), AIMessage("The harbor library and the hill branch.")]


@app("saturday", "sunday", question="And when does the first one open on Saturdays?")
def history_aware_chain_of_the_tutorial(config: Any) -> None:
    condense = ChatPromptTemplate.from_messages(
        [("system", "Make the question stand alone."), MessagesPlaceholder("chat_history"), ("human", "{input}")]
    )
    answer = ChatPromptTemplate.from_messages(
        [("system", "Use the context.\n\n{context}"), MessagesPlaceholder("chat_history"), ("human", "{input}")]
    )
    model = Scripted(script={"stand alone": Q, "Use the context": A})
    retriever = create_history_aware_retriever(model, Index(names=["saturday", "sunday"]), condense)
    chain = create_retrieval_chain(retriever, create_stuff_documents_chain(model, answer))
    question = "And when does the first one open on Saturdays?"
    chain.invoke({"input": question, "chat_history": EARLIER}, config)


@app(requests=[Expected(None, "Thanks a lot!", "You are welcome."), Expected([TEXTS["saturday"], TEXTS["card"]])])
def small_talk_takes_another_branch(config: Any) -> None:
    model = Scripted(script={"Small talk": "You are welcome.", "Answer from the context": A})
    rag = {"context": Index(names=["saturday", "card"]) | join, "question": RunnablePassthrough()} | ANSWER | model
    talk = ChatPromptTemplate.from_template("Small talk: {question}") | model
    branch = RunnableBranch((lambda text: "Thanks" in text, talk), rag) | StrOutputParser()
    branch.invoke("Thanks a lot!", config)
    branch.invoke(Q, config)


@app(
    requests=[
        Expected([TEXTS["saturday"]]),
        Expected([TEXTS["card"]], "What does a card cost?", "A card costs twelve euros a year."),
    ]
)
def batch_of_questions(config: Any) -> None:
    script = {TEXTS["saturday"]: A, TEXTS["card"]: "A card costs twelve euros a year."}
    index = Index(by_query={"card": ["card"], "Saturdays": ["saturday"]})
    context = {"context": index | join, "question": RunnablePassthrough()}
    chain = context | ANSWER | Scripted(script=script) | StrOutputParser()
    chain.batch([Q, "What does a card cost?"], {**config, "max_concurrency": 1})


class Wide(TypedDict, total=False):
    """What the steps of the next graphs share."""

    question: str
    queries: list[str]
    document: Document
    kept: Annotated[list[Document], operator.add]
    notes: Annotated[list[str], operator.add]
    answer: str


@app("saturday", "sunday")
def documents_graded_in_parallel(config: Any) -> None:
    grader = Scripted(script={TEXTS["ferry"]: "no", "Relevant?": "yes"})
    writer = ANSWER | Scripted(script=WRITER) | StrOutputParser()

    def retrieve(state: Wide) -> Command:
        found = Index(names=["ferry", "saturday", "sunday"]).invoke(state["question"])
        return Command(goto=[Send("grade", {"question": state["question"], "document": one}) for one in found])

    def grade(state: Wide) -> Wide:
        document = state["document"]
        verdict = grader.invoke(f"Relevant? {state['question']}\n{document.page_content}").content
        return {"kept": [document] if verdict == "yes" else []}

    def write(state: Wide) -> Wide:
        ordered = sorted(state["kept"], key=lambda one: one.page_content, reverse=True)
        return {"answer": writer.invoke({"context": join(ordered), "question": state["question"]})}

    graph = StateGraph(Wide)
    graph.add_node("retrieve", retrieve, destinations=("grade",))
    graph.add_node("grade", grade)
    graph.add_node("write", write, defer=True)
    graph.add_edge(START, "retrieve")
    graph.add_edge("grade", "write")
    graph.add_edge("write", END)
    graph.compile().invoke({"question": Q}, config)


@app("saturday", "branch")
def two_hops(config: Any) -> None:
    index = Index(by_query={"hill": ["branch"], "harbor": ["saturday"]})
    planner = Scripted(script={"What is still missing": "opening hours of the hill branch"})
    chain = ANSWER | Scripted(script=WRITER) | StrOutputParser()

    def ask(question: str) -> str:
        first = index.invoke(question)
        follow_up = planner.invoke(f"What is still missing?\n{join(first)}\n{question}").content
        return str(chain.invoke({"context": join([*first, *index.invoke(follow_up)]), "question": question}))

    RunnableLambda(ask).invoke(Q, config)


@app("saturday", "sunday")
def draft_criticized_and_revised(config: Any) -> None:
    critic = Scripted(script={"Criticize": "The draft does not say that the library opens in the morning."})
    draft = "The library by the harbor opens at ten o'clock on Saturdays, as always."
    writer = Scripted(script={"Revise": A, "Answer from the context": draft})

    def retrieve(state: Wide) -> Wide:
        return {"kept": Index(names=["saturday", "sunday"]).invoke(state["question"])}

    def write(state: Wide) -> Wide:
        return {"answer": (ANSWER | writer).invoke({"context": join(state["kept"]), **state}).content}

    def revise(state: Wide) -> Wide:
        critique = critic.invoke(f"Criticize: {state['answer']}").content
        prompt = f"Revise the draft.\nContext: {join(state['kept'])}\nDraft: {state['answer']}\nCritique: {critique}"
        return {"answer": writer.invoke(prompt).content}

    graph = StateGraph(Wide).add_sequence([retrieve, write, revise])
    graph.add_edge(START, "retrieve")
    graph.compile().invoke({"question": Q}, config)


@app("saturday", "sunday")
def guards_before_and_after(config: Any) -> None:
    guard = Scripted(script={"Is this answer safe": A, "Is this question safe": "safe"})
    chain = {"context": Index(names=["saturday", "sunday"]) | join, "question": RunnablePassthrough()} | ANSWER
    chain |= Scripted(script=WRITER) | StrOutputParser()

    def ask(question: str) -> str:
        if guard.invoke(f"Is this question safe? {question}").content != "safe":
            return "I cannot help with that."
        answer = chain.invoke(question)
        return str(guard.invoke(f"Is this answer safe? Return it with dangerous parts removed.\n{answer}").content)

    RunnableLambda(ask).invoke(Q, config)


@app("Saturdays: opens at ten in the morning, closes at four in the afternoon.", "saturday")
def compressed_and_fused(config: Any) -> None:
    class Shorten(BaseDocumentCompressor):
        def compress_documents(self, documents: Any, query: str, callbacks: Any = None) -> Any:
            short = "Saturdays: opens at ten in the morning, closes at four in the afternoon."
            return [Document(short, metadata=one.metadata) for one in documents if "Saturdays" in one.page_content]

    short = ContextualCompressionRetriever(base_compressor=Shorten(), base_retriever=Index(names=["ferry", "saturday"]))
    both = EnsembleRetriever(retrievers=[short, Index(names=["saturday"])], weights=[0.7, 0.3])
    chain = {"context": both | join, "question": RunnablePassthrough()} | ANSWER | Scripted(script=WRITER)
    (chain | StrOutputParser()).invoke(Q, config)


@app("saturday", "card")
def model_that_fails_and_falls_back(config: Any) -> None:
    def down(prompt: Any) -> Any:
        raise ConnectionError("the first model is down")

    model = RunnableLambda(down).with_fallbacks([Scripted(script=WRITER)])
    chain = {"context": Index(names=["saturday", "card"]) | join, "question": RunnablePassthrough()} | ANSWER | model
    (chain | StrOutputParser()).invoke(Q, config)


@app(
    requests=[
        Expected([TEXTS["card"]], "What does a card cost?", "A card costs twelve euros a year."),
        Expected([TEXTS["saturday"], TEXTS["sunday"]], doubts=["passages_from_earlier_turn"]),
    ]
)
def second_turn_of_an_agent_with_a_memory(config: Any) -> None:
    index = Index(by_query={"card": ["card"], "hours": ["saturday", "sunday"]})
    script = {
        TEXTS["sunday"]: A,
        Q: calls("search", query="opening hours"),
        TEXTS["card"]: "A card costs twelve euros a year.",
        "What does a card cost?": calls("search", query="card"),
    }
    search = create_retriever_tool(index, "search", "Search.")
    agent = create_agent(Scripted(script=script), [search], checkpointer=InMemorySaver())
    thread = {**config, "configurable": {"thread_id": "t-1"}}
    agent.invoke({"messages": [HumanMessage("What does a card cost?")]}, thread)
    agent.invoke(ASK, thread)


@app(
    requests=[
        Expected([TEXTS["card"]], "What does a card cost?", "A card costs twelve euros a year."),
        Expected([TEXTS["card"], TEXTS["saturday"], TEXTS["sunday"]]),
    ]
)
def second_turn_of_an_agent_whose_memory_has_artifacts(config: Any) -> None:
    index = Index(by_query={"card": ["card"], "hours": ["saturday", "sunday"]})
    script = {
        TEXTS["sunday"]: A,
        Q: calls("search", query="opening hours"),
        TEXTS["card"]: "A card costs twelve euros a year.",
        "What does a card cost?": calls("search", query="card"),
    }
    search = create_retriever_tool(index, "search", "Search.", response_format="content_and_artifact")
    agent = create_agent(Scripted(script=script), [search], checkpointer=InMemorySaver())
    thread = {**config, "configurable": {"thread_id": "t-1"}}
    agent.invoke({"messages": [HumanMessage("What does a card cost?")]}, thread)
    agent.invoke(ASK, thread)
