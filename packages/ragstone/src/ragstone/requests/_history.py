"""The conversation before the question."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from ragstone.requests._answer import Answer
from ragstone.requests._draft import PassageDraft
from ragstone.requests._facts import Facts
from ragstone.requests._step import Message
from ragstone.schema import Turn

_MAX_TURNS: Final = 20
_MAX_BYTES: Final = 32_000
"""UTF-8 bytes of all turns. The last two are kept even if they are longer."""


def find_history(
    facts: Facts, answer: Answer, *, question: str | None, contexts: Sequence[PassageDraft] | None
) -> list[Turn]:
    """Find the messages of the user and the assistant before the question, by the first rule that finds some.

    1. What the application states.
    2. The longest list of messages among the inputs of the request: `messages` that end with the question, or a
       `chat_history` next to it.
    3. The messages before the question in the prompt of the call that wrote the answer, and if there are none, in the
       prompt of the first call. Only for a request with a session id, or whose framework keeps the conversation: without
       one, they may be examples of a template.

    Messages that call tools, results of tools and messages with passages are not turns.

    Returns:
        At most 20 turns with at most 32,000 bytes, oldest first. The last two turns are kept whatever their size.
    """
    stated = facts.request.statements.history
    if stated is not None:
        return _bounded(stated)
    if question is None or not question.strip():
        return []
    found = max((turns_in(_before_last(messages)) for messages in _given(facts, answer)), key=len, default=[])
    if not found and (facts.request.draft.session_id or any(step.keeps_history for step in facts.tree.steps)):
        calls = [*answer.calls[-1:], *facts.calls[:1]]
        prompts = (_before_question(call.messages, question, facts) for call in calls)
        found = next((turns for messages in prompts if (turns := turns_in(messages))), [])
    texts = [facts.canonical(passage.text) for passage in contexts or ()]
    return _bounded(turn for turn in found if not (turn.role == "user" and _quotes(turn, texts, facts)))


def _given(facts: Facts, answer: Answer) -> list[Sequence[Message]]:
    """Return the lists of messages that the request was given, or if there are none, a step around the answering call."""
    around = [step for call in answer.calls[-1:] for step in facts.tree.ancestors(call.step)]
    for step in ([] if facts.root is None else [facts.root], *([step] for step in reversed(around))):
        given: list[Sequence[Message]] = [value.messages for one in step for value in one.inputs if value.messages]
        given += [one.prompt for one in step if one is facts.root and one.kind == "model" and one.prompt]
        if given:
            return given
    return []


def _before_last(messages: Sequence[Message]) -> Sequence[Message]:
    """Return a conversation without the question, if it ends with it."""
    return messages[:-1] if messages[-1].role == "user" else messages


def _before_question(messages: Sequence[Message], question: str, facts: Facts) -> Sequence[Message]:
    """Return what a prompt holds before the last message of the user that contains the question, or before the last one."""
    asked = facts.canonical(question)
    users = [place for place, message in enumerate(messages) if message.role == "user"]
    asking = [place for place in users if facts.find(asked, facts.canonical(messages[place].text)) >= 0]
    return messages[: (asking or users)[-1]] if users else ()


def turns_in(messages: Iterable[Message]) -> list[Turn]:
    """Return the messages of the user and the assistant that have a text and do not call a tool."""
    turns: list[Turn] = []
    for message in messages:
        if message.text.strip() and not message.calls_tool:
            if message.role == "user":
                turns.append(Turn(role="user", text=message.text))
            elif message.role == "assistant":
                turns.append(Turn(role="assistant", text=message.text))
    return turns


def _quotes(turn: Turn, texts: Sequence[str], facts: Facts) -> bool:
    text = facts.canonical(turn.text)
    return any(facts.find(one, text) >= 0 for one in texts if one)


def _bounded(turns: Iterable[Turn]) -> list[Turn]:
    kept: list[Turn] = []
    n_bytes = 0
    for turn in reversed(list(turns)[-_MAX_TURNS:]):
        n_bytes += len(turn.text.encode("utf-8", "replace"))
        if len(kept) >= 2 and n_bytes > _MAX_BYTES:
            break
        kept.append(turn)
    return kept[::-1]
