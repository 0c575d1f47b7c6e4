"""LlamaIndex: streamed chat with and without retrieval, an agent with a tool and a failure, by OpenInference."""

import asyncio

import shelf
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.chat_engine import CondensePlusContextChatEngine, ContextChatEngine
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, TextNode
from llama_index.llms.openai_like import OpenAILike
from openinference.instrumentation.llama_index import LlamaIndexInstrumentor


class Shelf(BaseRetriever):
    """A retriever over the shelf."""

    def _retrieve(self, query_bundle):
        return [
            NodeWithScore(node=TextNode(text=document["text"], id_=document["id"]), score=document["score"])
            for document in shelf.search(query_bundle.query_str)
        ]


def search_shelf(query: str) -> list[str]:
    """Search the shelf."""
    return [document["text"] for document in shelf.search(query)]


def run() -> None:
    """Record the requests."""
    model = OpenAILike(
        "keeper-1", api_base=shelf.BASE_URL, api_key="none", is_chat_model=True, is_function_calling_model=True,
        max_retries=0,
    )  # fmt: skip
    ContextChatEngine.from_defaults(Shelf(), llm=model).chat(shelf.TOWER)
    for _ in ContextChatEngine.from_defaults(Shelf(), llm=model).stream_chat(shelf.LAMP).response_gen:
        pass

    async def asynchronous() -> None:
        streamed = await CondensePlusContextChatEngine.from_defaults(Shelf(), llm=model).astream_chat(shelf.TOWER)
        async for _ in streamed.async_response_gen():
            pass
        await FunctionAgent(tools=[search_shelf], llm=model).run(shelf.STAIRS)

    asyncio.run(asynchronous())
    shelf.attempt(lambda: ContextChatEngine.from_defaults(Shelf(), llm=model).chat(shelf.FAILS))


with shelf.recording(LlamaIndexInstrumentor()):
    run()
