"""The question of requests whose inputs have other names than usual, several texts, or settings next to the question."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda

from langchain_ragstone import RagstoneCallbackHandler
from ragstone.testing import MemoryRecorder

Q = "The pump of my machine hums but no water comes."
PAGE = "If the pump hums but no water comes, open the steam valve and run the pump until water flows in one stream."
NOTE = "The machine was bought in 2021 and descaled last week by its owner, who lives in a place with hard water."
CHAT = [
    {"role": "user", "content": "Hello"},
    {"role": "assistant", "content": "How can I help you?"},
    {"role": "user", "content": Q},
]
SEVERAL = ("several_questions",)


class Manual(BaseRetriever):
    """A retriever with one page."""

    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        return [Document(PAGE, id="1")]


def ask(system: str, user: str, query: str = "pump hums") -> str:
    """Search, and ask a model with the page in the message of the system, or of the user if there is no other."""
    page = Manual().invoke(query)[0].page_content
    prompt = [("system", f"{system}\n{page}"), ("user", user)] if system else f"{page}\n\n{user}"
    return GenericFakeChatModel(messages=iter([AIMessage("Open the steam valve.")])).invoke(prompt).text


ASKED: dict[str, tuple[dict[str, Any], Callable[[dict[str, Any]], str], str, tuple[str, ...]]] = {
    "an object and a language": ({"ticket": {"id": "T-1", "text": Q}, "locale": "en"}, lambda i: ask("Help.", i["ticket"]["text"]), Q, ()),
    "an object of many levels": (
        {"event": {"body": {"part": {"text": Q}}}, "locale": "en"}, lambda i: ask("Help.", i["event"]["body"]["part"]["text"]), Q, (),
    ),
    "a conversation and a user": ({"chat": CHAT, "user": "ada"}, lambda i: ask("Help.", i["chat"][-1]["content"]), Q, ()),
    "in one prompt with the page": ({"ticket": {"id": "T-1", "text": Q}, "locale": "en"}, lambda i: ask("", i["ticket"]["text"]), Q, ()),
    "a lone topic of one word": ({"topic": "pumps"}, lambda i: ask("Help.", f"Tell me about {i['topic']}."), "pumps", ()),
    "a device and a symptom": ({"device": "Lario Duo 2", "symptom": Q}, lambda i: ask("", f"{i['device']}: {i['symptom']}"), Q, ()),
    "the text that was searched for": ({"notes": NOTE, "symptom": Q}, lambda i: ask("", f"{i['notes']}\n{i['symptom']}", Q), Q, ()),
    "a persona for the system": ({"persona": NOTE, "ask": "Is it broken?"}, lambda i: ask(i["persona"], i["ask"]), "Is it broken?", ()),
    "two long texts": ({"notes": NOTE, "symptom": Q}, lambda i: ask("", f"{i['notes']}\n{i['symptom']}"), NOTE, SEVERAL),
    "two questions": ({"questions": [Q, "Is it broken?"]}, lambda i: "\n".join(ask("", q, q) for q in i["questions"]), Q, SEVERAL),
    "texts that no prompt shows": ({"notes": NOTE, "symptom": Q}, lambda i: ask("", "Answer."), "pump hums", SEVERAL),
}  # fmt: skip


@pytest.mark.parametrize("name", ASKED)
def test_the_question_is_not_a_setting(name: str) -> None:
    """The question stands in the prompt, or is in doubt if several texts of the inputs can be it."""
    given, function, question, doubts = ASKED[name]
    recorder = MemoryRecorder()
    RunnableLambda(function).invoke(given, {"callbacks": [RagstoneCallbackHandler(recorder)]})
    (draft,) = recorder.drafts
    assert (question, doubts) == (draft.query, draft.evidence.doubts)
    assert bool(doubts) == (draft.evidence.doubt_about("query") is not None)


def test_the_json_of_an_answer_is_not_the_question() -> None:
    """An object without a usual name that a request returns is its answer."""

    @dataclasses.dataclass
    class Advice:
        cause: str
        steps: list[str]

    recorder = MemoryRecorder()
    runnable = RunnableLambda(
        lambda i: Advice(ask("Help.", f"{i['device']}: {i['symptom']}"), ["Run the pump.", "Wait a minute."])
    )
    runnable.invoke({"device": "Lario Duo 2", "symptom": Q}, {"callbacks": [RagstoneCallbackHandler(recorder)]})
    assert (Q, "prompt") == (recorder.drafts[0].query, recorder.drafts[0].evidence.query)


@pytest.mark.parametrize(("tenant", "text"), [("lario", Q), ("of Norway", Q), ("lario", "Broken?")])
def test_an_observed_function_of_several_texts(tenant: str, text: str) -> None:
    """The argument that the prompt shows is the question, not the first one."""
    recorder = MemoryRecorder()

    class App:
        @recorder.observe
        def ask(self, tenant: str, text: str) -> str:
            """Ask about a pump."""
            block = recorder.current_request()
            block.found([{"id": "1", "text": PAGE}])
            block.prompt([{"role": "system", "content": PAGE}, {"role": "user", "content": text}])
            return "Open the steam valve."

    App().ask(tenant, text)
    assert (text, ()) == (recorder.drafts[0].query, recorder.drafts[0].evidence.doubts)


def test_an_answer_next_to_the_question_of_an_faq_is_a_context() -> None:
    """The index holds the question, the metadata hold the answer, and the prompt shows both."""
    recorder = MemoryRecorder()

    class Faq(BaseRetriever):
        def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
            return [Document("What if the pump hums but is dry?", id="1", metadata={"answer": PAGE})]

    def ask_faq(question: str) -> str:
        (page,) = Faq().invoke(question)
        prompt = f"Q: {page.page_content}\nA: {page.metadata['answer']}\n\n{question}"
        return GenericFakeChatModel(messages=iter([AIMessage("Open the steam valve.")])).invoke(prompt).text

    RunnableLambda(ask_faq).invoke(Q, {"callbacks": [RagstoneCallbackHandler(recorder)]})
    (draft,) = recorder.drafts
    assert ["What if the pump hums but is dry?", PAGE] == [passage.text for passage in draft.contexts]
    assert {"1"} == {passage.id for passage in draft.contexts}


@pytest.mark.parametrize(("is_kept", "doubts"), [(False, ("several_answers",)), (True, ())])
def test_a_block_with_two_prompts_and_one_answer(is_kept: bool, doubts: tuple[str, ...]) -> None:
    """A passage of an earlier prompt, whose reply is not known, may have been used, unless the last prompt has it too."""
    recorder = MemoryRecorder()
    with recorder.request(Q) as block:
        block.found([{"id": "1", "text": PAGE}, {"id": "2", "text": NOTE}])
        block.prompt([{"role": "user", "content": PAGE}])
        block.prompt([{"role": "user", "content": f"{PAGE}\n{NOTE}" if is_kept else NOTE}])
        block.answer("Open the steam valve, and use soft water.")
    assert doubts == recorder.drafts[0].evidence.doubts
