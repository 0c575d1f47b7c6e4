"""`find_requests`: which steps of a recorded trace are requests, and what is counted and left out."""

from __future__ import annotations

from collections import Counter

import pytest

from ragstone.requests import Request, Step, assemble, find_requests
from request_steps import ANSWER, QUESTION, A, B, Steps, prompt


def found(steps: Steps, **options: bool) -> tuple[list[Request], dict[str, int]]:
    """The requests, and what was left out by reason."""
    ignored: Counter[str] = Counter()
    return find_requests(steps.steps, source="test", trace_id="t", ignored=ignored, **options), dict(ignored)


def names(requests: list[Request]) -> list[str | None]:
    """The names of the steps that are requests."""
    return [None if request.root is None else request.root.name for request in requests]


def chain(steps: Steps, name: str, within: Step | None = None) -> Step:
    """A chain that retrieves and answers."""
    root = steps.chain(within, name=name, inputs={"question": QUESTION}, outputs={"answer": ANSWER})
    steps.retrieval(root, A, B)
    steps.model(root, prompt(A), ANSWER)
    return root


def test_outermost_chain_is_the_request() -> None:
    """Server and database spans around it and in it are not."""
    steps = Steps()
    server = steps.add("infrastructure", name="POST /chat")
    root = chain(steps, "rag", server)
    steps.add("infrastructure", within=root, name="SELECT")
    requests, ignored = found(steps)
    assert (names(requests), ignored) == (["rag"], {})
    assert requests[0].draft.trace_id == "t"


def test_batch_of_requests_is_several() -> None:
    """A function without texts runs chains that each retrieve and answer."""
    steps = Steps()
    batch = steps.chain(name="evaluate_all")
    chain(steps, "first", batch)
    chain(steps, "second", batch)
    requests, _ = found(steps)
    assert names(requests) == ["first", "second"]
    assert [request.draft.trace_id for request in requests] == ["t", "t-s4"]


def test_sub_questions_below_a_model_are_one_request() -> None:
    """A model call outside of the chains combines their answers."""
    steps = Steps()
    combined = "Two years, for parts and labor and more."
    engine = steps.chain(name="sub questions", outputs={"response": combined})
    chain(steps, "first", engine)
    chain(steps, "second", engine)
    steps.model(engine, f"Combine: {ANSWER} {ANSWER}", combined)
    requests, _ = found(steps)
    assert names(requests) == ["sub questions"]
    assert assemble(requests[0]).response == combined


def test_chains_next_to_each_other_are_requests_of_their_own() -> None:
    """A trace can hold several requests, and a bare model call next to them is left out."""
    steps = Steps()
    chain(steps, "first")
    chain(steps, "second")
    steps.model(None, "Write a title.", "Warranty")
    requests, ignored = found(steps)
    assert (names(requests), ignored) == (["first", "second"], {"bare_model": 1})


def test_retrieval_and_model_without_anything_around_them_are_one_request() -> None:
    """Only the clients of the database and of the model are instrumented."""
    steps = Steps()
    steps.retrieval(None, A, B)
    steps.model(None, prompt(A), ANSWER)
    requests, _ = found(steps)
    assert names(requests) == [None]
    draft = assemble(requests[0])
    assert (draft.query, draft.response) == (QUESTION, ANSWER)
    assert [passage.text for passage in draft.contexts or []] == [A]


def test_bare_model_call_is_left_out_and_counted() -> None:
    """A title and a moderation call are not requests."""
    steps = Steps()
    steps.model(None, "Write a title.", "Warranty", name="title")
    assert found(steps) == ([], {"bare_model": 1})


def test_bare_retrieval_is_a_request() -> None:
    """A search page does not ask a model."""
    steps = Steps()
    steps.retrieval(None, A, B, name="search")
    requests, _ = found(steps)
    draft = assemble(requests[0])
    assert (names(requests), draft.query, draft.response) == (["search"], QUESTION, None)
    assert [len(retrieval.passages) for retrieval in draft.retrievals] == [2]


@pytest.mark.parametrize("kind", ["tool", "embedding", "part"])
def test_tool_embedding_or_part_is_never_a_request(kind: str) -> None:
    """Each is counted by its kind."""
    steps = Steps()
    steps.add(kind, name="x", inputs={"query": QUESTION}, outputs=ANSWER)
    assert found(steps) == ([], {kind: 1})


def test_trace_without_anything_of_an_application() -> None:
    """A server span alone, and a chain that did nothing."""
    steps = Steps()
    steps.add("infrastructure", name="GET /health")
    assert found(steps) == ([], {"nothing_retrieved_or_generated": 1})
    assert find_requests([]) == []


def test_draft_has_what_the_steps_say_about_the_request() -> None:
    """Identity comes from the request's step, else from the first step that has it; times from the request's."""
    steps = Steps()
    root = chain(steps, "rag")
    root.error, root.ended_at = "TimeoutError: model", 9.0
    root.otel_trace_id, root.otel_span_id = "a" * 32, "b" * 16
    root.metadata = {"k": "v"}
    steps.steps[1].session_id = "s-1"
    steps.steps[2].first_token_at = 4.5
    (request,) = found(steps)[0]
    draft = request.draft
    assert (draft.name, draft.source, draft.session_id, draft.metadata) == ("rag", "test", "s-1", {"k": "v"})
    assert (draft.status, draft.error) == ("error", "TimeoutError: model")
    assert (draft.started_at, draft.ended_at, draft.first_token_s) == (1.0, 9.0, 3.5)
    assert (draft.otel_trace_id, draft.otel_span_id, draft.otel_sampled) == ("a" * 32, "b" * 16, True)


def test_inner_lists_of_a_composite_retriever_are_stages() -> None:
    """They are kept with the retrieval, at most eight, and never are contexts."""
    steps = Steps()
    root = steps.chain(inputs={"question": QUESTION}, outputs={"answer": ANSWER})
    outer = steps.retrieval(root, A, name="fusion")
    for number in range(10):
        steps.retrieval(outer, A, B, query=f"variant {number}", name="vectors")
    draft = assemble(steps.request())
    (retrieval,) = draft.retrievals
    assert (retrieval.name, [len(stage.passages) for stage in retrieval.stages]) == ("fusion", [2] * 8)
    assert retrieval.stages[0].query == "variant 0"
    assert draft.stored_contexts is None
    assert draft.evidence is not None
    assert draft.evidence.contexts == "found"


def test_tokens_are_those_of_the_innermost_models() -> None:
    """A model span around another one repeats its tokens; the model of the answer is named."""
    steps = Steps()
    root = steps.chain(inputs=QUESTION, outputs=ANSWER)
    outer = steps.add("model", within=root, reply=ANSWER, input_tokens=10, output_tokens=2)
    steps.model(outer, prompt(A), ANSWER, input_tokens=10, output_tokens=2, model="large")
    steps.model(root, "Write a title.", "Warranty", input_tokens=5, output_tokens=1, model="small")
    draft = assemble(steps.request())
    assert (draft.input_tokens, draft.output_tokens, draft.model) == (15, 3, "large")
