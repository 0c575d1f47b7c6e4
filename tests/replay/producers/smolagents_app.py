"""smolagents: an agent that calls tools and one that writes code, by OpenInference."""

import shelf
from openinference.instrumentation.smolagents import SmolagentsInstrumentor
from smolagents import CodeAgent, OpenAIServerModel, ToolCallingAgent, tool


@tool
def search_shelf(query: str) -> str:
    """Search the shelf.

    Args:
        query: What to search for.
    """
    return shelf.search_as_text(query)


def run() -> None:
    """Record a tool call, code that calls the tool, a stream, a prompt with passages and a failure."""
    model = OpenAIServerModel("keeper-1", api_base=shelf.BASE_URL, api_key="none")
    ToolCallingAgent([search_shelf], model, verbosity_level=0).run(shelf.TOWER)
    CodeAgent([search_shelf], model, verbosity_level=0).run(shelf.STAIRS)
    for _ in ToolCallingAgent([search_shelf], model, verbosity_level=0, stream_outputs=True).run(
        shelf.LAMP, stream=True
    ):
        pass
    shelf.attempt(lambda: ToolCallingAgent([search_shelf], model, verbosity_level=0, max_steps=2).run(shelf.FAILS))


with shelf.recording(SmolagentsInstrumentor()):
    run()
