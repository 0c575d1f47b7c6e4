"""DSPy: retrieval and ChainOfThought in a module, ReAct with a tool, a stream and a failure, by OpenInference."""

import asyncio

import dspy
import shelf
from openinference.instrumentation.dspy import DSPyInstrumentor


def rm(query: str, k: int = 2, **kwargs):
    """Return two passages, as a retrieval model of DSPy does."""
    return [dspy.Prediction(long_text=document["text"]) for document in shelf.search(query)[:k]]


class Rag(dspy.Module):
    """Retrieve, then answer."""

    def __init__(self):
        """Make the two steps."""
        super().__init__()
        self.retrieve = dspy.Retrieve(k=2)
        self.respond = dspy.ChainOfThought("context, question -> answer")

    def forward(self, question: str):
        """Answer a question."""
        return self.respond(context=self.retrieve(question).passages, question=question)


def search_shelf(query: str) -> list[str]:
    """Search the shelf."""
    return [document["text"] for document in shelf.search(query)]


def run() -> None:
    """Record the requests."""
    dspy.configure(
        lm=dspy.LM("openai/keeper-1", api_base=shelf.BASE_URL, api_key="none", cache=False, num_retries=0),
        adapter=dspy.ChatAdapter(),
        rm=rm,
    )
    Rag()(question=shelf.TOWER)
    # A function that retrieves is not a span: only the inputs of the module show what it found.
    respond = dspy.ChainOfThought("context: list[str], question -> answer")
    respond(context=search_shelf(shelf.STAIRS), question=shelf.STAIRS)
    dspy.ReAct("question -> answer", tools=[search_shelf], max_iters=3)(question=shelf.STAIRS)
    shelf.attempt(lambda: Rag()(question=shelf.FAILS))

    async def stream() -> None:
        listener = dspy.streaming.StreamListener(signature_field_name="answer")
        answer = dspy.streamify(Rag(), stream_listeners=[listener])
        async for _ in answer(question=shelf.LAMP):
            pass

    asyncio.run(stream())


with shelf.recording(DSPyInstrumentor()):
    run()
