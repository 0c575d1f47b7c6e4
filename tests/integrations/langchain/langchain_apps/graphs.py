"""Applications of LangGraph."""

from __future__ import annotations

import operator
from typing import Annotated, Any, Literal, TypedDict

from langchain.agents import create_agent
from langchain_core.documents import Document
from langchain_core.messages import HumanMessage, SystemMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.tools import create_retriever_tool, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.func import entrypoint, task
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from langgraph.types import Command, Send, interrupt
from pydantic import BaseModel, Field

from langchain_apps import TEXTS, A, Expected, Index, Q, Scripted, app, calls, join

ANSWER = ChatPromptTemplate.from_template("Answer from the context.\n{context}\nQuestion: {question}")
WRITER = {"Answer from the context": A}


class Grade(BaseModel):
    """Whether a passage is relevant."""

    binary_score: Literal["yes", "no"] = Field(description="Relevant: 'yes' or 'no'")


class State(TypedDict, total=False):
    """What the steps share."""

    question: str
    generation: str
    web_search: str
    documents: list[Document]
    tries: int


def build(nodes: dict[str, Any], edges: list[Any], state: Any = State, **options: Any) -> Any:
    """Build a graph; an edge is a pair, or a start with a router."""
    graph = StateGraph(state)
    for name, node in nodes.items():
        graph.add_node(name, node)
    for start, end in edges:
        if callable(end):
            graph.add_conditional_edges(start, end)
        else:
            graph.add_edge(start, end)
    return graph.compile(**options)


@app("saturday", "The town's site says that the harbor library opens at ten on Saturdays, also in summer.")
def corrective_rag(config: Any) -> None:
    model = Scripted(
        script={
            f"Grade: {TEXTS['saturday']}": calls("Grade", binary_score="yes"),
            "Grade: ": calls("Grade", binary_score="no"),
            "better question": "harbor library saturday hours",
            **WRITER,
        }
    )
    grader = ChatPromptTemplate.from_template("Grade: {document}\n{question}") | model.with_structured_output(Grade)

    def retrieve(state: State) -> State:
        return {
            "documents": Index(names=["ferry", "saturday", "card"]).invoke(state["question"]),
            "question": state["question"],
        }

    def grade(state: State) -> State:
        kept, search = [], "No"
        for document in state["documents"]:
            score = grader.invoke({"document": document.page_content, "question": state["question"]})
            if score.binary_score == "yes":
                kept.append(document)
            else:
                search = "Yes"
        return {"documents": kept, "question": state["question"], "web_search": search}

    def rewrite(state: State) -> State:
        better = model.invoke(f"Write a better question: {state['question']}").content
        return {"documents": state["documents"], "question": better}

    def web(state: State) -> State:
        hits = [{"content": "The town's site says that the harbor library opens at ten on Saturdays, also in summer."}]
        found = Document("\n".join(hit["content"] for hit in hits))
        return {"documents": [*state["documents"], found], "question": state["question"]}

    def generate(state: State) -> State:
        chain = ANSWER | model | StrOutputParser()
        answer = chain.invoke({"context": join(state["documents"]), "question": state["question"]})
        return {**state, "generation": answer}

    bot = build(
        {"retrieve": retrieve, "grade": grade, "rewrite": rewrite, "web": web, "generate": generate},
        [
            (START, "retrieve"), ("retrieve", "grade"), ("rewrite", "web"), ("web", "generate"), ("generate", END),
            ("grade", lambda state: "rewrite" if state["web_search"] == "Yes" else "generate"),
        ],
    )  # fmt: skip
    bot.invoke({"question": Q}, config)


@app("saturday", "sunday")
def self_rag_with_a_second_try(config: Any) -> None:
    wrong = "It opens at eight on Saturdays, as libraries usually do in this part of the country."
    model = Scripted(script={"Grounded?": ["no", "yes"], "Answer from the context": [wrong, A]})

    def generate(state: State) -> State:
        text = (ANSWER | model | StrOutputParser()).invoke(
            {"context": join(state["documents"]), "question": state["question"]}
        )
        return {"generation": text, "tries": state.get("tries", 0) + 1}

    def check(state: State) -> str:
        verdict = model.invoke(f"Grounded? {join(state['documents'])}\n{state['generation']}").content
        return END if verdict == "yes" else "generate"

    bot = build(
        {
            "retrieve": lambda s: {"documents": Index(names=["saturday", "sunday"]).invoke(s["question"])},
            "generate": generate,
        },
        [(START, "retrieve"), ("retrieve", "generate"), ("generate", check)],
    )
    bot.invoke({"question": Q}, config)


