"""The conversation before the question: where it is found, what is no turn, and what a request that stands alone keeps."""

from __future__ import annotations

import pytest

from ragstone.capture import Converter, redact_secrets
from ragstone.requests import Message, Request, assemble
from ragstone.requests._step import Statements
from ragstone.schema import Trace, Turn, spool_entry_adapter
from ragstone.settings import Lengths
from request_steps import ANSWER, QUESTION, A, B, Steps, prompt

EARLIER = (Message("user", "Which pump do you sell?"), Message("assistant", "The Alpha pump."))
TURNS = [Turn(role="user", text="Which pump do you sell?"), Turn(role="assistant", text="The Alpha pump.")]


def conversation(**root: object) -> tuple[Steps, object]:
    """A chain that searches."""
    steps = Steps()
    chain = steps.chain(outputs={"answer": ANSWER}, **root)
    steps.retrieval(chain, A, B)
    return steps, chain


def roles(*messages: Message) -> list[dict[str, str]]:
    """Messages as an application passes them."""
    return [{"role": message.role, "content": message.text} for message in messages]


def history(request: Request) -> list[Turn]:
    """What is found."""
    return assemble(request).history


@pytest.mark.parametrize("session_id", [None, "s-1"])
@pytest.mark.parametrize(
    "inputs",
    [
        {"messages": roles(*EARLIER, Message("user", QUESTION))},
        {"question": QUESTION, "chat_history": roles(*EARLIER)},
        {"question": QUESTION, "chat_history": roles(Message("system", "Be brief."), *EARLIER)},
    ],
)
def test_the_inputs_hold_it(inputs: dict[str, object], session_id: str | None) -> None:
    """A list that ends with the question, or one next to it. The prompt need not hold it."""
    steps, root = conversation(inputs=inputs)
    steps.model(root, prompt(A, B), ANSWER)  # type: ignore[arg-type]
    request = steps.request()
    request.draft.session_id = session_id

    draft = assemble(request)

    assert QUESTION == draft.query
    assert TURNS == draft.history


@pytest.mark.parametrize(("session_id", "found"), [("s-1", TURNS), (None, [])])
def test_the_prompt_holds_it(session_id: str | None, found: list[Turn]) -> None:
    """Only in a session: without one, these messages may be examples of a template."""
    steps, root = conversation(inputs={"question": QUESTION})
    steps.model(root, (Message("system", "Be brief."), *EARLIER, Message("user", prompt(A, B))), ANSWER)  # type: ignore[arg-type]
    request = steps.request()
    request.draft.session_id = session_id

    assert found == history(request)


def test_a_framework_that_keeps_the_conversation_needs_no_session() -> None:
    """A chat engine's prompts hold earlier turns."""
    steps, root = conversation(inputs={"query": QUESTION})
    root.keeps_history = True  # type: ignore[attr-defined]
    steps.model(root, (*EARLIER, Message("user", QUESTION)), ANSWER)  # type: ignore[arg-type]

    assert TURNS == history(steps.request())


def test_the_prompt_that_rewrites_the_question_holds_it() -> None:
    """The answering call sees a rewritten question only."""
    steps, root = conversation(inputs={"question": QUESTION})
    steps.model(root, (*EARLIER, Message("user", QUESTION)), "How long is the warranty of the Alpha pump?")  # type: ignore[arg-type]
    steps.model(root, prompt(A, B, question="How long is the warranty of the Alpha pump?"), ANSWER)  # type: ignore[arg-type]
    request = steps.request()
    request.draft.session_id = "s-1"

    assert TURNS == history(request)


def test_tools_and_passages_are_not_turns() -> None:
    """An agent's calls, its tools' results and a message that holds the passages; messages after the question."""
    steps, root = conversation(inputs={"question": QUESTION})
    steps.model(
        root,  # type: ignore[arg-type]
        (
            *EARLIER,
            Message("assistant", "Let me search.", calls_tool=True),
            Message("tool", A, tool="search"),
            Message("user", f"Use these passages: {A} {B}"),
            Message("user", QUESTION),
            Message("assistant", "Thought: I know enough."),
            Message("user", "Observation: go on."),
        ),
        ANSWER,
    )
    request = steps.request()
    request.draft.session_id = "s-1"

    assert TURNS == history(request)


def test_a_stated_history_wins() -> None:
    """Also an empty one."""
    for stated in ([], TURNS[:1]):
        steps, root = conversation(inputs={"messages": roles(*EARLIER, Message("user", QUESTION))})
        steps.model(root, prompt(A, B), ANSWER)  # type: ignore[arg-type]
        assert stated == history(steps.request(statements=Statements(history=stated)))


def test_a_question_that_stands_alone_has_none() -> None:
    """With and without a session."""
    for session_id in (None, "s-1"):
        steps, root = conversation(inputs={"messages": roles(Message("user", QUESTION))})
        steps.model(root, (Message("system", "Be brief."), Message("user", prompt(A, B))), ANSWER)  # type: ignore[arg-type]
        request = steps.request()
        request.draft.session_id = session_id
        assert [] == history(request)


def test_it_is_bounded() -> None:
    """The last twenty turns, fewer if they are long; the last two always."""
    many = [Message("user" if n % 2 == 0 else "assistant", f"turn {n}") for n in range(60)]
    long = [message._replace(text=message.text + " word" * 2_000) for message in many]
    huge = [message._replace(text=message.text + " word" * 20_000) for message in many]
    for messages, n in ((many, 20), (long, 3), (huge, 2)):
        steps, root = conversation(inputs={"messages": roles(*messages, Message("user", QUESTION))})
        steps.model(root, prompt(A, B), ANSWER)  # type: ignore[arg-type]
        found = history(steps.request())
        assert [message.text for message in messages[-n:]] == [turn.text for turn in found]


def test_it_is_redacted_and_cut_like_other_text() -> None:
    """The writer's thread does both, in this order."""
    secret = "sk-" + "a1B2c3D4" * 6
    messages = [Message("user", f"My key is {secret}"), Message("assistant", "word " * 400), Message("user", QUESTION)]
    steps, root = conversation(inputs={"messages": roles(*messages)})
    steps.model(root, prompt(A, B), ANSWER)  # type: ignore[arg-type]
    converter = Converter(sample_rate=1.0, redact=redact_secrets, lengths=Lengths(max_chars=1_000))

    entry = spool_entry_adapter.validate_json(converter.line(steps.request())[1])

    trace: Trace = entry.trace  # type: ignore[union-attr]
    assert ["user", "assistant"] == [turn.role for turn in trace.history]
    assert secret not in trace.history[0].text
    assert trace.history[0].text.startswith("My key is")
    assert 1_000 == len(trace.history[1].text)
    assert "history" in trace.truncated_fields
