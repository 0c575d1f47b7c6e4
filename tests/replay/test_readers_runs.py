"""Shapes of LangSmith's runs, Langfuse's observations and MLflow's traces that recordings of small applications lack."""

from __future__ import annotations

import base64
import json

import pytest

from ragstone.reading._formats import all_formats

FORMATS = all_formats()
HUMAN = {"lc": 1, "type": "constructor", "id": ["langchain", "schema", "messages", "HumanMessage"],
         "kwargs": {"content": "Why?", "type": "human"}}  # fmt: skip
AI = {"lc": 1, "type": "constructor", "id": ["langchain", "schema", "messages", "AIMessage"],
      "kwargs": {"content": [{"type": "reasoning"}, {"type": "text", "text": "So."}], "type": "ai"}}  # fmt: skip


def lines(*values: object) -> bytes:
    """JSON lines."""
    return "".join(json.dumps(value) + "\n" for value in values).encode()


def run(run_id, *, parent=None, kind="chain", trace="t", **more):
    """A run of LangSmith."""
    return {"id": run_id, "trace_id": trace, "parent_run_id": parent, "run_type": kind, "name": run_id,
            "start_time": "2026-01-02T03:04:05", "inputs": {}, "outputs": {}} | more  # fmt: skip


ROOT = run("t", inputs={"question": "Why?"}, outputs={"answer": "So."})


def test_runs_of_a_trace_may_stand_anywhere(read):
    """Children before their root, and runs of other traces between them."""
    documents = {"documents": [{"page_content": "Because.", "metadata": {"doc_id": 7}}]}
    other = run("u", trace="u", inputs={"input": "How?"}, outputs={"output": "Thus."})
    content = lines(run("r", parent="t", kind="retriever", inputs={"query": "why"}, outputs=documents), other, ROOT)
    traces, rejected = read(FORMATS["langsmith"], content)

    assert [] == rejected
    assert [("Why?", "So.", ["Because."], ["7"]), ("How?", "Thus.", [], [])] == [
        (t.query, t.response, [p.text for p in t.prompt_contexts or ()], [p.id for p in t.prompt_contexts or ()])
        for t in traces
    ]
    assert 1767323045.0 == traces[0].started_at


def test_a_run_without_trace_id_is_found_by_its_dotted_order(read):
    """Old exports have only the order; the first id in it is the root's."""
    order = "20260102T030405000000Zt"
    child = run(
        "r", parent="t", kind="retriever", outputs={"documents": []}, dotted_order=f"{order}.20260102T030406000000Zr"
    )
    traces, rejected = read(FORMATS["langsmith"], lines(child | {"trace_id": None}, ROOT | {"trace_id": None}))

    assert [] == rejected
    assert [("t", ())] == [(t.trace_id, t.prompt_contexts) for t in traces]


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (7, "a run must be an object"),
        ({"run_type": "chain"}, "a run must have an `id`"),
        (run("x", parent="y", trace=None), "neither `trace_id` nor `dotted_order`"),
    ],
)
def test_a_bad_run_is_told_and_the_rest_goes_on(read, bad, reason):
    """One rejection with its line; the trace beside it is read."""
    traces, rejected = read(FORMATS["langsmith"], lines(bad, ROOT))

    assert ["t"] == [t.trace_id for t in traces]
    assert ["line 1"] == [r.place for r in rejected]
    assert reason in rejected[0].reason


def test_feedback_among_runs_is_passed_over(read):
    """It is no run, and nothing is wrong with it."""
    feedback = {"id": "f", "run_id": "t", "trace_id": "t", "key": "correctness", "score": 1}
    traces, rejected = read(FORMATS["langsmith"], lines(ROOT | {"key": "k", "run_id": "t"}, feedback))

    assert (1, []) == (len(traces), rejected)


def test_messages_in_and_out_are_question_and_answer(read):
    """Of a graph's state the last message of a person and of the model; reasoning is no part of an answer."""
    root = ROOT | {"inputs": {"messages": [HUMAN]}, "outputs": {"messages": [HUMAN, AI]}}
    (trace,), _ = read(FORMATS["langsmith"], lines(root))

    assert ("Why?", "So.") == (trace.query, trace.response)


def test_a_tool_that_gave_back_documents_has_retrieved(read):
    """As agents search: the documents are the artifact of the tool's message."""
    message = {"content": "found", "type": "tool", "artifact": [{"page_content": "Because.", "id": "d"}]}
    tool = run("r", parent="t", kind="tool", inputs={"input": "why"}, outputs={"output": message})
    (trace,), _ = read(FORMATS["langsmith"], lines(ROOT, tool))

    assert ["Because."] == [p.text for p in trace.prompt_contexts]


