"""From the steps of a recorded trace to the requests in it: which step asked, what was retrieved, what was answered."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from pydantic import ValidationError

from ragstone.replay._formats import RejectedRecord
from ragstone.replay._tree import Step, Tree
from ragstone.schema import Passage, Retrieval, Trace, Usage

__all__ = ["assemble"]

_ASKING: Final = frozenset({"chain", "agent", "other", "tool"})
"""Steps whose question can be the user's: what a retriever or a model was asked may be written by the application."""
_RETRIEVING: Final = frozenset({"retriever", "reranker"})


def assemble(nodes: Sequence[Step], *, source: str) -> list[Trace | RejectedRecord]:
    """Make requests of the steps of one trace.

    - The request is the topmost step with a question; whether its parent was exported does not matter, and a plain
      server span above it is none. Where a trace has several of them that each retrieve and answer, each is a request.
      Without such a step, the model that answered stands for it, and what the first retriever was asked is the question.
    - Of retrievers inside one another the outermost that says what it found counts, once. A re-ranker's output takes the
      place of the searches it shares passages with, or of all before it; what began after the answering model ended
      never reached it. What a request says it used wins over all of this.
    - A retriever that does not say what it found is left out: nothing is known, which is not the same as nothing found.
    - The answer is the request's own, else the last one of a model.
    - Tokens are those of the innermost models; a step around them repeats their sum.

    Args:
        nodes: All steps, in any order.
        source: The name of the format, which the traces carry.

    Returns:
        One item as a rule. A trace with neither a question nor a retrieval is a `RejectedRecord`: it is no request.
    """
    if not nodes:
        return []
    tree = Tree(nodes)
    trace_id = nodes[0].trace_id
    asking = tree.outermost(node for node in tree.nodes if node.kind in _ASKING and node.query)
    whole = [node for node in asking if _is_whole(tree, node)]
    if len(whole) > 1:
        return [
            _trace(tree, tree.below(node), node, source, trace_id=f"{trace_id}-{node.id}", speaks=True)
            for node in whole
        ]
    request = whole[0] if whole else asking[0] if asking else None
    if request is None and not any(node.query or node.passages is not None for node in tree.nodes):
        kinds = ", ".join(f"{n} {kind}" for kind, n in sorted(Counter(node.kind for node in nodes).items()))
        return [
            RejectedRecord(
                place=f"trace {trace_id}",
                reason=f"no request: neither a question nor a retrieval in its steps ({kinds})",
            )
        ]
    return [_trace(tree, tree.nodes, request, source, trace_id=trace_id, speaks=bool(whole) or len(asking) < 2)]


def _is_whole(tree: Tree, node: Step) -> bool:
    steps = tree.below(node)
    answers = any(step.answer is not None for step in steps if step.kind == "llm" or step is node)
    return answers and any(step.kind in _RETRIEVING or (step is node and step.passages is not None) for step in steps)


def _trace(
    tree: Tree, steps: Sequence[Step], request: Step | None, source: str, *, trace_id: str, speaks: bool
) -> Trace | RejectedRecord:
    """One request.

    Args:
        tree: All steps of the trace.
        steps: Those of the request, in the order in which they began.
        request: The step that stands for it, if there is one with a question.
        source: The name of the format.
        trace_id: The id of the request.
        speaks: Whether its own answer is that of the request, as it is when no step beside it was asked as well.
    """
    llms = [step for step in steps if step.kind == "llm"]
    said = [step for step in llms if step.answer is not None]
    answering = max(said, key=lambda step: step.ended_at or step.started_at or 0.0, default=None)
    searches, contexts = _retrieval(tree, steps, request, answering)
    place = request or answering or (llms[-1] if llms else tree.outermost(steps)[0])
    response = place.answer if place.answer is not None and speaks else None
    if response is None and place.error is None:
        response = answering.answer if answering else place.answer
    errors = [step.error for step in steps if step.error is not None and step.error != place.error]
    started_at = _first(place.started_at, *(step.started_at for step in steps)) or 0.0
    first_token_at = _first(place.first_token_at, answering.first_token_at if answering else None)
    try:
        return Trace(
            trace_id=trace_id,
            name=place.name,
            source=source,
            run_id=place.run_id,
            otel_trace_id=place.trace_id if place.is_otel else None,
            otel_span_id=place.id if place.is_otel else None,
            otel_sampled=True if place.is_otel else None,
            session_id=_first(place.session_id, *(step.session_id for step in steps)),
            user_id=_first(place.user_id, *(step.user_id for step in steps)),
            query=place.query if request else _question(tree, steps, place),
            retrievals=searches,
            contexts=contexts,
            response=response,
            reference=place.reference,
            status="ok" if place.error is None else "error",
            error=place.error,
            inner_errors=tuple(dict.fromkeys(errors)),
            started_at=started_at,
            ended_at=place.ended_at,
            first_token_s=None if first_token_at is None else max(0.0, first_token_at - started_at),
            model=_first(answering.model if answering else None, *(step.model for step in reversed(llms)), place.model),
            usage=_usage(tree, llms, place),
            tags=place.tags or _first(*(step.tags or None for step in steps)) or (),
            metadata=place.metadata,
        )
    except ValidationError as error:
        fields = "; ".join(
            f"{'.'.join(map(str, one['loc']))}: {one['type']}" for one in error.errors(include_input=False)[:5]
        )
        return RejectedRecord(place=f"trace {trace_id}", reason=f"its steps make no request: {fields}")


