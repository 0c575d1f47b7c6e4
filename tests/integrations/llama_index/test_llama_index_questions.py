"""The question of workflows whose inputs have other names than usual, several texts, or settings next to the question."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Any

import pytest
from llama_index.core.workflow import StartEvent, StopEvent, Workflow, step

from ragstone.testing import MemoryRecorder

Q = "The pump of my machine hums but no water comes."
PAGE = "If the pump hums but no water comes, open the steam valve and run the pump until water flows in one stream."
NOTE = "The machine was bought in 2021 and descaled last week by its owner, who lives in a place with hard water."
CHAT = [
    {"role": "user", "content": "Hello"},
    {"role": "assistant", "content": "How can I help you?"},
    {"role": "user", "content": Q},
]


@dataclasses.dataclass
class Advice:
    """What a workflow returns."""

    cause: str
    steps: list[str]


@pytest.mark.parametrize(
    ("given", "shown", "question", "doubts"),
    [
        ({"ticket": {"id": "T-1", "text": Q}, "locale": "en"}, Q, Q, ()),
        ({"chat": CHAT, "user": "ada"}, Q, Q, ()),
        ({"device": "Lario Duo 2", "symptom": Q}, f"Lario Duo 2: {Q}", Q, ()),
        ({"notes": NOTE, "symptom": Q}, f"{NOTE}\n{Q}", NOTE, ("several_questions",)),
    ],
    ids=["an object and a language", "a conversation and a user", "a device and a symptom", "two long texts"],
)
@pytest.mark.parametrize("is_object", [False, True], ids=["a text", "an object"])
def test_the_question_of_a_workflow(
    make_app: Any, given: dict[str, Any], shown: str, question: str, doubts: tuple[str, ...], is_object: bool
) -> None:
    """The question stands in the prompt next to the page, or is in doubt. It is neither a setting nor the JSON of the answer."""
    app = make_app(recorder=MemoryRecorder())

    class Ask(Workflow):
        @step
        async def ask(self, event: StartEvent) -> StopEvent:
            nodes = await app.retriever(PAGE).aretrieve("pump hums")
            reply = (await app.model("Open the steam valve.").acomplete(f"{nodes[0].text}\n\n{shown}")).text
            return StopEvent(result=Advice(reply, ["Run the pump.", "Wait a minute."]) if is_object else reply)

    async def go() -> None:
        await Ask(timeout=30).run(**given)

    asyncio.run(go())
    app.instrumentor.stop_registering()
    (draft,) = app.drafts
    assert (question, doubts) == (draft.query, draft.evidence.doubts)
