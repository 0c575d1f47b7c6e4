"""Programs of 2026, as applications write them: each says what a careful reader of its prompts would write down."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import Annotated, Any, TypedDict

import pytest
from langchain.agents import AgentState, create_agent
from langchain.agents.middleware import AgentMiddleware, SummarizationMiddleware, TodoListMiddleware
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.documents import Document
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import ToolException, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.func import entrypoint, task
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command, Send

from langchain_ragstone import RagstoneCallbackHandler, ragstone_disable, ragstone_enable
from ragstone.testing import MemoryRecorder

Q = "Can I return the pump after three weeks, and who pays the postage?"
RETURNS = (
    "Returns. You may return any unused device within 30 days of delivery. The original packaging must be included. "
    "Opened filters and seals cannot be returned for reasons of hygiene."
)
POSTAGE = "Postage. For returns within Germany we send you a prepaid label. From other countries you pay the postage yourself."
WARRANTY = (
    "Warranty. The pump has a warranty of two years from the day of purchase. Wear of the impeller is not covered."
)
OPENING = "The shop in Hamburg is open from Monday to Saturday between 9 and 18, and closed on public holidays."
ANSWER = (
    "Yes. You can return an unused pump within 30 days, so three weeks is fine. Inside Germany we send you a prepaid label; "
    "from elsewhere you pay the postage yourself."
)
PAGE = "\n\n".join(
    f"{n}. {ANSWER} Keep the original packaging until you are sure that the pump fits." for n in range(1, 15)
)


class Model(GenericFakeChatModel):
    """Replies in turn, and may be bound to tools."""

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        """Take the tools."""
        return self


def says(*replies: Any) -> Model:
    """A model that gives these replies: texts, messages, or lists of calls of tools."""
    messages = []
    for reply in replies:
        if isinstance(reply, list):
            calls = [{"name": name, "args": args, "id": f"{name}-{n}"} for n, (name, args) in enumerate(reply)]
            messages.append(AIMessage("", tool_calls=calls))
        else:
            messages.append(AIMessage(reply) if isinstance(reply, str) else reply)
    return Model(messages=iter([*messages, AIMessage("one reply too many"), AIMessage("one reply too many")]))


class Shop(BaseRetriever):
    """A retriever over the pages of a shop."""

    pages: list[str] = [RETURNS, POSTAGE]  # noqa: RUF012 - pydantic copies it

    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        return [Document(page, id=page[:4], metadata={"source": "shop.md"}) for page in self.pages]


@tool(response_format="content_and_artifact")
def search_shop(query: str) -> Any:
    """Search the pages of the shop."""
    found = Shop().invoke(query)
    return "\n\n".join(one.page_content for one in found), found


def shown(documents: Any) -> str:
    """Format documents for a prompt."""
    return "\n---\n".join(one.page_content for one in documents)


class Ran:
    """What a program is given, and what it left."""

    def __init__(self) -> None:
        self.recorder = MemoryRecorder()
        self.handler = RagstoneCallbackHandler(self.recorder)
        self.config: Any = {"callbacks": [self.handler]}


PROGRAMS: dict[str, tuple[Any, Any]] = {}


def program(contexts, answer=ANSWER, query=Q, doubts=(), requests=1):
    """Add a program with what it is expected to leave."""

    def add(function):
        PROGRAMS[function.__name__] = (function, (query, contexts, answer, doubts, requests))
        return function

    return add


ask = {"messages": [("user", Q)]}


@program([RETURNS, POSTAGE], PAGE)
def agent_with_a_summary_of_the_conversation(ran):
    """The summary of earlier turns is written by a model before the agent searches."""
    history = [m for n in range(8) for m in (("user", f"Question {n} about the filter?"), ("ai", f"Answer {n}. " * 9))]
    middleware = SummarizationMiddleware(
        model=says("The user asked about filters."), trigger=("messages", 10), keep=("messages", 3)
    )
    agent = create_agent(says([("search_shop", {"query": "returns"})], PAGE), [search_shop], middleware=[middleware])
    agent.invoke({"messages": [*history, ("user", Q)]}, ran.config)


@program([RETURNS, POSTAGE])
def deep_agent(ran):
    """A plan, files in the state, and a sub-agent as a tool that answers in a word."""
    sub = create_agent(says([("search_shop", {"query": "returns"})], "30 days, prepaid label."), [search_shop])

    @tool
    def task(description: str) -> str:
        """Give a task to the sub-agent."""
        return sub.invoke({"messages": [("user", description)]})["messages"][-1].text

    @tool
    def write_file(path: str, content: str) -> Any:
        """Write a file."""
        files = {path: {"content": content, "modified_at": "now"}}
        note = ToolMessage(f"Updated file {path}", tool_call_id="write_file-0")
        return Command(update={"files": files, "messages": [note]})

    class WithFiles(AgentState):
        files: dict[str, Any]

    class Files(AgentMiddleware):
        state_schema = WithFiles
        tools = [task, write_file]  # noqa: RUF012

    todos = {"todos": [{"content": "Find the rules for returns and for postage", "status": "in_progress"}]}
    model = says(
        [("write_todos", todos)],
        [("task", {"description": "Find out how long returns are possible"})],
        [("write_file", {"path": "notes.md", "content": "Returns are possible for 30 days, with a prepaid label."})],
        ANSWER,
    )
    create_agent(model, [], middleware=[TodoListMiddleware(), Files()]).invoke(ask, ran.config)


@program([RETURNS, POSTAGE])
def functional_api(ran):
    """An entrypoint with tasks."""

    @task
    def retrieve(question):
        return Shop().invoke(question)

    @task
    def generate(question, found):
        return says(ANSWER).invoke(f"Pages of the shop:\n{shown(found)}\n\nCustomer: {question}").content

    @entrypoint(checkpointer=InMemorySaver())
    def flow(question):
        return generate(question, retrieve(question).result()).result()

    flow.invoke(Q, {**ran.config, "configurable": {"thread_id": "1"}})


@program([RETURNS, POSTAGE])
def tool_of_mcp(ran):
    """The adapter of MCP returns blocks of text, and nothing else was retrieved."""

    @tool
    def shop_search(query: str) -> Any:
        """Search."""
        return [{"type": "text", "text": RETURNS}, {"type": "text", "text": POSTAGE}]

    create_agent(says([("shop_search", {"query": "returns"})], ANSWER), [shop_search]).invoke(ask, ran.config)


def worker(reply, pages):
    """An agent that searches and answers."""

    @tool
    def lookup(query: str) -> list[Any]:
        """Search."""
        return Shop(pages=pages).invoke(query)

    return create_agent(says([("lookup", {"query": "rules"})], reply), [lookup])


@program([RETURNS, POSTAGE])
def supervisor(ran):
    """A supervisor asks two experts one after the other, whose last messages come back under their names."""

    class Team(TypedDict):
        messages: Annotated[list[AnyMessage], add_messages]

    def expert(name, reply, pages):
        agent = worker(reply, pages)

        def node(state):
            last = agent.invoke({"messages": state["messages"]})["messages"][-1]
            return Command(goto="boss", update={"messages": [AIMessage(last.content, name=name)]})

        return node

    model = says("to returns", "to postage", ANSWER)

    def boss(state):
        system = SystemMessage("You lead a team. Answer when both experts have spoken.")
        reply = model.invoke([system, *state["messages"]])
        goto = {"to returns": "returns", "to postage": "postage"}.get(reply.content, END)
        return Command(goto=goto, update={"messages": [reply]} if goto == END else {})

    graph = StateGraph(Team)
    graph.add_node("boss", boss)
    graph.add_node("returns", expert("returns", "30 days.", [RETURNS]))
    graph.add_node("postage", expert("postage", "Prepaid in Germany, otherwise the customer pays.", [POSTAGE]))
    graph.add_edge(START, "boss")
    graph.compile().invoke(ask, ran.config)


@program([RETURNS, POSTAGE])
def swarm(ran):
    """Agents hand over with the whole history, in a graph of agents."""

    class Crew(TypedDict):
        messages: Annotated[list[AnyMessage], add_messages]
        active_agent: str

    @tool
    def transfer_to_returns(reason: str) -> Any:
        """Hand over."""
        said = [HumanMessage(Q), AIMessage("", tool_calls=[{"name": "transfer_to_returns", "args": {}, "id": "h"}])]
        note = ToolMessage(
            "Successfully transferred to the returns desk, which knows all rules about returns, refunds and postage.",
            tool_call_id="h",
            name="transfer_to_returns",
        )
        return Command(
            goto="returns", graph=Command.PARENT, update={"messages": [*said, note], "active_agent": "returns"}
        )

    desk = create_agent(says([("transfer_to_returns", {"reason": "returns"})]), [transfer_to_returns], name="desk")
    returns = create_agent(says([("search_shop", {"query": "returns"})], ANSWER), [search_shop], name="returns")
    graph = StateGraph(Crew)
    graph.add_node("desk", desk, destinations=("returns",))
    graph.add_node("returns", returns)
    graph.add_edge(START, "desk")
    graph.compile().invoke({**ask, "active_agent": "desk"}, ran.config)


FOUND = [
    {"file_id": "f1", "filename": "returns.md", "score": 0.9, "text": RETURNS, "attributes": {}},
    {"file_id": "f2", "filename": "postage.md", "score": 0.8, "text": POSTAGE, "attributes": {}},
]


@program([RETURNS, POSTAGE])
def responses_api_in_a_chain(ran):
    """The blocks of a reply hold what the provider found."""
    reply = AIMessage(
        [{"type": "file_search_call", "id": "fs", "queries": ["returns"], "status": "completed", "results": FOUND},
         {"type": "text", "text": ANSWER, "annotations": []}]
    )  # fmt: skip
    (ChatPromptTemplate.from_template("{question}") | says(reply)).invoke({"question": Q}, ran.config)


@program([RETURNS, POSTAGE])
def responses_api_of_an_older_version(ran):
    """The same in the additional arguments of the message."""
    outputs = [{"type": "file_search_call", "id": "fs", "queries": ["returns"], "results": FOUND}]
    reply = AIMessage(ANSWER, additional_kwargs={"tool_outputs": outputs})
    create_agent(says(reply), []).invoke(ask, ran.config)


@program([RETURNS, POSTAGE])
def responses_api_with_standard_blocks(ran):
    """The same in LangChain's own blocks."""
    reply = AIMessage(
        [{"type": "server_tool_call", "name": "file_search", "id": "fs", "args": {"queries": ["returns"]}},
         {"type": "server_tool_result", "tool_call_id": "fs", "output": FOUND, "status": "success"},
         {"type": "text", "text": ANSWER}]
    )  # fmt: skip
    create_agent(says(reply), []).invoke(ask, ran.config)


