"""Pydantic AI: agents with tools, by its own instrumentation (OpenTelemetry GenAI), or with OpenInference added to it."""

import asyncio
import os

import shelf
from pydantic_ai import Agent, InstrumentationSettings
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

model = OpenAIChatModel("keeper-1", provider=OpenAIProvider(base_url=shelf.BASE_URL, api_key="none"))


def add_openinference(provider) -> None:
    """Add the processor that writes OpenInference's attributes; it must come before the exporter's."""
    if os.environ["VARIANT"] == "openinference":
        from openinference.instrumentation.pydantic_ai import OpenInferenceSpanProcessor

        processors = provider._active_span_processor
        exporting = processors._span_processors
        processors._span_processors = (OpenInferenceSpanProcessor(), *exporting)


def run(provider) -> None:
    """Record documents from a tool, text from a tool, a prompt with passages, a failure and a stream."""
    Agent.instrument_all(InstrumentationSettings(tracer_provider=provider))
    agent = Agent(model, name="keeper", system_prompt="Answer from the shelf.")
    texts = Agent(model, name="text_keeper")
    bare = Agent(model, name="bare_keeper")

    @agent.tool_plain
    def search_shelf(query: str) -> list[dict]:
        """Search the shelf."""
        return shelf.search(query)

    @texts.tool_plain(name="search_shelf")
    def search_text(query: str) -> str:
        """Search the shelf."""
        return shelf.search_as_text(query)

    agent.run_sync(shelf.TOWER)
    texts.run_sync(shelf.STAIRS)
    bare.run_sync(shelf.prompt(shelf.STAIRS))
    shelf.attempt(lambda: agent.run_sync(shelf.FAILS))

    async def stream() -> None:
        async with agent.run_stream(shelf.LAMP) as result:
            async for _ in result.stream_text():
                pass

    asyncio.run(stream())


with shelf.recording(add=add_openinference) as provider:
    run(provider)
