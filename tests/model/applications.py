"""An application with a real retriever and a real generator, which Ragstone captures: `applications.py FRAMEWORK FOLDER EMBEDDER URL`.

MiniLM finds the passages, the model of the endpoint answers from them, and judges the answers. Prints a JSON object.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

from sentence_transformers import SentenceTransformer

from ragstone import Monitor
from ragstone.cli._doctor_items import ITEMS

N_QUESTIONS = 2
N_PASSAGES = 2
MAX_TOKENS = 24
TIMEOUT_S = 600.0
PASSAGES = [passage for _, passage, *_ in ITEMS]

Ask = Callable[[str], tuple[list[str], str]]
"""Returns the passages that were found for a question, and the answer."""


def langchain_application(monitor: Monitor, model: SentenceTransformer, url: str) -> Ask:
    """Build a chain with a vector store, a prompt and a chat model."""
    from langchain_core.embeddings import Embeddings
    from langchain_core.output_parsers import StrOutputParser
    from langchain_core.prompts import ChatPromptTemplate
    from langchain_core.runnables import RunnablePassthrough
    from langchain_core.vectorstores import InMemoryVectorStore
    from langchain_openai import ChatOpenAI
    from pydantic import SecretStr

    from langchain_ragstone import RagstoneCallbackHandler

    class MiniLm(Embeddings):
        def embed_documents(self, texts: list[str]) -> list[list[float]]:
            return model.encode(texts).tolist()

        def embed_query(self, text: str) -> list[float]:
            return self.embed_documents([text])[0]

    store = InMemoryVectorStore.from_texts(PASSAGES, MiniLm())
    retriever = store.as_retriever(search_kwargs={"k": N_PASSAGES})
    prompt = ChatPromptTemplate.from_template("{context}\n\nQuestion: {question}\nAnswer in one sentence.")
    generator = ChatOpenAI(
        base_url=url,
        api_key=SecretStr("none"),
        model="smollm2-135m",
        max_completion_tokens=MAX_TOKENS,
        timeout=TIMEOUT_S,
    )

    found: dict[str, list[str]] = {}

    def find(given: dict[str, str]) -> str:
        documents = retriever.invoke(given["question"])
        found[given["question"]] = [document.page_content for document in documents]
        return "\n\n".join(found[given["question"]])

    chain = RunnablePassthrough.assign(context=find) | prompt | generator | StrOutputParser()
    handler = RagstoneCallbackHandler(monitor)

    def ask(question: str) -> tuple[list[str], str]:
        answer = chain.invoke({"question": question}, config={"callbacks": [handler]})
        return found[question], answer

    return ask


def llama_index_application(monitor: Monitor, model: SentenceTransformer, url: str) -> Ask:
    """Build a query engine with a vector index and a chat model."""
    from llama_index.core import VectorStoreIndex
    from llama_index.core.embeddings import BaseEmbedding
    from llama_index.core.schema import TextNode
    from llama_index.llms.openai_like import OpenAILike

    from llama_index.observability.ragstone import RagstoneInstrumentor

    class MiniLm(BaseEmbedding):
        def _get_text_embedding(self, text: str) -> list[float]:
            return model.encode([text])[0].tolist()

        def _get_query_embedding(self, query: str) -> list[float]:
            return self._get_text_embedding(query)

        async def _aget_query_embedding(self, query: str) -> list[float]:
            return self._get_text_embedding(query)

    generator = OpenAILike(
        api_base=url,
        api_key="none",
        model="smollm2-135m",
        is_chat_model=True,
        max_tokens=MAX_TOKENS,
        timeout=TIMEOUT_S,
        context_window=4096,
    )
    index = VectorStoreIndex([TextNode(text=passage) for passage in PASSAGES], embed_model=MiniLm())
    engine = index.as_query_engine(generator, similarity_top_k=N_PASSAGES)
    RagstoneInstrumentor(monitor).start_registering()

    def ask(question: str) -> tuple[list[str], str]:
        response = engine.query(question)
        return [node.text for node in response.source_nodes], str(response)

    return ask


def main(framework: str, folder: str, embedder: str, url: str) -> None:
    """Ask questions, wait for the scores, and print what was captured."""
    store = Path(folder) / f"{framework}.db"
    store.unlink(missing_ok=True)
    build = {"langchain": langchain_application, "llama_index": llama_index_application}[framework]
    judge = {"url": url, "timeout_s": TIMEOUT_S}
    with Monitor(store=store, judge=judge, metrics=["ccrs.qr", "ccrs.cc"]) as monitor:
        ask = build(monitor, SentenceTransformer(embedder, device="cpu"), url)
        asked = {query: (passage, *ask(query)) for query, passage, *_ in ITEMS[:N_QUESTIONS]}
        assert monitor.drain(TIMEOUT_S), "the scores are not there in time"
    rows = [
        {"query": query, "contexts": contexts, "response": answer, "is_found": passage in contexts}
        for query, (passage, contexts, answer) in asked.items()
    ]
    print(json.dumps(rows))


if __name__ == "__main__":
    main(*sys.argv[1:])
