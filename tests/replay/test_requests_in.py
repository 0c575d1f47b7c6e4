"""From the steps of recorded traces to traces: what stands for the request, and what of it is known."""

from __future__ import annotations

import itertools

import pytest

from ragstone.reading import RejectedRecord
from ragstone.reading._requests import requests_in
from ragstone.requests import PassageDraft, Step, Value
from ragstone.schema import Trace, Usage


def step(name, parent=None, kind="chain", *, at=0.0, query=None, answer=None, **said) -> Step:
    """A step that takes one second; query and answer of a chain are the texts of its inputs and outputs."""
    made = Step(id=name, parent=parent, kind=kind, name=name, started_at=at, ended_at=at + 1, **said)
    if kind in ("chain", "agent", "other"):
        made.inputs = () if query is None else (Value((), text=query),)
        made.outputs = () if answer is None else (Value((), text=answer),)
    else:
        made.query, made.reply = query, answer
    return made


def passages(*texts: str) -> tuple[PassageDraft, ...]:
    """Passages whose ids are their texts."""
    return tuple(PassageDraft(text=text, id=text) for text in texts)


def read(nodes):
    """The requests in some steps."""
    return requests_in(nodes, source="x", trace_id="t")


def trace(*nodes: Step) -> Trace:
    """The one request in some steps, the same whatever order they come in."""
    found = {repr(read(list(order))) for order in itertools.islice(itertools.permutations(nodes), 60)}
    assert 1 == len(found)
    (item,) = read(nodes)
    assert isinstance(item, Trace)
    return item


def texts(found: Trace) -> list[str] | None:
    """The texts that reached the prompt."""
    contexts = found.prompt_contexts
    return None if contexts is None else [passage.text for passage in contexts]


def test_the_request_is_the_topmost_step_with_a_question():
    """A server's span above it is not the request, and a parent that was not exported does not matter."""
    found = trace(
        step("server", "gone", kind="infrastructure"),
        step("rag", "server", at=1, query="q", answer="a"),
        step("inner", "rag", at=2, query="rewritten", answer="b"),
        step("search", "inner", kind="retrieval", at=3, query="rewritten", passages=passages("p")),
    )

    assert ("rag", "q", "a", 1.0, 2.0) == (found.name, found.query, found.response, found.started_at, found.ended_at)
    assert "t" == found.trace_id


def test_several_requests_in_one_trace_are_each_one():
    """A loop over questions inside one span of the application: none is lost, and a request that is added keeps their ids."""
    nodes = [step("loop", kind="other")]
    for n in (1, 2):
        nodes += [
            step(f"rag{n}", "loop", at=n * 10, query=f"q{n}", answer=f"a{n}"),
            step(f"search{n}", f"rag{n}", kind="retrieval", at=n * 10 + 1, passages=passages(f"p{n}")),
        ]
    found = read(nodes)

    assert [("t", "q1", "a1", ["p1"]), ("t-rag2", "q2", "a2", ["p2"])] == [
        (item.trace_id, item.query, item.response, texts(item)) for item in found
    ]
    assert [("t", "q1", "a1")] == [(item.trace_id, item.query, item.response) for item in read(nodes[:3])]


def test_parts_of_a_request_beside_each_other_are_one_request():
    """Rewriting, searching and answering one after another under a server's span: only together do they make a request."""
    found = trace(
        step("server", kind="infrastructure"),
        step("rewrite", "server", at=1, query="q", answer="better q"),
        step("search", "server", kind="retrieval", at=3, query="better q", passages=passages("p")),
        step("write", "server", at=5, query="p and q", answer="a"),
        step("model", "write", kind="model", at=5.5, answer="a"),
    )

    assert ("q", "a", ["p"]) == (found.query, found.response, texts(found))


def test_a_model_above_the_retrieval_was_asked_by_the_user():
    """OpenTelemetry's convention puts the retrieval into the chat, or beside it, where the prompt holds the passages."""
    inside = trace(
        step("chat", kind="model", query="q", answer="a"),
        step("search", "chat", kind="retrieval", at=0.5, query="keywords", passages=passages("p")),
    )
    beside = trace(
        step("search", kind="retrieval", query="keywords", passages=passages("p")),
        step("chat", kind="model", at=2, query="p, and so: q", answer="a"),
    )

    assert ("q", "a", ["p"]) == (inside.query, inside.response, texts(inside))
    assert ("keywords", "a", ["p"]) == (beside.query, beside.response, texts(beside))
    assert "chat" == beside.name


