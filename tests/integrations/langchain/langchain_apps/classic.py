"""Applications of LangChain's older chains and composite retrievers, and of plain functions."""

from __future__ import annotations

from typing import Any

from langchain_classic.chains import (
    ConversationalRetrievalChain,
    RetrievalQA,
    create_history_aware_retriever,
    create_retrieval_chain,
)
from langchain_classic.chains.combine_documents import create_stuff_documents_chain
from langchain_classic.chains.question_answering import load_qa_chain
from langchain_classic.retrievers import ContextualCompressionRetriever, EnsembleRetriever, ParentDocumentRetriever
from langchain_classic.retrievers.document_compressors import LLMChainFilter
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_core.runnables import RunnablePassthrough
from langchain_core.stores import InMemoryStore
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_text_splitters import CharacterTextSplitter

from langchain_apps import TEXTS, A, Index, Q, Scripted, app, join


@app("saturday", "sunday")
def conversational_retrieval_chain(config: Any) -> None:
    model = Scripted(script={"standalone question": "harbor library Saturday hours", "context": A})
    chain = ConversationalRetrievalChain.from_llm(model, Index(names=["saturday", "sunday"]))
    chain.invoke({"question": Q, "chat_history": [("Hi", "Hello! What would you like to know?")]}, config)


@app("saturday")
def best_passage_wins(config: Any) -> None:
    model = Scripted(
        script={
            TEXTS["saturday"]: f"{A}\nScore: 95",
            TEXTS["sunday"]: "It does not say.\nScore: 5",
            TEXTS["ferry"]: "The ferry leaves every twenty minutes.\nScore: 10",
        }
    )
    chain = load_qa_chain(model, chain_type="map_rerank")
    qa = RetrievalQA(combine_documents_chain=chain, retriever=Index(names=["sunday", "saturday", "ferry"]))
    qa.invoke({"query": Q}, config)


@app(f"{TEXTS['saturday']}\n{TEXTS['sunday']}")
def parent_document_retriever(config: Any) -> None:
    store = InMemoryVectorStore(DeterministicFakeEmbedding(size=8))
    splitter = CharacterTextSplitter(separator="\n", chunk_size=100, chunk_overlap=0)
    retriever = ParentDocumentRetriever(vectorstore=store, docstore=InMemoryStore(), child_splitter=splitter)
    retriever.add_documents([Document(f"{TEXTS['saturday']}\n{TEXTS['sunday']}")])
    prompt = ChatPromptTemplate.from_template("{context}\n{question}")
    chain = {"context": retriever | join, "question": RunnablePassthrough()} | prompt | Scripted(script={Q: A})
    (chain | StrOutputParser()).invoke(Q, config)


@app("saturday", "sunday")
def hybrid_search_with_a_model_as_filter(config: Any) -> None:
    judge = Scripted(script={TEXTS["card"]: "NO", TEXTS["ferry"]: "NO", "": "YES"})
    hybrid = EnsembleRetriever(
        retrievers=[Index(names=["saturday", "card"]), Index(names=["saturday", "sunday", "ferry"])], weights=[0.6, 0.4]
    )
    retriever = ContextualCompressionRetriever(base_retriever=hybrid, base_compressor=LLMChainFilter.from_llm(judge))
    prompt = ChatPromptTemplate.from_template("Use {context}\n{input}")
    documents = create_stuff_documents_chain(Scripted(script={"Use ": A}), prompt)
    create_retrieval_chain(retriever, documents).invoke({"input": Q}, config)


@app("sunday", question="And on Sundays?", answer="Only its reading room opens on Sundays, at noon.")
def history_aware_retrieval(config: Any) -> None:
    model = Scripted(
        script={
            "Reword": "Sunday hours of the harbor library",
            "Facts:": "Only its reading room opens on Sundays, at noon.",
        }
    )
    reword = ChatPromptTemplate.from_messages(
        [("system", "Reword the question."), MessagesPlaceholder("chat_history"), ("human", "{input}")]
    )
    prompt = ChatPromptTemplate.from_messages(
        [("system", "Facts:\n{context}"), MessagesPlaceholder("chat_history"), ("human", "{input}")]
    )
    retriever = create_history_aware_retriever(model, Index(names=["sunday"]), reword)
    chain = create_retrieval_chain(retriever, create_stuff_documents_chain(model, prompt))
    history = [HumanMessage(Q), AIMessage(A)]
    list(chain.stream({"input": "And on Sundays?", "chat_history": history}, config))


@app("saturday", "rooms")
def refine_documents_chain(config: Any) -> None:
    model = Scripted(script={"refine": A, TEXTS["saturday"]: "It opens at ten on Saturdays, says the first passage."})
    chain = RetrievalQA.from_chain_type(model, chain_type="refine", retriever=Index(names=["saturday", "rooms"]))
    chain.invoke({"query": Q}, config)


@app("saturday", "branch", answer=f"{A}\n")
def sources_quoted_with_their_file(config: Any) -> None:
    from langchain_classic.chains import RetrievalQAWithSourcesChain

    reply = f"{A}\nSOURCES: saturday.md"
    chain = RetrievalQAWithSourcesChain.from_chain_type(
        Scripted(script={TEXTS["branch"]: reply}), chain_type="stuff", retriever=Index(names=["saturday", "branch"])
    )
    chain.invoke({"question": Q}, config)
