"""Laws of `assemble`: what must not change a draft, what must change it, and what no tree of steps may cause."""

from __future__ import annotations

import dataclasses
import html
import json
import random
import textwrap
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstone.requests import (
    Message,
    PassageDraft,
    Request,
    Step,
    TraceDraft,
    Value,
    _facts,
    _match,
    assemble,
    find_requests,
    harvest,
)
from ragstone.requests._match import MAX_CHARS
from request_steps import ANSWER, QUESTION, Steps, passages, prompt

WORDS = [
    "pump",
    "warranty",
    "device",
    "battery",
    "return",
    "label",
    "customer",
    "invoice",
    "délai",
    "“quoted”",
    "东京",
    "hour",
    "Straße",
    "(see",
    "§4)",
    "it's",
    "100%",
    "O'Brien",
    "&",
    "Sons",
    "<b>bold</b>",
    "back\\slash",
    "tab\there",
]

sentences = st.lists(st.sampled_from(WORDS), min_size=9, max_size=40).map(" ".join)
passage_lists = st.lists(sentences, min_size=2, max_size=6, unique=True).filter(
    lambda texts: not any(one is not other and one in other for one in texts for other in texts)
)


def request(found: list[str], shown: str, *, reverse: bool = False) -> Request:
    """A chain that retrieves and answers with one prompt."""
    steps = Steps()
    root = steps.chain(inputs={"question": QUESTION}, outputs={"answer": ANSWER})
    steps.retrieval(root, *found)
    steps.model(root, shown, ANSWER)
    built = steps.request()
    return dataclasses.replace(built, steps=steps.steps[::-1]) if reverse else built


def decided(built: Request) -> tuple[Any, ...]:
    """What `assemble` says, in comparable form."""
    draft = assemble(built)
    contexts = draft.contexts
    evidence = draft.evidence
    assert evidence is not None
    if contexts is None and draft.retrievals and evidence.contexts != "unknown":
        contexts = [passage for retrieval in draft.retrievals for passage in retrieval.passages]
    texts = None if contexts is None else [passage.text for passage in contexts]
    return draft.query, texts, draft.response, evidence


WRAPPINGS: dict[str, Callable[[str], str]] = {
    "json": json.dumps,
    "json, not ASCII": lambda text: json.dumps(text, ensure_ascii=False),
    "json in json": lambda text: json.dumps(json.dumps(text)),
    "repr": repr,
    "html": html.escape,
    "filled": lambda text: textwrap.fill(text, 60, break_long_words=False, break_on_hyphens=False),
    "indented": lambda text: textwrap.indent(text, "    "),
}


@pytest.mark.parametrize("wrapping", WRAPPINGS)
@given(found=passage_lists, data=st.data())
def test_escaping_and_wrapping_the_prompt_changes_nothing(wrapping: str, found: list[str], data: st.DataObject) -> None:
    """The same passages are found, in the same order."""
    shown = data.draw(st.lists(st.sampled_from(found), min_size=1, unique=True))
    plain = prompt(*shown)
    assert decided(request(found, WRAPPINGS[wrapping](plain))) == decided(request(found, plain))


@given(found=passage_lists, data=st.data())
def test_passage_taken_out_of_the_prompt_leaves_the_contexts(found: list[str], data: st.DataObject) -> None:
    """The contexts are what the prompt contains, in its order."""
    shown = data.draw(st.permutations(found))
    n = data.draw(st.integers(min_value=1, max_value=len(shown)))
    _, contexts, _, evidence = decided(request(found, prompt(*shown[:n])))
    whole = [text for text in (contexts or []) if text in found]
    assert whole == shown[:n]
    assert all(len(text) >= 80 for text in contexts or [] if text not in found)
    assert evidence.contexts in ("in_prompt", "part_of_prompt")