@app(unknown=True, question="Hello there, who are you?", answer="I am the assistant of the town's libraries.")
def adaptive_rag_without_a_search(config: Any) -> None:
    model = Scripted(script={"Route": "chat", "Chat": "I am the assistant of the town's libraries."})

    def route(state: State) -> str:
        return "chat" if model.invoke(f"Route: {state['question']}").content == "chat" else "retrieve"

    bot = build(
        {
            "retrieve": lambda s: {"documents": Index(names=["card"]).invoke(s["question"])},
            "chat": lambda s: {"generation": model.invoke(f"Chat: {s['question']}").content},
        },
        [(START, route), ("retrieve", END), ("chat", END)],
    )
    bot.invoke({"question": "Hello there, who are you?"}, config)


@app("saturday", "branch")
def agentic_rag_with_a_rewrite_loop(config: Any) -> None:
    better = "What are the Saturday opening hours of the library at the harbor?"
    model = Scripted(
        script={
            "Answer from the context": A,
            f"Relevant? {TEXTS['ferry']}": "no",
            "Relevant? ": "yes",
            "Improve": better,
            better: calls("search", query="saturday hours"),
            Q: calls("search", query="opening"),
        }
    )
    index = Index(by_query={"saturday": ["saturday", "branch"], "opening": ["ferry"]})
    search = create_retriever_tool(index, "search", "Search the handbook.")

    def decide(state: MessagesState) -> Any:
        return {"messages": [model.bind_tools([search]).invoke(state["messages"])]}

    def grade(state: MessagesState) -> str:
        verdict = model.invoke([HumanMessage(f"Relevant? {state['messages'][-1].content}")])
        return "generate" if verdict.content == "yes" else "rewrite"

    def rewrite(state: MessagesState) -> Any:
        reply = model.invoke([HumanMessage(f"Improve: {state['messages'][0].content}")])
        return {"messages": [HumanMessage(reply.content)]}

    def generate(state: MessagesState) -> Any:
        context, question = state["messages"][-1].content, state["messages"][0].content
        return {"messages": [model.invoke(ANSWER.format(context=context, question=question))]}

    graph = StateGraph(MessagesState)
    for name, node in {"decide": decide, "tools": ToolNode([search]), "rewrite": rewrite, "generate": generate}.items():
        graph.add_node(name, node)
    graph.add_edge(START, "decide")
    graph.add_conditional_edges("decide", tools_condition)
    graph.add_conditional_edges("tools", grade, ["rewrite", "generate"])
    graph.add_edge("rewrite", "decide")
    graph.add_edge("generate", END)
    graph.compile().invoke({"messages": [{"role": "user", "content": Q}]}, config)


class Parts(TypedDict, total=False):
    """The state of a graph with a list that parallel steps add to."""

    question: str
    parts: Annotated[list[str], operator.add]
    documents: Annotated[list[Document], operator.add]
    answer: str


@app("saturday", "branch")
def sub_questions_in_parallel(config: Any) -> None:
    first = "The harbor library opens at ten in the morning on Saturdays."
    second = "The hill branch does not open on Saturdays, says the handbook."
    model = Scripted(script={"Combine": A, TEXTS["saturday"]: first, TEXTS["branch"]: second})
    index = Index(by_query={"harbor": ["saturday"], "hill": ["branch"]})

    def research(state: dict[str, str]) -> Any:
        context = join(index.invoke(state["topic"]))
        return {"parts": [model.invoke(f"{context}\nAbout: {state['topic']}").content]}

    def combine(state: Parts) -> Parts:
        parts = "\n".join(sorted(state["parts"]))
        return {"answer": model.invoke(f"Combine:\n{parts}\nQuestion: {state['question']}").content}

    bot = build(
        {"research": research, "combine": combine},
        [
            (START, lambda _: [Send("research", {"topic": "harbor"}), Send("research", {"topic": "hill"})]),
            ("research", "combine"),
            ("combine", END),
        ],
        Parts,
    )
    bot.invoke({"question": Q}, config)


@app("saturday", "branch", "sunday")
def two_retrievers_merged_by_a_reducer(config: Any) -> None:
    def generate(state: Parts) -> Parts:
        unique = {document.page_content: document for document in state["documents"]}
        chain = ANSWER | Scripted(script=WRITER) | StrOutputParser()
        return {"answer": chain.invoke({"context": join([*unique.values()][:3]), "question": state["question"]})}

    bot = build(
        {
            "dense": lambda s: {"documents": Index(names=["saturday", "branch"]).invoke(s["question"])},
            "sparse": lambda s: {"documents": Index(names=["branch", "sunday", "card"]).invoke(s["question"])},
            "generate": generate,
        },
        [(START, "dense"), (START, "sparse"), ("dense", "generate"), ("sparse", "generate"), ("generate", END)],
        Parts,
    )
    bot.invoke({"question": Q}, config)


@app("saturday")
def functional_api(config: Any) -> None:
    @task
    def retrieve(question: str) -> list[Document]:
        return Index(names=["saturday", "rooms"]).invoke(question)

    @task
    def select(documents: list[Document]) -> list[Document]:
        return [document for document in documents if "Saturdays" in document.page_content]

    @task
    def write(question: str, documents: list[Document]) -> str:
        return (ANSWER | Scripted(script=WRITER) | StrOutputParser()).invoke(
            {"context": join(documents), "question": question}
        )

    @entrypoint()
    def bot(question: str) -> dict[str, Any]:
        documents = select(retrieve(question).result()).result()
        return {"answer": write(question, documents).result(), "sources": [d.id for d in documents]}

    bot.invoke(Q, config)