def event(kind, **fields):
    return SimpleNamespace(type=kind, **fields)


@program([RETURNS, POSTAGE])
def stream_of_the_responses_api_in_a_block(ran):
    """The last event holds the whole response."""
    output = [
        {"type": "file_search_call", "results": FOUND},
        {"type": "message", "content": [{"type": "output_text", "text": ANSWER}]},
    ]
    done = SimpleNamespace(model="gpt-5", usage=None, output=output)
    words = [event("response.output_text.delta", delta=f"{word} ") for word in ANSWER.split(" ")]
    words[-1] = event("response.output_text.delta", delta=ANSWER.rpartition(" ")[2])
    with ran.recorder.request(Q) as request:
        request.prompt([{"role": "developer", "content": "Answer for the shop."}, {"role": "user", "content": Q}])
        for _ in request.answer(
            iter([event("response.created", response=done), *words, event("response.completed", response=done)])
        ):
            pass


@program([RETURNS, POSTAGE])
def search_results_of_anthropic_from_a_tool(ran):
    """A tool returns blocks that the model can cite."""

    @tool
    def shop_search(query: str) -> Any:
        """Search."""
        return [
            {"type": "search_result", "source": f"https://shop.example/{n}", "title": page[:7],
             "content": [{"type": "text", "text": page}], "citations": {"enabled": True}}
            for n, page in enumerate([RETURNS, POSTAGE])
        ]  # fmt: skip

    create_agent(says([("shop_search", {"query": "returns"})], ANSWER), [shop_search]).invoke(ask, ran.config)


