"""What the steps of a request contain, before a rule chooses among it: model calls, retrievals, documents."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Hashable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import Final

from ragstone.requests._draft import PassageDraft, RetrievalDraft
from ragstone.requests._harvest import harvest
from ragstone.requests._match import (
    Budget,
    Candidate,
    Finder,
    Match,
    Text,
    TooLargeError,
    canonical,
    has_word_edges,
    longest_piece,
)
from ragstone.requests._python_text import read_python_text
from ragstone.requests._step import Message, Request, Step, Value
from ragstone.requests._tree import Tree, find_root
from ragstone.schema import field_names

_INDEX_PAIRS: Final = 400
"""Pairs of passage and prompt from which on prompts are indexed."""
_CHARS_AT_ONCE: Final = 16
"""Characters that Python's own search compares in the time in which ours compares one."""
_MAX_STAGES: Final = 8
_ASKED: Final = {*field_names("query", "output"), "search_query"} - {"input"}
"""Names of an argument of a tool that is a question. Tracers name all arguments of a tool `input`."""
_MAX_NAMED: Final = 1_000
_NAME: Final = re.compile(r"""['"](\w+)['"]\s*:""")
"""A name in arguments that are one text, of JSON or Python."""
_BETWEEN: Final = re.compile(r"""[\n,;:|"(){}\[\]<>]|[.!?]\s|\s[-*\u2022\u2013]\s|\\n""")
_NUMBER: Final = re.compile(r"^[ \t]{0,8}\d{1,3}[.)]\s", re.MULTILINE)
_CITATION: Final = re.compile(r"[ ]?\[[\d, ]{1,12}\]")
_ASIDE: Final = re.compile(
    r"\[[^\]\n]{0,80}\](?:\([^)\n]{0,300}\))?|</?\w{1,9}>|[(\u3010][^)\u3011\n]{0,80}[)\u3011]|[\u00b9\u00b2\u00b3\u2070-\u2079]+"
)
"""Citations and other remarks that an application rewrites: in brackets, as links, or as raised numbers."""
_WORD: Final = re.compile(r"[^\W_]+")
_AROUND: Final = " .!?'`*#-\u2022\u2013\u3002"
_MIN_SENTENCE: Final = 32
_MAX_PARSED_CHARS: Final = 1_000_000
_LINE_NUMBER: Final = re.compile(r"\A\s*\d+\s?[\t:|→]")
_MIN_KEPT_TEXT: Final = 80
"""Characters of a text in a document's metadata from which on a prompt does not contain it by coincidence."""


