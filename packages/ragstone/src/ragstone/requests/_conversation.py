"""What the user asked, and the conversation before the question."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from ragstone.requests._answer import Answer
from ragstone.requests._draft import PassageDraft
from ragstone.requests._facts import Facts
from ragstone.requests._harvest import AS_JSON, is_shown_object, last_question, look_up
from ragstone.requests._step import Message, Step, Value
from ragstone.schema import SETTING_NAMES, QueryRule, Turn, field_names

_NAMES: Final = field_names("query", "input")
_STATE_NAMES: Final = field_names("query", "output")
_OTHER_NAMES: Final = frozenset({*field_names("contexts", "input"), "history", "chat_history"})
"""Names of texts that a prompt quotes next to the question."""
_FEW_WORDS: Final = 4
"""Words of a text in the inputs from which on it can be the question as well as a longer one."""
_MAX_STANDALONE: Final = 300


def find_query(facts: Facts) -> tuple[str | None, QueryRule, list[str]]:
    """Find what the user asked, as it was asked, by the first rule that finds it, and what is unclear about it."""
    stated = facts.request.statements.query
    if stated is not None:
        return stated, "stated", []
    root = facts.root
    if root is not None:
        if root.query:
            return root.query, "stated", []
        if text := look_up(root.inputs, _NAMES, last_question):
            return text, "input", []
        if root.kind == "model" and root.prompt and (text := last_question(root.prompt)):
            return text, "prompt", []
        if text := _only_text(facts, root):
            return text, "only_input", []
    if text := _nested(facts):
        return text, "nested_input", []
    if root is not None:
        # A graph that is resumed gets a command, and has the question in its state. A bare text is its answer.
        state = [
            value for value in root.outputs if value.path[-1:] != (AS_JSON,) and (value.path or value.text is None)
        ]
        if text := look_up(state, _STATE_NAMES, last_question):
            return text, "output", []
    return _asked_inside(facts)


def _queries(facts: Facts) -> list[str]:
    return [step.query for step in facts.tree.steps if step.kind in ("retrieval", "transform", "tool") and step.query]


def _only_text(facts: Facts, root: Step) -> str | None:
    """Return the only text of the inputs. A word that neither the model nor a search was asked is a setting."""
    if len(texts := _texts_given(root)) != 1 or _has_words(texts[0]):
        return texts[0] if len(texts) == 1 else None
    asked = [*_queries(facts), *(last_question(call.messages) or "" for call in facts.calls[:1])]
    return texts[0] if not asked or any(_is_in(facts, texts[0], facts.canonical(text)) for text in asked) else None


def _texts_given(step: Step | None) -> list[str]:
    """Return the texts in inputs that can be the question, also the last message of a conversation under any name, and a lone object's."""
    texts: dict[str, None] = {}
    for value in () if step is None else step.inputs:
        text = value.text or last_question(value.messages or ())
        if value.passages and len(value.passages) == 1 and not value.is_evident:
            text = value.passages[0].text
        if text and _is_text(value) and _OTHER_NAMES.isdisjoint(value.path):
            texts[text] = None
    return list(texts)


def _is_text(value: Value) -> bool:
    """Whether a value is a text of the user: not a name, a tag or a setting of the run, and not a printed object."""
    is_setting = value.path[-1:] == (AS_JSON,) or not SETTING_NAMES.isdisjoint(value.path)
    return not (is_setting or is_shown_object(value.text or ""))


def _has_words(text: str) -> bool:
    """Whether a text is more than a word, such as a name or a setting, which can be in a prompt by coincidence."""
    return len(text.split()) > 1 or not text.isascii()


def _nested(facts: Facts) -> str | None:
    """Return what the inputs of the steps inside name as the question, if they agree, or the first one has it."""
    inner = [step for step in facts.tree.steps if step is not facts.root and step.kind in ("chain", "agent", "other")]
    if facts.root is None:
        # Of sibling steps, the user asked the first one, and the application the later ones.
        inner = inner[:1]
    texts = {text for step in inner if (text := step.query or look_up(step.inputs, _NAMES, last_question))}
    return next(iter(texts)) if len(texts) == 1 else None