@app(
    requests=[
        Expected([TEXTS["saturday"]], answer=None, status="interrupted"),
        Expected([TEXTS["saturday"]]),
    ]
)
def draft_approved_by_a_person(config: Any) -> None:
    def write(state: State) -> State:
        chain = ANSWER | Scripted(script=WRITER) | StrOutputParser()
        return {"generation": chain.invoke({"context": join(state["documents"]), "question": state["question"]})}

    def approve(state: State) -> State:
        return {"generation": interrupt({"draft": state["generation"]})}

    bot = build(
        {
            "retrieve": lambda s: {"documents": Index(names=["saturday"]).invoke(s["question"])},
            "write": write,
            "approve": approve,
        },
        [(START, "retrieve"), ("retrieve", "write"), ("write", "approve"), ("approve", END)],
        checkpointer=InMemorySaver(),
    )
    threaded = {**config, "configurable": {"thread_id": "t"}}
    bot.invoke({"question": Q}, threaded)
    bot.invoke(Command(resume=A), threaded)


@app("saturday", "sunday")
def supervisor_with_a_research_agent(config: Any) -> None:
    report = "The harbor library opens at ten in the morning on Saturdays; Sundays it is closed."
    worker = Scripted(
        script={TEXTS["saturday"]: report, "Find out": calls("search", query="hours")},
    )
    search = create_retriever_tool(Index(names=["saturday", "sunday"]), "search", "Search.")
    researcher = create_agent(worker, [search], name="researcher")

    @tool
    def research(task: str) -> str:
        """Hand a task to the researcher."""
        result = researcher.invoke({"messages": [HumanMessage(f"Find out: {task}")]})
        return str(result["messages"][-1].content)

    boss = Scripted(script={report: A, Q: calls("research", task="opening hours of the harbor library")})
    create_agent(boss, [research], name="supervisor").invoke({"messages": [HumanMessage(Q)]}, config)


@app(
    requests=[
        Expected([TEXTS["saturday"]]),
        Expected([TEXTS["sunday"]], "And on Sundays?", "Only the reading room opens on Sundays, from noon on."),
    ]
)
def chat_with_a_summary_of_earlier_turns(config: Any) -> None:
    second = "Only the reading room opens on Sundays, from noon on."
    model = Scripted(
        script={"Summarize": "They talked about Saturdays.", TEXTS["sunday"]: second, TEXTS["saturday"]: A}
    )
    index = Index(by_query={"Sundays": ["sunday"], "Saturdays": ["saturday"]})

    class Chat(MessagesState, total=False):
        summary: str
        context: list[Document]

    def retrieve(state: Chat) -> Any:
        return {"context": index.invoke(state["messages"][-1].content)}

    def reply(state: Chat) -> Any:
        system = SystemMessage(f"{state.get('summary', '')}\nContext: {join(state['context'])}")
        return {"messages": [model.invoke([system, *state["messages"][-1:]])]}

    def summarize(state: Chat) -> Any:
        lines = "\n".join(str(message.content) for message in state["messages"])
        return {"summary": model.invoke(f"Summarize: {lines}").content}

    bot = build(
        {"retrieve": retrieve, "reply": reply, "summarize": summarize},
        [(START, "retrieve"), ("retrieve", "reply"), ("reply", "summarize"), ("summarize", END)],
        Chat,
        checkpointer=InMemorySaver(),
    )
    for question in (Q, "And on Sundays?"):
        bot.invoke({"messages": [HumanMessage(question)]}, {**config, "configurable": {"thread_id": "t"}})


@app("card", question="How much is a card, and can I pay half as a student?", answer="Students pay six euros a year.")
def state_as_a_model_with_plain_texts(config: Any) -> None:
    class Case(BaseModel):
        question: str
        context: list[str] = []
        answer: str = ""

    question = "How much is a card, and can I pay half as a student?"

    def retrieve(case: Case) -> dict[str, Any]:
        return {"context": [document.page_content for document in Index(names=["card", "ferry"]).invoke(case.question)]}

    def select(case: Case) -> dict[str, Any]:
        return {"context": [text for text in case.context if "euros" in text]}

    def write(case: Case) -> dict[str, Any]:
        model = Scripted(script={"euros": "Students pay six euros a year."})
        return {"answer": model.invoke(f"{' '.join(case.context)}\n{case.question}").content}

    build(
        {"retrieve": retrieve, "select": select, "write": write},
        [(START, "retrieve"), ("retrieve", "select"), ("select", "write"), ("write", END)],
        Case,
    ).invoke(Case(question=question), config)