class Call:
    """A model call whose reply can be the answer or a part of it."""

    def __init__(self, facts: Facts, step: Step, *, in_tool: bool) -> None:
        self._facts = facts
        self.step = step
        self.place = facts.tree.place[step.id]
        self.reply = facts.canonical(step.reply or "")
        """In canonical form."""
        self.in_tool = in_tool
        self.messages: Sequence[Message] = step.prompt or ()
        """The messages of its prompt, none if the prompt is not known."""
        self.is_visible = step.prompt is not None
        """Whether its prompt is known."""
        self.matches: list[Match] | None = None
        """The passages in its prompt, once they are known."""
        self._shown: dict[str, bool] = {}

    def shows(self, text: str) -> bool:
        """Whether its prompt holds a text, in whole words. Many calls, such as graders, give the same reply."""
        if text not in self._shown:
            self._facts.budget.spend(len(self.prompt.text) // _CHARS_AT_ONCE)
            self._shown[text] = text in self.prompt.text and text in self.prompt
        return self._shown[text]

    @cached_property
    def prompt(self) -> Text:
        """The text of its prompt."""
        return self._facts.text(self._facts.prompt_of(self.step))

    @cached_property
    def items(self) -> frozenset[str]:
        """What stands by itself in its prompt, without earlier answers of the assistant."""
        users = [place for place, message in enumerate(self.messages) if message.role == "user"]
        last = users[-1] if users else 0
        return items_of(one.text for place, one in enumerate(self.messages) if one.role != "assistant" or place > last)

    @cached_property
    def fields(self) -> list[tuple[tuple[str, ...], str]]:
        """The texts in a reply that is JSON, with their paths; none in another reply."""
        reply = self._shown_reply
        values = _values_in(reply) if reply[:1] in ("{", "[") else ()
        return [(value.path, text) for value in values for text in _texts_of(value)]

    @property
    def _shown_reply(self) -> str:
        """The reply without thoughts and without the fence around JSON."""
        return (self.step.reply or "").rpartition("</think>")[2].strip("` \n").removeprefix("json").strip()

    @cached_property
    def words(self) -> list[list[str]]:
        """The words of the reply, and of each value in its JSON, without citations."""
        return [words_of(text) for text in (self.reply, *(text for _, text in self.fields))]

    @property
    def said(self) -> list[frozenset[str]]:
        """Of each text that the application can take from the reply, its parts: a value in JSON, a line, or all."""
        known = self._facts.said.get(self.reply)
        if known is None:
            texts = [text for _, text in self.fields]
            if not texts:
                reply = self._shown_reply
                lines = reply.splitlines()
                texts = [reply, *lines, *(line.partition(": ")[2] for line in lines)]
            texts += [_CITATION.sub("", text) for text in texts if "[" in text]
            parts = (items_of([text]) for text in dict.fromkeys(texts) if text)
            known = self._facts.said[self.reply] = [one for one in parts if one]
        return known


@dataclasses.dataclass(slots=True, eq=False)
class Search:
    """A retriever call, or a call of a tool that retrieves."""

    step: Step
    passages: Sequence[PassageDraft]
    stages: list[RetrievalDraft] = dataclasses.field(default_factory=list)

    def draft(self) -> RetrievalDraft:
        """Return it as the trace names it."""
        return RetrievalDraft(
            query=self.step.query, passages=list(self.passages), name=self.step.name, stages=self.stages
        )


class Facts:
    """The steps of a request and what is in them. Steps of an attempt that failed contribute nothing."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.tree = Tree(request.steps)
        root = request.root
        self.root = root if root is not None and root in self.tree else find_root(self.tree)
        self.budget = Budget()
        self.question = ""
        """What the user asked, once it is known."""
        tools = request.retriever_tools
        self.separators = {
            name: one if isinstance(one, str) else None for name, one in tools.items() if one is not False
        }
        """By name of a tool that retrieves, what separates the passages in its text result."""
        self.others = frozenset(name for name, one in tools.items() if one is False)
        """Names of tools that do not retrieve."""
        self._canonical: dict[str, str] = {}
        self._tool_values: dict[Hashable, list[Value]] = {}
        self.said: dict[str, list[frozenset[str]]] = {}
        """By reply, see `Call.said`."""
        self._failed = self._find_failed()

    @cached_property
    def declared_tools(self) -> dict[str, bool]:
        """Whether each declared tool was called. A call counts even if it failed, or if only a prompt shows its result."""
        declared = self.request.retriever_tools
        if not declared:
            return {}
        called = {step.name for step in self.tree.steps if step.kind in ("tool", "retrieval")}
        called |= {message.tool for call in self.calls for message in call.messages if message.role == "tool"}
        return {name: name in called for name in declared}

    def _find_failed(self) -> set[Hashable]:
        """Return the ids of the steps in attempts that failed while the request went on."""
        failed: set[Hashable] = set()
        raised = {self.root.id} if self.root is not None and self.root.error is not None else set()
        """Steps through which the error of the request passed: they are the request, not an attempt."""
        for step in reversed(self.tree.finished):  # a step before those inside it
            around = self.tree.parent(step)
            if step is self.root:
                continue
            if around is not None and around.id in failed:
                failed.add(step.id)
            elif step.error is not None:
                (raised if around is not None and around.id in raised else failed).add(step.id)
        return failed

    def counts(self, step: Step) -> bool:
        """Whether a step is not part of an attempt that failed."""
        return step.id not in self._failed

    def canonical(self, text: str) -> str:
        """Return the canonical form of a text of this request, computed once: each prompt of an agent repeats the one before."""
        known = self._canonical.get(text)
        if known is None:
            known = self._canonical[text] = canonical(text)
        return known

    def prompt_of(self, step: Step) -> str:
        """Return the texts of the messages that a model was sent, in canonical form."""
        # The same as the canonical form of the joined texts, because whitespace cannot be a part of an escape.
        return " ".join(text for message in step.prompt or () if (text := self.canonical(message.text)))

    def text(self, text: str) -> Text:
        """Return a canonical text to search passages in."""
        return Text(text, self.budget, indexed=self._is_indexed)

    def find(self, piece: str, text: str, begin: int = 0) -> int:
        """Return where a canonical text stands in another one in whole words, or -1 if it does not, or at the limit."""
        try:
            self.budget.spend(len(text))
        except TooLargeError:
            return -1
        start = text.find(piece, begin)
        return start if start >= 0 and has_word_edges(text, start, start + len(piece)) else -1

    @cached_property
    def _is_indexed(self) -> bool:
        return sum(1 for _ in self._documents()) * max(1, len(self.calls)) >= _INDEX_PAIRS

    @cached_property
    def models(self) -> list[Step]:
        """The innermost model steps, failed ones included: a model around them repeats their tokens."""
        return self.tree.innermost(step for step in self.tree.steps if step.kind == "model")

    @cached_property
    def calls(self) -> list[Call]:
        """The model calls that are not a detail of a retrieval, in the order in which they began."""
        calls = []
        for step in self.models:
            around = self.tree.ancestors(step)
            kinds = {one.kind for one in around if one is not self.root or one.kind != "tool"}
            if self.counts(step) and not kinds & {"retrieval", "transform", "embedding"}:
                calls.append(Call(self, step, in_tool="tool" in kinds))
        return calls

    @cached_property
    def searches(self) -> list[Search]:
        """The outermost retrievals, and the tools that retrieve, in the order in which they began."""
        known = [step for step in self.tree.steps if self.counts(step) and step.kind == "retrieval"]
        known = [step for step in known if step.passages is not None]
        outer = self.tree.outermost(known)
        searches = [Search(step, step.passages or (), self._stages(step, known)) for step in outer]
        taken = set(self._around(outer))
        tools = [step for step in self.tree.finished if step.kind == "tool" and self.counts(step)]
        for read in (self._tool_passages, self._asked_texts):
            for step in tools:
                passages = read(step) if step.id not in taken else None
                if passages is not None:
                    searches.append(Search(step, passages))
                    taken.update(self._around([step]))
            made = (one for one in self.tree.finished if self.counts(one) and one.kind not in ("model", "tool"))
            if searches or any(value.passages and value.is_evident for one in made for value in one.outputs):
                break  # texts that only a question shows to be retrieved never stand next to others
        return sorted(searches, key=lambda search: self.tree.place[search.step.id])

    def _around(self, steps: Iterable[Step]) -> Iterator[Hashable]:
        """Yield the ids of steps, of the steps around them and of the steps in them."""
        for step in steps:
            yield from (around.id for around in self.tree.ancestors(step))
            yield from (inner.id for inner in self.tree.below(step))

    def _stages(self, step: Step, known: Sequence[Step]) -> list[RetrievalDraft]:
        inner = [one for one in known if one is not step and self.tree.is_within(one, step)]
        return [Search(one, one.passages or ()).draft() for one in inner[:_MAX_STAGES]]

    def _tool_passages(self, step: Step) -> Sequence[PassageDraft] | None:
        """Return the passages of a tool that retrieves: it is declared, or its result has the form of documents."""
        if step.name in self.others:
            return None
        if step.passages is not None:
            return step.passages
        declared = step.name is not None and step.name in self.separators
        for value in self.tool_values(step):
            texts = [passage.text for passage in value.passages or ()]
            if texts and (
                declared or (_is_documents(value) and not self._is_written(texts) and self._is_shown(step, texts))
            ):
                return value.passages
        if declared:
            separator = self.separators[step.name or ""]
            texts = [text for text in self._listed(step) if _is_sentence(text)]
            texts = texts or [part for text in output_texts(step)[:1] for part in _split(text, separator)]
            return [PassageDraft(text=text) for text in texts]
        return None

    def _asked_texts(self, step: Step) -> list[PassageDraft] | None:
        """Return the list of texts with which a tool answered a question, if the model read one of them."""
        texts = [text for text in self._listed(step) if _is_sentence(text)]
        names = {name for value in step.inputs for name in value.path[-1:]}
        shown = (value.text[:_MAX_NAMED] for value in step.inputs if value.text and value.text[0] == "{")
        names.update(name for text in shown for name in _NAME.findall(text))
        if not texts or step.name in self.others or _ASKED.isdisjoint(names):
            return None
        known = {self.canonical(text) for text in texts}
        is_made = self._is_written(texts) or any(call.reply in known for call in self.calls) or self.echoes(step)
        return [PassageDraft(text=text) for text in texts] if not is_made and self._is_shown(step, texts) else None

    def tool_values(self, step: Step) -> list[Value]:
        """Return the values in the result of a tool, also those in a text of it."""
        values = self._tool_values.get(step.id)
        if values is None:
            values = [*step.outputs, *(value for text in output_texts(step)[:1] for value in _values_in(text))]
            self._tool_values[step.id] = values
        return values

    def texts_of_tool(self, step: Step) -> list[str]:
        """Return the texts that a tool returned: those in its list, or the whole text. One in a list is one alone."""
        return self._listed(step) or output_texts(step)[:1]

    def _listed(self, step: Step) -> list[str]:
        """Return the texts in the list that a tool returned; none if it returned one text."""
        values = self.tool_values(step)
        texts = [passage.text for value in values for passage in value.passages or ()]
        return texts or [value.text for value in values if value.text and _is_item(value.path)]

    @cached_property
    def _tool_arguments(self) -> frozenset[str]:
        """The texts that tools were given: what a tool returns of them, as the items of a plan, is not retrieved."""
        values = (value for step in self.tree.steps if step.kind == "tool" for value in step.inputs)
        return frozenset(self.canonical(text) for value in values for text in _texts_of(value))

    @cached_property
    def _written_lines(self) -> frozenset[str]:
        """The lines of the texts that tools were given."""
        values = (value for step in self.tree.steps if step.kind == "tool" for value in step.inputs)
        texts = (text for value in values for text in _texts_of(value))
        return frozenset(self.canonical(line) for text in texts for line in text.splitlines())

    def _is_written(self, texts: Iterable[str]) -> bool:
        """Whether models of this request wrote all these texts: as arguments of a tool, or as a part of a reply."""
        replies = [call.reply for call in self.calls if call.step.calls_tool or call.reply[:1] in ("{", "[")]
        known = (self.canonical(text) for text in texts)
        return all(
            text in self._tool_arguments or any(self.find(text, reply) >= 0 for reply in replies) for text in known
        )

    def echoes(self, step: Step) -> bool:
        """Whether most of what a tool returned are texts that models of this request wrote, as the items of a plan."""
        listed = [text for value in self.tool_values(step) if value.passages is not None for text in _texts_of(value)]
        if listed and self._is_written(listed):
            return True
        # A file that a model wrote may be read with the numbers of its lines.
        lines = [
            self.canonical(_LINE_NUMBER.sub("", line)) for text in output_texts(step)[:1] for line in text.splitlines()
        ]
        if 2 * sum(len(line) for line in lines if line in self._written_lines) > sum(map(len, lines)):
            return True
        if not step.inputs and not step.query:
            return False
        whole = " ".join(dict.fromkeys(map(self.canonical, output_texts(step))))
        given = {self.canonical(text) for value in step.inputs for text in _texts_of(value)}
        n_given = sum(len(text) for text in given if text and self.find(text, whole) >= 0)
        smallest = max(_MIN_SENTENCE, len(whole) // 2)
        if n_given >= smallest:
            return True
        try:  # what the tool was given may be printed as a whole
            return (
                longest_piece(Text(whole, self.budget), self.canonical(step.query or ""), smallest=smallest) is not None
            )
        except TooLargeError:
            return False

    def _is_shown(self, step: Step, texts: Sequence[str]) -> bool:
        """Whether one of the texts stands in a prompt after a step."""
        place = self.tree.place[step.id]
        known = [self.canonical(text) for text in texts]
        # Not `Call.prompt`: whether that is indexed depends on the tools that retrieve.
        later = [call for call in self.calls if call.place > place and call.is_visible]
        try:
            return any(
                text in prompt
                for prompt in (Text(self.prompt_of(call.step), self.budget) for call in later[:2])
                for text in known
                if text
            )
        except TooLargeError:
            return False

    def _documents(self) -> Iterator[PassageDraft]:
        """Yield the documents that were found, or that a step made, in the order in which steps ended."""
        searching = {search.step.id: search for search in self.searches}
        for step in self.tree.finished:
            if not self.counts(step) or step.kind == "model":
                continue
            if step.id in searching:
                yield from searching[step.id].passages
            elif step.kind in ("retrieval", "transform"):
                yield from step.passages or ()
            if step.kind != "tool":
                for value in step.outputs:
                    yield from (value.passages or ()) if value.is_evident else ()
        seen = {step.name for step in self.tree.steps if step.kind == "tool"}
        for call in self.calls:
            for message in call.messages:
                if message.tool in self.others:
                    continue
                yield from message.passages or ()
                # Some tracers record what tools returned in prompts only.
                if message.role == "tool" and message.tool in self.separators and message.tool not in seen:
                    separator = self.separators[message.tool or ""]
                    yield from (PassageDraft(text=text) for text in _split(message.text, separator))

    @cached_property
    def candidates(self) -> list[Candidate]:
        """The passages that can be contexts: those found or made, or if there are none, those given. Each text once."""
        found = list(self._documents())
        if not found:
            given = [step for step in self.tree.steps if self.counts(step) and step.kind != "tool"]
            found = [one for step in given for value in step.inputs if value.is_evident for one in value.passages or ()]
        if self.others:
            hidden = self._hidden_texts()
            found = [one for one in found if self.canonical(one.text) not in hidden]
        if not found and not self.searches:
            found = [passage for passages in self.unclear.values() for passage in passages]
        youngest: dict[str, PassageDraft] = {}
        for passage in found:
            for one in (passage, *self._larger_texts(passage)):
                text = self.canonical(one.text)
                before = youngest.get(text)
                loses_id = before is not None and one.id is None and before.id is not None
                youngest[text] = dataclasses.replace(one, id=before.id) if before and loses_id else one
        return [Candidate(passage, text) for text, passage in youngest.items() if text]

    @cached_property
    def made_texts(self) -> frozenset[str]:
        """The texts of documents."""
        return frozenset(candidate.text for candidate in self.candidates)

    @cached_property
    def written(self) -> Text:
        """The texts of documents that were not retrieved, but made."""
        found = {self.canonical(passage.text) for search in self.searches for passage in search.passages}
        return self.text(" ".join(self.made_texts - found))

    def _hidden_texts(self) -> set[str]:
        """Return the texts that tools returned that do not retrieve, unless a retrieval found them as well."""
        steps = [step for step in self.tree.steps if step.kind == "tool" and step.name in self.others]
        texts = {
            self.canonical(text) for step in steps for value in self.tool_values(step) for text in _texts_of(value)
        }
        return texts.difference(self.canonical(one.text) for search in self.searches for one in search.passages)

    @cached_property
    def unclear(self) -> dict[str, Sequence[PassageDraft]]:
        """Lists of mappings with a text in the state, by their key: plans, memories, examples, or passages."""
        hidden = self._hidden_texts() if self.others else set()
        found: dict[str, Sequence[PassageDraft]] = {}
        for step in self.tree.steps:
            if self.counts(step) and step.kind not in ("tool", "model"):
                for value in (*step.inputs, *step.outputs):
                    if value.passages and not value.is_evident:
                        texts = [passage.text for passage in value.passages]
                        if not self._is_written(texts) and hidden.isdisjoint(map(self.canonical, texts)):
                            found[value.path[-1] if value.path else step.name or "output"] = value.passages
        return found

    def _larger_texts(self, passage: PassageDraft) -> Iterator[PassageDraft]:
        """Yield the texts in a document's metadata that contain its text: a sentence is indexed, and its window is shown."""
        size = len(passage.text)
        for value in passage.metadata.values() if size else ():
            if type(value) is str and size < len(value) <= self.budget.left:
                self.budget.spend(len(value))
                if passage.text in value:
                    yield dataclasses.replace(passage, text=value)

    def matches(self, call: Call) -> list[Match]:
        """Return the passages in the prompt of a call, in its order, without those that the question quotes."""
        if call.matches is None:
            call.matches = self.find_passages([self.finder(call)]) if call.is_visible else []
        return call.matches

    def find_passages(self, finders: Sequence[Finder]) -> list[Match]:
        """Return the passages in prompts, in their order.

        A passage that no prompt contains as a whole is looked for as a text of its metadata, then in pieces. Documents
        that a step was given, and this request did not find, count as a whole only. Raise TooLargeError if the budget
        of compared characters is used up.
        """
        missing = _missing(finders, self.candidates)
        known, absent = {candidate.text for candidate in self.candidates}, set(missing)
        pairs = ((candidate, one) for candidate in self.candidates for one in _kept_texts(candidate.passage))
        # Next to the passage's own text, such as the question of an FAQ, only a longer one counts: its answer.
        kept = self._new((one for own, one in pairs if own in absent or len(one.text) > len(own.text)), known)
        given = {text for step in self.tree.steps if self.counts(step) for text in step.input_texts or ()}
        missing += _missing(finders, kept)
        _missing(finders, self._new((PassageDraft(text=text) for text in sorted(given)), known))
        for finder in finders:
            finder.find_pieces(missing)
        return [match for finder in finders for match in finder.matches]

    def _new(self, passages: Iterable[PassageDraft], known: set[str]) -> list[Candidate]:
        """Return passages as candidates, each text that is not known once, and add it to those that are known."""
        candidates = []
        for passage in passages:
            text = self.canonical(passage.text)
            if text and text not in known:
                known.add(text)
                candidates.append(Candidate(passage, text))
        return candidates

    def finder(self, call: Call) -> Finder:
        """Return what finds passages in a prompt, without those that the question or an earlier answer quotes."""
        if not self.question:
            return Finder(call.prompt)
        asked, spans, end = self.canonical(self.question), [], 0
        texts = [(message.role, self.canonical(message.text)) for message in call.messages]
        asking = [place for place, (role, text) in enumerate(texts) if role == "user" and self.find(asked, text) >= 0]
        for role, text in texts[: asking[-1]] if asking else ():
            if role == "assistant":
                spans.append((end, end + len(text)))
            end += len(text) + 1 if text else 0
        return Finder(call.prompt, blanked=[asked], spans=spans)


def _missing(finders: Sequence[Finder], candidates: Sequence[Candidate]) -> list[Candidate]:
    """Find passages as a whole, and return those that stand in no prompt."""
    missing = set(candidates)
    for finder in finders:
        missing &= set(finder.find_whole(candidates))
    return [candidate for candidate in candidates if candidate in missing]


def _kept_texts(passage: PassageDraft) -> Iterator[PassageDraft]:
    """Yield the long texts in a document's metadata: a question or a summary is indexed, and what it is about is shown."""
    for value in passage.metadata.values():
        if type(value) is str and len(value) >= _MIN_KEPT_TEXT and value != passage.text:
            yield dataclasses.replace(passage, text=value)


def _values_in(text: str) -> Sequence[Value]:
    """Return the values in a tool's text result that is JSON or Python: frameworks write a list of hits as a text."""
    if len(text) > _MAX_PARSED_CHARS:
        return ()
    for read in (json.loads, read_python_text) if text[:1] in ("[", "{") else (read_python_text,):
        try:
            return harvest(read(text))
        except (ValueError, RecursionError):
            continue
    return ()


def items_of(texts: Iterable[str]) -> frozenset[str]:
    """Return what stands by itself in texts: the parts between line ends and punctuation, in canonical form."""
    parts = (part for text in texts for part in _BETWEEN.split(_NUMBER.sub("", text)))
    return frozenset(canonical(part).strip(_AROUND) for part in parts) - {""}


def words_of(text: str) -> list[str]:
    """Return the words of a text in lower case, without citations and other remarks in brackets."""
    return _WORD.findall(_ASIDE.sub(" ", text).lower())


def _is_item(path: tuple[str, ...]) -> bool:
    """Whether a text is an item of a list, or a block in it: `{"type": "text", "text": "…"}`, as of remote tools."""
    return bool(path) and (path[-1].isdigit() or (path[-1] == "text" and len(path) > 1 and path[-2].isdigit()))


def _is_documents(value: Value) -> bool:
    """Whether passages have the form of documents: their list has a name that says so, or one has more than a text."""
    more = (one.id is not None or one.score is not None or one.metadata for one in value.passages or ())
    return value.is_evident or any(more)


def _is_sentence(text: str) -> bool:
    """Whether a text says more than a name or a number."""
    # In bytes, because 11 Chinese characters say as much as 32 Latin ones.
    return (" " in text.strip() or not text.isascii()) and len(text.encode("utf-8", "replace")) >= _MIN_SENTENCE


def _split(text: str, separator: str | None) -> list[str]:
    return [part for part in ([text] if not separator else text.split(separator)) if part.strip()]


def _texts_of(value: Value) -> Iterator[str]:
    if value.text is not None:
        yield value.text
    yield from (message.text for message in value.messages or ())
    yield from (passage.text for passage in value.passages or ())


def output_texts(step: Step) -> list[str]:
    """Return the texts that a step gave back: its reply, or the texts and messages in its outputs."""
    texts = [] if step.reply is None else [step.reply]
    for value in step.outputs:
        if value.text is not None:
            texts.append(value.text)
        texts += [message.text for message in value.messages or ()]
    return texts