def test_tokens_are_the_servers_else_the_models(read):
    """A server that counted wins; a zero is none; a run around a model repeats its sum and is not counted."""
    message = {"content": "So.", "type": "ai", "usage_metadata": {"input_tokens": 5, "output_tokens": 2}}
    outputs = {"generations": [[{"text": "So.", "message": {"lc": 1, "id": ["AIMessage"], "kwargs": message}}]]}
    first = run("a", parent="t", kind="llm", outputs=outputs, prompt_tokens=0, completion_tokens=0)
    second = run("b", parent="t", kind="llm", outputs=outputs, prompt_tokens=10, completion_tokens=20)
    (trace,), _ = read(
        FORMATS["langsmith"], lines(ROOT | {"prompt_tokens": 15, "completion_tokens": 22}, first, second)
    )

    assert (15, 22) == (trace.usage.input_tokens, trace.usage.output_tokens)


def test_the_project_is_no_session(read):
    """LangSmith calls a project session; a user's session stands in the metadata, under any of three names."""
    said = {
        "metadata": {
            "thread_id": "th",
            "user_id": 7,
            "team": "x",
            "LANGSMITH_ENDPOINT": "https://x",
            "revision_id": "r",
        }
    }
    (trace,), _ = read(FORMATS["langsmith"], lines(ROOT | {"session_id": "p-1", "session_name": "prod", "extra": said}))

    assert ("th", "7") == (trace.session_id, trace.user_id)
    assert {"team": "x", "langsmith_project": "prod", "langsmith_project_id": "p-1"} == trace.metadata


def test_a_trace_without_question_and_retrieval_is_rejected(read):
    """A child whose root was not exported, and that says nothing, is no request."""
    traces, rejected = read(
        FORMATS["langsmith"], lines(run("p", parent="t", kind="parser"), ROOT | {"trace_id": "t2", "id": "t2"})
    )

    assert ["t2"] == [t.trace_id for t in traces]
    assert [("trace t", True)] == [(r.place, "not a request" in r.reason) for r in rejected]


