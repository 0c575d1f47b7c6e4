"""What the model saw when it wrote the answer."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Final

from ragstone.requests._answer import Answer
from ragstone.requests._draft import PassageDraft
from ragstone.requests._facts import Call, Facts, items_of, output_texts
from ragstone.requests._harvest import last_question, look_up
from ragstone.requests._match import Match, Text, TooLargeError, has_word_edges
from ragstone.requests._step import Message, Step, Value
from ragstone.schema import ContextsRule, field_names

_MIN_REPLY_BYTES: Final = 40
"""In UTF-8, because 14 Chinese characters say as much as 40 Latin ones."""
_MIN_REPLY_WORDS: Final = 6
_MIN_REPEATED: Final = 20
"""Characters of a reply that a prompt does not contain by coincidence if the answer is the same reply."""
_MIN_TOOL_TEXT: Final = 80
"""Characters of a tool's result from which on it can be a passage."""
_NEXT: Final = 40
"""Characters between a question and its answer that stand next to each other."""
_MAX_PHRASE: Final = 60
"""Characters of the beginning of a reply that are looked for in a later prompt, which may hold a cut reply."""
_MIN_NAME: Final = 4
_MAX_PLACES: Final = 64
"""Places of a short reply in a prompt that are compared."""
_MANY: Final = 20
"""Texts searched in a tool's result from which on it is indexed."""


@dataclasses.dataclass(slots=True)
class Contexts:
    """The passages, the rule that found them, and what is unclear about them."""

    passages: list[PassageDraft] | None
    """None if they are not known."""
    rule: ContextsRule
    doubts: list[str] = dataclasses.field(default_factory=list)


def find_contexts(facts: Facts, answer: Answer) -> Contexts:
    """Find the contexts by the first rule that finds them."""
    stated = facts.request.statements.contexts
    if stated is None:
        kinds = ("chain", "agent", "other", "model")
        steps = (step for step in facts.tree.steps if step.kind in kinds and facts.counts(step))
        stated = next((step.passages for step in steps if step.passages is not None), None)
    if stated is not None:
        return Contexts(list(stated), "stated")
    try:
        shown = _in_prompts(facts, answer)
    except TooLargeError:
        return without_prompt(facts, answer.calls, ["too_large"])
    return without_prompt(facts, answer.calls) if shown is None else shown


def _in_prompts(facts: Facts, answer: Answer) -> Contexts | None:
    """Return the passages in the prompts behind the answer, or None if no prompt is visible."""
    visible = [call for call in facts.calls if call.is_visible]
    if not visible:
        return None
    if answer.text is None:
        return _without_answer(facts, answer, visible)
    if not answer.calls:
        # Without anything found or given there is nothing that it could have been made from.
        doubt = "no_model_wrote_it" if answer.text.strip() else "empty_answer"
        return Contexts(None, "unknown", [doubt] if facts.searches or facts.candidates else [])
    if not all(call.is_visible for call in answer.calls):
        return None
    calls, is_unclear = answer.calls, False
    if answer.combining is not None:
        is_unclear = calls[0] not in _with_predecessors(facts, [answer.combining])
        calls = [*calls, answer.combining]
    calls = _with_predecessors(facts, calls)
    matches = facts.find_passages([facts.finder(call) for call in _not_repeated(facts, calls)])
    doubts = [*_tool_doubts(facts, calls, matches), *_state_doubts(facts, matches)]
    if is_unclear and "several_answers" not in answer.doubts:
        doubts.append("several_answers")
    doubts += _reply_doubts(facts, calls, matches)
    if matches and "short_reply" not in doubts and _is_lost_in_tool(facts, calls, matches):
        doubts.append("short_reply")
    known = {match.candidate for match in matches}
    silent = [call for call in visible if call not in calls and call.step.reply is None and not call.step.calls_tool]
    if any(match.candidate not in known for call in silent for match in facts.matches(call)):
        doubts.append("several_answers")  # prompts of a block whose replies it did not pass
    if matches:
        return _shown(matches, doubts)
    if left_nothing(facts):
        return Contexts([], "made_by_last_step", doubts)
    if any(candidate.text for candidate in facts.candidates):
        return Contexts(None, "unknown", [*doubts, "not_in_prompt"])
    if facts.searches:
        return without_prompt(facts, answer.calls, doubts)
    return Contexts(None, "unknown", doubts)


