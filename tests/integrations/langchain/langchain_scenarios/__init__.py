"""What people do with LangChain, one function for each way: it is given an application of `conftest` and drives it."""

from langchain_core.messages import HumanMessage

Q = "who?"
FOUND = ["alpha", "beta"]
ASK = {"messages": [HumanMessage(Q)]}


def prompt_of(state):
    """Make the prompt of a graph's step."""
    return "\n".join([*(document.page_content for document in state["context"]), state["question"]])
