"""OpenAI Agents SDK: agents with a function tool, over both APIs, by OpenInference."""

import asyncio
import contextlib

import shelf
from agents import Agent, OpenAIChatCompletionsModel, OpenAIResponsesModel, Runner, function_tool
from openai import AsyncOpenAI, BadRequestError
from openinference.instrumentation.openai_agents import OpenAIAgentsInstrumentor


@function_tool
def search_shelf(query: str) -> str:
    """Search the shelf."""
    return shelf.search_as_text(query)


async def run() -> None:
    """Record a tool call over each API, a stream, a prompt with passages and a failure."""
    client = AsyncOpenAI(base_url=shelf.BASE_URL, api_key="none", max_retries=0)
    chat, responses = OpenAIChatCompletionsModel("keeper-1", client), OpenAIResponsesModel("keeper-1", client)
    agent = Agent(name="keeper", instructions="Answer from the shelf.", tools=[search_shelf], model=chat)
    await Runner.run(agent, shelf.TOWER)
    await Runner.run(agent.clone(model=responses), shelf.STAIRS)
    await Runner.run(Agent(name="bare_keeper", model=chat), shelf.prompt(shelf.STAIRS))
    with contextlib.suppress(BadRequestError):
        await Runner.run(agent, shelf.FAILS)
    streamed = Runner.run_streamed(agent, shelf.LAMP)
    async for _ in streamed.stream_events():
        pass


with shelf.recording(OpenAIAgentsInstrumentor()):
    asyncio.run(run())