def test_what_came_before_the_damage_of_a_file_is_read(read, tmp_path):
    """Traces are grouped over the whole file; those before its damage come out before the error does."""
    import gzip

    from ragstone.errors import DataError
    from ragstone.reading import InputFile
    from ragstone.schema import Trace

    whole = gzip.compress(
        lines(*(ROOT | {"id": f"t{n}", "trace_id": f"t{n}", "pad": f"{n * 7919:x}" * 50} for n in range(5000)))
    )
    path = tmp_path / "runs.jsonl.gz"
    path.write_bytes(whole[: len(whole) // 2])
    items = FORMATS["langsmith"].read(InputFile(path, "runs"))
    found = []

    with pytest.raises(DataError, match="'runs' cannot be read"):
        found.extend(iter(lambda: next(items), None))
    found = [item for item in found if isinstance(item, Trace)]
    assert len(found) > 500


@pytest.mark.parametrize(
    ("more", "error"),
    [
        (
            {"error": "ValueError('x')\n\nTraceback (most recent call last):\n  File app.py, line 1\n"},
            "ValueError('x')",
        ),
        ({"error": "Traceback (most recent call last):\n  File app.py, line 1\nValueError: x\n"}, "ValueError: x"),
        ({"error": None, "status": "error"}, "error"),
        ({"error": "", "status": "success"}, None),
    ],
)
def test_an_error_of_a_run_has_no_stack(read, more, error):
    """A stack names files of the machine that ran it. A status can state an error without a text."""
    (trace,), _ = read(FORMATS["langsmith"], lines(ROOT | more))

    assert error == trace.error


def test_runs_that_started_together_are_in_the_dotted_order(read):
    """Ids do not show which retriever ran first."""
    found = [
        run(name, parent="t", kind="retriever", dotted_order=f"1Zt.{n}Z{name}", inputs={"query": name}, outputs=[])
        for n, name in enumerate("ba")
    ]
    (trace,), _ = read(FORMATS["langsmith"], lines(*reversed(found), ROOT | {"dotted_order": "1Zt"}))

    assert ["b", "a"] == [retrieval.query for retrieval in trace.retrievals]


def test_a_model_that_its_output_does_not_name_has_the_name_of_its_settings(read):
    """LangChain writes the settings into the metadata of the run."""
    said = {"metadata": {"ls_model_name": "small"}}
    model = run("m", parent="t", kind="llm", inputs={"prompt": "Why?"}, outputs={"text": "So."}, extra=said)
    (trace,), _ = read(FORMATS["langsmith"], lines(ROOT, model))

    assert "small" == trace.model


def test_runs_within_a_run_have_its_trace(read):
    """Tracers keep children inside their parent, without ids of the parent and of the trace."""
    inner = run("r", kind="retriever", inputs={"query": "why"}, outputs={"documents": [{"page_content": "Because."}]})
    del inner["trace_id"], inner["parent_run_id"]
    (trace,), rejected = read(FORMATS["langsmith"], lines(ROOT | {"child_runs": [inner]}))

    assert [] == rejected
    assert ["Because."] == [passage.text for passage in trace.prompt_contexts]


def test_a_stated_parent_of_a_run_wins_over_the_run_around_it(read):
    """A retriever without documents has those of the retrievers in it, and of no other."""
    found = {
        "run_type": "retriever",
        "inputs": {"query": "why"},
        "outputs": {"documents": [{"page_content": "Because."}]},
    }
    outer = run("u", parent="t", kind="retriever", inputs={"query": "which"}, outputs=None)
    (inside,), _ = read(FORMATS["langsmith"], lines(ROOT, outer | {"child_runs": [found | {"id": "s"}]}))
    (beside,), _ = read(
        FORMATS["langsmith"], lines(ROOT, outer | {"child_runs": [found | {"id": "s", "parent_run_id": "t"}]})
    )

    assert [["which"], ["why"]] == [[each.query for each in trace.retrievals] for trace in (inside, beside)]


def test_of_two_sources_of_a_fact_of_langsmith_one_wins(read):
    """The order of names, and what neither the SDK nor LangChain adds, are those of the request."""
    added = (
        "ls_model_type",
        "lc_versions",
        "langgraph_step",
        "checkpoint_ns",
        "__pregel",
        "LANGSMITH_TRACING",
        "LANGCHAIN_X",
    )
    said = {"metadata": {"ls_model_name": "other", "usage_metadata": {"n": 1}, "_type": "x", "stop": None, "team": "x"}}
    said["metadata"] |= dict.fromkeys(added, "y")
    root = ROOT | {"tags": ["night", 2], "extra": json.dumps(said), "start_time": "2026-01-02T03:04:05"}
    outputs = {"text": "So.", "model": "m", "usage": {"prompt_tokens": 5, "completion_tokens": 2}}
    model = run(
        "m", parent="t", kind="llm", inputs={"prompt": "Why?"}, outputs=outputs, extra=said, completion_tokens=7,
        first_token_time="2026-01-02T03:04:06.5",
    )  # fmt: skip
    (trace,), _ = read(FORMATS["langsmith"], lines(root, model))

    assert (("night", "2"), {"team": "x"}) == (trace.tags, trace.metadata)
    assert ("m", 5, 7) == (trace.model, trace.usage.input_tokens, trace.usage.output_tokens)
    assert 1.5 == trace.first_token_s


@pytest.mark.parametrize("name", ["dotted_order", "parent_run_id", "child_runs", "parent_run_ids"])
def test_runs_are_detected_by_any_name_of_their_place(name):
    """SDKs, bulk exports and tracers write different ones."""
    assert f"runs with `run_type` and `{name}`" == FORMATS["langsmith"].detect(
        json.dumps({"id": "r", "run_type": "chain", name: None}).encode()
    )


def test_runs_within_runs_keep_their_parents(read):
    """The request is the outermost run. A stated parent wins over the run around it."""
    inner = {
        "run_type": "retriever",
        "inputs": {"query": "why"},
        "outputs": {"documents": [{"page_content": "Because."}]},
    }
    step = {
        "id": "c",
        "run_type": "chain",
        "name": "c",
        "inputs": {"question": "x"},
        "child_runs": [inner | {"id": "r"}],
    }
    stated = run("u", parent="t", inputs={"question": "y"}, child_runs=[inner | {"id": "s", "parent_run_id": "t"}])
    traces, rejected = read(FORMATS["langsmith"], lines(ROOT | {"child_runs": [step]}, stated))

    assert ([], [("Why?", "So.", 2)]) == (rejected, [(t.query, t.response, len(t.retrievals)) for t in traces])


def observation(own_id, *, parent=None, kind="SPAN", **more):
    """An observation of Langfuse."""
    return {"id": own_id, "trace_id": "t", "type": kind, "parent_observation_id": parent, "name": own_id,
            "start_time": "2026-01-02 03:04:05.000006"} | more  # fmt: skip


def test_a_trace_record_counts_for_what_it_says(read):
    """Its question and answer are those of the request; a top observation that stands beside others does not speak for it."""
    about = {
        "id": "t",
        "timestamp": "2026-01-02T03:04:05Z",
        "input": {"query": "Why?"},
        "output": "So.",
        "session_id": "s",
        "release": "2.4",
        "environment": "staging",
    }
    tops = [observation("a", kind="RETRIEVER", input="why", output='[{"page_content": "Because."}]'),
            observation("b", kind="GENERATION", output="Draft.", usage={"promptTokens": 3, "completionTokens": 4})]  # fmt: skip
    (trace,), rejected = read(FORMATS["langfuse"], lines(*tops, about))

    assert [] == rejected
    assert ("Why?", "So.", "s", ["Because."]) == (
        trace.query, trace.response, trace.session_id, [p.text for p in trace.prompt_contexts],
    )  # fmt: skip
    assert (3, 4) == (trace.usage.input_tokens, trace.usage.output_tokens)
    assert (None, "2.4", "staging", {}) == (trace.app, trace.release, trace.environment, trace.metadata)


def test_scores_among_observations_are_passed_over_and_strangers_rejected(read):
    """A score is nothing wrong; what is neither an observation nor a trace is told."""
    score = {"id": "s", "trace_id": "t", "name": "helpful", "value": 1, "dataType": "NUMERIC"}
    top = observation("a", input="Why?", output="So.")
    traces, rejected = read(FORMATS["langfuse"], lines(score, top, {"id": "x", "trace_id": "t"}, 3))

    assert ["Why?"] == [t.query for t in traces]
    assert ["line 3", "line 4"] == [r.place for r in rejected]


def test_an_error_of_an_observation_is_its_status_message(read):
    """Langfuse has no error field: the level says that it is one."""
    (trace,), _ = read(
        FORMATS["langfuse"], lines(observation("a", input="Why?", level="ERROR", status_message="broke"))
    )

    assert ("error", "broke") == (trace.status, trace.error)


def test_a_streamed_generation_has_the_time_of_its_first_token(read):
    """In seconds after the start of the request; `default` is what Langfuse writes without an environment."""
    top = observation("a", input="Why?", output="So.", environment="default")
    asked = [{"role": "user", "content": "Why?"}]
    model = observation("b", parent="a", kind="GENERATION", input=asked, output="So.", environment="default")
    streamed = model | {"completion_start_time": "2026-01-02 03:04:06.500006"}
    (trace,), _ = read(FORMATS["langfuse"], lines(top, streamed))

    assert (1.5, None) == (trace.first_token_s, trace.environment)


def test_the_version_of_an_observation_is_the_release(read):
    """If no release is stated. Metadata of Langfuse itself are left out."""
    said = {"team": "x", "scope": {"name": "sdk"}, "resourceAttributes": {"host.name": "h"}}
    (trace,), _ = read(
        FORMATS["langfuse"], lines(observation("a", input="Why?", output="So.", version="7", metadata=said))
    )

    assert ("7", {"team": "x"}) == (trace.release, trace.metadata)


@pytest.mark.parametrize(("own_id", "is_known"), [("0123456789abcdef", True), ("a", False)])
def test_only_ids_of_opentelemetry_are_ids_of_its_spans(read, own_id, is_known):
    """An id that is not in hex digits is one of Langfuse alone."""
    (trace,), _ = read(
        FORMATS["langfuse"], lines(observation(own_id, input="Why?", output="So.") | {"trace_id": "f" * 32})
    )

    assert (("f" * 32, own_id) if is_known else (None, None)) == (trace.otel_trace_id, trace.otel_span_id)


def test_a_lone_model_does_not_stand_for_its_trace(read):
    """The record of the trace is the request, and the model a step in it."""
    about = {"id": "t", "timestamp": "2026-01-02T03:04:05Z", "input": {"query": "Why?"}, "output": "So."}
    asked = [{"role": "user", "content": "Answer shortly: Why?"}]
    traces, rejected = read(
        FORMATS["langfuse"], lines(observation("b", kind="GENERATION", input=asked, output="So, so."), about)
    )

    assert ([("Why?", "So.")], []) == ([(trace.query, trace.response) for trace in traces], rejected)


@pytest.mark.parametrize("kind", ["SPAN", "AGENT"])
def test_a_trace_states_the_facts_of_its_only_outermost_observation(read, kind):
    """What the record of a trace does not state is that of the observation."""
    about = {
        "id": "t", "timestamp": "2026-01-02T03:04:04Z", "input": {"query": "Why?"}, "output": "So.", "name": "shelf",
        "sessionId": "s", "userId": "u", "release": "2", "environment": "eu", "tags": ["a"], "metadata": {"team": "x"},
    }  # fmt: skip
    own = {
        "input": "other", "output": "other", "session_id": "o", "user_id": "o", "release": "1", "environment": "us",
        "tags": ["b"], "metadata": {"team": "y", "shift": "night"},
    }  # fmt: skip
    traces = [
        read(FORMATS["langfuse"], lines(observation("a", kind=kind, **own), record))[0][0]
        for record in (about, {"id": "t", "timestamp": None, "input": None, "output": None})
    ]

    names = ("query", "response", "name", "session_id", "user_id", "release", "environment", "tags", "metadata")
    assert [
        ("Why?", "So.", "shelf", "s", "u", "2", "eu", ("a",), {"team": "x", "shift": "night"}),
        ("other", "other", "a", "o", "o", "1", "us", ("b",), {"team": "y", "shift": "night"}),
    ] == [tuple(getattr(trace, name) for name in names) for trace in traces]
    assert [1767323044.0, 1767323045.000006] == [trace.started_at for trace in traces]


def test_of_two_names_of_a_fact_of_langfuse_one_wins(read):
    """Those of the newer exports."""
    top = observation(
        "a", input="Why?", output="So.", trace_name="other", release="2", version="1", timestamp="2020-01-01"
    )
    asked = [{"role": "user", "content": "Why?"}]
    model = observation(
        "b", parent="a", kind="GENERATION", input=asked, output="So.", provided_model_name="m", model="other",
        usage_details={"input": 3, "output": 2}, usage={"input": 9, "output": 9}, level="WARNING", status_message="slow",
    )  # fmt: skip
    (trace,), _ = read(FORMATS["langfuse"], lines(top, model))

    assert ("a", "2", "m", 3, 2, "ok") == (
        trace.name, trace.release, trace.model, trace.usage.input_tokens, trace.usage.output_tokens, trace.status,
    )  # fmt: skip
    assert 1767323045.000006 == trace.started_at


@pytest.mark.parametrize(
    ("more", "is_trace"),
    [
        ({"bookmarked": False}, True),
        ({"htmlPath": "/t"}, True),
        ({"public": False, "release": None}, True),
        ({"totalCost": 0.5, "observations": []}, True),
        ({"public": False}, False),
        ({"observations": []}, False),
    ],
)
def test_a_trace_of_langfuse_has_a_field_of_its_own(more, is_trace):
    """Other tools have traces with a time, an input and an output too."""
    head = json.dumps({"id": "t", "timestamp": "x", "input": "q", "output": "a"} | more).encode()

    assert is_trace == (FORMATS["langfuse"].detect(head) is not None)


def test_an_answer_of_langfuse_has_the_observations_in_the_trace(read):
    """They need not repeat the id of the trace, and an empty id of a parent is none."""
    asked = [{"role": "user", "content": "Why?"}]
    inner = [
        {"id": "a", "type": "SPAN", "parentObservationId": "", "input": "Why?", "output": "So.", "startTime": "2026-01-02T03:04:05Z"},
        {"id": "b", "type": "GENERATION", "parentObservationId": "a", "input": asked, "output": "So.", "model": "m"},
    ]  # fmt: skip
    (trace,), rejected = read(
        FORMATS["langfuse"], lines({"id": "t", "timestamp": "2026-01-02T03:04:05Z", "observations": inner})
    )

    assert ([], "t", "Why?", "m") == (rejected, trace.trace_id, trace.query, trace.model)


def span(span_id, *, parent=None, kind="CHAIN", inputs=None, outputs=None, **more):
    """A span of MLflow 3."""
    encoded = {"trace_id": base64.b64encode(bytes(15) + b"\x01").decode(),
               "span_id": base64.b64encode(bytes(7) + bytes([span_id])).decode()}  # fmt: skip
    parent_id = None if parent is None else base64.b64encode(bytes(7) + bytes([parent])).decode()
    attributes = {"mlflow.spanType": json.dumps(kind), "mlflow.spanInputs": json.dumps(inputs),
                  "mlflow.spanOutputs": json.dumps(outputs)}  # fmt: skip
    return encoded | {"parent_span_id": parent_id, "name": kind, "start_time_unix_nano": 1767323045 * 10**9,
                      "attributes": attributes} | more  # fmt: skip


def test_a_trace_of_mlflow_2_is_read(read):
    """Ids stand in a context, in hex digits with 0x before them, and the request has an id of its own."""
    old = {
        "info": {"request_id": "tr-abc", "timestamp_ms": 1, "request_metadata": {"mlflow.trace.session": "s"}, "tags": {"team": "x"}},
        "data": {"spans": [{
            "name": "root", "context": {"span_id": "0x2a", "trace_id": "0x1"}, "parent_id": None,
            "start_time": 1767323045 * 10**9, "end_time": 1767323046 * 10**9, "status_code": "ERROR", "status_message": "broke",
            "attributes": {"mlflow.spanType": '"CHAIN"', "mlflow.spanInputs": '{"question": "Why?"}'},
        }]},
    }  # fmt: skip
    (trace,), rejected = read(FORMATS["mlflow"], lines(old))

    assert [] == rejected
    assert ("tr-abc", "0" * 31 + "1", "0" * 14 + "2a") == (trace.run_id, trace.otel_trace_id, trace.otel_span_id)
    assert ("Why?", "error", "broke", "s", {"team": "x"}) == (
        trace.query, trace.status, trace.error, trace.session_id, trace.metadata,
    )  # fmt: skip
    assert (1767323045.0, 1767323046.0) == (trace.started_at, trace.ended_at)


def test_tokens_of_the_trace_stand_in_where_no_span_counts(read):
    """MLflow's sum is taken only where it is not the sum of what is counted already."""
    about = {"mlflow.trace.tokenUsage": '{"input_tokens": 61, "output_tokens": 13}'}
    value = {
        "info": {"trace_id": "tr-1", "trace_metadata": about},
        "data": {"spans": [span(1, inputs="Why?", outputs="So.")]},
    }
    (trace,), _ = read(FORMATS["mlflow"], lines(value))

    assert (61, 13) == (trace.usage.input_tokens, trace.usage.output_tokens)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ({"info": {"trace_id": "tr-1", "request_preview": "Why?"}, "data": {}}, "only previews"),
        ({"info": {"trace_id": "tr-1"}, "data": {"spans": []}}, "not have any spans"),
        ({"info": {"trace_id": "tr-1"}, "data": {"spans": [{"name": "x"}]}}, "must have a `span_id`"),
        ([1], "must have `spans`"),
    ],
)
def test_a_trace_of_mlflow_that_lacks_its_spans_is_rejected(read, value, reason):
    """A preview is cut, and is never taken for the question."""
    traces, rejected = read(FORMATS["mlflow"], lines(value))

    assert [] == traces
    assert reason in rejected[0].reason


