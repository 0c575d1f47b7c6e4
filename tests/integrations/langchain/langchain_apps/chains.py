"""Applications of chains (LCEL)."""

from __future__ import annotations

import json
from operator import itemgetter
from typing import Any

from langchain_core.chat_history import InMemoryChatMessageHistory
from langchain_core.documents import Document
from langchain_core.load import dumps, loads
from langchain_core.messages import AIMessage
from langchain_core.output_parsers import JsonOutputParser, StrOutputParser
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder, PromptTemplate
from langchain_core.runnables import RunnableBranch, RunnableLambda, RunnableParallel, RunnablePassthrough
from langchain_core.runnables.history import RunnableWithMessageHistory
from pydantic import BaseModel

from langchain_apps import TEXTS, A, Expected, Index, Q, Scripted, app, calls, doc, join

ANSWER = ChatPromptTemplate.from_template(
    "Answer from the context only.\n\nContext:\n{context}\n\nQuestion: {question}"
)
WRITER = {"Answer from the context": A}


class Cited(BaseModel):
    """An answer with its sources."""

    answer: str
    citations: list[int]


@app("saturday", "branch")
def numbered_sources_and_structured_output(config: Any) -> None:
    def number(documents: list[Document]) -> str:
        return "\n".join(f'<source id="{i}">{d.page_content}</source>' for i, d in enumerate(documents, 1))

    model = Scripted(script={"<source id": calls("Cited", answer=A, citations=[1])}).with_structured_output(Cited)
    context = {"context": Index(names=["saturday", "branch"]) | number, "question": RunnablePassthrough()}
    (context | ANSWER | model).invoke(Q, config)


@app("saturday", "branch")
def structured_output_next_to_the_raw_message(config: Any) -> None:
    model = Scripted(script={"Answer from the context": calls("Cited", answer=A, citations=[1])})
    structured = model.with_structured_output(Cited, include_raw=True)
    context = {"context": Index(names=["saturday", "branch"]) | join, "question": RunnablePassthrough()}
    (context | ANSWER | structured).invoke(Q, config)


@app("branch", "saturday", "ferry")
def rag_fusion(config: Any) -> None:
    def fuse(results: list[list[Document]], k: int = 60) -> list[tuple[Document, float]]:
        scores: dict[str, float] = {}
        for documents in results:
            for rank, document in enumerate(documents):
                scores[dumps(document)] = scores.get(dumps(document), 0) + 1 / (rank + k)
        ranked = sorted(scores.items(), key=lambda item: -item[1])
        return [(loads(text, allowed_objects="all"), score) for text, score in ranked][:3]

    model = Scripted(script={"search queries": "hill opening\nsaturday opening\nthe way there", **WRITER})
    write = ChatPromptTemplate.from_template("Write three search queries for: {question}") | model | StrOutputParser()
    index = Index(
        by_query={"hill": ["branch", "saturday"], "saturday": ["branch", "card"], "way": ["saturday", "ferry"]}
    )
    # branch 2/60, saturday 1/61 + 1/60, then card and ferry share 1/61: the first one found stays first.
    index.by_query["way"] = ["ferry", "saturday"]
    retrieval = write | (lambda text: text.splitlines()) | index.map() | fuse
    context = {"context": retrieval | (lambda pairs: join([d for d, _ in pairs])), "question": itemgetter("question")}
    (context | ANSWER | model | StrOutputParser()).invoke({"question": Q}, config)


@app("saturday", "sunday", "card")
def multi_query_with_unique_union(config: Any) -> None:
    def union(results: list[list[Document]]) -> list[Document]:
        flat = dict.fromkeys(dumps(document) for documents in results for document in documents)
        return [loads(text, allowed_objects="all") for text in flat]

    model = Scripted(script={"five versions": "one saturday\ntwo sunday", **WRITER})
    versions = ChatPromptTemplate.from_template("Write five versions of: {question}") | model | StrOutputParser()
    index = Index(by_query={"one": ["saturday", "sunday"], "two": ["sunday", "card"]})
    retrieval = versions | (lambda text: text.split("\n")) | index.map() | union
    chain = RunnablePassthrough.assign(context=retrieval) | ANSWER | model | StrOutputParser()
    chain.invoke({"question": Q}, config)