def _without_answer(facts: Facts, answer: Answer, calls: Sequence[Call]) -> Contexts | None:
    """Return the documents that a request without an answer returned, or those in the only prompt that has some.

    Of several such prompts, nothing says which one led to what the request returned.
    """
    if facts.request.draft.status != "ok":
        return None
    contexts = without_prompt(facts, answer.calls)
    if contexts.rule == "in_output":
        return contexts
    shown = [found for call in _not_repeated(facts, calls) if (found := facts.matches(call))]
    if len(shown) == 1:
        return _shown(shown[0], [*_tool_doubts(facts, calls, shown[0]), *_state_doubts(facts, shown[0])])
    return Contexts(None, "unknown") if shown else contexts


def _shown(matches: Sequence[Match], doubts: list[str]) -> Contexts:
    """Return the passages that stand in prompts."""
    if any(match.is_changed for match in matches):
        doubts = [*doubts, "not_in_prompt"]
        matches = [match for match in matches if not match.is_changed]
        if not matches:
            return Contexts(None, "unknown", doubts)
    if any(match.is_doubtful for match in matches):
        doubts = [*doubts, "short_passage"]
    is_cut = any(match.excerpt is not None for match in matches)
    return Contexts(_passages(matches), "part_of_prompt" if is_cut else "in_prompt", doubts)


def _passages(matches: Iterable[Match]) -> list[PassageDraft]:
    """Return the passages of matches, each text once."""
    passages: dict[str, PassageDraft] = {}
    for match in matches:
        passage = match.candidate.passage
        if match.excerpt is None:
            passages.setdefault(match.candidate.text, passage)
        else:
            passages.setdefault(match.excerpt, dataclasses.replace(passage, text=match.excerpt))
    return list(passages.values())


def _with_predecessors(facts: Facts, answering: Sequence[Call]) -> list[Call]:
    """Return calls, each after those whose replies stand in its prompt, and so on back, in the order of the prompt."""
    repeated = {call.reply for call in answering if len(call.reply) >= _MIN_REPEATED}
    end = max((call.place for call in answering), default=0)
    earlier = _telling(facts, [call for call in facts.calls if call.place < end])
    possible = {call.place for call in earlier if _is_long(call.reply) or call.reply in repeated}
    results = _replies_of_runs(facts, earlier)
    quoted: dict[int, list[Call]] = {}
    known: set[int] = set()
    waiting = list(answering)
    while waiting:
        after = waiting.pop()
        if after.place in quoted:
            continue
        said = _turn_replies(facts, after)
        before = [call for call in earlier if call.place < after.place and call.place not in known]
        found = [
            call
            for call in before
            if (call.place in possible and after.shows(call.reply))
            or call.reply in said
            or any(_is_result_in(facts, run, call, after) for run in results.get(call.place, ()))
        ]
        found = found or _joined(facts, before, after)
        found += [call for call in before if call not in found and _stands(facts, call, after) >= _MIN_REPEATED]
        # Calls of tools that run at the same time begin in any order, and their results have one.
        found.sort(key=lambda call: (facts.find(call.reply, after.prompt.text), call.place), reverse=True)
        quoted[after.place] = found
        known.update(call.place for call in found)
        waiting += found
    ordered: dict[int, Call] = {}
    waiting = list(answering)[::-1]
    while waiting:
        call = waiting[-1]
        if missing := quoted.pop(call.place, None):
            waiting += missing
        else:
            ordered.setdefault(call.place, waiting.pop())
    return list(ordered.values())


