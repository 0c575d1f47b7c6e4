"""CrewAI: a crew of one agent with a tool, one without, and a failure, by OpenInference for CrewAI and for OpenAI."""

import shelf
from crewai import LLM, Agent, Crew, Task
from crewai.tools import tool
from openinference.instrumentation.crewai import CrewAIInstrumentor
from openinference.instrumentation.openai import OpenAIInstrumentor


@tool("search_shelf")
def search_shelf(query: str) -> str:
    """Search the shelf."""
    return shelf.search_as_text(query)


def ask(question: str, tools, *, stream: bool = False):
    """Run a crew of one agent."""
    model = LLM(model="openai/keeper-1", base_url=shelf.BASE_URL, api_key="none", stream=stream, max_retries=0)
    agent = Agent(
        role="Keeper", goal="Answer questions about the lighthouse", backstory="You know the shelf.",
        tools=tools, llm=model, max_iter=3, max_retry_limit=0,
    )  # fmt: skip
    task = Task(description="{question}", expected_output="One sentence.", agent=agent)
    return Crew(agents=[agent], tasks=[task], name="lighthouse").kickoff(inputs={"question": question})


def run() -> None:
    """Record the requests."""
    ask(shelf.TOWER, [search_shelf])
    ask(shelf.prompt(shelf.STAIRS), [])
    ask(shelf.LAMP, [search_shelf], stream=True)
    shelf.attempt(lambda: ask(shelf.FAILS, [search_shelf]))


with shelf.recording(CrewAIInstrumentor(), OpenAIInstrumentor()):
    run()