@app("saturday")
def hypothetical_document(config: Any) -> None:
    guess = "The harbor library is open on Saturdays from eight in the morning until late at night."
    model = Scripted(script={"Write a passage": guess, **WRITER})
    passage = ChatPromptTemplate.from_template("Write a passage that answers: {question}") | model | StrOutputParser()
    context = passage | Index(by_query={"eight in the morning": ["saturday"]}) | join
    (RunnablePassthrough.assign(context=context) | ANSWER | model | StrOutputParser()).invoke({"question": Q}, config)


@app("saturday", "branch", "rooms")
def step_back(config: Any) -> None:
    model = Scripted(script={"more general": "What should I know about the libraries?", "Normal context": A})
    general = ChatPromptTemplate.from_template("Ask a more general question: {question}") | model | StrOutputParser()
    index = Index(by_query={"Saturdays": ["saturday"], "libraries": ["branch", "rooms"]})
    prompt = ChatPromptTemplate.from_template("Normal context: {normal}\nWider context: {wider}\nQuestion: {question}")
    both = {
        "normal": itemgetter("question") | index | join,
        "wider": general | index | join,
        "question": itemgetter("question"),
    }
    (both | prompt | model | StrOutputParser()).invoke({"question": Q}, config)


@app("saturday", "branch")
def decomposition_with_answers_only(config: Any) -> None:
    first = "The harbor library opens at ten in the morning on Saturdays."
    second = "The hill branch does not open on Saturdays at all, so only the harbor counts."
    model = Scripted(script={"Split": "harbor hours?\nhill hours?", "Q: harbor": first, "Q: hill": second, "Pairs": A})
    index = Index(by_query={"harbor": ["saturday"], "hill": ["branch"]})
    single = {"context": index | join, "q": RunnablePassthrough()} | (
        ChatPromptTemplate.from_template("{context}\nQ: {q}") | model | StrOutputParser()
    )

    def answer_all(questions: list[str], config: Any) -> str:
        return "\n".join(f"{question} {single.invoke(question, config)}" for question in questions)

    split = ChatPromptTemplate.from_template("Split: {question}") | model | StrOutputParser() | str.splitlines
    final = ChatPromptTemplate.from_template("Pairs:\n{pairs}\n\nAnswer: {question}") | model | StrOutputParser()
    ({"pairs": split | RunnableLambda(answer_all), "question": itemgetter("question")} | final).invoke(
        {"question": Q}, config
    )


@app("saturday", "sunday")
def routed_by_a_classifier(config: Any) -> None:
    model = Scripted(script={"one word": "hours", **WRITER})
    topic = ChatPromptTemplate.from_template("Classify in one word: {question}") | model | StrOutputParser()
    hours = RunnableLambda(itemgetter("question")) | Index(names=["saturday", "sunday"])
    prices = RunnableLambda(itemgetter("question")) | Index(names=["card"])
    route = RunnableBranch((lambda row: "price" in row["topic"], prices), hours)
    chain = RunnablePassthrough.assign(topic=topic) | RunnablePassthrough.assign(context=route | join) | ANSWER
    (chain | model | StrOutputParser()).invoke({"question": Q}, config)


@app("saturday", "sunday")
def reranked_by_a_model_in_a_function(config: Any) -> None:
    model = Scripted(
        script={"grade 0-10": AIMessage("2"), **WRITER},
    )
    graders = {"saturday": "9", "sunday": "7", "card": "1", "ferry": "0"}
    grader = Scripted(script={TEXTS[name]: grade for name, grade in graders.items()})

    def rerank(documents: list[Document]) -> list[Document]:
        prompts = [f"Passage: {d.page_content}\nQuestion: {Q}\ngrade 0-10" for d in documents]
        grades = [int(reply.content) for reply in grader.batch(prompts)]
        ranked = sorted(zip(grades, documents, strict=True), key=lambda pair: -pair[0])
        return [document for _, document in ranked[:2]]

    def retrieve_and_rerank(question: str) -> str:
        return join(rerank(Index(names=["card", "sunday", "ferry", "saturday"]).invoke(question)))

    context = {"context": retrieve_and_rerank, "question": RunnablePassthrough()}
    (RunnableParallel(context) | ANSWER | model | StrOutputParser()).invoke(Q, config)