def test_of_nested_retrievers_the_outermost_that_says_what_it_found_counts():
    """Each search is counted once, whichever of two spans for it has the documents."""
    top = step("rag", query="q", answer="a")
    outer = trace(
        top,
        step("outer", "rag", kind="retrieval", at=1, query="q", passages=passages("p1")),
        step("inner", "outer", kind="retrieval", at=1, passages=passages("p1", "p2")),
    )
    inner = trace(
        top,
        step("outer", "rag", kind="retrieval", at=1, query="q"),
        step("one", "outer", kind="retrieval", at=1, passages=passages("p1", "p2")),
        step("two", "outer", kind="retrieval", at=2, passages=passages("p2", "p3")),
    )

    assert (["p1"], 1) == (texts(outer), len(outer.retrievals))
    assert (["p1", "p2", "p3"], 1) == (texts(inner), len(inner.retrievals))
    assert [0, 1, 2] == [passage.rank for passage in inner.prompt_contexts]


def test_an_empty_search_is_not_an_unknown_one():
    """Nothing found is known; a retriever that failed, or that does not say what it found, tells nothing."""
    top = step("rag", query="q", answer="a")

    assert [] == texts(trace(top, step("s", "rag", kind="retrieval", at=1, passages=())))
    assert texts(trace(top, step("s", "rag", kind="retrieval", at=1, error="down"))) is None
    assert texts(trace(top, step("s", "rag", kind="retrieval", at=1))) is None
    assert texts(trace(top)) is None


def test_an_empty_search_after_another_takes_nothing_away():
    """Several searches add up, in the order in which they began."""
    found = trace(
        step("rag", query="q", answer="a"),
        step("s1", "rag", kind="retrieval", at=1, passages=passages("p1")),
        step("s2", "rag", kind="retrieval", at=2, passages=()),
        step("s3", "rag", kind="retrieval", at=3, passages=passages("p3")),
    )

    assert (["p1", "p3"], None) == (texts(found), found.contexts)


def test_a_reranker_replaces_the_searches_that_went_through_it():
    """What shares a passage with its output gives way; another search stays in its place."""
    found = trace(
        step("rag", query="q", answer="a"),
        step("s1", "rag", kind="retrieval", at=1, passages=passages("p1", "p2")),
        step("s2", "rag", kind="retrieval", at=2, passages=passages("other")),
        step("sort", "rag", kind="transform", at=3, passages=passages("p2")),
    )

    assert (["p2", "other"], 2) == (texts(found), len(found.retrievals))


def test_a_reranker_that_shares_nothing_replaces_everything():
    """It may have rewritten the passages, or kept none of them."""
    top, search = step("rag", query="q", answer="a"), step("s", "rag", kind="retrieval", at=1, passages=passages("p"))

    assert ["short p"] == texts(
        trace(top, search, step("r", "rag", kind="transform", at=2, passages=passages("short p")))
    )
    assert [] == texts(trace(top, search, step("r", "rag", kind="transform", at=2, passages=())))


def test_a_reranker_that_names_ids_alone_gets_the_texts_of_the_search():
    """LlamaIndex's re-rankers are shown with ids and scores, not with texts."""
    found = trace(
        step("rag", query="q", answer="a"),
        step("s", "rag", kind="retrieval", at=1, passages=passages("p1", "p2")),
        step("r", "rag", kind="transform", at=2, passages=(PassageDraft(text="", id="p2", score=0.9),)),
    )

    assert [("p2", 0.9)] == [(passage.text, passage.score) for passage in found.contexts]


def test_what_a_request_says_it_used_wins():
    """A chain whose output has the documents knows best what reached the prompt."""
    search = step("s", "rag", kind="retrieval", at=1, passages=passages("p1", "p2"))
    found = trace(step("rag", query="q", answer="a", passages=passages("p2")), search)
    same = trace(step("rag", query="q", answer="a", passages=passages("p1", "p2")), search)

    assert ["p2"] == texts(found)
    assert same.contexts is None