@program([RETURNS, POSTAGE])
def memories_of_the_user_from_a_store(ran):
    """Long-term memory is put into the prompt, next to the retrieved pages."""
    store = InMemoryStore()
    store.put(("u1",), "m1", {"content": "The customer lives in Flensburg and has bought two pumps since 2019."})

    class Asked(TypedDict):
        question: str
        memories: list[Any]
        documents: list[Document]
        answer: str

    def recall(state, *, store):
        return {"memories": [{"id": item.key, "content": item.value["content"]} for item in store.search(("u1",))]}

    def answer(state):
        known = "\n".join(item["content"] for item in state["memories"])
        prompt = f"About the customer: {known}\n\nPages:\n{shown(state['documents'])}\n\n{state['question']}"
        return {"answer": says(ANSWER).invoke(prompt).content}

    graph = StateGraph(Asked)
    graph.add_node("recall", recall)
    graph.add_node("retrieve", lambda state: {"documents": Shop().invoke(state["question"])})
    graph.add_node("answer", answer)
    for a, b in ((START, "recall"), ("recall", "retrieve"), ("retrieve", "answer")):
        graph.add_edge(a, b)
    graph.compile(store=store).invoke({"question": Q}, ran.config)


@program([RETURNS])
def corrective_rag(ran):
    """Documents are graded, the question is rewritten, and a second search finds what is shown."""

    class Asked(TypedDict):
        question: str
        rewritten: str
        documents: list[Document]
        generation: str

    def retrieve(state):
        pages = [RETURNS, OPENING] if state.get("rewritten") else [OPENING, WARRANTY]
        return {"documents": Shop(pages=pages).invoke(state.get("rewritten") or state["question"])}

    def grade(state):
        kept = []
        for document in state["documents"]:
            grade = "yes" if document.page_content == RETURNS else "no"
            reply = says(json.dumps({"binary_score": grade})).invoke(
                f"Is this page relevant for the question? Say yes or no.\n\n{document.page_content}\n\n{state['question']}"
            )
            kept += [document] if json.loads(reply.content)["binary_score"] == "yes" else []
        return {"documents": kept}

    def rewrite(state):
        return {
            "rewritten": says("rules for returning a pump")
            .invoke(f"Improve this question: {state['question']}")
            .content
        }

    def generate(state):
        prompt = ChatPromptTemplate.from_template("Answer yes or no first.\n{context}\n{question}")
        reply = (prompt | says(ANSWER)).invoke({"context": shown(state["documents"]), "question": state["question"]})
        return {"generation": reply.content}

    graph = StateGraph(Asked)
    for node in (retrieve, grade, rewrite, generate):
        graph.add_node(node.__name__, node)
    graph.add_edge(START, "retrieve")
    graph.add_edge("retrieve", "grade")
    graph.add_conditional_edges("grade", lambda state: "generate" if state["documents"] else "rewrite")
    graph.add_edge("rewrite", "retrieve")
    graph.compile().invoke({"question": Q}, ran.config)


