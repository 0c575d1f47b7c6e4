"""The contexts where no prompt is visible: what the steps say that they used, made, were given or found."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from ragstone.requests._draft import PassageDraft
from ragstone.requests._facts import Facts, output_texts
from ragstone.requests._step import Step, Value
from ragstone.schema import ContextsRule, field_names

_NAMES: Final = frozenset(field_names("contexts", "output"))
_MAKING: Final = frozenset({"transform", "chain", "agent", "part", "other"})


def without_prompt(facts: Facts, answering: Sequence[Step]) -> tuple[list[PassageDraft] | None, ContextsRule]:
    """Find the contexts without a prompt.

    Args:
        facts: The request.
        answering: The model steps that wrote the answer.
    """
    end = max((step.ended_at or 0.0 for step in answering), default=0.0)
    searches = [
        search for search in facts.searches if not end or not search.step.started_at or search.step.started_at <= end
    ]
    found = [passage for search in searches for passage in search.passages]
    changes = list(_changes(facts))
    known = [*found, *(passage for _, made in changes for passage in made)]
    in_output = _in_output(facts, known)
    if in_output is not None:
        return in_output, "in_output"
    made = _made(found, changes)
    if made is not None:
        return made, "made_by_last_step"
    given = _given(facts, answering, known)
    if given is not None:
        return given, "given"
    return (found, "found") if searches else (None, "unknown")


def left_nothing(facts: Facts) -> bool:
    """Whether steps were given all that was found, and returned none of it."""
    found = [passage for search in facts.searches for passage in search.passages]
    return _made(found, list(_changes(facts))) == []


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
        if step is facts.root or step.kind not in _MAKING or not facts.counts(step) or _is_in_retrieval(facts, step):
            continue
        made = step.passages if step.kind == "transform" else None
        if made is None:
            made = next((value.passages for value in step.outputs if value.passages is not None), None)
        texts = frozenset(step.input_texts or (passage.text for passage in _input_passages(step)))
        if made is not None and texts:
            yield texts, made


def _is_in_retrieval(facts: Facts, step: Step) -> bool:
    return any(around.kind == "retrieval" for around in facts.tree.ancestors(step))


def _input_passages(step: Step) -> list[PassageDraft]:
    return [passage for value in step.inputs for passage in value.passages or ()]


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
        rest = [passage for passage in contexts[place:] if passage.text not in touched]
        contexts = [*contexts[:place], *made, *rest]
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