@app("saturday", "card", "ferry", "sunday")
def reordered_for_long_contexts(config: Any) -> None:
    def reorder(documents: list[Document]) -> list[Document]:
        return documents[::2] + documents[1::2][::-1]

    index = Index(names=["saturday", "sunday", "card", "ferry"])
    context = {"context": index | reorder | join, "question": RunnablePassthrough()}
    (context | ANSWER | Scripted(script=WRITER) | StrOutputParser()).invoke(Q, config)


@app("saturday", "sunday")
def cut_to_a_budget(config: Any) -> None:
    def within(documents: list[Document]) -> str:
        kept: list[str] = []
        for document in documents:
            if sum(map(len, kept)) + len(document.page_content) > 220:
                break
            kept.append(f"[{document.metadata['source']}] {document.page_content}")
        return "\n---\n".join(kept)

    index = Index(names=["saturday", "sunday", "card", "branch"])
    chain = {"context": index | within, "question": RunnablePassthrough()} | ANSWER | Scripted(script=WRITER)
    (chain | StrOutputParser()).invoke(Q, config)


PARENT = f"{TEXTS['saturday']} {TEXTS['sunday']} {TEXTS['rooms']}"


@app(PARENT)
def parents_of_found_children(config: Any) -> None:
    def parents(children: list[Document]) -> list[Document]:
        return [Document(PARENT, metadata={"source": "hours.md"}) for _ in children[:1]]

    context = {"context": Index(names=["saturday", "sunday"]) | parents | join, "question": RunnablePassthrough()}
    (context | ANSWER | Scripted(script=WRITER) | StrOutputParser()).invoke(Q, config)


@app(
    requests=[
        Expected([TEXTS["saturday"]]),
        Expected([TEXTS["sunday"]], "And on Sundays?", "On Sundays only its reading room opens, at noon."),
    ]
)
def conversation_with_a_rewritten_question(config: Any) -> None:
    standalone = "When does the harbor library open on Sundays?"
    model = Scripted(
        script={
            "Rewrite": standalone,
            "on Sundays stays": "never",
            TEXTS["sunday"]: "On Sundays only its reading room opens, at noon.",
            TEXTS["saturday"]: A,
        }
    )
    rewrite = ChatPromptTemplate.from_messages(
        [
            ("system", "Rewrite the question so that it stands alone."),
            MessagesPlaceholder("history"),
            ("human", "{input}"),
        ]
    )
    index = Index(by_query={"Sundays": ["sunday"], "Saturdays": ["saturday"]})
    standalone_chain = RunnableBranch(
        (lambda row: not row["history"], itemgetter("input")), rewrite | model | StrOutputParser()
    )
    prompt = ChatPromptTemplate.from_messages(
        [("system", "Use this: {context}"), MessagesPlaceholder("history"), ("human", "{input}")]
    )
    chain = RunnablePassthrough.assign(context=standalone_chain | index | join) | prompt | model | StrOutputParser()
    memory = InMemoryChatMessageHistory()
    bot = RunnableWithMessageHistory(
        chain, lambda session_id: memory, input_messages_key="input", history_messages_key="history"
    )
    for question in (Q, "And on Sundays?"):
        bot.invoke({"input": question}, {**config, "configurable": {"session_id": "s"}})


GERMAN_Q, GERMAN_A = (
    "Wann öffnet die Hafenbibliothek samstags?",
    "Samstags öffnet die Hafenbibliothek um zehn Uhr morgens.",
)