@program([RETURNS, POSTAGE], "Yes.")
def one_word_from_a_tool_and_one_word_as_the_answer(ran):
    """A tool that asks a chain, next to a calculator."""

    @tool
    def rules(question: str) -> str:
        """Answer a question about the rules of the shop."""
        prompt = ChatPromptTemplate.from_template("{context}\n{question}")
        return (prompt | says("Yes")).invoke({"context": shown(Shop().invoke(question)), "question": question}).text

    @tool
    def calculator(expression: str) -> str:
        """Calculate."""
        return "21"

    calls = [("rules", {"question": "Are 21 days fine?"}), ("calculator", {"expression": "3 * 7"})]
    create_agent(says(calls, "Yes."), [rules, calculator]).invoke(ask, ran.config)


@program([RETURNS, POSTAGE])
def map_reduce_in_a_block(ran):
    """The block states nothing: its answer is what the graph returns."""

    class Parts(TypedDict):
        question: str
        notes: Annotated[list[str], lambda a, b: a + b]
        answer: str

    def take(state):
        reply = says(f"This page says in short: {state['page'][9:60]}").invoke(f"Note what matters:\n{state['page']}")
        return {"notes": [reply.content]}

    def reduce(state):
        answer = says(ANSWER).invoke("Notes:\n" + "\n".join(state["notes"]) + "\n" + state["question"]).content
        says("polite").invoke(f"Which tone has this text? {answer}")
        return {"answer": answer}

    def split(state):
        return [Send("take", {"page": one.page_content}) for one in Shop().invoke(state["question"])]

    graph = StateGraph(Parts)
    graph.add_node("take", take)
    graph.add_node("reduce", reduce)
    graph.add_conditional_edges(START, split, ["take"])
    graph.add_edge("take", "reduce")
    with ran.recorder.request(Q):
        graph.compile().invoke({"question": Q, "notes": []}, ran.config)


class Langfuse(BaseCallbackHandler):
    """The handler of another tool, as a node passes it."""