def test_what_was_searched_after_the_answer_did_not_reach_it():
    """A search for related questions, say."""
    found = trace(
        step("rag", query="q", answer="a"),
        step("before", "rag", kind="retrieval", at=1, passages=passages("p1")),
        step("model", "rag", kind="model", at=2, answer="a"),
        step("after", "rag", kind="retrieval", at=4, passages=passages("p2")),
    )

    assert ["p1"] == texts(found)


def test_tokens_are_those_of_the_innermost_models():
    """A step around a model, or a second instrumentation inside it, repeats what is counted already."""
    found = trace(
        step("rag", query="q", answer="a", input_tokens=99),
        step("outer", "rag", kind="model", at=1, input_tokens=10, output_tokens=2, answer="x", model="big"),
        step("inner", "outer", kind="model", at=1, input_tokens=10, output_tokens=2),
        step("second", "rag", kind="model", at=3, input_tokens=5, output_tokens=1, answer="a", model="small"),
        step("silent", "second", kind="model", at=3),
        step("failed", "rag", kind="model", at=4, error="boom"),
    )

    assert Usage(input_tokens=15, output_tokens=3) == found.usage
    assert "small" == found.model
    whole = step("rag", query="q", answer="a", input_tokens=99, output_tokens=1)
    assert Usage(input_tokens=99, output_tokens=1) == trace(whole).usage
    assert trace(step("rag", query="q", answer="a")).usage is None


@pytest.mark.parametrize("counts", [{}, {"input_tokens": 5}, {"output_tokens": 5}])
@pytest.mark.parametrize("total", [None, Usage(input_tokens=99, output_tokens=1)])
def test_tokens_are_unknown_if_those_of_one_call_are(counts, total):
    """A sum without a call would be too small, and an unknown count is not zero. A total that the request states counts."""
    stated = {} if total is None else {"input_tokens": 99, "output_tokens": 1}
    found = trace(
        step("rag", query="q", answer="a", **stated),
        step("first", "rag", kind="model", at=1, input_tokens=10, output_tokens=2, answer="x"),
        step("second", "rag", kind="model", at=2, answer="a", **counts),
    )
    assert found.usage == total


@pytest.mark.parametrize("counts", [{"input_tokens": 5}, {"output_tokens": 5}])
def test_half_a_usage_is_unknown(counts):
    """The other half is not zero."""
    assert trace(step("rag", query="q", answer="a", **counts)).usage is None


def test_a_request_that_failed_has_no_answer_but_that_it_gave():
    """What a model said before the request failed never reached the user; inner errors are those it survived."""
    found = trace(
        step("rag", query="q", error="boom"),
        step("model", "rag", kind="model", at=1, answer="half"),
        step("parser", "rag", at=2, error="boom"),
        step("tool", "rag", kind="tool", at=3, error="lost"),
    )

    assert ("error", "boom", None, ("lost",)) == (found.status, found.error, found.response, found.inner_errors)


def test_an_application_that_says_no_answer_gave_that_of_its_last_model():
    """Models answer in the order in which they end."""
    found = trace(
        step("rag", query="q"),
        step("first", "rag", kind="model", at=1, answer="a1"),
        step("last", "rag", kind="model", at=2, answer="a2"),
        step("tool call", "rag", kind="model", at=3),
    )

    assert "a2" == found.response


def test_the_first_token_is_timed_from_the_start_of_the_request():
    """In seconds, and never negative where clocks differ."""
    model = step("model", "rag", kind="model", at=2, answer="a", first_token_at=2.5)

    assert 1.5 == trace(step("rag", at=1, query="q"), model).first_token_s
    assert 0.0 == trace(step("rag", at=9, query="q"), model).first_token_s


def test_what_is_no_request_is_rejected_with_what_it_is():
    """Health checks and embeddings are counted, with their kinds."""
    (found,) = read([step("GET", kind="infrastructure"), step("embed", "GET", kind="embedding")])

    assert isinstance(found, RejectedRecord)
    assert "trace t" == found.place
    assert "not a request: only embeddings" == found.reason
    assert [] == read([])


def test_ids_of_the_request_are_known():
    """Where a score belongs, and who asked; a session that only an inner step names is the request's as well."""
    found = trace(
        Step(
            id="r",
            kind="chain",
            query="q",
            run_id="run",
            otel_trace_id="t",
            otel_span_id="r",
            tags=("a",),
            metadata={"k": 1},
        ),
        Step(id="m", parent="r", kind="model", reply="a", session_id="s", user_id="u"),
    )

    assert ("t", "r", True, "run") == (found.otel_trace_id, found.otel_span_id, found.otel_sampled, found.run_id)
    assert ("s", "u", ("a",), {"k": 1}) == (found.session_id, found.user_id, found.tags, found.metadata)