def _first(*values: Any) -> Any:
    return next((value for value in values if value is not None), None)


def _question(tree: Tree, steps: Sequence[Step], place: Step) -> str | None:
    """The question where no step stands for the request: a model above the retrieval was asked by the user."""
    if place.query and any(step.kind in _RETRIEVING for step in tree.below(place)):
        return place.query
    retrieving = [step.query for step in steps if step.kind in _RETRIEVING and step.query]
    return retrieving[0] if retrieving else place.query or _first(*(step.query for step in steps))


def _usage(tree: Tree, llms: Sequence[Step], place: Step) -> Usage | None:
    inner = tree.innermost(llm for llm in llms if llm.input_tokens is not None or llm.output_tokens is not None)
    if not inner and (place.input_tokens is not None or place.output_tokens is not None):
        inner = [place]
    if not inner:
        return None
    return Usage(
        input_tokens=sum(llm.input_tokens or 0 for llm in inner),
        output_tokens=sum(llm.output_tokens or 0 for llm in inner),
    )


def _retrieval(
    tree: Tree, steps: Sequence[Step], request: Step | None, answering: Step | None
) -> tuple[tuple[Retrieval, ...], tuple[Passage, ...] | None]:
    """The searches, and the contexts where they are not simply what the searches found."""
    end = answering.ended_at if answering else None
    retrieving = [
        step
        for step in tree.outermost(step for step in steps if step.kind in _RETRIEVING)
        if end is None or step.started_at is None or step.started_at <= end
    ]
    searches: list[Retrieval] = []
    groups: list[tuple[Passage, ...]] = []
    for step in retrieving:
        passages = _found_by(tree, step)
        if passages is None:
            continue
        if step.kind == "reranker":
            groups = _reranked(groups, passages)
            # A step around the search that says only how it sorted it.
            searches += [_search(inner, inner.passages or ()) for inner in _searches_in(tree, step)]
        else:
            searches.append(_search(step, passages))
            groups.append(passages)
    found = [passage for search in searches for passage in search.passages]
    stated = request.passages if request is not None else None
    contexts = list(stated) if stated is not None else [passage for group in groups for passage in group]
    is_told = bool(searches) and contexts == found
    return tuple(searches), None if is_told or not (searches or groups or stated is not None) else tuple(contexts)


def _searches_in(tree: Tree, step: Step) -> list[Step]:
    inner = (node for node in tree.below(step) if node.kind == "retriever" and node.passages is not None)
    return tree.outermost(inner)


def _found_by(tree: Tree, step: Step) -> tuple[Passage, ...] | None:
    """What a retriever found, or what those inside it found where it does not say; None where nobody says."""
    if step.passages is not None:
        return step.passages
    inside = [node for node in tree.below(step) if node is not step and node.kind in _RETRIEVING]
    says = tree.outermost(node for node in inside if node.passages is not None)
    if not says:
        # A search that failed found nothing, and that is known.
        return () if step.error is not None else None
    rerankers = [node for node in says if node.kind == "reranker"]
    union: dict[tuple[str | None, str], Passage] = {}
    for node in rerankers or says:
        for passage in node.passages or ():
            union.setdefault((passage.id, passage.text), passage)
    return tuple(passage.model_copy(update={"rank": rank}) for rank, passage in enumerate(union.values()))


def _reranked(groups: list[tuple[Passage, ...]], passages: tuple[Passage, ...]) -> list[tuple[Passage, ...]]:
    """Put a re-ranker's output in the place of its input, and leave the searches that did not pass through it."""
    texts = {passage.text for passage in passages if passage.text}
    ids = {passage.id for passage in passages if passage.id is not None}
    touched = [
        place
        for place, group in enumerate(groups)
        if any(passage.text in texts or passage.id in ids for passage in group)
    ]
    if not touched:
        return [passages]
    before = {passage.id: passage for place in touched for passage in groups[place] if passage.id is not None}
    passages = tuple(_with_text(passage, before.get(passage.id or "")) for passage in passages)
    replaced = [group for place, group in enumerate(groups) if place not in touched]
    replaced.insert(touched[0], passages)
    return replaced


def _with_text(passage: Passage, before: Passage | None) -> Passage:
    """Where a re-ranker names its passages by their ids alone, the search says what they are."""
    if passage.text or before is None:
        return passage
    return passage.model_copy(update={"text": before.text, "metadata": passage.metadata or before.metadata})


def _search(step: Step, passages: tuple[Passage, ...]) -> Retrieval:
    # Which step it was is kept, so that what is found out about a passage can go there.
    return Retrieval.model_validate({"query": step.query, "passages": passages, "name": step.name, "step_id": step.id})