@program([RETURNS, POSTAGE])
def node_with_the_handler_of_another_tool(ran):
    """The process is captured as a whole, and each node passes a handler of its own."""

    class Asked(TypedDict):
        question: str
        documents: list[Document]
        answer: str

    other = {"callbacks": [Langfuse()]}

    async def retrieve(state):
        return {"documents": await Shop().ainvoke(state["question"], other)}

    async def answer(state):
        chain = ChatPromptTemplate.from_template("{context}\n\n{question}") | says(ANSWER)
        reply = await chain.ainvoke({"context": shown(state["documents"]), "question": state["question"]}, other)
        return {"answer": reply.content}

    graph = StateGraph(Asked)
    graph.add_node("retrieve", retrieve)
    graph.add_node("generate", answer)
    graph.add_edge(START, "retrieve")
    graph.add_edge("retrieve", "generate")
    ragstone_enable(ran.recorder)
    try:
        asyncio.run(graph.compile().ainvoke({"question": Q}))
    finally:
        ragstone_disable()


@program([RETURNS, POSTAGE])
def observed_stream_of_an_agent(ran):
    """A decorated generator passes the tokens on. A tool fails before the search."""

    @tool
    def old_search(query: str) -> str:
        """Search the old shop."""
        raise ToolException(
            "The old index was removed on the first of March. Please use the new one, which has all pages."
        )

    old_search.handle_tool_error = True
    model = says([("old_search", {"query": "returns"})], [("search_shop", {"query": "returns"})], ANSWER)
    agent = create_agent(model, [old_search, search_shop])

    @ran.recorder.observe(question="question")
    async def answer(question):
        async for update in agent.astream({"messages": [("user", question)]}, ran.config, stream_mode="updates"):
            for wrote in update.values():
                message = wrote["messages"][-1]
                if message.type == "ai" and message.text:
                    yield message.text

    async def read():
        return [text async for text in answer(Q)]

    asyncio.run(read())


@program([RETURNS, POSTAGE])
def plan_and_execute(ran):
    """A planner writes steps with ids into the state, and each of them is executed and shown."""

    class Planned(TypedDict):
        input: str
        plan: list[Any]
        past_steps: Annotated[list[Any], lambda a, b: a + b]
        response: str

    def plan(state):
        steps = [
            {"id": 1, "content": "Find the rules for returns of unused devices"},
            {"id": 2, "content": "Find out who pays the postage"},
        ]
        reply = says(json.dumps({"steps": steps})).invoke(f"Make a plan for: {state['input']}")
        return {"plan": json.loads(reply.content)["steps"]}

    def execute(state):
        done = []
        for step, page in zip(state["plan"], [RETURNS, POSTAGE], strict=True):
            found = Shop(pages=[page]).invoke(step["content"])
            reply = says(f"Done: {page[9:70]}").invoke(f"Task: {step['content']}\n\n{shown(found)}")
            done.append((step["content"], reply.content))
        return {"past_steps": done}

    def respond(state):
        steps = "\n".join(step["content"] for step in state["plan"])
        past = "\n".join(f"{a}: {b}" for a, b in state["past_steps"])
        return {"response": says(ANSWER).invoke(f"{state['input']}\n\nPlan:\n{steps}\n\nDone:\n{past}").content}

    graph = StateGraph(Planned)
    for node in (plan, execute, respond):
        graph.add_node(node.__name__, node)
    for a, b in ((START, "plan"), ("plan", "execute"), ("execute", "respond")):
        graph.add_edge(a, b)
    graph.compile().invoke({"input": Q}, ran.config)


@program([RETURNS])
def own_search_and_reranker_in_nodes(ran):
    """Hits of another client in the state, of which the reranker keeps one."""

    class Searched(TypedDict):
        question: str
        hits: list[Any]
        reranked: list[Any]
        answer: str

    def search(state):
        return {
            "hits": [
                {"chunk_id": n, "text": page, "score": 1 / (n + 1)}
                for n, page in enumerate([OPENING, RETURNS, WARRANTY])
            ]
        }

    def rerank(state):
        return {"reranked": [{**hit, "relevance_score": 0.97} for hit in state["hits"] if hit["text"] == RETURNS]}

    def answer(state):
        context = "\n".join(f"[{hit['chunk_id']}] {hit['text']}" for hit in state["reranked"])
        return {"answer": says(ANSWER).invoke(f"{context}\n\n{state['question']}").content}

    graph = StateGraph(Searched)
    for node in (search, rerank, answer):
        graph.add_node(f"{node.__name__}_node", node)
    for a, b in ((START, "search_node"), ("search_node", "rerank_node"), ("rerank_node", "answer_node")):
        graph.add_edge(a, b)
    graph.compile().invoke({"question": Q}, ran.config)