def test_the_sum_of_tokens_belongs_to_no_request_of_several(read):
    """MLflow counts a trace, so that the tokens of each request are unknown."""
    about = {"mlflow.trace.tokenUsage": '{"input_tokens": 61, "output_tokens": 13}'}
    found = [{"page_content": "Because."}]
    spans = [span(1, inputs="Why?", outputs="So."), span(2, inputs="How?", outputs="Thus.")]
    spans += [span(n + 2, parent=n, kind="RETRIEVER", inputs="why", outputs=found) for n in (1, 2)]
    value = {"info": {"trace_id": "tr-1", "trace_metadata": about}, "data": {"spans": spans}}
    traces, _ = read(FORMATS["mlflow"], lines(value))

    assert [None, None] == [trace.usage for trace in traces]


def test_only_an_expected_answer_is_a_reference(read):
    """Other expectations, and feedback, say something else about a request. A blank answer is none."""
    said = [
        {"assessment_name": "expected_response", "expectation": {"value": "So."}},
        {"assessment_name": "tone", "expectation": {"value": "friendly"}},
        {"assessment_name": "reference", "feedback": {"value": "bad"}},
        {"assessment_name": "ground_truth", "expectation": {"value": " "}},
    ]
    value = {"info": {"trace_id": "tr-1", "assessments": said}, "data": {"spans": [span(1, inputs="Why?")]}}
    (trace,), _ = read(FORMATS["mlflow"], lines(value))

    assert ("So.",) == trace.reference