@app("saturday", question=GERMAN_Q, answer=GERMAN_A)
def translated_there_and_back(config: Any) -> None:
    model = Scripted(script={"into English": Q, "into German": GERMAN_A, **WRITER})
    english = ChatPromptTemplate.from_template("Translate into English: {question}") | model | StrOutputParser()
    german = ChatPromptTemplate.from_template("Translate into German: {text}") | model | StrOutputParser()
    rag = {"context": Index(names=["saturday"]) | join, "question": RunnablePassthrough()} | ANSWER | model
    (english | rag | StrOutputParser() | {"text": RunnablePassthrough()} | german).invoke(
        {"question": GERMAN_Q}, config
    )


@app(
    "opens at ten in the morning on Saturdays and closes at four",
    "stays closed on Sundays, except for the reading room",
)
def passages_compressed_by_a_model(config: Any) -> None:
    model = Scripted(
        script={
            f"Extract: {TEXTS['saturday']}": "opens at ten in the morning on Saturdays and closes at four",
            f"Extract: {TEXTS['sunday']}": "stays closed on Sundays, except for the reading room",
            **WRITER,
        }
    )
    extract = ChatPromptTemplate.from_template("Extract: {passage}") | model | StrOutputParser()

    def compress(documents: list[Document]) -> list[Document]:
        extracts = extract.batch([{"passage": d.page_content} for d in documents])
        return [Document(text, metadata=d.metadata) for text, d in zip(extracts, documents, strict=True)]

    context = {"context": Index(names=["saturday", "sunday"]) | compress | join, "question": RunnablePassthrough()}
    (context | ANSWER | model | StrOutputParser()).invoke(Q, config)


@app("saturday", "branch")
def checked_by_a_second_model(config: Any) -> None:
    model = Scripted(script={"Is this answer supported": "SUPPORTED: the first passage says so.", **WRITER})
    check = (
        ChatPromptTemplate.from_template("Is this answer supported by {context}?\n{answer}") | model | StrOutputParser()
    )
    rag = RunnablePassthrough.assign(context=itemgetter("question") | Index(names=["saturday", "branch"]) | join)
    answered = rag | RunnablePassthrough.assign(answer=ANSWER | model | StrOutputParser())
    checked = answered | RunnablePassthrough.assign(verdict=check)
    (checked | (lambda row: row["answer"] if row["verdict"].startswith("SUPPORTED") else "I do not know.")).invoke(
        {"question": Q}, config
    )


REFUSAL = "I am sorry, I can only answer questions about the library."


@app(unknown=True, question="What is the capital of France?", answer=REFUSAL, doubts=["no_model_wrote_it"])
def canned_refusal_after_grading(config: Any) -> None:
    model = Scripted(script={"yes or no": "no", **WRITER})
    grade = ChatPromptTemplate.from_template("{context}\nRelevant to {question}? yes or no") | model | StrOutputParser()
    found = RunnablePassthrough.assign(context=itemgetter("question") | Index(names=["ferry", "card"]) | join)
    answer = RunnableBranch((lambda row: row["grade"] == "no", lambda row: REFUSAL), ANSWER | model | StrOutputParser())
    (found | RunnablePassthrough.assign(grade=grade) | answer).invoke(
        {"question": "What is the capital of France?"}, config
    )


@app("saturday", "sunday")
def streamed_with_its_sources(config: Any) -> None:
    retrieve = RunnableParallel(context=Index(names=["saturday", "sunday"]), question=RunnablePassthrough())
    answer = RunnablePassthrough.assign(context=lambda row: join(row["context"])) | ANSWER | Scripted(script=WRITER)
    chunks = list(retrieve.assign(answer=answer | StrOutputParser()).stream(Q, config))
    assert A == "".join(chunk.get("answer", "") for chunk in chunks)


