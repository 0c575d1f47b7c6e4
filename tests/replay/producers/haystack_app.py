"""Haystack: a pipeline with retriever, prompt builder and generator, an agent, a stream and a failure, by OpenInference."""

import shelf
from haystack import Document, Pipeline
from haystack.components.agents import Agent
from haystack.components.builders import ChatPromptBuilder
from haystack.components.generators.chat import OpenAIChatGenerator
from haystack.components.retrievers.in_memory import InMemoryBM25Retriever
from haystack.dataclasses import ChatMessage
from haystack.document_stores.in_memory import InMemoryDocumentStore
from haystack.tools import tool
from haystack.utils import Secret
from openinference.instrumentation.haystack import HaystackInstrumentor

TEMPLATE = """Answer from these passages only.
{% for document in documents %}
{{ document.content }}
{% endfor %}
Question: {{ question }}"""


@tool
def search_shelf(query: str) -> str:
    """Search the shelf."""
    return shelf.search_as_text(query)


def generator(callback=None) -> OpenAIChatGenerator:
    """Make a generator that asks the local model."""
    return OpenAIChatGenerator(
        api_key=Secret.from_token("none"),
        model="keeper-1",
        api_base_url=shelf.BASE_URL,
        streaming_callback=callback,
        max_retries=0,
    )


def pipeline(callback=None) -> Pipeline:
    """Make the pipeline."""
    store = InMemoryDocumentStore()
    store.write_documents([Document(id=key, content=text) for key, text in shelf.PASSAGES.items()])
    made = Pipeline()
    made.add_component("retriever", InMemoryBM25Retriever(store, top_k=2))
    made.add_component(
        "prompt_builder", ChatPromptBuilder(template=[ChatMessage.from_user(TEMPLATE)], required_variables="*")
    )
    made.add_component("llm", generator(callback))
    made.connect("retriever.documents", "prompt_builder.documents")
    made.connect("prompt_builder.prompt", "llm.messages")
    return made


def run() -> None:
    """Record the requests."""

    def ask(which: Pipeline, question: str):
        return which.run({"retriever": {"query": question}, "prompt_builder": {"question": question}})

    ask(pipeline(), shelf.TOWER)
    agent = Agent(chat_generator=generator(), tools=[search_shelf], system_prompt="Answer from the shelf.")
    agent.run(messages=[ChatMessage.from_user(shelf.STAIRS)])
    ask(pipeline(lambda chunk: None), shelf.LAMP)
    shelf.attempt(lambda: ask(pipeline(), shelf.FAILS))


with shelf.recording(HaystackInstrumentor()):
    run()