def _telling(facts: Facts, calls: Sequence[Call]) -> list[Call]:
    """Return the calls whose replies can be a part of a later prompt: neither queries nor documents made from passages."""
    calls = [call for call in calls if call.is_visible and call.reply]
    if not calls:
        return []
    queries = {facts.canonical(step.query) for step in facts.tree.steps if step.query and step.kind != "chain"}
    queries.add(facts.canonical(facts.question))
    # A call whose reply became a document, or a part of one, compressed a passage, as a call inside of a retriever
    # does.
    known = queries | facts.made_texts
    return [
        call for call in calls if call.reply not in known and not (_is_long(call.reply) and call.reply in facts.written)
    ]


def _stands(facts: Facts, call: Call, after: Call) -> int:
    """Return the characters of a reply, or of a value in it, that stand by themselves in a later prompt, outside of passages."""
    shown = [] if call.step.calls_tool else [parts for parts in call.said if parts <= after.items]
    if not shown:
        return 0
    passages = (match.candidate.passage.text for match in facts.matches(after))
    known = items_of([facts.question, *passages])
    return max((_size(parts) for parts in shown if not parts <= known), default=0)


def _reply_doubts(facts: Facts, calls: Sequence[Call], matches: Sequence[Match]) -> Iterator[str]:
    """Yield a doubt if a prompt holds a short reply of a call that saw other passages."""
    known = {match.candidate.text for match in matches}
    places = {call.place for call in calls}
    left_out = [call for call in facts.calls if call.place not in places and call.place < max(places)]
    for call in _telling(facts, [call for call in left_out if not call.step.calls_tool]):
        phrase = call.reply if len(call.reply) <= _MAX_PHRASE else call.reply[: _MAX_PHRASE + 1].rpartition(" ")[0]
        phrase = phrase.rstrip(".!?")
        later = [after for after in calls if after.place > call.place]
        standing = any(_stands(facts, call, after) for after in later)
        if not standing and not any(after.shows(phrase) for after in later):
            continue
        lost = [one.candidate.text for one in facts.matches(call) if one.candidate.text not in known]
        # A name or a number that the call took from a passage may stand inside of a sentence.
        is_taken = len(phrase) >= _MIN_NAME and any(facts.find(phrase, text) >= 0 for text in lost)
        is_telling = is_taken or len(phrase) >= _MIN_REPLY_BYTES
        inside = is_telling and any(facts.find(phrase, _rest(facts, after)) >= 0 for after in later)
        if lost and (standing or inside):
            yield "short_reply"
            return


def _is_lost_in_tool(facts: Facts, calls: Sequence[Call], matches: Sequence[Match]) -> bool:
    """Whether a prompt holds the result of a tool that made it from a reply in its own words, and from other passages."""
    known = {match.candidate.text for match in matches}
    lost: set[str | None] = set()
    for run in _tools(facts):
        inner = [call for call in facts.calls if call.in_tool and facts.tree.is_within(call.step, run)]
        inner = [] if any(call in calls for call in inner) or not facts.counts(run) else inner
        found = [one.candidate.text for call in inner for one in facts.matches(call)]
        later = (call for call in calls if call.place > facts.tree.place[run.id])
        if not known.issuperset(found) and any(_holds_result(facts, call, run) for call in later):
            lost.add(run.name)
    for name in lost:  # a tool that gave passages back, perhaps when it was called again, selects them
        texts = [text for step in _tools(facts) if step.name == name for text in output_texts(step)]
        result = " ".join(map(facts.canonical, texts))
        if not any(facts.find(match.excerpt or match.candidate.text, result) >= 0 for match in matches):
            return True
    return False


def _holds_result(facts: Facts, call: Call, run: Step) -> bool:
    """Whether a prompt holds what a tool returned: in a message of the tool, or outside of passages if it has none."""
    texts = [text for text in map(facts.canonical, output_texts(run)) if text]
    messages = [message for message in call.messages if message.role == "tool"]
    named = [facts.canonical(one.text) for one in messages if one.tool in (None, run.name)]
    shown = named if messages else [_rest(facts, call)]
    return bool(named and not texts) or any(facts.find(text, one) >= 0 for one in shown for text in texts)