def test_metadata_of_mlflow_itself_are_left_out(read):
    """Those of the application and its tags are kept. Session and user have fields of their own."""
    about = {"mlflow.trace.user": "u", "mlflow.trace.session": "s", "mlflow.source.name": "app.py", "region": "north"}
    info = {"trace_id": "tr-1", "trace_metadata": about, "tags": {"mlflow.artifactLocation": "here", "team": "x"}}
    (trace,), _ = read(FORMATS["mlflow"], lines({"info": info, "data": {"spans": [span(1, inputs="Why?")]}}))

    assert ("u", "s", {"region": "north", "team": "x"}) == (trace.user_id, trace.session_id, trace.metadata)


def test_a_trace_of_mlflow_with_too_many_spans_is_rejected(read):
    """One record could otherwise take any amount of memory."""
    traces, rejected = read(FORMATS["mlflow"], lines({"info": {"trace_id": "tr-1"}, "data": {"spans": [{}] * 10_001}}))

    assert ([], "the trace has 10001 spans, more than 10000") == (traces, rejected[0].reason)


def test_ids_of_mlflow_2_have_several_spellings(read):
    """A parent in hex digits of another length or case is the same span, so that each request has its own passages."""

    def step(span_id: str, parent: str | None, kind: str, given: object, returned: object):
        values = {"mlflow.spanType": kind, "mlflow.spanInputs": given, "mlflow.spanOutputs": returned}
        attributes = {name: json.dumps(value) for name, value in values.items()}
        context = {"span_id": span_id, "trace_id": "0x1"}
        return {"name": span_id, "context": context, "parent_id": parent, "attributes": attributes}

    spans = [
        step("0x2A", None, "CHAIN", {"question": "Why?"}, "So."),
        step("0x3A", None, "CHAIN", {"question": "How?"}, "Thus."),
        step("0x4a", "0x000000000000003a", "RETRIEVER", "how", [{"page_content": "By hand."}]),
        step("0x4b", "0x000000000000002a", "RETRIEVER", "why", [{"page_content": "Because."}]),
    ]
    traces, rejected = read(FORMATS["mlflow"], lines({"info": {"request_id": "tr-1"}, "data": {"spans": spans}}))

    assert [] == rejected
    assert [("How?", ["By hand."]), ("Why?", ["Because."])] == sorted(
        (trace.query, [passage.text for passage in trace.prompt_contexts]) for trace in traces
    )


