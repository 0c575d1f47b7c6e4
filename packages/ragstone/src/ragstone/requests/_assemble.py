"""From the steps of a request to its draft."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from ragstone.requests._answer import find_answer
from ragstone.requests._contexts import find_contexts
from ragstone.requests._conversation import find_history, find_query, find_standalone_query
from ragstone.requests._draft import TraceDraft
from ragstone.requests._facts import Facts
from ragstone.requests._step import Request, Statements, Step
from ragstone.schema import Evidence

_logger = logging.getLogger("ragstone")

_MAX_ERRORS: Final = 20


def assemble(request: Request) -> TraceDraft:
    """Decide what was asked, what the model saw and what was answered, and complete the request's draft with it.

    Contexts are passages that were found, or that were made from found ones. Their text is in the prompt of the model
    call whose reply is the answer. They have the order of the prompt. Everything else is a fallback, which
    `draft.evidence` names.

    Pure, except that it changes `request.draft`: the same steps give the same draft, whether they come from live
    capture or a recorded trace. Never raises. Compares at most 20 million characters.

    Returns:
        `request.draft`, with query, standalone query, history, retrievals, contexts, response, model, tokens, time of
        the first token, inner errors and evidence. If the steps cannot be read, what the application states and the
        doubt "internal_error".
    """
    draft = request.draft
    try:
        _complete(draft, Facts(request))
    except Exception as error:  # noqa: BLE001 - steps hold whatever an application and a framework produced
        _logger.warning("requests: steps could not be read (%s); please report this", type(error).__name__)
        said = request.statements
        draft.query, draft.response = said.query, said.response
        draft.contexts = None if said.contexts is None else list(said.contexts)
        draft.evidence = Evidence(doubts=("internal_error",))
    return draft


def _complete(draft: TraceDraft, facts: Facts) -> None:
    searches = facts.searches
    query, query_rule, query_doubts = find_query(facts)
    facts.question = query or ""
    answer = find_answer(facts)
    contexts = find_contexts(facts, answer)
    draft.query = query
    draft.history = find_history(facts, answer, contexts=contexts.passages)
    draft.standalone_query = find_standalone_query(facts, query)
    draft.retrievals = [search.draft() for search in searches]
    draft.contexts = contexts.passages
    draft.response = answer.text
    draft.evidence = Evidence(
        query=query_rule,
        contexts=contexts.rule,
        response=answer.rule,
        doubts=tuple(
            dict.fromkeys([*query_doubts, *answer.doubts, *contexts.doubts, *_stated(facts.request.statements)])
        ),
        declared_tools=facts.declared_tools,
    )
    _fill_measures(draft, facts, [call.step for call in answer.calls])


def _stated(said: Statements) -> Iterator[str]:
    """Yield doubts about what the application stated. Stated contexts need neither hits nor a prompt that can be read."""
    yield from said.doubts
    for name in said.unread:
        if name == "used" or said.contexts is None:
            yield f"unreadable:{name}"


def _fill_measures(draft: TraceDraft, facts: Facts, answering: Sequence[Step]) -> None:
    root = facts.root
    around = [step for step in reversed(facts.tree.steps) if step.kind == "model"]
    models = [*answering, *reversed(facts.models), *around, *([root] if root is not None else [])]
    draft.model = next((step.model for step in models if step.model), draft.model)
    # The id of another response would be a wrong one.
    draft.response_id = next((step.response_id for step in answering if step.response_id), draft.response_id)
    spent: Sequence[Step] = facts.tree.innermost(
        step
        for step in facts.tree.steps
        if step.kind == "model" and step.input_tokens is not None and step.output_tokens is not None
    )
    counted = {step.id for step in spent}
    silent = (step for step in facts.models if step.error is None) if spent else ()
    if not spent or any(counted.isdisjoint(one.id for one in (step, *facts.tree.ancestors(step))) for step in silent):
        spent = [root] if root is not None else []
    if draft.input_tokens is None:
        draft.input_tokens = _sum(step.input_tokens for step in spent)
    if draft.output_tokens is None:
        draft.output_tokens = _sum(step.output_tokens for step in spent)
    if draft.first_token_s is None:
        # A stream that was closed early does not have an answer, but had a first token.
        calls = answering or [call.step for call in facts.calls]
        timed = [step for step in (root, *calls) if step is not None and step.first_token_at is not None]
        if timed:
            draft.first_token_s = max(0.0, (timed[0].first_token_at or 0.0) - draft.started_at)
    errors = [*draft.inner_errors, *(step.error for step in facts.tree.steps if step.error is not None)]
    draft.inner_errors = [error for error in dict.fromkeys(errors) if error != draft.error][:_MAX_ERRORS]


def _sum(counts: Iterable[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if known else None