@app("saturday", "sunday", "branch")
def mapped_and_reduced(config: Any) -> None:
    notes = {
        "saturday": "Ten in the morning until four in the afternoon on Saturdays at the harbor.",
        "sunday": "Nothing about Saturdays, only about the reading room on Sundays.",
        "branch": "The hill branch is not open on Saturdays according to this passage.",
    }
    model = Scripted(script={**{f"Notes on: {TEXTS[name]}": text for name, text in notes.items()}, "Combine": A})
    note = ChatPromptTemplate.from_template("Notes on: {passage}") | model | StrOutputParser()
    passages = RunnableLambda(lambda documents: [{"passage": d.page_content} for d in documents])
    combine = ChatPromptTemplate.from_template("Combine:\n{notes}\n\nQuestion: {question}") | model | StrOutputParser()
    index = Index(names=list(notes))
    (
        {
            "notes": itemgetter("question") | index | passages | note.map() | "\n".join,
            "question": itemgetter("question"),
        }
        | combine
    ).invoke({"question": Q}, config)


@app("saturday", "sunday")
def refined_passage_by_passage(config: Any) -> None:
    draft = "The harbor library opens at ten on Saturdays, as far as the first passage says."
    model = Scripted(script={"Refine": A, "First draft": draft})

    def refine(row: dict[str, Any]) -> str:
        first, *rest = row["docs"]
        text = model.invoke(f"First draft. {first.page_content}\n{row['question']}").content
        for document in rest:
            text = model.invoke(f"Refine: {text}\nwith {document.page_content}\n{row['question']}").content
        return text

    index = Index(names=["saturday", "sunday"])
    (RunnablePassthrough.assign(docs=itemgetter("question") | index) | RunnableLambda(refine)).invoke(
        {"question": Q}, config
    )


@app("saturday", "quoted")
def passages_as_json_in_the_prompt(config: Any) -> None:
    def dump(documents: list[Document]) -> str:
        return json.dumps([{"id": d.id, "text": d.page_content} for d in documents], indent=2)

    context = {"context": Index(names=["saturday", "quoted"]) | dump, "question": RunnablePassthrough()}
    (context | ANSWER | Scripted(script=WRITER) | StrOutputParser()).invoke(Q, config)


@app("saturday", "sunday")
def query_written_as_json(config: Any) -> None:
    model = Scripted(script={"Return JSON": '{"query": "opening hours", "building": "harbor"}', **WRITER})
    write = ChatPromptTemplate.from_template("Return JSON for: {question}") | model | JsonOutputParser()

    def search(wanted: dict[str, str]) -> list[Document]:
        found = Index(names=["saturday", "branch", "sunday"]).invoke(wanted["query"])
        return [document for document in found if wanted["building"] in document.page_content]

    (RunnablePassthrough.assign(context=write | search | join) | ANSWER | model | StrOutputParser()).invoke(
        {"question": Q}, config
    )


@app("saturday", "card")
def vector_store_called_in_a_function(config: Any) -> None:
    def similarity_search_with_score(_: str) -> list[tuple[Document, float]]:
        return [(doc("saturday"), 0.91), (doc("card"), 0.64)]  # emits no event of its own

    context = {
        "context": RunnableLambda(similarity_search_with_score) | (lambda pairs: join([d for d, _ in pairs])),
        "question": RunnablePassthrough(),
    }
    (context | ANSWER | Scripted(script=WRITER) | StrOutputParser()).invoke(Q, config)


@app("saturday", "ferry")
def answer_with_a_list_of_sources_appended(config: Any) -> None:
    def cite(row: dict[str, Any]) -> dict[str, Any]:
        sources = ", ".join(sorted(d.metadata["source"] for d in row["context"]))
        return {"result": row["answer"], "source_documents": row["context"], "footer": f"Sources: {sources}"}

    prompt = PromptTemplate.from_template("Answer from the context.\n{context}\n{query}")
    chain = RunnablePassthrough.assign(context=itemgetter("query") | Index(names=["saturday", "ferry"]))
    write = (
        (lambda row: {**row, "context": join(row["context"])}) | prompt | Scripted(script=WRITER) | StrOutputParser()
    )
    (chain | RunnablePassthrough.assign(answer=write) | cite).invoke({"query": Q}, config)