def test_circles_and_repeated_ids_are_taken_as_they_are():
    """A file may say anything about parents; no step is read twice, and nothing goes round for ever."""
    found = trace(
        step("a", "b", at=1, query="q", answer="x"),
        step("b", "a", at=2, query="inner"),
        step("s", "b", kind="retrieval", at=3, passages=passages("p")),
        step("s", "s", kind="retrieval", at=4, passages=passages("other")),
    )

    assert ("q", "x", ["p"]) == (found.query, found.response, texts(found))


def test_a_trace_of_many_steps_takes_time_in_proportion():
    """Ten thousand steps, each in the one before it, all of them retrievers: no recursion, no square of it."""
    nodes = [step("0", query="q", answer="a")]
    nodes += [step(str(n), str(n - 1), kind="retrieval", at=float(n)) for n in range(1, 10_000)]
    nodes[-1].passages = passages("p")
    (found,) = read(nodes)

    assert ["p"] == texts(found)


def test_what_the_request_gave_out_is_its_answer():
    """A model that ran after the answer, or whose words were worked on, does not speak for the request."""
    found = trace(
        step("rag", query="q", answer="worked on"),
        step("model", "rag", kind="model", at=1, answer="raw"),
        step("titles", "rag", kind="model", at=2, answer="A title"),
    )

    assert "worked on" == found.response


@pytest.mark.parametrize(
    ("first", "last", "error"), [(None, "late", "late"), ("busy", None, None), ("busy", "late", "late")]
)
def test_a_silent_request_failed_if_its_last_step_did(first, last, error):
    """A step that was tried again, and whose second attempt went well, is no failure of the request."""
    found = trace(
        step("rag"),
        step(
            "search", "rag", kind="retrieval", at=1, query="q", passages=None if first else passages("p"), error=first
        ),
        step("again", "rag", kind="retrieval", at=2, query="q", passages=None if last else passages("p"), error=last),
    )

    assert error == found.error


def test_retrievals_in_a_retrieval_are_its_stages():
    """A retriever that merges what others found."""
    found = trace(
        step("rag", query="q", answer="a"),
        step("merge", "rag", kind="retrieval", at=1, query="q", passages=passages("p", "r")),
        step("words", "merge", kind="retrieval", at=2, query="q", passages=passages("p")),
        step("vectors", "merge", kind="retrieval", at=3, query="q", passages=passages("r")),
    )

    (merged,) = found.retrievals
    assert [("words", ["p"]), ("vectors", ["r"])] == [
        (stage.name, [passage.text for passage in stage.passages]) for stage in merged.stages
    ]


def test_retrievers_that_are_in_each_other_are_read():
    """Ids of a damaged export may make a circle."""
    found = read(
        [
            step("rag", query="q", answer="a"),
            step("search", "inner", kind="retrieval", at=1, query="q"),
            step("inner", "search", at=2),
        ]
    )

    assert ["q"] == [item.query for item in found if isinstance(item, Trace)]


def test_passages_of_retrievers_in_a_retriever_are_taken_once():
    """Two texts can share an id, as parts of one document do, and two ids a text."""
    drafts = [PassageDraft(text="a", id="d"), PassageDraft(text="b", id="d"), PassageDraft(text="a", id="e")]
    found = trace(
        step("rag", query="q", answer="a"),
        step("merge", "rag", kind="retrieval", at=1, query="q"),
        step("words", "merge", kind="retrieval", at=2, query="q", passages=tuple(drafts[:2])),
        step("vectors", "merge", kind="retrieval", at=3, query="q", passages=tuple(drafts[1:])),
    )

    assert [("a", "d"), ("b", "d"), ("a", "e")] == [(passage.text, passage.id) for passage in found.prompt_contexts]


def test_a_request_with_a_question_of_its_own_survives_the_error_of_its_last_step():
    """Only one that reports nothing has the status of that step."""
    found = trace(
        step("rag", query="q"),
        step("search", "rag", kind="retrieval", at=1, query="q", passages=passages("p")),
        step("log", "rag", kind="tool", at=2, error="late"),
    )

    assert (None, "ok") == (found.error, found.status)