def _asked_inside(facts: Facts) -> tuple[str | None, QueryRule, list[str]]:
    """Return what the first model or the first search was asked, and a doubt if several texts of the inputs can be the question.

    This is the text of the inputs that stands in the last message of the user, which can ask for something else, such
    as to rewrite the question: of several, the one that was searched for, or the longest. Without one, it is the
    message, unless it quotes what was found.
    """
    queries, given = _queries(facts), [text for text in _texts_given(facts.root) if _has_words(text)]
    searched = {text for text in given if text in queries}
    message = next((last_question(call.messages) for call in facts.calls), None)
    rest = facts.canonical(message or "")
    for one in facts.candidates:
        if facts.find(one.text, rest) >= 0 and one.passage.text not in given:
            rest, message = rest.replace(one.text, "\n"), None
    quoted = [text for text in given if _is_in(facts, text, rest)]
    if quoted:
        quoted = [text for text in quoted if len(text.split()) >= _FEW_WORDS] or quoted
        chosen = next((text for text in quoted if {text} == searched), max(quoted, key=len))
        is_clear = searched == {chosen} or (len(quoted) == 1 and not searched)
        return chosen, "prompt", [] if is_clear else ["several_questions"]
    if message:
        return message, "prompt", []
    if queries:
        return queries[0], "retrieval", ["several_questions"] if given and searched != {queries[0]} else []
    return None, "unknown", []


def _is_in(facts: Facts, text: str, prompt: str) -> bool:
    piece = facts.canonical(text)
    return bool(piece) and facts.find(piece, prompt) >= 0


def find_standalone_query(facts: Facts, query: str | None) -> str | None:
    """Find the query of a retrieval that a model of this request wrote: the question with its context resolved."""
    wrote = [
        (call.place, call.reply, call.step.calls_tool) for call in facts.calls if call.reply or call.step.calls_tool
    ]
    for search in facts.searches:
        asked = search.step.query
        if not asked or len(asked) > _MAX_STANDALONE or asked == query:
            continue
        text, place = facts.canonical(asked), facts.tree.place[search.step.id]
        is_tool = any(step.kind == "tool" for step in (search.step, *facts.tree.ancestors(search.step)))
        if any(
            before < place and ((calls_tool and is_tool) or facts.find(text, reply) >= 0)
            for before, reply, calls_tool in wrote
        ):
            return asked
    return None


_MAX_TURNS: Final = 20
_MAX_BYTES: Final = 32_000
"""UTF-8 bytes of all turns. The last two are kept even if they are longer."""


def find_history(facts: Facts, answer: Answer, *, contexts: Sequence[PassageDraft] | None) -> list[Turn]:
    """Find the messages of the user and the assistant before the question, by the first rule that finds some.

    1. What the application states.
    2. The longest list of messages among the inputs of the request: `messages` that end with the question, or a
       `chat_history` next to it.
    3. The messages before the question in the prompt of the call that wrote the answer, and if there are none, in the
       prompt of the first call. Only for a request with a session id, or whose framework keeps the conversation:
       without one, they may be examples of a template.

    Messages that call tools, results of tools and messages with passages are not turns.

    Returns:
        At most 20 turns with at most 32,000 bytes, oldest first. The last two turns are kept whatever their size.
    """
    stated = facts.request.statements.history
    if stated is not None:
        return _bounded(stated)
    if not facts.question.strip():
        return []
    # Without the question, if a conversation ends with it.
    given = (messages[:-1] if messages[-1].role == "user" else messages for messages in _given(facts, answer))
    found = max(map(turns_in, given), key=len, default=[])
    if not found and (facts.request.draft.session_id or any(step.keeps_history for step in facts.tree.steps)):
        prompts = (_before_question(facts, call.messages) for call in [*answer.calls[-1:], *facts.calls[:1]])
        found = next((turns for messages in prompts if (turns := turns_in(messages))), [])
    texts = [facts.canonical(passage.text) for passage in contexts or ()]
    return _bounded(turn for turn in found if not (turn.role == "user" and _quotes(facts, turn, texts)))


def _given(facts: Facts, answer: Answer) -> list[Sequence[Message]]:
    """Return the lists of messages that the request was given, or if there are none, a step around the answering call."""
    around = [step for call in answer.calls[-1:] for step in facts.tree.ancestors(call.step)]
    for step in ([] if facts.root is None else [facts.root], *([step] for step in reversed(around))):
        given: list[Sequence[Message]] = [value.messages for one in step for value in one.inputs if value.messages]
        given += [one.prompt for one in step if one is facts.root and one.kind == "model" and one.prompt]
        if given:
            return given
    return []


def _before_question(facts: Facts, messages: Sequence[Message]) -> Sequence[Message]:
    """Return what a prompt holds before the last message of the user that contains the question, or before the last one."""
    asked = facts.canonical(facts.question)
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


def _quotes(facts: Facts, turn: Turn, texts: Sequence[str]) -> bool:
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