@program([RETURNS, POSTAGE])
def examples_in_the_state(ran):
    """Examples for the model are mappings with texts and ids, next to retrieved pages."""
    examples = [{"id": "e1", "text": "Q: Can I pay by card? A: Yes, by all common cards.", "label": "good"}]

    def answer(state):
        few = "\n".join(example["text"] for example in state["examples"])
        return (
            says(ANSWER)
            .invoke(f"Examples:\n{few}\n\nPages:\n{shown(Shop().invoke(state['question']))}\n\n{state['question']}")
            .content
        )

    RunnableLambda(answer).invoke({"question": Q, "examples": examples}, ran.config)


@program(None, "Our office is closed today.", doubts=("not_in_prompt",))
def fixed_reply_after_a_search(ran):
    """A rule of the application answers, and no model."""

    def answer(question):
        Shop().invoke(question)
        return "Our office is closed today." if says("closed").invoke("Is the office open?").content == "closed" else ""

    RunnableLambda(answer).invoke(Q, ran.config)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_is_captured_as_a_careful_reader_sees_it(name):
    """Question, contexts, answer and doubts of one request."""
    function, expected = PROGRAMS[name]
    ran = Ran()
    function(ran)
    drafts = ran.recorder.drafts
    (draft,) = drafts if len(drafts) == 1 else (drafts[-1],)
    contexts = None if draft.contexts is None else [passage.text for passage in draft.contexts]
    assert expected == (draft.query, contexts, draft.response, draft.evidence.doubts, len(drafts))
    assert (0, {}) == (ran.handler.errors, ran.recorder.errors)


@program([RETURNS])
def one_block_of_mcp(ran):
    """A list of one passage is a list."""

    @tool
    def shop_search(query: str) -> Any:
        """Search."""
        return [{"type": "text", "text": RETURNS}]

    create_agent(says([("shop_search", {"query": "returns"})], ANSWER), [shop_search]).invoke(ask, ran.config)


@program(None, doubts=("text_tool:preferences",))
def preferences_alone(ran):
    """Nothing was asked, so that nothing says that the texts were retrieved."""

    @tool
    def preferences(user: str) -> list[str]:
        """Look up what the user likes."""
        return ["The user likes short answers.", "The user has bought the pump as a business in Hamburg."]

    create_agent(says([("preferences", {"user": "u1"})], ANSWER), [preferences]).invoke(ask, ran.config)


@pytest.mark.parametrize("way", ["invoke", "ainvoke", "stream", "astream"])
@pytest.mark.parametrize(
    ("declared", "contexts", "doubts"),
    [
        ({}, [RETURNS], ("text_tool:preferences",)),
        ({"preferences": False}, [RETURNS], ()),
        ({"preferences": True}, [RETURNS, POSTAGE, WARRANTY], ()),
    ],
    ids=["undeclared", "does not retrieve", "retrieves"],
)
@pytest.mark.parametrize("form", ["list", "blocks"])
def test_plain_texts_of_a_tool_next_to_a_retriever(way, declared, contexts, doubts, form):
    """They are in doubt until the tool is declared, and never mixed with what was retrieved."""

    @tool
    def preferences(user: str) -> Any:
        """Look up what the user likes."""
        return [{"type": "text", "text": text} if form == "blocks" else text for text in (POSTAGE, WARRANTY)]

    @tool
    def search(query: str) -> list[Any]:
        """Search."""
        return Shop(pages=[RETURNS]).invoke(query)

    ran = Ran()
    handler = RagstoneCallbackHandler(ran.recorder, retriever_tools=declared)
    model = says([("search", {"query": "returns"}), ("preferences", {"user": "u1"})], ANSWER)
    agent = create_agent(model, [search, preferences])
    config: Any = {"callbacks": [handler]}

    async def read_all():
        return [part async for part in agent.astream(ask, config)]

    calls = {
        "invoke": lambda: agent.invoke(ask, config),
        "ainvoke": lambda: asyncio.run(agent.ainvoke(ask, config)),
        "stream": lambda: list(agent.stream(ask, config)),
        "astream": lambda: asyncio.run(read_all()),
    }
    calls[way]()

    (draft,) = ran.recorder.drafts
    assert (contexts, doubts) == ([passage.text for passage in draft.contexts], draft.evidence.doubts)