@pytest.mark.parametrize(
    ("value", "is_mlflow"),
    [
        ({"info": {"request_id": "tr-1", "request_metadata": {}}, "data": {"spans": []}}, True),
        ({"info": {"trace_metadata": {}}, "data": {"spans": []}}, True),
        ({"info": {}, "data": {"spans": [{"attributes": {"mlflow.traceRequestId": "x"}}]}}, True),
        ({"info": {}, "data": {"spans": []}}, False),
        ({"resourceSpans": [], "info": {"trace_metadata": {}}, "data": {"spans": []}}, False),
        ({"trace_id": "tr-1", "trace_metadata": {"mlflow.trace.user": "u"}, "spans": []}, True),
        ({"trace_id": "tr-1", "trace_metadata": {"user": "u"}, "spans": []}, False),
    ],
)
def test_traces_and_rows_of_mlflow_are_detected(value, is_mlflow):
    """By the names around the spans. Rows of other tables need an attribute of MLflow as well."""
    assert is_mlflow == (FORMATS["mlflow"].detect(json.dumps(value).encode()) is not None)


@pytest.mark.parametrize(
    "name", ["expected_response", "expected_output", "expected_answer", "ground_truth", "reference"]
)
def test_each_name_of_an_expected_answer_is_a_reference(read, name):
    """Expected facts are parts of an answer, which are not alternatives."""
    said = [
        {"assessment_name": "expected_facts", "expectation": {"value": "a fact"}},
        {"assessment_name": name, "expectation": {"value": "So."}},
    ]
    value = {"info": {"trace_id": "tr-1", "assessments": said}, "data": {"spans": [span(1, inputs="Why?")]}}

    assert ("So.",) == read(FORMATS["mlflow"], lines(value))[0][0].reference