def _rest(facts: Facts, call: Call) -> str:
    """Return a prompt without its passages and the question."""
    text, end, parts = call.prompt.text, 0, []
    for match in facts.matches(call):
        parts.append(text[end : match.start])
        end = match.end
    return " ".join([*parts, text[end:]]).replace(facts.canonical(facts.question) or "\n", " ")


def _joined(facts: Facts, calls: Sequence[Call], after: Call) -> list[Call]:
    """Return the calls with passages if all their replies, even short ones, stand next to each other in a prompt."""
    shown = [call for call in calls if after.shows(call.reply)]
    if len(shown) < 2 or _size(call.reply for call in shown) < _MIN_REPEATED:
        return []
    calls = [call for call in calls if not call.step.calls_tool and facts.matches(call)]
    places: list[tuple[int, int]] = []
    for reply in {call.reply for call in calls}:
        places += [(start, start + len(reply)) for start in islice(after.prompt.starts(reply), _MAX_PLACES)]
    n_near, end = 0, -1
    for start, stop in sorted(places):
        n_near = n_near + 1 if start - end <= _NEXT else 1
        end = max(end, stop)
        if n_near >= len(calls) > 1:
            return calls
    return []


def _replies_of_runs(facts: Facts, calls: Sequence[Call]) -> dict[int, list[Step]]:
    """Return, by the place of a call, the tools and engines around it whose result is its reply, even a short one."""
    results: dict[int, list[Step]] = {}
    for run in () if not calls else facts.tree.steps:
        if run is not facts.root and run.kind in ("tool", "chain", "agent") and facts.counts(run):
            texts = output_texts(run)
            for call in calls if texts else ():
                if facts.tree.is_within(call.step, run) and _is_in_result(facts, call, texts, run):
                    results.setdefault(call.place, []).append(run)
    return results


def _is_in_result(facts: Facts, call: Call, texts: Sequence[str], run: Step) -> bool:
    """Whether the result of a run is the reply of a call, or for a tool, holds it."""
    is_part = run.kind == "tool" and any(parts <= items_of(texts) for parts in call.said)
    return is_part or call.reply in map(facts.canonical, texts)


def _turn_replies(facts: Facts, call: Call) -> set[str]:
    """Return the whole messages of assistants in a prompt that follow the last one of the user: of other agents of the turn."""
    users = [place for place, message in enumerate(call.messages) if message.role == "user"]
    turn = call.messages[users[-1] + 1 :] if users else ()
    return {facts.canonical(one.text) for one in turn if one.role == "assistant" and not one.calls_tool}


def _is_result_in(facts: Facts, run: Step, call: Call, after: Call) -> bool:
    """Whether a prompt holds the result of a run: in a message of the tool, or next to the question of the run."""
    if facts.tree.is_within(after.step, run):
        return False
    if run.kind != "tool":
        asked = facts.canonical(run.query or look_up(run.inputs, field_names("query", "input"), last_question) or "")
        end = facts.find(asked, after.prompt.text) + len(asked) if asked else 0
        return end > len(asked) and facts.find(call.reply, after.prompt.text[end : end + len(call.reply) + _NEXT]) >= 0
    messages = [message for message in after.messages if message.role == "tool"]
    if not messages:
        return call.reply in after.prompt
    texts = [message.text for message in messages if message.tool in (None, run.name)]
    is_whole = any(facts.find(call.reply, facts.canonical(text)) >= 0 for text in texts)
    return is_whole or any(parts <= items_of(texts) for parts in call.said)


def _is_long(reply: str) -> bool:
    """Whether a prompt does not contain a reply by coincidence."""
    is_long = len(reply.encode("utf-8", "replace")) >= _MIN_REPLY_BYTES
    return is_long and (len(reply.split()) >= _MIN_REPLY_WORDS or not reply.isascii())


def _not_repeated(facts: Facts, calls: Sequence[Call]) -> Iterator[Call]:
    """Yield the calls whose prompts are not the beginning of the prompt of another one, as an agent's are."""
    for place, call in enumerate(calls):
        n = len(call.messages)
        others = (other for other in calls[place + 1 :] if len(other.messages) > n)
        facts.budget.spend(n)
        if not any(tuple(other.messages[:n]) == tuple(call.messages) for other in others):
            yield call


