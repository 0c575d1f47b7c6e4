"""What was answered, and by which model calls."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ragstone.requests._facts import Call, Facts, items_of, words_of
from ragstone.requests._harvest import is_shown_object, last_answer, look_up
from ragstone.requests._match import TooLargeError, longest_piece
from ragstone.requests._step import Step
from ragstone.schema import ResponseRule, field_names

_NAMES: Final = field_names("response", "output")
_SHORT: Final = 20
"""Characters of an answer below which several model calls give it by coincidence."""
_FEW_WORDS: Final = 3
_MIN_PIECE: Final = 40
"""Characters of an answer that a reply must contain in one piece, and a quarter of the answer."""


_DECISIONS: Final = frozenset({"verdict", "label", "grade"})
_LABELS: Final = _DECISIONS | frozenset((
    "title", "topic", "category", "intent", "tone", "language", "lang", "sentiment", "check", "guard", "is_safe", "safe", "route",
    "next", "rating", "score", "confidence", "status", "source", "sources", "citations", "reason", "reasoning", "rationale", "why",
    "explanation", "thinking", "critique", "feedback", "review", "assessment", "evaluation", "plan", "query", "search_query",
    "disclaimer", "notice", "footer", "greeting",
))  # fmt: skip
"""Names of texts that say something about an answer. A decision can be the answer, if the same reply has other
texts."""
_ENDS: Final = ("report", "answer", "response", "reply")
_BEGINS: Final = ("draft", "raw")
"""How names of texts begin from which an application makes its answer."""
_Named = tuple[tuple[str, ...], str]
"""The path of a text, and the text."""


@dataclass(slots=True)
class Answer:
    """The response, the rule that found it, and the model calls that wrote it."""

    text: str | None
    rule: ResponseRule
    calls: list[Call] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)
    combining: Call | None = None
    """The last call with the same reply, which may have written it from replies of several calls, of which one is the
    same."""


def find_answer(facts: Facts) -> Answer:
    """Find the answer by the first rule that finds it, and the calls that wrote it."""
    status = facts.request.draft.status
    stated = facts.request.statements.response
    if stated is not None:
        return _written(facts, Answer(stated, "stated"))
    if status not in ("ok", "truncated", "error"):
        return Answer(None, "unknown")  # the state of a paused graph can hold an earlier answer
    output = None if facts.root is None else _text_of(facts.root)
    if output:
        return _written(facts, Answer(output, "output"))
    if output is None and status == "ok" and (answers := _answers_inside(facts)):
        return _outermost(facts, answers)
    if status == "ok":
        for find in (_direct_answer, _reply_in_output, _last_reply):
            if (answer := find(facts)) is not None:
                return answer
    if output is not None and not facts.calls:
        return Answer(output, "output")
    return Answer(None, "unknown", doubts=["no_answer"] if status == "ok" and _own_outputs(facts) else [])


def _text_of(step: Step) -> str | None:
    """Return what a step answers."""
    if step.reply is not None and not is_shown_object(step.reply):
        return None if step.calls_tool else step.reply
    outputs = [value for value in step.outputs if value.text is None or value.path != ("raw",)]
    return None if step.kind in ("retrieval", "transform") else look_up(outputs, _NAMES, last_answer)


def _direct_answer(facts: Facts) -> Answer | None:
    """Return the message of a tool with which an agent ended, because the tool answers the user directly."""
    for value in () if facts.root is None else facts.root.outputs:
        messages = value.messages or ()
        n_calls = max((n for n, message in enumerate(messages, 1) if message.calls_tool), default=0)
        if n_calls and {message.role for message in messages[n_calls:]} == {"tool"}:
            answer = _written(facts, Answer(messages[-1].text, "output"))
            answer.doubts += ["several_answers"] if len(messages) > n_calls + 1 else []
            return answer
    return None


def _answers_inside(facts: Facts) -> list[Answer]:
    """Return what each outermost step answers, if the request itself returns nothing: a block around a framework."""
    root = facts.root
    if root is None or root.outputs or root.reply is not None or root.kind not in ("chain", "agent", "other"):
        return []
    steps = [step for step in facts.tree.finished if facts.tree.parent(step) is root and facts.counts(step)]
    steps.sort(key=lambda step: step.ended_at or 0.0)
    texts = (_text_of(step) for step in steps if step.kind in ("chain", "agent", "other", "model"))
    return [_written(facts, Answer(text, "output")) for text in texts if text]


def _outermost(facts: Facts, answers: list[Answer]) -> Answer:
    """Choose the only answer that was written from passages, or the last one, with a doubt if there are several."""
    if len(answers) > 1:
        answers = [one for one in answers if any(_contexts(facts, call) for call in one.calls)] or answers
        if len({one.text for one in answers}) > 1:
            answers[-1].doubts = ["several_answers"]
    return answers[-1]


def _written(facts: Facts, answer: Answer) -> Answer:
    """Add the calls that wrote an answer that is known."""
    text = facts.canonical(answer.text or "")
    said = [call for call in facts.calls if call.reply]
    calls = [call for call in said if _is_same(call.reply, text)]
    if calls:
        last = calls[-1]
        calls, doubts = _chosen(facts, calls)
        answer.calls, answer.doubts = calls[-1:], doubts
        if last.is_visible and not last.in_tool and last not in calls and calls[-1].reply == last.reply:
            adds = _adds(facts, last, calls[-1], same_search=False)
            if not adds or _adds(facts, last, calls[-1], same_search=True):
                answer.combining = last
            elif facts.canonical(facts.question) in last.prompt:
                answer.doubts = [
                    "several_answers"
                ]  # asked again with passages of another search, or checked with rules
        return answer
    pieces = _pieces(facts, said, text)
    is_small = all(len(call.reply) < _SHORT for call in pieces) and 2 * sum(len(call.reply) for call in pieces) < len(
        text
    )
    if is_small:
        calls = [call for call in said if text and facts.find(text, call.reply) >= 0] or _keeping_words(said, text)
    if pieces and not calls:
        answer.calls = pieces
        if is_small and len(pieces) > 1:
            answer.calls, answer.doubts = _chosen(facts, pieces)
        elif is_small and 4 * len(pieces[0].reply) < len(text) and pieces != said[-1:]:
            answer.doubts = ["several_answers"]  # such as the "Yes" of a grader
        return answer
    calls = calls or _rewritten(facts, said, text) or _holding(facts, said, answer.text or "")
    if not calls and facts.request.draft.status == "truncated":
        # The stream of the call was dropped before its end, so that its reply is not known.
        calls = [call for call in facts.calls if call.step.reply is None and not call.step.calls_tool][-1:]
    calls, doubts = _chosen(facts, calls)
    answer.calls, answer.doubts = calls[-1:], doubts
    return answer


def _pieces(facts: Facts, calls: Sequence[Call], text: str) -> list[Call]:
    """Return the calls whose replies are pieces of an answer, each piece from the last call that wrote it."""
    taken: list[tuple[int, int]] = []
    pieces: list[Call] = []
    for call in sorted(calls, key=lambda call: (-len(call.reply), -call.place)):
        size = len(call.reply)
        start = facts.find(call.reply, text)
        while start >= 0 and any(a <= start and start + size <= b for a, b in taken):
            start = facts.find(call.reply, text, start + size)  # two calls can write the same text
        if start >= 0:
            taken.append((start, start + size))
            pieces.append(call)
    if any(len(call.reply) >= _SHORT for call in pieces):
        pieces = [call for call in pieces if len(call.reply) >= _SHORT]
    return sorted(pieces, key=lambda call: call.place)


def _joined(facts: Facts, calls: Sequence[Call], text: str) -> list[Call]:
    """Return the calls whose replies make up at least half of a text."""
    pieces = _pieces(facts, calls, text)
    return pieces if 2 * sum(len(call.reply) for call in pieces) >= len(text) else []


def _rewritten(facts: Facts, calls: Sequence[Call], text: str) -> list[Call]:
    """Return the call whose reply has the largest piece of an answer, as where the application rewrites citations."""
    whole = facts.text(text)
    sizes: dict[int, Call] = {}
    try:
        for call in calls:
            piece = longest_piece(whole, call.reply, smallest=max(_MIN_PIECE, len(text) // 4))
            if piece is not None:
                sizes[piece[1] - piece[0]] = call
    except TooLargeError:
        return []
    return [sizes[max(sizes)]] if sizes else []


def _holding(facts: Facts, calls: Sequence[Call], text: str) -> list[Call]:
    """Return the calls of whose values in JSON or lines at least half of a text is made, or a quarter if no other can be."""
    items = items_of([text])
    sizes = {}
    for call in calls:
        held: set[str] = set().union(*(parts for parts in call.said if parts <= items))
        sizes[call] = sum(map(len, held)) / max(1, sum(map(len, items)))
    is_only = len({call.reply for call in _with_passages(facts, list(calls))}) == 1
    return [call for call in calls if sizes[call] >= (0.25 if is_only else 0.5)]


def _reply_in_output(facts: Facts) -> Answer | None:
    """Find the reply that is a text in the outputs of the request, or that such a text was taken from, under whatever name.

    A field goes before the items of a list, such as notes. The last reply of several is the answer if its name says so,
    or if it was made from the items. Otherwise, the answer is in doubt.
    """
    values = _own_outputs(facts)
    sources = {text: _sources(facts, text) for text in {text for _, text in values}}
    found: dict[int, list[_Named]] = {}
    for value in values:
        for call in sources[value[1]]:
            found.setdefault(call.place, []).append(value)
    written = [value for taken in found.values() for value in taken]
    telling = {place: taken for place, taken in found.items() if any(_LABELS.isdisjoint(path) for path, _ in taken)}
    found = telling or found  # a text that says something about an answer is one only if nothing else is
    calls = [call for call in facts.calls if call.place in found]
    if not calls:
        return None
    texts = {call.place: _chosen_text(facts, call, found[call.place]) for call in calls}
    items = [call for call in calls if all(map(_is_item, found[call.place]))]
    chosen, doubts = _chosen(facts, [call for call in calls if call not in items] or calls)
    last_field = next((call for call in reversed(calls) if call not in items), chosen[-1])
    if len({call.reply for call in (*chosen, last_field)}) > 1:
        notes = [call.reply for call in items if _contexts(facts, call)]
        is_made_of_items = any(facts.find(note, last_field.prompt.text) >= 0 for note in notes)
        if not last_field.in_tool and (is_made_of_items or any(map(_is_named, found[last_field.place]))):
            chosen, doubts = [last_field], []
        else:
            doubts = ["several_answers"]
    call = chosen[-1]
    text, is_clear = texts[call.place]
    taken = found[call.place]
    others = [one for one in values if not (one in written or _is_item(one) or len(one[1].split()) < _FEW_WORDS)]
    if not is_clear or (_foreign(facts, call, others) and not any(map(_is_named, taken))):
        doubts = ["several_answers"]
    is_whole = is_shown_object(text) or _is_same(call.reply, facts.canonical(text))
    said = [] if is_whole else _joined(facts, [call for call in facts.calls if call.reply], facts.canonical(text))
    return Answer(call.step.reply if is_whole else text, "reply_in_output", said or [call], doubts)


def _is_item(value: _Named) -> bool:
    return any(name.isdigit() for name in value[0])


def _is_named(value: _Named) -> bool:
    """Whether a path says that its text is an answer."""
    names = [name for name in value[0] if not name.startswith(_BEGINS)]
    return any(name in _NAMES or name.startswith("final") or name.endswith(_ENDS) for name in names)


def _sources(facts: Facts, text: str) -> list[Call]:
    """Return the calls whose reply a text is, or was taken from: a value of JSON, a line or a piece; or that it is made of."""
    known, items = facts.canonical(text), items_of([text])
    said = [call for call in facts.calls if call.reply]
    if is_shown_object(text):
        return [call for call in said if facts.find(call.reply, known) >= 0]
    same = [call for call in said if _is_same(call.reply, known)]
    if same and len(known) >= _SHORT:
        return same
    last = next((call for call in reversed(said) if not call.step.calls_tool), None)
    if last and not last.in_tool and len(last.reply) >= _MIN_PIECE and facts.find(last.reply, known) >= 0:
        return [last]
    if not same and (joined := _joined(facts, said, known)):
        return joined[-1:]
    tools = max((facts.tree.place[step.id] for step in facts.tree.steps if step.kind == "tool"), default=-1)
    # Arguments for a tool that did not run are an object that the model filled in.
    said = [call for call in said if not call.in_tool and not (call.step.calls_tool and call.place < tools)]
    is_long = len(known) >= _SHORT
    taken = [
        call for call in said if call in same or items in call.said or (is_long and facts.find(known, call.reply) >= 0)
    ]
    return taken or _keeping_words(said, known) or _holding(facts, said, text)


def _own_outputs(facts: Facts) -> list[_Named]:
    """Return the texts that the request returns, fields before items, without what it was given or searched for."""
    root = facts.root
    if root is None:
        return []
    steps = [one for search in facts.searches for one in (search.step, *facts.tree.ancestors(search.step))]
    texts = (one.text for step in (root, *steps) for one in step.inputs)
    given = {facts.canonical(text) for text in (facts.question, *(step.query for step in steps), *texts) if text}
    values = [(value.path, value.text) for value in root.outputs if value.text]
    if root.reply and not root.calls_tool:
        values.append(((), root.reply))
    return sorted((value for value in values if facts.canonical(value[1]) not in given), key=_is_item)


def _chosen_text(facts: Facts, call: Call, taken: Sequence[_Named]) -> tuple[str, bool]:
    """Choose the answer among texts that were taken from one reply. Return it, and whether this is clear."""
    fields = [value for value in taken if not _is_item(value)] or taken
    if len({text for _, text in fields}) > 1:
        names = {facts.canonical(text): path for path, text in call.fields}
        paths = {value: (*value[0], *names.get(facts.canonical(value[1]), ())) for value in fields}
        named = [value for value in fields if _is_named((paths[value], ""))]
        fields = named or [one for one in fields if (_LABELS - _DECISIONS).isdisjoint(paths[one])] or fields
    if len({text for _, text in fields}) == 1:
        return fields[0][1], True
    returned = {(path[-1:], facts.canonical(text)) for path, text in taken}
    is_whole = all((path[-1:], facts.canonical(text)) in returned for path, text in call.fields)
    return call.step.reply or "", bool(call.fields) and is_whole


def _foreign(facts: Facts, call: Call, values: Sequence[_Named]) -> bool:
    """Whether one of the texts may be an answer that the application made of a reply, such as a translation."""
    least = 1 if call.fields else _FEW_WORDS
    texts = [facts.canonical(text) for path, text in values if _LABELS.isdisjoint(path) and len(text.split()) >= least]
    # A word with digits or punctuation is an id or an address.
    texts = [text for text in texts if " " in text or text.strip(".!?").isalpha()]
    return any(not call.is_visible or facts.find(text, call.prompt.text) < 0 for text in texts)


def _last_reply(facts: Facts) -> Answer | None:
    calls = [
        call for call in facts.calls if call.step.reply is not None and not call.step.calls_tool and not call.in_tool
    ]
    if len(calls) > 1:
        calls = _with_passages(facts, calls)
    if not calls or _returns_documents(facts):
        return None
    doubts = ["several_answers"] if _foreign(facts, calls[-1], _own_outputs(facts)) else []
    return Answer(calls[-1].step.reply, "last_reply", calls[-1:], doubts)


def _returns_documents(facts: Facts) -> bool:
    """Whether the request returned only documents that were found, or messages to which the assistant did not reply."""
    root = facts.root
    lists = [] if root is None else [value for value in root.outputs if value.text is None]
    if root is None or not lists or _own_outputs(facts) or _text_of(root) is not None:
        return False
    found = {facts.canonical(passage.text) for search in facts.searches for passage in search.passages}
    returned = {facts.canonical(passage.text) for value in lists for passage in value.passages or ()}
    turns = [value.messages for value in lists if value.messages]
    said = ((one, turn[-1]) for turn in turns for one in [one for one in turn if one.role == "assistant"][-1:])
    return returned <= found and not any(one.calls_tool or one is last for one, last in said)


def _chosen(facts: Facts, calls: list[Call]) -> tuple[list[Call], list[str]]:
    """Choose among calls that could have written the answer: the last one wrote it, unless their contexts differ."""
    if len(calls) < 2:
        return calls, []
    calls = _with_passages(facts, calls)
    calls = [call for call in calls if not _quotes(facts, call, calls)] or calls
    if len(calls) > 1 and any(len(call.reply) < _SHORT for call in calls):
        contexts = [_contexts(facts, call) for call in calls]
        if not all(one <= contexts[-1] for one in contexts):  # a grader was shown a part of what the last call was
            return calls, ["several_answers"]
    return calls, []


def _quotes(facts: Facts, call: Call, others: Sequence[Call]) -> bool:
    """Whether the prompt of a call quotes an earlier one, as the prompt of a guard quotes what it checks.

    A call that gives the quoted reply back and shows further passages of the same search is not a guard: it refined the
    answer, and kept it. Passages of another search can be rules of the guard.
    """
    # A short answer stands in a prompt by coincidence.
    earlier = [other for other in others if other.place < call.place and len(other.reply) >= _SHORT]
    try:
        return call.is_visible and any(
            other.reply in call.prompt
            and not (other.reply == call.reply and _adds(facts, call, other, same_search=True))
            for other in earlier
        )
    except TooLargeError:
        return False


def _adds(facts: Facts, call: Call, earlier: Call, *, same_search: bool) -> bool:
    """Whether a call shows passages that an earlier one does not, of the same search if both are known, or of any."""
    shown = [_contexts(facts, one) for one in (call, earlier)]
    if shown[0] <= shown[1] or not same_search:
        return not shown[0] <= shown[1]
    texts = [{facts.canonical(passage.text) for passage in search.passages} for search in facts.searches]
    searches = [{place for place, known in enumerate(texts) if known & one} for one in shown]
    return not all(searches) or not searches[0].isdisjoint(searches[1])


def _with_passages(facts: Facts, calls: list[Call]) -> list[Call]:
    """Return the calls with passages in their prompts, or all if there are none."""
    return [call for call in calls if _contexts(facts, call)] or calls


def _contexts(facts: Facts, call: Call) -> frozenset[str]:
    if not call.is_visible:
        return frozenset()
    try:
        return frozenset(match.excerpt or match.candidate.text for match in facts.matches(call))
    except TooLargeError:
        return frozenset()


def _keeping_words(calls: Sequence[Call], text: str) -> list[Call]:
    """Return the calls whose replies, or values in their JSON, have the words of a text in its order, but for citations.

    They are the same words, or at least half of the words of the text.
    """
    others = words_of(text)
    calls_found = []
    for call in calls:
        for words in call.words:
            rest = iter(others)
            is_most = len(words) >= _FEW_WORDS and len(words) <= len(others) <= 2 * len(words)
            if (words and words == others) or (is_most and all(word in rest for word in words)):
                calls_found.append(call)
                break
    return calls_found


def _is_same(reply: str, text: str) -> bool:
    if reply == text:
        return True
    if not (reply[:1] in "{[" and text[:1] in "{["):
        return False
    return (value := _json(reply)) is not None and value == _json(text)


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