@given(found=passage_lists, data=st.data())
def test_index_finds_what_a_search_finds(found: list[str], data: st.DataObject) -> None:
    """Large requests are indexed, and get the same contexts."""
    shown = data.draw(st.lists(st.sampled_from(found), min_size=1, unique=True))
    cuts = [text[: data.draw(st.integers(min_value=len(text) // 2, max_value=len(text)))] for text in shown]
    searched = decided(request(found, prompt(*cuts)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_facts, "_INDEX_PAIRS", 0)
        assert decided(request(found, prompt(*cuts))) == searched


MARKED = st.lists(st.sampled_from([*WORDS, "a", "at", "the", ".", ". ", "。", "  ", "-a"]), min_size=12, max_size=80)


@given(text=MARKED, cut=st.tuples(st.integers(0, 20), st.integers(30, 300)), repeated=st.booleans())
def test_each_index_finds_the_same_places(text: list[str], cut: tuple[int, int], repeated: bool) -> None:
    """Whatever mark a text is looked up by, its places are those of a search."""
    known = _match.canonical(" ".join(text))
    needle = known[cut[0] : sum(cut)].strip()
    whole = f"{needle} {known} {needle}" if repeated else known
    searched = list(_match.Text(whole, _match.Budget()).starts(needle))
    assert list(_match.Text(whole, _match.Budget(), indexed=True).starts(needle)) == searched
    assert (needle != "" and repeated) <= (len(searched) >= 2)


ESCAPED = st.lists(
    st.sampled_from(["\\", "\\\\", "\\n", "\\u00e", "9", "&", "amp", ";", "lt", " ", "  ", "\n", "\t", "e", "\u0301", "\u00a0", "\u200b", "\ud83d", "\ude00"]),
    max_size=8,
).map("".join)  # fmt: skip


@given(texts=st.lists(ESCAPED, max_size=4))
def test_canonical_form_of_messages_is_that_of_their_text(texts: list[str]) -> None:
    """No escape and no accent reaches over the blank line between two messages."""
    forms = [form for text in texts if (form := _match.canonical(text))]
    assert " ".join(forms) == _match.canonical("\n\n".join(texts))
    assert all(form == " ".join(form.split()) for form in forms)


@given(found=passage_lists, data=st.data())
def test_order_of_arrival_changes_nothing(found: list[str], data: st.DataObject) -> None:
    """Steps have times, and come in any order."""
    built = request(found, prompt(*found))
    shuffled = dataclasses.replace(
        built, steps=data.draw(st.permutations(list(built.steps))), draft=TraceDraft(trace_id="t", started_at=1.0)
    )
    assert decided(shuffled) == decided(built)


@given(found=passage_lists)
def test_second_handler_changes_nothing(found: list[str]) -> None:
    """Each step is reported twice."""
    built = request(found, prompt(*found))
    twice = [copy for step in built.steps for copy in (step, dataclasses.replace(step))]
    assert decided(dataclasses.replace(built, steps=twice)) == decided(request(found, prompt(*found)))


@given(found=passage_lists, kind=st.sampled_from(["chain", "infrastructure"]))
def test_chain_around_the_root_changes_nothing(found: list[str], kind: Any) -> None:
    """A chain without texts, or a server span, around the request."""
    inner = request(found, prompt(*found))
    outer = Step(id="outer", kind=kind, started_at=0.5)
    first = dataclasses.replace(inner.steps[0], parent="outer")
    around = Request(draft=TraceDraft(trace_id="t", started_at=1.0), steps=[outer, first, *inner.steps[1:]])
    query, contexts, response, evidence = decided(around)
    assert (query, contexts, response) == decided(inner)[:3]
    assert (evidence.contexts, evidence.doubts) == ("in_prompt", ())


KINDS = (
    "retrieval", "transform", "model", "tool", "chain", "agent", "embedding", "part", "infrastructure", "other",
)  # fmt: skip


class _Trees:
    """Random trees of steps, with values that translators do and do not produce."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        pick = self._random
        self._texts = [
            "",
            "Yes",
            QUESTION,
            ANSWER,
            "Name(x=1)",
            "{",
            '{"a": "b"}',
            "\ud83d",
            "\\u00e9\\n&lt;",
            "东" * 40,
        ]
        self._texts += [" ".join(pick.choices(WORDS, k=pick.randint(1, 60))) for _ in range(8)]
        if pick.random() < 0.02:
            self._texts.append(self._texts[-1] * pick.randint(100, 2_000))

    def request(self) -> Request:
        """One request; parents can be missing, later, or in a circle."""
        pick = self._random
        n = pick.choice((0, 1, 2, 3, 5, 8, 20))
        steps = [self._step(number, n) for number in range(n)]
        root = pick.choice(steps) if steps and pick.random() < 0.6 else None
        status: Any = pick.choice(("ok", "ok", "ok", "error", "truncated", "interrupted"))
        tools = {"tool": pick.choice((None, "\n", ""))} if pick.random() < 0.2 else {}
        return Request(
            draft=TraceDraft(trace_id="t", started_at=1.0, status=status), steps=steps, root=root, retriever_tools=tools
        )

    def _step(self, number: int, n: int) -> Step:
        pick = self._random
        kind: Any = pick.choice(KINDS)
        step = Step(
            id=pick.randint(0, n) if pick.random() < 0.05 else number,
            parent=pick.choice((None, number - 1, pick.randint(0, n))),
            kind=kind,
            name=pick.choice((None, "tool", "x")),
            started_at=pick.choice((None, float(number), pick.random() * n)),
            ended_at=pick.choice((None, float(n))),
            error=pick.choice((None, None, None, None, "ValueError: x")),
            muted=pick.random() < 0.05,
            inputs=self._values(),
            outputs=self._values(),
            input_tokens=pick.choice((None, 3)),
        )
        if kind in ("retrieval", "transform", "tool") or pick.random() < 0.05:
            step.query = pick.choice((None, *self._texts))
            step.passages = pick.choice((None, (), self._passages()))
        if pick.random() < 0.2:
            step.input_texts = frozenset(pick.choices(self._texts, k=3))
        if kind == "model" or pick.random() < 0.05:
            step.prompt = pick.choice((None, (), self._messages(), self._messages()))
            step.reply = pick.choice((None, *self._texts))
            step.calls_tool = pick.random() < 0.2
        return step

    def _passages(self) -> tuple[PassageDraft, ...]:
        pick = self._random
        found = passages(*pick.choices(self._texts, k=pick.randint(1, 6)))
        for passage in found:
            if pick.random() < 0.2:
                passage.metadata = {
                    "n": 1,
                    "window": f"{pick.choice(self._texts)} {passage.text} {pick.choice(self._texts)}",
                }
        return tuple(found)

    def _messages(self) -> tuple[Message, ...]:
        pick = self._random
        roles: Any = ("system", "user", "assistant", "tool", "other")
        return tuple(
            Message(
                pick.choice(roles),
                " ".join(pick.choices(self._texts, k=pick.randint(0, 5))),
                calls_tool=pick.random() < 0.2,
                tool=pick.choice((None, "tool")),
                passages=pick.choice((None, None, self._passages())),
            )
            for _ in range(pick.randint(0, 5))
        )

    def _values(self) -> tuple[Value, ...]:
        pick = self._random
        if pick.random() < 0.3:
            return harvest({"messages": [{"role": "user", "content": pick.choice(self._texts)}], "x": self._texts[:2]})
        paths = ((), ("question",), ("answer",), ("output", "0"), ("documents",), ("x", "y", "z"), ("<json>",))
        values = (
            lambda path: Value(path, text=pick.choice(self._texts)),
            lambda path: Value(path, messages=self._messages()),
            lambda path: Value(path, passages=pick.choice(((), self._passages()))),
        )
        return tuple(pick.choice(values)(pick.choice(paths)) for _ in range(pick.randint(0, 3)))


def _check(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Assemble a tree, find requests in it, and count what was compared."""
    built = _Trees(seed).request()
    spent: list[int] = []

    original = _match.Budget.spend

    def spend(budget: Any, chars: int) -> None:
        original(budget, chars)
        spent.append(chars)

    with monkeypatch.context() as patch:
        patch.setattr(_match.Budget, "spend", spend)
        draft = assemble(built)
    assert sum(spent) <= MAX_CHARS, seed
    assert draft is built.draft
    assert draft.evidence is not None
    assert "internal_error" not in draft.evidence.doubts, seed
    assert (draft.evidence.contexts == "unknown") <= (draft.contexts is None), seed
    assert (draft.evidence.response == "unknown") == (draft.response is None), seed
    for found in find_requests(built.steps, source="fuzz"):
        assert "internal_error" not in (assemble(found).evidence or draft.evidence).doubts, seed


def test_no_tree_of_steps_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand random trees; the slow run has 100,000."""
    for seed in range(1_000):
        _check(seed, monkeypatch)


@pytest.mark.parametrize(
    "first",
    [
        pytest.param(n, marks=pytest.mark.slow if n == 1_000 else pytest.mark.long)
        for n in range(1_000, 101_000, 10_000)
    ],
)
def test_no_tree_of_steps_raises_in_a_long_run(first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """100,000 random trees that the other test does not have."""
    for seed in range(first, first + 10_000):
        _check(seed, monkeypatch)


@pytest.mark.parametrize("n", [5, 300])
def test_number_of_compared_characters_is_bounded(n: int) -> None:
    """Many passages and many large prompts end in a doubt, not in minutes of work."""
    steps = Steps()
    root = steps.chain(inputs={"question": QUESTION}, outputs={"answer": ANSWER})
    texts = [f"Passage {number} " + "about nothing in particular " * 20 for number in range(n)]
    steps.retrieval(root, *texts)
    for number in range(20):
        steps.model(root, f"{number} " + "a prompt without any passage " * 10_000, ANSWER)
    draft = assemble(steps.request())
    assert draft.evidence is not None
    assert set(draft.evidence.doubts) <= {"too_large", "not_in_prompt"}
    assert draft.evidence.doubts