def _tool_doubts(facts: Facts, calls: Sequence[Call], matches: Sequence[Match]) -> Iterator[str]:
    """Yield doubts about results of tools in the prompts that are not known to be passages."""
    known = [match.excerpt or match.candidate.text for match in matches]
    results = {step.id: [facts.canonical(text) for text in output_texts(step)] for step in _tools(facts)}
    retrieving = {search.step.id for search in facts.searches}
    retrieving |= {around.id for search in facts.searches for around in facts.tree.ancestors(search.step)}
    retrievers = {step.name for step in _tools(facts) if step.id in retrieving}
    written = {call.reply for call in facts.calls if call.reply}
    unclear: dict[str, None] = {}
    for step in _tools(facts):
        doubt = f"text_tool:{step.name or 'unnamed'}"
        if doubt in unclear or step.id in retrieving or step.name in facts.others or not facts.counts(step):
            continue
        texts = {facts.canonical(text) for text in facts.texts_of_tool(step)} - written
        if _size(texts) < _MIN_TOOL_TEXT:
            continue
        shown = (_size(filter(call.prompt.__contains__, texts)) for call in calls)
        if any(size >= _MIN_TOOL_TEXT for size in shown) and not facts.echoes(step):
            unclear[doubt] = None
    made = {text for texts in results.values() for text in texts if text}
    # What a tool raised is shown to the model as its result.
    made |= {facts.canonical((step.error or "").partition(": ")[2]) for step in _tools(facts)} - {""}
    made |= {facts.canonical(text) for step in facts.tree.steps if step.kind == "other" for text in output_texts(step)}
    explained = [*known, *made]
    beginnings = {text[:_MIN_TOOL_TEXT]: text for text in explained if len(text) >= _MIN_TOOL_TEXT}
    whole: Text | None = None
    for message, is_earlier in _tool_messages(calls):
        text = facts.canonical(message.text)
        if len(text) < _MIN_TOOL_TEXT or text in made or message.tool in facts.others:
            continue
        facts.budget.spend(len(text))
        known_text = beginnings.get(text[:_MIN_TOOL_TEXT])
        if known_text and text.startswith(known_text) and has_word_edges(text, 0, len(known_text)):
            continue
        if whole is None:
            whole = Text(" ".join(explained), facts.budget, indexed=True)
        if text in whole:
            continue
        within = Text(text, facts.budget, indexed=len(explained) >= _MANY)
        if not any(other in within for other in explained):
            # The result of a tool that retrieves was changed on the way to the prompt.
            known_tool = message.tool in facts.separators or message.tool in retrievers
            doubt = "not_in_prompt" if known_tool else f"text_tool:{message.tool or 'unnamed'}"
            unclear["passages_from_earlier_turn" if is_earlier else doubt] = None
    yield from unclear


def _state_doubts(facts: Facts, matches: Sequence[Match]) -> Iterator[str]:
    """Yield doubts about lists in the state that nothing but their place in the prompt shows to be passages."""
    if not facts.searches:
        shown = {id(match.candidate.passage) for match in matches}
        for key, passages in facts.unclear.items():
            # With an id or metadata, they have the form of documents.
            is_plain = any(passage.id is None and not passage.metadata for passage in passages)
            if is_plain and any(id(passage) in shown for passage in passages):
                yield f"text_in_state:{key}"


def _size(texts: Iterable[str]) -> int:
    return sum(len(text.encode("utf-8", "replace")) for text in texts)


def _tools(facts: Facts) -> list[Step]:
    return [step for step in facts.tree.steps if step.kind == "tool"]


def _tool_messages(calls: Sequence[Call]) -> Iterator[tuple[Message, bool]]:
    """Yield the tools' messages in prompts, and whether a later message of the user follows."""
    for call in calls:
        users = [place for place, message in enumerate(call.messages) if message.role == "user"]
        last = users[-1] if users else -1
        for place, message in enumerate(call.messages):
            if message.role == "tool":
                yield message, place < last