def test_of_two_sources_of_a_fact_of_mlflow_one_wins(read):
    """What the trace states wins over its outermost span, and a row of a table may have the trace as JSON."""
    counted = {"mlflow.spanType": '"LLM"', "mlflow.chat.tokenUsage": '{"input_tokens": 3, "output_tokens": 2}'}
    asked = {"mlflow.spanInputs": '{"messages": [{"role": "user", "content": "Why?"}]}', "mlflow.spanOutputs": '"So."'}
    root = span(1, inputs="Why?", outputs="So.", end_time_unix_nano=1767323047 * 10**9)
    root["attributes"] |= {
        "session.id": '"own"', "user.id": '"own"', "metadata": json.dumps({"team": "y", "shift": "night", "region": "own"}),
    }  # fmt: skip
    spans = [root, span(2, parent=1) | {"attributes": counted | asked}]
    about = {
        "mlflow.trace.tokenUsage": '{"input_tokens": 61, "output_tokens": 13}',
        "mlflow.trace.session": "s",
        "region": "north",
    }
    stated = {"trace_id": "tr-1", "request_id": "old", "trace_metadata": about, "tags": {"team": "x"}}
    row = {"trace": json.dumps({"info": stated, "data": {"spans": spans}}), "trace_id": "other", "spans": []}
    bare = {"info": {"request_id": "old", "request_metadata": json.dumps({"team": "x"})}, "data": {"spans": spans}}
    (whole, other), rejected = read(FORMATS["mlflow"], lines(row, bare))

    assert ([], "tr-1", "old") == (rejected, whole.run_id, other.run_id)
    assert [("s", "own"), ("own", "own")] == [(trace.session_id, trace.user_id) for trace in (whole, other)]
    assert [
        {"team": "x", "shift": "night", "region": "north"},
        {"team": "x", "shift": "night", "region": "own"},
    ] == [trace.metadata for trace in (whole, other)]
    assert [(3, 2)] * 2 == [(trace.usage.input_tokens, trace.usage.output_tokens) for trace in (whole, other)]
    assert 1767323047.0 == whole.ended_at


@pytest.mark.parametrize(
    "status",
    [
        {"status": {"code": "STATUS_CODE_ERROR", "message": "it broke"}},
        {"status": {"status_code": "ERROR", "description": "it broke"}},
        {"status_code": "ERROR", "status_message": "it broke"},
    ],
)
def test_each_spelling_of_a_failed_span_of_mlflow_is_read(read, status):
    """Of MLflow 3, of its table, and of MLflow 2."""
    value = {"info": {"trace_id": "tr-1"}, "data": {"spans": [span(1, inputs="Why?", **status)]}}

    assert "it broke" == read(FORMATS["mlflow"], lines(value))[0][0].error


def test_an_id_of_a_span_without_that_of_its_trace_is_not_one_of_opentelemetry(read):
    """Both are needed to find a span elsewhere."""
    value = {"info": {"trace_id": "tr-1"}, "data": {"spans": [span(1, inputs="Why?") | {"trace_id": "tr-1"}]}}
    (trace,), _ = read(FORMATS["mlflow"], lines(value))

    assert ("tr-1", None, None) == (trace.trace_id, trace.otel_trace_id, trace.otel_span_id)


def test_ids_of_mlflow_need_not_be_those_of_opentelemetry(read):
    """Then the steps are found by them all the same, and the request has the id of its trace."""
    root, found = span(1, inputs="Why?", outputs="So."), span(2, kind="RETRIEVER", inputs="why")
    root |= {"span_id": "root", "trace_id": None}
    found |= {"span_id": "found", "trace_id": None, "parent_span_id": "root"}
    found["attributes"]["mlflow.spanOutputs"] = '[{"page_content": "Because."}]'
    (trace,), rejected = read(
        FORMATS["mlflow"], lines({"info": {"trace_id": "tr-1"}, "data": {"spans": [root, found]}})
    )

    assert ([], "tr-1", None, None) == (rejected, trace.trace_id, trace.otel_trace_id, trace.otel_span_id)
    assert ["Because."] == [passage.text for passage in trace.prompt_contexts]


