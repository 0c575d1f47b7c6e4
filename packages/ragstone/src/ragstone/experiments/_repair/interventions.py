"""The interventions of a trial: what each gives to the application instead of what it retrieved."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple

from ragstone.metrics import is_number
from ragstone.reading import case_of
from ragstone.schema import NotApplicable, Outcome, Sample, Trace
from ragstone.scoring import relevant_positions

_REFERENCES: Final = ("reference_contexts", "reference_passages", "gold_contexts", "gold_passages")
"""Columns with the texts of the passages that answer the question."""
_SEEN: Final = ("stated", "in_prompt", "part_of_prompt", "in_output")
"""Rules of contexts that say what the prompt holds, and not only what was retrieved."""
FIELD: Final = "repair"
"""Key in the metadata of a call that says what was changed."""

State = Literal["changed", "unchanged", "not_in_prompt", "unseen", "not_retrieved", "impossible"]
"""What became of an intervention in one call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One wrong answer, and what is known about its passages. Texts are compared without differences of whitespace."""

    sample: Sample
    weight: float = 1.0
    """Number of requests that the case stands for."""
    contexts: tuple[str, ...] | None = None
    """Texts in the prompt of the wrong answer, or None if they are not known."""
    utilities: Mapping[str, float] = field(default_factory=dict)
    """By text of a passage: above 0 if it is relevant, otherwise below."""
    references: tuple[str, ...] = ()
    """Texts that answer the question."""


class Intervention(NamedTuple):
    """One change of what is retrieved."""

    name: str
    title: str
    plan: Callable[[Case, Sequence[str], Sequence[str]], Sequence[int | str] | None]
    """See `Plan` of `ragstone.requests`."""
    is_possible: Callable[[Case], bool] = lambda _: True
    """Whether the case may be asked, as far as this is known before."""
    is_repair: bool = True
    """Whether an application can be built this way. The others say what retrieval can change at most and at least."""
    widens: bool = False


def plain(text: str) -> str:
    """Return a text with single blanks between its words."""
    return " ".join(text.split())


def make_case(sample: Sample, outcomes: Sequence[Outcome]) -> Case:
    """Return what the row and the outcomes of its wrong answer say about its passages."""
    contexts = None if sample.contexts is None else tuple(plain(passage.text) for passage in sample.contexts)
    utilities: dict[str, float] = {}
    for position, is_relevant in relevant_positions(sample, outcomes)[0].items():
        if contexts is not None and position <= len(contexts):
            utilities[contexts[position - 1]] = 1.0 if is_relevant else -1.0
    for outcome in outcomes:
        passages = None if isinstance(outcome, NotApplicable) else outcome.details.get("passages")
        for entry in passages if isinstance(passages, list) and outcome.metric.startswith("udcg") else ():
            if is_number(entry.get("utility")) and contexts is not None and entry["position"] <= len(contexts):
                utilities[contexts[entry["position"] - 1]] = entry["utility"]
    stated = next((sample.metadata[name] for name in _REFERENCES if sample.metadata.get(name)), ())
    texts = [stated] if isinstance(stated, str) else [text for text in stated if isinstance(text, str)]
    relevant = [passage.text for passage in sample.contexts or () if utilities.get(plain(passage.text), 0) > 0]
    weight = (case_of(sample) or sample.metadata).get("weight")
    return Case(
        sample=sample,
        weight=float(weight) if is_number(weight) and weight > 0 else 1.0,
        contexts=contexts,
        utilities=utilities,
        references=tuple(texts or relevant),
    )


def _all(_: Case, texts: Sequence[str], __: Sequence[str]) -> Sequence[int]:
    return range(len(texts))


def _fewer(case: Case, texts: Sequence[str], _: Sequence[str]) -> Sequence[int]:
    n = min(len(case.contexts), len(texts)) if case.contexts else len(texts)
    return range((n + 1) // 2)


def _best_first(case: Case, texts: Sequence[str], _: Sequence[str]) -> Sequence[int] | None:
    known = {place: u for place, text in enumerate(texts) if (u := case.utilities.get(plain(text), 0)) > 0}
    if not known:
        return None
    best = max(known, key=lambda place: known[place])
    return [best, *(place for place in range(len(texts)) if place != best)]


def _relevant_only(case: Case, texts: Sequence[str], _: Sequence[str]) -> Sequence[int] | None:
    utilities = [case.utilities.get(plain(text)) for text in texts]
    if all(utility is None for utility in utilities):
        return None
    return [place for place, utility in enumerate(utilities) if utility is None or utility > 0]


def _dropped_first(case: Case, texts: Sequence[str], dropped: Sequence[str]) -> Sequence[int | str] | None:
    everything: list[int | str] = list(range(len(texts)))
    if dropped:
        return [dropped[0], *everything]
    if case.contexts is None:
        return None
    places = [place for place, text in enumerate(texts) if plain(text) not in case.contexts]
    return [*places[:1], *(place for place in everything if place not in places[:1])]


CONTROL: Final = Intervention("control", "Asked again", _all)
INTERVENTIONS: Final = (
    Intervention("fewer_passages", "Fewer passages", _fewer),
    Intervention(
        "best_first", "Best passage first", _best_first, lambda case: max(case.utilities.values(), default=0) > 0
    ),
    Intervention(
        "relevant_only",
        "Without irrelevant passages",
        _relevant_only,
        lambda case: min(case.utilities.values(), default=0) < 0,
    ),
    Intervention("more_passages", "More candidates", _all, widens=True),
    Intervention("dropped_first", "A dropped passage first", _dropped_first),
    Intervention(
        "reference_passages",
        "Reference passages only",
        lambda case, _, __: case.references,
        lambda case: bool(case.references),
        is_repair=False,
    ),
    Intervention("no_passages", "No passages", lambda _, __, ___: (), is_repair=False),
)
BY_NAME: Final = {each.name: each for each in (CONTROL, *INTERVENTIONS)}


def assign(cases: Sequence[Case], n: int, rng: random.Random, without: Collection[str] = ()) -> list[dict[str, float]]:
    """Return for each case at most `n` interventions at random, with the probability of each."""
    assigned = []
    for case in cases:
        possible = [each.name for each in INTERVENTIONS if each.name not in without and each.is_possible(case)]
        probability = min(1.0, n / max(1, len(possible)))
        assigned.append(dict.fromkeys(rng.sample(possible, min(n, len(possible))), probability))
    return assigned


def state_of(trace: Trace) -> State:
    """Return whether the intervention of a call reached its prompt."""
    about: Mapping[str, Any] = trace.metadata[FIELD]
    if not about["n_retrievals"]:
        return "not_retrieved"
    if not about["is_possible"]:
        return "impossible"
    before, given = ([plain(text) for text in about[name]] for name in ("before", "given"))
    contexts, evidence = trace.prompt_contexts, trace.evidence
    if evidence is not None and "not_in_prompt" in evidence.doubts:
        contexts = ()
    elif evidence is None or evidence.contexts not in _SEEN:
        contexts = None
    if contexts is None:
        return "unseen"
    prompt = [plain(passage.text) for passage in contexts]
    removed, added = {*before} - {*given}, {*given} - {*before}
    places = [given.index(text) for text in prompt if text in given]
    is_given = bool(places or not given) and removed.isdisjoint(prompt)
    is_new = not added.isdisjoint(prompt) if added else bool(removed) or places == sorted(places)
    if not (is_given and is_new):
        return "not_in_prompt"
    return "unchanged" if before == given and not about["widens"] else "changed"