_NAMES: Final = frozenset(field_names("contexts", "output"))
_MAKING: Final = frozenset({"transform", "chain", "agent", "part", "other"})


def without_prompt(facts: Facts, answering: Sequence[Call], doubts: Sequence[str] = ()) -> Contexts:
    """Find the contexts without a prompt. `answering` are the model calls that wrote the answer."""
    end = max((call.step.ended_at or 0.0 for call in answering), default=0.0)
    searches = [
        search for search in facts.searches if not end or not search.step.started_at or search.step.started_at <= end
    ]
    found = [passage for search in searches for passage in search.passages]
    changes = list(_changes(facts))
    known = [*found, *(passage for _, made in changes for passage in made)]
    if (in_output := _in_output(facts, known)) is not None:
        return Contexts(in_output, "in_output", [*doubts])
    if (made := _made(found, changes)) is not None:
        return Contexts(made, "made_by_last_step", [*doubts])
    if (given := _given(facts, [call.step for call in answering], known)) is not None:
        return Contexts(given, "given", [*doubts])
    return Contexts(found, "found", [*doubts]) if searches else Contexts(None, "unknown", [*doubts])


def left_nothing(facts: Facts) -> bool:
    """Whether steps were given all that was found, and returned none of it."""
    return _made([passage for search in facts.searches for passage in search.passages], list(_changes(facts))) == []


def _in_output(facts: Facts, known: Sequence[PassageDraft]) -> list[PassageDraft] | None:
    """Return the passages that the request returns, of those that were found."""
    for value in facts.root.outputs if facts.root is not None else ():
        if value.passages is not None and (not value.path or value.path[-1] in _NAMES):
            passages = _known_of(value.passages, known)
            if passages or not value.passages:
                return passages
    return None


def _changes(facts: Facts) -> Iterator[tuple[frozenset[str], Sequence[PassageDraft]]]:
    """Yield the texts of the documents that a step was given, and the documents that it made of them."""
    for step in facts.tree.finished:
        if step is facts.root or step.kind not in _MAKING or not facts.counts(step):
            continue
        if any(around.kind == "retrieval" for around in facts.tree.ancestors(step)):
            continue
        made = step.passages if step.kind == "transform" else None
        if made is None:
            made = next((value.passages for value in step.outputs if value.passages is not None), None)
        texts = frozenset(step.input_texts or (one.text for value in step.inputs for one in value.passages or ()))
        if made is not None and texts:
            yield texts, made


def _made(
    found: Sequence[PassageDraft], changes: Sequence[tuple[frozenset[str], Sequence[PassageDraft]]]
) -> list[PassageDraft] | None:
    """Put what each step made in the place of what it was given, or None if no step made anything."""
    if not changes:
        return None
    contexts = list(found)
    for texts, made in changes:
        touched = texts.union(passage.text for passage in made)
        place = next((i for i, passage in enumerate(contexts) if passage.text in touched), len(contexts))
        contexts = [*contexts[:place], *made, *(passage for passage in contexts[place:] if passage.text not in touched)]
    return contexts


def _given(facts: Facts, answering: Sequence[Step], known: Sequence[PassageDraft]) -> list[PassageDraft] | None:
    """Return the documents in the inputs of the step that answered, of those that were found."""
    if answering:
        steps = [around for step in answering[-1:] for around in (step, *facts.tree.ancestors(step))]
    else:
        steps = [step for step in reversed(facts.tree.finished) if output_texts(step) and facts.counts(step)]
    for step in steps:
        given: list[Value] = [value for value in step.inputs if value.passages]
        passages = _known_of([passage for value in given for passage in value.passages or ()], known)
        if passages:
            return passages
    return None


def _known_of(passages: Sequence[PassageDraft], known: Sequence[PassageDraft]) -> list[PassageDraft]:
    """Return those that were found or made, possibly shortened since, which their ids show, or all if none was."""
    texts = {passage.text for passage in known}
    ids = {passage.id for passage in known if passage.id is not None}
    return [passage for passage in passages if not known or passage.text in texts or passage.id in ids]