def phoenix_span(span_id: int, *, parent: int | None = None, kind: str = "CHAIN", **more: object):
    """A span of Phoenix's REST interface."""
    return {"name": kind, "context": {"trace_id": "1" * 32, "span_id": f"{span_id:016x}"}, "span_kind": kind,
            "parent_id": None if parent is None else f"{parent:016x}", "status_code": "OK",
            "start_time": "2026-01-02T03:04:05+00:00", "attributes": {}} | more  # fmt: skip


def test_pages_of_phoenix_may_be_in_a_list(read):
    """The spans of a request may be in several pages."""
    root = phoenix_span(1, attributes={"input.value": "Why?", "output.value": "So."})
    found = {"input.value": "why", "retrieval.documents.0.document.content": "Because."}
    pages = [{"data": [root]}, {"data": [phoenix_span(2, parent=1, kind="RETRIEVER", attributes=found)]}]
    (trace,), rejected = read(FORMATS["phoenix"], json.dumps(pages).encode())

    assert [] == rejected
    assert ("Why?", "So.", ["Because."]) == (
        trace.query, trace.response, [passage.text for passage in trace.prompt_contexts],
    )  # fmt: skip


def test_events_of_phoenix_have_attributes(read):
    """The error of a request is the message of its exception, if the span does not state one."""
    event = {"name": "exception", "timestamp": "2026-01-02T03:04:06+00:00",
             "attributes": {"exception.type": "ValueError", "exception.message": "it broke"}}  # fmt: skip
    asked = {"input.value": "Why?"}
    (trace,), _ = read(
        FORMATS["phoenix"], lines(phoenix_span(1, status_code="ERROR", attributes=asked, events=[event]))
    )

    assert ("error", "ValueError: it broke") == (trace.status, trace.error)


def test_a_call_of_a_servers_tool_is_not_an_answer(read):
    """What Claude writes before it lets the server search."""
    content = [
        {"type": "text", "text": "Let me look."},
        {"type": "server_tool_use", "id": "x", "name": "web_search", "input": {}},
    ]
    outputs = {"messages": [{"role": "user", "content": "Why?"}, {"role": "assistant", "content": content}]}
    call = run("t", inputs={"messages": [{"role": "user", "content": "Why?"}]}, outputs=outputs)
    model = run("m", parent="t", kind="llm", inputs=call["inputs"], outputs={"message": outputs["messages"][1]})
    final = run(
        "n", parent="t", kind="llm", inputs=call["inputs"], outputs={"message": {"role": "assistant", "content": "So."}}
    )
    (trace,), _ = read(
        FORMATS["langsmith"], lines(call | {"outputs": {}}, model, final | {"start_time": "2026-01-02T03:04:00"})
    )

    assert ("Why?", "So.") == (trace.query, trace.response)


def test_phoenix_states_a_kind_beside_the_attributes(read):
    """Attributes may be an object of objects, of which empty values are left out, and the kind in them wins."""
    root = phoenix_span(
        1,
        kind="UNKNOWN",
        attributes={
            "openinference": {"span": {"kind": "CHAIN"}}, "input": {"value": "Why?"}, "output": {"value": "So."},
            "session": {"id": None}, "user": {"id": "u"}, "tag": {"tags": ["a"]},
        },
        end_time="2026-01-02T03:04:07+00:00",
        status_code="UNSET",
    )  # fmt: skip
    documents = [{"document": {"content": "Because.", "id": "d"}}]
    found = phoenix_span(2, parent=1, kind="RETRIEVER", attributes={"retrieval": {"documents": documents}})
    (trace,), _ = read(FORMATS["phoenix"], lines(root, found))

    assert ("Why?", "So.", "u", None, ("a",), "ok") == (
        trace.query, trace.response, trace.user_id, trace.session_id, trace.tags, trace.status,
    )  # fmt: skip
    assert [("Because.", "d")] == [(passage.text, passage.id) for passage in trace.prompt_contexts]
    assert (1767323045.0, 1767323047.0) == (trace.started_at, trace.ended_at)


def test_a_failed_span_of_phoenix_has_its_message(read):
    """And the time of the first part of a stream is that of its event."""
    asked = {"input.value": "Why?"}
    event = {"name": "First Token Stream Event", "timestamp": "2026-01-02T03:04:06.500000+00:00"}
    root = phoenix_span(1, status_code="ERROR", status_message="it broke", attributes=asked)
    model = phoenix_span(2, parent=1, kind="LLM", attributes=asked, events=[None, event])
    (trace,), _ = read(FORMATS["phoenix"], lines(root, model))

    assert ("it broke", 1.5) == (trace.error, trace.first_token_s)
